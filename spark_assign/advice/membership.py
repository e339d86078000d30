"""Static membership, and how long a session: what a rolling restart and a crash stop in each group, and what to do.

All of it is one pass over whole groups (`advice.kernel.membership`), in which the simulator plays what is needed.
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

MEMBERS_PER_TASK, MOST_TASKS = 100, 1_000
"""A member's restarts in all plays take some milliseconds each."""


@dataclass(frozen=True)
class Membership(LazyResult):
    """What groups are advised to do, as lazy DataFrames (columns: `tables.advice.MEMBERSHIP_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the fleet says, or, read back, what one has said.

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
        """A row per group of consumers: what it should do, what that saves and costs, and the settings for it."""
        return self._rows(kernel.OF_GROUP, MEMBERSHIP_TABLES["memberships"])

    @cached_property
    def options(self) -> DataFrame:
        """A row per group, way to run, session timeout and restart time, with what they cost."""
        return self._rows(kernel.OF_OPTION, MEMBERSHIP_TABLES["options"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups of which nothing can be said."""
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
    """Whether the members of each group should be static, its assignor cooperative, and how long its session.

    Every group is played by the simulator (`protocol.simulate`): a rolling restart of its members, and a crash of one,
    dynamic and static, by its own assignor and, if that is eager, by cooperative-sticky; groups of KIP-848 as dynamic
    and as static. What few plays tell of many session timeouts and restart times is in
    `advice.kernel.membership_options`.

    Args:
        fleet: topics, groups, members, and what these own. A group in which nobody owns anything is founded first.
        settings: what groups are set to now, above all `session_timeout_ms` and `restore_ms`; null: Kafka's defaults.
        restart_ms: how long a member is away when it is restarted; what is advised holds for that.
        sessions_ms: session timeouts of `options`. Those that the broker does not allow are left out.
        restarts_ms: restart times of `options`.
        crashes_per_deploy: how many members crash without coming back for each rolling restart.
        least_gain: partition-seconds per deploy that a change has to save at least.
        least_share: the part of what a deploy pauses now that it has to save at least.
        least_session_ms: a shorter session is not advised, unless the group has it already.
        margin: a static member's session has to be so many times restart_ms.
        session_bounds_ms: group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers.
        consumer_session_bounds_ms: group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms.

    Returns:
        the answer. Its tables are lazy, but for one look over the fleet's sizes and values. Every group of the fleet
        is in `memberships` or in `rejected`.

    Raises:
        FleetError: values that nothing can be said from.
        ConfigError: a time, a threshold or a bound that cannot be.

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
    facts = facts.unionByName(_about(fleet), allowMissingColumns=True)
    number = min(1 + fleet.sizes.members // MEMBERS_PER_TASK, MOST_TASKS)
    played = facts.repartition(number, *GROUP_KEY).mapInArrow(
        map_arrow_batches(partial(kernel.membership, params=params)), from_arrow_schema(kernel.ANSWER)
    )
    refused = fleet.rejected.withColumn("kind", F.lit(kernel.REJECTED))
    return Membership(played.unionByName(refused, allowMissingColumns=True))


def _about(fleet: Fleet) -> DataFrame:
    """What the members are called, and which groups there are: facts of a kind of their own."""
    kind = F.lit(kernel.ABOUT).cast("byte").alias("kind")
    told = without_faulty_groups(fleet.members, fleet).select(*GROUP_KEY, kind, "member_id", "client_id", "client_host")
    if fleet.groups is None:
        return told
    groups = without_faulty_groups(fleet.groups, fleet).select(*GROUP_KEY, kind, "group_type")
    return told.unionByName(groups, allowMissingColumns=True)
