"""tf.strings and string tensors: values, dtypes, errors, in functions and in tf.data."""

from conformance.runner import raises


def rag(x):
    """A ragged result as plain pieces; anything else unchanged."""
    if hasattr(x, "to_list") and hasattr(x, "row_splits"):
        return ["ragged", x.to_list(), x.dtype, x.ragged_rank, x.shape]
    return x


def case_join(tf, np):
    a, b = tf.constant(["a", "b"]), tf.constant(["x", "y"])
    return [
        tf.strings.join([a, b]),
        tf.strings.join([a, b, "!"], separator="-"),
        tf.strings.join(["p", "q"], "/"),
        tf.strings.join([a]),
        tf.strings.join(["pre_", a]),
        tf.strings.join([[["1"], ["2"]], ""]),
        tf.strings.join(["é", "日"], "·"),
    ]


def case_join_errors(tf, np):
    return [
        raises(lambda: tf.strings.join([tf.constant(["a", "b"]), tf.constant(["c"])]), "ValueError"),
        raises(lambda: tf.strings.join([tf.constant(1), "a"]), "TypeError", "ValueError"),
    ]


def case_split_whitespace(tf, np):
    return [
        tf.strings.split("hello world  again "),
        tf.strings.split(""),
        tf.strings.split("   "),
        tf.strings.split("\ta\nb c"),
        rag(tf.strings.split(["a b", "", " c  d e "])),
        rag(tf.strings.split([["a b", "c"], ["", "d e f"]])),
    ]


def case_split_separator(tf, np):
    return [
        tf.strings.split("a,b,,c,", sep=","),
        tf.strings.split(",", ","),
        tf.strings.split("", ","),
        tf.strings.split("a--b---c", "--"),
        rag(tf.strings.split(["1,2,3", "", ",4"], sep=",")),
        tf.strings.split("a b  c", sep=" "),
        tf.strings.split("äöü", sep="ö"),
    ]


def case_split_maxsplit(tf, np):
    return [
        tf.strings.split("a,b,c,d", ",", maxsplit=2),
        tf.strings.split("a,b,c", ",", maxsplit=0),
        tf.strings.split("a b  c d", maxsplit=1),
        rag(tf.strings.split(["k=v=w", "x", "a=b"], "=", 1)),
        tf.strings.split(tf.constant(["q w", "e"])).row_splits.dtype,
    ]


def case_split_to_tensor_and_lengths(tf, np):
    r = tf.strings.split(["the quick fox", "jumps", ""])
    return [
        r.to_tensor(),
        r.to_tensor(default_value="<pad>"),
        r.to_tensor("-", shape=[None, 2]),
        r.row_lengths(),
        r.values,
        r.row_splits,
    ]


def case_regex_replace(tf, np):
    x = tf.constant(["Hello  World", "a1b22", ""])
    return [
        tf.strings.regex_replace(x, r"\s+", " "),
        tf.strings.regex_replace(x, "[0-9]", "#"),
        tf.strings.regex_replace(x, "[0-9]", "#", replace_global=False),
        tf.strings.regex_replace(x, r"([a-z])(\d)", r"\2\1"),
        tf.strings.regex_replace("abc", "", "-"),
        tf.strings.regex_replace(x, "(?i)hello", "Bye"),
        tf.strings.regex_replace("x.y", r"\.", r"\\"),
        tf.strings.regex_replace("aXbX", tf.constant("X"), tf.constant(r"[\0]")),
    ]


def case_regex_replace_errors(tf, np):
    return [
        raises(lambda: tf.strings.regex_replace("a", "(", "b"), "ValueError"),
        raises(lambda: tf.strings.regex_replace("a", r"(?=a)", "b"), "ValueError"),
        raises(lambda: tf.strings.regex_replace("a", r"(a)\1", "b"), "ValueError"),
    ]


def case_regex_full_match(tf, np):
    x = tf.constant([["cat", "cats"], ["concat", "Cat"]])
    return [
        tf.strings.regex_full_match(x, "cat"),
        tf.strings.regex_full_match(x, ".*cat.*"),
        tf.strings.regex_full_match(x, "[Cc]ats?"),
        tf.strings.regex_full_match("a\nb", "a.b"),
        tf.strings.regex_full_match("", ""),
        tf.strings.regex_full_match("ab|", r"\w+\|"),
    ]


