"""Expressions with ragged and sparse tensors: what they give in TensorFlow is stored, and compared with on every run.

python -m tests.tf_cases.composites        where TensorFlow is installed
"""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import numpy as np

RECORD = pathlib.Path(__file__).parent.parent / "recorded" / "composites_tensorflow.json"

NAMES = """
r = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
i = tf.ragged.constant([[3, 1], [], [4, 1, 5]])
n = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]]])
k = tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1)
u = tf.RaggedTensor.from_uniform_row_length(tf.range(6), 2)
a = tf.ragged.constant([[1, 2], [3]])
b = tf.ragged.constant([[4], [5, 6]])
w = tf.ragged.constant([["a"], [], ["b", "c"]])
m = tf.ragged.constant([[True, False], [], [False, True, True]])
d = tf.constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
s = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0], [3, 4])
t = tf.SparseTensor([[0, 0], [0, 2], [2, 3]], [-1.0, 4.0, 5.0], [3, 4])
z = tf.SparseTensor([[2, 0], [0, 1]], [1, 2], [3, 2])
c = tf.SparseTensor([[0, 1, 2], [1, 0, 0]], [1, 2], [2, 2, 3])
o = tf.SparseTensor(np.zeros([0, 2], np.int64), np.zeros([0], np.float32), [2, 3])
x = tf.SparseTensor([[0, 1], [1, 0]], ["a", "b"], [2, 2])
e = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
g = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 0], tf.int64), [4, 2])
p = tf.sparse.from_dense([[1, 2, 0], [7, 0, 0]])
q = tf.sparse.from_dense([[2, 3, 0], [7, 8, 0]])
"""


def expressions() -> list[str]:
    """All expressions."""
    found = []
    for f, axis, keep in itertools.product(
        ("sum", "max", "prod"), (None, 0, 1, 2, [0, 1], [1, 2], [0, 2]), (False, True)
    ):
        found.append(f"tf.reduce_{f}(n, axis={axis}, keepdims={keep})")
    for f, axis in itertools.product(("sum", "mean", "min"), (0, 1, 2)):
        found += [f"tf.reduce_{f}({x}, axis={axis})" for x in "rku"]
    found += [f"tf.{f}([{x}, {y}], axis={axis})" for f in ("concat", "stack") for axis in (0, 1, 2, -1)
              for x, y in ("ab", "aa", "nn", "kk", "uu")]  # fmt: skip
    for axis in (0, 1, 2, 3, -1, -2):
        found += [f"tf.expand_dims({x}, {axis})" for x in "ink"]
        found += [f"tf.squeeze(tf.expand_dims({x}, {axis}), [{axis}])" for x in "in"]
    found += [f"tf.tile(i, {t})" for t in ([2, 1], [1, 2], [0, 1], [1, 0])]
    found += [f"tf.tile({x}, [{t}, 2])" for x in "nk" for t in ("1, 1", "2, 1", "1, 3")]
    found += [f"tf.reverse({x}, {axis})" for x in "ink" for axis in ([0], [1], [-1], [0, 1], 0)]
    found += [f"tf.gather({x}, {where})" for x in "inkd" for where in ("[2, 0]", "[[0], [1]]", "1", "[5]", "[-1]", "b")]
    found += [f"tf.gather({x}, {where}, batch_dims=1)" for x in "id"
              for where in ("tf.ragged.constant([[1, 0], [], [2]])", "tf.ragged.constant([[0], [1]])")]  # fmt: skip
    found += [
        f"tf.gather_nd({x}, {where})" for x in "ink" for where in ([[0, 1], [2, 0]], [[0], [2]], [0], [[[0]], [[2]]])
    ]
    return found + _sparse_expressions() + SINGLE + SPARSE


