"""`tf.random`: samplers of candidate classes for sampled losses."""

from __future__ import annotations

import math as _math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import common_namespace
from gradtape._src.arrays.checks import verify
from gradtape._src.arrays.numpy.random import double, random_bits, singles, stream_of, words64
from gradtape._src.conversion import has_dtype, operand, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import index
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, integer, required_flag, static
from gradtape._src.tf.random.streams import INT64, Array, checked_op_seed, drawn_on_host

Sample = Callable[[Array], Array]


class Candidates(NamedTuple):
    """The result of a candidate sampler: classes, and the expected counts of true and sampled classes."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


def _sampler(
    samples: Callable[[int], Sample], probability: Callable[[Any, Any, int], Any], op: str
) -> Callable[..., Candidates]:
    """A candidate sampler, from a function that draws classes, and their probabilities."""

    def sampler(
        true_classes: Any,
        num_true: Any,
        num_sampled: Any,
        unique: bool,
        range_max: Any,
        seed: Any = None,
        name: str | None = None,
    ) -> Candidates:
        given = operand(true_classes, None if has_dtype(true_classes) else as_dtype("int64"))
        if given.dtype.name != "int64":
            raise errors.invalid_argument(
                f"cannot compute {op} as input #0(zero-based) was expected to be a int64 tensor but is a "
                f"{given.dtype.word} tensor",
                op,
            )
        unique, own = required_flag(unique, "unique"), checked_op_seed(seed)
        wanted, classes, columns = _sampler_sizes(op, num_sampled=num_sampled, range_max=range_max, num_true=num_true)
        true = _checked_classes(given.array, columns, classes, op)
        if unique and wanted > classes:
            raise errors.invalid_argument(
                f"Sampler's range is too small. Range: {classes}, number of distinct classes asked for: {wanted}", op
            )
        sample = samples(classes)
        key = (op, columns, wanted, unique, classes)
        drawn = drawn_on_host(
            (wanted + 1,), INT64, key, own, 512 * wanted, lambda stream: _candidates(stream, wanted, unique, sample)
        )
        chosen, tries = drawn[:wanted], drawn[wanted]

        def expected(ids: Array) -> Tensor:
            xp = common_namespace((ids, drawn))
            count = _expected_count(xp, probability(xp, ids, classes), wanted, tries if unique else wanted)
            return wrap(xp.astype(count, dtype=np.dtype(np.float32), source=count.dtype))

        return Candidates(wrap(chosen), expected(true), expected(chosen))

    return sampler


def _expected_count(xp: Any, p: Array, wanted: int, tries: Array) -> Array:
    """The expected count of a class of probability p in `wanted` samples, which took `tries` draws."""
    return xp.where(xp.equal(tries, wanted), p * wanted, -xp.expm1(tries * xp.log1p(-p)))


def _sampler_sizes(op: str, **given: Any) -> list[int]:
    """Check sizes, given by the names of their arguments: none may be below 1."""
    sizes = {word: as_int(value, word) for word, value in given.items()}
    for word, size in sizes.items():
        if size < 1:
            raise errors.invalid_argument(f"Value for attr '{word}' of {size} must be at least minimum 1", op)
    return list(sizes.values())


def _checked_classes(true: Any, columns: int, classes: int, op: str) -> Any:
    """The true classes of the examples, `columns` of each, checked to be valid."""
    if true.ndim != 2 or true.shape[1] != columns:
        raise errors.invalid_argument(
            f"true_classes must have num_true = {columns} columns, got shape {errors.brackets(true.shape)}", op
        )
    return verify(_TRUE_CLASSES, true, size=classes, op=op)


def _no_true_class(true: Any, size: int, op: str) -> Exception:
    bad = true[(true < 0) | (true >= size)][0]
    return errors.invalid_argument(f"`true_candidate` out of range [0, {size}), received {bad}", op)


_TRUE_CLASSES = index.WITHIN._replace(error=_no_true_class, always=True)  # how often they are expected may not matter


def _candidates(stream: Array, wanted: int, unique: bool, sample: Sample) -> Array:
    """The classes that were drawn, followed by the number of draws, which is larger without repetitions."""
    chosen: list[int] = []
    seen: set[int] = set()
    tries = blocks = 0
    key, low, high = (int(word) for word in stream)
    while len(chosen) < wanted:
        batch = max(wanted - len(chosen), 16) * 4  # of blocks, each of which has at least one draw
        words = random_bits(stream_of(key, low + (high << 64) + blocks), count=4 * batch)
        blocks += batch
        for candidate in sample(words).tolist():
            tries += 1
            if not unique or candidate not in seen:
                seen.add(candidate)
                chosen.append(candidate)
                if len(chosen) == wanted:
                    break
    return np.array([*chosen, tries], np.int64)


def _log_uniform_samples(classes: int) -> Sample:
    reach = _math.log1p(classes)
    return lambda words: (np.exp(double(words[0::2], words[1::2]) * reach).astype(np.int64) - 1) % classes


def _even_samples(classes: int) -> Sample:
    def sample(words: Array) -> Array:
        drawn = words64(words)
        if classes & (classes - 1):  # skip the lowest numbers, which would make some remainders more likely
            drawn = drawn[drawn >= np.uint64((2**64 - 1) % classes + 1)]
        return drawn % np.uint64(classes)

    return sample


def _weighted_samples(weights: list[float]) -> Sample:
    """Draw by the alias method (Vose, 1991): an index, and whether it or its alias is chosen."""
    total = sum(weights)
    shares = [float(np.float32(np.float32(w) * np.float32(len(weights)))) / total for w in weights]
    other = list(range(len(weights)))
    low, high = ([i for i, p in enumerate(shares) if (p < 1) is few] for few in (True, False))
    while low and high:
        small, large = low.pop(), high.pop()
        other[small] = large
        shares[large] -= 1 - shares[small]
        (low if shares[large] < 1 else high).append(large)
    for place in (*low, *high):
        shares[place] = 1
    chances, others = np.array(shares, np.float32), np.array(other)
    least = np.uint32((2**32 - 1) % len(weights) + 1) if len(weights) & (len(weights) - 1) else np.uint32(0)

    def sample(words: Array) -> Array:
        pairs = words.reshape(-1, 2)
        if np.any(pairs[:, 1] < least):  # another word is drawn for the index, which shifts the pairs after it
            listed = iter(words.tolist())
            kept: list[tuple[int, int]] = []
            for chance in listed:
                place = next((word for word in listed if word >= least), None)
                if place is not None:
                    kept.append((chance, place))
            pairs = np.array(kept, np.uint32).reshape(-1, 2)
        place = pairs[:, 1] % np.uint32(len(weights))
        return np.where(singles(pairs[:, 0].copy()) < chances[place], place, others[place])

    return sample


def _log_uniform_probability(xp: Any, ids: Array, classes: int) -> Array:
    place = xp.astype(ids, dtype=np.dtype(np.float64), source=ids.dtype)
    return (xp.log(place + 2) - xp.log(place + 1)) / _math.log1p(classes)


log_uniform_candidate_sampler = _sampler(_log_uniform_samples, _log_uniform_probability, "LogUniformCandidateSampler")
log_uniform_candidate_sampler.__name__ = log_uniform_candidate_sampler.__qualname__ = "log_uniform_candidate_sampler"
log_uniform_candidate_sampler.__doc__ = """Draw classes with Zipf's law: class k weighs log((k + 2) / (k + 1)).

