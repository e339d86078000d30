"""Work over the Arrow rows of a task."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from zipimport import zipimporter

import pyarrow as pa
import pyspark


def in_arrow(
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


def forget_zipped_pyspark() -> None:
    """Let Python forget who imports from PySpark's archive; whoever imports next makes a new importer of what is known.

    Spark's worker empties all caches of imports before every task. Up to Python 3.12 each importer of an archive then
    reads its whole directory again: there are 16 of `pyspark.zip`, which took a tenth of a second of each task.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and str(pyspark.__file__).startswith(importer.archive):
            del sys.path_importer_cache[path]
