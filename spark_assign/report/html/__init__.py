"""The report: one HTML page that stands alone. Made from a plan and what belongs to it, or from plain rows."""

from spark_assign.report.html.collect_plan import report
from spark_assign.report.html.page import render_report
from spark_assign.report.html.report_data import (
    AdviceRows,
    CompareRows,
    DriftRows,
    HistoryRows,
    PlanRows,
    SimulationRows,
)

__all__ = [
    "AdviceRows",
    "CompareRows",
    "DriftRows",
    "HistoryRows",
    "PlanRows",
    "SimulationRows",
    "render_report",
    "report",
]
