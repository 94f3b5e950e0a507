"""TensorFlow's error classes and their numeric codes."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """An operation failed while it ran.

    The base class takes `OpError(node_def, op, message, error_code)`; every subclass has its own code and takes
    `(node_def, op, message)`. A mapping among the further arguments becomes `experimental_payloads`.

    >>> error = tf.errors.InvalidArgumentError(None, None, "Incompatible shapes: [2] vs. [3]")
    >>> str(error), error.error_code == tf.errors.INVALID_ARGUMENT
    ('Incompatible shapes: [2] vs. [3]', True)
    """

    _code: int | None = None

    when_traced: type[Exception] | None = None
    """The class that is raised instead while a function is traced, when TensorFlow checks only shapes and dtypes."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any, error_code: int | None = None) -> None:
        super().__init__(message)
        if self._code is not None:
            error_code = self._code
        elif error_code is None and args:
            error_code, *args = args  # type: ignore[assignment]
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code
        self._payloads: dict[Any, Any] = next((dict(a) for a in args if isinstance(a, dict)), {})

    @property
    def node_def(self) -> Any:
        """The description of the failed graph node: None when running eagerly."""
        return self._node_def

    @property
    def op(self) -> Any:
        """The failed operation: None when running eagerly."""
        return self._op

    @property
    def message(self) -> str:
        """What went wrong."""
        return self._message

    @property
    def error_code(self) -> int | None:
        """One of this module's numeric codes."""
        return self._error_code

    @property
    def experimental_payloads(self) -> dict[Any, Any]:
        """Further details by name."""
        return self._payloads

    def __str__(self) -> str:
        return str(self._message)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own method would call the class with `args`, which contain only the message.
        code = () if type(self)._code is not None else (self._error_code,)
        return type(self), (self._node_def, self._op, self._message, *code, self._payloads), self.__dict__


Error = TypeVar("Error", bound=OpError)


class CancelledError(OpError):
    """The operation was cancelled.

    >>> tf.errors.CancelledError(None, None, "stopped").error_code == tf.errors.CANCELLED
    True
    """

    _code = CANCELLED


class UnknownError(OpError):
    """The operation failed for an unknown reason.

    >>> tf.errors.UnknownError(None, None, "no idea").error_code == tf.errors.UNKNOWN
    True
    """

    _code = UNKNOWN


class InvalidArgumentError(OpError):
    """An argument's shape, dtype or value does not suit the operation.

    >>> tf.ones([2]) + tf.ones([3])
    Traceback (most recent call last):
        ...
    gradtape.errors.InvalidArgumentError: Incompatible shapes: [2] vs. [3] [Op:AddV2]
    """

    _code = INVALID_ARGUMENT
    when_traced: type[Exception] | None = ValueError


class DeadlineExceededError(OpError):
    """The operation did not finish in time.

    >>> tf.errors.DeadlineExceededError(None, None, "too late").error_code == tf.errors.DEADLINE_EXCEEDED
    True
    """

    _code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """A file or another entity does not exist.

    >>> try:
    ...     tf.io.read_file("no-such-file")
    ... except tf.errors.NotFoundError as error:
    ...     print(error.message)
    no-such-file; No such file or directory [Op:ReadFile]
    """

    _code = NOT_FOUND


class AlreadyExistsError(OpError):
    """An entity that was to be created already exists.

    >>> tf.errors.AlreadyExistsError(None, None, "there is one").error_code == tf.errors.ALREADY_EXISTS
    True
    """

    _code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller does not have permission.

    >>> tf.errors.PermissionDeniedError(None, None, "read only").error_code == tf.errors.PERMISSION_DENIED
    True
    """

    _code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, disk or a quota ran out.

    >>> tf.errors.ResourceExhaustedError(None, None, "disk full").error_code == tf.errors.RESOURCE_EXHAUSTED
    True
    """

    _code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs.

    >>> tf.errors.FailedPreconditionError(None, None, "not empty").error_code == tf.errors.FAILED_PRECONDITION
    True
    """

    _code = FAILED_PRECONDITION


class AbortedError(OpError):
    """The operation was aborted, usually because of a concurrent one.

    >>> tf.errors.AbortedError(None, None, "lost a race").error_code == tf.errors.ABORTED
    True
    """

    _code = ABORTED


class OutOfRangeError(OpError):
    """An iteration went past its valid range.

    >>> iterator = iter(tf.data.Dataset.range(1))
    >>> int(iterator.get_next())
    0
    >>> iterator.get_next()
    Traceback (most recent call last):
        ...
    gradtape.errors.OutOfRangeError: End of sequence [Op:IteratorGetNext]
    """

    _code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The operation is not available for these arguments.

    >>> tf.errors.UnimplementedError(None, None, "no kernel").error_code == tf.errors.UNIMPLEMENTED
    True
    """

    _code = UNIMPLEMENTED


