"""What users download: a small wheel of pure Python that needs NumPy and ml_dtypes, and works with nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import gradtape

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def call(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, ROOT, cwd=target)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of programs of a new environment that has the wheel and the two packages it depends on."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    bin_ = home / ("Scripts" if sys.platform == "win32" else "bin")
    pip: list[str | Path] = [bin_ / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    call(*pip, "--no-deps", wheel, cwd=home)
    call(*pip, "numpy", "ml_dtypes", cwd=home)
    return bin_


def test_the_wheel_is_pure_python(wheel: Path) -> None:
    assert wheel.name == f"gradtape-{gradtape.__version__}-py3-none-any.whl"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = f"gradtape-{gradtape.__version__}.dist-info"

    hook = {"_gradtape_keras.py", "gradtape_keras.pth"}  # lets `import keras` find the backend
    assert {name.partition("/")[0] for name in names} == {"gradtape", info} | hook
    assert "gradtape/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names
    packed = {name for name in names if name.endswith(".py")}
    package = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/gradtape").rglob("*.py")}
    # `gradtape bench` measures with these.
    home = "gradtape/_src/cli/packed"
    benchmarks = {f"{home}/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "benchmarks").rglob("*.py")}
    assert packed == package | benchmarks | {"_gradtape_keras.py"}


def test_only_numpy_and_ml_dtypes_are_required(wheel: Path) -> None:
    metadata = zipfile.ZipFile(wheel).read(f"gradtape-{gradtape.__version__}.dist-info/METADATA").decode()
    required = [line for line in Parser().parsestr(metadata).get_all("Requires-Dist", []) if "extra ==" not in line]

    assert required == ["ml-dtypes>=0.4", "numpy>=2.0"]


def test_what_is_installed_is_all_that_is_needed(programs: Path, tmp_path: Path) -> None:
    call(programs / "python", "-m", "pip", "check", cwd=tmp_path)


def test_a_program_of_two_lines(programs: Path, tmp_path: Path) -> None:
    program = (
        "import gradtape as tf; x = tf.Variable(3.0); tape = tf.GradientTape()\n"
        "with tape: y = x * x\n"
        "print(float(tape.gradient(y, x)))"
    )

    assert call(programs / "python", "-c", program, cwd=tmp_path) == "6.0\n"


def test_other_programs_start_as_before(programs: Path, tmp_path: Path) -> None:
    code = "import sys; print(len(sys.modules), 'gradtape' in sys.modules, '_gradtape_keras' in sys.modules)"
    count, *there = call(programs / "python", "-c", code, cwd=tmp_path).split()
    without = call(programs / "python", "-S", "-c", code.replace("import sys", "import sys, site"), cwd=tmp_path)
    assert there == ["False", "True"]
    assert int(count) <= int(without.split()[0]) + 3, "what is installed brings in one small module"


@pytest.mark.parametrize(
    ("chosen", "imports", "backend"),
    [
        ("gradtape", "keras", "gradtape"),
        ("", "keras", "gradtape"),
        ("", "keras, gradtape", "gradtape"),
        ("numpy", "keras", "numpy"),
    ],
)
def test_keras_finds_the_backend(chosen: str, imports: str, backend: str, programs: Path, tmp_path: Path) -> None:
    """Without a word from the program: TensorFlow, which is Keras' default, is not installed."""
    keras = importlib.util.find_spec("keras")
    if keras is None or keras.origin is None:
        pytest.skip("Keras is not installed")
    environment = {"PYTHONPATH": str(Path(keras.origin).parents[1]), "KERAS_HOME": str(tmp_path)}
    code = f"import {imports}, sys; print(keras.config.backend(), 'gradtape' in sys.modules)"
    done = call(programs / "python", "-c", code, cwd=tmp_path, KERAS_BACKEND=chosen, **environment)
    assert done == f"{backend} {backend == 'gradtape'}\n"


def test_the_command_is_installed(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "slope.py").write_text(
        "import tensorflow as tf\n"
        "x = tf.constant(2.0)\n"
        "with tf.GradientTape() as tape:\n"
        "    tape.watch(x)\n"
        "    y = x * x * x\n"
        "print(float(tape.gradient(y, x)))\n"
    )

    assert call(programs / "gradtape", "--version", cwd=tmp_path) == f"gradtape {gradtape.__version__}\n"
    assert call(programs / "gradtape", "run", "slope.py", cwd=tmp_path) == "12.0\n"
    assert json.loads(call(programs / "gradtape", "doctor", "--json", cwd=tmp_path))["self_check"]["numpy"]["passed"]
    bench = call(programs / "gradtape", "bench", "hess", "--rounds", "1", "--seconds", "0.01", "--json", cwd=tmp_path)
    assert json.loads(bench)["times"]["hess"]["gradtape"] > 0
