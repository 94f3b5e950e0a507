"""Run the tests that ship inside Keras' wheel on one of its backends, area by area, and count.

    python tests/keras_suite/run.py                         all areas on gradtape, against the recorded baseline
    python tests/keras_suite/run.py layers/core losses      some of them
    python tests/keras_suite/run.py --backend numpy --record numpy.json
    python tests/keras_suite/run.py --add-to-baseline numpy.json jax.json

The baseline, `baseline.json.gz`, lists the tests that pass on Keras' own numpy or jax backend; for another version of
Keras, delete it and record both anew. What passes there and fails here must be listed in `exceptions.json` with its
reason; the exit status says whether something is not.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fnmatch
import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import ClassVar

HERE = Path(__file__).parent
BASELINE = HERE / "baseline.json.gz"
EXCEPTIONS = HERE / "exceptions.json"
AS_TENSORFLOW = HERE / "as_tensorflow.json"
"""Functions of Keras' tests that know Keras' own names only, with the reason: see `NamesLoader`."""
AREAS = (
    "activations",
    "backend/common",
    "backend/tests",
    "callbacks",
    "constraints",
    "distillation",
    "dtype_policies",
    "initializers",
    "layers/activations",
    "layers/attention",
    "layers/convolutional",
    "layers/core",
    "layers/merging",
    "layers/normalization",
    "layers/pooling",
    "layers/preprocessing",
    "layers/regularization",
    "layers/reshaping",
    "layers/rnn",
    "layers/layer_test.py",
    "legacy",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "quantizers",
    "random",
    "regularizers",
    "saving",
    "testing",
    "trainers",
    "tree",
    "utils",
    "wrappers",
)
ALONE = (
    "backend/common/dtypes_test.py",
    "backend/common/variables_test.py",
    "ops/core_test.py",
    "ops/image_test.py",
    "ops/math_test.py",
    "ops/nn_test.py",
    "ops/numpy_test.py",
)
"""Files that ask JAX which dtypes to expect: run apart, before another test compiles and so gives JAX 64 bits."""
UNTRAINABLE = ("numpy", "openvino")
SECONDS = 120
"""How long one test may take."""


def keras_folder() -> Path:
    """Where Keras is installed; it is not imported here."""
    spec = importlib.util.find_spec("keras")
    if spec is None or spec.origin is None:
        sys.exit("Keras is not installed: pip install 'gradtape[keras]' pytest absl-py")
    return Path(spec.origin).parent


class TooSlow(Exception):
    """A test took longer than `SECONDS`."""


class Outcomes:
    """A plugin for pytest: what became of every test."""

    def __init__(self, backend: str) -> None:
        self.backend, self.found, self.messages = backend, {}, {}

    def pytest_configure(self, config):
        for name in ("requires_trainable_backend", "multi_device"):
            config.addinivalue_line("markers", f"{name}: Keras' own")

    @property
    def absent(self):
        return next((finder for finder in sys.meta_path if isinstance(finder, AbsentFinder)), None)

    def pytest_collection(self):
        sys.meta_path.append(AbsentFinder())  # the last: what is installed is found before

    def pytest_collection_finish(self):
        if self.absent is not None:
            self.absent.forget()

    def pytest_collection_modifyitems(self, items):
        import pytest

        skipped = pytest.mark.skip(reason="this backend does not train")
        for item in items:
            if self.backend in UNTRAINABLE and "requires_trainable_backend" in item.keywords:
                item.add_marker(skipped)

    def pytest_runtest_setup(self, item):
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(SECONDS)

    def pytest_runtest_teardown(self, item):
        signal.alarm(0)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.partition("keras/src/")[2] or report.nodeid
            if self.found.get(name) != "failed":
                self.found[name] = report.outcome
            if report.outcome == "failed":
                self.messages[name] = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr)[:2000]

    def pytest_collectreport(self, report):
        if report.failed:
            name = report.nodeid.partition("keras/src/")[2] or report.nodeid
            self.found[name], self.messages[name] = "failed", str(report.longrepr)[-2000:]


class Absent(ModuleType):
    """Stands in for a package that is not installed while a test file is imported: a test that uses it is skipped."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __mro_entries__(self, bases):
        return (object,)

    def __instancecheck__(self, instance):
        return False

    def __call__(self, *args, **kwargs):
        import pytest

        pytest.skip(f"needs {self.__name__}", allow_module_level=True)


