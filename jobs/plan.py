"""Plan every group of a fleet, store the plan, and print a summary: consumer groups, share groups (KIP-932), Kafka
Streams groups, and the next rebalance of Connect clusters."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import click
from click.core import ParameterSource

from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.options import (
    ListType,
    exit_codes,
    fleet_or_sample,
    given_parameters,
    input_options,
    is_sample,
    leader_client_option,
    library_and_release,
    named_values,
    openmetrics_option,
    output_options,
    packaged_conf,
    parameter_options,
    patterns,
    refuse_flags,
    require_output,
    sample,
    top,
)
from spark_assign.cli.owners import group_filter_options, read_owners, run_with_owners, select_groups
from spark_assign.tables.connect import INPUT_TABLES as CONNECT_TABLES
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.tables.groups import GROUP_KEY, INPUT_TABLES
from spark_assign.tables.parameters import Param
from spark_assign.tables.stored_plan import CONNECT, STORED_PLAN_TABLES
from spark_assign.tables.streams import TASK_ASSIGNORS, StreamsParams

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_assign.api import Fleet
    from spark_assign.comparison.what_if import WhatIf
    from spark_assign.connect import ConnectFleet
    from spark_assign.stores.result import LazyResult

SETTINGS = packaged_conf(__file__) / "plan.toml"
CHANGES = """Changes, which are applied in order: leave:GROUPS:COUNT and join:GROUPS:COUNT remove members from and add
members to each matching group; leave-members:MEMBERS removes the matching members of all groups, as if a host failed;
partitions:TOPICS:COUNT (or xFACTOR) sets the number of partitions. GROUPS, MEMBERS, and TOPICS are shell patterns."""
EXIT_CODES = f"""{CHANGES} Without options, the job plans the consumer groups of the bundled sample fleet with the
settings in conf/plan.toml.
{exit_codes()}"""
SAMPLE = """No options given, so the bundled sample fleet is planned. To plan your own fleet, use --fleet LOCATION.
To plan a share group, a Streams group, and a Connect cluster with the sample fleet, use --sample."""
GROUP_ASSIGNOR = "Assignor for consumer groups with an ID that fits a shell pattern. The first matching pattern wins."
CONFIGURED = "configured"
OUTPUT = "output/plan"
"""Default location of a plan, relative to the working folder."""
EXPLAIN = """Print why a partition of a consumer group goes to its planned owner, instead of writing the plan. GROUP is
the ID of the group, or CLUSTER/GROUP."""
DETAILS = """Print the members of the first --top groups, or the workers of Connect clusters, with a matching ID, or
CLUSTER/GROUP: what they get, gain, and lose, instead of writing the plan."""

log = logging.getLogger("spark_assign.plan")


@dataclass(frozen=True)
class Planned:
    """What is planned, and written.

    Attributes:
        assignor: assignor for all other consumer groups: range, roundrobin, sticky, cooperative-sticky, …, or
            "configured" for the current assignor of each group.
        streams_assignor: assignor for groups of the streams protocol: streams-sticky (of Kafka 4.4), streams-sticky@4.3
            (of 4.2.0, 4.2.1, and 4.3), or streams-sticky@4.2.2. Classic Streams applications have their own.
        what_if: change of the groups to apply before planning. See below for the syntax. Connect clusters, and the
            number of tasks of the streams protocol, don't change.
        output_tables: tables to write in addition to metrics and rejected (default: all).
        fail_on: exit with code 1 if groups are rejected.
    """

    assignor: Annotated[str, Param()] = CONFIGURED
    streams_assignor: Annotated[str, Param(choices=TASK_ASSIGNORS)] = TASK_ASSIGNORS[0]
    what_if: Annotated[tuple[str, ...], Param(metavar="CHANGE")] = ()
    output_tables: Annotated[Any, Param(kind=ListType(click.Choice(tuple(STORED_PLAN_TABLES))), metavar="A,B,…")] = None
    fail_on: Annotated[tuple[str, ...], Param(choices=("rejected",))] = ()


def with_defaults(options: Options) -> None:
    """Sets the options to those of conf/plan.toml, or else to the sample, if no fleet and no other option is given."""
    sources = set(options.given.values())
    if {"fleet", "table", "sample", "config"} & set(options.given) or sources & {
        ParameterSource.COMMANDLINE,
        ParameterSource.DEFAULT_MAP,
    }:
        return
    print(SAMPLE, file=sys.stderr)
    words = ["--config", str(SETTINGS)] if SETTINGS.exists() else ["--sample"]
    vars(options).update({**vars(main.parse(words)), "outcome": options.outcome})


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if there is no fleet, or if an assignor, a client, a change, or a partition is invalid."""
    _location(options)
    if options.what_if or options.assignor != CONFIGURED or options.group_assignor or options.leader_client:
        # These take longer to import than to check.
        from spark_assign.cli.job_names import check_assignors
        from spark_assign.comparison.what_if import require_client

        _changes(options)
        check_assignors([options.assignor, *(options.group_assignor or {}).values()], or_configured=True)
        for client in (options.leader_client or {}).values():
            require_client(*library_and_release(client))
    if options.explain:
        topic, _, partition = options.explain[1].rpartition("-")
        if not topic or not partition.isdecimal():
            given = " ".join(options.explain)
            raise ConfigError(f"--explain {given}: expected GROUP TOPIC-PARTITION, such as audit orders-3.")
    if not options.explain and not options.details:
        require_output(options.output or OUTPUT)
        return
    flag = "--explain" if options.explain else "--details"
    refuse_flags(options, ("output", "run_id", "openmetrics", "fail_on"), f"{flag} writes no plan")


