"""TensorFlow's names over the primitives: thin compositions, with TensorFlow's signatures, aliases and errors."""
