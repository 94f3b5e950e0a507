"""Write docs/reference/: the public functions and classes with what their docstrings say.

A function that has several names (`tf.tanh`, `tf.math.tanh`, `tf.nn.tanh`) is described once. Run it after a change of
a docstring or a signature:

    python docs/make_reference.py
"""

from __future__ import annotations

import enum
import inspect
import json
import re
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
    for name in sorted(dir(module), key=str.lower):
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
            out += ["<!-- not run: a test of its docstring -->", "```pycon"]
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


def _is_ours(cls: type) -> bool:
    """Whether a base class is a part of the class that users see, as `Tape` is of `GradientTape`."""
    return cls in (Tape, IndexedUpdates)


_OF_OTHER_LAYERS = {"Variable": {"abstract_value", "is_local_to", "notice_reading", "peek", "read", "storage"}}
"""Methods that only other layers of gradtape call."""


def _methods(cls: type) -> Iterator[tuple[str, str, str]]:
    """(name, signature or empty for a property, text) of the methods that are the class's own."""
    own = {*vars(cls), *(name for base in cls.__bases__ if _is_ours(base) for name in vars(base))}
    for name in sorted(own, key=str.lower):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or name in _OF_OTHER_LAYERS.get(cls.__name__, ()):
            continue
        if isinstance(value, property):
            yield name, "", _doc(value)
        elif isinstance(value, (staticmethod, classmethod)):
            yield name, signature(name, getattr(cls, name)), _doc(getattr(cls, name))
        elif callable(value):
            yield name, signature(name, value, skip=1), _doc(value)


def _entry(name: str, value: Any, others: list[str]) -> str:
    parts = [f"## `{name}`\n"]
    if isinstance(value, type) and issubclass(value, enum.Enum):
        parts.append(_doc(value) + "\n")
        parts.append("| member | value |\n|---|---|\n" + "".join(f"| `{m.name}` | {m.value} |\n" for m in value))
        return "\n".join(parts)
    parts.append(f"```python3\n{signature(name.rpartition('.')[2], value)}\n```\n")
    if others:
        parts.append("Also: " + ", ".join(f"`{other}`" for other in others) + "\n")
    parts.append(_doc(value) + "\n")
    if isinstance(value, type) and not issubclass(value, BaseException):
        for method, call, text in _methods(value):
            if text:
                parts.append(f"### `{name.rpartition('.')[2]}.{method}`\n")
                if call:
                    parts.append(f"```python3\n{call}\n```\n")
                parts.append(text + "\n")
    return "\n".join(parts)


def build() -> dict[str, str]:
    """The pages by their file names."""
    names: dict[int, list[str]] = {}
    for page in pages():
        for name, value in page.members:
            names.setdefault(id(value), []).append(name)
    for name, value in _members(gradtape, "tf"):
        if name not in names.setdefault(id(value), []):
            names[id(value)].append(name)
    done: dict[int, str] = {}
    result = {}
    index = []
    for page in pages():
        parts = [f"# {page.title}\n\n{page.words}\n"]
        elsewhere = []
        for name, value in page.members:
            if id(value) in done:
                if done[id(value)] != page.file:
                    elsewhere.append((name, done[id(value)]))
                continue
            done[id(value)] = page.file
            parts.append(_entry(name, value, [n for n in names[id(value)] if n != name]))
        here = len(parts) - 1
        if elsewhere:
            places: dict[str, list[str]] = {}
            for name, file in elsewhere:
                places.setdefault(file, []).append(f"`{name}`")
            titles = {p.file: p.title for p in pages()}
            parts.append("## Described on other pages\n")
            parts += [f"- [{titles[file]}]({file}): {', '.join(found)}" for file, found in places.items()]
            parts.append("")
        result[page.file] = "\n".join(parts)
        index.append(f"| [{page.title}]({page.file}) | {here} | {page.words} |")
    result["index.md"] = INDEX + "\n".join(index) + "\n"
    return result


INDEX = """# Reference

All public functions and classes with their docstrings. `tf` is gradtape: `import gradtape as tf`. Names and arguments
are TensorFlow's; [this page](../supported.md) lists every name of TensorFlow and says whether gradtape has it. The
tests run the examples. `docs/make_reference.py` generates these pages, and a test checks that they are up to date.

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
