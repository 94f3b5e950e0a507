"""`tf.lookup.experimental`: mutable tables."""

from gradtape._src.tf.lookup.tables import DenseHashTable, MutableHashTable

__all__ = ["DenseHashTable", "MutableHashTable"]


def __dir__() -> list[str]:
    return list(__all__)
