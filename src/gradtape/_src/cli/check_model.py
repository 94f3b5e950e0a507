"""`gradtape check MODEL_DIR`: the content of a SavedModel, and the ops that gradtape lacks. Runs no op of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gradtape._src.cli import UsageError
from gradtape._src.cli.terminal import Printer
from gradtape._src.dtypes import as_dtype
from gradtape._src.raw_ops.table import raw_op
from gradtape._src.saved_model.load import FILE
from gradtape._src.saved_model.messages import (
    Function,
    MetaGraph,
    Node,
    attr_value,
    integer,
    meta_graph,
    shape_of,
    text,
)
from gradtape._src.saved_model.programs import ATTR
from gradtape._src.saved_model.structures import structure
from gradtape._src.shape import TensorSpec

__all__ = ["check_models"]


class Missing(NamedTuple):
    """An op that gradtape lacks: its signature, the number of its nodes, and one of them."""

    op: str
    signature: str
    nodes: int
    node: str
    function: str


class ModelReport(NamedTuple):
    """The content of a SavedModel."""

    path: str
    version: str
    signatures: dict[str, tuple[dict[str, str], dict[str, str]]]
    variables: list[tuple[str, str]]
    assets: list[str]
    functions: int
    ops: dict[str, int]
    missing: list[Missing]


def check_models(paths: Sequence[str], as_json: bool, printer: Printer) -> int:
    """Print what SavedModels need; the exit code tells whether something is missing."""
    reports = [_report(path) for path in paths]
    if as_json:
        print(json.dumps([{**r._asdict(), "missing": [m._asdict() for m in r.missing]} for r in reports], indent=2))
    else:
        for report in reports:
            _show(report, printer)
    return 1 if any(report.missing for report in reports) else 0


def _report(path: str) -> ModelReport:
    file = os.path.join(path, FILE)
    try:
        with open(file, "rb") as stream:
            meta = meta_graph(stream.read())
        nodes = list(_nodes(meta))
        ops = Counter(node.op for _, node in nodes)
        lacking: dict[str, list[tuple[str, Node]]] = {}
        for function, node in nodes:
            if not _is_there(node):
                lacking.setdefault(node.op, []).append((function, node))
        missing = [
            Missing(op, str(meta.ops.get(op, op)), len(found), found[0][1].name, found[0][0])
            for op, found in sorted(lacking.items())
        ]
        functions = len({function for function, _ in nodes})
        return ModelReport(path, meta.version, _signatures(meta), _variables(meta), meta.asset_files, functions,
                           dict(sorted(ops.items())), missing)  # fmt: skip
    except (ValueError, TypeError, OSError) as error:
        raise UsageError(f"cannot read {file}: {error}", status=1) from None


def _is_there(node: Node) -> bool:
    """Whether gradtape can run a node; it runs StableHLO programs that it has saved itself."""
    if node.op == "XlaCallModule" and ATTR not in node.attrs and node.name != "backward":
        return False
    return node.op in ("Const", "XlaCallModule") or raw_op(node.op) is not None


def _nodes(meta: MetaGraph) -> Iterator[tuple[str, Node]]:
    """The nodes of all functions that calls of the model may reach, with the names of these functions."""
    waiting = [*meta.functions, *meta.graph.gradients.values()]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        definition = meta.graph.functions.get(name)
        for node in definition.nodes.values() if definition is not None else ():
            yield name, node
            for callee in _callees(node):
                if callee not in seen:
                    seen.add(callee)
                    waiting.append(callee)


def _callees(node: Node) -> Iterator[str]:
    for key, data in node.attrs.items():
        if key in ("f", "then_branch", "else_branch", "branches", "cond", "body"):
            value = attr_value(data)
            yield from (
                each.name for each in (value if isinstance(value, list) else [value]) if isinstance(each, Function)
            )


def _signatures(meta: MetaGraph) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """The inputs and outputs of the signatures as text, by name."""
    found = {}
    for owner in meta.objects:
        if owner.kind == "user_object" and text(owner.message, 1) == "signature_map":
            for key, number in owner.children:
                if 0 <= number < len(meta.objects) and meta.objects[number].kind == "bare_concrete_function":
                    saved = meta.functions[text(meta.objects[number].message, 1)]
                    inputs, outputs = structure(saved.input_signature), structure(saved.output_signature)
                    found[key] = (_in_words(inputs[1]), _in_words(outputs))
    return found


def _in_words(specs: Any) -> dict[str, str]:
    if not isinstance(specs, dict):
        return {}
    return {name: f"{s.dtype.name} {s.shape}" for name, s in specs.items() if isinstance(s, TensorSpec)}


def _variables(meta: MetaGraph) -> list[tuple[str, str]]:
    found = []
    for each in meta.objects:
        if each.kind == "variable":
            shape = shape_of(each.message.get(2, [b""])[-1])
            found.append((text(each.message, 6), f"{as_dtype(integer(each.message, 1)).name} {shape}"))
    return found


def _show(report: ModelReport, printer: Printer) -> None:
    printer.line(f"{report.path} (TensorFlow {report.version or 'unknown'})", "bold")
    for key, (inputs, outputs) in report.signatures.items():
        printer.line(f"signature {key}", "cyan")
        rows = [["input", name, words] for name, words in inputs.items()]
        printer.table([*rows, *(["output", name, words] for name, words in outputs.items())])
    printer.line(f"variables ({len(report.variables)})", "cyan")
    printer.table([[name, words] for name, words in report.variables])
    if report.assets:
        printer.line(f"files ({len(report.assets)}): {', '.join(report.assets)}", "cyan")
    if report.missing:
        printer.line(f"missing ops ({len(report.missing)})", "bold", "red")
        printer.table([[m.op, f"{m.nodes} x", f"{m.signature}; {m.node} of {m.function}"] for m in report.missing])
    count = sum(report.ops.values())
    printer.paragraph(
        f"{report.functions} functions, {count} nodes, {len(report.ops)} ops: {len(report.ops) - len(report.missing)} "
        f"supported, {len(report.missing)} missing."
    )
    printer.line()
