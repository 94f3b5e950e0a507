"""`tf.tpu.experimental.embedding`: embedding tables, features and lookups as they are configured for TPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from gradtape._src import dtypes, nest
from gradtape._src.checkpoint.tracking import resume_at
from gradtape._src.distribute.context import get_strategy
from gradtape._src.distribute.strategy import TPUStrategy
from gradtape._src.function.modes import init_scope
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.embedding import embedding_lookup
from gradtape._src.tf.indexing import scatter_nd
from gradtape._src.tf.math import sqrt
from gradtape._src.tf.nn import embedding_lookup_sparse, safe_embedding_lookup_sparse
from gradtape._src.tf.segments import unsorted_segment_sum
from gradtape._src.tf.sparse import slice as sparse_slice
from gradtape._src.tf.special import divide_no_nan
from gradtape._src.tf.tpu_configs import (
    FeatureConfig,
    QuantizationConfig,
    RowIdInitializer,
    SparseCoreEmbeddingConfig,
    TableConfig,
)
from gradtape._src.tf.tpu_optimizers import (
    FTRL,
    SGD,
    Adagrad,
    AdagradMomentum,
    Adam,
    CustomCombiner,
    CustomOptimizer,
    Optimizer,
)
from gradtape._src.variable import Variable

__all__ = [
    "FTRL",
    "SGD",
    "Adagrad",
    "AdagradMomentum",
    "Adam",
    "CustomCombiner",
    "CustomOptimizer",
    "FeatureConfig",
    "QuantizationConfig",
    "RowIdInitializer",
    "SparseCoreEmbeddingConfig",
    "TPUEmbedding",
    "TPUEmbeddingForServing",
    "TPUEmbeddingV0",
    "TPUEmbeddingV2",
    "TableConfig",
    "serving_embedding_lookup",
]


# -- tables ------------------------------------------------------------------------------------------------------------
class _Tables:
    """The variables of the tables that features use. They exist after the first use, and checkpoints save them."""

    def __init__(self, feature_config: Any, optimizer: Any) -> None:
        self._feature_config = feature_config
        self._tables: list[TableConfig] = []
        for feature in nest.flatten(feature_config):
            if not any(feature.table is table for table in self._tables):
                self._tables.append(feature.table)
        names: set[str] = set()
        for i, table in enumerate(self._tables):
            table.optimizer = optimizer if table.optimizer is None else table.optimizer
            table.name = f"table_{i}" if table.name is None else table.name
            _check_optimizer(table.optimizer)
            if table.name in names:
                raise ValueError(f"Tables must have a unique name. Multiple tables with name {table.name} found.")
            names.add(table.name)
        self._variables: dict[str, dict[str, Variable]] = {}

    def build(self) -> None:
        """Create the variables, unless they exist."""
        with init_scope():
            for table in self._tables:
                if table.name not in self._variables:
                    self._variables[str(table.name)] = self._variables_of(table)
                    resume_at(self, "_variables")  # a restored checkpoint may have values for them

    @staticmethod
    def _variables_of(table: TableConfig) -> dict[str, Variable]:
        shape = (table.vocabulary_size, table.dim)

        def make(name: str, initializer: Any, trainable: bool = False) -> Variable:
            return Variable(initializer(shape, dtype=dtypes.float32), trainable=trainable, name=name)

        parameters = make(str(table.name), table.initializer, True)
        slots: dict[str, Variable] = {}
        if table.optimizer is not None:
            slots = table.optimizer._create_slots(parameters, lambda slot, first: make(f"{table.name}/{slot}", first))
        return {**slots, "parameters": parameters}

    @property
    def embedding_tables(self) -> dict[TableConfig, Variable]:
        """The variable of each table."""
        self.build()
        return {table: self._variables[str(table.name)]["parameters"] for table in self._tables}

    def _trackable_children(self) -> dict[str, Any]:
        """The variables, under the names that TensorFlow gives them in checkpoints."""
        return {
            table if slot == "parameters" else f"{table}/{slot}": variable
            for table, slots in self._variables.items()
            for slot, variable in slots.items()
        }


def _check_optimizer(optimizer: Any) -> None:
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise ValueError(
            f"{type(optimizer)} is an unsupported optimizer class. Please pass an instance of one of the optimizer "
            "classes under tf.tpu.experimental.embedding."
        )


class TPUEmbeddingForServing(_Tables):
    """Embedding tables and their lookups, on any device.

    Args:
      feature_config: A `FeatureConfig`, or a structure of them.
      optimizer: One of the optimizers of this namespace, for tables without one: their slots are created, so that a
        checkpoint of training can be restored. None for no slots.
      experimental_sparsecore_restore_info: Accepted for compatibility.

    >>> configs = tf.tpu.experimental.embedding
    >>> table = configs.TableConfig(4, 2, initializer=configs.RowIdInitializer(), combiner="sum")
    >>> embedding = configs.TPUEmbeddingForServing({"words": configs.FeatureConfig(table)}, optimizer=None)
    >>> embedding({"words": tf.ragged.constant([[1], [2, 3]])})["words"].numpy().tolist()
    [[1.0, 1.0], [5.0, 5.0]]
    """

    def __init__(
        self,
        feature_config: Any,
        optimizer: Any,
        experimental_sparsecore_restore_info: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(get_strategy(), TPUStrategy):
            raise RuntimeError("Serving on TPU is not yet supported. Create the object outside of strategy.scope().")
        super().__init__(feature_config, optimizer)

    @property
    def variables(self) -> dict[str, dict[str, Variable]]:
        """The table, as `"parameters"`, and the slots, by the name of each table."""
        self.build()
        return self._variables

    def embedding_lookup(self, features: Any, weights: Any = None) -> Any:
        """Look up features: see `serving_embedding_lookup`."""
        return serving_embedding_lookup(features, weights, self.embedding_tables, self._feature_config)

    __call__ = embedding_lookup


class TPUEmbeddingV0(_Tables):
    """Embedding tables whose lookups are ops like any other, in replicas of a `TPUStrategy`.

    Args:
      feature_config: A `FeatureConfig`, or a structure of them.
      optimizer: One of the optimizers of this namespace, for tables without one.

    >>> configs = tf.tpu.experimental.embedding
    >>> configs.TPUEmbeddingV0(configs.FeatureConfig(configs.TableConfig(4, 2)), configs.SGD())
    Traceback (most recent call last):
        ...
    RuntimeError: TPUEmbeddingV0 should be created under TPUStrategy but found <...
    """

    def __init__(self, feature_config: Any, optimizer: Any) -> None:
        if not isinstance(get_strategy(), TPUStrategy):
            raise RuntimeError(
                f"TPUEmbeddingV0 should be created under TPUStrategy but found {get_strategy()}. On other devices use "
                "TPUEmbeddingForServing."
            )
        super().__init__(feature_config, optimizer)

    def embedding_lookup(self, features: Any, weights: Any = None) -> Any:
        """Look up features, which have the structure of the configuration."""
        nest.assert_same_structure(features, self._feature_config)
        return serving_embedding_lookup(features, weights, self.embedding_tables, self._feature_config)

    __call__ = embedding_lookup


class TPUEmbedding(_Tables):
    """Embedding tables for the embedding engine of TPUs; on other devices, their variables and checkpoints.

    JAX gives programs no access to that engine, so that a `TPUStrategy` is refused: `TPUEmbeddingV0` runs there.

    Args:
      feature_config: A `FeatureConfig`, or a structure of them.
      optimizer: One of the optimizers of this namespace, for tables without one; None for no slots.
      pipeline_execution_with_tensor_core: Accepted for compatibility.

    >>> configs = tf.tpu.experimental.embedding
    >>> embedding = configs.TPUEmbedding(configs.FeatureConfig(configs.TableConfig(4, 2)), configs.SGD())
    >>> [table.shape.as_list() for table in embedding.embedding_tables.values()]
    [[4, 2]]
    >>> embedding.dequeue()
    Traceback (most recent call last):
        ...
    RuntimeError: dequeue is not valid when TPUEmbedding object is not created under a TPUStrategy....
    """

    def __init__(self, feature_config: Any, optimizer: Any, pipeline_execution_with_tensor_core: bool = False) -> None:
        if isinstance(get_strategy(), TPUStrategy):
            _refuse("TPUEmbedding")
        super().__init__(feature_config, optimizer)

    def build(self, per_replica_input_shapes: Any = None, per_replica_batch_size: Any = None) -> None:
        """Create the variables, unless they exist. The arguments are for TPUs."""
        super().build()

    def enqueue(
        self, features: Any, weights: Any = None, training: bool = True, name: str | None = None, device: Any = None
    ) -> NoReturn:
        """Send ids to the embedding engine: RuntimeError, because there is none."""
        _without_engine("enqueue")

    def dequeue(self, name: str | None = None) -> NoReturn:
        """Receive rows from the embedding engine: RuntimeError, because there is none."""
        _without_engine("dequeue")

    def apply_gradients(self, gradients: Any, name: str | None = None) -> NoReturn:
        """Send gradients to the embedding engine: RuntimeError, because there is none."""
        _without_engine("apply_gradients")


def _without_engine(method: str) -> NoReturn:
    raise RuntimeError(
        f"{method} is not valid when TPUEmbedding object is not created under a TPUStrategy. Look features up with "
        "tf.tpu.experimental.embedding.serving_embedding_lookup."
    )


class TPUEmbeddingV2:
    """Embedding tables on the SparseCores of TPUs, to which JAX gives programs no access: it cannot be created.

    Args:
      feature_config: A `FeatureConfig`, or a structure of them.
      optimizer: One of the optimizers of this namespace.
      pipeline_execution_with_tensor_core: For TPUs.
      sparse_core_embedding_config: For TPUs.

    >>> configs = tf.tpu.experimental.embedding
    >>> configs.TPUEmbeddingV2(configs.FeatureConfig(configs.TableConfig(4, 2)), configs.SGD())
    Traceback (most recent call last):
        ...
    RuntimeError: TPUEmbeddingV2 should be created under TPUStrategy but found <...
    """

    def __init__(
        self,
        feature_config: Any,
        optimizer: Any = None,
        pipeline_execution_with_tensor_core: bool = False,
        sparse_core_embedding_config: SparseCoreEmbeddingConfig | None = None,
    ) -> None:
        if isinstance(get_strategy(), TPUStrategy):
            _refuse("TPUEmbeddingV2")
        raise RuntimeError(
            f"TPUEmbeddingV2 should be created under TPUStrategy but found {get_strategy()}. On other devices use "
            "TPUEmbeddingForServing."
        )


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name} needs the embedding engine of a TPU, to which JAX gives programs no access. TPUEmbeddingV0 looks up "
        "the same tables with ordinary ops."
    )


# -- lookups -----------------------------------------------------------------------------------------------------------
def serving_embedding_lookup(inputs: Any, weights: Any, tables: Mapping[TableConfig, Any], feature_config: Any) -> Any:
    """Look up features in their tables, and combine the rows of several ids.

    Args:
      inputs: A tensor, sparse tensor or ragged tensor of ids for each feature; some of the features may be missing.
      weights: None, or a structure like `inputs` of sparse or ragged weights and None.
      tables: The variable or tensor of each table.
      feature_config: A structure of `FeatureConfig`.

    >>> configs = tf.tpu.experimental.embedding
    >>> words = configs.TableConfig(vocabulary_size=3, dim=2)
    >>> variable = tf.Variable([[0.0, 0.0], [1.0, 1.0], [2.0, 4.0]])
    >>> features = {"text": configs.FeatureConfig(words), "last": configs.FeatureConfig(words)}
    >>> ids = {"text": tf.ragged.constant([[0, 1], [2]]), "last": tf.constant([1, 2])}
    >>> found = configs.serving_embedding_lookup(ids, None, {words: variable}, features)
    >>> found["text"].numpy().tolist(), found["last"].numpy().tolist()
    ([[0.5, 0.5], [2.0, 4.0]], [[1.0, 1.0], [2.0, 4.0]])
    """
    flat = list(_with_paths(inputs))
    amounts = [None] * len(flat)
    if weights is not None:
        nest.assert_same_structure(inputs, weights)
        amounts = nest.flatten(weights)
    features = dict(_with_paths(feature_config))
    if not features.keys() >= {path for path, _ in flat}:
        raise ValueError(
            f"Inputs are not a subset of feature_config. Inputs keys are { {path for path, _ in flat} }, but "
            f"feature_config keys are {features.keys()}"
        )
    results = []
    for (path, ids), weight in zip(flat, amounts, strict=True):
        feature = features[path]
        _check_ids(path, ids, weight, feature)
        results.append(_lookup(ids, weight, tables[feature.table], feature))
    return nest.pack_sequence_as(inputs, results)


def _with_paths(structure: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The leaves of a structure, in the order of `nest.flatten`, with the names on the way to them."""
    if not nest.is_nested(structure):
        yield "/".join(path), structure
        return
    if isinstance(structure, Mapping):
        parts = [(key, structure[key]) for key in sorted(structure)]
    else:
        parts = list(zip(getattr(structure, "_fields", range(len(structure))), structure, strict=True))
    for key, part in parts:
        yield from _with_paths(part, (*path, str(key)))


