"""Recommends changes for a whole fleet, ranked, from the results of all advisers.

Size, assignor, and zones are computed in one pass over complete groups (`advice.kernel.advise`), membership in
another, because it simulates, and settings of classic Streams applications in a third, because it plans their tasks
(`advice.kernel.streams_settings`). Replica moves are computed over all groups that read a partition; that pass uses the
same shuffle as the first. The results, a few rows per group, are repartitioned by cluster, and conflicts are resolved
there (`advice.kernel.advise`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import advise as kernel
from spark_assign.advice.kernel import membership as membership_kernel
from spark_assign.advice.kernel.advice_items import AdviceParams, Adviser
from spark_assign.advice.kernel.advise import FACTS, GroupParams, advise_groups
from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.advice.kernel.streams_settings import STREAMS_ROWS, measure_streams_settings
from spark_assign.advice.kernel.zones import ZONE_ROWS, ZoneParams, measure_reads
from spark_assign.advice.membership import advise_membership
from spark_assign.advice.size import SizingParams, size_params
from spark_assign.advice.zones import ZoneTraffic, faults
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS
from spark_assign.comparison.kernel.compare import CompareParams
from spark_assign.comparison.what_if import AS_IS
from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import facts_by_group
from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.groups.planning import custom_assignors
from spark_assign.groups.windows import WINDOW_SLICES
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import map_arrow_batches, union
from spark_assign.stores.result import LazyResult
from spark_assign.streams.plan import run_streams_pass
from spark_assign.tables.advice import ADVISE_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.parameters import find_fault

_MEMBERSHIP_COLUMNS = (
    *("recommendation", "summary", "settings", "warning_text", "assignor", "membership", "recommended_membership"),
    *("protocol", "client_libraries"),
    *("restart_paused_partition_seconds", "saved_seconds", "code", "detail"),
)
_MOVE_COLUMNS = ("topic", "partition", "follower_fetching", "saved_per_day", "bytes_per_day", "groups")


@dataclass(frozen=True)
class Advice(LazyResult):
    """Recommendations, as lazy DataFrames (columns: `tables.advice.ADVISE_TABLES`).

    Each table is one pass of every adviser over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of that pass, computed or read back.

    Examples:
        >>> declined = advise(fleet.with_capacity(400)).not_recommended.orderBy("group_id", "adviser")
        >>> declined.select("group_id", "adviser", "code").show()
        +-----------+----------+-------------+
        |   group_id|   adviser|         code|
        +-----------+----------+-------------+
        |       NULL|  replicas|    not-known|
        |       NULL|     zones|    not-known|
        |  encoder-a|  assignor|nothing-to-do|
        |  encoder-a|membership|nothing-to-do|
        |payments-eu|  assignor|nothing-to-do|
        |payments-eu|membership|nothing-to-do|
        +-----------+----------+-------------+
    """

    schemas: ClassVar = ADVISE_TABLES

    @cached_property
    def advice(self) -> DataFrame:
        """One row per recommendation, the most pressing first."""
        gain, group_id = F.desc_nulls_last("gain"), F.col("group_id").asc_nulls_first()
        order = Window.orderBy("category_index", gain, "cluster", group_id, "action")
        ranked = self._rows(kernel.ADVICE_ROW).withColumn("rank", F.row_number().over(order))
        return ranked.select(*ADVISE_TABLES["advice"].names)

    @cached_property
    def not_recommended(self) -> DataFrame:
        """One row per change that was considered and isn't recommended, with the reason."""
        return self._rows(kernel.NOT_RECOMMENDED, ADVISE_TABLES["not_recommended"])


