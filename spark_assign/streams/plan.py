"""Plans the Streams groups of a fleet exactly as the broker's assignor (KIP-1071) or the classic leader does.

Spark collects all facts of a group in one task. The kernel (`streams.kernel`) returns one tagged table, and each table
of the plan is a projection of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.assignors.streams.sticky_task_assignor import STICKY
from spark_assign.assignors.streams.task_assignor_api import TaskAssignor
from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import racks_of_brokers
from spark_assign.spark.dataframes import Kernel, gather_tables, run_pass, with_brokers
from spark_assign.stores.result import LazyResult
from spark_assign.streams.kernel import followed_rounds
from spark_assign.streams.kernel import plan_groups as kernel
from spark_assign.streams.kernel.streams_group_input import TABLES
from spark_assign.tables import stored_plan
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_fields import tagged_schema
from spark_assign.tables.streams import PLAN_TABLES

ROWS_PER_SPARK_TASK = 200_000
"""Approximate number of facts per Spark task, which bounds the memory of a worker; a group is never split."""

_TOPIC = ["cluster", "topic"]
_RATES = "in_bytes_per_second", "in_messages_per_second"
_TOPIC_LISTS = "source_topics", "changelog_topics"

PLAN_ROWS = tagged_schema(PLAN_TABLES)
"""Schema of the tagged rows (`streams.kernel.plan_groups`)."""


@dataclass(frozen=True)
class StreamsPlan(LazyResult):
    """The target assignment, as lazy DataFrames (columns: `tables.streams.PLAN_TABLES`).

    Every Streams group of the fleet is either in `metrics` or in `rejected`.

    Attributes:
        fleet: The planned fleet.
    """

    schemas: ClassVar = PLAN_TABLES
    prefix: ClassVar = stored_plan.STREAMS
    stored_with: ClassVar = stored_plan.STORED_PLAN_TABLES

    fleet: FleetTables

    @cached_property
    def tasks(self) -> DataFrame:
        """The target: cluster, group_id, member_id, subtopology, task, role (`tables.streams.TASKS`)."""
        return self._rows(kernel.TASK, PLAN_TABLES["tasks"])

    @cached_property
    def moves(self) -> DataFrame:
        """All changes of owners, with the reason, and whether the next owner has the task's state: a row per task,
        role, and owner that loses or gets the task (`tables.streams.MOVES`)."""
        return self._rows(kernel.MOVE, PLAN_TABLES["moves"])

    @cached_property
    def metrics(self) -> DataFrame:
        """One row per planned group (`tables.streams.METRICS`)."""
        return self._rows(kernel.METRICS, PLAN_TABLES["metrics"])

    @cached_property
    def rounds(self) -> DataFrame:
        """The rebalances of classic applications until every task is at its final owner (`tables.streams.ROUNDS`)."""
        return self._rows(followed_rounds.ROUND, PLAN_TABLES["rounds"])

    @cached_property
    def restores(self) -> DataFrame:
        """The state that is restored in these rebalances, a row per task and process (`tables.streams.RESTORES`)."""
        return self._rows(followed_rounds.RESTORE, PLAN_TABLES["restores"])


def plan_streams(
    fleet: FleetTables,
    assignor: str | TaskAssignor = STICKY,
    *,
    standby_replicas: int | None = None,
    restore_bytes_per_second: float | None = None,
) -> StreamsPlan:
    """Plans every Streams group of a fleet: those that `groups` calls `streams`, or that have subtopologies or tasks.

    The plan is the target that the group coordinator computes (`TargetAssignmentBuilder`) if `fleet.tasks` is the
    current assignment. The plan doesn't include the steps from there to the target.

    A group with the type `classic` is planned as its leader does at the next rebalance (`StreamsPartitionAssignor`).

    Args:
        fleet: members with `process_id` (null: a process of its own), `subtopologies`, and the current assignment in
            `tasks`; for classic applications also the topics of subtopologies, `changelogs`, and ownership.
        assignor: `streams-sticky`, the class of Kafka 4.4; `streams-sticky@4.3`, that of 4.2.0, 4.2.1, and 4.3;
            `streams-sticky@4.2.2`, that of 4.2.2; or a function from a `StreamsGroupSpec` to a
            `StreamsGroupAssignment`, whose result isn't checked. Classic applications have their own
            (`groups.streams_config`), by the release of their leader (`groups.leader_version`).
        standby_replicas: overrides the configuration of all groups (`groups.standby_replicas`).
        restore_bytes_per_second: what a process restores from changelogs per second. With it, classic applications are
            followed until every task is at its final owner (`rounds`, `restores`), if `changelogs.bytes` is known.
            Changelogs grow while their tasks run, if `loads` has their rates.

    Returns:
        The plan. Its tables are lazy, and all come from one pass over the fleet. The fleet's rows are counted and
        checked at once.

    Raises:
        ConfigError: There is no such assignor, the number of standby replicas is negative, or the rate is below 1.
        FleetError: The table `subtopologies` is missing, or the fleet has invalid rows that belong to no group.
    """
    if fleet.subtopologies is None:
        problem = "the table is missing, and a plan of streams groups needs it"
        raise FleetError([Fault("subtopologies", "*", problem, "Add a row for each subtopology of each group")])
    if standby_replicas is not None and standby_replicas < 0:
        raise ConfigError(f"standby_replicas is {standby_replicas}, expected 0 or more")
    if restore_bytes_per_second is not None and not 1 <= restore_bytes_per_second < inf:
        raise ConfigError(f"restore_bytes_per_second is {restore_bytes_per_second}, expected a number of at least 1")
    params = replace(_build_params(assignor, standby_replicas), restore_bytes_per_second=restore_bytes_per_second)
    plan_groups = partial(kernel.plan_streams_groups, params=params)
    is_followed = restore_bytes_per_second is not None
    return StreamsPlan(run_streams_pass(fleet, plan_groups, PLAN_ROWS, loads=is_followed), fleet)


def run_streams_pass(fleet: FleetTables, work: Kernel, schema: StructType, *, loads: bool = False) -> DataFrame:
    """Returns the tagged rows of a kernel for all Streams groups of a fleet that has subtopologies.

    Args:
        fleet: the fleet.
        work: the kernel, from the facts of complete groups (`streams.kernel.streams_group_input`).
        schema: schema of the tagged rows.
        loads: whether the facts of changelogs include the rates at which they grow.
    """
    sizes = fleet.sizes
    tasks = max(1, -(-(sizes.members + sizes.subtopologies + sizes.tasks) // ROWS_PER_SPARK_TASK))
    return run_pass(gather_facts(fleet, loads=loads), GROUP_KEY, tasks, work, schema)


def _build_params(assignor: str | TaskAssignor, standby_replicas: int | None) -> kernel.StreamsPlanParams:
    if not isinstance(assignor, str):
        name = getattr(assignor, "__name__", type(assignor).__name__)
        return kernel.StreamsPlanParams(name, assignor, standby_replicas)
    if assignor not in kernel.ASSIGNORS:
        names = ", ".join(kernel.ASSIGNORS)
        raise ConfigError(f"{assignor}: no such assignor of streams groups. Use one of {names}")
    return kernel.StreamsPlanParams(assignor, kernel.ASSIGNORS[assignor], standby_replicas)


def gather_facts(fleet: FleetTables, *, loads: bool = False, **others: DataFrame | None) -> DataFrame:
    """Returns the kernel's input (`streams.kernel.streams_group_input.TABLES`); it includes the members of other
    groups, which the kernel ignores.

    Args:
        fleet, loads: see `run_streams_pass`.
        others: tables that the fleet doesn't have, by name.
    """
    names = ("members", "subtopologies", "groups", "tasks", "departed_tasks")
    tables = {name: getattr(fleet, name) for name in names} | _classic_tables(fleet, fleet.loads if loads else None)
    tables["undescribed"] = fleet.unknown_groups if fleet.sizes.undescribed else None
    return gather_tables(tables | others, GROUP_KEY, TABLES)


def _classic_tables(fleet: FleetTables, loads: DataFrame | None) -> dict[str, DataFrame | None]:
    """Returns the tables of classic applications: ownership, and the topics that `subtopologies` names. If there are
    loads, changelogs have their rates."""
    assert fleet.subtopologies is not None
    if "source_topics" not in fleet.subtopologies.columns:
        return {}
    applications = fleet.subtopologies.where("source_topics is not null")
    owners = fleet.filter_groups(applications)
    changelogs = fleet.changelogs
    if changelogs is not None and loads is not None:
        partition = [*_TOPIC, "partition"]
        of_all_groups = loads.where("group_id IS NULL").join(changelogs.select(*_TOPIC).distinct(), _TOPIC, "left_semi")
        rates = of_all_groups.groupBy(*partition).agg(*(F.max(name).alias(name) for name in _RATES))
        changelogs = changelogs.join(rates, partition, "left")
    lists = [F.coalesce(name, F.array().cast("array<string>")) for name in _TOPIC_LISTS if name in applications.columns]
    named = applications.select(*GROUP_KEY, F.explode(F.concat(*lists)).alias("topic")).distinct()
    tables = {"owned": owners.ownership_slices(), "departed": owners.departed, "changelogs": changelogs}
    tables["topics"] = named.join(fleet.topics.select("cluster", "topic", "partitions"), _TOPIC)
    if fleet.racks_known:
        assert fleet.replicas is not None
        assert fleet.brokers is not None
        racks = F.transform("brokers", lambda broker: broker["rack_id"]).alias("racks")
        replicas = named.join(fleet.replicas.select("cluster", "topic", "partition", "replicas"), _TOPIC)
        found = with_brokers(replicas, "brokers", "replicas", racks_of_brokers(fleet.brokers))
        tables["racks"] = found.select(*GROUP_KEY, "topic", "partition", racks)
    return tables
