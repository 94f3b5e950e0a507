"""AutoGraph: control flow over tensors inside `tf.function`, as TensorFlow converts it."""
# ruff: noqa: SIM102, SIM108, SIM201 - the forms of an `if` are what is tested

from __future__ import annotations

import functools
import logging
import subprocess
import sys
import traceback

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")
pytest.importorskip("malt")


def values(result):
    return tf.nest.map_structure(lambda t: t.numpy().tolist(), result)


def check(function, *arguments):
    """A function compiled does for each argument what it does as Python runs it."""
    compiled = tf.function(function)
    for argument in arguments:
        given = argument if isinstance(argument, tuple) else (argument,)
        given = [tf.constant(a) for a in given]
        eager = tf.nest.map_structure(lambda leaf: np.asarray(leaf).tolist(), function(*given))
        assert values(compiled(*given)) == eager
    assert compiled.experimental_get_tracing_count() == 1


# -- if --------------------------------------------------------------------------------------------------------------
def if_else(x):
    if tf.reduce_sum(x) > 0.0:
        y = x * x
    else:
        y = -3.0 * x
    return y


def if_without_else(x):
    y = x
    if x > 0.0:
        y = x * 2.0
    return y


def if_elif_return(x):
    if x > 0.0:
        return x * 1.0
    elif x < 0.0:
        return x * -2.0
    else:
        return x * 0.0 + 7.0


def return_inside_nested_ifs(x):
    if x > 0.0:
        if x > 10.0:
            return x * 100.0
    return -x


def numbers_become_tensors(x):
    if x > 0.0:
        n, kind = 1, 2.5
    else:
        n, kind = 2, 3.5
    return n, kind


def structures(x):
    found = {"a": x, "b": (x, 1)}
    if x > 0.0:
        found = {"a": x * 2.0, "b": (x + 1.0, 2)}
    return found


def conditional_expression(x):
    return x * 2.0 if x > 0.0 else -x


def logic(x):
    r = 0.0
    if 0.0 < x < 5.0 and not x == 3.0:
        r = 1.0
    elif x == 3.0 or x > 8.0:
        r = 2.0
    return r * x


@pytest.mark.parametrize(
    "function",
    [
        if_without_else,
        if_elif_return,
        return_inside_nested_ifs,
        numbers_become_tensors,
        structures,
        conditional_expression,
        logic,
    ],
    ids=lambda f: f.__name__,
)
def test_branches(function):
    check(function, 1.0, -1.0, 3.0, 7.0, 30.0, 0.0)


def test_if_else():
    check(if_else, [1.0, 2.0], [-1.0, -2.0])


def test_a_known_condition_picks_its_branch():
    seen = []

    @tf.function
    def f(x):
        if tf.constant(2) > 1:
            seen.append("taken")
        else:
            seen.append("not taken")
        if x is not None:
            seen.append("python")
        return x

    f(tf.constant(1.0))
    assert seen == ["taken", "python"]


def test_gradients_follow_the_branch_that_was_taken():
    f = tf.function(if_else)
    for x, expected in (([1.0, 2.0], [2.0, 4.0]), ([-1.0, -2.0], [-3.0, -3.0])):
        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert tape.gradient(y, x).numpy().tolist() == expected


def test_variables_are_assigned_in_the_branch_that_runs():
    v = tf.Variable(1.0)

    @tf.function
    def f(x):
        if x > 0.0:
            v.assign_add(x)
        else:
            v.assign(0.0)

    f(tf.constant(2.0))
    assert v.numpy() == 3.0
    f(tf.constant(-2.0))
    assert v.numpy() == 0.0


def only_in_main(x):
    if x > 0.0:
        y = 1
    return y


def only_in_else(x):
    if x > 0.0:
        pass
    else:
        y = 1
    return y


def another_dtype(x):
    if x > 0.0:
        y = 1.0
    else:
        y = 1
    return y


