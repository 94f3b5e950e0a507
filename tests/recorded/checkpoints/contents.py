"""What is in the checkpoints beside this file."""

import ml_dtypes
import numpy as np

WIDTHS = {"int8": -5, "int16": -300, "int32": -70_000, "int64": -(2**40), "uint8": 250, "uint16": 65_000}
SMALL = ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"]

PLAIN = {
    **{f"dtypes/{name}": np.array([[low, 1, 2], [3, 4, 5]], name) for name, low in WIDTHS.items()},
    "dtypes/uint32": np.array([2**32 - 1, 1], np.uint32),
    "dtypes/uint64": np.array([2**64 - 1, 1], np.uint64),
    "dtypes/float16": np.array([0.5, -2, np.inf], np.float16),
    "dtypes/float32": np.array([0.1, -2, 3e38], np.float32),
    "dtypes/float64": np.array([0.1, -2, 1e300], np.float64),
    "dtypes/bfloat16": np.array([0.5, -2, 1e30], ml_dtypes.bfloat16),
    "dtypes/complex64": np.array([1 + 2j, -3j], np.complex64),
    "dtypes/complex128": np.array([1 + 2j, -3j], np.complex128),
    "dtypes/bool": np.array([True, False, True]),
    **{f"dtypes/{name}": np.array([0.5, -2, 3], getattr(ml_dtypes, name)) for name in SMALL},
    "dtypes/int4": np.array([-8, -1, 0, 7], ml_dtypes.int4),
    "dtypes/uint4": np.array([0, 1, 8, 15], ml_dtypes.uint4),
    "shapes/scalar": np.array(2.5, np.float32),
    "shapes/empty": np.zeros((0, 3), np.float32),
    "shapes/empty_inside": np.zeros((2, 0, 3), np.int32),
    "shapes/many": np.arange(24, dtype=np.int16).reshape(1, 2, 3, 4, 1),
    "shapes/large": np.arange(2000, dtype=np.float32) * 0.25,
    "umlaut/ü/.ATTRIBUTES/VARIABLE_VALUE": np.array([7], np.int8),
}

STRINGS = {
    "scalar": np.array(b"one", object),
    "empty": np.array(b"", object),
    "none": np.zeros((0,), object),
    "binary": np.array(b"\x00\xff\x00", object),
    "matrix": np.array([[b"a", b"", b"ccc"], [b"d" * 127, b"e" * 128, b"f" * 300]], object),
}

QUANTIZED = {
    "qint8": np.array([-1, 2], np.int8),
    "quint8": np.array([255, 2], np.uint8),
    "qint16": np.array([-300, 2], np.int16),
    "quint16": np.array([65_000, 2], np.uint16),
    "qint32": np.array([-70_000, 2], np.int32),
}

# Keys that have little in common, so that the index needs a second block.
MANY = {f"{i:03d}" + "/a_long_name" * 38: np.array(i % 7, np.int8) for i in range(600)}

SLICED = {
    "w": np.arange(12, dtype=np.float32).reshape(4, 3),
    "wide": np.arange(200, dtype=np.int16).reshape(2, 100),
    "x": np.array(7, np.int32),
}