@job(__doc__, EXIT_CODES, name="plan", usage=(with_defaults, "--details excludes --explain", check_usage))
@input_options(
    "the fleet's tables, including the tables of Connect clusters (with --table: connect_NAME)",
    of_sample="fleet, with a share group, a Streams group, and a Connect cluster",
    names=(*INPUT_TABLES, *(f"{CONNECT}{name}" for name in CONNECT_TABLES)),
)
@parameter_options(Planned, "assignor", defaults=True)
@named_values("--group-assignor", "GLOB=NAME", GROUP_ASSIGNOR, keys=("groups", "assignor"))
@leader_client_option()
@parameter_options(Planned, "streams_assignor", defaults=True)
@parameter_options(StreamsParams)
@parameter_options(Planned, "what_if", defaults=True)
@click.option("--explain", metavar="GROUP TOPIC-PARTITION", nargs=2, help=EXPLAIN)
@patterns("--details", DETAILS)
@output_options("Folder, URI, or catalog prefix for the plan (default: output/plan).", default_run_id=False)
@parameter_options(Planned, "output_tables", defaults=True)
@group_filter_options()
@openmetrics_option()
@parameter_options(Planned, "fail_on", defaults=True)
@top()
def main(options: Options) -> int:
    """Parses, loads, plans, writes, and prints."""
    spark = spark_session("plan", options)
    from spark_assign.sources.files.tables import interpreted

    with interpreted(spark, [_location(options), *(options.table or {}).values()]):
        return _run(options, spark)


def _location(options: Options) -> str | None:
    return fleet_or_sample(options, __file__)


def _changes(options: Options) -> list[WhatIf]:
    """Returns the changes to apply before planning. Raises ConfigError."""
    if not options.what_if:
        return []
    from spark_assign.comparison.what_if import parse_what_if

    return [parse_what_if(text) for text in options.what_if]


def _choice(options: Options) -> str | dict[str, str]:
    """Returns the argument `assignor` of `spark_assign.plan`."""
    patterns: dict[str, str] | None = options.group_assignor
    assignor: str = options.assignor
    return {**patterns, "*": assignor} if patterns else assignor


