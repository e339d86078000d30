"""Computes how many consumers each group needs, by planning it with many member counts in one pass.

All work is done on complete groups (`advice.kernel.size`): members leave or join as with `Fleet.with_members_left` and
`Fleet.with_members_joined`, the assignor plans the group, and the load of the most loaded member is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Annotated, ClassVar

from pyspark.sql import DataFrame

from spark_assign.advice.kernel import size as kernel
from spark_assign.advice.kernel.size_sweep import MAX_MEMBERS, SizingCriteria
from spark_assign.assignors.server import TOPIC_ID_ASSIGNORS
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.groups.planning import assignor_names, custom_assignors, find_assignor
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.advice import SIZE_TABLES
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.parameters import Param, find_fault
from spark_assign.tables.schema_fields import tagged_schema

SIZE_ROWS = tagged_schema(SIZE_TABLES)
"""Schema of the tagged rows (`advice.kernel.size`)."""


@dataclass(frozen=True)
class SizingParams:
    """Parameters of `size_groups`.

    Attributes:
        assignors: names of assignors to size with; `configured`: each group's own, or `range` if the fleet doesn't
            specify it.
        member_counts: numbers of members to evaluate (default: the most informative ones for each group).
        headroom: reserve of a member, as a share of its load, with which it catches up after a pause.
        quantile: quantile of the message rate that members must be able to handle, between 0 and 1.
        threads_per_pod: members in each pod, if pods are what you scale. If it isn't set and the hosts of the members
            all have the same number of members, that number counts.
        pods_per_node: pods on each node, to compute the number of nodes.
        record_locks: records of a partition that the members of a share group can hold at the same time, Kafka's
            share.partition.max.record.locks.
        records_in_flight: records of a partition that a member of a share group holds at a time, usually its
            max.poll.records.

    Examples:
        >>> SizingParams(assignors=["range", "sticky"]).headroom
        0.2
    """

    assignors: Annotated[Sequence[str], Param()] = (CONFIGURED,)
    member_counts: Annotated[Sequence[int], Param(least=1, most=MAX_MEMBERS)] = ()
    headroom: Annotated[float, Param(least=0)] = SizingCriteria.headroom
    quantile: Annotated[float, Param(above=0, below=1)] = SizingCriteria.quantile
    threads_per_pod: Annotated[int | None, Param(least=1, most=MAX_MEMBERS)] = None
    pods_per_node: Annotated[int | None, Param(least=1, most=MAX_MEMBERS)] = None
    record_locks: Annotated[int, Param(least=1)] = SizingCriteria.record_locks
    records_in_flight: Annotated[int, Param(least=1)] = SizingCriteria.records_in_flight


@dataclass(frozen=True)
class Sizing(LazyResult):
    """Sizes of groups, as lazy DataFrames (columns: `tables.advice.SIZE_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of that pass, computed or read back.

    Examples:
        >>> curves = size_groups(fleet.with_capacity(400)).curves.where("group_id = 'payments-eu'").orderBy("members")
        >>> curves.select("members", "is_current", "max_load", "idle", "moved", "keeps_up").show()
        +-------+----------+--------+----+-----+--------+
        |members|is_current|max_load|idle|moved|keeps_up|
        +-------+----------+--------+----+-----+--------+
        |      1|     false|   600.0|   0|    3|   false|
        |      2|      true|   500.0|   0|    1|   false|
        |      3|     false|   300.0|   0|    2|    true|
        +-------+----------+--------+----+-----+--------+
    """

    schemas: ClassVar = SIZE_TABLES

    @cached_property
    def sizes(self) -> DataFrame:
        """One row per group and assignor: the number of members that it needs, and why."""
        return self._rows(kernel.SIZE_ROW, SIZE_TABLES["sizes"])

    @cached_property
    def curves(self) -> DataFrame:
        """One row per group, assignor, and number of members: the load per member."""
        return self._rows(kernel.CURVE_ROW, SIZE_TABLES["curves"])

    @cached_property
    def topic_sizes(self) -> DataFrame:
        """One row per group and topic: the number of partitions that the topic needs for this group, and why."""
        return self._rows(kernel.TOPIC_ROW, SIZE_TABLES["topic_sizes"])


def size_groups(fleet: FleetTables, params: SizingParams | None = None, settings: Settings | None = None) -> Sizing:
    """Computes how many consumers each group needs, from the load of its partitions and the capacity of one member.

    A number of members is enough if the most loaded member can read what is written to its partitions at the `quantile`
    of their rates, plus `headroom`. Rates are assumed to be normally distributed, and all partitions to peak at the
    same time. The capacity of a member is `groups.capacity`, or is measured if members have lag
    (`groups.kernel.member_loads.member_capacity`). Share groups (KIP-932) are planned by `SimpleAssignor`; the members
    of a partition share its load evenly, as many as its record locks allow at the same time.

    Args:
        fleet: clusters, topics, groups and members, and `loads`.
        params: assignors, member counts, and criteria; `None`: the defaults of `SizingParams`.
        settings: times for the estimate of pauses, as for `compare`.

    Returns:
        The sizes. Its tables are lazy, except for one pass that checks the fleet's sizes and values. Every group of the
        fleet is in `sizes` or in `rejected`.

    Raises:
        FleetError: no `loads`, or values that can't be planned with.
        ConfigError: no assignor, an unknown one, or a number out of range.

    Examples:
        >>> sizes = size_groups(fleet.with_capacity(400)).sizes.orderBy("group_id")
        >>> sizes.select("group_id", "assignor", "verdict", "members", "needed", "max_load").show()
        +-----------+--------+-----------------+-------+------+--------+
        |   group_id|assignor|          verdict|members|needed|max_load|
        +-----------+--------+-----------------+-------+------+--------+
        |  encoder-a|   range|under-provisioned|      2|     3|   500.0|
        |payments-eu|   range|under-provisioned|      2|     3|   500.0|
        +-----------+--------+-----------------+-------+------+--------+
    """
    kernel_params = size_params(params or SizingParams(), settings)
    if fleet.loads is None:
        remedy = "Take a snapshot with readings (--interval 60s --times 5), or add the table loads with your own rates"
        raise FleetError([Fault("loads", "*", "the table is missing", remedy)])
    _ = fleet.sizes
    has_topic_ids = not {CONFIGURED, *TOPIC_ID_ASSIGNORS}.isdisjoint(kernel_params.assignors)
    group_facts = facts.facts_by_group(
        fleet,
        user_data=bool(kernel_params.criteria.custom),
        topic_ids=has_topic_ids,
        owned_order=True,
        loads=True,
        hosts=True,
    )
    work = partial(kernel.size_groups, params=kernel_params, schema=to_arrow_schema(SIZE_ROWS))
    return Sizing(group_facts.mapInArrow(map_arrow_batches(work), SIZE_ROWS))


def size_params(params: SizingParams, settings: Settings | None) -> kernel.SizeParams:
    """Returns the parameters of a pass over complete groups. Errors: those of `size_groups`."""
    assignors = [params.assignors] if isinstance(params.assignors, str) else params.assignors
    selected = tuple(dict.fromkeys(assignors))
    if not selected:
        raise ConfigError("No assignor given. Name at least one")
    for name in selected:
        if name != CONFIGURED:
            find_assignor(name)
    if fault := find_fault(params):
        raise ConfigError(fault)
    timing = (settings or Settings()).timing
    if params.pods_per_node and not params.threads_per_pod:
        raise ConfigError("pods_per_node needs threads_per_pod")
    shared = {each.name: getattr(params, each.name) for each in fields(params) if hasattr(SizingCriteria, each.name)}
    criteria = SizingCriteria(timing=timing, custom=custom_assignors(), **shared)
    return kernel.SizeParams(selected, criteria, tuple(assignor_names()), tuple(sorted(set(params.member_counts))))
