"""``import tensorflow`` as an alias of gradtape.

Code written for TensorFlow runs unchanged after a call of :func:`install_as_tensorflow`, which ``gradtape run
script.py`` makes before it starts the script. An installed TensorFlow is neither used nor changed.

How names resolve:

* ``tensorflow`` has every name of gradtape, so ``tensorflow.GradientTape is gradtape.GradientTape``, and TensorFlow's
  version, which programs and libraries check;
* ``tensorflow.x.y`` is the namespace ``gradtape.x.y``, of whatever kind (a submodule, a module from elsewhere in the
  package exposed as an attribute, a lazy attribute);
* ``tf_keras``, the Keras 2 that some libraries import, is `tf.keras`, which is Keras 3;
* any other name raises an ``ImportError`` that names what gradtape lacks.

While the alias is installed, the classes of tensors, variables and related objects name ``tensorflow`` as their module,
by which libraries recognize them. Their pickles name gradtape's modules, so that they can be read with and without the
alias.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

from gradtape._src import version
from gradtape._src.dtypes import DType
from gradtape._src.errors import install
from gradtape._src.hooks import keras as keras_hook, nest_functions, tensorflow_python, tf_keras
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.reasons import missing_sentence
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf import scopes, specs
from gradtape._src.tf.compat import SecondVersion, like_tensorflow
from gradtape._src.tf.tensor_array import TensorArray
from gradtape._src.variable import Variable

__all__ = ["install_as_tensorflow", "uninstall_as_tensorflow"]

_ALIAS = "tensorflow"
_PACKAGE = __name__.partition(".")[0]
# TensorFlow's private packages, which some programs import nevertheless.
_PRIVATE = frozenset({"compiler", "core", "dtensor", "python", "tools"})
_SHOWN = (Tensor, Variable, IndexedSlices, SparseTensor, TensorShape, TensorSpec, DType, TensorArray, GradientTape)
_homes: dict[type, str] = {}


def install_as_tensorflow() -> None:
    """Make ``import tensorflow``, in all its forms, give gradtape for the rest of this process.

    Calling it again does nothing. It has to come before the first import of TensorFlow, and another process
    started by this one has to call it for itself.

    >>> import gradtape
    >>> install_as_tensorflow()
    >>> import tensorflow as tf
    >>> tf.GradientTape is gradtape.GradientTape
    True
    >>> uninstall_as_tensorflow()

    Raises:
      RuntimeError: if another module named ``tensorflow`` has already been imported.
    """
    present = sys.modules.get(_ALIAS)
    if present is not None and not isinstance(present, _TensorFlow):
        where = getattr(present, "__file__", None) or "an unknown place"
        raise RuntimeError(
            f"Cannot install gradtape as tensorflow: another tensorflow is already imported, from {where}. "
            "Call gradtape's install_as_tensorflow() before the first `import tensorflow`."
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        _show_classes()
        keras_hook.prefer(_ALIAS)  # its TensorFlow backend would use TensorFlow's internals


def uninstall_as_tensorflow() -> None:
    """Undo :func:`install_as_tensorflow`: the next ``import tensorflow`` is Python's usual one.

    Names that are already imported do not change. Without an earlier install this has no effect.
    """
    ours = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for finder in ours:
        sys.meta_path.remove(finder)
    _hide_classes()
    keras_hook.withdraw(_ALIAS)
    if ours:
        for name in [name for name in sys.modules if name.partition(".")[0] in (_ALIAS, tf_keras.NAME)]:
            del sys.modules[name]


def internal_names() -> ModuleType:
    """Return the namespace ``tensorflow.__internal__``."""
    made = ModuleType(f"{_ALIAS}.__internal__", "What Keras and libraries use of TensorFlow.")
    tracking = ModuleType(f"{made.__name__}.tracking", "How attributes of modules are tracked.")
    tracking.__dict__.update(no_automatic_dependency_tracking=scopes.no_automatic_dependency_tracking)
    made.__dict__.update(
        CompositeTensor=specs.CompositeTensor, TypeSpec=specs.TypeSpec, nest=nest_functions, tracking=tracking
    )
    return made


class _TensorFlow(ModuleType):
    """The module ``tensorflow``: gradtape's names, and TensorFlow's metadata."""

    def __init__(self) -> None:
        self._gradtape = importlib.import_module(_PACKAGE)
        super().__init__(_ALIAS, self._gradtape.__doc__)
        own = {name: value for name, value in vars(self._gradtape).items() if not name.startswith("__")}
        self.__dict__.update(own, __file__=self._gradtape.__file__, __path__=[], __package__=_ALIAS)
        self.__spec__ = ModuleSpec(_ALIAS, _Loader(self), is_package=True)
        self.__version__ = version.TENSORFLOW
        self.__git_version__, self.__compiler_version__ = version.TENSORFLOW_GIT, version.COMPILER_VERSION
        self.version = like_tensorflow(version, f"{_ALIAS}.version")
        self.__internal__ = internal_names()
        self.compat = ModuleType(f"{_ALIAS}.compat", self._gradtape.compat.__doc__)
        self.compat.__dict__.update(vars(self._gradtape.compat), __name__=f"{_ALIAS}.compat")
        vars(self.compat)["v2"] = SecondVersion(self, self.compat)

    def __getattr__(self, name: str) -> Any:
        """Look up lazy attributes of gradtape, and attributes added to it later."""
        return getattr(vars(self)["_gradtape"], name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(self._gradtape)} - {"_gradtape"})


def _show_classes() -> None:
    """Set TensorFlow's module name on the classes by which libraries recognize tensors."""
    todo = list(_SHOWN)
    while todo:
        kind = todo.pop()
        if kind.__module__.partition(".")[0] == _PACKAGE:
            _homes[kind] = kind.__module__
            kind.__module__ = _ALIAS
            todo.extend(kind.__subclasses__())


