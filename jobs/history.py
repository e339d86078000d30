"""Tell the history of consumer groups, as `__consumer_offsets` remembers it: rebalances, who came and went, pauses.

Records come from a cluster (--bootstrap-server), from copied log segments (--segments) or from a table that somebody
keeps (--records).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, SparkAssignError
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_fleet, store_run, stored_history
from spark_assign.cli.options import (
    DURATION,
    LOCATION,
    compose_options,
    details,
    fail_on,
    input_options,
    location_option,
    output_options,
    sample,
    stored_run,
    top,
)
from spark_assign.history.history import History
from spark_assign.history.records import records_of, redact_records
from spark_assign.history.replay import replay
from spark_assign.report.listed_groups import no_match_text
from spark_assign.report.text.history import format_histories, summarize_history, summarize_replay
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import secret as secret_scope
from spark_assign.sources.files.tables import Shape, interpreted, read_tables
from spark_assign.sources.kafka.cluster_snapshot import cluster_id
from spark_assign.sources.kafka.log_segments import log_segments
from spark_assign.sources.kafka.offsets_topic import follow, records_in_kafka, to_its_end
from spark_assign.spark.caching import cached
from spark_assign.stores.locations import for_spark, is_path
from spark_assign.stores.run_store import check_output, read_run
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import OFFSETS, TOPICS
from spark_assign.tables.history import END_OFFSETS, HISTORY_TABLES, REPLAYED_TABLES

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""
SOURCES = ("bootstrap_server", "segments", "records", "sample", "history")
TOPICS_AND_ENDS = Shape("A snapshot", {"topics": TOPICS, "offsets": OFFSETS, "end_offsets": END_OFFSETS}, ())
THRESHOLDS = {"gap": "gap_ms", "together": "together_ms", "flapping": "flapping_a_day", "session": "session_ms"}


@job(__doc__, EXIT_CODES, name="history", input_errors=(SparkAssignError, ValueError))
@compose_options(
    click.option("--bootstrap-server", metavar="HOST:PORT,…", help="the cluster whose __consumer_offsets is read"),
    click.option(
        "--command-config",
        metavar="FILE",
        help="a Kafka client's properties: a file, or secret://SCOPE/KEY of Databricks",
    ),
    click.option("--cluster-name", metavar="NAME", help="Name of the cluster, for records without a column cluster."),
    click.option(
        "--segments", type=LOCATION, metavar="DIR", help="log segments of __consumer_offsets, copied from brokers"
    ),
    click.option("--records", type=LOCATION, metavar="LOCATION", help="folder or table of raw records: key, value, …"),
    click.option("--records-format", metavar="NAME", help="of --records (default: parquet), or a table of --follow"),
    click.option("--sample", is_flag=True, help="the sample history that comes with spark_assign"),
)
@stored_run("--history", "Stored history (this job), to read with --details or --as-of instead of records.")
@input_options("a snapshot: names of topics by their id, and end offsets", sample=False)
@compose_options(
    click.option(
        "--gap", metavar="TIME", type=DURATION, help="without a commit for so long a partition is silent: 10s"
    ),
    click.option("--together", metavar="TIME", type=DURATION, help="rebalances no further apart are one deploy: 5m"),
    click.option("--flapping", metavar="N", type=int, help="so many a day without a deploy are flapping: 10"),
    click.option("--session", metavar="TIME", type=DURATION, help="the session timeout of KIP-848 members: 45s"),
    click.option("--without-hosts", is_flag=True, help="leave out the hosts of clients"),
    click.option("--without-metadata", is_flag=True, help="leave out what clients write beside their offsets"),
)
@details("the timeline")
@click.option("--replay", is_flag=True, help="what the same past would have cost with other assignors and protocols")
@click.option(
    "--as-of", metavar="TIME", help="Write the fleet as of TIME, for example 2026-11-20T10:00:00Z, to --output-fleet."
)
@location_option("--output-fleet", "Folder, URI, or catalog prefix for the fleet of --as-of.")
@click.option("--follow", is_flag=True, help="Append new records of --bootstrap-server to --archive.")
@location_option("--archive", "Folder or table for the records of --follow.")
@location_option("--checkpoint", "With --follow, if --archive is a table: folder for the progress.", metavar="DIR")
@click.option(
    "--interval",
    metavar="TIME",
    type=DURATION,
    help="With --follow: read new records at this interval (default: once).",
)
@output_options()
@fail_on("rejected", "groups are rejected")
@top()
def main(options: Options) -> int:
    """Load, call, write, print."""
    check_usage(options)
    if options.output:
        check_output(options.output)
    spark = spark_session("history", options)
    if options.follow:
        return _follow(spark, options)
    if options.history:
        tables = stored_history(spark, options.history).tables
        known = _known(spark, options, options.fleet)
        print(_summary_text(options, SimpleNamespace(**tables), tables, known), flush=True)
        return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())
    fleet = options.fleet or (_sample() if options.sample else None)
    with interpreted(spark, [_sample() if options.sample else options.segments or options.records]):
        return _run(spark, options, fleet)


def check_usage(options: Options) -> None:
    """What is read from where, and what goes together.

    Raises:
        ConfigError: several places, none, or a flag without the one that it belongs to.
    """
    given = [name for name in SOURCES if getattr(options, name)]
    flags = [_flag(name) for name in given or SOURCES]
    if len(given) != 1:
        raise ConfigError(f"Use one of {', '.join(flags)}.")
    needs = {
        "command_config": "bootstrap_server",
        "follow": "bootstrap_server",
        "checkpoint": "follow",
        "interval": "follow",
        "archive": "follow",
        "output_fleet": "as_of",
    }
    for name, needed in needs.items():
        if getattr(options, name) and not getattr(options, needed):
            raise ConfigError(f"{_flag(name)} needs {_flag(needed)}")
    for name in ("replay", "output", "without_hosts", "without_metadata", *THRESHOLDS):
        if options.history and getattr(options, name):
            raise ConfigError(f"{_flag(name)} can't be used with --history: it needs the records")
    for name, output in {"follow": "archive", "as_of": "output_fleet"}.items():
        if getattr(options, name) and not getattr(options, output):
            raise ConfigError(f"{_flag(name)} needs {_flag(output)} LOCATION")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _run(spark: SparkSession, options: Options, place: str | None) -> int:
    known = _known(spark, options, place)
    thresholds = {
        name: getattr(options, flag) for flag, name in THRESHOLDS.items() if getattr(options, flag) is not None
    }
    records = _records(spark, options)
    names = None if "topics" not in known else known["topics"].where("topic_id is not null")
    found = History.read(records, topics=names, end_offsets=known.get("end_offsets"), **thresholds)
    found = found.with_tagged_rows(cached(found.tagged_rows()))  # ten tables of one pass
    tables: Mapping[str, DataFrame] = {name: getattr(found, name) for name in HISTORY_TABLES}
    schemas = dict(HISTORY_TABLES)
    if options.replay:
        otherwise = replay(records, **({"gap_ms": thresholds["gap_ms"]} if "gap_ms" in thresholds else {}))
        otherwise = otherwise.with_tagged_rows(cached(otherwise.tagged_rows()))
        of_replay = {"replayed": otherwise.replayed, "replays": otherwise.replays, "unreplayed": otherwise.rejected}
        tables = {**tables, **of_replay}
        schemas |= REPLAYED_TABLES
    if options.output:
        inputs = (
            {name: getattr(options, name) for name in SOURCES if getattr(options, name)} | {"fleet": place} | thresholds
        )
        store_run(options, tables, schemas=schemas, inputs=inputs, found=options.fail_on)
        tables = read_run(spark, options.output, options.run_id, schemas=schemas).tables
    print(_summary_text(options, found, tables, known), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _summary_text(options: Options, found: Any, tables: Mapping[str, DataFrame], known: Mapping[str, DataFrame]) -> str:
    """What is asked for on the screen; the summary where that is nothing else. `found` has the tables as attributes."""
    parts = []
    if options.as_of:
        counts = store_fleet(Fleet.as_of(found, options.as_of, topics=known.get("topics")), options.output_fleet)
        rows = ", ".join(f"{number:,} {name}" for name, number in counts.items())
        parts.append(f"The fleet of {options.as_of}: {rows}\nWritten to {options.output_fleet}")
        options.outcome.locations["fleet"] = options.output_fleet
    if options.details:
        parts.append(format_histories(tables, options.details, options.top) or no_match_text(options.details))
    if options.replay:
        parts.append(summarize_replay(tables["replayed"], tables["unreplayed"], options.top))
    return "\n\n".join(parts or [summarize_history(tables, options.top)])


def _records(spark: SparkSession, options: Options) -> DataFrame:
    if options.bootstrap_server:
        properties = _properties(options)
        found = records_in_kafka(spark, options.bootstrap_server, _cluster(options, properties), properties)
    elif options.segments:
        found = _segments(spark, options)
    elif options.sample:
        found = records_of(spark.read.parquet(for_spark(f"{_sample()}/records.parquet")))
    elif is_path(options.records):
        table = spark.read.format(options.records_format or "parquet").load(for_spark(options.records))
        found = records_of(table, options.cluster_name)
    else:
        found = records_of(spark.table(options.records), options.cluster_name)
    return redact_records(found, without_hosts=options.without_hosts, without_metadata=options.without_metadata)


def _segments(spark: SparkSession, options: Options) -> DataFrame:
    if not options.cluster_name:
        raise ConfigError("--segments needs --cluster-name NAME, because log segments don't name their cluster.")
    found = log_segments(spark, options.segments, options.cluster_name)
    damaged = found.damaged.where("code <> 'cut-off'").groupBy("code").agg(F.count(F.lit(1)), F.sum("size")).collect()
    for code, byte_ranges, size in sorted(damaged):  # a row per code
        print(f"history: {byte_ranges:,} byte ranges of segments, {size:,} bytes, not read: {code}", file=sys.stderr)
    return found.records


def _follow(spark: SparkSession, options: Options) -> int:
    """Until it is stopped, or once."""
    properties = _properties(options)
    start = partial(
        follow,
        spark,
        options.bootstrap_server,
        _cluster(options, properties),
        options.archive,
        properties=properties,
        checkpoint=options.checkpoint,
        table_format=options.records_format,
        every=f"{options.interval} milliseconds" if options.interval else None,
        without_hosts=options.without_hosts,
        without_metadata=options.without_metadata,
    )
    progress = to_its_end(start).recentProgress
    print(f"history: {sum(each['numInputRows'] for each in progress):,} records came to {options.archive}", flush=True)
    options.outcome.locations["archive"] = options.archive
    return 0


def _properties(options: Options) -> dict[str, str]:
    if not options.command_config:
        return {}
    with secret_scope.secret_as_file(options.command_config) as file:
        return client_properties.read(file)


def _cluster(options: Options, properties: Mapping[str, str]) -> str:
    return options.cluster_name or cluster_id(options.bootstrap_server, properties)


def _known(spark: SparkSession, options: Options, place: str | None) -> dict[str, DataFrame]:
    """Names of topics and end offsets, as far as somebody says them."""
    if not place and not options.table:
        return {}
    shape = replace(TOPICS_AND_ENDS, required=("topics",)) if options.fleet else TOPICS_AND_ENDS
    tables = read_tables(spark, shape, place, format=options.format, options=options.option, tables=options.table)
    known = {}
    if "topics" in tables:
        known["topics"] = tables["topics"]
    if "end_offsets" in tables:
        known["end_offsets"] = tables["end_offsets"]
    elif "offsets" in tables:
        ends = tables["offsets"].where("end_offset is not null").groupBy("cluster", "topic", "partition")
        known["end_offsets"] = ends.agg(F.max("end_offset").alias("end_offset"))
    return known


def _sample() -> str:
    return sample(__file__, "history")


if __name__ == "__main__":
    sys.exit(main())