def another_shape(x):
    if x > 0.0:
        y = tf.ones([2])
    else:
        y = tf.ones([3])
    return y


def another_structure(x):
    if x > 0.0:
        y = (x, x)
    else:
        y = x
    return y


def another_object(x):
    if x > 0.0:
        y = "positive"
    else:
        y = "negative"
    return x if y == "positive" else -x


def no_return(x):
    if x > 0.0:
        return x


def another_dtype_in_a_loop(x):
    n = 0
    while x > 0.0:
        n = x
        x -= 1.0
    return n


def another_shape_in_a_loop(x):
    y = tf.zeros([1])
    while x > 0.0:
        y = tf.concat([y, y], 0)
        x -= 1.0
    return y


def read_before_it_is_set(x):
    while x > 0.0:
        x -= 1.0
        if x > 5.0:
            s = s + x  # noqa: F821
        else:
            s = x
    return s


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (only_in_main, ValueError, "'y' must also be initialized in the else branch"),
        (only_in_else, ValueError, "'y' must also be initialized in the main branch"),
        (another_dtype, TypeError, "'y' has dtype float32 in the main branch, but dtype int32 in the else branch"),
        (another_shape, ValueError, r"'y' has shape \(2,\) in the main branch, but shape \(3,\) in the else branch"),
        (another_structure, TypeError, "'y' does not have the same nested structure in the main and else branches"),
        (another_object, TypeError, "'y' is a string, which a compiled program cannot select"),
        (no_return, ValueError, "A value must also be returned from the else branch"),
        (another_dtype_in_a_loop, TypeError, "'n' has dtype int32 before the loop, but dtype float32 after one"),
        (another_shape_in_a_loop, ValueError, r"'y' has shape \(1,\) before the loop, but shape \(2,\) after one"),
        (read_before_it_is_set, ValueError, "'s' must be defined before the loop"),
    ],
    ids=lambda p: getattr(p, "__name__", None),
)
def test_what_cannot_be_staged(function, error, message):
    with pytest.raises(error, match=message):
        tf.function(function, jit_compile=True)(tf.constant(1.0))
    if function not in (another_shape, another_object):  # these run eagerly: see test_eager_functions
        with pytest.raises(error, match=message):
            tf.function(function)(tf.constant(1.0))


# -- loops -----------------------------------------------------------------------------------------------------------
def while_with_a_counter(x):
    n = 0
    while x < 100.0:
        x = x * x
        n += 1
    return x, n


def while_true_with_break(x):
    while True:
        x = x * 2.0
        if x > 50.0:
            break
    return x


def return_from_a_loop(x):
    i = 0
    while i < tf.constant(5):
        if x > 10.0:
            return x
        x = x * 2.0
        i += 1
    return -x


def for_with_break_and_continue(x):
    s = 0.0
    for i in tf.range(10):
        if i == 2:
            continue
        if s > 20.0:
            break
        s += x * tf.cast(i, tf.float32)
    return s


def loop_in_a_loop(x):
    for i in tf.range(3):
        for _ in tf.range(i):
            x = x * 2.0
    return x


def python_loop_with_break(x):
    n = 0
    for _ in range(5):
        if x > 10.0:
            break
        x = x * 2.0
        n += 1
    return x, n


def set_in_the_body_only(x):
    for i in tf.range(4):
        s = x * tf.cast(i, tf.float32)
    return s, i


@pytest.mark.parametrize(
    "function",
    [
        while_with_a_counter,
        while_true_with_break,
        return_from_a_loop,
        for_with_break_and_continue,
        loop_in_a_loop,
        python_loop_with_break,
        set_in_the_body_only,
    ],
    ids=lambda f: f.__name__,
)
def test_loops(function):
    check(function, 2.0, 3.0, 20.0)


def test_a_loop_that_does_not_run():
    check(while_with_a_counter, 200.0, 2.0)


