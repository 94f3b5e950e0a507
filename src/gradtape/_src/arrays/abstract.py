"""Abstract evaluation: the shapes and dtypes that a primitive returns, from those of its arguments.

Most primitives need no rule: their NumPy kernel runs once on zeros for each combination of shapes and dtypes. Those
that would take long or reject zeros have a rule. With unknown dimensions the kernel runs for several sizes of each, and
the result has the expression that fits all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.dimension import (
    Dimension,
    DimensionVariable,
    UnknownDimensionError,
    assume_same,
    collecting_pairs,
    depends_on_values,
    is_repeatable,
    is_same,
    maximum,
    minimum,
)
from gradtape._src.arrays.dimensions import (
    DynamicSize,
    broadcast_shapes,
    contains_dimension,
    dimensions_in,
    evaluated,
    is_known_shape,
    sized,
    variables_in,
)
from gradtape._src.arrays.numpy.neural import conv_sizes
from gradtape._src.interrupts import float_errors_ignored

Shape = tuple[int, ...]
Spec = tuple[Shape, Any]
Specs = tuple[bool, tuple[Spec, ...]]
"""Whether a primitive returns several outputs, and the shape and dtype of each."""

Rule = Callable[..., Spec | Sequence[Spec] | None]
"""A function of a call's arguments; None if they are incompatible: then the kernel raises its error."""

rules: dict[str, Rule] = {}
"""The rules of primitives that have one, by name."""

Pairs = list[tuple[Any, Any]]
"""Sizes that depend on values and are assumed to be equal, which the program checks."""

_known: dict[Any, tuple[Specs, Pairs]] = {}

_REFUSALS = (ValueError, IndexError, errors.InvalidArgumentError)
"""The exceptions of kernels for incompatible sizes."""


