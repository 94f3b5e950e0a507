"""Write docs/reference/: the public functions and classes with what their docstrings say.

A function that has several names (`tf.tanh`, `tf.math.tanh`, `tf.nn.tanh`) is described once. Run it after a change of
a docstring or a signature:

    python docs/make_reference.py
"""

from __future__ import annotations

import enum
import functools
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import gradtape
import gradtape.testing
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.checkpoint import checkpoint, reading, state
from gradtape._src.inspect import explain
from gradtape._src.tf import parsing, records, sequences
from gradtape._src.variable.slices import IndexedUpdates

HERE = Path(__file__).parent


class Page(NamedTuple):
    """A page: its file, title, first words, and what is on it, as (name, object)."""

    file: str
    title: str
    words: str
    members: list[tuple[str, Any]]


# -- what is public --------------------------------------------------------------------------------------------------
def _members(module: ModuleType, prefix: str) -> list[tuple[str, Any]]:
    """The functions and classes of a namespace that are gradtape's, in the order of the alphabet."""
    found = []
    for name in sorted(set(dir(module)) - {"keras"}, key=str.lower):  # Keras has a reference of its own
        value = getattr(module, name)
        home = str(getattr(value, "__module__", ""))
        if not name.startswith("_") and callable(value) and home.startswith("gradtape"):
            found.append((f"{prefix}.{name}", value))
    return found


def _named(*names: str) -> list[tuple[str, Any]]:
    found = []
    for name in names:
        value: Any = gradtape
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        found.append((name, value))
    return found


