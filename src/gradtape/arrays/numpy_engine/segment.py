"""Reductions of rows by segment."""

from __future__ import annotations
