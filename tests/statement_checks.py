"""Checks of the package for statements of the documentation: see test_statements.py."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as tf


def lookup(name: str) -> Any:
    found: Any = tf
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def absent(*names: str) -> Callable[[], None]:
    def check() -> None:
        assert [name for name in names if lookup(name) is not None] == []

    return check


def refused(call: Callable[[], Any], *kinds: type[BaseException]) -> Callable[[], None]:
    def check() -> None:
        with pytest.raises(kinds):
            call()

    return check


def of_keras(call: Callable[[Any], Any]) -> Callable[[], None]:
    def check() -> None:
        pytest.importorskip("keras")
        with pytest.raises(ValueError, match="not supported"):
            call(tf.keras)

    return check


def without_layer(name: str) -> Callable[[], None]:
    def check() -> None:
        pytest.importorskip("keras")
        assert not hasattr(tf.keras.layers, name)

    return check


def attention(keras: Any) -> Any:
    x = tf.ones([1, 2, 1, 8])
    return keras.ops.dot_product_attention(x, x, x, flash_attention=True)


def no_parameter_server() -> None:
    with pytest.raises(tf.errors.UnimplementedError):
        tf.distribute.ParameterServerStrategy(None)


QUEUES = ("FIFOQueue", "queue", "import_graph_def", "train.MonitoredSession", "train.start_queue_runners")
no_queues = absent(*(f"tf.compat.v1.{name}" for name in QUEUES), "tf.queue", "tf.import_graph_def")


def outside() -> None:
    no_queues()
    no_parameter_server()
    absent("tf.lite")()


def needing(module: str, check: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        pytest.importorskip(module)
        check()

    return run


def runs_eagerly(function: Callable[..., Any], *args: Any) -> None:
    """A function whose body runs in each call."""
    calls = []

    @tf.function
    def counted(*args: Any) -> Any:
        calls.append(1)
        return function(*args)

    logging.disable(logging.WARNING)  # one that says so
    try:
        counted(*args)
        before = len(calls)
        counted(*args)
    finally:
        logging.disable(logging.NOTSET)
    assert len(calls) > before


def runs_as_a_program(function: Callable[..., Any], *args: Any) -> None:
    with pytest.raises(AssertionError):
        runs_eagerly(function, *args)


def inside(function: Callable[[], Any]) -> Callable[[], Any]:
    """A call of `function` while a `tf.function` is traced."""

    @tf.function
    def traced() -> Any:
        function()
        return tf.constant(0.0)

    return traced


def eager_without_malt() -> None:
    program = """
import sys, logging
logging.disable(logging.WARNING)
sys.modules["jax"] = sys.modules["malt"] = None
import gradtape as tf
calls = []
@tf.function
def f(x):
    calls.append(1)
    return x if x > 0 else -x
@tf.function
def g(x):
    calls.append(1)
    return x * 2
print([float(f(tf.constant(-1.0))) for _ in range(2)], len(calls))
calls.clear()
print([float(g(tf.constant(-1.0))) for _ in range(2)], len(calls))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    eager, compiled = done.stdout.splitlines()
    assert eager.startswith("[1.0, 1.0]")
    assert int(eager.split()[-1]) >= 2
    assert compiled == "[-2.0, -2.0] 1"


def unknown_rank() -> None:
    runs_eagerly(lambda x: tf.reduce_sum(tf.numpy_function(np.copy, [x], tf.float32)), tf.ones([2]))


def mask(x: tf.Tensor) -> tf.Tensor:
    return tf.boolean_mask(x, x > 0.0)


def shapes_on_xla() -> None:
    compiled = tf.function(mask, jit_compile=True)
    with pytest.raises(ValueError, match="depends on values"):
        compiled(tf.constant([1.0, -1.0]))


