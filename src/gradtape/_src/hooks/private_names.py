"""Where TensorFlow defines its public names: `tensorflow.python.ops.nn_ops.relu6` is `tf.nn.relu6`.

`private_names.txt` has a line per module; `tools/record_private_names.py` writes it and documents the notation.
Modules `gen_…_ops` have, beside their public names, a function for every raw op: `gen_math_ops.mat_mul` takes the
arguments of `tf.raw_ops.MatMul`, by position or by name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

from gradtape._src.raw_ops.definition import definition
from gradtape._src.raw_ops.table import function, names

__all__ = ["modules", "public_name", "raw_function"]

GENERATED = re.compile(r"(\w+\.)*gen_\w+_ops(_v2)?$")
"""Modules that TensorFlow generates from its op definitions."""


@functools.cache
def modules() -> dict[str, str]:
    """Module below `tensorflow.python` -> what its line says."""
    recorded = resources.files(__package__).joinpath("private_names.txt").read_text(encoding="utf-8")
    return {module: rest for module, _, rest in (line.partition(" | ") for line in recorded.splitlines())}


@functools.cache
def _names(module: str) -> dict[str, str]:
    """Name in a module -> its public name."""
    found = {}
    for group in modules().get(module, "").split(" | "):
        space, _, listed = group.partition(": ")
        for own, _, public in (name.partition("=") for name in listed.split()):
            found[own] = f"{space}.{public or own}"
    return found


def public_name(module: str, name: str) -> str | None:
    """The public name of what TensorFlow defines in a private module; None if it has none.

    >>> public_name("ops.nn_ops", "conv2d_v2")
    'tf.nn.conv2d'
    """
    return _names(module).get(name)


@functools.cache
def _op_names() -> dict[str, str]:
    """Name of a Python function -> name of the op: `add_v2` -> AddV2."""
    return {definition(name).python_name: name for name in names()}


@functools.cache
def raw_function(module: str, name: str) -> Callable[..., Any] | None:
    """The function of a generated module for a raw op; None if there is none.

    >>> raw_function("ops.gen_math_ops", "add_v2")([1.0], [2.0]).numpy().tolist()
    [3.0]
    """
    if GENERATED.match(module) is None:
        return None
    if name in names():
        return function(name)
    op = _op_names().get(name)
    raw = None if op is None else function(op)
    if op is None or raw is None:
        return None
    parameters, call = definition(op).parameters, raw

    def positional(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(parameters):
            raise TypeError(f"{name}() takes {len(parameters)} positional arguments but {len(args)} were given")
        for parameter, value in zip(parameters, args, strict=False):
            if parameter in kwargs:
                raise TypeError(f"{name}() got multiple values for argument {parameter!r}")
            kwargs[parameter] = value
        return call(**kwargs)

    positional.__name__ = positional.__qualname__ = name
    positional.__doc__ = f"TensorFlow's op {op}."
    positional.__signature__ = call.__signature__  # type: ignore[attr-defined]
    return positional
