"""The sources of the numbers of `tf.random`: seeds, and the streams of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import common_namespace
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.seeds import OpStreams, pair_of, rows_drawn, seeds as _seeds, start_of
from gradtape._src.arrays.symbolic import current_graph, graph_for_ops, number
from gradtape._src.conversion import constant_operand, is_library, wrap
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import index_operand, static
from gradtape._src.variable import StreamState, Variable, peek, store

Array = Any
Shape = tuple[int, ...]

INT64 = np.dtype(np.int64)


# -- seeds -----------------------------------------------------------------------------------------------------------
def set_seed(seed: Any) -> None:
    """Set the global seed, which makes random numbers reproducible.

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
    """The two seeds of an op with this seed; (None, None) without any seed."""
    pair = _seeds.pair(checked_op_seed(op_seed))
    return (None, None) if pair is None else pair


def checked_op_seed(seed: Any) -> Any:
    """An op's seed: a number, whose fraction is truncated when it is used; for a raw op, a pair of numbers."""
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
"""Returns a stream (see arrays/numpy/random.py) for an op (everything that identifies it) and the number of blocks that
it may read.
"""


def run_kernel(kernel: str, *arrays: Array, **attrs: Any) -> Array:
    """Run a random kernel on the engine of its stream and parameters: all random numbers are drawn here."""
    if any(type(array) is Batched for array in arrays):
        raise EscapeError("each row of a batch draws its own random numbers")
    return getattr(common_namespace(arrays), kernel)(*arrays, **attrs)


def drawn_on_host(
    shape: Shape, dtype: np.dtype[Any], op: Any, op_seed: Any, blocks: int, make: Callable[[Array], Array]
) -> Array:
    """A value that Python computes from an op's stream: now or, in a compiled function, before each of its calls."""
    graph = current_graph()
    if graph is None:
        return make(_seeds.stream(op, op_seed, blocks))
    pair, streams = _pair_within(graph, op_seed), OpStreams()
    return graph.per_call_input(shape, dtype, lambda: make(streams.next(op, pair, blocks)))


class OpSource:
    """The stream of an op, which continues where it stopped: see arrays/seeds.py."""

    __slots__ = ("_seed",)

    def __init__(self, seed: Any) -> None:
        self._seed = checked_op_seed(seed)

    def __call__(self, op: Any, blocks: Any) -> Array:
        graph = current_graph()
        if graph is None:
            return _seeds.stream(op, self._seed, blocks)
        state = graph.op_state(lambda: _stream_state(_pair_within(graph, self._seed)))
        before = peek(state).array
        store(state, run_kernel("advanced_state", before, block_count(blocks), each=1))
        return run_kernel("stream_of_state", before)


def _stream_state(pair: Any) -> StreamState:
    return StreamState(*start_of(pair), pair)


def _pair_within(graph: Any, op_seed: Any) -> Any:
    """The seeds of a new op of a graph."""
    if op_seed is None and graph.seed is not None:
        op_seed = graph.op_seeds
        graph.op_seeds += 1
    return pair_of(graph.seed, op_seed)


def block_count(blocks: Any) -> Array:
    """A number of blocks as an operand."""
    return number(blocks, INT64) if is_dimension(blocks) else np.asarray(blocks)


def source_of_seed(seed: Any) -> Source:
    """The stream of a stateless op, from its two scrambled seeds."""
    given = index_operand(seed, "StatelessRandomGetKeyCounter", "Tseed")
    if given.array.shape != (2,):
        raise errors.invalid_argument(
            f"seed must have shape [2], not {errors.brackets(given.array.shape)}", "StatelessRandomGetKeyCounter"
        )
    stream = run_kernel("stream_of_seed", given.array)
    return lambda op, blocks: stream


def for_rows(shape: Shape, source: Source, draw: Callable[[Shape], Array]) -> Tensor:
    """Draw numbers of a shape or, for an op with a state in a vectorized_map, for each row."""
    rows = rows_drawn.get() if type(source) is OpSource else ()
    if not rows:
        return constant_operand(draw(shape))
    if len(rows) > 1:
        raise EscapeError("each row of a nested batch draws its own random numbers")
    level, count = rows[0]
    return constant_operand(Batched(wrap(draw((count, *shape))), level))


def refuse_rows(source: Source) -> None:
    """Raise an error instead of drawing the same numbers for all rows of a vectorized_map."""
    if type(source) is OpSource and rows_drawn.get():
        raise EscapeError("each row of a batch draws its own random numbers")
