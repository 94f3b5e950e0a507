"""Every script of benchmarks/ runs, in a tiny form: a name that changes in the package breaks none of them unseen.

Nothing here looks at a time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import (
    call_overhead,
    first_call,
    import_time,
    install_size,
    keras_fit,
    libraries,
    memory,
    memory_limit,
    replicas,
    solvers,
    sparse,
    taylor,
    text,
    views,
)
from benchmarks.gpu import check, gpt, workloads
from benchmarks.sparse_problems import PROBLEMS
from benchmarks.workloads import WORKS, build

import gradtape as tf

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


def started(module: str, *arguments: str) -> str:
    """What a script prints, run in a process of its own that has nothing to read."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def here() -> libraries.Library:
    return libraries.Library("gradtape", "gradtape", tf.version.VERSION, sys.executable)


# -- the scripts -----------------------------------------------------------------------------------------------------
def table() -> None:
    assert "chain" in started("__main__", "chain", "--only", "gradtape", "--rounds", "1", "--seconds", "0")


def memory_of_tapes() -> None:
    steps = ("tanh(y)", "y * y", "y + 1.0")
    measured: dict[str, Any] = {
        "saved": {"mlp2": {"gradtape": memory.saved_by_gradtape(2)}},
        "record": {step: memory.record_bytes(step, 20) for step in steps},
        "left": memory.left_behind(5),
        "peak": {library: memory.peak(library, 32) for library in ("gradtape", "numpy")},
    }
    assert measured["saved"]["mlp2"]["gradtape"] >= 2 * (784 + 2 * 256) * 4  # the inputs of three layers
    assert len(memory.lines(measured)) == 6
    assert len(memory.verdicts(measured)) == 2


def calls_of_functions() -> None:
    pytest.importorskip("jax")
    mine, theirs = call_overhead.steps(2)
    assert np.array_equal(mine(), theirs())
    seconds = {"gradtape.function": 2e-6, "jax.jit": 1e-6}
    assert call_overhead.verdict(seconds).met
    assert call_overhead.line(seconds)


def tapes_without_hooks() -> None:
    measured = views.measure(("chain",), rounds=1, seconds=0.0)
    assert measured["chain"].keys() == {"gradtape", "gradtape.bare"}
    assert len(views.lines(measured)) == len(views.verdicts(measured)) == 1


def first_calls() -> None:
    times = first_call._times(sys.executable, "gradtape", "hess")
    assert times is not None
    assert len(times) == 2


def imports() -> None:
    assert import_time.verdict(import_time.over_numpy(repeats=1)).what == "import gradtape"


def sizes() -> None:
    assert {"gradtape", "numpy"} <= install_size.sizes(here()).keys()


