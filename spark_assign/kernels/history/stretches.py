"""Commits as stretches in which no two that follow each other are further apart than a threshold.

Stretches of some commits and stretches of others make those of all of them, whatever was united first: two are one if
they overlap or touch within the threshold, which holds of their commits exactly if it holds of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.kernels.arrays import Ints
from spark_assign.kernels.segments import first_of_each

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Stretches:
    """Stretches of commits as columns; `slot` is the number of what is committed. One commit is a stretch, too."""

    slot: Ints
    from_ms: Ints
    until_ms: Ints
    commits: Ints
    first_offset: Ints
    last_offset: Ints


def of_commits(slot: Ints, at_ms: Ints, offset: Ints, gap_ms: int) -> tuple[Stretches, Ints]:
    """The stretches of single commits, as `united`."""
    return united(Stretches(slot, at_ms, at_ms, np.ones(len(slot), np.int64), offset, offset), gap_ms)


def united(some: Stretches, gap_ms: int) -> tuple[Stretches, Ints]:
    """The fewest stretches that say the same, by slot and time, and of each a row that is in it.

    Of several commits at one moment the largest offset counts, so that no order of the records matters.
    """
    if not len(some.slot):
        return some, some.slot
    order = np.argsort(in_one(some.slot, some.from_ms), kind="stable")
    some = Stretches(*(column[order] for column in _columns(some)))
    latest = in_one(some.slot, some.until_ms)
    reach = some.until_ms[_place_of_largest(latest)]
    begins = first_of_each(some.slot)
    begins[1:] |= some.from_ms[1:] - reach[:-1] > gap_ms
    first = np.flatnonzero(begins)
    of = np.cumsum(begins) - 1
    from_ms, until_ms = some.from_ms[first], np.maximum.reduceat(some.until_ms, first)
    at_first = np.where(some.from_ms == from_ms[of], some.first_offset, _LEAST)
    at_last = np.where(some.until_ms == until_ms[of], some.last_offset, _LEAST)
    found = Stretches(
        some.slot[first],
        from_ms,
        until_ms,
        np.add.reduceat(some.commits, first),
        np.maximum.reduceat(at_first, first),
        np.maximum.reduceat(at_last, first),
    )
    return found, order[first]


def in_one(major: Ints, minor: Ints) -> Ints:
    """One number for two, that sorts as the first does and, where those are equal, as the second; not below 0."""
    if not len(major):
        return major
    low, high, many = int(minor.min()), int(minor.max()), int(major.max()) + 1
    if many * (high - low + 1) >= 1 << 63:
        values, minor = np.unique(minor, return_inverse=True)
        low, high = 0, len(values) - 1
    return major * (high - low + 1) + (minor - low)


def _place_of_largest(numbers: Ints) -> Ints:
    """Of each row the place of the largest number up to it."""
    largest = np.maximum.accumulate(numbers)
    return np.maximum.accumulate(np.where(numbers == largest, np.arange(len(numbers)), 0))


def _columns(some: Stretches) -> tuple[Ints, ...]:
    return tuple(getattr(some, name) for name in Stretches.__dataclass_fields__)
