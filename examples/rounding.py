"""How many digits of a gradient are correct? `certify` bounds the rounding errors of two formulas for the same loss.

    python examples/rounding.py

The logistic loss log(1 + exp(z)) - z can be computed directly, or as softplus(-z). Both have the same derivative. In
float32, the first formula subtracts two nearly equal numbers if z is large, and its gradient, exp(z) / (1 + exp(z)) -
1, loses one digit after another. `certify` runs both formulas, encloses the exact gradient with interval arithmetic,
and names the ops that lose the digits.
"""

import numpy as np
from common import arguments, get_pyplot, save_picture

import gradtape as tf
from gradtape.testing import certify


def direct(z):
    return tf.math.log(1.0 + tf.exp(z)) - z


def with_softplus(z):
    return tf.nn.softplus(-z)


def main():
    chosen = arguments(__doc__, steps=60, quick=16)
    margins = np.linspace(0.5, 24, chosen.steps).astype("float32")
    digits = {}
    for f in (direct, with_softplus):
        found = [certify(f, z) for z in margins]
        errors = [float(c.gradient_error / abs(np.mean(c.enclosure))) for c in found]
        digits[f.__name__] = [min(-np.log10(e), 8) if 0 < e < 1 else 0.0 for e in errors]
        losses = f"most are lost in {found[-1].losses[0].op}" if found[-1].losses else "no op loses any"
        print(f"{f.__name__:<14} {min(digits[f.__name__]):4.1f} digits are guaranteed at worst; {losses}")
    print(f"Both bounds are proved: {all(certify(f, 3.0).proved for f in (direct, with_softplus))}")

    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for (name, values), color in zip(digits.items(), ("tab:red", "tab:blue"), strict=True):
        axes.plot(margins, values, color=color, marker=".", label=name.replace("_", " "))
    axes.set(
        title="The gradient of the logistic loss in float32",
        xlabel="z",
        ylabel="guaranteed decimal digits",
        ylim=(0, 8.3),
    )
    axes.legend()
    axes.grid(alpha=0.3)
    save_picture(figure, chosen.out, "rounding.png")


if __name__ == "__main__":
    main()
