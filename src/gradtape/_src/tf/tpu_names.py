"""`tf.tpu`: TPUs."""

from __future__ import annotations

from typing import NamedTuple

from gradtape._src.tf import tpu as experimental

__all__ = ["XLAOptions", "experimental"]


class XLAOptions(NamedTuple):
    """How XLA compiles replicas on TPUs: read by libraries, without an effect here.

    >>> tf.tpu.XLAOptions().enable_xla_dynamic_padder
    True
    """

    use_spmd_for_xla_partitioning: bool = True
    enable_xla_dynamic_padder: bool = True
    use_shardy_partitioner: bool = False
