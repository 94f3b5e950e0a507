"""`tf.feature_column`: columns, what they make of features, and the models of `tf.compat.v1` that read them."""

import os
import tempfile

from conformance.runner import raises

WORDS = ["cat", "dog", "cow"]


def counting(tf, np):
    """An initializer: 0, 0.1, 0.2, …"""
    return lambda shape, dtype=None, **_: tf.reshape(tf.range(float(np.prod(shape))), shape) / 10.0


def words_file(lines=WORDS):
    path = os.path.join(tempfile.mkdtemp(), "words.txt")
    with open(path, "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return path


def sparse_words(tf):
    return {"w": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], ["cat", "dog", "owl"], [4, 2])}


def of_words(fc, tf, path):
    """Categorical columns of the feature "w"."""
    return {
        "hash": fc.categorical_column_with_hash_bucket("w", 5),
        "file": fc.categorical_column_with_vocabulary_file("w", path),
        "file with buckets": fc.categorical_column_with_vocabulary_file("w", path, num_oov_buckets=3),
        "file with default": fc.categorical_column_with_vocabulary_file("w", path, vocabulary_size=2, default_value=1),
        "list": fc.categorical_column_with_vocabulary_list("w", ["dog", "cat"]),
        "list with buckets": fc.categorical_column_with_vocabulary_list("w", ["dog", "cat"], num_oov_buckets=4),
    }


