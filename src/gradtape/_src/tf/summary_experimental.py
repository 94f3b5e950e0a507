"""Steps, and summaries of your own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.formats.protobuf import decode
from gradtape._src.interrupts import contextmanager
from gradtape._src.tensor import Tensor
from gradtape._src.tf.scopes import name_scope
from gradtape._src.tf.summary_writer import current_writer, get_step, record, set_step, tag_of

__all__ = ["get_step", "set_step", "summary_scope", "write_raw_pb"]

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/\\")


def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> Tensor:
    """Write serialized messages `tf.compat.v1.Summary`, a string or a tensor of them.

    >>> import gradtape as tf
    >>> bool(tf.summary.experimental.write_raw_pb(b"", step=1))
    False
    """

    def summary(value: Tensor) -> bytes:
        messages = np.asarray(value.numpy(), object).ravel().tolist()
        for i, data in enumerate(messages):
            try:
                decode(data)
            except ValueError as error:
                raise errors.DataLossError(
                    None,
                    None,
                    f"Bad tf.compat.v1.Summary binary proto tensor string at index {i} "
                    f"[Op:WriteRawProtoSummary]: {error}",
                ) from None
        return b"".join(messages)  # messages one after the other are merged: all their values are written

    return record(current_writer(), step, lambda: convert(tensor, "string"), summary)


@contextmanager
def summary_scope(name: str | None, default_name: str = "summary", values: Any = None) -> Iterator[tuple[str, str]]:
    """Open a name scope for your own kind of summary; yields the tag for `tf.summary.write`, and the scope.

    >>> import gradtape as tf
    >>> with tf.name_scope("outer"), tf.summary.experimental.summary_scope("my plot") as (tag, scope):
    ...     print(tag, scope)
    outer/my plot outer/myplot/
    """
    tag = tag_of(name, default_name)
    cleaned = "".join(letter for letter in name or default_name if letter in _LETTERS).strip("/")
    with name_scope(cleaned or default_name) as scope:
        yield tag, scope