def sizes_differ() -> None:
    def added(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return mask(x) + mask(y)

    function = tf.function(added)
    function(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    logging.disable(logging.WARNING)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(tf.constant([1.0, 2.0, 3.0]), tf.constant([3.0, 4.0, -1.0]))
    finally:
        logging.disable(logging.NOTSET)


def save_in_function() -> None:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    with pytest.raises(NotImplementedError):
        inside(lambda: checkpoint.save("unused"))()


def no_slots() -> None:
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build([tf.keras.Variable(np.zeros(2))])
    assert not hasattr(optimizer, "get_slot")


def dataset_eager() -> None:
    dataset = tf.data.Dataset.range(3)

    def total() -> tf.Tensor:
        result = tf.constant(0, tf.int64)
        for x in dataset:
            result += x
        return result

    runs_eagerly(total)


def map_is_sequential() -> None:
    order: list[int] = []

    def note(x: tf.Tensor) -> tf.Tensor:
        order.append(int(x))
        return x

    dataset = tf.data.Dataset.range(20).map(note, num_parallel_calls=4)
    _ = dataset.element_spec
    order.clear()
    assert [int(x) for x in dataset] == order == list(range(20))


def strong_zeros_in_functions() -> None:
    x = tf.Variable([0.0, 4.0])
    masked = tf.function(lambda: tf.reduce_sum(tf.where(x > 1.0, 1.0 / x, x)))
    with np.errstate(all="ignore"), tf.GradientTape(strong_zeros=True) as tape:
        y = masked()
    assert np.isnan(tape.gradient(y, x).numpy()[0])


def checked_inside(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape(check_numerics=True) as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x)


def digests_inside(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape(digests=True) as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x)


def no_gradient_of_numpy_function() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.numpy_function(np.square, [x], tf.float32)
    assert tape.gradient(y, x) is None


def no_gradient_of_start() -> None:
    start = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        x = tf.autodiff.root(lambda x: x**2 - 2.0, start).x
    assert tape.gradient(x, start) is None


def only_outside_functions() -> None:
    solve = tf.autodiff.implicit(lambda x, a: x * x - a)(lambda x, a: tf.constant(np.sqrt(a.numpy())))
    assert float(solve(tf.constant(1.0), tf.constant(4.0))) == 2.0
    logging.disable(logging.WARNING)
    try:
        with pytest.raises(AttributeError):
            tf.function(lambda a: solve(tf.constant(1.0), a), autograph=False)(tf.constant(4.0))
    finally:
        logging.disable(logging.NOTSET)


def limit_with(**settings: bool) -> Callable[[], Any]:
    return lambda: tf.GradientTape(memory_limit="1MB", **settings)


def not_combined() -> None:
    for name in ("profile", "check_numerics", "graph"):
        refused(limit_with(**{name: True}), ValueError)()


def raw_ops() -> None:
    names = ("FIFOQueueV2", "QueueEnqueueV2", "ReaderReadV2", "QuantizedConv2D", "MapDataset", "BatchDatasetV2")
    absent(*(f"tf.raw_ops.{name}" for name in names))()
    assert set(names).isdisjoint(dir(tf.raw_ops))


def raw_attrs() -> None:
    x, w = tf.ones([1, 3, 3, 1]), tf.ones([1, 1, 1, 1])
    same = tf.raw_ops.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME", use_cudnn_on_gpu=False)
    assert same.shape == x.shape
    labels = {"labels_indices": [[0, 0]], "labels_values": [1], "sequence_length": [2]}
    with pytest.raises(tf.errors.UnimplementedError, match="ctc_merge_repeated=False"):
        tf.raw_ops.CTCLoss(inputs=tf.zeros([2, 1, 3]), **labels, ctc_merge_repeated=False)


def estimated() -> None:
    from gradtape.testing import certify

    found = certify(lambda w: tf.reduce_sum(tf.linalg.inv(tf.linalg.diag(w))), np.float32([1.0, 2.0]))
    assert not found.proved
    assert found.estimated == ("inv",)


def certify_inside() -> None:
    from gradtape.testing import certify

    refused(inside(lambda: certify(tf.square, np.float32([1.0]))), RuntimeError)()


class Calling(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([2])])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(np.copy, [x], tf.float32), [2])


def python_is_not_saved() -> None:
    logging.disable(logging.WARNING)
    try:
        refused(lambda: tf.saved_model.save(Calling(), "unused"), tf.errors.UnimplementedError)()
    finally:
        logging.disable(logging.NOTSET)
    assert not Path("unused").exists()


def recorded(x: Any, function: Callable[[Any], Any], **settings: Any) -> tuple[tf.GradientTape, Any]:
    with tf.GradientTape(**settings) as tape:
        tape.watch(x)
        y = function(x)
    return tape, y


def sparse_needs_real() -> None:
    x = tf.constant([1j, 2j])
    tape, y = recorded(x, tf.square)
    refused(lambda: tape.jacobian(y, x, sparse=True), TypeError)()


def sparse_scipy_inside() -> None:
    x = tf.Variable([1.0, 2.0])

    def matrix() -> None:
        tape, y = recorded(x, tf.square)
        tape.jacobian(y, x, sparse="scipy")

    refused(inside(matrix), TypeError)()


def taylor_through(function: Callable[[Any], Any]) -> Callable[[], Any]:
    def run() -> Any:
        x = tf.constant(1.5)
        tape, y = recorded(x, function)
        return tape.taylor(y, x, order=2)

    return run


def taylor_limits() -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (tf.constant(0), x))[1]

    def branch(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: x * x, lambda: x)

    def again(x: Any) -> Any:
        return tf.recompute_grad(tf.square)(x)

    def masked(x: Any) -> Any:
        return tf.reduce_sum(mask(tf.stack([x, -x])))

    def solver(x: Any) -> Any:
        return tf.autodiff.root(lambda y: y * y - x, tf.constant(1.0)).x

    for limited in (tf.function(loop), tf.function(branch), tf.function(again), tf.function(masked), solver):
        refused(taylor_through(limited), NotImplementedError)()
    taylor_through(loop)()
    taylor_through(branch)()


