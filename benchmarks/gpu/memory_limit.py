"""GPT-2 small within memory limits on one accelerator: python -m benchmarks.gpu.memory_limit

A training step of benchmarks.gpu.gpt (attention as products and a softmax) without a limit and with 1/2, 1/4 and 1/8 of
the memory that it took: in a function, and eagerly, on lazy arrays. JAX and PyTorch run it with and without
`jax.checkpoint` and `torch.utils.checkpoint` around each block.

The memory is what XLA allocates for the largest program beside its arguments and the results that do not replace them;
for PyTorch, the peak above what is there before a step. Each row is a process of its own. They compile at the same
time, wait for each other, and are timed one after the other. `--small` is for a machine without an accelerator, where
XLA merges what is computed again with the original.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.gpt import FULL, SMALL, Size, gradtape_training, jax_training, weights_and_tokens

ROWS = (
    "function", "function/2", "function/4", "function/8", "eager", "eager/2", "eager/4",
    "jax", "jax.checkpoint", "torch", "torch.checkpoint",
)  # fmt: skip
PATIENCE = 100
"""How many seconds a row waits for the others to be compiled."""


def _largest_program() -> int:
    """The temporary bytes of the largest program that XLA has compiled."""
    import jax

    executables = jax.devices()[0].client.live_executables()
    return max((each.get_compiled_memory_stats().temp_size_in_bytes for each in executables), default=0)


def _xla(name: str, size: Size, limit: int | None) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A step, and its bytes."""
    if name.startswith("jax"):
        training = jax_training(size, False, name.endswith("checkpoint"))
    else:
        training = gradtape_training(size, False, limit, name.startswith("function"))
    return training.step, _largest_program


def _torch(name: str, size: Size) -> tuple[Callable[[], Any], Callable[[], int]]:
    import torch
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    initial, ids = weights_and_tokens(size)
    w = {key: torch.tensor(value, device=device, requires_grad=True) for key, value in initial.items()}
    optimizer = torch.optim.AdamW(w.values(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=device == "cuda")
    data = torch.tensor(ids, device=device).long()
    heads, features = size.heads, size.width // size.heads

    def norm(x: Any, gain: Any) -> Any:
        return F.layer_norm(x.float(), (size.width,), gain, None, 1e-5).bfloat16()

    def block(h: Any, ln1: Any, qkv: Any, out: Any, ln2: Any, up: Any, down: Any) -> Any:
        parts = (norm(h, ln1) @ qkv).view(size.batch, size.tokens, 3, heads, features).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(*parts, is_causal=True)
        h = h + a.transpose(1, 2).reshape(size.batch, size.tokens, size.width) @ out
        return h + F.gelu(norm(h, ln2) @ up, approximate="tanh") @ down

    def loss_of(x: Any, y: Any) -> Any:
        c = {key: value.bfloat16() if value.ndim == 2 else value for key, value in w.items()}
        h = c["wte"][x] + c["wpe"]
        for i in range(size.layers):
            given = (h, *[c[f"{i}.{name}"] for name in ("ln1", "qkv", "out", "ln2", "up", "down")])
            h = checkpoint(block, *given, use_reentrant=False) if name.endswith("checkpoint") else block(*given)
        logits = norm(h, c["lnf"]) @ c["wte"].T
        return F.cross_entropy(logits.float().view(-1, size.vocabulary), y.reshape(-1))

    compiled = torch.compile(loss_of) if device == "cuda" else loss_of
    before = [0]

    def step() -> Any:
        loss = compiled(data[:, :-1], data[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda" and not before[0]:
            torch.cuda.reset_peak_memory_stats()
            before[0] = torch.cuda.memory_allocated()
        return loss.detach()

    return step, lambda: torch.cuda.max_memory_allocated() - before[0] if device == "cuda" else 0


def measure(name: str, size: Size, limit: int | None, meeting: Path) -> dict[str, Any]:
    """The bytes of a step, its milliseconds, and the loss after a few steps."""
    try:
        step, nbytes = _torch(name, size) if name.startswith("torch") else _xla(name.split("/")[0], size, limit)
        losses = [float(step()) for _ in range(3)]
    finally:
        (meeting / name.replace("/", "-")).touch()
    deadline, expected = time.time() + PATIENCE, int((meeting / "count").read_text())
    while len([*meeting.iterdir()]) < expected + 1 and time.time() < deadline:
        time.sleep(0.1)
    with (meeting / "count").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(4):
                last = step()
            float(last)
            times.append((time.perf_counter() - began) / 4)
    return {"bytes": nbytes(), "ms": sorted(times)[2] * 1e3, "loss": losses[-1], "limit": limit}


def _start(name: str, limit: int | None, meeting: Path, small: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.gpu.memory_limit", name, "--alone", str(meeting)]
    command += (["--limit", str(limit)] if limit else []) + ["--small"] * small
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _run(names: list[str], whole: dict[str, int], small: bool) -> dict[str, dict[str, Any]]:
    """Rows that compile at the same time; `whole` has the bytes without a limit."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder)
        (meeting / "count").write_text(str(len(names)))
        started = {}
        for name in names:
            kind, _, share = name.partition("/")
            started[name] = _start(name, whole[kind] // int(share) if share else None, meeting, small)
        found = {}
        for name, process in started.items():
            lines = (process.communicate()[0] or "").splitlines()
            if process.returncode:
                print(f"{name:<18} failed", flush=True)
                continue
            found[name] = json.loads(lines[-1])
            _show(name, found[name])
    return found


def _show(name: str, found: dict[str, Any]) -> None:
    limit = f"  limit {found['limit'] / 1e9:.3f} GB: {found['bytes'] / found['limit']:.3f} x" if found["limit"] else ""
    print(
        f"{name:<18} {found['bytes'] / 1e9:9.5f} GB  {found['ms']:7.2f} ms  loss {found['loss']:.4f}{limit}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="*", metavar="ROW", help=f"some of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--small", action="store_true", help="a model of two layers, to see that all is well")
    parser.add_argument("--whole", type=float, help="the GB without a limit, if those rows are not run")
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--alone", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names, size = arguments.row or list(ROWS), SMALL if arguments.small else FULL
    if arguments.alone:
        print(json.dumps(measure(names[0], size, arguments.limit, Path(arguments.alone))))
        return
    whole = dict.fromkeys(("function", "eager"), math.floor((arguments.whole or 0) * 1e9))
    if not arguments.whole:
        first = _run([name for name in names if "/" not in name], whole, arguments.small)
        whole = {name: found["bytes"] for name, found in first.items()}
        names = [name for name in names if "/" in name]
    _run(names, whole, arguments.small)


if __name__ == "__main__":
    main()