def infer(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Specs:
    """The shapes and dtypes that a call returns; evaluated once for each combination of arguments."""
    specs, pairs = _inferred(name, args, attrs)
    if pairs and not assume_same(pairs):
        raise UnknownDimensionError(f"Cannot tell whether the sizes of the arguments of {name} are equal: {pairs}.")
    return specs


def _inferred(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Specs, Pairs]:
    key: Any = (
        name,
        tuple([(a.shape, a.dtype) if hasattr(a, "shape") else (type(a), a) for a in args]),
        tuple([(k, _static(v)) for k, v in sorted(attrs.items())]),
    )
    try:
        found = _known.get(key)
    except TypeError:  # an unhashable static argument
        return _with_pairs(name, args, attrs)
    if found is None:
        found = _with_pairs(name, args, attrs)
        if len(_known) > 10_000:
            _known.clear()
        _known[key] = found
    return found


def _with_pairs(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Specs, Pairs]:
    pairs: Pairs = []
    with collecting_pairs(pairs):
        return _evaluated(name, args, attrs), pairs


def _static(value: Any) -> Any:
    """A unique hashable form of a static argument."""
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    if isinstance(value, (tuple, list)):
        return (type(value), tuple([_static(v) for v in value]))
    return (type(value), value)


def _evaluated(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Specs:
    rule = rules.get(name)
    if rule is not None and name in _PROGRAMS:
        return _described(rule(*args, **attrs))
    found = None if rule is None else rule(*args, **attrs)
    if found is not None:
        return _described(found)
    if contains_dimension([getattr(a, "shape", a) for a in args]) or contains_dimension(attrs.values()):
        return _by_samples(name, args, attrs)
    return _specs_of(_on_zeros(name, args, attrs))


def _described(found: Any) -> Specs:
    """Convert what a rule returned: one shape and dtype, or a list of them."""
    outputs = found if type(found) is list else [found]
    return type(found) is list, tuple([(tuple(shape), np.dtype(dtype)) for shape, dtype in outputs])


def _specs_of(result: Any) -> Specs:
    several = isinstance(result, (tuple, list))
    arrays = [x if hasattr(x, "dtype") else np.asarray(x, object) for x in (result if several else (result,))]
    return several, tuple([(tuple(x.shape), np.dtype(x.dtype)) for x in arrays])


def _on_zeros(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run the NumPy kernel on zeros, or on identity matrices, instead of unknown values."""
    fill = _eye if name in _MATRICES else _zeros
    known = [fill(a) if hasattr(a, "shape") and not isinstance(a, (np.ndarray, np.generic)) else a for a in args]
    with float_errors_ignored():
        return getattr(numpy_namespace, name)(*known, **attrs)


def _zeros(like: Any) -> Any:
    return np.broadcast_to(np.zeros((), like.dtype), like.shape)


def _eye(like: Any) -> Any:
    return np.broadcast_to(np.eye(*like.shape[-2:], dtype=like.dtype), like.shape)


# -- unknown dimensions ----------------------------------------------------------------------------------------------
class _Sample(NamedTuple):
    """An argument with numbers for its dimensions."""

    shape: Shape
    dtype: Any


def _by_samples(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Specs:
    """The shapes and dtypes for unknown dimensions, interpolated from those for several sizes.

    If the kernel rejects sizes that depend on values, because they differ from others, they are assumed to be equal.
    """
    try:
        return _fitted_specs(name, args, attrs)
    except _REFUSALS:
        for equal in _guesses(name, args, attrs):
            same = {str(other): first for first, other in equal}
            try:
                found = _evaluated(name, _sampled(args, same), evaluated_attrs(attrs, same))
            except (*_REFUSALS, UnknownDimensionError):
                continue
            if all(is_same(other, first) for first, other in equal):
                return found
        raise


def _guesses(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Iterator[Pairs]:
    """Pairs of sizes that may have to be equal, smallest sets first.

    The sizes of a square matrix; two sizes that depend on values; one of them and a number of another argument; all of
    them.
    """
    shapes = [a.shape for a in args if hasattr(a, "shape")]
    variables = variables_in([*shapes, *attrs.values()]).values()
    dynamic = [Dimension({(v,): 1}) for v in variables if v.least == 0]
    if name in _SQUARE:
        rows, columns = shapes[0][-2:]
        pair = (rows, columns) if columns in dynamic else (columns, rows)
        yield [pair] if pair[1] in dynamic else []
        return
    for pair in itertools.combinations(dynamic, 2):
        yield [pair]
    for other in dynamic:
        elsewhere = {n for shape in shapes if other not in shape for n in shape if type(n) is int}
        for size in sorted(elsewhere):
            yield [(size, other)]
    if len(dynamic) > 2:
        yield [(dynamic[0], other) for other in dynamic[1:]]


def _fitted_specs(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Specs:
    given = [*[getattr(a, "shape", a) for a in args], *attrs.values()]
    variables = variables_in(given)
    several = False
    samples: list[tuple[dict[str, int], tuple[Spec, ...]]] = []
    for sizes in _sample_sizes([*variables.values()]):
        try:
            several, specs = _evaluated(name, _sampled(args, sizes), evaluated_attrs(attrs, sizes))
        except (ValueError, TypeError, IndexError, ArithmeticError):
            if len(samples) <= len(variables) + 1:
                raise
            continue  # the kernel rejects the smallest sizes
        samples.append((sizes, specs))
    known = {n for n in dimensions_in(given) if type(n) is Dimension}
    expressions = [*known, *[Dimension({(v,): 1}) for v in variables.values()]]
    limits = {n for a in args for n in getattr(a, "shape", ()) if type(n) is int}
    expressions += [minimum(e, n) for e in expressions for n in sorted(limits) if n > 1]
    outputs = []
    for number, (shape, dtype) in enumerate(samples[0][1]):
        if any(len(specs[number][0]) != len(shape) for _, specs in samples):
            raise UnknownDimensionError(f"The rank of the result of {name} depends on unknown dimensions.")
        axes = [[(sizes, specs[number][0][axis]) for sizes, specs in samples] for axis in range(len(shape))]
        outputs.append((tuple([_fitted(name, axis, expressions) for axis in axes]), dtype))
    return several, tuple(outputs)


def evaluated_attrs(attrs: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Static arguments with these sizes instead of dimensions."""
    return {key: evaluated(value, sizes) for key, value in attrs.items()}


def _sampled(args: tuple[Any, ...], sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        [
            _Sample(evaluated(tuple(a.shape), sizes), a.dtype)
            if hasattr(a, "shape") and not is_known_shape(a.shape)
            else evaluated(a, sizes)
            for a in args
        ]
    )


def _sample_sizes(variables: Sequence[DimensionVariable]) -> list[dict[str, int]]:
    """Sizes of variables: one set, then each variable changed alone, another order, and the two smallest sizes.

    The small ones distinguish min(2, n) from 2. A kernel may reject the smallest, 0.
    """
    names = [v.name for v in variables]
    some = {name: 5 + 2 * i for i, name in enumerate(names)}
    changed = [{**some, name: some[name] + 12} for name in names]
    others = {name: 7 + 3 * i for i, name in enumerate(reversed(names))}
    small = [{v.name: v.least + more for v in variables} for more in (0, 1)]
    return [some, *changed, others, *small]


def _fitted(name: str, samples: Sequence[tuple[Mapping[str, int], int]], expressions: Sequence[Dimension]) -> Any:
    """The number, expression, or linear combination of variables that equals the size of every sample."""
    (some, size), *others = samples
    if all(n == size for _, n in others):
        return size
    for expression in expressions:
        if all(expression.evaluated(sizes) == n for sizes, n in samples):
            return expression
    linear: Any = size
    for variable, (sizes, n) in zip(some, others, strict=False):
        slope = (n - size) // (sizes[variable] - some[variable])
        unknown = next(e for e in expressions if str(e) == variable)
        linear = slope * (unknown - some[variable]) + linear
    if type(linear) is not Dimension or any(linear.evaluated(sizes) != n for sizes, n in samples):
        raise UnknownDimensionError(f"The shape of the result of {name} depends on unknown dimensions.")
    return linear


# -- rules -----------------------------------------------------------------------------------------------------------
@cache
def _one(dtype: Any) -> Any:
    return np.ones(1, dtype)


def register_elementwise(name: str) -> None:
    """Register an elementwise primitive: shapes broadcast, and its kernel on single elements gives the dtype."""

    def rule(*args: Any, **attrs: Any) -> Spec | None:
        shape = _broadcast(*[a.shape for a in args if hasattr(a, "shape")])
        if shape is None:
            return None
        ones = [_one(a.dtype) if hasattr(a, "shape") else a for a in args]
        with float_errors_ignored():
            return shape, getattr(numpy_namespace, name)(*ones, **attrs).dtype

    rules[name] = rule


def _like(x: Any, *others: Any, **attrs: Any) -> Spec:
    return x.shape, x.dtype


def _matmul(x: Any, y: Any, *, adjoint_x: bool = False, adjoint_y: bool = False) -> Spec | None:
    if len(x.shape) < 2 or len(y.shape) < 2:
        return None
    rows, inner = x.shape[-2:][:: -1 if adjoint_x else 1]
    same, columns = y.shape[-2:][:: -1 if adjoint_y else 1]
    batch = _broadcast(x.shape[:-2], y.shape[:-2])
    if batch is None or x.dtype != y.dtype or not is_same(inner, same):
        return None
    return (*batch, rows, columns), x.dtype


def _broadcast(*shapes: Shape) -> Shape | None:
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        return None


def _einsum(*xs: Any, equation: str) -> Spec | None:
    operands, arrow, result = equation.partition("->")
    sizes: dict[str, int] = {}
    letters = operands.split(",")
    if not arrow or "." in equation or [len(part) for part in letters] != [len(x.shape) for x in xs]:
        return None
    for part, x in zip(letters, xs, strict=True):
        for letter, n in zip(part, x.shape, strict=True):
            if not is_same(sizes.setdefault(letter, n), n):
                return None
    return tuple([sizes[letter] for letter in result]), xs[0].dtype


def _conv(x: Any, y: Any, *, strides: Shape, dilations: Shape, padding: Any, groups: int = 1) -> Spec:
    sizes = conv_sizes(x.shape[1:-1], y.shape[:-2], strides, dilations, padding)
    return (x.shape[0], *sizes, y.shape[-1]), x.dtype


def _conv_input_grad(z: Any, y: Any, *, shape: Shape, groups: int = 1, **_: Any) -> Spec:
    return (z.shape[0], *shape, y.shape[-2] * groups), z.dtype


def _conv_filter_grad(x: Any, z: Any, *, window: Shape, groups: int = 1, **_: Any) -> Spec:
    return (*window, x.shape[-1] // groups, z.shape[-1]), x.dtype


def _pool(x: Any, *, window: Shape, strides: Shape, dilations: Shape, padding: Any) -> Spec:
    return (x.shape[0], *conv_sizes(x.shape[1:-1], window, strides, dilations, padding), x.shape[-1]), x.dtype


def _max_unpool(z: Any, x: Any, top: Any, **_: Any) -> Spec:
    return (*z.shape[: len(z.shape) - len(x.shape)], *x.shape), z.dtype


def _sparse_cross_entropy(logits: Any, labels: Any) -> list[Spec] | None:
    fits = tuple(logits.shape[:-1]) == tuple(labels.shape) and logits.dtype.kind in "fV"
    return [(labels.shape, logits.dtype), (logits.shape, logits.dtype)] if fits else None


def _standardize(x: Any, **_: Any) -> list[Spec] | None:
    return [(x.shape, x.dtype), ((*x.shape[:-1], 1), x.dtype)] if len(x.shape) else None


def _attention(q: Any, k: Any, v: Any, mask: Any = None, **_: Any) -> list[Spec] | None:
    front = q.shape[:-2]
    shapes_fit = len(q.shape) > 1 and k.shape == (*front, v.shape[-2], q.shape[-1]) and v.shape[:-2] == front
    if not shapes_fit or {k.dtype, v.dtype} != {q.dtype}:
        return None
    if mask is not None and _broadcast(mask.shape, (*front, q.shape[-2], k.shape[-2])) is None:
        return None
    return [((*q.shape[:-1], v.shape[-1]), q.dtype), (q.shape[:-1], np.float32 if q.dtype.itemsize == 2 else q.dtype)]


def _attention_gradient(d: Any, q: Any, k: Any, v: Any, *_: Any, with_scores: bool = False, **__: Any) -> list[Spec]:
    lead = d.shape[: len(d.shape) - len(q.shape)]  # leading axes of batches that share the weights
    found = [((*lead, *x.shape), x.dtype) for x in (q, k, v)]
    return [*found, ((*lead, *q.shape[:-1], k.shape[-2]), q.dtype)] if with_scores else found


def _projected_loss(x: Any, w: Any, labels: Any, *bias: Any, dtype: Any = None, **_: Any) -> Spec:
    return labels.shape, dtype or x.dtype


def _projected_gradient(g: Any, x: Any, w: Any, labels: Any, *bias: Any, **_: Any) -> list[Spec]:
    return [(a.shape, a.dtype) for a in (x, w, *bias)]


def _take(x: Any, indices: Any, *, axis: int, batch_dims: int = 0) -> Spec:
    return (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :]), x.dtype


def _update_at(x: Any, *_: Any, **__: Any) -> Spec | None:
    """Of an array without elements, which the kernel cannot look up: a check of the indices refuses them."""
    return (x.shape, x.dtype) if 0 in x.shape else None


def _gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Spec:
    return (*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :]), x.dtype


def _random(*args: Any, shape: Shape, dtype: Any) -> Spec:
    return shape, dtype


def _moved(x: Any, *, shape: Shape, **_: Any) -> Spec | None:
    if -1 in shape:
        return None
    before, after = _count(x.shape), _count(shape)
    return (shape, x.dtype) if before == after or depends_on_values(before) or depends_on_values(after) else None


def _count(shape: Shape) -> Any:
    count: Any = 1
    for n in shape:
        count = count * n
    return count


def _repeated(x: Any, *, shape: Shape) -> Spec | None:
    lead = len(shape) - len(x.shape)
    fits = lead >= 0 and all(map(is_repeatable, x.shape, shape[lead:]))
    return (shape, x.dtype) if fits else None


def _getitem(x: Any, *, index: tuple[Any, ...]) -> Spec | None:
    if is_known_shape(x.shape) and not contains_dimension(index):
        return None
    sizes, shape = list(x.shape), []
    for each in _without_ellipsis(index, len(sizes)):
        if each is None:
            shape.append(1)
        elif type(each) is slice:
            shape.append(_sliced(sizes.pop(0), each))
        elif isinstance(each, int) or type(each) is Dimension:
            sizes.pop(0)
        else:
            return None
    return (*shape, *sizes), x.dtype


def _without_ellipsis(index: tuple[Any, ...], rank: int) -> list[Any]:
    found = [i for i, each in enumerate(index) if each is Ellipsis]
    if not found:
        return list(index)
    (at,) = found
    count = rank - sum(each is not None for each in index) + 1
    return [*index[:at], *[slice(None)] * count, *index[at + 1 :]]


def _sliced(n: Any, part: slice) -> Any:
    """The number of elements that a slice takes from an axis."""
    step = 1 if part.step is None else part.step
    if step < 0:
        first = n - 1 if part.start is None else _at(part.start, n, -1, n - 1)
        last = -1 if part.stop is None else _at(part.stop, n, -1, n - 1)
        return maximum(-((last - first) // -step), 0)
    first = 0 if part.start is None else _at(part.start, n, 0, n)
    last = n if part.stop is None else _at(part.stop, n, 0, n)
    return maximum(-((first - last) // step), 0)


def _at(place: Any, n: Any, low: Any, high: Any) -> Any:
    """A position on an axis of n elements: negative ones count from the end; clipped to the axis."""
    place = n + place if place < 0 else place
    return maximum(low, -maximum(-place, -high))


def _pad(x: Any, *, before: Shape, after: Shape) -> Spec:
    return tuple([b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]), x.dtype


def _concatenate(*xs: Any, axis: int, **_: Any) -> Spec | None:
    first, *others = [list(x.shape) for x in xs]
    if all(map(is_known_shape, (first, *others))) or any(x.dtype != xs[0].dtype for x in xs):
        return None
    for shape in others:
        sizes = [pair for i, pair in enumerate(zip(first, shape, strict=True)) if i != axis]
        if not all(is_same(n, m) for n, m in sizes):
            return None
        first[axis] = first[axis] + shape[axis]
    return tuple(first), xs[0].dtype


def _split(x: Any, *, sizes: Shape, axis: int) -> list[Spec] | None:
    if not contains_dimension((*sizes, x.shape[axis])) or not is_same(x.shape[axis], sum(sizes)):
        return None
    return [((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes]


def _top_k(x: Any, *, axis: int, k: int, dtype: Any, **_: Any) -> list[Spec]:
    shape = (*x.shape[:axis], _sliced(x.shape[axis], slice(0, k)), *x.shape[axis + 1 :])
    return [(shape, x.dtype), (shape, dtype)]


def _rfft(x: Any, *, axis: Shape) -> Spec | None:
    last = axis[-1]
    if is_known_shape(x.shape):
        return None
    return (*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :]), np.result_type(x.dtype, np.complex64)


def _frame(x: Any, *, axis: int, length: int, step: int) -> Spec:
    count = maximum((x.shape[axis] - length) // step + 1, 0)
    return (*x.shape[:axis], count, length, *x.shape[axis + 1 :]), x.dtype


def _setitem(x: Any, *, index: Any, shape: Shape) -> Spec:
    return shape, x.dtype


def _transpose(x: Any, *, perm: Shape) -> Spec | None:
    return (tuple([x.shape[i] for i in perm]), x.dtype) if len(perm) == len(x.shape) else None


rules.update(
    concatenate=_concatenate,
    getitem=_getitem,
    pad=_pad,
    setitem=_setitem,
    split=_split,
    top_k=_top_k,
    rfft=_rfft,
    frame=_frame,
    matmul=_matmul,
    einsum=_einsum,
    conv=_conv,
    conv_input_grad=_conv_input_grad,
    conv_filter_grad=_conv_filter_grad,
    max_unpool=_max_unpool,
    take=_take,
    gather_nd=_gather_nd,
    update_at=_update_at,
    reshape=_moved,
    broadcast_to=_repeated,
    tridiagonal_solve=lambda x, y: (y.shape, y.dtype),
    attention=_attention,
    attention_gradient=_attention_gradient,
    standardize=_standardize,
    sparse_cross_entropy=_sparse_cross_entropy,
    projected_cross_entropy=_projected_loss,
    projected_cross_entropy_gradient=_projected_gradient,
    **dict.fromkeys(("max_pool", "sum_pool"), _pool),
    **dict.fromkeys(
        ("random_integers", "random_normal", "random_truncated", "random_uniform", "random_range"), _random
    ),
    **dict.fromkeys(("check_numerics", "identity", "log_softmax", "softmax", "stop_gradient"), _like),
    **dict.fromkeys(("inv", "cholesky", "expm", "logm", "sqrtm"), _like),
)
_MATRICES = frozenset({"det", "eigh", "eigvalsh", "lu", "qr", "slogdet", "solve", "svd", "triangular_solve"})
"""Primitives whose kernels reject or are slow on matrices of zeros."""

_SQUARE = frozenset({"det", "eig", "eigh", "eigvals", "eigvalsh", "lu", "slogdet", "solve", "triangular_solve"})
"""Primitives whose first argument is a square matrix."""


# -- programs within programs ----------------------------------------------------------------------------------------
def _results(program: Any) -> list[Spec]:
    return [(sized(out.shape, program.sizes), out.dtype) for out in map(_array, program.outputs)]


def _array(out: Any) -> Any:
    return out if hasattr(out, "dtype") else np.asarray(out)


def _scan(*operands: Any, body: Any, carried: int, length: Any, **_: Any) -> list[Spec]:
    found = _results(body)
    return [*found[:carried], *[((length, *shape), dtype) for shape, dtype in found[carried:]]]


def _loop(*operands: Any, carried: int, slots: int, **_: Any) -> list[Spec]:
    carry = [(tuple(c.shape), c.dtype) for c in map(_array, operands[:carried])]
    count: Spec = ((), np.int32)
    return [*carry, count, count, *[((slots, *shape), d) for shape, d in carry]] if slots else [*carry, count]


def _dynamic_loop(
    *operands: Any, body: Any, carried: int, changing: Sequence[Any], leads: Sequence[Any], **_: Any
) -> list[Spec]:
    """The results of a dynamic loop: changing sizes, the number of iterations and lengths of stacks
    depend on values.
    """
    specs: list[Spec] = []
    for x, axes in zip(map(_array, operands[:carried]), changing, strict=True):
        sizes: list[Any] = [DynamicSize() if axis in axes else n for axis, n in enumerate(x.shape)]
        specs.append((tuple(sizes), x.dtype))
    specs.append(((), np.int32))
    iterations: Any = DynamicSize()
    for (shape, dtype), lead in zip(_results(body)[carried:], leads, strict=True):
        total: Any = DynamicSize()
        specs += [((*lead, total), dtype), ((iterations, len(shape) - len(lead)), np.int64)]
    return specs


def _switch(*operands: Any, branches: Sequence[Any], **_: Any) -> list[Spec]:
    """The results of a branch: a size that differs between branches depends on values."""
    each = [_results(branch) for branch in branches]
    return [(_merged([shape for shape, _ in specs]), specs[0][1]) for specs in zip(*each, strict=True)]


def _merged(shapes: Sequence[Shape]) -> Shape:
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        raise UnknownDimensionError(f"Branches return arrays of different ranks: {shapes}.")
    sizes: list[Any] = [n if len({n, *others}) == 1 else DynamicSize() for n, *others in zip(*shapes, strict=True)]
    return tuple(sizes)


def _dynamic_rows(*rest: int) -> Shape:
    rows: Any = DynamicSize()
    return rows, *rest


def _unique(x: Any) -> list[Spec]:
    shape = _dynamic_rows()
    return [(shape, x.dtype), (x.shape, np.int64), (shape, np.int64)]


rules.update(
    argwhere=lambda x: (_dynamic_rows(len(x.shape)), np.int64),
    repeated_places=lambda counts: (_dynamic_rows(), np.int64),
    **dict.fromkeys(("unique", "unique_with_counts"), _unique),
    size_of=lambda x, *, axis: ((), np.int64),
    inline=lambda *operands, program: _results(program),
    switch=_switch,
    scan=_scan,
    loop=_loop,
    dynamic_loop=_dynamic_loop,
    check=_like,
    host_effect=lambda *arrays, **_: ((), np.int32),
    host_function=lambda *arrays, specs, **_: list(specs),
)
_PROGRAMS = frozenset({"inline", "switch", "scan", "loop", "dynamic_loop", "check", "host_effect", "host_function"})
"""Primitives with a rule and without a kernel that could run on zeros."""
