"""Builds the rows of every history table from the facts of complete groups.

All tables are one table of tagged rows (`history.schemas.HISTORY_ROWS`), whose `kind` is the name of the table
(`tables.history.HISTORY_TABLES`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.streams.member_tasks import AT_ONCE, PROBING
from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.history.kernel import facts as fact_kinds
from spark_assign.history.kernel.binary_column import build_lists
from spark_assign.history.kernel.build_timelines import build_chunk_timelines
from spark_assign.history.kernel.commit_intervals import LISTS, CommitColumns
from spark_assign.history.kernel.departures import CRASHED, RESTARTED, STILL_MEMBER, SURE, Departure, find_departures
from spark_assign.history.kernel.deploys import (
    Deploy,
    count_max_per_day,
    find_deploys,
    find_rebalance_times,
    is_flapping,
)
from spark_assign.history.kernel.facts import merge_buckets
from spark_assign.history.kernel.generation_changes import GenerationChange, generation_changes, is_owned
from spark_assign.history.kernel.group_chunks import GroupChunk, iter_chunks
from spark_assign.history.kernel.pauses import PauseSummary, find_pauses
from spark_assign.history.kernel.record_parser import ACTIVE
from spark_assign.history.kernel.timeline import (
    DEAD,
    Generation,
    HistoryThresholds,
    HistoryTooLargeError,
    RecordedMember,
    Timeline,
)
from spark_assign.numeric.arrays import IntArray, starts_new_key
from spark_assign.tables.quoting import in_text
from spark_assign.wire import streams_protocol

# --- group rows -------------------------------------------------------------------------------------------------------
#
# Builds the rows of one group for the tables groups, rebalances, memberships, subscriptions, ownership, and
# streams_members.


Row = Mapping[str, Any]
"""A row of a table of `tables.history` without cluster and group, with times in milliseconds."""

FIRST, JOINED = "first-on-record", "joined"
NO_CAUSE = "no cause on record"
"""Cause of a rebalance that changes nothing: for example, members rejoin when their coordinator is back."""
IDLE = "every member keeps its partitions, for example because replicas moved to other racks"
"""Cause of an idle epoch."""

_FOLLOW_UPS: dict[str | None, str] = {
    PROBING: "probing rebalance of Kafka Streams: warmups had time to restore their state",
    AT_ONCE: "tasks that were revoked before are assigned",
}

_GENERATION_COLUMNS = ("generation_id", "state", "assignor", "leader", "partition", "offset")
_MEMBER_COLUMNS = (
    *("member_id", "group_instance_id", "client_id", "client_host", "rack_id"),
    *("session_timeout_ms", "rebalance_timeout_ms"),
)

_MAX_NAMES = 3
"""Maximum number of names in a sentence."""

_MAX_PARTITION = 0x7FFFFFFF
"""The largest partition number."""

_ROLE_NOUNS = {
    "partition": "partitions of {}",
    "task": "tasks of {}",
    "connector": "connector {}",
    "active": "tasks of {}",
}


# --- groups -------------------------------------------------------------------------------------------------------


def group_row(
    timeline: Timeline,
    departures: Sequence[Departure],
    pauses: PauseSummary,
    deploys: Sequence[Deploy],
    missing_generations: int,
    thresholds: HistoryThresholds,
) -> Row:
    """Returns the row of a group. Its assignor is that of the last generation that had one.

    Args:
        timeline: the group.
        departures: its `departures.find_departures`.
        pauses: its `pauses.find_pauses`.
        deploys: its `deploys.find_deploys`.
        missing_generations: number of its generations that are not on record.
        thresholds: the thresholds.
    """
    rebalance_times = find_rebalance_times(timeline)
    last = timeline.generations[-1] if timeline.generations else None
    owned: dict[tuple[str, str], set[int]] = defaultdict(set)
    for interval in timeline.ownership:
        if interval.end_ms is None and is_owned(interval.role, timeline.group_type):
            owned[interval.role, interval.topic].update(interval.partitions)
    assignors = (generation.assignor for generation in reversed(timeline.generations) if generation.assignor)
    return {
        "group_type": timeline.group_type,
        "protocol_type": timeline.protocol_type,
        "assignor": next(assignors, None),
        "state": last.state if last else None,
        "start_time": timeline.first_ms,
        "end_time": timeline.last_ms,
        "records": timeline.records,
        "rebalances": len(rebalance_times),
        "idle_epochs": sum(timeline.is_idle),
        "missing_generations": missing_generations,
        "max_rebalances_per_day": count_max_per_day(rebalance_times),
        "members": len(last.members) if last else 0,
        "partitions": sum(map(len, owned.values())),
        "deploys": len(deploys),
        "crashes": sum(departure.leave_type == CRASHED for departure in departures),
        "paused_partition_ms": pauses.paused_partition_ms,
        "longest_pause_ms": pauses.longest_pause_ms,
        "flapping": is_flapping(timeline, deploys, thresholds),
    }


# --- rebalances ---------------------------------------------------------------------------------------------------


def rebalance_rows(timeline: Timeline, changes: Sequence[GenerationChange], pauses: PauseSummary) -> Iterator[Row]:
    """Yields a row per new generation and per tombstone, with its cause as far as the records say.

    Changes of members within a generation are no rebalance.
    """
    flags = zip(timeline.is_rebalance, timeline.is_idle, timeline.follow_ups, strict=True)
    for change, (is_rebalance, is_idle, follow_up), previous in zip(changes, flags, (None, *changes), strict=False):
        generation = change.generation
        if not is_rebalance and generation.state != DEAD:
            continue
        paused_partition_ms, longest_pause_ms = pauses.around(change.generation_index)
        yield {
            **{name: getattr(generation, name) for name in _GENERATION_COLUMNS},
            "time": generation.at_ms,
            "stable_time": generation.stable_ms,
            "idle": is_idle,
            "follow_up": follow_up,
            "members": len(generation.members),
            "joined": len(change.joined),
            "left": len(change.left),
            "crashed": sum(departure.leave_type == CRASHED for _, departure in change.left),
            "restarted": len(change.rejoined),
            "missing_generations": change.missing,
            "partitions": change.partitions,
            "moved": change.moved,
            "moved_without_state": change.moved_without_state,
            "cause": IDLE if is_idle else "; ".join(_find_causes(change, previous, follow_up)),
            "paused_partition_ms": paused_partition_ms,
            "longest_pause_ms": longest_pause_ms,
        }


def _find_causes(
    change: GenerationChange, previous_change: GenerationChange | None, follow_up: str | None
) -> Iterator[str]:
    """Yields the causes of a rebalance as text."""
    previous, generation = change.previous, change.generation
    if previous is None and generation.state != DEAD:
        yield "first on record"
        return
    causes = list(_find_member_causes(change))
    if generation.state == DEAD:
        yield from (*causes, "the group was deleted, or its last records expired")
        return
    if previous is not None and previous.state != DEAD:
        causes += _find_setting_causes(previous, generation)
    if not generation.members and causes:
        causes.append("no members remain")
    yield from causes or [_FOLLOW_UPS.get(follow_up) or _find_assignment_cause(change, previous_change)]
    if change.missing:
        plural = "s" if change.missing > 1 else ""
        yield f"{change.missing} generation{plural} before it not on record"


def _find_member_causes(change: GenerationChange) -> Iterator[str]:
    """Yields the members that joined, left, crashed, and returned."""
    left = [member for member, departure in change.left if departure.leave_type != CRASHED]
    crashed = [member for member, departure in change.left if departure.leave_type == CRASHED]
    for verb, members in (("joined", change.joined), ("left", left), ("crashed", crashed)):
        if members:
            yield f"{len(members)} {verb}: {_format_members(members)}"
    names = {member.member_id: _member_name(member) for member, _ in change.departed}
    returns = [
        _format_return(names.get(old_id) or in_text(old_id), old_id, member, is_replaced=old_id in change.replaced_ids)
        for old_id, member in change.rejoined
    ]
    if returns:
        yield _join_names(returns)


def _format_return(name: str, old_id: str, member: RecordedMember, *, is_replaced: bool) -> str:
    if old_id == member.member_id:
        return f"{name} returned"
    return f"{name} {'restarted' if is_replaced else 'returned'} as {in_text(member.member_id)}"


def _find_setting_causes(previous: Generation, generation: Generation) -> Iterator[str]:
    """Yields changes of subscriptions, of the assignor, and of the leader although the old leader is still a member."""
    previous_members = {member.member_id: member for member in previous.members}
    stayed = [member for member in generation.members if member.member_id in previous_members]
    changed = [member for member in stayed if set(member.topics) != set(previous_members[member.member_id].topics)]
    if changed:
        yield f"{len(changed)} changed subscription: {_format_members(changed)}"
    assignor, leader = generation.assignor, generation.leader
    if previous.assignor is not None and assignor is not None and previous.assignor != assignor:
        yield f"assignor changed from {in_text(previous.assignor)} to {in_text(assignor)}"
    if (
        previous.leader != leader
        and leader is not None
        and any(member.member_id == previous.leader for member in stayed)
    ):
        yield f"leader changed from {in_text(str(previous.leader))} to {in_text(leader)}"


def _find_assignment_cause(change: GenerationChange, previous_change: GenerationChange | None) -> str:
    """Returns the cause of a rebalance without changes of members: withheld partitions, or other partition counts."""
    assert change.previous is not None
    if previous_change is not None and (
        previous_change.partitions < change.partitions <= previous_change.num_known_owners
    ):
        return "partitions that were revoked before are assigned"
    before, after = _count_partitions(change.previous), _count_partitions(change.generation)
    changed = [
        f"{_ROLE_NOUNS.get(key[0], '{}').format(in_text(key[1]))}: {after.get(key, 0)}, before {before.get(key, 0)}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key, 0) != after.get(key, 0)
    ]
    return _join_names(changed) if changed else NO_CAUSE


def _count_partitions(generation: Generation) -> dict[tuple[str, str], int]:
    """Returns, by role and topic, the number of partitions that members own."""
    partitions_by_topic: dict[tuple[str, str], set[int]] = {}
    for member in generation.members:
        for key, partitions in member.assignment.items():
            if key[0] in _ROLE_NOUNS and (key[0] != ACTIVE or member.streams is None):
                partitions_by_topic.setdefault(key, set()).update(partitions)
    return {key: len(partitions) for key, partitions in partitions_by_topic.items()}


def _member_name(member: RecordedMember) -> str:
    """Returns the name that users know a member by."""
    return in_text(member.group_instance_id or member.member_id)


def _format_members(members: Iterable[RecordedMember]) -> str:
    return _join_names([_member_name(member) for member in members])


def _join_names(names: Sequence[str]) -> str:
    """Returns up to three names, and the number of further names."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


