"""Plans a fleet: every group by its assignor, in one pass over the fleet.

    tables ─ check ─ facts ─ assignors ─ changes ─ tagged rows ─ projections

One query checks the tables. Then the rows of all tables become facts, with all facts of a group in one Spark task.
Windows compute range and round robin; kernels (`groups.kernel`) compute everything else. The pass returns one table of
tagged rows, and every table of the plan is a projection of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property, partial
from importlib.metadata import entry_points
from typing import Any, ClassVar, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from spark_assign.assignors.custom import GroupAssignor
from spark_assign.assignors.release_rules import (
    CLIENT_ASSIGNORS,
    client_assignor,
    format_release_lines,
    is_release_assignor,
    uses_owned_order,
)
from spark_assign.assignors.server import (
    KAFKA_SERVER_ASSIGNORS,
    RACK_SERVER_ASSIGNORS,
    TOPIC_ID_ASSIGNORS,
    UNIFORM_4_0_0,
)
from spark_assign.assignors.sticky import COOPERATIVE_STICKY, STICKY
from spark_assign.assignors.weighted import WEIGHTED_STICKY
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.groups.kernel import plan_groups as kernel
from spark_assign.groups.kernel.ownership_changes import DELTA_LISTS, NAMED_DELTAS, find_deltas, name_deltas
from spark_assign.groups.kernel.plan_groups import (
    ASSIGNED,
    ASSIGNED_ALIKE,
    CHANGED_TOPIC,
    CONFIGURED,
    METRICS,
    ORDER_DEPENDENT,
    REJECTED,
    WITHHELD,
    PlanParams,
    columns_of,
    plan_groups,
)
from spark_assign.groups.windows import WINDOW_SLICES
from spark_assign.spark.dataframes import expand, map_arrow_batches, map_arrow_chunks
from spark_assign.stores.result import PassResult
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY, PLAN_TABLES
from spark_assign.tables.stored_plan import STORED_PLAN_TABLES
from spark_assign.tables.views import VIEWS

PLAN_ROWS = from_arrow_schema(kernel.PLAN_ROWS)
"""Spark schema of the tagged rows of the planning pass (`groups.kernel.plan_groups`)."""
_SLICES = "array<struct<member_id: string, first: int, step: int, count: int>>"
"""Type of the slices of a row that are expanded to rows of their own."""
_KINDS = {
    "assignments": {ASSIGNED, ASSIGNED_ALIKE},
    "assignment_slices": {ASSIGNED, ASSIGNED_ALIKE},
    "moves": {CHANGED_TOPIC},
    "revocations": {CHANGED_TOPIC},
    "metrics": {METRICS},
    "rejected": {REJECTED},
}
"""Kinds of tagged rows that each table of a plan is made of."""


@dataclass(frozen=True)
class Plan(PassResult):
    """The planned assignments, as lazy DataFrames (columns: `tables.groups.PLAN_TABLES`).

    Every consumer group of the fleet is in `metrics` or in `rejected`. Groups of other protocols, which a snapshot also
    lists in `groups`, aren't part of a plan. Each table is one pass over the fleet, unless the tagged rows are stored
    (`with_tagged_rows`).

    Attributes:
        fleet: the planned fleet.
        compute_rows: computes the tagged rows of the required kinds in one pass (`groups.kernel.plan_groups`).
        stored: tagged rows of an earlier pass, read from storage; None if every table is computed.

    Examples:
        >>> planned = plan(fleet, "range")
        >>> planned.metrics.select("group_id", "assignor", "members", "partitions", "moved").orderBy("group_id").show()
        +-----------+--------+-------+----------+-----+
        |   group_id|assignor|members|partitions|moved|
        +-----------+--------+-------+----------+-----+
        |  encoder-a|   range|      2|         3|    0|
        |payments-eu|   range|      2|         3|    1|
        +-----------+--------+-------+----------+-----+
        >>> planned.rejected.count()
        0
    """

    schemas: ClassVar = PLAN_TABLES
    stored_with: ClassVar = STORED_PLAN_TABLES

    fleet: FleetTables
    compute_rows: Callable[[frozenset[str]], DataFrame]
    stored: DataFrame | None = None

    @property
    def unknown(self) -> list[str]:
        """What the fleet lacks that can change the plan, in sentences (`FleetTables.unknown`); the manifest has it."""
        return super().unknown if "_unknown" in vars(self) else self.fleet.unknown

    def tagged_rows(self, tables: Iterable[str] = ()) -> DataFrame:
        """Returns the tagged rows that these tables are projections of, with the columns of `PLAN_ROWS` that they
        use."""
        return self.rows(*sorted({kind for table in tables or PLAN_TABLES for kind in _KINDS[table]}))

    def with_tagged_rows(self, rows: DataFrame) -> Self:
        """Returns the same plan, reading its tagged rows from a table instead of computing them."""
        return replace(self, stored=rows)

    @cached_property
    def assignments(self) -> DataFrame:
        """One row per assigned partition: cluster, group_id, member_id, topic, partition."""
        return expand(self.assignment_slices)

    @cached_property
    def assignment_slices(self) -> DataFrame:
        """The assignments as slices: partitions first, first + step, … (`count` of them) of one topic."""
        return self._slices(ASSIGNED, ASSIGNED_ALIKE)

    @cached_property
    def withheld(self) -> DataFrame:
        """Slices that their next owner gets in the following round, after the current owner has revoked them.

        Only cooperative-sticky, weighted-sticky, and the assignors of the broker withhold partitions.
        """
        return self._slices(WITHHELD)

    @cached_property
    def target(self) -> DataFrame:
        """The final assignment as slices: `assignment_slices` and `withheld`."""
        return self._slices(ASSIGNED, ASSIGNED_ALIKE, WITHHELD)

    @cached_property
    def order_dependent(self) -> DataFrame:
        """Slices of `target` that Kafka might assign to another member, because the owner depends on an order that the
        fleet doesn't determine.

        Computed only for `uniform` and franz-go's sticky balancers. A partition that isn't listed has the same owner in
        every possible order of members, topics, and owned partitions (`assignors.server.order_dependence`,
        `assignors.franz_go.order_dependence`).
        """
        return self._slices(ORDER_DEPENDENT)

    @cached_property
    def moves(self) -> DataFrame:
        """Every change of ownership, with its reason (`groups.kernel.ownership_changes`).

        One row per partition and owner that loses it; one row if the partition had no owner. Columns: cluster,
        group_id, topic, partition, from_member_id (null: no owner before), to_member_id (null: no owner after), reason.
        """
        return expand(moved_slices(self.rows(CHANGED_TOPIC))).select(*PLAN_TABLES["moves"].names)

    @cached_property
    def revocations(self) -> DataFrame:
        """Partitions that live members own and must give up: cluster, group_id, member_id, topic, partition,
        next_member_id.
        """
        renamed = {"from_member_id": "member_id", "to_member_id": "next_member_id"}
        rows = revoked_slices(self.rows(CHANGED_TOPIC)).withColumnsRenamed(renamed)
        return expand(rows).select(*PLAN_TABLES["revocations"].names)

    @cached_property
    def metrics(self) -> DataFrame:
        """One row per planned group: balance, moves, and irregularities (`tables.groups.METRICS`)."""
        return self.rows(METRICS).select(*PLAN_TABLES["metrics"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that can't be planned: cluster, group_id, code, detail (what to do)."""
        return self.rows(REJECTED).select(*PLAN_TABLES["rejected"].names)

    @property
    def groups(self) -> DataFrame:
        """The planned groups: cluster, group_id, assignor."""
        return self.metrics.select(*GROUP_KEY, "assignor")

    def _repr_html_(self) -> str:
        """Returns the HTML that Jupyter and Databricks display for a plan at the end of a cell."""
        return VIEWS["notebook_view"](self)

    def rows(self, *kinds: str) -> DataFrame:
        """Returns the tagged rows of these kinds (`groups.kernel.plan_groups`), computed in one pass."""
        rows = self._computed_from(self.compute_rows)(frozenset(kinds)) if self.stored is None else self.stored
        return rows.where(F.col("kind").isin(*kinds))

    def _slices(self, *kinds: str) -> DataFrame:
        rows = self.rows(*kinds)
        if "topics" in rows.columns:
            is_alike = F.col("kind") == ASSIGNED_ALIKE
            slices = F.arrays_zip("member_ids", "firsts", "steps", "counts").cast(_SLICES)
            one = F.array(F.struct("member_id", "first", "step", "count")).cast(_SLICES)
            rows = rows.select(
                *GROUP_KEY,
                F.inline(F.when(is_alike, slices).otherwise(one)),
                F.when(is_alike, F.col("topics")).otherwise(F.array("topic")).alias("topics"),
            ).withColumn("topic", F.explode("topics"))
        return rows.select(*PLAN_TABLES["assignment_slices"].names)