def _sparse_expressions() -> list[str]:
    """Functions of tf.sparse and tf.sets with several arguments each."""
    found = [f"tf.sparse.expand_dims(s, {axis})" for axis in (None, 0, 1, 2, -1, -2, 3)]
    for f, axis in itertools.product(("sum", "max"), (None, 0, 1, -1, [0, 1], 2)):
        found += [f"tf.sparse.reduce_{f}({x}, {axis})" for x in "szco"]
        found.append(f"tf.sparse.reduce_{f}(c, {axis}, keepdims=True, output_is_sparse=True)")
    found += [f"tf.sparse.reset_shape(s, {shape})" for shape in ([5, 6], None, [2, 2], [5])]
    found += [f"tf.sparse.reshape(s, {shape})" for shape in ([4, 3], [2, -1], [-1], [5, 3], [-1, -1], [1, 1, -1])]
    for f in ("sum", "mean", "sqrt_n"):
        ids = ("[0, 2, 3, 0], [0, 0, 2, 2]", "[0, 1], [1, 2], 4", "[9], [0]", "[0, 1], [1, 0]", "[0, 1], [0, 2], 2")
        found += [f"tf.sparse.segment_{f}(e, {one})" for one in ids]
    found += [
        f"tf.sparse.slice(s, {a}, {b})" for a, b in (([0, 1], [2, 2]), ([1, 0], [5, 5]), ([5, 5], [1, 1]), ([0], [2]))
    ]
    found += [f"tf.sparse.split(s, {n}, axis={a})" for n, a in ((2, 1), (3, 0), (5, 1), (2, 0), (2, 3))]
    for f in ("tf.sets.intersection", "tf.sets.union", "tf.sets.difference"):
        found += [
            f"{f}({a}, {b})"
            for a, b in (("p", "q"), ("d[:2]", "q"), ("p", "d[1:]"), ("d", "d[::-1]"), ("d", "p"), ("d", "r"))
        ]
    options = ("", "axis=-1", "minlength=6", "maxlength=2", "binary_output=True", "axis=1")
    found += [f"tf.sparse.bincount({v}, {k})" for v in ("d", "d[0]", "g", "i", "-d") for k in options]
    for combiner, weights in itertools.product(("mean", "sum", "sqrtn"), ("None", "tf.cast(g, tf.float32)")):
        found.append(f"tf.nn.embedding_lookup_sparse(e, g, {weights}, combiner='{combiner}')")
        found.append(f"tf.nn.safe_embedding_lookup_sparse(e, g, {weights}, combiner='{combiner}', default_id=2)")
    return found


