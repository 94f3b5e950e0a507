"""`tape.explain(target, sources)`, and the policies for gradients that are None."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradtape._src import nest
from gradtape._src.autodiff.arguments import check_differentiable, components, leaves
from gradtape._src.autodiff.settings import settings
from gradtape._src.call_sites import user_frame
from gradtape._src.inspect.events import Facts
from gradtape._src.inspect.explain.case import Case
from gradtape._src.inspect.explain.explanation import Explanation, Explanations, NoneGradientWarning, merged
from gradtape._src.inspect.explain.finding import find_reason

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape


def explain(tape: Tape, target: Any, sources: Any) -> Any:
    """See `GradientTape.explain`."""
    flat = leaves(sources)
    targets = [part for leaf in leaves(target) for part in components(leaf)]
    check_differentiable("target", targets)
    check_differentiable("sources", flat)
    found = explained(tape, targets, flat, _calling_frame())
    return found[0] if len(flat) == 1 and not nest.is_nested(sources) else Explanations(found, sources)


def _calling_frame() -> FrameType | None:
    """The frame whose names are used; a helper that is hidden in tracebacks is skipped."""
    frame = user_frame()
    while frame is not None and frame.f_locals.get("__tracebackhide__") and frame.f_back is not None:
        frame = frame.f_back
    return frame


def explained(tape: Tape, targets: list[Any], sources: list[Any], frame: FrameType | None) -> list[Explanation]:
    """The explanations for sources, with the names of this frame."""
    facts = Facts(tape)
    return [find_reason(Case(facts, targets, source, frame, i)) for i, source in enumerate(sources)]


def report(tape: Tape, method: str, targets: list[Any], sources: list[Any], lost: list[Any]) -> None:
    """Apply the policies "warn" and "raise" to gradients of None."""
    frame = user_frame()
    caller: FrameType | None = sys._getframe(1)
    level = 1
    while caller is not None and caller is not frame:
        module = str(caller.f_globals.get("__name__", ""))
        if module in ("gradtape._src.autodiff.custom_gradient", "gradtape._src.autodiff.directional"):
            return  # a gradient call of the library itself: recompute_grad needs all arguments, hessian all blocks
        caller, level = caller.f_back, level + 1
    found = explained(tape, targets, lost, frame)
    if policy() == "raise":
        several = "" if len(found) == 1 else f" for {len(found)} of {len(sources)} sources"
        text = "\n".join(str(explanation) for explanation, _ in merged(found))
        raise ValueError(f"GradientTape.{method} has no gradient{several} (the none policy is 'raise').\n{text}")
    for explanation, _ in merged(found):
        warnings.warn(f"GradientTape.{method}: {explanation.one_line}", NoneGradientWarning, stacklevel=level + 1)


def why_none(variables: list[Any], most: int) -> str:
    """Why the last gradient call that gave None gave it for these variables, in lines; empty if not known."""
    tape = None if settings.last_unconnected is None else settings.last_unconnected()
    lost = [] if tape is None else [v for v in variables if getattr(v, "uid", None) in tape._unconnected]
    if tape is None or not lost:
        return ""
    found = merged(explained(tape, list(tape._lost_targets), lost[:_MOST_EXPLAINED], user_frame()))[:most]
    lines = [f"  {explanation.one_line}" for explanation, _ in found]
    rest = len(lost) - sum(count for _, count in found)
    return "\n".join([*lines, f"  … and {rest} more."] if rest > 0 else lines)


_MOST_EXPLAINED = 50
"""The number of variables of which a message of an optimizer looks for the reason."""


def policy() -> str:
    """The reaction to a gradient of None: "none", "warn" or "raise"."""
    return settings.none_policy


def set_policy(value: str) -> None:
    """Set the reaction to a gradient of None."""
    if value not in ("none", "warn", "raise"):
        raise ValueError(f"Unknown none policy: {value!r}. Use 'none' (as in TensorFlow), 'warn' or 'raise'.")
    settings.none_policy = value
