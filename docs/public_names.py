"""The public names of gradtape, by page of the reference, and what each entry of the reference says.

A function that has several names (`tf.tanh`, `tf.math.tanh`, `tf.nn.tanh`) is described once, under the first name. The
site renders the entries with mkdocstrings: docs/griffe_extension.py passes them on as objects of griffe.
"""

from __future__ import annotations

import enum
import fnmatch
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import gradtape
import gradtape.testing
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.recording_tape import RecordingTape
from gradtape._src.checkpoint import checkpoint, reading, state
from gradtape._src.inspect import explain
from gradtape._src.tf import parsing, records, sequences
from gradtape._src.variable.slices import IndexedUpdates

HERE = Path(__file__).parent
ROOT = HERE.parent


class Page(NamedTuple):
    """A directive on a page: the file, the name after `:::`, and what it stands for, as (name, object)."""

    file: str
    name: str
    members: list[tuple[str, Any]]


# -- what is public --------------------------------------------------------------------------------------------------
RESULTS: dict[str, Any] = {
    "Explanation": explain.Explanation,
    "Explanations": explain.Explanations,
    "Reason": explain.Reason,
    "LoadStatus": checkpoint.LoadStatus,
    "CheckpointReader": reading.CheckpointReader,
    "CheckpointState": state.CheckpointState,
}
"""Classes of results, which have no public name: the pages call them `tf._results.NAME`."""

_FIRST = ("tf.math", "tf.linalg", "tf.nn", "tf.image", "tf.signal", "tf.random")
"""Namespaces in which a function is described that is in others, too. The root comes last."""

_LAZY = {"tf.io": (parsing, records, sequences)}
"""Modules whose names a namespace imports when they are used."""


@functools.cache
def resolve(name: str) -> Any:
    """The object or the namespace with a public name."""
    if name.startswith("tf._results."):
        return RESULTS[name.rpartition(".")[2]]
    value: Any = gradtape
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def _members(space: str) -> list[tuple[str, Any]]:
    """The functions and classes of a namespace that are gradtape's, in the order of the alphabet."""
    module = resolve(space)
    lazy = [name for home in _LAZY.get(space, ()) for name in home.__all__]
    found = []
    for name in sorted({*dir(module), *lazy} - {"keras"}, key=str.lower):  # Keras has a reference of its own
        value = getattr(module, name)
        home = str(getattr(value, "__module__", ""))
        if not name.startswith("_") and callable(value) and home.startswith("gradtape"):
            found.append((f"{space}.{name}", value))
    return found


