"""tf.signal: against TensorFlow's stored results, against NumPy, and each linear map against its transpose."""

from __future__ import annotations

import numpy as np
import pytest
from tf_cases import signal as questions
from tf_cases.record import load

import gradtape as tf
from gradtape.testing import check_gradients

STORED = load("signal")
CASES = questions.cases(tf)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def complex_noise(*shape: int, seed: int = 0) -> np.ndarray:
    return noise(*shape, seed=seed) + 1j * noise(*shape, seed=seed + 1)


@pytest.mark.parametrize("name", CASES)
def test_equals_tensorflow(name: str):
    expected = STORED[name]
    if isinstance(expected, str):  # TensorFlow has no gradient or no kernel here: gradtape has
        assert expected in ("InvalidArgumentError", "LookupError", "NotFoundError")
        CASES[name]()
        return
    for got, want in zip(CASES[name](), expected, strict=True):
        array = np.asarray(got)
        assert array.dtype == want.dtype
        assert array.shape == want.shape
        tight = want.dtype in (np.float64, np.complex128)
        np.testing.assert_allclose(
            array, want, rtol=0, atol=(1e-12 if tight else 2e-6) * (1 + np.abs(want).max(initial=0))
        )


# -- values --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_fft_keeps_precision(dtype: str):
    z = tf.constant(complex_noise(3, 8).astype(dtype))
    for function, expected in ((tf.signal.fft, np.fft.fft), (tf.signal.ifft, np.fft.ifft)):
        got = function(z)
        assert got.dtype == dtype
        np.testing.assert_allclose(
            got, expected(z.numpy().astype(complex)), atol=1e-5 if dtype == "complex64" else 1e-13
        )


@pytest.mark.parametrize(("dtype", "spectrum"), [("float32", "complex64"), ("float64", "complex128")])
def test_rfft_keeps_precision(dtype: str, spectrum: str):
    x = tf.constant(noise(3, 7).astype(dtype))
    half = tf.signal.rfft(x)
    assert half.dtype == spectrum
    back = tf.signal.irfft(half, [7])
    assert back.dtype == dtype
    np.testing.assert_allclose(back, x, atol=1e-5)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_nd_transforms_equal_numpy(norm: str | None):
    z, x = complex_noise(2, 3, 4), tf.constant(noise(2, 3, 4))
    np.testing.assert_allclose(tf.signal.fftnd(z, norm=norm), np.fft.fftn(z, norm=norm), atol=1e-12)
    np.testing.assert_allclose(
        tf.signal.fftnd(z, [5, 2], [0, 2], norm), np.fft.fftn(z, [5, 2], [0, 2], norm), atol=1e-12
    )
    np.testing.assert_allclose(tf.signal.ifftnd(z, axes=[1], norm=norm), np.fft.ifftn(z, axes=[1], norm=norm))
    np.testing.assert_allclose(
        tf.signal.rfftnd(x, axes=[2, 0], norm=norm), np.fft.rfftn(x, axes=[2, 0], norm=norm), atol=1e-12
    )
    half = np.fft.rfftn(x, axes=[1, 2], norm=norm)
    np.testing.assert_allclose(tf.signal.irfftnd(half, axes=[1, 2], norm=norm), x, atol=1e-12)
    with pytest.raises(ValueError, match="norm"):
        tf.signal.fftnd(z, norm="loud")


def test_transforms_undo_each_other():
    x = noise(2, 6)
    for kind, scale in ((1, 10), (2, 12), (3, 12), (4, 12)):
        np.testing.assert_allclose(tf.signal.idct(tf.signal.dct(x, kind), kind) / scale, x, atol=1e-12)
        if kind > 1:
            np.testing.assert_allclose(tf.signal.idct(tf.signal.dct(x, kind, norm="ortho"), kind, norm="ortho"), x)
    np.testing.assert_allclose(tf.signal.ifftshift(tf.signal.fftshift(x, [1]), [1]), x)
    signal = noise(64)
    for window in (tf.signal.vorbis_window, tf.signal.kaiser_bessel_derived_window, None):
        for norm in (None, "ortho"):
            back = np.asarray(tf.signal.inverse_mdct(tf.signal.mdct(signal, 16, window, norm=norm), window, norm=norm))
            np.testing.assert_allclose(back[8:-8], signal[8:-8], atol=1e-6)
    parts = tf.signal.stft(signal, 16, 4)
    back = np.asarray(tf.signal.inverse_stft(parts, 16, 4, window_fn=tf.signal.inverse_stft_window_fn(4)))
    np.testing.assert_allclose(back[16:48], signal[16:48], atol=1e-6)


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_inverse_mdct_of_no_coefficients(norm):
    x = tf.Variable(tf.zeros([2, 3, 0]))
    with tf.GradientTape() as tape:
        y = tf.signal.inverse_mdct(x, norm=norm)
    assert y.shape == [2, 0]
    assert tape.gradient(y, x).shape == [2, 3, 0]


def test_dct_of_another_axis():
    x = noise(4, 3, 2)
    np.testing.assert_allclose(
        tf.signal.dct(x, axis=0), np.moveaxis(np.asarray(tf.signal.dct(x.T)), -1, 0).swapaxes(1, 2)
    )


