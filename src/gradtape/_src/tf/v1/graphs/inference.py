"""Infer the results of an operation when it is added to a graph: structure, dtypes, shapes.

The function of the operation runs once on symbolic arrays. A tensor of unknown rank has none: then it runs for each of
a few ranks, and what the results have in common is known. A function that only eager execution can run gets zeros and
other numbers, of two sizes where the size is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import DynamicSizeError, UnknownDimensionError
from gradtape._src.arrays.symbolic import NeedsEagerError, Symbolic, tracing
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.tape import use_recorders
from gradtape._src.function.python_code import graph_errors
from gradtape._src.interrupts import is_interrupt
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.v1.graphs.evaluation import Evaluation, needed
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, Mode, Operation, Target, running

if TYPE_CHECKING:
    from gradtape._src.tf.v1.graphs.graph import Graph

_RANKS = (1, 2, 0, 3, 4)
"""The ranks to try for an unknown rank."""

_SIZES = (2, 3)
"""The sizes to try for an unknown size, if a function has to run on values."""

_UNDECIDED = (NeedsEagerError, UnknownDimensionError, DynamicSizeError)


class UnknownRankError(Exception):
    """A function needs the rank of a tensor, which is unknown."""


class _Symbols(Mode):
    """Symbolic arrays of the graph in which shapes are inferred."""

    def __init__(self, graph: Graph, rank: int | None) -> None:
        self._graph, self._rank = graph, rank
        self._guessed: dict[int, Tensor] = {}

    def tensor(self, tensor: GraphTensor) -> Tensor:
        symbol = tensor.symbol
        if symbol is not None:
            return tensor_of(symbol, tensor.inferred_uid)
        if self._rank is None:
            raise UnknownRankError
        if id(tensor) not in self._guessed:
            shape = TensorShape([None] * self._rank)
            self._guessed[id(tensor)] = wrap(self._graph.stand_in(shape, tensor.dtype))
        return self._guessed[id(tensor)]

    def read(self, variable: Any) -> Tensor:
        return tensor_of(variable.symbol, variable.uid)

    def change(self, variable: Any, method: str, args: tuple[Any, ...]) -> Tensor:
        return variable.changed(method, args)


class _Examples(Mode):
    """Zeros of some size or, with `start`, the numbers from there: other values may have results of other shapes, and
    zeros are no permutation.
    """

    def __init__(self, size: int, rank: int | None, start: int | None) -> None:
        self._size, self._rank, self._start = size, rank, start

    def _zeros(self, shape: TensorShape, dtype: Any) -> Tensor:
        sizes = [None] * (self._rank or 0) if shape.rank is None else shape.as_list()
        array = np.zeros([self._size if n is None else n for n in sizes], dtype.numpy_dtype)
        if array.dtype.kind == "O":
            array[...] = b"1"
        elif self._start is not None and array.dtype.kind in "iuf":
            array[...] = np.arange(self._start, self._start + array.size).reshape(array.shape)
        return wrap(array)

    def tensor(self, tensor: GraphTensor) -> Tensor:
        if tensor._static.rank is None and self._rank is None:
            raise UnknownRankError
        return self._zeros(tensor._static, tensor.dtype)

    def sparse(self, value: SparseTensor) -> SparseTensor:
        """A sparse tensor with one element in each row: zeros would be repeated coordinates."""
        rank = value.shape.rank or self._rank or 2
        where = np.zeros([self._size, rank], np.int64)
        where[:, 0] = np.arange(self._size)
        values = self._zeros(TensorShape([self._size]), value.dtype)
        return SparseTensor(wrap(where), values, wrap(np.full([rank], max(self._size, 1), np.int64)))

    def read(self, variable: Any) -> Tensor:
        return self._zeros(variable.shape, variable.dtype)

    def change(self, variable: Any, method: str, args: tuple[Any, ...]) -> Tensor:
        return self.read(variable)


def tensor_of(array: Any, uid: int) -> Tensor:
    """A tensor with this identity."""
    made = Tensor()
    made.array, made.uid = array, uid
    return made


Results = tuple[Any, list[Tensor], list[TensorShape]]
"""The result of a function in inference, the tensors in it, and their shapes as far as they are known."""


def inferred(op: Operation) -> Results:
    """The results of an operation."""
    if (ranked := _ranked(op)) is not None:
        return ranked
    values = [value for value in op.inputs if isinstance(value, GraphTensor)]
    if all(value.symbol is not None for value in values):
        try:
            return _once(op, None)
        except UnknownRankError:
            pass
    return _common(op)


_SHAPED = ("reshape", "broadcast_to")
"""Functions of a tensor and a vector that has a number for each axis of the result."""

_KEEPING_RANK = ("tile", "transpose")
"""The same, where it has a number for each axis of the tensor, and the result has as many."""


def _ranked(op: Operation) -> Results | None:
    """The result of a function of which only the rank is known, if at all, since a vector has the sizes or the order of
    its axes; None for others.
    """
    name = op.function.__name__
    keeps_rank = name in _KEEPING_RANK
    if not (keeps_rank or name in _SHAPED) or len(op.args) < 2 or not isinstance(op.args[1], GraphTensor):
        return None
    x, vector = op.args[0], op.args[1].shape
    length = vector[0] if vector.rank == 1 else None
    if not isinstance(x, GraphTensor) or (length is not None and name in ("reshape", "tile")):
        return None
    have = x.shape.rank
    if vector.rank not in (None, 1) or (keeps_rank and None not in (have, length) and have != length):
        return None  # an error, which the function raises
    rank = have if keeps_rank and have is not None else length
    like = wrap(np.zeros((), x.dtype.numpy_dtype))
    return like, [like], [TensorShape(None if rank is None else [None] * rank)]


def _once(op: Operation, rank: int | None) -> Results:
    try:
        return _symbolic(op, rank)
    except (Exception, NeedsEagerError) as error:
        decided = not isinstance(error, _UNDECIDED)
        if isinstance(error, UnknownRankError) or (decided and is_interrupt(error)):
            raise
        sizes = _sizes(op)
        if decided and len(sizes) < 2:
            raise
        return _by_examples(op, rank, sizes, error)


def _sizes(op: Operation) -> list[int]:
    """Sizes to try for an unknown size: two numbers, and the known sizes of other inputs, which it may be equal to."""
    shapes = [value.shape.as_list() for value in op.inputs if value.shape.rank is not None]
    known = {n for shape in shapes for n in shape if n is not None}
    unknown = len(shapes) < len(op.inputs) or any(None in shape for shape in shapes)
    return [*_SIZES, *sorted(known - {*_SIZES})] if unknown else [1]


def _by_examples(op: Operation, rank: int | None, sizes: Sequence[int], failure: BaseException) -> Results:
    """What the function returns for examples, in each of the sizes that it takes; only the ranks if it does not take
    zeros.
    """
    found = list(_examples(op, rank, sizes, None))
    counted = [example for start in (0, 1) for example in _examples(op, rank, sizes, start)]
    if not found:
        counted = [(result, tensors, [_any_sizes(shape) for shape in shapes]) for result, tensors, shapes in counted]
    found += [example for example in counted if not found or len(example[1]) == len(found[0][1])]
    if not found:
        if isinstance(failure, UnknownDimensionError):
            raise ValueError(f"Shapes are not compatible in '{op.function.__name__}': {failure}")
        raise failure.reason if isinstance(failure, NeedsEagerError) else failure
    return found[0][0], found[0][1], _merged([shapes for _, _, shapes in found])


def _examples(op: Operation, rank: int | None, sizes: Sequence[int], start: int | None) -> Iterator[Results]:
    """What the function returns in each of the sizes that it takes."""
    for size in sizes:
        try:
            yield _eager(op, size, rank, start)
        except Exception as error:
            if is_interrupt(error):
                raise


def _any_sizes(shape: TensorShape) -> TensorShape:
    return TensorShape(None if shape.rank is None else [None] * shape.rank)


def _common(op: Operation) -> Results:
    """The common properties of the results for all ranks that the function accepts."""
    found, failure = [], None
    for rank in _RANKS:
        try:
            found.append(_once(op, rank))
        except Exception as error:
            if is_interrupt(error):
                raise
            failure = failure or error
    if not found:
        assert failure is not None
        raise failure
    result, tensors, _ = found[0]
    alike = [shapes for _, others, shapes in found if len(others) == len(tensors)]
    # Other ops may have results for other ranks: inference does not record on their tapes.
    return result, [wrap(np.zeros((), t.array.dtype)) for t in tensors], _merged(alike)


def _symbolic(op: Operation, rank: int | None) -> Results:
    with tracing(op.graph), use_recorders((op.graph.trace,)), graph_errors():
        return _called(op, _Symbols(op.graph, rank))


def _eager(op: Operation, size: int, rank: int | None, start: int | None) -> Results:
    with tracing(None), use_recorders(()), graph_errors():
        return _called(op, _Examples(size, rank, start))


def _called(op: Operation, mode: Mode) -> Results:
    def inside(value: Any) -> Any:
        if isinstance(value, Target):
            return value.variable
        return mode.tensor(value) if isinstance(value, GraphTensor) else value

    given = (op.args, op.kwargs)
    if isinstance(mode, _Examples):
        given = nest.map_structure(lambda leaf: mode.sparse(leaf) if _is_graph_sparse(leaf) else leaf, given)
    with running(mode):
        args, kwargs = nest.map_structure(inside, given, expand_composites=True)
        result = op.function(*args, **kwargs)
        leaves = nest.flatten(result, expand_composites=True)
        tensors = [*map(convert, filter(is_result, leaves))]
    return result, tensors, [static_shape(t) for t in tensors]


def _is_graph_sparse(leaf: Any) -> bool:
    """Whether a leaf is a sparse tensor whose elements are values of a graph."""
    return isinstance(leaf, SparseTensor) and isinstance(leaf.indices, GraphTensor)


def is_result(leaf: Any) -> bool:
    """Whether a leaf of a function's result is an output of its operation."""
    return isinstance(leaf, Tensor) or hasattr(leaf, "assign")


