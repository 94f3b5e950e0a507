"""Factorisations and solvers of stacks of matrices."""

from __future__ import annotations
