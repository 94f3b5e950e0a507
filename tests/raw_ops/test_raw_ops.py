"""`tf.raw_ops` gives what TensorFlow gave (`recorded.json`), with TensorFlow's rules for calls."""

from __future__ import annotations

import functools
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.raw_ops.definition import definition, names as defined
from gradtape._src.raw_ops.table import HINTS, names, raw_op
from raw_ops import calls

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())


@functools.cache
def all_calls():
    return calls.calls(tf)


def compare(recorded, result):
    if recorded is None:
        assert result is None
    elif isinstance(recorded, list):
        assert len(recorded) == len(result)
        for each, one in zip(recorded, result, strict=True):
            compare(each, one)
    else:
        array = result.numpy() if hasattr(result, "numpy") else result
        assert array.dtype.name == recorded["dtype"]
        assert list(array.shape) == list(recorded["shape"])
        values = np.array(recorded["values"])
        if array.dtype.kind == "c":
            values = values[:, 0] + 1j * values[:, 1] if values.size else values
        if array.dtype.kind in "biuSO":
            assert array.ravel().tolist() == recorded["values"]
        else:
            np.testing.assert_allclose(array.ravel(), values, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_result(case):
    name, _, number = case.rpartition("-")
    kwargs = all_calls()[name][int(number)]
    compare(RECORDED[case], getattr(tf.raw_ops, name)(**kwargs))


# -- the table -------------------------------------------------------------------------------------------------------
def test_every_op_has_a_definition():
    assert names() == sorted(defined())
    assert len(names()) > 450


def test_an_attr_that_is_not_implemented_has_a_default():
    for name in names():
        op = raw_op(name)
        assert not [attr.name for attr in op.fixed if attr.required], name
        assert not op.attrs & HINTS - {"dtype", "element_dtype", "shape", "T", "Tout"}, name


def test_an_attr_that_is_not_implemented_is_refused():
    labels = {"labels_indices": tf.constant([[0, 0]], tf.int64), "labels_values": [1], "sequence_length": [2]}
    with pytest.raises(tf.errors.UnimplementedError, match="CTCLoss with ctc_merge_repeated=False is not in gradtape"):
        tf.raw_ops.CTCLoss(inputs=tf.zeros([2, 1, 3]), ctc_merge_repeated=False, **labels)


def test_names_and_signatures():
    assert tf.raw_ops.AddV2.__name__ == "add_v2"
    assert tf.raw_ops.FusedBatchNormV3.__name__ == "fused_batch_norm_v3"
    assert str(inspect.signature(tf.raw_ops.Unpack)) == "(value, num, axis=0, name=None)"
    assert "MatMul" in dir(tf.raw_ops)
    assert definition("Squeeze").attrs[0].node_name == "squeeze_dims"
    with pytest.raises(AttributeError, match="NoSuchOp"):
        tf.raw_ops.NoSuchOp  # noqa: B018


# -- calls -----------------------------------------------------------------------------------------------------------
X = tf.constant([1.0, 2.0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda r: r.AddV2(X, X), TypeError, r"add_v2 only takes keyword args \(possible keys: \['x', 'y', 'name'\]\)"),
        (lambda r: r.AddV2(x=X), TypeError, r"add_v2\(\) missing 1 required positional argument: 'y'"),
        (lambda r: r.AddV2(), TypeError, r"add_v2\(\) missing 2 required positional arguments: 'x' and 'y'"),
        (lambda r: r.AddV2(x=X, y=X, z=X), TypeError, r"add_v2\(\) got an unexpected keyword argument 'z'"),
        (lambda r: r.AddV2(x=X, y="a"), TypeError, "Cannot convert 'a' to EagerTensor of dtype float"),
        (lambda r: r.AddV2(x=X, y=tf.constant([1, 2])), tf.errors.InvalidArgumentError,
         r"cannot compute AddV2 as input #1\(zero-based\) was expected to be a float tensor but is a int32 tensor"),
        (lambda r: r.AddN(inputs=[X, tf.constant([1, 2])]), tf.errors.InvalidArgumentError, "as input #1"),
        (lambda r: r.AddN(inputs=3), TypeError, "Expected list for 'inputs' argument to 'add_n' Op, not 3."),
        (lambda r: r.Range(start=0.0, limit=2.0, delta=0.5), TypeError,
         "Cannot convert 0.0 to EagerTensor of dtype int32"),
        (lambda r: r.Sum(input=X, axis=0, keep_dims=3), TypeError, "Expected bool for argument 'keep_dims' not 3."),
        (lambda r: r.Unpack(value=X, num=2, axis="a"), TypeError, "Expected int for argument 'axis' not 'a'."),
        (lambda r: r.LeakyRelu(features=X, alpha="a"), TypeError, "Expected float for argument 'alpha' not 'a'."),
        (lambda r: r.Einsum(inputs=[X], equation=3), TypeError, "Expected string for argument 'equation' not 3."),
        (lambda r: r.Cast(x=X, DstT="what"), TypeError, "Expected DataType for argument 'DstT' not 'what'."),
        (lambda r: r.Conv2D(input=X, filter=X, strides=3, padding="SAME"), TypeError,
         "Expected list for 'strides' argument to 'conv2d' Op, not 3."),
        (lambda r: r.EnsureShape(input=X, shape="a"), TypeError, "Error converting shape to a TensorShape"),
        (lambda r: r.Sqrt(x=tf.constant([1])), tf.errors.InvalidArgumentError,
         "Value for attr 'T' of int32 is not in the list of allowed values: bfloat16, half, float, double"),
        (lambda r: r.Conv2D(input=X, filter=X, strides=[1, 1, 1, 1], padding="WHAT"), tf.errors.InvalidArgumentError,
         "Value for attr 'padding' of \"WHAT\" is not in the list of allowed values: \"SAME\", \"VALID\""),
        (lambda r: r.InTopK(predictions=X[None], targets=["a"], k=1), TypeError, "Cannot convert"),
        (lambda r: r.Equal(x=X, y=None), ValueError, "None"),
    ],
)  # fmt: skip
def test_a_wrong_call(call, error, words):
    with pytest.raises(error, match=words):
        call(tf.raw_ops)


