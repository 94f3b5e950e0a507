"""`tf.io`: image files (with Pillow, when they are used), whole files, and records (loaded when they are used)."""

from gradtape._src.tf.io import (
    __dir__ as __dir__,
    __getattr__ as __getattr__,
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
    read_file as read_file,
    write_file as write_file,
)
