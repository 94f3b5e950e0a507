"""Programs whose shapes, values and arguments change from call to call: more families of functions.py."""

# ruff: noqa: B007, B008, E731, E741, F841, PIE807, RUF059 - programs as users write them

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np


def growing_variables(tf: Any, case: Any) -> None:
    C = tf.constant

    def open_vector(*values: float) -> Any:
        return tf.Variable(list(values), shape=[None])

    def grown(function: Any, of: Any = None, values: Any = ([1.0], [1.0, 2.0], [1.0, 2.0, 3.0])) -> list[Any]:
        """Results, gradients and Jacobians of a function of a variable while it grows between the calls."""
        v = tf.Variable(values[0], shape=of)
        f = tf.function(lambda: function(v))
        out = []
        for value in values:
            v.assign(value)
            with tf.GradientTape(persistent=True) as tape:
                y = f()
            out.append([y, tape.gradient(y, v), tape.jacobian(y, v)])
        return out

    def second(function: Any, of: Any, values: Any) -> list[Any]:
        v = tf.Variable(values[0], shape=of)
        f = tf.function(lambda: function(v))
        out = []
        for value in values:
            v.assign(value)
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    y = f()
                g = inner.gradient(y, v)
            out.append([y, g, outer.gradient(g, v)])
        return out

    rows = ([[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.zeros([0, 3], np.float32))
    ranks = (1.5, [1.0, 2.0], [[3.0, 1.0]])
    unknown = tf.TensorShape(None)
    for name, function in {
        "square": lambda v: v * v,
        "sum": lambda v: tf.reduce_sum(v * v),
        "mean": lambda v: tf.reduce_mean(v * v),
        "size": lambda v: tf.cast(tf.size(v), tf.float32) * tf.reduce_sum(v),
        "shape": lambda v: tf.cast(tf.reduce_prod(tf.shape(v)), tf.float32) + tf.reduce_sum(v),
        "zeros_like": lambda v: tf.reduce_sum(v * tf.ones_like(v) * 3.0),
        "flat": lambda v: tf.reshape(v, [-1]) * 2.0,
        "broadcast": lambda v: tf.reduce_sum(v + tf.constant(1.0)),
    }.items():
        case(lambda function=function: grown(function, [None]), f"gv_vector_{name}")
        case(lambda function=function: grown(function, [None, 3], rows[:2]), f"gv_rows_{name}")
        case(lambda function=function: grown(function, unknown, ranks), f"gv_rank_{name}")
    case(lambda: grown(lambda v: tf.reduce_sum(v * v), [None, 3], rows), "gv_empty")
    for name, function in {
        "cube": lambda v: tf.reduce_sum(v**3),
        "product": lambda v: tf.reduce_prod(v),
        "mean": lambda v: tf.reduce_mean(tf.square(v)) ** 2,
    }.items():
        case(lambda function=function: second(function, [None], ([1.0], [1.0, 2.0])), f"gv_second_{name}")
        case(lambda function=function: second(function, unknown, ranks), f"gv_second_rank_{name}")
    for name, function in {
        "gather": lambda v: tf.gather(v, [0, 0]),
        "slice": lambda v: v[:1] * v[-1],
        "concat": lambda v: tf.concat([v, v], 0) * 2.0,
        "outer": lambda v: v[:, None] * v[None, :],
        "cumsum": lambda v: tf.cumsum(v),
        "reverse": lambda v: tf.reverse(v, [0]) * v,
        "softmax": lambda v: tf.nn.softmax(v),
        "where": lambda v: tf.where(v > 1.5, v * v, v),
        "map": lambda v: tf.map_fn(lambda e: e * e, v),
        "scan": lambda v: tf.scan(lambda a, e: a + e, v),
        "stop": lambda v: tf.stop_gradient(v) * v,
        "round": lambda v: tf.round(v) * v,
        "len": lambda v: v * tf.cast(tf.shape(v)[0], tf.float32),
        "split": lambda v: tf.stack(tf.unstack(tf.gather(v, [0, 0]))),
        "pad": lambda v: tf.pad(v, [[1, 0]]) * 2.0,
        "tile": lambda v: tf.tile(v, [2]),
        "range": lambda v: v * tf.range(tf.cast(tf.size(v), tf.float32)),
        "boolean_mask": lambda v: tf.boolean_mask(v, v > 0.5) * 2.0,
        "sort": lambda v: tf.sort(v, direction="DESCENDING"),
    }.items():
        case(lambda function=function: grown(function, [None]), f"gv_{name}")

    @case
    def gv_forward():
        v = open_vector(1.0)
        f = tf.function(lambda: v * v)
        out = []
        for value in ([1.0], [1.0, 2.0]):
            v.assign(value)
            with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as acc:
                y = f()
            out.append([y, acc.jvp(y)])
        return out

    @case
    def gv_inside():
        v = open_vector(1.0)

        @tf.function
        def f():
            v.assign(tf.concat([v, v], 0))
            return tf.size(v), v * 2.0

        return f(), f(), v, v.shape.as_list()

    @case
    def gv_inside_gradient():
        v = open_vector(1.0)

        @tf.function
        def f():
            v.assign(tf.concat([v, [2.0]], 0))
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(v * v)
            return y, tape.gradient(y, v)

        return f(), f(), v

    @case
    def gv_inside_outer_tape():
        v = open_vector(1.0)

        @tf.function
        def f(x):
            v.assign(tf.concat([v, [2.0]], 0))
            return tf.reduce_sum(v * v) * x

        out = []
        for _ in range(2):
            x = C(3.0)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = f(x)
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def gv_inside_jacobian():
        v = open_vector(1.0)

        @tf.function
        def f():
            v.assign(tf.concat([v, [2.0]], 0))
            with tf.GradientTape() as tape:
                y = v * v
            return tape.jacobian(y, v)

        return f(), f()

    @case
    def gv_loop_grow():
        v = open_vector(1.0)

        @tf.function
        def f(n):
            for i in tf.range(n):
                v.assign(tf.concat([v, [tf.cast(i, tf.float32)]], 0))
            return tf.size(v), tf.reduce_sum(v)

        return f(C(2)), f(C(3)), f(C(0)), v

    @case
    def gv_loop_add():
        v = open_vector(1.0)

        @tf.function
        def f(n):
            for i in tf.range(n):
                v.assign_add(tf.ones_like(v))
            return v + 0.0

        a = f(C(2))
        v.assign([1.0, 2.0, 3.0])
        return a, f(C(3)), v

    @case
    def gv_loop_read_gradient():
        v = open_vector(1.0)

        @tf.function
        def f(n):
            s = 0.0
            for i in tf.range(n):
                s += tf.reduce_sum(v * v)
            return s

        out = []
        for value in ([1.0], [1.0, 2.0]):
            v.assign(value)
            with tf.GradientTape() as tape:
                y = f(C(2))
            out.append([y, tape.gradient(y, v)])
        return out

    @case
    def gv_loop_over():
        v = open_vector(1.0)

        @tf.function
        def f():
            s = 0.0
            for e in v:
                s += e * e
            return s

        out = []
        for value in ([1.0], [1.0, 2.0]):
            v.assign(value)
            with tf.GradientTape() as tape:
                y = f()
            out.append([y, tape.gradient(y, v)])
        return out

    @case
    def gv_while_size():
        v = open_vector(1.0)

        @tf.function
        def f():
            while tf.size(v) < 4:
                v.assign(tf.concat([v, [0.5]], 0))
            return v * 1.0

        a = f()
        v.assign([1.0, 2.0])
        return a, f(), f()

    @case
    def gv_cond():
        v = open_vector(1.0)

        @tf.function
        def f(go):
            if go:
                v.assign(tf.concat([v, [2.0]], 0))
            return tf.size(v), v * 1.0

        return f(C(True)), f(C(False)), f(C(True)), v

    @case
    def gv_cond_gradient():
        v = open_vector(1.0)
        f = tf.function(lambda go: tf.cond(go, lambda: tf.reduce_sum(v * v), lambda: tf.reduce_sum(v)))
        out = []
        for value in ([1.0], [1.0, 2.0]):
            v.assign(value)
            for go in (True, False):
                with tf.GradientTape() as tape:
                    y = f(C(go))
                out.append([y, tape.gradient(y, v)])
        return out

    @case
    def gv_cond_shape():
        v = open_vector(1.0)
        f = tf.function(lambda go: tf.cond(go, lambda: v * 2.0, lambda: v[:1]))
        a = f(C(True))
        v.assign([1.0, 2.0])
        return a, f(C(True)), f(C(False))

    @case
    def gv_rank_inside():
        v = tf.Variable(1.0, shape=unknown)

        @tf.function
        def f(x):
            v.assign(x)
            return tf.rank(v), tf.shape(v), tf.reduce_sum(v)

        return f(C(1.0)), f(C([1.0, 2.0])), f(C([[1.0, 2.0]]))

    @case
    def gv_argument():
        v = open_vector(1.0)
        f = tf.function(lambda w: tf.reduce_sum(w * w))
        out = []
        for value in ([1.0], [1.0, 2.0], [3.0]):
            v.assign(value)
            with tf.GradientTape() as tape:
                y = f(v)
            out.append([y, tape.gradient(y, v)])
        return out

    @case
    def gv_argument_grows():
        v = open_vector(1.0)

        @tf.function
        def f(w):
            w.assign(tf.concat([w, w], 0))
            return tf.size(w)

        return f(v), f(v), v

    @case
    def gv_two():
        v, w = open_vector(1.0), open_vector(2.0)
        f = tf.function(lambda: tf.reduce_sum(v) * tf.reduce_sum(w))
        out = []
        for a, b in (([1.0], [2.0]), ([1.0, 2.0], [2.0]), ([1.0], [2.0, 3.0, 4.0])):
            v.assign(a)
            w.assign(b)
            with tf.GradientTape() as tape:
                y = f()
            out.append([y, tape.gradient(y, [v, w])])
        return out

    @case
    def gv_misfit():
        v, w = open_vector(1.0, 2.0), open_vector(2.0, 1.0)
        f = tf.function(lambda: v + w)
        a = f()
        v.assign([1.0, 2.0, 3.0])
        return f()

    @case
    def gv_wrong_static():
        v = tf.Variable([[1.0, 2.0]], shape=[None, 2])
        f = tf.function(lambda x: v.assign(x))
        f(C([[1.0, 2.0], [3.0, 4.0]]))
        return f(C([[1.0, 2.0, 3.0]]))

    @case
    def gv_wrong_static_eager():
        v = tf.Variable([[1.0, 2.0]], shape=[None, 2])
        return v.assign([[1.0, 2.0, 3.0]])

    @case
    def gv_static_shape():
        v = tf.Variable([[1.0, 2.0]], shape=[None, 2])
        shapes = []

        @tf.function
        def f():
            shapes.append([v.shape.as_list(), (v * 2.0).shape.as_list(), tf.transpose(v).shape.as_list()])
            return tf.reduce_sum(v)

        a = f()
        v.assign([[1.0, 2.0], [3.0, 4.0]])
        return a, f(), shapes

    @case
    def gv_traces():
        v = open_vector(1.0)
        n = []

        @tf.function
        def f():
            n.append(1)
            return tf.reduce_sum(v)

        out = []
        for k in range(1, 5):
            v.assign([1.0] * k)
            out.append(f())
        return out, len(n)

    @case
    def gv_module():
        class M(tf.Module):
            def __init__(self):
                self.v = open_vector(1.0)

            @tf.function
            def push(self, x):
                self.v.assign(tf.concat([self.v, [x]], 0))
                return tf.shape(self.v)[0]

            @tf.function
            def total(self):
                return tf.reduce_sum(self.v)

        m = M()
        return m.push(C(1.0)), m.total(), m.push(C(2.0)), m.total(), m.v

    @case
    def gv_nested():
        v = open_vector(1.0)
        inner = tf.function(lambda: v * v)
        outer = tf.function(lambda: tf.reduce_sum(inner()))
        out = []
        for value in ([1.0], [1.0, 2.0]):
            v.assign(value)
            with tf.GradientTape() as tape:
                y = outer()
            out.append([y, tape.gradient(y, v)])
        return out

    @case
    def gv_nested_grow():
        v = open_vector(1.0)

        @tf.function
        def push():
            v.assign(tf.concat([v, [1.0]], 0))

        @tf.function
        def f():
            push()
            push()
            return tf.size(v), tf.reduce_sum(v)

        return f(), f()

    @case
    def gv_gradients():
        v = open_vector(1.0)
        f = tf.function(lambda: tf.gradients(tf.reduce_sum(v * v), v)[0])
        a = f()
        v.assign([1.0, 2.0])
        return a, f()

    @case
    def gv_batch_jacobian():
        v = tf.Variable([[1.0, 2.0]], shape=[None, 2])
        f = tf.function(lambda: v * v)
        out = []
        for value in ([[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]):
            v.assign(value)
            with tf.GradientTape() as tape:
                y = f()
            out.append(tape.batch_jacobian(y, v))
        return out

    @case
    def gv_scatter():
        v = open_vector(1.0, 2.0)

        @tf.function
        def f(i):
            v.scatter_nd_add([[i]], [1.0])
            return v * 1.0

        a = f(C(1))
        v.assign([1.0, 2.0, 3.0])
        return a, f(C(2))

    @case
    def gv_slice_assign():
        v = open_vector(1.0, 2.0)

        @tf.function
        def f(i):
            v[i].assign(9.0)
            return v * 1.0

        a = f(C(1))
        v.assign([1.0, 2.0, 3.0])
        return a, f(C(2))

    @case
    def gv_assign_add_misfit():
        v = open_vector(1.0, 2.0)
        f = tf.function(lambda x: v.assign_add(x))
        a = f(C([1.0, 1.0]))
        v.assign([1.0, 2.0, 3.0])
        return f(C([1.0, 1.0]))

    @case
    def gv_matmul():
        v = tf.Variable(np.ones([1, 2], np.float32), shape=[None, 2])
        f = tf.function(lambda x: tf.matmul(x, v, transpose_b=True))
        out = []
        for n in (1, 3):
            v.assign(np.ones([n, 2]))
            with tf.GradientTape() as tape:
                y = f(C([[1.0, 2.0]]))
            out.append([y, tape.gradient(y, v)])
        return out

    @case
    def gv_string():
        v = tf.Variable(["a"], shape=[None])
        f = tf.function(lambda: tf.size(v))
        a = f()
        v.assign(["a", "b"])
        return a, f()

    @case
    def gv_vectorized():
        v = open_vector(1.0)
        f = tf.function(lambda x: tf.vectorized_map(lambda e: tf.reduce_sum(v) * e, x))
        a = f(C([1.0, 2.0]))
        v.assign([1.0, 2.0])
        return a, f(C([1.0, 2.0]))

    @case
    def gv_shrink_in_loop():
        v = open_vector(1.0, 2.0, 3.0)

        @tf.function
        def f():
            s = 0.0
            while tf.size(v) > 0:
                s += v[0]
                v.assign(v[1:])
            return s

        a = f()
        v.assign([5.0])
        return a, f(), f(), v

    @case
    def gv_initial_value():
        v = tf.Variable(tf.zeros([0]), shape=[None])

        @tf.function
        def f(x):
            v.assign(tf.concat([v, x], 0))
            return tf.reduce_mean(v)

        return f(C([1.0])), f(C([2.0, 3.0])), v

    @case
    def gv_read_value():
        v = open_vector(1.0)
        f = tf.function(lambda: (tf.identity(v), v.read_value(), v.value(), tf.convert_to_tensor(v)))
        a = f()
        v.assign([1.0, 2.0])
        return a, f()

    @case
    def gv_control():
        v = open_vector(1.0)

        @tf.function
        def f(x):
            old = v + 0.0
            v.assign(x)
            return tf.size(old), tf.size(v), tf.reduce_sum(old) + tf.reduce_sum(v)

        return f(C([1.0, 2.0])), f(C([1.0, 2.0, 3.0])), f(C([1.0]))

    @case
    def gv_first_inside():
        v = tf.Variable([1.0], shape=unknown)

        @tf.function
        def f(x):
            v.assign(x)
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(v**2)
            return y, tape.gradient(y, v)

        return f(C([1.0, 2.0])), f(C([[1.0], [2.0]])), f(C(3.0))

    @case
    def gv_optimizer():
        v = open_vector(1.0)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(v * v)
            v.assign_sub(0.25 * tape.gradient(y, v))
            return y

        a = step()
        v.assign([1.0, 2.0])
        return a, step(), v


def changing_python(tf: Any, case: Any) -> None:
    """Python functions whose results change their size."""
    C = tf.constant

    def grows(*more: Any) -> Any:
        """A function whose result is longer each time."""
        calls = []

        def function(*given: Any) -> Any:
            calls.append(1)
            return np.arange(len(calls), dtype=np.float32)

        return function, calls

    for name, after in {
        "plain": lambda y: y,
        "double": lambda y: y * 2.0,
        "sum": lambda y: tf.reduce_sum(y),
        "size": lambda y: tf.size(y),
        "shape": lambda y: tf.shape(y),
        "rank": lambda y: tf.rank(y),
        "reshape": lambda y: tf.reshape(y, [-1, 1]),
        "concat": lambda y: tf.concat([tf.reshape(y, [-1]), [9.0]], 0),
        "zeros": lambda y: tf.zeros_like(y),
        "mean": lambda y: tf.reduce_mean(tf.concat([tf.reshape(y, [-1]), [9.0]], 0)),
        "mask": lambda y: tf.boolean_mask(tf.reshape(y, [-1]), tf.reshape(y, [-1]) > 0.5),
        "map": lambda y: tf.map_fn(lambda e: e + 1.0, tf.reshape(y, [-1])),
    }.items():
        for kind in ("numpy_function", "py_function"):

            def program(after=after, kind=kind):
                function, calls = grows()
                f = tf.function(lambda: after(getattr(tf, kind)(function, [], tf.float32)))
                return f(), f(), f(), len(calls)

            case(program, f"cp_{name}_{kind[:2]}")

    @case
    def cp_static():
        shapes = []

        @tf.function
        def f():
            y = tf.numpy_function(lambda: np.zeros(3, np.float32), [], tf.float32)
            shapes.append(str(y.shape))
            return y

        return f(), shapes

    @case
    def cp_echo():
        f = tf.function(lambda x: tf.numpy_function(lambda a: a * 2, [x], tf.float32))
        return f(C([1.0])), f(C([1.0, 2.0])), f(C(3.0))

    @case
    def cp_py_gradient():
        f = tf.function(lambda x: tf.py_function(lambda a: tf.concat([a, a * a], 0), [x], tf.float32))
        out = []
        for value in ([1.0], [1.0, 2.0]):
            x = C(value)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def cp_py_repeat_gradient():
        n = []

        def repeat(a):
            n.append(1)
            return tf.tile(a, [len(n)])

        f = tf.function(lambda x: tf.reduce_sum(tf.py_function(repeat, [x], tf.float32) ** 2))
        out = []
        for _ in range(3):
            x = C([1.0, 2.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def cp_numpy_no_gradient():
        n = []

        def repeat(a):
            n.append(1)
            return np.tile(a, len(n))

        f = tf.function(lambda x: tf.reduce_sum(tf.numpy_function(repeat, [x], tf.float32)) * x[0])
        out = []
        for _ in range(3):
            x = C([1.0, 2.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def cp_grad_after():
        n = []

        def repeat():
            n.append(1)
            return np.ones(len(n), np.float32)

        f = tf.function(lambda x: tf.reduce_sum(tf.numpy_function(repeat, [], tf.float32) * x))
        out = []
        for _ in range(3):
            x = C(2.0)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def cp_jacobian():
        n = []

        def repeat():
            n.append(1)
            return np.ones(len(n), np.float32)

        @tf.function
        def f(x):
            y = tf.numpy_function(repeat, [], tf.float32)
            y.set_shape([None])
            return y * x

        out = []
        for _ in range(2):
            x = C(2.0)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            out.append(tape.jacobian(y, x))
        return out

    @case
    def cp_loop():
        function, calls = grows()

        @tf.function
        def f(n):
            s = 0.0
            for i in tf.range(n):
                s += tf.reduce_sum(tf.numpy_function(function, [], tf.float32))
            return s

        return f(C(3)), f(C(2)), len(calls)

    @case
    def cp_loop_array():
        @tf.function
        def f(n):
            a = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)
            for i in tf.range(n):
                a = a.write(
                    i, tf.reshape(tf.numpy_function(lambda k: np.arange(k, dtype=np.float32), [i], tf.float32), [-1])
                )
            return a.concat()

        return f(C(3)), f(C(4))

    @case
    def cp_cond():
        function, calls = grows()
        f = tf.function(
            lambda go: tf.cond(go, lambda: tf.numpy_function(function, [], tf.float32), lambda: tf.zeros([2]))
        )
        return f(C(True)), f(C(False)), f(C(True)), len(calls)

    @case
    def cp_two():
        function, calls = grows()
        f = tf.function(
            lambda: tf.numpy_function(lambda: (function(), np.int32(len(calls))), [], (tf.float32, tf.int32))
        )
        return f(), f(), len(calls)

    @case
    def cp_set_shape():
        function, calls = grows()

        @tf.function
        def f():
            y = tf.numpy_function(function, [], tf.float32)
            y.set_shape([None])
            return y[-1], tf.shape(y)[0], y.shape[0] is None

        return f(), f()

    @case
    def cp_ensure_shape():
        function, calls = grows()
        f = tf.function(lambda: tf.ensure_shape(tf.numpy_function(function, [], tf.float32), [1]))
        return f(), f()

    @case
    def cp_ensure_rank():
        function, calls = grows()
        f = tf.function(lambda: tf.ensure_shape(tf.numpy_function(function, [], tf.float32), [None]) * 2.0)
        return f(), f()

    @case
    def cp_rank_changes():
        n = []

        def function():
            n.append(1)
            return np.ones([2] * len(n), np.float32)

        f = tf.function(lambda: tf.numpy_function(function, [], tf.float32) * 2.0)
        return f(), f(), f()

    @case
    def cp_strings():
        n = []

        def function():
            n.append(b"x")
            return np.array(n, object)

        f = tf.function(lambda: tf.size(tf.numpy_function(function, [], tf.string)))
        return f(), f()

    @case
    def cp_eager():
        function, calls = grows()
        g = lambda: tf.numpy_function(function, [], tf.float32)
        return g(), g(), g()

    @case
    def cp_decorated():
        function, calls = grows()
        g = tf.numpy_function(Tout=tf.float32)(function)
        f = tf.function(lambda: g())
        return f(), f()

    @case
    def cp_nested():
        function, calls = grows()
        inner = tf.function(lambda: tf.numpy_function(function, [], tf.float32))
        f = tf.function(lambda: tf.reduce_sum(inner()) + tf.reduce_sum(inner()))
        return f(), f(), len(calls)

    @case
    def cp_assign():
        function, calls = grows()
        v = tf.Variable([7.0], shape=[None])
        f = tf.function(lambda: v.assign(tf.numpy_function(function, [], tf.float32)))
        return f(), f(), f(), v

    @case
    def cp_assign_fixed():
        function, calls = grows()
        v = tf.Variable([7.0])
        f = tf.function(lambda: v.assign(tf.numpy_function(function, [], tf.float32)))
        return f(), f()

    @case
    def cp_matmul():
        n = []

        def function():
            n.append(1)
            return np.ones([len(n), 2], np.float32)

        @tf.function
        def f(w):
            y = tf.numpy_function(function, [], tf.float32)
            y.set_shape([None, 2])
            return y @ w

        out = []
        for _ in range(3):
            w = C([[1.0], [2.0]])
            with tf.GradientTape() as tape:
                tape.watch(w)
                y = f(w)
            out.append([y, tape.gradient(y, w)])
        return out

    @case
    def cp_forward():
        f = tf.function(lambda x: tf.py_function(lambda a: tf.concat([a, a * a], 0), [x], tf.float32))
        out = []
        for value in ([1.0], [1.0, 2.0]):
            x = C(value)
            with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
                y = f(x)
            out.append([y, acc.jvp(y)])
        return out

    for name, function, kinds in (
        ("many", lambda: [1, 2], tf.float32),
        ("many_tuple", lambda: (1.5, 2.5), tf.float32),
        ("many_tensors", lambda: [tf.constant(1.0), tf.constant(2.0)], tf.float32),
        ("many_of_two", lambda: [1.0, 2.0, 3.0], [tf.float32, tf.float32]),
        ("few_of_two", lambda: [1.0], [tf.float32, tf.float32]),
        ("none_of_one", lambda: [], tf.float32),
        ("one_in_list", lambda: [1.0], [tf.float32]),
        ("one_for_list", lambda: 1.0, [tf.float32]),
        ("nested", lambda: [[1.0, 2.0]], tf.float32),
        ("array", lambda: np.array([1.0, 2.0], np.float32), tf.float32),
        ("list_for_none", lambda: [1.0], []),
        ("int_for_float", lambda: 3, tf.float32),
        ("float_for_int", lambda: 3.0, tf.int32),
    ):
        for kind in ("py_function", "numpy_function"):
            case(
                lambda function=function, kinds=kinds, kind=kind: getattr(tf, kind)(function, [], kinds),
                f"cp_out_{name}_{kind[:2]}",
            )
            case(
                lambda function=function, kinds=kinds, kind=kind: tf.function(
                    lambda: getattr(tf, kind)(function, [], kinds)
                )(),
                f"cp_out_{name}_{kind[:2]}_fn",
            )


def cases_at_run_time(tf: Any, case: Any) -> None:
    """tf.case and tf.switch_case: several true, none true, no default."""
    C = tf.constant

    def both(program: Any, name: str, *given: Any) -> None:
        case(lambda: program(*given), f"{name}_eager")
        case(lambda: tf.function(program)(*given), f"{name}_fn")

    def two(x, **options):
        return tf.case([(x < 1.0, lambda: x * 10.0), (x < 2.0, lambda: x * 20.0)], **options)

    for name, value in (("both", 0.5), ("second", 1.5), ("none", 3.0)):
        both(lambda x: two(x), f"tc_plain_{name}", C(value))
        both(lambda x: two(x, exclusive=True), f"tc_exclusive_{name}", C(value))
        both(lambda x: two(x, default=lambda: x), f"tc_default_{name}", C(value))
        both(lambda x: two(x, default=lambda: x, exclusive=True), f"tc_default_exclusive_{name}", C(value))
        both(lambda x: two(x, exclusive=True, strict=True), f"tc_strict_{name}", C(value))

        def slope(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = two(x) ** 2
            return tape.gradient(y, x)

        both(slope, f"tc_gradient_{name}", C(value))

        def outside(value=value, **options):
            f = tf.function(lambda x: two(x, **options))
            x = C(value)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return y, tape.gradient(y, x)

        case(outside, f"tc_outside_{name}")
        case(lambda outside=outside: outside(exclusive=True), f"tc_outside_exclusive_{name}")

    def three(x, **options):
        return tf.case(
            [(x > 0.0, lambda: 1.0), (x > 1.0, lambda: 2.0), (x > 2.0, lambda: 3.0)],
            **options,
        )

    for value in (0.5, 1.5, 2.5, -1.0):
        both(lambda x: three(x), f"tc_three_{value}", C(value))
        both(lambda x: three(x, exclusive=True), f"tc_three_exclusive_{value}", C(value))

    both(lambda x: tf.case([(x > 0.0, lambda: x)]), "tc_one_true", C(1.0))
    both(lambda x: tf.case([(x > 0.0, lambda: x)]), "tc_one_false", C(-1.0))
    both(lambda x: tf.case([(x > 0.0, lambda: x)], exclusive=True), "tc_one_exclusive", C(-1.0))
    both(lambda: tf.case([]), "tc_empty")
    both(lambda: tf.case([], default=lambda: C(3.0)), "tc_empty_default")
    both(lambda: tf.case([(True, lambda: C(3.0))]), "tc_python_true")
    both(lambda: tf.case([(False, lambda: C(3.0))]), "tc_python_false")
    both(lambda: tf.case([(False, lambda: C(3.0)), (True, lambda: C(4.0))], exclusive=True), "tc_python_two")
    both(lambda: tf.case([(True, lambda: C(3.0)), (True, lambda: C(4.0))], exclusive=True), "tc_python_both")
    both(lambda: tf.case([(C(1), lambda: C(3.0))]), "tc_integer")
    both(lambda: tf.case([(C(True), C(3.0))]), "tc_not_callable")
    both(lambda: tf.case([(C(True), lambda: C(3.0))], default=C(1.0)), "tc_default_not_callable")
    both(lambda: tf.case([(C(True), lambda: C(3.0), 1)]), "tc_triple")
    both(lambda: tf.case(3), "tc_number")
    both(lambda: tf.case({"a": lambda: C(3.0)}), "tc_dict")
    both(lambda: tf.case(((C(True), lambda: C(3.0)),)), "tc_tuple")
    both(lambda: tf.case([[C(True), lambda: C(3.0)]]), "tc_list_pair")
    both(lambda x: tf.case([(x > 0.0, lambda: x), (x > 1.0, lambda: C(1))]), "tc_dtypes", C(0.5))
    both(lambda x: tf.case([(x > 0.0, lambda: (x, x * 2.0)), (x <= 0.0, lambda: (x, x))]), "tc_pair", C(0.5))
    both(lambda x: tf.case([(x > 0.0, lambda: {"a": x})], default=lambda: {"a": -x}), "tc_structure", C(-0.5))
    both(lambda x: tf.case([(x > 0.0, lambda: [x, x])], default=lambda: [x]), "tc_structures", C(-0.5))
    both(lambda x: tf.case([(x > 0.0, lambda: x)], default=lambda: None), "tc_none", C(0.5))

    @case
    def tc_effects():
        v = tf.Variable(0.0)

        @tf.function
        def f(x):
            tf.case([(x > 0.0, lambda: v.assign_add(1.0)), (x > 1.0, lambda: v.assign_add(10.0))], exclusive=True)
            return v + 0.0

        out = [f(C(0.5))]
        try:
            f(C(2.0))
        except tf.errors.InvalidArgumentError:
            out.append("refused")
        return out, v

    @case
    def tc_loop():
        @tf.function
        def f(n):
            s = 0.0
            for i in tf.range(n):
                s += tf.case([(i < 1, lambda: 1.0), (i < 2, lambda: 10.0)], default=lambda: 100.0)
            return s

        return f(C(4))

    @case
    def tc_loop_exclusive():
        @tf.function
        def f(n):
            s = 0.0
            for i in tf.range(n):
                s += tf.case([(i < 1, lambda: 1.0), (i < 2, lambda: 10.0)], exclusive=True)
            return s

        return f(C(2))

    @case
    def tc_loop_no_default():
        @tf.function
        def f(n):
            s = 0.0
            for i in tf.range(n):
                s += tf.case([(i < 1, lambda: 1.0), (i < 2, lambda: 10.0)])
            return s

        return f(C(2)), f(C(3))

    @case
    def tc_unused():
        @tf.function
        def f(x):
            tf.case([(x < 1.0, lambda: x * 10.0), (x < 2.0, lambda: x * 20.0)], exclusive=True)
            return x * 2.0

        return f(C(0.5))

    @case
    def tc_unused_none():
        @tf.function
        def f(x):
            tf.case([(x < 1.0, lambda: x * 10.0), (x < 2.0, lambda: x * 20.0)])
            return x * 2.0

        return f(C(5.0))

    @case
    def tc_nested():
        inner = lambda x: tf.case([(x < 1.0, lambda: x), (x < 2.0, lambda: x * 2.0)], exclusive=True)
        f = tf.function(lambda x: tf.case([(x < 0.0, lambda: inner(x))], default=lambda: x * 9.0))
        return f(C(3.0)), f(C(-1.0))

    for index in (0, 1, 2, -1, 7):
        for name, options in (("", {}), ("_default", {"default": lambda: tf.constant(99.0)})):
            both(
                lambda i, options=options: tf.switch_case(i, [lambda: C(1.0), lambda: C(2.0)], **options),
                f"tc_switch{name}_{index}",
                C(index),
            )
    both(lambda i: tf.switch_case(i, {1: lambda: C(1.0), 0: lambda: C(2.0)}), "tc_switch_dict", C(0))
    both(lambda i: tf.switch_case(i, {1: lambda: C(1.0), 3: lambda: C(2.0)}), "tc_switch_holes", C(0))
    both(lambda i: tf.switch_case(i, [(1, lambda: C(1.0)), (0, lambda: C(2.0))]), "tc_switch_pairs", C(0))
    both(lambda i: tf.switch_case(i, [(1, lambda: C(1.0)), (1, lambda: C(2.0))]), "tc_switch_twice", C(0))
    both(lambda i: tf.switch_case(i, []), "tc_switch_empty", C(0))
    both(lambda i: tf.switch_case(i, [lambda: C(1.0)]), "tc_switch_float", C(0.0))
    both(lambda i: tf.switch_case(i, [lambda: C(1.0)]), "tc_switch_int64", C(0, tf.int64))
    both(lambda i: tf.switch_case(i, [lambda: C(1.0), lambda: C(2.0)]), "tc_switch_vector", C([0, 1]))
    both(lambda i: tf.switch_case(i, [C(1.0), C(2.0)]), "tc_switch_values", C(0))


def scatter_misfits(tf: Any, case: Any) -> None:
    """Scatter updates whose updates do not fit their indices."""
    C = tf.constant
    vector, matrix = lambda: tf.Variable([1.0, 2.0, 3.0, 4.0]), lambda: tf.Variable(np.ones([4, 2], np.float32))
    shapes: list[tuple[str, Any, Any, Any]] = [
        ("fits", vector, [0, 2], [5.0, 6.0]),
        ("more_updates", vector, [0, 2], [5.0, 6.0, 7.0]),
        ("fewer_updates", vector, [0, 2, 1], [5.0, 6.0]),
        ("one_update", vector, [0, 2], [5.0]),
        ("scalar_update", vector, [0, 2], 5.0),
        ("scalar_index", vector, 1, 5.0),
        ("scalar_index_vector", vector, 1, [5.0]),
        ("matrix_updates", vector, [0, 2], [[5.0], [6.0]]),
        ("matrix_index", vector, [[0, 2]], [[5.0, 6.0]]),
        ("matrix_index_flat", vector, [[0], [2]], [5.0, 6.0]),
        ("empty", vector, [], []),
        ("rows", matrix, [0, 2], [[5.0, 6.0], [7.0, 8.0]]),
        ("rows_wide", matrix, [0, 2], [[5.0, 6.0, 1.0], [7.0, 8.0, 1.0]]),
        ("rows_narrow", matrix, [0, 2], [[5.0], [7.0]]),
        ("rows_flat", matrix, [0, 2], [5.0, 6.0]),
        ("rows_scalar", matrix, [0, 2], 5.0),
        ("rows_one", matrix, [0, 2], [[5.0, 6.0]]),
        ("rows_index", matrix, 1, [5.0, 6.0]),
        ("rows_index_scalar", matrix, 1, 5.0),
    ]
    methods = (
        "scatter_add",
        "scatter_sub",
        "scatter_update",
        "scatter_mul",
        "scatter_div",
        "scatter_min",
        "scatter_max",
    )
    for name, make, indices, updates in shapes:
        for method in (
            methods if name in ("fits", "more_updates", "scalar_update", "rows_wide", "rows_flat") else methods[:3:2]
        ):

            def program(make=make, indices=indices, updates=updates, method=method, inside=False):
                v = make()

                def update(u, i):
                    return getattr(v, method)(tf.IndexedSlices(u, i))

                update = tf.function(update) if inside else update
                result = update(C(updates, tf.float32), C(indices, tf.int32))
                return result, v

            case(program, f"sm_{method}_{name}")
            case(lambda program=program: program(inside=True), f"sm_{method}_{name}_fn")

    nd: list[tuple[str, Any, Any, Any]] = [
        ("fits", vector, [[0], [2]], [5.0, 6.0]),
        ("more", vector, [[0], [2]], [5.0, 6.0, 7.0]),
        ("fewer", vector, [[0], [2], [3]], [5.0, 6.0]),
        ("one", vector, [[0], [2]], [5.0]),
        ("scalar", vector, [[0], [2]], 5.0),
        ("deep", vector, [[0, 1]], [5.0]),
        ("flat_index", vector, [0], 5.0),
        ("column", vector, [[0], [2]], [[5.0], [6.0]]),
        ("rows", matrix, [[0], [2]], [[5.0, 6.0], [7.0, 8.0]]),
        ("rows_wide", matrix, [[0], [2]], [[5.0, 6.0, 1.0], [7.0, 8.0, 1.0]]),
        ("rows_flat", matrix, [[0], [2]], [5.0, 6.0]),
        ("rows_narrow", matrix, [[0], [2]], [[5.0], [6.0]]),
        ("elements", matrix, [[0, 1], [2, 0]], [5.0, 6.0]),
        ("elements_more", matrix, [[0, 1], [2, 0]], [5.0, 6.0, 7.0]),
        ("elements_rows", matrix, [[0, 1], [2, 0]], [[5.0, 6.0], [7.0, 8.0]]),
        ("too_deep", matrix, [[0, 1, 0]], [5.0]),
        ("scalar_index", vector, 0, 5.0),
    ]
    for name, make, indices, updates in nd:
        for method in ("scatter_nd_add", "scatter_nd_update"):

            def program(make=make, indices=indices, updates=updates, method=method, inside=False):
                v = make()
                update = lambda i, u: getattr(v, method)(i, u)
                update = tf.function(update) if inside else update
                result = update(C(indices, tf.int32), C(updates, tf.float32))
                return result, v

            case(program, f"sm_{method}_{name}")
            case(lambda program=program: program(inside=True), f"sm_{method}_{name}_fn")
        for method in ("tensor_scatter_nd_add", "tensor_scatter_nd_update", "tensor_scatter_nd_max", "scatter_nd"):

            def program(make=make, indices=indices, updates=updates, method=method, inside=False):
                x = tf.identity(make())

                def update(x, i, u):
                    if method == "scatter_nd":
                        return tf.scatter_nd(i, u, x.shape)
                    return getattr(tf, method)(x, i, u)

                update = tf.function(update) if inside else update
                u = C(updates, tf.float32)
                update(x, C(indices, tf.int32), u)  # errors are those of the op, not of its gradient
                with tf.GradientTape(persistent=True) as tape:
                    tape.watch([x, u])
                    y = update(x, C(indices, tf.int32), u)
                return y, tape.gradient(y, [x, u])

            case(program, f"sm_{method}_{name}")
            case(lambda program=program: program(inside=True), f"sm_{method}_{name}_fn")

    for name, indices, updates in (
        ("fits", [0, 2], [5.0, 6.0]),
        ("more", [0, 2], [5.0, 6.0, 7.0]),
        ("one", [0, 2], [5.0]),
        ("scalar", [0, 2], 5.0),
    ):

        def open_shapes(indices=indices, updates=updates):
            v = tf.Variable([1.0, 2.0, 3.0, 4.0])
            f = tf.function(
                lambda u, i: v.scatter_add(tf.IndexedSlices(u, i)),
                input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.int32)],
            )
            return f(C(updates), C(indices)), v

        case(open_shapes, f"sm_open_{name}")

        def open_nd(indices=indices, updates=updates):
            f = tf.function(
                lambda u, i: tf.tensor_scatter_nd_add(tf.zeros([4]), tf.reshape(i, [-1, 1]), u),
                input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.int32)],
            )
            return f(C(updates), C(indices))

        case(open_nd, f"sm_open_nd_{name}")

    @case
    def sm_batch_scatter():
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        return v.batch_scatter_update(tf.IndexedSlices(C([[5.0], [6.0]]), C([[0], [1]])))

    @case
    def sm_int64():
        v = tf.Variable([1.0, 2.0])
        return v.scatter_add(tf.IndexedSlices(C([5.0, 6.0]), C([0, 0], tf.int64)))

    @case
    def sm_dtype():
        v = tf.Variable([1.0, 2.0])
        return v.scatter_add(tf.IndexedSlices(C([5, 6]), C([0, 0])))

    @case
    def sm_float_index():
        v = tf.Variable([1.0, 2.0])
        return v.scatter_add(tf.IndexedSlices(C([5.0, 6.0]), C([0.0, 0.0])))

    @case
    def sm_not_slices():
        v = tf.Variable([1.0, 2.0])
        return v.scatter_add(C([1.0, 2.0]))

    @case
    def sm_loop():
        v = tf.Variable([0.0, 0.0, 0.0])

        @tf.function
        def f(n):
            for i in tf.range(n):
                v.scatter_add(tf.IndexedSlices(C([1.0, 2.0]), [i, 0]))
            return v + 0.0

        return f(C(3)), f(C(2))

    @case
    def sm_state():
        v = tf.Variable([1.0, 2.0, 3.0])
        out = []
        for inside in (False, True):
            update = lambda u: v.scatter_update(tf.IndexedSlices(u, C([0, 1])))
            try:
                (tf.function(update) if inside else update)(C([5.0, 6.0, 7.0]))
            except (ValueError, tf.errors.InvalidArgumentError):
                out.append("refused")
        return out, v


def slices_in_loops(tf: Any, case: Any) -> None:
    """Assignments to slices of variables in loops over tensors."""
    C = tf.constant
    zeros = lambda *shape: tf.Variable(tf.zeros(shape))

    def looped(make: Any, body: Any, name: str, counts: Any = (3, 2)) -> None:
        def program():
            v = make()

            @tf.function
            def f(n):
                for i in tf.range(n):
                    body(v, i)
                return v + 0.0

            return [f(C(n)) for n in counts], v

        def unrolled():
            v = make()
            for i in tf.range(counts[0]):
                body(v, i)
            return v

        case(program, f"sl_{name}")
        case(unrolled, f"sl_{name}_eager")

    as_float = lambda i: tf.cast(i, tf.float32)
    looped(lambda: zeros(3), lambda v, i: v[i].assign(as_float(i)), "assign")
    looped(lambda: zeros(3), lambda v, i: v[i].assign_add(as_float(i) + 1.0), "assign_add")
    looped(lambda: zeros(3), lambda v, i: v[i].assign_sub(2.0), "assign_sub")
    looped(lambda: zeros(3), lambda v, i: v[0].assign_add(v[i] + 1.0), "read")
    looped(lambda: zeros(3, 2), lambda v, i: v[i].assign([1.0, 2.0]), "row")
    looped(lambda: zeros(3, 2), lambda v, i: v[i].assign_add([1.0, 2.0]), "row_add")
    looped(lambda: zeros(2, 3), lambda v, i: v[:, i].assign([1.0, 2.0]), "column")
    looped(lambda: zeros(2, 3), lambda v, i: v[:, i].assign_add([1.0, 2.0]), "column_add")
    looped(lambda: zeros(2, 3), lambda v, i: v[:, i].assign(as_float(i)), "column_scalar")
    looped(lambda: zeros(3, 3), lambda v, i: v[i, i].assign(as_float(i)), "diagonal")
    looped(lambda: zeros(3, 3), lambda v, i: v[i, 0].assign_add(as_float(i)), "mixed")
    looped(lambda: zeros(3, 3), lambda v, i: v[0, i].assign_sub(as_float(i)), "mixed2")
    looped(lambda: zeros(4), lambda v, i: v[i : i + 2].assign([1.0, 2.0]), "window")
    looped(lambda: zeros(4), lambda v, i: v[i : i + 1].assign_add([1.0]), "window_add")
    looped(lambda: zeros(4), lambda v, i: v[:i].assign(tf.ones([i])), "upto")
    looped(lambda: zeros(4), lambda v, i: v[i:].assign_add(tf.ones([4 - i])), "onward")
    looped(lambda: zeros(4), lambda v, i: v[i:].assign(5.0), "onward_scalar")
    looped(lambda: zeros(4), lambda v, i: v[-1].assign(as_float(i)), "last")
    looped(lambda: zeros(4), lambda v, i: v[-i - 1].assign(as_float(i) + 1.0), "negative")
    looped(lambda: zeros(4), lambda v, i: v[::2].assign_add([1.0, 2.0]), "stride")
    looped(lambda: zeros(4), lambda v, i: v[::-1].assign([1.0, 2.0, 3.0, as_float(i)]), "reverse")
    looped(lambda: zeros(4), lambda v, i: v[i % 2 :: 2].assign([1.0, as_float(i)]), "stride_start")
    looped(lambda: zeros(2, 2, 2), lambda v, i: v[..., 0].assign_add(tf.ones([2, 2])), "ellipsis")
    looped(lambda: zeros(2, 3, 2), lambda v, i: v[:, i, :].assign([[1.0, 2.0], [3.0, 4.0]]), "middle")
    looped(lambda: zeros(2, 3), lambda v, i: v[tf.newaxis, 0, i].assign([7.0]), "newaxis")
    looped(lambda: zeros(3), lambda v, i: v[i].assign([1.0, 2.0]), "misfit")
    looped(lambda: zeros(2), lambda v, i: v[i].assign(1.0), "out_of_range")
    looped(lambda: zeros(3), lambda v, i: v[:].assign(v + 1.0), "all")
    looped(lambda: tf.Variable([0, 0, 0]), lambda v, i: v[i].assign(i), "integers")
    looped(lambda: tf.Variable([0, 0, 0], dtype=tf.int64), lambda v, i: v[i].assign_add(tf.cast(i, tf.int64)), "int64")
    looped(lambda: tf.Variable([False, False, False]), lambda v, i: v[i].assign(i > 0), "booleans")
    looped(lambda: zeros(3), lambda v, i: v[tf.cast(i, tf.int64)].assign(1.0), "int64_index")
    looped(lambda: zeros(3), lambda v, i: v[i].assign(1), "python_int")

    @case
    def sl_while():
        v = zeros(4)

        @tf.function
        def f(n):
            i = 0
            while i < n:
                v[i].assign_add(as_float(i))
                i += 1
            return v + 0.0

        return f(C(3)), f(C(4))

    @case
    def sl_while_loop():
        v = zeros(4)

        def body(i):
            v[i].assign(as_float(i))
            return i + 1

        f = tf.function(lambda n: tf.while_loop(lambda i: i < n, body, [C(0)]))
        return f(C(3)), v

    @case
    def sl_cond():
        v = zeros(3)

        @tf.function
        def f(n):
            for i in tf.range(n):
                if i % 2 == 0:
                    v[i].assign(1.0)
                else:
                    v[i].assign_sub(1.0)
            return v + 0.0

        return f(C(3)), f(C(2))

    @case
    def sl_nested():
        v = zeros(2, 3)

        @tf.function
        def f(n, m):
            for i in tf.range(n):
                for j in tf.range(m):
                    v[i, j].assign(as_float(i * 10 + j))
            return v + 0.0

        return f(C(2), C(3))

    @case
    def sl_break():
        v = zeros(4)

        @tf.function
        def f(n):
            for i in tf.range(n):
                if i == 2:
                    break
                v[i].assign(1.0)
            return v + 0.0

        return f(C(4))

    @case
    def sl_elements():
        v = zeros(3)

        @tf.function
        def f(x):
            for i, e in enumerate(x):
                v[i].assign(e * 2.0)
            return v + 0.0

        return f(C([1.0, 2.0, 3.0]))

    @case
    def sl_gradient():
        v = tf.Variable([1.0, 2.0, 3.0])

        @tf.function
        def f(x):
            for i in tf.range(2):
                v[i].assign(x)
            return tf.reduce_sum(v * v) * x

        x = C(2.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        return y, tape.gradient(y, x), tape.gradient(y, v)

    @case
    def sl_gradient_inside():
        v = tf.Variable([1.0, 2.0, 3.0])

        @tf.function
        def f(x):
            for i in tf.range(2):
                v[i].assign(x)
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(v * v)
            return tape.gradient(y, v)

        return f(C(5.0))

    @case
    def sl_returned():
        v = zeros(3)
        f = tf.function(lambda i: v[i].assign(5.0))
        return f(C(1)), f(C(2))

    @case
    def sl_returned_read():
        v = zeros(3)

        @tf.function
        def f(i):
            w = v[i].assign(5.0)
            return w * 2.0, w[i]

        return f(C(1)), f(C(2))

    @case
    def sl_two():
        v, w = zeros(3), zeros(3)

        @tf.function
        def f(n):
            for i in tf.range(n):
                v[i].assign(w[i] + 1.0)
                w[i].assign(v[i] * 2.0)
            return v + w

        return f(C(3)), f(C(2))

    @case
    def sl_argument():
        v = zeros(3)

        @tf.function
        def f(w, n):
            for i in tf.range(n):
                w[i].assign(1.0)

        f(v, C(2))
        return v

    @case
    def sl_dataset():
        v = zeros(3)

        @tf.function
        def f():
            for i in tf.data.Dataset.range(3):
                v[i].assign(as_float(i))
            return v + 0.0

        return f()


def iteration_limits(tf: Any, case: Any) -> None:
    """Tensors as `maximum_iterations`."""
    C = tf.constant

    def doubled(x, limit, **options):
        return tf.while_loop(
            lambda i, x: i < 100, lambda i, x: [i + 1, x * 2.0], [C(0), x], maximum_iterations=limit, **options
        )

    def both(function: Any, name: str, *given: Any) -> None:
        case(lambda: function(*given), f"mi_{name}_eager")
        case(lambda: tf.function(function)(*given), f"mi_{name}_fn")

    both(lambda x: doubled(x, 3), "python", C(1.0))
    both(lambda x, n: doubled(x, n), "tensor", C(1.0), C(3))
    both(lambda x, n: doubled(x, n), "int64", C(1.0), C(3, tf.int64))
    both(lambda x, n: doubled(x, n), "zero", C(1.0), C(0))
    both(lambda x, n: doubled(x, n), "negative", C(1.0), C(-1))
    both(lambda x, n: doubled(x, n), "large", C(1.0), C(1000))
    both(lambda x, n: doubled(x, n), "vector", C(1.0), C([3]))
    both(lambda x, n: doubled(x, n), "float", C(1.0), C(3.0))
    both(lambda x: doubled(x, np.int32(3)), "numpy", C(1.0))
    both(lambda x: doubled(x, np.array(3)), "array", C(1.0))
    both(lambda x: doubled(x, 3.0), "python_float", C(1.0))
    both(lambda x: doubled(x, "3"), "text", C(1.0))
    both(lambda x: doubled(x, None), "none", C(0.0))
    both(lambda x: doubled(x, True), "boolean", C(1.0))
    both(lambda x, n: doubled(x, n + 1), "sum", C(1.0), C(3))
    both(lambda x: doubled(x, tf.size(x) * 2), "size", C([1.0, 2.0]))
    both(lambda x, n: doubled(x, n, parallel_iterations=1), "parallel", C(1.0), C(3))
    both(lambda x, n: doubled(x, n, swap_memory=True, back_prop=True), "options", C(1.0), C(3))

    def slope(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = doubled(x, n)[1] ** 2
        return y, tape.gradient(y, x)

    both(slope, "gradient", C(1.5), C(3))
    both(slope, "gradient_zero", C(1.5), C(0))

    def second(x, n):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.while_loop(lambda x: True, lambda x: [x * x], [x], maximum_iterations=n)[0]
            g = inner.gradient(y, x)
        return y, g, outer.gradient(g, x)

    both(second, "second", C(1.5), C(2))

    def variable(x):
        n = limit
        return doubled(x, n)

    limit = tf.Variable(3)
    both(variable, "variable", C(1.0))

    @case
    def mi_outside():
        f = tf.function(lambda x, n: doubled(x, n)[1])
        out = []
        for n in (1, 3, 0):
            x = C(1.5)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x, C(n)) ** 2
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def mi_forward():
        f = tf.function(lambda x, n: doubled(x, n)[1])
        out = []
        for n in (1, 3):
            x = C(1.5)
            with tf.autodiff.ForwardAccumulator(x, C(1.0)) as acc:
                y = f(x, C(n))
            out.append([y, acc.jvp(y)])
        return out

    @case
    def mi_jacobian():
        f = tf.function(lambda x, n: doubled(x, n)[1])
        x = C([1.5, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, C(2))
        return tape.jacobian(y, x)

    @case
    def mi_traces():
        n = []

        @tf.function
        def f(x, limit):
            n.append(1)
            return doubled(x, limit)

        return f(C(1.0), C(2)), f(C(1.0), C(3)), len(n)

    @case
    def mi_variable_changes():
        v = tf.Variable(2)
        f = tf.function(lambda x: doubled(x, v))
        a = f(C(1.0))
        v.assign(4)
        return a, f(C(1.0))

    @case
    def mi_condition_first():
        f = tf.function(lambda m, n: tf.while_loop(lambda i: i < m, lambda i: (i + 1,), [C(0)], maximum_iterations=n))
        return f(C(5), C(3)), f(C(2), C(3))

    @case
    def mi_array():
        def body(i, a):
            return i + 1, a.write(i, tf.cast(i, tf.float32))

        @tf.function
        def f(n):
            a = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            i, a = tf.while_loop(lambda i, a: i < 10, body, [C(0), a], maximum_iterations=n)
            return a.stack()

        return f(C(3)), f(C(5))

    @case
    def mi_assign():
        v = tf.Variable(0.0)

        def body(i):
            v.assign_add(1.0)
            return (i + 1,)

        f = tf.function(lambda n: tf.while_loop(lambda i: True, body, [C(0)], maximum_iterations=n))
        return f(C(3)), v

    @case
    def mi_grow():
        f = tf.function(
            lambda n: tf.while_loop(
                lambda x: True,
                lambda x: (tf.concat([x, [1.0]], 0),),
                [tf.zeros([1])],
                shape_invariants=[tf.TensorShape([None])],
                maximum_iterations=n,
            )
        )
        return f(C(2)), f(C(3))

    @case
    def mi_nested():
        @tf.function
        def f(x, n):
            def body(x):
                return (tf.while_loop(lambda y: True, lambda y: (y + 1.0,), [x], maximum_iterations=n)[0],)

            return tf.while_loop(lambda x: True, body, [x], maximum_iterations=n)

        return f(C(0.0), C(3)), f(C(0.0), C(2))

    @case
    def mi_options():
        @tf.function
        def f(x, n):
            while tf.reduce_sum(x) < 1000.0:
                tf.autograph.experimental.set_loop_options(maximum_iterations=n)
                x = x * 2.0
            return x

        out = []
        for n in (2, 4):
            x = C([1.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x, C(n))
            out.append([y, tape.gradient(y, x)])
        return out

    @case
    def mi_options_python():
        @tf.function
        def f(x):
            while tf.reduce_sum(x) < 1000.0:
                tf.autograph.experimental.set_loop_options(maximum_iterations=3)
                x = x * 2.0
            return x

        return f(C([1.0]))

    @case
    def mi_scan_like():
        f = tf.function(
            lambda x, n: tf.while_loop(lambda *a: True, lambda i, s: (i + 1, s + x[i]), [0, 0.0], maximum_iterations=n)
        )
        x = C([1.0, 2.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, C(2))[1]
        return y, tape.gradient(y, x)

    @case
    def mi_in_cond():
        f = tf.function(lambda x, n: tf.cond(n > 2, lambda: doubled(x, n)[1], lambda: x))
        return f(C(1.0), C(3)), f(C(1.0), C(1))


Point = collections.namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Plain:
    """A dataclass that is no structure."""

    x: Any
    y: Any


@dataclasses.dataclass
class Typed:
    """A dataclass that is a structure."""

    x: Any
    k: int = 1

    def __tf_flatten__(self):
        return (self.k,), (self.x,)

    @classmethod
    def __tf_unflatten__(cls, metadata, leaves):
        return cls(leaves[0], metadata[0])


def structures_as_arguments(tf: Any, case: Any) -> None:
    """How often a function is traced for dicts, tuples and classes."""
    C = tf.constant
    O = collections.OrderedDict

    def traces(function: Any, name: str, *calls: Any, **options: Any) -> None:
        def program():
            n = []

            def traced(*args, **kwargs):
                n.append(1)
                return function(*args, **kwargs)

            f = tf.function(traced, **options)
            made = [call() for call in calls]
            out = [f(*args, **kwargs) for args, kwargs in made]
            return out, len(n)

        case(program, f"sa_{name}")

    given = lambda *args, **kwargs: lambda: (args, kwargs)
    a, b = C(1.0), C(2.0)
    minus = lambda d: d["a"] - d["b"]
    traces(minus, "dict", given({"a": a, "b": b}), given({"b": b, "a": a}), given({"b": a, "a": b}))
    traces(minus, "dict_kw", given(d={"a": a, "b": b}), given(d={"b": b, "a": a}), given({"b": b, "a": a}))
    traces(minus, "ordered", given(O(a=a, b=b)), given(O(b=b, a=a)), given({"a": a, "b": b}))
    traces(
        minus, "default", given(collections.defaultdict(int, a=a, b=b)), given(collections.defaultdict(int, b=b, a=a))
    )
    traces(
        lambda d: d["x"]["a"] - d["x"]["b"] + d["y"][0]["c"],
        "nested",
        given({"x": {"a": a, "b": b}, "y": [{"c": a, "d": b}]}),
        given({"y": [{"d": b, "c": a}], "x": {"b": b, "a": a}}),
    )
    traces(lambda l: minus(l[0]), "in_list", given([{"a": a, "b": b}]), given([{"b": b, "a": a}]))
    traces(lambda l: minus(l[0]), "in_tuple", given(({"a": a, "b": b},)), given(({"b": b, "a": a},)))
    traces(lambda p: minus(p.x), "in_point", given(Point({"a": a, "b": b}, a)), given(Point({"b": b, "a": a}, a)))
    traces(lambda **k: minus(k), "kwargs", given(a=a, b=b), given(b=b, a=a))
    traces(lambda **k: minus(k["d"]), "kwargs_dict", given(d={"a": a, "b": b}, e=a), given(e=a, d={"b": b, "a": a}))
    traces(lambda a, b: a - b, "named", given(a=a, b=b), given(b=b, a=a), given(a, b=b), given(a, b))
    traces(minus, "values", given({"a": a, "b": 2.0}), given({"b": 2.0, "a": a}), given({"b": 3.0, "a": a}))
    traces(minus, "arrays", given({"a": np.ones(2), "b": b}), given({"b": b, "a": np.zeros(2)}))
    traces(minus, "other_value_types", given({"a": a, "b": b}), given({"b": C([2.0]), "a": a}))
    traces(
        minus, "more_keys", given({"a": a, "b": b}), given({"b": b, "a": a, "c": a}), given({"c": a, "b": b, "a": a})
    )
    traces(lambda d: d[1] - d[2], "integer_keys", given({1: a, 2: b}), given({2: b, 1: a}), given({2: a, 1: b}))
    traces(lambda d: d["a"], "mixed_keys", given({"a": a, 1: b}), given({1: b, "a": a}))
    traces(lambda d: d[(1, 2)], "tuple_keys", given({(1, 2): a, (0, 1): b}), given({(0, 1): b, (1, 2): a}))
    traces(lambda d: list(d), "order_seen", given({"b": a, "a": b}))
    traces(
        lambda d: [float(i) for i in range(len(d))], "order_python", given({"b": a, "a": b}), given({"a": a, "b": b})
    )
    traces(lambda d: "".join(d), "order_keys", given({"b": a, "a": b}), given({"a": a, "b": b}))
    traces(lambda d: list(d.values()), "order_values", given({"b": a, "a": b}), given({"a": b, "b": a}))
    traces(lambda d: "".join(d), "order_keys_ordered", given(O(b=a, a=b)), given(O(a=b, b=a)))
    traces(lambda **k: "".join(k), "order_kwargs", given(b=a, a=b), given(a=b, b=a))
    traces(lambda d: d, "returned", given({"b": a, "a": b}), given({"a": b, "b": a}))
    traces(
        lambda d: {k: v * 2.0 for k, v in d.items()}, "returned_new", given({"b": a, "a": b}), given({"a": b, "b": a})
    )
    traces(lambda p: p.x - p.y, "point", given(Point(a, b)), given(Point(b, a)), given(Point(y=b, x=a)))
    traces(lambda p: p, "point_returned", given(Point(a, b)), given(Point(b, a)))
    traces(lambda p: p[0] - p[1], "point_tuple", given(Point(a, b)), given((a, b)), given([a, b]))
    traces(lambda p: p.x * 2.0, "plain_same", *[lambda p=Plain(a, b): ((p,), {})] * 2)
    traces(lambda p: p.x * 2.0, "plain_other", given(Plain(a, b)), given(Plain(b, a)))
    traces(lambda p: p.x * p.k, "typed", given(Typed(a)), given(Typed(b)), given(Typed(a, 3)), given(Typed(b, 3)))
    traces(lambda p: Typed(p.x * 2.0, 5).x, "typed_made", given(Typed(a)))
    traces(lambda d: d["p"].x * 2.0, "typed_nested", given({"p": Typed(a), "q": a}), given({"q": a, "p": Typed(b)}))
    traces(minus, "relaxed", given({"a": C([1.0]), "b": b}), given({"b": b, "a": C([1.0, 2.0])}),
           given({"b": b, "a": C([1.0, 2.0, 3.0])}), reduce_retracing=True)  # fmt: skip
    traces(lambda d: d["a"] * 2.0, "none_value", given({"a": a, "b": None}), given({"b": None, "a": b}))
    traces(
        lambda d: d["a"] * 2.0,
        "text_value",
        given({"a": a, "b": "x"}),
        given({"b": "x", "a": b}),
        given({"b": "y", "a": b}),
    )
    traces(lambda d: minus(d[0]) + minus(d[1]), "two", given([{"a": a, "b": b}, {"b": a, "a": b}]),
           given([{"b": b, "a": a}, {"a": b, "b": a}]))  # fmt: skip
    traces(lambda d=None: minus(d) if d else a, "optional", given({"a": a, "b": b}), given(), given({"b": b, "a": a}))
    traces(lambda d: tf.constant(0.0), "empty", given({}), given({}), given(O()), given([]), given(()))

    @case
    def sa_signature():
        f = tf.function(
            lambda d: d["a"] - d["b"],
            input_signature=[{"a": tf.TensorSpec([], tf.float32), "b": tf.TensorSpec([], tf.float32)}],
        )
        return f({"a": a, "b": b}), f({"b": b, "a": a})

    @case
    def sa_signature_missing():
        f = tf.function(
            lambda d: d["a"] - d["b"],
            input_signature=[{"a": tf.TensorSpec([], tf.float32), "b": tf.TensorSpec([], tf.float32)}],
        )
        return f({"a": a})

    @case
    def sa_concrete():
        f = tf.function(lambda d: d["a"] - d["b"])
        c = f.get_concrete_function({"b": b, "a": a})
        return c({"a": a, "b": b}), c({"b": b, "a": a}), c is f.get_concrete_function({"a": a, "b": b})

    @case
    def sa_gradient():
        n = []

        @tf.function
        def f(d):
            n.append(1)
            return d["a"] ** 2 * d["b"]

        out = []
        for d in ({"a": C(3.0), "b": C(2.0)}, {"b": C(2.0), "a": C(3.0)}):
            with tf.GradientTape() as tape:
                tape.watch(d)
                y = f(d)
            out.append(tape.gradient(y, d))
        return out, len(n)

    @case
    def sa_variables():
        n = []

        @tf.function
        def f(d):
            n.append(1)
            return d["a"] - d["b"]

        v, w = tf.Variable(1.0), tf.Variable(2.0)
        return f({"a": v, "b": w}), f({"b": w, "a": v}), f({"a": w, "b": v}), len(n)

    @case
    def sa_cond_order():
        f = tf.function(lambda x: tf.cond(x > 0.0, lambda: {"a": x, "b": -x}, lambda: {"b": x, "a": x * 2.0}))
        return f(C(1.0)), f(C(-1.0))

    @case
    def sa_loop_order():
        f = tf.function(
            lambda x: tf.while_loop(
                lambda d: d["a"] < 5.0, lambda d: ({"b": d["b"] * 2.0, "a": d["a"] + 1.0},), [{"a": x, "b": x}]
            )
        )
        return f(C(1.0))

    @case
    def sa_map_order():
        return tf.map_fn(lambda d: {"b": d["a"], "a": d["b"]}, {"b": C([1.0, 2.0]), "a": C([3.0, 4.0])})

    @case
    def sa_experimental_attributes():
        n = []

        @tf.function
        def f(d, *rest, flag=False, **more):
            n.append(1)
            return d["a"] + sum(rest) + (more["z"] - more["y"] if flag else 0.0)

        out = [
            f({"a": a, "b": b}, a, flag=True, z=a, y=b),
            f({"b": b, "a": a}, a, y=b, z=a, flag=True),
            f({"b": b, "a": a}, b, y=b, flag=True, z=a),
        ]
        return out, len(n)


FAMILIES = (
    growing_variables,
    changing_python,
    cases_at_run_time,
    scatter_misfits,
    slices_in_loops,
    iteration_limits,
    structures_as_arguments,
)
