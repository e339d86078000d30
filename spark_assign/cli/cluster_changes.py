"""Options of changes of clusters, and the reassignment that they plan."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

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
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.tables.parameters import Param

SAMPLE_CHANGE = ((3,), ((4, "use1-az4"),))
"""Default of --remove and --add for the sample fleet: another broker in the same rack."""

CHANGES = ("remove", "add", "rack", "replication_factor", "partitions")
"""Options that change clusters."""

RACK = PairType(click.INT, click.STRING)
BROKER = PairType(click.INT, click.STRING, optional=True)
GOAL = PairType(click.STRING, click.FLOAT, optional=True)


@dataclass(frozen=True)
class Change:
    """A change of clusters.

    Attributes:
        cluster: clusters that change, by shell pattern of their names (default: all).
        remove: brokers that must lose all replicas.
        add: new brokers, with their racks.
        rack: new racks of brokers.
        tolerance: maximum deviation of a broker from its even share, as a fraction of the share.
        voluntary: whether replicas that could stay may move to improve balance (default: only if brokers are added).
    """

    cluster: Annotated[str, Param(metavar="GLOB")] = "*"
    remove: Annotated[Sequence[int] | None, Param(kind=ListType(click.INT), metavar="ID,ID,…")] = None
    add: Annotated[Any, Param(kind=ListType(BROKER), metavar="ID[=RACK],…")] = None
    rack: Annotated[Any, Param(kind=ListType(RACK), metavar="ID=RACK,…")] = None
    tolerance: Annotated[float, Param(least=0)] = 0.1
    voluntary: Annotated[str | None, Param(choices=("yes", "no"))] = None


CHANGE_OPTIONS = compose_options(
    parameter_options(Change, defaults=True),
    named_values(
        "--replication-factor", "GLOB=N", "New replication factor of topics that match a shell pattern.", click.INT
    ),
    named_values("--partitions", "GLOB=N", "New number of partitions of topics that match a shell pattern.", click.INT),
)
"""Options of a change of clusters."""


@dataclass(frozen=True)
class Balance:
    """Goals for loads, besides those of `LoadGoals`.

    Attributes:
        balance: balance loads by goals, in order of priority (disk, in, out, leader-in, count, leaders, log-dirs), each
            with the maximum deviation of a broker, or of a log directory, from its share, as a fraction of the share
            (default: --tolerance).
        hard: with --balance: goals that must be met (default: none).
    """

    balance: Annotated[Any, Param(kind=ListType(GOAL), metavar="GOAL[=X],…")] = None
    hard: Annotated[Sequence[str] | None, Param(kind=ListType(click.STRING), metavar="GOAL,…")] = None


BALANCE_OPTIONS = compose_options(parameter_options(Balance), parameter_options(LoadGoals, condition="With --balance"))
"""Options of goals for loads."""

BALANCE_USAGE = (
    "--hard, --capacity-threshold, --max-moved-bytes needs --balance: for example --balance disk",
    "--balance excludes --voluntary",
)
"""Which of them go together."""


def load_goals(options: Options) -> LoadGoals | None:
    """Returns the goals for loads (`BALANCE_OPTIONS`); None without any.

    Raises:
        ConfigError: a goal is unknown, or a number is out of range.
    """
    if options.balance is None:
        return None
    tolerances = {goal: options.tolerance if given is None else given for goal, given in options.balance}
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
