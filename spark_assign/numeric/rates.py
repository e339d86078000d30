"""Computes rates from repeated readings of counters.

A counter is an offset or the size of a log. Each reading has a time of its own. A rate is NaN if it is unknown: the
counter was read only once, it is missing in the last reading, or an offset decreased (the topic was created again, the
log was truncated, or the group was reset).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.arrays import FloatArray


@dataclass(frozen=True)
class Rates:
    """Rates per second, one per counter.

    Attributes:
        mean: from the first reading to the last.
        stddev: sample standard deviation of the rates between readings; NaN for fewer than two rates.
    """

    mean: FloatArray
    stddev: FloatArray


def rates(at: FloatArray, count: FloatArray) -> Rates:
    """Returns the rates of counters.

    Args:
        at: time of each reading, in seconds. Shape: (num_counters, num_readings).
        count: value of each reading, NaN if it is missing. Same shape.
    """
    spans, steps = _between(at, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(steps, axis=1) / np.nansum(spans, axis=1)
        interval_rates = steps / spans
        known = np.isfinite(mean) & ~np.isnan(count[:, -1]) & ~(steps < 0).any(axis=1)
        is_known = np.isfinite(interval_rates)
        num_rates = is_known.sum(axis=1)
        deviation = np.where(
            is_known, interval_rates - (np.where(is_known, interval_rates, 0).sum(axis=1) / num_rates)[:, None], 0
        )
        stddev = np.sqrt((deviation**2).sum(axis=1) / (num_rates - 1))
    return Rates(np.where(known, mean, np.nan), np.where(known & (num_rates > 1), stddev, np.nan))


def growth_rates(at: FloatArray, size: FloatArray) -> FloatArray:
    """Returns how fast logs grew, in bytes per second, over the intervals in which they did not shrink.

    A log shrinks if segments are deleted or compacted; how much was written meanwhile is unknown. NaN if a log shrank
    in every interval.
    """
    spans, steps = _between(at, size)
    grew = steps >= 0
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(grew, steps, 0).sum(axis=1) / np.where(grew, spans, 0).sum(axis=1)
    return np.where(np.isfinite(rate) & ~np.isnan(size[:, -1]), rate, np.nan)


def _between(at: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the seconds and the increase from the preceding reading that exists; NaN if there is none."""
    spans, steps = (np.full(count.shape, np.nan) for _ in range(2))
    last_at, last = (np.full(len(count), np.nan) for _ in range(2))
    for reading in range(count.shape[1]):
        exists = ~np.isnan(count[:, reading])
        spans[exists, reading] = (at[:, reading] - last_at)[exists]
        steps[exists, reading] = (count[:, reading] - last)[exists]
        last_at, last = np.where(exists, at[:, reading], last_at), np.where(exists, count[:, reading], last)
    return spans, steps
