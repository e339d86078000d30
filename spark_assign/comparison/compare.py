"""Compares assignors for all groups of a fleet, under several what-if changes, in one pass.

The facts of the fleet, once for each change, are grouped; in each task, the assignors plan the groups, and the results
are counted and judged (`comparison.kernel.compare`). Every figure is of the final state, when withheld partitions are
assigned; the cost of the transition is in `moved`, `revoked`, `rounds`, and `paused_partition_seconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from spark_assign.comparison.kernel import compare as kernel
from spark_assign.comparison.what_if import AS_IS, Change
from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.assignors.release_rules import client_assignor, uses_owned_order
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, TOPIC_ID_ASSIGNORS
from spark_assign.groups.registry import custom_assignors, find_assignor
from spark_assign.groups.windows import WINDOW_SLICES
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.tables.groups import COMPARISON

CLIENTS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Kafka's client-side assignors."""


def compare(
    fleet: Fleet,
    assignors: Sequence[str] | None = None,
    changes: Sequence[Change] | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """Computes what each assignor would do to each group, which one is recommended, and why.

    Args:
        fleet: clusters, topics, groups, and members.
        assignors: names of assignors, for example `["range", "cooperative-sticky"]`, for all groups. By default, those
            that
            a group can use without changing its protocol: `CLIENTS`, or `KAFKA_SERVER_ASSIGNORS` if the broker assigns
                it
            (KIP-848).
        changes: changes of the fleet before the comparison (`what_if`); by default, none (`AS_IS`).
        settings: times for the estimate of pauses; by default, those of the simulation. Its tables must be empty.

    Returns:
        One row per group, assignor, and change; columns and units: `tables.groups.COMPARISON`. Every group of the fleet
        is
        included for every assignor and change: a group that can't be planned has its code in `rejected`, and a group
            without
        members has 0 `members`. One assignor is `recommended` per group and change, unless none can plan the group; for
        the rules, see `comparison.kernel.recommend`. `paused_partition_seconds` is the expected cost of the rebalance,
        from its start until every member has its partitions; for the formula and its limits, see
        `simulation.kernel.pause_estimates`.

        The table is lazy, except for one pass per change that checks the fleet's sizes and values. All of it is one
        pass over the fleet.

    Raises:
        UnknownAssignorError: unknown assignor.
        FleetError: values that can't be planned with; a change after which no group has members.
        ValueError: no assignor, two changes with the same name, or settings with tables.

    Examples:
        >>> compared = compare(fleet, ["range", "cooperative-sticky"]).where("group_id = 'payments-eu'")
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
        assignors = [*CLIENTS, *(KAFKA_SERVER_ASSIGNORS if fleet.groups is not None else ())]
    names = list(dict.fromkeys([assignors] if isinstance(assignors, str) else assignors))
    if not names:
        raise ValueError("there is nothing to compare: name at least one assignor")
    for name in names:
        find_assignor(name)
    changes = [AS_IS] if changes is None else list(changes)
    change_names = [change.name for change in changes]
    if not change_names or len(set(change_names)) < len(change_names):
        raise ValueError(f"changes: expected one or more, each with a name of its own; there are {change_names}")
    settings = settings or Settings()
    if any(table is not None for table in (settings.groups, settings.members, settings.partitions)):
        raise ValueError("settings: compare takes times that hold for all groups, and no tables; simulate takes those")
    as_is = next((change.name for change in changes if change is AS_IS), None)
    changed = {change.name: change.apply(fleet) for change in changes}
    if as_is is None:
        changed[kernel.AS_GIVEN] = fleet
    for state in (fleet, *changed.values()):
        _ = state.sizes
    params = kernel.CompareParams(
        assignors=tuple(names),
        changes=tuple(change_names),
        as_is=as_is,
        timing=settings.timing,
        custom=custom_assignors(),
        racks_known=fleet.racks_known,
        loads_known=any(state.loads is not None for state in changed.values()),
        by_protocol=by_protocol,
    )
    custom = custom_assignors()
    client_assignors = {client_assignor(name) for name in names if name not in custom}
    has_topic_ids = not set(TOPIC_ID_ASSIGNORS).isdisjoint(names)
    group_facts = facts.facts_by_group_and_state(
        changed,
        [name for name in WINDOW_SLICES if name in client_assignors],
        user_data=bool(custom),
        topic_ids=has_topic_ids,
        owned_order=has_topic_ids or any(uses_owned_order(name) for name in names),
        loads=True,
    )
    work = partial(kernel.compare, params=params, schema=to_arrow_schema(_NULLABLE))
    return group_facts.mapInArrow(map_arrow_batches(work, 10_000), _NULLABLE)


_NULLABLE = StructType([StructField(field.name, field.dataType) for field in COMPARISON.fields])
