"""Sound files in the format WAV: 16-bit samples, as `tf.audio` reads and writes them."""

from __future__ import annotations

import struct

import numpy as np
from numpy import ndarray

_FORMAT, _EXTENSIBLE, _PCM = b"fmt ", 0xFFFE, 1
_SCALE = np.float32(1 << 15)


class WavError(ValueError):
    """Bytes that are not a valid WAV file."""


class _Reader:
    """Reads bytes from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if self.at + count > len(self.data):
            raise WavError("Data too short when trying to read string")
        self.at += count
        return self.data[self.at - count : self.at]

    def expect(self, text: bytes) -> None:
        """Skip a name that must come next."""
        found = self.take(len(text))
        if found != text:
            shown = found.decode("utf-8", "backslashreplace")
            raise WavError(f"Header mismatch: Expected {text.decode()} but found {shown}")

    def numbers(self, form: str) -> tuple[int, ...]:
        """Return little-endian numbers."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))


def read(data: bytes) -> tuple[ndarray, int]:
    """Samples from -1 to 1, a row for each moment and a column for each channel; and how many there are in a second.

    >>> samples, rate = read(write(np.array([[0.5], [-1.0]], np.float32), 8000))
    >>> samples.tolist(), rate
    ([[0.5], [-1.0]], 8000)
    """
    reader = _Reader(data)
    reader.expect(b"RIFF")
    reader.numbers("I")
    reader.expect(b"WAVE")
    reader.expect(_FORMAT)
    channels, rate = _header(reader)
    while reader.at < len(data):
        name, (size,) = reader.take(4), reader.numbers("I")
        content = reader.take(size)
        if name == b"data":
            frames = len(content) // (2 * channels)
            samples = np.frombuffer(content[: frames * 2 * channels], "<i2").reshape(frames, channels)
            return samples.astype(np.float32) / _SCALE, rate
    raise WavError("No data chunk found in WAV")


def _header(reader: _Reader) -> tuple[int, int]:
    """The channels and the sample rate, after the name of the header."""
    (size,) = reader.numbers("I")
    if size not in (16, 18, 40):
        raise WavError(f"Bad format chunk size for WAV: Expected 16, 18, or 40, but got{size}")
    kind, channels, rate, per_second, per_frame, bits = reader.numbers("HHIIHH")
    reader.take(size - 16)
    if kind not in (_PCM, _EXTENSIBLE):
        raise WavError(f"Bad audio format for WAV: Expected 1 (PCM), but got{kind}")
    if bits != 16:
        raise WavError(f"Can only read 16-bit WAV files, but received {bits}")
    if per_frame != 2 * channels or not channels:
        raise WavError(f"Bad bytes per sample in WAV header: Expected {2 * channels} but got {per_frame}")
    if per_second != per_frame * rate:
        raise WavError(f"Bad bytes per second in WAV header: Expected {per_frame * rate} but got {per_second}")
    return channels, rate


def write(samples: ndarray, rate: int) -> bytes:
    """A WAV file of samples from -1 to 1; others are clipped."""
    scaled = np.clip(np.sign(samples) * np.floor(np.abs(samples) * _SCALE + np.float32(0.5)), -(1 << 15), (1 << 15) - 1)
    content = scaled.astype("<i2").tobytes()
    channels = samples.shape[1]
    header = struct.pack("<IHHIIHH", 16, _PCM, channels, rate, 2 * channels * rate, 2 * channels, 16)
    body = b"WAVE" + _FORMAT + header + b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", len(body)) + body
