"""`gradtape run` of notebooks, of `-c`, of the standard input, and `-i`."""

from __future__ import annotations

import json
import subprocess
import sys


def gradtape(*arguments, text=None):
    return subprocess.run(
        [sys.executable, "-m", "gradtape", "run", *arguments], input=text, capture_output=True, text=True, check=False
    )


def notebook(path, *cells):
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}))
    return str(path)


def test_a_notebook(tmp_path):
    path = notebook(
        tmp_path / "n.ipynb",
        ["%matplotlib inline\n", "!pip install tensorflow\n", "import tensorflow as tf"],
        "@tf.function\ndef f(x):\n    if x > 0:\n        return x * 2\n    return x",
        "%%bash\nexit 1",
        "tf.constant?\nprint(float(f(tf.constant(3.0))), __name__)\ndisplay(1)",
    )
    ended = gradtape(path)
    assert (ended.stdout, ended.returncode) == ("6.0 __main__\n1\n", 0), ended.stderr


def test_an_error_in_a_notebook_shows_its_line(tmp_path):
    ended = gradtape(notebook(tmp_path / "n.ipynb", "x = 0", "1 / x"))
    assert ended.returncode == 1
    assert "1 / x" in ended.stderr
    ended = gradtape(str(tmp_path / "missing.ipynb"))
    assert "can't open file" in ended.stderr
    (tmp_path / "bad.ipynb").write_text("[]")
    assert "is no notebook: it has no cells" in gradtape(str(tmp_path / "bad.ipynb")).stderr


def test_a_command_and_the_standard_input():
    ended = gradtape("-c", "import tensorflow as tf, sys; print(float(tf.square(3.0)), sys.argv)", "a")
    assert ended.stdout == "9.0 ['-c', 'a']\n"
    assert gradtape("-", "b", text="import sys; print(sys.argv)").stdout == "['-', 'b']\n"
    assert "needs a program" in gradtape("-c").stderr


def test_the_prompt_goes_on():
    ended = gradtape("-i", "-c", "y = 41; 1 / 0", text="print(y + 1)\n")
    assert "42" in ended.stdout
    assert ("ZeroDivisionError" in ended.stderr, ended.returncode) == (True, 1)
    assert "tensorflow" in gradtape("-i", text="import tensorflow as tf; print(tf.__name__)\n").stdout
