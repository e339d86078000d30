"""Show the history of groups that `__consumer_offsets` records: rebalances, members, deploys, crashes, and pauses.

Records are read from a cluster (--bootstrap-server), from copied log segments (--segments), or from a table of records
(--records).
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_assign.cli  # noqa: F401 - Ctrl-C in what follows
from spark_assign import Fleet
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import exit_code, read_topologies, store_and_read, store_fleet, stored_history
from spark_assign.cli.options import (
    FORMAT,
    INPUT,
    INPUT_FILES,
    OUTPUT,
    OUTPUT_FILES,
    details,
    exit_codes,
    flag_of,
    flags_of,
    given_parameters,
    input_options,
    parameter_options,
    result_options,
    sample,
    stored_run,
)
from spark_assign.cli.owners import group_filter_options, select_tables
from spark_assign.history import HistoryThresholds, read_history
from spark_assign.history.past_variants import replay
from spark_assign.history.records import records_of, redact_records
from spark_assign.report.formatting import visible
from spark_assign.report.history import application_texts, format_histories, summarize_history, summarize_replay
from spark_assign.report.listed_groups import details_text, read_rejected_lines, with_undescribed
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.files.tables import Shape, interpreted, read_checked_tables, read_tables
from spark_assign.sources.kafka import records_text
from spark_assign.sources.kafka.log_segments import log_segments
from spark_assign.sources.kafka.offsets_topic import check_engine, follow, records_in_kafka, to_its_end
from spark_assign.spark.engine import cached, dataframe_of, location_for, shares_files
from spark_assign.stores.local_tables import read_parquet_location
from spark_assign.stores.locations import is_path, local_path
from spark_assign.stores.result import LazyResult
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.groups import CHANGELOGS, OFFSETS, TOPICS
from spark_assign.tables.history import END_OFFSETS, HISTORY_TABLES, RECORDS, REPLAY_TABLES
from spark_assign.tables.parameters import Param

_sample = partial(sample, __file__, "history")
SOURCES = ("bootstrap_server", "segments", "records", "sample", "history")
_RECORDS = Shape("A folder of records", {"records": RECORDS}, ())
TOPICS_AND_ENDS = Shape(
    "A snapshot", {"topics": TOPICS, "offsets": OFFSETS, "end_offsets": END_OFFSETS, "changelogs": CHANGELOGS}, ()
)


@dataclass(frozen=True)
class Source:
    """Where records are read.

    Attributes:
        bootstrap_server: Kafka bootstrap servers of the cluster that has the topic __consumer_offsets to read.
        command_config: Kafka client properties file, or secret://SCOPE/KEY for a Databricks secret.
        reader: read --bootstrap-server with the client of the job snapshot, which joins no group, or with Spark's Kafka
            source, on the executors of a Spark cluster (default: client).
        cluster_name: name of the cluster in all tables (default: the column cluster of --records, or the cluster ID).
        segments: log segments of __consumer_offsets that were copied from brokers.
        records: folder or table of raw records: key, value, partition, offset, and timestamp; or a file with the text
            of kafka-dump-log.sh --offsets-decoder or kafka-console-consumer.sh, also .gz.
        records_format: format of the folder --records (default: parquet), or of a new table --archive.
    """

    bootstrap_server: Annotated[str | None, Param(metavar="HOST:PORT,…")] = None
    command_config: Annotated[str | None, Param(metavar="FILE")] = None
    reader: Annotated[str | None, Param(choices=("client", "spark"))] = None
    cluster_name: Annotated[str | None, Param()] = None
    segments: Annotated[str | None, Param(kind=INPUT_FILES, metavar="DIR")] = None
    records: Annotated[tuple[str, ...], Param(kind=INPUT, metavar="LOCATION")] = ()
    records_format: Annotated[str | None, Param(kind=FORMAT)] = None


@dataclass(frozen=True)
class Redaction:
    """What is removed from records.

    Attributes:
        without_hosts: remove the hosts of clients.
        without_metadata: remove the metadata that clients add to committed offsets.
    """

    without_hosts: Annotated[bool, Param()] = False
    without_metadata: Annotated[bool, Param()] = False


@dataclass(frozen=True)
class Past:
    """What is done with records instead of a summary.

    Attributes:
        replay: compute what the recorded rebalances would have cost with other assignors.
        as_of: write the fleet as of TIME, for example 2026-11-20T10:00:00Z, to --output-fleet.
        output_fleet: folder, URI, or catalog prefix for the fleet of --as-of.
        topology: with --as-of: file with the text of Topology.describe() of a classic Streams application (default:
            derived from tasks and topic names).
        follow: append new records of --bootstrap-server to --archive.
        archive: folder or table for the records of --follow.
        checkpoint: with --follow, if --archive is a table: folder for the progress.
        interval_ms: with --follow: read new records at this interval (default: once).
    """

    replay: Annotated[bool, Param()] = False
    as_of: Annotated[str | None, Param(metavar="TIME")] = None
    output_fleet: Annotated[str | None, Param(kind=OUTPUT, metavar="LOCATION")] = None
    topology: Annotated[tuple[str, ...], Param(metavar="GROUP=FILE")] = ()
    follow: Annotated[bool, Param()] = False
    archive: Annotated[str | None, Param(kind=OUTPUT, metavar="LOCATION")] = None
    checkpoint: Annotated[str | None, Param(kind=OUTPUT_FILES, metavar="DIR")] = None
    interval_ms: Annotated[int | None, Param()] = None


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if records can't be read in their format or copied to the archive, or a file of `--topology`
    can't be read."""
    read_topologies(options.topology)
    if options.records and str(options.records_format).lower() in ("csv", "json", "text", "xml"):
        hint = "Records are read as a table with binary keys and values. For text of Kafka's tools, leave it out"
        raise ConfigError(f"--records-format {options.records_format} has no binary columns. {hint}.")
    if options.follow and options.reader != "spark":
        if options.checkpoint:
            raise ConfigError("--checkpoint needs --reader spark. A folder contains the progress of its records.")
        if not is_path(options.archive) or local_path(options.archive) is None:
            raise ConfigError(f"--archive {options.archive} isn't a folder of this machine: it needs --reader spark.")


