"""From facts of whole groups to their timelines."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from spark_assign.history.kernel.broker_groups import kind_of, names_of_topics
from spark_assign.history.kernel.generation_tracker import GenerationTracker
from spark_assign.history.kernel.group_chunks import GroupChunk, GroupFacts, pieces
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import Timeline, UnreadableRecord
from spark_assign.history.kernel.write_batches import CLASSIC, said, steps
from spark_assign.wire.group_records import NAMES, read_value
from spark_assign.wire.reader import WireError

SIMPLE = "simple"

_NAMING = {number: kind for number, name in NAMES.items() if (kind := kind_of(name)) and "PartitionMetadata" in name}
"""Types of records that bring ids and names of topics together."""


def timelines(facts: pa.Table, asked: HistoryThresholds | None = None) -> Iterator[tuple[str, str, Timeline]]:
    """The timeline of each group, by cluster and group; facts are of whole groups, in any order.

    What could not be read before (`unread`) has no timeline.
    """
    for piece in pieces(facts, (asked or HistoryThresholds()).gap_ms):
        yield from timelines_of(piece)


def timelines_of(piece: GroupChunk) -> Iterator[tuple[str, str, Timeline]]:
    """The same of the groups of a piece."""
    for known in piece.groups():
        yield known.cluster, known.group_id, _timeline(known)


def _timeline(known: GroupFacts) -> Timeline:
    unread: list[UnreadableRecord] = []
    topics = {**_named(known), **known.topic_ids}
    course = GenerationTracker(topics)
    for step in steps(said(known.raw(), unread)):
        course.take(step)
    return Timeline(
        group_type=_group_type(course, only_commits=bool(known.commits or known.deleted)),
        protocol_type=course.protocol_type if course.group_type == CLASSIC else None,
        generations=course.generations(),
        owned=course.owners.told(),
        commits=known.commits,
        deleted=known.deleted,
        first_ms=known.first_ms,
        last_ms=known.last_ms,
        records=known.records - len(unread),
        rejected=tuple(course.embedded.rejected()),
        unread=tuple(unread),
        topic_ids={topic: topic_id for topic_id, topic in sorted(topics.items())},
    )


def _named(known: GroupFacts) -> dict[str, str]:
    """Ids of topics to names, by what the group's own records say (those of 4.0, and of share groups)."""
    named: dict[str, str] = {}
    for key, value in known.raw_of_types(list(_NAMING)):
        number = int.from_bytes(key[:2], "big")
        if value is not None:
            try:
                named.update(names_of_topics(_NAMING[number][1], read_value(number, value).fields))
            except WireError:
                continue  # It is told as unread where the records are taken in their order.
    return named


def _group_type(course: GenerationTracker, *, only_commits: bool) -> str:
    """What the group is; a tombstone alone is also written for who only commits."""
    return course.group_type or (SIMPLE if only_commits else course.ended) or SIMPLE
