"""The input tables of a fleet of clusters: topics, groups, members, and ownership. `api.Fleet` is the public class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.numeric.arrays import MAX_REPLICAS
from spark_assign.spark import subscription_lists
from spark_assign.spark.dataframes import compress, from_lists
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import Fault, FleetError, count
from spark_assign.tables.groups import (
    ASSIGNMENT_SLICES,
    EMPTY_STATES,
    GROUP_KEY,
    INPUT_TABLES,
    OWNERSHIP,
    REQUIRED_TABLES,
)
from spark_assign.tables.schema_check import check_schemas


@dataclass(frozen=True)
class FleetTables:
    """The input tables of a fleet, which `api.Fleet` describes; its columns and types are checked when it is made.

    Raises:
        FleetError: a table or column is missing, or has a wrong type. The message lists every fault.
    """

    topics: DataFrame
    members: DataFrame
    subscriptions: DataFrame | None = None
    owned: DataFrame | None = None
    owned_slices: DataFrame | None = None
    replicas: DataFrame | None = None
    brokers: DataFrame | None = None
    groups: DataFrame | None = None
    subtopologies: DataFrame | None = None
    tasks: DataFrame | None = None
    changelogs: DataFrame | None = None
    initialized: DataFrame | None = None
    loads: DataFrame | None = None
    departed: DataFrame | None = None
    departed_tasks: DataFrame | None = None
    subscription_lists: DataFrame | None = None
    owned_lists: DataFrame | None = None
    undescribed: DataFrame | None = None

    def __post_init__(self) -> None:
        faults = check_schemas(self, _SCHEMAS, REQUIRED_TABLES)
        given = [name for name in OWNERSHIP if getattr(self, name) is not None]
        if len(given) > 1:
            faults.append(Fault(given[0], "*", f"{' and '.join(given)} are given", "Give only one of them"))
        if self.tasks is not None and self.subtopologies is None:
            problem = "the table is missing, but tasks is given"
            faults.append(Fault("subtopologies", "*", problem, "Add it: each task belongs to a subtopology"))
        if faults:
            raise FleetError(faults)

    @property
    def sizes(self) -> Sizes:
        """As `checked`, of a fleet with members.

        Raises:
            FleetError: as `checked`, or the fleet is empty.
        """
        if not self.checked.members and not self.checked.undescribed:
            problem = "the fleet is empty: there are no members"
            raise FleetError([Fault("members", "*", problem, "Give at least one member of one group")])
        return self.checked

    @cached_property
    def checked(self) -> Sizes:
        """Number of rows per table, counted and checked by one Spark query per fleet.

        Raises:
            FleetError: the fleet has faulty rows that belong to no group. The message lists every fault.
        """
        return check_fleet({name: getattr(self, name) for name in _TABLES})

    @property
    def unknown(self) -> list[str]:
        """What the fleet lacks that can change a plan, in sentences that name the tables and columns.

        A group without a known assignor is rejected, and a leader that isn't known is in `metrics.leader_client`.

        Raises:
            FleetError: as `sizes`.
        """
        sizes, sentences = self.sizes, []
        if all(getattr(self, name) is None for name in (*OWNERSHIP, "tasks")):
            sentences.append(
                f"What members own isn't known ({', '.join(OWNERSHIP)}): every partition counts as moved to its first "
                "owner, and sticky assignors start from nothing."
            )
        missing = [name for name in ("replicas", "brokers") if getattr(self, name) is None]
        if not missing and not sizes.racked_brokers:
            missing = ["brokers.rack_id"]
        if missing and sizes.racked_members:
            members = count(sizes.racked_members, "member", "has", "have")
            racks = f"Racks of replicas aren't known ({', '.join(missing)}), but {members} a rack"
            sentences.append(f"{racks}: planned without racks.")
        elif not missing and not sizes.racked_members:
            sentences.append("No member has a rack (members.rack_id), but brokers have: planned without racks.")
        if self.groups is None:
            sentences.append("Types of groups aren't known (groups): planned as classic.")
        elif untyped := sizes.groups - sizes.typed_groups:
            types = f"The type of {count(untyped, 'group')} isn't known (groups.group_type)"
            sentences.append(f"{types}: planned as classic.")
        measured = ("in_messages_per_second", "group_id", "out_messages_per_second", "lag")
        absent = [f"loads.{name}" for name in measured if not getattr(sizes, f"loads_{name}")]
        if self.loads is None:
            sentences.append("Loads aren't known (loads): balance is by number of partitions.")
        elif absent:
            effect = "loads of members, and the time in which they read their lag, can be unknown"
            sentences.append(f"Nothing is known of {', '.join(absent)}: {effect}.")
        return sentences

    @cached_property
    def found(self) -> dict[str, DataFrame]:
        """Answers of queries over the whole fleet by name, which are asked once per fleet, until `unpersist`."""
        return {}

    @property
    def subscription_rows(self) -> DataFrame:
        """One row per member and subscribed topic: cluster, group_id, member_id, topic, from both tables."""
        return subscription_lists.all_rows(self.subscriptions, self.subscription_lists)

    @property
    def subscribed_topics(self) -> DataFrame:
        """The topics that members of each group subscribe to: cluster, group_id, topic."""
        return subscription_lists.all_topics(self.subscriptions, self.subscription_lists)

    def ownership_slices(self) -> DataFrame | None:
        """Returns what live members own as slices (columns as in `owned_slices`); None if unknown."""
        if self.owned is not None:
            return compress(self.owned)
        slices = self.owned_slices if self.owned_lists is None else from_lists(self.owned_lists)
        return None if slices is None else slices.select(*ASSIGNMENT_SLICES.names)

    @property
    def unknown_groups(self) -> DataFrame | None:
        """The rows of `undescribed` of groups whose members aren't known; None if there is no such table.

        A group whose offsets couldn't be read has a row, too, but its members are known. The data tells them apart: a
        described group has members, or a state that says that it has none, which a snapshot gives to no other group.
        The text of the error can be a broker's, and a column would be missing in stored snapshots.
        """
        if self.undescribed is None:
            return None
        described = self.members.select(*GROUP_KEY)
        if self.groups is not None:
            described = described.union(self.groups.where(F.col("state").isin(*EMPTY_STATES)).select(*GROUP_KEY))
        return self.undescribed.join(described, GROUP_KEY, "left_anti")

    def unpersist(self) -> None:
        """Discards `checked` and `found`, so that changed tables are checked again."""
        for name in ("checked", "found"):
            self.__dict__.pop(name, None)

    def filter_groups(self, groups: DataFrame) -> Self:
        """Returns the fleet with only these groups (cluster, group_id)."""
        groups = groups.select(*GROUP_KEY).distinct()
        tables = {name: getattr(self, name) for name in _TABLES if name not in _CLUSTER_KEYS}
        kept = {name: table.join(groups, GROUP_KEY, "left_semi") for name, table in tables.items() if table is not None}
        return replace(self, **kept)

    @property
    def racks_known(self) -> bool:
        """Whether the fleet has the tables that rack awareness needs: replicas and brokers."""
        return self.replicas is not None and self.brokers is not None


_TABLES = tuple(field.name for field in fields(FleetTables))
_SCHEMAS = INPUT_TABLES | {"departed": INPUT_TABLES["owned_slices"], "departed_tasks": INPUT_TABLES["tasks"]}
_CLUSTER_KEYS = {
    "topics": ["cluster", "topic"],
    "replicas": ["cluster", "topic", "partition"],
    "brokers": ["cluster", "broker_id"],
    "loads": ["cluster", "topic", "partition"],
}
"""Keys of the tables with rows that don't belong to a single group."""


