"""What a tape keeps in memory: python -m benchmarks.memory

- bytes saved for the gradient of the 784-256-256-10 network, beside PyTorch's where it is installed. Parameters do not
  count on either side: they are there anyway. Arrays that share memory count once.
- bytes that a record takes beside the numbers it saves, on a long chain;
- bytes that are left when a tape has died, with the cycle collector off;
- the peak of a training step, beside that of NumPy written by hand.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks import budgets, data, libraries
from benchmarks.libraries import Library
from benchmarks.race import ROOT


# -- bytes saved for a network ----------------------------------------------------------------------------------------
def _storage(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _unique_bytes(arrays: Iterable[np.ndarray], besides: Iterable[np.ndarray]) -> int:
    owners = {id(_storage(array)): (_storage(array), array) for array in arrays}
    for array in besides:
        owners.pop(id(_storage(array)), None)
    return sum(owner.nbytes - _ALIGNMENT * _is_aligned_inside(owner, array) for owner, array in owners.values())


_ALIGNMENT = 64


def _is_aligned_inside(owner: np.ndarray, array: np.ndarray) -> bool:
    """Whether the owner is raw memory with room to align an array in it. PyTorch's numbers leave such room out too."""
    return owner.dtype == np.uint8 and owner.nbytes == array.nbytes + _ALIGNMENT


def saved_by_gradtape(batch: int) -> int:
    """Bytes that a tape saves for one training step."""
    import gradtape as tf

    images, labels, initial = data.mlp(batch)
    parameters = [tf.Variable(p) for p in initial]
    x, y = tf.constant(images), tf.constant(labels)
    with tf.GradientTape() as tape:
        h = x
        for i in range(3):
            h = tf.matmul(h, parameters[i]) + parameters[3 + i]
            if i < 2:
                h = tf.nn.relu(h)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h))
    del h, loss
    saved = [value.array for record in tape.records for value in record.values if value is not None]
    return _unique_bytes(saved, [p.value().array for p in parameters])


def saved_by_torch(batch: int) -> int:
    """Bytes that PyTorch's autograd saves for the same step; runs where torch is installed."""
    import torch
    import torch.nn.functional as F

    images, labels, initial = data.mlp(batch)
    parameters = [torch.tensor(p, requires_grad=True) for p in initial]
    x, y = torch.tensor(images), torch.tensor(labels)
    saved: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        h = x
        for i in range(3):
            h = h @ parameters[i] + parameters[3 + i]
            if i < 2:
                h = torch.relu(h)
        loss = F.cross_entropy(h, y)  # keeps the graph, and so what it saved, alive while it is counted
    for p in parameters:
        saved.pop(p.untyped_storage().data_ptr(), None)
    del loss
    return sum(saved.values())


def _saved_by_torch_elsewhere(torch: Library, batch: int) -> int:
    program = f"from benchmarks.memory import saved_by_torch; print(saved_by_torch({batch}))"
    run = subprocess.run([torch.python, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(run.stdout.split()[-1])


# -- bytes for a record -----------------------------------------------------------------------------------------------
def record_bytes(step: str, length: int = 20_000) -> float:
    """Bytes that one record of a long chain takes beside the values it saves.

    A saved value is a tensor and its array: the two objects, about 180 bytes around the numbers, count with the value.
    """
    import gradtape as tf

    steps: dict[str, Callable[[Any], Any]] = {
        "tanh(y)": tf.tanh,  # saves its output
        "y + 1.0": lambda y: y + 1.0,  # saves nothing
        "y * y": lambda y: y * y,  # saves its input
    }
    function, x = steps[step], tf.constant(np.full(8, 0.5, np.float32))
    with tf.GradientTape() as tape:  # rules are compiled when first used: not part of a record
        tape.watch(x)
        y = function(x)
    tape.gradient(y, x)
    gc.collect()
    tracemalloc.start()
    tape = tf.GradientTape()
    before = tracemalloc.get_traced_memory()[0]
    with tape:
        tape.watch(x)
        y = x
        for _ in range(length):
            y = function(y)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    saved = {
        id(value): value for record in tape.records for value in record.values if value is not None and value is not x
    }
    objects = sum(sys.getsizeof(value) + sys.getsizeof(value.array) for value in saved.values())  # a size counts data
    return (taken - objects) / length


def left_behind(length: int = 2_000) -> int:
    """Bytes that every tape with many records leaves when it dies, no cycle collector having run."""
    import gradtape as tf

    x = tf.Variable(np.full(8, 0.5, np.float32))

    def use(ask: bool) -> None:
        with tf.GradientTape() as tape:
            y = x
            for _ in range(length):
                y = tf.tanh(y * 1.001)
        if ask:
            tape.gradient(y, x)

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for ask in (True, False, True) * 20:  # rules get compiled, Python's lists of free objects filled: no leaks
            use(ask)
        before = tracemalloc.get_traced_memory()[0]
        for ask in (True, False) * 5:
            use(ask)
        return (tracemalloc.get_traced_memory()[0] - before) // 10
    finally:
        tracemalloc.stop()
        gc.enable()


# -- the peak of a training step --------------------------------------------------------------------------------------
def peak(library: str, batch: int) -> int:
    """The most bytes in use at one time during a training step, over what was there before."""
    from benchmarks.workloads import build

    work = build(library, f"mlp{batch}")
    assert work is not None
    work.step()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work.step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# -- all of it --------------------------------------------------------------------------------------------------------
def measure(found: dict[str, Library]) -> dict[str, Any]:
    """All numbers of this page."""
    torch = found.get("torch")
    return {
        "saved": {
            f"mlp{batch}": {
                "gradtape": saved_by_gradtape(batch),
                **({} if torch is None else {"torch": _saved_by_torch_elsewhere(torch, batch)}),
            }
            for batch in (32, 512)
        },
        "record": {step: record_bytes(step) for step in ("tanh(y)", "y * y", "y + 1.0")},
        "left": left_behind(),
        "peak": {library: peak(library, 512) for library in ("gradtape", "numpy")},
    }


def verdicts(measured: dict[str, Any]) -> list[budgets.Verdict]:
    """The memory of a tape against its budgets."""
    found = []
    for work, row in measured["saved"].items():
        if "torch" in row:
            mine, theirs = row["gradtape"], row["torch"]
            found.append(
                budgets.Verdict(f"saved bytes, {work}", "<= those of torch", f"{mine:,} and {theirs:,}", mine <= theirs)
            )
    left, worst = measured["left"], max(measured["record"].values())
    limit = budgets.RECORD_BYTES
    kept = left < budgets.LEFT_BYTES
    found.append(budgets.Verdict("record", f"<= {limit} bytes beside what it saves", f"{worst:.0f}", worst <= limit))
    found.append(budgets.Verdict("dead tape", "nothing left, cycle collector off", f"{left} bytes", kept))
    return found


def lines(measured: dict[str, Any]) -> list[str]:
    """The numbers as text."""
    text = []
    for work, row in measured["saved"].items():
        text.append(f"saved for {work}: " + ", ".join(f"{name} {size / 1e3:.1f} kB" for name, size in row.items()))
    for step, size in measured["record"].items():
        text.append(f"a record of {step:<8} {size:4.0f} bytes beside what it saves")
    text.append(f"left behind by a dead tape: {measured['left']} bytes")
    peaks = ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in measured["peak"].items())
    text.append(f"peak of a training step, batch 512: {peaks}")
    return text


def main() -> None:
    found, absent = libraries.find()
    measured = measure(found)
    print("\n".join(lines(measured)))
    for line in absent:
        if line.startswith("torch"):
            print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
