"""Python's control flow over tensors, in functions."""

from gradtape._src.tf.autograph_tools import (
    set_verbosity as set_verbosity,
    to_code as to_code,
    to_graph as to_graph,
    trace as trace,
)
from gradtape.autograph import experimental as experimental
