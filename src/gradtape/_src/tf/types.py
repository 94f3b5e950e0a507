"""`tf.types.experimental`: classes for annotations and `isinstance`."""

from __future__ import annotations

from typing import Any

from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.function import Function

__all__ = ["Callable", "ConcreteFunction", "GenericFunction", "PolymorphicFunction", "TensorLike"]

TensorLike = Any
"""Values that ops convert to a tensor."""

Callable = GenericFunction = PolymorphicFunction = Function
