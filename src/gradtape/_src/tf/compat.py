"""`tf.compat`: the v1 names that code with tapes still uses, and v2, which is all of gradtape."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import version
from gradtape._src.arrays.symbolic import default_graph
from gradtape._src.conversion import convert
from gradtape._src.dtypes import as_dtype, float32
from gradtape._src.graph.gradients import gradients, hessians
from gradtape._src.interrupts import contextmanager, setting, settings
from gradtape._src.tensor import Tensor
from gradtape._src.tf import compat_initializers, nn
from gradtape._src.tf.arguments import shape_of
from gradtape._src.tf.normalization import fused_batch_norm
from gradtape._src.tf.scopes import name_scope
from gradtape._src.tf.v1 import names
from gradtape._src.tf.v1.names import attribute as attribute
from gradtape._src.variable import Variable, VariableAggregation, VariableSynchronization, name_prefix

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

_variable_prefix: ContextVar[str] = ContextVar("gradtape_variable_scope", default="")


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Variable:
    """Create a variable, by default with Glorot's uniform initializer. Eager code never reuses one by name; in a graph
    the open `variable_scope` says whether the name stands for a new one.

    >>> get_variable("w", initializer=[1.0, 2.0]).name
    'w:0'
    """
    graph = default_graph()
    if graph is not None:
        from gradtape._src.tf.v1.graphs.scopes import graph_variable

        options = {
            "initializer": initializer,
            "regularizer": regularizer,
            "trainable": trainable,
            "collections": collections,
            "validate_shape": validate_shape,
            "custom_getter": custom_getter,
            "constraint": constraint,
        }
        variable: Variable = graph_variable(graph, name, shape, dtype, options)
        return variable
    value = _initial_value(name, shape, dtype, initializer)
    with setting(name_prefix, _variable_prefix.get()):  # name_scope has no effect here, as in TensorFlow
        return Variable(
            value,
            trainable,
            validate_shape,
            caching_device,
            name,
            dtype=dtype,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )


def _initial_value(name: str, shape: Any, dtype: Any, initializer: Any) -> Any:
    """The initial value of a variable in eager code."""
    constant = initializer is not None and not callable(initializer)
    if constant and shape is not None:
        raise ValueError("If initializer is a constant, do not specify shape.")
    if shape is None and not constant:
        raise ValueError(
            f"Variable {name} did not get an initializer, so its `shape` argument must be specified."
            if initializer is None
            else f"Shape of a new variable ({name}) must be fully defined, but instance was <unknown>."
        )
    kind = as_dtype(dtype) if dtype is not None else float32
    if constant:
        return convert(initializer, dtype)
    if initializer is None:
        return compat_initializers.default_value(shape_of(shape), kind)
    maker = initializer() if isinstance(initializer, type) else initializer
    return maker(shape_of(shape), dtype=kind)


class variable_scope(settings):
    """Set a prefix for the names of variables created by `get_variable`; in a graph, also options of these variables.

    Args:
      name_or_scope: A name, or a scope that a `with` block returned in a graph.
      default_name: The name where that is None.
      values: No effect.
      initializer: The initializer of variables that have none of their own.
      regularizer: The regularizer of variables that have none of their own.
      caching_device: No effect.
      partitioner: No effect.
      custom_getter: A function that is called instead of `get_variable`, which is its first argument.
      reuse: Whether names refer to existing variables: True, False, or `AUTO_REUSE` (if they exist).
      dtype: The dtype of variables that have none of their own.
      use_resource: No effect.
      constraint: The constraint of variables that have none of their own.
      auxiliary_name_scope: Whether the block is also a `name_scope`.
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: Any = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        self._given, self._default, self._reuse = name_or_scope, default_name, reuse
        self._auxiliary = auxiliary_name_scope
        self._options = {
            "initializer": initializer,
            "regularizer": regularizer,
            "custom_getter": custom_getter,
            "dtype": dtype,
            "constraint": constraint,
        }
        super().__init__()

    def __enter__(self) -> Any:
        scope, self._pairs = self._opened()
        super().__enter__()
        return scope

    def _opened(self) -> tuple[Any, tuple[tuple[ContextVar[Any], Any], ...]]:
        """The value of the `with` statement, and the context variables that it sets."""
        if default_graph() is None:
            name = getattr(self._given, "name", self._given) or self._default or ""
            inner = f"{_variable_prefix.get()}{name}/" if name else ""
            scope = name_scope(name).within(name_prefix.get())
            pairs = (_variable_prefix, inner), (name_prefix, scope)
            return scope if self._given is None or isinstance(self._given, str) else self._given, pairs
        from gradtape._src.tf.v1.graphs.scopes import graph_variable_scope

        return graph_variable_scope(self._given, self._default, self._reuse, self._auxiliary, dict(self._options))


