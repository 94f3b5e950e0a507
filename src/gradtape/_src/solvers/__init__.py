"""Solvers with derivatives: implicit functions, differential equations, programs, sorting; second-order methods."""