@job(
    __doc__,
    exit_codes(),
    name="history",
    usage=(
        f"one of {', '.join(map(flag_of, SOURCES))}",
        "--command-config, --reader, --follow needs --bootstrap-server",
        "--archive, --checkpoint, --interval needs --follow",
        "--output-fleet, --topology needs --as-of",
        "--follow needs --archive",
        "--as-of needs --output-fleet",
        "--follow excludes --group, --owner: it copies the records of all groups",
        f"--history excludes --replay, --output, --without-hosts, --without-metadata, {flags_of(HistoryThresholds)}: "
        "a stored history isn't computed again",
        check_usage,
    ),
)
@parameter_options(Source)
@click.option("--sample", is_flag=True, help="Use the bundled sample history.")
@stored_run("--history", "Stored history (this job), to read with --details or --as-of instead of records.")
@input_options("a snapshot with topic IDs and end offsets", sample=False)
@parameter_options(HistoryThresholds)
@group_filter_options()
@parameter_options(Redaction, defaults=True)
@details("the timeline")
@parameter_options(Past, defaults=True)
@result_options()
def main(options: Options) -> int:
    """Loads, calls, writes, and prints."""
    if options.follow:
        return _follow(options)
    spark = spark_session("history", options)
    if options.history:
        tables = select_tables(spark, stored_history(spark, options.history).tables, options)
        return _show(options, SimpleNamespace(**tables), tables, _known_tables(spark, options, options.fleet))
    fleet = options.fleet or (_sample() if options.sample else None)
    with contextlib.ExitStack() as stack:
        fetched = stack.enter_context(_fetched(spark, options))
        small = options.records or [_sample() if options.sample else fetched or options.segments]
        stack.enter_context(interpreted(spark, small))
        return _run(spark, options, fleet, fetched)