@functools.cache
def pages() -> list[Page]:
    """Every page. A function described on one page is not described again on a later one."""
    return [
        Page(
            "tape.md", "Tapes", "Recording operations and computing derivatives of them.",
            [
                *_named("tf.GradientTape", "tf.autodiff.ForwardAccumulator", "tf.UnconnectedGradients"),
                ("gradtape._src.inspect.explain.Explanation", explain.Explanation),
                ("gradtape._src.inspect.explain.Explanations", explain.Explanations),
                ("gradtape._src.inspect.explain.Reason", explain.Reason),
            ],
        ),
        Page(
            "custom_gradients.md", "Custom gradients", "Gradients that you supply, change or stop.",
            _named("tf.custom_gradient", "tf.stop_gradient", "tf.recompute_grad", "tf.grad_pass_through",
                   "tf.RegisterGradient", "tf.no_gradient", "tf.py_function", "tf.numpy_function"),
        ),
        Page(
            "tensor.md", "Tensors and variables", "Tensors, variables and the classes that describe them.",
            _named("tf.Tensor", "tf.Variable", "tf.IndexedSlices", "tf.SparseTensor", "tf.TensorArray",
                   "tf.TensorShape", "tf.TensorSpec", "tf.DType", "tf.Module"),
        ),
        Page("math.md", "tf.math", "Elementwise functions, reductions, segments.", _members(gradtape.math, "tf.math")),
        Page("linalg.md", "tf.linalg", "Products, solvers, decompositions.", _members(gradtape.linalg, "tf.linalg")),
        Page("nn.md", "tf.nn", "Activations, losses, convolutions, pooling.", _members(gradtape.nn, "tf.nn")),
        Page("image.md", "tf.image", "Resizing, colours, crops, measures.", _members(gradtape.image, "tf.image")),
        Page("signal.md", "tf.signal", "Fourier transforms, windows, frames.", _members(gradtape.signal, "tf.signal")),
        Page("random.md", "tf.random", "Random numbers, with and without state.",
             _members(gradtape.random, "tf.random")),
        Page("root.md", "tf", "Functions that are only at the root: arrays, control flow, initializers.",
             _members(gradtape, "tf")),
        Page("sparse.md", "tf.sparse", "Sparse tensors.", _members(gradtape.sparse, "tf.sparse")),
        Page("ragged.md", "tf.ragged", "Tensors with rows of different lengths.",
             [*_named("tf.RaggedTensor", "tf.RaggedTensorSpec"), *_members(gradtape.ragged, "tf.ragged")]),
        Page("strings.md", "tf.strings", "Texts in tensors.", _members(gradtape.strings, "tf.strings")),
        Page("lookup.md", "tf.lookup and tf.sets", "Tables from keys to values, and sets along the last axis.",
             [*_members(gradtape.lookup, "tf.lookup"),
              *_members(gradtape.lookup.experimental, "tf.lookup.experimental"),
              *_members(gradtape.sets, "tf.sets")]),
        Page("bits.md", "tf.bitwise and tf.quantization", "Bitwise operations and fake quantization.",
             [*_members(gradtape.bitwise, "tf.bitwise"), *_members(gradtape.quantization, "tf.quantization")]),
        Page("nest.md", "tf.nest", "Structures of tensors.", _members(gradtape.nest, "tf.nest")),
        Page("debugging.md", "tf.debugging", "Assertions and checks.", _members(gradtape.debugging, "tf.debugging")),
        Page("config.md", "tf.config", "Settings and devices.",
             [*_members(gradtape.config, "tf.config"),
              *_members(gradtape.config.experimental, "tf.config.experimental"),
              *_members(gradtape.config.threading, "tf.config.threading")]),
        Page("io.md", "tf.io", "Bytes, files, strings and records.",
             [*_members(gradtape.io, "tf.io"),
              *((f"tf.io.{name}", getattr(module, name)) for module in (parsing, records, sequences)
                for name in module.__all__), *_members(gradtape.io.gfile, "tf.io.gfile")]),
        Page("data.md", "tf.data", "Input pipelines.",
             [*_members(gradtape.data, "tf.data"), *_members(gradtape.data.experimental, "tf.data.experimental")]),
        Page(
            "distribute.md", "tf.distribute", "One program on several replicas.",
            [
                *_members(gradtape.distribute, "tf.distribute"),
                *_members(gradtape.distribute.experimental, "tf.distribute.experimental"),
                *_members(gradtape.distribute.cluster_resolver, "tf.distribute.cluster_resolver"),
            ],
        ),
        Page("dtensor.md", "tf.experimental.dtensor", "Tensors that are divided over a mesh of devices.",
             _members(gradtape.experimental.dtensor, "tf.experimental.dtensor")),
        Page(
            "train.md", "tf.train", "Checkpoints, and the examples stored in TFRecord files.",
            [
                *_members(gradtape.train, "tf.train"),
                *_members(gradtape._src.checkpoint.experimental, "tf.train.experimental"),
                ("gradtape._src.checkpoint.checkpoint.LoadStatus", checkpoint.LoadStatus),
                ("gradtape._src.checkpoint.reading.CheckpointReader", reading.CheckpointReader),
                ("gradtape._src.checkpoint.state.CheckpointState", state.CheckpointState),
            ],
        ),
        Page("saved_model.md", "tf.saved_model", "Functions and variables in files that TensorFlow reads.",
             _members(gradtape.saved_model, "tf.saved_model")),
        Page("summary.md", "tf.summary", "Numbers, histograms and images of a run, for TensorBoard.",
             [*_members(gradtape.summary, "tf.summary"),
              *_members(gradtape.summary.experimental, "tf.summary.experimental")]),
        Page("errors.md", "tf.errors", "TensorFlow's exception classes.",
             [(name, value) for name, value in _members(gradtape.errors, "tf.errors") if isinstance(value, type)]),
        Page("testing.md", "gradtape.testing", "Gradient checks for your own functions.",
             [("gradtape.testing.check_gradients", gradtape.testing.check_gradients),
              *_members(gradtape.test, "tf.test")]),
    ]  # fmt: skip


# -- text ------------------------------------------------------------------------------------------------------------
def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"tf.{type(value).__name__}.{value.name}"
    if isinstance(value, gradtape.DType):
        return f"tf.{value.name}"
    if callable(value):
        return getattr(value, "__name__", repr(value))
    return json.dumps(value) if isinstance(value, str) else repr(value)


