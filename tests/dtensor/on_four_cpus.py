"""Programs over meshes of four logical CPUs, which have to be configured before JAX starts: a process of their own."""

from __future__ import annotations

import functools
import tempfile

import numpy as np
import pytest

import gradtape as tf

dtensor, keras = tf.experimental.dtensor, tf.keras
rng = np.random.default_rng(0)


@functools.cache
def mesh():
    return dtensor.create_mesh([("batch", 2), ("model", 2)])


def shards(variable):
    """The shapes of the parts of a variable, and the dimensions of the mesh that divide it."""
    parts = dtensor.unpack(variable.read_value())
    return {tuple(part.shape) for part in parts}, dtensor.fetch_layout(variable).sharding_specs


def training_divides_weights_and_batches():
    x, y = rng.normal(size=(8, 6)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")
    start = [rng.normal(size=shape).astype("float32") for shape in ((6, 4), (4, 1))]
    layouts = [
        dtensor.Layout([dtensor.UNSHARDED, "model"], mesh()),
        dtensor.Layout(["model", dtensor.UNSHARDED], mesh()),
    ]
    rows = dtensor.Layout.batch_sharded(mesh(), "batch", rank=2)

    def losses(weights, x, y):
        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.nn.relu(x @ weights[0]) @ weights[1] - y))
            for weight, g in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(0.1 * g)
            return loss

        return [float(step(x, y)) for _ in range(20)]

    alone = losses([tf.Variable(w) for w in start], tf.constant(x), tf.constant(y))
    weights = [dtensor.DVariable(w, layout=layout) for w, layout in zip(start, layouts, strict=True)]
    together = losses(weights, dtensor.copy_to_mesh(x, rows), dtensor.copy_to_mesh(y, rows))
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert shards(weights[0]) == ({(6, 2)}, ["unsharded", "model"])
    assert shards(weights[1]) == ({(2, 1)}, ["model", "unsharded"])


def slots(optimizer, like):
    """The variables of an optimizer that have the shape of a variable."""
    return [slot for slot in optimizer.variables if tuple(slot.shape) == tuple(like.shape)]


def slots_of_optimizers_are_divided_like_their_variables():
    layouts = [dtensor.Layout([dtensor.UNSHARDED, "model"], mesh()), dtensor.Layout(["batch"], mesh())]
    start = [rng.normal(size=shape).astype("float32") for shape in ((6, 4), (8,))]
    named = keras.optimizers
    optimizers = [
        (lambda: named.SGD(0.1, momentum=0.9), 1),
        (lambda: named.Adam(0.1, use_ema=True, ema_momentum=0.5), 3),
        (lambda: named.AdamW(0.1, amsgrad=True, gradient_accumulation_steps=2), 4),
        (lambda: named.RMSprop(0.1, centered=True, momentum=0.5), 3),
        (lambda: named.LossScaleOptimizer(named.Nadam(0.1)), 2),
    ]

    def trained(made, weights, compiled):
        optimizer = made()

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(weights[0])) ** 2 + tf.reduce_sum(weights[1] ** 3)
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        run = tf.function(step) if compiled else step
        return optimizer, [float(run()) for _ in range(6)]

    for made, count in optimizers:
        for compiled in (False, True):
            expected = trained(made, [tf.Variable(w) for w in start], compiled)[1]
            weights = [dtensor.DVariable(w, layout=layout) for w, layout in zip(start, layouts, strict=True)]
            optimizer, losses = trained(made, weights, compiled)
            np.testing.assert_allclose(losses, expected, rtol=1e-5)
            for weight, layout, part in zip(weights, layouts, ((6, 2), (4,)), strict=True):
                found = slots(optimizer, weight)
                assert len(found) == count, optimizer.name
                for slot in [weight, *found]:
                    assert dtensor.fetch_layout(slot) == layout
                    assert {tuple(piece.shape) for piece in dtensor.unpack(slot)} == {part}
    with tempfile.TemporaryDirectory() as folder:  # restored before and after it is built, and without a mesh
        before, whole = keras.optimizers.Adam(), [dtensor.Layout.replicated(mesh(), rank) for rank in (2, 1)]
        optimizer, _ = trained(keras.optimizers.Adam, weights, True)
        path = tf.train.Checkpoint(optimizer=optimizer).save(f"{folder}/ckpt")
        alone, after = keras.optimizers.Adam(), keras.optimizers.Adam()
        tf.train.Checkpoint(optimizer=before).restore(path)
        before.build(weights)
        after.build(weights)
        alone.build([tf.Variable(w) for w in start])
        for other in (after, alone):
            tf.train.Checkpoint(optimizer=other).restore(path).assert_consumed()
        for weight, layout, all_of_it in zip(weights, layouts, whole, strict=True):
            for slot, *others in zip(*[slots(each, weight) for each in (optimizer, before, after, alone)], strict=True):
                value = dtensor.relayout(slot.value, all_of_it).numpy()
                assert np.any(value)
                assert value.tolist() == others.pop().numpy().tolist()
                for other in others:
                    assert dtensor.fetch_layout(other) == layout
                    assert value.tolist() == dtensor.relayout(other.value, all_of_it).numpy().tolist()


