"""Compares assignors for all groups of a fleet, under several what-if changes, in one pass.

The facts of the fleet, once for each change, are grouped; in each task, the assignors plan the groups, and the results
are counted and judged (`comparison.kernel.compare`). The metrics describe the final state, when withheld partitions are
assigned; the cost of the transition is in `moved`, `revoked`, `rounds`, and `paused_partition_seconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS, client_assignor, uses_owned_order
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS, TOPIC_ID_ASSIGNORS
from spark_assign.comparison.kernel import compare as kernel
from spark_assign.comparison.what_if import AS_IS, WhatIf
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.groups.planning import custom_assignors, find_assignor
from spark_assign.groups.windows import WINDOW_SLICES
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.comparison import COMPARE_TABLES, COMPARISON
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.schema_fields import nullable
from spark_assign.tables.stored_plan import STORED_COMPARE_TABLES

_NULLABLE = StructType(nullable(**{field.name: field.dataType for field in COMPARISON}))


@dataclass(frozen=True)
class Comparison(LazyResult):
    """Assignors compared, as lazy DataFrames (columns: `tables.comparison.COMPARE_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the rows of that pass, computed or read back.

    Examples:
        >>> compare(fleet, ["range"]).rejected.count()
        0
    """

    schemas: ClassVar = COMPARE_TABLES
    stored_with: ClassVar = STORED_COMPARE_TABLES

    @cached_property
    def comparison(self) -> DataFrame:
        """One row per group, assignor, and what-if change."""
        return self.rows

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that can't be planned: one row per assignor and what-if change, with a code and a detail."""
        rows = self.comparison.where(F.col("rejected").isNotNull())
        renamed = rows.withColumnsRenamed({"rejected": "code", "reason": "detail"})
        return renamed.select(*COMPARE_TABLES["rejected"].names)


def compare(
    fleet: FleetTables,
    assignors: Sequence[str] | None = None,
    what_ifs: Sequence[WhatIf] | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """Computes what each assignor would do to each group, which one is recommended, and why.

    Args:
        fleet: clusters, topics, groups, and members.
        assignors: names of assignors, for example `["range", "cooperative-sticky"]`, for all groups. By default, those
            that a group can use without changing its protocol: Kafka's client-side assignors, or `uniform` and
            `server-range` if the broker assigns the group (KIP-848).
        what_ifs: changes of the fleet before the comparison (`comparison.what_if`); by default, none (`AS_IS`).
        settings: times for the estimate of pauses; by default, those of the simulation. Its tables must be empty.

    Returns:
        The comparison: its table `comparison` has one row per group, assignor, and change. Every group of the
        fleet is included for every assignor and change: a group that can't be planned has its code in `rejected`, and
        a group without members has 0 `members`. One assignor is `recommended` per group and change, unless none can
        plan the group; for the rules, see `comparison.kernel.compare`. `paused_partition_seconds` is the expected
        cost of the rebalance, from its start until every member has its partitions; for the formula and its limits,
        see `simulation.kernel.pause_estimates`.

        The table is lazy, except for one pass per change that checks the fleet's sizes and values. All of it is one
        pass over the fleet.

    Raises:
        FleetError: values that can't be planned with; a change after which no group has members.
        ConfigError: no assignor, an unknown one, two changes with the same name, or settings with tables.

    Examples:
        >>> compared = compare(fleet, ["range", "cooperative-sticky"]).comparison.where("group_id = 'payments-eu'")
        >>> compared.select("assignor", "moved", "recommended").orderBy("assignor").show()
        +------------------+-----+-----------+
        |          assignor|moved|recommended|
        +------------------+-----+-----------+
        |cooperative-sticky|    1|      false|
        |             range|    1|       true|
        +------------------+-----+-----------+
    """
    by_protocol = assignors is None
    if assignors is None:
        assignors = [*CLIENT_ASSIGNORS, *(KAFKA_SERVER_ASSIGNORS if fleet.groups is not None else ())]
    names = list(dict.fromkeys([assignors] if isinstance(assignors, str) else assignors))
    if not names:
        raise ConfigError("No assignor given. Name at least one in assignors.")
    for name in names:
        find_assignor(name)
    what_ifs = [AS_IS] if what_ifs is None else list(what_ifs)
    what_if_names = [what_if.name for what_if in what_ifs]
    if not what_if_names or len(set(what_if_names)) < len(what_if_names):
        raise ConfigError(f"The what-if changes {what_if_names} must be at least one, each with a unique name.")
    settings = settings or Settings()
    settings.require_no_tables("compare")
    as_is = next((what_if.name for what_if in what_ifs if what_if is AS_IS), None)
    states = {what_if.name: what_if.apply(fleet) for what_if in what_ifs}
    if as_is is None:
        states[kernel.AS_GIVEN] = fleet
    for state in (fleet, *states.values()):
        _ = state.sizes
    custom = custom_assignors()
    params = kernel.CompareParams(
        assignors=tuple(names),
        what_ifs=tuple(what_if_names),
        as_is=as_is,
        timing=settings.timing,
        custom=custom,
        racks_known=fleet.racks_known,
        loads_known=any(state.loads is not None for state in states.values()),
        by_protocol=by_protocol,
    )
    client_assignors = {client_assignor(name) for name in names if name not in custom}
    has_topic_ids = not set(TOPIC_ID_ASSIGNORS).isdisjoint(names)
    group_facts = facts.facts_by_group_and_state(
        states,
        [name for name in WINDOW_SLICES if name in client_assignors],
        user_data=bool(custom),
        topic_ids=has_topic_ids,
        owned_order=has_topic_ids or any(uses_owned_order(name) for name in names),
        loads=True,
    )
    work = partial(kernel.compare, params=params, schema=to_arrow_schema(_NULLABLE))
    return Comparison(group_facts.mapInArrow(map_arrow_batches(work, 10_000), _NULLABLE))
