"""What the job `advise` computes and prints: all advice or, as `advise size` and others, one part of it, in detail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from pyspark.sql import functions as F

from spark_assign.advice.advise import advise
from spark_assign.advice.kernel.advice_items import AdviceParams
from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.advice.kernel.unused import UnusedParams
from spark_assign.advice.kernel.zones import ZoneParams
from spark_assign.advice.membership import advise_membership
from spark_assign.advice.size import SizingParams, size_groups, size_params
from spark_assign.advice.unused import EarlierSnapshot, UnusedEvidence, find_unused
from spark_assign.advice.zones import CHANGES, changes, measure_zone_traffic
from spark_assign.api import Fleet
from spark_assign.cli.job import Options, Rule
from spark_assign.cli.job_tables import store_or_cache, with_capacities
from spark_assign.cli.options import Decorator, capacity_option, given_parameters, location_option, parameter_options
from spark_assign.cli.owners import read_owners, tables_with_owners
from spark_assign.replicas import tool_files, write_tool_files
from spark_assign.report import advice as text
from spark_assign.report.formatting import group_key, note_lines
from spark_assign.report.listed_groups import collected, details_text, only, rows_of_first_groups
from spark_assign.report.loads_and_sizes import PARTITIONS_OF_GROUP, autoscalers, format_curves
from spark_assign.report.unused import format_unused
from spark_assign.report.views import MOST_ROWS
from spark_assign.report.zones import format_zone_options
from spark_assign.simulation.settings import GROUP_TIMES, Settings
from spark_assign.sources.files.snapshot_offsets import Offsets, read_summaries, seconds_between
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.spark.dataframes import union
from spark_assign.stores.locations import is_path, join
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.groups import GROUP_KEY, OFFSETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_assign.stores.result import LazyResult

    Tables = Mapping[str, DataFrame]


@dataclass(frozen=True)
class Mode:
    """What `advise` computes, or a command below it, such as `advise size`.

    Attributes:
        format_details: returns the text that `--details` prints.
        params: parameters of `compute`; their fields are options.
        compute: returns the result for a fleet, settings of simulated groups, and parameters. Its name is that of the
            command, and its docstring the help text.
        options: options that not every command has, besides `params`.
        usage: which options go together.
        loads: whether the sample fleet includes its made-up loads.
        read: reads more arguments of `compute` than the fleet, from the location of the fleet and the options.
    """

    format_details: Callable[[Options, Tables], str]
    params: type
    compute: Callable[..., LazyResult]
    options: Sequence[Decorator] = ()
    usage: Sequence[Rule] = ()
    loads: bool = True
    read: Callable[[Options, str | None, Fleet], Mapping[str, Any]] = lambda *_: {}

    def arguments(self, options: Options) -> tuple[Any, Settings]:
        """Returns the parameters, and the settings. Raises ConfigError."""
        given = given_parameters(options, self.params)
        return self.params(**given), Settings(**given_parameters(options, Settings))

    def run(self, options: Options, location: str | None, fleet: Fleet) -> int:
        """Computes the tables, writes or keeps them, prints them, and returns the exit code."""
        params, settings = self.arguments(options)
        capacity = getattr(options, "capacity", None)
        result = self.compute(with_capacities(fleet, capacity), settings, params, **self.read(options, location, fleet))
        given = {"mode": self.compute.__name__, "capacity": capacity}
        given |= {"params": given_parameters(options, self.params), "settings": given_parameters(options, Settings)}
        given |= {"before": options.before} if getattr(options, "before", None) else {}
        result = store_or_cache(options, result, inputs={"fleet": location, **given})
        owners = read_owners(fleet.topics.sparkSession, options.owners, options.owner)
        tables = tables_with_owners(result.tables, owners, options.owner)
        if options.details:
            print(self.format_details(options, tables), flush=True)
        else:
            result.with_tables(tables).show(options.top)
        if "replica_moves" in tables and options.output and is_path(options.output):
            _write_files(options, tables["replica_moves"])
        return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _check_sizes(options: Options) -> None:
    """Raises `ConfigError` if parameters don't fit together."""
    size_params(SizingParams(**given_parameters(options, SizingParams)), None)


def _check_filters(options: Options) -> None:
    """Raises `ConfigError` if groups are left out, although what they read is used."""
    if options.group or options.owner:
        option = "--group" if options.group else "--owner"
        reason = "topics that other groups read would seem unused. Use --details"
        raise ConfigError(f"{option} doesn't apply to advise unused: {reason}.")


def _read_evidence(options: Options, location: str | None, fleet: Fleet) -> Mapping[str, Any]:
    """Reads what the snapshot has beside the fleet, and the older snapshot (`--before`)."""
    if location is None:
        if options.before:
            raise ConfigError("--before needs --fleet with a snapshot.")
        return {"evidence": UnusedEvidence()}
    spark, how = fleet.topics.sparkSession, {"format": options.format, "options": options.option}
    shape = Shape("A snapshot", {"offsets": OFFSETS}, ())
    tables = read_tables(spark, shape, location, **how)
    evidence = UnusedEvidence(tables.get("offsets"), gaps=read_summaries(spark, location))
    if options.before:
        earlier, later = (Offsets.read(spark, place, **how) for place in (options.before, location))
        before = Fleet.read(spark, options.before, **how)
        evidence = replace(evidence, earlier=EarlierSnapshot(before, earlier.offsets, seconds_between(earlier, later)))
    return {"evidence": evidence}


