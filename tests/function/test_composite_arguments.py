"""Ragged and sparse tensors as arguments and results of functions: one trace for any number of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function.eager import EagerFunction

ROWS = [tf.ragged.constant(rows, tf.float32) for rows in ([[1, 2], [], [3, 4, 5]], [[1], [2, 3], [4]], [[], [7], []])]
NESTED = [tf.ragged.constant(rows) for rows in ([[[1.0], [2.0, 3.0]], [[4.0]]], [[[5.0, 6.0]], [[], [7.0]]])]
IDS = [tf.ragged.constant(rows, tf.int32) for rows in ([[0, 2], [], [1]], [[1], [2, 2, 0], []])]
SPARSE = [
    tf.SparseTensor([[0, 1], [1, 2], [2, 0]], [1.0, 2.0, 3.0], [3, 4]),
    tf.SparseTensor([[0, 1]], [4.0], [3, 4]),
]
WEIGHTS = tf.Variable([1.0, 2.0, 3.0])

PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "scalar": (lambda r: r * 2.0, ROWS),
    "itself": (lambda r: r + r * r, ROWS),
    "elementwise": (lambda r: tf.sin(r), ROWS),
    "column": (lambda r: r * tf.constant([[1.0], [2.0], [3.0]]), ROWS),
    "sum": (lambda r: tf.reduce_sum(r), ROWS),
    "sums of rows": (lambda r: tf.reduce_sum(r * r, axis=1), ROWS),
    "means of rows": (lambda r: tf.reduce_mean(r * r, axis=1), ROWS[1:2]),
    "row_lengths": (lambda r: (r.row_lengths(), r.nrows(), r.bounding_shape()), ROWS),
    "slices of rows": (lambda r: r[:, :1], ROWS),
    "a row": (lambda r: r[0] * 2.0, ROWS),
    "to_tensor": (lambda r: r.to_tensor(-1.0) ** 2, ROWS),
    "to_sparse": (lambda r: r.to_sparse(), ROWS),
    "from_row_lengths": (lambda r: tf.RaggedTensor.from_row_lengths(r.flat_values * 2.0, r.row_lengths()), ROWS),
    "from_row_splits": (lambda r: tf.RaggedTensor.from_row_splits(r.values, r.row_splits), ROWS),
    "value_rowids": (lambda r: tf.math.segment_sum(r.flat_values**2, r.value_rowids()), ROWS[:2]),
    "concat": (lambda r: tf.concat([r, r * 2.0], axis=1), ROWS),
    "map_flat_values": (lambda r: tf.ragged.map_flat_values(tf.nn.relu, r - 2.0), ROWS),
    "softmax": (lambda r: tf.nn.softmax(r), ROWS[:2]),
    "where": (lambda r: tf.where(r > 2.0, r, -r), ROWS),
    "boolean_mask": (lambda r: tf.ragged.boolean_mask(r, r > 2.0), ROWS),
    "lookup": (lambda r: tf.gather(WEIGHTS, r), IDS),
    "one_hot": (lambda r: tf.one_hot(r, 3), IDS),
    "gather": (lambda r: tf.gather(r, [2, 0]), ROWS),
    "sums of inner rows": (lambda r: tf.reduce_sum(r, axis=2), NESTED),
    "merge_dims": (lambda r: r.merge_dims(1, 2), NESTED),
    "branches": (lambda r: tf.cond(tf.reduce_sum(r) > 10.0, lambda: r.values, lambda: r.values * 2.0), ROWS),
    "sparse.map_values": (lambda s: tf.sparse.map_values(tf.square, s), SPARSE),
    "sparse.reduce_sum": (lambda s: tf.sparse.reduce_sum(s, 1), SPARSE),
    "sparse.to_dense": (lambda s: tf.sparse.to_dense(s) ** 2, SPARSE),
    "sparse.sparse_dense_matmul": (lambda s: tf.sparse.sparse_dense_matmul(s, tf.ones([4, 2]) * WEIGHTS[0]), SPARSE),
    "sparse.add": (lambda s: tf.sparse.add(s, s), SPARSE),
    "sparse times dense": (lambda s: s * tf.ones([3, 4]) * 2.0, SPARSE),
    "sparse.transpose": (lambda s: tf.sparse.transpose(s), SPARSE),
    "sparse.reshape": (lambda s: tf.sparse.reshape(s, [4, 3]), SPARSE),
    "sparse.slice": (lambda s: tf.sparse.slice(s, [0, 0], [2, 3]), SPARSE),
    "sparse.fill_empty_rows": (lambda s: tf.sparse.fill_empty_rows(s, 9.0), SPARSE),
    "sparse.retain": (lambda s: tf.sparse.retain(s, s.values > 1.5), SPARSE),
    "sparse.softmax": (lambda s: tf.sparse.softmax(s), SPARSE),
}


def floats(value: Any) -> list[Any]:
    """The tensors of a result that have gradients."""
    leaves = tf.nest.flatten(value, expand_composites=True)
    return [leaf for leaf in leaves if leaf.dtype.is_floating]


def as_lists(value: Any) -> list[Any]:
    """The numbers of a result, and of what kind it is."""
    found = [type(leaf).__name__ for leaf in tf.nest.flatten(value)]
    return [*found, *[None if leaf is None else np.asarray(leaf).tolist() for leaf in tf.nest.flatten(value, True)]]


def with_gradients(run: Any, argument: Any) -> tuple[Any, list[Any]]:
    sources = [*floats(argument), WEIGHTS]
    with tf.GradientTape() as tape:
        tape.watch(sources[:-1])
        result = run(argument)
        total = sum([tf.reduce_sum(leaf**2) for leaf in floats(result)])
    found = tape.gradient(total, sources) if floats(result) else []
    return result, [None if g is None else tf.convert_to_tensor(g) for g in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients_are_those_of_eager_code(name: str) -> None:
    program, arguments = PROGRAMS[name]
    function = tf.function(program)
    for argument in arguments:
        found, expected = with_gradients(function, argument), with_gradients(program, argument)
        assert as_lists(found[0]) == as_lists(expected[0])
        assert as_lists(found[1]) == as_lists(expected[1])
    assert function.experimental_get_tracing_count() == 1
    assert not any(isinstance(concrete, EagerFunction) for concrete in function.traces())


def test_second_derivatives() -> None:
    function = tf.function(lambda r: tf.reduce_sum(r**3, axis=1) * tf.reduce_sum(r))
    for rows in ROWS[:2]:
        found = []
        for run in (function, function.python_function):
            with tf.GradientTape() as outer:
                outer.watch(rows.flat_values)
                with tf.GradientTape() as tape:
                    tape.watch(rows.flat_values)
                    y = run(rows)
                slope = tape.gradient(y, rows.flat_values)
            found.append(outer.jacobian(slope, rows.flat_values))
        np.testing.assert_allclose(*found, rtol=1e-5)


def test_other_numbers_of_rows_are_traced_anew_and_show_in_the_shape() -> None:
    shapes = []

    @tf.function
    def show(r):
        shapes.append(r.shape.as_list())
        return r.nrows()

    assert [int(show(tf.ragged.constant([[1], [2, 3]]))), int(show(tf.ragged.constant([[], [1]], tf.int32)))] == [2, 2]
    assert int(show(tf.ragged.constant([[1]]))) == 1
    assert shapes == [[2, None], [1, None]]


def test_a_uniform_dimension_broadcasts_as_in_eager_code() -> None:
    function = tf.function(lambda r, s: r + s)
    column = tf.RaggedTensor.from_uniform_row_length([10.0, 20.0, 30.0], 1)
    assert function(ROWS[0], column).to_list() == [[11.0, 12.0], [], [33.0, 34.0, 35.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        function(ROWS[0], ROWS[1])


def test_signatures() -> None:
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    function = tf.function(lambda r: r[:, :1], input_signature=[spec])
    assert function(tf.ragged.constant([[1, 2], [3]])).to_list() == [[1], [3]]
    assert function(tf.ragged.constant([[], [7], [8]], tf.int32)).to_list() == [[], [7], [8]]
    sparse = tf.function(lambda s: tf.sparse.to_dense(s), input_signature=[tf.SparseTensorSpec([None, 4])])
    assert sparse(SPARSE[1]).shape == (3, 4)


def test_xla_takes_the_sizes_of_each_call() -> None:
    pytest.importorskip("jax")
    function = tf.function(lambda r: tf.reduce_sum(r.flat_values**2), jit_compile=True)
    assert [float(function(rows)) for rows in ROWS] == [55.0, 30.0, 49.0]
