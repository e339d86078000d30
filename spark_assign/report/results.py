"""Summaries and pages of results: what `Result.show` prints, and the page that `Result.to_html` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spark_assign.report import (
    advice,
    comparison,
    connect,
    drift,
    history,
    loads_and_sizes,
    migration,
    replicas,
    share_and_streams,
    simulation,
    unused,
    zones,
)
from spark_assign.report.formatting import name_clusters_of, visible, with_own_names
from spark_assign.report.plan_summary import plan_html, plan_text
from spark_assign.report.views import View
from spark_assign.tables.simulation import COMPARED_VARIANTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_assign.stores.result import Result

notebook_view = plan_html

SUMMARIES: Mapping[str, Callable[[Any, int], str]] = {
    "Advice": lambda of, top: advice.summarize_advice(of.advice, of.not_recommended, of.rejected, top),
    "Comparison": lambda of, top: comparison.summarize_comparison(of.comparison, top),
    "ConnectPlan": connect.summarize_connect_plan,
    "Drift": lambda of, top: drift.summarize_drift(of.groups, of.topics, top),
    "History": lambda of, top: history.summarize_history(of.tables, top),
    "MembershipAdvice": lambda of, top: advice.summarize_membership(of.membership_advice, of.rejected, top),
    "Migration": lambda of, top: migration.summarize_migration(of.migrations, of.rejected, top),
    "Operation": lambda of, top: replicas.summarize_operation(of.tables, top),
    "Placements": lambda of, _: replicas.summarize_placements(of.placements, of.rejected),
    "Plan": lambda of, top: plan_text(of.metrics, of.rejected, top),
    "Reassignment": lambda of, _: replicas.summarize_reassignment(of.metrics, of.rejected),
    "ReplicaCheck": lambda of, _: replicas.summarize_check(of.clusters, of.problems),
    "Replay": lambda of, top: history.summarize_replay(of.replay_summary, of.replay_rejected, top),
    "SharePlan": share_and_streams.summarize_share_plan,
    "Simulation": lambda of, top: simulation.summarize_simulation(
        of.availability, of.rejected, of.variants or ("configured",), top
    )[0],
    "Sizing": lambda of, top: loads_and_sizes.summarize_sizes(of.sizes, of.topic_sizes, of.rejected, top),
    "StreamsComparison": share_and_streams.summarize_streams_comparison,
    "StreamsDrift": share_and_streams.summarize_streams_drift,
    "StreamsPlan": share_and_streams.summarize_streams_plan,
    "StreamsSimulation": share_and_streams.summarize_streams_simulation,
    "Unused": lambda of, top: unused.summarize_unused(of.unused, of.rejected, top),
    "Upgrade": lambda of, top: migration.summarize_upgrade(of.upgrades, of.rejected, top),
    "VariantSimulation": lambda of, top: simulation.summarize_comparison(of.comparison, of.rejected, top),
    "ZoneTraffic": lambda of, top: zones.summarize_zones(
        of.zones, of.replica_moves, of.rejected, top, follower_fetching=bool(of.params and of.params.follower_fetching)
    ),
}
"""The summary of each result, as its command prints it."""

SECTIONS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "Advice": ("advice", lambda of: of.advice),
    "Comparison": ("comparison", lambda of: of.comparison),
    "ConnectPlan": ("connect", lambda of: of.tables),
    "ConnectSimulation": ("connect", lambda of: of.tables),
    "Drift": ("drift", lambda of: of.tables),
    "History": ("history", lambda of: of.tables),
    "Operation": ("replicas", lambda of: of.tables),
    "Placements": ("replicas", lambda of: of.tables),
    "Plan": ("plan", lambda of: of),
    "Reassignment": ("replicas", lambda of: of.tables),
    "ReplicaCheck": ("replicas", lambda of: of.tables),
    "Simulation": ("simulation", lambda of: of if of.variants else {"configured": of.tables}),
    "StreamsComparison": ("streams", lambda of: of.tables),
    "StreamsPlan": ("streams", lambda of: of.tables),
    "VariantSimulation": ("simulation", lambda of: of if of.variants else {COMPARED_VARIANTS[0]: of.tables}),
}
"""The argument of `report.html.report` for each result that has a page with sections of its own."""


@with_own_names
def summary(result: Result, top: int = 10) -> str:
    """Returns the summary that the command prints, or the first rows of each table if no command prints the result.

    Args:
        result: the result. Its tables are computed.
        top: maximum number of rows in each list.
    """
    name = type(result).__name__
    read = ("metrics", "rejected") if name == "Plan" else ()
    with result.computed_once(*read) as once:
        name_clusters_of(*(getattr(once, each) for each in read or once.tables), unless_known=True)
        return visible(SUMMARIES[name](once, top) if name in SUMMARIES else _first_rows(once, top))


def _first_rows(result: Result, top: int) -> str:
    lines = (line for name, table in result.tables.items() for line in _view(name, table).printed(table, top))
    return "\n".join(lines).lstrip("\n")


def _view(name: str, table: DataFrame) -> View:
    """Returns the view of a table that none is declared for: all columns, sorted by them."""
    return View(name, name.replace("_", " "), order=", ".join(table.columns))


@with_own_names
def page(result: Result, title: str | None = None) -> str:
    """Returns the page of a result: its sections, or the first rows of each table; see `Result.to_html`."""
    from spark_assign.report.html import render_report, report

    name = type(result).__name__
    title = title or ("Kafka assignment report" if name in SECTIONS else f"Kafka assignment: {name}")
    with result.computed_once() as once:
        name_clusters_of(*once.tables.values(), unless_known=True)
        if name in SECTIONS:
            argument, of_result = SECTIONS[name]
            return report(**{argument: of_result(once)}, title=title)
        viewed = ((_view(name, table), table) for name, table in once.tables.items())
        return render_report(tables=[view.table(view.read(table)) for view, table in viewed], title=title)
