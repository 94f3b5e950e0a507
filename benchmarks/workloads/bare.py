"""gradtape without the hooks of its views: they are taken out of the source of the hot path before it is loaded."""

from __future__ import annotations

import re
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

from benchmarks.workloads import tape

_HOT_PATH = "gradtape._src.core.dispatch"
_HOOK = re.compile(r"if (append\(.*\)) is True:\n\s+recorder\.on_op\(.*\)")


class _WithoutHooks(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """The code of the altered source; byte code on the disk is that of the original."""
        source, count = _HOOK.subn(r"\1", self.get_source(fullname) or "")
        if count < 3:  # of one, of two, and of any number of operands
            raise SystemExit(f"{self.path} has no hooks like {_HOOK.pattern}: look how views are told of an op now.")
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != _HOT_PATH:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _WithoutHooks(fullname, spec.origin)
        return spec


class Workloads(tape.Workloads):
    def __init__(self, library: str) -> None:
        del library
        if "gradtape" in sys.modules:
            raise RuntimeError("gradtape was loaded before its hooks could be taken out.")
        sys.meta_path.insert(0, _Finder())
        super().__init__("gradtape")
        self.tf.GradientTape = self.tf.GradientTape.__base__  # the tape without views
