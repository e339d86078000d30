"""Simulate rebalances over time: which partitions pause, and for how long, when consumers join, leave, crash,
or restart.

The commands simulate and draw packaged scenarios, which need no fleet.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pyspark.sql import DataFrame, SparkSession

import spark_assign.cli  # noqa: F401 - Ctrl-C in what follows
from spark_assign import Fleet
from spark_assign.cli.job import Job, Options, job, spark_session
from spark_assign.cli.job_tables import exit_code, read_fleet_and_settings, store_and_read, store_run
from spark_assign.cli.options import (
    INPUT,
    LOCAL_FOLDER,
    fail_on,
    flags_of,
    fleet_or_sample,
    given_parameters,
    input_options,
    is_sample,
    moved_option,
    output_options,
    parameter_options,
    sample,
    top,
)
from spark_assign.cli.owners import group_filter_options, select_groups
from spark_assign.cli.plan_kinds import has_streams_groups, read_fleets
from spark_assign.connect import simulate as connect
from spark_assign.fleet import FleetTables
from spark_assign.report.connect import (
    draw_protocol_comparison,
    format_protocol_comparison,
    summarize_connect_simulation,
)
from spark_assign.report.formatting import group_name, name_clusters_of
from spark_assign.report.group_pictures import GroupPictureData, draw_group, local_picture_data, read_picture_data
from spark_assign.report.share_and_streams import summarize_streams_simulation
from spark_assign.report.simulation import (
    VARIANTS,
    charted_ownership,
    summarize_comparison,
    summarize_local_simulation,
    summarize_simulation,
)
from spark_assign.simulation import Settings, Simulation, simulate, simulate_variants
from spark_assign.simulation.scenarios import SCENARIOS, Scenario, simulate_scenario
from spark_assign.simulation.simulate_groups import simulate_fleet
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.spark.dataframes import dataframe_of_rows
from spark_assign.stores.driver_rows import write_rows
from spark_assign.streams import simulate_streams
from spark_assign.streams.simulate_applications import VARIANTS as STREAMS_VARIANTS
from spark_assign.tables.connect import EVENTS as CONNECT_EVENTS
from spark_assign.tables.connect import SIMULATION_TABLES as CONNECT_TABLES
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.parameters import Param

EXIT_CODES = """Exit codes: 0 success; 1 groups were rejected, and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""
ONLY_FLEETS = "--events, --compare, --store-trace, --restore-bytes-per-second, --leave-group-on-close"

log = logging.getLogger("spark_assign.simulate")


@dataclass(frozen=True)
class Simulated:
    """What is simulated, and what is stored.

    Attributes:
        events: file, folder, or catalog table of the events (default: the table events of the fleet; for the sample
            fleet a rolling restart of every group).
        connect_events: file, folder, or catalog table of events of the fleet's Connect clusters, which are simulated
            instead of groups: connect_cluster, at_ms, event, subject, tasks.
        compare_protocol: with --connect-events: protocol to simulate, such as eager, or sessioned@3.5.1 (default: the
            protocol of each cluster).
        variant: how the groups run. static: cooperative with static members; consumer: KIP-848 (default: configured,
            or the variants of the scenario).
        compare: compare the variants eager, cooperative, static, and consumer, one row per group of the fleet.
        restore_bytes_per_second: what a process restores from changelogs. With it, classic Streams applications are
            simulated as well, with --variant configured or static (default: they are rejected).
        leave_group_on_close: let members of Streams applications leave their group when their instance closes (default:
            as configured; by Kafka's default, they stay until their session times out).
        store_trace: also store trace, partitions, and the ownership of all groups, which are large (default: store only
            the ownership of the groups that a report draws).
    """

    events: Annotated[str | None, Param(kind=INPUT, metavar="LOCATION")] = None
    connect_events: Annotated[str | None, Param(kind=INPUT, metavar="LOCATION")] = None
    compare_protocol: Annotated[tuple[str, ...], Param()] = ()
    variant: Annotated[tuple[str, ...], Param(choices=VARIANTS)] = ()
    compare: Annotated[bool, Param()] = False
    restore_bytes_per_second: Annotated[float | None, Param(least=1)] = None
    leave_group_on_close: Annotated[bool, Param()] = False
    store_trace: Annotated[bool, Param()] = False


