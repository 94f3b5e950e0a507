"""tf.data: pipelines against plain Python and against results of TensorFlow's; files, threads, checkpoints, Keras."""

from __future__ import annotations

import collections
import gc
import gzip
import importlib.util
import itertools
import os
import threading
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as tf
from gradtape._src.arrays import seeds

Dataset = tf.data.Dataset
quick = settings(max_examples=60, deadline=None)


def plain(dataset):
    """The elements as Python values."""
    return [tf.nest.map_structure(lambda x: x.tolist() if hasattr(x, "tolist") else x, e)
            for e in dataset.as_numpy_iterator()]  # fmt: skip


def unfused(dataset):
    """The same elements without their arrays: what follows works on them one by one."""
    return dataset.map(lambda *parts: parts if len(parts) > 1 else parts[0])


def both(n):
    """Numbers as rows of an array, and one by one."""
    rows = Dataset.from_tensor_slices(np.arange(n))
    return rows, unfused(rows)


# -- against plain Python --------------------------------------------------------------------------------------------
@quick
@given(n=st.integers(0, 40), size=st.integers(1, 12), drop=st.booleans())
def test_batch(n, size, drop):
    wanted = [list(range(n))[i : i + size] for i in range(0, n, size)]
    wanted = [batch for batch in wanted if len(batch) == size or not drop]
    for source in both(n):
        batches = source.batch(size, drop_remainder=drop)
        assert plain(batches) == wanted
        assert len(batches) == len(wanted)


@quick
@given(n=st.integers(0, 40), buffer=st.integers(1, 50), seed=st.integers(0, 9))
def test_shuffle_is_a_permutation_from_a_window(n, buffer, seed):
    for source in both(n):
        order = plain(source.shuffle(buffer, seed=seed))
        assert sorted(order) == list(range(n))
        assert all(value < place + buffer for place, value in enumerate(order))


@quick
@given(n=st.integers(0, 30), shards=st.integers(1, 7), data=st.data())
def test_shard_take_skip_and_repeat(n, shards, data):
    index = data.draw(st.integers(0, shards - 1))
    take, skip, times = data.draw(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 3)))
    numbers = list(range(n))
    for source in both(n):
        assert plain(source.shard(shards, index)) == numbers[index::shards]
        assert plain(source.take(take)) == numbers[:take]
        assert plain(source.skip(skip)) == numbers[skip:]
        assert plain(source.repeat(times)) == numbers * times
        chain = source.repeat(times).skip(skip).shard(shards, index).take(take)
        assert plain(chain) == (numbers * times)[skip:][index::shards][:take]
        assert len(chain) == len(plain(chain))
        assert plain(source.repeat(times).batch(4)) == [(numbers * times)[i : i + 4] for i in range(0, n * times, 4)]


def interleaved(lists, cycle, block):
    """Slots in turn: an empty one takes the next list; one whose list ends passes its turn on."""
    waiting, slots, out = iter(lists), [None] * cycle, []
    more = True
    while more or any(slot is not None for slot in slots):
        for i in range(cycle):
            if slots[i] is None:
                slots[i] = next((iter(values) for values in waiting), None)
                more = more and slots[i] is not None
            if slots[i] is not None:
                some = list(itertools.islice(slots[i], block))
                out += some
                if len(some) < block:
                    slots[i] = None
    return out


@quick
@given(lengths=st.lists(st.integers(0, 5), max_size=7), cycle=st.integers(1, 4), block=st.integers(1, 3))
def test_interleave(lengths, cycle, block):
    lists = [[10 * i + j for j in range(n)] for i, n in enumerate(lengths)]
    source = Dataset.from_tensor_slices((np.arange(len(lengths)), np.array(lengths, np.int64)))
    dataset = source.interleave(lambda i, n: Dataset.range(10 * i, 10 * i + n), cycle_length=cycle, block_length=block)
    assert plain(dataset) == interleaved(lists, cycle, block)


@quick
@given(
    n=st.integers(0, 20), size=st.integers(1, 5), shift=st.integers(1, 6), stride=st.integers(1, 3), drop=st.booleans()
)
def test_window(n, size, shift, stride, drop):
    numbers = list(range(n))
    wanted = [numbers[start : start + (size - 1) * stride + 1 : stride] for start in range(0, n, shift)]
    wanted = [w for w in wanted if len(w) == size or not drop]
    windows = Dataset.range(n).window(size, shift, stride, drop)
    assert [plain(window) for window in windows] == wanted
    assert len(windows) == len(wanted)


@quick
@given(sizes=st.lists(st.integers(1, 6), max_size=5), size=st.integers(1, 5), drop=st.booleans())
def test_rebatch_and_unbatch(sizes, size, drop):
    rows = list(range(sum(sizes)))
    ends = np.cumsum(sizes).tolist()
    batches = [rows[end - n : end] for n, end in zip(sizes, ends, strict=True)]
    source = Dataset.from_generator(lambda: iter(batches), output_signature=tf.TensorSpec([None], tf.int32))
    assert plain(source.unbatch()) == rows
    wanted = [rows[i : i + size] for i in range(0, len(rows), size)]
    assert plain(source.rebatch(size, drop)) == [w for w in wanted if len(w) == size or not drop]


# -- TensorFlow's results --------------------------------------------------------------------------------------------
def test_orders_recorded_from_tensorflow():
    def times(x):
        return Dataset.from_tensors(x).repeat(x)

    assert plain(Dataset.range(1, 8).interleave(times, cycle_length=3, block_length=2)) == [
        1, 2, 2, 3, 3, 4, 4, 3, 4, 4, 5, 5, 6, 6, 5, 5, 6, 6, 7, 7, 5, 6, 6, 7, 7, 7, 7, 7,
    ]  # fmt: skip
    assert [plain(w) for w in Dataset.range(7).window(3, 1, 2)] == [
        [0, 2, 4], [1, 3, 5], [2, 4, 6], [3, 5], [4, 6], [5], [6],
    ]  # fmt: skip
    assert [plain(w) for w in Dataset.range(7).window(2, 4, 3)] == [[0, 3], [4]]
    groups = Dataset.range(10).group_by_window(lambda x: 2 - x % 3, lambda key, group: group.batch(2), 2)
    assert plain(groups) == [[0, 3], [1, 4], [2, 5], [6, 9], [8], [7]]
    assert plain(Dataset.range(8).batch(4).rebatch([2, 1, 1])) == [[0, 1], [2], [3], [4, 5], [6], [7]]
    chosen = [Dataset.range(5), Dataset.range(1)]
    assert plain(Dataset.choose_from_datasets(chosen, Dataset.range(2).repeat(3))) == [0, 0, 1]
    assert plain(Dataset.choose_from_datasets(chosen, Dataset.range(2).repeat(3), False)) == [0, 0, 1, 2]


def ragged():
    return Dataset.from_generator(lambda: ([1] * n for n in [1, 3, 2, 5, 9, 4, 2, 1]), tf.int32, [None])


