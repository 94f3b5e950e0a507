"""`keras.ops.math` over gradtape: segments, top k, Fourier transforms, a few special functions."""

from __future__ import annotations

import builtins

import numpy as np

from gradtape._src.arrays.checks import checked
from gradtape._src.conversion import wrap
from gradtape._src.keras_backend import numpy as knp, ragged
from gradtape._src.keras_backend._common import (
    along,
    axes_of,
    cast,
    constant,
    convert_to_tensor,
    cut,
    expand,
    floats,
    look_up,
    shape as sizes_of,
    wide,
)
from gradtape._src.ops import array as ops, index, math, reduce, segment, signal
from gradtape._src.tf import ranking, signal as tfsignal, special
from gradtape._src.tf.math import reduce_logsumexp


# -- segments --------------------------------------------------------------------------------------------------------
def _segments(data, segment_ids, num_segments):
    """The rows, the ids and their number; negative ids get an additional segment, which is dropped afterwards."""
    data, ids = convert_to_tensor(data), cast(convert_to_tensor(segment_ids), "int32")
    if num_segments is None:  # the values must be known
        num_segments = np.asarray(ids.array).max(initial=-1) + 1
    count = int(num_segments)
    ids = checked(index.SEGMENTS, ids, size=count, op="UnsortedSegmentSum")
    known = math.logical_and(math.greater_equal(ids, 0), math.less(ids, count))
    return data, math.where(known, ids, constant(count, ids)), count


def segment_sum(data, segment_ids, num_segments=None, sorted=False):
    data, ids, count = _segments(data, segment_ids, num_segments)
    return cut(index.add_rows(data, ids, shape=(count + 1, *sizes_of(data)[1:])), 0, 0, count)


def segment_max(data, segment_ids, num_segments=None, sorted=False):
    return _extreme(segment.segment_max, -np.inf, *_segments(data, segment_ids, num_segments))


def segment_min(data, segment_ids, num_segments=None, sorted=False):
    return _extreme(segment.segment_min, np.inf, *_segments(data, segment_ids, num_segments))


def _extreme(function, nothing, data, ids, count):
    """The extreme of each segment; infinity for segments without rows (for integers, the limit of the dtype)."""
    found = cut(function(data, ids, count=count + 1), 0, 0, count)
    if not data.dtype.is_floating:
        return found
    rows = cut(index.add_rows(knp.ones_like(ids), ids, shape=(count + 1,)), 0, 0, count)
    empty = ops.reshape(math.equal(rows, 0), shape=(count, *[1] * (len(sizes_of(data)) - 1)))
    return math.where(empty, constant(nothing, found), found)


def segment_prod(data, segment_ids, num_segments=None, sorted=False):
    """Sorted by id, each row is multiplied by ever more rows before it: the last row of a segment has the product."""
    data, ids, count = _segments(data, segment_ids, num_segments)
    order = knp.argsort(ids)
    rows, ids = look_up(data, order, 0), look_up(ids, order, 0)
    size, rank = sizes_of(ids)[0], len(sizes_of(data))
    reach = 1
    while reach < size:
        same = math.equal(cut(ids, 0, reach, None), cut(ids, 0, None, -reach))
        same = ops.reshape(same, shape=(size - reach, *[1] * (rank - 1)))
        earlier = cut(rows, 0, None, -reach)
        later = cut(rows, 0, reach, None) * math.where(same, earlier, knp.ones_like(earlier))
        rows = ops.concatenate(cut(rows, 0, None, reach), later, axis=0)
        reach *= 2
    wanted = wrap(np.arange(count, dtype=np.int32))
    ends = knp.searchsorted(ids, wanted, side="right") - 1
    safe = math.maximum(ends, 0)
    found = math.logical_and(math.greater_equal(ends, 0), math.equal(look_up(ids, safe, 0), wanted))
    products = look_up(rows, safe, 0)
    return math.where(ops.reshape(found, shape=(count, *[1] * (rank - 1))), products, knp.ones_like(products))


# -- order -----------------------------------------------------------------------------------------------------------
def top_k(x, k, sorted=True):
    return tuple(ranking.top_k(convert_to_tensor(x), k))


def in_top_k(targets, predictions, k):
    """Whether fewer than k predictions are larger than the target's; NaN is never in the top k."""
    targets, predictions = convert_to_tensor(targets), convert_to_tensor(predictions)
    last = len(sizes_of(predictions)) - 1
    known = math.logical_and(math.greater_equal(targets, 0), math.less(targets, sizes_of(predictions)[last]))
    own = along(predictions, expand(math.where(known, targets, constant(0, targets)), -1), last)
    own = math.where(knp.isnan(own), constant(-np.inf, own), own)
    larger = reduce.sum_(cast(math.greater(predictions, own), "int32"), axis=(last,), keepdims=False)
    return math.logical_and(known, math.less(larger, k))  # false for an invalid class


@ragged.reduced_by(reduce_logsumexp)
def logsumexp(x, axis=None, keepdims=False):
    x = floats(x)
    return cast(reduce.logsumexp(wide(x), axis=axes_of(axis, len(sizes_of(x))), keepdims=keepdims), x.dtype)


def cdist(x, y):
    x, y = floats(x), floats(y)
    if len(sizes_of(x)) < 2 or len(sizes_of(y)) < 2:
        raise ValueError("`cdist` inputs must have rank >= 2")
    if sizes_of(x)[-1] != sizes_of(y)[-1]:
        raise ValueError("Last dimension of inputs to `cdist` must match")
    apart = knp.subtract(expand(x, -2), expand(y, -3))
    return math.sqrt(reduce.sum_(math.square(apart), axis=(len(sizes_of(apart)) - 1,), keepdims=False))


