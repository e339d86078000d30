"""Turns the changes that files declare (`sources.files.declared_changes`) into one what-if change of a fleet.

A change names a topic, a group, or the brokers of a cluster. Here, it gets the cluster of the fleet that it belongs to,
and is compared with what the snapshot has: a change of what the snapshot lacks is an error, because its effect
isn't known.

Example: the topic `orders` grows from 12 to 24 partitions, and the group `mail` goes from 3 replicas to 2. In the
snapshot, `mail` has 6 members: 2 for each replica. Then `orders` gets 24 partitions and 2 members leave `mail`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS
from spark_assign.comparison.compare import compare
from spark_assign.comparison.what_if import AS_IS, JOINER, MAX_COUNT, WhatIf, joined_counts, left_counts
from spark_assign.fleet import FleetTables
from spark_assign.groups.planning import find_assignor
from spark_assign.replicas import ClusterChange, reassign
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import to_arrow_schema, union
from spark_assign.spark.engine import cached, dataframe_of
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import markdown_code as code
from spark_assign.tables.schema_fields import schema


class Kind(StrEnum):
    """What changes: a topic, the members of a group, the settings of a group's clients, the brokers of a cluster, or
    the tasks of a connector."""

    TOPIC, GROUP, CLIENT, POOL, CONNECTOR = "topic", "group", "client", "node pool", "connector"


UNSET = "not set"
"""Value of partitions that a file doesn't declare, for a topic that it declares."""

NAME = "changes"
"""Name of the what-if change."""

MAX_CHANGES, MAX_NAME, _MAX_CLUSTERS = 1_000, 100, 1_000
"""Maximum number of changes (their names are values of a query), of characters of a name in an error, of clusters."""
_MAX_NEW = 1_000_000
"""Maximum number of partitions that all changes together add."""

SINK = "connect-"
"""Prefix of the group of a sink connector's tasks (Kafka Connect, `SinkUtils.consumerGroupId`)."""

_Key = tuple[str, str]


@dataclass(frozen=True)
class DeclaredChange:
    """A value that differs between two versions of files.

    Attributes:
        kind: what changes.
        name: the topic, the group ID, the node pool, or the connector.
        cluster: the cluster; None: the one that has the topic or group.
        setting: what changes: `partitions`, `replicas`, `tasksMax`, `assignor`, or a key of client properties.
        before, after: the values; None: nothing is declared.
        where: file and line.
        per_replica: members of a group for each replica; None: as many as in the snapshot.
    """

    kind: Kind
    name: str
    cluster: str | None
    setting: str
    before: Any
    after: Any
    where: str
    per_replica: int | None = None

    @property
    def group_id(self) -> str | None:
        """The group whose members change; None for topics and brokers."""
        return {Kind.GROUP: self.name, Kind.CLIENT: self.name, Kind.CONNECTOR: f"{SINK}{self.name}"}.get(self.kind)


