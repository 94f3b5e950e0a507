"""Convolution and pooling: views and one BLAS call."""

from __future__ import annotations
