"""Which assignor for which group: all groups of a fleet, by several assignors, under several changes, in one pass.

The facts of the fleet, once for each change, are brought together by group; there the assignors are asked, their
answers counted and judged (`comparison.kernel.compare`). Every figure is of the end, when everybody has what was
withheld from it at first; what the way there costs is in `moved`, `revoked`, `rounds` and `partition_seconds_paused`.
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
"""Kafka's assignors of the clients."""


def compare(
    fleet: Fleet,
    assignors: Sequence[str] | None = None,
    changes: Sequence[Change] | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """What each assignor would do to each group, which one is recommended, and why.

    Args:
        fleet: clusters, topics, groups and members.
        assignors: their names, for example `["range", "cooperative-sticky"]`, for all groups. By default those that a
            group may have without another protocol: `CLIENTS`, or `KAFKAS` of the broker where that assigns (KIP-848).
        changes: what happens to the fleet first (`what_if`); by default nothing does (`AS_IS`).
        settings: times by which pauses are counted; by default those of the simulation. Its tables are not for this.

    Returns:
        a row per group, assignor and change; columns and units: `tables.groups.COMPARISON`. Every group of the fleet is
        in
        it, for every assignor and change: one that cannot be planned has its code in `rejected`, one that has no
        members left has 0 `members`. One assignor is `recommended` per group and change, unless none can plan it; the
        rules are in `comparison.kernel.recommend`. `partition_seconds_paused` is what the rebalance is expected to
        cost,
        from the moment when it begins until everybody has its partitions: `simulation.kernel.pause_estimates` has the
        formula and what is not in it.

        The table is lazy, but for one look over the fleet's sizes and values, once for each change. All of it is one
        pass over the fleet.

    Raises:
        UnknownAssignorError: no such assignor.
        FleetError: values that no plan can be made from; a change after which nobody is left in any group.
        ValueError: no assignor, two changes of one name, or settings with tables.

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
    told = [change.name for change in changes]
    if not told or len(set(told)) < len(told):
        raise ValueError(f"changes: expected one or more, each with a name of its own; there are {told}")
    settings = settings or Settings()
    if any(table is not None for table in (settings.groups, settings.members, settings.partitions)):
        raise ValueError("settings: compare takes times that hold for all groups, and no tables; simulate takes those")
    as_is = next((change.name for change in changes if change is AS_IS), None)
    changed = {change.name: change.apply(fleet) for change in changes}
    if as_is is None:
        changed[kernel.AS_GIVEN] = fleet
    for each in (fleet, *changed.values()):
        _ = each.sizes
    params = kernel.CompareParams(
        assignors=tuple(names),
        changes=tuple(told),
        as_is=as_is,
        timing=settings.timing,
        custom=custom_assignors(),
        racks_known=fleet.racks_known,
        loads_known=any(each.loads is not None for each in changed.values()),
        by_protocol=by_protocol,
    )
    own = custom_assignors()
    asked_for = {client_assignor(name) for name in names if name not in own}
    by_id = not set(TOPIC_ID_ASSIGNORS).isdisjoint(names)
    together = facts.facts_by_group_and_state(
        changed,
        [name for name in WINDOW_SLICES if name in asked_for],
        user_data=bool(own),
        topic_ids=by_id,
        owned_order=by_id or any(uses_owned_order(name) for name in names),
        loads=True,
    )
    work = partial(kernel.compare, params=params, schema=to_arrow_schema(_NULLABLE))
    return together.mapInArrow(map_arrow_batches(work, 10_000), _NULLABLE)


_NULLABLE = StructType([StructField(field.name, field.dataType) for field in COMPARISON.fields])