@functools.cache
def directives() -> dict[str, str]:
    """What the pages of the reference say after `:::`, and the file that says so."""
    return {
        name: page.name
        for page in sorted((HERE / "reference").glob("*.md"))
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


def is_namespace(value: Any) -> bool:
    """Whether a name on a page stands for all members of a module."""
    return isinstance(value, (ModuleType, SimpleNamespace))


def _order(name: str) -> tuple[bool, bool, int]:
    """Single objects first, then namespaces in the order of `_FIRST`, and the root last."""
    place = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return is_namespace(resolve(name)), name == "tf", place


@functools.cache
def pages() -> list[Page]:
    """What the pages name, in the order in which names are taken: an object is described where it is named first."""
    return [
        Page(directives()[name], name, _members(name) if is_namespace(resolve(name)) else [(name, resolve(name))])
        for name in sorted(directives(), key=_order)
    ]


# -- text ------------------------------------------------------------------------------------------------------------
def with_fences(text: str) -> str:
    """A docstring whose sessions (`>>>`) are fenced blocks, as Markdown needs them."""
    out: list[str] = []
    lines = [*text.splitlines(), ""]
    inside = False
    for line in lines:
        begins = not inside and line.lstrip().startswith(">>>")
        ends = inside and not line.strip()
        if begins:
            indent = line[: len(line) - len(line.lstrip())]
            out.append(f"{indent}```pycon")
        if ends:
            out.append(f"{indent}```")
        inside = (inside or begins) and not ends
        out.append(line)
    return "\n".join(out).strip()


# -- arguments -------------------------------------------------------------------------------------------------------
@functools.cache
def glossary() -> dict[str, str]:
    """What arguments mean, by `argument`, `tf.namespace.argument` or `tf.function.argument`: the longest key counts."""
    lines = (HERE / "data" / "arguments.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def _meaning(path: str, argument: str, known: dict[str, str]) -> str | None:
    """What an argument of the function at `path` means; None if the glossary does not say."""
    parts = path.split(".")
    keys = [".".join([*parts[:n], argument]) for n in range(len(parts), -1, -1)]
    return next((known[key] for key in keys if key in known), None)


def parameters(value: Any) -> list[inspect.Parameter]:
    """The parameters of a function, or of a class, without `self` and `cls`."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property) or (isinstance(value, type) and issubclass(value, (enum.Enum, BaseException))):
        return []
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.name not in ("self", "cls") and not p.name.startswith("_")]


def described(path: str, value: Any, known: dict[str, str]) -> str:
    """The docstring, with sections for what it does not describe itself: arguments, result, errors and the example."""
    before, arrow, examples = text_of(path, value).partition("\n>>>")
    parts = [with_fences(before.strip())]
    if "Args:" not in before:
        meanings = [
            f"    {p.name}: {meaning[0].upper()}{meaning[1:]}."
            for p in parameters(value)
            if (meaning := _meaning(path, p.name, known))
        ]
        parts += ["Args:\n" + "\n".join(meanings)] if meanings else []
    if "Returns:" not in before and (result := _result(path, value)):
        parts.append(f"**Returns:** {result}")
    if "Raises:" not in before and (errors := _errors(path)):
        parts.append("Raises:\n" + "\n".join(f"    {cls}: {why}." for cls, why in errors.items()))
    if arrow:
        parts.append("**Example:**\n\n" + with_fences(">>>" + examples))
    return "\n\n".join(parts)


# -- results ---------------------------------------------------------------------------------------------------------
_RESULTS = {
    "Tensor": "a `tf.Tensor`", "bool": "a boolean", "int": "an integer", "str": "a string", "bytes": "bytes",
    "tuple[Tensor, Tensor]": "two tensors", "tuple[Tensor, Tensor, Tensor]": "three tensors",
    "tuple[Tensor, Tensor, Tensor, Tensor | None]": "four tensors, of which the last may be `None`",
    "list[Tensor]": "a list of tensors", "list[int]": "a list of integers", "list[str]": "a list of strings",
    "list[Any]": "a list", "dict[str, Any]": "a dict", "dict[str, int]": "a dict of integers",
    "tuple[Any, ...]": "a tuple", "tuple[Any, Any]": "two tensors", "ndarray": "a NumPy array",
    "str | None": "a string, or `None`", "int | None": "an integer, or `None`",
    "list[int | None]": "a list of integers and `None`", "list[str | None]": "a list of strings and `None`",
    "dict[str, DType]": "a dict of dtypes", "dict[str, list[int]]": "a dict of shapes",
    "list[Generator]": "a list of `tf.random.Generator`", "_Transformation": "a function for `dataset.apply`",
    "_Tensor": "a `tf.Tensor`", "_Dataset": "a `tf.data.Dataset`",
}  # fmt: skip
"""What a return annotation means, where it is not the name of a class."""


@functools.cache
def _classes() -> dict[str, str]:
    """What the classes of results are called in the reference, by the name of the class."""
    return {value.__name__: name for page in pages() for name, value in page.members if isinstance(value, type)}


@functools.cache
def _returns() -> dict[str, str]:
    lines = (HERE / "data" / "returns.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def _result(path: str, value: Any) -> str:
    """What a function returns: what docs/data/returns.txt says, or what its annotation means."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, (type, property)) or not callable(value):
        return ""
    said = next((text for name, text in _returns().items() if fnmatch.fnmatchcase(path, name)), None)
    annotation = str(getattr(value, "__annotations__", {}).get("return", ""))
    if said is None:
        said = _RESULTS.get(annotation) or _class_of_result(value, annotation)
    if not said and _is_op(path, annotation):
        said = "a `tf.Tensor`"
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _is_op(path: str, annotation: str) -> bool:
    """Whether a function without a telling annotation is an op, which returns a tensor."""
    return annotation == "Any" and path.startswith(("tf.math.", "tf.nn.", "tf.linalg."))


def _class_of_result(value: Any, annotation: str) -> str:
    optional = annotation.endswith(" | None")
    last = annotation.removesuffix(" | None").rpartition(".")[2]
    cls = getattr(sys.modules.get(str(getattr(value, "__module__", ""))), last, None)
    fields = getattr(cls, "_fields", ())
    if fields and last not in _classes():
        names = [f"`{field}`" for field in fields]
        return f"a named tuple with {', '.join(names[:-1])} and {names[-1]}"
    if last not in _classes():
        return ""
    name = _classes()[last].removeprefix("tf._results.")
    return f"a `{name}`" + (", or `None`" if optional else "")


# -- errors ----------------------------------------------------------------------------------------------------------
class Error(NamedTuple):
    """A line of docs/data/raises.txt: a function raises an error, and a call that shows it."""

    name: str
    cls: str
    why: str
    call: str


@functools.cache
def raised() -> tuple[Error, ...]:
    """What docs/data/raises.txt says; tests/test_reference.py makes every call."""
    lines = (HERE / "data" / "raises.txt").read_text(encoding="utf-8").splitlines()
    return tuple(Error(*line.split(": ", 3)) for line in lines)


def _errors(path: str) -> dict[str, str]:
    """The errors that a function raises, each with its reasons."""
    found: dict[str, list[str]] = {}
    for error in raised():
        if error.name == path:
            cls = f"tf.errors.{error.cls}" if hasattr(gradtape.errors, error.cls) else error.cls
            found.setdefault(cls, []).append(error.why)
    return {cls: _listed(whys) for cls, whys in found.items()}


def _listed(whys: list[str]) -> str:
    text = ", or ".join([", ".join(whys[:-1]), whys[-1]] if len(whys) > 1 else whys)
    return text[0].upper() + text[1:]


# -- links -----------------------------------------------------------------------------------------------------------
def links(path: str, value: Any, others: list[str], places: dict[str, str]) -> str:
    """One line: TensorFlow's page, the source, differences, other names, and functions that the docstring mentions."""
    found = []
    if others:
        found.append("Also: " + ", ".join(f"`{other}`" for other in others))
    known = _tensorflow_names()
    name = next((n for n in (path, *others) if n in known), None)
    if name:
        address = "https://www.tensorflow.org/api_docs/python/" + name.replace(".", "/")
        found.append(f"[TensorFlow's `{name}`]({address})")
    if place := source(value):
        found.append(f"[source](../source/{place[0]}.md#__codelineno-0-{place[1]})")
    if section := next((_differences()[n] for n in (path, *others) if n in _differences()), None):
        found.append(f"[differences](../differences.md#{section})")
    space = path.rpartition(".")[0]
    words = dict.fromkeys(re.findall(r"`([\w.]+)`", inspect.getdoc(value) or ""))
    candidates = [word if word.startswith("tf.") else f"{space}.{word}" for word in words]
    same = {places.get(n) for n in (path, *others)}
    also = [n for n in dict.fromkeys([*candidates, *related(path)]) if places.get(n, places.get(path)) not in same]
    if also:
        found.append("See also: " + ", ".join(f"[`{n}`]({places[n]})" for n in also[:8]))
    return " · ".join(found)


@functools.cache
def groups() -> tuple[tuple[str, ...], ...]:
    """The lines of docs/data/related.txt: functions that do similar things."""
    lines = (HERE / "data" / "related.txt").read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split()) for line in lines)


