"""Lets Keras find gradtape where nothing has imported gradtape: `KERAS_BACKEND=gradtape python -c "import keras"`.

`gradtape_keras.pth` loads this module when Python starts, in every program of an environment with gradtape. So it does
no more than wait for the import of Keras, and imports gradtape only where Keras would otherwise find no backend: if
gradtape is the one that was chosen, or TensorFlow, which is the default, and that is not installed. `import gradtape`
leaves the import of Keras to it.
"""

import sys


class Finder:
    """Finds nothing: the import system calls it first, and so tells it which module is about to be imported."""

    waits = True

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "keras.src" and cls.waits:
            cls.waits = False
            if is_wanted():
                add_backend()


def add_backend():
    """Add gradtape to the backends that Keras can choose."""
    from gradtape._src.hooks import keras

    keras.install()


def is_wanted():
    from importlib.machinery import PathFinder

    chosen = chosen_backend()
    return chosen == "gradtape" or (chosen == "tensorflow" and PathFinder.find_spec("tensorflow") is None)


def chosen_backend():
    """What Keras will read, and from where."""
    import json
    import os

    if os.environ.get("KERAS_BACKEND"):
        return os.environ["KERAS_BACKEND"]
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    try:
        with open(os.path.join(home, "keras.json")) as file:
            return json.load(file).get("backend", "tensorflow")
    except (OSError, ValueError, AttributeError):
        return "tensorflow"


sys.meta_path.insert(0, Finder)
