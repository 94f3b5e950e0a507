"""Raw ops of images: resizing, crops, colors, boxes, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.raw_ops.derivative import transposed, vjp
from gradtape._src.tf import array, image, io, linalg, math
from gradtape._src.tf.arguments import static

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor

Weights = np.ndarray[Any, np.dtype[np.float32]]


# -- resizing --------------------------------------------------------------------------------------------------------
def _scale(size: int, wanted: int, align_corners: bool) -> np.float32:
    if align_corners and wanted > 1:
        return np.float32(size - 1) / np.float32(wanted - 1)
    return np.float32(size) / np.float32(wanted)


def _positions(size: int, wanted: int, align_corners: bool, half_pixel_centers: bool) -> Weights:
    """The positions of the result's pixels in the image."""
    scale, pixels = _scale(size, wanted, align_corners), np.arange(wanted, dtype=np.float32)
    return (pixels + np.float32(0.5)) * scale - np.float32(0.5) if half_pixel_centers else pixels * scale


def _bilinear(size: int, wanted: int, align_corners: bool, half_pixel_centers: bool) -> Weights:
    at = _positions(size, wanted, align_corners, half_pixel_centers)
    low = np.floor(at)
    part = at - low
    weights = np.zeros((wanted, size), np.float32)
    rows = np.arange(wanted)
    np.add.at(weights, (rows, np.clip(low, 0, size - 1).astype(int)), 1 - part)
    np.add.at(weights, (rows, np.clip(low + 1, 0, size - 1).astype(int)), part)
    return weights


def _cubic(distance: Weights, a: float) -> Weights:
    """The cubic kernel (Keys) with parameter `a`."""
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0)).astype(np.float32)


def _bicubic(size: int, wanted: int, align_corners: bool, half_pixel_centers: bool) -> Weights:
    at = _positions(size, wanted, align_corners, half_pixel_centers)
    low = np.floor(at)
    part = np.round((at - low) * 1024) / 1024  # TensorFlow uses a table of 1024 steps for the kernel
    weights = np.zeros((wanted, size), np.float32)
    rows = np.arange(wanted)
    taps = np.stack(
        [_cubic((part - k).astype(np.float32), -0.5 if half_pixel_centers else -0.75) for k in range(-1, 3)]
    )
    places = np.stack([low + k for k in range(-1, 3)])
    if half_pixel_centers:  # without pixels outside of the image
        taps = np.where((places >= 0) & (places < size), taps, 0)
        taps = taps / taps.sum(0)
    for tap, place in zip(taps, places, strict=True):
        np.add.at(weights, (rows, np.clip(place, 0, size - 1).astype(int)), tap)
    return weights


def _area(size: int, wanted: int, align_corners: bool) -> Weights:
    """The share of each input pixel in a pixel of the result."""
    scale = _scale(size, wanted, align_corners)
    start = (np.arange(wanted, dtype=np.float32) * scale)[:, None]
    pixels = np.arange(size, dtype=np.float32)[None]
    covered = np.minimum(pixels + 1, start + scale) - np.maximum(pixels, start)
    return (np.maximum(covered, 0) / scale).astype(np.float32)


def _sizes(size: Any) -> tuple[int, int]:
    height, width = (int(n) for n in np.asarray(static(size)))
    return height, width


def _weighted(images: Any, rows: Weights, columns: Weights) -> Tensor:
    x = array.cast(images, "float32")
    return linalg.einsum("yh,bhwc,xw->byxc", array.constant(rows), x, array.constant(columns))


def _resize(weights: Callable[..., Weights]) -> Callable[..., Tensor]:
    def op(images: Any, size: Any, align_corners: bool, half_pixel_centers: bool = False) -> Tensor:
        extra = () if weights is _area else (half_pixel_centers,)
        rows, columns = (
            weights(int(n), wanted, align_corners, *extra)
            for n, wanted in zip(images.shape[1:3], _sizes(size), strict=True)
        )
        return _weighted(images, rows, columns)

    return op


