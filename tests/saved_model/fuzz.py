"""Damage SavedModels, load them and call their functions: `python fuzz.py COUNT SEED FOLDER...`.

Every outcome has to be a result or an error with a name and a text, in limited time and memory. Damaged variables give
an error or the right values.
"""

from __future__ import annotations

import collections
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

import gradtape as tf

SECONDS = 60
MEMORY = 3 * 2**30
NAMED = (OSError, ValueError, TypeError, AttributeError, KeyError, LookupError, AssertionError, NotImplementedError,
         tf.errors.OpError)  # fmt: skip


def flipped(data, rng):
    found = bytearray(data)
    for _ in range(rng.choice([1, 2, 8, 64])):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def inserted(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.choice([1, 5, 100])) + data[at:]


def removed(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 7, 200]) :]


def repeated(data, rng):
    at = rng.randrange(len(data))
    return data[: at + 300] + data[at:]


def large(data, rng):
    """A length or a number that is huge."""
    at = rng.randrange(len(data))
    return data[:at] + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + data[at + 9 :]


CHANGES = [
    flipped, flipped, inserted, removed, repeated, large,
    lambda data, rng: data[: rng.randrange(len(data))],
    lambda data, rng: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
]  # fmt: skip


def inputs(signature):
    made = {}
    for name, spec in signature.structured_input_signature[1].items():
        shape = [3 if n is None else n for n in (spec.shape.as_list() if spec.shape.rank is not None else [])]
        if np.prod(shape) > 10**6:
            raise ValueError("the signature takes too much")
        value = (
            np.full(shape, b"red", object) if spec.dtype.name == "string" else np.ones(shape, spec.dtype.numpy_dtype)
        )
        made[name] = tf.constant(value.tolist() if value.dtype == object else value)
    return made


def run(folder):
    """The values of variables; every signature is called after they were read."""
    model = tf.saved_model.load(folder)
    found = [repr(v.numpy().tolist()) for v in vars(model).values() if isinstance(v, tf.Variable)]
    for signature in model.signatures.values():
        signature(**inputs(signature))
    return found


def too_slow(*_):
    raise SystemExit("it hangs")


def main(count, seed, *folders):
    rng = random.Random(int(seed))
    signal.signal(signal.SIGALRM, too_slow)
    expected = {folder: run(folder) for folder in folders}  # what this imports and compiles counts for no other
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    outcomes = collections.Counter()
    for i in range(int(count)):
        source = Path(rng.choice(folders))
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / "m"
            shutil.copytree(source, target)
            files = [path for path in sorted(target.rglob("*")) if path.is_file() and path.stat().st_size]
            path = rng.choice([*files, target / "saved_model.pb", target / "saved_model.pb"])
            change = rng.choice(CHANGES)
            path.write_bytes(change(path.read_bytes(), rng))
            signal.alarm(SECONDS)
            try:
                values = run(str(target))
                outcomes["result"] += 1
                if path.parent.name == "variables" and values != expected[str(source)]:
                    raise SystemExit("wrong values")
            except NAMED as error:
                assert str(error) or type(error) is KeyError, f"{type(error).__name__} without a text"
                outcomes[type(error).__name__] += 1
            except BaseException as error:
                where = f"{source.name}/{path.name}, round {i} of seed {seed}"
                raise SystemExit(f"{type(error).__name__}: {error} in {where}") from error
            finally:
                signal.alarm(0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - used
        if grown > MEMORY:
            raise SystemExit(f"{grown / 1e9:.1f} GB of memory in round {i} of seed {seed}")
    print(f"{count} damaged: {dict(outcomes.most_common())}; {grown / 1e6:.0f} MB more than before")


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main(*sys.argv[1:]))