def advise(fleet: FleetTables, params: AdviceParams | None = None, settings: Settings | None = None) -> Advice:
    """Recommends changes for the whole fleet, ranked and free of contradictions.

    Sizes every group, compares its assignors, simulates its membership, and measures its cross-zone traffic; weighs
    each change against its cost, and resolves conflicts (`advice.kernel.proposals`): all advice for a group is
    based on one assignor, and nothing is recommended whose gain is below its cost. Each figure assumes that only this
    one change is made.

    Args:
        fleet: clusters, topics, groups, members, and ownership. Without `loads`, sizes and zones aren't advised on;
            without racks or replicas, zones aren't. `not_recommended` lists what is missing.
        params: prices and thresholds; `None`: the defaults of `AdviceParams`.
        settings: current settings of the groups, above all `session_timeout_ms` and `restore_ms`; `None`: Kafka's
            defaults.

    Returns:
        The advice. Its tables are lazy, except for one pass that checks the fleet's sizes and values. Every group of
        the fleet is in `advice`, `not_recommended`, or `rejected`.

    Raises:
        FleetError: values that can't be planned with.
        ConfigError: an invalid price or threshold.

    Examples:
        >>> advice = advise(fleet.with_capacity(400), AdviceParams(price_per_consumer_hour=0.1)).advice
        >>> behind = advice.where("category = 'behind'").orderBy("rank")
        >>> behind.select("rank", "group_id", "action", "gain", "cost", "cost_unit").show()
        +----+-----------+--------+-----+----+-----------+
        |rank|   group_id|  action| gain|cost|  cost_unit|
        +----+-----------+--------+-----+----+-----------+
        |   1|  encoder-a|scale-up|200.0|72.0|USD a month|
        |   2|payments-eu|scale-up|200.0|72.0|USD a month|
        +----+-----------+--------+-----+----+-----------+
    """
    params = params or AdviceParams()
    if fault := find_fault(params):
        raise ConfigError(f"advise: {fault}")
    _ = fleet.sizes
    missing: dict[str, str] = {}
    if fleet.loads is None:
        missing[Adviser.SIZE] = "Rates are unknown. Add the table loads (job snapshot)"
    if zone_faults := faults(fleet):
        missing |= dict.fromkeys((Adviser.ZONES, Adviser.REPLICAS), "; ".join(map(str, zone_faults)))
    custom = custom_assignors()
    group_facts = facts_by_group(
        fleet,
        list(WINDOW_SLICES),
        user_data=bool(custom),
        clients=True,
        topic_ids=True,
        owned_order=True,
        loads=True,
        leaders=None if Adviser.ZONES in missing else "current",
    )
    work = map_arrow_batches(partial(advise_groups, params=_group_params(fleet, params, settings, missing)))
    results = [
        group_facts.mapInArrow(work, from_arrow_schema(FACTS)),
        _membership_facts(fleet, settings, params.restart_time_ms),
    ]
    if fleet.sizes.subtopologies:
        measure = partial(measure_streams_settings, bytes_per_second=params.restore_bytes_per_second)
        results.append(run_streams_pass(fleet, measure, from_arrow_schema(STREAMS_ROWS), loads=True))
    if Adviser.ZONES not in missing:
        results.append(_replica_moves(fleet, group_facts, params))
    resolve = map_arrow_batches(partial(kernel.advise, params=params, missing=missing))
    return Advice(union(results).repartition("cluster").mapInArrow(resolve, from_arrow_schema(kernel.ADVICE_ROWS)))


def _group_params(
    fleet: FleetTables, params: AdviceParams, settings: Settings | None, missing: kernel.Missing
) -> GroupParams:
    """Returns the parameters of the pass over groups, for all assignors that might be recommended."""
    assignors = (*CLIENT_ASSIGNORS, *(KAFKA_SERVER_ASSIGNORS if fleet.groups is not None else ()))
    sizing = SizingParams((CONFIGURED, *assignors), (), params.headroom, params.quantile)
    return GroupParams(
        compare=CompareParams(
            assignors=assignors,
            what_ifs=(AS_IS.name,),
            as_is=AS_IS.name,
            timing=(settings or Settings()).timing,
            custom=custom_assignors(),
            racks_known=fleet.racks_known,
            loads_known=fleet.loads is not None,
            by_protocol=True,
        ),
        size=None if Adviser.SIZE in missing else replace(size_params(sizing, settings), all_curves=False),
        zones=None
        if Adviser.ZONES in missing
        else ZoneParams(params.price_per_gb, params.currency, follower_fetching=params.follower_fetching),
        min_members=params.min_members,
    )


def _membership_facts(fleet: FleetTables, settings: Settings | None, restart_time_ms: int) -> DataFrame:
    """Returns recommendations and rejected groups in one pass; a projection for each would repeat the pass."""
    params = MembershipParams(restart_time_ms=restart_time_ms, restart_times_ms=(restart_time_ms,))
    rows = advise_membership(fleet, params, settings).rows
    kinds = {membership_kernel.GROUP_ROW: kernel.MEMBERSHIP_ROW, membership_kernel.REJECTED: kernel.REJECTED_ROW}
    kind = F.coalesce(*(F.when(F.col("kind") == name, new) for name, new in kinds.items())).alias("kind")
    rows = rows.where(F.col("kind").isin(*kinds))
    return rows.select(*GROUP_KEY, kind, F.lit(Adviser.MEMBERSHIP).alias("adviser"), *_MEMBERSHIP_COLUMNS)


def _replica_moves(fleet: FleetTables, group_facts: DataFrame, params: AdviceParams) -> DataFrame:
    """Returns the replica moves that reduce cross-zone traffic."""
    reads = group_facts.mapInArrow(map_arrow_batches(measure_reads), from_arrow_schema(ZONE_ROWS))
    moves = ZoneTraffic(reads, fleet, ZoneParams(params.price_per_gb, params.currency)).unsorted_replica_moves()
    kind = F.lit(kernel.MOVE_ROW).alias("kind")
    return moves.select("cluster", kind, F.col("kind").alias("change"), *_MOVE_COLUMNS)
