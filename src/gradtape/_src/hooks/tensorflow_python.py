"""`tensorflow.python.*` under the alias: TensorFlow's private modules, as far as their names are public elsewhere.

What a module defines and TensorFlow exports is found by `private_names`, a record of TensorFlow's own exports. The
table below adds what modules import from each other and what libraries use beside it: a module also has the names of
the public namespaces listed for it, searched in order; `name=tf.other` comes before all others. Nothing is implemented
only for a private module, except reading a setting that has a public setter, the arithmetic of Keras 2's `conv_utils`,
and the small functions of `private_functions`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType
from typing import Any

from gradtape._src.hooks import nest_functions, private_names
from gradtape._src.reasons import missing_sentence

__all__ = ["PREFIX", "find"]

PREFIX = "tensorflow.python"


def _own(*names: str) -> str:
    """Names of `private_functions`; `name=other` if its name differs there."""
    pairs = [name.partition("=") for name in names]
    return " ".join(f"{name}=gradtape._src.hooks.private_functions.{other or name}" for name, _, other in pairs)


_REGISTRY = "gradtape._src.hooks.gradient_registry"
_COLUMNS = " ".join(
    f"{name}=gradtape._src.feature_column.{module}.{name}"
    for module, names in (
        (
            "base",
            "FeatureColumn DenseColumn CategoricalColumn SequenceDenseColumn FeatureTransformationCache StateManager",
        ),
        (
            "categorical",
            "CrossedColumn HashedCategoricalColumn IdentityCategoricalColumn SequenceCategoricalColumn "
            "VocabularyFileCategoricalColumn VocabularyListCategoricalColumn WeightedCategoricalColumn",
        ),
        (
            "dense",
            "BucketizedColumn EmbeddingColumn IndicatorColumn NumericColumn SequenceNumericColumn "
            "SharedEmbeddingColumn",
        ),
    )
    for name in names.split()
)
_SERIALIZATION = " ".join(
    f"{name}=gradtape._src.feature_column.base.{name}"
    for name in ("serialize_feature_column", "deserialize_feature_column")
)
_OPTIMIZERS = "tf.compat.v1.train"
_ARRAYS = "tf tf.compat.v1 tf.linalg tf.math tf.sparse tf.nn tf.strings"
_VARIABLES = "Variable=tf.Variable VariableV1=tf.Variable tf.compat.v1"
_LOGGING = "tf.compat.v1.logging get_logger=tf.get_logger"
_FILES = "FileIO=tf.io.gfile.GFile " + " ".join(
    f"{name}=gradtape._src.hooks.file_functions.{name}"
    for name in (
        "atomic_write_string_to_file",
        "file_crc32",
        "filecmp",
        "has_atomic_move",
        "read_file_to_string",
        "write_string_to_file",
    )
)
_OPS = (
    "Tensor=tf.Tensor EagerTensor=tf.Tensor Graph=tf.Graph GraphKeys=tf.compat.v1.GraphKeys "
    f"_gradient_registry={_REGISTRY}.gradient_registry get_gradient_function={_REGISTRY}.get_gradient_function "
    "Operation=tf.Operation is_dense_tensor_like=tf.is_tensor "
    "NotDifferentiable=tf.no_gradient NoGradient=tf.no_gradient convert_to_tensor_v2=tf.convert_to_tensor "
    "internal_convert_to_tensor=tf.convert_to_tensor convert_to_tensor_or_indexed_slices=tf.convert_to_tensor "
    f"{_own('name_scope')} tf tf.compat.v1"
)
_SHAPES = "TensorShapeV1=tf.TensorShape as_shape=tf.TensorShape as_dimension=tf.compat.v1.Dimension tf tf.compat.v1"
_TENSOR_UTIL = (
    f"{_own('constant_value_as_shape')} try_evaluate_constant=tf.get_static_value "
    "MakeNdarray=tf.make_ndarray constant_value=tf.get_static_value is_tf_type=tf.is_tensor is_tensor=tf.is_tensor tf"
)
_CONTEXT = (
    "executing_eagerly=tf.executing_eagerly eager_mode=tf.init_scope device=tf.device "
    "set_global_seed=tf.random.set_seed global_seed=gradtape._src.arrays.seeds.global_seed "
    f"{_own('async_wait=nothing', 'context', 'graph_mode')} tf.config tf.compat.v1"
)
_GRADIENTS = "gradients_v2=tf.gradients HessiansV2=tf.hessians tf"
_INITIALIZERS = "Initializer=tf.zeros_initializer tf.compat.v1 tf.compat.v1.initializers"
_STRATEGY = "in_cross_replica_context=tf.distribute.in_cross_replica_context tf.distribute"

_CONV_UTILS = " ".join(
    f"{name}=gradtape._src.keras_backend.conv_utils.{name}"
    for name in ("normalize_tuple", "normalize_padding", "normalize_data_format", "conv_output_length",
                 "conv_input_length", "deconv_output_length")
)  # fmt: skip

_INSPECT = " ".join(
    f"{name}=inspect.{name}"
    for name in (
        "signature",
        "getmembers",
        "isclass",
        "isfunction",
        "ismethod",
        "getmodule",
        "getsource",
        "getmro",
        "getdoc",
        "Parameter",
    )
)
_SPECS = "gradtape._src.tf.specs"
_NEST = " ".join(
    f"{name}=gradtape._src.hooks.nest_functions.{own}"
    for name, own in (
        *((name, name) for name in nest_functions.__all__),
        ("_is_namedtuple", "is_named_tuple"),
        ("_sequence_like", "rebuilt"),
        ("_yield_sorted_items", "items"),
        ("_yield_value", "values"),
    )
)
_TYPE_SPEC = (
    f"register={_SPECS}.register_type_spec BatchableTypeSpec={_SPECS}.BatchableTypeSpec TypeSpec={_SPECS}.TypeSpec "
    f"register_type_spec_from_value_converter={_SPECS}.register_type_spec_from_value_converter tf"
)
_TYPE_SPEC_REGISTRY = (
    f"register={_SPECS}.register_type_spec "
    f"_NAME_TO_TYPE_SPEC={_SPECS}.spec_types _TYPE_SPEC_TO_NAME={_SPECS}.spec_names"
)
_TEST_UTIL = (
    "TensorFlowTestCase=tf.test.TestCase InstallStackTraceHandler=faulthandler.enable "
    f"{_own('run_in_graph_and_eager_modes=as_it_is', 'run_all_in_graph_and_eager_modes=as_it_is')} "
    f"{_own('run_v2_only=as_it_is')} "
    "tf.test"
)

TABLE: dict[str, str] = {
    "autograph.impl.api": "do_not_convert=tf.autograph.experimental.do_not_convert tf.autograph",
    "client.device_lib": "list_local_devices=gradtape._src.tf.v1.device_lib.list_local_devices",
    "client.session": "tf.compat.v1",
    "compat.compat": "tf.compat",
    "compat.v2_compat": "tf.compat.v1",
    "data.experimental": "tf.data.experimental",
    "data.experimental.ops": "tf.data.experimental",
    "data.ops.dataset_ops": "DatasetV2=tf.data.Dataset DatasetV1=tf.data.Dataset tf.data",
    "data.ops.iterator_ops": "OwnedIterator=gradtape._src.data.iterator.OwnedIterator tf.data",
    "data.ops.readers": "TFRecordDatasetV2=tf.data.TFRecordDataset tf.data",
    "data.util.nest": "tf.nest",
    "distribute.distribute_lib": _STRATEGY,
    "distribute.distribution_strategy_context": _STRATEGY,
    "distribute.mirrored_strategy": _STRATEGY,
    "distribute.reduce_util": _STRATEGY,
    "distribute.values": "PerReplica=gradtape._src.distribute.values.PerReplica tf.distribute",
    "eager.backprop": f"GradientTape=tf.GradientTape record_gradient={_REGISTRY}.record_gradient "
    f"_record_gradient={_REGISTRY}.record_gradient tf",
    "eager.context": _CONTEXT,
    "eager.def_function": "function=tf.function",
    "eager.execute": f"record_gradient={_REGISTRY}.record_gradient",
    "eager.forwardprop": "ForwardAccumulator=tf.autodiff.ForwardAccumulator",
    "eager.function": "function=tf.function defun=tf.function",
    "eager.polymorphic_function.def_function": "function=tf.function",
    "eager.polymorphic_function.polymorphic_function": "function=tf.function",
    "eager.record": _own("could_possibly_record", "should_record_backprop"),
    "eager.tape": _own("could_possibly_record", "should_record_backprop"),
    "feature_column.feature_column": "tf.compat.v1.feature_column",
    "feature_column.feature_column_lib": f"{_COLUMNS} tf.feature_column",
    "feature_column.feature_column_v2": f"{_COLUMNS} tf.feature_column",
    "feature_column.sequence_feature_column": f"{_COLUMNS} tf.feature_column",
    "feature_column.serialization": _SERIALIZATION,
    "framework.composite_tensor": f"CompositeTensor={_SPECS}.CompositeTensor",
    "framework.config": "is_op_determinism_enabled=gradtape._src.function.modes.is_op_determinism_enabled "
    "disable_op_determinism=gradtape._src.function.modes.disable_op_determinism tf.config tf.config.experimental",
    "framework.constant_op": "constant_v1=tf.constant tf",
    "framework.device": "DeviceSpec=tf.DeviceSpec tf",
    "framework.dtypes": "tf.dtypes tf",
    "framework.errors": "tf.errors",
    "framework.errors_impl": "tf.errors",
    "framework.func_graph": "FuncGraph=gradtape._src.graph.operations.FuncGraph",
    "framework.function": "Defun=tf.function",
    "framework.indexed_slices": "tf",
    "framework.ops": _OPS,
    "framework.random_seed": "set_random_seed=tf.random.set_seed tf.compat.v1",
    "framework.smart_cond": "smart_cond=tf.cond",
    "framework.sparse_tensor": "tf tf.compat.v1",
    "framework.tensor": "tf",
    "framework.tensor_shape": _SHAPES,
    "framework.tensor_spec": f"DenseSpec={_SPECS}.DenseSpec tf",
    "framework.tensor_util": _TENSOR_UTIL,
    "framework.test_util": _TEST_UTIL,
    "framework.type_spec": _TYPE_SPEC,
    "framework.type_spec_registry": _TYPE_SPEC_REGISTRY,
    "framework.versions": "VERSION=tf.version.VERSION tf.version",
    "keras": "tf.keras",
    "keras.backend": "get_graph=tf.compat.v1.get_default_graph tf.keras.backend",
    "keras.engine.data_adapter": f"{_own('expand_1d')} tf.keras.utils",
    **{f"keras.engine.{part}": "tf.keras.layers" for part in ("base_layer", "input_spec")},
    **{f"keras.engine.{part}": "tf.keras" for part in ("sequential", "training")},
    **{
        f"keras.layers.{part}": "tf.keras.layers"
        for part in (
            *("advanced_activations", "convolutional", "core", "embeddings", "merge", "normalization", "pooling"),
            *("recurrent", "recurrent_v2", "wrappers"),
        )
    },
    **{
        f"keras.optimizer_v2.{part}": "tf.keras.optimizers tf.keras.optimizers.schedules"
        for part in ("adadelta", "adagrad", "adam", "adamax", "learning_rate_schedule", "nadam", "rmsprop")
    },
    "keras.optimizer_v2.gradient_descent": "tf.keras.optimizers",
    "keras.utils": "tf.keras.utils",
    **{f"keras.utils.{part}": "tf.keras.utils" for part in ("generic_utils", "np_utils", "vis_utils")},
    "keras.utils.conv_utils": _CONV_UTILS,
    "lib.io.file_io": _FILES,
    "lib.io.tf_record": "tf.io",
    "module.module": "tf",
    "ops.array_grad": _ARRAYS,
    "ops.array_ops": f"{_own('prevent_gradient')} {_ARRAYS}",
    "ops.array_ops_stack": "tf",
    "ops.bitwise_ops": "tf.bitwise",
    "ops.candidate_sampling_ops": "tf.random tf.nn",
    "ops.check_ops": "tf.debugging tf.compat.v1",
    "ops.clip_ops": "tf tf.compat.v1",
    "ops.cond": "tf",
    "ops.control_flow_assert": "tf",
    "ops.control_flow_case": f"{_own('_case_helper=case_helper')} tf",
    "ops.control_flow_ops": "tf tf.compat.v1",
    "ops.control_flow_switch_case": "tf",
    "ops.ctc_ops": "tf.nn",
    "ops.custom_gradient": "tf",
    "ops.embedding_ops": "tf.nn tf.compat.v1.nn",
    "ops.functional_ops": "tf",
    "ops.gen_array_ops": _ARRAYS,
    "ops.gen_linalg_ops": "tf.linalg tf.compat.v1",
    "ops.gen_math_ops": "mat_mul=tf.matmul tf.math tf.linalg tf tf.compat.v1",
    "ops.gen_nn_ops": "tf.nn tf.compat.v1.nn",
    "ops.gen_random_ops": "tf.random tf.compat.v1",
    "ops.gen_sparse_ops": f"{_own('sparse_reorder')} tf.sparse",
    "ops.gen_state_ops": "tf.compat.v1",
    "ops.gradient_checker_v2": "tf.test",
    "ops.gradients": _GRADIENTS,
    "ops.gradients_impl": _GRADIENTS,
    "ops.gradients_util": f"_IsBackpropagatable={_REGISTRY}.is_backpropagatable {_GRADIENTS}",
    "ops.histogram_ops": "tf",
    "ops.image_ops": "tf.image tf.io tf.compat.v1.image",
    "ops.image_ops_impl": "tf.image tf.io tf.compat.v1.image",
    "ops.init_ops": _INITIALIZERS,
    "ops.init_ops_v2": "tf",
    "ops.inplace_ops": "tf",
    "ops.io_ops": "tf.io",
    "ops.linalg.linear_operator": f"LinearOperator=tf.linalg.LinearOperator {_own('make_composite_tensor=as_it_is')}",
    "ops.linalg.linear_operator_addition": _own("add_operators"),
    "ops.linalg.linalg": "tf.linalg",
    "ops.linalg.linalg_impl": "tf.linalg",
    "ops.linalg_ops": "tf.linalg tf.compat.v1 tf",
    "ops.logging_ops": "print_v2=tf.print tf",
    "ops.lookup_ops": "tf.lookup",
    "ops.losses.losses": "tf.compat.v1.losses",
    "ops.losses.losses_impl": "tf.compat.v1.losses",
    "ops.manip_ops": "tf",
    "ops.map_fn": "tf",
    "ops.math_ops": "tf.math tf tf.linalg tf.compat.v1",
    "ops.nn": "tf.nn tf.compat.v1.nn",
    "ops.nn_impl": "tf.nn tf.compat.v1.nn",
    "ops.nn_ops": "tf.nn tf.compat.v1.nn",
    "ops.numpy_ops": "tf.experimental.numpy",
    "ops.numpy_ops.np_config": "enable_numpy_behavior=tf.experimental.numpy.experimental_enable_numpy_behavior",
    "ops.parallel_for": "tf tf.autodiff",
    "ops.parallel_for.control_flow_ops": f"{_own('pfor')} tf",
    "ops.parsing_ops": "tf.io",
    "ops.ragged": "tf.ragged tf",
    "ops.ragged.ragged_factory_ops": "tf.ragged",
    "ops.ragged.ragged_tensor": "tf tf.ragged",
    "ops.random_ops": f"{_own('parameterized_truncated_normal')} tf.random tf.compat.v1",
    "ops.resource_variable_ops": "ResourceVariable=tf.Variable BaseResourceVariable=tf.Variable "
    "VariableSpec=gradtape._src.variable.spec.VariableSpec tf",
    "ops.rnn": "tf.compat.v1.nn",
    "ops.script_ops": "tf eager_py_func=tf.py_function",
    "ops.sets": "tf.sets",
    "ops.signal": "tf.signal",
    "ops.signal.signal": "tf.signal",
    "ops.sort_ops": "tf",
    "ops.sparse_ops": "tf.sparse tf.compat.v1",
    "ops.special_math_ops": "tf.math tf.math.special tf",
    "ops.standard_ops": "tf",
    "ops.state_ops": "tf.compat.v1",
    "ops.stateless_random_ops": "tf.random",
    "ops.string_ops": "tf.strings tf.compat.v1",
    "ops.summary_ops_v2": "tf.summary tf.summary.experimental",
    "ops.template": "tf.compat.v1",
    "ops.tensor_getitem_override": _own("_slice_helper=slice_helper", "_slice_helper_var=slice_helper"),
    "ops.tensor_array_ops": "tf",
    "ops.unconnected_gradients": "tf",
    "ops.variable_scope": "tf.compat.v1 tf",
    "ops.variables": _VARIABLES,
    "ops.while_loop": "tf",
    "platform.app": "tf.compat.v1.app",
    "platform.flags": "tf.compat.v1.flags",
    "platform.gfile": "tf.compat.v1.gfile",
    "platform.googletest": "tf.test",
    "platform.test": "tf.test tf.compat.v1.test",
    "platform.tf_logging": _LOGGING,
    "profiler.profiler_v2": "tf.profiler.experimental",
    "saved_model.load": "tf.saved_model",
    "saved_model.save": "tf.saved_model",
    "summary.summary": "tf.compat.v1.summary",
    "summary.summary_iterator": "tf.compat.v1.train",
    "tf2": "enabled=tf.compat.v1.control_flow_v2_enabled",
    "trackable.data_structures": _own("sticky_attribute_assignment"),
    "trackable.autotrackable": "AutoTrackable=tf.Module",
    "training": _OPTIMIZERS,
    "training.adadelta": _OPTIMIZERS,
    "training.adagrad": _OPTIMIZERS,
    "training.adam": _OPTIMIZERS,
    "training.checkpoint_management": "tf.train",
    "training.checkpoint_utils": "tf.train",
    "training.ftrl": _OPTIMIZERS,
    "training.gradient_descent": _OPTIMIZERS,
    "training.learning_rate_decay": _OPTIMIZERS,
    "training.momentum": _OPTIMIZERS,
    "training.moving_averages": "tf.train",
    "training.optimizer": _OPTIMIZERS,
    "training.py_checkpoint_reader": "NewCheckpointReader=tf.train.load_checkpoint",
    "training.rmsprop": _OPTIMIZERS,
    "training.training": _OPTIMIZERS,
    "training.training_util": _OPTIMIZERS,
    "util.compat": "tf.compat",
    "util.nest": f"{_NEST} tf.nest",
    "util.variable_utils": f"convert_variables_to_tensors={_SPECS}.convert_variables_to_tensors",
    "util.object_identity": "Reference=gradtape._src.tensor.Reference "
    "ObjectIdentitySet=gradtape._src.hooks.identity_collections.ObjectIdentitySet "
    "ObjectIdentityDictionary=gradtape._src.hooks.identity_collections.ObjectIdentityDictionary",
    "util.tf_contextlib": "contextmanager=contextlib.contextmanager",
    "util.tf_inspect": f"{_own('getargspec', 'getfullargspec')} {_INSPECT}",
    "util.deprecation": _own(
        "deprecated", "deprecated_args", "deprecated_arg_values", "deprecated_endpoints", "deprecated_alias", "silence"
    ),
    "util.tf_decorator": _own("make_decorator"),
    "ops.control_flow_util": _own("GraphOrParentsInXlaContext=nothing", "GetContainingXLAContext=nothing")
    + " ENABLE_CONTROL_FLOW_V2=gradtape._src.hooks.private_functions.ENABLE_CONTROL_FLOW_V2",
    "ops.linalg.sparse.sparse": "CSRSparseMatrix=gradtape._src.tf.csr.CSRSparseMatrix "
    "matmul=gradtape._src.tf.csr.matmul tf.sparse",
    "types.core": "Tensor=tf.Tensor TensorLike=tf.types.experimental.TensorLike tf.types.experimental",
}
"""Module below `tensorflow.python` -> the namespaces in which its names are public."""


class _Private(ModuleType):
    """A private module of TensorFlow, which looks up its names in public namespaces."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{PREFIX}.{path}".rstrip("."), "TensorFlow's private names that are public elsewhere.")
        self.__dict__.update(_path=path, __path__=[])

    def __getattr__(self, name: str) -> Any:
        path = vars(self)["_path"]
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        child = f"{path}.{name}".lstrip(".")
        if _is_known(child):
            return find(child)
        found = _member(path, name)
        if found is not None:
            return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}. {_why_not(path, name)}.", name=name)


