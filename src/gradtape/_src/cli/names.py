"""The names of TensorFlow that gradtape has: whether a name exists, and accepts certain arguments."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import gradtape
from gradtape._src.errors import install
from gradtape._src.hooks import tensorflow_python
from gradtape._src.hooks.tensorflow import internal_names
from gradtape._src.reasons import FIRST_VERSION, RENAMED, reason_within

__all__ = ["MISSING", "NOTE", "SUPPORTED", "Call", "Verdict", "judge"]

SUPPORTED, NOTE, MISSING = "supported", "note", "missing"

_NOT_TENSORFLOWS = frozenset({"_src", "testing"})
"""Modules of gradtape that TensorFlow does not have."""

_PRIVATE = frozenset(("compiler", "core", "python"))
_NOTES = {
    "tf.device": "a GPU needs the extra gradtape[xla]",
    "tf.function": "runs on NumPy; with the extra gradtape[xla], also on XLA",
    "tf.keras": "Keras 3, with the extra gradtape[keras]",
}
_NOTES_BELOW = {
    "tf.keras.optimizers.legacy.": "Keras 3 does not accept it: use tf.keras.optimizers",
}
_ABSENT = object()


class Call(NamedTuple):
    """The arguments of a call of a name: how many by position (None if unknown before run time), which by keyword."""

    positional: int | None
    keywords: tuple[str, ...]


class Verdict(NamedTuple):
    """The verdict on a name."""

    status: str
    why: str


def judge(name: str, call: Call | None = None) -> Verdict:
    """Whether gradtape has a name, written `tf.…`, and takes the arguments of a call.

    >>> judge("tf.nn.relu")
    Verdict(status='supported', why='')
    >>> judge("tf.nn.relu", Call(1, ("inplace",)))
    Verdict(status='note', why="no argument 'inplace' here")
    >>> judge("tf.reduce_men")
    Verdict(status='missing', why='did you mean tf.reduce_mean?')
    >>> judge("tf.log").status
    'missing'
    """
    found, absent = _find(name)
    if isinstance(found, _NeedsKeras):
        return Verdict(NOTE, f"needs Keras 3: {install('keras')}")
    if found is _ABSENT:
        return Verdict(MISSING, _why_missing(name, absent))
    notes = [_NOTES[name]] if name in _NOTES else []
    notes += [note for start, note in _NOTES_BELOW.items() if name.startswith(start)]
    if call is not None:
        notes += _wrong_arguments(found, call)
    return Verdict(NOTE if notes else SUPPORTED, "; ".join(notes))


# -- lookup ------------------------------------------------------------------------------------------------------------
class _NeedsKeras:
    """A name below tf.keras that exists if Keras, which is missing, is installed."""


@cache
def _find(name: str) -> tuple[Any, str]:
    """The object with a name, or `_ABSENT` and the shortest missing part of the name."""
    found: Any = gradtape
    path = "tf"
    if name.startswith("tf.python.") or name == "tf.python":
        return _find_private(name), name
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = _child(found, part)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "keras":
                raise
            return _NeedsKeras(), path
        if found is _ABSENT:
            return _ABSENT, path
    return found, path


def _find_private(name: str) -> Any:
    """The object with a name below `tensorflow.python`, as the alias finds it."""
    found: Any = tensorflow_python.find("")
    for part in name.split(".")[2:]:
        found = getattr(found, part, _ABSENT)
    return found


def _child(parent: Any, name: str) -> Any:
    if name == "__internal__" and (parent is gradtape or parent is gradtape.compat.v2):
        return internal_names()
    if parent is gradtape and name in _NOT_TENSORFLOWS:
        return _ABSENT
    found = getattr(parent, name, _ABSENT)
    if found is _ABSENT and hasattr(parent, "__path__") and parent.__name__ in sys.modules:
        module = f"{parent.__name__}.{name}"
        if importlib.util.find_spec(module) is not None:
            found = importlib.import_module(module)
    if isinstance(found, ModuleType) and not f"{found.__name__}.".startswith(("gradtape.", "keras.")):
        return _ABSENT  # a module that a file of gradtape imports for its own use
    return found


def _namespaces() -> dict[str, Any]:
    return {
        f"tf.{name}": space
        for name, space in vars(gradtape).items()
        if isinstance(space, ModuleType | SimpleNamespace) and name not in _NOT_TENSORFLOWS and not name.startswith("_")
    }


# -- explanations ------------------------------------------------------------------------------------------------------
@cache
def _why_missing(name: str, absent: str) -> str:
    parent, _, leaf = absent.rpartition(".")
    if absent.split(".")[1] in _PRIVATE:
        return "TensorFlow's private code: use its public names"
    plain = name.replace("tf.compat.v1.", "tf.")
    new = RENAMED.get(plain)
    if new is not None:
        return f"TensorFlow 1; since then {new}"
    if FIRST_VERSION.match(absent):
        older = f"tf.compat.v1.{absent.removeprefix('tf.compat.v1.').removeprefix('tf.')}"
        return f"TensorFlow 1; available as {older}"
    why = reason_within(name, absent)
    if why is not None:
        return why
    other = _elsewhere(leaf) if absent.replace("tf.compat.v1.", "tf.") == f"tf.{leaf}" else None
    if other is not None:
        return f"here as {other}"
    close = difflib.get_close_matches(leaf, _public(_find(parent)[0]), n=1, cutoff=0.75)
    return f"did you mean {parent}.{close[0]}?" if close else "not in gradtape"


def _elsewhere(leaf: str) -> str | None:
    """The same name in another namespace: `tf.log` is now `tf.math.log`."""
    homes = sorted(space for space, module in _namespaces().items() if callable(getattr(module, leaf, None)))
    best = [home for home in ("tf.math", "tf.linalg", "tf.nn", "tf.random", "tf.image", "tf.signal") if home in homes]
    return f"{(best + homes)[0]}.{leaf}" if homes and not leaf.startswith("_") else None


def _public(space: Any) -> list[str]:
    return [name for name in dir(space) if not name.startswith("_") and _child(space, name) is not _ABSENT]


def _wrong_arguments(function: Any, call: Call) -> list[str]:
    """The conflict of a call with a function's signature, if there is one."""
    if not callable(function):
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    notes = []
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        known = {p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
        unknown = [name for name in call.keywords if name not in known]
        if unknown:
            notes.append(f"no argument {' or '.join(map(repr, unknown))} here")
    if call.positional is not None and inspect.Parameter.VAR_POSITIONAL not in kinds:
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        room = sum(p.kind in places for p in parameters)
        if call.positional > room:
            notes.append(f"takes {room} positional arguments here, not {call.positional}")
    return notes