def test_buckets_recorded_from_tensorflow():
    def length(element):
        return tf.shape(element)[0]

    first = [[[1, 0], [1, 1]], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], [[1, 1], [1, 0]]]
    buckets = ragged().bucket_by_sequence_length(length, [3, 6], [2, 2, 2])
    assert plain(buckets) == [*first, [[1, 1, 1, 1]], [[1] * 9]]
    assert plain(ragged().bucket_by_sequence_length(length, [3, 6], [2, 2, 2], drop_remainder=True)) == first
    filled = ragged().bucket_by_sequence_length(length, [3, 6, 10], [2, 2, 2, 1], pad_to_bucket_boundary=True)
    assert plain(filled) == [*first, [[1, 1, 1, 1, 0]], [[1] * 9]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="elements must have length < max"):
        list(ragged().bucket_by_sequence_length(length, [3, 6], [2, 2, 2], pad_to_bucket_boundary=True))
    with pytest.raises(ValueError, match="must equal `len\\(bucket_boundaries\\) \\+ 1`"):
        ragged().bucket_by_sequence_length(length, [3, 6], [2, 2])


def test_padded_batches():
    two = Dataset.from_generator(lambda: iter([[1], [1, 2, 3]]), tf.int32, [None])
    assert plain(two.padded_batch(2)) == [[[1, 0, 0], [1, 2, 3]]]
    assert plain(two.padded_batch(2, padding_values=-1)) == [[[1, -1, -1], [1, 2, 3]]]
    assert plain(two.padded_batch(2, [4])) == [[[1, 0, 0, 0], [1, 2, 3, 0]]]
    words = Dataset.from_tensors((["a", "b"], "c")).padded_batch(2, ([3], []))
    assert plain(words) == [([[b"a", b"b", b""]], [b"c"])]
    with pytest.raises(tf.errors.DataLossError, match="Attempted to pad to a smaller size than the input element"):
        list(two.padded_batch(2, [2]))
    with pytest.raises(TypeError, match="values type <dtype: 'float32'> does not match type <dtype: 'int32'>"):
        two.padded_batch(2, padding_values=-1.0)
    with pytest.raises(ValueError, match="component 0 has unknown rank"):
        Dataset.from_generator(lambda: iter([[1]]), tf.int32).padded_batch(2)
    with pytest.raises(ValueError, match=r"The padded shape \(1,\) is not compatible with the shape \(2,\)"):
        Dataset.from_tensors([1, 2]).padded_batch(2, [1])


def test_representations():
    numbers = Dataset.range(5)
    scalar = "TensorSpec(shape=(), dtype=tf.int64, name=None)"
    vector = "TensorSpec(shape=(None,), dtype=tf.int64, name=None)"
    assert repr(numbers) == f"<_RangeDataset element_spec={scalar}>"
    assert repr(numbers.batch(2)) == f"<_BatchDataset element_spec={vector}>"
    assert repr(numbers.batch(2, True)) == f"<_BatchDataset element_spec={vector.replace('None,', '2,')}>"
    assert repr(numbers.map(lambda x: (x, {"a": x}))) == f"<_MapDataset element_spec=({scalar}, {{'a': {scalar}}})>"
    assert repr(numbers.batch(2).map(lambda x: x[:1], num_parallel_calls=2)).startswith("<_ParallelMapDataset")
    assert repr(numbers.window(2)) == f"<_WindowDataset element_spec=DatasetSpec({scalar}, TensorShape([]))>"
    assert repr(numbers.window(2).flat_map(lambda w: w.batch(2))) == f"<_FlatMapDataset element_spec={vector}>"
    assert repr(numbers.cache()) == f"<CacheDataset element_spec={scalar}>"
    assert numbers.map(lambda x: tf.zeros([3, x])).element_spec.shape.rank == 2
    assert bool(Dataset.range(0))


def test_specs_where_a_function_needs_real_data():
    names = Dataset.from_tensor_slices(["1", "22"])
    read = names.map(lambda text: tf.constant([int(text.numpy())] * len(text.numpy())))
    assert read.element_spec == tf.TensorSpec([None], tf.int32)
    assert plain(read) == [[1], [22, 22]]
    groups = Dataset.range(4).batch(2).group_by_window(lambda x: 0, lambda key, group: group.batch(2), 2)
    assert groups.element_spec == tf.TensorSpec([None, None], tf.int64)


def test_looking_at_a_spec_does_not_change_orders():
    def needs_text(text):
        return tf.constant(int(text.numpy()))

    texts = [str(i) for i in range(20)]
    one, other = (Dataset.from_tensor_slices(texts).shuffle(20, seed=1).map(needs_text) for _ in range(2))
    assert one.element_spec == tf.TensorSpec([], tf.int32)
    assert plain(one) == plain(other)


def test_cardinalities():
    r = Dataset.range(5)
    maybe = r.filter(lambda x: True)
    sizes = {
        5: [r, r.map(tf.identity), r.shuffle(2), r.cache(), r.prefetch(1), r.take(-1), r.take(9), r.enumerate(),
            Dataset.zip(r, r.repeat()), r.scan(np.int64(0), lambda s, x: (s, x))],
        -1: [r.repeat(), r.repeat(-3), r.repeat().skip(3), r.concatenate(r.repeat()), Dataset.random(1),
             Dataset.counter(), maybe.repeat(), r.repeat().batch(2)],
        -2: [maybe, r.flat_map(lambda x: r), r.interleave(lambda x: r), r.unique(), r.take_while(lambda x: True),
             r.ignore_errors(), r.batch(2).unbatch(), maybe.take(3), Dataset.zip(r, maybe),
             Dataset.from_generator(lambda: iter([1]), tf.int32)],
        3: [r.batch(2), r.skip(2), r.repeat().take(3), Dataset.zip(r, Dataset.range(3)), r.shard(2, 0),
            r.padded_batch(2)],
        2: [r.batch(2, True), r.shard(2, 1), r.batch(2, drop_remainder=True)],
        10: [r.concatenate(r), r.shuffle(3).repeat(2)],
        0: [r.skip(-1), r.repeat(0), Dataset.range(3, 0), r.take(0)],
    }  # fmt: skip
    for size, datasets in sizes.items():
        assert [int(dataset.cardinality()) for dataset in datasets] == [size] * len(datasets)
    with pytest.raises(TypeError, match=r"^The dataset is infinite\.$"):
        len(r.repeat())
    with pytest.raises(TypeError, match=r"^The dataset length is unknown\.$"):
        len(maybe)
    assert tf.data.experimental.cardinality(r) == 5 == len(r)
    assert (tf.data.AUTOTUNE, tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY) == (-1, -1, -2)


