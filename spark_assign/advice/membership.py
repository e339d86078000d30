"""Advises on static membership, assignor protocol, and session timeouts, from simulated rolling restarts and crashes.

All work is one pass over complete groups (`advice.kernel.membership`), which runs the simulations that are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import membership as kernel
from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.fleet import Fleet
from spark_assign.groups.faulty_groups import without_faulty_groups
from spark_assign.simulation.facts import gather_facts
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.advice import MEMBERSHIP_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.simulation import EVENTS

MEMBERS_PER_TASK, MAX_TASKS = 100, 1_000
"""Members per Spark task, and the maximum number of tasks. The restarts of one member in all simulations take a few
milliseconds each.
"""


@dataclass(frozen=True)
class Membership(LazyResult):
    """Membership advice, as lazy DataFrames (columns: `tables.advice.MEMBERSHIP_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of that pass, computed or read back.

    Examples:
        >>> options = membership(fleet, sessions_ms=[45_000, 90_000]).options
        >>> of_one = options.where("group_id = 'payments-eu' and protocol = 'eager' and restart_ms = 5000")
        >>> of_one = of_one.orderBy("membership", "session_timeout_ms")
        >>> of_one.select("membership", "session_timeout_ms", "restart_pause_seconds", "crash_pause_seconds").show()
        +----------+------------------+---------------------+-------------------+
        |membership|session_timeout_ms|restart_pause_seconds|crash_pause_seconds|
        +----------+------------------+---------------------+-------------------+
        |   dynamic|             45000|               10.191|            140.112|
        |   dynamic|             90000|               10.191|            275.112|
        |    static|             45000|                 15.0|            140.112|
        |    static|             90000|                 15.0|            275.112|
        +----------+------------------+---------------------+-------------------+
    """

    @cached_property
    def memberships(self) -> DataFrame:
        """One row per consumer group: the recommendation, its savings and cost, and the settings to paste."""
        return self._rows(kernel.GROUP_ROW, MEMBERSHIP_TABLES["memberships"])

    @cached_property
    def options(self) -> DataFrame:
        """One row per group, mode, session timeout, and restart time, with the pauses."""
        return self._rows(kernel.OPTION_ROW, MEMBERSHIP_TABLES["options"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that can't be simulated."""
        return self._rows(kernel.REJECTED, MEMBERSHIP_TABLES["rejected"])


def membership(
    fleet: Fleet,
    settings: Settings | None = None,
    *,
    restart_ms: int = MembershipParams.restart_ms,
    sessions_ms: Sequence[int] = MembershipParams.sessions_ms,
    restarts_ms: Sequence[int] = MembershipParams.restarts_ms,
    crashes_per_deploy: float = MembershipParams.crashes_per_deploy,
    least_gain: float = MembershipParams.least_gain,
    least_share: float = MembershipParams.least_share,
    least_session_ms: int = MembershipParams.least_session_ms,
    margin: float = MembershipParams.margin,
    session_bounds_ms: Sequence[int] = MembershipParams.session_bounds_ms,
    consumer_session_bounds_ms: Sequence[int] = MembershipParams.consumer_session_bounds_ms,
) -> Membership:
    """Recommends static or dynamic membership, the assignor protocol, and the session timeout of each group.

    Simulates every group: a rolling restart of its members, and a crash of one, dynamic and static, with its own
    assignor and, if that is eager, with cooperative-sticky; KIP-848 groups dynamic and static. For how a few
    simulations cover many session timeouts and restart times, see `advice.kernel.membership_options`.

    Args:
        fleet: topics, groups, members, and ownership. A group in which nobody owns anything first has an initial
            rebalance.
        settings: current settings of the groups, above all `session_timeout_ms` and `restore_ms`; `None`: Kafka's
            defaults.
        restart_ms: time that a restarted member is away, which the recommendation is valid for.
        sessions_ms: session timeouts of `options`. Those that the broker doesn't allow are omitted.
        restarts_ms: restart times of `options`.
        crashes_per_deploy: number of members that crash for good, per rolling restart.
        least_gain: minimum savings of a change, in partition-seconds per deploy.
        least_share: minimum savings of a change, as a share of the current pause of a deploy.
        least_session_ms: shortest session timeout to recommend, unless the group already has a shorter one.
        margin: minimum session timeout of a static member, as a multiple of restart_ms.
        session_bounds_ms: group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers.
        consumer_session_bounds_ms: group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms.

    Returns:
        The advice. Its tables are lazy, except for one pass that checks the fleet's sizes and values. Every group of
        the fleet is in `memberships` or in `rejected`.

    Raises:
        FleetError: values that can't be simulated with.
        ConfigError: an invalid time, threshold, or bound.

    Examples:
        >>> from spark_assign.simulation import Settings
        >>> advised = membership(fleet, Settings(restore_ms=60_000)).memberships.orderBy("group_id")
        >>> advised.select("group_id", "recommendation", "to_membership", "to_session_timeout_ms").show()
        +-----------+--------------+-------------+---------------------+
        |   group_id|recommendation|to_membership|to_session_timeout_ms|
        +-----------+--------------+-------------+---------------------+
        |  encoder-a|        static|       static|                45000|
        |payments-eu|        static|       static|                45000|
        +-----------+--------------+-------------+---------------------+
    """
    settings = settings or Settings()
    params = MembershipParams(
        settings.timing,
        restart_ms,
        tuple(sessions_ms),
        tuple(restarts_ms),
        crashes_per_deploy,
        least_gain,
        least_share,
        least_session_ms,
        margin,
        tuple(session_bounds_ms),
        tuple(consumer_session_bounds_ms),
    )
    if fault := params.fault():
        raise ConfigError(f"membership: {fault}")
    spark = fleet.members.sparkSession
    facts = gather_facts(fleet, spark.createDataFrame([], EVENTS), settings)
    facts = facts.unionByName(_member_facts(fleet), allowMissingColumns=True)
    tasks = min(1 + fleet.sizes.members // MEMBERS_PER_TASK, MAX_TASKS)
    rows = facts.repartition(tasks, *GROUP_KEY).mapInArrow(
        map_arrow_batches(partial(kernel.membership, params=params)), from_arrow_schema(kernel.MEMBERSHIP_ROWS)
    )
    rejected = fleet.rejected.withColumn("kind", F.lit(kernel.REJECTED))
    return Membership(rows.unionByName(rejected, allowMissingColumns=True))


def _member_facts(fleet: Fleet) -> DataFrame:
    """Returns the facts of kind `ABOUT`: client ids and hosts of members, and group types."""
    kind = F.lit(kernel.ABOUT).cast("byte").alias("kind")
    members = without_faulty_groups(fleet.members, fleet)
    members = members.select(*GROUP_KEY, kind, "member_id", "client_id", "client_host")
    if fleet.groups is None:
        return members
    groups = without_faulty_groups(fleet.groups, fleet).select(*GROUP_KEY, kind, "group_type")
    return members.unionByName(groups, allowMissingColumns=True)