_resize_area = _resize(_area)


def _resize_grad(weights: Callable[..., Weights]) -> Callable[..., Tensor]:
    resize = _resize(weights)

    def op(grads: Any, original_image: Any, align_corners: bool, half_pixel_centers: bool) -> Tensor:
        size = array.shape(grads)[1:3]
        g = transposed(lambda x: resize(x, size, align_corners, half_pixel_centers), array.shape(original_image), grads)
        return array.cast(g, original_image.dtype)

    return op


def _nearest(images: Any, size: Any, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    x = images
    for axis, wanted in zip((1, 2), _sizes(size), strict=True):
        n = int(x.shape[axis])
        pixels = np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half_pixel_centers else 0)
        at = pixels * _scale(n, wanted, align_corners)
        place = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        x = array.gather(x, np.clip(place, 0, n - 1).astype(np.int32), axis=axis)
    return x


def _nearest_grad(grads: Any, size: Any, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    height, width = _sizes(size)
    wanted = array.shape(grads)[1:3]
    shape = [int(grads.shape[0]), height, width, int(grads.shape[3])]
    return transposed(lambda x: _nearest(x, wanted, align_corners, half_pixel_centers), shape, grads)


# -- crops and boxes -------------------------------------------------------------------------------------------------
def _crop_and_resize(
    image_: Any, boxes: Any, box_ind: Any, crop_size: Any, method: str, extrapolation_value: float
) -> Tensor:
    x = array.cast(image_, "float32")
    return image.crop_and_resize(x, boxes, box_ind, crop_size, method, extrapolation_value)


def _crop_grad_image(grads: Any, boxes: Any, box_ind: Any, image_size: Any, T: Any, method: str) -> Tensor:
    size = array.shape(grads)[1:3]
    g = transposed(lambda x: image.crop_and_resize(x, boxes, box_ind, size, method), image_size, grads)
    return array.cast(g, T)


def _crop_grad_boxes(grads: Any, image_: Any, boxes: Any, box_ind: Any, method: str) -> Tensor:
    x, size = array.cast(image_, "float32"), array.shape(grads)[1:3]
    return vjp(lambda at: image.crop_and_resize(x, at, box_ind, size, method), (boxes,), grads)[0]


def _padded_suppression(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any, score_threshold: Any,
    pad_to_max_output_size: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    found = image.non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return _filled(found, max_output_size, pad_to_max_output_size), array.size(found)


def _filled(found: Any, size: Any, pad: bool) -> Tensor:
    if not pad:
        return found
    missing = int(np.asarray(static(size))) - int(found.shape[0])
    return array.concat([found, array.zeros([missing], found.dtype)], 0)


def _soft_suppression(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any, score_threshold: Any, soft_nms_sigma: Any,
    pad_to_max_output_size: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    found, kept = image.non_max_suppression_with_scores(
        boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma
    )
    pad = pad_to_max_output_size
    return _filled(found, max_output_size, pad), _filled(kept, max_output_size, pad), array.size(found)


# -- colors ----------------------------------------------------------------------------------------------------------
def _contrast(images: Any, contrast_factor: Any) -> Tensor:
    mean = math.reduce_mean(images, [-3, -2], keepdims=True)
    return (images - mean) * array.cast(contrast_factor, images.dtype) + mean


def _patches(images: Any, ksizes: list[int], strides: list[int], rates: list[int], padding: str) -> Tensor:
    return image.extract_patches(images, ksizes, strides, rates, padding)


def _decode_png(contents: Any, channels: int, dtype: Any) -> Tensor:
    return io.decode_png(contents, channels, dtype)


def _with_jpeg_attrs(name: str) -> Callable[..., Tensor]:
    def op(
        *inputs: Any, channels: int, ratio: int, fancy_upscaling: bool, try_recover_truncated: bool,
        acceptable_fraction: float, dct_method: str,
    ) -> Tensor:  # fmt: skip
        attrs = (channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method)
        return getattr(io, name)(*inputs, *attrs)

    return op


def _encode_jpeg(
    image: Any, format: str, quality: int, progressive: bool, optimize_size: bool, chroma_downsampling: bool,
    density_unit: str, x_density: int, y_density: int, xmp_metadata: str,
) -> Tensor:  # fmt: skip
    return io.encode_jpeg(
        image, format, quality, progressive, optimize_size, chroma_downsampling, density_unit, x_density, y_density,
        xmp_metadata,
    )  # fmt: skip


OPS: dict[str, Callable[..., Any]] = {
    "ResizeArea": lambda images, size, align_corners: _resize_area(images, size, align_corners),
    "ResizeBicubic": _resize(_bicubic),
    "ResizeBicubicGrad": _resize_grad(_bicubic),
    "ResizeBilinear": _resize(_bilinear),
    "ResizeBilinearGrad": _resize_grad(_bilinear),
    "ResizeNearestNeighbor": _nearest,
    "ResizeNearestNeighborGrad": _nearest_grad,
    "CropAndResize": _crop_and_resize,
    "CropAndResizeGradBoxes": _crop_grad_boxes,
    "CropAndResizeGradImage": _crop_grad_image,
    "ExtractImagePatches": _patches,
    "CombinedNonMaxSuppression": image.combined_non_max_suppression,
    "DrawBoundingBoxesV2": image.draw_bounding_boxes,
    "NonMaxSuppression": lambda boxes, scores, max_output_size, iou_threshold: image.non_max_suppression(
        boxes, scores, max_output_size, iou_threshold
    ),
    "NonMaxSuppressionV2": lambda boxes, scores, max_output_size, iou_threshold: image.non_max_suppression(
        boxes, scores, max_output_size, iou_threshold
    ),
    "NonMaxSuppressionV3": image.non_max_suppression,
    "NonMaxSuppressionV4": _padded_suppression,
    "NonMaxSuppressionV5": _soft_suppression,
    "NonMaxSuppressionWithOverlaps": image.non_max_suppression_overlaps,
    "AdjustContrastv2": _contrast,
    "AdjustHue": image.adjust_hue,
    "AdjustSaturation": image.adjust_saturation,
    "HSVToRGB": image.hsv_to_rgb,
    "RGBToHSV": image.rgb_to_hsv,
    "DecodeAndCropJpeg": _with_jpeg_attrs("decode_and_crop_jpeg"),
    "DecodeBmp": lambda contents, channels: io.decode_bmp(contents, channels),
    "DecodeGif": lambda contents: io.decode_gif(contents),
    "DecodeImage": lambda contents, channels, dtype, expand_animations: io.decode_image(
        contents, channels, dtype, expand_animations=expand_animations
    ),
    "DecodeJpeg": _with_jpeg_attrs("decode_jpeg"),
    "DecodePng": _decode_png,
    "DecodeWebP": lambda contents, channels, dtype: io.decode_webp(contents, channels, dtype),
    "EncodeJpeg": _encode_jpeg,
    "EncodePng": lambda image, compression: io.encode_png(image, compression),
    "ExtractJpegShape": lambda contents, output_type: io.extract_jpeg_shape(contents, output_type),
    "DecodeRaw": lambda bytes, out_type, little_endian: io.decode_raw(bytes, out_type, little_endian),
    "DecodePaddedRaw": lambda input_bytes, fixed_length, out_type, little_endian: io.decode_raw(
        input_bytes, out_type, little_endian, fixed_length
    ),
    "ParseTensor": lambda serialized, out_type: io.parse_tensor(serialized, out_type),
    "ReadFile": lambda filename: io.read_file(filename),
    "SerializeTensor": lambda tensor: io.serialize_tensor(tensor),
    "WriteFile": lambda filename, contents: io.write_file(filename, contents),
}
