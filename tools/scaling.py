"""Write the table of docs/scaling.md: bytes that devices exchange in a training step, by formula and by XLA's program.

    python tools/scaling.py                     # prints the table
    python tools/scaling.py --write             # writes it into docs/scaling.md
    python tools/scaling.py --only gpt2 --devices 8

A training step of a decoder is traced by `tf.function`, with a tape and Adam, and compiled by XLA for a mesh of
simulated devices; nothing is run, and no weights exist. The program is compiled with one layer and with two. What the
second layer adds counts for every further layer. Collectives are read from the compiled program, and each counts what a
device sends in a ring.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradtape as tf

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
MARKS = ("<!-- table -->", "<!-- end of table -->")


class Model(NamedTuple):
    """A decoder: `heads` heads of attention, and dense layers of four times its width."""

    layers: int
    width: int
    heads: int
    words: int = 50304
    tokens: int = 1024

    @property
    def in_layer(self) -> int:
        """The parameters of one layer."""
        return 12 * self.width**2 + 4 * self.width

    @property
    def outside(self) -> int:
        """The parameters of the two embeddings and of the last normalization."""
        return 2 * self.words * self.width + 2 * self.width

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.layers * self.in_layer + self.outside


MODELS = {
    "gpt2": Model(12, 768, 12),
    "gpt2-medium": Model(24, 1024, 16),
    "gpt2-large": Model(36, 1280, 20),
    "1.3B": Model(24, 2048, 16),
    "7B": Model(32, 4096, 32, words=32000, tokens=2048),
}


class Setup(NamedTuple):
    """How a model is divided: the batch over `data` devices, weights over `model`, and Adam's moments if `zero`."""

    data: int
    model: int = 1
    zero: bool = False

    @property
    def devices(self) -> int:
        """How many there are."""
        return self.data * self.model


# -- the cost model --------------------------------------------------------------------------------------------------
def predicted(model: Model, setup: Setup, rows: int) -> float:
    """Bytes that a device sends in a step; `rows` is the batch of a device group, and numbers have four bytes."""
    weights = 4.0 * model.parameters / setup.model
    activations = 4.0 * rows * model.tokens * model.width
    if setup.zero:
        # Gradients are summed, except that of the embedding: its rows go to the devices that update them. Every device
        # updates its part, and the parts of the weights are gathered.
        table = 4.0 * model.words * model.width
        return ring(setup.data) * (2.0 * (weights - table) + activations + weights)
    moved = 2.0 * ring(setup.data) * weights
    if setup.model > 1:
        # Sums over the parts: in a layer two forward and four backward (the gradients of the inputs of the products for
        # queries, keys, values and the first dense layer), one after the embedding, one before the last product.
        moved += 2.0 * ring(setup.model) * activations * (6 * model.layers + 2)
    return moved


def ring(devices: int) -> float:
    """The share of an array that a device sends when it goes round a ring once."""
    return (devices - 1) / devices


def memory(model: Model, setup: Setup) -> float:
    """Bytes of weights, gradients and Adam's two moments on a device."""
    own = 4.0 * model.parameters / setup.model
    return 2.0 * own + 2.0 * own / (setup.data if setup.zero else 1)


# -- the program -----------------------------------------------------------------------------------------------------
def shapes(model: Model, layers: int) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """The weights with their axes of the mesh: products that are divided by columns, then by rows."""
    d = model.width
    columns, by_rows, whole = (None, "model"), ("model", None), (None,)
    layer = [((d, d), columns)] * 3 + [((d, d), by_rows), ((d, 4 * d), columns), ((4 * d, d), by_rows)]
    norms = [((d,), whole)] * 4
    return [((model.words, d), by_rows), ((d, model.words), columns), *[((d,), whole)] * 2, *(layer + norms) * layers]


def normalized(x: Any, scale: Any, shift: Any) -> Any:
    """Layer normalization."""
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    centred = x - mean
    return centred * tf.math.rsqrt(tf.reduce_mean(centred**2, axis=-1, keepdims=True) + 1e-5) * scale + shift


