"""Place replicas as Kafka does, reassign them with as few moves as possible, check them, or find out which groups an
operation on brokers affects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Annotated, Any

import click
from pyspark.sql import DataFrame, SparkSession

import spark_assign.cli  # noqa: F401 - Ctrl-C in what follows
from spark_assign import Fleet, FleetError
from spark_assign.advice.zones import compare_zone_traffic
from spark_assign.cli.cluster_changes import (
    BALANCE_OPTIONS,
    BALANCE_USAGE,
    CHANGE_OPTIONS,
    CHANGES,
    load_goals,
    planned_reassignment,
)
from spark_assign.cli.job import Commands, Job, Options, Rule, job, spark_session
from spark_assign.cli.job_tables import exit_code, on_fleet, store_and_read, stored_history
from spark_assign.cli.options import (
    ListType,
    compose_options,
    exit_codes,
    fail_on,
    fleet_or_sample,
    given_parameters,
    given_values,
    input_options,
    is_sample,
    output_options,
    parameter_options,
    stored_run,
    tables_with_sample,
    top,
)
from spark_assign.cli.owners import group_filter_options
from spark_assign.replicas import (
    Bandwidth,
    ReplicaFleet,
    changes_of_leader_moves,
    check,
    operate,
    place,
    schedule,
    tool_files,
    write_tool_files,
)
from spark_assign.replicas.fleet import replica_fleet
from spark_assign.replicas.given_reassignment import given_reassignment, read_reassignments
from spark_assign.replicas.operation import ALL, BROKER_RELEASES, fleet_after
from spark_assign.replicas.placement import ALGORITHMS
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.report import replicas as report
from spark_assign.report.formatting import name_clusters_of
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.locations import is_path, join, split_run_id
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import ConfigError, Fault, count
from spark_assign.tables.groups import LOADS, LOG_DIR_REPLICAS, LOG_DIRS, REPLICAS
from spark_assign.tables.parameters import Param
from spark_assign.tables.replicas import BROKERS, CAPACITIES, REASSIGN_TABLES, REQUESTS, SCHEDULE, SIZES

SHAPES = {
    "replicas": REPLICAS,
    "brokers": BROKERS,
    "sizes": SIZES,
    "requests": REQUESTS,
    "loads": LOADS,
    "capacities": CAPACITIES,
    "log_dirs": LOG_DIRS,
    "log_dir_replicas": LOG_DIR_REPLICAS,
}


@dataclass(frozen=True)
class Given:
    """What some commands are given.

    Attributes:
        algorithm: Kafka's class: StripedReplicaPlacer of Kafka 4 (striped), or AdminUtils up to 3.9 (adminutils).
        min_replicas: minimum number of replicas of a partition.
        reassignment: reassignment of another tool: JSON of kafka-reassign-partitions.sh (also the output of
            --generate), of topicmappr, or of Cruise Control.
    """

    algorithm: Annotated[str, Param(choices=ALGORITHMS)] = "striped"
    min_replicas: Annotated[int, Param()] = 1
    reassignment: Annotated[tuple[str, ...], Param(metavar="FILE")] = ()


@dataclass(frozen=True)
class Batches:
    """Batches of a reassignment.

    Attributes:
        partitions_per_batch: maximum number of partitions in a batch (default and maximum: 10000).
        bytes_per_batch: maximum number of bytes that a batch moves, if sizes are known (default: no limit).
    """

    partitions_per_batch: Annotated[int | None, Param(least=1)] = None
    bytes_per_batch: Annotated[int | None, Param(least=1)] = None


BATCH_OPTIONS = compose_options(
    parameter_options(Batches),
    parameter_options(Bandwidth),
    click.option(
        "--finish-by", metavar="TIME", type=click.DateTime(), help="Compute the latest start of each batch (UTC)."
    ),
)
"""Options of the batches of a reassignment, and of their times."""

BATCH_USAGE = (
    "--headroom, --measured-rate, --finish-by needs --throttle, --bandwidth",
    "--throttle excludes --bandwidth",
)
"""Which of them go together."""

REASSIGNMENT = parameter_options(Given, "reassignment")
REASSIGNMENT_OPTIONS = compose_options(
    REASSIGNMENT, click.option("--cluster", metavar="GLOB", default="*", help="Cluster of --reassignment.")
)

Tables = Mapping[str, DataFrame]


@click.command(cls=Commands, name="replicas", help=__doc__, epilog=exit_codes("", ""), no_args_is_help=False)
def main() -> None:
    """Has the commands place, reassign, check, schedule, and operate."""


def _check_input(options: Options) -> None:
    """Raises `ConfigError` if there is no fleet, or more than one."""
    fleet_or_sample(options, __file__)


class BrokersOrAll(ListType):
    """IDs of brokers, or `all`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts IDs."""
        return ALL if value == ALL else super().convert(value, param, ctx)


def _command(
    name: str, what: str, *usage: Rule, found: str = "clusters were rejected"
) -> Callable[[Callable[[Options], int]], Job]:
    """Returns a decorator for a command, which adds the options that all commands have, and checks `usage` (`Job`).

    `found` is what `--fail-on` looks for.
    """
    condition = "problems" if name == "check" else "rejected"
    common = [input_options("the tables, for example a snapshot"), output_options(), fail_on(condition, found)]

    def decorate(run: Callable[[Options], int]) -> Job:
        for option in reversed(common):
            run = option(run)
        codes = exit_codes(found, condition)
        made = job(what, codes, name=name, label="replicas", usage=(*usage, _check_input))(run)
        main.add_command(made)
        return made

    return decorate


@_command(
    "place",
    "Place the replicas of new topics and partitions. Reads the tables requests and brokers.",
    found="requests were rejected",
)
@parameter_options(Given, "algorithm", defaults=True)
def placing(options: Options) -> int:
    """Places the replicas of requests."""
    spark = spark_session("replicas place", options)
    options.table = tables_with_sample(options, __file__, "requests")
    tables = _read(spark, options, ("requests", "brokers"), ("requests", "brokers"))
    placed = place(tables["requests"], tables["brokers"], options.algorithm)
    results = _write(options, "place", {"placements": placed.placements, "rejected": placed.rejected})
    print(report.summarize_placements(results["placements"], results["rejected"]), flush=True)
    return exit_code(options, results["rejected"])


@_command(
    "check",
    "Check racks, brokers, and balance of replicas. Reads the tables replicas and brokers.",
    "--plan excludes --reassignment: one is a stored run, the other a file",
    found="problems were found",
)
@parameter_options(Given, "min_replicas", defaults=True)
@stored_run(
    "--plan",
    "Stored run of replicas reassign: also find the partitions that it changes and that have other replicas now.",
)
@REASSIGNMENT_OPTIONS
def checking(options: Options) -> int:
    """Checks the replicas of a fleet, or what they are after the reassignment of a file."""
    rows = read_reassignments(options.reassignment) if options.reassignment else []
    spark = spark_session("replicas check", options)
    fleet = ReplicaFleet(**_read(spark, options, ("replicas", "brokers", "sizes"), ("replicas", "brokers")))
    after = None
    placement = None if options.plan is None else _stored_placement(spark, options.plan)
    if rows:
        given, placement = given_reassignment(fleet, rows, options.cluster)
        after = given.after
    checked = check(fleet, min_replicas=options.min_replicas, placement=placement, after=after)
    about = ("brokers", "racks", "problems", "clusters")
    results = _write(options, "check", {name: getattr(checked, name) for name in about})
    print(report.summarize_check(results["clusters"], results["problems"]), flush=True)
    return exit_code(options, results["problems"])


@_command(
    "reassign",
    "Reassign replicas after a change, or to balance loads. As few as possible move. Reads replicas, brokers, sizes, "
    "loads, capacities, log_dirs, and log_dir_replicas.",
    *BALANCE_USAGE,
    *BATCH_USAGE,
)
@CHANGE_OPTIONS
@BALANCE_OPTIONS
@BATCH_OPTIONS
def reassigning(options: Options) -> int:
    """Reassigns replicas, and writes the files for Kafka's tools."""
    is_timed, goals = _is_timed(options), load_goals(options)
    spark = spark_session("replicas reassign", options)
    extra = ["loads", "log_dir_replicas"] * (is_timed or goals is not None)
    extra += ["capacities", "log_dirs"] * (goals is not None)
    tables = _read(spark, options, ("replicas", "brokers", "sizes", *extra), ("replicas", "brokers"))
    plan = planned_reassignment(ReplicaFleet(**tables), options, goals)
    names = ("placement", "moves", "metrics", *["balance"] * (goals is not None), "rejected")
    frames = {name: getattr(plan, name) for name in names}
    if is_timed:
        frames["schedule"] = _schedule(options, plan)
    results = _write(options, "reassign", frames)
    print(report.summarize_reassignment(results["metrics"], results["rejected"]), flush=True)
    if not options.rack and (note := report.note_missing_racks(tables["brokers"])):
        print(f"\n{note}", flush=True)
    if goals is not None:
        print("\n" + report.summarize_balance(results["balance"]), flush=True)
    if is_timed:
        print("\n" + report.summarize_schedule(results["schedule"]), flush=True)
    _write_tool_files(options, tool_files(plan, **given_parameters(options, Batches)))
    return exit_code(options, results["rejected"])


