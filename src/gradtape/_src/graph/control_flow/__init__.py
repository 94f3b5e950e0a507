"""Branches and loops inside of a traced function, with derivatives of every order.

Each branch and each body is a block, traced by itself like a function: a graph and a tape. The graph around it has one
node for all blocks of a branch or a loop, and the tape around it one record. The rule of that record is again a branch
or a loop, over the derivatives of the blocks: residuals are further outputs, and a program that needs no derivative
drops them.

`block` traces one block; `branches`, `scans` (loops of known length) and `loops` (of unknown length) have the nodes and
their rules; `trip_count` recognises loops of known length; `derivatives` has what the rules have in common.
"""

from gradtape._src.graph.control_flow.branches import cond, switch
from gradtape._src.graph.control_flow.conditions import check_truth
from gradtape._src.graph.control_flow.loops import abstract_eval, while_loop
from gradtape._src.graph.control_flow.scans import scan

__all__ = ["abstract_eval", "check_truth", "cond", "scan", "switch", "while_loop"]
