"""Strings, tables, ragged tensors and summaries: each call beside TensorFlow's, or beside the dense op.

    python -m benchmarks.text                     # gradtape alone
    BENCH_TENSORFLOW=~/tf/bin/python python -m benchmarks.text

Strings and tables have 10,000 rows. A ragged op is compared with the dense op on the same values. The best time of
several rounds counts, in microseconds; libraries take turns, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROWS = 10_000


def strings(tf: Any, np: Any, rows: int = ROWS) -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("abcdefgh"), rng.integers(2, 9))) for _ in range(500)])
    lines = tf.constant([" ".join(words[rng.integers(0, 500, 8)]) for _ in range(rows)])
    short = tf.constant(words[rng.integers(0, 500, rows)])
    accents = tf.constant([w + "é" for w in words[rng.integers(0, 500, rows)]])
    numbers = tf.constant([f"{x:.3f}" for x in rng.normal(size=rows)])
    integers = tf.constant([str(n) for n in rng.integers(0, 10_000, rows)])
    floats, whole = tf.constant(rng.normal(size=rows).astype(np.float32)), tf.constant(rng.integers(0, 9999, rows))
    picked = tf.constant(rng.integers(0, rows, rows))
    pairs = tf.reshape(short, [-1, 4])
    points = tf.constant(rng.integers(97, 120, (rows, 6)).astype(np.int32))
    ragged = tf.strings.split(lines)
    s = tf.strings
    return {
        "as_string float": lambda: s.as_string(floats),
        "as_string int": lambda: s.as_string(whole),
        "as_string precision": lambda: s.as_string(floats, precision=3),
        "bytes_split": lambda: s.bytes_split(short),
        "equal": lambda: short == "abc",
        "format": lambda: s.format("{}", whole),
        "gather": lambda: tf.gather(short, picked),
        "join": lambda: s.join([short, short], "-"),
        "length": lambda: s.length(lines),
        "length utf8": lambda: s.length(accents, "UTF8_CHAR"),
        "lower": lambda: s.lower(lines),
        "lower utf8": lambda: s.lower(accents, "utf-8"),
        "ngrams": lambda: s.ngrams(pairs, 2),
        "ngrams ragged": lambda: s.ngrams(ragged, 2),
        "reduce_join": lambda: s.reduce_join(pairs, axis=1, separator=" "),
        "reduce_join ragged": lambda: s.reduce_join(ragged, axis=1, separator=" "),
        "regex_full_match": lambda: s.regex_full_match(short, "a.*b"),
        "regex_replace": lambda: s.regex_replace(lines, "[aeiou]", "-"),
        "regex_replace class": lambda: s.regex_replace(lines, "[^a-d ]", ""),
        "split": lambda: s.split(lines),
        "split sep": lambda: s.split(lines, " "),
        "strip": lambda: s.strip(lines),
        "substr": lambda: s.substr(lines, 2, 5),
        "substr utf8": lambda: s.substr(accents, 1, 2, "UTF8_CHAR"),
        "to_hash_bucket": lambda: s.to_hash_bucket(short, 1000),
        "to_hash_bucket_fast": lambda: s.to_hash_bucket_fast(short, 1000),
        "to_hash_bucket_strong": lambda: s.to_hash_bucket_strong(short, 1000, [1, 2]),
        "to_number float": lambda: s.to_number(numbers),
        "to_number int": lambda: s.to_number(integers, tf.int64),
        "unicode_decode": lambda: s.unicode_decode(accents, "UTF-8"),
        "unicode_encode": lambda: s.unicode_encode(points, "UTF-8"),
        "unicode_split": lambda: s.unicode_split(accents, "UTF-8"),
        "unicode_transcode": lambda: s.unicode_transcode(accents, "UTF-8", "UTF-16-BE"),
        "unicode_script": lambda: s.unicode_script(points),
        "upper": lambda: s.upper(lines),
        "decode_csv": lambda: tf.io.decode_csv(numbers, [[0.0]]),
        "concat": lambda: tf.concat([short, short], 0),
        "where": lambda: tf.where(short == "abc", short, "x"),
        **tables(tf, np, words, short, rows),
    }


def tables(tf: Any, np: Any, words: Any, short: Any, rows: int) -> dict[str, Callable[[], Any]]:
    keys = list(dict.fromkeys(words.tolist()))
    ids = np.arange(len(keys), dtype=np.int64)
    init = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(ids))
    static = tf.lookup.StaticHashTable(init, -1)
    vocabulary = tf.lookup.StaticVocabularyTable(init, 10)
    mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    mutable.insert(tf.constant(keys), tf.constant(ids))
    back = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(ids), tf.constant(keys)), "?")
    numbers = tf.constant(np.random.default_rng(0).integers(0, 500, rows))
    return {
        "static lookup": lambda: static.lookup(short),
        "vocabulary lookup": lambda: vocabulary.lookup(short),
        "mutable lookup": lambda: mutable.lookup(short),
        "mutable insert": lambda: mutable.insert(short, numbers),
        "lookup of numbers": lambda: back.lookup(numbers),
    }


def ragged(tf: Any, np: Any) -> dict[str, Callable[[], Any]]:
    """Pairs: the ragged op, and the dense op on as many values."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(1000, 100)).astype(np.float32))
    lengths = rng.integers(50, 151, 1000)
    lengths[-1] += 100_000 - lengths.sum()
    lengths = np.maximum(lengths, 0)
    values = tf.constant(rng.normal(size=int(lengths.sum())).astype(np.float32))
    r = tf.RaggedTensor.from_row_lengths(values, lengths)
    picked = tf.constant(rng.integers(0, 1000, 1000))
    ops = {
        "add": lambda t: t + t,
        "exp": lambda t: tf.exp(t),
        "reduce_sum": lambda t: tf.reduce_sum(t, axis=1),
        "reduce_max": lambda t: tf.reduce_max(t, axis=1),
        "reduce_mean": lambda t: tf.reduce_mean(t, axis=1),
        "reduce_prod": lambda t: tf.reduce_prod(t, axis=1),
        "concat": lambda t: tf.concat([t, t], axis=1),
        "stack": lambda t: tf.stack([t, t], axis=0),
        "gather": lambda t: tf.gather(t, picked),
        "slice": lambda t: t[:, 1:5],
        "slice rows": lambda t: t[10:500],
        "tile": lambda t: tf.tile(t, [1, 3]),
        "reverse": lambda t: tf.reverse(t, [1]),
        "expand_dims": lambda t: tf.expand_dims(t, 1),
        "softmax": lambda t: tf.nn.softmax(t),
        "where": lambda t: tf.where(t > 0.0, t, t),
    }
    calls = {}
    for name, op in ops.items():
        calls[f"{name} (ragged)"] = lambda op=op: op(r)
        calls[f"{name} (dense)"] = lambda op=op: op(x)
    return calls


