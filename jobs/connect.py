"""Plan Kafka Connect clusters, or play a scenario through them: eager against incremental."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from spark_assign import SparkAssignError
from spark_assign.command import run_job
from spark_assign.connect import ConnectFleet, plan_connect
from spark_assign.connect.scenarios import SCENARIOS
from spark_assign.connect.schemas import INPUT_TABLES, PLAN_TABLES, REQUIRED_TABLES, SIMULATION_TABLES
from spark_assign.connect.story import Story, play_story
from spark_assign.report.connect import compare_protocols, draw_comparison, summarize_plan
from spark_assign.sinks.plan_store import check_output, write_plan
from spark_assign.sinks.rows import write_rows
from spark_assign.sources.tables import Shape, read_tables

FLEET = Shape("A ConnectFleet", INPUT_TABLES, REQUIRED_TABLES)
EXIT_CODES = """exit codes: 0 done; 1 clusters were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="connect", description=__doc__, epilog=EXIT_CODES)
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--scenario", choices=sorted(SCENARIOS), help="play a story that comes with the package")
    what.add_argument("--fleet", metavar="PLACE", help=f"folder, URI or catalog prefix of {', '.join(INPUT_TABLES)}")
    add("--format", metavar="NAME", help="of the fleet's files: parquet, json, csv, or any that Spark knows")
    add(
        "--output",
        metavar="PLACE",
        help="plan: folder, URI or catalog prefix. Scenario: folder for the picture, and rounds and costs as tables",
    )
    add("--output-format", metavar="NAME", default="parquet", help="of the plan's tables: parquet (default), json, …")
    add("--run-id", metavar="ID", help="the run's name; the same name again replaces it (default: the time)")
    add("--fail-on", choices=["rejected"], help="exit code 1 for rejected clusters")
    add("--top", metavar="N", type=int, default=10, help="clusters in the summary (default: 10)")
    add("--picture", choices=["svg", "png", "pdf"], default="svg", help="format of the picture (default: svg)")
    for name, default, meaning in (
        ("start", 2_000, "a task takes to start"),
        ("stop", 1_000, "a worker takes to stop what it has to"),
        ("rebalance", 3_000, "a rebalance takes"),
    ):
        add(f"--{name}-ms", metavar="MS", type=int, default=default, help=f"scenario: so long {meaning} ({default})")
    add("--verbose", action="store_true", help="Spark's warnings, and tracebacks")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """A story here, without Spark; a folder of clusters with it."""
    return play(options) if options.scenario else plan(options)


def play(options: argparse.Namespace) -> int:
    """A scenario: a table and a picture."""
    scenario = SCENARIOS[options.scenario]()
    times = {name: getattr(options, name) for name in ("start_ms", "stop_ms", "rebalance_ms")}
    played = play_story(scenario, **times)
    print(f"Scenario {scenario.name}\n" + compare_protocols(scenario, played.rounds, played.costs))
    folder = Path(options.output or ".")
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{scenario.name}.{options.picture}"
    draw_comparison(scenario, played.rounds, str(picture))
    print(f"Drawn to {picture.resolve()}", flush=True)
    if options.output:  # for the report
        _store(options, played, folder.resolve(), {"scenario": scenario.name, **times})
    return 0


def _store(options: argparse.Namespace, played: Story, folder: Path, inputs: Mapping[str, Any]) -> None:
    """The rows as tables; in any other format than Parquet Spark writes them."""
    tables = {name: getattr(played, name) for name in SIMULATION_TABLES}
    run_id, form = options.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), options.output_format
    if form == "parquet":
        write_rows(tables, folder, run_id=run_id, inputs=inputs, schemas=SIMULATION_TABLES)
    else:
        spark = _session(options)
        frames = {name: spark.createDataFrame(rows, SIMULATION_TABLES[name]) for name, rows in tables.items()}
        place = str(folder)  # a path, not a catalog
        write_plan(
            SimpleNamespace(**frames), place, run_id=run_id, format=form, inputs=inputs, schemas=SIMULATION_TABLES
        )
    print(f"Written to {folder} as run_id={run_id}", flush=True)


def plan(options: argparse.Namespace) -> int:
    """One rebalance of every Connect cluster of a folder."""
    spark = _session(options)
    if options.output:
        check_output(options.output)
    planned = plan_connect(ConnectFleet(**read_tables(spark, FLEET, options.fleet, format=options.format)))
    text, refused = summarize_plan(planned, options.top)
    print(text)
    if options.output:
        run_id = options.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        place, inputs = options.output, {"fleet": options.fleet}
        write_plan(planned, place, run_id=run_id, format=options.output_format, inputs=inputs, schemas=PLAN_TABLES)
        print(f"Written to {place} as run_id={run_id}", flush=True)
    planned.release()
    return 1 if options.fail_on == "rejected" and refused else 0


def _session(options: argparse.Namespace) -> SparkSession:
    spark = SparkSession.builder.appName("spark_assign connect").getOrCreate()
    if options.verbose and hasattr(spark, "sparkContext"):
        spark.sparkContext.setLogLevel("WARN")
    return spark


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("connect", partial(run, options), verbose=options.verbose, wrong=(SparkAssignError, ValueError))


if __name__ == "__main__":
    sys.exit(main())
