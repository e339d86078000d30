"""Simulate the group protocol: who stops for how long when consumers join, leave, crash or are redeployed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, SparkAssignError
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_run
from spark_assign.cli.options import (
    LOCATION,
    fail_on,
    fleet_or_sample,
    input_options,
    location_option,
    output_options,
    sample,
    timing_options,
    timing_overrides,
    top,
)
from spark_assign.migration.cooperative_upgrade import holds_for, upgrade_plan
from spark_assign.report.group_pictures import GroupPictureData, draw_group, local_picture_data, read_picture_data
from spark_assign.report.html.simulation import charted_ownership
from spark_assign.report.text.simulation import (
    rows_text,
    summarize_comparison,
    summarize_local_simulation,
    summarize_simulation,
)
from spark_assign.simulation import Settings, Simulation, simulate, simulate_protocols
from spark_assign.simulation.scenarios import SCENARIOS, Scenario, play_story
from spark_assign.simulation.settings import BROKER_RELEASES
from spark_assign.simulation.simulation import play_fleet, side_by_side
from spark_assign.sources.files.tables import Shape, read_fleet, read_tables
from spark_assign.stores.run_store import check_output, read_run
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import INPUT_TABLES, REQUIRED_TABLES
from spark_assign.tables.simulation import EVENTS, SETTINGS_OF_GROUPS, SETTINGS_OF_MEMBERS, SETTINGS_OF_PARTITIONS

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""
PROTOCOLS = ("eager", "cooperative", "static", "consumer", "configured")
OF_SETTINGS = {
    "groups": SETTINGS_OF_GROUPS,
    "members": SETTINGS_OF_MEMBERS,
    "partitions": SETTINGS_OF_PARTITIONS,
}
BESIDE = {"events": EVENTS, **{f"settings_{name}": schema for name, schema in OF_SETTINGS.items()}}

log = logging.getLogger("spark_assign.simulate")


@job(__doc__, EXIT_CODES, name="simulate", input_errors=(SparkAssignError, ValueError))
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), help="play a story that comes with the package")
@input_options()
@click.option(
    "--events",
    type=LOCATION,
    metavar="LOCATION",
    help="file, folder or catalog table of the events (default: events, in the fleet)",
)
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    multiple=True,
    help="static: cooperative, and every member static; consumer: KIP-848. Scenario: repeatable. Fleet: default "
    "configured",
)
@click.option("--compare", is_flag=True, help="fleet: eager against cooperative, static and consumer, a row per group")
@click.option(
    "--upgrade",
    metavar="CLUSTER/GROUP",
    help="fleet: the two rolling bounces from eager to cooperative, by step; for Java and franz-go clients",
)
@timing_options()
@click.option("--broker-release", type=click.Choice(BROKER_RELEASES), help="of Kafka, for KIP-848's groups (4.4)")
@output_options("Folder, URI, or catalog prefix for the tables of a fleet (default: print only).")
@click.option(
    "--trace",
    is_flag=True,
    help="write trace, partitions and all ownership too, which are large (else ownership of the groups that lose most, "
    "for the report)",
)
@fail_on("rejected", "groups are rejected")
@top()
@location_option(
    "--pictures-dir", "Folder for the pictures of a scenario (default: the current folder).", metavar="DIR", default="."
)
@click.option("--picture", type=click.Choice(["svg", "png", "pdf"]), default="svg", help="their format (default: svg)")
def main(options: Options) -> int:
    """A story here, without Spark; all that has to do with a fleet with it."""
    check_usage(options)
    if options.scenario and SCENARIOS[options.scenario]().tables is not None:
        return run_story(options)
    spark = spark_session("simulate", options)
    return (run_story_of_fleet if options.scenario else run_fleet)(options, spark)


def check_usage(options: Options) -> None:
    """Options of the one kind of simulation given with the other would be ignored without a word.

    Raises:
        ConfigError: they are.
    """
    if options.scenario and (options.fleet or options.sample or options.table):
        raise ConfigError("Use either --scenario NAME or a fleet (--fleet LOCATION or --sample).")
    if not options.scenario:
        if not (options.fleet or options.sample or options.table):
            raise ConfigError("Nothing to simulate. Use --scenario NAME, --fleet LOCATION, or --sample.")
        options.fleet = fleet_or_sample(options, __file__)
    if options.scenario and (options.events or options.compare or options.upgrade):
        raise ConfigError("--events, --compare and --upgrade go with --fleet")
    if not options.scenario and len(options.protocol) > 1:
        raise ConfigError("--fleet is simulated with one --protocol; --compare compares")
    if options.upgrade and "/" not in options.upgrade:
        raise ConfigError(f"--upgrade {options.upgrade}: expected CLUSTER/GROUP")


def run_story(options: Options) -> int:
    """A story of one group: a table, and pictures."""
    scenario = SCENARIOS[options.scenario]()
    settings, protocols = _of_scenario(options, scenario)
    log.info("playing %d events with %s", len(scenario.events), ", ".join(protocols))
    story = play_story(scenario, protocols, settings)
    text, group = summarize_local_simulation(story)
    print(f"Scenario {scenario.name}: {scenario.about}\n{text}", flush=True)
    if group is not None:
        _draw(options, scenario, group, local_picture_data(story, group))
    return int(options.fail_on == "rejected" and bool(story.rejected))


def run_story_of_fleet(options: Options, spark: SparkSession) -> int:
    """A story of the sample fleet: a table, and pictures of the group that loses most."""
    scenario = SCENARIOS[options.scenario]()
    fleet, events = scenario.play(spark, read_fleet(spark, sample(__file__, "fleet")))
    settings, protocols = _of_scenario(options, scenario)
    played = play_fleet(fleet, events, protocols, settings, None)
    log.info("playing %d events with %s", events.count(), ", ".join(protocols))
    text, worst = summarize_simulation(played.availability, played.rejected, protocols, options.top)
    print(f"Scenario {scenario.name}: {scenario.about}\n{text}", flush=True)
    if worst:
        _draw(options, scenario, worst[0], read_picture_data(played, worst[0]))
    return _failed(options, played.rejected)


def _of_scenario(options: Options, scenario: Scenario) -> tuple[Settings, Sequence[str]]:
    """What a story is played with: its own settings and protocols, or those that are given."""
    protocols = list(dict.fromkeys(options.protocol or scenario.protocols))
    return Settings(**{**scenario.settings, **_times(options)}), protocols


def _draw(options: Options, scenario: Scenario, group: Mapping[str, Any], sight: GroupPictureData) -> None:
    log.info("drawing group %s", group["group_id"])
    place = Path(options.pictures_dir)
    options.outcome.locations["pictures"] = str(place.resolve())
    files = draw_group(sight, group, place, scenario.name, options.picture)
    print(f"Drawn to {place.resolve()}: " + ", ".join(file.name for file in files), flush=True)


def run_fleet(options: Options, spark: SparkSession) -> int:
    """Events of one's own: simulated, or compared, or the steps of an upgrade."""
    if options.output:
        check_output(options.output)
    required = REQUIRED_TABLES if options.upgrade else (*REQUIRED_TABLES, "events")
    shape = Shape("A fleet with events", {**INPUT_TABLES, **BESIDE}, required)
    elsewhere = (options.table or {}) | ({"events": options.events} if options.events else {})
    tables = read_tables(spark, shape, options.fleet, format=options.format, options=options.option, tables=elsewhere)
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
    protocol = (options.protocol or ("configured",))[0]
    simulation = simulate(fleet, tables["events"], protocol, settings)
    found = _write(options, simulation.tables() | (_large(options, simulation) if options.output else {}))
    print(summarize_simulation(found["availability"], found["rejected"], [protocol], options.top)[0], flush=True)
    return _failed(options, found["rejected"])


def _large(options: Options, simulation: Simulation) -> dict[str, DataFrame]:
    """The tables that grow with partitions and messages, if they are asked for; else what the report draws of them."""
    if not options.trace:
        return {"ownership": charted_ownership(simulation)}
    return {name: getattr(simulation, name) for name in ("trace", "partitions", "ownership")}


def _times(options: Options) -> dict[str, Any]:
    release = {} if options.broker_release is None else {"broker_release": options.broker_release}
    return timing_overrides(options) | release


def _write(options: Options, tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """The tables written and read back, or as they were where nothing is to be written."""
    if not options.output:
        return tables
    schemas = {name: table.schema for name, table in tables.items()}
    inputs = {"fleet": options.fleet, "events": options.events, "settings": _times(options)}
    store_run(options, tables, schemas=schemas, inputs=inputs, found=options.fail_on)
    spark = next(iter(tables.values())).sparkSession
    return read_run(spark, options.output, options.run_id, schemas=schemas).tables


def _failed(options: Options, rejected: DataFrame) -> int:
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
