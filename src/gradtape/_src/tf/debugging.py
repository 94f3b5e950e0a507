"""`tf.debugging`: assertions about tensors. They return None, or raise what TensorFlow raises."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import require
from gradtape._src.arrays.dimensions import broadcast_shapes
from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.conversion import convert, has_dtype, operand
from gradtape._src.core.composites import dispatched
from gradtape._src.dtypes import DType, as_dtype, float32
from gradtape._src.inspect.live import LiveView as LiveView
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.ops import array, math, scatter
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer, static, text, truth
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _is_staged(*tensors: Tensor) -> bool:
    """Whether a check is left to the program that is being traced: because values are unknown, or it will fail."""
    return current_graph() is not None and not all(map(is_known, tensors))


def _described(letter: str, tensor: Tensor) -> str:
    return f"{letter} (shape={tensor.shape} dtype={tensor.dtype.name}) = "


# -- comparing two tensors -------------------------------------------------------------------------------------------
def assert_equal(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x == y everywhere.

    >>> tf.assert_equal([1, 2], [1, 2])
    """
    if x is not y:  # TensorFlow does not look at a tensor beside itself, which may have NaN
        _compare("==", math.equal, x, y, message, summarize)


def assert_none_equal(
    x: TensorLike, y: TensorLike, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x != y everywhere.

    >>> tf.debugging.assert_none_equal([1, 2], 3)
    """
    _compare("!=", math.not_equal, x, y, message, summarize)


def assert_less(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x < y everywhere.

    >>> tf.assert_less(1, [2, 3])
    """
    _compare("<", math.less, x, y, message, summarize)


def assert_less_equal(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x <= y everywhere.

    >>> tf.debugging.assert_less_equal([1, 2], 2)
    """
    _compare("<=", math.less_equal, x, y, message, summarize)


def assert_greater(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x > y everywhere.

    >>> tf.assert_greater([2, 3], 1)
    """
    _compare(">", math.greater, x, y, message, summarize)


def assert_greater_equal(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x >= y everywhere.

    >>> tf.debugging.assert_greater_equal([2, 1], 1)
    """
    _compare(">=", math.greater_equal, x, y, message, summarize)


@dispatched
def _compare(
    sign: str, test: Callable[[Any, Any], Tensor], x: Any, y: Any, message: str | None, summarize: int | None
) -> None:
    first, second = operand(x), operand(y)
    if first.dtype != second.dtype:
        raise errors.mismatched_dtypes({"==": "Equal", "!=": "NotEqual"}.get(sign, "Less"), first.dtype, second.dtype)
    condition = test(first, second)
    holds = condition.array if _is_staged(first, second) else np.asarray(condition.array)
    if type(holds) is np.ndarray and holds.all():
        return
    if current_graph() is not None:
        data = [f"Condition x {sign} y did not hold element-wise:"]
        data = data if message is None else [message, *data]
        shown = [_described("x", first), first.array, _described("y", second), second.array]
        require(condition.array, [*data, *shown], summarize)
        return
    a, b = np.asarray(first.array), np.asarray(second.array)
    most = 3 if summarize is None else a.size + b.size if summarize < 0 else summarize
    lines = [] if message is None else [message]
    lines.append(f"Condition x {sign} y did not hold.")
    if a.shape == b.shape and a.ndim:
        places = np.argwhere(~holds)[:most]
        at = tuple(places.T)
        lines += [
            f"Indices of first {len(places)} different values:",
            str(places),
            "Corresponding x values:",
            str(a[at]),
            "Corresponding y values:",
            str(b[at]),
        ]
    for letter, values in (("x", a), ("y", b)):
        lines += [f"First {min(most, values.size)} elements of {letter}:", str(values.reshape(-1)[:most])]
    raise errors.invalid_argument("\n".join(lines))


def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: Any = None,
    atol: Any = None,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless |x - y| <= atol + rtol * |y|; both tolerances default to 10 times the epsilon.

    >>> tf.debugging.assert_near([1.0], [1.0000001])
    """
    first = operand(x)
    second = convert(y, None if has_dtype(y) else first.dtype)
    if second.dtype != first.dtype:
        raise ValueError(
            f"Tensor conversion requested dtype {first.dtype.name} for Tensor with dtype {second.dtype.name}: "
            f"{second!r}"
        )
    if not (first.dtype.is_floating or first.dtype.is_complex):
        raise ValueError(f"data type {first.dtype.name} not inexact")
    default = 10 * _epsilon(first.array.dtype)
    relative, absolute = (default if t is None else _tolerance(t, first.dtype) for t in (rtol, atol))
    staged = _is_staged(first, second)
    a, b = (t.array if staged else np.asarray(t.array) for t in (first, second))
    try:
        broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise errors.incompatible_shapes("Sub", a.shape, b.shape) from None
    with float_errors_ignored():
        near = abs(a - b) <= absolute + relative * abs(b)
    if not staged and near.all():
        return
    if current_graph() is not None:
        sentence = f"x and y not equal to tolerance rtol = {relative}, atol = {absolute}"
        data = [message or "", sentence, _described("x", first), a, _described("y", second), b]
        require(near, data, summarize)
        return
    most = 3 if summarize is None else summarize
    raise errors.invalid_argument(
        f"{'' if message is None else message + '.  '}\n"
        f"x and y not equal to tolerance rtol = {relative}, atol = {absolute}\n"
        f"x (shape={a.shape} dtype={first.dtype.name}) = \n{_summary(a, most)}\n"
        f"y (shape={b.shape} dtype={second.dtype.name}) = \n{_summary(b, most)}"
    )


def _tolerance(given: Any, dtype: DType) -> float:
    tensor = convert(given, None if has_dtype(given) else dtype)
    if tensor.dtype != dtype:
        raise ValueError(
            f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {tensor.dtype.name}: {tensor!r}"
        )
    if tensor.array.shape:
        raise errors.incompatible_shapes("Mul", tensor.array.shape, ())
    return float(np.asarray(tensor.array).real)


def _epsilon(dtype: Any) -> float:
    if dtype.kind in "fc":
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _summary(values: Any, most: int) -> str:
    flat = values.reshape(-1)
    shown = flat if most < 0 else flat[:most]
    return ", ".join(str(v) for v in shown) + (", ..." if shown.size < flat.size else "")


# -- comparing with zero ---------------------------------------------------------------------------------------------
def assert_positive(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x > 0 everywhere.

    >>> tf.debugging.assert_positive([1.0, 0.0], message="sizes")
    Traceback (most recent call last):
        ...
    gradtape.errors.InvalidArgumentError: sizes.  ...
    """
    _compare_zero(">", x, message, summarize)


def assert_negative(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x < 0 everywhere.

    >>> tf.debugging.assert_negative([-1, -2])
    """
    _compare_zero("<", x, message, summarize)


def assert_non_negative(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x >= 0 everywhere.

    >>> tf.debugging.assert_non_negative([0, 1])
    """
    _compare_zero(">=", x, message, summarize)


def assert_non_positive(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise InvalidArgumentError unless x <= 0 everywhere.

    >>> tf.debugging.assert_non_positive([0, -1])
    """
    _compare_zero("<=", x, message, summarize)


_ZERO_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


def _compare_zero(sign: str, x: Any, message: str | None, summarize: int | None) -> None:
    tensor = operand(x)
    if tensor.dtype.is_bool or tensor.dtype.name == "string":
        raise TypeError(f"Cannot compare a tensor of {tensor.dtype.name} with 0.")
    if tensor.dtype.is_complex:
        raise errors.unsupported_dtype("Less", tensor.dtype, "fiu")
    staged = _is_staged(tensor)
    values = tensor.array if staged else np.asarray(tensor.array)
    holds = _ZERO_TESTS[sign](values, np.zeros((), values.dtype))
    if not staged and holds.all():
        return
    parts = [f"Condition x {sign} 0 did not hold element-wise:", _described("x", tensor)]
    if sign == "<=":  # TensorFlow omits a comma here
        parts = ["".join(parts)]
    parts.insert(0, "" if message is None else f"{message}.  ")
    if current_graph() is not None:
        require(holds, [*parts, values], summarize)
        return
    raise errors.invalid_argument("\n".join([*parts, str([str(v) for v in values.reshape(-1)[:3]])]))


# -- ranks and shapes ------------------------------------------------------------------------------------------------
def assert_rank(x: TensorLike, rank: Any, message: str | None = None, name: str | None = None) -> None:
    """Raise an error unless x has this rank.

    >>> tf.assert_rank([[1.0]], 2)
    """
    wanted = _rank(rank)
    _check_rank(x, lambda have: have == wanted, f"rank {wanted}", message)


def assert_rank_at_least(x: TensorLike, rank: Any, message: str | None = None, name: str | None = None) -> None:
    """Raise an error unless x has this rank or a higher one.

    >>> tf.debugging.assert_rank_at_least([[1, 2]], 2)
    """
    wanted = _rank(rank)
    _check_rank(x, lambda have: have >= wanted, f"rank at least {wanted}", message)


def assert_rank_in(x: TensorLike, ranks: Any, message: str | None = None, name: str | None = None) -> None:
    """Raise an error unless x has one of these ranks.

    >>> tf.debugging.assert_rank_in([1, 2], [1, 3])
    """
    if not isinstance(ranks, (list, tuple, set, frozenset, range)):
        raise TypeError(f"Expected a list of ranks for argument 'ranks', but got {ranks!r}.")
    wanted = tuple(_rank(r) for r in ranks)
    _check_rank(x, lambda have: have in wanted, f"rank in {wanted}", message)


def assert_scalar(tensor: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise ValueError unless the tensor is a scalar.

    >>> tf.debugging.assert_scalar(tf.constant([1]))
    Traceback (most recent call last):
        ...
    ValueError: Expected scalar shape, saw shape: (1,).
    """
    shape = convert(tensor).shape
    if shape.rank:
        raise ValueError(f"{message or ''}Expected scalar shape, saw shape: {shape}.")


def _rank(rank: Any) -> int:
    tensor = operand(rank)
    if tensor.dtype.name != "int32":
        raise TypeError(f"tensor must be of type tf.int32; got tf.{tensor.dtype.name}")
    plain = np.asarray(static(tensor))
    if plain.ndim:
        raise ValueError("Rank must be a scalar.")
    return integer(plain)


def _check_rank(x: Any, holds: Callable[[int], bool], words: str, message: str | None) -> None:
    shape = convert(x).shape
    have = len(shape.as_list())
    if not holds(have):
        raise ValueError(
            f"{'' if message is None else message + '.  '}Tensor  must have {words}.  Received rank {have}, "
            f"shape {shape}"
        )


def _axes_compared(tensor: Tensor, wanted: list[Any], message: str | None) -> tuple[list[Any], int]:
    """The sizes in a shape, and the first axis to compare them with, if the rank fits."""
    if wanted and _any_number(wanted[0]):
        assert_rank_at_least(tensor, len(wanted) - 1, message)
        return wanted[1:], len(tensor.array.shape) - len(wanted) + 1
    if len(wanted) > 1:
        assert_rank(tensor, len(wanted), message)
    else:  # a scalar is treated as a vector with one element, and vice versa
        assert_rank_in(tensor, (0, 1), message)
    return wanted, 0


def assert_shapes(
    shapes: Any,
    data: TensorLike | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Raise ValueError unless tensors have the given shapes; sizes under the same name must be equal.

    An entry of a shape is a size, a name for a size, or None or '.' for any size; '...' or '*' at the beginning stands
    for any number of axes.

    >>> tf.debugging.assert_shapes([([[1, 2], [3, 4], [5, 6]], ("N", 2)), ([7, 8, 9], ("N",))])
    """
    pairs = _pairs(shapes)
    prefix = "" if message is None else f"{message}.  "
    known: dict[str, tuple[int, str]] = {}
    for given, shape in pairs:
        tensor = convert(given.deref() if hasattr(given, "deref") else given)
        have, words = tuple(tensor.array.shape), f"shape={tensor.shape} dtype={tensor.dtype.name}"
        if not isinstance(shape, (int, Iterable)) and not hasattr(shape, "as_list"):
            raise ValueError(f"{prefix}Tensor {words}.  Specified shape must be an iterable.  Received: {shape!r}")
        wanted = [shape] if isinstance(shape, int) else list(shape.as_list() if hasattr(shape, "as_list") else shape)
        for i, size in enumerate(wanted):
            if i and _any_number(size):
                raise ValueError(
                    f"{prefix}Tensor {words} specified shape index {i}.  Symbol `...` or `*` for a variable number of "
                    "unspecified dimensions is only allowed as the first entry"
                )
        wanted, first = _axes_compared(tensor, wanted, message)
        sizes = have[first:] if len(have) - first == len(wanted) else (1,) * len(wanted)
        for i, (size, found) in enumerate(zip(wanted, sizes, strict=True), start=first):
            if size is None or size == ".":
                continue
            text = str(size)
            if text.lstrip("-").isdigit():
                expected, why = int(text), "Specified explicitly"
            elif text in known:
                expected, why = known[text]
            else:
                known[text] = found, f"Specified by tensor {words} dimension {i}"
                continue
            if found != expected:
                raise ValueError(
                    f"{prefix}{why}.  Tensor {words} dimension {i} must have size {expected}.  Received size {found}, "
                    f"shape {tensor.shape}"
                )


def _pairs(shapes: Any) -> list[tuple[Any, Any]]:
    if isinstance(shapes, Mapping):
        return list(shapes.items())
    if isinstance(shapes, (str, bytes, Tensor)) or not isinstance(shapes, Iterable):
        raise TypeError(f"Expected a list of pairs or a dict for argument 'shapes', but got {shapes!r}.")
    pairs = list(shapes)
    for pair in pairs:
        if not isinstance(pair, (list, tuple)):
            raise TypeError(f"Expected pairs of a tensor and its shape in argument 'shapes', but got {pair!r}.")
        if len(pair) != 2:
            raise ValueError(f"Expected pairs of a tensor and its shape in argument 'shapes', but got {pair!r}.")
    return pairs


def _any_number(size: Any) -> bool:
    return size is Ellipsis or size == "..." or size == "*"


# -- types -----------------------------------------------------------------------------------------------------------
def assert_type(tensor: TensorLike, tf_type: Any, message: str | None = None, name: str | None = None) -> None:
    """Raise TypeError unless the tensor has this dtype.

    >>> tf.debugging.assert_type(tf.constant(1.0), tf.float32)
    """
    have, wanted = convert(tensor).dtype, as_dtype(tf_type)
    if have != wanted:
        prefix = "" if message is None else f"{message}.  "
        raise TypeError(f"{prefix}tensor must be of type tf.{wanted.name}; got tf.{have.name}")


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise TypeError unless x has an integer dtype.

    >>> tf.debugging.assert_integer(tf.constant(1.5))
    Traceback (most recent call last):
        ...
    TypeError: Expected "x" to be integer type.  Found: tensor of dtype tf.float32
    """
    dtype = convert(x).dtype
    if not dtype.is_integer:
        raise TypeError(f'{message or ""}Expected "x" to be integer type.  Found: tensor of dtype {dtype!r}')


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> DType:
    """Check that all tensors have the same floating dtype, and return it (float32 if there are none).

    >>> tf.debugging.assert_same_float_dtype([tf.constant(1.0), tf.constant([2.0])])
    tf.float32
    """
    if dtype is not None and not isinstance(dtype, (DType, str, type, np.dtype)):
        raise ValueError(f"Expected floating point type, got {dtype!r}.")
    try:
        found = None if dtype is None else as_dtype(dtype)
    except TypeError:
        raise ValueError(f"Expected floating point type, got {dtype!r}.") from None
    first = None
    if not isinstance(tensors, (list, tuple)) and tensors is not None and truth(tensors):
        raise TypeError(f"Expected a list of tensors for argument 'tensors', but got {tensors!r}.")
    for tensor in tensors or ():
        if not hasattr(tensor, "dtype"):
            raise TypeError(f"Expected a list of tensors for argument 'tensors', but got {tensor!r} in it.")
        have = as_dtype(tensor.dtype)
        if found is None:
            found, first = have, tensor
        elif have != found:
            beside = "" if first is None else f" as {first}"
            raise ValueError(f"{tensor}, type={have!r}, must be of the same type ({found!r}){beside}.")
    found = float32 if found is None else found
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found!r}.")
    return found


def assert_proper_iterable(values: TensorLike) -> None:
    """Raise TypeError unless this is a list or another iterable; tensors, arrays and strings do not count.

    >>> tf.debugging.assert_proper_iterable([1, 2])
    """
    if isinstance(values, (Tensor, Variable, np.ndarray, bytes, str)):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not isinstance(values, Iterable):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


def is_numeric_tensor(tensor: TensorLike) -> bool:
    """Return whether this is a tensor of numbers.

    >>> tf.debugging.is_numeric_tensor(tf.constant(1.0)), tf.debugging.is_numeric_tensor(tf.constant("a"))
    (True, False)
    """
    return isinstance(tensor, Tensor) and not (tensor.dtype.is_bool or tensor.dtype.name == "string")


# -- values ----------------------------------------------------------------------------------------------------------
@dispatched
def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return the tensor after checking that it is finite; the backward pass checks its gradient too.

    >>> tf.debugging.check_numerics([1.0, 2.0], "x").numpy().tolist()
    [1.0, 2.0]
    """
    x = operand(tensor)
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("CheckNumerics", x.dtype, "bfloat16, half, float, double")
    result: Tensor = scatter.check_numerics(x, message=text(message, "message"))
    return result


def assert_all_finite(x: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return the tensor after checking that it has no NaN and no infinite values.

    >>> tf.debugging.assert_all_finite([1.0, float("nan")], "bad input")
    Traceback (most recent call last):
        ...
    gradtape.errors.InvalidArgumentError: bad input : Tensor had NaN values [Op:CheckNumerics]
    """
    return check_numerics(x, message)


def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> None:
    """Raise InvalidArgumentError with the data unless a condition holds; in a function, when the program runs.

    >>> tf.Assert(True, ["never shown"])
    >>> tf.Assert(False, ["x was", 3])
    Traceback (most recent call last):
        ...
    gradtape.errors.InvalidArgumentError: Expected 'False' to be true. Summarized data: b'x was'...
    """
    if current_graph() is None:
        if truth(condition):  # the truth value of any Python object, as in TensorFlow
            return
    else:
        given = operand(condition)
        if not _is_staged(given) and truth(condition):
            return
        holds = array.astype(given, dtype=np.dtype(bool), source=given.array.dtype)
        require(holds.array, [d if isinstance(d, str) else convert(d).array for d in data], summarize)
        return
    most = 3 if summarize is None else summarize
    shown = "\n".join(_summary(np.asarray(convert(d).array), most) for d in data)
    raise errors.invalid_argument(f"Expected '{condition!s}' to be true. Summarized data: {shown}")


# -- every op checked ------------------------------------------------------------------------------------------------
def enable_check_numerics(stack_height_limit: int | None = 30, path_length_limit: int | None = 50) -> None:
    """Check the result of every op in every thread, and raise an error if it is NaN or infinite.

    The backward pass is checked too. The error names the op, its values, the source line and the likely cause; it shows
    `stack_height_limit` lines of the call stack and `path_length_limit` characters of every path. Ops that only move
    numbers (reshape, concat, gather, ...) are not checked. When disabled, it costs nothing.

    >>> import gradtape as tf
    >>> tf.debugging.enable_check_numerics()
    >>> try:
    ...     tf.math.log([1.0, 0.0])
    ... except tf.errors.InvalidArgumentError as error:
    ...     print(error.origin.message)
    log(0) gave -Inf at [1]
    >>> tf.debugging.disable_check_numerics()
    """
    from gradtape._src.inspect import numerics

    numerics.enable_check_numerics(stack_height_limit, path_length_limit)


def disable_check_numerics() -> None:
    """Undo `enable_check_numerics`; does nothing if it was not enabled.

    >>> tf.debugging.enable_check_numerics()
    >>> tf.debugging.disable_check_numerics()
    >>> tf.math.log(0.0).numpy()
    np.float32(-inf)
    """
    from gradtape._src.inspect import numerics

    numerics.disable_check_numerics()


# -- switches of TensorFlow's runtime without an effect here ---------------------------------------------------------
_switches = {"traceback_filtering": True, "device_placement": False}


def enable_traceback_filtering() -> None:
    """Stored for compatibility; gradtape does not filter tracebacks.

    >>> tf.debugging.enable_traceback_filtering()
    >>> tf.debugging.is_traceback_filtering_enabled()
    True
    """
    _switches["traceback_filtering"] = True


def disable_traceback_filtering() -> None:
    """Undo `enable_traceback_filtering`.

    >>> tf.debugging.disable_traceback_filtering()
    >>> tf.debugging.is_traceback_filtering_enabled()
    False
    >>> tf.debugging.enable_traceback_filtering()
    """
    _switches["traceback_filtering"] = False


def is_traceback_filtering_enabled() -> bool:
    """Return the current setting.

    >>> tf.debugging.is_traceback_filtering_enabled()
    True
    """
    return _switches["traceback_filtering"]


def set_log_device_placement(enabled: bool) -> None:
    """Stored for compatibility; gradtape does not log device placement.

    >>> tf.debugging.set_log_device_placement(False)
    """
    _switches["device_placement"] = bool(enabled)


def get_log_device_placement() -> bool:
    """Return the current setting.

    >>> tf.debugging.get_log_device_placement()
    False
    """
    return _switches["device_placement"]


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    "Assert",
    "LiveView",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_shapes",
    "assert_type",
    "check_numerics",
    "disable_check_numerics",
    "disable_traceback_filtering",
    "enable_check_numerics",
    "enable_traceback_filtering",
    "get_log_device_placement",
    "is_numeric_tensor",
    "is_traceback_filtering_enabled",
    "set_log_device_placement",
]


def __dir__() -> list[str]:
    return list(__all__)