@dataclass
class FleetChange:
    """Declared changes, in the terms of a fleet.

    Attributes:
        clusters: clusters of the fleet.
        changes: the changes, each with its cluster; those of replicas as numbers of members.
        risks, notes: what a reviewer must know, and what isn't part of the plan, as Markdown.
        assignors: new assignor by cluster and group, from client properties.
        partitions: new partitions by cluster and topic; None: deleted.
        members: number of members that join or leave (below 0) by cluster and group.
        grown: the topics of `partitions` that exist and grow.
        emptied: groups without members after the changes.
    """

    clusters: list[str]
    changes: list[DeclaredChange] = field(default_factory=list)
    risks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    assignors: dict[_Key, str] = field(default_factory=dict)
    partitions: dict[_Key, int | None] = field(default_factory=dict)
    members: dict[_Key, int] = field(default_factory=dict)
    grown: set[_Key] = field(default_factory=set)
    emptied: set[_Key] = field(default_factory=set)

    @property
    def what_if(self) -> WhatIf:
        """All changes at once, as one change of the fleet."""
        return WhatIf(NAME, self._apply)

    def _apply(self, fleet: Any) -> Any:
        if gone := {key: 0 for key, partitions in self.partitions.items() if partitions is None}:
            names = F.broadcast(_rows(fleet, gone, "topic"))
            fleet = replace(fleet, topics=fleet.topics.join(names, ["cluster", "topic"], "left_anti"))
        if kept := {key: partitions for key, partitions in self.partitions.items() if partitions is not None}:
            fleet = fleet.with_partitions(_rows(fleet, kept, "topic").withColumnRenamed("count", "partitions"))
        if left := {key: -count for key, count in self.members.items() if count < 0}:
            fleet = fleet.with_members_left(left_counts(fleet.members, _rows(fleet, left, "group_id")))
        if joined := {key: count for key, count in self.members.items() if count > 0}:
            counts = _rows(fleet, joined, "group_id").join(fleet.members.select(*GROUP_KEY), GROUP_KEY, "left_semi")
            fleet = fleet.with_members_joined(joined_counts(fleet.members, counts, JOINER))
        return fleet

    def affected(self, fleet: FleetTables) -> DataFrame:
        """Returns the groups that rebalance, and have members before and after: cluster, group_id."""
        topics = F.broadcast(_rows(fleet, dict.fromkeys(self.partitions, 0), "topic"))
        reading = fleet.subscribed_topics.join(topics, ["cluster", "topic"]).select(*GROUP_KEY)
        changed = {(str(each.cluster), each.name): 0 for each in self.changes if each.kind in (Kind.GROUP, Kind.CLIENT)}
        found = union([reading, _rows(fleet, changed, "group_id").select(*GROUP_KEY)]).distinct()
        found = found.join(_rows(fleet, dict.fromkeys(self.emptied, 0), "group_id"), GROUP_KEY, "left_anti")
        return found.join(fleet.members.select(*GROUP_KEY), GROUP_KEY, "left_semi")

    def broker_loads(self, fleet: FleetTables) -> DataFrame | None:
        """Returns the load of each broker before and after topics grow, as `reassign` places the new partitions.

        Returns:
            cluster, broker_id, replicas, new_replicas, leaders, new_leaders; None if no topic grows, or if the fleet
            has no replicas or brokers.
        """
        if not self.grown or not fleet.racks_known:
            return None
        rows = _rows(fleet, {key: int(self.partitions[key] or 0) for key in self.grown}, "topic")
        rows = rows.select("cluster", "topic", F.col("count").cast("int").alias("partitions"))
        placement = reassign(fleet, ClusterChange(partitions=rows), voluntary=False).placement
        old, new, broker = F.col("old"), F.col("replicas"), F.col("broker_id")
        none = F.array().cast("array<int>")
        rows = placement.select("cluster", "replicas", F.coalesce("previous_replicas", none).alias("old"))
        return (
            rows.select("*", F.explode(F.array_union(old, new)).alias("broker_id"))
            .groupBy("cluster", broker)
            .agg(
                F.count_if(F.array_contains(old, broker)).alias("replicas"),
                F.count_if(F.array_contains(new, broker)).alias("new_replicas"),
                F.count_if(F.get(old, F.lit(0)) == broker).alias("leaders"),
                F.count_if(F.get(new, F.lit(0)) == broker).alias("new_leaders"),
            )
        )


def compare_affected(
    fleet: FleetTables, change: FleetChange, assignors: Sequence[str] | None, settings: Settings
) -> DataFrame | None:
    """Returns the comparison of the groups that rebalance, with `AS_IS` and `NAME`; None if no group rebalances.

    Args:
        fleet: the fleet, as the snapshot has it.
        change: the changes.
        assignors: names of assignors; None: those of each group's protocol. A group with a new one is compared with
            this one, too, and by default with those of both protocols.
        settings: times for the estimate of pauses.
    """
    affected, found = cached(change.affected(fleet)), []
    switching = _rows(fleet, dict.fromkeys(change.assignors, 0), "group_id")
    both = [*(assignors or (*CLIENT_ASSIGNORS, *KAFKA_SERVER_ASSIGNORS)), *change.assignors.values()]
    for kind, names in (("left_anti", assignors), ("left_semi", both)):
        groups = affected.join(switching, GROUP_KEY, kind)
        if not groups.isEmpty():
            found += [compare(fleet.filter_groups(groups), names, [AS_IS, change.what_if], settings).comparison]
    return cached(union(found)) if found else None


def _rows(fleet: FleetTables, counts: Mapping[_Key, int], name: str) -> DataFrame:
    """Returns counts of this process as a table: cluster, `name`, count."""
    kind = schema(f"cluster string, {name} string, count long")
    rows = [{"cluster": key[0], name: key[1], "count": count} for key, count in counts.items()]
    return dataframe_of(fleet.topics.sparkSession, pa.Table.from_pylist(rows, to_arrow_schema(kind)), kind)


