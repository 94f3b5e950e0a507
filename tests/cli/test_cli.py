"""`gradtape run` is `python`, except that `import tensorflow` gives gradtape."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import gradtape
from gradtape._src.cli.main import main
from gradtape._src.hooks.tensorflow import install_as_tensorflow, uninstall_as_tensorflow

Done = subprocess.CompletedProcess[str]


class Place:
    """A directory to write programs in, and to run commands from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    def python(self, *arguments: str, **environment: str) -> Done:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def gradtape(self, *arguments: str, **environment: str) -> Done:
        return self.python("-m", "gradtape", *arguments, **environment)

    def output(self, text: str) -> str:
        """What this program prints under `gradtape run`."""
        self.write("program.py", text)
        done = self.gradtape("run", "program.py")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def failure(self, text: str) -> str:
        """The last line of the traceback of this program under `gradtape run`."""
        self.write("program.py", text)
        done = self.gradtape("run", "program.py")
        assert done.returncode == 1, done.stdout
        return done.stderr.splitlines()[-1]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# The command line


def test_version(place: Place) -> None:
    done = place.gradtape("--version")
    assert (done.returncode, done.stdout) == (0, f"gradtape {gradtape.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"]])
def test_help_shows_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "gradtape run train.py" in capsys.readouterr().out


def test_no_arguments_is_a_question_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["walk"], "no command 'walk'"),
        (["train.py"], "did you mean `gradtape run train.py`?"),
        (["run"], "needs a script"),
        (["run", "-m"], "needs the name of a module"),
        (["run", "--fast", "train.py"], "no option '--fast'"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_help_and_version_load_nothing_optional(place: Place) -> None:
    done = place.python("-X", "importtime", "-m", "gradtape", "--version")
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert loaded.isdisjoint({"jax", "keras", "matplotlib", "tensorflow"})
    assert {name for name in loaded if name.startswith("gradtape._src.cli.")} == {"gradtape._src.cli.main"}


# A program sees what it sees under python

SHOW = """
import sys
SHOWN = sys.argv, __name__, __file__, sys.path[0], __package__, __spec__ and __spec__.name
print(*sys.modules["__main__"].SHOWN)
"""


def test_a_script_sees_what_python_shows_it(place: Place) -> None:
    place.write("below/show.py", SHOW)
    arguments = ["below/show.py", "--epochs", "3", "-m", "--help", "--", "x y"]

    assert place.gradtape("run", *arguments).stdout == place.python(*arguments).stdout != ""


def test_a_linked_script_finds_its_neighbours(place: Place) -> None:
    place.write("real/show.py", "import neighbour\n" + SHOW)
    place.write("real/neighbour.py", "")
    (place.path / "link.py").symlink_to(place.path / "real/show.py")

    assert place.gradtape("run", "link.py").stdout == place.python("link.py").stdout != ""


def test_a_module_sees_what_python_shows_it(place: Place) -> None:
    place.write("pack/__init__.py", "import sys; print(sys.argv)")
    place.write("pack/show.py", "from . import __name__ as parent\n" + SHOW)
    place.write("pack/__main__.py", SHOW)

    for arguments in (["-m", "pack.show", "a", "-m", "b"], ["-m", "pack", "--help"]):
        assert place.gradtape("run", *arguments).stdout == place.python(*arguments).stdout != ""


def test_a_directory_or_archive_with_a_main(place: Place) -> None:
    place.write("app/__main__.py", "import helper\n" + SHOW)
    place.write("app/helper.py", "")
    with zipfile.ZipFile(place.path / "app.zip", "w") as archive:
        archive.write(place.path / "app/__main__.py", "__main__.py")
        archive.write(place.path / "app/helper.py", "helper.py")

    for path in ("app", "app.zip"):
        assert place.gradtape("run", path, "x").stdout == place.python(path, "x").stdout != ""


def test_what_main_defines_can_be_pickled(place: Place) -> None:
    text = """
        import pickle
        import tensorflow as tf
        class Point: pass
        copy = lambda value: pickle.loads(pickle.dumps(value))
        print(type(copy(Point())) is Point, copy(tf.Variable) is tf.Variable)
    """
    assert place.output(text) == "True True\n"


def test_future_statements_of_the_command_do_not_reach_the_program(place: Place) -> None:
    assert place.output("def f(x: int): ...\nprint(f.__annotations__)") == "{'x': <class 'int'>}\n"


def test_an_encoding_cookie_is_followed(place: Place) -> None:
    (place.path / "latin.py").write_bytes("# coding: latin-1\nprint(ascii('é'))".encode("latin-1"))
    assert place.gradtape("run", "latin.py").stdout == "'\\xe9'\n"


# How programs end


@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no luck')", 1, "no luck\n"),
        ("raise SystemExit(0)", 0, ""),
        ("os._exit(9)", 9, ""),
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_exit_codes_are_passed_on(place: Place, end: str, status: int, message: str, as_module: bool) -> None:
    place.write("ends.py", f"import os, sys\n{end}\n")
    done = place.gradtape("run", *(["-m", "ends"] if as_module else ["ends.py"]))
    assert (done.returncode, done.stderr) == (status, message)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return 1 / 0\nf()\n",
        "x = = 1\n",
        "import missing_module\n",
        "try:\n    {}['k']\nexcept KeyError as error:\n    raise ValueError('outer') from error\n",
        "raise KeyboardInterrupt\n",
    ],
    ids=["error", "syntax error", "import error", "chain", "interrupt"],
)
@pytest.mark.parametrize("in_parent", [False, True])
def test_tracebacks_begin_in_the_users_file(place: Place, text: str, in_parent: bool) -> None:
    """Those of python to the letter, and its exit code; for a module run with -m, not a frame above the program's."""
    if in_parent:
        place.write("pack/__init__.py", text)
        place.write("pack/leaf.py", "")
        done = place.gradtape("run", "-m", "pack.leaf")
        assert done.returncode != 0
        frames = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
        assert frames[0].startswith(f'  File "{place.path / "pack" / "__init__.py"}", line')
    else:
        place.write("fails.py", text)
        mine, pythons = place.gradtape("run", "fails.py"), place.python("fails.py")
        assert (mine.returncode, mine.stderr) == (pythons.returncode, pythons.stderr)


