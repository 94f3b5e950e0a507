"""Questions put to TensorFlow once, whose answers are stored in tests/data and compared with on every run."""
