"""What to do over a whole fleet, ranked: all advisers are asked, and what they say is brought together.

Each adviser is a pass over the fleet (`zones` two, of which one is for replicas). Their answers, a few rows per group,
come together by cluster, and are decided there (`advice.kernel`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import advise as kernel
from spark_assign.advice.kernel import membership as of_membership
from spark_assign.advice.kernel import size as of_size
from spark_assign.advice.kernel import zones as of_zones
from spark_assign.advice.kernel.advice_items import MEMBERSHIP, REPLICAS, SIZE, ZONES, AdviceParams
from spark_assign.advice.kernel.membership_modes import MembershipParams as OfMembership
from spark_assign.advice.membership import membership
from spark_assign.advice.size import HEADROOM, QUANTILE, size
from spark_assign.advice.zones import CURRENCY, PRICE, faults, zones
from spark_assign.comparison.compare import CLIENTS, compare
from spark_assign.fleet import Fleet
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS
from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.advice import ADVISE_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY

_SIZES = (
    *("assignor", "verdict", "reason", "members", "needed", "max_load", "max_load_needed", "capacity"),
    *("moved", "partition_seconds_paused", "keeps_up"),
)
_MEMBERSHIPS = (
    *("recommendation", "sentence", "settings", "warning", "assignor", "to_membership"),
    *("restart_pause_seconds", "saved_seconds"),
)
_WAYS = (
    *("assignor", "follower_fetching", "members", "partitions", "moved"),
    *("cost_per_day", "cost_at_least", "cost_at_most", "reason"),
)
_COMPARED = (
    *("assignor", "members", "max_over_mean", "load_max_over_mean", "partition_seconds_paused", "rejected"),
    *("recommended", "reason", "runs_with", "clients"),
)
_MOVES = ("topic", "partition", "follower_fetching", "saved_per_day", "bytes_per_day", "groups")
"""What is read of each table, beside cluster and group."""


@dataclass(frozen=True)
class Advised(LazyResult):
    """What to do, as lazy DataFrames (columns: `tables.advice.ADVISE_TABLES`).

    Each table is one pass of every adviser over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        told: what the passes say, or, read back, what they have said.

    Examples:
        >>> silent = advise(fleet.with_capacity(400)).not_advised.orderBy("group_id", "of")
        >>> silent.select("group_id", "of", "code").show()
        +-----------+----------+-------------+
        |   group_id|        of|         code|
        +-----------+----------+-------------+
        |       NULL|  replicas|    not-known|
        |       NULL|     zones|    not-known|
        |  encoder-a|  assignor|nothing-to-do|
        |  encoder-a|membership|nothing-to-do|
        |payments-eu|  assignor|nothing-to-do|
        |payments-eu|membership|nothing-to-do|
        +-----------+----------+-------------+
    """

    @cached_property
    def advice(self) -> DataFrame:
        """A row per thing to do, the most pressing first."""
        order = Window.orderBy("at", F.desc_nulls_last("gain"), "cluster", F.col("group_id").asc_nulls_first(), "kind")
        ranked = self._named(kernel.ADVICE_ROW).withColumn("rank", F.row_number().over(order))
        return ranked.select(*ADVISE_TABLES["advice"].names)

    @cached_property
    def not_advised(self) -> DataFrame:
        """A row per thing that was looked at and is not advised, and why."""
        return self._named(kernel.NOT_ADVISED).select(*ADVISE_TABLES["not_advised"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups of which no adviser says anything."""
        return self._rows(kernel.REJECTED, ADVISE_TABLES["rejected"])

    def _named(self, kind: str) -> DataFrame:
        """Rows of a kind, in which `kind` is that of the advice."""
        return self._rows(kind).drop("kind").withColumnRenamed("advice", "kind")


