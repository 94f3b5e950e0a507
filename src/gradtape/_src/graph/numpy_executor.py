"""A graph as straight-line Python over NumPy kernels: nothing to compile, no dispatch, no tensors, no records.

The source is generated once for a program, after the passes of `passes.py`:

    def pinn_step(a0, a1, a2):
        v0 = matmul_0(a0, a1)
        v1 = add_1(v0, a2, out=v0)
        v2 = tanh_2(v1, out=v1)
        return (v2,)

Values are deleted after their last use, because memory that was just freed is still in the cache. An elementwise op
writes into an operand that ends there, if the operand's memory is its own: the result of an op that allocates, which no
view shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.core.primitive import registry
from gradtape._src.graph.passes import Code

ALLOCATING = frozenset({
    "conv", "conv_filter_grad", "conv_input_grad", "gate", "log_softmax", "matmul", "max_pool", "max_unpool", "relu",
    "sigmoid", "softmax",
})  # fmt: skip
"""Kernels besides ufuncs whose result is always new memory."""

_IN_PLACE_BYTES = 2**12
"""From this size on memory is worth more than the keyword argument."""


def executor(name: str, feeds: Sequence[Symbolic], code: Code, xp: Any) -> Callable[..., tuple[Any, ...]]:
    """A function from one array for each feed to the outputs; `xp` has the kernels."""
    writer = _Writer(feeds, code, xp)
    source = writer.source(name)
    namespace = writer.names
    exec(compile(source, f"<numpy program {name}>", "exec"), namespace)
    run: Callable[..., tuple[Any, ...]] = namespace["run"]
    run.source = source  # type: ignore[attr-defined]
    return run


def _only(value: Any) -> Any:
    """The one result of a kernel that may give a tuple."""
    return value[0] if type(value) is tuple or type(value) is list else value


class _Writer:
    def __init__(self, feeds: Sequence[Symbolic], code: Code, xp: Any) -> None:
        self._code, self._xp = code, xp
        self._variables = {id(symbol): f"a{i}" for i, symbol in enumerate(feeds)}
        self._inputs = {id(symbol) for symbol in feeds}
        self.names: dict[str, Any] = {"array": np.array, "asarray": np.asarray, "only": _only}
        self._last = self._last_uses()
        self._buffers: dict[int, set[int]] = {}  # symbol -> all symbols that may share its memory
        self._owned: set[int] = set()  # symbols whose memory this program allocated for them

    def _last_uses(self) -> dict[int, int]:
        """The position of the last node that reads a symbol; outputs are read at the end."""
        last: dict[int, int] = {}
        for i, node in enumerate(self._code.nodes):
            last.update((id(a), i) for a in node.args if type(a) is Symbolic)
            for out in node.outputs:
                last.setdefault(id(out), i)
        last.update((id(out), len(self._code.nodes)) for out in self._code.outputs if type(out) is Symbolic)
        return last

    def source(self, name: str) -> str:
        """The text of the function `run`."""
        lines = [f"def run({', '.join(self._variables.values())}):", f"    {name!r}"]
        for i, node in enumerate(self._code.nodes):
            lines.append("    " + self._statement(i, node))
            ended = [self._variables[key] for key in self._ending(i, node) if key not in self._inputs]
            if ended:
                lines.append(f"    del {', '.join(ended)}")
        outputs = [self._output(i, out) for i, out in enumerate(self._code.outputs)]
        return "\n".join([*lines, f"    return ({''.join(f'{out}, ' for out in outputs)})"])

    def _output(self, i: int, out: Any) -> str:
        """An output, in memory of its own: a variable or a tensor will have it."""
        if type(out) is not Symbolic:
            return f"array({self._text(out)})"
        shared = self._buffers.get(id(out), {id(out)})
        others = {id(other) for other in self._code.outputs[:i] if type(other) is Symbolic}
        is_own = shared.isdisjoint(self._inputs) and shared.isdisjoint(others)
        return self._text(out) if is_own else f"array({self._text(out)})"

    def _ending(self, i: int, node: Node) -> list[int]:
        """The symbols that no later node reads."""
        symbols = [id(a) for a in (*node.args, *node.outputs) if type(a) is Symbolic]
        return [key for key in dict.fromkeys(symbols) if self._last[key] == i]

    def _text(self, value: Any) -> str:
        if type(value) is Symbolic:
            return self._variables[id(value)]
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _statement(self, i: int, node: Node) -> str:
        kernel = getattr(self._xp, node.name)
        function = f"{node.name}_{i}"
        self.names[function] = kernel
        arguments = [self._text(a) for a in node.args]
        arguments += [f"{name}={self._text(value)}" for name, value in node.attrs.items()]
        target = self._reused(i, node, kernel)
        if target is not None:
            arguments.append(f"out={self._variables[id(target)]}")
        for out in node.outputs:
            self._variables[id(out)] = f"v{len(self._variables)}"
        self._own(node, kernel, target)
        call = f"{function}({', '.join(arguments)})"
        if not node.outputs:
            return call
        if len(node.outputs) > 1:
            names = [self._variables[id(out)] for out in node.outputs]
            scalars = [name for name, out in zip(names, node.outputs, strict=True) if not out.shape]
            arrays = "".join(f"; {name} = asarray({name})" for name in scalars)  # NumPy gives scalars there
            return f"{', '.join(names)} = {call}{arrays}"
        op = registry.get(node.name)
        if op is None or op.outputs:  # a branch, a loop, a split into one part
            call = f"only({call})"
        if not node.outputs[0].shape:  # NumPy gives scalars where arrays have no axes
            call = f"asarray({call})"
        return f"{self._variables[id(node.outputs[0])]} = {call}"

    def _reused(self, i: int, node: Node, kernel: Any) -> Symbolic | None:
        """An operand that ends here and whose memory the result can have."""
        if not isinstance(kernel, np.ufunc) or node.attrs or len(node.outputs) != 1:
            return None
        (out,) = node.outputs
        if not is_known_shape(out.shape) or np.dtype(out.dtype).itemsize * int(np.prod(out.shape)) < _IN_PLACE_BYTES:
            return None
        for a in node.args:
            if type(a) is Symbolic and id(a) in self._owned and a.shape == out.shape and a.dtype == out.dtype:
                shared = self._buffers.get(id(a), {id(a)})
                if all(self._last[key] <= i for key in shared):
                    return a
        return None

    def _own(self, node: Node, kernel: Any, target: Symbolic | None) -> None:
        """Note whose memory the results are."""
        if target is not None:
            self._owned.discard(id(target))
        if isinstance(kernel, np.ufunc) or node.name in ALLOCATING:
            self._owned.update(id(out) for out in node.outputs)
            return
        # Any other kernel may return a view of an operand.
        together = {id(out) for out in node.outputs}
        for a in node.args:
            if type(a) is Symbolic:
                together |= self._buffers.get(id(a), {id(a)})
        for key in together:
            self._buffers[key] = together
