"""Keys of group records, those of a batch that differ: which type, which group, and of commits which partition.

Keys of commits, of which a topic that was compacted has one a record, are read all at once; others and what is
irregular by the reader of single records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.history.gathered import Gathered
from spark_assign.wire.group_records import UnknownType, read_key
from spark_assign.wire.reader import WireError

NO_KEY, CORRUPT, UNKNOWN_TYPE, NEWER_VERSION = UNREAD_CODES = ("no-key", "corrupt", "unknown-type", "newer-version")
_NEWEST_COMMIT = 1


@dataclass(frozen=True)
class Keys:
    """What keys say, a row for each.

    Attributes:
        kind: its type, as Kafka numbers them; below 0 where it could not be read, and `faults` says why.
        group, topic: places in `groups` and `topics`; below 0 where there is none.
        faults: code and detail of what could not be read, by row.
    """

    kind: Ints
    group: Ints
    topic: Ints
    partition: Ints
    groups: list[str]
    topics: list[str]
    faults: dict[int, tuple[str, str]]

    @property
    def of_commits(self) -> Flags:
        """Whether it is of a committed offset."""
        flags: Flags = (self.kind >= 0) & (self.kind <= _NEWEST_COMMIT)
        return flags


def read_keys(keys: pa.Array | pa.ChunkedArray) -> Keys:
    """Read keys, none of which is null."""
    given = Gathered(keys)
    kind = np.where(given.end - given.begin >= 2, given.number(">i2", given.begin), -1)
    group_size = given.number(">i2", given.begin + 2)
    topic_at = given.begin + 4 + group_size
    topic_size = given.number(">i2", topic_at)
    partition_at = topic_at + 2 + topic_size
    regular = (kind >= 0) & (kind <= _NEWEST_COMMIT) & (group_size >= 0) & (topic_size >= 0)
    regular &= partition_at + 4 <= given.end
    rows = np.flatnonzero(regular)
    names, topic_names = _Names(), _Names()
    group, topic, partition = (np.full(len(kind), -1, np.int64) for _ in range(3))
    group[rows] = names.of_parts(given, given.begin[rows] + 4, group_size[rows])
    topic[rows] = topic_names.of_parts(given, topic_at[rows] + 2, topic_size[rows])
    partition[rows] = given.number(">i4", partition_at[rows])
    faults: dict[int, tuple[str, str]] = {}
    for row in np.flatnonzero(~regular).tolist():
        try:
            key = read_key(keys[row].as_py())
        except WireError as error:
            kind[row] = -1
            faults[row] = (UNKNOWN_TYPE if isinstance(error, UnknownType) else CORRUPT, str(error))
            continue
        fields = key.fields
        kind[row] = key.type
        group[row] = names.number(fields["groupId"] if "groupId" in fields else fields["group"])
        if key.type <= _NEWEST_COMMIT:
            topic[row] = topic_names.number(fields["topic"])
            partition[row] = fields["partition"]
    return Keys(kind, group, topic, partition, list(names.known), list(topic_names.known), faults)


class _Names:
    """Names, numbered as they come."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))

    def of_parts(self, given: Gathered, begin: Ints, length: Ints) -> Ints:
        """The numbers of names that are parts of rows; what is no UTF-8 is replaced, as Java does."""
        parts = given.parts(begin, length).dictionary_encode()
        numbers = [self.number(each.decode("utf-8", errors="replace")) for each in parts.dictionary.to_pylist()]
        return np.array(numbers, np.int64)[parts.indices.to_numpy(zero_copy_only=False)] if numbers else begin
