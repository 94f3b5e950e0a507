"""Record TensorFlow's definitions of the raw ops that gradtape has, in the notation of `raw_ops/definitions.txt`.

Run it with a Python that has TensorFlow, after adding an op; the names come from standard input:

    python -c "from gradtape._src.raw_ops.table import names; print(*names())" \
        | TENSORFLOW_PYTHON tools/record_raw_ops.py > src/gradtape/_src/raw_ops/definitions.txt

An op per line, `Name(inputs; attrs) -> outputs | types`. `axis@split_dim` is called `axis` in Python and `split_dim` in
graphs; `N*T` is a list of N tensors of type T, `*T` a list of tensors with a list of types. `types` has the type attrs
that follow from the inputs: a default after `=`, the allowed types after `in`, the names of sets from the first lines.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import dtypes, op_def_registry


def type_name(number: int) -> str:
    """The name of a type."""
    return str(dtypes.as_dtype(number).name)


def one(kind: str, value: Any) -> str:
    """A value of an attr as a Python literal; types by their names."""
    if kind == "s":
        return repr(value.decode("latin1"))
    if kind == "type":
        return repr(type_name(value))
    if kind == "f":
        return repr(float(f"{value:.8g}"))
    if kind == "shape":
        return "None" if value.unknown_rank else repr([dim.size for dim in value.dim])
    return repr(value)


def literal(value: Any) -> str:
    """An attr's value as a Python literal."""
    kind = value.WhichOneof("value")
    if kind != "list":
        return one(kind, getattr(value, kind))
    for kind in ("s", "i", "f", "b", "type", "shape"):
        found = getattr(value.list, kind)
        if len(found):
            return "[" + ", ".join(one(kind, each) for each in found) + "]"
    return "[]"


def arg_type(arg: Any) -> str:
    """The type of an input or output."""
    kind = f"*{arg.type_list_attr}" if arg.type_list_attr else arg.type_attr or type_name(arg.type)
    return f"{arg.number_attr}*{kind}" if arg.number_attr else kind


def allowed(attr: Any, sets: dict[tuple[int, ...], str]) -> str:
    """What an attr is limited to."""
    if attr.type in ("type", "list(type)") and attr.allowed_values.list.type:
        types = tuple(attr.allowed_values.list.type)
        return f" in {sets[types]}"
    if attr.allowed_values.list.s:
        return " in " + "|".join(value.decode() for value in attr.allowed_values.list.s)
    return f" >= {attr.minimum}" if attr.has_minimum and attr.type == "int" else ""


def line(name: str, sets: dict[tuple[int, ...], str]) -> str:
    """The line of an op."""
    op = op_def_registry.get(name)
    inferred = {getattr(arg, kind) for arg in op.input_arg for kind in ("type_attr", "number_attr", "type_list_attr")}
    explicit = [attr for attr in op.attr if attr.name not in inferred]
    parameters = [each for each in inspect.signature(getattr(tf.raw_ops, name)).parameters if each != "name"]
    of_graph = [arg.name for arg in op.input_arg] + [attr.name for attr in explicit]
    renamed = [each for each in parameters if each not in of_graph]
    python = dict(zip([each for each in of_graph if each not in parameters], renamed, strict=True))

    def both(each: str) -> str:
        return f"{python[each]}@{each}" if each in python else each

    inputs = ", ".join(f"{both(arg.name)}: {arg_type(arg)}" for arg in op.input_arg)
    attrs = []
    for attr in sorted(explicit, key=lambda attr: attr.HasField("default_value")):
        default = f" = {literal(attr.default_value)}" if attr.HasField("default_value") else ""
        attrs.append(f"{both(attr.name)}: {attr.type}{allowed(attr, sets)}{default}")
    types = []
    for attr in op.attr:
        if attr.name in inferred and attr.type == "type":
            default = f" = {literal(attr.default_value)}" if attr.HasField("default_value") else ""
            limits = allowed(attr, sets)
            if default or limits:
                types.append(f"{attr.name}{limits}{default}")
    text = f"{name}({inputs}{'; ' if attrs else ''}{'; '.join(attrs)}) -> "
    text += ", ".join(f"{arg.name}: {arg_type(arg)}" for arg in op.output_arg)
    return (text + (" | " + "; ".join(types) if types else "")).rstrip()


def main() -> None:
    """Write the definitions of the ops that standard input names."""
    names = sorted(set(sys.stdin.read().split()))
    known: Counter[tuple[int, ...]] = Counter()
    for name in names:
        for attr in op_def_registry.get(name).attr:
            if attr.allowed_values.list.type:
                known[tuple(attr.allowed_values.list.type)] += 1
    sets = {types: f"#{i}" for i, (types, _) in enumerate(known.most_common())}
    for types, short in sets.items():
        print(short, *(type_name(each) for each in types))
    for name in names:
        print(line(name, sets))


if __name__ == "__main__":
    main()