# -- transposes: <A x, y> = <x, A^T y> -----------------------------------------------------------
LINEAR = {
    "fft": (lambda x: tf.signal.fft(x), complex_noise(3, 5)),
    "ifft2d": (lambda x: tf.signal.ifft2d(x), complex_noise(2, 3, 5)),
    "fft3d": (lambda x: tf.signal.fft3d(x), complex_noise(2, 3, 2)),
    "fftnd": (lambda x: tf.signal.fftnd(x, [3, 5], [2, 0]), complex_noise(2, 3, 4)),
    "rfft": (lambda x: tf.signal.rfft(x), noise(3, 6)),
    "rfft odd": (lambda x: tf.signal.rfft(x, [5]), noise(3, 4)),
    "rfft2d": (lambda x: tf.signal.rfft2d(x, [2, 7]), noise(3, 6)),
    "rfft3d": (lambda x: tf.signal.rfft3d(x), noise(2, 3, 4)),
    "irfft": (lambda x: tf.signal.irfft(x), complex_noise(2, 4)),
    "irfft odd": (lambda x: tf.signal.irfft(x, [7]), complex_noise(2, 5)),
    "irfft2d": (lambda x: tf.signal.irfft2d(x, [4, 5]), complex_noise(3, 4)),
    "frame": (lambda x: tf.signal.frame(x, 3, 2, axis=0), noise(8, 2)),
    "frame padded": (lambda x: tf.signal.frame(x, 4, 3, pad_end=True), noise(2, 8)),
    "overlap_and_add": (lambda x: tf.signal.overlap_and_add(x, 2), noise(2, 3, 5)),
    "dct": (lambda x: tf.signal.dct(x, 2, norm="ortho"), noise(2, 5)),
    "stft": (lambda x: tf.signal.stft(x, 5, 2), noise(12)),
    "mdct": (lambda x: tf.signal.mdct(x, 8), noise(16)),
    "fftshift": (lambda x: tf.signal.fftshift(x), noise(3, 4)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_transpose(name: str):
    f, x = LINEAR[name]
    source = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(source)
        out = f(source)
    y = complex_noise(*out.shape, seed=5) if out.dtype.is_complex else noise(*out.shape, seed=5)
    back = np.asarray(tape.gradient(out, source, output_gradients=tf.constant(y)))
    left, right = np.real(np.vdot(y, np.asarray(out))), np.real(np.vdot(back, x))
    np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_of_squares(name: str):
    f, x = LINEAR[name]
    check_gradients(lambda t: tf.abs(f(t)) ** 2, x)


def test_second_order_of_a_spectrum():
    check_gradients(lambda x: tf.math.log(1.0 + tf.abs(tf.signal.rfft(x)) ** 2), noise(6), order=2)


def test_batched_transform_is_no_loop():
    """A Jacobian of a transform is one transform of all rows."""
    x = tf.constant(complex_noise(4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.real(tf.signal.fft(x))
    jacobian = np.asarray(tape.jacobian(y, x))
    np.testing.assert_allclose(jacobian, np.conj(np.fft.fft(np.eye(4))), atol=1e-14)


# -- refusals ------------------------------------------------------------------------------------
def test_refusals():
    s = tf.signal
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Tcomplex.*complex64"):
        s.fft(tf.constant([1.0, 2.0]))
    assert s.fft([1.0, 2.0]).dtype == tf.complex64  # plain numbers become complex ones
    with pytest.raises(ValueError, match=r"RFFT requires tf\.float32 or tf\.float64 inputs"):
        s.rfft(tf.constant([1, 2]))
    assert s.rfft([1, 2]).dtype == tf.complex64  # plain numbers become floats
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank of at least 2"):
        s.fft2d([1j, 2j])
    with pytest.raises(tf.errors.InvalidArgumentError, match="fft_length"):
        s.rfft2d([[1.0, 2.0]], [4])
    with pytest.raises(ValueError, match="Types I, II, III and IV"):
        s.dct([1.0, 2.0], 5)
    with pytest.raises(ValueError, match="Type-I"):
        s.dct([1.0, 2.0], 1, norm="ortho")
    with pytest.raises(ValueError, match="greater than 1"):
        s.dct([1.0], 1)
    with pytest.raises(ValueError, match="normalization"):
        s.dct([1.0], norm="other")
    with pytest.raises(ValueError, match="positive integer"):
        s.dct([1.0], n=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Paddings must be non-negative"):
        s.dct(tf.zeros([0]), norm="ortho")
    with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype int64"):
        s.rfft2d([[1.0, 2.0]], tf.constant([1, 2], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a vector"):
        s.fftshift([[1.0, 2.0]], [[0], [1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="frame_step must be positive"):
        s.frame([1.0], 1, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="start <= limit"):
        s.frame([1.0], -1, 1)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        s.overlap_and_add([1.0], 1)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        s.inverse_stft([1j], 4, 2)
    with pytest.raises(ValueError, match="multiple of 4"):
        s.mdct([1.0] * 8, 6)
    with pytest.raises(ValueError, match="floating point"):
        s.hann_window(4, dtype=tf.int32)
    with pytest.raises(ValueError, match="Nyquist"):
        s.linear_to_mel_weight_matrix(upper_edge_hertz=5000.0)
    with pytest.raises(ValueError, match="num_mel_bins"):
        s.linear_to_mel_weight_matrix(0)


def test_frames_of_short_signals():
    assert tf.signal.frame([1.0, 2.0], 3, 1).shape == (0, 3)
    assert tf.signal.frame(np.zeros(0, np.float32), 3, 1, pad_end=True).shape == (0, 3)
    assert tf.signal.frame([1, 2], 3, 1, pad_end=True, pad_value=9).numpy().tolist() == [[1, 2, 9], [2, 9, 9]]
