"""Base classes of namespaces, which have one function for each primitive, under the primitive's name.

An `Engine` has functions that compute: its own kernels, kernels written once over `xp` for every engine, and functions
of its library (`numpy`, `jax.numpy`) that do what the primitive does. An `Interpreter` treats all primitives alike: its
function `interpret(name, args, attrs)` records a call, batches it, or preserves exact zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType, ModuleType
from typing import Any

generic_kernels: dict[str, Callable[..., Any]] = {}
"""Kernels for every engine, as functions of `xp` and arrays. Declarations of primitives name theirs."""

LIBRARY_FUNCTIONS = frozenset({
    "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "bitwise_and",
    "bitwise_or", "bitwise_xor", "clip", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1",
    "greater", "greater_equal", "invert", "isfinite", "isinf", "isnan", "isposinf", "left_shift",
    "less", "less_equal", "log", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
    "minimum", "multiply", "negative", "nextafter", "not_equal", "right_shift", "rint", "sin", "sinh",
    "sqrt", "square", "subtract", "tan", "tanh",
})  # fmt: skip
"""Functions that NumPy and jax.numpy have under the same name as TensorFlow, with its meaning: the kernels of both
engines. An op for which one engine needs its own kernel is not in this list."""


class Namespace:
    """The functions for one kind of array; each is looked up once.

    The rank decides whose functions take arrays of several kinds: NumPy 0, XLA 1, lazy arrays 1.5, graphs 2, tensors 3,
    batches 4, zero-preserving arrays 5. Each kind may contain, or be combined with, arrays of a lower rank.
    """

    rank: float = 0

    def find(self, name: str) -> Callable[..., Any]:
        """The function of a primitive."""
        raise AttributeError(f"{type(self).__name__} has no function '{name}'")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = self.find(name)
        setattr(self, name, function)
        return function


class Engine(Namespace):
    """The functions that compute on the arrays of one library: those of the library, of the engine's kernel modules,
    and the generic kernels of all other primitives.
    """

    def __init__(self, name: str, library: ModuleType, *modules: ModuleType, rank: int = 0) -> None:
        self.name, self.library, self.modules, self.rank = name, library, modules, rank

    def find(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any]
        if name in LIBRARY_FUNCTIONS:
            function = getattr(self.library, name)
            return function
        for module in self.modules:
            if name in vars(module):
                function = vars(module)[name]
                return function
        if name in generic_kernels:
            kernel = generic_kernels[name]
            function = MethodType(kernel, self)  # calling it costs no more than calling a function
            frame = getattr(kernel, "frame", None)
            return function if frame is None else getattr(self, frame)(function)
        raise AttributeError(f"the {self.name} engine has no function '{name}'")


class Interpreter(Namespace):
    """A namespace that treats every primitive in the same way."""

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Run a primitive on arrays of this kind."""
        raise NotImplementedError

    def find(self, name: str) -> Callable[..., Any]:
        def function(*args: Any, **attrs: Any) -> Any:
            return self.interpret(name, args, attrs)

        return function

    def is_complex(self, x: Any) -> bool:
        """Whether an array holds complex numbers."""
        dtype = x.dtype
        return bool(getattr(dtype, "numpy_dtype", dtype).kind == "c")
