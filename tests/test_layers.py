"""The layers: imports go down only, without cycles, and the public surface is a list."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gradtape as tf
from gradtape._src.core.primitive import registry
from gradtape._src.ops.by_name import load_all

PACKAGE = Path(tf.__file__).parent
ROOT = Path(__file__).parents[1]

LAYERS = (  # from top to bottom; a layer imports what is below it, and nothing above
    ("__main__",),
    ("cli",),
    ("public",),  # gradtape, gradtape.math, gradtape.nn, …
    ("hooks.tensorflow", "jupyter", "testing"),
    ("hooks.tensorflow_python", "hooks.tf_keras"),
    (
        "hooks.file_functions",
        "hooks.gradient_registry",
        "hooks.identity_collections",
        "hooks.nest_functions",
        "hooks.private_functions",
        "hooks.private_names",
    ),
    ("keras_backend",),
    ("hooks.keras",),
    ("experimental", "feature_column", "saved_model"),
    ("numpy_api", "raw_ops"),
    ("solvers",),
    ("tf",),
    ("distribute", "dtensor"),
    ("data",),
    ("checkpoint",),
    ("inspect",),
    ("function",),
    ("graph",),
    ("autodiff",),
    ("variable",),
    ("ops",),
    ("core",),
    ("arrays",),
    ("indexed_slices",),
    ("formats", "text"),
    ("conversion",),
    ("tensor",),
    ("devices", "shape"),
    ("literals",),
    ("nest", "dtypes", "processes", "progress"),
    (
        "active",
        "buffers",
        "calls",
        "call_sites",
        "cluster_spec",
        "errors",
        "interrupts",
        "jax_setup",
        "lazy_names",
        "memory",
        "notebook",
        "threads",
        "typing",
        "uids",
        "version",
    ),
    ("compilation_cache", "forks", "reasons"),
)
HEIGHT = {layer: len(LAYERS) - i for i, layers in enumerate(LAYERS) for layer in layers}
LIBRARIES = {"numpy", "ml_dtypes"}
OPTIONAL = {"jax", "jaxlib", "keras", "matplotlib", "onnx", "PIL", "malt", "scipy", "tensorflow", "torch", "IPython"}


def files():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    """The module's name without `gradtape.`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def layer_of(module):
    """The layer of a module, named without `gradtape.`."""
    if module == "__main__":
        return module
    parts = module.split(".")
    if parts[0] != "_src" or parts == ["_src"]:
        return "public"
    return ".".join(parts[1:3]) if parts[1] == "hooks" and len(parts) > 2 else parts[1]


@functools.cache
def modules():
    return {name_of(path) for path in files()}


parsed = functools.cache(ast.parse)  # most of the time goes into it, and every test here reads every module


class Imports(ast.NodeVisitor):
    """Every import of a module but those that only a type checker sees: (name, line, at the top of the module)."""

    def __init__(self, text):
        self.found, self.depth = [], 0
        self.visit(parsed(text))

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
            name = f"{node.module}.{alias.name}"
            is_module = name.partition("gradtape.")[2] in modules()
            self.found.append((name if is_module else node.module, node.lineno, not self.depth))


def imported(text):
    """The modules of gradtape that a module imports, without `gradtape.`: (name, line, at the top)."""
    for name, line, at_the_top in Imports(text).found:
        if name == "gradtape" or name.startswith("gradtape."):
            yield name.partition(".")[2], line, at_the_top


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path):
    layer = layer_of(name_of(path))
    if layer == "hooks":
        return  # the package itself, which is empty
    assert layer in HEIGHT, f"{layer} is no layer: give it a place in LAYERS, and in docs/design"
    for module, line, _ in imported(path.read_text("utf-8")):
        other = layer_of(module)
        assert other == layer or HEIGHT[other] < HEIGHT[layer], f"{path}:{line}: {layer} imports {other}, not below it"


@pytest.mark.parametrize("late", [False, True], ids=["at the top", "inside of functions"])
def test_no_import_cycles(late):
    """Inside a layer, too, modules have an order."""
    graph = {name_of(path): set() for path in files()}
    for path in files():
        here = name_of(path)
        found = imported(path.read_text("utf-8"))
        graph[here] = {m for m, _, top in found if (top or late) and m in graph and m != here}
    for package in {name for name in graph if any(m.startswith(f"{name}.") for m in graph)}:
        graph = {a: {m for m in b if m != package or not a.startswith(f"{package}.")} for a, b in graph.items()}
    done, walking = set(), []

    def walk(module):
        assert module not in walking, "a cycle of imports: " + " -> ".join([*walking[walking.index(module) :], module])
        if module in done:
            return
        walking.append(module)
        for other in sorted(graph[module]):
            walk(other)
        done.add(walking.pop())

    for module in sorted(graph):
        walk(module)