@dataclass(frozen=True)
class Drawn:
    """What is drawn.

    Attributes:
        pictures_dir: folder for the pictures (default: the current folder).
        picture: format of the pictures.
    """

    pictures_dir: Annotated[str | None, Param(kind=LOCAL_FOLDER, metavar="DIR")] = None
    picture: Annotated[str, Param(choices=("svg", "png", "pdf"))] = "svg"


def check_usage(options: Options) -> None:
    """Checks that the options fit together, because options of another kind of simulation would be ignored.

    Raises:
        ConfigError: they don't.
    """
    fleet_or_sample(options, __file__)  # raises
    Settings(**_times(options))  # raises
    if options.restore_bytes_per_second is not None and (
        options.compare or not set(options.variant) <= set(STREAMS_VARIANTS)
    ):
        raise ConfigError(
            f"--restore-bytes-per-second requires --variant {' or '.join(STREAMS_VARIANTS)}, and no --compare."
        )
    if len(options.variant) > 1:
        raise ConfigError("A fleet is simulated with one --variant. To compare variants, use --compare.")


REJECTED = fail_on("rejected", "groups are rejected")


def _scenario(name: str) -> Job:
    """Returns the job of a scenario of groups."""
    scenario = SCENARIOS[name]()

    @job(f"Simulate and draw a scenario: {scenario.about}.", EXIT_CODES, name=name, label="simulate")
    @parameter_options(Simulated, "variant", defaults=True)
    @parameter_options(Drawn, defaults=True)
    @parameter_options(Settings)
    @REJECTED
    @top()
    def run(options: Options) -> int:
        _print_refusals(options)
        return (run_fleet_scenario if scenario.tables is None else run_scenario)(options, scenario)

    return run


def _connect_scenario(name: str) -> Job:
    """Returns the job of a scenario of a Connect cluster."""

    @job(None, EXIT_CODES, name=name, label="simulate")
    @parameter_options(Drawn, defaults=True)
    @parameter_options(connect.ConnectTiming)
    @output_options(type=LOCAL_FOLDER)
    @REJECTED
    def run(options: Options) -> int:
        """Simulate and draw a scenario of a Connect cluster, with each of its protocols."""
        return run_connect_scenario(options, connect.SCENARIOS[name]())

    return run


@job(
    __doc__,
    EXIT_CODES,
    name="simulate",
    usage=(
        "--compare-protocol needs --connect-events",
        f"--connect-events excludes {ONLY_FLEETS}, --variant, {flags_of(Settings)}",
        f"{flags_of(connect.ConnectTiming)} needs --connect-events",
        "--leave-group-on-close needs --restore-bytes-per-second",
        check_usage,
    ),
    commands=(*map(_scenario, SCENARIOS), *map(_connect_scenario, connect.SCENARIOS)),
)
@moved_option("--scenario", "simulate {}", [*SCENARIOS, *connect.SCENARIOS])
@input_options()
@group_filter_options()
@parameter_options(Simulated, defaults=True)
@parameter_options(Settings)
@parameter_options(connect.ConnectTiming, condition="With --connect-events")
@output_options()
@REJECTED
@top()
def main(options: Options) -> int:
    """Simulates a fleet."""
    _print_refusals(options)
    return (run_connect_fleet if options.connect_events else run_fleet)(options, spark_session("simulate", options))


def _print_refusals(options: Options) -> None:
    """Prints which of the given times brokers refuse by default."""
    if refusals := Settings(**_times(options)).timing.refusals():
        print("\n".join(refusals), flush=True)


