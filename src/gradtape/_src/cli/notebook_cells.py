"""Notebooks as programs: the code of their cells, without IPython's syntax."""

from __future__ import annotations

import json

__all__ = ["program_of"]

_DISPLAY = "def display(*values, **options):\n    print(*values)\n"


def program_of(text: str) -> str:
    """The program of a notebook.

    Lines that only IPython reads (`%matplotlib inline`, `!pip install`) are left out, and so is a cell in another
    language (`%%bash`).

    >>> print(program_of('{"cells": [{"cell_type": "code", "source": ["%matplotlib inline\\\\n", "x = 1"]}]}'))
    # cell 1
    pass
    x = 1
    <BLANKLINE>
    """
    cells = json.loads(text)
    if not isinstance(cells, dict) or not isinstance(cells.get("cells"), list):
        raise ValueError("it has no cells")
    parts = []
    for number, cell in enumerate(cells["cells"], 1):
        if cell.get("cell_type") == "code":
            source = cell.get("source", "")
            parts.append(f"# cell {number}\n" + _plain("".join(source) if isinstance(source, list) else source) + "\n")
    program = "\n".join(parts)
    return (_DISPLAY if "display(" in program else "") + program


def _plain(source: str) -> str:
    """A cell as plain Python: IPython's lines become `pass`, with the same position and indentation."""
    if source.lstrip().startswith("%%") and not source.lstrip().startswith(("%%time", "%%capture", "%%timeit")):
        return "pass"
    lines = []
    for line in source.splitlines():
        bare = line.lstrip()
        indentation = line[: len(line) - len(bare)]
        if bare.startswith(("%", "!")) or (bare.endswith("?") and bare.rstrip("?").replace(".", "").isidentifier()):
            lines.append(f"{indentation}pass")
        else:
            lines.append(line)
    return "\n".join(lines)
