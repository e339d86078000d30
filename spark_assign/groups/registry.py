"""Registry of assignors.

Three sources; later ones take precedence: Kafka's own assignors; installed packages with the entry point
`spark_assign.assignors` (name: the assignor's name; value: a `GroupAssignor` or a class of one); `register` in
the running program. A client assignor can have the suffix of a release (`sticky@2.8`, `groups.assignors.release_rules`)
or of another library (`sticky@franz-go`, `groups.assignors.release_rules`). `uniform@4.0.0` is that of brokers 4.0.0.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points

from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS, format_release_lines, is_release_assignor
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, UNIFORM_4_0_0
from spark_assign.groups.assignors.sticky import COOPERATIVE_STICKY, STICKY
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.windows import WINDOW_SLICES
from spark_assign.tables.errors import ConfigError

ENTRY_POINTS = "spark_assign.assignors"

KERNEL_ASSIGNORS = (STICKY, COOPERATIVE_STICKY, *KAFKA_SERVER_ASSIGNORS, *RACK_SERVER_ASSIGNORS, WEIGHTED_STICKY)
"""Assignors that are kernels over complete groups: Kafka's, and three of this project
(`groups.assignors.server.OURS`, `weighted`)."""

_registered: dict[str, GroupAssignor] = {}


def register(name: str, assignor: GroupAssignor) -> None:
    """Registers an assignor under a name in this process, replacing an assignor of the same name.

    Raises:
        ConfigError: the object has no method `assign_group`.

    Examples:
        >>> class FirstMemberOnly(GroupAssignor):
        ...     def assign_group(self, group):
        ...         every = [(topic, n) for topic, count in group.partitions.items() for n in range(count)]
        ...         return {group.members[0].member_id: every}
        >>> register("first-member-only", FirstMemberOnly())
        >>> plan(fleet, "first-member-only").metrics.select("max_per_member", "min_per_member").distinct().show()
        +--------------+--------------+
        |max_per_member|min_per_member|
        +--------------+--------------+
        |             3|             0|
        +--------------+--------------+
    """
    if not callable(getattr(assignor, "assign_group", None)):
        raise ConfigError(f"{assignor!r} has no assign_group(group); derive it from GroupAssignor")
    _registered[name] = assignor


def names() -> list[str]:
    """Returns the sorted names of all registered assignors."""
    return sorted({*WINDOW_SLICES, *KERNEL_ASSIGNORS, *custom_assignors()})


def custom_assignors() -> dict[str, GroupAssignor]:
    """Returns the user-defined assignors by name; one can replace an assignor of Kafka's."""
    return {**_installed(), **_registered}


def find_assignor(name: str) -> GroupAssignor | str:
    """Returns the assignor with that name; Kafka's own, with or without a release, are represented by their name.

    Raises:
        ConfigError: no assignor has that name; the message lists the names.

    Examples:
        >>> find_assignor("sticky@2.8")
        'sticky@2.8'
    """
    if name in custom_assignors():
        return custom_assignors()[name]
    if name in names() or is_release_assignor(name) or name == UNIFORM_4_0_0:
        return name
    assignor, separator, release = name.partition("@")
    if separator and assignor in CLIENT_ASSIGNORS:
        raise ConfigError(
            f"{name!r}: {release!r} isn't a known release of Kafka's clients. "
            f"The release lines are: {format_release_lines()}"
        )
    if separator and assignor in names():
        raise ConfigError(
            f"{name!r}: a release (@VERSION) can be given only for {', '.join(CLIENT_ASSIGNORS)}, or as {UNIFORM_4_0_0}"
        )
    close = get_close_matches(name, names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ConfigError(f"no assignor is called {name!r}{hint} The assignors are: {', '.join(names())}")


@cache
def _installed() -> dict[str, GroupAssignor]:
    assignors: dict[str, GroupAssignor] = {}
    for point in entry_points(group=ENTRY_POINTS):
        loaded = point.load()
        assignors[point.name] = loaded() if isinstance(loaded, type) else loaded
    return assignors
