"""The version of gradtape, in its one place: packaging, ``gradtape.__version__`` and ``gradtape --version`` read it."""

__version__ = "0.1.0"
VERSION = __version__  # TensorFlow's name for it: tf.version.VERSION
