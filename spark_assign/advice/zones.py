"""Computes the cost of cross-zone traffic and what would reduce it.

What each group reads from which rack, with its current owners and with rack-aware assignors, is one pass over complete
groups (`advice.kernel.zones`). Replica moves are computed over all groups that read a partition
(`advice.kernel.replica_moves`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_assign.advice.kernel import zones as kernel
from spark_assign.advice.kernel.replica_moves import MOVE, MOVE_COLUMNS, REORDER, replica_moves
from spark_assign.advice.kernel.zones import CURRENT, GB, ZoneParams
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.spark.dataframes import bounded_sum, map_arrow_batches, map_arrow_chunks, with_brokers, with_leaders
from spark_assign.stores.result import LazyResult
from spark_assign.tables.advice import ZONES_TABLES
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.parameters import find_fault
from spark_assign.tables.replicas import OPERATED_ZONES
from spark_assign.tables.schema_fields import schema

CHANGES = (REORDER, MOVE)
"""Kinds of replica moves: without copying data, and with copying."""

_PARTITION = ["cluster", "topic", "partition"]
_READ = schema(
    "cluster string, topic string, partition int, previous_replicas array<int>?, led_replicas array<int>?",
    "replica_racks array<string>?, broker_racks array<string>?, read_from array<string>?, read_bytes array<long>?",
    "groups long?, bytes_per_day long?",
)
_FOUND = StructType([*_READ, *from_arrow_schema(MOVE_COLUMNS)])


@dataclass(frozen=True)
class ZoneTraffic(LazyResult):
    """Cross-zone traffic, as lazy DataFrames (columns: `tables.advice.ZONES_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of that pass, computed or read back; the tables are projections of it.
        fleet: the fleet, with its replicas.
        params: price, currency, and minimum savings.

    Examples:
        >>> from dataclasses import replace
        >>> columns = ["cluster", "broker_id", "rack_id"]
        >>> brokers = spark.createDataFrame([("c", 1, "a"), ("c", 2, "b")], columns)
        >>> members = fleet.members.drop("rack_id").selectExpr("*", "'b' AS rack_id")
        >>> moves = measure_zone_traffic(replace(fleet, brokers=brokers, members=members)).replica_moves
        >>> columns = ["topic", "partition", "kind", "previous_replicas", "replicas"]
        >>> moves.where("not follower_fetching").select(columns).show()
        +-----+---------+----+-----------------+--------+
        |topic|partition|kind|previous_replicas|replicas|
        +-----+---------+----+-----------------+--------+
        |    t|        0|move|              [1]|     [2]|
        |    t|        1|move|              [1]|     [2]|
        |    t|        2|move|              [1]|     [2]|
        +-----+---------+----+-----------------+--------+
    """

    schemas: ClassVar = ZONES_TABLES

    fleet: FleetTables
    params: ZoneParams

    @cached_property
    def zones(self) -> DataFrame:
        """One row per group and read option: cross-zone traffic, its cost, and the recommendation."""
        return self._rows(kernel.OPTION_ROW, ZONES_TABLES["zones"])

    @cached_property
    def replica_moves(self) -> DataFrame:
        """One row per partition and replica change that reduces cross-zone traffic, the largest savings first."""
        order = [F.desc("saved_bytes_per_day"), *map(F.col, (*_PARTITION, "follower_fetching", "kind"))]
        return self.unsorted_replica_moves().orderBy(*order)

    def unsorted_replica_moves(self) -> DataFrame:
        """Returns the rows of `replica_moves` in any order."""
        replicas, brokers = self.fleet.replicas, self.fleet.brokers
        assert replicas is not None
        assert brokers is not None
        led = F.expr(
            "CASE WHEN array_contains(replicas, leader_id) "
            "THEN concat(array(leader_id), filter(replicas, each -> each != leader_id)) ELSE replicas END"
        )
        previous = with_leaders(replicas).select(
            *_PARTITION, F.col("replicas").alias("previous_replicas"), led.alias("led_replicas")
        )
        racked = facts.racks_of_brokers(brokers)
        cluster_racks = racked.groupBy("cluster").agg(F.collect_set("rack_id").alias("broker_racks"))
        racks = F.transform("led_brokers", lambda broker: broker["rack_id"])
        placed = with_brokers(previous, "led_brokers", "led_replicas", racked).withColumn("replica_racks", racks)
        placed = placed.join(cluster_racks, "cluster")
        find_moves = map_arrow_chunks(partial(map, replica_moves), chunk_rows=1)  # of one batch at a time
        moves = self._reads().join(placed, _PARTITION).select(*_READ.names).mapInArrow(find_moves, _FOUND)
        rows = moves.join(_brokers_by_rack(brokers), F.expr("cluster = of_cluster AND to_rack = of_rack_id"))
        columns = {
            "replicas": _new_replicas(),
            "saved_per_day": F.col("saved_bytes_per_day") / GB * self.params.price_per_gb,
            "currency": F.lit(self.params.currency),
        }
        return rows.withColumns(columns).select(*ZONES_TABLES["replica_moves"].names)

    def changes(self, kind: str = REORDER) -> DataFrame:
        """Returns the replica moves of a kind in the format of `replicas.tool_files` (`changes`), for the current
        groups."""
        return changes(self.replica_moves, kind, follower_fetching=self.params.follower_fetching)

    def _reads(self) -> DataFrame:
        """Returns what is read of each partition, by rack."""
        rows = self.rows.where(F.col("kind") == kernel.READ_ROW)
        reads = F.collect_list(F.struct("rack_id", "bytes_per_day")).alias("each")
        sums = [bounded_sum(F.col(name)).alias(name) for name in ("groups", "bytes_per_day")]
        listed = rows.groupBy(*_PARTITION).agg(reads, *sums)
        return listed.withColumns({"read_from": F.col("each.rack_id"), "read_bytes": F.col("each.bytes_per_day")})


def measure_zone_traffic(fleet: FleetTables, params: ZoneParams | None = None) -> ZoneTraffic:
    """Computes what the groups of a fleet read across zones, its cost, and what would reduce it.

    A member reads what is written, once, from the leader or, with follower fetching (KIP-392), from a replica in its
    rack. The leader is the current one, if the fleet has it (`replicas.leader_id`), else the preferred one. The
    assignors are those of Kafka's Java clients since 3.5, those of the broker, and rack-aware ones that aren't part of
    Kafka, which are never recommended. For the rules, see `advice.kernel.zones`.

    Args:
        fleet: clusters, topics, groups, and members with their racks, ownership, replicas, brokers with their racks,
            and `loads.in_bytes_per_second`.
        params: price, currency, minimum savings, and follower fetching; `None`: the defaults of `ZoneParams`.

    Returns:
        The zones. Its tables are lazy, except for one pass that checks the fleet's sizes and values. Every group of the
        fleet is in `zones` or in `rejected`.

    Raises:
        FleetError: values that can't be planned with; missing racks or loads.
        ConfigError: an invalid price or minimum savings.

    Examples:
        >>> from dataclasses import replace
        >>> from pyspark.sql import functions as F
        >>> brokers = fleet.brokers.withColumn("rack_id", F.lit("a"))
        >>> members = fleet.members.withColumn("rack_id", F.lit("b"))
        >>> in_zones = replace(fleet, brokers=brokers, members=members)
        >>> zones = measure_zone_traffic(in_zones, ZoneParams(price_per_gb=0.5)).zones
        >>> current = zones.where("group_id = 'payments-eu' and assignor = 'current' and not follower_fetching")
        >>> current.select("bytes_per_day", "cross_zone_share", "cost_per_day").show()
        +-------------+----------------+------------+
        |bytes_per_day|cross_zone_share|cost_per_day|
        +-------------+----------------+------------+
        |  51840000000|             1.0|       25.92|
        +-------------+----------------+------------+
    """
    params = params or ZoneParams()
    if fault := find_fault(params):
        raise ConfigError(f"measure_zone_traffic: {fault}")
    if missing := faults(fleet):
        raise FleetError(missing)
    group_facts = facts.facts_by_group(
        fleet, ["range"], topic_ids=fleet.groups is not None, owned_order=True, loads=True, leaders="current"
    )
    work = map_arrow_batches(partial(kernel.measure_traffic, params=params))
    return ZoneTraffic(group_facts.mapInArrow(work, from_arrow_schema(kernel.ZONE_ROWS)), fleet, params)


def compare_zone_traffic(before: FleetTables, after: FleetTables, price_per_gb: float) -> DataFrame:
    """Returns the cross-zone traffic of current owners before and after an operation on replicas
    (`tables.replicas.OPERATED_ZONES`).

    Args:
        before, after: fleets as for `measure_zone_traffic`. Clusters without replicas in `after` are left out.
        price_per_gb: price per gigabyte, in USD.

    Raises:
        FleetError: racks or loads are missing.
        ConfigError: the price is negative.
    """
    params = ZoneParams(price_per_gb=price_per_gb)
    current = (F.col("assignor") == CURRENT) & ~F.col("follower_fetching")
    sides = [
        measure_zone_traffic(fleet, params)
        .zones.where(current)
        .select(
            *GROUP_KEY,
            "currency",
            F.col("cross_zone_bytes_per_day").alias(f"cross_zone_bytes_{when}"),
            F.col("cost_per_day").alias(f"cost_{when}"),
        )
        for when, fleet in (("before", before), ("after", after))
    ]
    planned = F.broadcast(after.replicas.select("cluster").distinct())  # type: ignore[union-attr]
    rows = sides[0].join(sides[1].drop("currency"), [*GROUP_KEY]).join(planned, "cluster", "left_semi")
    return rows.select(*OPERATED_ZONES.names)


def changes(replica_moves: DataFrame, kind: str = REORDER, *, follower_fetching: bool = False) -> DataFrame:
    """Converts replica moves to the format of `replicas.tool_files`, which writes files for Kafka's tools.

    Args:
        replica_moves: `Zones.replica_moves`, or the stored table.
        kind: `reorder` or `move`. If a partition has both, use one of them.
        follower_fetching: selects the moves for groups with follower fetching, or for those without.

    Returns:
        cluster, topic, partition, previous_replicas, replicas, moved (replicas), leader_changed, bytes
            (null: unknown).
    """
    wanted = (F.col("kind") == kind) & (F.col("follower_fetching") == follower_fetching)
    return replica_moves.where(wanted).select(
        *_PARTITION,
        "previous_replicas",
        "replicas",
        F.size(F.array_except("replicas", "previous_replicas")).alias("moved"),
        (~F.col("follower_fetching") | (F.get("previous_replicas", F.lit(0)) != F.get("replicas", F.lit(0)))).alias(
            "leader_changed"
        ),
        F.lit(None).cast("long").alias("bytes"),
    )


def faults(fleet: FleetTables) -> list[Fault]:
    """Returns a fault for each table or column that the analysis needs and the fleet doesn't have."""
    remedies = {
        "replicas": "Add it, with leader_id if leaders aren't the preferred ones",
        "brokers": "Add it, with the rack of each broker",
        "loads": "Add it, with in_bytes_per_second of each partition",
    }
    missing = [name for name in remedies if getattr(fleet, name) is None]
    found = [Fault(name, "*", "the table is missing", remedies[name]) for name in missing]
    if fleet.brokers is not None and fleet.brokers.where(F.col("rack_id") != "").isEmpty():
        found.append(Fault("brokers", "rack_id", "no broker has a rack", "Set broker.rack to the zone of each broker"))
    if not fleet.sizes.racked_members:
        remedy = "Set client.rack to the zone of each consumer (Kafka's Java clients report it since 3.4)"
        found.append(Fault("members", "rack_id", "no member has a rack", remedy))
    return found


def _brokers_by_rack(brokers: DataFrame) -> DataFrame:
    """Returns of_cluster, of_rack_id, and of_brokers (a sorted array of ids)."""
    key = [F.col(name).alias(f"of_{name}") for name in ("cluster", "rack_id")]
    ids = F.sort_array(F.collect_list("broker_id")).alias("of_brokers")
    return brokers.where(F.col("rack_id") != "").groupBy(*key).agg(ids)


def _new_replicas() -> Column:
    """Returns the new replica list; successive partitions use different brokers of the target rack."""
    old = "get(led_replicas, replica_index)"
    new = "get(of_brokers, partition % size(of_brokers))"
    first = f"concat(array({{}}), filter(previous_replicas, each -> each != {old}))"
    return F.expr(
        f"CASE WHEN kind = '{REORDER}' THEN {first.format(old)} WHEN NOT follower_fetching THEN {first.format(new)} "
        f"ELSE transform(previous_replicas, each -> if(each = {old}, {new}, each)) END"
    )
