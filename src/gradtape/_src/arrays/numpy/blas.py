"""How many threads BLAS uses for a product: one. Large products are divided among ours.

OpenBLAS starts its threads for products of 20 microseconds. On two idle cores that saves up to 10; where another
process needs one of the cores, the product waits for its turn: 20 milliseconds. NumPy has no setting for it, but the
library that NumPy has loaded does. With another BLAS library this module has no effect.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar

from gradtape._src import threads

Product = TypeVar("Product", bound=Callable[..., Any])

ALWAYS_ALONE = 2**18
"""Multiplications up to which OpenBLAS uses one thread anyway."""

ALONE = 2**24
"""Multiplications from which on threads are worth the risk: half a millisecond."""

SEVERAL = threads.limit() > 1
"""Whether there can be threads at all."""


class _Control(NamedTuple):
    """OpenBLAS's functions: the number of threads, and how to set it."""

    get: Callable[[], int]
    set: Callable[[int], Any]


@cache
def _control() -> _Control | None:
    """The functions of the library that NumPy has loaded; None if it is not OpenBLAS, or they cannot be found."""
    for module in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        if module not in sys.modules:
            continue
        try:
            library = ctypes.CDLL(sys.modules[module].__file__)  # finds what the library itself is linked with, too
        except (OSError, TypeError, AttributeError):
            return None
        for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
            if hasattr(library, name.format("get")) and hasattr(library, name.format("set")):
                return _Control(getattr(library, name.format("get")), getattr(library, name.format("set")))
    return None


def alone(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function while BLAS uses one thread."""
    control = _control()
    before = 1 if control is None else control.get()
    if control is None or before == 1:
        return function(*args, **options)
    try:
        control.set(1)
        return function(*args, **options)
    finally:
        control.set(before)


def parts(multiplications: int) -> int:
    """Into how many parts a product is divided that is worth threads.

    They are ours: OpenBLAS's wait for each other, which takes up to ten times as long where cores have other work.
    """
    if multiplications < ALONE or _control() is None:
        return 1
    return threads.limit() * (1 if multiplications < 2**28 else 2)  # where there are more, a busy core does fewer


def by_size(count: Callable[..., int]) -> Callable[[Product], Product]:
    """Let a product run alone unless it is large: `count` gives the number of multiplications for its arguments."""

    def decorate(product: Product) -> Product:
        @wraps(product)
        def call(*args: Any, **options: Any) -> Any:
            if ALWAYS_ALONE < count(*args, **options) < ALONE:
                return alone(product, *args, **options)
            return product(*args, **options)

        return call if SEVERAL else product  # type: ignore[return-value]

    return decorate