R = Dataset.range(5)
Invalid = tf.errors.InvalidArgumentError


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: Dataset.from_tensor_slices(3), ValueError, "Unbatching a tensor is only supported for rank >= 1"),
        (lambda: Dataset.from_tensor_slices(([1], [1, 2])), ValueError, "Dimensions 1 and 2 are not compatible"),
        (lambda: Dataset.from_tensor_slices(None), ValueError, "`element` should not be empty."),
        (lambda: Dataset.from_generator([1]), TypeError, "`generator` must be a Python callable."),
        (lambda: Dataset.from_generator(lambda: [1]), TypeError, "To specify the output signature you need"),
        (lambda: Dataset.range(), ValueError, "The length of `args` should be between 1 and 3 but was 0."),
        (lambda: Dataset.range(1, 5, 0), Invalid, "step must be a non-zero integer."),
        (lambda: Dataset.zip(), TypeError, "Must pass at least one dataset to `zip`."),
        (lambda: Dataset.zip([R, R]), TypeError, "Python `list` is not supported"),
        (lambda: Dataset.zip((R, 1)), TypeError, "but encountered object of type <class 'int'>."),
        (lambda: R.batch(0), Invalid, "Batch size must be greater than zero."),
        (lambda: R.batch(2.5), TypeError, "Cannot convert 2.5 to EagerTensor of dtype int64"),
        (lambda: R.shuffle(0), Invalid, "buffer_size must be greater than zero or UNKNOWN_CARDINALITY"),
        (lambda: R.prefetch(-2), Invalid, "buffer_size must be >= 0 or set buffer_size to be -1"),
        (lambda: R.window(0), Invalid, "Window size must be greater than zero."),
        (lambda: R.window(2, 0), Invalid, "Window shift must be greater than zero."),
        (lambda: R.shard(2, 2), Invalid, r"Index must be between 0 and 1 (currently index = 2)."),
        (lambda: R.shard(0, 0), Invalid, "Number of shards must be greater than zero"),
        (lambda: R.interleave(lambda x: R, cycle_length=0), Invalid, "cycle_length must be greater than zero."),
        (lambda: R.unbatch(), ValueError, "Cannot unbatch an input with scalar components."),
        (lambda: list(R.unique().rebatch(2)), ValueError, "Fix the issue by adding the `batch` transformation"),
        (lambda: R.rebatch(2), ValueError, "Fix the issue by adding the `batch` transformation"),
        (lambda: R.map(3), ValueError, "Argument `func` must be a callable. Received func=3"),
        (lambda: list(R.filter(lambda x: x)), ValueError, "must return a `tf.bool` scalar tensor, but its return"),
        (lambda: list(R.flat_map(lambda x: x)), TypeError, "must return a `tf.data.Dataset` object"),
        (lambda: list(Dataset.zip(R, R).map(lambda x: x)), TypeError, "takes 1 positional argument but 2 were given"),
        (lambda: R.concatenate(Dataset.from_tensors("a")), TypeError, "Incompatible dataset elements:"),
        (lambda: R.apply(lambda d: 3), TypeError, "`transformation_func` must return a `tf.data.Dataset` object."),
        (lambda: R.get_single_element(), Invalid, "Dataset had more than one element."),
        (lambda: Dataset.range(0).get_single_element(), Invalid, "Dataset was empty."),
        (lambda: iter(Dataset.range(0)).get_next(), tf.errors.OutOfRangeError, "End of sequence"),
        (lambda: list(ragged().batch(2)), Invalid, "First element had shape [1] and element 1 had shape [3]."),
        (lambda: list(Dataset.zip(R, R).unique()), Invalid, "only supports inputs with a single component."),
        (lambda: list(R.scan(0, lambda s, x: s)), TypeError, "should return a pair consisting of new state"),
        (lambda: R.reduce(np.int64(0), lambda s, x: (s, x)), Invalid, "(initial_state=1, output=2)"),
        (lambda: Dataset.sample_from_datasets([R, R], [0.5]), ValueError, "`len(weights)=1` vs. `len(datasets)=2`."),
        (lambda: Dataset.choose_from_datasets([R], Dataset.from_tensors(1.0)), TypeError, "scalar `tf.int64` tensors"),
        (lambda: list(Dataset.choose_from_datasets([R, R], R)), Invalid, "Selector index out of range: 2 >= 2"),
        (lambda: R.group_by_window(lambda x: x, lambda k, d: d), ValueError, "Either the `window_size` argument or"),
        (lambda: Dataset.list_files("/nowhere/*"), Invalid, "No files matched pattern: /nowhere/*"),
        (lambda: Dataset.load("/nowhere"), tf.errors.NotFoundError, "element_spec file not found"),
        (lambda: setattr(tf.data.Options(), "foo", 1), AttributeError, "Cannot set the property foo on Options."),
        (lambda: Dataset(), TypeError, "Can't instantiate abstract class"),
    ],
)  # fmt: skip
def test_errors(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert sentence in str(caught.value)


# -- sources ---------------------------------------------------------------------------------------------------------
def test_slices_of_nested_values():
    Pair = collections.namedtuple("Pair", "left right")
    values = {"a": [1, 2], "b": (np.ones((2, 3)), tf.Variable([1.0, 2.0])), "c": Pair(tf.constant([5, 6]), ["x", "y"])}
    dataset = Dataset.from_tensor_slices(values)
    first = next(iter(dataset))
    assert isinstance(first["c"], Pair)
    assert first["b"][0].dtype == tf.float64
    assert first["c"].right.numpy() == b"x"
    assert dataset.element_spec["b"][0] == tf.TensorSpec([3], tf.float64)
    (batch,) = dataset.batch(2)
    assert batch["c"].right.numpy().tolist() == [b"x", b"y"]
    assert unfused(dataset).batch(2).element_spec == dataset.batch(2).element_spec
    assert plain(Dataset.from_tensor_slices(([1, 2], None)).batch(2)) == [([1, 2], None)]
    assert plain(Dataset.from_tensor_slices([])) == []


def test_what_is_in_a_dataset_does_not_change():
    rows = np.zeros((200, 100), np.float32)
    dataset = Dataset.from_tensor_slices(rows)
    rows += 1
    batch = next(iter(dataset.batch(100)))
    taken = batch.numpy()
    del batch
    taken += 1
    assert next(iter(dataset.batch(100))).numpy().max() == 0


def test_generators():
    def count(stop):
        yield from ((i, [i] * i) for i in range(stop))

    signature = (tf.TensorSpec((), tf.int64), tf.TensorSpec([None], tf.float32))
    dataset = Dataset.from_generator(count, output_signature=signature, args=(3,))
    assert plain(dataset) == [(0, []), (1, [1.0]), (2, [2.0, 2.0])] == plain(dataset)
    assert dataset.element_spec == signature
    dicts = Dataset.from_generator(lambda: iter([{"a": 1}]), {"a": tf.int32}, {"a": []})
    assert plain(dicts) == [{"a": 1}]
    for bad in ("a", 1.5):
        with pytest.raises(Invalid, match="`generator` yielded an element that did not match the expected structure"):
            list(Dataset.from_generator(lambda bad=bad: iter([bad]), output_signature=tf.TensorSpec((), tf.int32)))
    with pytest.raises(Invalid, match=r"element of shape \(2,\) where an element of shape \(3,\) was expected"):
        list(Dataset.from_generator(lambda: iter([[1, 2]]), output_signature=tf.TensorSpec([3], tf.int32)))


def test_zip_concatenate_enumerate_and_numbers():
    a, b = Dataset.range(3), Dataset.range(5, 9)
    assert plain(Dataset.zip(a, b)) == plain(Dataset.zip((a, b))) == [(0, 5), (1, 6), (2, 7)]
    assert plain(Dataset.zip({"x": (a, b)}))[1] == {"x": (1, 6)}
    assert plain(Dataset.zip(a, unfused(b)).batch(2)) == plain(Dataset.zip(a, b).batch(2))
    assert plain(a.concatenate(b)) == [0, 1, 2, 5, 6, 7, 8]
    assert plain(b.enumerate(7)) == [(7, 5), (8, 6), (9, 7), (10, 8)]
    assert plain(Dataset.range(10, 0, -3, output_type=tf.float32).batch(9)) == [[10.0, 7.0, 4.0, 1.0]]
    assert plain(Dataset.range(10, 0, -3).shuffle(9, seed=1).batch(9))[0] != [10, 7, 4, 1]
    assert plain(Dataset.counter(3, 2).take(3)) == [3, 5, 7]
    assert a.concatenate(Dataset.from_tensors(np.array([1, 2]))).element_spec.shape.rank is None


def test_functions_of_elements():
    pairs = Dataset.from_tensor_slices(([1, 2], {"k": [3, 4]}))
    assert plain(pairs.map(lambda x, d: [x + d["k"], "text"])) == [(4, b"text"), (6, b"text")]
    assert plain(Dataset.range(6).filter(lambda x: x % 2 == 0)) == [0, 2, 4]
    assert plain(Dataset.range(6).take_while(lambda x: x < 3)) == [0, 1, 2]
    assert plain(Dataset.range(5).scan(np.int64(0), lambda s, x: (s + x, s))) == [0, 0, 1, 3, 6]
    assert int(Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x)) == 10
    total = pairs.reduce((0, 0), lambda s, e: (s[0] + e[0], s[1] + 1))
    assert [int(x) for x in total] == [3, 2]
    assert plain(Dataset.from_tensor_slices([3, 1, 3, 2, 1]).unique()) == [3, 1, 2]
    assert plain(Dataset.from_tensor_slices(["a", "b", "a"]).unique()) == [b"a", b"b"]
    assert plain(Dataset.range(3).apply(lambda d: d.batch(2))) == [[0, 1], [2]]
    nested = Dataset.range(2).map(lambda x: Dataset.range(x + 1))
    assert [plain(inner) for inner in nested] == [[0], [0, 1]]


