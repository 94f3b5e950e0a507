"""Numbers of each distribution from a stream, whether an op with a state, a seed, or a generator provides it."""

from __future__ import annotations

import math as _math
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.arrays.dimensions import broadcast_shapes
from gradtape._src.conversion import constant_operand, convert, has_dtype, operand, wrap
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.ops import array, math, random as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer, shape_of, static
from gradtape._src.tf.random.streams import Array, Shape, Source, for_rows, refuse_rows, run_kernel
from gradtape._src.variable import Variable

_FLOATS = ("float16", "bfloat16", "float32", "float64")

BLOCKS_PER_NUMBER = 256  # the blocks reserved for one number


def checked_shape(shape: Any, op: str) -> Shape:
    if isinstance(shape, np.ndarray) and shape.dtype.kind == "f":
        raise errors.unsupported_dtype(op, as_dtype(shape.dtype), "int32, int64")
    plain = shape_of(shape, op, "T")
    if not isinstance(shape, (list, tuple)) and np.ndim(static(shape)) == 0:
        raise errors.invalid_argument("shape must be a vector of {int32,int64}, got shape []", op)
    for n in plain:
        if n < 0:
            raise errors.invalid_argument(f"Dimension {n} must be >= 0", op)
    return plain


def _floating(dtype: Any, op: str) -> DType:
    kind = as_dtype("float32" if dtype is None else dtype)
    if kind.name not in _FLOATS:
        raise errors.invalid_argument(
            f"Value for attr 'dtype' of {kind.word} is not in the list of allowed values: half, bfloat16, "
            "float, double",
            op,
        )
    return kind


def draw_numbers(kernel: str, op: Any, source: Source, shape: Shape, dtype: DType) -> Tensor:
    return for_rows(
        shape,
        source,
        lambda full: run_kernel(
            kernel, source((op, dtype.name), BLOCKS_PER_NUMBER * _math.prod(full)), shape=full, dtype=dtype.numpy_dtype
        ),
    )


def _index_kind(shape: Any) -> str:
    """The dtype of a shape, which is part of an op's identity."""
    dtype = getattr(shape, "dtype", None)
    return "int32" if dtype is None else as_dtype(dtype).name


