"""What a person sees of migrations to the consumer protocol and of client upgrades: a summary, and steps of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.groups.kernel.client_settings import FORBIDDEN
from spark_assign.migration.kernel.migration_verdict import BLOCKED, DONE, READY, READY_WITH_WARNINGS
from spark_assign.migration.kernel.upgrade_verdict import UNKNOWN_VERDICT
from spark_assign.numeric.arrays import values_by_key
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    by_group,
    change,
    count,
    group_key,
    group_name,
    number,
    ratio,
    without_uuids,
)
from spark_assign.report.listed_groups import count_by, first_of_each, read_rejected_lines
from spark_assign.report.views import GROUP, Column, Columns, View, before_and_after, figure, lines_of_each, words
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import in_one_line


def _cross_rack(row: Row) -> str:
    """Returns the cross-rack count; in parentheses, that under the rack-aware assignor, if it differs."""
    counts = change(*(number(row[f"cross_rack_{time}"]) for time in ("before", "after")))
    hypothetical = row["cross_rack_hypothetical"]
    is_equal = hypothetical in (None, row["cross_rack_after"])
    return counts if is_equal else f"{counts} ({hypothetical:,} with {row['hypothetical_assignor']})"


def _transition(title: str, before: str, after: str) -> Column:
    """Returns a column of the value of `before`, and that of `after` if it is known and differs."""

    def text(row: Row) -> str:
        if row[before] is None:
            return DASH
        return str(row[before]) if row[after] is None else change(row[before], row[after])

    return Column(title, text)


def _without_uuid(value: str | None) -> str:
    return without_uuids(value) if value else DASH


_MIGRATED: Columns = [
    *("rank", GROUP, "current=assignor target=server_assignor", figure("moved")),
    *(figure("restart moves", "moved_during_migration"), figure("pauses", "paused_during_migration")),
    before_and_after("max_over_mean", "max/mean", ratio),
    *(Column("cross-rack", _cross_rack, True), words("findings", "codes", lambda codes: codes or DASH)),
]
_UPGRADED: Columns = [
    *(GROUP, _transition("assignor", "assignor", "to_assignor"), _transition("rules", "from_rules", "to_rules")),
    "restarts leader_changes moved by_rules=moved_by_rules pauses=paused_partitions",
    Column("old, new rules", lambda row: ", ".join(number(row[f"moved_by_{of}_rules"]) for of in ("old", "new")), True),
]
RESTARTS = View(
    *("steps", "restarts"),
    [
        *("step type=step_type", words("member", "member_id", _without_uuid)),
        Column("leader", lambda row: f"{without_uuids(row['leader'])}{' (new)' if row['leader_changed'] else ''}"),
        "release=leader_release assignor rules moved by_rules=moved_by_rules pauses=paused_partitions",
    ],
)


@progress("planning the migration", 1)
def summarize_migration(migrations: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their costs. Reads a screenful of rows.

    Args:
        migrations: `Migration.migrations`, computed or read back.
        rejected: `Migration.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    sections = {name: _section("migrations", name, _MIGRATED) for name in (READY, READY_WITH_WARNINGS, BLOCKED)}
    return _summarize(migrations, rejected, F.col("rank"), sections, limit)


@progress("simulating the restarts", 1)
def summarize_upgrade(upgrades: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their costs. Reads a screenful of rows.

    Args:
        upgrades: `Upgrade.upgrades`, computed or read back.
        rejected: `Upgrade.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    sections = {name: _section("upgrades", name, _UPGRADED) for name in (READY_WITH_WARNINGS, READY)}
    sections |= {name: _section("upgrades", name, [GROUP, "note"]) for name in (BLOCKED, UNKNOWN_VERDICT)}
    return _summarize(upgrades, rejected, F.desc_nulls_last("moved_by_rules"), sections, limit)


def _section(table: str, verdict: str, columns: Columns) -> View:
    return View(table, verdict.replace("-", " "), columns)


def _summarize(
    groups: DataFrame, rejected: DataFrame, order: SparkColumn, sections: Mapping[str, View], limit: int
) -> str:
    """Returns the number of groups by verdict, and the first groups of each verdict that has a section."""
    counts = count_by(groups, "verdict")
    table = next(iter(sections.values())).name
    displayed = first_of_each(table, groups.where(F.col("verdict").isin(*sections)), "verdict", [order], limit)
    titles = {**{verdict: view.title for verdict, view in sections.items()}, DONE: DONE}
    totals = (f"{counts.get(verdict, 0):,} {title}" for verdict, title in titles.items())
    lines = [f"Groups: {', '.join(totals)}", *lines_of_each("verdict", sections, displayed, counts)]
    return "\n".join([*lines, *read_rejected_lines(rejected)])


# --- steps --------------------------------------------------------------------------------------------------------


def format_migration_steps(groups: Rows, steps: Rows) -> str:
    """Returns the verdict and its reasons for each group, and its steps with their costs.

    Args:
        groups: Rows of `migrations`.
        steps: Rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    steps_by_group = by_group(steps)
    for group in groups:
        online = {True: ", online", False: ", offline", None: ""}[group["online"]]
        heading = f"{group_name(group)}: {group['verdict']}{online}. {group['reasons']}"
        lines += [*([""] if lines else []), in_one_line(heading)]
        for step in steps_by_group[group_key(group)]:
            lines.append(f"  {step['step']}. {step['step_type']}{_migration_costs(step)}")
            lines.append(in_one_line(f"     {step['description']}"))
    if any(all(name in step["description"] for name in FORBIDDEN) for step in steps):
        lines += ["", "Removed settings, and their replacements:"]
        lines += [f"  {name}: {replacement}" for name, replacement in FORBIDDEN.items()]
    return "\n".join(lines)


