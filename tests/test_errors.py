"""gradtape.errors: TensorFlow's hierarchy, constructors and codes."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import traceback
from pathlib import Path

import pytest

import gradtape
from gradtape._src import errors

ROOT = Path(__file__).parent.parent

CODES = {
    "CancelledError": 1,
    "UnknownError": 2,
    "InvalidArgumentError": 3,
    "DeadlineExceededError": 4,
    "NotFoundError": 5,
    "AlreadyExistsError": 6,
    "PermissionDeniedError": 7,
    "ResourceExhaustedError": 8,
    "FailedPreconditionError": 9,
    "AbortedError": 10,
    "OutOfRangeError": 11,
    "UnimplementedError": 12,
    "InternalError": 13,
    "UnavailableError": 14,
    "DataLossError": 15,
    "UnauthenticatedError": 16,
}


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_every_class_knows_its_code(name, code):
    kind = getattr(errors, name)
    assert kind.__mro__[1:3] == (errors.OpError, Exception)
    error = kind(None, None, "went wrong")
    assert (error.error_code, error.message, str(error), error.op, error.node_def) == (
        code,
        "went wrong",
        "went wrong",
        None,
        None,
    )


def test_codes_are_named_after_the_classes():
    for name, code in CODES.items():
        words = "".join("_" + c if c.isupper() else c for c in name.removesuffix("Error")).strip("_").upper()
        assert getattr(errors, words) == code
    assert errors.OK == 0


def test_the_base_class_takes_a_code():
    assert errors.OpError(None, None, "m", 3).error_code == 3
    assert errors.OpError(None, None, "m", error_code=3).error_code == 3
    assert errors.OpError(None, None, "m").error_code is None


def test_keywords_and_missing_arguments():
    assert errors.NotFoundError(node_def=None, op=None, message="m").message == "m"
    with pytest.raises(TypeError, match="required positional argument"):
        errors.NotFoundError("m")


def test_payloads():
    assert errors.AbortedError(None, None, "m").experimental_payloads == {}
    assert errors.AbortedError(None, None, "m", {"key": b"value"}).experimental_payloads == {"key": b"value"}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidArgumentError("node", "op", "m", {"key": b"value"}),
        errors.OpError(None, None, "m", 5, {"key": b"value"}),
        errors.OpError(None, None, "m"),
    ],
)
def test_copies_keep_everything(error, copied):
    again = copied(error)
    assert type(again) is type(error)
    for name in ("node_def", "op", "message", "error_code", "experimental_payloads", "args"):
        assert getattr(again, name) == getattr(error, name)


def test_classes_outside_the_hierarchy():
    assert issubclass(errors.OperatorNotAllowedInGraphError, TypeError)
    assert issubclass(errors.InaccessibleTensorError, ValueError)
    assert not issubclass(errors.InvalidArgumentError, (ValueError, TypeError))


def test_invalid_argument_names_the_op():
    assert str(errors.invalid_argument("bad")) == "bad"
    error = errors.invalid_argument("bad", "AddV2")
    assert isinstance(error, errors.InvalidArgumentError)
    assert error.message == "bad [Op:AddV2]"


@pytest.mark.parametrize(
    ("name", "why"),
    [("lite", "own runtime"), ("to_float", "use tf.cast"), ("reduce_men", "'$")],
)
def test_a_name_that_is_missing_has_a_reason(name, why):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}.*{why}") as caught:
        getattr(gradtape, name)
    known = why != "'$"  # where the reason is known, Python must not guess another name
    assert (caught.value.name, caught.value.obj) == (name, None if known else gradtape)
    if sys.version_info >= (3, 12):  # before, only the interpreter guesses, and not the module traceback
        assert ("Did you mean" in "".join(traceback.format_exception(caught.value))) != known


@pytest.mark.parametrize("extra", ["xla", "keras", "cuda", "all"])
def test_extras_that_need_a_newer_python(extra: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    assert errors.install(extra) == f"gradtape[{extra}] needs Python 3.11 or newer, but this is Python 3.10"
    assert errors.install("viz") == "pip install 'gradtape[viz]'"
    monkeypatch.setattr(sys, "version_info", (3, 11, 0))
    assert errors.install(extra) == f"pip install 'gradtape[{extra}]'"


def test_the_advice_is_as_the_extras_are_declared():
    """The markers in pyproject.toml, and no advice in the sources that does not know them."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert text.count("python_version >= '3.11'") == 4
    plain = [
        f"{file.name}: {line.strip()}"
        for file in (ROOT / "src").rglob("*.py")
        for line in file.read_text("utf-8").splitlines()
        if re.search(r"pip install 'gradtape\[(?:xla|keras|cuda|all)\]", line)
    ]
    assert plain == []