def _run(options: Options, spark: SparkSession) -> int:
    # Imported after the checks, so that a wrong option is reported at once.
    from spark_assign.cli.plan_kinds import read_fleets, union_fleets, write_plans
    from spark_assign.groups.planning import plan
    from spark_assign.report.listed_groups import similar_name
    from spark_assign.report.openmetrics import write_metrics
    from spark_assign.report.plan_summary import summarize
    from spark_assign.report.results import summary
    from spark_assign.stores.run_store import num_rows_of_kinds, stored_run

    started = time.monotonic()
    location, output = _location(options), options.output or OUTPUT
    fleet, clusters = read_fleets(spark, location, format=options.format, options=options.option, tables=options.table)
    if is_sample(options):
        applications, clusters = read_fleets(spark, sample(__file__, "applications"))
        fleet = union_fleets(fleet, applications)
    owners = read_owners(spark, options.owners, options.owner)
    log.info("read the fleet's tables in %.1f s", time.monotonic() - started)
    all_groups = fleet
    if fleet is not None:
        fleet = select_groups(spark, fleet, options)
        for glob, client in reversed((options.leader_client or {}).items()):  # the first matching pattern wins
            fleet = fleet.with_leader_client(*library_and_release(client), group_id=glob)
        for change in _changes(options):
            fleet = change.apply(fleet)
    if clusters is not None:
        selected = select_groups(spark, clusters, options)
        clusters = None if selected is not clusters and selected.clusters.isEmpty() else selected
    if fleet is None and clusters is None:
        raise ConfigError("No Connect cluster matches --group and --owner.")
    if fleet is None and (options.what_if or options.explain):
        flag = f"--what-if {options.what_if[0]} changes" if options.what_if else "--explain needs consumer"
        raise ConfigError(f"{flag} groups, but the input has only Connect clusters.")
    if options.explain and fleet is not None:
        return _explain(options, fleet)
    if options.details:
        return _details(options, fleet, clusters, None if fleet is None else _offsets(spark, options))
    consumer_plan = None if fleet is None else plan(fleet, _choice(options))
    other_plans = _other_plans(options, fleet, clusters)
    log.info("checked and planned by %.1f s; now writing", time.monotonic() - started)
    fails = "rejected" in options.fail_on
    manifest = write_plans(
        spark,
        consumer_plan,
        other_plans,
        output,
        run_id=options.run_id,
        tables=options.output_tables or tuple(STORED_PLAN_TABLES),
        format=options.output_format,
        options=options.output_option,
        inputs=_inputs(options),
        outcome=options.outcome.of_run("rejected" if fails else None),
    )
    options.outcome.wrote(manifest, output)
    num_rejected = num_rows_of_kinds(manifest.rows, "rejected")
    options.outcome.counts = {"groups": num_rows_of_kinds(manifest.rows, "metrics"), "rejected": num_rejected}
    if options.group and all_groups is not None and not any(options.outcome.counts.values()):
        similar = "".join(similar_name(all_groups.members, "group_id", glob) for glob in options.group)
        log.warning("No group matches --group %s.%s", ", ".join(options.group), similar)
    stored = stored_run(spark, output, manifest, options=options.output_option)
    if options.openmetrics:
        write_metrics(stored, options.openmetrics)
    summaries = [summary(each, options.top) for each in other_plans]
    print(summarize(run_with_owners(stored, owners), output, options.top, summaries, manifest.unknown), flush=True)
    for each in other_plans:
        each.unpersist()
    return int(fails and num_rejected > 0)


def _other_plans(options: Options, fleet: Fleet | None, clusters: ConnectFleet | None) -> list[LazyResult]:
    from spark_assign.cli.plan_kinds import plan_other_kinds

    streams = given_parameters(options, StreamsParams)
    return plan_other_kinds(fleet, clusters, streams_assignor=options.streams_assignor, **streams)


def _explain(options: Options, fleet: Fleet) -> int:
    from spark_assign.groups.explaining import explain_moves, is_group_named
    from spark_assign.groups.planning import plan
    from spark_assign.report.formatting import group_name, listed, visible, without_uuids
    from spark_assign.report.listed_groups import similar_name

    group, name = options.explain
    topic, _, partition = name.rpartition("-")
    planned = plan(_only_groups(fleet, is_group_named(group), [group]), _choice(options))
    try:
        rows = listed("moves", explain_moves(planned, group, topic, int(partition)))
    except SourceError as error:
        raise SourceError(f"{error}{similar_name(fleet.topics, 'topic', topic)}") from error
    reasons = " ".join(row["explanation"] for row in rows)
    print(visible(f"{name} of {group_name(rows[0])}: {without_uuids(reasons)}", escaped="\n"))
    return 0