def _run(spark: SparkSession, options: Options, location: str | None, fetched: str | None) -> int:
    known = _known_tables(spark, options, location)
    thresholds = given_parameters(options, HistoryThresholds)
    records = _records(spark, options, fetched)
    limits = HistoryThresholds(**thresholds)
    names = None if "topics" not in known else known["topics"].where("topic_id is not null")
    ends = known.get("end_offsets")
    history = read_history(records, limits, topics=names, end_offsets=ends)
    history = history.with_tagged_rows(cached(history.tagged_rows()))  # ten tables of one pass
    passes: list[LazyResult] = [history]
    tables: Mapping[str, DataFrame] = {name: getattr(history, name) for name in HISTORY_TABLES}
    tables = select_tables(spark, tables, options)
    history = history.with_tables(tables)
    schemas = HISTORY_TABLES
    if options.replay:
        replayed = replay(records, thresholds=limits)
        replayed = replayed.with_tagged_rows(cached(replayed.tagged_rows()))
        passes.append(replayed)
        variants = {name: getattr(replayed, name) for name in REPLAY_TABLES}
        tables = {**tables, **select_tables(spark, variants, options)}
        schemas = {**schemas, **REPLAY_TABLES}
    sources = {name: getattr(options, name) for name in SOURCES if getattr(options, name)}
    inputs = {**sources, "fleet": location, **thresholds}
    tables = store_and_read(options, tables, schemas=schemas, inputs=inputs, found=options.fail_on)
    try:
        return _show(options, history, tables, known)
    finally:  # otherwise, Spark would take these rows for a later history of the same folder
        for each in passes:
            each.unpersist()


def _show(options: Options, history: Any, tables: Mapping[str, DataFrame], known: Mapping[str, DataFrame]) -> int:
    """Writes the fleet of --as-of, prints what the options select, and returns the exit code.

    `history` has the tables as attributes.
    """
    parts, rejected = [], tables["rejected"]
    if options.as_of:
        given = {name: known.get(name) for name in ("topics", "changelogs")}
        fleet = Fleet.as_of(history, options.as_of, **given, topologies=read_topologies(options.topology))
        counts = store_fleet(fleet, options.output_fleet)
        rows = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        parts.append(f"Fleet as of {options.as_of}: {rows}\nWritten to {options.output_fleet}")
        parts += application_texts(fleet.groups, options.top)
        rejected = with_undescribed(rejected, fleet.undescribed)
        parts += filter(None, ["\n".join(read_rejected_lines(rejected)).lstrip("\n")])
        options.outcome.locations["fleet"] = options.output_fleet
    if options.details:
        text = format_histories(tables, options.details, options.top)
        parts.append(details_text(text, options.details, tables["groups"], options.top))
    if options.replay:
        parts.append(summarize_replay(tables["replay_summary"], tables["replay_rejected"], options.top))
    print("\n\n".join(parts or [summarize_history(tables, options.top)]), flush=True)
    return exit_code(options, rejected)


@contextlib.contextmanager
def _fetched(spark: SparkSession, options: Options) -> Iterator[str | None]:
    """Reads a cluster with the client into a temporary folder. Yields the folder, or None for other sources.
    Raises ConfigError if the executors can't read the folder, or if the engine can't be the reader."""
    if options.reader == "spark":
        check_engine(spark)
    if not options.bootstrap_server or options.reader == "spark":
        yield None
        return
    if not shares_files(spark):
        raise ConfigError(
            "--bootstrap-server: the executors of this Spark can't read what this process fetches. Use --reader spark, "
            "or copy the records with --follow --archive to a folder of all machines, and read it with --records."
        )
    with tempfile.TemporaryDirectory(prefix="spark-assign-records-") as folder:
        _copy(options, folder)
        yield folder


def _copy(options: Options, folder: str) -> int:
    """Appends the new records of the cluster to a folder, and returns their number."""
    from spark_assign.sources.kafka.records_folder import copy_records  # needs kafka-python

    properties = client_properties.read_location(options.command_config)
    return copy_records(
        options.bootstrap_server,
        _cluster(options, properties),
        Path(str(local_path(folder))),
        properties=properties,
        **given_parameters(options, Redaction),
        report=lambda text: print(visible(f"history: {text}", escaped="\n"), file=sys.stderr),
    )


