"""Place replicas as Kafka does, reassign them with the fewest moves, or check where they are."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_assign import FleetError
from spark_assign.command import pairs, run_job
from spark_assign.errors import ConfigError, Fault
from spark_assign.places import is_path, join
from spark_assign.replicas import Change, ReplicaFleet, check, place, reassign, tool_files, write_tool_files
from spark_assign.replicas.placing import ALGORITHMS
from spark_assign.replicas.schemas import BROKERS, REQUESTS, SIZES
from spark_assign.report import replicas as report
from spark_assign.schemas import REPLICAS
from spark_assign.sinks.plan_store import check_output, read_plan, write_plan
from spark_assign.sources.tables import Shape, read_tables

SAMPLE = Path(__file__).resolve().parents[1] / "conf" / "sample-fleet"
EXIT_CODES = """exit codes: 0 done; 1 what --fail-on names was found; 2 wrong usage or tables; 3 failure. Without
--fleet and --table the shipped sample fleet is read."""
SHAPES = {"replicas": REPLICAS, "brokers": BROKERS, "sizes": SIZES, "requests": REQUESTS}

Tables = Mapping[str, DataFrame]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="replicas", description=__doc__, epilog=EXIT_CODES)
    commands = parser.add_subparsers(dest="command", required=True)
    placing = _command(commands, "place", "where the replicas of new topics go: tables requests and brokers")
    placing.add_argument("--algorithm", choices=ALGORITHMS, default="adminutils", help="default: adminutils")
    moving = _command(commands, "reassign", "what moves after a change: tables replicas and brokers, perhaps sizes")
    add = moving.add_argument
    add("--cluster", metavar="GLOB", default="*", help="only clusters whose name matches change")
    add("--remove", metavar="ID,ID,…", help="brokers whose replicas have to go")
    add("--add", metavar="ID[=RACK],…", help="new brokers")
    add("--rack", metavar="ID=RACK,…", help="brokers that get another rack")
    add("--replication-factor", metavar="GLOB=N", action="append", help="of topics; may be given again")
    add("--partitions", metavar="GLOB=N", action="append", help="the new number of topics; may be given again")
    add("--tolerance", metavar="X", type=float, default=0.1, help="part of its share a broker may be off (0.1)")
    add(
        "--voluntary",
        choices=("yes", "no"),
        help="may replicas that could stay move for balance? default: where brokers are added",
    )
    add("--partitions-per-batch", metavar="N", type=int, help="reassigned together at most")
    add("--bytes-per-batch", metavar="N", type=int, help="moved together at most, where sizes are known")
    checking = _command(commands, "check", "what is wrong now: tables replicas and brokers")
    checking.add_argument("--min-replicas", metavar="N", type=int, default=1, help="fewer are a problem (default: 1)")
    return parser.parse_args(argv)


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=what, epilog=EXIT_CODES)
    add = parser.add_argument
    add("--fleet", metavar="PLACE", help="folder, URI or catalog prefix of the tables, for example of a snapshot")
    add("--format", metavar="NAME", help="of the tables' files: parquet, csv, json, or any that Spark knows")
    add("--option", metavar="K=V", action="append", help="a reader option of Spark; may be given again")
    add("--table", metavar="NAME=PLACE", action="append", help="one table from elsewhere; may be given again")
    add("--output", metavar="PLACE", help="folder, URI or catalog prefix for the result (default: print only)")
    add("--output-format", metavar="NAME", default="parquet", help="of files: parquet (default), csv, json, …")
    add("--run-id", metavar="ID", help="the run's name; the same name again replaces it (default: the time)")
    found = "problems" if name == "check" else "rejected"
    add("--fail-on", choices=(found,), help=f"exit code 1 if there are {found}")
    add("--verbose", action="store_true", help="tracebacks")
    return parser


def run(options: argparse.Namespace) -> int:
    """Load, call, write, print."""
    spark = SparkSession.builder.appName(f"spark_assign replicas {options.command}").getOrCreate()
    if options.output:
        check_output(options.output)
    if options.command == "place":
        tables = _read(spark, options, ("requests", "brokers"), ("requests", "brokers"))
        placed = place(tables["requests"], tables["brokers"], options.algorithm)
        results = _write(spark, options, {"placements": placed.placements, "rejected": placed.rejected})
        print(report.placements(results["placements"], results["rejected"]), flush=True)
        return _failed(options, results["rejected"])
    tables = _read(spark, options, ("replicas", "brokers", "sizes"), ("replicas", "brokers"))
    fleet = ReplicaFleet(**tables)
    if options.command == "check":
        checked = check(fleet, min_replicas=options.min_replicas)
        about = ("brokers", "racks", "problems", "clusters")
        results = _write(spark, options, {name: getattr(checked, name) for name in about})
        print(report.check(results["clusters"], results["problems"]), flush=True)
        return _failed(options, results["problems"])
    limits = {"--partitions-per-batch": options.partitions_per_batch, "--bytes-per-batch": options.bytes_per_batch}
    for flag, limit in limits.items():
        if limit is not None and limit < 1:
            raise ConfigError(f"{flag} {limit}: expected 1 or more")
    if options.tolerance < 0:
        raise ConfigError(f"--tolerance {options.tolerance}: expected 0 or more, for example 0.1 for 10 %")
    plan = reassign(
        fleet,
        _change(fleet, options),
        tolerance=options.tolerance,
        voluntary=None if options.voluntary is None else options.voluntary == "yes",
    )
    names = ("placement", "moves", "metrics", "rejected")
    results = _write(spark, options, {name: getattr(plan, name) for name in names})
    print(report.reassignment(results["metrics"], results["rejected"]), flush=True)
    if options.output and is_path(options.output):
        files = tool_files(
            plan, partitions_per_batch=options.partitions_per_batch, bytes_per_batch=options.bytes_per_batch
        )
        written = write_tool_files(files, join(options.output, "json"))
        print("\n".join(["", f"{len(written)} files for Kafka's tools:", *written[:10]]), flush=True)
    return _failed(options, results["rejected"])


def _read(
    spark: SparkSession, options: argparse.Namespace, names: tuple[str, ...], required: tuple[str, ...]
) -> dict[str, DataFrame]:
    location = options.fleet
    if location is None and not options.table and SAMPLE.exists():
        location = str(SAMPLE)
    tables = read_tables(
        spark,
        Shape("This job", {name: SHAPES[name] for name in names}, required),
        location,
        format=options.format,
        options=pairs("--option", options.option),
        tables=pairs("--table", options.table),
    )
    if tables["brokers"].isEmpty():
        problem = "the fleet is empty: there are no brokers"
        raise FleetError([Fault("brokers", "*", problem, "Give the brokers of at least one cluster")])
    return tables


def _write(spark: SparkSession, options: argparse.Namespace, tables: Tables) -> Tables:
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
    manifest = write_plan(
        SimpleNamespace(**flat),
        options.output,
        run_id=options.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        format=options.output_format if is_path(options.output) else None,
        inputs={"job": f"replicas {options.command}", "fleet": options.fleet},
        schemas=schemas,
    )
    stored = read_plan(spark, options.output, manifest.run_id, schemas=schemas).tables
    return {
        name: table.withColumns({each: F.from_json(each, kind) for each, kind in lists.get(name, {}).items()})
        for name, table in stored.items()
    }


def _change(fleet: ReplicaFleet, options: argparse.Namespace) -> Change:
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


def _numbers(flag: str, given: list[str] | None) -> dict[str, int]:
    return {name: _number(flag, value) for name, value in (pairs(flag, given) or {}).items()}


def _number(flag: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"{flag}: {word!r} is not a whole number") from None


def _failed(options: argparse.Namespace, found: DataFrame) -> int:
    return int(options.fail_on is not None and not found.isEmpty())


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("replicas", partial(run, options), verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