SINGLE = [
    "tf.reduce_any(m, axis=1)",
    "tf.reduce_all(m, axis=0)",
    "tf.reduce_any(m)",
    "tf.math.reduce_variance(i, axis=1)",
    "tf.math.reduce_std(r)",
    "tf.reduce_logsumexp(r, axis=1)",
    "tf.reduce_mean(i)",
    "tf.reduce_sum(r, axis=3)",
    "tf.argmax(r, axis=1)",
    "tf.math.count_nonzero(r, axis=1)",
    "tf.reduce_sum(m, axis=1)",
    "tf.concat([a, [[7, 8], [9, 9]]], 1)",
    "tf.concat([a, n], 0)",
    "tf.concat([a, r], 0)",
    "tf.concat([k, n[::2]], 0)",
    "tf.concat([a, i], 1)",
    "tf.squeeze(a, [0])",
    "tf.squeeze(a)",
    "tf.ragged.stack([[1, 2, 3], [4]])",
    "tf.ragged.stack([[[1], [2]], [[3]]])",
    "tf.ragged.stack([[[1], [2]], [[3], [4]]], axis=1)",
    "tf.ragged.stack([1, 2])",
    "tf.ragged.stack([[1], [2, 3]], axis=1)",
    "tf.ragged.stack([])",
    "tf.ragged.boolean_mask(i, m)",
    "tf.ragged.boolean_mask(i, [True, False, True])",
    "tf.ragged.boolean_mask(n, n > 2)",
    "tf.ragged.boolean_mask(n, m)",
    "tf.ragged.boolean_mask(d, [[True, False, True]] * 3)",
    "tf.boolean_mask(i, [True, False, True])",
    "tf.where(m)",
    "tf.where(m, i, -i)",
    "tf.where(m, i, 0)",
    "tf.where([True, False, True], i, -i)",
    "tf.where([[True], [False], [True]], i, -i)",
    "tf.where(n > 2)",
    "tf.ragged.range([3, 0, 2])",
    "tf.ragged.range([0, 10], [10, 0], [4, -3])",
    "tf.ragged.range(3.0)",
    "tf.ragged.range([1.0, 2.0], 3.0, 0.5)",
    "tf.ragged.range([1, 2], [1, 2, 3])",
    "tf.ragged.range([1], [2], 0)",
    "tf.ragged.stack_dynamic_partitions(i, [2, 0, 2], 4)",
    "tf.ragged.stack_dynamic_partitions([1, 2], [0, 5], 3)",
    "tf.ragged.stack_dynamic_partitions(i, tf.ragged.constant([[0, 1], [], [1, 1, 0]]), 3)",
    "tf.split(i, 3)",
    "tf.split(i, [1, 2])",
    "tf.split(k, 2, axis=2)",
    "tf.split(i, 2)",
    "tf.split(i, 2, axis=1)",
    "tf.split(u, 2, axis=1)",
    "tf.one_hot(i, 4)",
    "tf.one_hot(i, 4, axis=1)",
    "tf.one_hot(k, 3, axis=2)",
    "tf.size(n)",
    "tf.size(k)",
    "tf.rank(n)",
    "tf.reshape(n, [-1])",
    "tf.reshape(n, [2, 3])",
    "tf.broadcast_to(tf.constant([[1], [2], [3]]), tf.shape(i))",
    "tf.broadcast_to(tf.constant([1, 2]), tf.shape(i))",
    "tf.zeros(tf.shape(k), tf.int32)",
    "tf.fill(tf.shape(i), 7)",
    "tf.ones(tf.shape(n))",
    "tf.cumsum(n, axis=2)",
    "tf.cumsum(k, axis=1, reverse=True)",
    "tf.cumsum(i, exclusive=True)",
    "tf.matmul(k, k, transpose_b=True)",
    "tf.matmul(k, tf.ones([2, 2, 3], tf.int32))",
    "tf.matmul(k, tf.constant([[1], [2]]))",
    "tf.matmul(tf.ones([2, 3, 2], tf.int32), k, transpose_b=True)",
    "tf.matmul(r, r)",
    "tf.matmul(u, u, transpose_b=True)",
    "tf.nn.softmax(tf.cast(k, tf.float32))",
    "tf.nn.softmax(r)",
    "tf.nn.softmax(r, axis=0)",
    "tf.math.unsorted_segment_sum(n, [1, 0, 1], 2)",
    "tf.math.unsorted_segment_max(i, [1, 0, 1], 2)",
    "tf.math.unsorted_segment_mean(r, [1, 0, 1], 3)",
    "tf.map_fn(lambda x: x + 1, i, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))",
    "tf.transpose(k)",
    "tf.map_fn(tf.reduce_sum, i, fn_output_signature=tf.int32)",
    "tf.exp(r)",
    "tf.nn.relu(r - 2.0)",
    "tf.abs(-i)",
    "tf.round(r)",
    "tf.maximum(r, 2.0)",
    "tf.pow(i, 2)",
    "tf.math.floordiv(i, 2)",
    "tf.truediv(i, 2)",
    "tf.clip_by_value(i, 2, 4)",
    "tf.cast(r, tf.int64)",
    "tf.zeros_like(n)",
    "tf.ones_like(r, tf.int32)",
    "tf.math.is_nan(r)",
    "tf.bitwise.invert(i)",
    "tf.bitcast(i, tf.float32)",
    "tf.math.add_n([r, r])",
    "tf.identity(w)",
    "w == 'b'",
    "tf.equal(i, [[3], [1], [1]])",
    "i[:, 1:]",
    "n[:, :, -1:]",
    "n[::-1, ::2]",
    "n[0]",
    "u[:, 0]",
    "i[:, 0]",
    "i[5]",
    "i[None]",
    "i[:, None]",
    "r.to_tensor(-1.0)",
    "n.to_sparse()",
    "n.merge_dims(0, 1)",
    "n.merge_dims(1, 2)",
    "n.row_lengths(axis=2)",
    "i.value_rowids()",
    "n.bounding_shape()",
    "repr(n)",
    "repr(u)",
    "repr(w)",
    "repr(k)",
    "repr(tf.shape(n))",
    "repr(tf.shape(k))",
    "tf.shape(n)[1]",
    "tf.shape(i)[0]",
    "tf.nn.embedding_lookup(tf.constant([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]), i)",
    "tf.complex(r, r)",
]

