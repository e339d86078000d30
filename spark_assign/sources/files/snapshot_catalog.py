"""A snapshot as tables of a catalog, of which it replaces the rows of its own cluster.

How, depends on what the table is. Delta, Iceberg and what else takes an overwrite by a condition (Delta calls it
`replaceWhere`) does it in one commit. Spark's own parquet, orc, csv and json tables must be partitioned by cluster: the
partition is overwritten, and no other. Tables that are not there are made, partitioned by cluster.
"""

from __future__ import annotations

import json
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.spark.progress import progress
from spark_assign.stores.cluster_folders import KEYS
from spark_assign.tables.errors import ConfigError, SourceError, SparkAssignError, reason
from spark_assign.tables.groups import LOADS, SNAPSHOTS

log = logging.getLogger(__name__)

_OF_FILES = ("parquet", "orc", "csv", "json", "avro", "text", "hive")
"""Providers that know no overwrite by a condition."""

_MODE = "spark.sql.sources.partitionOverwriteMode"
_ONE_AT_A_TIME = threading.Lock()
"""The setting is the session's: where threads share one, none may change it while another one writes."""

_LATER = re.compile(
    r"Concurrent|CONCURRENT|(METADATA|PROTOCOL)_CHANGED|(Metadata|Protocol)Changed|CommitFailed|onflicting files"
    # Of a table that another one is making just now.
    r"|NON_EMPTY_LOCATION|ALREADY_EXISTS"
)
ATTEMPTS = 8


def write_tables(snapshot: Snapshot, spark: SparkSession, prefix: str) -> None:
    """Replace the rows of the snapshot's cluster in the tables `<prefix>.<table>`, one table after the other.

    Rows of other clusters stay, and other snapshots may be written at the same time. Of a Connect cluster that could
    not be read only the row of `unreadable` is replaced. Tables that are not there are made in the format that the
    session makes tables in (`spark.sql.sources.default`).

    At last a row of `snapshots` says when the cluster was read. Where a snapshot has not been written to its end, that
    is older than the cluster's rows.

    Raises:
        ConfigError: the tables hold another Kafka cluster under this name, or this one under another name.
        SourceError: a table cannot be written; those before it have the cluster's new rows, the others its old ones.
    """
    of_snapshots = "snapshots" if snapshot.key == KEYS[0] else "connect_snapshots"
    _check(spark, f"{prefix}.{of_snapshots}", snapshot)
    read = [part.cluster for part in snapshot.read()]
    unread = [part.cluster for part in snapshot.unread()]
    tables = {**snapshot.tables, **_no_loads(snapshot, spark, prefix), of_snapshots: _row_each(snapshot)}
    with progress("tables written", len(tables)) as step:
        for name, table in tables.items():
            concerned = [*read, *unread] if name == "unreadable" else read
            place = f"{prefix}.{name}"
            step(0, name)
            try:
                _again(partial(_replace, spark, place, snapshot.key, concerned, table))
            except SparkAssignError:
                raise
            except Exception as error:  # classic PySpark lets Java's own exceptions through
                raise SourceError(f"the table {place} cannot be written: {reason(error)}") from error
            step()


def _no_loads(snapshot: Snapshot, spark: SparkSession, prefix: str) -> dict[str, pa.Table]:
    """Where no loads were read, none in place of those of an earlier snapshot, which are of another time."""
    if snapshot.key != KEYS[0] or "loads" in snapshot.tables or not spark.catalog.tableExists(f"{prefix}.loads"):
        return {}
    return {"loads": to_arrow_schema(LOADS).empty_table()}


def _row_each(snapshot: Snapshot) -> pa.Table:
    """The rows of SNAPSHOTS: one for each cluster that was read."""
    rows = [
        {
            "cluster": part.cluster,
            "taken_at": part.taken_at,
            "kafka_cluster_id": part.source.get("kafka_cluster_id"),
            "content": json.dumps(part.summary(), ensure_ascii=False),
        }
        for part in snapshot.read()
    ]
    table = pa.Table.from_pylist(rows, to_arrow_schema(SNAPSHOTS))
    return table.rename_columns([snapshot.key, *SNAPSHOTS.names[1:]])


