"""The op table: a row for every primitive, with all that the tests need to know about it.

A row has samples to call the primitive with. Floating operands of a sample are differentiated, integers and booleans
are passed on. From them `test_op_table.py` makes every check: numeric to second order, forward against reverse, batches
against loops, low precision against double. What one primitive alone knows stands in its row: values at kinks, inputs
that are refused.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.core.primitive import Op, registry
from gradtape._src.ops.by_name import load_all
from gradtape.testing import MODES

load_all()
for _module in ("autodiff.custom_gradient", "tf.python_functions"):  # these declare primitives, too
    importlib.import_module(f"gradtape._src.{_module}")

InvalidArgument = tf.errors.InvalidArgumentError


@dataclass(frozen=True)
class Sample:
    """Operands and static arguments of one call."""

    args: tuple[np.ndarray, ...]
    attrs: dict[str, Any]


@dataclass(frozen=True)
class Kink:
    """A point where the derivative is a choice: the gradients of the sum of the outputs there."""

    args: tuple[Any, ...]
    gradients: tuple[Any, ...]
    attrs: dict[str, Any]


@dataclass(frozen=True)
class Bad:
    """A call that is refused, and what is said."""

    call: Callable[[], Any]
    error: type[Exception] | tuple[type[Exception], ...]
    says: str


@dataclass(frozen=True)
class Row:
    """What the tests need to know about one primitive."""

    name: str
    samples: tuple[Sample, ...]
    complex_samples: tuple[Sample, ...] = ()
    function: Callable[..., Any] | None = None  # how to call it, where that is not the primitive itself
    order: int = 2  # up to which derivative it is checked
    modes: tuple[str, ...] = MODES  # what of check_gradients makes sense
    constants: tuple[int, ...] = ()  # floating operands without a derivative
    differentiable: bool = True
    error: type[Exception] | None = None  # raised when a gradient goes through it
    low_precision: tuple[str, ...] = ("float32", "float16", "bfloat16")
    integers: tuple[str, ...] = ()  # dtypes of integers that it takes, and gives back
    batches: Callable[[np.ndarray, int], np.ndarray] | None = None  # row i of a batch made from an operand
    kinks: tuple[Kink, ...] = ()
    bad: tuple[Bad, ...] = ()

    @property
    def op(self) -> Op:
        return registry[self.name]

    def call(self, *args: Any, **attrs: Any) -> Any:
        return (self.function or self.op.call)(*args, **attrs)


ROWS: dict[str, Row] = {}


def row(name: str, *samples: Sample, **facts: Any) -> None:
    """Add a row to the table."""
    assert name not in ROWS, f"two rows for {name}"
    assert samples, f"no samples for {name}"
    ROWS[name] = Row(name, samples, **facts)


def S(*args: Any, **attrs: Any) -> Sample:
    """A sample; Python numbers and lists become arrays."""
    return Sample(tuple(np.asarray(a) for a in args), attrs)


def kink(*args: Any, gradients: tuple[Any, ...], **attrs: Any) -> Kink:
    return Kink(args, gradients, attrs)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Distinct numbers spread over [low, high], in no order: no ties, and with a seed none twice in the table."""
    count = math.prod(shape)
    between = (np.arange(count) + 0.37 + 0.11 * (seed % 5)) / max(count, 1)
    return np.random.default_rng(seed).permutation(low + (high - low) * between).reshape(shape)


def complexes(*shape: int, low: float = 0.2, high: float = 1.2, seed: int = 0) -> np.ndarray:
    """Numbers of the first quadrant, where no function here has a cut."""
    return numbers(*shape, low=low, high=high, seed=seed) + 1j * numbers(*shape, low=low, high=high, seed=seed + 7)


def integers(*shape: int, below: int, seed: int = 0, dtype: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, shape).astype(dtype)


ALL_INTEGERS = ("int32", "int64", "uint8")

# -- elementwise functions of one tensor ----------------------------------------------------------
UNARY: dict[str, tuple[float, float]] = {
    "negative": (-2, 2), "square": (-2, 2), "reciprocal": (0.4, 2), "exp": (-2, 2), "expm1": (-2, 2), "log": (0.3, 3),
    "log1p": (-0.6, 2), "sqrt": (0.3, 3), "rsqrt": (0.4, 3), "sin": (-3, 3), "cos": (-3, 3), "tan": (-1, 1),
    "arcsin": (-0.8, 0.8), "arccos": (-0.8, 0.8), "arctan": (-3, 3), "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-2, 2),
    "arcsinh": (-3, 3), "arccosh": (1.3, 4), "arctanh": (-0.8, 0.8), "sigmoid": (-4, 4), "softplus": (-4, 4),
    "relu": (-2, 2), "relu6": (-2, 8), "elu": (-2, 2), "selu": (-2, 2), "softsign": (-2, 2), "silu": (-3, 3),
    "gelu": (-3, 3), "gelu_slope": (-3, 3), "gelu_tanh": (-3, 3), "gelu_tanh_slope": (-3, 3),
    "erf": (-2, 2), "erfc": (-2, 2), "erfinv": (-0.8, 0.8), "erfcinv": (0.3, 1.7), "ndtr": (-2, 2), "ndtri": (0.1, 0.9),
    "lgamma": (0.4, 4), "digamma": (0.5, 4), "bessel_i0": (-2, 2), "bessel_i1": (-2, 2), "bessel_i0e": (-2, 2),
    "bessel_i1e": (-2, 2), "bessel_k0": (0.4, 3), "bessel_k1": (0.4, 3), "bessel_k0e": (0.4, 3), "bessel_k1e": (0.4, 3),
    "bessel_j0": (-4, 4), "bessel_j1": (-4, 4), "bessel_y0": (0.4, 4), "bessel_y1": (0.4, 4), "dawsn": (-2, 2),
    "expint": (0.3, 2), "fresnel_sin": (-1.5, 1.5), "fresnel_cos": (-1.5, 1.5), "spence": (0.3, 3),
}  # fmt: skip
UNARY_FACTS: dict[str, dict[str, Any]] = {
    "negative": {"integers": ("int32", "int64")},
    "square": {"integers": ("int32", "int64")},
    "relu": {"integers": ("int32", "uint8"), "kinks": (kink(0.0, gradients=(0.0,)), kink(np.nan, gradients=(0.0,)))},
    "sqrt": {"kinks": (kink(0.0, gradients=(np.inf,)),), "bad": (Bad(lambda: tf.sqrt(1), Exception, "Sqrt|sqrt"),)},
    "exp": {"bad": (Bad(lambda: tf.exp(tf.constant([1])), Exception, "exp|Exp"),)},
    "log": {"kinks": (kink(0.0, gradients=(np.inf,)),)},
    "relu6": {"integers": ("int32",), "kinks": (kink([0.0, 6.0], gradients=([0.0, 0.0],)),)},
    "elu": {"kinks": (kink(0.0, gradients=(1.0,)),)},
    "lgamma": {"kinks": (kink(0.0, gradients=(np.nan,)),)},
    "arccos": {"kinks": (kink(1.0, gradients=(-np.inf,)),)},
}
OF_REALS = {name for name in UNARY if "c" not in registry[name].kinds}
for _name, (_low, _high) in UNARY.items():
    row(
        _name,
        S(numbers(3, low=_low, high=_high)),
        S(numbers(2, 2, low=_low, high=_high, seed=1)),
        S(numbers(low=_low, high=_high, seed=2)),
        S(numbers(0, 2)),
        complex_samples=() if _name in OF_REALS else (S(complexes(3)), S(complexes(seed=4))),
        **UNARY_FACTS.get(_name, {}),
    )

