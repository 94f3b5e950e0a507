"""Store TensorFlow's answers: `python -m tests.tf_cases.record signal image random`, where TensorFlow is installed."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Any

import numpy as np

DATA = pathlib.Path(__file__).parent.parent / "data"


def answers(tf: Any, family: str) -> dict[str, Any]:
    """Case/number -> array; a case that fails stores the class of its error."""
    found: dict[str, Any] = {}
    for name, case in importlib.import_module(f"tests.tf_cases.{family}").cases(tf).items():
        try:
            results = case()
        except Exception as error:
            found[f"{name}/error"] = np.array(type(error).__name__)
            continue
        for i, result in enumerate(results):
            if result is None:
                found[f"{name}/{i}"] = np.array("None")
                continue
            found[f"{name}/{i}"] = np.asarray(result.numpy() if hasattr(result, "numpy") else result)
    return found


if __name__ == "__main__":
    import tensorflow as tf

    for family in sys.argv[1:]:
        np.savez_compressed(DATA / f"{family}_tensorflow.npz", **answers(tf, family))
