"""Variable: the tensor that changes."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import re
import threading

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.variable import peek, storage

I = tf.errors.InvalidArgumentError  # noqa: E741


# -- the constructor -------------------------------------------------------------------------------
def test_the_signature_is_tensorflows():
    names = list(inspect.signature(tf.Variable).parameters)
    assert names == [
        "initial_value", "trainable", "validate_shape", "caching_device", "name", "variable_def", "dtype",
        "import_scope", "constraint", "synchronization", "aggregation", "shape", "experimental_enable_variable_lifting",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, "float32"),
        (1, "int32"),
        (True, "bool"),
        ("a", "string"),
        ([1, 2.5], "float32"),
        (np.ones(2), "float64"),
        (np.float16(1), "float16"),
        (1j, "complex128"),
        (tf.constant([1.0, 2.0], tf.bfloat16), "bfloat16"),
        (lambda: [1.0, 2.0], "float32"),
        (lambda: tf.constant(3), "int32"),
    ],
)
def test_dtypes_of_initial_values(value, dtype):
    v = tf.Variable(value)
    assert v.dtype == dtype
    assert v.trainable is True


def test_a_variable_is_a_variable():
    v = tf.Variable([1.0, 2.0], name="v")
    assert isinstance(v, tf.Variable)
    assert not isinstance(v, tf.Tensor)
    assert tf.is_tensor(v)
    assert type(v[0:1]).__mro__[-2] is tf.Tensor or isinstance(v[0:1], tf.Tensor)


def test_without_a_value():
    sentence = (
        "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a "
        "`variable_def`. You provided neither."
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        tf.Variable()
    with pytest.raises(ValueError, match=re.escape(sentence)):
        tf.Variable(None)


def test_from_a_variable_or_tensor_the_value_is_copied():
    v, t = tf.Variable([1.0, 2.0]), tf.constant([5.0])
    w, u = tf.Variable(v), tf.Variable(t)
    v.assign_add([1.0, 1.0])
    u.assign_add([1.0])
    assert w.numpy().tolist() == [1.0, 2.0]
    assert t.numpy().tolist() == [5.0]


def test_dtype_of_the_constructor():
    assert tf.Variable(1, dtype=tf.float64).dtype == tf.float64
    assert tf.Variable(np.array([1.7]), dtype=tf.int32).numpy().tolist() == [1]
    with pytest.raises(ValueError, match="Tensor conversion requested dtype float64 for Tensor with dtype float32"):
        tf.Variable(tf.constant(1.0), dtype=tf.float64)
    with pytest.raises(TypeError, match=re.escape("Cannot convert 1.5 to EagerTensor of dtype int32")):
        tf.Variable(1.5, dtype=tf.int32)


def test_a_declared_shape():
    v = tf.Variable([1.0, 2.0], shape=[None])
    assert v.shape.as_list() == [None]
    v.assign([1.0, 2.0, 3.0])
    assert v.numpy().shape == (3,)
    v.assign_add([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="Shape mismatch"):
        v.assign([[1.0]])
    unknown = tf.Variable(1.0, shape=tf.TensorShape(None))
    unknown.assign([[1.0, 2.0]])
    assert unknown.numpy().shape == (1, 2)
    sentence = (
        "In this `tf.Variable` creation, the initial value's shape ((2,)) is not compatible with the explicitly "
        "supplied `shape` argument ([3])."
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        tf.Variable([1.0, 2.0], shape=[3])


def test_trainable():
    assert tf.Variable(1, trainable=None).trainable is True
    assert tf.Variable(1.0, trainable=False).trainable is False
    on_read = tf.VariableSynchronization.ON_READ
    assert tf.Variable(1.0, synchronization=on_read).trainable is False
    v = tf.Variable(1.0)
    with pytest.raises(AttributeError):
        v.trainable = False


def test_names_and_properties():
    v = tf.Variable([1.0, 2.0], name="a b", constraint=abs)
    assert v.name == "a b:0"
    assert tf.Variable(1.0).name == tf.Variable(1.0).name == "Variable:0"
    assert v.shape == (2,)
    assert v.get_shape() == v.shape
    assert v.ndim == 1
    assert v.constraint is abs
    assert v.synchronization is tf.VariableSynchronization.AUTO
    assert v.aggregation is tf.VariableAggregation.NONE
    assert "CPU" in v.device
    assert bool(v.is_initialized()) is True
    assert v.handle is not None
    with pytest.raises(RuntimeError, match=r"This property is not supported when eager execution is enabled\."):
        _ = v.initial_value
    with pytest.raises(ValueError, match="constraint"):
        tf.Variable(1.0, constraint=3)
    with pytest.raises(AttributeError):
        _ = v.no_such_thing
    v.note = "mine"
    assert v.note == "mine"


def test_repr_and_str():
    v = tf.Variable([1.0, 2.0], name="v")
    assert repr(v) == str(v) == "<tf.Variable 'v:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    assert repr(tf.Variable(3, name="i")) == "<tf.Variable 'i:0' shape=() dtype=int32, numpy=3>"


# -- assigning -------------------------------------------------------------------------------------
def test_assign_and_what_it_returns():
    v = tf.Variable([1.0, 2.0], name="v")
    for returned in (v.assign([3.0, 4.0]), v.assign_add([1.0, 1.0]), v.assign_sub([1.0, 1.0])):
        assert isinstance(returned, tf.Variable)
        assert returned is not v
        assert returned.name == "UnreadVariable"
    assert v.numpy().tolist() == [3.0, 4.0]
    view = v.assign([0.0, 0.0])
    v.assign([9.0, 9.0])
    assert view.numpy().tolist() == [9.0, 9.0]  # read when used
    view.assign_add([1.0, 1.0])
    assert v.numpy().tolist() == [10.0, 10.0]
    assert (view * 2.0).numpy().tolist() == [20.0, 20.0]
    for method in (v.assign, v.assign_add, v.assign_sub):
        assert method([1.0, 1.0], read_value=False) is None


def test_a_view_has_the_variables_gradient():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = v.assign_add([1.0, 1.0]) ** 2
    assert tape.gradient(y, v).numpy().tolist() == [4.0, 6.0]
    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]


@pytest.mark.parametrize("value", [[3, 4], np.array([3.0, 4.0]), (3.0, 4.0), tf.constant([3.0, 4.0]), np.array([3, 4])])
def test_plain_values_are_converted(value):
    v = tf.Variable([1.0, 2.0])
    v.assign(value)
    assert v.dtype == tf.float32
    assert v.numpy().tolist() == [3.0, 4.0]


FAILURES = [
    (lambda v: v.assign([1.0, 2.0, 3.0]), ValueError,
     "Cannot assign value to variable ' v:0': Shape mismatch.The variable shape (2,), and the assigned value shape "
     "(3,) are incompatible."),
    (lambda v: v.assign(1.0), ValueError, "Shape mismatch.The variable shape (2,), and the assigned value shape ()"),
    (lambda v: v.assign_add([1.0, 2.0, 3.0]), I,
     "Cannot update variable with shape [2] using a Tensor with shape [3], shapes must be equal. "
     "[Op:AssignAddVariableOp]"),
    (lambda v: v.assign_add(1.0), I, "using a Tensor with shape [], shapes must be equal. [Op:AssignAddVariableOp]"),
    (lambda v: v.assign_sub([[1.0, 2.0]]), I, "shapes must be equal. [Op:AssignSubVariableOp]"),
    (lambda v: v.assign(tf.constant([1.0, 2.0], tf.float64)), ValueError,
     "Tensor conversion requested dtype float32 for Tensor with dtype float64"),
    (lambda v: v.assign_add(tf.constant([1, 2])), ValueError,
     "Tensor conversion requested dtype float32 for Tensor with dtype int32"),
    (lambda v: v.assign(["a", "b"]), TypeError, "Cannot convert"),
    (lambda v: v.assign([1j, 2j]), TypeError, "Cannot convert"),
    (lambda v: v.assign(None), ValueError, "None"),
    (lambda v: v.scatter_add([1.0]), TypeError, "Argument `sparse_delta` must be a `tf.IndexedSlices`. Received arg:"),
    (lambda v: v.scatter_add(tf.IndexedSlices(tf.constant([1.0]), tf.constant([5]))), I,
     "indices[0] = 5 is not in [0, 2)"),
    (lambda v: v.scatter_nd_add([[7]], [1.0]), I, "does not index into"),
    (lambda v: v[0].assign([1.0, 2.0, 3.0]), I, "Cannot broadcast input shape [3] into final shape []"),
    (lambda v: v[5].assign(1.0), I, "slice index 5 of dimension 0 out of bounds."),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "sentence"), FAILURES, ids=range(len(FAILURES)))
def test_a_failed_change_leaves_the_old_value(change, kind, sentence):
    v = tf.Variable([1.0, 2.0], name="v")
    with pytest.raises(kind, match=re.escape(sentence)):
        change(v)
    assert v.numpy().tolist() == [1.0, 2.0]
    assert v.dtype == tf.float32


def test_floats_do_not_fit_into_integers():
    v = tf.Variable([1, 2])
    with pytest.raises(TypeError, match=r"Cannot convert .*1\.5.* to EagerTensor of dtype int32"):
        v.assign([1.5, 2])
    with pytest.raises(TypeError, match=re.escape("Cannot convert 1.5 to EagerTensor of dtype int32")):
        tf.Variable(1).assign_add(1.5)
    v.assign_add([True, 1])
    assert v.numpy().tolist() == [2, 3]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int64", "complex64"])
def test_assign_add_keeps_the_dtype(dtype):
    v = tf.Variable(tf.cast(tf.constant([1, 2]), dtype))
    v.assign_add(tf.cast(tf.constant([2, 3]), dtype))
    v.assign_sub(tf.cast(tf.constant([1, 1]), dtype))
    assert v.dtype == dtype
    assert v.numpy().astype(complex).tolist() == [2, 4]


# -- in place --------------------------------------------------------------------------------------
def address(v):
    return peek(v).array.ctypes.data


@pytest.fixture
def big(monkeypatch):
    monkeypatch.setattr(storage, "other_threads", lambda: 0)  # whatever runs the tests may have threads of its own
    return tf.Variable(np.zeros(1000, np.float32))


ONES = tf.ones([1000])


def test_updates_reuse_memory_that_nobody_holds(big):
    start = address(big)
    for _ in range(5):
        big.assign_add(ONES)
        big.assign_sub(ONES * 0.5)
    assert address(big) == start
    assert big.numpy()[0] == 2.5


def test_updates_reuse_aligned_memory_unless_a_part_of_it_is_held(big):
    many = tf.Variable(np.zeros(20_000, np.float32))  # its array is a part of a larger one, and begins where it should
    start, delta = address(many), tf.ones([20_000])
    assert start % 64 == 0
    many.assign_add(delta)
    assert address(many) == start
    part = many[10:20]
    many.assign_add(delta)
    assert address(many) != start
    assert part.numpy()[0] == 1.0
    assert many.numpy()[0] == 2.0


def test_memory_is_not_reused_where_another_thread_might_read():
    v, over = tf.Variable(np.zeros(1000, np.float32)), threading.Event()
    start, thread = address(v), threading.Thread(target=over.wait)
    thread.start()
    try:
        v.assign_add(ONES)
    finally:
        over.set()
        thread.join()
    assert address(v) != start


def test_a_training_loop_reuses_memory(big):
    start = address(big)
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((big - 1.0) ** 2)
        g = tape.gradient(loss, big)
        del tape, loss
        big.assign_sub(0.1 * g)
    assert address(big) == start


HOLDERS = {
    "a reading": lambda v: v.read_value(),
    "the value": lambda v: v.value(),
    "a converted tensor": lambda v: tf.convert_to_tensor(v),
    "an identity": lambda v: tf.identity(v),
    "a slice": lambda v: v[10:20],
    "an element": lambda v: v[3],
    "a strided slice": lambda v: v[::2],
    "a reshape": lambda v: tf.reshape(v, [10, 100]),
    "an expanded view": lambda v: v[None, :],
    "a transpose": lambda v: tf.transpose(tf.reshape(v, [10, 100])),
    "a reversal": lambda v: tf.reverse(v, [0]),
    "a broadcast": lambda v: tf.broadcast_to(v, [2, 1000]),
    "parts": lambda v: tf.split(v, 4),
    "rows": lambda v: list(v)[:3],
    "unstacked": lambda v: tf.unstack(tf.reshape(v, [2, 500])),
    "a view of a view": lambda v: tf.reshape(v, [10, 100])[3],
    "a stopped gradient": lambda v: tf.stop_gradient(v),
    "a numpy array": lambda v: v.numpy(),
    "numpy's conversion": lambda v: np.asarray(v),
    "dlpack": lambda v: np.from_dlpack(v.read_value()),
    "a tensor of its own": lambda v: tf.constant(v.numpy()),
    "another variable": lambda v: tf.Variable(v),
    "an assigned variable": lambda v: tf.Variable(np.ones(1000, np.float32)).assign(v),
    "a cast": lambda v: tf.cast(v, tf.float32),
    "a deep copy": lambda v: copy.deepcopy(v),
    "squeezed": lambda v: tf.squeeze(v[None]),
    "ensure_shape": lambda v: tf.ensure_shape(v, [1000]),
}


def numbers(holder):
    if isinstance(holder, (list, tuple)):
        return [numbers(h) for h in holder]
    return np.array(holder.numpy() if hasattr(holder, "numpy") else holder).tolist()


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("update", ["assign_add", "assign_sub", "assign", "scatter", "slice"])
def test_what_somebody_holds_does_not_change(big, name, update):
    big.assign_add(ONES)
    holder = HOLDERS[name](big)
    before = numbers(holder)
    if update == "scatter":
        big.scatter_add(tf.IndexedSlices(tf.constant([1.0]), tf.constant([3])))
    elif update == "slice":
        big[10:20].assign(tf.zeros([10]))
    else:
        getattr(big, update)(ONES * 3.0)
    assert numbers(holder) == before
    big.assign_add(ONES)
    assert numbers(holder) == before


@pytest.mark.parametrize(
    "op",
    [lambda v: v * v, lambda v: tf.exp(v), lambda v: v @ tf.ones([2, 2]), lambda v: tf.reshape(v, [-1]) ** 2,
     lambda v: tf.gather(v, [0, 1]) ** 2, lambda v: tf.reduce_max(v), lambda v: v[0] * v[1]],
)  # fmt: skip
@pytest.mark.parametrize("persistent", [False, True])
def test_what_a_tape_saved_does_not_change(op, persistent):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent) as tape:
        y = op(v)
    with tf.GradientTape() as untouched:
        z = op(v)
    expected = tf.convert_to_tensor(untouched.gradient(z, v)).numpy()
    for _ in range(3):
        v.assign_add([[10.0, 10.0], [10.0, 10.0]])
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(y, v)).numpy(), expected)


def test_values_given_stay_the_givers():
    array, tensor = np.ones(1000, np.float32), tf.ones([1000])
    for given in (array, tensor):
        v = tf.Variable(given)
        v.assign(given)
        v.assign_add(ONES)
        v.assign_add(ONES)
        assert np.asarray(given).tolist() == [1.0] * 1000
    v = tf.Variable(array)
    array[:] = 7.0
    assert v.numpy()[0] == 1.0
    v.assign(array)
    array[:] = 8.0
    assert v.numpy()[0] == 7.0


def test_a_variable_added_to_itself():
    v = tf.Variable(np.arange(4, dtype=np.float32))
    v.assign_add(v)
    assert v.numpy().tolist() == [0.0, 2.0, 4.0, 6.0]
    v.assign_sub(tf.reverse(v, [0]))
    assert v.numpy().tolist() == [-6.0, -2.0, 2.0, 6.0]
    v.assign(v + v)
    assert v.numpy().tolist() == [-12.0, -4.0, 4.0, 12.0]
    w = tf.Variable(v)
    w.assign(v)
    w.assign_add([1.0] * 4)
    assert v.numpy().tolist() == [-12.0, -4.0, 4.0, 12.0]


def test_two_variables_never_share_memory():
    a, b = tf.Variable(np.zeros(8)), tf.Variable(np.ones(8))
    a.assign(b)
    b.assign_add(np.ones(8))
    b.assign_add(np.ones(8))
    assert a.numpy().tolist() == [1.0] * 8
    a.assign_sub(np.ones(8))
    assert b.numpy().tolist() == [3.0] * 8


# -- slices ----------------------------------------------------------------------------------------
def test_slices_can_be_assigned():
    v = tf.Variable(np.zeros((3, 4), np.float32))
    assert isinstance(v[0].assign([1.0, 2.0, 3.0, 4.0]), tf.Variable)
    v[1, 2].assign(9.0)
    v[:, 0].assign([7.0, 7.0, 7.0])
    v[2, ::2].assign(tf.constant([5.0, 6.0]))
    v[..., -1].assign([8.0, 8.0, 8.0])
    expected = [[7.0, 2.0, 3.0, 8.0], [7.0, 0.0, 9.0, 8.0], [5.0, 0.0, 6.0, 8.0]]
    assert v.numpy().tolist() == expected
    assert v[0, 0].assign(0.0, read_value=False) is None


def test_items_cannot_be_set():
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError):
        v[0] = 1.0


def test_slices_of_variables_are_tensors_with_gradients():
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = v[1:] * v[0]
    assert tape.gradient(y, v).numpy().tolist() == [5.0, 1.0, 1.0]
    part = v[1:]
    assert isinstance(part, tf.Tensor)
    assert (part + 1.0).numpy().tolist() == [3.0, 4.0]


# -- scatter ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("scatter_add", [5.0, 10.0, 9.0]),
        ("scatter_sub", [-1.0, 10.0, 1.0]),
        ("scatter_mul", [4.0, 10.0, 20.0]),
        ("scatter_div", [1.0, 10.0, 1.25]),
        ("scatter_max", [2.0, 10.0, 5.0]),
        ("scatter_min", [1.0, 10.0, 4.0]),
        ("scatter_update", [2.0, 10.0, 4.0]),
    ],
)
def test_scatter(method, expected):
    v = tf.Variable([2.0, 10.0, 5.0])
    slices = tf.IndexedSlices(tf.constant([1.0, 2.0, 4.0]), tf.constant([0, 0, 2]))
    returned = getattr(v, method)(slices)
    assert v.numpy().tolist() == expected
    assert isinstance(returned, tf.Variable)
    assert returned.numpy().tolist() == expected


def test_scatter_of_rows():
    v = tf.Variable(np.ones((3, 2), np.float32))
    v.scatter_add(tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([2, 2], tf.int64)))
    assert v.numpy().tolist() == [[1.0, 1.0], [1.0, 1.0], [5.0, 7.0]]
    for bad in (-1, 3):
        with pytest.raises(I, match=re.escape(f"indices[0] = {bad} is not in [0, 3)")):
            v.scatter_update(tf.IndexedSlices(tf.constant([[0.0, 0.0]]), tf.constant([bad])))


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("scatter_nd_add", [[1.0, 4.0], [8.0, 4.0]]),
        ("scatter_nd_sub", [[1.0, 0.0], [-2.0, 4.0]]),
        ("scatter_nd_update", [[1.0, 2.0], [5.0, 4.0]]),
        ("scatter_nd_max", [[1.0, 2.0], [5.0, 4.0]]),
        ("scatter_nd_min", [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_scatter_nd(method, expected):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    getattr(v, method)([[0, 1], [1, 0]], [2.0, 5.0])
    assert v.numpy().tolist() == expected


def test_batch_scatter_update():
    v = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    v.batch_scatter_update(tf.IndexedSlices(tf.constant([[9.0], [8.0]]), tf.constant([[0], [2]])))
    assert v.numpy().tolist() == [[9.0, 2.0, 3.0], [4.0, 5.0, 8.0]]


def test_lookups():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        rows = v.sparse_read([1, 1])
        element = v.gather_nd([[0, 1]])
    assert rows.numpy().tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert element.numpy().tolist() == [2.0]
    assert isinstance(tape.gradient(rows, v), tf.IndexedSlices)
    assert tape.gradient(element, v).numpy().tolist() == [[0.0, 1.0], [0.0, 0.0]]
    with pytest.raises(I, match=re.escape("indices[0] = 2 is not in [0, 2)")):
        v.sparse_read([2])


def test_changes_are_not_differentiated():
    v, x = tf.Variable([1.0, 2.0]), tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        v.scatter_add(tf.IndexedSlices(x * x, tf.constant([0])))
        v[1:].assign(x * x)
        y = v * 2.0
    dv, dx = tape.gradient(y, [v, x])
    assert dv.numpy().tolist() == [2.0, 2.0]
    assert dx is None


# -- operators -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "symbol", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]
)
@pytest.mark.parametrize("other", [2.0, 3, [2.0, 4.0], np.array([2.0, 4.0]), tf.constant([2.0, 4.0]), tf.Variable(2.0)])
def test_operators_both_ways(symbol, other):
    v, t = tf.Variable([3.0, 5.0]), tf.constant([3.0, 5.0])
    function = getattr(operator, symbol)
    for found, expected in ((function(v, other), function(t, other)), (function(other, v), function(other, t))):
        assert isinstance(found, tf.Tensor)
        assert not isinstance(found, tf.Variable)
        assert found.dtype == expected.dtype
        assert found.numpy().tolist() == expected.numpy().tolist()


def test_other_operators():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    eye = np.eye(2, dtype=np.float32)
    for found in (v @ v, v @ tf.constant(v.numpy()), eye @ v @ v):
        assert found.numpy().tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert (-v).numpy().tolist() == [[-1.0, -2.0], [-3.0, -4.0]]
    assert abs(tf.Variable(-2.0)).numpy() == 2.0
    flags = tf.Variable([True, False])
    assert (flags & True).numpy().tolist() == [True, False]
    assert (flags | flags).numpy().tolist() == [True, False]
    assert (flags ^ [True, True]).numpy().tolist() == [False, True]
    assert (~flags).numpy().tolist() == [False, True]
    assert (tf.Variable([6, 3]) & 2).numpy().tolist() == [2, 2]


def test_operators_with_numpy_keep_the_variables_dtype():
    v, a = tf.Variable([1.0, 2.0]), np.array([3.0, 4.0])
    for found in (v * a, a * v, v + np.float64(1), np.float64(1) + v):
        assert isinstance(found, tf.Tensor)
        assert found.dtype == tf.float32
    assert isinstance(np.sum(v), np.generic)
    assert np.asarray(v).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("symbol", "method"),
    [("+", "assign_add"), ("-", "assign_sub"), ("*", ""), ("/", ""), ("//", ""), ("%", ""), ("**", "")],
)
def test_operators_in_place_are_refused(symbol, method):
    v = tf.Variable(2.0)
    sentence = f"`variable {symbol}= value` with `tf.Variable`s is not supported."
    with pytest.raises(RuntimeError, match=re.escape(sentence)) as error:
        exec(f"v {symbol}= 1.0", {"v": v})
    assert f"`out = variable {symbol} value`" in str(error.value)
    if method:
        assert f"`variable.{method}(value)`" in str(error.value)
    assert v.numpy() == 2.0


def test_equality_with_none_is_an_error():
    v = tf.Variable(1.0)
    for compare in (operator.eq, operator.ne):
        with pytest.raises(ValueError, match=re.escape("Attempt to convert a value (None)")):
            compare(v, None)


# -- identity, protocol ----------------------------------------------------------------------------
def test_references_and_hashes():
    v, w = tf.Variable([1.0]), tf.Variable([1.0])
    with pytest.raises(TypeError, match=r"Variable is unhashable\. Instead, use variable\.ref\(\) as the key\."):
        hash(v)
    with pytest.raises(TypeError):
        {v: 1}  # noqa: B018
    names = {v.ref(): "v", w.ref(): "w"}
    assert names[v.ref()] == "v"
    assert v.ref() == v.ref() != w.ref()
    assert v.ref().deref() is v
    assert repr(v.ref()).startswith("<Reference wrapping <tf.Variable")
    with pytest.raises(TypeError, match="Cannot compare wrapped object with unwrapped object"):
        _ = v.ref() == v
    assert v in [v]


def test_python_protocol():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert [row.numpy().tolist() for row in v] == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(TypeError, match="has no len"):
        len(v)
    with pytest.raises(TypeError, match=r"Cannot iterate over a scalar tensor\."):
        iter(tf.Variable(1.0))
    assert bool(tf.Variable([[1.0]]))
    assert not tf.Variable(0.0)
    with pytest.raises(ValueError, match="truth value of an array with more than one element is ambiguous"):
        bool(v)
    assert (float(tf.Variable(1.5)), int(tf.Variable(2)), complex(tf.Variable(1.5))) == (1.5, 2, 1.5 + 0j)
    for convert in (float, int, complex):
        with pytest.raises(TypeError, match="only 0-dimensional arrays can be converted to Python scalars"):
            convert(tf.Variable([1.0]))
    with pytest.raises(TypeError):
        [1, 2, 3][tf.Variable(1)]


def test_set_shape_merges():
    v = tf.Variable([[1.0, 2.0]], shape=[None, 2])
    v.set_shape([1, None])
    assert v.shape.as_list() == [1, 2]
    with pytest.raises(ValueError, match="not compatible"):
        v.set_shape([3, 2])


# -- copies ----------------------------------------------------------------------------------------
def test_copy_is_the_same_object():
    v = tf.Variable([1.0])
    assert copy.copy(v) is v


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_deep_copies_are_independent(copied):
    v = tf.Variable([1.0, 2.0], name="weights", trainable=False, shape=[None], constraint=abs,
                    aggregation=tf.VariableAggregation.SUM)  # fmt: skip
    twin = copied(v)
    assert isinstance(twin, tf.Variable)
    assert twin.name == "weights:0"
    assert twin.trainable is False
    assert twin.shape.as_list() == [None]
    assert twin.constraint is abs
    assert twin.aggregation is tf.VariableAggregation.SUM
    assert twin.ref() != v.ref()
    twin.assign_add([1.0, 1.0])
    assert v.numpy().tolist() == [1.0, 2.0]
    v.assign([5.0, 5.0])
    assert twin.numpy().tolist() == [2.0, 3.0]


def test_a_deep_copy_has_a_gradient_of_its_own():
    v = tf.Variable(3.0)
    twin = copy.deepcopy(v)
    with tf.GradientTape() as tape:
        y = v * v * twin
    assert [float(g) for g in tape.gradient(y, [v, twin])] == [18.0, 9.0]


def test_structures_with_a_variable_twice_are_copied_once():
    v = tf.Variable(1.0)
    first, second = copy.deepcopy([v, v])
    assert first is second
    first, second = pickle.loads(pickle.dumps([v, v]))
    assert first is second


def test_strings():
    v = tf.Variable(["a", "bc"])
    v.assign(["d", "e"])
    assert v.dtype == tf.string
    assert v.numpy().tolist() == [b"d", b"e"]


def test_public_names_are_those_of_tensorflow():
    """Other layers use functions of the package (`peek`, `read`, …); a user's object has TensorFlow's methods."""
    ours = {name for name in dir(tf.Variable(1.0)) if not name.startswith("_")}
    assert sorted(ours - set(PUBLIC.split())) == ["ndim", "storage", "uid"]


PUBLIC = """
    SaveSliceInfo aggregation assign assign_add assign_sub batch_scatter_update constraint count_up_to create device
    dtype eval experimental_ref from_proto gather_nd get_shape graph handle initial_value initialized_value initializer
    is_initialized load name numpy op read_value read_value_no_copy ref scatter_add scatter_div scatter_max scatter_min
    scatter_mul scatter_nd_add scatter_nd_max scatter_nd_min scatter_nd_sub scatter_nd_update scatter_sub scatter_update
    set_shape shape sparse_read synchronization to_proto trainable value
