"""The report: one HTML page that stands alone. Made from a plan and what belongs to it, or from plain rows."""

from spark_assign.report.html.collect_plan import report
from spark_assign.report.html.page import render_report
from spark_assign.report.report_data import (
    PlanRows,
)

__all__ = [
    "PlanRows",
    "render_report",
    "report",
]
