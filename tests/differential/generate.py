"""Make random questions, one expression a line: ops, shapes, dtypes, kinds of numbers and kinds of derivative.

    cd tests && python -m differential.generate 300 --seed 0 > differential/questions/random.txt
    cd tests && python -m differential.record random

The same seed makes the same questions. Another seed tries others: whatever differs then is a bug, or belongs into
`differences` and docs/differences.md.
"""

from __future__ import annotations

import argparse
import random

FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16")
SHAPES = ([], [1], [3], [5], [2, 3], [3, 1], [1, 3], [0], [2, 0, 3], [4, 3, 2], [7], [2, 1, 2, 2])


def _names(text: str) -> list[str]:
    return text.split()


UNARY = _names(
    "abs acos acosh asin asinh atan atanh cos cosh exp floor math.ceil math.digamma math.erf math.erfc math.expm1 "
    "math.lgamma math.log math.log1p math.log_sigmoid math.reciprocal math.reciprocal_no_nan math.rint math.rsqrt "
    "math.softplus math.softsign negative nn.elu nn.gelu nn.leaky_relu nn.log_softmax nn.relu nn.relu6 nn.selu "
    "nn.silu nn.softmax round sigmoid sign sin sinh sqrt square tan tanh math.bessel_i0e math.bessel_i1e "
    "math.special.dawsn math.ndtri math.erfinv math.l2_normalize math.cumsum math.cumprod math.cumulative_logsumexp"
)
SMOOTH_COMPLEX = _names("abs cos cosh exp math.log math.reciprocal sigmoid sin sinh sqrt square tan tanh math.angle")
BINARY = _names(
    "add subtract multiply divide maximum minimum atan2 pow math.divide_no_nan math.floordiv math.floormod "
    "math.multiply_no_nan math.squared_difference math.xdivy math.xlog1py math.xlogy math.igamma math.igammac "
    "math.zeta math.polygamma"
)
REDUCTIONS = _names(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_logsumexp math.reduce_std math.reduce_variance "
    "norm math.reduce_euclidean_norm nn.moments"
)
WHOLE = _names("add subtract multiply maximum minimum math.floordiv math.floormod equal less bitwise.bitwise_and")
FORMS = ("{0}({1})", "grad({0}, {1})", "grad({0}, {1}, order=2)", "jacobian({0}, {1})", "jvp({0}, {1})")


def question(rng: random.Random) -> str:
    """One expression."""
    shape, kind = rng.choice(SHAPES), rng.choice(("normal", "normal", "ties", "big"))
    group = rng.choice(("unary", "unary", "binary", "reduction", "complex", "whole"))
    dtype = rng.choice({"complex": COMPLEX, "whole": INTEGERS}.get(group, FLOATS))

    def drawn(shape: list[int]) -> str:
        return f"draw({rng.randrange(1000)}, {shape}, {dtype!r}, {kind!r})"

    first = drawn(shape)
    if group in ("binary", "whole"):
        less = [1 if rng.random() < 0.3 else n for n in shape][rng.choice((0, 0, len(shape) // 2)) :]
        name, values = rng.choice(BINARY if group == "binary" else WHOLE), f"{first}, {drawn(less)}"
    else:
        name, values = rng.choice({"unary": UNARY, "complex": SMOOTH_COMPLEX, "reduction": REDUCTIONS}[group]), first
    function = f"tf.{name}"
    if group == "reduction":
        axis = rng.choice((None, 0, -1, list(range(len(shape))), [])) if shape else rng.choice((None, []))
        axis = list(range(len(shape))) if axis is None and name == "nn.moments" else axis
        axis = [axis] if name == "nn.moments" and isinstance(axis, int) else axis
        keep = "" if name == "norm" else f", keepdims={rng.random() < 0.3}"
        function = f"(lambda x: tf.{name}(x, axis={axis}{keep}))".replace("moments(x, axis=", "moments(x, axes=")
    forms = FORMS[:1] if group == "whole" else FORMS[:3] if name == "nn.moments" else FORMS
    return rng.choice(forms).format(function, values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many questions")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    found: dict[str, None] = {}
    while len(found) < given.count:
        found[question(rng)] = None
    print("\n".join(found))


if __name__ == "__main__":
    main()
