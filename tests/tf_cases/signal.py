"""What `tf.signal` is asked, of TensorFlow (to store the answers) and of gradtape (to compare)."""

from __future__ import annotations

from typing import Any

import numpy as np


def _noise(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).round(3)


def _complex(*shape: int, seed: int = 0) -> Any:
    return _noise(*shape, seed=seed) + 1j * _noise(*shape, seed=seed + 100)


def _gradient(tf: Any, f: Any, x: Any) -> list[Any]:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return [y, tape.gradient(y, x)]


def cases(tf: Any) -> dict[str, Any]:
    """Name -> a function without arguments that gives tensors."""
    s = tf.signal
    found: dict[str, Any] = {}
    for name, dims in {"fft": 1, "ifft": 1, "fft2d": 2, "ifft2d": 2, "fft3d": 3, "ifft3d": 3}.items():
        z, f = _complex(2, 3, 4, 5)[(0,) * (3 - dims)], getattr(s, name)
        found[name] = lambda f=f, z=z: _gradient(tf, lambda a: tf.abs(f(a)) ** 2, z)
    for name, dims in {"rfft": 1, "rfft2d": 2, "rfft3d": 3}.items():
        for last in (4, 5, 7):
            x, f = _noise(3, 4, 5)[(0,) * (3 - dims)], getattr(s, name)
            lengths = None if last == 5 else [*x.shape[x.ndim - dims : -1], last]
            found[f"{name}_{last}"] = lambda f=f, x=x, n=lengths: _gradient(tf, lambda a: tf.abs(f(a, n)) ** 2, x)
    for name, dims in {"irfft": 1, "irfft2d": 2, "irfft3d": 3}.items():
        for last in (4, 5, 8):
            z, f = _complex(3, 4, 4)[(0,) * (3 - dims)], getattr(s, name)
            lengths = None if last == 5 else [*z.shape[z.ndim - dims : -1], last]
            found[f"{name}_{last}"] = lambda f=f, z=z, n=lengths: _gradient(tf, lambda a: f(a, n) ** 2, z)
    found["fftshift"] = lambda: [
        s.fftshift(_noise(4, 5)),
        s.fftshift(_noise(4, 5), axes=[1]),
        s.ifftshift(_noise(4, 5)),
        s.ifftshift(_noise(5)),
    ]
    for kind in (1, 2, 3, 4):
        for norm in (None, "ortho") if kind > 1 else (None,):
            found[f"dct{kind}_{norm}"] = lambda kind=kind, norm=norm: [
                *_gradient(tf, lambda a: s.dct(a, kind, norm=norm) ** 2, _noise(2, 6)),
                s.idct(_noise(2, 6), kind, norm=norm),
                s.dct(_noise(2, 6), kind, n=5, norm=norm),
                s.dct(_noise(2, 6), kind, n=9, norm=norm),
            ]
    for length, step, end, axis in (
        (4, 2, False, -1),
        (3, 2, True, -1),
        (5, 1, False, 0),
        (2, 5, True, 0),
        (7, 3, True, 1),
    ):
        found[f"frame_{length}_{step}_{end}_{axis}"] = lambda args=(length, step, end), axis=axis: _gradient(
            tf, lambda a: s.frame(a, *args, pad_value=0.5, axis=axis) ** 2, _noise(6, 10)
        )
    for step in (1, 2, 3, 5, 7):
        found[f"overlap_and_add_{step}"] = lambda step=step: _gradient(
            tf, lambda a: s.overlap_and_add(a, step) ** 2, _noise(2, 4, 5)
        )
    for length in (1, 2, 5, 8):
        found[f"windows_{length}"] = lambda n=length: [
            s.hann_window(n),
            s.hamming_window(n),
            s.hann_window(n, periodic=False),
            s.kaiser_window(n, 3.0),
            s.vorbis_window(n),
            s.hamming_window(n, dtype=tf.float64),
        ]
    found["kaiser_bessel_derived"] = lambda: [
        s.kaiser_bessel_derived_window(8),
        s.kaiser_bessel_derived_window(12, 4.0),
    ]
    found["stft"] = lambda: [
        *_gradient(tf, lambda a: tf.abs(s.stft(a, 8, 3)) ** 2, _noise(2, 20)),
        s.stft(_noise(20), 6, 2, fft_length=16, pad_end=True, window_fn=s.hamming_window),
        s.stft(_noise(20).astype("float32"), 6, 4, window_fn=None),
    ]
    found["inverse_stft"] = lambda: [
        *_gradient(tf, lambda a: s.inverse_stft(a, 8, 3) ** 2, _complex(2, 4, 5)),
        s.inverse_stft(_complex(4, 9), 10, 5, fft_length=16, window_fn=s.inverse_stft_window_fn(5)),
        s.inverse_stft_window_fn(3)(8, dtype=tf.float32),
        s.inverse_stft_window_fn(2, s.hamming_window)(8, dtype=tf.float64),
    ]
    for norm in (None, "ortho"):
        for window in ("vorbis", "kbd", "none"):
            fn = {"vorbis": s.vorbis_window, "kbd": s.kaiser_bessel_derived_window, "none": None}[window]
            found[f"mdct_{norm}_{window}"] = lambda norm=norm, fn=fn: [
                s.mdct(_noise(2, 24), 8, fn, norm=norm),
                s.mdct(_noise(2, 21), 8, fn, pad_end=True, norm=norm),
                s.inverse_mdct(_noise(2, 3, 4), fn, norm=norm),
            ]
    found["mel"] = lambda: [
        s.linear_to_mel_weight_matrix(5, 17),
        s.linear_to_mel_weight_matrix(8, 33, 16000, 0.0, 8000.0, dtype=tf.float64),
        s.mfccs_from_log_mel_spectrograms(_noise(3, 6)),
    ]
    found["fftnd"] = lambda: [
        s.fftnd(_complex(2, 3, 4), axes=[0, 2], fft_length=[2, 4]),
        s.ifftnd(_complex(2, 3, 4), axes=[1, 2], fft_length=[3, 4]),
        s.rfftnd(_noise(2, 3, 4), axes=[0, 2], fft_length=[2, 4]),
        s.irfftnd(_complex(2, 3, 4), axes=[1, 2], fft_length=[3, 6]),
    ]
    return found
