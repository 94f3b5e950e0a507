"""tf.summary: event files written into a temporary folder and read back by the small reader below."""

import os
import shutil
import struct
import tempfile
import zlib

from conformance.runner import raises


# ---- a tiny reader: TFRecord framing, protobuf wire format, the Event/Summary fields needed ----
def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc ^= b
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    c = crc32c(data)
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    pos = 0
    while pos < len(data):
        n, c = struct.unpack("<QI", data[pos : pos + 12])
        assert c == masked(data[pos : pos + 8]), "checksum of a record's length"
        body = data[pos + 12 : pos + 12 + n]
        assert struct.unpack("<I", data[pos + 12 + n : pos + 16 + n])[0] == masked(body), "checksum of a record"
        yield body
        pos += 16 + n


def varint(data, pos):
    value = shift = 0
    while True:
        b = data[pos]
        pos += 1
        value |= (b & 127) << shift
        shift += 7
        if not b & 128:
            return value, pos


def fields(data):
    """{field number: [raw values]} of one protobuf message."""
    out, pos = {}, 0
    while pos < len(data):
        key, pos = varint(data, pos)
        wire = key & 7
        if wire == 0:
            v, pos = varint(data, pos)
        elif wire == 1:
            v, pos = data[pos : pos + 8], pos + 8
        elif wire == 5:
            v, pos = data[pos : pos + 4], pos + 4
        else:
            n, pos = varint(data, pos)
            v, pos = data[pos : pos + n], pos + n
        out.setdefault(key >> 3, []).append(v)
    return out


def signed(v):
    return v - (1 << 64) if v >= 1 << 63 else v


def tensor(np, data):
    """A TensorProto as a numpy array, or as a list of bytes."""
    f = fields(data)
    dtype = f.get(1, [0])[0]
    shape = [signed(fields(d).get(1, [0])[0]) for d in fields(f[2][0]).get(2, [])] if 2 in f else []
    if dtype == 7:
        return {"shape": shape, "strings": f.get(8, [])}
    name = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 10: "?"}[dtype]
    if 4 in f:
        a = np.frombuffer(f[4][0], name)
    else:
        slot, size = {1: (5, 4), 2: (6, 8), 3: (7, 0), 9: (10, 0), 10: (11, 0)}[dtype]
        vals = []
        for raw in f.get(slot, []):
            if isinstance(raw, int):
                vals.append(signed(raw))
            elif size:
                vals += np.frombuffer(raw, name).tolist()
            else:
                pos = 0
                while pos < len(raw):
                    v, pos = varint(raw, pos)
                    vals.append(signed(v))
        n = int(np.prod(shape)) if shape else 1
        a = np.array((vals + [vals[-1] if vals else 0] * n)[:n], name)
    return a.reshape(shape)


def events(np, folder, plugin_only=True):
    """[(step, tag, plugin, value)] of every summary value in the event files of a folder."""
    out = []
    for name in sorted(os.listdir(folder)):
        if "tfevents" not in name:
            continue
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        for rec in records(data):
            e = fields(rec)
            step = signed(e.get(2, [0])[0])
            if 3 in e:
                out.append((step, "file_version", e[3][0].decode(), None))
            for s in e.get(5, []):
                for raw in fields(s).get(1, []):
                    v = fields(raw)
                    meta = fields(v[9][0]) if 9 in v else {}
                    plugin = fields(meta[1][0]).get(1, [b""])[0].decode() if 1 in meta else ""
                    out.append((step, v[1][0].decode(), plugin, tensor(np, v[8][0]) if 8 in v else None))
    return out


def metadata(np, folder):
    """[(tag, display name, description, data class)] of every summary value."""
    out = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        for rec in records(data):
            for s in fields(rec).get(5, []):
                for raw in fields(s).get(1, []):
                    v = fields(raw)
                    m = fields(v[9][0]) if 9 in v else {}
                    out.append(
                        (v[1][0].decode(), m.get(2, [b""])[0].decode(), m.get(3, [b""])[0].decode(), m.get(4, [0])[0])
                    )
    return out


