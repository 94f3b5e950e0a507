"""Calls of raw ops, for gradtape and for TensorFlow: `record.py` writes down what TensorFlow returns."""

from __future__ import annotations

import numpy as np


def _floats(*shape, low=-2.0, dtype="float32"):
    """Numbers that repeat on every machine."""
    size = int(np.prod(shape))
    return (np.arange(size) * 0.37 % 3.7 + low).reshape(shape).astype(dtype)


UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0
BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Ceil Cos Cosh Dawsn Digamma Erf Erfc Erfinv Exp Expint Expm1 Floor
FresnelCos FresnelSin Inv IsFinite IsInf IsNan Lgamma Log Log1p Ndtri Neg OnesLike Reciprocal Rint Round Rsqrt Sigmoid
Sign Sin Sinh Spence Sqrt Square Tan Tanh ZerosLike"""
BINARY = """Add AddV2 Atan2 Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Igamma Igammac Less LessEqual
Maximum Minimum Mod Mul MulNoNan NextAfter NotEqual Polygamma Pow RealDiv SquaredDifference Sub TruncateDiv
TruncateMod Xdivy Xlog1py Xlogy Zeta IgammaGradA"""
SLOPES = "InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad"
ACTIVATIONS = "Elu LeakyRelu Relu Relu6 Selu Softplus Softsign"
ACTIVATION_SLOPES = "LeakyReluGrad Relu6Grad ReluGrad SoftplusGrad SoftsignGrad"
SEGMENTS = "SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum"
UNSORTED = """UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum"""
REDUCTIONS = "Max Mean Min Prod Sum EuclideanNorm"
SQUARE = "Cholesky LogMatrixDeterminant MatrixDeterminant MatrixInverse"
DIAGONALS = "MatrixDiagPart"


def calls(tf):  # noqa: C901 - a table
    """Op -> the keyword arguments of its calls."""
    c = tf.constant
    u = c(_floats(2, 3, low=0.1) * 0.2 + 0.01)  # in (0, 1)
    x, y = c(_floats(2, 3)), c(_floats(2, 3, low=-1.3))
    pos, row = c(_floats(2, 3, low=0.3)), c(_floats(3, low=0.4))
    ints, more = c([[7, -7, 5], [3, 9, -2]]), c([[2, 2, -3], [4, -5, 7]])
    z, wide = tf.complex(x, y), c(_floats(2, 5))
    m = c([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
    rect, rhs = c(_floats(4, 3, low=-1.7) ** 2), c(_floats(3, 2))
    image = c(_floats(2, 5, 6, 3) ** 2)
    one = c(_floats(1, 4, 5, 2))
    kernel = c(_floats(2, 3, 3, 2))
    volume, kernel3 = c(_floats(1, 3, 4, 4, 2)), c(_floats(2, 2, 2, 2, 1))
    found: dict[str, list[dict]] = {}
    for name in UNARY.split():
        special = {"Acosh": pos + 1, "Sign": ints, "Round": y * 2}
        positive = ["Bessel", "Digamma", "Log", "Lgamma", "Rsqrt", "Sqrt", "Expint", "Spence"]
        inner = ["Acos", "Asin", "Atanh", "Erfinv", "Ndtri"]
        value = u if name in inner else pos if any(name.startswith(each) for each in positive) else x
        found[name] = [{"x": special.get(name, value)}]
    for name in BINARY.split():
        value, other = (c([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]]), pos + 1) if name in ("Polygamma",) else (x, y)
        if name in ("Igamma", "Igammac", "IgammaGradA", "Xlogy", "Xlog1py", "Pow", "Zeta"):
            value, other = (pos + 1, pos) if name != "Zeta" else (pos + 1.5, pos)
        key = ("x1", "x2") if name == "NextAfter" else ("a", "x") if name.startswith(("Ig", "Po")) else ("x", "y")
        key = ("x", "y") if name == "Pow" else ("x", "q") if name == "Zeta" else key
        key = ("y", "x") if name == "Atan2" else ("a", "x") if name == "Polygamma" else key
        found[name] = [dict(zip(key, (value, other), strict=True))]
        if name in ("Add", "Sub", "Mul", "Maximum", "Equal", "Less"):
            found[name].append(dict(zip(key, (x, row), strict=True)))
        if name in ("Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod", "Mul", "Minimum"):
            found[name].append({"x": ints, "y": more})
    found["TruncateDiv"] = [{"x": ints, "y": more}]
    for name in SLOPES.split():
        found[name] = [{"y": u, "dy": x}]
    for name in ACTIVATIONS.split():
        found[name] = [{"features": x * 3}]
    for name in ACTIVATION_SLOPES.split():
        found[name] = [{"gradients": y, "features": x * 3}]
    for name in ("EluGrad", "SeluGrad"):
        found[name] = [{"gradients": y, "outputs": x * 0.4}]
    for name in SEGMENTS.split():
        found[name] = [{"data": rect, "segment_ids": [0, 0, 1, 3]}]
    for name in UNSORTED.split():
        found[name] = [{"data": rect, "segment_ids": [2, 0, 2, 1], "num_segments": 4}]
    for name in ("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"):
        ids = {"data": rect, "indices": [3, 0, 0, 1], "segment_ids": [0, 0, 1, 2]}
        found[name] = [ids]
        found[name + "WithNumSegments"] = [ids | {"num_segments": 5}]
        found[name + "Grad"] = [{"grad": m, "indices": [3, 0, 0, 1], "segment_ids": [0, 0, 1, 2], "output_dim0": 5}]
    for name in REDUCTIONS.split():
        found[name] = [{"input": x, "axis": 1}, {"input": image, "axis": [0, -1], "keep_dims": True}]
    for name in SQUARE.split():
        found[name] = [{"input": m}]
    for name in DIAGONALS.split():
        found[name] = [{"input": image[0, :4, :3, 0]}]
    boxes = c([[0.0, 0.0, 0.6, 0.7], [0.05, 0.1, 0.6, 0.8], [0.3, 0.2, 0.9, 0.9]])
    nms = {"boxes": boxes, "scores": [0.6, 0.9, 0.7], "max_output_size": 3}
    two, st, nd = [1, 2, 2, 1], [1, 1, 2, 1], [1, 2, 1, 1]
    sl = {"begin": [0, 4, 1], "end": [2, 0, 5], "strides": [1, -2, 2]}
    found |= {
        "AddN": [{"inputs": [x, y, x]}],
        "Angle": [{"input": z}],
        "All": [{"input": x > 0, "axis": 1}],
        "Any": [{"input": x > 1, "axis": 1, "keep_dims": True}],
        "ApproximateEqual": [{"x": x, "y": x + c([[1e-6, 1e-4, 0.0]])}],
        "ArgMax": [{"input": x, "dimension": 0}, {"input": ints, "dimension": 1, "output_type": tf.int32}],
        "ArgMin": [{"input": x, "dimension": -1}],
        "Betainc": [{"a": pos, "b": pos + 1, "x": u}],
        "Bincount": [{"arr": [1, 1, 3, 9], "size": 5, "weights": c([1.0, 2.0, 4.0, 8.0])}],
        "DenseBincount": [
            {"input": [[1, 1, 3], [0, 4, 4]], "size": 5, "weights": c([], tf.float32)},
            {"input": [1, 1, 3], "size": 5, "weights": c([], tf.int32), "binary_output": True},
        ],
        "RaggedBincount": [
            {
                "splits": [0, 3, 3, 6],
                "values": [1, 2, 2, 0, 9, 3],
                "size": 4,
                "weights": c([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            },
            {"splits": [0, 3, 3, 6], "values": [1, 2, 2, 0, 9, 3], "size": 4, "weights": c([], tf.int64)},
            {
                "splits": [0, 3, 5],
                "values": [1, 2, 2, 0, 1],
                "size": 3,
                "weights": c([], tf.float32),
                "binary_output": True,
            },
        ],
        "RaggedTensorToTensor": [
            {
                "shape": c([-1, -1], tf.int64),
                "values": c([1.0, 2.0, 3.0]),
                "default_value": c(-1.0),
                "row_partition_tensors": [c([0, 2, 2, 3], tf.int64)],
                "row_partition_types": ["ROW_SPLITS"],
            },
            {
                "shape": c(-1, tf.int64),
                "values": c([1.0, 2.0, 3.0, 4.0]),
                "default_value": c(0.0),
                "row_partition_tensors": [c(3, tf.int64), c([0, 0, 2], tf.int64), c([0, 0, 1, 2], tf.int64)],
                "row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"],
            },
            {
                "shape": c([2, 3, 2], tf.int32),
                "values": c([[1, 2], [3, 4], [5, 6]]),
                "default_value": c([7, 8]),
                "row_partition_tensors": [c([0, 1, 3, 3], tf.int64)],
                "row_partition_types": ["ROW_SPLITS"],
            },
        ],
        "BitwiseAnd": [{"x": ints, "y": more}],
        "BitwiseOr": [{"x": ints, "y": more}],
        "BitwiseXor": [{"x": ints, "y": more}],
        "Invert": [{"x": ints}],
        "LeftShift": [{"x": ints, "y": [[1], [2]]}],
        "RightShift": [{"x": ints, "y": [[1], [2]]}],
        "PopulationCount": [{"x": ints}],
        "Bucketize": [{"input": x, "boundaries": [-1.0, 0.0, 1.0]}],
        "CheckNumerics": [{"tensor": x, "message": "bad"}],
        "CheckNumericsV2": [{"tensor": x, "message": "bad"}],
        "Complex": [{"real": x, "imag": y}],
        "ComplexAbs": [{"x": z}],
        "Conj": [{"input": z}],
        "Imag": [{"input": z}],
        "Real": [{"input": z}],
        "Cross": [{"a": m, "b": m[::-1]}],
        "Cumprod": [{"x": x, "axis": 1, "exclusive": True}],
        "Cumsum": [{"x": x, "axis": 0, "reverse": True}],
        "CumulativeLogsumexp": [{"x": x, "axis": 1}],
        "HistogramFixedWidth": [{"values": x, "value_range": [-2.0, 2.0], "nbins": 4}],
        "InTopK": [{"predictions": x, "targets": [1, 2], "k": 2}],
        "InTopKV2": [{"predictions": x, "targets": [1, 2], "k": 1}],
        "L2Loss": [{"t": x}],
        "LogicalAnd": [{"x": x > 0, "y": y > 0}],
        "LogicalOr": [{"x": x > 0, "y": y > 0}],
        "LogicalNot": [{"x": x > 0}],
        "LowerBound": [{"sorted_inputs": [[1.0, 2.0, 2.0]], "values": [[0.0, 2.0, 3.0]]}],
        "UpperBound": [{"sorted_inputs": [[1.0, 2.0, 2.0]], "values": [[0.0, 2.0, 3.0]]}],
        "NthElement": [{"input": x, "n": 1}, {"input": x, "n": 0, "reverse": True}],
        "TopKV2": [{"input": x, "k": 2, "index_type": tf.int64}],
        "BroadcastGradientArgs": [{"s0": [2, 3], "s1": [3]}, {"s0": [2, 1, 3], "s1": [4, 1]}, {"s0": [1], "s1": [1]}],
        "FFT": [{"input": z}],
        "FFT2D": [{"input": z}],
        "FFT3D": [{"input": z[None]}],
        "IFFT": [{"input": z}],
        "IFFT2D": [{"input": z}],
        "IFFT3D": [{"input": z[None]}],
        "RFFT": [{"input": wide, "fft_length": [4]}],
        "RFFT2D": [{"input": wide, "fft_length": [2, 4]}],
        "RFFT3D": [{"input": wide[None], "fft_length": [1, 2, 4]}],
        "IRFFT": [{"input": z, "fft_length": [4]}],
        "IRFFT2D": [{"input": z, "fft_length": [2, 4]}],
        "IRFFT3D": [{"input": z[None], "fft_length": [1, 2, 4]}],
        # -- shapes and positions
        "Bitcast": [{"input": x, "type": tf.int32}],
        "Cast": [{"x": x, "DstT": tf.int32}, {"x": ints, "DstT": tf.bool}],
        "BroadcastArgs": [{"s0": [2, 1, 3], "s1": [4, 1]}],
        "BroadcastTo": [{"input": row, "shape": [2, 3]}],
        "ConcatOffset": [{"concat_dim": 1, "shape": [[2, 3], [2, 5], [2, 1]]}],
        "Concat": [{"concat_dim": 1, "values": [x, y]}],
        "ConcatV2": [{"values": [x, y], "axis": -1}],
        "ConjugateTranspose": [{"x": z, "perm": [1, 0]}],
        "Transpose": [{"x": image, "perm": [3, 0, 2, 1]}],
        "DataFormatDimMap": [{"x": [0, -1, 2, 1]}],
        "DataFormatVecPermute": [{"x": [5, 6, 7, 8]}, {"x": [5, 6]}],
        "DeepCopy": [{"x": x}],
        "EnsureShape": [{"input": x, "shape": [None, 3]}],
        "ExpandDims": [{"input": x, "axis": -1}],
        "Fill": [{"dims": [2, 2], "value": 7}],
        "Identity": [{"input": x}],
        "IdentityN": [{"input": [x, ints]}],
        "LinSpace": [{"start": 0.0, "stop": 2.0, "num": 5}],
        "Snapshot": [{"input": x}],
        "StopGradient": [{"input": x}],
        "OneHot": [{"indices": [[1, 0], [-1, 2]], "depth": 3, "on_value": 5, "off_value": 1, "axis": 1}],
        "Pack": [{"values": [x, y], "axis": -1}],
        "Unpack": [{"value": x, "num": 3, "axis": 1}],
        "ParallelConcat": [{"values": [x[:1], y[:1]], "shape": [2, 3]}],
        "PlaceholderWithDefault": [{"input": x, "shape": [2, None]}],
        "GuaranteeConst": [{"input": x}],
        "PreventGradient": [{"input": x}],
        "Copy": [{"input": x}],
        "CopyHost": [{"input": x}],
        "Range": [{"start": 1, "limit": 9, "delta": 3}],
        "Rank": [{"input": x}],
        "Size": [{"input": x, "out_type": tf.int64}],
        "Reshape": [{"tensor": x, "shape": [3, -1]}],
        "Shape": [{"input": image}],
        "ShapeN": [{"input": [x, y[0:1]]}],
        "Split": [{"axis": 1, "value": x, "num_split": 3}],
        "SplitV": [{"value": x, "size_splits": [2, -1], "axis": 1, "num_split": 2}],
        "Squeeze": [{"input": x[None, :, None], "axis": [0]}, {"input": x[None, :, None]}],
        "Tile": [{"input": x, "multiples": [2, 1]}],
        "UnravelIndex": [{"indices": [5, 3], "dims": [2, 3]}],
        "MirrorPad": [{"input": x, "paddings": [[1, 0], [1, 2]], "mode": "REFLECT"}],
        "MirrorPadGrad": [{"input": m, "paddings": [[1, 0], [0, 1]], "mode": "SYMMETRIC"}],
        "Pad": [{"input": x, "paddings": [[1, 0], [0, 2]]}],
        "PadV2": [{"input": x, "paddings": [[1, 0], [0, 2]], "constant_values": 9.0}],
        "Reverse": [{"tensor": x, "dims": [False, True]}],
        "ReverseV2": [{"tensor": x, "axis": [0, -1]}],
        "ReverseSequence": [{"input": x, "seq_lengths": [2, 3], "seq_dim": 1}],
        "Roll": [{"input": x, "shift": [1, -1], "axis": [0, 1]}],
        "BatchToSpace": [
            {"input": image[:, :2, :3, :1].numpy().repeat(2, 0), "crops": [[0, 1], [1, 0]], "block_size": 2}
        ],
        "BatchToSpaceND": [
            {"input": image[:, :2, :3, :1].numpy().repeat(2, 0), "block_shape": [2, 2], "crops": [[0, 0], [1, 0]]}
        ],
        "SpaceToBatch": [{"input": image, "paddings": [[1, 0], [0, 0]], "block_size": 2}],
        "SpaceToBatchND": [{"input": image, "block_shape": [2, 3], "paddings": [[1, 0], [0, 0]]}],
        "DepthToSpace": [{"input": image.numpy().reshape(2, 5, 3, 6)[..., :4], "block_size": 2}],
        "SpaceToDepth": [{"input": image[:, :4], "block_size": 2}],
        "Slice": [{"input": x, "begin": [0, 1], "size": [-1, 2]}],
        "StridedSlice": [{"input": image} | sl, {"input": image} | sl | {"shrink_axis_mask": 1, "end_mask": 2}],
        "StridedSliceGrad": [{"shape": [2, 5, 6, 3], "dy": image[:, 0:2, 0:2]} | sl],
        "TensorStridedSliceUpdate": [{"input": image, "value": image[:, 0:2, 0:2] * 9} | sl],
        "DynamicPartition": [{"data": x, "partitions": [1, 0], "num_partitions": 3}],
        "DynamicStitch": [{"indices": [[0, 2], [1]], "data": [x, x[:1] * 2]}],
        "ParallelDynamicStitch": [{"indices": [[0, 2], [1]], "data": [x, x[:1] * 2]}],
        "Gather": [{"params": x, "indices": [[1], [0]]}],
        "GatherNd": [{"params": x, "indices": [[0, 1], [1, 2]]}],
        "GatherV2": [{"params": x, "indices": [[1], [0]], "axis": 1, "batch_dims": 1}],
        "InplaceAdd": [{"x": x + 0, "i": [1], "v": y[:1]}],
        "InplaceSub": [{"x": x + 0, "i": [1], "v": y[:1]}],
        "InplaceUpdate": [{"x": x + 0, "i": [0], "v": y[:1]}],
        "InvertPermutation": [{"x": [2, 0, 1]}],
        "ListDiff": [{"x": [1, 2, 3, 2], "y": [2]}],
        "ScatterNd": [{"indices": [[1], [1], [0]], "updates": m, "shape": [3, 3]}],
        "ScatterNdNonAliasingAdd": [{"input": x, "indices": [[1]], "updates": y[:1]}],
        "Select": [{"condition": [True, False], "x": x, "y": y}, {"condition": x > 0, "x": x, "y": y}],
        "SelectV2": [{"condition": [True, False, True], "t": x, "e": 0.5}],
        "TensorScatterAdd": [{"tensor": x, "indices": [[1], [1]], "updates": y}],
        "TensorScatterMax": [{"tensor": x, "indices": [[1], [1]], "updates": y}],
        "TensorScatterMin": [{"tensor": x, "indices": [[1], [1]], "updates": y}],
        "TensorScatterSub": [{"tensor": x, "indices": [[1], [1]], "updates": y}],
        "TensorScatterUpdate": [{"tensor": x, "indices": [[1]], "updates": y[:1]}],
        "Unique": [{"x": [3, 1, 3, 2]}],
        "UniqueWithCounts": [{"x": [3, 1, 3, 2], "out_idx": tf.int64}],
        "UniqueV2": [{"x": [[1, 0], [2, 0], [1, 0]], "axis": [0]}, {"x": [3, 1, 3, 2], "axis": c([], tf.int32)}],
        "UniqueWithCountsV2": [{"x": [[1, 1, 2], [0, 0, 5]], "axis": [1]}],
        "Where": [{"condition": x > 0}, {"condition": ints - 7}],
        "NoOp": [{}],
        # -- matrices
        "MatMul": [{"a": x, "b": y, "transpose_b": True}, {"a": ints, "b": more, "transpose_a": True}],
        "BatchMatMul": [{"x": x[None], "y": y[None], "adj_y": True}],
        "BatchMatMulV2": [{"x": z[None], "y": z, "adj_x": True}],
        "BatchMatMulV3": [{"x": x[None], "y": y, "Tout": tf.float32, "adj_y": True}],
        "Einsum": [{"inputs": [x, y], "equation": "ij,kj->ik"}],
        "SparseMatMul": [{"a": x, "b": y, "transpose_b": True}],
        "TridiagonalMatMul": [
            {"superdiag": row[None], "maindiag": row[None] + 1, "subdiag": row[None] + 2, "rhs": rhs}
        ],
        "CholeskyGrad": [{"l": tf.linalg.cholesky(m), "grad": m * [[1.0, 2.0, 3.0]]}],
        "Lu": [{"input": m, "output_idx_type": tf.int64}],
        "MatrixLogarithm": [{"input": tf.complex(m, m * 0)}],
        "MatrixSquareRoot": [{"input": m}],
        "BandedTriangularSolve": [{"matrix": rect[:2, :] + 1, "rhs": rhs, "lower": False}],
        "MatrixSolve": [{"matrix": m, "rhs": rhs, "adjoint": True}],
        "MatrixSolveLs": [{"matrix": rect, "rhs": rect[:, :1], "l2_regularizer": c(0.5, tf.float64)}],
        "MatrixTriangularSolve": [{"matrix": m, "rhs": rhs, "adjoint": True}],
        "TridiagonalSolve": [{"diagonals": m + 1, "rhs": rhs}],
        "MatrixBandPart": [{"input": m, "num_lower": 0, "num_upper": 1}],
        "MatrixDiag": [{"diagonal": x}],
        "Diag": [{"diagonal": x}],
        "DiagPart": [{"input": m}],
        "MatrixSetDiag": [{"input": m, "diagonal": row}],
        "MatrixDiagPartV2": [{"input": m, "k": [-1, 1], "padding_value": 0.0}],
        "MatrixDiagPartV3": [{"input": m, "k": [-1, 1], "padding_value": 7.0, "align": "LEFT_RIGHT"}],
        "MatrixDiagV2": [{"diagonal": x, "k": [0, 1], "num_rows": -1, "num_cols": -1, "padding_value": 0.0}],
        "MatrixDiagV3": [{"diagonal": x, "k": [-1, 0], "num_rows": 3, "num_cols": 3, "padding_value": 9.0}],
        "MatrixSetDiagV2": [{"input": m, "diagonal": row[:2], "k": 1}],
        "MatrixSetDiagV3": [{"input": m, "diagonal": x, "k": [-1, 0], "align": "RIGHT_LEFT"}],
        # -- neural networks
        "LogSoftmax": [{"logits": x}],
        "Softmax": [{"logits": x}],
        "SoftmaxCrossEntropyWithLogits": [{"features": x, "labels": u}],
        "SparseSoftmaxCrossEntropyWithLogits": [{"features": x, "labels": [2, 0]}],
        "CTCLoss": [
            {
                "inputs": c(_floats(4, 2, 3)),
                "labels_indices": c([[0, 0], [0, 1], [1, 0]], tf.int64),
                "labels_values": [1, 0, 1],
                "sequence_length": [4, 3],
            }
        ],
        "BiasAdd": [{"value": image, "bias": row}],
        "BiasAddV1": [{"value": image, "bias": row}],
        "BiasAddGrad": [{"out_backprop": image}],
        "Conv2D": [
            {"input": image, "filter": kernel, "strides": two, "padding": "SAME"},
            {"input": image, "filter": kernel, "strides": [1, 1, 1, 1], "padding": "VALID", "dilations": nd},
            {
                "input": image,
                "filter": kernel,
                "strides": st,
                "padding": "EXPLICIT",
                "explicit_paddings": [0, 0, 1, 0, 0, 2, 0, 0],
            },
        ],
        "Conv2DBackpropFilter": [
            {
                "input": image,
                "filter_sizes": [2, 3, 3, 2],
                "out_backprop": c(_floats(2, 3, 3, 2)),
                "strides": two,
                "padding": "SAME",
            }
        ],
        "Conv2DBackpropInput": [
            {
                "input_sizes": [2, 5, 6, 3],
                "filter": kernel,
                "out_backprop": c(_floats(2, 3, 3, 2)),
                "strides": two,
                "padding": "SAME",
            }
        ],
        "Conv3D": [{"input": volume, "filter": kernel3, "strides": [1, 1, 2, 1, 1], "padding": "SAME"}],
        "Conv3DBackpropFilterV2": [
            {
                "input": volume,
                "filter_sizes": [2, 2, 2, 2, 1],
                "out_backprop": c(_floats(1, 2, 3, 3, 1)),
                "strides": [1] * 5,
                "padding": "VALID",
            }
        ],
        "Conv3DBackpropInputV2": [
            {
                "input_sizes": [1, 3, 4, 4, 2],
                "filter": kernel3,
                "out_backprop": c(_floats(1, 2, 3, 3, 1)),
                "strides": [1] * 5,
                "padding": "VALID",
            }
        ],
        "DepthwiseConv2dNative": [{"input": image, "filter": kernel, "strides": two, "padding": "SAME"}],
        "DepthwiseConv2dNativeBackpropFilter": [
            {
                "input": image,
                "filter_sizes": [2, 3, 3, 2],
                "out_backprop": c(_floats(2, 3, 3, 6)),
                "strides": two,
                "padding": "SAME",
            }
        ],
        "DepthwiseConv2dNativeBackpropInput": [
            {
                "input_sizes": [2, 5, 6, 3],
                "filter": kernel,
                "out_backprop": c(_floats(2, 3, 3, 6)),
                "strides": two,
                "padding": "SAME",
            }
        ],
        "Dilation2D": [
            {"input": image, "filter": kernel[..., 0], "strides": two, "rates": [1, 1, 2, 1], "padding": "SAME"}
        ],
        "Dilation2DBackpropFilter": [
            {
                "input": image,
                "filter": kernel[..., 0],
                "out_backprop": c(_floats(2, 3, 3, 3)),
                "strides": two,
                "rates": [1, 1, 1, 1],
                "padding": "SAME",
            }
        ],
        "Dilation2DBackpropInput": [
            {
                "input": image,
                "filter": kernel[..., 0],
                "out_backprop": c(_floats(2, 3, 3, 3)),
                "strides": two,
                "rates": [1, 1, 1, 1],
                "padding": "SAME",
            }
        ],
        "AvgPool": [{"value": image, "ksize": nd, "strides": two, "padding": "SAME"}],
        "AvgPool3D": [{"input": volume, "ksize": [1, 2, 2, 1, 1], "strides": [1, 1, 2, 1, 1], "padding": "VALID"}],
        "AvgPool3DGrad": [
            {
                "orig_input_shape": [1, 3, 4, 4, 2],
                "grad": c(_floats(1, 2, 3, 4, 2)),
                "ksize": [1, 2, 2, 1, 1],
                "strides": [1] * 5,
                "padding": "VALID",
            }
        ],
        "AvgPoolGrad": [
            {
                "orig_input_shape": [2, 5, 6, 3],
                "grad": c(_floats(2, 3, 3, 3)),
                "ksize": two,
                "strides": two,
                "padding": "SAME",
            }
        ],
        "MaxPool": [{"input": image, "ksize": nd, "strides": two, "padding": "SAME"}],
        "MaxPool3D": [{"input": volume, "ksize": [1, 2, 2, 1, 1], "strides": [1] * 5, "padding": "VALID"}],
        "MaxPoolGrad": [
            {
                "orig_input": image,
                "orig_output": tf.nn.max_pool2d(image, 2, 2, "SAME"),
                "grad": c(_floats(2, 3, 3, 3)),
                "ksize": two,
                "strides": two,
                "padding": "SAME",
            }
        ],
        "MaxPoolGradV2": [
            {
                "orig_input": image,
                "orig_output": tf.nn.max_pool2d(image, 2, 2, "SAME"),
                "grad": c(_floats(2, 3, 3, 3)),
                "ksize": two,
                "strides": two,
                "padding": "SAME",
            }
        ],
        "MaxPoolGradWithArgmax": [
            {
                "input": image,
                "grad": c(_floats(2, 3, 3, 3)),
                "argmax": tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")[1],
                "ksize": two,
                "strides": two,
                "padding": "SAME",
            }
        ],
        "MaxPoolV2": [{"input": image, "ksize": two, "strides": two, "padding": "VALID"}],
        "MaxPoolWithArgmax": [{"input": image, "ksize": two, "strides": two, "padding": "SAME", "Targmax": tf.int32}],
        "FusedBatchNorm": [
            {"x": image, "scale": row, "offset": row + 1, "mean": row, "variance": row, "is_training": False}
        ],
        "FusedBatchNormV2": [
            {"x": image, "scale": row, "offset": row + 1} | {each: c([]) for each in ("mean", "variance")}
        ],
        "FusedBatchNormV3": [
            {"x": image, "scale": row, "offset": row + 1, "mean": row, "variance": row, "exponential_avg_factor": 0.25}
        ],
        "LRN": [{"input": image, "depth_radius": 1, "bias": 2.0, "alpha": 0.5}],
        "LRNGrad": [
            {
                "input_grads": image,
                "input_image": image * 0.5,
                "output_image": tf.nn.lrn(image * 0.5, 1),
                "depth_radius": 1,
            }
        ],
        "GRUBlockCell": [
            {
                "x": x,
                "h_prev": y[:, :2],
                "w_ru": c(_floats(5, 4) * 0.3),
                "w_c": c(_floats(5, 2) * 0.4),
                "b_ru": c(_floats(4)),
                "b_c": c(_floats(2)),
            }
        ],
        "LSTMBlockCell": [
            {
                "x": x,
                "cs_prev": y[:, :2],
                "h_prev": x[:, :2],
                "w": c(_floats(5, 8) * 0.3),
                "wci": row[:2],
                "wcf": row[1:],
                "wco": row[:2] * 2,
                "b": c(_floats(8)),
                "use_peephole": flag,
            }
            for flag in (True, False)
        ],
        **{
            name: [
                {
                    "seq_len_max": tf.constant(steps, tf.int64),
                    "x": c(_floats(3, 2, 3) * 0.4),
                    "cs_prev": y[:, :2],
                    "h_prev": x[:, :2],
                    "w": c(_floats(5, 8) * 0.3),
                    "wci": row[:2],
                    "wcf": row[1:],
                    "wco": row[:2] * 2,
                    "b": c(_floats(8)),
                    "use_peephole": steps == 3,
                    "cell_clip": 0.4 * (steps == 2),
                }
                for steps in (3, 2)
            ]
            for name in ("BlockLSTM", "BlockLSTMV2")
        },
        "FakeQuantWithMinMaxArgs": [{"inputs": x * 5}],
        "FakeQuantWithMinMaxArgsGradient": [{"gradients": y, "inputs": x * 5}],
        "FakeQuantWithMinMaxVars": [{"inputs": x * 5, "min": -3.0, "max": 3.0, "num_bits": 4}],
        "FakeQuantWithMinMaxVarsGradient": [{"gradients": y, "inputs": x * 5, "min": -3.0, "max": 3.0}],
        "FakeQuantWithMinMaxVarsPerChannel": [{"inputs": x * 5, "min": [-3.0, -2.0, -1.0], "max": [3.0, 2.0, 1.0]}],
        "FakeQuantWithMinMaxVarsPerChannelGradient": [
            {"gradients": y, "inputs": x * 5, "min": [-3.0, -2.0, -1.0], "max": [3.0, 2.0, 1.0]}
        ],
        # -- images
        "ResizeArea": [{"images": image, "size": [3, 4]}],
        "ResizeNearestNeighbor": [
            {"images": image, "size": [3, 9]},
            {"images": image, "size": [7, 4], "half_pixel_centers": True},
            {"images": image, "size": [7, 4], "align_corners": True},
        ],
        "ResizeNearestNeighborGrad": [{"grads": image, "size": [3, 9]}],
        "CropAndResize": [{"image": image, "boxes": boxes, "box_ind": [0, 1, 1], "crop_size": [3, 2]}],
        "CropAndResizeGradBoxes": [
            {"grads": c(_floats(3, 3, 2, 3)), "image": image, "boxes": boxes, "box_ind": [0, 1, 1]}
        ],
        "CropAndResizeGradImage": [
            {
                "grads": c(_floats(3, 3, 2, 3)),
                "boxes": boxes,
                "box_ind": [0, 1, 1],
                "image_size": [2, 5, 6, 3],
                "T": tf.float32,
            }
        ],
        "ExtractImagePatches": [{"images": one, "ksizes": two, "strides": st, "rates": nd, "padding": "VALID"}],
        "CombinedNonMaxSuppression": [
            {
                "boxes": boxes[None, :, None],
                "scores": c([[[0.6], [0.9], [0.7]]]),
                "max_output_size_per_class": 2,
                "max_total_size": 3,
                "iou_threshold": 0.5,
                "score_threshold": 0.0,
            }
        ],
        "NonMaxSuppression": [nms],
        "NonMaxSuppressionV2": [nms | {"iou_threshold": 0.3}],
        "NonMaxSuppressionV3": [nms | {"iou_threshold": 0.5, "score_threshold": 0.65}],
        "NonMaxSuppressionV4": [nms | {"iou_threshold": 0.5, "score_threshold": 0.1, "pad_to_max_output_size": True}],
        "NonMaxSuppressionV5": [
            nms | {"iou_threshold": 0.5, "score_threshold": 0.1, "soft_nms_sigma": 0.5, "pad_to_max_output_size": True}
        ],
        "NonMaxSuppressionWithOverlaps": [
            {
                "overlaps": m / 4,
                "scores": [0.6, 0.9, 0.7],
                "max_output_size": 3,
                "overlap_threshold": 0.2,
                "score_threshold": 0.0,
            }
        ],
        "DrawBoundingBoxesV2": [
            {"images": image, "boxes": c(np.stack([boxes.numpy()] * 2)), "colors": [[1.0, 0.0, 0.5]]}
        ],
        "AdjustContrastv2": [{"images": image, "contrast_factor": 1.5}],
        "AdjustHue": [{"images": image / 20, "delta": 0.2}],
        "AdjustSaturation": [{"images": image / 20, "scale": 0.5}],
        "HSVToRGB": [{"images": image / 20}],
        "RGBToHSV": [{"images": image / 20}],
        "DecodeRaw": [{"bytes": [b"\x01\x00\x02\x00"], "out_type": tf.int16}],
        "DecodePaddedRaw": [{"input_bytes": [b"\x01\x00\x02"], "fixed_length": 4, "out_type": tf.int16}],
        # -- random numbers
        "StatelessRandomUniform": [{"shape": [3], "seed": [1, 2]}],
        "StatelessRandomNormal": [{"shape": [3], "seed": [1, 2]}],
        "StatelessTruncatedNormal": [{"shape": [3], "seed": [1, 2]}],
        "StatelessRandomUniformInt": [{"shape": [3], "seed": [1, 2], "minval": 0, "maxval": 99}],
        "StatelessRandomUniformFullInt": [{"shape": [2], "seed": [1, 2]}],
        "StatelessRandomGetAlg": [{}],
        "StatelessRandomGetKeyCounter": [{"seed": [1, 2]}],
        "StatelessRandomGetKeyCounterAlg": [{"seed": [1, 2]}],
        "StatelessMultinomial": [{"logits": x, "num_samples": 4, "seed": [1, 2]}],
        "StatelessRandomGammaV2": [{"shape": [2], "seed": [1, 2], "alpha": c([0.5, 2.0])}],
        "StatelessRandomPoisson": [{"shape": [2], "seed": [1, 2], "lam": c([3.0, 4.0]), "dtype": tf.int32}],
        "StatelessRandomBinomial": [{"shape": [2], "seed": [1, 2], "counts": 9.0, "probs": 0.4}],
        "StatelessParameterizedTruncatedNormal": [
            {"shape": [3], "seed": [1, 2], "means": 0.0, "stddevs": 1.0, "minvals": -1.0, "maxvals": 0.5}
        ],
        # -- control flow and effects
        "Assert": [{"condition": True, "data": ["fine"]}],
    }
    key = {"key": c([1234567], tf.uint64), "counter": c([5, 6], tf.uint64), "alg": 1}
    for name in (
        "StatelessRandomUniformV2",
        "StatelessRandomNormalV2",
        "StatelessTruncatedNormalV2",
        "StatelessRandomUniformFullIntV2",
    ):
        found[name] = [{"shape": [3]} | key]
    found["StatelessRandomUniformIntV2"] = [{"shape": [3], "minval": 0, "maxval": 99} | key]
    found["StatelessRandomGammaV3"] = [{"shape": [2], "alpha": c([0.5, 2.0])} | key]
    for corners, centers in ((False, False), (True, False), (False, True)):
        attrs = {"align_corners": corners, "half_pixel_centers": centers}
        for name in ("ResizeBilinear", "ResizeBicubic"):
            found.setdefault(name, []).append({"images": image, "size": [3, 8]} | attrs)
            found.setdefault(name + "Grad", []).append(
                {"grads": image, "original_image": c(_floats(2, 3, 8, 3))} | attrs
            )

    return {name: each for name, each in found.items() if each}
