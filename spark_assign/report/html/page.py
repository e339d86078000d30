"""The report as one self-contained HTML page that needs no network: what it collects, and what it renders of rows."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from spark_assign.groups.planning import Plan
from spark_assign.report import advice as recommendations
from spark_assign.report import comparison as comparisons
from spark_assign.report import connect as connect_clusters
from spark_assign.report import daily as dailies
from spark_assign.report import drift as drifts
from spark_assign.report import history as histories
from spark_assign.report import plan_page
from spark_assign.report import replicas as replica_placement
from spark_assign.report import share_and_streams as streams_groups
from spark_assign.report import simulation as simulations
from spark_assign.report.formatting import Rows, count, name_clusters_of, visible, with_own_names
from spark_assign.report.report_data import PlanRows
from spark_assign.simulation.simulate_groups import Simulation
from spark_assign.spark.progress import progress
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.errors import needs_extra
from spark_assign.tables.groups import OPTIONAL_SNAPSHOT_TABLES, SNAPSHOT_TABLES
from spark_assign.tables.schema_check import complete_groups

if TYPE_CHECKING:
    from jinja2 import Template

    from spark_assign.report.daily import DailyRows
    from spark_assign.report.views import Table

Tables = Mapping[str, DataFrame]

_SECTIONS: Mapping[str, Callable[[Mapping[str, Rows]], Any]] = {
    "comparison": comparisons.build_comparison_section,
    "simulation": simulations.build_simulation_section,
    "connect": connect_clusters.build_connect_section,
    "replicas": replica_placement.build_replica_section,
    "drift": drifts.build_drift_section,
    "advice": recommendations.build_advice_section,
    "history": histories.build_history_section,
    "streams": streams_groups.build_streams_section,
}

SHOWN_AT_FIRST = 50
"""Number of rows of the table of groups that are visible at first."""


@progress("gathering the report", 1)
@with_own_names
def report(
    plan: Plan | StoredRun | None = None,
    comparison: DataFrame | None = None,
    simulation: Simulation | Mapping[str, Tables] | None = None,
    connect: Any = None,
    replicas: Tables | None = None,
    drift: Tables | StoredRun | None = None,
    advice: DataFrame | None = None,
    history: Tables | None = None,
    streams: Tables | None = None,
    *,
    daily: DailyRows | None = None,
    offsets: DataFrame | None = None,
    snapshot: Tables | None = None,
    title: str = "Kafka assignment report",
    sources: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the report as one HTML page that needs no network; `displayHTML(report(plan))` shows it in a notebook.

    Args:
        plan: a plan or a stored plan. A plan that isn't stored is computed several times if the session can't cache.
        comparison: a row per group, assignor, and what-if change (`compare`). The groups of the plan then also show the
            recommended assignor.
        simulation: `simulation.simulate_variants(…)`; or stored tables (`tables.simulation.SIMULATION_TABLES`, or
            `comparison`) by the name of the variant: `{"eager": {"rebalances": …, …}, "cooperative": …}`.
        connect: a `ConnectPlan`, a `ConnectSimulation`, or stored tables of either.
        replicas: tables of a placement, a reassignment, a check, or an operation, by name (`tables.replicas`).
        drift: the available tables of a drift, by name: groups, members, ownership, topics; or a stored drift, so that
            the page names the two compared runs.
        advice: the ranked recommendations (`Advice.advice`), the first section of the page.
        history: tables of a history, by name (`tables.history.HISTORY_TABLES`, and those of a replay).
        streams: tables of a `StreamsPlan`, of a `StreamsComparison`, or of both, by name without prefix.
        daily: rows of the daily sections (`report.daily.daily_rows`), which come first.
        offsets: offsets of the planned snapshot (`tables.groups.OFFSETS`); the page then marks partitions without
            traffic, and shows the lag of members.
        snapshot: other tables of the planned snapshot, by name: `members`, for clients and hosts, and `loads`.
        title: heading of the page.
        sources: name and location of each source, listed at the end of the page.

    Returns:
        the page. For the limits on the rows that are read, see `report_data`.

    Raises:
        ConfigError: jinja2 isn't installed (extra `report`).
        FleetError: a table of the snapshot lacks a required column, or a column has a wrong type.
    """
    results = [plan, simulation, replicas, drift, history, streams]
    given_tables = [getattr(each, "tables", each) for each in results if each is not None]
    name_clusters_of(comparison, advice, *_dataframes(given_tables), unless_known=True)
    about = {**(snapshot or {}), **({} if offsets is None else {"offsets": offsets})}
    schemas = SNAPSHOT_TABLES | OPTIONAL_SNAPSHOT_TABLES
    about |= {name: complete_groups(name, table, schemas[name]) for name, table in about.items() if name in schemas}
    planned = None if plan is None else plan_page.plan_rows(plan, about)
    listed = () if planned is None else planned.groups
    given: dict[str, tuple[Callable[..., Mapping[str, Rows]], Any]] = {
        "comparison": (partial(comparisons.compare_rows, listed=listed), comparison),
        "simulation": (simulations.simulation_rows, simulation),
        "connect": (connect_clusters.connect_rows, connect),
        "replicas": (replica_placement.replica_rows, replicas),
        "drift": (_drift_rows, drift),
        "advice": (recommendations.advice_rows, advice),
        "history": (histories.history_rows, history),
        "streams": (streams_groups.streams_rows, streams),
    }
    rows: dict[str, Any] = {name: collect(tables) for name, (collect, tables) in given.items() if tables is not None}
    return render_report(planned, **rows, daily=daily, title=title, sources=sources)


