"""Plan every group of a fleet, store the plan, and print a summary: consumer groups, share groups (KIP-932), Kafka
Streams groups, and the next rebalance of Connect clusters."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spark_assign.cli import plan_settings
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.locations import require_output
from spark_assign.cli.options import (
    config_option,
    exit_codes,
    input_options,
    is_sample,
    leader_client_option,
    named_values,
    openmetrics_option,
    output_options,
    packaged_conf,
    parameter_options,
    patterns,
    sample,
    top,
)
from spark_assign.cli.owners import group_filter_options, read_owners, run_with_owners, select_groups
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.stored_plan import num_rows_of_kinds
from spark_assign.tables.streams import TASK_ASSIGNORS, StreamsParams

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_assign.api import Fleet
    from spark_assign.fleet import FleetTables

SETTINGS = packaged_conf(__file__) / "plan.toml"
CHANGES = """Changes, which are applied in order: leave:GROUPS:COUNT and join:GROUPS:COUNT remove members from and add
members to each matching group; leave-members:MEMBERS removes the matching members of all groups, as if a host failed;
partitions:TOPICS:COUNT (or xFACTOR) sets the number of partitions. GROUPS, MEMBERS, and TOPICS are shell patterns."""
EXIT_CODES = f"""{CHANGES} Without options, the job plans the consumer groups of the bundled sample fleet with the
settings in conf/plan.toml.
{exit_codes()}"""
SAMPLE = """No options given, so the bundled sample fleet is planned. To plan your own fleet, use --fleet LOCATION.
To plan a share group, a Streams group, and a Connect cluster with the sample fleet, use --sample."""
ASSIGNOR = """Assignor for all other consumer groups: range, roundrobin, sticky, cooperative-sticky, …, or "configured"
for the current assignor of each group (default: configured)."""
GROUP_ASSIGNOR = "Assignor for consumer groups with an ID that fits a shell pattern. The first matching pattern wins."
EXPLAIN = """Print why a partition of a consumer group goes to its planned owner, instead of writing the plan. GROUP is
the ID of the group, or CLUSTER/GROUP."""
DETAILS = """Print the members of consumer groups with a matching ID, or CLUSTER/GROUP, with their partitions, and what
they gain and lose, instead of writing the plan."""

log = logging.getLogger("spark_assign.plan")


@job(__doc__, EXIT_CODES, name="plan", config=config_option(lambda *_: {}))  # a file with keys of its own
@input_options(
    "the fleet's tables, including those of Connect clusters (with --table: connect_NAME)",
    of_sample="fleet, with a share group, a Streams group, and a Connect cluster",
)
@click.option("--assignor", metavar="NAME", help=ASSIGNOR)
@named_values("--group-assignor", "GLOB=NAME", GROUP_ASSIGNOR)
@leader_client_option()
@click.option(
    "--streams-assignor",
    type=click.Choice(TASK_ASSIGNORS),
    help="Assignor for groups of the streams protocol: streams-sticky (of Kafka 4.4), streams-sticky@4.3 (of 4.2.0, "
    "4.2.1, and 4.3), or streams-sticky@4.2.2 (default: streams-sticky). Classic Streams applications have their own.",
)
@parameter_options(StreamsParams)
@click.option(
    "--what-if",
    metavar="CHANGE",
    multiple=True,
    help="Change of the groups to apply before planning. See below for the syntax. Connect clusters, and the "
    "number of tasks of the streams protocol, don't change. Repeatable.",
)
@click.option("--explain", metavar="GROUP TOPIC-PARTITION", nargs=2, help=EXPLAIN)
@patterns("--details", DETAILS)
@output_options("Folder, URI, or catalog prefix for the plan (default: output/plan).", default_run_id=False)
@click.option(
    "--output-tables", metavar="A,B,…", help="Tables to write in addition to metrics and rejected (default: all)."
)
@group_filter_options()
@openmetrics_option()
@click.option("--fail-on", metavar="CONDITION", multiple=True, help='Exit with code 1 if groups are "rejected".')
@top(default=None)
def main(options: Options) -> int:
    """Parses, loads, plans, writes, and prints."""
    if not plan_settings.is_given(options):
        options.config = SETTINGS if SETTINGS.exists() else None
        options.sample = options.config is None
        print(SAMPLE, file=sys.stderr)
    settings = plan_settings.load(options.config, flags(options))
    settings.check()
    if options.explain:
        check_explain(options)
    if options.explain or options.details:
        check_no_output(options)
    else:
        require_output(settings.output.location)
    spark = spark_session("plan", options)
    from spark_assign.sources.files.tables import interpreted

    with interpreted(spark, [settings.fleet.location, *settings.fleet.tables.values()]):
        return _run(options, settings, spark)


def flags(options: Options) -> dict[str, Any]:
    """Returns the options in the shape of the settings file. Options take precedence over keys of the file."""
    location = sample(__file__, "fleet") if is_sample(options) else options.fleet
    fleet = {"location": location, "format": options.format}
    output = {"location": options.output, "format": options.output_format, "options": options.output_option}
    return {
        "fleet": fleet | {"options": options.option, "tables": options.table},
        "output": output | {"tables": options.output_tables.split(",") if options.output_tables else None},
        "assignor": options.assignor,
        "group_assignor": [{"groups": glob, "assignor": name} for glob, name in (options.group_assignor or {}).items()],
        "leader_client": [_leader_client(*pair) for pair in (options.leader_client or {}).items()],
        "streams_assignor": options.streams_assignor,
        "standby_replicas": options.standby_replicas,
        "restore_bytes_per_second": options.restore_bytes_per_second,
        "what_if": list(options.what_if) or None,
        "run_id": options.run_id,
        "fail_on": list(options.fail_on) or None,
        "group": list(options.group) or None,
        "owners": options.owners,
        "owner": list(options.owner) or None,
        "top": options.top,
    }


def _leader_client(glob: str, client: str) -> dict[str, str | None]:
    library, _, version = client.partition("@")
    return {"groups": glob, "library": library, "version": version or None}


def _run(options: Options, settings: plan_settings.PlanSettings, spark: SparkSession) -> int:
    # Imported after the checks, so that a wrong option is reported at once.
    from spark_assign import plan
    from spark_assign.cli.plan_kinds import plan_other_kinds, read_fleets, union_fleets, write_plans
    from spark_assign.report.listed_groups import similar_name
    from spark_assign.report.openmetrics import write_metrics
    from spark_assign.report.plan_summary import summarize
    from spark_assign.report.results import summary
    from spark_assign.stores.run_store import stored_run

    started = time.monotonic()
    input, output = settings.fleet, settings.output
    fleet, clusters = read_fleets(
        spark, input.location, format=input.format, options=input.options, tables=input.tables
    )
    if is_sample(options):
        applications, clusters = read_fleets(spark, sample(__file__, "applications"))
        fleet = union_fleets(fleet, applications)
    owners = read_owners(spark, settings.owners, settings.owner)
    log.info("read the fleet's tables in %.1f s", time.monotonic() - started)
    all_groups = fleet
    if fleet is not None:
        fleet = select_groups(spark, fleet, settings)
        for client in reversed(settings.leader_client):  # the first matching pattern wins
            fleet = fleet.with_leader_client(client.library, client.version, group_id=client.groups)
        for change in settings.changes:
            fleet = change.apply(fleet)
    if clusters is not None:
        selected = select_groups(spark, clusters, settings)
        clusters = None if selected is not clusters and selected.clusters.isEmpty() else selected
    if fleet is None and clusters is None:
        raise ConfigError("No Connect cluster matches --group and --owner.")
    if fleet is None and (settings.what_if or options.explain or options.details):
        flag = "--explain needs consumer" if options.explain else "--details needs consumer"
        flag = f"--what-if {settings.what_if[0]} changes" if settings.what_if else flag
        raise ConfigError(f"{flag} groups, but the input has only Connect clusters.")
    if options.explain and fleet is not None:
        return _explain(options, settings, fleet)
    if options.details and fleet is not None:
        return _details(options, settings, fleet, _offsets(spark, input))
    consumer_plan = None if fleet is None else plan(fleet, settings.choice)
    other_plans = plan_other_kinds(
        fleet,
        clusters,
        streams_assignor=settings.streams_assignor,
        standby_replicas=settings.standby_replicas,
        restore_bytes_per_second=settings.restore_bytes_per_second,
    )
    log.info("checked and planned by %.1f s; now writing", time.monotonic() - started)
    fails = "rejected" in settings.fail_on
    manifest = write_plans(
        spark,
        consumer_plan,
        other_plans,
        output.location,
        run_id=settings.run_id,
        tables=output.tables,
        format=output.format,
        options=output.options,
        inputs=_inputs(settings),
        outcome=options.outcome.of_run("rejected" if fails else None),
    )
    options.outcome.wrote(manifest, output.location)
    num_rejected = num_rows_of_kinds(manifest.rows, "rejected")
    options.outcome.counts = {"groups": num_rows_of_kinds(manifest.rows, "metrics"), "rejected": num_rejected}
    if settings.group and all_groups is not None and not options.outcome.counts["groups"]:
        similar = "".join(similar_name(all_groups.members, "group_id", glob) for glob in settings.group)
        log.warning("No group matches --group %s.%s", ", ".join(settings.group), similar)
    stored = stored_run(spark, output.location, manifest, options=output.options)
    if options.openmetrics:
        write_metrics(stored, options.openmetrics)
    summaries = [summary(each, settings.top) for each in other_plans]
    unknown = [] if fleet is None else fleet.unknown
    print(summarize(run_with_owners(stored, owners), output.location, settings.top, summaries, unknown), flush=True)
    for each in other_plans:
        each.unpersist()
    return int(fails and num_rejected > 0)


def check_explain(options: Options) -> None:
    """Raises `ConfigError` if the value of `--explain` isn't a partition."""
    topic, _, partition = options.explain[1].rpartition("-")
    if not topic or not partition.isdecimal():
        raise ConfigError(
            f"--explain {' '.join(options.explain)}: expected GROUP TOPIC-PARTITION, such as audit orders-3."
        )


