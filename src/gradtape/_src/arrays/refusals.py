"""Matrices that kernels reject: singular, not positive definite, or not finite ones.

A kernel of the NumPy engine raises. In a compiled program the rejection is a check (arrays/checks.py), and the kernel
of the XLA engine returns where it failed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, numbers

Array = Any


def _refusal(message: str, op: str, which: str = "") -> tuple[int, Rule]:
    """The check of a kernel that rejects matrices: `failed` is one boolean for each of them, or for all."""

    def error(failed: Array) -> Exception:
        position = np.argwhere(failed)[0].tolist()
        where = f" The matrix at position {position} is {which}." if which and position else ""
        return errors.invalid_argument(message + where, op)

    return next(numbers), Rule(lambda xp, failed: failed, error)


_NOT_SUCCESSFUL = "decomposition was not successful. The input might not be valid."
refusals: dict[str, tuple[int, Rule]] = {}
"""The number and the rule of each kernel's check."""

refusals["inv"] = _refusal("Input is not invertible.", "MatrixInverse", "singular")
refusals["solve"] = _refusal("Input matrix is not invertible.", "MatrixSolve", "singular")
refusals["lu"] = _refusal("Input is not invertible.", "Lu")
refusals["cholesky"] = _refusal(
    f"Cholesky {_NOT_SUCCESSFUL} It must be Hermitian and positive definite: adding a small multiple of the identity "
    "often helps.",
    "Cholesky",
)
refusals["eigh"] = refusals["eigvalsh"] = _refusal(
    f"Self-adjoint eigen {_NOT_SUCCESSFUL} It holds nan.", "SelfAdjointEigV2"
)
refusals["eig"] = refusals["eigvals"] = _refusal(f"Eigen {_NOT_SUCCESSFUL} It holds inf or nan.", "Eig")
