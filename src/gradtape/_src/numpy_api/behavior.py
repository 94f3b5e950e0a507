"""`experimental_enable_numpy_behavior`: NumPy's methods and promotion for all tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.call_sites import logger
from gradtape._src.conversion import defers_to
from gradtape._src.dtypes import as_dtype
from gradtape._src.numpy_api import elementwise, reductions, shapes, types
from gradtape._src.numpy_api.types import is_weak, numpy_result_type, sizes, tensor
from gradtape._src.ops import operators
from gradtape._src.ops.indexing import get_item
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.array import cast
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

MODES = ("off", "legacy", "safe", "all")


def experimental_enable_numpy_behavior(prefer_float32: bool = False, dtype_conversion_mode: str = "legacy") -> None:
    """Give tensors NumPy's methods (`.T`, `.reshape`, `.astype`, …), indexing and promotion, for the whole process.

    Args:
      prefer_float32: Whether Python's numbers are int32 and float32 in NumPy's functions, instead of 64 bits.
      dtype_conversion_mode: `"legacy"` promotes as NumPy does, `"off"` not at all. `"safe"` and `"all"` promote only
        within 32 and 64 bits: Python's numbers never widen, and `"safe"` refuses what loses precision.
    """
    if dtype_conversion_mode not in MODES:
        raise ValueError(f"dtype_conversion_mode must be one of {list(MODES)}. Received: {dtype_conversion_mode!r}")
    types.prefer_float32(bool(prefer_float32))
    operators.extend(Tensor, _members())
    if dtype_conversion_mode != "off":
        for kind in (Tensor, Variable):
            operators.promote_operands(kind, _PROMOTIONS[dtype_conversion_mode])
    logger().debug("NumPy behavior is enabled for tensors")


# -- methods ---------------------------------------------------------------------------------------------------------
def _reshape(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    shape = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple, Tensor)) else args
    return shapes.reshape(self, kwargs.get("newshape", shape), kwargs.get("order", "C"))


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
    return shapes.transpose(self, order)


def _members() -> dict[str, Any]:
    """The attributes added to tensors."""
    return {
        "T": property(lambda self: shapes.transpose(self)),
        "astype": lambda self, dtype: cast(self, dtype),
        "clip": lambda self, a_min=None, a_max=None: elementwise.clip(self, a_min, a_max),
        "data": property(lambda self: self),
        "flatten": lambda self, order="C": shapes.flatten(self, order),
        "max": lambda self, axis=None, keepdims=None: reductions.max(self, axis, keepdims),
        "mean": lambda self, axis=None, dtype=None, out=None, keepdims=None: reductions.mean(
            self, axis, dtype, out, keepdims
        ),
        "min": lambda self, axis=None, keepdims=None: reductions.min(self, axis, keepdims),
        "ravel": lambda self: shapes.ravel(self),
        "reshape": _reshape,
        "size": property(lambda self: shapes.size(self)),
        "tolist": lambda self: self.numpy().tolist(),
        "transpose": _transpose,
        "__getitem__": _get_item,
    }


# -- indexing --------------------------------------------------------------------------------------------------------
def _get_item(self: Tensor, key: Any) -> Tensor:
    """NumPy's indexing: lists and arrays of positions are combined elementwise."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(_is_positions(part) for part in parts):
        return get_item(self, key)
    rank = int(self.shape.rank or 0)
    full: list[Any] = []
    for part in parts:
        if part is Ellipsis:
            used = sum(1 for other in parts if other is not None and other is not Ellipsis)
            full += [slice(None)] * (rank - used)
        else:
            full.append(part)
    return _picked(self, full)


def _is_positions(part: Any) -> bool:
    if isinstance(part, (list, tuple, range, np.ndarray)):
        return True
    return isinstance(part, (Tensor, Variable)) and bool(part.shape.rank)


def _is_position(part: Any) -> bool:
    """Whether a part is a single position, which removes its axis."""
    return isinstance(part, (int, np.integer)) or (isinstance(part, (Tensor, Variable)) and part.shape.rank == 0)