def replicated_steps() -> None:
    pytest.importorskip("jax")
    alone, one = (
        replicas._under(strategy, 4)
        for strategy in (tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/CPU:0"))
    )
    np.testing.assert_allclose(alone(), one(), rtol=1e-5)


def solver_calls() -> None:
    for (problem, way), call in solvers.gradtape_calls().items():
        if way == "gradtape" and problem != "ode, continuous":
            assert np.isfinite(call()).all(), problem


def sparse_derivatives() -> None:
    make, little, _, order = PROBLEMS["optimal control"]
    found = sparse._gradtape(make, little, order, seconds=0.0)
    assert found["entries"] > 0
    assert "colors" in sparse._shown(found)


def derivatives_of_high_order() -> None:
    found = taylor._gradtape(3, 2, 0.0, orders=(2,))
    np.testing.assert_allclose(found["derivative 2"]["sum"], found["derivative 2, nested"]["sum"], rtol=1e-6)
    np.testing.assert_allclose(found["laplacian"]["sum"], found["laplacian, nested"]["sum"], rtol=1e-6)


def strings_and_rows() -> None:
    calls = {**text.strings(tf, np, rows=20), **text.ragged(tf, np), **text.summaries(tf, np)}
    failed = {name: text.best(call, 1) for name, call in calls.items()}
    assert [name for name, seconds in failed.items() if seconds is None] == []
    text.show({"gradtape": dict.fromkeys(calls, 1.0)})


def gradients_within_a_limit() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("reads the memory of a process as Linux shows it")
    plain = memory_limit._gradtape("rnn", True, None)
    limited = memory_limit._gradtape("rnn", True, 2_000_000)
    assert limited["recomputed"] > 0
    assert limited["sum"] == plain["sum"]


def on_gpus() -> None:
    """What needs no GPU: the names that the script takes from the tests."""
    for name in ("LEAVES", "LOOKS_AT_VALUES", "NO_KERNEL", "_derivatives", "_on_xla", "_same"):
        assert name in (check.TESTS / "arrays" / "test_engines.py").read_text("utf-8")
    assert (check.TESTS / "conformance" / "runner.py").exists()


QUICK: dict[str, Callable[[], None]] = {
    "__main__": table,
    "call_overhead": calls_of_functions,
    "first_call": first_calls,
    "gpu/check": on_gpus,
    "import_time": imports,
    "memory": memory_of_tapes,
    "memory_limit": gradients_within_a_limit,
    "solvers": solver_calls,
    "sparse": sparse_derivatives,
    "taylor": derivatives_of_high_order,
    "text": strings_and_rows,
    "views": tapes_without_hooks,
}


def epochs_of_keras() -> None:
    assert json.loads(started("keras_fit", "--work", "gradtape", "cnn"))["loss"] > 0
    assert set(keras_fit.WAYS) >= {way for budget in keras_fit.BUDGETS for way in budget[:2]}


def training_of_gpt() -> None:
    losses = [float(gpt.gradtape_training(gpt.SMALL, fused).step()) for fused in (False, True)]
    np.testing.assert_allclose(*losses, rtol=1e-2)
    assert "HloModule" in gpt.gradtape_training(gpt.SMALL, False).optimized()


def models_on_gpus() -> None:
    assert json.loads(started("gpu.workloads", "lstm.gradtape", "--alone", "--small"))["loss"] > 0
    assert workloads.data("resnet", small=True)[0].shape[1:] == (32, 32, 3)


def training_within_limits() -> None:
    rows = started("gpu.memory_limit", "function", "function/2", "--small").splitlines()
    losses = [float(re.search(r"loss (\S+)", row)[1]) for row in rows]
    np.testing.assert_allclose(*losses, rtol=1e-2)


SLOW: dict[str, Callable[[], None]] = {
    "gpu/gpt": training_of_gpt,
    "gpu/memory_limit": training_within_limits,
    "gpu/workloads": models_on_gpus,
    "install_size": sizes,
    "keras_fit": epochs_of_keras,
    "replicas": replicated_steps,
}
STARTED_BY_OTHERS = {"worker": "race.py, which views and the table use"}


@pytest.mark.parametrize("script", QUICK)
def test_script(script):
    QUICK[script]()


@pytest.mark.slow
@pytest.mark.parametrize("script", SLOW)
def test_long_script(script):
    pytest.importorskip("keras")
    SLOW[script]()


def test_every_script_has_a_test():
    scripts = {
        path.relative_to(BENCHMARKS).with_suffix("").as_posix()
        for path in BENCHMARKS.rglob("*.py")
        if path.name == "__main__.py" or '__name__ == "__main__"' in path.read_text("utf-8")
    }
    assert scripts == QUICK.keys() | SLOW.keys() | STARTED_BY_OTHERS.keys()


# -- the workloads ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("work", WORKS)
def test_workload(work):
    """gradtape's program runs, and computes what NumPy's does where there is one."""
    mine, other = build("gradtape", work), build("numpy", work)
    assert mine is not None
    results = mine.result()
    assert all(np.isfinite(result).all() for result in results)
    if other is not None:
        for a, b in zip(results, other.result(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(b).max())
