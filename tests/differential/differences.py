"""What gradtape answers differently from TensorFlow, on purpose.

Every reason stands in docs/differences.md, in the words that `REASONS` quotes from there.
"""

from __future__ import annotations

REASONS = {
    "derivatives": "For others it returns None",
    "NaN in order": "Here NaN is larger than every number.",
    "overflow": "Functions whose intermediate results overflow return the correct number",
    "dtypes": "Some ops take dtypes for which TensorFlow has no kernel",
    "empty transforms": "Fourier transforms of empty signals are empty or zero",
    "reversed scalar": "`tf.reverse` of a scalar has a Jacobian",
    "Jacobian": "The Jacobian of an elementwise function is 0 off its diagonal",
}

ON_PURPOSE: dict[str, tuple[str, ...]] = {
    "derivatives": (
        "grad(lambda x: tf.gather_nd(x, np.zeros([2, 0], np.int32)), ramp(2, 3))",
        "grad(lambda x: tf.signal.rfft(x, [2]), ones([4]))",
        "grad(lambda x: tf.signal.rfft(x, [3]), ones([4]))",
        "grad(lambda x: tf.signal.rfft(x, [4]), ones([0]))",
        "grad(lambda x: tf.transpose(x, [-1, 0]), ramp(2, 3))",
        "grad(tf.image.hsv_to_rgb, [[.3, .3, .1], [.1, .5, .5], [0., .2, .2], [.5, 1., .5], [1., 0., 0.]])",
        "grad(tf.linalg.expm, ones([0, 2, 2]), order=2)",
    ),
    "NaN in order": (
        "tf.sort([2., nan, 1.], direction='DESCENDING')",
        "tf.math.top_k([2., nan, 1.], 2)",
        "tf.math.top_k([1., nan], 1)",
    ),
    "overflow": ("grad(tf.math.polygamma, [170., 171., 1e15, 2.], [5., 5., 10., 3.])",),
    "dtypes": (
        "tf.linalg.tensor_diag(ones([2], tf.bfloat16))",
        "tf.linalg.tensor_diag_part(ones([2, 2], tf.bfloat16))",
        "tf.linalg.matrix_rank(tf.cast(ramp(2, 2), tf.float16))",
        'tf.einsum("ij,jk->ik", ones([2,3], tf.int8), ones([3,2], tf.int8))',
        "tf.tensordot(ones([2, 3], tf.uint8), ones([3], tf.uint8), 1)",
        "tf.signal.fftnd(units(0), [0], [0])",
        "tf.signal.fftnd(units(2, 2)).shape",
        "tf.signal.rfftnd(np.ones([3, 3])).dtype",
    ),
    "empty transforms": (
        "tf.signal.irfft(units(1))",
        "tf.signal.irfft(units(3), [0])",
        "grad(tf.signal.irfft, units(1))",
        "tf.signal.rfft(ones([3]), [0])",
        "grad(lambda x: tf.signal.rfft(x, [0]), ones([3]))",
    ),
    "Jacobian": (
        "jacobian(tf.math.polygamma, draw(429, [5], 'float64', 'normal'), draw(21, [5], 'float64', 'normal'))",
    ),
    "reversed scalar": ("jacobian(lambda x: tf.reverse(x, [0]), 3.)",),
}
"""Reason -> the questions whose answer differs because of it."""
