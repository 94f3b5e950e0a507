"""`gradtape doctor`: what this installation is made of, whether it computes rightly, and what may trouble it."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradtape as tf
from gradtape._src.cli.arguments import Parser
from gradtape._src.cli.terminal import Printer
from gradtape._src.compilation_cache import default_folder
from gradtape._src.errors import install
from gradtape._src.notebook import bytes_text
from gradtape._src.progress import Progress
from gradtape._src.tf import config
from gradtape._src.version import __version__

__all__ = ["examine", "main"]

DESCRIPTION = """\
Shows this installation: versions, engines and devices, the linear algebra library and its threads, and the import
time. Then computes a few derivatives whose values are known, and reports possible problems and how to fix them."""
EPILOG = """\
exit code: 0 if the self-check passes, 1 if it fails.

examples:
  gradtape doctor                    everything, as text
  gradtape doctor --json             everything, as JSON for a bug report or a program
  OMP_NUM_THREADS=1 gradtape doctor  with other settings
"""

TOLERANCE = 1e-6
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_PACKAGES = {  # the distribution, and what it is to gradtape
    "numpy": "required",
    "ml_dtypes": "required",
    "jax": f"for compiled functions: {install('xla')}",
    "keras": f"for tf.keras: {install('keras')}",
    "matplotlib": f"for the plots of the examples: {install('viz')}",
    "pillow": f"for image files: {install('viz')}",
    "tensorflow": "not needed",
}
_PROGRAM = (
    "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); import gradtape; "
    "c = time.perf_counter(); print(b - a, c - b)"
)


def examine(note: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """All findings, as JSON has them; `note` hears what is being looked at.

    >>> findings = examine()
    >>> findings["self_check"]["numpy"]["passed"]
    True
    """
    note("versions")
    findings: dict[str, Any] = {
        "gradtape": __version__,
        "path": str(Path(tf.__file__).parent),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "engines": _engines(),
        "device": _device(),
        "keras_backend": _keras_backend(),
        "cache": _cache(),
        "blas": _blas(),
        "threads": _threads(),
    }
    note("import")
    findings["import_seconds"] = _import_seconds()
    note("self-check")
    findings["self_check"] = {"numpy": _self_check()}
    findings["problems"] = _problems(findings)
    return findings


# -- what there is -----------------------------------------------------------------------------------------------------
def _version(distribution: str) -> str | None:
    for name in ("tensorflow", "tensorflow-cpu") if distribution == "tensorflow" else (distribution,):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def _engines() -> dict[str, dict[str, Any]]:
    """The engines that arrays can belong to, and the devices of each."""
    engines: dict[str, dict[str, Any]] = {
        "numpy": {"ready": True, "devices": [device.device_type for device in config.list_physical_devices("CPU")]}
    }
    if importlib.util.find_spec("jax") is None:
        engines["xla"] = {"ready": False, "why": f"needs JAX: {install('xla')}"}
    else:
        engines["xla"] = {"ready": True, "devices": _jax_devices()}
    return engines


def _jax_devices() -> list[str]:
    """JAX's devices, from another process, because listing them starts JAX's runtime."""
    program = "import jax; print(*(d.platform.upper() for d in jax.devices()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.split()


def _device() -> dict[str, str]:
    """Where floating-point tensors go that name no device, and why. JAX runs in another process."""
    named = os.environ.get("GRADTAPE_DEVICE")
    program = "from gradtape._src.devices import default_device; d = default_device(); print(f'{d.kind}:{d.number}')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    found = (done.stdout.split() or ["unknown"])[-1]
    if named is not None:
        return {"name": found, "why": f"GRADTAPE_DEVICE={named}"}
    if not found.startswith("CPU"):
        return {
            "name": found,
            "why": "the first accelerator that JAX finds; override it with GRADTAPE_DEVICE=CPU or tf.device",
        }
    if importlib.util.find_spec("jax") is None:
        return {"name": found, "why": f"other devices need JAX; for NVIDIA GPUs: {install('cuda')}"}
    return {"name": found, "why": f"JAX finds no accelerator; for NVIDIA GPUs: {install('cuda')}"}


def _keras_backend() -> dict[str, str] | None:
    """The backend that `import keras` selects, and why; None without Keras. Keras itself is not imported."""
    if importlib.util.find_spec("keras") is None:
        return None
    named = os.environ.get("KERAS_BACKEND")
    if named:
        return {"name": named, "why": f"KERAS_BACKEND={named}"}
    file = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras")) / "keras.json"
    chosen = ""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        chosen = str(json.loads(file.read_text("utf-8")).get("backend", ""))
    if chosen and not (chosen == "tensorflow" and importlib.util.find_spec("tensorflow") is None):
        return {"name": chosen, "why": f"set by {file}; tf.keras uses gradtape"}
    return {"name": "gradtape", "why": "no other backend is selected"}


def _cache() -> dict[str, Any]:
    """Where compiled programs are stored, and how much is there."""
    folder = default_folder()
    if folder is None:
        return {"folder": None, "files": 0, "bytes": 0}
    files = [file for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
    return {"folder": str(folder), "files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _blas() -> dict[str, Any]:
    """The library that NumPy was built with, and how many threads it says it will use."""
    build: Any = np.show_config(mode="dicts")
    library = build.get("Build Dependencies", {}).get("blas", {}) if isinstance(build, dict) else {}
    return {
        "library": library.get("name", "unknown"),
        "version": library.get("version", "unknown"),
        "threads": _blas_threads(),
    }


def _blas_threads() -> int | None:
    """The number of threads of the OpenBLAS in NumPy's wheels; None for any other library."""
    home = Path(np.__file__).parent
    for folder in (home.parent / "numpy.libs", home / ".dylibs"):
        for file in folder.glob("*openblas*"):
            with contextlib.suppress(OSError):
                library = ctypes.CDLL(str(file))  # it is loaded already: this finds it
                for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_"):
                    if hasattr(library, name):
                        return int(getattr(library, name)())
    return None


