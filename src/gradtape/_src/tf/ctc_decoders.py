"""Decoders of CTC: label sequences of the scores of a network, greedily or by beam search. They are no functions of
values that could be differentiated, and run on values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, operand
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.python_functions import numpy_function

__all__ = ["beams", "ctc_beam_search_decoder", "ctc_greedy_decoder", "ctc_unique_labels"]


# -- the best label of each step ---------------------------------------------------------------------------------------
def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """Return the best label of each step, without blanks and, with `merge_repeated`, without repetitions.

    `inputs` are scores [steps, batch, classes]; the blank is the last class, or `blank_index`. The second result is the
    negative sum of the best scores, [batch, 1].

    >>> scores = tf.math.log([[[0.8, 0.1, 0.1]], [[0.8, 0.1, 0.1]], [[0.1, 0.1, 0.8]], [[0.1, 0.8, 0.1]]])
    >>> (decoded,), score = tf.nn.ctc_greedy_decoder(scores, [4])
    >>> tf.sparse.to_dense(decoded).numpy().tolist(), round(float(score[0, 0]), 4)
    ([[0, 1]], 0.8926)
    """

    def decode(scores: ndarray, lengths: ndarray) -> list[ndarray]:
        _, batch, classes = _checked(scores, lengths, "CTCGreedyDecoder")
        blank = classes - 1 if blank_index is None else blank_index + (classes if blank_index < 0 else 0)
        best, sums = scores.argmax(2), np.zeros((batch, 1), scores.dtype)
        paths = []
        for row, length in enumerate(lengths):
            labels = best[:length, row]
            kept = labels != blank
            if merge_repeated:
                kept[1:] &= labels[1:] != labels[:-1]
            paths.append(labels[kept])
            sums[row] = -scores[:length, row].max(1, initial=-np.inf).sum() if length else 0
        return [*_sparse_parts(paths), sums]

    parts = _run(decode, inputs, sequence_length, 1)
    return [SparseTensor(*parts[:3])], parts[3]


def _checked(scores: ndarray, lengths: ndarray, op: str) -> tuple[int, int, int]:
    if scores.ndim != 3:
        raise errors.InvalidArgumentError(None, None, f"inputs is not a 3-Tensor [Op:{op}]")
    if lengths.shape != scores.shape[1:2]:
        raise errors.InvalidArgumentError(None, None, f"len(sequence_length) != batch_size: expected {scores.shape[1]}"
                                          f" lengths, got {errors.brackets(lengths.shape)} [Op:{op}]")  # fmt: skip
    if (lengths > scores.shape[0]).any():
        row = int((lengths > scores.shape[0]).argmax())
        raise errors.InvalidArgumentError(None, None, f"sequence_length({row}) <= {scores.shape[0]} [Op:{op}]")
    return scores.shape


def _sparse_parts(paths: list[ndarray]) -> list[ndarray]:
    """The indices, values and shape of sequences as rows of a sparse tensor."""
    places = [np.stack([np.full(len(path), row), np.arange(len(path))], 1) for row, path in enumerate(paths)]
    longest = max((len(path) for path in paths), default=0)
    indices = np.concatenate(places) if places else np.zeros((0, 2))
    values = np.concatenate(paths) if paths else np.zeros(0)
    return [indices.astype(np.int64), values.astype(np.int64), np.array([len(paths), longest], np.int64)]


def _run(decode: Any, inputs: Any, sequence_length: Any, count: int) -> list[Tensor]:
    """The results of a function of values, also inside functions."""
    scores = operand(inputs)
    dtypes = [*["int64", "int64", "int64"] * count, scores.dtype]
    found = numpy_function(decode, [scores, convert(sequence_length, "int32")], dtypes)
    for i, tensor in enumerate(found[:-1]):
        tensor.set_shape([None, 2] if i % 3 == 0 else [None] if i % 3 == 1 else [2])
    return list(found)


# -- beam search -------------------------------------------------------------------------------------------------------
def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """Return the `top_paths` most probable label sequences, each as a sparse tensor, and their log probabilities.

    `inputs` are scores [steps, batch, classes], before a softmax; the blank is the last class.

    >>> scores = tf.math.log([[[0.4, 0.0, 0.6]], [[0.4, 0.0, 0.6]]])
    >>> (decoded,), score = tf.nn.ctc_beam_search_decoder(scores, [2])  # "0" has three alignments
    >>> tf.sparse.to_dense(decoded).numpy().tolist(), round(float(tf.exp(score[0, 0])), 2)
    ([[0]], 0.64)
    """
    if top_paths > beam_width:
        raise errors.invalid_argument("beam_width must be >= top_paths", "CTCBeamSearchDecoder")

    def decode(scores: ndarray, lengths: ndarray) -> list[ndarray]:
        _, batch, classes = _checked(scores, lengths, "CTCBeamSearchDecoder")
        logs = scores.astype(np.float64)
        logs = logs - np.logaddexp.reduce(logs, axis=2, keepdims=True)
        rows = [beams(logs[:length, row], beam_width, classes - 1) for row, length in enumerate(lengths)]
        results = []
        probabilities = np.full((batch, top_paths), -np.inf, scores.dtype)
        for place in range(top_paths):
            paths = [np.array(found[place][0] if place < len(found) else (), np.int64) for found in rows]
            results += _sparse_parts(paths)
            probabilities[:, place] = [found[place][1] if place < len(found) else -np.inf for found in rows]
        return [*results, probabilities]

    parts = _run(decode, inputs, sequence_length, top_paths)
    return [SparseTensor(*parts[3 * i : 3 * i + 3]) for i in range(top_paths)], parts[-1]


def beams(logs: ndarray, beam_width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """Label sequences and their log probabilities, best first.

    Each sequence has two numbers: the probability of all alignments that end with a blank, and of those that end with
    the last label, which a repeated label does not extend.
    """
    never = -np.inf
    found: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, never)}
    for step in logs.astype(np.float64):
        grown: dict[tuple[int, ...], tuple[float, float]] = {}
        for path, (ends_blank, ends_label) in found.items():
            either = np.logaddexp(ends_blank, ends_label)
            for label, log in enumerate(step.tolist()):
                if label == blank:
                    _join(grown, path, either + log, never)
                elif path and path[-1] == label:
                    _join(grown, path, never, ends_label + log)
                    _join(grown, (*path, label), never, ends_blank + log)
                else:
                    _join(grown, (*path, label), never, either + log)
        best = sorted(grown, key=lambda path: -np.logaddexp(*grown[path]))
        found = {path: grown[path] for path in best[:beam_width]}
    return [(path, float(np.logaddexp(*ends))) for path, ends in found.items()]


def _join(
    found: dict[tuple[int, ...], tuple[float, float]], path: tuple[int, ...], ends_blank: float, ends_label: float
) -> None:
    blank, label = found.get(path, (-np.inf, -np.inf))
    found[path] = np.logaddexp(blank, ends_blank), np.logaddexp(label, ends_label)


# -- labels ------------------------------------------------------------------------------------------------------------
def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the different labels of each row of a batch, followed by zeros, and where each label is among them.

    >>> unique, where = tf.nn.ctc_unique_labels([[3, 4, 3], [5, 5, 5]])
    >>> unique.numpy().tolist(), where.numpy().tolist()
    ([[3, 4, 0], [5, 0, 0]], [[0, 1, 0], [0, 0, 0]])
    """

    def find(rows: ndarray) -> list[ndarray]:
        different, places = np.zeros_like(rows), np.zeros(rows.shape, np.int32)
        for row, found, place in zip(rows, different, places, strict=True):
            order = {label: i for i, label in enumerate(dict.fromkeys(row.tolist()))}
            found[: len(order)] = list(order)
            place[:] = [order[label] for label in row.tolist()]
        return [different, places]

    given = operand(labels)
    unique, where = numpy_function(find, [given], [given.dtype, "int32"])
    unique.set_shape(given.shape)
    where.set_shape(given.shape)
    return unique, where
