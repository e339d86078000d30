"""Completes the description of classic Streams applications: members, tasks, topology, and changelogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from spark_assign.numeric.arrays import values_by_key
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka.group_description import GroupDescription, UnseenTopicsError, topic_error_text
from spark_assign.streams.classic_members import internal_topics, read_application, starting_with

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class ApplicationReader:
    """Reads classic Streams applications: with the partitions of topics, given topologies, all groups, and the errors
    of topics whose partitions aren't known.

    `caveats` gets what is only likely, with the IDs of the applications.
    """

    topics: Mapping[str, int]
    topologies: Mapping[str, str]
    group_ids: Collection[str]
    unknown: Mapping[str, str]
    caveats: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @cached_property
    def _sorted_names(self) -> tuple[list[str], list[str]]:
        """Names of topics and IDs of groups, in which those that start with an ID are found without reading all."""
        return sorted({*self.topics, *self.unknown}), sorted(self.group_ids)

    def read(self, group_id: str, group: GroupDescription) -> GroupDescription | Exception:
        """Returns the description of an application with its tasks and topology, or its error."""
        names, groups = (starting_with(each, f"{group_id}-") for each in self._sorted_names)
        internal = internal_topics(dict.fromkeys(names, 0), group_id, groups)
        if text := topic_error_text(self.unknown, internal.keys()):
            return UnseenTopicsError(text)
        members = [member.streams for member in group.members if member.streams is not None]
        text = self.topologies.get(group_id)
        known = {name: self.topics[name] for name in internal if name in self.topics}
        application = read_application(group_id, members, self.topics, topology=text, internal=known)
        for caveat in application.caveats:
            self.caveats[caveat].append(group_id)
        described = [
            replace(
                member,
                columns=member.columns | application.members.get(member.columns["member_id"], {}),
                tasks=tuple(application.tasks.get(member.columns["member_id"], ())),
            )
            for member in group.members
        ]
        problem = None if application.problem is None else f"Kafka Streams: {application.problem}"
        return replace(
            group,
            members=described,
            subtopologies=application.subtopologies,
            more=application.columns,
            problem=problem,
        )


def used_topics(rows: SnapshotRows) -> set[str]:
    """Returns the source topics and changelogs of all applications."""
    return {
        topic
        for row in rows.rows["subtopologies"]
        for column in ("source_topics", "changelog_topics")
        for topic in row.get(column) or ()
    }


def changelog_partitions(rows: SnapshotRows, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """Returns those of the partitions that are in a changelog of an application."""
    changelogs = {topic for row in rows.rows["subtopologies"] for topic in row.get("changelog_topics") or ()}
    return {key for key in partitions if key[0] in changelogs}


def add_changelogs(
    rows: SnapshotRows,
    partitions: Collection[TopicPartition],
    committed: Mapping[str, Mapping[TopicPartition, int]],
    ends: Mapping[TopicPartition, Any],
    sizes: Mapping[TopicPartition, Any],
) -> None:
    """Adds `changelogs`; it is a table only if an application has a changelog.

    Args:
        rows: the rows of the snapshot.
        partitions: partitions of changelogs.
        committed: committed offsets by group. Kafka reads a source topic that serves as changelog up to these.
        ends, sizes: end offset and size of a partition; missing if unknown.
    """
    by_topic = values_by_key(sorted(partitions))
    changelogs: dict[tuple[str, str], bool] = {}
    for row in rows.rows["subtopologies"]:
        for topic in row.get("changelog_topics") or ():
            changelogs[row["group_id"], topic] = topic in row["source_topics"]
    for (group_id, topic), is_source in sorted(changelogs.items()):
        for partition in by_topic.get(topic, ()):
            end = ends.get((topic, partition))
            offset = None if end is None else end.offset
            if is_source:
                offset = committed.get(group_id, {}).get((topic, partition))
            size = sizes.get((topic, partition))
            num_bytes = None if size is None else size.offset
            key = {"group_id": group_id, "topic": topic, "partition": partition}
            rows.add("changelogs", **key, end_offset=offset, bytes=num_bytes)
