"""`tf.experimental.numpy` gives what TensorFlow gave (`recorded.json`)."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from numpy_api import record

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
NAMES = record.names(tf)


def compare(recorded, result):
    if isinstance(recorded, list):
        assert isinstance(result, (list, tuple))
        assert len(recorded) == len(result)
        for each, one in zip(recorded, result, strict=True):
            compare(each, one)
        return
    found = record.plain(result)
    if "python" in recorded:
        assert found == recorded
        return
    assert (found["dtype"], found["shape"]) == (recorded["dtype"], recorded["shape"])
    np.testing.assert_allclose(np.array(found["values"], float), np.array(recorded["values"], float), 1e-5, 1e-7)


@pytest.mark.parametrize("call", RECORDED)
def test_result(call):
    with np.errstate(all="ignore"):
        compare(RECORDED[call], eval(call, dict(NAMES)))


def test_integers_become_float64():
    """TensorFlow has this meaning with NumPy behavior enabled, and raises AttributeError without it."""
    n = tf.experimental.numpy
    for name in ("sqrt", "exp", "cos", "log2", "tanh", "cbrt", "floor"):
        found = getattr(n, name)([1, 4])
        assert found.dtype == tf.float64, name
        np.testing.assert_allclose(found, getattr(np, name)([1, 4]), rtol=1e-6)
    assert n.around([1.25, -2.5]).numpy().tolist() == [1.0, -2.0]
    assert n.round(np.float32([1.26]), 1).dtype == tf.float32


@pytest.mark.parametrize("dtype", [tf.float32, tf.int32, "float32", np.float32, np.dtype("int64"), float, int])
def test_dtypes_by_all_their_names(dtype):
    """Python's `float` and `int` are NumPy's, tf.float32 is itself, though it compares equal to `float`."""
    n = tf.experimental.numpy
    expected = dtype.as_numpy_dtype if isinstance(dtype, tf.DType) else dtype
    for name, arguments in {"zeros": ([2],), "ones": ([2],), "empty": ([2],), "eye": (2,), "identity": (2,),
                            "full": ([2], 1), "zeros_like": ([1, 2],), "ones_like": ([1, 2],), "array": ([1, 2],),
                            "asarray": ([1, 2],), "arange": (3,), "tri": (2,),
                            "sum": ([1, 2],), "prod": ([1, 2],), "mean": ([1, 2],), "cumsum": ([1, 2],),
                            "nansum": ([1, 2],), "trace": ([[1, 2], [3, 4]],)}.items():  # fmt: skip
        found = getattr(n, name)(*arguments, dtype=dtype)
        assert found.dtype.as_numpy_dtype == np.dtype(expected), name


def test_every_name_is_there():
    names = set(dir(tf.experimental.numpy))
    assert len([name for name in names if not name.startswith("_")]) == 229
    assert set(dir(tf.experimental.numpy.random)) >= {
        "poisson",
        "rand",
        "randint",
        "randn",
        "random",
        "seed",
        "uniform",
    }


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda n: n.reshape(n.arange(6), (2, 3), order="A"), ValueError),
        (lambda n: n.sort([1], kind="heapsort"), ValueError),
        (lambda n: n.take([1], [0], mode="no"), ValueError),
        (lambda n: n.clip([1], None, None), ValueError),
        (lambda n: n.matmul(n.ones((2, 3)), n.ones((2, 3))), ValueError),
        (lambda n: n.diag(n.ones((1, 1, 1))), ValueError),
        (lambda n: n.meshgrid([1], sparse=True), ValueError),
        (lambda n: n.where([True], 1), ValueError),
        (lambda n: n.random.seed("a"), ValueError),
        (lambda n: n.random.randint(3, dtype=n.int8), ValueError),
        (lambda n: n.swapaxes([1], 0, 1), ValueError),
    ],
)
def test_an_error(call, error):
    with pytest.raises(error):
        call(tf.experimental.numpy)


# -- NumPy behavior: for the whole process, so each mode in its own ----------------------------------------------------
PROGRAMS = {
    "legacy": """
        f, i = tf.constant([1.0, 2.0]), tf.constant([3, 4])
        assert (f + i).dtype == tf.float64 and (i + 1.5).dtype == tf.float64 and (f + 1.5).dtype == tf.float32
        assert (2**i).dtype == tf.int32 and (f == i).numpy().tolist() == [False, False]
        assert (tf.Variable([1.0]) * tf.constant([2])).dtype == tf.float64
        m = tf.reshape(tf.range(6), [2, 3])
        assert m.T.shape == [3, 2] and m.reshape(3, 2).shape == m.reshape((3, -1)).shape == [3, 2]
        assert m.astype(tf.float32).dtype == tf.float32 and m.ravel().shape == m.flatten().shape == [6]
        assert m.transpose(1, 0).shape == m.transpose((1, 0)).shape == [3, 2] and int(m.size) == 6
        assert m.max() == 5 and m.min() == 0 and m.mean() == 2.5 and m.clip(1, 2).numpy().max() == 2
        assert m.tolist() == [[0, 1, 2], [3, 4, 5]] and m.data is m
        assert m[:, [0, 2]].tolist() == [[0, 2], [3, 5]] and m[[1, 0], [2, -3]].tolist() == [5, 0]
        assert m[[True, False]].tolist() == [[0, 1, 2]] and m[m > 2].tolist() == [3, 4, 5]
        assert m[1, [0, 1]].tolist() == [3, 4]
        import numpy as np
        a = np.arange(120).reshape(2, 3, 4, 5)
        x, one = tf.constant(a), tf.constant(1)
        every = slice(None)
        keys = [((0, 1), (1, 2)), (every, (0, 1), (1, 2)), ((0, 1), every, (1, 2)), (one, [0, 1]), (range(2), one)]
        keys += [(every, one, [1, 2]), (Ellipsis, (0, 1)), (None, (0, 1)), (every, range(1, 3)), (one, one, (0, 3))]
        for key in keys:
            expected = a[tuple(int(part) if part is one else part for part in key)]
            assert x[key].tolist() == expected.tolist(), key
        with tf.GradientTape() as tape:
            tape.watch(f)
            y = (f * i).reshape(2, 1)[[0, 1, 1]]
        assert tape.gradient(y, f).dtype == tf.float32 and tape.gradient
    """,
    "all": """
        f, i, d = tf.constant([1.0]), tf.constant([3]), tf.constant([3.0], tf.float64)
        assert (f + i).dtype == tf.float32 and (i + 1.5).dtype == tf.float64 and (f + d).dtype == tf.float64
        half, brain = tf.cast(f, tf.float16), tf.cast(f, tf.bfloat16)
        assert (half + brain).dtype == tf.float32 and (half + i).dtype == tf.float16 and (half + 1).dtype == tf.float16
        assert (tf.constant([True]) + 1).dtype == tf.int32 and (f + 1j).dtype == tf.complex64
        assert (tf.cast(i, tf.uint8) + tf.cast(i, tf.int8)).dtype == tf.int16
    """,
    "safe": """
        f, i, d = tf.constant([1.0]), tf.constant([3]), tf.constant([3.0], tf.float64)
        assert (d + i).dtype == tf.float64 and (f + tf.cast(i, tf.int8)).dtype == tf.float32
        assert (f + 1).dtype == tf.float32
        for wrong in (lambda: f + i, lambda: i + 1.5, lambda: tf.cast(i, tf.uint8) + tf.cast(i, tf.int8),
                      lambda: f + 1j, lambda: tf.cast(i, tf.int64) + d,
                      lambda: tf.cast(f, tf.float16) + tf.cast(f, tf.bfloat16)):
            try:
                wrong()
            except TypeError as error:
                assert "In promotion mode PromoMode.SAFE, implicit dtype promotion between" in str(error)
            else:
                raise AssertionError
    """,
    "off": """
        try:
            tf.constant([1.0]) + tf.constant([3])
        except tf.errors.InvalidArgumentError:
            assert tf.constant([[1.0]]).T.shape == [1, 1]
        else:
            raise AssertionError
    """,
}


@pytest.mark.parametrize("mode", PROGRAMS)
def test_numpy_behavior(mode):
    enable = "tf.experimental.numpy.experimental_enable_numpy_behavior"
    program = f"import gradtape as tf\n{enable}(dtype_conversion_mode={mode!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", program + textwrap.dedent(PROGRAMS[mode])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_mode():
    with pytest.raises(ValueError, match="dtype_conversion_mode must be one of"):
        tf.experimental.numpy.experimental_enable_numpy_behavior(dtype_conversion_mode="some")
