"""Finds the order of a rolling restart in which the fewest coordinators and leaders move.

Principles, in order of priority: fewest moves of coordinators (each counts for its groups), then of leaders.

When a broker stops, each partition that it leads goes to the first other replica in the order of its list, which are
all up, because one broker restarts at a time. If leaders don't return (`auto.leader.rebalance.enable=false`), a
partition moves again only if its new leader restarts later. So a broker should restart after the brokers to which its
leaders go; the first one can't. If leaders return after each restart, each partition moves twice in any order; one with
another leader than the preferred one at the start returns once, at the first restart of one of its replicas.

Example: partitions [1, 2], [2, 3], and [3, 1], one group each. In the order 1, 2, 3: the first moves to 2, back to 1;
the second moves to 3, back to 2; the third moves to 1: 5 moves. In the order 1, 3, 2: the first moves to 2, back to 1;
the third moves to 1; the second moves to 3: 4 moves, and no order has fewer.

Up to `EXACT_BROKERS` brokers, every order is tried. With more, the broker with the fewest leaders at the time restarts
next, and exchanges of two brokers improve this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, islice, permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.numeric.arrays import IntArray

GIVEN, FEWEST = "given", "fewest-moves"
EXACT_BROKERS = 6
NEVER = np.iinfo(np.int64).max
"""Position of a broker that doesn't restart."""
MAX_TRIALS = 400
"""Maximum number of exchanges that are tried."""

Moves = tuple[int, int]


class Leadership:
    """The partitions of a cluster, by their list of replicas.

    Attributes:
        replicas: shape (num_lists, 3), broker indexes: the first two replicas, and the leader if it's a later one; -1
            for none. No other replica ever leads, because the first other one takes over.
        leader: broker index of the current leader of each list.
        weights: shape (2, num_lists): groups that the partitions coordinate, and partitions; 0 for a single replica,
            which can't move.
    """

    def __init__(
        self, replicas: Sequence[Sequence[int]], leader: Sequence[int], groups: Sequence[int], partitions: Sequence[int]
    ) -> None:
        """Takes the lists of broker IDs (none is empty), their current leaders (of these IDs), and their weights."""
        sizes = np.array([len(brokers) for brokers in replicas], np.int64)
        self._starts = np.cumsum(sizes) - sizes
        every = np.fromiter(chain.from_iterable(replicas), np.int64, int(sizes.sum()))
        self.brokers, self._all = np.unique(every, return_inverse=True)
        self.leader = np.searchsorted(self.brokers, np.asarray(leader, np.int64))
        self.replicas = np.full((len(sizes), 3), -1, np.int64)
        self.replicas[:, 0] = self._all[self._starts]
        self.replicas[sizes > 1, 1] = self._all[self._starts[sizes > 1] + 1]
        is_later = np.logical_or.reduceat(self._all == np.repeat(self.leader, sizes), self._starts)
        is_later &= (self.replicas[:, :2] != self.leader[:, None]).all(axis=1)
        self.replicas[is_later, 2] = self.leader[is_later]
        self.weights = np.array([groups, partitions], np.int64) * (sizes > 1)

    def indexes(self, brokers: Sequence[int]) -> IntArray:
        """Returns the indexes of those brokers that have replicas."""
        known = np.isin(brokers, self.brokers)
        return np.searchsorted(self.brokers, np.asarray(brokers, np.int64)[known])

    def count(self, brokers: Sequence[int]) -> Moves:
        """Returns the coordinators and leaders that move if the brokers restart in an order and leaders stay."""
        rank = self._rank(brokers)
        visits = np.argsort(rank[self.replicas], axis=1, kind="stable")
        visited = np.take_along_axis(self.replicas, visits, axis=1)
        leader, moves = self.leader, np.zeros(2, np.int64)
        for column in range(visited.shape[1]):
            moved = (visited[:, column] == leader) & (rank[leader] < NEVER)
            moves += self.weights @ moved
            leader = np.where(moved, self.next_leader(leader), leader)
        return int(moves[0]), int(moves[1])

    def _rank(self, brokers: Sequence[int]) -> IntArray:
        """Returns the position of each broker index in an order; `NEVER`: none."""
        order = self.indexes(brokers)
        rank = np.full(len(self.brokers) + 1, NEVER, np.int64)  # the last one is that of index -1
        rank[order] = np.arange(len(order))
        return rank

    def next_leader(self, leader: IntArray) -> IntArray:
        """Returns the first replica of each list that isn't the leader; of a single replica, the leader."""
        first, second = self.replicas[:, 0], self.replicas[:, 1]
        return np.where((first == leader) & (second >= 0), second, first)

    def count_returning(self, brokers: Sequence[int]) -> Moves:
        """Returns the same if all leaders return after each restart: each moves away and back."""
        rank, preferred = self._rank(brokers), self.replicas[:, 0]
        first = np.minimum.reduceat(rank[self._all], self._starts)  # of all replicas
        returns = (self.leader != preferred) & (first < NEVER)
        later = (rank[preferred] < NEVER) & ~(returns & (first == rank[preferred]))
        groups, partitions = self.weights @ (2 * later + returns)
        return int(groups), int(partitions)

    def fewest_leaders_next(self, brokers: Sequence[int]) -> list[int]:
        """Returns the brokers, each time the one that leads the fewest groups, then partitions, at that time."""
        leader, order, remaining = self.leader, [], self.indexes(brokers).tolist()
        while remaining:
            led = [np.bincount(leader, weights, len(self.brokers)) for weights in self.weights]
            broker = min(remaining, key=lambda broker: (led[0][broker], led[1][broker]))
            leader = np.where(leader == broker, self.next_leader(leader), leader)
            remaining.remove(broker)
            order.append(int(self.brokers[broker]))
        return [*order, *(broker for broker in brokers if broker not in order)]


