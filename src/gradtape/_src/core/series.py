"""Taylor mode: the primitives over power series.

A `Series` is a function of one variable t, given by its coefficients: x(t) = x[0] + x[1] t + x[2] t² + … A linear
primitive maps each coefficient, a product is a Cauchy product. For all others the first-order rule suffices: it is a
formula for out', in terms of the inputs, their derivatives and out itself. Over series it is a differential equation,
which is solved one coefficient after the other:

    tanh:   out' = x' - x' out out      out[n + 1] = (x' - x' out out)[n] / (n + 1)

So every primitive has derivatives of all orders from its declared rule, and k coefficients take O(k²) products.

Coefficients are computed when they are read, because a rule may contain the result that it defines. A zero coefficient
is None. Coefficients are arrays of any engine, recorded tensors, or batches (one row for each direction).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradtape._src.arrays import attach_operators, common_namespace, namespace_of, register_namespace
from gradtape._src.arrays.base import Interpreter, generic_kernels
from gradtape._src.arrays.batched import Batched
from gradtape._src.core.jvp import push
from gradtape._src.core.primitive import Op, numpy_dtype, registry
from gradtape._src.tensor import Tensor, uids

Shape = tuple[int, ...]
Coefficient = Callable[[int], Any]


class Unsaved:
    """A placeholder for a value that a compiled program did not return: most of them are never read."""

    __slots__ = ("dtype", "op", "shape")

    def __init__(self, op: Op, shape: Shape, dtype: Any) -> None:
        self.op, self.shape, self.dtype = op, shape, dtype

    @property
    def array(self) -> Unsaved:
        """The placeholder itself, as the array of a tensor."""
        return self

    def error(self) -> Exception:
        """The error of reading it."""
        error: Any = NotImplementedError(
            f"Taylor mode needs an operand of {self.op.tf_name} that a compiled function did not return, because "
            "gradients do not need it. Open the tape inside the function, or call its `python_function`."
        )
        error.is_out_of_scope = True  # not from a kernel: do not translate it
        return error


class Series:
    """The coefficients of a power series, each computed when it is first read.

    `collapsed` series have only two coefficients: the first has a row for each direction, the second is the sum over
    all directions, which is all that a Laplacian needs. So the second one never has rows.
    """

    __slots__ = ("_coefficient", "_known", "collapsed", "dtype", "functions", "shape")
    __array_ufunc__ = None  # NumPy's operators defer to these

    def __init__(self, shape: Shape, dtype: Any, known: Sequence[Any], coefficient: Coefficient | None = None) -> None:
        self.shape, self.dtype = shape, dtype
        self._known, self._coefficient = list(known), coefficient
        self.functions: dict[str, Series] = {}  # a cache: sin(x) and cos(x) refer to each other
        self.collapsed = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def varies(self) -> bool:
        """Whether it may have nonzero coefficients after the first."""
        return self._coefficient is not None or len(self._known) > 1

    def __getitem__(self, n: int) -> Any:
        """Coefficient n; None if it is zero."""
        while len(self._known) <= n and self._coefficient is not None:
            self._known.append(self._coefficient(len(self._known)))
        found = self._known[n] if n < len(self._known) else None
        if type(found) is Unsaved:
            raise found.error()
        return found

    @property
    def value(self) -> Any:
        """The first coefficient; None if it is unknown."""
        return None if not self._known or type(self._known[0]) is Unsaved else self._known[0]

    def define(self, coefficient: Coefficient) -> None:
        """Set the function that computes further coefficients."""
        self._coefficient = coefficient

    def set_value(self, value: Any) -> None:
        """Set the first coefficient, if the record of the op that computed it did not save it."""
        if self.value is None:
            self._known[0] = value

    def moved(self, direction: Any) -> Series:
        """x + t direction, as a new series: the rule that defines x may read x itself."""
        found = Series(
            self.shape, self.dtype, self._known[:1], lambda n: _sum((self[n], direction if n == 1 else None))
        )
        found.collapsed = self.collapsed
        return found

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a power series has no single NumPy value")

    def __repr__(self) -> str:
        return f"Series({len(self._known)} coefficients known, shape {self.shape}, {self.dtype})"


def constant(value: Any) -> Series:
    """A series with only the first coefficient."""
    return Series(tuple(np.shape(value) if np.isscalar(value) else value.shape), _dtype(value), [value])


def derivative(x: Series) -> Series:
    """The derivative x'(t)."""
    found = Series(x.shape, x.dtype, (), lambda n: scaled(x[n + 1], n + 1, x.dtype))
    found.collapsed = x.collapsed
    return found


def scaled(coefficient: Any, factor: float, dtype: Any) -> Any:
    """A multiple of a coefficient, in its dtype."""
    return coefficient if coefficient is None or factor == 1 else coefficient * np.asarray(factor, dtype)


def _dtype(value: Any) -> Any:
    return np.result_type(value) if np.isscalar(value) else numpy_dtype(value)


