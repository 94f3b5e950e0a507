"""The functions that converted code calls instead of Python's control flow.

A condition with a value chooses its branch immediately, as in Python. A condition that will have a value only when the
program runs is staged: the code of both branches, or of a loop's body, is traced once and becomes part of the program.
Converted code passes the variables that a statement changes as a pair of functions, `get_state` and `set_state`, and
their names.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.checks import require
from gradtape._src.arrays.dimensions import variables_in
from gradtape._src.arrays.graph_ops import in_graph
from gradtape._src.arrays.symbolic import (
    Graph,
    Symbolic,
    allows_dynamic_shapes,
    arange,
    current_graph,
    filled,
    only_eager,
    sizes_from,
    tracing,
)
from gradtape._src.conversion import convert, operands, register_converter, wrap
from gradtape._src.core import tape as stack
from gradtape._src.graph import control_flow
from gradtape._src.graph.trace import Trace
from gradtape._src.interrupts import contextmanager
from gradtape._src.ops import array, index, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

State = tuple[Any, ...]
Block = Callable[[], Any]
GetState = Callable[[], State]
SetState = Callable[[State], None]

_NO_RETURN = (
    "A value must also be returned from the {} branch. If a value is returned from one branch of a conditional a value "
    "must be returned from all branches."
)


# -- values to stage -------------------------------------------------------------------------------------------------
def is_symbolic(value: Any) -> bool:
    """Whether this is a tensor without a value."""
    return isinstance(value, Tensor) and type(value.array) is Symbolic


def is_length(value: Any) -> bool:
    """Whether this is a size that depends on unknown dimensions."""
    return not is_symbolic(value) or value.array.extents is not None


def _is_staged(value: Any) -> bool:
    """Whether a loop over this is staged: a loop over a tensor is, even if its value is known."""
    return (
        isinstance(value, Tensor)
        and current_graph() is not None
        and type(value.array) is not Batched
        and value.array.dtype.kind != "O"
    )


def _read(value: Any) -> Any:
    return value.value() if isinstance(value, Variable) else value


# -- names without a value -------------------------------------------------------------------------------------------
class Undefined:
    """The value of a name that is not defined at this point."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name} has no value>"


class UndefinedReturnValue:
    """The value of a function that has not returned."""


def ld(value: Any) -> Any:
    """Load a name."""
    if type(value) is Undefined:
        raise UnboundLocalError(f"'{value.name}' is used before assignment")
    return value


def ldu(load: Block, name: str) -> Any:
    """Load an attribute or an element that may be undefined."""
    try:
        return load()
    except (LookupError, AttributeError, NameError):
        return Undefined(name)


class FunctionScope:
    """The body of a converted function."""

    def __init__(self, function_name: str, scope_name: str, options: Any) -> None:
        self.name = scope_name

    def __enter__(self) -> FunctionScope:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def ret(self, value: Any, did_return: Any) -> Any:
        """The value that the function returns."""
        if type(value) is UndefinedReturnValue:
            return None
        if is_symbolic(did_return) and value is not None:
            raise ValueError(
                _NO_RETURN.format("else") + " The function can reach its end without a `return`: add one there."
            )
        return value


def with_function_scope(body: Callable[[FunctionScope], Any], scope_name: str, options: Any) -> Any:
    """Run the body of a converted lambda."""
    return body(FunctionScope("lambda", scope_name, options))


# -- structures of values --------------------------------------------------------------------------------------------
def _is_numeric(leaf: Any) -> bool:
    """Whether the program can compute such a value."""
    if isinstance(leaf, Tensor):
        return leaf.array.dtype.kind != "O"
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind != "O"
    return isinstance(leaf, (bool, int, float, complex, Variable))


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, (str, bytes)) or (isinstance(leaf, Tensor) and leaf.array.dtype.kind == "O")


class _StringsDifferError(Exception):
    """A string depends on a tensor: trace again, with strings among the values that the program computes."""


def _flat(value: Any) -> list[Any]:
    return nest.flatten(value, True)


def _is_carried(leaf: Any, strings: bool) -> bool:
    """Whether the program computes a value: numbers and, if some of them depend on tensors, strings."""
    return _is_numeric(leaf) or (strings and _is_text(leaf))


