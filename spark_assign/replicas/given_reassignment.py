"""Reads a reassignment that another tool has planned, and makes it a `Reassignment` of a fleet.

{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}      kafka-reassign-partitions.sh, topicmappr
Current … {…}  Proposed partition reassignment configuration {…}          kafka-reassign-partitions.sh --generate
{"proposals": [{"topicPartition": {"topic": "t", "partition": 0},         Cruise Control (proposals, rebalance, …,
  "oldReplicas": [1, 2], "newReplicas": [2, 3]}]}                         with json=true&verbose=true)

topicmappr writes a file per topic, and with --out-file one more with all of them (`writeMaps` in its output.go).
Cruise Control leaves the proposals out unless verbose=true (`OptimizationResult.getJSONString`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.numeric.arrays import MAX_REPLICAS
from spark_assign.replicas.fleet import ClusterChange, ReplicaFleet, without_removed
from spark_assign.replicas.kernel.reassign_table import PLACEMENT
from spark_assign.replicas.kernel.reassignment_facts import MAX_BYTES
from spark_assign.replicas.reassignment import REASSIGNMENT_ROWS, Reassignment
from spark_assign.spark.dataframes import dataframe_of_rows
from spark_assign.spark.shell_patterns import matches
from spark_assign.stores.locations import read_file, text_of
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.quoting import in_text
from spark_assign.tables.schema_fields import schema

FORMATS = (
    "Accepted are the JSON of kafka-reassign-partitions.sh and topicmappr, the output of --generate, and the proposals "
    "of Cruise Control with json=true&verbose=true"
)
_CURRENT, _PROPOSED = "Current partition replica assignment", "Proposed partition reassignment configuration"
_MAX_BYTES = 256 << 20
"""Maximum size of a file: a million partitions have about half of it."""
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)
_ROWS = schema("cluster string, topic string, partition int, expected array<int>?, target array<int>")
_KEY = ["cluster", "topic", "partition"]
Row = dict[str, Any]


def read_reassignments(files: Iterable[str]) -> list[Row]:
    """Returns topic, partition, target (replicas), and expected of each partition in files: its replicas when the tool
    planned, or None if the file doesn't have them.

    Raises:
        ConfigError: a file can't be read, or isn't a reassignment; or a partition occurs twice.
    """
    rows: dict[tuple[str, int], Row] = {}
    for file in files:
        try:
            text = text_of(read_file(file, _MAX_BYTES))
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or error
            raise ConfigError(f"--reassignment {file} can't be read: {problem}") from error
        for row in _rows(file, text):
            if rows.setdefault((row["topic"], row["partition"]), row) is not row:
                raise ConfigError(f"--reassignment {file}: {row['topic']}-{row['partition']} occurs twice. Keep one")
    if not rows:
        raise ConfigError(f"--reassignment: no partitions. {FORMATS}")
    return list(rows.values())


def _rows(file: str, text: str) -> Iterator[Row]:
    before, is_generated, proposed = text.partition(_PROPOSED)
    if not is_generated:
        yield from _entries(file, _json(file, text, 0))
        return
    start, has_current, current = before.partition(_CURRENT)
    old = _entries(file, _json(file, current, start.count("\n"))) if has_current else ()
    expected = {(row["topic"], row["partition"]): row["target"] for row in old}
    for row in _entries(file, _json(file, proposed, before.count("\n"))):
        yield row | {"expected": expected.get((row["topic"], row["partition"]))}


def _json(file: str, text: str, lines_before: int) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_with_unique_keys)
    except json.JSONDecodeError as error:
        line = lines_before + error.lineno
        raise ConfigError(f"--reassignment {file}, line {line}: not JSON: {error.msg}. {FORMATS}") from None
    except (ValueError, RecursionError) as error:  # a key twice, a number of too many digits, too many brackets
        raise ConfigError(f"--reassignment {file}: {error}. {FORMATS}") from None


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError(f"a key of an object occurs twice, among {', '.join(content)[:160]}")
    return content


def _entries(file: str, content: Any) -> Iterator[Row]:
    known = content if isinstance(content, dict) else {}
    proposals = "partitions" not in known
    entries = known.get("proposals" if proposals else "partitions")
    if not isinstance(entries, list):
        raise ConfigError(f"--reassignment {file}: neither partitions nor proposals. {FORMATS}")
    for number, entry in enumerate(entries, start=1):
        try:
            where, old = (entry["topicPartition"], entry["oldReplicas"] or None) if proposals else (entry, None)
            target = entry["newReplicas" if proposals else "replicas"]
            row = {"topic": where["topic"], "partition": where["partition"], "expected": old, "target": target}
        except (TypeError, KeyError) as error:
            of = "topicPartition of " if isinstance(error, TypeError) and isinstance(entry, dict) else ""
            problem = "isn't an object" if isinstance(error, TypeError) else f"lacks {error}"
            raise ConfigError(f"--reassignment {file}: {of}entry {number} {problem}. {FORMATS}") from None
        lists = [target] if old is None else [old, target]
        is_valid = isinstance(row["topic"], str) and _TOPIC.fullmatch(row["topic"]) and _is_id(row["partition"])
        if not is_valid or not all(map(_is_list_of_ids, lists)):
            text = json.dumps(entry)[:160]
            raise ConfigError(f"--reassignment {file}: entry {number} has a wrong topic, partition, or replica: {text}")
        yield row


def _is_list_of_ids(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_REPLICAS and all(map(_is_id, value))


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def given_reassignment(fleet: ReplicaFleet, rows: Iterable[Row], cluster: str = "*") -> tuple[Reassignment, DataFrame]:
    """Returns the reassignment of a cluster to given replicas, while its other partitions stay as they are; and the
    partitions whose replicas the tool knew, as the placement of `check`.

    Args:
        fleet: replicas, brokers, and optionally sizes.
        rows: result of `read_reassignments`.
        cluster: shell pattern that only the name of this cluster matches.

    Raises:
        ConfigError: another number of clusters matches, or the cluster lacks a partition, or all replicas of one.
        FleetError: a null in a key or a list, a partition with two rows of replicas or sizes, or too many bytes.
    """
    fleet.check_keys(unique=["replicas", "sizes"])
    present = without_removed(fleet.replicas.where(matches(cluster=cluster))).select(*_KEY, "replicas")
    names = [row["cluster"] for row in present.select("cluster").distinct().orderBy("cluster").limit(3).collect()]
    if len(names) != 1:
        found = f"the fleet has several: {', '.join(map(in_text, names))}, …" if names else f"{cluster} matches none"
        raise ConfigError(f"--reassignment is of one cluster, and {found}. Give its name with --cluster")
    given = dataframe_of_rows(present.sparkSession, [{"cluster": names[0], **row} for row in rows], _ROWS)
    size = F.when(F.col("replicas").isNotNull(), F.size("replicas")).alias("size")
    sizes = given.join(present, _KEY, "left").select(*_KEY, size)
    if missing := sizes.where(F.coalesce("size", F.lit(0)) == 0).orderBy(*_KEY).limit(1).collect():
        name = f"{missing[0]['topic']}-{missing[0]['partition']}"
        lacks = f"no partition {name}" if missing[0]["size"] is None else f"no replica of {name}, or removes all"
        raise ConfigError(f"--reassignment: {in_text(names[0])} has {lacks}. Take a new snapshot, or correct it")
    placed = present.withColumnRenamed("replicas", "previous_replicas").join(given, _KEY, "left")
    placed = placed.withColumn("new_replicas", F.coalesce("target", "previous_replicas"))
    added = F.array_except("new_replicas", "previous_replicas")
    removed = F.array_except("previous_replicas", "new_replicas")
    none = F.array_repeat(F.lit(None).cast("int"), F.size(added))  # more brokers are added than removed, or fewer
    if fleet.sizes is not None:
        placed = placed.join(fleet.sizes.where("bytes >= 0").select(*_KEY, "bytes"), _KEY, "left")
        _check_bytes(placed)
    values = {
        "kind": F.lit(PLACEMENT),
        "moved_to": added,
        "moved_from": F.slice(F.concat(removed, none), F.lit(1), F.size(added)),
        "reasons": F.transform(added, lambda _: F.lit("given")),
    }
    tagged = placed.withColumns(values)
    columns = [
        (F.col(field.name) if field.name in tagged.columns else F.lit(None)).cast(field.dataType).alias(field.name)
        for field in REASSIGNMENT_ROWS
    ]
    expected = given.where(F.col("expected").isNotNull()).withColumnsRenamed(
        {"expected": "previous_replicas", "target": "replicas"}
    )
    return Reassignment(tagged.select(*columns), fleet, ClusterChange()), expected


def _check_bytes(placed: DataFrame) -> None:
    """Checks that sums of bytes, in which an unknown size counts as the mean, are longs.

    Raises:
        FleetError: they may not be.
    """
    replicas = F.greatest(F.size("previous_replicas"), F.size("new_replicas"))
    sums = placed.agg(
        F.sum(F.col("bytes").cast("double") * replicas).alias("known"),
        (F.avg("bytes") * F.sum(F.when(F.col("bytes").isNull(), replicas).otherwise(0))).alias("unknown"),
        F.max(F.struct("bytes", *_KEY)).alias("largest"),
    )
    too_many = sums.where(F.coalesce(F.col("known") + F.col("unknown"), F.lit(0.0)) > MAX_BYTES)
    for row in too_many.collect():
        where = ", ".join(f"{name}={row['largest'][name]}" for name in _KEY)
        problem = f"more than {MAX_BYTES:,} bytes in a cluster, the most in {where}"
        raise FleetError([Fault("sizes", "bytes", problem, "Correct the rows")])
