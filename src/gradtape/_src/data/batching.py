"""Grouping elements and splitting them: batches, padded batches, windows, groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.data.core import END, INFINITE, UNKNOWN, CallIterator, Elements, Pipeline, Run, as_int, reading
from gradtape._src.data.sources import shapes_like
from gradtape._src.data.structure import (
    TENSOR_SPECS,
    in_batches,
    joined,
    packer,
    row_spec,
    rows_of,
    spec_of,
    spec_of_result,
)
from gradtape._src.data.transforms import inner, key_of
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops.ragged import RaggedTensor, RaggedTensorSpec
from gradtape._src.ops.ragged.rows import stacked
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor

Make = Callable[[Pipeline], Any]
"""Creates a dataset from a pipeline."""


def _positive(size: int, op: str) -> int:
    if size < 1:
        raise errors.invalid_argument("Batch size must be greater than zero.", op)
    return size


def _count(size: int, n: int, drop_remainder: bool) -> int:
    return size if size < 0 else size // n if drop_remainder else -(-size // n)


# -- batches ---------------------------------------------------------------------------------------------------------
def batch(source: Pipeline, batch_size: Any, drop_remainder: Any, kind: str) -> Pipeline:
    """Elements stacked along a new first axis."""
    n, drop = _positive(as_int(batch_size, "batch_size"), "BatchDatasetV2"), bool(drop_remainder)
    table = source.table

    def elements(run: Run) -> Elements:
        if table is not None:
            return table.batches(run, n, drop)
        stream = source.elements(run)
        return CallIterator(lambda: _next_batch(stream, n, drop, _stacked))

    def find_spec() -> Any:
        return in_batches(source.spec, n if drop else None)

    return Pipeline(kind, elements, find_spec, _count(source.size, n, drop))


def _next_batch(stream: Elements, n: int, drop_remainder: bool, stack: Callable[[int, list[Any]], Any]) -> Any:
    some = list(itertools.islice(stream, n))
    if not some or (drop_remainder and len(some) < n):
        return END
    return together(some, stack)


def together(elements: list[Any], stack: Callable[[int, list[Any]], Any]) -> Any:
    """One element from several: `stack` combines the values of each component."""
    if not nest.is_nested(elements[0]):
        return stack(0, elements)
    columns = zip(*map(nest.flatten, elements), strict=True)
    return packer(elements[0])([stack(i, list(column)) for i, column in enumerate(columns)])


def _arrays(component: int, tensors: list[Any]) -> list[ndarray]:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Batching of {type(tensor).__name__} values is not supported (component {component}): elements need "
                "to be tensors, or datasets."
            )
    arrays = [np.asarray(tensor.array) for tensor in tensors]
    for array in arrays:
        if array.dtype != arrays[0].dtype:
            raise reading(
                f"Cannot batch tensors with different types in component {component}. First element had dtype "
                f"{arrays[0].dtype} and another one {array.dtype}."
            )
    return arrays


def _stacked(component: int, tensors: list[Any]) -> Any:
    if tensors[0] is None:
        return None
    if type(tensors[0]) is not Tensor and (whole_ := joined(tensors)) is not None:
        return whole_
    arrays = _arrays(component, tensors)
    shape = arrays[0].shape
    result = np.empty((len(arrays), *shape), arrays[0].dtype)
    for i, array in enumerate(arrays):
        if array.shape != shape:
            raise reading(
                f"Cannot batch tensors with different shapes in component {component}. First element had shape "
                f"{errors.brackets(shape)} and element {i} had shape {errors.brackets(array.shape)}."
            )
        result[i, ...] = array
    return wrap(result)


def ragged_batch(source: Pipeline, batch_size: Any, drop_remainder: Any, row_splits_dtype: Any) -> Pipeline:
    """Elements along a new first axis; dimensions of unknown size become ragged."""
    n, drop = _positive(as_int(batch_size, "batch_size"), "BatchDatasetV2"), bool(drop_remainder)
    kind = as_dtype(row_splits_dtype)

    def elements(run: Run) -> Elements:
        ranks = [_ragged_rank(leaf) for leaf in nest.flatten(source.spec)]

        def stack(component: int, leaves: list[Any]) -> Any:
            rank = max(ranks[component], _differing(leaves))
            if not rank or not isinstance(leaves[0], (Tensor, RaggedTensor)):
                return _stacked(component, leaves)
            return stacked(leaves, rank, kind.numpy_dtype)

        stream = source.elements(run)
        return CallIterator(lambda: _next_batch(stream, n, drop, stack))

    def find_spec() -> Any:
        return nest.map_structure(lambda leaf: _ragged_spec(leaf, n if drop else None, kind), source.spec)

    return Pipeline("_BatchDataset", elements, find_spec, _count(source.size, n, drop))


def _differing(leaves: list[Any]) -> int:
    """The number of dimensions up to the last in which tensors differ, which their specs may not show."""
    shapes = {tuple(leaf.array.shape) for leaf in leaves if isinstance(leaf, Tensor)}
    if len(shapes) < 2:
        return 0
    return max([i + 1 for i, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1], default=0)


def _ragged_rank(spec: Any) -> int:
    """The number of ragged dimensions of a batch: up to the last unknown size. 0: the batch is dense."""
    if isinstance(spec, RaggedTensorSpec):
        return spec.ragged_rank + 1
    sizes = (spec.shape.dims or ()) if isinstance(spec, TensorSpec) else ()
    return max([i + 1 for i, size in enumerate(sizes) if size is None], default=0)


def _ragged_spec(spec: Any, size: int | None, row_splits_dtype: Any) -> Any:
    rank = _ragged_rank(spec)
    if not rank:
        return in_batches(spec, size)
    return RaggedTensorSpec(TensorShape([size]).concatenate(spec.shape), spec.dtype, rank, row_splits_dtype)


def padded_batch(
    source: Pipeline, batch_size: Any, padded_shapes: Any, padding_values: Any, drop_remainder: Any
) -> Pipeline:
    """Elements of different shapes, padded at their ends and stacked."""
    n, drop = _positive(as_int(batch_size, "batch_size"), "PaddedBatchDatasetV2"), bool(drop_remainder)
    spec = source.spec
    specs: list[Any] = nest.flatten(spec)
    _check_dense(specs)
    shapes = _padded_shapes(spec, specs, padded_shapes)
    values = _padding_values(spec, specs, padding_values)

    def stack(component: int, tensors: list[Any]) -> Any:
        return _filled_up(_arrays(component, tensors), shapes[component], values[component])

    def elements(run: Run) -> Elements:
        stream = source.elements(run)
        return CallIterator(lambda: _next_batch(stream, n, drop, stack))

    made = [TensorSpec(TensorShape([n if drop else None]).concatenate(shape), leaf.dtype)
            for shape, leaf in zip(shapes, specs, strict=True)]  # fmt: skip
    return Pipeline("_PaddedBatchDataset", elements, lambda: packer(spec)(made), _count(source.size, n, drop))


def _check_dense(specs: list[Any]) -> None:
    for spec in specs:
        if hasattr(spec, "_batched"):
            raise TypeError("`padded_batch` is not supported for datasets of datasets")
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                "`padded_batch` is only supported for datasets that produce tensor elements but type spec of elements "
                f"in the input dataset is not a subclass of TensorSpec: `{spec}`."
            )


def _padded_shapes(spec: Any, specs: list[Any], wanted: Any) -> list[TensorShape]:
    if wanted is None:
        for i, leaf in enumerate(specs):
            if leaf.shape.rank is None:
                raise ValueError(f"You must provide `padded_shapes` argument because component {i} has unknown rank.")
        return [leaf.shape for leaf in specs]
    if isinstance(wanted, (Tensor, ndarray)):
        wanted = np.asarray(wanted).tolist()
    shapes = [TensorShape([None if n == -1 else n for n in s]) for s in shapes_like(spec, wanted)]
    for shape, leaf in zip(shapes, specs, strict=True):
        have = leaf.shape
        fits = have.rank is None or (
            have.rank == shape.rank and all(n is None or m is None or n >= m for n, m in zip(shape, have, strict=True))
        )
        if not fits:
            raise ValueError(
                f"The padded shape {shape} is not compatible with the shape {have} of the corresponding input "
                "component."
            )
    return shapes


def _padding_values(spec: Any, specs: list[Any], given: Any) -> list[Any]:
    if not nest.is_nested(given):
        flat = [given] * len(specs)
    else:
        nest.assert_same_structure(spec, given)
        flat = nest.flatten(given)
    return [_padding_value(value, leaf) for value, leaf in zip(flat, specs, strict=True)]


def _padding_value(value: Any, spec: Any) -> Any:
    if value is None:
        return b"" if spec.dtype.name == "string" else np.zeros((), spec.dtype.numpy_dtype)
    tensor = convert(value)
    if tensor.array.shape:
        raise ValueError(
            f"Invalid `padding_values`. `padding_values` values should be scalars, but got {tensor.shape}."
        )
    whole_number = isinstance(value, int) and not isinstance(value, bool)
    if tensor.dtype is not spec.dtype and not (whole_number and spec.dtype.is_integer):
        raise TypeError(
            f"Invalid `padding_values`. `padding_values` values type {tensor.dtype} does not match type "
            f"{spec.dtype} of the corresponding input component."
        )
    return np.asarray(tensor.array).astype(spec.dtype.numpy_dtype)[()]


def _filled_up(arrays: list[ndarray], shape: TensorShape, value: Any) -> Tensor:
    if any(array.ndim != shape.rank for array in arrays):
        raise reading("All elements in a batch must have the same rank as the padded shape for component.")
    largest = [max(sizes) for sizes in zip(*[array.shape for array in arrays], strict=True)]
    sizes = [found if n is None else n for n, found in zip(shape, largest, strict=True)]
    if any(found > n for n, found in zip(sizes, largest, strict=True)):
        raise errors.DataLossError(
            None,
            None,
            f"Attempted to pad to a smaller size than the input element: {largest} into {sizes}. [Op:IteratorGetNext]",
        )
    result = np.full((len(arrays), *sizes), value, arrays[0].dtype)
    for i, array in enumerate(arrays):
        place: tuple[Any, ...] = (i, *map(slice, array.shape), ...)
        result[place] = array
    return wrap(result)


# -- batches taken apart ---------------------------------------------------------------------------------------------
def _columns(element: Any) -> list[Any]:
    """The leaves of an element, for taking rows: arrays, lists of rows if a leaf is not a dense tensor, and None."""
    return [
        np.asarray(leaf.array) if isinstance(leaf, Tensor) else leaf if leaf is None else rows_of(leaf)
        for leaf in nest.flatten(element)
    ]


def _row(column: Any, i: int) -> Any:
    return wrap(column[i, ...]) if isinstance(column, ndarray) else column and column[i]


def unbatch(source: Pipeline) -> Pipeline:
    """The rows of every element."""
    known = _cheap_spec(source)
    if known is not None:
        _check_rows(known)

    def elements(run: Run) -> Elements:
        for element in source.elements(run):
            columns = _columns(element)
            if any(isinstance(column, ndarray) and not column.ndim for column in columns):
                raise ValueError("Cannot unbatch an input with scalar components.")
            sizes = [len(column) for column in columns if column is not None]
            for i, size in enumerate(sizes):
                if size != sizes[0]:
                    raise reading(
                        "Input element must have the same batch size in each component. Component 0 had size "
                        f"{sizes[0]} but component {i} had size, {size}."
                    )
            pack = packer(element)
            for i in range(sizes[0]):
                yield pack([_row(column, i) for column in columns])

    def find_spec() -> Any:
        _check_rows(source.spec)
        return nest.map_structure(row_spec, source.spec)

    size = source.size if source.size == INFINITE else UNKNOWN
    if known is not None and source.size >= 0:
        first = next((leaf.shape[0] for leaf in nest.flatten(known) if isinstance(leaf, TENSOR_SPECS)), None)
        size = UNKNOWN if first is None else first * source.size
    return Pipeline("_UnbatchDataset", elements, find_spec, size)


def _cheap_spec(source: Pipeline) -> Any:
    """The spec, if it is known without running a function."""
    if source.kind in (
        "_BatchDataset",
        "_ParallelBatchDataset",
        "_TensorDataset",
        "_TensorSliceDataset",
        "_RangeDataset",
    ):
        return source.spec
    return None


def _check_rows(spec: Any) -> None:
    known = None
    for leaf in nest.flatten(spec):
        if not isinstance(leaf, TENSOR_SPECS) or leaf.shape.rank is None:
            continue
        if leaf.shape.rank == 0:
            raise ValueError("Cannot unbatch an input with scalar components.")
        size = leaf.shape[0]
        if None not in (size, known) and size != known:
            raise ValueError(
                "`unbatch()` is only supported for datasets of elements whose components have a matching leading "
                f"dimension. Encountered both {known} and {size}."
            )
        known = size if known is None else known


def _scalars() -> ValueError:
    return ValueError(
        "Invalid `batch_sizes`. Expected dataset with rank of >= 1 but found a dataset with scalar elements. Fix the "
        "issue by adding the `batch` transformation to the dataset."
    )


def rebatch(source: Pipeline, batch_size: Any, drop_remainder: Any) -> Pipeline:
    """Batches of another size, or of several sizes in turn."""
    sizes = [int(n) for n in np.ravel(np.asarray(convert(batch_size).array))]
    several, drop = len(convert(batch_size).array.shape) > 0, bool(drop_remainder)
    for size in sizes:
        _positive(size, "RebatchDatasetV2")
    known = _cheap_spec(source)
    if known is not None and any(isinstance(s, TENSOR_SPECS) and s.shape.rank == 0 for s in nest.flatten(known)):
        raise _scalars()

    def elements(run: Run) -> Elements:
        waiting: list[list[Any]] = []
        count, turn = 0, itertools.cycle(sizes)
        wanted, pack = next(turn), None
        for element in source.elements(run):
            pack = packer(element)
            waiting.append(_columns(element))
            if any(isinstance(column, ndarray) and not column.ndim for column in waiting[-1]):
                raise _scalars()
            count += next(len(column) for column in waiting[-1] if column is not None)
            if count < wanted:
                continue
            columns = [_end_to_end(parts) for parts in zip(*waiting, strict=True)]
            start = 0
            while count - start >= wanted:
                yield pack([_leaf(None if column is None else column[start : start + wanted]) for column in columns])
                start, wanted = start + wanted, next(turn)
            waiting, count = [[None if column is None else column[start:] for column in columns]], count - start
        if count and pack is not None and not drop:
            yield pack([_leaf(_end_to_end(parts)) for parts in zip(*waiting, strict=True)])

    def find_spec() -> Any:
        first = sizes[0] if drop and not several else None
        return in_batches(nest.map_structure(row_spec, source.spec), first)

    return Pipeline("_RebatchDataset", elements, find_spec, source.size if source.size == INFINITE else UNKNOWN)


def _end_to_end(parts: tuple[Any, ...]) -> Any:
    """Columns concatenated."""
    if parts[0] is None:
        return None
    return np.concatenate(parts) if isinstance(parts[0], ndarray) else list(itertools.chain.from_iterable(parts))


def _leaf(column: Any) -> Any:
    """The leaf that has these rows."""
    if column is None:
        return None
    return wrap(column) if isinstance(column, ndarray) else joined(column)


# -- windows and groups ----------------------------------------------------------------------------------------------
def window(source: Pipeline, size: Any, shift: Any, stride: Any, drop_remainder: Any, make: Make) -> Pipeline:
    """Datasets of consecutive elements."""
    n, by = as_int(size, "size"), as_int(1 if stride is None else stride, "stride")
    if n < 1:
        raise errors.invalid_argument("Window size must be greater than zero.", "WindowDataset")
    step = n if shift is None else as_int(shift, "shift")
    for name, value in {"shift": step, "stride": by}.items():
        if value < 1:
            raise errors.invalid_argument(f"Window {name} must be greater than zero.", "WindowDataset")
    span, drop = (n - 1) * by + 1, bool(drop_remainder)

    def elements(run: Run) -> Elements:
        stream = source.elements(run)
        waiting: list[Any] = []
        while True:
            waiting += itertools.islice(stream, max(0, span - len(waiting)))
            if not waiting or (drop and len(waiting) < span):
                return
            yield _component_datasets(waiting[:span:by], make)
            passed_over = step - len(waiting)
            del waiting[:step]
            if passed_over > 0:
                next(itertools.islice(stream, passed_over - 1, None), None)

    def find_spec() -> Any:
        return nest.map_structure(lambda leaf: make(_listed([], leaf))._element_of_dataset(), source.spec)

    count = source.size
    if count >= 0:
        count = max(0, (count - span) // step + 1) if drop else -(-count // step)
    return Pipeline("_WindowDataset", elements, find_spec, count)


def _listed(elements: list[Any], spec: Any) -> Pipeline:
    return Pipeline("_VariantDataset", lambda run: iter(elements), lambda: spec, len(elements))


def _component_datasets(elements: list[Any], make: Make) -> Any:
    def component(i: int, leaves: list[Any]) -> Any:
        return make(Pipeline("_VariantDataset", lambda run: iter(leaves), lambda: spec_of(leaves[0]), len(leaves)))

    return together(elements, component)


def group_by_window(
    source: Pipeline, key_func: Any, reduce_func: Any, window_size: Any, window_size_func: Any, make: Make
) -> Pipeline:
    """Groups of elements with the same key, of the size of a window, each mapped to a dataset by a function."""
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Either the `window_size` argument or the `window_size_func` argument must be specified.")

    def size_of(key: Tensor) -> int:
        n = as_int(window_size if window_size_func is None else window_size_func(key), "window_size")
        if n < 1:
            raise reading(f"Window size must be greater than zero, but got {n}.")
        return n

    def result(key: Tensor, elements: list[Any]) -> Pipeline:
        dataset = make(_listed(elements, source.spec if not elements else spec_of(elements[0])))
        return inner(lambda group: reduce_func(key, group), dataset, "group_by_window")

    def elements(run: Run) -> Elements:
        groups: dict[int, list[Any]] = {}
        sizes: dict[int, int] = {}
        for element in source.elements(run):
            number = key_of(key_func, element)
            group = groups.setdefault(number, [])
            group.append(element)
            if len(group) == 1:
                sizes[number] = size_of(_key(number))
            if len(group) == sizes[number]:
                yield from result(_key(number), groups.pop(number)).elements(run)
        for number in sorted(groups):
            yield from result(_key(number), groups[number]).elements(run)

    def find_spec() -> Any:
        def reduced(element: Any) -> Any:
            return reduce_func(_key(0), make(_listed([element], spec_of(element))))

        found = spec_of_result(reduced, (source.spec,), lambda: (source.first(),))
        return found.element_spec

    return Pipeline("_GroupByWindowDataset", elements, find_spec)


def _key(number: int) -> Tensor:
    return wrap(np.array(number, np.int64))


def _up_to_boundary(spec: Any, shapes: Any, boundaries: list[int], own: int) -> Any:
    """The padded shapes for the elements of a bucket: unknown sizes become its boundary."""
    if own == len(boundaries):
        raise reading(
            "assertion failed: [When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries).]"
        )
    known = [[boundaries[own] - 1 if n is None else n for n in shape] for shape in shapes_like(spec, shapes)]
    return packer(spec)([TensorShape(shape) for shape in known])


def bucket(
    source: Pipeline,
    element_length_func: Any,
    boundaries: list[int],
    batch_sizes: list[int],
    padded_shapes: Any,
    padding_values: Any,
    pad_to_boundary: bool,
    no_padding: bool,
    drop_remainder: bool,
    make: Make,
) -> Pipeline:
    """Batches of elements of similar lengths."""
    if len(batch_sizes) != len(boundaries) + 1:
        raise ValueError(
            "`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but `len(bucket_batch_sizes)="
            f"{len(batch_sizes)}` and `len(bucket_boundaries)={len(boundaries)}`."
        )

    def key_func(*parts: Any) -> Any:
        length = int(np.asarray(convert(element_length_func(*parts)).array))
        return int(np.searchsorted(boundaries, length, side="right"))

    def reduce_func(key: Any, group: Any) -> Any:
        own = int(key)
        pipeline: Pipeline = group._pipeline
        if no_padding:
            return make(batch(pipeline, batch_sizes[own], drop_remainder, "_BatchDataset"))
        shapes = nest.map_structure(lambda leaf: leaf.shape, source.spec) if padded_shapes is None else padded_shapes
        if pad_to_boundary:
            shapes = _up_to_boundary(source.spec, shapes, boundaries, own)
        return make(padded_batch(pipeline, batch_sizes[own], shapes, padding_values, drop_remainder))

    def window_size(key: Any) -> int:
        return batch_sizes[int(key)]

    made = group_by_window(source, key_func, reduce_func, None, window_size, make)

    def find_spec() -> Any:
        if no_padding:
            return in_batches(source.spec, None)
        _check_dense(nest.flatten(source.spec))
        shapes = _padded_shapes(source.spec, nest.flatten(source.spec), padded_shapes)
        flat = [TensorSpec(TensorShape([None]).concatenate(s), leaf.dtype)
                for s, leaf in zip(shapes, nest.flatten(source.spec), strict=True)]  # fmt: skip
        return packer(source.spec)(flat)

    return Pipeline(made.kind, made.elements, find_spec)
