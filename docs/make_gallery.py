"""Write docs/gallery.md: the table of examples/README.md with the pictures that the examples save.

    python docs/make_gallery.py

The pictures are docs/images/gallery/*.webp, 760 pixels wide, made from what `python examples/NAME.py` saves.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = """---
hide: [toc]
---
# Gallery

Pictures made by the scripts in `examples/`. Each script demonstrates one technique and runs in less than a minute on
one CPU core:

    pip install 'gradtape[viz]'
    python examples/linear_regression.py

<div class="gallery" markdown>
"""


def build() -> str:
    """The page: a card for each example that has a picture, in the order of the table."""
    text = (HERE.parent / "examples" / "README.md").read_text(encoding="utf-8")
    cards = []
    for name, shows, picture, seconds in re.findall(
        r"^\| \[`(\w+)\.py`\]\(\S+\) \| (.*?) \| (.*?) \| (.*?) \|$", text, re.M
    ):
        if (HERE / "images" / "gallery" / f"{name}.webp").exists():
            image = f"![{picture}](images/gallery/{name}.webp)"
            link = f"[`{name}.py`](../examples/{name}.py)"
            cards.append(f"<div markdown>\n{image}\n\n{link}: {shows}. {seconds}\n</div>\n")
    return PAGE + "\n" + "\n".join(cards) + "\n</div>\n"


if __name__ == "__main__":
    (HERE / "gallery.md").write_text(build(), encoding="utf-8")