def _member(path: str, name: str) -> Any:
    """What a private module has under this name; None if gradtape has nothing of this kind."""
    spaces_of = TABLE.get(path, f"tf.{path}" if path.startswith("keras.") else "" if path else "tf")
    rows = [row.partition("=") for row in spaces_of.split()]
    named = [public for own, renamed, public in rows if renamed and own == name]
    exported = private_names.public_name(path, name)
    for public in (*named, *([exported] if exported else ())):
        found = _public(public)
        if found is not None:
            return found
    raw = private_names.raw_function(path, name)
    if raw is not None:
        return raw
    spaces = [_public(where) for where, renamed, _ in rows if not renamed]
    return next((getattr(space, name) for space in spaces if space is not None and hasattr(space, name)), None)


def _why_not(path: str, name: str) -> str:
    """What to say of a name that a private module lacks."""
    public = private_names.public_name(path, name)
    if public is not None:
        return missing_sentence(public) or f"Its public name, {public}, is not in gradtape"
    return "That is TensorFlow's private code: gradtape provides only its public parts, under their public names tf.…"


def _public(dotted: str) -> Any:
    """Resolve a dotted name: `tf.…` in gradtape, or a name of another module; None if it is missing."""
    first, *rest = dotted.split(".")
    if first == "tf":
        found: Any = importlib.import_module("gradtape")
    else:
        module, _, last = dotted.rpartition(".")
        found, rest = importlib.import_module(module), [last]
    for part in rest:
        found = getattr(found, part, None)
    return found


_AUTOGRAPH = tuple(f"autograph.{part}" for part in ("converters", "core", "lang", "operators", "pyct", "utils"))


@functools.cache
def _known() -> frozenset[str]:
    """Every module with names, and the packages that contain one."""
    parts = [path.split(".") for path in (*TABLE, *private_names.modules())]
    return frozenset(".".join(each[:n]) for each in parts for n in range(1, len(each) + 1))


def _is_known(path: str) -> bool:
    return path in _known()


@functools.cache
def find(path: str) -> ModuleType | None:
    """Return the module `tensorflow.python.path`; None if it is not in the table.

    Below `keras` it is Keras' own module, below `autograph` that of diastatic-malt, the stand-alone AutoGraph.
    """
    if path.startswith(_AUTOGRAPH) and path not in TABLE and importlib.util.find_spec("malt") is not None:
        try:
            return importlib.import_module(path.replace("autograph", "malt", 1))
        except ModuleNotFoundError:
            return None
    if path.startswith("keras.") and not _is_known(path):
        found = _public("tf." + path)
        return found if isinstance(found, ModuleType) else None
    return _Private(path) if not path or _is_known(path) else None