def test_the_layers_would_notice():
    text = (
        "from gradtape._src.tf import math\nfrom gradtape._src import nest\nimport gradtape\n"
        "if TYPE_CHECKING:\n    import gradtape._src.cli\n"
        "def f():\n    from gradtape._src.variable import Variable\n"
    )
    found = [(layer_of(module), line, at_the_top) for module, line, at_the_top in imported(text)]
    assert found == [("tf", 1, True), ("nest", 2, True), ("public", 3, True), ("variable", 7, False)]
    assert HEIGHT["tf"] > HEIGHT["autodiff"] > HEIGHT["variable"] > HEIGHT["ops"] > HEIGHT["core"] > HEIGHT["arrays"]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_numpy_and_ml_dtypes_are_needed(path):
    for name, line, at_the_top in Imports(path.read_text("utf-8")).found:
        package = name.split(".")[0]
        if package == "gradtape" or package in sys.stdlib_module_names or package in LIBRARIES:
            continue
        assert package in OPTIONAL, f"{path}:{line}: {package} is not a dependency"
        layer = layer_of(name_of(path))
        late = layer in ("keras_backend", "graph", "function") or "xla" in path.parts  # loaded on demand
        assert not at_the_top or late, f"{path}:{line}: {package} is imported at once"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified names")
def test_calls_go_down():
    """What an op, a gradient, a Jacobian and a compiled call cross: documented, and never up except into a rule."""
    pytest.importorskip("jax")
    command = [sys.executable, ROOT / "tools" / "functions_crossed.py", "--check"]
    done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert {len(calls) > 0 for calls in done["calls"].values()} == {True}
    for calls in done["calls"].values():
        for (module, name), caller in calls:
            if caller is None or caller[0] == "core.fast" or caller[1] in ("_by_rule", "LazyArray.write"):
                continue
            above, below = (HEIGHT[layer_of(f"_src.{m}")] for m in (caller[0], module))
            assert above >= below, f"{'.'.join(caller)} calls {module}.{name}, a layer above"
    assert done["is current"], "run python tools/functions_crossed.py"


