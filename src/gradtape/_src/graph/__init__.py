"""Functions: code that TensorFlow would compile."""