def test_a_loop_that_has_to_run():
    @tf.function
    def f(n):
        for i in tf.range(n):
            last = i * 2
        return last

    assert f(tf.constant(3)).numpy() == 4
    with pytest.raises(tf.errors.InvalidArgumentError, match="loop must iterate at least once to initialize last"):
        f(tf.constant(0))


def range_of_unknown_length(n):
    t = 0
    for i in tf.range(2, n, 3):
        t += i
    for i in range(n):
        t += 10 * i
    for i in tf.range(n, 0, -2):
        t += 100 * i
    return t


def test_ranges():
    check(range_of_unknown_length, 12, 3, 2)


def test_a_range_of_unknown_length_is_compiled_for_loops_only():
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"length of this tf\.range is not known"):
        tf.function(lambda n: tf.range(n) * 2, jit_compile=True)(tf.constant(3))


def test_rows_and_their_gradients():
    @tf.function
    def f(x):
        s = tf.constant(1.0)
        for row in x:
            s = s * tf.reduce_sum(row)
        return s

    x = tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.numpy() == 6.0
    assert tape.gradient(y, x).numpy().tolist() == [[2.0, 2.0], [3.0, 3.0], [6.0, 6.0]]
    with pytest.raises(TypeError, match="Cannot iterate over a scalar tensor"):
        f(tf.constant(1.0))


def test_enumerate_and_zip_are_unrolled():
    @tf.function
    def f(x):
        s = 0.0
        for i, row in enumerate(x):
            s += i * row
        for a, b in zip(x, x, strict=True):
            s += a * b
        return s

    assert f(tf.constant([1.0, 2.0, 3.0])).numpy() == 22.0


def test_a_staged_body_is_run_once():
    log = []

    @tf.function
    def f(x, n):
        for _ in range(3):
            log.append("python")
        for _ in tf.range(4):
            log.append("known")
            x = x + 1.0
        for _ in tf.range(n):
            log.append("unknown")
            x = x + 1.0
        while x < 20.0:
            log.append("while")
            x = x * 2.0
        return x

    assert f(tf.constant(1.0), tf.constant(2)).numpy() == 28.0
    assert [log.count(name) for name in ("python", "known", "unknown", "while")] == [3, 1, 1, 1]


def test_gradient_of_a_while_loop():
    f = tf.function(while_with_a_counter)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, n = f(x)
    assert (y.numpy(), n.numpy(), n.dtype) == (6561.0, 3, tf.int32)
    assert tape.gradient(y, x).numpy() == pytest.approx(8 * 3.0**7)


def test_a_tape_around_a_loop_inside():
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(3):
                y = y * y
        return tape.gradient(y, x)

    assert f(tf.constant(2.0)).numpy() == 8 * 2.0**7


def test_variables_in_loops():
    v = tf.Variable(1.0)

    @tf.function
    def f(n):
        for _ in tf.range(n):
            v.assign_add(2.0)
        return v * 1.0

    assert f(tf.constant(3)).numpy() == 7.0
    assert v.numpy() == 7.0


@pytest.mark.parametrize("options", [{"size": 0, "dynamic_size": True}, {"size": 3}], ids=["dynamic", "fixed"])
@pytest.mark.parametrize("x", [2.0, [1.0, 2.0]], ids=["scalar", "vector"])
def test_tensor_arrays_in_loops(options, x):
    @tf.function
    def f(x):
        rows = tf.TensorArray(tf.float32, **options)
        for i in tf.range(3):
            rows = rows.write(i, x * tf.cast(i, tf.float32))
        return rows.stack()

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_array_equal(y, np.multiply.outer([0.0, 1.0, 2.0], x.numpy()))
    np.testing.assert_array_equal(tape.gradient(y, x), np.full(x.shape, 3.0))


def test_tensor_arrays_in_loops_of_unknown_length():
    @tf.function
    def f(x, n):
        rows = tf.TensorArray(tf.float32, size=4)
        for i in tf.range(n):
            rows = rows.write(i, x * 2.0)
            x = x + 1.0
        return rows.stack()

    assert f(tf.constant([1.0]), tf.constant(2)).numpy().tolist() == [[2.0], [4.0], [0.0], [0.0]]