def _records(spark: SparkSession, options: Options, fetched: str | None) -> DataFrame:
    if fetched:  # redacted when they were written
        return records_of(spark.read.schema(RECORDS).parquet(location_for(spark, fetched)))
    if options.bootstrap_server:
        properties = client_properties.read_location(options.command_config)
        records = records_in_kafka(spark, options.bootstrap_server, _cluster(options, properties), properties)
    elif options.segments:
        records = _segments(spark, options)
    elif options.sample:
        records = records_of(read_parquet_location(spark, "records", f"{_sample()}/records.parquet"))
    else:
        tables = (_stored_records(spark, name, options) for name in options.records)
        records = reduce(DataFrame.unionAll, (records_of(table, options.cluster_name) for table in tables))
    return redact_records(records, **given_parameters(options, Redaction))


def _stored_records(spark: SparkSession, location: str, options: Options) -> DataFrame:
    if (file := local_path(location)) and records_text.is_records_text(file) and options.records_format is None:
        return dataframe_of(spark, records_text.read_records_text(file), records_text.SCHEMA)
    table_format = options.records_format or "parquet"
    if table_format == "parquet" and is_path(location):
        return read_parquet_location(spark, "records", location, RECORDS.names)
    return read_tables(spark, _RECORDS, None, format=table_format, tables={"records": location})["records"]


def _segments(spark: SparkSession, options: Options) -> DataFrame:
    if not options.cluster_name:
        raise ConfigError("--segments requires --cluster-name NAME, because log segments don't contain the cluster.")
    segments = log_segments(spark, options.segments, options.cluster_name)
    damaged = segments.damaged.where("code <> 'cut-off'").groupBy("code").agg(F.count("*"), F.sum("size")).collect()
    for code, byte_ranges, size in sorted(damaged):  # a row per code
        print(f"history: {count(byte_ranges, 'unreadable byte range')}, {count(size, 'byte')}: {code}", file=sys.stderr)
    return segments.records


def _follow(options: Options) -> int:
    """Copies new records until it is stopped, or once."""
    num_records = _follow_by_stream(options) if options.reader == "spark" else _copy(options, options.archive)
    while options.interval and options.reader != "spark":
        time.sleep(options.interval / 1000)
        num_records += _copy(options, options.archive)
    print(f"history: {count(num_records, 'record')} written to {options.archive}", flush=True)
    options.outcome.locations["archive"] = options.archive
    return 0


def _follow_by_stream(options: Options) -> int:
    """Copies new records by a stream of Spark, and returns their number."""
    spark = spark_session("history", options)
    check_engine(spark)
    properties = client_properties.read_location(options.command_config)
    start = partial(
        follow,
        spark,
        options.bootstrap_server,
        _cluster(options, properties),
        options.archive,
        properties=properties,
        checkpoint=options.checkpoint,
        table_format=options.records_format,
        interval=f"{options.interval} milliseconds" if options.interval else None,
        **given_parameters(options, Redaction),
    )
    return sum(batch["numInputRows"] for batch in to_its_end(start).recentProgress)


def _cluster(options: Options, properties: Mapping[str, str]) -> str:
    from spark_assign.sources.kafka.cluster_snapshot import cluster_id  # needs kafka-python

    return options.cluster_name or cluster_id(options.bootstrap_server, properties)


def _known_tables(spark: SparkSession, options: Options, location: str | None) -> dict[str, DataFrame]:
    """Returns the tables topics and end_offsets, if they are given."""
    if not location and not options.table:
        return {}
    shape = replace(TOPICS_AND_ENDS, required=("topics",)) if options.fleet else TOPICS_AND_ENDS
    given = {"format": options.format, "options": options.option, "tables": options.table}
    tables = read_checked_tables(spark, shape, location, **given)
    offsets = tables.pop("offsets", None)
    if "end_offsets" not in tables and offsets is not None:
        ends = offsets.where("end_offset is not null").groupBy("cluster", "topic", "partition")
        tables["end_offsets"] = ends.agg(F.max("end_offset").alias("end_offset"))
    return tables


if __name__ == "__main__":
    main()