def _carried(values: State, strings: bool) -> list[Tensor]:
    """The tensors among values, including numbers, and strings if the program computes them."""
    return [convert(leaf) for leaf in _flat(values) if _is_carried(leaf, strings)]


def _own(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors as outputs of the block that is being traced, including those from outside."""
    graph = current_graph()
    return [array.identity(t) if is_symbolic(t) and t.array.graph is not graph else t for t in tensors]


def _zeros_like(value: Any) -> Any:
    """A structure of zeros in place of an unused value."""

    def zeros(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and _is_text(leaf):
            sizes = [n if type(n) is int else 0 for n in leaf.array.shape]
            return wrap(np.full(sizes, b"", object))
        if not _is_numeric(leaf):
            return leaf
        like = convert(leaf).array
        return wrap(filled(like.shape, like.dtype, 0))

    return nest.map_structure(zeros, value, expand_composites=True)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two Python values are interchangeable."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (Undefined, UndefinedReturnValue)):
        return True
    # Compare their text: 0.0 and -0.0 are equal, but not the same.
    return isinstance(one, (bool, int, float, complex, str, bytes)) and repr(one) == repr(other)


def _describe(leaf: Any) -> str:
    return f"a tensor of dtype {convert(leaf).dtype.name}" if _is_numeric(leaf) else repr(leaf)


def _abstract_eval(block: Block) -> Any:
    """The result of a block that is traced only to learn its structure; its ops are discarded."""
    outer = current_graph()
    assert outer is not None
    graph = Graph("abstract_eval", outer=outer)
    graph.concrete = outer.concrete
    with tracing(graph), stack.use_recorders((Trace(graph),)):
        return block()


@contextmanager
def _undone_on_error(set_state: SetState, before: State) -> Iterator[None]:
    """Restore attributes and elements if a trace fails, so that they keep no symbolic values."""
    try:
        yield
    except BaseException:
        if not any(type(v) is Undefined for v in before):
            set_state(before)
        raise


def _verified(condition: Any, where: str) -> Any:
    """Check that a condition that is a tensor is a scalar; return it."""
    if isinstance(condition, Tensor) and current_graph() is not None:
        cast = "" if condition.dtype.is_bool else " to use as boolean Tensor, use `tf.cast`;"
        if cast or tuple(condition.array.shape) not in ((), (1,)):
            raise ValueError(
                f"condition of {where} expected to be `tf.bool` scalar, got {condition!r};{cast} to check for None, "
                "use `is not None`"
            )
    return condition


# -- if --------------------------------------------------------------------------------------------------------------
def if_stmt(
    condition: Any,
    body: Block,
    orelse: Block,
    get_state: GetState,
    set_state: SetState,
    names: Sequence[str],
    output_count: int,
) -> None:
    """Run an `if` statement; the code after it uses the first `output_count` variables."""
    condition = _verified(_read(condition), "if statement")
    if not is_symbolic(condition):
        (body if condition else orelse)()
        return
    before = get_state()

    def run(block: Block, state: State) -> Callable[[], State]:
        def branch() -> State:
            set_state(state)
            block()
            return get_state()[:output_count]

        return branch

    # If `not x` is false, x is true: a function that has returned in one branch has returned after both.
    negated = getattr(condition, "_negates", None)
    otherwise = before if negated is None else tuple([True if v is negated else v for v in before])
    with _undone_on_error(set_state, before):
        after = _branched(condition, run(body, before), run(orelse, otherwise), names)
    set_state((*after, *before[output_count:]))


def if_exp(condition: Any, if_true: Block, if_false: Block, text: str) -> Any:
    """`a if condition else b`"""
    condition = _read(condition)
    if not is_symbolic(condition):
        return if_true() if condition else if_false()
    what = f"the value of `... if {text} else ...`"
    return _branched(condition, lambda: (if_true(),), lambda: (if_false(),), [what])[0]


def _branched(
    condition: Any, main: Callable[[], State], orelse: Callable[[], State], names: Sequence[str]
) -> tuple[Any, ...]:
    """Merge the values that two branches give to the same names."""
    try:
        return _traced_branches(condition, main, orelse, names, strings=False)
    except _StringsDifferError:
        return _traced_branches(condition, main, orelse, names, strings=True)


def _traced_branches(
    condition: Any, main: Callable[[], State], orelse: Callable[[], State], names: Sequence[str], strings: bool
) -> tuple[Any, ...]:
    found: dict[str, State] = {}

    def trace(which: str, function: Callable[[], State], other: str, other_function: Callable[[], State]) -> Block:
        def run() -> list[Tensor]:
            values = function()
            if any(type(v) is UndefinedReturnValue for v in values):
                # One branch returns, the other does not: give its result the same structure.
                like = found[other] if other in found else _abstract_eval(other_function)
                values = tuple([_return_like(v, w) for v, w in zip(values, like, strict=True)])
            found[which] = values
            if other in found:
                _check_branches(found["main"], found["else"], names, strings)
            return _own(_carried(values, strings))

        return run

    results = iter(
        control_flow.cond(condition, trace("main", main, "else", orelse), trace("else", orelse, "main", main))
    )
    pairs = zip(found["main"], found["else"], strict=True)
    return tuple([_merged(one, other, results, strings) for one, other in pairs])


def _return_like(value: Any, other: Any) -> Any:
    if type(value) is not UndefinedReturnValue or type(other) is UndefinedReturnValue:
        return value
    return _zeros_like(other)


def _merged(one: Any, other: Any, results: Any, strings: bool) -> Any:
    """Merge the values of both branches; equal ones stay as they are."""

    def merge(a: Any, b: Any) -> Any:
        result = next(results) if _is_carried(a, strings) else a
        return a if _is_same(a, b) else result

    return nest.map_structure(merge, one, other, expand_composites=True, check_types=False)


def _check_branches(main: State, orelse: State, names: Sequence[str], strings: bool) -> None:
    for name, one, other in zip(names, main, orelse, strict=False):
        if (type(one) is Undefined) != (type(other) is Undefined):
            where = "main" if type(one) is Undefined else "else"
            raise ValueError(
                f"'{name}' must also be initialized in the {where} branch: whether it runs is known only at run "
                f"time. Give '{name}' a value there, or before the `if`."
            )
        if type(one) is Undefined:
            continue
        try:
            nest.assert_same_structure(one, other, expand_composites=True)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"'{name}' does not have the same nested structure in the main and else branches.\n\n{error}"
            ) from None
        for a, b in zip(_flat(one), _flat(other), strict=True):
            _check_leaves(name, a, b, strings)


def _check_leaves(name: str, main: Any, orelse: Any, strings: bool) -> None:
    if (main is None) != (orelse is None):
        raise ValueError(
            f"'{name}' is None at the end of the {'main' if main is None else 'else'} branch. A branch that depends on "
            "a tensor can only choose between tensors."
        )
    if not (_is_carried(main, strings) and _is_carried(orelse, strings)):
        if _is_text(main) and _is_text(orelse) and not _is_same(main, orelse):
            if allows_dynamic_shapes():
                raise _StringsDifferError()
            raise only_eager(
                TypeError(f"'{name}' is a string, which a compiled program cannot select: XLA supports only numbers.")
            )
        if _is_numeric(main) or _is_numeric(orelse) or not _is_same(main, orelse):
            raise TypeError(
                f"'{name}' is {_describe(main)} in the main branch, but {_describe(orelse)} in the else branch. A "
                "branch that depends on a tensor can only choose between tensors."
            )
        return
    a, b = convert(main), convert(orelse)
    if a.dtype != b.dtype:
        raise TypeError(
            f"'{name}' has dtype {a.dtype.name} in the main branch, but dtype {b.dtype.name} in the else branch. Use "
            "tf.cast in one of them."
        )
    if tuple(a.array.shape) != tuple(b.array.shape) and not (allows_dynamic_shapes() and a.shape.rank == b.shape.rank):
        raise only_eager(
            ValueError(
                f"'{name}' has shape {a.shape} in the main branch, but shape {b.shape} in the else branch. A "
                "compiled program needs one shape: pad the smaller one, or choose before calling the function."
            )
        )


# -- loops -----------------------------------------------------------------------------------------------------------
def _staged_loop(set_state: SetState, before: State, run: Callable[[bool], None]) -> None:
    """Trace a loop, and again with strings among the carried values if one of them changes."""
    with _undone_on_error(set_state, before):
        try:
            run(False)
        except _StringsDifferError:
            set_state(before)
            run(True)


def while_stmt(
    test: Block, body: Block, get_state: GetState, set_state: SetState, names: Sequence[str], options: dict[str, Any]
) -> None:
    """Run a `while` statement: as a Python loop, until its condition depends on a tensor."""
    while True:
        going_on = _read(test())
        if _is_staged(going_on):
            _verified(going_on, "while loop")

            def run(strings: bool) -> None:
                loop = _Loop(test, lambda _: body(), get_state, set_state, names, options, strings)
                loop.run(None, lambda _: None, options.get("maximum_iterations"))

            _staged_loop(set_state, get_state(), run)
            return
        if not going_on:
            return
        body()


def for_stmt(
    iterated: Any,
    extra_test: Block | None,
    body: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: Sequence[str],
    options: dict[str, Any],
) -> None:
    """Run a `for` statement: over tensors and `tf.range` in the program, over other objects in Python."""
    iterated = _read(iterated)
    if isinstance(iterated, Range):

        def run(strings: bool) -> None:
            loop = _Loop(extra_test, body, get_state, set_state, names, options, strings)
            loop.run(iterated.count(), iterated.at, options.get("maximum_iterations"))

        _staged_loop(set_state, get_state(), run)
        return
    if _is_staged(iterated):
        if not iterated.array.shape:
            raise TypeError("Cannot iterate over a scalar tensor.")
        if not _is_unrolled(iterated, get_state()):

            def over(strings: bool) -> None:
                _Loop(extra_test, body, get_state, set_state, names, options, strings).over(iterated)

            _staged_loop(set_state, get_state(), over)
            return
        iterated = [iterated[i] for i in builtins.range(len(iterated))]
    for target in iterated:
        going_on = True if extra_test is None else _read(extra_test())
        if is_symbolic(going_on):  # a `break` that depends on a tensor
            if_stmt(going_on, lambda: body(target), lambda: None, get_state, set_state, names, len(names))  # noqa: B023
        elif not going_on:
            return
        else:
            body(target)


def _is_unrolled(rows: Tensor, state: State) -> bool:
    """Whether a short loop writes to a TensorArray without a fixed size: unrolled, XLA can compile it."""
    length = rows.array.shape[0]
    return type(length) is int and length <= _UNROLLED and any(map(_is_growing, nest.flatten(state)))


_UNROLLED = 64
"""The largest number of iterations to unroll for fixed sizes."""


def _is_growing(value: Any) -> bool:
    """Whether this is a TensorArray without a fixed size."""
    return type(value).__name__ == "TensorArray" and bool(value.dynamic_size)


def _has_dynamic_shape(value: Any) -> bool:
    """Whether this is a tensor with a size that depends on values."""
    return isinstance(value, Tensor) and any(v.least == 0 for v in variables_in(value.array.shape).values())


def _row(tensor: Tensor, k: Tensor) -> Tensor:
    row: Tensor = index.gather_nd(tensor, array.reshape(k, shape=(1,)), batch_dims=0)
    return row


class Range:
    """A `tf.range` of unknown length, to loop over."""

    __array_ufunc__ = None

    def __init__(
        self, start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None
    ) -> None:
        if limit is None:
            start, limit = 0, start
        kinds = [convert(p).dtype for p in (start, limit, delta) if isinstance(p, (Tensor, Variable))]
        order = ["int32", "int64", "float32", "float64"]
        kind = dtype if dtype is not None else max(kinds, key=lambda d: order.index(d.name) if d.name in order else -1)
        self.start, self.limit, self.delta = (_cast(convert(_read(p)), kind) for p in (start, limit, delta))

    def count(self) -> Tensor:
        """The number of elements."""
        distance = self.limit - self.start
        if self.start.dtype.is_floating:
            return _cast(math.ceil(distance / self.delta), "int32")
        return _cast(-(-distance // self.delta), "int32")

    def at(self, k: Tensor) -> Tensor:
        """The element at an index."""
        return self.start + _cast(k, self.start.dtype) * self.delta

    def tensor(self) -> Tensor:
        """The elements as a tensor of unknown length."""
        count = self.count()
        if not allows_dynamic_shapes() or type(count.array) is not Symbolic:
            error = only_eager(
                errors.OperatorNotAllowedInGraphError(
                    "The length of this tf.range is not known while the function is being traced, so it has no "
                    "shape. You can loop over it: `for i in tf.range(n)`. To get a tensor, pass `n` as a Python "
                    "number."
                )
            )
            made: Tensor = in_graph("range", (self.start, self.limit, self.delta, self.start.dtype), {}, error)
            return made
        return self.at(wrap(arange(0, sizes_from(count.array).item(), 1, count.array.dtype)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor(), name)


def _of_tensor(name: str) -> Callable[..., Any]:
    def method(self: Range, *others: Any) -> Any:
        return getattr(self.tensor(), name)(*others)

    return method


for _name in ("array", "getitem", "len", "iter", "neg", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Range, f"__{_name}__", _of_tensor(f"__{_name}__"))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Range, f"__{_name}__", _of_tensor(f"__{_name}__"))
    setattr(Range, f"__r{_name}__", _of_tensor(f"__r{_name}__"))
register_converter(Range, lambda numbers: numbers.tensor())


def _cast(tensor: Tensor, dtype: Any) -> Tensor:
    from gradtape._src.dtypes import as_dtype

    wanted = as_dtype(dtype).numpy_dtype
    if tensor.array.dtype == wanted:
        return tensor
    result: Tensor = array.astype(tensor, dtype=wanted, source=tensor.array.dtype)
    return result


def _stand_in(shape: Any, dtype: Any) -> Tensor:
    """A tensor of which only shape and dtype are known."""
    graph = current_graph()
    assert graph is not None
    return wrap(graph.argument(tuple(shape), dtype))


def _has_known_shapes(state: State) -> bool:
    """Whether all shapes are known; a TensorArray learns the shape of its elements from the first write."""
    try:
        _flat(state)
    except ValueError:
        return False
    return True


class _Loop:
    """A loop of the program, whose body is traced once."""

    def __init__(
        self,
        test: Block | None,
        body: Callable[[Any], None],
        get_state: GetState,
        set_state: SetState,
        names: Sequence[str],
        options: dict[str, Any],
        strings: bool = False,
    ) -> None:
        self._test, self._body, self._strings = test, body, strings
        self._get_state, self._set_state, self._names = get_state, set_state, names
        self._before = get_state()
        self._maximum = options.get("maximum_iterations")
        self._invariants = options.get("shape_invariants", ())
        self._set_first: list[str] = []  # variables that are undefined before the loop

    def over(self, rows: Tensor) -> None:
        """Run the body for each row."""
        length = rows.array.shape[0]
        if self._test is not None or self._maximum is not None or self._has_free_shapes():  # it may end early
            self.run(length, lambda k: _row(rows, k), length if self._maximum is None else self._maximum)
            return
        self._define(lambda: _stand_in(rows.array.shape[1:], rows.array.dtype))

        def once(carried: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            self._set_state(self._packed(carried))
            self._body(row[0])
            return self._checked(), []

        results, _ = control_flow.scan(once, _carried(self._before, self._strings), [rows], length)
        self._set_state(self._packed(results))

    def run(self, count: Any, target: Callable[[Tensor], Any], maximum_iterations: Any = None) -> None:
        """Run the body `count` times (None: without limit), or while the test is true."""
        self._define(lambda: target(_stand_in((), np.dtype(np.int32))))

        def going_on(k: Tensor, *carried: Tensor) -> Any:
            self._set_state(self._packed(carried))
            within = True if count is None else k < count
            return and_(lambda: within, lambda: True if self._test is None else self._test())

        def once(k: Tensor, *carried: Tensor) -> list[Tensor]:
            self._set_state(self._packed(carried))
            self._body(target(k))
            return [k + 1, *self._checked()]

        start = wrap(np.zeros((), np.int32))
        carry = [start, *_carried(self._before, self._strings)]
        invariants = [None, *[shape for leaf, shape in self._declared() if _is_carried(leaf, self._strings)]]
        iterations, *results = control_flow.while_loop(going_on, once, carry, maximum_iterations, invariants)
        if self._set_first and not (type(count) is int and count > 0):
            message = f"loop must iterate at least once to initialize {', '.join(self._set_first)}"
            require((iterations > 0).array, [message])
        self._set_state(self._packed(results))

    def _define(self, target: Block) -> None:
        """Start variables that the body defines with zeros; their structure comes from tracing the body first."""
        missing = [i for i, v in enumerate(self._before) if type(v) in (Undefined, UndefinedReturnValue)]
        if not missing and _has_known_shapes(self._before):
            return
        tensors = [convert(leaf) for leaf in nest.flatten(self._before) if _is_numeric(leaf)]

        def once() -> State:
            stand_ins = iter([_stand_in(t.array.shape, t.array.dtype) for t in tensors])
            self._set_state(nest.map_structure(lambda v: next(stand_ins) if _is_numeric(v) else v, self._before))
            self._body(target())
            return self._get_state()

        try:
            after = _abstract_eval(once)
        except UnboundLocalError as error:
            unset = next((self._names[i] for i in missing if f"'{self._names[i]}'" in str(error)), None)
            if unset is None:
                raise
            raise ValueError(
                f"'{unset}' must be defined before the loop, because the first iteration reads it."
            ) from None
        before = list(self._before)
        for i in missing:
            if type(after[i]) not in (Undefined, UndefinedReturnValue):
                if type(before[i]) is Undefined:
                    self._set_first.append(self._names[i])
                before[i] = _zeros_like(after[i])
        self._before = tuple(before)
        self._set_state(self._before)

    def _packed(self, tensors: Sequence[Tensor]) -> State:
        """The state with its numbers replaced by these tensors."""
        remaining = iter(tensors)

        def place(leaf: Any) -> Any:
            return next(remaining) if _is_carried(leaf, self._strings) else leaf

        return tuple([nest.map_structure(place, value, expand_composites=True) for value in self._before])

    def _checked(self) -> list[Tensor]:
        """The state after an iteration; raises an error if another iteration cannot start with it."""
        after = self._get_state()
        for name, old, new in zip(self._names, self._before, after, strict=False):
            try:
                nest.assert_same_structure(old, new, expand_composites=True)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"'{name}' does not have the same nested structure after one iteration.\n\n{error}"
                ) from None
        leaves = [(name, leaf) for name, new in zip(self._names, after, strict=False) for leaf in _flat(new)]
        for (name, new), (old, shape) in zip(leaves, self._declared(), strict=False):
            _check_iteration(name, old, new, shape is not None, self._strings)
        return _own(_carried(after, self._strings))

    def _declared(self) -> list[tuple[Any, Any]]:
        """The carried values, each with its declared shape, or None."""
        found: list[tuple[Any, Any]] = []
        for value in nest.flatten(self._before):
            parts = _flat(value)
            if hasattr(value, "invariants"):
                shapes = value.invariants()
            else:
                shapes = [next((s for t, s in self._invariants if t is value), None)] * len(parts)
            found += zip(parts, shapes, strict=True)
        return found

    def _has_free_shapes(self) -> bool:
        """Whether shapes may change: declared ones, TensorArrays without a fixed size, and values of dynamic sizes."""
        leaves = nest.flatten(self._before)
        return bool(self._invariants) or any(map(_is_growing, leaves)) or any(map(_has_dynamic_shape, leaves))


def _check_iteration(name: str, before: Any, after: Any, may_change: bool, strings: bool) -> None:
    if not (_is_carried(before, strings) and _is_carried(after, strings)):
        if _is_text(before) and _is_text(after) and not _is_same(before, after) and allows_dynamic_shapes():
            raise _StringsDifferError()
        if _is_numeric(before) or _is_numeric(after) or not _is_same(before, after):
            raise TypeError(
                f"'{name}' is {_describe(before)} before the loop, but {_describe(after)} after one iteration. A loop "
                "that depends on a tensor can only change tensors."
            )
        return
    a, b = convert(before), convert(after)
    if a.dtype != b.dtype:
        raise TypeError(
            f"'{name}' has dtype {a.dtype.name} before the loop, but dtype {b.dtype.name} after one iteration. "
            "Start with a tensor of that dtype, or use tf.cast."
        )
    if len(a.array.shape) == len(b.array.shape) and allows_dynamic_shapes():
        may_change = may_change or not all(type(n) is int for n in a.array.shape)
        if may_change:  # tracing the loop tells whether it does
            return
    if tuple(a.array.shape) != tuple(b.array.shape):
        problem = ValueError(
            f"'{name}' has shape {a.shape} before the loop, but shape {b.shape} after one iteration. Use "
            "tf.autograph.experimental.set_loop_options to set shape invariants: a compiled loop needs one shape. Or "
            "collect values in a tf.TensorArray, or loop over a Python range to unroll it."
        )
        raise only_eager(problem) if may_change else problem


# -- truth -----------------------------------------------------------------------------------------------------------
def not_(value: Any) -> Any:
    """`not`"""
    value = _read(value)
    if not is_symbolic(value):
        return not value
    if not value.dtype.is_bool:
        raise TypeError(
            f"Input 'x' of 'LogicalNot' Op has type {value.dtype.name} that does not match expected type of bool. Use "
            "tf.cast, or compare it with 0."
        )
    result: Any = math.logical_not(value)
    result._negates = value
    return result


def and_(a: Block, b: Block) -> Any:
    """`and`: the second operand is always computed if the first one has no value yet."""
    first = _read(a())
    if not is_symbolic(first):
        return first and b()
    control_flow.check_truth(first, "Input 'pred' passed {} expected bool", "If")
    return math.logical_and(first, convert(_read(b())))


def or_(a: Block, b: Block) -> Any:
    """`or`: see `and_`."""
    first = _read(a())
    if not is_symbolic(first):
        return first or b()
    control_flow.check_truth(first, "Input 'pred' passed {} expected bool", "If")
    return math.logical_or(first, convert(_read(b())))


def assert_stmt(condition: Any, message: Block) -> None:
    """`assert`: if its condition is a tensor without a value, a check in the program."""
    condition = _read(condition)
    if is_symbolic(condition):
        found = nest.flatten(message())
        shown = [leaf.array if isinstance(leaf, Tensor) else str(leaf) for leaf in found if leaf is not None]
        require(array.astype(condition, dtype=np.dtype(bool), source=condition.array.dtype).array, shown)
    elif not condition:
        found = message()
        raise AssertionError() if found is None else AssertionError(found)


# -- Python's builtin functions --------------------------------------------------------------------------------------
def _int(x: Any = 0, *base: Any) -> Any:
    return _cast(x, "int32") if is_symbolic(x) else int(x, *base)


def _float(x: Any = 0.0) -> Any:
    return _cast(x, "float32") if is_symbolic(x) else float(x)


def _range(*bounds: Any) -> Any:
    bounds = tuple(map(_read, bounds))
    if any(map(is_symbolic, bounds)):
        return Range(*bounds)
    if any(map(_is_staged, bounds)):
        return wrap(np.arange(*map(int, bounds), dtype=np.result_type(*[b.array for b in bounds if _is_staged(b)])))
    return range(*bounds)


def _extreme(python: Callable[..., Any], of_two: Any, of_many: Any) -> Callable[..., Any]:
    """`max` or `min` of scalars, or of the elements of a vector."""

    def extreme(*values: Any, **options: Any) -> Any:
        values = tuple(map(_read, values))
        if options or not any(map(is_symbolic, values)):
            return python(*values, **options)
        if len(values) > 1:
            return functools.reduce(lambda a, b: of_two(*operands(a, b)), values)
        if len(values[0].array.shape) != 1:
            raise ValueError(f"{python.__name__} arg currently support only tensor with rank 1, not {values[0].shape}.")
        return of_many(values[0], axis=(0,), keepdims=False)

    return extreme


BUILTINS: dict[Any, Callable[..., Any]] = {
    float: _float,
    int: _int,
    max: _extreme(max, math.maximum, reduce.max_),
    min: _extreme(min, math.minimum, reduce.min_),
    range: _range,
}
"""Builtin functions that are different for tensors without a value."""
