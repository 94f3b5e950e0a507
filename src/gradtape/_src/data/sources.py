"""Sources of elements: arrays, generators, ranges, file names, and combinations of datasets."""

from __future__ import annotations

import functools
import glob
import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.data.core import END, INFINITE, UNKNOWN, Elements, IterationSeeds, Pipeline, Run, as_int, reading
from gradtape._src.data.structure import (
    TENSOR_SPECS,
    NoneTensorSpec,
    call,
    normalized,
    packer,
    row_spec,
    rows_of,
    spec_of,
    spec_of_result,
)
from gradtape._src.data.table import Progression, RowTable, straight
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops.ragged import RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor


# -- arrays ----------------------------------------------------------------------------------------------------------
def tensors(value: Any) -> Pipeline:
    """A dataset of one element."""
    element = normalized(value)
    if all(leaf is None for leaf in nest.flatten(element)):
        raise errors.invalid_argument(
            "Length for attr 'Toutput_types' of 0 must be at least minimum 1: an element needs a tensor",
            "TensorDataset",
        )
    return Pipeline("_TensorDataset", lambda run: iter((element,)), lambda: spec_of(element), 1)


def listed(elements: Any) -> Pipeline:
    """A dataset of the elements of a list."""
    if not elements:
        raise ValueError("Invalid `elements`. `elements` should not be empty.")
    made = [normalized(element) for element in elements]
    return Pipeline("_ListDataset", lambda run: iter(made), lambda: spec_of(made[0]), len(made))


def slices(value: Any) -> Pipeline:
    """A dataset of the rows of arrays."""
    element = normalized(value)
    leaves = nest.flatten(element)
    columns = [None if leaf is None else _column(leaf) for leaf in leaves]
    if all(column is None for column in columns):
        raise ValueError("Invalid `element`. `element` should not be empty.")
    count = _common_length([column for column in columns if column is not None])
    if any(isinstance(column, list) for column in columns):
        return _sliced(element, columns, count)
    table = straight(columns, element, count)
    specs = [_row_spec(column) for column in columns]
    return Pipeline("_TensorSliceDataset", table.elements, lambda: nest.pack_sequence_as(element, specs), count, table)


def _sliced(element: Any, columns: list[Any], count: int) -> Pipeline:
    """A dataset of the rows of sparse tensors, batches of datasets and arrays."""
    pack = packer(element)
    specs = [row_spec(spec) for spec in nest.flatten(spec_of(element))]

    def row(i: int) -> Any:
        return pack([column and column[i] if not isinstance(column, np.ndarray) else wrap(column[i, ...])
                     for column in columns])  # fmt: skip

    return Pipeline("_TensorSliceDataset", lambda run: map(row, range(count)), lambda: pack(specs), count)


