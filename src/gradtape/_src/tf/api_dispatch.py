"""`tf.experimental.dispatch_for_api` and related functions: the library's functions for other classes."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from gradtape._src.core.primitive import registry

__all__ = [
    "call_registered",
    "dispatch_for_api",
    "dispatch_for_binary_elementwise_apis",
    "dispatch_for_binary_elementwise_assert_apis",
    "dispatch_for_unary_elementwise_apis",
    "unregister_dispatch_for",
]

_apis: list[tuple[str, dict[str, Any], Callable[..., Any]]] = []
_elementwise: dict[int, list[tuple[tuple[Any, ...], Callable[..., Any]]]] = {1: [], 2: []}
_asserts: list[tuple[tuple[Any, ...], Callable[..., Any]]] = []

_UNARY = frozenset(
    """abs acos acosh angle asin asinh atan atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bitcast cast ceil
    clip_by_value conj cos cosh dawsn digamma elu erf erfc erfcinv erfinv exp expint expm1 floor fresnel_cos
    fresnel_sin gelu identity imag invert is_finite is_inf is_nan l2_normalize leaky_relu lgamma log log1p log_sigmoid
    log_softmax logical_not ndtri negative ones_like real reciprocal reciprocal_no_nan relu relu6 rint round rsqrt
    saturate_cast selu sigmoid sign silu sin sinh softmax softplus softsign spence sqrt square stop_gradient swish tan
    tanh zeros_like""".split()  # noqa: SIM905
)
_BINARY = frozenset(
    """add atan2 bitwise_and bitwise_or bitwise_xor complex divide divide_no_nan equal floordiv floormod greater
    greater_equal igamma igammac left_shift less less_equal logical_and logical_or logical_xor maximum minimum mod
    multiply multiply_no_nan nextafter not_equal polygamma pow right_shift squared_difference subtract truediv
    truncatediv truncatemod xdivy xlog1py xlogy zeta""".split()  # noqa: SIM905
)


def dispatch_for_api(api: Callable[..., Any], *signatures: dict[str, Any]) -> Callable[[Any], Any]:
    """Decorate the implementation of a library function for arguments of certain classes.

    Args:
      api: The function, such as `tf.concat`.
      *signatures: The classes by the names of parameters; by default the annotations of the decorated function.

    >>> class Tagged(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    >>> @tf.experimental.dispatch_for_api(tf.concat, {"values": list[Tagged]})
    ... def concat(values, axis):
    ...     return Tagged(tf.concat([v.values for v in values], axis))
    >>> tf.concat([Tagged([1]), Tagged([2])], 0).values.numpy().tolist()
    [1, 2]
    """
    name = getattr(api, "__name__", "")

    def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
        _check_signature(api, target)
        given = signatures or ({k: v for k, v in typing.get_type_hints(target).items() if k != "return"},)
        for signature in given:
            if not signature:
                raise ValueError("signature must annotate at least one parameter with a class to dispatch on.")
            _apis.append((name, dict(signature), target))
        return target

    return decorate


def _check_signature(api: Callable[..., Any], target: Callable[..., Any]) -> None:
    wanted, given = inspect.signature(api), inspect.signature(target)
    names = [n for n in wanted.parameters if n != "name"]
    found = [n for n in given.parameters if n != "name"]
    if names[: len(found)] != found:
        raise ValueError(f"Dispatch function's signature {given} does not match API's signature {wanted}.")


def dispatch_for_unary_elementwise_apis(x_type: Any) -> Callable[[Any], Any]:
    """Decorate the implementation of all elementwise functions of one tensor for a class: `handler(api, x)`.

    Args:
      x_type: The class.

    >>> class Tagged(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    >>> @tf.experimental.dispatch_for_unary_elementwise_apis(Tagged)
    ... def unary(api, x):
    ...     return Tagged(api(x.values))
    >>> tf.abs(Tagged([-1.0])).values.numpy().tolist()
    [1.0]
    """
    return _registering(_elementwise[1], (x_type,))


def dispatch_for_binary_elementwise_apis(x_type: Any, y_type: Any) -> Callable[[Any], Any]:
    """Decorate the implementation of all elementwise functions of two tensors for classes: `handler(api, x, y)`.

    Args:
      x_type: The class of the first argument.
      y_type: The class of the second argument.

    >>> class Tagged(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    >>> @tf.experimental.dispatch_for_binary_elementwise_apis(Tagged, Tagged)
    ... def binary(api, x, y):
    ...     return Tagged(api(x.values, y.values))
    >>> tf.add(Tagged([1.0]), Tagged([2.0])).values.numpy().tolist()
    [3.0]
    """
    return _registering(_elementwise[2], (x_type, y_type))


def dispatch_for_binary_elementwise_assert_apis(x_type: Any, y_type: Any) -> Callable[[Any], Any]:
    """Decorate the implementation of assertions about two tensors for classes: `handler(assert_func, x, y)`.

    Args:
      x_type: The class of the first argument.
      y_type: The class of the second argument.
    """
    return _registering(_asserts, (x_type, y_type))


def _registering(table: list[Any], kinds: tuple[Any, ...]) -> Callable[[Any], Any]:
    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        table.append((kinds, handler))
        return handler

    return decorate


def unregister_dispatch_for(dispatch_target: Callable[..., Any]) -> None:
    """Unregister a function that one of the decorators has registered.

    Args:
      dispatch_target: The decorated function.
    """
    tables: tuple[list[Any], ...] = (_apis, _elementwise[1], _elementwise[2], _asserts)
    found = False
    for table in tables:
        kept = [entry for entry in table if entry[-1] is not dispatch_target]
        found = found or len(kept) < len(table)
        table[:] = kept
    if not found:
        raise ValueError(f"Function {dispatch_target} was not registered with a `@dispatch_for` decorator.")


def call_registered(name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function that is registered for these arguments; otherwise, raise the error again.

    Used in an `except` clause, like the handlers of classes.
    """
    for api, signature, target in reversed(_apis):
        if api in (name, getattr(call, "__name__", "")) and _fits(target, signature, args, kwargs):
            return target(*args, **{k: v for k, v in kwargs.items() if k != "name"})
    count = _elements(name)
    for kinds, handler in reversed(_asserts if name.startswith("assert_") else _elementwise.get(count, [])):
        values = args[: len(kinds)]
        if len(values) == len(kinds) and all(_is_of(v, kind) for v, kind in zip(values, kinds, strict=True)):
            return handler(_with_rest(call, args[len(kinds) :], kwargs), *values)
    raise


def _with_rest(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A function of only the tensors, with the other arguments of the call."""
    if not args and not kwargs:
        return call
    return lambda *tensors: call(*tensors, *args, **kwargs)


def _elements(name: str) -> int:
    """The number of tensors that an elementwise function takes; 0 for others."""
    op = registry.get(name)
    if op is not None and op.elementwise:
        return len(op.args)
    return 1 if name in _UNARY else 2 if name in _BINARY else 0


def _fits(target: Callable[..., Any], signature: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    names = list(inspect.signature(target).parameters)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return all(name in given and _is_of(given[name], kind) for name, kind in signature.items())


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is an instance of a class or a union of classes, or a list of such values."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union or type(kind).__name__ == "UnionType":
        return any(_is_of(value, each) for each in inner)
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and bool(value) and all(_is_of(item, inner[0]) for item in value)
    if kind is typing.Any:
        return True
    return isinstance(value, kind) if isinstance(kind, type) else False