def _check_ids(path: str, ids: Any, weight: Any, feature: FeatureConfig) -> None:
    is_dense = isinstance(ids, Tensor)
    if weight is not None:
        if is_dense:
            raise ValueError(f"Weight specified for {path}, but input is dense.")
        if type(weight) is not type(ids):
            raise ValueError(
                f"Weight for {path} is of type {type(weight)} but it does not match type of the input which is "
                f"{type(ids)}."
            )
        if feature.max_sequence_length > 0:
            raise ValueError(f"Weight specified for {path}, but this is a sequence feature.")
    if is_dense and feature.max_sequence_length > 0:
        raise ValueError(f"Feature {path} is a sequence feature but a dense tensor was passed.")
    if not isinstance(ids, (Tensor, SparseTensor, RaggedTensor)):
        raise ValueError(f"Input {path} is type {type(ids)}. Tensor, SparseTensor or RaggedTensor expected.")
    if isinstance(ids, RaggedTensor) and ids.shape.rank != 2:
        raise ValueError(f"Only rank 2 ragged tensor is supported, but got rank {ids.shape.rank}")


def _lookup(ids: Any, weight: Any, table: Any, feature: FeatureConfig) -> Tensor:
    if isinstance(ids, SparseTensor):
        return _lookup_sparse(ids, weight, table, feature)
    if isinstance(ids, RaggedTensor):
        return _lookup_ragged(ids, weight, table, feature)
    return embedding_lookup(table, ids)


