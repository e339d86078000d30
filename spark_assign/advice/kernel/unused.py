"""Judges what has no known use: topics, groups, partitions without a record, and subscriptions to missing topics.

A row of facts is about one topic, group, or subscription, its `kind`. Its columns are

    of the cluster   seconds between the snapshots; gap: why the snapshot lacks groups, "" if it has all;
                     undescribed groups; has_mirrors: MirrorMaker has topics in it; partitions of `__consumer_offsets`
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
   undo the removal, and deny access to a topic. Its deletion is a comment, because it belongs to a later day.

Example: a topic with two partitions, read by no group, with the same end offsets [7, 0] eight days ago. With
cleanup.policy=delete it is `likely` unused, with compact `possible`, and without the older snapshot `unknown`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa

from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.replicas.kernel.group_effects import coordinator_hashes
from spark_assign.tables.errors import count
from spark_assign.tables.parameters import Param
from spark_assign.tables.quoting import in_text, shell_word

UNUSED_ROW, REJECTED = "unused", "rejected"
TOPIC, GROUP, PARTITIONS, SUBSCRIPTION = SUBJECTS = ("topic", "group", "partitions", "subscription")
CERTAIN, LIKELY, POSSIBLE, UNKNOWN = CERTAINTIES = ("certain", "likely", "possible", "unknown")

Row = Mapping[str, Any]

NOT_GIVEN = {
    "offsets": "offsets of the groups: take a snapshot (table offsets)",
    "groups": "the cluster's groups: take a snapshot (table groups)",
}
"""What is missing without a table."""
_NOT_RECORDED = "all groups: it isn't known whether the tables are of a complete snapshot (snapshot.json)"

_SERVERS = "--bootstrap-server $BOOTSTRAP_SERVERS"
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
MIRROR_TOPIC = r"^mm2-.*\.internal$|\.checkpoints\.internal$|(^|\.)heartbeats$"
"""Topics of MirrorMaker 2."""
_KEPT_BY_NAME = {
    r"-(changelog|repartition)$": "by its name, it has state of a Streams application",
    MIRROR_TOPIC: "by its name, it is MirrorMaker's",
    r"connect.*[-._](config|offset|status)": "by its name, Connect workers keep their state in it",
    r"^_": "by its name, a service keeps its own data in it",
}
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

    min_days: Annotated[float, Param(least=0)] = 7.0


def judge(facts: pa.Table, params: UnusedParams, schema: pa.Schema, unknown: list[str]) -> Iterator[pa.Table]:
    """Yields the findings of rows of facts, one each, as tagged rows with these columns.

    `unknown`: the data that the whole fleet lacks (`NOT_GIVEN`).
    """
    rows = []
    for row in facts.to_pylist():
        missing = [*unknown, *filter(None, [_NOT_RECORDED if row["gap"] is None else row["gap"]])]
        if row["undescribed"]:
            missing.append(f"{count(row['undescribed'], 'group')} that can't be described: see the table rejected")
        days = row["days"] = None if row["seconds"] is None else row["seconds"] / 86_400
        is_short = days is not None and days < params.min_days
        row["doubts"] = [f"the snapshots are only {days:,.1f} of {params.min_days:g} days apart"] if is_short else []
        rows.append(_FINDINGS[row["kind"]](row, missing) | {"subject": row["kind"]})
    yield tagged_rows(UNUSED_ROW, rows, schema)


def _finding(
    row: Row, facts: str, missing: list[str], doubts: list[str], commands: Callable[[], list[str]] = list
) -> dict[str, Any]:
    """Returns a finding: unknown if something is missing, possible if there is a doubt, otherwise likely."""
    certainty = UNKNOWN if missing else POSSIBLE if doubts else LIKELY
    names = ("cluster", "topic", "group_id", "days", "partitions", "replicas", "disk_bytes", "committed_partitions")
    return {
        **{name: row[name] for name in names},
        "certainty": certainty,
        "reason": f"{facts}. But {'; '.join(doubts)}" if doubts else facts,
        "missing": "; ".join(missing) or None,
        "commands": ("\n".join(commands()) or None) if certainty == LIKELY else None,
    }


# --- topics without a member that reads them ----------------------------------------------------------------


def _topic(row: Row, missing: list[str]) -> dict[str, Any]:
    topic, partitions, policy = row["topic"], row["partitions"], row["cleanup_policy"]
    facts = "No known group reads it"
    if row["commit_groups"]:
        facts = f"No member reads it; {count(row['commit_groups'], 'group')} committed offsets of it"
    if row["being_written"] or row["changed"] or row["recreated"]:
        written = "it was recreated" if row["recreated"] else "records are written to it"
        doubts = [f"{written}, so something uses it. Readers that don't commit leave no trace"]
        return _finding(row, facts, missing, doubts)
    if row["never_written"] == partitions:
        facts += ", and it never had a record"
    if row["seconds"] is None or row["compared"] != partitions:
        known = "give an older snapshot (--before)" if row["known_ends"] == partitions else "take a new snapshot"
        remedy = known if row["seconds"] is None else f"{known}. One of the two lacks end offsets"
        missing = [*missing, f"growth: {remedy}"]
    else:
        facts += f", and no record was written in {row['days']:,.1f} days"
    doubts = [why for pattern, why in _KEPT_BY_NAME.items() if re.search(pattern, topic)][:1]
    if policy is None or "compact" in policy:
        known = "its cleanup.policy isn't known" if policy is None else "it is compacted"
        doubts.append(f"{known}: readers load a compacted topic from its start, without a group")
    doubts += ["MirrorMaker copies topics of this cluster, without a group"] if row["has_mirrors"] else []
    doubts += [f"{in_text(row['commit_group'])} can return"] if row["commit_groups"] else []
    doubts += [] if _TOPIC_NAME.fullmatch(topic) else ["its name isn't a valid name of a topic"]
    return _finding(row, facts, missing, doubts + row["doubts"], lambda: topic_commands(topic))


def topic_commands(topic: str) -> list[str]:
    """Returns commands that show what a topic has, deny access to it, and delete it.

    `--describe` and `--delete` of kafka-topics.sh take a regular expression (TopicCommand), so that `a.b` would also
    delete `a-b`; kafka-acls.sh takes the name.
    """
    pattern = topic.replace(".", r"\.")
    acls = f"kafka-acls.sh {_SERVERS}"
    acl = f"--topic={shell_word(topic)} --deny-principal 'User:*' --operation Read --operation Write"
    return [
        f"kafka-topics.sh {_SERVERS} --describe --topic={shell_word(pattern)}  # keep the output, to create it again",
        " ".join((acls, "--add", acl, " # undo: --remove")),
        "# Later, if no client had an error for as long as its rarest reader waits. Kafka can't undelete a topic.",
        f"# kafka-topics.sh {_SERVERS} --delete --topic={shell_word(pattern)}",
        " ".join(("#", acls, "--remove --force", acl)),
    ]


# --- groups without members, or without commits --------------------------------------------------------------


def _group(row: Row, missing: list[str]) -> dict[str, Any]:
    group_id, group_type, committed = row["group_id"], row["group_type"], row["committed_partitions"]
    facts = f"It has {count(row['members'], 'member')} and {count(committed, 'committed partition')}"
    if row["seconds"] is not None and committed:
        facts += f", and committed nothing in {row['days']:,.1f} days"
    if row["members"]:
        doubts = ["members are stuck, keep offsets elsewhere (Flink, a database), or have read nothing yet"]
        facts += f", while {count(row['behind'], 'record')} were written to them" if committed else ""
    else:
        missing += [] if row["seconds"] is not None else ["its last commit: give an older snapshot (--before)"]
        missing += [f"its {name} (groups.{name})" for name in ("group_type", "state") if row[name] is None]
        reasons = {
            "the older snapshot doesn't have it": row["seconds"] is not None and not row["was_known"],
            "it had members in the older snapshot": row["members_before"],
            "by its name, it has the offsets of a sink connector": group_id.startswith("connect-"),
            "no record is known that it had to commit": row["seconds"] and not row["behind"],
            f"a group of type {group_type} has state elsewhere": group_type is not None and group_type not in _DELETE,
        }
        doubts = [doubt for doubt, is_so in reasons.items() if is_so] + row["doubts"]
    found = _finding(row, facts, missing, doubts, lambda: group_commands(row["cluster"], group_id, group_type))
    partitions = row["offsets_partitions"]
    coordinator = int(coordinator_hashes([group_id])[0]) % partitions if partitions else None
    return found | {"coordinator_partition": coordinator}


_DELETE = {"share": "kafka-share-groups.sh"} | dict.fromkeys(("classic", "consumer"), "kafka-consumer-groups.sh")
"""The tool that deletes a group of each type. Streams groups have topics of their own, which another tool deletes."""


def group_commands(cluster: str, group_id: str, group_type: str) -> list[str]:
    """Returns commands that save the offsets of a group and delete the group, which fails if it has members.

    There are none for the empty ID, which no tool accepts.
    """
    if not group_id:
        return []
    tool, group = f"{_DELETE[group_type]} {_SERVERS}", f"--group={shell_word(group_id)}"
    delete = " ".join((tool, "--delete", group))
    if group_type == "share":
        return [" ".join((tool, "--describe", group, " # keep the output: its start offsets")), delete]
    file = f"offsets-{hashlib.sha256(f'{cluster} {group_id}'.encode('utf-8', 'replace')).hexdigest()[:12]}.csv"
    reset = " ".join(("--reset-offsets", group))
    save = f"{tool} {reset} --all-topics --to-current --dry-run --export > {file} && test -s {file} &&"
    return [save, f"  {delete}  # undo: {reset} --from-file={shell_word(file)} --execute"]


# --- partitions without a record, and subscriptions to missing topics ----------------------------------------


def _partitions(row: Row, _: list[str]) -> dict[str, Any]:
    never, known = row["never_written"], row["known_ends"]
    of = f"{never:,} of {count(known, 'partition')} with a known end offset never had a record"
    hint = "Kafka can't remove partitions. Look at the keys and the partitioner of the topic's producers"
    return _finding(row, f"{of}. {hint}", [], []) | {"certainty": CERTAIN, "partitions": never}


def _subscription(row: Row, _: list[str]) -> dict[str, Any]:
    facts = "The topic isn't in the snapshot: it doesn't exist, or the snapshot's user may not describe it"
    remedy = "Remove it from the subscription, or create it. Members ask for it with every update of their metadata"
    return _finding(row, f"{facts}. {remedy}", [], [])


_FINDINGS = dict(zip(SUBJECTS, (_topic, _group, _partitions, _subscription), strict=True))
