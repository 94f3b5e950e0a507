"""tf.image and tf.io: against TensorFlow's stored results, transposes, derivatives, files, refusals."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from tf_cases import image as questions
from tf_cases.record import load

import gradtape as tf
from gradtape._src.arrays.numpy import image as kernels
from gradtape._src.ops.image import resample
from gradtape.testing import check_gradients

STORED = load("image")
CASES = questions.cases(tf)
INVALID = tf.errors.InvalidArgumentError


def picture(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, size=shape)


@pytest.mark.parametrize("name", CASES)
def test_equals_tensorflow(name: str):
    for got, want in zip(CASES[name](), STORED[name], strict=True):
        if want is None:
            assert got is None
            continue
        array = np.asarray(got)
        assert array.dtype == want.dtype
        assert array.shape == want.shape
        if want.dtype.kind == "f":
            loose = 1e-3 if want.dtype == np.float16 else 3e-6
            np.testing.assert_allclose(array, want, rtol=0, atol=loose * (1 + np.abs(want).max(initial=0)))
        else:
            np.testing.assert_array_equal(array, want)


# -- resizing ----------------------------------------------------------------------------------------
SIZES = [(1, 1), (1, 7), (7, 1), (4, 8), (8, 4), (5, 7), (50, 33), (33, 50), (300, 301), (200, 77)]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", questions.METHODS)
def test_resize_transpose_and_both_ways(method: str, antialias: bool):
    """<A x, y> = <x, A^T y>, and passes over taps give what the whole matrix gives."""
    for size, wanted in SIZES:
        x, y = picture(2, size, 3), picture(2, wanted, 3, seed=1)
        facts = {"axis": 1, "method": method, "antialias": antialias}
        out, back = kernels.resample(x, size=wanted, **facts), kernels.unsample(y, size=size, **facts)
        np.testing.assert_allclose(np.vdot(out, y), np.vdot(x, back), rtol=1e-12)
        matrix = kernels.weight_matrix(size, wanted, method, antialias)
        np.testing.assert_allclose(out, np.einsum("oi,bic->boc", matrix, x), atol=1e-12)
        if method != "area":  # TensorFlow's area divides by the nominal area, which single precision rounds
            np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-12)


@pytest.mark.parametrize("method", questions.METHODS)
def test_resize_derivatives(method: str):
    check_gradients(lambda x: resample(x, axis=0, size=5, method=method, antialias=False) ** 2, picture(3, 2))
    check_gradients(lambda x: resample(x, axis=1, size=2, method=method, antialias=True) ** 2, picture(2, 5))


def test_resize_keeps_what_is_even():
    even = np.full((1, 5, 6, 2), 0.3, np.float32)
    for method in questions.METHODS:
        np.testing.assert_allclose(tf.image.resize(even, [8, 3], method, antialias=True), 0.3, rtol=1e-5)


def test_resize_gradient_has_the_dtype_of_the_image():
    for dtype in ("float16", "float64"):
        x = tf.constant(picture(2, 2, 1), dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.image.resize(x, [4, 4])
        assert y.dtype == tf.float32
        gradient = tape.gradient(y, x)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, 4, rtol=1e-3)


# -- derivatives ------------------------------------------------------------------------------------
SMOOTH = {
    "hsv_to_rgb": (tf.image.hsv_to_rgb, picture(3, 3)),
    "rgb_to_hsv": (tf.image.rgb_to_hsv, picture(3, 3)),
    "rgb_to_yuv": (tf.image.rgb_to_yuv, picture(2, 3)),
    "yiq_to_rgb": (tf.image.yiq_to_rgb, picture(2, 3)),
    "grayscale_to_rgb": (lambda x: tf.image.grayscale_to_rgb(x) ** 2, picture(2, 2, 1)),
    "total_variation": (tf.image.total_variation, picture(2, 3, 3, 1)),
    "sobel_edges": (lambda x: tf.image.sobel_edges(x) ** 2, picture(1, 3, 4, 1)),
    "image_gradients": (lambda x: [t**2 for t in tf.image.image_gradients(x)], picture(1, 3, 3, 1)),
    "extract_patches": (
        lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1], "SAME") ** 2,
        picture(1, 3, 4, 1),
    ),
    "central_crop": (lambda x: tf.image.central_crop(x, 0.5) ** 2, picture(4, 4, 1)),
    "resize_with_crop_or_pad": (lambda x: tf.image.resize_with_crop_or_pad(x, 2, 5) ** 2, picture(3, 3, 1)),
    "rot90": (lambda x: tf.image.rot90(x) ** 2, picture(2, 3, 1)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str):
    f, x = SMOOTH[name]
    check_gradients(f, x, order=2)


def numeric(f, x: np.ndarray, eps: float = 1e-2) -> np.ndarray:
    """The derivative of a float32 function by differences, for what TensorFlow computes in single precision."""
    found = np.zeros(x.size)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = eps
        ends = [
            float(tf.reduce_sum(f(tf.constant((x.ravel() + s * step).reshape(x.shape), tf.float32)))) for s in (1, -1)
        ]
        found[i] = (ends[0] - ends[1]) / (2 * eps)
    return found.reshape(x.shape)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: tf.image.rgb_to_grayscale(x) ** 2, picture(2, 2, 3)),
        (lambda x: tf.image.adjust_hue(x, 0.1) ** 2, picture(1, 2, 3)),
        (lambda x: tf.image.adjust_saturation(x, 0.7) ** 2, picture(1, 2, 3)),
        (lambda x: tf.image.adjust_contrast(x, 1.3) ** 2, picture(2, 2, 3)),
        (lambda x: tf.image.adjust_gamma(x, 1.7) ** 2, picture(2, 2, 3)),
        (lambda x: tf.image.per_image_standardization(x) ** 3, picture(2, 2, 2)),
        (lambda x: tf.image.ssim(x, picture(6, 6, 1).astype("float32"), 1.0, filter_size=3), picture(6, 6, 1, seed=1)),
        (lambda x: tf.image.psnr(x, picture(3, 3, 1).astype("float32"), 1.0), picture(3, 3, 1, seed=1)),
        (lambda x: tf.image.resize_with_pad(x, 5, 5) ** 2, picture(2, 3, 1)),
        (lambda b: tf.image.crop_and_resize(picture(1, 6, 7, 1), b, [0], [2, 3]), np.array([[0.12, 0.21, 0.7, 0.8]])),
    ],
)  # fmt: skip
def test_derivatives_in_single_precision(f, x: np.ndarray):
    source = tf.constant(x, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(source)
        y = f(source)
    expected = numeric(f, x, 3e-3)
    np.testing.assert_allclose(tape.gradient(y, source), expected, rtol=2e-2, atol=1e-2 * np.abs(expected).max())


@pytest.mark.parametrize("colour", [[-1, -2, -3], [0, -1, -2], [0, 0, -1], [-2, -1, 0]])
def test_the_hue_of_black_does_not_move(colour):
    x = tf.constant([colour], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        hue, saturation, value = tf.unstack(tf.image.rgb_to_hsv(x), axis=-1)
    assert hue.numpy().item() > 0
    assert tape.gradient(hue, x).numpy().tolist() == [[0, 0, 0]]
    assert tape.gradient(saturation, x).numpy().tolist() == [[0, 0, 0]]
    assert tape.gradient(value, x).numpy().sum() == 1


def test_crop_and_resize_second_order():
    boxes, image = tf.constant([[0.1, 0.2, 0.8, 0.7]]), tf.constant(picture(1, 5, 5, 1), tf.float32)
    with tf.GradientTape() as outer:
        outer.watch(boxes)
        with tf.GradientTape() as inner:
            inner.watch(boxes)
            y = tf.reduce_sum(tf.image.crop_and_resize(image, boxes, [0], [3, 3]) ** 2)
        first = inner.gradient(y, boxes)
    assert np.all(np.isfinite(outer.gradient(first, boxes)))


# -- augmentation -----------------------------------------------------------------------------------
def test_augmentation_repeats_with_the_seed():
    x = picture(5, 6, 3).astype("float32")
    calls = [
        lambda: tf.image.random_brightness(x, 0.3), lambda: tf.image.random_contrast(x, 0.3, 2.0),
        lambda: tf.image.random_hue(x, 0.3), lambda: tf.image.random_saturation(x, 0.3, 2.0),
        lambda: tf.image.random_flip_left_right(x), lambda: tf.image.random_flip_up_down(x),
        lambda: tf.image.random_crop(x, [2, 2, 3]),
    ]  # fmt: skip
    tf.random.set_seed(1)
    first = [c().numpy() for c in calls]
    tf.random.set_seed(1)
    for a, c in zip(first, calls, strict=True):
        np.testing.assert_array_equal(a, c())
    tf.random.set_seed(None)


def test_random_crop_is_a_part():
    x = np.arange(20).reshape(4, 5)
    for i in range(10):
        part = tf.image.stateless_random_crop(x, [2, 3], [i, 1]).numpy()
        assert part[0, 1] == part[0, 0] + 1
        assert part[1, 0] == part[0, 0] + 5


def test_flips_are_followed():
    x = tf.constant(picture(4, 2, 3, 1))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.image.stateless_random_flip_left_right(x, [1, 2]) * tf.constant(picture(4, 2, 3, 1, seed=1))
    weights = tf.image.stateless_random_flip_left_right(picture(4, 2, 3, 1, seed=1), [1, 2])
    np.testing.assert_allclose(tape.gradient(y, x), weights)  # a flip is its own transpose


# -- boxes --------------------------------------------------------------------------------------------
def test_non_max_suppression_orders_corners_and_thresholds():
    boxes = [[1.0, 1, 0, 0], [0, 0, 1, 0.95], [0, 0, 0.4, 0.4], [5, 5, 6, 6]]
    scores = [0.9, 0.8, 0.7, 0.6]
    assert tf.image.non_max_suppression(boxes, scores, 4).numpy().tolist() == [0, 2, 3]
    assert tf.image.non_max_suppression(boxes, scores, 2).numpy().tolist() == [0, 2]
    assert tf.image.non_max_suppression(boxes, scores, 4, score_threshold=0.65).numpy().tolist() == [0, 2]
    assert tf.image.non_max_suppression(boxes, scores, 4, iou_threshold=1.0).numpy().tolist() == [0, 1, 2, 3]
    assert tf.image.non_max_suppression(np.zeros((0, 4)), np.zeros(0), 4).shape == (0,)


def test_draw_bounding_boxes_default_colours():
    drawn = tf.image.draw_bounding_boxes(np.zeros((1, 5, 5, 1), np.float32), [[[0.0, 0.0, 1.0, 1.0]]], None).numpy()
    assert drawn.sum() == 16


# -- files ----------------------------------------------------------------------------------------------
def test_png_there_and_back(tmp_path):
    pytest.importorskip("PIL")
    for channels in (1, 2, 3, 4):
        pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels)).astype(np.uint8)
        data = tf.io.encode_png(pixels)
        np.testing.assert_array_equal(tf.io.decode_png(data), pixels)
        np.testing.assert_array_equal(tf.io.decode_image(data), pixels)
        path = str(tmp_path / "deep" / "image.png")
        tf.io.write_file(path, data)
        np.testing.assert_array_equal(tf.image.decode_png(tf.io.read_file(path)), pixels)
    assert tf.io.decode_png(data, channels=3).shape == (5, 7, 3)
    assert tf.io.decode_png(data, channels=1).shape == (5, 7, 1)
    wide = np.arange(35).reshape(5, 7, 1).astype(np.uint16) * 1800
    data = tf.io.encode_png(wide)
    np.testing.assert_array_equal(tf.io.decode_png(data, dtype=tf.uint16), wide)
    np.testing.assert_array_equal(tf.io.decode_png(data), wide >> 8)
    np.testing.assert_allclose(tf.io.decode_image(tf.io.encode_png(pixels), dtype=tf.float32), pixels / 255, rtol=1e-6)
    assert tf.io.decode_png is tf.image.decode_png


def test_jpeg_there_and_back():
    pytest.importorskip("PIL")
    y, x = np.mgrid[0:16, 0:24]
    pixels = np.stack([y * 8, x * 8, 255 - y * 8], -1).astype(np.uint8)
    data = tf.io.encode_jpeg(pixels, quality=95)
    back = tf.io.decode_jpeg(data)
    assert np.abs(back.numpy().astype(int) - pixels).mean() < 6
    assert bool(tf.io.is_jpeg(data))
    assert tf.io.extract_jpeg_shape(data).numpy().tolist() == [16, 24, 3]
    assert tf.io.decode_jpeg(data, ratio=2).shape == (8, 12, 3)
    assert tf.io.decode_and_crop_jpeg(data, [1, 2, 3, 4]).shape == (3, 4, 3)
    rough = tf.image.adjust_jpeg_quality(pixels, 5).numpy().astype(int)
    assert np.abs(rough - pixels).mean() > np.abs(back.numpy().astype(int) - pixels).mean()
    assert tf.image.stateless_random_jpeg_quality(pixels / np.float32(255), 20, 80, [1, 2]).dtype == tf.float32
    with pytest.raises(INVALID, match="crop window"):
        tf.io.decode_and_crop_jpeg(data, [10, 2, 30, 4])


def test_gif_bmp_and_webp():
    image = pytest.importorskip("PIL.Image")
    import io

    frames = [image.fromarray(np.full((4, 5, 3), v, np.uint8)) for v in (0, 120, 250)]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    assert tf.io.decode_gif(out.getvalue()).shape == (3, 4, 5, 3)
    assert tf.io.decode_image(out.getvalue()).shape == (3, 4, 5, 3)
    assert tf.io.decode_image(out.getvalue(), expand_animations=False).shape == (4, 5, 3)
    out = io.BytesIO()
    frames[1].save(out, "BMP")
    np.testing.assert_array_equal(tf.io.decode_bmp(out.getvalue()), 120)
    out = io.BytesIO()
    frames[1].save(out, "WEBP", lossless=True)
    np.testing.assert_array_equal(tf.io.decode_webp(out.getvalue()), 120)


def test_without_pillow(monkeypatch):
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("PIL"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install 'gradtape\[viz\]'"):
        tf.io.encode_png(np.zeros((1, 1, 1), np.uint8))


def test_decode_raw():
    texts = tf.constant([b"\x01\x02\x03\x04", b"\x05\x06\x07\x08"])
    assert tf.io.decode_raw(texts, tf.uint8).numpy().tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert tf.io.decode_raw(texts, tf.int16, little_endian=False).numpy().tolist() == [[258, 772], [1286, 1800]]
    assert tf.io.decode_raw(b"\x01", tf.uint8, fixed_length=3).numpy().tolist() == [1, 0, 0]
    with pytest.raises(INVALID, match="multiple of 4"):
        tf.io.decode_raw(b"123", tf.int32)
    with pytest.raises(INVALID, match="same size"):
        tf.io.decode_raw([b"1", b"12"], tf.uint8)


# -- refusals ------------------------------------------------------------------------------------------
X = np.zeros((2, 4, 3), np.float32)
WHOLE = [[0.0, 0.0, 1.0, 1.0]]
REFUSED = [
    (lambda: tf.image.resize(X[0], [3, 3]), ValueError, "either 3 or 4 dimensions"),
    (lambda: tf.image.resize(X, [3, 3, 3]), ValueError, "1-D Tensor of 2 elements"),
    (lambda: tf.image.resize(X, [0, 3]), INVALID, "output dimensions must be positive"),
    (lambda: tf.image.resize(X, [3, 3], "foo"), ValueError, "Resize method is not implemented: foo"),
    (lambda: tf.image.crop_to_bounding_box(X, 1, 1, 3, 3), ValueError, "height must be >= target"),
    (lambda: tf.image.crop_to_bounding_box(X, -1, 1, 3, 3), ValueError, "offset_height must be >= 0"),
    (lambda: tf.image.pad_to_bounding_box(X, 1, 1, 1, 3), ValueError, "width must be <= target - offset"),
    (lambda: tf.image.central_crop(X, 0.0), ValueError, "central_fraction"),
    (lambda: tf.image.resize_with_pad(X, 0, 5), ValueError, "target_height"),
    (lambda: tf.image.resize_with_crop_or_pad(X, 5, 0), ValueError, "target_width"),
    (lambda: tf.image.rgb_to_hsv(X[..., :2]), tf.errors.FailedPreconditionError, "3 channels"),
    (lambda: tf.image.rgb_to_grayscale(X[..., :2]), INVALID, "size-incompatible"),
    (lambda: tf.image.grayscale_to_rgb(X), ValueError, "size 1"),
    (lambda: tf.image.adjust_hue(X, 2.0), ValueError, r"interval \[-1, 1\]"),
    (lambda: tf.image.adjust_gamma(X, -1.0), ValueError, "non-negative"),
    (lambda: tf.image.flip_left_right(X[0]), ValueError, "at least three-dimensional"),
    (lambda: tf.image.total_variation(X[0]), ValueError, "3 or 4-dimensional"),
    (lambda: tf.image.ssim(X, X, 1.0), INVALID, "11"),
    (lambda: tf.image.ssim(X, X[:1], 1.0), ValueError, "incompatible"),
    (lambda: tf.image.psnr(X, X[:, :1], 1.0), ValueError, "incompatible"),
    (lambda: tf.image.psnr(X, np.zeros((7, *X.shape[1:]), np.float32), 1.0), INVALID, "Incompatible shapes"),
    (lambda: tf.image.psnr(X[0], X[0], 1.0), INVALID, "Invalid reduction dimension"),
    (lambda: tf.image.sobel_edges(X), ValueError, "4D"),
    (lambda: tf.image.image_gradients(X), ValueError, "4D"),
    (lambda: tf.image.random_brightness(X, -1.0), ValueError, "non-negative"),
    (lambda: tf.image.random_contrast(X, 2.0, 1.0), ValueError, "upper must be > lower"),
    (lambda: tf.image.random_saturation(X, -2.0, 1.0), ValueError, "lower must be non-negative"),
    (lambda: tf.image.random_hue(X, 0.6), ValueError, "<= 0.5"),
    (lambda: tf.image.random_crop(X, [3, 3, 3]), INVALID, r"Need value\.shape >= size"),
    (lambda: tf.image.random_jpeg_quality(X, 80, 20), ValueError, "less than"),
    (lambda: tf.image.extract_patches(X[None], [1, 2, 2, 1], [1] * 4, [1] * 4, "FOO"), INVALID, "SAME"),
    (lambda: tf.image.extract_patches(X, [1, 2, 2, 1], [1] * 4, [1] * 4, "SAME"), INVALID, "4-dim"),
    (lambda: tf.image.crop_and_resize(X[None], WHOLE, [0], [2, 2], "foo"), INVALID, "foo"),
    (lambda: tf.image.crop_and_resize(X[None], WHOLE, [3], [2, 2]), tf.errors.OutOfRangeError, "box_index"),
    (lambda: tf.image.convert_image_dtype(X, tf.bool), AttributeError, "floating point or integer"),
    (lambda: tf.image.non_max_suppression(X[0], X[0, 0], 3), INVALID, "4 columns"),
    (lambda: tf.image.non_max_suppression(np.zeros((1, 4)), [1.0], 3, 2.0), INVALID, "iou_threshold"),
    (lambda: tf.io.decode_png(b"abc"), INVALID, "Unknown image file format"),
    (lambda: tf.io.decode_image(b"abc"), INVALID, "Unknown image file format"),
    (lambda: tf.io.decode_png(b"\x89PNG\r\n\x1a\nbroken"), INVALID, "Invalid PNG data, size 14"),
    (lambda: tf.io.encode_png(X), INVALID, "uint8, uint16"),
    (lambda: tf.io.encode_jpeg(np.zeros((2, 2, 4), np.uint8)), INVALID, "channels"),
    (lambda: tf.io.read_file("/no/such/file"), tf.errors.NotFoundError, "No such file"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_refusals(call, error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    ("height", "width", "first"), [(3, 9, (0, 2)), (9, 4, (2, 0)), (6, 11, (0, 1)), (7, 7, (0, 0))]
)
def test_resize_with_pad_centres_by_the_exact_size(height, width, first):
    """Where the picture begins, as in TensorFlow: half of what the size before rounding leaves."""
    picture = tf.reshape(tf.range(1.0, 21.0), [1, 4, 5, 1])
    found = tf.image.resize_with_pad(picture, height, width)[0, :, :, 0].numpy()
    assert tuple(np.argwhere(found > 0)[0]) == first
    with pytest.raises(INVALID, match="must be positive"):
        tf.image.resize_with_pad(picture, 10, 1)