"""
"""dir(tf.Variable(1.0)) in TensorFlow 2.21, without private names."""


# -- variables that grow under a tape ---------------------------------------------------------------------------------
def grown():
    v = tf.Variable(tf.zeros([1]), shape=[None])
    with tf.GradientTape(persistent=True) as tape:
        before = tf.reduce_sum(v * v + v)
        v.assign(tf.concat([v, [1.0]], 0))
        after = tf.reduce_sum(v * v)
    return tape, v, before, after


def test_a_variable_that_grows_has_the_gradient_of_its_last_shape():
    tape, v, before, after = grown()
    assert tape.gradient(after, v).numpy().tolist() == [0.0, 2.0]
    assert tape.gradient(before, v).numpy().tolist() == [1.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must have the same size and shape.*\[1\].*\[2\]"):
        tape.gradient([before, after], v)
    assert tape.gradient(after, v).numpy().tolist() == [0.0, 2.0]


@pytest.mark.parametrize("call", ["jvp", "hvp", "taylor"])
def test_forward_mode_of_a_variable_that_has_grown_is_refused(call):
    tape, v, _, after = grown()
    arguments = {"jvp": (tf.ones([2]),), "hvp": (tf.ones([2]),), "taylor": (2,)}[call]
    with pytest.raises(tf.errors.InvalidArgumentError, match="its tangent has one shape"):
        getattr(tape, call)(after, v, *arguments)
    assert tape.gradient(after, v).numpy().tolist() == [0.0, 2.0]


def test_an_accumulator_broadcasts_the_tangent_of_a_variable_that_grows_or_refuses_it():
    v = tf.Variable([3.0], shape=[None])
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0])) as acc:
        v.assign([3.0, 4.0])
        y = v * v
    assert acc.jvp(y).numpy().tolist() == [6.0, 8.0]
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 2.0])):
        for value in ([5.0], [1.0, 2.0, 3.0]):
            v.assign(value)
            with pytest.raises(tf.errors.InvalidArgumentError, match="its tangent has one shape"):
                v * v


def test_a_variable_grows_in_a_loop():
    v, found = tf.Variable(tf.zeros([1]), shape=[None]), []
    for i in range(3):
        with tf.GradientTape() as tape:
            v.assign(tf.concat([v, [1.0 + i]], 0))
            y = tf.reduce_sum(v**3)
        found.append(tape.gradient(y, v).numpy().tolist())
    assert found == [[0.0, 3.0], [0.0, 3.0, 12.0], [0.0, 3.0, 12.0, 27.0]]


def test_derivatives_of_a_variable_that_has_grown():
    v = tf.Variable(tf.zeros([1]), shape=[None])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            v.assign(tf.concat([v, [2.0]], 0))
            y = tf.reduce_sum(v**3)
        g = tape.gradient(y, v)
    assert outer.gradient(g, v).numpy().tolist() == [0.0, 12.0]
    with tf.GradientTape() as tape:
        first = tf.reduce_sum(v)
        v.assign([1.0, 2.0, 3.0])
        y = v * v * tf.stop_gradient(first)
    assert tape.jacobian(y, v).numpy().tolist() == np.diag([4.0, 8.0, 12.0]).tolist()


class Held(tf.Variable):
    """A variable that keeps its value in another place, as libraries of functional code have."""

    def __init__(self, held):
        self.held = held

    dtype = property(lambda self: tf.float32)
    shape = property(lambda self: self.held.shape)

    def value(self):
        if self.held is None:
            raise ValueError("It has no value.")
        return self.held


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda v: v + 1.0, 4.0),
        (lambda v: 1.0 - v, -2.0),
        (lambda v: sum([v]), 3.0),
        (lambda v: -v, -3.0),
        (lambda v: v < 4.0, True),
        (lambda v: v**2, 9.0),
    ],
)
def test_operators_start_from_the_value_that_a_subclass_has(compute, expected):
    assert compute(Held(tf.constant(3.0))).numpy() == expected
    with pytest.raises(ValueError, match="It has no value"):
        compute(Held(None))
