"""Write docs/supported.md: every public name of TensorFlow outside of Keras, and whether gradtape has it.

The names (docs/data/tensorflow_names.txt) are those of TensorFlow 2.21. Run it after adding functions:

    python docs/make_supported.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gradtape
from gradtape._src.reasons import reason

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import public_names  # noqa: E402

PAGE = """# TensorFlow's names in gradtape

{have} of the {total} public names of TensorFlow 2.21 are available. `tf.keras` is Keras 3, whole; `tf.raw_ops` and
`tf.compat.v1` have [pages](raw-ops.md) of [their own](tensorflow1.md). Names link to the reference, and each missing
name is listed with the reason. A test compares this page, which `docs/make_supported.py` generates, with the package.
"""


def lookup(name: str) -> Any:
    """The object behind a dotted name, or None."""
    found: Any = gradtape
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            return None
        found = getattr(found, part)
    return found if name != "tf.newaxis" else ...


def _linked(name: str, described: dict[str, str]) -> str:
    """The last part of a name, as a link if the reference describes it."""
    word = f"`{name.rpartition('.')[2]}`"
    return f"[{word}](reference/{described[name]})" if name in described else word


def build() -> str:
    """The page."""
    names = [line.split()[0] for line in (HERE / "data" / "tensorflow_names.txt").read_text().splitlines()]
    spaces: dict[str, list[str]] = {}
    for name in names:
        spaces.setdefault(name.rpartition(".")[0], []).append(name)
    have = [name for name in names if lookup(name) is not None]
    described = public_names.places()
    parts = [PAGE.format(have=len(have), total=len(names))]
    for space, members in spaces.items():
        here = [_linked(n, described) for n in members if lookup(n) is not None]
        parts.append(f"\n## `{space}`\n\n{len(here)} of {len(members)}: " + ", ".join(here) + "\n")
        missing: dict[str, list[str]] = {}
        for name in members:
            if lookup(name) is None:
                missing.setdefault(reason(name) or "not yet", []).append(name.rpartition(".")[2])
        if missing:
            parts.append("\n| not here | why |\n|---|---|\n")
            parts += [f"| {', '.join(f'`{n}`' for n in ns)} | {why} |\n" for why, ns in sorted(missing.items())]
    return "".join(parts)


if __name__ == "__main__":
    (HERE / "supported.md").write_text(build())
