"""The command ``gradtape``: run code written for TensorFlow on gradtape, without editing it; check it; measure.

``gradtape run script.py`` is ``python script.py`` in every respect (arguments, ``sys.path``, ``__main__``, exit code,
tracebacks) but one: ``import tensorflow`` gives gradtape.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib
import importlib.util
import io
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType

from gradtape._src.cli import UsageError
from gradtape._src.hooks.tensorflow import install_as_tensorflow
from gradtape._src.version import __version__

__all__ = ["main"]

HELP = """\
usage: gradtape COMMAND [ARG ...]

  run     run a script or module written for TensorFlow on gradtape
  check   list the tensorflow names that code uses and whether gradtape has them
  bench   measure gradtape and the other libraries that are installed
  board   the summaries of a folder as one HTML page: curves, histograms, images
  doctor  this installation: versions, engines, threads, a self-check
  export  a model as StableHLO, SavedModel, ONNX or NumPy code
  launch  several processes of a program, for distributed training
  serve   a SavedModel behind TensorFlow Serving's REST API
  stubs   let editors and type checkers resolve tensorflow to gradtape

examples:
  gradtape run train.py --epochs 10    instead of python train.py ...
  gradtape check src --only missing    what gradtape lacks for src
  gradtape bench chain mlp32           two benchmarks, with bars
  gradtape doctor                      check this installation

gradtape COMMAND --help says more about each of them.
gradtape --version prints the version.
"""

RUN_HELP = """\
usage: gradtape run [-i] SCRIPT [ARG ...]
       gradtape run [-i] -m MODULE [ARG ...]
       gradtape run [-i] -c COMMAND [ARG ...]
       gradtape run [-i] - [ARG ...]

Runs Python code written for TensorFlow on gradtape: `import tensorflow` in
it, and in all that it imports, gives gradtape. Whether TensorFlow is
installed makes no difference, and it is not touched.

SCRIPT is a file, a notebook (.ipynb), or a directory or zip archive that holds
a __main__.py; - is the standard input. Everything after SCRIPT, MODULE or
COMMAND belongs to the program. With -i, Python's prompt follows.

The cells of a notebook run in order; lines that only IPython reads (%matplotlib,
!pip) are left out.

examples:
  gradtape run train.py                as `python train.py`
  gradtape run train.py --epochs 10    with arguments
  gradtape run -m mypackage.train      as `python -m mypackage.train`
  gradtape run -m pytest tests         a whole test suite, on gradtape
  gradtape run tutorial.ipynb          the cells of a notebook, in order
  gradtape run -c "import tensorflow as tf; print(tf.square(3.0))"
  gradtape run -i                      Python's prompt
"""

# Loaded on first use, so that other commands start faster.
COMMANDS = {
    name: f"gradtape._src.cli.{name}"
    for name in ("check", "bench", "board", "doctor", "export", "launch", "serve", "stubs")
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process if None) and return the exit code.

    A program that is run and fails does not return: its exception goes on, after its traceback has been printed.

    >>> main(["--version"])
    gradtape 0.1.0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except UsageError as error:
        print(f"gradtape: {error}", file=sys.stderr)
        return error.status


def _dispatch(arguments: list[str]) -> int:
    match arguments:
        case ["-h" | "--help" | "help"]:
            print(HELP, end="")
            return 0
        case ["-h" | "--help" | "help", command, *_]:
            return _dispatch([command, "--help"])
        case ["run", "-h" | "--help", *_]:
            print(RUN_HELP, end="")
            return 0
        case ["-V" | "--version", *_]:
            print(f"gradtape {__version__}")
            return 0
        case ["run", *rest]:
            return _run_command(rest)
        case [command, *rest] if command in COMMANDS:
            return _command(COMMANDS[command], rest)
        case [word, *_]:
            raise UsageError(f"no command {word!r}; {_meant(word)}")
        case _:
            print(HELP, end="", file=sys.stderr)
            return 2


def _run_command(arguments: list[str]) -> int:
    match arguments:
        case ["-i", *rest]:
            return _then_prompt(rest)
        case ["-m", name, *rest]:
            return _run(lambda: _load_module(name), rest)
        case ["-m"]:
            raise UsageError("`run -m` needs the name of a module; try `gradtape run --help`")
        case ["-c", text, *rest]:
            return _run(lambda: _load_text(text, "<string>", "-c"), rest)
        case ["-c"]:
            raise UsageError("`run -c` needs a program; try `gradtape run --help`")
        case ["-", *rest]:
            return _run(lambda: _load_text(sys.stdin.read(), "<stdin>", "-"), rest)
        case [option, *_] if option.startswith("-"):
            raise UsageError(f"`run` has no option {option!r}; try `gradtape run --help`")
        case [path, *rest]:
            return _run(lambda: _load_script(path), rest)
        case _:
            raise UsageError("`run` needs a script, or -m and a module; try `gradtape run --help`")


def _meant(word: str) -> str:
    """What to do instead of a command that does not exist."""
    if word.endswith(".py"):
        return f"did you mean `gradtape run {word}`?"
    import difflib

    close = difflib.get_close_matches(word, ["run", *COMMANDS], n=1)
    return f"did you mean `gradtape {close[0]}`?" if close else "try `gradtape --help`"


def _command(module: str, arguments: list[str]) -> int:
    """Run one of the commands that are not `run`; its exit code."""
    try:
        status: int = importlib.import_module(module).main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`| head`). Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # what a shell reports for SIGPIPE
    except KeyboardInterrupt:
        print("gradtape: interrupted", file=sys.stderr)
        return 130
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        return end.code or 0  # argparse has printed the help
    return status


@dataclass(frozen=True)
class _Program:
    """What to execute, in which module, and the name it was called by."""

    code: CodeType
    main: ModuleType
    argv0: str


def _run(load: Callable[[], _Program], arguments: list[str]) -> int:
    """Load a program, become it and execute it; 0 if it comes to its end."""
    install_as_tensorflow()
    sys.argv = ["-m", *arguments]  # what Python shows while it looks for the program
    try:
        program = load()
        sys.argv[0] = program.argv0
        sys.modules["__main__"] = program.main
        exec(program.code, program.main.__dict__)
    except (SystemExit, UsageError):
        raise
    except BaseException as error:
        # Print it here, less the frames above the program's own, and let it go on in silence: so the interpreter
        # still ends as it does for this exception (exit code 1, or death by SIGINT), after the same last rites.
        trace = _below_us(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.excepthook = _say_nothing
        raise
    return 0


def _below_us(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that belongs to the program; None if none does (a syntax error in it)."""
    machinery = {__name__, "importlib", "importlib.util", "importlib._bootstrap", "importlib._bootstrap_external"}
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in machinery:
        trace = trace.tb_next
    return trace


