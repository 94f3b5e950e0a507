"""Threads of BLAS: one for each product. Large products are divided among our own threads.

OpenBLAS starts its threads for products that take 20 microseconds. On two idle cores that saves up to 10; if another
process needs one of the cores, the product waits for its turn: 20 milliseconds. NumPy has no setting for it, but the
library that NumPy has loaded does. With another BLAS library this module has no effect.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

from gradtape._src import threads

Product = TypeVar("Product", bound=Callable[..., Any])

ALWAYS_ALONE = 2**18
"""The number of multiplications up to which OpenBLAS uses one thread anyway."""

ALONE = 2**24
"""The number of multiplications from which on threads are worth the risk: they take half a millisecond."""

SEVERAL = threads.limit() > 1
"""Whether several threads can run at all."""


@cache
def _control() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """OpenBLAS's functions to get and to set the number of threads; None if NumPy has loaded another BLAS library."""
    for module in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        if module not in sys.modules:
            continue
        try:
            library = ctypes.CDLL(sys.modules[module].__file__)  # also finds libraries that it is linked with
        except (OSError, TypeError, AttributeError):
            return None
        for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
            if hasattr(library, name.format("get")) and hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def alone(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function while BLAS uses one thread."""
    control = _control()
    if control is None:
        return function(*args, **options)
    count, set_count = control
    before = count()
    if before == 1:
        return function(*args, **options)
    try:
        set_count(1)
        return function(*args, **options)
    finally:
        set_count(before)


def parts(multiplications: int) -> int:
    """The number of parts that a product is divided into, one for each thread.

    The threads are ours: OpenBLAS's wait for each other, up to ten times as long if cores have other work.
    """
    if multiplications < ALONE or _control() is None:
        return 1
    return threads.limit() * (1 if multiplications < 2**28 else 2)  # with more parts, a busy core takes fewer


def by_size(count: Callable[..., int]) -> Callable[[Product], Product]:
    """Run a product on one thread unless it is large: `count` returns the multiplications for its arguments."""

    def decorate(product: Product) -> Product:
        @wraps(product)
        def call(*args: Any, **options: Any) -> Any:
            if ALWAYS_ALONE < count(*args, **options) < ALONE:
                return alone(product, *args, **options)
            return product(*args, **options)

        return call if SEVERAL else product  # type: ignore[return-value]

    return decorate
