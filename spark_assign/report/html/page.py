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
    from spark_assign.report.html import (
        advice_section,
        comparison_section,
        connect_and_replica_sections,
        drift_section,
        plan_section,
        simulation_section,
    )
    from spark_assign.report.html import history_section as past

    script = _file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        title=title,
        style=_file("style.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        shown_at_first=SHOWN_AT_FIRST,
        plan=plan_section.of_plan(plan, comparison.advice if comparison else ()) if plan else None,
        comparison=comparison_section.of_comparison(comparison) if comparison else None,
        simulation=simulation_section.of_simulation(simulation) if simulation else None,
        connect=connect_and_replica_sections.of_connect(connect) if connect else None,
        replicas=connect_and_replica_sections.of_replicas(replicas) if replicas else None,
        drift=drift_section.of_drift(drift) if drift else None,
        advice=advice_section.of_advice(advice) if advice else None,
        history=past.of_history(history) if history else None,
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