for _name in ("floor", "ceil", "rint"):
    row(_name, S(numbers(3)), S(numbers(2, 2)), differentiable=False)
for _name in ("isnan", "isinf", "isfinite"):
    row(_name, S([1.0, np.nan, np.inf]), S(-np.inf), differentiable=False)
row("logical_not", S([True, False]), S([[True], [False]]), differentiable=False)
row("invert", S([1, -2, 3]), S(np.array([1, 2], np.uint8)), differentiable=False)

# -- elementwise functions of two tensors: every way to broadcast ---------------------------------
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((3, 2), ()), ((2, 1, 2), (3, 1)), ((0, 2), (2,)),
)  # fmt: skip


def pairs(low_x: float, high_x: float, low_y: float, high_y: float) -> tuple[Sample, ...]:
    return tuple(
        S(numbers(*a, low=low_x, high=high_x, seed=i), numbers(*b, low=low_y, high=high_y, seed=i + 10))
        for i, (a, b) in enumerate(SHAPES)
    )


COMPLEX_PAIRS = (S(complexes(2, 3), complexes(3, seed=1)), S(complexes(2, 1, seed=2), complexes(1, 2, seed=3)))
MISMATCHED = (
    Bad(lambda: tf.add([1.0, 2.0], [1.0, 2.0, 3.0]), InvalidArgument, r"Incompatible shapes: \[2\] vs\. \[3\]"),
    Bad(lambda: tf.add(tf.constant(1.0), tf.constant(1)), InvalidArgument, "int32"),
)
BINARY: dict[str, tuple[tuple[Sample, ...], dict[str, Any]]] = {
    "add": (pairs(-2, 2, -2, 2), {"complex_samples": COMPLEX_PAIRS, "integers": ALL_INTEGERS, "bad": MISMATCHED}),
    "subtract": (pairs(-2, 2, -2, 2), {"complex_samples": COMPLEX_PAIRS, "integers": ALL_INTEGERS}),
    "multiply": (pairs(-2, 2, -2, 2), {"complex_samples": COMPLEX_PAIRS, "integers": ALL_INTEGERS}),
    "divide": (pairs(-2, 2, 0.5, 2), {"complex_samples": COMPLEX_PAIRS}),
    "squared_difference": (pairs(-2, 2, -2, 2), {"integers": ("int32", "int64")}),
    "sigmoid_cross_entropy": (pairs(-3, 3, 0.1, 0.9), {"kinks": (kink(0.0, 0.25, gradients=(0.25, 0.0)),)}),
    "power": (pairs(0.4, 2, -2, 3), {
        "complex_samples": COMPLEX_PAIRS, "integers": ("int32", "int64"),
        "kinks": (
            kink(0.0, 2.0, gradients=(0.0, 0.0)), kink(-2.0, 3.0, gradients=(12.0, 0.0)),
            kink(0.0, 1.0, gradients=(1.0, 0.0)), kink(0.0, 0.0, gradients=(np.nan, 0.0)),
        ),
        "bad": (Bad(lambda: tf.pow(tf.constant([2]), tf.constant([-1])), InvalidArgument, "negative integer powers"),),
    }),
    "arctan2": (pairs(0.3, 2, 0.4, 2), {}),
    "multiply_no_nan": (pairs(-2, 2, -2, 2), {
        "complex_samples": COMPLEX_PAIRS,
        "kinks": (kink(np.inf, 0.0, gradients=(0.0, np.inf)), kink(3.0, 0.0, gradients=(0.0, 3.0))),
    }),
    "fmod": (pairs(-2.1, 2.3, 0.7, 0.9), {
        "integers": ("int32", "int64"), "error": LookupError,
        "bad": (Bad(lambda: tf.truncatemod([1], [0]), tf.errors.InternalError, "only integer div and mod"),),
    }),
    "mod": (pairs(-2.1, 2.3, 0.7, 0.9), {"integers": ("int32", "int64")}),
    "maximum": (pairs(-2, 2, -1.77, 2.1), {
        "integers": ALL_INTEGERS, "kinks": (kink(1.0, 1.0, gradients=(1.0, 0.0)),),
    }),
    "minimum": (pairs(-2, 2, -1.77, 2.1), {
        "integers": ALL_INTEGERS, "kinks": (kink(1.0, 1.0, gradients=(1.0, 0.0)),),
    }),
    "gate": (pairs(-2, 2, -1.7, 2), {"integers": ("int32",)}),
    "divide_no_nan": (pairs(-2, 2, 0.5, 2), {
        "complex_samples": COMPLEX_PAIRS, "kinks": (kink(1.0, 0.0, gradients=(0.0, 0.0)),),
    }),
    "xlogy": (pairs(0.4, 2, 0.5, 2), {
        "complex_samples": COMPLEX_PAIRS, "kinks": (kink(0.0, 0.0, gradients=(0.0, 0.0)),),
    }),
    "xlog1py": (pairs(0.4, 2, -0.5, 2), {
        "complex_samples": COMPLEX_PAIRS, "kinks": (kink(0.0, -1.0, gradients=(0.0, 0.0)),),
    }),
    "xdivy": (pairs(0.4, 2, 0.5, 2), {
        "complex_samples": COMPLEX_PAIRS, "kinks": (kink(0.0, 0.0, gradients=(0.0, 0.0)),),
    }),
    "nextafter": (pairs(-2, 2, -1.9, 2.2), {"low_precision": ("float32",)}),
    "igamma": (pairs(0.5, 3, 0.5, 3)[1:4], {}),
    "igammac": (pairs(0.5, 3, 0.5, 3)[1:4], {}),
    "polygamma": (tuple(S(np.array(n), numbers(*shape, low=0.6, high=3, seed=i)) for i, (n, shape) in enumerate(
        [(1.0, ()), ([1.0, 2.0], (2,)), ([[1.0], [3.0]], (2,)), (2.0, (2, 2))])), {"constants": (0,)}),
    "zeta": (pairs(1.5, 4, 0.5, 3), {"constants": (0,)}),
    "complex": (pairs(-2, 2, -2, 2), {"low_precision": ("float32",)}),
}  # fmt: skip
for _name, (_samples, _facts) in BINARY.items():
    row(_name, *_samples, **_facts)