def assign(
    ref: Any, value: TensorLike, validate_shape: Any = None, use_locking: Any = None, name: str | None = None
) -> Any:
    """Replace the value of a variable."""
    return ref.assign(value)


def assign_add(ref: Any, value: TensorLike, use_locking: Any = None, name: str | None = None) -> Any:
    """Add to the value of a variable."""
    return ref.assign_add(value)


def assign_sub(ref: Any, value: TensorLike, use_locking: Any = None, name: str | None = None) -> Any:
    """Subtract from the value of a variable."""
    return ref.assign_sub(value)


def convolution(
    input: TensorLike,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: TensorLike | None = None,
    dilations: Any = None,
) -> Tensor:
    """Convolution over one, two or three spatial axes; the rank of the filters decides."""
    given = filter if filters is None else filters
    rates = dilation_rate if dilations is None else dilations
    result: Tensor = nn.convolution(input, given, strides, padding, data_format, rates, name)
    return result


def ctc_loss(
    labels: Any = None,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """-log p(labels | inputs), summed over all alignments; the last class is the blank."""
    if preprocess_collapse_repeated or not ctc_merge_repeated:
        raise NotImplementedError("ctc_loss merges repetitions in the result, and none in the labels.")
    result: Tensor = nn.ctc_loss(
        labels, inputs if logits is None else logits, None, sequence_length, time_major, blank_index=-1
    )
    return result


def _enabled(*args: Any, **kwargs: Any) -> None:
    """Do nothing: gradtape is always eager, like TensorFlow 2."""


# -- older names -----------------------------------------------------------------------------------------------------
_AT_THE_ROOT = {
    "math": """accumulate_n angle betainc ceil conj cumprod digamma erf erfc expm1 floordiv floormod igamma igammac imag
        invert_permutation is_finite is_inf is_nan is_non_decreasing is_strictly_increasing lbeta lgamma log log1p
        log_sigmoid logical_xor polygamma real reciprocal rint rsqrt segment_max segment_mean segment_min segment_prod
        segment_sum squared_difference unsorted_segment_max unsorted_segment_mean unsorted_segment_min
        unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum zeta""",
    "linalg": "cholesky cholesky_solve cross global_norm matrix_transpose qr svd trace",
    "signal": "fft fft2d fft3d ifft ifft2d ifft3d",
    "debugging": """assert_greater_equal assert_integer assert_less_equal assert_near assert_negative
        assert_non_negative assert_non_positive assert_none_equal assert_positive assert_proper_iterable
        assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type check_numerics
        is_numeric_tensor""",
    "quantization": """fake_quant_with_min_max_args fake_quant_with_min_max_vars
        fake_quant_with_min_max_vars_per_channel""",
    "dtypes": "qint8 qint16 qint32 quint8 quint16 resource variant",
    "io": "read_file write_file",
    "random": "truncated_normal",
    "random.streams": "get_seed",
}
_RENAMED = {
    "NoGradient": "no_gradient",
    "NotDifferentiable": "no_gradient",
    "OpError": "errors.OpError",
    "debugging.is_finite": "math.is_finite",
    "debugging.is_inf": "math.is_inf",
    "debugging.is_nan": "math.is_nan",
    "debugging.is_non_decreasing": "math.is_non_decreasing",
    "debugging.is_strictly_increasing": "math.is_strictly_increasing",
    "diag": "linalg.tensor_diag",
    "diag_part": "linalg.tensor_diag_part",
    "div_no_nan": "math.divide_no_nan",
    "image.resize_image_with_crop_or_pad": "image.resize_with_crop_or_pad",
    "image.transpose_image": "image.transpose",
    "lin_space": "linspace",
    "matrix_band_part": "linalg.band_part",
    "matrix_determinant": "linalg.det",
    "matrix_diag": "linalg.diag",
    "matrix_diag_part": "linalg.diag_part",
    "matrix_inverse": "linalg.inv",
    "matrix_set_diag": "linalg.set_diag",
    "matrix_solve": "linalg.solve",
    "matrix_solve_ls": "linalg.lstsq",
    "matrix_triangular_solve": "linalg.triangular_solve",
    "mod": "math.floormod",
    "nn.avg_pool_v2": "nn.avg_pool",
    "nn.depthwise_conv2d_native_backprop_filter": "nn.depthwise_conv2d_backprop_filter",
    "nn.depthwise_conv2d_native_backprop_input": "nn.depthwise_conv2d_backprop_input",
    "nn.fixed_unigram_candidate_sampler": "random.fixed_unigram_candidate_sampler",
    "nn.log_uniform_candidate_sampler": "random.log_uniform_candidate_sampler",
    "nn.max_pool_v2": "nn.max_pool",
    "nn.softmax_cross_entropy_with_logits_v2": "nn.softmax_cross_entropy_with_logits",
    "nn.uniform_candidate_sampler": "random.uniform_candidate_sampler",
    "random.set_random_seed": "random.set_seed",
    "random_crop": "image.random_crop",
    "random_gamma": "random.gamma",
    "random_normal": "random.normal",
    "random_shuffle": "random.shuffle",
    "random_uniform": "random.uniform",
    "reverse_v2": "reverse",
    "self_adjoint_eig": "linalg.eigh",
    "self_adjoint_eigvals": "linalg.eigvalsh",
    "set_random_seed": "random.set_seed",
    "sparse_tensor_to_dense": "sparse_dense.to_dense",
    "tensor_scatter_add": "tensor_scatter_nd_add",
    "tensor_scatter_sub": "tensor_scatter_nd_sub",
    "tensor_scatter_update": "tensor_scatter_nd_update",
    "where_v2": "where",
}
"""Names of TensorFlow 1 for functions of ours: in TensorFlow they are the same functions as well."""


def _older_names() -> dict[str, str]:
    moved = {name: f"{module}.{name}" for module, names in _AT_THE_ROOT.items() for name in names.split()}
    return {**moved, **_RENAMED}


def _own_namespace(v1: ModuleType, name: str) -> None:
    """Give v1 a copy of a namespace, with all names of the newer one."""
    newer = getattr(v1, name)
    own = ModuleType(f"{v1.__name__}.{name}", newer.__doc__)
    own.__dict__.update({n: v for n, v in vars(newer).items() if not n.startswith("__")})
    setattr(v1, name, own)


def _implemented(root: ModuleType, name: str) -> Any:
    """The object with this name at the root or, if only TensorFlow 1 has it, in the implementation of its namespace."""
    try:
        return attrgetter(name)(root)
    except AttributeError:
        namespace, _, last = name.rpartition(".")
        return getattr(import_module(f"gradtape._src.tf.{namespace}"), last)


def like_tensorflow(version: ModuleType, name: str) -> ModuleType:
    """A namespace `version` with TensorFlow's names."""
    shown = ModuleType(name, "The version of TensorFlow that gradtape has the names of.")
    shown.__dict__.update({n: v for n, v in vars(version).items() if n.isupper() and not n.startswith("TENSORFLOW")})
    shown.VERSION, shown.GIT_VERSION = version.TENSORFLOW, version.TENSORFLOW_GIT  # type: ignore[attr-defined]
    return shown


def _load_lazily(v1: ModuleType) -> None:
    """Omit names that differ from TensorFlow 2's or are rarely used: they are imported on first use."""
    for name in (*names.LAZY, *names.NAMESPACES):
        v1.__dict__.pop(name, None)
    for name in names.NN:
        v1.nn.__dict__.pop(name, None)
    v1.nn.__dict__["__getattr__"] = lambda name: names.neural(v1.nn, name)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Convert a string or bytes to bytes."""
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Convert a string or bytes to a string."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Convert anything to a string; bytes are decoded."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Convert a path to a string; anything else unchanged."""
    return as_str_any(path.__fspath__()) if hasattr(path, "__fspath__") else path


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether TensorFlow of that day was older than this version: always true for earlier days."""
    return (year, month, day) < (2026, 1, 1)


@contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Do nothing: older versions of TensorFlow can read everything that gradtape writes."""
    yield


def _functions(v1: ModuleType) -> dict[str, Any]:
    """The functions of `tf.compat`."""
    return {
        "as_bytes": as_bytes,
        "as_str": as_text,
        "as_str_any": as_str_any,
        "as_text": as_text,
        "bytes_or_text_types": (bytes, str),
        "complex_types": (numbers.Complex, np.number),
        "dimension_at_index": lambda shape, index: v1.dimension_at_index(shape, index),
        "dimension_value": lambda dimension: v1.dimension_value(dimension),
        "forward_compatibility_horizon": forward_compatibility_horizon,
        "forward_compatible": forward_compatible,
        "integral_types": (numbers.Integral, np.integer),
        "path_to_str": path_to_str,
        "real_types": (numbers.Real, np.integer, np.floating),
    }


class SecondVersion(ModuleType):
    """`tf.compat.v2`: all names of `tf`, and the switch that programs for both versions call."""

    def __init__(self, root: ModuleType, compat: ModuleType) -> None:
        super().__init__(f"{compat.__name__}.v2", root.__doc__)
        self.__dict__.update(_root=root, compat=compat, enable_v2_behavior=_enabled, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [public for public in dir(self) if not public.startswith("_")]
        return getattr(vars(self)["_root"], name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(vars(self)["_root"]), "enable_v2_behavior"})


def build(root: ModuleType, names_of_root: Iterable[str]) -> ModuleType:
    """Build the namespace `compat` from the complete root; v1 has these of its names."""
    compat = ModuleType(f"{root.__name__}.compat", __doc__)
    v1 = ModuleType(f"{compat.__name__}.v1", "TensorFlow 1 names that eager tape code uses.")
    hidden = {"autodiff", "compat"}
    for name in names_of_root:
        if name not in hidden:
            setattr(v1, name, getattr(root, name))
    for name, value in {
        "get_variable": get_variable,
        "variable_scope": variable_scope,
        "enable_v2_behavior": _enabled,
        "gradients": gradients,
        "hessians": hessians,
        "assign": assign,
        "assign_add": assign_add,
        "assign_sub": assign_sub,
        **{name: maker for name, maker in vars(compat_initializers).items() if name.endswith("_initializer")},
    }.items():
        setattr(v1, name, value)
    for name in ("debugging", "image", "nn", "random"):
        _own_namespace(v1, name)
    for name, ours in _older_names().items():
        *inside, last = name.split(".")
        setattr(getattr(v1, inside[0]) if inside else v1, last, _implemented(root, ours))
    v1.nn.fused_batch_norm, v1.nn.convolution, v1.nn.ctc_loss = fused_batch_norm, convolution, ctc_loss
    _load_lazily(v1)
    shown = like_tensorflow(version, f"{v1.__name__}.version")
    v1.__dict__.update({n: v for n, v in vars(shown).items() if n.isupper()}, version=shown)
    v1.__dict__["__version__"] = version.TENSORFLOW
    compat.v1, compat.v2, v1.compat = v1, SecondVersion(root, compat), compat  # type: ignore[attr-defined]
    compat.__dict__.update(_functions(v1))
    return compat
