"""tf.Module finds its variables and modules, and name scopes name them."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradtape as tf


def names(things):
    return [thing.name for thing in things]


class Inner(tf.Module):
    def __init__(self, name="subby"):
        super().__init__(name=name)
        self.w = tf.Variable(5.0, name="w")
        self.deep = tf.Module(name="deep")


class Outer(tf.Module):
    def __init__(self):
        super().__init__()
        self.b = tf.Variable(1.0, name="b")
        self.a = [
            tf.Variable(2.0, name="a0"),
            {"z": tf.Variable(3.0, name="z"), "y": tf.Variable(4, name="y", trainable=False)},
        ]
        self.sub = Inner()
        self.same = self.b
        self.text, self.number, self.nothing = "text", 3, None
        self.constant = tf.constant(1.0)


def test_what_is_found_and_in_which_order():
    m = Outer()
    for found in (m.variables, m.trainable_variables, m.non_trainable_variables, m.submodules):
        assert isinstance(found, tuple)
    assert names(m.variables) == ["a0:0", "y:0", "z:0", "b:0", "w:0"]
    assert names(m.trainable_variables) == ["a0:0", "z:0", "b:0", "w:0"]
    assert names(m.non_trainable_variables) == ["y:0"]
    assert names(m.submodules) == ["subby", "deep"]
    assert tf.Module().variables == ()
    assert tf.Module().submodules == ()


def test_changes_are_seen():
    m = Outer()
    m.extra = tf.Variable(1.0, name="extra")
    assert "extra:0" in names(m.variables)
    del m.extra
    m.a.append(tf.Variable(1.0, name="late"))
    assert "extra:0" not in names(m.variables)
    assert "late:0" in names(m.variables)


def test_containers_of_every_kind():
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = ({"k": [Inner("one"), (Inner("two"),)]}, {2: Inner("three"), 1: Inner("four")})

    net = Net()
    assert [n for n in names(net.submodules) if n != "deep"] == ["one", "two", "four", "three"]
    assert len(net.variables) == 4


def test_cycles_and_shared_modules():
    a, b = tf.Module(name="a"), tf.Module(name="b")
    a.other, b.other = b, a
    a.again = b
    b.v = tf.Variable(1.0)
    assert names(a.submodules) == ["b"]
    assert len(a.variables) == 1


def test_ignored_properties():
    class Quiet(tf.Module):
        _TF_MODULE_IGNORED_PROPERTIES = frozenset({"hidden", *tf.Module._TF_MODULE_IGNORED_PROPERTIES})

        def __init__(self):
            super().__init__()
            self.hidden, self.shown = tf.Variable(1.0, name="h"), tf.Variable(2.0, name="s")

    assert names(Quiet().variables) == ["s:0"]


@pytest.mark.parametrize(
    ("cls", "name"),
    [("Net", "net"), ("MyNet", "my_net"), ("CamelCaseNet2D", "camel_case_net2_d"), ("MLP", "mlp"), ("X", "x")],
)
def test_names_of_classes(cls, name):
    assert type(cls, (tf.Module,), {})().name == name


@pytest.mark.parametrize("name", ["bad name", "1a", "a-b", "a/b", ""])
def test_names_that_are_refused(name):
    with pytest.raises(ValueError, match="is not a valid module name"):
        tf.Module(name=name)


def test_name_scopes():
    class Net(tf.Module):
        def __init__(self, name=None):
            super().__init__(name)
            with self.name_scope:
                self.w = tf.Variable(1.0, name="w")
                self.child = tf.Module(name="child")

        @tf.Module.with_name_scope
        def build(self):
            """Makes one more."""
            self.late = tf.Variable(1.0, name="late")
            return self.late.name

    net = Net()
    assert net.w.name == "net/w:0"
    assert net.build() == "net/late:0"
    assert net.build.__name__ == "build"
    assert net.child.name == "child"
    assert net.child.name_scope.name == "net/child/"
    with net.child.name_scope:
        assert tf.Variable(1.0, name="w").name == "net/child/w:0"
    with tf.name_scope("outside"):
        assert Net("inside").w.name == "outside/inside/w:0"
        assert net.build() == "net/late:0"
    assert tf.Variable(1.0).name == "Variable:0"


def test_name_scope_itself():
    with tf.name_scope("a") as a, tf.name_scope("b") as b:
        assert (a, b) == ("a/", "a/b/")
        assert tf.Variable(1.0, name="v").name == "a/b/v:0"
        with tf.name_scope("a/"):
            assert tf.Variable(1.0).name == "a/Variable:0"
        with pytest.raises(ZeroDivisionError), tf.name_scope("c"):
            raise ZeroDivisionError
        assert tf.Variable(1.0, name="v").name == "a/b/v:0"
    with pytest.raises(ValueError, match="must be a string"):
        tf.name_scope(3)


def test_training_a_module():
    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            self.slope, self.offset = tf.Variable(0.0), tf.Variable(0.0)

        def __call__(self, x):
            return self.slope * x + self.offset

    line, x = Line(), tf.constant([0.0, 1.0, 2.0])
    y = 3.0 * x - 1.0
    for _ in range(500):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((line(x) - y) ** 2)
        for v, g in zip(line.trainable_variables, tape.gradient(loss, line.trainable_variables), strict=True):
            v.assign_sub(0.1 * g)
    assert float(line.slope) == pytest.approx(3.0, abs=1e-3)
    assert float(line.offset) == pytest.approx(-1.0, abs=1e-3)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(copied):
    m = Outer()
    twin = copied(m)
    assert names(twin.variables) == names(m.variables)
    assert twin.same is twin.b
    twin.b.assign(9.0)
    assert float(m.b) == 1.0


def test_trainable_variables_do_not_need_variables():
    class Closed(tf.Module):
        def __init__(self):
            super().__init__()
            self.w, self.n = tf.Variable(1.0), tf.Variable(0, trainable=False)

        @property
        def variables(self):
            raise RuntimeError("not yet")

    module = Closed()
    assert module.trainable_variables == (module.w,)
    assert module.non_trainable_variables == (module.n,)


def test_setting_an_attribute_to_its_value_has_no_effect():
    class Named(tf.Module):
        @property
        def title(self):
            return "a title"

    module = Named()
    module.title = module.title
    with pytest.raises(AttributeError):
        module.title = "another"
