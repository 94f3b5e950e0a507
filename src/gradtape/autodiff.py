"""Tapes and accumulators, and solvers whose results have derivatives."""

import typing as _typing

from gradtape._src.solvers.public import (
    ForwardAccumulator as ForwardAccumulator,
    GradientTape as GradientTape,
    __dir__ as __dir__,
)

if _typing.TYPE_CHECKING:
    from gradtape._src.solvers.public import (
        KroneckerFactors as KroneckerFactors,
        Program as Program,
        Solution as Solution,
        eigh as eigh,
        fixed_point as fixed_point,
        implicit as implicit,
        influence as influence,
        kfac_factors as kfac_factors,
        minimize as minimize,
        odeint as odeint,
        root as root,
        soft_rank as soft_rank,
        soft_sort as soft_sort,
        soft_top_k as soft_top_k,
        solve_lp as solve_lp,
        solve_qp as solve_qp,
    )
else:
    from gradtape._src.lazy_names import of_public as _of_public
    from gradtape._src.solvers.public import __getattr__ as _load

    __getattr__ = _of_public(__name__, _load)
