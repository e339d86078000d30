"""What tests of live groups share: topics, deadlines, snapshots as rows, owners by client id, stories."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from kafka.admin import NewTopic
from pyspark.sql import SparkSession

from spark_assign import Fleet
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.tables.groups import INPUT_TABLES
from tests.frames import dataframe
from tests.kafka.broker import Cluster

PATIENCE_S = 120

Found = TypeVar("Found")

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Partition = tuple[str, int]
Owners = dict[tuple[str, str], set[Partition]]
"""Group and client id to partitions. Client ids stay when members restart; member ids change."""


def create_topics(cluster: Cluster, topics: Mapping[str, int], replicas: int = 1) -> None:
    """Creates topics by name and number of partitions, and waits for them."""
    with closing(cluster.admin()) as admin:
        admin.create_topics([NewTopic(name, count, replicas) for name, count in topics.items()])
        admin.wait_for_topics(list(topics))


def wait_until(find: Callable[[], Found], what: object, within_s: float = PATIENCE_S, every_s: float = 0.2) -> Found:
    """Returns the first result of `find` that is true; after the deadline fails with `what`, or what it returns."""
    deadline = time.monotonic() + within_s
    while not (found := find()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what() if callable(what) else what}"
        time.sleep(every_s)
    return found


def delete_groups(cluster: Cluster, groups: Iterable[str]) -> None:
    """Deletes groups as soon as their last members are gone; static members stay for a session."""
    left = list(groups)
    with closing(cluster.admin()) as admin:

        def delete() -> bool:
            nonlocal left
            answers = admin.delete_groups(left).items()
            left = [group for group, answer in answers if answer not in ("OK", "GroupIdNotFoundError")]
            return not left

        wait_until(delete, lambda: f"deleted: {left}", every_s=1)


def read(cluster: Cluster, groups: str | list[str], topics: str = "none") -> Tables:
    """Returns a snapshot of these groups, of these topics and of those that the groups use, as rows."""
    taken = snapshot(cluster.bootstrap_servers, groups=groups, topics=topics)
    return {name: table.to_pylist() for name, table in taken.tables.items()}


def fleet(spark: SparkSession, tables: Tables) -> Fleet:
    """Returns the rows of a snapshot as a fleet."""
    return Fleet(
        **{
            name: dataframe(spark, schema, [tuple(map(row.get, schema.names)) for row in tables[name]])
            for name, schema in INPUT_TABLES.items()
            if name in tables
        }
    )


def clients(tables: Tables) -> dict[tuple[str, str], str]:
    """Returns the client id of each member, by group and member id."""
    return {(row["group_id"], row["member_id"]): row["client_id"] for row in tables["members"]}


def owners(tables: Tables, owned: Iterable[Row] | None = None) -> Owners:
    """Returns what each member owns by `owned`, or else by the snapshot; members without partitions are included."""
    names = clients(tables)
    found: Owners = {(group, client): set() for (group, _), client in names.items()}
    for row in tables["owned_slices"] if owned is None else owned:
        found[row["group_id"], names[row["group_id"], row["member_id"]]] |= partitions(row)
    return found


def owners_in(tables: Tables, group: str) -> dict[str, set[Partition]]:
    """Returns what each member of one group owns, by client id."""
    return {client: owned for (name, client), owned in owners(tables).items() if name == group}


def partitions(row: Row) -> set[Partition]:
    """Returns the partitions of a row of owned partitions."""
    return {(row["topic"], row["first"] + row["step"] * at) for at in range(row["count"])}


def events(files: Iterable[Path]) -> list[Row]:
    """Returns every line of JSON so far, by time; a line that is still being written is left for later."""
    lines = [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return sorted(map(json.loads, lines), key=lambda row: int(row["at_ms"]))