def _check(spark: SparkSession, place: str, snapshot: Snapshot) -> None:
    """Whether the name and the Kafka cluster belong together, as far as earlier snapshots tell."""
    own = snapshot.source.get("kafka_cluster_id")
    if not own or not spark.catalog.tableExists(place):
        return
    mine, same = F.col("cluster") == snapshot.cluster, F.col("kafka_cluster_id") == own
    found = spark.table(place).where((mine & ~same) | (~mine & same)).limit(1).collect()  # one row
    for row in found:
        if row["cluster"] == snapshot.cluster:
            raise ConfigError(
                f"{place} has another Kafka cluster as {snapshot.cluster} (id {row['kafka_cluster_id']}; this one has "
                f"{own}). Give this one a name of its own by --cluster; where it was set up anew and the old one is "
                f"gone, delete that row of {place} first."
            )
        raise ConfigError(
            f"{place} has this Kafka cluster (id {own}) already, as {row['cluster']}. Give that name by --cluster, or "
            "delete the rows of that cluster first."
        )


def _again(write: Callable[[], None]) -> None:
    """Write, and again after a while where another writer was faster."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            write()
            return
        except Exception as error:
            if attempt == ATTEMPTS or not _LATER.search(str(error)):
                raise
            log.info("another snapshot was written at the same time; once more")
            time.sleep(random.uniform(0.5, 1) * min(2**attempt / 4, 4))


def _replace(spark: SparkSession, place: str, key: str, clusters: Sequence[str], table: pa.Table) -> None:
    rows = spark.createDataFrame(table, from_arrow_schema(table.schema))
    if not spark.catalog.tableExists(place):
        _make(spark, place, key, rows)
    columns = spark.table(place).columns
    if set(columns) != set(rows.columns):
        raise SourceError(
            f"{place} is there with other columns: {', '.join(columns)}; expected {', '.join(rows.columns)}. "
            "Choose another schema, or drop or rename that table"
        )
    rows = rows.select(*columns).coalesce(1)  # a file for each cluster, not one for each core
    provider = _provider(spark, place)
    if provider not in _OF_FILES:
        rows.writeTo(place).overwrite(_any_of(key, clusters))
        return
    partitions = [column.name for column in spark.catalog.listColumns(place) if column.isPartition]
    if provider == "hive" or partitions != [key]:
        raise SourceError(
            f"{place} is a {provider} table partitioned by {', '.join(partitions) or 'nothing'}, in which the rows of "
            "one cluster cannot be replaced. Drop or rename it, and take the snapshots of all clusters once more: it "
            f"is then made anew, partitioned by {key}. A Delta or Iceberg table needs no partitions."
        )
    with _dynamic(spark):
        rows.write.mode("overwrite").insertInto(place)
    with_rows = set(pc.unique(table[key]).to_pylist())
    for cluster in clusters:
        if cluster not in with_rows:  # no row overwrites nothing
            spark.sql(f"ALTER TABLE {place} DROP IF EXISTS PARTITION ({key} = {_literal(cluster)})")


def _make(spark: SparkSession, place: str, key: str, rows: DataFrame) -> None:
    """Make the table, unless somebody else is doing just that."""
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema)
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {place} ({columns}) PARTITIONED BY ({key})")
    except Exception:  # classic PySpark lets Java's own exceptions through
        if not spark.catalog.tableExists(place):
            raise


def _provider(spark: SparkSession, place: str) -> str:
    """What a table is made of, by Spark's name: delta, parquet, …"""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {place}").where("lower(col_name) = 'provider'")
    found = described.select("data_type").limit(1).collect()  # one row
    return str(found[0][0]).lower() if found else ""


def _any_of(key: str, clusters: Sequence[str]) -> Column:
    return reduce(Column.__or__, [F.col(key) == cluster for cluster in clusters])


@contextmanager
def _dynamic(spark: SparkSession) -> Iterator[None]:
    """Let an overwrite replace only the partitions that it has rows for."""
    with _ONE_AT_A_TIME:
        before = spark.conf.get(_MODE, None)
        spark.conf.set(_MODE, "dynamic")
        try:
            yield
        finally:
            spark.conf.set(_MODE, before) if before is not None else spark.conf.unset(_MODE)


def _literal(text: str) -> str:
    """A string of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
