"""Python code as ops: py_function, numpy_function, print, and names that gradients are registered under."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.batched import EscapeError
from gradtape._src.arrays.symbolic import current_graph, inside_eager_function, is_known
from gradtape._src.arrays.value_text import decoded, nested_text
from gradtape._src.autodiff.gradient_overrides import register
from gradtape._src.conversion import array_from, convert, wrap
from gradtape._src.core.composites import is_composite
from gradtape._src.core.dispatch import record
from gradtape._src.core.observe import wrapped
from gradtape._src.core.primitive import Op
from gradtape._src.core.structure import dense
from gradtape._src.core.tape import active_stack
from gradtape._src.dtypes import DType, as_dtype, dtype_of
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable, read


# -- functions -------------------------------------------------------------------------------------------------------
@overload
def py_function(
    func: Callable[..., Any], inp: Any, Tout: list[Any] | tuple[Any, ...], name: str | None = None
) -> list[Tensor]: ...
@overload
def py_function(
    func: Callable[..., Any], inp: Any, Tout: DType | TensorSpec | str | type, name: str | None = None
) -> Tensor: ...
@overload
def py_function(
    func: None = None, inp: Any = None, Tout: Any = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def py_function(
    func: Callable[..., Any] | None = None, inp: Any = None, Tout: Any = None, name: str | None = None
) -> Any:
    """Run a Python function on tensors as an op. Tapes record what it does, so it has gradients.

    >>> tf.py_function(lambda x: x * x, [tf.constant(3.0)], "float32").numpy().item()
    9.0
    """
    if func is None:
        return lambda f: lambda *args: py_function(f, args, Tout)
    tensors = [convert(x) for x in inp]

    def call(*given: Tensor) -> Any:
        return _checked(lambda: _outputs(func(*given), Tout, func), "EagerPyFunc")

    if current_graph() is not None:
        return _inside_program(call, tensors, Tout, differentiable=True)
    result = call(*tensors)
    return _as_one_op(result, tensors) if active_stack() is not None else result


def _as_one_op(result: Any, tensors: list[Tensor]) -> Any:
    """Make gradients by inputs that a result does not depend on zeros, because the call is one op."""
    from gradtape._src.graph.calls import joined

    outputs = nest.flatten(result)
    places = [i for i, t in enumerate(outputs) if type(t) is Tensor and is_differentiable(t.array)]
    inputs = [t for t in tensors if is_differentiable(t.array)]
    for i, tensor in zip(places, joined([outputs[i] for i in places], inputs), strict=True):
        outputs[i] = tensor
    return nest.pack_sequence_as(result, outputs)


def _checked(call: Callable[[], Any], op: str) -> Any:
    """Call the user's code as an op: all exceptions become errors of that op."""
    try:
        return call()
    except (errors.OpError, EscapeError):
        raise
    except Exception as error:
        kind = next((k for base, k in _KINDS if isinstance(error, base)), errors.UnknownError)
        raise kind(None, None, f"{type(error).__name__}: {error} [Op:{op}]") from error


_KINDS: tuple[tuple[type[Exception], type[errors.OpError]], ...] = (
    (NotImplementedError, errors.UnimplementedError),
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (ValueError, errors.InvalidArgumentError),
    (TypeError, errors.InvalidArgumentError),
)


def _inside_program(func: Callable[..., Any], tensors: list[Tensor], Tout: Any, *, differentiable: bool) -> Any:
    """Add the function to the program that is being traced, which calls back to Python."""
    from gradtape._src.graph.host_calls import function_on_host

    many = isinstance(Tout, (list, tuple))
    wanted = list(Tout) if many else [] if Tout is None else [Tout]
    outputs = function_on_host(func, tensors, wanted, differentiable=differentiable)
    return outputs if many or not outputs else outputs[0]


def _outputs(result: Any, Tout: Any, func: Any) -> Any:
    """Convert the function's results to tensors of the declared dtypes."""
    many = isinstance(Tout, (list, tuple))
    wanted = [_dtype(t) for t in Tout] if many else [_dtype(Tout)]
    # As in TensorFlow, a list has a value for each output, and undeclared ones are dropped.
    values = [] if result is None else list(result)[: len(wanted)] if isinstance(result, (list, tuple)) else [result]
    if len(values) != len(wanted):
        raise errors.invalid_argument(
            f"{getattr(func, '__name__', func)} returns {len(values)} values, but expects to see {len(wanted)} values.",
            "EagerPyFunc",
        )
    tensors = [convert(v, dtype) for v, dtype in zip(values, wanted, strict=True)]
    return tensors if many else tensors[0]


