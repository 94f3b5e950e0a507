"""`tf.ragged`: create ragged tensors, and apply functions to their flat values."""

import typing as _typing

from gradtape._src.tf.ragged import (
    boolean_mask as boolean_mask,
    constant as constant,
    cross as cross,
    cross_hashed as cross_hashed,
    map_flat_values as map_flat_values,
    range as range,
    row_splits_to_segment_ids as row_splits_to_segment_ids,
    segment_ids_to_row_splits as segment_ids_to_row_splits,
    stack as stack,
    stack_dynamic_partitions as stack_dynamic_partitions,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
