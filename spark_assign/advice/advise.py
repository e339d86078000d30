"""Recommends changes for a whole fleet, ranked, from the results of all advisers.

Each adviser is one pass over the fleet (`zones` has a second one for replicas). Their results, a few rows per group,
are repartitioned by cluster, and conflicts are resolved there (`advice.kernel`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import advise as kernel
from spark_assign.advice.kernel import membership as membership_kernel
from spark_assign.advice.kernel import size as size_kernel
from spark_assign.advice.kernel import zones as zones_kernel
from spark_assign.advice.kernel.advice_items import MEMBERSHIP, REPLICAS, SIZE, ZONES, AdviceParams
from spark_assign.advice.kernel.membership_modes import MembershipParams
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
    *("moved", "paused_partition_seconds", "keeps_up"),
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
    *("assignor", "members", "max_over_mean", "load_max_over_mean", "paused_partition_seconds", "rejected"),
    *("recommended", "reason", "runs_with", "clients"),
)
_MOVES = ("topic", "partition", "follower_fetching", "saved_per_day", "bytes_per_day", "groups")
"""Columns that are read from each table, in addition to cluster and group id."""


@dataclass(frozen=True)
class Advised(LazyResult):
    """Recommendations, as lazy DataFrames (columns: `tables.advice.ADVISE_TABLES`).

    Each table is one pass of every adviser over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of that pass, computed or read back.

    Examples:
        >>> declined = advise(fleet.with_capacity(400)).not_advised.orderBy("group_id", "of")
        >>> declined.select("group_id", "of", "code").show()
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
        """One row per recommendation, the most pressing first."""
        order = Window.orderBy("at", F.desc_nulls_last("gain"), "cluster", F.col("group_id").asc_nulls_first(), "kind")
        ranked = self._advice_rows(kernel.ADVICE_ROW).withColumn("rank", F.row_number().over(order))
        return ranked.select(*ADVISE_TABLES["advice"].names)

    @cached_property
    def not_advised(self) -> DataFrame:
        """One row per change that was considered and isn't recommended, with the reason."""
        return self._advice_rows(kernel.NOT_ADVISED).select(*ADVISE_TABLES["not_advised"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups for which no adviser has a result."""
        return self._rows(kernel.REJECTED, ADVISE_TABLES["rejected"])

    def _advice_rows(self, kind: str) -> DataFrame:
        """Returns the rows of a kind; `kind` is then the kind of advice."""
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
    restart_ms: int = MembershipParams.restart_ms,
) -> Advised:
    """Recommends changes for the whole fleet, ranked and free of contradictions.

    Runs `size`, `compare`, `membership`, and `zones` for every group, weighs each change against its cost, and resolves
    conflicts (`advice.kernel.resolve_conflicts`): all advice for a group is based on one assignor, and nothing is
    recommended whose gain is below its cost. Each figure assumes that only this one change is made.

    Args:
        fleet: clusters, topics, groups, members, and ownership. Without `loads`, sizes and zones aren't advised on;
            without
            racks or replicas, zones aren't. `not_advised` lists what is missing.
        settings: current settings of the groups, above all `session_timeout_ms` and `restore_ms`; `None`: Kafka's
            defaults.
        price: cost per gigabyte (10^9 bytes) of cross-zone traffic, in `currency`, as all prices.
        currency: currency of all prices.
        follower_fetching: whether brokers have `replica.selector.class` set to `RackAwareReplicaSelector` today.
        consumer_price: cost per consumer and hour.
        change_cost: one-time cost of any change.
        months: payback period in months.
        deploys: rolling restarts of each group per month.
        pause_price: cost of one partition-hour without consumption; `None`: pauses are counted but have no price.
        least_members: minimum number of members that a group is advised to have.
        least_balance: minimum reduction of the largest member's load for a better balance, from 0 to 1.
        retention_days: retention of topics in days, which determines what a moved replica copies.
        headroom, quantile: as for `size`.
        restart_ms: as for `membership`.

    Returns:
        The advice. Its tables are lazy, except for one pass that checks the fleet's sizes and values. Every group of
        the fleet is in `advice`, `not_advised`, or `rejected`.

    Raises:
        FleetError: values that can't be planned with.
        ConfigError: an invalid price or threshold.
        ValueError: headroom or quantile out of range.

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
    zone_faults = faults(fleet)
    missing = [] if fleet.loads is not None else [(SIZE, "No rates are known: give the table loads (job snapshot)")]
    if zone_faults:
        reason = "; ".join(str(fault) for fault in zone_faults)
        missing += [(ZONES, reason), (REPLICAS, reason)]
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
    facts = [*_membership_facts(fleet, settings, restart_ms), *_comparison_facts(fleet, settings)]
    if fleet.loads is not None:
        facts += _size_facts(fleet, settings, headroom, quantile, least_members)
    if not zone_faults:
        facts += _zone_facts(fleet, params)
    all_facts = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), facts)
    work = map_arrow_batches(partial(kernel.advise, params=params))
    return Advised(all_facts.repartition("cluster").mapInArrow(work, from_arrow_schema(kernel.ADVISED)))


