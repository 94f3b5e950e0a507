"""tf.io.gfile and whole-file functions in a temporary folder."""

import os
import pathlib
import shutil
import tempfile

from conformance.runner import raises


class Folder:
    """A temporary folder, removed on exit."""

    def __enter__(self):
        self.path = tempfile.mkdtemp()
        return self.path

    def __exit__(self, *exc):
        shutil.rmtree(self.path, ignore_errors=True)


def put(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def case_write_and_read(tf, np):
    with Folder() as d:
        p = os.path.join(d, "a.txt")
        with tf.io.gfile.GFile(p, "w") as f:
            f.write("line one\nline two\n")
            f.write("é\n")
        with tf.io.gfile.GFile(p) as f:
            first, rest = f.readline(), f.read()
        with tf.io.gfile.GFile(p, "rb") as f:
            raw, size, pos = f.read(4), f.size(), f.tell()
            f.seek(0)
            again = f.read(2)
        with tf.io.gfile.GFile(p, "a") as f:
            f.write("end")
        with tf.io.gfile.GFile(p, "r") as f:
            lines = f.readlines()
            name, mode = os.path.basename(f.name), f.mode
        return [first, rest, raw, size, pos, again, lines, name, mode, list(tf.io.gfile.GFile(p))]


def case_binary_write(tf, np):
    with Folder() as d:
        p = os.path.join(d, "b.bin")
        with tf.io.gfile.GFile(p, "wb") as f:
            f.write(b"\x00\x01\xff")
            f.flush()
        with tf.io.gfile.GFile(p, "rb") as f:
            data = f.read()
        return [
            data,
            tf.io.read_file(p),
            tf.io.gfile.stat(p).length,
            raises(lambda: tf.io.gfile.GFile(p, "r").read(), "*"),
        ]


def case_read_errors(tf, np):
    with Folder() as d:
        p = os.path.join(d, "x")
        put(p, "t")

        def write_on_read():
            with tf.io.gfile.GFile(p, "r") as f:
                f.write("no")

        def read_on_write():
            with tf.io.gfile.GFile(os.path.join(d, "y"), "w") as f:
                f.read()

        return [
            raises(lambda: tf.io.gfile.GFile(os.path.join(d, "missing")).read()),
            raises(write_on_read),
            raises(read_on_write),
            raises(lambda: tf.io.gfile.stat(os.path.join(d, "missing"))),
            raises(lambda: tf.io.read_file(os.path.join(d, "missing"))),
        ]


def case_folders(tf, np):
    g = tf.io.gfile
    with Folder() as d:
        a = os.path.join(d, "a")
        g.mkdir(a)
        g.makedirs(os.path.join(a, "b", "c"))
        g.makedirs(os.path.join(a, "b"))
        put(os.path.join(a, "f.txt"), "x")
        put(os.path.join(a, "b", "g.txt"), "y")
        out = [
            g.exists(a),
            g.isdir(a),
            g.isdir(os.path.join(a, "f.txt")),
            g.exists(os.path.join(d, "no")),
            sorted(x.rstrip("/") for x in g.listdir(a)),
            raises(lambda: g.mkdir(a)),
            raises(lambda: g.mkdir(os.path.join(d, "p", "q"))),
            raises(lambda: g.listdir(os.path.join(d, "no"))),
            g.stat(a).is_directory,
            g.stat(os.path.join(a, "f.txt")).is_directory,
        ]
        g.rmtree(os.path.join(a, "b"))
        return out + [
            g.exists(os.path.join(a, "b")),
            raises(lambda: g.rmtree(os.path.join(d, "no"))),
            raises(lambda: g.remove(os.path.join(d, "no"))),
        ]


def case_copy_rename_remove(tf, np):
    g = tf.io.gfile
    with Folder() as d:
        a, b, c = (os.path.join(d, n) for n in "abc")
        put(a, "one")
        put(c, "three")
        g.copy(a, b)
        out = [pathlib.Path(b).read_text(), raises(lambda: g.copy(a, c))]
        g.copy(a, c, overwrite=True)
        out.append(pathlib.Path(c).read_text())
        put(b, "two")
        out.append(raises(lambda: g.rename(a, b)))
        g.rename(a, b, overwrite=True)
        out += [pathlib.Path(b).read_text(), g.exists(a)]
        g.remove(b)
        return out + [g.exists(b), raises(lambda: g.copy(a, c, overwrite=True))]


def case_glob_and_walk(tf, np):
    g = tf.io.gfile
    with Folder() as d:
        for n in ("x1.txt", "x2.txt", "y.csv"):
            put(os.path.join(d, n), n)
        g.makedirs(os.path.join(d, "sub", "deep"))
        put(os.path.join(d, "sub", "z.txt"), "z")
        rel = lambda ps: sorted(os.path.relpath(p, d) for p in ps)
        walk = [(os.path.relpath(r, d), sorted(x.rstrip("/") for x in ds), sorted(fs)) for r, ds, fs in g.walk(d)]
        up = [os.path.relpath(r, d) for r, _, _ in g.walk(d, topdown=False)]
        return [
            rel(g.glob(os.path.join(d, "*.txt"))),
            rel(g.glob(os.path.join(d, "x?.txt"))),
            rel(g.glob(os.path.join(d, "*", "*.txt"))),
            g.glob(os.path.join(d, "*.none")),
            rel(g.glob([os.path.join(d, "*.csv"), os.path.join(d, "x1*")])),
            sorted(walk),
            up[-1],
            rel(tf.io.matching_files(os.path.join(d, "*.txt")).numpy().astype(str).tolist()),
        ]


def case_join_and_schemes(tf, np):
    g = tf.io.gfile
    return [
        g.join("a", "b", "c"),
        g.join("a", "/b"),
        g.join("ram://x", "y"),
        g.join("a"),
        "" in g.get_registered_schemes(),
        "ram" in g.get_registered_schemes(),
    ]


def case_whole_files_and_datasets(tf, np):
    with Folder() as d:
        p, q = os.path.join(d, "p.txt"), os.path.join(d, "deep", "q.txt")
        tf.io.write_file(p, "l1\nl2\n\nl4")
        tf.io.write_file(q, tf.constant("other"))
        lines = list(tf.data.TextLineDataset([p, q]).as_numpy_iterator())
        files = sorted(
            os.path.basename(x.decode())
            for x in tf.data.Dataset.list_files(os.path.join(d, "*.txt")).as_numpy_iterator()
        )
        r = os.path.join(d, "r.tfrecord")
        with tf.io.TFRecordWriter(r) as w:
            w.write(b"first")
            w.write(b"")
            w.write(b"third")
        return [
            tf.io.read_file(p),
            lines,
            files,
            list(tf.data.TFRecordDataset(r).as_numpy_iterator()),
            tf.io.gfile.stat(r).length,
        ]


def case_iterate_and_path_objects(tf, np):

    with Folder() as d:
        p = pathlib.Path(d) / "n.txt"
        with tf.io.gfile.GFile(p, "w") as f:
            f.write("1\n2\n3")
        with tf.io.gfile.GFile(p) as f:
            lines = [x for x in f]
        with tf.io.gfile.GFile(str(p), "r") as f:
            part = [f.read(2), f.tell(), f.read(), f.read()]
        return [lines, part, tf.io.gfile.exists(p), os.path.basename(str(tf.io.gfile.glob(str(p))[0]))]
