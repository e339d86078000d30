"""Make the report of a stored plan: one HTML file that needs no network."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import sample_run, stored_history, stored_plan
from spark_assign.cli.options import FILE_TO_WRITE, fail_on, fleet_or_sample, input_options, require_input, stored_run
from spark_assign.cli.owners import group_filter_options, read_owners, run_with_owners
from spark_assign.report.html import report
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.spark.dataframes import union
from spark_assign.stores.locations import publish, split_run_id
from spark_assign.stores.run_store import StoredRun, num_rows_of_kinds, read_run
from spark_assign.tables import connect, replicas, simulation
from spark_assign.tables.advice import ADVISE_TABLES
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import LOADS, MEMBERS, OFFSETS
from spark_assign.tables.stored_plan import (
    CONNECT,
    REPORTED_PLAN_TABLES,
    STORED_COMPARE_TABLES,
    STORED_DRIFT_TABLES,
    STORED_PLAN_TABLES,
    STORED_SIMULATION_TABLES,
    STREAMS,
    tables_of_kind,
)

EXIT_CODES = """Exit codes: 0 written; 1 written, and the plan has what --fail-on names; 2 wrong usage, or nothing is
stored where it was looked for; 3 failure. A place is a folder, URI or catalog prefix that another job wrote to; of its
runs the last one is taken, or the one that LOCATION[@RUN_ID] names."""

REPLICA_TABLES = {
    **replicas.PLACE_TABLES,
    **replicas.REASSIGN_TABLES,
    **replicas.CHECK_TABLES,
    **replicas.OPERATION_TABLES,
    "zones": replicas.OPERATED_ZONES,
}
OF_JOBS: dict[str, Mapping[str, StructType]] = {
    "simulation": {**STORED_SIMULATION_TABLES, "comparison": simulation.COMPARISON},
    "connect": connect.SIMULATION_TABLES | STORED_PLAN_TABLES,
    "replicas": REPLICA_TABLES,
    "comparison": STORED_COMPARE_TABLES,
    "drift": STORED_DRIFT_TABLES,
    "advice": ADVISE_TABLES,
}
OTHER_SCHEMAS = {
    "simulation": (
        "comparison",
        {
            name: simulation.with_variant(schema)
            for name, schema in simulation.SIMULATION_TABLES.items()
            if name != "rejected"
        },
    ),
    "connect": ("costs", connect.SIMULATION_TABLES),
    "replicas": ("placements", {"rejected": replicas.REJECTED}),
}
"""If a run has the named table, these tables have other columns: several variants, or topics that can't be placed."""

SIMULATIONS = """rebalances in time (job simulate, also with --compare); repeatable, with names: eager=./eager,
cooperative=./cooperative"""
FLEET = "the snapshot that was planned: clients, hosts, lag, and partitions without traffic"
OF_SNAPSHOT = Shape("A snapshot", {"offsets": OFFSETS, "members": MEMBERS, "loads": LOADS}, ("offsets",))
NAMES = {"comparison": "Assignors compared", "simulation": "Rebalances in time"}
"""Names of sections in the list of sources, if they aren't those of the options."""


def snapshot_tables(spark: SparkSession, options: Options) -> dict[str, DataFrame]:
    """Returns the offsets of the snapshot, and its members and loads, if it has them."""
    given = {"format": options.format, "options": options.option, "tables": options.table}
    return read_tables(spark, OF_SNAPSHOT, options.fleet, **given)


def check_usage(options: Options) -> None:
    """Raises `SourceError` if a simulation has no name of its own."""
    named(options.simulation)