def _dataframes(tables: Any) -> Iterator[DataFrame]:
    """Yields the tables in lists and dictionaries of tables."""
    for each in tables.values() if isinstance(tables, Mapping) else tables:
        yield from [each] if isinstance(each, DataFrame) else _dataframes(each)


def _drift_rows(drift: Tables | StoredRun) -> dict[str, Rows]:
    if not isinstance(drift, StoredRun):
        return drifts.drift_rows(drift)
    inputs = drift.manifest.content["inputs"]
    return drifts.drift_rows(
        drift.tables, {side: str(inputs[side]) for side in ("before", "after") if inputs.get(side)}
    )


def render_report(
    plan: PlanRows | None = None,
    *,
    daily: DailyRows | None = None,
    tables: Sequence[Table] = (),
    title: str = "Kafka assignment report",
    sources: Sequence[tuple[str, str]] = (),
    **rows: Mapping[str, Rows],
) -> str:
    """Returns the page, with a section for the plan and for each of the given rows.

    Args:
        plan: rows of a plan.
        daily: rows of the daily sections, which come first; the page then uses the width of the window.
        tables: tables of a result without sections of its own; the page then uses the width of the window.
        title: heading of the page.
        sources: name and location of each source, listed at the end of the page.
        rows: rows of the other arguments of `report`, by name: what `connect_rows` and so on return.

    Raises:
        ConfigError: jinja2 isn't installed.
    """
    with needs_extra("a report needs jinja2", "report"):
        template = _template()
    script = _file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = template.render(
        title=title,
        style=_file("style.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        shown_at_first=SHOWN_AT_FIRST,
        plan=plan_page.build_plan_section(plan, rows["comparison"]["advice"] if "comparison" in rows else ())
        if plan
        else None,
        **{name: build(rows[name]) if name in rows else None for name, build in _SECTIONS.items()},
        daily=daily.parts if daily else [dailies.Part("Tables", (), tables)] if tables else None,
        sources=sources,
    )
    return visible(page)  # a name could reverse the text after it


@cache
def _template() -> Template:
    """Returns the page's template, compiled once."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["counted"] = count
    return environment.get_template("page.html")


def _file(name: str) -> str:
    """Returns a file of the folder `files`, also from the zip file that spark-submit sends to a cluster."""
    return resources.files("spark_assign.report.html").joinpath("files", name).read_text(encoding="utf-8")
