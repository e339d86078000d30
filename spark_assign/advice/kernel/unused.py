"""Judges what has no known use: topics, groups, partitions without a record, and subscriptions to missing topics.

A row of facts is about one topic, group, or subscription, its `kind`. Its columns are

    of the cluster   seconds between the snapshots; gap: why the snapshot lacks groups, or "" if it has all;
                     undescribed groups; copied: whether MirrorMaker reads it; partitions of `__consumer_offsets`
    of a topic       known_ends, never_written, compared, changed: its partitions with a known end offset, with end
                     offset 0, with an end offset in both snapshots, and with another one; commit_groups
    of a group       members, members_before; committed_partitions; moved: those with another offset than before;
                     behind: records written to them since; was_known: in the older snapshot

A result row is tagged by its `kind`:

    unused     the finding: its certainty, the reason, the missing data, and the commands that remove it
    rejected   code, detail: a group that the cluster listed but did not describe

Principles, in this order:

1. Unknown isn't unused. Without an older snapshot, offsets, or the tables of groups, the certainty is `unknown`, and
   `missing` names the data.
2. Some uses leave no trace in Kafka: readers that don't commit (Spark, Flink, MirrorMaker, tables that are loaded from
   compacted topics), and jobs that run once a month. If a name or a setting hints at one, the certainty is `possible`.
3. There are commands only if nothing is missing and nothing hints at a use (`likely`). They keep what is needed to
   undo the removal, and deny access before they delete.

Example: a topic with two partitions, read by no group, with the same end offsets [7, 0] eight days ago. With
cleanup.policy=delete it is `likely` unused, with compact `possible`, and without the older snapshot `unknown`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pyarrow as pa

from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.replicas.kernel.group_effects import coordinator_hashes
from spark_assign.tables.counted_nouns import count
from spark_assign.tables.quoting import shell_word

UNUSED_ROW, REJECTED = "unused", "rejected"
TOPIC, GROUP, PARTITIONS, SUBSCRIPTION = SUBJECTS = ("topic", "group", "partitions", "subscription")
CERTAIN, LIKELY, POSSIBLE, UNKNOWN = CERTAINTIES = ("certain", "likely", "possible", "unknown")

Row = Mapping[str, Any]

_SERVERS = "--bootstrap-server $BOOTSTRAP_SERVERS"
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_KEPT_BY_NAME = (
    (re.compile(r"-(changelog|repartition)$"), "by its name, it has state of a Streams application"),
    (re.compile(r"^mm2-.*\.internal$|\.checkpoints\.internal$|(^|\.)heartbeats$"), "by its name, it is MirrorMaker's"),
    (
        re.compile(r"connect.*[-._](configs?|offsets?|status(es)?)$"),
        "by its name, Connect workers keep their state in it",
    ),
    (re.compile(r"^_"), "by its name, a service keeps its own data in it"),
)
"""Names of topics that are used without a group, and why (Streams, MirrorMaker 2, Connect, `_schemas`)."""


@dataclass(frozen=True)
class UnusedParams:
    """Parameters of `find_unused`.

    Attributes:
        min_days: time between the snapshots, in days, from which something without a change is likely unused.

    Examples:
        >>> UnusedParams().min_days
        7.0
    """

    min_days: float = 7.0

    def fault(self) -> str | None:
        """Returns what is invalid; `None` if nothing is."""
        valid = isfinite(self.min_days) and self.min_days >= 0
        return None if valid else f"min_days is {self.min_days}; expected 0 or more"


def judge(
    facts: pa.Table, params: UnusedParams, schema: pa.Schema, *, has_offsets: bool, has_groups: bool
) -> Iterator[pa.Table]:
    """Yields the findings of rows of facts, one each, as tagged rows with these columns.

    `has_offsets`, `has_groups`: whether the fleet has these tables.
    """
    tables = [
        *([] if has_offsets else ["offsets of the groups: take a snapshot (table offsets)"]),
        *([] if has_groups else ["the cluster's groups: take a snapshot (table groups)"]),
    ]
    rows = []
    for row in facts.to_pylist():
        missing = [*tables, *_missing_of_cluster(row)]
        rows.append(_FINDINGS[row["kind"]](row, missing, params) | {"subject": row["kind"]})
    yield tagged_rows(UNUSED_ROW, rows, schema)


def _missing_of_cluster(row: Row) -> list[str]:
    missing = [row["gap"]] if row["gap"] else []
    if row["undescribed"]:
        missing.append(f"{count(row['undescribed'], 'group')} that can't be described: see the table rejected")
    return missing


def _days(row: Row) -> float | None:
    return None if row["seconds"] is None else row["seconds"] / 86_400


def _age_doubts(row: Row, params: UnusedParams) -> list[str]:
    """Returns the doubt that comes from snapshots that are too close to each other."""
    days = _days(row)
    if days is None or days >= params.min_days:
        return []
    return [f"the snapshots are only {days:,.1f} of {params.min_days:g} days apart"]


def _finding(
    row: Row, facts: str, missing: list[str], doubts: list[str], commands: Callable[[], list[str]]
) -> dict[str, Any]:
    """Returns a finding: unknown if something is missing, possible if there is a doubt, otherwise likely."""
    certainty = UNKNOWN if missing else POSSIBLE if doubts else LIKELY
    names = ("cluster", "topic", "group_id", "partitions", "replicas", "disk_bytes", "committed_partitions")
    return {
        **{name: row[name] for name in names},
        "certainty": certainty,
        "reason": f"{facts}. But {'; '.join(doubts)}" if doubts else facts,
        "missing": "; ".join(missing) or None,
        "days": _days(row),
        "commands": "\n".join(commands()) if certainty == LIKELY else None,
    }


# --- topics without a member that reads them ----------------------------------------------------------------


def _topic(row: Row, missing: list[str], params: UnusedParams) -> dict[str, Any]:
    topic, partitions = row["topic"], row["partitions"]
    reader = "No known group reads it"
    if row["commit_groups"]:
        reader = f"No member reads it; {count(row['commit_groups'], 'group')} without members committed offsets of it"
    if row["being_written"] or row["changed"] or row["recreated"]:
        written = "it was recreated" if row["recreated"] else "records are written to it"
        doubts = [f"{written}, so something uses it. Readers that don't commit leave no trace"]
        return _finding(row, reader, missing, doubts, list)
    if row["never_written"] == partitions:
        reader += ", and it never had a record"
    if row["compared"] != partitions or row["seconds"] is None:
        remedy = "give an older snapshot (--before)"
        if row["known_ends"] != partitions:
            remedy = "take a new snapshot, which has the end offsets of all topics, and give an older one (--before)"
        elif row["seconds"] is not None:
            remedy = "the older snapshot lacks its end offsets"
        missing = [*missing, f"growth: {remedy}"]
    else:
        reader += f", and no record was written in {_days(row):,.1f} days"
    doubts = [why for pattern, why in _KEPT_BY_NAME if pattern.search(topic)][:1]
    policy = row["cleanup_policy"]
    if policy is None:
        doubts.append("its cleanup.policy isn't known: readers load a compacted topic without a group")
    elif "compact" in policy:
        doubts.append("it is compacted: readers can load it from its start without a group")
    if row["mirrored"]:
        doubts.append("by its name, MirrorMaker copies it from another cluster")
    elif row["copied"]:
        doubts.append("MirrorMaker reads topics of this cluster without a group")
    if row["commit_groups"]:
        doubts.append(f"{row['commit_group']} can return")
    if not _TOPIC_NAME.fullmatch(topic):
        doubts.append("its name isn't a valid name of a topic")
    return _finding(row, reader, missing, doubts + _age_doubts(row, params), lambda: topic_commands(topic))


def topic_commands(topic: str) -> list[str]:
    """Returns commands that show what a topic has, deny access to it, and delete it.

    `--describe` and `--delete` of kafka-topics.sh take a regular expression (TopicCommand), so that `a.b` would also
    delete `a-b`; kafka-acls.sh takes the name.
    """
    pattern, name = (shell_word(text) for text in (topic.replace(".", r"\."), topic))
    acl = f"--deny-principal 'User:*' --operation Read --operation Write --topic={name}"
    return [
        f"kafka-topics.sh {_SERVERS} --describe --topic={pattern}  # keep the output, to create it again",
        f"kafka-acls.sh {_SERVERS} --add {acl}  # undo: --remove",
        "# Wait until nobody can miss it: at least as long as its rarest reader's period. Kafka can't undelete.",
        f"kafka-topics.sh {_SERVERS} --delete --topic={pattern}",
        f"kafka-acls.sh {_SERVERS} --remove --force {acl}",
    ]


# --- groups without members, or without commits --------------------------------------------------------------


def _group(row: Row, missing: list[str], params: UnusedParams) -> dict[str, Any]:
    group_id, group_type, committed = row["group_id"], row["group_type"], row["committed_partitions"] or 0
    coordinator = None
    if row["offsets_partitions"]:
        coordinator = int(coordinator_hashes([group_id])[0]) % row["offsets_partitions"]
    if row["members"]:
        facts = f"It has {count(row['members'], 'member')} and no committed offset"
        doubt = "members can keep offsets elsewhere (Flink, a database), or have read nothing yet"
        if committed:
            facts = f"It has {count(row['members'], 'member')}, and committed nothing in {_days(row):,.1f} days, while "
            facts += f"{count(row['behind'] or 0, 'record')} were written to its partitions"
            doubt = "members are stuck, or keep offsets elsewhere. Look at their logs before you remove anything"
        found = _finding(row, facts, missing, [doubt], list)
        return found | {"coordinator_partition": coordinator}
    facts = f"It has no members, and {count(committed, 'committed partition')}"
    if row["seconds"] is None:
        missing = [*missing, "its last commit: give an older snapshot (--before)"]
    else:
        facts += f", and committed nothing in {_days(row):,.1f} days"
    missing += [f"its {name} (groups.{column})" for name, column in _GROUP_COLUMNS if row[column] is None]
    doubts = []
    if row["seconds"] is not None and not row["was_known"]:
        doubts.append("the older snapshot doesn't have it")
    if row["members_before"]:
        doubts.append(f"it had {count(row['members_before'], 'member')} in the older snapshot")
    if group_id.startswith("connect-"):
        doubts.append("by its name, it has the offsets of a sink connector, which can be stopped")
    if group_type is not None and group_type not in _DELETE:
        doubts.append(f"a group of type {group_type} has state elsewhere")
    doubts += _age_doubts(row, params)
    found = _finding(row, facts, missing, doubts, lambda: group_commands(row["cluster"], group_id, group_type))
    return found | {"coordinator_partition": coordinator}


_GROUP_COLUMNS = (("type", "group_type"), ("state", "state"))
_DELETE = {
    "classic": "kafka-consumer-groups.sh",
    "consumer": "kafka-consumer-groups.sh",
    "share": "kafka-share-groups.sh",
}
"""The tool that deletes a group of each type. Streams groups have topics of their own, which another tool deletes."""


def group_commands(cluster: str, group_id: str, group_type: str) -> list[str]:
    """Returns commands that save the offsets of a group and delete the group, which fails if it has members."""
    tool, group = f"{_DELETE[group_type]} {_SERVERS}", f"--group={shell_word(group_id)}"
    if group_type == "share":
        return [f"{tool} --describe {group}  # keep the output: its start offsets", f"{tool} --delete {group}"]
    named = hashlib.sha256(f"{cluster}\0{group_id}".encode("utf-8", "replace")).hexdigest()[:12]
    file = f"offsets-{named}.csv"
    reset = f"--reset-offsets {group}"
    return [
        f"{tool} {reset} --all-topics --to-current --dry-run --export > {file}",
        f"{tool} --delete {group}  # undo: {reset} --from-file {file} --execute",
    ]


# --- partitions without a record, and subscriptions to missing topics ----------------------------------------


def _partitions(row: Row, _: list[str], __: UnusedParams) -> dict[str, Any]:
    known, never = row["known_ends"], row["never_written"]
    of = f"{never:,} of {count(row['partitions'], 'partition')} never had a record"
    hint = "Kafka can't remove partitions. Look at the keys and the partitioner of its producers"
    if never == row["partitions"]:
        of, hint = f"{of}, and groups read it", "Ask the owners of its producers"
    unknown = f" ({row['partitions'] - known:,} aren't known)" if known < row["partitions"] else ""
    found = _finding(row, f"{of}{unknown}. {hint}", [], [], list)
    return found | {"certainty": CERTAIN, "commands": None, "partitions": never}


def _subscription(row: Row, _: list[str], __: UnusedParams) -> dict[str, Any]:
    facts = "The topic isn't in the snapshot: it doesn't exist, or the snapshot's user may not describe it"
    remedy = "Remove it from the subscription, or create it. Members ask for it with every update of their metadata"
    return _finding(row, f"{facts}. {remedy}", [], [], list) | {"commands": None}


_FINDINGS: dict[str, Callable[[Row, list[str], UnusedParams], dict[str, Any]]] = {
    TOPIC: _topic,
    GROUP: _group,
    PARTITIONS: _partitions,
    SUBSCRIPTION: _subscription,
}
