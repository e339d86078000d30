"""Plan every group of a fleet, write the plan and print a summary."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_assign import config, plan
from spark_assign.command import pairs, run_job
from spark_assign.report.summary import summarize
from spark_assign.sinks.openmetrics import write_metrics
from spark_assign.sinks.plan_store import check_output, stored_plan, write_plan
from spark_assign.sources.small import interpreted
from spark_assign.sources.tables import read_fleet

SETTINGS = Path(__file__).resolve().parents[1] / "conf" / "plan.toml"
EXIT_CODES = """exit codes: 0 planned and written; 1 the plan has what --fail-on names; 2 wrong usage,
settings or tables; 3 failure. Without arguments the shipped sample fleet is planned, as conf/plan.toml
says."""

log = logging.getLogger("spark_assign.plan")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line; every flag wins over the key of the settings file that it stands for."""
    parser = argparse.ArgumentParser(prog="plan", description=__doc__, epilog=EXIT_CODES)
    add = parser.add_argument
    add("--config", metavar="FILE", type=Path, help="settings in TOML (default: conf/plan.toml)")
    add("--fleet", metavar="PLACE", help="folder, URI or catalog prefix of the fleet's tables")
    add("--format", metavar="NAME", help="of the fleet's files: parquet, csv, json, or any that Spark knows")
    add("--option", metavar="K=V", action="append", help="a reader option of Spark; may be given again")
    add("--table", metavar="NAME=PLACE", action="append", help="one table from elsewhere; may be given again")
    add(
        "--assignor",
        metavar="NAME",
        help='range, roundrobin, sticky, cooperative-sticky, …; or "configured": what each group runs with now',
    )
    add(
        "--assign",
        metavar="GLOB=NAME",
        action="append",
        help="the assignor of groups by pattern; first match wins",
    )
    add("--output", metavar="PLACE", help="folder, URI or catalog prefix for the plan")
    add("--output-format", metavar="NAME", help="parquet, csv, json, or any that Spark knows")
    add("--output-option", metavar="K=V", action="append", help="a writer option of Spark; may be given again")
    add("--tables", metavar="A,B,…", help="what to write besides metrics and rejected (default: everything)")
    add("--run-id", metavar="ID", help="the run's name; the same name again replaces it (default: the time)")
    add("--metrics", metavar="FILE", type=Path, help="figures of every group in OpenMetrics, for the node exporter")
    add("--fail-on", metavar="WHAT", action="append", help='exit code 1 for: "rejected" groups')
    add("--top", metavar="N", type=int, help="groups in the summary (default: 10)")
    add("--verbose", action="store_true", help="Spark's warnings, and tracebacks")
    return parser.parse_args(argv)


def flags(options: argparse.Namespace) -> dict[str, Any]:
    """The command line in the shape of the settings file."""
    fleet = {"location": options.fleet, "format": options.format}
    output = {"location": options.output, "format": options.output_format}
    return {
        "fleet": fleet | {"options": pairs("--option", options.option), "tables": pairs("--table", options.table)},
        "output": output
        | {"options": pairs("--output-option", options.output_option)}
        | {"tables": options.tables.split(",") if options.tables else None},
        "assignor": options.assignor,
        "assign": [
            {"groups": glob, "assignor": name} for glob, name in (pairs("--assign", options.assign) or {}).items()
        ],
        "run_id": options.run_id,
        "fail_on": options.fail_on,
        "top": options.top,
    }


def run(options: argparse.Namespace) -> int:
    """Load, call, write, print."""
    settings = config.load(options.config or (SETTINGS if SETTINGS.exists() else None), flags(options))
    spark = SparkSession.builder.appName("spark_assign plan").getOrCreate()
    if options.verbose and hasattr(spark, "sparkContext"):
        spark.sparkContext.setLogLevel("WARN")
    with interpreted(spark, [settings.fleet.location, *settings.fleet.tables.values()]):
        return _run(settings, spark, options.metrics)


def _run(settings: config.PlanSettings, spark: SparkSession, metrics: Path | None) -> int:
    started = time.monotonic()
    fleet, output = settings.fleet, settings.output
    check_output(output.location)
    found = read_fleet(spark, fleet.location, format=fleet.format, options=fleet.options, tables=fleet.tables)
    log.info("read the fleet's tables in %.1f s", time.monotonic() - started)
    planned = plan(found, settings.choice)
    log.info("checked and planned by %.1f s; now writing", time.monotonic() - started)
    manifest = write_plan(
        planned,
        output.location,
        run_id=settings.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        format=output.format,
        tables=output.tables,
        options=output.options,
        inputs={"fleet": fleet.location, "tables": dict(fleet.tables), "assignor": settings.choice},
    )
    stored = stored_plan(spark, output.location, manifest, options=output.options)
    if metrics:
        write_metrics(stored, metrics)
    print(summarize(stored, output.location, settings.top), flush=True)
    failed = "rejected" in settings.fail_on and manifest.rows["rejected"] > 0
    return 1 if failed else 0


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("plan", partial(run, options), verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
