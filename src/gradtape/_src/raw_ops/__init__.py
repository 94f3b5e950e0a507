"""`tf.raw_ops`: TensorFlow's ops by their names in graphs, implemented with gradtape's functions."""
