"""Run a program on a module `tf`, write its result as JSON, and compare that with a recorded one.

python -m conformance.runner [--module gradtape] [--area jacobian,custom] [-k name] [--record]
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
AREAS = tuple(sorted(path.stem for path in (HERE / "cases").glob("[!_]*.py")))

TOLERANCES = {  # rtol and atol, by dtype of the recorded value
    "float64": (1e-10, 1e-12),
    "float32": (2e-5, 1e-6),
    "float16": (2e-3, 2e-3),
    "bfloat16": (2e-2, 2e-2),
    "complex128": (1e-10, 1e-12),
    "complex64": (2e-5, 1e-6),
    "python": (2e-5, 1e-6),
}

Encoded = dict[str, Any]


# -- words for programs ----------------------------------------------------------------------------------------------
@dataclass
class Raised:
    error: Exception | None
    accept: tuple[str, ...]
    match: str | None


@dataclass
class Dense:
    value: Any


@dataclass
class Tolerant:
    value: Any
    rtol: float | None
    atol: float | None


def raises(fn: Callable[[], Any], *accept: str, match: str | None = None) -> Raised:
    """What `fn()` raised. Other class names in `accept` are as good as the recorded one, and "*" is any of them."""
    try:
        fn()
    except Exception as error:
        return Raised(error, accept, match)
    return Raised(None, accept, match)


def dense(value: Any) -> Dense:
    """Compare IndexedSlices in their dense form."""
    return Dense(value)


def tol(value: Any, rtol: float | None = None, atol: float | None = None) -> Tolerant:
    """Compare with a tolerance of its own."""
    return Tolerant(value, rtol, atol)


# -- results as JSON -------------------------------------------------------------------------------------------------
def _number(v: Any) -> Any:
    if np.isnan(v):
        return "nan"
    if np.isinf(v):
        return "inf" if v > 0 else "-inf"
    return float(str(v))  # the shortest decimal that gives v again in its own dtype


def _element(v: Any, kind: str) -> Any:
    if kind == "b":
        return bool(v)
    if kind in "iu":
        return int(v)
    if kind == "c":
        return [_number(v.real), _number(v.imag)]
    if kind == "f":
        return _number(v)
    return v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else str(v)


def _array(value: Any, dtype: str) -> Encoded:
    a = np.asarray(value)
    if dtype in ("bfloat16", "float16") or a.dtype.kind not in "biufcSUO":
        a = a.astype(np.float32)
    shape = [int(n) for n in a.shape]
    return {"dtype": dtype, "shape": shape, "v": [_element(v, a.dtype.kind) for v in a.reshape(-1)]}


def _tensor(x: Any) -> Encoded:
    name = getattr(x.dtype, "name", None)
    return _array(x.numpy(), name if isinstance(name, str) else str(x.dtype))


def _added_up(slices: Any) -> Encoded:
    values = np.asarray(slices.values.numpy())
    indices = np.asarray(slices.indices.numpy()).reshape(-1)
    shape = slices.dense_shape
    shape = tuple(int(n) for n in np.asarray(shape.numpy() if hasattr(shape, "numpy") else shape))
    out = np.zeros(shape, values.dtype)
    np.add.at(out, indices, values.reshape(indices.size, *shape[1:]))
    return {"t": "tensor", **_array(out, slices.values.dtype.name)}


def _sparse(slices: Any) -> Encoded:
    shape = slices.dense_shape
    if shape is not None:
        shape = [int(n) for n in np.asarray(shape.numpy() if hasattr(shape, "numpy") else shape).reshape(-1)]
    return {"t": "slices", "values": _tensor(slices.values), "indices": _tensor(slices.indices), "dense_shape": shape}


def _raised(x: Raised, tf: Any) -> Encoded:
    out: Encoded = {"t": "raises", "raises": None, "message_contains": x.match}
    if x.error is not None:
        bases = type(x.error).__mro__
        names = [base.__name__ for base in bases]
        public = (b.__name__ for b in bases if b.__module__ == "builtins" or getattr(tf.errors, b.__name__, None) is b)
        out["raises"] = next(public)
        out["mro"] = names[: names.index("Exception")] if "Exception" in names else names
        if x.match is not None:
            out["message_ok"] = x.match.lower() in str(x.error).lower()
        out["_message"] = str(x.error)
    if x.accept:
        out["accept"] = list(x.accept)
    return out


def encode(x: Any, tf: Any, densify: bool = False) -> Encoded:
    """The result of a program as JSON."""

    def isa(name: str) -> bool:
        cls = getattr(tf, name, None)
        return isinstance(cls, type) and isinstance(x, cls)

    if x is None:
        return {"t": "none"}
    if isinstance(x, Dense):
        return encode(x.value, tf, True)
    if isinstance(x, Tolerant):
        return {"t": "tol", "rtol": x.rtol, "atol": x.atol, "x": encode(x.value, tf, densify)}
    if isinstance(x, Raised):
        return _raised(x, tf)
    if isinstance(x, (bool, str)):
        return {"t": "bool" if isinstance(x, bool) else "str", "v": x}
    if isinstance(x, bytes):
        return {"t": "bytes", "v": x.decode("utf-8", "backslashreplace")}
    if isa("IndexedSlices"):
        return _added_up(x) if densify else _sparse(x)
    if isa("Variable"):
        return {"t": "variable", **_tensor(x)}
    if isa("Tensor"):
        return {"t": "tensor", **_tensor(x)}
    if isa("TensorShape"):
        return {"t": "shape", "v": None if x.rank is None else [None if n is None else int(n) for n in x.as_list()]}
    if isa("DType"):
        return {"t": "dtype", "v": x.name}
    if isinstance(x, (np.ndarray, np.generic)):
        return {"t": "numpy", **_array(x, x.dtype.name)}
    if isinstance(x, int):
        return {"t": "int", "v": x}
    if isinstance(x, float):
        return {"t": "float", "v": _number(np.float64(x))}
    if isinstance(x, complex):
        return {"t": "complex", "v": [x.real, x.imag]}
    if isinstance(x, dict):
        return {"t": "dict", "v": {str(k): encode(v, tf, densify) for k, v in x.items()}}
    if isinstance(x, (tuple, list)):  # named tuples are compared as tuples
        return {"t": "tuple" if isinstance(x, tuple) else "list", "v": [encode(v, tf, densify) for v in x]}
    raise TypeError(f"a result of type {type(x).__name__} cannot be recorded")


# -- comparison: None, or the first difference in words --------------------------------------------------------------
Override = tuple[float | None, float | None] | None


def _values(flat: list[Any], is_complex: bool) -> Any:
    if is_complex:
        return np.array([complex(float(re), float(im)) for re, im in flat], np.complex128)
    return np.array([float(v) for v in flat], np.float64)  # float() understands "nan" and "inf"


def _close(want: Any, got: Any, rtol: float, atol: float) -> Any:
    finite = np.isfinite(want) & np.isfinite(got)
    w, g = np.where(finite, want, 0), np.where(finite, got, 0)
    near = np.abs(w - g) <= atol + rtol * np.abs(w)
    if np.iscomplexobj(want):  # a component that is not finite has to agree on its own
        same = _close(want.real, got.real, rtol, atol) & _close(want.imag, got.imag, rtol, atol)
    else:
        same = (np.isnan(want) & np.isnan(got)) | (want == got)
    return np.where(finite, near, same)


def _tolerance(dtype: str, override: Override) -> tuple[float, float]:
    rtol, atol = TOLERANCES[dtype]
    if override is not None:
        rtol = rtol if override[0] is None else override[0]
        atol = atol if override[1] is None else override[1]
    return rtol, atol


def _diff_array(want: Encoded, got: Encoded, path: str, override: Override) -> str | None:
    for key in ("dtype", "shape"):
        if want[key] != got[key]:
            return f"{path}: {key} {got[key]}, expected {want[key]}"
    if want["dtype"] in TOLERANCES:
        is_complex = want["dtype"].startswith("complex")
        rtol, atol = _tolerance(want["dtype"], override)
        with np.errstate(all="ignore"):
            ok = np.asarray(_close(_values(want["v"], is_complex), _values(got["v"], is_complex), rtol, atol), bool)
    else:
        ok = np.array([a == b for a, b in zip(want["v"], got["v"], strict=True)], bool)
    if ok.all():
        return None
    i = int(np.argmin(ok))
    where = [int(k) for k in np.unravel_index(i, want["shape"])] if want["shape"] else ""
    return f"{path}{where}: {got['v'][i]}, expected {want['v'][i]} ({int((~ok).sum())} of {ok.size} differ)"


def _what(e: Encoded) -> str:
    kind = e["t"]
    if kind == "raises":
        return "no exception" if e["raises"] is None else f"exception {e['raises']} ({e.get('_message', '')[:120]})"
    if kind in ("tensor", "variable", "numpy"):
        return f"{kind} {e['dtype']}{e['shape']}"
    return f"{kind} {e['v']!r}" if kind in ("int", "float", "bool", "str") else kind


def _diff_raised(want: Encoded, got: Encoded, path: str) -> str | None:
    if want["raises"] is None or got["raises"] is None:
        return None if want["raises"] is got["raises"] else f"{path}: {_what(got)}, expected {_what(want)}"
    accept = {*want.get("accept", ()), want["raises"]}
    if "*" not in accept and not accept & set(got["mro"]):
        return f"{path}: raised {' < '.join(got['mro'])}, expected {' or '.join(sorted(accept))}"
    if want.get("message_contains") and want.get("message_ok") and not got.get("message_ok"):
        return f"{path}: message {got.get('_message')!r} does not contain {want['message_contains']!r}"
    return None


def diff(want: Encoded, got: Encoded, path: str = "result", override: Override = None) -> str | None:
    """The first difference between a recorded result and a fresh one."""
    if want["t"] == "tol":
        return diff(want["x"], got["x"] if got["t"] == "tol" else got, path, (want["rtol"], want["atol"]))
    if got["t"] == "tol":
        got = got["x"]
    if want["t"] != got["t"]:
        return f"{path}: {_what(got)}, expected {_what(want)}"
    kind = want["t"]
    if kind == "raises":
        return _diff_raised(want, got, path)
    if kind in ("tensor", "variable", "numpy"):
        return _diff_array(want, got, path, override)
    if kind == "slices":
        if want["dense_shape"] != got["dense_shape"]:
            return f"{path}.dense_shape: {got['dense_shape']}, expected {want['dense_shape']}"
        return _diff_array(want["indices"], got["indices"], path + ".indices", override) or _diff_array(
            want["values"], got["values"], path + ".values", override
        )
    if kind in ("list", "tuple"):
        if len(want["v"]) != len(got["v"]):
            return f"{path}: {len(got['v'])} elements, expected {len(want['v'])}"
        parts = ((f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(want["v"], got["v"], strict=True)))
    elif kind == "dict":
        if set(want["v"]) != set(got["v"]):
            return f"{path}: keys {sorted(got['v'])}, expected {sorted(want['v'])}"
        parts = ((f"{path}[{key!r}]", want["v"][key], got["v"][key]) for key in want["v"])
    elif kind in ("float", "complex"):
        rtol, atol = _tolerance("python", override)
        a, b = (_values([e["v"]], kind == "complex") for e in (want, got))
        return None if bool(np.all(_close(a, b, rtol, atol))) else f"{path}: {got['v']!r}, expected {want['v']!r}"
    else:
        return None if want.get("v") == got.get("v") else f"{path}: {got['v']!r}, expected {want['v']!r}"
    return next((found for where, a, b in parts if (found := diff(a, b, where, override))), None)


# -- loading and running ---------------------------------------------------------------------------------------------
def load_cases(area: str) -> dict[str, Callable[[Any, Any], Any]]:
    """The programs of an area by name, in the order of the file."""
    module = importlib.import_module(f"conformance.cases.{area}")
    return {name.removeprefix("case_"): f for name, f in vars(module).items() if name.startswith("case_")}


def load_golden(area: str) -> dict[str, Encoded]:
    """The recorded results of an area by name."""
    cases: dict[str, Encoded] = json.loads((HERE / "golden" / f"{area}.json").read_text("utf-8"))["cases"]
    return cases


def run(program: Callable[[Any, Any], Any], tf: Any) -> Encoded:
    """The result of a program on a module."""
    return encode(program(tf, np), tf)


def _without_messages(e: Any) -> Any:
    if isinstance(e, dict):
        return {k: _without_messages(v) for k, v in e.items() if k != "_message"}
    return [_without_messages(v) for v in e] if isinstance(e, list) else e


def _write(area: str, source: str, cases: dict[str, Encoded]) -> None:
    rows = [
        f"{json.dumps(name)}: {json.dumps(_without_messages(e), separators=(',', ':'), allow_nan=False)}"
        for name, e in sorted(cases.items())
    ]
    text = f'{{\n"recorded_from": {json.dumps(source)},\n"cases": {{\n' + ",\n".join(rows) + "\n}\n}\n"
    (HERE / "golden" / f"{area}.json").write_text(text, "utf-8")


def problems(area: str, tf: Any, text: str = "") -> dict[str, str | None]:
    """What differs from the recorded results, by the names of the programs with this text in them; None: nothing."""
    golden, found = load_golden(area), {}
    for name, program in load_cases(area).items():
        if text in name:
            try:
                found[name] = diff(golden[name], run(program, tf))
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
    return found


def main(argv: list[str] | None = None) -> int:
    """Compare, or record, from the command line."""
    parser = argparse.ArgumentParser(description="programs against recorded results of TensorFlow")
    parser.add_argument("--module", default="gradtape", help="the module under test")
    parser.add_argument("--area", default=",".join(AREAS), help="areas, with commas between them")
    parser.add_argument("-k", default="", help="only programs with this text in their name")
    parser.add_argument("--record", action="store_true", help="write the results of --module down")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    tf = importlib.import_module(options.module)
    passed = failed = 0
    for area in options.area.split(","):
        golden, fresh = load_golden(area), {}
        for name, program in load_cases(area).items():
            if options.k not in name:
                continue
            try:
                got = fresh[name] = run(program, tf)
                problem = None if options.record else diff(golden[name], got)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            passed, failed = passed + (problem is None), failed + (problem is not None)
            if problem is not None:
                print(f"FAIL {area}::{name}  {problem}")
        if options.record:
            _write(area, f"{options.module} {getattr(tf, '__version__', '')}", {**golden, **fresh})
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    from conformance import runner  # the module that programs import their words from

    sys.exit(runner.main())
