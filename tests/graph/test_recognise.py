"""Attention that was written out: traced as one operation where that is what it is, and as written where it is not."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")
from gradtape._src.arrays.lazy.calls import kinds
from gradtape._src.graph.rewrites import sources

rng = np.random.default_rng(5)
BATCH, TOKENS, HEADS, FEATURES = 2, 6, 3, 4
LOWER = np.tril(np.ones((TOKENS, TOKENS), bool))
ALLOWED = tf.constant(LOWER)


@pytest.fixture(autouse=True)
def worthwhile(monkeypatch):
    monkeypatch.setattr(sources, "is_worthwhile", lambda array: True)


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


SEEN = rng.random((BATCH, TOKENS)) < 0.7  # tokens that are no padding
SEEN[0] = [False, True, True, True, False, False]
SEEN[1] = False  # nothing but padding
PADDING = tf.constant(SEEN)
CAUSAL_NUMBERS = tf.constant(np.triu(np.full((TOKENS, TOKENS), -1e9, np.float32), 1))


def scores_of(q, k, dtype=tf.float32):
    return tf.cast(tf.matmul(q, k, transpose_b=True), dtype) / math.sqrt(FEATURES)


def weighted(scores, v):
    return tf.cast(tf.nn.softmax(scores), v.dtype) @ v


def padded_by_where(q, k, v):
    return weighted(tf.where(PADDING[:, None, None, :], scores_of(q, k), -1e9), v)


def padded_by_numbers(q, k, v):
    numbers = (1.0 - tf.cast(PADDING, tf.float32)) * -1e9
    return weighted(scores_of(q, k) + numbers[:, tf.newaxis, tf.newaxis, :], v)


def padded_by_subtraction(q, k, v):
    return weighted(scores_of(q, k) - tf.cast(tf.logical_not(PADDING), tf.float32)[:, None, None, :] * 1e9, v)


def padded_by_choice(q, k, v):
    numbers = tf.where(PADDING, 0.0, -1e9)
    return weighted(tf.reshape(numbers, (BATCH, 1, 1, TOKENS)) + scores_of(q, k), v)


def padded_and_causal(q, k, v):
    scores = tf.where(ALLOWED, scores_of(q, k), -1e9)
    return weighted(tf.where(PADDING[:, None, None, :], scores, -1e9), v)


def both_masks_in_one(q, k, v):
    return weighted(tf.where(tf.logical_and(ALLOWED, PADDING[:, None, None, :]), scores_of(q, k), -1e30), v)


def forbidden_by_infinity(q, k, v):
    return weighted(tf.where(ALLOWED, scores_of(q, k), -np.inf), v)


def masked_before_scaling(q, k, v):
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) + CAUSAL_NUMBERS * 4.0
    return weighted(scores / math.sqrt(FEATURES), v)


def scale_by_ops(q, k, v):
    size = tf.cast(tf.shape(k)[-1], tf.float32)
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) / tf.math.sqrt(size)
    return weighted(scores + CAUSAL_NUMBERS, v)


def queries_scaled(q, k, v):
    return weighted(tf.cast(tf.matmul(q * 0.5, k, transpose_b=True), tf.float32) + CAUSAL_NUMBERS, v)


def masked_upwards(q, k, v):
    """A constant mask that is not the causal one."""
    return weighted(scores_of(q, k) + tf.transpose(CAUSAL_NUMBERS), v)


def a_mask_for_each_head(q, k, v):
    return shares_of(tf.matmul(q[:, :1], k, transpose_b=True), tf.constant(LOWER[:HEADS, None])) @ v


def a_mask_that_is_computed(q, k, v):
    return shares_of(tf.matmul(q, k, transpose_b=True), tf.reduce_sum(tf.cast(q, tf.float32)) < ALLOWED_NUMBERS) @ v


def one_key_head(q, k, v):
    return weighted(scores_of(q, k[:, :1]) + CAUSAL_NUMBERS, v[:, :1])


def repeated_heads(q, k, v):
    k, v = (tf.repeat(x[:, :1], HEADS, axis=1) for x in (k, v))
    return weighted(scores_of(q, k) + CAUSAL_NUMBERS, v)


def grouped_heads(q, k, v):
    """Three queries share each of two keys: [batch, groups, heads of a group, tokens, features]."""
    q = tf.reshape(tf.concat([q, q], 1), (BATCH, 2, HEADS, TOKENS, FEATURES))
    scores = tf.cast(tf.einsum("bghqf,bgkf->bghqk", q, k[:, :2]), tf.float32) / math.sqrt(FEATURES)
    return tf.einsum("bghqk,bgkf->bghqf", tf.cast(tf.nn.softmax(scores + CAUSAL_NUMBERS), q.dtype), v[:, :2])


def grouped_heads_behind(q, k, v):
    q = tf.reshape(tf.concat([q, q], 2), (BATCH, TOKENS, 2, HEADS, FEATURES))
    scores = tf.cast(tf.einsum("bqghf,bkgf->bghqk", q, k[:, :, :2]), tf.float32) / math.sqrt(FEATURES)
    return tf.einsum("bghqk,bkgf->bqghf", tf.cast(tf.nn.softmax(scores + CAUSAL_NUMBERS), q.dtype), v[:, :, :2])


def other_numbers_of_features(q, k, v):
    return weighted(scores_of(q, k), v[..., :2])


def fewer_queries(q, k, v):
    return weighted(scores_of(q[:, :, 2:], k) + CAUSAL_NUMBERS[2:], v)


def without_a_batch(q, k, v):
    return weighted(scores_of(q[0, 0], k[0, 0]) + CAUSAL_NUMBERS, v[0, 0])


def tutorial(q, k, v):
    """Both masks as numbers, the larger of which counts."""
    ahead = 1 - tf.linalg.band_part(tf.ones((TOKENS, TOKENS)), -1, 0)
    padding = tf.cast(tf.logical_not(PADDING), tf.float32)[:, tf.newaxis, tf.newaxis, :]
    scores = scores_of(q, k)
    scores += tf.maximum(padding, ahead) * -1e9
    return weighted(scores, v)


def a_triangle_of_heads(q, k, v):
    scores = tf.einsum("hqf,hkf->hqk", tf.tile(q[0], [2, 1, 1]), tf.tile(k[0], [2, 1, 1]))
    return shares_of(scores, tf.constant(LOWER[:, None])) @ tf.tile(v[0], [2, 1, 1])


FORMS = {
    "tutorial": (tutorial, heads_first),
    "a triangle of heads": (a_triangle_of_heads, heads_first),
    "einsum": (by_einsum, tokens_first),
    "matmul": (by_matmul, heads_first),
    "everywhere": (everywhere, heads_first),
    "other letters": (other_letters, tokens_first),
    "turned": (turned, heads_first),
    "scaled before": (scaled_before, heads_first),
    "no casts": (no_casts, heads_first),
    "in front": (in_front, heads_first),
    "numbers": (lambda q, k, v: weighted(scores_of(q, k) + CAUSAL_NUMBERS, v), heads_first),
    "numbers first": (lambda q, k, v: weighted(CAUSAL_NUMBERS + scores_of(q, k), v), heads_first),
    "numbers in bfloat16": (
        lambda q, k, v: weighted(scores_of(q, k, q.dtype) + tf.cast(CAUSAL_NUMBERS, q.dtype), v), heads_first
    ),
    "masked upwards": (masked_upwards, heads_first),
    "masked before scaling": (masked_before_scaling, heads_first),
    "forbidden by infinity": (forbidden_by_infinity, heads_first),
    "scale by ops": (scale_by_ops, heads_first),
    "queries scaled": (queries_scaled, heads_first),
    "padded by where": (padded_by_where, heads_first),
    "padded by numbers": (padded_by_numbers, heads_first),
    "padded by subtraction": (padded_by_subtraction, heads_first),
    "padded by choice": (padded_by_choice, heads_first),
    "padded and causal": (padded_and_causal, heads_first),
    "both masks in one": (both_masks_in_one, heads_first),
    "a mask for each head": (a_mask_for_each_head, heads_first),
    "a mask that is computed": (a_mask_that_is_computed, heads_first),
    "values for all": (lambda q, k, v: shares_of(tf.matmul(q, k, transpose_b=True)) @ v[0, 0], heads_first),
    "keys for all heads": (lambda q, k, v: shares_of(tf.matmul(q, k[:, :1], transpose_b=True)) @ v, heads_first),
    "one key head": (one_key_head, heads_first),
    "repeated heads": (repeated_heads, heads_first),
    "grouped heads": (grouped_heads, heads_first),
    "grouped heads behind": (grouped_heads_behind, tokens_first),
    "other numbers of features": (other_numbers_of_features, heads_first),
    "fewer queries": (fewer_queries, heads_first),
    "without a batch": (without_a_batch, heads_first),
}  # fmt: skip
WHERE_IS_LEFT = {"padded by where", "padded by numbers", "padded by subtraction", "padded by choice",
                 "padded and causal", "tutorial", "both masks in one", "a mask that is computed",
                 "fewer queries"}  # fmt: skip
"""Forms that may have positions which look at nothing: they look at everything alike, as in the formula."""


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
    assert not {"softmax", "einsum"} & {*names}
    assert not {"where", "matmul"} & {*names} or form in WHERE_IS_LEFT
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
    "not far enough": lambda q, k, v: shares_of(tf.matmul(q, k, transpose_b=True), fill=-3.0) @ v,
    "numbers not far enough": lambda q, k, v: weighted(scores_of(q, k) + CAUSAL_NUMBERS * 1e-8, v),
    "numbers of other kinds": lambda q, k, v: weighted(scores_of(q, k) + tf.constant(np.eye(TOKENS, dtype="f4")), v),
    "numbers that are computed": lambda q, k, v: weighted(
        scores_of(q, k) + CAUSAL_NUMBERS * tf.reduce_max(tf.cast(q, tf.float32)), v
    ),
    "far after scaling alone": lambda q, k, v: weighted((scores_of(q, k) + CAUSAL_NUMBERS) * 1e-6, v),
    "scores of two kinds": lambda q, k, v: weighted(tf.where(ALLOWED, scores_of(q, k), scores_of(k, q)), v),
    "more values than weights": lambda q, k, v: weighted(scores_of(q[:, :1], k[:, :1]), v),
    "scores broadcast by a mask": lambda q, k, v: weighted(
        scores_of(q[:, :1], k[:, :1]) + tf.tile(CAUSAL_NUMBERS[None, None], [1, HEADS, 1, 1]), v
    ),
    "two softmaxes": lambda q, k, v: weighted(tf.nn.softmax(scores_of(q, k)), v),
    "a stop in between": lambda q, k, v: weighted(tf.stop_gradient(scores_of(q, k)), v),
    "a scale that is computed": lambda q, k, v: (
        tf.cast(
            tf.nn.softmax(
                tf.cast(q @ tf.transpose(k, (0, 1, 3, 2)), tf.float32) * tf.reduce_mean(tf.cast(v, tf.float32))
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
    "two sums of numbers": lambda q, k, v: weighted(
        scores_of(q, k) + CAUSAL_NUMBERS + tf.where(PADDING, 0.0, -1e9)[:, None, None], v
    ),
    "numbers, then a choice": lambda q, k, v: weighted(
        tf.where(PADDING[:, None, None], scores_of(q, k) + CAUSAL_NUMBERS, -1e9), v
    ),
    "numbers of two depths": lambda q, k, v: weighted(
        tf.where(PADDING[:, None, None], tf.where(ALLOWED, scores_of(q, k), -1e9), -1e30), v
    ),
    "a trained mask": lambda q, k, v: weighted(scores_of(q, k) + TRAINED, v),
    "a trained scale": lambda q, k, v: weighted(tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) * SCALE, v),
}
TRAINED, SCALE = tf.Variable(CAUSAL_NUMBERS), tf.Variable(0.5)
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


def test_masks_that_forbid_everything_give_nan_where_the_formula_does():
    given = heads_first()

    def run(q, k, v):
        return weighted(tf.where(PADDING[:, None, None], scores_of(q, k), -np.inf), v)

    compiled = tf.function(run)
    assert "attention" in nodes(compiled, *given)
    found, expected = compiled(*given).numpy().astype(float), run(*given).numpy().astype(float)
    assert np.isnan(expected[1]).all()
    np.testing.assert_allclose(found, expected, rtol=0.06, atol=0.06)


def test_a_mask_that_is_watched_is_a_value_like_others():
    q, k, v = heads_first()

    @tf.function
    def run(mask):
        with tf.GradientTape() as tape:
            tape.watch(mask)
            out = weighted(scores_of(q, k) + mask, v)
        return tape.gradient(out, mask)

    assert np.abs(run(CAUSAL_NUMBERS).numpy()).max() > 0


def test_derivatives_of_what_is_inside():
    def run(q, k, v):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([q, k, v])
            scores = scores_of(q, k)
            shares = tf.nn.softmax(scores + CAUSAL_NUMBERS)
            value = tf.reduce_sum(tf.sin(tf.cast(tf.cast(shares, v.dtype) @ v, tf.float32)))
        return [tape.gradient(value, q), *tape.gradient(value, [shares, q]), *tape.gradient(value, [scores, v])]

    given = heads_first()
    for found, expected in zip(tf.function(run)(*given), run(*given), strict=True):
        np.testing.assert_allclose(found.numpy().astype(float), expected.numpy().astype(float), rtol=0.06, atol=0.06)


def test_a_tape_that_begins_in_the_middle():
    q, k, v = heads_first()

    @tf.function
    def run():
        scores = scores_of(q, k)
        with tf.GradientTape() as tape:
            tape.watch(q)
            out = weighted(scores, v)
        return tape.gradient(out, q, unconnected_gradients="zero")

    assert not run().numpy().astype(float).any()


def test_lazy_arrays():
    given = [x.numpy() for x in heads_first()]
    expected = with_slopes(FORMS["tutorial"][0])(*[tf.constant(x, tf.bfloat16) for x in given])
    tf.config.set_graph_mode("auto")
    try:
        q, k, v = (tf.constant(x, tf.bfloat16) for x in given)
        found = with_slopes(FORMS["tutorial"][0])(q, k, v)
        names = kinds_recorded(found[0])
        for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            np.testing.assert_allclose(a.numpy().astype(float), b.numpy().astype(float), rtol=0.06, atol=0.06)
    finally:
        tf.config.set_graph_mode("accelerators")
    assert "attention" in names


def kinds_recorded(tensor):
    """The names of the ops of the trace that computes a tensor."""
    return {kinds[array.code[0]].name for array in tensor.array.trace.results if array.code}


MULTI_HEAD_ATTENTION = """
import keras
import numpy as np

import gradtape as tf
from gradtape._src.graph.rewrites import sources

sources.is_worthwhile = lambda array: True
layer = keras.layers.MultiHeadAttention(2, 4, dropout=0.1, dtype="mixed_bfloat16")
x = tf.constant(np.random.default_rng(3).normal(size=(2, 5, 8)), tf.float32)
mask = tf.constant(np.tril(np.ones((1, 5, 5), bool)))


def run(x):
    return layer(x, x, attention_mask=mask, return_attention_scores={returned})


expected = tf.nest.flatten(run(x))
compiled = tf.function(run)
assert "attention" in [node.name for node in compiled.get_concrete_function(x)._traced.plain.nodes]
for a, b in zip(tf.nest.flatten(compiled(x)), expected, strict=True):
    np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=0.06, atol=0.06)
"""


@pytest.mark.parametrize("returned", [False, True])
def test_multi_head_attention_of_keras(returned):
    """In a process of its own: Keras has settings for the whole process."""
    pytest.importorskip("keras")
    program = MULTI_HEAD_ATTENTION.format(returned=returned)
    environment = {**os.environ, "KERAS_BACKEND": "gradtape"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
