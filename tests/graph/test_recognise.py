"""Attention that was written out: traced as one operation where that is what it is, and as written where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")
from gradtape._src.graph import rewrites as recognise

rng = np.random.default_rng(5)
BATCH, TOKENS, HEADS, FEATURES = 2, 6, 3, 4
LOWER = np.tril(np.ones((TOKENS, TOKENS), bool))
ALLOWED = tf.constant(LOWER)


@pytest.fixture(autouse=True)
def worthwhile(monkeypatch):
    monkeypatch.setattr(recognise, "is_worthwhile", lambda: True)


def numbers(*shape):
    return tf.constant(rng.normal(size=shape), tf.bfloat16)


def tokens_first():
    return [numbers(BATCH, TOKENS, HEADS, FEATURES) for _ in range(3)]


def heads_first():
    return [numbers(BATCH, HEADS, TOKENS, FEATURES) for _ in range(3)]


def shares_of(scores, mask=ALLOWED, fill=-1e30):
    scores = tf.cast(scores, tf.float32) / math.sqrt(FEATURES)
    if mask is not None:
        scores = tf.where(mask, scores, fill)
    return tf.cast(tf.nn.softmax(scores), tf.bfloat16)


def by_einsum(q, k, v):
    return tf.einsum("bhqk,bkhf->bqhf", shares_of(tf.einsum("bqhf,bkhf->bhqk", q, k)), v)


def by_matmul(q, k, v):
    return shares_of(tf.matmul(q, k, transpose_b=True)) @ v


def everywhere(q, k, v):
    return shares_of(tf.matmul(q, k, transpose_b=True), mask=None) @ v


def other_letters(q, k, v):
    shares = shares_of(tf.einsum("nthd,nshd->nhts", q, k))
    return tf.einsum("zyxw,zwyu->zxyu", shares, v)


def turned(q, k, v):
    """The keys come with features before tokens, and the result with heads last."""
    shares = shares_of(tf.einsum("bhqf,bhfk->bhqk", q, tf.transpose(k, (0, 1, 3, 2))))
    return tf.einsum("bhqk,bhkf->bqfh", shares, v)


def scaled_before(q, k, v):
    scores = tf.matmul(q, k, transpose_b=True) * tf.constant(0.5, tf.bfloat16)
    scores = tf.where(ALLOWED, 2.0 * tf.cast(scores, tf.float32), -1e9)
    return tf.cast(tf.nn.softmax(scores), tf.bfloat16) @ v


def no_casts(q, k, v):
    scores = tf.where(ALLOWED, tf.matmul(q, k, transpose_b=True) / 2, tf.constant(-1e10, tf.bfloat16))
    return tf.nn.softmax(scores) @ v


def in_front(q, k, v):
    """A mask with axes of length 1, as they are broadcast."""
    return shares_of(tf.matmul(q, k, transpose_b=True), mask=tf.constant(LOWER[None, None])) @ v


FORMS = {
    "einsum": (by_einsum, tokens_first),
    "matmul": (by_matmul, heads_first),
    "everywhere": (everywhere, heads_first),
    "other letters": (other_letters, tokens_first),
    "turned": (turned, heads_first),
    "scaled before": (scaled_before, heads_first),
    "no casts": (no_casts, heads_first),
    "in front": (in_front, heads_first),
}


def with_slopes(attend):
    def run(q, k, v):
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            out = attend(q, k, v)
            value = tf.reduce_sum(tf.sin(tf.cast(out, tf.float32)))
        return out, tape.gradient(value, [q, k, v])

    return run


def nodes(function, *given):
    return [node.name for node in function.get_concrete_function(*given)._traced.plain.nodes]


@pytest.mark.parametrize("form", FORMS)
def test_forms_that_are_attention(form):
    attend, given = FORMS[form][0], FORMS[form][1]()
    compiled = tf.function(with_slopes(attend))
    names = nodes(compiled, *given)
    assert names.count("attention") == names.count("attention_gradient") == 1
    assert "softmax" not in names
    assert not {"einsum", "matmul", "where"} & {*names}
    for found, expected in zip(
        tf.nest.flatten(compiled(*given)), tf.nest.flatten(with_slopes(attend)(*given)), strict=True
    ):
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype == tf.bfloat16
        np.testing.assert_allclose(
            found.numpy().astype(float), expected.numpy().astype(float), rtol=0.06, atol=0.06, err_msg=form
        )


def dropped(q, k, v):
    """Something is done to the shares before they are used."""
    return (shares_of(tf.matmul(q, k, transpose_b=True)) * tf.constant(2.0, tf.bfloat16)) @ v


def other_axis(q, k, v):
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32)
    return tf.cast(tf.nn.softmax(scores, axis=-2), tf.bfloat16) @ v


def shares_turned(q, k, v):
    return tf.matmul(shares_of(tf.matmul(q, k, transpose_b=True)), v, transpose_a=True)


NOT_ATTENTION = {
    "something between": dropped,
    "another axis": other_axis,
    "shares turned": shares_turned,
    "another mask": lambda q, k, v: shares_of(tf.matmul(q, k, transpose_b=True), tf.constant(LOWER.T)) @ v,
    "not far enough": lambda q, k, v: shares_of(tf.matmul(q, k, transpose_b=True), fill=-3.0) @ v,
    "a mask that is computed": lambda q, k, v: (
        shares_of(tf.matmul(q, k, transpose_b=True), tf.reduce_sum(tf.cast(q, tf.float32)) < ALLOWED_NUMBERS) @ v
    ),
    "a scale that is computed": lambda q, k, v: (
        tf.cast(
            tf.nn.softmax(
                tf.cast(q @ tf.transpose(k, (0, 1, 3, 2)), tf.float32) * tf.reduce_sum(tf.cast(v, tf.float32))
            ),
            tf.bfloat16,
        )
        @ v
    ),
    "float32": lambda q, k, v: (
        tf.nn.softmax(tf.cast(q, tf.float32) @ tf.transpose(tf.cast(k, tf.float32), (0, 1, 3, 2)))
        @ tf.cast(v, tf.float32)
    ),
    "a sum of products": lambda q, k, v: (
        shares_of(tf.matmul(q, k, transpose_b=True) + tf.matmul(k, q, transpose_b=True)) @ v
    ),
    "over heads": lambda q, k, v: tf.einsum("bhqk,bhkf->bqf", shares_of(tf.matmul(q, k, transpose_b=True)), v),
    "one row": lambda q, k, v: tf.einsum(
        "k,kf->f", shares_of(tf.einsum("f,kf->k", q[0, 0, 0], k[0, 0]), mask=None), v[0, 0]
    ),
    "values for all": lambda q, k, v: shares_of(tf.matmul(q, k, transpose_b=True)) @ v[0, 0],
    "keys for all heads": lambda q, k, v: shares_of(tf.matmul(q, k[:, :1], transpose_b=True)) @ v,
    "a mask for each head": lambda q, k, v: (
        shares_of(tf.matmul(q[:, :1], k, transpose_b=True), tf.constant(LOWER[:HEADS, None])) @ v
    ),
    "a triangle of heads": lambda q, k, v: (
        shares_of(
            tf.einsum("hqf,hkf->hqk", tf.tile(q[0], [2, 1, 1]), tf.tile(k[0], [2, 1, 1])), tf.constant(LOWER[:, None])
        )
        @ tf.tile(v[0], [2, 1, 1])
    ),
}
ALLOWED_NUMBERS = tf.constant(np.where(LOWER, 1e9, -1e9).astype(np.float32))


@pytest.mark.parametrize("form", NOT_ATTENTION)
def test_forms_that_are_not(form):
    given = heads_first()
    compiled = tf.function(NOT_ATTENTION[form])
    assert "attention" not in nodes(compiled, *given)
    np.testing.assert_allclose(
        compiled(*given).numpy().astype(float),
        NOT_ATTENTION[form](*given).numpy().astype(float),
        rtol=0.06,
        atol=0.06,
    )


def test_shares_that_somebody_wants_are_there_too():
    given = heads_first()

    def run(q, k, v):
        shares = shares_of(tf.matmul(q, k, transpose_b=True))
        return shares @ v, shares

    compiled = tf.function(run)
    assert {"attention", "softmax"} <= {*nodes(compiled, *given)}
    for found, expected in zip(compiled(*given), run(*given), strict=True):
        np.testing.assert_allclose(found.numpy().astype(float), expected.numpy().astype(float), rtol=0.06, atol=0.06)


def test_a_tape_outside_and_the_second_order():
    q, k, v = heads_first()
    compiled = tf.function(by_matmul)
    found = []
    for run in (by_matmul, compiled):
        with tf.GradientTape() as outer:
            outer.watch(q)
            with tf.GradientTape() as inner:
                inner.watch(q)
                value = tf.reduce_sum(tf.cast(run(q, k, v), tf.float32) ** 2)
            slope = inner.gradient(value, q)
            length = tf.reduce_sum(tf.cast(slope, tf.float32) ** 2)
        found.append(outer.gradient(length, q).numpy().astype(float))
    scale = np.abs(found[0]).max()
    np.testing.assert_allclose(found[1] / scale, found[0] / scale, atol=0.1)


def test_only_where_there_is_a_gpu(monkeypatch):
    monkeypatch.undo()
    assert "attention" not in nodes(tf.function(by_matmul), *heads_first())
