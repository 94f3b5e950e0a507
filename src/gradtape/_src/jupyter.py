"""IPython magics: `%%tape` records a cell and shows the tape, `%%explain` explains why a gradient is None.

%load_ext gradtape
"""

from __future__ import annotations

from typing import Any

from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.tensor import Tensor

__all__ = ["load"]


def load(shell: Any) -> None:
    """Register the magics; `%load_ext gradtape` calls this."""
    shell.register_magic_function(lambda line, cell: tape_cell(shell, line, cell), "cell", "tape")
    shell.register_magic_function(lambda line, cell: explain_cell(shell, line, cell), "cell", "explain")


def tape_cell(shell: Any, line: str, cell: str) -> Any:
    """`%%tape [TARGET [SOURCE ...]]`: run the cell on a tape and show it; the tape is then called `tape`.

    The tape is persistent and knows lines. Sources that are tensors and exist before the cell runs are watched.
    """
    names = line.split()
    tape = _recorded(shell, cell, names[1:])
    if tape is None:
        return None
    target, *sources = (_found(shell, name) for name in names) if names else (None,)
    named = dict(zip(names[1:], sources, strict=True)) or None
    return eval(_SHOW, shell.user_ns, {"_show": tape.show, "_target": target, "_sources": named})


def explain_cell(shell: Any, line: str, cell: str) -> Any:
    """`%%explain TARGET SOURCE [SOURCE ...]`: run the cell on a tape, and explain the gradient of each source."""
    names = line.split()
    if len(names) < 2:
        raise _usage_error("%%explain needs the names of a target and of at least one source: %%explain loss w b")
    tape = _recorded(shell, cell, names[1:])
    if tape is None:
        return None
    target, *sources = (_found(shell, name) for name in names)
    given = {"_explain": tape.explain, "_target": target, "_sources": sources[0] if len(sources) == 1 else sources}
    return eval(_EXPLAIN, shell.user_ns, given)


_EXPLAIN = compile("_explain(_target, _sources)", "<%%explain>", "eval")
"""Called as a line of the notebook, in whose variables explain looks for the names of values."""

_SHOW = compile("_show(target=_target, sources=_sources)", "<%%tape>", "eval")


def _recorded(shell: Any, cell: str, watched: list[str]) -> GradientTape | None:
    """Run a cell on a tape; None if it raised an error, which the shell has shown."""
    tape = GradientTape(persistent=True, lines=True)
    tensors = [value for value in map(shell.user_ns.get, watched) if isinstance(value, Tensor)]
    with tape:
        if tensors:
            tape.watch(tensors)
        result = _run(shell, cell)
    if not result.success:
        return None
    shell.user_ns["tape"] = tape
    return tape


def _run(shell: Any, cell: str) -> Any:
    """Run the lines below a magic as a part of its cell, with the cell's number and line numbers."""
    history = getattr(shell, "history_manager", None)
    following = shell.execution_count
    shell.execution_count = following if history is None else max(1, len(history.input_hist_parsed) - 1)
    try:
        return shell.run_cell("# the line of the magic\n" + cell)  # IPython would remove an empty line
    finally:
        shell.execution_count = following


def _found(shell: Any, name: str) -> Any:
    """The object of a name, or of an expression such as `model.w`, in the notebook."""
    try:
        return eval(name, shell.user_ns)
    except (NameError, AttributeError, SyntaxError) as error:
        raise _usage_error(f"The line of the magic names {name!r}, which the cell does not define: {error}") from None


def _usage_error(message: str) -> ValueError:
    """An error that IPython shows as one line."""
    try:
        from IPython.core.error import UsageError
    except ImportError:
        return ValueError(message)
    kind: type[ValueError] = type("UsageError", (UsageError, ValueError), {})
    return kind(message)
