"""Writes a reassignment as JSON files for Kafka's own tools, in batches.

    reassign-001.json        kafka-reassign-partitions --execute --reassignment-json-file; one batch
    rollback-001.json        the same partitions with their previous replicas
    preferred-leaders.json   kafka-leader-election --election-type preferred --path-to-json-file; after all batches
                             (preferred-leaders-001.json, … for more than `MAX_PARTITIONS`)

A file has log_dirs beside the replicas of a partition if one of them gets another log directory. No file has new
partitions: Kafka adds those by `kafka-topics --alter` or the admin client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.replicas.kernel.reassignment_batches import split_batches
from spark_assign.replicas.reassignment import LOG_DIR_LISTS, Reassignment
from spark_assign.spark.dataframes import Row, map_sorted_rows
from spark_assign.stores.locations import file_system, files_below, join, one_folder
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.replicas import PLACEMENT, TOOL_FILES

REASSIGN, ROLLBACK, LEADERS = "reassign", "rollback", "preferred-leaders"
_TOOL_FILE_NAME = re.compile(rf"({REASSIGN}|{ROLLBACK}|{LEADERS})-\d+\.json|{LEADERS}\.json")
MAX_PARTITIONS = 10_000
"""Maximum number of partitions in a file: the controller changes at most 10,000 records per request
(`QuorumController.MAX_RECORDS_PER_USER_OP`)."""
CHANGED = (
    *("cluster", "topic", "partition", "previous_replicas", "replicas", "moved", "leader_changed", "bytes"),
    *LOG_DIR_LISTS,
)


def tool_files(
    plan: Reassignment | DataFrame, *, partitions_per_batch: int | None = None, bytes_per_batch: int | None = None
) -> DataFrame:
    """Returns the files of every planned cluster, one row per file (`tables.replicas.TOOL_FILES`).

    Args:
        plan: Result of `reassign`, its `changes`, or a table with the same columns (`advice.zones.changes`).
        partitions_per_batch: Maximum number of partitions in a batch; `None`, or more than `MAX_PARTITIONS`: that.
        bytes_per_batch: Maximum number of bytes that a batch moves, if sizes are known; `None`: no limit. A partition
            that moves more is a batch of its own.

    Raises:
        ConfigError: A limit is below 1.
    """
    for name, limit in (("partitions_per_batch", partitions_per_batch), ("bytes_per_batch", bytes_per_batch)):
        if limit is not None and limit < 1:
            raise ConfigError(f"{name} is {limit}, expected 1 or more, or None for no limit")
    changes = plan.changes if isinstance(plan, Reassignment) else plan
    missing = (name for name in LOG_DIR_LISTS if name not in changes.columns)
    none = (F.array().cast(PLACEMENT[name].dataType).alias(name) for name in missing)
    changed = changes.where(F.col("previous_replicas").isNotNull()).select("*", *none)
    write = partial(to_tool_files, partitions=partitions_per_batch, limit=bytes_per_batch)
    return map_sorted_rows(changed.select(*CHANGED), CHANGED[:3], write, TOOL_FILES)


def changes_of_leader_moves(leader_moves: DataFrame) -> DataFrame:
    """Returns `Operation.leader_moves` as changes for `tool_files`: other orders of replicas, which copy nothing."""
    constants = {"moved": F.lit(0), "leader_changed": F.lit(True), "bytes": F.lit(None).cast("long")}
    return leader_moves.withColumns(constants)


def to_tool_files(rows: Iterable[Row], partitions: int | None, limit: int | None) -> Iterator[Row]:
    """Yields the files of all clusters, as rows of `tables.replicas.TOOL_FILES`.

    Args:
        rows: The changed partitions, sorted by cluster, topic, and partition.
        partitions: Maximum number of partitions in a batch; `None`: `MAX_PARTITIONS`, which is the most.
        limit: Maximum number of bytes that a batch moves; `None`: no limit.
    """
    for cluster, changed in groupby(rows, key=lambda row: row["cluster"]):
        partition_rows, most = list(changed), min(partitions or MAX_PARTITIONS, MAX_PARTITIONS)
        for ordinal, (batch, size) in enumerate(split_batches(partition_rows, most, limit), start=1):
            for kind, column in (
                (REASSIGN, ("replicas", "log_dirs")),
                (ROLLBACK, ("previous_replicas", "previous_log_dirs")),
            ):
                content = _content([_target(row, column) for row in batch], '"version":1,')
                file = {"cluster": cluster, "kind": kind, "batch": ordinal, "name": f"{kind}-{ordinal:03}.json"}
                yield file | {"partitions": len(batch), "bytes": size, "content": content}
        led = [_entry(row) for row in partition_rows if row["leader_changed"]]
        for first in range(0, len(led), MAX_PARTITIONS):
            number = first // MAX_PARTITIONS + 1 if len(led) > MAX_PARTITIONS else None
            file = {"cluster": cluster, "kind": LEADERS, "batch": number, "bytes": None}
            part = led[first : first + MAX_PARTITIONS]
            name = f"{LEADERS}.json" if number is None else f"{LEADERS}-{number:03}.json"
            yield file | {"name": name, "partitions": len(part), "content": _content(part)}


def _entry(row: Row) -> Row:
    return {"topic": row["topic"], "partition": row["partition"]}


def _target(row: Row, columns: tuple[str, str]) -> Row:
    """Returns the entry of a partition with its replicas, and with their log directories if one is not `any`."""
    replicas, log_dirs = (row.get(column) for column in columns)
    return _entry(row) | {"replicas": replicas} | ({"log_dirs": log_dirs} if log_dirs else {})


def _content(entries: list[Row], head: str = "") -> str:
    """Returns JSON with one partition per line, after `head`."""
    return f'{{{head}"partitions":[\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]}\n"


def write_tool_files(files: DataFrame, folder: str) -> list[str]:
    """Writes the result of `tool_files` to FOLDER/<cluster>/<name>, one file after the other.

    Removes the files of an earlier plan below the folder first, so that none of its batches remains.

    Args:
        files: Result of `tool_files`.
        folder: A local folder, or a URI that pyarrow can write to.

    Returns:
        Paths of the written files, sorted.
    """
    system, base = file_system(folder)
    for file in files_below(system, base, follow_links=False):
        if _TOOL_FILE_NAME.fullmatch(file.base_name):
            system.delete_file(file.path)
    written = []
    for row in files.toLocalIterator():
        cluster_folder = join(base, one_folder(row["cluster"]))
        system.create_dir(cluster_folder)
        with system.open_output_stream(join(cluster_folder, row["name"])) as stream:
            stream.write(row["content"].encode())
        written.append(join(cluster_folder, row["name"]))
    return sorted(written)