def test_plain_values_take_the_type_of_tensors():
    r = tf.raw_ops
    assert r.AddV2(x=[1, 2], y=X).dtype == tf.float32
    assert r.AddV2(x=np.array([1, 2]), y=X).dtype == tf.float32
    assert r.AddV2(x=X, y=tf.Variable([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
    assert r.IdentityN(input=[X, 1])[1].dtype == tf.int32
    assert r.AddN(inputs=X).numpy() == 3.0
    assert r.GatherV2(params=X, indices=np.array([1]), axis=0).numpy().tolist() == [2.0]


def test_the_errors_of_a_trace():
    @tf.function
    def mixed():
        return tf.raw_ops.AddV2(x=X, y=tf.constant([1, 2]))

    with pytest.raises(TypeError, match="Input 'y' of 'AddV2' Op has type int32 that does not match type float32"):
        mixed()


def test_several_outputs_are_a_named_tuple():
    found = tf.raw_ops.TopKV2(input=[1.0, 3.0, 2.0], k=2)
    assert type(found).__name__ == "TopKV2"
    assert found.values.numpy().tolist() == [3.0, 2.0]
    assert found.indices.numpy().tolist() == [1, 2]


# -- effects, lists of tensors, functions ----------------------------------------------------------------------------
def test_variables():
    r, v = tf.raw_ops, tf.Variable([1.0, 2.0, 3.0])
    r.AssignAddVariableOp(resource=v.handle, value=[1.0, 1.0, 1.0])
    r.ResourceScatterAdd(resource=v.handle, indices=[0, 0], updates=[1.0, 1.0])
    r.ResourceScatterNdUpdate(ref=v.handle, indices=[[2]], updates=[9.0])
    assert r.ReadVariableOp(resource=v.handle, dtype=tf.float32).numpy().tolist() == [4.0, 3.0, 9.0]
    assert r.VariableShape(input=v.handle).numpy().tolist() == [3]
    with tf.GradientTape() as tape:
        y = r.ResourceGather(resource=v.handle, indices=[2, 2], dtype=tf.float32)
    assert isinstance(tape.gradient(y, v), tf.IndexedSlices)
    with pytest.raises(tf.errors.InvalidArgumentError, match="wrong dtype"):
        r.ReadVariableOp(resource=v.handle, dtype=tf.float64)


def test_a_step_of_adam():
    var, m, v = tf.Variable([1.0]), tf.Variable([0.0]), tf.Variable([0.0])
    rates = {"beta1_power": 0.9, "beta2_power": 0.999, "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
    tf.raw_ops.ResourceApplyAdam(var=var.handle, m=m.handle, v=v.handle, grad=[0.5], **rates)
    np.testing.assert_allclose([var.numpy()[0], m.numpy()[0], v.numpy()[0]], [0.9, 0.05, 0.00025], rtol=1e-4)


@pytest.mark.parametrize("traced", [False, True])
def test_a_list_of_tensors_in_a_loop(traced):
    r, x = tf.raw_ops, tf.constant([1.0, 2.0, 3.0])

    def squares(x):
        source = r.TensorListFromTensor(tensor=x, element_shape=tf.constant([], tf.int32))
        target = r.TensorListReserve(element_shape=tf.constant([], tf.int32), num_elements=3, element_dtype=tf.float32)

        def body(i, target, source):
            item = r.TensorListGetItem(input_handle=source, index=i, element_shape=tf.constant([], tf.int32),
                                       element_dtype=tf.float32)  # fmt: skip
            return i + 1, r.TensorListSetItem(input_handle=target, index=i, item=item * item), source

        _, target, _ = r.While(input=[tf.constant(0), target, source], cond=lambda i, *_: i < 3, body=body)
        return r.TensorListStack(input_handle=target, element_shape=tf.constant([], tf.int32), element_dtype=tf.float32)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = (tf.function(squares) if traced else squares)(x)
    assert y.numpy().tolist() == [1.0, 4.0, 9.0]
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0, 6.0]


def test_branches():
    r, x = tf.raw_ops, tf.constant(3.0)
    double, halve = (lambda v: v * 2), (lambda v: v / 2)
    assert r.If(cond=x > 1, input=[x], Tout=[tf.float32], then_branch=double, else_branch=halve)[0].numpy() == 6.0
    assert (
        r.If(cond=tf.constant(0), input=[x], Tout=[tf.float32], then_branch=double, else_branch=halve)[0].numpy() == 1.5
    )
    for index, result in ((0, 6.0), (1, 1.5), (9, 1.5), (-1, 1.5)):
        found = r.Case(branch_index=index, input=[x], Tout=[tf.float32], branches=[double, halve])
        assert found[0].numpy() == result


def test_gradients_through_raw_ops_twice():
    x = tf.constant([0.3, -0.7])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.raw_ops.TanhGrad(y=tf.raw_ops.Tanh(x=x), dy=x)
        g = inner.gradient(y, x)
    h = outer.gradient(g, x)
    t, s = np.tanh(x.numpy()), 1 - np.tanh(x.numpy()) ** 2
    np.testing.assert_allclose(g, s - 2 * x * t * s, rtol=1e-5)
    np.testing.assert_allclose(h, -4 * t * s - 2 * x * (s * s - 2 * t * t * s), rtol=1e-4)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"splits": [1, 3]}, "Splits must start with 0, not with 1"),
        ({"splits": [0, 2]}, "Splits must end with the number of values, got 2 instead of 3"),
        ({"splits": np.zeros(0, np.int64)}, "Splits must be non-empty"),
        ({"size": -4}, r"size \(-4\) must be non-negative"),
        ({"values": [1, -1, 2]}, "must be non-negative"),
    ],
)
def test_ragged_counts_refuse_what_is_no_partition(changed, sentence):
    given = {"splits": [0, 3], "values": [1, 2, 2], "size": 4, "weights": tf.constant([], tf.float32)} | changed
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        tf.raw_ops.RaggedBincount(**given)


