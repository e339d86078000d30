"""Counts with their nouns and verbs, the same in every text."""

from __future__ import annotations


def count(value: int, noun: str, one: str = "", many: str = "") -> str:
    """Returns a count with its noun, and optionally a verb: `1 group`, `2,000 groups`, `1 partition has`.

    Args:
        value: the count.
        noun: the noun in the singular; an `s` makes its plural.
        one, many: the verb that follows, for one and for any other number.
    """
    words = f"{value:,} {noun} {one}" if value == 1 else f"{value:,} {noun}s {many}"
    return words.rstrip()
