"""Place replicas as Kafka does, reassign them with the fewest moves, or check where they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_assign import FleetError
from spark_assign.cli.job import Commands, Job, Options, job, spark_session
from spark_assign.cli.options import fail_on, fleet_or_sample, input_options, named_values, output_options
from spark_assign.replicas import Change, ReplicaFleet, check, place, reassign, tool_files, write_tool_files
from spark_assign.replicas.placement import ALGORITHMS
from spark_assign.report.text import replicas as report
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.locations import is_path, join
from spark_assign.stores.run_store import check_output, read_run, write_run
from spark_assign.tables.errors import ConfigError, Fault
from spark_assign.tables.groups import REPLICAS
from spark_assign.tables.replicas import BROKERS, REQUESTS, SIZES

EXIT_CODES = """Exit codes: 0 done; 1 what --fail-on names was found; 2 wrong usage or tables; 3 failure."""
SHAPES = {"replicas": REPLICAS, "brokers": BROKERS, "sizes": SIZES, "requests": REQUESTS}

Tables = Mapping[str, DataFrame]


@click.command(cls=Commands, name="replicas", help=__doc__, epilog=EXIT_CODES, no_args_is_help=False)
def main() -> None:
    """Place, reassign, check."""


def _command(name: str, what: str) -> Callable[[Callable[[Options], int]], Job]:
    """One of the three, with the options that all of them have."""
    found = "problems" if name == "check" else "rejected"
    common = [
        input_options("the tables, for example of a snapshot"),
        output_options("folder, URI or catalog prefix for the result (default: print only)"),
        fail_on(found, f"there are {found}"),
    ]

    def decorate(run: Callable[[Options], int]) -> Job:
        for option in reversed(common):
            run = option(run)
        made = job(what, EXIT_CODES, name=name, label="replicas")(run)
        main.add_command(made)
        return made

    return decorate


@_command("place", "where the replicas of new topics go: tables requests and brokers")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="adminutils", help="default: adminutils")
def placing(options: Options) -> int:
    """Load, call, write, print."""
    spark = _begin(options, "place")
    tables = _read(spark, options, ("requests", "brokers"), ("requests", "brokers"))
    placed = place(tables["requests"], tables["brokers"], options.algorithm)
    results = _write(spark, options, "place", {"placements": placed.placements, "rejected": placed.rejected})
    print(report.summarize_placements(results["placements"], results["rejected"]), flush=True)
    return _failed(options, results["rejected"])


@_command("check", "what is wrong now: tables replicas and brokers")
@click.option("--min-replicas", metavar="N", type=int, default=1, help="fewer are a problem (default: 1)")
def checking(options: Options) -> int:
    """Load, call, write, print."""
    spark = _begin(options, "check")
    checked = check(_read_fleet(spark, options), min_replicas=options.min_replicas)
    about = ("brokers", "racks", "problems", "clusters")
    results = _write(spark, options, "check", {name: getattr(checked, name) for name in about})
    print(report.summarize_check(results["clusters"], results["problems"]), flush=True)
    return _failed(options, results["problems"])


@_command("reassign", "what moves after a change: tables replicas and brokers, perhaps sizes")
@click.option("--cluster", metavar="GLOB", default="*", help="only clusters whose name matches change")
@click.option("--remove", metavar="ID,ID,…", help="brokers whose replicas must move away")
@click.option("--add", metavar="ID[=RACK],…", help="new brokers")
@click.option("--rack", metavar="ID=RACK,…", help="brokers that get another rack")
@named_values("--replication-factor", "GLOB=N", "of topics")
@named_values("--partitions", "GLOB=N", "the new number of topics")
@click.option("--tolerance", metavar="X", type=float, default=0.1, help="part of its share a broker may be off (0.1)")
@click.option(
    "--voluntary",
    type=click.Choice(["yes", "no"]),
    help="may replicas that could stay move for balance? default: where brokers are added",
)
@click.option("--partitions-per-batch", metavar="N", type=int, help="reassigned together at most")
@click.option("--bytes-per-batch", metavar="N", type=int, help="moved together at most, where sizes are known")
def reassigning(options: Options) -> int:
    """Load, call, write, print; and the files for Kafka's tools."""
    limits = {"--partitions-per-batch": options.partitions_per_batch, "--bytes-per-batch": options.bytes_per_batch}
    for flag, limit in limits.items():
        if limit is not None and limit < 1:
            raise ConfigError(f"{flag} {limit}: expected 1 or more")
    if options.tolerance < 0:
        raise ConfigError(f"--tolerance {options.tolerance}: expected 0 or more, for example 0.1 for 10 %")
    spark = _begin(options, "reassign")
    fleet = _read_fleet(spark, options)
    plan = reassign(
        fleet,
        _change(fleet, options),
        tolerance=options.tolerance,
        voluntary=None if options.voluntary is None else options.voluntary == "yes",
    )
    names = ("placement", "moves", "metrics", "rejected")
    results = _write(spark, options, "reassign", {name: getattr(plan, name) for name in names})
    print(report.summarize_reassignment(results["metrics"], results["rejected"]), flush=True)
    if options.output and is_path(options.output):
        files = tool_files(
            plan, partitions_per_batch=options.partitions_per_batch, bytes_per_batch=options.bytes_per_batch
        )
        written = write_tool_files(files, join(options.output, "json"))
        options.outcome.locations["files"] = join(options.output, "json")
        print("\n".join(["", f"{len(written)} files for Kafka's tools:", *written[:10]]), flush=True)
    return _failed(options, results["rejected"])


