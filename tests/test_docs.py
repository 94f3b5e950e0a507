"""Every Python block of the README and of docs/ runs, and gives what the page says.

Blocks of one page share a namespace, in order, and each page runs in a process of its own: some declare primitives.

    tf.abs(-2.0).numpy()  # -> 2.0          the value, as Python shows it, or what a print prints

Blocks in the form of a Python session are run by doctest.

A block that cannot run has the reason in a comment before it: <!-- not run: why -->
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.util
import io
import linecache
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a page uses, and may not be installed.
NEEDS = dict.fromkeys(("checkpoints.md", "distributed-training.md", "keras.md", "text.md"), "keras")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*$", re.DOTALL)
_EXPECTED = re.compile(r"# -> (.*)$")


class Block(NamedTuple):
    line: int
    source: str


class WrongExample(AssertionError):
    """What an example gives is not what the page says."""


def blocks(text: str) -> Iterator[Block]:
    """The Python blocks of a page that are to be run, with the number of the line before each."""
    for fence in _FENCE.finditer(text):
        indent, language, source = fence.groups()
        if language in ("python", "py", "pycon") and not _NOT_RUN.search(text[: fence.start()]):
            lines = [line.removeprefix(indent) for line in source.splitlines()]
            yield Block(text.count("\n", 0, fence.start()) + 1, "\n".join(lines) + "\n")


def run_page(text: str, name: str) -> int:
    """Run the blocks of a page; how many there were."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = list(blocks(text))
    for block in found:
        run = _run_session if block.source.lstrip().startswith(">>>") else _run_block
        run(block, name, namespace)
    return len(found)


def _run_session(block: Block, name: str, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(block.source, namespace, name, name, block.line)
    heard = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=heard.write, clear_globs=False)
    namespace.update(test.globs)
    if runner.failures:
        raise WrongExample(heard.getvalue())


def _run_block(block: Block, name: str, namespace: dict[str, Any]) -> None:
    tree = ast.parse(block.source)
    lines = block.source.splitlines()
    # Views of a tape read the program around them: the block is all that there is of it.
    linecache.cache[name] = (0, None, ["\n"] * block.line + block.source.splitlines(keepends=True), name)
    expected = {n: match[1].strip() for n, line in enumerate(lines, 1) if (match := _EXPECTED.search(line))}
    for statement in tree.body:
        assert statement.end_lineno is not None
        wanted = expected.pop(statement.end_lineno, None)
        where = f"{name}:{block.line + statement.lineno}"
        ast.increment_lineno(statement, block.line)
        if wanted is None:
            exec(compile(ast.Module([statement], []), name, "exec"), namespace)
            continue
        if not isinstance(statement, ast.Expr):
            raise WrongExample(f"{where}: only the value of an expression can be checked")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = eval(compile(ast.Expression(statement.value), name, "eval"), namespace)
        got = printed.getvalue() if value is None and printed.getvalue() else repr(value)
        if not doctest.OutputChecker().check_output(wanted + "\n", got.strip() + "\n", FLAGS):
            raise WrongExample(f"{where}: the page says {wanted}, the example gives {got.strip()}")
    if expected:
        raise WrongExample(f"{name}:{block.line + min(expected)}: what should this be the value of?")


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_page(page: Path, tmp_path: Path):
    if page.name in NEEDS and importlib.util.find_spec(NEEDS[page.name]) is None:
        pytest.skip(f"{NEEDS[page.name]} is not installed")
    command = [sys.executable, "-W", "error", __file__, str(page)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)  # some pages write files
    assert run.returncode == 0, run.stdout + run.stderr


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "benchmarks" / "README.md", ROOT / "CONTRIBUTING.md"]:
        prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} points to {target}"


# -- the checker itself must be able to say no -------------------------------------------------------------------------
def test_blocks_share_a_namespace():
    assert run_page("```python\na = 1\n```\n\n```python\na + 1  # -> 2\n```\n", "page") == 2


def test_other_languages_and_marked_blocks_are_left_out():
    text = "```bash\nmake\n```\n<!-- not run: needs a network -->\n```python\n1 / 0\n```\n"
    assert run_page(text, "page") == 0


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 + 1  # -> 3", "the page says 3, the example gives 2"),
        ("print('a')  # -> b", "the page says b, the example gives a"),
        ("a = 2  # -> 2", "only the value of an expression"),
        ("if True:\n    1  # -> 1\n    2\n", "what should this be the value of"),
        (">>> 1 + 1\n3\n", "Got:"),
    ],
)
def test_wrong_examples_are_noticed(source, says):
    with pytest.raises(WrongExample, match=says):
        run_page(f"```python\n{source}\n```\n", "page")


def test_an_error_has_the_line_of_the_page():
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("Title\n\n```python\na = 1\na / 0\n```\n", "page")
    assert caught.traceback[-1].lineno + 1 == 5


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[1])
