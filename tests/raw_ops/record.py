"""Write down what TensorFlow returns for `calls.py`. Run it with a Python that has TensorFlow: `python record.py`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def plain(value):
    """A result as JSON: tensors as dtype, shape and numbers."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return {
            "dtype": array.dtype.name,
            "shape": array.shape,
            "values": [[float(v.real), float(v.imag)] for v in array.ravel()],
        }
    values = array.ravel().tolist()
    if array.dtype.kind == "f":
        values = [float(f"{v:.9g}") for v in values]
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": values}


def main():
    import tensorflow as tf
    from calls import calls

    recorded = {}
    for name, each in sorted(calls(tf).items()):
        for i, kwargs in enumerate(each):
            try:
                result = getattr(tf.raw_ops, name)(**kwargs)
            except Exception as error:
                print("FAILED", name, i, type(error).__name__, str(error)[:200])
                continue
            recorded[f"{name}-{i}"] = plain(result)
    text = "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.items()) + "\n}\n"
    Path(__file__).with_name("recorded.json").write_text(text)


if __name__ == "__main__":
    main()
