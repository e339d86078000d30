"""Searches a small cluster for a placement within all bounds that moves fewer bytes, by branch and bound.

Principles
    1. Partitions are decided one after the other, the largest first. A node has a choice of replicas and leader for
       each decided partition; the other partitions still have their current replicas. All nodes of a level are arrays.
    2. The bound of a node is what the decided partitions move, plus the fewest bytes that the others must move: to
       leave brokers that can't have replicas, or to bring the load of every goal within the bounds of brokers. The
       partitions with the fewest bytes per load come first, and count in fractions, so the bound is never too high.
    3. A node is dropped if its bound isn't below the best placement. If the others are more than fit into `_CELLS`, the
       lowest bounds stay; of equal ones first the node with the least load outside of the bounds.

If no level had too many nodes, the result has the fewest bytes of all placements within the bounds.

Example: both brokers may have 45 to 55 MB; broker 0 has replicas of 50, 30, and 20 MB, broker 1 none. At least 45 MB
must move. If the replica of 50 MB stays, both others must move: 50 MB. If it moves, no other one does: 50 MB as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from spark_assign.numeric.arrays import FloatArray, IntArray
from spark_assign.replicas.kernel.load_placement import EPSILON, LoadPlacement
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER

SEARCHED_PARTITIONS, SEARCHED_CHOICES = 100, 3_000
"""Largest number of partitions, and of choices of replicas and leaders over all partitions, that are searched."""

_CELLS, _ALL_CELLS, _PASSES = 2_000_000, 40_000_000, 10
"""Largest number of loads (nodes x choices x goals x brokers) that are computed for a level and for all levels, and of
passes. They bound the time and the memory."""

_PER_LEADER = 1e-4
"""Cost of a changed leader, in bytes: less than a byte in total."""


class _Choices(NamedTuple):
    """The ways to place a partition, those that move the fewest bytes first.

    Attributes:
        rows: the replicas of each choice, the leader first.
        cost: the moved bytes. Shape: (num_choices,).
        change: what a choice changes in the loads. Shape: (num_choices, num_goals, num_usable).
    """

    rows: list[list[int]]
    cost: FloatArray
    change: FloatArray


def branch_and_bound(balance: LoadPlacement) -> list[list[int]]:
    """Returns the best placement that the search finds, starting from one within all bounds."""
    num_choices = sum(comb(len(balance.usable), len(row)) * len(row) for row in balance.replicas)
    is_large = len(balance.size) > SEARCHED_PARTITIONS or num_choices > SEARCHED_CHOICES
    if is_large or any(balance.violation) or balance.moved_bytes == balance.required_bytes:
        return balance.replicas
    order = sorted(range(len(balance.size)), key=lambda partition: (-balance.size[partition], partition))
    choices = [_choices(balance, partition) for partition in order]
    rest_costs = [_rest_costs(balance, order[level:]) for level in range(1, len(order) + 1)]
    required = np.append(np.cumsum([choice.cost[0] for choice in choices[::-1]])[::-1], 0.0)
    for _ in range(_PASSES):
        if not (better := _search(balance, choices, rest_costs, required)):
            break
        balance.place([row for _, row in sorted(zip(order, better, strict=True))])
    return balance.replicas


def _search(
    balance: LoadPlacement,
    choices: list[_Choices],
    rest_costs: list[list[tuple[FloatArray, FloatArray]]],
    required: FloatArray,
) -> list[list[int]] | None:
    """Returns the replicas of each partition in the order of `choices`; None if no better placement is found."""
    slack = EPSILON / 2 * np.array(balance.mean)[:, None]
    most = np.array(balance.most)[:, balance.usable] + slack
    least = np.array(balance.least)[:, balance.usable] - slack
    load = np.sum([[_load(balance, partition, row) for partition, row in enumerate(balance.current)]], axis=1)
    moved, path = np.zeros(1), []
    cells = min(_CELLS, _ALL_CELLS // len(choices)) // most.size
    for level, choice in enumerate(choices):
        node, chosen = np.nonzero(moved[:, None] + choice.cost + required[level + 1] < balance.moved_bytes)
        moved, load = moved[node] + choice.cost[chosen], load[node] + choice.change[chosen]
        outside = np.maximum(np.maximum(load - most, 0).sum(axis=2), np.maximum(least - load, 0).sum(axis=2))
        rest, tightness = np.full(len(node), required[level + 1]), np.zeros(len(node))
        for goal, (weight, cost) in enumerate(rest_costs[level]):
            rest = np.maximum(rest, np.interp(outside[:, goal], weight, cost, right=np.inf))
            tightness += outside[:, goal] / max(weight[-1], balance.mean[goal])
        bound = moved + rest
        stays = np.flatnonzero(bound < balance.moved_bytes)
        following = len(choices[level + 1].rows) if level + 1 < len(choices) else 1
        stays = _select(stays, bound, tightness, max(1, cells // following))
        if not len(stays):
            return None
        path.append((node[stays], chosen[stays]))
        moved, load = moved[stays], load[stays]
    index, rows = int(moved.argmin()), []
    for (node, chosen), choice in zip(reversed(path), reversed(choices), strict=True):
        rows.append(choice.rows[chosen[index]])
        index = node[index]
    return rows[::-1]


def _select(stays: IntArray, bound: FloatArray, tightness: FloatArray, limit: int) -> IntArray:
    """Returns up to `limit` nodes with the lowest bounds. Of nodes with the same bytes, all but one come last."""
    if len(stays) <= limit:
        return stays
    num_bytes = np.floor(bound[stays])
    order = np.lexsort((tightness[stays], num_bytes))
    is_first = np.append(True, np.diff(num_bytes[order]) > 0)
    selected: IntArray = np.sort(stays[np.append(order[is_first], order[~is_first])[:limit]])
    return selected


def _choices(balance: LoadPlacement, partition: int) -> _Choices:
    current = balance.current[partition]
    any_leader = any(load.leaders_only for load in balance.loads)
    rows = []
    for brokers in combinations(balance.usable, len(balance.replicas[partition])):
        if len({balance.rack[broker] for broker in brokers}) >= balance.racks_needed[partition]:
            row = sorted(brokers, key=lambda broker: current.index(broker) if broker in current else len(current))
            rows += [
                [leader, *(broker for broker in row if broker != leader)] for leader in (row if any_leader else row[:1])
            ]
    size = balance.size[partition]
    cost = np.array(
        [size * len(set(row).difference(current)) + _PER_LEADER * (row[0] != current[0]) for row in rows], np.float64
    )
    order = np.argsort(cost, kind="stable")
    rows = [rows[index] for index in order.tolist()]
    before = _load(balance, partition, current)
    return _Choices(rows, cost[order], np.array([_load(balance, partition, row) - before for row in rows]))


def _load(balance: LoadPlacement, partition: int, row: Sequence[int]) -> FloatArray:
    """Returns the load of a partition on usable brokers. Shape: (num_goals, num_usable)."""
    load = np.zeros((len(balance.loads), len(balance.rack)))
    for goal, bounded in enumerate(balance.loads):
        holders = [broker for broker in (row[:1] if bounded.leaders_only else row) if broker != NO_BROKER]
        load[goal, holders] = balance.weight[goal][partition]
    usable: FloatArray = load[:, balance.usable]
    return usable


def _rest_costs(balance: LoadPlacement, partitions: list[int]) -> list[tuple[FloatArray, FloatArray]]:
    """Returns, for each goal, increasing loads that the partitions can pass on, and the fewest bytes that these move.

    A leader passes its load to another replica without moving bytes, as does a replica that isn't needed any longer.
    """
    costs = []
    for goal, bounded in enumerate(balance.loads):
        steps = []
        for partition in partitions:
            weight, size = balance.weight[goal][partition], balance.size[partition]
            needed = len(balance.replicas[partition])
            usable = sum(balance.is_usable[broker] for broker in balance.current[partition])
            if bounded.leaders_only:
                steps.append((weight, 0))
            else:
                steps.append((weight * max(needed, usable), 0 if usable > needed else size * needed))
        steps = sorted((step for step in steps if step[0]), key=lambda step: step[1] / step[0])
        weights, sizes = zip((0, 0), *steps, strict=True)
        costs.append((np.cumsum(weights, dtype=np.float64), np.cumsum(sizes, dtype=np.float64)))
    return costs
