"""The optimised backward pass: the algorithm of `core/vjp.py` with fast paths, which tests compare with it."""
