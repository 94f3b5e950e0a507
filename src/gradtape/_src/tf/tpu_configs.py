"""The settings of `tf.tpu.experimental.embedding`: tables, features, and how TPUs store them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape._src import dtypes
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.random.stateful import truncated_normal
from gradtape._src.tf.tpu_optimizers import CustomCombiner

__all__ = ["FeatureConfig", "QuantizationConfig", "RowIdInitializer", "SparseCoreEmbeddingConfig", "TableConfig"]

_COMBINERS = ("mean", "sum", "sqrtn")


class QuantizationConfig:
    """Values of a table are rounded to `num_buckets` numbers from `lower` to `upper` by TPUs.

    >>> tf.tpu.experimental.embedding.QuantizationConfig(16, lower=0.0, upper=1.0)
    QuantizationConfig(num_buckets=16, lower=0.0, upper=1.0)
    """

    def __init__(self, num_buckets: int, lower: float, upper: float) -> None:
        if num_buckets < 2:
            raise ValueError(f"num_buckets is {num_buckets}, must be at least 2 for simulated quantization.")
        self.num_buckets, self.lower, self.upper = num_buckets, lower, upper

    def __repr__(self) -> str:
        return f"QuantizationConfig(num_buckets={self.num_buckets!r}, lower={self.lower!r}, upper={self.upper!r})"


@dataclass
class SparseCoreEmbeddingConfig:
    """How the embedding engine of TPUs stores tables: read by libraries, without an effect here.

    Args:
      disable_table_stacking: Whether tables of equal width are kept apart.
      max_ids_per_chip_per_sample: The size of buffers.
      max_ids_per_table: The size of buffers by table.
      max_unique_ids_per_table: The size of buffers by table.
      allow_id_dropping: Whether ids that do not fit are dropped.
      initialize_tables_on_host: Whether tables are created on the host.
      enable_fast_table_initialization: Whether tables are created in parallel.

    >>> tf.tpu.experimental.embedding.SparseCoreEmbeddingConfig().max_ids_per_chip_per_sample
    64
    """

    disable_table_stacking: bool = False
    max_ids_per_chip_per_sample: int = 64
    max_ids_per_table: Mapping[str, int] | None = None
    max_unique_ids_per_table: Mapping[str, int] | None = None
    allow_id_dropping: bool = False
    initialize_tables_on_host: bool = True
    enable_fast_table_initialization: bool = False


class RowIdInitializer:
    """An initializer whose rows contain their index.

    >>> tf.tpu.experimental.embedding.RowIdInitializer(offset=3)([2, 2], tf.float32).numpy().tolist()
    [[3.0, 3.0], [4.0, 4.0]]
    """

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def __call__(self, shape: Sequence[int], dtype: Any) -> Tensor:
        """A table of this shape and dtype."""
        rows = array.range(self.offset, self.offset + shape[0], dtype=dtype)
        table: Tensor = array.broadcast_to(rows[:, None], shape)
        return table


class _DefaultInitializer:
    """The initializer of a table without one: a truncated normal distribution."""

    def __init__(self, dim: int) -> None:
        self.mean, self.stddev = 0.0, 1 / math.sqrt(dim)

    def __call__(self, shape: Sequence[int], dtype: Any = dtypes.float32) -> Tensor:
        drawn: Tensor = truncated_normal(shape, self.mean, self.stddev, dtype)
        return drawn


class TableConfig:
    """An embedding table: its shape, initial values, optimizer, and how rows of several ids are combined.

    Args:
      vocabulary_size: The number of rows.
      dim: The width of a row.
      initializer: A function of the shape and the dtype; by default a truncated normal distribution with standard
        deviation `1 / sqrt(dim)`.
      optimizer: One of the optimizers of `tf.tpu.experimental.embedding`, or None for that of the embedding.
      combiner: `"mean"`, `"sum"` or `"sqrtn"`; TPUs also run a `CustomCombiner`.
      name: The name of the table's variable.
      quantization_config: A `QuantizationConfig`.
      layout: Accepted for compatibility.
      dtype: float32 or int32.

    >>> table = tf.tpu.experimental.embedding.TableConfig(vocabulary_size=1000, dim=16, name="video")
    >>> table.combiner, round(table.initializer.stddev, 2)
    ('mean', 0.25)
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        initializer: Any = None,
        optimizer: Any = None,
        combiner: str | CustomCombiner = "mean",
        name: str | None = None,
        quantization_config: QuantizationConfig | None = None,
        layout: Any = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        _check_positive("`vocabulary_size`", vocabulary_size)
        _check_positive("`dim` (embedding dimension)", dim)
        if initializer is not None and not callable(initializer):
            raise ValueError(f"Argument `initializer` must be a callable (or None). Received: {initializer}")
        _check_combiner(combiner)
        if dtype not in (dtypes.float32, dtypes.int32):
            raise ValueError(f"Argument `dtype` must be either float32 or int32. Received: {dtype}")
        self.vocabulary_size, self.dim = vocabulary_size, dim
        self.initializer = _DefaultInitializer(dim) if initializer is None else initializer
        self.optimizer, self.combiner, self.name = optimizer, combiner, name
        self.quantization_config, self.layout, self.dtype = quantization_config, layout, dtype

    def __repr__(self) -> str:
        initializer = None if isinstance(self.initializer, _DefaultInitializer) else self.initializer
        return (
            f"TableConfig(vocabulary_size={self.vocabulary_size!r}, dim={self.dim!r}, initializer={initializer!r}, "
            f"optimizer={self.optimizer!r}, combiner={self.combiner!r}, name={self.name!r}, "
            f"quantization_config={self.quantization_config!r})"
        )


