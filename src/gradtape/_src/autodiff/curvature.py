"""Products with Gauss-Newton matrices, and estimates of the diagonal and the trace of Hessians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of
from gradtape._src.autodiff.directional import direction, recorded_gradient, second_tape
from gradtape._src.autodiff.rows import only_tensor, or_zeros
from gradtape._src.conversion import convert, wrap

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape

ZERO = UnconnectedGradients.ZERO


class Estimate(NamedTuple):
    """An estimate, a number or a structure of tensors, with its standard error."""

    value: Any
    error: Any


def ggn_vp(tape: Tape, target: Any, outputs: Any, sources: Any, vectors: Any, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.ggn_vp`."""
    recording = tape._require_record()
    nest.assert_same_structure(sources, vectors)
    flat = [only_tensor("sources", s) for s in nest.flatten(sources)]
    middle = [only_tensor("outputs", t) for t in nest.flatten(outputs)]
    target = only_tensor("target", target)
    directions = [direction(s, v) for s, v in zip(flat, nest.flatten(vectors), strict=True)]
    with tape._gradient_call("ggn_vp"):
        second, gradients = second_tape(tape, recording, target, middle)
    if all(g is None for g in gradients):
        raise ValueError(
            "The target of ggn_vp does not depend on the outputs. Pass tensors that the tape recorded between the "
            "sources and the target, such as the predictions of a model."
        )
    pushed = second.jvp(middle, flat, directions, unconnected_gradients=ZERO)
    known = [g for g in gradients if g is not None]
    curved = iter(second.jvp(known, middle, pushed, unconnected_gradients=ZERO))
    seeds = [_zeros_of(t) if g is None else next(curved) for g, t in zip(gradients, middle, strict=True)]
    found = second.gradient(middle, flat, output_gradients=seeds)
    results = [or_zeros(g, (), s, policy) if g is None else g for g, s in zip(found, flat, strict=True)]
    return nest.pack_sequence_as(sources, results)


def _zeros_of(tensor: Any) -> Any:
    """Zeros with the shape and dtype of a tensor."""
    value = array_of(tensor)
    return wrap(namespace_of(value).zeros_like(value))


# -- estimates -------------------------------------------------------------------------------------------------------
class HessianProducts:
    """Products of the Hessian of a target with float64 vectors on the host."""

    def __init__(self, tape: Tape, target: Any, sources: Any, method: str) -> None:
        if current_graph() is not None:
            raise RuntimeError(f"{method} needs concrete values: call it outside tf.function.")
        self.second, self.gradients, self.flat = recorded_gradient(tape, target, sources, method)
        for source in self.flat:
            if array_of(source).dtype.kind == "c":
                raise TypeError(f"{method} needs real sources; received {source.dtype.name}.")
        self.structure = sources
        self.shapes = [tuple(array_of(s).shape) for s in self.flat]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def __call__(self, vector: Any) -> Any:
        known = [g for g in self.gradients if g is not None]
        found = iter(self.second.jvp(known, self.flat, self.tensors(vector), unconnected_gradients=ZERO))
        return self.raveled([None if g is None else next(found) for g in self.gradients])

    def raveled(self, parts: list[Any]) -> Any:
        """Tensors for the sources, raveled into one vector; zeros for None."""
        rows = [
            np.zeros(size) if part is None else np.asarray(convert(part).numpy(), np.float64).reshape(-1)
            for part, size in zip(parts, self.sizes, strict=True)
        ]
        return np.concatenate([np.zeros(0), *rows])

    def tensors(self, vector: Any) -> list[Any]:
        """Split a vector into tensors with the shapes of the sources."""
        pieces = np.split(vector, np.cumsum(self.sizes))[:-1]  # the last piece is empty
        return [
            wrap(p.reshape(shape).astype(source.dtype.as_numpy_dtype))
            for p, shape, source in zip(pieces, self.shapes, self.flat, strict=True)
        ]

    def packed(self, vector: Any) -> Any:
        """The parts of a vector in the structure of the sources."""
        return nest.pack_sequence_as(self.structure, self.tensors(vector))


def _signs(rng: np.random.Generator, size: int) -> Any:
    return rng.integers(0, 2, size) * 2.0 - 1.0


def _check_samples(samples: Any, seed: Any) -> None:
    if isinstance(samples, bool) or not isinstance(samples, (int, np.integer)) or samples < 2:
        raise ValueError(f"A standard error needs at least 2 samples; received samples={samples!r}.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a nonnegative integer; received {seed!r}.")


def hessian_diagonal(tape: Tape, target: Any, sources: Any, samples: int, seed: int) -> Estimate:
    """See `GradientTape.hessian_diagonal`."""
    _check_samples(samples, seed)
    products, rng = HessianProducts(tape, target, sources, "hessian_diagonal"), np.random.default_rng(seed)
    rows = np.stack([z * products(z) for z in (_signs(rng, products.size) for _ in range(samples))])
    error = rows.std(0, ddof=1) / math.sqrt(samples)
    return Estimate(products.packed(rows.mean(0)), products.packed(error))


def hessian_trace(tape: Tape, target: Any, sources: Any, samples: int, method: str, seed: int) -> Estimate:
    """See `GradientTape.hessian_trace`."""
    _check_samples(samples, seed)
    if method not in ("hutchinson", "hutch++"):
        raise ValueError(f"method must be 'hutchinson' or 'hutch++'; received {method!r}.")
    products, rng = HessianProducts(tape, target, sources, "hessian_trace"), np.random.default_rng(seed)
    if method == "hutchinson":
        values = np.array([z @ products(z) for z in (_signs(rng, products.size) for _ in range(samples))])
        return Estimate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(samples)))
    return _hutch_plus_plus(products, products.size, samples, rng)


def _hutch_plus_plus(product: Callable[[Any], Any], size: int, samples: int, rng: np.random.Generator) -> Estimate:
    """A third of the products finds the largest directions, whose part is exact; the others estimate the rest."""
    third = max(1, min(samples // 3, size))
    sketch = np.stack([product(_signs(rng, size)) for _ in range(third)], 1)
    basis = np.linalg.qr(sketch)[0]
    exact = sum(float(q @ product(q)) for q in basis.T)
    remaining = max(2, samples - 2 * third)
    values = []
    for _ in range(remaining):
        z = _signs(rng, size)
        z = z - basis @ (basis.T @ z)
        values.append(float(z @ product(z)))
    rest = np.array(values)
    return Estimate(exact + float(rest.mean()), float(rest.std(ddof=1) / math.sqrt(remaining)))
