"""eagerpy: every method of its tensors, on TensorFlow's beside NumPy's."""

from __future__ import annotations

import eagerpy as ep
import numpy as np
import pytest
import tensorflow as tf

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
CUBE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)

CALLS = {
    "reshape": lambda t, u: t.reshape((2, 6)),
    "astype": lambda t, u: t.astype(t.float64().dtype),
    "clip": lambda t, u: t.clip(-0.5, 0.5),
    "square": lambda t, u: t.square(),
    "arctanh": lambda t, u: t.clip(-0.5, 0.5).arctanh(),
    "sum": lambda t, u: t.sum(),
    "sum axis": lambda t, u: t.sum(axis=(0, 1), keepdims=True),
    "sum of bools": lambda t, u: (t > 0).sum(axis=0),
    "prod": lambda t, u: t.prod(axis=1),
    "prod of bools": lambda t, u: (t > 0).prod(axis=1),
    "mean": lambda t, u: t.mean(axis=0),
    "min": lambda t, u: t.min(axis=1),
    "max": lambda t, u: t.max(axis=1, keepdims=True),
    "minimum": lambda t, u: t.minimum(u),
    "minimum number": lambda t, u: t.minimum(0.25),
    "maximum": lambda t, u: t.maximum(u),
    "argmin": lambda t, u: t.argmin(axis=1),
    "argmax": lambda t, u: t.argmax(axis=0),
    "argsort": lambda t, u: t.argsort(),
    "sort": lambda t, u: t.sort(axis=0),
    "topk": lambda t, u: t.topk(2)[0],
    "topk indices": lambda t, u: t.topk(2)[1],
    "ones": lambda t, u: t.ones((2, 3)),
    "ones of a number": lambda t, u: t.ones(3),
    "zeros": lambda t, u: t.zeros((2, 3)),
    "ones_like": lambda t, u: t.ones_like(),
    "zeros_like": lambda t, u: t.zeros_like(),
    "full_like": lambda t, u: t.full_like(5.0),
    "full": lambda t, u: t.full((2, 2), 3.0),
    "onehot_like": lambda t, u: t.onehot_like(t.from_numpy(np.array([1, 0, 3])), value=2.0),
    "from_numpy": lambda t, u: t.from_numpy(X + 1),
    "concatenate": lambda t, u: ep.concatenate([t, u], axis=1),
    "stack": lambda t, u: ep.stack([t, u], axis=1),
    "transpose": lambda t, u: t.transpose(),
    "transpose axes": lambda t, u: t.transpose((1, 0)),
    "T": lambda t, u: t.T,
    "all": lambda t, u: (t > -10).all(),
    "any": lambda t, u: (t > 1).any(axis=0),
    "logical_and": lambda t, u: (t > 0).logical_and(u > 0),
    "logical_or": lambda t, u: (t > 0).logical_or(u > 0),
    "logical_not": lambda t, u: (t > 0).logical_not(),
    "exp": lambda t, u: t.exp(),
    "log": lambda t, u: t.abs().log(),
    "log2": lambda t, u: t.abs().log2(),
    "log10": lambda t, u: t.abs().log10(),
    "log1p": lambda t, u: t.abs().log1p(),
    "tile": lambda t, u: t.tile((2, 1)),
    "tile by a tensor": lambda t, u: t.tile(t.from_numpy(np.array([1, 3]))),
    "softmax": lambda t, u: t.softmax(),
    "log_softmax": lambda t, u: t.log_softmax(axis=0),
    "squeeze": lambda t, u: t.expand_dims(0).squeeze(),
    "squeeze axis": lambda t, u: t.expand_dims(1).squeeze(axis=1),
    "expand_dims": lambda t, u: t.expand_dims(axis=-1),
    "index_update row": lambda t, u: t.index_update(1, u[0]),
    "index_update number": lambda t, u: t.index_update(0, 7.0),
    "index_update column": lambda t, u: t.index_update(ep.index[:, 2], u[:, 1]),
    "index_update elements": lambda t, u: t.index_update((ep.arange(t, 3), t.argmax(axis=1)), 9.0),
    "arange": lambda t, u: t.arange(1, 7, 2),
    "arange stop": lambda t, u: t.arange(4),
    "cumsum": lambda t, u: t.cumsum(),
    "cumsum axis": lambda t, u: t.cumsum(axis=1),
    "flip": lambda t, u: t.flip(),
    "flip axis": lambda t, u: t.flip(axis=0),
    "meshgrid": lambda t, u: t[0].meshgrid(u[1])[1],
    "meshgrid ij": lambda t, u: t[0].meshgrid(u[1], indexing="ij")[0],
    "pad": lambda t, u: t.pad(((1, 0), (0, 2)), value=2.5),
    "pad reflect": lambda t, u: t.from_numpy(CUBE).pad(((0, 0), (0, 0), (1, 2)), mode="reflect"),
    "isnan": lambda t, u: (t / t.zeros_like() * 0).isnan(),
    "isinf": lambda t, u: (t / t.zeros_like()).isinf(),
    "crossentropy": lambda t, u: t.crossentropy(t.argmin(axis=1)),
    "slogdet sign": lambda t, u: t[:, :3].slogdet()[0],
    "slogdet": lambda t, u: t[:, :3].slogdet()[1],
    "sign": lambda t, u: t.sign(),
    "sqrt": lambda t, u: t.abs().sqrt(),
    "tanh": lambda t, u: t.tanh(),
    "float64": lambda t, u: t.float64(),
    "where": lambda t, u: (t > 0).where(t, u),
    "where number": lambda t, u: (t > 0).where(t, 0.0),
    "lt": lambda t, u: t < u,
    "le number": lambda t, u: t <= 0.1,
    "eq": lambda t, u: t == t,
    "ne": lambda t, u: t != u,
    "ge": lambda t, u: t >= u,
    "bool": lambda t, u: t.bool(),
    "add": lambda t, u: t + u,
    "radd": lambda t, u: 1 + t,
    "sub": lambda t, u: t - u,
    "rsub": lambda t, u: 1 - t,
    "mul": lambda t, u: t * u,
    "div": lambda t, u: t / u,
    "rdiv": lambda t, u: 2.0 / t,
    "floordiv": lambda t, u: t // u,
    "mod": lambda t, u: t % 0.3,
    "pow": lambda t, u: t.abs() ** 1.5,
    "neg": lambda t, u: -t,
    "abs": lambda t, u: abs(t),
    "matmul": lambda t, u: ep.matmul(t, u.T),
    "getitem": lambda t, u: t[1],
    "getitem slice": lambda t, u: t[:, 1:3],
    "getitem None": lambda t, u: t[:, None],
    "getitem Ellipsis": lambda t, u: t[..., 0],
    "getitem list": lambda t, u: t[[0, 2]],
    "getitem array": lambda t, u: t[np.array([2, 1])],
    "getitem tensor": lambda t, u: t[t.argmax(axis=0)],
    "getitem mask": lambda t, u: t[t > 0],
    "getitem elements": lambda t, u: t[ep.arange(t, 3), u.argmax(axis=1)],
    "take_along_axis": lambda t, u: t.take_along_axis(t.argsort(), axis=-1),
    "flatten": lambda t, u: t.from_numpy(CUBE).flatten(start=1),
    "l0": lambda t, u: t.norms.l0(axis=1),
    "l1": lambda t, u: t.norms.l1(),
    "l2": lambda t, u: t.norms.l2(axis=0),
    "linf": lambda t, u: t.norms.linf(axis=(0, 1)),
    "lp": lambda t, u: ep.norms.lp(t, 3, axis=1),
    "kl_div_with_logits": lambda t, u: ep.kl_div_with_logits(t, u),
    "expand as": lambda t, u: t[:, 0].atleast_kd(2) if hasattr(t, "atleast_kd") else t[:, :1],
    "maximum of bounds": lambda t, u: ep.maximum(ep.minimum(t, 1.0), -1.0),
    "sum of a list": lambda t, u: sum([t, u]),
}


