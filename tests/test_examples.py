"""The examples run as a user runs them, and do what they say."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
# Those with the shared arguments (`common.py`); digits.py is plain TensorFlow code and has tests of its own below.
QUICK = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in ("common.py", "digits.py"))

# A number that each example prints in quick mode, and what it must be.
RESULTS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "curve_fit.py": (r"difference between the optimizers: (\S+)", lambda distance: distance < 1e-5),
    "bending_plate.py": (r"Relative error: ([\d.]+) %", lambda percent: percent < 3),
    "dcgan.py": (r"generated digits +([\d.]+)", lambda distance: distance < 5.2),  # untrained: 6.2
    "deepdream.py": (r"contains a digit: \S+ before, ([\d.]+) after", lambda belief: belief > 0.08),  # before: 0.04
    "equilibrium.py": (r"before, ([\d.]+) after", lambda loss: loss < 0.15),
    "explain_none.py": (r"(\d+) of 8 gradients were None, all explained", lambda count: count == 8),
    "gradient_penalty.py": (r"Mean slope of the critic in the last step: ([\d.]+)", lambda slope: 0.6 < slope < 1.5),
    "implicit_step.py": (r"Largest residual of the last: (\S+)", lambda residual: residual < 1e-10),
    "keras_dcgan.py": (r"generated digits +([\d.]+)", lambda distance: distance < 5.3),  # untrained: 5.9
    "keras_style_transfer.py": (r"before, ([\d.]+) after", lambda distance: distance < 0.007),  # without steps: 0.012
    "keras_text.py": (r"LSTM +([\d.]+) %", lambda percent: percent > 90),
    "linear_regression.py": (r"Largest difference from the closed form: (\S+)", lambda distance: distance < 0.01),
    "memory_limit.py": (r"limit +([\d.]+) MB: peak", lambda megabytes: megabytes > 5),  # the first limit is the peak
    "newton_cg.py": (r"digits +Newton-CG .* (\S+)\n", lambda gradient: gradient < 1e-6),
    "physics_informed.py": (r"Relative error of the solution: ([\d.]+) %", lambda percent: percent < 8),
    "pix2pix.py": (r"digits in the right color ([\d.]+) %", lambda percent: percent > 25),  # by chance: 10
    "predator_prey.py": (r"relative error of a rate: ([\d.]+)", lambda error: error < 0.06),
    "private_sgd.py": (r"\n +1 .* ([\d.]+) %", lambda percent: percent > 75),  # the row of noise 1
    "rounding.py": (r"with_softplus +([\d.]+) digits", lambda digits: digits > 6.5),
    "saliency.py": (r"Largest difference: ([\d.]+)", lambda distance: distance < 0.05),
    "style_transfer.py": (r"before, ([\d.]+) after", lambda distance: distance < 2),  # before: 3.6
    "two_models.py": (r"together .* ([\d.]+) %", lambda percent: percent > 45),
}

RUN = ["-m", "gradtape", "run"]


def run_without(module: str) -> list[str]:
    """The same command in a Python where a module cannot be found."""
    return [
        "-c",
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, package=None: None if name == {module!r} else find(name, package)\n"
        "from gradtape._src.cli.main import main\n"
        "sys.exit(main(['run', *sys.argv[1:]]))\n",
    ]


def run(directory: Path, command: list[str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_digits(directory: Path, command: list[str]) -> str:
    return run(directory, command, str(EXAMPLES / "digits.py"))


def number_in(output: str, pattern: str) -> float:
    found = re.search(pattern, output)
    assert found is not None, output
    return float(found[1])


def accuracy_in(output: str) -> float:
    return number_in(output, r"Test accuracy: ([\d.]+) %")


def check_picture(path: Path) -> None:
    """A PNG of a decent size with something on it: an even surface would compress to next to nothing."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 480
    assert height >= 300
    assert len(data) > 15_000


def test_digits_learns_to_read_and_draws_its_loss(tmp_path: Path) -> None:
    output = run_digits(tmp_path, RUN)

    assert accuracy_in(output) > 95
    assert "\r" not in output, "no bar where there is no terminal"
    check_picture(tmp_path / "digits_loss.png")


def test_digits_without_matplotlib_says_so_and_draws_svg(tmp_path: Path) -> None:
    output = run_digits(tmp_path, run_without("matplotlib"))

    assert "Matplotlib is not installed" in output
    assert accuracy_in(output) > 95
    assert (tmp_path / "digits_loss.svg").read_text(encoding="utf-8").startswith("<svg")
    assert not (tmp_path / "digits_loss.png").exists()


SLOW = {"keras_style_transfer.py", "keras_text.py", "keras_dcgan.py", "deepdream.py", "pix2pix.py"}


@pytest.mark.parametrize("example", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in QUICK])
def test_example_shows_what_it_promises(example: str, tmp_path: Path) -> None:
    if example.startswith("keras_") and importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    output = run(tmp_path, [], str(EXAMPLES / example), "--quick", "--out", "pictures")

    made = list(tmp_path.rglob("*"))
    picture = tmp_path / "pictures" / f"{Path(example).stem}.png"
    assert {path for path in made if path.is_file()} == {picture}, "one picture, where it was wanted, and nothing else"
    check_picture(picture)
    assert picture.name in output
    assert "\r" not in output, "no bar where there is no terminal"
    if example in RESULTS:
        pattern, is_right = RESULTS[example]
        assert is_right(number_in(output, pattern)), output


def test_example_without_matplotlib_runs_and_says_what_is_missing(tmp_path: Path) -> None:
    script = str(EXAMPLES / "linear_regression.py")
    output = run(tmp_path, run_without("matplotlib"), script, "--steps", "5")

    assert "Matplotlib is not installed" in output
    assert list(tmp_path.iterdir()) == []


def test_newton_without_scipy_uses_its_own(tmp_path: Path) -> None:
    output = run(tmp_path, run_without("scipy"), str(EXAMPLES / "newton_cg.py"), "--quick")

    assert "SciPy is not installed" in output
    pattern, is_right = RESULTS["newton_cg.py"]
    assert is_right(number_in(output, pattern)), output


@pytest.mark.slow
def test_a_saved_training_goes_on(tmp_path: Path) -> None:
    if importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    command = [str(EXAMPLES / "keras_dcgan.py"), "--checkpoints", "saved", "--steps"]
    run(tmp_path, run_without("jax"), *command, "2")
    output = run(tmp_path, run_without("jax"), *command, "3")

    assert "ckpt-1 contains 2 steps." in output
    assert "\n1 steps in" in output
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {"", ".index", ".data-00000-of-00001"}


def test_the_bar_grows_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    progress = runpy.run_path(str(EXAMPLES / "common.py"))["Progress"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    bar = progress(4)
    for step in bar:
        bar.note = f"note {step}"

    shown = capsys.readouterr().out
    assert shown.startswith("\r")
    assert shown.endswith("\n")
    assert f"[{24 * '#'}] step 4/4   note 4" in shown


def test_the_table_names_every_example() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for example in ["digits.py", *QUICK]:
        assert f"| [`{example}`]({example}) |" in table
