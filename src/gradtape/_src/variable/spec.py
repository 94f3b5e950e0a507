"""The specification of a variable."""

from __future__ import annotations

from dataclasses import dataclass

from gradtape._src.dtypes import DType, float32
from gradtape._src.shape import TensorShape


@dataclass(frozen=True)
class VariableSpec:
    """The specification of a variable among the arguments; arguments that are the same variable share an `alias_id`.

    >>> VariableSpec(TensorShape([2]), float32, True, 0)
    VariableSpec(shape=(2,), dtype=tf.float32, trainable=True, alias_id=0)
    """

    shape: TensorShape
    dtype: DType = float32
    trainable: bool | None = True
    alias_id: int | None = None

    def __repr__(self) -> str:
        facts = f"shape={self.shape}, dtype={self.dtype!r}, trainable={self.trainable}, alias_id={self.alias_id}"
        return f"VariableSpec({facts})"
