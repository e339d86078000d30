"""Applies what-if changes to a fleet: members leave, members join, or topics grow.

A change is a name and a function from fleet to fleet. `Fleet.with_…` takes its rows as a table, or as shell patterns
over the fleet's names (`payments-*`). A change has a constructor here, and a text form for the command line
(`parse_what_if`):

    as-is                         nothing changes
    leave:GROUPS:COUNT            COUNT members leave each matching group, the first by id
    leave-members:MEMBERS         the members with a matching id leave, in any group (a host fails)
    join:GROUPS:COUNT             COUNT members join each matching group
    partitions:TOPICS:COUNT       matching topics get COUNT partitions; with xFACTOR, a multiple of what they have
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.assignors.release_rules import format_release_lines, parse_release_assignor
from spark_assign.fleet import FleetTables
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.spark import subscription_lists
from spark_assign.spark.dataframes import union
from spark_assign.spark.java_order import string_order
from spark_assign.spark.shell_patterns import matches
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY, GROUPS, MEMBER_KEY, MEMBERS, OWNERSHIP
from spark_assign.tables.schema_check import find_twins
from spark_assign.tables.schema_fields import ONLY_IF_GIVEN

AnyFleet = TypeVar("AnyFleet", bound=FleetTables)

_TOPIC = ["cluster", "topic"]

JOINER = "joiner-"
"""Prefix of the IDs of new members."""

_MAX_INT = 2**31 - 1
_MAX_DIGITS = 10
"""Maximum number of digits in the ID of a new member."""
_NAMES = "array<string>"  # Sail refuses to compare arrays with and without null

MAX_COUNT = 100_000
"""Maximum number of members per group, and of partitions per topic, in a change. A larger number is a typing error."""


def _require_columns(table: str, rows: DataFrame, names: list[str]) -> None:
    lacking = [name for name in names if name not in rows.columns]
    faults = [Fault(table, name, "the column is missing", "Add it") for name in lacking]
    if faults := [*faults, *find_twins(table, rows, names)]:
        raise FleetError(faults)


def either(table: str, rows: DataFrame | None, by_pattern: bool) -> None:
    """Raises an error if a change is given both as rows and by pattern, or not at all."""
    if (rows is None) != by_pattern:
        problem = "both a table and patterns are given, or neither"
        raise FleetError([Fault(table, "*", problem, "Give either a table or patterns")])


def leavers(
    fleet: FleetTables, *, cluster: str = "*", group_id: str = "*", member_id: str = "*", count: int | None = None
) -> DataFrame:
    """Returns the matching members; with `count`, only the first ones of each group by id."""
    found = fleet.members.where(matches(cluster=cluster, group_id=group_id, member_id=member_id)).select(*MEMBER_KEY)
    if count is None:
        return found
    return _first_by_id(found.withColumn("count", F.lit(count)))


def left_counts(members: DataFrame, counts: DataFrame) -> DataFrame:
    """Returns the members that leave, the first of each group by id, by their number: cluster, group_id, count."""
    return _first_by_id(members.select(*MEMBER_KEY).join(F.broadcast(counts), GROUP_KEY))


def _first_by_id(members: DataFrame) -> DataFrame:
    """Returns the first `count` members of each group by id."""
    by_id = Window.partitionBy(*GROUP_KEY).orderBy(string_order("member_id"))
    by_id = by_id.rowsBetween(Window.unboundedPreceding, Window.currentRow)  # Sail has no ranges of binary values
    nth = F.row_number().over(by_id)
    return members.withColumn("nth", nth).where(F.col("nth") <= F.col("count")).select(*MEMBER_KEY)


def without_members(fleet: AnyFleet, leavers: DataFrame) -> AnyFleet:
    """Returns the fleet without these members; their partitions go to `departed`, their tasks to `departed_tasks`."""
    _require_columns("leavers", leavers, MEMBER_KEY)
    leavers = leavers.select(*MEMBER_KEY).distinct()
    change: dict[str, DataFrame] = {
        name: getattr(fleet, name).join(leavers, MEMBER_KEY, "left_anti")
        for name in ("members", "subscriptions", *OWNERSHIP, "tasks")
        if getattr(fleet, name) is not None
    }
    if fleet.subscription_lists is not None:
        change["subscription_lists"] = subscription_lists.without_members(fleet.subscription_lists, leavers)
    tables = {name: getattr(fleet, name) for name in OWNERSHIP}
    owned = {name: table.join(leavers, MEMBER_KEY, "left_semi") for name, table in tables.items() if table is not None}
    left = replace(fleet, **owned).ownership_slices()
    if left is not None:
        change["departed"] = left if fleet.departed is None else fleet.departed.unionByName(left)
    if (unknown := fleet.unknown_groups) is not None:  # a group that all members leave is still described
        change["undescribed"] = unknown
    if fleet.tasks is not None:
        had = fleet.tasks.join(leavers, MEMBER_KEY, "left_semi")
        before = fleet.departed_tasks
        change["departed_tasks"] = had if before is None else union([before, had])
    return replace(fleet, **change)


def joiners(
    fleet: FleetTables, *, cluster: str = "*", group_id: str = "*", count: int, member_id: str = JOINER
) -> DataFrame:
    """Returns `count` new members for every matching group: cluster, group_id, member_id. Their IDs are the first
    that no member of the group has."""
    if not 1 <= count <= MAX_COUNT:
        problem = f"{count:,} members per group is out of range (1 to {MAX_COUNT:,})"
        raise FleetError([Fault("joiners", "count", problem, "Give more members as a table")])
    groups = fleet.members.where(matches(cluster=cluster, group_id=group_id)).select(*GROUP_KEY).distinct()
    return joined_counts(fleet.members, groups.withColumn("count", F.lit(count)), member_id)


def joined_counts(members: DataFrame, counts: DataFrame, member_id: str) -> DataFrame:
    """Returns as many new members for each group as `counts` (cluster, group_id, count) has, as `joiners` does."""
    can_be_new = F.col("member_id").startswith(member_id) & (F.length("member_id") <= len(member_id) + _MAX_DIGITS)
    alike = members.where(can_be_new).groupBy(*GROUP_KEY)
    counts = counts.join(alike.agg(F.collect_set("member_id").alias("alike")), GROUP_KEY, "left")
    taken, count = F.coalesce("alike", F.array().cast(_NAMES)), F.col("count").cast("int")
    numbers = F.sequence(F.lit(1), count + F.size(taken))
    ids = F.transform(numbers, lambda nth: F.concat(F.lit(member_id), F.format_string("%02d", nth))).cast(_NAMES)
    return counts.select(*GROUP_KEY, F.explode(F.slice(F.array_except(ids, taken), 1, count)).alias("member_id"))


def with_joiners(fleet: AnyFleet, new: DataFrame, topics: list[str] | None = None) -> AnyFleet:
    """Returns the fleet with these additional members, who own nothing."""
    known = [field.name for field in MEMBERS.fields if field.name in new.columns]
    _require_columns("joiners", new, [*dict.fromkeys([*MEMBER_KEY, *known])])
    if fleet.unknown_groups is not None:  # their members would not be all members of the group
        new = new.join(fleet.unknown_groups, GROUP_KEY, "left_anti")
    members = union([fleet.members, new.select(*known)])
    if fleet.subscriptions is None:
        assert fleet.subscription_lists is not None
        lists = subscription_lists.with_members(fleet.subscription_lists, new, topics)
        return replace(fleet, members=members, subscription_lists=lists)
    if topics is not None:
        subscriptions = new.select(*MEMBER_KEY, F.explode(F.array(*(F.lit(topic) for topic in topics))).alias("topic"))
    else:
        subscriptions = new.select(*MEMBER_KEY).join(fleet.subscribed_topics, GROUP_KEY)
    return replace(fleet, members=members, subscriptions=fleet.subscriptions.unionByName(subscriptions, True))


def require_client(library: str, release: str | None) -> None:
    """Raises `FleetError` if a client library is unknown, or isn't known in this release."""
    if library not in LIBRARIES:
        known = ", ".join(LIBRARIES)
        raise FleetError([Fault("groups", "leader_library", f"{library!r} is not known", f"Give one of {known}")])
    if library == "Java" and release is not None and parse_release_assignor(f"sticky@{release}") is None:
        problem = f"{release!r} isn't a known release of Kafka's clients"
        raise FleetError([Fault("groups", "leader_version", problem, f"Release lines: {format_release_lines()}")])


