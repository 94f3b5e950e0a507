"""`tf.random`: numbers that depend on a seed and on nothing else.

Streams, seeds and states are TensorFlow's: all numbers, and the state of a Generator, agree with it.
Random numbers are differentiable with respect to their parameters: `normal(mean, stddev)`, `uniform(minval, maxval)`,
`truncated_normal(mean, stddev)` and `gamma(alpha, beta)` have derivatives by what is in the brackets.
"""

from __future__ import annotations

import math as _math
import os
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors, forks
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.arrays.dimensions import broadcast_shapes, is_dimension
from gradtape._src.arrays.numpy.random import double, random_bits, singles, stream_of, words64
from gradtape._src.arrays.seeds import OpStreams, pair_of, rows_drawn, seeds as _seeds, start_of
from gradtape._src.arrays.symbolic import current_graph, graph_for_ops, is_known, number
from gradtape._src.conversion import array_from, constant_operand, convert, is_library, operand, wrap
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.ops import array, index, math, random as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, index_operand, integer, required_flag, shape_of, static
from gradtape._src.variable import StreamState, Variable, peek, store

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

Array = Any
Shape = tuple[int, ...]

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_FLOATS = ("float16", "bfloat16", "float32", "float64")


# -- seeds -----------------------------------------------------------------------------------------------------------
def set_seed(seed: Any) -> None:
    """Set the global seed, which makes random numbers repeatable.

    >>> tf.random.set_seed(1)
    >>> first = tf.random.uniform([2]).numpy().tolist()
    >>> tf.random.set_seed(1)
    >>> tf.random.uniform([2]).numpy().tolist() == first
    True
    """
    plain = static(seed) if is_library(seed) else seed
    if isinstance(plain, np.ndarray) and not plain.ndim:
        plain = plain.item()
    if plain is not None and not isinstance(plain, (str, bytes, int, float, np.number)):
        raise TypeError(f"Expected an integer for argument 'seed', but got {seed!r}.")
    graph = graph_for_ops()
    if graph is not None:
        graph.seed = plain
        return
    _seeds.set(plain)


def get_seed(op_seed: Any) -> tuple[int | None, int | None]:
    """The two seeds that an op with this seed would use; (None, None) where there is none at all."""
    pair = _seeds.pair(_op_seed(op_seed))
    return (None, None) if pair is None else pair


def _op_seed(seed: Any) -> Any:
    """An op's seed: a number, of which a fraction is cut off when it is used; of a raw op a pair of numbers."""
    if type(seed) is tuple:
        return seed
    plain = static(seed) if isinstance(seed, (Tensor, Variable)) else seed
    if isinstance(plain, np.ndarray) and not plain.ndim and plain.dtype.kind in "iuf":
        plain = plain.item()
    if plain is not None and not isinstance(plain, (int, float, np.integer, np.floating)):
        raise TypeError(f"Expected int for argument 'seed' not {seed!r}.")
    return plain


# -- drawing ---------------------------------------------------------------------------------------------------------
Source = Callable[[Any, Any], Array]
"""Gives a stream (see arrays/numpy/random.py) for an op (all that makes it another one) and the number of blocks
that it may read."""

_EACH = 256  # blocks that one number may use


def _run(kernel: str, *arrays: Array, **attrs: Any) -> Array:
    """Run a random kernel on the engine of its stream and parameters: all numbers come from here."""
    if any(type(array) is Batched for array in arrays):
        raise EscapeError("each row of a batch draws numbers of its own")
    return getattr(common_namespace(arrays), kernel)(*arrays, **attrs)


def _on_host(
    shape: Shape, dtype: np.dtype[Any], op: Any, op_seed: Any, blocks: int, make: Callable[[Array], Array]
) -> Array:
    """A value that Python computes from an op's stream: now or, in a compiled function, before each of its calls."""
    graph = current_graph()
    if graph is None:
        return make(_seeds.stream(op, op_seed, blocks))
    pair, streams = _pair_within(graph, op_seed), OpStreams()
    return graph.per_call_input(shape, dtype, lambda: make(streams.next(op, pair, blocks)))


class _OpSource:
    """The stream of an op that reads on where it stopped: see arrays/seeds.py."""

    __slots__ = ("_seed",)

    def __init__(self, seed: Any) -> None:
        self._seed = _op_seed(seed)

    def __call__(self, op: Any, blocks: Any) -> Array:
        graph = current_graph()
        if graph is None:
            return _seeds.stream(op, self._seed, blocks)
        state = graph.op_state(lambda: _stream_state(_pair_within(graph, self._seed)))
        before = peek(state).array
        store(state, _run("advanced_state", before, _count(blocks), each=1))
        return _run("stream_of_state", before)


def _stream_state(pair: Any) -> StreamState:
    return StreamState(*start_of(pair), pair)


def _pair_within(graph: Any, op_seed: Any) -> Any:
    """The seeds of a new op of a graph."""
    if op_seed is None and graph.seed is not None:
        op_seed = graph.op_seeds
        graph.op_seeds += 1
    return pair_of(graph.seed, op_seed)


def _count(blocks: Any) -> Array:
    """A number of blocks as an operand."""
    return number(blocks, _INT64) if is_dimension(blocks) else np.asarray(blocks)


def _from_seed(seed: Any) -> Source:
    """The stream of a stateless op: its two seed numbers, scrambled."""
    given = index_operand(seed, "StatelessRandomGetKeyCounter", "Tseed")
    if given.array.shape != (2,):
        raise errors.invalid_argument(
            f"seed must have shape [2], not {errors.brackets(given.array.shape)}", "StatelessRandomGetKeyCounter"
        )
    stream = _run("stream_of_seed", given.array)
    return lambda op, blocks: stream


def _checked_shape(shape: Any, op: str) -> Shape:
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


def _draw(kernel: str, op: Any, source: Source, shape: Shape, dtype: DType) -> Tensor:
    return _for_rows(
        shape,
        source,
        lambda full: _run(
            kernel, source((op, dtype.name), _EACH * _math.prod(full)), shape=full, dtype=dtype.numpy_dtype
        ),
    )


def _for_rows(shape: Shape, source: Source, draw: Callable[[Shape], Array]) -> Tensor:
    """What is drawn for a shape or, of an op with a state within a vectorized_map, for each of the rows."""
    rows = rows_drawn.get() if type(source) is _OpSource else ()
    if not rows:
        return constant_operand(draw(shape))
    if len(rows) > 1:
        raise EscapeError("each row of a batch within a batch draws numbers of its own")
    level, count = rows[0]
    return constant_operand(Batched(wrap(draw((count, *shape))), level))


