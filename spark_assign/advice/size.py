"""How many consumers each group needs: every group with one number of members after the other, in one pass.

All of it is done over whole groups (`advice.kernel.size`): members leave or join as by `Fleet.with_members_left` and
`Fleet.with_members_joined`, an assignor is asked, and the load of the most loaded member is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import size as kernel
from spark_assign.advice.kernel.size_sweep import MOST, SizingCriteria
from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.assignors.server import TOPIC_ID_ASSIGNORS
from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.groups.registry import custom_assignors, find_assignor, names
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.advice import SIZE_TABLES
from spark_assign.tables.errors import Fault, FleetError

HEADROOM, QUANTILE = 0.2, 0.95
OWN = (CONFIGURED,)
"""Each group by its own assignor."""


@dataclass(frozen=True)
class Size(LazyResult):
    """How many members groups need, as lazy DataFrames (columns: `tables.advice.SIZE_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the fleet says, or, read back, what one has said.

    Examples:
        >>> curve = size(fleet.with_capacity(400)).curves.where("group_id = 'payments-eu'").orderBy("members")
        >>> curve.select("members", "now", "max_load", "idle", "moved", "keeps_up").show()
        +-------+-----+--------+----+-----+--------+
        |members|  now|max_load|idle|moved|keeps_up|
        +-------+-----+--------+----+-----+--------+
        |      1|false|   600.0|   0|    3|   false|
        |      2| true|   500.0|   0|    1|   false|
        |      3|false|   300.0|   0|    2|    true|
        +-------+-----+--------+----+-----+--------+
    """

    @cached_property
    def sizes(self) -> DataFrame:
        """A row per group and assignor: how many members are enough, and why."""
        return self._rows(kernel.OF_GROUP, SIZE_TABLES["sizes"])

    @cached_property
    def curves(self) -> DataFrame:
        """A row per group, assignor and number of members: who would carry how much."""
        return self._rows(kernel.OF_NUMBER, SIZE_TABLES["curves"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that nothing can be said of: cluster, group_id, code, detail."""
        return self._rows(kernel.REJECTED, SIZE_TABLES["rejected"])


def size(
    fleet: Fleet,
    assignors: Sequence[str] = OWN,
    *,
    members: Sequence[int] = (),
    headroom: float = HEADROOM,
    quantile: float = QUANTILE,
    settings: Settings | None = None,
) -> Size:
    """How many consumers each group needs, by what is written to its partitions and what one member can handle.

    A number of members is enough if the most loaded one can read what is written to its partitions at the `quantile` of
    their rates, and `headroom` beside it. Rates are taken to be spread normally, and all partitions to have their
    peaks at the same time. What a member can handle is `groups.capacity`, or is measured where members are behind
    (`groups.kernel.group_metrics.member_capacity`).

    Args:
        fleet: clusters, topics, groups and members, and `loads`.
        assignors: their names; `configured`: each group's own, `range` where the fleet does not say it.
        members: numbers of members to look at; by default those that tell most of each group.
        headroom: share of its load that a member must be able to read beside it, to catch up after a pause.
        quantile: of the rates, by which the most loaded member is measured.
        settings: times by which pauses are counted, as for `compare`.

    Returns:
        the sizes. Its tables are lazy, but for one look over the fleet's sizes and values. Every group of the fleet is
        in `sizes` or in `rejected`.

    Raises:
        FleetError: the fleet has no `loads`, or values that no plan can be made from.
        UnknownAssignorError: no such assignor.
        ValueError: no assignor, or numbers out of their range.

    Examples:
        >>> sized = size(fleet.with_capacity(400)).sizes.orderBy("group_id")
        >>> sized.select("group_id", "assignor", "verdict", "members", "needed", "max_load").show()
        +-----------+--------+-------+-------+------+--------+
        |   group_id|assignor|verdict|members|needed|max_load|
        +-----------+--------+-------+-------+------+--------+
        |  encoder-a|   range|too-few|      2|     3|   500.0|
        |payments-eu|   range|too-few|      2|     3|   500.0|
        +-----------+--------+-------+-------+------+--------+
    """
    chosen = list(dict.fromkeys([assignors] if isinstance(assignors, str) else assignors))
    if not chosen:
        raise ValueError("there is nothing to size by: name at least one assignor")
    for name in chosen:
        if name != CONFIGURED:
            find_assignor(name)
    if headroom < 0:
        raise ValueError(f"headroom {headroom}: expected a share from 0, such as 0.2")
    if not 0 < quantile < 1:
        raise ValueError(f"quantile {quantile}: expected a share between 0 and 1, such as 0.95")
    if any(not 1 <= number <= MOST for number in members):
        raise ValueError(f"members {sorted(members)}: expected numbers from 1 to {MOST:,}")
    if fleet.loads is None:
        remedy = "Take a snapshot with readings (--every 60s --times 5), or give rates of your own as the table loads"
        raise FleetError([Fault("loads", "*", "the table is missing", remedy)])
    _ = fleet.sizes
    own = custom_assignors()
    params = kernel.SizeParams(
        assignors=tuple(chosen),
        terms=SizingCriteria(headroom, quantile, (settings or Settings()).timing, own),
        known=tuple(names()),
        numbers=tuple(sorted(set(members))),
        custom=own,
    )
    by_id = CONFIGURED in chosen or not set(TOPIC_ID_ASSIGNORS).isdisjoint(chosen)
    told = facts.facts_by_group(fleet, user_data=bool(own), topic_ids=by_id, owned_order=True, loads=True)
    work = map_arrow_batches(partial(kernel.size, params=params))
    return Size(told.mapInArrow(work, from_arrow_schema(kernel.SIZED)))