def with_leader_client(
    fleet: AnyFleet, library: str, release: str | None = None, *, cluster: str = "*", group_id: str = "*"
) -> AnyFleet:
    """Returns the fleet with another client library and version of the leader in the matching groups."""
    require_client(library, release)
    groups = _groups_of(fleet)
    matching = matches(cluster=cluster, group_id=group_id)
    values = {"leader_library": library, "leader_version": release, "leader_confidence": "given"}
    columns = {name: F.when(matching, F.lit(value)).otherwise(F.col(name)) for name, value in values.items()}
    return replace(fleet, groups=groups.withColumns(columns))


def with_capacity(
    fleet: AnyFleet, capacity: float | None, load_bound: float | None, *, cluster: str, group_id: str
) -> AnyFleet:
    """Returns the fleet with another capacity and load bound in the matching groups; `None` keeps the current value."""
    given = {name: value for name, value in (("capacity", capacity), ("load_bound", load_bound)) if value is not None}
    if not given:
        raise FleetError([Fault("groups", "capacity", "no value is given", "Give capacity, load_bound, or both")])
    if capacity is not None and not 0 < capacity < math.inf:
        remedy = "Give messages per second, above 0"
        raise FleetError([Fault("groups", "capacity", f"{capacity} is out of range", remedy)])
    if load_bound is not None and not 1 <= load_bound < math.inf:
        remedy = "Give a multiple of the mean load, at least 1"
        raise FleetError([Fault("groups", "load_bound", f"{load_bound} is out of range", remedy)])
    groups, matching = _groups_of(fleet), matches(cluster=cluster, group_id=group_id)
    for name, value in given.items():
        before = F.col(name) if name in groups.columns else F.lit(None).cast("double")
        groups = groups.withColumn(name, F.when(matching, F.lit(float(value))).otherwise(before))
    return replace(fleet, groups=groups)


