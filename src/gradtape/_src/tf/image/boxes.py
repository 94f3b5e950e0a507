"""`tf.image`: bounding boxes, chosen by their scores and drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known, unknown_shape
from gradtape._src.conversion import has_dtype, operand, wrap
from gradtape._src.dtypes import float32
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer, same_dtype, scalar_operand, static
from gradtape._src.tf.image.arguments import on_host

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _overlap(boxes: Any, one: Any) -> Any:
    """Intersection over union of boxes [n, 4] with one box; corners may be in any order."""
    y1, y2 = np.minimum(boxes[:, 0], boxes[:, 2]), np.maximum(boxes[:, 0], boxes[:, 2])
    x1, x2 = np.minimum(boxes[:, 1], boxes[:, 3]), np.maximum(boxes[:, 1], boxes[:, 3])
    a1, a2 = min(one[0], one[2]), max(one[0], one[2])
    b1, b2 = min(one[1], one[3]), max(one[1], one[3])
    common = np.maximum(np.minimum(y2, a2) - np.maximum(y1, a1), 0) * np.maximum(
        np.minimum(x2, b2) - np.maximum(x1, b1), 0
    )
    areas, area = (y2 - y1) * (x2 - x1), (a2 - a1) * (b2 - b1)
    union = areas + area - common
    return np.where((areas > 0) & (area > 0), common / np.where(union > 0, union, 1), 0)


def _suppress(
    scores: Any,
    overlap: Callable[[int, Any], Any],
    wanted: int,
    threshold: float,
    score_threshold: float,
    sigma: float = 0.0,
) -> tuple[list[int], list[float]]:
    """Select the best box, drop (or, with sigma, weaken) boxes that overlap with it, and repeat."""
    scores = np.array(scores, np.float64)
    alive = scores > score_threshold
    chosen: list[int] = []
    found: list[float] = []
    while len(chosen) < wanted and np.any(alive):
        best = int(np.argmax(np.where(alive, scores, -np.inf)))
        chosen.append(best)
        found.append(float(scores[best]))
        alive[best] = False
        rest = np.flatnonzero(alive)
        shared = overlap(best, rest)
        if sigma > 0:
            scores[rest] *= np.exp(-0.5 * shared * shared / sigma)
            alive[rest[scores[rest] <= score_threshold]] = False
        else:
            alive[rest[shared > threshold]] = False
    return chosen, found


def _boxes(boxes: Any, scores: Any) -> tuple[Any, Any]:
    if not (is_known(operand(boxes)) and is_known(operand(scores))):
        raise unknown_shape(
            "tf.image.non_max_suppression",
            "Use tf.image.non_max_suppression_padded with pad_to_max_output_size=True.",
            "NonMaxSuppressionV3",
        )
    given = [operand(value, None if has_dtype(value) else float32) for value in (boxes, scores)]
    if given[0].dtype != given[1].dtype or given[0].dtype.name not in ("float16", "float32"):
        raise errors.unsupported_dtype("NonMaxSuppressionV3", given[1].dtype, "half, float")
    places, values = (np.asarray(tensor.array) for tensor in given)
    if places.ndim != 2 or places.shape[1] != 4:
        got = places.shape[1] if places.ndim == 2 else places.ndim
        raise errors.invalid_argument(
            f"boxes must have 4 columns (Dimension must be 4 but is {got})", "NonMaxSuppressionV3"
        )
    if values.shape != places.shape[:1]:
        raise errors.invalid_argument(
            f"scores has incompatible shape {errors.brackets(values.shape)}", "NonMaxSuppressionV3"
        )
    return places.astype(np.float32), values


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return the indices of the best boxes, without those that overlap a better one.

    >>> tf.image.non_max_suppression(
    ...     [[0.0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]], [0.5, 0.9, 0.1], 3
    ... ).numpy().tolist()
    [1, 2]
    """
    chosen, _ = _non_max(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return wrap(np.array(chosen, np.int32))


def _non_max(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any, score_threshold: Any, sigma: float = 0.0
) -> tuple[list[int], list[float]]:
    places, values = _boxes(boxes, scores)
    threshold = _threshold(iou_threshold, "iou_threshold")
    if not 0 <= threshold <= 1:
        raise errors.invalid_argument("iou_threshold must be in [0, 1]", "NonMaxSuppressionV3")
    return _suppress(
        values,
        lambda best, rest: _overlap(places[rest], places[best]),
        _most(max_output_size, "NonMaxSuppressionV3"),
        threshold,
        _threshold(score_threshold, "score_threshold"),
        sigma,
    )


def _threshold(value: Any, name: str, op: str = "NonMaxSuppressionV3") -> float:
    x = operand(value)
    if x.dtype.name not in ("float32", "float16") and not isinstance(value, np.floating):
        raise errors.unsupported_dtype(op, x.dtype, "half, float", "T_threshold")
    if x.array.shape:
        raise errors.invalid_argument(f"{name} must be 0-D, got shape {errors.brackets(x.array.shape)}", op)
    return float(np.asarray(static(x)))


def _most(max_output_size: Any, op: str) -> int:
    found = integer(max_output_size, op, fixed=True)
    if found < 0:
        raise errors.invalid_argument(f"max_output_size must be non-negative, got {found}", op)
    return found


def non_max_suppression_with_scores(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Apply `non_max_suppression` and return the scores too; a positive sigma lowers the scores of overlapping boxes.

    >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]
    >>> indices, scores = tf.image.non_max_suppression_with_scores(boxes, [0.9, 0.7], 2, soft_nms_sigma=0.5)
    >>> indices.numpy().tolist(), scores.numpy().round(4).tolist()
    ([0, 1], [0.8999999761581421, 0.31139999628067017])
    """
    chosen, found = _non_max(boxes, scores, max_output_size, iou_threshold, score_threshold, _sigma_of(soft_nms_sigma))
    return wrap(np.array(chosen, np.int32)), wrap(np.array(found, np.float32))


def _sigma_of(soft_nms_sigma: Any) -> float:
    found = _threshold(soft_nms_sigma, "soft_nms_sigma", "NonMaxSuppressionV5")
    if not found >= 0:
        raise errors.invalid_argument(f"soft_nms_sigma must be non-negative, got {found}", "NonMaxSuppressionV5")
    return found


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: TensorLike,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Apply `non_max_suppression` with overlaps of any kind, given as a matrix.

    >>> overlaps = [[1.0, 0.8], [0.8, 1.0]]
    >>> tf.image.non_max_suppression_overlaps(overlaps, [0.9, 0.7], 2).numpy().tolist()
    [0]
    """
    if not (is_known(operand(overlaps)) and is_known(operand(scores))):
        raise unknown_shape("tf.image.non_max_suppression_overlaps", "Call it in tf.numpy_function, with a shape.")
    op = "NonMaxSuppressionWithOverlaps"
    table, marks = (same_dtype(value, float32, op, "an input") for value in (overlaps, scores))
    shared, values = np.asarray(table.array), np.asarray(marks.array)
    if shared.ndim != 2 or shared.shape[0] != shared.shape[1]:
        raise errors.invalid_argument(f"overlaps must be square, got shape {errors.brackets(shared.shape)}", op)
    if values.shape != shared.shape[:1]:
        raise errors.invalid_argument(f"scores has incompatible shape {errors.brackets(values.shape)}", op)
    chosen, _ = _suppress(
        values,
        lambda best, rest: shared[rest, best],
        _most(max_output_size, op),
        _threshold(overlap_threshold, "overlap_threshold", op),
        _threshold(score_threshold, "score_threshold", op),
    )
    return wrap(np.array(chosen, np.int32))


def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """Apply `non_max_suppression`, pad the indices with zeros and return how many count; boxes may be [..., n, 4].

    >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]
    >>> indices, count = tf.image.non_max_suppression_padded(boxes, [0.9, 0.7], 2, pad_to_max_output_size=True)
    >>> indices.numpy().tolist(), count.numpy().item()
    ([0, 0], 1)
    """
    wanted, of_boxes = integer(max_output_size), operand(boxes).array.shape

    def suppressed(b: Any, s: Any) -> list[Tensor]:
        return list(non_max_suppression_padded(b, s, wanted, iou_threshold, score_threshold, pad_to_max_output_size))

    if pad_to_max_output_size:
        specs = [TensorSpec([*of_boxes[:-2], wanted], "int32"), TensorSpec(of_boxes[:-2], "int32")]
        results = on_host(suppressed, [boxes, scores], specs)
        if results is not None:
            return results[0], results[1]
    elif not (is_known(operand(boxes)) and is_known(operand(scores))):
        _boxes(boxes, scores)  # raises an error with advice
    places, values = np.asarray(operand(boxes).array), np.asarray(operand(scores).array)
    found = [
        _non_max(b, s, wanted, iou_threshold, score_threshold)[0]
        for b, s in zip(places.reshape(-1, *places.shape[-2:]), values.reshape(-1, values.shape[-1]), strict=True)
    ]
    counts = np.array([len(f) for f in found], np.int32)
    size = wanted if pad_to_max_output_size else int(counts.max(initial=0))
    padded = np.array([f + [0] * (size - len(f)) for f in found], np.int32).reshape(len(found), size)
    lead = places.shape[:-2]
    return wrap(padded.reshape(*lead, size)), wrap(counts.reshape(lead))


def _best_of_classes(
    boxes: np.ndarray, scores: np.ndarray, per_class: int, iou_threshold: Any, score_threshold: Any
) -> list[tuple[float, int, int]]:
    """The boxes of an image that remain in each class: score, class and index, highest score first."""
    best: list[tuple[float, int, int]] = []
    for c in range(scores.shape[1]):
        of_class = boxes[:, c if boxes.shape[1] > 1 else 0]
        chosen, found = _non_max(of_class, scores[:, c], per_class, iou_threshold, score_threshold)
        best += [(score, c, at) for score, at in zip(found, chosen, strict=True)]
    return sorted(best, key=lambda entry: -entry[0])


class CombinedNonMaxSuppression(NamedTuple):
    """The result of `combined_non_max_suppression`, with TensorFlow's names."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


def combined_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """Apply `non_max_suppression` to every class and keep the best of all: boxes, scores, classes, counts.

    Boxes are [batch, n, 1 or classes, 4], scores [batch, n, classes].

    >>> boxes = tf.constant([[[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 0.9]]]])
    >>> scores = tf.constant([[[0.9], [0.8]]])
    >>> result = tf.image.combined_non_max_suppression(boxes, scores, 2, 2)
    >>> result.valid_detections.numpy().tolist()
    [1]
    >>> print(result.nmsed_scores.numpy().round(4))
    [[0.9 0. ]]
    """
    places, values = operand(boxes).array, operand(scores).array
    if places.ndim != 4 or values.ndim != 3 or places.shape[2] not in (1, values.shape[2]):
        raise errors.invalid_argument(
            "boxes must be [batch, boxes, 1 or classes, 4] and scores [batch, boxes, classes], got shapes "
            f"{errors.brackets(places.shape)} and {errors.brackets(values.shape)}",
            "CombinedNonMaxSuppression",
        )
    op, classes = "CombinedNonMaxSuppression", values.shape[2]
    per_class = integer(max_output_size_per_class, op, fixed=True)
    total = integer(max_total_size, op, fixed=True)
    for word, limit in (("max_size_per_class", per_class), ("max_total_size", total)):
        if limit < 1:
            raise errors.invalid_argument(f"{word} must be positive, got {limit}", op)
    for word, given in (("iou_threshold", iou_threshold), ("score_threshold", score_threshold)):
        scalar_operand(given, float32, op, word)
    size = min(total, per_class * classes) if pad_per_class else total
    batch = places.shape[0]

    def combined(b: Any, s: Any) -> list[Tensor]:
        limits = (max_output_size_per_class, max_total_size, iou_threshold, score_threshold)
        return list(combined_non_max_suppression(b, s, *limits, pad_per_class, clip_boxes))

    sizes = ([batch, size, 4], [batch, size], [batch, size])
    specs = [*[TensorSpec(shape, "float32") for shape in sizes], TensorSpec([batch], "int32")]
    results = on_host(combined, [boxes, scores], specs)
    if results is not None:
        return CombinedNonMaxSuppression(*results)
    places, values = np.asarray(places), np.asarray(values)
    out_boxes, out_scores = np.zeros((batch, size, 4), np.float32), np.zeros((batch, size), np.float32)
    out_classes, counts = np.zeros((batch, size), np.float32), np.zeros(batch, np.int32)
    for i in range(batch):
        best = _best_of_classes(places[i], values[i], per_class, iou_threshold, score_threshold)[:size]
        counts[i] = len(best)
        for k, (score, c, at) in enumerate(best):
            box = places[i, at, c if places.shape[2] > 1 else 0]
            out_boxes[i, k] = np.clip(box, 0, 1) if clip_boxes else box
            out_scores[i, k], out_classes[i, k] = score, c
    return CombinedNonMaxSuppression(wrap(out_boxes), wrap(out_scores), wrap(out_classes), wrap(counts))


_COLOURS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ]
)


def draw_bounding_boxes(images: TensorLike, boxes: TensorLike, colors: Any, name: str | None = None) -> Tensor:
    """Draw the outlines of boxes (y1, x1, y2, x2 in [0, 1]) on images, in the given colors or ten default ones.

    >>> image = tf.image.draw_bounding_boxes(tf.zeros([1, 3, 3, 3]), [[[0.0, 0.0, 1.0, 1.0]]], [[1.0, 0.0, 0.0]])
    >>> image[0, :, :, 0].numpy().tolist()
    [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    given = [images, boxes] if colors is None else [images, boxes, colors]
    spec = TensorSpec(operand(images).shape, operand(images).dtype)
    drawn = on_host(lambda i, b, *c: [draw_bounding_boxes(i, b, c[0] if c else None)], given, [spec])
    if drawn is not None:
        return drawn[0]
    pictures = np.array(operand(images).array)
    places = np.asarray(operand(boxes).array)
    if pictures.ndim != 4 or places.ndim != 3 or places.shape[2] != 4:
        raise errors.invalid_argument(
            f"images must be 4-dimensional and boxes [batch, boxes, 4], got shapes "
            f"{errors.brackets(pictures.shape)} and {errors.brackets(places.shape)}",
            "DrawBoundingBoxesV2",
        )
    palette = np.zeros((0, 4))
    if colors is not None:
        palette = np.asarray(same_dtype(colors, float32, "DrawBoundingBoxesV2", "colors").array)
        if palette.ndim != 2 or palette.shape[1] < pictures.shape[3]:
            raise errors.invalid_argument(
                f"colors must be a 2-D matrix with a number for each channel, got shape "
                f"{errors.brackets(palette.shape)}",
                "DrawBoundingBoxesV2",
            )
    if not palette.size:
        palette = _COLOURS.copy()
        if pictures.shape[3] == 1:
            palette[:] = 1
    for picture, listed in zip(pictures, places, strict=True):
        for i, box in enumerate(listed):
            _draw_box(picture, box, palette[i % len(palette)][: picture.shape[2]])
    return wrap(pictures)


def _draw_box(picture: np.ndarray, box: np.ndarray, colour: np.ndarray) -> None:
    """Draw the outline of a box into an image, where it is inside."""
    height, width, _ = picture.shape
    top, left, bottom, right = (int(np.float32(at) * (n - 1)) for at, n in zip(box, (height, width) * 2, strict=True))
    if top > bottom or left > right or bottom < 0 or right < 0 or top >= height or left >= width:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            picture[row, columns] = colour
    for column in (left, right):
        if 0 <= column < width:
            picture[rows, column] = colour