def _membership_facts(fleet: Fleet, settings: Settings | None, restart_ms: int) -> list[DataFrame]:
    result = membership(fleet, settings, restart_ms=restart_ms, restarts_ms=[restart_ms])
    return [_adviser_facts(result.rows, MEMBERSHIP, {membership_kernel.GROUP_ROW: kernel.MEMBERSHIP_ROW}, _MEMBERSHIPS)]


def _comparison_facts(fleet: Fleet, settings: Settings | None) -> list[DataFrame]:
    times = replace(settings or Settings(), groups=None, members=None, partitions=None)  # compare takes no tables
    return [_facts(compare(fleet, settings=times), kernel.COMPARED_ROW, _COMPARED)]


def _size_facts(
    fleet: Fleet, settings: Settings | None, headroom: float, quantile: float, least_members: int
) -> list[DataFrame]:
    """Returns the size facts for every assignor that might be recommended."""
    names = [CONFIGURED, *CLIENTS, *(KAFKA_SERVER_ASSIGNORS if fleet.groups is not None else ())]
    result = size(fleet, names, headroom=headroom, quantile=quantile, settings=settings)
    rows = result.rows.where((F.col("kind") != size_kernel.CURVE_ROW) | (F.col("members") == least_members))
    kinds = {size_kernel.SIZE_ROW: kernel.SIZE_ROW, size_kernel.CURVE_ROW: kernel.CURVE_ROW}
    return [_adviser_facts(rows, SIZE, kinds, _SIZES)]


def _zone_facts(fleet: Fleet, params: AdviceParams) -> list[DataFrame]:
    result = zones(fleet, price=params.price, currency=params.currency, follower_fetching=params.follower_fetching)
    moves = result.replica_moves.select("cluster", _about(kernel.MOVE_ROW), F.col("kind").alias("change"), *_MOVES)
    readers = fleet.subscriptions.select(*GROUP_KEY, "topic").distinct()
    return [
        _adviser_facts(result.rows, ZONES, {zones_kernel.OPTION_ROW: kernel.OPTION_ROW}, _WAYS),
        moves,
        readers.select(*GROUP_KEY, "topic", _about(kernel.READER_ROW)),
    ]


def _about(name: str) -> Column:
    return F.lit(name).alias("about")


def _facts(table: DataFrame, about: str, columns: Iterable[str]) -> DataFrame:
    return table.select(*GROUP_KEY, _about(about), *columns)


def _adviser_facts(table: DataFrame, adviser: str, kinds: Mapping[str, str], columns: Iterable[str]) -> DataFrame:
    """Returns the rows of these kinds from an adviser's result, and the rejected groups, in one pass of the adviser.

    A projection for each kind would repeat the pass for each.
    """
    names = {**kinds, kernel.REJECTED: kernel.REJECTED_ROW}
    about = F.coalesce(*(F.when(F.col("kind") == kind, name) for kind, name in names.items())).alias("about")
    rows = table.where(F.col("kind").isin(*names))
    return rows.select(*GROUP_KEY, about, F.lit(adviser).alias("of"), *columns, "code", "detail")
