"""What crosses a zone: bytes that groups read across racks, in money, and what would save some of it.

What each group reads from where, today and by the assignors that know racks, is one pass over whole groups
(`advice.kernel.zones`). Replicas are looked at over all groups that read a partition
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
from spark_assign.advice.kernel.replica_moves import FOUND, MOVE, REORDER, replica_moves
from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.advice import ZONES_TABLES
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.schema_fields import nullable, required

PRICE, CURRENCY = 0.02, "USD"
"""Of a gigabyte that crosses a zone: AWS takes 0.01 USD from whoever sends it and 0.01 USD from whoever receives it
("Data Transfer within the same AWS Region" of Amazon EC2 On-Demand Pricing)."""

WORTH = 0.01
"""A change that saves less a day is none to make: a cent a day does not pay for the look at it."""

CHANGES = (REORDER, MOVE)
"""Kinds of replica moves: those that copy nothing, and those that do."""

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
_FOUND = StructType([*_READ, *from_arrow_schema(pa.schema(FOUND))])


@dataclass(frozen=True)
class Zones(LazyResult):
    """What crosses a zone, as lazy DataFrames (columns: `tables.advice.ZONES_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the fleet says, or, read back, what one has said; the other attributes are its tables.
        fleet: where the replicas are.
        params: price, currency, and what is worth a change.

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
        """A row per group and way in which it may read: what crosses a zone, what that costs, and what to take."""
        return self._rows(kernel.OF_WAY, ZONES_TABLES["zones"])

    @cached_property
    def replica_moves(self) -> DataFrame:
        """A row per partition and change of its replicas by which less crosses a zone, those that save most first."""
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
        found = self._reads().join(placed, _PARTITION).select(*_READ.names).mapInArrow(_in_batches, _FOUND)
        named = [F.col(name).alias(f"of_{name}") for name in ("cluster", "rack_id", "brokers")]
        brokers = _by_rack(self.fleet.brokers).select(*named)
        near = found.join(brokers, F.expr("cluster = of_cluster AND to_rack = of_rack_id"))
        rows = near.withColumns(
            {
                "replicas": _changed(),
                "saved_per_day": F.col("saved_bytes_per_day") / kernel.GB * self.params.price,
                "currency": F.lit(self.params.currency),
            }
        )
        order = [F.desc("saved_bytes_per_day"), *map(F.col, (*_PARTITION, "follower_fetching", "kind"))]
        return rows.orderBy(*order).select(*ZONES_TABLES["replica_moves"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that nothing can be said of, and those that are no groups of consumers."""
        return self._rows(kernel.REJECTED, ZONES_TABLES["rejected"])

    def changes(self, kind: str = REORDER) -> DataFrame:
        """The replica moves of one kind as `replicas.tool_files` takes them (`changes`), for the groups as they are."""
        return changes(self.replica_moves, kind, follower_fetching=self.params.follower_fetching)

    def _reads(self) -> DataFrame:
        """What is read of each partition, by rack."""
        rows = self.rows.where(F.col("kind") == kernel.OF_READ)
        each = F.collect_list(F.struct("rack_id", "bytes_per_day")).alias("each")
        sums = [F.sum(name).alias(name) for name in ("groups", "bytes_per_day")]
        listed = rows.groupBy(*_PARTITION).agg(each, *sums)
        return listed.withColumns({"read_from": F.col("each.rack_id"), "read_bytes": F.col("each.bytes_per_day")})


def zones(
    fleet: Fleet,
    *,
    price: float = PRICE,
    currency: str = CURRENCY,
    worth: float = WORTH,
    follower_fetching: bool = False,
) -> Zones:
    """What the groups of a fleet read across zones, in money, and what would save some of it.

    Args:
        fleet: clusters, topics, groups and members with their racks, who owns what, replicas, brokers with their
            racks, and `loads.bytes`.
        price: of a gigabyte (10^9 bytes) that crosses a zone.
        currency: of the price.
        worth: what a change has to save a day, in that currency.
        follower_fetching: whether brokers have `replica.selector.class` set to `RackAwareReplicaSelector` today.

    Returns:
        the zones. Its tables are lazy, but for one look over the fleet's sizes and values. Every group of the fleet is
        in `zones` or in `rejected`. A member reads what is written, once, from the preferred leader, or, with follower
        fetching (KIP-392), from a replica in its rack (`advice.kernel.cross_zone_traffic`); assignors are those
        of Kafka's Java clients from 3.5 on and of the broker, and ours that know racks there, which are never
        recommended.
        What is, and why: `advice.kernel.cross_zone_traffic`.

    Raises:
        FleetError: values that no plan can be made from; racks or loads that are missing.
        ConfigError: a price or a worth that is none.

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
    if lacking := faults(fleet):
        raise FleetError(lacking)
    params = kernel.ZoneParams(price, currency, worth, follower_fetching)
    of_broker = fleet.groups is not None
    told = facts.facts_by_group(fleet, ["range"], topic_ids=of_broker, owned_order=True, loads=True, leaders=True)
    return Zones(
        told.mapInArrow(map_arrow_batches(partial(kernel.zones, params=params)), from_arrow_schema(kernel.ZONED)),
        fleet,
        params,
    )


def changes(replica_moves: DataFrame, kind: str = REORDER, *, follower_fetching: bool = False) -> DataFrame:
    """Replica moves as `replicas.tool_files` takes them, which makes files for Kafka's tools of them.

    Args:
        replica_moves: `Zones.replica_moves`, or read back.
        kind: `reorder` or `move`. Of a partition that has both, take one.
        follower_fetching: for groups that have it, or for those that do not.

    Returns:
        cluster, topic, partition, previous, replicas, moved (replicas), leader_changed, bytes (null: how long the log
        is nobody knows).
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
    """What the fleet has not of that which zones are about."""
    why = "the table is missing"
    remedies = {
        "replicas": "Give it: who leads a partition is read from it",
        "brokers": "Give it, with the rack of each broker",
        "loads": "Give it, with the bytes a second that are written to each partition",
    }
    found = [Fault(name, "*", why, remedy) for name, remedy in remedies.items() if getattr(fleet, name) is None]
    if fleet.brokers is not None and fleet.brokers.where(F.col("rack_id") != "").isEmpty():
        found.append(Fault("brokers", "rack_id", "no broker has a rack", "Set broker.rack to the zone of each broker"))
    if not fleet.sizes.racked_members:
        remedy = "Set client.rack to the zone of each consumer (Kafka's Java clients tell it from 3.5 on)"
        found.append(Fault("members", "rack_id", "no member has a rack", remedy))
    return found


def _in_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Partitions by themselves, as many at once as come."""
    for batch in batches:
        yield from replica_moves(pa.Table.from_batches([batch])).to_batches()


def _by_rack(brokers: DataFrame) -> DataFrame:
    """cluster, rack_id, brokers: those of each rack."""
    listed = F.sort_array(F.collect_list("broker_id")).alias("brokers")
    return brokers.where(F.col("rack_id") != "").groupBy("cluster", "rack_id").agg(listed)


def _changed() -> Column:
    """The replicas after a change; the brokers of a rack take turns by partition."""
    goes = "previous[place]"
    new = "of_brokers[partition % size(of_brokers)]"
    front = f"concat(array({{}}), filter(previous, each -> each != {goes}))"
    return F.expr(
        f"CASE WHEN kind = '{REORDER}' THEN {front.format(goes)} WHEN NOT follower_fetching THEN {front.format(new)} "
        f"ELSE transform(previous, (each, at) -> if(at = place, {new}, each)) END"
    )
