"""Facts of whole groups to what is told of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.kernels.history import facts, told
from spark_assign.kernels.history.asked import Asked
from spark_assign.kernels.history.gather import of_parts
from spark_assign.kernels.history.tell import tell

_UNREAD = ("cluster", "group_id", "kind", "partition", "offset", "code", "detail", "key", "value")


def told_of(rows: pa.Table, asked: Asked) -> Iterator[pa.Table]:
    """What is told of the groups of some parts.

    Args:
        rows: PARTS (`kernels.history.gather`), of each of these parts all.
        asked: the thresholds.

    Yields:
        TOLD.
    """
    for known in of_parts(rows, asked.gap_ms):
        unread = known.filter(pc.equal(known["kind"], facts.UNREAD))
        if len(unread):
            yield as_told(unread)
        yield from tell(known, asked)


def as_told(unread: pa.Table) -> pa.Table:
    """Facts of records that nothing could be made of."""
    given = {name: unread[name].combine_chunks() for name in (*_UNREAD, "at_ms")}
    return told.table_of({**given, "timestamp": given.pop("at_ms")}, len(unread))
