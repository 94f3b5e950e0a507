"""`tf.TypeSpec` and composite tensors of libraries: in structures, functions, loops and branches."""

from __future__ import annotations

import pickle

import pytest

import gradtape as tf
from gradtape._src.hooks.tensorflow_python import find
from gradtape._src.tf import specs


class PairSpec(specs.TypeSpec):
    def __init__(self, shape, dtype, label="pair"):
        self.shape, self.dtype, self.label = tf.TensorShape(shape), tf.as_dtype(dtype), label

    value_type = property(lambda self: Pair)

    def _serialize(self):
        return self.shape, self.dtype, self.label

    @property
    def _component_specs(self):
        return [tf.TensorSpec(self.shape, self.dtype), {"scale": tf.TensorSpec([], self.dtype)}]

    def _to_components(self, value):
        return [value.x, {"scale": value.scale}]

    def _from_components(self, components):
        return Pair(components[0], components[1]["scale"], self.label)


class Pair(specs.CompositeTensor):
    def __init__(self, x, scale, label="pair"):
        self.x, self.scale, self.label = tf.convert_to_tensor(x), tf.convert_to_tensor(scale), label

    @property
    def _type_spec(self):
        return PairSpec(self.x.shape, self.x.dtype, self.label)


def test_structures_take_a_pair_apart():
    pair = Pair([1.0, 2.0], 3.0, "mine")
    assert [t.numpy().tolist() for t in tf.nest.flatten(pair, expand_composites=True)] == [[1.0, 2.0], 3.0]
    assert tf.nest.flatten([pair]) == [pair]
    twice = tf.nest.map_structure(lambda t: t * 2, pair, expand_composites=True)
    assert type(twice) is Pair
    assert (twice.x.numpy().tolist(), float(twice.scale), twice.label) == ([2.0, 4.0], 6.0, "mine")
    assert tf.type_spec_from_value(pair) == pair._type_spec


def test_functions_take_and_return_pairs():
    traces = []

    @tf.function
    def scaled(pair, by):
        traces.append(1)
        return Pair(pair.x * pair.scale * by, pair.scale + 1.0, pair.label)

    x = tf.Variable([1.0, 2.0])
    for _ in range(2):
        with tf.GradientTape() as tape:
            found = scaled(Pair(x, 3.0), tf.constant(2.0))
            y = tf.reduce_sum(found.x)
        assert type(found) is Pair
        assert found.x.numpy().tolist() == [6.0, 12.0]
        assert tape.gradient(y, x).numpy().tolist() == [6.0, 6.0]
    assert len(traces) == 1
    assert float(scaled(Pair([1.0], 1.0), tf.constant(1.0)).scale) == 2.0
    assert len(traces) == 2
    assert scaled(Pair([1.0], 1.0, "other"), tf.constant(1.0)).label == "other"
    assert len(traces) == 3


@pytest.mark.parametrize("compiled", [False, True])
def test_loops_and_branches_carry_pairs(compiled):
    def program(x):
        def body(i, pair):
            return i + 1, Pair(pair.x + pair.scale, pair.scale)

        _, pair = tf.while_loop(lambda i, pair: i < 3, body, (tf.constant(0), Pair(x, 2.0)))
        chosen = tf.cond(pair.x[0] > 0.0, lambda: pair, lambda: Pair(-pair.x, pair.scale))
        return chosen.x

    run = tf.function(program) if compiled else program
    assert run(tf.constant([1.0, -9.0])).numpy().tolist() == [7.0, -3.0]
    assert run(tf.constant([-7.0, -9.0])).numpy().tolist() == [1.0, 3.0]


def test_specifications_compare():
    one, other = PairSpec([2, None], tf.float32), PairSpec([None, 3], tf.float32)
    assert one.is_compatible_with(other)
    assert one != other
    assert one == PairSpec([2, None], tf.float32)
    assert hash(one) == hash(PairSpec([2, None], tf.float32))
    assert one.most_specific_compatible_type(other) == PairSpec([None, None], tf.float32)
    assert not one.is_compatible_with(PairSpec([2, None], tf.int32))
    assert PairSpec([2, 3], tf.float32).is_subtype_of(one)
    assert not one.is_subtype_of(other)
    with pytest.raises(ValueError, match="No TypeSpec is compatible with both"):
        one.most_specific_compatible_type(PairSpec([2, None], tf.float32, "other"))
    assert pickle.loads(pickle.dumps(one)) == one


def test_every_specification_is_a_type_spec():
    ragged = tf.ragged.constant([[1], [2, 3]])
    dataset = tf.data.Dataset.range(3)
    for value in (tf.constant(1.0), ragged, tf.sparse.from_dense([0.0, 1.0]), dataset):
        assert isinstance(tf.type_spec_from_value(value), tf.TypeSpec), value
    composite = find("framework.composite_tensor").CompositeTensor
    assert isinstance(ragged, composite)
    assert not isinstance(tf.constant(1.0), composite)


def test_registered_names():
    registry = find("framework.type_spec_registry")
    with pytest.raises(ValueError, match="must have the form"):
        registry.register("Pair")
    assert registry.register("tests.PairSpec")(PairSpec) is PairSpec
    with pytest.raises(ValueError, match="already been registered"):
        registry.register("tests.PairSpec")(PairSpec)
    del registry._NAME_TO_TYPE_SPEC["tests.PairSpec"], registry._TYPE_SPEC_TO_NAME[PairSpec]


def test_values_of_variables():
    convert = find("util.variable_utils").convert_variables_to_tensors
    found = convert([tf.Variable(1.0), {"a": 3}])
    assert type(found[0]) is tf.Tensor
    assert found[1] == {"a": 3}
