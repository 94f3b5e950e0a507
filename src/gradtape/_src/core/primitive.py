"""Primitives: each declares its kernel and its derivative in one entry.

A rule is a formula whose parameter names say what it needs:

    g            the cotangent of the output (or, in forward mode, the tangent of the input)
    x, y, ...    an input, by its name in the declaration; saved only if some rule names it
    out          the output (out0, out1, ... of several)
    x_shape      the shape of the input that the rule is for
    xp           the namespace to compute in: raw arrays, recorded tensors, batched arrays
    half         whether the saved values were rounded to half precision (a constant of each form of the rule)
    anything else is a static argument of the primitive

Elementwise rules state the differential, `tanh: g * (1 - out * out)`; the same formula works in reverse and forward
mode, because the Jacobian is diagonal. The engine un-broadcasts, accumulates, conjugates and skips inputs that are not
tracked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.arrays import abstract, batched, namespace_of, numpy_namespace
from gradtape._src.arrays.base import generic_kernels
from gradtape._src.arrays.dimensions import depends_on_values
from gradtape._src.arrays.half import is_half

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

Rule = Callable[..., Any]
VJP = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]

registry: dict[str, Op] = {}
"""All primitives by name; the op table of the tests must cover them."""

rewrites: dict[str, Callable[..., Any]] = {}
"""The functions that `register_rewrite` has registered, also for primitives that are not imported yet."""

CATEGORIES = ("elementwise", "activation", "linear algebra", "reduction", "shape", "indexing", "other")

HAZARDS = {
    "log": "it is -inf at 0",
    "division": "its last operand, or its only one, divides",
    "power": "0 to a negative power is infinite",
    "pole": "it is infinite, or undefined, at finite numbers",
    "sum": "inf - inf is NaN",
    "softmax": "so is inf - inf, of which a row of -inf is a case",
    "product": "0 times inf is NaN",
    "empty": "of no numbers it is 0 / 0",
    "matrix": "singular matrices, equal eigenvalues and singular values",
}


class Op:
    """A primitive: its kernel, rules and properties.

    `linear` primitives are linear in all inputs together, `multilinear` ones in each of them, as products are.
    `inverts` are the position of the matrix and the product, for a primitive whose result solves `matrix * out =
    right`. `outputs` is 0 for one output, else their number (-1: it varies); a rule's g is then a list. `listed` is
    false for records of whole programs (a compiled call, a branch, a loop), which have no kernel. `hinted` primitives
    of two operands convert a plain second operand to the dtype of the first, and not vice versa. `wide` primitives have
    rules that compute in float32 for half precision and round the result once: rules that do more than move elements or
    call one kernel. Elementwise rules with saved values always do. `unregistered` primitives have no derivative, and
    TensorFlow raises an error instead of returning None.

    Further properties, for documentation and for tools that inspect tapes:

    `names` are the TensorFlow functions that run it, without `tf.`; messages show the first one.
    `doc` is the docstring of its call, with `example`, an expression and its value.
    `category` is its kind in pictures and tables, one of `CATEGORIES`; elementwise ops have theirs by default.
    `hazards` name how it makes NaN or infinity of finite numbers, or NaN of infinite ones: see `HAZARDS`.
    `nan_free` primitives never make NaN of finite numbers, `moves_only` ones return only elements of their inputs.
    `structure` says which elements of its inputs an element of an output can depend on: see `core/structure.py`.
    `series` is the Taylor mode rule of records of a whole program: see `core/expansion.py`.
    `sparse` says that TensorFlow's function also maps the values of a sparse tensor.
    `instead` suggests an alternative to an op without a derivative.
    """

    __slots__ = (
        "args",
        "call",
        "category",
        "checked_vjps",
        "differentiable",
        "doc",
        "elementwise",
        "example",
        "explain",
        "fast",
        "half_vjps",
        "hazards",
        "hinted",
        "instead",
        "inverts",
        "jvp",
        "keep",
        "kernel",
        "kinds",
        "linear",
        "may_raise",
        "moves_only",
        "multilinear",
        "name",
        "names",
        "nan_free",
        "outputs",
        "recorder",
        "recorder_fast",
        "recorder_of_two",
        "recorder_vjps",
        "rewrite",
        "rules",
        "saves",
        "series",
        "sparse",
        "structure",
        "tf_name",
        "traced_half_vjps",
        "traced_vjps",
        "trusted",
        "unregistered",
        "vjp_all",
        "vjp_all_saves",
        "vjp_all_zeros",
        "vjps",
        "wide",
    )

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        rules: Sequence[Rule | None],
        *,
        tf_name: str | None = None,
        kernel: Callable[..., Any] | None = None,
        elementwise: bool = False,
        linear: bool = False,
        multilinear: bool = False,
        inverts: tuple[int, Callable[..., Any]] | None = None,
        outputs: int = 0,
        kinds: str = "",
        batch: Callable[..., Any] | None = None,
        block_diagonal: Callable[..., Any] | None = None,
        jvp: Rule | None = None,
        vjp_all: Rule | None = None,
        vjp_all_saves: Container[int] = (),
        vjp_all_zeros: bool = True,
        trusted: bool = False,
        may_raise: bool = False,
        hinted: bool = False,
        unregistered: bool = False,
        wide: bool = False,
        explain: Callable[[Any, Any], Exception | None] | None = None,
        listed: bool = True,
        names: tuple[str, ...] = (),
        doc: str = "",
        example: tuple[str, str] | None = None,
        category: str = "",
        hazards: tuple[str, ...] = (),
        nan_free: bool = False,
        moves_only: bool = False,
        sparse: bool = False,
        structure: Callable[[Any], Any] | None = None,
        series: Callable[[Any], Any] | None = None,
        instead: str = "",
    ) -> None:
        # Identity
        self.name, self.args, self.outputs = name, tuple(args), outputs
        self.elementwise, self.linear, self.kinds, self.hinted = elementwise, linear, kinds, hinted
        self.multilinear, self.inverts = multilinear, inverts
        self.may_raise, self.unregistered, self.explain = may_raise, unregistered, explain
        self.structure, self.series = structure, series
        # Derivatives: a rule for each input or one for all of them, and the values that a record saves for them
        self.rules, self.jvp, self.trusted = tuple(rules), jvp, trusted
        self.vjp_all, self.vjp_all_saves, self.vjp_all_zeros = vjp_all, vjp_all_saves, vjp_all_zeros
        for rule in self.rules:
            if rule is not None and parameters(rule)[:1] != ("g",):
                raise TypeError(f"the first parameter of a rule is g, the cotangent; {name} has {parameters(rule)}")
        self.differentiable = vjp_all is not None or any(rule is not None for rule in self.rules)
        self.keep = tuple(self._keep(rule) for rule in self.rules)
        self.saves = frozenset().union(*self.keep)
        self.wide = wide or (elementwise and bool(self.saves))
        # Names and documentation
        self.tf_name = tf_name or name.title().replace("_", "")
        self.names, self.doc, self.example, self.instead = names, doc, example, instead
        self.category = category or ("elementwise" if elementwise else "other")
        self.hazards, self.nan_free, self.moves_only, self.sparse = hazards, nan_free, moves_only, sparse
        # Set by the op builders
        self.call: Callable[..., Any] = _undeclared
        self.kernel: Any = None  # for NumPy
        self.recorder: Any = None  # for lazy arrays
        self.recorder_of_two: Any = None  # the same, for two arrays without static arguments
        self.rewrite = rewrites.get(name)  # may replace the op in graphs and lazy traces
        # Generated by `core/fast/` when it is first needed
        self.vjps: tuple[VJP | None, ...] | None = None
        self.checked_vjps: tuple[VJP | None, ...] | None = None
        self.traced_vjps: tuple[VJP | None, ...] | None = None
        self.half_vjps: tuple[VJP | None, ...] | None = None
        self.traced_half_vjps: tuple[VJP | None, ...] | None = None
        self.fast: Any = None  # for elementwise ops
        self.recorder_fast: Any = None  # the same for lazy arrays
        self.recorder_vjps: dict[Any, tuple[VJP | None, ...]] = {}  # by dtype, for lazy arrays: each is one call
        if kernel is not None:
            generic_kernels[name] = kernel
        self._register_rules(batch, block_diagonal)
        if listed:
            registry[name] = self

    def docstring(self) -> str:
        """The docstring of its call: the sentence of the declaration, and its example as a doctest."""
        if self.example is None:
            return f"{self.doc}\n"
        expression, value = self.example
        array = f"{expression}.numpy()"
        shown = array if value.strip("[ ")[:1] in ("T", "F") else f"{array}.round(4)"
        return f"{self.doc}\n\n>>> import gradtape as tf\n>>> print({shown})\n{value}\n"

    def _register_rules(self, batch: Callable[..., Any] | None, block_diagonal: Callable[..., Any] | None) -> None:
        """Register its batching rules, and the shape rule that elementwise primitives have."""
        name = self.name
        if self.elementwise:
            batch, block_diagonal = batched.elementwise_rule(name), batched.elementwise_block_diagonal(name)
            abstract.register_elementwise(name)
        if batch is not None:
            batched.batch_rules[name] = batch
        if block_diagonal is not None:
            batched.block_diagonal_rules[name] = block_diagonal

    def slot(self, name: str) -> int | None:
        """The position of a named value in a record's values: inputs first, then outputs."""
        if name in self.args:
            return self.args.index(name)
        if name == "out":
            return len(self.args)
        if name.startswith("out") and name[3:].isdigit():
            return len(self.args) + int(name[3:])
        return None

    def _keep(self, rule: Rule | None) -> frozenset[int]:
        """The slots that have to be saved for a rule."""
        if rule is None:
            return frozenset()
        return frozenset(s for s in map(self.slot, parameters(rule)) if s is not None)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def program_op(
    name: str,
    tf_name: str,
    vjp_all: Rule,
    jvp: Rule | None = None,
    structure: Callable[[Any], Any] | None = None,
    series: Callable[[Any], Any] | None = None,
) -> Op:
    """The op of records of a whole program: a call, a branch, a loop, a Python function.

    It has no kernel. Its rule gets the cotangents unchanged, None included, and its gradients are used as they are.
    """
    return Op(
        name,
        (),
        (),
        tf_name=tf_name,
        vjp_all=vjp_all,
        vjp_all_zeros=False,
        jvp=jvp,
        outputs=1,
        trusted=True,
        listed=False,
        structure=structure,
        series=series,
    )


