"""A graph as straight-line Python over NumPy kernels: no compilation, no dispatch, no tensors, no records.

The source is generated once for a program, after the passes of `passes.py`:

    def pinn_step(a0, a1, a2):
        v0 = matmul_0(a0, a1)
        v1 = add_1(v0, a2, out=v0)
        v2 = tanh_2(v1, out=v1)
        return (v2,)

Values are deleted after their last use, because memory that was just freed is still in the cache. An elementwise op
writes into an operand that is not used again, if that operand owns its memory: it is the result of an op that
allocates, and has no views.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.dimensions import Sizes, is_known_shape, sized
from gradtape._src.arrays.numpy.blocks import blockwise, in_blocks
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.core.primitive import registry
from gradtape._src.graph.fusion import FUSED, PAIRED, fuse, pair
from gradtape._src.graph.passes import Code
from gradtape._src.graph.replay import is_blockwise

ALLOCATING = frozenset({
    "conv", "conv_filter_grad", "conv_input_grad", "gate", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope",
    "log_softmax", "matmul", "max_pool", "max_unpool", "relu", "sigmoid", "softmax",
})  # fmt: skip
"""Kernels besides ufuncs that always return newly allocated arrays."""

REAL_UFUNCS: dict[str, np.ufunc] = {"log1p": np.log1p}
"""Kernels that are ufuncs for real numbers."""

_IN_PLACE_BYTES = 2**12
"""The size from which on reusing memory pays for the keyword argument."""

_KEPT = 2
"""The number of released arrays of a shape and dtype that are kept for later results."""


_VIEWS = frozenset({"barrier", "broadcast_to", "expand_dims", "flip", "getitem", "reshape", "squeeze", "transpose"})
"""Kernels that return a view of their operand."""


class Executable(NamedTuple):
    """A program for NumPy: the function, its source, and its use of memory.

    peak    the largest number of bytes of live values, without inputs and values of dynamic sizes
    reused  the number of results that are written into the memory of a dead value
    fused   the functions of its fused nodes
    """

    run: Callable[..., tuple[Any, ...]]
    source: str
    names: dict[str, Any]
    peak: int
    reused: int
    fused: Sequence[Executable]

    def listing(self) -> str:
        """The source for people: ops without numbers, constants inline."""
        text = re.sub(r"\b([a-z]\w*)_\d+\(", r"\1(", self.source)
        own = re.sub(r"\bc\d+\b", lambda match: _shown(self.names.get(match[0], match[0])), text)
        return "\n\n".join([*[inner.listing() for inner in self.fused], own])


def executor(name: str, feeds: Sequence[Symbolic], code: Code, xp: Any, sizes: Sizes = ()) -> Executable:
    """A function of one array for each feed that returns the outputs; `xp` has the kernels, `sizes` are dimensions."""
    return _executable(name, _Writer(feeds, fuse(pair(code, sizes), sizes), xp, sizes))


def _executable(name: str, writer: _Writer) -> Executable:
    source = writer.source(name)
    namespace = writer.names | {"__name__": __name__}
    exec(compile(source, f"<numpy program {name}>", "exec"), namespace)
    return Executable(namespace["run"], source, namespace, writer.peak, writer.reused, writer.fused)


def _shown(value: Any) -> str:
    """A constant in a listing."""
    is_long = isinstance(value, np.ndarray) and value.size > 4
    text = f"{value.dtype}{list(value.shape)}" if is_long else re.sub(r"\s+", " ", repr(value))
    return text if len(text) <= 60 else f"<{type(value).__name__}>"


def _only(value: Any) -> Any:
    """The only result of a kernel that may return a tuple."""
    return value[0] if type(value) is tuple or type(value) is list else value


def _text(value: Any) -> Any:
    """A string as a 0-d object array: NumPy would make fixed-length bytes of it."""
    return np.asarray(value, object)


class _Writer:
    """Writes the code of a program, or of the ops in a fused node, whose arrays are blocks."""

    def __init__(self, feeds: Sequence[Symbolic], code: Code, xp: Any, sizes: Sizes, in_block: bool = False) -> None:
        self._code, self._xp, self._sizes, self._in_block = code, xp, sizes, in_block
        self._variables = {id(symbol): f"a{i}" for i, symbol in enumerate(feeds)}
        self._inputs = {id(symbol) for symbol in feeds}
        self._outs = {id(out): f"out{i}" for i, out in enumerate(code.outputs)} if in_block else {}
        self.names: dict[str, Any] = {"array": np.array, "asarray": np.asarray, "only": _only, "text": _text}
        self._last = self._last_uses()
        self._buffers: dict[int, set[int]] = {}  # by symbol, all symbols that may share its memory
        self._owned: set[int] = set()  # symbols whose memory this program allocated for them
        self._symbols = {id(s): s for node in code.nodes for s in (*node.args, *node.outputs) if type(s) is Symbolic}
        self._ended: list[str] = []  # names that are dead after the statement
        self.fused: list[Executable] = []  # the functions of fused nodes
        self.peak = self.reused = self._total = 0
        self._bytes: dict[str, int] = {}  # of the live names
        self._free: dict[tuple[Any, ...], list[str]] = {}  # names of released memory, most recent last

    def _shape(self, symbol: Symbolic) -> tuple[Any, ...]:
        return sized(symbol.shape, self._sizes)

    def _kind(self, symbol: Symbolic) -> tuple[Any, ...]:
        """A key that is equal for values that fit into the same memory."""
        return self._shape(symbol), np.dtype(symbol.dtype)

    def _size(self, symbol: Symbolic) -> int:
        """The size in bytes; 0 if it is unknown."""
        shape = self._shape(symbol)
        return np.dtype(symbol.dtype).itemsize * prod(shape) if is_known_shape(shape) else 0

    def _takes_out(self, node: Node, kernel: Any) -> bool:
        """Whether a kernel can write its result, a large one, into a given array."""
        if len(node.outputs) != 1 or self._size(node.outputs[0]) < _IN_PLACE_BYTES:
            return False
        if isinstance(kernel, np.ufunc):
            return not node.attrs
        is_matrix = all(type(a) is Symbolic and len(a.shape) == 2 for a in node.args)
        return node.name == "matmul" and is_matrix and np.dtype(node.outputs[0].dtype).char in "fd"

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
        lines = [f"def run({', '.join([*self._variables.values(), *self._outs.values()])}):", f"    {name!r}"]
        for i, node in enumerate(self._code.nodes):
            lines.append("    " + self._statement(i, node) + self._comment(node))
            self.peak = max(self.peak, self._total)
            for key in self._ending(i, node):
                self._release(i, key)
            if self._ended:
                lines.append(f"    del {', '.join(self._ended)}")
                for ended in self._ended:
                    self._total -= self._bytes.pop(ended, 0)
                self._ended.clear()
        outputs = [self._output(i, out) for i, out in enumerate(self._code.outputs)]
        return "\n".join([*lines, f"    return ({''.join(f'{out}, ' for out in outputs)})"])

    def _comment(self, node: Node) -> str:
        """The comment of a statement: the shape and dtype of its result."""
        kinds = [f"{s.dtype}[{','.join(map(str, self._shape(s)))}]" for s in node.outputs]
        return f"  # {', '.join(kinds)}"

    def _place(self, node: Node, memory: str | None) -> None:
        """Note the memory of results: that of another value, or new."""
        if memory is not None:
            self.reused += 1
            self._bytes[self._variables[id(node.outputs[0])]] = self._bytes.pop(memory, 0)
        elif node.name not in _VIEWS:
            for out in node.outputs:
                self._bytes[self._variables[id(out)]] = size = self._size(out)
                self._total += size

    def _output(self, i: int, out: Any) -> str:
        """An output that owns its memory, because it becomes the value of a variable or a tensor."""
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
        if type(value) is Symbolic or id(value) in self._inputs:
            return self._variables[id(value)]
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _kernel(self, node: Node) -> Any:
        if node.name == FUSED:
            return self._fused(node)
        if node.name in REAL_UFUNCS and np.dtype(node.outputs[0].dtype).kind != "c":
            return REAL_UFUNCS[node.name]
        return getattr(self._xp, node.name)

    def _fused(self, node: Node) -> Any:
        """The kernel of a fused node."""
        inside = _Writer(node.attrs["feeds"], node.attrs["code"], self._xp, self._sizes, in_block=True)
        found = _executable(f"fused_{len(self.fused)}", inside)
        self.fused.append(found)
        self.reused += found.reused
        return in_blocks(found.run, self._shape(node.outputs[0]), [np.dtype(out.dtype) for out in node.outputs])

    def _statement(self, i: int, node: Node) -> str:
        kernel = self._kernel(node)
        function = f"{node.name}_{i}"
        is_large = not self._in_block and is_blockwise(node, self._sizes)
        self.names[function] = blockwise(kernel) if is_large else kernel
        arguments = [self._text(a) for a in node.args]
        if node.name != FUSED:
            arguments += [f"{name}={self._text(value)}" for name, value in node.attrs.items()]
        given = self._given(node, kernel)
        target, memory = (None, None) if given else self._memory(i, node, kernel)
        if given or memory:
            arguments.append(f"out={given or memory}")
        for out in node.outputs:
            self._variables[id(out)] = f"v{len(self._variables)}"
        self._place(node, memory)
        self._own(node, kernel, target)
        call = f"{function}({', '.join(arguments)})"
        if not node.outputs:
            return call
        if len(node.outputs) > 1:
            names = [self._variables[id(out)] for out in node.outputs]
            scalars = [name for name, out in zip(names, node.outputs, strict=True) if not out.shape]
            arrays = "".join(f"; {name} = asarray({name})" for name in scalars)  # NumPy returns scalars here
            return f"{', '.join(names)} = {call}{arrays}"
        op = registry.get(node.name)
        if op is None or op.outputs:  # a branch, a loop, a split into one part
            call = f"only({call})"
        if not node.outputs[0].shape:  # NumPy returns scalars instead of 0-d arrays
            call = f"text({call})" if node.outputs[0].dtype.kind == "O" else f"asarray({call})"
        return f"{self._variables[id(node.outputs[0])]} = {call}"

    def _memory(self, i: int, node: Node, kernel: Any) -> tuple[Symbolic | None, str | None]:
        """The operand whose memory a result takes, if any, and the name of that memory or of released memory."""
        target = self._reused(i, node, kernel)
        if target is not None:
            return target, self._variables[id(target)]
        memory = self._room(node, kernel)
        if memory is not None:
            self._ended.append(memory)
        return None, memory

    def _given(self, node: Node, kernel: Any) -> str | None:
        """The part of a fused node's result that a node inside it can write to."""
        outs = [self._outs.get(id(out)) for out in node.outputs]
        if node.name in PAIRED:
            return f"({', '.join(map(str, outs))})" if any(outs) else None
        return outs[0] if self._takes_out(node, kernel) else None

    def _release(self, i: int, key: int) -> None:
        """Keep the memory of a dead value for a result of the same shape and dtype, or delete its name.

        Results get the memory that was released last, which is still in the cache. A few arrays of each kind are kept.
        """
        name = self._variables[key]
        if key in self._inputs:
            return
        if key not in self._owned or not self._is_last(key, i) or self._size(self._symbols[key]) < _IN_PLACE_BYTES:
            self._ended.append(name)
            return
        names = self._free.setdefault(self._kind(self._symbols[key]), [])
        names.append(name)
        if len(names) > _KEPT:
            self._ended.append(names.pop(0))

    def _room(self, node: Node, kernel: Any) -> str | None:
        """Released memory for the result of a node; None if there is none, or if it needs none."""
        if not self._takes_out(node, kernel):
            return None
        names = self._free.get(self._kind(node.outputs[0]))
        return names.pop() if names else None

    def _is_last(self, key: int, i: int) -> bool:
        """Whether nothing reads the memory of a symbol after this node."""
        return all(self._last[other] <= i for other in self._buffers.get(key, {key}))

    def _reused(self, i: int, node: Node, kernel: Any) -> Symbolic | None:
        """An operand that is dead after this node, and whose memory the result can take."""
        if not self._takes_out(node, kernel) or not isinstance(kernel, np.ufunc):
            return None
        (out,) = node.outputs
        for a in node.args:
            if (
                type(a) is Symbolic
                and id(a) in self._owned
                and self._kind(a) == self._kind(out)
                and self._is_last(id(a), i)
            ):
                return a
        return None

    def _own(self, node: Node, kernel: Any, target: Symbolic | None) -> None:
        """Note which symbols own the memory of the results."""
        if target is not None:
            self._owned.discard(id(target))
        if isinstance(kernel, np.ufunc) or node.name in ALLOCATING or node.name in PAIRED or node.name == FUSED:
            self._owned.update(id(out) for out in node.outputs)
            return
        if node.name == "island":  # new memory, which nothing may write to: it may be XLA's
            return
        # Any other kernel may return a view of an operand.
        together = {id(out) for out in node.outputs}
        for a in node.args[:1] if node.name == "barrier" else node.args:
            if type(a) is Symbolic:
                together |= self._buffers.get(id(a), {id(a)})
        for key in together:
            self._buffers[key] = together
