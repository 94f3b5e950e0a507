"""`gradtape bench`, and how the commands print: bars, tables, colours, progress."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradtape._src.cli import UsageError, bench
from gradtape._src.cli.main import main
from gradtape._src.cli.terminal import Printer, shorten
from gradtape._src.progress import Progress

QUICK = ["--rounds", "1", "--seconds", "0.01"]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Pipe(io.StringIO):
    encoding = "ascii"


@pytest.fixture(autouse=True)
def _no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("BENCH_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)


# -- bench -------------------------------------------------------------------------------------------------------------
def test_a_workload_with_bars(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "chain", "--only", "gradtape,numpy", *QUICK]) == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.endswith(("ms", " x"))]
    assert {row.split()[0] for row in rows} == {"gradtape", "numpy"}
    assert all("█" in row or "▏" in row for row in rows)
    assert "budgets: " in out


def test_json_is_all_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "hess", "import", "--only", "gradtape", "--json", *QUICK]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["times"]["hess"]["gradtape"] > 0
    assert found["import_seconds"] > 0
    assert {"gradtape", "numpy"} <= set(found["versions"])
    assert found["budgets"][-1]["what"] == "import gradtape"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swim"], "no workload 'swim'; choose from chain, "),
        (["--rounds", "0"], "'0' is not a positive number"),
        (["--rounds", "1.5"], "'1.5' is not a positive number"),
        (["--seconds", "nan"], "'nan' is not a positive number"),
        (["hess", "--only", "gradtape,abacus"], "cannot measure abacus"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_help_lists_the_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    for piece in ("mlp512", "gradtape bench chain mlp32", "BENCH_PEERS"):
        assert piece in out


def test_the_working_copy_comes_before_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "src" / "gradtape" / "_src" / "cli"
    monkeypatch.setattr(bench, "__file__", str(here / "bench.py"))
    with pytest.raises(UsageError, match="not part of this installation"):
        bench.folder()
    for place in (here / "packed", tmp_path):
        (place / "benchmarks").mkdir(parents=True)
        (place / "benchmarks" / "race.py").touch()
        assert bench.folder() == place


def test_another_package_of_that_name_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit('the wrong benchmarks')")
    command = [sys.executable, "-m", "gradtape", "bench", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def bars(times: dict[str, float], **how: Any) -> list[str]:
    printer = Printer(io.StringIO(), **{"width": 80, **how})
    bench._bars("chain", "many small ops", times, printer)
    return printer.stream.getvalue().splitlines()


def test_bars_are_in_proportion() -> None:
    _, head, *rows = bars({"torch": 4e-3, "gradtape": 2e-3, "numpy": 1e-3})
    assert head == "chain  many small ops"
    assert [row.split()[0] for row in rows] == ["numpy", "gradtape", "torch"]
    short, middle, long = (row.count("█") for row in rows)
    assert abs(long - 2 * middle) <= 2
    assert abs(middle - 2 * short) <= 2
    assert short > 5
    assert rows[2].split()[-4:] == ["4", "ms", "2", "x"]
    assert rows[1].endswith("2 ms")


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_bars_fit(width: int) -> None:
    rows = bars({"tensorflow.function": 12.3456, "gradtape": 1.1e-5, "numpy": 0.00123}, width=width)
    assert max(map(len, rows)) <= max(width, 53)


def test_nothing_could_be_measured() -> None:
    assert bars({})[-1] == "  no library could run it"


# -- printing ----------------------------------------------------------------------------------------------------------
def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Printer(Terminal()).style("x", "red") == "\033[31mx\033[0m"
    assert Printer(Pipe()).style("x", "red") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Printer(Terminal()).style("x", "red") == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert Printer(Terminal()).style("x", "red") == "x"


def test_a_pipe_has_whole_lines() -> None:
    printer = Printer(Pipe())
    printer.table([["a" * 300, "b", "word " * 100]])
    assert printer.stream.getvalue().count("\n") == 1  # type: ignore[attr-defined]


def test_a_pipe_without_block_characters() -> None:
    assert Printer(Pipe(), width=80).bar(0.5, 8) == "####    "


@pytest.mark.parametrize("width", [40, 60, 80, 140])
@pytest.mark.parametrize("colour", [False, True])
def test_tables_fit(width: int, colour: bool) -> None:
    printer = Printer(io.StringIO(), width=width, colour=colour)
    rows = [["tf.a", "b.py:1", ""], ["tf." + "long." * 8, "folder/" * 6 + "c.py:1 +3", "why it is so " * 6]]
    printer.table(rows, ("", "cyan", "dim"))
    plain = printer.stream.getvalue().replace("\033[36m", "").replace("\033[2m", "").replace("\033[0m", "")
    assert max(map(len, plain.splitlines())) <= width
    assert (plain != printer.stream.getvalue()) is colour


def test_styled_cells_stay_in_line() -> None:
    printer = Printer(io.StringIO(), width=80, colour=True)
    printer.table([["a", printer.style("ok", "green"), "x"], ["b", printer.style("wrong", "red"), "y"]])
    first, second = (
        printer.stream.getvalue().replace("\033[32m", "").replace("\033[31m", "").replace("\033[0m", "").splitlines()
    )
    assert first.index("x") == second.index("y")


def test_shorten_keeps_the_end() -> None:
    assert shorten("short", 10) == "short"
    assert shorten("a/long/path.py:12", 10) == "...h.py:12"
    assert shorten("abcdef", 3) == "def"


# -- progress ----------------------------------------------------------------------------------------------------------
def test_progress_is_silent_in_a_pipe() -> None:
    pipe = Pipe()
    with Progress(2, pipe, patience=0) as progress:
        progress.step("one")
        progress.step("two")
    assert pipe.getvalue() == ""


def test_progress_draws_and_goes_away() -> None:
    terminal = Terminal()
    with Progress(2, terminal, patience=0) as progress:
        progress.step("one")
    assert " 1/2 " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")


def test_quick_work_has_no_bar() -> None:
    terminal = Terminal()
    with Progress(2, terminal) as progress:
        progress.step("one")
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("width", [0, 5, 20, 40, 80])
def test_progress_fits(width: int) -> None:
    progress = Progress(100, Terminal(), patience=0)
    progress.step("a note that is far too long for any of these terminals, to be sure", count=250)
    assert len(progress.text(width)) <= width
    assert progress.done == 100
