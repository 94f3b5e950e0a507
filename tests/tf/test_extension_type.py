"""`tf.experimental.ExtensionType`, and functions that are registered for classes."""

from __future__ import annotations

import pickle
import typing

import numpy as np
import pytest

import gradtape as tf


class Masked(tf.experimental.ExtensionType):
    values: tf.Tensor
    mask: tf.Tensor
    name: str = "m"

    def __validate__(self):
        self.values.shape.assert_is_compatible_with(self.mask.shape)


class Point(tf.experimental.BatchableExtensionType):
    x: tf.Tensor
    y: tf.Tensor


class Many(tf.experimental.ExtensionType):
    ragged: tf.RaggedTensor
    pair: typing.Tuple[tf.Tensor, int]  # noqa: UP006 - as programs write it
    several: typing.Tuple[tf.Tensor, ...]  # noqa: UP006
    named: typing.Mapping[str, tf.Tensor]
    inner: Masked
    number: typing.Union[int, None] = None  # noqa: UP007
    kind: tf.DType = tf.float32


def masked(values=(1.0, 2.0), mask=(True, False), **options):
    return Masked(tf.constant(values), mask, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: masked(mask=[True]), ValueError, "are incompatible"),
        (lambda: Masked(1.0), TypeError, "missing a required argument: 'mask'"),
        (lambda: masked(name=3), TypeError, "name: expected 'str', got 'int'"),
        (lambda: masked(other=3), TypeError, "unexpected keyword argument 'other'"),
        (lambda: setattr(masked(), "name", "n"), AttributeError, "Cannot mutate attribute `name`"),
        (lambda: delattr(masked(), "name"), AttributeError, "Cannot mutate attribute `name`"),
        (lambda: tf.experimental.ExtensionType(), TypeError, "base class"),
        (lambda: tf.convert_to_tensor(masked()), ValueError, "Attempt to convert a value"),
        (lambda: tf.matmul(masked(), masked()), ValueError, "Attempt to convert a value"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("annotation", [list, typing.List[int], typing.Any, np.ndarray])  # noqa: UP006
def test_annotations_that_fields_cannot_have(annotation):
    with pytest.raises(TypeError, match="In field 'x': Unsupported type annotation"):
        type("Bad", (tf.experimental.ExtensionType,), {"__annotations__": {"x": annotation}})


def test_fields_of_all_kinds():
    value = Many(tf.ragged.constant([[1], [2, 3]]), (1.0, 2), [1.0, 2.0], {"a": 3}, masked())
    assert value.pair[1] == 2
    assert [float(x) for x in value.several] == [1.0, 2.0]
    assert int(value.named["a"]) == 3
    assert value.number is None
    leaves = tf.nest.flatten(value, expand_composites=True)
    again = tf.nest.pack_sequence_as(value, leaves, expand_composites=True)
    assert again._type_spec == value._type_spec
    assert again.pair[1] == 2
    same = tf.function(lambda v: Many(v.ragged + 1, v.pair, v.several, v.named, v.inner))(value)
    assert same.ragged.to_list() == [[2], [3, 4]]
    assert same.inner.name == "m"
    assert int(same.named["a"]) == 3


def test_specifications():
    spec = tf.type_spec_from_value(masked())
    assert spec == Masked.Spec(tf.TensorSpec([2]), tf.TensorSpec([2], tf.bool), "m")
    assert spec != Masked.Spec(tf.TensorSpec([2]), tf.TensorSpec([2], tf.bool), "other")
    assert spec.value_type is Masked
    assert spec.is_compatible_with(masked((5.0, 6.0)))
    assert hash(spec) == hash(tf.type_spec_from_value(masked((3.0, 4.0))))


def test_functions_trace_once_for_equal_specifications():
    @tf.function
    def doubled(m):
        return Masked(2.0 * m.values, m.mask, m.name)

    assert doubled(masked()).values.numpy().tolist() == [2.0, 4.0]
    doubled(masked((3.0, 4.0)))
    assert doubled.experimental_get_tracing_count() == 1
    assert doubled(masked(name="z")).name == "z"
    assert doubled.experimental_get_tracing_count() == 2


def test_tapes_and_control_flow():
    m = masked()
    with tf.GradientTape() as tape:
        tape.watch(m.values)
        chosen = tf.cond(tf.constant(True), lambda: m, lambda: masked((5.0, 6.0)))
        y = tf.reduce_sum(chosen.values**2)
    assert tape.gradient(y, m.values).numpy().tolist() == [2.0, 4.0]
    with tf.GradientTape() as tape, pytest.raises(ValueError, match="Type Masked is not supported as a gradient"):
        tape.gradient(tf.constant(1.0), m)


def test_batches():
    points = Point([[1.0], [2.0], [3.0]], [4, 5, 6])
    dataset = tf.data.Dataset.from_tensor_slices(points)
    assert dataset.element_spec == Point.Spec(tf.TensorSpec([1]), tf.TensorSpec([], tf.int32))
    (batch,) = dataset.map(lambda p: Point(p.x + 1.0, p.y)).batch(3)
    assert batch.x.numpy().tolist() == [[2.0], [3.0], [4.0]]
    assert tf.map_fn(lambda p: p.x * 2.0, points, fn_output_signature=tf.float32).numpy().tolist() == [
        [2.0],
        [4.0],
        [6.0],
    ]


def test_equality_and_pickles():
    assert bool(masked() == masked())
    assert not bool(masked() == masked((1.0, 3.0)))
    assert masked() != masked(name="other")
    assert bool(pickle.loads(pickle.dumps(masked())) == masked())


def test_constructors_and_subclasses():
    class Sum(tf.experimental.ExtensionType):
        total: tf.Tensor

        def __init__(self, a, b):
            self.total = tf.constant(a) + b

    class Named(Masked):
        number: int = 3

    assert float(Sum(1.0, 2.0).total) == 3.0
    assert isinstance(Named([1.0], [True]), Masked)
    assert Named([1.0], [True]).number == 3


def test_functions_registered_for_a_class():
    @tf.experimental.dispatch_for_api(tf.concat, {"values": typing.List[Masked]})  # noqa: UP006
    def concat(values, axis):
        return Masked(tf.concat([v.values for v in values], axis), tf.concat([v.mask for v in values], axis))

    @tf.experimental.dispatch_for_api(tf.reduce_sum)
    def reduce_sum(input_tensor: Masked, axis=None, keepdims=False):
        return tf.reduce_sum(tf.where(input_tensor.mask, input_tensor.values, 0.0), axis, keepdims)

    @tf.experimental.dispatch_for_unary_elementwise_apis(Masked)
    def unary(api, x):
        return Masked(api(x.values), x.mask)

    @tf.experimental.dispatch_for_binary_elementwise_apis(Masked, Masked)
    def binary(api, x, y):
        return Masked(api(x.values, y.values), x.mask & y.mask)

    m = masked()
    try:
        assert tf.concat([m, m], 0).values.shape == [4]
        assert float(tf.reduce_sum(m)) == 1.0
        assert tf.exp(m).values.numpy()[0] == pytest.approx(np.e)
        assert tf.cast(m, tf.int32).values.dtype == tf.int32
        assert tf.maximum(m, m).values.numpy().tolist() == [1.0, 2.0]
        assert tf.function(lambda x: tf.add(x, x))(m).values.numpy().tolist() == [2.0, 4.0]
    finally:
        for target in (concat, reduce_sum, unary, binary):
            tf.experimental.unregister_dispatch_for(target)
    with pytest.raises(ValueError, match="Attempt to convert a value"):
        tf.reduce_sum(m)
    with pytest.raises(ValueError, match="was not registered"):
        tf.experimental.unregister_dispatch_for(unary)
    with pytest.raises(ValueError, match="does not match API's signature"):
        tf.experimental.dispatch_for_api(tf.concat, {"x": Masked})(lambda x, axis: x)
