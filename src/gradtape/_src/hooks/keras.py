"""An import hook that adds gradtape to the backends of Keras 3.

Keras chooses a backend by name, in a few modules, and only knows its own backends. A finder on Python's import path
adds a branch to each of these choices while Keras is imported, and changes no other module. Keras' announced plug-in
packages will make this module unnecessary.

Keras uses gradtape if `KERAS_BACKEND=gradtape` (or Keras' configuration file) says so, if `gradtape.keras` is imported,
or if gradtape replaces TensorFlow; and also where Keras would use TensorFlow, its default, and TensorFlow is not
installed. Any other choice of the user is respected. Nothing here imports Keras.

For `import keras` without an earlier import of gradtape, a hook installed with gradtape imports this module: see
`_gradtape_keras.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast

NAME = "gradtape"
TESTED = ("3.15",)
"""The versions of Keras (major.minor) whose own tests have been run on this backend."""

PUBLIC = "keras._tf_keras.keras"
"""Keras as TensorFlow exports it: Keras' names, and some old ones (`backend.mean`) that Keras itself hides."""

_CONFIG = "keras.src.backend.config"
CHOICES: dict[str, tuple[str, ...]] = {  # what the new branch does in modules that choose by the backend's name
    "keras.src.backend": (
        "from gradtape._src.keras_backend.interface import *\n"
        "from gradtape._src.keras_backend.core import Variable as BackendVariable\n"
        "from gradtape._src.keras_backend import interface\n"  # layers for text import this backend
        "tensorflow = interface.TensorFlowBackend(interface)",
    ),
    "keras.src.layers.layer": ("from gradtape._src.keras_backend.layer import Layer as BackendLayer",),
    "keras.src.models.model": ("from gradtape._src.keras_backend.trainer import Trainer",),
    "keras.src.optimizers.optimizer": (
        "from gradtape._src.keras_backend.optimizer import Optimizer as BackendOptimizer",
    ),
    "keras.src.export.saved_model": (
        "from gradtape._src.keras_backend.exporting import ExportArchive as BackendSavedModelExportArchive",
    ),
    "keras.src.utils.traceback_utils": ("from gradtape import errors as tf_errors", "tensor_cls = 'tf.Tensor'"),
}
_AS_TENSORFLOW = (
    "from gradtape._src.keras_backend.interface import BackendAsTensorFlow, AvailableTensorFlow\n"
    "import gradtape\nfrom keras.src import backend\n"
    "tf, backend = AvailableTensorFlow(gradtape), BackendAsTensorFlow(backend)"
)
"""In layers that use TensorFlow on every backend, gradtape replaces TensorFlow, and the backend has its name."""

_TEXT_LAYERS = (
    "feature_space", "hashed_crossing", "hashing", "index_lookup", "integer_lookup", "string_lookup",
    "text_vectorization",
)  # fmt: skip
_ALL_OF_KERAS = """
import keras.{0} as _own
globals().update({{name: getattr(_own, name) for name in dir(_own) if name[0] != "_" and name not in globals()}})
"""
"""TensorFlow's view of Keras omits some names of Keras, such as `losses.mean_squared_error`."""

