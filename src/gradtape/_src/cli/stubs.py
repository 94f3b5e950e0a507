"""`gradtape stubs`: make type checkers and editors use gradtape's types for code that imports tensorflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gradtape
from gradtape._src.cli import UsageError
from gradtape._src.cli.arguments import Parser

__all__ = ["main", "texts"]

DESCRIPTION = """\
Writes a stub package `tensorflow` whose modules say `from gradtape import *`. With it, mypy, pyright and editors
resolve `import tensorflow as tf` to gradtape: names complete, and wrong arguments and misspelled names are flagged."""
EPILOG = """\
Pyright and editors that use it find the directory `typings` in a project automatically. For mypy, name it in
pyproject.toml:

  [tool.mypy]
  mypy_path = "typings"

examples:
  gradtape stubs               writes typings/tensorflow
  gradtape stubs --to stubs    writes stubs/tensorflow
"""

HEADER = "# Written by `gradtape stubs`.\n"
_VERSION_1 = "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"  # names that are created at run time


def texts() -> dict[str, str]:
    """The stubs: the path of each below the package, and its text.

    >>> print(texts()["math.pyi"], end="")
    # Written by `gradtape stubs`.
    from gradtape.math import *
    """
    found = {path: f"{HEADER}from {module} import *\n" for path, module in _modules()}
    found["__init__.pyi"] += "from gradtape import __version__ as __version__\n"
    found["compat/__init__.pyi"] = HEADER + "from tensorflow.compat import v1 as v1, v2 as v2\n" + _VERSION_1
    found["compat/v1.pyi"] = HEADER + _VERSION_1
    found["compat/v2.pyi"] = HEADER + "from gradtape import *\n"
    return found


def _modules() -> Iterator[tuple[str, str]]:
    """All public modules: the path of each stub, and its name."""
    root = Path(gradtape.__file__).parent
    for path in sorted({path.with_suffix("") for path in root.rglob("*.py*") if path.suffix in (".py", ".pyi")}):
        parts = path.relative_to(root).parts
        if "_src" not in parts and parts[-1] != "__main__":
            name = ".".join(["gradtape", *parts]).removesuffix(".__init__")
            yield "/".join(parts) + ".pyi", name


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    parser = Parser("stubs", DESCRIPTION, EPILOG)
    parser.add_argument("--to", default="typings", metavar="FOLDER", help="where to write (typings)")
    folder = Path(parser.parse_args(arguments).to) / "tensorflow"
    for path in folder.rglob("*.pyi"):
        if not path.read_text(encoding="utf-8").startswith(HEADER):
            raise UsageError(f"{path} is another tensorflow stub: remove it, or choose another directory with --to")
    written = texts()
    for name, text in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{folder}: {len(written)} stubs. For mypy, set mypy_path = {str(folder.parent)!r}; pyright reads typings.")
    return 0
