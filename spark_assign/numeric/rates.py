"""Rates from readings: how fast counters went on, and how even that was.

A counter is an offset or the size of a log, read several times, each time with the time of its own answer. What cannot
be told is NaN: a counter that was read only once, one that is not there at the last reading, and an offset that went
back, as that of a topic made anew, of a log that lost its end, of a group that was reset.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Of each counter, per second: `mean` from its first reading to its last, `stddev` of the rates between readings.

    `stddev` is that of a sample (divided by one less than there are rates), NaN for fewer than two.
    """

    mean: Floats
    stddev: Floats


def rates(at: Floats, count: Floats) -> Rates:
    """How fast counters went on.

    Args:
        at: when each was read, in seconds; a row per counter, a column per reading.
        count: what was read, NaN where a reading has none. Rates are between those that are there.
    """
    spans, steps = _between(at, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(steps, axis=1) / np.nansum(spans, axis=1)
        each = steps / spans
        known = np.isfinite(mean) & ~np.isnan(count[:, -1]) & ~(steps < 0).any(axis=1)
        rated = np.isfinite(each)
        several = rated.sum(axis=1)
        off = np.where(rated, each - (np.where(rated, each, 0).sum(axis=1) / several)[:, None], 0)
        stddev = np.sqrt((off**2).sum(axis=1) / (several - 1))
    return Rates(np.where(known, mean, np.nan), np.where(known & (several > 1), stddev, np.nan))


def growth(at: Floats, size: Floats) -> Floats:
    """How fast logs grew, in bytes a second: over the time between those readings in which none got smaller.

    A log gets smaller where segments are deleted or compacted, which says nothing of what was written meanwhile. NaN
    where there is no time without.
    """
    spans, steps = _between(at, size)
    grew = steps >= 0
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(grew, steps, 0).sum(axis=1) / np.where(grew, spans, 0).sum(axis=1)
    return np.where(np.isfinite(rate) & ~np.isnan(size[:, -1]), rate, np.nan)


def _between(at: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Seconds and increase from each reading to the next one that is there; NaN where there is none before."""
    spans, steps = (np.full(count.shape, np.nan) for _ in range(2))
    last_at, last = (np.full(len(count), np.nan) for _ in range(2))
    for reading in range(count.shape[1]):
        there = ~np.isnan(count[:, reading])
        spans[there, reading] = (at[:, reading] - last_at)[there]
        steps[there, reading] = (count[:, reading] - last)[there]
        last_at, last = np.where(there, at[:, reading], last_at), np.where(there, count[:, reading], last)
    return spans, steps
