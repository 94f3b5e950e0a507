"""tf.lookup tables and Keras preprocessing layers for text and categories."""

import os
import shutil
import tempfile

from conformance.runner import dense, raises


def rag(x):
    """A ragged result as plain pieces; anything else unchanged."""
    if hasattr(x, "to_list") and hasattr(x, "row_splits"):
        return ["ragged", x.to_list(), x.dtype, x.ragged_rank, x.shape]
    return x


class TextFile:
    """A temporary text file, removed on exit."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "vocab.txt")
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(self.text)
        return self.path

    def __exit__(self, *exc):
        shutil.rmtree(self.folder, ignore_errors=True)


def kv(tf, keys, values, **kw):
    return tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values), **kw)


def case_static_hash_table(tf, np):
    t = tf.lookup.StaticHashTable(kv(tf, ["a", "b", "c"], [1, 2, 3]), default_value=-1)
    return [
        t.lookup(tf.constant(["b", "zz", "a"])),
        t[tf.constant("c")],
        t.lookup(tf.constant([["a"], ["q"]])),
        t.size(),
        t.key_dtype,
        t.value_dtype,
        t.default_value,
        rag(t.lookup(tf.ragged.constant([["a", "x"], ["c"]]))),
    ]


def case_static_hash_table_types(tf, np):
    inv = tf.lookup.StaticHashTable(kv(tf, [0, 1], ["zero", "one"], key_dtype=tf.int32, value_dtype=tf.string), "none")
    fl = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["x", "y"], [0.5, 1.5]), default_value=0.0)
    lng = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([10, 20], [1, 2], key_dtype=tf.int64, value_dtype=tf.int64), -1
    )
    return [
        inv[tf.constant([1, 5, 0])],
        fl[tf.constant(["y", "n"])],
        lng[tf.constant([20, 30], tf.int64)],
        lng.size(),
        [str(d) for d in (inv.key_dtype.name, inv.value_dtype.name, lng.key_dtype.name, fl.value_dtype.name)],
    ]


def case_static_hash_table_errors(tf, np):
    t = tf.lookup.StaticHashTable(kv(tf, ["a"], [1]), -1)
    return [
        raises(lambda: t.lookup(tf.constant([1])), "TypeError"),
        raises(lambda: tf.lookup.StaticHashTable(kv(tf, ["a"], [1]), "x"), "*"),
        raises(lambda: tf.lookup.StaticHashTable(kv(tf, ["a", "a"], [1, 2]), -1), "ValueError"),
        raises(lambda: tf.lookup.StaticHashTable(kv(tf, ["a", "b"], [1]), -1), "ValueError"),
        raises(lambda: t.insert("b", 2), "AttributeError"),
        tf.lookup.StaticHashTable(kv(tf, ["a", "a"], [1, 1]), -1).size(),
    ]


def case_static_vocabulary_table(tf, np):
    t = tf.lookup.StaticVocabularyTable(kv(tf, ["hello", "world"], tf.constant([0, 1], tf.int64)), num_oov_buckets=3)
    return [
        t.lookup(tf.constant(["hello", "there", "world", "you", ""])),
        t[tf.constant("world")],
        t.size(),
        t.key_dtype,
        t.value_dtype,
        rag(t[tf.ragged.constant([["hello"], ["x", "world"]])]),
        raises(
            lambda: tf.lookup.StaticVocabularyTable(kv(tf, ["a"], tf.constant([0], tf.int64)), num_oov_buckets=0),
            "ValueError",
        ),
        raises(
            lambda: tf.lookup.StaticVocabularyTable(kv(tf, ["a"], tf.constant([0], tf.int32)), num_oov_buckets=1), "*"
        ),
    ]


def case_static_vocabulary_table_of_integers(tf, np):
    t = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([100, 200], tf.int64), tf.constant([0, 1], tf.int64)),
        4,
        lookup_key_dtype=tf.int64,
    )
    only = tf.lookup.StaticVocabularyTable(None, 5, lookup_key_dtype=tf.string)
    return [
        t.lookup(tf.constant([100, 300, 200, -7], tf.int64)),
        only.lookup(tf.constant(["a", "b", "c"])),
        only.size(),
    ]


def case_text_file_initializer(tf, np):
    T = tf.lookup.TextFileIndex
    with TextFile("emerson 10\nlake 20\npalmer 30\n") as p:
        a = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(p, tf.string, 0, tf.int64, 1, delimiter=" "), -1)
        b = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(p, tf.int64, T.LINE_NUMBER, tf.string, T.WHOLE_LINE, delimiter=" "), "none"
        )
        c = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(p, tf.string, 0, tf.int64, T.LINE_NUMBER, delimiter=" "), -1
        )
        out = [
            a.lookup(tf.constant(["palmer", "who"])),
            b.lookup(tf.constant([2, 9], tf.int64)),
            c.lookup(tf.constant(["lake", "emerson"])),
            a.size(),
        ]
        out.append(
            raises(
                lambda: tf.lookup.StaticHashTable(
                    tf.lookup.TextFileInitializer(p, tf.string, 0, tf.int64, 5, delimiter=" "), -1
                )
            )
        )
        out.append(
            raises(
                lambda: tf.lookup.StaticHashTable(
                    tf.lookup.TextFileInitializer(p + ".missing", tf.string, 0, tf.int64, 1), -1
                )
            )
        )
    return out


def case_vocabulary_from_text_file(tf, np):
    T = tf.lookup.TextFileIndex
    with TextFile("the\nquick\nfox\n") as p:
        init = tf.lookup.TextFileInitializer(p, tf.string, T.WHOLE_LINE, tf.int64, T.LINE_NUMBER)
        t = tf.lookup.StaticVocabularyTable(init, num_oov_buckets=2)
        s = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(p, tf.string, T.WHOLE_LINE, tf.int64, T.LINE_NUMBER, vocab_size=2),
            num_oov_buckets=1,
        )
        return [
            t.lookup(tf.constant(["fox", "the", "cat", "dog"])),
            t.size(),
            s.lookup(tf.constant(["the", "quick", "fox"])),
            s.size(),
            init.key_dtype,
            init.value_dtype,
        ]


def case_mutable_hash_table(tf, np):
    t = tf.lookup.experimental.MutableHashTable(key_dtype=tf.string, value_dtype=tf.int64, default_value=-1)
    t.insert(tf.constant(["a", "b", "c"]), tf.constant([10, 20, 30], tf.int64))
    n1 = t.size()
    t.insert(["a"], tf.constant([11], tf.int64))
    t.remove(tf.constant(["b", "zz"]))
    k, v = t.export()
    return [
        n1,
        t.size(),
        t.lookup(tf.constant(["a", "b", "c"])),
        sorted(zip(k.numpy().tolist(), v.numpy().tolist())),
        t[tf.constant("c")],
        t.lookup(tf.constant(["x", "c"]), dynamic_default_values=tf.constant([5, 6], tf.int64)),
        raises(lambda: t.insert(tf.constant(["a", "b"]), tf.constant([1], tf.int64))),
        raises(lambda: t.insert(tf.constant([1]), tf.constant([1], tf.int64)), "TypeError"),
    ]


def case_mutable_hash_table_of_vectors(tf, np):
    t = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=[0.0, 0.0])
    t.insert(tf.constant([1, 5], tf.int64), [[1.0, 2.0], [3.0, 4.0]])
    return [
        t.lookup(tf.constant([5, 2, 1], tf.int64)),
        t.size(),
        raises(lambda: t.insert(tf.constant([1], tf.int64), [[1.0, 2.0, 3.0]])),
    ]


def case_dense_hash_table(tf, np):
    t = tf.lookup.experimental.DenseHashTable(
        key_dtype=tf.string, value_dtype=tf.int64, default_value=-1, empty_key="", deleted_key="$"
    )
    t.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    t.erase(tf.constant(["a"]))
    k, v = t.export()
    pairs = sorted(
        (x, y) for x, y in zip(k.numpy().reshape(-1).tolist(), v.numpy().reshape(-1).tolist()) if x not in (b"", b"$")
    )
    return [
        t.lookup(tf.constant(["a", "b", "c"])),
        t.size(),
        pairs,
        raises(lambda: t.lookup(tf.constant([""]))),
        raises(lambda: t.insert(tf.constant(["$"]), tf.constant([1], tf.int64))),
        t[tf.constant(["b"])],
    ]


def case_tables_in_function_and_dataset(tf, np):
    t = tf.lookup.StaticHashTable(kv(tf, ["cat", "dog"], [0, 1]), -1)
    m = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)

    @tf.function
    def f(words):
        return t.lookup(tf.strings.lower(words))

    @tf.function
    def count(w):
        m.insert(w, m.lookup(w) + 1)
        return m.size()

    ds = tf.data.Dataset.from_tensor_slices(["DOG", "cow", "cat"]).map(lambda w: t.lookup(tf.strings.lower(w)))
    sizes = [count(tf.constant(w)) for w in ("x", "y", "x")]
    return [
        f(tf.constant(["Dog", "CAT", "emu"])),
        list(ds.as_numpy_iterator()),
        sizes,
        m.lookup(tf.constant(["x", "y", "z"])),
    ]


def case_table_feeds_embedding_gradient(tf, np):
    t = tf.lookup.StaticVocabularyTable(kv(tf, ["a", "b"], tf.constant([0, 1], tf.int64)), 1)
    e = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape() as tape:
        x = tf.gather(e, t.lookup(tf.constant(["b", "zz", "b"])))
        y = tf.reduce_sum(x * x)
    return [y, dense(tape.gradient(y, e))]


def case_keras_string_lookup(tf, np):
    L = tf.keras.layers.StringLookup
    a = L(vocabulary=["a", "b", "c"])
    inv = L(vocabulary=["a", "b", "c"], invert=True)
    m = L(vocabulary=["a", "b"], mask_token="", num_oov_indices=2, oov_token="[OOV]")
    z = L(vocabulary=["a", "b"], num_oov_indices=0)
    return [
        a(tf.constant([["a", "c"], ["d", "b"]])),
        a.get_vocabulary(),
        a.vocabulary_size(),
        inv(tf.constant([1, 3, 0])),
        m(tf.constant(["", "a", "q", "b"])),
        m.get_vocabulary(),
        raises(lambda: z(tf.constant(["q"])), "*"),
        rag(a(tf.ragged.constant([["a"], ["c", "x"]]))),
    ]


def case_keras_string_lookup_modes(tf, np):
    L = tf.keras.layers.StringLookup
    v = ["a", "b", "c"]
    x = tf.constant([["a", "c", "zz"], ["b", "b", "a"]])
    return [
        L(vocabulary=v, output_mode="multi_hot")(x),
        L(vocabulary=v, output_mode="count")(x),
        L(vocabulary=v, output_mode="one_hot")(tf.constant(["b", "q"])),
        L(vocabulary=v, output_mode="tf_idf", idf_weights=[0.5, 1.0, 2.0])(x),
        L(vocabulary=v, output_mode="multi_hot", pad_to_max_tokens=True, max_tokens=6)(x),
    ]


def case_keras_string_lookup_adapt(tf, np):
    a = tf.keras.layers.StringLookup()
    a.adapt(tf.constant(["b", "a", "b", "c", "c", "b"]))
    b = tf.keras.layers.StringLookup(max_tokens=3)
    b.adapt(tf.data.Dataset.from_tensor_slices(["x", "y", "y", "z", "z", "z"]).batch(2))
    return [
        a.get_vocabulary(),
        a(tf.constant(["a", "zz"])),
        b.get_vocabulary(),
        b(tf.constant(["z", "y", "x"])),
        raises(lambda: tf.keras.layers.StringLookup(vocabulary=["a", "a"]), "*"),
    ]


def case_keras_integer_lookup(tf, np):
    L = tf.keras.layers.IntegerLookup
    a = L(vocabulary=[12, 36, 1138])
    b = L()
    b.adapt(tf.constant([7, 5, 7, 9]))
    return [
        a(tf.constant([[12, 1138], [42, 36]])),
        [int(i) for i in a.get_vocabulary()],
        L(vocabulary=[12, 36], invert=True)(tf.constant([1, 2, 0])),
        [int(i) for i in b.get_vocabulary()],
        b(tf.constant([9, 7, 1])),
        L(vocabulary=[12, 36], output_mode="multi_hot")(tf.constant([[12, 12, 3]])),
        L(vocabulary=[5], mask_token=0)(tf.constant([0, 5, 9])),
    ]


def case_keras_text_vectorization(tf, np):
    V = tf.keras.layers.TextVectorization
    a = V()
    a.adapt(tf.constant(["The quick fox.", "the lazy dog!", "The fox"]))
    b = V(vocabulary=["foo", "bar"], output_sequence_length=4)
    c = V(vocabulary=["foo", "bar", "foo bar"], ngrams=2, output_mode="count")
    d = V(vocabulary=["a", "b"], standardize=None, split="character")
    e = V(vocabulary=["foo", "bar"], output_mode="multi_hot")
    return [
        a.get_vocabulary(),
        a(tf.constant(["the dog", "Quick cat, quick"])),
        b(tf.constant(["foo bar baz", "FOO! foo? foo foo foo"])),
        b.get_vocabulary(),
        c(tf.constant(["foo bar foo"])),
        d(tf.constant(["abc"])),
        e(tf.constant(["bar bar qux"])),
        a("the fox"),
        b(tf.constant([["foo bar"], ["bar"]])),
    ]


def case_keras_text_vectorization_options(tf, np):
    V = tf.keras.layers.TextVectorization
    a = V(max_tokens=4, standardize="lower", split="whitespace")
    a.adapt(["A a B", "b, c a"])
    b = V(vocabulary=["x", "y"], output_mode="int", ragged=True)
    c = V(
        vocabulary=["hello"],
        standardize=lambda s: tf.strings.regex_replace(tf.strings.lower(s), "[^a-z ]", ""),
        output_sequence_length=2,
    )
    d = V(vocabulary=["x", "y"], output_mode="tf_idf", idf_weights=[0.5, 2.0])
    return [
        a.get_vocabulary(),
        a.get_vocabulary(include_special_tokens=False),
        rag(b(tf.constant(["x y z", "y"]))),
        c(tf.constant(["He1llo you all"])),
        d(tf.constant(["x x q"])),
        a.vocabulary_size(),
        a.get_config()["output_mode"],
    ]


def case_keras_category_encoding(tf, np):
    C = tf.keras.layers.CategoryEncoding
    return [
        C(num_tokens=4, output_mode="one_hot")(tf.constant([3, 2, 0, 1])),
        C(num_tokens=4)(tf.constant([[0, 1], [0, 0], [1, 2]])),
        C(4, output_mode="count")(tf.constant([[0, 1], [0, 0]]), count_weights=tf.constant([[0.1, 0.2], [0.1, 0.1]])),
        C(4, output_mode="count")(tf.constant([[0, 1, 1]])),
    ]


def case_keras_hashing(tf, np):
    H = tf.keras.layers.Hashing
    x = tf.constant([["A"], ["B"], ["C"], ["D"], ["E"]])
    return [
        H(num_bins=3)(x),
        H(num_bins=3, mask_value="")(tf.constant([["A"], [""], ["B"]])),
        H(num_bins=3, salt=[133, 137])(x),
        H(num_bins=3, salt=133)(x),
        H(num_bins=10)(tf.constant([1, 2, 3])),
        H(num_bins=4, output_mode="one_hot")(tf.constant(["A", "B"])),
        H(num_bins=4, output_mode="count")(x),
    ]


def case_keras_discretization(tf, np):
    D = tf.keras.layers.Discretization
    x = tf.constant([[-1.5, 1.0, 3.4, 0.5], [0.0, 3.0, 1.3, 0.0]])
    a = D(num_bins=4, epsilon=0.01)
    a.adapt(np.arange(1.0, 101.0).reshape(-1, 1))
    return [
        D(bin_boundaries=[0.0, 1.0, 2.0])(x),
        D(bin_boundaries=[0.0, 1.0, 2.0], output_mode="one_hot")(x[:, 0]),
        D(bin_boundaries=[0.0, 1.0], output_mode="count")(x),
        a(tf.constant([[1.0], [30.0], [60.0], [99.0]])),
        len(a.bin_boundaries),
    ]


def case_keras_normalization(tf, np):
    N = tf.keras.layers.Normalization
    data = np.array([[1.0, 10.0], [2.0, 20.0], [6.0, 30.0]], np.float32)
    a = N()
    a.adapt(data)
    b = N(axis=None)
    b.adapt(data)
    c = N(mean=[1.0, 2.0], variance=[4.0, 9.0])
    d = N(mean=3.0, variance=2.0, axis=None, invert=True)
    x = tf.constant([[3.0, 20.0]])
    with tf.GradientTape() as t:
        t.watch(x)
        y = a(x)
    return [a(data), a.mean, a.variance, b(data), c(x), d(x), t.gradient(y, x)]
