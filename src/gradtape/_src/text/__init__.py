"""Strings in NumPy arrays of bytes: hashes, regular expressions, Unicode, numbers. None of it is differentiable."""
