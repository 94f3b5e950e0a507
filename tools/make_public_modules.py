"""Write the public modules: `gradtape.math`, `gradtape.nn` and so on, which only list names.

The implementation's `__all__` says which, and the names in the declarations of primitives, which are added to the root
as well. Stubs for type checkers list
the names of Keras, which `gradtape.keras` finds when they are used. Run this after adding a public function or
primitive, and for a new version of Keras:

    python tools/make_public_modules.py
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

from gradtape._src import ops
from gradtape._src.core.primitive import Op, registry
from gradtape._src.ops.by_name import load_all

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gradtape"

SOURCES = {  # public module: its implementation
    "audio": "tf.audio",
    "autodiff": "solvers.public",
    "bitwise": "tf.bitwise",
    "config": "tf.config",
    "data": "data",
    "data.experimental": "tf.data_experimental",
    "debugging": "tf.debugging",
    "distribute": "distribute",
    "distribute.cluster_resolver": "distribute.cluster_resolver",
    "distribute.coordinator": "distribute.parameter_server",
    "distribute.experimental": "distribute.experimental",
    "distribute.experimental.coordinator": "distribute.parameter_server",
    "distribute.experimental.partitioners": "distribute.partitioners",
    "errors": "errors",
    "experimental": "experimental",
    "experimental.dlpack": "tf.dlpack",
    "experimental.dtensor": "dtensor",
    "experimental.numpy": "numpy_api.public",
    "experimental.numpy.random": "numpy_api.random",
    "feature_column": "feature_column.public",
    "image": "tf.image",
    "io": "tf.io",
    "io.gfile": "tf.gfile",
    "linalg": "tf.linalg",
    "lookup": "tf.lookup",
    "lookup.experimental": "tf.lookup.experimental",
    "math": "tf.math",
    "mixed_precision": "tf.mixed_precision",
    "nest": "nest",
    "nn": "tf.nn",
    "profiler": "tf.profiler_names",
    "profiler.experimental": "tf.profiler",
    "quantization": "tf.quantization",
    "ragged": "tf.ragged",
    "random": "tf.random",
    "raw_ops": "raw_ops.public",
    "sets": "tf.sets",
    "saved_model": "saved_model.public",
    "signal": "tf.signal",
    "sparse": "tf.sparse",
    "strings": "tf.strings",
    "summary": "tf.summary",
    "summary.experimental": "tf.summary_experimental",
    "test": "tf.test",
    "testing": "testing",
    "tpu": "tf.tpu_names",
    "tpu.experimental": "tf.tpu",
    "tpu.experimental.embedding": "tf.tpu_embedding",
    "train": "solvers.train",
    "train.experimental": "checkpoint.experimental",
    "types": "tf.types_names",
    "types.experimental": "tf.types",
    "version": "version",
    "xla": "tf.xla_names",
    "xla.experimental": "tf.xla",
}


_FIRST = "# Primitives that are functions at the root by their declaration: written by tools/make_public_modules.py.\n"
_REST = "# The other names, among them those that differ from the primitive's, are listed here by hand.\n"


def root() -> str:
    """The source of the root, with the primitives that are functions there by their declaration alone."""
    before, _, rest = (PACKAGE / "__init__.py").read_text(encoding="utf-8").partition(_FIRST)
    _, _, after = rest.partition(_REST)
    imports = [node for node in ast.walk(ast.parse(before + after)) if isinstance(node, ast.ImportFrom)]
    listed = [alias.asname or alias.name for node in imports for alias in node.names]
    return f"{before}{_FIRST}{_primitives('', listed)}\n{_REST}{after}"


def text_of(public: str) -> str:
    """The source of a public module: it imports what the implementation's `__all__` lists.

    Names that the implementation loads when they are first used (in `__getattr__`) stay lazy.
    """
    module = importlib.import_module(f"gradtape._src.{SOURCES[public]}")
    lazy = sorted(getattr(module, "_LAZY", ()), key=_order)
    names = [name for name in module.__all__ if name not in lazy]
    names = sorted([*names, "__dir__"] if lazy else names, key=_order)
    public_modules = [name for name in names if f"{public}.{name}" in SOURCES]
    own = [name for name in names if name not in public_modules]
    listed = _import(module.__name__, own) if own else ""
    summary = (module.__doc__ or "").strip().splitlines()[0]
    text = f'"""{summary}"""\n\nimport typing as _typing\n\n{_primitives(public, module.__all__)}{listed}'
    if public_modules:
        line = f"from gradtape.{public} import {', '.join(f'{name} as {name}' for name in public_modules)}\n"
        text += line if len(line) <= 121 else _import(f"gradtape.{public}", public_modules)
    return text + _getattr(module.__name__, lazy)


def _getattr(implementation: str, lazy: Sequence[str]) -> str:
    """The end of a public module: how names are found that it does not have, or has not loaded.

    Type checkers do not see it. They would take every misspelled name for one that is loaded on first use.
    """
    public = "    from gradtape._src.lazy_names import of_public as _of_public\n"
    if not lazy:
        return f"\nif not _typing.TYPE_CHECKING:\n{public}\n    __getattr__ = _of_public(__name__)\n"
    seen = indent(_import(implementation, list(lazy)), "    ")
    loads = f"    from {implementation} import __getattr__ as _load\n\n    __getattr__ = _of_public(__name__, _load)\n"
    return f"\nif _typing.TYPE_CHECKING:\n{seen}else:\n{public}{loads}"


def _primitives(public: str, listed: Sequence[str]) -> str:
    """Imports of the primitives that are functions of a public module by their declaration alone."""
    found: dict[str, list[str]] = {}
    for op in registry.values():
        for name in op.names:
            space, _, function = name.rpartition(".")
            if space == public and function not in listed:
                if function != op.name:  # type checkers export what keeps its name
                    place = f"`__all__` of tf/{public}.py" if public else "gradtape/__init__.py"
                    raise LookupError(f"{op.name} is tf.{name}: list it in {place}, as an alias")
                found.setdefault(_home(op), []).append(function)
    return "".join(_import(home, sorted(names, key=_order)) for home, names in sorted(found.items()))


def _home(op: Op) -> str:
    """The module of a primitive's declaration."""
    for info in pkgutil.iter_modules(ops.__path__):
        module = importlib.import_module(f"{ops.__name__}.{info.name}")
        if vars(module).get(op.name) is op.call:
            return module.__name__
    raise LookupError(f"{op.name} is declared under another name in gradtape/_src/ops")


