"""`tf.signal`: short-time Fourier transforms, MDCT, and mel spectrograms."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import operand, wrap
from gradtape._src.dtypes import as_dtype, float32
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import count_of, extent, integer, plain_number, truth
from gradtape._src.tf.signal.cosine import dct
from gradtape._src.tf.signal.fourier import fit, irfft, rfft
from gradtape._src.tf.signal.frames import frame, overlap_and_add
from gradtape._src.tf.signal.windows import Window, hann_window, vorbis_window, window_dtype

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- spectrograms ----------------------------------------------------------------------------------------------------
def _enclosing_power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def stft(
    signals: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Compute the short-time Fourier transform: windowed, transformed frames of the last axis, [..., frames, bins].

    >>> tf.signal.stft([0.0, 1.0, 0.0, -1.0] * 8, frame_length=8, frame_step=4).shape
    TensorShape([7, 5])
    """
    x = operand(signals)
    length = count_of(frame_length, "frame_length")
    points = _enclosing_power_of_two(length) if fft_length is None else count_of(fft_length, "fft_length")
    if x.dtype not in (float32, as_dtype("float64"), as_dtype("float16")):
        kind = TypeError if x.array.dtype.kind in "bO" else ValueError
        raise kind(f"RFFT requires tf.float32 or tf.float64 inputs, got: {x!r}")
    frames = frame(x, length, frame_step, pad_end=pad_end)
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return rfft(frames, [points])


