"""The table of raw ops: a definition and an implementation for each, and calls with TensorFlow's rules.

An implementation takes the inputs in order, and the attrs that matter here as keywords.
"""

from __future__ import annotations

import functools
import inspect
from collections import namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gradtape._src import errors
from gradtape._src.raw_ops import array, image, linalg, math, nn, ragged, random, recurrent, state, strings, training
from gradtape._src.raw_ops.definition import Attr, Definition, attr_value, definition, input_values

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {}
for _family in (array, image, linalg, math, nn, ragged, random, recurrent, state, strings, training):
    _IMPLEMENTATIONS |= _family.OPS

HINTS = frozenset({
    "T", "Tkeys", "Tout", "Tvalues", "a_is_sparse", "b_is_sparse", "config", "config_proto", "container",
    "debug_ops_spec", "dtype", "element_dtype", "executor_type", "grad_a", "grad_b", "grad_x", "grad_y", "init",
    "output_shapes", "parallel_iterations", "shape", "shared_name", "tensor_name",
    "use_cudnn_on_gpu", "use_locking", "use_node_name_sharing", "validate_indices", "validate_shape",
})  # fmt: skip
"""Attrs that do not affect results, or repeat properties of the inputs."""


class RawOp(NamedTuple):
    """An op: its definition, its implementation, and the attrs that the implementation takes."""

    definition: Definition
    implementation: Callable[..., Any]
    attrs: frozenset[str]
    fixed: tuple[Attr, ...]
    """Attrs that must have their default."""

    def run(self, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Call the implementation with checked inputs and attrs."""
        for attr in self.fixed:
            if attrs[attr.name] != attr.default:
                raise errors.UnimplementedError(
                    None,
                    None,
                    f"{self.definition.name} with {attr.name}={attrs[attr.name]!r} is not in gradtape: "
                    f"{attr.name} must be {attr.default!r}.",
                )
        return self.implementation(*inputs, **{name: attrs[name] for name in self.attrs})


def names() -> list[str]:
    """Every op, sorted."""
    return sorted(_IMPLEMENTATIONS)


@functools.cache
def raw_op(name: str) -> RawOp | None:
    """Return the op of this name; None if gradtape does not have it."""
    if name not in _IMPLEMENTATIONS:
        return None
    found, implementation = definition(name), _IMPLEMENTATIONS[name]
    parameters = list(inspect.signature(implementation).parameters.values())
    accepted = {each.name for each in parameters if each.kind is not each.VAR_POSITIONAL}
    positional = {each.name for each in parameters[: len(found.inputs)] if each.kind is not each.KEYWORD_ONLY}
    attrs = frozenset(attr.name for attr in found.attrs if attr.name in accepted - positional)
    fixed = tuple(attr for attr in found.attrs if attr.name not in attrs and attr.name not in HINTS)
    return RawOp(found, implementation, attrs, fixed)


@functools.cache
def function(name: str) -> Callable[..., Any] | None:
    """Return the function `tf.raw_ops.NAME`."""
    op = raw_op(name)
    if op is None:
        return None
    found = op.definition
    required = [each.name for each in found.inputs] + [attr.name for attr in found.attrs if attr.required]
    result = _result(found)

    def call(*args: Any, **kwargs: Any) -> Any:
        _check_names(found, required, args, kwargs)
        attrs = {attr.name: attr_value(found, attr, kwargs.get(attr.name)) for attr in found.attrs}
        inputs = input_values(found, [kwargs[each.name] for each in found.inputs])
        return result(op.run(inputs, attrs))

    call.__name__ = call.__qualname__ = found.python_name
    call.__doc__ = f"TensorFlow's op {name}: arguments are given by their names."
    call.__signature__ = _signature(found)  # type: ignore[attr-defined]
    return call


def _signature(found: Definition) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {attr.name: attr.default for attr in found.attrs if not attr.required} | {"name": None}
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [inspect.Parameter(name, kind, default=defaults.get(name, empty)) for name in found.parameters]
    )


def _check_names(found: Definition, required: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TensorFlow's errors for positional, unknown and missing arguments."""
    if args:
        raise TypeError(
            f"{found.python_name} only takes keyword args (possible keys: {found.parameters}). "
            "Please pass these args as kwargs instead."
        )
    for name in kwargs:
        if name not in found.parameters:
            raise TypeError(f"{found.python_name}() got an unexpected keyword argument {name!r}")
    missing = [repr(name) for name in required if name not in kwargs]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        last = missing.pop()
        listed = f"{', '.join(missing)}{',' if len(missing) > 1 else ''} and {last}" if missing else last
        count = len([name for name in required if name not in kwargs])
        raise TypeError(f"{found.python_name}() missing {count} required positional argument{plural}: {listed}")


def _result(found: Definition) -> Callable[[Any], Any]:
    """A function that packs outputs: a tensor, a list of tensors, or a named tuple."""
    outputs = found.outputs
    if not outputs:
        return lambda _: None
    if len(outputs) == 1:
        return list if outputs[0].number or outputs[0].is_list else _same
    kind = cast("Any", namedtuple)(found.name, [each.name for each in outputs])
    return lambda values: kind(*values)


def _same(value: Any) -> Any:
    return value
