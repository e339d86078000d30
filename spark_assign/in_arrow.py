"""Work over the Arrow rows of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa


def in_arrow(
    work: Callable[[pa.Table], Iterable[pa.Table]], batch_rows: int = 100_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Work over all rows of a task at once, as `mapInArrow` wants it.

    Args:
        work: from the rows of a task to tables of the answer; made of plain values, as it is sent to the executors.
        batch_rows: the answer goes back in batches of so many rows.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received)
            received.clear()
            for table in work(rows):
                yield from table.to_batches(max_chunksize=batch_rows)

    return done
