"""`tf.types.experimental`: classes for annotations and `isinstance`."""

import typing as _typing

from gradtape._src.tf.types import (
    Callable as Callable,
    ConcreteFunction as ConcreteFunction,
    GenericFunction as GenericFunction,
    PolymorphicFunction as PolymorphicFunction,
    TensorLike as TensorLike,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
