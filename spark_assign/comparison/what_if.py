"""What if: the same fleet after members leave, members join, or topics grow.

Every change is a table of what changes, or shell patterns (`payments-*`) over the fleet's own names.

Named changes of a fleet, as small values: what would be if members left, joined, or topics grew.

A change is a name and a function from fleet to fleet. Those that `Fleet.with_…` knows have a constructor here, and a
form in words for the command line (`read_change`):

    as-is                         nothing changes
    leave:GROUPS:NUMBER           so many members leave each group that matches, the first by id
    leave-members:MEMBERS         the members whose id matches leave, wherever they are (a host goes)
    join:GROUPS:NUMBER            so many members join each group that matches
    partitions:TOPICS:COUNT       the topics that match get so many partitions; `x2`: twice as many as they have
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.groups.assignors.release_rules import format_release_lines, parse_release_assignor
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.spark.java_order import string_order
from spark_assign.spark.partition_slices import compress
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY, GROUPS, MEMBER_KEY, MEMBERS, ONLY_IF_GIVEN

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

_TOPIC = ["cluster", "topic"]

MOST_JOINERS = 100_000
"""So many new members a group may be given by their number alone: one zero too many is found before Spark is asked."""


def matches(**patterns: str) -> Column:
    """Whether each named column matches its shell pattern."""
    fits = F.lit(True)
    for name, pattern in patterns.items():
        if pattern != "*":
            fits = fits & F.col(name).rlike(fnmatch.translate(pattern))
    return fits


def _needs(table: str, rows: DataFrame, names: list[str]) -> None:
    lacking = [name for name in names if name not in rows.columns]
    if lacking:
        raise FleetError([Fault(table, name, "the column is missing", "Add it") for name in lacking])


def either(table: str, rows: DataFrame | None, by_pattern: bool) -> None:
    """Refuse a change that is given both as rows and by pattern, or not at all."""
    if (rows is None) != by_pattern:
        raise FleetError([Fault(table, "*", "rows and patterns are both given, or neither", "Give one of the two")])


def leavers(fleet: Fleet, *, cluster: str, group_id: str, member_id: str, number: int | None) -> DataFrame:
    """The members that match; with `number`, only so many of each group, the first by id."""
    found = fleet.members.where(matches(cluster=cluster, group_id=group_id, member_id=member_id)).select(*MEMBER_KEY)
    if number is None:
        return found
    by_id = Window.partitionBy(*GROUP_KEY).orderBy(string_order("member_id"))
    return found.withColumn("nth", F.row_number().over(by_id)).where(F.col("nth") <= number).drop("nth")


def without_members(fleet: Fleet, gone: DataFrame) -> Fleet:
    """The fleet without these members; what they owned goes to `departed`, their tasks to `departed_tasks`."""
    _needs("leavers", gone, MEMBER_KEY)
    gone = gone.select(*MEMBER_KEY).distinct()
    change: dict[str, DataFrame] = {
        name: getattr(fleet, name).join(gone, MEMBER_KEY, "left_anti")
        for name in ("members", "subscriptions", "owned", "owned_runs", "tasks")
        if getattr(fleet, name) is not None
    }
    owned = fleet.owned_runs if fleet.owned is None else fleet.owned
    if owned is not None:
        left = owned.join(gone, MEMBER_KEY, "left_semi")
        left = left.select(*MEMBER_KEY, "topic", "first", "step", "count") if fleet.owned is None else compress(left)
        change["departed"] = left if fleet.departed is None else fleet.departed.unionByName(left)
    if fleet.tasks is not None:
        had = fleet.tasks.join(gone, MEMBER_KEY, "left_semi")
        before = fleet.departed_tasks
        change["departed_tasks"] = had if before is None else before.unionByName(had, allowMissingColumns=True)
    return replace(fleet, **change)


def joiners(fleet: Fleet, *, cluster: str, group_id: str, number: int, member_id: str) -> DataFrame:
    """`number` new members for every group that matches: cluster, group_id, member_id."""
    if not 1 <= number <= MOST_JOINERS:
        problem = f"{number:,} members are to join every group that matches, expected 1 to {MOST_JOINERS:,}"
        raise FleetError([Fault("joiners", "number", problem, "Give more as a table of joiners")])
    groups = fleet.members.where(matches(cluster=cluster, group_id=group_id)).select(*GROUP_KEY).distinct()
    nth = F.explode(F.sequence(F.lit(1), F.lit(number)))
    return groups.select(*GROUP_KEY, nth.alias("nth")).select(
        *GROUP_KEY, F.concat(F.lit(member_id), F.format_string("%02d", "nth")).alias("member_id")
    )


def with_joiners(fleet: Fleet, new: DataFrame, topics: list[str] | None) -> Fleet:
    """The fleet with these members too, who own nothing."""
    _needs("joiners", new, MEMBER_KEY)
    known = [field.name for field in MEMBERS.fields if field.name in new.columns]
    members = fleet.members.unionByName(new.select(*known), allowMissingColumns=True)
    if topics is not None:
        params = new.select(*MEMBER_KEY, F.explode(F.array(*(F.lit(topic) for topic in topics))).alias("topic"))
    else:
        of_group = fleet.subscriptions.select(*GROUP_KEY, "topic").distinct()
        params = new.select(*MEMBER_KEY).join(of_group, GROUP_KEY)
    return replace(fleet, members=members, subscriptions=fleet.subscriptions.unionByName(params, True))


def led_by(fleet: Fleet, *, cluster: str, group_id: str, library: str, release: str | None) -> Fleet:
    """The fleet with another leader's library and release in the groups that match."""
    if library not in LIBRARIES:
        known = ", ".join(LIBRARIES)
        raise FleetError([Fault("groups", "client_library", f"{library!r} is not known", f"Give one of {known}")])
    if library == "Java" and release is not None and parse_release_assignor(f"sticky@{release}") is None:
        problem = f"no release of Kafka's clients is known as {release!r}"
        raise FleetError([Fault("groups", "client_version", problem, f"These answer alike: {format_release_lines()}")])
    groups = _groups_of(fleet)
    matching = matches(cluster=cluster, group_id=group_id)
    told = {"client_library": library, "client_version": release, "certainty": "given"}
    led = {name: F.when(matching, F.lit(value)).otherwise(F.col(name)) for name, value in told.items()}
    return replace(fleet, groups=groups.withColumns(led))