def _threads() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "quota": _quota(),
        "variables": {name: os.environ[name] for name in _THREADS if name in os.environ},
    }


def _quota(file: str = "/sys/fs/cgroup/cpu.max") -> float | None:
    """How many cores a container may use at a time, if it has a limit."""
    try:
        limit, period = Path(file).read_text().split()
        return int(limit) / int(period)
    except (OSError, ValueError):
        return None


def _import_seconds(repeats: int = 3) -> dict[str, float] | None:
    """The best times of `import numpy`, and of `import gradtape` after it, in fresh processes."""
    times = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        times.append([float(word) for word in done.stdout.split()[-2:]])
    return {"numpy": min(first for first, _ in times), "gradtape": min(second for _, second in times)}


# -- whether it is right -----------------------------------------------------------------------------------------------
def _self_check() -> dict[str, Any]:
    """Derivatives with known values, the worst error among them, and the time of one op with its gradient."""
    errors: dict[str, float | None] = {}
    for name, test in {"gradient": _gradient, "jacobian": _jacobian, "second derivative": _second}.items():
        try:
            found, expected = test()
            errors[name] = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
        except Exception as error:  # whatever is broken here is what the doctor is to report
            errors[name] = None
            return {"passed": False, "errors": errors, "failure": f"{name}: {type(error).__name__}: {error}"}
    passed = all(map(_small, errors.values()))
    return {"passed": passed, "errors": errors, "microseconds_per_op": _microseconds()}


def _small(error: float | None) -> bool:
    return error is not None and error <= TOLERANCE  # and not NaN


def _gradient() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 4)), rng.normal(size=(4, 3))
    weights = tf.Variable(w)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.tanh(tf.matmul(tf.constant(x), weights)) ** 2)
    t = np.tanh(x @ w)
    gradient: Any = tape.gradient(y, weights)
    return gradient.numpy(), x.T @ (2 * t * (1 - t * t))


def _jacobian() -> tuple[Any, Any]:
    x = tf.constant(np.linspace(-1.0, 1.0, 6))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cumsum(tf.exp(x))
    jacobian: Any = tape.jacobian(y, x)
    return jacobian.numpy(), np.tril(np.ones((6, 6))) * np.exp(x.numpy())