def _import(module: str, names: list[str]) -> str:
    return f"from {module} import (\n" + "".join(f"    {name} as {name},\n" for name in names) + ")\n"


def keras_stubs() -> dict[Path, str]:
    """What type checkers read in the place of `gradtape/keras`: a module for each of Keras', with its names.

    Listed one by one: Keras has no annotations, and of a module without them mypy takes named imports only.
    """
    found = importlib.util.find_spec("keras")
    if found is None or found.origin is None:
        return {}
    root = Path(found.origin).parent / "_tf_keras" / "keras"
    untyped = "  # type: ignore[import-untyped, unused-ignore]"
    stubs = {}
    for path in sorted([root, *root.glob("[a-z]*")]):
        if not (path / "__init__.py").exists():
            continue
        public = "keras._tf_keras.keras" + (f".{path.name}" if path != root else "")
        tree = ast.parse((path / "__init__.py").read_text(encoding="utf-8"))
        aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
        names = sorted({alias.asname or alias.name for alias in aliases}, key=_order)
        if path == root:  # modules have stubs of their own
            modules = [name for name in names if (root / name / "__init__.py").exists()]
            text = _import(public, [name for name in names if name not in modules])
            text += "\n" + _import("gradtape.keras", modules)
        else:
            text = _import(public, names) if names else ""
        text = text.replace("import (", "import (" + untyped, 1)
        stubs[PACKAGE / "keras" / f"{'__init__' if path == root else path.name}.pyi"] = text
    return stubs


def _order(name: str) -> tuple[object, ...]:
    """The linter's order: constants, classes, functions; numbers by their value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())]


def files() -> dict[Path, str]:
    """Every public module and its source."""
    load_all()
    packages = {name.rpartition(".")[0] for name in SOURCES if "." in name}
    found = {PACKAGE / "__init__.py": root()}
    for public in SOURCES:
        parts = public.split(".")
        path = PACKAGE.joinpath(*parts)
        found[path / "__init__.py" if public in packages else path.with_suffix(".py")] = text_of(public)
    return found | keras_stubs()


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
