"""What records say, as facts: the one way from batches of records to the kernels over whole groups.

A fact is tagged by its `kind`:

    record     a record of the coordinator about a group, as it is: key, value, and where and when it was written
    commits    of one partition that the group commits: a stretch in which no two commits are further apart than the
               threshold. Stretches of several batches make those of all of them, in any order: they are united where
               they touch. topic, topic_partition, from_ms, until_ms (first and last commit), commits, first_offset,
               last_offset (committed at from_ms and at until_ms), topic_id where a record names it
    deleted    of one partition: `commits` tombstones, the last at until_ms
    unread     a record that nothing could be made of: code, detail, and it as it is; without group where not even
               that can be told

Every fact has the cluster and, but for some `unread`, the group.
"""

from __future__ import annotations

import pyarrow as pa

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
        pa.field("topic_partition", _INT),
        *(pa.field(name, _LONG) for name in ("from_ms", "until_ms", "commits", "first_offset", "last_offset")),
    ]
)
"""`partition`, `offset`, `at_ms` (the record's timestamp): where and when the record was written."""
