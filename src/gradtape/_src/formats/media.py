"""Images and sounds as files, without other libraries: PNG and WAV."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy import ndarray

__all__ = ["encode_png", "encode_wav"]

_COLORS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's number for gray, gray with alpha, RGB, RGB with alpha


def encode_png(pixels: ndarray) -> bytes:
    """A PNG file of pixels [height, width, channels], uint8 or uint16.

    >>> encode_png(np.zeros((1, 1, 3), np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    height, width, channels = pixels.shape
    depth = pixels.dtype.itemsize
    rows = np.ascontiguousarray(pixels, f">u{depth}").view(np.uint8).reshape(height, width * channels * depth)
    # Each row minus the one above it, which compresses better; the byte before a row says so.
    data = np.empty((height, rows.shape[1] + 1), np.uint8)
    data[:, 0] = 2
    data[:, 1:] = rows
    data[1:, 1:] -= rows[:-1]
    header = struct.pack(">IIBBBBB", width, height, 8 * depth, _COLORS[channels], 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(data.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def encode_wav(samples: ndarray, rate: int) -> bytes:
    """A WAV file with 16 bits of samples [time, channels] between -1 and 1; others are clipped.

    >>> encode_wav(np.zeros((1, 1), np.float32), 8000)[-6:]
    b'\\x02\\x00\\x00\\x00\\x00\\x00'
    """
    channels = samples.shape[1]
    scaled = np.clip(np.asarray(samples, np.float32) * np.float32(32768), -32768, 32767)
    data = np.rint(scaled).astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body
