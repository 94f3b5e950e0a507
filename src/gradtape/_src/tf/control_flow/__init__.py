"""Control flow: branches, loops, maps and folds over tensors.

In eager code Python runs the functions, and tapes record the ops in them. In a function that is being traced they
become branches and loops of the program (`graph/control_flow/`). `vectorized_map` calls its function once, for all
rows.
"""

from gradtape._src.tf.control_flow.branches import case, cond, switch_case
from gradtape._src.tf.control_flow.folds import foldl, foldr, scan
from gradtape._src.tf.control_flow.grouping import group, no_op, timestamp, tuple_
from gradtape._src.tf.control_flow.loops import while_loop
from gradtape._src.tf.control_flow.rows import map_fn, vectorized_map

__all__ = [
    "case",
    "cond",
    "foldl",
    "foldr",
    "group",
    "map_fn",
    "no_op",
    "scan",
    "switch_case",
    "timestamp",
    "tuple_",
    "vectorized_map",
    "while_loop",
]
