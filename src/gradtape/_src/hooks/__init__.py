"""Import hooks: gradtape as Keras' backend, and in TensorFlow's place."""
