"""Collects the rows of a report. Spark aggregates or limits each table that grows with the fleet (`report_data`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.groups.planning import Plan
from spark_assign.report.advice import advice_rows
from spark_assign.report.comparison import compare_rows
from spark_assign.report.connect import connect_rows
from spark_assign.report.drift import drift_rows
from spark_assign.report.formatting import Rows
from spark_assign.report.group_members import count_partitions, read_group_members
from spark_assign.report.history import history_rows
from spark_assign.report.html.daily import DailyRows
from spark_assign.report.html.page import render_report
from spark_assign.report.listed_groups import (
    SUMS,
    any_of,
    collected,
    num_rows,
    only,
    over_share_column,
    worst_first,
)
from spark_assign.report.replicas import replica_rows
from spark_assign.report.report_data import (
    EDGES,
    LISTED_MEMBERS,
    LISTED_ROWS,
    MATRIX,
    MOST_GROUPS,
    MOST_MEMBERS,
    MOST_ROWS,
    NOTHING_ASSIGNED,
    OTHERS,
    WORST_GROUPS,
    PlanRows,
)
from spark_assign.report.share_and_streams import streams_rows
from spark_assign.report.simulation import simulation_rows
from spark_assign.simulation.simulation import Simulation
from spark_assign.spark.partition_slices import expand
from spark_assign.spark.progress import progress
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY

Tables = Mapping[str, DataFrame]

_NO_TABLES: Mapping[str, DataFrame | None] = {}
_PARTITION = [*GROUP_KEY, "topic", "partition"]


@progress("gathering the report", 1)
def report(
    plan: Plan | StoredRun | None = None,
    comparison: DataFrame | None = None,
    simulation: Simulation | Mapping[str, Tables] | None = None,
    connect: Any = None,
    replicas: Tables | None = None,
    drift: Tables | StoredRun | None = None,
    advice: DataFrame | None = None,
    history: Tables | None = None,
    streams: Tables | None = None,
    *,
    daily: DailyRows | None = None,
    offsets: DataFrame | None = None,
    snapshot: Tables | None = None,
    title: str = "Kafka assignment report",
    sources: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the report as one HTML page that needs no network; `displayHTML(report(plan))` shows it in a notebook.

    Args:
        plan: a plan or a stored plan. A plan that isn't stored is computed several times if the session can't cache.
        comparison: a row per group, assignor, and what-if change (`compare`). The groups of the plan then also show the
            recommended assignor.
        simulation: `simulation.simulate_variants(…)`; or stored tables (`tables.simulation.SIMULATION_TABLES`, or
            `comparison`) by the name of the variant: `{"eager": {"rebalances": …, …}, "cooperative": …}`.
        connect: a `ConnectPlan`, a `ConnectSimulation`, or stored tables of either.
        replicas: tables of a placement, a reassignment, a check, or an operation, by name (`tables.replicas`).
        drift: the available tables of a drift, by name: groups, members, ownership, topics; or a stored drift, so that
            the page names the two compared runs.
        advice: the ranked recommendations (`Advice.advice`), the first section of the page.
        history: tables of a history, by name (`tables.history.HISTORY_TABLES`, and those of a replay).
        streams: tables of a `StreamsPlan`, of a `StreamsComparison`, or of both, by name without prefix.
        daily: rows of the daily sections (`report.html.collect_daily.daily_rows`), which come first.
        offsets: offsets of the planned snapshot (`tables.groups.OFFSETS`); the page then marks partitions without
            traffic, and shows the lag of members.
        snapshot: other tables of the planned snapshot, by name: `members`, for clients and hosts, and `loads`.
        title: heading of the page.
        sources: name and location of each source, listed at the end of the page.

    Returns:
        the page. For the limits on the rows that are read, see `report_data`.

    Raises:
        ConfigError: jinja2 isn't installed (extra `report`).
    """
    planned = None if plan is None else plan_rows(plan, offsets, snapshot or {})
    listed = () if planned is None else planned.groups
    return render_report(
        plan=planned,
        comparison=None if comparison is None else compare_rows(comparison, listed),
        simulation=None if simulation is None else simulation_rows(simulation),
        connect=None if connect is None else connect_rows(connect),
        replicas=None if replicas is None else replica_rows(replicas),
        drift=None if drift is None else _drift_rows(drift),
        advice=None if advice is None else advice_rows(advice),
        history=None if history is None else history_rows(history),
        streams=None if streams is None else streams_rows(streams),
        daily=daily,
        title=title,
        sources=sources,
    )