row("floor_divide", S(numbers(2, 3, low=-4, high=4), numbers(3, low=0.5, high=1.5)), S([7, -7], [2, 2]),
    differentiable=False, integers=("int32", "int64"),
    bad=(Bad(lambda: tf.constant([1]) // tf.constant([0]), InvalidArgument, "Integer division by zero"),))  # fmt: skip
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    row(_name, S([1.0, 2.0, 3.0], [[2.0], [1.0]]), S([1, 2], [1, 3]), S(1.0, [1.0, 2.0]), differentiable=False)
for _name in ("logical_and", "logical_or", "logical_xor"):
    row(_name, S([True, False], [[True], [False]]), S(True, [True, False]), differentiable=False)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    row(_name, S([1, 6, 3], [[2], [7]]), S(3, [1, 2]), differentiable=False, integers=ALL_INTEGERS)

row(
    "where",
    S([True, False, True], numbers(3), numbers(3, seed=1)),
    S([[True], [False]], numbers(2, 2), numbers(2, seed=1)),
    S(True, numbers(2), numbers(seed=1)),
    S([True, False], numbers(), numbers(3, 1, seed=1)),
    complex_samples=(S([True, False], complexes(2), complexes(2, seed=1)),),
    bad=(Bad(lambda: tf.where([True], [1.0], tf.constant([1])), Exception, "int32"),),
)

# -- complex numbers ------------------------------------------------------------------------------
COMPLEX_FACTS: dict[str, dict[str, Any]] = {
    "absolute": {"kinks": (kink(0.0, gradients=(0.0,)), kink(0j, gradients=(0j,)))},
    "sign": {"integers": ("int32", "int64"), "kinks": (kink(0.0, gradients=(0.0,)),)},
}
for _name in ("real", "imag", "angle"):
    row(_name, S(complexes(3)), S(complexes(2, 2, seed=1)), S(complexes(seed=2)), low_precision=())
for _name in ("conj", "absolute", "sign"):
    row(
        _name,
        S(numbers(3)),
        S(numbers(2, 2, seed=1)),
        S(numbers(seed=2)),
        complex_samples=(S(complexes(3)), S(complexes(2, 2, seed=1)), S(complexes(seed=2))),
        **COMPLEX_FACTS.get(_name, {}),
    )

# -- reductions, scans, order ---------------------------------------------------------------------
REDUCED = (
    (numbers(2, 3), {"axis": (0, 1), "keepdims": False}),
    (numbers(2, 3, seed=1), {"axis": (1,), "keepdims": False}),
    (numbers(2, 3, seed=2), {"axis": (0,), "keepdims": True}),
    (numbers(2, 2, 3, seed=3), {"axis": (0, 2), "keepdims": False}),
    (numbers(3, seed=4), {"axis": (), "keepdims": False}),
)
for _name, _facts in {
    "sum": {"integers": ALL_INTEGERS},
    "mean": {"integers": ("int32", "int64")},
    "prod": {
        "integers": ("int32", "int64"),
        "kinks": (
            kink([0.0, 3.0, 4.0], gradients=([12.0, 0.0, 0.0],), axis=(0,), keepdims=False),
            kink([0.0, 0.0, 4.0], gradients=([0.0, 0.0, 0.0],), axis=(0,), keepdims=False),
        ),
    },
    "max": {
        "integers": ALL_INTEGERS,
        "kinks": (kink([1.0, 2.0, 2.0], gradients=([0.0, 0.5, 0.5],), axis=(0,), keepdims=False),),
    },
    "min": {
        "integers": ALL_INTEGERS,
        "kinks": (kink([1.0, 1.0, 2.0], gradients=([0.5, 0.5, 0.0],), axis=(0,), keepdims=False),),
    },
    "logsumexp": {
        "kinks": (kink([-np.inf, 0.0], gradients=([0.0, 1.0],), axis=(0,), keepdims=False),),
    },
}.items():  # fmt: skip
    _complex = _name in ("sum", "mean", "prod")
    row(
        _name,
        *(S(x, **attrs) for x, attrs in REDUCED),
        complex_samples=(S(complexes(2, 3), axis=(1,), keepdims=False),) if _complex else (),
        **_facts,  # type: ignore[arg-type]
    )
row("variance", *(S(x, **attrs, constant_mean=False) for x, attrs in REDUCED))
for _name in ("any", "all"):
    row(_name, S([[True, False], [True, True]], axis=(0,), keepdims=False),
        S([[True, False], [True, True]], axis=(0, 1), keepdims=True), differentiable=False)  # fmt: skip
for _name in ("argmax", "argmin"):
    row(_name, S(numbers(2, 3), axis=1), S(numbers(2, 3), axis=0), S([1, 3, 3], axis=0), differentiable=False)
row("argsort", S(numbers(2, 4), axis=1, descending=False), S(numbers(3, 2), axis=0, descending=True),
    S([2, 1, 2, 1], axis=0, descending=True), differentiable=False)  # fmt: skip
row("top_k", S(numbers(2, 4), axis=1, k=2, descending=True, dtype=np.dtype(np.int32)),
    S(numbers(3, 2), axis=0, k=3, descending=False, dtype=np.dtype(np.int64)),
    function=lambda x, **attrs: registry["top_k"].call(x, **attrs)[0],
    integers=("int32", "int64", "uint8"))  # fmt: skip
for _name in ("cumsum", "cumprod"):
    row(
        _name,
        *(
            S(numbers(2, 3, seed=i), axis=axis, exclusive=exclusive, reverse=reverse)
            for i, (axis, exclusive, reverse) in enumerate(
                [(0, False, False), (1, False, False), (1, True, False), (1, False, True), (0, True, True)]
            )
        ),
        complex_samples=(S(complexes(2, 3), axis=1, exclusive=True, reverse=True),),
        integers=("int32", "int64"),
        # TensorFlow's own formula divides by x, and is wrong at zeros; this one is not.
        kinks=(
            kink([0.0, 3.0, 4.0], gradients=([16.0, 0.0, 0.0],), axis=0, exclusive=False, reverse=False),
            kink([2.0, 0.0, 5.0], gradients=([1.0, 12.0, 0.0],), axis=0, exclusive=False, reverse=False),
        ) if _name == "cumprod" else (),
    )  # fmt: skip

# -- shaping --------------------------------------------------------------------------------------
SHAPING: dict[str, tuple[Sample, ...]] = {
    "identity": (S(numbers(2, 3)), S(numbers())),
    "transfer": (S(numbers(2, 3), device=None, source=None), S(numbers(), device=None, source=None)),
    "reshape": (S(numbers(2, 3), shape=(3, 2)), S(numbers(2, 3), shape=(6,)), S(numbers(4), shape=(2, -1)),
                S(numbers(1), shape=()), S(numbers(2, 3), shape=(2, 3, 1))),
    "transpose": (S(numbers(2, 3), perm=(1, 0)), S(numbers(2, 3, 2), perm=(0, 2, 1)),
                  S(numbers(2, 3, 2), perm=(2, 0, 1))),
    "broadcast_to": (S(numbers(3), shape=(2, 3)), S(numbers(2, 1), shape=(2, 3)), S(numbers(), shape=(2, 2)),
                     S(numbers(2, 3), shape=(2, 3))),
    "pad": (S(numbers(2, 3), before=(1, 0), after=(0, 2)), S(numbers(2), before=(1,), after=(1,))),
    "flip": (S(numbers(2, 3), axis=(1,)), S(numbers(2, 3), axis=(0, 1))),
    "roll": (S(numbers(2, 3), shift=(1,), axis=(1,)), S(numbers(3, 2), shift=(1, -1), axis=(0, 1))),
    "unstack": (S(numbers(2, 3), axis=0), S(numbers(2, 3), axis=1), S(numbers(3), axis=0)),
    "split": (S(numbers(2, 3), sizes=(1, 2), axis=1), S(numbers(4), sizes=(2, 2), axis=0)),
    "concatenate": (S(numbers(2, 3), numbers(2, 1, seed=1), axis=1, sizes=(3, 1)),
                    S(numbers(1, 2), numbers(2, 2, seed=1), numbers(1, 2, seed=2), axis=0, sizes=(1, 2, 1)),
                    S(numbers(2), axis=0, sizes=(2,))),
    "stack": (S(numbers(2, 3), numbers(2, 3, seed=1), axis=0), S(numbers(2), numbers(2, seed=1), axis=1),
              S(numbers(), axis=0)),
    "getitem": (S(numbers(3, 4), index=(slice(None), 1)), S(numbers(5), index=(slice(None, None, -2),)),
                S(numbers(3, 4), index=(0, slice(1, 3), None)), S(numbers(3, 2), index=(slice(2, 1),))),
    "setitem": (S(numbers(3), index=(slice(None), 1), shape=(3, 2)), S(numbers(2), index=(slice(1, 3),), shape=(4,))),
}  # fmt: skip
SHAPING_FACTS: dict[str, dict[str, Any]] = {
    "reshape": {"bad": (Bad(lambda: tf.reshape([1.0, 2.0], [3]), InvalidArgument, "2 values"),)},
    "getitem": {"bad": (
        Bad(lambda: tf.constant([1.0])[3], InvalidArgument, "out of bounds"),
        Bad(lambda: tf.constant([1.0])[0, 0], InvalidArgument, "Index out of range"),
        Bad(lambda: tf.constant([1.0])[::0], InvalidArgument, "non-zero"),
        Bad(lambda: tf.constant([1.0])["a"], TypeError, "Only integers, slices"),
    )},
    "concatenate": {"bad": (Bad(lambda: tf.concat([[[1.0]], [[1.0, 2.0]]], 0), InvalidArgument, "(?i)dimension"),)},
    "stack": {"bad": (Bad(lambda: tf.stack([[1.0], [1.0, 2.0]]), (InvalidArgument, ValueError), "(?i)shape"),)},
    "broadcast_to": {"bad": (Bad(lambda: tf.broadcast_to([1.0, 2.0], [3]), InvalidArgument, "(?i)shape"),)},
}  # fmt: skip
for _name, _samples in SHAPING.items():
    _complex_samples = tuple(Sample(tuple(a + 0.5j * a for a in s.args), s.attrs) for s in _samples[:2])
    row(_name, *_samples, complex_samples=_complex_samples, integers=ALL_INTEGERS, **SHAPING_FACTS.get(_name, {}))
row("astype", S(numbers(3), dtype=np.dtype(np.complex128), source=np.dtype(np.float64)),
    S(numbers(2, 2), dtype=np.dtype(np.float64), source=np.dtype(np.float64)),
    complex_samples=(S(complexes(3), dtype=np.dtype(np.float64), source=np.dtype(np.complex128)),),
    low_precision=())  # fmt: skip
row("discrete_cast", S(numbers(3), dtype=np.dtype(np.int32)), S([1, 2], dtype=np.dtype(np.float64)),
    S([0.0, 1.5], dtype=np.dtype(bool)), differentiable=False)  # fmt: skip
row("stop_gradient", S(numbers(3)), S(numbers()), differentiable=False)

# -- lookups and scatters -------------------------------------------------------------------------
row(
    "take",
    S(numbers(4, 2), integers(3, below=4), axis=0, batch_dims=0),
    S(numbers(4), 2, axis=0, batch_dims=0),
    S(numbers(2, 4), integers(2, 2, below=4), axis=1, batch_dims=0),
    S(numbers(2, 4, 2), integers(2, 3, below=4), axis=1, batch_dims=1),
    S(numbers(2, 3, 4), integers(2, 2, below=4), axis=2, batch_dims=1),
    complex_samples=(S(complexes(4, 2), integers(3, below=4), axis=0, batch_dims=0),),
    integers=ALL_INTEGERS,
    bad=(
        Bad(lambda: tf.gather([1.0, 2.0], [2]), InvalidArgument, r"indices\[0\] = 2 is not in \[0, 2\)"),
        Bad(lambda: tf.gather([1.0, 2.0], [0.5]), (TypeError, InvalidArgument), "(?i)int"),
    ),
)  # fmt: skip
row("add_rows", S(numbers(3, 2), integers(3, below=4), shape=(4, 2)), S(numbers(3), [1, 1, 0], shape=(2,)),
    complex_samples=(S(complexes(3), [1, 1, 0], shape=(2,)),), integers=ALL_INTEGERS)  # fmt: skip
row(
    "gather_nd",
    S(numbers(3, 3), integers(4, 2, below=3), batch_dims=0),
    S(numbers(3, 2), integers(2, 1, below=3), batch_dims=0),
    S(numbers(2, 3, 2), integers(2, 2, 1, below=3), batch_dims=1),
    complex_samples=(S(complexes(3, 3), integers(4, 2, below=3), batch_dims=0),),
    integers=ALL_INTEGERS,
    bad=(Bad(lambda: tf.gather_nd([1.0, 2.0], [[5]]), InvalidArgument, r"indices\[0\] = \[5\] does not index into"),),
)
row(
    "scatter_nd",
    S(numbers(4), integers(4, 2, below=3), shape=(3, 3), batch_dims=0),
    S(numbers(2, 2), integers(2, 1, below=3), shape=(3, 2), batch_dims=0),
    S(numbers(2, 2, 2), integers(2, 2, 1, below=3), shape=(2, 3, 2), batch_dims=1),
    complex_samples=(S(complexes(4), integers(4, 2, below=3), shape=(3, 3), batch_dims=0),),
    integers=ALL_INTEGERS,
)
row("replace_nd", S(numbers(4), numbers(2, seed=1), [[1], [3]]), S(numbers(2, 3), numbers(2, 3, seed=1), [[1], [0]]),
    S(numbers(2, 3), numbers(2, seed=1), [[1, 2], [0, 0]]), integers=("int32", "int64"))  # fmt: skip
row("take_along_axis", S(numbers(2, 4), integers(2, 3, below=4), axis=1), S(numbers(3), [1, 1, 0], axis=0),
    complex_samples=(S(complexes(3), [1, 1, 0], axis=0),), integers=ALL_INTEGERS)  # fmt: skip
row("put_along_axis", S(numbers(2, 3), integers(2, 3, below=4), axis=1, size=4),
    S(numbers(3), [1, 1, 0], axis=0, size=2), complex_samples=(S(complexes(3), [1, 1, 0], axis=0, size=2),),
    integers=ALL_INTEGERS)  # fmt: skip
row("one_hot", S([0, 2, 1], depth=3, dtype=np.dtype(np.float64)), S([[0], [5]], depth=2, dtype=np.dtype(np.float32)),
    differentiable=False)  # fmt: skip

# -- linear algebra -------------------------------------------------------------------------------
row(
    "matmul",
    *(
        S(numbers(*((3, 2) if ax else (2, 3)), seed=1), numbers(*((4, 3) if ay else (3, 4)), seed=2),
          adjoint_x=ax, adjoint_y=ay)
        for ax in (False, True) for ay in (False, True)
    ),
    S(numbers(2, 2, 3), numbers(3, 2, seed=1), adjoint_x=False, adjoint_y=False),
    S(numbers(2, 2, 3), numbers(2, 3, seed=1), adjoint_x=False, adjoint_y=True),
    S(numbers(2, 3, 2), numbers(3, 2, seed=1), adjoint_x=True, adjoint_y=False),
    S(numbers(2, 3, 2), numbers(2, 3, seed=1), adjoint_x=True, adjoint_y=True),
    S(numbers(2, 3), numbers(2, 3, 2, seed=1), adjoint_x=False, adjoint_y=False),
    S(numbers(2, 1, 2, 3), numbers(2, 3, 2, seed=1), adjoint_x=False, adjoint_y=False),
    *(  # nothing in one of the axes
        S(np.ones(a), np.ones(b), adjoint_x=False, adjoint_y=False)
        for a, b in [((2, 3, 0), (0, 4)), ((2, 0, 3), (3, 4)), ((0, 3), (3, 2)), ((0, 2, 3), (3, 2)), ((2, 3), (3, 0))]
    ),
    complex_samples=tuple(
        S(complexes(*((3, 2) if ax else (2, 3))), complexes(*((2, 3) if ay else (3, 2)), seed=1),
          adjoint_x=ax, adjoint_y=ay)
        for ax in (False, True) for ay in (False, True)
    ),
    integers=("int32", "int64"),
    bad=(
        Bad(lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])), InvalidArgument, "Matrix size-incompatible"),
        Bad(lambda: tf.matmul(tf.ones([2]), tf.ones([2, 3])), InvalidArgument, "ndims"),
        Bad(lambda: tf.matmul(tf.ones([2, 2]), tf.ones([2, 2], tf.float64)), InvalidArgument, "double|float64"),
    ),
)  # fmt: skip
row(
    "einsum",
    S(numbers(2, 3), numbers(3, 2, seed=1), equation="ab,bc->ac"),
    S(numbers(2, 3), equation="ab->b"),
    S(numbers(3, 3), equation="aa->a"),
    S(numbers(3, 3), equation="aa->"),
    S(numbers(2, 3), numbers(2, seed=1), numbers(3, seed=2), equation="ab,a,b->"),
    S(numbers(2), numbers(3, seed=1), equation="a,b->ba"),
    S(numbers(2, 3), numbers(2, 2, seed=1), equation="ab,cd->ac"),
    S(numbers(2, 2, 3), numbers(2, 3, 2, seed=1), equation="abc,acd->abd"),
    complex_samples=(S(complexes(2, 3), complexes(3, 2, seed=1), equation="ab,bc->ac"),
                     S(complexes(3, 3), equation="aa->a")),
    bad=(Bad(lambda: tf.einsum("ij,jk->ik", tf.ones([2, 2])), ValueError, "Got 1 inputs"),),
)  # fmt: skip