def with_capacity(
    fleet: Fleet, capacity: float | None, load_bound: float | None, *, cluster: str, group_id: str
) -> Fleet:
    """The fleet with these numbers in the groups that match; null leaves them as they are."""
    given = {name: value for name, value in (("capacity", capacity), ("load_bound", load_bound)) if value is not None}
    if not given:
        raise FleetError([Fault("groups", "capacity", "nothing is given", "Give capacity, load_bound or both")])
    if capacity is not None and not 0 < capacity < math.inf:
        raise FleetError([Fault("groups", "capacity", f"it is {capacity}", "Give messages a second, above 0")])
    if load_bound is not None and not 1 <= load_bound < math.inf:
        raise FleetError([Fault("groups", "load_bound", f"it is {load_bound}", "Give how many times the mean, from 1")])
    groups, matching = _groups_of(fleet), matches(cluster=cluster, group_id=group_id)
    for name, value in given.items():
        before = F.col(name) if name in groups.columns else F.lit(None).cast("double")
        groups = groups.withColumn(name, F.when(matching, F.lit(float(value))).otherwise(before))
    return replace(fleet, groups=groups)


def _groups_of(fleet: Fleet) -> DataFrame:
    """The table `groups`, with a row for every group where the fleet has none."""
    if fleet.groups is not None:
        return fleet.groups
    nothing = [field for field in GROUPS if field.nullable and field.metadata != ONLY_IF_GIVEN]
    named = fleet.members.select(*GROUP_KEY).distinct()
    return named.withColumns({field.name: F.lit(None).cast(field.dataType) for field in nothing})


def grown(fleet: Fleet, *, cluster: str, topic: str, factor: float | None, to: int | None) -> DataFrame:
    """New partition counts of the topics that match: cluster, topic, partitions."""
    if (factor is None) == (to is None):
        raise FleetError([Fault("topics", "partitions", "factor and to are both given, or neither", "Give one")])
    count = F.lit(to) if factor is None else F.ceil(F.col("partitions") * F.lit(float(factor)))
    return fleet.topics.where(matches(cluster=cluster, topic=topic)).select(
        *_TOPIC, count.try_cast("int").alias("partitions")
    )


