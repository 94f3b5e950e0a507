"""Convergence checks of iterations, also in programs, with an error that suggests what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.tensor import Tensor


def _not_converged(xp: Any, residual: Any, limit: Any, iterations: Any, **_: Any) -> Any:
    return xp.logical_not(residual <= limit)  # NaN has not converged


def _error(residual: Any, limit: Any, iterations: Any, *, what: str, advice: str, measure: str) -> Exception:
    residual, limit = (np.broadcast_to(a, np.broadcast_shapes(residual.shape, limit.shape)) for a in (residual, limit))
    failed = ~(residual <= limit)
    worst = np.argmax(np.where(failed, np.nan_to_num(residual, nan=np.inf), -1.0))
    found, count = float(residual.flat[worst]), int(np.max(iterations))
    batch = f" in {int(failed.sum())} of {failed.size} problems" if failed.size > 1 else ""
    message = (
        f"{what} did not converge{batch}: {measure} is {found:.3g} after {count} iterations, but should be at most "
        f"{float(limit.flat[worst]):.3g}. {advice}"
    )
    return errors.ConvergenceError(None, None, message, residual=found, iterations=count)


_RULE = Rule(_not_converged, _error, always=True, needed=True)


def require_convergence(
    residual: Tensor, limit: Tensor, iterations: Tensor, what: str, advice: str, measure: str = "the residual"
) -> None:
    """Raise a `ConvergenceError` unless every residual is within its limit: now, or when the program runs."""
    verify(_RULE, residual.array, limit.array, iterations.array, what=what, advice=advice, measure=measure)