def case_length_units(tf, np):
    x = tf.constant(["abc", "é", "日本語", "", "🙂a"])
    return [
        tf.strings.length(x),
        tf.strings.length(x, unit="UTF8_CHAR"),
        tf.strings.length(x, "BYTE"),
        tf.strings.length("scalar"),
        tf.strings.length([[b"\x00\x01", b"a\x00"]]),
        raises(lambda: tf.strings.length(x, unit="CHAR"), "ValueError"),
    ]


def case_substr(tf, np):
    x = tf.constant(["hello", "worlds"])
    return [
        tf.strings.substr(x, 1, 3),
        tf.strings.substr(x, -3, 2),
        tf.strings.substr(x, [0, 2], [1, 10]),
        tf.strings.substr("abc", 3, 1),
        tf.strings.substr("日本語x", 1, 2, unit="UTF8_CHAR"),
        tf.strings.substr("日本", 0, 3),
        tf.strings.substr(x, 0, 0),
        tf.strings.substr([["abcdef"], ["uvwxyz"]], [1], [2]),
    ]


def case_substr_errors(tf, np):
    return [
        raises(lambda: tf.strings.substr("abc", 4, 1)),
        raises(lambda: tf.strings.substr("abc", -4, 1)),
        raises(lambda: tf.strings.substr("日", 2, 1, unit="UTF8_CHAR")),
        raises(lambda: tf.strings.substr("abc", [0, 1], [1]), "ValueError"),
        raises(lambda: tf.strings.substr(tf.constant(1), 0, 1), "TypeError", "ValueError"),
    ]


def case_lower_upper(tf, np):
    x = tf.constant(["HeLLo", "ÀÉ ß", "Straße"])
    return [
        tf.strings.lower(x),
        tf.strings.upper(x),
        tf.strings.lower(x, encoding="utf-8"),
        tf.strings.upper(x, encoding="utf-8"),
        raises(lambda: tf.strings.lower(x, encoding="latin-1"), "ValueError"),
    ]


def case_strip(tf, np):
    return [
        tf.strings.strip(["  a b ", "\tc\n", "d", "   ", ""]),
        tf.strings.strip("\u00a0x "),
        tf.strings.strip([[" p"], ["q "]]),
    ]


def case_to_number(tf, np):
    return [
        tf.strings.to_number("3.25"),
        tf.strings.to_number(["1", "-2", " 7 "], tf.int32),
        tf.strings.to_number("1e3", tf.float64),
        tf.strings.to_number(["inf", "-Inf", "nan", "+2.5", ".5", "1e-3"]),
        tf.strings.to_number("9223372036854775807", tf.int64),
        tf.strings.to_number(["0x10", "1.5e+2"], out_type=tf.float32),
    ]


def case_to_number_errors(tf, np):
    return [
        raises(lambda: tf.strings.to_number("abc")),
        raises(lambda: tf.strings.to_number("1.5", tf.int32)),
        raises(lambda: tf.strings.to_number("")),
        raises(lambda: tf.strings.to_number("3000000000", tf.int32)),
        raises(lambda: tf.strings.to_number("1", tf.bool), "TypeError"),
        raises(lambda: tf.strings.to_number("1 2")),
    ]


def case_as_string(tf, np):
    return [
        tf.strings.as_string(tf.constant([1, -20, 300])),
        tf.strings.as_string([1.5, -0.25, 1e10, float("nan"), float("inf")]),
        tf.strings.as_string(tf.constant(2.5, tf.float64)),
        tf.strings.as_string([True, False]),
        tf.strings.as_string(tf.constant(1 + 2j)),
        tf.as_string(7),
        tf.strings.as_string(tf.constant([3], tf.int8)),
        tf.strings.as_string(["already", "text"]),
    ]


def case_as_string_formats(tf, np):
    x = tf.constant([3.14159, -2.0])
    return [
        tf.strings.as_string(x, precision=2),
        tf.strings.as_string(x, scientific=True),
        tf.strings.as_string(x, shortest=True),
        tf.strings.as_string(x, precision=1, width=8),
        tf.strings.as_string(x, precision=1, width=8, fill="0"),
        tf.strings.as_string([5, 42], width=4),
        tf.strings.as_string([5, -42], width=5, fill="0"),
        tf.strings.as_string([5, 42], width=4, fill="-"),
        tf.strings.as_string(x, precision=3, shortest=True),
        tf.strings.as_string(x, precision=2, scientific=True),
    ]


def case_as_string_errors(tf, np):
    return [
        raises(lambda: tf.strings.as_string([1, 2], precision=2), "ValueError"),
        raises(lambda: tf.strings.as_string([1.0], scientific=True, shortest=True), "ValueError"),
        raises(lambda: tf.strings.as_string([1], fill="ab"), "ValueError"),
        raises(lambda: tf.strings.as_string([1.0], scientific=True, precision=2, fill="x"), "ValueError"),
    ]


