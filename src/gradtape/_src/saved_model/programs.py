"""Run programs that gradtape has saved: StableHLO, with as many derivatives as were exported."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.graph_ops import collector
from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.conversion import convert, wrap
from gradtape._src.devices import require_jax
from gradtape._src.dtypes import as_dtype, dtype_of
from gradtape._src.formats.protobuf import Message, encode
from gradtape._src.jax_setup import configure
from gradtape._src.saved_model.messages import Fields, integer, read, texts
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.python_functions import py_function

GRADIENT = "CustomGradient-gradtape-"
"""The prefix of op types that give a program a gradient in TensorFlow."""

ATTR = "_gradtape_program"
"""The attr of an XlaCallModule node with the program and its derivatives; TensorFlow ignores it."""


def is_differentiable(dtype: Any) -> bool:
    """Whether gradients flow through arrays of this dtype."""
    return dtype_of(np.empty(0, dtype)).is_floating or np.dtype(dtype).kind == "c"


# -- in the file -----------------------------------------------------------------------------------------------------
def stored(exported: Any) -> Message:
    """The stored form of an exported program: its code, and the dtypes and shapes of inputs and results."""
    return [
        (1, bytes(exported.mlir_module_serialized)),
        *((2, _described(each)) for each in exported.in_avals),
        *((3, _described(each)) for each in exported.out_avals),
    ]


def sealed(orders: Message) -> bytes:
    """Programs with a digest: XLA trusts the code that it runs."""
    data = encode(orders)
    return encode([(1, data), (2, hashlib.blake2b(data, digest_size=16).digest())])


def _opened(data: Any) -> Fields:
    """The programs, after checking that they are unchanged."""
    message = read(data)
    inside, digest = (message.get(number, [b""])[-1] for number in (1, 2))
    if not isinstance(inside, bytes) or hashlib.blake2b(inside, digest_size=16).digest() != digest:
        raise ValueError("a program is damaged: its checksum does not match")
    return read(inside)


def _described(array: Any) -> bytes:
    return f"{np.dtype(array.dtype).name}|{','.join(map(str, array.shape))}".encode()


def _restored(message: Fields) -> Any:
    """Restore an exported program, by putting its code into JAX's description of a program with the same signature."""
    import jax
    from jax import export

    scope = export.SymbolicScope()

    def specs(number: int) -> list[Any]:
        found = []
        for each in texts(message, number):
            dtype, _, shape = each.partition("|")
            sizes = export.symbolic_shape(f"({shape},)" if shape else "()", scope=scope)
            found.append(jax.ShapeDtypeStruct(sizes, as_dtype(dtype).numpy_dtype))
        return found

    inputs, outputs = specs(2), specs(3)

    def same(*_: Any) -> Any:
        return tuple(jax.numpy.zeros(out.shape, out.dtype) for out in outputs)

    platforms = ("cpu", "cuda")
    template = export.export(jax.jit(same, keep_unused=True), platforms=platforms)(*inputs)
    return dataclasses.replace(template, mlir_module_serialized=message[1][-1])


# -- running ---------------------------------------------------------------------------------------------------------
class StoredProgram:
    """A program of a SavedModel: it takes and returns lists of tensors, and is differentiable."""

    def __init__(self, data: Any, version: int) -> None:
        message = _opened(data)
        self.data, self.version = data, version
        self.results = integer(message, 4)
        self.orders = [read(each) for each in message.get(1, [])]
        if not self.orders or any(1 not in each for each in self.orders):
            raise ValueError("a program is missing")
        self._made: dict[int, Any] = {}

    def __call__(self, inputs: list[Any]) -> list[Tensor]:
        require_jax("A function that gradtape has saved")
        tensors = [convert(each) for each in inputs]
        if all(map(is_known, tensors)):
            return self.run(tensors, 0)
        ops = collector()
        if ops is not None and current_graph() is ops.graph:
            found: list[Tensor] = ops.add(
                "XlaCallModule", {"args": tensors}, {"program": self}, self._results_for(tensors)
            )
            return found
        found = py_function(lambda *xs: self.run(list(xs), 0), tensors, self._specs(tensors))
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _results_for(self, tensors: list[Tensor]) -> list[tuple[list[Any], Any]]:
        """Shapes and dtypes of the results; a size that no input has depends on values (None)."""
        sizes: dict[str, Any] = {}
        for each, tensor in zip(texts(self.orders[0], 2), tensors, strict=True):
            names = each.partition("|")[2].split(",") if tensor.array.shape else []
            sizes.update(zip(names, tensor.array.shape, strict=True))
        found = []
        for each in texts(self.orders[0], 3):
            dtype, _, shape = each.partition("|")
            names = shape.split(",") if shape else []
            found.append(([int(n) if n.isdecimal() else sizes.get(n) for n in names], as_dtype(dtype)))
        return found

    def _specs(self, tensors: list[Tensor]) -> list[Any]:
        """The dtypes of the results and, if the inputs have known shapes, their shapes."""
        import jax

        if any(is_dimension(n) for each in tensors for n in each.array.shape):
            return [as_dtype(each.partition("|")[0]) for each in texts(self.orders[0], 3)]
        given = [jax.ShapeDtypeStruct(each.array.shape, each.array.dtype) for each in tensors]
        found = jax.eval_shape(self._compiled(0), *given)
        return [TensorSpec(each.shape, dtype_of(np.empty(0, each.dtype))) for each in found]

    def run(self, tensors: list[Tensor], order: int) -> list[Tensor]:
        """Run the program, or a vjp of it; tapes record a call of the next vjp."""

        @custom_gradient
        def program(*xs: Any) -> Any:
            results = [wrap(np.asarray(out)) for out in self._compiled(order)(*(np.asarray(x.array) for x in xs))]

            def vjp(*g: Any) -> Any:
                if order + 1 >= len(self.orders):
                    raise LookupError(
                        f"The derivative of order {order + 1} was not saved with the model: gradtape saves two, or "
                        "fewer if a program cannot be differentiated."
                    )
                count = len(results) if order else self.results  # followed by new values of variables
                pairs = list(zip(g, results, strict=True))[:count]
                cotangents = [each for each, out in pairs if is_differentiable(out.array.dtype)]
                found = iter(self.run([*map(convert, xs), *map(convert, cotangents)], order + 1))
                return [next(found) if is_differentiable(each.array.dtype) else None for each in tensors]

            return results, vjp

        found = program(*tensors)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _compiled(self, order: int) -> Any:
        import jax

        configure()
        if order not in self._made:
            self._made[order] = jax.jit(_restored(self.orders[order]).call)
        return self._made[order]
