"""Counts with their nouns and verbs, the same in every text."""

from __future__ import annotations


def count(value: int | None, noun: str, one: str = "", many: str = "") -> str:
    """Returns a count with its noun, and optionally a verb: `1 group`, `2,000 groups`, `1 partition has`.

    Args:
        value: the count; None if it isn't known, as in a damaged stored run.
        noun: the noun in the singular; an `s` makes its plural.
        one, many: the verb that follows, for one and for any other number.
    """
    number = "an unknown number of" if value is None else f"{value:,}"
    words = f"{number} {noun} {one}" if value == 1 else f"{number} {noun}s {many}"
    return words.rstrip()
