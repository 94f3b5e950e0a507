"""Python's control flow over tensors, in functions."""

from gradtape.autograph import experimental as experimental
