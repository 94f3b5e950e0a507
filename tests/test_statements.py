"""What the documentation says is missing or limited is so, and what it advises exists.

Every line of the pages and every entry of the reference that says so is listed here with a check of the package. A line
that is not listed fails the test: add it, with a check.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import statement_checks as checks
from statement_checks import absent, lookup, of_keras, refused, runs_eagerly
from test_reference import described, public_names

import gradtape as tf
from gradtape._src import reasons

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {"supported.md", "libraries.md"}  # tests compare them with the package

NEEDS_VALUES = tf.ones([2])

STATEMENTS: list[tuple[str, str, Callable[[], object]]] = [
    ("README.md", "Not supported: parameter servers, TensorFlow Lite, queues and imported graphs", checks.outside),
    ("checkpoints.md", "| `save` inside a `tf.function` | `NotImplementedError`", checks.save_in_function),
    ("checkpoints.md", "slot variables, which Keras 3 does not have", checks.needing("keras", checks.no_slots)),
    ("coming-from.md", "| missing | parameter servers, TensorFlow Lite, queues and imported graphs", checks.outside),
    ("coming-from.md", "`jax.custom_jvp` | missing", absent("tf.custom_jvp", "tf.autodiff.custom_jvp")),
    ("compiled-functions.md", "functions with control flow over tensors run eagerly", checks.eager_without_malt),
    ("compiled-functions.md", "`jit_compile=True` raises an error", checks.needing("jax", checks.shapes_on_xla)),
    ("compiled-functions.md", "in which they differ runs eagerly", checks.sizes_differ),
    ("compiled-functions.md", "tensors of unknown rank also runs eagerly", checks.unknown_rank),
    ("compiled-functions.md", "code that cannot be compiled raises", checks.needing("jax", checks.shapes_on_xla)),
    ("custom-gradients.md", "NumPy code on arrays and has no gradient", checks.no_gradient_of_numpy_function),
    ("data.md", "Functions run eagerly, as plain Python on tensors", checks.map_is_sequential),
    ("data.md", "`num_parallel_calls` is accepted but has no effect", checks.map_is_sequential),
    ("data.md", "A `tf.function` that reads a dataset runs eagerly", checks.dataset_eager),
    ("data.md", "Keras 3 has no layer for them", checks.without_layer("DenseFeatures")),
    ("debugging.md", "`strong_zeros=True` has", checks.strong_zeros_in_functions),
    ("debugging.md", "no effect inside the function", lambda: runs_eagerly(checks.checked_inside, NEEDS_VALUES)),
    ("differential-equations.md", "`odeint` has no implicit methods", refused(checks.implicit_method, ValueError)),
    ("distributed-training.md", "## What is missing", checks.no_parameter_server),
    ("distributed-training.md", "are not supported: the constructor raises an error", checks.no_parameter_server),
    ("distributed-training.md", "does not run ops for other processes", checks.no_server),
    ("extension-types.md", "a few others do not, and raise an error", checks.not_dispatched),
    ("implicit-derivatives.md", "The initial guess, `x0`, has no gradient", checks.no_gradient_of_start),
    ("implicit-derivatives.md", "that reads values (`.numpy()`) works only", checks.only_outside_functions),
    ("implicit-derivatives.md", "complex ones raise `TypeError`", refused(checks.complex_root, TypeError)),
    ("keras.md", "flash attention | not supported", of_keras(checks.attention)),
    ("memory-limits.md", "where shapes depend on values, it runs eagerly", checks.limit_of_unknown_shapes),
    ("memory-limits.md", "`spill` means that the function runs eagerly", checks.spill_inside),
    ("memory-limits.md", "It cannot be combined with `profile`, `check_numerics` or `graph`", checks.not_combined),
    ("ragged.md", "functions that do not accept one raise `ValueError`", refused(checks.inverse_of_rows, ValueError)),
    ("raw-ops.md", "Attrs that gradtape does not implement", checks.raw_attrs),
    ("raw-ops.md", "such as `use_cudnn_on_gpu`, have no effect", checks.raw_attrs),
    ("raw-ops.md", "kernels, the internals of `tf.data`) do not exist", checks.raw_ops),
    ("rounding.md", "## What is not proved", checks.estimated),
    ("rounding.md", "Some ops have no interval rule", checks.estimated),
    ("rounding.md", "`certify` raises an error", checks.certify_inside),
    ("rounding.md", "function run eagerly", lambda: runs_eagerly(checks.digests_inside, NEEDS_VALUES)),
    ("saved-models.md", "raises `tf.errors.UnimplementedError`", checks.needing("jax", checks.python_is_not_saved)),
    ("second-order-methods.md", "`minimize` itself must be called outside functions", checks.values_needed),
    ("second-order-methods.md", "inside a function they raise an error that says so", checks.values_needed),
    ("sparse-derivatives.md", '`sparse="scipy"` does not work there', checks.sparse_scipy_inside),
    ("sparse-derivatives.md", "Sources and targets must be real", checks.sparse_needs_real),
    ("taylor-mode.md", "`tape.taylor` raises `NotImplementedError`", checks.taylor_limits),
    ("tensorflow1.md", "otherwise they raise an error that says so", checks.imported_by_name),
    ("tensorflow1.md", "`keras.ops` do not accept tensors", checks.needing("keras", checks.keras_functions_in_graphs)),
    ("tensorflow1.md", "`MonitoredSession` are not supported", checks.no_queues),
    ("text.md", "String functions have no derivatives", checks.constants),
]
"""(page, words of the statement, check that it holds)."""

OTHERWISE = {
    "README.md": ["A missing name raises"],
    "adding-an-op.md": ["a test fails if one is missing"],
    "autodiff-in-100-lines.md": ["bookkeeping is missing"],
    "checkpoints.md": ["to check for missing ones", "You may be missing"],
    "clusters.md": ["you cannot compute with DTensors", "complete or does not exist", "do not stop the heartbeat"],
    "coming-from.md": ["missing.", "--only missing"],
    "compiled-functions.md": [
        "the memory that is planned",
        "To use a debugger or `print`, run functions eagerly",
        "where an index cannot be out of range",
        "You cannot turn this off",  # tests/arrays: both engines have 64 bits
        "values on a GPU cannot be read",  # tests/test_forks.py
    ],
    "data.md": ["which TensorFlow cannot read"],
    "debugging.md": [".missing", "--only missing", "GradientTape.gradient has no gradient", "gradtape does not have"],
    "differences.md": ["space is missing"],
    "distributed-training.md": ["Batches that do not divide evenly run eagerly"],  # tests/distribute/test_workers.py
    "faq.md": ["attributes that tensors do not have"],
    "files.md": ["ram://results/missing"],
    "getting-started.md": ["cannot compute AddV2"],
    "keras.md": ["it cannot read a model whose layers"],  # a limit of Keras
    "memory-limits.md": ["cannot be recomputed", "(`jax.checkpoint` has no effect there"],
    "migrating.md": ["--only missing", "missing (1)", "1 missing.", "a name is missing"],
    "raw-ops.md": ["missing 1 required"],
    "rounding.md": ["It cannot see values that no derivative needs"],
    "saved-models.md": [
        "0 missing",
        "What XLA cannot run is saved as TensorFlow ops",
        "an op that gradtape does not have",  # tests/saved_model
        "for loaded models, TensorFlow cannot",
        "which contain graphs but no objects, are refused",  # tests/saved_model
        "The server has no authentication",
        "have no bfloat16 kernels",
    ],
    "scaling.md": ["one device cannot hold"],
    "sparse-derivatives.md": ["values that cannot change from point to point"],
    "tapes.md": ["the dtype has no derivatives"],
    "text.md": ["its steps then run eagerly"],  # tests/keras_backend/test_keras_text.py
}
"""Lines with these words say nothing about what gradtape has, or the test in the comment checks them."""

_SAYS = re.compile(r"\bmissing\b|[Nn]ot (?:yet )?supported|[Nn]ot yet\b|\bplanned\b|gradtape has no\b|outside gradtape")
"""Words that say that something is missing."""

_LIMITS = re.compile(
    r"\bcannot\b|\bdo(?:es)? not (?:exist|support|work|have|implement|accept|see|run ops)\b|\bno effect\b|\brefused\b"
    r"|\bnot proved\b|NotImplementedError|UnimplementedError|\bruns? (?:\w+ )?eagerly|called outside functions"
    r"|raise an error (?:that says|if)"
    r"|\b(?:has|have) no (?:\w+ kernels|derivatives|gradient|interval|layer|\w+ methods)"
)
"""Words that say that something is limited."""

_ABOUT_TENSORFLOW = {"differences.md", "how-it-works.md", "autodiff-in-100-lines.md", "adding-an-op.md"}
"""Pages about TensorFlow's limits, and about how gradtape works."""


