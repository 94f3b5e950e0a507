"""How the site's search ranks pages: those about the code come behind those about its use."""

from __future__ import annotations

BEHIND = (
    "index.md",
    "design/",
    "how-it-works.md",
    "adding-an-op.md",
    "changelog.md",
    "contributing.md",
    "benchmarks.md",
)


def boost(page: str) -> float:
    """The factor by which the search multiplies the score of a page in docs/."""
    return 0.3 if page.startswith(BEHIND) else 1.0
