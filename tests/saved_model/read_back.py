"""Load with real TensorFlow what write.py saved, and compare: `python read_back.py FOLDER [NAME...]`.

Options: --record writes the expected values, from models that TensorFlow saved; --no-gradients does not count missing
gradients as a failure; --verbose prints every difference.

Parts of a model: load, signatures, variables, outputs (several batch sizes, in order, with what they assign), gradients
(through the loaded functions), serving (a session loads the graph by its tag and runs the signatures, as TensorFlow
Serving does), resave (TensorFlow saves what it loaded and loads that), fingerprint.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import golden
import numpy as np
import tensorflow as tf

EXPECTED = HERE / "written"


def x(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def words(*values):
    return np.array(values, object)


MASKS = [np.ones((1, 3), bool), np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)]

# calls: (path of the function, arguments); signatures: (name, inputs)
CASES = {
    "two_functions": dict(
        variables=[
            ".layers[0].w",
            ".layers[0].b",
            ".layers[1].w",
            ".layers[1].b",
            ".scales['low']",
            ".scales['high']",
            ".frozen",
        ],
        calls=[(".hidden", x(101, 2, 4)), (".scores", x(102, 1, 4)), (".scores", x(103, 5, 4))],
        signatures=[("hidden", {"x": x(104, 3, 4)}), ("serving_default", {"x": x(105, 2, 4)})],
    ),
    "cnn": dict(
        variables=[".kernel", ".bias", ".gamma", ".beta", ".mean", ".variance", ".head"],
        calls=[("", x(111, 1, 8, 8, 2)), ("", x(112, 3, 8, 8, 2))],
        signatures=[("serving_default", {"image": x(113, 2, 8, 8, 2)})],
    ),
    "rnn": dict(
        variables=[".kernel", ".recurrent", ".bias"],
        calls=[(".run", x(121, 1, 1, 3)), (".run", x(122, 3, 5, 3))],
        signatures=[("serving_default", {"sequence": x(123, 2, 4, 3)})],
    ),
    "attention": dict(
        variables=[".qkv[0]", ".qkv[1]", ".qkv[2]", ".out", ".norm['scale']", ".norm['offset']"],
        calls=[(".block", x(131, 1, 3, 8), MASKS[0]), (".block", x(132, 2, 4, 8), MASKS[1])],
        signatures=[("serving_default", {"x": x(133, 2, 4, 8), "mask": MASKS[1]})],
    ),
    "keras_mlp": dict(
        variables=[f".variables[{i}]" for i in range(4)],
        calls=[(".serve", x(141, 1, 5)), (".serve", x(142, 4, 5))],
        signatures=[("serving_default", {"features": x(143, 2, 5)})],
    ),
    "table": dict(
        variables=[".embedding"],
        calls=[
            (".ids", words("red", "pink", "blue")),
            (".embed", words("green")),
            (".embed", words("blue", "blue", "grey")),
        ],
        signatures=[("serving_default", {"words": words("green", "")}), ("embed", {"words": words("red", "x")})],
    ),
    "dynamic": dict(
        variables=[".scale"],
        calls=[(".tile", x(151, 1, 1, 4), np.int32(1)), (".tile", x(152, 2, 3, 4), np.int32(3))],
        signatures=[("serving_default", {"x": x(153, 3, 2, 4), "times": np.int32(2)})],
    ),
    "counter": dict(
        variables=[".steps", ".total", ".w"],
        calls=[(".update", x(161, 2, 3)), (".update", x(162, 5, 3)), (".reset",), (".update", x(163, 1, 3))],
        signatures=[("update", {"x": x(164, 2, 3)}), ("reset", {}), ("update", {"x": x(165, 2, 3)})],
    ),
}


def tensors(values):
    return [
        tf.constant(v.tolist(), tf.string) if getattr(v, "dtype", None) == object else tf.constant(v) for v in values
    ]


def spec(tensor):
    return {"dtype": tensor.dtype.name, "shape": None if tensor.shape.rank is None else tensor.shape.as_list()}


def signatures_of(loaded):
    result = {}
    for key, function in loaded.signatures.items():
        _, inputs = function.structured_input_signature
        result[key] = {
            "inputs": {k: spec(v) for k, v in inputs.items()},
            "outputs": {k: spec(v) for k, v in function.structured_outputs.items()},
        }
    return result


def trainable(loaded, case):
    return {p: v for p in case["variables"] if (v := golden.find(loaded, p)).trainable}


def record(folder):
    writer, tree = golden.Writer(), {}
    for name, case in CASES.items():
        loaded = tf.saved_model.load(str(folder / name))
        entry = {"signatures": signatures_of(loaded), "variables": {}, "calls": [], "signature_calls": []}
        for path in case["variables"]:
            variable = golden.find(loaded, path)
            entry["variables"][path] = {
                "trainable": variable.trainable,
                "name": variable.name,
                "value": writer.structure(variable),
            }
        for path, *args in case["calls"]:
            watched = trainable(loaded, case)
            outputs, gradients, _ = golden.differentiate(
                tf, golden.find(loaded, path), tensors(args), {}, list(watched.values())
            )
            dense = [None if g is None else writer.put(tf.convert_to_tensor(g).numpy()) for g in gradients]
            entry["calls"].append({"outputs": writer.structure(outputs), "gradients": dense})
        loaded = tf.saved_model.load(str(folder / name))
        for key, inputs in case["signatures"]:
            outputs = loaded.signatures[key](**dict(zip(inputs, tensors(inputs.values()))))
            entry["signature_calls"].append(writer.structure(dict(outputs)))
        tree[name] = entry
    writer.save(EXPECTED, tree)
    print(
        f"recorded {len(tree)} models: {sum(EXPECTED.with_suffix(s).stat().st_size for s in ('.json', '.npz')):,} bytes"
    )


def check_variables(expected, entry, loaded):
    for path, fact in entry["variables"].items():
        variable = golden.find(loaded, path)
        if variable.trainable != fact["trainable"]:
            yield f"{path}: trainable {variable.trainable}"
        yield from golden.mismatches(expected, fact["value"], variable, path)


def check_outputs(expected, entry, loaded, case):
    for i, ((path, *args), fact) in enumerate(zip(case["calls"], entry["calls"])):
        outputs = golden.find(loaded, path)(*tensors(args))
        yield from golden.mismatches(expected, fact["outputs"], outputs, f"call {i} {path or '__call__'}")


def check_gradients(expected, entry, loaded, case):
    for i, ((path, *args), fact) in enumerate(zip(case["calls"], entry["calls"])):
        variables = list(trainable(loaded, case).values())
        _, gradients, _ = golden.differentiate(tf, golden.find(loaded, path), tensors(args), {}, variables)
        for j, (gradient, reference) in enumerate(zip(gradients, fact["gradients"], strict=True)):
            where = f"call {i} {path or '__call__'}: gradient {j}"
            if (gradient is None) != (reference is None):
                yield f"{where}: {'None' if gradient is None else 'a value'}, expected {'None' if reference is None else 'a value'}"
            elif gradient is not None and (
                problem := golden.difference(
                    expected.array(reference), tf.convert_to_tensor(gradient), reference["dtype"], 3.0
                )
            ):
                yield f"{where}: {problem}"


def check_serving(expected, entry, path, case):
    results = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], path)
        for key, inputs in case["signatures"]:
            signature = meta.signature_def[key]
            feeds = {signature.inputs[k].name: v for k, v in inputs.items()}
            results.append(session.run({k: v.name for k, v in signature.outputs.items()}, feeds))
    for (key, _), outputs, fact in zip(case["signatures"], results, entry["signature_calls"]):
        yield from golden.mismatches(expected, fact, {k: tf.constant(v) for k, v in outputs.items()}, f"session {key}")


def check_signature_calls(expected, entry, loaded, case):
    for (key, inputs), fact in zip(case["signatures"], entry["signature_calls"]):
        outputs = loaded.signatures[key](**dict(zip(inputs, tensors(inputs.values()))))
        yield from golden.mismatches(expected, fact, dict(outputs), f"signature {key}")


def check_resave(expected, entry, path, case, scratch):
    again = os.path.join(scratch, "again")
    tf.saved_model.save((loaded := tf.saved_model.load(path)), again, signatures=dict(loaded.signatures))
    yield from check_outputs(expected, entry, tf.saved_model.load(again), case)


def check_fingerprint(path):
    fingerprint = tf.saved_model.experimental.read_fingerprint(path)
    if not fingerprint.singleprint():
        yield "empty"


def check(name, folder, expected):
    """The state of every part and all problems."""
    case, entry, parts, problems = CASES[name], expected.tree[name], {}, []
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "elsewhere")  # a SavedModel must not depend on where it was written
        if not (folder / name).is_dir():
            return {"load": False}, ["not there"]
        shutil.copytree(folder / name, path)
        tf.get_logger().setLevel("ERROR")
        load = lambda: tf.saved_model.load(path)  # noqa: E731
        differ = lambda got: [] if got == entry["signatures"] else [f"signatures {got}, expected {entry['signatures']}"]  # noqa: E731
        work = {
            "load": lambda: [load() and None][:0],
            "signatures": lambda: differ(signatures_of(load())),
            "variables": lambda: check_variables(expected, entry, load()),
            "outputs": lambda: check_outputs(expected, entry, load(), case),
            "signature calls": lambda: check_signature_calls(expected, entry, load(), case),
            "gradients": lambda: check_gradients(expected, entry, load(), case),
            "serving": lambda: check_serving(expected, entry, path, case),
            "resave": lambda: check_resave(expected, entry, path, case, scratch),
            "fingerprint": lambda: check_fingerprint(path),
        }
        for part, function in work.items():
            try:
                found = list(function())
            except Exception as error:
                found = [f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"]
            parts[part] = not found
            problems += [f"{part}: {problem}" for problem in found]
            if part == "load" and found:
                break
    return parts, problems


def main(arguments):
    options = {a for a in arguments if a.startswith("--")}
    folder, *only = [a for a in arguments if not a.startswith("--")]
    folder = Path(folder)
    if "--record" in options:
        record(folder)
        return 0
    expected, failed = golden.Record(EXPECTED), 0
    names = [n for n in CASES if not only or n in only]
    for name in names:
        parts, problems = check(name, folder, expected)
        counted = [
            p for p, good in parts.items() if not good and not (p == "gradients" and "--no-gradients" in options)
        ]
        failed += bool(counted)
        state = ", ".join(f"{p} {'ok' if good else 'FAILED'}" for p, good in parts.items())
        shown = problems if "--verbose" in options else problems[:1]
        print(
            f"{name}: {state}"
            + (f": {'; '.join(shown)}" if problems else "")
            + (f" (and {len(problems) - len(shown)} more)" if len(problems) > len(shown) else ""),
            flush=True,
        )
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if not [a for a in sys.argv[1:] if not a.startswith("--")]:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