def _drift_rows(drift: Tables | StoredRun) -> dict[str, Rows]:
    if not isinstance(drift, StoredRun):
        return drift_rows(drift)
    inputs = drift.manifest.content["inputs"]
    return drift_rows(drift.tables, {side: str(inputs[side]) for side in ("before", "after") if inputs.get(side)})


def plan_rows(
    plan: Plan | StoredRun, offsets: DataFrame | None = None, snapshot: Mapping[str, DataFrame | None] = _NO_TABLES
) -> PlanRows:
    """Collects the rows of a plan; offsets and snapshot as for `report`."""
    if isinstance(plan, StoredRun):
        manifest = plan.manifest
        about = {
            "Run": manifest.run_id,
            "Finished": f"{manifest.finished_at:%Y-%m-%d %H:%M} UTC",
            **{name.capitalize(): str(value) for name, value in manifest.content["inputs"].items() if value},
            **{name.replace("_", " "): value for name, value in manifest.content["versions"].items()},
        }
        return rows_of_tables(plan.tables, about, {**snapshot, "offsets": offsets})
    names = ("assignment_slices", "metrics", "moves", "revocations", "rejected")
    with plan.computed_once(*names) as once:
        tables = {name: once.tables[name] for name in names if name in once.tables}
        return rows_of_tables(tables, {}, {**snapshot, "offsets": offsets})


def rows_of_tables(tables: Tables, about: Mapping[str, Any], snapshot: Mapping[str, DataFrame | None]) -> PlanRows:
    """Collects the rows from tables by name (`tables.groups.PLAN_TABLES`); only metrics and rejected are required.

    The snapshot has `offsets`, `members`, and `loads`, as far as they are known.
    """
    metrics, rejected = tables["metrics"], tables["rejected"]
    groups = collected(worst_first(metrics).limit(MOST_GROUPS))
    worst = groups[:WORST_GROUPS]
    of_worst = {name: table.where(any_of(worst)) for name, table in tables.items()} if worst else {}
    known = {"moves", "revocations"} <= set(tables)
    notes = []
    if not known:
        notes.append("Previous owners aren't shown: the plan was stored without the tables moves and revocations.")
    elif any(row["claim_conflicts"] for row in worst):
        notes.append("A partition that several members claim counts as previously owned by each of them.")
    if not {"assignment_slices", "assignments"} & set(tables):
        notes.append("Members aren't shown: the plan was stored without the tables assignment_slices and assignments.")
    offsets = snapshot.get("offsets")
    silent = None if offsets is None else offsets.where("end_offset = 0").select(*_PARTITION)
    shares = count_partitions(of_worst, known=known)
    if shares is not None:
        shares = _with_silent(shares, of_worst, None if silent is None else silent.where(any_of(worst)))
    silent_groups: Rows | None = None if silent is None else ()
    if silent is not None and groups:
        silent_groups = collected(only(silent.groupBy(*GROUP_KEY).agg(num_rows("partitions")), groups))
    who = None
    sizes = accumulate(row["members"] for row in worst)
    detailed = [row for row, size in zip(worst, sizes, strict=True) if size <= LISTED_MEMBERS]
    if shares is not None and detailed:
        of_groups = any_of(detailed)
        members = snapshot.get("members")
        given = {**snapshot, "members": None if members is None else members.where(of_groups)}
        who = read_group_members({name: each.where(of_groups) for name, each in of_worst.items()}, given, LISTED_ROWS)
    refused = collected(rejected.orderBy(*GROUP_KEY, "code").limit(MOST_ROWS))
    return PlanRows(
        classes=collected(_classes(metrics)),
        groups=groups,
        members=() if shares is None else collected(_most_of_each(shares)),
        moves=collected(_pairs(of_worst["moves"])) if "moves" in of_worst else (),
        reasons=collected(_reasons(tables["moves"])) if "moves" in tables else (),
        rejected=refused,
        rejected_total=len(refused) if len(refused) < MOST_ROWS else rejected.count(),
        about=about,
        notes=notes,
        ruled=collected(_ruled(metrics)),
        silent=silent_groups,
        who=who,
    )


