"""Pictures of a tape: the page, also in a real browser; SVG, Graphviz' and Mermaid's languages."""

from __future__ import annotations

import html
import json
import re
import time
import xml.etree.ElementTree as ElementTree
from importlib import resources

import browser
import numpy as np
import pytest

import gradtape as tf
from gradtape._src.inspect import layout, picture


def small(**options):
    x = tf.constant(np.ones((8, 4), np.float32))
    w = tf.Variable(np.ones((4, 16), np.float32), name="w")
    b = tf.Variable(np.zeros(16, np.float32), name='b "quoted" <i>')
    with tf.GradientTape(persistent=True, **options) as tape:
        h = tf.nn.relu(x @ w + b)
        loss = tf.reduce_mean(tf.square(h)) + 0.01 * tf.reduce_sum(w * w)
        tf.argmax(h, 1)
        tf.sqrt(w)
    return tape, loss, {"weights": w, "bias": b}


def recurrent(rounds):
    rng = np.random.default_rng(0)
    wx, wh = (tf.Variable(rng.normal(size=(8, 8)).astype("f"), name=name) for name in ("wx", "wh"))
    with tf.GradientTape(persistent=True, lines=True) as tape:
        h = tf.zeros([2, 8])
        total = tf.constant(0.0)
        for _ in range(rounds):
            z = tf.sigmoid(tf.ones([2, 8]) @ wx)
            h = tf.tanh(h @ wh + z) * z + h * (1.0 - z)
            total = total + tf.reduce_mean(h)
    return tape, total


def irregular(ops):
    rng = np.random.default_rng(1)
    functions = [tf.tanh, tf.sin, tf.exp, tf.square, tf.nn.relu, tf.abs, tf.cos]
    with tf.GradientTape(persistent=True) as tape:
        pool = [tf.Variable(np.ones(4, np.float32), name="v") * 1.0]
        for _ in range(ops - 1):
            a, b = (pool[-1 - min(int(rng.geometric(p)) - 1, len(pool) - 1)] for p in (0.4, 0.1))
            pool.append(functions[rng.integers(7)](a) if rng.random() < 0.7 else a + b)
    return tape, pool[-1]


@pytest.fixture(scope="module")
def large():
    return recurrent(560)


# -- the page's data ---------------------------------------------------------------------------------------------------
def boxes(data):
    """Every node's and group's rectangle and the rectangle of the group it is in."""
    rectangles = [group[2:6] for group in data["groups"]]
    for op in data["ops"]:
        yield op[3:7], rectangles[op[7]], op[7]
    for source in data["sources"]:
        yield source[2:6], rectangles[source[6]], source[6]
    for group in data["groups"][1:]:
        yield group[2:6], rectangles[group[6]], group[6]


def assert_well_placed(data):
    inside = {}
    for (x, y, w, h), (left, top, width, height), group in boxes(data):
        assert w > 0
        assert h > 0
        assert x >= left - 0.2
        assert x + w <= left + width + 0.2
        assert y >= top - 0.2
        assert y + h <= top + height + 0.2
        inside.setdefault(group, []).append((x, y, w, h))
    for siblings in inside.values():  # nothing stands on anything else
        siblings.sort()
        for i, (x, y, w, h) in enumerate(siblings):
            for x1, y1, _, h1 in siblings[i + 1 :]:
                if x1 >= x + w - 0.2:
                    break
                assert y1 >= y + h - 0.2 or y >= y1 + h1 - 0.2


def test_data_of_a_small_tape():
    tape, loss, sources = small(profile=True)
    tape.gradient(loss, sources)
    data = tape.show(target=loss, sources=sources).data
    assert [op[1] for op in data["ops"]] == [row.op for row in tape.summary().rows]
    assert [op[0] for op in data["ops"]] == list(range(len(data["ops"])))
    assert {s[0] for s in data["sources"]} == {"w", 'b "quoted" <i>', "constant"}
    assert {s[1] for s in data["sources"]} == {"variable", "constant"}
    assert {s[7] for s in data["sources"]} == {"(4, 16)", "(16,)", "(8, 4)"}
    assert [s[10] for s in data["sources"] if s[1] == "variable"] == [2, 2]
    assert [op[1] for op in data["ops"] if op[16] & 1] == ["add"]
    assert [op[1] for op in data["ops"] if op[14] == 0] == ["argmax", "sqrt"]
    assert "multiply 0.01" in {op[2] for op in data["ops"]}
    assert all(op[11] > 0 for op in data["ops"])
    assert any(line.startswith(__file__) for line in data["lines"])
    assert len(data["groups"]) == 1
    assert_well_placed(data)
    json.dumps(data)


