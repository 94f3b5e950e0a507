"""`gradtape doctor`: what it finds, what it says about it, and when it is alarmed."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape
from gradtape._src.cli import doctor
from gradtape._src.cli.main import main


@pytest.fixture(scope="module")
def devices() -> tuple[list[str], dict[str, str]]:
    """What fresh processes say, which take a second: the devices of JAX, and the default one."""
    return doctor._jax_devices(), doctor._device()


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch, devices: tuple[list[str], dict[str, str]]) -> None:
    monkeypatch.setattr(doctor, "_import_seconds", lambda: {"numpy": 0.1, "gradtape": 0.05})
    monkeypatch.setattr(doctor, "_jax_devices", lambda: list(devices[0]))
    monkeypatch.setattr(doctor, "_device", lambda: dict(devices[1]))


@pytest.fixture
def findings() -> dict[str, Any]:
    return doctor.examine()


def problems(findings: dict[str, Any]) -> str:
    return " ".join(f"{row['problem']} -> {row['advice']}" for row in doctor._problems(findings))


def test_what_it_finds(findings: dict[str, Any]) -> None:
    assert findings["gradtape"] == gradtape.__version__
    assert findings["packages"]["numpy"] == np.__version__
    assert findings["engines"]["numpy"] == {"ready": True, "devices": ["CPU"]}
    assert findings["threads"]["cores"] >= findings["threads"]["usable_cores"] >= 1
    assert findings["blas"]["library"]
    assert findings["self_check"]["numpy"]["passed"] is True
    assert max(findings["self_check"]["numpy"]["errors"].values()) < 1e-12
    assert 0 < findings["self_check"]["numpy"]["microseconds_per_op"] < 10_000


def test_heavy_packages_are_not_imported_for_their_version(findings: dict[str, Any]) -> None:
    before = set(sys.modules)
    doctor._version("keras"), doctor._version("jax"), doctor._version("tensorflow")
    assert not {"keras", "jax", "tensorflow"} & (set(sys.modules) - before)
    assert doctor._version("no-such-distribution") is None


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for piece in (
        "packages",
        "engines",
        "keras",
        "compiled programs",
        "linear algebra",
        "speed",
        "self-check",
        "ml_dtypes",
        "50 ms after numpy's 100",
    ):
        assert piece in out
    assert "\033" not in out


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_page_fits(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["doctor"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["self_check"]["numpy"]["passed"] is True
    assert isinstance(found["problems"], list)


def test_a_wrong_derivative_is_an_alarm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "_jacobian", lambda: (np.array([1.00001]), np.array([1.0])))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "wrong" in out
    assert "the self-check failed" in out


def test_an_error_is_an_alarm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr(doctor, "_second", fails)
    assert main(["doctor", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["self_check"]["numpy"]["errors"]["second derivative"] is None
    assert "RuntimeError: no luck" in found["problems"][0]["problem"]
    assert main(["doctor"]) == 1
    assert "raised an error" in capsys.readouterr().out


def test_nan_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_gradient", lambda: (np.array([np.nan]), np.array([1.0])))
    assert doctor._self_check()["passed"] is False


def test_old_packages(findings: dict[str, Any]) -> None:
    findings["packages"].update(numpy="1.26.4", keras="2.15.0")
    assert "numpy>=2" in problems(findings)
    assert "keras>=3" in problems(findings)


def test_many_threads(findings: dict[str, Any]) -> None:
    findings["blas"]["threads"] = 32
    findings["threads"].update(usable_cores=64, quota=None)
    assert "for small matrices" in problems(findings)
    findings["threads"].update(usable_cores=64, quota=2.0)
    assert "32 threads on 2 usable cores" in problems(findings)
    assert "OPENBLAS_NUM_THREADS=2" in problems(findings)
    findings["blas"]["threads"] = 2
    assert "threads" not in problems(findings)
    findings["blas"]["threads"] = None
    assert "threads" not in problems(findings)


def test_the_quota_of_a_container(tmp_path: Path) -> None:
    (tmp_path / "limited").write_text("150000 100000\n")
    (tmp_path / "free").write_text("max 100000\n")
    assert doctor._quota(str(tmp_path / "limited")) == 1.5
    assert doctor._quota(str(tmp_path / "free")) is None
    assert doctor._quota(str(tmp_path / "none")) is None


def test_the_real_tensorflow_at_the_same_time(findings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", gradtape)
    assert "tensorflow" not in problems(findings)
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    assert "the real tensorflow is imported" in problems(findings)


def test_files_that_hide_packages(findings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "hides" not in problems(findings)
    (tmp_path / "numpy.py").touch()
    assert "numpy.py in this directory shadows the package numpy" in problems(findings)


def test_slow_and_failed_imports(findings: dict[str, Any]) -> None:
    findings["import_seconds"] = {"numpy": 0.1, "gradtape": 0.9}
    assert "import gradtape takes 900 ms" in problems(findings)
    findings["import_seconds"] = None
    assert "cannot import gradtape" in problems(findings)


def test_another_version_is_installed(findings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "0.0.1")
    assert "but 0.0.1 is installed" in problems(findings)


def test_imports_are_timed_in_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    seconds = doctor._import_seconds(repeats=1)
    assert seconds is not None
    assert 0 < seconds["gradtape"] < 60
    monkeypatch.setattr(doctor, "_PROGRAM", "raise SystemExit(1)")
    assert doctor._import_seconds(repeats=1) is None


def test_help_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"]) == 0
    assert "gradtape doctor --json" in capsys.readouterr().out
    assert main(["doctor", "me"]) == 2
    assert "unrecognized arguments: me" in capsys.readouterr().err