def test_errors_are_ignored_where_asked():
    risky = Dataset.range(6).map(lambda x: tf.debugging.assert_less(x % 3, np.int64(2)) or x)
    assert plain(risky.ignore_errors()) == [0, 1, 3, 4]
    assert plain(risky.prefetch(1).ignore_errors()) == [0, 1, 3, 4]
    assert plain(risky.batch(2).ignore_errors()) == [[0, 1], [3, 4]]
    for spread in (Dataset.flat_map, lambda d, f: d.interleave(f, cycle_length=2)):
        assert sorted(plain(spread(risky, lambda x: Dataset.from_tensors(x)).ignore_errors())) == [0, 1, 3, 4]
        inside = spread(Dataset.range(2), lambda x: risky.map(lambda y, x=x: y + 10 * x))
        assert sorted(plain(inside.ignore_errors())) == [0, 1, 3, 4, 10, 11, 13, 14]
    with pytest.warns(UserWarning, match="Error raised with error message"):
        list(risky.ignore_errors(log_warning=True))
    counted = Dataset.range(5).apply(tf.data.experimental.assert_cardinality(4))
    with pytest.raises(tf.errors.FailedPreconditionError, match="contain 4 elements but contained at least 5"):
        list(counted)
    with pytest.raises(tf.errors.FailedPreconditionError, match="contain 7 elements but contained only 5"):
        list(Dataset.range(5).apply(tf.data.experimental.assert_cardinality(7)))


# -- order -----------------------------------------------------------------------------------------------------------
def test_seeds_of_shuffles():
    for source in both(20):
        dataset = source.shuffle(20, seed=3)
        first, second = plain(dataset), plain(dataset)
        assert first != second
        again = source.shuffle(20, seed=3)
        assert [plain(again), plain(again)] == [first, second]
        assert plain(source.shuffle(20, seed=3).repeat(2)) == first + second
        assert plain(source.shuffle(20, seed=4)) != first
        for seed in (None, 5):
            fixed = source.shuffle(20, seed=seed, reshuffle_each_iteration=False)
            assert plain(fixed) == plain(fixed)
            assert plain(fixed.repeat(2)) == plain(fixed) * 2


def test_what_functions_of_elements_draw_from_is_made_once_for_an_iteration(monkeypatch):
    made, make = [], seeds._Run.__init__
    monkeypatch.setattr(seeds._Run, "__init__", lambda run, *args: made.append(run) or make(run, *args))
    monkeypatch.setattr(os, "getpid", lambda: pytest.fail("a call to the system for every element"))
    tf.random.set_seed(1)
    data = Dataset.range(50).map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64)).filter(lambda x: x >= 0)
    first, second = [[int(x) for x in data] for _ in range(2)]
    assert first == second != list(range(50))
    assert len(made) == 4
    assert seeds._run.get() is None


def test_the_global_seed():
    tf.random.set_seed(1)
    first, second = plain(Dataset.range(20).shuffle(20)), plain(Dataset.range(20).shuffle(20))
    tf.random.set_seed(1)
    assert plain(Dataset.range(20).shuffle(20)) == first != second
    tf.random.set_seed(None)
    fixed = Dataset.random(seed=3).take(3)
    assert plain(fixed) == plain(fixed)
    anew = Dataset.random(seed=3, rerandomize_each_iteration=True).take(3)
    assert plain(anew) != plain(anew)


def test_shuffles_mix_well():
    places = np.array([plain(Dataset.range(10).shuffle(10, seed=i)).index(0) for i in range(400)])
    assert np.bincount(places, minlength=10).min() > 15
    local = np.array(plain(Dataset.range(10_000).shuffle(100, seed=1)))
    assert 50 < np.abs(local - np.arange(10_000)).mean() < 150


def test_sampling():
    a, b = Dataset.from_tensors(0).repeat(), Dataset.from_tensors(1).repeat()
    drawn = plain(Dataset.sample_from_datasets([a, b], [0.25, 0.75], seed=1).take(2000))
    assert 0.7 < np.mean(drawn) < 0.8
    assert len(plain(Dataset.sample_from_datasets([Dataset.range(5), Dataset.range(3)]))) == 8
    assert len(plain(Dataset.sample_from_datasets([a.take(5), b], stop_on_empty_dataset=True))) < 100
    classes = Dataset.range(3000).rejection_resample(lambda x: tf.cast(x % 10 > 0, tf.int32), [0.5, 0.5], seed=1)
    kept = [kind for kind, _ in plain(classes)]
    assert 0.42 < np.mean(kept) < 0.58


