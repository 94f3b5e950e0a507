"""Raw ops with effects or functions: variables, lists of tensors, branches, loops, calls, checks.

A `resource` is a variable (or its `handle`), a `variant` a `tf.TensorArray`: the objects themselves serve as
TensorFlow's handles. Functions are callables that take the inputs as positional arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.raw_ops.array import OPS as _ARRAY_OPS
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Reference, Tensor
from gradtape._src.tf import array, control_flow, debugging, math
from gradtape._src.tf.arguments import static
from gradtape._src.tf.python_functions import print_
from gradtape._src.tf.tensor_array import TensorArray
from gradtape._src.variable import Variable, read

if TYPE_CHECKING:
    from collections.abc import Callable


# -- variables -------------------------------------------------------------------------------------------------------
def variable_of(resource: Any) -> Variable:
    """The variable of a handle."""
    found = resource.deref() if isinstance(resource, Reference) else resource
    if not isinstance(found, Variable):
        raise TypeError(f"Expected a variable or its handle for a resource, received {resource!r}.")
    return found


def _read(resource: Any, dtype: Any) -> Tensor:
    variable = variable_of(resource)
    if variable.dtype != dtype:
        raise errors.invalid_argument(
            f"Trying to read variable with wrong dtype. Expected {dtype.word} got {variable.dtype.word}",
            "ReadVariableOp",
        )
    return read(variable)


def _no_result(_: Any) -> None:
    """Discard the result of an assignment: the op has no output."""
    return None


def _rows(how: str) -> Callable[..., None]:
    def op(resource: Any, indices: Any, updates: Any) -> None:
        variable = variable_of(resource)
        shape = array.concat([array.shape(indices), array.shape(read(variable))[1:]], 0)
        rows = IndexedSlices(array.broadcast_to(updates, shape), indices)
        if indices.shape.rank != 1:
            inner = array.shape(read(variable))[1:]
            flat = array.reshape(rows.values, array.concat([[-1], inner], 0))
            rows = IndexedSlices(flat, array.reshape(indices, [-1]))
        getattr(variable, how)(rows)

    return op


def _elements(how: str) -> Callable[..., None]:
    def op(ref: Any, indices: Any, updates: Any) -> None:
        getattr(variable_of(ref), how)(indices, updates)

    return op


def _assign_slice(
    ref: Any, begin: Any, end: Any, strides: Any, value: Any,
    begin_mask: int, end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> None:  # fmt: skip
    variable = variable_of(ref)
    variable.assign(
        _ARRAY_OPS["TensorStridedSliceUpdate"](
            read(variable), begin, end, strides, value,
            begin_mask=begin_mask, end_mask=end_mask, ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
            shrink_axis_mask=shrink_axis_mask,
        )
    )  # fmt: skip


def _gather(resource: Any, indices: Any, batch_dims: int) -> Tensor:
    """Rows of a variable, with a sparse gradient."""
    return array.gather(variable_of(resource), indices, batch_dims=batch_dims)


# -- lists of tensors ------------------------------------------------------------------------------------------------
def _shape(element_shape: Any) -> TensorShape:
    """The shape of an element: a scalar -1 is an unknown rank, -1 in a vector an unknown dimension."""
    known = np.asarray(static(element_shape))
    if not known.ndim:
        return TensorShape(None)
    return TensorShape([None if n < 0 else int(n) for n in known])


def _list(element_shape: Any, size: Any, dtype: Any) -> TensorArray:
    number = int(np.asarray(static(size)))
    return TensorArray(dtype, number, clear_after_read=False, infer_shape=True, element_shape=_shape(element_shape))


def _from_tensor(tensor: Any, element_shape: Any) -> TensorArray:
    return _list(element_shape, array.shape(tensor)[0], tensor.dtype).unstack(tensor)


def _get_item(input_handle: Any, index: Any, element_shape: Any) -> Tensor:
    if not input_handle.element_shape.is_fully_defined():
        return _shaped(input_handle, element_shape).read(index)
    return input_handle.read(index)


def _shaped(handle: TensorArray, element_shape: Any) -> TensorArray:
    """A list in which elements that were never set have this shape."""
    return rebuilt(handle, handle.element_shape.merge_with(_shape(element_shape)), handle.elements())


def rebuilt(handle: TensorArray, shape: TensorShape, items: list[Any]) -> TensorArray:
    """A list with these elements; None for elements that were never set."""
    new = TensorArray(handle.dtype, len(items), clear_after_read=False, element_shape=shape)
    for i, item in enumerate(items):
        if item is not None:
            new = new.write(i, item)
    return new


def _set_item(input_handle: Any, index: Any, item: Any, resize_if_index_out_of_bounds: bool) -> TensorArray:
    place = static(index)
    if resize_if_index_out_of_bounds and place is not None and int(place) >= len(input_handle):
        input_handle = _resize(input_handle, int(place) + 1)
    return input_handle.identity().write(index, item)


def _resize(input_handle: Any, size: Any) -> TensorArray:
    number = int(np.asarray(static(size)))
    items = [*input_handle.elements()[:number], *[None] * (number - len(input_handle))]
    return rebuilt(input_handle, input_handle.element_shape, items)


def _push_back(input_handle: Any, tensor: Any) -> TensorArray:
    return rebuilt(input_handle, input_handle.element_shape, [*input_handle.elements(), tensor])


def _pop_back(input_handle: Any, element_shape: Any) -> tuple[TensorArray, Tensor]:
    if not len(input_handle):
        raise errors.invalid_argument("Trying to pop from an empty list.", "TensorListPopBack")
    items = input_handle.elements()
    last = _get_item(input_handle, len(items) - 1, element_shape)
    return rebuilt(input_handle, input_handle.element_shape, items[:-1]), last


def _stack(input_handle: Any, element_shape: Any, num_elements: int) -> Tensor:
    if num_elements not in (-1, len(input_handle)):
        raise errors.invalid_argument(
            f"Operation expected a list with {num_elements} elements but got a list with {len(input_handle)} elements.",
            "TensorListStack",
        )
    if input_handle.element_shape.is_fully_defined():
        return input_handle.stack()
    return _shaped(input_handle, element_shape).stack()


def _element_shape(input_handle: Any, shape_type: Any) -> Tensor:
    shape = input_handle.element_shape
    plain = -1 if shape.rank is None else [-1 if n is None else n for n in shape.as_list()]
    return array.constant(plain, shape_type)


def _scatter(tensor: Any, indices: Any, element_shape: Any, num_elements: Any = None) -> TensorArray:
    places = np.asarray(static(indices))
    count = -1 if num_elements is None else int(np.asarray(static(num_elements)))
    size = int(places.max(initial=-1)) + 1 if count < 0 else count
    return _list(element_shape, size, tensor.dtype).scatter(indices, tensor)


def _concat(input_handle: Any) -> tuple[Tensor, Tensor]:
    lengths = [int(item.shape[0]) for item in input_handle.elements()]
    return input_handle.concat(), array.constant(lengths, "int64")


def _split(tensor: Any, element_shape: Any, lengths: Any) -> TensorArray:
    shape = _shape(element_shape)
    inner = TensorShape(None) if shape.rank is None else TensorShape([None, *shape.as_list()[1:]])
    new = TensorArray(
        tensor.dtype, int(lengths.shape[0]), clear_after_read=False, infer_shape=False, element_shape=inner
    )
    return new.split(tensor, lengths)


# -- control flow ----------------------------------------------------------------------------------------------------
def is_handle(value: Any) -> bool:
    """Whether a value is passed unchanged instead of as a tensor: a variable, a table."""
    return not isinstance(value, (Tensor, TensorArray))


def truth_of(cond: Any) -> Any:
    """The truth of a condition: numbers that are not zero, strings and vectors that are not empty."""
    if cond.shape.rank:
        return array.size(cond) > 0
    if cond.dtype.name == "string":
        return math.not_equal(cond, "")
    return cond if cond.dtype.is_bool else math.not_equal(cond, 0)


def _if(cond: Any, input: list[Any], then_branch: Any, else_branch: Any) -> list[Any]:
    return _listed(control_flow.cond(truth_of(cond), _branch(then_branch, input), _branch(else_branch, input)))


def _case(branch_index: Any, input: list[Any], branches: list[Any]) -> list[Any]:
    """Run a branch; an index out of range runs the last one."""
    last = len(branches) - 1
    inside = math.logical_and(branch_index >= 0, branch_index <= last)
    index = array.where(inside, branch_index, last)
    chosen = [_branch(branch, input) for branch in branches]
    return _listed(control_flow.switch_case(index, chosen))


def _branch(function: Any, inputs: list[Any]) -> Callable[[], list[Any]]:
    return lambda: _listed(function(*inputs))


def _while(input: list[Any], cond: Any, body: Any) -> list[Any]:
    """A loop. Handles are constant: the functions get them in every iteration, but they are not loop variables."""
    carried = [i for i, value in enumerate(input) if not is_handle(value)]

    def together(state: tuple[Any, ...]) -> list[Any]:
        values = list(input)
        for i, value in zip(carried, state, strict=True):
            values[i] = value
        return values

    def step(*state: Any) -> list[Any]:
        after = _listed(body(*together(state)))
        return [after[i] for i in carried]

    if not carried:
        return _while_on_handles(input, cond, body)
    final = control_flow.while_loop(
        lambda *state: truth_of(convert(_listed(cond(*together(state)))[0])), step, [input[i] for i in carried]
    )
    return together(tuple(final))


def _while_on_handles(input: list[Any], cond: Any, body: Any) -> list[Any]:
    """A loop that only has effects."""

    def step(iteration: Any) -> Any:
        body(*input)
        return iteration + 1

    control_flow.while_loop(lambda iteration: truth_of(convert(_listed(cond(*input))[0])), step, [array.constant(0)])
    return input


def _listed(found: Any) -> list[Any]:
    """The results of a function as a list."""
    if found is None:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]


# -- checks and output -----------------------------------------------------------------------------------------------
def _assert(condition: Any, data: list[Any], summarize: int) -> None:
    debugging.Assert(condition, data, summarize)


def _print(input: Any, output_stream: str, end: str) -> None:
    import sys

    stream: Any = {"stderr": sys.stderr, "stdout": sys.stdout, "stdin": sys.stdin}.get(output_stream, output_stream)
    print_(input, output_stream=stream, end=end)


OPS: dict[str, Callable[..., Any]] = {
    # -- variables
    "AssignAddVariableOp": lambda resource, value: _no_result(variable_of(resource).assign_add(value)),
    "AssignSubVariableOp": lambda resource, value: _no_result(variable_of(resource).assign_sub(value)),
    "AssignVariableOp": lambda resource, value: _no_result(variable_of(resource).assign(value)),
    "DisableCopyOnRead": lambda resource: None,
    "ReadVariableOp": _read,
    "ResourceGather": _gather,
    "ResourceGatherNd": lambda resource, indices: array.gather_nd(variable_of(resource), indices),
    "ResourceScatterAdd": _rows("scatter_add"),
    "ResourceScatterDiv": _rows("scatter_div"),
    "ResourceScatterMax": _rows("scatter_max"),
    "ResourceScatterMin": _rows("scatter_min"),
    "ResourceScatterMul": _rows("scatter_mul"),
    "ResourceScatterNdAdd": _elements("scatter_nd_add"),
    "ResourceScatterNdMax": _elements("scatter_nd_max"),
    "ResourceScatterNdMin": _elements("scatter_nd_min"),
    "ResourceScatterNdSub": _elements("scatter_nd_sub"),
    "ResourceScatterNdUpdate": _elements("scatter_nd_update"),
    "ResourceScatterSub": _rows("scatter_sub"),
    "ResourceScatterUpdate": _rows("scatter_update"),
    "ResourceStridedSliceAssign": _assign_slice,
    "VarIsInitializedOp": lambda resource: variable_of(resource).is_initialized(),
    "VariableShape": lambda input, out_type: array.shape(read(variable_of(input)), out_type),
    # -- lists of tensors
    "EmptyTensorList": lambda element_shape, max_num_elements, element_dtype: _list(element_shape, 0, element_dtype),
    "TensorListConcat": _concat,
    "TensorListConcatV2": lambda input_handle, element_shape, leading_dims: _concat(input_handle),
    "TensorListElementShape": _element_shape,
    "TensorListFromTensor": _from_tensor,
    "TensorListGather": lambda input_handle, indices, element_shape: _shaped(input_handle, element_shape).gather(
        indices
    ),
    "TensorListGetItem": _get_item,
    "TensorListLength": lambda input_handle: input_handle.size(),
    "TensorListPopBack": _pop_back,
    "TensorListPushBack": _push_back,
    "TensorListReserve": lambda element_shape, num_elements, element_dtype: _list(
        element_shape, num_elements, element_dtype
    ),
    "TensorListResize": _resize,
    "TensorListScatter": _scatter,
    "TensorListScatterIntoExistingList": lambda input_handle, tensor, indices: input_handle.identity().scatter(
        indices, tensor
    ),
    "TensorListScatterV2": _scatter,
    "TensorListSetItem": _set_item,
    "TensorListSplit": _split,
    "TensorListStack": _stack,
    # -- control flow
    "Case": _case,
    "If": _if,
    "PartitionedCall": lambda args, f: _listed(f(*args)),
    "StatefulPartitionedCall": lambda args, f: _listed(f(*args)),
    "StatelessCase": _case,
    "StatelessIf": _if,
    "StatelessWhile": _while,
    "While": _while,
    # -- checks and output
    "Assert": _assert,
    "PrintV2": _print,
}
