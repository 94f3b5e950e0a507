"""Initial value problems y' = func(t, y), differentiated through the steps or by the adjoint equation.

Both are recorded as one op. The discrete adjoint saves the state after each step; in reverse order, it recomputes each
step to differentiate it. The continuous adjoint saves only the results, and integrates the adjoint equation in reverse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.one_op import captured, one_op
from gradtape._src.conversion import convert
from gradtape._src.core import tape as stack
from gradtape._src.ops.array import identity
from gradtape._src.solvers.convergence import require_convergence
from gradtape._src.solvers.implicit import check_choice
from gradtape._src.solvers.runge_kutta import (
    Field,
    classic_step,
    dormand_prince_step,
    interpolated,
    next_size,
    starting_size,
)
from gradtape._src.solvers.vectors import (
    Layout,
    as_tuple,
    check_not_negative,
    check_whole,
    differentiable_leaves,
    length,
)
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.indexing import searchsorted
from gradtape._src.tf.math import is_finite, logical_and, minimum, reduce_all, reduce_sum
from gradtape._src.tf.shaping import repeat
from gradtape._src.tf.tensor_array import TensorArray
from gradtape._src.variable import Variable, read

METHODS = ("dopri5", "rk4")
ADJOINTS = ("discrete", "continuous")

_TOLERANCES = {2: (1e-2, 1e-3), 4: (1e-4, 1e-6), 8: (1e-7, 1e-9)}
"""The default relative and absolute tolerances of a step, by the itemsize of the dtype."""


class Options(NamedTuple):
    """The arguments of `odeint` that control the integration."""

    rtol: float
    atol: float
    method: str
    max_steps: int
    substeps: int


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "dopri5",
    adjoint: str = "discrete",
    max_steps: int = 1000,
    substeps: int = 1,
) -> Any:
    """Integrate `y' = func(t, y, *args)` from `y0` at `t[0]`, and return y at all times in `t`.

    The result can be differentiated, to any order and in both modes, with respect to `y0`, `t`, `args` and the tensors
    and variables that `func` closes over. All steps together are one op.

    Args:
      func: A function that returns tensors with the structure and shapes of `y0`.
      y0: The state at the first time: a tensor, or a structure of tensors.
      t: At least two times, increasing or decreasing.
      args: A tuple of further arguments of `func` (a single argument can be passed alone, as in SciPy).
      rtol: The relative error of a step of `"dopri5"`; by default 1e-7 for float64, 1e-4 for float32 and 1e-2 for half
        precision.
      atol: The absolute error of a step; by default 1e-9 for float64, 1e-6 for float32 and 1e-3 for half precision.
      method: `"dopri5"`, the Dormand-Prince pair of orders 5 and 4 with adaptive steps and interpolation between them,
        or `"rk4"`, the classic method with `substeps` equal steps between two times.
      adjoint: `"discrete"` differentiates the steps that were taken: the derivatives are exact for the returned values,
        and the state after each step is saved. `"continuous"` integrates the adjoint equation backward and saves only
        the result; the derivatives are as accurate as the integration.
      max_steps: The number of steps after which `"dopri5"` raises `tf.errors.ConvergenceError`. A compiled function
        reserves memory for all of them.
      substeps: The number of steps of `"rk4"` between two times.

    >>> import gradtape as tf
    >>> rate = tf.Variable(0.5, dtype=tf.float64)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.autodiff.odeint(lambda t, y: -rate * y, tf.constant(2.0, tf.float64), [0.0, 1.0])
    >>> y.numpy().round(6).tolist(), tape.jacobian(y, rate).numpy().round(6).tolist()
    ([2.0, 1.213061], [0.0, -1.213061])
    """
    check_choice("method", method, METHODS)
    check_choice("adjoint", adjoint, ADJOINTS)
    if not callable(func):
        raise TypeError(f"func should be callable: received {func!r}.")
    check_whole("max_steps", max_steps, 1)
    check_whole("substeps", substeps, 1)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None:
            check_not_negative(name, value)
    layout = Layout(y0, name="y0")
    relative, absolute = _TOLERANCES[layout.dtype.size]
    options = Options(
        relative if rtol is None else float(rtol),
        absolute if atol is None else float(atol),
        method,
        max_steps,
        substeps,
    )
    times = _times(t, layout)
    inputs, places, leaves = differentiable_leaves(as_tuple(args))

    def field(t: Tensor, y: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        return layout.ravel(func(t, layout.unravel(y), *nest.pack_sequence_as(as_tuple(args), given)))

    start = layout.ravel(nest.map_structure(convert, y0))
    integrate = _discrete if adjoint == "discrete" else _continuous
    ys = integrate(field, start, times, inputs, options)
    count = times.shape[0]
    rows = Layout(nest.map_structure(lambda s: array.zeros([count, *convert(s).shape], layout.dtype), y0), 1)
    return rows.unravel(ys)


def _times(t: Any, layout: Layout) -> Tensor:
    times = convert(t) if isinstance(t, (Tensor, Variable)) else convert(np.asarray(t))
    if not isinstance(t, (Tensor, Variable)):
        if not (times.dtype.is_floating or times.dtype.is_integer):
            raise TypeError(f"t must consist of real numbers; received {times.dtype.name}.")
        times = array.cast(times, layout.dtype)
    if times.dtype != layout.dtype:
        raise ValueError(f"t must have the dtype of y0, {layout.dtype.name}; received {times.dtype.name}.")
    if len(times.shape) != 1 or times.array.shape[0] < 2:
        raise ValueError(f"t must be a vector of at least two times; received the shape {times.shape}.")
    if is_known(times):
        steps = np.diff(np.asarray(times.array))
        if not ((steps > 0).all() or (steps < 0).all()) or not np.isfinite(steps).all():
            raise ValueError(
                "The times in t must be finite, and strictly increasing or strictly decreasing; received "
                f"{np.asarray(times.array)}."
            )
    return times


# -- all rules ---------------------------------------------------------------------------------------------------------
class _Sources:
    """The tensors that a field depends on besides t and y: its arguments, and those that it captures."""

    def __init__(self, field: Field, t: Tensor, y: Tensor, inputs: Sequence[Tensor]) -> None:
        self.count = len(inputs)
        self.tensors, self.variables = captured(lambda: field(identity(t), identity(y), list(inputs)), inputs, y)

    def recorded(self) -> list[Tensor]:
        """The inputs of the record for the arguments."""
        return [*self.tensors, *[read(v) for v in self.variables]]

    def of(self, own: list[Tensor]) -> list[Any]:
        """All tensors whose gradients are wanted, given copies of the arguments."""
        return [*own, *self.tensors, *self.variables]


def _zeros_of(source: Any) -> Tensor:
    value = read(source) if isinstance(source, Variable) else source
    return array.zeros_like(value)


# -- the discrete adjoint ---------------------------------------------------------------------------------------------
def _discrete(field: Field, y0: Tensor, times: Tensor, inputs: list[Tensor], options: Options) -> Tensor:
    sources = _Sources(field, times[0], y0, inputs)
    if options.method == "rk4":
        starts, sizes = _equal_steps(times, options.substeps)
        with stack.use_recorders(()):
            states = _classic_states(field, y0, starts, sizes, inputs)
        count = array.constant(length(starts, 0))
        found = _as_steps(field, classic_step, sources, [y0, starts, sizes, count, *inputs], [states])
        return found[0][:: options.substeps]
    with stack.use_recorders(()):
        shares, parts, states, details, count = _adaptive(field, y0, times, inputs, options)
    first, span = times[0], times[-1] - times[0]
    starts, sizes = first + shares * span, parts * span
    states, details = _as_steps(
        field, dormand_prince_step, sources, [y0, starts, sizes, count, *inputs], [states, details]
    )
    with stack.use_recorders(()):
        last = count - 1
        place = minimum(searchsorted(shares[: length(shares, 0)], (times - first) / span, side="right") - 1, last)
    return interpolated(states, details, starts, sizes, place, times)


def _equal_steps(times: Tensor, substeps: int) -> tuple[Tensor, Tensor]:
    """The starts and lengths of steps of equal size."""
    lengths = (times[1:] - times[:-1]) / substeps
    begun = times[:-1, None] + lengths[:, None] * array.range(substeps, dtype=times.dtype)
    return array.reshape(begun, [-1]), repeat(lengths, substeps, axis=0)


def _classic_states(field: Field, y: Tensor, starts: Tensor, sizes: Tensor, inputs: list[Tensor]) -> Tensor:
    count = length(starts, 0)
    kept = TensorArray(y.dtype, size=count + 1, element_shape=y.shape, clear_after_read=False).write(0, y)

    def body(i: Tensor, y: Tensor, kept: Any) -> Any:
        y, _ = classic_step(field, starts[i], sizes[i], y, inputs)
        return i + 1, y, kept.write(i + 1, y)

    *_, kept = while_loop(lambda i, y, kept: i < count, body, (array.constant(0), y, kept))
    found: Tensor = kept.stack()
    finite = reduce_sum(array.cast(reduce_all(is_finite(found[1:]), 1), found.dtype))
    left, steps = 1.0 - finite / float(count), array.cast(finite, "int32")
    require_convergence(left, array.zeros_like(left), steps, "tf.autodiff.odeint", _ADVICE_FOR_EQUAL_STEPS, _MEASURE)
    return found


class _Trial(NamedTuple):
    """The state of the adaptive loop; times are fractions of the whole interval."""

    share: Tensor
    size: Tensor
    y: Tensor
    slope: Tensor
    accepted: Tensor
    tried: Tensor


def _adaptive(field: Field, y0: Tensor, times: Tensor, inputs: list[Tensor], options: Options) -> tuple[Tensor, ...]:
    """Take steps with small errors: their starts and lengths, the states, and the data for interpolation."""
    first, span = times[0], times[-1] - times[0]

    def scaled(s: Tensor, y: Tensor, given: Sequence[Tensor]) -> Tensor:
        return span * field(first + s * span, y, given)

    zero = array.zeros_like(first)
    slope = scaled(zero, y0, inputs)
    size = starting_size(scaled, y0, slope, inputs, options.rtol, options.atol)
    trial = _Trial(zero, size, y0, slope, array.constant(0), array.constant(0))

    def unfinished(trial: _Trial, *_: Any) -> Tensor:
        going = logical_and(trial.share < 1.0, trial.tried < 2 * options.max_steps)
        return logical_and(going, logical_and(trial.accepted < options.max_steps, trial.size > 0))

    def body(trial: _Trial, *buffers: Any) -> Any:
        return _tried(scaled, trial, inputs, options, buffers)

    shares, parts, states, details = _buffers(y0, options.max_steps)
    trial, *buffers = while_loop(unfinished, body, (trial, shares, parts, states.write(0, y0), details))
    require_convergence(
        1.0 - trial.share,
        zero,
        trial.tried,
        "tf.autodiff.odeint",
        _ADVICE,
        measure=_MEASURE,
    )
    return *_filled([buffer.stack() for buffer in buffers], trial.accepted, options.max_steps), trial.accepted


def _tried(field: Field, trial: _Trial, inputs: list[Tensor], options: Options, buffers: Sequence[Any]) -> Any:
    """Try one more step, which is accepted if its error is small."""
    left = 1.0 - trial.share
    size = array.where(trial.size * 1.0001 >= left, left, trial.size)
    y, detail, error, slope = dormand_prince_step(
        field, trial.share, size, trial.y, inputs, slope=trial.slope, tolerances=(options.rtol, options.atol)
    )
    good = error <= 1.0
    shares, parts, states, details = buffers
    at = trial.accepted  # the next step overwrites a rejected one
    written = shares.write(at, trial.share), parts.write(at, size), states.write(at + 1, y), details.write(at, detail)
    done = array.where(size >= left, array.ones_like(left), trial.share + size)
    after = _Trial(
        array.where(good, done, trial.share),
        next_size(size, error),
        array.where(good, y, trial.y),
        array.where(good, slope, trial.slope),
        trial.accepted + array.cast(good, "int32"),
        trial.tried + 1,
    )
    return after, *written


def _filled(stacked: list[Tensor], count: Tensor, most: int) -> list[Tensor]:
    """The used part of buffers; in a program all of it, with unused entries after the last time."""
    shares, parts, states, details = stacked
    if current_graph() is None:
        n = int(count)
        return [shares[:n], parts[:n], states[: n + 1], details[:n]]
    used = array.range(most) < count
    return [
        array.where(used, shares, 2.0),
        array.where(used, parts, 0.0),
        array.where(array.concat([used[:1], used], 0)[:, None], states, 0.0),
        array.where(used[:, None, None], details, 0.0),
    ]


def _buffers(y: Tensor, most: int) -> list[Any]:
    traced = current_graph() is not None
    size, n = (most if traced else 0), length(y)
    shapes = [(size, ()), (size, ()), (size + 1, (n,)), (size, (3, n))]
    return [
        TensorArray(y.dtype, size=count, dynamic_size=not traced, element_shape=shape, clear_after_read=False)
        for count, shape in shapes
    ]


_MEASURE = "the fraction of the interval that is left"
_ADVICE_FOR_EQUAL_STEPS = (
    "The result is not finite. Take shorter steps (substeps), or method='dopri5', which adapts them. If y grows "
    "without bound, no method finishes."
)
_ADVICE = (
    "Allow more steps (max_steps) or larger errors (rtol, atol). If the equation is stiff, or y grows without "
    "bound, explicit methods do not finish."
)


def _as_steps(
    field: Field,
    step: Callable[..., Any],
    sources: _Sources,
    inputs: list[Tensor],
    outputs: list[Tensor],
) -> tuple[Tensor, ...]:
    """Record the states after all steps as one op, whose vjp runs through the steps in reverse."""
    if stack.active_stack() is None:
        return tuple(outputs)
    vjp = functools.partial(_vjp_of_steps, field, step, sources)
    return one_op([*inputs, *sources.recorded()], outputs, vjp, "odeint")


def _vjp_of_steps(
    field: Field,
    step: Callable[..., Any],
    sources: _Sources,
    inputs: list[Tensor],
    outputs: list[Tensor],
    g: list[Tensor],
    needed: list[bool],
) -> list[Any]:
    y0, starts, sizes, count, *rest = inputs
    own = [identity(t) for t in rest[: sources.count]]
    wanted = [i for i, need in enumerate(needed[4:]) if need]
    chosen = [sources.of(own)[i] for i in wanted]
    states = outputs[0]
    total = length(starts, 0)
    of_times = needed[1] or needed[2]

    def body(i: Tensor, gy: Tensor, grads: Any, by_start: Any, by_size: Any) -> Any:
        i = i - 1
        y, start, size = identity(states[i]), identity(starts[i]), identity(sizes[i])
        with Tape(watch_accessed_variables=False) as tape:
            tape.watch([y, *([start, size] if of_times else []), *chosen])
            new, detail = step(field, start, size, y, own)[:2]
        targets, seeds = [new], [gy + g[0][i + 1]]
        if len(g) > 1:
            targets, seeds = [new, detail], [*seeds, g[1][i]]
        of_y, of_start, of_size, *found = tape.gradient(
            targets, [y, start, size, *chosen], output_gradients=seeds, unconnected_gradients="zero"
        )
        if of_times:
            by_start, by_size = by_start.write(i, of_start), by_size.write(i, of_size)
        return i, of_y, [a + array.convert_to_tensor(b) for a, b in zip(grads, found, strict=True)], by_start, by_size

    zeros = [_zeros_of(source) for source in chosen]
    arrays = [TensorArray(y0.dtype, size=total, element_shape=(), clear_after_read=False) for _ in range(2)]
    start = (count, array.zeros_like(y0), zeros, *arrays)
    _, gy, grads, by_start, by_size = while_loop(lambda i, *_: i > 0, body, start)
    gradients: list[Any] = [None] * len(inputs)
    gradients[0] = gy + g[0][0]
    if of_times:
        used = array.range(total) < count
        for place, found in ((1, by_start), (2, by_size)):
            gradients[place] = array.where(used, found.stack(), array.zeros_like(starts))
    for i, gradient in zip(wanted, grads, strict=True):
        gradients[4 + i] = gradient
    return gradients


# -- the continuous adjoint -------------------------------------------------------------------------------------------
def _continuous(field: Field, y0: Tensor, times: Tensor, inputs: list[Tensor], options: Options) -> Tensor:
    sources = _Sources(field, times[0], y0, inputs)
    with stack.use_recorders(()):
        ys = _discrete(field, y0, times, inputs, options)
    if stack.active_stack() is None:
        return ys
    vjp = functools.partial(_vjp_by_adjoint, field, sources, options)
    return one_op([y0, times, *inputs, *sources.recorded()], [ys], vjp, "odeint")[0]


def _vjp_by_adjoint(
    field: Field,
    sources: _Sources,
    options: Options,
    inputs: list[Tensor],
    outputs: list[Tensor],
    g: list[Tensor],
    needed: list[bool],
) -> list[Any]:
    """Integrate a' = -a ∂f/∂y from each time to the previous one, where the cotangent of y is added to a."""
    y0, times, *rest = inputs
    own = [identity(t) for t in rest[: sources.count]]
    wanted = [i for i, need in enumerate(needed[2:]) if need]
    chosen = [sources.of(own)[i] for i in wanted]
    ys, by_time = outputs[0], []
    a, grads = array.zeros_like(y0), [_zeros_of(source) for source in chosen]

    def backwards(t: Tensor, state: Any, *given: Tensor) -> Any:
        y, a, *_ = state
        sources_here = [sources.of(list(given))[i] for i in wanted]
        with Tape(watch_accessed_variables=False) as tape:
            y = identity(y)
            tape.watch([y, *sources_here])
            slope = field(t, y, list(given))
        of_y, *found = tape.gradient(slope, [y, *sources_here], output_gradients=a, unconnected_gradients="zero")
        return [slope, -of_y, *[-array.convert_to_tensor(x) for x in found]]

    # Not a loop of the program: tracing the derivative of its body would trace such a loop again, without end.
    for j in range(length(times, 0) - 1, 0, -1):
        by_time.append(reduce_sum(g[0][j] * field(times[j], ys[j], own)))
        a = a + g[0][j]
        found = odeint(
            backwards,
            [ys[j], a, *grads],
            array.stack([times[j], times[j - 1]]),
            tuple(own),
            adjoint="continuous",
            **options._asdict(),
        )
        _, a, *grads = [leaf[1] for leaf in found]
    by_time.append(-reduce_sum(a * field(times[0], y0, own)))
    gradients: list[Any] = [a + g[0][0], array.stack(by_time[::-1]), *[None] * len(rest)]
    for i, gradient in zip(wanted, grads, strict=True):
        gradients[2 + i] = gradient
    return gradients


__all__ = ["odeint"]