class InternalError(OpError):
    """An invariant of the system is broken.

    >>> tf.errors.InternalError(None, None, "broken").error_code == tf.errors.INTERNAL
    True
    """

    _code = INTERNAL


class UnavailableError(OpError):
    """The runtime cannot be reached at the moment.

    >>> tf.errors.UnavailableError(None, None, "try again").error_code == tf.errors.UNAVAILABLE
    True
    """

    _code = UNAVAILABLE


class DataLossError(OpError):
    """Data cannot be recovered, or is corrupt.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> tf.io.write_file(path, b"not a record at all")
    >>> try:
    ...     list(tf.data.TFRecordDataset(path))
    ... except tf.errors.DataLossError as error:
    ...     print(error.message.split(" at ")[0])
    corrupted record
    """

    _code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller has no valid credentials.

    >>> tf.errors.UnauthenticatedError(None, None, "log in").error_code == tf.errors.UNAUTHENTICATED
    True
    """

    _code = UNAUTHENTICATED


class ConvergenceError(AbortedError):
    """A solver did not converge: an equation is not solved, or a minimum is not reached.

    The message contains the residual, the number of iterations and what to do. This class is not in TensorFlow.

    >>> try:
    ...     tf.autodiff.root(lambda x: tf.exp(x), tf.constant(1.0), maxiter=5)
    ... except tf.errors.ConvergenceError as error:
    ...     print(error.iterations)
    5
    """

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any, **details: Any) -> None:
        super().__init__(node_def, op, message, *args)
        self.residual: float | None = details.get("residual")
        self.iterations: int | None = details.get("iterations")


class NumericsError(InvalidArgumentError):
    """A result or a cotangent is NaN or infinite, under `GradientTape(check_numerics=True)`.

    `origin` says where and why, like the result of `tape.nan_origin`. This class is not in TensorFlow.

    >>> try:
    ...     with tf.GradientTape(check_numerics=True) as tape:
    ...         y = tf.math.log(tf.Variable(0.0))
    ... except tf.errors.NumericsError as error:
    ...     print(error.origin.op)
    log
    """

    origin: Any = None


class OperatorNotAllowedInGraphError(TypeError):
    """A Python construct needs the value of a tensor that is only being traced.

    >>> @tf.autograph.experimental.do_not_convert
    ... def f(x):
    ...     return 1 if x > 0 else 2
    >>> try:
    ...     tf.function(f, jit_compile=True).get_concrete_function(tf.TensorSpec([], tf.float32))
    ... except tf.errors.OperatorNotAllowedInGraphError:
    ...     print("use tf.cond, or let AutoGraph convert the function")
    use tf.cond, or let AutoGraph convert the function
    """


class StagingError(RecursionError):
    """A function calls itself without end while it is traced."""


class InaccessibleTensorError(ValueError):
    """A traced tensor is used outside the function that created it.

    >>> leaked = []
    >>> @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    ... def f(x):
    ...     leaked.append(x * 2.0)
    ...     return x
    >>> _ = f.get_concrete_function()
    >>> try:
    ...     leaked[0] + 1.0
    ... except TypeError as error:
    ...     print(type(error).__name__)
    TypeError
    """


def invalid_argument(message: str, op: str | None = None) -> InvalidArgumentError:
    """An InvalidArgumentError; `op` is TensorFlow's name of the operation and is put after the message.

    >>> str(invalid_argument("Incompatible shapes: [2] vs. [3]", "AddV2"))
    'Incompatible shapes: [2] vs. [3] [Op:AddV2]'
    """
    return InvalidArgumentError(None, None, message if op is None else f"{message} [Op:{op}]")


def refused_dtype(message: str, op: str | None = None) -> InvalidArgumentError:
    """An `invalid_argument` about the dtype of an operand, which is a TypeError while a function is traced."""
    return _traced_as(TypeError, invalid_argument(message, op))


def refused_value(message: str, op: str | None = None) -> InvalidArgumentError:
    """An `invalid_argument` about values, also while a function is traced: TensorFlow raises it when the program runs,
    whereas wrong shapes and dtypes are a ValueError or a TypeError of the trace.
    """
    error = invalid_argument(message, op)
    error.when_traced = None
    return error


def failed_precondition(message: str, op: str) -> FailedPreconditionError:
    """A FailedPreconditionError about a shape, which is a ValueError while a function is traced."""
    return _traced_as(ValueError, FailedPreconditionError(None, None, f"{message} [Op:{op}]"))


def out_of_range(message: str, op: str) -> OutOfRangeError:
    """An OutOfRangeError about a shape, which is a ValueError while a function is traced."""
    return _traced_as(ValueError, OutOfRangeError(None, None, f"{message} [Op:{op}]"))


def _traced_as(kind: type[Exception], error: Error) -> Error:
    error.when_traced = kind
    return error


# -- messages that ops share: TensorFlow's sentence first, then advice -----------------------------------------------
def mismatched_dtypes(op: str, expected: Any, received: Any) -> InvalidArgumentError:
    message = (
        f"cannot compute {op} as input #1(zero-based) was expected to be a {expected.word} tensor but is a "
        f"{received.word} tensor. gradtape never converts dtypes silently: use tf.cast on one of them."
    )
    return _traced_as(TypeError, invalid_argument(message, op))


def incompatible_shapes(op: str, x: tuple[int, ...], y: tuple[int, ...]) -> InvalidArgumentError:
    return invalid_argument(f"Incompatible shapes: {brackets(x)} vs. {brackets(y)}", op)


_WORDS = {
    "f": "bfloat16, half, float, double",
    "c": "complex64, complex128",
    "i": "int8, int16, int32, int64",
    "u": "uint8, uint16, uint32, uint64",
    "b": "bool",
    "O": "string",
}


def unsupported_dtype(
    op: str, dtype: Any, allowed: str = "", attr: str = "T", advice: str = "use tf.cast first."
) -> InvalidArgumentError:
    """The error for an unsupported dtype; `allowed` lists dtypes by name, or kinds by NumPy's letters (fciubO)."""
    words = allowed if " " in allowed or len(allowed) > 6 else ", ".join(_WORDS[k] for k in allowed if k in _WORDS)
    message = (
        f"Value for attr '{attr}' of {dtype.word} is not in the list of allowed values{words and ': ' + words}. "
        f"{op} does not accept {dtype.name}: {advice}"
    )
    return _traced_as(TypeError, invalid_argument(message, op))


