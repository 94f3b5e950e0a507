"""Which values of the forward pass a program saves for its backward pass, and which it computes again.

plan.py     chooses, by minimum cuts (`min_cut.py`) and estimated seconds (`costs.py`)
graphs.py   nodes as steps of a plan, and copies of them
functions.py  applies a plan to a function that is being traced
loops.py    lets loops save less, by computing groups of iterations again
traces.py   the same for traces of lazy arrays
"""
