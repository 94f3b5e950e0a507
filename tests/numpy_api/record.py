"""Write down what TensorFlow returns for `calls.py`. Run it with a Python that has TensorFlow: `python record.py`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def plain(value):
    """A result as JSON: tensors and arrays as dtype, shape and numbers, others as text."""
    if isinstance(value, (list, tuple)) and type(value).__name__ in ("list", "tuple"):
        return [plain(each) for each in value]
    if not hasattr(value, "numpy") and not isinstance(value, (np.ndarray, np.generic)):
        return {"python": str(value).replace("<dtype: '", "tf.").replace("'>", "")}
    array = np.asarray(value)
    values = array.ravel()
    if array.dtype.kind == "c":
        listed = [[float(f"{v.real:.9g}"), float(f"{v.imag:.9g}")] for v in values.tolist()]
    else:
        listed = [float(f"{v:.9g}") for v in values.tolist()] if array.dtype.kind == "f" else values.tolist()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": listed}


def names(tf):
    """What the expressions use."""
    n = tf.experimental.numpy
    return {
        "tf": tf,
        "n": n,
        "x": n.array([-1.5, 0.0, 2.0]),
        "y": n.array([0.5, -2.0, 2.0]),
        "m": n.array([[3, 1, 2], [6, 5, 4]]),
        "t": n.reshape(n.arange(8.0), (2, 2, 2)),
    }


def main():
    """Record."""
    import tensorflow as tf
    from calls import calls

    recorded = {}
    for call in calls():
        try:
            recorded[call] = plain(eval(call, names(tf)))
        except Exception as error:
            print("FAILED", call, type(error).__name__, str(error)[:100].split("\n")[0])
    text = "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.items()) + "\n}\n"
    Path(__file__).with_name("recorded.json").write_text(text)


if __name__ == "__main__":
    main()