def test_edges_are_those_of_the_tape():
    tape, *_ = small()
    data = tape.show().data
    names = [op[1] for op in data["ops"]]
    edges = {(names[u] if u >= 0 else data["sources"][-1 - u][0], names[v]) for u, v, *_ in data["edges"]}
    assert ("w", "matmul") in edges
    assert ("matmul", "add") in edges
    assert ("add", "relu") in edges
    assert ("relu", "argmax") in edges
    assert all(u < v for u, v, *_ in data["edges"])


def test_names_of_the_users_variables():
    x = tf.constant([1.0, 2.0])
    weights = [tf.Variable(1.0), tf.Variable(2.0)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * weights[0] + weights[1]
    assert {s[0] for s in tape.show(target=y).data["sources"]} == {"x", "weights[0]", "weights[1]"}
    assert {s[0] for s in tape.show(sources={"input": x}).data["sources"]} == {"input", "weights[0]", "weights[1]"}


def test_loops_become_boxes(large):
    tape, total = large
    assert len(tape.records) >= 5000
    begun = time.perf_counter()
    data = tape.show(target=total).data
    assert time.perf_counter() - begun < 20
    repeats = [group for group in data["groups"] if group[0] == "repeat"]
    assert len(repeats) == 1
    assert repeats[0][1].endswith("560")
    rounds = [group for group in data["groups"] if group[0] == "round"]
    assert len(rounds) == 560
    assert rounds[0][1] == "1 of 560"
    lines = {data["ops"][group[7]][13] for group in rounds[1:]}
    assert len(lines) == 1  # every round begins at the same line
    assert_well_placed(data)
    _, _, w, h = data["groups"][0][2:6]
    assert 0.5 < w / h < 5


def test_tapes_without_loops_are_cut_into_parts():
    tape, y = irregular(5000)
    data = tape.show(target=y).data
    children = {}
    for _, _, group in boxes(data):
        children[group] = children.get(group, 0) + 1
    assert max(children.values()) <= 2 * layout.PART
    assert_well_placed(data)
    _, _, w, h = data["groups"][0][2:6]
    assert 0.4 < w / h < 6


def test_layout_is_near_linear():
    def seconds(n):
        tape, _ = irregular(n)
        begun = time.perf_counter()
        tape.show()
        return time.perf_counter() - begun

    seconds(500)
    assert seconds(8000) < 16 * seconds(2000) + 1.0


def test_folding_finds_nested_loops():
    numbers = np.array([9] + ([1, 2] * 6 + [3]) * 5 + [8])
    root = layout.tree(numbers.tolist(), [], None)
    kinds = [(box.kind, box.first, box.last) for box in root.walk() if box.kind in ("repeat", "round")]
    assert kinds[0] == ("repeat", 1, 66)
    assert ("repeat", 1, 13) in kinds
    assert sum(box.kind == "op" for box in root.walk()) == len(numbers)
    runs = layout.tree([0] * 50 + list(range(1, 30)), [], None)
    assert runs.children[0].kind == "run"


def test_pictures_of_tapes_in_any_state():
    assert tf.GradientTape().show().data["ops"] == []
    assert tf.GradientTape().to_svg().endswith("</svg>")
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = tf.tanh(x)
        assert len(tape.show().data["ops"]) == 1
    tape.gradient(y, x)
    data = tape.show().data
    assert data["ops"] == []
    assert "was used up" in data["remarks"][0]
    with tf.GradientTape(lines=True) as tape:
        y = tf.tanh(x)
    tape.gradient(y, x)
    data = tape.show(target=y).data
    assert [op[1] for op in data["ops"]] == ["tanh"]
    assert data["ops"][0][10] is None
    assert data["remarks"] == []


def test_the_page_is_one_file(tmp_path):
    tape, loss, sources = small()
    path = tape.show(tmp_path / "tape.html", target=loss, sources=sources)
    assert path == str(tmp_path / "tape.html")
    page = (tmp_path / "tape.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://|fetch\(|XMLHttp""", page)
    assert "/*DATA*/" not in page
    data = re.search(r"const DATA = (.*);</script>", page).group(1)
    assert "<" not in data  # a name of the user's cannot end the script
    assert json.loads(data)["ops"] == json.loads(json.dumps(tape.show(target=loss, sources=sources).data))["ops"]
    for id_ in ("search", "colour", "canvas", "tip", "panel", "legend"):
        assert f'id="{id_}"' in page
    assert "prefers-color-scheme" in page


def test_in_a_notebook(tmp_path):
    tape, *_ = small()
    page = tape.show()
    text = page._repr_html_()
    assert text.startswith('<iframe srcdoc="')
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', text).group(1)) == page.html
    assert page.save(tmp_path / "x.html") == str(tmp_path / "x.html")
    assert "ops" in repr(page)


def test_the_template_is_in_the_package():
    assert resources.files("gradtape._src.inspect").joinpath("page.html").is_file()


def test_only_so_many_ops_are_drawn(monkeypatch):
    monkeypatch.setattr(picture, "MOST_OPS", 10)
    tape, y = irregular(30)
    data = tape.show(target=y).data
    assert [op[0] for op in data["ops"]] == list(range(20, 30))
    assert "Only the last 10 of 30 ops are drawn." in data["remarks"]
    assert_well_placed(data)


# -- SVG, Graphviz, Mermaid --------------------------------------------------------------------------------------------
def test_svg_is_well_formed():
    tape, loss, sources = small()
    root = ElementTree.fromstring(tape.to_svg(target=loss, sources=sources))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    groups = root.findall(f"{space}g")
    assert sum(g.get("class").startswith("op") for g in groups) == len(tape.records)
    assert sum(g.get("class") == "source" for g in groups) == 3
    assert sum(g.get("class") == "op p" for g in groups) == 2
    titles = [g.find(f"{space}title").text for g in groups]
    assert any('b "quoted" <i>' in title for title in titles)
    assert len(root.findall(f"{space}path")) == len(tape.show().data["edges"])


def test_svg_of_a_large_tape_has_boxes(large):
    tape, total = large
    text = tape.to_svg(target=total, max_ops=50)
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert any(g.get("class") == "group" for g in root.findall(f"{space}g"))
    assert len(text) < 20_000


def test_svg_draws_the_first_round_of_a_long_loop_and_closes_the_rest():
    w = tf.Variable(tf.eye(4), name="w")
    with tf.GradientTape() as tape:
        x = tf.ones([2, 4])
        for _ in range(150):
            x = tf.tanh(x @ w)
        y = tf.reduce_sum(x)
    root = ElementTree.fromstring(tape.to_svg(target=y))
    space = "{http://www.w3.org/2000/svg}"
    assert sum((g.get("class") or "").startswith("op") for g in root.findall(f"{space}g")) == 3
    texts = [text.text for text in root.iter(f"{space}text")]
    assert f"matmul → tanh  {picture.TIMES}150" in texts
    assert "1 of 150" in texts
    assert f"matmul → tanh  {picture.TIMES}149" in texts
    assert any(text.startswith("298 ops") for text in texts)


def test_svg_draws_short_loops_whole():
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x
        for _ in range(12):
            y = tf.tanh(y) * tf.sin(y) + tf.cos(y)
    assert tape.to_svg().count(picture.TIMES) == 1


DOT_NODE = re.compile(r'^  ([sn]\d+) \[label="(?:[^"\\]|\\.)*", shape=(?:box|ellipse)(?:, [a-z]+=\w+)*\];$')
DOT_EDGE = re.compile(r"^  ([sn]\d+) -> (n\d+);$")


def test_dot_is_well_formed():
    tape, loss, sources = small(lines=True)
    lines = tape.to_dot(target=loss, sources=sources).splitlines()
    assert lines[0] == "digraph tape {"
    assert lines[-1] == "}"
    nodes = {m.group(1) for line in lines if (m := DOT_NODE.match(line))}
    edges = [m.groups() for line in lines if (m := DOT_EDGE.match(line))]
    assert len(nodes) + len(edges) == len(lines) - 4
    assert {end for edge in edges for end in edge} <= nodes
    assert any('b \\"quoted\\" <i>' in line for line in lines)
    assert sum("penwidth=3" in line for line in lines) == 3
    assert sum("style=dashed" in line for line in lines) == 2
    assert any("test_picture.py:" in line for line in lines)


def test_mermaid_is_well_formed():
    tape, loss, sources = small()
    lines = tape.to_mermaid(target=loss, sources=sources).splitlines()
    assert lines[0] == "flowchart TD"
    nodes = {m.group(1) for line in lines if (m := re.match(r'^  ([sn]\d+)\(?\["([^"]*)"\]\)?$', line))}
    edges = [m.groups() for line in lines if (m := re.match(r"^  ([sn]\d+) --> (n\d+)$", line))]
    styles = [line for line in lines if re.match(r"^  (classDef \w+ [\w#:,.-]+|class [sn\d,]+ \w+)$", line)]
    assert len(nodes) + len(edges) + len(styles) == len(lines) - 1
    assert {end for edge in edges for end in edge} <= nodes
    assert not any("<i>" in line for line in lines)
    assert [line.split()[1] for line in styles if "classDef" in line] == ["target", "source", "unused"]


# -- in a browser ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def page():
    if browser.executable() is None:
        pytest.skip("no Chromium on PATH: the page is not driven in a browser")
    with browser.Browser() as opened:
        yield opened


READY = "typeof tape === 'object' && tape.drawn() !== null"


def test_small_tape_in_a_browser(page, tmp_path):
    tape, loss, sources = small(profile=True)
    tape.gradient(loss, sources)
    tape.show(tmp_path / "small.html", target=loss, sources=sources)
    page.problems.clear()
    page.open(tmp_path / "small.html", READY)
    drawn = page.run("tape.drawn()")
    assert drawn["ops"] == len(tape.records)
    assert drawn["closed"] == 0
    assert page.run("tape.view().scale") > 0.4
    assert "ops" in page.text("facts")

    page.move(*page.run("tape.place(2)"))  # hover
    tip = page.text("tip")
    assert tip.startswith("#2 relu")
    assert "(8, 16) float32" in tip
    assert "512 B" in tip
    assert "forward" in tip
    assert "test_picture.py:" in tip
    page.move(3, 300)
    assert page.text("tip") == ""

    before = page.run("tape.view()")  # zoom stays where the pointer is
    x, y = page.run("tape.place(2)")
    page.wheel(x, y, -300)
    after = page.run("tape.view()")
    assert after["scale"] > 1.3 * before["scale"]
    assert np.allclose(page.run("tape.place(2)"), [x, y], atol=1)
    page.press("mousePressed", 30, 300)  # pan
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=90, y=340, button="left", buttons=1)
    page.press("mouseReleased", 90, 340)
    assert np.allclose(page.run("tape.place(2)"), [x + 60, y + 40], atol=1)
    page.key("0")
    assert page.run("tape.view()") == before

    page.click(*page.run("tape.place(0)"))  # details, and on to what it goes to
    assert "#0 matmul" in page.text("panel")
    page.run("document.querySelectorAll('#panel .to')[2].click()")
    page.until("tape.selected().startsWith('#1 add')")

    for mode in ("memory", "time", "kind"):
        page.run(
            f"(s => {{ s.value = {mode!r}; s.dispatchEvent(new Event('change')) }})(document.getElementById('colour'))"
        )
        page.run("tape.drawn()")
        assert page.text("legend")
    assert page.problems == []


