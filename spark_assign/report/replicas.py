"""What a person sees of placements, reassignments, and checks of replicas, and of operations on brokers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report import views
from spark_assign.report.formatting import DASH, Row, Rows, count, duration, in_cluster, number, ratio, up_to, visible
from spark_assign.report.listed_groups import collected, num_rows, read_rejected_lines, sum_of, total_columns
from spark_assign.report.views import GROUP, PARTITION, Column, View, bars, figure, span, words
from spark_assign.spark.engine import divide
from spark_assign.spark.progress import progress
from spark_assign.tables.quoting import in_text
from spark_assign.tables.replicas import CLUSTER_CHECK

Tables = Mapping[str, DataFrame]

_LIMIT = 10
_PATH = 160
_BROKER = Column("broker", lambda row: in_cluster(row["cluster"], str(row["broker_id"])))
_NOT_PROBLEMS = {"cluster", "brokers", "partitions", "replicas"}
_PROBLEMS = [name for name in CLUSTER_CHECK.names if name not in _NOT_PROBLEMS and "_over_mean" not in name]


def _ids(name: str, limit: int = _LIMIT) -> Column:
    def text(row: Row) -> str:
        return " ".join(map(str, row[name][:limit])) + " …" * (len(row[name]) > limit)

    return Column(name, text, drawn=lambda _: lambda row: " ".join(map(str, row[name])))


def _problems(row: Row) -> str:
    return ", ".join(f"{row[name]:,} {name.replace('_', '-')}" for name in _PROBLEMS if row[name]) or "none"


def _paused(row: Row) -> str:
    """Returns the partition-seconds of a step; the time of rebalances, and of a broker that stays down, is unknown."""
    low, high = row["min_paused_partition_seconds"], row["max_paused_partition_seconds"]
    if low is None:
        return "unknown"
    return f"{low:,.0f}+" if high is None else up_to(low, high)


def _before_and_after(name: str) -> list[Column]:
    scale = [f"{name}_before", f"{name}_after"]
    return [
        bars(f"{name} before", scale[0], "was", scale, needs=scale[0]),
        bars(f"{name} after", scale[1], "is", scale),
    ]


def _path(path: str | None) -> str:
    """Returns the first characters of a path."""
    return DASH if path is None else visible(path[:_PATH], escaped="\n\t")


_EFFECTS = (span("rebalances"), span("epochs"))


def _rate(value: float | None) -> str:
    return DASH if value is None else f"{value:,.3f}"


PLACEMENTS = View(
    *("placements", "placed partitions"),
    [PARTITION, _ids("replicas"), "start_index shift seed"],
    "cluster, topic, partition",
)
REASSIGNED = View(
    *("metrics", "reassignment by cluster"),
    [
        *("cluster brokers replicas moved lower_bound +moved_bytes", span("per broker", "replicas"), span("leaders")),
        "leaders_changed out_of_tolerance=brokers_out_of_tolerance by_leaders=leaders_out_of_tolerance",
        "between_log_dirs=log_dir_moves? bytes=log_dir_moved_bytes? at_least=log_dir_lower_bound_bytes?",
        "unknown_log_dirs=log_dir_unknown?",
    ],
    "-moved, -log_dir_moves, cluster",
    note="Per broker: replicas, and leaders. Out of tolerance: brokers, by their replicas, and by their leaders.",
    listed="metrics",
)
LOADS = View(
    *("loads", "replicas and preferred leaders of each broker"),
    [_BROKER, *_before_and_after("replicas"), *_before_and_after("leaders")],
    "cluster, broker_id",
)
GOALS = View(
    *("balance", "loads in multiples of the share"),
    [
        *("cluster goal", words("kind", "is_hard", lambda is_hard: "hard" if is_hard else "soft")),
        *(span(f"{when}/share", f"load_{when}", ratio) for when in ("before", "after")),
        Column("out of bounds", lambda row: f"{row['out_load_before']:,} → {row['out_load_after']:,}", True),
    ],
    "-out_load_after, -out_load_before, cluster, goal",
    listed="totals",
)
SHUT_LOG_DIRS = View(
    *("balance", "log directories that take no replicas"),
    [_BROKER, words("log directory", "log_dir", _path), "state=log_dir_state"],
    "cluster, broker_id, log_dir",
    "log_dir_state <> 'online'",
    listed="log_dirs",
)
CHECKED = View(
    *("clusters", "clusters that were checked"),
    [
        "cluster brokers partitions replicas",
        *(span(f"{name}/mean", f"{name}_over_mean", ratio) for name in ("replicas", "leaders")),
        Column("partitions with a problem", _problems),
    ],
    f"-{' + '.join(_PROBLEMS)}, -max_replicas_over_mean, cluster",
)
PROBLEMS = View("problems", "problems", [PARTITION, "code detail"], "cluster, topic, partition, code")
SCHEDULE = View(
    *("schedule", "batches"),
    [
        "cluster batch partitions bytes=copied_bytes throttle_(bytes/s)=throttle slowest_broker=slowest_broker_id",
        *(Column("time", lambda row: f"{duration(row['min_seconds'])} to {_end(row)}"), "latest_start"),
    ],
    "cluster, batch",
)
STEPS = View(
    *("steps", "steps of the operation, in order"),
    [
        "cluster step event broker=broker_id partitions +groups leaders_moved coordinators_moved",
        *(*_EFFECTS, Column("partition-seconds paused", _paused, True)),
    ],
    "cluster, step",
)
AFFECTED = View(
    *("groups", "groups that the operation affects, those with the most rebalances first"),
    [
        *(GROUP, "type=group_type assignor", *_EFFECTS, "coordinator_moves partitions_moved=moved_partitions causes"),
        *("+paused_partitions", Column("partition-seconds paused", _paused, True, on_page=True), "+advice"),
    ],
    "-max_rebalances, -max_epochs, -coordinator_moves, cluster, group_id",
    "size(causes) > 0",
)
ORDERS = View(
    *("orders", "orders of a restart"),
    ["cluster order leaders_return coordinators_moved leaders_moved", _ids("brokers")],
    "cluster, order, leaders_return",
)
COORDINATORS = View(
    *("coordinators", "coordinators before the operation, by broker"),
    [
        "cluster topic coordinator=broker_id partitions groups keys",
        *(figure(f"{name}/s", f"{name}_per_second", _rate) for name in ("commits", "rebalances")),
        Column("hottest", lambda row: f"{row['hottest_partition']} ({row['hottest_load']:,.3g})"),
    ],
    "cluster, topic, broker_id",
)
SLOW_ASSIGNORS = View(
    *("assignor_times", "assignors that take long"),
    [GROUP, "+assignor +leader_library +members +partitions +max_assignor_ms +timeout +timeout_ms finding"],
    "-max_assignor_ms, cluster, group_id",
    "finding IS NOT NULL",
)
VIEWS = (
    *(REASSIGNED, LOADS),
    View("reasons", "replicas that move, by reason", order="cluster, -replicas, reason"),
    CHECKED,
    View(
        *("brokers", "brokers"),
        [
            *(_BROKER, "rack=rack_id", bars("replicas", "replicas", "is"), bars("leaders", "leaders", "is")),
            "replicas_over_mean leaders_over_mean fenced? cordoned? offline_log_dirs?",
        ],
        "cluster, broker_id",
    ),
    View("racks", "racks", order="cluster, rack_id"),
    View("problem_counts", "partitions with a problem, by code", order="-partitions, code"),
    *(PROBLEMS, STEPS, AFFECTED, ORDERS, COORDINATORS),
    View(
        *("leader_moves", "leader moves that spread coordinators"),
        [PARTITION, "from_broker_id to_broker_id", _ids("replicas"), "load"],
        "cluster, topic, partition",
    ),
    SLOW_ASSIGNORS,
    View("zones", "cross-zone traffic and its price per day, before and after", order="-cost_after, cluster, group_id"),
    views.rejected_view("cluster"),
)
"""The tables of the page, in order."""


@progress("placing replicas", 1)
def summarize_placements(placed: DataFrame, rejected: DataFrame) -> str:
    """Returns the number of placed partitions, the first of them, and the first rejected requests.

    Args:
        placed: Result of `replicas.place`, computed or read back.
        rejected: Rejected requests, likewise.
    """
    num_topics = F.count_distinct("cluster", "topic").alias("topics")
    (totals,) = collected(placed.agg(num_rows("partitions"), num_topics))
    num_rejected = rejected.count()
    heading = (
        f"{count(totals['partitions'], 'partition')} of {count(totals['topics'], 'topic')} placed, "
        f"{count(num_rejected, 'request')} rejected"
    )
    rejected_lines = read_rejected_lines(rejected, num_rejected, ("cluster", "topic"))
    return "\n".join([heading, *PLACEMENTS.printed(placed, _LIMIT, totals["partitions"]), *rejected_lines])


@progress("reassigning replicas", 1)
def summarize_reassignment(metrics: DataFrame, rejected: DataFrame) -> str:
    """Returns one line per cluster: the moves, their lower bound, and the balance after them.

    Args:
        metrics: Metrics of `replicas.reassign`, computed or read back.
        rejected: Rejected clusters, likewise.
    """
    (totals,) = collected(metrics.agg(*total_columns("clusters", ("moved", "lower_bound", "moved_bytes"))))
    num_rejected = rejected.count()
    size = f" ({totals['moved_bytes']:,} bytes)" if totals["moved_bytes"] else ""
    heading = (
        f"{count(totals['clusters'], 'cluster')} planned, {num_rejected:,} rejected, "
        f"{count(totals['moved'], 'replica', 'moves', 'move')}{size}, "
        f"at least {totals['lower_bound']:,} must move"
    )
    rejected_lines = read_rejected_lines(rejected, num_rejected, ("cluster",))
    return "\n".join([heading, *REASSIGNED.printed(metrics, _LIMIT, totals["clusters"]), *rejected_lines])


def note_missing_racks(brokers: DataFrame) -> str | None:
    """Returns a text about the clusters of which no broker has a rack, or None if there is none.

    Args:
        brokers: Table `brokers` of the fleet.
    """
    racks = F.count("rack_id") if "rack_id" in brokers.columns else F.lit(0)
    found = brokers.groupBy("cluster").agg(racks.alias("racks")).where("racks = 0").orderBy("cluster")
    clusters = [row["cluster"] for row in found.limit(4).collect()]
    if not clusters:
        return None
    names = ", ".join(map(in_text, clusters[:3])) + ", …" * (len(clusters) > 3)
    return f"No broker of {names} has a rack, so the plan ignores racks. If there are racks, give them with --rack"


@progress("balancing loads", 1)
def summarize_balance(balance: DataFrame) -> str:
    """Returns one line per cluster and goal: loads as multiples of the share, and brokers or log directories out of
    bounds; and the log directories that are offline, cordoned, or unknown.

    Args:
        balance: Table `balance` of `replicas.reassign`, computed or read back.
    """
    slack = 1e-9 * F.col("share")
    columns = []
    for name in ("load_before", "load_after"):
        ratio_to_share = divide(F.col(name), F.col("share"))
        is_outside = (F.col(name) > F.col("max_load") + slack) | (F.col(name) < F.col("min_load") - slack)
        columns += [
            F.min(ratio_to_share).alias(f"min_{name}"),
            F.max(ratio_to_share).alias(f"max_{name}"),
            F.count(F.when(is_outside, 1)).alias(f"out_{name}"),
        ]
    grouped = balance.groupBy("cluster", "goal").agg(F.first("is_hard").alias("is_hard"), *columns)
    lines = [*GOALS.printed(grouped, _LIMIT), *SHUT_LOG_DIRS.printed(balance, _LIMIT)]
    return "\n".join(lines[1:]) or "No cluster was balanced."


@progress("checking replicas", 1)
def summarize_check(clusters: DataFrame, problems: DataFrame) -> str:
    """Returns one line per cluster, and the first problems.

    Args:
        clusters: Clusters of `replicas.check`, computed or read back.
        problems: Its problems, likewise.
    """
    return "\n".join([*CHECKED.printed(clusters, _LIMIT), *PROBLEMS.printed(problems, _LIMIT)][1:])


@progress("estimating times", 1)
def summarize_schedule(schedule: DataFrame) -> str:
    """Returns one line per batch: what it copies, the throttle, the time, and the commands of the first batch.

    Args:
        schedule: Table of `replicas.schedule`, computed or read back.
    """
    totals = schedule.groupBy("cluster").agg(
        F.max("lower_bound_seconds").alias("bound"), F.sum("min_seconds").alias("sum")
    )
    (most,) = collected(totals.agg(F.max("bound").alias("bound"), F.max("sum").alias("sum")))
    bound = (
        f"All batches take at least {duration(most['sum'])}; in any order and size, at least {duration(most['bound'])}."
    )
    rows = SCHEDULE.first(schedule, _LIMIT)
    commands = [row[name] for row in rows[:1] for name in ("execute", "verify")]
    return "\n".join([*SCHEDULE.lines(rows, _LIMIT)[1:], "", bound, *commands])


def _end(row: Row) -> str:
    return "never, because writes use up the throttle" if row["max_seconds"] is None else duration(row["max_seconds"])


@progress("computing who rebalances", 1)
def summarize_operation(tables: Tables, top: int = _LIMIT) -> str:
    """Returns the steps of an operation, the groups that it affects most, the orders of a restart, and coordinators.

    Args:
        tables: Tables of `replicas.operate`, computed or read back.
        top: Maximum number of rows in each list.
    """
    sums = ("coordinator_moves", "min_rebalances", "max_rebalances", "min_epochs", "max_epochs")
    rebalancing = F.count(F.when(F.col("max_rebalances") > 0, 1)).alias("rebalancing")
    (totals,) = collected(tables["groups"].agg(*total_columns("groups", sums), rebalancing))
    lines = [
        f"{totals['rebalancing']:,} of {count(totals['groups'], 'group')} may rebalance: "
        f"{_counted(totals, 'rebalance')}, {_counted(totals, 'epoch')}, "
        f"{count(totals['coordinator_moves'], 'move')} of coordinators"
    ]
    for view in (STEPS, AFFECTED, ORDERS, COORDINATORS):
        lines += view.printed(tables[view.name], 4 * top if view is ORDERS else top)
    if moves := tables["leader_moves"].count():
        lines += ["", f"{count(moves, 'leader move', 'spreads', 'spread')} this load (table leader_moves)"]
    lines += SLOW_ASSIGNORS.printed(tables["assignor_times"], top)
    return "\n".join([*lines, *read_rejected_lines(tables["rejected"], key=("cluster",))])


def _counted(row: Row, noun: str) -> str:
    """Returns a range with its noun: `1 rebalance`, `1–2 rebalances`."""
    low, high = row[f"min_{noun}s"], row[f"max_{noun}s"]
    return count(low, noun) if low == high else f"{low:,}–{count(high, noun)}"


@progress("measuring cross-zone traffic", 1)
def summarize_operated_zones(zones: DataFrame) -> str:
    """Returns the traffic across zones before and after an operation, and its price (`OPERATED_ZONES`)."""
    names = ("cross_zone_bytes_before", "cross_zone_bytes_after", "cost_before", "cost_after")
    unknown = F.col("cost_before").isNull() | F.col("cost_after").isNull()
    known = zones.withColumns({name: F.when(~unknown, F.col(name)) for name in names})
    figures = (F.count_if(unknown).alias("unknown"), F.max("currency").alias("currency"))
    (row,) = collected(known.agg(*figures, *map(sum_of, names)))
    if row["cost_before"] is None:
        return "Cross-zone traffic: unknown, because racks or loads of all groups are incomplete"
    before, after = (
        f"{row[f'cross_zone_bytes_{when}'] / 1e9:,.1f} GB a day ({row[f'cost_{when}']:,.2f} {row['currency']})"
        for when in ("before", "after")
    )
    unknown_groups = f"; unknown for {count(row['unknown'], 'group')}" if row["unknown"] else ""
    return f"Cross-zone traffic: {before} before, {after} after{unknown_groups}"


# --- page ---------------------------------------------------------------------------------------------------------


def build_replica_section(rows: Mapping[str, Rows]) -> views.Section:
    """Returns the section on a placement, a reassignment, a check, or an operation, from the rows of `VIEWS`."""
    return views.Section(_sentences(rows), [view.table(rows.get(view.name, ())) for view in VIEWS])


def _sentences(rows: Mapping[str, Rows]) -> list[str]:
    """Returns a sentence about the reassignment, the check, or the operation."""
    if metrics := rows.get("metrics"):
        moved, bound, replicas = (sum(row[name] for row in metrics) for name in ("moved", "lower_bound", "replicas"))
        fewest = "which is the minimum" if moved == bound else f"and at least {number(bound)} must move"
        return [f"{number(moved)} of {count(replicas, 'replica')} move, {fewest}."]
    if clusters := rows.get("clusters"):
        bad = sum(row[name] for row in clusters for name in _PROBLEMS)
        found = f"{count(bad, 'problem', 'was', 'were')} found" if bad else "No problem was found"
        return [f"{count(sum(row['replicas'] for row in clusters), 'replica', 'was', 'were')} checked. {found}."]
    if steps := rows.get("steps"):
        sums = {name: sum(row[name] for row in steps) for name in ("min_rebalances", "max_rebalances")}
        moves = count(sum(row["coordinators_moved"] for row in steps), "move")
        return [f"The operation causes {_counted(sums, 'rebalance')} and {moves} of coordinators."]
    return []


def replica_rows(tables: Tables) -> dict[str, Rows]:
    """Returns the rows of `VIEWS`, from the tables of a placement, a reassignment, a check, or an operation."""
    derived = {}
    if "moves" in tables:
        derived["reasons"] = tables["moves"].groupBy("cluster", "reason").agg(num_rows("replicas"))
    if "problems" in tables:
        derived["problem_counts"] = tables["problems"].groupBy("code").agg(num_rows("partitions"))
    if "placement" in tables:
        derived["loads"] = _broker_counts(tables["placement"], "previous_replicas")
    elif "placements" in tables:
        derived["loads"] = _broker_counts(tables["placements"], None)
    return views.read_views(VIEWS, {**tables, **derived})


def _broker_counts(placement: DataFrame, before: str | None) -> DataFrame:
    """Returns replicas and preferred leaders of each broker, before and after."""
    key = ["cluster", "broker_id"]
    counts = _count_per_broker(placement, "replicas", "after")
    if before is None:
        none = F.lit(None).cast("long")
        counts = counts.withColumns({"replicas_before": none, "leaders_before": none})
    else:
        both = _count_per_broker(placement, before, "before").join(counts, key, "full")
        counts = both.fillna(0, [name for name in both.columns if name not in key])
    return counts


def _count_per_broker(placement: DataFrame, name: str, when: str) -> DataFrame:
    replicas = placement.select("cluster", F.posexplode(name).alias("place", "broker_id"))
    return replicas.groupBy("cluster", "broker_id").agg(
        num_rows(f"replicas_{when}"), F.count(F.when(F.col("place") == 0, 1)).alias(f"leaders_{when}")
    )
