"""`tf.experimental.numpy`: NumPy's functions with its dtype rules, on tensors."""