def _column(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return rows_of(leaf)
    column = np.asarray(leaf.array).view()
    column.flags.writeable = False  # batches are views of it
    if not column.ndim:
        raise ValueError("Unbatching a tensor is only supported for rank >= 1")
    return column


def _common_length(columns: list[Any]) -> int:
    count = len(columns[0])
    for column in columns:
        if len(column) != count:
            raise ValueError(
                f"Dimensions {count} and {len(column)} are not compatible: all arrays need the same number of rows"
            )
    return count


def _row_spec(column: Any) -> Any:
    return NoneTensorSpec() if column is None else TensorSpec(column.shape[1:], column.dtype)


def numbers(args: tuple[Any, ...], output_type: Any) -> Pipeline:
    """The numbers from a start to a stop by a step, as in Python's `range`."""
    if not 1 <= len(args) <= 3:
        raise ValueError(f"Invalid `args`. The length of `args` should be between 1 and 3 but was {len(args)}.")
    given = [as_int(arg, "range") for arg in args]
    start, stop, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    if not step:
        raise errors.invalid_argument("step must be a non-zero integer.", "RangeDataset")
    dtype = as_dtype(output_type)
    table = straight([Progression(start, step, dtype.numpy_dtype)], None, len(range(start, stop, step)))
    return Pipeline("_RangeDataset", table.elements, lambda: TensorSpec((), dtype), table.straight or 0, table)


def counter(start: Any, step: Any, dtype: Any) -> Pipeline:
    """An infinite sequence of numbers."""
    first, by, kind = as_int(start, "start"), as_int(step, "step"), as_dtype(dtype)
    column = Progression(first, by, kind.numpy_dtype)
    table = straight([column], None, 2**62)
    return Pipeline("_ScanDataset", table.elements, lambda: TensorSpec((), kind), INFINITE, table)


# -- generators ------------------------------------------------------------------------------------------------------
def generated(
    generator: Any, output_types: Any, output_shapes: Any, args: tuple[Any, ...] | None, output_signature: Any
) -> Pipeline:
    """The values that a Python generator yields, checked against a specification."""
    if not callable(generator):
        raise TypeError("`generator` must be a Python callable.")
    for name, value in {"output_types": output_types, "output_shapes": output_shapes}.items():
        if output_signature is not None and value is not None:
            raise TypeError(f"The `{name}` argument can not be used together with the `output_signature` argument.")
    if output_signature is None:
        if output_types is None:
            raise TypeError(
                "To specify the output signature you need to provide either the `output_signature` argument or the "
                "`output_types` argument."
            )
        output_signature = _signature(output_types, output_shapes)
    for leaf in nest.flatten(output_signature):
        if not hasattr(leaf, "is_compatible_with"):
            raise TypeError(
                f"`output_signature` must contain objects that are subclass of `tf.TypeSpec` but found {type(leaf)} "
                "which is not."
            )
    signature = _as_structure(output_signature)
    given = tuple(convert(arg) for arg in args or ())

    def elements(run: Run) -> Elements:
        plain = [arg.numpy() for arg in given]
        return map(functools.partial(_fitting, signature), iter(generator(*plain)))

    return Pipeline("_FlatMapDataset", elements, lambda: signature)


def _signature(types: Any, shapes: Any) -> Any:
    if shapes is None:
        return nest.map_structure(lambda dtype: TensorSpec(None, dtype), types)
    flat = [TensorSpec(s, t) for t, s in zip(nest.flatten(types), shapes_like(types, shapes), strict=True)]
    return nest.pack_sequence_as(types, flat)


def shapes_like(structure: Any, shapes: Any) -> list[Any]:
    """The shapes for the leaves of a structure; a list is a shape there, and so is a tuple next to a leaf."""
    if not nest.is_nested(structure):
        return [shapes if isinstance(shapes, TensorShape) else TensorShape(shapes)]
    if isinstance(structure, Mapping):
        return [shape for key in sorted(structure) for shape in shapes_like(structure[key], shapes[key])]
    if isinstance(shapes, (list, TensorShape)) or len(shapes) != len(structure):
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. Input has type: "
            f"'{type(shapes).__name__}'."
        )
    return [shape for part, own in zip(structure, shapes, strict=True) for shape in shapes_like(part, own)]


def _as_structure(signature: Any) -> Any:
    """Convert lists in a signature to tuples."""
    if isinstance(signature, list):
        return tuple(map(_as_structure, signature))
    if type(signature) is tuple:
        return tuple(map(_as_structure, signature))
    if type(signature) is dict:
        return {key: _as_structure(part) for key, part in signature.items()}
    return signature


def _fitting(signature: Any, value: Any) -> Any:
    """Convert a yielded value to the structure and the dtypes of the signature."""
    try:
        leaves = _leaves_like(signature, value)
        specs = nest.flatten(signature)
        made = [_of_kind(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)]
    except (TypeError, ValueError, KeyError):
        raise reading(
            "TypeError: `generator` yielded an element that did not match the expected structure. The expected "
            f"structure was {signature}, but the yielded element was {value}."
        ) from None
    for tensor, spec in zip(made, specs, strict=True):
        if not spec.is_compatible_with(tensor):
            raise reading(
                f"TypeError: `generator` yielded an element of shape {tensor.shape} where an element of shape "
                f"{spec.shape} was expected."
            )
    return packer(signature)(made)


