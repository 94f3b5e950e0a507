"""The primitives, by subject: kernel, derivative and batching of each in one declaration."""
