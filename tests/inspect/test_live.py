"""The page about a training that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradtape as tf
from gradtape._src.inspect import live


def train(view: tf.debugging.LiveView, steps: int) -> None:
    w = tf.Variable([[1.0, -1.0], [0.5, -2.0]], name="w")
    unused = tf.Variable(1.0, name="unused")
    x = tf.constant([[1.0, 2.0]])
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.relu(x @ w) ** 2)
        gradients = tape.gradient(loss, [w, unused])
        view.step(loss, gradients, [w, unused])
        w.assign_sub(0.01 * gradients[0])


def test_what_is_measured(tmp_path: Path):
    view = tf.debugging.LiveView(tmp_path / "live.html", seconds=0)
    train(view, 3)
    w, unused = view.latest["w"], view.latest["unused"]
    assert w.dead == 0.5  # the second unit of the ReLU is never active
    assert w.gradient > 0
    assert 0 < w.update < 0.2
    assert unused == (None, 0.0, 1.0)
    assert view.losses == sorted(view.losses, reverse=True)


def test_the_page_reloads_until_the_training_ends(tmp_path: Path):
    page = tmp_path / "live.html"
    with tf.debugging.LiveView(page, seconds=0) as view:
        train(view, 2)
        running = page.read_text("utf-8")
    assert 'http-equiv="refresh"' in running
    assert "<code>w</code>" in running
    assert "None</td>" in running
    finished = page.read_text("utf-8")
    assert "refresh" not in finished
    assert "step 2, finished" in finished


def test_long_trainings_are_thinned_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "MOST_POINTS", 8)
    view = tf.debugging.LiveView(tmp_path / "live.html", seconds=60)
    train(view, 40)
    assert view.steps == 40
    assert len(view.losses) <= 8


def test_equal_names_are_numbered(tmp_path: Path):
    view = tf.debugging.LiveView(tmp_path / "live.html")
    a, b = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="v")
    view.step(0.0, [tf.constant(1.0), tf.IndexedSlices(tf.ones([1, 2]), [0])], [a, b])
    assert sorted(view.latest) == ["v [0]", "v [1]"]


def test_the_page_fits_a_phone(tmp_path: Path):
    w = tf.Variable([1.0], name="w")
    with tf.debugging.LiveView(tmp_path / "live.html") as view:
        view.step(1.0, [tf.constant([1.0])], [w])
    page = (tmp_path / "live.html").read_text(encoding="utf-8")
    assert "width=device-width" in page  # wide tables scroll, the page does not
    assert "<div><table>" in page
    assert "div{overflow-x:auto}" in page
