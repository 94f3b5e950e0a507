"""Gradients that the user defines: custom_gradient, recompute_grad, grad_pass_through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from gradtape._src import nest
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.autodiff.arguments import leaves
from gradtape._src.autodiff.custom_op import CUSTOM
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.composites import differentiable_part, is_composite, with_gradient
from gradtape._src.core.dispatch import record
from gradtape._src.core.tape import Recorder, active_recorders
from gradtape._src.ops.array import identity
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, read


class VariableWatcher(Recorder):
    """Collects the trainable variables that a function reads, without recording ops."""

    __slots__ = ("variables",)

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[int, Variable] = {}

    def on_read(self, variable: Variable) -> None:
        if variable.trainable:
            self.variables.setdefault(variable.uid, variable)


def custom_gradient(f: Callable[..., Any] | None = None) -> Any:
    """Decorate a function that returns its result and a function for the gradient.

    >>> import gradtape as tf
    >>> @tf.custom_gradient
    ... def log1pexp(x):
    ...     e = tf.exp(x)
    ...     return tf.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))
    >>> x = tf.constant(100.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = log1pexp(x)
    >>> float(tape.gradient(y, x))
    1.0
    """
    if f is None:
        return custom_gradient
    function = f

    def decorated(*args: Any, **kwargs: Any) -> Any:
        _refuse_batches(args)
        watcher = VariableWatcher()
        with stack.started(watcher):
            result, grad_fn = _pair(function(*args, **kwargs), function)
        if not callable(grad_fn):
            raise TypeError(
                f"unsupported callable: {_name(function)} returned {grad_fn!r} where a gradient function is "
                "expected, as in `return y, grad`."
            )
        inputs = nest.flatten(args)
        given = {leaf.uid for leaf in [*leaves(args), *leaves(kwargs)] if isinstance(leaf, Variable)}
        variables = [v for uid, v in sorted(watcher.variables.items()) if uid not in given]
        takes_variables = _accepts_variables(grad_fn)
        if variables and not takes_variables:
            raise TypeError(
                "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: "
                f"{variables}"
            )
        results = nest.flatten(result)
        flat = [convert(differentiable_part(leaf)) for leaf in results]
        # New tensors: a tape must record the user's gradient for them, not the ops of the body.
        outputs = tuple(wrap(t.array) for t in flat)
        tensors = [convert(differentiable_part(leaf)) for leaf in inputs] + [read(v) for v in variables]
        call = _Call(_on_composites(grad_fn, results), len(inputs), variables)
        record(CUSTOM, tensors, outputs, {"call": call, "body": tuple(t.uid for t in flat)})
        return nest.pack_sequence_as(result, [with_gradient(*pair) for pair in zip(results, outputs, strict=True)])

    return Bind(custom_gradient, function, decorated)


class Bind:
    """A decorated function as a method: the instance is not an input and gets no gradient."""

    def __init__(self, decorator: Callable[..., Any], function: Callable[..., Any], call: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._decorator, self._function, self._call = decorator, function, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], type):  # of a `classmethod`, which does not call `__get__` from Python 3.13 on
            return self.__get__(args[0])(*args[1:], **kwargs)
        return self._call(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self._decorator(MethodType(self._function, instance))


def _refuse_batches(args: Any) -> None:
    """Raise EscapeError for batches of recorded tensors: an outer tape would record the ops of the body."""
    for leaf in nest.flatten(args):
        batch = leaf.array if type(leaf) is Tensor else None
        recorded = type(batch) is Batched and type(batch.array) is Tensor
        if recorded and any(recorder.born < batch.level for recorder in active_recorders()):  # type: ignore[union-attr]
            raise EscapeError("a custom gradient is needed row by row where a tape is outside of the rows")


def _pair(returned: Any, function: Any) -> tuple[Any, Any]:
    """The result of a decorated function and its gradient function."""
    try:
        result, grad_fn = returned
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):  # raised by a tensor that is being traced, with advice
            raise
        raise type(error)(
            f"{str(error).rstrip('.')}. A function decorated with tf.custom_gradient must return its result and a "
            f"gradient function, as in `return y, grad`: {_name(function)} returned {returned!r}."
        ) from None
    return result, grad_fn


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def _accepts_variables(grad_fn: Any) -> bool:
    import inspect

    try:
        signature = inspect.signature(grad_fn)
    except (TypeError, ValueError):
        return False
    return "variables" in signature.parameters or any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())


def _on_composites(grad_fn: Callable[..., Any], results: list[Any]) -> Callable[..., Any]:
    """The user's gradient function; it gets the gradients of ragged results as ragged tensors."""
    if not any(map(is_composite, results)):
        return grad_fn

    def called(*upstream: Any, **variables: Any) -> Any:
        return grad_fn(*[with_gradient(*pair) for pair in zip(results, upstream, strict=True)], **variables)

    return called


class _Call:
    """One call of a function with a custom gradient, with the data of its vjp rule."""

    __slots__ = ("grad_fn", "inputs", "variables")

    def __init__(self, grad_fn: Callable[..., Any], inputs: int, variables: list[Variable]) -> None:
        self.grad_fn, self.inputs, self.variables = grad_fn, inputs, variables

    def __call__(self, upstream: list[Tensor]) -> list[Any]:
        """The gradients of all inputs, followed by those of all variables."""
        if not self.variables:
            return self._checked(self.grad_fn(*upstream))
        both = self.grad_fn(*upstream, variables=self.variables)
        if not isinstance(both, (tuple, list)) or len(both) != 2:
            raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        grads, of_variables = both
        of_variables = nest.flatten(of_variables) if of_variables is not None else []
        if len(of_variables) != len(self.variables):
            raise ValueError(
                "Must return gradient for each variable from @custom_gradient grad_fn. "
                f"It used {len(self.variables)} variables and returned {len(of_variables)} gradients for them."
            )
        return [*self._checked(grads), *of_variables]

    def _checked(self, grads: Any) -> list[Any]:
        flat = [differentiable_part(g) for g in nest.flatten(grads)]
        if self.inputs == 0 and flat == [None]:
            flat = []
        if len(flat) != self.inputs:
            raise ValueError(
                f"custom_gradient function expected to return {self.inputs} gradients, but returned {len(flat)} "
                "instead."
            )
        return flat


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `f` so that the backward pass runs it again instead of saving its intermediate values.

    >>> import gradtape as tf
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.recompute_grad(lambda x: x**3)(x)
    >>> float(tape.gradient(y, x))
    27.0
    """

    def recomputed(*args: Any, **kwargs: Any) -> Any:
        @custom_gradient
        def once(*args: Any) -> Any:
            watchers = tuple(r for r in active_recorders() if isinstance(r, VariableWatcher))
            with stack.use_recorders(watchers):
                result = f(*args, **kwargs)

            def run_again() -> tuple[Tape, Any, Any]:
                with Tape() as tape:
                    # A new tensor for every argument: one that is passed twice has two gradients.
                    own = nest.map_structure(_copied, args)
                    tape.watch([*filter(_is_tensor, nest.flatten(own))])
                    return tape, own, f(*own, **kwargs)

            def grad(*upstream: Any, variables: Any = ()) -> Any:
                tape, own, again = run_again()
                sources = [*nest.flatten(own), *variables]
                requested = [s for s in sources if isinstance(s, (Tensor, Variable))]
                gradients = tape.gradient(
                    nest.flatten(again), requested, output_gradients=list(upstream), unconnected_gradients="zero"
                )
                found = iter(gradients)
                grads = [next(found) if isinstance(s, (Tensor, Variable)) else None for s in sources]
                count = len(grads) - len(variables)
                flat = grads[:count]
                return (flat, grads[count:]) if variables else flat

            setattr(grad, "run_again", run_again)  # noqa: B010 - for Taylor mode
            return result, grad

        return once(*args)

    return Bind(recompute_grad, f, recomputed)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor)


def _copied(leaf: Any) -> Any:
    return identity(convert(leaf)) if isinstance(leaf, (Tensor, Variable)) else leaf


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `f` so that its gradient is that of the identity.

    >>> import gradtape as tf
    >>> x = tf.constant(2.7)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.grad_pass_through(tf.floor)(x)
    >>> float(y), float(tape.gradient(y, x))
    (2.0, 1.0)
    """

    @custom_gradient
    def with_identity_gradient(*args: Any, **kwargs: Any) -> Any:
        def grad(*upstream: Any, variables: Any = None) -> Any:
            grads = upstream[0] if len(upstream) == 1 else list(upstream)
            return (grads, [None] * len(variables)) if variables is not None else grads

        return f(*args, **kwargs), grad

    functools.update_wrapper(with_identity_gradient, f, updated=())
    wrapped: Callable[..., Any] = with_identity_gradient
    return wrapped
