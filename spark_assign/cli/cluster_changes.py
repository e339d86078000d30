"""Options of changes of clusters, and the reassignment that they plan."""

from __future__ import annotations

import sys

import click

from spark_assign.cli.job import Options
from spark_assign.cli.options import (
    ListType,
    PairType,
    compose_options,
    given_parameters,
    given_values,
    is_sample,
    named_values,
    parameter_options,
)
from spark_assign.replicas import ClusterChange, LoadGoals, ReplicaFleet, reassign
from spark_assign.replicas.kernel.load_goals import GOALS
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.tables.errors import ConfigError

SAMPLE_CHANGE = ((3,), ((4, "use1-az4"),))
"""Default of --remove and --add for the sample fleet: another broker in the same rack."""

CHANGES = ("remove", "add", "rack", "replication_factor", "partitions")
"""Options that change clusters."""

CHANGE_OPTIONS = compose_options(
    click.option(
        "--cluster",
        metavar="GLOB",
        default="*",
        help="Clusters that change, by shell pattern of their names (default: all).",
    ),
    click.option("--remove", metavar="ID,ID,…", type=ListType(click.INT), help="Brokers that must lose all replicas."),
    click.option(
        "--add",
        metavar="ID[=RACK],…",
        type=ListType(PairType(click.INT, click.STRING, optional=True)),
        help="New brokers, with their racks.",
    ),
    click.option(
        "--rack",
        metavar="ID=RACK,…",
        type=ListType(PairType(click.INT, click.STRING)),
        help="New racks of brokers.",
    ),
    named_values(
        "--replication-factor", "GLOB=N", "New replication factor of topics that match a shell pattern.", click.INT
    ),
    named_values("--partitions", "GLOB=N", "New number of partitions of topics that match a shell pattern.", click.INT),
    click.option(
        "--tolerance",
        metavar="X",
        type=click.FloatRange(min=0),
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

BALANCE_OPTIONS = compose_options(
    click.option(
        "--balance",
        metavar="GOAL[=X],…",
        type=ListType(PairType(click.STRING, click.FLOAT, optional=True)),
        help=f"Balance loads by goals, in order of priority ({', '.join(GOALS)}), each with the maximum "
        "deviation of a broker from its share, as a fraction of the share (default: --tolerance).",
    ),
    click.option(
        "--hard",
        metavar="GOAL,…",
        type=ListType(click.STRING),
        help="With --balance: goals that must be met (default: none).",
    ),
    parameter_options(LoadGoals, condition="With --balance"),
)
"""Options of goals for loads."""

BALANCE_USAGE = (
    "--hard, --capacity-threshold, --max-moved-bytes needs --balance: for example --balance disk",
    "--balance excludes --voluntary",
)
"""Which of them go together."""


def load_goals(options: Options) -> LoadGoals | None:
    """Returns the goals for loads (`BALANCE_OPTIONS`); None without any.

    Raises:
        ConfigError: A goal is unknown or listed twice, or a number is out of range.
    """
    if options.balance is None:
        return None
    tolerances: dict[str, float] = {}
    for goal, tolerance in options.balance:
        if goal in tolerances:
            raise ConfigError(f"--balance: {goal} is listed twice. Remove one of them")
        tolerances[goal] = options.tolerance if tolerance is None else tolerance
    return LoadGoals(tolerances, options.hard or (), **given_parameters(options, LoadGoals))


def planned_reassignment(fleet: ReplicaFleet, options: Options, goals: LoadGoals | None = None) -> Reassignment:
    """Returns the reassignment of a change (`CHANGE_OPTIONS`)."""
    if is_sample(options) and goals is None and not given_values(options, CHANGES):
        options.remove, options.add = SAMPLE_CHANGE
        print("No change given, so a broker is replaced: --remove 3 --add 4=use1-az4", file=sys.stderr)
    change = ClusterChange.from_values(
        fleet,
        cluster=options.cluster,
        removed=options.remove or (),
        added=dict(options.add or ()),
        racks=dict(options.rack or ()),
        replication_factors=options.replication_factor or {},
        partitions=options.partitions or {},
    )
    voluntary = None if options.voluntary is None else options.voluntary == "yes"
    return reassign(fleet, change, tolerance=options.tolerance, voluntary=voluntary, goals=goals)
