"""Who gets what: the members of a few groups, their partitions, lag, and load, and what they gain and lose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_assign.numeric.arrays import compress as compress_partitions
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    count,
    group_name,
    listed,
    number,
    short_names,
    visible,
)
from spark_assign.report.listed_groups import REASONS, collected, group_facts, long_sum, num_rows
from spark_assign.spark.dataframes import compress, expand
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY
from spark_assign.tables.stored_plan import CONNECT, KINDS, SHARE, STREAMS

_UNITS = {STREAMS: "tasks", CONNECT: "connectors + tasks"}
"""What members of other kinds get."""
Tables = Mapping[str, DataFrame]
Slice = tuple[int, int, int]

MAX_ROWS = 100_000
"""Maximum number of rows of members, slices, and moves that are read for the printed details."""
_RUNS, _LINES, _MEMBERS = 12, 50, 1_000
"""Maximum number of runs of partitions in a line, of lines of a member, and of members of a group."""

_PARTITION = [*GROUP_KEY, "topic", "partition"]
_ABOUT = ("client_id", "client_host", "group_instance_id", "rack_id")


@dataclass(frozen=True)
class GroupMembers:
    """The members of a few groups.

    Attributes:
        members: a row per member, those of departed members included: cluster, group_id, member_id, client_id,
            client_host, group_instance_id, rack_id (null: unknown), before (null: unknown), partitions, waiting
            (partitions of the next round), gained, lost, gone, lag and in_messages_per_second (sums over the
            partitions where they are known; null: of none), lag_known and rate_known (numbers of these partitions).
        slices: rows of `tables.groups.ASSIGNMENT_SLICES`.
        moves: rows of `tables.groups.MOVES`, with `withheld`: whether the next round assigns the partition.
        notes: sentences about what isn't known, or isn't listed.
    """

    members: Rows = ()
    slices: Rows = ()
    moves: Rows = ()
    notes: Sequence[str] = field(default=())


def read_group_members(plan: Tables, fleet: Mapping[str, DataFrame | None], limit: int = MAX_ROWS) -> GroupMembers:
    """Reads the members of the groups that the tables have: a few groups, to which the caller has limited them.

    Args:
        plan: tables by name (`tables.groups.PLAN_TABLES`), of these groups only.
        fleet: tables that might be known, by name: `members` of these groups, `loads`, and `offsets` of a snapshot.
        limit: maximum number of rows of each list.
    """
    notes = []
    known = {"moves", "revocations"} <= set(plan)
    slices = plan["assignment_slices"] if "assignment_slices" in plan else compress(plan["assignments"])
    found = count_partitions(plan, known=known)
    assert found is not None
    members = fleet.get("members")
    names = [name for name in _ABOUT if members is not None and name in members.columns]
    if members is not None:
        found = members.select(*MEMBER_KEY, *names).join(found, MEMBER_KEY, "full")
    else:
        notes.append("Members without partitions, clients, and hosts aren't known: the table members isn't given.")
    loads = _sums_by_member(expand(slices), fleet.get("loads"), fleet.get("offsets"))
    found = found.join(loads, MEMBER_KEY, "left")
    no_text = F.lit(None).cast("string")
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in _CHANGES] if known else _CHANGES
    columns = [F.col(name) if name in names else no_text.alias(name) for name in _ABOUT]
    columns += [F.coalesce("after", F.lit(0)).alias("partitions"), F.coalesce("waiting", F.lit(0)).alias("waiting")]
    columns += [F.coalesce("gone", F.lit(False)).alias("gone")]
    rows = collected(found.select(*MEMBER_KEY, *columns, *counts, *_SUMS).orderBy(*MEMBER_KEY).limit(limit + 1))
    slice_rows = collected(slices.orderBy(*MEMBER_KEY, "topic", "first").limit(limit + 1))
    move_rows: list[Row] = []
    if known:
        given = expand(slices).select(*_PARTITION, F.col("member_id").alias("to_member_id"), F.lit(False).alias("held"))
        moves = plan["moves"].join(given, [*_PARTITION, "to_member_id"], "left")
        withheld = F.col("to_member_id").isNotNull() & F.col("held").isNull()
        moves = moves.withColumn("withheld", withheld).drop("held").select(*plan["moves"].columns, "withheld")
        move_rows = collected(moves.orderBy(*_PARTITION, "from_member_id").limit(limit + 1))
    else:
        notes.append("Gains and losses aren't known: the plan was stored without the tables moves and revocations.")
    for name, note in _UNKNOWN.items():
        if not any(row[name] for row in rows):
            notes.append(note)
    if max(map(len, (rows, slice_rows, move_rows))) > limit:
        notes.append(f"Lists at most {limit:,} rows; the stored plan has all of them.")
    return GroupMembers(rows[:limit], slice_rows[:limit], move_rows[:limit], notes)


_OF_KINDS = {SHARE: ("assignments", "changes"), STREAMS: ("tasks", "moves"), CONNECT: ("after", "assigned", "revoked")}
"""By the prefix of a kind: the table of what members have after the rebalance, and those of what they gain and lose."""


def read_other_members(prefix: str, tables: Tables, members: DataFrame | None, limit: int = MAX_ROWS) -> GroupMembers:
    """Reads the members of a few share groups, Streams groups, or Connect clusters, and what each of them gets.

    In the result, `topic` is what `partition` counts: a topic, tasks of a subtopology or connector, or a connector
    itself, for which `partition` is null. A Connect cluster has its name in cluster and group_id.

    Args:
        prefix: prefix of the kind (`tables.stored_plan.KINDS`).
        tables: tables of its plan by name, of these groups only; of Connect, also `after`, with the columns of
            `assigned`: what each worker has after the rebalance.
        members: table `members` or `workers` of the fleet, of these groups only.
        limit: maximum number of rows of each list.
    """

    def read(name: str, table: DataFrame | None) -> list[Row]:
        rows = [] if table is None else collected(table.orderBy(*_sorted_columns(table)).limit(limit + 1))
        if name in KINDS[prefix]:
            listed(f"{prefix}{name}", rows[:limit])
        sizes.append(len(rows))
        return [_member_row(row) for row in rows[:limit]]

    sizes: list[int] = []
    given_name, *changes = _OF_KINDS[prefix]
    known, given = read("", members), read(given_name, tables[given_name])
    moves = [{**row, **_ends(name, row)} for name in changes for row in read(name, tables[name])]
    found: dict[tuple[str, ...], dict[str, Any]] = {}

    def add(row: Row, member: str | None, name: str) -> None:
        if member is not None:
            key = row["cluster"], row["group_id"], member
            about = {each: row.get(each) for each in _ABOUT}
            of = found.setdefault(key, {**dict(zip(MEMBER_KEY, key, strict=True)), **about, **_NOTHING})
            if name:
                of[name] += 1

    for row in known:
        add(row, row["member_id"], "")
    for row in given:
        add(row, row["member_id"], "partitions")
    for row in moves:
        add(row, row["to_member_id"], "gained")
        add(row, row["from_member_id"], "lost")
    notes = [f"Lists at most {limit:,} rows; the stored plan has all of them."] if max(sizes) > limit else []
    slices = [{**row, "first": row["partition"], "step": 1, "count": 1} for row in given]
    return GroupMembers([found[key] for key in sorted(found)], slices, moves, notes)


_REASONS = REASONS | {
    "promoted": "its owner becomes the active member of the task",
    "process-has-it": "its process gets the task in another role or member",
    "warmup": "the member starts to restore its state",
    "fewer-standbys": "fewer standbys are configured",
    "no-standbys": "no standbys are configured",
    "no-warmups": "the target assignment has no warmups",
    "task-gone": "the subtopology doesn't exist, or has fewer tasks",
    "over-shared": "the partition has too many members",
    "under-shared": "the partition has too few members",
}
"""Explanations of the reasons in the plans of all kinds."""

_NOTHING: dict[str, Any] = {"partitions": 0, "waiting": 0, "before": 0, "gained": 0, "lost": 0, "gone": False}
_NOTHING |= {"lag": None, "lag_known": 0, "in_messages_per_second": None, "rate_known": 0}


def _sorted_columns(table: DataFrame) -> list[str]:
    return [field.name for field in table.schema.fields if not isinstance(field.dataType, ArrayType)]


def _member_row(row: Row) -> dict[str, Any]:
    """Returns a row with cluster, group_id, member_id, topic, and partition, as far as it is about them."""
    about: dict[str, Any] = dict(row)
    if "connect_cluster" in row:
        about |= {"cluster": row["connect_cluster"], "group_id": row["connect_cluster"], "member_id": row["worker_id"]}
    if "subtopology" in row:
        about |= {"topic": f"{row['role']} tasks of subtopology {row['subtopology']}:", "partition": row["task"]}
    elif "connector" in row:
        what = f"connector {row['connector']}" if row["task"] is None else f"tasks of {row['connector']}:"
        about |= {"topic": what, "partition": row["task"]}
    return about


def _ends(name: str, row: Row) -> dict[str, Any]:
    """Returns the owners before and after of a row of changes."""
    ends = {"reason": row.get("reason"), "withheld": False}
    if name == "moves":
        return ends
    loses = "revoked" in (name, row.get("change"))
    member = row["member_id"]
    return {**ends, "from_member_id": member if loses else None, "to_member_id": None if loses else member}


_CHANGES = ("before", "gained", "lost")
_UNKNOWN = {
    "lag_known": "Lag isn't known: the tables loads and offsets have none of these groups.",
    "rate_known": "Message rates aren't known: the table loads has none of these topics.",
}
_SUMS = ("lag", "lag_known", "in_messages_per_second", "rate_known")


def _sums_by_member(given: DataFrame, loads: DataFrame | None, offsets: DataFrame | None) -> DataFrame:
    """Returns `_SUMS` per member. A row of `loads` with a group_id takes precedence over one without, and both over
    offsets. Of rows with the same key, the largest value counts."""
    values: dict[str, list[Column]] = {"lag": [], "in_messages_per_second": []}
    sources = []
    if loads is not None:
        sources += [(_PARTITION, loads.where("group_id IS NOT NULL"))]
        sources += [(["cluster", "topic", "partition"], loads.where("group_id IS NULL").drop("group_id"))]
    if offsets is not None:
        sources += [(_PARTITION, offsets)]
    for at, (key, rows) in enumerate(sources):
        read = [name for name in values if name in rows.columns]
        if largest := [F.max(name).alias(f"{name}_{at}") for name in read]:
            given = given.join(rows.groupBy(*key).agg(*largest), key, "left")
        for name in read:
            values[name].append(F.col(f"{name}_{at}"))
    kinds = dict(zip(values, ("long", "double"), strict=True))
    columns = {name: F.coalesce(F.lit(None), *each).cast(kinds[name]) for name, each in values.items()}
    sums = [long_sum("lag"), F.sum("in_messages_per_second").alias("in_messages_per_second")]
    sums += [F.count(name).alias(known) for name, known in zip(values, ("lag_known", "rate_known"), strict=True)]
    return given.withColumns(columns).groupBy(*MEMBER_KEY).agg(*sums)


def count_partitions(tables: Tables, *, known: bool) -> DataFrame | None:
    """Counts the partitions of every member that has or had any: cluster, group_id, member_id, before, after, waiting,
    gained, lost, gone; None if the plan has no assignments.

    The previous number follows from the new number, the gained partitions, and the lost partitions. If several members
    claim a partition, the member that keeps it might have owned it before; then this is its only change of owner.

    Args:
        tables: tables of a plan by name.
        known: whether they include moves and revocations. If not, before, gained, and lost are null.
    """
    if "assignment_slices" in tables:
        after = tables["assignment_slices"].groupBy(*MEMBER_KEY).agg(F.sum("count").alias("after"))
        given = expand(tables["assignment_slices"])
    elif "assignments" in tables:
        given = tables["assignments"]
        after = given.groupBy(*MEMBER_KEY).agg(num_rows("after"))
    else:
        return None
    if not known:
        zero, none = F.lit(0).cast("long"), F.lit(None).cast("long")
        unknown = {"before": none, "gained": none, "lost": none}
        return after.withColumns({**unknown, "waiting": zero, "gone": F.lit(False)})
    moves = tables["moves"]
    came = (
        moves.where("to_member_id is not null")
        .groupBy(*_PARTITION, F.col("to_member_id").alias("member_id"))
        .agg(num_rows("changes"), F.max("reason").alias("reason"))
        .where(~((F.col("changes") == 1) & (F.col("reason") == "claim-conflict")))
        .groupBy(*MEMBER_KEY)
        .agg(num_rows("gained"))
    )
    went = (
        moves.where("from_member_id is not null")
        .groupBy(*GROUP_KEY, F.col("from_member_id").alias("member_id"))
        .agg(num_rows("lost"), F.max(F.col("reason") == "member-left").alias("gone"))
    )
    withholding = tables["metrics"].where("withheld > 0").select(*GROUP_KEY)
    waiting = (
        tables["revocations"]
        .where("next_member_id is not null")
        .select(*GROUP_KEY, F.col("next_member_id").alias("member_id"), "topic", "partition")
        .distinct()
        .join(withholding, GROUP_KEY, "left_semi")
        .join(given, [*MEMBER_KEY, "topic", "partition"], "left_anti")
        .groupBy(*MEMBER_KEY)
        .agg(num_rows("waiting"))
    )
    joined = reduce(lambda left, right: left.join(right, MEMBER_KEY, "full"), (after, came, went, waiting))
    numbers = {name: F.coalesce(name, F.lit(0)).cast("long") for name in ("after", "gained", "lost", "waiting")}
    before = numbers["after"] + numbers["waiting"] - numbers["gained"] + numbers["lost"]
    return joined.select(
        *MEMBER_KEY,
        before.alias("before"),
        *(each.alias(name) for name, each in numbers.items()),
        F.coalesce("gone", F.lit(False)).alias("gone"),
    )


def format_group_members(metrics: Rows, found: GroupMembers, kind: str = "") -> str:
    """Returns a block per group: what is true of the group, and of each member a line, its partitions, and its changes.

    Args:
        metrics: rows of `tables.groups.METRICS`, or of that table of the kind, of the groups in `found`.
        found: the members of these groups.
        kind: prefix of the kind of groups; empty: consumer groups.
    """
    listed(f"{kind}metrics", metrics)
    listed("members", found.members)
    if not kind:
        listed("assignment_slices", found.slices)
        listed("moves", found.moves)
    members = by_group(found.members)
    lines: list[str] = []
    for row in metrics:
        of_group = members[row["cluster"], row["group_id"]]
        names = short_names({each["member_id"] for each in of_group})
        cells = [
            [
                f"{names[each['member_id']]}{' (left)' if each['gone'] else ''}",
                *(each[name] or DASH for name in ("client_id", "client_host")),
                *member_numbers(each),
            ]
            for each in of_group[:_MEMBERS]
        ]
        header = ["member", "client", "host", "partitions", "gained", "lost", "lag", "messages/s"]
        if kind:
            header[3:] = [_UNITS.get(kind, "partitions"), "gained", "lost"]
            cells = [line[: len(header)] for line in cells]
        first, *table = aligned([header, *cells], words=(0, 1, 2))
        name = row["group_id"] if kind == CONNECT else group_name(row)
        lines += [f"{name}:" if kind else f"{name}: {group_facts(row)}", first]
        details = MemberLines(found, row, names)
        for each, line in zip(of_group, table, strict=False):
            texts = details.lines(each["member_id"], _LINES)
            lines += [line, *("    " + visible(text, escaped="\n") for text in texts)]
        more = len(of_group) - len(table)
        lines += [f"… and {count(more, 'more member')}: -o json has all", ""] if more else [""]
    return "\n".join([*lines, *found.notes]).rstrip()


def member_numbers(row: Row) -> list[str]:
    """Returns the partitions, gained and lost partitions, lag, and rate of a member, as text."""
    waiting = f" + {number(row['waiting'])}" if row["waiting"] else ""
    changes = (DASH if row["before"] is None else number(row[name]) for name in ("gained", "lost"))
    sums = []
    for name, known in (("lag", "lag_known"), ("in_messages_per_second", "rate_known")):
        unknown = row["partitions"] - (row[known] or 0)
        value = DASH if row[name] is None else f"{row[name]:,.0f}" if name == "lag" else f"{row[name]:,.1f}"
        sums.append(f"{value} ({number(unknown)} unknown)" if row[name] is not None and unknown else value)
    return [f"{number(row['partitions'])}{waiting}", *changes, *sums]


class MemberLines:
    """The partitions and changes of the members of one group, as text.

    Args:
        found: the members of several groups.
        row: a row with the cluster and the ID of the group.
        names: displayed name by member ID.
    """

    def __init__(self, found: GroupMembers, row: Row, names: Mapping[str, str]) -> None:
        key = row["cluster"], row["group_id"]
        self._names = names
        self._topics: dict[str, dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
        for each in _of_group(found.slices, key):
            self._topics[each["member_id"]][each["topic"]].append((each["first"], each["step"], each["count"]))
        changes: dict[tuple[str, str, str | None, str, bool, str], list[int]] = defaultdict(list)
        for each in _of_group(found.moves, key):
            ends = each["from_member_id"], each["to_member_id"]
            for verb, member, other in (("gains", ends[1], ends[0]), ("loses", ends[0], ends[1])):
                if member is not None:
                    what = (member, verb, other, each["reason"], verb == "gains" and each["withheld"], each["topic"])
                    changes[what].append(each["partition"])
        self._changes: dict[str, list[str]] = defaultdict(list)
        for (member, verb, other, reason, withheld, topic), partitions in changes.items():
            end = "" if other is None else f" {'from' if verb == 'gains' else 'to'} {names.get(other, other)}"
            later = " in the next round" if withheld else ""
            runs = "" if None in partitions else f" {format_runs(runs_of(partitions))}"
            why = f": {_REASONS.get(reason, reason)}" if reason else ""
            self._changes[member].append(f"{verb} {topic}{runs}{end}{later}{why}")

    def topics(self, member: str, limit: int) -> list[str]:
        """Returns each topic of a member with its partitions as runs, at most `limit` topics."""
        topics = self._topics.get(member, {})
        texts = [
            topic if slices[0][0] is None else f"{topic} {format_runs(_joined(slices))}"
            for topic, slices in sorted(topics.items())[:limit]
        ]
        more = len(topics) - limit
        return [*texts, f"… and {count(more, 'more topic')}"] if more > 0 else texts

    def changes(self, member: str, limit: int) -> list[str]:
        """Returns what a member gains and loses, and why, at most `limit` sentences."""
        texts = self._changes.get(member, [])
        more = len(texts) - limit
        return [*texts[:limit], f"… and {count(more, 'more change')}"] if more > 0 else texts

    def lines(self, member: str, limit: int) -> list[str]:
        """Returns the lines of a member: its topics, and its changes."""
        return [*self.topics(member, limit), *self.changes(member, limit)]


def _of_group(rows: Rows, key: tuple[str, str]) -> Iterator[Row]:
    return (row for row in rows if (row["cluster"], row["group_id"]) == key)


def _joined(slices: Sequence[Slice]) -> Sequence[Slice]:
    """Returns slices of one partition each as runs, others as they are."""
    return runs_of([first for first, _, _ in slices]) if all(size == 1 for _, _, size in slices) else slices


def runs_of(partitions: Sequence[int]) -> list[Slice]:
    """Returns partitions, in any order, as slices (first, step, count)."""
    zeros = np.zeros(len(partitions), np.int64)
    slices = compress_partitions(zeros, zeros, np.array(partitions, np.int64))
    return list(zip(slices.first.tolist(), slices.step.tolist(), slices.count.tolist(), strict=True))


def format_runs(slices: Sequence[Slice]) -> str:
    """Returns partitions as text: `0-3, 7`, or `0, 8, …, 64` for a slice with a step."""
    texts = []
    for first, step, size in sorted(slices)[:_RUNS]:
        last = first + step * (size - 1)
        if size == 1:
            texts.append(f"{first}")
        elif step == 1:
            texts.append(f"{first}-{last}")
        else:
            shown = range(first, last + 1, step)
            texts.append(", ".join(map(str, shown)) if size < 4 else f"{first}, {first + step}, …, {last}")
    total = sum(size for _, _, size in slices)
    return ", ".join([*texts, f"… ({count(total, 'partition')})"] if len(slices) > _RUNS else texts)