# --- members ------------------------------------------------------------------------------------------------------


@dataclass
class _Membership:
    """A member that is in the group, the first and the last generation with it so far, and how it joined."""

    member: RecordedMember
    first: Generation
    last: Generation
    join_type: str


def membership_rows(changes: Sequence[GenerationChange]) -> Iterator[Row]:
    """Yields a row per membership, sorted by start and member id. A member with several ids has several rows."""
    rows: list[Row] = []
    current: dict[str, _Membership] = {}
    for change in changes:
        generation = change.generation
        for member, departure in change.departed:
            rows.append(_membership_row(current.pop(member.member_id), generation, departure))
        rejoined = {member.member_id for _, member in change.rejoined}
        for member in generation.members:
            membership = current.get(member.member_id)
            if membership is None:
                is_first = change.previous is None
                join_type = FIRST if is_first else RESTARTED if member.member_id in rejoined else JOINED
                current[member.member_id] = _Membership(member, generation, generation, join_type)
            else:
                membership.member, membership.last = member, generation
    rows += (_membership_row(membership, None, None) for membership in current.values())
    yield from sorted(rows, key=lambda row: (row["start_time"], row["member_id"]))


def _membership_row(membership: _Membership, end: Generation | None, departure: Departure | None) -> Row:
    """Returns a row of the table `memberships`, without its key."""
    member = membership.member
    return {
        **{name: getattr(member, name) for name in _MEMBER_COLUMNS},
        "first_generation_id": membership.first.generation_id,
        "last_generation_id": membership.last.generation_id,
        "start_time": membership.first.at_ms,
        "end_time": end.at_ms if end else None,
        "join_type": membership.join_type,
        "leave_type": departure.leave_type if departure else STILL_MEMBER,
        "confidence": departure.confidence if departure else SURE,
    }


