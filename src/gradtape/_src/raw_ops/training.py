"""Raw ops of optimizers: an update of a variable and of its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.raw_ops.state import variable_of
from gradtape._src.tf import math
from gradtape._src.variable import read

if TYPE_CHECKING:
    from collections.abc import Callable


def _gradient_descent(var: Any, alpha: Any, delta: Any) -> None:
    variable_of(var).assign_sub(alpha * delta)


def _momentum(var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_nesterov: bool) -> None:
    velocity = read(variable_of(accum)) * momentum + grad
    variable_of(accum).assign(velocity)
    step = grad * lr + velocity * momentum * lr if use_nesterov else velocity * lr
    variable_of(var).assign_sub(step)


def _keras_momentum(var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_nesterov: bool) -> None:
    velocity = read(variable_of(accum)) * momentum - lr * grad
    variable_of(accum).assign(velocity)
    variable_of(var).assign_add(velocity * momentum - lr * grad if use_nesterov else velocity)


def _moments(m: Any, v: Any, beta1: Any, beta2: Any, grad: Any) -> tuple[Any, Any]:
    first = read(variable_of(m))
    second = read(variable_of(v))
    first, second = first + (grad - first) * (1 - beta1), second + (grad * grad - second) * (1 - beta2)
    variable_of(m).assign(first)
    variable_of(v).assign(second)
    return first, second


def _adam(
    var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any,
    grad: Any, use_nesterov: bool,
) -> None:  # fmt: skip
    first, second = _moments(m, v, beta1, beta2, grad)
    rate = lr * math.sqrt(1 - beta2_power) / (1 - beta1_power)
    direction = first * beta1 + (1 - beta1) * grad if use_nesterov else first
    variable_of(var).assign_sub(rate * direction / (math.sqrt(second) + epsilon))


def _amsgrad(
    var: Any, m: Any, v: Any, vhat: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any,
    epsilon: Any, grad: Any,
) -> None:  # fmt: skip
    first, second = _moments(m, v, beta1, beta2, grad)
    largest = math.maximum(read(variable_of(vhat)), second)
    variable_of(vhat).assign(largest)
    rate = lr * math.sqrt(1 - beta2_power) / (1 - beta1_power)
    variable_of(var).assign_sub(rate * first / (math.sqrt(largest) + epsilon))


def _adamax(
    var: Any, m: Any, v: Any, beta1_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, grad: Any
) -> None:
    first = read(variable_of(m))
    first = first + (grad - first) * (1 - beta1)
    largest = math.maximum(read(variable_of(v)) * beta2, math.abs(grad))
    variable_of(m).assign(first)
    variable_of(v).assign(largest)
    variable_of(var).assign_sub(lr / (1 - beta1_power) * (first / (largest + epsilon)))


def _adagrad(var: Any, accum: Any, lr: Any, grad: Any, update_slots: bool) -> None:
    if update_slots:
        variable_of(accum).assign_add(grad * grad)
    variable_of(var).assign_sub(lr * grad * math.rsqrt(read(variable_of(accum))))


def _adagrad_with_epsilon(var: Any, accum: Any, lr: Any, epsilon: Any, grad: Any, update_slots: bool) -> None:
    if update_slots:
        variable_of(accum).assign_add(grad * grad)
    variable_of(var).assign_sub(lr * grad / (math.sqrt(read(variable_of(accum))) + epsilon))


def _adadelta(var: Any, accum: Any, accum_update: Any, lr: Any, rho: Any, epsilon: Any, grad: Any) -> None:
    squares = read(variable_of(accum)) * rho + (1 - rho) * grad * grad
    before = read(variable_of(accum_update))
    step = math.sqrt(before + epsilon) * math.rsqrt(squares + epsilon) * grad
    variable_of(accum).assign(squares)
    variable_of(accum_update).assign(before * rho + (1 - rho) * step * step)
    variable_of(var).assign_sub(lr * step)


def _rms_prop(var: Any, ms: Any, mom: Any, lr: Any, rho: Any, momentum: Any, epsilon: Any, grad: Any) -> None:
    squares = read(variable_of(ms))
    squares = squares + (grad * grad - squares) * (1 - rho)
    step = read(variable_of(mom)) * momentum + lr * grad * math.rsqrt(squares + epsilon)
    variable_of(ms).assign(squares)
    variable_of(mom).assign(step)
    variable_of(var).assign_sub(step)


def _centered_rms_prop(
    var: Any, mg: Any, ms: Any, mom: Any, lr: Any, rho: Any, momentum: Any, epsilon: Any, grad: Any
) -> None:
    mean, squares = read(variable_of(mg)), read(variable_of(ms))
    mean, squares = mean + (grad - mean) * (1 - rho), squares + (grad * grad - squares) * (1 - rho)
    step = read(variable_of(mom)) * momentum + lr * grad * math.rsqrt(squares - mean * mean + epsilon)
    variable_of(mg).assign(mean)
    variable_of(ms).assign(squares)
    variable_of(mom).assign(step)
    variable_of(var).assign_sub(step)


OPS: dict[str, Callable[..., Any]] = {
    "ResourceApplyAdaMax": _adamax,
    "ResourceApplyAdadelta": _adadelta,
    "ResourceApplyAdagrad": _adagrad,
    "ResourceApplyAdagradV2": _adagrad_with_epsilon,
    "ResourceApplyAdam": _adam,
    "ResourceApplyAdamWithAmsgrad": _amsgrad,
    "ResourceApplyCenteredRMSProp": _centered_rms_prop,
    "ResourceApplyGradientDescent": _gradient_descent,
    "ResourceApplyKerasMomentum": _keras_momentum,
    "ResourceApplyMomentum": _momentum,
    "ResourceApplyRMSProp": _rms_prop,
}