@_command(
    "schedule",
    "Time the reassignment of another tool, in batches. Reads replicas, brokers, sizes, and loads.",
    *BATCH_USAGE,
)
@REASSIGNMENT_OPTIONS
@BATCH_OPTIONS
def scheduling(options: Options) -> int:
    """Computes how long a given reassignment takes, and writes its batches."""
    if not options.reassignment:
        raise ConfigError("No reassignment given. Use --reassignment FILE. To plan one, use replicas reassign.")
    if not _is_timed(options):
        raise ConfigError("replicas schedule requires --throttle or --bandwidth")
    rows = read_reassignments(options.reassignment)
    spark = spark_session("replicas schedule", options)
    tables = _read(spark, options, ("replicas", "brokers", "sizes", "loads"), ("replicas", "brokers"))
    plan, _ = given_reassignment(ReplicaFleet(**tables), rows, options.cluster)
    frames = {name: getattr(plan, name) for name in ("placement", "moves", "rejected")}
    results = _write(options, "schedule", {**frames, "schedule": _schedule(options, plan)})
    print(report.summarize_schedule(results["schedule"]), flush=True)
    _write_tool_files(options, tool_files(plan, **given_parameters(options, Batches)))
    return exit_code(options, results["rejected"])


def _is_timed(options: Options) -> bool:
    """Returns whether times are computed."""
    return options.throttle is not None or options.bandwidth is not None


