"""What the recorded programs of tests/conformance leave out of `tf.feature_column`."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.feature_column.base import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    FeatureTransformationCache,
    SequenceDenseColumn,
    StateManager,
    deserialize_feature_column,
    serialize_feature_column,
)

fc = tf.feature_column


def test_a_feature_is_transformed_once():
    calls = []
    column = fc.numeric_column("x", normalizer_fn=lambda x: calls.append(x) or x)
    cache = FeatureTransformationCache({"x": [[1.0]]})
    assert cache.get(column, None) is cache.get(column, None)
    assert len(calls) == 1
    with pytest.raises(TypeError, match='"key" must be either a "str" or "FeatureColumn"'):
        cache.get(3.5, None)


def test_a_column_that_gives_nothing_is_refused():
    class Nothing(FeatureColumn):
        name = "nothing"

        def transform_feature(self, transformation_cache, state_manager):
            return None

    with pytest.raises(ValueError, match="Column nothing is not supported"):
        FeatureTransformationCache({}).get(Nothing(), None)


@pytest.mark.parametrize("cls", [FeatureColumn, DenseColumn, CategoricalColumn, SequenceDenseColumn])
def test_a_class_of_columns_says_what_it_lacks(cls):
    names = {
        FeatureColumn: ("name", "parse_example_spec", "parents"),
        DenseColumn: ("variable_shape",),
        CategoricalColumn: ("num_buckets",),
        SequenceDenseColumn: ("name",),
    }
    for name in names[cls]:
        with pytest.raises(NotImplementedError, match=cls.__name__):
            getattr(cls(), name)


def test_state_is_kept_by_column():
    column = fc.embedding_column(fc.categorical_column_with_identity("i", 4), 2)
    state = StateManager(lambda column, name, shape, initializer, trainable: (name, shape, trainable), trainable=False)
    with pytest.raises(ValueError, match="Variable does not exist"):
        state.get_variable(column, "embedding_weights")
    column.create_state(state)
    assert state.get_variable(column, "embedding_weights") == ("embedding_weights", (4, 2), False)
    with pytest.raises(ValueError, match="Variable already exists"):
        column.create_state(state)
    with pytest.raises(ValueError, match="Resource does not exist"):
        state.get_resource(column, "table")


def test_the_table_of_a_vocabulary_is_made_once():
    column = fc.categorical_column_with_vocabulary_list("w", ["a", "b"])
    state = StateManager()
    for word, expected in (("a", [0]), ("b", [1]), ("c", [-1])):
        found = column.get_sparse_tensors(FeatureTransformationCache({"w": [[word]]}), state).id_tensor
        np.testing.assert_array_equal(found.values, expected)
        table = state.get_resource(column, "w_lookup")
    assert state.get_resource(column, "w_lookup") is table


def test_equal_configurations_give_one_column():
    day = fc.categorical_column_with_identity("day", 7)
    embedding = fc.embedding_column(day, 2, initializer=tf.compat.v1.constant_initializer(3.0))
    configs = [serialize_feature_column(column) for column in (fc.indicator_column(day), embedding)]
    known = {}
    indicator, again = [deserialize_feature_column(config, columns_by_name=known) for config in configs]
    assert indicator.categorical_column is again.categorical_column
    assert again.initializer([1], dtype=tf.float32).numpy() == [3.0]
    assert serialize_feature_column("key") == deserialize_feature_column("key") == "key"


def doubled(x):
    return 2.0 * x


def test_functions_in_configurations():
    config = serialize_feature_column(fc.numeric_column("x", normalizer_fn=doubled))
    assert config["config"]["normalizer_fn"] == "doubled"
    column = deserialize_feature_column(config, {"doubled": doubled})
    assert column.normalizer_fn is doubled
    with pytest.raises(ValueError, match="Unknown function or class: doubled"):
        deserialize_feature_column(config)
    with pytest.raises(ValueError, match="Unknown feature_column_v2: NoColumn"):
        deserialize_feature_column({"class_name": "NoColumn", "config": {}})
    with pytest.raises(ValueError, match="Invalid config"):
        type(column).from_config({"key": "x"})


def test_embeddings_from_a_checkpoint(tmp_path):
    path = tf.train.Checkpoint(table=tf.Variable([[1.0, 2.0], [3.0, 4.0]])).write(str(tmp_path / "saved"))
    column = fc.embedding_column(
        fc.categorical_column_with_identity("i", 2),
        2,
        ckpt_to_load_from=path,
        tensor_name_in_ckpt="table/.ATTRIBUTES/VARIABLE_VALUE",
    )
    found = tf.compat.v1.feature_column.input_layer({"i": [[1], [0]]}, [column])
    np.testing.assert_array_equal(found, [[3.0, 4.0], [1.0, 2.0]])


def test_variables_of_columns_are_listed():
    variables = {}
    column = fc.embedding_column(fc.categorical_column_with_identity("i", 4), 2, trainable=False)
    tf.compat.v1.feature_column.input_layer({"i": [[1]]}, [column], cols_to_vars=variables)
    (variable,) = variables[column]
    assert (variable.name, variable.trainable) == ("input_layer/i_embedding/embedding_weights:0", False)
