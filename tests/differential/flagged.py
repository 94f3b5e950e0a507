"""The random cases of an attack folder whose answers differ from TensorFlow's, each with its cause.

    cd tests && python -m differential.flagged FOLDER eager ANSWERS.pkl

FOLDER holds `diff.py`, which decides which cases differ, and TensorFlow's recorded answers; ANSWERS.pkl is what
`diff.py run gradtape` wrote. `flagged.json` has the cause of each case, by mode and seed, and `CAUSES` quotes the
sentence about it from docs/differences.md. A case that differs without a cause, or that has one and does not differ any
more, ends the script with status 1. The other mode is "function".
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CAUSES = {
    "labels": "the second derivative of `tf.nn.softmax_cross_entropy_with_logits` with respect to the labels",
    "denormal numbers": "Denormal numbers (in float32 those below 1.2e-38) are 0 for TensorFlow's kernels",
    "complex infinity": "Complex numbers divided by 0 or by infinity",
    "complex sign": "`tf.sign` of a complex number whose square underflows has absolute value 1",
    "overflow": "Functions whose intermediate results overflow return the correct number",
    "rounding": "Results with few significant digits because of cancellation agree in these digits",
    "matrix products": "Products of matrices whose terms overflow may be infinite in one library only.",
    "Jacobian": "The Jacobian of an elementwise function is 0 off its diagonal",
    "function": "Where the first derivative is infinite or NaN, TensorFlow's second derivative of a `tf.function`",
    "no conjugates": "gradients of complex `xlogy`, `det`, `slogdet` and `sqrtm`, which TensorFlow does not conjugate",
    "zeta": "float32 `tf.math.zeta` and `tf.math.polygamma` of a second argument below about -8",
    "bessel": "derivatives of the Bessel functions at and next to 0",
    "igamma": "close to 0 (they are 0 and 1 at 1.2e-38, instead of 1 and 0), and the derivative of `igamma` by it",
    "cast": "Floating-point numbers beyond the range of an integer dtype saturate",
    "backward pass": "or fails in the backward pass",
    "empty tensors": "For empty tensors TensorFlow raises an error for the gradients of",
    "reversed scalar": "`tf.reverse` of a scalar has a Jacobian",
    "Jacobian of expm": "`jacobian` of a function with `tf.linalg.expm` under nested tapes",
    "oneDNN": "The kernels of oneDNN, which TensorFlow uses by default on a CPU",
    "uninitialized filters": "gradients with respect to the filters of such convolutions are uninitialized memory",
    "uninitialized spectrum": "returns uninitialized memory for `tf.signal.rfft` of an empty signal",
    "dtypes": "Some ops take dtypes for which TensorFlow has no kernel",
    "dtypes of functions": "In functions, TensorFlow rejects dtypes that it accepts eagerly",
}
"""The causes, and what docs/differences.md says about each."""

HERE = Path(__file__).parent
RECORDED = {"eager": "tf_eager_1000_9000.pkl", "function": "tf_function_1000_2000.pkl"}


def load() -> dict[str, dict[int, str]]:
    """The cause of each case, by mode and seed."""
    found = json.loads((HERE / "flagged.json").read_text())
    return {mode: {seed: cause for cause, seeds in causes.items() for seed in seeds} for mode, causes in found.items()}


def differing(folder: Path, mode: str, answers: Path) -> Iterator[tuple[int, str]]:
    """Seeds of the cases that `diff.py` of the folder flags, and what it says about them."""
    spec = importlib.util.spec_from_file_location("attack_diff", folder / "diff.py")
    assert spec is not None
    assert spec.loader is not None
    diff = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(diff)
    expected, found = (pickle.loads(path.read_bytes()) for path in (folder / RECORDED[mode], answers))
    with tempfile.TemporaryDirectory() as scratch:
        for seed in sorted(expected.keys() & found.keys()):
            said = _compare(diff, Path(scratch), seed, expected[seed], found[seed])
            if "failures 0 " not in said:
                yield seed, said.splitlines()[0]


def _compare(diff: Any, scratch: Path, seed: int, expected: Any, found: Any) -> str:
    paths = scratch / "expected", scratch / "found"
    for path, value in zip(paths, (expected, found), strict=True):
        path.write_bytes(pickle.dumps({seed: value}))
    with contextlib.redirect_stdout(io.StringIO()) as text:
        diff.compare(*map(str, paths), verbose=False)
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=RECORDED)
    parser.add_argument("answers", type=Path, help="what diff.py run gradtape wrote")
    given = parser.parse_args()
    causes, seen = load()[given.mode], {}
    for seed, said in differing(given.folder, given.mode, given.answers):
        seen[seed] = causes.get(seed, "NO CAUSE")
        print(f"{seed} {seen[seed]}: {said[:160]}")
    gone = sorted(causes.keys() - seen.keys())
    for cause, count in Counter(seen.values()).most_common():
        print(f"{count:4d} {cause}")
    print(len(seen), "cases differ; listed, but equal now:", gone or "none")
    sys.exit(1 if gone or "NO CAUSE" in seen.values() else 0)


if __name__ == "__main__":
    main()
