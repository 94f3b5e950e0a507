"""Curvature of losses: Kronecker factors of layers (K-FAC), and the influence of training examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.arguments import array_of
from gradtape._src.autodiff.curvature import HessianProducts
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.rows import only_tensor
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import widened
from gradtape._src.core.tape import Record
from gradtape._src.ops.convolution import conv
from gradtape._src.solvers.implicit import check_choice
from gradtape._src.solvers.vectors import check_not_negative, check_number, check_whole, length
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.linalg import matmul, matrix_transpose
from gradtape._src.variable import unwrapped


class KroneckerFactors(NamedTuple):
    """The factors of one layer; their Kronecker product approximates its Fisher matrix.

    >>> w, x = tf.Variable([[1.0], [2.0]]), tf.constant([[1.0, 0.0], [0.0, 2.0]])
    >>> with tf.GradientTape(persistent=True) as tape:
    ...     loss = tf.reduce_mean((x @ w) ** 2)
    >>> [factors] = tf.autodiff.kfac_factors(tape, loss, [w])
    >>> factors.inputs.shape, factors.outputs.shape
    (TensorShape([2, 2]), TensorShape([1, 1]))
    """

    inputs: Tensor
    """The mean of a aᵀ over the layer's inputs a, with a 1 appended for the bias."""
    outputs: Tensor
    """The mean of g gᵀ over the gradients g of each example's loss by the layer's output before its activation."""


def kfac_factors(tape: Tape, loss: Any, layers: Any, *, reduction: str = "mean") -> list[KroneckerFactors | None]:
    """Compute the Kronecker factors of layers (K-FAC) from one recorded forward pass.

    A layer is a Keras layer with a kernel, or a kernel: a variable used in a matrix product or a convolution. The
    factors of a Dense or EinsumDense layer are computed from its inputs and from the gradients with respect to its
    outputs; those of a convolution from the patches of its inputs at all positions. With labels sampled from the
    model's predictions, the factors approximate the Fisher matrix; with the labels of the data, the empirical Fisher
    matrix.

    Args:
      tape: A persistent tape that recorded the model and the loss, outside compiled functions.
      loss: The scalar loss of a batch.
      layers: A list of layers, such as `model.layers`. The result has a pair for each, and None for layers without a
        kernel.
      reduction: How the loss combines its examples, "mean" or "sum".

    >>> import gradtape as tf
    >>> w, x = tf.Variable([[1.0], [2.0]]), tf.constant([[1.0, 0.0], [0.0, 2.0]])
    >>> with tf.GradientTape(persistent=True) as tape:
    ...     loss = tf.reduce_mean((x @ w) ** 2)
    >>> [factors] = tf.autodiff.kfac_factors(tape, loss, [w])
    >>> factors.inputs.numpy().tolist(), factors.outputs.numpy().tolist()
    ([[0.5, 0.0], [0.0, 2.0]], [[34.0]])
    """
    check_choice("reduction", reduction, ("mean", "sum"))
    if not isinstance(layers, (list, tuple)):
        raise TypeError(f"layers must be a list of layers or kernels; received {layers!r}.")
    _check_tape("kfac_factors", tape)
    loss = _scalar("loss", loss)
    found = [_uses_of(tape, layer) for layer in layers]
    shapes = tape._require_record().tracked
    outputs = [_tensor(record, shapes[record.output]) for uses in found for record in uses]
    gradients = iter(tape.gradient(loss, outputs, unconnected_gradients="zero"))
    return [
        _factors(layer, [(record, next(gradients)) for record in uses], reduction) if uses else None
        for layer, uses in zip(layers, found, strict=True)
    ]


def _check_tape(name: str, tape: Any) -> None:
    if not isinstance(tape, Tape):
        raise TypeError(f"tf.autodiff.{name} needs the GradientTape that recorded the losses; received {tape!r}.")


def _scalar(name: str, value: Any) -> Any:
    tensor = only_tensor(name, value)
    if array_of(tensor).shape:
        raise ValueError(f"{name} must be a scalar; received the shape {tensor.shape}. Use tf.reduce_mean.")
    return tensor


def _check_layer(layer: Any) -> None:
    layer = unwrapped(layer)
    if not (hasattr(layer, "uid") or hasattr(layer, "kernel") or hasattr(layer, "trainable_variables")):
        raise TypeError(f"layers must contain layers or kernels; received {layer!r}.")
    if getattr(layer, "built", True) is False:
        raise ValueError(f"The layer {_name(layer)!r} has no weights yet: call it before recording the loss.")


def _name(layer: Any) -> Any:
    return getattr(layer, "name", layer)


def _kernel(layer: Any) -> Any:
    layer = unwrapped(layer)
    return layer if hasattr(layer, "uid") else unwrapped(getattr(layer, "kernel", None))


