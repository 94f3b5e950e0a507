"""Kernels written once, over `xp`, for every engine; the declarations in `ops/` name them."""
