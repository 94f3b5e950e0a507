"""A training step of GPT-2 small on one accelerator, with gradtape and with JAX: python -m benchmarks.gpu.gpt

12 layers, 768 wide, 12 heads, 1024 tokens, batch 16, vocabulary 50304: float32 weights, bfloat16 activations, AdamW.
Both libraries start from the same weights and see the same tokens. There are two forms: `plain` writes attention out as
products and a softmax, `fused` calls the library's own attention. Each of the four programs runs in a process of its
own, so that the peak of the memory is its own. Nothing is asserted; `--small` is for a machine without an accelerator.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LIBRARIES, FORMS = ("jax", "gradtape"), ("plain", "fused")
RATE, MOMENTUM, SPREAD, DECAY, EPSILON = 3e-4, 0.9, 0.95, 0.1, 1e-8
WARM_UP, ROUNDS, STEPS = 3, 5, 4
OPTIONS = {
    "xla_gpu_enable_triton_gemm": False,  # cuBLAS adds what comes by a residual connection while it multiplies
    "xla_gpu_dot_merger_threshold_mb": 0,  # queries, keys and values stay three products: nothing to cut out of one
}
"""What gradtape's programs are compiled with."""
OVER_JAX = 1.03
"""A step takes at most so many times as long as JAX's."""


class Size(NamedTuple):
    """How large the model is."""

    layers: int
    width: int
    heads: int
    tokens: int
    batch: int
    vocabulary: int


FULL, SMALL = Size(12, 768, 12, 1024, 16, 50304), Size(2, 64, 4, 32, 2, 128)


def weights_and_tokens(size: Size) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Where training starts, and sequences with one token more than the model reads: the last one is to be found."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)

    ones, d = np.ones(size.width, np.float32), size.width
    weights = {"wte": normal(size.vocabulary, d), "wpe": normal(size.tokens, d), "lnf": ones}
    for i in range(size.layers):
        weights |= {f"{i}.ln1": ones, f"{i}.qkv": normal(d, 3 * d), f"{i}.out": normal(d, d)}
        weights |= {f"{i}.ln2": ones, f"{i}.up": normal(d, 4 * d), f"{i}.down": normal(4 * d, d)}
    return weights, rng.integers(0, size.vocabulary, (size.batch, size.tokens + 1)).astype(np.int32)


class Training(NamedTuple):
    """A step that returns a loss which may not be computed yet, and the text of the program that XLA made of it."""

    step: Callable[[], Any]
    optimized: Callable[[], str]


