"""gradtape: TensorFlow's GradientTape, whole, without TensorFlow.

>>> import gradtape as tf
>>> x = tf.Variable(3.0)
>>> with tf.GradientTape() as tape:
...     y = x * x
>>> float(tape.gradient(y, x))
6.0
"""

from __future__ import annotations

import importlib as _importlib
import os as _os
import sys as _sys
import typing as _typing
import warnings as _warnings

from gradtape import (
    dtypes as dtypes,
    errors as errors,
    nest as nest,
    version as version,
)
from gradtape._src import graph as _graph  # registers the compiler of lazy arrays
from gradtape._src.autodiff.arguments import (
    AggregationMethod as AggregationMethod,
    UnconnectedGradients as UnconnectedGradients,
)
from gradtape._src.call_sites import logger as get_logger
from gradtape._src.conversion import register_tensor_conversion_function as register_tensor_conversion_function
from gradtape._src.devices import set_engine as _set_engine
from gradtape._src.dtypes import (
    DType as DType,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    bool as bool,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    qint8 as qint8,
    qint16 as qint16,
    qint32 as qint32,
    quint8 as quint8,
    quint16 as quint16,
    resource as resource,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    variant as variant,
)
from gradtape._src.indexed_slices import IndexedSlices as IndexedSlices
from gradtape._src.inspect.gradient_tape import GradientTape as GradientTape
from gradtape._src.lazy_names import homes_of as _homes_of, resolve as _resolve

# Primitives that are functions at the root by their declaration: written by tools/make_public_modules.py.
from gradtape._src.ops.math import (
    add as add,
    cos as cos,
    cosh as cosh,
    equal as equal,
    exp as exp,
    floor as floor,
    greater as greater,
    greater_equal as greater_equal,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    not_equal as not_equal,
    sigmoid as sigmoid,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
)

# The other names, among them those that differ from the primitive's, are listed here by hand.
from gradtape._src.ops.sparse_tensor import SparseTensor as SparseTensor, SparseTensorSpec as SparseTensorSpec
from gradtape._src.shape import TensorShape as TensorShape, TensorSpec as TensorSpec
from gradtape._src.tensor import Tensor as Tensor
from gradtape._src.tf.array import (
    boolean_mask as boolean_mask,
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape,
    broadcast_to as broadcast_to,
    cast as cast,
    complex as complex,
    concat as concat,
    constant as constant,
    convert_to_tensor as convert_to_tensor,
    ensure_shape as ensure_shape,
    expand_dims as expand_dims,
    eye as eye,
    fill as fill,
    gather as gather,
    gather_nd as gather_nd,
    identity as identity,
    is_tensor as is_tensor,
    linspace as linspace,
    newaxis as newaxis,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    range as range,
    rank as rank,
    reshape as reshape,
    reverse as reverse,
    saturate_cast as saturate_cast,
    shape as shape,
    size as size,
    split as split,
    squeeze as squeeze,
    stack as stack,
    stop_gradient as stop_gradient,
    transpose as transpose,
    unstack as unstack,
    where as where,
    zeros as zeros,
    zeros_like as zeros_like,
)
from gradtape._src.tf.linalg import einsum as einsum, matmul as matmul, norm as norm, tensordot as tensordot
from gradtape._src.tf.math import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add_n as add_n,
    argmax as argmax,
    argmin as argmin,
    argsort as argsort,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cumsum as cumsum,
    divide as divide,
    pow as pow,
    realdiv as realdiv,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    round as round,
    scalar_mul as scalar_mul,
    sign as sign,
    sort as sort,
    truediv as truediv,
    truncatemod as truncatemod,
)
from gradtape._src.tf.scopes import (
    control_dependencies as control_dependencies,
    device as device,
    executing_eagerly as executing_eagerly,
    get_current_name_scope as get_current_name_scope,
    init_scope as init_scope,
    name_scope as name_scope,
    variable_creator_scope as variable_creator_scope,
)
from gradtape._src.variable import (
    Variable as Variable,
    VariableAggregation as VariableAggregation,
    VariableSynchronization as VariableSynchronization,
)
from gradtape._src.version import __version__ as __version__