def both(name):
    call = CALLS[name]
    theirs = call(ep.NumPyTensor(X), ep.NumPyTensor(Y))
    ours = call(ep.astensor(tf.constant(X)), ep.astensor(tf.constant(Y)))
    return ours, theirs


@pytest.mark.parametrize("name", CALLS)
def test_method(name):
    ours, theirs = both(name)
    assert isinstance(ours, ep.TensorFlowTensor)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=1e-6)


def test_numpy_is_read_only():
    a = ep.astensor(tf.constant(X)).numpy()
    with pytest.raises(ValueError, match="read-only"):
        a[0, 0] = 1


def test_item_len_repr_and_format():
    t = ep.astensor(tf.constant(X))
    assert len(t) == 3
    assert t.sum().item() == pytest.approx(float(X.sum()), rel=1e-5)
    assert "TensorFlowTensor" in repr(t)
    assert f"{t.sum():.3f}" == f"{X.sum():.3f}"
    with pytest.raises(TypeError):
        hash(t)


def test_iteration_and_unwrapping():
    t = ep.astensor(tf.constant(X))
    assert [row.shape for row in t] == [(4,)] * 3
    (a, b), restore = ep.astensors_(t.raw, t.raw)
    assert restore(a) is t.raw
    assert a.raw is b.raw


def test_astensors():
    a, b = ep.astensors(tf.constant(1.0), tf.constant([2.0]))
    assert (a.item(), b.shape) == (1.0, (1,))
    assert ep.astensor_(tf.constant(1.0))[1](a * 3).numpy() == 3.0


def test_random_numbers():
    t = ep.astensor(tf.constant(X))
    u = t.uniform((1000,), low=2.0, high=3.0)
    assert 2.0 <= u.min().item() <= u.max().item() <= 3.0
    assert abs(t.normal(4000, mean=1.0, stddev=0.5).mean().item() - 1.0) < 0.1


@pytest.mark.parametrize("power", [1, 2, 3])
def test_value_and_grad(power):
    t = ep.astensor(tf.constant(X))
    value, grad = ep.value_and_grad(lambda x: (x**power).sum(), t)
    assert value.item() == pytest.approx(float((X**power).sum()), rel=1e-4)
    np.testing.assert_allclose(grad.numpy(), power * X ** (power - 1), rtol=1e-5)


def test_value_and_grad_with_more_results():
    t = ep.astensor(tf.constant(X))
    _loss, aux, grad = ep.value_aux_and_grad(lambda x, k: ((x * k).sum(), x.max()), t, k=3.0)
    assert aux.item() == pytest.approx(float(X.max()))
    np.testing.assert_allclose(grad.numpy(), np.full_like(X, 3.0))


def test_errors_are_those_of_tensorflow():
    t = ep.astensor(tf.constant(X))
    with pytest.raises(ValueError, match="requires dtype bool"):
        t.all()
    with pytest.raises(ValueError, match="floating types"):
        ep.astensor(tf.constant([1, 2])).mean()
    with pytest.raises(ValueError, match="one entry"):
        t.tile((2,))


def test_a_compiled_function():
    @ep.eager_function if hasattr(ep, "eager_function") else (lambda f: f)
    def f(x):
        return (x.square() + 1).sum()

    t = ep.astensor(tf.constant(X))
    assert f(t).item() == pytest.approx(float((X**2 + 1).sum()), rel=1e-5)