# -- what is converted -----------------------------------------------------------------------------------------------
def helper(x):
    if x > 0.0:
        return x
    return -x


class Model:
    def __init__(self):
        self.scale = tf.Variable(2.0)
        self.__hidden = 3.0
        self.calls = None

    def absolute(self, x):
        if x > 0.0:
            return x * self.scale
        return -x * self.__hidden

    @tf.function
    def compiled(self, x):
        return self.absolute(x)

    def __call__(self, x):
        return self.absolute(x)


class Twice(Model):
    def absolute(self, x):
        if x > 100.0:
            return x
        return 2.0 * super().absolute(x)


def test_callables_of_every_kind():
    model, twice = Model(), Twice()
    partial = functools.partial(lambda k, x: helper(k * x), 3.0)
    offset = 10.0

    def closure(x):
        if x > 0.0:
            return x + offset
        return x - offset

    for f, expected in (
        (model.compiled, 6.0),
        (tf.function(model.absolute), 6.0),
        (tf.function(model), 6.0),
        (twice.compiled, 12.0),
        (tf.function(lambda x: twice.absolute(x)), 12.0),
        (tf.function(partial), 6.0),
        (tf.function(lambda x: helper(x)), 2.0),
        (tf.function(lambda x: model(x)), 6.0),
        (tf.function(closure), -12.0),
    ):
        assert f(tf.constant(-2.0)).numpy() == expected


def test_functions_given_to_control_flow_are_converted():
    @tf.function
    def f(x):
        return tf.map_fn(helper, x)

    assert f(tf.constant([1.0, -2.0])).numpy().tolist() == [1.0, 2.0]


def test_a_function_called_in_a_converted_one_is_converted():
    compiled = tf.function(helper)

    @tf.function
    def f(x):
        if x > -10.0:
            return compiled(x)
        return x

    assert f(tf.constant(-2.0)).numpy() == 2.0


def test_inner_functions_and_defaults():
    @tf.function
    def f(x, k=2.0, *, shift=1.0):
        def inner(y):
            if y > 0.0:
                return y * k
            return y + shift

        return inner(x), [inner(x * i) for i in range(2)]

    result, several = f(tf.constant(-3.0))
    assert (result.numpy(), values(several)) == (-2.0, [1.0, -2.0])


def outer(x):
    return x * 2.0


def inner(x):
    return x + 1.0


def test_functions_around_may_have_any_name():
    @tf.function
    def f(x):
        if x > 0.0:
            return inner(outer(x))
        return outer(inner(x))

    assert (f(tf.constant(3.0)).numpy(), f(tf.constant(-3.0)).numpy()) == (7.0, -4.0)


def test_do_not_convert():
    @tf.autograph.experimental.do_not_convert
    def plain(x):
        if x > 0.0:
            return x
        return -x

    @tf.function
    def f(x):
        return plain(x)

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match="as a Python `bool`"):
        f(tf.constant(1.0))
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match="as a Python `bool`"):
        tf.function(helper, autograph=False)(tf.constant(1.0))
    assert plain(tf.constant(-1.0)).numpy() == 1.0
    assert tf.autograph.experimental.do_not_convert()(helper) is helper
    del helper._gradtape_not_converted
    assert tf.autograph.experimental.do_not_convert("abc".upper)() == "ABC"


def test_libraries_are_left_alone():
    from gradtape._src.function.autograph import _converted

    for library in (np.linalg.norm, functools.reduce, subprocess.run, tf.reduce_sum, pytest.fail, traceback.print_exc):
        assert _converted(library) is library
    assert _converted(helper) is not helper
    assert _converted(helper).__qualname__ == "helper"
    assert _converted(int) is int
    assert _converted(Model) is Model

    def generator(x):
        yield x

    assert _converted(generator) is generator