def plan(fleet: FleetTables, assignor: str | Mapping[str, str] = CONFIGURED) -> Plan:
    """Plans every group of a fleet exactly as Kafka's own assignors do.

    Args:
        fleet: clusters, topics, groups, and members.
        assignor: the name of one assignor for all groups; or `configured`, the assignor of each group
            (`fleet.groups.assignor`); or a mapping from patterns over group_id to one of these
            (`{"payments-*": "range", "*": "configured"}`). The first matching pattern wins.

    Returns:
        the plan. Its tables are lazy, except for one query that counts and checks the fleet's rows when the fleet is
        planned for the first time.

    Raises:
        ConfigError: no assignor has that name.
        FleetError: the fleet has faulty rows that don't belong to one group.

    Examples:
        >>> planned = plan(fleet, {"payments-*": "cooperative-sticky", "*": "configured"})
        >>> planned.moves.where("group_id = 'payments-eu'").select("partition", "to_member_id", "reason").show()
        +---------+-------------+----------+
        |partition| to_member_id|    reason|
        +---------+-------------+----------+
        |        2|payments-eu-1|over-quota|
        +---------+-------------+----------+
    """
    patterns = {"*": assignor} if isinstance(assignor, str) else dict(assignor)
    params = build_params(fleet, patterns)

    def compute_rows(required_kinds: frozenset[str]) -> DataFrame:
        facts_by_group = gather_plan_facts(fleet, patterns, loads=METRICS in required_kinds)
        columns = StructType([PLAN_ROWS[name] for name in columns_of(required_kinds)])
        return facts_by_group.mapInArrow(
            map_arrow_batches(partial(plan_groups, params=replace(params, required_kinds=required_kinds))), columns
        )

    return Plan(fleet, compute_rows)


