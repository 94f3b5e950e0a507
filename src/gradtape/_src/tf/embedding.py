"""Rows of tables by index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.conversion import operand
from gradtape._src.core.composites import dispatched
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import concat, gather
from gradtape._src.tf.clip import clip_by_norm

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


@dispatched
def embedding_lookup(params: TensorLike, ids: Any, max_norm: Any = None, name: str | None = None) -> Tensor:
    """Return rows of a table; the gradient with respect to the table is sparse.

    >>> table = tf.Variable([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(tf.nn.embedding_lookup(table, [2, 1]))
    >>> tape.gradient(y, table).indices.numpy().tolist()
    [2, 1]
    """
    if isinstance(params, (list, tuple)):
        params = params[0] if len(params) == 1 else concat(params, 0)  # shards with consecutive rows
    rows = gather(params, ids)
    if max_norm is None:
        return rows
    axes = list(range(len(operand(ids).array.shape), len(rows.array.shape)))
    clipped: Tensor = clip_by_norm(rows, max_norm, axes)
    return clipped