def _second() -> tuple[Any, Any]:
    x = tf.constant(np.linspace(0.5, 2.0, 4))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(x**3 * tf.sin(x))
        slope = inner.gradient(y, x)
    p = x.numpy()
    second: Any = outer.gradient(slope, x)
    return second.numpy(), 6 * p * np.sin(p) + 6 * p**2 * np.cos(p) - p**3 * np.sin(p)


def _microseconds(ops: int = 300, repeats: int = 5) -> float:
    """Forward and backward of one tanh of 8 numbers, in a chain of them: the best time."""
    x, best = tf.constant(np.ones(8, np.float32)), float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(ops):
                y = tf.tanh(y)
        tape.gradient(y, x)
        best = min(best, time.perf_counter() - start)
    return best / ops * 1e6


# -- what may cause trouble --------------------------------------------------------------------------------------------
def _thread_problems(threads: dict[str, Any], blas: dict[str, Any]) -> list[tuple[str, str]]:
    """Whether linear algebra uses more threads than help it."""
    found: list[tuple[str, str]] = []
    room = min(threads["usable_cores"] or 1, threads["quota"] or float("inf"))
    used = blas["threads"]
    if used is not None and used > max(room, 1):
        found.append((
            f"linear algebra uses {used} threads on {room:g} usable cores, so they wait for each other",
            f"OPENBLAS_NUM_THREADS={max(int(room), 1)}",
        ))  # fmt: skip
    elif used is not None and used > 8:
        found.append((
            f"linear algebra uses {used} threads, which is slower than one thread for small matrices (below about "
            "200 x 200)",
            "try OPENBLAS_NUM_THREADS=4, or 1, if your arrays are small",
        ))  # fmt: skip
    return found


def _import_problems(seconds: dict[str, float] | None) -> list[tuple[str, str]]:
    """Whether `import gradtape` fails in a new process, or is slow."""
    found: list[tuple[str, str]] = []
    if seconds is None:
        found.append(("a fresh Python cannot import gradtape", f"run {sys.executable} -c 'import gradtape' to see why"))
    elif seconds["gradtape"] > 0.2:
        slow = f"import gradtape takes {seconds['gradtape'] * 1e3:.0f} ms"
        if sys.flags.dont_write_bytecode:
            found.append((f"{slow}: Python is configured not to write bytecode", "unset PYTHONDONTWRITEBYTECODE"))
        else:
            found.append((slow, "possible reasons: a slow disk, a virus scanner or a busy machine; run it again"))
    return found


def _problems(findings: dict[str, Any]) -> list[dict[str, str]]:
    """Possible problems, each with what to do."""
    found: list[tuple[str, str]] = []
    packages, threads, blas = findings["packages"], findings["threads"], findings["blas"]
    for engine, result in findings["self_check"].items():
        if not result["passed"]:
            what = result.get("failure", f"derivatives on the {engine} engine are wrong")
            found.append((f"the self-check failed: {what}", "reinstall it: pip install --force-reinstall gradtape"))
    if packages["numpy"] and int(packages["numpy"].partition(".")[0]) < 2:
        found.append((f"NumPy {packages['numpy']} widens float32 to float64 in places", "pip install 'numpy>=2'"))
    if packages["keras"] and int(packages["keras"].partition(".")[0]) < 3:
        found.append((f"Keras {packages['keras']} needs TensorFlow", "pip install 'keras>=3'"))
    installed = _version("gradtape")
    if installed is not None and installed != __version__:
        found.append((
            f"gradtape {__version__} is running, from {findings['path']}, but {installed} is installed",
            "reinstall it, or check PYTHONPATH and the working directory",
        ))  # fmt: skip
    real = sys.modules.get("tensorflow")
    if real is not None and real is not tf:
        found.append((
            "the real tensorflow is imported in this process, by code that runs when Python starts",
            "tensors of the two libraries do not mix: import only one of them",
        ))  # fmt: skip
    for name in ("gradtape", "keras", "numpy", "tensorflow"):
        if os.path.exists(f"{name}.py"):
            found.append((f"{name}.py in this directory shadows the package {name}", "rename the file"))
    found += [*_thread_problems(threads, blas), *_import_problems(findings["import_seconds"])]
    return [{"problem": what, "advice": advice} for what, advice in found]


