"""Advises on static membership, assignor protocol, and session timeouts, from simulated rolling restarts and crashes.

All work is one pass over complete groups (`advice.kernel.membership`), which runs the simulations that are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel import membership as kernel
from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import faulty_groups
from spark_assign.simulation.facts import gather_facts
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import dataframe_of_rows, map_arrow_batches, to_arrow_schema, union
from spark_assign.stores.result import LazyResult
from spark_assign.tables.advice import MEMBERSHIP_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_fields import tagged_schema
from spark_assign.tables.simulation import EVENTS

MEMBERSHIP_ROWS = tagged_schema(MEMBERSHIP_TABLES)
"""Schema of the tagged rows (`advice.kernel.membership`)."""

MEMBERS_PER_TASK, MAX_TASKS = 100, 1_000
"""Members per Spark task, and the maximum number of tasks. The restarts of one member in all simulations take a few
milliseconds each.
"""


@dataclass(frozen=True)
class MembershipAdvice(LazyResult):
    """Membership advice, as lazy DataFrames (columns: `tables.advice.MEMBERSHIP_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of that pass, computed or read back.

    Examples:
        >>> options = advise_membership(fleet, MembershipParams(session_timeouts_ms=[45_000, 90_000])).options
        >>> options = options.where("group_id = 'payments-eu' and protocol = 'eager' and restart_time_ms = 5000")
        >>> restart, crash = "restart_paused_partition_seconds", "crash_paused_partition_seconds"
        >>> columns = ["membership", "session_timeout_ms", f"{restart} AS restart", f"{crash} AS crash"]
        >>> options.selectExpr(columns).orderBy("membership", "session_timeout_ms").show()
        +----------+------------------+-------+-------+
        |membership|session_timeout_ms|restart|  crash|
        +----------+------------------+-------+-------+
        |   dynamic|             45000| 10.191|140.112|
        |   dynamic|             90000| 10.191|275.112|
        |    static|             45000|   15.0|140.112|
        |    static|             90000|   15.0|275.112|
        +----------+------------------+-------+-------+
    """

    schemas: ClassVar = MEMBERSHIP_TABLES

    @cached_property
    def membership_advice(self) -> DataFrame:
        """One row per consumer group: the recommendation, its savings and cost, and the settings to paste."""
        return self._rows(kernel.GROUP_ROW, MEMBERSHIP_TABLES["membership_advice"])

    @cached_property
    def options(self) -> DataFrame:
        """One row per group, mode, session timeout, and restart time, with the pauses."""
        return self._rows(kernel.OPTION_ROW, MEMBERSHIP_TABLES["options"])


def advise_membership(
    fleet: FleetTables, params: MembershipParams | None = None, settings: Settings | None = None
) -> MembershipAdvice:
    """Recommends static or dynamic membership, the assignor protocol, and the session timeout of each group.

    Simulates every group: a rolling restart of its members, and a crash of one, dynamic and static, with its own
    assignor and, if that is eager, with cooperative-sticky; KIP-848 groups dynamic and static. For how a few
    simulations cover many session timeouts and restart times, see `advice.kernel.membership_options`.

    Args:
        fleet: topics, groups, members, and ownership. A group in which no member owns anything first has an
            initial rebalance.
        params: thresholds, session timeouts, and restart times; `None`: the defaults of `MembershipParams`.
        settings: current settings of the groups, above all `session_timeout_ms` and `restore_ms`; `None`: Kafka's
            defaults.

    Returns:
        The advice. Its tables are lazy, except for one pass that checks the fleet's sizes and values. Every group of
        the fleet is in `membership_advice` or in `rejected`.

    Raises:
        FleetError: values that can't be simulated with.
        ConfigError: an invalid time, threshold, or bound.

    Examples:
        >>> from spark_assign.simulation import Settings
        >>> result = advise_membership(fleet, settings=Settings(restore_ms=60_000))
        >>> columns = ["group_id", "recommendation", "session_timeout_ms", "recommended_session_timeout_ms"]
        >>> result.membership_advice.select(columns).orderBy("group_id").show()
        +-----------+--------------+------------------+------------------------------+
        |   group_id|recommendation|session_timeout_ms|recommended_session_timeout_ms|
        +-----------+--------------+------------------+------------------------------+
        |  encoder-a|        static|             45000|                         45000|
        |payments-eu|        static|             45000|                         45000|
        +-----------+--------------+------------------+------------------------------+
    """
    params, settings = params or MembershipParams(), settings or Settings()
    if fault := params.fault():
        raise ConfigError(f"advise_membership: {fault}")
    no_events = dataframe_of_rows(fleet.members.sparkSession, [], EVENTS)
    facts = gather_facts(fleet, no_events, settings, clients=fleet.members, leaders=fleet.groups)
    tasks = min(1 + fleet.sizes.members // MEMBERS_PER_TASK, MAX_TASKS)
    schema = to_arrow_schema(MEMBERSHIP_ROWS)
    work = partial(kernel.advise_membership, params=params, timing=settings.timing, schema=schema)
    rows = facts.repartition(tasks, *GROUP_KEY).mapInArrow(map_arrow_batches(work), MEMBERSHIP_ROWS)
    rejected = faulty_groups(fleet).withColumn("kind", F.lit(kernel.REJECTED))
    return MembershipAdvice(union([rows, rejected]))
