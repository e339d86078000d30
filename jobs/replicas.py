"""Place replicas as Kafka does, reassign them with as few moves as possible, check them, or find out which groups an
operation on brokers affects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC
from types import SimpleNamespace

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, FleetError
from spark_assign.cli.job import Commands, Job, Options, job, spark_session
from spark_assign.cli.job_tables import on_fleet
from spark_assign.cli.options import (
    compose_options,
    exit_codes,
    fail_on,
    fleet_or_sample,
    given_values,
    input_options,
    is_sample,
    milliseconds,
    named_values,
    output_options,
    tables_with_sample,
    top,
)
from spark_assign.cli.owners import group_filter_options
from spark_assign.replicas import (
    Bandwidth,
    ClusterChange,
    ReplicaFleet,
    check,
    operate,
    place,
    reassign,
    schedule,
    tool_files,
    write_tool_files,
)
from spark_assign.replicas.fleet import replica_fleet
from spark_assign.replicas.operation import ALL, BROKER_RELEASES
from spark_assign.replicas.placement import ALGORITHMS
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.report.text import replicas as report
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.locations import is_path, join
from spark_assign.stores.run_store import check_output, read_run, write_run
from spark_assign.tables.errors import ConfigError, Fault
from spark_assign.tables.groups import LOADS, REPLICAS
from spark_assign.tables.replicas import BROKERS, REQUESTS, SIZES

SHAPES = {"replicas": REPLICAS, "brokers": BROKERS, "sizes": SIZES, "requests": REQUESTS, "loads": LOADS}

CONDITIONS = {
    "place": ("rejected", "requests were rejected"),
    "reassign": ("rejected", "clusters were rejected"),
    "check": ("problems", "problems were found"),
    "operate": ("rejected", "clusters were rejected"),
}
"""Condition of --fail-on of each command, and what it looks for."""

SAMPLE_CHANGE = ("3", "4=use1-az4")
"""Default of --remove and --add for the sample fleet: another broker in the same rack."""

CHANGES = ("remove", "add", "rack", "replication_factor", "partitions")
"""Options that change clusters."""

Tables = Mapping[str, DataFrame]


@click.command(cls=Commands, name="replicas", help=__doc__, epilog=exit_codes("", ""), no_args_is_help=False)
def main() -> None:
    """Has the commands place, reassign, check, and operate."""


def _command(name: str, what: str) -> Callable[[Callable[[Options], int]], Job]:
    """Returns a decorator for a command, which adds the options that all commands have."""
    condition, found = CONDITIONS[name]
    common = [input_options("the tables, for example a snapshot"), output_options(), fail_on(condition, found)]

    def decorate(run: Callable[[Options], int]) -> Job:
        for option in reversed(common):
            run = option(run)
        made = job(what, exit_codes(found, condition), name=name, label="replicas")(run)
        main.add_command(made)
        return made

    return decorate


@_command("place", "Place the replicas of new topics and partitions. Reads the tables requests and brokers.")
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHMS),
    default="striped",
    help="Kafka's class: StripedReplicaPlacer of Kafka 4 (striped), or AdminUtils up to 3.9 (adminutils; default: "
    "striped).",
)
def placing(options: Options) -> int:
    """Places the replicas of requests."""
    spark = _begin(options, "place")
    options.table = tables_with_sample(options, __file__, "requests")
    tables = _read(spark, options, ("requests", "brokers"), ("requests", "brokers"))
    placed = place(tables["requests"], tables["brokers"], options.algorithm)
    results = _write(spark, options, "place", {"placements": placed.placements, "rejected": placed.rejected})
    print(report.summarize_placements(results["placements"], results["rejected"]), flush=True)
    return _failed(options, results["rejected"])


@_command("check", "Check racks, brokers, and balance of replicas. Reads the tables replicas and brokers.")
@click.option(
    "--min-replicas", metavar="N", type=int, default=1, help="Minimum number of replicas of a partition (default: 1)."
)
def checking(options: Options) -> int:
    """Checks the replicas of a fleet."""
    spark = _begin(options, "check")
    checked = check(_read_fleet(spark, options), min_replicas=options.min_replicas)
    about = ("brokers", "racks", "problems", "clusters")
    results = _write(spark, options, "check", {name: getattr(checked, name) for name in about})
    print(report.summarize_check(results["clusters"], results["problems"]), flush=True)
    return _failed(options, results["problems"])


CHANGE_OPTIONS = compose_options(
    click.option(
        "--cluster",
        metavar="GLOB",
        default="*",
        help="Clusters that change, by shell pattern of their names (default: all).",
    ),
    click.option("--remove", metavar="ID,ID,…", help="Brokers that must lose all replicas."),
    click.option("--add", metavar="ID[=RACK],…", help="New brokers, with their racks."),
    click.option("--rack", metavar="ID=RACK,…", help="New racks of brokers."),
    named_values("--replication-factor", "GLOB=N", "New replication factor of topics that match a shell pattern."),
    named_values("--partitions", "GLOB=N", "New number of partitions of topics that match a shell pattern."),
    click.option(
        "--tolerance",
        metavar="X",
        type=float,
        default=0.1,
        help="Maximum deviation of a broker from its even share, as a fraction of the share (default: 0.1).",
    ),
    click.option(
        "--voluntary",
        type=click.Choice(["yes", "no"]),
        help="Whether replicas that could stay may move to improve balance (default: only if brokers are added).",
    ),
)
"""Options of a change of clusters."""


@_command(
    "reassign",
    "Reassign replicas after a change, with as few moves as possible. Reads replicas, brokers, sizes, and loads.",
)
@CHANGE_OPTIONS
@click.option(
    "--partitions-per-batch",
    metavar="N",
    type=int,
    help="Maximum number of partitions in a batch (default and maximum: 10000).",
)
@click.option(
    "--bytes-per-batch",
    metavar="N",
    type=int,
    help="Maximum number of bytes that a batch moves, if sizes are known (default: no limit).",
)
@click.option(
    "--throttle",
    metavar="BYTES",
    type=int,
    help="Compute how long each batch takes with this throttle, in bytes/s. Requires the table sizes.",
)
@click.option(
    "--bandwidth",
    metavar="BYTES",
    type=int,
    help="Compute the throttle, too: what each broker can send, and receive, in bytes/s. Requires sizes and loads.",
)
@click.option(
    "--headroom",
    metavar="X",
    type=float,
    help="With --bandwidth: fraction of it that stays free beside the measured rates (default: 0.3).",
)
@click.option(
    "--finish-by", metavar="TIME", type=click.DateTime(), help="Compute the latest start of each batch (UTC)."
)
def reassigning(options: Options) -> int:
    """Reassigns replicas, and writes the files for Kafka's tools."""
    limits = {"--partitions-per-batch": options.partitions_per_batch, "--bytes-per-batch": options.bytes_per_batch}
    for flag, limit in limits.items():
        if limit is not None and limit < 1:
            raise ConfigError(f"{flag} {limit}: expected 1 or more")
    is_timed = options.throttle is not None or options.bandwidth is not None
    if not is_timed and (options.headroom is not None or options.finish_by):
        raise ConfigError(f"--{'finish-by' if options.finish_by else 'headroom'} requires --throttle or --bandwidth")
    spark = _begin(options, "reassign")
    tables = _read(spark, options, ("replicas", "brokers", "sizes", *["loads"] * is_timed), ("replicas", "brokers"))
    loads = tables.pop("loads", None)
    plan = _reassigned(ReplicaFleet(**tables), options)
    frames = {name: getattr(plan, name) for name in ("placement", "moves", "metrics", "rejected")}
    if is_timed:
        headroom = {} if options.headroom is None else {"headroom": options.headroom}
        frames["schedule"] = schedule(
            plan,
            Bandwidth(options.throttle, options.bandwidth, **headroom),
            loads,
            partitions_per_batch=options.partitions_per_batch,
            bytes_per_batch=options.bytes_per_batch,
            finish=options.finish_by and options.finish_by.replace(tzinfo=UTC),
        )
    results = _write(spark, options, "reassign", frames)
    print(report.summarize_reassignment(results["metrics"], results["rejected"]), flush=True)
    if is_timed:
        print("\n" + report.summarize_schedule(results["schedule"]), flush=True)
    if options.output and is_path(options.output):
        files = tool_files(
            plan, partitions_per_batch=options.partitions_per_batch, bytes_per_batch=options.bytes_per_batch
        )
        written = write_tool_files(files, join(options.output, "json"))
        options.outcome.locations["files"] = join(options.output, "json")
        print("\n".join(["", f"{len(written)} files for Kafka's tools:", *written[:10]]), flush=True)
    return _failed(options, results["rejected"])