def register_rewrite(name: str, rewrite: Callable[..., Any]) -> None:
    """Register a function that may replace a primitive with symbolic or lazy operands.

    It takes the primitive, its tensors and its static arguments, and returns the result, or None to run the primitive.
    """
    rewrites[name] = rewrite
    if name in registry:
        registry[name].rewrite = rewrite


def _undeclared(*args: Any, **attrs: Any) -> Any:
    raise RuntimeError("this primitive has no call: declare it with an op builder of core/dispatch.py")


def parameters(rule: Rule) -> tuple[str, ...]:
    """The names in a rule's signature (faster than inspect, at import)."""
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def widened(value: Any) -> Any:
    """A half-precision array, batch or tensor as float32; a tensor's cast is recorded."""
    dtype = numpy_dtype(value)
    return namespace_of(value).astype(value, dtype=_FLOAT32, source=dtype) if is_half(dtype) else value


def narrowed(value: Any, dtype: Any) -> Any:
    """A float32 value rounded to `dtype`, if that is a half-precision one: the inverse of `widened`."""
    if value is None or not is_half(dtype) or is_half(wide := numpy_dtype(value)):
        return value
    return namespace_of(value).astype(value, dtype=dtype, source=wide)


def kind_of(value: Any) -> str:
    """NumPy's dtype.kind of an array, or of the array in a tensor or batch."""
    while not hasattr(value.dtype, "kind"):
        value = value.array
    kind: str = value.dtype.kind
    return kind


