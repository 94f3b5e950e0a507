"""Losses beyond the cross entropies, and the sampling of classes that goes with them."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.dimensions import is_same_shape
from gradtape._src.arrays.symbolic import is_known, unknown_shape
from gradtape._src.conversion import array_from, hinted_operands, is_library, operand, wrap
from gradtape._src.ops import array, ctc, math, nn, reduce
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math as tfmath
from gradtape._src.tf.arguments import extent, same_dtype, static, truth
from gradtape._src.tf.array import cast, concat, gather
from gradtape._src.tf.random import log_uniform_candidate_sampler
from gradtape._src.tf.sparse_dense import to_dense

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- elementwise losses ------------------------------------------------------------------------------------------------
def weighted_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, pos_weight: Any, name: str | None = None
) -> Tensor:
    """Compute the sigmoid cross entropy, counting positive labels `pos_weight` times.

    >>> round(tf.nn.weighted_cross_entropy_with_logits([1.0], [0.0], 2.0).numpy().item(), 4)
    1.3863
    """
    x = operand(logits)
    z = hinted_operands(x, labels)[1]
    if not is_same_shape(x.array.shape, z.array.shape):
        raise ValueError(f"`logits` and `labels` must have the same shape, received ({x.shape} vs {z.shape}).")
    weight = (same_dtype(pos_weight, x.dtype, "Mul", "pos_weight") - 1.0) * z + 1.0
    # |x| and relu on purpose: at x = 0 the derivative is that of TensorFlow's formula.
    log_part = math.log1p(math.exp(-math.absolute(x))) + math.relu(-x)
    result: Tensor = (1.0 - z) * x + weight * log_part
    return result


def log_poisson_loss(
    targets: TensorLike, log_input: TensorLike, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """Compute exp(log_input) - log_input * targets; with `compute_full_loss`, add Stirling's formula for log(targets!).

    >>> tf.nn.log_poisson_loss([2.0], [0.0]).numpy().tolist()
    [1.0]
    """
    c = operand(log_input)
    z = hinted_operands(c, targets)[1]
    if not is_same_shape(c.array.shape, z.array.shape):
        raise ValueError(f"`log_input` and `targets` must have the same shape, received ({c.shape} vs {z.shape}).")
    result: Tensor = math.exp(c) - c * z
    if truth(compute_full_loss):
        small = math.logical_and(math.greater_equal(z, 0), math.less_equal(z, 1))
        safe = math.where(small, 1, z)
        stirling = safe * math.log(safe) - safe + 0.5 * math.log(safe * (2 * _math.pi))
        result = result + math.where(small, 0, stirling)
    return result


def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> Tensor:
    """Add up the losses of examples, and divide by the number of examples in the global batch.

    >>> tf.nn.compute_average_loss([1.0, 2.0, 6.0]).numpy().item()
    3.0
    """
    losses = operand(per_example_loss)
    rank = len(losses.array.shape)
    if not rank:
        raise ValueError(
            "Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1. "
            f"Received per_example_loss={per_example_loss} with rank 0"
        )
    size = losses.array.shape[0] * _replicas("compute_average_loss")
    if global_batch_size is not None:
        size = _whole_batch(global_batch_size)
    kind = losses.dtype
    if sample_weight is not None:
        if not kind.is_floating:  # the product is truncated to the dtype of the losses
            losses = cast(losses, "float32")
        weight = operand(sample_weight)
        if weight.dtype != losses.dtype:
            weight = cast(weight, losses.dtype)
        missing = rank - len(weight.array.shape)
        if missing > 0 and weight.array.shape:
            weight = array.reshape(weight, shape=(*weight.array.shape, *[1] * missing))
        losses = cast(losses * weight, kind)
    if not kind.is_floating:
        losses = cast(losses, "float64")
    total = tfmath.reduce_sum(losses)
    result: Tensor = total / float(size) if size else total * 0
    return result


def _whole_batch(global_batch_size: Any) -> int:
    """Check the number of examples that the caller passed."""
    given = np.asarray(static(global_batch_size) if is_library(global_batch_size) else array_from(global_batch_size))
    if given.ndim:
        raise ValueError(f"global_batch_size must be scalar..  Expected scalar shape, saw shape: {given.shape}.")
    if given.dtype.kind not in "iu":
        raise TypeError(
            f"global_batch_size must be an integer. Received: {global_batch_size} of type "
            f"{type(global_batch_size).__name__}"
        )
    size = int(given)
    if size < 0:
        raise errors.invalid_argument(f"`global_batch_size` must be non-negative. Received: {size}")
    return size


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """Divide the sum of a regularization loss by the number of replicas (one, without a strategy).

    >>> tf.nn.scale_regularization_loss([0.5, 0.25]).numpy().item()
    0.75
    """
    replicas = _replicas("scale_regularization_loss")
    result: Tensor = tfmath.reduce_sum(operand(regularization_loss))
    return result if replicas == 1 else result / float(replicas)


def _replicas(function: str) -> int:
    """The number of replicas that call a loss function, which must not be called across replicas."""
    from gradtape._src.distribute.context import get_strategy, has_strategy, in_cross_replica_context

    if has_strategy() and in_cross_replica_context():
        raise RuntimeError(
            f"You are calling `{function}` in cross replica context, while it was expected to be called in replica "
            "context."
        )
    return get_strategy().num_replicas_in_sync


# -- connectionist temporal classification ---------------------------------------------------------------------------
def _check_lengths(labels: Tensor, label_length: Tensor, logit_length: Tensor, batch: int) -> None:
    """Check that each sequence has a row of labels, and two lengths."""
    for given in (label_length, logit_length):
        if not given.dtype.is_integer:
            raise errors.unsupported_dtype("CTCLossV2", given.dtype, "int32, int64")
    for what, have in (
        ("labels", labels.array.shape[:1]),
        ("label_length", label_length.array.shape),
        ("logit_length", logit_length.array.shape),
    ):
        if tuple(have) != (batch,):
            raise ValueError(f"{what} must have one row for each of the {batch} sequences. Received: {tuple(have)}")


def ctc_loss(
    labels: TensorLike | SparseTensor,
    logits: TensorLike | SparseTensor,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute the CTC loss: -log p(labels | logits), where p is summed over all alignments of labels and time steps.

    labels        [batch, most labels] integers, of which the first label_length count; or a SparseTensor of them
    logits        [time, batch, classes], or [batch, time, classes] with logits_time_major=False
    blank_index   the class of the blank, 0 by default; negative ones count from the end

    >>> import numpy as np
    >>> uniform = np.zeros((2, 1, 2), np.float32)
    >>> loss = tf.nn.ctc_loss([[1]], uniform, [1], [2])  # three of the four paths: -log(3/4)
    >>> round(loss.numpy().item(), 4)
    0.2877
    """
    if isinstance(labels, SparseTensor):
        if blank_index is None:
            raise ValueError("Argument `blank_index` must be provided when `labels` is a `SparseTensor`.")
        rows = tfmath.bincount(labels.indices[:, 0], minlength=labels.shape[0], dtype="int32")
        labels, label_length = to_dense(labels), rows
    x, y = operand(logits), operand(labels)
    if len(x.array.shape) != 3:
        raise ValueError(f"logits must have 3 axes (time, batch, classes). Received: logits.shape={x.shape}")
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("CTCLossV2", x.dtype)
    if len(y.array.shape) != 2 or not y.dtype.is_integer:
        raise ValueError(
            f"labels must be integers with 2 axes (batch, labels). Received: labels of dtype {y.dtype.name} and shape "
            f"{y.shape}"
        )
    if not truth(logits_time_major):
        x = array.transpose(x, perm=(1, 0, 2))
    time, batch, classes = x.array.shape
    if label_length is None or logit_length is None:
        raise ValueError("label_length and logit_length are required for dense labels.")
    lengths, steps = operand(label_length), operand(logit_length)
    _check_lengths(y, lengths, steps, batch)
    blank = 0 if blank_index is None else extent(blank_index, "blank_index", "CTCLossV2")
    if not -classes <= blank < classes:
        raise ValueError(f"blank_index must be in [{-classes}, {classes}). Received: blank_index={blank_index}")
    blank %= classes
    if not time or not batch:
        return wrap(np.zeros(batch, x.array.dtype))
    # Labels after the length of a row may be anything: they become some class, which no path reaches.
    inside: Any = math.minimum(math.maximum(y, 0), classes - 1)
    if not y.array.shape[1]:
        inside = np.zeros((batch, 1), y.array.dtype)
    few_bits = x.dtype.size < 4
    loss: Tensor = ctc.ctc(cast(x, "float32") if few_bits else x, inside, lengths, steps, blank=blank)
    return cast(loss, x.dtype) if few_bits else loss


