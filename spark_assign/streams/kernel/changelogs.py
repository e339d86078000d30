"""Sizes of the changelogs of a classic application, and the rates at which they grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spark_assign.assignors.streams.classic_application import ClassicApplication, TopicPartition
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.streams.kernel.state_restores import Growth


@dataclass(frozen=True)
class Changelogs:
    """The changelogs of an application.

    Attributes:
        application: the application.
        partitions: columns of the table `changelogs` of each partition, with the rates that `loads` has.
    """

    application: ClassicApplication
    partitions: Mapping[TopicPartition, Mapping[str, Any]]

    @cached_property
    def sizes(self) -> dict[TaskId, float] | None:
        """Bytes of the changelogs of each stateful task; None if a size is unknown. New changelogs are empty."""
        sizes = {partition: row.get("bytes") for partition, row in self.partitions.items()}
        if None in sizes.values():
            return None
        application = self.application
        return {
            task: sum(sizes.get(partition) or 0.0 for partition in application.changelog_partitions(task))
            for task in application.stateful
        }

    @cached_property
    def growth(self) -> dict[TaskId, Growth] | None:
        """What each task with a known rate writes while it runs; None if no rate is known."""
        rates = {partition: _growth(row) for partition, row in self.partitions.items()}
        found = {
            task: [rate for each in self.application.changelog_partitions(task) if (rate := rates.get(each))]
            for task in self.application.stateful
        }
        return {task: Growth(*map(sum, zip(*of, strict=True))) for task, of in found.items() if of} or None

    @property
    def bytes_per_second(self) -> float | None:
        """Rate at which all changelogs grow while their tasks run; None if no rate is known."""
        return None if self.growth is None else sum(of.bytes_per_second for of in self.growth.values())


def _growth(row: Mapping[str, Any]) -> Growth | None:
    """Returns the growth of a partition. Without a rate of messages, they are as large as those that it has."""
    if (rate := row.get("in_bytes_per_second")) is None:
        return None
    messages = row.get("in_messages_per_second")
    per_byte = (row["end_offset"] or 0) / row["bytes"] if row.get("bytes") else 0.0
    return Growth(rate, rate * per_byte if messages is None else messages)
