"""One declaration for each primitive: everything about it stands there, and nothing in a table elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from test_op_table import declared

import gradtape as tf
from gradtape._src.core.primitive import CATEGORIES, HAZARDS, Op, registry
from gradtape._src.inspect.causes import Cause, forward_cause
from gradtape._src.inspect.explain import shown_op
from gradtape._src.inspect.picture import kind_of

PACKAGE = Path(tf.__file__).parent

TABLES = {  # modules that have literals of several primitives' names, and why that is no fact about the primitives
    "arrays/__init__.py": "the primitives behind Python's operators",
    "arrays/abstract.py": "shapes of results: rules of that interpreter",
    "arrays/base.py": "the functions that the libraries have under the same name",
    "arrays/dimension.py": "functions of dimensions, which are no primitives",
    "arrays/dimensions.py": "what computes with dimensions as with integers: rules of that interpreter",
    "arrays/lazy/trace.py": "what runs at once instead of being recorded: rules of that interpreter",
    "arrays/numpy/state.py": "NumPy's functions that update a variable",
    "cli/export_numpy.py": "NumPy expressions of nodes: rules of that interpreter",
    "cli/export_onnx.py": "ONNX ops of nodes: rules of that interpreter",
    "core/dispatch.py": "the methods behind Python's reflected operators",
    "core/fast/calls.py": "whose vjps lazy arrays record as one call: rules of that interpreter",
    "core/primitive.py": "the names of hazards",
    "core/zero_preserving.py": "how zeros are preserved in products: rules of that interpreter",
    "distribute/variables.py": "the methods that assign to a variable",
    "formats/event.py": "the fields of a message",
    "graph/bounds.py": "the bounds of integers: rules of that interpreter",
    "graph/lazy_programs.py": "what moves numbers only, where long chains are divided",
    "graph/numpy_executor.py": "NumPy kernels whose result is new memory",
    "graph/passes.py": "algebra of graphs: rules of that interpreter",
    "graph/__init__.py": "the ops at which rewrites begin",
    "graph/recomputation/costs.py": "estimated costs of nodes, of which some are functions of namespaces",
    "graph/rewrites/attention.py": "the patterns of one rewrite",
    "graph/rewrites/losses.py": "the patterns of one rewrite",
    "graph/rewrites/sources.py": "the patterns of all rewrites",
    "inspect/rounding/enclosures.py": "enclosures of results: rules of that interpreter",
    "keras_backend/numpy.py": "the reductions of Keras",
    "numpy_api/behavior.py": "NumPy's methods of arrays",
    "numpy_api/elementwise.py": "the functions that NumPy has under other names",
    "numpy_api/shapes.py": "NumPy's functions",
    "ops/operators.py": "the methods behind Python's operators",
    "raw_ops/definition.py": "names of arguments that Python has other meanings for",
    "tensor.py": "NumPy's attributes that tensors do not have",
    "tf/v1/names.py": "functions by their old names",
    "tf/v1/summary.py": "summaries by their old names",
    "tf/v1/graphs/op_names.py": "the names of TensorFlow's functions, and of the operations they add",
    "variable/slices.py": "the functions that update a variable",
}


def resolved(name: str):
    """The public function of a name without `tf.`, or None."""
    found = tf
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


@pytest.mark.parametrize("op", registry.values(), ids=registry)
def test_every_primitive_is_declared_whole(op: Op):
    assert op.category in CATEGORIES
    assert op.doc.endswith(".")
    assert op.tf_name[0].isupper()
    assert set(op.hazards) <= set(HAZARDS)
    assert all(callable(resolved(name)) for name in op.names), f"gradtape has not all of {op.names}"
    if op.call.__name__ == op.name:
        assert op.call.__doc__ == op.docstring()


@pytest.mark.parametrize("op", registry.values(), ids=registry)
def test_public_names_of_a_call_are_declared(op: Op):
    """A call that is a TensorFlow function has that name in its declaration."""
    for space, functions in (("", tf), ("math.", tf.math), ("nn.", tf.nn), ("linalg.", tf.linalg)):
        for name in dir(functions):
            if getattr(functions, name) is op.call:
                assert space + name in op.names


def literals(path: Path):
    """Literals in which three or more primitives are named, except the lists of public names."""
    tree = ast.parse(path.read_text("utf-8"))
    public = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0])
    ]
    for node in ast.walk(tree):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        if len(names & registry.keys()) >= 3 and node not in public:
            yield node


def test_there_are_no_tables_of_primitives():
    found = {
        str(path.relative_to(PACKAGE / "_src").as_posix())
        for path in (PACKAGE / "_src").rglob("*.py")
        if any(literals(path))
    }
    assert found - TABLES.keys() == set(), "declare the fact with the primitive instead of listing primitives"
    assert TABLES.keys() - found == set(), "no longer needed in TABLES"


def test_one_declaration_is_enough():
    """The docstring, the name in messages, the colour and the cause of a NaN come with the declaration."""
    facts = {
        "names": ("math.log_minus",),
        "doc": "log(-x).",
        "example": ("tf.math.log_minus([-1.0])", "[0.]"),
        "category": "activation",
        "hazards": ("log",),
    }
    with declared("negative_log", lambda x: np.log(-x), lambda g, x: g / x, **facts) as negative_log:
        op = registry["negative_log"]
        assert op.docstring().startswith("log(-x).\n\n>>> import gradtape as tf\n>>> print(tf.math.log_minus([-1.0])")
        assert shown_op(op) == "log_minus"
        assert kind_of("log_minus", True) == "activation"
        zero = np.zeros(1, np.float32)
        with np.errstate(all="ignore"):
            assert forward_cause(op, [zero], np.log(-zero), {}) is Cause.LOG_OF_ZERO
        with tf.GradientTape() as tape:
            x = tf.Variable([-2.0])
            y = negative_log(x)
        np.testing.assert_allclose(tape.gradient(y, x), [-0.5])
