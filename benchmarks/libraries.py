"""Which libraries there are to measure, and which Python has each.

gradtape and NumPy are those of the running interpreter. A peer is looked for in the interpreter named by its own
variable (BENCH_TENSORFLOW, BENCH_TORCH, BENCH_JAX, BENCH_AUTOGRAD), then in BENCH_PEERS, then in the running one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

PEERS = ("tensorflow", "torch", "jax", "autograd")

_PROBE = """
import importlib.metadata as m, importlib.util as u, json
names = {"gradtape": ["gradtape"], "numpy": ["numpy"], "tensorflow": ["tensorflow", "tensorflow-cpu"],
         "torch": ["torch"], "jax": ["jax"], "autograd": ["autograd"]}
found = {}
for module, distributions in names.items():
    if u.find_spec(module) is None:
        continue
    for name in distributions:
        try:
            found[module] = m.version(name)
        except m.PackageNotFoundError:
            pass
    found.setdefault(module, "?")
print(json.dumps(found))
"""


class Library(NamedTuple):
    """A library to measure: the name of its column, the module, its version, and the Python that has it."""

    name: str
    module: str
    version: str
    python: str


def _modules(python: str) -> dict[str, str]:
    try:
        probe = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{python} cannot be asked what it has: {error}", file=sys.stderr)
        return {}
    found: dict[str, str] = json.loads(probe.stdout)
    return found


def find() -> tuple[dict[str, Library], list[str]]:
    """The libraries that are there, by module, and a line about each one that is not."""
    known = {sys.executable: _modules(sys.executable)}
    here = known[sys.executable]
    if "gradtape" not in here:
        raise SystemExit(f"{sys.executable} has no gradtape: install it there first (make bench does).")
    found = {m: Library(m, m, here[m], sys.executable) for m in ("gradtape", "numpy")}
    absent = []
    for module in PEERS:
        variable = f"BENCH_{module.upper()}"
        for python in filter(None, (os.environ.get(variable), os.environ.get("BENCH_PEERS"), sys.executable)):
            if python not in known:
                known[python] = _modules(python)
            if module in known[python]:
                found[module] = Library(module, module, known[python][module], python)
                break
        else:
            absent.append(f"{module} is left out: not installed here; name a Python that has it in {variable}")
    return found, absent


def columns(found: dict[str, Library]) -> list[Library]:
    """The columns of the table of times: some libraries run in two ways, eagerly and compiled."""
    ways = {
        "gradtape": ["gradtape"],
        "numpy": ["numpy"],
        "torch": ["torch"],
        "tensorflow": ["tensorflow", "tensorflow.function"],
        "jax": ["jax.jit"],
        "autograd": ["autograd"],
    }
    import gradtape

    if hasattr(gradtape, "function"):
        ways["gradtape"] += ["gradtape.numpy", "gradtape.xla", "gradtape.function"]
    return [found[m]._replace(name=name) for m, names in ways.items() if m in found for name in names]
