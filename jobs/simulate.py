"""Simulate the group protocol: who stops for how long when consumers join, leave, crash or are deployed anew."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, SparkAssignError
from spark_assign.command import run_job
from spark_assign.errors import ConfigError
from spark_assign.protocol import Settings, Simulation, holds_for, simulate, simulate_protocols, upgrade_plan
from spark_assign.protocol.compare import side_by_side
from spark_assign.protocol.scenarios import SCENARIOS, Scenario
from spark_assign.protocol.schemas import (
    EVENTS,
    SETTINGS_OF_GROUPS,
    SETTINGS_OF_MEMBERS,
    SETTINGS_OF_PARTITIONS,
)
from spark_assign.protocol.simulate import play_fleet
from spark_assign.protocol.story import play_story
from spark_assign.report.html.collect_simulated import drawn_ownership
from spark_assign.report.protocol import rows_text, summarize_comparison, summarize_simulation, summarize_story
from spark_assign.report.story import Sight, draw_group, sight_of_simulation, sight_of_story
from spark_assign.schemas import INPUT_TABLES, REQUIRED_TABLES
from spark_assign.sinks.plan_store import check_output, read_plan, write_plan
from spark_assign.sources.tables import Shape, read_fleet, read_tables

SAMPLE = Path(__file__).resolve().parents[1] / "conf" / "sample-fleet"
EXIT_CODES = """exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""
PROTOCOLS = ("eager", "cooperative", "static", "configured")
TIMES = (
    *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "rebalance_timeout_ms"),
    *("group_initial_rebalance_delay_ms", "metadata_max_age_ms", "poll_interval_ms", "revoke_ms", "restore_ms"),
)
OF_SETTINGS = {
    "groups": SETTINGS_OF_GROUPS,
    "members": SETTINGS_OF_MEMBERS,
    "partitions": SETTINGS_OF_PARTITIONS,
}
BESIDE = {"events": EVENTS, **{f"settings_{name}": schema for name, schema in OF_SETTINGS.items()}}

log = logging.getLogger("spark_assign.simulate")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__, epilog=EXIT_CODES)
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--scenario", choices=list(SCENARIOS), help="play a story that comes with the package")
    what.add_argument("--fleet", metavar="PLACE", help="folder, URI or catalog prefix of the fleet's tables")
    add("--events", metavar="PLACE", help="file, folder or catalog table of the events (default: events, in the fleet)")
    add("--format", metavar="NAME", help="of the tables' files: parquet, csv, json, or any that Spark knows")
    add(
        "--protocol",
        choices=PROTOCOLS,
        action="append",
        help="static: cooperative, and every member static. Scenario: may be given again. Fleet: default configured",
    )
    add("--compare", action="store_true", help="fleet: eager against cooperative against static, a row per group")
    add(
        "--upgrade",
        metavar="CLUSTER/GROUP",
        help="fleet: the two rolling bounces from eager to cooperative, by step; for Java and franz-go clients",
    )
    for name in TIMES:
        add(f"--{name.replace('_', '-')}", metavar="MS", type=int)
    add("--output", metavar="PLACE", help="fleet: folder, URI or catalog prefix. Scenario: folder for the pictures")
    add("--output-format", metavar="NAME", default="parquet", help="of the written tables: parquet (default), csv, …")
    add(
        "--trace",
        action="store_true",
        help="write trace, partitions and all ownership too, which are large (else ownership of the groups that lose "
        "most, for the report)",
    )
    add("--run-id", metavar="ID", help="the run's name; the same name again replaces it (default: the time)")
    add("--fail-on", choices=["rejected"], help="exit code 1 for rejected groups")
    add("--top", metavar="N", type=int, default=10, help="groups in the summary (default: 10)")
    add("--picture", choices=["svg", "png", "pdf"], default="svg", help="format of the pictures (default: svg)")
    add("--verbose", action="store_true", help="Spark's warnings, and tracebacks")
    options = parser.parse_args(argv)
    if options.scenario and (options.events or options.compare or options.upgrade):
        parser.error("--events, --compare and --upgrade go with --fleet")
    if options.fleet and len(options.protocol or ()) > 1:
        parser.error("--fleet is simulated with one --protocol; --compare compares")
    if options.upgrade and "/" not in options.upgrade:
        parser.error(f"--upgrade {options.upgrade}: expected CLUSTER/GROUP")
    return options


def run(options: argparse.Namespace) -> int:
    """A story here, without Spark; all that has to do with a fleet with it."""
    if options.scenario and SCENARIOS[options.scenario]().tables is not None:
        return run_story(options)
    spark = SparkSession.builder.appName("spark_assign simulate").getOrCreate()
    if options.verbose and hasattr(spark, "sparkContext"):
        spark.sparkContext.setLogLevel("WARN")
    return (run_story_of_fleet if options.scenario else run_fleet)(options, spark)


def run_story(options: argparse.Namespace) -> int:
    """A story of one group: a table, and pictures."""
    scenario = SCENARIOS[options.scenario]()
    settings, protocols = _of_scenario(options, scenario)
    log.info("playing %d events with %s", len(scenario.events), ", ".join(protocols))
    story = play_story(scenario, protocols, settings)
    text, group = summarize_story(story)
    print(f"Scenario {scenario.name}: {scenario.about}\n{text}", flush=True)
    if group is not None:
        _draw(options, scenario, group, sight_of_story(story, group))
    return int(options.fail_on == "rejected" and bool(story.rejected))


