"""`tensorflow.python.*` under the alias: a table of public names."""

from __future__ import annotations

import collections
import subprocess
import sys

import pytest

import gradtape as tf
from gradtape._src.hooks import private_names, tensorflow_python
from gradtape._src.reasons import missing_sentence

LATER = {"saved_model.load", "saved_model.save", "ops.template", "ops.rnn"}
"""Modules whose names wait for namespaces that gradtape does not have yet."""


@pytest.mark.parametrize("path", sorted(set(tensorflow_python.TABLE) - LATER))
def test_every_entry_of_the_table_leads_to_something(path):
    for where in tensorflow_python.TABLE[path].split():
        public = where.partition("=")[2] or where
        if public.startswith(("tf.keras", "tf.compat.v1.flags", "tf.compat.v1.app")):
            continue  # of packages that may be missing
        assert tensorflow_python._public(public) is not None, where


def _resolved(dotted):
    """The object with a public name, or None."""
    found = tf
    for part in dotted.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def test_every_exported_name_is_found_where_tensorflow_defines_it():
    import importlib.util

    public_names = 0
    for module in private_names.modules():
        own_module = tensorflow_python.find(module)
        if module.startswith("autograph.") and importlib.util.find_spec("malt") is not None:
            continue  # modules of malt, which has its own objects
        for name, public in private_names._names(module).items():
            expected = _resolved(public)
            if expected is not None and name != "flags":
                assert getattr(own_module, name) is expected, (module, name)
                public_names += 1
    assert public_names > 1000


def test_every_exported_name_that_is_missing_has_a_reason():
    public = {p for module in private_names.modules() for p in private_names._names(module).values()}
    silent = [p for p in public if _resolved(p) is None and missing_sentence(p) is None]
    assert sorted(silent) == ["tf.experimental.numpy.newaxis", "tf.newaxis"]  # which are None
    with pytest.raises(AttributeError, match=r"dynamic_rnn is not in gradtape: use tf\.keras\.layers\.RNN"):
        _ = tf.compat.v1.nn.dynamic_rnn


