"""`gradtape check`: find the names of TensorFlow that a code base uses, and which of them gradtape has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gradtape._src.cli import UsageError
from gradtape._src.cli.arguments import Parser
from gradtape._src.cli.names import MISSING, NOTE, SUPPORTED, judge
from gradtape._src.cli.scan import Trouble, Use, read_notebook, read_source
from gradtape._src.cli.terminal import Printer
from gradtape._src.progress import Progress
from gradtape._src.version import __version__

__all__ = ["CheckReport", "check", "main"]

DESCRIPTION = """\
Lists every tensorflow name that Python files and notebooks use, and whether gradtape supports it,
supports it with a note, or lacks it. The code is read, never imported or run. Methods of tensors
and other values (x.numpy()) are not checked. Of a SavedModel it lists signatures, variables, files
and ops, and which ops gradtape lacks."""
EPILOG = """\
exit code: 0 if nothing is missing, 1 if something is, 2 for an error on the command line.
Files that cannot be read are listed and counted; they do not change the exit code.

examples:
  gradtape check train.py                   one script
  gradtape check src notebooks              folders, with all that is in them
  gradtape check . --only missing           what stands in the way, and where
  gradtape check . --only missing --places  ... every single place
  gradtape check . --json > names.json      for other programs
  gradtape check exported/model             what a SavedModel needs
