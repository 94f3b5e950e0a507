"""`tf.data.experimental`: older names, most of which are methods of datasets now; datasets of CSV files."""

import typing as _typing

from gradtape._src.tf.data_experimental import (
    AUTOTUNE as AUTOTUNE,
    INFINITE_CARDINALITY as INFINITE_CARDINALITY,
    SHARD_HINT as SHARD_HINT,
    UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY,
    AutoShardPolicy as AutoShardPolicy,
    AutotuneAlgorithm as AutotuneAlgorithm,
    AutotuneOptions as AutotuneOptions,
    Counter as Counter,
    DistributeOptions as DistributeOptions,
    ExternalStatePolicy as ExternalStatePolicy,
    OptimizationOptions as OptimizationOptions,
    Optional as Optional,
    RandomDataset as RandomDataset,
    ServiceOptions as ServiceOptions,
    TFRecordWriter as TFRecordWriter,
    ThreadingOptions as ThreadingOptions,
    __dir__ as __dir__,
    assert_cardinality as assert_cardinality,
    bucket_by_sequence_length as bucket_by_sequence_length,
    cardinality as cardinality,
    choose_from_datasets as choose_from_datasets,
    copy_to_device as copy_to_device,
    dense_to_ragged_batch as dense_to_ragged_batch,
    enable_debug_mode as enable_debug_mode,
    enumerate_dataset as enumerate_dataset,
    from_list as from_list,
    get_next_as_optional as get_next_as_optional,
    get_single_element as get_single_element,
    get_structure as get_structure,
    group_by_window as group_by_window,
    ignore_errors as ignore_errors,
    load as load,
    map_and_batch as map_and_batch,
    parallel_interleave as parallel_interleave,
    prefetch_to_device as prefetch_to_device,
    rejection_resample as rejection_resample,
    sample_from_datasets as sample_from_datasets,
    save as save,
    scan as scan,
    shuffle_and_repeat as shuffle_and_repeat,
    snapshot as snapshot,
    take_while as take_while,
    unbatch as unbatch,
    unique as unique,
)

if _typing.TYPE_CHECKING:
    from gradtape._src.tf.data_experimental import (
        CsvDataset as CsvDataset,
        Reducer as Reducer,
        SqlDataset as SqlDataset,
        dense_to_sparse_batch as dense_to_sparse_batch,
        group_by_reducer as group_by_reducer,
        make_batched_features_dataset as make_batched_features_dataset,
        make_csv_dataset as make_csv_dataset,
        parse_example_dataset as parse_example_dataset,
    )
else:
    from gradtape._src.lazy_names import of_public as _of_public
    from gradtape._src.tf.data_experimental import __getattr__ as _load

    __getattr__ = _of_public(__name__, _load)