def _schedule(options: Options, plan: Reassignment) -> DataFrame:
    """Returns the times of the batches of a reassignment."""
    return schedule(
        plan,
        Bandwidth(**given_parameters(options, Bandwidth)),
        plan.fleet.loads,
        finish=options.finish_by and options.finish_by.replace(tzinfo=UTC),
        **given_parameters(options, Batches),
    )


@dataclass(frozen=True)
class Operation:
    """An operation on brokers.

    Attributes:
        restart: rolling restart of these brokers in this order, or of all in the order with the fewest moves.
        down: a broker that crashes and stays down.
        leaders_return: whether leaders return to their preferred brokers after each restart
            (auto.leader.rebalance.enable).
        downtime_s: time that each restarted broker is down.
        broker_release: Kafka release of the brokers, 4.0 to 4.4, or with a patch, such as 4.2.1.
        price_per_gb: with a change: also compute what the groups read across zones before and after it, at this price
            per gigabyte. Requires loads, and racks of brokers and members.
    """

    restart: Annotated[Any, Param(kind=BrokersOrAll(click.INT), metavar="ID,ID,…|all")] = None
    down: Annotated[int | None, Param(metavar="ID")] = None
    leaders_return: Annotated[str, Param(choices=("yes", "no"))] = "yes"
    downtime_s: Annotated[float, Param(least=0)] = 60
    broker_release: Annotated[str, Param(choices=BROKER_RELEASES, metavar="RELEASE")] = "4.4"
    price_per_gb: Annotated[float | None, Param(least=0)] = None


