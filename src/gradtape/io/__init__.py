"""`tf.io`: image files (with Pillow, when they are used), whole files, and records (loaded when they are used)."""

import typing as _typing

from gradtape._src.tf.io import (
    __dir__ as __dir__,
    decode_and_crop_jpeg as decode_and_crop_jpeg,
    decode_bmp as decode_bmp,
    decode_gif as decode_gif,
    decode_image as decode_image,
    decode_jpeg as decode_jpeg,
    decode_png as decode_png,
    decode_raw as decode_raw,
    decode_webp as decode_webp,
    encode_jpeg as encode_jpeg,
    encode_png as encode_png,
    extract_jpeg_shape as extract_jpeg_shape,
    is_jpeg as is_jpeg,
    matching_files as matching_files,
    read_file as read_file,
    write_file as write_file,
)

if _typing.TYPE_CHECKING:
    from gradtape._src.tf.io import (
        FixedLenFeature as FixedLenFeature,
        FixedLenSequenceFeature as FixedLenSequenceFeature,
        RaggedFeature as RaggedFeature,
        SparseFeature as SparseFeature,
        TFRecordOptions as TFRecordOptions,
        TFRecordWriter as TFRecordWriter,
        VarLenFeature as VarLenFeature,
        decode_base64 as decode_base64,
        decode_compressed as decode_compressed,
        decode_csv as decode_csv,
        decode_json_example as decode_json_example,
        deserialize_many_sparse as deserialize_many_sparse,
        encode_base64 as encode_base64,
        gfile as gfile,
        parse_example as parse_example,
        parse_sequence_example as parse_sequence_example,
        parse_single_example as parse_single_example,
        parse_single_sequence_example as parse_single_sequence_example,
        parse_tensor as parse_tensor,
        serialize_many_sparse as serialize_many_sparse,
        serialize_sparse as serialize_sparse,
        serialize_tensor as serialize_tensor,
    )
else:
    from gradtape._src.lazy_names import of_public as _of_public
    from gradtape._src.tf.io import __getattr__ as _load

    __getattr__ = _of_public(__name__, _load)