def test_an_excepthook_of_the_program_is_used(place: Place) -> None:
    place.write(
        "hook.py", "import sys\nsys.excepthook = lambda kind, error, trace: print('hooked', error)\nraise OSError(1)"
    )
    done = place.gradtape("run", "hook.py")
    assert (done.returncode, done.stdout, done.stderr) == (1, "hooked 1\n", "")


def test_exit_handlers_run_after_an_error(place: Place) -> None:
    place.write("last.py", "import atexit\natexit.register(print, 'bye')\nraise OSError(1)")
    assert place.gradtape("run", "last.py").stdout == "bye\n"


def test_missing_programs(place: Place) -> None:
    (place.path / "empty").mkdir()
    place.write("pack/__init__.py", "")

    for arguments, status, message in [
        (["nowhere.py"], 2, f"can't open file '{place.path / 'nowhere.py'}': [Errno 2] No such file or directory"),
        (["empty"], 1, "can't find '__main__' module in 'empty'"),
        (["-m", "nowhere"], 1, "No module named nowhere"),
        (["-m", "nowhere.at.all"], 1, "No module named nowhere.at.all"),
        (["-m", "pack"], 1, "No module named pack.__main__; 'pack' is a package and cannot be run"),
    ]:
        done = place.gradtape("run", *arguments)
        assert (done.returncode, done.stderr) == (status, f"gradtape: {message}\n")


