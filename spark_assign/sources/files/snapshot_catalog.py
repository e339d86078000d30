"""Writes a snapshot to tables of a catalog, and replaces the rows of its clusters.

The method depends on the format of the table. Delta, Iceberg, and other formats with a conditional overwrite
(`replaceWhere` in Delta) replace the rows in one commit. Spark's parquet, orc, csv, and json tables must be partitioned
by cluster, and only the partition of the cluster is overwritten. Missing tables are created, partitioned by cluster.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.files.snapshot_offsets import SHOWN_MICROS
from spark_assign.sources.files.tables import temporary_settings
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.spark.engine import dataframe_of
from spark_assign.spark.progress import progress
from spark_assign.stores.locations import KEYS
from spark_assign.stores.targets import retry_conflicts
from spark_assign.tables.errors import ConfigError, SourceError, SparkAssignError, reason
from spark_assign.tables.groups import OPTIONAL_SNAPSHOT_TABLES, SNAPSHOTS

log = logging.getLogger(__name__)

_FILE_PROVIDERS = ("parquet", "orc", "csv", "json", "avro", "text", "hive")
"""Providers without a conditional overwrite."""

_SNAPSHOTS = {KEYS[0]: "snapshots", KEYS[1]: "connect_snapshots"}
_MODE = "spark.sql.sources.partitionOverwriteMode"
"""With `dynamic`, an overwrite replaces only the partitions that it has rows for."""
_MODE_LOCK = threading.Lock()
"""The mode is a setting of the session. Threads that share a session must not change it while another one writes."""


def write_tables(snapshot: Snapshot, spark: SparkSession, prefix: str) -> None:
    """Replaces the rows of the snapshot's clusters in the tables `<prefix>.<table>`, one table after the other.

    Rows of other clusters are kept, and other snapshots can be written at the same time. For an unreadable Connect
    cluster, only the row of `unreadable` is replaced. Missing tables are created in the default format of the session
    (`spark.sql.sources.default`).

    The last table is `snapshots`, with the time at which the cluster was read. If a snapshot fails before it, that time
    is older than the cluster's rows.

    Raises:
        ConfigError: the tables have another Kafka cluster with this name, or this cluster with another name.
        SourceError: a table can't be written. The tables before it have the new rows, the others the old ones.
    """
    snapshots_table = _SNAPSHOTS[snapshot.key]
    _check(spark, f"{prefix}.{snapshots_table}", snapshot)
    read = [cluster_snapshot.cluster for cluster_snapshot in snapshot.readable()]
    unreadable = [cluster_snapshot.cluster for cluster_snapshot in snapshot.unreadable()]
    tables = {**snapshot.tables, **_empty_tables(snapshot, spark, prefix), snapshots_table: _snapshot_rows(snapshot)}
    with progress("tables written", len(tables)) as step:
        for name, table in tables.items():
            clusters = [*read, *unreadable] if name == "unreadable" else read
            target = f"{prefix}.{name}"
            step(0, name)
            try:
                retry_conflicts(partial(_replace, spark, target, snapshot.key, clusters, table))
            except SparkAssignError:
                raise
            except Exception as error:  # classic PySpark lets Java's own exceptions through
                raise SourceError(f"the table {target} cannot be written: {reason(error)}") from error
            step()


def last_taken(spark: SparkSession, prefix: str, key: str, cluster: str) -> datetime | None:
    """Returns the time of a cluster's snapshot in the tables of a catalog, or None if there is none that Python has."""
    target = f"{prefix}.{_SNAPSHOTS[key]}"
    if not spark.catalog.tableExists(target):
        return None
    micros = F.unix_micros("taken_at")
    of_cluster = spark.table(target).where((F.col(key) == cluster) & micros.between(*SHOWN_MICROS))
    rows = of_cluster.agg(F.max(micros)).collect()  # one row
    return None if rows[0][0] is None else datetime.fromtimestamp(rows[0][0] / 1e6, UTC)


def _empty_tables(snapshot: Snapshot, spark: SparkSession, prefix: str) -> dict[str, pa.Table]:
    """Returns empty tables instead of optional ones that weren't read, to remove the rows of an earlier snapshot."""
    if snapshot.key != KEYS[0]:
        return {}
    return {
        name: to_arrow_schema(schema).empty_table()
        for name, schema in OPTIONAL_SNAPSHOT_TABLES.items()
        if name not in snapshot.tables and spark.catalog.tableExists(f"{prefix}.{name}")
    }


