"""Connectors and tasks as whole numbers, which sort as Kafka sorts them.

Principle: the connector in the upper 32 bits; below them 0 for the connector itself, or its task's number plus 1. A
connector's number is its place among all names in the order of `String.compareTo` (UTF-16 code units), so that items
sort by connector, then by task *number* (`ConnectorTaskId.compareTo`).

Example: with the names [Mirror, jdbc], connector jdbc is 1 << 32 and its task 0 is (1 << 32) + 1, before its task 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_assign.java.hash_map import java_key, string_hashes

TASK_BITS = 32
_TASK = (1 << TASK_BITS) - 1
_UNSIGNED = 0xFFFFFFFF


class Names:
    """Distinct names, numbered in the order of `String.compareTo`.

    Attributes:
        texts: the names.
        spread: of each the hash that a `HashMap` spreads over its buckets.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts: list[str] = sorted(set(texts))
        if not all(map(str.isascii, self.texts)):  # ascii sorts alike by code point and by UTF-16 unit
            self.texts.sort(key=java_key)
        hashes = string_hashes(self.texts) if self.texts else None
        self.spread: list[int] = [] if hashes is None else ((hashes ^ (hashes >> 16)) & _UNSIGNED).tolist()

    def numbers(self) -> dict[str, int]:
        """The number of each name."""
        return {text: number for number, text in enumerate(self.texts)}


def connector_item(connector: int) -> int:
    """The connector itself."""
    return connector << TASK_BITS


def task_item(connector: int, task: int) -> int:
    """One task of a connector."""
    return (connector << TASK_BITS) + task + 1


def connector_of(item: int) -> int:
    """The connector that an item is or belongs to."""
    return item >> TASK_BITS


def task_of(item: int) -> int:
    """The task's number; -1 for a connector."""
    return (item & _TASK) - 1


def is_task(item: int) -> bool:
    """Whether an item is a task (else a connector)."""
    return bool(item & _TASK)


def parted(items: Iterable[int]) -> tuple[list[int], list[int]]:
    """The connectors and the tasks among the items, each in the order given."""
    connectors: list[int] = []
    tasks: list[int] = []
    for item in items:
        (tasks if item & _TASK else connectors).append(item)
    return connectors, tasks


def named(item: int, connectors: Sequence[str]) -> tuple[str, int | None]:
    """An item's connector by name, and its task; null for the connector itself."""
    task = task_of(item)
    return connectors[connector_of(item)], None if task < 0 else task
