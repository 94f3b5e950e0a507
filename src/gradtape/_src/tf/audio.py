"""`tf.audio`: sound files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import kept_in_graph
from gradtape._src.conversion import operand, wrap
from gradtape._src.dtypes import float32, int32, string
from gradtape._src.formats import wav
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int
from gradtape._src.tf.string_arrays import input_of, known, string_tensor

__all__ = ["decode_wav", "encode_wav"]


class DecodeWav(NamedTuple):
    """The result of `decode_wav`: the samples, and the sample rate."""

    audio: Tensor
    sample_rate: Tensor


def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodeWav:
    """Decode a 16-bit WAV file to samples in [-1, 1], with a column for each channel, and their sample rate.

    With `desired_channels`, the last channel is repeated or channels are dropped; with `desired_samples`, the audio is
    cut or padded with silence.

    >>> sound = tf.audio.encode_wav([[0.5], [-0.25]], sample_rate=8000)
    >>> audio, rate = tf.audio.decode_wav(sound, desired_samples=3)
    >>> audio.numpy().tolist(), rate.numpy().item()
    ([[0.5], [-0.25], [0.0]], 8000)
    """
    op = "DecodeWav"
    data = known(operand(contents, string) if isinstance(contents, (str, bytes)) else input_of(contents, string, op))
    if data.ndim:
        raise errors.invalid_argument(f"contents must be scalar, got shape {errors.brackets(data.shape)}", op)
    channels, count = as_int(desired_channels, "desired_channels"), as_int(desired_samples, "desired_samples")
    for value, argument in ((channels, "desired_channels"), (count, "desired_samples")):
        if value < -1:
            raise errors.invalid_argument(f"{argument} must be >= -1, got {value}", op)
    try:
        samples, rate = wav.read(data.item())
    except wav.WavError as error:
        raise errors.refused_value(str(error), op) from None
    if channels >= 0:
        samples = samples[:, np.minimum(np.arange(channels), samples.shape[1] - 1)]
    if count >= 0:
        missing = max(0, count - len(samples))
        samples = np.pad(samples[:count], [(0, missing), (0, 0)])
    return DecodeWav(wrap(np.ascontiguousarray(samples)), wrap(np.array(rate, np.int32)))


@kept_in_graph("encode_wav")
def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """Encode samples in [-1, 1], with a column for each channel, as a 16-bit WAV file.

    >>> len(tf.audio.encode_wav([[0.5], [-0.25]], sample_rate=8000).numpy())
    48
    """
    op = "EncodeWav"
    samples, rate = known(input_of(audio, float32, op)), known(input_of(sample_rate, int32, op, 1))
    if samples.ndim != 2:
        raise errors.invalid_argument(f"audio must be 2-dimensional{errors.brackets(samples.shape)}", op)
    if rate.ndim:
        received = errors.brackets(rate.shape)
        raise errors.invalid_argument(f"Input sample_rate should be a scalar tensor, got {received} instead.", op)
    if rate <= 0:
        raise errors.refused_value(f"sample_rate must be in (0, 2^32), got: {rate}", op)
    if not 0 < samples.shape[1] < 1 << 16:
        raise errors.invalid_argument(f"num_channels must be in (0, 2^16), got: {samples.shape[1]}", op)
    return string_tensor([wav.write(samples, int(rate))], ())