# --- checks a fleet's tables before planning: their sizes and their faults ------------------------------------
#
# A faulty row that names its group only affects that group, which the plan then rejects (`assignors.group_facts`). Any
# other faulty row invalidates the fleet and raises `FleetError`.


_TWICE = "twice"
_KEYS = dict.fromkeys(INPUT_TABLES, GROUP_KEY) | _CLUSTER_KEYS
"""Key columns that identify a faulty row of each table; null in a key means that no group can be blamed."""

_UNIQUE = ("topics", "replicas", "brokers")
"""Tables without a group whose keys must be unique."""


def is_no_list_of_replicas(ids: Column) -> Column:
    """Returns the condition that a list is null, has a null, or has more than `MAX_REPLICAS` items."""
    return ids.isNull() | (F.size(F.array_compact(ids)) < F.size(ids)) | (F.size(ids) > MAX_REPLICAS)


_CONDITIONS: Mapping[str, Mapping[str, Callable[[Column], Column]]] = {
    "topics": {"partitions": lambda partitions: partitions.isNull() | (partitions < 0)},
    "replicas": {
        "replicas": is_no_list_of_replicas,
        "partition": lambda partition: partition.isNull() | (partition < 0),
    },
}
"""Faults of columns other than null in a key. As SQL texts, Sail would keep 40 kB of each that it parses."""