def logits_of(model: Model, weights: list[Any], tokens: Any) -> Any:
    """What the model predicts."""
    embedding, words, scale, shift, *rest = weights
    x = tf.gather(embedding, tokens)
    rows, length, heads = tokens.shape[0], model.tokens, model.heads
    mask = tf.constant(np.triu(np.full((length, length), -1e9, np.float32), 1))
    for first in range(0, len(rest), 10):
        query, key, value, out, up, down, *norms = rest[first : first + 10]
        h = normalized(x, *norms[:2])

        def split(product: Any) -> Any:
            return tf.transpose(tf.reshape(product, [rows, length, heads, model.width // heads]), [0, 2, 1, 3])

        q, k, v = split(h @ query), split(h @ key), split(h @ value)
        attention = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (heads / model.width) ** 0.5 + mask)
        mixed = tf.reshape(tf.transpose(attention @ v, [0, 2, 1, 3]), [rows, length, model.width])
        x = x + mixed @ out
        x = x + tf.nn.gelu(normalized(x, *norms[2:]) @ up, approximate=True) @ down
    return normalized(x, scale, shift) @ words


def step_of(model: Model) -> Any:
    """A training step: new weights and moments, and the loss."""

    @tf.function(jit_compile=True)
    def step(weights: list[Any], first: list[Any], second: list[Any], tokens: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits = logits_of(model, weights, tokens)
            shifted = logits - tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
            chosen = tf.reduce_sum(shifted * tf.one_hot(targets, model.words), axis=-1)
            loss = tf.reduce_mean(tf.math.log(tf.reduce_sum(tf.exp(shifted), axis=-1)) - chosen)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
        second = [0.99 * v + 0.01 * g * g for v, g in zip(second, gradients, strict=True)]
        new = [w - 1e-3 * m / (tf.sqrt(v) + 1e-8) for w, m, v in zip(weights, first, second, strict=True)]
        return new, first, second, loss

    return step


def compiled(model: Model, setup: Setup, layers: int, rows: int) -> Any:
    """The program of a step for a mesh, as XLA compiles it."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    weights = shapes(model, layers)
    specs = [tf.TensorSpec(shape) for shape, _ in weights]
    batch = tf.TensorSpec([rows * setup.data, model.tokens], tf.int32)
    concrete = step_of(model).get_concrete_function(specs, specs, specs, batch, batch)
    program = concrete.traced.plain
    devices = np.array(jax.devices()[: setup.devices]).reshape(setup.data, setup.model)
    mesh = Mesh(devices, ("data", "model"))
    placed = [NamedSharding(mesh, P(*axes)) for _, axes in weights]
    moments = (
        [NamedSharding(mesh, P(*_divided(shape, axes, setup))) for shape, axes in weights] if setup.zero else placed
    )
    given = [*placed, *moments, *moments, *[NamedSharding(mesh, P("data", None))] * 2]
    whole = NamedSharding(mesh, P())
    structs = [
        jax.ShapeDtypeStruct(
            feed.symbol.shape,
            feed.symbol.dtype,
            sharding=given[program.number_of(feed)] if program.is_explicit(feed) else whole,
        )
        for feed in program.feeds
    ]
    results = (*placed, *moments, *moments, whole)
    run = jax.jit(program.replay, out_shardings=results, donate_argnums=tuple(range(3 * len(weights))))
    return run.lower(*structs).compile()


def _divided(shape: tuple[int, ...], axes: tuple[Any, ...], setup: Setup) -> tuple[Any, ...]:
    """The axes of a moment: the first that is whole, and divides evenly, is divided over the batch's devices, too."""
    for i, (size, axis) in enumerate(zip(shape, axes, strict=True)):
        if axis is None and size % setup.data == 0:
            return (*axes[:i], "data", *axes[i + 1 :])
    return axes


# -- counting --------------------------------------------------------------------------------------------------------
_COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?\(")
_SIZES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}


def counted(text: str, devices: int) -> float:
    """Bytes that a device sends in a compiled program, by its collectives."""
    return sum(moved for _, moved in collectives(text, devices))


def collectives(text: str, devices: int) -> Iterator[tuple[str, float]]:
    """The name of each collective, and the bytes that a device sends for it."""
    for line in text.splitlines():
        found = _COLLECTIVE.search(line)
        if found is None:
            continue
        size = sum(
            _SIZES[kind] * int(np.prod([int(n) for n in shape.split(",") if n] or [1]))
            for kind, shape in re.findall(r"(\w+)\[([\d,]*)\]", found[1])
            if kind in _SIZES
        )
        group = _group(line, devices)
        name = found[2]
        times = {"all-reduce": 2 * ring(group), "reduce-scatter": group - 1.0, "collective-permute": 1.0}
        yield name, size * times.get(name, ring(group))


def _group(line: str, devices: int) -> int:
    """How many devices take part."""
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    if listed:
        return len(listed[1].split(","))
    named = re.search(r"replica_groups=mesh\[([^\]]*)\].*?\{('[^}]*)\}", line)
    if named:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        return int(np.prod([int(sizes[axis]) for axis in re.findall(r"'(\w+)'", named[2])]))
    grid = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
    return int(grid[2]) if grid else devices


def row(name: str, setup: Setup, rows: int) -> str:
    """A line of the table."""
    model = MODELS[name]
    if setup.data > 64:  # shapes are inferred on the host, where so many rows need short sequences
        model = model._replace(tokens=64)
    one, two = (counted(compiled(model, setup, n, rows).as_text(), setup.devices) for n in (1, 2))
    found = one + (model.layers - 1) * (two - one)
    expected = predicted(model, setup, rows)
    kind = "optimizer state" if setup.zero else "tensor" if setup.model > 1 else "data"
    size, place = f"{model.parameters / 1e9:.2f}", f"{setup.data} x {setup.model}"
    moved = f"{expected / 2**30:.3f} | {found / 2**30:.3f} | {found / expected:.3f}"
    return f"| {name} | {size} | {kind} | {place} | {memory(model, setup) / 2**30:.2f} | {moved} |"


def setups(devices: list[int], model: Model) -> Iterator[Setup]:
    """The ways to divide a model that are compared."""
    for count in devices:
        yield Setup(count)
        if model.width % count == 0:  # else not all moments can be divided
            yield Setup(count, zero=True)
        if count >= 8 and model.heads % 8 == 0:
            yield Setup(count // 8, 8)
        elif model.heads % 4 == 0:
            yield Setup(count // 4, 4)


def main() -> None:
    """Compile, count, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--devices", type=int, action="append")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    counts = arguments.devices or [8, 64, 512]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * max(counts))
    lines = [
        "| model | billion parameters | divided | data x model | memory, GiB | formula, GiB | XLA, GiB | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in arguments.only or MODELS:
        for setup in setups(counts, MODELS[name]):
            began = time.perf_counter()
            lines.append(row(name, setup, rows=1))
            print(f"{lines[-1]} {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    table = "\n".join(lines)
    if arguments.write:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")
    else:
        print(table)


if __name__ == "__main__":
    main()