def check_no_output(options: Options) -> None:
    """Raises `ConfigError` if `--explain` and `--details` are given, or one of them with a flag about a stored plan."""
    if options.explain and options.details:
        raise ConfigError("--explain can't be used with --details. Use only one of them.")
    for name, source in options.given.items():
        if source is ParameterSource.COMMANDLINE and name.startswith(("output", "run_id", "openmetrics", "fail_on")):
            flag = "--explain" if options.explain else "--details"
            raise ConfigError(f"{flag} writes no plan. Remove --{name.replace('_', '-')}.")


def _explain(options: Options, settings: plan_settings.PlanSettings, fleet: Fleet) -> int:
    from spark_assign import plan
    from spark_assign.groups.explaining import explain_moves, is_group_named
    from spark_assign.report.formatting import group_name, listed, without_uuids
    from spark_assign.report.listed_groups import similar_name

    group, name = options.explain
    topic, _, partition = name.rpartition("-")
    planned = plan(_only_groups(fleet, is_group_named(group), [group]), settings.choice)
    try:
        rows = listed("moves", explain_moves(planned, group, topic, int(partition)))
    except SourceError as error:
        raise SourceError(f"{error}{similar_name(fleet.topics, 'topic', topic)}") from error
    reasons = " ".join(row["explanation"] for row in rows)
    print(f"{name} of {group_name(rows[0])}: {without_uuids(reasons)}")
    return 0