# -- memory and threads ----------------------------------------------------------------------------------------------
def test_caches(tmp_path):
    calls = []

    def note(x):
        calls.append(int(x))
        return {"x": x, "words": tf.constant(["a", "b"])}

    for where in ("", str(tmp_path / "cache")):
        calls.clear()
        dataset = Dataset.range(3).map(note).cache(where)
        list(dataset.take(1))
        calls.clear()  # not everything was read: nothing is kept
        first = plain(dataset)
        seen = len(calls)
        assert first == plain(dataset) == [{"x": i, "words": [b"a", b"b"]} for i in range(3)]
        assert calls[:3] == [0, 1, 2]
        assert len(calls) <= seen + 1  # to find out what the elements look like
    mixed = Dataset.range(20).shuffle(20).cache()
    assert plain(mixed) == plain(mixed)


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "gradtape-prefetch"]


def ended(wanted=0, seconds=5):
    until = time.time() + seconds
    while len(workers()) > wanted and time.time() < until:
        gc.collect()
        time.sleep(0.01)
    return len(workers()) <= wanted


def test_prefetch_runs_ahead_in_a_thread():
    assert ended()
    seen, enough = [], threading.Event()

    def note(x):
        seen.append(threading.current_thread().name)
        if len(seen) == 4:
            enough.set()
        return x

    iterator = iter(Dataset.range(100).map(note).prefetch(3))
    assert int(next(iterator)) == 0
    assert enough.wait(5)
    assert set(seen) == {"gradtape-prefetch"}
    time.sleep(0.05)
    assert len(seen) <= 6  # no further than it may
    del iterator
    assert ended()


def test_prefetch_hands_errors_on_and_ends():
    def fail(x):
        if x == 2:
            raise KeyError("two")
        return x

    iterator = iter(Dataset.range(4).map(fail).prefetch(tf.data.AUTOTUNE))
    assert [int(next(iterator)), int(next(iterator))] == [0, 1]
    with pytest.raises(KeyError, match="two"):
        next(iterator)
    assert int(next(iterator)) == 3
    assert list(iterator) == []
    assert ended()
    endless = Dataset.counter().map(tf.identity).prefetch(2).map(tf.identity).prefetch(2)
    assert plain(endless.take(3)) == [0, 1, 2]
    assert ended()


def test_tapes_and_functions_do_not_see_pipelines():
    v = tf.Variable(2.0)
    dataset = Dataset.from_tensor_slices([1.0, 2.0]).map(lambda x: x * v)
    with tf.GradientTape() as tape:
        total = sum(x * v for x in dataset)
    assert float(tape.gradient(total, v)) == 6.0  # the elements are data: 2 + 4

    @tf.function
    def step(x):
        return x * v

    assert [float(step(x)) for x in dataset] == [4.0, 8.0]


def test_pipelines_run_on_the_processor():
    pytest.importorskip("jax")
    seen = []

    def note(x):
        seen.append(type(x.array))
        return x + 1.0

    try:
        tf.config.set_engine("xla")
        dataset = Dataset.from_tensor_slices([1.0, 2.0]).map(note).batch(2).prefetch(1)
        (batch,) = dataset
        assert type(batch.array) is not np.ndarray
        assert batch.numpy().tolist() == [2.0, 3.0]
        assert set(seen) == {np.ndarray}
    finally:
        tf.config.set_engine("numpy")


def test_threads_share_an_iterator():
    iterator = iter(Dataset.range(2000).map(lambda x: x + 1))
    found = []
    threads = [threading.Thread(target=lambda: found.extend(int(x) for x in iterator)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 2001))


def test_a_function_that_reads_a_dataset_runs_eagerly(caplog):
    pytest.importorskip("jax")
    compiled, total = [], tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(x):
        compiled.append(not tf.executing_eagerly())
        total.assign_add(x)

    @tf.function
    def epoch(dataset):
        for x in dataset:
            step(x)
        return total + 1

    dataset = Dataset.range(4)
    assert int(epoch(dataset)) == 7
    assert "The function 'epoch' runs eagerly. 'epoch' reads a dataset" in caplog.text
    assert int(epoch(dataset)) == 13
    assert compiled == [True]
    iterator = iter(dataset)

    @tf.function
    def following():
        return next(iterator) * 2

    assert [int(following()) for _ in range(3)] == [0, 2, 4]


# -- files -----------------------------------------------------------------------------------------------------------
def test_lines_and_records_of_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\r\nthree\n\nlast")
    (tmp_path / "b.txt").write_bytes(b"x\n")
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(b"one\ntwo\n")
    (tmp_path / "a.z").write_bytes(zlib.compress(b"one\ntwo\n"))
    (tmp_path / "f.bin").write_bytes(b"HHaabbccFF")
    lines = [b"one", b"two", b"three", b"", b"last"]
    names = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
    assert plain(names) == [os.fsencode(tmp_path / name) for name in ("a.txt", "b.txt")]
    assert sorted(plain(Dataset.list_files(str(tmp_path / "*.txt")))) == plain(names)
    assert plain(tf.data.TextLineDataset(str(tmp_path / "a.txt"))) == lines
    assert plain(tf.data.TextLineDataset(names)) == [*lines, b"x"]
    assert plain(tf.data.TextLineDataset(names, num_parallel_reads=2)) == [b"one", b"x", *lines[1:]]
    assert plain(tf.data.TextLineDataset([str(tmp_path / "a.gz")], compression_type="GZIP")) == lines[:2]
    assert plain(tf.data.TextLineDataset([str(tmp_path / "a.z")], compression_type="ZLIB")) == lines[:2]
    binary = str(tmp_path / "f.bin")
    assert plain(tf.data.FixedLengthRecordDataset(binary, 2, 2, 2)) == [b"aa", b"bb", b"cc"]
    with pytest.raises(Invalid, match="not an exact multiple of the record length \\(4 bytes\\)"):
        list(tf.data.FixedLengthRecordDataset(binary, 4, 2, 2))
    with pytest.raises(tf.errors.NotFoundError, match="nope; No such file or directory"):
        list(tf.data.TextLineDataset(str(tmp_path / "nope")))
    with pytest.raises(TypeError, match=r"must contain `tf\.string` elements\. Got `tf\.int32` elements\."):
        tf.data.TextLineDataset(3)
    assert isinstance(tf.data.TextLineDataset(binary), Dataset)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_records(tmp_path, compression):
    path = str(tmp_path / "r.tfrecord")
    records = [b"abc", b"", bytes(range(256)) * 50]
    with tf.io.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
        writer.flush()
    assert plain(tf.data.TFRecordDataset(path, compression_type=compression)) == records


def test_a_record_of_tensorflows(tmp_path):
    path = tmp_path / "r.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write("abc")
    written = path.read_bytes()
    assert written == bytes.fromhex("0300000000000000b099490e6162636e57f121")
    for place, sentence in (
        (13, "corrupted record at 12"),
        (0, "corrupted record at 0 \\(Is this even a TFRecord file"),
    ):
        broken = bytearray(written)
        broken[place] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(tf.errors.DataLossError, match=sentence):
            list(tf.data.TFRecordDataset(str(path)))
    path.write_bytes(written[:14])
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 0"):
        list(tf.data.TFRecordDataset(str(path)))


