"""The backward pass that runs: the algorithm of `core/vjp.py` with fast paths, proven equal to it by the tests."""
