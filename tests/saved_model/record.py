"""Save models with real TensorFlow and record what the loaded ones do. Used by make.py here and in the hidden folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import golden
import numpy as np
import tensorflow as tf


class Model:
    """What to save, and which calls to record.

    calls: (path of the function, list of argument tuples or (args, kwargs) pairs, options)
    signature_calls: (name of the signature, list of dictionaries)
    rejected: (path, args) that must raise
    """

    def __init__(
        self, about, root=None, signatures=None, export=None, calls=(), signature_calls=(), rejected=(), options=None
    ):
        self.about, self.root, self.signatures, self.export = about, root, signatures, export
        self.calls, self.signature_calls, self.rejected, self.options = calls, signature_calls, rejected, options or {}


def weights(seed, *shape, scale=0.5, dtype="float32"):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype)


def walk(root):
    """(path, kind, object) of everything that hangs on a loaded object, breadth first; shared objects by every path."""
    queue, result, seen = [("", root)], [], set()
    while queue:
        path, thing = queue.pop(0)
        kind = kind_of(thing)
        result.append((path, kind, thing))
        if kind not in ("object", "list", "tuple", "dict") or id(thing) in seen:
            continue
        seen.add(id(thing))
        for name, child in thing._trackable_children().items():
            if name == "signatures" and path == "":
                continue
            if kind in ("list", "tuple"):
                queue.append((f"{path}[{int(name)}]", child))
            elif kind == "dict":
                queue.append((f"{path}[{name!r}]", child))
            elif name.isidentifier() and hasattr(thing, name):
                queue.append((f"{path}.{name}", child))
    return result


def kind_of(thing):
    if isinstance(thing, tf.Variable):
        return "variable"
    name = type(thing).__name__
    if name in ("ListWrapper", "_TupleWrapper", "_DictWrapper"):
        return {"ListWrapper": "list", "_TupleWrapper": "tuple", "_DictWrapper": "dict"}[name]
    if (
        name in ("RestoredResource", "_StaticHashTable", "RestoredStaticHashtable")
        or "Resource" in name
        or "Hash" in name
    ):
        return "resource"
    if name == "Asset":
        return "asset"
    if isinstance(thing, tf.Tensor):
        return "tensor"
    if name in ("RestoredFunction", "Function", "ConcreteFunction", "_WrapperFunction", "AtomicFunction"):
        return "function"
    return "object"


def spec(tensor):
    shape = tensor.shape
    return {"dtype": tensor.dtype.name, "shape": None if shape.rank is None else shape.as_list()}


def record(name, model, folder):
    """Save into `folder/name`, load it again, and write `folder/name.json` and `.npz`."""
    with tempfile.TemporaryDirectory(prefix="savedmodel_") as scratch:
        path = os.path.join(scratch, "model")
        if model.export:
            model.export(path)
        else:
            options = tf.saved_model.SaveOptions(save_debug_info=False, **model.options)
            tf.saved_model.save(model.root, path, signatures=model.signatures, options=options)
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(path, folder / name)
    loaded = tf.saved_model.load(str(folder / name))
    writer = golden.Writer()
    tree = {"name": name, "about": model.about, "written_by": f"tensorflow {tf.__version__}"}

    tree["signatures"] = {}
    for key, function in loaded.signatures.items():
        args, kwargs = function.structured_input_signature
        tree["signatures"][key] = {
            "inputs": {k: spec(v) for k, v in kwargs.items()},
            "outputs": {k: spec(v) for k, v in function.structured_outputs.items()},
        }

    tree["attributes"], variables = {}, {}
    for path, kind, thing in walk(loaded):
        entry = {"kind": kind}
        if kind in ("list", "tuple"):
            entry["length"] = len(thing)
        elif kind == "dict":
            entry["keys"] = sorted(thing)
        elif kind == "variable":
            entry.update(name=thing.name, trainable=thing.trainable, **spec(thing), value=writer.put(thing.numpy()))
            if id(thing) not in {id(v) for v in variables.values()}:
                variables[path] = thing
        elif kind == "tensor":
            entry["value"] = writer.put(thing.numpy())
        elif kind == "asset":
            entry["file"] = os.path.basename(thing.asset_path.numpy().decode())
        tree["attributes"][path] = entry
    trainable = {path: v for path, v in variables.items() if v.trainable}

    tree["calls"] = []
    for path, batches, *options in model.calls:
        for batch in batches:
            args, kwargs = (
                batch
                if isinstance(batch, tuple)
                and len(batch) == 2
                and isinstance(batch[1], dict)
                and batch[1].get("__kwargs__")
                else (batch, {})
            )
            kwargs = {k: v for k, v in kwargs.items() if k != "__kwargs__"}
            second = "second" in options
            entry = {"function": path, "args": writer.structure(tuple(args)), "kwargs": writer.structure(kwargs)}
            before = {p: v.numpy() for p, v in variables.items()}
            try:
                outputs, gradients, seconds = golden.differentiate(
                    tf, golden.find(loaded, path), args, kwargs, list(trainable.values()), second
                )
            except (ValueError, LookupError, TypeError) as error:
                # TensorFlow cannot differentiate what it loaded; the model that was saved gives the gradients.
                entry["tensorflow_cannot"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                outputs = golden.find(loaded, path)(*args, **kwargs)
                original = [golden.find(model.root, p) for p in trainable]
                _, gradients, seconds = golden.differentiate(
                    tf, golden.find(model.root, path), args, kwargs, original, second
                )
            entry["outputs"] = writer.structure(outputs)
            inputs = len(gradients) - len(trainable)
            for label, values in (("gradients", gradients), ("second", seconds)):
                if values is not None:
                    dense = [None if g is None else writer.put(tf.convert_to_tensor(g).numpy()) for g in values]
                    entry[label] = {"inputs": dense[:inputs], "variables": dict(zip(trainable, dense[inputs:]))}
            changed = {p: v for p, v in variables.items() if not np.array_equal(before[p], v.numpy())}
            if changed:
                entry["after"] = {p: writer.put(v.numpy()) for p, v in changed.items()}
            tree["calls"].append(entry)

    tree["signature_calls"] = []
    for key, batches in model.signature_calls:
        for batch in batches:
            outputs = loaded.signatures[key](**batch)
            tree["signature_calls"].append(
                {"signature": key, "inputs": writer.structure(batch), "outputs": writer.structure(dict(outputs))}
            )

    tree["rejected"] = []
    for path, args in model.rejected:
        try:
            golden.find(loaded, path)(*args)
        except Exception as error:  # the class is what is recorded
            tree["rejected"].append(
                {"function": path, "args": writer.structure(tuple(args)), "error": type(error).__name__}
            )
        else:
            raise AssertionError(f"{name}{path} accepts what it should reject")
    writer.save(folder / name, tree)
    size = sum(f.stat().st_size for f in (folder / name).rglob("*") if f.is_file())
    beside = sum((folder / name).with_suffix(s).stat().st_size for s in (".json", ".npz"))
    print(
        f"{name}: {size:,} bytes, record {beside:,} bytes, {len(tree['calls'])} calls, {len(tree['signature_calls'])} of signatures"
    )


def make(builders, folder, only=()):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for builder in builders:
        if not only or builder.__name__ in only:
            record(builder.__name__, builder(), folder)
