"""`tf.io`: image files (with Pillow, when they are used), whole files, and records (loaded when they are used)."""

from __future__ import annotations

import importlib
import io as _io
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import kept_in_graph
from gradtape._src.arrays.symbolic import current_graph, only_eager
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.atomic import named_errors, open_to_read, write
from gradtape._src.interrupts import contextmanager
from gradtape._src.lazy_names import getattr_of, homes_of
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, flag, integer, shape_of, truth
from gradtape._src.tf.array import cast, saturate_cast
from gradtape._src.tf.string_arrays import known

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _pillow() -> Any:
    try:
        from PIL import Image, ImageSequence
    except ImportError as error:
        raise ImportError(
            f"Images are read and written with Pillow, which is not installed: {errors.install('viz')}"
        ) from error
    return Image, ImageSequence


def _strings(value: Any, op: str) -> Any:
    """The array of a string tensor."""
    tensor = value if isinstance(value, Tensor) else convert(value, "string")
    if tensor.dtype.name != "string":
        raise errors.invalid_argument(
            f"cannot compute {op} as input #0(zero-based) was expected to be a string tensor but is a "
            f"{tensor.dtype.word} tensor",
            op,
        )
    return known(tensor)


def _bytes(contents: Any, op: str, what: str = "contents") -> bytes:
    """The bytes of a scalar string."""
    if isinstance(contents, bytes):
        return contents
    value = _strings(contents, op)
    if value.ndim:
        raise errors.invalid_argument(
            f"Input {what} tensor must be scalar, but had shape: {errors.brackets(value.shape)}", op
        )
    found: bytes = value.item()
    return found


