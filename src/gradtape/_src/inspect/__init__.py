"""Views of a tape: explanations, the origin of a NaN, the profiler, pictures, tables.

They read the records of a tape and observe ops through `core/observe.py`; a plain tape has no cost for them.
"""
