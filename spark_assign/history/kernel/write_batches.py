"""Parses the records of one group and groups them by write: the records that the coordinator wrote together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from spark_assign.history.kernel.broker_groups import parse_record_name
from spark_assign.history.kernel.timeline import UnreadableRecord
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.reader import WireError

CLASSIC = "classic"
GROUP_METADATA = "GroupMetadata"
METADATA = "Metadata"
"""The record of a group's epoch in the broker's protocols."""

RawRecord = tuple[int, int, int, bytes | None, bytes | None]
"""Partition, offset, time, key, and value of a record."""


class ParsedRecord(NamedTuple):
    """A decoded record. `value` is None for a tombstone; `record_type` has no prefix of the group type."""

    partition: int
    offset: int
    at_ms: int
    group_type: str
    record_type: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None

    @property
    def is_classic(self) -> bool:
        """Whether it is a record of a classic group."""
        return self.group_type == CLASSIC

    @property
    def is_group_tombstone(self) -> bool:
        """Whether it ends the group, which is deleted or converted to another type."""
        return self.value is None and (self.is_classic or self.record_type == METADATA)


def parse_records(records: Iterable[RawRecord], unreadable: list[UnreadableRecord]) -> Iterator[ParsedRecord]:
    """Yields the records about the group itself, without duplicates; appends unreadable records to `unreadable`."""
    previous = None
    for partition, offset, at_ms, key, value in records:
        if (partition, offset) == previous:
            continue
        previous = partition, offset
        try:
            record_key = read_key(key or b"")
            is_classic = record_key.name == GROUP_METADATA
            names = (CLASSIC, GROUP_METADATA) if is_classic else parse_record_name(record_key.name)
            fields = None if names is None or value is None else read_value(record_key.type, value).fields
        except WireError as error:
            unreadable.append(UnreadableRecord(partition, offset, at_ms, "corrupt", str(error), key, value))
            continue
        if names is not None:
            yield ParsedRecord(partition, offset, at_ms, *names, record_key.fields, fields)


def group_by_write(records: Iterable[ParsedRecord]) -> Iterator[list[ParsedRecord]]:
    """Groups records that were written together: consecutive records with one timestamp.

    Two writes in the same millisecond are separated if their records show it: each generation of a classic group is
    one write, and so is each epoch with the records that follow from it. A conversion to another group type (KIP-848
    upgrades and downgrades write the tombstones of one type and the records of the other) is one write.
    """
    write: list[ParsedRecord] = []
    for record in records:
        if write and _starts_write(write, record):
            yield write
            write = []
        write.append(record)
    if write:
        yield write


def _starts_write(write: list[ParsedRecord], record: ParsedRecord) -> bool:
    """Checks whether a record belongs to another write than the records before it."""
    last = write[-1]
    if record.at_ms != last.at_ms or record.partition != last.partition:
        return True
    if last.is_classic:
        return last.value is not None or record.is_classic
    if last.is_group_tombstone:
        return not record.is_classic
    has_epoch = any(written.record_type == METADATA and written.value is not None for written in write)
    return has_epoch and _is_first_in_write(record)


def _is_first_in_write(record: ParsedRecord) -> bool:
    """Checks whether the coordinator writes such a record first, or second to another such record."""
    if record.is_classic or record.record_type == METADATA:
        return True
    if record.record_type == "MemberMetadata":
        return record.value is not None
    return record.record_type == "CurrentMemberAssignment" and record.value is None
