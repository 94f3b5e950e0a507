"""Types that only type checkers use: import them under `TYPE_CHECKING`.

The op builders of `core/dispatch.py` return functions that are written once for all ops; these protocols are the
signatures of those functions, so that `tf.tanh(x)` is a `Tensor` to mypy and pyright.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import ndarray
    from numpy.typing import ArrayLike

    from gradtape._src.function.concrete import ConcreteFunction
    from gradtape._src.indexed_slices import IndexedSlices
    from gradtape._src.ops.ragged.tensor import RaggedTensor
    from gradtape._src.ops.sparse_tensor import SparseTensor
    from gradtape._src.tensor import Tensor
    from gradtape._src.tf.tensor_array import TensorArray
    from gradtape._src.variable import Variable

    TensorLike: TypeAlias = Tensor | Variable | ArrayLike | Sequence["TensorLike"]
    """Values that ops convert to a tensor: tensors, variables, arrays, numbers, and nested sequences of them."""

    Operand: TypeAlias = TensorLike | IndexedSlices
    """Operands of elementwise ops and operators, which include gradients of lookups."""

    Source: TypeAlias = Tensor | Variable
    """What a tape differentiates with respect to."""

    Gradient: TypeAlias = Tensor | Any
    """A derivative: a tensor, or None if the target does not depend on the source.

    `Tensor | None` would be a type error in every program that uses a gradient without a test for None. With
    `Tensor | Any` a checker still reports attributes that tensors do not have, and accepts the test, as in typeshed's
    annotations of `re.Match`.
    """

    Leaf: TypeAlias = Tensor | Variable | float | complex | ndarray
    """One value in the structures of loops and maps: a list of leaves is several values, not a tensor."""

    Structure: TypeAlias = list[Any] | tuple[Any, ...] | Mapping[Any, Any]
    """Several values."""

    TensorTree: TypeAlias = (
        Tensor | SparseTensor | RaggedTensor | TensorArray | Sequence["TensorTree"] | Mapping[Any, "TensorTree"]
    )
    """A tensor or a structure of tensors, without Python numbers: loops return what they carry with the same type."""

    TensorStructure: TypeAlias = Sequence[TensorTree] | Mapping[Any, TensorTree]
    """A structure of tensors."""

    Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | ndarray | Tensor | None
    """The axes to reduce: one, several, or all."""

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
Several = TypeVar("Several", bound="TensorStructure")
_Q = ParamSpec("_Q")


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
    """The call of an elementwise op of one tensor, whose parameter is `features` in TensorFlow."""

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


class Fold(Protocol):
    """`tf.foldl` and `tf.foldr`: the result has the type of the initializer, or else of the elements.

    There are no separate overloads for a tensor and for a structure: mypy would choose neither for a lambda.
    """

    __name__: str

    @overload
    def __call__(
        self,
        fn: Callable[[Tensor, Tensor], Any],
        elems: Leaf,
        initializer: Leaf | None = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Tensor: ...
    @overload
    def __call__(
        self,
        fn: Callable[[Several, Several], Any],
        elems: Several,
        initializer: None = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Several: ...
    @overload
    def __call__(
        self,
        fn: Callable[[Several, Any], Any],
        elems: Any,
        initializer: Several,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Several: ...
    @overload
    def __call__(
        self,
        fn: Callable[[Tensor, Any], Any],
        elems: Structure,
        initializer: Leaf,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Tensor: ...
    @overload
    def __call__(
        self,
        fn: Callable[[Any, Any], Any],
        elems: Structure,
        initializer: None = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        fn: Callable[[Any, Any], Any],
        elems: Any,
        initializer: Structure,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Any: ...


class PolymorphicFunction(Protocol[P, R_co]):
    """The result of `tf.function`: it has the same parameters and result as the function."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __get__(self, instance: None, owner: type) -> PolymorphicFunction[P, R_co]: ...
    @overload
    def __get__(
        self: PolymorphicFunction[Concatenate[Any, _Q], R], instance: object, owner: type
    ) -> PolymorphicFunction[_Q, R]: ...
    @property
    def python_function(self) -> Callable[..., Any]: ...
    @property
    def input_signature(self) -> tuple[Any, ...] | None: ...
    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction: ...
    def experimental_get_tracing_count(self) -> int: ...
    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str: ...
    def summary(self) -> str: ...


if TYPE_CHECKING:

    class Operators:
        """The operators of tensors and variables, which `ops/operators.py` attaches: they are the ops themselves."""

        def __add__(self, other: Operand) -> Tensor: ...
        def __radd__(self, other: Operand) -> Tensor: ...
        def __sub__(self, other: Operand) -> Tensor: ...
        def __rsub__(self, other: Operand) -> Tensor: ...
        def __mul__(self, other: Operand) -> Tensor: ...
        def __rmul__(self, other: Operand) -> Tensor: ...
        def __truediv__(self, other: Operand) -> Tensor: ...
        def __rtruediv__(self, other: Operand) -> Tensor: ...
        def __floordiv__(self, other: Operand) -> Tensor: ...
        def __rfloordiv__(self, other: Operand) -> Tensor: ...
        def __mod__(self, other: Operand) -> Tensor: ...
        def __rmod__(self, other: Operand) -> Tensor: ...
        def __pow__(self, other: Operand) -> Tensor: ...
        def __rpow__(self, other: Operand) -> Tensor: ...
        def __matmul__(self, other: Operand) -> Tensor: ...
        def __rmatmul__(self, other: Operand) -> Tensor: ...
        def __and__(self, other: Operand) -> Tensor: ...
        def __rand__(self, other: Operand) -> Tensor: ...
        def __or__(self, other: Operand) -> Tensor: ...
        def __ror__(self, other: Operand) -> Tensor: ...
        def __xor__(self, other: Operand) -> Tensor: ...
        def __rxor__(self, other: Operand) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __lt__(self, other: Operand) -> Tensor: ...
        def __le__(self, other: Operand) -> Tensor: ...
        def __gt__(self, other: Operand) -> Tensor: ...
        def __ge__(self, other: Operand) -> Tensor: ...
