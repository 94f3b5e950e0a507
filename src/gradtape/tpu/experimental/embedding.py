"""`tf.tpu.experimental.embedding`: embedding tables, features and lookups as they are configured for TPUs."""

import typing as _typing

from gradtape._src.tf.tpu_embedding import (
    FTRL as FTRL,
    SGD as SGD,
    Adagrad as Adagrad,
    AdagradMomentum as AdagradMomentum,
    Adam as Adam,
    CustomCombiner as CustomCombiner,
    CustomOptimizer as CustomOptimizer,
    FeatureConfig as FeatureConfig,
    QuantizationConfig as QuantizationConfig,
    RowIdInitializer as RowIdInitializer,
    SparseCoreEmbeddingConfig as SparseCoreEmbeddingConfig,
    TableConfig as TableConfig,
    TPUEmbedding as TPUEmbedding,
    TPUEmbeddingForServing as TPUEmbeddingForServing,
    TPUEmbeddingV0 as TPUEmbeddingV0,
    TPUEmbeddingV2 as TPUEmbeddingV2,
    serving_embedding_lookup as serving_embedding_lookup,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