def test_public_modules_are_up_to_date():
    spec = importlib.util.spec_from_file_location("make_public_modules", ROOT / "tools" / "make_public_modules.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    old = [path.name for path, text in tool.files().items() if path.read_text("utf-8") != text]
    assert old == [], "run python tools/make_public_modules.py"


def test_importing_brings_in_nothing_heavy():
    code = "import sys, gradtape, json;print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded >= {"gradtape", "numpy"}
    assert not loaded & OPTIONAL
    assert not loaded & {"pytest", "setuptools", "asyncio", "unittest"}


def test_importing_brings_in_little_beside_numpy():
    """Modules of the standard library that take a millisecond each, for what few programs use."""
    code = "import numpy, sys; b = {*sys.modules}; import gradtape; print(*sorted(m for m in {*sys.modules} - b))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(done.stdout.split())
    assert not loaded & {"hashlib", "secrets", "base64", "pathlib", "urllib.parse", "logging", "tempfile", "subprocess"}
    assert not loaded & {"shutil", "lzma", "bz2", "zlib", "signal", "dataclasses", "copy"}


def test_modules_of_primitives_import_those_that_their_rules_use():
    """Modules of primitives are imported when they are first used; `xp.name` in a rule finds what was declared."""
    code = "import sys, gradtape; print(*[m for m in sys.modules if m.startswith('gradtape._src.ops.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    first = {name.rpartition(".")[2] for name in done.stdout.split()}  # what `import gradtape` imports
    load_all()
    declared: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    imported: dict[str, set[str]] = {}
    for path in (PACKAGE / "_src" / "ops").glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
        declared[path.stem] = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        used[path.stem] = {a.attr for a in attributes if isinstance(a.value, ast.Name) and a.value.id == "xp"}
        used[path.stem] &= registry.keys()
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        packages = [node for node in froms if node.module == "gradtape._src.ops"]
        imported[path.stem] = {node.module.rpartition(".")[2] for node in froms if "_src.ops." in node.module}
        imported[path.stem] |= {alias.name for node in packages for alias in node.names}

    def reached(module: str) -> set[str]:
        return {module}.union(*(reached(other) for other in imported.get(module, ())))

    for module, names in used.items():
        found = set().union(*(declared.get(other, ()) for other in first | reached(module)))
        assert not names - found, f"ops.{module} uses primitives of a module that it does not import"


def test_kernels_of_primitives_that_are_declared_later_are_wrapped_too():
    code = """
import gradtape as tf
from gradtape._src.core import observe
from gradtape._src.core.primitive import registry
seen = []
observe.wrap_kernels("test", lambda op, kernel: lambda *args, **attrs: seen.append(op.name) or kernel(*args, **attrs))
assert "erf" not in registry and "tanh" in registry
tf.math.erf(1.0), tf.tanh(1.0)
observe.wrap_kernels("test", None)
tf.math.erf(1.0), tf.tanh(1.0)
assert seen == ["erf", "tanh"], seen
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_primitives_are_unpickled_before_their_module_is_imported():
    code = """
import gradtape as tf, pickle, sys
erf = pickle.loads(bytes.fromhex(sys.argv[1]))
assert erf is tf.math.erf
"""
    subprocess.run([sys.executable, "-c", code, pickle.dumps(tf.math.erf).hex()], check=True, timeout=120)


@pytest.mark.parametrize(
    ("module", "tables"),
    [
        ("gradtape", ["_LAZY_NAMES"]),
        ("gradtape._src.tf.io", ["_LAZY"]),
        ("gradtape._src.tf.linalg", ["_LAZY", "_HOMES"]),
        ("gradtape._src.tf.math", ["_HOMES"]),
        ("gradtape._src.tf.test", ["_LAZY"]),
    ],
)
def test_names_that_are_loaded_later_are_the_ones_that_type_checkers_see(module, tables):
    found = importlib.import_module(module)
    homes = {name: home for table in tables for name, home in vars(found)[table].items() if not home.endswith(":")}
    tree = ast.parse(Path(found.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and node.orelse]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names if alias.asname in homes}
    assert seen == {name: home.partition(":")[0] for name, home in homes.items()}


def importable():
    names = [f"gradtape.{name}".rstrip(".") for name in sorted(modules()) if name != "__main__"]
    if importlib.util.find_spec("keras") is None:
        names = [
            name for name in names if not f"{name}.".startswith(("gradtape.keras.", "gradtape._src.keras_backend."))
        ]
    return names


def test_every_module_can_be_imported_first():
    """No module needs another one to have been imported before it."""
    names = importable()
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-W", "error", "-c", code, *names], check=True, timeout=120)


def test_no_module_takes_a_public_name():
    """Importing every module, as programs do over time, leaves behind every name of TensorFlow's what it is there."""
    names = importable()
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


# -- hooks, and private attributes ----------------------------------------------------------------------------------
STATE = {  # dictionaries of a lower layer in which others enter what they define, and settings
    "arrays.batched.batch_rules[]",
    "arrays.batched.block_diagonal_rules[]",
    "arrays.base.generic_kernels[]",
    "arrays.symbolic.symbolic_rules[]",
    "autodiff.settings.settings.checks_numerics",
    "autodiff.settings.settings.none_policy",
    "calls.calls[]",
    "core.dispatch.by_values[]",
}


class Assignments(ast.NodeVisitor):
    """Every assignment to an attribute or an item of something imported from gradtape: (what, line)."""

    def __init__(self, text):
        self.found, self.imported, self.local = [], {}, [set()]
        self.visit(parsed(text))

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.startswith("gradtape."):
                self.imported[alias.asname or "gradtape"] = alias.name

    def visit_ImportFrom(self, node):
        if node.module.split(".")[0] == "gradtape":
            for alias in node.names:
                self.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def visit_FunctionDef(self, node):
        """Names that a function binds are its own."""
        arguments = [a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        inside = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Global))]
        bound = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        shared = {name for n in inside if isinstance(n, ast.Global) for name in n.names}
        self.local.append(self.local[-1] | set(arguments) | (bound - shared))
        self.generic_visit(node)
        self.local.pop()

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Attribute(self, node):
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self.note(node)
        self.generic_visit(node)

    visit_Subscript = visit_Attribute

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            self.note(node.args[0], ast.unparse(node.args[1]).strip("'\""))
        self.generic_visit(node)

    def note(self, node, attribute=""):
        line, path = node.lineno, [attribute] if attribute else []
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            path.insert(0, node.attr if isinstance(node, ast.Attribute) else "[]")
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.imported and node.id not in self.local[-1]:
            where = self.imported[node.id].removeprefix("gradtape.").removeprefix("_src.")
            self.found.append((".".join([where, *path]).replace(".[]", "[]"), line))


def test_no_module_assigns_attributes_of_another():
    """A layer that needs something of those above it has a function with which they register it."""
    found = {
        (name_of(path).removeprefix("_src."), what)
        for path in files()
        for what, _ in Assignments(path.read_text("utf-8")).found
        if what not in STATE
    }
    assert found == set(), "a hook: give the lower layer a function that registers what it needs"