def test_search_with_the_keyboard(page, tmp_path):
    tape, loss, _ = small(lines=True)
    tape.show(tmp_path / "small.html", target=loss)
    page.problems.clear()
    page.open(tmp_path / "small.html", READY)
    page.key("/")
    assert page.run("document.activeElement.id") == "search"
    for text, found in (("relu", 1), ("(8, 16)", 4), ("test_picture.py", len(tape.records)), ("quoted", 1), ("zz", 0)):
        page.run("(s => { s.value = ''; s.dispatchEvent(new Event('input')) })(document.getElementById('search'))")
        page.type(text)
        assert page.text("count") == (f"{found} found" if found else "none"), text
        assert page.run("document.querySelectorAll('#hits li').length") == found
    page.run("(s => { s.value = ''; s.dispatchEvent(new Event('input')) })(document.getElementById('search'))")
    page.type("add")
    page.key("ArrowDown")
    page.key("Enter")
    assert page.run("document.getElementById('search').getAttribute('aria-activedescendant')") == "hit1"
    assert page.run("document.getElementById('hit1').getAttribute('aria-selected')") == "true"
    assert page.text("count") == "2 of 2"
    index = [row.index for row in tape.summary().rows if row.op == "add"][1]
    assert page.run("tape.selected()") == f"#{index} add"
    page.until(f"tape.view().scale >= 1 && tape.place({index})[0] < document.getElementById('find').offsetLeft")
    x, y = page.run(f"tape.place({index})")  # it flew there, and stands beside the list
    assert 0 < x < 700
    assert 100 < y < 700
    page.key("Escape")
    assert page.run("document.getElementById('search').value") == ""
    page.key("Escape")
    assert page.run("document.activeElement.id") == "canvas"
    assert page.problems == []