def case_numbers(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    column = fc.numeric_column("x")
    return [
        layer({"x": [[1.0], [2.5]]}, [column]),
        layer({"x": [1.0, 2.0]}, column),
        layer({"x": [[1, 2], [3, 4]]}, [fc.numeric_column("x", 2, dtype=tf.int32, normalizer_fn=lambda x: x * 2)]),
        layer({"x": [[[1.0, 2.0]]]}, [fc.numeric_column("x", [1, 2])]),
        [repr(column), column.name, column.shape, column.dtype, column.variable_shape],
        [
            repr(fc.numeric_column("x", [2, 2], default_value=3)),
            fc.numeric_column("x", 2, np.array([1, 2.5])).default_value,
        ],
    ]


def case_buckets(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    one = fc.bucketized_column(fc.numeric_column("x"), [-1.0, 0, 2.5])
    two = fc.bucketized_column(fc.numeric_column("x", 2), (1.5, 3.5))
    return [
        layer({"x": [[-1.0], [2.5], [-3.0]]}, [one]),
        layer({"x": [[1.0, 2.0], [3.0, 4.0]]}, [two]),
        [repr(one), one.name, one.num_buckets, two.num_buckets, two.variable_shape],
        tf.compat.v1.feature_column.linear_model({"x": [[1.0, 2.0], [3.0, 4.0]]}, [two]),
    ]


def case_ids_of_words(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    found = {}
    for name, column in of_words(fc, tf, words_file()).items():
        dense = {"w": [["cat"], ["cow"], ["owl"], [""]]}
        indicator = fc.indicator_column(column)
        found[name] = [
            layer(dense, [indicator]),
            layer(sparse_words(tf), [indicator]),
            column.num_buckets,
            indicator.name,
        ]
    return found


def case_embeddings(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    found = {}
    for name, column in of_words(fc, tf, words_file()).items():
        for combiner in ("mean", "sum", "sqrtn"):
            embedding = fc.embedding_column(column, 2, combiner, initializer=counting(tf, np))
            found[f"{name} {combiner}"] = [
                layer(sparse_words(tf), [embedding]),
                embedding.name,
                embedding.variable_shape,
            ]
    limited = fc.embedding_column(column, 2, initializer=counting(tf, np), max_norm=0.5)
    return [found, layer(sparse_words(tf), [limited])]


def case_whole_numbers(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    features = {"i": [[1, 2], [-1, 7], [0, 3]]}
    path = words_file([10, 20, 30])
    columns = [
        fc.categorical_column_with_identity("i", 8),
        fc.categorical_column_with_identity("i", 4, default_value=0),
        fc.categorical_column_with_hash_bucket("i", 6, tf.int64),
        fc.categorical_column_with_vocabulary_list("i", [2, 7, 0]),
        fc.categorical_column_with_vocabulary_list("i", [2, 7, 0], dtype=tf.int32, num_oov_buckets=2),
    ]
    from_file = fc.categorical_column_with_vocabulary_file("i", path, dtype=tf.int64)
    return [
        [layer(features, [fc.indicator_column(column)]) for column in columns],
        [repr(column) for column in columns],
        layer({"i": [[10], [30], [5]]}, [fc.indicator_column(from_file)]),
    ]


def case_words_in_records(tf, np):
    fc, path = tf.feature_column, os.path.join(tempfile.mkdtemp(), "words.tfrecord.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for word in WORDS:
            writer.write(word.encode())
    column = fc.categorical_column_with_vocabulary_file("w", path)
    features = {"w": [["cow"], ["cat"], ["owl"]]}
    return [
        tf.compat.v1.feature_column.input_layer(features, [fc.indicator_column(column)]),
        int(column.num_buckets),
        column.file_format,
    ]


def case_weights(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    column = fc.weighted_categorical_column(fc.categorical_column_with_identity("i", 8), "a")
    features = {"i": [[1, 2], [1, 7], [0, 3]], "a": [[0.5, 1.0], [2.0, 3.0], [1.0, 4.0]]}
    return [
        layer(features, [fc.indicator_column(column)]),
        layer(features, [fc.embedding_column(column, 2, initializer=counting(tf, np))]),
        layer({"i": [[1, 1]], "a": [[0.5, 1.0]]}, [fc.indicator_column(column)]),
        tf.compat.v1.feature_column.linear_model(features, [column]),
        [column.name, column.num_buckets, repr(fc.make_parse_example_spec([column]))],
    ]


def case_crosses(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    features = {"w": [["cat"], ["dog"]], "i": [[1], [2]], "x": [[1.0], [5.0]]}
    cross = fc.crossed_column(["w", "i"], 20)
    bucketized = fc.bucketized_column(fc.numeric_column("x"), [2.0])
    nested = fc.crossed_column([bucketized, fc.crossed_column(["w", "i"], 5)], 30)
    return [
        layer(features, [fc.indicator_column(cross)]),
        layer(features, [fc.indicator_column(fc.crossed_column(["w", "i"], 20, hash_key=7))]),
        layer(features, [fc.indicator_column(nested)]),
        layer(features, [fc.embedding_column(cross, 3, initializer=counting(tf, np))]),
        [cross.name, nested.name, repr(cross), repr(fc.make_parse_example_spec([nested]))],
        [cross.num_buckets, cross < nested, sorted([nested, cross]) == [cross, nested]],
    ]


def case_many_columns(tf, np):
    fc, v1 = tf.feature_column, tf.compat.v1.feature_column
    price, day = fc.numeric_column("price"), fc.categorical_column_with_identity("day", 4)
    word = fc.indicator_column(fc.categorical_column_with_vocabulary_list("w", ["dog", "cat"]))
    embedding = fc.embedding_column(day, 2, initializer=counting(tf, np))
    features = {"price": [1.0, 2.5, -3.0], "w": ["cat", "dog", "owl"], "day": [[1], [2], [0]]}
    outputs = {}
    found = v1.input_layer(features, [price, word, embedding], cols_to_output_tensors=outputs)
    return [found, outputs[word], outputs[embedding], v1.linear_model(features, [price, day], units=2)]


def case_gradients(tf, np):
    fc = tf.feature_column
    column = fc.embedding_column(fc.categorical_column_with_identity("i", 4), 2, initializer=counting(tf, np))
    with tf.GradientTape() as tape:
        y = tf.compat.v1.feature_column.input_layer({"i": [[1], [1], [3]]}, [column])
        loss = tf.reduce_sum(y**2)
    (variable,) = tape.watched_variables()
    return [y, variable.shape, tf.convert_to_tensor(tape.gradient(loss, variable))]


def case_functions(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    words = fc.indicator_column(fc.categorical_column_with_vocabulary_list("w", ["dog", "cat"], num_oov_buckets=2))
    columns = [fc.numeric_column("x"), words, fc.indicator_column(fc.crossed_column(["w", "i"], 7))]

    @tf.function
    def f(w, x, i):
        return layer({"w": w, "x": x, "i": i}, columns)

    return [
        f(tf.constant([["cat"], ["owl"]]), tf.constant([[1.0], [2.0]]), tf.constant([[1], [2]])),
        f(tf.constant([["dog"]]), tf.constant([[3.0]]), tf.constant([[1]])),
    ]


def case_examples(tf, np):
    fc, train = tf.feature_column, tf.train
    columns = [
        fc.numeric_column("x", default_value=7.0),
        fc.indicator_column(fc.categorical_column_with_vocabulary_list("w", ["dog", "cat"])),
        fc.embedding_column(fc.categorical_column_with_identity("i", 4), 2, initializer=counting(tf, np)),
    ]
    spec = fc.make_parse_example_spec(columns)

    def example(word, **more):
        feature = {"w": train.Feature(bytes_list=train.BytesList(value=[word]))}
        if more:
            feature["x"] = train.Feature(float_list=train.FloatList(value=[more["x"]]))
            feature["i"] = train.Feature(int64_list=train.Int64List(value=more["i"]))
        return train.Example(features=train.Features(feature=feature)).SerializeToString()

    records = [example(b"dog", x=1.5, i=[1, 2]), example(b"owl")]
    features = tf.io.parse_example(records, spec)
    return [sorted(map(repr, spec.items())), tf.compat.v1.feature_column.input_layer(features, columns)]


def case_sequences(tf, np):
    from_module = tf.compat.v1.feature_column
    fc = tf.feature_column
    features = {
        "s": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1.0, 2.0, 3.0], [4, 3]),
        "i": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1, 2, 0], [4, 2]),
        **sparse_words(tf),
    }

    class Cache:
        """The features of a batch, as columns read them."""

        def get(self, key, state_manager=None):
            return features[key] if isinstance(key, str) else key.transform_feature(self, state_manager)

    columns = [
        fc.sequence_numeric_column("s"),
        fc.sequence_numeric_column("s", shape=(3,), default_value=9.0, normalizer_fn=lambda x: x * 2.0),
        fc.indicator_column(fc.sequence_categorical_column_with_identity("i", 3)),
        fc.indicator_column(fc.sequence_categorical_column_with_hash_bucket("w", 3)),
        fc.indicator_column(fc.sequence_categorical_column_with_vocabulary_file("w", words_file())),
        fc.indicator_column(fc.sequence_categorical_column_with_vocabulary_list("w", ["dog", "cat"])),
    ]
    return [
        [tuple(column.get_sequence_dense_tensor(Cache(), None)) for column in columns],
        [column.name for column in columns],
        raises(lambda: from_module.input_layer(features, [columns[2]]), match="Suggested fix B"),
        raises(
            lambda: fc.indicator_column(fc.categorical_column_with_identity("i", 3)).get_sequence_dense_tensor(
                Cache(), None
            )
        ),
    ]


def case_graphs(tf, np):
    fc, v1 = tf.feature_column, tf.compat.v1
    with tf.Graph().as_default():
        x, i = v1.placeholder(tf.float32, [None, 1]), v1.placeholder(tf.int64, [None, 1])
        day = fc.categorical_column_with_identity("i", 4)
        embedding = fc.embedding_column(day, 2, initializer=v1.constant_initializer(2.0))
        variables = {}
        y = v1.feature_column.input_layer({"x": x, "i": i}, [fc.numeric_column("x"), embedding], cols_to_vars=variables)
        gradient = tf.convert_to_tensor(tf.gradients(y * [[1.0, 2.0, 3.0]], variables[embedding][0])[0])
        z = v1.feature_column.linear_model({"x": x, "i": i}, [fc.numeric_column("x"), day])
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            return [
                session.run([y, z, gradient], {x: [[1.0], [2.0]], i: [[1], [3]]}),
                [v.name for v in v1.global_variables()],
                [v.name for v in v1.trainable_variables()],
            ]


def case_shared_embeddings(tf, np):
    fc, v1 = tf.feature_column, tf.compat.v1
    first, second = [fc.categorical_column_with_identity(key, 4) for key in ("a", "b")]
    errors = [raises(lambda: fc.shared_embeddings([first], 2), match="not supported when eager execution is enabled")]
    with tf.Graph().as_default():
        ids = tf.constant([[1], [3]])
        columns = v1.feature_column.shared_embedding_columns(
            [second, first], 2, initializer=v1.constant_initializer(2.0)
        )
        y = v1.feature_column.input_layer({"a": ids, "b": ids}, columns)
        other = fc.categorical_column_with_identity("c", 5)
        errors.append(raises(lambda: fc.shared_embeddings([first, other], 2), match="same number of buckets"))
        hashed = fc.categorical_column_with_hash_bucket("c", 4)
        errors.append(raises(lambda: fc.shared_embeddings([first, hashed], 2), match="must have the same type"))
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            return [session.run(y), [v.name for v in v1.global_variables()], [c.name for c in columns], errors]


def case_configurations(tf, np):
    fc = tf.feature_column
    columns = [
        fc.crossed_column(["a", fc.categorical_column_with_identity("b", 3)], 5),
        fc.numeric_column("x", [1, 2]),
        fc.indicator_column(fc.categorical_column_with_vocabulary_list("w", ["a"], num_oov_buckets=2)),
        fc.weighted_categorical_column(fc.categorical_column_with_hash_bucket("w", 3), "a"),
        fc.bucketized_column(fc.numeric_column("x"), [1.0, 2.0]),
    ]
    configs = [column.get_config() for column in columns]
    again = [type(column).from_config(config) for column, config in zip(columns, configs)]
    return [list(map(repr, configs)), [one == other for one, other in zip(columns, again)]]


def case_errors_of_features(tf, np):
    fc, layer = tf.feature_column, tf.compat.v1.feature_column.input_layer
    numeric, day = fc.numeric_column("x"), fc.categorical_column_with_identity("i", 4)
    word = fc.indicator_column(fc.categorical_column_with_hash_bucket("i", 6))
    weighted = fc.indicator_column(fc.weighted_categorical_column(day, "a"))
    features = {"x": [[1.0]], "i": [[1]]}
    return [
        raises(lambda: layer(features, [numeric, numeric]), match="Duplicate feature column name"),
        raises(lambda: layer(features, []), match="must not be empty"),
        raises(lambda: layer(features, [day]), match="You can wrap a categorical column"),
        raises(lambda: layer(features, ["x"])),
        raises(lambda: layer(features, {"x": numeric}), match="found dict"),
        raises(lambda: layer({}, [numeric]), match="Feature x is not in features dictionary."),
        raises(lambda: layer({"x": 1.0}, [numeric]), match="cannot have rank 0"),
        raises(
            lambda: layer({"x": tf.SparseTensor([[0, 0]], [1.0], [1, 1])}, [numeric]),
            match="SparseTensor is not supported",
        ),
        raises(
            lambda: layer({"x": [[1.0], [2.0]], "y": [[1.0]]}, [numeric, fc.numeric_column("y")]), match="Batch size"
        ),
        raises(lambda: layer({"i": [[1.0]]}, [fc.indicator_column(day)]), match="Invalid input, not integer"),
        raises(lambda: layer(features, [word]), match="must be compatible"),
        raises(lambda: layer(features, [weighted]), match="Feature a is not in features dictionary."),
        raises(lambda: layer({"i": [[1, 1]], "a": [[1, 2]]}, [weighted]), match="Bad dtype"),
    ]


def case_errors_of_columns(tf, np):
    fc, numeric, path = tf.feature_column, tf.feature_column.numeric_column, words_file()
    day = fc.categorical_column_with_identity("i", 3)
    from_file, from_list = fc.categorical_column_with_vocabulary_file, fc.categorical_column_with_vocabulary_list
    hashed = fc.categorical_column_with_hash_bucket
    wrong = [
        lambda: numeric("x", shape=0),
        lambda: numeric("x", shape=1.5),
        lambda: numeric("x", default_value=1.5, dtype=tf.int32),
        lambda: numeric("x", default_value=[1, 2]),
        lambda: numeric("x", default_value="a"),
        lambda: numeric("x", dtype=tf.string),
        lambda: numeric("x", normalizer_fn=3),
        lambda: numeric(3),
        lambda: fc.bucketized_column(numeric("x"), []),
        lambda: fc.bucketized_column(numeric("x"), [2, 1]),
        lambda: fc.bucketized_column(numeric("x"), [1, 1]),
        lambda: fc.bucketized_column(numeric("x"), 3),
        lambda: fc.bucketized_column(numeric("x", [2, 2]), [1]),
        lambda: fc.bucketized_column("x", [1]),
        lambda: hashed("x", 0),
        lambda: hashed("x", None),
        lambda: hashed("x", 3, tf.float32),
        lambda: from_file("x", ""),
        lambda: from_file("x", "/no/such/file"),
        lambda: from_file("x", path, 0),
        lambda: from_file("x", path, default_value=1, num_oov_buckets=1),
        lambda: from_file("x", path, num_oov_buckets=-1),
        lambda: from_list("x", []),
        lambda: from_list("x", ["a", "a"]),
        lambda: from_list("x", [1.5]),
        lambda: from_list("x", ["a"], dtype=tf.int64),
        lambda: from_list("x", ["a"], default_value=0, num_oov_buckets=1),
        lambda: fc.categorical_column_with_identity("x", 0),
        lambda: fc.categorical_column_with_identity("x", 3, 9),
        lambda: fc.indicator_column(numeric("x")),
        lambda: fc.crossed_column(["a"], 3),
        lambda: fc.crossed_column(["a", "b"], 0),
        lambda: fc.crossed_column(["a", hashed("b", 2)], 3),
        lambda: fc.crossed_column(["a", numeric("b")], 3),
        lambda: fc.weighted_categorical_column(day, "w", tf.string),
        lambda: fc.embedding_column(day, 0),
        lambda: fc.embedding_column(day, 2, initializer=3),
        lambda: fc.embedding_column(day, 2, ckpt_to_load_from="a"),
        lambda: fc.make_parse_example_spec([numeric("x"), numeric("x", 2)]),
        lambda: fc.make_parse_example_spec(["x"]),
    ]
    return [raises(call) for call in wrong]
