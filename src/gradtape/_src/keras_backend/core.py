"""Keras' core functions: variables, conversions, control flow, scattering, and shape inference.

A Keras variable keeps its value in a gradtape `Variable`, so that tapes watch it when it is read. The functions have
exactly Keras' signatures, and no annotations, because Keras compares them.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable, global_state, standardize_dtype
from keras.src.backend.common.dtypes import result_type
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import StatelessScope, get_stateless_scope
from keras.src.backend.common.symbolic_scope import SymbolicScope, in_symbolic_scope

from gradtape._src import variable as variables
from gradtape._src.arrays.dimensions import is_dimension, variable
from gradtape._src.arrays.symbolic import Graph, NeedsEagerError, as_value, current_graph, is_known, tracing
from gradtape._src.autodiff import custom_gradient as customs
from gradtape._src.conversion import array_from, convert, defers_to, register_converter, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.composites import is_composite
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.errors import OpError
from gradtape._src.function.python_code import graph_errors
from gradtape._src.indexed_slices import IndexedSlices, map_values
from gradtape._src.interrupts import float_errors_ignored, is_interrupt
from gradtape._src.keras_backend.distribution_lib import distribute_tensor, divided, layout_of_variable
from gradtape._src.ops import array, math as elementwise
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.shape import TensorShape, known_shape
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array as arrays, control_flow, indexing, scopes, segments, shaping
from gradtape._src.tf.sparse_dense import to_dense

SUPPORTS_SPARSE_TENSORS = True
SUPPORTS_RAGGED_TENSORS = True
SUPPORTS_COMPLEX_DTYPES = True
IS_THREAD_SAFE = True

custom_gradient = customs.custom_gradient
remat = customs.recompute_grad


# -- variables -------------------------------------------------------------------------------------------------------
class Variable(KerasVariable):
    """A Keras variable whose value is a gradtape variable, which tapes and optimizers use."""

    _value: variables.Variable | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _introduce(cls)

    _layout: Any = None  # how `keras.distribution` shards it

    def _initialize(self, value: Any) -> None:
        if isinstance(value, variables.Variable):  # from a loaded model: keep the same variable
            self._value = value
            return
        if global_state.get_global_attribute("distribution") is not None:
            value = dense(value)
            self._shape = self._validate_shape(value.shape)  # the layout depends on it
            self._layout = layout_of_variable(self)
            value = value if self._layout is None else distribute_tensor(value, self._layout)
        elif self._layout is not None:
            value = divided(dense(value), self._layout)
        self._value = variables.Variable(
            value,
            trainable=self.trainable,
            name=self.path,
            synchronization=variables.VariableSynchronization[self.synchronization.upper()],
            aggregation=variables.VariableAggregation[self.aggregation.upper()],
        )

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> Any:
        if isinstance(value, variables.Variable) and (dtype is None or value.dtype == dtype_of(dtype)):
            return value
        return dense(value, dtype)

    @property
    def value(self) -> Tensor:
        """The current value, as a tensor with the identity of the variable."""
        scope = get_stateless_scope()
        if scope is not None:
            replaced = scope.get_current_value(self)
            if replaced is not None:
                _will_not_last()
                return self._maybe_autocast(replaced)
        if self._value is None:  # created in a stateless scope, and initialized at its end
            _will_not_last()
            return self._maybe_autocast(self._value_to_be())
        return self._maybe_autocast(variables.read(self._value))

    def _value_to_be(self) -> Tensor:
        """The initial value; while only shapes are inferred, any value of its shape and dtype."""
        if in_symbolic_scope():
            return _placeholder(self._shape, self._dtype)
        return dense(self._initializer(self._shape, dtype=self._dtype), self._dtype)

    def _direct_assign(self, value: Tensor) -> None:
        assert self._value is not None
        self._value.assign(value)

    def assign_add(self, value: Any) -> Tensor:
        return self._updated("assign_add", value)

    def assign_sub(self, value: Any) -> Tensor:
        return self._updated("assign_sub", value)

    def _updated(self, method: str, change: Any) -> Tensor:
        """Add or subtract in place, if Keras' own way would give the same result."""
        variable = self._value
        if (
            variable is not None
            and type(change) is Tensor
            and change.array.dtype == variables.peek(variable).array.dtype
            and change.array.shape == variables.peek(variable).array.shape
            and get_stateless_scope() is None
        ):
            getattr(variable, method)(change)
            return variables.read(variable)
        return getattr(super(), method)(change)

    def numpy(self) -> Any:
        return self.value.numpy()

    @property
    def shape(self) -> TensorShape:
        return known_shape(self._shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.value.__array__(dtype, copy)


def _will_not_last() -> None:
    """Do not cache a program that is traced with a temporary value of a variable."""
    graph = current_graph()
    if graph is not None:
        graph.root.transient = True


def _introduce(cls: type) -> None:
    """Make ops accept variables of this class as tensors, and tapes as variables."""
    register_converter(cls, lambda keras_variable: keras_variable.value)
    variables.register_wrapper(cls, _variable_of)


def _variable_of(keras_variable: Any) -> Any:
    found = keras_variable._value
    return keras_variable.value if found is None else found


_introduce(Variable)
defers_to.add(KerasTensor)


def _placeholder(shape: Any, dtype: Any) -> Tensor:
    """A placeholder for the value of an uninitialized variable: a value of the trace, or zeros."""
    zeros = _zeros(shape, dtype)
    return zeros if current_graph() is None else wrap(as_value(zeros.array))


# -- conversions -----------------------------------------------------------------------------------------------------
_DTYPES: dict[Any, DType] = {}


def dtype_of(dtype: Any) -> DType:
    """gradtape's dtype for anything that Keras accepts as a dtype."""
    try:
        return _DTYPES[dtype]
    except (KeyError, TypeError):
        found = as_dtype(standardize_dtype(dtype))
    if dtype is not None:  # the default may change
        _DTYPES[dtype] = found
    return found


SPARSE = (SparseTensor, IndexedSlices)
"""Types that store no zeros."""
_HOLDERS = (KerasVariable, variables.Variable, *SPARSE)


def convert_to_tensor(x, dtype=None, sparse=None, ragged=None):
    if type(x) in SPARSE and sparse is not False:
        return x if dtype is None else cast(x, dtype)
    if ragged is False and is_composite(x):
        x = x.to_tensor()
    return dense(x, dtype)


def dense(x: Any, dtype: Any = None) -> Tensor:
    """A dense tensor, for ops that have no implementation for sparse ones."""
    if type(x) is not Tensor:
        if isinstance(x, _HOLDERS):
            x = x.value if isinstance(x, KerasVariable) else _filled_up(x)
        else:
            return _from_plain(x, dtype) if not is_composite(x) else cast(x, dtype)  # ragged: ops compute its values
    return x if dtype is None else _as_dtype(x, dtype_of(dtype))


def _filled_up(x: Any) -> Tensor:
    return to_dense(x) if isinstance(x, SparseTensor) else convert(x)


def _as_dtype(x: Tensor, wanted: DType) -> Tensor:
    return x if x.dtype is wanted else arrays.cast(x, wanted)


def _from_plain(x: Any, dtype: Any) -> Tensor:
    """Convert Python and NumPy values to a tensor, in the dtype that Keras infers."""
    if isinstance(x, (list, tuple)):
        leaves = tree.flatten(x)
        if any(isinstance(leaf, (Tensor, *_HOLDERS)) for leaf in leaves):
            kind = dtype or result_type(*[getattr(leaf, "dtype", type(leaf)) for leaf in leaves])
            parts = [dense(part, kind) for part in x]
            return arrays.stack(parts)
        if dtype is None and leaves and not any(isinstance(leaf, (str, bytes)) for leaf in leaves):
            dtype = result_type(*[getattr(leaf, "dtype", type(leaf)) for leaf in leaves])
            if dtype == "int32" and not all(_fits_32_bits(leaf) for leaf in leaves):
                dtype = "int64"
    elif dtype is None:
        if isinstance(x, (bool, int, float, complex)):
            dtype = result_type(type(x)) if type(x) is not int or _fits_32_bits(x) else "int64"
        elif isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "OUS":
            return wrap(np.array(x, order="C"))
    if dtype is None:
        found = x if isinstance(x, (str, bytes, list, tuple, np.ndarray)) else np.asarray(x)
        return wrap(array_from(found))
    wanted = dtype_of(dtype)
    if wanted.name == "string":
        return wrap(array_from(x, wanted))
    found = np.asarray(x)
    if found.dtype.kind in "OUS":
        return wrap(array_from(x, wanted))
    return wrap(np.array(found.astype(wanted.numpy_dtype, copy=found is x), order="C"))


def _fits_32_bits(x: Any) -> bool:
    return bool(np.min(x) >= -(2**31) and np.max(x) < 2**31) if np.size(x) else True


def convert_to_numpy(x):
    if isinstance(x, SPARSE):
        x = _filled_up(x)
    if isinstance(x, (list, tuple)):
        return np.array([convert_to_numpy(part) for part in x])
    if is_composite(x):
        x = x.to_tensor()
    return np.array(x)


def is_tensor(x):
    return isinstance(x, (Tensor, *SPARSE)) or is_composite(x)


def shape(x):
    if type(x) is Tensor:
        return tuple(x.array.shape)
    return tuple(x.shape if hasattr(x, "shape") else np.shape(x))


def cast(x, dtype):
    if is_composite(x) and type(x) not in SPARSE:
        return x if dtype is None else arrays.cast(x, dtype_of(dtype))
    return of_values(lambda values: dense(values, dtype), x) if type(x) in SPARSE else dense(x, dtype)


def of_values(function: Callable[[Any], Any], x: Any) -> Any:
    """Apply a function to a tensor, or only to the values of a sparse one."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, function(x.values), x.dense_shape)
    return map_values(lambda rows: function(dense(rows)), x) if isinstance(x, IndexedSlices) else function(x)


def random_seed_dtype():
    return "uint32"


# -- shape inference ---------------------------------------------------------------------------------------------------
_SIZES = (((7, 83), (11, 89)), ((83, 83), (89, 89)), ((24, 24), (48, 48)), ((2, 3), (3, 5)), ((840, 840), (1680, 1680)))
"""Sizes for unknown dimensions, in pairs: for the first axis and for the others. Code runs with both sizes of a pair,
and sizes that differ in the results are unknown. Small ones for a batch, with room for windows and crops elsewhere; all
the same, for code in which they have to agree; with many divisors, for code that splits; smaller than tables.
"""


def compute_output_spec(fn, *args, **kwargs):
    """Infer the shapes and dtypes of a function's results from symbolic arguments.

    The function is traced into a program that never runs: no variable changes, nothing is printed or drawn, and
    compiled functions in it are part of the trace. Code that cannot be traced with unknown dimensions is traced for two
    sizes of each; code that reads values runs on zeros with these sizes.
    """
    given = [x for x in tree.flatten((args, kwargs)) if isinstance(x, KerasTensor)]
    unknown = any(None in x.shape for x in given)
    texts = any(x.dtype == "string" for x in given)  # their number of words is unknown
    traced = not any(x.sparse for x in given)
    failure = None
    if traced and unknown:
        try:
            return _run_symbolically(fn, args, kwargs, _traced_argument, None)
        except Exception as error:  # errors of the function itself are raised below, for known sizes
            if is_interrupt(error):
                raise
    for stand_in in (_traced_argument, _zeros) if traced else (_zeros,):
        sizes = list(_SIZES) if unknown or texts else [((0, 0),)]
        for pair in sizes:
            try:
                found = [_run_symbolically(fn, args, kwargs, stand_in, size) for size in pair]
            except Exception as error:
                if is_interrupt(error):
                    raise
                failure = failure or error
                _add_multiples(sizes, error)
            else:
                return tree.map_structure(_merged_spec, found[0], found[-1])
    raise _rebuildable(failure)


def _add_multiples(sizes: list[Any], error: Exception) -> None:
    """Also try the number in an error message: "the requested shape requires a multiple of 84"."""
    wanted = re.search(r"requires a multiple of (\d+)", str(error))
    if wanted is not None and len(sizes) > 1:
        n = int(wanted[1])
        pair = ((n, n), (2 * n, 2 * n))
        if n and pair not in sizes:
            sizes.append(pair)


def _rebuildable(error: Any) -> Exception:
    """An error that Keras can create from a message alone, as it does to extend messages."""
    if not isinstance(error, OpError):
        return error
    kind = type(error)

    class Rebuilt(kind):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*(args if len(args) > 1 else (None, None, *args)))

    Rebuilt.__name__, Rebuilt.__qualname__, Rebuilt.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Rebuilt(error.message).with_traceback(error.__traceback__)


def _run_symbolically(
    fn: Callable[..., Any], args: Any, kwargs: Any, stand_in: Callable[[Any, Any], Any], sizes: tuple[int, int] | None
) -> Any:
    """The results of a function with these sizes for unknown dimensions; None: with symbolic dimensions."""
    graph = Graph("scratch_graph") if stand_in is _traced_argument else None
    if graph is not None:
        graph.polymorphic = sizes is None
        graph.concrete = lambda symbol: np.zeros(symbol.shape, symbol.dtype)
    unknowns = (variable(f"d{i}") for i in itertools.count())

    def size(axis: int, n: int | None) -> Any:
        return n if n is not None else next(unknowns) if sizes is None else sizes[min(axis, 1)]

    def filled(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        if x.dtype == "string":
            return _texts(x.shape, sizes)
        shape = tuple([size(axis, n) for axis, n in enumerate(x.shape)])
        return _nothing(shape, x.dtype) if x.sparse else stand_in(shape, x.dtype)

    scopes = {name: global_state.get_global_attribute(name) for name in ("stateless_scope", "symbolic_scope")}
    try:
        with (
            StatelessScope(),
            SymbolicScope(),
            tracing(graph),
            stack.use_recorders(()),
            float_errors_ignored(),
            graph_errors(),
        ):
            args, kwargs = tree.map_structure(filled, (args, kwargs))
            return tree.map_structure(_spec, fn(*args, **kwargs))
    except BaseException as error:  # a signal may have come before the end of one of Keras' scopes
        for name, scope in scopes.items():
            global_state.set_global_attribute(name, scope)
        if isinstance(error, NeedsEagerError):  # eager execution is impossible here
            raise error.reason from None
        raise


def _texts(shape: Any, sizes: tuple[int, int] | None) -> Tensor:
    """Example strings, also in a trace, with known shapes and many words."""
    if sizes is None:
        raise TypeError("An op on strings cannot be part of a compiled program: XLA supports only numbers.")
    known = [sizes[min(axis, 1)] if n is None else n for axis, n in enumerate(shape)]
    return wrap(np.full(known, b" ".join([b"1"] * sizes[1]), object))


def _traced_argument(shape: tuple[Any, ...], dtype: Any) -> Tensor:
    graph = current_graph()
    assert graph is not None
    return wrap(graph.argument(shape, dtype_of(dtype).numpy_dtype))


def _zeros(shape: Any, dtype: Any) -> Tensor:
    """Zeros that take the memory of one element; read-only, like all tensors."""
    return wrap(np.broadcast_to(np.zeros((), dtype_of(dtype).numpy_dtype), shape))


def _nothing(sizes: tuple[int, ...], dtype: Any) -> SparseTensor:
    """A sparse tensor of zeros."""
    return SparseTensor(np.zeros((0, len(sizes)), np.int64), _zeros((0,), dtype), np.array(sizes, np.int64))


def _spec(x: Any) -> Any:
    if not is_tensor(x):
        return x
    sizes = tuple([None if is_dimension(n) else int(n) for n in shape(x)])
    return KerasTensor(sizes, x.dtype.name, sparse=isinstance(x, SparseTensor))


def _merged_spec(x: Any, y: Any) -> Any:
    if not isinstance(x, KerasTensor):
        return x
    sizes = (n if n == m else None for n, m in zip(x.shape, y.shape, strict=True))
    return KerasTensor(tuple(sizes), x.dtype, sparse=x.sparse)


# -- control flow ----------------------------------------------------------------------------------------------------
# Python runs branches and loops; if a symbolic value controls or enters them, they become part of the program.
def is_traced(*structures: Any) -> bool:
    """Whether a step is being traced and one of these values is symbolic."""
    return current_graph() is not None and not all(is_known(leaf) for leaf in tree.flatten(structures))


def cond(pred, true_fn, false_fn):
    pred = dense(pred)
    if is_traced(pred):
        return _staged().cond(pred, true_fn, false_fn)
    return true_fn() if pred else false_fn()


def switch(index, branches, *operands):
    index = dense(index, "int32")
    if is_traced(index):
        number = elementwise.maximum(index, dense(0, "int32"))
        number = elementwise.minimum(number, dense(len(branches) - 1, "int32"))
        functions = [functools.partial(branch, *operands) for branch in branches]
        return _staged().switch(number, functions, [f"branch {i}" for i in range(len(branches))])
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


def _staged() -> Any:
    from gradtape._src.graph import control_flow as staged  # imports JAX

    return staged


def while_loop(cond, body, loop_vars, maximum_iterations=None):
    several = isinstance(loop_vars, (tuple, list))
    state = tuple(loop_vars) if several else (loop_vars,)
    if current_graph() is not None:
        state = tree.map_structure(dense, state)
        state = tuple(control_flow.while_loop(cond, body, list(state), maximum_iterations=maximum_iterations))
        return state if several else state[0]
    iterations = 0
    while (maximum_iterations is None or iterations < maximum_iterations) and cond(*state):
        state = body(*state)
        state = tuple(state) if isinstance(state, (list, tuple)) else (state,)
        iterations += 1
    state = tree.map_structure(dense, state)
    return state if several else state[0]


def fori_loop(lower, upper, body_fun, init_val):
    if is_traced(lower, upper):
        start = (dense(lower, "int32"), init_val)
        return while_loop(lambda i, _: i < upper, lambda i, value: (i + 1, body_fun(i, value)), start)[1]
    value = init_val
    for i in range(int(lower), int(upper)):
        value = body_fun(i, value)
    return value


def vectorized_map(function, elements):
    return control_flow.vectorized_map(function, tree.map_structure(dense, elements), warn=False)


def map(f, xs):
    return scan(lambda _, x: ((), f(x)), (), xs)[1]


def scan(f, init, xs=None, length=None, reverse=False, unroll=1):
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(f"`unroll` must be an positive integer or boolean. Received: unroll={unroll}")
    if xs is None and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    rows = [dense(x) for x in tree.flatten(xs)] if xs is not None else []
    steps = range(int(length) if length is not None else rows[0].array.shape[0])
    carry = tree.map_structure(dense, init)
    if is_traced(rows, carry) and len(steps):
        return _looped(f, carry, xs, rows, len(steps), reverse)
    columns = [unstack(x) for x in rows]
    results: list[Any] = [None] * len(steps)
    for i in reversed(steps) if reverse else steps:
        x = tree.pack_sequence_as(xs, [column[i] for column in columns]) if columns else None
        carry, results[i] = f(carry, x)
    if results and results[0] is None:  # nothing is collected: zeros, as in Keras' other eager backends
        results = [tree.map_structure(arrays.zeros_like, carry)] * len(results)
    return carry, tree.map_structure(lambda *rows: arrays.stack(rows), *results)


def _looped(f: Any, init: Any, xs: Any, rows: list[Tensor], length: int, reverse: bool) -> tuple[Any, Any]:
    """A scan as a loop of the program that is being traced."""
    given: Any = None

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        nonlocal given
        x = tree.pack_sequence_as(xs, row) if row else None
        after, given = f(tree.pack_sequence_as(init, carry), x)
        if given is None:
            given = tree.map_structure(arrays.zeros_like, after)
        return [dense(leaf) for leaf in tree.flatten(after)], tree.flatten(given)

    last, stacked = _staged().scan(step, tree.flatten(init), rows, length, reverse)
    return tree.pack_sequence_as(init, last), tree.pack_sequence_as(given, stacked)


def associative_scan(f, elems, reverse=False, axis=0):
    """Combine all prefixes, with as many calls of `f` as the length has binary digits."""
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    leaves = [dense(leaf) for leaf in tree.flatten(elems)]
    if len({leaf.array.shape[axis] for leaf in leaves}) != 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {[tuple(leaf.array.shape) for leaf in leaves]})"
        )
    ranks = [leaf.ndim for leaf in leaves]

    def cut(leaves: list[Any], *bounds: Any) -> list[Any]:
        keys = [(builtins.slice(None),) * (axis % rank) + (builtins.slice(*bounds),) for rank in ranks]
        return [leaf[key] for leaf, key in zip(leaves, keys, strict=True)]

    def combined(left: list[Any], right: list[Any]) -> list[Any]:
        return tree.flatten(f(tree.pack_sequence_as(elems, left), tree.pack_sequence_as(elems, right)))

    def partial(leaves: list[Any]) -> list[Any]:
        count = leaves[0].array.shape[axis]
        if count < 2:
            return leaves
        odd = partial(combined(cut(leaves, 0, count - 1, 2), cut(leaves, 1, None, 2)))
        rest = cut(leaves, 2, None, 2)
        even = cut(leaves, 0, 1)
        if rest[0].array.shape[axis]:
            later = combined(cut(odd, 0, rest[0].array.shape[axis]), rest)
            even = [arrays.concat(pair, axis) for pair in zip(even, later, strict=True)]
        order = np.argsort([*range(0, count, 2), *range(1, count, 2)])
        return [arrays.gather(arrays.concat(pair, axis), order, axis=axis) for pair in zip(even, odd, strict=True)]

    if reverse:
        leaves = [arrays.reverse(leaf, [axis]) for leaf in leaves]
    found = partial(leaves)
    if reverse:
        found = [arrays.reverse(leaf, [axis]) for leaf in found]
    return tree.pack_sequence_as(elems, found)


# -- scattering, slices ----------------------------------------------------------------------------------------------
def scatter(indices, values, shape):
    return indexing.scatter_nd(_positions(indices), dense(values), shape)


def scatter_update(inputs, indices, updates, reduction=None):
    x, where = dense(inputs), _positions(indices)
    new = dense(updates, x.dtype)
    if reduction is None:
        return indexing.tensor_scatter_nd_update(x, where, new)
    if reduction == "add":
        return indexing.tensor_scatter_nd_add(x, where, new)
    if reduction == "max":
        return indexing.tensor_scatter_nd_max(x, where, new)
    if reduction == "min":
        return indexing.tensor_scatter_nd_min(x, where, new)
    if reduction == "mul":
        lead = tuple(x.array.shape[: where.array.shape[-1]])
        rows = np.ravel_multi_index(tuple(np.moveaxis(np.asarray(where.array), -1, 0)), lead)
        factors = segments.unsorted_segment_prod(new, rows, math.prod(lead))
        return x * arrays.reshape(factors, x.array.shape)
    raise ValueError(f"Unsupported reduction: {reduction}")


def _positions(indices: Any) -> Tensor:
    found = dense(indices)
    return found if found.dtype.name in ("int32", "int64") else arrays.cast(found, "int64")


def slice(inputs, start_indices, shape):
    x = dense(inputs)
    if len(start_indices) != len(shape):
        raise ValueError(
            "Length of `start_indices` must match length of `shape`. "
            f"Received: start_indices={start_indices}, shape={shape}"
        )
    sizes = [whole if size < 0 else size for size, whole in zip(_integers(shape), x.array.shape, strict=True)]
    return shaping.slice(x, dense(start_indices, "int32"), sizes)


def slice_update(inputs, start_indices, updates):
    x = dense(inputs)
    new = dense(updates, x.dtype)
    if is_traced(start_indices):
        where = _coordinates(start_indices, new.array.shape, x.array.shape)
        return indexing.tensor_scatter_nd_update(x, where, new)
    region = _region(_integers(start_indices), new.array.shape, x.array.shape)
    mask = np.zeros(x.array.shape, bool)
    mask[region] = True
    return elementwise.where(mask, array.setitem(new, index=region, shape=tuple(x.array.shape)), x)


def _coordinates(starts: Any, sizes: Any, shape: Any) -> Tensor:
    """The coordinates of a slice with a start that only the program knows, moved inside the tensor."""
    sizes = [whole if size < 0 else size for size, whole in zip(sizes, shape, strict=True)]
    most = np.subtract(shape, sizes).astype("int32")
    within = elementwise.maximum(dense(starts, "int32"), wrap(np.zeros_like(most)))
    within = elementwise.minimum(within, wrap(most))
    return within + wrap(np.moveaxis(np.indices(sizes, "int32"), 0, -1).copy())


def _integers(values: Any) -> list[int]:
    return [int(n) for n in (convert_to_numpy(values) if is_tensor(values) else values)]


def _region(starts: Any, sizes: Any, shape: Any) -> tuple[builtins.slice, ...]:
    """The index of a slice, moved inside the tensor."""
    ends = [start + size if size >= 0 else whole for start, size, whole in zip(starts, sizes, shape, strict=True)]
    over = [max(0, end - whole) for end, whole in zip(ends, shape, strict=True)]
    return tuple(builtins.slice(max(0, start - o), end - o) for start, end, o in zip(starts, ends, over, strict=True))


def unstack(x, num=None, axis=0):
    return list(arrays.unstack(dense(x), num, axis))


def stop_gradient(variable):
    return of_values(lambda values: arrays.stop_gradient(dense(values)), variable)


def device_scope(device_name):
    if not isinstance(device_name, str):
        raise ValueError(
            "Invalid value for argument `device_name`. Expected a string like 'gpu:0' or 'cpu'. "
            f"Received: device_name='{device_name}'"
        )
    return scopes.device(device_name)