def fewest_moves(leadership: Leadership, brokers: Sequence[int]) -> list[int]:
    """Returns the order of these brokers with the fewest moves found; the given one if none has fewer."""
    if len(brokers) <= EXACT_BROKERS:
        return min(map(list, permutations(brokers)), key=lambda order: leadership.count(order))
    order = min((list(brokers), leadership.fewest_leaders_next(brokers)), key=leadership.count)
    best = leadership.count(order)
    for first, second in islice(combinations(range(len(order)), 2), MAX_TRIALS):
        trial = order.copy()
        trial[first], trial[second] = trial[second], trial[first]
        if (moves := leadership.count(trial)) < best:
            order, best = trial, moves
    return order


def restart_orders(facts: pa.Table, schema: pa.Schema) -> Iterable[pa.Table]:
    """Yields the orders of each cluster with their moves (`tables.replicas.ORDERS`).

    Args:
        facts: cluster, replicas, leader_id, groups, partitions, brokers (of the cluster, in the given order). A row has
            replicas or brokers, else a list of many brokers would be repeated for each list of replicas.
        schema: schema of the result.
    """
    for cluster in pc.unique(facts["cluster"]).sort().to_pylist():
        of_cluster = facts.filter(pc.equal(facts["cluster"], cluster))
        rows = of_cluster.filter(of_cluster["replicas"].is_valid()).drop_columns("brokers").to_pylist()
        if not rows:
            continue
        rows.sort(key=lambda row: (row["replicas"], row["leader_id"]))
        columns = ([row[name] for row in rows] for name in ("replicas", "leader_id", "groups", "partitions"))
        leadership = Leadership(*columns)
        given = of_cluster["brokers"].drop_null()[0].as_py()
        orders = {GIVEN: given, FEWEST: fewest_moves(leadership, given)}
        yield pa.Table.from_pylist(
            [_order_row(leadership, cluster, name, order, stay) for name, order in orders.items() for stay in (0, 1)],
            schema,
        )


def _order_row(leadership: Leadership, cluster: str, name: str, order: Sequence[int], stay: int) -> dict[str, Any]:
    groups, partitions = leadership.count(order) if stay else leadership.count_returning(order)
    row = {"cluster": cluster, "order": name, "leaders_return": not stay, "brokers": list(order)}
    return row | {"coordinators_moved": groups, "leaders_moved": partitions}
