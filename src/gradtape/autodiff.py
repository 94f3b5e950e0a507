"""Tapes and accumulators."""

from gradtape._src.autodiff.forward_accumulator import ForwardAccumulator as ForwardAccumulator
from gradtape._src.inspect.gradient_tape import GradientTape as GradientTape
