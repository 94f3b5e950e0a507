"""`tf.raw_ops`: TensorFlow's ops by their names in graphs, over the functions that gradtape has for them."""