def _of_kind(value: Any, spec: Any) -> Any:
    """Convert a value to the type and dtype of a specification; TypeError if it has another type."""
    if isinstance(spec, TensorSpec):
        value = convert(value) if isinstance(value, Tensor) else convert(value, spec.dtype)
    if isinstance(spec, RaggedTensorSpec) and not spec.ragged_rank:
        value = convert(value)
    if isinstance(spec, RaggedTensorSpec):
        if not spec.is_compatible_with(value):
            raise TypeError
    elif isinstance(spec, TENSOR_SPECS):
        if isinstance(value, SparseTensor) != isinstance(spec, SparseTensorSpec) or value.dtype is not spec.dtype:
            raise TypeError
    elif not spec.is_compatible_with(value):
        raise TypeError
    return value


def _leaves_like(signature: Any, value: Any) -> list[Any]:
    if not nest.is_nested(signature):
        return [value]
    if isinstance(signature, Mapping):
        if set(signature) != set(value):
            raise KeyError
        return [leaf for key in sorted(signature) for leaf in _leaves_like(signature[key], value[key])]
    if len(value) != len(signature):
        raise ValueError
    return [leaf for part, own in zip(signature, value, strict=True) for leaf in _leaves_like(part, own)]


# -- random numbers and files ----------------------------------------------------------------------------------------
def random_numbers(seed: Any, anew: bool) -> Pipeline:
    """An infinite sequence of random int64 numbers below 2**32."""
    own = IterationSeeds(seed, anew)

    def elements(run: Run) -> Elements:
        generator = own.generator(run)
        while True:
            for number in generator.integers(2**32, size=1024):
                yield wrap(np.array(number, np.int64))

    return Pipeline("_RandomDataset", elements, lambda: TensorSpec((), "int64"), INFINITE)


def matching_files(patterns: Any) -> list[str]:
    """The names of the files that match one of the patterns, sorted."""
    texts = [os.fsdecode(text) for text in np.ravel(np.asarray(convert(_path_text(patterns)).array))]
    found = sorted({name for text in texts for name in glob.glob(text)})
    if not found:
        raise errors.invalid_argument(
            f"Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true. Summarized data: "
            f"b'No files matched pattern: {', '.join(texts)}'"
        )
    return found


def _path_text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_path_text(part) for part in value] if isinstance(value, (list, tuple)) else value


# -- several datasets ------------------------------------------------------------------------------------------------
def zipped(structure: Any) -> Pipeline:
    """The elements of several datasets, combined in the given structure of pipelines."""
    sources: list[Pipeline] = nest.flatten(structure)
    sizes = [source.size for source in sources]
    size = UNKNOWN if UNKNOWN in sizes else min((s for s in sizes if s != INFINITE), default=INFINITE)
    pack = packer(structure)

    def find_spec() -> Any:
        return pack([source.spec for source in sources])

    tables = [source.table for source in sources]
    if all(table is not None and table.straight is not None for table in tables):
        table = _side_by_side(tables, pack)  # type: ignore[arg-type]
        return Pipeline("_ZipDataset", table.elements, find_spec, size, table)

    def elements(run: Run) -> Elements:
        together = zip(*[source.elements(run) for source in sources])  # noqa: B905 - the shortest ends it
        return map(pack, map(list, together))

    return Pipeline("_ZipDataset", elements, find_spec, size)


def _side_by_side(tables: list[RowTable], pack: Callable[[list[Any]], Any]) -> RowTable:
    columns = [column for table in tables for column in table.columns]
    structure = pack([table.structure for table in tables])
    return straight(columns, structure, min(table.straight or 0 for table in tables))


