"""The engine: declaring primitives, running them, recording them, walking the records."""
