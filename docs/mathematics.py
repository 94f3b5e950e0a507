"""Formulas of the site: TeX between dollar signs becomes MathML, which browsers draw without a script."""

from __future__ import annotations

import re
from html import unescape

from latex2mathml.converter import convert

_VERBATIM = re.compile(r"<(pre|code|script|style)\b.*?</\1>", re.DOTALL)
_FORMULA = re.compile(r"\$\$(?P<block>[^$]+)\$\$|\$(?P<inline>[^\s$](?:[^$]*[^\s$])?)\$")
_FUNCTION = "<mi>[a-z]{2,}</mi>"
_AFTER = re.compile(rf"(<ms(?:up|ub)>)?{_FUNCTION}(?=<m(?:i|n|sup|sub|frac|row|sqrt)>)")
_BEFORE = re.compile(rf"</m(?:i|n|sup|sub|frac|row|sqrt)>(?={_FUNCTION})")


def _spaced(mathml: str) -> str:
    """Add the spaces around functions such as sin, which browsers leave out."""
    space = '<mspace width="0.17em"/>'
    mathml = _AFTER.sub(lambda found: found[0] if found[1] else found[0] + space, mathml)
    return _BEFORE.sub(lambda found: found[0] + space, mathml)


def _mathml(found: re.Match[str]) -> str:
    tex, display = (found["block"], "block") if found["block"] else (found["inline"], "inline")
    return _spaced(convert(unescape(tex).strip(), display=display))


def rendered(html: str) -> str:
    """The content of a page with its formulas as MathML; code stays as it is."""
    parts, end = [], 0
    for verbatim in _VERBATIM.finditer(html):
        parts += [_FORMULA.sub(_mathml, html[end : verbatim.start()]), verbatim[0]]
        end = verbatim.end()
    return "".join([*parts, _FORMULA.sub(_mathml, html[end:])])
