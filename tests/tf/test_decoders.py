"""CTC decoders, and rounding to the levels of integers; the numbers were recorded from TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

SCORES = np.log(
    np.float32([
        [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]],
        [[0.5, 0.1, 0.4], [0.7, 0.2, 0.1]],
        [[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]],
        [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]],
    ])
)  # fmt: skip


def dense(sparse):
    return tf.sparse.to_dense(sparse, default_value=-1).numpy().tolist()


def test_greedy_decoding():
    (decoded,), score = tf.nn.ctc_greedy_decoder(SCORES, [4, 3])
    assert dense(decoded) == [[0, 0], [0, -1]]
    assert decoded.dtype == tf.int64
    expected = [-np.log(0.6 * 0.5 * 0.8 * 0.7), -np.log(0.6 * 0.7 * 0.8)]
    np.testing.assert_allclose(score.numpy()[:, 0], expected, rtol=1e-5)
    (repeated,), _ = tf.nn.ctc_greedy_decoder(SCORES, [4, 3], merge_repeated=False)
    assert dense(repeated) == [[0, 0, 0], [0, 0, -1]]
    (other,), _ = tf.nn.ctc_greedy_decoder(SCORES, [4, 3], blank_index=0)
    assert dense(other) == [[2], [2]]


def test_beam_search_sums_the_alignments():
    (best, second), score = tf.nn.ctc_beam_search_decoder(SCORES, [4, 3], beam_width=20, top_paths=2)

    def probability(path, row, length):
        total = 0.0
        for alignment in np.ndindex(*[3] * length):
            merged = [a for i, a in enumerate(alignment) if (i == 0 or a != alignment[i - 1]) and a != 2]
            if merged == path:
                total += np.exp(sum(SCORES[step, row, label] for step, label in enumerate(alignment)))
        return total

    for row, length in enumerate((4, 3)):
        for place, found in enumerate((best, second)):
            path = [label for label in dense(found)[row] if label >= 0]
            assert float(tf.exp(score[row, place])) == pytest.approx(probability(path, row, length), rel=1e-5)
        assert score[row, 0] >= score[row, 1]


def test_decoders_in_functions():
    @tf.function
    def decode(scores, lengths):
        (decoded,), _ = tf.nn.ctc_greedy_decoder(scores, lengths)
        return decoded

    assert dense(decode(tf.constant(SCORES), tf.constant([4, 3]))) == [[0, 0], [0, -1]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf.nn.ctc_greedy_decoder(SCORES[0], [4]), "inputs is not a 3-Tensor"),
        (lambda: tf.nn.ctc_greedy_decoder(SCORES, [4]), "len.sequence_length. != batch_size"),
        (lambda: tf.nn.ctc_greedy_decoder(SCORES, [4, 5]), r"sequence_length\(1\) <= 4"),
        (lambda: tf.nn.ctc_beam_search_decoder(SCORES, [4, 3], 1, 2), "beam_width must be >= top_paths"),
    ],
)
def test_mistakes_of_decoders(call, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        call()


def test_unique_labels():
    unique, where = tf.nn.ctc_unique_labels([[3, 4, 3, 0, 0], [5, 5, 5, 6, 0]])
    assert unique.numpy().tolist() == [[3, 4, 0, 0, 0], [5, 6, 0, 0, 0]]
    assert where.numpy().tolist() == [[0, 1, 0, 2, 2], [0, 0, 0, 1, 2]]


# -- levels ------------------------------------------------------------------------------------------------------------
X = np.float32([[0.3, -0.8, 1.2], [2.5, -3.0, 0.05]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"num_bits": 3, "range_given": True}, [[1 / 3, -2 / 3, 1], [1, -4 / 3, 0]]),
        ({"num_bits": 3, "range_given": True, "narrow_range": True}, [[1 / 3, -2 / 3, 1], [1, -1, 0]]),
        ({"num_bits": 2, "range_given": True, "signed_input": False}, [[1 / 3, 0, 1], [1, 0, 0]]),
        ({"num_bits": 3}, [[0, -0.8333333, 0.8333333], [2.5, -3.3333333, 0]]),
    ],
)
def test_rounding_to_levels(options, expected):
    for function in (tf.quantization.quantize_and_dequantize, tf.quantization.quantize_and_dequantize_v2):
        np.testing.assert_allclose(function(X, -1.0, 1.0, **options).numpy(), expected, atol=1e-6)


def test_each_channel_has_its_range():
    found = tf.quantization.quantize_and_dequantize_v2(X, [0.0] * 3, [0.0] * 3, num_bits=2, axis=1)
    for channel in range(3):
        alone = tf.quantization.quantize_and_dequantize_v2(X[:, channel], 0.0, 0.0, num_bits=2)
        assert found[:, channel].numpy().tolist() == alone.numpy().tolist()


def test_gradients_of_rounding():
    x, low, high = tf.constant(X), tf.constant(-1.0), tf.constant(1.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, low, high])
        through = tf.quantization.quantize_and_dequantize(x, low, high, range_given=True)
        inside = tf.quantization.quantize_and_dequantize_v2(x, low, high, range_given=True)
    assert tape.gradient(through, x).numpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    assert tape.gradient(inside, x).numpy().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert [g.numpy() for g in tape.gradient(inside, [low, high])] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "words"), [({"round_mode": "UP"}, "Round mode"), ({"num_bits": 0}, "out of range")]
)
def test_mistakes_of_rounding(options, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        tf.quantization.quantize_and_dequantize_v2(X, -1.0, 1.0, **options)


def test_gradients_of_fake_quantization():
    g, x = tf.constant([[1.0, 2.0, 4.0]] * 2), tf.constant([[-1.0, 0.5, 7.0], [3.0, -2.0, 1.0]])
    q = tf.quantization
    assert q.fake_quant_with_min_max_args_gradient(g, x, 0.0, 6.0).numpy().tolist() == [[0, 2, 0], [1, 0, 4]]
    found = q.fake_quant_with_min_max_vars_gradient(g, x, 0.0, 6.0)
    assert [part.numpy().tolist() for part in found] == [[[0, 2, 0], [1, 0, 4]], 3.0, 4.0]
    found = q.fake_quant_with_min_max_vars_per_channel_gradient(g, x, [0.0] * 3, [6.0] * 3)
    assert [part.numpy().tolist() for part in found] == [[[0, 2, 0], [1, 0, 4]], [1, 2, 0], [0, 0, 4]]
