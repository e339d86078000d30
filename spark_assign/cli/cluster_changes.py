"""Options of changes of clusters, and the reassignment that they plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from spark_assign.cli.job import Options
from spark_assign.cli.options import compose_options, given_values, is_sample, named_values
from spark_assign.replicas import ClusterChange, LoadGoals, ReplicaFleet, reassign
from spark_assign.replicas.kernel.load_goals import GOALS
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.tables.errors import ConfigError

SAMPLE_CHANGE = ("3", "4=use1-az4")
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
    click.option("--remove", metavar="ID,ID,…", help="Brokers that must lose all replicas."),
    click.option("--add", metavar="ID[=RACK],…", help="New brokers, with their racks."),
    click.option("--rack", metavar="ID=RACK,…", help="New racks of brokers."),
    named_values("--replication-factor", "GLOB=N", "New replication factor of topics that match a shell pattern."),
    named_values("--partitions", "GLOB=N", "New number of partitions of topics that match a shell pattern."),
    click.option(
        "--tolerance",
        metavar="X",
        type=float,
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
        help=f"Balance loads by goals, in order of priority ({', '.join(GOALS)}), each with the maximum deviation of a "
        "broker from its share, as a fraction of the share (default: --tolerance).",
    ),
    click.option("--hard", metavar="GOAL,…", help="With --balance: goals that must be met (default: none)."),
    click.option(
        "--capacity-threshold",
        metavar="X",
        type=float,
        help="With --balance: fraction of its capacity, from the table capacities, that a broker may use (default: "
        "0.8).",
    ),
    click.option(
        "--max-moved-bytes",
        metavar="N",
        type=int,
        help="With --balance: maximum number of bytes that move in a cluster (default: no limit). Requires sizes.",
    ),
)
"""Options of goals for loads."""


def load_goals(options: Options) -> LoadGoals | None:
    """Returns the goals for loads (`BALANCE_OPTIONS`); None without any.

    Raises:
        ConfigError: A goal is unknown or listed twice, a number is out of range, or `--balance` is missing.
    """
    if options.balance is None:
        if given := given_values(options, ("hard", "capacity_threshold", "max_moved_bytes")):
            raise ConfigError(f"--{next(iter(given)).replace('_', '-')} requires --balance, for example --balance disk")
        return None
    if options.voluntary is not None:
        raise ConfigError("--voluntary has no effect with --balance. Give one of them.")
    tolerances: dict[str, float] = {}
    for word in _words(options.balance):
        goal, _, tolerance = word.partition("=")
        if goal in tolerances:
            raise ConfigError(f"--balance: {goal} is listed twice. Remove one of them")
        try:
            tolerances[goal] = float(tolerance) if tolerance else options.tolerance
        except ValueError:
            raise ConfigError(f"--balance {word}: {tolerance!r} isn't a number, for example {goal}=0.1") from None
    threshold = {} if options.capacity_threshold is None else {"capacity_threshold": options.capacity_threshold}
    return LoadGoals(tolerances, _words(options.hard), max_moved_bytes=options.max_moved_bytes, **threshold)


def planned_reassignment(fleet: ReplicaFleet, options: Options, goals: LoadGoals | None = None) -> Reassignment:
    """Returns the reassignment of a change (`CHANGE_OPTIONS`)."""
    if is_sample(options) and goals is None and not given_values(options, CHANGES):
        options.remove, options.add = SAMPLE_CHANGE
        print(
            f"No change given, so a broker is replaced: --remove {options.remove} --add {options.add}", file=sys.stderr
        )
    return reassign(
        fleet,
        ClusterChange.from_values(fleet, **change_values(options)),
        tolerance=options.tolerance,
        voluntary=None if options.voluntary is None else options.voluntary == "yes",
        goals=goals,
    )


def change_values(options: Options) -> dict[str, Any]:
    """Returns the arguments of `ClusterChange.from_values` that the options give.

    Raises:
        ConfigError: a value is invalid.
    """
    if options.tolerance < 0:
        raise ConfigError(f"--tolerance {options.tolerance}: expected 0 or more, for example 0.1 for 10 %")
    return {
        "cluster": options.cluster,
        "removed": broker_ids("--remove", options.remove) or (),
        "added": dict(_broker("--add", word) for word in _words(options.add)),
        "racks": dict(_broker("--rack", word) for word in _words(options.rack)),
        "replication_factors": _numbers("--replication-factor", options.replication_factor),
        "partitions": _numbers("--partitions", options.partitions),
    }


def _words(given: str | None) -> list[str]:
    return [word.strip() for word in given.split(",")] if given else []


def broker_ids(flag: str, given: str | None) -> list[int] | None:
    """Returns the IDs in a list of brokers; None without a list."""
    return None if given is None else [integer(flag, word) for word in _words(given)]


def _broker(flag: str, word: str) -> tuple[int, str | None]:
    broker, _, rack = word.partition("=")
    if flag == "--rack" and not rack:
        raise ConfigError(f"{flag} {word}: expected ID=RACK")
    return integer(flag, broker), rack or None


def _numbers(flag: str, given: Mapping[str, str] | None) -> dict[str, int]:
    return {name: integer(flag, value) for name, value in (given or {}).items()}


def integer(flag: str, word: str) -> int:
    """Returns a number.

    Raises:
        ConfigError: it isn't an integer.
    """
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"{flag}: {word!r} isn't an integer") from None