def draw_normal(source: Source, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    where = checked_shape(shape, op)
    kind = as_dtype("float32" if dtype is None else dtype)
    is_standard = type(mean) in (int, float) and type(stddev) in (int, float) and (mean, stddev) == (0, 1)
    mean, stddev = _parameter(mean, kind), _parameter(stddev, kind)
    _check_parameters(where, mean, stddev)
    numbers = draw_numbers("random_normal", (op, _index_kind(shape)), source, where, _floating(kind, op))
    return watchable(numbers if is_standard else numbers * stddev + mean)


def draw_truncated_normal(source: Source, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    where = checked_shape(shape, op)
    kind = as_dtype("float32" if dtype is None else dtype)
    mean, stddev = _parameter(mean, kind), _parameter(stddev, kind)
    _check_parameters(where, mean, stddev)
    return watchable(
        draw_numbers("random_truncated", (op, _index_kind(shape)), source, where, _floating(kind, op)) * stddev + mean
    )


def _check_parameters(shape: Shape, *parameters: Tensor) -> None:
    """Raise an error for parameters that do not broadcast, before any number is drawn."""
    full = shape
    for parameter in parameters:
        try:
            full = broadcast_shapes(full, parameter.array.shape)
        except ValueError:
            raise errors.incompatible_shapes("Mul", full, parameter.array.shape) from None


def _parameter(value: Any, dtype: DType) -> Tensor:
    """Convert a parameter to the requested dtype; tapes record the conversion."""
    return convert(value, dtype) if not isinstance(value, Variable) else operand(value)


def watchable(x: Tensor) -> Tensor:
    """Make any tensor watchable."""
    return x if x.uid else wrap(x.array)


def draw_uniform(source: Source, shape: Any, minval: Any, maxval: Any, dtype: Any, op: str, full: bool) -> Tensor:
    kind = as_dtype(dtype)
    if kind.name not in (*_FLOATS, "int32", "int64", *(("uint32", "uint64") if full else ())):
        raise ValueError(
            f"Argument `dtype` got invalid value {kind!r}. Accepted dtypes are (tf.float16, tf.bfloat16, tf.float32, "
            f"tf.float64, tf.int32, tf.int64{', tf.uint32, tf.uint64' if full else ''})."
        )
    where = checked_shape(shape, op)
    if kind.is_floating:
        low, high = _parameter(minval, kind), _parameter(1 if maxval is None else maxval, kind)
        _check_parameters(where, low, high)
        numbers = draw_numbers("random_uniform", (op, _index_kind(shape)), source, where, kind)
        if _plain_unit(minval, maxval):
            return watchable(numbers)
        return watchable(numbers * (high - low) + low)
    if full and minval is None and maxval is None:
        return watchable(draw_numbers("random_integers", f"{op}FullInt", source, where, kind))
    bounds = _integer_bounds(minval, maxval, kind, op, full)
    if _math.prod(where):
        bounds[0] = verify(_RANGE, *bounds, op=f"{op}Int")
    key = (f"{op}Int", kind.name, _index_kind(shape))

    def draw(rows: Any) -> Any:
        stream = source(key, BLOCKS_PER_NUMBER * _math.prod(rows))
        return run_kernel("random_range", stream, *bounds, shape=rows, dtype=kind.numpy_dtype)

    return watchable(for_rows(where, source, draw))


def _integer_bounds(minval: Any, maxval: Any, kind: DType, op: str, full: bool) -> list[Array]:
    """The bounds of random integers, of the same dtype."""
    if kind.name.startswith("u") and minval is not None:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind!r} when argument `minval` is not None. Please don't use "
            "unsigned integers in this case."
        )
    if full and (minval is None) != (maxval is None):
        raise ValueError(
            f"For integer `dtype` argument {kind!r}, argument `minval` and `maxval` must be both None or not None. "
            f"Got `minval`={minval} and `maxval`={maxval}."
        )
    if maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {kind!r}")
    given = [operand(v, None if has_dtype(v) else kind) for v in (minval, maxval)]
    for bound in given:
        if bound.dtype != kind:
            raise ValueError(
                f"Tensor conversion requested dtype {kind.name} for Tensor with dtype {bound.dtype.name}: {bound!r}"
            )
    bounds = [bound.array for bound in given]
    for name, bound in zip(("minval", "maxval"), bounds, strict=True):
        if bound.ndim:
            raise errors.invalid_argument(f"{name} must be 0-D, got shape {errors.brackets(bound.shape)}", f"{op}Int")
    return bounds


def _no_range(low: Any, high: Any, op: str) -> Exception:
    return errors.invalid_argument(f"Need minval < maxval, got {low} >= {high}", op)


_RANGE = Rule(lambda xp, low, high, op: low >= high, _no_range, lambda low, high, op: low[1] < high[0])


def _plain_unit(minval: Any, maxval: Any) -> bool:
    return (
        isinstance(minval, (int, float))
        and minval == 0
        and (maxval is None or (isinstance(maxval, (int, float)) and maxval == 1))
    )


def draw_gamma(source: Source, shape: Any, alpha: Any, beta: Any, dtype: Any, op: str, prefix: bool) -> Tensor:
    kind = as_dtype("float32" if dtype is None else dtype)
    if not kind.is_floating:
        raise TypeError(f"Cannot convert {alpha} to EagerTensor of dtype {kind.name}")
    where = checked_shape(shape, op)
    alpha = _parameter(alpha, kind)
    beta = _parameter(1 if beta is None else beta, kind)
    parameters = broadcast_shapes(alpha.array.shape, beta.array.shape)
    # For tf.random the shape precedes the shape of the parameters, for the stateless form it ends with it.
    full = (*where, *parameters) if prefix else where
    samples = where if prefix else sample_shape(parameters, full, op)
    each = namespace_of(alpha.array).broadcast_to(alpha.array, shape=parameters)
    refuse_rows(source)
    stream = source((op, kind.name, _index_kind(shape)), BLOCKS_PER_NUMBER * _math.prod(full))
    drawn = run_kernel("random_gamma", stream, each, samples=_math.prod(samples))
    drawn = namespace_of(drawn).reshape(drawn, shape=full)
    numbers = ops.gamma_sample(array.broadcast_to(alpha, shape=full), constant_operand(drawn))
    tiny = float(np.finfo(np.float32 if kind.name == "bfloat16" else kind.numpy_dtype).tiny)
    return watchable(math.maximum(numbers / beta, tiny))