_Subscription = tuple[int, str, str, int | None]
"""Start, member, topic, and end."""


def subscription_rows(timeline: Timeline) -> Iterator[Row]:
    """Yields a row per topic and time for which a member was subscribed to it."""
    rows: list[_Subscription] = []
    current: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {}
    for generation in timeline.generations:
        at_ms = generation.at_ms
        members = {member.member_id: member.topics for member in generation.members}
        for member_id in [known_id for known_id in current if known_id not in members]:
            rows += _ended_subscriptions(member_id, current.pop(member_id)[1], (), at_ms)
        for member_id, topics in members.items():
            previous, since = current.get(member_id, ((), {}))
            if topics != previous:
                rows += _ended_subscriptions(member_id, since, topics, at_ms)
                current[member_id] = topics, {topic: since.get(topic, at_ms) for topic in topics}
    for member_id, (_, since) in current.items():
        rows += _ended_subscriptions(member_id, since, (), None)
    rows.sort(key=itemgetter(0, 1, 2))
    names = ("start_time", "member_id", "topic", "end_time")
    yield from (dict(zip(names, row, strict=True)) for row in rows)


def _ended_subscriptions(
    member_id: str, since: dict[str, int], topics: tuple[str, ...], until: int | None
) -> Iterator[_Subscription]:
    """Yields the subscriptions in `since` that are not in `topics`."""
    for topic in since.keys() - set(topics):
        yield since[topic], member_id, topic, until


