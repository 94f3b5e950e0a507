"""Tables of `tf.compat.v1.lookup`, with TensorFlow 1's attribute `initializer`."""

from __future__ import annotations

from typing import Any

from gradtape._src.tf.lookup import tables
from gradtape._src.tf.v1.misc import tables_initializer

__all__ = ["StaticHashTable", "StaticVocabularyTable"]


class StaticHashTable(tables.StaticHashTable):
    """An immutable table, with a default value for missing keys.

    >>> words = tf.compat.v1.lookup.KeyValueTensorInitializer(["cat", "dog"], [0, 1])
    >>> table = tf.compat.v1.lookup.StaticHashTable(words, default_value=-1)
    >>> table.lookup(tf.constant(["dog", "cow"])).numpy().tolist()
    [1, -1]
    """

    @property
    def initializer(self) -> Any:
        """An operation that does nothing: the table is initialized when it is created."""
        return tables_initializer()


class StaticVocabularyTable(tables.StaticVocabularyTable):
    """A vocabulary that maps words to ids from 0, and hashes all other words to `num_oov_buckets` further ids.

    >>> words = tf.compat.v1.lookup.KeyValueTensorInitializer(["cat", "dog"], tf.constant([0, 1], tf.int64))
    >>> table = tf.compat.v1.lookup.StaticVocabularyTable(words, num_oov_buckets=3)
    >>> table.lookup(tf.constant(["dog", "cow"])).numpy().tolist()
    [1, 3]
    """

    @property
    def initializer(self) -> Any:
        """An operation that does nothing: the table is initialized when it is created."""
        return tables_initializer()
