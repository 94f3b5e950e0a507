"""Measurements of gradtape beside its peers and against its budgets: `python -m benchmarks`."""
