"""`gradtape board`: the page holds what was written, and nothing of it is HTML."""

from __future__ import annotations

import base64
import json

import browser
import numpy as np
import pytest

import gradtape as tf
from gradtape._src.cli.board import collect
from gradtape._src.cli.main import main
from gradtape._src.formats.event import Summary
from gradtape._src.formats.event_file import EventFile


@pytest.fixture
def logs(tmp_path):
    for run in ("a", "b"):
        writer = tf.summary.create_file_writer(str(tmp_path / run))
        with writer.as_default():
            for step in range(30):
                tf.summary.scalar("loss", 1.0 / (step + 1) if step != 3 else np.nan, step=step)
                tf.summary.image("picture", np.full((1, 2, 2, 3), step, np.uint8), step=step)
            tf.summary.histogram("weights", [0.0, 1.0, 1.0, 2.0], step=1, buckets=2)
            tf.summary.text("</script><b>", "</script><script>alert(1)</script>", step=0)
            tf.summary.audio("beep", np.zeros((1, 4, 1), np.float32), 8000, step=0)
        writer.close()
    return tmp_path


def test_what_the_page_is_told(logs):
    data = collect(str(logs))
    assert data["runs"] == ["a", "b"]
    run, steps, _, values = data["scalars"]["loss"][0]
    assert (run, steps[:4], values[:4]) == (0, [0, 1, 2, 3], [1.0, 0.5, 0.3333333, None])
    assert data["histograms"]["weights"][1] == [1, [[1, [0.0, 1.0], 2.0, [1.0, 3.0]]]]
    pictures = data["images"]["picture"][0][1]
    assert [step for step, _ in pictures][::9] == [0, 29]
    assert base64.b64decode(pictures[0][1][0].partition(",")[2]).startswith(b"\x89PNG")
    assert data["audio"]["beep"][0][1][0][1][0].startswith("data:audio/wav;base64,")


def test_nothing_that_was_written_is_html(logs, capsys):
    output = logs / "page.html"
    assert main(["board", str(logs), "-o", str(output)]) == 0
    assert "2 runs, 5 tags" in capsys.readouterr().out
    text = output.read_text("utf-8")
    assert "alert(1)" in text
    assert text.count("<script") == 2
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert data["texts"]["</script><b>"][0] == [0, [[0, "</script><script>alert(1)</script>"]]]
    assert "http" not in text.replace("http-equiv", "")


def test_summaries_of_tensorflow_1(tmp_path):
    file = EventFile(str(tmp_path))
    histogram = {"min": 0.0, "max": 2.0, "num": 3.0, "bucket_limit": [1.0, 2.0], "bucket": [1.0, 2.0]}
    values = [Summary.Value(tag="s", simple_value=2.5), Summary.Value(tag="h", histo=histogram)]
    file.add_summary(Summary(value=values).SerializeToString(), 3)
    file.close()
    data = collect(str(tmp_path))
    assert data["scalars"]["s"][0][3] == [2.5]
    assert data["histograms"]["h"] == [[0, [[3, [0.0, 1.0], 2.0, [1.0, 2.0]]]]]


def test_a_folder_without_summaries(tmp_path, capsys):
    assert main(["board", str(tmp_path)]) == 1
    assert "no event files" in capsys.readouterr().err
    assert main(["board", str(tmp_path / "missing")]) == 1


DRAWN = """(() => {
  const canvas = document.querySelector('[data-tag="gradient"] canvas');
  const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let i = 0; i < bytes.length; i += 4) found += bytes[i + 3] > 0 && bytes[i + 2] - bytes[i] > 40;
  return found;
})()"""
"""How many pixels of a histogram have the color of the run."""


@pytest.mark.skipif(browser.executable() is None, reason="no Chromium")
def test_histograms_of_values_that_shrink_are_visible(tmp_path):
    """A gradient that goes to zero: the last histograms are a thousandth as wide as the first."""
    writer = tf.summary.create_file_writer(str(tmp_path / "run"))
    with writer.as_default():
        for step in range(60):
            tf.summary.histogram("gradient", [-4.0 * 0.9**step, 2.0 * 0.9**step], step=step)
    writer.close()
    assert main(["board", str(tmp_path), "-o", str(tmp_path / "page.html")]) == 0
    with browser.Browser() as page:
        page.open(tmp_path / "page.html")
        assert page.run(DRAWN) > 1000
        assert page.run("rebinned([0, [0, 1], 2, [1, 3]], 0, 4).reduce((a, b) => a + b)") == pytest.approx(4.0)
        assert page.run("rebinned([0, [5], 5, [7]], 4, 6)[30]") == 7
