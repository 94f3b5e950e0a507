"""Why is my gradient None? Eight small programs whose gradient is None, and what `tape.explain` says about them.

    python examples/explain_none.py

Each function below contains one classic mistake. `tape.gradient` returns None, as it does in TensorFlow. `tape.explain`
takes the same arguments and says why, and what to change; it recomputes nothing. In your own programs,
`tf.config.set_none_policy("warn")` reports every None automatically.
"""

import inspect
import textwrap

import numpy as np
from common import arguments, get_pyplot, save_picture

import gradtape as tf


def not_watched():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    return tape.gradient(y, x), tape.explain(y, x)


def replaced_by_a_tensor():
    x = tf.Variable(2.0)
    for _ in range(2):
        with tf.GradientTape() as tape:
            y = x + 1
        gradient, why = tape.gradient(y, x), tape.explain(y, x)
        x = x + 1  # this should be x.assign_add(1)
    return gradient, why


def left_the_library():
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = np.mean(x**2, axis=0)
        y = tf.reduce_mean(y, axis=0)
    return tape.gradient(y, x), tape.explain(y, x)


def integers():
    x = tf.constant(10)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x), tape.explain(y, x)


def passed_through_state():
    x, state = tf.Variable(3.0), tf.Variable(0.0)
    with tf.GradientTape() as tape:
        state.assign_add(x)
        y = state**2
    return tape.gradient(y, x), tape.explain(y, x)


def no_derivative():
    x = tf.Variable([0.2, 0.9])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.round(x))
    return tape.gradient(y, x), tape.explain(y, x)


def only_a_branch():
    x = tf.constant(1.0)
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = a if x > 0 else b
    return tape.gradient(y, x), tape.explain(y, x)


def outside_of_the_tape():
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        z = x * x
    y = z + 1
    return tape.gradient(y, x), tape.explain(y, x)


CASES = [
    not_watched, replaced_by_a_tensor, left_the_library, integers,
    passed_through_state, no_derivative, only_a_branch, outside_of_the_tape,
]  # fmt: skip


def program_of(case) -> str:
    """The lines of a case, without its first one and the `return`."""
    return textwrap.dedent("".join(inspect.getsourcelines(case)[0][1:-1])).rstrip()


def main() -> None:
    options = arguments(__doc__)
    answers = []
    for case in CASES:
        gradient, explanation = case()
        answers.append(explanation)
        print(f"--- {case.__name__.replace('_', ' ')}")
        print(textwrap.indent(program_of(case), "    "))
        print(f"\ngradient: {gradient}")
        print(f"{explanation}\n")
    print(f"{sum(answer.connected is False for answer in answers)} of {len(CASES)} gradients were None, all explained.")
    draw(options.out, answers)


def draw(out, answers) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, axes = pyplot.subplots(4, 2, figsize=(14, 10.5), layout="constrained")
    for axis, case, answer in zip(axes.flat, CASES, answers, strict=True):
        axis.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
        axis.set_title(case.__name__.replace("_", " "), loc="left", weight="bold", fontsize=11)
        axis.axhspan(0.45, 1, color="0.94")
        axis.text(0.015, 0.97, program_of(case), va="top", family="monospace", fontsize=8.5)
        axis.text(0.015, 0.42, f"None: {answer.reason.value}", va="top", fontsize=10, color="tab:red", weight="bold")
        axis.text(0.015, 0.32, textwrap.fill(answer.message, 98), va="top", fontsize=8.5)
        axis.text(0.015, 0.13, "fix: " + textwrap.fill(answer.fix, 100), va="top", fontsize=8.5, color="darkgreen")
    figure.suptitle("Eight gradients that are None: the program, the reason and the fix", fontsize=13)
    save_picture(figure, out, "explain_none.png")


if __name__ == "__main__":
    main()
