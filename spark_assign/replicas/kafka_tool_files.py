"""Writes a reassignment as JSON files for Kafka's own tools.

    reassign-001.json        kafka-reassign-partitions --execute --reassignment-json-file; one batch
    rollback-001.json        the same partitions with their previous replicas
    preferred-leaders.json   kafka-leader-election --election-type preferred --path-to-json-file; after all batches

No file has new partitions: Kafka adds those by `kafka-topics --alter` or the admin client.
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

_TOOL_FILE_NAME = re.compile(r"(reassign|rollback)-\d+\.json|preferred-leaders\.json")
_MapInArrow = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def tool_files(
    plan: Reassignment | DataFrame, *, partitions_per_batch: int | None = None, bytes_per_batch: int | None = None
) -> DataFrame:
    """Returns the files of every planned cluster, one row per file (`tables.replicas.TOOL_FILES`).

    Args:
        plan: the result of `reassign`, its `changes`, or a table with the same columns (`advice.zones.changes`).
        partitions_per_batch: the maximum number of partitions in a batch; None: no limit.
        bytes_per_batch: the maximum number of bytes that a batch moves, if sizes are known; None: no limit. A
            partition that moves more is a batch of its own.

    Raises:
        ValueError: a limit below 1.
    """
    for name, limit in (("partitions_per_batch", partitions_per_batch), ("bytes_per_batch", bytes_per_batch)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} is {limit}; give 1 or more, or nothing for no limit")
    changes = plan.changes if isinstance(plan, Reassignment) else plan
    changed = changes.where(F.col("previous").isNotNull())
    columns = ("cluster", "topic", "partition", "previous", "replicas", "moved", "leader_changed", "bytes")
    sorted_rows = changed.select(*columns).repartition("cluster").sortWithinPartitions("cluster", "topic", "partition")
    return sorted_rows.mapInArrow(_writer(partitions_per_batch, bytes_per_batch), TOOL_FILES)


def _writer(partitions: int | None, limit: int | None) -> _MapInArrow:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        kinds = [pa.string(), pa.string(), pa.int32(), pa.string(), pa.int32(), pa.int64(), pa.string()]
        for file in to_tool_files(rows, partitions, limit):
            columns = [pa.array([value], kind) for value, kind in zip(file, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=list(FILE_COLUMNS))

    return work


def write_tool_files(files: DataFrame, folder: str) -> list[str]:
    """Writes the result of `tool_files` to FOLDER/<cluster>/<name>, one file after the other.

    Removes the files of an earlier plan below the folder first, so that none of its batches remains.

    Args:
        files: the result of `tool_files`.
        folder: a local folder, or a URI that pyarrow can write to.

    Returns:
        The paths of the written files, sorted.
    """
    from pyarrow import fs

    system, base = file_system(folder)
    for file in system.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True)):
        if file.is_file and _TOOL_FILE_NAME.fullmatch(file.base_name):
            system.delete_file(file.path)
    written = []
    for row in files.toLocalIterator():
        cluster_folder = join(base, quote(row["cluster"], safe=""))
        system.create_dir(cluster_folder)
        with system.open_output_stream(join(cluster_folder, row["name"])) as stream:
            stream.write(row["content"].encode())
        written.append(join(cluster_folder, row["name"]))
    return sorted(written)
