"""`tf.test`: test cases, numeric gradient checks, and available devices."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import devices
from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import dtype_of
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.lazy_names import getattr_of, homes_of
from gradtape._src.tensor import Tensor

_DELTA = 1.0 / 1024  # a power of two is added without rounding


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[tuple[np.ndarray[Any, Any], ...], tuple[np.ndarray[Any, Any], ...]]:
    """Compute the Jacobians of `f` at the arguments `x`, with the tape and with central differences of step `delta`.

    The result is two tuples with a 2-D array for each argument: a row for each element of f's result, and a column for
    each element of the argument. A complex number counts as two elements, its real and its imaginary part.

    >>> import gradtape as tf
    >>> theoretical, numeric = tf.test.compute_gradient(lambda x: x * x, [[1.0, 3.0]])
    >>> theoretical[0].tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    >>> bool(abs(theoretical[0] - numeric[0]).max() < 1e-2)
    True
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(
            f"`x` must be a list or tuple of values convertible to a Tensor (arguments to `f`), not a {type(x)}"
        )
    arrays = [np.array(convert(value).array) for value in x]
    y = convert(f(*map(wrap, arrays)))
    for position, array in enumerate(arrays):
        _require_floating(array, f"argument {position}")
    _require_floating(y.array, "y")
    step = _DELTA if delta is None else delta
    theoretical = [_theoretical(f, arrays, i, y) for i in range(len(arrays))]
    numeric = [_numeric(f, arrays, i, y, step) for i in range(len(arrays))]
    return tuple(theoretical), tuple(numeric)


def _require_floating(array: Any, what: str) -> None:
    if array.dtype.kind not in "fcV":
        raise AssertionError(f"Cannot compute gradient for unsupported type {dtype_of(array).name} of {what}")


def _real_dtype(array: Any) -> Any:
    return np.empty(0, array.dtype).real.dtype if array.dtype.kind == "c" else array.dtype


def _reals(array: Any) -> Any:
    """The elements as a vector of reals, with complex ones as pairs."""
    return np.ascontiguousarray(array).reshape(-1).view(_real_dtype(array))


def _size(array: Any) -> int:
    elements: int = math.prod(array.shape)
    return 2 * elements if array.dtype.kind == "c" else elements


def _theoretical(f: Callable[..., Any], arrays: list[Any], position: int, y: Tensor) -> Any:
    jacobian = np.zeros((_size(y.array), _size(arrays[position])), _real_dtype(arrays[position]))
    given = [wrap(array) for array in arrays]
    with GradientTape(persistent=True) as tape:
        tape.watch(given[position])
        result = convert(f(*given))
    for row in range(len(jacobian)):
        hot = np.zeros(len(jacobian), _real_dtype(y.array))
        hot[row] = 1
        seed = hot.view(y.array.dtype).reshape(y.array.shape)
        found = tape.gradient(result, given[position], output_gradients=wrap(seed))
        if found is not None:
            jacobian[row] = _reals(convert(found).array)
    return jacobian


def _numeric(f: Callable[..., Any], arrays: list[Any], position: int, y: Tensor, step: float) -> Any:
    jacobian = np.zeros((_size(y.array), _size(arrays[position])), _real_dtype(arrays[position]))
    for column in range(jacobian.shape[1]):
        sides = []
        for side in (step, -step):
            flat = _reals(arrays[position]).copy()
            flat[column] += side
            moved = flat.view(arrays[position].dtype).reshape(arrays[position].shape)
            given = [wrap(moved if i == position else other) for i, other in enumerate(arrays)]
            sides.append(_reals(convert(f(*given)).array))
        jacobian[:, column] = (sides[0] - sides[1]) / np.asarray(2 * step, sides[0].dtype)
    return jacobian


# -- devices ---------------------------------------------------------------------------------------------------------
def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Return whether ops can run on a GPU, with at least a compute capability such as (8, 0) if it is an NVIDIA GPU.

    >>> tf.test.is_gpu_available() == bool(tf.config.list_physical_devices("GPU"))
    True
    """
    for device in devices.jax_devices("GPU"):
        capability = str(getattr(device, "compute_capability", ""))
        if cuda_only and "." not in capability:
            continue
        least = min_cuda_compute_capability
        if least is None or "." not in capability or tuple(map(int, capability.split("."))) >= tuple(least):
            return True
    return False


def gpu_device_name() -> str:
    """Return the name of a GPU, or "" if there is none.

    >>> tf.test.gpu_device_name() in ("", "/device:GPU:0")
    True
    """
    return "/device:GPU:0" if devices.logical_devices("GPU") else ""


def is_cpu_target_available(target: str) -> bool:
    """Return whether this machine has a CPU of this kind.

    >>> import platform
    >>> tf.test.is_cpu_target_available("x86") == (platform.machine().lower() in ("x86_64", "amd64", "i386", "i686"))
    True
    """
    import platform

    machine = platform.machine().lower()
    kinds = {"x86": ("x86_64", "amd64", "i386", "i686"), "aarch64": ("aarch64", "arm64"), "arm": ("arm", "armv7l")}
    return machine in kinds.get(target, ())


def is_built_with_cuda() -> bool:
    """Return whether JAX's support for NVIDIA GPUs is installed.

    >>> tf.test.is_built_with_cuda() in (True, False)
    True
    """
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))


def is_built_with_rocm() -> bool:
    """Return whether JAX's support for AMD GPUs is installed.

    >>> tf.test.is_built_with_rocm() in (True, False)
    True
    """
    return any(importlib.util.find_spec(f"jax_rocm{version}_plugin") for version in (60, 7))


def is_built_with_gpu_support() -> bool:
    """Return whether JAX's support for some kind of GPU is installed.

    >>> tf.test.is_built_with_gpu_support() in (True, False)
    True
    """
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_xla() -> bool:
    """Return whether JAX, and with it XLA, is installed.

    >>> tf.test.is_built_with_xla() in (True, False)
    True
    """
    return devices.has_jax()


# -- test cases: loaded when they are first used, as `unittest` is -----------------------------------------------------
_LAZY = homes_of(
    (
        "tf.test_case",
        "Benchmark TestCase assert_equal_graph_def disable_with_predicate main with_eager_op_as_function",
    )
)

if TYPE_CHECKING:
    from gradtape._src.tf.test_case import (
        Benchmark as Benchmark,
        TestCase as TestCase,
        assert_equal_graph_def as assert_equal_graph_def,
        disable_with_predicate as disable_with_predicate,
        main as main,
        with_eager_op_as_function as with_eager_op_as_function,
    )
else:  # otherwise a type checker would accept every misspelled name as a lazy one
    __getattr__ = getattr_of(__name__, _LAZY)


def __dir__() -> list[str]:
    return list(__all__)


__all__ = [
    *_LAZY,
    "compute_gradient",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_built_with_xla",
    "is_cpu_target_available",
    "is_gpu_available",
]
