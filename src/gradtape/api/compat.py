"""`tf.compat`: the v1 names that tape code still uses, and v2, which is the whole of gradtape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import numpy as np

from gradtape.api.arguments import shape_of
from gradtape.api.scopes import name_scope
from gradtape.conversion import convert, wrap
from gradtape.dtypes import as_dtype, float32
from gradtape.tensor import Tensor
from gradtape.variable import Variable, VariableAggregation, VariableSynchronization

_variable_prefix: ContextVar[str] = ContextVar("gradtape_variable_scope", default="")


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Variable:
    """A new variable (eager code never reuses one by name), by default with Glorot's uniform initial value.

    >>> get_variable("w", initializer=[1.0, 2.0]).name
    'w:0'
    """
    constant = initializer is not None and not callable(initializer)
    if constant and shape is not None:
        raise ValueError("If initializer is a constant, do not specify shape.")
    if shape is None and not constant:
        raise ValueError(
            f"Variable {name} did not get an initializer, so its `shape` argument must be specified."
            if initializer is None
            else f"Shape of a new variable ({name}) must be fully defined, but instance was <unknown>."
        )
    kind = as_dtype(dtype) if dtype is not None else float32
    value: Any
    if constant:
        value = convert(initializer, dtype)
    elif initializer is None:
        value = _default_value(shape_of(shape), kind)
    else:
        maker = initializer() if isinstance(initializer, type) else initializer
        value = maker(shape_of(shape), dtype=kind)
    variable = Variable(
        value,
        trainable,
        validate_shape,
        caching_device,
        name,
        dtype=dtype,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )
    variable._name = f"{_variable_prefix.get()}{name}:0"  # name_scope does not count here, as in TensorFlow
    return variable


def _default_value(shape: tuple[int, ...], dtype: Any) -> Tensor:
    if not dtype.is_floating:
        return wrap(np.zeros(shape, dtype.numpy_dtype))
    receptive = int(np.prod(shape[:-2], dtype=int))
    fan_in, fan_out = shape[-2:] if len(shape) > 1 else (shape[0] if shape else 1,) * 2
    limit = np.sqrt(6.0 / max(1, (fan_in + fan_out) * receptive))
    rng = np.random.default_rng()
    return wrap(np.asarray(rng.uniform(-limit, limit, shape)).astype(dtype.numpy_dtype))


@contextmanager
def variable_scope(name_or_scope: str, default_name: str | None = None, **options: Any) -> Iterator[str]:
    """A prefix for the names of variables made by `get_variable`."""
    inner = name_or_scope or default_name or ""
    token = _variable_prefix.set(f"{_variable_prefix.get()}{inner}/" if inner else "")
    try:
        with name_scope(name_or_scope, default_name) as scope:
            yield scope
    finally:
        _variable_prefix.reset(token)


def _unsupported_in_eager(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} is not supported when eager execution is enabled. Use tf.GradientTape instead.")

    function.__name__ = name.rpartition(".")[2]
    function.__doc__ = "Only for graphs; eager code uses GradientTape."
    return function


gradients, hessians = _unsupported_in_eager("tf.gradients"), _unsupported_in_eager("tf.hessians")


def _enabled(*args: Any, **kwargs: Any) -> None:
    """Nothing to switch: gradtape is always eager, as TensorFlow 2 is."""


def build(root: ModuleType) -> ModuleType:
    """The namespace `compat`, made of the finished root."""
    compat = ModuleType(f"{root.__name__}.compat", __doc__)
    v1 = ModuleType(f"{compat.__name__}.v1", "TensorFlow 1 names that eager tape code uses.")
    hidden = {"autodiff", "compat"}
    for name in dir(root):
        if not name.startswith("_") and name not in hidden:
            setattr(v1, name, getattr(root, name))
    for name, value in {
        "get_variable": get_variable,
        "variable_scope": variable_scope,
        "enable_eager_execution": _enabled,
        "enable_v2_behavior": _enabled,
        "gradients": gradients,
        "hessians": hessians,
    }.items():
        setattr(v1, name, value)
    compat.v1, compat.v2 = v1, root  # type: ignore[attr-defined]
    compat.as_bytes = lambda text, encoding="utf-8": text.encode(encoding) if isinstance(text, str) else bytes(text)  # type: ignore[attr-defined]
    compat.as_text = lambda text, encoding="utf-8": text if isinstance(text, str) else text.decode(encoding)  # type: ignore[attr-defined]
    compat.as_str = compat.as_text  # type: ignore[attr-defined]
    return compat
