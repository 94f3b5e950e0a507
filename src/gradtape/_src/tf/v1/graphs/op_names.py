"""The default names of operations."""

from __future__ import annotations

from typing import Any

OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "truediv", "__rtruediv__": "truediv", "__floordiv__": "floordiv", "__rfloordiv__": "floordiv",
    "__mod__": "mod", "__rmod__": "mod", "__pow__": "pow", "__rpow__": "pow", "__matmul__": "matmul",
    "__rmatmul__": "matmul", "__getitem__": "strided_slice", "__and__": "and", "__or__": "or", "__xor__": "xor",
    "__rand__": "and", "__ror__": "or", "__rxor__": "xor", "__lt__": "Less", "__le__": "LessEqual",
    "__gt__": "Greater", "__ge__": "GreaterEqual", "__neg__": "Neg", "__abs__": "Abs", "__invert__": "LogicalNot",
}  # fmt: skip
"""Operator methods that add operations, and the names of these."""

_FUNCTIONS = {
    "constant": "Const", "convert_to_tensor": "Const", "identity": "Identity", "cond": "cond", "case": "case",
    "while_loop": "while", "map_fn": "map", "scan": "scan", "foldl": "foldl", "foldr": "foldr", "concat": "concat",
    "stack": "stack", "unstack": "unstack", "split": "split", "zeros": "zeros", "ones": "ones", "fill": "Fill",
    "zeros_like": "zeros_like", "ones_like": "ones_like", "range": "range", "one_hot": "one_hot", "eye": "eye",
    "transpose": "transpose", "dropout": "dropout", "gradients": "gradients", "hessians": "hessians",
    "normal": "random_normal", "uniform": "random_uniform", "truncated_normal": "truncated_normal",
    "shuffle": "RandomShuffle", "reduce_sum": "Sum", "reduce_mean": "Mean", "reduce_max": "Max", "reduce_min": "Min",
    "reduce_prod": "Prod", "reduce_all": "All", "reduce_any": "Any", "reduce_logsumexp": "ReduceLogSumExp",
    "matmul": "MatMul", "cast": "Cast", "reshape": "Reshape", "equal": "Equal", "argmax": "ArgMax",
    "argmin": "ArgMin", "expand_dims": "ExpandDims", "squeeze": "Squeeze", "conv2d": "Conv2D", "bias_add": "BiasAdd",
    "max_pool": "MaxPool", "avg_pool": "AvgPool", "softmax": "Softmax", "gather": "GatherV2", "pad": "Pad",
    "tile": "Tile", "where": "Where", "shape": "Shape", "size": "Size", "rank": "Rank", "square": "Square",
    "pow": "Pow", "add": "Add", "add_n": "AddN", "multiply": "Mul", "subtract": "Sub", "divide": "truediv",
    "embedding_lookup": "embedding_lookup", "l2_loss": "L2Loss", "moments": "moments", "py_func": "PyFunc",
    "py_function": "EagerPyFunc", "numpy_function": "PyFunc", "print_": "PrintV2", "clip_by_value": "clip_by_value",
    "softmax_cross_entropy_with_logits": "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits": "SparseSoftmaxCrossEntropyWithLogits",
    "sigmoid_cross_entropy_with_logits": "logistic_loss",
}  # fmt: skip


def default_name(function: Any, type: str) -> str:
    """The default name of an operation that calls a function: from its call, or the name of the op."""
    called = getattr(function, "__name__", "")
    return _FUNCTIONS.get(called) or type