def _details(options: Options, fleet: Fleet | None, clusters: ConnectFleet | None, offsets: DataFrame | None) -> int:
    from spark_assign.cli.plan_kinds import without_other_kinds
    from spark_assign.groups.explaining import is_group_named
    from spark_assign.groups.planning import plan
    from spark_assign.report.group_members import format_group_members, read_group_members
    from spark_assign.report.listed_groups import any_of, collected, matches_any, text_of_others, worst_first
    from spark_assign.spark.shell_patterns import any_true

    if clusters is not None:
        is_cluster = matches_any(options.details, "connect_cluster")
        given = {name: table.where(is_cluster) for name, table in vars(clusters).items() if table is not None}
        clusters = None if given["clusters"].isEmpty() else replace(clusters, **given)
    if fleet is not None:
        is_named = any_true([matches_any(options.details), *map(is_group_named, options.details)])
        try:
            fleet = _only_groups(fleet, is_named, options.details)
        except ConfigError:
            if clusters is None:
                raise
            fleet = None
    if fleet is None and clusters is None:
        raise ConfigError(f"The input has no Connect cluster {', '.join(options.details)}.")
    others = _other_plans(options, fleet, clusters)
    texts = []
    if fleet is not None:
        tables = ("assignment_slices", "metrics", "moves", "revocations", "rejected")
        planned = without_other_kinds(plan(fleet, _choice(options)), [each.prefix for each in others])
        with planned.computed_once(*tables) as once:
            metrics = collected(worst_first(once.metrics).limit(options.top))
            if metrics:
                only = any_of(metrics)
                known = {"members": fleet.members.where(only), "loads": fleet.loads, "offsets": offsets}
                found = read_group_members({name: once.tables[name].where(only) for name in tables}, known)
                texts += [format_group_members(metrics, found), "\n".join(planned.unknown)]
            texts.append(text_of_others(once.rejected, once.metrics, options.top))
    texts += [_details_of_kind(each, fleet, clusters, options.top) for each in others]
    print("\n\n".join(filter(None, texts)))
    return 0


def _details_of_kind(planned: LazyResult, fleet: Fleet | None, clusters: ConnectFleet | None, top: int) -> str:
    """Returns who gets what of a plan of share groups, Streams groups, or Connect clusters."""
    from spark_assign.report.group_members import format_group_members, read_other_members
    from spark_assign.report.listed_groups import collected, text_of_others

    with planned.computed_once() as once:
        tables = dict(once.tables)
        key = tables["rejected"].columns[:-2]
        first = tables["metrics"].orderBy(*key).limit(top)
        metrics = [{"cluster": row[key[0]], "group_id": row[key[-1]], **row} for row in collected(first)]
        others = text_of_others(tables["rejected"], tables["metrics"], top, key, f"{once.prefix}rejected")
        if not metrics:
            return others
        members = None if fleet is None else fleet.members
        if clusters is not None and once.prefix == CONNECT:
            columns, members = tables["assigned"].columns, clusters.workers
            after = clusters.reported.select(*columns).union(tables["assigned"].select(*columns))
            tables["after"] = after.subtract(tables["revoked"].select(*columns))
        named = first.select(*key)
        tables = {name: table.join(named, key, "left_semi") for name, table in tables.items()}
        members = None if members is None else members.join(named, key, "left_semi")
        found = read_other_members(once.prefix, tables, members)
    return "\n\n".join(filter(None, (format_group_members(metrics, found, once.prefix), others)))


def _only_groups(fleet: Fleet, is_named: Column, names: Sequence[str]) -> Fleet:
    """Returns the fleet with the groups of a condition; if there are none, an error that suggests similar names."""
    from spark_assign.report.listed_groups import similar_name
    from spark_assign.spark.dataframes import union

    given = fleet.members, fleet.groups, fleet.departed, fleet.undescribed
    tables = [table for table in given if table is not None]
    groups = union([table.where(is_named).select(*GROUP_KEY) for table in tables])
    if groups.isEmpty():
        ids = union([table.select("group_id") for table in tables])
        similar = "".join(similar_name(ids, "group_id", name.split("/")[-1]) for name in names)
        raise ConfigError(
            f"The fleet has no group {', '.join(names)}.{similar} Use the ID of a group, or CLUSTER/GROUP."
        )
    return fleet.filter_groups(groups)


def _offsets(spark: SparkSession, options: Options) -> DataFrame | None:
    """Returns the offsets of a snapshot; None if the location of the fleet has none."""
    from spark_assign.sources.files.tables import Shape, read_checked_tables
    from spark_assign.tables.groups import OFFSETS

    shape = Shape("A snapshot with offsets", {"offsets": OFFSETS}, ())
    given = {"format": options.format, "options": options.option}
    return read_checked_tables(spark, shape, _location(options), **given).get("offsets")


def _inputs(options: Options) -> dict[str, Any]:
    """Returns the inputs for the manifest; options of other kinds of groups only if they are given."""
    rare = given_parameters(options, StreamsParams)
    if options.streams_assignor != TASK_ASSIGNORS[0]:
        rare["streams_assignor"] = options.streams_assignor
    if options.what_if:
        rare["what_if"] = list(options.what_if)
    return {"fleet": _location(options), "tables": options.table or {}, "assignor": _choice(options), **rare}


if __name__ == "__main__":
    main()