def run_connect_scenario(options: Options, scenario: connect.ConnectScenario) -> int:
    """Simulates a scenario of a Connect cluster without Spark: prints and draws the comparison of its protocols."""
    times = _connect_times(options)
    simulation = connect.simulate_scenario(scenario, **times)
    comparison = format_protocol_comparison(scenario, simulation["rebalances"], simulation["costs"])
    print(f"Scenario {scenario.name}\n{comparison}")
    folder = Path(options.pictures_dir or ".").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{scenario.name}.{options.picture}"
    draw_protocol_comparison(scenario, simulation["rebalances"], str(picture))
    options.outcome.locations["pictures"] = str(folder)
    print(f"Drawn to {picture}", flush=True)
    if options.output:  # for the report
        _store_connect(options, simulation, Path(options.output).resolve(), {"scenario": scenario.name, **times})
    return int(options.fail_on == "rejected" and bool(simulation["rejected"]))


def _connect_times(options: Options) -> dict[str, int]:
    """Returns the times of the simulation of Connect clusters, in milliseconds."""
    return asdict(connect.ConnectTiming(**given_parameters(options, connect.ConnectTiming)))


def run_connect_fleet(options: Options, spark: SparkSession) -> int:
    """Simulates events of the Connect clusters of a fleet."""
    location = sample(__file__, "applications") if is_sample(options) else options.fleet
    given: dict[str, Any] = {"format": options.format, "options": options.option}
    _, clusters = read_fleets(spark, location, **given, tables=options.table)
    if clusters is None:
        raise ConfigError(f"--connect-events: {location} has no Connect clusters (table clusters).")
    shape = Shape("Events of Connect clusters", {"events": CONNECT_EVENTS}, ("events",))
    events = read_tables(spark, shape, None, **given, tables={"events": options.connect_events})["events"]
    clusters = select_groups(spark, clusters, options)
    times, protocols = _connect_times(options), options.compare_protocol or None
    tables = connect.simulate_connect(clusters, events, protocols=protocols, **times).tables
    inputs = {"fleet": location, "events": options.connect_events, **times}
    tables = store_and_read(options, tables, schemas=CONNECT_TABLES, inputs=inputs, found=options.fail_on)
    print(summarize_connect_simulation(tables["costs"], tables["rejected"], options.top), flush=True)
    return exit_code(options, tables["rejected"])


def _store_connect(options: Options, tables: dict[str, connect.Rows], folder: Path, inputs: Mapping[str, Any]) -> None:
    """Writes the rows as tables; Spark writes formats other than Parquet."""
    options.output = str(folder)  # a path, not a catalog
    if options.output_format not in (None, "parquet") or options.output_option:
        spark = spark_session("simulate", options)
        frames = {name: dataframe_of_rows(spark, rows, CONNECT_TABLES[name]) for name, rows in tables.items()}
        store_run(options, frames, schemas=CONNECT_TABLES, inputs=inputs, found=options.fail_on)
        return
    outcome = options.outcome.of_run(options.fail_on)
    manifest = write_rows(tables, folder, run_id=options.run_id, inputs=inputs, schemas=CONNECT_TABLES, outcome=outcome)
    options.outcome.wrote(manifest, options.output)
    print(f"Written to {folder} as run_id={options.run_id}", flush=True)


def run_scenario(options: Options, scenario: Scenario) -> int:
    """Simulates a scenario of one group, without Spark: prints its costs, and draws it."""
    settings, variants = _scenario_settings(options, scenario)
    log.info("simulating %s with %s", count(len(scenario.events), "event"), ", ".join(variants))
    simulation = simulate_scenario(scenario, variants, settings)
    text, group = summarize_local_simulation(simulation)
    print(f"Scenario {scenario.name}: {scenario.about}\n{text}", flush=True)
    if group is not None:
        _draw(options, scenario, group, local_picture_data(simulation, group))
    return int(options.fail_on == "rejected" and bool(simulation.rejected))


def run_fleet_scenario(options: Options, scenario: Scenario) -> int:
    """Simulates a scenario of the sample fleet: prints its costs, and draws the group with the largest costs."""
    spark = spark_session("simulate", options)
    fleet, events = scenario.read(spark, Fleet.read(spark, sample(__file__, "fleet")))
    name_clusters_of(fleet.members)
    settings, variants = _scenario_settings(options, scenario)
    simulation = simulate_fleet(fleet, events, variants, settings)
    log.info("simulating %s with %s", count(events.count(), "event"), ", ".join(variants))
    text, largest = summarize_simulation(simulation.availability, simulation.rejected, variants, options.top)
    print(f"Scenario {scenario.name}: {scenario.about}\n{text}", flush=True)
    if largest:
        _draw(options, scenario, largest[0], read_picture_data(simulation, largest[0]))
    return exit_code(options, simulation.rejected)


