"""The arguments of a call: tensors, variables and Python values, and the key of the trace for them."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import nest
from gradtape._src.arrays.batched import Batched
from gradtape._src.conversion import convert, wrap
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, abstract_value, copies_of, is_distributed, stored, unwrapped


class Keywords(dict[str, Any]):
    """Keyword-only arguments, at the end of the positional ones."""


class Arguments(NamedTuple):
    """The arguments of one call.

    given          the arguments as a tuple, which does not depend on how they were passed
    leaves         the leaves of that structure, with arrays converted to tensors
    key            equal for calls that run the same program
    variable_args  the variables among the leaves, without repetitions
    """

    given: tuple[Any, ...]
    leaves: list[Any]
    key: Any
    variable_args: Sequence[Variable]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among the leaves."""
        return [leaf for leaf in self.leaves if type(leaf) is Tensor]


def arguments_of(given: tuple[Any, ...], exact: bool = False) -> Arguments:
    """Bind and flatten the arguments of a call."""
    return Arguments(given, *flattened(given, exact))


def flattened(given: tuple[Any, ...], exact: bool = False) -> tuple[list[Any], Any, Sequence[Variable]]:
    """The leaves, the key and the variables of `Arguments`; the key is None for a batch in a vectorized_map.

    Ragged and sparse tensors with different numbers of values have the same key, unless it has to be `exact`.
    """
    key = []
    for value in given:  # only tensors, as in most calls (benchmark: call_overhead)
        if type(value) is not Tensor:
            return _flattened_structure(given, exact)
        array = value.array
        if type(array) is Batched:
            return list(given), None, ()
        key.append((array.shape, array.dtype))
    return list(given), tuple(key), ()


def _flattened_structure(given: tuple[Any, ...], exact: bool) -> tuple[list[Any], Any, Sequence[Variable]]:
    """`flattened` for any arguments."""
    key: list[Any] = []
    variable_args: Sequence[Variable] = ()
    free: Sequence[tuple[int, ...]] = ()
    leaves = nest.flatten(given, expand_composites=True)
    if len(leaves) != len(given) or not all(map(_is_same, leaves, given)):
        key.append(_structure_key(given))
        if (sizes := nest.sizes_of(given)) and any(sizes) and not exact:
            free = nest.free_axes(given)
            key.append(tuple([None if each is None else each.facts for each in sizes]))
    for i, leaf in enumerate(leaves):
        if type(leaf) is not Tensor:
            leaf = unwrapped(leaf)
            if isinstance(leaf, (ndarray, np.generic)):
                leaves[i] = leaf = convert(leaf)
            elif isinstance(leaf, Tensor):  # a slice of a variable
                leaves[i] = leaf = wrap(leaf.array) if not leaf.uid else plain(leaf)
            elif isinstance(leaf, Variable) and is_distributed(leaf):  # its copies are captured, not passed
                key.append(("distributed", *[copy.uid for copy in copies_of(leaf)]))
                continue
            elif isinstance(leaf, Variable):
                leaves[i] = leaf = stored(leaf)
                variable_args = distinct((*variable_args, leaf))
                key.append(_variable_key(leaf, variable_args))
                continue
            else:
                key.append(_static_key(leaf))
                continue
        array = leaf.array
        if type(array) is Batched:
            return leaves, None, ()
        key.append((_known_sizes(array.shape, free[i]) if free else array.shape, array.dtype))
    return leaves, tuple(key), variable_args


def _known_sizes(shape: Sequence[Any], free: Sequence[int]) -> tuple[Any, ...]:
    """A shape with None for the axes whose sizes the trace does not assume."""
    return tuple([None if axis in free else n for axis, n in enumerate(shape)])


def distinct(variables: Sequence[Variable]) -> list[Variable]:
    """The variables in order, without repetitions."""
    return list({v.uid: v for v in variables}.values())


def _variable_key(variable: Variable, variable_args: Sequence[Variable]) -> Any:
    """The key of a variable: its position among the variables, not its identity, as the program takes any variable."""
    number = next(i for i, v in enumerate(variable_args) if v is variable)
    like = abstract_value(variable)
    return ("variable", number, variable.shape, tuple(like.shape), np.dtype(like.dtype), variable.trainable)


def key_for_these(key: Any, variable_args: Sequence[Variable]) -> Any:
    """A key for exactly these variables."""
    return (tuple([v.uid for v in variable_args]), key)


def _is_same(a: Any, b: Any) -> bool:
    return a is b


def plain(tensor: Tensor) -> Tensor:
    """A slice of a variable as a plain tensor."""
    plain = Tensor()
    plain.array, plain.uid = tensor.array, tensor.uid
    return plain


def _structure_key(value: Any) -> Any:
    """The key of a structure, which ignores the order of a mapping's keys and its class."""
    if isinstance(value, Mapping):
        keys = sorted(value)
        return ("mapping", *keys, *[_structure_key(value[key]) for key in keys])
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_structure_key, value))
    described = nest.description_of(value)
    if described is not None:
        return (type(value), described)
    flat = nest.flatten(value, expand_composites=True)
    if len(flat) == 1 and flat[0] is value:
        return 0
    return (type(value), str(nest.map_structure(lambda _: 0, value, expand_composites=True)))


def _static_key(leaf: Any) -> Any:
    """The key of a Python value: numbers and strings by value, objects by identity."""
    if leaf is None or isinstance(leaf, (bool, int, float, complex, str, bytes)):
        return leaf  # by equality, as in TensorFlow: 1, 1.0 and True are the same
    try:
        hash(leaf)
    except TypeError:
        raise TypeError(
            f"Could not generate a generic TraceType for {leaf!r}. Please verify that it is immutable/hashable. "
            "Otherwise, consider implementing the Tracing Protocol for it."
        ) from None
    try:
        return weakref.ref(leaf)
    except TypeError:
        return (type(leaf), leaf)


def split_keywords(given: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional arguments and the keywords of a call."""
    return (given[:-1], dict(given[-1])) if given and type(given[-1]) is Keywords else (given, {})


def arguments_kept(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None]:
    """Return a check to be made after a call: that it has not changed the lists and dicts among its arguments."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, or the call will raise a better error
        return lambda: None
    nested = {name: value for name, value in given.items() if nest.is_nested(value)}
    before = {name: (_structure_key(value), nest.flatten(value)) for name, value in nested.items()}

    def check() -> None:
        modified = [
            name
            for name, value in nested.items()
            if before[name][0] != _structure_key(value) or not all(map(_is_same, before[name][1], nest.flatten(value)))
        ]
        if modified:
            name = getattr(function, "__qualname__", repr(function))
            raise ValueError(
                f"{name}{signature} should not modify its Python input arguments. Modifying a copy is allowed. The "
                f"following parameter(s) were modified: {', '.join(modified)}"
            )

    return check
