"""Branches and loops inside a traced function, with derivatives of every order.

Each branch and each loop body is a block, which is traced like a function into a graph and a tape of its own. The outer
graph has one node for a branch or a loop with all of its blocks, and the outer tape one record. The vjp rule of that
record builds another branch or loop, over the derivatives of the blocks. Residuals are extra outputs of the blocks,
which are dropped from programs that need no derivative.

`block` traces one block; `branches`, `scans` (loops of known length) and `loops` (of unknown length) have the nodes and
their rules; `trip_count` recognises loops of known length; `derivatives` has what the rules have in common.
"""

from gradtape._src.graph.control_flow.branches import cond, switch
from gradtape._src.graph.control_flow.conditions import check_truth
from gradtape._src.graph.control_flow.loops import abstract_eval, while_loop
from gradtape._src.graph.control_flow.scans import scan

__all__ = ["abstract_eval", "check_truth", "cond", "scan", "switch", "while_loop"]