_MEASURES: Mapping[str, tuple[str, str, Callable[[Column], Column]]] = {
    "racked_members": ("members", "rack_id", lambda rack: rack != ""),
    "racked_brokers": ("brokers", "rack_id", lambda rack: rack != ""),
    "typed_groups": ("groups", "group_type", lambda kind: kind.isNotNull()),
    **{
        f"loads_{name}": ("loads", name, lambda value: value.isNotNull())
        for name in ("group_id", "in_messages_per_second", "out_messages_per_second", "lag")
    },
    "static_members": ("members", "group_instance_id", lambda instance: instance.isNotNull()),
    "share_groups": ("groups", "group_type", lambda kind: kind == "share"),
    "streams_groups": ("groups", "group_type", lambda kind: kind == "streams"),
    "franz_go_groups": ("groups", "leader_library", lambda library: library == "franz-go"),
    "windowed_groups": ("groups", "assignor", lambda assignor: assignor.isin("range", "roundrobin")),
    "pairs": ("subscription_lists", "topics", lambda topics: F.array_size("member_ids") * _long_size(topics)),
    "names": ("subscription_lists", "topics", lambda topics: F.array_size("member_ids") + _long_size(topics)),
    "listed_slices": ("owned_lists", "topics", F.array_size),
}
"""Sums over the rows of a table: the table, its column, and the number of each row, or whether it counts."""

_COUNTED = ("members", "groups", "subscriptions", "owned", "owned_slices", "subtopologies", "tasks", "undescribed")

_PROBLEMS: list[tuple[str, str | None]] = [
    (table, problem)
    for table, key in _KEYS.items()
    for problem in (None, *dict.fromkeys([*key, *_CONDITIONS.get(table, ())]))
]
"""Tables and their columns that can be faulty; None: no fault. Grouping by an index is cheaper than by names."""


@dataclass(frozen=True)
class Sizes:
    """Number of rows per table.

    Attributes:
        racked_members, static_members: members with a rack, and with an instance ID.
        racked_brokers: brokers with a rack.
        loads_group_id, …: rows of `loads` in which the column isn't null.
        groups, typed_groups: rows of `groups`, and those with a type.
        share_groups, streams_groups: rows of `groups` with this type.
        franz_go_groups: rows of `groups` with a leader that is franz-go.
        windowed_groups: rows of `groups` with an assignor that Spark windows compute (`groups.windows`).
        subscriptions: subscriptions as rows of a member and a topic, although they may be given as lists.
        subscription_facts: rows of `subscriptions`, and names in `subscription_lists`.
        owned_slices: slices, although they may be given as lists.
    """

    members: int
    groups: int
    racked_members: int
    racked_brokers: int
    typed_groups: int
    loads_group_id: int
    loads_in_messages_per_second: int
    loads_out_messages_per_second: int
    loads_lag: int
    static_members: int
    share_groups: int
    streams_groups: int
    franz_go_groups: int
    windowed_groups: int
    subscriptions: int
    subscription_facts: int
    owned: int
    owned_slices: int
    subtopologies: int
    tasks: int
    undescribed: int