def _snapshot_rows(snapshot: Snapshot) -> pa.Table:
    """Returns the rows of SNAPSHOTS, one for each cluster that was read."""
    rows = [
        {
            "cluster": cluster_snapshot.cluster,
            "taken_at": cluster_snapshot.taken_at,
            "kafka_cluster_id": cluster_snapshot.source.get("kafka_cluster_id"),
            "content": json.dumps(cluster_snapshot.summary(), ensure_ascii=False),
        }
        for cluster_snapshot in snapshot.readable()
    ]
    table = pa.Table.from_pylist(rows, to_arrow_schema(SNAPSHOTS))
    return table.rename_columns([snapshot.key, *SNAPSHOTS.names[1:]])


def _check(spark: SparkSession, target: str, snapshot: Snapshot) -> None:
    """Raises ConfigError if earlier snapshots have the name for another Kafka cluster, or the cluster under another
    name.
    """
    own = snapshot.source.get("kafka_cluster_id")
    if not own or not spark.catalog.tableExists(target):
        return
    has_name, has_id = F.col("cluster") == snapshot.cluster, F.col("kafka_cluster_id") == own
    conflicts = spark.table(target).where((has_name & ~has_id) | (~has_name & has_id)).limit(1).collect()  # one row
    for row in conflicts:
        if row["cluster"] == snapshot.cluster:
            raise ConfigError(
                f"{target} has another Kafka cluster as {snapshot.cluster} (id {row['kafka_cluster_id']}; this one has "
                f"{own}). Use another --cluster-name. If the cluster was recreated, delete that row of {target} first."
            )
        raise ConfigError(
            f"{target} has this Kafka cluster (id {own}) already, as {row['cluster']}. Use that --cluster-name, or "
            "delete the rows of that cluster first."
        )


def _replace(spark: SparkSession, target: str, key: str, clusters: Sequence[str], table: pa.Table) -> None:
    """Replaces the rows of clusters in a table."""
    rows = dataframe_of(spark, table, from_arrow_schema(table.schema))
    if not spark.catalog.tableExists(target):
        _create(spark, target, key, rows)
    columns = spark.table(target).columns
    if set(columns) != set(rows.columns):
        raise SourceError(
            f"{target} is there with other columns: {', '.join(columns)}; expected {', '.join(rows.columns)}. "
            "Choose another schema, or drop or rename that table"
        )
    rows = rows.select(*columns).coalesce(1)  # one file per cluster, not one per core
    provider = _provider(spark, target)
    if provider not in _FILE_PROVIDERS:
        rows.writeTo(target).overwrite(reduce(Column.__or__, [F.col(key) == cluster for cluster in clusters]))
        return
    partitions = [column.name for column in spark.catalog.listColumns(target) if column.isPartition]
    if provider == "hive" or partitions != [key]:
        raise SourceError(
            f"{target} is a {provider} table partitioned by {', '.join(partitions) or 'nothing'}, in which the rows of "
            "one cluster cannot be replaced. Drop or rename it, and take the snapshots of all clusters once more: it "
            f"is then created again, partitioned by {key}. A Delta or Iceberg table needs no partitions."
        )
    with _MODE_LOCK, temporary_settings(spark, {_MODE: "dynamic"}):
        rows.write.mode("overwrite").insertInto(target)
    with_rows = set(pc.unique(table[key]).to_pylist())
    for cluster in clusters:
        if cluster not in with_rows:  # no row overwrites nothing
            spark.sql(f"ALTER TABLE {target} DROP IF EXISTS PARTITION ({key} = {_literal(cluster)})")


def _create(spark: SparkSession, target: str, key: str, rows: DataFrame) -> None:
    """Creates the table, unless another process does so at the same time."""
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema)
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {target} ({columns}) PARTITIONED BY ({key})")
    except Exception:  # classic PySpark lets Java's own exceptions through
        if not spark.catalog.tableExists(target):
            raise


def _provider(spark: SparkSession, target: str) -> str:
    """Returns Spark's name for the format of a table: delta, parquet, …"""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {target}").where("lower(col_name) = 'provider'")
    rows = described.select("data_type").limit(1).collect()  # one row
    return str(rows[0][0]).lower() if rows else ""


def _literal(text: str) -> str:
    """Returns a text as an SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
