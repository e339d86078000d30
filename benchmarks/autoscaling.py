"""The algorithms and streams of Landau et al., "Multi-Objective Optimization of Consumer Group Autoscaling in Message
Broker Systems" (arXiv 2402.06085), as the paper and Landau's thesis describe them.

Partitions are packed into consumers of one capacity. The any-fit algorithms sort partitions, the largest first; where
one fits nowhere, its own consumer is opened, if it is not open yet, or else the first that is not. The modified ones
sort consumers, by all they have or by their largest partition, and take one after the other: its partitions, the
smallest first, go to the consumers that are open, until one fits nowhere; then it is opened, and keeps of the others,
the largest first, what fits; the rest waits until all consumers are done, and goes then, the largest first, as in any
fit.

A consumer that has nothing takes any partition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

CAPACITY = 100.0
PARTITIONS, MEASUREMENTS = 200, 500
DELTAS = (5, 10, 15, 20, 25)
STARTS = (0, 50, 100, None)
"""Speeds at first: of all partitions the same, or of each its own, uniform between 0 and 100."""


def stream(delta: int, start: int | None, measurements: int = MEASUREMENTS) -> list[FloatArray]:
    """Speeds in per cent of the capacity: each a random walk between 0 and 100, in steps between -delta and delta."""
    draw = np.random.default_rng([delta, 101 if start is None else start])
    first = draw.integers(0, 101, PARTITIONS) if start is None else np.full(PARTITIONS, start)
    speeds = [first.astype(np.float64)]
    for _ in range(measurements):
        speeds.append(np.clip(speeds[-1] + draw.integers(-delta, delta + 1, PARTITIONS), 0, 100))
    return speeds


class Consumers:
    """Consumers as they are opened and filled; they are asked for in the order of their numbers."""

    def __init__(self, speed: FloatArray, now: IntArray) -> None:
        """None is open."""
        self.speed, self.now = speed, now
        self.at = np.full(len(speed), -1)
        self.load = np.full(2 * len(speed) + 1, np.nan)
        self.has_some = np.zeros(len(self.load), bool)
        self.last = -1

    def open(self, consumer: int) -> None:
        """Start it."""
        self.load[consumer] = 0.0
        self.last = consumer

    def fits(self, partition: int) -> NDArray[np.bool_]:
        """Of each consumer whether it is open and takes a partition."""
        after = self.load + self.speed[partition]
        fits: NDArray[np.bool_] = ~np.isnan(after) & ((after <= CAPACITY) | ~self.has_some)
        return fits

    def put(self, partition: int, consumer: int) -> None:
        """Assign it."""
        self.at[partition] = consumer
        self.load[consumer] += self.speed[partition]
        self.has_some[consumer] = True

    def put_or_open(self, partition: int, fit: Fit) -> None:
        """As any fit does."""
        consumer = fit(self, partition)
        if consumer < 0:
            own = int(self.now[partition])
            is_free = own >= 0 and bool(np.isnan(self.load[own]))
            consumer = own if is_free else int(np.flatnonzero(np.isnan(self.load))[0])
            self.open(consumer)
        self.put(partition, consumer)


Fit = Callable[[Consumers, int], int]
"""The consumer that takes a partition; -1: none does."""


def next_fit(consumers: Consumers, partition: int) -> int:
    """The last one that was opened."""
    last = consumers.last
    return last if last >= 0 and consumers.fits(partition)[last] else -1


def first_fit(consumers: Consumers, partition: int) -> int:
    """The first."""
    fits = np.flatnonzero(consumers.fits(partition))
    return int(fits[0]) if len(fits) else -1


def best_fit(consumers: Consumers, partition: int) -> int:
    """The fullest."""
    fits = consumers.fits(partition)
    return int(np.argmax(np.where(fits, consumers.load, -1.0))) if fits.any() else -1


def worst_fit(consumers: Consumers, partition: int) -> int:
    """The emptiest."""
    fits = consumers.fits(partition)
    return int(np.argmin(np.where(fits, consumers.load, np.inf))) if fits.any() else -1


def decreasing(fit: Fit) -> Callable[[FloatArray, IntArray], IntArray]:
    """Any fit, of partitions in decreasing order."""

    def assign(speed: FloatArray, now: IntArray) -> IntArray:
        consumers = Consumers(speed, now)
        for partition in np.argsort(-speed, kind="stable").tolist():
            consumers.put_or_open(partition, fit)
        return consumers.at

    return assign


def modified(fit: Fit, by: Callable[[FloatArray], float]) -> Callable[[FloatArray, IntArray], IntArray]:
    """Modified any fit, of consumers in decreasing order of something of their partitions' speeds."""

    def assign(speed: FloatArray, now: IntArray) -> IntArray:
        consumers = Consumers(speed, now)
        waiting = np.flatnonzero(now < 0).tolist()
        members = np.unique(now[now >= 0])
        size = np.array([by(speed[now == member]) for member in members])
        for member in members[np.argsort(-size, kind="stable")].tolist():
            mine = np.flatnonzero(now == member)
            waiting += _keep(consumers, mine[np.argsort(-speed[mine], kind="stable")].tolist(), member, fit)
        for partition in sorted(waiting, key=lambda each: (-speed[each], each)):
            consumers.put_or_open(partition, fit)
        return consumers.at

    return assign


def _keep(consumers: Consumers, mine: list[int], member: int, fit: Fit) -> list[int]:
    """One consumer's partitions, the largest first; those that have to wait."""
    while mine:
        consumer = fit(consumers, mine[-1])
        if consumer < 0:
            break
        consumers.put(mine.pop(), consumer)
    if mine:
        consumers.open(member)
    for place, partition in enumerate(mine):
        if not consumers.fits(partition)[member]:
            return mine[place:]
        consumers.put(partition, member)
    return []


def _all(speed: FloatArray) -> float:
    return float(speed.sum())


def _largest(speed: FloatArray) -> float:
    return float(speed.max())


ALGORITHMS: dict[str, Callable[[FloatArray, IntArray], IntArray]] = {
    "NFD": decreasing(next_fit),
    "FFD": decreasing(first_fit),
    "BFD": decreasing(best_fit),
    "WFD": decreasing(worst_fit),
    "MWF": modified(worst_fit, _all),
    "MBF": modified(best_fit, _all),
    "MWFP": modified(worst_fit, _largest),
    "MBFP": modified(best_fit, _largest),
}


def r_score(speed: FloatArray, now: IntArray, at: IntArray) -> float:
    """What is written each second to partitions that change their consumer, in consumers' capacities."""
    return float(speed[(now >= 0) & (now != at)].sum()) / CAPACITY
