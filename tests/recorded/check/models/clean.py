"""Nothing here but what gradtape has."""

import tensorflow as tf


def slope(x):
    x = tf.convert_to_tensor(x, dtype=tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.math.softplus(x))
    return tape.gradient(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