def _details(options: Options, settings: plan_settings.PlanSettings, fleet: Fleet, offsets: DataFrame | None) -> int:
    from spark_assign import plan
    from spark_assign.groups.explaining import is_group_named
    from spark_assign.report.group_members import format_group_members, read_group_members
    from spark_assign.report.listed_groups import any_of, collected, read_rejected_lines, worst_first
    from spark_assign.spark.shell_patterns import matches

    is_named = [matches(group_id=pattern) | is_group_named(pattern) for pattern in options.details]
    selected = _only_groups(fleet, reduce(or_, is_named), options.details)
    tables = ("assignment_slices", "metrics", "moves", "revocations", "rejected")
    with plan(selected, settings.choice).computed_once(*tables) as planned:
        metrics = collected(worst_first(planned.metrics).limit(settings.top))
        lines = "\n".join(read_rejected_lines(planned.rejected)).lstrip()
        if metrics:
            only = any_of(metrics)
            known = {"members": selected.members.where(only), "loads": selected.loads, "offsets": offsets}
            found = read_group_members({name: planned.tables[name].where(only) for name in tables}, known)
            lines = "\n\n".join(filter(None, (format_group_members(metrics, found), lines)))
    print(lines)
    return 0


def _only_groups(fleet: FleetTables, is_named: Column, names: Sequence[str]) -> FleetTables:
    """Returns the fleet with the groups of a condition; if there are none, an error that suggests similar names."""
    from spark_assign.report.listed_groups import similar_name
    from spark_assign.spark.tagged_pass import union

    tables = [table for table in (fleet.members, fleet.groups, fleet.departed) if table is not None]
    groups = union([table.where(is_named).select(*GROUP_KEY) for table in tables])
    if groups.isEmpty():
        ids = union([table.select("group_id") for table in tables])
        similar = "".join(similar_name(ids, "group_id", name.split("/")[-1]) for name in names)
        raise ConfigError(
            f"The fleet has no group {', '.join(names)}.{similar} Use the ID of a group, or CLUSTER/GROUP."
        )
    return fleet.filter_groups(groups)


def _offsets(spark: SparkSession, input: plan_settings.FleetSettings) -> DataFrame | None:
    """Returns the offsets of a snapshot; None if the location of the fleet has none."""
    from spark_assign.sources.files.tables import Shape, read_tables
    from spark_assign.tables.groups import OFFSETS

    shape = Shape("A snapshot with offsets", {"offsets": OFFSETS}, ())
    return read_tables(spark, shape, input.location, format=input.format, options=input.options).get("offsets")


def _inputs(settings: plan_settings.PlanSettings) -> dict[str, Any]:
    """Returns the inputs for the manifest; settings of other kinds of groups only if they aren't the default."""
    names = {"streams_assignor", "standby_replicas", "restore_bytes_per_second", "what_if"}
    rare = settings.model_dump(include=names, exclude_defaults=True)
    fleet = settings.fleet
    return {"fleet": fleet.location, "tables": dict(fleet.tables), "assignor": settings.choice, **rare}


if __name__ == "__main__":
    sys.exit(main())