def case_format(tf, np):
    t = tf.constant(np.arange(10))
    return [
        tf.strings.format("x={}", tf.constant([1, 2])),
        tf.strings.format("{} and {}", (tf.constant(1.5), tf.constant("s"))),
        tf.strings.format("big {}", t),
        tf.strings.format("two {}", t, summarize=2),
        tf.strings.format("all {}", t, summarize=-1),
        tf.strings.format("%t|", (tf.constant([[1, 2], [3, 4]]),), placeholder="%t"),
        tf.strings.format("none", ()),
        tf.strings.format("{}", tf.constant(["a", "b"])),
        tf.strings.format("{}", tf.constant([True, False])),
        raises(lambda: tf.strings.format("{} {}", tf.constant(1))),
    ]


def case_to_hash_bucket_fast(tf, np):
    texts = [
        "",
        "a",
        "ab",
        "hello",
        "eight888",
        "sixteen characte",
        "seventeen charact",
        "x" * 32,
        "y" * 33,
        "0123456789" * 6 + "abcd",
        "z" * 65,
        "The quick brown fox jumps over the lazy dog. " * 5,
        "日本語",
        "42",
    ]
    return [
        tf.strings.to_hash_bucket_fast(texts, 10),
        tf.strings.to_hash_bucket_fast(texts, 2**40),
        tf.strings.to_hash_bucket_fast("scalar", 7),
        raises(lambda: tf.strings.to_hash_bucket_fast(["a"], 0), "ValueError"),
    ]


def case_to_hash_bucket_strong_and_plain(tf, np):
    texts = ["", "a", "hello", "a longer text with more than sixteen bytes", "12345678"]
    return [
        tf.strings.to_hash_bucket_strong(texts, 1000, key=[1, 2]),
        tf.strings.to_hash_bucket_strong(texts, 2**40, [123456789, 987654321]),
        tf.strings.to_hash_bucket(texts, 1000),
        tf.strings.to_hash_bucket(texts, 2**40),
        raises(lambda: tf.strings.to_hash_bucket_strong(texts, 3, key=[1]), "ValueError"),
    ]


def case_unicode_decode(tf, np):
    r = tf.strings.unicode_decode(["ab", "é日", ""], "UTF-8")
    return [
        rag(r),
        tf.strings.unicode_decode("a🙂", "UTF-8"),
        tf.strings.unicode_decode([b"a\xff"], "UTF-8").to_list(),
        tf.strings.unicode_decode([b"a\xffb"], "UTF-8", errors="ignore").to_list(),
        tf.strings.unicode_decode([b"a\xffb"], "UTF-8", replacement_char=63).to_list(),
        raises(lambda: tf.strings.unicode_decode([b"\xff"], "UTF-8", errors="strict")),
    ]


def case_unicode_encode(tf, np):
    return [
        tf.strings.unicode_encode([104, 233, 26085], "UTF-8"),
        tf.strings.unicode_encode(tf.ragged.constant([[97, 98], [], [128512]]), "UTF-8"),
        tf.strings.unicode_encode([[65, 66], [67, 68]], "UTF-8"),
        tf.strings.unicode_encode([65, 0x110000], "UTF-8"),
        raises(lambda: tf.strings.unicode_encode([65, 0x110000], "UTF-8", errors="strict")),
        tf.strings.length(tf.strings.unicode_encode([65, 66], "UTF-16-BE")),
        tf.strings.length(tf.strings.unicode_encode([65, 66], "UTF-32-BE")),
    ]


def case_unicode_split(tf, np):
    s, off = tf.strings.unicode_split_with_offsets(["ab", "é日x"], "UTF-8")
    return [
        tf.strings.unicode_split("héllo", "UTF-8"),
        rag(tf.strings.unicode_split(["hi", "", "日本"], "UTF-8")),
        rag(s),
        rag(off),
    ]


def case_unicode_transcode_and_script(tf, np):
    x = tf.constant(["Hé", "a"])
    u16 = tf.strings.unicode_transcode(x, "UTF-8", "UTF-16-BE")
    return [
        tf.strings.length(u16),
        tf.strings.unicode_transcode(u16, "UTF-16-BE", "UTF-8"),
        tf.strings.unicode_transcode([b"A\xffB"], "UTF-8", "UTF-8"),
        tf.strings.unicode_transcode([b"A\xffB"], "UTF-8", "UTF-8", errors="ignore"),
        tf.strings.unicode_transcode([b"A\xffB"], "UTF-8", "UTF-8", replacement_char=ord("?")),
        tf.strings.unicode_script([ord("a"), ord("я"), ord("日"), ord("1")]),
    ]