def _say_nothing(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An excepthook for an exception that has been shown already."""


def _then_prompt(arguments: list[str]) -> int:
    """Run a program, if there is one, and go on with Python's prompt in its `__main__`."""
    import code

    status = 0
    try:
        status = _run_command(arguments) if arguments else _run(lambda: _load_text("", "<stdin>", ""), [])
    except UsageError:
        raise
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # it has been shown
        status = 1
    names = vars(sys.modules["__main__"])
    with contextlib.suppress(ImportError):  # where there is a terminal, its lines can be edited
        import readline  # noqa: F401
    code.interact(banner="" if arguments else f"gradtape {__version__} as tensorflow", local=names, exitmsg="")
    return status


def _load_text(text: str, name: str, argv0: str) -> _Program:
    """A program that is no file: `-c` and the standard input."""
    _set_first_path("")
    return _Program(compile(text, name, "exec", dont_inherit=True), _main_module(None), argv0)


def _load_script(path: str) -> _Program:
    """A file, or a directory or archive with a ``__main__.py``, as ``python path`` takes it."""
    file = os.path.abspath(path)
    if path.endswith(".ipynb"):
        return _load_notebook(path)
    importer = pkgutil.get_importer(file)
    if importer is not None:
        spec = importer.find_spec("__main__")
        if spec is None:
            raise UsageError(f"can't find '__main__' module in {path!r}", status=1)
        _set_first_path(file, always=True)
        return _Program(_code_of(spec), _main_module(spec), path)

    try:
        with io.open_code(file) as stream:
            source = stream.read()
    except OSError as error:
        raise UsageError(f"can't open file {file!r}: [Errno {error.errno}] {error.strerror}") from None
    _set_first_path(os.path.dirname(os.path.realpath(file)))
    main = _main_module(None)
    main.__file__ = file
    main.__loader__ = SourceFileLoader("__main__", file)
    return _Program(compile(source, file, "exec", dont_inherit=True), main, path)


def _load_notebook(path: str) -> _Program:
    """The cells of a notebook, one after the other."""
    from gradtape._src.cli.notebook_cells import program_of

    file = os.path.abspath(path)
    try:
        with open(file, encoding="utf-8") as stream:
            source = program_of(stream.read())
    except OSError as error:
        raise UsageError(f"can't open file {file!r}: [Errno {error.errno}] {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path!r} is no notebook: {error}", status=1) from None
    _set_first_path(os.path.dirname(os.path.realpath(file)))
    main = _main_module(None)
    main.__file__ = file
    return _Program(compile(source, _written(source, file), "exec", dont_inherit=True), main, path)


def _written(source: str, notebook: str) -> str:
    """A file with the program of a notebook, until the end of the process: for tracebacks, and for AutoGraph."""
    folder = tempfile.mkdtemp(prefix="gradtape-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, os.path.basename(notebook).removesuffix(".ipynb") + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    return path


def _load_module(name: str) -> _Program:
    """A module, or a package with a ``__main__`` module, as ``python -m name`` takes it."""
    _set_first_path(os.getcwd())
    spec = _find(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find(f"{name}.__main__")
        if spec is None:
            raise UsageError(f"No module named {name}.__main__; {name!r} is a package and cannot be run", status=1)
    if spec is None:
        raise UsageError(f"No module named {name}", status=1)
    return _Program(_code_of(spec), _main_module(spec), spec.origin or name)


def _find(name: str) -> ModuleSpec | None:
    """The spec of a module, its parents being imported on the way; None if there is none."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise  # something that a parent imports is missing: the program's own affair


def _code_of(spec: ModuleSpec) -> CodeType:
    get_code = getattr(spec.loader, "get_code", None)
    code: CodeType | None = get_code(spec.name) if get_code is not None else None
    if code is None:
        raise UsageError(f"No code object available for {spec.name}", status=1)
    return code


def _main_module(spec: ModuleSpec | None) -> ModuleType:
    """A blank ``__main__``, with the marks that Python gives it for a module (a spec) or a plain file (None)."""
    main = ModuleType("__main__", None)
    main.__dict__["__builtins__"] = builtins
    main.__dict__["__cached__"] = None
    if spec is not None:
        main.__spec__ = spec
        main.__loader__ = spec.loader
        main.__package__ = spec.parent
        main.__file__ = spec.origin
        main.__dict__["__cached__"] = spec.cached
    return main


def _set_first_path(directory: str, *, always: bool = False) -> None:
    """Put the program's directory where Python put this command's, unless Python was told to put none there."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = directory
    elif always:
        sys.path.insert(0, directory)
