"""Arguments and results of gradient calls: targets, sources, upstream gradients, and the gradients
that are returned.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import broadcast_shapes
from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.composites import differentiable_part
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.devices import chosen, placement
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.memory import LazyArray
from gradtape._src.ops.array import broadcast_to
from gradtape._src.tensor import CONSTANT, Array, LazyTensor, Tensor, is_differentiable
from gradtape._src.variable import Variable, VariableView, all_unwrapped, peek, unwrapped


class UnconnectedGradients(Enum):
    """What a gradient is if the target does not depend on the source: None, or zeros.

    >>> x, unused = tf.Variable(2.0), tf.Variable([1.0, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, unused, unconnected_gradients=tf.UnconnectedGradients.ZERO).numpy()
    array([0., 0.], dtype=float32)
    """

    NONE = "none"
    ZERO = "zero"


class AggregationMethod:
    """How gradients are summed in TensorFlow's graphs; accepted for compatibility, with no effect.

    >>> tf.AggregationMethod.ADD_N
    0
    """

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def as_policy(value: Any) -> UnconnectedGradients:
    """Convert a policy: the enum, or exactly one of its values as a string."""
    if isinstance(value, UnconnectedGradients):
        return value
    if isinstance(value, str) and value in ("none", "zero"):
        return UnconnectedGradients(value)
    raise ValueError(f"Unknown value for unconnected_gradients: {value!r}. Use 'none' or 'zero'.")


_DIFFERENTIABLE = frozenset({Tensor, Variable})  # and their subclasses, which are rare


def leaves(structure: Any) -> list[Any]:
    """The leaves of a structure; variables of other libraries are replaced by the ones they wrap."""
    return [structure] if type(structure) in _DIFFERENTIABLE else all_unwrapped(nest.flatten(structure))


def components(leaf: Any) -> list[Any]:
    if type(leaf) in _DIFFERENTIABLE:
        return [leaf]
    if isinstance(leaf, IndexedSlices):
        return [part for part in (leaf.values, leaf.indices, leaf.dense_shape) if part is not None]
    return nest.flatten(leaf, expand_composites=True)


def are_differentiable(items: list[Any]) -> bool:
    """Whether all items are plain tensors and variables."""
    return _DIFFERENTIABLE.issuperset(map(type, items))


def check_differentiable(kind: str, items: list[Any]) -> None:
    """Raise TypeError for anything that is not a tensor or variable."""
    for item in items:
        if not isinstance(item, (Tensor, Variable)):
            raise TypeError(
                f"Argument `{kind}` should contain Tensors or Variables, but it contains {item!r} of type "
                f"'{type(item).__name__}'. {_advice(kind, item)}"
            )
        if isinstance(item, VariableView):
            item.handle  # noqa: B018 - raises where a distributed variable stands for all of its copies


def _advice(kind: str, item: Any) -> str:
    """What to pass instead of something that has no history."""
    if item is None:
        return "Leave out variables that do not exist, such as the bias of a layer without one."
    if hasattr(item, "trainable_variables"):
        return "Pass the variables of a model: model.trainable_variables."
    if type(item).__name__ in ("KerasTensor", "Placeholder"):
        return (
            "It is symbolic: it describes a value of a model, but has none. Watch the tensor that the model is called "
            "with, or return the value from the model with the other outputs."
        )
    if callable(item):
        return "Call it inside the tape's `with` block, and pass the result."
    history = "Plain numbers and arrays have no history to differentiate."
    if kind == "target":
        return f"{history} Pass the tensor, before float(), .numpy() or NumPy's functions turn it into a number."
    if isinstance(item, np.ndarray):
        return (
            f"{history} Pass variables, such as model.trainable_variables instead of the copies of model.get_weights()."
        )
    return f"{history} Make it a tf.Variable, or a tensor that the tape watches."


def array_of(value: Tensor | Variable) -> Array:
    return peek(value).array if isinstance(value, Variable) else value.array


def seeds_of(target: Any, targets: list[Any], output_gradients: Any) -> list[Any]:
    """The upstream gradient of each target, validated; None means ones."""
    if output_gradients is None:
        return [None] * len(targets)
    target = unwrapped(target)
    single = isinstance(target, (Tensor, Variable))
    if single and isinstance(output_gradients, (list, tuple)) and len(output_gradients) == 1:
        flat = (
            list(output_gradients)
            if np.ndim(_plain(output_gradients[0])) == array_of(target).ndim
            else [output_gradients]
        )
    elif single:
        flat = [output_gradients]
    else:
        flat = nest.flatten(output_gradients)
    if len(flat) != len(targets):
        raise ValueError(
            f"output_gradients has {len(flat)} entries for {len(targets)} targets. Pass one for each target, in the "
            "same structure, or None for all of them."
        )
    flat = [differentiable_part(g) for g in flat]
    # A None among the entries is rejected by the conversion, as in TensorFlow.
    return [_seed(t, g) for t, g in zip(targets, flat, strict=True)]


def _plain(value: Any) -> Any:
    return peek(value).array if isinstance(value, Variable) else value.array if isinstance(value, Tensor) else value


def _seed(target: Any, gradient: Any) -> Tensor:
    dtype = target.dtype
    seed = convert(gradient) if isinstance(gradient, (Tensor, Variable, np.ndarray)) else convert(gradient, dtype)
    if seed.dtype != dtype:
        raise errors.mismatched_dtypes("Mul", seed.dtype, dtype)
    shape = tuple(array_of(target).shape)
    if seed.array.shape != shape:
        try:
            fits = broadcast_shapes(seed.array.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise errors.invalid_argument(
                f"Incompatible shapes: {errors.brackets(seed.array.shape)} vs. {errors.brackets(shape)}. An entry "
                "of output_gradients must have the shape of its target.",
                "Mul",
            )
        seed = broadcast_to(seed, shape=shape)
    return seed


def seed_cotangents(
    targets: list[Any],
    seeds: list[Tensor | None],
    sources: list[Any],
    traced: bool,
    companions: frozenset[int] = frozenset(),
) -> dict[int, Any]:
    """The seeds of the backward pass: upstream gradients by uid, summed for a target that occurs twice.

    Integers and booleans have no gradient, except with respect to themselves, and as `companions` of a float (uids):
    the indices that an op returns with values are targets together with the values, and get zeros.
    """
    cotangents: dict[int, Any] = {}
    for target, seed in zip(targets, seeds, strict=True):
        value, uid = array_of(target), target.uid
        if value.dtype.kind != "f":
            if not is_differentiable(value) and uid not in companions and all(uid != source.uid for source in sources):
                continue
            if value.dtype.kind == "O":
                continue
        if seed is None:
            start: Any = namespace_of(value).ones_like(value)
            if traced:
                start = wrap(start)
            elif type(value) is Batched:  # within a vectorized_map: a seed for each row
                start = Batched(np.ones((value.batch_size, *value.shape), value.dtype), value.level)
        else:
            start = seed if traced else seed.array
        cotangents[uid] = cotangents[uid] + start if uid in cotangents else start
    return cotangents


def finished(result: Any, source: Any, policy: UnconnectedGradients) -> Any:
    """Convert a cotangent to what the user gets: a tensor, IndexedSlices, zeros or None."""
    if type(result) is np.ndarray:
        return wrap(result)
    if result is None:
        if policy is UnconnectedGradients.NONE:
            return None
        value = array_of(source)
        return wrap(
            np.full(value.shape, b"", object) if value.dtype.kind == "O" else namespace_of(value).zeros_like(value)
        )
    if type(result) is SparseCotangent:
        shape = wrap(np.array(result.shape, np.int32))
        return IndexedSlices(as_tensor(result.values), as_tensor(result.indices), shape)
    return as_tensor(result)


def as_tensor(result: Any) -> Tensor:
    """Wrap a raw result as a new tensor; return a recorded one unchanged."""
    if isinstance(result, Tensor):
        return wrap(result.array) if result.uid == CONSTANT else result
    if type(result) is LazyArray:
        return _lazy_tensor(result)
    return wrap(result if type(result) is np.ndarray else _solid(result))


def _lazy_tensor(lazy: LazyArray) -> Tensor:
    """A result that is computed from small arrays when it is read."""
    if (not placement.places or chosen() is None) and all(type(a) is np.ndarray for a in lazy.arrays):
        return LazyTensor.of(lazy)
    tensor = as_tensor(lazy.write())
    if type(tensor.array) is Symbolic:  # evaluated by the caller of the function, if it is returned
        tensor.array.lazy = lazy._replace(arrays=tuple([a.array if type(a) is Tensor else a for a in lazy.arrays]))
    return tensor


def _solid(result: Any) -> Any:
    return np.asarray(result) if isinstance(result, np.generic) else result
