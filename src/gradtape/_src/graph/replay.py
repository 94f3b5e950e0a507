"""Run the nodes of a graph one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from gradtape._src import threads
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.base import Namespace
from gradtape._src.arrays.dimensions import Sizes, is_known_shape, sized
from gradtape._src.arrays.numpy.blas import ALONE
from gradtape._src.arrays.numpy.blocks import LARGE, blockwise
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.core.primitive import registry


def evaluate(nodes: Sequence[Node], env: dict[int, Any], xp: Any) -> None:
    """Run nodes: `env` has values by the ids of their symbols, and gets the results."""
    for name, args, attrs, outputs in nodes:
        result = getattr(xp, name)(
            *[env[id(a)] if type(a) is Symbolic else a for a in args],
            **attrs,
        )
        if type(result) is np.ndarray:
            env[id(outputs[0])] = result
        elif type(result) is tuple or type(result) is list:
            env.update((id(symbol), value) for symbol, value in zip(outputs, result, strict=True))
        else:
            env[id(outputs[0])] = np.asarray(result, outputs[0].dtype) if np.isscalar(result) else result


def is_blockwise(node: Node, sizes: Sizes = ()) -> bool:
    """Whether an op is elementwise, with a result so large that it runs on several cores."""
    op = registry.get(node.name)
    if op is None or not op.elementwise or len(node.outputs) != 1 or threads.limit() == 1:
        return False
    shape = sized(node.outputs[0].shape, sizes)
    return is_known_shape(shape) and prod(shape) >= LARGE


def runs_on_all_cores(node: Node, sizes: Sizes = ()) -> bool:
    """Whether a node is divided among threads: a large elementwise op, or a large product of two matrices."""
    if node.name != "matmul":
        return is_blockwise(node, sizes)
    shapes = [sized(s.shape, sizes) for s in (*node.args, *node.outputs) if type(s) is Symbolic]
    if len(shapes) < 3 or not all(len(shape) == 2 and is_known_shape(shape) for shape in shapes):
        return False
    return threads.limit() > 1 and prod(map(prod, shapes)) >= ALONE**2  # (m k) (k n) (m n)


class _Blocks(Namespace):
    """NumPy's elementwise functions, which divide arrays into blocks for several cores."""

    def find(self, name: str) -> Callable[..., Any]:
        return blockwise(getattr(numpy_namespace, name))


_in_blocks: Any = _Blocks()


def run_once(program: Any, arrays: Sequence[np.ndarray], xp: Any) -> tuple[Any, ...]:
    """Run a program node by node. Values are freed after their last use; outputs own their memory."""
    env = program.environment(arrays)
    wanted = {id(out) for out in program.outputs if type(out) is Symbolic}
    for node, ending in zip(program.nodes, _last_uses(program.nodes, wanted), strict=True):
        evaluate((node,), env, _in_blocks if is_blockwise(node, program.sizes) else xp)
        for key in ending:
            del env[key]
    constants = [a for node in program.nodes for a in node.args if isinstance(a, np.ndarray)]
    owners = {id(_owner(array)) for array in (*arrays, *constants)}
    results = []
    for out in program.outputs:
        array = np.asarray(env[id(out)], out.dtype) if type(out) is Symbolic else np.array(out)
        if id(_owner(array)) in owners:  # it belongs to an input, a constant, or another output
            array = np.array(array)
        owners.add(id(_owner(array)))
        results.append(array)
    return tuple(results)


def _last_uses(nodes: Sequence[Node], wanted: set[int]) -> list[list[int]]:
    """For each node, the values that no later node reads, unless they are wanted."""
    seen = set(wanted)
    ending = []
    for node in reversed(nodes):
        symbols = {id(a) for a in (*node.args, *node.outputs) if type(a) is Symbolic}
        ending.append(list(symbols - seen))
        seen |= symbols
    return ending[::-1]


def _owner(array: np.ndarray) -> Any:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