def run_story_of_fleet(options: argparse.Namespace, spark: SparkSession) -> int:
    """A story of the sample fleet: a table, and pictures of the group that loses most."""
    scenario = SCENARIOS[options.scenario]()
    if not SAMPLE.exists():
        raise ConfigError(f"--scenario {scenario.name} plays the sample fleet, which {SAMPLE} should hold; use a clone")
    fleet, events = scenario.play(spark, read_fleet(spark, str(SAMPLE)))
    settings, protocols = _of_scenario(options, scenario)
    played = play_fleet(fleet, events, protocols, settings, None)
    log.info("playing %d events with %s", events.count(), ", ".join(protocols))
    text, worst = summarize_simulation(played.availability, played.rejected, protocols, options.top)
    print(f"Scenario {scenario.name}: {scenario.about}\n{text}", flush=True)
    if worst:
        _draw(options, scenario, worst[0], sight_of_simulation(played, worst[0]))
    return _failed(options, played.rejected)


def _of_scenario(options: argparse.Namespace, scenario: Scenario) -> tuple[Settings, Sequence[str]]:
    """What a story is played with: its own settings and protocols, or those that are given."""
    protocols = list(dict.fromkeys(options.protocol or scenario.protocols))
    return Settings(**{**scenario.settings, **_times(options)}), protocols


def _draw(options: argparse.Namespace, scenario: Scenario, group: Mapping[str, Any], sight: Sight) -> None:
    log.info("drawing group %s", group["group_id"])
    place = Path(options.output or ".")
    files = draw_group(sight, group, place, scenario.name, options.picture)
    print(f"Drawn to {place.resolve()}: " + ", ".join(file.name for file in files), flush=True)


def run_fleet(options: argparse.Namespace, spark: SparkSession) -> int:
    """Events of one's own: simulated, or compared, or the steps of an upgrade."""
    if options.output:
        check_output(options.output)
    required = REQUIRED_TABLES if options.upgrade else (*REQUIRED_TABLES, "events")
    shape = Shape("A fleet with events", {**INPUT_TABLES, **BESIDE}, required)
    elsewhere = {"events": options.events} if options.events else None
    tables = read_tables(spark, shape, options.fleet, format=options.format, tables=elsewhere)
    fleet = Fleet(**{name: table for name, table in tables.items() if name in INPUT_TABLES})
    given: dict[str, Any] = {name: tables.get(f"settings_{name}") for name in OF_SETTINGS}
    settings = Settings(**_times(options), **given)
    if options.upgrade:
        cluster, _, group_id = options.upgrade.partition("/")
        steps = upgrade_plan(fleet, cluster, group_id, settings=settings).drop("cluster", "group_id")
        rows = [row.asDict() for row in steps.collect()]  # of one group
        print(f"{holds_for(fleet, cluster, group_id, settings)}\n{rows_text(steps.columns, rows)}", flush=True)
        return 0
    log.info("read the fleet's tables; playing %d events", tables["events"].count())
    if options.compare:
        compared = simulate_protocols(fleet, tables["events"], settings)
        about = {"comparison": side_by_side(compared), "rejected": compared.rejected}
        if options.output:
            about |= {"availability": compared.availability, "rounds": compared.rounds}
            about |= _large(options, compared)
        found = _write(options, about)
        print(summarize_comparison(found["comparison"], found["rejected"], options.top), flush=True)
        return _failed(options, found["rejected"])
    protocol = (options.protocol or ["configured"])[0]
    simulation = simulate(fleet, tables["events"], protocol, settings)
    found = _write(options, simulation.tables() | (_large(options, simulation) if options.output else {}))
    print(summarize_simulation(found["availability"], found["rejected"], [protocol], options.top)[0], flush=True)
    return _failed(options, found["rejected"])


def _large(options: argparse.Namespace, simulation: Simulation) -> dict[str, DataFrame]:
    """The tables that grow with partitions and messages, if they are asked for; else what the report draws of them."""
    if not options.trace:
        return {"ownership": drawn_ownership(simulation)}
    return {name: getattr(simulation, name) for name in ("trace", "partitions", "ownership")}


def _times(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in TIMES if getattr(options, name) is not None}


def _write(options: argparse.Namespace, tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """The tables written and read back, or as they were where nothing is to be written."""
    if not options.output:
        return tables
    run_id = options.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    schemas = {name: table.schema for name, table in tables.items()}
    inputs: dict[str, Any] = {"fleet": options.fleet, "events": options.events, "settings": _times(options)}
    form = options.output_format
    write_plan(SimpleNamespace(**tables), options.output, run_id=run_id, format=form, inputs=inputs, schemas=schemas)
    print(f"Written to {options.output} as run_id={run_id}", flush=True)
    spark = next(iter(tables.values())).sparkSession
    return read_plan(spark, options.output, run_id, schemas=schemas).tables


def _failed(options: argparse.Namespace, rejected: DataFrame) -> int:
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("simulate", partial(run, options), verbose=options.verbose, wrong=(SparkAssignError, ValueError))


if __name__ == "__main__":
    sys.exit(main())
