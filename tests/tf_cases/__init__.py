"""Questions put to TensorFlow once, whose answers are stored in tests/recorded and compared with on every run."""
