"""ForwardAccumulator: Jacobian-vector products that are computed while the program runs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from gradtape._src import errors, nest
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.autodiff.arguments import UnconnectedGradients, leaves
from gradtape._src.autodiff.rows import next_level
from gradtape._src.autodiff.settings import settings
from gradtape._src.call_sites import logger
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.jvp import marked_push, push
from gradtape._src.core.tape import Recorder, active_recorders
from gradtape._src.interrupts import float_errors_ignored, guarded
from gradtape._src.ops.array import broadcast_to
from gradtape._src.tensor import Tensor, dimensions_shown, is_differentiable
from gradtape._src.variable import Variable, peek, unwrapped


class _Pusher(Recorder):
    """A recorder that keeps no records: it pushes tangents through each op immediately.

    The tangent of a tensor is deleted with the tensor.
    """

    __slots__ = ("__weakref__", "_results", "tangents")

    pushes = True

    def __init__(self) -> None:
        # Not Recorder's initializer: a bound method stored in the recorder would be a reference cycle.
        self.records, self.tracked, self.may_raise, self.born = [], {}, False, 0
        self.tangents: dict[int, Any] = {}
        self._results: dict[int, _Result] = {}

    def append(self, record: Any) -> bool:
        active = active_recorders()
        outside = active[active.index(self) + 1 :]  # inner recorders do not record the tangents
        with stack.use_recorders(outside), float_errors_ignored(), dimensions_shown():
            (marked_push if settings.checks_numerics else push)(record, self.tangents, self.tracked, traced=True)
        return True  # on_op follows

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        for tensor in outputs if type(outputs) is tuple else (outputs,):
            if tensor.uid in self.tangents:
                self._results[tensor.uid] = _Result(tensor, self)

    def forget(self, uid: int) -> None:
        """Drop the tangent of a deleted tensor."""
        for known in (self.tangents, self.tracked, self._results):
            known.pop(uid, None)


class _Result(weakref.ref[Tensor]):
    """A weak reference to the result of an op that notifies accumulators when the result is deleted."""

    __slots__ = ("pusher", "uid")

    def __new__(cls, tensor: Tensor, pusher: _Pusher) -> _Result:
        return super().__new__(cls, tensor, _is_gone)

    def __init__(self, tensor: Tensor, pusher: _Pusher) -> None:
        self.uid, self.pusher = tensor.uid, weakref.ref(pusher)


def _is_gone(result: Any) -> None:
    pusher = result.pusher()
    if pusher is not None:
        pusher.forget(result.uid)


class ForwardAccumulator:
    """Compute directional derivatives of the ops inside a `with` block, along `tangents`.

    >>> import gradtape as tf
    >>> x = tf.constant(3.0)
    >>> with tf.autodiff.ForwardAccumulator(x, tf.constant(2.0)) as acc:
    ...     y = x * x
    >>> float(acc.jvp(y))
    12.0
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        self._pusher = _Pusher()
        self._recording = False
        nest.assert_same_structure(primals, tangents)
        for primal, tangent in zip(leaves(primals), nest.flatten(tangents), strict=True):
            self._watch(primal, tangent)

    def _watch(self, primal: Any, tangent: Any) -> None:
        if not isinstance(primal, (Tensor, Variable)):
            raise TypeError(
                f"A primal should be a Tensor or Variable, but received {primal!r} of type '{type(primal).__name__}'."
            )
        value = peek(primal).array if isinstance(primal, Variable) else primal.array
        direction = convert(tangent, primal.dtype)
        if primal.uid in self._pusher.tangents:
            raise ValueError(
                "Tensor {} was specified as a primal multiple times. This may indicate an error. If it was intended, "
                "please sum the corresponding tangents."
            )
        if not (primal.dtype.is_floating):
            logger().warning("The dtype of the watched primal must be floating (e.g. tf.float32), got %r", primal.dtype)
        if not is_differentiable(value):
            return
        if direction.array.shape != value.shape:
            try:
                direction = broadcast_to(direction, shape=tuple(value.shape))
            except (ValueError, errors.InvalidArgumentError):
                raise ValueError(
                    f"A tangent must have the shape of its primal; received {tuple(direction.array.shape)} for a "
                    f"primal of shape {tuple(value.shape)}."
                ) from None
        self._pusher.tangents[primal.uid] = direction
        self._pusher.tracked[primal.uid] = tuple(value.shape)

    @classmethod
    def _batch_accumulator(cls, primals: Any, tangents: Any) -> ForwardAccumulator:
        """Use several directions in one pass: tangents, and the results of `jvp`, have an additional leading axis.

        >>> import gradtape as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.autodiff.ForwardAccumulator._batch_accumulator(x, tf.eye(2)) as acc:
        ...     y = tf.reduce_sum(x**2)
        >>> acc.jvp(y).numpy().tolist()
        [2.0, 4.0]
        """
        acc = cls([], [])
        level = next_level()
        nest.assert_same_structure(primals, tangents)
        for primal, tangent in zip(leaves(primals), nest.flatten(tangents), strict=True):
            rows = convert(tangent, primal.dtype)
            shape = tuple(primal.shape)
            if tuple(rows.shape[1:]) != shape or not rows.array.shape:
                raise ValueError(f"Shapes {tuple(rows.shape)} and {(None, *shape)} are incompatible")
            acc._pusher.tangents[primal.uid] = Batched(rows, level)
            acc._pusher.tracked[primal.uid] = shape
        return acc

    def __enter__(self) -> ForwardAccumulator:
        if self._recording:
            raise ValueError("Accumulator is already recording.")
        try:
            self._recording = True
            stack.start(self._pusher)
            return self
        except BaseException:
            self._stop()
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._stop()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._recording:
            stack.stop(self._pusher)
            self._recording = False

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """Return the derivatives of results computed inside the block, in the structure of `primals`.

        This computes nothing; the tangents were computed together with the results.
        """
        policy = UnconnectedGradients(unconnected_gradients)

        def tangent_of(primal: Any) -> Any:
            primal = unwrapped(primal)
            if not isinstance(primal, (Tensor, Variable)):
                raise TypeError(f"jvp takes Tensors and Variables, but received {primal!r}.")
            found = self._pusher.tangents.get(primal.uid)
            if found is None and policy is UnconnectedGradients.ZERO:
                value = peek(primal).array if isinstance(primal, Variable) else primal.array
                return wrap(namespace_of(value).zeros_like(value))
            return found.rows() if type(found) is Batched else found

        return nest.map_structure(tangent_of, primals)