def _migration_costs(step: Row) -> str:
    """Returns the number of members that restart, and the costs, in parentheses."""
    restarts, simulated = step["restarts"], step["simulated_restarts"]
    if not restarts or simulated is None:
        return _costs(step)
    members = count(restarts, "member")
    return _costs(step, members if simulated == restarts else f"{members}, {simulated:,} of them simulated")


def _costs(step: Row, *counts: str) -> str:
    """Returns these counts and the known costs of a step, in parentheses."""
    names = ("moved", "revoked", "paused_partitions")
    costs = [f"{step[name]:,} {name.removesuffix('_partitions')}" for name in names if step[name] is not None]
    return f" ({', '.join([*counts, *costs])})" if counts or costs else ""


def format_restarts(groups: Rows, steps: Rows) -> str:
    """Returns the verdict and its note for each group, and one line per restart.

    Args:
        groups: Rows of `upgrades`.
        steps: Rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    steps_by_group = by_group(steps)
    for group in groups:
        lines += [*([""] if lines else []), in_one_line(f"{group_name(group)}: {group['verdict']}. {group['note']}")]
        group_steps = steps_by_group[group_key(group)]
        full_stops = [step for step in group_steps if step["leader"] is None]
        texts = (f"  {step['step']}. {step['step_type']}: {step['description']}{_costs(step)}" for step in full_stops)
        lines += map(in_one_line, texts)
        if restarts := [step for step in group_steps if step["leader"] is not None]:
            lines += _restarts_table(restarts)
    return "\n".join(lines)


def _restarts_table(steps: Rows) -> list[str]:
    """Returns one line per restart, and below the table each distinct description with its steps."""
    ordinals = values_by_key((step["description"], step["step"]) for step in steps)
    descriptions = [in_one_line(f"  {_step_range(each)}: {description}") for description, each in ordinals.items()]
    return [*RESTARTS.lines(steps, len(steps))[2:], *descriptions]


def _step_range(ordinals: Sequence[int]) -> str:
    return f"Step {ordinals[0]}" if len(ordinals) == 1 else f"Steps {ordinals[0]} to {ordinals[-1]}"