def _has_bias(layer: Any) -> bool:
    return getattr(layer, "bias", None) is not None


def _uses_of(tape: Tape, layer: Any) -> list[Record]:
    """The records of products and convolutions with the layer's kernel, or with a cast of it."""
    _check_layer(layer)
    kernel = _kernel(layer)
    if kernel is None:
        return []
    same, uses, others = {kernel.uid}, [], []
    for record in tape.records:
        if same.isdisjoint(record.inputs):
            continue
        if record.op.name in ("astype", "identity"):
            same.add(record.output)
        elif _is_product(record) and record.inputs[1] in same:
            uses.append(record)
        else:
            others.append(record.op.name)
    if not uses:
        advice = (
            f"It is used by {others[0]}, which kfac_factors does not support: leave it out of `layers`."
            if others and others[0] != "function"
            else "Record the call of the model, outside tf.function, with a tape that watches its variables."
        )
        raise ValueError(f"The tape has no product or convolution with the kernel of {_name(layer)!r}. {advice}")
    return uses


class _Contraction(NamedTuple):
    """How an einsum multiplies inputs by a kernel."""

    axes: list[int]
    """The order of the inputs' axes that puts those that the kernel sums last."""
    summed: int
    """The number of these."""
    outputs: list[int]
    """The order of the result's axes that puts those of the kernel last."""
    free: int
    """The number of these."""


def _is_product(record: Record) -> bool:
    return record.op.name in ("matmul", "conv") or (record.op.name == "einsum" and _contraction(record) is not None)


def _contraction(record: Record) -> _Contraction | None:
    """The axes of an einsum of inputs and a kernel, in that order; None if it is not a layer's product."""
    left, _, result = record.attrs["equation"].replace(" ", "").partition("->")
    x, _, kernel = left.partition(",")
    summed = [label for label in kernel if label in x and label not in result]
    free = [label for label in kernel if label not in x and label in result]
    others = [label for label in x if label not in summed]
    is_layer = x and kernel and len(summed) + len(free) == len(kernel) and "," not in kernel and "." not in left
    if not is_layer or any(label not in result for label in others) or len(set(left)) < len(left) - len(summed):
        return None
    return _Contraction(
        [x.index(label) for label in others + summed],
        len(summed),
        [result.index(label) for label in others + free],
        len(free),
    )


def _tensor(record: Record, shape: tuple[int, ...]) -> Tensor:
    """The output of a record, which may have no references, as a source of gradients."""
    tensor = Tensor()
    tensor.array, tensor.uid = np.zeros(shape, record.dtype), record.output
    return tensor


def _factors(layer: Any, uses: Sequence[tuple[Record, Any]], reduction: str) -> KroneckerFactors:
    total_a = total_g = None
    for record, gradient in uses:
        rows, examples = _rows(record, tuple(_kernel(layer).shape), _has_bias(layer))
        g = widened(_output_rows(record, array.convert_to_tensor(gradient)))
        scale = float(examples) if reduction == "mean" else 1.0
        a_factor = matmul(rows, rows, transpose_a=True) / float(examples)
        g_factor = matmul(g * scale, g * scale, transpose_a=True) / float(length(g, 0))
        total_a = a_factor if total_a is None else total_a + a_factor
        total_g = g_factor if total_g is None else total_g + g_factor
    assert total_a is not None
    assert total_g is not None
    return KroneckerFactors(total_a, total_g)


def _rows(record: Record, kernel: tuple[int, ...], bias: bool) -> tuple[Tensor, int]:
    """The inputs of a layer as rows, and the number of examples."""
    x = record.values[0]
    is_product = record.op.name == "matmul"
    if is_product and record.attrs["adjoint_x"]:
        x = matrix_transpose(x)
    examples = length(x.array, 0)
    if record.op.name == "einsum":
        found = _contraction(record)
        assert found is not None
        rows = widened(_as_rows(x, found.axes, found.summed))
    else:
        rows = widened(array.reshape(x, [-1, x.shape[-1]]) if is_product else _patches(x, kernel, record.attrs))
    if bias:
        rows = array.concat([rows, array.ones([rows.shape[0], 1], rows.dtype)], -1)
    return rows, examples


def _output_rows(record: Record, gradient: Tensor) -> Tensor:
    """The gradient with respect to a layer's outputs, with a row for each position."""
    if record.op.name != "einsum":
        return array.reshape(gradient, [-1, gradient.shape[-1]])
    found = _contraction(record)
    assert found is not None
    return _as_rows(gradient, found.outputs, found.free)


