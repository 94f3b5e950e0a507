"""Run the tests of libraries that are written for TensorFlow on gradtape, and record how many pass.

    python tools/libraries.py                          # every library, on the gradtape of this Python
    python tools/libraries.py eagerpy dm-sonnet        # some
    python tools/libraries.py --tensorflow PYTHON      # the same tests on the TensorFlow of that Python
    python tools/libraries.py --page                   # write docs/libraries.md from what is recorded

Each library is installed by pip into an environment of its own, outside of this repository (`--folder`). It sees the
packages of the Python that runs this script, or of the one with TensorFlow; nothing is installed into either.
TensorFlow and gradtape are never in one environment. Libraries whose distributions have tests run those; the others
run the programs in `tools/library_programs`. TensorFlow's result decides which tests count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "data" / "libraries.json"
PAGE = ROOT / "docs" / "libraries.md"
PROGRAMS = Path(__file__).parent / "library_programs"


@dataclass(frozen=True)
class Library:
    """A library: how it is installed, and where its tests are.

    name     on PyPI, with the version that is tested
    needs    what else to install, with its own dependencies
    alone    what to install without dependencies, because TensorFlow is one of them
    theirs   the same, for the environment with TensorFlow only
    without  packages of this Python that the library must not see, because it takes older versions of them
    tests    files and folders of its distribution, or () for the program in `library_programs`
    origin   the distribution that has the tests: "wheel" or "sdist", or the name of another project's
    options  arguments of pytest
    every    run every n-th test only, where there are thousands
    settings environment variables
    """

    name: str
    version: str
    needs: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    origin: str = "wheel"
    options: tuple[str, ...] = ()
    every: int = 1
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def own_tests(self) -> bool:
        """Whether its own tests run, and not a program of this repository."""
        return bool(self.tests)


def _library(name: str, version: str, **facts: Any) -> Library:
    return Library(name, version, **facts)


_PROBABILITY_NEEDS = (
    "absl-py",
    "six",
    "decorator",
    "cloudpickle",
    "gast",
    "dm-tree",
    "numpy<2.4",
)  # 2.4 has no newshape

LIBRARIES = {
    library.name: library
    for library in (
        _library("eagerpy", "0.30.0"),
        _library("foolbox", "3.3.4", needs=("eagerpy==0.30.0", "GitPython", "requests", "scipy")),
        _library(
            "tf-keras-vis",
            "0.8.7",
            needs=("deprecated", "imageio", "pillow", "scipy"),
            tests=("tests/tf_keras_vis",),
            every=199,
        ),
        _library(
            "tensornetwork",
            "0.4.6",
            needs=("graphviz", "opt-einsum", "h5py", "scipy"),
            tests=("tensornetwork/backends/tensorflow", "tensornetwork/tn_keras"),
        ),
        _library("tf-explain", "0.3.1", needs=("opencv-python-headless", "pytest-mock"), tests=("tests",)),
        _library("scikeras", "0.13.0", needs=("scikit-learn",)),
        _library("shap", "0.49.1", needs=("shap==0.49.1",)),
        _library("cleverhans", "4.0.0", needs=("easydict",)),
        _library(
            "adversarial-robustness-toolbox",
            "1.20.1",
            needs=("scikit-learn", "tqdm", "six", "requests", "pandas"),
            origin="sdist",
        ),
        _library("tensorcircuit-ng", "1.10.0", needs=("tensornetwork-ng", "networkx", "sympy", "scipy")),
        _library(
            "tensorly",
            "0.10.0",
            needs=("scipy",),
            tests=("tensorly",),
            settings={"TENSORLY_BACKEND": "tensorflow"},
        ),
        _library(
            "dm-sonnet",
            "2.0.2",
            needs=("dm-tree", "tabulate", "wrapt<2", "absl-py"),
            tests=("sonnet",),
            every=7,
        ),
        _library(
            "pennylane",
            "0.42.3",
            needs=(
                "networkx",
                "rustworkx",
                "autograd",
                "appdirs",
                "autoray==0.7.2",
                "cachetools",
                "requests",
                "scipy",
                "tomlkit",
                "diastatic-malt",
                "gast",
                "pytest-mock",
                "flaky",
                "pytest-xdist",
                "pytest-rng",
            ),
            alone=("pennylane-lightning==0.42.0",),
            without=("jax",),
            every=25,
            tests=(
                "tests/workflow/interfaces/execute/test_tensorflow.py",
                "tests/workflow/interfaces/qnode/test_tensorflow_autograph_qnode_shot_vector.py",
                "tests/workflow/interfaces/qnode/test_tensorflow_qnode.py",
                "tests/workflow/interfaces/qnode/test_tensorflow_qnode_shot_vector.py",
                "tests/workflow/interfaces/run",
            ),
        ),
        _library(
            "tensorflow-probability",
            "0.25.0",
            needs=(*_PROBABILITY_NEEDS, "scipy"),
            theirs=("tf-keras==2.21.0",),
        ),
        _library(
            "deepxde",
            "1.15.0",
            needs=("scikit-learn", "scikit-optimize", "scipy", "matplotlib", *_PROBABILITY_NEEDS),
            alone=("tensorflow-probability==0.25.0",),
            theirs=("tf-keras==2.21.0",),
        ),
        _library(
            "gpflow",
            "2.11.2",
            needs=("check_shapes", "deprecated", "lark", "multipledispatch", "scipy", "tabulate", *_PROBABILITY_NEEDS),
            alone=("tensorflow-probability==0.25.0",),
            theirs=("tf-keras==2.21.0",),
        ),
        _library("keras-tuner", "1.4.8", needs=("kt-legacy", "six", "grpcio", "protobuf", "requests", "scikit-learn")),
        _library("keras-rs", "0.4.0"),
        _library("keras-hub", "0.32.0", needs=("regex", "kagglehub", "sentencepiece", "tokenizers")),
        _library(
            "bayesflow",
            "2.0.12",
            needs=("matplotlib", "networkx", "pandas", "scipy", "seaborn", "tqdm"),
        ),
        _library(
            "spektral", "1.3.1", needs=("joblib", "lxml", "networkx", "pandas", "requests", "scikit-learn", "tqdm")
        ),
        _library(
            "pymanopt",
            "2.2.1",
            needs=("scipy", "autograd"),
            tests=("tests/backends/test_tensorflow.py",),
            origin="sdist",
            options=("--noconftest",),
        ),
        _library(
            "einops",
            "0.8.2",
            tests=("einops/tests",),
            origin="sdist",
            settings={"EINOPS_TEST_BACKENDS": "numpy,tensorflow"},
        ),
    )
}


# -- environments ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Side:
    """Where tests run: on gradtape or on TensorFlow, with the packages of a Python that has it."""

    name: str
    python: str

    @property
    def command(self) -> list[str]:
        """What runs pytest there."""
        return ["-m", "gradtape", "run", "-m", "pytest"] if self.name == "gradtape" else ["-m", "pytest"]


def _environment(library: Library, side: Side, folder: Path) -> Path:
    """The Python of a library's environment; what is missing there is installed."""
    place = folder / side.name / library.name
    python = place / "bin" / "python"
    done = place / "installed.json"
    theirs = library.theirs if side.name == "tensorflow" else ()
    wanted = [library.name, library.version, *library.needs, *library.alone, *theirs, *library.without]
    if done.exists() and json.loads(done.read_text()) == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=False, symlinks=True)
    base = _output(side.python, "-c", "import site; print(site.getsitepackages()[0])")
    own = _output(str(python), "-c", "import site; print(site.getsitepackages()[0])")
    seen = _selection(Path(base), place / "base", library.without) if library.without else base
    Path(own, "base.pth").write_text(f"import site; site.addsitedir({str(seen)!r})\n")
    needs = ["pytest", *library.needs]
    _pip(python, *needs)
    _pip(python, "--no-deps", f"{library.name}=={library.version}", *library.alone, *theirs)
    if side.name == "gradtape" and _output(str(python), "-c", _FIND_TENSORFLOW):
        raise SystemExit(f"{library.name}: pip has installed TensorFlow beside gradtape; list it in `alone`")
    done.write_text(json.dumps(wanted))
    return python