def _hide_classes() -> None:
    while _homes:
        kind, home = _homes.popitem()
        kind.__module__ = home


class _Finder(MetaPathFinder):
    """Finds ``tensorflow`` and ``tf_keras`` and everything below them, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == tf_keras.NAME or fullname.startswith(tf_keras.NAME + "."):
            return _spec_of_keras_2(fullname)
        if fullname != _ALIAS and not fullname.startswith(_ALIAS + "."):
            return None
        # Names that do not resolve raise an error here. After None, Python would call the next finders, which would,
        # for a submodule, execute a second copy of a file of gradtape under TensorFlow's name.
        return ModuleSpec(fullname, _Loader(_resolve(fullname)), is_package=True)


def _spec_of_keras_2(fullname: str) -> ModuleSpec:
    found = tf_keras.find(fullname.removeprefix(tf_keras.NAME).lstrip("."))
    if found is None:
        raise ModuleNotFoundError(
            f"gradtape, which provides Keras 3 instead of tf_keras, has no module {fullname!r}.", name=fullname
        )
    return ModuleSpec(fullname, _Loader(found), is_package=True)


class _Loader(Loader):
    """Registers an existing namespace in ``sys.modules``."""

    def __init__(self, namespace: ModuleType) -> None:
        self._namespace = namespace

    def create_module(self, spec: ModuleSpec) -> None:
        # The import system sets attributes (`__spec__` and others) on a new module, which exec_module then replaces:
        # the namespace keeps the attributes of its real name, for imports and pickles.
        return None

    def exec_module(self, module: ModuleType) -> None:
        # A plain module or namespace may lack what the import system needs of a parent: `tensorflow.compat.v1`.
        for mark in ("__path__", "__spec__"):
            if not hasattr(self._namespace, mark):
                setattr(self._namespace, mark, getattr(module, mark))
        sys.modules[module.__name__] = self._namespace


def _resolve(fullname: str) -> ModuleType:
    """The namespace of gradtape for the TensorFlow module of this name, or an ``ImportError``."""
    present = sys.modules.get(_ALIAS)
    namespace: ModuleType = present if isinstance(present, _TensorFlow) else _TensorFlow()
    if fullname == tensorflow_python.PREFIX or fullname.startswith(tensorflow_python.PREFIX + "."):
        private = tensorflow_python.find(fullname.removeprefix(tensorflow_python.PREFIX).lstrip("."))
        if private is None:
            part = fullname.rpartition(".")[2]
            raise ModuleNotFoundError(_why_not(fullname, part, namespace, None), name=fullname)
        return private
    for part in fullname.split(".")[1:]:
        try:
            found = _child(namespace, part)
        except ModuleNotFoundError as error:
            if part != "keras" or error.name != "keras":
                raise
            found = None  # gradtape.keras exists, but the package it needs is missing
        if not isinstance(found, ModuleType | SimpleNamespace):
            raise ModuleNotFoundError(_why_not(fullname, part, namespace, found), name=fullname)
        namespace = found  # type: ignore[assignment]  # a SimpleNamespace serves as a module does
    return namespace


def _child(namespace: ModuleType, name: str) -> Any:
    """``namespace.name``, imported as a submodule if necessary; None if it does not exist."""
    found = getattr(namespace, name, None)
    if found is not None or not hasattr(namespace, "__name__"):
        return found
    home = _PACKAGE if isinstance(namespace, _TensorFlow) else namespace.__name__
    submodule = f"{home}.{name}"
    try:
        return importlib.import_module(submodule)
    except ModuleNotFoundError as error:
        # The submodule is missing, or its parent is not a package. A failing import inside of it is a different error.
        if error.name in (submodule, home):
            return None
        raise


def _why_not(fullname: str, part: str, namespace: ModuleType, found: object) -> str:
    """A sentence on what is missing, and one on what to do."""
    missing = f"gradtape, which stands in for tensorflow here, has no module {fullname!r}."
    parent = fullname.rpartition(".")[0]
    if part == "keras" and importlib.util.find_spec("keras") is None:
        return f"{missing} It needs Keras 3: {install('keras')}"
    if found is not None:
        return f"{missing} {part!r} is no module: write `from {parent} import {part}`."
    if fullname.split(".")[1] in _PRIVATE:
        return f"{missing} That is TensorFlow's private code; gradtape provides only the public names (tf.…)."
    sentence = missing_sentence(f"tf.{fullname.removeprefix(_ALIAS + '.')}")
    if sentence is not None:
        return f"{missing} {sentence}."
    public = [name for name in dir(namespace) if not name.startswith("_")]
    similar = difflib.get_close_matches(part, public, n=5)  # only these are imported, to check what they are
    close = [name for name in similar if isinstance(getattr(namespace, name, None), ModuleType)]
    return f"{missing} Did you mean '{parent}.{close[0]}'?" if close else missing