if not hasattr(_sys.modules.get("_gradtape_keras"), "add_backend"):
    # Python has started without gradtape_keras.pth (in a working copy, or with -S): nothing waits for `import keras`.
    from gradtape._src.hooks.keras import install as _install_keras_hook

    _install_keras_hook()
if "GRADTAPE_ENGINE" in _os.environ:
    _set_engine(_os.environ["GRADTAPE_ENGINE"] or "numpy")

# NumPy warns where TensorFlow is silent (1/0, overflow): within gradtape only, and nowhere else. At import, because a
# filter that the first op adds is gone again after a `warnings.catch_warnings` block around that op.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradtape\.")


def load_ipython_extension(shell: object) -> None:
    """Add the cell magics `%%tape` and `%%explain`: `%load_ext gradtape` in a notebook calls this.

    `%%tape loss w` runs the cell under a tape, draws the tape and binds it to `tape`. `%%explain loss w b` runs the
    cell under a tape and says for each source whether and how it is connected to the target and, if it is not, why.
    IPython passes itself as `shell`.
    """
    from gradtape._src.jupyter import load

    load(shell)


def install_as_tensorflow() -> None:
    """Let `import tensorflow` mean gradtape, in this process.

    >>> import gradtape
    >>> gradtape.install_as_tensorflow()
    >>> import tensorflow as tf
    >>> tf.GradientTape is gradtape.GradientTape
    True
    """
    from gradtape._src.hooks.tensorflow import install_as_tensorflow as install

    install()


# -- what is loaded when it is first used ----------------------------------------------------------------------------
_LAZY_MODULES = (
    "autodiff",
    "autograph",
    "audio",
    "bitwise",
    "config",
    "data",
    "debugging",
    "distribute",
    "experimental",
    "feature_column",
    "image",
    "io",
    "keras",
    "linalg",
    "lookup",
    "math",
    "mixed_precision",
    "nn",
    "profiler",
    "quantization",
    "ragged",
    "random",
    "raw_ops",
    "saved_model",
    "sets",
    "signal",
    "sparse",
    "strings",
    "summary",
    "test",
    "tpu",
    "train",
    "types",
    "xla",
)
_LAZY = {name: f"gradtape.{name}" for name in _LAZY_MODULES}
_LAZY |= {name: f"gradtape.keras.{name}" for name in ("initializers", "losses", "metrics", "optimizers")}


_LAZY_FUNCTIONS = _homes_of(
    ("autodiff.custom_gradient", "custom_gradient grad_pass_through recompute_grad"),
    ("function.function", "function"),
    ("function.modes", "inside_function is_symbolic_tensor"),
    ("graph.gradients", "gradients hessians"),
    ("tf.clip", "clip_by_global_norm clip_by_norm clip_by_value"),
    (
        "tf.control_flow",
        "case cond foldl foldr group map_fn no_op scan switch_case timestamp vectorized_map while_loop",
    ),
    ("tf.debugging", "Assert assert_equal assert_greater assert_less assert_rank"),
    ("tf.decompositions", "eig eigvals"),
    (
        "tf.indexing",
        "dynamic_partition dynamic_stitch histogram_fixed_width histogram_fixed_width_bins scatter_nd searchsorted "
        "tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub "
        "tensor_scatter_nd_update unique unique_with_counts",
    ),
    (
        "tf.initializers",
        "constant_initializer ones_initializer random_normal_initializer random_uniform_initializer zeros_initializer",
    ),
    ("tf.module", "Module"),
    ("tf.python_functions", "RegisterGradient no_gradient numpy_function py_function"),
    (
        "tf.shaping",
        "bitcast get_static_value guarantee_const identity_n meshgrid pad parallel_stack repeat reverse_sequence "
        "roll sequence_mask shape_n slice strided_slice tile unravel_index",
    ),
    ("tf.space_blocks", "batch_to_space required_space_to_batch_paddings space_to_batch space_to_batch_nd"),
    ("tf.special", "truncatediv"),
    ("tf.tensor_array", "TensorArray"),
)
_LAZY_FUNCTIONS |= {
    "matrix_square_root": "gradtape._src.tf.decompositions:sqrtm",
    "print": "gradtape._src.tf.python_functions:print_",
    "tuple": "gradtape._src.tf.control_flow:tuple_",
}
_LAZY_NAMES = _homes_of(
    ("ops.ragged", "RaggedTensor RaggedTensorSpec"),
    ("tf.edit_distance", "edit_distance"),
    ("tf.protos", "DeviceSpec make_ndarray make_tensor_proto"),
    ("tf.signal", "fftnd ifftnd irfftnd rfftnd"),
    ("tf.specs", "TypeSpec type_spec_from_value"),
    ("tf.strings", "as_string fingerprint"),
    ("tf.v1.graphs.default", "Graph"),
    ("tf.v1.graphs.tensors", "Operation"),
)
_LAZY_NAMES |= _LAZY_FUNCTIONS