# -- neural ---------------------------------------------------------------------------------------
for _name in ("softmax", "log_softmax"):
    row(_name, S(numbers(2, 3), axis=1), S(numbers(2, 3), axis=0), S(numbers(4), axis=0))
row("pinned", S(numbers(2, 3)), S(numbers(2)))
row("standardize", S(numbers(2, 3), epsilon=0.01), S(numbers(4), epsilon=0.0), S(numbers(2, 1, 5), epsilon=0.1),
    S(numbers(2, 3), epsilon=0.01, centered=False),
    function=lambda x, **attrs: registry["standardize"].call(x, **attrs)[0],
    bad=(
        Bad(lambda: tf.nn.layer_normalization(1.0), InvalidArgument, "at least 1-D"),
        Bad(lambda: tf.nn.layer_normalization([1, 2]), InvalidArgument, "int32"),
    ))  # fmt: skip
row("sparse_cross_entropy", S(numbers(2, 3), [1, 2]), S(numbers(4), 3), S(numbers(2, 2, 3), [[1, 0], [2, 2]]),
    function=lambda logits, labels: registry["sparse_cross_entropy"].call(logits, labels)[0],
    bad=(
        Bad(lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([3], [[1.0, 2.0]]), InvalidArgument, "label"),
    ))  # fmt: skip
