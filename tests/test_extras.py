"""Without an extra, what needs it says which command installs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
for name in ("jax", "keras", "malt", "PIL", "absl"):
    sys.modules[name] = None  # as if it were not installed
import gradtape as tf

class Doubled(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def __call__(self, x):
        return x * 2.0

def import_keras():
    from gradtape.keras import layers

calls = {
    "keras": lambda: tf.keras.layers,
    "from gradtape.keras": import_keras,
    "engine": lambda: tf.config.set_engine("xla"),
    "gpu": lambda: tf.constant(1.0).gpu(),
    "mesh": lambda: tf.experimental.dtensor.create_mesh([("x", 1)], devices=["CPU:0"]),
    "save": lambda: tf.saved_model.save(Doubled(), sys.argv[1]),
    "profiler": lambda: tf.profiler.experimental.start(sys.argv[1]),
    "image": lambda: tf.io.encode_png(tf.zeros([1, 1, 1], tf.uint8)),
    "flags": lambda: tf.compat.v1.flags.DEFINE_string("name", "", ""),
}
said = {}
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""

COMMANDS = {
    "keras": "pip install 'gradtape[keras]'",
    "from gradtape.keras": "pip install 'gradtape[keras]'",
    "engine": "pip install 'gradtape[xla]'",
    "gpu": "pip install 'gradtape[xla]'",
    "mesh": "pip install 'gradtape[xla]'",
    "save": "pip install 'gradtape[xla]'",
    "profiler": "pip install 'gradtape[xla]'",
    "image": "pip install 'gradtape[viz]'",
    "flags": "pip install absl-py",
}


@pytest.mark.parametrize("version", [sys.version_info[:2], (3, 10)], ids=["here", "on Python 3.10"])
def test_errors_name_the_command(version, tmp_path):
    old = f"import sys; sys.version_info = {(*version, 0, 'final', 0)!r}\n" if version != sys.version_info[:2] else ""
    done = subprocess.run(
        [sys.executable, "-c", old + PROGRAM, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    for name, command in COMMANDS.items():
        if version < (3, 11) and command.endswith(("[keras]'", "[xla]'")):
            command = "needs Python 3.11 or newer, but this is Python 3.10"
        assert command in said.get(name, "no error"), name