@pytest.mark.parametrize("kinds", [["ROW_LENGTHS"], ["VALUE_ROWIDS"], ["FIRST_DIM_SIZE"], []])
def test_dense_rows_refuse_unknown_partitions(kinds):
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_partition_types"):
        tf.raw_ops.RaggedTensorToTensor(
            shape=[-1, -1],
            values=[1, 2],
            default_value=0,
            row_partition_tensors=[tf.constant([0, 2], tf.int64)],
            row_partition_types=kinds,
        )


def test_ngrams_without_padding():
    found = tf.raw_ops.StringNGrams(
        data=["a", "b", "c"],
        data_splits=tf.constant([0, 3], tf.int64),
        separator=" ",
        ngram_widths=[1, 2],
        left_pad="",
        right_pad="",
        pad_width=0,
        preserve_short_sequences=False,
    )
    assert found.ngrams.numpy().tolist() == [b"a", b"b", b"c", b"a b", b"b c"]


# -- recurrent networks of cuDNN -------------------------------------------------------------------------------------
def _keras_layers(mode, bidirectional, units):
    keras = tf.keras.layers
    kinds = {"lstm": keras.LSTM, "gru": keras.GRU, "rnn_tanh": keras.SimpleRNN, "rnn_relu": keras.SimpleRNN}
    options = {"return_sequences": True, "return_state": True, "bias_initializer": "random_normal"}
    if mode == "rnn_relu":
        options["activation"] = "relu"
    layers = [kinds[mode](units, **options), kinds[mode](units, go_backwards=True, **options)]
    return layers[: 1 + bidirectional]