# -- dtypes of images ------------------------------------------------------------------------------------------------
def convert_image_dtype(image: TensorLike, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Convert an image to another dtype: floats are in [0, 1], integers use the whole positive range.

    >>> tf.image.convert_image_dtype(np.array([0, 255], np.uint8), "float32").numpy().tolist()
    [0.0, 1.0]
    """
    x, wanted, saturate = operand(image), as_dtype(dtype), truth(saturate)
    if not (wanted.is_floating or wanted.is_integer):
        raise AttributeError("dtype must be either floating point or integer")
    have = x.dtype
    if not (have.is_floating or have.is_integer):
        raise AttributeError("image dtype must be either floating point or integer")
    if have == wanted:
        return x
    if have.is_integer and wanted.is_integer:
        if have.max > wanted.max:  # fewer bits: keep the upper ones
            scaled = np.asarray(x.array) // np.asarray((have.max + 1) // (wanted.max + 1), x.array.dtype)
            shifted = wrap(scaled)
            return saturate_cast(shifted, wanted) if saturate else cast(shifted, wanted)
        widened = saturate_cast(x, wanted) if saturate else cast(x, wanted)
        return widened * ((wanted.max + 1) // (have.max + 1))
    if have.is_floating and wanted.is_floating:
        return cast(x, wanted)
    if have.is_integer:
        return cast(x, wanted) * (1.0 / have.max)
    scaled_ = x * (wanted.max + 0.5)
    return saturate_cast(scaled_, wanted) if saturate else cast(scaled_, wanted)


# -- reading images --------------------------------------------------------------------------------------------------
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_FORMATS = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF8", "GIF"),
    (b"BM", "BMP"),
    (b"RIFF", "WEBP"),
)


def _format_of(data: bytes, op: str) -> str:
    if not data:
        raise errors.refused_value("Input is empty.", op)
    for magic, kind in _FORMATS:
        if data.startswith(magic) and (kind != "WEBP" or data[8:12] == b"WEBP"):
            return kind
    raise errors.refused_value("Unknown image file format. One of JPEG, PNG, GIF, BMP, WebP required.", op)


_WRONG = {  # TensorFlow's errors for files that it cannot read
    "PNG": "Invalid PNG data, size {}",
    "JPEG": "jpeg::Uncompress failed. Invalid JPEG data or crop window. (size {})",
    "GIF": "Invalid GIF data (size {})",
    "BMP": "Invalid BMP data, size {}",
    "WEBP": "Failed to decode WebP image. (size {})",
}
_PIXELS = 2**29  # of an image, or of all images of a GIF together: TensorFlow's limit


def _opened(data: bytes, op: str) -> Any:
    """Read the image in a file, after checking its size."""
    picture = _header(data, op)
    with _named(data, op):
        picture.load()
    return picture


def _header(data: bytes, op: str) -> Any:
    """The image in a file without its pixels; there may be far fewer than the header of a large one says."""
    kind = _format_of(data, op)
    _pillow()
    with _named(data, op):
        plugin = importlib.import_module(f"PIL.{_PLUGINS[kind]}ImagePlugin")
        picture = getattr(plugin, f"{_PLUGINS[kind]}ImageFile")(_io.BytesIO(data))
        width, height = picture.size
        count = picture.n_frames if kind == "GIF" else 1
    if width * height > _DENSEST.get(kind, math.inf) * len(data):
        raise errors.invalid_argument(
            f"{_WRONG[kind].format(len(data))}: it cannot hold {width} by {height} pixels", op
        )
    if width * height * count > _PIXELS:
        pictures = f"{count} times " if count > 1 else ""
        raise errors.invalid_argument(
            f"{kind} size too large for int: {width} by {height}. {pictures}{width * height} pixels are more than "
            f"{_PIXELS}",
            op,
        )
    return picture


_DENSEST = {"PNG": 8 * 1032, "BMP": 128}  # the largest number of pixels per byte, if it is known
_PLUGINS = {"PNG": "Png", "JPEG": "Jpeg", "GIF": "Gif", "BMP": "Bmp", "WEBP": "WebP"}  # the names of Pillow's modules


@contextmanager
def _named(data: bytes, op: str) -> Iterator[None]:
    """Convert any error of a decoder to TensorFlow's error."""
    try:
        yield
    except MemoryError:
        message = f"There is not enough memory for the image in a file of {len(data)} bytes [Op:{op}]"
        raise errors.ResourceExhaustedError(None, None, message) from None
    except Exception as error:
        sentence = _WRONG[_format_of(data, op)].format(len(data))
        why = f": {error}" if isinstance(error, (OSError, SyntaxError, ValueError)) else ""
        raise errors.refused_value(f"{sentence}{why}", op) from None


def _pixels(picture: Any, channels: int, dtype: Any, op: str) -> Any:
    """The pixels of an image as an array [height, width, channels]."""
    if channels not in (0, 1, 2, 3, 4):
        raise errors.invalid_argument(f"channels must be 0, 1, 3, or 4, got {channels}", op)
    wide = picture.mode.startswith("I;16") or picture.mode == "I"
    if wide and channels in (0, 1):
        values = np.asarray(picture).astype(np.uint16)[..., None]
        return values if dtype == np.uint16 else (values >> 8).astype(np.uint8)
    if wide:  # Pillow supports 16 bits for one channel only
        image_module, _ = _pillow()
        picture = image_module.fromarray((np.asarray(picture).astype(np.uint16) >> 8).astype(np.uint8))
    mode = _MODES.get(channels) or _natural_mode(picture)
    values = np.asarray(picture if picture.mode == mode else picture.convert(mode))
    values = values[..., None] if values.ndim == 2 else values
    return values.astype(np.uint16) * 257 if dtype == np.uint16 else values.astype(np.uint8)


def _natural_mode(picture: Any) -> str:
    if picture.mode in ("L", "LA", "RGB", "RGBA"):
        return str(picture.mode)
    if picture.mode == "1":
        return "L"
    transparent = "transparency" in picture.info or picture.mode in ("PA", "RGBa", "La")
    return "RGBA" if transparent else "RGB"


def _decoder(op: str, name: str, doc: str) -> Any:
    def decode(contents: Any, channels: Any = 0, dtype: Any = "uint8", name: str | None = None) -> Tensor:
        data = _bytes(contents, op)
        return wrap(np.array(_pixels(_opened(data, op), integer(channels or 0), _pixel_dtype(dtype, op), op)))

    decode.__name__ = decode.__qualname__ = name
    decode.__doc__ = doc
    return decode


def _pixel_dtype(dtype: Any, op: str) -> Any:
    kind = as_dtype(dtype)
    if kind.name not in ("uint8", "uint16"):
        raise errors.invalid_argument(
            f"Value for attr 'dtype' of {kind.word} is not in the list of allowed values: uint8, uint16", op
        )
    return kind.numpy_dtype


decode_png = _decoder(
    "DecodePng",
    "decode_png",
    """Decode a PNG image to [height, width, channels], uint8 or uint16.

>>> contents = tf.io.encode_png(tf.constant([[[7], [9]]], tf.uint8))
>>> tf.io.decode_png(contents).numpy().tolist()
[[[7], [9]]]
""",
)
decode_webp = _decoder(
    "DecodeWebP",
    "decode_webp",
    """Decode a WebP image to [height, width, channels].

>>> import io
>>> from PIL import Image
>>> file = io.BytesIO()
>>> Image.new("RGB", (3, 2)).save(file, "WEBP")
>>> tf.io.decode_webp(file.getvalue()).shape
TensorShape([2, 3, 3])
""",
)


def decode_jpeg(
    contents: Any,
    channels: Any = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode a JPEG image to uint8 [height, width, channels]; `ratio` 2, 4 or 8 makes it smaller.

    >>> contents = tf.image.encode_jpeg(tf.zeros([8, 16, 3], tf.uint8))
    >>> tf.image.decode_jpeg(contents).shape, tf.image.decode_jpeg(contents, ratio=2).shape
    (TensorShape([8, 16, 3]), TensorShape([4, 8, 3]))
    """
    data = _bytes(contents, "DecodeJpeg")
    if ratio not in (1, 2, 4, 8):
        raise errors.invalid_argument(f"ratio must be 1, 2, 4, or 8, got {ratio}", "DecodeJpeg")
    pixels = _pixels(_opened(data, "DecodeJpeg"), integer(channels or 0), np.uint8, "DecodeJpeg")
    if ratio > 1:
        image_module, _ = _pillow()
        height, width = (-(-n // ratio) for n in pixels.shape[:2])
        planes = [
            np.asarray(image_module.fromarray(pixels[..., i]).resize((width, height), image_module.Resampling.BOX))
            for i in range(pixels.shape[2])
        ]
        pixels = np.stack(planes, -1)
    return wrap(np.array(pixels))


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: Any = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode the part of a JPEG image inside a window (y, x, height, width).

    >>> contents = tf.image.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8))
    >>> tf.image.decode_and_crop_jpeg(contents, [0, 0, 4, 2]).shape
    TensorShape([4, 2, 3])
    """
    pixels = np.asarray(decode_jpeg(contents, channels, ratio).array)
    y, x, height, width = shape_of(crop_window)
    if y < 0 or x < 0 or height < 1 or width < 1 or y + height > pixels.shape[0] or x + width > pixels.shape[1]:
        raise errors.invalid_argument(
            f"Invalid JPEG data or crop window, got window {[y, x, height, width]} for an image of "
            f"{pixels.shape[0]} x {pixels.shape[1]}",
            "DecodeAndCropJpeg",
        )
    return wrap(np.ascontiguousarray(pixels[y : y + height, x : x + width]))


def decode_bmp(contents: Any, channels: Any = 0, name: str | None = None) -> Tensor:
    """Decode a BMP image to uint8 [height, width, channels].

    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (2, 1), (255, 0, 0)).save(file, "BMP")
    >>> tf.image.decode_bmp(file.getvalue()).numpy().tolist()
    [[[255, 0, 0], [255, 0, 0]]]
    """
    data = _bytes(contents, "DecodeBmp")
    return wrap(np.array(_pixels(_opened(data, "DecodeBmp"), integer(channels or 0), np.uint8, "DecodeBmp")))


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decode all frames of a GIF to uint8 [frames, height, width, 3].

    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (3, 2)).save(file, "GIF")
    >>> tf.image.decode_gif(file.getvalue()).shape
    TensorShape([1, 2, 3, 3])
    """
    return wrap(_frames(_bytes(contents, "DecodeGif"), "DecodeGif"))


def _frames(data: bytes, op: str) -> Any:
    _, sequence = _pillow()
    picture = _header(data, op)
    with _named(data, op):
        width, height = picture.size
        frames = np.empty((picture.n_frames, height, width, 3), np.uint8)
        for i, frame in enumerate(sequence.Iterator(picture)):
            frames[i] = np.asarray(frame.convert("RGB"))
    return frames


def decode_image(
    contents: Any, channels: Any = None, dtype: Any = "uint8", name: str | None = None, expand_animations: bool = True
) -> Tensor:
    """Decode an image of any format to [height, width, channels]; a GIF to [frames, height, width, 3], or one frame.

    >>> contents = tf.image.encode_png(tf.zeros([2, 3, 1], tf.uint8))
    >>> tf.image.decode_image(contents).shape
    TensorShape([2, 3, 1])
    """
    data = _bytes(contents, "DecodeImage")
    kind = _format_of(data, "DecodeImage")
    wanted = as_dtype(dtype)
    if kind == "GIF":
        pixels = _frames(data, "DecodeImage")
        pixels = pixels if expand_animations else pixels[0]
    else:
        read = np.uint16 if wanted.name == "uint16" and kind == "PNG" else np.uint8
        pixels = _pixels(_opened(data, "DecodeImage"), integer(channels or 0), read, "DecodeImage")
    return convert_image_dtype(wrap(np.array(pixels)), wanted)


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Return whether these bytes start like a JPEG file.

    >>> bool(tf.io.is_jpeg(b"GIF89a"))
    False
    """
    return wrap(np.array(_bytes(contents, "IsJpeg").startswith(b"\xff\xd8\xff")))


def extract_jpeg_shape(contents: Any, output_type: Any = "int32", name: str | None = None) -> Tensor:
    """Return the height, width and number of channels of a JPEG file.

    >>> contents = tf.image.encode_jpeg(tf.zeros([4, 8, 3], tf.uint8))
    >>> tf.image.extract_jpeg_shape(contents).numpy().tolist()
    [4, 8, 3]
    """
    data = _bytes(contents, "ExtractJpegShape")
    if not data.startswith(b"\xff\xd8\xff"):
        raise errors.refused_value("Invalid JPEG data, size " + str(len(data)), "ExtractJpegShape")
    picture = _header(data, "ExtractJpegShape")
    shape = [picture.height, picture.width, len(picture.getbands())]
    return wrap(np.array(shape, as_dtype(output_type).numpy_dtype))


# -- writing images --------------------------------------------------------------------------------------------------
def _text(data: bytes) -> Tensor:
    value = np.empty((), object)
    value[()] = data
    return wrap(value)


def _picture(image: Any, op: str, channels: tuple[int, ...], dtypes: tuple[str, ...]) -> Any:
    x = operand(image)
    if x.dtype.name not in dtypes:
        raise errors.invalid_argument(
            f"Value for attr 'T' of {x.dtype.word} is not in the list of allowed values: {', '.join(dtypes)}. Use "
            "tf.image.convert_image_dtype to convert floating-point images to integers.",
            op,
        )
    values = known(x)
    if values.ndim != 3:
        raise errors.invalid_argument(f"image must be 3-dimensional{errors.brackets(values.shape)}", op)
    if values.shape[2] not in channels:
        listed = ", ".join(map(str, channels[:-1])) + f", or {channels[-1]}"
        raise errors.refused_value(f"image must have {listed} channels{errors.brackets(values.shape)}", op)
    return np.ascontiguousarray(values)


@kept_in_graph("encode_png")
def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Tensor:
    """Encode a uint8 or uint16 image [height, width, channels] as a PNG file.

    >>> contents = tf.image.encode_png(tf.zeros([2, 2, 1], tf.uint8))
    >>> contents.numpy()[1:4]
    b'PNG'
    """
    compression = as_int(compression, "compression", -1)
    values = _picture(image, "EncodePng", (1, 2, 3, 4), ("uint8", "uint16"))
    image_module, _ = _pillow()
    if values.dtype == np.uint16 and values.shape[2] > 1:
        raise errors.invalid_argument("16-bit PNG files can have only one channel; use uint8 for colors.", "EncodePng")
    picture = image_module.fromarray(values[..., 0] if values.shape[2] == 1 else values)
    out = _io.BytesIO()
    picture.save(out, "PNG", **({} if compression < 0 else {"compress_level": min(compression, 9)}))
    return _text(out.getvalue())


@kept_in_graph("encode_jpeg")
def encode_jpeg(
    image: TensorLike,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Encode a uint8 image [height, width, 1 or 3] as a JPEG file.

    >>> contents = tf.image.encode_jpeg(tf.zeros([2, 2, 3], tf.uint8))
    >>> tf.image.is_jpeg(contents).numpy().item()
    True
    """
    quality = as_int(quality, "quality", 95)
    if not 0 <= quality <= 100:
        raise errors.refused_value(f"quality must be in [0,100], got {quality}", "EncodeJpeg")
    values = _picture(image, "EncodeJpeg", (1, 3), ("uint8",))
    image_module, _ = _pillow()
    out = _io.BytesIO()
    image_module.fromarray(values[..., 0] if values.shape[2] == 1 else values).save(
        out,
        "JPEG",
        quality=quality,
        progressive=flag(progressive, "progressive"),
        optimize=flag(optimize_size, "optimize_size"),
        subsampling=2 if flag(chroma_downsampling, "chroma_downsampling", True) else 0,
        dpi=(x_density, y_density),
    )
    return _text(out.getvalue())


# -- files -----------------------------------------------------------------------------------------------------------
def _path(filename: Any, op: str) -> str:
    is_path = isinstance(filename, (str, bytes, os.PathLike))
    return os.fsdecode(filename if is_path else _bytes(filename, op, "filename"))


def _file_systems() -> Any:
    """File systems by name, imported when they are first used."""
    return importlib.import_module("gradtape._src.formats.file_systems")


@kept_in_graph("read_file")
def read_file(filename: Any, name: str | None = None) -> Tensor:
    """Read a file, as a scalar string tensor.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.txt")
    >>> tf.io.write_file(path, "hello")
    >>> tf.io.read_file(path).numpy()
    b'hello'
    """
    path = _path(filename, "ReadFile")
    if "://" in path:
        system, inside = _file_systems().file_system(path)
        with system.open(inside, "rb") as file:
            return _text(file.read())
    with open_to_read(path, "ReadFile") as file, named_errors(path, "ReadFile"):
        return _text(file.read())


@kept_in_graph("write_file", changes=True)
def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Write bytes to a file; missing directories are created. The write is atomic.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "folder", "a.txt")
    >>> tf.io.write_file(path, "hello")
    >>> os.path.getsize(path)
    5
    """
    if current_graph() is not None:  # even if the arguments are known: every call of the function writes
        raise only_eager(RuntimeError("A function that XLA compiles cannot write files."))
    path, data = _path(filename, "WriteFile"), _bytes(contents, "WriteFile")
    if "://" in path:
        _file_systems().replace(path, _io.BytesIO(data))
        return
    with named_errors(path, "WriteFile"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write(path, lambda file: file.write(data), durable=False)


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Return the files that match the patterns, sorted by name.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://matched/a.txt", "x")
    >>> tf.io.matching_files("ram://matched/*.txt").numpy().tolist()
    [b'ram://matched/a.txt']
    """
    texts = _strings(pattern, "MatchingFiles")
    if texts.ndim > 1:
        raise errors.invalid_argument(
            f"Input patterns tensor must be scalar or vector, but had shape: {errors.brackets(texts.shape)}",
            "MatchingFiles",
        )
    found = []
    for text in texts.reshape(-1):
        system, inside = _file_systems().file_system(os.fsdecode(text))
        found += system.glob(inside)
    array = np.empty(len(found), object)
    array[:] = [os.fsencode(path) for path in sorted(found)]
    return wrap(array)


def decode_raw(
    input_bytes: Any, out_type: Any, little_endian: bool = True, fixed_length: Any = None, name: str | None = None
) -> Tensor:
    """Reinterpret the bytes of strings as numbers; the result has one more axis.

    >>> tf.io.decode_raw(b"\\x01\\x00\\x02\\x00", "int16").numpy().tolist()
    [1, 2]
    """
    texts, kind = _strings(input_bytes, "DecodeRaw"), as_dtype(out_type)
    if kind.name in ("string", "resource", "variant") or kind.is_quantized:
        raise errors.invalid_argument(
            f"Value for attr 'out_type' of {kind.word} is not in the list of allowed values", "DecodeRaw"
        )
    dtype, little_endian = kind.numpy_dtype, flag(little_endian, "little_endian", True)
    rows = list(texts.reshape(-1))
    if fixed_length is not None:
        length = integer(fixed_length, "DecodePaddedRaw", fixed=True)
        if length <= 0:
            raise errors.refused_value(f"fixed_length ({length}) must be greater than zero.", "DecodePaddedRaw")
        if length % dtype.itemsize:
            raise errors.invalid_argument(
                f"fixed_length ({length}) must be a multiple of the size of out_type ({dtype.itemsize})",
                "DecodePaddedRaw",
            )
        rows = [r[:length].ljust(length, b"\0") for r in rows]
    sizes = {len(r) for r in rows}
    if len(sizes) > 1:
        raise errors.refused_value(
            "DecodeRaw requires input strings to all be the same size, but element 1 has "
            f"another size than element 0: {sorted(sizes)}",
            "DecodeRaw",
        )
    size = sizes.pop() if sizes else 0
    if size % dtype.itemsize:
        raise errors.refused_value(
            f"Input to DecodeRaw has length {size} that is not a multiple of {dtype.itemsize}, the size of "
            f"{as_dtype(out_type).word}",
            "DecodeRaw",
        )
    stored = dtype.newbyteorder("<" if little_endian else ">") if dtype.itemsize > 1 else dtype
    values = np.frombuffer(b"".join(rows), stored).astype(dtype)
    return wrap(values.reshape(*texts.shape, size // dtype.itemsize))


# -- records: loaded when they are first used ------------------------------------------------------------------------
_LAZY = homes_of(
    (
        "tf.parsing",
        "FixedLenFeature FixedLenSequenceFeature TFRecordOptions TFRecordWriter VarLenFeature "
        "deserialize_many_sparse parse_example parse_single_example parse_tensor serialize_many_sparse "
        "serialize_sparse serialize_tensor",
    ),
    ("tf.records", "decode_compressed decode_json_example"),
    ("tf.sequences", "RaggedFeature SparseFeature parse_sequence_example parse_single_sequence_example"),
    ("tf.text_records", "decode_base64 decode_csv encode_base64"),
)
_LAZY["gfile"] = "gradtape.io.gfile:"

if TYPE_CHECKING:
    from gradtape._src.tf import gfile as gfile
    from gradtape._src.tf.parsing import (
        FixedLenFeature as FixedLenFeature,
        FixedLenSequenceFeature as FixedLenSequenceFeature,
        TFRecordOptions as TFRecordOptions,
        TFRecordWriter as TFRecordWriter,
        VarLenFeature as VarLenFeature,
        deserialize_many_sparse as deserialize_many_sparse,
        parse_example as parse_example,
        parse_single_example as parse_single_example,
        parse_tensor as parse_tensor,
        serialize_many_sparse as serialize_many_sparse,
        serialize_sparse as serialize_sparse,
        serialize_tensor as serialize_tensor,
    )
    from gradtape._src.tf.records import (
        decode_compressed as decode_compressed,
        decode_json_example as decode_json_example,
    )
    from gradtape._src.tf.sequences import (
        RaggedFeature as RaggedFeature,
        SparseFeature as SparseFeature,
        parse_sequence_example as parse_sequence_example,
        parse_single_sequence_example as parse_single_sequence_example,
    )
    from gradtape._src.tf.text_records import (
        decode_base64 as decode_base64,
        decode_csv as decode_csv,
        encode_base64 as encode_base64,
    )
else:  # type checkers would accept any misspelled name
    __getattr__ = getattr_of(__name__, _LAZY)


def __dir__() -> list[str]:
    return list(__all__)


__all__ = [
    *_LAZY,
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_raw",
    "decode_webp",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "is_jpeg",
    "matching_files",
    "read_file",
    "write_file",
]