def streams_member_rows(timeline: Timeline) -> Iterator[Row]:
    """Yields a row per member of each generation of a classic Streams application."""
    for generation, after in zip_longest(timeline.generations, timeline.generations[1:]):
        if generation.assignor == streams_protocol.PROTOCOL:
            for member in generation.members:
                yield {
                    **{name: getattr(member, name) for name in ("member_id", "position", "subscription")},
                    "generation_id": generation.generation_id,
                    "assignment": member.assignment_bytes,
                    "start_time": generation.at_ms,
                    "end_time": after.at_ms if after else None,
                }


# --- ownership ----------------------------------------------------------------------------------------------------


def ownership_rows(timeline: Timeline) -> Iterator[Row]:
    """Yields a row per slice of partitions that a member received and lost together."""
    for interval in timeline.ownership:
        for first, step, count in to_slices(interval.partitions):
            yield {
                **{name: getattr(interval, name) for name in ("member_id", "topic", "role", "generation_id")},
                "first": first,
                "step": step,
                "count": count,
                "start_time": interval.start_ms,
                "end_time": interval.end_ms,
            }


def to_slices(partitions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yields first, step, and count of slices of ascending partitions. A single partition has step 1."""
    start = 0
    while start < len(partitions):
        end = start + 1
        step = partitions[end] - partitions[start] if end < len(partitions) else 1
        if step > _MAX_PARTITION:  # These are no partition numbers: the bytes were damaged.
            step = 1
        while end < len(partitions) and partitions[end] - partitions[end - 1] == step:
            end += 1
        yield partitions[start], step, end - start
        start = end


# --- build history ----------------------------------------------------------------------------------------------------


_MILLIS = pa.timestamp("ms", tz="UTC")
_UNREADABLE_COLUMNS = ("cluster", "group_id", "partition", "offset", "code", "detail", "key", "value")
_COLUMN_BY_FIELD = {"start_ms": "start_time", "end_ms": "end_time", "at_ms": "timestamp"}
"""Fields of the kernels' dataclasses that are columns with another name."""

_MAX_BUFFERED_ROWS = 50_000

_REPEATED_COMMITS = pa.struct(
    {
        "partition": pa.int32(),
        **dict.fromkeys(("start_ms", "first_offset", "commits", "end_ms", "last_offset"), pa.int64()),
        "rate": pa.float64(),
        **dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), pa.int64()),
    }
)
COMMIT_LISTS = {"once": LISTS["once"], "again": pa.list_(_REPEATED_COMMITS)}
"""Commits of partitions: `once` has those with a single commit and no tombstone, `again` all others. Most of a history
is commits, so they are lists, one row per topic and column, with as few values as possible."""


