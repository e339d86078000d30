"""Records of one group, read, and cut into steps: what the coordinator wrote at once is one change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from spark_assign.history.kernel.broker_groups import kind_of
from spark_assign.history.kernel.timeline import UnreadableRecord
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.reader import WireError

CLASSIC = "classic"
GROUP_METADATA = "GroupMetadata"
METADATA = "Metadata"
"""The record of the epoch of a group of the broker's protocols."""

Raw = tuple[int, int, int, bytes | None, bytes | None]
"""Partition, offset, time, key and value of a record."""


class ParsedRecord(NamedTuple):
    """A record that has been read; of a tombstone `value` is None."""

    partition: int
    offset: int
    at_ms: int
    group_type: str
    kind: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None

    @property
    def is_classic(self) -> bool:
        """A record of a classic group."""
        return self.group_type == CLASSIC

    @property
    def ends(self) -> bool:
        """It says that the group is gone, or another type of group from now on."""
        return self.value is None and (self.is_classic or self.kind == METADATA)


def said(records: Iterable[Raw], unread: list[UnreadableRecord]) -> Iterator[ParsedRecord]:
    """Records about the group itself, each place once; what cannot be read is left out, and noted."""
    before = None
    for partition, offset, at_ms, key, value in records:
        if (partition, offset) == before:
            continue
        before = partition, offset
        try:
            known = read_key(key or b"")
            kinds = (CLASSIC, GROUP_METADATA) if known.name == GROUP_METADATA else kind_of(known.name)
            fields = None if kinds is None or value is None else read_value(known.type, value).fields
        except WireError as error:
            unread.append(UnreadableRecord(partition, offset, at_ms, "corrupt", str(error), key, value))
            continue
        if kinds is not None:
            yield ParsedRecord(partition, offset, at_ms, *kinds, known.fields, fields)


def steps(records: Iterable[ParsedRecord]) -> Iterator[list[ParsedRecord]]:
    """What was written at once: records in their order, with one timestamp.

    Two steps of one millisecond are two where it shows: each generation of a classic group is one, and so is each epoch
    with what follows from it. That a group becomes one of another type (KIP-848 upgrades and downgrades write the
    tombstones of one and the records of the other) is one step.
    """
    step: list[ParsedRecord] = []
    for record in records:
        if step and _begins(step, record):
            yield step
            step = []
        step.append(record)
    if step:
        yield step


def _begins(step: list[ParsedRecord], now: ParsedRecord) -> bool:
    """Whether a record is of another step than those before it."""
    last = step[-1]
    if now.at_ms != last.at_ms or now.partition != last.partition:
        return True
    if last.is_classic:
        return last.value is not None or now.is_classic
    if last.ends:
        return not now.is_classic
    bumped = any(each.kind == METADATA and each.value is not None for each in step)
    return bumped and _is_first(now)


def _is_first(now: ParsedRecord) -> bool:
    """Such records stand first in what the coordinator writes at once, or second to such."""
    if now.is_classic or now.kind == METADATA:
        return True
    if now.kind == "MemberMetadata":
        return now.value is not None
    return now.kind == "CurrentMemberAssignment" and now.value is None