def no_kernel(op: str, dtype: Any, traced: type[Exception] | None = None) -> NotFoundError:
    """TensorFlow's error for a dtype that an op accepts, but no kernel supports.

    `traced` is the class of errors that a trace finds first: wrong shapes, say.
    """
    message = (
        f"Could not find device for node: {{{{node {op}}}}} = {op}[T=DT_{dtype.word.upper()}]. {op} does not accept "
        f"{dtype.name}: use tf.cast first. [Op:{op}]"
    )
    return _traced_as(traced or InvalidArgumentError, NotFoundError(None, None, message))


def out_of_memory(shape: Any, dtype: Any, op: str) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        None, None, f"OOM when allocating tensor with shape{brackets(shape)} and type {dtype.word} on CPU [Op:{op}]"
    )


def brackets(shape: Any) -> str:
    """A shape as kernels print it: [2,3]."""
    return "[" + ",".join(str(n) for n in shape) + "]"


NEEDS_PYTHON = (3, 11)
"""The lowest Python version for the extras `xla`, `cuda` and `keras`; below, pip installs gradtape alone."""


def lost_worker(reason: Any) -> UnavailableError:
    """The error for a reduction without one of the processes."""
    return UnavailableError(
        None,
        None,
        f"Another worker cannot be reached: {str(reason).rstrip('.')}. Its output may say why. Start all processes "
        "again, from the last checkpoint: `gradtape launch --max-restarts K` does.",
    )


def install(extra: str) -> str:
    """How to install an extra: pip's command, or the Python that it needs.

    >>> install("viz")
    "pip install 'gradtape[viz]'"
    """
    if extra in ("all", "cuda", "keras", "xla") and sys.version_info < NEEDS_PYTHON:
        have, needed = (".".join(map(str, v[:2])) for v in (sys.version_info, NEEDS_PYTHON))
        return f"gradtape[{extra}] needs Python {needed} or newer, but this is Python {have}"
    return f"pip install 'gradtape[{extra}]'"


__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "ConvergenceError",
    "DataLossError",
    "DeadlineExceededError",
    "Error",
    "FailedPreconditionError",
    "InaccessibleTensorError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "NumericsError",
    "OpError",
    "OperatorNotAllowedInGraphError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]

for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = "gradtape.errors"  # for tracebacks and pickles
