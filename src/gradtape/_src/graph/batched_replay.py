"""Run a program on NumPy for a batch of its inputs, as a backward pass carries many cotangents at a time.

Each node runs once, on batched arrays. Branches and loops run row by row, because rows may take different paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.batched import Batched, apply, loop
from gradtape._src.arrays.dimensions import evaluated
from gradtape._src.arrays.numpy.control import FUNCTIONS
from gradtape._src.arrays.symbolic import Node, Symbolic

_LEVEL = 1  # level of the batches: there are no nested ones here
_CONTROL = frozenset(function.__name__ for function in FUNCTIONS)


def replay_rows(program: Any, flags: Sequence[bool], arrays: Sequence[Any], xp: Any) -> tuple[Any, ...]:
    """The outputs of a program for every row of the inputs that are flagged as batched; `xp` has the kernels."""
    count = next(len(array) for array, flag in zip(arrays, flags, strict=True) if flag)
    operands = [Batched(array, _LEVEL) if flag else array for array, flag in zip(arrays, flags, strict=True)]
    results = _replay(program, operands, xp)
    return tuple([_rows(value, count, out) for value, out in zip(results, program.outputs, strict=True)])


def _replay(program: Any, operands: Sequence[Any], xp: Any) -> list[Any]:
    env = program.environment(operands)
    for node in program.nodes:
        args = tuple([env[id(a)] if type(a) is Symbolic else a for a in node.args])
        result = _run(node, args, xp)
        if type(result) is tuple or type(result) is list:
            env.update((id(symbol), value) for symbol, value in zip(node.outputs, result, strict=True))
        else:
            env[id(node.outputs[0])] = result
    return [env[id(out)] if type(out) is Symbolic else out for out in program.outputs]


def _run(node: Node, args: tuple[Any, ...], xp: Any) -> Any:
    flags = [type(a) is Batched for a in args]
    if not any(flags):
        return getattr(xp, node.name)(*args, **node.attrs)
    if node.name == "dynamic" and not any(flags[: len(node.attrs["names"])]):
        return _run(*_on_time(node, args), xp)
    if node.name == "inline":
        return _replay(node.attrs["program"], args, xp)
    if node.name not in _CONTROL:
        return apply(node.name, args, node.attrs)
    arrays = [a.rows() if flag else a for a, flag in zip(args, flags, strict=True)]
    size = next(len(a) for a, flag in zip(arrays, flags, strict=True) if flag)
    result = loop(xp, node.name, size, flags, arrays, node.attrs)
    return [Batched(r, _LEVEL) for r in result] if type(result) is tuple else Batched(result, _LEVEL)


def _on_time(node: Node, args: tuple[Any, ...]) -> tuple[Node, tuple[Any, ...]]:
    """A node whose static arguments depend on sizes, with these sizes filled in, and its remaining operands."""
    names = node.attrs["names"]
    sizes = {name: int(size) for name, size in zip(names, args, strict=False)}
    attrs = {key: value for key, value in node.attrs.items() if key not in ("of", "names", "dynamic")}
    attrs.update((key, evaluated(value, sizes)) for key, value in node.attrs["dynamic"])
    return Node(node.attrs["of"], args[len(names) :], attrs, node.outputs), args[len(names) :]


def _rows(value: Any, count: int, out: Any) -> Any:
    if type(value) is Batched:
        return np.asarray(value.rows(), out.dtype)
    return np.broadcast_to(value, (count, *np.shape(value)))
