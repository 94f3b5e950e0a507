"""`certify`: bounds on the rounding errors of a value and its gradient, op by op.

The function runs under a tape, and the tape's backward pass under a recorder: its rules consist of primitives, so the
recorder has one list of ops, forward and backward, from the arguments to the gradient. Then each op is computed again
in interval arithmetic (`enclosures.py`). The exact gradient is in the last interval, and the error of the computed one
is at most its distance to the farther end: nothing is assumed about the kernels that computed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.half import is_half
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.recording import Recording
from gradtape._src.call_sites import Line, user_line
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.observe import Observer
from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import Record, Recorder
from gradtape._src.function import modes
from gradtape._src.inspect.op_names import shown_op
from gradtape._src.inspect.rounding import complex_numbers  # noqa: F401 - registers rules
from gradtape._src.inspect.rounding.enclosures import Call, enclose
from gradtape._src.inspect.rounding.interval import Array, Interval, as_interval, joined, unknown
from gradtape._src.inspect.tables import Column, Report, Table, columns_with_facts, line_text, plural
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

INFLATION = 2.0**-20
"""Relative radius of operands for condition numbers: large compared with rounding, with small second-order terms."""

MOST_OPS = 20_000
"""The largest number of ops to analyse: each is computed three times in double precision."""


# -- recording -------------------------------------------------------------------------------------------------------
class _Logged(NamedTuple):
    """One op, with its tensors."""

    op: Op
    attrs: dict[str, Any]
    inputs: Sequence[Any]
    outputs: tuple[Any, ...]
    line: Line | None
    backward: bool
    kinds: tuple[str, ...]  # of its inputs: "variable", "constant", or "rounded" for a constant of a rule


class _Tracked(dict[int, Any]):
    """The uids that depend on the arguments; in the backward pass every uid counts as tracked."""

    everything = False

    def __contains__(self, uid: object) -> bool:
        return self.everything or super().__contains__(uid)

    def depends(self, uid: int) -> bool:
        """Whether a value was computed from the arguments, or from the first cotangents."""
        return super().__contains__(uid)

    def __missing__(self, uid: int) -> Any:
        return ()


class _Log(Recorder):
    """Records every op that depends on the arguments, differentiable or not, with its operands and results.

    In the backward pass it records every op, because rules compute with constants as well.
    """

    __slots__ = ("backward", "given", "lines", "ops")

    def __init__(self) -> None:
        super().__init__()
        self.append = _report
        self.tracked: _Tracked = _Tracked()
        self.ops: list[_Logged] = []
        self.backward = False
        self.given: set[int] = set()
        self.lines: dict[int, Line | None] = {}

    def begin_backward(self) -> None:
        """From now on ops belong to the backward pass, and new constants are those of rules."""
        self.backward = self.tracked.everything = True
        self.given = {id(tensor) for logged in self.ops for tensor in logged.inputs}
        self.lines = {t.uid: logged.line for logged in self.ops for t in logged.outputs}

    def _kind(self, tensor: Any) -> str:
        """Whether an operand depends on the arguments, is a constant of the program, or a constant of a rule."""
        if self.tracked.depends(tensor.uid):
            return "variable"
        return "constant" if id(tensor) in self.given or not self.backward else "rounded"

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        op, _, _, _, attrs, _ = Record.of(record)
        outs = outputs if type(outputs) is tuple else (outputs,)
        if len(self.ops) >= MOST_OPS:
            raise ValueError(f"certify analyzes at most {MOST_OPS:,} ops, forward and backward together.")
        kinds = tuple([self._kind(tensor) for tensor in inputs])
        for out in outs:
            self.tracked[out.uid] = tuple(out.array.shape)
        self.ops.append(_Logged(op, attrs, inputs, outs, user_line(), self.backward, kinds))


def _report(record: Any) -> bool:
    return True  # on_op follows


class _BackwardLines(Observer):
    """Assigns ops of the backward pass to the line of the op that they differentiate."""

    __slots__ = ("_done", "_log")

    def __init__(self, log: _Log) -> None:
        self._log, self._done = log, len(log.ops)

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        ops = self._log.ops
        first = record.output[0] if type(record.output) is tuple else record.output
        line = self._log.lines.get(first)
        for i in range(self._done, len(ops)):
            ops[i] = ops[i]._replace(line=line or ops[i].line)
        self._done = len(ops)


class _Tape(Tape):
    """A tape whose backward pass is logged with lines."""

    _observes_backward = True
    log: _Log

    def _backward_observer(
        self, recording: Recording, shapes: dict[int, tuple[int, ...]], cotangents: dict[int, Any]
    ) -> Observer | None:
        return _BackwardLines(self.log)


# -- the report ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, repr=False)
class CertifiedOp:
    """One op, and what it did to the errors of its operands.

    `condition` is the largest factor by which it magnifies relative errors of its operands in an element. `local` is
    the error of its own kernel, in units of the last place of its largest result. `error` bounds the absolute error of
    each element after this op, and `relative` is the largest of these bounds relative to the largest result. `digits`
    is the number of decimal digits that remain, `lost` the number lost here. `proved` is False if the bound is an
    estimate.

    >>> import gradtape as tf
    >>> from gradtape.testing import certify
    >>> op = certify(lambda x: x - 1.0, 1.0001).ops[0]
    >>> op.op, op.backward, round(op.condition / 10_000)
    ('subtract', False, 1)
    """

    index: int
    op: str
    backward: bool
    line: Line | None
    dtype: str
    condition: float
    local: float
    error: tuple[Array, ...] = field(compare=False)
    relative: float
    lost: float
    proved: bool

    @property
    def digits(self) -> float:
        """The number of decimal digits of the largest result that are guaranteed.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> 7 < certify(tf.exp, 1.0).ops[0].digits < 9
        True
        """
        return _digits(self.relative)

    def __repr__(self) -> str:
        side = "backward" if self.backward else "forward"
        return f"<{self.op}, {side}, {self.digits:.1f} digits, condition {self.condition:.2g}>"


@dataclass(frozen=True, repr=False)
class Certificate(Report):
    """The result of `certify`.

    >>> import gradtape as tf
    >>> from gradtape.testing import certify
    >>> found = certify(tf.sin, 1.0)
    >>> bool(found.gradient_error < 1e-7), [op.op for op in found.ops]
    (True, ['sin', 'cos', 'multiply'])
    """

    value: Any
    value_error: Any
    gradient: Any
    gradient_error: Any
    enclosure: Any
    ops: tuple[CertifiedOp, ...]
    max_rows: int | None = 40

    @property
    def proved(self) -> bool:
        """Whether interval arithmetic proves the bounds; False if some op was estimated.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> certify(tf.sin, 1.0).proved, certify(tf.math.lgamma, 1.5).proved
        (True, False)
        """
        return all(op.proved for op in self.ops)

    @property
    def estimated(self) -> tuple[str, ...]:
        """The names of the ops whose error is estimated rather than proved.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> certify(tf.math.lgamma, 1.5).estimated
        ('lgamma', 'digamma')
        """
        return tuple(dict.fromkeys(op.op for op in self.ops if not op.proved))

    @property
    def digits(self) -> float:
        """The number of decimal digits of the gradient that are guaranteed, for the worst argument.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> 6 < certify(tf.tanh, 0.5).digits < 9
        True
        """
        pairs = zip(nest.flatten(self.gradient), nest.flatten(self.gradient_error), strict=True)
        return min([_digits(_relative(e, np.asarray(g))) for g, e in pairs if g is not None], default=math.inf)

    @property
    def losses(self) -> list[CertifiedOp]:
        """The ops that lost digits, worst first.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> [op.op for op in certify(lambda x: tf.exp(x) - 1.0, 1e-4).losses]
        ['subtract']
        """
        return sorted([op for op in self.ops if op.lost > 0.05], key=lambda op: -op.lost)

    def tables(self) -> list[Table]:
        """Return the table that is printed.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> [column.heading for column in certify(tf.sin, 1.0).tables()[0].columns[:3]]
        ['#', 'op', 'pass']
        """
        columns, cells = columns_with_facts(
            [
                (Column("#", True), [str(op.index) for op in self.ops]),
                (Column("op"), [op.op for op in self.ops]),
                (Column("pass"), ["backward" if op.backward else "forward" for op in self.ops]),
                (Column("dtype"), [op.dtype for op in self.ops]),
                (Column("condition", True), [_number(op.condition) for op in self.ops]),
                (Column("local ulps", True), [_number(op.local) for op in self.ops]),
                (Column("error", True), [_number(op.relative) for op in self.ops]),
                (Column("digits", True), [_digits_text(op.digits) for op in self.ops]),
                (Column("lost", True), [f"{op.lost:.1f}" if op.lost > 0.05 else "" for op in self.ops]),
                (Column("bound"), ["" if op.proved else "estimated" for op in self.ops]),
                (Column("line"), [line_text(op.line) for op in self.ops]),
            ]
        )
        return [Table(self._title(), columns, cells, self._remarks())]

    def _title(self) -> str:
        kind = "proved" if self.proved else "estimated"
        return (
            f"{plural(len(self.ops), 'op')}: {_digits_text(self.digits)} digits of the gradient are guaranteed ({kind})"
        )

    def _remarks(self) -> Iterator[str]:
        if self.losses:
            worst = self.losses[0]
            place = line_text(worst.line)
            yield f"Most digits are lost in {worst.op}{f' at {place}' if place else ''}: {worst.lost:.1f}."
        if self.estimated:
            yield f"Estimated, not proved: {', '.join(self.estimated)}."

    def to_svg(self, width: int = 720, height: int = 260) -> str:
        """Draw the digits that are guaranteed after each op, forward and backward, and name the largest losses.

        >>> import gradtape as tf
        >>> from gradtape.testing import certify
        >>> certify(tf.sin, 1.0).to_svg().startswith("<svg ")
        True
        """
        from gradtape._src.inspect.rounding.picture import to_svg

        return to_svg(self, width, height)


# -- the analysis ----------------------------------------------------------------------------------------------------
def certify(f: Callable[..., Any], *args: Any, output_gradients: Any = None) -> Certificate:
    """Bound the rounding errors of a function's value and gradient, op by op.

    `certify` runs the function once and computes its gradient with respect to `args`, both in their own dtypes. It then
    evaluates every op of both passes again in double-precision interval arithmetic, which encloses the result of exact
    arithmetic for the same arguments. Arguments, variables and constants count as exact.

    Args:
      f: A function of tensors that returns a tensor, or a structure of tensors, whose sum is differentiated.
      args: Structures of numbers, arrays, tensors or variables of a real floating dtype; others are passed on.
      output_gradients: Cotangents of the results, as in `GradientTape.gradient`.

    Returns:
      A `Certificate`. `value` and `gradient` are the computed results, `value_error` and `gradient_error` bound the
      absolute error of every element, and `enclosure` holds the ends of an interval that contains the exact gradient.
      `ops` has a row for each op with its condition number and the digits that remain, and `losses` the rows where
      digits were lost. `proved` is False if an op has no interval rule, so that its error was estimated; `estimated`
      names such ops.

    `tf.function`s run op by op. Values that leave the program, through `.numpy()` or a Python branch, count as exact
    from there on. Inside a `tf.function` there are no values to analyze, and `certify` raises an error.

    >>> import gradtape as tf
    >>> from gradtape.testing import certify
    >>> found = certify(lambda x: (1.0 - tf.cos(x)) / x**2, 1e-3)
    >>> found.proved, bool(found.gradient_error > 1.0)
    (True, True)
    >>> found.losses[0].op
    'subtract'
    >>> better = certify(lambda x: 2.0 * (tf.sin(x / 2.0) / x) ** 2, 1e-3)
    >>> bool(better.value_error < 1e-7)
    True
    """
    _check(f, args)
    args = tuple(nest.map_structure(_argument, arg) for arg in args)
    leaves = nest.flatten(args)
    sources = [leaf for leaf in leaves if _is_real(leaf)]
    if not sources:
        raise ValueError(
            "certify needs an argument of a real floating dtype. Received: "
            f"{', '.join(str(getattr(leaf, 'dtype', type(leaf).__name__)) for leaf in leaves) or 'no arguments'}."
        )
    log = _Log()
    for source in sources:
        log.tracked[source.uid] = tuple(source.shape)
    tape = _Tape(persistent=True, watch_accessed_variables=False)
    tape.log = log
    with modes.inspecting_functions(), stack.use_recorders((log,)), tape:
        tape.watch(sources)
        value = nest.map_structure(_result, f(*args))
        with tape.stop_recording():
            seeds = _seeds(value, output_gradients, log)
            found = tape.gradient(value, sources, seeds)
            gradients = [None if g is None else convert(g) for g in found]
    with float_errors_ignored(), stack.use_recorders(()):
        return _certificate(log, args, sources, value, gradients)


def _check(f: Any, args: tuple[Any, ...]) -> None:
    if not callable(f):
        raise TypeError(f"certify takes a function and its arguments. Received {f!r} instead of a function.")
    if current_graph() is not None:
        raise RuntimeError(
            "certify needs the values of every op, which do not exist while a tf.function is traced. Call it outside."
        )


def _result(leaf: Any) -> Any:
    tensor = convert(leaf)
    if tensor.dtype == "string":
        raise TypeError("certify needs a function that returns numbers. Received a result of dtype string.")
    return tensor


def _argument(leaf: Any) -> Any:
    return leaf if isinstance(leaf, (Variable, str, bytes, type(None))) else convert(leaf)


def _is_real(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, Variable)) and leaf.dtype.is_floating


def _seeds(value: Any, output_gradients: Any, log: _Log) -> Any:
    """The first cotangents of the backward pass: what is computed from them is logged."""
    if output_gradients is None:
        seeds = nest.map_structure(lambda y: wrap(np.ones(y.shape, y.array.dtype)), value)
    else:
        seeds = nest.map_structure(convert, output_gradients)
    for seed in nest.flatten(seeds):
        log.tracked[seed.uid] = tuple(seed.shape)
    log.begin_backward()
    return seeds


def _certificate(
    log: _Log, args: tuple[Any, ...], sources: list[Any], value: Any, gradients: list[Tensor | None]
) -> Certificate:
    known: dict[int, Interval] = {}
    rows = [_analysed(i, logged, known) for i, logged in enumerate(log.ops)]
    found = dict(zip([id(source) for source in sources], gradients, strict=True))
    for g in gradients:
        if g is not None and not log.tracked.depends(g.uid):  # computed without being logged
            known[g.uid] = unknown(tuple(g.array.shape), g.array.dtype)
    aligned = nest.map_structure(lambda leaf: found.get(id(leaf)), args)
    one = aligned[0] if len(args) == 1 else aligned

    def enclosed(tensor: Any) -> Interval | None:
        if tensor is None:
            return None
        return known[tensor.uid] if tensor.uid in known else as_interval(_array(tensor))

    def error(tensor: Any) -> Any:
        interval = enclosed(tensor)
        return None if interval is None else interval.distance(_array(tensor))

    def ends(tensor: Any) -> Any:
        interval = enclosed(tensor)
        return None if interval is None else (interval.lo, interval.hi)

    return Certificate(
        value,
        nest.map_structure(error, value),
        one,
        nest.map_structure(error, one),
        nest.map_structure(ends, one),
        tuple(rows),
    )


def _analysed(index: int, logged: _Logged, known: dict[int, Interval]) -> CertifiedOp:
    """Enclose the results of one op, from the intervals of its operands."""
    arrays, outputs = [_array(t) for t in logged.inputs], [_array(t) for t in logged.outputs]
    points = [
        _rounded(a) if kind == "rounded" else as_interval(a) for a, kind in zip(arrays, logged.kinds, strict=True)
    ]
    inputs = [known.get(t.uid, point) for t, point in zip(logged.inputs, points, strict=True)]
    varies = tuple(kind == "variable" for kind in logged.kinds)
    call = Call(logged.op, logged.attrs, arrays, outputs, inputs, varies)
    enclosures, proved = _enclosed(call, known)
    known.update({t.uid: interval for t, interval in zip(logged.outputs, enclosures, strict=True)})
    alone, _ = enclose(call._replace(inputs=points))
    wide, _ = enclose(call._replace(inputs=[_inflated(p) if v else p for p, v in zip(points, varies, strict=True)]))
    floating = [i for i, output in enumerate(outputs) if output.dtype.kind in "fc" or is_half(output.dtype)]
    errors = tuple(enclosures[i].distance(outputs[i]) for i in floating)
    relative = max([_relative(e, outputs[i]) for e, i in zip(errors, floating, strict=True)], default=0.0)
    before = max([_relative(x.distance(a), a) for x, a in zip(inputs, arrays, strict=True) if a.dtype.kind in "fc"],
                 default=0.0)  # fmt: skip
    unit = max([_unit(outputs[i]) for i in floating], default=0.0)
    local = max([_relative(alone[i].distance(outputs[i]), outputs[i]) for i in floating], default=0.0)
    return CertifiedOp(
        index,
        shown_op(logged.op),
        logged.backward,
        logged.line,
        outputs[0].dtype.name,
        max([_condition(wide[i], outputs[i]) for i in floating], default=0.0),
        local / unit if unit else 0.0,
        errors,
        relative,
        _loss(relative, max(before, unit)),
        proved,
    )


def _enclosed(call: Call, known: dict[int, Interval]) -> tuple[tuple[Interval, ...], bool]:
    """The results of a function with a custom gradient are those of its body, whose ops are logged as well."""
    body = call.attrs.get("body", ()) if call.op.name == "custom_gradient" else ()
    if body and all(uid in known for uid in body):
        return tuple(known[uid] for uid in body), True
    return enclose(call)


# -- numbers ---------------------------------------------------------------------------------------------------------
def _array(tensor: Any) -> Array:
    array = np.asarray(tensor.array if isinstance(tensor, Tensor) else convert(tensor).array)
    return array.astype(np.float64) if is_half(array.dtype) else array


def _rounded(array: Array) -> Interval:
    """An interval around a constant that was rounded to this array; one with few digits is exact."""
    point = as_interval(array)
    if array.dtype.kind == "c":
        return joined(_rounded(array.real), _rounded(array.imag))
    if array.dtype.kind != "f":
        return point
    mantissa = np.frexp(point.lo)[0] * 2.0**12
    radius = np.where(mantissa == np.rint(mantissa), 0.0, 1.001 * _unit(array) * np.abs(point.lo))
    return Interval(point.lo - radius, point.hi + radius)


def _inflated(x: Interval) -> Interval:
    """An interval with a relative error in every floating-point element."""
    if x.is_complex:
        return joined(*[_inflated(part) for part in x.parts])
    if x.lo.dtype.kind != "f":
        return x
    radius = INFLATION * np.abs(x.lo)
    return Interval(x.lo - radius, x.hi + radius)


def _condition(wide: Interval, output: Array) -> float:
    """The largest relative radius of a result, relative to that of the operands; 0 if the result is constant."""
    radius = wide.radius
    moves = radius > 4 * np.nextafter(0, 1)
    with float_errors_ignored():
        factors = np.where(moves, radius / (INFLATION * np.abs(output).astype(np.float64)), 0.0)
    return float(np.max(np.where(np.isnan(factors), np.inf, factors), initial=0.0))


def _relative(error: Any, value: Array) -> float:
    """The largest error relative to the largest number."""
    worst = float(np.max(error, initial=0.0))
    size = float(np.max(np.abs(value).astype(np.float64), initial=0.0))
    if worst == 0:
        return 0.0
    return worst / size if 0 < size < math.inf else math.inf


def _unit(array: Array) -> float:
    """Half the distance from 1 to the next number: the largest relative error of one rounding."""
    return float(np.finfo(array.dtype).eps) / 2


def _digits(relative: float) -> float:
    return max(-math.log10(relative), 0.0) if relative > 0 else math.inf


def _loss(relative: float, before: float) -> float:
    """The number of digits that the op has lost."""
    if relative <= before or not before:
        return 0.0
    return min(_digits(before) - _digits(relative), _digits(before))


def _number(x: float) -> str:
    return "0" if x == 0 else f"{x:.2g}"


def _digits_text(digits: float) -> str:
    return "all" if math.isinf(digits) else f"{digits:.1f}"