def build_params(fleet: FleetTables, patterns: Mapping[str, str]) -> PlanParams:
    """Returns the parameters of a planning pass over the fleet, after checking its tables.

    Raises:
        ConfigError, FleetError: as `plan` does.
    """
    for name in sorted(set(patterns.values()) - {CONFIGURED}):
        find_assignor(name)
    _ = fleet.sizes
    return PlanParams(
        patterns=tuple(patterns.items()),
        registered=tuple(assignor_names()),
        custom=custom_assignors(),
        racks_known=fleet.racks_known,
        loads_known=fleet.loads is not None,
    )


def gather_plan_facts(fleet: FleetTables, patterns: Mapping[str, str], *, loads: bool = False) -> DataFrame:
    """Returns the fleet's facts by group, with the slices of the window assignors that these patterns might select.

    If `loads` is true, the facts include partition loads as far as the fleet has them.
    """
    custom = custom_assignors()
    selected = {client_assignor(name) for name in patterns.values() if name not in custom}
    any_configured = CONFIGURED in selected and fleet.groups is not None
    any_windowed = any_configured and fleet.sizes.windowed_groups > 0
    window_assignors = [name for name in WINDOW_SLICES if name not in custom and (any_windowed or name in selected)]
    loads = loads or any_configured or WEIGHTED_STICKY in selected
    topic_ids = any_configured or not selected.isdisjoint(TOPIC_ID_ASSIGNORS)
    owned_order = topic_ids or CONFIGURED in selected or any(uses_owned_order(name) for name in patterns.values())
    has_franz_go = any_configured and fleet.sizes.franz_go_groups > 0
    leaders = has_franz_go or any(name.endswith("@franz-go-1.21") for name in patterns.values())
    return facts.facts_by_group(
        fleet,
        window_assignors,
        leaders="current" if leaders else None,
        user_data=bool(custom),
        topic_ids=topic_ids,
        owned_order=owned_order,
        loads=loads,
    )


# --- moves and cooperative revocations: a pandas UDF turns each topic in which an owner changes into slices --------
#
# The pass over whole groups returns a row for each such topic (`groups.kernel.ownership_changes`). The UDF compares
# what is owned with what is planned, in the task that has the row; nothing is shuffled. Its indexes become names in
# Arrow, because an SQL function of each index makes Sail copy the whole list of names for each of them.


_DELTAS = StructType([StructField(name, ArrayType(IntegerType(), containsNull=False)) for name in DELTA_LISTS])
_FROM_ROW = ("partitions", "member_flags", "owned", "planned")


def moved_slices(changed: DataFrame) -> DataFrame:
    """Returns every change of owner, as slices.

    Args:
        changed: the rows of the plan of the kind `changed_topic`.

    Returns:
        cluster, group_id, topic, from_member_id (null: no owner before), to_member_id (null: no owner after), first,
        step, count, reason.
    """
    return _delta_slices(changed, revocations=False)


def revoked_slices(changed: DataFrame) -> DataFrame:
    """Returns what live members must give up (KIP-429): the columns of `moved_slices`.

    `to_member_id` gets the slice next; it may be the member that gives it up.
    """
    return _delta_slices(changed, revocations=True)