def _dtype(entry: Any) -> Any:
    return as_dtype(getattr(entry, "dtype", entry))


def _ends(xp: Any, d: Any, needs: list[Any], *saved: Any) -> list[None]:
    return [None] * len(needs)


_NUMPY_FUNCTION = Op(
    "numpy_function",
    (),
    (),
    tf_name="PyFunc",
    vjp_all=_ends,
    structure=dense,
    category="other",
    names=("numpy_function",),
    doc="A function that computes in NumPy, without a derivative.",
)  # recorded, so that tapes report the end of the path


@overload
def numpy_function(
    func: Callable[..., Any],
    inp: Any,
    Tout: DType | TensorSpec | str | type,
    stateful: bool = True,
    name: str | None = None,
) -> Tensor: ...
@overload
def numpy_function(
    func: None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
@overload
def numpy_function(
    func: Callable[..., Any],
    inp: Any,
    Tout: list[Any] | tuple[Any, ...],
    stateful: bool = True,
    name: str | None = None,
) -> Any: ...
def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Run a Python function on NumPy arrays as an op. Tapes do not record it, so it has no gradient.

    >>> tf.numpy_function(np.sort, [tf.constant([2.0, 1.0])], "float32").numpy().tolist()
    [1.0, 2.0]
    """
    if func is None:
        return lambda f: lambda *args: numpy_function(f, args, Tout, stateful)
    tensors = [convert(x) for x in inp]

    def in_function(*given: Tensor) -> Any:
        return _checked(lambda: _arrays(func(*[t.numpy() for t in given]), Tout, func), "PyFunc")

    if current_graph() is not None:
        return _inside_program(in_function, tensors, Tout, differentiable=False)

    # As in TensorFlow, eager code gets the function's results, and a tf.function the declared ones.
    def kernel(*arrays: Any) -> tuple[Any, ...] | None:
        result = in_function(*tensors) if inside_eager_function() else func(*arrays)
        return None if result is None else tuple([None if v is None else array_from(v) for v in nest.flatten(result)])

    results = wrapped(_NUMPY_FUNCTION, kernel)(*[t.numpy() for t in tensors])
    if results is None:
        return None
    outputs = [None if v is None else wrap(v) for v in results]
    record(_NUMPY_FUNCTION, tensors, tuple([out for out in outputs if out is not None]), {})
    return outputs[0] if len(outputs) == 1 else outputs


def _arrays(result: Any, Tout: Any, func: Any) -> Any:
    """The results of a function of arrays, if they have the declared dtypes."""
    many = isinstance(Tout, (list, tuple))
    wanted = [_dtype(t) for t in Tout] if many else [] if Tout is None else [_dtype(Tout)]
    values = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    name = getattr(func, "__name__", func)
    if len(values) != len(wanted):
        raise errors.invalid_argument(
            f"{name} returns {len(values)} values, but expects to see {len(wanted)} values.", "PyFunc"
        )
    arrays = [array_from(np.asarray(v) if isinstance(v, (int, float, complex, list, tuple)) else v) for v in values]
    for i, (value, dtype) in enumerate(zip(arrays, wanted, strict=True)):
        if dtype_of(value) != dtype:
            raise errors.invalid_argument(
                f"{i}-th value returned by {name} is {dtype_of(value).word}, but expects {dtype.word}. Use astype "
                "in the function, or declare another dtype.",
                "PyFunc",
            )
    return arrays if many else arrays[0] if arrays else None


# -- names for gradients ---------------------------------------------------------------------------------------------
class RegisterGradient:
    """Register a gradient function that `graph.gradient_override_map` assigns to ops of a graph.

    To define your own gradient, use `custom_gradient`, which needs no graph.

    >>> @tf.RegisterGradient("GuidedRelu")
    ... def guided(op, upstream):
    ...     return tf.where((op.outputs[0] > 0.0) & (upstream > 0.0), upstream, 0.0)
    >>> with tf.Graph().as_default() as graph, graph.gradient_override_map({"Relu": "GuidedRelu"}):
    ...     x = tf.constant([1.0, -1.0, 2.0])
    ...     y = tf.nn.relu(x) * [1.0, 1.0, -1.0]
    ...     with tf.compat.v1.Session() as session:
    ...         print(session.run(tf.gradients(y, x)[0]))
    [1. 0. 0.]
    """

    __slots__ = ("_op_type",)

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        register(self._op_type, f)
        return f


def no_gradient(op_type: str) -> None:
    """Declare that a named op of a graph has no gradient.

    >>> tf.no_gradient("MyCounter")
    """
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    register(op_type, None)


# -- print -----------------------------------------------------------------------------------------------------------
def print_(*inputs: Any, **kwargs: Any) -> None:
    """Print tensors, and structures of them, to stderr or to `output_stream`.

    `summarize` is the number of elements shown at each end of an axis (3 by default; -1 shows all). Other keywords:
    `sep`, `end`.

    >>> import sys
    >>> tf.print("x:", tf.constant([1.0, 2.5]), output_stream=sys.stdout)
    x: [1 2.5]
    """
    stream = kwargs.pop("output_stream", sys.stderr)
    kwargs.pop("name", None)
    most = kwargs.pop("summarize", 3)
    sep, end = kwargs.pop("sep", " "), kwargs.pop("end", os.linesep)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    if isinstance(most, bool) or not isinstance(most, int):
        raise TypeError(f"Expected int for argument 'summarize' not {most!r}.")
    if current_graph() is not None:
        _print_from_program(inputs, {"output_stream": stream, "summarize": most, "sep": sep, "end": end})
        return
    if len(inputs) == 1 and isinstance(inputs[0], Tensor) and inputs[0].dtype.name == "string" and not inputs[0].ndim:
        text = decoded(inputs[0].numpy())
    else:
        text = sep.join(_shown(item, most) for item in inputs)
    _emit(text + end, stream)


print_.__name__ = print_.__qualname__ = "print"


def _print_from_program(inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Print whenever the program reaches this point, with the current values."""
    from gradtape._src.graph.host_calls import effect

    leaves = [read(leaf) if isinstance(leaf, Variable) else leaf for leaf in nest.flatten(inputs)]
    traced = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not is_known(leaf)]

    def show(*values: Tensor) -> None:
        remaining = iter(values)
        shown = [next(remaining) if isinstance(leaf, Tensor) and not is_known(leaf) else leaf for leaf in leaves]
        print_(*nest.pack_sequence_as(inputs, shown), **options)

    effect(show, traced)