PROJECTIONS = (  # features, weights, labels, perhaps a bias, and attributes
    (numbers(2, 3), numbers(4, 3, seed=1), [1, 3], {"adjoint": True}),
    (numbers(2, 2, 2), numbers(2, 3, seed=1), [[0, 2], [1, 1]], numbers(3, seed=2), {"adjoint": False}),
)
row("projected_cross_entropy", *(S(*given, **attrs) for *given, attrs in PROJECTIONS),
    constants=(2,))  # fmt: skip
row("projected_cross_entropy_gradient",
    *(S(numbers(*np.shape(given[2]), seed=5), *given, **attrs)
      for *given, attrs in PROJECTIONS),
    constants=(3,))  # fmt: skip
# Labels are probabilities: of others TensorFlow's slope is not the derivative.
row("cross_entropy", S(numbers(2, 3), [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]), S(numbers(4), [0.1, 0.2, 0.3, 0.4]))


ATTENTIONS = (  # queries, keys, values, perhaps a mask, and attributes
    (numbers(3, 2), numbers(3, 2, seed=1), numbers(3, 2, seed=2), {"scale": 0.7, "causal": True}),
    (numbers(2, 2, 2), numbers(2, 3, 2, seed=1), numbers(2, 3, 1, seed=2), {"scale": 0.7, "causal": False}),
    (numbers(1, 2, 2, 3), numbers(1, 2, 3, 3, seed=1), numbers(1, 2, 3, 2, seed=2), numbers(2, 1, 3, seed=3),
     {"scale": 0.5, "causal": False}),
    (numbers(2, 3, 2), numbers(2, 2, 2, seed=1), numbers(2, 2, 2, seed=2),
     np.array([[True, False], [False, False], [True, True]]), {"scale": 1.0, "causal": False}),
)  # fmt: skip


def attend(*given: Any, **attrs: Any) -> Any:
    return registry["attention"].call(*given, **attrs)[0]


def attend_back(
    g: Any, q: Any, k: Any, v: Any, out: Any, kept: Any, *mask: Any, with_scores: bool, **attrs: Any
) -> Any:
    """`out` and `kept` are not free: they are what attention gives."""
    known = registry["attention"].call(q, k, v, *mask, **attrs)
    return registry["attention_gradient"].call(g, q, k, v, *known, *mask, with_scores=with_scores, **attrs)


