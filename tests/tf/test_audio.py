"""tf.audio: what TensorFlow reads and writes."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

import gradtape as tf

SOUND = np.array([[0.5, -0.25], [1.5, -1.5], [0.999999, -1.0], [1e-5, 2.6e-5]], np.float32)
READ = np.array([[0.5, -0.25], [0.999969482421875, -1.0], [0.999969482421875, -1.0], [0.0, 3.0517578125e-05]])


def written(width, frames=bytes(range(12))):
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(width)
        sound.setframerate(44100)
        sound.writeframes(frames)
    return file.getvalue()


def test_samples_are_rounded_and_cut_off():
    audio, rate = tf.audio.decode_wav(tf.audio.encode_wav(SOUND, 8000))
    assert (audio.dtype, rate.dtype, rate.numpy()) == (tf.float32, tf.int32, 8000)
    np.testing.assert_array_equal(audio, READ)


@pytest.mark.parametrize(("channels", "samples"), [(1, -1), (3, -1), (-1, 2), (-1, 6), (1, 6)])
def test_desired_sizes(channels, samples):
    expected = READ[:, np.minimum(np.arange(channels), 1)] if channels > 0 else READ
    expected = np.pad(expected, [(0, 2), (0, 0)])[: samples if samples > 0 else 4]
    found = tf.audio.decode_wav(tf.audio.encode_wav(SOUND, 8000), channels, samples).audio
    np.testing.assert_array_equal(found, expected)


def test_files_of_others():
    file = written(2)
    np.testing.assert_array_equal(tf.audio.decode_wav(file).audio[:2], [[0.0078125], [0.02349853515625]])
    more = file[:36] + b"LIST\4\0\0\0abcd" + file[36:]
    np.testing.assert_array_equal(tf.audio.decode_wav(more).audio, tf.audio.decode_wav(file).audio)
    with wave.open(io.BytesIO(tf.audio.encode_wav(SOUND, 8000).numpy())) as sound:
        assert sound.getparams()[:4] == (2, 2, 8000, 4)


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (written(1), "Can only read 16-bit WAV files, but received 8"),
        (b"", "Data too short when trying to read string"),
        (written(2)[:30], "Data too short when trying to read string"),
        (written(2)[:-1], "Data too short when trying to read string"),
        (b"ABCD" + written(2)[4:], "Header mismatch: Expected RIFF but found ABCD"),
        (written(2)[:20] + b"\3" + written(2)[21:], r"Bad audio format for WAV: Expected 1 \(PCM\), but got3"),
        ([written(2)], r"contents must be scalar, got shape \[1\]"),
    ],
)
def test_what_is_no_sound(contents, sentence):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        tf.audio.decode_wav(contents)


def test_wrong_arguments():
    for call, sentence in (
        (lambda: tf.audio.decode_wav(written(2), -5), "desired_channels must be >= -1, got -5"),
        (lambda: tf.audio.encode_wav([1.0], 8000), "audio must be 2-dimensional"),
        (lambda: tf.audio.encode_wav([[1.0]], [8000]), "sample_rate should be a scalar"),
        (lambda: tf.audio.encode_wav([[1.0]], 0), "sample_rate must be in"),
        (lambda: tf.audio.encode_wav(np.zeros((1, 0), np.float32), 1), "num_channels must be in"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
            call()


def test_in_functions_and_datasets():
    sound = tf.audio.encode_wav(SOUND, 8000)
    read = tf.function(lambda contents: tf.reduce_sum(tf.audio.decode_wav(contents).audio))
    np.testing.assert_allclose(read(sound), READ.sum(), rtol=1e-6)
    files = tf.data.Dataset.from_tensors(sound).map(lambda contents: tf.audio.decode_wav(contents, 1)[0])
    assert next(iter(files)).shape == (4, 1)
    made = tf.function(lambda x: tf.audio.encode_wav(x, 8000))(tf.constant(SOUND))
    assert made.numpy() == sound.numpy()