def _groups_of(fleet: FleetTables) -> DataFrame:
    """Returns the table `groups`, with a row for every group if the fleet has no such table."""
    if fleet.groups is not None:
        return fleet.groups
    nothing = [field for field in GROUPS if field.nullable and field.metadata != ONLY_IF_GIVEN]
    named = fleet.members.select(*GROUP_KEY).distinct()
    return named.withColumns({field.name: F.lit(None).cast(field.dataType) for field in nothing})


def grown(
    fleet: FleetTables, *, cluster: str = "*", topic: str = "*", factor: float | None = None, count: int | None = None
) -> DataFrame:
    """Returns the new partition counts of the matching topics: cluster, topic, partitions."""
    if (factor is None) == (count is None):
        problem = "both factor and count are given, or neither"
        raise FleetError([Fault("topics", "partitions", problem, "Give either factor or count")])
    multiple = F.col("partitions") * F.lit(float(factor or 1))  # beyond int: as many as an int has, for its groups only
    partitions = F.lit(count) if factor is None else F.ceil(F.when(multiple > _MAX_INT, _MAX_INT).otherwise(multiple))
    return fleet.topics.where(matches(cluster=cluster, topic=topic)).select(
        *_TOPIC, partitions.try_cast("int").alias("partitions")
    )


def with_counts(fleet: AnyFleet, counts: DataFrame) -> AnyFleet:
    """Returns the fleet with these partition counts; unknown topics are added."""
    _require_columns("partitions", counts, [*_TOPIC, "partitions"])
    others = fleet.topics.join(counts.select(*_TOPIC), _TOPIC, "left_anti")
    new = counts.select(*_TOPIC, F.col("partitions").try_cast("int").alias("partitions"))
    return replace(fleet, topics=union([others, new]))


