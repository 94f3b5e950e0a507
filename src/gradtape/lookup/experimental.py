"""`tf.lookup.experimental`: tables that can change."""

from gradtape._src.tf.lookup.experimental import (
    DenseHashTable as DenseHashTable,
    MutableHashTable as MutableHashTable,
)
