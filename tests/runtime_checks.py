"""What TensorFlow checks by value when an op runs: one case for each check, and TensorFlow's answers to them.

A case is a function of a library and tensors, and values for the tensors that it must refuse. `python
tests/runtime_checks.py` under TensorFlow writes its answers to `recorded/runtime_checks.json`, which
`test_runtime_checks.py` compares with: eager, in a `tf.function`, and in a `tf.function` that sees the values while it
is traced.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RECORD = Path(__file__).parent / "recorded" / "runtime_checks.json"


class Case(NamedTuple):
    """A function of a library and some tensors, with values that it refuses and values that it takes."""

    function: Callable[..., Any]
    bad: tuple[Any, ...]
    good: tuple[Any, ...]


X = [1.0, 2.0, 3.0]
M = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def f(*values: Any) -> Any:
    return np.array(values, np.float32)


def i(*values: Any) -> Any:
    return np.array(values, np.int32)


def m(values: Any) -> Any:
    return np.array(values, np.float32)


def k(values: Any, dtype: Any = np.int32) -> Any:
    return np.array(values, dtype)


def ta_write(tf: Any, n: Any) -> Any:
    return tf.TensorArray(tf.float32, size=3, element_shape=[]).write(n, 1.0).stack()


def ta_read(tf: Any, n: Any) -> Any:
    return tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(tf.constant(X)).read(n)


def ta_gather(tf: Any, n: Any) -> Any:
    return tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(tf.constant(X)).gather(n)


def ta_scatter(tf: Any, n: Any) -> Any:
    return tf.TensorArray(tf.float32, size=3, element_shape=[]).scatter(n, tf.constant([1.0, 2.0])).stack()


VARIABLES: dict[str, Any] = {}


def variable(tf: Any, value: Any = X) -> Any:
    """A variable that stays: functions may not create one in every trace."""
    key = repr(value)
    if key not in VARIABLES:
        with tf.init_scope():
            VARIABLES[key] = tf.Variable(value)
    return VARIABLES[key]


def scatter(how: str) -> Callable[..., Any]:
    def function(tf: Any, indices: Any) -> Any:
        delta = tf.IndexedSlices(tf.ones([2]), indices)
        return getattr(variable(tf), f"scatter_{how}")(delta) + 0.0

    return function


def scatter_nd(how: str) -> Callable[..., Any]:
    def function(tf: Any, indices: Any) -> Any:
        return getattr(variable(tf), f"scatter_nd_{how}")(indices, tf.ones([2])) + 0.0

    return function


def tensor_scatter(how: str) -> Callable[..., Any]:
    def function(tf: Any, indices: Any) -> Any:
        return getattr(tf, f"tensor_scatter_nd_{how}")(tf.constant(X), indices, tf.ones([2]))

    return function


def segment(name: str) -> Callable[..., Any]:
    def function(tf: Any, ids: Any) -> Any:
        return getattr(tf.math, name)(tf.constant(M), ids, 3)

    return function


def compare(name: str, **options: Any) -> Callable[..., Any]:
    def function(tf: Any, *tensors: Any) -> Any:
        getattr(tf.debugging, name)(*tensors, **options)
        return tf.constant(0.0)

    return function


def assertion(tf: Any, x: Any) -> Any:
    tf.debugging.Assert(tf.reduce_all(x > 0), [x, x + 1.0])
    return x * 2.0


def case_none(tf: Any, x: Any) -> Any:
    return tf.case([(x < 1, lambda: tf.constant(1.0)), (x < 2, lambda: tf.constant(2.0))])


def case_two(tf: Any, x: Any) -> Any:
    pairs = [(x < 1, lambda: tf.constant(1.0)), (x < 2, lambda: tf.constant(2.0))]
    return tf.case(pairs, exclusive=True, default=lambda: tf.constant(3.0))


def boxes(tf: Any, which: Any) -> Any:
    return tf.image.crop_and_resize(tf.ones([2, 3, 3, 1]), [[0.0, 0.0, 1.0, 1.0]], which, [2, 2])


def slice_assign(tf: Any, n: Any) -> Any:
    return variable(tf)[n].assign(5.0) + 0.0


CASES: dict[str, Case] = {
    # lookups
    "gather": Case(lambda tf, n: tf.gather(tf.constant(X), n), (i(0, 5),), (i(0, 2),)),
    "gather_negative": Case(lambda tf, n: tf.gather(tf.constant(X), n), (i(1, -1),), (i(1, 0),)),
    "gather_scalar": Case(lambda tf, n: tf.gather(tf.constant(X), n), (k(3),), (k(2),)),
    "gather_int64": Case(lambda tf, n: tf.gather(tf.constant(X), n), (k([7], np.int64),), (k([1], np.int64),)),
    "gather_matrix": Case(lambda tf, n: tf.gather(tf.constant(X), n), (i([0, 1], [2, 3]),), (i([0, 1], [2, 0]),)),
    "gather_axis": Case(lambda tf, n: tf.gather(tf.constant(M), n, axis=1), (i(0, 2),), (i(0, 1),)),
    "gather_batch": Case(
        lambda tf, n: tf.gather(tf.constant(M), n, batch_dims=1), (i([0], [2], [1]),), (i([0], [1], [1]),)
    ),
    "gather_params": Case(lambda tf, x, n: tf.gather(x, n), (f(1, 2), i(2)), (f(1, 2), i(1))),
    "gather_nd": Case(lambda tf, n: tf.gather_nd(tf.constant(M), n), (i([0, 1], [3, 0]),), (i([0, 1], [2, 0]),)),
    "gather_nd_rows": Case(lambda tf, n: tf.gather_nd(tf.constant(M), n), (i([0], [-1]),), (i([0], [2]),)),
    "gather_nd_batch": Case(
        lambda tf, n: tf.gather_nd(tf.constant(M), n, batch_dims=1), (i([0], [2], [1]),), (i([0], [1], [1]),)
    ),
    "index": Case(lambda tf, n: tf.constant(X)[n], (k(9),), (k(2),)),
    "index_negative": Case(lambda tf, n: tf.constant(X)[n], (k(-4),), (k(-3),)),
    "index_second": Case(lambda tf, n: tf.constant(M)[:, n], (k(2),), (k(1),)),
    "index_two": Case(lambda tf, a, b: tf.constant(M)[a, b], (k(1), k(2)), (k(1), k(1))),
    "variable_index": Case(lambda tf, n: variable(tf)[n] + 0.0, (k(3),), (k(2),)),
    "embedding_lookup": Case(lambda tf, n: tf.nn.embedding_lookup(tf.constant(M), n), (i(0, 3),), (i(0, 2),)),
    "embedding_lookup_variable": Case(lambda tf, n: tf.nn.embedding_lookup(variable(tf, M), n), (i(3),), (i(2),)),
    "sparse_read": Case(lambda tf, n: variable(tf).sparse_read(n), (i(3),), (i(2),)),
    "variable_gather_nd": Case(lambda tf, n: variable(tf).gather_nd(n), (i([3]),), (i([2]),)),
    "unravel_index": Case(lambda tf, n: tf.unravel_index(n, [2, 3]), (i(1, 6),), (i(1, 5),)),
    "invert_permutation": Case(lambda tf, n: tf.math.invert_permutation(n), (i(0, 3, 1),), (i(0, 2, 1),)),
    "invert_permutation_twice": Case(lambda tf, n: tf.math.invert_permutation(n), (i(0, 1, 1),), (i(0, 2, 1),)),
    # slices
    "slice_begin": Case(lambda tf, n: tf.slice(tf.constant(X), n, [1]), (i(4),), (i(2),)),
    "slice_negative": Case(lambda tf, n: tf.slice(tf.constant(X), n, [1]), (i(-1),), (i(0),)),
    "slice_size": Case(lambda tf, n: tf.slice(tf.constant(X), n, [2]), (i(2),), (i(1),)),
    "slice_matrix": Case(lambda tf, n: tf.slice(tf.constant(M), n, [1, 2]), (i(1, 1),), (i(1, 0),)),
    "reverse_sequence": Case(
        lambda tf, n: tf.reverse_sequence(tf.constant(M), n, seq_axis=1, batch_axis=0), (i(1, 3, 0),), (i(1, 2, 0),)
    ),
    "reverse_sequence_negative": Case(
        lambda tf, n: tf.reverse_sequence(tf.constant(M), n, seq_axis=1, batch_axis=0), (i(1, -1, 0),), (i(1, 2, 0),)
    ),
    # scatters
    "scatter_nd": Case(lambda tf, n: tf.scatter_nd(n, tf.ones([2]), [3]), (i([0], [7]),), (i([0], [2]),)),
    "scatter_nd_negative": Case(lambda tf, n: tf.scatter_nd(n, tf.ones([2]), [3]), (i([0], [-1]),), (i([0], [2]),)),
    "scatter_nd_matrix": Case(
        lambda tf, n: tf.scatter_nd(n, tf.ones([2]), [3, 2]), (i([0, 1], [2, 2]),), (i([0, 1], [2, 1]),)
    ),
    **{
        f"tensor_scatter_nd_{how}": Case(tensor_scatter(how), (i([0], [3]),), (i([0], [2]),))
        for how in ("update", "add", "sub", "max", "min")
    },
    **{
        f"variable_scatter_{how}": Case(scatter(how), (i(0, 3),), (i(0, 2),))
        for how in ("add", "sub", "mul", "div", "max", "min", "update")
    },
    **{
        f"variable_scatter_nd_{how}": Case(scatter_nd(how), (i([0], [3]),), (i([0], [2]),))
        for how in ("add", "sub", "max", "min", "update")
    },
    "variable_batch_scatter_update": Case(
        lambda tf, n: variable(tf, M).batch_scatter_update(tf.IndexedSlices(tf.ones([3, 1]), n)) + 0.0,
        (i([0], [2], [1]),),
        (i([0], [1], [1]),),
    ),
    "slice_assign": Case(slice_assign, (k(3),), (k(2),)),
    **{
        f"unsorted_segment_{how}": Case(segment(f"unsorted_segment_{how}"), (i(0, 3, 1),), (i(0, 2, 1),))
        for how in ("sum", "mean", "sqrt_n", "prod", "max", "min")
    },
    "segment_sum_unsorted": Case(lambda tf, n: tf.math.segment_sum(tf.constant(M), n), (i(1, 0, 2),), (i(0, 1, 2),)),
    "segment_max_negative": Case(lambda tf, n: tf.math.segment_max(tf.constant(M), n), (i(-1, 0, 2),), (i(0, 1, 2),)),
    "tensor_array_write": Case(ta_write, (k(3),), (k(2),)),
    "tensor_array_write_negative": Case(ta_write, (k(-1),), (k(0),)),
    "tensor_array_read": Case(ta_read, (k(3),), (k(2),)),
    "tensor_array_read_negative": Case(ta_read, (k(-1),), (k(0),)),
    "tensor_array_gather": Case(ta_gather, (i(0, 3),), (i(0, 2),)),
    "tensor_array_scatter": Case(ta_scatter, (i(0, 3),), (i(0, 2),)),
    "repeat_one": Case(lambda tf, n: tf.repeat(tf.constant(M), n, axis=1), (i(-2),), (i(0),)),
    # counting
    "bincount_negative": Case(lambda tf, n: tf.math.bincount(n, minlength=3, maxlength=3), (i(0, -1),), (i(0, 1),)),
    "confusion_matrix_label": Case(
        lambda tf, n: tf.math.confusion_matrix(n, [0, 1], num_classes=2), (i(0, 2),), (i(0, 1),)
    ),
    "confusion_matrix_prediction": Case(
        lambda tf, n: tf.math.confusion_matrix([0, 1], n, num_classes=2), (i(0, 2),), (i(0, 1),)
    ),
    "confusion_matrix_negative": Case(
        lambda tf, n: tf.math.confusion_matrix(n, [0, 1], num_classes=2), (i(0, -1),), (i(0, 1),)
    ),
    "histogram_range": Case(lambda tf, x: tf.histogram_fixed_width(tf.constant(X), x, nbins=2), (f(2, 1),), (f(1, 2),)),
    "histogram_nan": Case(lambda tf, x: tf.histogram_fixed_width(x, [0.0, 1.0], nbins=2), (f(2, np.nan),), (f(1, 2),)),
    # labels
    "sparse_cross_entropy": Case(
        lambda tf, n: tf.nn.sparse_softmax_cross_entropy_with_logits(n, tf.constant([[1.0, 2.0], [3.0, 4.0]])),
        (i(0, 5),),
        (i(0, 1),),
    ),
    "sparse_cross_entropy_negative": Case(
        lambda tf, n: tf.nn.sparse_softmax_cross_entropy_with_logits(n, tf.constant([[1.0, 2.0], [3.0, 4.0]])),
        (k([-1, 1], np.int64),),
        (k([0, 1], np.int64),),
    ),
    "crop_and_resize": Case(boxes, (i(2),), (i(1),)),
    # arithmetic
    "floordiv": Case(lambda tf, a, b: a // b, (i(4, 2), i(2, 0)), (i(4, 2), i(2, 1))),
    "floordiv_int64": Case(
        lambda tf, a, b: tf.math.floordiv(a, b),
        (k([4], np.int64), k([0], np.int64)),
        (k([4], np.int64), k([2], np.int64)),
    ),
    "floormod": Case(lambda tf, a, b: a % b, (i(4, 2), i(2, 0)), (i(4, 2), i(2, 1))),
    "math_mod": Case(lambda tf, a, b: tf.math.mod(a, b), (i(4), i(0)), (i(4), i(2))),
    "truncatediv": Case(lambda tf, a, b: tf.truncatediv(a, b), (i(4), i(0)), (i(4), i(2))),
    "truncatemod": Case(lambda tf, a, b: tf.truncatemod(a, b), (i(4), i(0)), (i(4), i(2))),
    "rfloordiv": Case(lambda tf, b: 7 // b, (i(2, 0),), (i(2, 1),)),
    "div_uint8": Case(
        lambda tf, a, b: a // b, (k([4], np.uint8), k([0], np.uint8)), (k([4], np.uint8), k([2], np.uint8))
    ),
    "power": Case(lambda tf, a, b: a**b, (i(4, 2), i(2, -1)), (i(4, 2), i(2, 1))),
    "math_pow": Case(
        lambda tf, a, b: tf.pow(a, b), (k([2], np.int64), k([-2], np.int64)), (k([2], np.int64), k([2], np.int64))
    ),
    # linear algebra
    "inverse": Case(lambda tf, x: tf.linalg.inv(x), (m([[1, 2], [2, 4]]),), (m([[1, 2], [2, 5]]),)),
    "inverse_batch": Case(
        lambda tf, x: tf.linalg.inv(x),
        (m([[[1, 2], [2, 5]], [[0, 0], [0, 0]]]),),
        (m([[[1, 2], [2, 5]], [[1, 0], [0, 1]]]),),
    ),
    "solve": Case(lambda tf, x: tf.linalg.solve(x, tf.ones([2, 1])), (m([[1, 2], [2, 4]]),), (m([[1, 2], [2, 5]]),)),
    "cholesky": Case(lambda tf, x: tf.linalg.cholesky(x), (m([[1, 2], [2, 1]]),), (m([[2, 1], [1, 2]]),)),
    "lu": Case(lambda tf, x: tf.linalg.lu(x)[0], (m([[1, 2], [2, 4]]),), (m([[1, 2], [2, 5]]),)),
    "eigh_nan": Case(lambda tf, x: tf.linalg.eigh(x)[0], (m([[np.nan, 2], [2, 1]]),), (m([[2, 1], [1, 2]]),)),
    "eig_nan": Case(lambda tf, x: tf.linalg.eig(x)[0], (m([[np.nan, 2], [2, 1]]),), (m([[2, 1], [1, 2]]),)),
    "logdet": Case(lambda tf, x: tf.linalg.logdet(x), (m([[1, 2], [2, 1]]),), (m([[2, 1], [1, 2]]),)),
    # assertions
    "check_numerics": Case(lambda tf, x: tf.debugging.check_numerics(x, "here"), (f(1, np.nan),), (f(1, 2),)),
    "check_numerics_inf": Case(lambda tf, x: tf.debugging.check_numerics(x, "here"), (f(np.inf, np.nan),), (f(1, 2),)),
    "assert_all_finite": Case(lambda tf, x: tf.debugging.assert_all_finite(x, "here"), (f(-np.inf),), (f(1),)),
    "assert": Case(assertion, (f(1, -1),), (f(1, 1),)),
    "assert_equal": Case(compare("assert_equal"), (i(1, 2), i(1, 3)), (i(1, 2), i(1, 2))),
    "assert_equal_message": Case(compare("assert_equal", message="same"), (i(1, 2), i(1, 3)), (i(1, 2), i(1, 2))),
    "assert_none_equal": Case(compare("assert_none_equal"), (i(1, 2), i(1, 3)), (i(1, 2), i(2, 1))),
    "assert_less": Case(compare("assert_less"), (f(1, 2), f(1, 3)), (f(1, 2), f(2, 3))),
    "assert_less_equal": Case(compare("assert_less_equal"), (f(1, 4), f(1, 3)), (f(1, 2), f(1, 2))),
    "assert_greater": Case(compare("assert_greater"), (f(1, 2), f(1, 1)), (f(1, 2), f(0, 1))),
    "assert_greater_equal": Case(compare("assert_greater_equal"), (f(1, 2), f(1, 3)), (f(1, 2), f(1, 2))),
    "assert_near": Case(compare("assert_near"), (f(1, 2), f(1, 3)), (f(1, 2), f(1, 2))),
    "assert_positive": Case(compare("assert_positive"), (f(1, 0),), (f(1, 2),)),
    "assert_negative": Case(compare("assert_negative"), (f(-1, 0),), (f(-1, -2),)),
    "assert_non_negative": Case(compare("assert_non_negative"), (f(1, -1),), (f(1, 0),)),
    "assert_non_positive": Case(compare("assert_non_positive"), (f(-1, 1),), (f(-1, 0),)),
    # control flow
    "case_none": Case(case_none, (k(5),), (k(1),)),
    "case_two": Case(case_two, (k(0),), (k(1),)),
    # random numbers, images, quantisation
    "random_range": Case(lambda tf, n: tf.random.uniform([2], 0, n, tf.int32), (k(0),), (k(3),)),
    "stateless_random_range": Case(
        lambda tf, n: tf.random.stateless_uniform([2], [1, 2], 0, n, tf.int32), (k(-1),), (k(3),)
    ),
    "adjust_gamma": Case(
        lambda tf, x: tf.image.adjust_gamma(tf.ones([2, 2, 1]), x), (k(-1.0, np.float32),), (k(1.0, np.float32),)
    ),
    "fake_quant": Case(
        lambda tf, x: tf.quantization.fake_quant_with_min_max_vars(tf.constant(X), x, 1.0),
        (k(2.0, np.float32),),
        (k(0.0, np.float32),),
    ),
    "truncated_normal": Case(
        lambda tf, x: tf.random.stateless_parameterized_truncated_normal([2], [1, 2], 0.0, x, -1.0, 1.0),
        (k(-1.0, np.float32),),
        (k(1.0, np.float32),),
    ),
    "sparse_to_dense": Case(
        lambda tf, n: tf.sparse.to_dense(tf.SparseTensor(n, [1.0, 2.0], [3, 2])),
        (k([[0, 0], [3, 0]], np.int64),),
        (k([[0, 0], [2, 0]], np.int64),),
    ),
    "dynamic_partition": Case(lambda tf, n: tf.dynamic_partition(tf.constant(X), n, 2), (i(0, 2, 1),), (i(0, 1, 1),)),
    "dynamic_stitch": Case(lambda tf, n: tf.dynamic_stitch([n, [1]], [[1.0, 2.0], [3.0]]), (i(0, -1),), (i(0, 2),)),
    "repeat": Case(lambda tf, n: tf.repeat(tf.constant(X), n), (k(-1),), (k(2),)),
    "crop_to_bounding_box": Case(
        lambda tf, n: tf.image.crop_to_bounding_box(tf.ones([3, 3, 1]), n, 0, 2, 2), (k(2),), (k(1),)
    ),
    "candidate_sampler": Case(
        lambda tf, n: tf.random.log_uniform_candidate_sampler(n, 1, 2, True, 5)[1],
        (k([[7]], np.int64),),
        (k([[3]], np.int64),),
    ),
    "candidate_sampler_negative": Case(
        lambda tf, n: tf.random.uniform_candidate_sampler(n, 1, 2, True, 5)[1],
        (k([[-1]], np.int64),),
        (k([[3]], np.int64),),
    ),
    "indexed_slices": Case(
        lambda tf, n: tf.convert_to_tensor(tf.IndexedSlices(tf.ones([1, 2]), n, tf.constant([3, 2]))), (i(5),), (i(2),)
    ),
    "lu_reconstruct": Case(lambda tf, n: tf.linalg.lu_reconstruct(tf.ones([2, 2]), n), (i(0, 5),), (i(1, 0),)),
    "band_part_lower": Case(lambda tf, n: tf.linalg.band_part(tf.ones([3, 3]), n, 0), (k(4),), (k(1),)),
    "band_part_upper": Case(lambda tf, n: tf.linalg.band_part(tf.ones([3, 3]), 0, n), (k(4),), (k(-1),)),
    "pad_to_bounding_box": Case(
        lambda tf, n: tf.image.pad_to_bounding_box(tf.ones([3, 3, 1]), n, 0, 5, 5), (k(3),), (k(2),)
    ),
    "pad_to_bounding_box_negative": Case(
        lambda tf, n: tf.image.pad_to_bounding_box(tf.ones([3, 3, 1]), 0, n, 5, 5), (k(-1),), (k(2),)
    ),
    "tensor_array_unstack": Case(
        lambda tf, x: tf.TensorArray(tf.float32, 2).unstack(x).stack(), (f(1, 2, 3),), (f(1, 2),)
    ),
}


def ran(function: Callable[..., Any], *args: Any) -> list[str]:
    """What a call raised: the class and the sentence; ['nothing', ''] where it raised nothing."""
    try:
        function(*args)
    except Exception as error:
        return [type(error).__name__, sentence(str(error))]
    return ["nothing", ""]


def sentence(text: str) -> str:
    """TensorFlow's sentence without the parts that name nodes, functions and lines."""
    text = re.sub(r"^Graph execution error:.*\n(?=[^\n]*\n\t \[\[)", "", text, flags=re.S)
    text = re.sub(r"^in user code:.*?(\w*Error): ", "", text, flags=re.S)
    text = re.sub(r"\{\{function_node [^}]*\}\} ?", "", text)
    text = re.sub(r"\n\t \[\[.*", "", text, flags=re.S)
    text = re.sub(r"\[\[\{\{node [^}]*\}\}\]\]", "", text)
    text = re.sub(r" ?\[Op:\w*\].*", "", text, flags=re.S)
    text = re.sub(r", node name: \w+", "", text)
    text = re.sub(r" for '\{\{node .*", "", text, flags=re.S)
    return text.strip()


def modes(tf: Any, case: Case) -> dict[str, list[str]]:
    """What each mode says of the bad values."""
    tensors = [tf.constant(value) for value in case.bad]
    return {
        "eager": ran(lambda: case.function(tf, *tensors)),
        "function": ran(tf.function(lambda *xs: case.function(tf, *xs), autograph=False), *tensors),
        "constant": ran(tf.function(lambda: case.function(tf, *[tf.constant(v) for v in case.bad]), autograph=False)),
    }


def record(path: Path) -> None:
    import tensorflow as tf

    found = {}
    for name, case in CASES.items():
        found[name] = modes(tf, case)
        good = ran(tf.function(functools.partial(case.function, tf), autograph=False), *map(tf.constant, case.good))
        if good[0] != "nothing":
            print("the good values of", name, "raise", good)
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    record(RECORD)
