"""What `tf.image` is asked, of TensorFlow (to store the answers) and of gradtape (to compare)."""

from __future__ import annotations

from typing import Any

import numpy as np


def _picture(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return np.random.default_rng(seed).uniform(size=shape).round(3).astype(dtype)


def _bytes(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, size=shape).astype("uint8")


def _gradient(tf: Any, f: Any, *xs: Any) -> list[Any]:
    xs = [tf.constant(x) for x in xs]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = f(*xs)
        loss = tf.reduce_sum(y * tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1) % 7, y.shape), y.dtype))
    return [y, *tape.gradient(loss, xs)]


METHODS = ("nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")
SIZES = (
    ((4, 4), (8, 8)),
    ((5, 7), (3, 10)),
    ((6, 5), (1, 2)),
    ((3, 3), (7, 5)),
    ((1, 4), (3, 9)),
    ((17, 12), (6, 5)),
    ((2, 40), (1, 97)),
    ((3, 70), (2, 33)),
)


def cases(tf: Any) -> dict[str, Any]:
    """Name -> a function without arguments that gives tensors."""
    im = tf.image
    found: dict[str, Any] = {}
    for method in METHODS:
        for (h, w), size in SIZES:
            for antialias in (False, True):
                x = _picture(1, h, w, 1)
                if (
                    method in ("nearest", "bilinear", "bicubic", "lanczos3")
                    and method + str(antialias) != "nearestTrue"
                ):
                    found[f"resize_{method}_{antialias}_{h}x{w}_{size}"] = lambda x=x, s=size, m=method, a=antialias: (
                        _gradient(tf, lambda t: im.resize(t, s, m, antialias=a), x)
                    )
                else:  # TensorFlow has no gradient for area, and the same one for the other kernels
                    found[f"resize_{method}_{antialias}_{h}x{w}_{size}"] = lambda x=x, s=size, m=method, a=antialias: [
                        im.resize(x, s, m, antialias=a)
                    ]
    found["resize_more"] = lambda: [
        im.resize(_bytes(4, 6, 3), [3, 5]),
        im.resize(_bytes(4, 6, 3), [7, 5], "nearest"),
        im.resize(_bytes(4, 6, 3), [9, 9], "bicubic"),
        im.resize(_picture(4, 6, 3, dtype="float64"), [3, 5]),
        im.resize(_picture(4, 6, 3, dtype="float16"), [3, 5]),
        im.resize(_picture(4, 6, 3), [9, 9], preserve_aspect_ratio=True),
        im.resize(_picture(7, 3, 3), [5, 9], preserve_aspect_ratio=True),
        im.resize_with_pad(_picture(4, 6, 3), 8, 8),
        im.resize_with_pad(_picture(2, 7, 3, 1), 5, 9, antialias=True),
        im.resize_with_crop_or_pad(_picture(4, 7, 2), 6, 3),
        im.resize_with_crop_or_pad(_picture(2, 5, 4, 1), 2, 9),
    ]
    found["crops"] = lambda: [
        im.crop_to_bounding_box(_picture(5, 6, 2), 1, 2, 3, 3),
        im.pad_to_bounding_box(_picture(2, 3, 2), 1, 2, 5, 6),
        im.central_crop(_picture(6, 7, 2), 0.5),
        im.central_crop(_picture(2, 9, 7, 2), 0.4),
        im.central_crop(_picture(6, 7, 2), 1.0),
    ]
    found["turns"] = lambda: [
        im.flip_left_right(_picture(2, 3, 4, 1)),
        im.flip_up_down(_picture(3, 4, 1)),
        im.transpose(_picture(3, 4, 2)),
        *(im.rot90(_picture(3, 4, 2), k) for k in (0, 1, 2, 3, -1)),
        im.rot90(_picture(2, 3, 4, 2), 1),
    ]
    boxes = np.array(
        [[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 1.0], [-0.2, 0.1, 1.3, 0.7], [0.9, 0.8, 0.15, 0.22]], "float32"
    )
    for method in ("bilinear", "nearest"):  # for nearest, TensorFlow gives the boxes a gradient that is none
        found[f"crop_and_resize_{method}"] = lambda m=method: [
            *_gradient(
                tf, lambda x, b: im.crop_and_resize(x, b, [0, 1, 1, 0], [3, 4], m, 0.25), _picture(2, 6, 5, 2), boxes
            )[: 3 - (m == "nearest")],
            im.crop_and_resize(_picture(2, 6, 5, 2), boxes, [0, 1, 1, 0], [1, 1], m),
            im.crop_and_resize(_bytes(2, 6, 5, 2), boxes, [0, 1, 1, 0], [2, 1], m),
        ]
    colours = np.concatenate([_picture(3, 4, 3), [[[0.5, 0.5, 0.5], [0, 0, 0], [1, 1, 0.5], [0.2, 0.7, 0.7]]]]).astype(
        "float32"
    )
    found["rgb_to_hsv"] = lambda: _gradient(tf, im.rgb_to_hsv, colours)
    found["colours"] = lambda: [
        im.hsv_to_rgb(_picture(3, 4, 3)),
        im.rgb_to_yuv(_picture(3, 4, 3)),
        im.yuv_to_rgb(_picture(3, 4, 3)),
        im.rgb_to_yiq(_picture(3, 4, 3)),
        im.yiq_to_rgb(_picture(3, 4, 3)),
        im.rgb_to_grayscale(_picture(3, 4, 3)),
        im.rgb_to_grayscale(_bytes(3, 4, 3)),
        im.grayscale_to_rgb(tf.constant(_picture(3, 4, 1))),
    ]
    found["adjust"] = lambda: [
        im.adjust_brightness(_picture(3, 4, 3), 0.3),
        im.adjust_brightness(_bytes(3, 4, 3), 0.3),
        im.adjust_contrast(_picture(2, 3, 4, 3), 1.7),
        im.adjust_contrast(_bytes(3, 4, 3), 0.4),
        im.adjust_gamma(_picture(3, 4, 3), 1.7, 0.9),
        im.adjust_gamma(_bytes(3, 4, 3), 0.5),
        im.adjust_hue(colours, 0.3),
        im.adjust_hue(_bytes(3, 4, 3), -0.2),
        im.adjust_hue(_picture(3, 4, 3, dtype="float64"), -0.9),
        im.adjust_saturation(colours, 1.8),
        im.adjust_saturation(_bytes(3, 4, 3), 0.3),
        im.per_image_standardization(_picture(2, 3, 4, 3)),
        im.per_image_standardization(_bytes(3, 4, 3)),
        im.per_image_standardization(np.ones((3, 4, 3), "float32")),
    ]
    found["convert_image_dtype"] = lambda: (
        [
            im.convert_image_dtype(_bytes(3, 4, 3), d)
            for d in ("float32", "float16", "float64", "int32", "int8", "uint16", "uint8")
        ]
        + [
            im.convert_image_dtype(_picture(3, 4, 3), d, saturate=s)
            for d in ("uint8", "int16", "float64")
            for s in (False, True)
        ]
        + [
            im.convert_image_dtype(_bytes(3, 4, 3).astype("uint16") * 257, "uint8"),
            im.convert_image_dtype(_bytes(3, 4, 3).astype("int32") * 1000003, "int8", saturate=True),
        ]
    )
    a, b = _picture(2, 24, 20, 3), _picture(2, 24, 20, 3, seed=1)
    found["measures"] = lambda: [
        *_gradient(tf, lambda x, y: im.ssim(x, y, 1.0), a, b),
        im.ssim(a, b, 1.0, filter_size=5, filter_sigma=0.8, return_index_map=True),
        *_gradient(tf, lambda x, y: im.psnr(x, y, 1.0), a, b),
        im.ssim(_bytes(16, 16, 1), _bytes(16, 16, 1, seed=1), 255),
        im.psnr(_bytes(16, 16, 1), _bytes(16, 16, 1, seed=1), 255),
        *_gradient(tf, im.total_variation, a),
        im.total_variation(tf.constant(a[0])),
        *im.image_gradients(tf.constant(a)),
        *_gradient(tf, im.sobel_edges, _picture(1, 5, 6, 2)),
    ]
    smooth = np.cumsum(_picture(1, 50, 47, 2), 1) / 25
    found["ssim_multiscale"] = lambda: _gradient(
        tf,
        lambda x, y: im.ssim_multiscale(x, y, 1.0, filter_size=3),
        smooth.astype("float32"),
        (smooth * 0.9 + 0.03).astype("float32"),
    )
    for k, s, r, p in ((2, 1, 1, "VALID"), (3, 2, 1, "SAME"), (2, 3, 2, "SAME"), (3, 1, 2, "VALID")):
        found[f"extract_patches_{k}{s}{r}{p}"] = lambda k=k, s=s, r=r, p=p: _gradient(
            tf, lambda x: im.extract_patches(x, [1, k, k, 1], [1, s, s, 1], [1, r, r, 1], p), _picture(2, 7, 6, 2)
        )
    many = np.sort(_picture(30, 2, 2), 1).reshape(30, 4)
    found["boxes"] = lambda: [
        im.non_max_suppression(many, _picture(30, seed=3), 10, 0.3),
        im.non_max_suppression(many, _picture(30, seed=3), 30, 0.6, 0.4),
        *im.non_max_suppression_with_scores(many, _picture(30, seed=3), 10, 0.7, 0.1, 0.5),
        im.non_max_suppression_overlaps(_picture(9, 9), _picture(9, seed=3), 5, 0.6),
        im.draw_bounding_boxes(_picture(1, 9, 8, 3), many[None, :3], np.array([[1, 0, 0, 1], [0, 1, 0, 1]], "float32")),
    ]

    crowd = np.sort(_picture(2, 20, 1, 2, 2) * 1.2, 3).reshape(2, 20, 1, 4)
    found["boxes_of_classes"] = lambda: [
        *im.combined_non_max_suppression(crowd, _picture(2, 20, 3, seed=5), 4, 9, 0.3, 0.2),
        *im.combined_non_max_suppression(
            crowd, _picture(2, 20, 3, seed=5), 2, 9, 0.3, 0.6, pad_per_class=True, clip_boxes=False
        ),
        *im.non_max_suppression_padded(
            tf.constant(many), _picture(30, seed=3), 12, 0.3, 0.2, pad_to_max_output_size=True
        ),
        *im.non_max_suppression_padded(tf.constant(many), _picture(30, seed=3), 12, 0.3, 0.7),
    ]

    def augmented() -> list[Any]:
        tf.random.set_seed(3)
        x = _picture(4, 6, 5, 3)
        found = [im.random_flip_left_right(x), im.random_brightness(x, 0.3), im.random_contrast(x, 0.2, 1.5)]
        found += [im.random_flip_up_down(x[0]) for _ in range(4)] + [
            im.random_hue(x, 0.4),
            im.random_saturation(x, 0.2, 2.0),
        ]
        found += [im.stateless_random_crop(x, [2, 3, 3, 3], [i, 2]) for i in range(3)]
        for f in (im.stateless_random_flip_left_right, im.stateless_random_flip_up_down):
            found += [f(x, [1, 2]), f(x[0], [3, 4])]
        found += [im.stateless_random_brightness(x, 0.3, [1, 2]), im.stateless_random_hue(x, 0.3, [1, 2])]
        return [
            *found,
            im.stateless_random_contrast(x, 0.3, 2.0, [1, 2]),
            im.stateless_random_saturation(x, 0.3, 2.0, [1, 2]),
        ]

    found["augmented"] = augmented
    return found
