"""Tensor: dtypes, operators, indexing, Python's protocols, and that a tensor never changes."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import re
import weakref

import ml_dtypes
import numpy as np
import pytest

import gradtape as tf

I = tf.errors.InvalidArgumentError  # noqa: E741
c = tf.constant


# -- creation --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "int32"),
        (2**31 - 1, "int32"),
        (2**31, "int64"),
        (-(2**31) - 1, "int64"),
        ([1, 2**40], "int64"),
        (1.0, "float32"),
        (True, "bool"),
        ("a", "string"),
        (b"a", "string"),
        (["a", b"b"], "string"),
        (1j, "complex128"),
        ([1, 2.5], "float32"),
        ([], "float32"),
        ([[], []], "float32"),
        (range(3), "int32"),
        (np.float64(1), "float64"),
        (np.int64(1), "int64"),
        (np.arange(3), "int64"),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16"),
        ([np.float64(1)], "float64"),
        ([np.float32(1), np.float32(2)], "float32"),
        (np.array(["x", "yz"]), "string"),
        ((1, 2), "int32"),
        ([(1.0,), [2.0]], "float32"),
    ],
)
def test_dtypes_of_values(value, dtype):
    assert c(value).dtype == dtype
    assert tf.convert_to_tensor(value).dtype == dtype


MIXED = "Can't convert Python sequence with mixed types to Tensor."
RAGGED = "Can't convert non-rectangular Python sequence to Tensor."
UNSUPPORTED = "Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor."


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda: c([True, 1]), ValueError, MIXED),
        (lambda: c([1, "a"]), ValueError, MIXED),
        (lambda: c([1, 1j]), ValueError, MIXED),
        (lambda: c([[1.0], [1.0, 2.0]]), ValueError, RAGGED),
        (lambda: c([1.0, [2.0]]), ValueError, MIXED),
        (lambda: c([[1.0], 2.0]), ValueError, RAGGED),
        (lambda: c(None), ValueError, UNSUPPORTED),
        (lambda: c([None, 1.0]), ValueError, UNSUPPORTED),
        (lambda: c(object()), ValueError, "with an unsupported type (<class 'object'>) to a Tensor."),
        (lambda: c(2**63), ValueError, "Can't convert Python sequence with out-of-range integer to Tensor."),
        (lambda: c(1.0, tf.int32), TypeError, "Cannot convert 1.0 to EagerTensor of dtype int32"),
        (lambda: c(1, tf.bool), TypeError, "Cannot convert 1 to EagerTensor of dtype bool"),
        (lambda: c("a", tf.float32), TypeError, "Cannot convert 'a' to EagerTensor of dtype float"),
        (lambda: c(1j, tf.float32), TypeError, "Cannot convert"),
        (lambda: c(True, tf.uint8), TypeError, "Cannot convert True to EagerTensor of dtype uint8"),
        (lambda: c(2**63, tf.uint8), ValueError, "Can't convert Python sequence with out-of-range integer to Tensor."),
        (lambda: c([2**64], tf.uint64), ValueError, "Can't convert Python sequence with out-of-range integer"),
        (lambda: c(c(1.0), tf.float64), TypeError, "with dtype tf.float64, but got dtype tf.float32."),
        (lambda: c([1.0, 2.0], shape=[3]), TypeError, "has 2 elements, but got `shape` (3,) with 3 elements"),
        (lambda: tf.convert_to_tensor(c(1.0), tf.float64), ValueError,
         "Tensor conversion requested dtype float64 for Tensor with dtype float32"),
        (lambda: tf.convert_to_tensor([c(1.0), c(1)]), (ValueError, TypeError, I), None),
    ],
)  # fmt: skip
def test_what_cannot_be_made_a_tensor(make, kind, sentence):
    with pytest.raises(kind, match=None if sentence is None else re.escape(sentence)):
        make()


def test_dtypes_asked_for():
    assert c(True, tf.float32).numpy() == 1.0
    assert c(np.array([1.5, 2.7]), tf.int32).numpy().tolist() == [1, 2]
    assert c([1, 2], "float16").dtype == tf.float16
    assert c(1.0, shape=[2, 2]).numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert c([1.0, 2.0, 3.0, 4.0], shape=[2, 2]).shape == (2, 2)
    assert tf.convert_to_tensor([1, 2], dtype_hint=tf.float32).dtype == tf.float32
    assert tf.convert_to_tensor([1.5], dtype_hint=tf.int32).dtype == tf.float32
    assert c([], tf.int32).dtype == tf.int32


def test_lists_with_tensors_are_packed():
    x, v = c(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        packed = tf.convert_to_tensor([[x, 1], [v, x]])
        y = tf.reduce_sum(packed * packed)
    assert packed.numpy().tolist() == [[2.0, 1.0], [3.0, 2.0]]
    assert [float(g) for g in tape.gradient(y, [x, v])] == [8.0, 6.0]


def test_array_likes():
    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.array([1.0, 2.0], np.float32)

    assert c(Like()).numpy().tolist() == [1.0, 2.0]
    assert (c([1.0, 1.0]) + Like()).numpy().tolist() == [2.0, 3.0]
    assert c(tf.TensorShape([2, 3])).numpy().tolist() == [2, 3]


# -- a tensor never changes ------------------------------------------------------------------------
@pytest.mark.parametrize("make", [tf.constant, tf.convert_to_tensor, tf.identity, tf.cast, tf.Variable])
@pytest.mark.parametrize("size", [4, 100_000])
def test_arrays_handed_in_are_copied(make, size):
    array = np.ones(size, np.float32)
    t = make(array, tf.float32) if make is tf.cast else make(array)
    array[:] = 7.0
    assert np.asarray(t).sum() == size


@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.truediv])
def test_an_operand_array_is_copied_for_the_tape(op):
    array = np.array([2.0, 2.0], np.float32)
    x = c([3.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = op(x, array)
    value = y.numpy().tolist()
    array[:] = 100.0
    assert y.numpy().tolist() == value
    expected = {operator.add: 1.0, operator.mul: 2.0, operator.truediv: 0.5}[op]
    assert tape.gradient(y, x).numpy().tolist() == [expected, expected]


OUT = {
    "numpy": lambda t: t.numpy(),
    "np.array": np.array,
    "np.asarray": np.asarray,
    "__array__": lambda t: t.__array__(),
    "dlpack": np.from_dlpack,
    "memoryview": lambda t: np.asarray(memoryview(t)),
    "frombuffer": lambda t: np.frombuffer(t, t.dtype.as_numpy_dtype).reshape(t.shape),
}
MADE = {
    "constant": lambda x: c(x.numpy()),
    "product": lambda x: x * 2.0,
    "identity": tf.identity,
    "reshape": lambda x: tf.reshape(x, [2, -1]),
    "slice": lambda x: x[1:],
    "reversed slice": lambda x: x[::-1],
    "transpose": lambda x: tf.transpose(tf.reshape(x, [2, -1])),
    "expand_dims": lambda x: x[None],
    "stop_gradient": tf.stop_gradient,
    "broadcast": lambda x: tf.broadcast_to(x, [2, *x.shape]),
    "split": lambda x: tf.split(x, 2)[0],
    "unstack": lambda x: tf.unstack(tf.reshape(x, [2, -1]))[1],
    "relu": tf.nn.relu,
    "cast": lambda x: tf.cast(x, tf.float32),
    "squeeze": lambda x: tf.squeeze(x[None]),
}


@pytest.mark.parametrize("size", [4, 1000, 100_000])
def test_a_buffer_lasts_as_long_as_the_array_in_it(size):
    """NumPy gives a buffer back where a class does not say that it needs to be released: its memory is used again."""
    x = c(np.arange(size, dtype=np.float32))
    for _ in range(20):
        array = np.frombuffer(x, np.float32)
        others = [np.full(size, -1.0, np.float32) for _ in range(5)]
        np.testing.assert_array_equal(array, np.arange(size, dtype=np.float32))
        assert len(others) == 5


@pytest.mark.parametrize("out", OUT)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("size", [4, 100_000])
def test_arrays_handed_out_cannot_reach_back(out, made, size):
    """The larger size is beyond the one from which a dying tensor may hand its array over without a copy."""
    x = c(np.arange(size, dtype=np.float32))
    t = MADE[made](x)
    x_before, t_before = x.numpy().copy(), np.array(t)
    for _ in range(2):
        array = OUT[out](t)
        if array.flags.writeable:
            array[...] = -1.0
    direct = OUT[out](MADE[made](x))  # of a tensor that nobody else holds
    np.testing.assert_array_equal(direct, t_before)
    if direct.flags.writeable:
        direct[...] = -2.0
    np.testing.assert_array_equal(x.numpy(), x_before)
    np.testing.assert_array_equal(np.array(t), t_before)


def test_handed_out_arrays_cannot_reach_what_a_tape_keeps():
    x = tf.Variable(np.linspace(0, 1, 100_000, dtype=np.float32))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.exp(x)
        z = y * y
        tf.exp(x).numpy()[...] = 0.0
        tf.identity(y).numpy()[...] = 0.0
    expected = tape.gradient(z, x).numpy().copy()
    tape.gradient(z, x).numpy()[...] = 0.0
    tape.gradient(z, y).numpy()[...] = 0.0
    tape.gradient(y, y).numpy()[...] = 0.0
    x.value().numpy()[...] = 0.0
    x.numpy()[...] = 0.0
    y.numpy()[...] = 0.0
    np.testing.assert_array_equal(tape.gradient(z, x).numpy(), expected)
    assert float(x[-1]) == 1.0


def test_seeds_are_not_handed_out():
    seed, x = c(np.full(100_000, 2.0, np.float32)), c(np.ones(100_000, np.float32))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x + 1.0
    for target in (x, y):
        tape.gradient(target, x, output_gradients=seed).numpy()[...] = 0.0
        assert float(seed[0]) == 2.0


def test_a_bound_method_gives_the_same_array_twice_unharmed():
    numpy = (c(np.ones(100_000, np.float32)) * 2.0).numpy
    first = numpy()
    first[...] = 0.0
    assert numpy()[0] == 2.0


def test_items_cannot_be_set():
    t = c([1.0, 2.0])
    with pytest.raises(TypeError, match="object does not support item assignment"):
        t[0] = 1.0
    with pytest.raises(ValueError, match="copy"):
        t.__array__(copy=False)


# -- operators: dtypes -----------------------------------------------------------------------------
NUMBER = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
          "mod": operator.mod, "pow": operator.pow}  # fmt: skip
ORDER = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
EQUAL = {"eq": operator.eq, "ne": operator.ne}
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"]


@pytest.mark.parametrize("name", [*NUMBER, *ORDER, *EQUAL])
@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_agree_with_numpy(name, dtype):
    function = (NUMBER | ORDER | EQUAL)[name]
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    a, b = np.array([5, 3, 7]).astype(numpy_dtype), np.array([2, 3, 1]).astype(numpy_dtype)
    expected = function(a, b)
    for x, y in itertools.product((c(a), tf.Variable(a)), (c(b), tf.Variable(b), b)):
        found = function(x, y)
        assert isinstance(found, tf.Tensor)
        assert found.dtype == ("bool" if name not in NUMBER else dtype)
        assert found.numpy().tolist() == expected.tolist()
    found = function(a, c(b))
    assert isinstance(found, tf.Tensor)
    assert found.numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("name", [*NUMBER, *ORDER, "truediv"])
@pytest.mark.parametrize("other", ["int32", "int64", "float64", "float16"])
def test_tensors_of_two_dtypes_do_not_mix(name, other):
    function = (NUMBER | ORDER | {"truediv": operator.truediv})[name]
    x, y = c([1.0, 2.0]), c(np.array([1, 2]).astype(other))
    word = {"int32": "int32", "int64": "int64", "float64": "double", "float16": "half"}[other]
    sentence = f"as input #1(zero-based) was expected to be a float tensor but is a {word} tensor"
    kinds = (I, TypeError) if name == "truediv" else I
    with pytest.raises(kinds) as error:
        function(x, y)
    if isinstance(error.value, I):
        assert sentence in str(error.value)
    for pair in ((tf.Variable(x), y), (x, tf.Variable(y))):
        with pytest.raises(kinds):
            function(*pair)


def test_the_sentence_names_the_op():
    with pytest.raises(I) as error:
        c([1.0]) + c([1])
    sentence = "cannot compute AddV2 as input #1(zero-based) was expected to be a float tensor but is a int32 tensor"
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith("[Op:AddV2]")
    assert error.value.error_code == 3


@pytest.mark.parametrize(
    "other", [2, 2.0, True, [2, 2], np.array([2.0, 2.0]), np.array([2, 2]), np.float64(2), np.int64(2)]
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_plain_operands_take_the_tensors_dtype(other, dtype):
    t = tf.cast(c([3.0, 4.0]), dtype)
    for function in (operator.add, operator.mul, operator.sub, operator.truediv):
        for pair in ((t, other), (other, t)):
            if other is True and dtype == "bfloat16":  # TensorFlow has no conversion from bool to bfloat16
                with pytest.raises((TypeError, I)):
                    function(*pair)
                continue
            found = function(*pair)
            assert isinstance(found, tf.Tensor)
            assert found.dtype == dtype


def test_integers_beside_plain_numbers():
    t = c([1, 2])
    assert (t * True).numpy().tolist() == [1, 2]
    assert (t * np.float64(2.5)).numpy().tolist() == [2, 4]  # sic: NumPy values are cast
    assert (t * np.array([2.5, 2.5])).dtype == tf.int32
    for function in (operator.sub, operator.mul, operator.lt, operator.floordiv, operator.pow, operator.eq):
        with pytest.raises(TypeError, match=re.escape("Cannot convert 1.5 to EagerTensor of dtype int32")):
            function(t, 1.5)
    with pytest.raises((I, TypeError)):
        t + 1.5
    with pytest.raises(TypeError):
        t / 1.5


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int8", "float32"), ("uint8", "float32"), ("int16", "float32"), ("int32", "float64"), ("int64", "float64")],
)
def test_true_division_of_integers(dtype, expected):
    x, y = c([3, 1], dtype), c([2, 0], dtype)
    found = x / y
    assert found.dtype == expected
    assert found.numpy().tolist() == [1.5, np.inf]


def test_integers_divided_by_zero():
    for function in (operator.floordiv, operator.mod):
        with pytest.raises(I, match="Integer division by zero"):
            function(c([1, 2]), c([1, 0]))
        assert np.isnan(float(operator.mod(c(1.0), c(0.0))))
    with pytest.raises(I, match="Integers to negative integer powers are not allowed"):
        c([2]) ** c([-1])


def test_floor_semantics_and_overflow():
    assert (c(-3) // 2).numpy() == -2
    assert (c(-3) % 2).numpy() == 1
    assert (c(-3.0) // 2.0).numpy() == -2.0
    assert (c(-3.0) % 2.0).numpy() == 1.0
    assert tf.truncatemod(c(-3), c(2)).numpy() == -1
    assert (c(2**31 - 1) + 1).numpy() == -(2**31)


def test_words_and_truth():
    assert (c("ab") + c("cd")).numpy() == b"abcd"
    assert (c("ab\0") + "c\0").numpy() == b"ab\0c\0"
    assert ("x" + c(["a", "b"])).numpy().tolist() == [b"xa", b"xb"]
    assert (c("a") == "a").numpy()
    with pytest.raises(I, match="Value for attr 'T' of bool is not in the list of allowed values"):
        c(True) + c(True)
    yes, no = c([True, True]), c([True, False])
    assert (yes & no).numpy().tolist() == [True, False]
    assert (yes | no).numpy().tolist() == [True, True]
    assert (yes ^ no).numpy().tolist() == [False, True]
    assert (~no).numpy().tolist() == [False, True]
    assert (c([6]) & c([3])).numpy().tolist() == [2]
    assert (c([6]) | 1).numpy().tolist() == [7]
    assert (6 ^ c([3])).numpy().tolist() == [5]
    assert (~c([6])).numpy().tolist() == [-7]
    for function in (operator.and_, operator.or_, operator.xor):
        with pytest.raises((I, TypeError)):
            function(c([1.0]), c([1.0]))
    with pytest.raises((I, TypeError)):
        ~c([1.0])


def test_operators_that_do_not_exist():
    x = c([1.0])
    for function in (operator.pos, lambda x: divmod(x, 2.0), lambda x: x << 1, lambda x: x >> 1):
        with pytest.raises(TypeError):
            function(x)
    with pytest.raises(AttributeError, match="astype"):
        round(x)
    for function in (operator.add, operator.mul, operator.matmul, operator.lt):
        with pytest.raises((TypeError, ValueError)):
            function(x, object())


def test_a_foreign_operand_may_take_over():
    class Foreign:
        def __radd__(self, other):
            return "foreign"

        def __rmatmul__(self, other):
            return "foreign"

    assert c([1.0]) + Foreign() == "foreign"
    assert tf.Variable([1.0]) + Foreign() == "foreign"
    assert c([[1.0]]) @ Foreign() == "foreign"


def test_shapes_that_do_not_fit():
    with pytest.raises(I, match=re.escape("Incompatible shapes: [2] vs. [3] [Op:AddV2]")):
        c([1.0, 2.0]) + c([1.0, 2.0, 3.0])
    with pytest.raises(I, match=re.escape("Incompatible shapes: [2] vs. [3] [Op:Mul]")):
        c([1.0, 2.0]) * [1.0, 2.0, 3.0]
    with pytest.raises(I, match=re.escape("In[0] and In[1] ndims must be == 2: 1")):
        c([1.0]) @ c([1.0])
    with pytest.raises(I, match=re.escape("Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]")):
        tf.ones([2, 3]) @ tf.ones([2, 3])


def test_equality():
    x = c([1.0, 2.0])
    assert (x == c([1.0, 3.0])).numpy().tolist() == [True, False]
    assert (x != [1.0, 3.0]).numpy().tolist() == [False, True]
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    assert (x == c([1.0, 2.0, 3.0])).numpy() is np.False_
    assert (x != c([1.0, 2.0, 3.0])).numpy() is np.True_
    with pytest.raises(I):
        _ = x == c([1, 2])
    with pytest.raises(TypeError):
        _ = x == "a"


def test_unary_operators():
    assert (-c([1.0, -2.0])).numpy().tolist() == [-1.0, 2.0]
    assert abs(c([1, -2])).numpy().tolist() == [1, 2]
    assert abs(c(3 + 4j)).numpy() == 5.0


def test_numpy_functions_give_arrays_and_end_the_path():
    x = c([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(c(np.exp(x)) * 2.0)
        z = np.array([3.0, 4.0]) * x * np.float32(2)
    assert isinstance(np.exp(x), np.ndarray)
    assert isinstance(np.sum(x), np.generic)
    assert isinstance(z, tf.Tensor)
    assert tape.gradient([y, z], x).numpy().tolist() == [6.0, 8.0]


# -- indexing --------------------------------------------------------------------------------------
ARRAY = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
INDICES = [
    0, -1, (0, 1), (1, 2, 3), slice(None), slice(1, None), slice(None, None, -1), slice(5, 10), slice(-1, 100),
    (slice(None), slice(2, 0, -1)), Ellipsis, (Ellipsis, 0), (0, Ellipsis), (1, Ellipsis, slice(None, None, 2)),
    None, (None, 0), (slice(None), None), (Ellipsis, None), np.int64(1), (slice(0, 0),), (0, slice(None), -1),
    (slice(None, None, 2), slice(None, None, -2), slice(3, None, -3)), (),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys_with_its_gradient(index):
    x = c(ARRAY)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x[index]
    np.testing.assert_array_equal(y.numpy(), ARRAY[index])
    expected = np.zeros_like(ARRAY)
    expected[index] = 1.0
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), expected)


def test_indices_that_are_tensors():
    x = c(ARRAY)
    for index in (c(1), c(1, tf.int64), np.array(1), tf.Variable(1)):
        np.testing.assert_array_equal(x[index].numpy(), ARRAY[1])
        np.testing.assert_array_equal(x[:, index, 0:index].numpy(), ARRAY[:, 1, 0:1])
    mask = ARRAY[:, :, 0] > 4
    for m in (mask, c(mask)):
        np.testing.assert_array_equal(x[m].numpy(), ARRAY[mask])
    assert np.array_equal(x[[0, 1]].numpy(), ARRAY[0, 1])  # sic: a list is a tuple


BAD_INDEX = "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors"


@pytest.mark.parametrize(
    ("index", "kind", "sentence"),
    [
        (5, I, "slice index 5 of dimension 0 out of bounds."),
        (-3, I, "slice index -1 of dimension 0 out of bounds."),
        ((0, 3), I, "slice index 3 of dimension 1 out of bounds."),
        ((0, 0, 0, 0), I, "Index out of range using input dim 3; input has only 3 dims"),
        (slice(None, None, 0), I, "strides[0] must be non-zero"),
        ((Ellipsis, Ellipsis), I, "Multiple ellipses"),
        (1.0, TypeError, BAD_INDEX),
        (c(1.0), TypeError, BAD_INDEX),
        (c([0, 1]), TypeError, BAD_INDEX),
        (np.array([0, 1]), TypeError, BAD_INDEX),
        ("a", TypeError, BAD_INDEX),
        (slice(0.0, 1.0), TypeError, BAD_INDEX),
        (True, TypeError, BAD_INDEX),
    ],
)
def test_indices_that_are_refused(index, kind, sentence):
    for x in (c(ARRAY), tf.Variable(ARRAY)):
        with pytest.raises(kind, match=re.escape(sentence)):
            x[index]


def test_masks_of_the_wrong_shape():
    with pytest.raises(ValueError, match="incompatible"):
        c(ARRAY)[c([True, False, True])]


# -- Python's protocols ----------------------------------------------------------------------------
def test_length_and_iteration():
    x = c([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2
    assert len(tf.zeros([0, 3])) == 0
    assert [row.numpy().tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert list(tf.zeros([0, 3])) == []
    with tf.GradientTape() as tape:
        tape.watch(x)
        a, b = x
        y = a * b
    assert tape.gradient(y, x).numpy().tolist() == [[3.0, 4.0], [1.0, 2.0]]
    with pytest.raises(TypeError, match=re.escape("Scalar tensor has no `len()`")):
        len(c(1.0))
    with pytest.raises(TypeError, match=r"Cannot iterate over a scalar tensor\."):
        iter(c(1.0))


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        (1.0, True),
        (0.0, False),
        ([[3]], True),
        ([0], False),
        ([], False),
        ("", False),
        ("a", True),
        (True, True),
        (0j, False),
    ],
)
def test_truth(value, truth):
    assert bool(c(value)) is truth


def test_truth_of_several_values():
    with pytest.raises(ValueError, match=re.escape(
        "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
    )):  # fmt: skip
        bool(c([1.0, 2.0]))


def test_numbers():
    assert float(c(1.5)) == 1.5
    assert int(c(2.7)) == 2
    assert complex(c(1 + 2j)) == 1 + 2j
    assert list(range(c(3))) == [0, 1, 2]
    assert [10, 20, 30][c(1)] == 20
    for convert in (float, int, complex):
        for value in ([1.0], [1.0, 2.0]):
            with pytest.raises(TypeError, match="only 0-dimensional arrays can be converted to Python scalars"):
                convert(c(value))
    for value in (c(1.0), c([1]), c(True)):
        with pytest.raises(TypeError):
            operator.index(value)


def test_text():
    x = c([1.0, 2.0])
    assert repr(x) == "<tf.Tensor: shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    assert str(x) == "tf.Tensor([1. 2.], shape=(2,), dtype=float32)"
    assert repr(c(3)) == "<tf.Tensor: shape=(), dtype=int32, numpy=3>"
    assert str(c(3)) == "tf.Tensor(3, shape=(), dtype=int32)"
    assert repr(c("a")) == "<tf.Tensor: shape=(), dtype=string, numpy=b'a'>"
    assert repr(c(True)) == "<tf.Tensor: shape=(), dtype=bool, numpy=True>"
    assert str(tf.zeros([2, 0])) == "tf.Tensor([], shape=(2, 0), dtype=float32)"
    assert f"{c(3.14159):.2f}" == "3.14"
    assert f"{c(7):03d}" == "007"
    assert "%.1f" % c(2.25) == "2.2"  # noqa: UP031
    assert f"{c(0.5):>6}|{c(7):<6d}|{c(1)!s}" == "   0.5|7     |tf.Tensor(1, shape=(), dtype=int32)"
    assert (
        f"{tf.Variable([1.0, 2.0])[0]} {tf.Variable(2)}"
        == "1.0 <tf.Variable 'Variable:0' shape=() dtype=int32, numpy=2>"
    )
    for text in ("{:.2f}", "{:>5}", "{:s}"):
        with pytest.raises(TypeError, match=r"unsupported format string passed to numpy\.ndarray\.__format__"):
            text.format(x)
    with pytest.raises(TypeError, match=r"unsupported format string passed to bytes\.__format__"):
        f"{c('a'):>5}"


# Recorded from TensorFlow 2.21: `f"{x}"`, the value in `str(x)`, the value in `repr(x)`.
TEXTS = [
    (c(0.5), "0.5", "0.5", "0.5"),
    (c(1 / 3), "0.3333333432674408", "0.33333334", "0.3333333432674408"),
    (c(0.1, tf.float64), "0.1", "0.1", "0.1"),
    (c(0.1, tf.float16), "0.0999755859375", "0.1", "0.0999755859375"),
    (c(0.1, tf.bfloat16), "0.10009765625", "0.100098", "0.10009765625"),
    (c(1e20), "1.0000000200408773e+20", "1e+20", "1.0000000200408773e+20"),
    (c(-np.inf), "-inf", "-inf", "-inf"),
    (c(7), "7", "7", "7"),
    (c(True), "True", "True", "True"),
    (c(1 + 2j, tf.complex64), "(1+2j)", "(1+2j)", "(1+2j)"),
    (c("a\nb é"), "b'a\\nb \\xc3\\xa9'", "b'a\\nb \\xc3\\xa9'", "b'a\\nb \\xc3\\xa9'"),
    (c([1.0, 2.0]), "[1. 2.]", "[1. 2.]", "array([1., 2.], dtype=float32)"),
    (c([], tf.float32), "[]", "[]", "array([], dtype=float32)"),
    (c([[True]]), "[[ True]]", "[[ True]]", "array([[ True]])"),
    (c(["ab", "c"]), "[b'ab' b'c']", "[b'ab' b'c']", "array([b'ab', b'c'], dtype=object)"),
    (c([[1, 2], [3, 4]]), "[[1 2]\n [3 4]]", "\n[[1 2]\n [3 4]]", "\narray([[1, 2],\n       [3, 4]], dtype=int32)"),
]  # fmt: skip


@pytest.mark.parametrize(("x", "formatted", "value", "written"), TEXTS)
def test_text_of_values(x, formatted, value, written):
    kind = f"shape={x.shape}, dtype={x.dtype.name}"
    assert f"{x}" == "{}".format(x) == formatted  # noqa: UP032
    assert str(x) == f"tf.Tensor({value}, {kind})"
    assert repr(x) == f"<tf.Tensor: {kind}, numpy={written}>"


def test_text_of_parts():
    """A line of text within another one holds the whole text of tensors, not only their values."""
    parts = "indices=tf.Tensor([0], shape=(1,), dtype=int32), values=tf.Tensor([2.], shape=(1,), dtype=float32)"
    assert f"{tf.IndexedSlices(c([2.0]), c([0]))}" == f"IndexedSlices({parts})"
    sparse = tf.SparseTensor([[1]], [2.0], [3])
    assert f"{sparse}" == (
        "SparseTensor(indices=tf.Tensor([[1]], shape=(1, 1), dtype=int64), "
        "values=tf.Tensor([2.], shape=(1,), dtype=float32), dense_shape=tf.Tensor([3], shape=(1,), dtype=int64))"
    )


def test_text_while_tracing():
    texts = []

    @tf.function
    def f(x, y):
        z = y + x + x
        texts.extend([f"{x}", str(z), repr(y)])
        with pytest.raises(TypeError, match="unsupported format string passed to"):
            f"{z:.3f}"
        return z

    f.get_concrete_function(tf.TensorSpec([None, 2]), tf.TensorSpec([]))
    assert texts == [
        'Tensor("x:0", shape=(None, 2), dtype=float32)',
        'Tensor("add_1:0", shape=(None, 2), dtype=float32)',
        "<tf.Tensor 'y:0' shape=() dtype=float32>",
    ]


def test_identity_and_hash():
    x, y = c([1.0]), c([1.0])
    with pytest.raises(TypeError, match=r"Tensor is unhashable\. Instead, use tensor\.ref\(\) as the key\."):
        hash(x)
    assert {x.ref(): 1, y.ref(): 2}[x.ref()] == 1
    assert x.ref() == x.ref()
    assert x.ref() != y.ref()
    assert x.ref().deref() is x
    assert repr(x.ref()).startswith("<Reference wrapping <tf.Tensor")
    with pytest.raises(TypeError, match="Cannot compare wrapped object with unwrapped object"):
        _ = x.ref() == 3


def test_copies_and_pickles():
    x = c([1.0, 2.0])
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    assert copy.deepcopy({"x": [x]})["x"][0] is x
    for value in ([1.0, 2.0], 3, "text", ["a", "b"], True, 1 + 2j, np.ones(2, ml_dtypes.bfloat16)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            twin = pickle.loads(pickle.dumps(c(value), protocol))
            assert twin.dtype == c(value).dtype
            assert np.array_equal(twin.numpy(), c(value).numpy())
    assert pickle.loads(pickle.dumps(x)).uid != x.uid


def test_attributes_and_weak_references():
    x = c([1.0, 2.0])
    x.note = "mine"
    assert x.note == "mine"
    ref = weakref.ref(x)
    assert ref() is x
    del x
    assert ref() is None


def test_what_a_tensor_is():
    x = c([[1.0, 2.0]])
    assert x.shape == (1, 2)
    assert isinstance(x.shape, tf.TensorShape)
    assert x.get_shape() == x.shape
    assert x.ndim == 2
    assert x.dtype is tf.float32
    assert "CPU" in x.device
    x.set_shape([None, 2])
    with pytest.raises(ValueError, match="not compatible"):
        x.set_shape([3, 2])


@pytest.mark.parametrize("name", ["T", "size", "astype", "reshape", "ravel", "tolist", "clip", "data"])
def test_numpys_attributes_point_elsewhere(name):
    with pytest.raises(AttributeError, match=f"'{name}'"):
        getattr(c([1.0]), name)


@pytest.mark.parametrize("name", ["name", "op", "graph"])
def test_attributes_of_graphs(name):
    with pytest.raises(AttributeError, match=f"Tensor.{name} is undefined when eager execution is enabled"):
        getattr(c([1.0]), name)


def test_what_tensors_do_not_have_is_not_listed():
    x = c([1.0])
    listed = dir(x)
    assert {"numpy", "shape", "__add__"} <= set(listed)
    assert all(hasattr(x, name) for name in listed)


@pytest.mark.parametrize("name", ["item", "mean", "nothing", "__wrapped__"])
def test_other_attributes_do_not_exist(name):
    assert not hasattr(c([1.0]), name)


def test_numpy_values():
    assert isinstance(c([1.0]).numpy(), np.ndarray)
    assert isinstance(c(1.0).numpy(), np.float32)
    assert c("a").numpy() == b"a"
    assert c(["a"]).numpy().dtype == object
    assert np.asarray(c([1.5]), dtype=np.float64).dtype == np.float64
    assert c(1.0, tf.bfloat16).numpy().dtype == ml_dtypes.bfloat16


def test_dlpack():
    x = c([1.0, 2.0])
    assert np.from_dlpack(x).tolist() == [1.0, 2.0]
    assert x.__dlpack_device__() == (1, 0)

    class Foreign:
        def __dlpack__(self, **options):
            return np.array([3.0, 4.0], np.float32).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert c(Foreign()).numpy().tolist() == [3.0, 4.0]


# -- a few functions of tensors --------------------------------------------------------------------
def test_empty_reductions():
    empty = tf.zeros([0])
    assert tf.reduce_max(empty).numpy() == -np.inf
    assert tf.reduce_min(empty).numpy() == np.inf
    assert tf.reduce_sum(empty).numpy() == 0.0
    assert np.isnan(tf.reduce_mean(empty).numpy())
    assert tf.reduce_prod(empty).numpy() == 1.0


def test_casts():
    assert tf.cast(c([1.7, -1.7]), tf.int32).numpy().tolist() == [1, -1]
    x = c([1.0])
    assert tf.cast(x, tf.float32) is x
    assert tf.cast(c(3), tf.bool).numpy()
    for source, target in itertools.product(["float16", "float32", "float64", "bfloat16"], repeat=2):
        y = tf.cast(c([1.5, 2.0]), source)
        with tf.GradientTape() as tape:
            tape.watch(y)
            z = tf.cast(y, target) * 2.0
        g = tape.gradient(z, y)
        assert g.dtype == source
        assert g.numpy().astype(float).tolist() == [2.0, 2.0]


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_casts_to_integers_saturate(source, target):
    kind = tf.as_dtype(target)
    inf = float("inf")
    assert tf.cast(c([inf, -inf, float("nan"), 7.9, -0.9], source), kind).numpy().tolist() == [
        kind.max, kind.min, 0, 7, 0]  # fmt: skip
    for value in (300.0, -300.0, 6e4, 3e9, -3e9, 1e19, 2e19, -1e19, 2.0**31, 2.0**63, 2.0**64, -(2.0**63), 1e30):
        x = c(value, source)
        real = float(tf.cast(x, tf.float64))
        expected = kind.max if real > kind.max else kind.min if real < kind.min else int(real)
        assert int(tf.cast(x, kind)) == expected


def test_casts_between_integers_wrap():
    assert tf.cast(c([300, -1, 2**31 - 1]), tf.uint8).numpy().tolist() == [44, 255, 255]
    assert tf.cast(c([300, -1, 200]), tf.int8).numpy().tolist() == [44, -1, -56]
    assert tf.cast(c([-1, -(2**63)], tf.int64), tf.uint64).numpy().tolist() == [2**64 - 1, 2**63]


def test_casts_to_other_kinds():
    nan, inf = float("nan"), float("inf")
    assert tf.cast(c([nan, inf, 0.0, -0.0, 0.3]), tf.bool).numpy().tolist() == [True, True, False, False, True]
    assert tf.cast(c([0.3j, 0j, nan + 0j]), tf.bool).numpy().tolist() == [False, False, True]
    assert tf.cast(c([1e30, -1e30, 65519.0], tf.float64), tf.float16).numpy().tolist() == [inf, -inf, 65504.0]
    assert tf.cast(c([1.5 + 2j]), tf.float32).numpy().tolist() == [1.5]


# What TensorFlow gives, but for NaN (0 here) and 64 bits (where it wraps at the upper end).
SATURATED = [
    ([1e30, -1e30, 300.0, 1.5], "float32", "uint8", [255, 0, 255, 1]),
    ([1e30, -1e30, 40000.0], "float32", "int16", [32767, -32768, 32767]),
    ([3e9, -3e9, 1e20, float("inf"), float("-inf")], "float32", "int32",
     [2147483520, -(2**31), 2147483520, 2147483520, -(2**31)]),
    ([3e9, -3e9], "float64", "int32", [2**31 - 1, -(2**31)]),
    ([1e30, -1.0], "float32", "uint32", [4294967040, 0]),
    ([65504.0, -65504.0, 40000.0], "float16", "int16", [32752, -32768, 32752]),
    ([65504.0, -1.0], "float16", "uint16", [65504, 0]),
    ([1e30, -1e30, 300.0], "bfloat16", "int8", [127, -128, 127]),
    ([1e30, -1e30], "bfloat16", "uint16", [65280, 0]),
    ([1e30, -1e30], "float32", "int64", [9223371487098961920, -(2**63)]),
    ([1e30, -1e30, float("inf"), 1.5], "float32", "float16", [65504.0, -65504.0, 65504.0, 1.5]),
    ([float("inf"), 1e300], "float64", "float32", [float(np.finfo(np.float32).max)] * 2),
    ([float("inf")], "float32", "float32", [float(np.finfo(np.float32).max)]),
    ([300 + 1j, -1.0], "complex64", "uint8", [255, 0]),
    ([1e300 + 2j], "complex128", "complex64", [complex(np.finfo(np.float32).max, 2)]),
    ([1e300], "float64", "complex64", [complex(np.finfo(np.float32).max)]),
    ([1 + 2j, float("inf")], "complex64", "complex128", [1 + 2j, complex(float("inf"))]),
    ([300, -1, 7], "int32", "uint8", [255, 0, 7]),
    ([2**63 - 1, -(2**63), 1], "int64", "int64", [2**63 - 1, -(2**63), 1]),
    ([2**64 - 1, 5], "uint64", "int8", [127, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "source", "target", "expected"), SATURATED)
def test_saturate_cast(values, source, target, expected):
    result = tf.saturate_cast(c(values, source), target)
    assert result.dtype == target
    assert result.numpy().tolist() == expected


def test_saturate_cast_refuses_booleans_and_keeps_gradients():
    with pytest.raises(TypeError, match="Cannot find minimum value of <dtype: 'bool'>"):
        tf.saturate_cast(c([1.0]), tf.bool)
    x = c([1e6, -5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.saturate_cast(x, tf.float16)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300, "uint8", 44),
        (-1, "uint8", 255),
        ([[300], [2]], "int8", [[44], [2]]),
        (2**40, "int32", 0),
        (-1, "uint32", 2**32 - 1),
        (-(2**63), "uint8", 0),
    ],
)
def test_python_integers_wrap(value, dtype, expected):
    assert c(value, dtype).numpy().tolist() == expected
    assert tf.convert_to_tensor(value, dtype).numpy().tolist() == expected
    assert (tf.zeros_like(c(value, dtype)) + value).numpy().tolist() == expected
    assert tf.Variable(value, dtype=dtype).numpy().tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1.0, 2.0], None, "float32"),
        ([[1.0, np.nan], [np.inf, -np.inf]], None, "float32"),
        ([1e39, 1.0], tf.float64, "float64"),
        ([1e39, 1.0], tf.float32, "float32"),
        ([[[1], [2]], [[3], [4]]], None, "int32"),
        ([2**31 - 1, -(2**31)], None, "int32"),
        ([2**31, 1], None, "int64"),
        ([-(2**31) - 1, 1], None, "int64"),
        ([1, 2], tf.float32, "float32"),
        ([2**24 + 1, 2], tf.float32, "float32"),
        ([2**40, 2], tf.float64, "float64"),
        ([1, 2], tf.uint8, "uint8"),
        ([1, 2], tf.complex64, "complex64"),
        ([1, 2.5], None, "float32"),
        ([True, False], None, "bool"),
        ([[True], [False]], tf.bool, "bool"),
        ([[[[[1.0]]]], [[[[2.0]]]]], None, "float32"),
        ([(1, 2), (3, 4)], None, "int32"),
        ([[], []], None, "float32"),
    ],
)
def test_lists_of_numbers(value, dtype, expected):
    with np.errstate(over="ignore"):
        want = np.array(value, expected)
    for given in (value, tuple(value)):
        got = c(given, dtype).numpy()
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("value", [[1e39, 1.0], [True, 1], [[1], [1, 2]], [[1], 2], [2**63], [1, None], [1.0, "a"]])
def test_lists_that_are_no_tensors(value):
    with pytest.raises(ValueError, match=r"Can't convert.* Python sequence|unsupported type"):
        c(value)


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_numbers_in_and_out_of_the_range_of_integers(source, target):
    """One by one and together: numbers in range are cast without a repair."""
    kind, values = (
        tf.as_dtype(target),
        c([0.0, -0.75, 3.9, 100.5, -3.0, np.nan, np.inf, -np.inf, 7e4, -7e4, 3e9, 1e19], source),
    )
    exact = [float(v) for v in tf.cast(values, tf.float64)]
    want = [0 if v != v else kind.max if v >= kind.max else kind.min if v <= kind.min else int(v) for v in exact]
    assert tf.cast(values, target).numpy().tolist() == want
    assert [int(tf.cast(v, target)) for v in values] == want
    assert tf.cast(values[:5], target).numpy().tolist() == want[:5]
    assert tf.cast(values[:0], target).shape == [0]


def test_the_mean_of_many_integers():
    for high in (2**31 - 1, 1000):
        values = np.random.default_rng(0).integers(-high, high, (70, 80)).astype(np.int32)
        for axis in (None, 0, 1):
            total = values.astype(object).sum(axis)
            want = np.vectorize(lambda n, count: int(abs(n) // count) * (1 if n > 0 else -1))(
                total, values.size // np.size(total)
            )
            assert tf.reduce_mean(values, axis).numpy().tolist() == want.tolist()


def test_the_first_operand_decides_beside_a_number():
    for number in (1.0, 2.5):
        for add in (tf.add, operator.add):
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="was expected to be a int32 tensor but is a float"
            ):
                add(c([1, 2]), number)
    assert (c([1.5]) + 1).numpy().tolist() == [2.5]
    assert (c([True, False]) * 2).numpy().tolist() == [True, False]
    with pytest.raises(TypeError, match=r"Cannot convert 1.5 to EagerTensor of dtype int32"):
        c([1, 2]) * 1.5


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_mean_of_integers_does_not_overflow(dtype, compiled):
    """But of 64 bits, which have nothing wider: there sums wrap around, as in TensorFlow."""
    if compiled:
        pytest.importorskip("jax")
    kind = tf.as_dtype(dtype)
    low, high = kind.min, kind.max
    mean = tf.function(tf.reduce_mean) if compiled and dtype in ("uint8", "int32") else tf.reduce_mean
    if kind.size < 8:
        assert int(mean(c([high] * 3, dtype))) == high
        assert int(mean(c([low] * 3, dtype))) == low
        assert int(mean(c([low, high, high], dtype))) == int((low + 2 * high) / 3)
        assert int(mean(c(np.full((100, 100), 100), dtype))) == 100
        rows = tf.reduce_mean(c([[high, high], [100, 99]], dtype), axis=1, keepdims=True)
        assert rows.numpy().tolist() == [[high], [99]]
    if not kind.is_unsigned:
        assert [int(mean(c(v, dtype))) for v in ([-1, -2, -2], [1, 2, 2], [-4, 1])] == [-1, 1, -1]
    if dtype == "int64":
        assert int(mean(c([low] * 3, dtype))) == -3074457345618258602
    assert tf.reduce_mean(c(np.zeros((2, 0)), dtype), 1).numpy().tolist() == [0, 0]


def test_other_reductions_of_integers_wrap():
    x = c([200, 200], tf.uint8)
    assert [int(f(x)) for f in (tf.reduce_sum, tf.reduce_prod)] == [144, 64]
    assert tf.cumsum(x).numpy().tolist() == [200, 144]
    assert tf.math.cumprod(x).numpy().tolist() == [200, 64]
    for f in (tf.math.reduce_variance, tf.math.reduce_std):
        with pytest.raises(TypeError, match="Input must be either real or complex"):
            f(x)
    with pytest.raises(I, match="Value for attr 'T' of uint8 is not in the list of allowed values"):
        tf.nn.l2_loss(x)


def test_functions_that_refuse_integers():
    for f in (tf.sqrt, tf.exp, tf.sigmoid, tf.sin, tf.math.log):
        with pytest.raises(I, match="Value for attr 'T' of int32 is not in the list of allowed values"):
            f(c([1, 2]))
    for f in (tf.nn.relu, tf.square, tf.abs, tf.negative, tf.sign):
        assert f(c([-1, 2])).dtype == tf.int32
    assert tf.maximum(c([1, 5]), 3).numpy().tolist() == [3, 5]
    assert tf.reduce_mean(c([1, 2])).numpy() == 1


def test_reshape_and_axes_that_do_not_fit():
    with pytest.raises(I, match="Input to reshape is a tensor with 2 values, but the requested shape has 3"):
        tf.reshape(c([1.0, 2.0]), [3])
    with pytest.raises(I, match=re.escape("Invalid reduction dimension (5 for input with 1 dimension(s)")):
        tf.reduce_sum(c([1.0]), axis=5)
    with pytest.raises(I, match=re.escape("indices[0] = -1 is not in [0, 2)")):
        tf.gather(c([1.0, 2.0]), [-1])


def test_first_argument_decides():
    assert tf.add(1.5, 2).numpy() == 3.5
    with pytest.raises((I, TypeError)):
        tf.add(1, 2.5)
    with pytest.raises(TypeError):
        tf.where(True, 1, 2.0)
    assert tf.divide(3, 2).numpy() == 1.5


def test_numbers_beside_tensors_keep_their_sign_and_kind():
    """The last numbers are kept, and 0.0 == -0.0 == 0 == False."""
    x = tf.constant([1.0])
    for zero in (0.0, -0.0, 0, 0.0):
        assert str((x / (x * zero)).numpy()[0]) == ("-inf" if str(zero) == "-0.0" else "inf")
    i = tf.constant([3])
    assert (i + 1).dtype == tf.int32
    with pytest.raises(I, match="was expected to be a int32 tensor but is a float tensor"):
        i + 1.0
    with pytest.raises(TypeError, match=r"Cannot convert 1\.0 to EagerTensor of dtype int32"):
        1.0 + i
    assert (tf.constant([3.0], tf.float64) + 1).dtype == tf.float64
    assert (x + 1).dtype == tf.float32


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint16", "int32", "int64", "bool", "complex64"]
)
def test_buffers(dtype):
    x = np.array([[1, 0, 2], [0, 3, 4]], dtype)
    for t, expected in ((c(x), x), (tf.transpose(c(x)), x.T), (c(x[0, 0]), x[0, 0]), (tf.Variable(x)[1:], x[1:])):
        assert memoryview(t).shape == expected.shape
        assert memoryview(t).tobytes() == expected.tobytes()
        np.testing.assert_array_equal(np.frombuffer(t, dtype), expected.ravel())
        np.testing.assert_array_equal(np.asarray(t), expected)
        assert np.asarray(t).dtype == dtype


def test_buffers_are_copies_that_outlive_the_tensor():
    view, array = memoryview(c([1.0, 2.0])), np.frombuffer(c([3.0, 4.0]) * 1.0, np.float32)
    for _ in range(100):
        c([5.0, 6.0]) * 1.0
    assert view.tolist() == [1.0, 2.0]
    assert array.tolist() == [3.0, 4.0]
    t = c([1.0, 2.0])
    np.asarray(memoryview(t))[0] = 7.0
    assert t.numpy().tolist() == [1.0, 2.0]


def test_buffers_of_strings_hold_objects():
    t = c(["a", "bc"])
    assert memoryview(t).format == "O"
    assert memoryview(t).shape == (2,)
    array = np.asarray(t)
    del t
    assert array.tolist() == [b"a", b"bc"]
    assert np.asarray(c("text")).item() == b"text"


@pytest.mark.parametrize("read", [memoryview, lambda t: np.frombuffer(t, np.uint8)], ids=["memoryview", "frombuffer"])
def test_values_without_a_buffer_raise_an_error_of_the_argument(read):
    """Not a SystemError, which a failing exporter of a buffer gives below Python 3.12 if it sets no error."""
    refused = (TypeError, ValueError, NotImplementedError)
    for _ in range(3):
        with pytest.raises(refused):
            read(c([1.0], tf.bfloat16))

    @tf.function
    def traced(x):
        with pytest.raises(refused):
            read(x)
        return x * 2.0

    assert traced(c([1.0])).numpy().tolist() == [2.0]


def test_what_has_no_buffer():
    assert np.asarray(c([1.5], tf.bfloat16)).dtype == "bfloat16"
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(tf.Variable(1.0))
