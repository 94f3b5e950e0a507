"""Python's operators on tensors: the primitives themselves, attached to the class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.checks import Interval, Rule, checked
from gradtape._src.arrays.dimensions import broadcast_shapes
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import defers_to, has_dtype, hinted_operands, operand, operands, wrap
from gradtape._src.core.composites import NotDenseError, call_on_composites
from gradtape._src.core.dispatch import as_operator, defers
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.ops import array, linalg, math
from gradtape._src.ops.indexing import get_item
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.typing import Binary, Operand

Operator = Callable[..., Any]

_divide = as_operator(math.divide)


def true_divide(x: Operand, y: Operand, name: str | None = None) -> Tensor:
    """Compute x / y; integers are converted to float64 (small ones to float32), as in TensorFlow.

    >>> tf.math.truediv(7, 2)
    <tf.Tensor: shape=(), dtype=float64, numpy=3.5>
    """
    try:
        return _quotient(*hinted_operands(x, y))
    except NotDenseError:
        return call_on_composites("true_divide", true_divide, (x, y), {})


def _divide_operator(x: Any, y: Any) -> Any:
    if type(x) is Tensor and x.array.dtype.kind == "f":
        try:
            return _divide(x, y)
        except (errors.InvalidArgumentError, TypeError, ValueError):
            pass  # the general path raises TensorFlow's error
    if defers(y, "__rtruediv__"):
        return NotImplemented
    return _quotient(*(hinted_operands(x, y) if has_dtype(x) else operands(x, y)))


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    kind = x.array.dtype.kind
    if x.array.dtype != y.array.dtype:
        raise TypeError(f"`x` and `y` must have the same dtype, got {x.dtype!r} != {y.dtype!r}.")
    if kind in "bO":
        raise TypeError(
            f"Invalid dtype {x.dtype!r} in __truediv__. Expected an integer, floating or complex dtype: use tf.cast."
        )
    if kind in "iu":
        wide = np.dtype(np.float64 if x.array.dtype.itemsize > 2 else np.float32)
        x, y = (wrap(t.array.astype(wide)) for t in (x, y))
    return math.divide(x, y)


def floor_divide(x: Operand, y: Operand, name: str | None = None) -> Tensor:
    """Divide, rounding toward minus infinity.

    >>> tf.math.floordiv([7, -7], 2).numpy().tolist()
    [3, -4]
    """
    return _integer_checked(math.floor_divide, x, y, "FloorDiv")


def floor_mod(x: Operand, y: Operand, name: str | None = None) -> Tensor:
    """Compute the remainder of floor division, which has the sign of the divisor.

    >>> tf.math.floormod([7, -7], 3).numpy().tolist()
    [1, 2]
    """
    return _integer_checked(math.mod, x, y, "FloorMod")


def _integer_checked(function: Binary, x: Any, y: Any, op: str) -> Tensor:
    try:
        x, y = operands(x, y)
    except NotDenseError:
        return call_on_composites("floor", lambda x, y: _integer_checked(function, x, y, op), (x, y), {})
    whole = x.array.dtype.kind in "iu" and y.array.dtype == x.array.dtype
    if op == "FloorDiv" and x.array.dtype.kind == "c" and y.array.dtype == x.array.dtype:
        raise errors.no_kernel(op, x.dtype)
    return function(x, no_zeros(x, y, op)) if whole else function(x, y)


def no_zeros(x: Tensor, y: Tensor, op: str) -> Tensor:
    """Return the divisor of x, in which integers must not be zero (unless the result is empty)."""
    if not x.dtype.is_integer or 0 in x.array.shape:
        return y
    if op.startswith("Truncate"):  # TensorFlow reports incompatible shapes first, with another class
        try:
            broadcast_shapes(x.array.shape, y.array.shape)
        except ValueError:
            raise errors.incompatible_shapes(op, x.array.shape, y.array.shape) from None
    return checked(_NO_ZEROS, y, op=op)


def _is_zero(xp: Any, y: Any, **_: Any) -> Any:
    return y == 0


def _division_by_zero(y: Any, op: str) -> Exception:
    if op.startswith("Truncate"):  # TensorFlow's term
        sentence = "Unexpected error in binary operator (only integer div and mod should have errors)"
        return errors.InternalError(None, None, f"{sentence}: Integer division by zero [Op:{op}]")
    return errors.invalid_argument("Integer division by zero", op)


def _has_no_zero(interval: Interval, **_: Any) -> bool:
    return interval[0] > 0 or interval[1] < 0


_NO_ZEROS = Rule(_is_zero, _division_by_zero, _has_no_zero)


def without_kernel(x: Tensor, op: str) -> Tensor:
    """Reject the dtype of x. As in TensorFlow, a function with such an op can be traced and fails when it runs."""
    if current_graph() is None:
        raise errors.no_kernel(op, x.dtype)
    return checked(_NO_KERNEL, x, op=op)


def _always(xp: Any, x: Any, op: str) -> Any:
    return xp.asarray(True)


def _kernel_missing(x: Any, op: str) -> Exception:
    sentence = str(errors.no_kernel(op, as_dtype(x.dtype)))
    return errors.InvalidArgumentError(None, None, sentence)


_NO_KERNEL = Rule(_always, _kernel_missing)


def _is_negative(xp: Any, y: Any) -> Any:
    return y < 0


def _negative_power(y: Any) -> Exception:
    return errors.invalid_argument("Integers to negative integer powers are not allowed", "Pow")


_NO_NEGATIVES = Rule(_is_negative, _negative_power, lambda interval: interval[0] >= 0)


def power(x: Operand, y: Operand, name: str | None = None) -> Tensor:
    """Compute x to the power of y, elementwise.

    >>> tf.pow(2.0, [1.0, 3.0]).numpy().tolist()
    [2.0, 8.0]
    """
    try:
        x, y = operands(x, y)
    except NotDenseError:
        return call_on_composites("power", power, (x, y), {})
    except ValueError:
        if isinstance(x, Tensor) and x.dtype.is_bool and current_graph() is not None:  # a trace looks at x before y
            raise errors.unsupported_dtype("Pow", x.dtype, "fci") from None
        raise
    whole = x.array.dtype.kind == "i" and y.array.dtype == x.array.dtype
    return math.power(x, checked(_NO_NEGATIVES, y)) if whole and 0 not in x.array.shape else math.power(x, y)


def _method(function: Operator, name: str) -> Operator:
    """Make an operator of a function of two operands; it defers to a foreign operand that implements its own."""
    reflected = f"__r{name}__"

    def method(x: Any, y: Any) -> Any:
        return NotImplemented if defers(y, reflected) else function(x, y)

    return method


def _truth(logical: Operator, bitwise: Operator) -> Operator:
    def function(x: Any, y: Any) -> Any:
        x, y = operands(x, y)
        return (logical if x.array.dtype.kind == "b" else bitwise)(x, y)

    return function


def _invert(x: Any) -> Any:
    x = operand(x)
    return math.logical_not(x) if x.array.dtype.kind == "b" else math.invert(x)


def _comparison(function: Operator) -> Operator:
    def method(x: Any, y: Any) -> Any:
        return NotImplemented if type(y) is Batched else function(x, y)

    return method


def _equality(function: Operator, otherwise: bool) -> Operator:
    """== and !=: elementwise, except a Python bool for None and one scalar for shapes that do not broadcast."""

    def method(x: Any, y: Any) -> Any:
        if y is None:
            return otherwise
        if type(y) is Batched or type(y) in defers_to:
            return NotImplemented
        x, y = operands(x, y)
        try:
            broadcast_shapes(x.array.shape, y.array.shape)
        except ValueError:
            if x.array.dtype == y.array.dtype:
                return wrap(np.array(otherwise))
        return function(x, y)

    return method


def _iterate(x: Any) -> Iterator[Any]:
    x = operand(x)
    if not x.array.shape:
        raise TypeError("Cannot iterate over a scalar tensor.")
    return iter(array.unstack(x, axis=0)) if x.array.shape[0] else iter(())


def reflected(function: Operator) -> Operator:
    """Return the operator with its operands swapped."""

    def method(self: Any, other: Any) -> Any:
        return function(other, self)

    return method


BINARY: dict[str, Operator] = {
    "add": as_operator(math.add),
    "sub": as_operator(math.subtract),
    "mul": as_operator(math.multiply),
    "truediv": _divide_operator,
    "floordiv": _method(floor_divide, "floordiv"),
    "mod": _method(floor_mod, "mod"),
    "pow": _method(power, "pow"),
    "matmul": linalg.matmul_operator,
    "and": _method(_truth(math.logical_and, math.bitwise_and), "and"),
    "or": _method(_truth(math.logical_or, math.bitwise_or), "or"),
    "xor": _method(_truth(math.logical_xor, math.bitwise_xor), "xor"),
}
COMPARISON: dict[str, Operator] = {
    "lt": _comparison(math.less),
    "le": _comparison(math.less_equal),
    "gt": _comparison(math.greater),
    "ge": _comparison(math.greater_equal),
}


def attach(kind: type) -> None:
    """Add all operators of tensors to a class."""
    for name, function in BINARY.items():
        setattr(kind, f"__{name}__", function)
        setattr(kind, f"__r{name}__", reflected(function))
    for name, function in COMPARISON.items():
        setattr(kind, f"__{name}__", function)
    others: dict[str, Operator] = {
        "eq": _equality(math.equal, False),
        "ne": _equality(math.not_equal, True),
        "neg": lambda x: math.negative(x),
        "abs": lambda x: math.absolute(x),
        "invert": _invert,
        "iter": _iterate,
        "getitem": get_item,
    }
    for name, function in others.items():
        setattr(kind, f"__{name}__", function)
    # Names of Python 2, which libraries that wrap tensors look up in the class.
    kind.__div__, kind.__rdiv__ = _old_divide, reflected(_old_divide)  # type: ignore[attr-defined]
    if kind is Tensor:  # variables do not have it, as in TensorFlow
        kind.OVERLOADABLE_OPERATORS = OVERLOADABLE  # type: ignore[attr-defined]


OVERLOADABLE = frozenset(
    f"__{name}__"
    for name in (*BINARY, *(f"r{name}" for name in BINARY), *COMPARISON, "div", "rdiv", "eq", "ne", "neg", "abs",
                 "invert", "getitem")
)  # fmt: skip
"""The operators of a tensor that TensorFlow lets other classes take over."""


def _old_divide(x: Any, y: Any) -> Any:
    """Division as in Python 2: integers are rounded down."""
    dtype = (x if isinstance(getattr(x, "dtype", None), DType) else y).dtype
    return BINARY["floordiv" if dtype.is_integer else "truediv"](x, y)


def read_operands(kind: type) -> None:
    """Make the operators that a class of variables inherits use what its own `value()` returns."""
    for name in OVERLOADABLE - {"__eq__", "__ne__", "__getitem__"}:
        if name not in vars(kind):
            setattr(kind, name, _of_value(getattr(kind, name)))


def _of_value(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        return function(self.value(), *others)

    return method


def extend(kind: type, members: dict[str, Any]) -> None:
    """Add methods and properties to a class of tensors."""
    for name, member in members.items():
        setattr(kind, name, member)


def promote_operands(kind: type, promote: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    """Make the operators of a class promote their operands to a common dtype."""
    compared = {"eq": _equality(math.equal, False), "ne": _equality(math.not_equal, True)}
    for name, function in (BINARY | COMPARISON | compared).items():
        promoting = _promoting(function, promote)
        setattr(kind, f"__{name}__", promoting)
        if name in BINARY:
            setattr(kind, f"__r{name}__", reflected(promoting))


def _promoting(function: Operator, promote: Callable[[Any, Any], tuple[Any, Any]]) -> Operator:
    def method(x: Any, y: Any) -> Any:
        if y is None or type(y) is Batched or type(y) in defers_to:
            return function(x, y)
        return function(*promote(x, y))

    return method


attach(Tensor)
