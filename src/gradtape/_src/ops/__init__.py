"""The primitives, in families: kernel, derivative and batching of each in one declaration."""
