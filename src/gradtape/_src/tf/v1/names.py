"""The names of `tf.compat.v1` that are imported on first use, and their modules."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

_HERE = "gradtape._src.tf.v1"

_FUNCTIONS = """arg_max arg_min argmax argmin batch_gather clip_by_average_norm count_nonzero div expand_dims gather
    multinomial norm reduce_all reduce_any reduce_join reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod
    reduce_sum scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub
    scatter_nd_update scatter_sub scatter_update setdiff1d sparse_to_dense squeeze string_split to_bfloat16
    to_complex64 to_complex128 to_double to_float to_int32 to_int64 where"""
_MISC = """AUTO_REUSE ConfigProto Dimension GPUOptions GraphKeys GraphOptions IndexedSlicesValue InteractiveSession
    OptimizerOptions RunOptions Session SparseTensorValue VariableScope control_flow_v2_enabled dimension_at_index
    dimension_value disable_eager_execution disable_v2_behavior enable_eager_execution
    executing_eagerly_outside_functions get_collection get_collection_ref get_default_graph get_default_session
    global_variables global_variables_initializer local_variables local_variables_initializer model_variables
    moving_average_variables placeholder placeholder_with_default reset_default_graph sparse_placeholder
    tables_initializer trainable_variables variables_initializer"""
_VARIABLES = """Print add_check_numerics_ops add_to_collection add_to_collections assert_variables_initialized
    colocate_with cond count_up_to get_local_variable get_variable_scope is_variable_initialized make_template
    no_regularizer py_func report_uninitialized_variables verify_tensor_all_finite while_loop"""
_SWITCHES = """enable_control_flow_v2 enable_resource_variables enable_tensor_equality enable_v2_tensorshape
    disable_control_flow_v2 disable_resource_variables disable_tensor_equality disable_v2_tensorshape"""
_INITIALIZERS = """glorot_normal_initializer glorot_uniform_initializer orthogonal_initializer
    uniform_unit_scaling_initializer variance_scaling_initializer"""
_STRINGS = {
    "as_string": "as_string",
    "decode_base64": "io.decode_base64",
    "decode_csv": "io.decode_csv",
    "encode_base64": "io.encode_base64",
    "regex_replace": "regex_replace",
    "string_join": "join",
    "string_strip": "strip",
    "string_to_hash_bucket_fast": "to_hash_bucket_fast",
    "string_to_hash_bucket_strong": "to_hash_bucket_strong",
}
_STRINGS_V1 = {
    "string_to_hash_bucket": "to_hash_bucket",
    "string_to_number": "to_number",
    "substr": "substr",
}
_SPARSE = """convert_to_tensor_or_indexed_slices convert_to_tensor_or_sparse_tensor depth_to_space
    extract_image_patches random_poisson space_to_depth sparse_add sparse_concat sparse_merge sparse_reduce_max
    sparse_reduce_max_sparse sparse_reduce_sum sparse_reduce_sum_sparse sparse_split"""
_MOVED = {
    **{f"sparse_{name}": f"sparse.{name}" for name in (
        "fill_empty_rows", "mask", "maximum", "minimum", "reorder", "reset_shape", "reshape", "retain", "segment_mean",
        "segment_sqrt_n", "segment_sum", "slice", "softmax", "to_indicator", "transpose")},
    "sparse_tensor_dense_matmul": "sparse.sparse_dense_matmul",
    "batch_to_space_nd": "batch_to_space",
    "bincount": "math.bincount",
    "decode_compressed": "io.decode_compressed",
    "deserialize_many_sparse": "io.deserialize_many_sparse",
    "floor_div": "math.floordiv",
    "edit_distance": "edit_distance",
    "fingerprint": "fingerprint",
    "make_ndarray": "make_ndarray",
    "make_tensor_proto": "make_tensor_proto",
    "RaggedTensor": "RaggedTensor",
    "RaggedTensorSpec": "RaggedTensorSpec",
    "serialize_tensor": "io.serialize_tensor",
    "TypeSpec": "TypeSpec",
    "type_spec_from_value": "type_spec_from_value",
}  # fmt: skip
"""Functions with the same arguments under another name."""
_RECORDS = """FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature decode_raw matching_files
    parse_example parse_single_example parse_single_sequence_example parse_tensor serialize_many_sparse
    serialize_sparse"""
_MESSAGES = """AttrValue Event GraphDef HistogramProto NodeDef RunMetadata Summary SummaryMetadata TensorProto
    TensorShapeProto"""


def _lazy_names() -> dict[str, str]:
    """By name: "module:attribute"."""
    table = {name: f"{_HERE}.functions:{name}" for name in _FUNCTIONS.split()}
    table |= {name: f"{_HERE}.misc:{name}" for name in _MISC.split()}
    table |= {name: f"{_HERE}.variables:{name}" for name in _VARIABLES.split()}
    table |= {
        older: f"{_HERE}.misc:{name}"
        for older, name in (
            ("initialize_all_tables", "tables_initializer"),
            ("initialize_all_variables", "global_variables_initializer"),
            ("initialize_local_variables", "local_variables_initializer"),
            ("initialize_variables", "variables_initializer"),
            ("all_variables", "global_variables"),
        )
    }
    table |= dict.fromkeys(_SWITCHES.split(), f"{_HERE}.misc:enabled")
    table |= dict.fromkeys(("resource_variables_enabled", "tensor_equality_enabled"), f"{_HERE}.misc:is_enabled")
    table |= {name: f"{_HERE}.initializers:{name}" for name in _INITIALIZERS.split()}
    for name, place in _STRINGS.items():
        module, _, attribute = place.rpartition(".")
        table[name] = f"gradtape.{module or 'strings'}:{attribute}"
    for name, place in _MOVED.items():
        module, _, attribute = place.rpartition(".")
        table[name] = f"gradtape.{module}:{attribute}" if module else f"gradtape:{attribute}"
    table |= {name: f"{_HERE}.sparse:{name}" for name in _SPARSE.split()}
    table |= {name: f"gradtape.io:{name}" for name in _RECORDS.split()}
    table |= {name: f"gradtape._src.formats.event:{name}" for name in _MESSAGES.split()}
    table |= {
        name: f"{_HERE}.{name}:"
        for name in ("app", "data", "flags", "gfile", "logging", "losses", "metrics", "summary")
    }
    table |= {name: f"{_HERE}.strings:{attribute}" for name, attribute in _STRINGS_V1.items()}
    table |= {"DeviceSpec": f"{_HERE}.devices:DeviceSpec"}
    table |= {"types": "gradtape.types:", "xla": "gradtape.xla:"}
    table["feature_column"] = "gradtape._src.feature_column.v1:"
    table["confusion_matrix"] = "gradtape.math:confusion_matrix"
    return table


LAZY = _lazy_names()

NN = frozenset(
    """avg_pool conv2d depthwise_conv2d dropout embedding_lookup l2_normalize log_softmax max_pool moments relu_layer
    separable_conv2d sigmoid_cross_entropy_with_logits softmax softmax_cross_entropy_with_logits
    sparse_softmax_cross_entropy_with_logits weighted_cross_entropy_with_logits weighted_moments xw_plus_b""".split()  # noqa: SIM905
)


def attribute(v1: ModuleType, name: str) -> Any:
    """`tf.compat.v1.name`, imported now and cached."""
    maker = NAMESPACES.get(name)
    if maker is not None:
        value = maker(f"{v1.__name__}.{name}")
    elif name in LAZY:
        module, _, inside = LAZY[name].partition(":")
        value = getattr(import_module(module), inside) if inside else import_module(module)
    else:
        raise _missing(v1, f"tf.compat.v1.{name}", name)
    setattr(v1, name, value)
    return value


def _missing(module: ModuleType, full: str, name: str) -> AttributeError:
    from gradtape._src.reasons import missing

    return missing(module, full, name)


def neural(nn: ModuleType, name: str) -> Any:
    """`tf.compat.v1.nn.name`, imported now and cached."""
    if name not in NN:
        raise _missing(nn, f"tf.compat.v1.nn.{name}", name)
    value = getattr(import_module(f"{_HERE}.nn"), name)
    setattr(nn, name, value)
    return value


def _raise(error: Exception) -> NoReturn:
    raise error


def _joined(name: str, doc: str, *modules: str, **more: Any) -> ModuleType:
    """A namespace with the names of several modules."""
    made = ModuleType(name, doc)
    for path in modules:
        module = import_module(path)
        names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
        made.__dict__.update({n: getattr(module, n) for n in names})
    made.__dict__.update(more)
    return made


def _train(name: str) -> ModuleType:
    summaries = import_module(f"{_HERE}.summary")
    newer = import_module("gradtape.train")
    return _joined(
        name,
        "Optimizers, the global step, decays of learning rates, checkpoints.",
        "gradtape.train",
        f"{_HERE}.train",
        f"{_HERE}.optimizers",
        f"{_HERE}.graphs.saver",
        f"{_HERE}.graphs.warm_start",
        summary_iterator=summaries.summary_iterator,
        NewCheckpointReader=newer.load_checkpoint,
    )


def _initializers(name: str) -> ModuleType:
    older = import_module("gradtape._src.tf.compat_initializers")
    shaped = import_module(f"{_HERE}.initializers")
    misc = import_module(f"{_HERE}.misc")
    made = ModuleType(name, "Initializers.")
    made.__dict__.update({n: getattr(shaped, n) for n in shaped.__all__ if not n.endswith("_initializer")})
    for module in (older, shaped):
        for full in [n for n in dir(module) if n.endswith("_initializer") and not n.startswith("_")]:
            setattr(made, full.removesuffix("_initializer"), getattr(module, full))
    made.__dict__.update(
        global_variables=misc.global_variables_initializer,
        local_variables=misc.local_variables_initializer,
        tables_initializer=misc.tables_initializer,
        variables=misc.variables_initializer,
    )
    return made


def _test(name: str) -> ModuleType:
    import tempfile
    from unittest import mock

    return _joined(name, "Test cases.", "gradtape.test", mock=mock, get_temp_dir=tempfile.mkdtemp)


def _selected(doc: str, homes: dict[str, str]) -> Callable[[str], ModuleType]:
    """A function that creates a namespace of names defined elsewhere: "module:name"."""

    def make(name: str) -> ModuleType:
        made = ModuleType(name, doc)
        for own, home in homes.items():
            module, _, attribute = home.partition(":")
            setattr(made, own, getattr(import_module(module), attribute or own))
        space = f"tf.compat.v1.{name.rpartition('.')[2]}"
        made.__dict__["__getattr__"] = lambda missing: _raise(_missing(made, f"{space}.{missing}", missing))
        return made

    return make


_MANIP = ("batch_to_space_nd", "gather_nd", "reshape", "reverse", "roll", "scatter_nd", "space_to_batch_nd", "tile")
_MANIP_NAMES = {"batch_to_space_nd": "batch_to_space"}
_MANIP_HOMES = {name: f"gradtape:{_MANIP_NAMES.get(name, name)}" for name in _MANIP}
_SPECTRAL = (
    "dct",
    "idct",
    *(f"{kind}{axes}" for kind in ("fft", "ifft", "rfft", "irfft") for axes in ("", "2d", "3d")),
)
_PYTHON_IO = {
    "TFRecordOptions": "gradtape.io:",
    "TFRecordWriter": "gradtape.io:",
    "tf_record_iterator": f"{_HERE}.records:",
    "TFRecordCompressionType": f"{_HERE}.records:",
}
_STRING_NAMES = """as_string bytes_split format join lower ngrams regex_full_match regex_replace strip
    to_hash_bucket_fast to_hash_bucket_strong unicode_decode unicode_decode_with_offsets unicode_encode unicode_script
    unicode_split unicode_split_with_offsets unicode_transcode unsorted_segment_join upper"""
_STRING_HOMES = {
    **dict.fromkeys(_STRING_NAMES.split(), "gradtape.strings:"),
    **dict.fromkeys(("length", "split", "substr", "to_hash_bucket", "to_number"), f"{_HERE}.strings:"),
    "reduce_join": f"{_HERE}.functions:",
}
_RAGGED_NAMES = """boolean_mask constant cross cross_hashed map_flat_values range row_splits_to_segment_ids
    segment_ids_to_row_splits stack stack_dynamic_partitions"""
_SPARSE_NAMES = """SparseTensor bincount cross cross_hashed expand_dims eye fill_empty_rows from_dense mask maximum
    minimum reorder reset_shape reshape retain segment_mean segment_sqrt_n segment_sum slice softmax
    sparse_dense_matmul to_dense to_indicator transpose"""
_SPARSE_OLDER = (
    "add",
    "concat",
    "merge",
    "reduce_max",
    "reduce_max_sparse",
    "reduce_sum",
    "reduce_sum_sparse",
    "split",
)
_SPARSE_HOMES = {
    **dict.fromkeys(_SPARSE_NAMES.split(), "gradtape.sparse:"),
    **{name: f"{_HERE}.sparse:sparse_{name}" for name in _SPARSE_OLDER},
    "matmul": "gradtape.sparse:sparse_dense_matmul",
    "placeholder": f"{_HERE}.misc:sparse_placeholder",
}
_LOOKUP_NAMES = ("KeyValueTensorInitializer", "TextFileIndex", "TextFileInitializer", "experimental")
_LOOKUP_HOMES = {
    **dict.fromkeys(_LOOKUP_NAMES, "gradtape.lookup:"),
    **dict.fromkeys(("StaticHashTable", "StaticVocabularyTable"), f"{_HERE}.lookup:"),
}
_SETS = ("difference", "intersection", "size", "union")
_SETS_HOMES = {f"{prefix}{name}": f"gradtape.sets:{name}" for name in _SETS for prefix in ("", "set_")}
_EXPERIMENTAL_NAMES = """BatchableExtensionType DynamicRaggedShape ExtensionType ExtensionTypeBatchEncoder
    ExtensionTypeSpec Optional async_clear_error async_scope dispatch_for_api dispatch_for_binary_elementwise_apis
    dispatch_for_binary_elementwise_assert_apis dispatch_for_unary_elementwise_apis enable_strict_mode extension_type
    function_executor_type unregister_dispatch_for"""
_EXPERIMENTAL_HOMES = dict.fromkeys(_EXPERIMENTAL_NAMES.split(), "gradtape.experimental:")
_SAVED_MODEL_NAMES = """ASSETS_DIRECTORY ASSETS_KEY Asset CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES
    CLASSIFY_OUTPUT_SCORES DEBUG_DIRECTORY DEBUG_INFO_FILENAME_PB DEFAULT_SERVING_SIGNATURE_DEF_KEY GPU PREDICT_INPUTS
    PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS REGRESS_METHOD_NAME REGRESS_OUTPUTS SAVED_MODEL_FILENAME_PB
    SAVED_MODEL_FILENAME_PBTXT SAVED_MODEL_SCHEMA_VERSION SERVING SaveOptions TPU TRAINING VARIABLES_DIRECTORY
    VARIABLES_FILENAME contains_saved_model save"""
_SAVED_MODEL_HOMES = {
    **dict.fromkeys(_SAVED_MODEL_NAMES.split(), "gradtape.saved_model:"),
    "load_v2": "gradtape.saved_model:load",
    "maybe_saved_model_directory": "gradtape.saved_model:contains_saved_model",
}


NAMESPACES = {
    "experimental": _selected("Extension types and dispatch.", _EXPERIMENTAL_HOMES),
    "initializers": _initializers,
    "lookup": _selected("Lookup tables.", _LOOKUP_HOMES),
    "manip": _selected("Functions that move the elements of tensors.", _MANIP_HOMES),
    "python_io": _selected("TFRecord files.", _PYTHON_IO),
    "ragged": _selected("Ragged tensors.", dict.fromkeys(_RAGGED_NAMES.split(), "gradtape.ragged:")),
    "saved_model": _selected("SavedModels.", _SAVED_MODEL_HOMES),
    "sets": _selected("Sets as the last axis of tensors.", _SETS_HOMES),
    "sparse": _selected("Sparse tensors.", _SPARSE_HOMES),
    "spectral": _selected("Fourier transforms.", dict.fromkeys(_SPECTRAL, "gradtape.signal:")),
    "strings": _selected("Functions of strings.", _STRING_HOMES),
    "test": _test,
    "train": _train,
}