def gradients_flow_through_layouts():
    replicated, divided = dtensor.Layout.replicated(mesh(), 1), dtensor.Layout(["batch"], mesh())
    for run in (lambda f: f, tf.function):
        x = dtensor.copy_to_mesh(tf.constant([1.0, 2.0, 3.0, 4.0]), divided)

        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(dtensor.relayout(x * x, replicated) ** 2)
            return tape.gradient(y, x)

        g = run(gradient)(x)
        np.testing.assert_allclose(dtensor.relayout(g, replicated).numpy(), [4.0, 32.0, 108.0, 256.0])


def checkpoints_keep_the_layout():
    layout = dtensor.Layout(["model"], mesh())
    v = dtensor.DVariable(tf.constant([1.0, 2.0]), layout=layout)
    with tempfile.TemporaryDirectory() as folder:
        path = dtensor.DTensorCheckpoint(mesh(), v=v).save(f"{folder}/ckpt")
        v.assign([0.0, 0.0])
        dtensor.DTensorCheckpoint(mesh(), v=v).restore(path).assert_consumed()
        plain = tf.Variable([0.0, 0.0])
        tf.train.Checkpoint(v=plain).restore(path)
    assert [part.numpy().tolist() for part in dtensor.unpack(v.read_value())] == [[1.0], [2.0], [1.0], [2.0]]
    assert plain.numpy().tolist() == [1.0, 2.0]


def errors_say_what_is_wrong():
    divided = dtensor.copy_to_mesh(tf.ones([4]), dtensor.Layout(["batch"], mesh()))
    for wrong, kind in (
        (lambda: divided.numpy(), tf.errors.UnimplementedError),
        (lambda: np.asarray(divided), tf.errors.UnimplementedError),
        (lambda: dtensor.copy_to_mesh(tf.ones([3]), dtensor.Layout(["batch"], mesh())), tf.errors.UnknownError),
        (lambda: dtensor.copy_to_mesh(tf.ones([4, 1]), dtensor.Layout(["batch"], mesh())), tf.errors.UnknownError),
        (lambda: dtensor.fetch_layout(tf.ones([1])), tf.errors.InvalidArgumentError),
        (lambda: dtensor.unpack(tf.ones([1])), tf.errors.InvalidArgumentError),
        (lambda: dtensor.pack([tf.ones([1])], dtensor.Layout(["batch"], mesh())), tf.errors.InvalidArgumentError),
        (lambda: dtensor.DVariable(tf.ones([2])), tf.errors.InvalidArgumentError),
        (lambda: dtensor.create_mesh([("x", 3)]), ValueError),
        (lambda: dtensor.DVariable(divided, layout=dtensor.Layout(["model"], mesh())), tf.errors.InvalidArgumentError),
        (lambda: dtensor.DVariable(divided).assign(1.0), ValueError),
        (lambda: dtensor.DVariable(divided).assign_add(1.0), tf.errors.InvalidArgumentError),
    ):
        with pytest.raises(kind):
            wrong()
    assert dtensor.Layout.from_string(dtensor.fetch_layout(divided).to_string()) == dtensor.fetch_layout(divided)