def _selection(packages: Path, place: Path, without: tuple[str, ...]) -> Path:
    """A folder of links to all packages but some."""
    place.mkdir()
    for entry in packages.iterdir():
        if not entry.name.startswith(without):
            (place / entry.name).symlink_to(entry)
    return place


_FIND_TENSORFLOW = """
import importlib.metadata as m
names = {d.metadata["Name"] or "" for d in m.distributions()}
print(*sorted(n for n in names if n.lower() in ("tensorflow", "tensorflow-cpu", "tensorflow_cpu")))
"""


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--quiet", *arguments], check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _sources(library: Library, folder: Path) -> Path:
    """The unpacked distribution that has the tests."""
    place = folder / "sources" / f"{library.name}-{library.version}"
    if not place.exists():
        download = folder / "downloads" / library.name
        kind = ["--no-binary", ":all:"] if library.origin == "sdist" else ["--only-binary", ":all:"]
        what = f"{library.name}=={library.version}"
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind, "-d", download, what], check=True
        )
        (archive,) = download.iterdir()
        place.mkdir(parents=True)
        if archive.suffix == ".whl":
            zipfile.ZipFile(archive).extractall(place)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")
            (inner,) = place.iterdir()
            for part in inner.iterdir():
                part.rename(place / part.name)
    return place