@_command("operate", "Find out who rebalances during an operation. Reads a fleet with replicas and brokers.")
@click.option(
    "--restart",
    metavar="ID,ID,…|all",
    help="Rolling restart of these brokers in this order, or of all in the order with the fewest moves.",
)
@click.option("--down", metavar="ID", help="A broker that crashes and stays down.")
@CHANGE_OPTIONS
@click.option(
    "--leaders-return",
    type=click.Choice(["yes", "no"]),
    default="yes",
    help="Whether leaders return to their preferred brokers after each restart (auto.leader.rebalance.enable; "
    "default: yes).",
)
@milliseconds("downtime_ms", "Time that each restarted broker is down (default: 60000).")
@click.option(
    "--broker-release",
    type=click.Choice(BROKER_RELEASES),
    default=BROKER_RELEASES[-1],
    help="Kafka release of the brokers (default: 4.4).",
)
@group_filter_options()
@top()
def operating(options: Options) -> int:
    """Computes what an operation does to the groups of a fleet."""
    fleet_or_sample(options, __file__)  # raises
    given = [flag for flag in ("restart", "down") if getattr(options, flag) is not None]
    changes = list(given_values(options, CHANGES))
    if len(given) > 1 or (given and changes):
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in [*given, *changes][:2])
        raise ConfigError(f"{flags} are different operations. Give one of them.")
    if is_sample(options) and not given and not changes:
        options.restart = ALL
        print("No operation given, so all brokers restart: --restart all", flush=True)
    elif not given and not changes:
        raise ConfigError("No operation given. Use --restart, --down, or a change such as --remove ID.")
    return on_fleet("replicas operate", options, __file__, _operate)