def attended(*given: Any) -> Sample:
    q, k, v, *mask, attrs = given
    out, kept = numpy_namespace.attention(q, k, v, *mask, **attrs)
    with_scores = bool(mask) and mask[0].dtype.kind == "f"
    return S(numbers(*out.shape, seed=4), q, k, v, out, kept, *mask, with_scores=with_scores, **attrs)


row("attention", *(S(*given, **attrs) for *given, attrs in ATTENTIONS), function=attend)
row("attention_gradient", *(attended(*sample) for sample in ATTENTIONS), function=attend_back, constants=(4, 5))


# -- gradients that the user supplies ------------------------------------------------------------
@tf.custom_gradient
def _own_product(x: Any, y: Any) -> Any:
    def grad(upstream: Any, also: Any) -> Any:
        return upstream * y + also * tf.cos(x), upstream * x

    return (x * y, tf.sin(x)), grad


row("custom_gradient", S(numbers(3), numbers(3, seed=1)), S(numbers(2, 2), numbers(2, 2, seed=1)),
    function=_own_product)  # fmt: skip


# -- segments, scatters that compare, scans, values ----------------------------------------------
for _name in ("segment_max", "segment_min"):
    row(
        _name,
        S(numbers(5, 2), [0, 0, 1, 2, 2], count=3, gaps=False),
        S(numbers(4), [2, 0, 2, 0], count=3, gaps=True),
        integers=("int32", "int64"),
        kinks=(kink([1.0, 1.0, 3.0], [0, 0, 1], gradients=([0.5, 0.5, 1.0],), count=2, gaps=False),),
    )
for _name in ("scatter_max", "scatter_min"):
    row(_name, S(numbers(4), numbers(3, seed=1), [[1], [3], [1]]), S(numbers(2, 3), numbers(2, 3, seed=1), [[1], [0]]),
        S(numbers(2, 3), numbers(2, seed=1), [[1, 2], [0, 0]]), integers=("int32", "int64"))  # fmt: skip
SCANS = [(0, False, False), (1, False, False), (1, True, False), (1, False, True), (0, True, True)]
row(
    "running_product",
    *(
        S(numbers(2, 3, seed=i), axis=axis, exclusive=exclusive, reverse=reverse)
        for i, (axis, exclusive, reverse) in enumerate(SCANS)
    ),
    integers=("int32", "int64"),
)
row(
    "cumulative_logsumexp",
    *(
        S(numbers(2, 3, seed=i), axis=axis, exclusive=False, reverse=reverse)
        for i, (axis, _, reverse) in enumerate(SCANS)
    ),
)
row(
    "weighted_scan",
    *(
        S(numbers(2, 3, seed=i), numbers(2, 3, seed=i + 1), numbers(2, 3, seed=i + 2),
          axis=axis, exclusive=exclusive, reverse=reverse)
        for i, (axis, exclusive, reverse) in enumerate(SCANS)
    ),
)  # fmt: skip
row("bitcast", S(numbers(3), dtype=np.dtype(np.int64)), S(numbers(), dtype=np.dtype(np.int64)),
    S(numbers(3), dtype=np.dtype(np.float32)), error=LookupError)  # fmt: skip
row("unique", S([2.0, 1.0, 2.0]), S([3, 1, 3, 3]), error=LookupError)
row("unique_with_counts", S([2.0, 1.0, 2.0]), S([3, 1, 3, 3]), error=LookupError)
row("dense_bincount", S(numbers(3), [0, 2, 0], count=3), error=LookupError)
row("histogram", S(numbers(3), [1, 0, 1], count=2), S(numbers(2), [2, 2], count=3), differentiable=False)
row("guarantee_const", S(numbers(3)), S(numbers()), error=LookupError)
row(
    "check_numerics",
    S(numbers(3), message="here"),
    S(numbers(), message="here"),
    complex_samples=(),
    bad=(
        Bad(lambda: tf.debugging.check_numerics([1.0, np.nan], "here"), InvalidArgument, "here : Tensor had NaN"),
        Bad(lambda: tf.debugging.check_numerics([np.inf], "here"), InvalidArgument, "here : Tensor had Inf"),
    ),
)


# -- factorisations ------------------------------------------------------------------------------
def square(*shape: int, seed: int = 0) -> np.ndarray:
    """Matrices far from singular."""
    return numbers(*shape, seed=seed) + 3 * np.eye(shape[-1])


