"""The edit distance of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import operand, wrap
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.string_arrays import known


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Compute the Levenshtein distance from each hypothesis to its truth, divided by the length of the truth.

    Both are sparse tensors, whose last axis contains the elements of a sequence.

    >>> import gradtape as tf
    >>> tf.edit_distance(tf.sparse.from_dense([["a", "b"]]), tf.sparse.from_dense([["a", "c"]])).numpy().tolist()
    [0.5]
    """
    for what, given in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(given, SparseTensor):
            raise TypeError(f"{what} must be a SparseTensor. Received {given!r}.")
    if hypothesis.values.dtype != truth.values.dtype:
        raise errors.invalid_argument(
            f"cannot compute EditDistance as input #4(zero-based) was expected to be a {hypothesis.values.dtype.word} "
            f"tensor but is a {truth.values.dtype.word} tensor",
            "EditDistance",
        )
    shapes = [known(operand(sparse.dense_shape)) for sparse in (hypothesis, truth)]
    ranks = [len(shape) for shape in shapes]
    if ranks[1] < 2:
        raise errors.invalid_argument(
            f"Input SparseTensors must have rank at least 2, but truth_shape rank is: {ranks[1]}", "EditDistance"
        )
    if ranks[0] != ranks[1]:
        raise errors.invalid_argument(
            f"Expected truth and hypothesis to have matching ranks, but their shapes are: [{ranks[1]}] and "
            f"[{ranks[0]}]",
            "EditDistance",
        )
    guesses, wanted = _sequences(hypothesis), _sequences(truth)
    found = np.zeros(np.maximum(*shapes)[:-1], np.float32)
    for place in guesses.keys() | wanted.keys():
        guess, right = guesses.get(place, []), wanted.get(place, [])
        steps = float(_steps(guess, right))
        found[place] = steps if not normalize else steps / len(right) if right else np.inf
    return wrap(found)


def _sequences(sparse: SparseTensor) -> dict[tuple[int, ...], list[Any]]:
    """The elements of each sequence, by its index."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for where, value in zip(
        known(operand(sparse.indices)).tolist(), known(operand(sparse.values)).tolist(), strict=True
    ):
        found.setdefault(tuple(where[:-1]), []).append(value)
    return found


def _steps(one: list[Any], other: list[Any]) -> int:
    """Levenshtein's distance, computed row by row of its table."""
    row = list(range(len(other) + 1))
    for i, element in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (element != wanted))
    return row[-1]