def test_generated_modules_have_raw_ops_with_positional_arguments():
    math, nn = tensorflow_python.find("ops.gen_math_ops"), tensorflow_python.find("ops.gen_nn_ops")
    assert math.add_v2([1.0], [2.0]).numpy().tolist() == [3.0]
    assert math._sum([[1.0, 2.0]], [1], keep_dims=True).numpy().tolist() == [[3.0]]
    assert math.Sum is tf.raw_ops.Sum
    assert nn.conv2d(tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 1, 1]), [1, 1, 1, 1], "SAME").shape == [1, 2, 2, 1]
    x = tf.constant([-1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nn.relu6(x)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0]
    with pytest.raises(TypeError, match=r"add_v2\(\) takes 3 positional arguments but 4 were given"):
        math.add_v2(1.0, 2.0, "name", 3)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        math.add_v2(1.0, x=2.0)
    with pytest.raises(AttributeError, match="private code"):
        _ = math.nothing


def test_programs_import_private_modules():
    program = """
import gradtape
gradtape.install_as_tensorflow()
import tensorflow as tf
import tensorflow.python.ops.math_ops as m
from tensorflow.python.framework import ops, dtypes, tensor_shape
from tensorflow.python.framework.ops import convert_to_tensor
from tensorflow.python.ops import array_ops, control_flow_ops, gen_math_ops
from tensorflow.python.eager import backprop, context
from tensorflow.python.client import device_lib
from tensorflow.python.util import nest
assert array_ops.concat is tf.concat and m.reduce_sum is tf.reduce_sum and gen_math_ops.mat_mul is tf.matmul
assert ops.EagerTensor is tf.Tensor and dtypes.float32 is tf.float32 and convert_to_tensor is tf.convert_to_tensor
assert backprop.GradientTape is tf.GradientTape and context.executing_eagerly() and nest.flatten is tf.nest.flatten
assert tensor_shape.as_shape([1]).rank == 1 and control_flow_ops.cond is tf.cond
assert device_lib.list_local_devices()[0].device_type == 'CPU'
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("import tensorflow.python.pywrap_tensorflow", "TensorFlow's private code"),
        ("import tensorflow.python.ops.nothing", "TensorFlow's private code"),
        ("import tensorflow.core.framework", "TensorFlow's private code"),
        ("import tensorflow.contrib", "tf.contrib is not in gradtape: it was removed in TensorFlow 2"),
        ("import tensorflow.estimator", "tf.estimator is not in gradtape: it was removed"),
        ("import tensorflow.summry", "Did you mean 'tensorflow.summary'"),
        ("import tensorflow as t; t.contrib", "tf.contrib is not in gradtape"),
        (
            "import tensorflow as t; t.placeholder",
            "tf.placeholder is a TensorFlow 1 name: use tf.compat.v1.placeholder",
        ),
        ("from tensorflow.python.ops import array_ops; array_ops.nothing", "TensorFlow's private code"),
        (
            "from tensorflow.python.compiler.mlir import mlir; mlir.convert_function",
            "tf.mlir.experimental.convert_function is not in gradtape: for TensorFlow's own graphs",
        ),
    ],
)
def test_what_is_missing_says_so(statement, words):
    tf.install_as_tensorflow()
    try:
        with pytest.raises((ImportError, AttributeError), match=words):
            exec(statement, {})
    finally:
        from gradtape._src.hooks.tensorflow import uninstall_as_tensorflow

        uninstall_as_tensorflow()


def test_settings_are_read_where_libraries_read_them():
    import gradtape as tf
    from gradtape._src.hooks.tensorflow_python import find

    context, config = find("eager.context"), find("framework.config")
    tf.random.set_seed(5)
    assert context.global_seed() == 5
    tf.random.set_seed(None)
    assert context.global_seed() is None
    before = tf.config.optimizer.get_jit()
    config.enable_op_determinism()
    assert config.is_op_determinism_enabled()
    config.disable_op_determinism()
    assert not config.is_op_determinism_enabled()
    assert tf.config.optimizer.get_jit() == before


def test_sizes_of_convolutions_are_those_of_keras_2():
    from gradtape._src.hooks.tensorflow_python import find

    sizes = find("keras.utils.conv_utils")
    assert sizes.normalize_tuple((3, 5), 2, "kernel_size") == (3, 5)
    with pytest.raises(ValueError, match="tuple of 2 integers"):
        sizes.normalize_tuple((3, 5, 7), 2, "kernel_size")
    assert sizes.conv_output_length(10, 3, "valid", 1, dilation=2) == 6
    assert find("keras.utils").to_categorical is not None


def test_limits_of_dtypes_take_tensorflows():
    import gradtape as tf

    tnp = tf.experimental.numpy
    assert tnp.finfo(tf.float16).eps == tnp.finfo("float16").eps
    assert tnp.iinfo(tf.int8).max == 127
    assert tnp.issubdtype(tf.int32, tnp.int32)


def test_walks_over_structures_with_paths():
    nest = tensorflow_python.find("util.nest")
    Point = collections.namedtuple("Point", "x y")
    tree = {"b": [1, (2, 3)], "a": Point(4, 5)}
    assert list(nest.yield_flat_paths(tree)) == [("a", "x"), ("a", "y"), ("b", 0), ("b", 1, 0), ("b", 1, 1)]
    assert nest.flatten_with_joined_string_paths(tree)[0] == ("a/x", 4)
    assert nest.map_structure_with_tuple_paths(lambda path, x: (path[0], x), [1, [2]]) == [(0, 1), [(1, 2)]]
    assert nest.map_structure_up_to({"a": 0, "b": 0}, len, tree) == {"a": 2, "b": 2}
    assert nest._sequence_like(Point(0, 0), [1, [2]]) == Point(1, [2])
    assert next(nest._yield_value(tree)) == Point(4, 5)
    assert nest.get_traverse_shallow_structure(lambda s: not isinstance(s, tuple), tree) == {
        "a": False,
        "b": [True, False],
    }
    nest.assert_shallow_structure([0, 0], [1, [2, 3]])
    for shallow, whole, error, text in (
        ([0, 0], 1, TypeError, "input must also be a sequence"),
        ([0, 0], [1], ValueError, "same sequence length"),
        ([0, 0], (1, 2), TypeError, "same sequence type"),
        ({"a": 0}, {"b": 1}, ValueError, "same keys"),
    ):
        with pytest.raises(error, match=text):
            nest.assert_shallow_structure(shallow, whole)
    nest.assert_shallow_structure([0, 0], (1, 2), check_types=False)


def test_small_private_functions(caplog):
    deprecation = tensorflow_python.find("util.deprecation")
    old = deprecation.deprecated_alias("old", "new", abs, warn_once=False)
    with deprecation.silence():
        assert old(-1) == 1
    assert not caplog.records
    inspect = tensorflow_python.find("util.tf_inspect")
    assert inspect.getfullargspec(tf.rank) == inspect.getfullargspec(lambda input, name=None: None)
    sizes = tensorflow_python.find("framework.tensor_util").constant_value_as_shape
    assert sizes(tf.constant([2, -1])).as_list() == [2, None]
    case = tensorflow_python.find("ops.control_flow_case")._case_helper
    pairs = [(False, lambda: 1), (True, lambda: 2)]
    choose = lambda pred, true_fn, false_fn: true_fn() if pred else false_fn()  # noqa: E731
    assert case(choose, pairs, lambda: 3, False, None) == 2
    assert case(choose, pairs[:1], lambda: 3, False, None) == 3
    draw = tensorflow_python.find("ops.random_ops").parameterized_truncated_normal
    numbers = draw([200], 1.0, 2.0, 0.5, 0.75, seed=1).numpy()
    assert (numbers >= 0.5).all()
    assert (numbers <= 0.75).all()
    operators = [tf.linalg.LinearOperatorIdentity(2), tf.linalg.LinearOperatorDiag([1.0, 2.0])]
    (total,) = tensorflow_python.find("ops.linalg.linear_operator_addition").add_operators(operators)
    assert total.to_dense().numpy().tolist() == [[2.0, 0.0], [0.0, 3.0]]


def test_objects_by_identity():
    objects = tensorflow_python.find("util.object_identity")
    a, b = tf.constant(1.0), tf.constant(1.0)
    found = objects.ObjectIdentitySet([a, b, a])
    assert len(found) == 2
    found.discard(a)
    found.discard(a)
    assert list(found) == [b]
    assert a not in found
    found.update([a, b])
    assert {id(each) for each in found.intersection([a])} == {id(a)}
    assert {id(each) for each in found.difference([a])} == {id(b)}
    names = objects.ObjectIdentityDictionary([(a, "a")])
    names[b] = "b"
    assert names[a] + names[b] == "ab"
    del names[a]
    assert a not in names
    with pytest.raises(KeyError):
        names[a]


def test_functions_of_older_programs():
    assert tensorflow_python.find("util.tf_inspect").getargspec(lambda a, b=2, *c, **d: 0).keywords == "d"
    data = tensorflow_python.find("keras.engine.data_adapter")
    assert data.expand_1d([tf.zeros([3]), tf.zeros([2, 2])])[0].shape == [3, 1]
    assert data.unpack_x_y_sample_weight((1, 2)) == (1, 2, None)
    helper = tensorflow_python.find("ops.tensor_getitem_override")._slice_helper_var
    assert helper(tf.Variable([1, 2, 3]), slice(1, None)).numpy().tolist() == [2, 3]


def test_autograph_is_malts():
    pytest.importorskip("malt")
    parser = tensorflow_python.find("autograph.pyct.parser")
    assert parser.__name__ == "malt.pyct.parser"
    assert tensorflow_python.find("autograph.pyct.nothing") is None


def test_keras_2_is_keras_3():
    pytest.importorskip("keras")
    program = """
import gradtape
gradtape.install_as_tensorflow()
import tf_keras
import tf_keras.api._v1.keras as v1
import tf_keras.api._v1.keras.__internal__.legacy.layers as old
from tf_keras.layers import Dense
from tf_keras import *
import tensorflow as tf
assert Dense is tf.keras.layers.Dense is v1.layers.Dense is layers.Dense and tf_keras.__version__.startswith("3.")
class Own(tf_keras.optimizers.Optimizer):
    def __init__(self, gamma, name="Own"):
        super().__init__(name, 0, 1.0)
        self.gamma = gamma
assert (Own(0.5).name, Own(0.5).clipnorm) == ("Own", 1.0) and isinstance(Own(0.5), tf.keras.optimizers.Optimizer)
assert isinstance(tf_keras.optimizers.Adam(), v1.optimizers.Optimizer) and issubclass(Own, v1.optimizers.Optimizer)
assert not isinstance(tf_keras.optimizers.Adam(), Own) and not isinstance(1, tf_keras.optimizers.Optimizer)
for missing in (lambda: old.dense, lambda: tf_keras.nothing):
    try:
        missing()
    except AttributeError as error:
        assert "tf_keras is Keras 2; gradtape provides Keras 3 instead" in str(error)
    else:
        raise AssertionError
try:
    import tf_keras.nothing
except ModuleNotFoundError as error:
    assert "tf_keras.nothing" in str(error)
from gradtape._src.hooks.tensorflow import uninstall_as_tensorflow
uninstall_as_tensorflow()
import sys
assert not any(name.partition(".")[0] == "tf_keras" for name in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_whether_a_tape_records():
    tape_module = tensorflow_python.find("eager.tape")
    x, v = tf.constant(1.0), tf.Variable(2.0)
    assert not tape_module.could_possibly_record()
    with tf.GradientTape() as tape:
        assert tape_module.could_possibly_record()
        assert not tape_module.should_record_backprop([x])
        assert tape_module.should_record_backprop([x, tf.convert_to_tensor(v)])
        tape.watch(x)
        assert tape_module.should_record_backprop([x * 2.0])
        assert not tape_module.should_record_backprop([tf.stop_gradient(x)])
        with tape.stop_recording():
            assert not tape_module.should_record_backprop([x])
    assert not tape_module.should_record_backprop([x])


def test_names_of_keras_that_libraries_use():
    from gradtape._src.hooks.tensorflow import internal_names

    internal = internal_names()

    class Layer:
        @internal.tracking.no_automatic_dependency_tracking
        def build(self, size):
            return size

    assert Layer().build(3) == 3


@pytest.mark.parametrize(
    ("path", "name", "public"),
    [
        ("keras.layers", "Dense", "layers.Dense"),
        ("keras.layers", "Layer", "layers.Layer"),
        ("keras.layers.core", "Dense", "layers.Dense"),
        ("keras.layers.recurrent", "LSTM", "layers.LSTM"),
        ("keras.layers.convolutional", "Conv2D", "layers.Conv2D"),
        ("keras.engine.base_layer", "Layer", "layers.Layer"),
        ("keras.engine.input_spec", "InputSpec", "layers.InputSpec"),
        ("keras.engine.training", "Model", "Model"),
        ("keras.optimizers", "Adam", "optimizers.Adam"),
        ("keras.optimizer_v2.adam", "Adam", "optimizers.Adam"),
        ("keras.optimizer_v2.learning_rate_schedule", "ExponentialDecay", "optimizers.schedules.ExponentialDecay"),
        ("keras.models", "Sequential", "models.Sequential"),
        ("keras.utils.np_utils", "to_categorical", "utils.to_categorical"),
        ("keras.utils.vis_utils", "plot_model", "utils.plot_model"),
    ],
)
def test_classes_of_keras_are_found_where_programs_import_them(path, name, public):
    found = tf.keras
    for part in public.split("."):
        found = getattr(found, part)
    assert getattr(tensorflow_python.find(path), name) is found