def png(np, data):
    """Pixels of an 8-bit PNG that is not interlaced."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    pos, idat = 8, b""
    while pos < len(data):
        n, kind = struct.unpack(">I4s", data[pos : pos + 8])
        body = data[pos + 8 : pos + 8 + n]
        if kind == b"IHDR":
            w, h, depth, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            idat += body
        pos += 12 + n
    ch = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    raw, stride = zlib.decompress(idat), w * ch
    prev, rows, pos = [0] * stride, [], 0
    for _ in range(h):
        kind, line = raw[pos], list(raw[pos + 1 : pos + 1 + stride])
        pos += 1 + stride
        for i in range(stride):
            a, b, c = (line[i - ch] if i >= ch else 0), prev[i], (prev[i - ch] if i >= ch else 0)
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        rows.append(line)
        prev = line
    return np.array(rows, np.uint8).reshape(h, w, ch)


class Folder:
    """A temporary folder, removed on exit."""

    def __enter__(self):
        self.path = tempfile.mkdtemp()
        return self.path

    def __exit__(self, *exc):
        shutil.rmtree(self.path, ignore_errors=True)


def case_scalars(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            for i in range(3):
                tf.summary.scalar("loss", 1.0 / (i + 1), step=i)
            tf.summary.scalar("int", 7, step=10)
            tf.summary.scalar("f64", tf.constant(0.25, tf.float64), step=tf.constant(11, tf.int64))
        w.close()
        names = os.listdir(d)
        return [events(np, d), len(names), names[0].startswith("events.out.tfevents."), names[0].endswith(".v2")]


def case_writer_methods(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(os.path.join(d, "a", "b"), filename_suffix=".mine")
        with w.as_default():
            ok = tf.summary.scalar("x", 1.0, step=0)
        w.flush()
        first = events(np, os.path.join(d, "a", "b"))
        with w.as_default():
            tf.summary.scalar("x", 2.0, step=1)
        w.close()
        name = os.listdir(os.path.join(d, "a", "b"))[0]
        return [
            ok,
            first,
            events(np, os.path.join(d, "a", "b")),
            name.endswith(".mine"),
            isinstance(w, tf.summary.SummaryWriter),
            raises(lambda: w.as_default().__enter__(), "*"),
        ]


def case_without_writer(tf, np):
    out = [tf.summary.scalar("x", 1.0, step=0), tf.summary.scalar("x", 1.0), tf.summary.should_record_summaries()]
    with tf.summary.create_noop_writer().as_default():
        out += [tf.summary.scalar("x", 1.0, step=0), tf.summary.should_record_summaries()]
    return [bool(x) for x in out]


def case_default_step(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        before = tf.summary.experimental.get_step()
        with w.as_default():
            missing = raises(lambda: tf.summary.scalar("x", 1.0))
            tf.summary.experimental.set_step(5)
            tf.summary.scalar("a", 1.0)
            tf.summary.scalar("b", 2.0, step=9)
            now = tf.summary.experimental.get_step()
            v = tf.Variable(20, dtype=tf.int64)
            tf.summary.experimental.set_step(v)
            tf.summary.scalar("c", 3.0)
            v.assign_add(1)
            tf.summary.scalar("c", 4.0)
        tf.summary.experimental.set_step(None)
        w.close()
        return [before, missing, now, events(np, d), tf.summary.experimental.get_step()]


def case_as_default_step(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default(step=3):
            inner = tf.summary.experimental.get_step()
            tf.summary.scalar("a", 1.0)
            with w.as_default(step=4):
                tf.summary.scalar("a", 2.0)
            tf.summary.scalar("a", 3.0)
        w.close()
        return [inner, tf.summary.experimental.get_step(), events(np, d)]


def case_record_if(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        flags = []
        with w.as_default():
            for i in range(6):
                with tf.summary.record_if(lambda: tf.equal(i % 2, 0)):
                    flags.append(bool(tf.summary.scalar("even", float(i), step=i)))
            with tf.summary.record_if(False):
                off = tf.summary.should_record_summaries()
                tf.summary.scalar("never", 1.0, step=0)
                with tf.summary.record_if(True):
                    tf.summary.scalar("inner", 1.0, step=0)
        w.close()
        return [flags, bool(off), events(np, d)]


def case_histogram(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            tf.summary.histogram("h", [0.0, 1.0, 1.0, 2.0, 4.0], step=1, buckets=4)
            tf.summary.histogram("const", [3.0, 3.0, 3.0], step=2, buckets=3)
            tf.summary.histogram("ints", tf.constant([1, 2, 3, 4]), step=3, buckets=2)
            tf.summary.histogram("empty", tf.constant([], tf.float32), step=4, buckets=2)
            tf.summary.histogram("default", np.arange(100.0), step=5)
        w.close()
        got = events(np, d)
        return [got[:5], got[5][3].shape, got[5][3][:3], got[5][3].dtype.name]


def case_image(tf, np):
    x = np.arange(2 * 2 * 3 * 3).reshape(2, 2, 3, 3).astype(np.uint8) * 6
    f = np.linspace(-0.25, 1.25, 6).reshape(1, 2, 3, 1).astype(np.float32)
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            tf.summary.image("u8", x, step=1)
            tf.summary.image("float", f, step=2)
            tf.summary.image("one", x, step=3, max_outputs=1)
        w.close()
        out = []
        for step, tag, plugin, t in events(np, d)[1:]:
            s = t["strings"]
            out.append([step, tag, plugin, t["shape"], s[:2], [png(np, p) for p in s[2:]]])
        return out


def case_text(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            tf.summary.text("note", "hello *world*", step=1)
            tf.summary.text("many", tf.constant([["a", "b"], ["c", "é"]]), step=2)
        w.close()
        return events(np, d)


def case_metadata(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            tf.summary.scalar("s", 1.0, step=0, description="a scalar")
            tf.summary.histogram("h", [1.0], step=0, buckets=1)
            tf.summary.text("t", "x", step=0, description="some text")
            tf.summary.image("i", np.zeros((1, 1, 1, 1), np.uint8), step=0)
        w.close()
        return metadata(np, d)


def case_name_scopes(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            with tf.name_scope("outer"):
                tf.summary.scalar("x", 1.0, step=0)
                with tf.name_scope("inner"):
                    tf.summary.scalar("y", 2.0, step=0)
            tf.summary.scalar("a/b", 3.0, step=0)
            tf.summary.scalar("with space!", 4.0, step=0)
        w.close()
        return [e[1] for e in events(np, d)]


def case_in_function(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)

        @tf.function
        def step(x, i):
            with w.as_default():
                y = x * x
                tf.summary.scalar("y", y, step=i)
            return y

        @tf.function
        def outside(x, i):
            tf.summary.scalar("z", x, step=i)
            if x > 1.0:
                tf.summary.scalar("big", x, step=i)
            return x + 1.0

        for i in range(3):
            step(tf.constant(float(i)), tf.constant(i, tf.int64))
        with w.as_default():
            outside(tf.constant(0.5), tf.constant(7, tf.int64))
            outside(tf.constant(1.5), tf.constant(8, tf.int64))
        w.close()
        return events(np, d)


def case_write_tensor(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            tf.summary.write("raw", tf.constant([[1, 2], [3, 4]]), step=1)
            tf.summary.write("flag", tf.constant([True, False]), step=2)
            tf.summary.write("f64", tf.constant([0.1, 0.2], tf.float64), step=3)
        w.close()
        return events(np, d)


def case_two_writers_and_gradients(tf, np):
    with Folder() as a, Folder() as b:
        wa, wb = tf.summary.create_file_writer(a), tf.summary.create_file_writer(b)
        v = tf.Variable(3.0)
        with tf.GradientTape() as t:
            y = v * v
            with wa.as_default():
                tf.summary.scalar("y", y, step=0)
                with wb.as_default():
                    tf.summary.scalar("v", v, step=0)
                tf.summary.scalar("after", 1.0, step=0)
        g = t.gradient(y, v)
        with wb.as_default():
            tf.summary.scalar("g", g, step=1)
        wa.close()
        wb.close()
        return [g, events(np, a), events(np, b)]


def case_errors(tf, np):
    with Folder() as d:
        w = tf.summary.create_file_writer(d)
        with w.as_default():
            out = [
                raises(lambda: tf.summary.scalar("x", [1.0, 2.0], step=0), "*"),
                raises(lambda: tf.summary.scalar("x", "text", step=0), "*"),
                raises(lambda: tf.summary.image("i", np.zeros((2, 2, 3)), step=0), "*"),
                raises(lambda: tf.summary.text("t", 1.5, step=0), "*"),
                raises(lambda: tf.summary.histogram("h", [1.0]), "*"),
            ]
        w.close()
        return out