def test_a_function_without_source_runs_as_it_is(caplog):
    space = {}
    exec(compile("def double(x):\n    return 2.0 * x\n", "<no such file>", "exec"), space)
    with caplog.at_level(logging.WARNING, "tensorflow"):
        assert tf.function(space["double"])(tf.constant(2.0)).numpy() == 4.0
        assert tf.function(space["double"])(tf.constant(3.0)).numpy() == 6.0
    assert caplog.text.count("AutoGraph could not transform") == 1
    assert "do_not_convert" in caplog.text


def test_the_source_of_another_function_is_not_taken(tmp_path):
    """Python looks for the source of code that has no file in the file of the main program."""
    program = """
import gradtape as tf
def other(x):
    return -x
space = {"__name__": "__main__", "__loader__": __loader__}
exec(compile("\\n\\ndef double(x):\\n    return 2.0 * x\\n", "cell", "exec"), space)
print(float(tf.function(space["double"])(tf.constant(2.0))))
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.stdout == "4.0\n", done.stderr


def test_functions_of_python():
    @tf.function
    def f(x):
        return int(x) + 1, float(tf.cast(x, tf.int32)) * 2.0, len(tf.stack([x, x])), int("7"), locals()["x"], eval("x")

    result = f(tf.constant(2.75))
    assert values(result) == (3, 4.0, 2, 7, 2.75, 2.75)
    assert [t.dtype for t in result[:2]] == [tf.int32, tf.float32]


def test_extremes():
    @tf.function
    def f(x, y):
        return max(x, y, 0.0), min(x, y), max(tf.stack([x, y])), min(tf.stack([x, y])), max(1, 2), min([3, 4])

    assert values(f(tf.constant(-2.0), tf.constant(-1.0))) == (0.0, -2.0, -1.0, -2.0, 2, 3)
    with pytest.raises(ValueError, match="rank 1"):
        tf.function(lambda x: max(x))(tf.constant(1.0))


def python_alone(x, *args, flag=True, **kwargs):
    """Everything here is decided by Python."""
    found = []
    try:
        if args and args[0] == 1:
            return "early"
        found.append(1)
    finally:
        found.append("finally")
    count = 0

    def increase(by=1):
        nonlocal count
        count += by
        return count if count > 3 else -count

    found += [increase(), increase(5)]
    if (length := len(found)) > 2:
        found.append(length)

    class Local:
        def go(self, y):
            return y + 1 if y else 0

    found += [Local().go(3), [i for i in range(5) if i % 2], dict(kwargs)]
    a, (b, *c) = 1, [2, 3, 4]
    found.append((a, b, c))
    t = 5
    while t:
        t -= 1
        if t == 2:
            break
    for i in range(10):
        if i == 1:
            continue
        if i > 3:
            break
    found += [t, i]
    try:
        raise ValueError("caught")
    except ValueError as error:
        found.append(str(error))
    del a
    try:
        found.append(a)  # noqa: F821
    except UnboundLocalError as error:
        found.append(type(error))
    found.append(f"{length:>3}{'!' if flag else '?'}")
    found.append(sorted([3, 1, 2], key=lambda v: -v))
    found.append((lambda *q, **r: (q, r))(1, *[2], z=3))
    found.append([1 if not flag else 2, 0 < length < 10, (flag and "yes") or "no"])
    return found


def test_code_without_tensors_does_the_same_when_it_is_converted(caplog):
    from gradtape._src.function.autograph import _converted

    converted = _converted(python_alone)
    assert converted is not python_alone
    assert converted.__doc__ == python_alone.__doc__
    for args, kwargs in (((1,), {}), ((1, 1), {}), ((1, 2), {"flag": False, "z": 2})):
        assert converted(*args, **kwargs) == python_alone(*args, **kwargs)
    assert not caplog.text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 code does not know its columns")
def test_lambdas_in_one_line():
    f, g = tf.function(lambda x: x if x > 0.0 else -x), tf.function(lambda x: x if x < 0.0 else -x)
    assert (f(tf.constant(-2.0)).numpy(), g(tf.constant(2.0)).numpy()) == (2.0, -2.0)


def test_python_lists_are_pythons():
    @tf.function
    def f(x):
        found = []
        for i in range(3):
            found.append(x * i)
        return tf.stack(found)

    assert f(tf.constant(2.0)).numpy().tolist() == [0.0, 2.0, 4.0]


# -- assert ----------------------------------------------------------------------------------------------------------
def test_assertions_are_checked_when_the_program_runs():
    @tf.function
    def f(x):
        for i in tf.range(3):
            assert x < 10.0, ["too large", x, i]
            x = x * 2.0
        if x > 50.0:
            assert x < 0.0
        return x

    assert f(tf.constant(1.0)).numpy() == 8.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[too large\] \[12\] \[2\]"):
        f(tf.constant(3.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        f(tf.constant(9.0))
    assert f(tf.constant(1.0)).numpy() == 8.0
    assert f.experimental_get_tracing_count() == 1


def test_an_assertion_alone_in_a_branch():
    v = tf.Variable(0.0)

    @tf.function
    def f(x):
        v.assign_add(1.0)
        if x > 0.0:
            assert x > 5.0, "between"

    f(tf.constant(-1.0))
    f(tf.constant(6.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="between"):
        f(tf.constant(1.0))
    assert v.numpy() == 2.0  # as before the call


def test_assertions_of_python_values():
    @tf.function
    def f(x, flag):
        assert flag, "flag is needed"
        assert x.shape == ()
        return x

    assert f(tf.constant(1.0), True).numpy() == 1.0
    with pytest.raises(AssertionError, match="flag is needed"):
        f(tf.constant(1.0), False)


# -- errors ----------------------------------------------------------------------------------------------------------
def raises_here(x):
    if x > 0.0:
        x = x * 2.0
        raise KeyError("no such thing")
    return x


def test_tracebacks_show_the_code_as_it_was_written():
    @tf.function
    def f(x):
        for _ in tf.range(3):
            x = raises_here(x)
        return x

    with pytest.raises(KeyError, match="no such thing") as caught:
        f(tf.constant(1.0))
    frames = [(frame.name, frame.line) for frame in traceback.extract_tb(caught.tb) if frame.filename == __file__]
    assert frames[1:] == [
        ("f", "for _ in tf.range(3):"),
        ("f", "x = raises_here(x)"),
        ("raises_here", "if x > 0.0:"),
        ("raises_here", 'raise KeyError("no such thing")'),
    ]


def test_attributes_get_their_values_back_after_an_error():
    class Counter:
        count = 0

    counter = Counter()
    counter.count = 5

    @tf.function
    def f(x):
        if x > 0.0:
            counter.count = x
            raise ValueError("stop")
        return x

    with pytest.raises(ValueError, match="stop"):
        f(tf.constant(1.0))
    assert counter.count == 5


# -- without malt ----------------------------------------------------------------------------------------------------
def test_without_malt_functions_are_traced_as_they_are():
    code = """
import sys
sys.modules["malt"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "malt" else find(name, *rest)
import gradtape as tf
f = tf.function(lambda x: x * 2.0)
assert f(tf.constant(2.0)).numpy() == 4.0
g = tf.function(lambda x: x if x > 0.0 else -x)
assert (g(tf.constant(2.0)).numpy(), g(tf.constant(-2.0)).numpy()) == (2.0, 2.0)
assert "runs eagerly" in g.summary() and "pip install 'gradtape[xla]'" in g.summary()
try:
    tf.function(lambda x: x if x > 0.0 else -x, jit_compile=True)(tf.constant(2.0))
except tf.errors.OperatorNotAllowedInGraphError as error:
    assert "pip install 'gradtape[xla]'" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