def _emit(text: str, stream: Any) -> None:
    if isinstance(stream, str) and stream.startswith("file://"):
        with open(stream[len("file://") :], "a", encoding="utf-8") as file:
            file.write(text)
    elif hasattr(stream, "write"):
        stream.write(text)
        stream.flush()
    elif callable(stream):  # the method of a logger
        stream(text.rstrip("\n"))
    else:
        raise ValueError(
            f"Unsupported output stream, logging level, or file.{stream}. Supported streams are sys.stdout, "
            "sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error. File needs to be in the form of "
            "'file://<filepath>'."
        )


class _Text:
    """Text that is printed verbatim in a structure."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(item: Any, most: int) -> str:
    if isinstance(item, (Tensor, Variable)) or is_composite(item):
        return _tensor_text(item, most)
    if isinstance(item, str):
        return item
    if nest.is_nested(item):
        return repr(nest.map_structure(lambda leaf: _leaf(leaf, most), item))
    return repr(item)


def _leaf(leaf: Any, most: int) -> Any:
    shown = isinstance(leaf, (Tensor, Variable)) or is_composite(leaf)
    return _Text(_tensor_text(leaf, most)) if shown else leaf


def _tensor_text(tensor: Any, most: int) -> str:
    if is_composite(tensor):
        return _rows_text(tensor.to_list(), most) if hasattr(tensor, "row_splits") else _sparse_text(tensor, most)
    return nested_text(np.asarray(convert(tensor).array), most)


def _sparse_text(x: Any, most: int) -> str:
    where, values, sizes = (_tensor_text(part, most) for part in (x.indices, x.values, x.dense_shape))
    return f"'SparseTensor(indices={where}, values={values}, shape={sizes})'"


def _rows_text(value: Any, most: int) -> str:
    """Rows of a ragged tensor with commas, as TensorFlow prints them: the middle of long ones is omitted."""
    if isinstance(value, list):
        long = most >= 0 and len(value) > 2 * most
        ends = [*value[:most], None, *value[len(value) - most :]] if long else value
        return "[" + ", ".join("..." if part is None else _rows_text(part, most) for part in ends) + "]"
    if isinstance(value, bytes):
        return repr(decoded(value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, float) else str(value)
