"""Store TensorFlow's answers: `python -m tests.tf_cases.record signal image random`, where TensorFlow is installed."""

from __future__ import annotations

import importlib
import json
import pathlib
import sys
from typing import Any

import numpy as np

DATA = pathlib.Path(__file__).parent.parent / "recorded"


def answers(tf: Any, case: Any) -> list[Any] | str:
    """The arrays that a case gives (None where it gives none), or the name of its error."""
    try:
        results = case()
    except Exception as error:
        return type(error).__name__
    return [None if r is None else np.asarray(r.numpy() if hasattr(r, "numpy") else r) for r in results]


def store(tf: Any, family: str) -> None:
    """Write all answers of a family to one file: numbers end to end, and an index of what they are."""
    listed: dict[str, Any] = {}
    chunks: list[bytes] = []
    for name, case in importlib.import_module(f".{family}", __package__).cases(tf).items():
        found = answers(tf, case)
        if isinstance(found, str):
            listed[name] = found
            continue
        listed[name] = [None if a is None else [a.dtype.str, a.shape] for a in found]
        chunks += [a.tobytes() for a in found if a is not None]
    numbers = np.frombuffer(b"".join(chunks), np.uint8)
    np.savez_compressed(DATA / f"{family}_tensorflow.npz", index=np.array(json.dumps(listed)), numbers=numbers)


def load(family: str) -> dict[str, Any]:
    """Name -> list of arrays, or the name of the error."""
    with np.load(DATA / f"{family}_tensorflow.npz") as stored:
        listed, numbers = json.loads(str(stored["index"])), stored["numbers"].tobytes()
    found: dict[str, Any] = {}
    at = 0
    for name, entries in listed.items():
        if isinstance(entries, str):
            found[name] = entries
            continue
        found[name] = []
        for entry in entries:
            if entry is None:
                found[name].append(None)
                continue
            dtype, shape = np.dtype(entry[0]), tuple(entry[1])
            count = int(np.prod(shape, dtype=np.int64))
            found[name].append(np.frombuffer(numbers, dtype, count, at).reshape(shape))
            at += count * dtype.itemsize
    return found


if __name__ == "__main__":
    import tensorflow

    for family in sys.argv[1:]:
        store(tensorflow, family)
