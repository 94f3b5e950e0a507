"""Record where TensorFlow defines its public names, in the notation of `hooks/private_names.txt`.

Run it with a Python that has TensorFlow; it reads the files that import every public name from a private module:

    TENSORFLOW_PYTHON tools/record_private_names.py > src/gradtape/_src/hooks/private_names.txt

A line per module below `tensorflow.python`: `ops.nn_ops | tf.nn: relu6 conv2d_v2=conv2d | …` says that
`nn_ops.relu6` is `tf.nn.relu6`, and `nn_ops.conv2d_v2` is `tf.nn.conv2d`. Of several public names, a name of
TensorFlow 2 and a short one wins. The names in `tf.raw_ops` are left out: modules `gen_…_ops` have them all.
"""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from pathlib import Path

IMPORT = re.compile(r"from tensorflow\.python\.(\S+) import (\w+)(?: as (\w+))?")


def exports(package: Path) -> dict[tuple[str, str], set[str]]:
    """(Private module, name in it) -> public names."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module, name, public in IMPORT.findall((package / "__init__.py").read_text()):
        found[module, name].add(f"tf.{public or name}")
    folder = package / "_api" / "v2"
    for file in folder.rglob("__init__.py"):
        parts = file.parent.relative_to(folder).parts
        if {"v2", "__internal__"} & {*parts} or "v1" in parts[2:]:
            continue  # compat.v2 repeats the names, as do compat.v1.compat.v1 and so on
        for module, name, public in IMPORT.findall(file.read_text()):
            found[module, name].add(".".join(("tf", *parts, public or name)))
    return found


def best(name: str, public: set[str]) -> str:
    """The public name to prefer."""
    return min(public, key=lambda each: (".v1." in each, each.rpartition(".")[2] != name, each.count("."), each))


def main() -> None:
    """Print a line per module."""
    (package,) = importlib.util.find_spec("tensorflow").submodule_search_locations
    modules: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (module, name), public in sorted(exports(Path(package)).items()):
        public = {each for each in public if ".raw_ops." not in each and "._" not in each}
        spaces = modules[module]
        if public:
            space, _, last = best(name, public).rpartition(".")
            spaces[space].append(name if name == last else f"{name}={last}")
    for module, spaces in sorted(modules.items()):
        print(module, *(f"{space}: {' '.join(names)}" for space, names in sorted(spaces.items())), sep=" | ")


if __name__ == "__main__":
    main()