def static_shape(tensor: Tensor) -> TensorShape:
    """The static shape: None for unknown dimensions."""
    return TensorShape([n if isinstance(n, (int, np.integer)) else None for n in tensor.array.shape])


def _merged(found: Sequence[Sequence[TensorShape]]) -> list[TensorShape]:
    return [_alike(shapes) for shapes in zip(*found, strict=True)]


def _alike(shapes: Sequence[TensorShape]) -> TensorShape:
    ranks = {shape.rank for shape in shapes}
    if len(ranks) != 1 or None in ranks:
        return TensorShape(None)
    columns = zip(*[shape.as_list() for shape in shapes], strict=True)
    return TensorShape([sizes[0] if len({*sizes}) == 1 else None for sizes in columns])


# -- whole graphs ----------------------------------------------------------------------------------------------------
class _Trial(Evaluation):
    """The operations that lead to a result, traced with one rank for all placeholders of unknown rank, and one size for
    all unknown axes; None: an unknown size.
    """

    def __init__(self, scratch: Any, rank: int, size: int | None) -> None:
        super().__init__(())
        self._scratch, self._rank, self._size = scratch, rank, size

    def _stand_in(self, output: GraphTensor) -> None:
        sizes = [None] * self._rank if output._static.rank is None else output._static.as_list()
        shape = TensorShape([self._size if n is None else n for n in sizes])
        self._values[id(output)] = wrap(self._scratch.stand_in(shape, output.dtype))
        self._track(self._values[id(output)])

    def refuse_placeholder(self, op: Operation) -> None:
        self._stand_in(op.outputs[0])

    def run(self, op: Operation) -> None:
        if op.source is None:
            super().run(op)
            return
        for output in op.outputs:
            self._stand_in(output)

    def read(self, variable: Any) -> Tensor:
        symbol: Symbolic = self._scratch.own_stand_in(variable)
        return tensor_of(symbol, variable.uid)

    def variable(self, variable: Any) -> Any:
        return variable

    def change(self, variable: Any, method: str, args: tuple[Any, ...]) -> Tensor:
        return variable.changed(method, args)