def _with_silent(shares: DataFrame, of_worst: Tables, silent: DataFrame | None) -> DataFrame:
    """Adds the number of partitions without traffic per member."""
    if silent is None:
        return shares.withColumn("silent", F.lit(0).cast("long"))
    given = expand(of_worst["assignment_slices"]) if "assignment_slices" in of_worst else of_worst["assignments"]
    counted = given.join(F.broadcast(silent), _PARTITION, "left_semi").groupBy(*MEMBER_KEY)
    found = counted.agg(num_rows("silent"))
    return shares.join(found, MEMBER_KEY, "left").withColumn("silent", F.coalesce("silent", F.lit(0).cast("long")))


def _classes(metrics: DataFrame) -> DataFrame:
    """Returns `PlanRows.classes`: at most a few dozen rows per cluster."""
    passed = reduce(Column.__add__, [(F.col("max_over_mean") > edge).cast("int") for edge in EDGES])
    key = {
        "imbalance": F.coalesce(passed, F.lit(NOTHING_ASSIGNED)),
        "even": over_share_column() == 0,
    }
    keyed = metrics.withColumns(key)
    sums = (F.sum(name).alias(name) for name in SUMS)
    return keyed.groupBy("cluster", "assignor", *key).agg(num_rows("groups"), *sums)


def _ruled(metrics: DataFrame) -> DataFrame:
    """Returns `PlanRows.ruled`: a row per assignor and leader, so few rows."""
    sums = (num_rows("groups"), F.sum("partitions").alias("partitions"))
    return metrics.where("members > 0").groupBy("assignor", "leader_client").agg(*sums)


def _reasons(moves: DataFrame) -> DataFrame:
    """Returns a row per reason."""
    per_group = moves.groupBy(*GROUP_KEY, "reason").agg(num_rows("partitions"))
    return per_group.groupBy("reason").agg(F.sum("partitions").alias("partitions"), num_rows("groups"))


def _most_of_each(shares: DataFrame) -> DataFrame:
    """Returns the members with the most partitions of every group; ties are sorted by member ID."""
    most = F.desc(F.greatest(F.coalesce("before", F.lit(0)), F.col("after") + F.col("waiting")))
    of_group = Window.partitionBy(*GROUP_KEY)
    listed = shares.withColumns(
        {
            "place": F.row_number().over(of_group.orderBy(most, "member_id")),
            "listed": F.sum((~F.col("gone")).cast("int")).over(of_group),
        }
    )
    return listed.where(F.col("place") <= MOST_MEMBERS).drop("place")


def _pairs(moves: DataFrame) -> DataFrame:
    """Returns `PlanRows.moves`: in every group, the members with the most changes, and all others as one member."""
    each_end = moves.select(*GROUP_KEY, F.explode(F.array("from_member_id", "to_member_id")).alias("member_id"))
    changes = each_end.where("member_id is not null").groupBy(*MEMBER_KEY).agg(num_rows("changes"))
    place = F.row_number().over(Window.partitionBy(*GROUP_KEY).orderBy(F.desc("changes"), "member_id"))
    shown = (
        changes.withColumn("place", place)
        .where(F.col("place") <= MATRIX)
        .select(*MEMBER_KEY, F.lit(True).alias("shown"))
    )
    for end in ("from_member_id", "to_member_id"):
        named = shown.withColumnRenamed("member_id", end)
        name = F.when(F.col(end).isNull() | F.col("shown"), F.col(end)).otherwise(F.lit(OTHERS))
        moves = moves.join(named, [*GROUP_KEY, end], "left").withColumn(end, name).drop("shown")
    return moves.groupBy(*GROUP_KEY, "from_member_id", "to_member_id", "reason").agg(num_rows("partitions"))