def _of_rows(source: Source) -> None:
    """Refuse to draw the same numbers for all rows of a vectorized_map."""
    if type(source) is _OpSource and rows_drawn.get():
        raise EscapeError("each row of a batch draws numbers of its own")


def _index_kind(shape: Any) -> str:
    """The dtype of a shape, which makes another op."""
    dtype = getattr(shape, "dtype", None)
    return "int32" if dtype is None else as_dtype(dtype).name


def _normal(source: Source, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    where = _checked_shape(shape, op)
    kind = as_dtype("float32" if dtype is None else dtype)
    is_standard = type(mean) in (int, float) and type(stddev) in (int, float) and (mean, stddev) == (0, 1)
    mean, stddev = _parameter(mean, kind), _parameter(stddev, kind)
    _check_parameters(where, mean, stddev)
    numbers = _draw("random_normal", (op, _index_kind(shape)), source, where, _floating(kind, op))
    return _fresh(numbers if is_standard else numbers * stddev + mean)


def _truncated(source: Source, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    where = _checked_shape(shape, op)
    kind = as_dtype("float32" if dtype is None else dtype)
    mean, stddev = _parameter(mean, kind), _parameter(stddev, kind)
    _check_parameters(where, mean, stddev)
    return _fresh(
        _draw("random_truncated", (op, _index_kind(shape)), source, where, _floating(kind, op)) * stddev + mean
    )


def _check_parameters(shape: Shape, *parameters: Tensor) -> None:
    """Refuse parameters that do not broadcast before any number is drawn."""
    full = shape
    for parameter in parameters:
        try:
            full = broadcast_shapes(full, parameter.array.shape)
        except ValueError:
            raise errors.incompatible_shapes("Mul", full, parameter.array.shape) from None


def _parameter(value: Any, dtype: DType) -> Tensor:
    """A parameter as a tensor of the requested dtype; tapes record the conversion."""
    return convert(value, dtype) if not isinstance(value, Variable) else operand(value)


def _fresh(x: Tensor) -> Tensor:
    """A tensor that can be watched, whatever it was made of."""
    return x if x.uid else wrap(x.array)


def _uniform(source: Source, shape: Any, minval: Any, maxval: Any, dtype: Any, op: str, full: bool) -> Tensor:
    kind = as_dtype(dtype)
    if kind.name not in (*_FLOATS, "int32", "int64", *(("uint32", "uint64") if full else ())):
        raise ValueError(
            f"Argument `dtype` got invalid value {kind!r}. Accepted dtypes are (tf.float16, tf.bfloat16, tf.float32, "
            f"tf.float64, tf.int32, tf.int64{', tf.uint32, tf.uint64' if full else ''})."
        )
    where = _checked_shape(shape, op)
    if kind.is_floating:
        low, high = _parameter(minval, kind), _parameter(1 if maxval is None else maxval, kind)
        _check_parameters(where, low, high)
        numbers = _draw("random_uniform", (op, _index_kind(shape)), source, where, kind)
        if _plain_unit(minval, maxval):
            return _fresh(numbers)
        return _fresh(numbers * (high - low) + low)
    if full and minval is None and maxval is None:
        return _fresh(_draw("random_integers", f"{op}FullInt", source, where, kind))
    bounds = _integer_bounds(minval, maxval, kind, op, full)
    if _math.prod(where):
        bounds[0] = verify(_RANGE, *bounds, op=f"{op}Int")
    key = (f"{op}Int", kind.name, _index_kind(shape))

    def draw(rows: Any) -> Any:
        stream = source(key, _EACH * _math.prod(rows))
        return _run("random_range", stream, *bounds, shape=rows, dtype=kind.numpy_dtype)

    return _fresh(_for_rows(where, source, draw))


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
    given = [operand(v, None if is_library(v) else kind) for v in (minval, maxval)]
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
_DEVIATION = Rule(
    lambda xp, stddev: ~(stddev > 0),  # NaN is refused too
    lambda stddev: errors.invalid_argument(
        "Invalid parameters: stddev must be positive.", "ParameterizedTruncatedNormal"
    ),
    always=True,  # the parameters have derivatives: what uses them uses them as they are
)
_TRUNCATION = Rule(
    lambda xp, low, high: ~(low < high),
    lambda low, high: errors.invalid_argument(
        "Invalid parameters: minval must be less than maxval.", "ParameterizedTruncatedNormal"
    ),
    always=True,
)
_ONE_FINITE = Rule(
    lambda xp, low, high: ~xp.isfinite(low) & ~xp.isfinite(high),
    lambda low, high: errors.invalid_argument(
        "Invalid parameters: minval or maxval must be finite.", "ParameterizedTruncatedNormal"
    ),
    always=True,
)


def _plain_unit(minval: Any, maxval: Any) -> bool:
    return (
        isinstance(minval, (int, float))
        and minval == 0
        and (maxval is None or (isinstance(maxval, (int, float)) and maxval == 1))
    )


def normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers, differentiable with respect to `mean` and `stddev`.

    >>> tf.random.set_seed(0)
    >>> tf.random.normal([2, 3], mean=5.0).shape
    TensorShape([2, 3])
    """
    return _normal(_OpSource(seed), shape, mean, stddev, dtype, "RandomStandardNormal")


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Tensor:
    """Numbers in [minval, maxval), of a floating or an integer dtype; floating ones are differentiable.

    >>> x = tf.random.uniform([1000], 3, 6, dtype="int32", seed=1).numpy()
    >>> int(x.min()), int(x.max())
    (3, 5)
    """
    return _uniform(_OpSource(seed), shape, minval, maxval, dtype, "RandomUniform", full=False)


def truncated_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers at most two standard deviations from the mean, differentiable in both.

    >>> bool(tf.reduce_max(tf.abs(tf.random.truncated_normal([1000]))) <= 2.0)
    True
    """
    return _truncated(_OpSource(seed), shape, mean, stddev, dtype, "TruncatedNormal")


def _gamma(source: Source, shape: Any, alpha: Any, beta: Any, dtype: Any, op: str, prefix: bool) -> Tensor:
    kind = as_dtype("float32" if dtype is None else dtype)
    if not kind.is_floating:
        raise TypeError(f"Cannot convert {alpha} to EagerTensor of dtype {kind.name}")
    where = _checked_shape(shape, op)
    alpha = _parameter(alpha, kind)
    beta = _parameter(1 if beta is None else beta, kind)
    parameters = broadcast_shapes(alpha.array.shape, beta.array.shape)
    # For tf.random the shape stands before the parameters' own, for the stateless form it ends with them.
    full = (*where, *parameters) if prefix else where
    samples = where if prefix else _samples(parameters, full, op)
    each = namespace_of(alpha.array).broadcast_to(alpha.array, shape=parameters)
    _of_rows(source)
    stream = source((op, kind.name, _index_kind(shape)), _EACH * _math.prod(full))
    drawn = _run("random_gamma", stream, each, samples=_math.prod(samples))
    drawn = namespace_of(drawn).reshape(drawn, shape=full)
    numbers = ops.gamma_sample(array.broadcast_to(alpha, shape=full), constant_operand(drawn))
    tiny = float(np.finfo(np.float32 if kind.name == "bfloat16" else kind.numpy_dtype).tiny)
    return _fresh(math.maximum(numbers / beta, tiny))


def _samples(parameters: Shape, full: Shape, op: str) -> Shape:
    """The sizes of a shape that stand before those of the parameters."""
    before = len(full) - len(parameters)
    if before < 0 or tuple(full[before:]) != tuple(parameters):
        raise errors.invalid_argument(
            f"Shape passed in must end with broadcasted shape. {errors.brackets(full)} does not end with "
            f"{errors.brackets(parameters)}",
            op,
        )
    return full[:before]


def gamma(
    shape: Any,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: Any = "float32",
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Gamma numbers, `shape` of them for each pair of parameters, differentiable in both.

    >>> tf.random.gamma([5], alpha=[0.5, 3.0], seed=1).shape
    TensorShape([5, 2])
    """
    return _gamma(_OpSource(seed), shape, alpha, beta, dtype, "RandomGamma", prefix=True)


def _counts(
    kernel: str, op: str, source: Source, blocks: Any, full: Shape, samples: Shape, dtype: Any, *parameters: Tensor
) -> Tensor:
    """Counts, each with its own parameters; they have no derivatives."""
    wanted = as_dtype("float32" if dtype is None else dtype)
    if wanted.name not in _COUNTED:
        raise errors.unsupported_dtype(op, wanted, "half, float, double, int32, int64", "dtype")
    for parameter in parameters:
        if parameter.dtype.name not in _COUNTED:
            raise errors.unsupported_dtype(op, parameter.dtype, "half, float, double, int32, int64")
    arrays = [p.array for p in parameters]
    _of_rows(source)
    stream = source((op, wanted.name, *(p.dtype.name for p in parameters)), blocks)
    drawn = _run(kernel, stream, *arrays, samples=_math.prod(samples), dtype=wanted.numpy_dtype)
    return wrap(namespace_of(drawn).reshape(drawn, shape=full))


_COUNTED = ("float16", "float32", "float64", "int32", "int64")


def poisson(shape: Any, lam: Any, dtype: Any = "float32", seed: Any = None, name: str | None = None) -> Tensor:
    """Poisson counts, `shape` of them for each rate.

    >>> tf.random.poisson([4], [1.0, 100.0], seed=3).shape
    TensorShape([4, 2])
    """
    rate = operand(lam)
    where = _checked_shape(shape, "RandomPoissonV2")
    full = (*where, *rate.array.shape)
    blocks = _EACH * _math.prod(full)
    return _counts("random_poisson", "RandomPoissonV2", _OpSource(seed), blocks, full, where, dtype, rate)


def categorical(
    logits: TensorLike, num_samples: Any, dtype: Any = None, seed: Any = None, name: str | None = None
) -> Tensor:
    """Class numbers [batch, num_samples] with the probabilities softmax(logits).

    >>> tf.random.categorical([[0.0, -100.0]], 3).numpy().tolist()
    [[0, 0, 0]]
    """
    return _categorical(_OpSource(seed), logits, num_samples, "int64" if dtype is None else dtype, "Multinomial")


def _categorical(source: Source, logits: Any, num_samples: Any, dtype: Any, op: str) -> Tensor:
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
    _of_rows(source)
    blocks = 2 * _EACH * x.shape[0] * (-(-count // 4) * 4)
    stream = source((op, given.dtype.name, kind.name), blocks if count else 0)
    return wrap(_run("random_categorical", stream, x, count=count, dtype=kind.numpy_dtype))


def _order(source: Source, size: Any, op: Any) -> Tensor:
    _of_rows(source)
    return constant_operand(_run("random_order", source(op, (size + 2) // 4), count=size))  # a word for all but one


def shuffle(value: TensorLike, seed: Any = None, name: str | None = None) -> Tensor:
    """The rows of a tensor in a random order; as in TensorFlow no gradient goes through it.

    >>> sorted(tf.random.shuffle([1, 2, 3]).numpy().tolist())
    [1, 2, 3]
    """
    x = operand(value)
    op, own = ("RandomShuffle", x.dtype.name), _OpSource(seed)
    if not x.array.shape:
        own(op, 0)  # a seed that cannot be used is refused all the same
        return _fresh(x)
    order = _order(own, x.array.shape[0], op)
    result: Tensor = ops.shuffle_rows(x, order)
    return result


# -- stateless -------------------------------------------------------------------------------------------------------
def _known_algorithm(alg: Any, op: str) -> None:
    if _algorithm(alg) is Algorithm.THREEFRY:
        raise errors.invalid_argument(
            "counter must be a vector with length at least 2; got shape: [1]. Non-XLA devices don't support the "
            "ThreeFry algorithm: use alg='philox'",
            op,
        )


def stateless_normal(
    shape: Any,
    seed: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Normal numbers that depend on the two numbers of `seed` alone.

    >>> bool(tf.random.stateless_normal([], [1, 2]) == tf.random.stateless_normal([], [1, 2]))
    True
    """
    _known_algorithm(alg, "StatelessRandomNormalV2")
    return _normal(_from_seed(seed), shape, mean, stddev, dtype, "StatelessRandomNormalV2")


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Numbers in [minval, maxval) that depend on `seed` alone; both None: all integers of the dtype.

    >>> tf.random.stateless_uniform([3], [1, 2]).numpy().tolist() == tf.random.stateless_uniform(
    ...     [3], [1, 2]
    ... ).numpy().tolist()
    True
    """
    _known_algorithm(alg, "StatelessRandomUniformV2")
    return _uniform(_from_seed(seed), shape, minval, maxval, dtype, "StatelessRandomUniformV2", full=True)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Normal numbers at most two standard deviations from the mean, that depend on `seed` alone.

    >>> x = tf.random.stateless_truncated_normal([1000], seed=[1, 2])
    >>> bool(tf.reduce_max(tf.abs(x)) <= 2.0)
    True
    """
    _known_algorithm(alg, "StatelessTruncatedNormalV2")
    return _truncated(_from_seed(seed), shape, mean, stddev, dtype, "StatelessTruncatedNormalV2")


def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Tensor:
    """Gamma numbers that depend on `seed` alone; `alpha` and `beta` broadcast into `shape`, and have gradients.

    >>> tf.random.stateless_gamma([3], seed=[1, 2], alpha=2.0).shape
    TensorShape([3])
    """
    return _gamma(_from_seed(seed), shape, alpha, beta, dtype, "StatelessRandomGammaV3", prefix=False)


def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
    """Poisson counts that depend on `seed` alone; the rates broadcast into `shape`.

    >>> tf.random.stateless_poisson([2, 3], seed=[1, 2], lam=4.0).shape
    TensorShape([2, 3])
    """
    full = _checked_shape(shape, "StatelessRandomPoisson")
    rate = operand(lam)
    samples = _samples(rate.array.shape, full, "StatelessRandomPoisson")
    return _counts("random_poisson", "StatelessRandomPoisson", _from_seed(seed), 0, full, samples, dtype, rate)


def stateless_binomial(
    shape: Any, seed: Any, counts: TensorLike, probs: TensorLike, output_dtype: Any = "int32", name: str | None = None
) -> Tensor:
    """Binomial counts that depend on `seed` alone; the parameters broadcast into `shape`.

    >>> counts = tf.random.stateless_binomial([1000], seed=[1, 2], counts=10.0, probs=0.3)
    >>> 2.5 < float(tf.reduce_mean(tf.cast(counts, tf.float32))) < 3.5
    True
    """
    return _binomial(_from_seed(seed), shape, counts, probs, output_dtype, "StatelessRandomBinomial")


def _binomial(source: Source, shape: Any, counts: Any, probs: Any, dtype: Any, op: str) -> Tensor:
    full = _checked_shape(shape, op)
    p = operand(probs, None if is_library(probs) else as_dtype("float32"))
    n = operand(counts, None if is_library(counts) else p.dtype)
    if n.array.dtype != p.array.dtype:
        raise errors.mismatched_dtypes(op, n.dtype, p.dtype)
    samples = _samples(broadcast_shapes(n.array.shape, p.array.shape), full, op)
    each = broadcast_shapes(n.array.shape, p.array.shape)
    blocks = _EACH * (_math.prod(each) * 200 * (_math.prod(samples) + 3) // 4)
    return _counts("random_binomial", op, source, blocks, full, samples, dtype, n, p)


def stateless_categorical(
    logits: TensorLike, num_samples: Any, seed: Any, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """Class numbers with the probabilities softmax(logits), that depend on `seed` alone.

    >>> tf.random.stateless_categorical([[-100.0, 0.0]], 4, seed=[1, 2]).numpy().tolist()
    [[1, 1, 1, 1]]
    """
    return _categorical(_from_seed(seed), logits, num_samples, dtype, "StatelessMultinomial")


def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:
    """Normal numbers between bounds; all four parameters broadcast into `shape`, and have gradients.

    >>> x = tf.random.stateless_parameterized_truncated_normal([100], (1, 2), means=5.0, minvals=4.0, maxvals=5.0)
    >>> bool(tf.reduce_all((x >= 4.0) & (x <= 5.0)))
    True
    """
    full = _checked_shape(shape, "StatelessParameterizedTruncatedNormal")
    given = [means, stddevs, minvals, maxvals]
    op = "StatelessParameterizedTruncatedNormal"
    mean, stddev, low, high = (operand(v) for v in given)
    kind = mean.dtype
    if not kind.is_floating:
        raise errors.unsupported_dtype(op, kind, "half, float, double")
    for parameter in (stddev, low, high):
        if parameter.dtype != kind:
            raise errors.mismatched_dtypes(op, kind, parameter.dtype)
    parameters = mean.array.shape
    for parameter in (stddev, low, high):
        parameters = broadcast_shapes(parameters, parameter.array.shape)
    samples = _samples(parameters, full, op)
    verify(_DEVIATION, stddev.array)
    verify(_TRUNCATION, low.array, high.array)
    verify(_ONE_FINITE, low.array, high.array)
    x, y = (low - mean) / stddev, (high - mean) / stddev
    each = [namespace_of(bound.array).broadcast_to(bound.array, shape=parameters) for bound in (x, y)]
    drawn = _run("random_between", _from_seed(seed)(op, 0), *each, samples=_math.prod(samples))
    z = constant_operand(namespace_of(drawn).reshape(drawn, shape=full))
    part = constant_operand(_run("truncated_part", x.array, y.array, z.array))
    return _fresh(ops.truncated_sample(x, y, part, z) * stddev + mean)


def stateless_shuffle(value: TensorLike, seed: Any, alg: Any = "auto_select", name: str | None = None) -> Tensor:
    """The rows of a tensor in an order that depends on `seed` alone; gradients go through it."""
    _known_algorithm(alg, "StatelessShuffle")
    x = operand(value)
    if not x.array.shape:
        return _fresh(x)
    order = _order(_from_seed(seed), x.array.shape[0], "StatelessShuffle")
    result: Tensor = index.take(x, order, axis=0, batch_dims=0)
    return result


def key_and_counter(seed: Any) -> tuple[Tensor, Tensor]:
    """The key and the counter at which the stream of a stateless op starts.

    >>> [x.shape.as_list() for x in key_and_counter([1, 2])]
    [[1], [2]]
    """
    stream = _from_seed(seed)("StatelessRandomGetKeyCounter", 0)
    return wrap(stream[:1]), wrap(stream[1:])


def from_key(op: str, shape: Any, key: Any, counter: Any, *parameters: Any, dtype: Any = None) -> Tensor:
    """What an op of TensorFlow's draws from the stream of a key, from a counter on.

    >>> key, counter = key_and_counter([1, 2])
    >>> bool(from_key("StatelessRandomNormalV2", [], key, counter) == stateless_normal([], [1, 2]))
    True
    """
    words = [array.reshape(operand(each), shape=(-1,)) for each in (key, counter)]
    stream = array.concatenate(*words, axis=0).array
    source = lambda op, blocks: stream  # noqa: E731
    if op == "StatelessRandomNormalV2":
        return _normal(source, shape, 0.0, 1.0, dtype, op)
    if op == "StatelessTruncatedNormalV2":
        return _truncated(source, shape, 0.0, 1.0, dtype, op)
    if op == "StatelessRandomGammaV3":
        return _gamma(source, shape, parameters[0], None, parameters[0].dtype, op, prefix=False)
    low, high = parameters or ((0, None) if as_dtype(dtype or "float32").is_floating else (None, None))
    return _uniform(source, shape, low, high, dtype, op, full=True)


def split(seed: Any, num: Any = 2, alg: Any = "auto_select") -> Tensor:
    """New seeds from one: [num, 2], none of which repeats another's numbers.

    >>> tf.random.split([1, 2], 3).shape
    TensorShape([3, 2])
    """
    seed = operand(seed)
    if seed.dtype.name not in ("int32", "int64"):
        raise ValueError(f"Argument `seed` must be two numbers of tf.int32 or tf.int64, got {seed!r}.")
    return stateless_uniform(
        [integer(num, "StatelessRandomUniformFullIntV2"), 2], seed, None, None, seed.dtype, alg=alg
    )


def fold_in(seed: Any, data: TensorLike, alg: Any = "auto_select") -> Tensor:
    """A new seed from a seed and a number, say of a step or of a replica.

    >>> step = [tf.random.fold_in((1, 2), i).numpy().tolist() for i in range(2)]
    >>> step[0] != step[1]
    True
    """
    data = operand(data)
    mixed = stateless_uniform([], seed, None, None, data.dtype, alg=alg)
    result: Tensor = array.stack(mixed, data, axis=0)
    return result


def index_shuffle(index: Any, seed: Any, max_index: Any) -> Tensor:
    """Where `index` goes in a random order of 0 ... max_index that depends on the two numbers of `seed` alone.

    >>> index_shuffle(operand([0, 1, 2, 3]), [5, 9], 3).numpy().tolist()
    [2, 0, 1, 3]
    """
    op = "RandomIndexShuffle"
    where, seeds = operand(index), operand(seed)
    most = operand(max_index, None if is_library(max_index) else where.dtype)
    if where.dtype.name not in _INDICES:
        raise errors.unsupported_dtype(op, where.dtype, ", ".join(_INDICES), "dtype")
    if most.dtype != where.dtype:
        raise errors.mismatched_dtypes(op, where.dtype, most.dtype)
    if seeds.dtype.name not in _INDICES:
        raise errors.unsupported_dtype(op, seeds.dtype, ", ".join(_INDICES), "Tseed")
    if where.array.ndim > 1 or most.array.ndim > 1 or len({a.shape for a in (where.array, most.array) if a.ndim}) > 1:
        raise errors.invalid_argument(
            f"Index bust be a scalar or vector. index has shape {errors.brackets(where.array.shape)}, max_index "
            f"{errors.brackets(most.array.shape)}",
            op,
        )
    if seeds.array.shape != (2,):
        raise errors.invalid_argument(
            f"Seed must be a vector of size [3]: two numbers, to which another one is added. Received a seed of shape "
            f"{errors.brackets(seeds.array.shape)}",
            op,
        )
    xp = common_namespace((where.array, most.array))
    verify(_NOT_NEGATIVE, where.array, word="index")
    verify(_NOT_NEGATIVE, most.array, word="max_index")
    verify(
        _INSIDE,
        *(
            xp.broadcast_to(a, shape=broadcast_shapes(where.array.shape, most.array.shape))
            for a in (where.array, most.array)
        ),
    )
    drawn = _run("shuffled_index", where.array, seeds.array, most.array)
    return wrap(namespace_of(drawn).astype(drawn, dtype=where.array.dtype, source=drawn.dtype))


_INDICES = ("int32", "uint32", "int64", "uint64")
_NOT_NEGATIVE = Rule(
    lambda xp, a, word: a < 0,
    lambda a, word: errors.invalid_argument(f"{word} must be >= 0 but was {np.min(a)}", "RandomIndexShuffle"),
    always=True,
)
_INSIDE = Rule(
    lambda xp, index, most: index > most,
    lambda index, most: errors.invalid_argument(
        f"max_index must be >= index, but {most[index > most].flat[0]} < {index[index > most].flat[0]}",
        "RandomIndexShuffle",
    ),
    always=True,
)


# -- generators ------------------------------------------------------------------------------------------------------
class Algorithm(IntEnum):
    """The algorithm of random bits. Only Philox is implemented; TensorFlow has ThreeFry on XLA devices only.

    >>> tf.random.Algorithm.PHILOX.value
    1
    """

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


def _algorithm(alg: Any) -> Algorithm:
    if alg is None:
        return Algorithm.AUTO_SELECT
    if isinstance(alg, str):
        name = alg.strip().lower().replace("-", "").replace("_", "")
        found = next((a for a in Algorithm if a.name.replace("_", "").lower() == name), None)
        words: tuple[Any, ...] = ("philox", "threefry", "auto_select")
    elif isinstance(alg, (int, Tensor)):
        number = int(static(alg))
        found, words = next((a for a in Algorithm if a == number), None), (1, 2, 3)
    else:
        raise TypeError(f"Can't convert argument `alg` (of value {alg} and type {type(alg)}) to int.")
    if found is None:
        raise ValueError(
            f"Argument `alg` got unsupported value {alg}. Supported values are {words[0]} for the Philox algorithm, "
            f"{words[1]} for the ThreeFry algorithm, and {words[2]} for auto-selection."
        )
    return found


def _no_threefry() -> Exception:
    return errors.UnimplementedError(
        None, None, "Non-XLA devices don't support the ThreeFry algorithm. Use alg='philox'. [Op:RngReadAndSkip]"
    )


def _words(value: int) -> list[int]:
    """An integer as 64-bit words, the lowest first."""
    words = [value & (2**64 - 1)]
    rest = value >> 64
    while rest not in (0, -1):
        words.append(rest & (2**64 - 1))
        rest >>= 64
    return words


def _state_of(seed: Any, size: int = 3) -> Any:
    """TensorFlow's state [counter, counter, key] of a seed: an integer from its low end, a list from its high one."""
    if isinstance(seed, int):
        fill = 2**64 - 1 if seed < 0 else 0
        words = (_words(int(seed)) + [fill] * 3)[:size]
    else:
        plain = static(seed)
        listed = np.ravel(np.asarray(plain) if is_library(seed) else array_from(_wrapped(plain)))
        if listed.dtype.kind == "O":
            raise errors.UnimplementedError(None, None, "Cast string to int64 is not supported [Op:Cast]")
        with float_errors_ignored():
            whole = np.asarray(listed.real if listed.dtype.kind == "c" else listed).astype(np.int64, copy=False)
        words = ([0] * size + [int(n) % 2**64 for n in whole[:size]])[-size:]
    return np.array(words, np.uint64).view(np.int64)


def _wrapped(seed: Any) -> Any:
    """Python integers that need 64 bits without a sign, as the ones with a sign that have the same bits."""
    if isinstance(seed, (list, tuple)):
        return [_wrapped(n) for n in seed]
    return seed - 2**64 if isinstance(seed, int) and seed >= 2**63 else seed


def create_rng_state(seed: Any, alg: Any) -> Tensor:
    """The state that a generator with this seed starts from.

    >>> tf.random.create_rng_state(5, "philox").numpy().tolist()
    [5, 0, 0]
    """
    if _algorithm(alg) is Algorithm.THREEFRY:
        return wrap(_state_of(seed, 2))
    return wrap(_state_of(seed))


class Generator:
    """A stream of random numbers with a state that can be read, set and split.

    >>> g = tf.random.Generator.from_seed(7)
    >>> print(g.uniform([2]).numpy().round(4))
    [0.3993 0.7841]
    >>> g.state.numpy().tolist()
    [519, 0, 0]

    >>> g = tf.random.Generator.from_seed(1)
    >>> g.uniform([2]).shape, g.normal([2]).shape, g.truncated_normal([2]).shape
    (TensorShape([2]), TensorShape([2]), TensorShape([2]))
    >>> g.binomial([2], counts=10, probs=0.5).shape, g.uniform_full_int([2]).dtype
    (TensorShape([2]), tf.uint64)
    >>> saved = g.state.numpy()
    >>> first = g.normal([])
    >>> g.reset(saved)
    >>> bool(g.normal([]) == first)
    True
    >>> again = tf.random.Generator.from_state(saved, alg="philox")
    >>> bool(again.normal([]) == first)
    True
    >>> g.algorithm, g.make_seeds(2).shape, len(g.split(3))
    (1, TensorShape([2, 2]), 3)
    >>> _ = g.skip(4)
    >>> g.reset_from_seed(7)
    >>> g.reset_from_key_counter(key=3, counter=[0, 0])
    >>> g.key.numpy().item()
    3
    >>> h = tf.random.Generator.from_key_counter(key=3, counter=[0, 0], alg="philox")
    >>> bool(g.normal([]) == h.normal([]))
    True
    >>> tf.random.Generator.from_non_deterministic_state().normal([2]).shape
    TensorShape([2])
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None) -> None:
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError("copy_from is given: state and alg come with it, and must be None.")
            state, alg = copy_from.state.numpy(), copy_from.algorithm
        elif state is None or alg is None:
            raise ValueError("A Generator needs a state and an algorithm, or another one to copy: use from_seed.")
        self._alg = _algorithm(alg)
        self._lock = forks.lock()
        self._state_var = Variable(self._checked(state), trainable=False, name="StateVar")

    def _trackable_children(self) -> dict[str, Any]:
        """The state that checkpoints save."""
        return {"_state_var": self._state_var}

    def _checked(self, state: Any) -> Tensor:
        words = operand(state).array
        size = 2 if self._alg is Algorithm.THREEFRY else 3
        if tuple(words.shape) != (size,):
            raise ValueError(f"Shapes {tuple(words.shape)} and [{size}] are incompatible")
        return wrap(_int64(words))

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        """A generator that continues from a state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """A generator that starts from a seed: an integer, or up to three of them."""
        alg = "philox" if alg is None else alg
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A generator with a random seed."""
        alg = "philox" if alg is None else alg
        size = 2 if _algorithm(alg) is Algorithm.THREEFRY else 3
        return cls(state=np.frombuffer(os.urandom(8 * size), np.int64), alg=alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        """A generator with this key, at this counter (two numbers)."""
        return cls(state=_joined(key, counter), alg=alg)

    # -- state -------------------------------------------------------------------------------------------------------
    @property
    def state(self) -> Variable:
        """The counter (two numbers) and the key."""
        return self._state_var

    @property
    def algorithm(self) -> int:
        """The number of the algorithm: 1 for Philox."""
        return int(self._alg)

    @property
    def key(self) -> Tensor:
        """The key: the last number of the state."""
        return self._state_var.value()[-1]

    def reset(self, state: Any) -> None:
        """Continue from a state."""
        with self._lock:
            self._state_var.assign(self._checked(state))

    def reset_from_seed(self, seed: Any) -> None:
        """Start again from a seed."""
        self.reset(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Continue with this key and counter."""
        self.reset(_joined(key, counter))

    def skip(self, delta: Any) -> Tensor:
        """Skip `delta` numbers. Returns the previous state."""
        given = operand(delta).array
        return wrap(self._advance(np.asarray(integer(delta)) if is_known(given) else given))

    def _advance(self, numbers: Array, each: int = _EACH) -> Array:
        if self._alg is Algorithm.THREEFRY:
            raise _no_threefry()
        with self._lock:  # two threads never get the same numbers
            before = self._state_var.value().array
            self._state_var.assign(wrap(_run("advanced_state", before, numbers, each=each)))
        return before

    def _stream(self, op: Any, blocks: Any) -> Array:
        return _run("stream_of_state", self._advance(_count(blocks), each=1))

    # -- numbers -----------------------------------------------------------------------------------------------------
    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
    ) -> Tensor:
        """Normal numbers, differentiable with respect to `mean` and `stddev`."""
        return _normal(self._stream, shape, mean, stddev, dtype, "StatelessRandomNormalV2")

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
    ) -> Tensor:
        """Normal numbers at most two standard deviations from the mean."""
        return _truncated(self._stream, shape, mean, stddev, dtype, "StatelessTruncatedNormalV2")

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", name: str | None = None
    ) -> Tensor:
        """Numbers in [minval, maxval); integers of the whole range if both are None."""
        return _uniform(self._stream, shape, minval, maxval, dtype, "StatelessRandomUniformV2", full=True)

    def uniform_full_int(self, shape: Any, dtype: Any = "uint64", name: str | None = None) -> Tensor:
        """Integers of the whole range of a dtype of 32 or 64 bits."""
        kind = as_dtype(dtype)
        if kind.name not in ("int32", "int64", "uint32", "uint64"):
            raise ValueError(f"Argument `dtype` got invalid value {kind!r}. Use a dtype of 32 or 64 bits.")
        where = _checked_shape(shape, "StatelessRandomUniformFullIntV2")
        return _fresh(_draw("random_integers", "StatelessRandomUniformFullIntV2", self._stream, where, kind))

    def binomial(self, shape: Any, counts: Any, probs: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
        """Binomial counts."""
        if self._alg is not Algorithm.PHILOX:
            raise errors.invalid_argument(f"Unsupported algorithm id: {int(self._alg)}", "StatefulRandomBinomial")
        return _binomial(self._stream, shape, counts, probs, dtype, "StatefulRandomBinomial")

    # -- more generators ---------------------------------------------------------------------------------------------
    def make_seeds(self, count: Any = 1) -> Tensor:
        """Seeds [2, count] for stateless functions."""
        keys = self.uniform_full_int([integer(count)], "int64")
        result: Tensor = array.stack(keys, constant_operand(np.zeros(integer(count), _INT64)), axis=0)
        return result

    def split(self, count: Any = 1) -> list[Generator]:
        """Independent generators, each with a key of its own."""
        keys = np.asarray(self.uniform_full_int([integer(count)], "int64").array)
        return [Generator(state=np.array([0, 0, key], np.int64), alg=self._alg) for key in keys]


def _int64(words: Array) -> Array:
    return namespace_of(words).astype(words, dtype=_INT64, source=words.dtype)


def _joined(key: Any, counter: Any) -> Tensor:
    key_, counter_ = operand(key).array, operand(counter).array
    if key_.size != 1 or counter_.size != 2:
        raise ValueError(f"key must be one number and counter two. Received shapes {key_.shape} and {counter_.shape}.")
    words = [wrap(_int64(words.reshape(-1))) for words in (counter_, key_)]
    return array.concatenate(*words, axis=0)


_global_generator: list[Generator] = []
_global_lock = forks.lock()


def get_global_generator() -> Generator:
    """The global generator, created on first use.

    >>> tf.random.get_global_generator().normal([2]).shape
    TensorShape([2])
    """
    with _global_lock:
        if not _global_generator:
            _global_generator.append(Generator.from_non_deterministic_state())
        return _global_generator[0]


def set_global_generator(generator: Generator) -> None:
    """Replace the global generator.

    >>> tf.random.set_global_generator(tf.random.Generator.from_seed(3))
    """
    with _global_lock:
        _global_generator[:] = [generator]


Sample = Callable[[Array], Array]
"""Class numbers of random words."""


# -- candidates for sampled losses -----------------------------------------------------------------------------------
class Candidates(NamedTuple):
    """What a candidate sampler returns: classes, and how often true and sampled classes are expected among them."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


def _sampler(
    samples: Callable[[int], Sample], probability: Callable[[Any, Any, int], Any], op: str
) -> Callable[..., Candidates]:
    """A candidate sampler, from how its classes are drawn and their probabilities."""

    def sampler(
        true_classes: Any,
        num_true: Any,
        num_sampled: Any,
        unique: bool,
        range_max: Any,
        seed: Any = None,
        name: str | None = None,
    ) -> Candidates:
        given = operand(true_classes, None if is_library(true_classes) else as_dtype("int64"))
        if given.dtype.name != "int64":
            raise errors.invalid_argument(
                f"cannot compute {op} as input #0(zero-based) was expected to be a int64 tensor but is a "
                f"{given.dtype.word} tensor",
                op,
            )
        unique, own = required_flag(unique, "unique"), _op_seed(seed)
        wanted, classes, columns = _sampler_sizes(op, num_sampled=num_sampled, range_max=range_max, num_true=num_true)
        true = _checked_classes(given.array, columns, classes, op)
        if unique and wanted > classes:
            raise errors.invalid_argument(
                f"Sampler's range is too small. Range: {classes}, number of distinct classes asked for: {wanted}", op
            )
        sample = samples(classes)
        key = (op, columns, wanted, unique, classes)
        drawn = _on_host(
            (wanted + 1,), _INT64, key, own, 512 * wanted, lambda stream: _candidates(stream, wanted, unique, sample)
        )
        chosen, tries = drawn[:wanted], drawn[wanted]

        def expected(ids: Array) -> Tensor:
            xp = common_namespace((ids, drawn))
            p = probability(xp, ids, classes)
            count = -xp.expm1(tries * xp.log1p(-p)) if unique else p * wanted
            return wrap(xp.astype(count, dtype=np.dtype(np.float32), source=count.dtype))

        return Candidates(wrap(chosen), expected(true), expected(chosen))

    return sampler


def _sampler_sizes(op: str, **given: Any) -> list[int]:
    """Sizes by the names of their arguments, none of them below 1."""
    sizes = {word: as_int(value, word) for word, value in given.items()}
    for word, size in sizes.items():
        if size < 1:
            raise errors.invalid_argument(f"Value for attr '{word}' of {size} must be at least minimum 1", op)
    return list(sizes.values())


def _checked_classes(true: Any, columns: int, classes: int, op: str) -> Any:
    """The classes of the examples, `columns` of each, all below `classes`."""
    if true.ndim != 2 or true.shape[1] != columns:
        raise errors.invalid_argument(
            f"true_classes must have num_true = {columns} columns, got shape {errors.brackets(true.shape)}", op
        )
    return verify(_TRUE_CLASSES, true, size=classes, op=op)


def _no_true_class(true: Any, size: int, op: str) -> Exception:
    bad = true[(true < 0) | (true >= size)][0]
    return errors.invalid_argument(f"`true_candidate` out of range [0, {size}), received {bad}", op)


_TRUE_CLASSES = index.WITHIN._replace(error=_no_true_class, always=True)  # how often they are expected may not matter


def _candidates(stream: Array, wanted: int, unique: bool, sample: Sample) -> Array:
    """Classes drawn and, at the end, how many draws that took: more where repetitions were thrown away."""
    chosen: list[int] = []
    seen: set[int] = set()
    tries = blocks = 0
    key, low, high = (int(word) for word in stream)
    while len(chosen) < wanted:
        batch = max(wanted - len(chosen), 16) * 4  # of blocks, which have one draw at least
        words = random_bits(stream_of(key, low + (high << 64) + blocks), count=4 * batch)
        blocks += batch
        for candidate in sample(words).tolist():
            tries += 1
            if not unique or candidate not in seen:
                seen.add(candidate)
                chosen.append(candidate)
                if len(chosen) == wanted:
                    break
    return np.array([*chosen, tries], np.int64)


def _log_uniform_samples(classes: int) -> Sample:
    reach = _math.log1p(classes)
    return lambda words: (np.exp(double(words[0::2], words[1::2]) * reach).astype(np.int64) - 1) % classes


def _even_samples(classes: int) -> Sample:
    def sample(words: Array) -> Array:
        drawn = words64(words)
        if classes & (classes - 1):  # the lowest numbers would make some remainders more likely
            drawn = drawn[drawn >= np.uint64((2**64 - 1) % classes + 1)]
        return drawn % np.uint64(classes)

    return sample


def _weighted_samples(weights: list[float]) -> Sample:
    """By the alias method (Vose, 1991): a place, and whether it or the one that shares it is meant."""
    total = sum(weights)
    shares = [float(np.float32(np.float32(w) * np.float32(len(weights)))) / total for w in weights]
    other = list(range(len(weights)))
    low, high = ([i for i, p in enumerate(shares) if (p < 1) is few] for few in (True, False))
    while low and high:
        small, large = low.pop(), high.pop()
        other[small] = large
        shares[large] -= 1 - shares[small]
        (low if shares[large] < 1 else high).append(large)
    for place in (*low, *high):
        shares[place] = 1
    chances, others = np.array(shares, np.float32), np.array(other)
    least = np.uint32((2**32 - 1) % len(weights) + 1) if len(weights) & (len(weights) - 1) else np.uint32(0)

    def sample(words: Array) -> Array:
        pairs = words.reshape(-1, 2)
        if np.any(pairs[:, 1] < least):  # another word is drawn for the place: after that the pairs are other ones
            listed = iter(words.tolist())
            kept: list[tuple[int, int]] = []
            for chance in listed:
                place = next((word for word in listed if word >= least), None)
                if place is not None:
                    kept.append((chance, place))
            pairs = np.array(kept, np.uint32).reshape(-1, 2)
        place = pairs[:, 1] % np.uint32(len(weights))
        return np.where(singles(pairs[:, 0].copy()) < chances[place], place, others[place])

    return sample


def _log_uniform_probability(xp: Any, ids: Array, classes: int) -> Array:
    place = xp.astype(ids, dtype=np.dtype(np.float64), source=ids.dtype)
    return (xp.log(place + 2) - xp.log(place + 1)) / _math.log1p(classes)


log_uniform_candidate_sampler = _sampler(_log_uniform_samples, _log_uniform_probability, "LogUniformCandidateSampler")
log_uniform_candidate_sampler.__name__ = log_uniform_candidate_sampler.__qualname__ = "log_uniform_candidate_sampler"
log_uniform_candidate_sampler.__doc__ = """Classes drawn with Zipf's law: class k weighs log((k + 2) / (k + 1)).

Returns the classes, how often each true class is expected among them, and how often each of them is.

>>> drawn = tf.random.log_uniform_candidate_sampler([[0]], 1, 3, unique=True, range_max=100)
>>> drawn.sampled_candidates.shape
TensorShape([3])
"""
uniform_candidate_sampler = _sampler(
    _even_samples,
    lambda xp, ids, classes: np.full(ids.shape, 1 / classes),
    "UniformCandidateSampler",
)
uniform_candidate_sampler.__name__ = uniform_candidate_sampler.__qualname__ = "uniform_candidate_sampler"
uniform_candidate_sampler.__doc__ = """Classes drawn evenly.

Returns the classes, how often each true class is expected among them, and how often each of them is.

>>> drawn = tf.random.uniform_candidate_sampler([[0]], 1, 3, unique=True, range_max=100)
>>> print(drawn.true_expected_count.numpy().round(2))
[[0.03]]
"""


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: Any,
    num_sampled: Any,
    unique: bool,
    range_max: Any,
    vocab_file: Any = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: Any = None,
    name: str | None = None,
) -> Candidates:
    """Classes drawn with given frequencies (`unigrams`, or the last column of a file), to the power of `distortion`.

    >>> draw = tf.random.fixed_unigram_candidate_sampler([[0]], 1, 2, True, 3, unigrams=[1.0, 2.0, 3.0])
    >>> draw.sampled_candidates.shape
    TensorShape([2])
    """
    if bool(vocab_file) == bool(len(unigrams)):
        raise errors.invalid_argument(
            "Must provide either vocab_file or unigrams, but not both.", "FixedUnigramCandidateSampler"
        )
    if vocab_file:
        with open(os.fsdecode(vocab_file), encoding="utf-8") as file:
            listed = [float(line.rstrip("\n").split(",")[-1]) for line in file if line.strip()]
    else:
        listed = [float(u) for u in static(unigrams)]
    weights = np.array([0.0] * num_reserved_ids + [w**distortion for w in listed])
    if len(weights) != integer(range_max):
        raise errors.invalid_argument(
            f"range_max is {integer(range_max)}, but there are {len(weights)} weights (reserved ids included)",
            "FixedUnigramCandidateSampler",
        )
    weights[np.arange(len(weights)) % num_shards != shard] = 0  # the other shards draw these
    totals = np.cumsum(weights)
    sampler = _sampler(
        lambda classes: _weighted_samples([float(np.float32(w)) for w in weights]),
        lambda xp, ids, classes: xp.take(weights, ids, axis=0) / totals[-1],
        "FixedUnigramCandidateSampler",
    )
    if unique and integer(num_sampled) > np.count_nonzero(weights):
        raise errors.invalid_argument(
            "Sampler's range is too small: fewer classes with a weight than num_sampled", "FixedUnigramCandidateSampler"
        )
    return sampler(true_classes, num_true, num_sampled, unique, range_max, seed)


def all_candidate_sampler(
    true_classes: Any, num_true: Any, num_sampled: Any, unique: bool, seed: Any = None, name: str | None = None
) -> Candidates:
    """Every class once: for tests, and to turn a sampled loss into the full one.

    >>> sampled, _, _ = tf.nn.all_candidate_sampler([[1]], num_true=1, num_sampled=3, unique=True)
    >>> sampled.numpy().tolist()
    [0, 1, 2]
    """
    true = operand(true_classes).array
    count = integer(num_sampled)
    return Candidates(
        wrap(np.arange(count)),
        wrap(np.ones(tuple(true.shape), np.float32)),
        wrap(np.ones(count, np.float32)),
    )


experimental = ModuleType("gradtape.random.experimental", "Names that were experimental in TensorFlow.")
experimental.__dict__.update(
    Algorithm=Algorithm,
    Generator=Generator,
    create_rng_state=create_rng_state,
    get_global_generator=get_global_generator,
    set_global_generator=set_global_generator,
    index_shuffle=index_shuffle,
    stateless_fold_in=fold_in,
    stateless_shuffle=stateless_shuffle,
    stateless_split=split,
)


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    "Algorithm",
    "Generator",
    "all_candidate_sampler",
    "categorical",
    "create_rng_state",
    "experimental",
    "fixed_unigram_candidate_sampler",
    "fold_in",
    "gamma",
    "get_global_generator",
    "log_uniform_candidate_sampler",
    "normal",
    "poisson",
    "set_global_generator",
    "set_seed",
    "shuffle",
    "split",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_normal",
    "stateless_parameterized_truncated_normal",
    "stateless_poisson",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]


def __dir__() -> list[str]:
    return list(__all__)
