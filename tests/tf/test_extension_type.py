"""`tf.experimental.ExtensionType`, and functions that are registered for classes."""

from __future__ import annotations

import inspect
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
        (lambda: tf.experimental.ExtensionType(), AssertionError, "is an abstract base class"),
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


# -- declarations (the cases of TensorFlow's own tests) ----------------------------------------------------------------
class Tree(tf.experimental.ExtensionType):
    """Its fields name classes that are defined later."""

    value: tf.Tensor
    children: typing.Tuple[typing.Union[Tree, Leaf], ...] = ()  # noqa: UP006, UP007


class Leaf(tf.experimental.ExtensionType):
    value: tf.Tensor


def test_fields_name_classes_that_are_defined_later():
    tree = Tree(1, (Leaf(2), Tree(3, children=[Leaf(4.0)])))
    assert tree.children[1].children[0].value.numpy() == 4.0
    assert len(tf.nest.flatten(tree, expand_composites=True)) == 4

    class Broken(tf.experimental.ExtensionType):
        x: Lef  # noqa: F821

    with pytest.raises(TypeError, match="In field 'x': Unresolved forward reference 'Lef'"):
        Broken(x=Leaf(3.8))


def test_constructors_have_a_signature():
    class Base(tf.experimental.ExtensionType):
        name: tf.Tensor
        weight: tf.Tensor
        flag: bool

    class Derived(Base):
        number: int
        flag: bool = True
        name: str = "violin"

    signature = inspect.signature(Derived.__init__)
    assert [(p.name, p.kind.name, p.annotation, p.default) for p in signature.parameters.values()][1:] == [
        ("name", "POSITIONAL_OR_KEYWORD", str, "violin"),
        ("weight", "KEYWORD_ONLY", tf.Tensor, inspect.Parameter.empty),
        ("flag", "KEYWORD_ONLY", bool, True),
        ("number", "KEYWORD_ONLY", int, inspect.Parameter.empty),
    ]
    assert signature.return_annotation is Derived
    assert Derived(weight=2, number=3).weight.numpy() == 2
    with pytest.raises(TypeError, match="missing a required"):
        Derived(number=3)


def test_defaults_of_tensors_are_converted_for_each_value():
    class Counts(tf.experimental.ExtensionType):
        x: tf.Tensor = 5

    assert inspect.signature(Counts.__init__).parameters["x"].default == 5

    @tf.function
    def inside():
        return Counts().x + 1

    assert inside().numpy() == 6
    assert Counts().x.numpy() == 5
    assert "test_defaults_of_tensors_are_converted_for_each_value.<locals>.Counts(x=" in repr(Counts())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"__annotations__": {"_to_components": int}}, "invalid. Field '_to_components' is reserved"),
        ({"__annotations__": {"_tf_extension_type_x": int}}, "Field '_tf_extension_type_x' is reserved"),
        ({"is_compatible_with": lambda self, other: False}, "Field 'is_compatible_with' is reserved"),
        ({"Spec": 12}, r"Wrong\.Spec must be a nested class; got 12"),
        ({"Spec": type("Spec", (tf.TensorSpec,), {})}, r"Wrong\.Spec must be directly subclassed from tf\.TypeSpec"),
    ],
)
def test_names_that_specifications_have_are_reserved(body, words):
    with pytest.raises(ValueError, match=words):
        type("Wrong", (tf.experimental.ExtensionType,), body)


def test_specifications_of_values():
    class Weighted(tf.experimental.ExtensionType):
        values: tf.Tensor
        weight: tf.Tensor

        class Spec:
            def __init__(self, shape, dtype):
                self.values = tf.TensorSpec(shape, dtype)
                self.weight = tf.TensorSpec([], tf.float32)

            def __validate__(self):
                assert self.weight.shape.rank == 0

            shape = property(lambda self: self.values.shape)

    spec = Weighted.Spec.from_value(Weighted([1, 2], 0.5))
    assert spec == Weighted.Spec([2], tf.int32)
    assert spec.shape == [2]
    assert Weighted.Spec._deserialize(spec._serialize()) == spec
    for change in (lambda: setattr(spec, "values", 1), lambda: delattr(spec, "values")):
        with pytest.raises(AttributeError, match="Cannot mutate attribute `values` outside the custom constructor"):
            change()
    assert not hasattr(tf.experimental.ExtensionType, "Spec")


def test_ragged_fields_in_datasets():
    class Rows(tf.experimental.BatchableExtensionType):
        values: typing.Union[tf.Tensor, tf.RaggedTensor]  # noqa: UP007
        name: str = "rows"

    rows = Rows(tf.ragged.constant([[1], [2, 3], [4]]))
    found = list(tf.data.Dataset.from_tensor_slices(rows))
    assert [each.values.numpy().tolist() for each in found] == [[1], [2, 3], [4]]
    assert found[0].name == "rows"
    (again,) = tf.data.Dataset.from_tensor_slices(rows).batch(3)
    assert again.values.to_list() == [[1], [2, 3], [4]]
    assert [each.values.numpy().tolist() for each in tf.data.Dataset.from_tensors(rows).unbatch()] == [[1], [2, 3], [4]]


def test_batches_are_divided_among_replicas():
    from gradtape._src.distribute.input import part_of

    class Pair(tf.experimental.BatchableExtensionType):
        x: tf.Tensor
        y: tf.Tensor

    batch = Pair([1, 2, 3], [5, 6, 7])
    parts = [part_of(batch, replica, 2) for replica in range(2)]
    assert [part.y.numpy().tolist() for part in parts] == [[5, 6], [7]]
    assert part_of(Pair([1], [2]), 1, 2).x.shape == [0]


def test_fields_name_what_executed_code_defines():
    """Its globals are not those of the module that it names."""
    source = (
        "import gradtape as gt\n"
        "class Pair(gt.experimental.ExtensionType):\n"
        "    x: 'gt.Tensor'\n"
        "    y: 'Other'\n"
        "class Other(gt.experimental.ExtensionType):\n"
        "    z: 'gt.Tensor'\n"
        "found = Pair(1.0, Other(2.0))\n"
    )
    namespace = {"__name__": "__main__"}
    exec(source, namespace)
    assert isinstance(namespace["found"].x, tf.Tensor)
    assert float(namespace["found"].y.z) == 2.0
