"""A reassignment as the JSON files that Kafka's own tools take.

    reassign-001.json        kafka-reassign-partitions --execute --reassignment-json-file; a batch
    rollback-001.json        the same partitions as they were before
    preferred-leaders.json   kafka-leader-election --election-type preferred --path-to-json-file; after all batches

Partitions that are new are in none of them: Kafka adds partitions by `kafka-topics --alter` or the admin client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.replicas.kernel.reassignment_batches import FILE_COLUMNS, to_tool_files
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.stores.locations import file_system, join
from spark_assign.tables.replicas import TOOL_FILES

_OURS = re.compile(r"(reassign|rollback)-\d+\.json|preferred-leaders\.json")
_Work = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def tool_files(
    plan: Reassignment | DataFrame, *, partitions_per_batch: int | None = None, bytes_per_batch: int | None = None
) -> DataFrame:
    """The files of every planned cluster, a row each (`tables.replicas.TOOL_FILES`).

    Args:
        plan: of `reassign`, or its `changes` or others like them (`advice.zones.changes`).
        partitions_per_batch: how many partitions may be reassigned together; null: any number.
        bytes_per_batch: how many bytes a batch may move, where sizes are known. A partition that alone moves more is a
            batch of its own.

    Raises:
        ValueError: a limit below 1.
    """
    for name, limit in (("partitions_per_batch", partitions_per_batch), ("bytes_per_batch", bytes_per_batch)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} is {limit}; give 1 or more, or nothing for no limit")
    changes = plan.changes if isinstance(plan, Reassignment) else plan
    changed = changes.where(F.col("previous").isNotNull())
    columns = ("cluster", "topic", "partition", "previous", "replicas", "moved", "leader_changed", "bytes")
    in_order = changed.select(*columns).repartition("cluster").sortWithinPartitions("cluster", "topic", "partition")
    return in_order.mapInArrow(_writer(partitions_per_batch, bytes_per_batch), TOOL_FILES)


def _writer(partitions: int | None, limit: int | None) -> _Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        kinds = [pa.string(), pa.string(), pa.int32(), pa.string(), pa.int32(), pa.int64(), pa.string()]
        for file in to_tool_files(rows, partitions, limit):
            columns = [pa.array([value], kind) for value, kind in zip(file, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=list(FILE_COLUMNS))

    return work


def write_tool_files(found: DataFrame, folder: str) -> list[str]:
    """Write what `tool_files` gives to FOLDER/<cluster>/<name>, one file after the other.

    Files of these names that an earlier plan has left below the folder are removed first: no batch of it may stay.

    Args:
        found: of `tool_files`.
        folder: of this machine, or a URI that pyarrow can write to.

    Returns:
        the files written.
    """
    from pyarrow import fs

    system, base = file_system(folder)
    for found_file in system.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True)):
        if found_file.is_file and _OURS.fullmatch(found_file.base_name):
            system.delete_file(found_file.path)
    written = []
    for row in found.toLocalIterator():
        below = join(base, quote(row["cluster"], safe=""))
        system.create_dir(below)
        with system.open_output_stream(join(below, row["name"])) as stream:
            stream.write(row["content"].encode())
        written.append(join(below, row["name"]))
    return sorted(written)
