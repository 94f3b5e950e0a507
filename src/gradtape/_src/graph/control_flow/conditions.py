"""Conditions of branches and loops: one truth value each."""

from __future__ import annotations

from gradtape._src import errors
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor


def check_truth(tensor: Tensor, message: str, op: str) -> None:
    """Check that a condition is boolean. TensorFlow checks it when the program runs, and raises an
    error of that class.
    """
    if not tensor.dtype.is_bool:
        raise errors.refused_value(f"{message.format(tensor.dtype.name)}. Use tf.cast.", op)


def scalar(tensor: Tensor) -> Tensor:
    shape = tuple(tensor.array.shape)
    if shape == ():
        return tensor
    if shape != (1,):
        raise errors.refused_value(
            f"The second input must be a scalar, but it has shape {errors.brackets(shape)}. A condition is one truth "
            "value: use tf.reduce_any or tf.reduce_all."
        )
    reshaped: Tensor = array.reshape(tensor, shape=())
    return reshaped
