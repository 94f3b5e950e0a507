"""Run the tests of libraries that are written for TensorFlow on gradtape, and record how many pass.

    python tools/libraries.py                          # every library, on the gradtape of this Python
    python tools/libraries.py eagerpy dm-sonnet        # some
    python tools/libraries.py --tensorflow PYTHON      # the same tests on the TensorFlow of that Python
    python tools/libraries.py --page                   # write docs/libraries.md from what is recorded

Each library is installed by pip into an environment of its own, outside of this repository (`--folder`). It sees the
packages of the Python that runs this script, or of the one with TensorFlow; nothing is installed into either.
TensorFlow and gradtape are never in one environment. A library runs its own tests, where its distribution or its
repository has them, and the program in `tools/library_programs`, where there is one. TensorFlow's result decides which
tests count.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from library_list import LIBRARIES, Library

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "data" / "libraries.json"
PAGE = ROOT / "docs" / "libraries.md"


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
    needs = ["pytest", "pytest-timeout", *library.needs]
    wanted = [library.name, library.version, *needs, *library.alone, *theirs, *library.without]
    if done.exists() and json.loads(done.read_text()) == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=False, symlinks=True)
    base = _output(side.python, "-c", "import site; print(site.getsitepackages()[0])")
    own = _output(str(python), "-c", "import site; print(site.getsitepackages()[0])")
    seen = _selection(Path(base), place / "base", library.without) if library.without else base
    Path(own, "base.pth").write_text(f"import site; site.addsitedir({str(seen)!r})\n")
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
    """The folder that has the tests: an unpacked distribution, or a checkout of the repository."""
    place = folder / "sources" / f"{library.name}-{library.version}"
    if not place.exists():
        partial = place.with_name(f"{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        if "@" in library.origin:
            _check_out(library.origin, partial)
        else:
            _unpack(library, folder, partial)
        for path in library.removed:
            shutil.rmtree(partial / path)
        partial.rename(place)
    return place


def _check_out(origin: str, place: Path) -> None:
    repository, revision = origin.split("@")
    url = f"https://github.com/{repository}"
    for command in (["init", "--quiet"], ["fetch", "--quiet", "--depth=1", url, revision]):
        subprocess.run(["git", *command], cwd=place, check=True)
    subprocess.run(["git", "checkout", "--quiet", "FETCH_HEAD"], cwd=place, check=True)


def _unpack(library: Library, folder: Path, place: Path) -> None:
    download = folder / "downloads" / library.name
    kind = ["--no-binary", ":all:"] if library.origin == "sdist" else ["--only-binary", ":all:"]
    what = f"{library.name}=={library.version}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind, "-d", download, what]
    subprocess.run(pip, check=True)
    (archive,) = download.iterdir()
    if archive.suffix == ".whl":
        zipfile.ZipFile(archive).extractall(place)
        return
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    (inner,) = place.iterdir()
    for part in inner.iterdir():
        part.rename(place / part.name)


# -- running -----------------------------------------------------------------------------------------------------------
def run(library: Library, side: Side, folder: Path, timeout: int) -> dict[str, str]:
    """What became of each test: "passed", "failed", "skipped"."""
    python = _environment(library, side, folder)
    outcomes: dict[str, str] = {}
    if library.tests:
        start = _sources(library, folder)
        paths = [start / path for path in library.tests]
        options = [f"--rootdir={start}", f"--confcutdir={start}", *library.options]
        settings = {**library.settings, "LIBRARY_SAMPLE": str(library.every)}
        outcomes |= _run_pytest(library.name, side, python, start, [*options, *map(str, paths)], settings, timeout)
    if library.program.exists():
        start = folder / "programs"  # a copy, outside of this repository and its conftest.py
        start.mkdir(exist_ok=True)
        program = shutil.copy(library.program, start)
        options = [f"--rootdir={start}", f"--confcutdir={start}"]
        outcomes |= _run_pytest(
            f"{library.name}-program", side, python, start, [*options, str(program)], library.settings, timeout
        )
    return outcomes


def _run_pytest(
    name: str, side: Side, python: Path, start: Path, options: list[str], settings: dict[str, str], timeout: int
) -> dict[str, str]:
    """The outcomes of one run of pytest, which starts in the folder `start`."""
    folder = python.parents[3]
    report = folder / side.name / f"{name}.xml"
    report.unlink(missing_ok=True)
    settings_file = folder / "pytest.ini"
    settings_file.write_text("[pytest]\n")  # neither this repository's settings nor those of a library
    (folder / "library_sample.py").write_text(_SAMPLE)
    always = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", "--tb=short", f"--junitxml={report}"]
    always += ["-c", str(settings_file), "-p", "library_sample", f"--timeout={_ONE_TEST}"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"}
    environment |= {"LIBRARY_SAMPLE": "1", **settings}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (folder / side.name / f"{name}.log").open("w") as log:
        command = [str(python), *side.command, *always, *options]
        subprocess.run(command, cwd=start, env=environment, stdout=log, stderr=log, timeout=timeout, check=False)
    if not report.exists():
        return {f"{name}::collection": "failed"}
    return _outcomes(report)


_ONE_TEST = 600  # seconds

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
    own = library.part or "its own"
    own = own if library.every == 1 else f"1 in {library.every} of {own}"
    if not library.program.exists():
        return own
    return f"{own}, programs" if library.tests else "programs"


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
its own tests, the programs in `tools/library_programs`, or both, on gradtape and on TensorFlow, and writes this page.

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