def signature(name: str, function: Any, skip: int = 0) -> str:
    """`name(x, axis=None)`: without annotations, on several lines if it is long."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):  # exceptions that are Python's own
        return f"{name}(...)"
    words, starred = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
        starred = starred or p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        words.append(f"{star}{p.name}" + ("" if p.default is p.empty else f"={_default(p.default)}"))
    line = f"{name}({', '.join(words)})"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def prose(text: str) -> str:
    """A docstring as Markdown: examples in fences, headed lists as lists."""
    out: list[str] = []
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.lstrip().startswith(">>>"):
            end = i
            while end < len(lines) and lines[end].strip():
                end += 1
            indent = len(line) - len(line.lstrip())
            out += ["<!-- not run: tests/test_reference.py runs it -->", "```pycon"]
            out += [inner[indent:] for inner in lines[i:end]] + ["```"]
            i = end
            continue
        heading = re.fullmatch(r"(Args|Arguments|Returns|Raises|Yields|Example|Examples):", line)
        if heading:
            out += ["", f"**{heading[1]}**", ""]
            i += 1
            while i < len(lines) and (lines[i].startswith("  ") and not lines[i].lstrip().startswith(">>>")):
                item, inner = re.fullmatch(r"(\*{0,2}\w+): (.*)", lines[i].strip()), lines[i].strip()
                new = lines[i].startswith("  ") and not lines[i].startswith("    ")
                text = f"`{item[1]}`: {item[2]}" if item and heading[1] not in ("Returns", "Yields") else inner
                out.append(f"- {text}" if new and (item or out[-1] == "") else f"  {text}")
                i += 1
            continue
        out.append(line.replace("<", "&lt;") if "`" not in line else line)
        i += 1
    return "\n".join(out).strip()


def _doc(value: Any) -> str:
    return prose(inspect.getdoc(value) or "")


# -- arguments, returns, links ---------------------------------------------------------------------------------------
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
    """The docstring, with the arguments that it does not describe itself, and the type of the result."""
    text = text_of(path, value)
    if "Args:" in text:
        return prose(text)
    before, arrow, examples = text.partition("\n>>>")
    lines = []
    for p in parameters(value):
        meaning = _meaning(path, p.name, known)
        if meaning and f"`{p.name}`" not in before:
            lines.append(f"- `{p.name}`: {meaning}")
    parts = [prose(before)]
    if lines:
        parts.append("**Arguments**\n\n" + "\n".join(lines))
    if result := _result(value):
        parts.append(f"**Returns** {result}")
    if arrow:
        parts.append("**Example**\n\n" + prose(">>>" + examples))
    return "\n\n".join(parts)


_RESULTS = {
    "Tensor": "a `tf.Tensor`", "bool": "a boolean", "int": "an integer", "str": "a string",
    "tuple[Tensor, Tensor]": "two tensors", "tuple[Tensor, Tensor, Tensor]": "three tensors",
    "list[Tensor]": "a list of tensors", "Dataset": "a `tf.data.Dataset`", "SparseTensor": "a `tf.SparseTensor`",
    "RaggedTensor": "a `tf.RaggedTensor`", "TensorShape": "a `tf.TensorShape`", "DType": "a `tf.DType`",
}  # fmt: skip
"""What a return annotation means, where it says more than the summary."""


def _result(value: Any) -> str:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    annotations = getattr(value, "__annotations__", {}) if not isinstance(value, (type, property)) else {}
    return _RESULTS.get(str(annotations.get("return", "")), "")


def links(path: str, value: Any, others: list[str], places: dict[str, str]) -> str:
    """TensorFlow's page, the source, other names, and the functions that the docstring mentions."""
    found = []
    if others:
        found.append("Also: " + ", ".join(f"`{other}`" for other in others))
    known = _tensorflow_names()
    name = next((n for n in (path, *others) if n in known), None)
    if name:
        address = "https://www.tensorflow.org/api_docs/python/" + name.replace(".", "/")
        found.append(f"[TensorFlow's `{name}`]({address})")
    if file := _source(value):
        found.append(f"[source](../../{file})")
    space = path.rpartition(".")[0]
    words = dict.fromkeys(re.findall(r"`([\w.]+)`", inspect.getdoc(value) or ""))
    candidates = [word if word.startswith("tf.") else f"{space}.{word}" for word in words]
    also = [f"[`{n}`]({places[n]})" for n in candidates if n in places and n != path]
    if also:
        found.append("See also: " + ", ".join(also))
    return " · ".join(found)


@functools.cache
def _tensorflow_names() -> set[str]:
    lines = (HERE / "data" / "tensorflow_names.txt").read_text(encoding="utf-8").splitlines()
    return {line.split()[0] for line in lines}


def _source(value: Any) -> str:
    """The file that a function or class is written in, from the root of the repository."""
    home = sys.modules.get(str(getattr(inspect.unwrap(value), "__module__", "")))
    file = getattr(home, "__file__", None)
    root = HERE.parent
    return Path(file).relative_to(root).as_posix() if file and Path(file).is_relative_to(root) else ""


def _is_ours(cls: type) -> bool:
    """Whether a base class is a part of the class that users see, as `Tape` is of `GradientTape`."""
    return cls in (Tape, IndexedUpdates)


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
    "next": "The next line, for iteration.",
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


