"""Recorded or random groups as one fleet: every case its own cluster, so that one Spark call plans all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet
from spark_assign.java.hash_map import texts_in_table_order
from spark_assign.tables.groups import INPUT_TABLES
from tests.frames import dataframe, merged
from tests.golden.vectors import Row, Sets

GROUP_ID = "group"
TABLES = ("topics", "members", "subscriptions", "owned", "replicas", "brokers", "groups")


def table_rows(row: Row) -> dict[str, list[tuple[Any, ...]]]:
    """One case as rows of the Fleet's tables. Brokers are made up: one for each rack that a replica names,
    and one without rack where a replica has none."""
    cluster = row["case"]
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    ids = row.get("topic_ids", {})
    if "subscription_type" in row:
        tables["groups"] = [(cluster, GROUP_ID, None, "consumer", *[None] * 5, row["subscription_type"])]
    tables["topics"] = [(cluster, topic, count, ids.get(topic)) for topic, count in row["topics"].items()]
    for position, member in enumerate(row["members"]):
        key = (cluster, GROUP_ID, member["id"])
        user_generation = None
        if "user_generation" in member:
            user_generation = -1 if member["user_generation"] is None else member["user_generation"]
        generations = (member["generation"], user_generation)
        tables["members"].append((*key, member["instance"], None, None, member["rack"], *generations, position, None))
        tables["subscriptions"] += [(*key, topic) for topic in member["topics"]]
        tables["owned"] += [(*key, *owned, place) for place, owned in enumerate(member["owned"])]
    broker_of: dict[str | None, int] = {}
    for topic, partitions in (row.get("replica_racks") or {}).items():
        for partition, racks in enumerate(partitions):
            brokers = [broker_of.setdefault(rack, len(broker_of)) for rack in racks]
            tables["replicas"].append((cluster, topic, partition, brokers))
    tables["brokers"] = [(cluster, broker, rack) for rack, broker in broker_of.items()]
    return tables


def is_determined(row: Row) -> bool:
    """Whether a fleet's tables say all that the answer of a broker hangs on.

    They do not say, of a bucket with more than eight members, in which order the recorded walk met them.
    """
    ids = [member["id"] for member in row["members"]]
    return texts_in_table_order(ids) == ids


def fleet_of(spark: SparkSession, rows: Iterable[Row]) -> Fleet:
    """One Fleet in which every case is a cluster with one group."""
    tables = merged(map(table_rows, rows))
    if not tables["groups"]:
        del tables["groups"]
    return Fleet(**{name: dataframe(spark, INPUT_TABLES[name], lines) for name, lines in tables.items()})


def configured_fleet_of(spark: SparkSession, rows: Iterable[Row]) -> Fleet:
    """The same, each group configured with the assignor that its row names as `profile`."""
    given = list(rows)
    configured = [(row["case"], GROUP_ID, row["profile"], "classic", *[None] * 6) for row in given]
    return replace(fleet_of(spark, given), groups=dataframe(spark, INPUT_TABLES["groups"], configured))


def planned_sets(assignments: DataFrame) -> Sets:
    """`Plan.assignments` of a fleet made by `fleet_of`, as sets; no partition may come twice."""
    table = assignments.select("cluster", "member_id", "topic", "partition").toArrow().to_pydict()
    sets: Sets = {}
    rows = zip(table["cluster"], table["member_id"], table["topic"], table["partition"], strict=True)
    for cluster, member_id, topic, partition in rows:
        got = sets.setdefault(cluster, {}).setdefault(member_id, set())
        assert (topic, partition) not in got, f"{cluster}: {member_id} gets {topic}-{partition} twice"
        got.add((topic, partition))
    return sets
