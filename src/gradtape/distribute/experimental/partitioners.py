"""`tf.distribute.experimental.partitioners`: into how many parts a large variable is divided along its first axis."""

from gradtape._src.distribute.partitioners import (
    FixedShardsPartitioner as FixedShardsPartitioner,
    MaxSizePartitioner as MaxSizePartitioner,
    MinSizePartitioner as MinSizePartitioner,
    Partitioner as Partitioner,
)