def summaries(tf: Any, np: Any) -> dict[str, Callable[[], Any]]:
    writer = tf.summary.create_file_writer(tempfile.mkdtemp())
    loss = tf.constant(1.5)

    def scalars() -> None:
        with writer.as_default():
            for i in range(100):
                tf.summary.scalar("loss", loss, step=i)

    return {"summary.scalar": scalars}


def worker(module: str, rounds: int) -> None:
    """Measure everything that the module has, and print the times as JSON for each line of input."""
    import importlib

    import numpy as np

    tf = importlib.import_module(module)
    calls = {}
    for group in (strings, ragged, summaries):
        try:
            calls.update(group(tf, np))
        except ImportError as error:  # TensorFlow's summaries need TensorBoard
            print(error, file=sys.stderr)
    for _ in sys.stdin:
        print(json.dumps({name: best(call, rounds) for name, call in calls.items()}), flush=True)


def best(call: Callable[[], Any], rounds: int) -> float | None:
    """The best time of some calls, in microseconds; None for what the library does not do."""
    try:
        call()
    except Exception:
        return None
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def main() -> None:
    """The table."""
    pythons = {"gradtape": sys.executable}
    if "BENCH_TENSORFLOW" in os.environ:
        pythons["tensorflow"] = os.environ["BENCH_TENSORFLOW"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = {
        module: subprocess.Popen(
            [python, os.path.abspath(__file__), "--worker", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )
        for module, python in pythons.items()
    }  # fmt: skip
    found: dict[str, dict[str, float]] = {module: {} for module in start}
    for _ in range(4):
        for module, process in start.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            for name, value in json.loads(process.stdout.readline()).items():
                if value is not None:
                    found[module][name] = min(value, found[module].get(name, value))
    for process in start.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    show(found)


def show(found: dict[str, dict[str, float]]) -> None:
    """Print a line for each call: gradtape's time, TensorFlow's, and the ratio to it or to the dense op."""
    ours, theirs = found["gradtape"], found.get("tensorflow", {})
    print(f"{'call':28}{'gradtape':>12}{'tensorflow':>12}{'ratio':>8}   (microseconds)")
    for name, value in ours.items():
        other = ours[name.replace("(ragged)", "(dense)")] if "(ragged)" in name else theirs.get(name)
        ratio = "" if other is None or "(dense)" in name else f"{value / other:8.2f}"
        print(f"{name:28}{value:12.0f}{theirs.get(name, float('nan')):12.0f}{ratio:>8}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], 5)
    else:
        main()
