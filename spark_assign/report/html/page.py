"""Renders the report as one self-contained HTML page from plain rows, without Spark and without network access."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from spark_assign.report.formatting import Rows, visible
from spark_assign.report.report_data import (
    PlanRows,
)
from spark_assign.tables.errors import missing_extra

if TYPE_CHECKING:
    from jinja2 import Template

    from spark_assign.report.html.daily import DailyRows
    from spark_assign.report.views import Table

SHOWN_AT_FIRST = 50
"""Number of rows of the table of groups that are visible at first."""


def render_report(
    plan: PlanRows | None = None,
    comparison: Mapping[str, Rows] | None = None,
    simulation: Mapping[str, Rows] | None = None,
    connect: Mapping[str, Rows] | None = None,
    replicas: Mapping[str, Rows] | None = None,
    drift: Mapping[str, Rows] | None = None,
    advice: Mapping[str, Rows] | None = None,
    history: Mapping[str, Rows] | None = None,
    streams: Mapping[str, Rows] | None = None,
    *,
    daily: DailyRows | None = None,
    tables: Sequence[Table] = (),
    title: str = "Kafka assignment report",
    sources: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the page, with a section for each given argument.

    Args:
        plan, comparison, simulation, connect, replicas, drift, advice, history, streams: see `report_data`.
        daily: rows of the daily sections, which come first; the page then uses the width of the window.
        tables: tables of a result without sections of its own; the page then uses the width of the window.
        title: heading of the page.
        sources: name and location of each source, listed at the end of the page.

    Raises:
        ConfigError: jinja2 isn't installed.
    """
    try:
        template = _template()
    except ImportError as error:
        raise missing_extra("a report needs jinja2", "report") from error
    from spark_assign.report import advice as recommendations
    from spark_assign.report import comparison as comparisons
    from spark_assign.report import connect as connect_clusters
    from spark_assign.report import drift as drifts
    from spark_assign.report import history as histories
    from spark_assign.report import replicas as replica_placement
    from spark_assign.report import share_and_streams as streams_groups
    from spark_assign.report import simulation as simulations
    from spark_assign.report.html import daily as dailies
    from spark_assign.report.html import plan_section

    script = _file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = template.render(
        title=title,
        style=_file("style.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        shown_at_first=SHOWN_AT_FIRST,
        plan=plan_section.build_plan_section(plan, comparison["advice"] if comparison else ()) if plan else None,
        comparison=comparisons.build_comparison_section(comparison) if comparison else None,
        simulation=simulations.build_simulation_section(simulation) if simulation else None,
        connect=connect_clusters.build_connect_section(connect) if connect else None,
        replicas=replica_placement.build_replica_section(replicas) if replicas else None,
        drift=drifts.build_drift_section(drift) if drift else None,
        advice=recommendations.build_advice_section(advice) if advice else None,
        history=histories.build_history_section(history) if history else None,
        streams=streams_groups.build_streams_section(streams) if streams else None,
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
    return environment.get_template("page.html")


def _file(name: str) -> str:
    """Returns a file of the folder `files`, also from the zip file that spark-submit sends to a cluster."""
    return resources.files("spark_assign.report.html").joinpath("files", name).read_text(encoding="utf-8")
