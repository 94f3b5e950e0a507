"""The plan of the house: imports go down the rooms only, and the public surface is a list."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import gradtape as tf

SOURCE = Path(tf.__file__).parent

ROOMS = (  # from the top to the ground; a room may import what stands below it, and nothing above
    ("__main__",),
    ("cli",),
    ("commands",),
    ("testing",),
    ("__init__",),
    ("tensorflow_alias",),
    ("keras",),
    ("keras_backend",),
    ("keras_hook",),
    ("api",),
    ("train",),
    ("lens",),
    ("compile",),
    ("autodiff",),
    ("variable",),
    ("ops",),
    ("engine",),
    ("arrays",),
    ("indexed_slices",),
    ("conversion",),
    ("tensor",),
    ("shape",),
    ("literals",),
    ("nest", "dtypes"),
    ("buffers", "errors", "interrupts", "memory", "version"),
    ("forks",),
)
FLOOR = {room: len(ROOMS) - i for i, floor in enumerate(ROOMS) for room in floor}
LIBRARIES = {"numpy", "ml_dtypes"}
OPTIONAL = {"jax", "jaxlib", "keras", "matplotlib", "PIL", "malt", "scipy", "tensorflow", "torch", "IPython"}


def files():
    return sorted(SOURCE.rglob("*.py"))


def room_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


class Imports(ast.NodeVisitor):
    """Every import of a module but those that only a type checker sees: (name, line, at the top of the module)."""

    def __init__(self, path):
        self.found, self.depth = [], 0
        self.visit(ast.parse(path.read_text("utf-8")))

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Import(self, node):
        self.found += [(alias.name, node.lineno, not self.depth) for alias in node.names]

    def visit_ImportFrom(self, node):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            name = f"{node.module}.{alias.name}" if node.module == "gradtape" else node.module
            self.found.append((name, node.lineno, not self.depth))


def rooms_imported(path):
    for name, line, _ in Imports(path).found:
        if name == "gradtape" or name.startswith("gradtape."):
            parts = name.split(".")
            yield parts[1] if len(parts) > 1 and parts[1] in FLOOR else "__init__", line


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down(path):
    room = room_of(path)
    assert room in FLOOR, f"{room} has no place in the plan: give it a floor in ROOMS, and in the design"
    for other, line in rooms_imported(path):
        assert other == room or FLOOR[other] < FLOOR[room], f"{path}:{line}: {room} imports {other}, which is not below"


def test_the_plan_would_notice(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(
        "from gradtape._src.tf import math\nfrom gradtape import nest\nimport gradtape\n"
        "if TYPE_CHECKING:\n    import gradtape.cli\n"
        "def f():\n    from gradtape._src.variable import Variable\n"
    )
    assert list(rooms_imported(bad)) == [("api", 1), ("nest", 2), ("__init__", 3), ("variable", 7)]
    assert FLOOR["api"] > FLOOR["autodiff"] > FLOOR["variable"] > FLOOR["ops"] > FLOOR["engine"] > FLOOR["arrays"]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_numpy_and_ml_dtypes_are_needed(path):
    for name, line, at_the_top in Imports(path).found:
        package = name.split(".")[0]
        if package == "gradtape" or package in sys.stdlib_module_names or package in LIBRARIES:
            continue
        assert package in OPTIONAL, f"{path}:{line}: {package} is not a dependency"
        late = room_of(path) in ("keras_backend", "compile") or "xla_engine" in path.parts  # loaded on demand
        assert not at_the_top or late, f"{path}:{line}: {package} is imported at once"


def test_importing_brings_in_nothing_heavy():
    code = "import sys, gradtape, json;print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded >= {"gradtape", "numpy"}
    assert not loaded & OPTIONAL
    assert not loaded & {"pytest", "setuptools", "asyncio", "unittest"}


def test_every_module_can_be_imported_first():
    """No module needs another one to have been imported before it."""
    names = [".".join(("gradtape", *path.relative_to(SOURCE).with_suffix("").parts)) for path in files()]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    if importlib.util.find_spec("keras") is None:
        names = [
            name for name in names if not f"{name}.".startswith(("gradtape.keras.", "gradtape._src.keras_backend."))
        ]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-W", "error", "-c", code, *names], check=True, timeout=120)


def test_no_module_takes_a_public_name():
    """Importing every module, as programs do over time, leaves behind every name of TensorFlow's what it is there."""
    names = [".".join(("gradtape", *path.relative_to(SOURCE).with_suffix("").parts)) for path in files()]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    if importlib.util.find_spec("keras") is None:
        names = [
            name for name in names if not f"{name}.".startswith(("gradtape.keras.", "gradtape._src.keras_backend."))
        ]
    code = """
import functools, importlib, sys, types
import gradtape as tf

def find(name):
    return functools.reduce(lambda found, part: getattr(found, part, None), name.split(".")[1:], tf)

public = dict(line.split()[:2] for line in open(sys.argv[1]))
before = {name: find(name) for name in public}
for name in sys.argv[2:]:
    importlib.import_module(name)
for name, kind in public.items():
    found = find(name)
    assert found is before[name], (name, before[name], found)
    if found is not None:
        is_namespace = isinstance(found, (types.ModuleType, types.SimpleNamespace))
        assert is_namespace == (kind == "namespace"), (name, found)
        assert callable(found) or kind not in ("class", "function"), (name, found)
"""
    listed = Path(__file__).parents[1] / "docs" / "data" / "tensorflow_names.txt"
    subprocess.run([sys.executable, "-c", code, listed, *names], check=True, timeout=120)


# -- the public surface ---------------------------------------------------------------------------------------------
TENSORFLOW = json.loads((Path(__file__).parent / "data" / "tensorflow_names.json").read_text("utf-8"))
EXTRAS = {
    "install_as_tensorflow",  # lets `import tensorflow` find gradtape
    "mixed_precision",  # loss scaling for tape loops
}
PYTHONS = {"annotations"}


def public(module):
    return {name for name in dir(module) if not name.startswith("_")}


def test_names_at_the_root_are_tensorflows_or_listed():
    rooms = {room for room in FLOOR if getattr(vars(tf).get(room), "__name__", "") == f"gradtape.{room}"}
    assert public(tf) - set(TENSORFLOW["root"]) - rooms - PYTHONS == EXTRAS


def test_rooms_do_not_hide_tensorflows_names():
    """`tf.nest` and the like are namespaces of TensorFlow's; a room of another kind must not sit on such a name."""
    for name in sorted(public(tf) & set(TENSORFLOW["root"])):
        value = getattr(tf, name)
        if type(value).__name__ == "module" and name != "keras":  # whose names are Keras' own
            wanted = set(TENSORFLOW.get(name, ()))
            assert wanted & public(value), f"tf.{name} has none of TensorFlow's names"


@pytest.mark.parametrize("name", [name for name in TENSORFLOW if name != "root"])
def test_namespaces_share_their_functions_with_the_root(name):
    """tf.math.add is tf.add: an alias is the same object."""
    namespace = getattr(tf, name, None)
    if namespace is None:
        return
    for both in sorted(public(namespace) & public(tf) & set(TENSORFLOW[name]) & set(TENSORFLOW["root"])):
        if both in TENSORFLOW["different"].get(name, ()):
            continue
        assert getattr(namespace, both) is getattr(tf, both), f"tf.{name}.{both} is not tf.{both}"
