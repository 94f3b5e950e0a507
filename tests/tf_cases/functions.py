"""Programs with `tf.function`: what they give in TensorFlow is stored, and compared with on every run.

    python -m tests.tf_cases.functions tests/recorded/functions_tensorflow.json     where TensorFlow is installed
    python -m tests.tf_cases.functions tests/recorded/functions_tensorflow.json forward_twice_inside

The second line is needed because TensorFlow keeps functions for tangents, and takes those of earlier programs.

Each family is a function that declares its programs; a program returns numbers, tensors and structures of them, or
raises. `test_function_programs.py` compares gradtape with the record.
"""

# ruff: noqa: B006, B007, C408, E741, E742, F841, RUF015, SIM108 - programs as users write them

from __future__ import annotations

import collections
import copy
import functools
import json
import os
import pathlib
import pickle
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from . import changing


def times_three(x: Any) -> Any:
    """A function that can be pickled."""
    return x * 3


def plain(value: Any) -> Any:
    """A result as JSON has it, numbers rounded."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "indices"):  # IndexedSlices
        return plain([value.indices, value.values])
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.round(value.astype(float), 4).tolist() if value.dtype.kind in "fiub" else value.tolist()
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


def answer(program: Callable[[], Any]) -> Any:
    """What a program gives, or the class of its error."""
    try:
        return plain(program())
    except Exception as error:
        return {"error": type(error).__name__}


def programs(tf: Any) -> dict[str, Callable[[], Any]]:
    """All programs by name."""
    found: dict[str, Callable[[], Any]] = {}

    def case(function: Callable[[], Any], name: str | None = None) -> Callable[[], Any]:
        found[name or function.__name__] = function
        return function

    for family in FAMILIES:
        family(tf, case)
    return found


def concrete_functions(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def cf_nested_py():
        f = tf.function(lambda x, y: x * 0 + y[0] + y[1])
        c = f.get_concrete_function(tf.TensorSpec([], tf.float32), [1.0, 2.0])
        return (c(C(5.0)),)

    @case
    def cf_nested_py_given():
        f = tf.function(lambda x, y: x * 0 + y[0] + y[1])
        c = f.get_concrete_function(tf.TensorSpec([], tf.float32), [1.0, 2.0])
        return c(C(5.0), [1.0, 2.0])

    @case
    def cf_nested_py_changed():
        f = tf.function(lambda x, y: x * 0 + y[0] + y[1])
        c = f.get_concrete_function(tf.TensorSpec([], tf.float32), [1.0, 2.0])
        return c(C(5.0), [3.0, 4.0])

    @case
    def cf_py_changed():
        f = tf.function(lambda x, k: x * k)
        c = f.get_concrete_function(C(1.0), 2.0)
        return c(C(5.0), 3.0)

    @case
    def cf_py_same():
        f = tf.function(lambda x, k: x * k)
        c = f.get_concrete_function(C(1.0), 2.0)
        return c(C(5.0), 2.0), c(C(5.0)), c(x=C(1.0)), c(C(1.0), k=2.0)

    @case
    def cf_unknown_kw():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(C(1.0))
        return c(C(5.0), q=3)

    @case
    def cf_too_many():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(C(1.0))
        return c(C(5.0), C(1.0))

    @case
    def cf_too_few():
        f = tf.function(lambda x, y: x * y)
        c = f.get_concrete_function(C(1.0), C(1.0))
        return c(C(5.0))

    @case
    def cf_kw():
        f = tf.function(lambda x, y: x - y)
        c = f.get_concrete_function(C(1.0), C(1.0))
        return c(y=C(1.0), x=C(5.0)), c(C(5.0), y=C(1.0))

    @case
    def cf_dup():
        f = tf.function(lambda x, y: x - y)
        c = f.get_concrete_function(C(1.0), C(1.0))
        return c(C(5.0), x=C(1.0))

    @case
    def cf_default():
        f = tf.function(lambda x, y=3.0: x - y)
        c = f.get_concrete_function(C(1.0))
        return c(C(5.0)), c(C(5.0), 3.0), c(C(5.0), y=3.0)

    @case
    def cf_default_changed():
        f = tf.function(lambda x, y=3.0: x - y)
        c = f.get_concrete_function(C(1.0))
        return c(C(5.0), 4.0)

    @case
    def cf_default_tensor():
        f = tf.function(lambda x, y=3.0: x - y)
        c = f.get_concrete_function(C(1.0), C(2.0))
        return c(C(5.0))

    @case
    def cf_other_size():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        return c(C([1.0, 2.0, 3.0]))

    @case
    def cf_other_size_tensor():
        f = tf.function(lambda x: tf.reduce_sum(x))
        c = f.get_concrete_function(C([1.0, 2.0]))
        return c(C([1.0, 2.0, 3.0]))

    @case
    def cf_other_rank():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        return c(C(1.0))

    @case
    def cf_other_dtype():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        return c(C([1, 2]))

    @case
    def cf_py_list():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        return c([1.0, 2.0])

    @case
    def cf_np():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        return c(np.array([1.0, 2.0], np.float32))

    @case
    def cf_np64():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        return c(np.array([1.0, 2.0]))

    @case
    def cf_float():
        f = tf.function(lambda x: x * 2)
        c = f.get_concrete_function(tf.TensorSpec([], tf.float32))
        return c(3.0), c(3)

    @case
    def cf_unknown():
        f = tf.function(lambda x: tf.reduce_sum(x))
        c = f.get_concrete_function(tf.TensorSpec(None, tf.float32))
        return c(C(1.0)), c(C([1.0, 2.0])), c(tf.ones([2, 2]))

    @case
    def cf_struct_in():
        f = tf.function(lambda x, k=2, *, z=None: x * k)
        c = f.get_concrete_function({"a": C(1.0)}["a"], 3)
        return str(c.structured_input_signature), len(c.inputs), len(c.outputs), str(c.outputs[0].dtype)

    @case
    def cf_dict():
        f = tf.function(lambda d: d["a"] - d["b"])
        c = f.get_concrete_function({"a": C(1.0), "b": C(2.0)})
        return c({"b": C(5.0), "a": C(7.0)}), c(d={"b": C(5.0), "a": C(7.0)})

    @case
    def cf_dict_missing():
        f = tf.function(lambda d: d["a"])
        c = f.get_concrete_function({"a": C(1.0), "b": C(2.0)})
        return c({"a": C(7.0)})

    @case
    def cf_dict_flat():
        f = tf.function(lambda d: d["a"] - d["b"])
        c = f.get_concrete_function({"a": C(1.0), "b": C(2.0)})
        return c(a=C(7.0), b=C(3.0))

    @case
    def cf_list_py_tensor():
        f = tf.function(lambda l: l[0] * l[1])
        c = f.get_concrete_function([C(1.0), 3.0])
        return c([C(2.0), 3.0])

    @case
    def cf_none():
        f = tf.function(lambda x, y=None: x if y is None else x + y)
        c = f.get_concrete_function(C(1.0))
        return c(C(2.0)), c(C(2.0), None)

    @case
    def cf_none_given():
        f = tf.function(lambda x, y=None: x if y is None else x + y)
        c = f.get_concrete_function(C(1.0))
        return c(C(2.0), C(1.0))

    @case
    def cf_str():
        f = tf.function(lambda x, s: x * len(s))
        c = f.get_concrete_function(C(1.0), "abc")
        return c(C(2.0)), c(C(2.0), "abc")

    @case
    def cf_str_changed():
        f = tf.function(lambda x, s: x * len(s))
        c = f.get_concrete_function(C(1.0), "abc")
        return c(C(2.0), "zz")

    @case
    def cf_varargs():
        f = tf.function(lambda *a: tf.add_n(list(a)))
        c = f.get_concrete_function(C(1.0), C(2.0))
        return c(C(3.0), C(4.0))

    @case
    def cf_kwargs():
        f = tf.function(lambda **k: k["a"] - k["b"])
        c = f.get_concrete_function(a=C(1.0), b=C(2.0))
        return c(b=C(3.0), a=C(4.0))

    @case
    def cf_method():
        class M(tf.Module):
            def __init__(self):
                self.w = tf.Variable(3.0)

            @tf.function
            def f(self, x):
                return x * self.w

        m = M()
        c = m.f.get_concrete_function(tf.TensorSpec([], tf.float32))
        return c(C(2.0)), len(c.variables), len(c.trainable_variables)

    @case
    def cf_grad():
        f = tf.function(lambda x: x**2)
        c = f.get_concrete_function(C(1.0))
        x = C(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = c(x)
        return t.gradient(y, x)

    @case
    def cf_in_function():
        f = tf.function(lambda x: x**2)
        c = f.get_concrete_function(C(1.0))
        g = tf.function(lambda x: c(x) + 1)
        return g(C(3.0))

    @case
    def cf_input_sig():
        f = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([None], tf.float32)])
        c = f.get_concrete_function()
        return c(C([1.0])), c(C([1.0, 2.0]))

    @case
    def cf_same_object():
        f = tf.function(lambda x: x * 2)
        a = f.get_concrete_function(C(1.0))
        b = f.get_concrete_function(C(2.0))
        d = f.get_concrete_function(tf.TensorSpec([], tf.float32))
        return a is b, a is d

    @case
    def cf_boolmask():
        f = tf.function(lambda x: tf.boolean_mask(x, x > 1.0))
        c = f.get_concrete_function(tf.TensorSpec([None], tf.float32))
        return c(C([1.0, 2.0, 3.0])), c(C([5.0]))


def signatures(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def sig_default():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.float32)])
        def f(x, y=2.0):
            return x * y

        return f(C(3.0)), f(C(3.0), C(4.0)), f(3.0, 4.0), f(y=C(2.0), x=C(1.0))

    @case
    def sig_default_none():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def f(x, y=2.0):
            return x * y

        return f(C(3.0))

    @case
    def sig_extra():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def f(x, y=2.0):
            return x * y

        return f(C(3.0), 5.0)

    @case
    def sig_wrong():
        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
        def f(x):
            return x

        return f(C([1.0, 2.0, 3.0]))

    @case
    def sig_dtype():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def f(x):
            return x

        return f(C(1))

    @case
    def sig_too_long():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)] * 3)
        def f(x):
            return x

        return f(C(1.0))

    @case
    def sig_nested():
        @tf.function(input_signature=[{"a": tf.TensorSpec([None], tf.float32), "b": [tf.TensorSpec([], tf.float32)]}])
        def f(d):
            return d["a"] * d["b"][0]

        return f({"a": C([1.0, 2.0]), "b": [C(3.0)]}), f({"b": [2.0], "a": [1.0]})

    @case
    def sig_kwonly():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def f(x, *, k=3.0):
            return x * k

        return f(C(2.0))

    @case
    def sig_var():
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def f(*a):
            return a[0] * 2

        return f(C(2.0))

    @case
    def sig_notspec():
        return tf.function(lambda x: x, input_signature=[3])(C(1.0))

    @case
    def sig_method():
        class M:
            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
            def f(self, x):
                return x * 2

        m = M()
        return m.f(C([1.0])), m.f([2.0])


def copies(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def pk_copy():
        f = tf.function(lambda x: x * 2)
        g = copy.copy(f)
        return g(C(2.0)), f(C(3.0)), type(g) is type(f)

    class PM(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(2.0)

        @tf.function
        def f(self, x):
            return x * self.w

    @case
    def pk_pickle():
        g = pickle.loads(pickle.dumps(tf.function(times_three)))
        return g(C(2.0))

    @case
    def pk_pickle_lambda():
        return pickle.loads(pickle.dumps(tf.function(lambda x: x)))(C(1.0))

    @case
    def pk_deepcopy_module():
        m = PM()
        m.f(C(1.0))
        n = copy.deepcopy(m)
        n.w.assign(5.0)
        return m.f(C(1.0)), n.f(C(1.0))

    @case
    def pk_copy_module():
        m = PM()
        m.f(C(1.0))
        n = copy.copy(m)
        return n.f(C(1.0)), n.w is m.w

    @case
    def pk_weakref():
        f = tf.function(lambda x: x)
        r = weakref.ref(f)
        return r() is f

    @case
    def pk_method_eq():
        m = PM()
        return m.f is m.f, m.f == m.f, PM.f is PM.f

    @case
    def pk_hash():
        f = tf.function(lambda x: x)
        return hash(f) == hash(f), {f: 1}[f]

    @case
    def fn_partial():
        return tf.function(functools.partial(lambda a, b: a - b, b=C(2.0)))(C(5.0))

    @case
    def fn_callable_obj():
        class K:
            def __call__(self, x):
                return x * 7

        return tf.function(K())(C(1.0))

    @case
    def fn_of_fn():
        f = tf.function(lambda x: x * 2)
        g = tf.function(f)
        return g(C(1.0))

    @case
    def fn_static():
        class S:
            @staticmethod
            @tf.function
            def f(x):
                return x * 2

            @classmethod
            @tf.function
            def g(cls, x):
                return x * 3

        return S.f(C(1.0)), S().f(C(1.0)), S.g(C(1.0))

    @case
    def fn_property():
        class S:
            @property
            @tf.function
            def p(self):
                return C(3.0)

        return S().p

    @case
    def fn_inherit():
        class A:
            @tf.function
            def f(self, x):
                return x * self.k

        class B(A):
            k = 5.0

        class D(A):
            k = 6.0

            @tf.function
            def f(self, x):
                return super().f(x) + 1

        b = B()
        return b.f(C(1.0))

    @case
    def fn_super():
        class A:
            k = 2.0

            @tf.function
            def f(self, x):
                return x * self.k

        class D(A):
            k = 6.0

            @tf.function
            def f(self, x):
                return super().f(x) + 1

        d = D()
        return d.f(C(1.0))


def strings(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def st_const():
        return tf.function(lambda x: (x * 2, "word"))(C(1.0))

    @case
    def st_arg():
        return tf.function(lambda s, x: (s, x * 2))(C("abc"), C(1.0)), tf.function(lambda s: s == "abc")(C("abc"))

    @case
    def st_list():
        return tf.function(lambda: ["a", b"b", C(["x", "y"])])()

    @case
    def st_cond():
        f = tf.function(lambda x: tf.cond(x > 0, lambda: "pos", lambda: "neg"))
        return f(C(1.0)), f(C(-1.0))

    @case
    def st_if():
        @tf.function
        def f(x):
            if x > 0:
                s = "pos"
            else:
                s = "neg"
            return s

        return f(C(1.0)), f(C(-1.0))

    @case
    def st_fstring():
        out = []

        @tf.function
        def f(x):
            out.append("Tensor" in f"{x}")
            return x

        f(C(1.0))
        return out

    @case
    def st_assert_text():
        @tf.function
        def f(x):
            tf.debugging.Assert(x > 0, ["x must be positive, was", x])
            return x * 2

        r = [f(C(1.0))]
        try:
            f(C(-1.0))
        except tf.errors.InvalidArgumentError as e:
            r.append("x must be positive, was" in str(e))
        return r

    @case
    def st_assert_eager():
        try:
            tf.debugging.Assert(False, ["text", C(3.0)])
        except tf.errors.InvalidArgumentError as e:
            return "text" in str(e)

    @case
    def st_assert_eq():
        @tf.function
        def f(x):
            tf.debugging.assert_equal(x, 1.0, message="not one")
            return x

        r = [f(C(1.0))]
        try:
            f(C(2.0))
        except tf.errors.InvalidArgumentError as e:
            r.append("not one" in str(e))
        return r

    @case
    def st_stack():
        return tf.function(lambda s: tf.stack([s, s]))(C("a"))

    @case
    def st_var():
        v = tf.Variable("a")
        f = tf.function(lambda: v.assign("b"))
        f()
        return v

    @case
    def st_gather():
        return tf.function(lambda i: tf.gather(C(["a", "b", "c"]), i))(C([2, 0]))

    @case
    def st_where():
        return tf.function(lambda x: tf.where(x > 0, "p", "n"))(C([1.0, -1.0]))


def variables(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def v_lift_false():
        n = []

        @tf.function
        def f(x):
            v = tf.Variable(x, experimental_enable_variable_lifting=False)
            n.append(1)
            v.assign_add(1.0)
            return v + 0.0

        return f(C(1.0)), f(C(5.0)), len(n)

    @case
    def v_lift_false_grad():
        @tf.function
        def f(x):
            v = tf.Variable(x * 2.0, experimental_enable_variable_lifting=False)
            return v * v

        x = C(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x)
        return y, t.gradient(y, x)

    @case
    def v_slice_bcast():
        v = tf.Variable(tf.zeros([2, 3]))
        v[:, :].assign(1.0)
        a = v.numpy()
        v[0].assign([5.0])
        return a, v

    @case
    def v_slice_bcast2():
        v = tf.Variable(tf.zeros([2, 3]))
        v[:, 1:].assign([[7.0]])
        return v

    @case
    def v_slice_bad():
        v = tf.Variable(tf.zeros([2, 3]))
        v[:, 1:].assign([1.0, 2.0, 3.0])
        return v

    @case
    def v_slice_tensor_index():
        v = tf.Variable(tf.zeros([4]))
        v[C(2)].assign(5.0)
        f = tf.function(lambda i: v[i].assign(tf.cast(i, tf.float32)))
        f(C(1))
        f(C(3))
        return v

    @case
    def v_slice_loop():
        v = tf.Variable(tf.zeros([4]))

        @tf.function
        def f(n):
            for i in tf.range(n):
                v[i].assign(tf.cast(i * i, tf.float32))
            return v + 0.0

        return f(C(3)), f(C(4)), v

    @case
    def v_slice_loop2():
        v = tf.Variable(tf.zeros([3, 2]))

        @tf.function
        def f(x):
            for i in tf.range(3):
                v[i, 1].assign(x[i])
                v[i, :1].assign([x[i] * 2.0])
            return v + 0.0

        return f(C([1.0, 2.0, 3.0]))

    @case
    def v_slice_range():
        v = tf.Variable(tf.zeros([4]))
        f = tf.function(lambda i: v[i : i + 2].assign([1.0, 2.0]))
        f(C(1))
        return v

    @case
    def v_slice_neg():
        v = tf.Variable(tf.zeros([4]))
        v[-1].assign(3.0)
        v[::2].assign(9.0)
        return v

    @case
    def v_slice_in_function_bcast():
        v = tf.Variable(tf.zeros([2, 2]))
        f = tf.function(lambda x: v[:, 0].assign(x))
        f(C(4.0))
        return v

    @case
    def v_grow():
        v = tf.Variable([1.0], shape=[None])

        @tf.function
        def f(x):
            v.assign(tf.concat([v, [x]], 0))
            return tf.size(v), tf.reduce_sum(v)

        return [f(C(float(i))) for i in range(3)], v

    @case
    def v_grow_grad():
        v = tf.Variable([1.0], shape=[None])
        f = tf.function(lambda: tf.reduce_sum(v * v))
        out = []
        for i in range(3):
            with tf.GradientTape() as t:
                y = f()
            out.append(t.gradient(y, v))
            v.assign(tf.concat([v, [2.0 + i]], 0))
        return out

    @case
    def v_grow_rank():
        v = tf.Variable(1.0, shape=tf.TensorShape(None))
        f = tf.function(lambda: v * 2.0)
        a = f()
        v.assign([1.0, 2.0])
        b = f()
        v.assign([[3.0]])
        return a, b, f()

    @case
    def v_grow_shape():
        v = tf.Variable([1.0], shape=[None])
        f = tf.function(lambda: tf.shape(v))
        a = f()
        v.assign([1.0, 2.0])
        return a, f(), tf.function(lambda: tf.zeros_like(v))()

    @case
    def v_grow_arg():
        v = tf.Variable([1.0], shape=[None])
        f = tf.function(lambda w: tf.reduce_sum(w) + tf.cast(tf.size(w), tf.float32))
        a = f(v)
        v.assign([1.0, 2.0])
        return a, f(v)

    @case
    def v_grow_loop():
        v = tf.Variable([1.0], shape=[None])

        @tf.function
        def f(n):
            for i in tf.range(n):
                v.assign(tf.concat([v, [tf.cast(i, tf.float32)]], 0))
            return v + 0.0

        return f(C(2)), f(C(1))


def conditions(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def lp_maxiter():
        return tf.function(lambda n: tf.while_loop(lambda i: i < 100, lambda i: [i + 1], [C(0)], maximum_iterations=n))(
            C(5)
        )

    @case
    def lp_maxiter_eager():
        return tf.while_loop(lambda i: i < 100, lambda i: [i + 1], [C(0)], maximum_iterations=C(5))

    @case
    def lp_maxiter_grad():
        f = tf.function(
            lambda x, n: tf.while_loop(lambda a: a < 1000.0, lambda a: [a * 2.0], [x], maximum_iterations=n)[0]
        )
        x = C(3.0)
        out = []
        for n in (0, 2, 4):
            with tf.GradientTape() as t:
                t.watch(x)
                y = f(x, C(n))
            out.append((y, t.gradient(y, x)))
        return out

    @case
    def lp_maxiter_var():
        v = tf.Variable(3)
        return tf.function(lambda: tf.while_loop(lambda i: i < 100, lambda i: [i + 1], [C(0)], maximum_iterations=v))()

    @case
    def lp_nonbool():
        return tf.function(lambda x: tf.while_loop(lambda i: i, lambda i: [i - 1], [x]))(C(3))

    @case
    def lp_nonbool_auto():
        @tf.function
        def f(x):
            while x:
                x = x - 1
            return x

        return f(C(3))

    @case
    def lp_nonbool_float():
        @tf.function
        def f(x):
            while x:
                x = x - 1.0
            return x

        return f(C(3.0))

    @case
    def lp_nonbool_eager():
        return tf.while_loop(lambda i: i, lambda i: [i - 1], [C(3)])

    @case
    def cd_nonbool():
        return tf.function(lambda x: tf.cond(x, lambda: 1.0, lambda: 2.0))(C(3))

    @case
    def cd_nonbool_auto():
        @tf.function
        def f(x):
            if x:
                y = 1.0
            else:
                y = 2.0
            return y

        return f(C(3)), f(C(0)), f(C(0.5))

    @case
    def cd_nonbool_eager():
        return tf.cond(C(3), lambda: 1.0, lambda: 2.0)

    @case
    def cd_vector():
        @tf.function
        def f(x):
            if x > 0:
                y = 1.0
            else:
                y = 2.0
            return y

        return f(C([1.0, 2.0]))

    @case
    def cd_vector1():
        @tf.function
        def f(x):
            if x > 0:
                y = 1.0
            else:
                y = 2.0
            return y

        return f(C([1.0]))

    @case
    def cd_vector_fn():
        return tf.function(lambda x: tf.cond(x > 0, lambda: 1.0, lambda: 2.0))(C([1.0, 2.0]))

    @case
    def not_nonbool():
        @tf.function
        def f(x):
            return not x

        return f(C(3))

    @case
    def and_nonbool():
        @tf.function
        def f(x, y):
            return x and y

        return f(C(3), C(2))


def arguments(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def ar_dict_order():
        n = []

        @tf.function
        def f(d):
            n.append(1)
            return d["a"] - d["b"]

        return f({"a": C(1.0), "b": C(2.0)}), f({"b": C(2.0), "a": C(1.0)}), f(dict(b=C(1.0), a=C(5.0))), len(n)

    @case
    def ar_kw_order():
        n = []

        @tf.function
        def f(**k):
            n.append(1)
            return k["a"] - k["b"]

        return f(a=C(1.0), b=C(2.0)), f(b=C(2.0), a=C(1.0)), len(n)

    @case
    def ar_ordered_dict():
        n = []

        @tf.function
        def f(d):
            n.append(1)
            return d["a"] - d["b"]

        O = collections.OrderedDict
        return (
            f(O([("a", C(1.0)), ("b", C(2.0))])),
            f(O([("b", C(2.0)), ("a", C(1.0))])),
            f({"a": C(1.0), "b": C(2.0)}),
            len(n),
        )

    @case
    def ar_nested_order():
        n = []

        @tf.function
        def f(d):
            n.append(1)
            return d["x"]["a"] * d["y"][0]

        return (
            f({"x": {"a": C(1.0), "b": C(3.0)}, "y": [C(2.0)]}),
            f({"y": [C(2.0)], "x": {"b": C(3.0), "a": C(1.0)}}),
            len(n),
        )

    @case
    def ar_list_tuple():
        n = []

        @tf.function
        def f(l):
            n.append(1)
            return l[0] + l[1]

        return f([C(1.0), C(2.0)]), f((C(1.0), C(2.0))), len(n)

    @case
    def ar_set():
        return tf.function(lambda s: len(s))({1, 2})

    @case
    def ar_set_tensor():
        return tf.function(lambda x, s: x * len(s))(C(1.0), {3, 4})

    @case
    def ar_frozenset():
        return tf.function(lambda s: len(s))(frozenset([1, 2]))

    @case
    def ar_obj_unhashable():
        class U:
            __hash__ = None

        return tf.function(lambda x, u: x)(C(1.0), U())

    @case
    def ar_type():
        return tf.function(lambda x, t: tf.cast(x, t))(C(1.0), tf.int32), tf.function(lambda x, t: x * t.k)(
            C(2.0), type("Q", (), {"k": 3.0})
        )

    @case
    def ar_fn():
        return tf.function(lambda x, g: g(x))(C(2.0), tf.sin), tf.function(lambda x, g: g(x))(C(2.0), lambda z: z * 3)

    @case
    def ar_mutate_list():
        @tf.function
        def f(l):
            l.append(C(2.0))
            return len(l)

        return f([C(1.0)])

    @case
    def ar_mutate_elem():
        @tf.function
        def f(l):
            l[0] = l[0] + 1
            return l[0]

        return f([C(1.0)])

    @case
    def ar_mutate_pop():
        @tf.function
        def f(d):
            return d.pop("a")

        return f({"a": C(1.0), "b": C(2.0)})

    @case
    def ar_mutate_kwargs():
        @tf.function
        def f(**k):
            return k.pop("a") + k["b"]

        return f(a=C(1.0), b=C(2.0))

    @case
    def ar_mutate_nested():
        @tf.function
        def f(x, d):
            d["q"]["z"] = x
            return x

        return f(C(1.0), {"q": {"w": C(2.0)}})

    @case
    def ar_mutate_py():
        @tf.function
        def f(x, l):
            l[0] = 5
            return x

        return f(C(1.0), [1, 2])

    @case
    def ar_mutate_copy():
        @tf.function
        def f(l):
            l = list(l)
            l.append(C(2.0))
            return tf.add_n(l)

        return f([C(1.0)])

    @case
    def ar_mutate_obj():
        class O:
            pass

        o = O()

        @tf.function
        def f(o, x):
            o.k = 3
            return x

        return f(o, C(1.0)), o.k

    @case
    def ar_default_mutable():
        @tf.function
        def f(x, l=[]):
            l.append(1)
            return x

        return f(C(1.0))


def init_scopes(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def is_symbolic():
        @tf.function
        def f(x):
            with tf.init_scope():
                y = x + 1.0
            return y

        return f(C(1.0))

    @case
    def is_const():
        @tf.function
        def f(x):
            with tf.init_scope():
                y = C(3.0) * 2.0
            return x + y

        return f(C(1.0))

    @case
    def is_var():
        vs = []

        @tf.function
        def f(x):
            with tf.init_scope():
                if not vs:
                    vs.append(tf.Variable(2.0))
            return x * vs[0]

        return f(C(1.0)), f(C([1.0])), len(vs)

    @case
    def is_var_each():
        vs = []

        @tf.function
        def f(x):
            with tf.init_scope():
                vs.append(tf.Variable(2.0))
            return x * vs[-1]

        return f(C(1.0)), f(C([1.0])), len(vs)

    @case
    def is_intermediate():
        @tf.function
        def f(x):
            y = x * 2.0
            with tf.init_scope():
                v = tf.convert_to_tensor(y)
            return v

        return f(C(1.0))


def python_functions(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def pf_dtype():
        return tf.function(lambda x: tf.py_function(lambda z: z, [x], tf.int32))(C(1.5))

    @case
    def pf_dtype_eager():
        return tf.py_function(lambda z: z, [C(1.5)], tf.int32)

    @case
    def pf_dtype_np():
        return tf.py_function(lambda z: z.numpy(), [C(1.5)], tf.int32)

    @case
    def pf_dtype_py():
        return (tf.py_function(lambda z: 1.5, [C(1.5)], tf.int32),)

    @case
    def pf_dtype_int():
        return tf.py_function(lambda z: 3, [C(1.5)], tf.float32)

    @case
    def pf_count():
        return tf.py_function(lambda z: (z, z), [C(1.5)], [tf.float32])

    @case
    def pf_count2():
        return tf.py_function(lambda z: z, [C(1.5)], [tf.float32, tf.float32])

    @case
    def pf_none():
        return tf.py_function(lambda z: None, [C(1.5)], tf.float32)

    @case
    def pf_none_ok():
        return tf.py_function(lambda z: None, [C(1.5)], [])

    @case
    def pf_list1():
        return tf.py_function(lambda z: z, [C(1.5)], [tf.float32])

    @case
    def nf_dtype_eager():
        return tf.numpy_function(lambda z: np.float64(z), [C(1.0)], tf.float32)

    @case
    def nf_dtype_int():
        return tf.numpy_function(lambda z: 3, [C(1.0)], tf.float32)

    @case
    def nf_py():
        return tf.numpy_function(lambda z: 3.0, [C(1.0)], tf.float32)

    @case
    def nf_list():
        return tf.numpy_function(lambda z: [z, z + 1], [C(1.0)], [tf.float32, tf.float32])

    @case
    def nf_count():
        return tf.numpy_function(lambda z: z, [C(1.0)], [tf.float32, tf.float32])

    @case
    def nf_str():
        return tf.numpy_function(lambda z: "abc", [C(1.0)], tf.string)

    @case
    def nf_none():
        return tf.numpy_function(lambda z: None, [C(1.0)], [])

    @case
    def nf_grow():
        f = tf.function(lambda n: tf.numpy_function(lambda n: np.arange(n, dtype=np.float32), [n], tf.float32))
        return f(C(2)), f(C(4)), f(C(0))

    @case
    def nf_grow_reduce():
        f = tf.function(
            lambda n: tf.reduce_sum(tf.numpy_function(lambda n: np.arange(n, dtype=np.float32), [n], tf.float32)) * 2.0
        )
        return f(C(2)), f(C(4))

    @case
    def nf_setshape():
        def g(x):
            y = tf.numpy_function(lambda x: x * 2, [x], tf.float32)
            y.set_shape(x.shape)
            return tf.reduce_sum(y, 0)

        return tf.function(g)(tf.ones([2, 2]))

    @case
    def pf_spec():
        return tf.function(lambda x: tf.py_function(lambda z: z * 2, [x], tf.TensorSpec([2], tf.float32)))(
            C([1.0, 2.0])
        )

    @case
    def pf_spec_wrong():
        return tf.function(lambda x: tf.py_function(lambda z: z[:1], [x], tf.TensorSpec([2], tf.float32)))(
            C([1.0, 2.0])
        )

    @case
    def pf_raise():
        def bad(x):
            raise KeyError("zap")

        return tf.function(lambda x: tf.py_function(bad, [x], tf.float32))(C(1.0))

    @case
    def pf_raise_type():
        def bad(x):
            raise TypeError("zap")

        return tf.function(lambda x: tf.py_function(bad, [x], tf.float32))(C(1.0))

    @case
    def nf_raise():
        def bad(x):
            raise ZeroDivisionError("zap")

        return tf.function(lambda x: tf.numpy_function(bad, [x], tf.float32))(C(1.0))

    @case
    def nf_raise_eager():
        def bad(x):
            raise ZeroDivisionError("zap")

        return tf.numpy_function(bad, [C(1.0)], tf.float32)


def gradients(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def tg_const():
        @tf.function
        def f():
            c = C(3.0)
            y = c * c
            return tf.gradients(y, c)

        return f()

    @case
    def tg_const2():
        @tf.function
        def f(x):
            c = tf.constant([1.0, 2.0])
            y = tf.reduce_sum(c * c * x)
            return tf.gradients(y, [c, x])

        return f(C(2.0))

    @case
    def tg_zeros():
        @tf.function
        def f(x):
            c = tf.zeros([2])
            y = (c + x) ** 2
            return tf.gradients(y, c)

        return f(C(2.0))

    @case
    def tg_intermediate():
        @tf.function
        def f(x):
            y = x * x
            z = y * y
            return tf.gradients(z, [y, x])

        return f(C(2.0))

    @case
    def tg_stop():
        @tf.function
        def f(x):
            y = x * x
            z = y * x
            return tf.gradients(z, [x, y], stop_gradients=[y])

        return f(C(2.0))

    @case
    def tg_var():
        v = tf.Variable(3.0)

        @tf.function
        def f():
            return tf.gradients(v * v, v)

        return f()

    @case
    def tg_captured():
        k = C(3.0)

        @tf.function
        def f(x):
            return tf.gradients(x * k * k, [k, x])

        return f(C(2.0))

    @case
    def tg_random():
        @tf.function
        def f():
            r = tf.random.uniform([2])
            return tf.gradients(3.0 * r, r)

        return f()

    @case
    def tg_cond():
        @tf.function
        def f(x):
            c = C(2.0)
            y = tf.cond(x > 0, lambda: c * c * x, lambda: c)
            return tf.gradients(y, [c, x])

        return f(C(3.0)), f(C(-3.0))

    @case
    def tg_hess_const():
        @tf.function
        def f():
            c = C([1.0, 2.0])
            return tf.hessians(tf.reduce_sum(c**3), c)

        return f()

    @case
    def tg_second():
        @tf.function
        def f():
            c = C(2.0)
            g = tf.gradients(c**3, c)[0]
            return tf.gradients(g, c)

        return f()

    @case
    def tape_const():
        @tf.function
        def f():
            c = C(3.0)
            with tf.GradientTape() as t:
                t.watch(c)
                y = c * c
            return t.gradient(y, c)

        return f()


def late_watches(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def wt_var():
        v = tf.Variable(3.0)
        with tf.GradientTape(watch_accessed_variables=False) as t:
            y = v * v
            t.watch(v)
            z = v * 2.0
        return (t.gradient(y, v),)

    @case
    def wt_var2():
        v = tf.Variable(3.0)
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as t:
            y = v * v
            t.watch(v)
            z = v * 2.0
            w = y * v
        return t.gradient(z, v), t.gradient(y, v), t.gradient(w, v), t.gradient([y, z], v)

    @case
    def wt_read():
        v = tf.Variable(3.0)
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as t:
            r = v.read_value()
            t.watch(v)
            y = r * r
            z = v * v
        return t.gradient(y, v), t.gradient(z, v)

    @case
    def wt_stop():
        v = tf.Variable(3.0)
        with tf.GradientTape(persistent=True) as t:
            with t.stop_recording():
                y = v * v
            z = v * 2.0
        return t.gradient(y, v), t.gradient(z, v)

    @case
    def wt_tensor():
        x = C(3.0)
        with tf.GradientTape(persistent=True) as t:
            y = x * x
            t.watch(x)
            z = x * 2.0
        return t.gradient(y, x), t.gradient(z, x)

    @case
    def wt_nontrain():
        v = tf.Variable(3.0, trainable=False)
        with tf.GradientTape(persistent=True) as t:
            y = v * v
            t.watch(v)
            z = v * 2.0
        return t.gradient(y, v), t.gradient(z, v)

    @case
    def wt_nontrain_fn():
        v = tf.Variable(3.0, trainable=False)
        f = tf.function(lambda: v * v)
        with tf.GradientTape(persistent=True) as t:
            y = f()
            t.watch(v)
            z = f()
        return t.gradient(y, v), t.gradient(z, v)

    @case
    def wt_other():
        v, w = tf.Variable(3.0, trainable=False), tf.Variable(2.0)
        with tf.GradientTape(persistent=True) as t:
            y = v * w
            t.watch(v)
            z = v * w
        return t.gradient(y, [v, w]), t.gradient(z, [v, w]), t.gradient([y, z], [v, w])

    @case
    def wt_other2():
        v, x = tf.Variable(3.0, trainable=False), C(2.0)
        with tf.GradientTape(persistent=True) as t:
            t.watch(x)
            y = v * x
            t.watch(v)
            z = y * v
        return t.gradient(z, [v, x])

    @case
    def wt_jac():
        v, x = tf.Variable([3.0, 1.0], trainable=False), C([2.0, 1.0])
        with tf.GradientTape(persistent=True) as t:
            t.watch(x)
            y = v * x
            t.watch(v)
            z = y * v
        return t.jacobian(z, [v, x])

    @case
    def wt_tensor2():
        v, x = C(3.0), C(2.0)
        with tf.GradientTape(persistent=True) as t:
            t.watch(x)
            y = v * x
            t.watch(v)
            z = y * v
        return t.gradient(z, [v, x])

    @case
    def wt_after_pause():
        v = tf.Variable(3.0, trainable=False)
        with tf.GradientTape(persistent=True) as t:
            t.watch(v)
            y = v * v
            v.assign(5.0)
            z = v * v
        return t.gradient(y, v), t.gradient(z, v)

    # recompute
    @case
    def rc_ref():
        v = tf.Variable(2.0)

        def f(x):
            return x * v

        g = tf.recompute_grad(f)
        x = C(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = g(x)
        return t.gradient(y, [x, v])

    @case
    def rc_ref_keys():
        v = tf.Variable(2.0)
        d = {v.ref(): 3.0}

        def f(x, table):
            return x * list(table.values())[0] * list(table.keys())[0].deref()

        g = tf.recompute_grad(f)
        x = C(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = g(x, d)
        return t.gradient(y, [x, v])

    @case
    def rc_ref_arg():
        v = tf.Variable(2.0)
        g = tf.recompute_grad(lambda x, r: x * r.deref())
        x = C(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = g(x, v.ref())
        return y, t.gradient(y, [x, v])

    @case
    def rc_kw():
        v = tf.Variable(2.0)
        g = tf.recompute_grad(lambda x, k=None: x * k["a"] * v)
        x = C(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = g(x, k={"a": C(4.0)})
        return y, t.gradient(y, [x, v])


def local_variables(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def lf_const():
        n = []

        @tf.function
        def f(x):
            v = tf.Variable(1.0, experimental_enable_variable_lifting=False)
            n.append(1)
            v.assign_add(x)
            return v + 0.0

        return f(C(1.0)), f(C(5.0)), f(C([1.0, 2.0])) if False else 0, len(n)

    @case
    def lf_callable():
        n = []

        @tf.function
        def f(x):
            v = tf.Variable(lambda: tf.ones([2]), experimental_enable_variable_lifting=False)
            n.append(1)
            v.assign_add(x * tf.ones([2]))
            return v + 0.0

        return f(C(1.0)), f(C(5.0)), len(n)

    @case
    def lf_traced():
        @tf.function
        def f(x):
            v = tf.Variable(lambda: x * 2.0, experimental_enable_variable_lifting=False)
            v.assign_add(1.0)
            return v + 0.0

        return f(C(1.0)), f(C(5.0))

    @case
    def lf_twice():
        @tf.function
        def f(x):
            v = tf.Variable(1.0, experimental_enable_variable_lifting=False)
            w = tf.Variable(2.0, experimental_enable_variable_lifting=False)
            return v + w + x

        return f(C(1.0)), f(C([5.0]))

    @case
    def lf_grad():
        @tf.function
        def f(x):
            v = tf.Variable(3.0, experimental_enable_variable_lifting=False)
            with tf.GradientTape() as t:
                y = v * v * x
            return t.gradient(y, v)

        return f(C(2.0)), f(C(3.0))

    @case
    def lf_kept():
        vs = []

        @tf.function
        def f(x):
            if not vs:
                vs.append(tf.Variable(1.0, experimental_enable_variable_lifting=False))
            return vs[0].assign_add(x) + 0.0

        return f(C(1.0)), f(C(2.0)), vs[0]

    @case
    def lf_eager():
        v = tf.Variable(1.0, experimental_enable_variable_lifting=False)
        return v

    @case
    def lf_loop():
        @tf.function
        def f(n):
            s = 0.0
            for i in tf.range(n):
                v = tf.Variable(1.0, experimental_enable_variable_lifting=False)
                v.assign_add(tf.cast(i, tf.float32))
                s += v
            return s

        return f(C(3))

    @case
    def lf_shape():
        @tf.function
        def f(x):
            v = tf.Variable(tf.zeros([3]), experimental_enable_variable_lifting=False)
            v[1].assign(x)
            return v * 2.0

        return f(C(1.0)), f(C(2.0))


def loop_options(tf: Any, case: Any) -> None:
    C = tf.constant

    @case
    def inv():
        @tf.function
        def f(n):
            x = tf.zeros([1])
            i = C(0)
            while i < n:
                tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
                x = tf.concat([x, [1.0]], 0)
                i += 1
            return x

        return f(C(3))

    @case
    def inv2():
        return tf.function(
            lambda n: tf.while_loop(
                lambda i, x: i < n,
                lambda i, x: (i + 1, tf.concat([x, [2.0]], 0)),
                [C(0), tf.zeros([1])],
                shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
            )
        )(C(3))

    @case
    def mx2():
        @tf.function
        def f(n, m):
            s = 0
            for i in tf.range(n):
                tf.autograph.experimental.set_loop_options(maximum_iterations=m)
                s += i
            i = 0
            while i < n:
                tf.autograph.experimental.set_loop_options(maximum_iterations=m)
                i += 1
            return s, i

        return f(C(10), C(3)), f(C(2), C(3))

    @case
    def py():
        @tf.function
        def f(x):
            for i in range(4):
                tf.autograph.experimental.set_loop_options(maximum_iterations=2)
                x += 1.0
            return x

        return f(C(1.0))


def values_decide_shapes(tf: Any, case: Any) -> None:
    C = tf.constant

    def grad(f, *xs):
        xs = [C(x) for x in xs]
        with tf.GradientTape(persistent=True) as t:
            t.watch(xs)
            y = f(*xs)
        return y, t.gradient(y, xs)

    P = {
        "mask": (lambda x: tf.boolean_mask(x, x > 1.5) ** 2, [1.0, 2.0, 3.0]),
        "maskidx": (lambda x: tf.reduce_sum(x[x > 1.5] * 3.0), [1.0, 2.0, 3.0]),
        "unique": (lambda x: tf.unique(x)[0] * 2.0, [1.0, 2.0, 1.0]),
        "uniquec": (lambda x: tf.unique_with_counts(x)[2], [1.0, 2.0, 1.0]),
        "where": (lambda x: tf.cast(tf.where(x > 1.5), tf.float32), [1.0, 2.0, 3.0]),
        "wheregather": (lambda x: tf.gather_nd(x, tf.where(x > 1.5)) ** 2, [1.0, 2.0, 3.0]),
        "slice": (lambda x: x[: tf.cast(x[0], tf.int32)] * 2.0, [2.0, 2.0, 3.0]),
        "slice2": (lambda x: x[tf.cast(x[0], tf.int32) :] * 2.0, [2.0, 2.0, 3.0]),
        "range": (lambda x: tf.cast(tf.range(tf.cast(x[2], tf.int32)), tf.float32) * x, [1.0, 2.0, 3.0]),
        "reshape": (lambda x: tf.reshape(x, [tf.cast(x[0], tf.int32), -1]) * 2.0, [1.0, 2.0, 3.0]),
        "fill": (lambda x: tf.fill([tf.cast(x[1], tf.int32)], x[2]), [1.0, 2.0, 3.0]),
        "zeros": (lambda x: tf.zeros([tf.cast(x[1], tf.int32), 2]) + x[0], [1.0, 2.0, 3.0]),
        "tile": (lambda x: tf.tile(x, [tf.cast(x[1], tf.int32)]), [1.0, 2.0, 3.0]),
        "repeat": (lambda x: tf.repeat(x, tf.cast(x, tf.int32)), [1.0, 2.0, 3.0]),
        "onehot": (lambda x: tf.one_hot([0, 1], tf.cast(x[1], tf.int32)) * x[0], [1.0, 2.0, 3.0]),
        "pad": (lambda x: tf.pad(x, [[tf.cast(x[0], tf.int32), 0]]), [1.0, 2.0, 3.0]),
        "dynpart": (lambda x: tf.dynamic_partition(x * 2.0, tf.cast(x > 1.5, tf.int32), 2)[1], [1.0, 2.0, 3.0]),
        "seqmask": (lambda x: tf.cast(tf.sequence_mask(tf.cast(x, tf.int32)), tf.float32) * x[0], [1.0, 2.0, 3.0]),
        "bincount": (lambda x: tf.cast(tf.math.bincount(tf.cast(x, tf.int32)), tf.float32), [1.0, 2.0, 3.0]),
        "segsum": (lambda x: tf.math.segment_sum(x * x, tf.cast(x, tf.int32) - 1), [1.0, 2.0, 2.0]),
        "unsorted": (
            lambda x: tf.math.unsorted_segment_sum(x * x, tf.cast(x, tf.int32) - 1, tf.cast(x[2], tf.int32)),
            [1.0, 2.0, 3.0],
        ),
        "linspace": (lambda x: tf.linspace(0.0, x[2], tf.cast(x[2], tf.int32)), [1.0, 2.0, 3.0]),
        "eye": (lambda x: tf.eye(tf.cast(x[1], tf.int32)) * x[0], [1.0, 2.0, 3.0]),
        "split": (lambda x: tf.split(x * 2.0, tf.stack([tf.cast(x[0], tf.int32), 2]))[1], [1.0, 2.0, 3.0]),
        "bshape": (lambda x: tf.broadcast_to(x[0], [tf.cast(x[1], tf.int32)]), [1.0, 2.0, 3.0]),
        "topk": (lambda x: tf.math.top_k(x, tf.cast(x[1], tf.int32))[0], [1.0, 2.0, 3.0]),
        "expand": (lambda x: tf.concat([x, tf.boolean_mask(x, x > 2.0)], 0) ** 2, [1.0, 2.0, 3.0]),
        "nms": (
            lambda x: tf.cast(
                tf.image.non_max_suppression(
                    tf.constant([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]), x, 3
                ),
                tf.float32,
            ),
            [1.0, 2.0, 3.0],
        ),
        "setdiff": (
            lambda x: tf.sets.difference(tf.cast(x, tf.int32)[None], tf.constant([[1]])).values if False else x,
            [1.0, 2.0, 3.0],
        ),
        "strided": (lambda x: x[:: tf.cast(x[1], tf.int32)] * 2.0, [1.0, 2.0, 3.0]),
        "random": (
            lambda x: tf.cast(tf.shape(tf.random.uniform([tf.cast(x[1], tf.int32), 2])), tf.float32),
            [1.0, 2.0, 3.0],
        ),
        "gatherempty": (lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 10.0)), [1.0, 2.0, 3.0]),
    }
    for n, (f, x) in P.items():
        case(lambda f=f, x=x: grad(tf.function(f), x), f"shape_of_{n}")

    @case
    def loop_ta():
        @tf.function
        def f(n):
            ta = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            i = C(0)
            while i < n:
                ta = ta.write(i, tf.cast(i, tf.float32))
                i += 1
            return ta.stack()

        return f(C(3)), f(C(5)), f(C(0))

    @case
    def ta_size():
        @tf.function
        def f(n):
            ta = tf.TensorArray(tf.float32, n)
            for i in tf.range(n):
                ta = ta.write(i, tf.cast(i, tf.float32) * 2.0)
            return ta.stack()

        return f(C(3)), f(C(2))

    @case
    def ta_unstack():
        @tf.function
        def f(x):
            ta = tf.TensorArray(tf.float32, 0, dynamic_size=True).unstack(tf.boolean_mask(x, x > 1.0))
            return ta.size(), ta.stack()

        return f(C([1.0, 2.0, 3.0]))

    @case
    def effects():
        v = tf.Variable(0.0)
        out = []

        @tf.function
        def f(x):
            v.assign_add(1.0)
            y = tf.boolean_mask(x, x > 1.0)
            v.assign_add(10.0)
            return tf.size(y)

        return f(C([1.0, 2.0])), v.numpy(), f(C([3.0, 2.0])), v.numpy()

    @case
    def var_created():
        class M(tf.Module):
            def __init__(self):
                super().__init__()
                self.a = self.b = None

            @tf.function
            def __call__(self, x):
                if self.a is None:
                    self.a = tf.Variable(2.0)
                y = tf.boolean_mask(x, x > 1.0) * self.a
                if self.b is None:
                    self.b = tf.Variable(3.0)
                return y + self.b

        m = M()
        return m(C([1.0, 2.0])), m(C([5.0, 2.0])), len(m.variables)

    @case
    def var_each():
        @tf.function
        def f(x):
            v = tf.Variable(1.0)
            return tf.boolean_mask(x, x > 1.0) + v

        return f(C([1.0, 2.0]))

    @case
    def var_each_after():
        @tf.function
        def f(x):
            y = tf.boolean_mask(x, x > 1.0)
            v = tf.Variable(1.0)
            return y + v

        return f(C([1.0, 2.0])), f(C([1.0, 2.0]))

    @case
    def nested_static():
        n = []
        g = tf.function(lambda x: (n.append(1), x * 2.0)[1])
        h = tf.function(lambda x: tf.boolean_mask(x, x > 1.0))
        f = tf.function(lambda x: g(h(g(x))))
        return f(C([1.0, 2.0])), f(C([0.0, 2.0]))

    @case
    def nested_grad():
        h = tf.function(lambda x: tf.boolean_mask(x, x > 1.0))
        f = tf.function(lambda x: tf.reduce_sum(h(x) ** 3))
        return grad(f, [1.0, 2.0, 3.0])

    @case
    def tape_inside():
        @tf.function
        def f(x):
            with tf.GradientTape() as t:
                t.watch(x)
                y = tf.reduce_sum(tf.boolean_mask(x, x > 1.0) ** 2)
            return t.gradient(y, x)

        return f(C([1.0, 2.0, 3.0]))

    @case
    def second():
        f = tf.function(lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 1.0) ** 3))
        x = C([1.0, 2.0, 3.0])
        with tf.GradientTape() as o:
            o.watch(x)
            with tf.GradientTape() as t:
                t.watch(x)
                y = f(x)
            g = t.gradient(y, x)
        return o.jacobian(g, x)

    @case
    def cond_shapes():
        f = tf.function(lambda x: tf.cond(x > 0, lambda: tf.zeros([2]), lambda: tf.ones([3])))
        return f(C(1.0)), f(C(-1.0))

    @case
    def cond_shapes_grad():
        f = tf.function(lambda x: tf.reduce_sum(tf.cond(x[0] > 0, lambda: x[:1] ** 2, lambda: x**3)))
        return grad(f, [2.0, 3.0]), grad(f, [-2.0, 3.0])

    @case
    def switch_shapes():
        f = tf.function(lambda i, x: tf.switch_case(i, [lambda: x, lambda: x[:1], lambda: tf.concat([x, x], 0)]))
        return [f(C(i), C([1.0, 2.0])) for i in (0, 1, 2)]

    @case
    def if_shapes():
        @tf.function
        def f(x):
            if x[0] > 0:
                y = x
            else:
                y = tf.concat([x, x], 0)
            return y * 2.0

        return f(C([1.0, 2.0])), f(C([-1.0, 2.0]))

    @case
    def early_return_shapes():
        @tf.function
        def f(x):
            if x[0] > 0:
                return x
            return x[1:]

        return f(C([1.0, 2.0])), f(C([-1.0, 2.0]))

    @case
    def dataset():
        ds = tf.data.Dataset.range(5)

        @tf.function
        def f(x):
            s = tf.constant(0, tf.int64)
            for e in ds:
                s += e
            return tf.cast(s, tf.float32) * x

        return f(C(2.0))

    @case
    def python_if_known():
        @tf.function
        def f(x, flag):
            if flag:
                return tf.boolean_mask(x, x > 1.0)
            return x * 2.0

        return f(C([1.0, 2.0]), True), f(C([1.0, 2.0]), False)

    @case
    def sig():
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def f(x):
            return tf.boolean_mask(x, x > 1.0)

        return f(C([1.0, 2.0])), f(C([3.0, 2.0, 1.0])), f([4.0])

    @case
    def kw():
        @tf.function
        def f(x, *, t=1.0):
            return tf.boolean_mask(x, x > t)

        return f(C([1.0, 2.0])), f(C([1.0, 2.0]), t=C(0.0)), f(x=C([3.0]), t=5.0)

    @case
    def method():
        class M:
            def __init__(self):
                self.t = 1.0

            @tf.function
            def f(self, x):
                return tf.boolean_mask(x, x > self.t)

        m = M()
        return m.f(C([1.0, 2.0])), m.f(C([0.0, 2.0]))

    @case
    def var_arg():
        @tf.function
        def f(v, x):
            v.assign_add(1.0)
            return tf.boolean_mask(x, x > v)

        v, w = tf.Variable(0.0), tf.Variable(1.0)
        return f(v, C([1.0, 2.0, 3.0])), f(w, C([1.0, 2.0, 3.0])), v, w, f(v, C([1.0, 2.0, 3.0]))

    @case
    def struct():
        @tf.function
        def f(d):
            return {"m": tf.boolean_mask(d["x"], d["x"] > 1.0), "n": None, "k": (d["y"], 3)}

        return f({"x": C([1.0, 2.0]), "y": C(1.0)})

    @case
    def jac():
        f = tf.function(lambda x: tf.boolean_mask(x, x > 1.0) ** 2)
        x = C([1.0, 2.0, 3.0])
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x)
        return t.jacobian(y, x)

    @case
    def fwd():
        f = tf.function(lambda x: tf.boolean_mask(x, x > 1.0) ** 2)
        x = C([1.0, 2.0, 3.0])
        with tf.autodiff.ForwardAccumulator(x, C([1.0, 1.0, 2.0])) as a:
            y = f(x)
        return a.jvp(y)

    @case
    def custom():
        @tf.custom_gradient
        def g(x):
            y = tf.boolean_mask(x, x > 1.0)
            return y, lambda d: tf.scatter_nd(tf.where(x > 1.0), d * 7.0, tf.shape(x, out_type=tf.int64))

        return grad(tf.function(lambda x: g(x) * 2.0), [1.0, 2.0, 3.0])

    @case
    def custom_grad_dyn():
        @tf.custom_gradient
        def g(x):
            return x * 2.0, lambda d: d * tf.cast(tf.size(tf.boolean_mask(x, x > 1.0)), tf.float32)

        return grad(tf.function(lambda x: g(x)), [1.0, 2.0, 3.0])

    @case
    def while_dyn():
        @tf.function
        def f(x):
            while tf.size(x) > 1:
                x = tf.boolean_mask(x, x > tf.reduce_mean(x))
            return x

        return f(C([1.0, 2.0, 3.0, 9.0]))

    @case
    def map_dyn():
        return tf.function(lambda x: tf.map_fn(lambda r: tf.reduce_sum(tf.boolean_mask(r, r > 1.0)), x))(
            C([[1.0, 2.0], [3.0, 4.0]])
        )

    @case
    def vmap_dyn():
        return tf.function(lambda x: tf.vectorized_map(lambda r: tf.reduce_sum(tf.where(r > 1.0, r, 0.0)), x))(
            C([[1.0, 2.0], [3.0, 4.0]])
        )

    @case
    def sparse():
        return tf.function(lambda x: tf.sparse.to_dense(tf.sparse.from_dense(x)))(C([[1.0, 0.0], [0.0, 4.0]]))

    @case
    def numpyf_shape():
        f = tf.function(lambda x: tf.reshape(tf.numpy_function(lambda z: z[z > 1], [x], tf.float32), [-1]))
        return f(C([1.0, 2.0, 3.0])), f(C([1.0, 2.0, 0.0]))

    @case
    def try_except():
        @tf.function
        def f(x):
            try:
                return tf.boolean_mask(x, x > 1.0)
            except Exception:
                return x * 0.0

        return f(C([1.0, 2.0]))


def unconnected(tf: Any, case: Any) -> None:
    """None or zeros: gradients, Jacobians and tangents of functions of (x, z) that do not depend on both."""

    @tf.custom_gradient
    def none_for_a(a, b):
        return a * b, lambda g: (None, g * 5.0)

    @tf.custom_gradient
    def zeros_for_a(a, b):
        return a * b, lambda g: (tf.zeros_like(a), g * 5.0)

    def loop(body, *carried):
        return tf.while_loop(lambda i, *_: i < 3, lambda i, *values: (i + 1, *body(*values)), [0, *carried])[1]

    functions = {
        "ignored": lambda x, z: x * 2.0,
        "two_results": lambda x, z: (x * 2.0, z * 3.0),
        "stop_gradient": lambda x, z: tf.stop_gradient(x) + z,
        "round": lambda x, z: tf.round(x) + z,
        "sign": lambda x, z: tf.sign(x) * z,
        "through_integers": lambda x, z: tf.cast(tf.cast(x, tf.int32), tf.float32) * z,
        "integer_result": lambda x, z: (x * 2.0, tf.cast(z, tf.int32)),
        "integers_only": lambda x, z: tf.cast(x + z, tf.int32),
        "constant": lambda x, z: tf.constant([7.0, 8.0]),
        "constant_result": lambda x, z: (x * 2.0, tf.constant([7.0, 8.0])),
        "times_zero": lambda x, z: 0.0 * x + z,
        "condition": lambda x, z: tf.where(x > 0, z, z),
        "argument": lambda x, z: x,
        "argmax": lambda x, z: tf.cast(tf.argmax(x), tf.float32) * z,
        "branches": lambda x, z: tf.cond(z[0] > 0, lambda: x * 1.0, lambda: z * 2.0),
        "branches_without": lambda x, z: tf.cond(x[0] > 0, lambda: z * 1.0, lambda: z * 2.0),
        "branches_stopped": lambda x, z: tf.cond(z[0] > 0, lambda: tf.stop_gradient(x) * 1.0, lambda: z * 2.0),
        "branches_rounded": lambda x, z: tf.cond(z[0] > 0, lambda: tf.round(x), lambda: tf.floor(x)),
        "loop_without": lambda x, z: loop(lambda a: (a * z,), tf.ones([2])),
        "loop_beside": lambda x, z: loop(lambda a, b: (a * z, b), tf.ones([2]), x),
        "loop_stopped": lambda x, z: loop(lambda a: (a + tf.stop_gradient(x),), z),
        "rows": lambda x, z: tf.map_fn(lambda row: row * 2.0, z),
        "custom_none": none_for_a,
        "custom_zeros": zeros_for_a,
    }

    def gradients(f):
        x, z = tf.constant([1.25, 2.5]), tf.constant([3.5, 4.5])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, z])
            y = f(x, z)
        targets = [y, *tf.nest.flatten(y)]
        zeros = tape.gradient(y, [x, z], unconnected_gradients="zero")
        return [tape.gradient(target, [x, z]) for target in targets], zeros, tape.jacobian(targets[-1], [x, z])

    def of_variables(f):
        x, z = tf.Variable([1.25, 2.5]), tf.Variable([3.5, 4.5])
        g = tf.function(lambda: f(x, z))
        with tf.GradientTape() as tape:
            y = g()
        return tape.gradient(y, [x, z])

    def inside(f):
        missing = []

        @tf.function
        def g(x, z):
            with tf.GradientTape() as tape:
                tape.watch([x, z])
                y = tf.function(f)(x, z)
            found = tape.gradient(y, [x, z])
            missing[:] = [gradient is None for gradient in found]
            return [tf.zeros([]) if gradient is None else gradient for gradient in found]

        return g(tf.constant([1.25, 2.5]), tf.constant([3.5, 4.5])), missing

    def tangents(f):
        x, z = tf.constant([1.25, 2.5]), tf.constant([3.5, 4.5])
        found = []
        for primal in (x, z):
            with tf.autodiff.ForwardAccumulator(primal, tf.ones([2])) as accumulator:
                y = f(x, z)
            found.append([accumulator.jvp(y), accumulator.jvp(y, unconnected_gradients="zero")])
        return found

    for name, f in functions.items():
        case(lambda f=f: gradients(tf.function(f)), f"unconnected_{name}")
        case(lambda f=f: of_variables(f), f"unconnected_variables_{name}")
        case(lambda f=f: inside(f), f"unconnected_inside_{name}")
        if not name.startswith(("loop", "rows")):  # TensorFlow has no tangents of loops
            case(lambda f=f: tangents(tf.function(f)), f"unconnected_tangents_{name}")


def forward_mode(tf: Any, case: Any) -> None:
    """Accumulators, functions, tapes and vectorized_map inside of each other. TensorFlow's answers are those of eager
    code: through functions it has fewer.
    """
    accumulator = tf.autodiff.ForwardAccumulator
    compiled = (lambda f: f) if tf.__name__ == "tensorflow" else tf.function
    first, second = tf.constant([1.0, -0.5]), tf.constant([0.3, 2.0])

    @tf.custom_gradient
    def log1p_exp(x):
        e = tf.exp(x)
        return tf.math.log(1 + e), lambda g: g * (1 - 1 / (1 + e))

    def rows(x):
        s = tf.zeros([])
        for row in x:
            s += tf.sin(row) * row
        return s * x

    def until(x):
        y = x
        while tf.reduce_sum(y) < 20.0:
            y = y * 1.5 + x * x * x
        return y

    def branch(x):
        if tf.reduce_sum(x) > 0.0:
            y = x * x * x
        else:
            y = tf.exp(x)
        return y * x

    plain_functions = {
        "exp": lambda x: tf.exp(x) * x,
        "softmax": lambda x: tf.nn.softmax(x * x),
        "product": lambda x: tf.reduce_sum(x * x) * x,
        "custom": lambda x: log1p_exp(x) * x,
        "matrix": lambda x: tf.linalg.matvec(tf.reshape(tf.concat([x, tf.exp(x)], 0), [2, 2]), x),
    }
    with_control_flow = {"rows": rows, "until": until, "branch": branch}

    def within(f):
        return lambda x: jvp_of(f, x, first)

    def jvp_of(f, x, t):
        with accumulator(x, t) as acc:
            y = f(x)
        return acc.jvp(y)

    def twice(f, x):
        with accumulator(x, first) as outer:
            slope = jvp_of(f, x, second)
        return slope, outer.jvp(slope)

    def thrice(f, x):
        with accumulator(x, first) as outer:
            curvature = twice(f, x)[1]
        return curvature, outer.jvp(curvature)

    def forward_over_reverse(f, x):
        with accumulator(x, first) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            g = tape.gradient(y, x)
        return g, acc.jvp(g)

    def reverse_over_forward(f, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            slope = jvp_of(f, x, first)
        return slope, tape.jacobian(slope, x)

    def gradient_inside(f, x):
        @compiled
        def slope(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tape.gradient(y, x)

        return jvp_of(slope, x, first)

    def rows_of_tangents(f, x):
        return tf.vectorized_map(lambda t: jvp_of(f, x, t), tf.eye(2))

    def batch_of_tangents(f, x):
        with accumulator._batch_accumulator(x, tf.eye(2)) as acc:
            y = f(x)
        return acc.jvp(y)

    ways = {
        "inside": lambda f, x: compiled(within(f))(x),
        "twice": twice,
        "thrice": thrice,
        "twice_inside": lambda f, x: twice(compiled(lambda x: jvp_of(f, x, second)), x),
        "forward_over_reverse": forward_over_reverse,
        "reverse_over_forward": reverse_over_forward,
        "gradient_inside": gradient_inside,
        "rows": rows_of_tangents,
        "batch": batch_of_tangents,
    }
    for name, f in plain_functions.items():
        for way, run in ways.items():
            if way == "batch" and name in ("product", "custom", "matrix"):  # TensorFlow fails
                continue
            case(lambda f=f, run=run: run(compiled(f), tf.constant([1.25, 2.5])), f"forward_{way}_{name}")
    for name, f in with_control_flow.items():
        for way in ("inside", "twice", "forward_over_reverse", "reverse_over_forward"):
            run = ways[way]
            case(lambda f=f, run=run: run(compiled(f), tf.constant([1.25, 2.5])), f"forward_{way}_{name}")


FAMILIES = (
    *changing.FAMILIES,
    unconnected,
    forward_mode,
    concrete_functions,
    signatures,
    copies,
    strings,
    variables,
    conditions,
    arguments,
    init_scopes,
    python_functions,
    gradients,
    late_watches,
    local_variables,
    loop_options,
    values_decide_shapes,
)


def main() -> None:
    """Store TensorFlow's answers: those of all programs, or of the ones that begin with a word."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    warnings.filterwarnings("ignore")
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    path, *words = sys.argv[1:]
    record = json.loads(pathlib.Path(path).read_text()) if words else {}
    for name, program in programs(tf).items():
        if not words or name.startswith(tuple(words)):
            record[name] = answer(program)
    pathlib.Path(path).write_text(json.dumps(record, indent=0))


if __name__ == "__main__":
    main()
