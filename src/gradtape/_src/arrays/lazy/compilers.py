"""The compiler of programs of lazy arrays, which a layer above registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradtape._src.arrays.lazy.programs import LazyProgram

Runner = Callable[[Sequence[Any], Sequence[int], list[Any]], None]
"""A compiled program: takes its inputs, the numbers of those that nothing else refers to, and a list to which it adds
its results, by one call of C code if it has written to inputs."""

compilers: list[Callable[[LazyProgram], Runner]] = []


def register_compiler(compile_: Callable[[LazyProgram], Runner]) -> None:
    """Register the function that compiles a program."""
    compilers[:] = [compile_]