def sample_shape(parameters: Shape, full: Shape, op: str) -> Shape:
    """The leading sizes of a shape, before those of the parameters."""
    before = len(full) - len(parameters)
    if before < 0 or tuple(full[before:]) != tuple(parameters):
        raise errors.invalid_argument(
            f"Shape passed in must end with broadcasted shape. {errors.brackets(full)} does not end with "
            f"{errors.brackets(parameters)}",
            op,
        )
    return full[:before]


def draw_counts(
    kernel: str, op: str, source: Source, blocks: Any, full: Shape, samples: Shape, dtype: Any, *parameters: Tensor
) -> Tensor:
    """Draw counts, each with its own parameters; they are not differentiable."""
    wanted = as_dtype("float32" if dtype is None else dtype)
    if wanted.name not in _COUNTED:
        raise errors.unsupported_dtype(op, wanted, "half, float, double, int32, int64", "dtype")
    for parameter in parameters:
        if parameter.dtype.name not in _COUNTED:
            raise errors.unsupported_dtype(op, parameter.dtype, "half, float, double, int32, int64")
    arrays = [p.array for p in parameters]
    refuse_rows(source)
    stream = source((op, wanted.name, *(p.dtype.name for p in parameters)), blocks)
    drawn = run_kernel(kernel, stream, *arrays, samples=_math.prod(samples), dtype=wanted.numpy_dtype)
    return wrap(namespace_of(drawn).reshape(drawn, shape=full))


_COUNTED = ("float16", "float32", "float64", "int32", "int64")


def draw_categorical(source: Source, logits: Any, num_samples: Any, dtype: Any, op: str) -> Tensor:
    given, kind = operand(logits), as_dtype("int64" if dtype is None else dtype)
    x = given.array
    if not (given.dtype.is_floating or given.dtype.is_integer):
        raise errors.unsupported_dtype(op, given.dtype, "fiu")
    if kind.name not in ("int32", "int64"):
        raise ValueError(f"Argument `dtype` must be tf.int32 or tf.int64, got {kind!r}.")
    if x.ndim != 2:
        raise errors.invalid_argument(f"logits should be a matrix, got shape {errors.brackets(x.shape)}", op)
    if not x.shape[1]:
        raise errors.invalid_argument("num_classes should be positive, got 0", op)
    count = integer(num_samples, op, fixed=True)
    if count < 0:
        raise errors.invalid_argument(f"num_samples should be non-negative, got {count}", op)
    refuse_rows(source)
    blocks = 2 * BLOCKS_PER_NUMBER * x.shape[0] * (-(-count // 4) * 4)
    stream = source((op, given.dtype.name, kind.name), blocks if count else 0)
    return wrap(run_kernel("random_categorical", stream, x, count=count, dtype=kind.numpy_dtype))


def draw_order(source: Source, size: Any, op: Any) -> Tensor:
    refuse_rows(source)
    return constant_operand(
        run_kernel("random_order", source(op, (size + 2) // 4), count=size)
    )  # a word for all but one


def draw_binomial(source: Source, shape: Any, counts: Any, probs: Any, dtype: Any, op: str) -> Tensor:
    full = checked_shape(shape, op)
    p = operand(probs, None if has_dtype(probs) else as_dtype("float32"))
    n = operand(counts, None if has_dtype(counts) else p.dtype)
    if n.array.dtype != p.array.dtype:
        raise errors.mismatched_dtypes(op, n.dtype, p.dtype)
    samples = sample_shape(broadcast_shapes(n.array.shape, p.array.shape), full, op)
    each = broadcast_shapes(n.array.shape, p.array.shape)
    blocks = BLOCKS_PER_NUMBER * (_math.prod(each) * 200 * (_math.prod(samples) + 3) // 4)
    return draw_counts("random_binomial", op, source, blocks, full, samples, dtype, n, p)
