"""Compare assignors for every group of a fleet, now and after what-if changes, and recommend one, with reasons. Streams
groups are compared with and without their standbys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click
from pyspark.sql import functions as F

import spark_assign.cli  # noqa: F401 - Ctrl-C in what follows
from spark_assign import Fleet, compare
from spark_assign.cli.job import MARKDOWN, Options, job
from spark_assign.cli.job_names import check_assignors
from spark_assign.cli.job_tables import on_fleet, store_or_cache_all
from spark_assign.cli.options import (
    PAUSE_TIMES,
    ListType,
    exit_codes,
    given_parameters,
    input_options,
    output_options,
    parameter_options,
    refuse_flags,
    top,
)
from spark_assign.cli.owners import group_filter_options
from spark_assign.cli.plan_kinds import has_streams_groups
from spark_assign.cli.settings_file import from_file, validated
from spark_assign.comparison.declared_changes import DeclaredChange, compare_affected, resolve
from spark_assign.comparison.what_if import WhatIf, parse_what_if
from spark_assign.report.declared_changes import Review, read_brokers, read_groups, review_markdown
from spark_assign.report.results import summary
from spark_assign.simulation.settings import Settings
from spark_assign.sources.files.declared_changes import Mapped, read_changes
from spark_assign.sources.files.snapshot_files import last_taken, summarized
from spark_assign.stores.locations import is_path
from spark_assign.stores.result import LazyResult
from spark_assign.streams import compare_streams
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.parameters import Param
from spark_assign.tables.streams import StreamsParams

CHANGES = """Changes: as-is (the default); leave:GROUPS:COUNT and join:GROUPS:COUNT: COUNT members leave or join each
group; leave-members:MEMBERS: members leave, as if their host failed; partitions:TOPICS:COUNT or
partitions:TOPICS:xFACTOR.
GROUPS, MEMBERS and TOPICS are shell patterns. A name can precede a change:
--what-if 'host down=leave-members:consumer-10.2.*'."""


@dataclass(frozen=True)
class Compared:
    """What is compared.

    Attributes:
        assignors: assignors to compare, for all groups (default: the assignors of the group's protocol: Kafka's
            client-side assignors, or uniform and server-range).
        what_if: change to apply before comparing, for example leave:payments-*:1. See below for the syntax.
        changes_map: with --changes: TOML file with the groups of consumers, and the names of clusters.
        fail_on: exit with code 1 if groups are rejected or, with --changes, if groups rebalance or there are risks.
    """

    assignors: Annotated[Any, Param(kind=ListType(click.STRING), metavar="A,B,…")] = None
    what_if: Annotated[tuple[str, ...], Param(metavar="CHANGE")] = ()
    changes_map: Annotated[str | None, Param(metavar="FILE")] = None
    fail_on: Annotated[str | None, Param(choices=("rejected", "rebalances", "risks"))] = None


@job(
    __doc__,
    f"{CHANGES} {exit_codes('what --fail-on names was found', 'CONDITION')}",
    name="compare",
    usage=(
        "--changes excludes --what-if, --standby-replicas, --restore-bytes-per-second",
        "--changes-map needs --changes",
    ),
    markdown=True,
)
@input_options()
@group_filter_options()
@parameter_options(Compared, "assignors", "what_if")
@click.option(
    "--changes",
    metavar="OLD NEW",
    nargs=2,
    help="Two versions of a file or folder with Kubernetes manifests, the JSON of terraform show, or client "
    "properties. What differs is the change (docs/pull-request.md).",
)
@parameter_options(Compared, "changes_map")
@parameter_options(StreamsParams)
@parameter_options(Settings, *PAUSE_TIMES)
@output_options()
@parameter_options(Compared, "fail_on")
@top("groups in the summary of each change")
def main(options: Options) -> int:
    """Loads the fleet, compares the assignors, writes the tables, and prints the summary."""
    # Errors come before Spark starts.
    check_assignors(options.assignors or ())
    Settings(**given_parameters(options, Settings))
    if options.changes:
        return _main_of_changes(options)
    if options.print_format == MARKDOWN or options.fail_on in ("rebalances", "risks"):
        raise ConfigError("-o markdown, and --fail-on rebalances or risks, require --changes OLD NEW.")
    what_ifs = [parse_what_if(text) for text in options.what_if or ("as-is",)]
    return on_fleet("compare", options, __file__, partial(_run, what_ifs=what_ifs))


def _main_of_changes(options: Options) -> int:
    """Reads the changes that files declare, and prints their effect on a fleet."""
    refuse_flags(options, ("output", "run_id", "top"), "--changes prints a comment with limits of its own")
    file = options.changes_map
    mapped = validated(Mapped, from_file(Path(file)), file) if file else Mapped()
    changes, unread = read_changes(options.changes[0], options.changes[1], mapped)
    return on_fleet("compare", options, __file__, partial(_review, changes=changes, unread=unread, mapped=mapped))


def _review(
    options: Options, place: str | None, fleet: Fleet, changes: list[DeclaredChange], unread: list[str], mapped: Mapped
) -> int:
    change = resolve(fleet, changes, mapped.clusters)
    review = Review(change, unread, taken_at=_taken_at(place, change.clusters))
    settings = Settings(**given_parameters(options, Settings))
    compared = compare_affected(fleet, change, options.assignors, settings)
    if compared is not None:
        groups, totals = read_groups(compared, change)
        review = replace(review, groups=groups, totals=totals)
    if (loads := change.broker_loads(fleet)) is not None:
        review = replace(review, brokers=read_brokers(loads))
    print(review_markdown(review), flush=True)
    groups, planned = (review.totals.get(name, 0) for name in ("groups", "planned"))
    found = {"rejected": groups > planned, "rebalances": groups, "risks": review.risks}
    return int(bool(options.fail_on and found[options.fail_on]))


def _taken_at(place: str | None, clusters: list[str]) -> datetime | None:
    """Returns the time of the oldest snapshot in a folder; None if it isn't known."""
    if place is None or not is_path(place):
        return None
    found = summarized(Path(place))
    times = [found[1]] if found else [last_taken(place, "cluster", name) for name in clusters]
    return min(filter(None, times), default=None)


def _run(options: Options, place: str | None, fleet: Fleet, what_ifs: list[WhatIf]) -> int:
    comparison = compare(fleet, options.assignors, what_ifs, Settings(**given_parameters(options, Settings)))
    of_streams = given_parameters(options, StreamsParams)
    compared: list[LazyResult] = [comparison]
    if has_streams_groups(fleet):
        is_other_kind = F.coalesce(F.col("rejected") == "streams-group", F.lit(False))
        compared = [replace(comparison, rows=comparison.rows.where(~is_other_kind))]
        compared += [compare_streams({each.name: each.apply(fleet) for each in what_ifs}, **of_streams)]
    inputs = {"fleet": place, "assignors": options.assignors, "what_ifs": list(options.what_if), **of_streams}
    compared = store_or_cache_all(options, compared, inputs=inputs)
    print("\n\n".join(filter(None, (summary(each, options.top) for each in compared))), flush=True)
    return int(options.fail_on == "rejected" and any(not each.rejected.isEmpty() for each in compared))


if __name__ == "__main__":
    main()
