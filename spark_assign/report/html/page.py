"""The report as one HTML page, from plain rows: no Spark, no network, nothing that is not in the page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from spark_assign.report.html.report_data import (
    AdviceRows,
    CompareRows,
    ConnectRows,
    DriftRows,
    HistoryRows,
    PlanRows,
    ReplicaRows,
    SimulationRows,
)
from spark_assign.tables.errors import missing_extra

if TYPE_CHECKING:
    from jinja2 import Template

SHOWN_AT_FIRST = 50
"""Rows of the table of groups before more are asked for."""


def render_report(
    plan: PlanRows | None = None,
    comparison: CompareRows | None = None,
    simulation: SimulationRows | None = None,
    connect: ConnectRows | None = None,
    replicas: ReplicaRows | None = None,
    drift: DriftRows | None = None,
    advice: AdviceRows | None = None,
    history: HistoryRows | None = None,
    *,
    title: str = "Kafka assignment report",
    sources: Sequence[tuple[str, str]] = (),
) -> str:
    """The page. What is not given has no section in it.

    Args:
        plan, comparison, simulation, connect, replicas, drift, advice, history: see `rows`.
        title: the page's heading.
        sources: where the sections come from, by their names; told at the end.

    Raises:
        ConfigError: jinja2 is not installed.
    """
    try:
        template = _template()
    except ImportError as error:
        raise missing_extra("a report needs jinja2", "report") from error
    from spark_assign.report.html import comparison as comparisons
    from spark_assign.report.html import connect as connect_clusters
    from spark_assign.report.html import drift as drifts
    from spark_assign.report.html import history as histories
    from spark_assign.report.html import plan_section
    from spark_assign.report.html import replicas as replica_placement
    from spark_assign.report.html import simulation as simulations

    script = _file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        title=title,
        style=_file("style.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        shown_at_first=SHOWN_AT_FIRST,
        plan=plan_section.build_plan_section(plan, comparison.advice if comparison else ()) if plan else None,
        comparison=comparisons.build_comparison_section(comparison) if comparison else None,
        simulation=simulations.build_simulation_section(simulation) if simulation else None,
        connect=connect_clusters.build_connect_section(connect) if connect else None,
        replicas=replica_placement.build_replica_section(replicas) if replicas else None,
        drift=drifts.build_drift_section(drift) if drift else None,
        advice=comparisons.build_advice_section(advice) if advice else None,
        history=histories.build_history_section(history) if history else None,
        sources=sources,
    )


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
    """A file beside this one; also out of the zip that spark-submit takes to a cluster."""
    return resources.files("spark_assign.report.html").joinpath("files", name).read_text(encoding="utf-8")
