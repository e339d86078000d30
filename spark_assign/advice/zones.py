"""Computes the cost of cross-zone traffic and what would reduce it.

What each group reads from which rack, as owned today and with rack-aware assignors, is one pass over complete groups
(`advice.kernel.zones`). Replica moves are computed over all groups that read a partition
(`advice.kernel.replica_moves`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructType

from spark_assign.advice.kernel import zones as kernel
from spark_assign.advice.kernel.replica_moves import MOVE, MOVE_COLUMNS, REORDER, replica_moves
from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.advice import ZONES_TABLES
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.schema_fields import nullable, required

PRICE, CURRENCY = 0.02, "USD"
"""Cost per gigabyte of cross-zone traffic: AWS charges the sender and the receiver 0.01 USD each
("Data Transfer within the same AWS Region" of Amazon EC2 On-Demand Pricing).
"""

WORTH = 0.01
"""Default minimum savings of a change per day: smaller savings aren't worth the effort."""

CHANGES = (REORDER, MOVE)
"""Kinds of replica moves: without copying data, and with copying."""

_PARTITION = ["cluster", "topic", "partition"]
_READ = StructType(
    [
        *required(cluster=StringType(), topic=StringType(), partition=IntegerType()),
        *nullable(
            previous=ArrayType(IntegerType()),
            replica_racks=ArrayType(StringType()),
            broker_racks=ArrayType(StringType()),
            read_from=ArrayType(StringType()),
            read_bytes=ArrayType(LongType()),
            groups=LongType(),
            bytes_per_day=LongType(),
        ),
    ]
)
_FOUND = StructType([*_READ, *from_arrow_schema(pa.schema(MOVE_COLUMNS))])


@dataclass(frozen=True)
class Zones(LazyResult):
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
        >>> members = fleet.members.selectExpr("* except (rack_id)", "'b' AS rack_id")
        >>> moves = zones(replace(fleet, brokers=brokers, members=members)).replica_moves
        >>> moves.where("not follower_fetching").select("topic", "partition", "kind", "previous", "replicas").show()
        +-----+---------+----+--------+--------+
        |topic|partition|kind|previous|replicas|
        +-----+---------+----+--------+--------+
        |    t|        0|move|     [1]|     [2]|
        |    t|        1|move|     [1]|     [2]|
        |    t|        2|move|     [1]|     [2]|
        +-----+---------+----+--------+--------+
    """

    fleet: Fleet
    params: kernel.ZoneParams

    @cached_property
    def zones(self) -> DataFrame:
        """One row per group and read option: cross-zone traffic, its cost, and the recommendation."""
        return self._rows(kernel.OPTION_ROW, ZONES_TABLES["zones"])

    @cached_property
    def replica_moves(self) -> DataFrame:
        """One row per partition and replica change that reduces cross-zone traffic, the largest savings first."""
        assert self.fleet.replicas is not None
        assert self.fleet.brokers is not None
        racks_of = facts.racks_of_brokers(self.fleet.brokers)
        placed = self.fleet.replicas.select(*_PARTITION, F.col("replicas").alias("previous")).join(racks_of, "cluster")
        placed = placed.withColumns(
            {
                "replica_racks": F.expr("transform(previous, each -> try_element_at(rack_of, each))"),
                "broker_racks": F.array_distinct(F.map_values("rack_of")),
            }
        )
        found = self._reads().join(placed, _PARTITION).select(*_READ.names).mapInArrow(_find_moves, _FOUND)
        named = [F.col(name).alias(f"of_{name}") for name in ("cluster", "rack_id", "brokers")]
        brokers = _brokers_by_rack(self.fleet.brokers).select(*named)
        matched = found.join(brokers, F.expr("cluster = of_cluster AND to_rack = of_rack_id"))
        rows = matched.withColumns(
            {
                "replicas": _new_replicas(),
                "saved_per_day": F.col("saved_bytes_per_day") / kernel.GB * self.params.price,
                "currency": F.lit(self.params.currency),
            }
        )
        order = [F.desc("saved_bytes_per_day"), *map(F.col, (*_PARTITION, "follower_fetching", "kind"))]
        return rows.orderBy(*order).select(*ZONES_TABLES["replica_moves"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that can't be analyzed, and groups of other types."""
        return self._rows(kernel.REJECTED, ZONES_TABLES["rejected"])

    def changes(self, kind: str = REORDER) -> DataFrame:
        """Returns the replica moves of a kind in the format of `replicas.tool_files` (`changes`), for the current
        groups."""
        return changes(self.replica_moves, kind, follower_fetching=self.params.follower_fetching)

    def _reads(self) -> DataFrame:
        """Returns what is read of each partition, by rack."""
        rows = self.rows.where(F.col("kind") == kernel.READ_ROW)
        reads = F.collect_list(F.struct("rack_id", "bytes_per_day")).alias("each")
        sums = [F.sum(name).alias(name) for name in ("groups", "bytes_per_day")]
        listed = rows.groupBy(*_PARTITION).agg(reads, *sums)
        return listed.withColumns({"read_from": F.col("each.rack_id"), "read_bytes": F.col("each.bytes_per_day")})


