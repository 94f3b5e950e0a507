"""The version of gradtape, in its one place: packaging, ``gradtape.__version__`` and ``gradtape --version`` read it."""

__version__ = "0.1.0"
