"""Signatures: bind calls to parameters and declared specifications, and print specifications."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.function.arguments import Keywords, split_keywords
from gradtape._src.ops.ragged import RaggedTensor, RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, VariableParam
from gradtape._src.variable.spec import VariableSpec


class Signature:
    """The parameters of a Python function, and the specifications that an input signature declares for them."""

    def __init__(self, python_function: Callable[..., Any], declared: Any = None) -> None:
        self._python_function = python_function
        self.declared = None if declared is None else _checked_signature(declared)

    @functools.cached_property
    def parameters(self) -> inspect.Signature:
        """The parameters; raises ValueError or TypeError for a builtin function without a signature."""
        return inspect.signature(self._python_function)

    @property
    def known_parameters(self) -> inspect.Signature | None:
        """The parameters, or None for a function without a signature."""
        try:
            return self.parameters
        except (TypeError, ValueError):
            return None

    @functools.cached_property
    def _plain_arity(self) -> int:
        """The number of positional arguments of a call without keywords and defaults; -1 if it varies."""
        try:
            parameters = self.parameters.parameters.values()
        except (TypeError, ValueError):
            return -1
        plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        return len(parameters) if plain else -1

    def canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments as a tuple, which does not depend on how they were passed."""
        if self.declared is not None:
            return self._conforming(args, kwargs)
        if not kwargs and len(args) == self._plain_arity:
            return args
        bound = self.parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        if not bound.kwargs:
            return bound.args
        return (*bound.args, Keywords(sorted(bound.kwargs.items())))

    def _conforming(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments converted to their declarations; raises TensorFlow's errors."""
        assert self.declared is not None
        try:
            given = args
            if kwargs or len(args) != len(self.declared):
                bound = self.parameters.bind(*args, **kwargs)
                most = len(bound.args)
                bound.apply_defaults()
                given = bound.args[: max(most, len(self.declared))]
            if len(given) != len(self.declared):
                raise TypeError(f"{len(self.declared)} arguments are declared, but {len(given)} were passed")
            return tuple(_conforming(value, spec) for value, spec in zip(given, self.declared, strict=True))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`. Received args: {args} and kwargs: {kwargs} "
                f"for signature: {self.declared}."
            ) from None

    def names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str | None] | None:
        """The names that specifications in a call give to tensors; None without any, or if there are tensors among
        them.
        """
        bound = self.parameters.bind(*args, **kwargs) if kwargs else None
        given = args if bound is None else (*bound.args, *(bound.kwargs[name] for name in sorted(bound.kwargs)))
        leaves = nest.flatten(given, expand_composites=True)
        if any(isinstance(leaf, (Tensor, Variable)) for leaf in leaves):
            return None
        found = [leaf.name for leaf in leaves if isinstance(leaf, TensorSpec)]
        return found if any(found) else None

    def argument_names(self, given: tuple[Any, ...], leaves: Sequence[Any]) -> list[str]:
        """The name of the parameter of each tensor among the arguments, for the inputs of a graph."""
        remaining, found = iter(leaves), []
        for name, value in self._by_name(given):
            own = itertools.islice(remaining, len(nest.flatten(value, expand_composites=True)))
            found += [name if name[:1].isalpha() else "Placeholder" for leaf in own if type(leaf) is Tensor]
        return found

    def _by_name(self, given: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
        """The arguments with the names of their parameters."""
        args, kwargs = split_keywords(given)
        known = self.known_parameters
        parameters = [] if known is None else list(known.parameters.values())
        plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        names = [*plain, *[f"{rest}_{i}" for i in range(len(args) - len(plain))]]
        yield from zip(names, args, strict=False)
        yield from kwargs.items()

    @functools.cached_property
    def shapes(self) -> list[Any]:
        """The declared shapes of tensors."""
        specs = () if self.declared is None else nest.flatten(self.declared)
        inside = [part for spec in specs for part in getattr(spec, "value_specs", (spec,))]
        return [spec.shape for spec in inside if isinstance(spec, TensorSpec)]

    @functools.cached_property
    def knows_shapes(self) -> bool:
        """Whether all declared shapes are fully known."""
        return all(shape.is_fully_defined() for shape in self.shapes)

    @functools.cached_property
    def knows_ranks(self) -> bool:
        """Whether all declared shapes have a known rank."""
        return all(shape.rank is not None for shape in self.shapes)


def _checked_signature(signature: Any) -> tuple[Any, ...]:
    if not isinstance(signature, (list, tuple)):
        raise TypeError(f"input_signature must be either a tuple or a list, got {type(signature)}.")
    leaves = nest.flatten(list(signature))
    wrong = [leaf for leaf in leaves if not any(hasattr(leaf, name) for name in ("shape", "dtype", "value_type"))]
    if wrong:
        raise TypeError(
            "input_signature must be a possibly nested sequence of TensorSpec objects, got invalid args "
            f"{wrong} with types {[type(leaf) for leaf in wrong]}."
        )
    return tuple(signature)


def _conforming(value: Any, spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        if hasattr(spec, "value_type"):  # of a composite tensor
            if not spec.is_compatible_with(value):
                raise TypeError(f"Can not cast {getattr(value, '_type_spec', value)!r} to {spec!r}")
            return value
        if not nest.is_nested(spec):
            return value
        if isinstance(spec, Mapping):
            if not isinstance(value, Mapping) or sorted(value) != sorted(spec):
                raise TypeError(f"Can not cast {value!r} to a structure like {spec!r}")
            return {key: _conforming(value[key], spec[key]) for key in spec}
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            raise TypeError(f"Can not cast {value!r} to a structure like {spec!r}")
        return nest.pack_sequence_as(
            nest.map_structure(lambda _: 0, spec),
            nest.flatten([_conforming(v, s) for v, s in zip(value, spec, strict=True)]),
        )
    tensor = convert(value, None if isinstance(value, (Tensor, Variable)) else spec.dtype)
    if tensor.dtype != spec.dtype or not spec.shape.is_compatible_with(tensor.shape):
        raise TypeError(f"Can not cast TensorSpec(shape={tensor.shape}, dtype={tensor.dtype!r}, name=None) to {spec!r}")
    return tensor


def example(structure: Any, unknown: dict[int, Any]) -> Any:
    """Arguments with tensors instead of specifications; unknown sizes are 1, and added to `unknown`."""

    def stand_in(leaf: Any) -> Any:
        if isinstance(leaf, RaggedTensorSpec) and leaf.ragged_rank:
            return _ragged_example(leaf, unknown)
        if isinstance(leaf, SparseTensorSpec) and leaf.shape.rank is not None:
            return _sparse_example(leaf, unknown)
        if not isinstance(leaf, TensorSpec):
            return leaf
        shape = [1 if n is None else n for n in leaf.shape.as_list()] if leaf.shape.rank is not None else []
        tensor = wrap(np.zeros(shape, leaf.dtype.numpy_dtype))
        if not leaf.shape.is_fully_defined():
            unknown[id(tensor)] = leaf.shape
        return tensor

    return nest.map_structure(stand_in, structure)


def _noted(value: Any, shapes: Sequence[Any], unknown: dict[int, Any]) -> Any:
    """A composite tensor whose parts have unknown shapes, which are added to `unknown`."""
    for part, shape in zip(nest.flatten(value, expand_composites=True), shapes, strict=True):
        if None in shape:
            unknown[id(part)] = TensorShape(shape)
    return value


def _ragged_example(spec: RaggedTensorSpec, unknown: dict[int, Any]) -> Any:
    """A ragged tensor with one value in each row."""
    levels = spec.ragged_rank
    sizes = [None] * (levels + 1) if spec.shape.rank is None else spec.shape.as_list()
    rows, inner = sizes[0], sizes[levels + 1 :]
    count = 1 if rows is None else rows
    found: Any = wrap(np.zeros([count, *(1 if n is None else n for n in inner)], spec.dtype.numpy_dtype))
    for _ in range(levels):
        splits = np.arange(count + 1, dtype=spec.row_splits_dtype.numpy_dtype)
        found = RaggedTensor.from_row_splits(found, splits, validate=False)
    outer = [None if rows is None else rows + 1]
    return _noted(found, [[None, *inner], outer, *[[None]] * (levels - 1)], unknown)


def _sparse_example(spec: SparseTensorSpec, unknown: dict[int, Any]) -> Any:
    """A sparse tensor with one value at the origin."""
    rank = len(spec.shape.as_list())
    sizes = np.array([1 if n is None else n for n in spec.shape.as_list()], np.int64)
    found = SparseTensor(np.zeros([1, rank], np.int64), np.zeros([1], spec.dtype.numpy_dtype), sizes)
    return _noted(found, [[None, rank], [None], [rank]], unknown)


def spec_of(leaf: Any) -> Any:
    """The specification of a tensor or of a variable's stand-in; any other leaf unchanged."""
    if isinstance(leaf, VariableParam):
        return VariableSpec(leaf.shape, leaf.dtype, leaf.trainable, leaf.number)
    if not isinstance(leaf, Tensor):
        return leaf
    return TensorSpec(leaf.shape, leaf.dtype)


def named(spec: Any, name: str) -> Any:
    """A specification with the name of its argument."""
    return TensorSpec(spec.shape, spec.dtype, name) if type(spec) is TensorSpec and spec.name is None else spec


def spec_text(value: Any) -> str:
    """A structure of specifications as short text."""
    if isinstance(value, TensorSpec):
        return f"{value.dtype.name}{value.shape.as_list() if value.shape.rank is not None else '?'}".replace(" ", "")
    if isinstance(value, VariableSpec):
        return f"Variable({spec_text(TensorSpec(value.shape, value.dtype))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {spec_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(spec_text(v) for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value)


def paired(value: Any, declared: Any) -> Iterator[tuple[Any, Any]]:
    """Pair the values of a call with the specifications of a structure; raises TensorFlow's errors."""
    if isinstance(declared, (TensorSpec, VariableSpec)):
        yield value, declared
    elif isinstance(declared, Mapping):
        if not isinstance(value, Mapping) or sorted(value) != sorted(declared):
            raise TypeError(f"Can not cast {value!r} to {spec_text(dict(declared))}")
        for key in declared:
            yield from paired(value[key], declared[key])
    elif isinstance(declared, (list, tuple)):
        if not isinstance(value, list if isinstance(declared, list) else tuple) or len(value) != len(declared):
            raise TypeError(f"Can not cast {value!r} to {spec_text(declared)}")
        for one, spec in zip(value, declared, strict=True):
            yield from paired(one, spec)
    elif len(nest.flatten(declared, True)) > 1:  # a sparse tensor, for example
        yield from zip(nest.flatten(value, True), nest.flatten(declared, True), strict=True)
    elif not _is_same_value(value, declared):
        raise TypeError(f"Can not cast {value!r} to Literal[{declared!r}]")


def _is_same_value(value: Any, declared: Any) -> bool:
    numbers = isinstance(value, (int, float)) and isinstance(declared, (int, float))
    return value is declared or ((numbers or type(value) is type(declared)) and bool(value == declared))