def _delta_slices(changed: DataFrame, *, revocations: bool) -> DataFrame:
    """Returns the slices of the deltas of each row."""
    import pandas as pd  # half of the time that a job takes to check its options
    from pyspark.sql.pandas.functions import pandas_udf

    def find(partitions: Any, member_flags: Any, owned: Any, planned: Any) -> Any:
        lists = (column.tolist() for column in (member_flags, owned, planned))
        return pd.DataFrame(find_deltas(partitions.to_numpy("int64"), *lists, revocations=revocations))

    find.__annotations__ = {name: pd.DataFrame if name == "return" else pd.Series for name in find.__annotations__}
    deltas = pandas_udf(find, _DELTAS)  # type: ignore[call-overload]
    rows = changed.select(*GROUP_KEY, "topic", "member_ids", deltas(*_FROM_ROW).alias("delta"))
    rows = rows.select(*GROUP_KEY, "topic", "member_ids", "delta.*")
    return rows.mapInArrow(map_arrow_chunks(name_deltas, chunk_rows=1), from_arrow_schema(NAMED_DELTAS))


# --- names of assignors --------------------------------------------------------------------------------------------
#
# Three sources; later ones take precedence: Kafka's own assignors; installed packages with the entry point
# `spark_assign.assignors` (name: the assignor's name; value: a `GroupAssignor` or a class of one); `register` in the
# running program. A client assignor can have the suffix of a release (`sticky@2.8`) or of another library
# (`sticky@franz-go`, `assignors.release_rules`). `uniform@4.0.0` is that of brokers 4.0.0.


ENTRY_POINTS = "spark_assign.assignors"
KERNEL_ASSIGNORS = (STICKY, COOPERATIVE_STICKY, *KAFKA_SERVER_ASSIGNORS, *RACK_SERVER_ASSIGNORS, WEIGHTED_STICKY)
"""Assignors that are kernels over complete groups: Kafka's, and three of this project
(`assignors.server.OURS`, `weighted`)."""
_registered: dict[str, GroupAssignor] = {}


def register(name: str, assignor: GroupAssignor) -> None:
    """Registers an assignor under a name in this process, replacing an assignor of the same name.

    Raises:
        ConfigError: the object has no method `assign_group`.

    Examples:
        >>> class FirstMemberOnly(GroupAssignor):
        ...     def assign_group(self, group):
        ...         every = [(topic, n) for topic, count in group.partitions.items() for n in range(count)]
        ...         return {group.members[0].member_id: every}
        >>> register("first-member-only", FirstMemberOnly())
        >>> plan(fleet, "first-member-only").metrics.select("max_per_member", "min_per_member").distinct().show()
        +--------------+--------------+
        |max_per_member|min_per_member|
        +--------------+--------------+
        |             3|             0|
        +--------------+--------------+
    """
    if not callable(getattr(assignor, "assign_group", None)):
        raise ConfigError(f"{assignor!r} has no assign_group(group); derive it from GroupAssignor")
    _registered[name] = assignor


def assignor_names() -> list[str]:
    """Returns the sorted names of all registered assignors."""
    return sorted({*WINDOW_SLICES, *KERNEL_ASSIGNORS, *custom_assignors()})


def custom_assignors() -> dict[str, GroupAssignor]:
    """Returns the user-defined assignors by name; one can replace an assignor of Kafka's."""
    return {**_installed(), **_registered}


def find_assignor(name: str) -> GroupAssignor | str:
    """Returns the assignor with that name; Kafka's own, with or without a release, are represented by their name.

    Raises:
        ConfigError: no assignor has that name; the message lists the names.

    Examples:
        >>> find_assignor("sticky@2.8")
        'sticky@2.8'
    """
    if name in custom_assignors():
        return custom_assignors()[name]
    if name in assignor_names() or is_release_assignor(name) or name == UNIFORM_4_0_0:
        return name
    assignor, separator, release = name.partition("@")
    if separator and assignor in CLIENT_ASSIGNORS:
        raise ConfigError(
            f"{name!r}: {release!r} isn't a known release of Kafka's clients. "
            f"The release lines are: {format_release_lines()}"
        )
    if separator and assignor in assignor_names():
        raise ConfigError(
            f"{name!r}: a release (@VERSION) can be given only for {', '.join(CLIENT_ASSIGNORS)}, or as {UNIFORM_4_0_0}"
        )
    close = get_close_matches(name, assignor_names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ConfigError(f"no assignor is called {name!r}{hint} The assignors are: {', '.join(assignor_names())}")


@cache
def _installed() -> dict[str, GroupAssignor]:
    assignors: dict[str, GroupAssignor] = {}
    for point in entry_points(group=ENTRY_POINTS):
        loaded = point.load()
        assignors[point.name] = loaded() if isinstance(loaded, type) else loaded
    return assignors