def example(**features):
    kinds = {bytes: "bytes_list", int: "int64_list", float: "float_list"}
    lists = {"bytes_list": tf.train.BytesList, "int64_list": tf.train.Int64List, "float_list": tf.train.FloatList}
    made = {}
    for name, values in features.items():
        kind = kinds[type(values[0])]
        made[name] = tf.train.Feature(**{kind: lists[kind](value=values)})
    return tf.train.Example(features=tf.train.Features(feature=made))


def test_examples_have_tensorflows_bytes():
    recorded = {
        b"\n\x16\n\x14\n\x01x\x12\x0f\x1a\r\n\x0b\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01": {"x": [1, -2]},
        b"\n\x0f\n\r\n\x01z\x12\x08\x12\x06\n\x04\x00\x00\x00?": {"z": [0.5]},
        b"\n\x0c\n\n\n\x01y\x12\x05\n\x03\n\x01q": {"y": [b"q"]},
    }
    for data, features in recorded.items():
        assert example(**features).SerializeToString() == data
        assert tf.train.Example.FromString(data) == example(**features)
    made = tf.train.Example()
    made.features.feature["x"].int64_list.value.extend([1, -2])
    assert made == example(x=[1, -2])
    lines = str(example(x=[1])).splitlines()
    assert [line.strip() for line in lines[:6]] == [
        "features {", "feature {", 'key: "x"', "value {", "int64_list {", "value: 1",
    ]  # fmt: skip
    assert lines[5] == "        value: 1"
    assert made.features.feature["x"].WhichOneof("kind") == "int64_list"
    assert "w" not in made.features.feature
    steps = tf.train.FeatureList(feature=[made.features.feature["x"]] * 2)
    sequence = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"s": steps}))
    assert tf.train.SequenceExample.FromString(sequence.SerializeToString()) == sequence
    for make, sentence in (
        (lambda: tf.train.Int64List(value=[1.5]), "'float' object cannot be interpreted as an integer"),
        (lambda: tf.train.BytesList(value=["a"]), "expected bytes, str found"),
        (lambda: tf.train.FloatList(value=["a"]), "must be real number, not str"),
        (lambda: tf.train.Feature(int64_list=3), "must be dict or instance of same class"),
    ):
        with pytest.raises(TypeError, match=sentence):
            make()
    with pytest.raises(ValueError, match=r"Error parsing message with type 'tensorflow\.Example'"):
        tf.train.Example.FromString(b"abc")


def test_parsing_examples():
    a, b = example(x=[1, 2], y=[b"q"], z=[0.5]).SerializeToString(), example(x=[3], y=[b"r"]).SerializeToString()
    io = tf.io
    one = io.parse_single_example(
        a,
        {
            "x": io.FixedLenFeature([1, 2], tf.int64),
            "y": io.FixedLenFeature([], tf.string),
            "w": io.FixedLenFeature([2], tf.float32, [7.0, 8.0]),
            "s": io.VarLenFeature(tf.float32),
        },
    )
    assert one["x"].numpy().tolist() == [[1, 2]]
    assert one["y"].numpy() == b"q"
    assert one["w"].numpy().tolist() == [7.0, 8.0]
    assert one["s"].dense_shape.numpy().tolist() == [0]
    two = io.parse_example(
        [a, b],
        {
            "x": io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1),
            "y": io.FixedLenFeature([], tf.string),
        },
    )
    assert two["x"].numpy().tolist() == [[1, 2], [3, -1]]
    assert two["y"].numpy().tolist() == [b"q", b"r"]
    sparse = io.parse_example([a, b], {"x": io.VarLenFeature(tf.int64)})["x"]
    assert sparse.indices.numpy().tolist() == [[0, 0], [0, 1], [1, 0]]
    assert (sparse.values.numpy().tolist(), sparse.dense_shape.numpy().tolist()) == ([1, 2, 3], [2, 2])
    refused = [
        ({"x": io.FixedLenFeature([], tf.int64)}, "Key: x.  Can't parse serialized Example"),
        ({"x": io.FixedLenFeature([2], tf.float32)}, "Data type: int64 but expected type: float"),
        ({"w": io.FixedLenFeature([2], tf.int64)}, "Feature: w (data type: int64) is required but could not be found"),
        ({"w": io.FixedLenFeature([2], tf.int64, 7)}, "Input to reshape is a tensor with 1 values"),
        ({"x": io.FixedLenFeature([2], tf.int32)}, "Value for attr 'Tdense' of int32 is not in the list"),
    ]
    for features, sentence in refused:
        with pytest.raises(Invalid) as caught:
            io.parse_single_example(a, features)
        assert sentence in str(caught.value)
    with pytest.raises(Invalid, match=r"Key: x, Index: 1\.  Number of int64 values != expected"):
        io.parse_example([a, b], {"x": io.FixedLenFeature([2], tf.int64)})
    with pytest.raises(Invalid, match="Could not parse example input, value: 'abc'"):
        io.parse_single_example(b"abc", {"x": io.FixedLenFeature([2], tf.int64)})


def test_tensors_as_strings():
    recorded = {
        b'\x08\x03\x12\x04\x12\x02\x08\x02"\x08\x01\x00\x00\x00\x02\x00\x00\x00': [1, 2],
        b"\x08\x07\x12\x00B\x01a": "a",
        b'\x08\x01\x12\x00"\x04\x00\x00\xc0?': 1.5,
    }
    for data, value in recorded.items():
        assert tf.io.serialize_tensor(value).numpy() == data
        tensor = tf.constant(value)
        assert np.array_equal(tf.io.parse_tensor(data, tensor.dtype).numpy(), tensor.numpy())
    with pytest.raises(Invalid, match=r"Type mismatch between parsed tensor \(int32\) and dtype \(float\)"):
        tf.io.parse_tensor(tf.io.serialize_tensor([1, 2]), tf.float32)
    with pytest.raises(Invalid, match="Could not parse `serialized` as TensorProto, base64: YWJj"):
        tf.io.parse_tensor(b"abc", tf.float32)


def test_saved_datasets(tmp_path):
    dataset = Dataset.from_tensor_slices(({"a": np.arange(3.0)}, ["x", "y", "z"])).batch(2)
    for compression in (None, "GZIP"):
        path = str(tmp_path / f"saved{compression}")
        dataset.save(path, compression=compression)
        loaded = Dataset.load(path, compression=compression)
        assert plain(loaded) == plain(dataset)
        assert loaded.element_spec == dataset.element_spec
        assert len(loaded) == 2
    kept = dataset.snapshot(str(tmp_path / "snapshot"))
    assert plain(kept) == plain(kept) == plain(dataset)


# -- iterators -------------------------------------------------------------------------------------------------------
def test_iterators():
    iterator = iter(Dataset.range(2))
    assert isinstance(iterator, tf.data.Iterator)
    assert iterator.element_spec == tf.TensorSpec((), tf.int64)
    assert int(iterator.get_next()) == 0
    found = iterator.get_next_as_optional()
    assert found.has_value()
    assert int(found.get_value()) == 1
    missing = iterator.get_next_as_optional()
    assert not missing.has_value()
    with pytest.raises(Invalid, match="The given optional does not have a value"):
        missing.get_value()
    assert list(iterator) == []