ENTRIES: list[tuple[str, str, Callable[[], object]]] = [
    ("tf.numpy_function", "so it has no gradient", checks.no_gradient_of_numpy_function),
    ("tf.numpy_function", "functions are called every time", checks.called_every_time),
    ("tf.TensorArray.grad", "Raise an error", refused(checks.array_gradient, tf.errors.UnimplementedError)),
    ("tf.math.betainc", "Only x has a gradient", checks.only(tf.math.betainc, 0.5, 0.5, 0.5, differentiable=2)),
    ("tf.math.ceil", "there is no gradient", checks.only(tf.math.ceil, 0.5)),
    ("tf.math.floor", "there is no gradient", checks.only(tf.math.floor, 0.5)),
    ("tf.math.polygamma", "Only x has a gradient", checks.only(tf.math.polygamma, 1.0, 0.5, differentiable=1)),
    ("tf.math.rint", "there is no gradient", checks.only(tf.math.rint, 0.5)),
    ("tf.math.zeta", "Only q has a gradient", checks.only(tf.math.zeta, 2.0, 0.5, differentiable=1)),
    ("tf.linalg.tridiagonal_solve", "`partial_pivoting` has no effect", checks.pivoting),
    ("tf.linalg.tridiagonal_solve", "the solution of a singular system is NaN", checks.singular_system),
    ("tf.random.Algorithm", "Only Philox is implemented", refused(checks.threefry, tf.errors.UnimplementedError)),
    ("tf.random.shuffle", "it has no gradient", checks.only(tf.random.shuffle, [1.0, 2.0])),
    ("tf.autodiff.implicit", "The initial guess, `x0`, has no gradient", checks.no_gradient_of_start),
    ("tf.config.set_visible_devices", "the CPU cannot be excluded", refused(checks.without_cpu, ValueError)),
    ("tf.distribute.ParameterServerStrategy", "Not supported", checks.no_parameter_server),
    ("tf.distribute.Server.join", "Raise an error", checks.no_server),
    ("tf.feature_column.shared_embeddings", "this works only in graphs", refused(checks.shared, RuntimeError)),
    ("tf.guarantee_const", "TensorFlow has no gradient", refused(checks.gradient_of_const, LookupError)),
]
"""The same for entries of the reference: (name, words, check)."""