# import tensorflow


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("import tensorflow", "tensorflow.GradientTape is gradtape.GradientTape"),
        ("import tensorflow as tf", "tf.math is gradtape.math and tf.constant is gradtape.constant"),
        ("import tensorflow as tf", "tf.compat.v2.constant is tf.constant and tf.compat.v1 is gradtape.compat.v1"),
        ("from tensorflow import GradientTape", "GradientTape is gradtape.GradientTape"),
        ("from tensorflow import math", "math is gradtape.math"),
        ("import tensorflow.math", "tensorflow.math is gradtape.math"),
        ("import tensorflow.math as tfm", "tfm is gradtape.math"),
        ("from tensorflow.math import sin as s", "s is gradtape.math.sin"),
        ("from tensorflow import *", "GradientTape is gradtape.GradientTape"),
        ("tf = __import__('tensorflow')", "tf is __import__('tensorflow') and tf.Variable is gradtape.Variable"),
        ("import importlib; tfm = importlib.import_module('tensorflow.math')", "tfm is gradtape.math"),
    ],
)
def test_every_form_of_import(place: Place, statement: str, name: str) -> None:
    # Python's own print: a star brings in TensorFlow's, which writes to standard error.
    program = f"import builtins, gradtape\n{statement}\nbuiltins.print({name})\n"
    assert place.output(program) == "True\n"


def test_an_installed_tensorflow_is_not_touched(place: Place) -> None:
    place.write("site/tensorflow/__init__.py", "raise SystemExit('the real one was imported')\n")
    place.write("site/tensorflow/math.py", "raise SystemExit('the real one was imported')\n")
    place.write("site/tensorflow/other.py", "raise SystemExit('the real one was imported')\n")
    place.write(
        "tf.py",
        "import tensorflow as tf\nimport tensorflow.math\nprint(tf.__name__, tf.__version__)\nimport tensorflow.other",
    )

    done = place.gradtape("run", "tf.py", PYTHONPATH=os.pathsep.join([str(place.path / "site"), *sys.path]))

    assert (done.returncode, done.stdout) == (1, "tensorflow 2.21.0\n")
    assert "gradtape, which stands in for tensorflow here, has no module 'tensorflow.other'" in done.stderr


MISSING = {
    "from tensorflow import no_such_name": ["ImportError", "gradtape", "no_such_name"],
    "from tensorflow.math import no_such_name": ["ImportError", "gradtape", "no_such_name"],
    "import tensorflow.no_such_name": ["ModuleNotFoundError", "gradtape", "'tensorflow.no_such_name'"],
    "import tensorflow.math.no_such_name": ["ModuleNotFoundError", "gradtape", "'tensorflow.math.no_such_name'"],
    "import tensorflow.maths": ["Did you mean 'tensorflow.math'?"],
    "import tensorflow.GradientTape": ["write `from tensorflow import GradientTape`"],
    "from tensorflow.core.framework import graph_pb2": ["gradtape", "'tensorflow.core'", "private"],
}


def test_what_is_missing_is_named(place: Place) -> None:
    *others, last = MISSING
    loop = f"for each in {others}:\n    try:\n        exec(each)\n    except ImportError as error:\n"
    message = place.failure(f"{loop}        print(type(error).__name__, error)\n{last}")
    done = place.gradtape("run", "program.py")
    for pieces, line in zip(MISSING.values(), [*done.stdout.splitlines(), message], strict=True):
        for piece in pieces:
            assert piece in line


@pytest.fixture
def alias() -> Iterator[None]:
    install_as_tensorflow()
    yield
    uninstall_as_tensorflow()


@pytest.mark.usefixtures("alias")
def test_the_specs_of_gradtape_stay_its_own() -> None:
    before = importlib.util.find_spec("tensorflow")
    assert before is not None

    tensorflow = importlib.import_module("tensorflow")

    assert gradtape.__spec__ is not None
    assert (gradtape.__spec__.name, tensorflow.__spec__.name) == ("gradtape", "tensorflow")
    assert importlib.util.find_spec("tensorflow") is tensorflow.__spec__
    assert pickle.loads(pickle.dumps(gradtape.GradientTape)) is gradtape.GradientTape