def methods(path: str, cls: type) -> Iterator[tuple[str, str, str]]:
    """(name, signature or empty for a property, text) of the public methods that are the class's own.

    Methods that TensorFlow's class does not have are for other layers of gradtape, except in the classes of `OWN`.
    """
    own = {*vars(cls), *(name for base in cls.__bases__ if _is_ours(base) for name in vars(base))}
    public = members_of_tensorflow().get(path)
    for name in sorted(own, key=str.lower):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or (public is not None and path not in OWN and name not in public):
            continue
        if isinstance(value, property):
            yield name, "", _doc(value)
        elif isinstance(value, (staticmethod, classmethod)):
            yield name, signature(name, getattr(cls, name)), _doc(getattr(cls, name))
        elif callable(value):
            yield name, signature(name, value, skip=1), _doc(value)


def anchor(name: str) -> str:
    """The anchor of a heading, as the site makes it: lower case, without punctuation."""
    return re.sub(r"[^\w-]", "", name.lower())


def _entry(name: str, value: Any, others: list[str], known: dict[str, str], places: dict[str, str]) -> str:
    parts = [f"## `{name}`\n"]
    if isinstance(value, type) and issubclass(value, enum.Enum):
        parts.append(_doc(value) + "\n")
        parts.append("| member | value |\n|---|---|\n" + "".join(f"| `{m.name}` | {m.value} |\n" for m in value))
    else:
        parts.append(f"```python3\n{signature(name.rpartition('.')[2], value)}\n```\n")
        parts.append(described(name, value, known) + "\n")
    if line := links(name, value, others, places):
        parts.append(line + "\n")
    if isinstance(value, type) and not issubclass(value, (BaseException, enum.Enum)):
        for method, call, _ in methods(name, value):
            text = described(f"{name}.{method}", inspect.getattr_static(value, method), known)
            parts.append(f"### `{name.rpartition('.')[2]}.{method}`\n")
            if call:
                parts.append(f"```python3\n{call}\n```\n")
            parts.append(text + "\n")
    return "\n".join(parts)


def _all_names() -> dict[int, list[str]]:
    """Every public name of an object, by the object's id."""
    names: dict[int, list[str]] = {}
    for page in pages():
        for name, value in page.members:
            names.setdefault(id(value), []).append(name)
    for name, value in _members(gradtape, "tf"):
        if name not in names.setdefault(id(value), []):
            names[id(value)].append(name)
    return names


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


def places() -> dict[str, str]:
    """Where every public name is described: the page and the anchor, relative to the folder of the reference."""
    names = _all_names()
    return {
        alias: f"{page.file}#{anchor(name)}"
        for page, own in entries()
        for name, value in own
        for alias in names[id(value)]
    }


def build() -> dict[str, str]:
    """The pages by their file names."""
    names, known, where = _all_names(), glossary(), places()
    result = {}
    index = []
    for page, own in entries():
        parts = [f"# {page.title}\n\n{page.words}\n"]
        for name, value in own:
            parts.append(_entry(name, value, [n for n in names[id(value)] if n != name], known, where))
        described_here = {name for name, _ in own}
        elsewhere = [name for name, _ in page.members if name not in described_here]
        if elsewhere:
            parts.append("## Described on other pages\n")
            parts.append(", ".join(f"[`{name}`]({where[name]})" for name in elsewhere) + "\n")
        result[page.file] = "\n".join(parts)
        index.append(f"| [{page.title}]({page.file}) | {len(own)} | {page.words} |")
    result["index.md"] = INDEX + "\n".join(index) + "\n"
    return result


INDEX = """# Reference

All public functions and classes: what they do, their arguments, an example, TensorFlow's page and the source. Names
and arguments are TensorFlow's; [this page](../supported.md) lists every name of TensorFlow and says whether
gradtape has it.

Every example runs as it stands after these two lines, and a test runs all of them:

```python
import gradtape as tf
import numpy as np
```

Arguments that are tensors also accept NumPy arrays, Python numbers and nested lists. Errors are TensorFlow's: a
`tf.errors.InvalidArgumentError` for a shape, dtype or value that does not suit the op, a `TypeError` or `ValueError`
for an argument that can be checked before the op runs. gradtape never converts dtypes silently; use `tf.cast`.

| page | entries | |
|---|---|---|
"""


def write(folder: Path = HERE / "reference") -> None:
    """Write the pages, and remove those that no longer exist."""
    folder.mkdir(exist_ok=True)
    built = build()
    for old in folder.glob("*.md"):
        if old.name not in built:
            old.unlink()
    for file, text in built.items():
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
