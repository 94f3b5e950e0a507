"""`tape.explain(target, sources)`: why a source has a gradient, or has none, and what to do about it."""

from gradtape._src.inspect.explain.explanation import (
    NO_SOURCES,
    Explanation,
    Explanations,
    NoneGradientWarning,
    Reason,
    Step,
)
from gradtape._src.inspect.explain.requests import explain, explained, policy, report, set_policy, why_none
from gradtape._src.inspect.explain.words import INSTEAD, dtype_of_numpy, shown_op, tensor_function

__all__ = [
    "INSTEAD",
    "NO_SOURCES",
    "Explanation",
    "Explanations",
    "NoneGradientWarning",
    "Reason",
    "Step",
    "dtype_of_numpy",
    "explain",
    "explained",
    "policy",
    "report",
    "set_policy",
    "shown_op",
    "tensor_function",
    "why_none",
]