_AFTERWARDS = {  # appended to modules that look up names, or a part of TensorFlow, when they are used
    **{f"{PUBLIC}.{name}": _ALL_OF_KERAS.format(name) for name in ("losses", "metrics")},
    **{
        f"{root}.{name}": "from gradtape._src.hooks.keras import shown_backend as backend"
        for root in ("keras", PUBLIC)
        for name in ("backend", "config")
    },
    "keras.src.backend.common.dtypes": "PYTHON_DTYPES_MAP['int'] = 'int64'",  # an optimizer's steps, as TensorFlow's
    "keras.src.export.tfsm_layer": (
        "import gradtape as tf\nfrom gradtape._src.keras_backend.interface import BackendAsTensorFlow\n"
        "backend = BackendAsTensorFlow(backend)"
    ),
    "keras.src.legacy.backend": (
        "import gradtape\nfrom gradtape._src.keras_backend.interface import LegacyTensorFlow\n"
        "tf = LegacyTensorFlow(gradtape)"
    ),
    "keras.src.legacy.saving.legacy_h5_format": (
        "from gradtape._src.keras_backend.saving import replacing\nsave_model_to_hdf5 = replacing(save_model_to_hdf5)"
    ),
    "keras.src.layers.normalization.batch_normalization": (
        "from gradtape._src.keras_backend.replicas import allow_synchronized\nallow_synchronized(BatchNormalization)"
    ),
    "keras.src.losses.loss": (
        "from gradtape._src.keras_backend.replicas import empty_as_zero\n"
        "from gradtape._src.keras_backend.replicas import scale_loss_for_distribution, unscale_loss_for_distribution\n"
        "reduce_values = empty_as_zero(reduce_values)"
    ),
    "keras.src.saving.saving_lib": (
        "from gradtape._src.keras_backend.saving import replacing\n"
        "save_model, save_weights_only = replacing(save_model), replacing(save_weights_only)"
    ),
    "keras.src.saving.serialization_lib": "from gradtape._src.keras_backend.interface import tensorflow_types as tf",
    "keras.src.utils.module_utils": (  # not "available": that would mean all of TensorFlow
        "tensorflow = LazyModule('gradtape')\ntensorflow._available = False"
    ),
    "keras.src.utils.rng_utils": (
        "import types\nimport gradtape.random\ntf = types.SimpleNamespace(available=True, random=gradtape.random)"
    ),
    "keras.src.utils.backend_utils": (
        "from gradtape._src.keras_backend.interface import join_dynamic_backend\njoin_dynamic_backend(DynamicBackend)\n"
        "in_tf_graph = lambda: False\n"  # a trace is gradtape's, also where gradtape stands in for TensorFlow
        "convert_tf_tensor = lambda outputs, dtype=None: outputs"
    ),
    "keras.src.utils.tf_utils": ("import gradtape as tf\nis_ragged_tensor = lambda x: isinstance(x, tf.RaggedTensor)"),
    "keras.src.trainers.data_adapters": (
        "from gradtape._src.keras_backend.datasets import DatasetAdapter as TFDatasetAdapter\n"
        "from gradtape._src.keras_backend.labels import is_dataset as is_tf_dataset"
    ),
    "keras.src.utils.dataset_utils": (
        "from gradtape._src.keras_backend.labels import is_dataset as is_tf_dataset\n"
        "from gradtape._src.keras_backend.labels import labels_to_dataset as labels_to_dataset_tf"
    ),
    **{f"keras.src.layers.preprocessing.{name}": _AS_TENSORFLOW for name in _TEXT_LAYERS},
    "keras.src.callbacks.tensorboard": (
        "from gradtape._src.keras_backend import tensorboard\nbackend = tensorboard.Backend(backend, tensorboard)\n"
        "TensorBoard.summary = property(tensorboard.summary_of)\n"
        "keras_model_summary = tensorboard.keras_model_summary"
    ),
    "keras.src.layers.preprocessing.discretization": "import gradtape as tf",
    "keras.src.layers.preprocessing.normalization": "import gradtape as tf",
    "keras.src.utils.image_dataset_utils": "import gradtape as tf",
    "keras.src.utils.text_dataset_utils": "import gradtape as tf",
    "keras.src.utils.timeseries_dataset_utils": "import gradtape as tf",
}
_SHARED = "gradtape.keras."
_preferred_by: set[str] = set()


def install() -> None:
    """Install the finder; further calls have no effect."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def prefer(who: str) -> None:
    """Make Keras use gradtape when it is imported, regardless of `KERAS_BACKEND`."""
    install()
    _preferred_by.add(who)


def withdraw(who: str) -> None:
    """Undo `prefer`; a Keras that is already imported does not change."""
    _preferred_by.discard(who)


def shown_backend() -> str:
    """The name of Keras' backend shown to programs: "tensorflow" if gradtape replaces it, otherwise "gradtape".

    Programs and libraries for several backends use this name to choose TensorFlow's code.
    """
    return "tensorflow" if "tensorflow" in _preferred_by else NAME


def claim() -> None:
    """Call `prefer`, or raise an error if Keras already runs on another backend."""
    config = sys.modules.get(_CONFIG)
    if config is not None and config.backend() != NAME:
        raise ImportError(
            f"Keras is already imported, with its {config.backend()} backend, and a process can have only one "
            "backend. Import gradtape.keras, or set KERAS_BACKEND=gradtape, before the first `import keras`."
        )
    prefer("gradtape.keras")


class _Finder:
    """Finds the modules of Keras that choose a backend, and Keras' modules under gradtape's name."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.startswith(_SHARED):
            return _shared(fullname)
        if not (fullname in CHOICES or fullname == _CONFIG or fullname in _AFTERWARDS) or not _chosen():
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def _chosen() -> bool:
    config = sys.modules.get(_CONFIG)
    return config is None or config.backend() == NAME  # the first modules come before the configuration is read


