"""Context managers of graph code that eager code still uses: names, devices, dependencies, lifting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from numpy import ndarray

from gradtape._src.arrays.symbolic import current_graph, default_graph, graph_for_ops
from gradtape._src.call_sites import scope_finders
from gradtape._src.devices import device_scope
from gradtape._src.function.modes import init_scope as init_scope
from gradtape._src.interrupts import setting
from gradtape._src.variable import Variable, name_prefix, scope_within, variable_maker


class name_scope(setting[str]):
    """Add a prefix to names; the value of the `with` block is the full scope with a slash at the end.

    >>> with tf.name_scope("outer"), tf.name_scope("inner") as scope:
    ...     print(scope)
    outer/inner/
    """

    def __init__(self, name: str | None, default_name: str | None = None, values: Any = None) -> None:
        if (name is None and default_name is None) or (name is not None and not isinstance(name, str)):
            raise ValueError("name for name_scope must be a string.")
        self._name = name or default_name or ""
        super().__init__(name_prefix, "")

    @property
    def name(self) -> str:
        return self._name

    def within(self, outer: str) -> str:
        """The full scope inside another one."""
        return scope_within(outer, self._name)

    def __enter__(self) -> str:
        self._value = full = self.within(name_prefix.get())
        super().__enter__()
        return full


def current_scope() -> str:
    """The current prefix of names."""
    return name_prefix.get()


def get_current_name_scope() -> str:
    """Return the open name scopes, joined by slashes.

    >>> with tf.name_scope("a"), tf.name_scope("b"):
    ...     print(tf.get_current_name_scope())
    a/b
    """
    return name_prefix.get().rstrip("/")


scope_finders.append(get_current_name_scope)


def device(device_name: Any) -> AbstractContextManager[None]:
    """Create new tensors and variables on a device: "/CPU:0", "GPU:1", "/device:GPU:0", a `DeviceSpec`, None.

    Ops run on the device of their inputs; `tf.identity` inside the block copies a tensor to the device. A device that
    does not exist is replaced by the CPU, unless `tf.config.set_soft_device_placement(False)` makes it an error.

    >>> import gradtape as tf
    >>> with tf.device("/CPU:0"):
    ...     print(tf.constant(1.0).device)
    /job:localhost/replica:0/task:0/device:CPU:0
    """
    return _EagerDeviceContext(device_name)


class _EagerDeviceContext(device_scope):
    """The context of a `tf.device`."""


def control_dependencies(control_inputs: Any) -> AbstractContextManager[Any]:
    """Do nothing: eager ops run in program order. In a TensorFlow 1 graph, run the block's ops after these.

    >>> v = tf.Variable(1.0)
    >>> with tf.control_dependencies([v.assign(2.0)]):
    ...     y = v * 10.0
    >>> y.numpy()
    np.float32(20.0)
    """
    if control_inputs is not None and not isinstance(control_inputs, Iterable):
        raise TypeError(f"Expected a list of tensors or functions for 'control_inputs', but got {control_inputs!r}.")
    if isinstance(control_inputs, ndarray) and control_inputs.size > 1:
        raise ValueError("The truth value of an array with more than one element is ambiguous: pass a list of tensors.")
    graph = graph_for_ops()
    if graph is not None:
        block: AbstractContextManager[Any] = graph.control_dependencies(control_inputs)
        return block
    for item in control_inputs or ():
        if callable(item):
            item()
    return nullcontext()


class variable_creator_scope(setting[Any]):
    """Create variables in this block with a function, which can change the arguments or the result.

    Args:
      variable_creator: A function `creator(next_creator, **kwargs)` that returns a variable. `next_creator(**kwargs)`
        calls the creator of the enclosing block, or creates a plain variable.

    >>> import gradtape as tf
    >>> def frozen(next_creator, **kwargs):
    ...     kwargs["trainable"] = False
    ...     return next_creator(**kwargs)
    >>> with tf.variable_creator_scope(frozen):
    ...     v = tf.Variable(1.0)
    >>> v.trainable
    False
    """

    def __init__(self, variable_creator: Callable[..., Any]) -> None:
        self._creator = variable_creator
        super().__init__(variable_maker, None)

    def __enter__(self) -> None:
        outer, creator = variable_maker.get(), self._creator

        def next_creator(**kwargs: Any) -> Any:
            with setting(variable_maker, outer):
                return Variable(**kwargs)

        def make(*args: Any, **kwargs: Any) -> Any:
            given = _parameters().bind(*args, **kwargs)
            given.apply_defaults()
            return creator(next_creator, **given.arguments)

        self._value = make
        super().__enter__()


@cache
def _parameters() -> Any:
    from inspect import Signature, signature

    parameters = list(signature(Variable.__init__).parameters.values())
    return Signature(parameters[1:])


def executing_eagerly() -> bool:
    """Return whether ops run when they are called; false while a function is traced or a graph is built.

    >>> tf.executing_eagerly()
    True
    """
    return current_graph() is None and default_graph() is None


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Accepted for compatibility; gradtape never wraps attributes."""
    return method
