"""`tf.compat.v1`: the names of TensorFlow 1 that eager code and functions use."""
