"""Ops that are the derivative of another op, implemented as its vjp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.autodiff.arguments import UnconnectedGradients
from gradtape._src.conversion import convert
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.tf.array import zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor


def vjp(function: Callable[..., Any], inputs: tuple[Any, ...], g: Any) -> tuple[Tensor, ...]:
    """The cotangents of `inputs` for the cotangent `g` of `function(*inputs)`."""
    xs = [convert(x) for x in inputs]
    with GradientTape() as tape:
        for x in xs:
            tape.watch(x)
        out = function(*xs)
    found = tape.gradient(out, xs, output_gradients=g, unconnected_gradients=UnconnectedGradients.ZERO)
    return tuple(convert(each) for each in found)


def transposed(function: Callable[[Any], Any], shape: Any, g: Any) -> Tensor:
    """The transpose of a function that is linear in a tensor of this shape, applied to `g`."""
    return vjp(function, (zeros(shape, g.dtype),), g)[0]
