"""`tf.types.experimental`: classes for annotations and `isinstance`."""

from gradtape._src.tf.types import (
    Callable as Callable,
    ConcreteFunction as ConcreteFunction,
    GenericFunction as GenericFunction,
    PolymorphicFunction as PolymorphicFunction,
    TensorLike as TensorLike,
)
