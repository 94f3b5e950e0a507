"""gradtape.dtypes: TensorFlow's dtype objects."""

from __future__ import annotations

import copy
import pickle
import types

import ml_dtypes
import numpy as np
import pytest

from gradtape._src import dtypes
from gradtape._src.dtypes import DType, as_dtype, dtype_of

ALL = {name: value for name, value in vars(dtypes).items() if isinstance(value, DType)}
ARRAYS = [d for name, d in ALL.items() if name == d.name and d.is_numpy_compatible and not d.is_quantized]

# name, TensorFlow's number, size, and which of floating, integer, unsigned, complex, bool, numeric, quantized hold
FACTS = """
    float32 1 4 fn|float64 2 8 fn|int32 3 4 in|uint8 4 1 iun|int16 5 2 in|int8 6 1 in|string 7 0 -|complex64 8 8 cn
    int64 9 8 in|bool 10 1 b|qint8 11 1 nq|quint8 12 1 nq|qint32 13 4 nq|bfloat16 14 2 fn|qint16 15 2 nq|quint16 16 2 nq
    uint16 17 2 iun|complex128 18 16 cn|float16 19 2 fn|resource 20 0 -|variant 21 0 -|uint32 22 4 iun|uint64 23 8 iun
    float8_e5m2 24 1 f|float8_e4m3fn 25 1 f|float8_e4m3fnuz 26 1 f|float8_e4m3b11fnuz 27 1 f|float8_e5m2fnuz 28 1 f
    int4 29 1 i|uint4 30 1 iu
"""


@pytest.mark.parametrize("row", [row.strip() for line in FACTS.strip().splitlines() for row in line.split("|")])
def test_facts(row):
    name, enum, size, kinds = row.split()
    d = getattr(dtypes, name)
    assert (d.name, d.as_datatype_enum, d.size) == (name, int(enum), int(size))
    flags = {
        "f": d.is_floating,
        "i": d.is_integer,
        "u": d.is_unsigned,
        "c": d.is_complex,
        "b": d.is_bool,
        "n": d.is_numeric,
        "q": d.is_quantized,
    }
    assert flags == {letter: letter in kinds for letter in flags}
    assert d.base_dtype is d
    assert as_dtype(name) is as_dtype(int(enum)) is as_dtype(d) is DType(int(enum)) is d


def test_aliases_and_words():
    assert dtypes.half is dtypes.float16
    assert dtypes.double is dtypes.float64
    words = [
        d.word for d in (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int32, dtypes.bool)
    ]
    assert words == ["half", "float", "double", "bfloat16", "int32", "bool"]
    for d in ALL.values():
        assert as_dtype(d.word) is d


def test_text_forms():
    assert repr(dtypes.float32) == "tf.float32"
    assert str(dtypes.float32) == f"{dtypes.float32}" == "<dtype: 'float32'>"


@pytest.mark.parametrize("d", ARRAYS, ids=str)
def test_numpy_types(d):
    assert d.numpy_dtype == np.dtype(d.as_numpy_dtype)
    assert as_dtype(d.numpy_dtype) is as_dtype(d.as_numpy_dtype) is dtype_of(np.zeros(2, d.numpy_dtype)) is d
    assert d == d.numpy_dtype
    assert d == d.as_numpy_dtype
    assert d.numpy_dtype == d


def test_numpy_types_by_name():
    assert dtypes.float32.as_numpy_dtype is np.float32
    assert dtypes.bool.as_numpy_dtype is np.bool_
    assert dtypes.string.as_numpy_dtype is object
    assert dtypes.bfloat16.as_numpy_dtype is ml_dtypes.bfloat16


@pytest.mark.parametrize("d", [dtypes.resource, dtypes.variant], ids=str)
def test_handles_have_no_numpy_type(d):
    assert not d.is_numpy_compatible
    with pytest.raises(AttributeError, match="has no NumPy type"):
        _ = d.as_numpy_dtype


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float, "float32"),
        (bool, "bool"),
        (object, "string"),
        ("float", "float32"),
        ("half", "float16"),
        ("double", "float64"),
        (np.str_, "string"),
        (np.bytes_, "string"),
        (np.dtype("S3"), "string"),
        (np.dtype("U3"), "string"),
        (np.dtype(">f4"), "float32"),
        (np.longlong, "int64"),
        (np.ulonglong, "uint64"),
        (np.intc, "int32"),
        (np.float16(1), "float16"),
        (np.ones(2), "float64"),
        (types.SimpleNamespace(dtype=np.dtype("i2")), "int16"),
        (np.str_("float32"), "float32"),
        (ml_dtypes.int4, "int4"),
    ],
)
def test_as_dtype(value, expected):
    assert as_dtype(value).name == expected


