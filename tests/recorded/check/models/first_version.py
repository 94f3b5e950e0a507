"""Code of TensorFlow 1 that was never ported."""

try:
    import tensorflow.compat.v1 as tf
except ImportError:
    tf = None

FLAGS = tf.app.flags.FLAGS

tf.disable_v2_behavior()


def network(images):
    with tf.variable_scope("dense"):
        weights = tf.get_variable("w", [784, 10], initializer=tf.random_normal_initializer())
        return tf.log(tf.nn.softmax(tf.matmul(images, weights)))


def train():
    images = tf.placeholder(tf.float32, [None, 784])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(network(images))
