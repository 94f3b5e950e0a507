"""Wrong arguments, one at a time, in a correct call of every public function: TensorFlow's outcome of each.

    python -m tests.tf_cases.misuse tests/recorded/misuse_tensorflow.json     where TensorFlow is installed

`outcomes` replaces each argument of each call by each wrong value and notes the class of the error, or dtype and shape
of what comes back. `test_misuse.py` compares gradtape with the record. A call that ends TensorFlow's process is noted
as `crash`: the recorder runs every call in a child process and continues behind the argument that ended it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import json
import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

WRONG = {
    "text": "'abc'",
    "bytes": "b'x'",
    "object": "object()",
    "none": "None",
    "dict": "{}",
    "dict of one": "{'a': 1.0}",
    "set": "{1}",
    "function": "lambda: 3",
    "ragged list": "[[1.0, 2.0], [3.0]]",
    "empty list": "[]",
    "empty rows": "[[]]",
    "list of none": "[None]",
    "mixed list": "[1, 'a']",
    "huge": "2**70",
    "minus": "-1",
    "zero": "0",
    "seven": "7",
    "fraction": "1.5",
    "nan": "float('nan')",
    "true": "True",
    "complex": "1j",
    "range": "range(3)",
    "class": "int",
    "text array": "np.array(['a'])",
    "object array": "np.array([object()])",
    "date": "np.datetime64('2020-01-01')",
    "double array": "np.ones([2], np.float64)",
    "text tensor": "tf.constant('s')",
    "int tensor": "tf.constant(1)",
    "int vector": "tf.constant([1, 2])",
    "int64 vector": "tf.constant([0, 1], tf.int64)",
    "byte vector": "tf.constant([1, 2], tf.uint8)",
    "bool vector": "tf.constant([True, False])",
    "complex vector": "tf.constant([1 + 1j])",
    "half vector": "tf.constant([1, 2, 1], tf.float16)",
    "double vector": "tf.constant([1, 2, 1], tf.float64)",
    "wrong shape": "tf.ones([5, 7])",
    "wrong rank": "tf.ones([2, 1, 2, 1, 2, 1])",
    "empty tensor": "tf.zeros([0])",
    "variable": "tf.Variable([1.0, 2.0])",
}
"""Name -> expression. Every one is correct somewhere; the record knows where."""

SHAPE_OF_CALL = ("too few", "too many", "unknown keyword")

NAMES = {
    "v": "tf.constant([0.5, 0.25, 0.75])",
    "w": "tf.constant([0.75, 0.5, 0.25])",
    "m": "tf.constant([[0.5, 0.25, 0.75], [0.1, 0.9, 0.2]])",
    "q": "tf.constant([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])",
    "i": "tf.constant([0, 1, 2])",
    "l": "tf.constant([0, 0, 1])",
    "b": "tf.constant([True, False, True])",
    "z": "tf.constant([1 + 1j, 2 - 1j, 3], tf.complex64)",
    "zz": "tf.ones([3, 3, 3], tf.complex64)",
    "g": "tf.reshape(tf.range(48.0), [1, 4, 4, 3]) / 48.0",
    "g1": "tf.reshape(tf.range(16.0), [1, 8, 2]) / 16.0",
    "g3": "tf.reshape(tf.range(128.0), [1, 4, 4, 4, 2]) / 128.0",
    "big": "tf.reshape(tf.range(768.0), [1, 16, 16, 3]) / 768.0",
    "u8": "tf.zeros([4, 4, 3], tf.uint8)",
    "k": "tf.ones([2, 2, 3, 2])",
    "signal": "tf.range(16.0)",
    "boxes": "tf.constant([[0.0, 0.0, 1.0, 1.0], [0.1, 0.1, 0.9, 0.9]])",
    "scores": "tf.constant([0.9, 0.8])",
}

CALLS = """
tf.abs(v)
tf.acos(v)
tf.acosh(v + 1.0)
tf.add(v, w)
tf.add_n([v, w])
tf.argmax(m, axis=0, output_type=tf.int64)
tf.argmin(m, axis=1, output_type=tf.int32)
tf.argsort(m, axis=-1, direction='ASCENDING', stable=False)
tf.as_dtype('float32')
tf.asin(v)
tf.asinh(v)
tf.atan(v)
tf.atan2(v, w)
tf.atanh(v)
tf.batch_to_space(tf.ones([4, 2, 2, 1]), [2, 2], [[0, 0], [0, 0]])
tf.bitcast(v, tf.int32)
tf.boolean_mask(v, b, axis=0)
tf.broadcast_dynamic_shape([3, 1], [3])
tf.broadcast_static_shape(tf.TensorShape([3, 1]), tf.TensorShape([3]))
tf.broadcast_to(v, [2, 3])
tf.case([(tf.constant(True), lambda: v)], default=lambda: w)
tf.cast(v, tf.int32)
tf.clip_by_global_norm([v, w], 1.0, use_norm=None)
tf.clip_by_norm(m, 1.0, axes=[0])
tf.clip_by_value(v, 0.3, 0.6)
tf.complex(v, w)
tf.concat([v, w], 0)
tf.cond(tf.constant(True), lambda: v, lambda: w)
tf.constant([1, 2], dtype=tf.float32, shape=[2])
tf.constant(1, shape=[2, 2])
tf.control_dependencies([])
tf.convert_to_tensor([1, 2], dtype=tf.float32, dtype_hint=None)
tf.convert_to_tensor([1, 2], dtype_hint=tf.float32)
tf.cos(v)
tf.cosh(v)
tf.cumsum(m, axis=1, exclusive=True, reverse=False)
tf.device('/CPU:0')
tf.divide(v, w)
tf.dynamic_partition(v, l, 2)
tf.dynamic_stitch([i], [v])
tf.linalg.eig(q)
tf.linalg.eigvals(q)
tf.einsum('ij,jk->ik', m, q)
tf.ensure_shape(v, [3])
tf.equal(v, w)
tf.exp(v)
tf.expand_dims(v, 0)
tf.eye(2, num_columns=3, batch_shape=[2], dtype=tf.float32)
tf.fill([2, 2], 1.0)
tf.floor(v)
tf.foldl(lambda a, x: a + x, v, initializer=1.0)
tf.foldr(lambda a, x: a + x, v, initializer=1.0)
tf.gather(m, i, axis=1, batch_dims=0)
tf.gather(m, [[0], [1]], axis=1, batch_dims=1)
tf.gather_nd(m, [[0, 1]], batch_dims=0)
tf.greater(v, w)
tf.greater_equal(v, w)
tf.group(v)
tf.histogram_fixed_width(v, [0.0, 1.0], nbins=5, dtype=tf.int32)
tf.histogram_fixed_width_bins(v, [0.0, 1.0], nbins=5, dtype=tf.int32)
tf.identity(v)
tf.identity_n([v, w])
tf.is_tensor(v)
tf.less(v, w)
tf.less_equal(v, w)
tf.linspace(0.0, 1.0, 3, axis=0)
tf.logical_and(b, b)
tf.logical_not(b)
tf.logical_or(b, b)
tf.map_fn(lambda x: x + 1.0, v)
tf.map_fn(lambda x: x > 0.5, v, fn_output_signature=tf.bool)
tf.matmul(m, q, transpose_a=False, transpose_b=True)
tf.maximum(v, w)
tf.meshgrid(v, w, indexing='xy')
tf.minimum(v, w)
tf.multiply(v, w)
tf.negative(v)
tf.norm(m, ord=2, axis=1, keepdims=True)
tf.norm(m, ord='euclidean')
tf.not_equal(v, w)
tf.one_hot(i, 3, on_value=1.0, off_value=0.0, axis=-1, dtype=tf.float32)
tf.ones([2, 3], dtype=tf.int32)
tf.ones_like(v, dtype=tf.int32)
tf.pad(m, [[1, 1], [0, 2]], mode='CONSTANT', constant_values=0)
tf.pad(m, [[1, 1], [0, 2]], mode='REFLECT')
tf.pow(v, w)
tf.range(0, 5, 2, dtype=tf.int32)
tf.range(5)
tf.rank(v)
tf.realdiv(v, w)
tf.reduce_all(b, axis=0, keepdims=True)
tf.reduce_any(b, axis=0, keepdims=True)
tf.reduce_logsumexp(m, axis=0, keepdims=True)
tf.reduce_max(m, axis=0, keepdims=True)
tf.reduce_mean(m, axis=[0, 1], keepdims=True)
tf.reduce_min(m, axis=0, keepdims=True)
tf.reduce_prod(m, axis=0, keepdims=True)
tf.reduce_sum(m, axis=0, keepdims=True)
tf.repeat(v, 2, axis=0)
tf.repeat(v, [1, 2, 3], axis=0)
tf.reshape(m, [3, 2])
tf.reverse(m, [0])
tf.reverse_sequence(m, [1, 2], seq_axis=1, batch_axis=0)
tf.roll(m, 1, 0)
tf.round(v)
tf.saturate_cast(v, tf.uint8)
tf.scalar_mul(2.0, v)
tf.scan(lambda a, x: a + x, v, initializer=1.0, reverse=False)
tf.scatter_nd([[0], [2]], [1.0, 2.0], [4])
tf.searchsorted([1.0, 2.0, 3.0], [2.5], side='left', out_type=tf.int32)
tf.sequence_mask(i, maxlen=4, dtype=tf.bool)
tf.shape(v, out_type=tf.int64)
tf.shape_n([v, m])
tf.sigmoid(v)
tf.sign(v)
tf.sin(v)
tf.sinh(v)
tf.size(v, out_type=tf.int64)
tf.slice(m, [0, 1], [2, 2])
tf.sort(m, axis=-1, direction='DESCENDING')
tf.space_to_batch(tf.ones([1, 4, 4, 1]), [2, 2], [[0, 0], [0, 0]])
tf.split(m, 3, axis=1)
tf.split(m, [1, 2], axis=1, num=2)
tf.sqrt(v)
tf.square(v)
tf.squeeze(tf.ones([1, 3, 1]), axis=0)
tf.stack([v, w], axis=1)
tf.stop_gradient(v)
tf.strided_slice(m, [0, 0], [2, 2], strides=[1, 1], begin_mask=0, end_mask=1, shrink_axis_mask=0, new_axis_mask=0)
tf.subtract(v, w)
tf.switch_case(tf.constant(0), [lambda: v, lambda: w], default=lambda: v)
tf.tan(v)
tf.tanh(v)
tf.tensor_scatter_nd_add(v, [[0], [2]], [1.0, 2.0])
tf.tensor_scatter_nd_max(v, [[0], [2]], [1.0, 2.0])
tf.tensor_scatter_nd_min(v, [[0], [2]], [1.0, 2.0])
tf.tensor_scatter_nd_sub(v, [[0], [2]], [1.0, 2.0])
tf.tensor_scatter_nd_update(v, [[0], [2]], [1.0, 2.0])
tf.tensordot(m, q, 1)
tf.tensordot(m, q, [[1], [0]])
tf.tile(m, [2, 1])
tf.transpose(m, perm=[1, 0], conjugate=False)
tf.truediv(v, w)
tf.truncatediv(i, 2)
tf.truncatemod(i, 2)
tf.tuple([v, w])
tf.unique(l, out_idx=tf.int64)
tf.unique_with_counts(l, out_idx=tf.int64)
tf.unravel_index([1, 2], [2, 2])
tf.unstack(m, num=2, axis=0)
tf.vectorized_map(lambda x: x + 1.0, v)
tf.where(b, v, w)
tf.where(b)
tf.while_loop(lambda n: n < 3, lambda n: [n + 1], [tf.constant(0)], maximum_iterations=5)
tf.zeros([2, 3], dtype=tf.int32)
tf.zeros_like(v, dtype=tf.int32)
tf.Variable([1.0, 2.0], trainable=True, dtype=tf.float32, shape=[2], name='v')
tf.TensorShape([1, None])
tf.TensorSpec([2], dtype=tf.float32, name='x')
tf.IndexedSlices(v, i, dense_shape=[3])
tf.TensorArray(tf.float32, size=2, dynamic_size=False, element_shape=[])
tf.TensorArray(tf.float32, size=2).write(0, 1.0)
tf.TensorArray(tf.float32, size=2).unstack([1.0, 2.0])
tf.TensorArray(tf.float32, size=2).scatter([0, 1], [1.0, 2.0])
tf.TensorArray(tf.float32, size=2).unstack([1.0, 2.0]).read(1)
tf.TensorArray(tf.float32, size=2).unstack([1.0, 2.0]).gather([1])
tf.Variable(v).assign(w)
tf.Variable(v).assign_add(w)
tf.Variable(v).assign_sub(w)
tf.Variable(v)[0].assign(1.0)
tf.Variable(v)[1:].assign([1.0, 2.0])
tf.Variable(v).scatter_nd_add([[0]], [1.0])
tf.Variable(v).scatter_nd_update([[0]], [1.0])
tf.Variable(v).scatter_add(tf.IndexedSlices([1.0], [0]))
tf.Variable(v).gather_nd([[0]])
tf.Variable(v).sparse_read([0])
tf.math.accumulate_n([v, w], shape=[3], tensor_dtype=tf.float32)
tf.math.angle(z)
tf.math.bessel_i0(v)
tf.math.bessel_i0e(v)
tf.math.bessel_i1(v)
tf.math.bessel_i1e(v)
tf.math.betainc(v, w, v)
tf.math.bincount(l, weights=v, minlength=3, maxlength=5)
tf.math.bincount(l, dtype=tf.int64, axis=-1, binary_output=True)
tf.math.ceil(v)
tf.math.confusion_matrix(l, l, num_classes=2, weights=v, dtype=tf.float32)
tf.math.conj(z)
tf.math.count_nonzero(m, axis=0, keepdims=True, dtype=tf.int64)
tf.math.cumprod(m, axis=0, exclusive=True, reverse=True)
tf.math.cumulative_logsumexp(m, axis=0, exclusive=True, reverse=True)
tf.math.digamma(v)
tf.math.divide_no_nan(v, w)
tf.math.erf(v)
tf.math.erfc(v)
tf.math.erfcinv(v)
tf.math.erfinv(v)
tf.math.expm1(v)
tf.math.floordiv(v, w)
tf.math.floormod(v, w)
tf.math.igamma(v, w)
tf.math.igammac(v, w)
tf.math.imag(z)
tf.math.in_top_k([0, 1], m, 2)
tf.math.invert_permutation(i)
tf.math.is_finite(v)
tf.math.is_inf(v)
tf.math.is_nan(v)
tf.math.is_non_decreasing(v)
tf.math.is_strictly_increasing(v)
tf.math.l2_normalize(m, axis=1, epsilon=1e-12)
tf.math.lbeta(v)
tf.math.lgamma(v)
tf.math.log(v)
tf.math.log1p(v)
tf.math.log_sigmoid(v)
tf.math.log_softmax(m, axis=-1)
tf.math.logical_xor(b, b)
tf.math.multiply_no_nan(v, w)
tf.math.ndtri(v)
tf.math.nextafter(v, w)
tf.math.polygamma(v, w)
tf.math.polyval([v, w], v)
tf.math.real(z)
tf.math.reciprocal(v)
tf.math.reciprocal_no_nan(v)
tf.math.reduce_euclidean_norm(m, axis=0, keepdims=True)
tf.math.reduce_std(m, axis=0, keepdims=True)
tf.math.reduce_variance(m, axis=0, keepdims=True)
tf.math.rint(v)
tf.math.rsqrt(v)
tf.math.segment_max(v, l)
tf.math.segment_mean(v, l)
tf.math.segment_min(v, l)
tf.math.segment_prod(v, l)
tf.math.segment_sum(v, l)
tf.math.softmax(m, axis=-1)
tf.math.softplus(v)
tf.math.softsign(v)
tf.math.squared_difference(v, w)
tf.math.top_k(m, k=2, sorted=True, index_type=tf.int32)
tf.math.unsorted_segment_max(v, l, 2)
tf.math.unsorted_segment_mean(v, l, 2)
tf.math.unsorted_segment_min(v, l, 2)
tf.math.unsorted_segment_prod(v, l, 2)
tf.math.unsorted_segment_sqrt_n(v, l, 2)
tf.math.unsorted_segment_sum(v, l, 2)
tf.math.xdivy(v, w)
tf.math.xlog1py(v, w)
tf.math.xlogy(v, w)
tf.math.zero_fraction(v)
tf.math.zeta(v + 1.0, w)
tf.math.special.bessel_j0(v)
tf.math.special.bessel_j1(v)
tf.math.special.bessel_k0(v)
tf.math.special.bessel_k0e(v)
tf.math.special.bessel_k1(v)
tf.math.special.bessel_k1e(v)
tf.math.special.bessel_y0(v)
tf.math.special.bessel_y1(v)
tf.math.special.dawsn(v)
tf.math.special.expint(v)
tf.math.special.fresnel_cos(v)
tf.math.special.fresnel_sin(v)
tf.math.special.spence(v)
tf.linalg.adjoint(m)
tf.linalg.band_part(m, 1, 0)
tf.linalg.banded_triangular_solve(tf.ones([2, 3]), tf.ones([3, 1]), lower=True, adjoint=False)
tf.linalg.cholesky(q)
tf.linalg.cholesky_solve(q, tf.ones([3, 1]))
tf.linalg.cross(v, w)
tf.linalg.det(q)
tf.linalg.diag(v, k=1, num_rows=4, num_cols=4, padding_value=0, align='RIGHT_LEFT')
tf.linalg.diag_part(q, k=(0, 1), padding_value=0, align='LEFT_RIGHT')
tf.linalg.eigh(q)
tf.linalg.eigh_tridiagonal(v, [0.1, 0.2], eigvals_only=True, select='a')
tf.linalg.eigvalsh(q)
tf.linalg.expm(q)
tf.linalg.global_norm([v, w])
tf.linalg.inv(q, adjoint=False)
tf.linalg.logdet(q)
tf.linalg.logm(tf.eye(3, dtype=tf.complex64))
tf.linalg.lstsq(q, tf.ones([3, 1]), l2_regularizer=0.0, fast=True)
tf.linalg.lu(q, output_idx_type=tf.int32)
tf.linalg.lu_matrix_inverse(q, i, validate_args=False)
tf.linalg.lu_reconstruct(q, i, validate_args=True)
tf.linalg.lu_solve(q, i, tf.ones([3, 1]), validate_args=True)
tf.linalg.matrix_rank(q, tol=None, validate_args=True)
tf.linalg.matrix_transpose(m, conjugate=False)
tf.linalg.matvec(m, v, transpose_a=False, adjoint_a=False)
tf.linalg.normalize(m, ord='euclidean', axis=1)
tf.linalg.pinv(q, rcond=None, validate_args=True)
tf.linalg.qr(q, full_matrices=False)
tf.linalg.set_diag(q, v, k=0, align='RIGHT_LEFT')
tf.linalg.slogdet(q)
tf.linalg.solve(q, tf.ones([3, 1]), adjoint=False)
tf.linalg.sqrtm(q)
tf.linalg.svd(q, full_matrices=False, compute_uv=False)
tf.linalg.tensor_diag(v)
tf.linalg.tensor_diag_part(q)
tf.linalg.trace(q)
tf.linalg.triangular_solve(q, tf.ones([3, 1]), lower=True, adjoint=False)
tf.linalg.tridiagonal_matmul(q, tf.ones([3, 1]), diagonals_format='compact')
tf.linalg.tridiagonal_solve(q, tf.ones([3, 1]), diagonals_format='compact')
tf.nn.atrous_conv2d(g, k, 2, 'SAME')
tf.nn.avg_pool(g, 2, 2, 'SAME', data_format='NHWC')
tf.nn.avg_pool1d(g1, 2, 2, 'VALID', data_format='NWC')
tf.nn.avg_pool2d(g, [2, 2], [1, 1], 'VALID', data_format='NHWC')
tf.nn.avg_pool3d(g3, 2, 2, 'SAME')
tf.nn.batch_normalization(m, v, w, v, w, 1e-3)
tf.nn.bias_add(m, v, data_format='N..C')
tf.nn.collapse_repeated([[1, 1, 2]], [3])
tf.nn.compute_average_loss(v, sample_weight=w, global_batch_size=3)
tf.nn.conv1d(g1, tf.ones([2, 2, 3]), 1, 'SAME', data_format='NWC', dilations=1)
tf.nn.conv1d_transpose(g1, tf.ones([2, 3, 2]), [1, 16, 3], 2, padding='SAME')
tf.nn.conv2d(g, k, [1, 1], 'SAME', data_format='NHWC', dilations=[1, 1])
tf.nn.conv2d(g, k, 1, [[0, 0], [1, 1], [1, 1], [0, 0]])
tf.nn.conv2d_transpose(g, tf.ones([2, 2, 2, 3]), [1, 8, 8, 2], 2, padding='SAME')
tf.nn.conv3d(g3, tf.ones([2, 2, 2, 2, 1]), [1, 1, 1, 1, 1], 'SAME')
tf.nn.conv3d_transpose(g3, tf.ones([2, 2, 2, 1, 2]), [1, 8, 8, 8, 1], 2)
tf.nn.conv_transpose(g, tf.ones([2, 2, 2, 3]), [1, 8, 8, 2], 2)
tf.nn.convolution(g, k, strides=1, padding='VALID', dilations=1)
tf.nn.crelu(m, axis=-1)
tf.nn.ctc_loss([[1, 2]], tf.ones([4, 1, 4]), [2], [4], logits_time_major=True, blank_index=0)
tf.nn.depth_to_space(tf.ones([1, 2, 2, 4]), 2, data_format='NHWC')
tf.nn.depthwise_conv2d(g, k, [1, 1, 1, 1], 'SAME', dilations=[1, 1])
tf.nn.dilation2d(g, tf.ones([2, 2, 3]), [1, 1, 1, 1], 'SAME', 'NHWC', [1, 1, 1, 1])
tf.nn.dropout(v, 0.5, noise_shape=[3], seed=1)
tf.nn.elu(v)
tf.nn.embedding_lookup(q, i, max_norm=1.0)
tf.nn.erosion2d(g, tf.ones([2, 2, 3]), [1, 1, 1, 1], 'SAME', 'NHWC', [1, 1, 1, 1])
tf.nn.gelu(v, approximate=True)
tf.nn.l2_loss(v)
tf.nn.leaky_relu(v, alpha=0.2)
tf.nn.local_response_normalization(g, depth_radius=5, bias=1, alpha=1, beta=0.5)
tf.nn.log_poisson_loss(v, w, compute_full_loss=True)
tf.nn.max_pool(g, 2, 2, 'SAME', data_format='NHWC')
tf.nn.max_pool1d(g1, 2, 2, 'VALID', data_format='NWC')
tf.nn.max_pool2d(g, [2, 2], [1, 1], 'VALID', data_format='NHWC')
tf.nn.max_pool3d(g3, 2, 2, 'SAME')
tf.nn.max_pool_with_argmax(g, 2, 2, 'SAME', output_dtype=tf.int64, include_batch_in_index=True)
tf.nn.moments(m, [0], keepdims=True)
tf.nn.normalize_moments(2.0, v, w, None)
tf.nn.pool(g, [2, 2], 'MAX', strides=[1, 1], padding='SAME', dilations=[1, 1])
tf.nn.relu(v)
tf.nn.relu6(v)
tf.nn.selu(v)
tf.nn.separable_conv2d(g, tf.ones([2, 2, 3, 1]), tf.ones([1, 1, 3, 2]), [1, 1, 1, 1], 'SAME', dilations=[1, 1])
tf.nn.sigmoid_cross_entropy_with_logits(labels=v, logits=w)
tf.nn.silu(v, beta=1.0)
tf.nn.softmax_cross_entropy_with_logits(m, m, axis=-1)
tf.nn.space_to_depth(tf.ones([1, 4, 4, 1]), 2, data_format='NHWC')
tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1], m)
tf.nn.sufficient_statistics(m, [0], shift=None, keepdims=True)
tf.nn.weighted_cross_entropy_with_logits(v, w, 2.0)
tf.nn.weighted_moments(m, [0], m, keepdims=True)
tf.nn.experimental.stateless_dropout(v, 0.5, [1, 2], noise_shape=[3])
tf.signal.dct(signal, type=2, n=8, axis=-1, norm='ortho')
tf.signal.idct(signal, type=2, norm='ortho')
tf.signal.fft(z)
tf.signal.fft2d(zz)
tf.signal.fft3d(zz)
tf.signal.ifft(z)
tf.signal.ifft2d(zz)
tf.signal.ifft3d(zz)
tf.signal.fftshift(signal, axes=0)
tf.signal.ifftshift(signal, axes=0)
tf.signal.frame(signal, 4, 2, pad_end=True, pad_value=0, axis=-1)
tf.signal.hamming_window(8, periodic=True, dtype=tf.float32)
tf.signal.hann_window(8, periodic=True, dtype=tf.float32)
tf.signal.inverse_mdct(tf.ones([3, 4]))
tf.signal.inverse_stft(tf.ones([3, 5], tf.complex64), 8, 4, fft_length=8)
tf.signal.irfft(z, fft_length=[4])
tf.signal.irfft2d(zz, fft_length=[3, 4])
tf.signal.irfft3d(zz, fft_length=[3, 3, 4])
tf.signal.kaiser_bessel_derived_window(8, beta=12.0, dtype=tf.float32)
tf.signal.kaiser_window(8, beta=12.0, dtype=tf.float32)
tf.signal.linear_to_mel_weight_matrix(4, 17, 8000, lower_edge_hertz=125.0, upper_edge_hertz=3800.0, dtype=tf.float32)
tf.signal.mdct(signal, 8, pad_end=True, norm='ortho')
tf.signal.mfccs_from_log_mel_spectrograms(m)
tf.signal.overlap_and_add(m, 1)
tf.signal.rfft(v, fft_length=[4])
tf.signal.rfft2d(q, fft_length=[3, 4])
tf.signal.rfft3d(tf.ones([3, 3, 3]), fft_length=[3, 3, 4])
tf.signal.stft(signal, 8, 4, fft_length=8, pad_end=True)
tf.signal.vorbis_window(8, dtype=tf.float32)
tf.image.adjust_brightness(g, 0.1)
tf.image.adjust_contrast(g, 2.0)
tf.image.adjust_gamma(g, gamma=2.0, gain=1.0)
tf.image.adjust_hue(g, 0.1)
tf.image.adjust_saturation(g, 0.5)
tf.image.adjust_jpeg_quality(g[0], 80)
tf.image.central_crop(g, 0.5)
tf.image.combined_non_max_suppression(boxes[None, :, None], scores[None, :, None], 2, 2, iou_threshold=0.5)
tf.image.convert_image_dtype(g, tf.uint8, saturate=True)
tf.image.crop_and_resize(g, boxes, [0, 0], [2, 2], method='bilinear', extrapolation_value=0.0)
tf.image.crop_to_bounding_box(g, 1, 1, 2, 2)
tf.image.draw_bounding_boxes(g, boxes[None], [[1.0, 0.0, 0.0]])
tf.image.encode_jpeg(u8, quality=95)
tf.image.encode_png(u8, compression=-1)
tf.image.extract_patches(g, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], 'VALID')
tf.image.flip_left_right(g)
tf.image.flip_up_down(g)
tf.image.grayscale_to_rgb(tf.ones([2, 2, 1]))
tf.image.hsv_to_rgb(g)
tf.image.image_gradients(g)
tf.image.non_max_suppression(boxes, scores, 2, iou_threshold=0.5, score_threshold=0.1)
tf.image.non_max_suppression_overlaps(tf.ones([2, 2]), scores, 2, overlap_threshold=0.5)
tf.image.non_max_suppression_with_scores(boxes, scores, 2, iou_threshold=0.5, soft_nms_sigma=0.1)
tf.image.pad_to_bounding_box(g, 1, 1, 8, 8)
tf.image.per_image_standardization(g)
tf.image.psnr(g, g * 0.5, 1.0)
tf.image.random_brightness(g, 0.1, seed=1)
tf.image.random_contrast(g, 0.5, 1.5, seed=1)
tf.image.random_crop(g, [1, 2, 2, 3], seed=1)
tf.image.random_flip_left_right(g, seed=1)
tf.image.random_flip_up_down(g, seed=1)
tf.image.random_hue(g, 0.1, seed=1)
tf.image.random_saturation(g, 0.5, 1.5, seed=1)
tf.image.resize(g, [2, 2], method='bilinear', preserve_aspect_ratio=True, antialias=False)
tf.image.resize_with_crop_or_pad(g, 2, 8)
tf.image.resize_with_pad(g, 8, 8, method='bilinear', antialias=True)
tf.image.rgb_to_grayscale(g)
tf.image.rgb_to_hsv(g)
tf.image.rgb_to_yiq(g)
tf.image.rgb_to_yuv(g)
tf.image.rot90(g, k=1)
tf.image.sobel_edges(g)
tf.image.ssim(big, big, 1.0, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03)
tf.image.stateless_random_brightness(g, 0.1, [1, 2])
tf.image.stateless_random_contrast(g, 0.5, 1.5, [1, 2])
tf.image.stateless_random_crop(g, [1, 2, 2, 3], [1, 2])
tf.image.stateless_random_flip_left_right(g, [1, 2])
tf.image.stateless_random_flip_up_down(g, [1, 2])
tf.image.stateless_random_hue(g, 0.1, [1, 2])
tf.image.stateless_random_saturation(g, 0.5, 1.5, [1, 2])
tf.image.total_variation(g)
tf.image.transpose(g)
tf.image.yiq_to_rgb(g)
tf.image.yuv_to_rgb(g)
tf.random.categorical(m, 2, dtype=tf.int64, seed=1)
tf.random.fold_in([1, 2], 3)
tf.random.gamma([2], 1.5, beta=2.0, dtype=tf.float32, seed=1)
tf.random.log_uniform_candidate_sampler([[0], [1]], 1, 2, True, 5, seed=1)
tf.random.normal([2], mean=0.0, stddev=1.0, dtype=tf.float32, seed=1)
tf.random.poisson([2], 1.5, dtype=tf.float32, seed=1)
tf.random.shuffle(m, seed=1)
tf.random.split([1, 2], num=2)
tf.random.stateless_binomial([2], [1, 2], 10.0, 0.5, output_dtype=tf.int32)
tf.random.stateless_categorical(m, 2, [1, 2], dtype=tf.int64)
tf.random.stateless_gamma([2], [1, 2], 1.5, beta=2.0, dtype=tf.float32)
tf.random.stateless_normal([2], [1, 2], mean=0.0, stddev=1.0, dtype=tf.float32)
tf.random.stateless_parameterized_truncated_normal([2], [1, 2], means=0.0, stddevs=1.0, minvals=-2.0, maxvals=2.0)
tf.random.stateless_poisson([2], [1, 2], 1.5, dtype=tf.int32)
tf.random.stateless_truncated_normal([2], [1, 2], mean=0.0, stddev=1.0, dtype=tf.float32)
tf.random.stateless_uniform([2], [1, 2], minval=0, maxval=5, dtype=tf.int32)
tf.random.stateless_uniform([2], [1, 2], minval=0.0, maxval=5.0)
tf.random.truncated_normal([2], mean=0.0, stddev=1.0, dtype=tf.float32, seed=1)
tf.random.uniform([2], minval=0, maxval=5, dtype=tf.int32, seed=1)
tf.random.uniform([2], minval=0.0, maxval=5.0)
tf.random.uniform_candidate_sampler([[0], [1]], 1, 2, True, 5, seed=1)
tf.random.experimental.stateless_shuffle(m, [1, 2])
tf.random.set_seed(1)
tf.random.Generator.from_seed(1)
tf.random.Generator.from_seed(1).normal([2], mean=0.0, stddev=1.0, dtype=tf.float32)
tf.random.Generator.from_seed(1).uniform([2], minval=0, maxval=5, dtype=tf.int32)
tf.random.Generator.from_seed(1).split(2)
tf.bitwise.bitwise_and(i, i)
tf.bitwise.bitwise_or(i, i)
tf.bitwise.bitwise_xor(i, i)
tf.bitwise.invert(i)
tf.bitwise.left_shift(i, i)
tf.bitwise.right_shift(i, i)
tf.Assert(tf.constant(True), [v], summarize=3)
tf.debugging.assert_all_finite(v, 'not finite')
tf.debugging.assert_equal(v, v, message='m', summarize=3)
tf.debugging.assert_greater(v, 0.0)
tf.debugging.assert_greater_equal(v, 0.0)
tf.debugging.assert_integer(i, message='m')
tf.debugging.assert_less(v, 2.0)
tf.debugging.assert_less_equal(v, 2.0)
tf.debugging.assert_near(v, v, rtol=1e-3, atol=1e-3)
tf.debugging.assert_negative(-v)
tf.debugging.assert_non_negative(v)
tf.debugging.assert_non_positive(-v)
tf.debugging.assert_none_equal(v, 2.0)
tf.debugging.assert_positive(v)
tf.debugging.assert_proper_iterable([1])
tf.debugging.assert_rank(v, 1)
tf.debugging.assert_rank_at_least(v, 1)
tf.debugging.assert_rank_in(v, [1, 2])
tf.debugging.assert_same_float_dtype([v, w], dtype=tf.float32)
tf.debugging.assert_scalar(1.0)
tf.debugging.assert_shapes([(v, [3])])
tf.debugging.assert_type(v, tf.float32)
tf.debugging.check_numerics(v, 'm')
tf.debugging.is_numeric_tensor(v)
tf.io.decode_raw(b'abcd', tf.float32, little_endian=True, fixed_length=4)
tf.io.parse_tensor(tf.io.serialize_tensor(v), tf.float32)
tf.io.serialize_tensor(v)
tf.nest.assert_same_structure([1], [2])
tf.nest.flatten([1, [2]])
tf.nest.is_nested([1])
tf.nest.map_structure(abs, [1])
tf.nest.pack_sequence_as([1, 2], [3, 4])
tf.sparse.from_dense(m)
tf.quantization.fake_quant_with_min_max_args(v, min=-6, max=6, num_bits=8, narrow_range=False)
tf.quantization.fake_quant_with_min_max_vars(v, -6.0, 6.0, num_bits=8, narrow_range=False)
tf.quantization.fake_quant_with_min_max_vars_per_channel(m, -v, v, num_bits=8)
v + w
v - w
v * w
v / w
v // w
v % w
v ** w
m @ q
i + i
i - i
i * i
i / i
i // 2
i % 2
i ** i
i & i
i | i
i ^ i
b & b
v < w
v <= w
v > w
v >= w
v == w
v != w
-v
~i
abs(v)
v[1]
m[0, 1]
m[0:1]
m[:, 1]
v[b]
len(v)
float(v[0])
int(i[0])
bool(b[0])
"""


def slots(call: str) -> list[str]:
    """The arguments of a call, operands of an operator or parts of an index that can be replaced, by name."""
    return [name for name, _ in _places(ast.parse(call, mode="eval").body)]


def _places(node: ast.expr) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Name of the argument, and the container and key where it stands in the tree."""
    if isinstance(node, ast.Call):
        for n in range(len(node.args)):
            yield str(n), (node.args, n)
        for keyword in node.keywords:
            yield str(keyword.arg), (keyword, "value")
    elif isinstance(node, ast.BinOp):
        yield "left", (node, "left")
        yield "right", (node, "right")
    elif isinstance(node, ast.Compare):
        yield "left", (node, "left")
        yield "right", (node.comparators, 0)
    elif isinstance(node, ast.UnaryOp):
        yield "operand", (node, "operand")
    elif isinstance(node, ast.Subscript):
        yield "value", (node, "value")
        if isinstance(node.slice, ast.Slice):
            yield "stop", (node.slice, "upper")
        elif isinstance(node.slice, ast.Tuple):
            yield "last index", (node.slice.elts, 1)
        else:
            yield "index", (node, "slice")