def _check_positive(what: str, value: Any) -> None:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"Argument {what} must be an int and must be >= 1. Received: {value}")


def _check_combiner(combiner: Any) -> None:
    if isinstance(combiner, str):
        if combiner not in _COMBINERS:
            raise ValueError(f"String argument `combiner` must be in {_COMBINERS}. Received: {combiner}")
    elif not isinstance(combiner, CustomCombiner):
        raise ValueError(f"Argument `combiner` should either be a str or a CustomCombiner. Received: {type(combiner)}")


class FeatureConfig:
    """A feature: ids that are looked up in a table.

    Args:
      table: A `TableConfig`; several features may share one.
      max_sequence_length: If positive, rows are not combined, but padded or cut to this length.
      validate_weights_and_indices: Whether negative ids and weights are ignored, and rows without ids are 0.
      output_shape: The shape of the result without its last axis.
      name: A name.

    >>> table = tf.tpu.experimental.embedding.TableConfig(vocabulary_size=1000, dim=16)
    >>> tf.tpu.experimental.embedding.FeatureConfig(table, max_sequence_length=8).table is table
    True
    """

    def __init__(
        self,
        table: TableConfig,
        max_sequence_length: int = 0,
        validate_weights_and_indices: bool = True,
        output_shape: Any = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(table, TableConfig):
            raise ValueError(
                f"Argument `table` has invalid type {type(table)}. Expected "
                "`tf.tpu.experimental.embedding.TableConfig`."
            )
        if not isinstance(max_sequence_length, int) or max_sequence_length < 0:
            raise ValueError(
                f"Argument `max_sequence_length` must be an int and must be >= 0. Received: {max_sequence_length}"
            )
        if not isinstance(validate_weights_and_indices, bool):
            raise ValueError(
                f"Argument `validate_weights_and_indices` must be a boolean. Received: {validate_weights_and_indices}"
            )
        self.table, self.max_sequence_length, self.name = table, max_sequence_length, name
        self.output_shape = TensorShape(output_shape)
        self.validate_weights_and_indices = validate_weights_and_indices

    def __repr__(self) -> str:
        return (
            f"FeatureConfig(table={self.table!r}, max_sequence_length={self.max_sequence_length!r}, "
            f"validate_weights_and_indices={self.validate_weights_and_indices!r}, "
            f"output_shape={self.output_shape!r}, name={self.name!r})"
        )