def case_unicode_decode_with_offsets(tf, np):
    c, o = tf.strings.unicode_decode_with_offsets(["aé", "日b"], "UTF-8")
    c1, o1 = tf.strings.unicode_decode_with_offsets("xé🙂y", "UTF-8")
    return [rag(c), rag(o), c1, o1]


def case_ngrams(tf, np):
    x = tf.ragged.constant([["a", "b", "c", "d"], ["e", "f"], []], dtype=tf.string)
    return [
        rag(tf.strings.ngrams(x, 2)),
        rag(tf.strings.ngrams(x, (1, 2), separator="|")),
        rag(tf.strings.ngrams(x, 3, pad_values=("<", ">"))),
        rag(tf.strings.ngrams(x, 3, pad_values="_", padding_width=1)),
        rag(tf.strings.ngrams(x, 3, preserve_short_sequences=True)),
        tf.strings.ngrams([["p", "q", "r"]], 2),
        rag(tf.strings.ngrams(["p", "q", "r"], 2)),
        raises(lambda: tf.strings.ngrams(x, 0), "ValueError"),
    ]


def case_reduce_join(tf, np):
    x = tf.constant([["a", "b"], ["c", "d"]])
    return [
        tf.strings.reduce_join(x),
        tf.strings.reduce_join(x, axis=0),
        tf.strings.reduce_join(x, 1, separator="-"),
        tf.strings.reduce_join(x, [0, 1]),
        tf.strings.reduce_join(x, [1, 0]),
        tf.strings.reduce_join(x, axis=-1, keepdims=True),
        tf.strings.reduce_join(x, axis=[], separator="."),
        tf.strings.reduce_join(tf.strings.split(["a b c", "d"]), axis=-1, separator="+"),
        raises(lambda: tf.strings.reduce_join(x, axis=2), "ValueError"),
    ]


def case_bytes_split(tf, np):
    return [
        tf.strings.bytes_split("abc"),
        rag(tf.strings.bytes_split(["hi", "", "xyz"])),
        rag(tf.strings.bytes_split([["ab", "c"], ["", "de"]])),
        tf.strings.bytes_split(""),
    ]


def case_unsorted_segment_join(tf, np):
    return [
        tf.strings.unsorted_segment_join(["a", "b", "c", "d"], [1, 0, 1, 0], 2),
        tf.strings.unsorted_segment_join(["a", "b", "c"], [2, 2, 0], 3, separator=":"),
        tf.strings.unsorted_segment_join([["p", "q"], ["r", "s"]], [0, 0], 1, separator="-"),
        raises(lambda: tf.strings.unsorted_segment_join(["a"], [3], 2)),
    ]


def case_string_tensor_operators(tf, np):
    a, b = tf.constant(["a", "b", "c"]), tf.constant(["x", "b", "z"])
    return [
        a + b,
        a + "!",
        "pre-" + a,
        a == b,
        a != b,
        a == "c",
        tf.equal(a, b),
        tf.add(a, b),
        raises(lambda: a - b, "TypeError", "ValueError"),
        raises(lambda: a * 2, "ValueError"),
        raises(lambda: a < b, "TypeError", "ValueError"),
        raises(lambda: a + 1, "TypeError", "ValueError"),
        raises(lambda: tf.add_n([a, b]), "TypeError", "ValueError"),
    ]


def case_string_tensor_shapes(tf, np):
    a = tf.constant([["a", "bb"], ["ccc", ""]])
    return [
        a[0],
        a[:, 1],
        a[::-1, 0],
        tf.concat([a, [["x", "y"]]], 0),
        tf.stack(["p", "q"]),
        tf.gather(a, [1, 0, 1]),
        tf.reshape(a, [-1]),
        tf.transpose(a),
        tf.tile(["z"], [3]),
        tf.reverse(["1", "2"], [0]),
        tf.where([True, False], ["t", "t"], ["f", "f"]),
        tf.boolean_mask(a, [[True, False], [True, True]]),
        tf.zeros_like(a),
        tf.zeros([2], tf.string),
        tf.fill([2], "w"),
        tf.expand_dims("e", 0),
        tf.pad(["a"], [[1, 1]], constant_values="_"),
        tf.squeeze([["one"]]),
        tf.split(["a", "b", "c", "d"], 2),
        tf.unstack(["u", "v"]),
    ]