def advise(
    fleet: Fleet,
    settings: Settings | None = None,
    *,
    price: float = PRICE,
    currency: str = CURRENCY,
    follower_fetching: bool = False,
    consumer_price: float = AdviceParams.consumer_price,
    change_cost: float = AdviceParams.change_cost,
    months: float = AdviceParams.months,
    deploys: float = AdviceParams.deploys,
    pause_price: float | None = None,
    least_members: int = AdviceParams.least_members,
    least_balance: float = AdviceParams.least_balance,
    retention_days: float = AdviceParams.retention_days,
    headroom: float = HEADROOM,
    quantile: float = QUANTILE,
    restart_ms: int = OfMembership.restart_ms,
) -> Advised:
    """What to do over the whole fleet, ranked, nothing contradicting.

    `size`, `compare`, `membership` and `zones` are asked of every group. What they say is held against what it costs
    and against each other (`advice.kernel.resolve_conflicts`): of all that concerns one group, one assignor is
    settled, and nothing is advised whose gain is below its cost. Each figure is of the fleet as it is with this one
    change.

    Args:
        fleet: clusters, topics, groups, members and what these own. Without `loads` nothing is said of sizes and of
            what crosses a zone, and without racks or replicas nothing of the latter; `not_advised` says so.
        settings: what groups are set to now, above all `session_timeout_ms` and `restore_ms`; null: Kafka's defaults.
        price: of a gigabyte (10^9 bytes) that crosses a zone, in `currency` as all prices.
        currency: of the prices.
        follower_fetching: whether brokers have `replica.selector.class` set to `RackAwareReplicaSelector` today.
        consumer_price: of one consumer, an hour.
        change_cost: of one change, whatever it is.
        months: within so many a change has to pay what it costs.
        deploys: rolling restarts of each group a month.
        pause_price: of an hour in which nobody reads one partition; null: pauses are counted, not paid.
        least_members: no group is advised to have fewer.
        least_balance: what a better balance has to take from the most loaded member, a share.
        retention_days: for so long topics keep what is written: what a replica that moves copies.
        headroom, quantile: as for `size`.
        restart_ms: as for `membership`.

    Returns:
        the advice. Its tables are lazy, but for one look over the fleet's sizes and values. Every group of the fleet is
        in `advice` or `not_advised`, or in `rejected`.

    Raises:
        FleetError: values that no plan can be made from.
        ConfigError: a price or a threshold that cannot be.
        ValueError: a headroom or quantile out of its range.

    Examples:
        >>> advised = advise(fleet.with_capacity(400)).advice.where("matter = 'behind'").orderBy("rank")
        >>> advised.select("rank", "group_id", "kind", "gain", "cost", "cost_unit").show()
        +----+-----------+--------+-----+----+-----------+
        |rank|   group_id|    kind| gain|cost|  cost_unit|
        +----+-----------+--------+-----+----+-----------+
        |   1|  encoder-a|scale-up|200.0|36.0|USD a month|
        |   2|payments-eu|scale-up|200.0|36.0|USD a month|
        +----+-----------+--------+-----+----+-----------+
    """
    _ = fleet.sizes
    lacking = faults(fleet)
    missing = [] if fleet.loads is not None else [(SIZE, "No rates are known: give the table loads (job snapshot)")]
    if lacking:
        why = "; ".join(str(each) for each in lacking)
        missing += [(ZONES, why), (REPLICAS, why)]
    params = AdviceParams(
        price=price,
        currency=currency,
        consumer_price=consumer_price,
        change_cost=change_cost,
        months=months,
        deploys=deploys,
        pause_price=pause_price,
        least_members=least_members,
        least_balance=least_balance,
        retention_days=retention_days,
        follower_fetching=follower_fetching,
        headroom=headroom,
        missing=tuple(missing),
    )
    if fault := params.fault():
        raise ConfigError(f"advise: {fault}")
    facts = [*_of_membership(fleet, settings, restart_ms), *_of_comparison(fleet, settings)]
    if fleet.loads is not None:
        facts += _of_sizes(fleet, settings, headroom, quantile, least_members)
    if not lacking:
        facts += _of_zones(fleet, params)
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), facts)
    work = map_arrow_batches(partial(kernel.advise, params=params))
    return Advised(together.repartition("cluster").mapInArrow(work, from_arrow_schema(kernel.ADVISED)))


def _of_membership(fleet: Fleet, settings: Settings | None, restart_ms: int) -> list[DataFrame]:
    found = membership(fleet, settings, restart_ms=restart_ms, restarts_ms=[restart_ms])
    return [_answered(found.rows, MEMBERSHIP, {of_membership.OF_GROUP: kernel.MEMBERSHIP_ROW}, _MEMBERSHIPS)]


def _of_comparison(fleet: Fleet, settings: Settings | None) -> list[DataFrame]:
    times = replace(settings or Settings(), groups=None, members=None, partitions=None)  # those of single groups
    return [_facts(compare(fleet, settings=times), kernel.COMPARED_ROW, _COMPARED)]


def _of_sizes(
    fleet: Fleet, settings: Settings | None, headroom: float, quantile: float, least_members: int
) -> list[DataFrame]:
    """By every assignor that a group may be advised."""
    names = [CONFIGURED, *CLIENTS, *(KAFKA_SERVER_ASSIGNORS if fleet.groups is not None else ())]
    found = size(fleet, names, headroom=headroom, quantile=quantile, settings=settings)
    told = found.rows.where((F.col("kind") != of_size.OF_NUMBER) | (F.col("members") == least_members))
    kinds = {of_size.OF_GROUP: kernel.SIZE_ROW, of_size.OF_NUMBER: kernel.CURVE_ROW}
    return [_answered(told, SIZE, kinds, _SIZES)]


def _of_zones(fleet: Fleet, params: AdviceParams) -> list[DataFrame]:
    found = zones(fleet, price=params.price, currency=params.currency, follower_fetching=params.follower_fetching)
    moves = found.replica_moves.select("cluster", _about(kernel.MOVE_ROW), F.col("kind").alias("change"), *_MOVES)
    readers = fleet.subscriptions.select(*GROUP_KEY, "topic").distinct()
    return [
        _answered(found.rows, ZONES, {of_zones.OF_WAY: kernel.OPTION_ROW}, _WAYS),
        moves,
        readers.select(*GROUP_KEY, "topic", _about(kernel.READER_ROW)),
    ]


def _about(name: str) -> Column:
    return F.lit(name).alias("about")


def _facts(table: DataFrame, about: str, columns: Iterable[str]) -> DataFrame:
    return table.select(*GROUP_KEY, _about(about), *columns)


def _answered(told: DataFrame, of: str, kinds: Mapping[str, str], columns: Iterable[str]) -> DataFrame:
    """Returns the rows of these kinds of an adviser's answer, and the refused groups, from one pass of the adviser.

    A projection for each kind would repeat the pass for each.
    """
    names = {**kinds, kernel.REJECTED: kernel.REJECTED_ROW}
    about = F.coalesce(*(F.when(F.col("kind") == kind, name) for kind, name in names.items())).alias("about")
    rows = told.where(F.col("kind").isin(*names))
    return rows.select(*GROUP_KEY, about, F.lit(of).alias("of"), *columns, "code", "detail")