_ALSO_IN_V1 = {"audio", "autograph", "bitwise", "image", "io", "quantization", "signal", "test"}
_ALSO_IN_V1 |= {"debugging", "linalg", "math", "nn", "random"}
_ALSO_IN_V1 |= {"Graph", "Operation", "fftnd", "ifftnd", "irfftnd", "rfftnd", *_LAZY_FUNCTIONS}
"""What `tf.compat.v1` has of the names above; the others are other things there, or are loaded by it."""


def _compat() -> _typing.Any:
    from gradtape._src.tf import compat as implementation

    names = {name for name in globals() if not name.startswith("_")} - {*_LAZY, *_LAZY_NAMES}
    compat = implementation.build(_sys.modules[__name__], sorted(names | _ALSO_IN_V1))

    def of_v1(name: str) -> _typing.Any:
        if name in ("config", "distribute", "keras"):  # the others are other things there
            return _load(name)
        return implementation.attribute(compat.v1, name)

    compat.v1.__getattr__ = of_v1
    return compat


def _load(name: str) -> _typing.Any:
    if name == "compat":
        found = globals()[name] = _compat()
        return found
    if name in _LAZY or name in _LAZY_NAMES:
        found = _importlib.import_module(_LAZY[name]) if name in _LAZY else _resolve(_LAZY_NAMES[name], name)
        globals()[name] = found
        return found
    from gradtape._src.reasons import missing

    raise missing(_sys.modules[__name__], f"tf.{name}", name)


