"""The NumPy engine: one function for each primitive, under the primitive's name, in families."""

from __future__ import annotations

import numpy as np


def keep_freed_memory() -> None:
    """Let the C library give the memory of a freed array to the next one.

    By default glibc returns freed blocks of more than 128 kB to the system, and every new array of that size is mapped
    and zeroed again, page by page: for 50,000 to 1,000,000 numbers that costs ten times the arithmetic. Once a block of
    just under 32 MB has been freed, glibc keeps blocks up to that size (and up to 64 MB of them). The block is never
    written to, so making it costs a few microseconds and no memory. Other C libraries do not mind.
    """
    np.empty(2**25 - 2**16, np.uint8)


keep_freed_memory()