def numpy_dtype(value: Any) -> Any:
    """NumPy's dtype of an array, a batch or a tensor."""
    dtype = value.dtype
    return getattr(dtype, "numpy_dtype", dtype)


def unbroadcast(c: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which an operand was broadcast (or broadcast, if a rule returned fewer axes)."""
    have = tuple(c.shape)
    extra = len(have) - len(shape)
    if extra > 0 and have[extra:] == shape and type(c) is ndarray:  # a bias: the most common case (benchmark: rnn)
        return numpy_namespace.sum_rows(c) if extra == 1 else numpy_namespace.sum(c, axis=tuple(range(extra)))
    xp = namespace_of(c)
    if extra < 0:
        return xp.broadcast_to(c, shape=shape)
    axes = tuple(i for i, n in enumerate(have) if i < extra or (shape[i - extra] == 1 and n != 1))
    if axes:
        c = xp.sum(c, axis=axes, keepdims=False)
    if math.prod(c.shape) == math.prod(shape):
        return c if tuple(c.shape) == shape else xp.reshape(c, shape=shape)
    kept = tuple([1 if n == 1 else size for n, size in zip(shape, have[extra:], strict=True)])
    if any(map(_may_be_repeated, shape, kept)):
        c = _sum_if_repeated(c, kept, shape)
        if tuple(c.shape) == shape:
            return c
    return xp.broadcast_to(c, shape=shape)


def _may_be_repeated(n: Any, size: Any) -> bool:
    """Whether only the running program knows if an axis of n elements was broadcast to this size."""
    return type(size) is int and size > 1 and depends_on_values(n)


def _sum_if_repeated(c: Any, have: tuple[Any, ...], shape: tuple[Any, ...]) -> Any:
    """Sum over axes that may have been broadcast: the operand has n elements there, 1 or as many as the result.

    An axis of `size` elements is reshaped to size // n and n elements, and summed over the first of them.
    """
    split: list[Any] = []
    summed = []
    for n, size in zip(shape, have, strict=True):
        if _may_be_repeated(n, size):
            summed.append(len(split))
            split.append(size // n)
            split.append(n)
        else:
            split.append(size)
    xp = namespace_of(c)
    return xp.sum(xp.reshape(c, shape=tuple(split)), axis=tuple(summed), keepdims=False)
