"""Tensors and Keras models that are divided over several devices."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gradtape as tf

PROGRAMS = Path(__file__).with_name("on_four_cpus.py")


def test_programs_on_four_cpus():
    done = subprocess.run([sys.executable, str(PROGRAMS)], capture_output=True, text=True, timeout=300)
    listed = re.search(r"PROGRAMS = \[(.*?)\]", PROGRAMS.read_text(), re.DOTALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert listed is not None
    assert re.findall(r"passed (\w+)", done.stdout) == re.findall(r"\w+", listed[1])


def test_a_mesh_of_one_device():
    dtensor = tf.experimental.dtensor
    mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    x = dtensor.copy_to_mesh(tf.constant([1.0, 2.0]), dtensor.Layout(["x"], mesh))
    assert dtensor.is_dtensor(x + 1.0)
    assert (x + 1.0).numpy().tolist() == [2.0, 3.0]