class AbsentFinder(MetaPathFinder, Loader):
    """Finds packages that Keras' tests import at their top and only some of the tests need."""

    NAMES = ("tensorflow", "torch", "grain", "pandas")

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in self.NAMES else None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass

    def forget(self):
        """Keras itself must not see them: it takes a package that can be imported for one that is installed."""
        sys.meta_path.remove(self)
        for name in [name for name, module in sys.modules.items() if isinstance(module, Absent)]:
            del sys.modules[name]


class NamesLoader(SourceFileLoader):
    """Loads a test file in which some functions say "gradtape" where they said "tensorflow".

    Such tests make their tensors, or take gradients, by an if for each of Keras' own names. What they do then, and what
    they expect, stays as it is written.
    """

    PATTERNS: ClassVar[dict[str, list[str]]] = {}
    """Names of functions, for each module; those of a class as `Class::function`."""

    @classmethod
    def read(cls):
        for pattern in json.loads(AS_TENSORFLOW.read_text("utf-8")):
            path, _, name = pattern.partition("::")
            module = "keras.src." + path.removesuffix(".py").replace("/", ".")
            cls.PATTERNS.setdefault(module, []).append(name)

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname not in cls.PATTERNS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        spec.loader = cls(fullname, spec.origin)
        return spec

    def get_code(self, fullname):
        from gradtape._src.hooks import keras as keras_hook

        tree = ast.parse(self.get_data(self.path), self.path)
        if fullname in keras_hook.CHOICES:
            keras_hook.add_branches(tree, keras_hook.CHOICES[fullname], self.path)
        for name, node in self._named(tree):
            if any(fnmatch.fnmatch(name, pattern) for pattern in self.PATTERNS[fullname]):
                self._rename(node)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def _named(self, tree):
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                yield node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from ((f"{node.name}::{name}", member) for name, member in self._named(node))

    def _rename(self, tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value == "tensorflow":
                node.value = "gradtape"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    alias.name = "gradtape" if alias.name == "tensorflow" else alias.name


def _stop(number, frame):
    raise TooSlow(f"more than {SECONDS} s")


def run_here(backend: str, areas: list[str], options: list[str]) -> Outcomes:
    """Run the tests of some areas in this process, which must not have imported Keras before."""
    os.environ["KERAS_BACKEND"] = backend
    if backend == "gradtape":
        from gradtape._src.hooks import keras as keras_hook  # which lets Keras find the backend

        # A test that chooses by the backend's name, as five modules of Keras do.
        keras_hook.CHOICES["keras.src.trainers.trainer_test"] = (
            "from gradtape._src.keras_backend.trainer import Trainer",
        )
        NamesLoader.read()
        sys.meta_path.insert(0, NamesLoader)
    import keras  # noqa: F401 - before anything stands in for what it looks for
    import pytest

    folder = keras_folder()
    outcomes = Outcomes(backend)
    sys.modules["conftest"] = shared = ModuleType("conftest")  # a file of Keras' repository that its wheel has not
    shared.skip_if_backend = lambda name, reason: pytest.mark.skipif(name == backend, reason=reason)
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as settings:
        settings.write("[pytest]\n")
        settings.flush()
        fixed = ["-c", settings.name, "--rootdir", str(folder.parent), "-p", "no:cacheprovider", "-q", "--no-header"]
        fixed += ["--continue-on-collection-errors", "--assert=plain"]
        fixed += [f"--ignore={folder / 'src' / alone}" for alone in ALONE if alone not in areas]
        files = ["-o", "python_files=*_test.py", *(str(folder / "src" / area) for area in areas)]
        pytest.main([*fixed, *files, *options], plugins=[outcomes])
    return outcomes


def run_apart(
    backend: str, areas: list[str], options: list[str], record: Path | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Run each area, and each file of `ALONE`, in a process of its own; print a line for it, add it to the record."""
    before = json.loads(record.read_text()) if record is not None and record.exists() else {}
    found: dict[str, str] = before.get("found", {})
    messages: dict[str, str] = before.get("messages", {})
    parts = [part for area in areas for part in (*(file for file in ALONE if file.startswith(f"{area}/")), area)]
    for area in parts:
        started = time.time()
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.json"
            command = [sys.executable, __file__, "--backend", backend, "--inside", str(results), area, "--", *options]
            with open(Path(folder) / "log", "w") as log:
                subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
            if results.exists():
                of_area = json.loads(results.read_text())
                found |= of_area["found"]
                messages |= of_area["messages"]
                counts = Counter(of_area["found"].values())
            else:
                counts = Counter(crashed=1)
                messages[area] = found[area] = "crashed"
        if record is not None:
            record.write_text(json.dumps({"found": found, "messages": messages}, indent=0))
        text = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
        print(f"{area:24} {text}  ({time.time() - started:.0f} s)", flush=True)
    return found, messages


def exceptions() -> dict[str, str]:
    """Patterns of tests that are known to fail here, with the reason."""
    return json.loads(EXCEPTIONS.read_text("utf-8")) if EXCEPTIONS.exists() else {}


def known_baseline() -> dict[str, list[str]]:
    """The tests that pass on Keras' own backends, as far as they are recorded."""
    if not BASELINE.exists():
        return {"numpy": [], "jax": []}
    with gzip.open(BASELINE, "rt") as file:
        return json.load(file)


def compare(found: dict[str, str], messages: dict[str, str], asked: list[str]) -> int:
    """Count against the baseline, name what is neither passing nor excused: also what was asked for and never ran."""
    baseline, excused = known_baseline(), exceptions()
    beginnings = tuple(area + end for area in asked for end in ("/", "::"))
    wanted = {name for name in (*baseline["numpy"], *baseline["jax"]) if name in found or name.startswith(beginnings)}
    areas = {name: name.partition("::")[0].rpartition("/")[0] for name in wanted}
    missing: list[str] = []
    total, reasons = Counter(), Counter()
    print(f"\n{'area':32} {'there':>6} {'here':>6} {'share':>7}")
    for area in sorted(set(areas.values())):
        there = sorted(name for name in wanted if areas[name] == area)
        here = [name for name in there if found.get(name) == "passed"]
        total.update(there=len(there), here=len(here))
        print(f"{area:32} {len(there):6} {len(here):6} {len(here) / len(there):7.1%}")
        for name in sorted(set(there).difference(here)):
            reason = next((why for pattern, why in excused.items() if fnmatch.fnmatch(name, pattern)), None)
            if reason is None:
                missing.append(name)
            else:
                reasons[reason] += 1
    if total["there"]:
        print(f"{'all':32} {total['there']:6} {total['here']:6} {total['here'] / total['there']:7.1%}")
    for reason, times in reasons.most_common():
        print(f"{times:6} not here: {reason}")
    for name in missing:
        print(f"{found.get(name, 'not run')}: {name}\n    {messages.get(name, '')[:300]}")
    return len(missing)


def add_to_baseline(results: list[Path]) -> None:
    """Add the names of what passed to the baseline, for each backend: the file's name says which."""
    passed = known_baseline()
    for path in results:
        found = json.loads(path.read_text())["found"]
        new = {name for name, outcome in found.items() if outcome == "passed"}
        passed[path.stem] = sorted(new.union(passed[path.stem]))
    with gzip.GzipFile(BASELINE, "wb", mtime=0) as file:  # the same content gives the same bytes
        file.write(json.dumps(passed, indent=0).encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("areas", nargs="*", help="folders or files below keras/src; all areas if none is named")
    parser.add_argument("--backend", default="gradtape")
    parser.add_argument("--record", type=Path, help="add every outcome to this file, and compare nothing")
    parser.add_argument("--add-to-baseline", type=Path, nargs="+", help="recorded outcomes, numpy.json and jax.json")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given, options = sys.argv[1:], []
    if "--" in given:
        given, options = given[: given.index("--")], given[given.index("--") + 1 :]
    arguments = parser.parse_args(given)
    if arguments.add_to_baseline:
        add_to_baseline(arguments.add_to_baseline)
        return 0
    areas = arguments.areas or list(AREAS)
    if arguments.inside:
        outcomes = run_here(arguments.backend, areas, options)
        arguments.inside.write_text(json.dumps({"found": outcomes.found, "messages": outcomes.messages}))
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        found, messages = run_apart(arguments.backend, areas, options, arguments.record)
        asked = [] if options else areas  # options of pytest may leave tests out
        return 0 if arguments.record or not compare(found, messages, asked) else 1
    return 130


if __name__ == "__main__":
    sys.exit(main())
