"""Which assignor for which group: all groups of a fleet, by several assignors, under several changes, in one table.

The fleet is looked over once per change, and not once per assignor: its census, who owns what and which claims cross
are shared (`several`). Every figure is of the end, when everybody has what was withheld from it at first; what the way
there costs is in `moved`, `revoked`, `rounds` and `partition_seconds_paused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from spark_assign.assignors.registry import find
from spark_assign.fleet import Fleet
from spark_assign.kernels.protocol.settings import Timing
from spark_assign.kernels.recommend import figures, judge
from spark_assign.pauses import Counts, cooperative_seconds, eager_seconds
from spark_assign.plan import consumer_groups
from spark_assign.protocol.settings import Settings
from spark_assign.schemas import COMPARISON, GROUP_KEY
from spark_assign.several import KEY, Plans, for_each, measure_several, plan_several
from spark_assign.what_if import AS_IS, Change


def compare(
    fleet: Fleet,
    assignors: Sequence[str],
    changes: Sequence[Change] | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """What each assignor would do to each group, which one is recommended, and why.

    Args:
        fleet: clusters, topics, groups and members.
        assignors: their names, for example `["range", "roundrobin", "sticky", "cooperative-sticky"]`.
        changes: what happens to the fleet first (`what_if`); by default nothing does (`AS_IS`).
        settings: times by which pauses are counted; by default those of the simulation. Its tables are not for this.

    Returns:
        a row per group, assignor and change; columns and units: `schemas.COMPARISON`. Every group of the fleet is in
        it, for every assignor and change: one that cannot be planned has its code in `rejected`, one that has no
        members left has 0 `members`. One assignor is `recommended` per group and change, unless none can plan it; the
        rules are in `kernels.recommend`. `partition_seconds_paused` is what the rebalance is expected to cost, from
        the moment when it begins until everybody has its partitions: `pauses` has the formula and what is not in it.

        The table is lazy, but for one look over the fleet's sizes and values, once for each change. What the looks and
        the plans keep in the executors is given back by `fleet.release()`.

    Raises:
        UnknownAssignorError: no such assignor.
        FleetError: values that no plan can be made from; a change after which nobody is left in any group.
        ValueError: no assignor, two changes of one name, or settings with tables.
    """
    names = list(dict.fromkeys([assignors] if isinstance(assignors, str) else assignors))
    if not names:
        raise ValueError("there is nothing to compare: name at least one assignor")
    for name in names:
        find(name)
    changes = [AS_IS] if changes is None else list(changes)
    told = [change.name for change in changes]
    if not told or len(set(told)) < len(told):
        raise ValueError(f"changes: expected one or more, each with a name of its own; there are {told}")
    settings = settings or Settings()
    if any(table is not None for table in (settings.groups, settings.members, settings.partitions)):
        raise ValueError("settings: compare takes times that hold for all groups, and no tables; simulate takes those")
    compared = []
    unchanged = _sound(fleet)
    for change in changes:
        changed = change.apply(unchanged)
        changed = fleet if changed is unchanged else changed
        plans = plan_several(changed, names)
        if changed is not fleet:  # whose faulty groups were left out of it
            faulty = for_each(fleet.census.rejected, names)
            plans = replace(plans, rejected=plans.rejected.unionByName(faulty))
        table = _figures(plans, _every_group(fleet, changed), settings.timing)
        compared.append(table.withColumn("change", F.lit(change.name)))
        if changed is not fleet:
            fleet.census.kept.extend((changed.census.topics, changed.census.members, *changed.census.kept))
    return _recommend(reduce(DataFrame.unionByName, compared), fleet)


def _sound(fleet: Fleet) -> Fleet:
    """The fleet as changes get it: ownership as it was read already, and without groups that have a fault."""
    census = fleet.census
    sound = fleet
    if fleet.owned is not None and census.ownership is not None:
        sound = replace(fleet, owned=None, owned_runs=census.ownership.runs)
    if not census.rejected_groups:
        return sound
    faulty = census.rejected.select(*GROUP_KEY)
    tables = ("members", "subscriptions", "owned_runs", "departed")
    present = {name: getattr(sound, name) for name in tables if getattr(sound, name) is not None}
    return replace(sound, **{name: table.join(faulty, GROUP_KEY, "left_anti") for name, table in present.items()})


def _figures(plans: Plans, listed: DataFrame, timing: Timing) -> DataFrame:
    """The figures of the groups as `schemas.COMPARISON` has them, null where there is no plan, and detail."""
    zeros = (
        *("members", "partitions", "subscribed_partitions", "claimed", "kept", "back", "there", "there_living"),
        *("later_moved", "later_revoked"),
    )
    rows = measure_several(plans, listed)
    rows = rows.withColumns({name: F.coalesce(name, F.lit(0)) for name in zeros})
    counts = Counts(
        members=F.greatest(F.col("members"), F.lit(1)),
        partitions=F.col("partitions"),
        living=F.col("there_living"),
        kept=F.col("kept"),
        back=F.col("back"),
        later=F.col("later_revoked"),
    )
    cooperative = F.col("rounds").isNotNull()
    paused = F.when(cooperative, cooperative_seconds(counts, timing)).otherwise(eager_seconds(counts, timing))
    figures = {
        "moved": F.col("there") - F.col("kept") - F.col("back") + F.col("later_moved"),
        "revoked": F.col("claimed") - F.col("kept") + F.col("later_revoked"),
        "unassigned": F.col("subscribed_partitions") - F.col("partitions"),
        "rounds": F.coalesce("rounds", F.lit(1)),
        "stable": F.coalesce("stable", F.lit(True)),
        "partition_seconds_paused": paused,
        "cross_rack_share": F.when(F.col("partitions") > 0, 1 - F.col("rack_matched") / F.col("partitions")),
    }
    rows = rows.withColumns(figures)
    planned = F.col("rejected").isNull() & (F.col("members") > 0)
    shown = (F.when(planned, F.col(name)).alias(name) for name in _FIGURES if name not in ("members", "partitions"))
    sizes = (F.when(F.col("rejected").isNull(), F.col(name)).alias(name) for name in ("members", "partitions"))
    told = (F.col(f"rejected.{name}").alias(alias) for name, alias in (("code", "rejected"), ("detail", "detail")))
    order = F.array_position(F.array(*(F.lit(name) for name in plans.names)), F.col("assignor"))
    return rows.select(*KEY, order.alias("order"), *sizes, *shown, *told)


_OTHERS = ("change", "configured", "rejected", "recommended", "reason")
_FIGURES = [name for name in COMPARISON.names if name not in (*KEY, *_OTHERS)]


def _every_group(fleet: Fleet, changed: Fleet) -> DataFrame:
    """All groups before and after a change, those without members too: cluster, group_id; not once each."""
    tables = [each.census.members.select(*GROUP_KEY) for each in ([fleet] if changed is fleet else [fleet, changed])]
    if fleet.groups is not None:
        tables.append(consumer_groups(fleet.groups).select(*GROUP_KEY))
    return reduce(DataFrame.unionByName, tables)


def _recommend(rows: DataFrame, fleet: Fleet) -> DataFrame:
    """Add `recommended` and `reason`; the rows of a group and change are judged together."""
    key = [*GROUP_KEY, "change"]
    row = F.struct("order", "assignor", *_FIGURES, "rejected", "detail")
    groups = rows.groupBy(*key).agg(F.array_sort(F.collect_list(row)).alias("compared"))
    if fleet.groups is not None:
        server_side = (F.col("group_type") == "consumer") & (F.col("assignor") == "range")
        configured = F.when(server_side, "server-range").otherwise(F.col("assignor"))
        known = consumer_groups(fleet.groups).groupBy(*GROUP_KEY).agg(F.min(configured).alias("configured"))
        groups = groups.join(known, GROUP_KEY, "left")
    else:
        groups = groups.withColumn("configured", F.lit(None).cast("string"))
    nullable = StructType([StructField(field.name, field.dataType) for field in COMPARISON.fields])
    return groups.mapInArrow(_judge(to_arrow_schema(nullable)), nullable)


def _judge(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The work of one task; a closure of plain values, as it is sent to the executors."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            judged = []
            for group in batch.to_pylist():
                same = {name: group[name] for name in ("cluster", "group_id", "change")}
                now = group["configured"]
                verdicts = judge([figures(row) for row in group["compared"]], now)
                for row, verdict in zip(group["compared"], verdicts, strict=True):
                    told = {"configured": None if now is None else row["assignor"] == now}
                    told |= {"recommended": verdict.recommended, "reason": verdict.reason}
                    judged.append({**row, **same, **told})
            yield from pa.Table.from_pylist(judged, schema=schema).to_batches(max_chunksize=10_000)

    return work