@pytest.mark.parametrize(
    "value",
    [
        *(None, 0, 999, 1.0, 1.5, "junk", "f4", "Float32", "int", b"float32", [1], {}),
        *(int, complex, str, bytes, slice, np.floating, np.longdouble, np.datetime64),
        *(np.dtype([("a", "f4")]), types.SimpleNamespace(dtype=dtypes.int8)),
    ],
    ids=repr,
)
def test_as_dtype_refuses(value):
    with pytest.raises(TypeError) as caught:
        as_dtype(value)
    assert str(caught.value).startswith(f"Cannot convert the argument `type_value`: {value!r} to a TensorFlow DType.")
    assert all(d != value for d in ALL.values())


def test_help_for_python_types():
    with pytest.raises(TypeError, match=r"Use tf\.int32 or tf\.int64"):
        as_dtype(int)


@pytest.mark.parametrize("array", [np.zeros(2, np.longdouble), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "f4")])])
def test_dtype_of_refuses(array):
    with pytest.raises(TypeError, match=r"Cannot convert the argument `type_value`: dtype\("):
        dtype_of(array)


def test_dtype_of_text_and_byte_order():
    assert dtype_of(np.array(["a", "bc"])) is dtype_of(np.array([b"a"])) is dtype_of(np.array(["a"], object))
    assert dtype_of(np.zeros(2, ">f8")) is dtypes.float64
    assert dtype_of(np.zeros(2, np.longlong)) is dtypes.int64


def test_equality():
    d = dtypes.float32
    assert d == "float32" == d
    assert np.float32 == d
    assert d == float  # noqa: E721
    assert d == 1
    assert d != 1.0
    assert d != dtypes.float64
    assert d != "float64"
    assert d != None  # noqa: E711
    assert d != object()
    assert d != [1]
    assert d in ["a", np.float32]


def test_hash_agrees_with_equality_among_dtypes():
    distinct = set(ALL.values())
    assert len(distinct) == len({d.name for d in ALL.values()})
    assert {dtypes.float32: 1}[as_dtype(np.float32)] == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
@pytest.mark.parametrize("d", ALL.values(), ids=str)
def test_one_object_for_each(d, copied):
    assert copied(d) is d


def test_no_calls_no_changes():
    with pytest.raises(TypeError, match="not callable"):
        dtypes.float32()
    with pytest.raises(AttributeError, match="immutable"):
        dtypes.float32.name = "other"
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        _ = dtypes.float32.foo


@pytest.mark.parametrize("d", [d for d in ALL.values() if d.is_integer], ids=str)
def test_integer_range(d):
    info = ml_dtypes.iinfo(d.as_numpy_dtype)
    assert (d.min, d.max) == (int(info.min), int(info.max))
    assert type(d.max) is int


@pytest.mark.parametrize("d", [d for d in ALL.values() if d.is_floating], ids=str)
def test_floating_range(d):
    assert float(d.max) == -float(d.min) == float(ml_dtypes.finfo(d.as_numpy_dtype).max)
    assert type(d.max) is d.as_numpy_dtype


@pytest.mark.parametrize(
    ("d", "tail"),
    [
        (dtypes.bool, " with type <dtype: 'bool'>."),
        (dtypes.string, " with type <dtype: 'string'>."),
        (dtypes.complex64, " with type <dtype: 'complex64'>."),
        (dtypes.qint8, " with quantized type <dtype: 'qint8'>."),
        (dtypes.resource, "."),
    ],
    ids=str,
)
def test_no_range(d, tail):
    for name, noun in (("min", "minimum"), ("max", "maximum")):
        with pytest.raises(TypeError) as caught:
            getattr(d, name)
        assert str(caught.value) == f"Cannot find {noun} value of {d}{tail}"


def test_limits():
    assert dtypes.uint8.limits == (0, 255)
    assert dtypes.int16.limits == (0, 32767)
    assert dtypes.float32.limits == dtypes.float64.limits == (0, 1)
    assert dtypes.bool.limits == (0, True)
    for d in (dtypes.float16, dtypes.bfloat16, dtypes.int4, dtypes.complex64, dtypes.string, dtypes.variant):
        with pytest.raises(ValueError, match="does not have defined limits"):
            _ = d.limits


def test_real_dtype_and_compatibility():
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128.real_dtype is dtypes.float64
    assert dtypes.int8.real_dtype is dtypes.int8
    assert dtypes.float32.is_compatible_with("float32")
    assert not dtypes.float32.is_compatible_with(np.float64)
    with pytest.raises(TypeError, match="Cannot convert"):
        dtypes.float32.is_compatible_with(None)