@dataclass(frozen=True)
class WhatIf:
    """A change of a fleet.

    Attributes:
        name: name of the change in tables.
        apply: returns the fleet (`api.Fleet`) after the change.

    Examples:
        >>> fewer = WhatIf("one client less", lambda fleet: fleet.with_members_left(group_id="payments-*", count=1))
        >>> compared = compare(fleet, ["range"], [fewer]).comparison.where("group_id = 'payments-eu'")
        >>> compared.select("what_if", "members", "moved").show()
        +---------------+-------+-----+
        |        what_if|members|moved|
        +---------------+-------+-----+
        |one client less|      1|    3|
        +---------------+-------+-----+
    """

    name: str
    apply: Callable[[Any], Any]


AS_IS = WhatIf("as-is", lambda fleet: fleet)
"""No change: the cost of a switch to each assignor, or of another rebalance with the current one."""


def members_left(*, group_id: str = "*", member_id: str = "*", count: int | None = None, name: str = "") -> WhatIf:
    """Returns the change that matching members leave, the first `count` of each group by id (`None`: all)."""
    text = f"leave:{group_id}:{count}" if count is not None else f"leave-members:{member_id}"
    who = {"group_id": group_id, "member_id": member_id}
    return WhatIf(name or text, lambda fleet: without_members(fleet, leavers(fleet, **who, count=count)))


def members_joined(*, count: int, group_id: str = "*", name: str = "") -> WhatIf:
    """Returns the change that `count` members join each matching group, with the subscriptions of the group."""
    text = f"join:{group_id}:{count}"
    return WhatIf(name or text, lambda fleet: with_joiners(fleet, joiners(fleet, group_id=group_id, count=count)))


def partitions_added(
    *, topic: str = "*", factor: float | None = None, count: int | None = None, name: str = ""
) -> WhatIf:
    """Returns the change that matching topics get `factor` times their partitions, or exactly `count`."""
    text = f"partitions:{topic}:{f'x{factor:g}' if factor is not None else count}"
    return WhatIf(name or text, lambda fleet: with_counts(fleet, grown(fleet, topic=topic, factor=factor, count=count)))


FORMS = "as-is, leave:GROUPS:COUNT, leave-members:MEMBERS, join:GROUPS:COUNT, partitions:TOPICS:COUNT or xFACTOR"


def parse_what_if(text: str) -> WhatIf:
    """Parses a change from its text form (see the module), optionally preceded by `NAME=`.

    Raises:
        ConfigError: invalid text; the message says what is expected.
    """
    kind, _, rest = text.partition(":")
    name, has_name, kind = kind.rpartition("=")
    if has_name and not name:
        raise ConfigError(f"What-if {text}: the name before = is empty. Write NAME=CHANGE, or omit the =.")
    pattern, _, value = rest.rpartition(":")
    if kind == "as-is" and not rest:
        return WhatIf(name or AS_IS.name, AS_IS.apply)
    if kind == "leave-members" and rest:
        return members_left(member_id=rest, name=name or text)
    if kind == "leave" and pattern:
        return members_left(group_id=pattern, count=_parse_count(value, text), name=name or text)
    if kind == "join" and pattern:
        return members_joined(group_id=pattern, count=_parse_count(value, text), name=name or text)
    if kind == "partitions" and pattern and value.startswith("x"):
        return partitions_added(topic=pattern, factor=_parse_factor(value[1:], text), name=name or text)
    if kind == "partitions" and pattern:
        return partitions_added(topic=pattern, count=_parse_count(value, text), name=name or text)
    raise ConfigError(f"What-if {text}: unknown change. Use one of {FORMS}, for example leave:payments-*:1.")


def _parse_count(count: str, text: str) -> int:
    if not count.isdecimal() or len(count) > 20 or not 1 <= int(count) <= MAX_COUNT:
        raise ConfigError(f"What-if {text}: {count!r} isn't a valid count. Use a whole number from 1 to {MAX_COUNT:,}.")
    return int(count)


def _parse_factor(factor: str, text: str) -> float:
    try:
        value = float(factor)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_COUNT:
        remedy = "Use a positive number, for example x2 or x1.5."
        raise ConfigError(f"What-if {text}: x{factor} isn't a valid factor. {remedy}")
    return value