def cases(call: str) -> Iterator[tuple[str, str, str]]:
    """(slot, name of the wrong value, expression) for every wrong form of a call."""
    for slot in slots(call):
        for name, wrong in WRONG.items():
            tree = ast.parse(call, mode="eval").body
            container, key = dict(_places(tree))[slot]
            value = ast.parse(wrong, mode="eval").body
            if isinstance(container, list):
                container[key] = value
            else:
                setattr(container, key, value)
            yield slot, name, ast.unparse(tree)
    tree = ast.parse(call, mode="eval").body
    if isinstance(tree, ast.Call):
        few, many, unknown = ast.parse(call, mode="eval").body, tree, ast.parse(call, mode="eval").body
        assert isinstance(few, ast.Call)
        assert isinstance(unknown, ast.Call)
        del few.args[-1:], few.keywords[:]
        many.args += [ast.Constant(1)] * 20
        many.keywords.clear()
        unknown.keywords.append(ast.keyword("no_such_argument", ast.Constant(1)))
        for name, form in zip(SHAPE_OF_CALL, (few, many, unknown), strict=True):
            yield "call", name, ast.unparse(form)


def names(tf: Any) -> dict[str, Any]:
    """The names that calls may use."""
    return {"tf": tf, "np": np, **{name: eval(value, {"tf": tf}) for name, value in NAMES.items()}}