def meshes_are_not_mixed():
    """As in TensorFlow, which moves nothing from mesh to mesh unless it is told to."""
    other = dtensor.create_mesh([("batch", 4), ("model", 1)])
    x = dtensor.copy_to_mesh(tf.ones([4]), dtensor.Layout(["batch"], mesh()))
    y = dtensor.copy_to_mesh(tf.ones([4]), dtensor.Layout(["batch"], other))
    v = dtensor.DVariable(x)
    for wrong in (
        lambda: x + y,
        lambda: tf.concat([x, y], 0),
        lambda: v.assign(y),
        lambda: v.assign_add(y),
        lambda: v.assign(dtensor.DVariable(y)),
        lambda: tf.function(lambda: v + y)(),
    ):
        with pytest.raises(tf.errors.UnknownError, match="must have same mesh configuration"):
            wrong()
    assert v.layout == dtensor.fetch_layout(v) == dtensor.fetch_layout(x)
    z = x + dtensor.relayout(y, dtensor.fetch_layout(x))
    assert float(tf.reduce_sum(z)) == 8.0


def tensors_show_their_parts():
    """Recorded from TensorFlow."""
    where = ",".join(f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(4))
    on = f"mesh:|batch=2,model=2|0,1,2,3|0,1,2,3|{where}"
    x = dtensor.copy_to_mesh(tf.range(8), dtensor.Layout(["batch"], mesh()))
    parts = '{"CPU:0": [0 1 2 3], "CPU:1": [0 1 2 3], "CPU:2": [4 5 6 7], "CPU:3": [4 5 6 7]}'
    text = f'{parts}, layout="sharding_specs:batch, {on}"'
    assert f"{x}" == text
    assert str(x) == f"tf.Tensor({text}, shape=(8,), dtype=int32)"
    assert repr(x) == f"<tf.Tensor: shape=(8,), dtype=int32, value={text}>"
    v = dtensor.DVariable(x)
    assert repr(v) == f"<tf.Variable 'Variable:0' shape=(8,) dtype=int32, value={text}>"
    whole = dtensor.copy_to_mesh(tf.ones([2, 9]), dtensor.Layout.replicated(mesh(), 2))
    rows = "[[1 1 1 ... 1 1 1]\n [1 1 1 ... 1 1 1]]"
    layout = f'layout="sharding_specs:unsharded,unsharded, {on}"'
    assert str(whole) == f"tf.Tensor({rows}, {layout}, shape=(2, 9), dtype=float32)"
    scalar = tf.reduce_sum(whole)
    assert str(scalar) == f'tf.Tensor(18, layout="sharding_specs: {on}", shape=(), dtype=float32)'
    assert f"{scalar:.2f}" == "18.00"
    empty = dtensor.Layout([], mesh())
    assert dtensor.Layout.from_string(empty.to_string()) == empty


def keras_trains(distribution):
    keras.distribution.set_distribution(distribution)
    try:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input([6]), keras.layers.Dense(8, name="wide"), keras.layers.Dense(2)])
        model.compile(keras.optimizers.Adam(0.05), "mse")
        data = np.random.default_rng(1)
        x, y = data.normal(size=(22, 6)).astype("float32"), data.normal(size=(22, 2)).astype("float32")
        losses = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
        return [*losses, model.evaluate(x, y, verbose=0)], model, model.predict(x, verbose=0)
    finally:
        keras.distribution.set_distribution(None)


def keras_divides_data_and_models():
    alone, _, predicted = keras_trains(None)
    data_parallel = keras.distribution.DataParallel()
    grid = keras.distribution.DeviceMesh((2, 2), ["data", "model"], devices=keras.distribution.list_devices())
    layouts = keras.distribution.LayoutMap(grid)
    layouts[".*wide/kernel"] = (None, "model")
    model_parallel = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="data")
    for distribution, shape in ((data_parallel, (6, 8)), (model_parallel, (6, 4))):
        losses, model, found = keras_trains(distribution)
        np.testing.assert_allclose(losses, alone, rtol=1e-5)
        np.testing.assert_allclose(found, predicted, rtol=1e-4, atol=1e-5)
        kernel, momentum = model.layers[0].kernel, model.optimizer.variables[2]
        for variable in (kernel, momentum):
            pieces = variable.value.array.addressable_shards
            assert len({piece.device for piece in pieces}) == 4
            assert {piece.data.shape for piece in pieces} == {shape}, variable.path


PROGRAMS = [
    training_divides_weights_and_batches,
    slots_of_optimizers_are_divided_like_their_variables,
    gradients_flow_through_layouts,
    checkpoints_keep_the_layout,
    errors_say_what_is_wrong,
    meshes_are_not_mixed,
    tensors_show_their_parts,
    keras_divides_data_and_models,
]

if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    for program in PROGRAMS:
        program()
        print("passed", program.__name__, flush=True)
