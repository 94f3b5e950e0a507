"""Tapes and accumulators, and solvers whose results have derivatives."""

from __future__ import annotations

from gradtape._src.autodiff.forward_accumulator import ForwardAccumulator
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.lazy_names import getattr_of, homes_of

_LAZY = homes_of(
    ("solvers.curvature", "KroneckerFactors influence kfac_factors"),
    ("solvers.eigen", "eigh"),
    ("solvers.equations", "Solution fixed_point minimize root"),
    ("solvers.implicit", "implicit"),
    ("solvers.ode", "odeint"),
    ("solvers.programs", "Program solve_lp solve_qp"),
    ("solvers.sorting", "soft_rank soft_sort soft_top_k"),
)

__getattr__ = getattr_of(__name__, _LAZY)

__all__ = ["ForwardAccumulator", "GradientTape", *_LAZY]


def __dir__() -> list[str]:
    return list(__all__)