def _format_advice(options: Options, tables: Tables) -> str:
    names = ("advice", "not_recommended")
    groups = union([tables[name].select(*GROUP_KEY) for name in names])
    rows, declined = (rows_of_first_groups(name, tables[name], options.details, options.top, groups) for name in names)
    by_rank = sorted(rows, key=lambda row: row["rank"])
    lines = [*text.format_advice(by_rank), *text.format_not_recommended(declined)]
    details = "\n".join([*lines, *note_lines([*by_rank, *declined])]).lstrip("\n")
    return details_text(details, options.details, groups, options.top)


def _format_sizes(options: Options, tables: Tables) -> str:
    """Returns the curves of the first `--top` groups that match `--details`, or their KEDA objects."""
    sizes = rows_of_first_groups("sizes", tables["sizes"], options.details, options.top)
    sizes.sort(key=lambda row: (*group_key(row), row["assignor"]))
    curves = collected(only(tables["curves"], sizes).orderBy(*GROUP_KEY, "assignor", "members"), "curves")
    if options.keda:
        details = autoscalers(sizes)
    else:
        topics = PARTITIONS_OF_GROUP.first(only(tables["topic_sizes"], sizes), MOST_ROWS)
        details = format_curves(sizes, curves, topics)
    return details_text(details, options.details, tables["sizes"], options.top, "# " if options.keda else "")


def _format_membership(options: Options, tables: Tables) -> str:
    advice = tables["membership_advice"]
    details = text.format_membership(*text.groups_with_options(advice, tables["options"], options.details, options.top))
    return details_text(details, options.details, advice, options.top)


def _format_zones(options: Options, tables: Tables) -> str:
    details = format_zone_options(rows_of_first_groups("zones", tables["zones"], options.details, options.top))
    return details_text(details, options.details, tables["zones"], options.top)


def _format_unused(options: Options, tables: Tables) -> str:
    named = tables["unused"].withColumn("group_id", F.coalesce("group_id", "topic"))
    details = format_unused(rows_of_first_groups("unused", named, options.details, options.top))
    return details_text(details, options.details, named, options.top)


def _write_files(options: Options, moves: DataFrame) -> None:
    """Writes the replica moves as files for Kafka's tools, each kind to its own folder."""
    place = join(options.output, "json")
    written: list[str] = []
    for kind in CHANGES:
        files = tool_files(changes(moves, kind, follower_fetching=bool(options.follower_fetching)))
        written += write_tool_files(files, join(place, kind))
    options.outcome.locations["files"] = place
    print("\n".join(["", f"{count(len(written), 'file')} for Kafka's tools:", *written[:10]]), flush=True)


_TIMES = parameter_options(Settings, *GROUP_TIMES)
_KEDA = click.option("--keda", is_flag=True, help="With --details: print a KEDA ScaledObject as YAML.")
_BEFORE = location_option("--before", "An older snapshot of the clusters, to see what has changed since.")
_SIZE_USAGE: Sequence[Rule] = ("--keda needs --details", _check_sizes)


@partial(Mode, _format_advice, AdviceParams, options=(capacity_option(), _TIMES))
def all_advice(fleet: Fleet, settings: Settings, params: AdviceParams) -> LazyResult:
    """Recommend changes."""
    return advise(fleet, params, settings)


@partial(Mode, _format_sizes, SizingParams, options=(capacity_option(), _KEDA), usage=_SIZE_USAGE)
def size(fleet: Fleet, _: Settings, params: SizingParams) -> LazyResult:
    """Find how many consumers each group needs, and its load with other numbers of members."""
    return size_groups(fleet, params)


@partial(Mode, _format_membership, MembershipParams, options=(_TIMES,), loads=False)
def membership(fleet: Fleet, settings: Settings, params: MembershipParams) -> LazyResult:
    """Choose static or dynamic membership and a session timeout, from what deploys and crashes pause."""
    return advise_membership(fleet, params, settings)


@partial(Mode, _format_zones, ZoneParams)
def zones(fleet: Fleet, _: Settings, params: ZoneParams) -> LazyResult:
    """Measure what groups read across zones, and find what reduces it."""
    return measure_zone_traffic(fleet, params)


@partial(
    Mode, _format_unused, UnusedParams, options=(_BEFORE,), usage=(_check_filters,), loads=False, read=_read_evidence
)
def unused(fleet: Fleet, _: Settings, params: UnusedParams, evidence: UnusedEvidence) -> LazyResult:
    """Find topics, groups, and subscriptions without a known use, and how to remove them safely."""
    return find_unused(fleet, evidence, params)


PARTS = (size, membership, zones, unused)
"""The commands below `advise`."""
