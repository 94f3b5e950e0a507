"""Why gradtape lacks a name of TensorFlow: for `gradtape check`, the list of supported names and AttributeErrors."""

from __future__ import annotations

import re

__all__ = ["missing", "missing_sentence", "reason", "reason_within"]

# The first matching pattern counts. A missing name without a reason here is an omission.
REASONS = [
    (r"tf\.(compat\.v1\.)?contrib$", "it was removed in TensorFlow 2; its layers are in tf.keras.layers"),
    (r"tf\.(compat\.v1\.)?estimator$", "it was removed from TensorFlow in 2.16; use tf.keras, or write a training "
                                       "loop"),
    # TensorFlow 1
    (r"v1\.distributions\.", "TensorFlow moved it to TensorFlow Probability: write the log density with tf.math"),
    (r"v1\.tpu\.", "JAX assigns programs to TPUs: use tf.distribute.TPUStrategy"),
    (r"v1\.(nn\.rnn_cell\.|nn\.\w*(dynamic|static|raw)_\w*rnn)", "use tf.keras.layers.RNN, LSTM or GRU"),
    (r"v1\.(image\.resize_)", "use tf.image.resize with its argument method"),
    (r"v1\.nn\.(conv2d_backprop_\w+|depthwise_conv2d_native)$", "use tf.raw_ops, or a tape around tf.nn.conv2d"),
    (r"v1\.nn\.conv3d_backprop_filter_v2$", "use a tape around tf.nn.conv3d"),
    (r"v1\.nn\.ctc_loss_v2$", "use tf.nn.ctc_loss"),
    (r"v1\.(mixed_precision|train\.experimental)\.\w*(LossScale|mixed_precision)", "use tf.keras.mixed_precision"),
    (r"v1\.saved_model\.", "use tf.saved_model.save and tf.saved_model.load, which have signatures"),
    (r"v1\.profiler\.", "use tf.profiler.experimental, and tape.profile"),
    (r"v1\.graph_util\.", "for TensorFlow's own graphs: use tf.saved_model, or gradtape export"),
    (r"v1\.(resource_loader|user_ops)\.", "belongs to the files of TensorFlow's own package"),
    (r"v1\.summary\.(all_v2_summary_ops|get_summary_description|initialize)$",
     "write summaries of TensorFlow 2 in eager code or functions"),
    (r"v1\.(\w*Reader(Base)?|\w*ConditionalAccumulator\w*|(io|queue)\.\w*Queue\w*)$",
     "TensorFlow 1's queues: use tf.data"),
    (r"v1\.train\.(\w*batch\w*|\w+_producer|limit_epochs|\w*[qQ]ueue_?[rR]unner)$",
     "TensorFlow 1's queues: use tf.data"),
    (r"v1\.train\.(Scaffold|SessionRun\w+|\w*SessionCreator|\w+Listener|LooperThread|SessionManager|\w+Timer|"
     r"basic_train_loop|Nan\w+|replica_device_setter|SyncReplicasOptimizer)$",
     "TensorFlow 1's managed sessions; tf.compat.v1.Session runs graphs"),
    (r"v1\.train\.(sdca_|AdagradDA|noisy_linear)", "rarely used: tf.keras.optimizers has newer ones"),
    (r"v1\.train\.(\w*checkpoint_\w+|get_checkpoint_mtimes|warm_start|VocabInfo|SaverDef)$",
     "use tf.train.Checkpoint and tf.train.CheckpointManager"),
    (r"v1\.(\w+_partitioner|create_partitioned_variables)$", "variables are not divided: use tf.Variable, or DTensor"),
    (r"v1\.(get_session_\w+|delete_session_tensor|container|(variable_)?op_scope|batch_scatter_update|wrap_function|"
     r"\w*MetaGraphDef|TensorInfo|NameAttrList|LogMessage|SessionLog|load_file_system_library)$",
     "internals of TensorFlow 1's sessions: use tf.function"),
    (r"v1\.io\.(TFRecordCompressionType|tf_record_iterator)$", "tf.compat.v1.python_io has it"),
    (r"v1\.data\.experimental\.(map_and_batch_with_legacy_function|\w*Structure)$",
     "use the class tf.TypeSpec and dataset.map"),
    (r"v1\.(errors\.(error_code_from|exception_type_from|raise_exception)_\w+|test\.(StubOutForTesting|test_src_dir_path|"
     r"compute_gradient_error)|random\.stateless_multinomial|distribute\.get_loss_reduction|"
     r"experimental\.output_all_intermediates)$", "rarely used: see the namespace of TensorFlow 2"),
    (r"tf\.(graph_util|mlir|nondifferentiable_batch_function)\b", "for TensorFlow's own graphs"),
    (r"tf\.data\.experimental\.service\.", "for clusters of servers that read data"),
    (r"(float4_e2m1fn|u?int2)$", "TensorFlow has no ops for it, either"),
    (r"tf\.experimental\.(RowPartition|StructuredTensor)$", "use tf.RaggedTensor, or an ExtensionType of tensors"),
    (r"tf\.experimental\.(register_filesystem_plugin|tensorrt)\b", "part of TensorFlow's own runtime"),
    (r"tf\.experimental\.dtensor\.(name_based_|sharded_save|enable_save_as)", "use dtensor.DTensorCheckpoint"),
    (r"tf\.experimental\.dtensor\.\w*(tpu|multi_client|heartbeat|job|device_name|local_devices)",
     "use dtensor.create_mesh and dtensor.initialize_accelerator_system"),
    (r"tf\.saved_model\.experimental\b", "for TensorFlow's servers; SavedModels are read and written without it"),
    (r"tf\.tpu\.", "JAX assigns programs to TPUs: use tf.distribute.TPUStrategy"),
    (r"tf\.dtensor$", "use tf.experimental.dtensor"),
    (r"tf\.distribute\.", "for clusters of TensorFlow servers, which gradtape does not have"),
    (r"tf\.(TensorArraySpec|OptionalSpec)$",
     "functions do not accept such values: use tf.TensorSpec for their tensors"),
    (r"tf\.data\.(IteratorSpec|experimental\.(service|DatasetInitializer|distributed_save|\w+_variant|get_model_proto|"
     r"\w*table_from_dataset|make_saveable_from_iterator|at|pad_to_cardinality))$",
     "internals of TensorFlow's runtime"),
    (r"train\.(\w+Hook|\w+Session|(im|ex)port_meta_graph|start_queue_runners|Supervisor)$",
     "TensorFlow 1's managed sessions and queues; tf.compat.v1.Session runs graphs"),
    (r"train\.(ClusterDef|JobDef|Server|ServerDef)$", "servers of TensorFlow 1: see tf.distribute"),
    (r"train\.(CheckpointView|TrackableView)$", "use tf.train.list_variables and tf.train.load_variable"),
    (r"train\.experimental\.(\w*Shard\w*)$", "gradtape determines how checkpoints are divided into files"),
    (r"tf\.train\.\w*Optimizer$", "TensorFlow 1; tf.compat.v1.train has it, and tf.keras.optimizers newer ones"),
    (r"tf\.train\.\w+_decay(_restarts)?$", "TensorFlow 1; tf.compat.v1.train has it"),
    (r"tf\.debugging\.experimental\b", "use tf.debugging.enable_check_numerics, tape.nan_origin and tape.profile"),
    (r"RNNCell", "use tf.keras.layers.RNN, whose cells Keras wraps"),
    (r"LinearOperator", "rarely used: use the matrix itself"),
    (r"(?i)sparse|ragged|NoneTensorSpec|IndexedSlicesSpec", "a rarely used function on sparse or ragged tensors"),
    (r"(?i)quantiz|qu?int|fake_quant", "there are no quantized dtypes: tf.quantization simulates them"),
    (r"compat\.v1\.layers|v1\.nn\.(rnn_cell|\w*_rnn)$", "removed from TensorFlow with Keras 2: use tf.keras.layers"),
    (r"tf\.(queue|CriticalSection)\b", "for threads of TensorFlow's runtime: use queue.Queue, threading.Lock"),
    (r"tf\.(import_graph_def|load_library|load_op_library|"
     r"sysconfig|tools|lite|security|estimator)(\.\w+)?$",
     "part of TensorFlow's own runtime"),
    (r"tf\.(check_pinned|conv|conv2d_backprop_filter_v2|conv2d_backprop_input_v2|approx_top_k|ragged_fill_empty_rows(_grad)?)$",
     "an internal op that TensorFlow exports by accident"),
    (r"tf\.config\.experimental\.ClusterDeviceFilters$", "clusters of servers"),
    (r"tf\.profiler\.experimental\.(client|server)(\.\w+)?$", "use jax.profiler.start_server"),
    (r"tf\.autograph\.experimental\.Feature$", "there are no optional features"),
    (r"tf\.types\.experimental\.\w+(\.\w+)?$", "types of TensorFlow's own runtime"),
    (r"tf\.test\.(create_local_cluster|benchmark_config|experimental(\.\w+)?)$", "for servers and sessions"),
    (r"tf\.io\.(de|en)code_proto$", "needs the descriptions of your messages: use the package protobuf"),
    (r"tf\.io\.(match_filenames_once|write_graph)$", "for graphs; use tf.io.gfile.glob, tf.summary.graph"),
    (r"jxl|decode_|encode_", "a file format that gradtape does not read: convert the file, or use Pillow"),
    (r"bounding_box|proposals|non_max_suppression|glimpse", "detection tooling without a derivative"),
    (r"tf\.nn\.fixed_unigram_candidate_sampler$", "use tf.random.fixed_unigram_candidate_sampler"),
    (r"candidate_sampler|extract_volume|index_shuffle|fractional_|"
     r"with_space_to_batch|sobol", "rarely used"),
]  # fmt: skip