@job(
    __doc__,
    EXIT_CODES,
    name="report",
    progress=False,
    usage=(
        "any of --sample, --plan, --comparison, --simulation, --connect, --replicas, --drift, --history, --advice",
        "--sample excludes --fleet, --plan, --history",
        "--fleet needs --plan",
        check_usage,
    ),
)
@stored_run("--plan", "Stored plan (job plan).")
@input_options(FLEET, of_sample="fleet, its plan, and the bundled sample history")
@stored_run("--comparison", "assignors compared (job compare)")
@click.option("--simulation", metavar="[NAME=]LOCATION[@RUN_ID]", multiple=True, help=SIMULATIONS)
@stored_run("--connect", "Plan with Connect clusters (default: the run of --plan), or Connect scenario (job simulate).")
@stored_run("--replicas", "replicas (job replicas place, reassign, check, or operate)")
@stored_run("--drift", "what changed between two runs (job diff)")
@stored_run("--history", "what groups have been through (job history)")
@stored_run("--advice", "what to do, ranked (job advise): the page begins with it")
@group_filter_options()
@click.option(
    "--output-file",
    metavar="FILE",
    type=FILE_TO_WRITE,
    default=Path("report.html"),
    help="HTML file to write (default: report.html).",
)
@click.option("--title", metavar="TEXT", default="Kafka assignment report", help="the page's heading")
@fail_on("rejected", "the plan has rejected groups")
def main(options: Options) -> int:
    """Loads, calls, writes, and prints."""
    spark = spark_session("report", options)
    started = time.monotonic()
    owners = read_owners(spark, options.owners, options.owner)
    if options.sample:
        options.fleet = fleet_or_sample(options, __file__)
        options.plan, options.history = (sample_run(spark, __file__, job) for job in ("plan", "history"))
    select = partial(run_with_owners, owners=owners, teams=options.owner, groups=options.group)
    plan = select(stored_plan(spark, options.plan, REPORTED_PLAN_TABLES)) if options.plan else None
    simulations = {name: select(stored(spark, "simulation", place)) for name, place in named(options.simulation)}
    if plan is not None and f"{CONNECT}metrics" in plan.manifest.rows:
        options.connect = options.connect or f"{split_run_id(options.plan)[0]}@{plan.manifest.run_id}"
    given = {job: place for job in OF_JOBS if job != "simulation" and (place := getattr(options, job))}
    found = {job: select(stored(spark, job, place)) for job, place in given.items()}
    if options.history:
        found["history"] = select(stored_history(spark, options.history))
    named_runs = [(NAMES.get(job, job.capitalize()), each) for job, each in found.items()]
    named_runs += [(f"{NAMES['simulation']}, {name}", each) for name, each in simulations.items()]
    tables = {job: each.tables for job, each in found.items()}
    compared = tables.get("comparison", {})
    of_streams = tables_of_kind(STREAMS, compared) | tables_of_kind(STREAMS, plan.tables if plan else {})
    simulated = [
        each.tables[f"{STREAMS}steps"].withColumn("variant", F.lit(name))
        for name, each in simulations.items()
        if f"{STREAMS}steps" in each.tables
    ]
    if simulated:
        of_streams["steps"] = union(simulated)
    snapshot = snapshot_tables(spark, options) if options.fleet else {}
    page = report(
        plan if plan is None or plan.manifest.rows["metrics"] or plan.manifest.rows["rejected"] else None,
        comparison=compared.get("comparison"),
        simulation={name: each.tables for name, each in simulations.items()} or None,
        connect=of_connect(tables["connect"]) if "connect" in tables else None,
        replicas=tables.get("replicas"),
        drift=found.get("drift"),
        advice=tables.get("advice", {}).get("advice"),
        history=tables.get("history"),
        streams=of_streams or None,
        offsets=snapshot.get("offsets"),
        snapshot=snapshot,
        title=options.title,
        sources=[(name, run_of(each)) for name, each in named_runs],
    )
    publish(page.encode(), options.output_file)
    options.outcome.locations["report"] = str(options.output_file.resolve())
    if plan is not None:
        options.outcome.run_id, options.outcome.attempt = plan.manifest.run_id, plan.manifest.attempt
    size, took = len(page.encode()) / 1e6, time.monotonic() - started
    print(f"Report {options.output_file.resolve()}: {size:.2f} MB in {took:.1f} s", flush=True)
    num_rejected = 0 if plan is None else num_rows_of_kinds(plan.manifest.rows, "rejected")
    return int(options.fail_on == "rejected" and num_rejected > 0)


def stored(spark: SparkSession, job: str, place: str) -> StoredRun:
    """Returns a stored run of a job: the one that is named after an @, or the one that finished last."""
    place, run_id = split_run_id(place)
    found = read_run(spark, place, run_id, schemas=OF_JOBS[job])
    ended, wanted = found.manifest.content.get("outcome"), {"comparison": "compare", "simulation": "simulate"}.get(job)
    writer = ended.get("job", wanted) if isinstance(ended, dict) else wanted
    if wanted and writer != wanted:  # both have a table comparison
        raise SourceError(
            f"{place}, run {found.manifest.run_id}, is of the job {writer}. Name a run of the job {wanted}"
        )
    table, others = OTHER_SCHEMAS.get(job, ("", {}))
    if table in found.manifest.rows:
        found = read_run(spark, place, found.manifest.run_id, schemas={**OF_JOBS[job], **others})
    return found


def of_connect(tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Returns the tables of a Connect scenario, or those of Connect clusters in a plan, without their prefix.

    Raises:
        SourceError: the plan has no Connect clusters.
    """
    if "costs" in tables:
        return tables
    found = tables_of_kind(CONNECT, tables)
    if not found:
        raise SourceError("--connect: the run is a plan without Connect clusters. Plan a fleet that has them.")
    return found


def run_of(found: StoredRun) -> str:
    """Returns the run ID and the time at which the run finished."""
    return f"run {found.manifest.run_id}, finished {found.manifest.finished_at:%Y-%m-%d %H:%M} UTC"


def named(given: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the names and locations of `[NAME=]LOCATION` texts. The default name is `configured`."""
    pairs = [word.partition("=") if "=" in word else ("configured", "=", word) for word in given]
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise SourceError(f"--simulation {' '.join(given)}: give each its own name, such as eager={pairs[0][2]}")
    for _, _, place in pairs:
        require_input(place)
    return [(name, place) for name, _, place in pairs]


if __name__ == "__main__":
    main()