def test_hooks_would_be_noticed():
    text = (
        "from gradtape._src import conversion\nfrom gradtape._src.tensor import Tensor\n"
        "conversion.place = print\nTensor.gpu = print\nsetattr(Tensor, 'cpu', print)\n"
        "def f(conversion):\n    conversion.place = 1\n    Tensor.table['a'] = 2\n    own.x = conversion.place\n"
    )
    found = [("conversion.place", 3), ("tensor.Tensor.gpu", 4), ("tensor.Tensor.cpu", 5), ("tensor.Tensor.table[]", 8)]
    assert Assignments(text).found == found


@functools.cache
def private_names_of_variables():
    from gradtape._src import variable

    kinds = [kind for kind in vars(variable).values() if isinstance(kind, type)]
    names = {name for kind in kinds for name in (*vars(kind), *getattr(kind, "__annotations__", ()))}
    return {name for name in names if name.startswith("_") and not name.startswith("__") and not name.endswith("_")}


def private_accesses(text):
    """Attributes that are private to variables and their storages, of anything but an object of a class in the file."""
    tree = parsed(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return [(node.attr, node.lineno) for node in nodes if node.attr in private_names_of_variables() - own]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_private_attributes_of_variables(path):
    """Programs borrow and replace the memory of variables through `lend` and `commit`, and nothing else does."""
    if layer_of(name_of(path)) != "variable":
        found = private_accesses(path.read_text("utf-8"))
        assert found == [], f"{path}: private attributes of variables"


def test_private_attributes_would_be_noticed():
    assert {"_buffer", "_aliased", "_home", "_put"} <= private_names_of_variables()
    assert private_accesses("v._buffer = None\nv.storage._aliased") == [("_buffer", 1), ("_aliased", 2)]


# -- the public surface ---------------------------------------------------------------------------------------------
TENSORFLOW = json.loads((Path(__file__).parent / "recorded" / "tensorflow_names.json").read_text("utf-8"))
EXTRAS = {
    "load_ipython_extension",  # `%load_ext gradtape` in a notebook
    "install_as_tensorflow",  # lets `import tensorflow` find gradtape
    "mixed_precision",  # loss scaling for tape loops
}
EXTRAS_OF = {
    "autodiff": {
        "KroneckerFactors",
        "Program",
        "Solution",
        "eigh",
        "fixed_point",
        "implicit",
        "influence",
        "kfac_factors",
        "minimize",
        "odeint",
        "root",
        "soft_rank",
        "soft_sort",
        "soft_top_k",
        "solve_lp",
        "solve_qp",
    },
    "debugging": {"LiveView"},
    "config": {
        "get_engine",
        "get_graph_mode",
        "get_none_policy",
        "graph_mode_report",
        "set_compilation_cache",
        "set_compiler_options",
        "set_engine",
        "set_graph_mode",
        "set_none_policy",
    },
    "errors": {"ConvergenceError", "Error", "InaccessibleTensorError", "NumericsError"},
    "train": {"ConvergenceReport", "LBFGS", "LevenbergMarquardt", "NewtonCG"},
    "nn": {"layer_normalization", "scaled_dot_product_attention"},
}


def public(module):
    return {name for name in dir(module) if not name.startswith("_")}


def test_names_at_the_root_are_tensorflows_or_listed():
    assert public(tf) - set(TENSORFLOW["root"]) - {"testing"} == EXTRAS  # gradtape.testing has to be imported


@pytest.mark.parametrize("name", sorted(public(tf) & set(TENSORFLOW)))
def test_namespaces_have_no_names_of_their_own(name):
    namespace = getattr(tf, name)
    if name == "keras" or namespace.__name__.startswith("keras"):  # whose names are Keras' own
        return
    assert public(namespace) & set(TENSORFLOW[name])
    assert public(namespace) - set(TENSORFLOW[name]) == EXTRAS_OF.get(name, set())


@pytest.mark.parametrize("name", [name for name in TENSORFLOW if name != "root"])
def test_namespaces_share_their_functions_with_the_root(name):
    """tf.math.add is tf.add: an alias is the same object."""
    namespace = getattr(tf, name, None)
    if namespace is None:
        return
    for both in sorted(public(namespace) & public(tf) & set(TENSORFLOW[name]) & set(TENSORFLOW["root"])):
        if both in TENSORFLOW["different"].get(name, ()) or isinstance(getattr(tf, both), ModuleType):
            continue
        assert getattr(namespace, both) is getattr(tf, both), f"tf.{name}.{both} is not tf.{both}"