def _begin(options: Options, name: str) -> SparkSession:
    """The session, once it is known that there is something to read and that the result can be written."""
    options.fleet = fleet_or_sample(options, __file__)
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
        options.fleet,
        format=options.format,
        options=options.option,
        tables=options.table,
    )
    if tables["brokers"].isEmpty():
        problem = "the fleet is empty: there are no brokers"
        raise FleetError([Fault("brokers", "*", problem, "Give the brokers of at least one cluster")])
    return tables


def _write(spark: SparkSession, options: Options, name: str, tables: Tables) -> Tables:
    """The tables written and read back, or as they were where nothing is to be written."""
    if options.output is None:
        return tables
    # csv has no lists: there they are json.
    lists = {
        name: {field.name: field.dataType for field in table.schema.fields if isinstance(field.dataType, ArrayType)}
        for name, table in tables.items()
        if options.output_format == "csv"
    }
    flat = {
        name: table.withColumns({each: F.to_json(each) for each in lists.get(name, ())})
        for name, table in tables.items()
    }
    schemas = {name: table.schema for name, table in flat.items()}
    manifest = write_run(
        SimpleNamespace(**flat),
        options.output,
        run_id=options.run_id,
        format=options.output_format if is_path(options.output) else None,
        inputs={"job": f"replicas {name}", "fleet": options.fleet},
        options=options.output_option,
        schemas=schemas,
        outcome=options.outcome.of_run(options.fail_on),
    )
    options.outcome.wrote(manifest, options.output)
    stored = read_run(spark, options.output, manifest.run_id, schemas=schemas).tables
    return {
        name: table.withColumns({each: F.from_json(each, kind) for each, kind in lists.get(name, {}).items()})
        for name, table in stored.items()
    }


def _change(fleet: ReplicaFleet, options: Options) -> Change:
    return Change.of(
        fleet,
        cluster=options.cluster,
        removed=[_number("--remove", word) for word in _words(options.remove)],
        added=dict(_broker("--add", word) for word in _words(options.add)),
        racks=dict(_broker("--rack", word) for word in _words(options.rack)),
        replication_factors=_numbers("--replication-factor", options.replication_factor),
        partitions=_numbers("--partitions", options.partitions),
    )


def _words(given: str | None) -> list[str]:
    return [word.strip() for word in given.split(",")] if given else []


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
        raise ConfigError(f"{flag}: {word!r} is not a whole number") from None


def _failed(options: Options, found: DataFrame) -> int:
    return int(options.fail_on is not None and not found.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