def _shared(fullname: str) -> ModuleSpec:
    """The Keras module of `gradtape.keras.…`: `gradtape.keras.layers` is Keras' `layers`."""
    loader: Any = _Alias(import_module(f"{PUBLIC}.{fullname.removeprefix(_SHARED)}"))
    return ModuleSpec(fullname, loader, is_package=True)


class _Alias:
    """Registers a loaded module under a second name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # the import system marks a blank module, and the real one keeps its own marks

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = self._module


class _Loader(SourceFileLoader):
    """Loads a module of Keras with the branch added; Python's bytecode cache keeps the original code."""

    def get_code(self, fullname: str) -> Any:
        if fullname not in CHOICES and fullname != _CONFIG:
            return super().get_code(fullname)
        import ast  # deferred: `import gradtape` imports this module

        tree = ast.parse(self.get_data(self.path), self.path)
        if fullname == _CONFIG:
            _add_decision(tree)
        else:
            add_branches(tree, CHOICES[fullname], self.path)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if module.__name__ in _AFTERWARDS:
            exec(_AFTERWARDS[module.__name__], vars(module))


def backend_for(chosen: str) -> str:
    """The backend that Keras uses, given the choice of the environment or its configuration file."""
    if _preferred_by or (chosen == "tensorflow" and not _is_installed("tensorflow")):
        chosen = NAME
    if chosen == NAME:
        _check_version()
    return chosen


def _add_decision(config: ast.Module) -> None:
    """Make Keras' configuration call `backend_for` after reading the name and before using it."""
    import ast

    for place, node in enumerate(config.body):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "_BACKEND != 'tensorflow'":
            decision = ast.parse(
                "from gradtape._src.hooks.keras import backend_for\n_BACKEND = backend_for(_BACKEND)"
            ).body
            for statement in decision:
                for inner in ast.walk(statement):
                    ast.copy_location(inner, node)
            config.body[place:place] = decision
            return


def _is_installed(package: str) -> bool:
    """Whether a package of this name is installed, other than gradtape under this name."""
    spec = PathFinder.find_spec(package)
    return spec is not None and spec.origin is not None


def _check_version() -> None:
    from keras.src.version import __version__ as version

    if ".".join(version.split(".")[:2]) not in TESTED:
        from gradtape._src.errors import install

        raise ImportError(
            f"This version of gradtape runs Keras {' and '.join(f'{v}.*' for v in TESTED)}, but Keras {version} is "
            f"installed. Install one it was tested with: {install('keras')}"
        )


def add_branches(tree: ast.Module, branches: Sequence[str], path: str) -> None:
    """Add `elif backend() == "gradtape":` before the last `else` of the module's choices of a backend, in order."""
    import ast

    choices = [node for node in ast.walk(tree) if isinstance(node, ast.If) and node.orelse and _asks_for(node.test)]
    chained = [node.orelse[0] for node in choices if len(node.orelse) == 1]
    choices = [node for node in choices if node not in chained]
    if len(choices) < len(branches):
        raise ImportError(
            f"{path} does not select a backend where gradtape expects it: gradtape was not tested with this version "
            "of Keras."
        )
    for node, statements in zip(choices, branches, strict=False):
        last = node
        while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
            last = last.orelse[0]
        branch = ast.If(
            test=ast.parse(f"{ast.unparse(node.test).split(' == ')[0]} == {NAME!r}", mode="eval").body,
            body=ast.parse(statements).body,
            orelse=last.orelse,
        )
        # In the place of the `else`, so that the other line numbers do not change.
        for part in (branch.test, *branch.body):
            for inner in ast.walk(part):
                if isinstance(inner, (ast.expr, ast.stmt, ast.alias)):
                    inner.lineno = inner.end_lineno = last.orelse[0].lineno
        branch.lineno = branch.end_lineno = last.orelse[0].lineno
        last.orelse = [ast.fix_missing_locations(branch)]


def _asks_for(test: ast.expr) -> bool:
    """Whether a condition tests the backend's name."""
    import ast

    return "backend() ==" in ast.unparse(test)
