"""Functions with replicas as one program on all devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from distribute import spmd_programs, training
from gradtape._src.graph.spmd import alike

pytest.importorskip("jax")
from gradtape._src.graph import spmd_executor


@cache
def results():
    tests = Path(spmd_programs.__file__).parents[1]
    command = [sys.executable, "-m", "distribute.spmd_programs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tests)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return {line[1]: line for line in lines if line[0] in ("passed", "failed")}


@pytest.mark.parametrize("name", [program.__name__ for program in spmd_programs.PROGRAMS])
def test_program_on_four_devices(name):
    found = results()[name]
    assert found[0] == "passed", found[-1].encode().decode("unicode_escape")


TRAINING = """
import sys
import numpy as np
import gradtape as tf
from distribute import training
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 8)
tf.config.optimizer.set_jit(True)
for kind in (training.loop, training.fit):
    for name in training.MODELS:
        alone, one = kind(tf, name, tf.distribute.get_strategy(), 50)
        together, several = kind(tf, name, tf.distribute.MirroredStrategy(), 50)
        np.testing.assert_allclose(together, alone, rtol=2e-6)
        training.assert_same_weights(training.paths(one), several.get_weights(), one.get_weights())
"""


@pytest.mark.slow
def test_training_on_eight_devices_equals_that_on_one():
    folder = Path(spmd_programs.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr


WORKERS = """
import json, sys
import numpy as np
import gradtape as tf
from distribute import training
tf.config.optimizer.set_jit(True)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
assert strategy.num_replicas_in_sync == int(sys.argv[1])
found = {}
for kind in (training.loop, training.fit):
    for name in training.MODELS:
        losses, model = kind(tf, name, strategy, 50)
        weights = [w.ravel().tolist() for w in model.get_weights()]
        found[f"{kind.__name__} {name}"] = [losses, weights, training.paths(model)]
number = strategy.cluster_resolver.task_id or 0
with open(f"{sys.argv[2]}/{sys.argv[1]}-{number}.json", "w") as file:
    json.dump(found, file)
"""


def trained_by_workers(count, folder):
    """The losses and weights that each worker has."""
    (folder / "program.py").write_text(WORKERS)
    tests = Path(spmd_programs.__file__).parents[1]
    paths = os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "gradtape", "launch", "--nproc", str(count), str(folder / "program.py")]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [*command, str(count), str(folder)], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{count}-{number}.json").read_text()) for number in range(count)]


@pytest.mark.slow
def test_training_in_two_and_four_processes_equals_that_in_one(tmp_path):
    (alone,) = trained_by_workers(1, tmp_path)
    for count in (2, 4):
        first, *others = trained_by_workers(count, tmp_path)
        assert all(other == first for other in others)
        for name, (losses, weights, paths) in alone.items():
            np.testing.assert_allclose(first[name][0], losses, rtol=2e-6)
            training.assert_same_weights(paths, first[name][1], weights)


@pytest.mark.slow
def test_workers_may_be_killed_at_any_moment():
    path = Path(spmd_programs.__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, str(path), "--kills", "5"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "5 kills" in done.stdout


@pytest.mark.slow
def test_recorded_programs_run_on_all_devices():
    code = (
        "import json, warnings, gradtape as tf; from conformance import runner; warnings.simplefilter('ignore'); "
        "tf.config.optimizer.set_jit(True); print(json.dumps(runner.problems('distribute', tf)))"
    )
    folder = Path(spmd_programs.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: problem for name, problem in found.items() if problem is not None} == {}


def test_arguments_are_compared_by_value():
    def made(k):
        return lambda x: x + k

    assert alike({"a": (1, np.ones(2))}, {"a": (1, np.ones(2))})
    assert alike(made(1), made(1))
    assert not alike(made(1), made(2))
    assert not alike(np.ones(2), np.ones(2, np.float32))
    assert not alike((1,), [1])


def within_a_buffer(x):
    """An array like x somewhere in a larger piece of memory, as an allocator has it."""
    buffer = np.empty(x.nbytes + 64, np.uint8)
    inside = buffer[40 : 40 + x.nbytes].view(x.dtype).reshape(x.shape)
    inside[...] = x
    return inside


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex128", "bfloat16"])
@pytest.mark.parametrize("shape", [(8, 3), (8,)])
def test_rows_of_one_array_reach_the_devices_without_a_copy(dtype, shape):
    x = (np.arange(np.prod(shape)) % 5).reshape(shape).astype(tf.as_dtype(dtype).as_numpy_dtype)
    inside = within_a_buffer(x)
    in_order, in_buffer = np.split(x, 4), np.split(inside, 4)
    others = [in_order[::-1], np.split(x[::-1], 4), [*in_order[:3], in_buffer[3]], [part.copy() for part in in_order]]
    for parts, is_shared in ((in_order, True), (in_buffer, True), *((parts, False) for parts in others)):
        found = spmd_executor._as_one(parts)
        assert (found.tolist(), found.dtype) == (np.stack(parts).tolist(), x.dtype)
        assert any(np.shares_memory(found, array) for array in (x, inside)) is is_shared