# -- running -----------------------------------------------------------------------------------------------------------
def run(library: Library, side: Side, folder: Path, timeout: int) -> dict[str, str]:
    """What became of each test: "passed", "failed", "skipped"."""
    python = _environment(library, side, folder)
    if library.own_tests:
        start = _sources(library, folder)
        paths = [str(start / path) for path in library.tests]
    else:
        start = folder
        paths = [str(PROGRAMS / f"test_{library.name.replace('-', '_')}.py")]
    report = folder / side.name / f"{library.name}.xml"
    report.unlink(missing_ok=True)
    options = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", "--tb=short", f"--junitxml={report}"]
    settings_file = folder / "pytest.ini"
    settings_file.write_text("[pytest]\n")  # neither this repository's settings nor those of a library
    (folder / "library_sample.py").write_text(_SAMPLE)
    options += ["-c", str(settings_file), f"--rootdir={start}", "-p", "library_sample", *library.options]
    settings = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", **library.settings}
    settings["LIBRARY_SAMPLE"] = str(library.every)
    settings["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    log = folder / side.name / f"{library.name}.log"
    with log.open("w") as stream:
        command = [str(python), *side.command, *options, *paths]
        environment = {**os.environ, **settings}
        subprocess.run(command, cwd=start, env=environment, stdout=stream, stderr=stream, timeout=timeout, check=False)
    if not report.exists():
        return {"collection": "failed"}
    return _outcomes(report)


_SAMPLE = """
import os


def pytest_collection_modifyitems(items):
    items[:] = items[:: int(os.environ["LIBRARY_SAMPLE"])]
"""


def _outcomes(report: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag for child in case}
        bad = kinds & {"failure", "error"}
        outcome = "failed" if bad else "skipped" if "skipped" in kinds else "passed"
        if found.get(name) != "failed":
            found[name] = outcome
    return found


# -- recording ---------------------------------------------------------------------------------------------------------
def record(library: Library, side: Side, outcomes: dict[str, str], folder: Path) -> dict[str, Any]:
    """Keep the outcomes, and write the counts beside those of the other side into the record."""
    (folder / side.name / f"{library.name}.json").write_text(json.dumps(outcomes, indent=0, sort_keys=True))
    sides = {}
    for name in ("gradtape", "tensorflow"):
        kept = folder / name / f"{library.name}.json"
        sides[name] = json.loads(kept.read_text()) if kept.exists() else None
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    entry = records[library.name] = _counts(library, sides["gradtape"], sides["tensorflow"])
    RECORD.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n")
    return entry


def _kind(library: Library) -> str:
    if not library.own_tests:
        return "programs"
    return "its own" if library.every == 1 else f"1 in {library.every} of its own"


def _counts(library: Library, ours: dict[str, str] | None, theirs: dict[str, str] | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"version": library.version, "tests": _kind(library)}
    if ours is not None:
        entry["passed"] = sum(outcome == "passed" for outcome in ours.values())
        entry["failed"] = sum(outcome == "failed" for outcome in ours.values())
    if theirs is not None:
        passing = {name for name, outcome in theirs.items() if outcome == "passed"}
        entry["pass_on_tensorflow"] = len(passing)
        if ours is not None:
            entry["of_these"] = sum(ours.get(name) == "passed" for name in passing)
            entry["differ"] = sorted(name for name in passing if ours.get(name) != "passed")[:40]
    return entry


# -- the page ----------------------------------------------------------------------------------------------------------
_HEAD = """# Libraries

Libraries that are written for TensorFlow run on gradtape, unchanged. `tools/libraries.py` installs each of them, runs
the tests that its distribution has, or else the programs in `tools/library_programs`, on gradtape and on TensorFlow,
and writes this page.

| library | tests | pass on TensorFlow | of these on gradtape | |
|---|---|---|---|---|
"""

_FOOT = """
`gradtape run -m pytest tests` runs the test suite of any other library on gradtape.
"""


def page() -> str:
    """The page that shows what is recorded."""
    records = json.loads(RECORD.read_text())
    reasons = json.loads((ROOT / "docs" / "data" / "library_reasons.json").read_text())
    rows = []
    for name, entry in records.items():
        count, total = entry.get("of_these", entry.get("passed")), entry.get("pass_on_tensorflow", "")
        rows.append(f"| {name} {entry['version']} | {entry['tests']} | {total} | {count} | {reasons.get(name, '')} |\n")
    return _HEAD + "".join(rows) + _FOOT


def main(arguments: list[str]) -> int:
    """The command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="LIBRARY", help=f"{', '.join(LIBRARIES)}")
    parser.add_argument("--tensorflow", metavar="PYTHON", help="run on the TensorFlow of this Python")
    default = Path(os.environ.get("GRADTAPE_LIBRARIES", Path.home() / ".cache" / "gradtape-libraries"))
    parser.add_argument("--folder", type=Path, default=default, help="where environments are (%(default)s)")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds for the tests of one library")
    parser.add_argument("--page", action="store_true", help="write docs/libraries.md")
    options = parser.parse_args(arguments)
    if options.page:
        PAGE.write_text(page())
        return 0
    side = Side("tensorflow", options.tensorflow) if options.tensorflow else Side("gradtape", sys.executable)
    folder = options.folder.resolve()
    unknown = [name for name in options.names if name not in LIBRARIES]
    if unknown:
        parser.error(f"no such library: {', '.join(unknown)}")
    for name in options.names or LIBRARIES:
        library = LIBRARIES[name]
        try:
            outcomes = run(library, side, folder, options.timeout)
        except subprocess.TimeoutExpired:
            outcomes = {"timeout": "failed"}
        entry = record(library, side, outcomes, folder)
        print(name, {key: value for key, value in entry.items() if key != "differ"}, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
