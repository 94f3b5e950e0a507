"""The page of supported names is what the package has, and every missing name has its reason."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _maker():
    spec = importlib.util.spec_from_file_location("make_supported", ROOT / "docs" / "make_supported.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    assert (ROOT / "docs" / "supported.md").read_text() == _maker().build(), "run python docs/make_supported.py"


def test_nothing_is_missing_without_a_reason():
    maker = _maker()
    names = [line.split()[0] for line in (ROOT / "docs" / "data" / "tensorflow_names.txt").read_text().splitlines()]
    missing = [name for name in names if maker.lookup(name) is None and maker.reason(name) is None]
    assert missing == []


def test_lookup_can_say_no():
    maker = _maker()
    assert maker.lookup("tf.no_such_name") is None
    assert maker.lookup("tf.math.sin") is not None