def resolve(fleet: FleetTables, changes: Sequence[DeclaredChange], clusters: Mapping[str, str]) -> FleetChange:
    """Returns the changes in the terms of a fleet.

    Args:
        fleet: the fleet, as the snapshot has it.
        changes: the changes that files declare.
        clusters: the fleet's name of each cluster, by its name in the files.

    Raises:
        ConfigError: a topic or group that changes isn't in the fleet, or in several clusters of it; a topic would lose
            partitions, which Kafka refuses; or there are too many changes, new members, or new partitions. The message
            has file and line, unless it is about all changes.
    """
    if len(changes) > MAX_CHANGES:
        raise ConfigError(f"{len(changes):,} changes, expected at most {MAX_CHANGES:,}. Compare fewer files at a time.")
    names = fleet.topics.select("cluster").distinct().orderBy("cluster").limit(_MAX_CLUSTERS).collect()
    resolved = FleetChange([row["cluster"] for row in names])
    topics = [each.name for each in changes if each.kind == Kind.TOPIC]
    groups = [each.group_id for each in changes if each.group_id]
    found = fleet.topics.where(F.col("topic").isin(topics)).select("cluster", "topic", "partitions")
    partitions = {(row[0], row[1]): row[2] for row in found.collect()}  # the topics that change
    members, seen = _members(fleet, groups), dict[tuple[Kind, _Key, str], DeclaredChange]()
    planned_on = dict[str, str]()
    for declared in changes:
        change = replace(declared, cluster=clusters.get(str(declared.cluster), declared.cluster))
        if change.kind == Kind.CONNECTOR and all(name != change.group_id for _, name in members):
            _add_connector(resolved, change)
            continue
        known = partitions if change.kind == Kind.TOPIC else members
        having = sorted({cluster for cluster, name in known if name == (change.group_id or change.name)})
        key = (_cluster(change, resolved.clusters, having), change.group_id or change.name)
        if change.cluster not in (None, key[0]):
            planned_on[str(change.cluster)] = key[0]
        kind = Kind.GROUP if change.kind == Kind.CONNECTOR else change.kind
        change = replace(change, kind=kind, cluster=key[0], name=key[1])
        other = seen.setdefault((kind, key, change.setting), change)
        if kind != Kind.GROUP and other.after != change.after:
            what = f"{other.where} and {change.where} change the {kind} {change.name[:MAX_NAME]!r} of the snapshot"
            raise ConfigError(f"{what} differently. Compare the files of one cluster, or of one version, at a time.")
        if change.kind == Kind.TOPIC:
            _add_topic(resolved, change, key, partitions.get(key))
        elif change.kind == Kind.GROUP:
            _add_group(resolved, change, key, *members[key])
        else:
            resolved.changes.append(change)
            (_add_client if change.kind == Kind.CLIENT else _add_pool)(resolved, change, key)
    joined = sum(max(count, 0) for count in resolved.members.values())
    added = sum(max((count or 0) - partitions.get(key, 0), 0) for key, count in resolved.partitions.items())
    for what, total, most in (("members join", joined, MAX_COUNT), ("partitions are new", added, _MAX_NEW)):
        if total > most:
            raise ConfigError(f"{total:,} {what}, expected at most {most:,}. Correct them, or compare fewer files.")
    same = "Map it in `[clusters]` if it is the same cluster."
    resolved.risks[:0] = [
        f"cluster {code(name)} isn't in the snapshot, so its changes are planned on {code(cluster)}. {same}"
        for name, cluster in planned_on.items()
    ]
    return resolved


def _members(fleet: FleetTables, groups: Sequence[str]) -> dict[_Key, tuple[int, int]]:
    """Returns the number of members, and of static members, of groups with these IDs."""
    counts, is_named = [F.count("member_id"), F.count("group_instance_id")], F.col("group_id").isin(groups)
    tables = [fleet.members] if fleet.groups is None else [fleet.members, fleet.groups.select(*GROUP_KEY)]
    rows = union([table.where(is_named) for table in tables]).groupBy(*GROUP_KEY).agg(*counts).collect()
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}  # the groups that change


def _cluster(change: DeclaredChange, clusters: Sequence[str], having: Sequence[str]) -> str:
    """Returns the cluster of the fleet that a change is about: the named one, the only one, or the only one that has
    the topic or group. Raises ConfigError.
    """
    can_be_new = change.kind == Kind.POOL or (change.kind == Kind.TOPIC and change.before is None)
    named = [each for each in clusters if each == change.cluster or len(clusters) == 1]
    found = named or having
    if len(found) == 1 and (can_be_new or found[0] in having):
        return found[0]
    what = f"{change.where}: the {change.kind} {change.name[:MAX_NAME]!r}"
    if len(found) > 1 or (not named and can_be_new):
        raise ConfigError(f"{what} can be in several clusters. Map {str(change.cluster)[:MAX_NAME]!r} in [clusters].")
    raise ConfigError(
        f"{what} isn't in the snapshot. If it is newer than the snapshot, take a new one; otherwise, correct it."
    )


