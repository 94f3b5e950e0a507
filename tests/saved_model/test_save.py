"""`tf.saved_model.save`: what is saved is loaded again; `write.py` and `read_back.py` do the same with TensorFlow."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")


class Model(tf.Module):
    def __init__(self):
        super().__init__(name="model")
        self.layers = [tf.Variable(np.float32([[1, 2], [3, 4]]), name="w"), tf.Variable([0.5, -0.5], name="b")]
        self.options = {"scale": tf.Variable(2.0, trainable=False, name="scale")}
        self.steps = tf.Variable(np.int64(3), trainable=False, name="steps")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def call(self, x):
        return tf.tanh(x @ self.layers[0] + self.layers[1]) * self.options["scale"]

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def step(self, x):
        self.steps.assign_add(1)
        self.options["scale"].assign(tf.reduce_sum(x))
        return {"steps": self.steps.read_value(), "scale": self.options["scale"] * 1.0, "rows": tf.shape(x)[0]}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model, folder = Model(), tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.call, "step": model.step})
    return model, folder


def second_order(function, x, w):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(y * y)
        first = tape.gradient(loss, [x, w])
        square = tf.reduce_sum(first[0] ** 2)
    return [y, *first, *outer.gradient(square, [x, w])]


@pytest.mark.parametrize("rows", [1, 3])
def test_values_and_derivatives(saved, rows):
    model, folder = saved
    loaded = tf.saved_model.load(str(folder))
    small = 0.2 * np.random.default_rng(rows).normal(size=(rows, 2))  # 1 - tanh² of large numbers is mostly rounding
    x = tf.constant(small.astype("float32"))
    expected = second_order(model.call, x, model.layers[0])
    for one, other in zip(second_order(loaded.call, x, loaded.layers[0]), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded.signatures["serving_default"](x=x)["output_0"], expected[0], rtol=1e-5)


def test_variables_change(saved):
    loaded = tf.saved_model.load(str(saved[1]))
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    found = loaded.step(x)
    assert {key: value.numpy().item() for key, value in found.items()} == {"steps": 4, "scale": 10.0, "rows": 2}
    assert loaded.steps.numpy() == 4
    assert loaded.options["scale"].numpy() == 10.0
    assert not loaded.steps.trainable
    assert [v.name for v in loaded.layers] == ["w:0", "b:0"]
    with pytest.raises(TypeError):
        loaded.call(tf.zeros([2, 3]))


def test_a_loaded_model_is_saved_again_and_within_another_one(saved, tmp_path):
    model, folder = saved
    outer = tf.Module()
    outer.parts = [tf.saved_model.load(str(folder)), tf.saved_model.load(str(folder))]
    outer.functions = {"call": outer.parts[0].call, "one": outer.parts[0].call.get_concrete_function()}
    outer.parts[1].layers[1].assign([1.0, 1.0])
    outer.scale = tf.Variable(3.0)
    spec = tf.TensorSpec([None, 2], tf.float32)

    def both(x):  # programs of loaded models between those of this function
        return sum(part.call(x * outer.scale) for part in outer.parts) - x

    outer.both = tf.function(both, input_signature=[spec])
    tf.saved_model.save(outer, str(tmp_path / "m"))
    again = tf.saved_model.load(str(tmp_path / "m"))
    x = tf.constant([[0.25, -0.5], [0.5, 1.0], [0.0, 0.1]])
    assert sorted(again.parts[1].signatures) == ["serving_default", "step"]
    assert again.functions["call"].__signature__ == outer.parts[0].call.__signature__
    for function in (again.functions["call"], again.functions["one"], again.parts[0].signatures["serving_default"]):
        y = function(x)
        np.testing.assert_allclose(y["output_0"] if isinstance(y, dict) else y, model.call(x), rtol=1e-5)
    with tf.GradientTape() as tape, tf.GradientTape() as other:
        y, expected = again.both(x), both(x)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    sources = [again.scale, again.parts[1].layers[0]], [outer.scale, outer.parts[1].layers[0]]
    for one, two in zip(tape.gradient(y, sources[0]), other.gradient(expected, sources[1]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4)


def test_random_numbers(tmp_path):
    tf.random.set_seed(None)
    module = tf.Module()
    module.w = tf.Variable(2.0)
    spec = [tf.TensorSpec([None, 3], tf.float32)]
    module.noise = tf.function(lambda x: x * module.w + tf.random.normal(tf.shape(x)), input_signature=spec)
    module.seeded = tf.function(lambda x: x * tf.random.uniform([3], seed=4), input_signature=spec)

    def walk(n):
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x + tf.random.uniform([2])), (0, tf.zeros([2])))[
            1
        ]

    module.walk = tf.function(walk, input_signature=[tf.TensorSpec([], tf.int32)])
    tf.saved_model.save(module, str(tmp_path / "m"))
    first, second = (tf.saved_model.load(str(tmp_path / "m")) for _ in range(2))
    x = tf.zeros([2000, 3])
    with tf.GradientTape() as tape:
        drawn = [loaded.noise(x + 1).numpy() for loaded in (first, first, second)]
        loss = tf.reduce_sum(first.noise(x + 1))
    assert len({each.tobytes() for each in drawn}) == 3
    assert abs(drawn[0].mean() - 2) < 0.1 and abs(drawn[0].std() - 1) < 0.1
    assert tape.gradient(loss, first.w).numpy() == 6000
    one, two = (loaded.seeded(tf.ones([1, 3])).numpy() for loaded in (first, second))
    assert one.tolist() == two.tolist() != first.seeded(tf.ones([1, 3])).numpy().tolist()
    assert 1 < first.walk(tf.constant(50)).numpy().mean() / 10 < 4


def test_ragged_arguments_and_results(tmp_path):
    module = tf.Module()
    module.split = tf.function(tf.strings.split, input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
    rows = tf.RaggedTensorSpec([None, None], tf.float32)
    module.rows = tf.function(
        lambda r: {"double": r * 2.0, "exp": tf.ragged.map_flat_values(tf.exp, r), "lengths": r.row_lengths()},
        input_signature=[rows],
    )
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"split": module.split, "rows": module.rows})
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    for texts in (["a b", "", "c d e"], [], ["x"]):
        given = tf.constant(texts, tf.string)
        expected = [[word.encode() for word in text.split()] for text in texts]
        assert loaded.split(given).to_list() == expected
        assert loaded.signatures["split"](texts=given)["output_0"].to_list() == expected
    for value in ([[1.0, 2.0], [], [3.0]], [[4.0]]):
        ragged = tf.ragged.constant(value, ragged_rank=1)
        found = loaded.rows(ragged)
        assert found["double"].to_list() == [[2 * x for x in row] for row in value]
        assert found["lengths"].numpy().tolist() == [len(row) for row in value]
        np.testing.assert_allclose(found["exp"].flat_values, np.exp(ragged.flat_values))
    assert loaded.signatures["rows"].structured_outputs["double"] == rows
    assert loaded.split.concrete_functions[0].structured_outputs == tf.RaggedTensorSpec([None, None], tf.string)


def test_no_gradient_flows_through_an_assignment(saved):
    loaded = tf.saved_model.load(str(saved[1]))
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.step(x)["scale"]
    assert not np.any(tape.gradient(y, x, unconnected_gradients="zero"))


def test_inside_a_function(saved):
    loaded = tf.saved_model.load(str(saved[1]))
    x = tf.constant([[1.0, 2.0]])
    np.testing.assert_allclose(tf.function(lambda x: loaded.call(x) + 1.0)(x), loaded.call(x) + 1.0, rtol=1e-5)


def test_loops_and_custom_gradients(tmp_path):
    @tf.custom_gradient
    def clipped(x):
        return tf.identity(x), lambda g: tf.clip_by_value(g, -1.0, 1.0)

    module = tf.Module()
    module.w = tf.Variable(0.5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def run(x):
        for _ in tf.range(tf.shape(x)[0]):
            x = x * module.w + 1.0
        return clipped(x) * 5.0

    module.run = run
    tf.saved_model.save(module, str(tmp_path / "loop"))
    loaded = tf.saved_model.load(str(tmp_path / "loop"))
    x = tf.constant([1.0, 2.0, 3.0])
    gradients = []
    for owner in (module, loaded):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = owner.run(x)
        gradients.append([y, *tape.gradient(y, [x, owner.w])])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    np.testing.assert_allclose(gradients[0][1], [0.125] * 3)


def test_the_file_names_no_path_of_this_machine(saved):
    data = (saved[1] / "saved_model.pb").read_bytes()
    assert b"/gradtape/" not in data
    assert str(saved[1].parent).encode() not in data
    assert sorted(path.name for path in saved[1].iterdir()) == [
        "assets",
        "fingerprint.pb",
        "saved_model.pb",
        "variables",
    ]


def test_saving_over_another_one(tmp_path):
    module = tf.Module()
    module.v = tf.Variable([1.0, 2.0])
    for value in ([1.0, 2.0], [3.0, 4.0]):
        module.v.assign(value)
        tf.saved_model.save(module, str(tmp_path / "m"))
        assert tf.saved_model.load(str(tmp_path / "m")).v.numpy().tolist() == value
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_cannot_be_saved(tmp_path):
    module = tf.Module()
    outside = tf.Variable(1.0)
    spec = [tf.TensorSpec([None], tf.float32)]
    module.f = tf.function(lambda x: x * outside, input_signature=spec)
    with pytest.raises(AssertionError, match="untracked"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    module.f = tf.function(lambda x: tf.py_function(lambda y: y, [x], spec[0]), input_signature=spec)
    with pytest.raises(tf.errors.UnimplementedError, match="cannot be saved"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    module.f = tf.function(tf.strings.bytes_split, input_signature=[tf.TensorSpec([None], tf.string)])
    with pytest.raises(tf.errors.UnimplementedError, match="XLA cannot run it"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    with pytest.raises(ValueError, match="Expected an object of type `Trackable`"):
        tf.saved_model.save(3, str(tmp_path / "m"))
    del module.f
    with pytest.raises(ValueError, match="Expected a TensorFlow function for which to generate a signature"):
        tf.saved_model.save(module, str(tmp_path / "m"), signatures=len)
    with pytest.raises(TypeError, match="unexpected keyword"):
        tf.saved_model.SaveOptions(what=1)
    assert not list(tmp_path.iterdir())


class Words(tf.Module):
    """A vocabulary from a file, a table from tensors, and an asset."""

    def __init__(self, path):
        super().__init__(name="words")
        kinds = tf.lookup.TextFileIndex
        init = tf.lookup.TextFileInitializer(path, tf.string, kinds.WHOLE_LINE, tf.int64, kinds.LINE_NUMBER)
        self.table = tf.lookup.StaticVocabularyTable(init, num_oov_buckets=2)
        pairs = tf.lookup.KeyValueTensorInitializer([0, 1], ["warm", "cold"], tf.int64, tf.string)
        self.names = tf.lookup.StaticHashTable(pairs, default_value="?")
        self.file = tf.saved_model.Asset(path)
        self.w = tf.Variable(np.arange(8, dtype="float32").reshape(4, 2))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
    def __call__(self, texts):
        lower = tf.strings.lower(tf.strings.strip(texts))
        ids = self.table.lookup(lower)
        rows = tf.gather(self.w, ids) * tf.cast(tf.strings.length(lower), tf.float32)[:, None]
        joined = tf.strings.join([self.names.lookup(ids), tf.strings.as_string(ids)], separator=":")
        return {"rows": rows, "red": tf.boolean_mask(rows, lower == "red"), "names": tf.reshape(joined, [-1, 1])}

    @tf.function(input_signature=[])
    def content(self):
        return tf.strings.join([self.file.asset_path, tf.io.read_file(self.file.asset_path)], " ")


@pytest.mark.filterwarnings("ignore")
def test_strings_tables_and_assets(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("red\nblue\n")
    model = Words(str(path))
    tf.saved_model.save(model, str(tmp_path / "saved"), signatures=model.__call__)
    path.unlink()
    shutil.move(tmp_path / "saved", tmp_path / "elsewhere")
    loaded = tf.saved_model.load(str(tmp_path / "elsewhere"))
    for texts in (["Red ", "green"], ["x", "y"]):
        results = []
        for owner in (model, loaded):
            with tf.GradientTape() as tape:
                found = owner(tf.constant(texts))
                loss = tf.reduce_sum(found["rows"] ** 2) + tf.reduce_sum(found["red"])
            results.append([*tf.nest.flatten(found), tf.convert_to_tensor(tape.gradient(loss, owner.w))])
        for one, other in zip(*results, strict=True):
            assert np.array_equal(one.numpy(), other.numpy())
    assert loaded.signatures["serving_default"](texts=tf.constant(["a"]))["names"].shape == [1, 1]
    assert loaded.content().numpy().decode() == f"{tmp_path / 'elsewhere' / 'assets' / 'words.txt'} red\nblue\n"
    assert os.listdir(tmp_path / "elsewhere" / "assets") == ["words.txt"]


SHAPES = {
    "tile and slice": lambda y, n: (tf.tile(y, [1, n]), y[:n] * 2.0),
    "unique and range": lambda y, n: (*tf.unique(tf.cast(tf.round(y[:, 1]), tf.int32)), tf.range(n) * 2),
    "where and fill": lambda y, n: (tf.where(y[:, 0] > 0), tf.fill([n, 2], tf.reduce_sum(y)), tf.zeros([n])),
    "reshape": lambda y, n: (tf.reshape(y, [n - n + 1, -1]), tf.broadcast_to(y[0], [n, 3]), tf.ones([n, 1])),
    "partition": lambda y, n: tf.dynamic_partition(y, tf.cast(y[:, 0] > 0, tf.int32), 2),
    "counts": lambda y, n: tf.unique_with_counts(tf.cast(tf.round(y[:, 1]), tf.int32)),
    "mask of two axes": lambda y, n: [tf.boolean_mask(y, y > 0)],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "what", ["tile and slice", *(pytest.param(each, marks=pytest.mark.slow) for each in list(SHAPES)[1:])]
)
def test_shapes_that_depend_on_values(tmp_path, what):
    module = tf.Module()
    module.scale = tf.Variable([1.0, 2.0, 3.0])
    specs = [tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.int32)]
    module.shapes = tf.function(lambda x, n: list(SHAPES[what](x * module.scale, n)), input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    for rows, n in ((4, 3), (1 if what in ("reshape", "mask of two axes") else 0, 0)):
        x = tf.constant(np.random.default_rng(rows).normal(size=(rows, 3)).astype("float32"))
        results = []
        for owner in (module, loaded):
            with tf.GradientTape() as tape:
                found = owner.shapes(x, tf.constant(n))
                loss = sum(tf.reduce_sum(each**2) for each in found if each.dtype.is_floating)
            gradient = tape.gradient(loss, owner.scale) if isinstance(loss, tf.Tensor) else None
            results.append([*found, tf.zeros([3]) if gradient is None else gradient])
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_names_of_specifications_are_those_of_signatures(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda a, b: a + b)
    specs = [tf.TensorSpec([None], tf.float32, name=name) for name in ("left", "right")]
    concrete = module.f.get_concrete_function(b=specs[1], a=specs[0])
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"add": concrete})
    found = tf.saved_model.load(str(tmp_path / "m")).signatures["add"]
    assert sorted(found.structured_input_signature[1]) == ["left", "right"]


@pytest.mark.filterwarnings("ignore")
def test_any_rank_and_sizes_that_must_fit(tmp_path):
    module = tf.Module()
    module.v = tf.Variable(2.0)
    module.w = tf.Variable(np.arange(6, dtype="float32").reshape(3, 2))
    module.scale = tf.function(lambda x: x * module.v)
    module.features = tf.function(lambda x: x @ module.w, input_signature=[tf.TensorSpec([None, None], tf.float32)])
    images = [tf.TensorSpec([None, None, None], tf.float32)]
    module.images = tf.function(lambda x: tf.reshape(x, [-1, 6])[:, :3] @ module.w, input_signature=images)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def mutate(v):
        module.v.assign(v)

    module.mutate = mutate
    scale = module.scale.get_concrete_function(tf.TensorSpec(None, tf.float32))
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=scale)
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    served = loaded.signatures["serving_default"]
    for shape in ([], [3], [2, 3]):
        x = tf.ones(shape)
        assert served(x=x)["output_0"].shape == shape
        with tf.GradientTape() as tape:
            y = loaded.scale(x)
        assert tape.gradient(y, loaded.v).numpy() == np.prod(shape)
    np.testing.assert_allclose(loaded.features(tf.ones([2, 3])), module.features(tf.ones([2, 3])))
    np.testing.assert_allclose(loaded.images(tf.ones([2, 3, 4])), module.images(tf.ones([2, 3, 4])))
    loaded.mutate(tf.constant(5.0))
    assert loaded.v.numpy() == 5.0
    tf.saved_model.save(loaded, str(tmp_path / "again"))
    again = tf.saved_model.load(str(tmp_path / "again"))
    assert again.v.numpy() == 5.0
    np.testing.assert_allclose(again.scale(tf.ones([2, 3])), loaded.scale(tf.ones([2, 3])))


def test_a_function_of_python_values(tmp_path):
    module = tf.Module()
    module.w = tf.Variable([[1.0], [2.0]])
    module.f = tf.function(lambda x: tf.convert_to_tensor(x) @ module.w)
    module.f([[3.0, 4.0]])
    tf.saved_model.save(module, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    assert loaded.f([[3.0, 4.0]]).numpy().tolist() == [[11.0]]
    assert not loaded.signatures


def test_a_width_that_is_not_declared(tmp_path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.ones([4, 1]))

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
        def __call__(self, x):
            return tf.concat([x[:, :-1], tf.one_hot(tf.cast(x[:, -1], tf.int32), 2)], 1) @ self.w

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    for rows in (1, 3):
        x = tf.concat([tf.ones([rows, 2]), tf.zeros([rows, 1])], 1)
        np.testing.assert_array_equal(loaded(x), model(x))


def _scaled(value):
    module = tf.Module()
    module.w = tf.Variable(value)
    module.f = tf.function(lambda x: x * module.w, input_signature=[tf.TensorSpec([], tf.float32)])
    return module


def test_options(tmp_path):
    folder = str(tmp_path / "m")
    tf.saved_model.save(_scaled(2.0), folder, options=tf.saved_model.SaveOptions(extra_tags=["mine"]))
    assert tf.saved_model.load(folder, tags=["serve", "mine"]).f(3.0).numpy() == 6.0
    assert tf.saved_model.load(folder).w.numpy() == 2.0
    with pytest.raises(ValueError, match=r"incompatible argument to `tags`: \['serve'\].*tags \['serve', 'mine'\]"):
        tf.saved_model.load(folder, tags=["serve"])
    with pytest.raises(ValueError, match="invalid VariablePolicy value: other"):
        tf.saved_model.SaveOptions(experimental_variable_policy="other")
    assert tf.saved_model.SaveOptions(None, True).save_debug_info
    with pytest.raises(AttributeError, match="SaveOptions"):
        tf.saved_model.save(_scaled(1.0), folder, options=5)
    assert tf.saved_model.load(folder).w.numpy() == 2.0


@pytest.mark.parametrize("at", range(3))
def test_saving_over_another_one_that_is_killed(tmp_path, monkeypatch, at):
    """Wherever a process ends between the moves, the folder has the old model, the new one or none."""
    folder = tmp_path / "m"
    tf.saved_model.save(_scaled(1.0), str(folder))
    (folder / "notes.txt").write_text("mine")
    calls, rename = [], os.rename

    def killed(*paths):
        if len(calls) == at:
            monkeypatch.setattr(os, "rename", rename)
            raise KeyboardInterrupt
        calls.append(paths)
        rename(*paths)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        tf.saved_model.save(_scaled(2.0), str(folder))
    assert float(tf.saved_model.load(str(folder)).f(3.0)) == (6.0 if at == 2 else 3.0)
    assert (folder / "notes.txt").read_text() == "mine"
    tf.saved_model.save(_scaled(2.0), str(folder))
    assert float(tf.saved_model.load(str(folder)).f(3.0)) == 6.0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_other_files_of_the_folder_stay(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir(mode=0o750)
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to(folder)
    for value in (1.0, 2.0):
        tf.saved_model.save(_scaled(value), str(tmp_path / "link"))
        assert tf.saved_model.load(str(folder)).w.numpy() == value
        assert (folder / "notes.txt").read_text() == "mine"
        assert folder.stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "link").is_symlink()