def zones(
    fleet: Fleet,
    *,
    price: float = PRICE,
    currency: str = CURRENCY,
    worth: float = WORTH,
    follower_fetching: bool = False,
) -> Zones:
    """Computes what the groups of a fleet read across zones, its cost, and what would reduce it.

    A member reads what is written, once, from the preferred leader or, with follower fetching (KIP-392), from a replica
    in its rack. The assignors are those of Kafka's Java clients since 3.5, those of the broker, and rack-aware ones
    that aren't part of Kafka, which are never recommended. For the rules, see `advice.kernel.cross_zone_traffic`.

    Args:
        fleet: clusters, topics, groups, and members with their racks, ownership, replicas, brokers with their racks,
            and
            `loads.in_bytes_per_second`.
        price: cost per gigabyte (10^9 bytes) of cross-zone traffic.
        currency: currency of the price.
        worth: minimum savings of a change per day, in that currency.
        follower_fetching: whether brokers have `replica.selector.class` set to `RackAwareReplicaSelector` today.

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
        >>> found = zones(replace(fleet, brokers=brokers, members=members), price=0.5).zones
        >>> today = found.where("group_id = 'payments-eu' and assignor = 'today' and not follower_fetching")
        >>> today.select("bytes_per_day", "cross_zone_share", "cost_per_day").show()
        +-------------+----------------+------------+
        |bytes_per_day|cross_zone_share|cost_per_day|
        +-------------+----------------+------------+
        |  51840000000|             1.0|       25.92|
        +-------------+----------------+------------+
    """
    for name, value in (("price", price), ("worth", worth)):
        if not isfinite(value) or value < 0:
            raise ConfigError(f"{name} {value}: expected a number from 0")
    if missing := faults(fleet):
        raise FleetError(missing)
    params = kernel.ZoneParams(price, currency, worth, follower_fetching)
    has_groups = fleet.groups is not None
    group_facts = facts.facts_by_group(
        fleet, ["range"], topic_ids=has_groups, owned_order=True, loads=True, leaders=True
    )
    return Zones(
        group_facts.mapInArrow(
            map_arrow_batches(partial(kernel.zones, params=params)), from_arrow_schema(kernel.ZONED)
        ),
        fleet,
        params,
    )


def changes(replica_moves: DataFrame, kind: str = REORDER, *, follower_fetching: bool = False) -> DataFrame:
    """Converts replica moves to the format of `replicas.tool_files`, which writes files for Kafka's tools.

    Args:
        replica_moves: `Zones.replica_moves`, or the stored table.
        kind: `reorder` or `move`. If a partition has both, use one of them.
        follower_fetching: selects the moves for groups with follower fetching, or for those without.

    Returns:
        cluster, topic, partition, previous, replicas, moved (replicas), leader_changed, bytes (null: unknown).
    """
    wanted = (F.col("kind") == kind) & (F.col("follower_fetching") == follower_fetching)
    return replica_moves.where(wanted).select(
        *_PARTITION,
        "previous",
        "replicas",
        F.size(F.array_except("replicas", "previous")).alias("moved"),
        (F.element_at("previous", 1) != F.element_at("replicas", 1)).alias("leader_changed"),
        F.lit(None).cast("long").alias("bytes"),
    )


def faults(fleet: Fleet) -> list[Fault]:
    """Returns a fault for each table or column that the analysis needs and the fleet doesn't have."""
    problem = "the table is missing"
    remedies = {
        "replicas": "Give it: who leads a partition is read from it",
        "brokers": "Give it, with the rack of each broker",
        "loads": "Give it, with the bytes a second that are written to each partition",
    }
    found = [Fault(name, "*", problem, remedy) for name, remedy in remedies.items() if getattr(fleet, name) is None]
    if fleet.brokers is not None and fleet.brokers.where(F.col("rack_id") != "").isEmpty():
        found.append(Fault("brokers", "rack_id", "no broker has a rack", "Set broker.rack to the zone of each broker"))
    if not fleet.sizes.racked_members:
        remedy = "Set client.rack to the zone of each consumer (Kafka's Java clients tell it from 3.5 on)"
        found.append(Fault("members", "rack_id", "no member has a rack", remedy))
    return found


def _find_moves(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Finds the replica moves of each batch of partitions."""
    for batch in batches:
        yield from replica_moves(pa.Table.from_batches([batch])).to_batches()


def _brokers_by_rack(brokers: DataFrame) -> DataFrame:
    """Returns cluster, rack_id, and brokers (a sorted array of ids)."""
    listed = F.sort_array(F.collect_list("broker_id")).alias("brokers")
    return brokers.where(F.col("rack_id") != "").groupBy("cluster", "rack_id").agg(listed)


def _new_replicas() -> Column:
    """Returns the new replica list; successive partitions use different brokers of the target rack."""
    old = "previous[place]"
    new = "of_brokers[partition % size(of_brokers)]"
    front = f"concat(array({{}}), filter(previous, each -> each != {old}))"
    return F.expr(
        f"CASE WHEN kind = '{REORDER}' THEN {front.format(old)} WHEN NOT follower_fetching THEN {front.format(new)} "
        f"ELSE transform(previous, (each, at) -> if(at = place, {new}, each)) END"
    )