@pytest.mark.usefixtures("alias")
def test_versions_are_tensorflows() -> None:
    tensorflow = importlib.import_module("tensorflow")
    v1 = importlib.import_module("tensorflow.compat.v1")

    assert tensorflow.__version__ == tensorflow.version.VERSION == "2.21.0"
    assert v1.__version__ == v1.VERSION == v1.version.VERSION == tensorflow.compat.v2.__version__ == "2.21.0"
    assert tensorflow.version.GIT_VERSION == tensorflow.__git_version__ == f"v2.21.0-gradtape-{gradtape.__version__}"
    assert (tensorflow.version.GRAPH_DEF_VERSION, tensorflow.version.GRAPH_DEF_VERSION_MIN_PRODUCER) == (2474, 0)
    assert isinstance(tensorflow.version.COMPILER_VERSION, str)
    assert gradtape.__version__ == gradtape.version.VERSION != "2.21.0", "gradtape's own name keeps its own version"


VALUES = [
    gradtape.constant([1.0, 2.0]),
    gradtape.Variable([1.0, 2.0]),
    gradtape.Variable([1.0, 2.0])[:1],
    gradtape.IndexedSlices(gradtape.constant([1.0]), gradtape.constant([0]), gradtape.constant([3])),
    gradtape.SparseTensor([[0]], [1.0], [3]),
    gradtape.TensorShape([2, None]),
    gradtape.TensorSpec([2, None], gradtape.int32, "x"),
    gradtape.float32,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_classes_are_tensorflows_while_there_is_an_alias(value: object) -> None:
    """Libraries tell by a class's module what they are given; pickles are for processes with and without an alias."""
    home = type(value).__module__
    install_as_tensorflow()
    try:
        assert type(value).__module__.split(".")[0] == "tensorflow"
        pickled = pickle.dumps(value)
        assert b"tensorflow" not in pickled
        assert repr(pickle.loads(pickled)) == repr(value) or type(value) is gradtape.IndexedSlices
    finally:
        uninstall_as_tensorflow()
    assert type(value).__module__ == home
    assert isinstance(pickle.loads(pickled), (type(value), gradtape.Tensor))


@pytest.mark.usefixtures("alias")
def test_namespaces_resolve_however_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = types.ModuleType("gradtape.elsewhere.plain")
    plain.__dict__["inner"] = types.SimpleNamespace(value=1)
    monkeypatch.setattr(gradtape, "plain", plain, raising=False)

    assert importlib.import_module("tensorflow.plain") is plain
    assert importlib.import_module("tensorflow.plain.inner") is plain.inner
    with pytest.raises(ModuleNotFoundError, match=r"'tensorflow\.plain\.inner\.most'"):
        importlib.import_module("tensorflow.plain.inner.most")


@pytest.mark.usefixtures("alias")
def test_keras_that_is_not_installed_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in an environment without Keras, whatever this one has: None in sys.modules makes an import fail.
    monkeypatch.delattr(gradtape, "keras", raising=False)
    for name in ("gradtape.keras", "gradtape._src.keras_backend"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "keras", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gradtape\[keras\]'"):
        importlib.import_module("tensorflow.keras")


def test_install_twice_is_install_once() -> None:
    before = list(sys.meta_path)
    install_as_tensorflow()
    install_as_tensorflow()
    assert len(sys.meta_path) == len(before) + 1
    uninstall_as_tensorflow()
    uninstall_as_tensorflow()
    assert sys.meta_path == before
    assert "tensorflow" not in sys.modules


def test_install_refuses_when_tensorflow_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    with pytest.raises(RuntimeError, match="another tensorflow is already imported"):
        install_as_tensorflow()
    uninstall_as_tensorflow()
    assert "tensorflow" in sys.modules, "not ours to remove"


def test_what_is_missing_is_named_without_importing_the_rest(place: Place) -> None:
    program = "import sys\ntry:\n    import tensorflow.maths\nexcept ImportError:\n    print('keras' in sys.modules)\n"
    assert place.output(program) == "False\n"