def _operate(options: Options, _location: str | None, fleet: Fleet) -> int:
    is_change = options.restart is None and options.down is None
    operation = operate(
        fleet,
        restart=ALL if options.restart == ALL else _ids("--restart", options.restart),
        down=None if options.down is None else _number("--down", options.down),
        reassignment=_reassigned(replica_fleet(fleet), options) if is_change else None,
        cluster=options.cluster,
        leaders_return=options.leaders_return == "yes",
        **({} if options.downtime_ms is None else {"downtime_seconds": options.downtime_ms / 1_000}),
        broker_release=options.broker_release,
    )
    results = _write(fleet.topics.sparkSession, options, "operate", operation.tables)
    steps, groups, orders, rejected = (results[name] for name in ("steps", "groups", "orders", "rejected"))
    print(report.summarize_operation(steps, groups, orders, rejected, options.top), flush=True)
    return _failed(options, results["rejected"])


def _reassigned(fleet: ReplicaFleet, options: Options) -> Reassignment:
    """Returns the reassignment of a change (`CHANGE_OPTIONS`)."""
    if options.tolerance < 0:
        raise ConfigError(f"--tolerance {options.tolerance}: expected 0 or more, for example 0.1 for 10 %")
    if is_sample(options) and not given_values(options, CHANGES):
        options.remove, options.add = SAMPLE_CHANGE
        print(f"No change given, so a broker is replaced: --remove {options.remove} --add {options.add}", flush=True)
    return reassign(
        fleet,
        _change(fleet, options),
        tolerance=options.tolerance,
        voluntary=None if options.voluntary is None else options.voluntary == "yes",
    )


def _begin(options: Options, name: str) -> SparkSession:
    """Returns the session, after the checks of input and output."""
    fleet_or_sample(options, __file__)  # raises
    if options.output:
        check_output(options.output)
    return spark_session(f"replicas {name}", options)


def _read_fleet(spark: SparkSession, options: Options) -> ReplicaFleet:
    return ReplicaFleet(**_read(spark, options, ("replicas", "brokers", "sizes"), ("replicas", "brokers")))


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
    return tables


def _write(spark: SparkSession, options: Options, name: str, tables: Tables) -> Tables:
    """Writes the tables and reads them back; without `--output`, returns them."""
    if options.output is None:
        return tables
    schemas = {name: table.schema for name, table in tables.items()}
    manifest = write_run(
        SimpleNamespace(**tables),
        options.output,
        run_id=options.run_id,
        format=options.output_format if is_path(options.output) else None,
        inputs={"job": f"replicas {name}", "fleet": fleet_or_sample(options, __file__)},
        options=options.output_option,
        schemas=schemas,
        outcome=options.outcome.of_run(options.fail_on),
    )
    options.outcome.wrote(manifest, options.output)
    return dict(read_run(spark, options.output, manifest.run_id, schemas=schemas).tables)


def _change(fleet: ReplicaFleet, options: Options) -> ClusterChange:
    return ClusterChange.from_values(
        fleet,
        cluster=options.cluster,
        removed=_ids("--remove", options.remove) or (),
        added=dict(_broker("--add", word) for word in _words(options.add)),
        racks=dict(_broker("--rack", word) for word in _words(options.rack)),
        replication_factors=_numbers("--replication-factor", options.replication_factor),
        partitions=_numbers("--partitions", options.partitions),
    )


def _words(given: str | None) -> list[str]:
    return [word.strip() for word in given.split(",")] if given else []


def _ids(flag: str, given: str | None) -> list[int] | None:
    return None if given is None else [_number(flag, word) for word in _words(given)]


def _broker(flag: str, word: str) -> tuple[int, str | None]:
    broker, _, rack = word.partition("=")
    if flag == "--rack" and not rack:
        raise ConfigError(f"{flag} {word}: expected ID=RACK")
    return _number(flag, broker), rack or None


def _numbers(flag: str, given: Mapping[str, str] | None) -> dict[str, int]:
    return {name: _number(flag, value) for name, value in (given or {}).items()}


def _number(flag: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"{flag}: {word!r} isn't an integer") from None


def _failed(options: Options, found: DataFrame) -> int:
    return int(options.fail_on is not None and not found.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
