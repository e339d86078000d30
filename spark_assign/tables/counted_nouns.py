"""Counts with their nouns, the same in every text."""

from __future__ import annotations


def count(value: int, noun: str) -> str:
    """Returns a count with its noun: `1 group`, `2,000 groups`. An `s` makes the plural of the noun."""
    return f"{value:,} {noun if value == 1 else noun + 's'}"