def values_needed() -> None:
    x = tf.Variable([1.0, 2.0])

    def estimate() -> None:
        tape, y = recorded(x, lambda x: tf.reduce_sum(x**3), persistent=True)
        tape.hessian_trace(y, x)

    def influence() -> None:
        tape, losses = recorded(x, lambda x: x**2, persistent=True)
        tf.autodiff.influence(tape, losses, losses[0], x)

    for call in (estimate, influence, lambda: tf.train.LBFGS().minimize(lambda: tf.reduce_sum(x**2), [x])):
        with pytest.raises(RuntimeError, match="call it outside"):
            inside(call)()


def keras_functions_in_graphs() -> None:
    with tf.Graph().as_default():
        y = tf.compat.v1.placeholder(tf.float32, [None, 1])
        refused(lambda: tf.keras.ops.mean(tf.keras.ops.square(y)), ValueError)()
        refused(lambda: tf.keras.losses.mean_squared_error(y, y), ValueError)()


def imported_by_name() -> None:
    from gradtape.linalg import normalize

    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 2])
        with pytest.raises(ValueError, match="attribute of the module"):
            normalize(x)


def constants() -> None:
    x = tf.Variable(["1.5"], dtype=tf.string)
    with tf.GradientTape() as tape:
        y = tf.strings.to_number(x)
    assert tape.gradient(y, x) is None


def implicit_method() -> Any:
    return tf.autodiff.odeint(lambda t, y: -y, tf.constant(1.0), [0.0, 1.0], method="radau")


def complex_root() -> Any:
    return tf.autodiff.root(lambda x: x * x + 1.0, tf.constant(1.0 + 1.0j))


def no_server() -> None:
    server = tf.distribute.Server.create_local_server(start=False)
    refused(server.join, tf.errors.UnimplementedError)()


class Pair(tf.experimental.ExtensionType):
    values: tf.Tensor


def not_dispatched() -> None:
    refused(lambda: tf.linalg.inv(Pair(tf.eye(2))), ValueError, TypeError)()


def limit_of_unknown_shapes() -> None:
    def gradient(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape(memory_limit="1MB") as tape:
            tape.watch(x)
            y = tf.reduce_sum(mask(x) ** 2)
        return tape.gradient(y, x)

    runs_eagerly(gradient, tf.constant([1.0, -1.0]))


def spill_inside() -> None:
    def gradient(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape(memory_limit="1MB", spill="disk") as tape:
            tape.watch(x)
            y = tf.reduce_sum(x**2)
        return tape.gradient(y, x)

    runs_eagerly(gradient, tf.constant([1.0, -1.0]))


def inverse_of_rows() -> Any:
    return tf.linalg.inv(tf.ragged.constant([[1.0, 2.0], [3.0]]))


def called_every_time() -> None:
    calls = []

    def called(x: Any) -> Any:
        calls.append(1)
        return x

    function = tf.function(lambda x: tf.ensure_shape(tf.numpy_function(called, [x], tf.float32, stateful=False), []))
    for _ in range(3):
        function(tf.constant(1.0))
    assert len(calls) == 3


def array_gradient() -> Any:
    return tf.TensorArray(tf.float32, 1).grad("source")


def only(function: Callable[..., Any], *values: Any, differentiable: int | None = None) -> Callable[[], None]:
    """A check that only one argument of a function, or none, has a gradient."""

    def check() -> None:
        sources = [tf.Variable(value) for value in values]
        with tf.GradientTape() as tape:
            y = function(*sources)
        found = [i for i, g in enumerate(tape.gradient(y, sources)) if g is not None]
        assert found == ([] if differentiable is None else [differentiable])

    return check


def pivoting() -> None:
    bands = tf.constant([[1.0, 2.0, 0.0], [1e-8, 1.0, 3.0], [0.0, 1.0, 2.0]])
    found = [tf.linalg.tridiagonal_solve(bands, tf.ones([3]), partial_pivoting=on).numpy() for on in (True, False)]
    np.testing.assert_array_equal(found[0], found[1])


def singular_system() -> None:
    with np.errstate(all="ignore"):
        found = tf.linalg.tridiagonal_solve(tf.zeros([3, 2]), tf.ones([2]), perturb_singular=True)
    assert np.isnan(found.numpy()).all()


def threefry() -> Any:
    return tf.random.Generator.from_seed(1, alg="threefry").normal([2])


def without_cpu() -> None:
    tf.config.set_visible_devices([], "CPU")


def shared() -> Any:
    column = tf.feature_column.categorical_column_with_identity("word", 3)
    return tf.feature_column.shared_embeddings([column], 2)


def gradient_of_const() -> None:
    only(tf.guarantee_const, 0.5)()
