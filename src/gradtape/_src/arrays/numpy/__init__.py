"""The NumPy engine: one function for each primitive, under the primitive's name, in families."""
