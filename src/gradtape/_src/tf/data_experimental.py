"""`tf.data.experimental`: older names, most of which are methods of datasets now; datasets of CSV files."""

from __future__ import annotations

from gradtape._src.data import experimental
from gradtape._src.data.experimental import *  # noqa: F403 - all that it lists
from gradtape._src.lazy_names import getattr_of, homes_of

_LAZY = homes_of(
    ("tf.csv_files", "CsvDataset make_csv_dataset"),
    (
        "tf.record_datasets",
        "Reducer SqlDataset dense_to_sparse_batch group_by_reducer make_batched_features_dataset parse_example_dataset",
    ),
)

__getattr__ = getattr_of(__name__, _LAZY)

__all__ = [*experimental.__all__, *_LAZY]


def __dir__() -> list[str]:
    return list(__all__)
