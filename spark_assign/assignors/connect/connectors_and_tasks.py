"""Connectors and tasks as integers (items), and the orders in which Java and Connect's protocol list them.

An item holds the index of its connector in the upper 32 bits, and below them 0 for the connector itself, or the task's
number plus 1. Connectors are indexed in the order of `String.compareTo` (UTF-16 code units), so that items sort by
connector, then by task *number* (`ConnectorTaskId.compareTo`).

Example: with the names [Mirror, jdbc], connector jdbc is 1 << 32 and its task 0 is (1 << 32) + 1, before its task 10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from spark_assign.assignors.server.coordinator_order import map_capacity, set_capacity, spread_order
from spark_assign.java.hash_map import java_key, spread_hashes, string_hashes

ConnectorsAndTasks = tuple[list[int], list[int]]
"""Connectors and tasks of a worker, as items (Kafka: `ConnectorsAndTasks`)."""

TASK_BITS = 32
_TASK = (1 << TASK_BITS) - 1


class Names:
    """Distinct names, indexed in the order of `String.compareTo`.

    Attributes:
        texts: The sorted names.
        spread_hash: Hash of each name as `HashMap` spreads it over its buckets; parallel to `texts`.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts: list[str] = sorted(set(texts))
        if not all(map(str.isascii, self.texts)):  # ASCII sorts equally by code point and by UTF-16 unit
            self.texts.sort(key=java_key)
        self.spread_hash: list[int] = spread_hashes(string_hashes(self.texts)).tolist()

    def indexes(self) -> dict[str, int]:
        """Returns the index of each name."""
        return {text: index for index, text in enumerate(self.texts)}


def connector_item(connector: int) -> int:
    """Returns the item of a connector."""
    return connector << TASK_BITS


def task_item(connector: int, task: int) -> int:
    """Returns the item of a task of a connector."""
    return (connector << TASK_BITS) + task + 1


def connector_of(item: int) -> int:
    """Returns the index of the connector that the item is or belongs to."""
    return item >> TASK_BITS


def is_task(item: int) -> bool:
    """Checks whether the item is a task."""
    return bool(item & _TASK)


def split_items(items: Iterable[int]) -> ConnectorsAndTasks:
    """Returns the connectors and the tasks among the items, each in input order."""
    connectors: list[int] = []
    tasks: list[int] = []
    for item in items:
        (tasks if item & _TASK else connectors).append(item)
    return connectors, tasks


def item_name(item: int, connectors: Sequence[str]) -> tuple[str, int | None]:
    """Returns the name of the item's connector, and its task number; `None` for a connector."""
    return connectors[connector_of(item)], (item & _TASK) - 1 if is_task(item) else None


# --- iteration order of a HashSet ---
#
# A hash table has a power of two of buckets, and a name is in the bucket of its spread hash modulo that number.
# Iteration goes from bucket to bucket, and within a bucket in insertion order. Example: the hashes 17, 1, and 2 in 16
# buckets: 17 and 1 share bucket 1, so the order is 17, 1, 2. If more than eight names share a bucket, the table is
# treeified, and `HashTable` inserts the names as Java does.


def hash_set_order(indexes: Sequence[int], spread_hash: Sequence[int]) -> list[int]:
    """Returns the iteration order of a `HashSet` that is filled one by one.

    The set starts with 16 buckets and doubles them if more than three quarters are used.

    Args:
        indexes: Indexes of the names (`Names`), in insertion order.
        spread_hash: Spread hash of every name, by index (`Names.spread_hash`).
    """
    spread = [spread_hash[index] for index in indexes]
    return spread_order(indexes, spread, map_capacity(len(indexes)), int, map_capacity(0))


def copied_hash_set_order(indexes: Sequence[int], spread_hash: Sequence[int]) -> list[int]:
    """Returns the iteration order of a `HashSet` that is copied from a collection, which presizes it.

    Arguments are those of `hash_set_order`; the collection can repeat a name.
    """
    distinct = list(dict.fromkeys(indexes))
    return spread_order(distinct, [spread_hash[index] for index in distinct], set_capacity(len(indexes)), int)


# --- order after serialization ---


def serialized_order(connectors: Sequence[int], tasks: Sequence[int], spread_hash: Sequence[int]) -> ConnectorsAndTasks:
    """Returns the order in which a receiver reads connectors and tasks (`ConnectProtocol.Assignment.asMap`).

    Items are serialized grouped by connector. Connectors are in iteration order of `new HashSet<>(connectors)`. Tasks
    follow the order in which their connectors first occur, the listed connectors first.

    Example: connectors [a, b], tasks [c-0, b-0, a-1, b-1], and the `HashSet` iterates b, a: the result is the
    connectors [b, a] and the tasks [b-0, b-1, a-1, c-0].

    Every assignment and every report is serialized. A load-balancing revocation takes the first items of a worker's
    list, so it depends on the hashes of the connectors' names.

    Args:
        connectors: Items in the sender's order.
        tasks: Items in the sender's order.
        spread_hash: Spread hash of every connector, by index (`Names.spread_hash`).
    """
    ordered = copied_hash_set_order([connector_of(item) for item in connectors], spread_hash) if connectors else []
    groups: dict[int, list[int]] = {connector: [] for connector in ordered}
    for task in tasks:
        groups.setdefault(connector_of(task), []).append(task)
    return [connector_item(connector) for connector in ordered], [task for group in groups.values() for task in group]


def apply_assignment(
    listed: ConnectorsAndTasks, assigned: ConnectorsAndTasks, revoked: Collection[int], spread_hash: Sequence[int]
) -> ConnectorsAndTasks:
    """Returns a worker's list after it applies an assignment: new items in serialized order, then those that it keeps.

    Args:
        listed: The worker's previous list.
        assigned: Newly assigned items, in the order in which the leader sends them.
        revoked: Items that the worker stops.
        spread_hash: Spread hash of every connector, by index (`Names.spread_hash`).
    """
    new = serialized_order(*assigned, spread_hash)
    connectors, tasks = ([item for item in kind if item not in revoked] for kind in listed)
    return new[0] + connectors, new[1] + tasks