def tried(op: Operation, scratch: Callable[[], Graph]) -> Any:
    """The result of an operation when everything that leads to it is traced, for the first rank and size with which
    that succeeds.
    """
    failure: BaseException | None = None
    ops = needed([op], ())[:-1]
    for rank, size in _guesses(ops):
        graph = scratch()
        try:
            with tracing(graph), use_recorders((graph.trace,)), graph_errors():
                trial = _Trial(graph, rank, size)
                for each in ops:
                    trial.run(each)
                with running(trial):
                    args, kwargs = nest.map_structure(trial.inside, (op.args, op.kwargs), expand_composites=True)
                    return op.function(*args, **kwargs)
        except (Exception, NeedsEagerError) as error:
            if not isinstance(error, NeedsEagerError) and is_interrupt(error):
                raise
            failure = failure or error
    assert failure is not None
    raise failure.reason if isinstance(failure, NeedsEagerError) else failure


def _guesses(ops: Sequence[Operation]) -> Iterator[tuple[int, int | None]]:
    """Ranks and sizes to try, if any are unknown."""
    shapes = [output._static for op in ops for output in op.outputs]
    fed = [output._static for op in ops if op.is_placeholder or op.source for output in op.outputs]
    ranks = _RANKS if any(shape.rank is None for shape in fed) else _RANKS[:1]
    known = {shape[0] for shape in shapes if shape.rank and shape[0] is not None}
    sizes: list[int | None] = [None]
    if any(shape.rank is None or None in shape.as_list() for shape in fed):
        sizes += [*_SIZES, *sorted(known - {*_SIZES, 0})]
    for size in sizes:
        for rank in ranks:
            yield rank, size
