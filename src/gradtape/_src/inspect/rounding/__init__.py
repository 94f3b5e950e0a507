"""Rounding errors of a result: enclosures of every value on a tape, and the report of `certify`."""
