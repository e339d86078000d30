"""Facts of whole groups to what is told of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel import facts, history_rows
from spark_assign.history.kernel.build_tables import tell
from spark_assign.history.kernel.merge_facts import of_parts
from spark_assign.history.kernel.thresholds import HistoryThresholds

_UNREAD = ("cluster", "group_id", "kind", "partition", "offset", "code", "detail", "key", "value")


def told_of(rows: pa.Table, asked: HistoryThresholds) -> Iterator[pa.Table]:
    """What is told of the groups of some parts.

    Args:
        rows: PARTS (`history.kernel.merge_facts`), of each of these parts all.
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
    return history_rows.table_of({**given, "timestamp": given.pop("at_ms")}, len(unread))