def test_large_tape_in_a_browser(page, tmp_path, large):
    tape, total = large
    tape.show(tmp_path / "large.html", target=total)
    page.problems.clear()
    page.open(tmp_path / "large.html", READY)
    count = len(tape.records)
    assert f"{count:,} ops" in page.text("facts")
    assert page.run("Math.min(...[1, 2, 3, 4, 5].map(tape.milliseconds))") < 500
    for _ in range(12):
        page.wheel(640, 330, 400)
    far = page.run("tape.drawn()")
    assert far["closed"] >= 1
    assert far["ops"] < 50
    page.move(*page.run("tape.placeOfGroup(1)"))
    tip = page.text("tip")  # a closed box says what is in it
    assert "of 560" in tip
    assert "zoom in to open" in tip
    page.key("0")
    x, y = page.run("tape.place(2500)")
    for _ in range(12):
        page.wheel(x, y, -200)
    page.move(*page.run("tape.place(2500)"))
    assert page.text("tip").startswith("#2500 ")
    page.key("/")
    page.type("#2500 ")
    page.key("Enter")
    assert page.run("tape.selected()").startswith("#2500 ")
    assert page.problems == []


def test_irregular_tape_in_a_browser(page, tmp_path):
    tape, y = irregular(5000)
    tape.show(tmp_path / "wild.html", target=y)
    page.problems.clear()
    page.open(tmp_path / "wild.html", READY)
    first = page.run("tape.drawn()")
    assert 5 <= first["closed"] <= 300
    page.click(*page.run("tape.placeOfGroup(2)"))  # a closed box opens by flying into it
    page.until("tape.drawn().ops > 20")
    assert page.problems == []


def test_dark_and_light(page, tmp_path):
    tape, loss, _ = small()
    tape.show(tmp_path / "small.html", target=loss)
    grounds = []
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.open(tmp_path / "small.html", READY)
        script = "[...document.getElementById('canvas').getContext('2d').getImageData(2, 300, 1, 1).data].slice(0, 3)"
        grounds.append(sum(page.run(script)))
    assert grounds[0] > 600 > 200 > grounds[1]


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.svg", "<svg "), ("a.dot", "digraph tape"), ("a.mmd", "flowchart TD"), ("a.HTML", "<!DOCTYPE html>")],
)
def test_the_name_of_a_file_decides_its_form(tmp_path, name, start):
    tape, loss, sources = small()
    path = tape.show(tmp_path / name, target=loss, sources=sources)
    assert (tmp_path / name).read_text("utf-8").startswith(start)
    assert path == str(tmp_path / name)


def test_a_form_that_is_unknown_is_refused(tmp_path):
    tape, _, _ = small()
    with pytest.raises(ValueError, match=r"not '\.png': use a file name that ends in \.html"):
        tape.show(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
