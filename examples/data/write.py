"""Write `reviews.txt`: short restaurant reviews, good (+) and bad (-), generated from a small grammar.

The meaning of a review depends on the word order: "not" negates the next word, and what follows "but" outweighs the
rest. Good and bad reviews contain the same words.

    python examples/data/write.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

REVIEWS = 1000
THINGS = {  # what can be said of each, good words first
    "the soup": ("delicious rich fresh tasty", "bland cold salty awful"),
    "the bread": ("fresh crisp warm tasty", "stale hard dry awful"),
    "the fish": ("tender fresh delicious perfect", "dry overcooked salty cold"),
    "the cake": ("light delicious perfect rich", "dry stale heavy bland"),
    "the coffee": ("strong rich excellent fresh", "weak bitter cold awful"),
    "the waiter": ("friendly quick helpful charming", "rude slow careless unfriendly"),
    "the cook": ("inspired careful excellent generous", "careless lazy hopeless clumsy"),
    "the music": ("lovely gentle charming excellent", "loud tiring awful dull"),
    "the room": ("bright warm lovely quiet", "dark loud dirty cold"),
    "the bill": ("fair modest honest reasonable", "shocking wrong unfair absurd"),
}
STRENGTH = ("", "", "very", "really", "quite", "rather", "so")
OPENINGS = ("", "", "well", "honestly", "last night", "as always", "to be fair", "on sunday", "this time")
ENDINGS = ("", "", "here", "this time", "again", "for once", "tonight", "as we feared", "as we hoped", "they say")


def clause(rng: np.random.Generator, good: bool) -> str:
    """Return a noun with an adjective; sometimes with the opposite adjective and a negation."""
    thing = str(rng.choice(list(THINGS)))
    turned = rng.random() < 0.3
    word = rng.choice(THINGS[thing][0 if good != turned else 1].split())
    verb = rng.choice(("was not", "is not", "was never", "was hardly") if turned else ("was", "is", "seemed", "was"))
    return " ".join(f"{thing} {verb} {rng.choice(STRENGTH)} {word}".split())


def review(rng: np.random.Generator, good: bool) -> str:
    kind = rng.integers(3)
    if kind == 0:
        body = clause(rng, good)
    elif kind == 1:
        body = f"{clause(rng, good)} and {clause(rng, good)}"
    else:
        body = f"{clause(rng, not good)} but {clause(rng, good)}"
    return " ".join(f"{rng.choice(OPENINGS)} {body} {rng.choice(ENDINGS)}".split())


def main() -> None:
    rng = np.random.default_rng(0)
    lines: dict[str, None] = {}  # a dict, so that no review occurs twice
    while len(lines) < REVIEWS:
        good = len(lines) % 2 == 0
        lines[f"{'+' if good else '-'} {review(rng, good)}"] = None
    Path(__file__).with_name("reviews.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