@pytest.mark.parametrize("seed", [None, 3])
def test_checkpoints_save_positions(tmp_path, seed):
    dataset = Dataset.range(10).shuffle(10, seed=seed).repeat().map(lambda x: x * 2).batch(4)
    iterator = iter(dataset)
    for _ in range(3):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator, step=tf.Variable(3))
    path = checkpoint.save(str(tmp_path / "ckpt"))
    wanted = [next(iterator).numpy().tolist() for _ in range(2)]
    checkpoint.restore(path)
    assert [next(iterator).numpy().tolist() for _ in range(2)] == wanted
    fresh = iter(Dataset.range(10).shuffle(10, seed=seed).repeat().map(lambda x: x * 2).batch(4))
    tf.train.Checkpoint(iterator=fresh, step=tf.Variable(0)).restore(path)
    assert [next(fresh).numpy().tolist() for _ in range(2)] == wanted


def test_options():
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 3
    dataset = Dataset.range(2).with_options(options).batch(2)
    assert dataset.options().threading.private_threadpool_size == 3
    assert dataset.options().deterministic is False
    assert plain(dataset) == [[0, 1]]


# -- Keras -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def keras():
    if importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    tf.keras.utils.set_random_seed(0)
    return tf.keras


def linear(keras):
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    return model


def columns(n=10):
    x = np.random.default_rng(0).random((n, 2), np.float32)
    return x, x.sum(1, keepdims=True) + 1


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_fit_evaluate_and_predict(keras):
    x, y = columns()
    dataset = Dataset.from_tensor_slices((x, y)).batch(4)
    model, other = linear(keras), linear(keras)
    history = model.fit(dataset, epochs=3, validation_data=dataset, verbose=0).history
    wanted = other.fit(x, y, epochs=3, validation_data=(x, y), batch_size=4, shuffle=False, verbose=0).history
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(history[name], wanted[name], rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(dataset, verbose=0), other.evaluate(x, y, verbose=0), rtol=1e-5)
    alone = Dataset.from_tensor_slices(x).batch(4).prefetch(1)
    np.testing.assert_allclose(model.predict(alone, verbose=0), other.predict(x, verbose=0), rtol=1e-5)
    model.fit(dataset.repeat(), epochs=2, steps_per_epoch=2, verbose=0)
    with pytest.raises(ValueError, match="`y` should not be passed"):
        model.fit(dataset, y, verbose=0)


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_weights_of_samples_and_classes(keras):
    x, _ = columns()
    y = (np.arange(10) % 2)[:, None].astype(np.float32)
    weights = np.where(y[:, 0] > 0, 3.0, 1.0).astype(np.float32)
    losses = [
        linear(keras).fit(data, verbose=0, **options).history["loss"]
        for data, options in (
            (Dataset.from_tensor_slices((x, y, weights)).batch(5), {}),
            (Dataset.from_tensor_slices((x, y)).batch(5), {"class_weight": {0: 1.0, 1: 3.0}}),
        )
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_keras_utilities_give_datasets(keras, tmp_path):
    series = keras.utils.timeseries_dataset_from_array(np.arange(10.0), np.arange(10.0), 3, batch_size=4)
    assert isinstance(series, Dataset)
    x, y = next(iter(series))
    assert (x.numpy()[1].tolist(), y.numpy().tolist()) == ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0])
    values, _ = columns()
    layer = keras.layers.Normalization()
    layer.adapt(Dataset.from_tensor_slices(values).batch(4))
    np.testing.assert_allclose(np.ravel(layer.mean), values.mean(0), rtol=1e-5)
    for kind in "ab":
        for i in range(3):
            tf.io.write_file(str(tmp_path / kind / f"{i}.txt"), f"{kind}{i}")
    texts = keras.utils.text_dataset_from_directory(str(tmp_path), batch_size=6, label_mode="binary", verbose=False)
    ((words, labels),) = texts
    assert {word[:1] for word in words.numpy()[labels.numpy()[:, 0] == 1]} == {b"b"}
    assert texts.class_names == ["a", "b"]


def test_experimental_names():
    experimental = tf.data.experimental
    assert plain(Dataset.range(4).apply(experimental.map_and_batch(lambda x: x + 1, 2))) == [[1, 2], [3, 4]]
    assert plain(Dataset.range(4).batch(2).apply(experimental.unbatch())) == [0, 1, 2, 3]
    assert plain(Dataset.range(3).apply(experimental.enumerate_dataset(5)))[0] == (5, 0)
    assert plain(experimental.Counter().take(2)) == [0, 1]
    assert int(experimental.get_single_element(Dataset.from_tensors(4))) == 4
    assert experimental.AUTOTUNE == tf.data.AUTOTUNE


# -- datasets of datasets --------------------------------------------------------------------------------------------
def unfolded(x):
    """An element as lists: datasets within it with their elements."""
    if isinstance(x, (tuple, list, Dataset)):
        return [unfolded(part) for part in x]
    if isinstance(x, dict):
        return {key: unfolded(part) for key, part in x.items()}
    return x.numpy().tolist()


def total(dataset):
    return dataset.reduce(np.int64(0), lambda a, b: a + b)