def _picked(x: Tensor, parts: list[Any]) -> Tensor:
    """Apply slices first, then the positions of all axes that have some."""
    plain = tuple(slice(None) if _is_positions(part) else part for part in parts)
    axes, lists, axis = [], [], 0
    for part in parts:
        if _is_positions(part):
            places = tensor(list(part) if isinstance(part, range) else part)
            places = array.where(places)[:, 0] if places.dtype.is_bool and places.shape.rank == 1 else places
            if places.dtype.is_bool:
                return get_item(x, places)
            axes.append(axis)
            lists.append(cast(places, "int64"))
        if not _is_position(part):
            axis += 1
    x = get_item(x, plain)
    lengths = [sizes(x)[each] for each in axes]
    lists = [array.where(places < 0, places + n, places) for places, n in zip(lists, lengths, strict=True)]
    together = shapes.broadcast_arrays(*lists)
    moved = shapes.moveaxis(x, axes, list(range(len(axes))))
    found = array.gather_nd(moved, array.stack(together, -1))
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return found
    count = int(together[0].shape.rank or 0)
    return shapes.moveaxis(found, list(range(count)), list(range(axes[0], axes[0] + count)))


# -- promotion -------------------------------------------------------------------------------------------------------
def _legacy(x: Any, y: Any) -> tuple[Any, Any]:
    """Operands in NumPy's common dtype."""
    if type(x) in defers_to or type(y) in defers_to:
        return x, y
    wanted = numpy_result_type(x, y)
    return tensor(x, wanted), tensor(y, wanted)


def _lattice(safe: bool) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Promotion in which Python's numbers are weak, and floating dtypes do not widen with integers."""

    def promote(x: Any, y: Any) -> tuple[Any, Any]:
        if type(x) in defers_to or type(y) in defers_to:
            return x, y
        given = [value if is_weak(value) else tensor(value) for value in (x, y)]
        wanted = _joined(*given)
        if safe and not _is_safe(given, wanted):
            shown = [f"({tensor(value).dtype!r}, weak={is_weak(value)})" for value in given]
            raise TypeError(
                f"In promotion mode PromoMode.SAFE, implicit dtype promotion between {shown[0]} and {shown[1]} is "
                "disallowed. You need to explicitly specify the dtype in your op, or relax your dtype promotion rules "
                "(such as from SAFE mode to ALL mode)."
            )
        return tensor(given[0], wanted), tensor(given[1], wanted)

    return promote


def _joined(x: Any, y: Any) -> Any:
    """The common dtype."""
    if is_weak(x) or is_weak(y):
        number, other = (x, y) if is_weak(x) else (y, x)
        return _beside(number, other.dtype)
    for one, other in ((x.dtype, y.dtype), (y.dtype, x.dtype)):
        if not one.is_integer and not one.is_bool and (other.is_integer or other.is_bool):
            return one
    if {x.dtype.name, y.dtype.name} == {"float16", "bfloat16"}:
        return as_dtype("float32")
    return as_dtype(np.result_type(x.dtype.numpy_dtype, y.dtype.numpy_dtype))


def _beside(number: Any, dtype: Any) -> Any:
    """The dtype of a Python number with a tensor of a dtype."""
    if isinstance(number, complex):
        narrow = dtype.is_complex or (dtype.is_floating and dtype.size < 8)
        return dtype if dtype.is_complex else as_dtype("complex64" if narrow else "complex128")
    if isinstance(number, float) and dtype.is_integer:
        return as_dtype("float64")
    if dtype.is_bool and not isinstance(number, bool):
        return as_dtype("float32" if isinstance(number, float) else "int32")
    return dtype


_EXACT = {"float16": 8, "bfloat16": 8, "float32": 16, "float64": 32, "complex64": 16, "complex128": 32}
"""The widest integers that a dtype accepts in the mode "safe"."""


def _is_safe(given: list[Any], wanted: Any) -> bool:
    """Whether no operand loses precision, and the common dtype is one of theirs."""
    arrays = [value.dtype for value in given if not is_weak(value)]
    numbers = [value for value in given if is_weak(value)]
    if any(dtype.is_integer and dtype.size * 8 > _EXACT.get(wanted.name, 64) for dtype in arrays):
        return False
    if not numbers:
        return wanted in arrays
    if isinstance(numbers[0], complex):
        return not (arrays[0].is_floating and arrays[0].size < 8)
    return not (isinstance(numbers[0], float) and arrays[0].is_integer)


_PROMOTIONS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "legacy": _legacy,
    "safe": _lattice(safe=True),
    "all": _lattice(safe=False),
}