"""

_ORDER = (SUPPORTED, NOTE, MISSING)
_COLOURS = {SUPPORTED: "green", NOTE: "yellow", MISSING: "red"}
_SKIPPED = frozenset(("__pycache__", "node_modules", "site-packages"))
_SUFFIXES = (".py", ".ipynb")
MODEL_FILE = "saved_model.pb"


class Place(NamedTuple):
    """A place where a name is used."""

    file: str
    line: int | None
    cell: int | None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return f"{self.file}{line}" if self.cell is None else f"{self.file}[{self.cell}]{line}"


@dataclass
class NameEntry:
    """A name with a verdict, and the places where it is used like that."""

    name: str
    status: str
    why: str
    places: list[Place] = field(default_factory=list)


@dataclass
class CheckReport:
    """The names that were found in a code base."""

    files: int
    entries: list[NameEntry]
    unreadable: list[tuple[Place, str]]

    def of(self, status: str) -> list[NameEntry]:
        """The entries with a status; a name with a note, or missing in one place, is not listed as supported."""
        noted = {entry.name for entry in self.entries if entry.status != SUPPORTED}
        return [e for e in self.entries if e.status == status and (status != SUPPORTED or e.name not in noted)]

    def count(self, status: str) -> int:
        """The number of names with this status."""
        return len({entry.name for entry in self.of(status)})


def check(paths: list[str]) -> CheckReport:
    """Look at files and folders.

    >>> report = check([__file__])
    >>> report.files, report.entries
    (1, [])
    """
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    entries: dict[tuple[str, str, str], NameEntry] = {}
    unreadable: list[tuple[Place, str]] = []
    with Progress(len(files)) as progress:
        for file in files:
            progress.say(file)
            uses, troubles = _read(file)
            for use in uses:
                status, why = (NOTE, use.note) if use.note else judge(use.name, use.call)
                entry = entries.setdefault((use.name, status, why), NameEntry(use.name, status, why))
                place = Place(file, use.line, use.cell)
                if place not in entry.places[-1:]:
                    entry.places.append(place)
            unreadable += [(Place(file, trouble.line, trouble.cell), trouble.why) for trouble in troubles]
            progress.step(file)
    ordered = sorted(entries.values(), key=lambda entry: (_ORDER.index(entry.status), entry.name.lower(), entry.why))
    return CheckReport(len(files), ordered, unreadable)


def _files(path: str) -> Iterator[str]:
    """The files of a path: itself, or all Python files and notebooks of a folder, except in environments."""
    if os.path.isfile(path):
        yield os.path.normpath(path)
        return
    if not os.path.isdir(path):
        raise UsageError(f"no such file or directory: {path!r}; try `gradtape check --help`")
    for folder, folders, names in os.walk(path):
        if folder != path and "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        yield from (os.path.normpath(os.path.join(folder, name)) for name in sorted(names) if name.endswith(_SUFFIXES))


def _read(file: str) -> tuple[list[Use], list[Trouble]]:
    try:
        source = Path(file).read_bytes()
    except OSError as error:
        return [], [Trouble(error.strerror or str(error))]
    return read_notebook(source) if file.endswith(".ipynb") else read_source(source)


# -- output ------------------------------------------------------------------------------------------------------------
def _as_json(report: CheckReport, shown: tuple[str, ...]) -> dict[str, Any]:
    return {
        "gradtape": __version__,
        "files": report.files,
        "counts": {status: report.count(status) for status in _ORDER},
        "names": [
            {
                "name": entry.name,
                "status": entry.status,
                "why": entry.why,
                "places": [place._asdict() for place in entry.places],
            }
            for entry in report.entries
            if entry.status in shown
        ],
        "unreadable": [{**place._asdict(), "why": why} for place, why in report.unreadable],
    }


def _show(report: CheckReport, shown: tuple[str, ...], every_place: bool, printer: Printer) -> None:
    for status in shown:
        entries = report.of(status)
        if not entries:
            continue
        printer.line(
            f"{'with a note' if status == NOTE else status} ({report.count(status)})", "bold", _COLOURS[status]
        )
        rows = [row for entry in entries for row in _rows(entry, every_place)]
        if printer.has_room(rows):
            printer.table(rows, ("", "cyan", "dim"))
        else:  # too narrow for three columns: use a heading for each reason
            for why in dict.fromkeys(entry.why for entry in entries):
                if why:
                    printer.paragraph(why, indent="  ")
                members = [[*row[:2], ""] for e in entries if e.why == why for row in _rows(e, every_place)]
                printer.table(members, ("", "cyan"), indent="    " if why else "  ")
        printer.line()
    if report.unreadable:
        printer.line(f"not readable ({len(report.unreadable)})", "bold", "red")
        printer.table([[str(place), why] for place, why in report.unreadable], ("cyan", ""))
        printer.line()
    printer.paragraph(_sum(report))


def _rows(entry: NameEntry, every_place: bool) -> Iterator[list[str]]:
    first, more = entry.places[0], len(entry.places) - 1
    yield [entry.name, f"{first} +{more}" if more and not every_place else str(first), entry.why]
    if every_place:
        yield from (["", str(place), ""] for place in entry.places[1:])


def _sum(report: CheckReport) -> str:
    parts = [f"{report.count(SUPPORTED)} supported", f"{report.count(NOTE)} with a note"]
    parts.append(f"{report.count(MISSING)} missing")
    if report.unreadable:
        parts.append(f"{len(report.unreadable)} not readable")
    total = len({entry.name for entry in report.entries})
    return f"{_plural(total, 'tensorflow name')} in {_plural(report.files, 'file')}: {', '.join(parts)}."


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    parser = Parser("check", DESCRIPTION, EPILOG)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, a notebook (.ipynb) or a directory")
    parser.add_argument("--only", choices=_ORDER, action="append", help="show only these names (can be repeated)")
    parser.add_argument("--places", action="store_true", help="show every place instead of the first one and a count")
    parser.add_argument("--json", action="store_true", help="print JSON, with every place")
    options = parser.parse_args(arguments)

    models = [path for path in options.paths if os.path.isfile(os.path.join(path, MODEL_FILE))]
    if models and len(models) < len(options.paths):
        parser.error("check SavedModels and code separately")
    if models:
        from gradtape._src.cli.check_model import check_models  # imports what reads and runs graphs

        return check_models(models, options.json, Printer())
    shown = tuple(status for status in _ORDER if not options.only or status in options.only)
    report = check(options.paths)
    if options.json:
        print(json.dumps(_as_json(report, shown), indent=2))
    else:
        _show(report, shown, options.places, Printer())
    return 1 if report.count(MISSING) else 0
