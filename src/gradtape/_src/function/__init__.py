"""`tf.function`: signatures, traces, unknown shapes, AutoGraph, and the eager fallback."""