@_command("operate", "Find out who rebalances during an operation. Reads a fleet with replicas and brokers.")
@parameter_options(Operation, defaults=True)
@REASSIGNMENT
@CHANGE_OPTIONS
@stored_run("--history", "Stored history (job history), for the commits and rebalances per second of coordinators.")
@group_filter_options()
@top()
def operating(options: Options) -> int:
    """Computes what an operation does to the groups of a fleet."""
    given = [flag for flag in ("restart", "down", "reassignment") if getattr(options, flag) not in (None, ())]
    changes = list(given_values(options, CHANGES))
    if len(given) > 1 or (given and changes):
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in [*given, *changes][:2])
        raise ConfigError(f"{flags} are different operations. Give one of them.")
    if is_sample(options) and not given and not changes:
        options.restart = ALL
        print("No operation given, so all brokers restart: --restart all", file=sys.stderr)
    elif not given and not changes:
        raise ConfigError("No operation given. Use --restart, --down, --reassignment, or a change such as --remove ID.")
    options.reassignment = read_reassignments(options.reassignment) if options.reassignment else []
    if options.price_per_gb is not None and not changes and not options.reassignment:
        raise ConfigError("--price-per-gb requires a change such as --remove ID, after which leaders stay elsewhere.")
    return on_fleet("replicas operate", options, __file__, _operate, loads=options.price_per_gb is not None)


def _operate(options: Options, _location: str | None, fleet: Fleet) -> int:
    is_change = options.restart is None and options.down is None
    spark = fleet.topics.sparkSession
    reassignment = None
    if is_change and options.reassignment:
        reassignment, _ = given_reassignment(replica_fleet(fleet), options.reassignment, options.cluster)
    elif is_change:
        reassignment = planned_reassignment(replica_fleet(fleet), options)
    operation = operate(
        fleet,
        restart=options.restart,
        down=options.down,
        reassignment=reassignment,
        cluster=options.cluster,
        leaders_return=options.leaders_return == "yes",
        downtime_seconds=given_parameters(options, Operation)["downtime_s"],
        broker_release=options.broker_release,
        history=stored_history(spark, options.history).tables if options.history else None,
    )
    tables = dict(operation.tables)
    if reassignment is not None and options.price_per_gb is not None:
        after = fleet_after(fleet, reassignment)
        tables["zones"] = compare_zone_traffic(fleet, after, options.price_per_gb)
    results = _write(options, "operate", tables)
    print(report.summarize_operation(results, options.top), flush=True)
    if "zones" in results:
        print("\n" + report.summarize_operated_zones(results["zones"]), flush=True)
    _write_tool_files(options, tool_files(changes_of_leader_moves(results["leader_moves"])))
    return exit_code(options, results["rejected"])


def _write_tool_files(options: Options, files: DataFrame) -> None:
    """Writes files for Kafka's tools beside the tables, and prints their paths."""
    if not options.output or not is_path(options.output):
        return
    folder = join(options.output, "json")
    written = write_tool_files(files, folder)
    options.outcome.locations["files"] = folder
    if written:
        print("\n".join(["", f"{count(len(written), 'file')} for Kafka's tools:", *written[:10]]), flush=True)


def _stored_placement(spark: SparkSession, plan: str) -> DataFrame:
    """Returns the placement of a stored reassignment.

    Raises:
        SourceError: there is no run, or it isn't a reassignment.
    """
    location, run_id = split_run_id(plan)
    schemas = {**REASSIGN_TABLES, "schedule": SCHEDULE}
    return read_run(spark, location, run_id, schemas=schemas, required=("placement",)).tables["placement"]


def _read(
    spark: SparkSession, options: Options, names: tuple[str, ...], required: tuple[str, ...]
) -> dict[str, DataFrame]:
    tables = read_tables(
        spark,
        Shape("This job", {name: SHAPES[name] for name in names}, required),
        fleet_or_sample(options, __file__),
        format=options.format,
        options=options.option,
        tables=options.table,
    )
    if tables["brokers"].isEmpty():
        problem = "the fleet is empty: there are no brokers"
        raise FleetError([Fault("brokers", "*", problem, "Give the brokers of at least one cluster")])
    name_clusters_of(tables["brokers"])
    return tables


def _write(options: Options, name: str, tables: Tables) -> Tables:
    """Writes the tables and reads them back; without `--output`, returns them."""
    if options.output and not is_path(options.output):
        options.output_format = None
    inputs = {"job": f"replicas {name}", "fleet": fleet_or_sample(options, __file__)}
    return store_and_read(options, tables, inputs=inputs, found=options.fail_on, prints=False)


if __name__ == "__main__":
    main()