Returns the classes, the expected count of each true class among them, and that of each sampled class.

>>> drawn = tf.random.log_uniform_candidate_sampler([[0]], 1, 3, unique=True, range_max=100)
>>> drawn.sampled_candidates.shape
TensorShape([3])
"""
uniform_candidate_sampler = _sampler(
    _even_samples,
    lambda xp, ids, classes: np.full(ids.shape, 1 / classes),
    "UniformCandidateSampler",
)
uniform_candidate_sampler.__name__ = uniform_candidate_sampler.__qualname__ = "uniform_candidate_sampler"
uniform_candidate_sampler.__doc__ = """Draw classes uniformly.

Returns the classes, the expected count of each true class among them, and that of each sampled class.

>>> drawn = tf.random.uniform_candidate_sampler([[0]], 1, 3, unique=True, range_max=100)
>>> print(drawn.true_expected_count.numpy().round(2))
[[0.03]]
"""


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: Any,
    num_sampled: Any,
    unique: bool,
    range_max: Any,
    vocab_file: Any = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: Any = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes with given frequencies (`unigrams`, or the last column of a file), to the power of `distortion`.

    >>> draw = tf.random.fixed_unigram_candidate_sampler([[0]], 1, 2, True, 3, unigrams=[1.0, 2.0, 3.0])
    >>> draw.sampled_candidates.shape
    TensorShape([2])
    """
    if bool(vocab_file) == bool(len(unigrams)):
        raise errors.invalid_argument(
            "Must provide either vocab_file or unigrams, but not both.", "FixedUnigramCandidateSampler"
        )
    if vocab_file:
        with open(os.fsdecode(vocab_file), encoding="utf-8") as file:
            listed = [float(line.rstrip("\n").split(",")[-1]) for line in filter(str.strip, file)]
    else:
        listed = [float(u) for u in static(unigrams)]
    weights = np.array([0.0] * num_reserved_ids + [w**distortion for w in listed])
    if len(weights) != integer(range_max):
        raise errors.invalid_argument(
            f"range_max is {integer(range_max)}, but there are {len(weights)} weights (reserved ids included)",
            "FixedUnigramCandidateSampler",
        )
    weights[np.arange(len(weights)) % num_shards != shard] = 0  # the other shards draw these
    totals = np.cumsum(weights)
    sampler = _sampler(
        lambda classes: _weighted_samples([float(np.float32(w)) for w in weights]),
        lambda xp, ids, classes: xp.take(weights, ids, axis=0) / totals[-1],
        "FixedUnigramCandidateSampler",
    )
    if unique and integer(num_sampled) > np.count_nonzero(weights):
        raise errors.invalid_argument(
            "Sampler's range is too small: fewer classes with a weight than num_sampled", "FixedUnigramCandidateSampler"
        )
    return sampler(true_classes, num_true, num_sampled, unique, range_max, seed)


def all_candidate_sampler(
    true_classes: Any, num_true: Any, num_sampled: Any, unique: bool, seed: Any = None, name: str | None = None
) -> Candidates:
    """Return every class once: for tests, and to turn a sampled loss into the full one.

    >>> sampled, _, _ = tf.nn.all_candidate_sampler([[1]], num_true=1, num_sampled=3, unique=True)
    >>> sampled.numpy().tolist()
    [0, 1, 2]
    """
    true = operand(true_classes).array
    count = integer(num_sampled)
    return Candidates(
        wrap(np.arange(count)),
        wrap(np.ones(tuple(true.shape), np.float32)),
        wrap(np.ones(count, np.float32)),
    )
