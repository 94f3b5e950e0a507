"""Write the public modules: `gradtape.math`, `gradtape.nn` and so on, which only list names.

The implementation's `__all__` says which. Run this after adding a public function:

    python tools/make_public_modules.py
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gradtape"

SOURCES = {  # public module: its implementation
    "bitwise": "tf.bitwise",
    "config": "tf.config",
    "data": "data",
    "data.experimental": "data.experimental",
    "debugging": "tf.debugging",
    "errors": "errors",
    "image": "tf.image",
    "io": "tf.io",
    "linalg": "tf.linalg",
    "math": "tf.math",
    "mixed_precision": "tf.mixed_precision",
    "nest": "nest",
    "nn": "tf.nn",
    "quantization": "tf.quantization",
    "random": "tf.random",
    "signal": "tf.signal",
    "sparse": "tf.sparse",
    "test": "tf.test",
    "testing": "testing",
    "train": "checkpoint",
    "train.experimental": "checkpoint.experimental",
    "version": "version",
}


def text_of(public: str) -> str:
    """The source of a public module: it imports what the implementation's `__all__` lists.

    Names that the implementation loads when they are first used (in `__getattr__`) stay lazy.
    """
    module = importlib.import_module(f"gradtape._src.{SOURCES[public]}")
    lazy = hasattr(module, "__getattr__")
    names = [name for name in module.__all__ if not lazy or name not in module._LAZY]
    names = sorted([*names, "__dir__", "__getattr__"] if lazy else names, key=_order)
    public_modules = [name for name in names if f"{public}.{name}" in SOURCES]
    listed = "".join(f"    {name} as {name},\n" for name in names if name not in public_modules)
    summary = (module.__doc__ or "").strip().splitlines()[0]
    text = f'"""{summary}"""\n\nfrom {module.__name__} import (\n{listed})\n'
    return text + "".join(f"from gradtape.{public} import {name} as {name}\n" for name in public_modules)


def _order(name: str) -> tuple[object, ...]:
    """The linter's order: constants, classes, functions; numbers by their value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())]


def files() -> dict[Path, str]:
    """Every public module and its source."""
    packages = {name.split(".")[0] for name in SOURCES if "." in name}
    found = {}
    for public in SOURCES:
        parts = public.split(".")
        path = PACKAGE.joinpath(*parts)
        found[path / "__init__.py" if public in packages else path.with_suffix(".py")] = text_of(public)
    return found


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
