"""The version of gradtape, in its one place: packaging, ``gradtape.__version__`` and ``gradtape --version`` read it.

This module is `tf.version`, too. Programs written for TensorFlow read the version of its API: where gradtape stands
in for TensorFlow (`hooks/tensorflow.py`), and in `tf.compat.v1`, that is what the names below have.
"""

__version__ = "0.1.0"
VERSION = __version__  # TensorFlow's name for it: tf.version.VERSION
GIT_VERSION = f"v{__version__}"
COMPILER_VERSION = "none"
GRAPH_DEF_VERSION = 2474
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0

TENSORFLOW = "2.21.0"
"""The version of TensorFlow whose names, arguments and semantics gradtape has."""
TENSORFLOW_GIT = f"v{TENSORFLOW}-gradtape-{__version__}"

__all__ = [
    "COMPILER_VERSION",
    "GIT_VERSION",
    "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER",
    "VERSION",
]
