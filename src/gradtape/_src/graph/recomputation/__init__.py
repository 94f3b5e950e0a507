"""Which values of the forward pass a program saves for its backward pass, and which it computes again.

plan.py     chooses, by minimum cuts (`min_cut.py`) and estimated seconds (`costs.py`)
graphs.py   applies a plan to a graph that is being traced
traces.py   the same for traces of lazy arrays
"""