_FIRST = (
    r"app|ConfigProto|disable_eager_execution|disable_v2_behavior|enable_resource_variables|flags|get_collection|get_default_graph|"
    r"get_default_session|get_local_variable|get_variable|gfile|global_variables|global_variables_initializer|GPUOptions|"
    r"InteractiveSession|local_variables_initializer|logging|placeholder|placeholder_with_default|"
    r"reset_default_graph|Session|trainable_variables|variable_scope|"
    r"train\.\w*global_step"
)
FIRST_VERSION = re.compile(rf"tf\.(compat\.v1\.)?({_FIRST})$")
"""Names of TensorFlow 1 that are only in `tf.compat.v1`."""

RENAMED = {
    "tf.assign": "variable.assign",
    "tf.assign_add": "variable.assign_add",
    "tf.assign_sub": "variable.assign_sub",
    "tf.batch_matmul": "tf.matmul",
    "tf.ceil": "tf.math.ceil",
    "tf.create_partitioned_variables": "tf.Variable",
    "tf.div": "tf.divide",
    "tf.global_norm": "tf.linalg.global_norm",
    "tf.is_nan": "tf.math.is_nan",
    "tf.matrix_inverse": "tf.linalg.inv",
    "tf.matrix_solve": "tf.linalg.solve",
    "tf.mod": "tf.math.floormod",
    "tf.multinomial": "tf.random.categorical",
    "tf.random_normal": "tf.random.normal",
    "tf.random_shuffle": "tf.random.shuffle",
    "tf.random_uniform": "tf.random.uniform",
    "tf.self_adjoint_eig": "tf.linalg.eigh",
    "tf.set_random_seed": "tf.random.set_seed",
    "tf.svd": "tf.linalg.svd",
    "tf.to_double": "tf.cast",
    "tf.to_float": "tf.cast",
    "tf.to_int32": "tf.cast",
    "tf.to_int64": "tf.cast",
    "tf.train.NewCheckpointReader": "tf.train.load_checkpoint",
    "tf.train.Saver": "tf.train.Checkpoint",
    "tf.truncated_normal": "tf.random.truncated_normal",
}
"""TensorFlow 2's names of what TensorFlow 1 has under these names."""