if _typing.TYPE_CHECKING:
    compat: _typing.Any
    from gradtape import (
        audio as audio,
        autodiff as autodiff,
        autograph as autograph,
        bitwise as bitwise,
        config as config,
        data as data,
        debugging as debugging,
        distribute as distribute,
        experimental as experimental,
        feature_column as feature_column,
        image as image,
        io as io,
        keras as keras,
        linalg as linalg,
        lookup as lookup,
        math as math,
        mixed_precision as mixed_precision,
        nn as nn,
        profiler as profiler,
        quantization as quantization,
        ragged as ragged,
        random as random,
        raw_ops as raw_ops,
        saved_model as saved_model,
        signal as signal,
        strings as strings,
        summary as summary,
        test as test,
        tpu as tpu,
        train as train,
        types as types,
        xla as xla,
    )
    from gradtape._src.autodiff.custom_gradient import (
        custom_gradient as custom_gradient,
        grad_pass_through as grad_pass_through,
        recompute_grad as recompute_grad,
    )
    from gradtape._src.function.function import function as function
    from gradtape._src.function.modes import (
        inside_function as inside_function,
        is_symbolic_tensor as is_symbolic_tensor,
    )
    from gradtape._src.graph.gradients import gradients as gradients, hessians as hessians
    from gradtape._src.ops.ragged import RaggedTensor as RaggedTensor, RaggedTensorSpec as RaggedTensorSpec
    from gradtape._src.tf.clip import (
        clip_by_global_norm as clip_by_global_norm,
        clip_by_norm as clip_by_norm,
        clip_by_value as clip_by_value,
    )
    from gradtape._src.tf.control_flow import (
        case as case,
        cond as cond,
        foldl as foldl,
        foldr as foldr,
        group as group,
        map_fn as map_fn,
        no_op as no_op,
        scan as scan,
        switch_case as switch_case,
        timestamp as timestamp,
        tuple_ as tuple,
        vectorized_map as vectorized_map,
        while_loop as while_loop,
    )
    from gradtape._src.tf.debugging import (
        Assert as Assert,
        assert_equal as assert_equal,
        assert_greater as assert_greater,
        assert_less as assert_less,
        assert_rank as assert_rank,
    )
    from gradtape._src.tf.decompositions import eig as eig, eigvals as eigvals, sqrtm as matrix_square_root
    from gradtape._src.tf.edit_distance import edit_distance as edit_distance
    from gradtape._src.tf.indexing import (
        dynamic_partition as dynamic_partition,
        dynamic_stitch as dynamic_stitch,
        histogram_fixed_width as histogram_fixed_width,
        histogram_fixed_width_bins as histogram_fixed_width_bins,
        scatter_nd as scatter_nd,
        searchsorted as searchsorted,
        tensor_scatter_nd_add as tensor_scatter_nd_add,
        tensor_scatter_nd_max as tensor_scatter_nd_max,
        tensor_scatter_nd_min as tensor_scatter_nd_min,
        tensor_scatter_nd_sub as tensor_scatter_nd_sub,
        tensor_scatter_nd_update as tensor_scatter_nd_update,
        unique as unique,
        unique_with_counts as unique_with_counts,
    )
    from gradtape._src.tf.initializers import (
        constant_initializer as constant_initializer,
        ones_initializer as ones_initializer,
        random_normal_initializer as random_normal_initializer,
        random_uniform_initializer as random_uniform_initializer,
        zeros_initializer as zeros_initializer,
    )
    from gradtape._src.tf.module import Module as Module
    from gradtape._src.tf.protos import (
        DeviceSpec as DeviceSpec,
        make_ndarray as make_ndarray,
        make_tensor_proto as make_tensor_proto,
    )
    from gradtape._src.tf.python_functions import (
        RegisterGradient as RegisterGradient,
        no_gradient as no_gradient,
        numpy_function as numpy_function,
        print_ as print,
        py_function as py_function,
    )
    from gradtape._src.tf.shaping import (
        bitcast as bitcast,
        get_static_value as get_static_value,
        guarantee_const as guarantee_const,
        identity_n as identity_n,
        meshgrid as meshgrid,
        pad as pad,
        parallel_stack as parallel_stack,
        repeat as repeat,
        reverse_sequence as reverse_sequence,
        roll as roll,
        sequence_mask as sequence_mask,
        shape_n as shape_n,
        slice as slice,
        strided_slice as strided_slice,
        tile as tile,
        unravel_index as unravel_index,
    )
    from gradtape._src.tf.signal import fftnd as fftnd, ifftnd as ifftnd, irfftnd as irfftnd, rfftnd as rfftnd
    from gradtape._src.tf.space_blocks import (
        batch_to_space as batch_to_space,
        required_space_to_batch_paddings as required_space_to_batch_paddings,
        space_to_batch as space_to_batch,
        space_to_batch_nd as space_to_batch_nd,
    )
    from gradtape._src.tf.special import truncatediv as truncatediv
    from gradtape._src.tf.specs import TypeSpec as TypeSpec, type_spec_from_value as type_spec_from_value
    from gradtape._src.tf.strings import as_string as as_string, fingerprint as fingerprint
    from gradtape._src.tf.tensor_array import TensorArray as TensorArray
    from gradtape._src.tf.v1.graphs.default import Graph as Graph
    from gradtape._src.tf.v1.graphs.tensors import Operation as Operation
    from gradtape.keras import (
        initializers as initializers,
        losses as losses,
        metrics as metrics,
        optimizers as optimizers,
    )
else:  # a type checker would take every misspelled name for one that is loaded on first use
    __getattr__ = _load
    # For `from gradtape import *`: what is loaded on first use too, but for Keras, which is optional.
    __all__ = [name for name in globals() if not name.startswith("_") and name != "annotations"]
    __all__ += [*_LAZY_NAMES, *(name for name in _LAZY_MODULES if name != "keras")]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_NAMES, "compat"} - {"annotations"})
