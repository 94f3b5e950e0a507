"""`tf.autograph`: the conversion of Python's control flow by hand, and what it writes."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from typing import Any

from gradtape._src.function import autograph

__all__ = ["set_verbosity", "to_code", "to_graph", "trace"]


def to_graph(entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None) -> Any:
    """Return a function whose `if`, `while` and `for` over tensors are ops of a program, converted as by `tf.function`.

    >>> import gradtape as tf
    >>> tf.autograph.to_graph(lambda x: x + 1)(2)
    3
    """
    return autograph.converted(entity)


def to_code(entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None) -> str:
    """Return the source code that a function is converted to; the function has to be in a file."""
    function: Any = getattr(entity, "python_function", entity)
    definition, _ = autograph._converted_definition(function)
    return ast.unparse(definition)


def trace(*args: Any) -> None:
    """Print values while a function is traced.

    >>> import gradtape as tf
    >>> tf.autograph.trace("x", 3)
    x 3
    """
    print(*args)


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Set the verbosity of AutoGraph; gradtape's logs only warnings.

    >>> import gradtape as tf
    >>> tf.autograph.set_verbosity(0)
    """
    os.environ["AUTOGRAPH_VERBOSITY"] = str(level)