def reason(name: str) -> str | None:
    """Why a name is missing; None if there is no reason.

    >>> reason("tf.lite")
    "part of TensorFlow's own runtime"
    """
    return next((why for pattern, why in REASONS if re.search(pattern, name)), None)


def reason_within(name: str, missing: str) -> str | None:
    """Why a name is missing whose part `missing` is: its own reason, or that of a namespace it is in.

    >>> reason_within("tf.lite.TFLiteConverter", "tf.lite")
    "part of TensorFlow's own runtime"
    """
    while len(name) >= len(missing):
        why = reason(name)
        if why is not None:
            return why
        name = name.rpartition(".")[0]
    return None


def missing_sentence(name: str) -> str | None:
    """What to say of a name of TensorFlow's that gradtape lacks; None if it is none that is known.

    >>> missing_sentence("tf.lite")
    "tf.lite is not in gradtape: part of TensorFlow's own runtime"
    >>> missing_sentence("tf.to_float")
    'tf.to_float is a TensorFlow 1 name: use tf.cast'
    """
    if name in RENAMED:
        return f"{name} is a TensorFlow 1 name: use {RENAMED[name]}"
    if FIRST_VERSION.match(name):
        return f"{name} is a TensorFlow 1 name: use tf.compat.v1.{name.removeprefix('tf.').removeprefix('compat.v1.')}"
    why = reason(name)
    return None if why is None else f"{name} is not in gradtape: {why}"


def missing(module: object, full: str, name: str) -> AttributeError:
    """The error for a name that a module lacks: the reason for a name of TensorFlow, otherwise Python's text."""
    text = f"module {getattr(module, '__name__', module)!r} has no attribute {name!r}"
    sentence = None if name.startswith("_") else missing_sentence(full)
    if sentence is None:
        return AttributeError(text, name=name, obj=module)
    return AttributeError(f"{text}. {sentence}.", name=name, obj=None)  # with `obj` Python would suggest another name
