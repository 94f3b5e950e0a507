"""The NumPy engine: one function for each primitive, in kernel modules."""
