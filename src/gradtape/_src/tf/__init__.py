"""TensorFlow's names over the primitives: thin compositions, with TensorFlow's signatures, aliases and errors."""

from __future__ import annotations

from gradtape._src.core.composites import register_loader as _register_loader


def _load_ragged() -> None:
    """Complete the tables of ops on ragged tensors: importing the modules does."""
    from gradtape._src.tf import ragged_array, ragged_counts, ragged_math, ragged_shape

    del ragged_array, ragged_counts, ragged_math, ragged_shape


_register_loader(_load_ragged)