def concatenated(first: Pipeline, second: Pipeline) -> Pipeline:
    """The elements of one dataset, then those of another."""

    def find_spec() -> Any:
        one, other = first.spec, second.spec
        try:
            nest.assert_same_structure(one, other)
            return nest.map_structure(_either, one, other)
        except (TypeError, ValueError):
            raise TypeError(f"Incompatible dataset elements:\n  {one} vs.   {other}") from None

    def elements(run: Run) -> Elements:
        return itertools.chain.from_iterable(source.elements(run) for source in (first, second))

    sizes = (first.size, second.size)
    size = INFINITE if INFINITE in sizes else UNKNOWN if UNKNOWN in sizes else sum(sizes)
    return Pipeline("_ConcatenateDataset", elements, find_spec, size)


def _either(one: Any, other: Any) -> Any:
    return one.most_specific_compatible_type(other) if isinstance(one, TENSOR_SPECS) else one


def directed(sources: list[Pipeline], choices: Callable[[Run], Any], stop_on_empty: bool) -> Pipeline:
    """Take each element from the dataset whose number is next."""

    def find_spec() -> Any:
        spec = sources[0].spec
        for other in sources[1:]:
            nest.assert_same_structure(spec, other.spec)
            spec = nest.map_structure(_either, spec, other.spec)
        return spec

    def elements(run: Run) -> Elements:
        streams: list[Elements | None] = [source.elements(run) for source in sources]
        left = len(streams)
        for choice in choices(run):
            if not 0 <= choice < len(streams):
                raise reading(f"Selector index out of range: {choice} >= {len(streams)}")
            stream = streams[choice]
            if stream is None:
                continue
            element = next(stream, END)
            if element is not END:
                yield element
                continue
            streams[choice] = None
            left -= 1
            if stop_on_empty or not left:
                return

    return Pipeline("_DirectedInterleaveDataset", elements, find_spec)


def drawn(weights: Any, count: int, own: IterationSeeds) -> Callable[[Run], Any]:
    """Random numbers of datasets, by weights: the same for all, or new ones for every number."""

    def choices(run: Run) -> Any:
        generator = own.generator(run)
        changing = None if weights is None or not isinstance(weights, Pipeline) else weights.elements(run)
        while True:
            chances = weights
            if changing is not None:
                if (element := next(changing, END)) is END:
                    return
                chances = np.asarray(element.array)
            chances = np.ones(count) if chances is None else np.asarray(chances, np.float64)
            sums = np.cumsum(chances / chances.sum())
            draws = np.searchsorted(sums, generator.random(1 if changing is not None else 256), side="right")
            yield from np.minimum(draws, count - 1).tolist()

    return choices


def resampled(source: Pipeline, class_func: Any, target_dist: Any, initial_dist: Any, seed: Any) -> Pipeline:
    """Pairs (class, element), sampled so that the classes have the requested distribution."""
    target = np.asarray(convert(target_dist).array, np.float64)
    given = None if initial_dist is None else np.asarray(convert(initial_dist).array, np.float64)
    own = IterationSeeds(seed)

    def pair(element: Any) -> tuple[Any, Any]:
        return convert(call(class_func, element)), element

    def elements(run: Run) -> Elements:
        generator = own.generator(run)
        seen = np.zeros(len(target)) if given is None else given
        for element in source.elements(run):
            kind, _ = found = pair(element)
            number = int(np.asarray(kind.array))
            if given is None:
                seen[number] += 1
            ratios = np.divide(target, seen, out=np.zeros(len(target)), where=seen > 0)
            if generator.random() * ratios.max() < ratios[number]:
                yield found

    def find_spec() -> Any:
        return spec_of_result(pair, (source.spec,), lambda: (source.first(),))

    return Pipeline("_DirectedInterleaveDataset", elements, find_spec)
