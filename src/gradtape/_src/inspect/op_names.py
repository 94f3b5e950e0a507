"""The names of primitives that users know, in all views of a tape."""

from __future__ import annotations

from gradtape._src.core.primitive import Op, registry


def shown_op(op: Op) -> str:
    """TensorFlow's name of a primitive, without its namespace.

    >>> [shown_op(registry[name]) for name in ("sum", "power", "absolute", "getitem", "matmul")]
    ['reduce_sum', 'pow', 'abs', '[…]', 'matmul']
    """
    if op.name == "getitem":
        return "[…]"
    return str(op.names[0].rpartition(".")[2] if op.names else op.name)


def op_shown_as(name: str) -> Op | None:
    """The primitive that views call `name`; None if there is none."""
    if name not in _by_name:  # primitives may have been declared since the last call
        _by_name.update({shown_op(op): op for op in reversed(registry.values())})
    return _by_name.get(name)


_by_name: dict[str, Op] = {}