class SeriesNamespace(Interpreter):
    """The primitives over power series."""

    rank = 4.5

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return apply(name, args, attrs)

    def zeros(self, shape: Shape, dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def ones_like(self, x: Any) -> Any:
        return np.ones(x.shape, x.dtype)

    def zeros_like(self, x: Any) -> Any:
        return np.zeros(x.shape, x.dtype)

    def from_numpy(self, x: Any) -> Any:
        return x


_namespace: Any = SeriesNamespace()
register_namespace(Series, _namespace)


def apply(name: str, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Run a primitive on series and on constant arrays."""
    op = registry.get(name)
    if op is None:  # a function of primitives
        return generic_kernels[name](_namespace, *args, **attrs)
    given = [a if type(a) is Series else constant(a) for a in args]
    key, of = _function_of(name, given, attrs)
    if of is not None and key in of.functions:
        return of.functions[key]
    values = [np.zeros(a.shape, a.dtype) if a[0] is None else a[0] for a in given]
    value = getattr(common_namespace(values), name)(*values, **attrs)
    outs = [constant(v) for v in (value if type(value) in (tuple, list) else (value,))]
    if op.differentiable and any(a.varies for a in given):
        extend(op, given, attrs, outs)
    if of is not None and len(outs) == 1:
        of.functions[key] = outs[0]
    return tuple(outs) if type(value) in (tuple, list) else outs[0]


def _function_of(name: str, args: Sequence[Series], attrs: dict[str, Any]) -> tuple[Any, Series | None]:
    """The key and the argument of a function of one series: the rules of sin and cos, or of Bessel functions, refer to
    each other, and would create more and more series without a cache.
    """
    varying = [a for a in args if a.varies]
    numbers: list[Any] = [None if a.varies else a[0] for a in args]
    if len(varying) != 1 or attrs or not all(c is None or np.isscalar(c) or _is_number(c) for c in numbers):
        return None, None
    return (name, *[c.item() if _is_number(c) else c for c in numbers]), varying[0]


def _is_number(coefficient: Any) -> bool:
    return type(coefficient) is np.ndarray and not coefficient.shape


def extend(op: Op, args: Sequence[Series], attrs: dict[str, Any], outs: Sequence[Series]) -> None:
    """Define the coefficients of a primitive's results, whose first ones are known."""
    for out in outs:
        out.collapsed = any(a.collapsed for a in args)
    if op.linear:
        _define(outs, lambda n: _linear(op, args, attrs, outs, n))
    elif op.multilinear:
        _define(outs, lambda n: _product(op, args, attrs, n))
    elif op.inverts is not None:
        matrix = op.inverts[0]
        if args[matrix].varies:
            outs[0].define(lambda n: _solution(op, args, attrs, outs[0], n))
        else:
            _define(outs, lambda n: _linear(op, args, attrs, outs, n, fixed=matrix))
    else:
        _define(outs, _by_rules(op, args, attrs, outs))


def _define(outs: Sequence[Series], coefficients: Coefficient) -> None:
    """Define the results of one primitive; `coefficients(n)` returns coefficient n of all of them."""
    if len(outs) == 1:
        outs[0].define(lambda n: _repeated(_only(coefficients(n)), outs[0].shape))
        return
    found: dict[int, Any] = {}

    def nth(i: int, n: int) -> Any:
        if n not in found:
            found[n] = coefficients(n)
        return None if found[n] is None else found[n][i]

    for i, out in enumerate(outs):
        out.define(partial(nth, i))


def _repeated(coefficient: Any, shape: Shape) -> Any:
    """Broadcast a coefficient to the shape of its series: it has the shape of the operands that vary."""
    if coefficient is None or tuple(coefficient.shape) == shape:
        return coefficient
    return namespace_of(coefficient).broadcast_to(coefficient, shape=shape)


def _only(value: Any) -> Any:
    return value[0] if type(value) in (tuple, list) else value


def _linear(
    op: Op, args: Sequence[Series], attrs: dict[str, Any], outs: Sequence[Series], n: int, fixed: int = -1
) -> Any:
    """Coefficient n of a linear op: the primitive applied to coefficient n of each operand. Integers that select
    elements are constant, and so is the operand at position `fixed`.
    """
    own_rules = op.vjp_all is None and bool(op.args)
    static = [i == fixed or (own_rules and op.rules[i : i + 1] == (None,)) for i in range(len(args))]
    given = [a[0] if is_static else a[n] for a, is_static in zip(args, static, strict=True)]
    if all(c is None for c, is_static in zip(given, static, strict=True) if not is_static):
        return None
    filled = [_zero(op, i, args, attrs, outs[0]) if c is None else c for i, c in enumerate(given)]
    return getattr(common_namespace(filled), op.name)(*filled, **attrs)


def _zero(op: Op, position: int, args: Sequence[Series], attrs: dict[str, Any], out: Series) -> Any:
    """A zero for one operand. If it is constant and was not saved, its shape follows from that of the result, except if
    the operand is broadcast.
    """
    x = args[position]
    if np.isscalar(x.value):
        return 0  # a Python number has no dtype
    if x.varies or x.value is not None:
        return np.zeros(x.shape, x.dtype)
    if op.vjp_all is not None:  # the transpose of a linear op maps zeros to zeros in the shapes of its operands
        zero = np.zeros(out.shape, out.dtype)
        return op.vjp_all(namespace_of(zero), zero, [() for _ in args], **attrs)[position]
    if position == 0 and not op.elementwise:  # the op replaces elements of it
        return np.zeros(out.shape, out.dtype)
    return np.zeros((), x.dtype)


def _product(op: Op, args: Sequence[Series], attrs: dict[str, Any], n: int) -> Any:
    """Coefficient n of a product: the sum over all ways to distribute n over the factors."""
    terms = [
        _term(lambda xp, *factors: getattr(xp, op.name)(*factors, **attrs), args, share)
        for share in _shares(n, len(args))
    ]
    return _sum(terms)


def _solution(op: Op, args: Sequence[Series], attrs: dict[str, Any], out: Series, n: int) -> Any:
    """Coefficient n of the solution of matrix * out = right, from earlier coefficients."""
    position, product = op.inverts  # type: ignore[misc]
    matrix, right = args[position], args[1 - position]
    terms = [_term(lambda xp, a, b: product(xp, a, b, **attrs), (matrix, out), (k, n - k)) for k in range(1, n + 1)]
    known, rest = _sum(terms), right[n]
    if known is not None:
        rest = -known if rest is None else rest - known
    if rest is None:
        return None
    given = (matrix[0], rest) if position == 0 else (rest, matrix[0])
    return getattr(common_namespace(given), op.name)(*given, **attrs)


def _term(product: Callable[..., Any], args: Sequence[Series], share: Sequence[int]) -> Any:
    """One product of coefficients; if `collapsed`, the sum over directions of a product of two with rows."""
    if any(a[k] is None for a, k in zip(args, share, strict=True) if k > 0):
        return None
    factors = [a[k] for a, k in zip(args, share, strict=True)]
    if any(c is None for c in factors):
        return None
    term = product(common_namespace(factors), *factors)
    if sum(type(c) is Batched for c in factors) > 1 and any(a.collapsed for a in args):
        return sum_over_directions(term)
    return term


def _sum(terms: Sequence[Any]) -> Any:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _shares(n: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write n as a sum of `count` numbers.

    >>> list(_shares(2, 2))
    [(0, 2), (1, 1), (2, 0)]
    """
    if count == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _shares(n - first, count - 1):
            yield (first, *rest)


def sum_over_directions(rows: Any) -> Any:
    """The sum of the rows of a batch."""
    array = rows.rows()
    return namespace_of(array).sum(array, axis=(0,), keepdims=False)


def _by_rules(op: Op, args: Sequence[Series], attrs: dict[str, Any], outs: Sequence[Series]) -> Coefficient:
    """Coefficients of the results from those of their derivatives, which first-order rules define."""
    found: list[Any] = []

    def coefficients(n: int) -> Any:
        if not found:  # later, because a rule may call the primitive itself
            found.extend(_slopes(op, args, attrs, outs))
        parts = [None if slope is None else slope[n - 1] for slope in found]
        return [scaled(part, 1 / n, out.dtype) for part, out in zip(parts, outs, strict=True)]

    return coefficients


def _slopes(op: Op, args: Sequence[Series], attrs: dict[str, Any], outs: Sequence[Series]) -> list[Series | None]:
    """The derivatives of the results, by first-order rules, which may refer to the results."""
    inputs = tuple(range(1, len(args) + 1))
    outputs = tuple(range(len(args) + 1, len(args) + len(outs) + 1))
    slots = [*args, *outs]
    saved = op.vjp_all_saves if op.vjp_all is not None else op.saves
    traced = not op.elementwise and any(_is_recorded(a.value) or _is_recorded(a[1]) for a in args)
    values = tuple([_wrapped(x) if slot in saved else None for slot, x in enumerate(slots)])
    dtypes = tuple([out.dtype for out in outs])
    several = bool(op.outputs)
    record = op, inputs, outputs if several else outputs[0], values, attrs, dtypes if several else dtypes[0]
    tangents: dict[int, Any] = {
        uid: _wrapped(derivative(x)) if traced else derivative(x)
        for uid, x in zip(inputs, args, strict=True)
        if x.varies
    }
    shapes = dict(zip((*inputs, *outputs), [x.shape for x in slots], strict=True))
    push(record, tangents, shapes, traced=traced)
    found = [tangents.get(uid) for uid in outputs]
    found = [t.array if isinstance(t, Tensor) else t for t in found]
    return [None if t is None else t if type(t) is Series else constant(t) for t in found]


def _is_recorded(coefficient: Any) -> bool:
    return type(coefficient.array if type(coefficient) is Batched else coefficient) is Tensor


def _wrapped(x: Series) -> Tensor:
    """A tensor with a series as its array, which has no device."""
    tensor = Tensor()
    tensor.array, tensor.uid = x, next(uids)
    return tensor


def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return apply(name, (other, self) if swapped else (self, other), {})

    return method


attach_operators(Series, _operator, lambda name: lambda self: apply(name, (self,), {}))
