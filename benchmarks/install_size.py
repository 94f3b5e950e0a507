"""Megabytes on disk of a library with everything it requires: python -m benchmarks.install_size

Optional extras are not counted, nor what else the environment holds.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import libraries
from benchmarks.libraries import Library

_PROGRAM = """
import importlib.metadata as m, importlib.util as u, json, marshal, pathlib, re, sys
def own(d):
    origin = d.read_text("direct_url.json") or ""
    if '"editable": true' in origin:  # its files are in the working copy; an install would add the byte code
        folder = pathlib.Path(u.find_spec(d.metadata["Name"]).origin).parent
        files = [f for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc"]
        code = [16 + len(marshal.dumps(compile(f.read_bytes(), str(f), "exec"))) for f in files if f.suffix == ".py"]
        return sum(code) + sum(f.stat().st_size for f in files)
    paths = {pathlib.Path(d.locate_file(f)) for f in d.files or ()}
    return sum(p.stat().st_size for p in paths if p.is_file())
sizes, waiting = {}, sys.argv[1:]
while waiting:
    name = re.sub("[-_.]+", "-", waiting.pop()).lower()
    if name in sizes:
        continue
    try:
        d = m.distribution(name)
    except m.PackageNotFoundError:  # asked for on other systems only
        continue
    sizes[name] = own(d)
    waiting += [re.match("[A-Za-z0-9._-]+", r)[0] for r in d.requires or () if "extra" not in r.partition(";")[2]]
print(json.dumps(sizes))
"""


def sizes(library: Library) -> dict[str, int]:
    """Bytes of each distribution that a library needs, itself included."""
    names = ["tensorflow", "tensorflow-cpu"] if library.module == "tensorflow" else [library.module]
    run = subprocess.run([library.python, "-c", _PROGRAM, *names], capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(run.stdout)
    return found


def main() -> None:
    found, absent = libraries.find()
    for library in found.values():
        parts = sizes(library)
        largest = sorted(parts.items(), key=lambda part: -part[1])[:4]
        detail = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in largest)
        print(f"{library.module:<11} {library.version:<12} {sum(parts.values()) / 1e6:8.1f} MB  "
              f"({len(parts)} packages: {detail})")  # fmt: skip
    for line in absent:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
