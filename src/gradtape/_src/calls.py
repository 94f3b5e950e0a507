"""The calls of primitives by name, for modules below the ops: `calls["stack"](x, y, axis=0)`.

`core/dispatch.py` adds each primitive when it is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

calls: dict[str, Callable[..., Any]] = {}