SPARSE = [
    "tf.sparse.add(s, t)",
    "tf.sparse.add(s, t, threshold=1.0)",
    "tf.sparse.add(s, tf.ones([3, 4]))",
    "tf.sparse.add(s, tf.ones([4]))",
    "tf.sparse.add(s, o)",
    "tf.sparse.add(1.0, 2.0)",
    "tf.sparse.concat(0, [s, t])",
    "tf.sparse.concat(-1, [s, t])",
    "tf.sparse.concat(0, [s, o])",
    "tf.sparse.concat(0, [s, o], expand_nonconcat_dims=True)",
    "tf.sparse.concat(2, [s, t])",
    "tf.sparse.eye(2, 3, tf.int32)",
    "tf.sparse.fill_empty_rows(z, 7)",
    "tf.sparse.fill_empty_rows(o, 1.0)",
    "tf.sparse.fill_empty_rows(g, -1)",
    "tf.sparse.maximum(s, t)",
    "tf.sparse.minimum(s, t)",
    "tf.sparse.maximum(s, o)",
    "tf.sparse.reorder(z)",
    "tf.sparse.retain(s, [True, False, True])",
    "tf.sparse.retain(s, [True])",
    "tf.sparse.softmax(t)",
    "tf.sparse.softmax(z)",
    "tf.sparse.sparse_dense_matmul(s, e)",
    "tf.sparse.sparse_dense_matmul(s, e[:3], adjoint_a=True)",
    "tf.sparse.sparse_dense_matmul(e[:, :1], s[0])",
    "tf.sparse.sparse_dense_matmul(tf.ones([2, 3]), s)",
    "tf.sparse.sparse_dense_matmul(tf.ones([2, 4]), s, adjoint_b=True)",
    "tf.sparse.sparse_dense_matmul(s, e[:3])",
    "tf.sparse.map_values(tf.multiply, s, s)",
    "tf.sparse.map_values(tf.add, s, t)",
    "tf.sparse.map_values(tf.reduce_sum, s)",
    "tf.sparse.to_indicator(z, 3)",
    "tf.sparse.to_indicator(z, 2)",
    "tf.sparse.transpose(s)",
    "tf.sparse.transpose(c, [2, 0, 1])",
    "tf.sparse.transpose(s, [0])",
    "tf.sparse.from_dense(['', 'a'])",
    "tf.sparse.to_dense(x, '-')",
    "tf.sparse.to_dense(z)",
    "tf.sparse.to_dense(z, validate_indices=False)",
    "tf.sparse.to_dense(s, [1.0])",
    "s * 2.0",
    "s * tf.constant([[1.0], [10.0], [100.0]])",
    "tf.constant(2.0) * s",
    "s + 1.0",
    "-s",
    "s @ e",
    "s[0]",
    "tf.exp(s)",
    "tf.sqrt(s)",
    "tf.negative(s)",
    "tf.cast(s, tf.int32)",
    "tf.io.deserialize_many_sparse(tf.io.serialize_many_sparse(s), tf.float32)",
    "tf.sets.size(p)",
    "tf.sets.size(d)",
]


def described(value: Any) -> Any:
    """A result as JSON has it: what it is, its dtype and shape, its values."""
    if isinstance(value, (list, tuple)):
        return [described(part) for part in value]
    if hasattr(value, "row_splits"):
        return ["ragged", value.dtype.name, str(value.shape), value.ragged_rank, _plain(value.to_list())]
    if hasattr(value, "dense_shape"):
        return ["sparse", *[described(part) for part in (value.indices, value.values, value.dense_shape)]]
    if hasattr(value, "numpy"):
        return ["dense", value.dtype.name, str(value.shape), _plain(np.asarray(value.numpy()).tolist())]
    return value


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [_plain(value) for value in values]
    if isinstance(values, float):
        return float(f"{values:.5g}") if np.isfinite(values) else str(values)
    return values if isinstance(values, (int, bool)) else str(values)


def answer(tf: Any, expression: str) -> Any:
    """What an expression gives, or the class of its error as TensorFlow names it."""
    scope = {"tf": tf, "np": np}
    exec(NAMES, scope)
    try:
        return described(eval(expression, scope))
    except Exception as error:
        return ["error", *[kind.__name__ for kind in type(error).__mro__ if kind.__name__ != "NotDenseError"][:1]]


if __name__ == "__main__":
    import tensorflow

    found = {expression: answer(tensorflow, expression) for expression in expressions()}
    RECORD.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