def related(path: str) -> list[str]:
    """The functions that stand in a group with this one, under one of its names."""
    place = places().get(path)
    mine = [group for group in groups() if any(places().get(name) == place for name in group)]
    return [name for group in mine for name in group if places().get(name) not in (None, place)]


@functools.cache
def _differences() -> dict[str, str]:
    """The section of differences.md that mentions a name, by the name."""
    found: dict[str, str] = {}
    section = ""
    for line in (HERE / "differences.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = re.sub(r"[^\w -]", "", line[3:].lower()).strip().replace(" ", "-")
        for name in re.findall(r"`(tf\.[\w.]*\w)", line):
            found.setdefault(name, section)
    return found


@functools.cache
def _tensorflow_names() -> set[str]:
    lines = (HERE / "data" / "tensorflow_names.txt").read_text(encoding="utf-8").splitlines()
    return {line.split()[0] for line in lines}


def source(value: Any) -> tuple[str, int] | None:
    """The file that a function or class is written in, from the root of the repository, and the line."""
    value = inspect.unwrap(value.fget if isinstance(value, property) else getattr(value, "__func__", value))
    module = str(getattr(value, "__module__", ""))
    if module == "gradtape._src.ops.by_name":  # a primitive
        return _declarations().get(value.__name__)
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or not Path(file).is_relative_to(ROOT):
        return None
    try:
        line = inspect.getsourcelines(value)[1]
    except (OSError, TypeError):
        line = 1
    return Path(file).relative_to(ROOT).as_posix(), line


@functools.cache
def _declarations() -> dict[str, tuple[str, int]]:
    """Where each primitive is declared: `exp = unary("exp", ...)`."""
    found = {}
    for file in sorted((ROOT / "src" / "gradtape" / "_src" / "ops").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for match in re.finditer(r"^\w+ = \w+\(\s*\"(\w+)\"", text, re.MULTILINE):
            found[match[1]] = file.relative_to(ROOT).as_posix(), text.count("\n", 0, match.start()) + 1
    return found


def _is_ours(cls: type) -> bool:
    """Whether a base class is a part of the class that users see, as `Tape` is of `GradientTape`."""
    return cls in (Tape, RecordingTape, IndexedUpdates)


OWN = {"tf.GradientTape", "tf.data.Iterator", "tf.experimental.dtensor.DVariable"}
"""Classes that have public methods beyond TensorFlow's."""


@functools.cache
def members_of_tensorflow() -> dict[str, set[str]]:
    """The public members of TensorFlow's classes, by the name of the class."""
    lines = (HERE / "data" / "tensorflow_members.txt").read_text(encoding="utf-8").splitlines()
    return {line.split()[0]: set(line.split()[1:]) for line in lines}


ATTRIBUTES = {
    "aggregation": "How updates of replicas are combined, a `tf.VariableAggregation`.",
    "batch_shape": "The shape without the last two axes.",
    "constraint": "The function that an optimizer applies after an update, or None.",
    "dense_shape": "The shape of the whole tensor, or None where it is not known.",
    "device": "The name of the device that the values are on.",
    "diagonals_format": "How the diagonals were given.",
    "domain_dimension": "The number of columns.",
    "dtype": "The dtype of the elements, a `tf.DType`.",
    "graph": "The graph that this belongs to, while a function is traced.",
    "graph_parents": "An empty list; kept for TensorFlow's interface.",
    "indices": "Which rows the values belong to.",
    "initial_value": "The value that the variable was created with.",
    "is_diag_update_positive": "Whether the diagonal of the update was declared to be positive.",
    "is_non_singular": "Whether the matrix was declared to be invertible; None if nothing was said.",
    "is_positive_definite": "Whether the matrix was declared to be positive definite; None if nothing was said.",
    "is_self_adjoint": "Whether the matrix was declared to be self-adjoint; None if nothing was said.",
    "is_square": "Whether the matrix is square; None if nothing was said.",
    "name": "The name.",
    "ndim": "The number of axes.",
    "next": "Return the next line, for iteration.",
    "op": "The op that made it, while a function is traced.",
    "range_dimension": "The number of rows.",
    "shape": "The shape, a `tf.TensorShape`.",
    "synchronization": "When replicas of the variable are brought together, a `tf.VariableSynchronization`.",
    "tensor_rank": "The number of axes.",
    "trainable": "Whether tapes watch the variable without being told to.",
    "values": "The values.",
}
"""Attributes that have no docstring of their own, because they are slots or assigned in the constructor."""


def text_of(path: str, value: Any) -> str:
    """The docstring of an entry, or the description of an attribute."""
    return inspect.getdoc(value) or ATTRIBUTES.get(path.rpartition(".")[2], "")


def methods(path: str, cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that are the class's own.

    Methods that TensorFlow's class does not have are for other layers of gradtape, except in the classes of `OWN`.
    """
    own = {*vars(cls), *(name for base in cls.__mro__ if _is_ours(base) for name in vars(base))}
    public = members_of_tensorflow().get(path)
    for name in sorted(own, key=str.lower):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or (public is not None and path not in OWN and name not in public):
            continue
        if isinstance(value, (property, staticmethod, classmethod)) or callable(value):
            yield name, value


@functools.cache
def names() -> dict[int, list[str]]:
    """Every public name of an object, by the object's id."""
    found: dict[int, list[str]] = {}
    for page in pages():
        for name, value in page.members:
            if name not in found.setdefault(id(value), []):
                found[id(value)].append(name)
    return found


@functools.cache
def entries() -> list[tuple[Page, list[tuple[str, Any]]]]:
    """The pages with the names that each describes: an object is described once, on the first page that has it."""
    done: set[int] = set()
    result = []
    for page in pages():
        own = []
        for name, value in page.members:
            if id(value) not in done:
                done.add(id(value))
                own.append((name, value))
        result.append((page, own))
    return result


@functools.cache
def places() -> dict[str, str]:
    """Where every public name is described: the page and the anchor, relative to the folder of the reference."""
    return {
        alias: f"{page.file}#{name}" for page, own in entries() for name, value in own for alias in names()[id(value)]
    }
