"""Graphs of traced functions: programs for XLA, their derivatives, control flow, checks and rewrites."""