NESTED = {  # each was run with TensorFlow 2.21
    "from_tensors": (lambda: Dataset.from_tensors((Dataset.range(3), 5)), [[[0, 1, 2], 5]]),
    "rows": (lambda: Dataset.from_tensor_slices([Dataset.range(2), Dataset.range(3)]), [[0, 1], [0, 1, 2]]),
    "map": (lambda: Dataset.range(3).map(lambda i: (i, Dataset.range(i))), [[0, []], [1, [0]], [2, [0, 1]]]),
    "map of map": (
        lambda: Dataset.range(3).map(lambda i: Dataset.range(i)).map(lambda d: d.map(lambda y: y + 1)),
        [[], [1], [1, 2]],
    ),
    "reduce": (lambda: Dataset.range(4).map(lambda i: Dataset.range(i)).map(total), [0, 0, 1, 3]),
    "flat_map": (
        lambda: Dataset.range(4).map(lambda i: (i, Dataset.range(i))).flat_map(lambda i, d: d.map(lambda y: y * i)),
        [0, 0, 2, 0, 3, 6],
    ),
    "windows of windows": (lambda: Dataset.range(8).window(2).window(2), [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
    "windows of windows, flat": (
        lambda: Dataset.range(8).window(2).window(2).flat_map(lambda w: w.flat_map(lambda x: x.batch(2)).batch(2)),
        [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
    ),
    "windows of tuples": (
        lambda: Dataset.from_tensor_slices(([1, 2, 3], [4, 5, 6])).window(2).flat_map(lambda a, b: Dataset.zip(a, b)),
        [[1, 4], [2, 5], [3, 6]],
    ),
    "filter": (lambda: Dataset.range(7).window(3).filter(lambda w: total(w) > 5), [[3, 4, 5], [6]]),
    "batch and unbatch": (lambda: Dataset.range(6).window(2).batch(2).unbatch(), [[0, 1], [2, 3], [4, 5]]),
    "rebatch": (lambda: Dataset.range(6).window(2).batch(2).rebatch(3).unbatch(), [[0, 1], [2, 3], [4, 5]]),
    "batch of pairs": (
        lambda: Dataset.range(3).map(lambda i: (i, Dataset.range(i))).batch(2).unbatch(),
        [[0, []], [1, [0]], [2, [0, 1]]],
    ),
    "group_by_window": (
        lambda: Dataset.range(6).group_by_window(lambda x: x % 2, lambda key, group: Dataset.from_tensors(group), 3),
        [[0, 2, 4], [1, 3, 5]],
    ),
    "from_generator": (
        lambda: Dataset.from_generator(
            lambda: iter([Dataset.range(2), Dataset.range(3)]),
            output_signature=tf.data.DatasetSpec(tf.TensorSpec([], tf.int64)),
        ),
        [[0, 1], [0, 1, 2]],
    ),
    "choose": (
        lambda: Dataset.choose_from_datasets(
            [Dataset.range(4).window(2), Dataset.range(9, 12).window(2)],
            Dataset.from_tensor_slices(np.array([0, 1, 0])),
        ),
        [[0, 1], [9, 10], [2, 3]],
    ),
    "scan": (
        lambda: Dataset.range(6).window(3).scan(np.int64(0), lambda s, w: (s + total(w), s)),
        [0, 3],
    ),
    "in memory": (lambda: Dataset.range(4).window(2).cache().repeat(2), [[0, 1], [2, 3], [0, 1], [2, 3]]),
    "order and number": (
        lambda: Dataset.range(12).window(2).skip(1).take(4).shard(2, 1).prefetch(2)
        .concatenate(Dataset.range(1).window(1)),
        [[4, 5], [8, 9], [0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_datasets_of_datasets(name):
    make, want = NESTED[name]
    assert unfolded(list(make())) == want


def test_specs_of_datasets_of_datasets():
    numbers = tf.TensorSpec([], tf.int64)
    spec = tf.data.DatasetSpec(numbers)
    windows = Dataset.range(6).window(2)
    assert windows.element_spec == Dataset.range(3).map(lambda i: Dataset.range(i)).element_spec == spec
    assert repr(windows.batch(2).element_spec) == f"DatasetSpec({numbers!r}, TensorShape([None]))"
    assert repr(windows.batch(2, drop_remainder=True).element_spec) == f"DatasetSpec({numbers!r}, TensorShape([2]))"
    assert windows.batch(2).unbatch().element_spec == spec
    assert windows.window(2).element_spec == tf.data.DatasetSpec(spec)
    assert tf.data.DatasetSpec.from_value(Dataset.range(2)) == spec
    assert spec.value_type is Dataset
    assert spec.is_compatible_with(Dataset.range(3))
    assert not spec.is_compatible_with(Dataset.from_tensor_slices(["a"]))
    assert not spec.is_compatible_with(windows.batch(2).element_spec)
    assert not spec.is_compatible_with(Dataset.zip(Dataset.range(2), Dataset.range(2)))


def test_datasets_of_datasets_in_files(tmp_path):
    windows = Dataset.range(5).window(2).enumerate()
    want = [[0, [0, 1]], [1, [2, 3]], [2, [4]]]
    cached = windows.cache(str(tmp_path / "cache"))
    assert [unfolded(list(cached)) for _ in range(2)] == [want] * 2
    windows.batch(2).save(tmp_path / "saved")
    loaded = Dataset.load(tmp_path / "saved")
    assert unfolded(list(loaded.unbatch())) == want
    assert loaded.element_spec == windows.batch(2).element_spec


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: Dataset.from_tensor_slices(Dataset.range(3)), ValueError, "Slicing dataset elements is not supported"),
        (lambda: Dataset.from_tensor_slices((Dataset.range(2), [1, 2])), ValueError, "Slicing dataset elements"),
        (lambda: list(Dataset.range(4).window(2).unbatch()), ValueError, "Slicing dataset elements is not supported"),
        (lambda: Dataset.range(4).window(2).padded_batch(2), TypeError, "not supported for datasets of datasets"),
        (lambda: list(Dataset.range(4).window(2).unique()), TypeError, "does not support type DatasetSpec"),
        (lambda: list(Dataset.range(3).flat_map(lambda i: i)), TypeError, "must return a `tf.data.Dataset` object"),
    ],
)
def test_what_datasets_of_datasets_cannot(call, error, match):
    with pytest.raises(error, match=match):
        call()


STATES = [
    b"", b"{", b"[]", b"3", b'{"position": 2}', b'{"position": "2", "seeds": []}', b'{"position": -1, "seeds": []}',
    b'{"position": 1, "seeds": ["a"]}', b'{"position": 1, "seeds": 3}', b"[" * 10**5,
]  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_states_of_iterators_that_are_none(state):
    iterator = iter(Dataset.range(5))
    next(iterator)
    with pytest.raises(tf.errors.DataLossError, match="The state of an iterator cannot be read"):
        iterator.deserialize(state)
    assert [int(x) for x in iterator] == [1, 2, 3, 4]


def test_an_iterator_of_a_dataset_that_has_become_shorter(tmp_path):
    iterator = iter(Dataset.range(5))
    for _ in range(4):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(tmp_path / "c")
    shorter = iter(Dataset.range(3))
    tf.train.Checkpoint(iterator=shorter).read(path)
    assert list(shorter) == []


def test_long_lists_of_numbers():
    numbers = [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63), -300] * 20
    example = tf.train.Int64List(value=numbers)
    assert tf.train.Int64List.FromString(example.SerializeToString()).value == numbers
    data = example.SerializeToString()
    for damaged in (data[:3] + b"\xff" * 200, data[:-1] + b"\xff", data[:3] + b"\xff" * 9 + b"\x02" + data[13:]):
        with pytest.raises(ValueError, match="Error parsing message"):
            tf.train.Int64List.FromString(damaged)


@pytest.mark.parametrize(
    "kind", ["BytesList", "FloatList", "Int64List", "Feature", "Features", "FeatureList", "FeatureLists", "Example"]
)
def test_messages_have_the_fields_they_have(kind):
    made = getattr(tf.train, kind)
    with pytest.raises(ValueError, match=f'Protocol message {kind} has no "other" field'):
        made(other=3)
    with pytest.raises(TypeError, match="No positional arguments allowed"):
        made([1])


def test_names_with_a_zero_byte(tmp_path):
    """No file has such a name. TensorFlow takes what comes before the zero byte for the name."""
    path = str(tmp_path / "a\0b")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    calls = [
        lambda: tf.io.write_file(path, "x"),
        lambda: tf.io.read_file(path),
        lambda: tf.io.TFRecordWriter(path),
        lambda: list(tf.data.TFRecordDataset(path)),
        lambda: list(tf.data.Dataset.range(2).cache(path)),
        lambda: tf.data.Dataset.range(2).save(path),
        lambda: checkpoint.write(path),
        lambda: checkpoint.read(path),
    ]
    for call in calls:
        with pytest.raises(tf.errors.NotFoundError):
            call()
    assert tf.train.latest_checkpoint(path) is None
    assert not list(tmp_path.iterdir())