def describe(result: Any) -> str:
    """dtype and shape of every tensor in a result; the class of what is no tensor."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return "[" + ", ".join(describe(part) for part in result[:4]) + "]"
    if hasattr(result, "dtype") and hasattr(result, "shape"):
        return f"{getattr(result.dtype, 'name', result.dtype)}{result.shape}".replace(" ", "")
    return type(result).__name__ if isinstance(result, (bool, int, float, type(None))) else "ok"


def outcome(expression: str, scope: dict[str, Any]) -> tuple[str, Exception | None]:
    """The class of the error that an expression raises, or a description of its result; and the error."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            return describe(eval(expression, dict(scope))), None
    except Exception as error:
        return type(error).__name__, error


# -- the record ------------------------------------------------------------------------------------------------------
def load(path: Any) -> dict[str, dict[str, list[str]]]:
    """Call -> slot -> outcomes, in the order of `cases`."""
    stored = json.loads(path.read_text())
    return {
        call: {slot: [stored["outcomes"][n] for n in _decoded(row)] for slot, row in rows.items()}
        for call, rows in stored["calls"].items()
    }


def _decoded(row: str) -> Iterator[int]:
    """Numbers from "7 3x40": one 7, then 40 times 3."""
    for part in row.split(" "):
        number, _, times = part.partition("x")
        yield from [int(number)] * int(times or 1)