def triangle(*shape: int, seed: int = 0) -> np.ndarray:
    return np.tril(numbers(*shape, low=0.3, high=1.5, seed=seed)) + np.eye(shape[-1])


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Positive definite matrices with distinct eigenvalues."""
    root = numbers(*shape, seed=seed)
    return root @ np.swapaxes(root, -1, -2) + np.diag(1.0 + np.arange(shape[-1]))


def complex_square(n: int, seed: int = 0) -> np.ndarray:
    return complexes(n, n, seed=seed) + 3 * np.eye(n)


def hermitian(n: int, seed: int = 0) -> np.ndarray:
    root = complexes(n, n, seed=seed)
    return root @ root.conj().T + np.diag(1.0 + np.arange(n))


def of_hermitian(name: str) -> Callable[..., Any]:
    """The function of the Hermitian part: what a change of one element alone means is a convention."""

    def function(x: Any) -> Any:
        return registry[name].call((x + tf.linalg.adjoint(x)) / 2)

    return function


def without_phases(name: str) -> Callable[..., Any]:
    """Vectors by the size of their elements: their sign or phase is free."""

    def function(x: Any, **attrs: Any) -> Any:
        values, *vectors = registry[name].call(x, **attrs)
        return [values, *(tf.abs(v) for v in vectors)]

    return function


SINGLE = {"low_precision": ("float32",)}
SINGULAR = np.ones((2, 2))
row("inv", S(square(3, 3)), S(square(2, 2, 2)), complex_samples=(S(complex_square(2)),), **SINGLE,
    bad=(Bad(lambda: tf.linalg.inv(SINGULAR), InvalidArgument, "Input is not invertible"),
         Bad(lambda: tf.linalg.inv(tf.ones([2, 3])), (InvalidArgument, ValueError), "(?i)square")))  # fmt: skip
row("det", S(square(3, 3)), S(square(2, 2, 2)), complex_samples=(S(complex_square(2)),), **SINGLE)
row("slogdet", S(square(3, 3)), S(-square(3, 3)), S(square(2, 2, 2)), complex_samples=(S(complex_square(2)),), **SINGLE)
row(
    "solve",
    S(square(3, 3), numbers(3, 2, seed=1), adjoint=False),
    S(square(3, 3), numbers(3, 2, seed=1), adjoint=True),
    S(square(2, 2, 2), numbers(2, 2, 1, seed=1), adjoint=False),
    complex_samples=tuple(S(complex_square(2), complexes(2, 2, seed=1), adjoint=a) for a in (False, True)),
    bad=(Bad(lambda: tf.linalg.solve(SINGULAR, SINGULAR), InvalidArgument, "Input matrix is not invertible"),),
    **SINGLE,
)
row(
    "triangular_solve",
    *(
        S(triangle(3, 3) if lower else triangle(3, 3).T, numbers(3, 2, seed=1), lower=lower, adjoint=adjoint)
        for lower in (True, False) for adjoint in (True, False)
    ),
    S(triangle(2, 2, 2), numbers(2, 2, 1, seed=1), lower=True, adjoint=False),
    complex_samples=(S(complex_square(2), complexes(2, 2, seed=1), lower=True, adjoint=True),),
    **SINGLE,
)  # fmt: skip
MIDDLE = np.array([[0.0], [5.0], [0.0]])
row("tridiagonal_solve", S(numbers(3, 4) + MIDDLE, numbers(4, 2, seed=1)),
    S(numbers(2, 3, 3) + MIDDLE, numbers(2, 3, 1, seed=1)),
    complex_samples=(S(complexes(3, 3) + MIDDLE, complexes(3, 1, seed=1)),), **SINGLE)  # fmt: skip
row("cholesky", S(positive(3, 3)), S(positive(2, 2, 2)), complex_samples=(S(hermitian(2)),),
    function=of_hermitian("cholesky"), **SINGLE,
    bad=(Bad(lambda: tf.linalg.cholesky([[1.0, 2.0], [2.0, 1.0]]), InvalidArgument, "(?i)cholesky"),))  # fmt: skip
row("qr", S(square(3, 3), full_matrices=False), S(numbers(4, 2), full_matrices=False),
    S(numbers(2, 4), full_matrices=False),
    S(numbers(2, 4), full_matrices=True), S(numbers(2, 3, 2), full_matrices=False),
    complex_samples=(S(complex_square(2), full_matrices=False),), **SINGLE)  # fmt: skip
row("eigh", S(positive(3, 3)), S(positive(2, 2, 2)), complex_samples=(S(hermitian(2)),),
    function=without_phases("eigh"), **SINGLE)  # fmt: skip
row("eigvalsh", S(positive(3, 3)), S(positive(2, 2, 2)), complex_samples=(S(hermitian(2)),), **SINGLE)
row("eig", S(positive(3, 3) + 0.1 * numbers(3, 3)), S(square(2, 2)),
    complex_samples=(S(hermitian(2) + 0.1 * complexes(2, 2)),), function=without_phases("eig"),
    low_precision=())  # fmt: skip
row("eigvals", S(positive(3, 3) + 0.1 * numbers(3, 3)), S(square(2, 2)),
    complex_samples=(S(hermitian(2) + 0.1 * complexes(2, 2)),), low_precision=())  # fmt: skip
row("svd", S(square(3, 3), full_matrices=False), S(numbers(4, 2), full_matrices=False),
    S(numbers(2, 3), full_matrices=False),
    S(square(2, 2, 2), full_matrices=False), complex_samples=(S(complex_square(2), full_matrices=False),),
    function=without_phases("svd"), **SINGLE)  # fmt: skip
row("svdvals", S(square(3, 3)), S(numbers(4, 2)), S(numbers(2, 3)), S(square(2, 2, 2)),
    complex_samples=(S(complex_square(2)),), **SINGLE)  # fmt: skip
row("pinv", S(square(3, 3), rcond=1e-12), S(numbers(4, 2), rcond=1e-12), S(numbers(2, 3), rcond=1e-12),
    complex_samples=(S(complex_square(2), rcond=1e-12),), **SINGLE)  # fmt: skip
row("lu", S(square(3, 3)), S(square(2, 2, 2)), error=LookupError)
row("logm", S(hermitian(3)), error=LookupError)
row("expm", S(numbers(3, 3)), S(numbers(2, 2, 2)), complex_samples=(S(complexes(2, 2)),), **SINGLE)
row("sqrtm", S(positive(3, 3)), S(positive(2, 2, 2)), complex_samples=(S(hermitian(2)),), **SINGLE)


# -- convolution and pooling ---------------------------------------------------------------------
def windows(
    *, strides: Any = (1, 1), dilations: Any = (1, 1), padding: Any = ((0, 0), (0, 0)), **more: Any
) -> dict[str, Any]:
    return {"strides": strides, "dilations": dilations, "padding": padding, **more}


CONVOLUTIONS = (  # images, filters and how one slides over the other
    (numbers(2, 3, 3, 2), numbers(2, 2, 2, 3, seed=1), windows(groups=1)),
    (numbers(1, 4, 3, 2), numbers(2, 2, 2, 2, seed=1), windows(strides=(2, 1), padding=((1, 0), (0, 1)), groups=1)),
    (numbers(1, 4, 4, 1), numbers(2, 2, 1, 2, seed=1), windows(dilations=(2, 1), padding=((1, 1), (0, 0)), groups=1)),
    (numbers(1, 3, 3, 4), numbers(2, 2, 2, 4, seed=1), windows(groups=2)),
    (numbers(2, 3, 3, 2), numbers(2, 2, 1, 4, seed=1), windows(padding=((1, 0), (1, 0)), groups=2)),
    (numbers(2, 3, 3, 2), numbers(1, 1, 2, 3, seed=1), windows(groups=1)),
    (numbers(2, 5, 2), numbers(3, 2, 2, seed=1), windows(strides=(2,), dilations=(1,), padding=((1, 1),), groups=1)),
)
row("conv", *(S(x, y, **attrs) for x, y, attrs in CONVOLUTIONS))
row(
    "conv_input_grad",
    *(
        S(numbers(*numpy_namespace.conv(x, y, **attrs).shape, seed=2), y, shape=x.shape[1:-1], **attrs)
        for x, y, attrs in CONVOLUTIONS
    ),
)
row(
    "conv_filter_grad",
    *(
        S(x, numbers(*numpy_namespace.conv(x, y, **attrs).shape, seed=2), window=y.shape[:-2], **attrs)
        for x, y, attrs in CONVOLUTIONS
    ),
)
POOLS = (
    (numbers(1, 4, 4, 2), windows(window=(2, 2), strides=(2, 2))),
    (numbers(2, 3, 3, 1), windows(window=(2, 2), padding=((1, 0), (0, 1)))),
    (numbers(1, 5, 4, 1), windows(window=(2, 2), dilations=(2, 1), strides=(2, 1))),
    (numbers(2, 5, 2), windows(window=(3,), strides=(2,), dilations=(1,), padding=((1, 1),))),
)
for _name in ("conv_patches", "sum_pool", "avg_pool", "max_pool"):
    row(_name, *(S(x, **attrs) for x, attrs in POOLS))
for _name, _back in (("conv_patches_grad", "conv_patches"), ("sum_unpool", "sum_pool"), ("avg_unpool", "avg_pool")):
    row(
        _name,
        *(
            S(numbers(*getattr(numpy_namespace, _back)(x, **attrs).shape, seed=2), shape=x.shape[1:-1], **attrs)
            for x, attrs in POOLS
        ),
    )


def largest(x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    return numpy_namespace.max_pool(x, **attrs)


row("max_unpool", *(S(numbers(*largest(x, a).shape, seed=2), x, largest(x, a), **a) for x, a in POOLS),
    constants=(1, 2))  # fmt: skip
row("max_pick", *(S(numbers(*x.shape, seed=2), x, largest(x, a), **a) for x, a in POOLS), constants=(1, 2))
row("max_position", *(S(x, largest(x, a), **a) for x, a in POOLS), differentiable=False,
    batches=lambda x, i: x)  # fmt: skip
row("max_and_position",
    *(S(x, within_batch=bool(i % 2), dtype=np.dtype(np.int64), **a) for i, (x, a) in enumerate(POOLS)),
    function=lambda x, **attrs: registry["max_and_position"].call(x, **attrs)[0])  # fmt: skip

# -- losses ---------------------------------------------------------------------------------------
row(
    "ctc",
    S(numbers(4, 2, 3), np.array([[1, 2], [2, 2]]), np.array([2, 1]), np.array([4, 3]), blank=0),
    S(numbers(3, 1, 3), np.array([[1]]), np.array([1]), np.array([3]), blank=2),
    **SINGLE,
)

# -- random numbers that follow their parameters --------------------------------------------------
row("gamma_tail", *(S(numbers(3, low=0.5, high=3), numbers(3, low=0.5, high=3, seed=1), order=k) for k in range(2)),
    S(numbers(2, 1, low=0.5, high=3), numbers(2, low=0.5, high=3, seed=1), order=0), low_precision=())  # fmt: skip
row("gamma_sample", S(numbers(3, low=0.5, high=3), numbers(3, low=0.5, high=3, seed=1)),
    S(numbers(2, 1, low=0.5, high=3), numbers(2, low=0.5, high=3, seed=1)),
    # The value does not depend on x by itself: the draw does. What its derivative should be, test_random says.
    modes=("recorded", "jacobian", "batched", "forward"), constants=(1,), low_precision=("float32",))  # fmt: skip
row("truncated_sample",
    S(numbers(3, low=-2, high=-0.5), numbers(3, low=0.5, high=2, seed=1), numbers(3, low=0.1, high=0.9),
      numbers(3, low=-0.4, high=0.4, seed=2)),
    S(numbers(2, 1, low=-2, high=-0.5), numbers(2, low=0.5, high=2, seed=1), numbers(low=0.1, high=0.9),
      numbers(2, 2, low=-0.4, high=0.4, seed=2)),
    modes=("recorded", "jacobian", "batched", "forward"), constants=(2, 3), low_precision=("float32",))  # fmt: skip
row("shuffle_rows", S(numbers(3, 2), [2, 0, 1]), differentiable=False)

# -- Fourier transforms, frames, images -----------------------------------------------------------
row("fft", *(S(complexes(*shape), axis=axis, inverse=inverse)
             for shape, axis in (((4,), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1))) for inverse in (False, True)),
    low_precision=())  # fmt: skip
row("rfft", S(numbers(4), axis=(0,)), S(numbers(2, 5), axis=(1,)), S(numbers(3, 4), axis=(0, 1)), **SINGLE)
row("irfft", S(complexes(3), axis=(0,), length=4), S(complexes(2, 3), axis=(1,), length=5),
    S(complexes(3, 3), axis=(0, 1), length=4), low_precision=())  # fmt: skip
row("frame", S(numbers(6), axis=0, length=3, step=2), S(numbers(2, 5), axis=1, length=2, step=1),
    S(numbers(2), axis=0, length=3, step=1))  # fmt: skip
row("overlap_add", S(numbers(2, 3), axis=0, step=2, size=5), S(numbers(2, 3, 2), axis=1, step=1, size=4),
    S(numbers(2, 3), axis=0, step=2, size=4), S(numbers(2, 3), axis=0, step=2, size=7))  # fmt: skip
METHODS = ("bilinear", "nearest", "bicubic", "lanczos3", "gaussian", "mitchellcubic")
row("resample", *(S(numbers(2, 4), axis=1, size=7, method=m, antialias=False) for m in METHODS),
    *(S(numbers(5, 2), axis=0, size=3, method=m, antialias=True) for m in METHODS))  # fmt: skip
row("unsample", *(S(numbers(2, 7), axis=1, size=4, method=m, antialias=False) for m in METHODS),
    *(S(numbers(3, 2), axis=0, size=5, method=m, antialias=True) for m in METHODS))  # fmt: skip
# The hue jumps at a few colours, and equal ones choose: the samples have neither.
row("rgb_to_hsv", S(numbers(2, 3, low=0.1, high=0.9)), S(numbers(3, low=0.2, high=1.0, seed=1)),
    S(numbers(2, 2, 3, low=0.1, high=0.9, seed=2)),
    bad=(Bad(lambda: tf.image.rgb_to_hsv([0.5, 0.5]), tf.errors.FailedPreconditionError, "3 channels"),))  # fmt: skip

# -- special functions of more than one tensor, or with an order ----------------------------------
row("igamma_a", *(S(numbers(3, low=0.5, high=3), numbers(3, low=0.5, high=3, seed=1), order=k) for k in (1, 2)),
    low_precision=("float32",))  # fmt: skip
row("betainc",
    S(numbers(3, low=0.5, high=3), numbers(3, low=0.5, high=3, seed=1), numbers(3, low=0.1, high=0.9, seed=2)),
    S(numbers(low=0.5, high=3), numbers(2, 1, low=0.5, high=3, seed=1), numbers(2, low=0.1, high=0.9, seed=2)),
    constants=(0, 1))  # fmt: skip
row("bessel_in", *(S(numbers(3), order=k, scaled=scaled) for k in (2, 3) for scaled in (False, True)))
row("bessel_jn", *(S(numbers(3, low=-3, high=3), order=k) for k in (2, 3)))
row("leaky_relu", S(numbers(3), alpha=0.2), S(numbers(2, 2), alpha=0.01), S(numbers(), alpha=0.2),
    kinks=(kink(0.0, gradients=(0.2,), alpha=0.2),))  # fmt: skip
row("truncate_divide", S(numbers(2, 3, low=-4, high=4), numbers(3, low=0.5, high=1.5)), S([7, -7], [2, 2]),
    differentiable=False, integers=("int32", "int64"))  # fmt: skip
for _name in ("shift_left", "shift_right"):
    row(_name, S([1, 6, 3], [[2], [1]]), S(3, [1, 2]), differentiable=False)

# -- Python's own functions -----------------------------------------------------------------------
row("numpy_function", S(numbers(3)), S(numbers(2, 2)), differentiable=False,
    function=lambda x: tf.numpy_function(np.sin, [x], tf.float64))  # fmt: skip


def is_floating(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc"


def batch_row(row: Row, operand: np.ndarray, i: int) -> np.ndarray:
    """Row i of a batch: the operand, changed a little; rows of indices change places."""
    if row.batches is not None:
        return row.batches(operand, i)
    if is_floating(operand):
        return operand * (1 + 0.02 * i)
    return np.roll(operand, i, axis=0) if operand.ndim else operand