# -- gradtape ---------------------------------------------------------------------------------------------------------
def gradtape_training(size: Size, fused: bool, limit: int | None = None, compiled: bool = True) -> Training:
    """A step within a memory limit, if one is given; eager steps are programs of lazy arrays."""
    import gradtape as tf

    tf.config.set_compiler_options(OPTIONS)
    initial, ids = weights_and_tokens(size)
    gpus = tf.config.list_logical_devices("GPU")
    with tf.device(gpus[0].name if gpus else None):
        weights = {name: tf.Variable(value, name=name) for name, value in initial.items()}
        means = {name: tf.Variable(tf.zeros_like(w), trainable=False) for name, w in weights.items()}
        squares = {name: tf.Variable(tf.zeros_like(w), trainable=False) for name, w in weights.items()}
        count = tf.Variable(1.0, trainable=False)
        inputs, targets = tf.constant(ids[:, :-1]), tf.constant(ids[:, 1:])
    heads, features = size.heads, size.width // size.heads
    allowed = tf.constant(np.tril(np.ones((size.tokens, size.tokens), bool)))

    def norm(x: Any, gain: Any) -> Any:
        return tf.cast(tf.nn.layer_normalization(tf.cast(x, tf.float32), gain), tf.bfloat16)

    def attend(q: Any, k: Any, v: Any) -> Any:
        if fused:
            q, k, v = (tf.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
            return tf.transpose(tf.nn.scaled_dot_product_attention(q, k, v, is_causal=True), (0, 2, 1, 3))
        scores = tf.cast(tf.einsum("bqhf,bkhf->bhqk", q, k), tf.float32) / math.sqrt(features)
        shares = tf.nn.softmax(tf.where(allowed, scores, -1e30))
        return tf.einsum("bhqk,bkhf->bqhf", tf.cast(shares, tf.bfloat16), v)

    def loss_of(tokens: Any, y: Any) -> Any:
        w = {name: tf.cast(v, tf.bfloat16) if v.shape.rank == 2 else v for name, v in weights.items()}
        h = tf.gather(w["wte"], tokens) + w["wpe"]
        for i in range(size.layers):
            x = norm(h, w[f"{i}.ln1"])
            parts = [x @ third for third in tf.split(w[f"{i}.qkv"], 3, -1)]
            a = attend(*[tf.reshape(part, (size.batch, size.tokens, heads, features)) for part in parts])
            h = h + tf.reshape(a, (size.batch, size.tokens, size.width)) @ w[f"{i}.out"]
            h = h + tf.nn.gelu(norm(h, w[f"{i}.ln2"]) @ w[f"{i}.up"], approximate=True) @ w[f"{i}.down"]
        logits = tf.cast(tf.matmul(norm(h, w["lnf"]), w["wte"], transpose_b=True), tf.float32)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape(**({} if limit is None else {"memory_limit": limit})) as tape:
            loss = loss_of(x, y)
        for name, g in tape.gradient(loss, weights).items():
            w, m, s = weights[name], means[name], squares[name]
            g = tf.convert_to_tensor(g)
            m.assign(MOMENTUM * m + (1 - MOMENTUM) * g)
            s.assign(SPREAD * s + (1 - SPREAD) * g * g)
            direction = m / (1 - MOMENTUM**count) / (tf.sqrt(s / (1 - SPREAD**count)) + EPSILON)
            w.assign(w - RATE * (direction + DECAY * w))
        count.assign_add(1.0)
        return loss

    if compiled:
        update = tf.function(update, jit_compile=True)

    def optimized() -> str:
        return str(update.experimental_get_compiler_ir(inputs, targets)(stage="optimized_hlo"))

    return Training(lambda: update(inputs, targets).array, optimized)


# -- JAX --------------------------------------------------------------------------------------------------------------
def jax_training(size: Size, fused: bool, checkpoints: bool = False) -> Training:
    import jax
    import jax.numpy as jnp

    initial, ids = weights_and_tokens(size)
    weights = {name: jnp.asarray(value) for name, value in initial.items()}
    state = [weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.float32(1)]
    inputs, targets = jnp.asarray(ids[:, :-1]), jnp.asarray(ids[:, 1:])
    heads, features = size.heads, size.width // size.heads
    allowed = jnp.tril(jnp.ones((size.tokens, size.tokens), bool))
    implementation: Any = "cudnn" if jax.default_backend() == "gpu" else None

    def norm(x: Any, gain: Any) -> Any:
        x = x.astype(jnp.float32)
        x = x - x.mean(-1, keepdims=True)
        return (x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain).astype(jnp.bfloat16)

    def attend(q: Any, k: Any, v: Any) -> Any:
        if fused:
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=implementation)
        scores = jnp.einsum("bqhf,bkhf->bhqk", q, k).astype(jnp.float32) / math.sqrt(features)
        shares = jax.nn.softmax(jnp.where(allowed, scores, -1e30))
        return jnp.einsum("bhqk,bkhf->bqhf", shares.astype(jnp.bfloat16), v)

    def loss_of(weights: dict[str, Any], x: Any, y: Any) -> Any:
        w = {name: v.astype(jnp.bfloat16) if v.ndim == 2 else v for name, v in weights.items()}
        h = w["wte"][x] + w["wpe"]

        def block(h: Any, ln1: Any, qkv: Any, out: Any, ln2: Any, up: Any, down: Any) -> Any:
            parts = jnp.split(norm(h, ln1) @ qkv, 3, -1)
            a = attend(*[part.reshape(size.batch, size.tokens, heads, features) for part in parts])
            h = h + a.reshape(size.batch, size.tokens, size.width) @ out
            return h + jax.nn.gelu(norm(h, ln2) @ up) @ down

        for i in range(size.layers):
            parts = [w[f"{i}.{name}"] for name in ("ln1", "qkv", "out", "ln2", "up", "down")]
            h = (jax.checkpoint(block) if checkpoints else block)(h, *parts)
        logits = (norm(h, w["lnf"]) @ w["wte"].T).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()

    def update(weights: Any, means: Any, squares: Any, count: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        means = jax.tree.map(lambda m, g: MOMENTUM * m + (1 - MOMENTUM) * g, means, gradients)
        squares = jax.tree.map(lambda s, g: SPREAD * s + (1 - SPREAD) * g * g, squares, gradients)

        def moved(w: Any, m: Any, s: Any) -> Any:
            direction = m / (1 - MOMENTUM**count) / (jnp.sqrt(s / (1 - SPREAD**count)) + EPSILON)
            return w - RATE * (direction + DECAY * w)

        return jax.tree.map(moved, weights, means, squares), means, squares, count + 1, loss

    jitted = jax.jit(update, donate_argnums=(0, 1, 2, 3))

    def step() -> Any:
        *state[:], loss = jitted(*state, inputs, targets)
        return loss

    return Training(step, lambda: jitted.lower(*state, inputs, targets).compile().as_text())


# -- measuring --------------------------------------------------------------------------------------------------------
def measure(library: str, form: str, size: Size, dump: str | None) -> dict[str, Any]:
    """Milliseconds of a step, the loss after the first few, the peak of the memory in bytes.

    After some steps more the losses of any two programs drift apart: rounding of bfloat16 is all they differ by, and
    training at this rate, without a slow start, makes much of it.
    """
    training = {"jax": jax_training, "gradtape": gradtape_training}[library](size, form == "fused")
    began = time.perf_counter()
    float(training.step())
    first = time.perf_counter() - began
    losses = [float(training.step()) for _ in range(WARM_UP)]
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(STEPS):
            last = training.step()
        float(last)
        times.append((time.perf_counter() - start) / STEPS)
    import jax

    statistics = jax.devices()[0].memory_stats() or {}
    found = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "ms": sorted(times)[len(times) // 2] * 1e3,
        "best_ms": min(times) * 1e3,
        "first_s": first,
        "loss": losses[-1],
        "peak": statistics.get("peak_bytes_in_use", 0),
    }
    if dump:
        Path(dump, f"{library}.{form}.hlo.txt").write_text(training.optimized(), encoding="utf-8")
    return found


def _in_a_process(library: str, form: str, small: bool, dump: str | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gpu.gpt", f"{library}.{form}", "--alone"]
    command += ["--small"] * small + (["--dump", dump] if dump else [])
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def _show(name: str, found: dict[str, Any], size: Size) -> None:
    speed = size.batch * size.tokens / found["ms"] * 1e3
    print(
        f"{name:<15} {found['ms']:7.2f} ms/step (best {found['best_ms']:.2f})  {speed:9,.0f} tokens/s  "
        f"loss after {1 + WARM_UP} {found['loss']:.4f}  peak {found['peak'] / 2**30:.2f} GB  "
        f"first step {found['first_s']:.0f} s",
        flush=True,
    )


def _compare(mine: dict[str, Any], theirs: dict[str, Any], form: str) -> None:
    ratio = mine["ms"] / theirs["ms"]
    memory = f"{mine['peak'] / theirs['peak']:.3f} x" if theirs["peak"] else "not told"
    print(
        f"{form}: gradtape takes {ratio:.3f} x the time of JAX (budget {OVER_JAX:g}: "
        f"{'met' if ratio <= OVER_JAX else 'not met'}), memory {memory}, "
        f"losses {abs(mine['loss'] - theirs['loss']):.4f} apart"
    )


def main() -> None:
    names = [f"{library}.{form}" for form, library in product(FORMS, LIBRARIES)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=f"some of {', '.join(names)} (default: all)")
    parser.add_argument("--small", action="store_true", help="a model of two layers, to see that all is well")
    parser.add_argument("--dump", metavar="FOLDER", help="write what XLA made of each program there")
    parser.add_argument("--alone", action="store_true", help="in this process, and only its numbers, as JSON")
    arguments = parser.parse_args()
    asked, size = arguments.program or names, SMALL if arguments.small else FULL
    unknown = [name for name in asked if name not in names]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(names)}")
    if arguments.alone:
        print(json.dumps(measure(*asked[0].split("."), size, arguments.dump)))
        return
    results = {}
    for name in asked:
        library, form = name.split(".")
        results[name] = _in_a_process(library, form, arguments.small, arguments.dump)
        _show(name, results[name], size)
    for form in FORMS:
        if f"gradtape.{form}" in results and f"jax.{form}" in results:
            _compare(results[f"gradtape.{form}"], results[f"jax.{form}"], form)
    last = next(iter(results.values()))
    print(f"{last['device']}, JAX {last['jax']}")


if __name__ == "__main__":
    main()