# -- showing -----------------------------------------------------------------------------------------------------------
def _show_stored(findings: dict[str, Any], printer: Printer) -> None:
    backend, cache = findings["keras_backend"], findings["cache"]
    if backend is not None:
        _section(printer, "keras", [["backend", backend["name"], backend["why"]]])
    stored = f"{cache['files']} files, {bytes_text(cache['bytes'])}"
    place = "off: GRADTAPE_CACHE" if cache["folder"] is None else cache["folder"]
    _section(printer, "compiled programs", [["stored", stored, place]])


def _show_linear_algebra(threads: dict[str, Any], blas: dict[str, Any], printer: Printer) -> None:
    quota = f", limited to the time of {threads['quota']:g}" if threads["quota"] else ""
    variables = ", ".join(f"{name}={value}" for name, value in threads["variables"].items())
    _section(printer, "linear algebra", [
        ["library", f"{blas['library']} {blas['version']}"],
        ["threads", "not known" if blas["threads"] is None else str(blas["threads"])],
        ["cores", f"{threads['usable_cores']} of {threads['cores']} usable{quota}"],
        ["settings", variables or "none (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, ... are not set)"],
    ])  # fmt: skip


def _show(findings: dict[str, Any], printer: Printer) -> None:
    printer.paragraph(
        f"gradtape {findings['gradtape']} on {findings['implementation']} {findings['python']}, {findings['system']}",
        hanging="  ",
    )
    _section(printer, "packages", [
        [name, version or "-", "" if version and _PACKAGES[name] != "not needed" else _PACKAGES[name]]
        for name, version in findings["packages"].items()
    ])  # fmt: skip
    _section(printer, "engines", [
        [name, "ready" if engine["ready"] else "-", ", ".join(engine.get("devices", ())) or engine.get("why", "")]
        for name, engine in findings["engines"].items()
    ])  # fmt: skip
    _section(printer, "device", [[findings["device"]["name"], findings["device"]["why"]]])
    _show_stored(findings, printer)
    _show_linear_algebra(findings["threads"], findings["blas"], printer)
    seconds, rows = findings["import_seconds"], []
    if seconds is not None:
        rows.append(["import", f"{seconds['gradtape'] * 1e3:.0f} ms after numpy's {seconds['numpy'] * 1e3:.0f} ms"])
    for engine, result in findings["self_check"].items():
        if "microseconds_per_op" in result:
            rows.append([engine, f"{result['microseconds_per_op']:.1f} microseconds for one small op and its gradient"])
    _section(printer, "speed", rows)
    _section(printer, "self-check", [
        [
            name,
            printer.style("ok", "green") if _small(error) else printer.style("wrong", "red"),
            "raised an error" if error is None else f"error {error:.0e}",
        ]
        for result in findings["self_check"].values()
        for name, error in result["errors"].items()
    ])  # fmt: skip
    printer.line()
    if not findings["problems"]:
        printer.line("All is well.", "green")
    for problem in findings["problems"]:
        printer.paragraph(f"! {problem['problem']}", hanging="  ")
        printer.paragraph(f"  -> {problem['advice']}", hanging="     ")


def _section(printer: Printer, title: str, rows: list[list[str]]) -> None:
    printer.line()
    printer.line(title, "bold")
    printer.table(rows, ("", "", "dim"))


def main(arguments: list[str]) -> int:
    """The command; the exit code."""
    parser = Parser("doctor", DESCRIPTION, EPILOG)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    with Progress(3) as progress:
        findings = examine(progress.step)
    if options.json:
        print(json.dumps(findings, indent=2))
    else:
        _show(findings, Printer())
    return 0 if all(result["passed"] for result in findings["self_check"].values()) else 1