NO_LIMIT = {
    "tf.GradientTape.explain",
    "tf._results.Explanation.headline",
    "tf.config.set_none_policy",
    "tf.no_gradient",
}
"""Entries about gradients that are None."""

_LIMIT_OF_ENTRY = re.compile(
    r"\b(?<!is )[Nn]ot supported\b|[Oo]nly \S+ (?:has a gradient|is implemented)|\bno gradient\b|cannot be excluded"
    r"|works only|\b[Rr]aise an error:|`\w+` has no effect|called every time|solution of a singular"
)


@pytest.mark.parametrize(("page", "words", "check"), STATEMENTS, ids=[words[:40] for _, words, _ in STATEMENTS])
def test_what_is_missing(page: str, words: str, check: Callable[[], object]):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    assert words in path.read_text(encoding="utf-8")
    check()


def test_every_statement_is_checked():
    listed: dict[str, list[str]] = {page: list(words) for page, words in OTHERWISE.items()}
    for page, words, _ in STATEMENTS:
        listed.setdefault(page, []).append(words)
    unchecked = [
        f"{page.name}:{number}: {line.strip()}"
        for page in PAGES
        if page.name not in GENERATED
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if (_SAYS.search(line) or (page.name not in _ABOUT_TENSORFLOW and _LIMITS.search(line)))
        and not any(words in line for words in listed.get(page.name, ()))
    ]
    assert unchecked == []


def test_every_exception_is_needed():
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert [(page, words) for page, own in OTHERWISE.items() for words in own if words not in texts[page]] == []


def test_names_that_pages_call_missing_by_a_table_exist_otherwise():
    """The left column of coming-from.md names other libraries; every `tf.` name on the right is gradtape's."""
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(tf\.[A-Za-z_.]+[A-Za-z_])", text))
    if importlib.util.find_spec("keras") is None:
        names = {name for name in names if not name.startswith("tf.keras")}
    assert {name for name in names if lookup(name) is None and name != "tf.reduce_men"} == set()


def test_reasons_advise_what_exists():
    texts = [why for _, why in reasons.REASONS] + list(reasons.RENAMED.values())
    names = {name for text in texts for name in re.findall(r"\btf\.[\w.]*\w", text)}
    if importlib.util.find_spec("keras") is None:
        names = {name for name in names if not name.startswith("tf.keras")}
    assert {name for name in names if lookup(name) is None} == set()


def test_reasons_promise_nothing():
    assert [why for _, why in reasons.REASONS if re.search(r"\bplanned\b|\bnot yet\b|outside gradtape", why)] == []


@cache
def _entries() -> dict[str, str]:
    known = public_names.glossary()
    return {name: public_names.described(name, value, known) for _, name, value, _ in described()}


@pytest.mark.parametrize(
    ("name", "words", "check"), ENTRIES, ids=[f"{name} {words[:20]}" for name, words, _ in ENTRIES]
)
def test_what_an_entry_says(name: str, words: str, check: Callable[[], object]):
    assert words in " ".join(_entries()[name].split())
    check()


def test_every_entry_is_checked():
    listed = {name: [own for other, own, _ in ENTRIES if other == name] for name, _, _ in ENTRIES}
    unchecked = [
        f"{name}: {line.strip()}"
        for name, text in _entries().items()
        for line in text.splitlines()
        if _LIMIT_OF_ENTRY.search(line)
        and not re.search(r"Error: If ", line)
        and name not in NO_LIMIT
        and not any(words in line for words in listed.get(name, ()))
    ]
    assert unchecked == []