def _lookup_sparse(ids: SparseTensor, weight: Any, table: Any, feature: FeatureConfig) -> Tensor:
    rank, length = ids.shape.rank, feature.max_sequence_length
    if not feature.output_shape and length > 0 and rank in (None, 2):
        count = array.cast(array.shape(ids)[0], dtypes.int64)
        cut = sparse_slice(ids, [0, 0], array.stack([count, length]))
        shape = array.stack([count, length, feature.table.dim])
        padded: Tensor = scatter_nd(cut.indices, array.gather(table, cut.values), shape)
        return padded
    if not feature.validate_weights_and_indices and rank is not None and rank <= 2:
        return embedding_lookup_sparse(table, ids, weight, _combiner_of(feature))
    return safe_embedding_lookup_sparse(table, ids, weight, _combiner_of(feature))


def _lookup_ragged(ids: RaggedTensor, weight: Any, table: Any, feature: FeatureConfig) -> Tensor:
    """Rows are combined, or padded to a length: that of the feature, or that which its output shape leaves."""
    length, batch = feature.max_sequence_length, ids.shape[0]
    outer = feature.output_shape
    if outer:
        count = outer.num_elements()
        if count is None or batch is None or count < batch or count % batch:
            raise ValueError(
                "Output shape set in the FeatureConfig should be the factor of the input data batch size. But instead "
                f"got output shape {outer}, input data batch size {batch}"
            )
        length = 0 if count == batch else count // batch
    if length:
        found: Any = embedding_lookup(table, ids)
        rows = found.to_tensor(shape=[batch, length, feature.table.dim])
    else:
        rows = _combined(ids, weight, table, _combiner_of(feature))
    return array.reshape(rows, [*outer.as_list(), feature.table.dim]) if outer else rows


def _combiner_of(feature: FeatureConfig) -> str:
    combiner = feature.table.combiner
    if isinstance(combiner, str):
        return combiner
    raise ValueError(
        f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}: only TPUs run a CustomCombiner."
    )


def _combined(ids: RaggedTensor, weight: Any, table: Any, combiner: str) -> Tensor:
    """The weighted sum of the vectors of each row of ids, divided as the combiner says."""
    where, count = ids.value_rowids(), ids.nrows()
    rows = embedding_lookup(table, ids.values)
    amounts = array.ones_like(ids.values, dtype=rows.dtype) if weight is None else array.cast(weight.values, rows.dtype)
    total: Tensor = unsorted_segment_sum(rows * amounts[:, None], where, count)
    if combiner == "sum":
        return total
    squares = amounts if combiner == "mean" else amounts * amounts
    norm = unsorted_segment_sum(squares, where, count)[:, None]
    return divide_no_nan(total, norm if combiner == "mean" else sqrt(norm))
