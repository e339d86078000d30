"""Plan a rebalance of Kafka Connect clusters, or simulate a scenario with several protocols."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from spark_assign import SparkAssignError
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import show_plan, store_run
from spark_assign.cli.options import (
    compose_options,
    exit_codes,
    fail_on,
    input_options,
    location_option,
    milliseconds,
    output_options,
    top,
)
from spark_assign.connect import ConnectFleet, plan_connect
from spark_assign.connect.simulate import SCENARIOS, Rows, simulate_scenario
from spark_assign.report.text.connect import (
    draw_protocol_comparison,
    format_protocol_comparison,
    summarize_connect_plan,
)
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.driver_rows import write_rows
from spark_assign.stores.run_store import check_output
from spark_assign.tables.connect import INPUT_TABLES, PLAN_TABLES, REQUIRED_TABLES, SIMULATION_TABLES
from spark_assign.tables.errors import ConfigError

TIMES = (
    ("start", "a task takes to start", 2_000),
    ("stop", "a worker takes to stop revoked connectors and tasks", 1_000),
    ("rebalance", "a rebalance takes", 3_000),
)
FLEET = Shape("A ConnectFleet", INPUT_TABLES, REQUIRED_TABLES)


@job(__doc__, exit_codes("Connect clusters were rejected"), name="connect", input_errors=(SparkAssignError, ValueError))
@click.option("--scenario", type=click.Choice(sorted(SCENARIOS)), help="Packaged scenario to simulate, without Spark.")
@input_options(", ".join(INPUT_TABLES), sample=False)
@output_options("Folder, URI, or catalog prefix for the tables of the plan or scenario (default: print only).")
@fail_on("rejected", "Connect clusters are rejected")
@top("Connect clusters in the summary")
@location_option(
    "--pictures-dir", "Folder for the picture of a scenario (default: the current folder).", metavar="DIR", default="."
)
@click.option(
    "--picture",
    type=click.Choice(["svg", "png", "pdf"]),
    default="svg",
    help="Format of the picture of a scenario (default: svg).",
)
@compose_options(
    *(
        milliseconds(f"{name}_ms", f"With --scenario: time that {what} (default: {ms} ms).", ms)
        for name, what, ms in TIMES
    )
)
def main(options: Options) -> int:
    """Simulates a scenario without Spark, or plans Connect clusters with it."""
    if bool(options.scenario) == bool(options.fleet or options.table):
        raise ConfigError("Use either --fleet LOCATION or --scenario NAME.")
    return simulate(options) if options.scenario else plan(options)


def simulate(options: Options) -> int:
    """Prints and draws the comparison of a scenario's protocols."""
    scenario = SCENARIOS[options.scenario]()
    times = {name: getattr(options, name) for name in ("start_ms", "stop_ms", "rebalance_ms")}
    simulation = simulate_scenario(scenario, **times)
    comparison = format_protocol_comparison(scenario, simulation["rebalances"], simulation["costs"])
    print(f"Scenario {scenario.name}\n{comparison}")
    folder = Path(options.pictures_dir)
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{scenario.name}.{options.picture}"
    draw_protocol_comparison(scenario, simulation["rebalances"], str(picture))
    options.outcome.locations["pictures"] = str(folder.resolve())
    print(f"Drawn to {picture.resolve()}", flush=True)
    if options.output:  # for the report
        _store(options, simulation, Path(options.output).resolve(), {"scenario": scenario.name, **times})
    return 0


def _store(options: Options, tables: dict[str, Rows], folder: Path, inputs: Mapping[str, Any]) -> None:
    """Writes the rows as tables; Spark writes formats other than Parquet."""
    options.output = str(folder)  # a path, not a catalog
    if options.output_format not in (None, "parquet") or options.output_option:
        spark = spark_session("connect", options)
        frames = {name: spark.createDataFrame(rows, SIMULATION_TABLES[name]) for name, rows in tables.items()}
        store_run(options, frames, schemas=SIMULATION_TABLES, inputs=inputs)
        return
    outcome = options.outcome.of_run()
    manifest = write_rows(
        tables, folder, run_id=options.run_id, inputs=inputs, schemas=SIMULATION_TABLES, outcome=outcome
    )
    options.outcome.wrote(manifest, options.output)
    print(f"Written to {folder} as run_id={options.run_id}", flush=True)


def plan(options: Options) -> int:
    """Plans one rebalance of every Connect cluster of a fleet."""
    spark = spark_session("connect", options)
    if options.output:
        check_output(options.output)
    given = {"format": options.format, "options": options.option, "tables": options.table}
    planned = plan_connect(ConnectFleet(**read_tables(spark, FLEET, options.fleet, **given)))
    return show_plan(options, planned, summarize_connect_plan, schemas=PLAN_TABLES, inputs={"fleet": options.fleet})


if __name__ == "__main__":
    sys.exit(main())