# -- signals ---------------------------------------------------------------------------------------------------------
def extract_sequences(x, sequence_length, sequence_stride):
    x = convert_to_tensor(x)
    return signal.frame(x, axis=len(sizes_of(x)) - 1, length=int(sequence_length), step=int(sequence_stride))


def _get_complex_tensor_from_tuple(x):  # Keras imports it by this name
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise ValueError(f"Input `x` should be a tuple of two tensors - real and imaginary. Received: x={x}")
    real, imag = (convert_to_tensor(part) for part in x)
    if sizes_of(real) != sizes_of(imag):
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary. Both the real and imaginary parts should "
            f"have the same shape. Received: x[0].shape = {sizes_of(real)}, x[1].shape = {sizes_of(imag)}"
        )
    if not (real.dtype.is_floating and imag.dtype.is_floating):
        raise ValueError(f"At least one tensor in input `x` is not of type float. Received: x={x}.")
    return math.complex_(real, imag)


def _parts(x):
    return math.real(x), math.imag(x)


def _last(x, count):
    rank = len(sizes_of(x))
    return tuple(builtins.range(rank - count, rank))


def fft(x):
    x = _get_complex_tensor_from_tuple(x)
    return _parts(signal.fft(x, axis=_last(x, 1), inverse=False))


def fft2(x):
    x = _get_complex_tensor_from_tuple(x)
    return _parts(signal.fft(x, axis=_last(x, 2), inverse=False))


def ifft2(x):
    x = _get_complex_tensor_from_tuple(x)
    return _parts(signal.fft(x, axis=_last(x, 2), inverse=True))


def rfft(x, fft_length=None):
    x = convert_to_tensor(x)
    return _parts(tfsignal.rfft(x, None if fft_length is None else [fft_length]))


def irfft(x, fft_length=None):
    return tfsignal.irfft(_get_complex_tensor_from_tuple(x), None if fft_length is None else [fft_length])


def _window(window, sequence_length, fft_length, dtype):
    """The window in the middle of a frame, padded with zeros."""
    before = (fft_length - sequence_length) // 2
    after = fft_length - sequence_length - before
    if window is None:
        return knp.ones((fft_length,), dtype)
    if isinstance(window, str):
        if window not in ("hann", "hamming"):
            raise ValueError(
                f'If a string is passed to `window`, it must be one of `"hann"`, `"hamming"`. Received: window={window}'
            )
        make = tfsignal.hann_window if window == "hann" else tfsignal.hamming_window
        window = make(sequence_length, periodic=True, dtype=dtype)
    window = convert_to_tensor(window, dtype)
    if sizes_of(window) != (sequence_length,):
        raise ValueError(
            f"The shape of `window` must be equal to [sequence_length]. Received: window shape={sizes_of(window)}"
        )
    return ops.pad(window, before=(before,), after=(after,))


def stft(x, sequence_length, sequence_stride, fft_length, window="hann", center=True):
    x = convert_to_tensor(x)
    if x.dtype.name not in ("float32", "float64"):
        raise TypeError(f"Invalid input type. Expected `float32` or `float64`. Received: input type={x.dtype.name}")
    if fft_length < sequence_length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. "
            f"Received: sequence_length={sequence_length}, fft_length={fft_length}"
        )
    shape_of_one = _window(window, sequence_length, fft_length, x.dtype)
    last = len(sizes_of(x)) - 1
    if center:
        x = knp.pad(x, [(0, 0)] * last + [(fft_length // 2, fft_length // 2)], mode="reflect")
    frames = signal.frame(x, axis=last, length=fft_length, step=sequence_stride)
    return _parts(signal.rfft(frames * shape_of_one, axis=(last + 1,)))


def istft(x, sequence_length, sequence_stride, fft_length, length=None, window="hann", center=True):
    """Overlap-add the frames, divided by the sum of the squared windows."""
    frames = tfsignal.irfft(_get_complex_tensor_from_tuple(x), [fft_length])
    if window is not None:
        shape_of_one = _window(window, sequence_length, fft_length, frames.dtype)
        overlaps = -(-fft_length // sequence_stride)
        squares = ops.pad(math.square(shape_of_one), before=(0,), after=(overlaps * sequence_stride - fft_length,))
        sums = reduce.sum_(ops.reshape(squares, shape=(overlaps, sequence_stride)), axis=(0,), keepdims=False)
        frames = frames * special.divide_no_nan(shape_of_one, cut(knp.tile(sums, overlaps), 0, 0, fft_length))
    count, axis = sizes_of(frames)[-2], len(sizes_of(frames)) - 2
    size = fft_length + sequence_stride * (count - 1)
    result = signal.overlap_add(frames, axis=axis, step=sequence_stride, size=size)
    start = fft_length // 2 if center else 0
    end = start + length if length is not None else size - start
    return cut(result, axis, start, end)


# -- special functions -----------------------------------------------------------------------------------------------
@ragged.elementwise
def rsqrt(x):
    return math.rsqrt(floats(x))


def _in_wide(function, x):
    x = floats(x)
    return cast(function(wide(x)), x.dtype)


def erf(x):
    return _in_wide(special.erf, x)


def erfc(x):
    return _in_wide(special.erfc, x)


def erfinv(x):
    return _in_wide(special.erfinv, x)


def logdet(x):
    return knp.slogdet(floats(x))[1]
