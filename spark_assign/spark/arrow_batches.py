"""Work over the Arrow rows of a task."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from zipimport import zipimporter

import pyarrow as pa
import pyspark


def map_arrow_batches(
    work: Callable[[pa.Table], Iterable[pa.Table]], batch_rows: int = 100_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Work over all rows of a task at once, as `mapInArrow` wants it.

    Args:
        work: from the rows of a task to tables of the answer; made of plain values, as it is sent to the executors.
        batch_rows: the answer goes back in batches of so many rows.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received)
            received.clear()
            for table in work(rows):
                yield from table.to_batches(max_chunksize=batch_rows)

    return done


def map_arrow_chunks(
    work: Callable[[Iterator[pa.Table]], Iterable[pa.Table]], chunk_rows: int = 300_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same over rows of which a task may have any number: they come in chunks, one after the other.

    Args:
        work: from chunks to tables of the answer.
        chunk_rows: batches are gathered to at least so many rows.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        for table in work(batches_to_chunks(batches, chunk_rows)):
            yield from table.to_batches()

    return done


def batches_to_chunks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Batches gathered to tables of at least so many rows, but for the last."""
    received: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        received.append(batch)
        size += batch.num_rows
        if size >= rows:
            yield pa.Table.from_batches(received)
            received, size = [], 0
    if received:
        yield pa.Table.from_batches(received)


def forget_zipped_pyspark() -> None:
    """Let Python forget who imports from PySpark's archive; whoever imports next makes a new importer of what is known.

    Spark's worker empties all caches of imports before every task. Up to Python 3.12 each importer of an archive then
    reads its whole directory again: there are 16 of `pyspark.zip`, which took a tenth of a second of each task.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and str(pyspark.__file__).startswith(importer.archive):
            del sys.path_importer_cache[path]
