"""Load SavedModels with a module and compare with what TensorFlow recorded: `python check.py MODULE FOLDER [NAME...]`.

MODULE is imported and used as `tf`: saved_model.load, constant, GradientTape, and the ops of a sum of squares.
Options: --quick leaves the second derivatives out; --verbose prints every difference.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import golden

LOOSE_GRADIENT, LOOSE_SECOND = 3.0, 5.0


def attempt(problems, where, function):
    """Yield nothing; note an exception as a problem."""
    try:
        for problem in function() or ():
            problems.append(problem)
    except Exception as error:  # one failing part must not hide the others
        text = (str(error).strip().splitlines() or [""])[0]
        problems.append(f"{where}: {type(error).__name__}: {text[:160]}")


def check_attribute(record, loaded, path, entry):
    thing = golden.find(loaded, path)
    kind = entry["kind"]
    if kind in ("list", "tuple"):
        if not isinstance(thing, (list, tuple)) and not hasattr(thing, "__len__") or len(thing) != entry["length"]:
            yield f"{path}: {type(thing).__name__}, expected {kind} of {entry['length']}"
    elif kind == "dict":
        if sorted(thing.keys()) != entry["keys"]:
            yield f"{path}: keys {sorted(thing.keys())}, expected {entry['keys']}"
    elif kind == "variable":
        shape = [int(n) for n in thing.shape]
        facts = {"name": thing.name, "trainable": thing.trainable, "dtype": thing.dtype.name, "shape": shape}
        for key, got in facts.items():
            if got != entry[key]:
                yield f"{path}: {key} {got!r}, expected {entry[key]!r}"
        if problem := golden.difference(record.array(entry["value"]), thing, entry["dtype"]):
            yield f"{path}: {problem}"
    elif kind == "tensor":
        if problem := golden.difference(record.array(entry["value"]), thing, entry["value"]["dtype"]):
            yield f"{path}: {problem}"
    elif kind == "asset":
        file = golden.numbers(thing.asset_path).item().decode()
        if os.path.basename(file) != entry["file"] or not os.path.exists(file):
            yield f"{path}: asset {os.path.basename(file)!r}, expected {entry['file']!r} to exist"
    elif kind == "function" and not callable(thing):
        yield f"{path}: cannot be called"


def check_signature(loaded, key, entry):
    function = loaded.signatures[key]
    _, keywords = function.structured_input_signature
    for label, got, expected in (
        ("inputs", keywords, entry["inputs"]),
        ("outputs", function.structured_outputs, entry["outputs"]),
    ):
        if set(got) != set(expected):
            yield f"signature {key}: {label} {sorted(got)}, expected {sorted(expected)}"
            continue
        for name, fact in expected.items():
            shape = got[name].shape
            shape = None if shape.rank is None else shape.as_list()
            if got[name].dtype.name != fact["dtype"] or shape != fact["shape"]:
                yield f"signature {key}: {name} is {got[name].dtype.name} {shape}, expected {fact['dtype']} {fact['shape']}"


def check_gradients(record, label, gradients, expected, loose, where):
    references = [
        *(("input", i, r) for i, r in enumerate(expected["inputs"])),
        *(("variable", p, r) for p, r in expected["variables"].items()),
    ]
    for (kind, which, reference), gradient in zip(references, gradients, strict=True):
        what = f"{where}: {label} to {kind} {which}"
        if (gradient is None) != (reference is None):
            yield f"{what}: {'None' if gradient is None else 'a value'}, expected {'None' if reference is None else 'a value'}"
        elif gradient is not None:
            if problem := golden.difference(
                record.array(reference), TF.convert_to_tensor(gradient), reference["dtype"], loose
            ):
                yield f"{what}: {problem}"


def check_call(record, loaded, entry, where, known):
    args = golden.rebuild(TF, record, entry["args"])
    kwargs = golden.rebuild(TF, record, entry["kwargs"])
    function = golden.find(loaded, entry["function"])
    variables = [golden.find(loaded, path) for path in entry["gradients"]["variables"]]
    cannot = entry.get("tensorflow_cannot")
    if cannot and IS_TENSORFLOW:
        outputs, gradients, seconds = function(*args, **kwargs), None, None
        known.append(where)
    else:
        outputs, gradients, seconds = golden.differentiate(
            TF, function, args, kwargs, variables, "second" in entry and not QUICK
        )
    yield from golden.mismatches(record, entry["outputs"], outputs, where)
    if gradients is not None:
        yield from check_gradients(record, "gradient", gradients, entry["gradients"], LOOSE_GRADIENT, where)
    if seconds is not None:
        yield from check_gradients(record, "second derivative", seconds, entry["second"], LOOSE_SECOND, where)
    for path, reference in entry.get("after", {}).items():
        if problem := golden.difference(record.array(reference), golden.find(loaded, path), reference["dtype"], 3.0):
            yield f"{where}: {path} afterwards: {problem}"


def check_signature_call(record, loaded, entry, where):
    inputs = golden.rebuild(TF, record, entry["inputs"])
    yield from golden.mismatches(record, entry["outputs"], loaded.signatures[entry["signature"]](**inputs), where)


def check_rejected(record, loaded, entry, where):
    try:
        golden.find(loaded, entry["function"])(*golden.rebuild(TF, record, entry["args"]))
    except Exception as error:
        if type(error).__name__ != entry["error"]:
            yield f"{where}: raises {type(error).__name__}, expected {entry['error']}"
    else:
        yield f"{where}: accepts what it should reject with {entry['error']}"


def check(path):
    """All problems of one model, the number of parts checked, and the gradients that TensorFlow itself cannot give."""
    record = golden.Record(path)
    tree, problems, known = record.tree, [], []
    try:
        loaded = TF.saved_model.load(str(path.with_suffix("")))
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[0]
        return [f"load: {type(error).__name__}: {text[:200]}"], 1, known
    for where, entry in tree["attributes"].items():
        attempt(problems, where or "the root", lambda: check_attribute(record, loaded, where, entry))
    for key, entry in tree["signatures"].items():
        attempt(problems, f"signature {key}", lambda: check_signature(loaded, key, entry))
    if set(loaded.signatures.keys()) != set(tree["signatures"]):
        problems.append(f"signatures {sorted(loaded.signatures.keys())}, expected {sorted(tree['signatures'])}")
    for i, entry in enumerate(tree["calls"]):
        where = f"call {i} {entry['function'] or '__call__'}"
        attempt(problems, where, lambda: check_call(record, loaded, entry, where, known))
    for i, entry in enumerate(tree["signature_calls"]):
        where = f"signature call {i} {entry['signature']}"
        attempt(problems, where, lambda: check_signature_call(record, loaded, entry, where))
    for i, entry in enumerate(tree["rejected"]):
        where = f"rejected {i} {entry['function'] or '__call__'}"
        attempt(problems, where, lambda: check_rejected(record, loaded, entry, where))
    parts = sum(len(tree[k]) for k in ("attributes", "signatures", "calls", "signature_calls", "rejected"))
    return problems, parts, known


def main(arguments):
    global TF, IS_TENSORFLOW, QUICK
    options = {a for a in arguments if a.startswith("--")}
    module, folder, *only = [a for a in arguments if not a.startswith("--")]
    TF, QUICK = importlib.import_module(module), "--quick" in options
    IS_TENSORFLOW = module == "tensorflow" and hasattr(TF, "raw_ops") and hasattr(TF, "__git_version__")
    paths = sorted(p for p in Path(folder).glob("*.json") if p.with_suffix("").is_dir())
    failed = 0
    for path in paths:
        if only and path.stem not in only:
            continue
        problems, parts, known = check(path)
        failed += bool(problems)
        note = (
            f" ({len(known)} calls without gradients: TensorFlow cannot differentiate them once loaded)"
            if known
            else ""
        )
        shown = problems if "--verbose" in options else problems[:1]
        rest = "" if len(problems) <= len(shown) else f" (and {len(problems) - len(shown)} more)"
        print(
            f"{path.stem}: ok, {parts} parts{note}"
            if not problems
            else f"{path.stem}: FAILED {len(problems)} of {parts}: {'; '.join(shown)}{rest}",
            flush=True,
        )
    total = len([p for p in paths if not only or p.stem in only])
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    if len([a for a in sys.argv[1:] if not a.startswith("--")]) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