def collapse_repeated(labels: TensorLike, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Merge repeated labels in each row; also returns the new length of each row.

    >>> merged, lengths = tf.nn.collapse_repeated([[1, 1, 2, 2, 1]], [5])
    >>> merged.numpy().tolist(), lengths.numpy().tolist()
    ([[1, 2, 1]], [3])
    """
    given, steps = operand(labels), operand(seq_length)
    if not (is_known(given) and is_known(steps)):
        raise unknown_shape("tf.nn.collapse_repeated", "Call it outside the function, or in tf.numpy_function.")
    if len(given.array.shape) != 2:
        raise errors.invalid_argument(
            f"labels must be a matrix, got shape {errors.brackets(given.array.shape)}", "CollapseRepeated"
        )
    if steps.dtype.name == "string":
        raise errors.UnimplementedError(None, None, "Cast string to int64 is not supported [Op:Cast]")
    if tuple(steps.array.shape) not in ((), (given.array.shape[0],)):
        raise ValueError(f"seq_length must have one number for each row of labels. Received shape {steps.shape}.")
    rows, lengths = np.asarray(given.array), np.asarray(steps.array)
    if not lengths.ndim:
        lengths = np.full(len(rows), lengths)
    fresh = np.ones(rows.shape, bool)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    fresh &= np.arange(rows.shape[1]) < lengths[:, None]
    count = fresh.sum(1).astype(lengths.dtype)
    result = np.zeros((len(rows), int(count.max(initial=0))), rows.dtype)
    result[np.arange(result.shape[1]) < count[:, None]] = rows[fresh]
    return wrap(result), wrap(count)


# -- losses with sampled classes -------------------------------------------------------------------------------------
class AccidentalHits(NamedTuple):
    """Sampled classes that are true classes: the row, the position in the sample, and the weight that removes it."""

    indices: Any
    ids: Any
    weights: Any


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: Any = None, name: str | None = None
) -> AccidentalHits:
    """Find sampled classes that are among the true ones of a row.

    >>> hits = tf.nn.compute_accidental_hits([[1, 2], [4, 0]], [0, 3, 2], 2)
    >>> hits.indices.numpy().tolist(), hits.ids.numpy().tolist()
    ([0, 1], [2, 0])
    """
    true, candidates = operand(true_classes), operand(sampled_candidates)
    if not (is_known(true) and is_known(candidates)):
        raise unknown_shape(
            "tf.nn.compute_accidental_hits",
            "Use remove_accidental_hits=True of tf.nn.sampled_softmax_loss.",
            "ComputeAccidentalHits",
        )
    wanted, sampled = np.asarray(true.array), np.asarray(candidates.array)
    if wanted.ndim != 2 or wanted.shape[1] != num_true:
        raise errors.invalid_argument(
            f"true_candidates must be a batch_size * num_true matrix. Received shape {wanted.shape} with "
            f"num_true={num_true}",
            "ComputeAccidentalHits",
        )
    rows, _, places = np.nonzero(wanted[:, :, None] == sampled[None, None, :])
    lowest = np.full(len(rows), np.finfo(np.float32).min)
    return AccidentalHits(wrap(rows.astype(np.int32)), wrap(places.astype(np.int64)), wrap(lowest))


def _table(params: Any) -> Any:
    """One table of rows: shards have consecutive rows, and are concatenated."""
    if not isinstance(params, (list, tuple)) or not params or not hasattr(params[0], "shape"):
        return params
    if len(params) == 1:
        return params[0]
    return concat(list(params), 0)


def _sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: Any,
    num_classes: Any,
    num_true: int,
    sampled_values: Any,
    remove_accidental_hits: bool,
    seed: Any,
) -> tuple[Tensor, Tensor]:
    """Logits [batch, num_true + num_sampled] of the true and the sampled classes, and their labels."""
    x = operand(inputs)
    wanted = cast(operand(labels), "int64")
    if len(wanted.array.shape) == 1:
        wanted = wanted[:, None]
    if tuple(wanted.array.shape) != (x.array.shape[0], num_true):
        raise ValueError(
            f"labels must have shape [batch, num_true] = {[x.array.shape[0], num_true]}. Received: {list(wanted.shape)}"
        )
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(wanted, num_true, num_sampled, True, num_classes, seed)
    sampled, true_count, sampled_count = (array.stop_gradient(operand(v)) for v in sampled_values)
    candidates = cast(sampled, "int64")
    batch, size = wanted.array.shape[0], candidates.array.shape[0]
    chosen = array.concatenate(array.reshape(wanted, shape=(-1,)), candidates, axis=0)
    rows, offsets = gather(_table(weights), chosen), gather(_table(biases), chosen)
    cut, width = batch * num_true, rows.array.shape[-1]
    true_rows = array.reshape(array.getitem(rows, index=(slice(0, cut),)), shape=(batch, num_true, width))
    true_logits = tfmath.reduce_sum(array.reshape(x, shape=(batch, 1, width)) * true_rows, 2)
    true_logits = true_logits + array.reshape(array.getitem(offsets, index=(slice(0, cut),)), shape=(batch, num_true))
    sampled_rows = array.getitem(rows, index=(slice(cut, None),))
    sampled_logits = x @ array.transpose(sampled_rows, perm=(1, 0)) + array.getitem(offsets, index=(slice(cut, None),))
    if remove_accidental_hits:
        hit = reduce.any_(math.equal(wanted[:, :, None], candidates), axis=(1,))
        lowest, nothing = np.asarray([np.finfo(np.float32).min, 0]).astype(x.array.dtype)
        sampled_logits = sampled_logits + math.where(hit, lowest, nothing)
    true_logits = true_logits - math.log(cast(true_count, x.dtype))
    sampled_logits = sampled_logits - math.log(cast(sampled_count, x.dtype))
    targets = np.concatenate([np.full((batch, num_true), 1 / num_true), np.zeros((batch, size))], 1)
    return concat([true_logits, sampled_logits], 1), wrap(targets.astype(x.array.dtype))


def nce_loss(
    weights: TensorLike,
    biases: Any,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: Any,
    num_classes: Any,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    name: str = "nce_loss",
) -> Tensor:
    """Compute the noise-contrastive estimation loss: a binary classification of true and sampled classes.

    >>> weights, biases, inputs = tf.ones([5, 2]), tf.zeros([5]), tf.ones([2, 2])
    >>> tf.nn.nce_loss(weights, biases, [[1], [3]], inputs, num_sampled=2, num_classes=5).shape
    TensorShape([2])
    """
    sampling = (num_sampled, num_classes, num_true, sampled_values, remove_accidental_hits, None)
    logits, targets = _sampled_logits(weights, biases, labels, inputs, *sampling)
    result: Tensor = tfmath.reduce_sum(math.sigmoid_cross_entropy(logits, targets), 1)
    return result


def sampled_softmax_loss(
    weights: TensorLike,
    biases: Any,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: Any,
    num_classes: Any,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    seed: Any = None,
    name: str = "sampled_softmax_loss",
) -> Tensor:
    """Compute the softmax cross entropy over the true classes and a few sampled ones, for very many classes.

    >>> weights, biases, inputs = tf.ones([9, 2]), tf.zeros([9]), tf.ones([1, 2])
    >>> tf.nn.sampled_softmax_loss(weights, biases, [[1]], inputs, num_sampled=3, num_classes=9).shape
    TensorShape([1])
    """
    sampling = (num_sampled, num_classes, num_true, sampled_values, remove_accidental_hits, seed)
    logits, targets = _sampled_logits(weights, biases, labels, inputs, *sampling)
    result: Tensor = nn.cross_entropy(logits, targets)
    return result