def case_string_tensor_python(tf, np):
    s = tf.constant("text")
    a = tf.constant(["é", "b"])
    return [
        s.numpy(),
        s.numpy().decode(),
        s.dtype,
        a.shape,
        a.numpy().dtype.name,
        a.numpy().tolist(),
        [x.numpy() for x in a],
        tf.constant(b"\xff\x00z").numpy(),
        repr(s),
        tf.size(a),
        tf.rank(s),
        s.dtype.size,
        s.dtype.is_floating,
        tf.constant(np.array(["np", "u"])),
        tf.constant(np.array([b"np", b"s"], object)),
        raises(lambda: tf.cast(s, tf.float32), "TypeError", "ValueError"),
        raises(lambda: tf.cast(tf.constant(1), tf.string), "TypeError", "ValueError"),
        raises(lambda: float(s), "TypeError"),
    ]


def case_unique_and_sets_of_strings(tf, np):
    y, i, n = tf.unique_with_counts(["b", "a", "b", "c", "a", "b"])
    u = tf.unique(["x", "x", "y"], out_idx=tf.int64)
    return [
        y,
        i,
        n,
        u.y,
        u.idx,
        raises(lambda: tf.sort(["b", "a"]), "TypeError", "ValueError"),
        raises(lambda: tf.argsort(["b", "a"]), "TypeError", "ValueError"),
    ]


def case_strings_in_dataset(tf, np):
    ds = tf.data.Dataset.from_tensor_slices(["a b", "c", "d e f"])
    words = ds.flat_map(lambda s: tf.data.Dataset.from_tensor_slices(tf.strings.split(s)))
    pairs = (
        tf.data.Dataset.from_tensor_slices(["x=1", "y=20"])
        .map(lambda s: tf.strings.split(s, "="))
        .map(lambda p: (p[0], tf.strings.to_number(p[1], tf.int32)))
    )
    return [
        ds.element_spec.dtype,
        ds.element_spec.shape,
        [w.numpy() for w in words],
        [(k, v) for k, v in pairs],
        list(ds.map(tf.strings.upper).batch(2)),
        list(ds.map(tf.strings.length).as_numpy_iterator()),
        list(ds.filter(lambda s: tf.strings.regex_full_match(s, ".* .*")).as_numpy_iterator()),
    ]


def case_padded_batch_of_strings(tf, np):
    ds = tf.data.Dataset.from_tensor_slices(["a b", "c", "d e f"]).map(tf.strings.split)
    return [
        list(ds.padded_batch(3)),
        list(ds.padded_batch(2, padding_values="<p>")),
        list(ds.padded_batch(3, padded_shapes=[4], padding_values=tf.constant("-"))),
    ]


def case_string_variables_and_tapes(tf, np):
    v = tf.Variable(["a", "b"])
    v.assign(["c", "d"])
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as t:
        t.watch(x)
        n = tf.strings.as_string(x)
        y = tf.reduce_sum(x * tf.strings.to_number(n))
    return [v, v.value(), v[0], v + "!", y, t.gradient(y, x), t.watched_variables() == ()]


def case_base64_and_serialization(tf, np):
    e = tf.io.encode_base64(["hello", "a?b>c", ""])
    s = tf.io.serialize_tensor(tf.constant([[1.5, 2.0]]))
    return [
        e,
        tf.io.decode_base64(e),
        tf.io.encode_base64("hello", pad=True),
        raises(lambda: tf.io.decode_base64("!!")),
        s.dtype,
        s.shape,
        tf.io.parse_tensor(s, tf.float32),
        tf.io.parse_tensor(tf.io.serialize_tensor(["a", "bc"]), tf.string),
        raises(lambda: tf.io.parse_tensor(s, tf.int32)),
    ]


def case_decode_raw_and_csv(tf, np):
    cols = tf.io.decode_csv(["1,2.5,x", '3,,"y,z"'], [tf.constant([], tf.int32), [0.5], ["d"]])
    return [
        tf.io.decode_raw([b"\x01\x00\x02\x00"], tf.int16),
        tf.io.decode_raw("ab", tf.uint8),
        tf.io.decode_raw([b"\x00\x01"], tf.uint16, little_endian=False),
        cols,
        tf.io.decode_csv("a|b", [[""], [""]], field_delim="|"),
        raises(lambda: tf.io.decode_csv("1,2", [[0]])),
        raises(lambda: tf.io.decode_csv(",2", [tf.constant([], tf.int32), [0]])),
        raises(lambda: tf.io.decode_raw([b"abc"], tf.int16)),
    ]
