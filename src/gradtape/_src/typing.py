"""Types that only type checkers use: import them under `TYPE_CHECKING`.

The op builders of `core/dispatch.py` return functions that are written once for all ops; these protocols are the
signatures of those functions, so that `tf.tanh(x)` is a `Tensor` to mypy and pyright.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from gradtape._src.indexed_slices import IndexedSlices
    from gradtape._src.ops.sparse_tensor import SparseTensor
    from gradtape._src.tensor import Tensor
    from gradtape._src.variable import Variable

    TensorLike: TypeAlias = Tensor | Variable | ArrayLike | Sequence["TensorLike"]
    """What ops convert to a tensor: tensors, variables, arrays, numbers, and nested sequences of them."""

    Operand: TypeAlias = TensorLike | IndexedSlices
    """What elementwise ops and operators take; gradients of lookups are among them."""

    Axes: TypeAlias = int | Sequence[int] | TensorLike | None
    """The axes to reduce: one, several, or all."""


class OpCall(Protocol):
    """The call of a primitive: tensors by position, static arguments by name."""

    __name__: str

    def __call__(self, *inputs: Any, **attrs: Any) -> Tensor: ...


class OpCallOfMany(Protocol):
    """The call of a primitive that has several outputs."""

    __name__: str

    def __call__(self, *inputs: Any, **attrs: Any) -> tuple[Tensor, ...]: ...


class Unary(Protocol):
    """The call of an elementwise op of one tensor."""

    __name__: str

    @overload
    def __call__(self, x: Operand, name: str | None = None) -> Tensor: ...
    @overload
    def __call__(self, x: SparseTensor, name: str | None = None) -> SparseTensor: ...


class Activation(Protocol):
    """The call of an elementwise op of one tensor, which TensorFlow calls `features`."""

    __name__: str

    @overload
    def __call__(self, features: Operand, name: str | None = None) -> Tensor: ...
    @overload
    def __call__(self, features: SparseTensor, name: str | None = None) -> SparseTensor: ...


class Binary(Protocol):
    """The call of an elementwise op of two tensors."""

    __name__: str

    def __call__(self, x: Operand, y: Operand, name: str | None = None) -> Tensor: ...


class Reduction(Protocol):
    """A reduction along axes, all of them by default."""

    __name__: str

    def __call__(
        self, input_tensor: Operand, axis: Axes = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor: ...
