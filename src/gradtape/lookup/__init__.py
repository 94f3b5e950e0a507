"""`tf.lookup`: tables from keys to values, of words to ids and back."""

from gradtape._src.tf.lookup import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
    StaticHashTable as StaticHashTable,
    StaticVocabularyTable as StaticVocabularyTable,
    TextFileIndex as TextFileIndex,
    TextFileInitializer as TextFileInitializer,
)
from gradtape.lookup import experimental as experimental