def with_counts(fleet: Fleet, counts: DataFrame) -> Fleet:
    """The fleet with these partition counts; topics that it does not have are added."""
    _needs("partitions", counts, [*_TOPIC, "partitions"])
    others = fleet.topics.join(counts.select(*_TOPIC), _TOPIC, "left_anti")
    new = counts.select(*_TOPIC, F.col("partitions").try_cast("int").alias("partitions"))
    return replace(fleet, topics=others.unionByName(new, allowMissingColumns=True))


FORMS = (
    "as-is, leave:GROUPS:NUMBER, leave-members:MEMBERS, join:GROUPS:NUMBER, partitions:TOPICS:COUNT or "
    "partitions:TOPICS:xFACTOR"
)


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        name: what it is called in tables.
        apply: the fleet after it.

    Examples:
        >>> fewer = Change("one client less", lambda fleet: fleet.with_members_left(group_id="payments-*", number=1))
        >>> compared = compare(fleet, ["range"], [fewer]).where("group_id = 'payments-eu'")
        >>> compared.select("change", "members", "moved").show()
        +---------------+-------+-----+
        |         change|members|moved|
        +---------------+-------+-----+
        |one client less|      1|    3|
        +---------------+-------+-----+
    """

    name: str
    apply: Callable[[Fleet], Fleet]


AS_IS = Change("as-is", lambda fleet: fleet)
"""Nothing changes: what it takes to go over to an assignor, or to rebalance with it once more."""


def members_left(*, group_id: str = "*", member_id: str = "*", number: int | None = None, name: str = "") -> Change:
    """Members leave: those that match these shell patterns, of each group the first `number` by id (null: all)."""
    told = f"leave:{group_id}:{number}" if number is not None else f"leave-members:{member_id}"
    return Change(
        name or told, lambda fleet: fleet.with_members_left(group_id=group_id, member_id=member_id, number=number)
    )


def members_joined(*, number: int, group_id: str = "*", name: str = "") -> Change:
    """`number` members join each group that matches the shell pattern; they subscribe to what the group does."""
    return Change(
        name or f"join:{group_id}:{number}", lambda fleet: fleet.with_members_joined(group_id=group_id, number=number)
    )


def partitions_added(*, topic: str = "*", factor: float | None = None, to: int | None = None, name: str = "") -> Change:
    """The topics that match get `factor` times their partitions, or exactly `to`."""
    told = f"partitions:{topic}:{f'x{factor:g}' if factor is not None else to}"
    return Change(name or told, lambda fleet: fleet.with_partitions(topic=topic, factor=factor, to=to))


def read_change(text: str) -> Change:
    """A change from its words (the module's page), `NAME=` before them if it is to have a name of its own.

    Raises:
        ConfigError: the words are no change; says what was expected.
    """
    kind, _, rest = text.partition(":")
    name, named, kind = kind.rpartition("=")
    if named and not name:
        raise ConfigError(f"change {text}: there is no name before =")
    pattern, _, number = rest.rpartition(":")
    if kind == "as-is" and not rest:
        return Change(name or AS_IS.name, AS_IS.apply)
    if kind == "leave-members" and rest:
        return members_left(member_id=rest, name=name or text)
    if kind == "leave" and pattern:
        return members_left(group_id=pattern, number=_whole(number, text), name=name or text)
    if kind == "join" and pattern:
        return members_joined(group_id=pattern, number=_whole(number, text), name=name or text)
    if kind == "partitions" and pattern and number.startswith("x"):
        return partitions_added(topic=pattern, factor=_factor(number[1:], text), name=name or text)
    if kind == "partitions" and pattern:
        return partitions_added(topic=pattern, to=_whole(number, text), name=name or text)
    raise ConfigError(f"change {text}: expected one of {FORMS}, for example leave:payments-*:1")


def _whole(number: str, text: str) -> int:
    if not number.isdecimal() or not 1 <= int(number) <= MOST:
        raise ConfigError(f"change {text}: {number or 'nothing'} is no whole number from 1 to {MOST:,}")
    return int(number)


def _factor(number: str, text: str) -> float:
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not 0 < factor <= MOST:
        raise ConfigError(f"change {text}: x{number} is no factor, write x2 or x1.5")
    return factor


MOST = 100_000
"""More members of one group, or more partitions of one topic, are a typing error."""
