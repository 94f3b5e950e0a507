"""What every Keras layer is besides a layer: with gradtape, nothing more."""

from __future__ import annotations


class Layer:
    """Keras' layers find their variables themselves; a tape needs no more than that."""
