"""Devices and engines: where tensors are made, and what happens when those of two devices meet.

Several devices on one processor stand for GPUs: JAX can be told to have more than one, in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import devices
from gradtape._src.variable import read

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="needs JAX")
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def run(code: str, **environment: str) -> dict:
    """Run code in a process of its own; it leaves its answers in the dict `out`."""
    program = f"import json, gradtape as tf, numpy as np\nout = {{}}\n{textwrap.dedent(code)}\nprint(json.dumps(out))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_arrays_are_not_jaxs_while_another_thread_imports_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))  # as it is at the start of its import
    assert not devices.is_jax_array(np.ones(3))


# -- names -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "device"),
    [
        ("/CPU:0", ("CPU", 0)),
        ("CPU:0", ("CPU", 0)),
        ("cpu", ("CPU", 0)),
        ("/GPU:1", ("GPU", 1)),
        ("gpu:2", ("GPU", 2)),
        ("/device:GPU:0", ("GPU", 0)),
        ("/device:GPU:*", ("GPU", 0)),
        ("/job:localhost/replica:0/task:0/device:GPU:3", ("GPU", 3)),
        ("/job:localhost/replica:0/task:0", None),
        ("", None),
    ],
)
def test_names(spec, device):
    found = devices.parse(spec)
    assert found == (None if device is None else devices.Device(*device))


@pytest.mark.parametrize("spec", ["/GPU:one", "GPU:0:1", "///", "the fast one"])
def test_bad_names(spec):
    with pytest.raises(ValueError, match="parsing the device spec"):
        tf.device(spec)


def test_functions_and_other_things_are_refused():
    with pytest.raises(RuntimeError, match="does not support functions"):
        tf.device(lambda op: "/CPU:0")
    with pytest.raises(ValueError, match="device name"), tf.device(3):  # as in TensorFlow, when it is entered
        pass


# -- a machine with a processor only ---------------------------------------------------------------------------------
def test_the_processor_is_numpys():
    with tf.device("/CPU:0"):
        x = tf.constant([1.0, 2.0])
        v = tf.Variable([1.0])
    assert x.device == v.device == (x + 1.0).device == CPU
    assert isinstance(x.array, np.ndarray)
    assert x.cpu() is x


def test_a_device_that_is_not_there():
    with tf.device("/GPU:7"):  # soft placement is on, as in TensorFlow
        assert tf.constant(1.0).device == CPU
    assert tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    try:
        says = r"Could not satisfy.*GPU:7.*placement=0.*CPU:0\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=says), tf.device("/GPU:7"):
            pass
    finally:
        tf.config.set_soft_device_placement(True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not satisfy"):
        tf.constant(1.0).gpu(7)


def test_questions_about_the_processor_do_not_start_jax():
    out = run(
        """
        import sys
        tf.config.list_physical_devices("CPU"), tf.config.list_logical_devices("CPU")
        with tf.device("/CPU:0"):
            tf.constant(1.0) + 1.0
        out["jax"] = "jax" in sys.modules
        """
    )
    assert out == {"jax": False}


def test_without_jax():
    out = run(
        """
        import sys
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("jax", "jaxlib"):
                    raise ModuleNotFoundError(name)
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name == "jax" else find(name, package)
        sys.meta_path.insert(0, Missing())
        out["devices"] = [d.name for d in tf.config.list_physical_devices()]
        out["logical"] = [d.name for d in tf.config.list_logical_devices()]
        out["gpu"] = [tf.test.is_gpu_available(), tf.test.gpu_device_name(), tf.test.is_built_with_xla()]
        with tf.device("/GPU:0"):
            out["placed"] = tf.constant(1.0).device
        try:
            tf.config.set_engine("xla")
        except ImportError as error:
            out["says"] = str(error)
        """
    )
    assert out["devices"] == ["/physical_device:CPU:0"]
    assert out["logical"] == ["/device:CPU:0"]
    assert out["gpu"] == [False, "", False]
    assert out["placed"] == CPU
    assert "pip install" in out["says"]


def test_configuration():
    experimental = tf.config.experimental
    (cpu,) = tf.config.list_physical_devices("CPU")
    assert experimental.get_device_policy() == "silent"
    with pytest.raises(ValueError, match="not a valid policy"):
        experimental.set_device_policy("loud")
    with pytest.raises(ValueError, match="Memory use is not available for 'CPU:0'"):
        experimental.get_memory_info("CPU:0")
    assert experimental.get_device_details(cpu) == {}
    assert tf.config.get_logical_device_configuration(cpu) is None
    with pytest.raises(ValueError, match="memory limit on CPU"):
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration(memory_limit=10)])
    with pytest.raises(ValueError, match="is not possible: CPU memory is always allocated as needed"):
        experimental.set_memory_growth(cpu, False)
    tf.config.threading.set_intra_op_parallelism_threads(3)
    assert tf.config.threading.get_intra_op_parallelism_threads() == 3
    tf.config.threading.set_intra_op_parallelism_threads(0)
    with pytest.raises(ValueError, match="Unknown engine"):
        tf.config.set_engine("torch")


# -- the XLA engine --------------------------------------------------------------------------------------------------
@pytest.fixture
def xla():
    tf.config.set_engine("xla")
    yield
    tf.config.set_engine("numpy")


@needs_jax
def test_the_engine_is_chosen_for_new_tensors(xla):
    import jax

    assert tf.config.get_engine() == "xla"
    x = tf.constant([1.0, 2.0])
    for made in (x, tf.zeros([2]), tf.range(3), tf.Variable([1.0]).value(), tf.square([1.0]), tf.add(1.0, [2.0])):
        assert isinstance(made.array, jax.Array)
        assert made.device == CPU
    for computed in (2.0 * x, x + np.ones(2, np.float32), tf.reduce_sum(x), x[0], tf.stack([x, [3.0, 4.0]])):
        assert isinstance(computed.array, jax.Array)
    assert isinstance(tf.constant("text").array, np.ndarray)
    tf.config.set_engine("numpy")
    assert isinstance(tf.constant(1.0).array, np.ndarray)
    assert (tf.constant([1.0, 1.0]) + x).numpy().tolist() == [2.0, 3.0]


@needs_jax
def test_memory_of_the_user_is_never_shared(xla):
    given = np.zeros(1000, np.float32)
    x, v = tf.constant(given), tf.Variable(given)
    given[:] = 1.0
    assert not x.numpy().any()
    assert not v.numpy().any()
    out = x.numpy()
    out[:] = 2.0
    assert not x.numpy().any()


@needs_jax
def test_variables_stay_what_they_are(xla):
    import jax

    v = tf.Variable([1.0, 2.0])
    tf.config.set_engine("numpy")
    w = tf.Variable([1.0, 2.0])
    for change in (lambda a, b: a.assign(b + 1.0), lambda a, b: a.assign_add(b), lambda a, b: a.assign_sub([1.0, 1.0])):
        change(v, w)
        change(w, v)
        assert isinstance(read(v).array, jax.Array)
        assert isinstance(read(w).array, np.ndarray)
    v.scatter_update(tf.IndexedSlices([5.0], [0]))
    v[1].assign(7.0)
    assert v.numpy().tolist() == [5.0, 7.0]


@needs_jax
def test_gradients_on_the_engine(xla):
    import jax

    x, w = tf.constant([[1.0, 2.0]]), tf.Variable([[1.0], [2.0]])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(tf.tanh(x @ w) ** 2)
    assert isinstance(tape.gradient(y, w).array, jax.Array)
    zeros = tape.gradient(tf.constant(1.0), w, unconnected_gradients="zero")
    assert isinstance(zeros.array, jax.Array)


@needs_jax
def test_the_environment_chooses_the_engine():
    code = """
    out["engine"] = tf.config.get_engine()
    out["type"] = type(tf.constant(1.0).array).__module__.split(".")[0]
    """
    assert run(code, GRADTAPE_ENGINE="xla") == {"engine": "xla", "type": "jaxlib"}
    assert run(code, GRADTAPE_ENGINE="numpy") == {"engine": "numpy", "type": "numpy"}


# -- two devices -----------------------------------------------------------------------------------------------------
TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@needs_jax
def test_two_devices():
    out = run(
        """
        tf.config.list_logical_devices()
        out["there"] = [d.name for d in tf.config.list_logical_devices("CPU")]
        with tf.device("/CPU:1"):
            x = tf.constant([1.0, 2.0])
            v = tf.Variable([3.0, 4.0])
            with tf.device("/CPU:0"):
                inner = tf.constant(1.0)
            with tf.device(None):
                free = tf.constant(1.0)
            again = tf.constant(1.0)
        outside = tf.constant([5.0, 6.0])
        names = {"x": x, "v": v, "inner": inner, "free": free, "again": again, "outside": outside}
        out["at"] = {name: t.device[-5:] for name, t in names.items()}
        out["ops"] = [t.device[-5:] for t in (x * 2.0, v + x, tf.exp(x), tf.reduce_sum(x * [1.0, 2.0]))]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, outside])
            y = tf.reduce_sum(v * outside) + tf.reduce_sum(tf.stack([x, outside]))
        out["mixed"] = float(y)
        for name, source in (("v", v), ("x", x), ("outside", outside)):
            d = tape.gradient(y, source)
            out["d" + name] = [d.device[-5:], d.numpy().tolist()]
        with tf.device("/CPU:1"):
            moved = tf.identity(outside)
            w = tf.Variable(outside)
        out["moved"] = [moved.device[-5:], w.device[-5:], x.cpu().device[-5:], type(x.cpu().array).__name__]
        v.assign(outside)
        v.assign_add(outside)
        out["assigned"] = [v.device[-5:], v.numpy().tolist()]
        """,
        **TWO,
    )
    assert out["there"] == ["/device:CPU:0", "/device:CPU:1"]
    assert out["at"] == {
        "x": "CPU:1",
        "v": "CPU:1",
        "inner": "CPU:0",
        "free": "CPU:0",
        "again": "CPU:1",
        "outside": "CPU:0",
    }
    assert out["ops"] == ["CPU:1"] * 4
    assert out["mixed"] == 53.0
    assert out["dv"] == ["CPU:1", [5.0, 6.0]]
    assert out["dx"] == ["CPU:1", [1.0, 1.0]]
    assert out["doutside"] == ["CPU:0", [4.0, 5.0]]
    assert out["moved"] == ["CPU:1", "CPU:1", "CPU:0", "ndarray"]
    assert out["assigned"] == ["CPU:1", [10.0, 12.0]]


@needs_jax
def test_policies():
    out = run(
        """
        import logging
        with tf.device("/CPU:1"):
            x = tf.constant([1.0])
        y, n = tf.constant([2.0]), tf.constant([2])
        policy = tf.config.experimental.set_device_policy
        policy("explicit")
        calls = {"add": lambda: y + x, "stack": lambda: tf.stack([x, y]), "gather": lambda: tf.gather(x, n - 2)}
        for name, call in calls.items():
            try:
                call()
            except tf.errors.InvalidArgumentError as error:
                out[name] = str(error)
        out["constants"] = [(x * 2.0).device[-5:], tf.gather(x, [0]).device[-5:]]
        with tf.device("/CPU:1"):
            out["identity"] = (tf.identity(y) + x).device[-5:]
        policy("silent_for_int32")
        out["int32"] = tf.gather(x, n - 2).numpy().tolist()
        policy("warn")
        said = []
        logging.getLogger("tensorflow").addFilter(lambda record: said.append(record.getMessage()) or False)
        y + x
        out["warned"] = said
        policy(None)
        out["silent"] = (y + x).numpy().tolist()
        """,
        **TWO,
    )
    assert "Tensors on conflicting devices: cannot compute AddV2 as input #1" in out["add"]
    assert "tf.identity(x)" in out["stack"]
    assert "GatherV2" in out["gather"]
    assert out["constants"] == ["CPU:1", "CPU:1"]
    assert out["identity"] == "CPU:1"
    assert out["int32"] == [1.0]
    assert len(out["warned"]) == 1
    assert out["silent"] == [3.0]


@needs_jax
def test_the_processor_divided():
    out = run(
        """
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
        out["count"] = len(tf.config.get_logical_device_configuration(cpu))
        tf.config.list_logical_devices()
        out["there"] = len(tf.config.list_logical_devices("CPU"))
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        except RuntimeError as error:
            out["late"] = str(error)
        """
    )
    assert out == {"count": 3, "there": 3, "late": "Virtual devices cannot be modified after being initialized"}


@needs_jax
def test_each_thread_has_its_own_device():
    out = run(
        """
        import threading
        entered, looked = threading.Event(), threading.Event()
        def other():
            with tf.device("/CPU:1"):
                entered.set()
                looked.wait(60)
                out["there"] = tf.constant(1.0).device[-5:]
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(60)
        out["here"] = tf.constant(1.0).device[-5:]
        looked.set()
        thread.join()
        """,
        **TWO,
    )
    assert out == {"here": "CPU:0", "there": "CPU:1"}


# -- the default device ----------------------------------------------------------------------------------------------
@needs_jax
def test_floating_point_tensors_go_to_the_default_device():
    """A second logical CPU stands for a GPU."""
    out = run(
        """
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        x, v = tf.constant([1.0, 2.0]), tf.Variable([3.0, 4.0])
        f = tf.function(lambda x: x * v)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(f(x) * tf.gather(x, [1, 0]))
        with tf.device("/CPU:0"):
            host = tf.constant(1.0)
        batch = next(iter(tf.data.Dataset.from_tensor_slices([[1.0], [2.0]]).map(lambda x: x * 2.0).batch(2)))
        drawn = tf.function(lambda: tf.random.normal([2]))()
        placed = {
            "constant": x, "variable": v, "op": x * 2.0, "function": f(x), "gradient": tape.gradient(y, v),
            "batch": batch, "drawn": drawn, "integers": tf.constant([1, 2]), "shape": tf.shape(x),
            "text": tf.constant("a"), "truth": tf.constant(True), "host": host,
            "cast": tf.cast(tf.constant([1]), tf.float32),
        }
        out.update({name: tensor.device[-5:] for name, tensor in placed.items()})
        out["values"] = [tape is not None, f(x).numpy().tolist(), float(y)]
        """,
        GRADTAPE_DEVICE="CPU:1",
    )
    assert out.pop("values") == [True, [3.0, 8.0], 14.0]
    on_host = {name for name, device in out.items() if device == "CPU:0"}
    assert on_host == {"integers", "shape", "text", "truth", "host"}
    assert {out[name] for name in out.keys() - on_host} == {"CPU:1"}


@needs_jax
def test_a_hidden_device_is_not_the_default():
    out = run(
        """
        from gradtape._src import devices

        class Gpu:
            platform, id = "gpu", 0

        gpu, moved = Gpu(), []
        devices.jax_devices = lambda kind: [gpu] if kind == "GPU" else []
        devices._may_have_accelerator = lambda: True
        devices._forget_default()
        out["before"] = devices.default_device().kind
        tf.config.set_visible_devices([], "GPU")
        out["after"] = [devices.default_device().kind, tf.constant(1.0).device[-5:]]
        """
    )
    assert out == {"before": "GPU", "after": ["CPU", "CPU:0"]}


def test_without_an_accelerator_jax_is_not_imported():
    out = run("import sys; out['jax'] = (tf.constant(1.0) + 1.0) is not None and 'jax' in sys.modules")
    assert out == {"jax": False}


@needs_jax
def test_a_default_device_that_is_not_there_falls_back_to_the_processor():
    out = run("out['device'] = tf.constant(1.0).device[-5:]", GRADTAPE_DEVICE="GPU:3")
    assert out == {"device": "CPU:0"}
