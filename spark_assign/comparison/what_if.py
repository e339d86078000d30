"""Named changes of a fleet, as small values: what would be if members left, joined, or topics grew.

A change is a name and a function from fleet to fleet. Those that `Fleet.with_…` knows have a constructor here, and a
form in words for the command line (`read_change`):

    as-is                         nothing changes
    leave:GROUPS:NUMBER           so many members leave each group that matches, the first by id
    leave-members:MEMBERS         the members whose id matches leave, wherever they are (a host goes)
    join:GROUPS:NUMBER            so many members join each group that matches
    partitions:TOPICS:COUNT       the topics that match get so many partitions; `x2`: twice as many as they have
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from spark_assign.fleet import Fleet
from spark_assign.tables.errors import ConfigError

FORMS = (
    "as-is, leave:GROUPS:NUMBER, leave-members:MEMBERS, join:GROUPS:NUMBER, partitions:TOPICS:COUNT or "
    "partitions:TOPICS:xFACTOR"
)


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        name: what it is called in tables.
        apply: the fleet after it.

    Examples:
        >>> fewer = Change("one client less", lambda fleet: fleet.with_members_left(group_id="payments-*", number=1))
        >>> compared = compare(fleet, ["range"], [fewer]).where("group_id = 'payments-eu'")
        >>> compared.select("change", "members", "moved").show()
        +---------------+-------+-----+
        |         change|members|moved|
        +---------------+-------+-----+
        |one client less|      1|    3|
        +---------------+-------+-----+
    """

    name: str
    apply: Callable[[Fleet], Fleet]


AS_IS = Change("as-is", lambda fleet: fleet)
"""Nothing changes: what it takes to go over to an assignor, or to rebalance with it once more."""


def members_left(*, group_id: str = "*", member_id: str = "*", number: int | None = None, name: str = "") -> Change:
    """Members leave: those that match these shell patterns, of each group the first `number` by id (null: all)."""
    told = f"leave:{group_id}:{number}" if number is not None else f"leave-members:{member_id}"
    return Change(
        name or told, lambda fleet: fleet.with_members_left(group_id=group_id, member_id=member_id, number=number)
    )


def members_joined(*, number: int, group_id: str = "*", name: str = "") -> Change:
    """`number` members join each group that matches the shell pattern; they subscribe to what the group does."""
    return Change(
        name or f"join:{group_id}:{number}", lambda fleet: fleet.with_members_joined(group_id=group_id, number=number)
    )


def partitions_added(*, topic: str = "*", factor: float | None = None, to: int | None = None, name: str = "") -> Change:
    """The topics that match get `factor` times their partitions, or exactly `to`."""
    told = f"partitions:{topic}:{f'x{factor:g}' if factor is not None else to}"
    return Change(name or told, lambda fleet: fleet.with_partitions(topic=topic, factor=factor, to=to))


def read_change(text: str) -> Change:
    """A change from its words (the module's page), `NAME=` before them if it is to have a name of its own.

    Raises:
        ConfigError: the words are no change; says what was expected.
    """
    kind, _, rest = text.partition(":")
    name, named, kind = kind.rpartition("=")
    if named and not name:
        raise ConfigError(f"change {text}: there is no name before =")
    pattern, _, number = rest.rpartition(":")
    if kind == "as-is" and not rest:
        return Change(name or AS_IS.name, AS_IS.apply)
    if kind == "leave-members" and rest:
        return members_left(member_id=rest, name=name or text)
    if kind == "leave" and pattern:
        return members_left(group_id=pattern, number=_whole(number, text), name=name or text)
    if kind == "join" and pattern:
        return members_joined(group_id=pattern, number=_whole(number, text), name=name or text)
    if kind == "partitions" and pattern and number.startswith("x"):
        return partitions_added(topic=pattern, factor=_factor(number[1:], text), name=name or text)
    if kind == "partitions" and pattern:
        return partitions_added(topic=pattern, to=_whole(number, text), name=name or text)
    raise ConfigError(f"change {text}: expected one of {FORMS}, for example leave:payments-*:1")


def _whole(number: str, text: str) -> int:
    if not number.isdecimal() or not 1 <= int(number) <= MOST:
        raise ConfigError(f"change {text}: {number or 'nothing'} is no whole number from 1 to {MOST:,}")
    return int(number)


def _factor(number: str, text: str) -> float:
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not 0 < factor <= MOST:
        raise ConfigError(f"change {text}: x{number} is no factor, write x2 or x1.5")
    return factor


MOST = 100_000
"""More members of one group, or more partitions of one topic, are a typing error."""