def _as_rows(x: Tensor, axes: list[int], last: int) -> Tensor:
    """Transpose a tensor, and flatten the last axes to columns and the others to rows."""
    moved = array.transpose(x, axes)
    return array.reshape(moved, [-1, math.prod(moved.array.shape[len(axes) - last :])])


def _patches(x: Tensor, kernel: tuple[int, ...], attrs: dict[str, Any]) -> Tensor:
    """The inputs of every position of a convolution, computed by a convolution with unit kernels."""
    if attrs.get("groups", 1) != 1:
        raise errors.UnimplementedError(None, None, "kfac_factors does not support convolutions with groups.")
    size = int(np.prod(kernel[:-1]))
    units = np.eye(size, dtype=x.dtype.as_numpy_dtype).reshape(*kernel[:-1], size)
    found = conv(x, wrap(units), **attrs)
    return array.reshape(found, [-1, size])


def influence(
    tape: Tape,
    losses: Any,
    test_loss: Any,
    sources: Any,
    *,
    damping: float = 1e-3,
    tol: float = 1e-5,
    maxiter: int = 1000,
) -> Tensor:
    """Estimate how a test loss would change if training examples had more weight (Koh and Liang, 2017).

    The result for example i is -∇t (H + damping)⁻¹ ∇lᵢ, where t is the test loss, lᵢ the loss of the example, and H the
    Hessian of the mean of the losses. A negative value means that the example helps the prediction. Removing one of n
    examples changes the test loss by about -1/n of its value.

    Args:
      tape: A persistent tape that recorded both losses, at parameters that minimize the mean of the losses.
      losses: The losses of the training examples, a vector.
      test_loss: A scalar.
      sources: The parameters: variables, or tensors that the tape watches.
      damping: A number added to the diagonal of the Hessian; choose a larger one if the model is not convex.
      tol: The relative residual at which conjugate gradients stop.
      maxiter: The number of iterations after which they raise `tf.errors.ConvergenceError`.

    >>> import gradtape as tf
    >>> w, y = tf.Variable(2.0), tf.constant([1.0, 3.0])
    >>> with tf.GradientTape(persistent=True) as tape:
    ...     losses, test = (w - y) ** 2, (w - 3.0) ** 2
    >>> tf.autodiff.influence(tape, losses, test, w, damping=0.0).numpy().tolist()
    [2.0, -2.0]
    """
    if current_graph() is not None:
        raise RuntimeError(
            "tf.autodiff.influence needs concrete values to know when to stop: call it outside tf.function."
        )
    _check_tape("influence", tape)
    check_not_negative("tol", tol)
    check_number("damping", damping)
    check_whole("maxiter", maxiter, 1)
    test_loss, losses = _scalar("test_loss", test_loss), only_tensor("losses", losses)
    if losses.shape.rank != 1:
        raise ValueError(f"losses must be a vector with the loss of each example; received the shape {losses.shape}.")
    damping, tol = float(damping), float(tol)
    products = HessianProducts(tape, losses, sources, "influence")
    second, flat, count = products.second, products.flat, length(losses, 0)
    slopes = second.gradient(test_loss, flat)
    if all(slope is None for slope in slopes):
        raise ValueError("The test loss does not depend on the sources. Record both losses with the tape.")
    gradient = products.raveled(slopes)
    solved = _conjugate_gradients(lambda v: products(v) / count + damping * v, gradient, tol, maxiter)
    changes = second.jvp(losses, flat, products.tensors(solved), unconnected_gradients="zero")
    found: Tensor = -changes
    return found


def _conjugate_gradients(product: Any, b: Any, tol: float, maxiter: int) -> Any:
    x, r = np.zeros_like(b), b.copy()
    p, square, limit = b.copy(), float(b @ b), tol * float(np.linalg.norm(b))
    for k in range(maxiter):
        if square**0.5 <= limit:
            return x
        q = product(p)
        curvature = float(p @ q)
        if not curvature > 0:
            raise errors.ConvergenceError(
                None, None,
                f"tf.autodiff.influence: the Hessian is not positive definite (a curvature is {curvature:.3g} in "
                f"iteration {k}). Train the parameters to a minimum, or increase damping.",
                residual=square**0.5, iterations=k,
            )  # fmt: skip
        x, r = x + square / curvature * p, r - square / curvature * q
        new = float(r @ r)
        p, square = r + new / square * p, new
    if square**0.5 <= limit:
        return x
    raise errors.ConvergenceError(
        None, None,
        f"tf.autodiff.influence did not converge: the residual is {square ** 0.5:.3g} after {maxiter} iterations, "
        f"but should be at most {limit:.3g}. Increase damping, maxiter or tol.",
        residual=square**0.5, iterations=maxiter,
    )  # fmt: skip


__all__ = ["KroneckerFactors", "influence", "kfac_factors"]
