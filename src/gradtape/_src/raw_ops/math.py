"""Raw ops of numbers: elementwise functions, comparisons, bits, reductions, cumulative sums, segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.ops import special as special_ops
from gradtape._src.raw_ops.derivative import transposed
from gradtape._src.tf import array, bitwise, indexing, linalg, math, nn, segments, shaping, signal, special
from gradtape._src.tf.debugging import check_numerics
from gradtape._src.tf.isotonic import isotonic_regression

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor


def _approximately_equal(x: Any, y: Any, tolerance: float) -> Tensor:
    return math.less(math.abs(math.subtract(x, y)), array.cast(tolerance, x.dtype))


def _comparison(function: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    """== and !=: shapes that do not broadcast are an error, or the result is the constant `otherwise`."""

    def op(x: Any, y: Any, incompatible_shape_error: bool) -> Any:
        try:
            return function(x, y)
        except errors.InvalidArgumentError:
            if incompatible_shape_error or x.dtype != y.dtype:
                raise
            return array.constant(otherwise)

    return op


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(input: Any, axis: Any, keep_dims: bool) -> Any:
        return function(input, axis, keep_dims)

    return op


def _sparse_segments(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(data: Any, indices: Any, segment_ids: Any, sparse_gradient: bool = False) -> Any:
        return function(array.gather(data if sparse_gradient else array.identity(data), indices), segment_ids)

    return op


def _segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any = None) -> Tensor:
    count = math.reduce_max(segment_ids) + 1 if num_segments is None else num_segments
    return segments.unsorted_segment_sqrt_n(data, segment_ids, count)


def _sparse_segments_of_number(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(data: Any, indices: Any, segment_ids: Any, num_segments: Any, sparse_gradient: bool = False) -> Any:
        rows = array.gather(data if sparse_gradient else array.identity(data), indices)
        return function(rows, segment_ids, num_segments)

    return op


def _population_count(x: Any) -> Tensor:
    bits = x.dtype.size * 8
    unsigned = shaping.bitcast(x, f"uint{bits}")
    total = array.zeros_like(array.cast(x, "uint8"))
    for i in range(bits):
        one = bitwise.bitwise_and(bitwise.right_shift(unsigned, array.cast(i, unsigned.dtype)), 1)
        total = total + array.cast(one, "uint8")
    return total


def _bucketize(input: Any, boundaries: list[float]) -> Tensor:
    edges = array.constant(boundaries, "float32")
    found = indexing.searchsorted(edges, array.reshape(array.cast(input, "float32"), [-1]), side="right")
    return array.reshape(found, array.shape(input))


def _bincount(arr: Any, size: Any, weights: Any) -> Tensor:
    given = weights if weights.shape.num_elements() else None
    return indexing.bincount(
        array.reshape(arr, [-1]), None if given is None else array.reshape(given, [-1]), size, size, weights.dtype
    )


def _dense_bincount(input: Any, size: Any, weights: Any, binary_output: bool) -> Tensor:
    given = weights if weights.shape.num_elements() else None
    axis = -1 if input.shape.rank == 2 else 0
    return indexing.bincount(input, given, size, size, weights.dtype, axis=axis, binary_output=binary_output)


def _cumulative(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(x: Any, axis: Any, exclusive: bool, reverse: bool) -> Any:
        return function(x, axis, exclusive, reverse)

    return op


def _bound(side: str) -> Callable[..., Any]:
    def op(sorted_inputs: Any, values: Any, out_type: Any) -> Tensor:
        return indexing.searchsorted(sorted_inputs, values, side, out_type)

    return op


def _nth_element(input: Any, n: Any, reverse: bool) -> Tensor:
    """The value at position `n` of each sorted row."""
    ordered = math.sort(input, direction="DESCENDING" if reverse else "ASCENDING")
    return array.gather(ordered, n, axis=-1)


def _isotonic(input: Any, output_dtype: Any) -> tuple[Tensor, Tensor]:
    found = isotonic_regression(array.cast(input, output_dtype))
    return found.output, found.segments


def _reduced_axes(s0: Any, s1: Any) -> tuple[Tensor, Tensor]:
    """The axes over which the gradients of two operands of these shapes are summed."""
    shapes = [[int(n) for n in s] for s in (s0, s1)]
    if shapes[0] == shapes[1]:
        return array.zeros([0], s0.dtype), array.zeros([0], s0.dtype)
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + shape for shape in shapes]
    out = [max(pair) if 0 not in pair else 0 for pair in zip(*padded, strict=True)]
    axes = [
        [i for i in range(rank) if shape[i] == 1 and (out[i] != 1 or padded[0][i] == padded[1][i])] for shape in padded
    ]
    return array.constant(axes[0], s0.dtype), array.constant(axes[1], s0.dtype)


def _sparse_segments_vjp(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(grad: Any, indices: Any, segment_ids: Any, output_dim0: Any) -> Any:
        shape = array.concat([array.reshape(output_dim0, [1]), array.shape(grad)[1:]], 0)
        return transposed(lambda data: function(array.gather(data, indices), segment_ids), shape, grad)

    return op


OPS: dict[str, Callable[..., Any]] = {
    # -- one operand
    "Abs": math.abs,
    "Acos": math.acos,
    "Acosh": math.acosh,
    "Angle": math.angle,
    "Asin": math.asin,
    "Asinh": math.asinh,
    "Atan": math.atan,
    "Atanh": math.atanh,
    "BesselI0": special.bessel_i0,
    "BesselI0e": special.bessel_i0e,
    "BesselI1": special.bessel_i1,
    "BesselI1e": special.bessel_i1e,
    "BesselJ0": special_ops.bessel_j0,
    "BesselJ1": special_ops.bessel_j1,
    "BesselK0": special_ops.bessel_k0,
    "BesselK0e": special_ops.bessel_k0e,
    "BesselK1": special_ops.bessel_k1,
    "BesselK1e": special_ops.bessel_k1e,
    "BesselY0": special_ops.bessel_y0,
    "BesselY1": special_ops.bessel_y1,
    "Ceil": math.ceil,
    "CheckNumerics": check_numerics,
    "CheckNumericsV2": check_numerics,
    "ComplexAbs": math.abs,
    "Conj": math.conj,
    "Cos": math.cos,
    "Cosh": math.cosh,
    "Dawsn": special_ops.dawsn,
    "Digamma": math.digamma,
    "Erf": math.erf,
    "Erfc": math.erfc,
    "Erfinv": math.erfinv,
    "Exp": math.exp,
    "Expint": special_ops.expint,
    "Expm1": math.expm1,
    "Floor": math.floor,
    "FresnelCos": special_ops.fresnel_cos,
    "FresnelSin": special_ops.fresnel_sin,
    "Imag": math.imag,
    "Inv": math.reciprocal,
    "IsFinite": math.is_finite,
    "IsInf": math.is_inf,
    "IsNan": math.is_nan,
    "Lgamma": math.lgamma,
    "Log": math.log,
    "Log1p": math.log1p,
    "LogicalNot": math.logical_not,
    "Ndtri": math.ndtri,
    "Neg": math.negative,
    "Real": math.real,
    "Reciprocal": math.reciprocal,
    "Rint": math.rint,
    "Round": math.round,
    "Rsqrt": math.rsqrt,
    "Sigmoid": math.sigmoid,
    "Sign": math.sign,
    "Sin": math.sin,
    "Sinh": math.sinh,
    "Spence": special_ops.spence,
    "Sqrt": math.sqrt,
    "Square": math.square,
    "Tan": math.tan,
    "Tanh": math.tanh,
    # -- several operands
    "AccumulateNV2": math.add_n,
    "Add": math.add,
    "AddN": math.add_n,
    "AddV2": math.add,
    "ApproximateEqual": _approximately_equal,
    "Atan2": math.atan2,
    "Betainc": math.betainc,
    "Complex": array.complex,
    "Cross": linalg.cross,
    "Div": lambda x, y: special.truncatediv(x, y) if x.dtype.is_integer else math.truediv(x, y),
    "DivNoNan": math.divide_no_nan,
    "Equal": _comparison(math.equal, False),
    "FloorDiv": math.floordiv,
    "FloorMod": math.floormod,
    "Greater": math.greater,
    "GreaterEqual": math.greater_equal,
    "Igamma": math.igamma,
    "Igammac": math.igammac,
    "IgammaGradA": lambda a, x: special_ops.igamma_a(a, x, order=1),
    "Less": math.less,
    "LessEqual": math.less_equal,
    "LogicalAnd": math.logical_and,
    "LogicalOr": math.logical_or,
    "Maximum": math.maximum,
    "Minimum": math.minimum,
    "Mod": math.truncatemod,
    "Mul": math.multiply,
    "MulNoNan": math.multiply_no_nan,
    "NextAfter": math.nextafter,
    "NotEqual": _comparison(math.not_equal, True),
    "Polygamma": math.polygamma,
    "Pow": math.pow,
    "RealDiv": math.truediv,
    "SquaredDifference": math.squared_difference,
    "Sub": math.subtract,
    "TruncateDiv": special.truncatediv,
    "TruncateMod": math.truncatemod,
    "Xdivy": math.xdivy,
    "Xlog1py": math.xlog1py,
    "Xlogy": math.xlogy,
    "Zeta": math.zeta,
    # -- bits
    "BitwiseAnd": bitwise.bitwise_and,
    "BitwiseOr": bitwise.bitwise_or,
    "BitwiseXor": bitwise.bitwise_xor,
    "Invert": bitwise.invert,
    "LeftShift": bitwise.left_shift,
    "PopulationCount": _population_count,
    "RightShift": bitwise.right_shift,
    # -- reductions
    "All": _reduction(math.reduce_all),
    "Any": _reduction(math.reduce_any),
    "ArgMax": lambda input, dimension, output_type: math.argmax(input, dimension, output_type),
    "ArgMin": lambda input, dimension, output_type: math.argmin(input, dimension, output_type),
    "EuclideanNorm": _reduction(math.reduce_euclidean_norm),
    "L2Loss": nn.l2_loss,
    "Max": _reduction(math.reduce_max),
    "Mean": _reduction(math.reduce_mean),
    "Min": _reduction(math.reduce_min),
    "Prod": _reduction(math.reduce_prod),
    "Sum": _reduction(math.reduce_sum),
    # -- cumulative
    "Cumprod": _cumulative(math.cumprod),
    "Cumsum": _cumulative(math.cumsum),
    "CumulativeLogsumexp": _cumulative(math.cumulative_logsumexp),
    # -- counts and positions
    "Bincount": _bincount,
    "Bucketize": _bucketize,
    "DenseBincount": _dense_bincount,
    "HistogramFixedWidth": lambda values, value_range, nbins, dtype: indexing.histogram_fixed_width(
        values, value_range, nbins, dtype
    ),
    "InTopK": lambda predictions, targets, k: nn.in_top_k(targets, predictions, k),
    "InTopKV2": lambda predictions, targets, k: nn.in_top_k(targets, predictions, k),
    "LowerBound": _bound("left"),
    "TopK": lambda input, k, sorted: math.top_k(input, k, sorted),
    "TopKV2": lambda input, k, sorted, index_type: math.top_k(input, k, sorted, index_type),
    "NthElement": _nth_element,
    "UpperBound": _bound("right"),
    # -- segments
    "SegmentMax": math.segment_max,
    "SegmentMaxV2": math.unsorted_segment_max,
    "SegmentMean": math.segment_mean,
    "SegmentMin": math.segment_min,
    "SegmentMinV2": math.unsorted_segment_min,
    "SegmentProd": math.segment_prod,
    "SegmentProdV2": math.unsorted_segment_prod,
    "SegmentSum": math.segment_sum,
    "SegmentSumV2": math.unsorted_segment_sum,
    "SparseSegmentMean": _sparse_segments(math.segment_mean),
    "SparseSegmentMeanWithNumSegments": _sparse_segments_of_number(math.unsorted_segment_mean),
    "SparseSegmentSqrtN": _sparse_segments(_segment_sqrt_n),
    "SparseSegmentSqrtNWithNumSegments": _sparse_segments_of_number(math.unsorted_segment_sqrt_n),
    "SparseSegmentSum": _sparse_segments(math.segment_sum),
    "SparseSegmentSumWithNumSegments": _sparse_segments_of_number(math.unsorted_segment_sum),
    "UnsortedSegmentMax": math.unsorted_segment_max,
    "UnsortedSegmentMin": math.unsorted_segment_min,
    "UnsortedSegmentProd": math.unsorted_segment_prod,
    "UnsortedSegmentSum": math.unsorted_segment_sum,
    # -- Fourier transforms
    "FFT": signal.fft,
    "FFT2D": signal.fft2d,
    "FFT3D": signal.fft3d,
    "FFTND": lambda input, fft_length, axes: signal.fftnd(input, fft_length, axes),
    "IFFT": signal.ifft,
    "IFFT2D": signal.ifft2d,
    "IFFT3D": signal.ifft3d,
    "IFFTND": lambda input, fft_length, axes: signal.ifftnd(input, fft_length, axes),
    "IRFFT": lambda input, fft_length, Treal: array.cast(signal.irfft(input, fft_length), Treal),
    "IRFFT2D": lambda input, fft_length, Treal: array.cast(signal.irfft2d(input, fft_length), Treal),
    "IRFFT3D": lambda input, fft_length, Treal: array.cast(signal.irfft3d(input, fft_length), Treal),
    "RFFT": lambda input, fft_length, Tcomplex: array.cast(signal.rfft(input, fft_length), Tcomplex),
    "RFFT2D": lambda input, fft_length, Tcomplex: array.cast(signal.rfft2d(input, fft_length), Tcomplex),
    "RFFT3D": lambda input, fft_length, Tcomplex: array.cast(signal.rfft3d(input, fft_length), Tcomplex),
    # -- derivatives
    "InvGrad": lambda y, dy: -dy * math.conj(y * y),
    "ReciprocalGrad": lambda y, dy: -dy * math.conj(y * y),
    "RsqrtGrad": lambda y, dy: dy * math.conj(y * y * y) * -0.5,
    "SigmoidGrad": lambda y, dy: dy * math.conj(y * (1 - y)),
    "SqrtGrad": lambda y, dy: dy * 0.5 / math.conj(y),
    "TanhGrad": lambda y, dy: dy * math.conj(1 - y * y),
    "BroadcastGradientArgs": _reduced_axes,
    "IsotonicRegression": _isotonic,
    "SparseSegmentMeanGrad": _sparse_segments_vjp(math.segment_mean),
    "SparseSegmentSqrtNGrad": _sparse_segments_vjp(_segment_sqrt_n),
    "SparseSegmentSumGrad": _sparse_segments_vjp(math.segment_sum),
}
