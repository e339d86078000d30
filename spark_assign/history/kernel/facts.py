"""What records say, as facts: the one way from batches of records to the kernels over whole groups.

A fact is tagged by its `kind`:

    record     a record of the coordinator about a group, as it is: key, value, and where and when it was written
    commits    of a topic that the group commits: the intervals of its partitions. In an interval no two commits are
               further apart than the threshold. Intervals of several batches make those of all of them, in any order:
               they are united where they touch. topic, topic_id where a record names it, and as `commit_intervals`:
               partition, from_ms, until_ms (first and last commit), commits, first_offset, last_offset (committed at
               from_ms and at until_ms); as `once` those of a single commit: partition, at_ms, offset
    deleted    of a topic: the same of tombstones, one interval for a partition; it says nothing of offsets
    unread     a record that nothing could be made of: code, detail, and it as it is; without group where not even
               that can be told

Every fact has the cluster and, but for some `unread`, the group.
"""

from __future__ import annotations

import pyarrow as pa

from spark_assign.history.kernel.commit_intervals import LISTS

RECORD, COMMITS, DELETED, UNREAD = KINDS = ("record", "commits", "deleted", "unread")

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
FACTS = pa.schema(
    [
        pa.field("cluster", _TEXT, nullable=False),
        pa.field("group_id", _TEXT),
        pa.field("kind", _TEXT, nullable=False),
        *(pa.field(name, kind) for name, kind in {"partition": _INT, "offset": _LONG, "at_ms": _LONG}.items()),
        *(pa.field(name, pa.binary()) for name in ("key", "value")),
        *(pa.field(name, _TEXT) for name in ("code", "detail", "topic", "topic_id")),
        *(pa.field(name, kind) for name, kind in LISTS.items()),
    ]
)
"""`partition`, `offset`, `at_ms` (the record's timestamp): where and when the record was written."""
