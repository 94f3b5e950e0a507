"""Run the conformance programs and the rows of the op table on the GPU.

python -m benchmarks.gpu.check [--rows] [--area jacobian,custom]

Tensors are made on the device (`tf.device("/GPU:0")`), so that every op runs there; results are compared with those
recorded from TensorFlow, or with the NumPy engine's. float32 products on a GPU are exact enough only when asked for
(`jax_default_matmul_precision`), which is done here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parents[2] / "tests"


def conformance(areas: str | None) -> int:
    from conformance import runner

    return runner.main([*(["--area", areas] if areas else [])]) or 0


def rows() -> int:
    """Values and gradients of every row's first sample: how many agree."""
    from op_table import ROWS
    from test_engines import LEAVES, LOOKS_AT_VALUES, NO_KERNEL, _derivatives, _on_xla, _same

    good, bad = 0, []
    for name, row in ROWS.items():
        if name in NO_KERNEL or name in LOOKS_AT_VALUES or name in LEAVES:
            continue
        try:
            ours, theirs = (_derivatives(row, row.samples[0], place) for place in (_on_xla, np.asarray))
            _same(ours, theirs, rtol=1e-5, atol=1e-8)
            good += 1
        except Exception as error:
            bad.append(f"{name}: {type(error).__name__} {str(error).strip().splitlines()[-1][:100]}")
    print("\n".join(bad))
    print(f"op table on the GPU: {good} rows agree with NumPy, {len(bad)} do not")
    return len(bad)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="store_true", help="the op table instead of the programs")
    parser.add_argument("--area", help="areas of programs, separated by commas")
    options = parser.parse_args()
    sys.path[:0] = [str(TESTS), str(TESTS / "arrays")]
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    import gradtape as tf

    if not tf.config.list_physical_devices("GPU"):
        print("There is no GPU here that JAX can see.")
        return 1
    if options.rows:
        return min(rows(), 1)
    with tf.device("/GPU:0"):
        return min(conformance(options.area), 1)


if __name__ == "__main__":
    sys.exit(main())