def _add_topic(resolved: FleetChange, change: DeclaredChange, key: _Key, now: int | None) -> None:
    name, before, after = f"topic {code(change.name)}", change.before, change.after
    resolved.changes.append(change)
    if change.setting != "partitions":
        text = "moves no partition of a group. Plan it with `replicas reassign --replication-factor`."
        resolved.notes += [f"{name}: a new replication factor {text}"] if None not in (before, after) else []
    elif after is None:
        resolved.partitions[key] = None
        resolved.risks.append(f"{name} is deleted, with all its records.")
    elif after == UNSET:
        resolved.notes.append(f"{name}: `partitions` isn't set, so their number isn't known.")
    else:
        for had, origin in ((before, "before"), (now, "in the snapshot")):
            if isinstance(had, int) and after < had:
                raise ConfigError(
                    f"{change.where}: the topic {change.name[:MAX_NAME]!r} has {count(had, 'partition')} {origin}, and "
                    f"would have {after:,}. Kafka can't remove partitions: keep the number, or create another topic."
                )
        if now != after:
            resolved.partitions[key] = after
        if now is None:
            resolved.notes.append(f"{name} is new: groups that subscribe to it by a pattern aren't known.")
        elif before not in (now, UNSET, None):
            stale = "The snapshot isn't of the time before this change, or the topic was changed by hand"
            resolved.risks.append(f"{name} has {count(now, 'partition')} in the snapshot, not {before:,}. {stale}.")
        if now is not None and now < after:
            resolved.grown.add(key)
            text = "records with the same key go to other partitions than before, so their order isn't kept"
            resolved.risks.append(f"{name}: {text} across the change. Partitions can't be removed again.")


def _add_group(resolved: FleetChange, change: DeclaredChange, key: _Key, members: int, static: int) -> None:
    name, before, after = f"group {code(change.name)}", change.before or 0, change.after or 0
    is_multiple = before and members and members % before == 0
    per_replica = change.per_replica or (members // before if is_multiple else 1)
    delta = max((after - before) * per_replica, -members)
    if delta > MAX_COUNT:
        raise ConfigError(f"{change.where}: {delta:,} members join, expected at most {MAX_COUNT:,}.")
    resolved.members[key] = resolved.members.get(key, 0) + delta
    resolved.changes.append(replace(change, setting="members", before=members, after=members + delta))
    if members != before * per_replica:
        taken, given = count(members, "member"), count(before, "replica")
        text = f"{taken} in the snapshot, and {given} with {per_replica:,} each in the files"
        resolved.risks.append(f"{name} has {text}. The snapshot is of another time, or some replicas hadn't joined.")
    if delta < 0 and static:
        text = "has static members: partitions of those that leave have no owner until `session.timeout.ms` is over."
        resolved.risks.append(f"{name} {text}")
    if delta and not members + delta:
        resolved.emptied.add(key)
        resolved.risks.append(f"{name} has no members left to read its partitions.")
    if delta > 0 and not members:
        resolved.notes.append(f"{name} has no members in the snapshot, so what new ones read isn't known.")


def _add_connector(resolved: FleetChange, change: DeclaredChange) -> None:
    resolved.changes.append(change)
    sink = f"The snapshot has no group {code(str(change.group_id))}, so no consumers are planned"
    resolved.notes.append(f"connector {code(change.name)}: its Connect cluster rebalances. {sink}.")


def _add_client(resolved: FleetChange, change: DeclaredChange, key: _Key) -> None:
    name = f"group {code(change.name)}"
    text = f"{name}: every member restarts, and the group rebalances with each restart of a dynamic member."
    resolved.risks += [text] if text not in resolved.risks else []
    if change.setting == "session.timeout.ms" and change.after:
        resolved.risks.append(f"{name}: a member that crashes keeps its partitions for {change.after / 1000:,.0f} s.")
    if change.setting == "assignor":
        try:
            find_assignor(change.after)
            resolved.assignors[key] = change.after
        except ConfigError:
            resolved.notes.append(f"{name}: the assignor {code(change.after)} isn't known, so it isn't planned.")


def _add_pool(resolved: FleetChange, change: DeclaredChange, _: _Key) -> None:
    text = "Strimzi doesn't remove a broker that has replicas. Move them first, with `replicas reassign --remove`."
    if (change.after or 0) > (change.before or 0):
        text = "new brokers get no replicas of existing partitions. Plan them with `replicas reassign --add`."
    resolved.risks.append(f"node pool {code(change.name)}: {text}")