def _scenario_settings(options: Options, scenario: Scenario) -> tuple[Settings, Sequence[str]]:
    """Returns the settings and variants of a scenario, with those of the options."""
    variants = list(dict.fromkeys(options.variant or scenario.variants))
    return Settings(**{**scenario.settings, **_times(options)}), variants


def _draw(options: Options, scenario: Scenario, group: Mapping[str, Any], data: GroupPictureData) -> None:
    log.info("drawing group %s", group_name(group))
    folder = Path(options.pictures_dir or ".").resolve()
    options.outcome.locations["pictures"] = str(folder)
    files = draw_group(data, group, folder, scenario.name, options.picture)
    print(f"Drawn to {folder}: " + ", ".join(file.name for file in files), flush=True)


def run_fleet(options: Options, spark: SparkSession) -> int:
    """Simulates events of a fleet, or compares variants."""
    location = fleet_or_sample(options, __file__)
    elsewhere = (options.table or {}) | ({"events": options.events} if options.events else {})
    is_deployment = is_sample(options) and "events" not in elsewhere
    fleet: FleetTables
    fleet, tables = read_fleet_and_settings(spark, options, location, elsewhere, () if is_deployment else ("events",))
    if is_deployment:
        fleet, tables["events"] = SCENARIOS["deploy-fleet"]().read(spark, fleet)
    events = tables.pop("events")
    settings = Settings(**_times(options), **tables)
    log.info("read the fleet's tables; simulating %s", count(events.count(), "event"))
    if options.compare:
        compared = simulate_variants(fleet, events, settings)
        results = {"comparison": compared.comparison, "rejected": compared.rejected}
        if options.output:
            results |= {"availability": compared.availability, "rebalances": compared.rebalances}
            results |= _large_tables(options, compared)
        stored = _store(options, results)
        print(summarize_comparison(stored["comparison"], stored["rejected"], options.top), flush=True)
        return exit_code(options, stored["rejected"])
    variant = (options.variant or ("configured",))[0]
    simulation = simulate(fleet, events, variant, settings)
    results = dict(simulation.tables) | (_large_tables(options, simulation) if options.output else {})
    streams = None
    if options.restore_bytes_per_second is not None and has_streams_groups(fleet):
        streams = simulate_streams(
            fleet,
            events,
            variant,
            settings,
            restore_bytes_per_second=options.restore_bytes_per_second,
            leaves_on_close=options.leave_group_on_close or None,
        )
        results["rejected"] = results["rejected"].where("code != 'streams-group'")
        results |= streams.with_prefix(streams.tables)
    stored = _store(options, results)
    rejected = stored["rejected"]
    if streams is None or not stored["availability"].isEmpty() or not rejected.isEmpty():
        print(summarize_simulation(stored["availability"], rejected, [variant], options.top)[0], flush=True)
    if streams is not None:
        streams = streams.with_tables({name: stored[f"{streams.prefix}{name}"] for name in streams.tables})
        print(summarize_streams_simulation(streams, options.top), flush=True)
        rejected = rejected.unionByName(streams.rejected)
    return exit_code(options, rejected)


def _large_tables(options: Options, simulation: Simulation) -> dict[str, DataFrame]:
    """Returns the large tables if they are to be stored, else only the rows of ownership that a report draws."""
    if not options.store_trace:
        return {"ownership": charted_ownership(simulation)}
    return {name: getattr(simulation, name) for name in ("trace", "partitions", "ownership")}


def _times(options: Options) -> dict[str, Any]:
    return given_parameters(options, Settings)


def _store(options: Options, tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Returns the tables, stored and read back if --output is given."""
    inputs = {"fleet": fleet_or_sample(options, __file__), "events": options.events, "settings": _times(options)}
    return store_and_read(options, tables, inputs=inputs, found=options.fail_on)


if __name__ == "__main__":
    main()
