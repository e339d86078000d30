"""Plan a fleet: every group, each by its assignor, in one pass over the fleet.

    tables ─ check ─ facts ─ assignors ─ changes ─ decided ─ projections

The tables are checked in one query. Then their rows become facts, all of a group in one task; Range and round robin
are laid out by windows beforehand, everything else is a kernel (`groups.kernel`). It answers with one table of runs, of
which every table of the plan is a projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.assignors.release_rules import client_side, tells_order
from spark_assign.groups.assignors.server import BY_IDS
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel import plan_groups as kernel
from spark_assign.groups.kernel.plan_groups import (
    ASSIGNED,
    CONFIGURED,
    METRICS,
    MOVE,
    ORDER_DEPENDENT,
    REJECTED,
    REVOCATION,
    WITHHELD,
    PlanParams,
    columns_of,
    plan_groups,
)
from spark_assign.groups.registry import custom_assignors, find_assignor, names
from spark_assign.groups.windows import WINDOW_SLICES
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.partition_slices import expand
from spark_assign.stores.locations import time_as_run_id
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY, PLAN_TABLES

if TYPE_CHECKING:
    from spark_assign.stores.run_store import Manifest

_RUN = ("first", "step", "count")
PLAN_ROWS = from_arrow_schema(kernel.PLAN_ROWS)
"""Spark schema of the tagged rows of the planning pass (`groups.kernel.plan_groups`)."""

_KINDS = {
    "assignments": {ASSIGNED},
    "runs": {ASSIGNED},
    "moves": {MOVE},
    "revocations": {REVOCATION},
    "metrics": {METRICS},
    "rejected": {REJECTED},
}
"""Of each table of a plan the kinds of rows of `decided` that it is made of."""


@dataclass(frozen=True)
class Plan:
    """What would be assigned, as lazy DataFrames (columns: `tables.groups.PLAN_TABLES`).

    Every consumer group of the fleet is in `metrics` or in `rejected`. (Groups of other protocols, which a snapshot
    lists in `groups` beside them, are no part of a plan.) Each table is one pass over the fleet, unless `tagged_rows`
    is stored (`with_tagged_rows`).

    Attributes:
        fleet: what was planned.
        compute_rows: makes one pass for the kinds of rows that are wanted (`groups.kernel.plan_groups`).
        stored: what such a pass has answered, read back; null where every table is computed.

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

    fleet: Fleet
    compute_rows: Callable[[frozenset[str]], DataFrame]
    stored: DataFrame | None = None

    def tagged_rows(self, tables: Iterable[str] = tuple(PLAN_TABLES)) -> DataFrame:
        """All that these tables are projections of, as one table: those columns of `PLAN_ROWS` that they
        use."""
        return self.rows(*sorted({kind for table in tables for kind in _KINDS[table]}))

    def with_tagged_rows(self, decided: DataFrame) -> Plan:
        """The same plan reading its rows from where `decided` was written, in place of computing them."""
        return replace(self, stored=decided)

    @cached_property
    def assignments(self) -> DataFrame:
        """Who gets what: cluster, group_id, member_id, topic, partition."""
        return expand(self.runs)

    @cached_property
    def runs(self) -> DataFrame:
        """The same in compact form: who gets partitions first, first + step, … (count of them) of a topic."""
        return self._runs(ASSIGNED)

    @cached_property
    def withheld(self) -> DataFrame:
        """Runs that their next owner gets in the round after this one, once the present owner has given them up.

        Only cooperative-sticky, weighted-sticky and the assignors of the broker withhold.
        """
        return self._runs(WITHHELD)

    @cached_property
    def target(self) -> DataFrame:
        """Who has what in the end, as runs: `runs`, and what is withheld as yet."""
        return self._runs(ASSIGNED, WITHHELD)

    @cached_property
    def order_dependent(self) -> DataFrame:
        """Those runs of `target` that Kafka may give to somebody else: they hang on an order that the fleet lacks.

        Only `uniform` and franz-go's sticky balancers are asked for that. What is not in here is sure: it has this
        owner in each of the orders that there may be (of members, topics, and what a member has;
        `groups.assignors.server.order_dependence`, `groups.assignors.franz_go.order_dependence`).
        """
        return self._runs(ORDER_DEPENDENT)

    @cached_property
    def moves(self) -> DataFrame:
        """Every change of owner against what is owned now, with the reason (`groups.kernel.ownership_changes`).

        A row per partition and owner that loses it, one row where nobody owned it: cluster, group_id, topic, partition,
        from_member_id (null: nobody owned it), to_member_id (null: nobody gets it), reason.
        """
        rows = expand(self.rows(MOVE).select(*GROUP_KEY, "member_id", "next_member_id", "topic", *_RUN, "reason"))
        rows = rows.withColumnsRenamed({"member_id": "from_member_id", "next_member_id": "to_member_id"})
        return rows.select(*PLAN_TABLES["moves"].names)

    @cached_property
    def load_moves(self) -> DataFrame:
        """The same, and how much load moves: cluster, group_id, topic, partition, from_member_id, to_member_id, reason,
        load (messages a second that are written to the partition; null where `loads` does not say it)."""
        rows = self.rows(MOVE).select(
            *GROUP_KEY,
            "topic",
            F.col("member_id").alias("from_member_id"),
            F.col("next_member_id").alias("to_member_id"),
            "reason",
            *("first", "step", "loads"),
            F.explode(F.expr("sequence(0, count - 1)")).alias("at"),
        )
        partition = (F.col("first") + F.col("step") * F.col("at")).alias("partition")
        load = F.get("loads", F.col("at")).alias("load")
        return rows.select(*GROUP_KEY, "topic", partition, "from_member_id", "to_member_id", "reason", load)

    @cached_property
    def revocations(self) -> DataFrame:
        """What living members own and do not keep: cluster, group_id, member_id, topic, partition, next_member_id."""
        rows = expand(self.rows(REVOCATION).select(*MEMBER_KEY, "next_member_id", "topic", *_RUN))
        return rows.select(*PLAN_TABLES["revocations"].names)

    @cached_property
    def metrics(self) -> DataFrame:
        """A row per planned group: balance, churn, oddities (`tables.groups.METRICS`)."""
        return self.rows(METRICS).select(*PLAN_TABLES["metrics"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that could not be planned: cluster, group_id, code, detail (what to do)."""
        return self.rows(REJECTED).select(*PLAN_TABLES["rejected"].names)

    @property
    def groups(self) -> DataFrame:
        """cluster, group_id, assignor of the planned groups."""
        return self.metrics.select(*GROUP_KEY, "assignor")

    def write(
        self,
        place: str,
        *,
        run_id: str | None = None,
        format: str | None = None,
        tables: Iterable[str] | None = None,
        options: Mapping[str, str] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Compute the plan and store it as a run, whole or not at all: `plan(fleet).write("./plans")`.

        Args:
            place: a folder, a URI or a catalog prefix.
            run_id: the run's name; a run of the same name is replaced. By default the time, in UTC.
            format, tables, options, inputs: as `stores.run_store.write_run` has them, which this calls.

        Returns:
            the manifest of the run: its name, and the rows of each table. `stores.run_store.read_run` reads it back.

        Raises:
            SourceError: an unknown table, or the place cannot be written to.
        """
        from spark_assign.stores.run_store import write_run  # the core does not bring sinks along

        run_id = run_id or time_as_run_id()
        return write_run(self, place, run_id=run_id, format=format, tables=tables, inputs=inputs, options=options)

    def to_html(self, top: int = 10) -> str:
        """Totals and the `top` groups that hurt most, for a notebook: `displayHTML(p.to_html())`. Computes the plan."""
        from spark_assign.report.text.plan_summary import plan_html  # the core does not bring the report along

        return plan_html(self, top)

    def show(self, top: int = 10) -> None:
        """Print the same. Computes the plan."""
        from spark_assign.report.text.plan_summary import plan_text

        print(plan_text(self, top))

    def _repr_html_(self) -> str:
        """What Jupyter and Databricks show of a plan at the end of a cell."""
        return self.to_html()

    def rows(self, *kinds: str) -> DataFrame:
        """The rows of these kinds (`groups.kernel.plan_groups`), in one pass."""
        decided = self.compute_rows(frozenset(kinds)) if self.stored is None else self.stored
        return decided.where(F.col("kind").isin(*kinds))

    def _runs(self, *kinds: str) -> DataFrame:
        return self.rows(*kinds).select(*PLAN_TABLES["runs"].names)


def plan(fleet: Fleet, assignor: str | Mapping[str, str] = CONFIGURED) -> Plan:
    """Plan every group of a fleet exactly as Kafka's own assignors would.

    Args:
        fleet: clusters, topics, groups and members.
        assignor: an assignor's name for all groups; or `configured`, each group's own (`fleet.groups.assignor`); or
            one of these per pattern over group_id (`{"payments-*": "range", "*": "configured"}`, the first that fits).

    Returns:
        the plan. Its tables are lazy, but for one look over the fleet's sizes and values, the first time it is planned.

    Raises:
        UnknownAssignorError: no such assignor.
        FleetError: values that no plan can be made from.

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
    question = build_params(fleet, patterns)

    def pass_over(wanted: frozenset[str]) -> DataFrame:
        told = gather_plan_facts(fleet, patterns, loads=not wanted.isdisjoint({METRICS, MOVE}))
        columns = StructType([PLAN_ROWS[name] for name in columns_of(wanted)])
        return told.mapInArrow(
            map_arrow_batches(partial(plan_groups, question=replace(question, required_kinds=wanted))), columns
        )

    return Plan(fleet, pass_over)


def build_params(fleet: Fleet, patterns: Mapping[str, str]) -> PlanParams:
    """The question to a pass over the fleet, whose tables are checked.

    Raises:
        UnknownAssignorError, FleetError: as `plan` does.
    """
    for name in sorted(set(patterns.values()) - {CONFIGURED}):
        find_assignor(name)
    _ = fleet.sizes
    return PlanParams(
        patterns=tuple(patterns.items()),
        registered=tuple(names()),
        custom=custom_assignors(),
        racks_known=fleet.racks_known,
        loads_known=fleet.loads is not None,
    )


def gather_plan_facts(fleet: Fleet, patterns: Mapping[str, str], *, loads: bool = False) -> DataFrame:
    """The fleet's facts, with what windows lay out where these patterns may choose an assignor of theirs.

    With `loads` also what goes through the partitions, as far as the fleet says so.
    """
    own = custom_assignors()
    wanted = {client_side(name) for name in patterns.values() if name not in own}
    any_of_them = CONFIGURED in wanted and fleet.groups is not None
    window_assignors = [name for name in WINDOW_SLICES if name not in own and (any_of_them or name in wanted)]
    loads = loads or any_of_them or WEIGHTED_STICKY in wanted
    by_id = any_of_them or not wanted.isdisjoint(BY_IDS)
    in_order = by_id or CONFIGURED in wanted or any(tells_order(name) for name in patterns.values())
    return facts.facts_by_group(
        fleet, window_assignors, user_data=bool(own), topic_ids=by_id, in_order=in_order, loads=loads
    )
