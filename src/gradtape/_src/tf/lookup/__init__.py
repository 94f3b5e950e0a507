"""`tf.lookup`: tables from keys to values, such as from words to ids and back."""

from gradtape._src.tf.lookup import experimental
from gradtape._src.tf.lookup.initializers import KeyValueTensorInitializer, TextFileIndex, TextFileInitializer
from gradtape._src.tf.lookup.tables import StaticHashTable, StaticVocabularyTable

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]


def __dir__() -> list[str]:
    return list(__all__)