def inverse_stft_window_fn(frame_step: Any, forward_window_fn: Window = hann_window, name: str | None = None) -> Window:
    """Return the window with which `inverse_stft` undoes `stft`: the forward one over its summed overlapping squares.

    >>> window = tf.signal.inverse_stft_window_fn(frame_step=2)
    >>> print(window(4, dtype=tf.float32).numpy().round(4))
    [0. 1. 1. 1.]
    """
    step = count_of(frame_step, "frame_step")

    def inverse_window(frame_length: Any, dtype: Any = "float32") -> Tensor:
        length = count_of(frame_length, "frame_length")
        forward = np.asarray(operand(forward_window_fn(length, dtype=as_dtype(dtype))).array)
        overlaps = -(-length // step)
        squares = np.zeros(overlaps * step, forward.dtype)
        squares[:length] = forward**2
        total = np.tile(squares.reshape(overlaps, step).sum(0), overlaps)[:length]
        return wrap((forward / total).astype(forward.dtype))

    return inverse_window


def inverse_stft(
    stfts: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Reconstruct a signal from its short-time transform: frames are inverted, windowed, overlapped and added.

    >>> x = tf.sin(tf.range(16.0))
    >>> window = tf.signal.inverse_stft_window_fn(2)
    >>> y = tf.signal.inverse_stft(tf.signal.stft(x, 4, 2), 4, 2, window_fn=window)
    >>> bool(tf.reduce_max(tf.abs(x - y)[2:-2]) < 1e-5)
    True
    """
    x = operand(stfts)
    if len(x.array.shape) < 2:
        raise ValueError(f"stfts should have at least 2 dimensions (frames and bins). Received: {x.shape}")
    length = count_of(frame_length, "frame_length")
    points = _enclosing_power_of_two(length) if fft_length is None else count_of(fft_length, "fft_length")
    frames = irfft(x, [points])
    frames = fit(frames, (len(frames.array.shape) - 1,), (length,))
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return overlap_and_add(frames, frame_step)


def _mdct_window(window_fn: Window | None, length: int, dtype: Any) -> Any:
    return _math.sqrt(0.5) if window_fn is None else window_fn(length, dtype=dtype)


def mdct(
    signals: TensorLike,
    frame_length: Any,
    window_fn: Window | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the modified discrete cosine transform: half-overlapping frames of length 2 N, folded to N coefficients.

    >>> tf.signal.mdct(tf.range(16.0), frame_length=4).shape
    TensorShape([7, 2])
    """
    length, pad_end = count_of(frame_length, "frame_length"), truth(pad_end)
    if length % 4:
        raise ValueError(f"The frame length must be a multiple of 4. Received: {length}")
    frames = frame(operand(signals), length, length // 2, pad_end=pad_end)
    frames = frames * _mdct_window(window_fn, length, frames.dtype)
    last, quarter = len(frames.array.shape) - 1, length // 4
    a, b, c, d = array.split(frames, sizes=(quarter,) * 4, axis=last)
    folded = array.concatenate(-array.flip(c, axis=(last,)) - d, a - array.flip(b, axis=(last,)), axis=last)
    return dct(folded, type=4, norm=norm)


def inverse_mdct(
    mdcts: Any, window_fn: Window | None = vorbis_window, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the inverse of `mdct`, for samples that lie in two frames.

    >>> x = tf.sin(tf.range(16.0))
    >>> y = tf.signal.inverse_mdct(tf.signal.mdct(x, 4, norm="ortho"), norm="ortho")
    >>> bool(tf.reduce_max(tf.abs(x - y)[2:-2]) < 1e-5)
    True
    """
    x = operand(mdcts)
    if len(x.array.shape) < 2 or x.dtype not in (float32, as_dtype("float64")):
        raise ValueError(f"mdcts must be at least rank 2 and of tf.float32 or tf.float64. Received: {x!r}")
    last = len(x.array.shape) - 1
    half = x.array.shape[last]
    if half % 2:
        raise ValueError(f"The number of coefficients must be even. Received: {half}")
    if half == 0:
        empty: Tensor = array.reshape(x, shape=(*x.array.shape[:-2], 0))
        return empty
    folded = dct(x, type=4, norm=norm)
    if norm is None:
        folded = folded * (0.5 / half)
    p, q = array.split(folded, sizes=(half // 2,) * 2, axis=last)
    frames = array.concatenate(q, -array.flip(q, axis=(last,)), -array.flip(p, axis=(last,)), -p, axis=last)
    return overlap_and_add(frames * _mdct_window(window_fn, 2 * half, frames.dtype), half)


# -- mel -------------------------------------------------------------------------------------------------------------
_MEL_BREAK_HERTZ, _MEL_HIGH_Q = 700.0, 1127.0


def _mel(hertz: Any) -> Any:
    return _MEL_HIGH_Q * np.log1p(hertz / _MEL_BREAK_HERTZ)


def linear_to_mel_weight_matrix(
    num_mel_bins: Any = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: Any = 125.0,
    upper_edge_hertz: Any = 3800.0,
    dtype: Any = "float32",
    name: str | None = None,
) -> Tensor:
    """Compute the matrix [spectrogram bins, mel bins] of triangles that are evenly spaced on the mel scale.

    >>> tf.signal.linear_to_mel_weight_matrix(4, 17, 8000, 100.0, 3800.0).shape
    TensorShape([17, 4])
    """
    kind = window_dtype(dtype)
    mels = extent(num_mel_bins, "num_mel_bins", "LinSpace")
    bins = integer(num_spectrogram_bins, "LinSpace", fixed=True)
    rate, low, high = (
        plain_number(value, word)
        for word, value in (
            ("sample_rate", sample_rate),
            ("lower_edge_hertz", lower_edge_hertz),
            ("upper_edge_hertz", upper_edge_hertz),
        )
    )
    if bins < 0:
        raise errors.invalid_argument(f"Requires num > 0: {bins}", "LinSpace")
    if mels <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {mels}")
    if low < 0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {low}")
    if low >= high:
        raise ValueError(f"lower_edge_hertz {low:.1f} >= upper_edge_hertz {high:.1f}")
    if rate <= 0:
        raise ValueError(f"sample_rate must be positive. Got: {rate}")
    if high > rate / 2:
        raise ValueError(
            f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got {high} for "
            f"sample_rate: {rate}"
        )
    frequencies = _mel(np.linspace(0.0, rate / 2, bins)[1:, None])  # the first bin, a constant offset, belongs to none
    edges = np.linspace(_mel(low), _mel(high), mels + 2)
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - lower) / (centre - lower), (upper - frequencies) / (upper - centre)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return wrap(np.pad(weights, [(1, 0), (0, 0)]).astype(kind))


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Compute the mel-frequency cepstral coefficients of log-magnitude mel spectrograms.

    >>> tf.signal.mfccs_from_log_mel_spectrograms(tf.ones([5, 40])).shape
    TensorShape([5, 40])
    """
    x = operand(log_mel_spectrograms)
    if not x.array.shape:
        raise errors.invalid_argument("slice index -1 of dimension 0 out of bounds.", "StridedSlice")
    bins = x.array.shape[-1]
    if bins == 0:
        raise ValueError("num_mel_bins must be positive. Got: 0")
    return dct(x, type=2) * (1 / _math.sqrt(2 * bins))
