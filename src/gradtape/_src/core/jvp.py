"""Forward mode: the tangents of one record, from the rules of reverse mode.

An elementwise rule is a differential, so it is its own jvp rule; the derivative of a linear primitive is the primitive,
applied to the tangent; a product is linear in each factor. Other rules are transposed: the vjp rule of any primitive is
a linear function of the cotangent, and differentiating that function gives the jvp rule.
"""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays import common_namespace, namespace_of, symbolic
from gradtape._src.arrays.base import Interpreter
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.half import is_half
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.dispatch import tensor_namespace
from gradtape._src.core.fast.backward import backward_pass
from gradtape._src.core.observe import in_rule
from gradtape._src.core.primitive import Op, narrowed, numpy_dtype, parameters, widened
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record, Recorder
from gradtape._src.core.zero_preserving import bare
from gradtape._src.interrupts import setting
from gradtape._src.tensor import Tensor

Tangents = dict[int, Any]


def push(
    record: Any, tangents: Tangents, shapes: dict[int, tuple[int, ...]], *, traced: bool, bodies: bool = True
) -> None:
    """Compute the tangents of a record's outputs, if any input has a tangent, and add them to `tangents`.

    Tangents are tensors (with `traced`, every step is itself recorded), raw arrays, or `Batched`. For a function with a
    custom gradient, the ops of its body are differentiated or, without `bodies`, its gradient is transposed.
    """
    op, inputs, output, values, attrs, dtype = Record.of(record)
    given = [tangents.get(uid) for uid in inputs]
    if not op.differentiable or all(t is None for t in given):
        return
    outputs = output if type(output) is tuple else (output,)
    dtypes = dtype if type(dtype) is tuple else (dtype,)
    if op.jvp is not None and (bodies or op.name != "custom_gradient"):
        pushed = op.jvp(given, _saved(values, traced), attrs, tangents)
    elif op.elementwise:
        pushed = _differential(op, given, values, attrs, shapes, inputs, traced)
    elif op.linear and len(op.args) == 1:
        pushed = getattr(namespace_of(given[0]), op.name)(given[0], **attrs)
    elif op.multilinear:
        pushed = _by_factors(op, given, _saved(values, traced), attrs)
    else:
        pushed = None
    if pushed is None:
        pushed = _transposed(op, given, inputs, outputs, values, attrs, dtypes, shapes, traced)
    results = pushed if type(pushed) is tuple else (pushed,)
    for uid, t in zip(outputs, results, strict=True):
        if t is not None:
            tangents[uid] = t if tuple(t.shape) == shapes[uid] else namespace_of(t).broadcast_to(t, shape=shapes[uid])


def marked_push(*args: Any, **options: Any) -> None:
    """`push` for observers of ops, which can tell that these are steps of a rule."""
    with setting(in_rule, True):
        push(*args, **options)


def _saved(values: tuple[Any, ...], traced: bool) -> list[Any]:
    return [v if traced or v is None else v.array for v in values]


def _differential(
    op: Op, given: list[Any], values: Any, attrs: Any, shapes: Any, inputs: tuple[int, ...], traced: bool
) -> Any:
    """The sum of all rules, each applied to the tangent of its input; rounded once in half precision."""
    total = None
    saved = _saved(values, traced)
    dtype = numpy_dtype(next(t for t in given if t is not None))
    if op.wide and is_half(dtype):
        given, saved = ([None if v is None else widened(v) for v in part] for part in (given, saved))
    for position, (rule, t) in enumerate(zip(op.rules, given, strict=True)):
        if rule is None or t is None:
            continue
        args = []
        for name in parameters(rule)[1:]:
            slot = op.slot(name)
            if slot is not None:
                args.append(saved[slot])
            elif name == "xp":
                args.append(namespace_of(t))
            elif name == f"{op.args[position]}_shape":
                args.append(shapes.get(inputs[position]))
            else:
                args.append(attrs[name])
        part = rule(t, *args)
        total = part if total is None else total + part
    return narrowed(total, dtype)