def _as_cudnn(mode, weights, units):
    """Keras' weights in cuDNN's order: matrices for each direction, then biases."""
    matrices, biases = [], []
    for kernel, recurrent, bias in weights:
        order = {"lstm": [0, 1, 2, 3], "gru": [1, 0, 2]}.get(mode, [0])
        matrices += [
            np.concatenate([part[:, k * units : (k + 1) * units].T.ravel() for k in order])
            for part in (kernel, recurrent)
        ]
        both = bias if bias.ndim == 2 else np.stack([bias, 0 * bias])
        biases += [np.concatenate([b[k * units : (k + 1) * units] for k in order]) for b in both]
    return np.concatenate([*matrices, *biases])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_cudnn_networks_are_those_of_keras(mode, bidirectional):
    steps, batch, inputs, units = 4, 2, 3, 5
    tf.keras.utils.set_random_seed(0)
    x = tf.random.normal([steps, batch, inputs])
    layers = _keras_layers(mode, bidirectional, units)
    sequences = []
    for layer in layers:
        out = layer(tf.transpose(x, [1, 0, 2]))[0]
        sequences.append(out[:, ::-1] if layer.go_backwards else out)
    expected = tf.transpose(tf.concat(sequences, -1), [1, 0, 2]).numpy()
    params = tf.constant(_as_cudnn(mode, [[np.array(w) for w in layer.weights] for layer in layers], units))
    zero = tf.zeros([len(layers), batch, units])
    with tf.GradientTape() as tape:
        tape.watch(params)
        output, last, _, _ = tf.raw_ops.CudnnRNN(
            input=x,
            input_h=zero,
            input_c=zero,
            params=params,
            rnn_mode=mode,
            direction="bidirectional" if bidirectional else "unidirectional",
        )
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(last[0].numpy(), output[-1, :, :units].numpy())
    assert tape.gradient(output, params).shape == params.shape


def test_layers_of_a_cudnn_network_lie_above_each_other():
    rng = np.random.default_rng(0)
    x, state = tf.constant(rng.normal(size=(3, 2, 4)), tf.float32), tf.constant(rng.normal(size=(2, 2, 5)), tf.float32)
    sizes = [20 * 4, 20 * 5, 20 * 5, 20 * 5, 20, 20, 20, 20]
    parts = [tf.constant(rng.normal(size=n) * 0.3, tf.float32) for n in sizes]

    def network(x, state, parts):
        return tf.raw_ops.CudnnRNN(input=x, input_h=state, input_c=state * 2, params=tf.concat(parts, 0))

    whole = network(x, state, parts)
    below = network(x, state[:1], parts[:2] + parts[4:6])
    above = network(below[0], state[1:], parts[2:4] + parts[6:])
    np.testing.assert_allclose(whole[0].numpy(), above[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(whole[1].numpy(), tf.concat([below[1], above[1]], 0).numpy(), rtol=1e-6)
    np.testing.assert_allclose(whole[2].numpy(), tf.concat([below[2], above[2]], 0).numpy(), rtol=1e-6)


def test_dropout_of_a_cudnn_network_is_refused():
    zero = tf.zeros([1, 1, 1])
    with pytest.raises(tf.errors.UnimplementedError, match=r"CudnnRNN with dropout=0.5 is not in gradtape"):
        tf.raw_ops.CudnnRNN(input=zero, input_h=zero, input_c=zero, params=tf.zeros([16]), dropout=0.5)
