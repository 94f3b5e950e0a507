"""`check_gradients`: compare the derivative of a function with differences. `certify`: determine its accuracy.

Every check uses a random projection of the outputs, L = Re(sum(conj(c) * f(x))), whose gradient is `tape.gradient(f(x),
x, output_gradients=c)`. The gradient function is checked like the function itself: that is the next order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.inspect.rounding.certificate import (
    Certificate as Certificate,
    CertifiedOp as CertifiedOp,
    certify as certify,
)
from gradtape._src.ops import array as shaping
from gradtape._src.tensor import Tensor

__all__ = ["MODES", "Certificate", "CertifiedOp", "certify", "check_gradients"]

MODES = ("reverse", "recorded", "jacobian", "batched", "forward")
"""What `check_gradients` compares (see there)."""

MOST_ELEMENTS = 256
"""The number of elements of larger arguments and outputs that are checked; the seed selects them."""

Function = Callable[..., Any]
Spot = tuple[int, ...]


def check_gradients(
    f: Function,
    *args: Any,
    order: int = 2,
    eps: float | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    modes: Sequence[str] = MODES,
    seed: int = 0,
) -> None:
    """Check the derivatives of `f` at `args`; raises AssertionError naming the check, argument and element that failed.

    Arguments (structures of numbers, arrays, tensors, variables) are checked in float64 or complex128, so `f` must
    compute in the dtype it is given; integers and booleans are passed on and not differentiated. Outputs can be any
    structure. `order` is the highest derivative to check. These are the modes, all of which are checked by default:

        reverse     the gradient against central differences with step `eps` (chosen for each element if None)
        recorded    the gradient under another tape is the same gradient
        jacobian    the Jacobian against one gradient for each element of the outputs
        batched     the same, when outputs are flattened first (which takes other paths through the engine)
        forward     forward mode against reverse mode

    >>> import gradtape as tf
    >>> from gradtape.testing import check_gradients
    >>> check_gradients(lambda x, y: tf.sin(x) * y, [0.1, 0.2], 3.0)
    >>> @tf.custom_gradient
    ... def cube(x):
    ...     return x**3, lambda upstream: upstream * 3 * x
    >>> check_gradients(cube, [2.0], order=1)
    Traceback (most recent call last):
    AssertionError: reverse, order 1: the gradient of argument 0 at [0] is wrong: got 6.8..., expected 13.6...
    """
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise ValueError(
            f"check_gradients supports the modes {', '.join(MODES)}; received {', '.join(map(repr, unknown))}."
        )
    args = tuple(_packed(arg) for arg in args)
    values = [_checkable(leaf) for leaf in nest.flatten(args)]
    places = _places(args)
    floats = [i for i, value in enumerate(values) if value.dtype.kind in "fc"]
    if not floats:
        raise ValueError("check_gradients needs a floating-point or complex argument.")

    def function(*given: Tensor) -> list[Tensor]:
        """f as a function of the floating-point arguments alone, with its floating-point results as a list."""
        leaves: list[Any] = [wrap(value) for value in values]
        for i, tensor in zip(floats, given, strict=True):
            leaves[i] = tensor
        return _floating(f(*nest.pack_sequence_as(args, leaves)))

    problem = _Problem(function, [values[i] for i in floats], [places[i] for i in floats], eps, rtol, atol, seed)
    for level in range(1, order + 1):
        for mode in modes:
            getattr(problem, mode)(level)
        problem = problem.derivative()
        if not problem.coefficients:
            return


class _Problem:
    """A function of floating-point arrays, and the point at which it is checked."""

    def __init__(
        self,
        f: Callable[..., list[Tensor]],
        xs: list[Any],
        places: list[str],
        eps: float | None,
        rtol: float,
        atol: float,
        seed: int,
    ) -> None:
        self.f, self.xs, self.places = f, xs, places
        self.eps, self.rtol, self.atol, self.seed = eps, rtol, atol, seed
        self.random = np.random.default_rng(seed)
        self.coefficients = [_coefficients(y.array, self.random) for y in f(*map(wrap, xs))]
        self._gradients: list[Any] | None = None

    def derivative(self) -> _Problem:
        """The problem of the next order: the gradient as a function of the same arguments."""
        return _Problem(
            lambda *given: [g for g in self.gradient(given) if g is not None],
            self.xs,
            self.places,
            self.eps,
            self.rtol,
            self.atol,
            self.seed + 1,
        )

    def gradient(self, given: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradient of the projection; None if there is no path."""
        with GradientTape() as tape:
            tape.watch(list(given))
            ys = self.f(*given)
        found = tape.gradient(ys, list(given), output_gradients=list(self.coefficients))
        return [None if g is None else convert(g) for g in found]

    def gradients(self) -> list[Any]:
        """The gradient at the point, as arrays: computed once, by a backward pass that is not recorded."""
        if self._gradients is None:
            found = self.gradient([wrap(x) for x in self.xs])
            pairs = zip(found, self.xs, strict=True)
            self._gradients = [np.zeros_like(x) if g is None else g.numpy() for g, x in pairs]
        return self._gradients

    # -- the checks --------------------------------------------------------------------------------------------------
    def reverse(self, level: int) -> None:
        """Compare with central differences."""
        for i, got in enumerate(self.gradients()):
            expected, spots = self._numeric(i)
            self._compare(f"reverse, order {level}", "gradient", i, got, expected, spots)

    def _numeric(self, position: int) -> tuple[Any, list[Spot]]:
        """dL/da + i dL/db by central differences, and the elements for which it was computed."""
        x = self.xs[position]
        result = np.full(x.shape, np.nan, x.dtype)
        spots = _some(x.shape, self.random)
        for spot in spots:
            result[spot] = self._difference(position, spot, 1.0)
            if x.dtype.kind == "c":
                result[spot] += 1j * self._difference(position, spot, 1j)
        return result, spots

    def _difference(self, position: int, spot: Spot, direction: complex) -> float:
        x = self.xs[position]
        step = self.eps or np.finfo(np.float64).eps ** (1 / 3) * max(1.0, abs(x[spot]))
        sides = []
        for side in (step, -step):
            moved = x.copy()
            moved[spot] += side * direction
            given = [wrap(moved if i == position else other) for i, other in enumerate(self.xs)]
            sides.append((self._projection(given), (moved[spot] - x[spot]) / direction))
        (above, up), (below, down) = sides
        return float((above - below) / np.real(up - down))

    def _projection(self, given: list[Tensor]) -> float:
        pairs = zip(self.f(*given), self.coefficients, strict=True)
        return sum(float(np.real(np.sum(np.conj(c) * y.array))) for y, c in pairs)

    def recorded(self, level: int) -> None:
        """Check that a backward pass recorded by another tape computes the same values as an unrecorded one."""
        given = [wrap(x) for x in self.xs]
        with GradientTape() as outer:
            outer.watch(given)
            found = self.gradient(given)
        for i, (got, expected) in enumerate(zip(found, self.gradients(), strict=True)):
            if got is not None:
                self._compare(f"recorded, order {level}", "gradient under an outer tape", i, got.numpy(), expected)

    def jacobian(self, level: int) -> None:
        """Compare Jacobians with loops, also the derivative of one under another tape."""
        self._jacobians(f"jacobian, order {level}", lambda y: y)

    def batched(self, level: int) -> None:
        """Check Jacobians of outputs that have no leading axis of their own."""
        self._jacobians(f"batched, order {level}", lambda y: shaping.reshape(y, shape=(1, y.array.size)))

    def _jacobians(self, check: str, form: Callable[[Tensor], Tensor]) -> None:
        given = [wrap(x) for x in self.xs]
        with GradientTape() as outer:
            outer.watch(given)
            with GradientTape(persistent=True) as tape:
                tape.watch(given)
                ys = [form(_few(y)) for y in self.f(*given)]
            recorded: list[Any] = [tape.jacobian(y, given, unconnected_gradients="zero") for y in ys]
        for y, under_outer in zip(ys, recorded, strict=True):
            found: Any = tape.jacobian(y, given, unconnected_gradients="zero")
            rows = [self._row(tape, y, given, spot) for spot in np.ndindex(y.array.shape)]
            for i, x in enumerate(self.xs):
                expected = np.reshape([row[i] for row in rows], (*y.array.shape, *x.shape))
                self._compare(check, "Jacobian", i, found[i].numpy(), expected)
                self._compare(check, "Jacobian under an outer tape", i, under_outer[i].numpy(), expected)

    def _row(self, tape: GradientTape, y: Tensor, given: list[Tensor], spot: Spot) -> list[Any]:
        hot = np.zeros(y.array.shape, y.array.dtype)
        hot[spot] = 1
        return [np.asarray(convert(g)) for g in tape.gradient(y, given, hot, unconnected_gradients="zero")]

    def forward(self, level: int) -> None:
        """Check <c, J t> = <J* c, t> for random tangents t of one argument at a time."""
        from gradtape._src.autodiff.forward_accumulator import ForwardAccumulator

        for i, x in enumerate(self.xs):
            given = [wrap(x) for x in self.xs]
            tangent = _coefficients(x, self.random)
            with ForwardAccumulator(given[i], wrap(tangent)) as accumulator:
                ys = self.f(*given)
            found = [accumulator.jvp(y) for y in ys]
            got = sum(
                float(np.real(np.sum(np.conj(c) * np.asarray(convert(t)))))
                for t, c in zip(found, self.coefficients, strict=True)
                if t is not None
            )
            expected = float(np.real(np.sum(np.conj(self.gradients()[i]) * tangent)))
            # The sum may cancel: compare with the magnitude of its terms.
            scale = float(np.sum(np.abs(self.gradients()[i] * tangent)))
            if not _close(got, expected, self.rtol * scale + self.atol):
                raise AssertionError(
                    f"forward, order {level}: the derivative along a tangent of {self.places[i]} differs from "
                    f"reverse mode's: got {got!r}, expected {expected!r}"
                )

    def _compare(
        self, check: str, what: str, position: int, got: Any, expected: Any, spots: Sequence[Spot] | None = None
    ) -> None:
        place = self.places[position]
        if got.shape != expected.shape or got.dtype != self.xs[position].dtype:
            raise AssertionError(
                f"{check}: the {what} of {place} has shape {got.shape} and dtype {got.dtype}, "
                f"expected {expected.shape} and {self.xs[position].dtype}"
            )
        wrong = [
            spot
            for spot in (np.ndindex(expected.shape) if spots is None else spots)
            if not _close(got[spot], expected[spot], self.atol + self.rtol * np.abs(expected[spot]))
        ]
        if wrong:
            spot = max(wrong, key=lambda s: _gap(got[s], expected[s]))
            where = f"[{', '.join(map(str, spot))}]"
            raise AssertionError(
                f"{check}: the {what} of {place} at {where} is wrong: got {got[spot]}, expected {expected[spot]} "
                f"({len(wrong)} of {len(spots) if spots is not None else expected.size} elements differ)"
            )