def _by_factors(op: Op, given: list[Any], saved: list[Any], attrs: dict[str, Any]) -> Any:
    """The tangent of a product, which is linear in each factor: the sum over the factors with a tangent."""
    total = None
    for i, t in enumerate(given):
        if t is not None:
            factors = [*saved[:i], t, *saved[i + 1 : len(given)]]
            if any(factor is None for factor in factors):
                return None
            part = getattr(common_namespace(factors), op.name)(*factors, **attrs)
            total = part if total is None else total + part
    return total


def _transposed(
    op: Op,
    given: list[Any],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    values: tuple[Any, ...],
    attrs: dict[str, Any],
    dtypes: tuple[Any, ...],
    shapes: dict[int, tuple[int, ...]],
    traced: bool,
) -> tuple[Any, ...]:
    """J t, as the derivative of <u, J t> = <Jᴴ u, t> with respect to u; the vjp rule computes Jᴴ u."""
    raw = common_namespace([bare(t) for t in given if t is not None])
    kinds = dict(zip(outputs, dtypes, strict=True))
    # A compiled call also has outputs without derivatives, as has a call of Python integers.
    tracked = [uid for uid in outputs if uid in shapes and kinds[uid].kind not in "biuO"]
    probes = [wrap(_zeros(raw, shapes[uid], kinds[uid])) for uid in tracked]
    inner = Recorder()
    inner.born = stack.clock()  # it records a batch of tangents as one tensor
    for probe in probes:
        inner.tracked[probe.uid] = tuple(probe.array.shape)
    outer = stack.active_recorders() if traced else ()
    several = len(outputs) > 1 or op.outputs
    step = (op, inputs, outputs if several else outputs[0], values, attrs, dtypes if several else dtypes[0])
    of_inputs = {uid: shapes[uid] for uid, t in zip(inputs, given, strict=True) if t is not None and uid in shapes}
    reached = {**of_inputs, **{uid: shapes[uid] for uid in outputs if uid in shapes}}
    with stack.use_recorders((inner, *outer)):  # one step of a recorded backward pass, for this record only
        start = dict(zip(tracked, probes, strict=True))
        cotangents = backward_pass([step], reached, start, kept=frozenset(), traced=True, release=False)
        total = _inner_product(cotangents, dict(zip(inputs, given, strict=True)))
    if total is None:
        return (None,) * len(outputs)
    seed: Any = namespace_of(total.array).ones_like(total.array)
    batched = any(type(t) is Batched for t in given)
    # Recorded ops may have batches, power series and plain arrays as operands.
    as_tensors = traced or batched or any(isinstance(namespace_of(t), Interpreter) for t in given if t is not None)
    first = {total.uid: wrap(seed) if as_tensors else seed}
    with stack.use_recorders(outer):
        found = backward_pass(inner.records, inner.tracked, first, kept=frozenset(), traced=as_tensors, release=False)
    results = {}
    for uid, probe in zip(tracked, probes, strict=True):
        pushed: Any = _dense(found.get(probe.uid))
        bare_again = isinstance(pushed, Tensor) and (not traced or (batched and type(pushed.array) is Batched))
        results[uid] = pushed.array if bare_again else pushed
    return tuple(results.get(uid) for uid in outputs)


def _zeros(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros; tangents may be constants if the shape depends on values."""
    return xp.zeros(shape, dtype) if is_known_shape(shape) else symbolic.zeros(shape, dtype)


def _inner_product(cotangents: dict[int, Any], tangents: Tangents) -> Tensor | None:
    """The sum of <cotangent, tangent> over the inputs that have both; for complex numbers, its real part."""
    xp, total = tensor_namespace, None
    for uid, t in tangents.items():
        c = _dense(cotangents.get(uid))
        if t is None or c is None:
            continue
        product = xp.multiply(xp.conj(c) if xp.is_complex(c) else c, t if isinstance(t, Tensor) else wrap(t))
        part = xp.sum(product, axis=tuple(range(len(c.array.shape))), keepdims=False)
        part = xp.real(part) if xp.is_complex(part) else part
        total = part if total is None else total + part
    return total


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, SparseCotangent) else value