def build_history(rows: pa.Table, thresholds: HistoryThresholds, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of all groups in a task.

    Args:
        rows: BUCKETS (`history.kernel.facts`); all rows of each bucket that occurs.
        thresholds: the thresholds.
        schema: the schema of the result, HISTORY_ROWS.
    """
    for facts in merge_buckets(rows, thresholds.commit_gap_ms):
        unreadable = facts.filter(pc.equal(facts["kind"], fact_kinds.UNREADABLE))
        if len(unreadable):
            columns = {name: unreadable[name] for name in _UNREADABLE_COLUMNS}
            columns["timestamp"] = unreadable["at_ms"].cast(_MILLIS)
            yield tagged("unreadable", columns, len(unreadable), schema)
        yield from build_tables(facts, thresholds, schema)


def build_tables(facts: pa.Table, thresholds: HistoryThresholds, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of all tables.

    Args:
        facts: FACTS of complete groups, in any order. `unreadable` facts are ignored.
        thresholds: the thresholds.
        schema: the schema of the result, HISTORY_ROWS.
    """
    buffer = _RowBuffer(schema)
    for chunk in iter_chunks(facts, thresholds.commit_gap_ms):
        yield from commit_rows(chunk, schema)
        for cluster, group_id, timeline in build_chunk_timelines(chunk):
            for kind, rows in _build_group_rows(timeline, thresholds):
                remaining = iter(rows)
                while buffer.add(cluster, group_id, kind, islice(remaining, _MAX_BUFFERED_ROWS)) == _MAX_BUFFERED_ROWS:
                    yield from buffer.pop(_MAX_BUFFERED_ROWS - 1)
            yield from buffer.pop(_MAX_BUFFERED_ROWS)
    yield from buffer.pop()


def _build_group_rows(timeline: Timeline, thresholds: HistoryThresholds) -> Iterator[tuple[str, Iterable[Row]]]:
    """Yields the rows of one group by table. A group with too many records to judge has no generations."""
    try:
        departures, pauses = find_departures(timeline, thresholds), find_pauses(timeline, thresholds)
    except HistoryTooLargeError as error:
        rejected = (*timeline.rejected, ("too-many-partitions", str(error)))
        yield from _build_group_rows(replace(timeline, generations=(), ownership=(), rejected=rejected), thresholds)
        return
    changes = list(generation_changes(timeline, departures))
    deploys = find_deploys(timeline, departures, pauses, thresholds)
    missing = sum(change.missing for change in changes)
    yield "groups", [group_row(timeline, departures, pauses, deploys, missing, thresholds)]
    yield "rebalances", rebalance_rows(timeline, changes, pauses)
    yield "memberships", membership_rows(changes)
    yield "subscriptions_over_time", subscription_rows(timeline)
    yield "ownership", ownership_rows(timeline)
    yield "streams_members", streams_member_rows(timeline)
    yield "pauses", _to_rows(pauses.pauses)
    yield "deploys", _to_rows(deploys)
    yield "unreadable", _to_rows(timeline.unreadable)
    yield "rejected", ({"code": code, "detail": detail} for code, detail in timeline.rejected)


def _to_rows(items: Iterable[object]) -> Iterator[Row]:
    """Yields the fields of dataclasses as columns. `_RowBuffer` ignores fields that are no columns."""
    for item in items:
        yield {_COLUMN_BY_FIELD.get(name, name): value for name, value in vars(item).items()}


class _RowBuffer:
    """Rows of many groups by kind, until there are enough for a table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._types = {field.name: _MILLIS if pa.types.is_timestamp(field.type) else field.type for field in schema}
        self._rows: dict[str, list[Row]] = {}
        self._group_counts: dict[str, list[tuple[str, str, int]]] = {}

    def add(self, cluster: str, group_id: str, kind: str, rows: Iterable[Row]) -> int:
        """Adds rows of one group, and returns their number. All rows of a kind have the same columns; times are in
        milliseconds.
        """
        buffered = self._rows.setdefault(kind, [])
        num_before = len(buffered)
        buffered.extend(rows)
        num_added = len(buffered) - num_before
        if num_added:
            self._group_counts.setdefault(kind, []).append((cluster, group_id, num_added))
        return num_added

    def pop(self, min_rows: int = 0) -> Iterator[pa.Table]:
        """Yields and removes the rows of the kinds that have more than `min_rows` rows."""
        yield from (self._pop_kind(kind) for kind, rows in list(self._rows.items()) if len(rows) > min_rows)

    def _pop_kind(self, kind: str) -> pa.Table:
        """Returns the collected rows of a kind as a table, and forgets them."""
        rows = self._rows.pop(kind)
        clusters, groups, counts = zip(*self._group_counts.pop(kind), strict=True)
        row_group = pa.array(np.repeat(np.arange(len(counts)), counts))
        columns = {
            "cluster": pa.array(clusters).take(row_group),
            "group_id": pa.array(groups).take(row_group),
            **{
                name: pa.array([row[name] for row in rows], dtype)
                for name, dtype in self._types.items()
                if name in rows[0]
            },
        }
        return tagged(kind, columns, len(rows), self._schema)


# --- commits ------------------------------------------------------------------------------------------------------


def commit_rows(chunk: GroupChunk, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of commits: per topic of a group, a row of `once` and a row of `again`.

    Partitions that have only tombstones on record are left out.
    """
    commits, first = chunk.commits, chunk.commits.first[:-1]
    is_once = (np.diff(commits.first) == 1) & (commits.intervals.commits[first] == 1) & (commits.deleted == 0)
    for name, rows in (("once", np.flatnonzero(is_once)), ("again", np.flatnonzero(~is_once))):
        if not len(rows):
            continue
        starts = np.flatnonzero(starts_new_key(commits.intervals.topic[first[rows]]))
        columns = (commits.partition, commits.intervals.start_ms[first], commits.intervals.first_offset[first])
        fields = [column[rows] for column in columns]
        if name == "again":
            fields += _repeated_commit_fields(commits, rows)
        group, topic_rows = pa.array(commits.group[rows[starts]]), pa.array(rows[starts])
        lists = {
            "cluster": chunk.clusters.take(group),
            "group_id": chunk.names.take(group),
            "topic": commits.topic.take(topic_rows),
            name: build_lists(schema.field(name).type, starts, fields),
        }
        yield tagged("commits", lists, len(starts), schema)


def _repeated_commit_fields(commits: CommitColumns, rows: IntArray) -> list[IntArray | pa.Array]:
    """Returns the other fields of partitions that were committed repeatedly, or deleted."""
    intervals, first, last = commits.intervals, commits.first[:-1], commits.first[1:] - 1
    gap_ms = intervals.start_ms - np.roll(intervals.end_ms, 1)
    gap_ms[first] = 0
    end_ms, last_offset = intervals.end_ms[last], intervals.last_offset[last]
    elapsed_ms = (end_ms - intervals.start_ms[first]).astype(float)
    progress = last_offset.astype(float) - intervals.first_offset[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = progress * 1000 / elapsed_ms
    num_commits, longest_gap_ms = np.add.reduceat(intervals.commits, first), np.maximum.reduceat(gap_ms, first)
    return [
        *(column[rows] for column in (num_commits, end_ms, last_offset)),
        pa.array(rate[rows], mask=elapsed_ms[rows] == 0),
        *(column[rows] for column in (last - first, longest_gap_ms, commits.deleted)),
    ]