# -- helpers ---------------------------------------------------------------------------------------------------------
def _packed(arg: Any) -> Any:
    """Convert lists of plain numbers to arrays; other lists are structures."""
    if isinstance(arg, (list, tuple)) and all(isinstance(leaf, (int, float, complex)) for leaf in nest.flatten(arg)):
        return np.array(arg)
    return arg


def _checkable(leaf: Any) -> Any:
    """An argument as a new array, in double precision if it is floating."""
    value = np.array(leaf if isinstance(leaf, (int, float, complex)) else convert(leaf).array)
    if value.dtype.kind in "fcV":  # bfloat16 has kind V
        value = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return value


def _places(args: tuple[Any, ...]) -> list[str]:
    """A name for each leaf of the arguments: the argument, and the part of it."""
    names = []
    for i, arg in enumerate(args):
        count = len(nest.flatten(arg))
        names.extend([f"argument {i}"] if count == 1 else [f"argument {i}, part {k}," for k in range(count)])
    return names


def _floating(result: Any) -> list[Tensor]:
    tensors = [convert(leaf) for leaf in nest.flatten(result) if leaf is not None]
    return [t for t in tensors if t.array.dtype.kind in "fc"]


def _coefficients(like: Any, random: np.random.Generator) -> Any:
    """Random numbers away from zero, so that every element contributes to a projection."""
    part = random.uniform(0.5, 1.5, like.shape) * random.choice([-1.0, 1.0], like.shape)
    if like.dtype.kind == "c":
        part = part + 1j * random.uniform(0.5, 1.5, like.shape) * random.choice([-1.0, 1.0], like.shape)
    return np.asarray(part, like.dtype)


def _some(shape: tuple[int, ...], random: np.random.Generator) -> list[Spot]:
    spots = list(np.ndindex(shape))
    if len(spots) <= MOST_ELEMENTS:
        return spots
    return [spots[i] for i in sorted(random.choice(len(spots), MOST_ELEMENTS, replace=False))]


def _few(y: Tensor) -> Tensor:
    """The tensor, or its first elements if a row for each element would be too many."""
    if y.array.size <= MOST_ELEMENTS:
        return y
    flat = shaping.reshape(y, shape=(y.array.size,))
    beginning: Tensor = shaping.getitem(flat, index=(slice(MOST_ELEMENTS),))
    return beginning


def _close(got: Any, expected: Any, tolerance: float) -> bool:
    if np.isfinite(got) and np.isfinite(expected):
        return bool(abs(got - expected) <= tolerance)
    return bool(got == expected or (np.isnan(got) and np.isnan(expected)))


def _gap(got: Any, expected: Any) -> float:
    gap = float(abs(got - expected))
    return gap if np.isfinite(gap) else float("inf")