@progress("checking the fleet", 1)
def check_fleet(tables: Mapping[str, DataFrame | None]) -> Sizes:
    """Counts the fleet's rows and checks those that belong to no group, in one query.

    Raises:
        FleetError: rows are faulty; lists every kind of fault with its count and an example.
    """
    present = {name: table for name in _KEYS if (table := tables.get(name)) is not None}
    looked = reduce(DataFrame.unionByName, [_rows(name, table) for name, table in present.items()])
    valid_indexes = [index for index, (_, problem) in enumerate(_PROBLEMS) if problem is None]
    is_duplicate = F.col("what").isin(valid_indexes) & F.col("key").isNotNull() & (F.col("rows") > 1)
    aggregates = {"rows": F.count(F.lit(1)), **{name: F.sum(name) for name in _MEASURES}}
    summary = (
        looked.groupBy("what", "key")
        .agg(*(value.alias(name) for name, value in aggregates.items()))
        .groupBy("what", is_duplicate.alias("twice"))
        .agg(*(F.sum(name).alias(name) for name in aggregates), F.min("key").alias("example"))
        .collect()  # a row or two per table and kind of fault
    )
    results = [(*_PROBLEMS[row["what"]], row) for row in summary]
    faulty = [(table, problem or _TWICE, row) for table, problem, row in results if problem or row["twice"]]
    if faulty:
        faults = [_fault(table, problem, row["rows"], row["example"]) for table, problem, row in faulty]
        raise FleetError(sorted(faults, key=str))
    counts = {name: sum(row["rows"] for table, _, row in results if table == name) for name in _COUNTED}
    counts |= {name: sum(row[name] or 0 for row in summary) for name in _MEASURES}
    counts["subscription_facts"] = counts["subscriptions"] + counts.pop("names")
    counts["subscriptions"] += counts.pop("pairs")
    counts["owned_slices"] += counts.pop("listed_slices")
    return Sizes(**counts)


def _rows(table: str, rows: DataFrame) -> DataFrame:
    """Returns the rows to check: faulty candidates with their key, other rows only to be counted.

    Returns:
        what (index into `_PROBLEMS`), key (text; null: only counted), and the measures.
    """
    conditions = {name: F.col(name).isNull() for name in _KEYS[table]}
    conditions |= {name: is_fault(F.col(name)) for name, is_fault in _CONDITIONS.get(table, {}).items()}
    fault = F.coalesce(*(F.when(value, F.lit(_PROBLEMS.index((table, name)))) for name, value in conditions.items()))
    key = _show(_KEYS[table]) if table in _UNIQUE else F.when(fault.isNotNull(), _show(_KEYS[table]))
    measures = {
        name: measure(F.col(column)) if table == of else F.lit(0) for name, (of, column, measure) in _MEASURES.items()
    }
    return rows.select(
        # Not coalesce, of which Sail and the DataFrame's schema disagree whether it can be null.
        F.when(fault.isNull(), F.lit(_PROBLEMS.index((table, None)))).otherwise(fault).alias("what"),
        key.alias("key"),
        *(value.cast("long").alias(name) for name, value in measures.items()),
    )


def _long_size(list: Column) -> Column:
    return F.array_size(list).cast("long")


def _show(columns: list[str]) -> Column:
    """Formats the columns of a row for a message: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))


def _fault(table: str, problem: str, rows: int, example: str) -> Fault:
    where = f"{count(rows, 'row')}, e.g. {example}"
    if problem == _TWICE:
        what = " and ".join(_KEYS[table])
        return Fault(table, _KEYS[table][-1], f"the same key twice: {where}", f"Keep one row per {what}")
    if problem == "partitions":
        return Fault(table, problem, f"null, negative or beyond int: {where}", "Give the topic's number of partitions")
    if table == "replicas" and problem in ("replicas", "partition"):
        what = f"null or more than {MAX_REPLICAS:,} brokers" if problem == "replicas" else "null or negative"
        return Fault(table, problem, f"{what}: {where}", "List the broker ids of an existing partition")
    return Fault(table, problem, f"null in a key: {where}", "Fill it in or leave the row out")