def _encoded(numbers: list[int]) -> str:
    parts = []
    for number, group in itertools.groupby(numbers):
        times = len(list(group))
        parts.append(f"{number}x{times}" if times > 1 else str(number))
    return " ".join(parts)


def save(path: str, found: dict[str, dict[str, list[str]]]) -> None:
    """Write outcomes, each by its number in one list of them all."""
    outcomes = sorted({outcome for rows in found.values() for row in rows.values() for outcome in row})
    number = {outcome: n for n, outcome in enumerate(outcomes)}
    calls = {
        call: {slot: _encoded([number[outcome] for outcome in row]) for slot, row in rows.items()}
        for call, rows in found.items()
    }
    with open(path, "w") as file:
        json.dump({"outcomes": outcomes, "calls": calls}, file, indent=0)
        file.write("\n")


def _record_some(queue: Any, todo: list[tuple[int, str]]) -> None:
    import signal

    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    scope = names(tf)
    for index, expression in todo:
        queue.put((index, None))
        signal.alarm(60)  # ends the process: a crash, like the others
        queue.put((index, outcome(expression, scope)[0]))
        signal.alarm(0)
    queue.put(None)


def record(path: str) -> None:
    """Write TensorFlow's outcomes of all cases."""
    listed = [(call, *case) for call in CALLS.split("\n") if call for case in cases(call)]
    todo = [(n, expression) for n, (_, _, _, expression) in enumerate(listed)]
    found: dict[int, str] = {}
    context = multiprocessing.get_context("spawn")
    while todo:
        queue = context.SimpleQueue()
        child = context.Process(target=_record_some, args=(queue, todo))
        child.start()
        at = todo[0][0]
        while child.is_alive() or not queue.empty():
            if queue.empty():
                child.join(0.001)
                continue
            item = queue.get()
            if item is None:
                at = -1
                break
            at, result = item
            if result is not None:
                found[at] = result
        child.join()
        if at >= 0:
            found[at] = "crash"
            print("crash:", listed[at][3], flush=True)
        todo = [item for item in todo if item[0] not in found]
    rows: dict[str, dict[str, list[str]]] = {}
    for n, (call, slot, _, _) in enumerate(listed):
        rows.setdefault(call, {}).setdefault(slot, []).append(found[n])
    save(path, rows)


if __name__ == "__main__":
    record(sys.argv[1])
