"""Which assignors there are.

Three sources, later ones win: Kafka's own; installed packages that offer the entry point `spark_assign.assignors`
(its name is the assignor's name, its value an `Assignor` or a class of one); `register` in the running program.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame

from spark_assign.assignors.groups import Groups, Outcome
from spark_assign.assignors.range import RangeAssignor
from spark_assign.assignors.roundrobin import RoundRobinAssignor
from spark_assign.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from spark_assign.errors import UnknownAssignorError

ENTRY_POINTS = "spark_assign.assignors"


@runtime_checkable
class Assignor(Protocol):
    """Decides who gets what, for many groups at once. (`GroupAssignor` is the same for one group at a time.)"""

    def assign(self, groups: Groups) -> Outcome:
        """Plan all of `groups`; what it does not give to anybody stays unassigned."""
        ...


@runtime_checkable
class Cooperative(Assignor, Protocol):
    """An assignor of the cooperative protocol (KIP-429), under which a change may take several rounds."""

    def rounds(self, groups: Groups, limit: int) -> DataFrame:
        """Rebalance until stable, `limit` times at most: columns of `schemas.ROUNDS` but for `assignor`."""
        ...


_BUILT_IN: dict[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "sticky": StickyAssignor(),
    "cooperative-sticky": CooperativeStickyAssignor(),
}
_registered: dict[str, Assignor] = {}


def register(name: str, assignor: Assignor) -> None:
    """Make an assignor known under a name, in this process; the same name again replaces it."""
    if not isinstance(assignor, Assignor):
        raise TypeError(f"{assignor!r} has no assign(groups); derive it from GroupAssignor")
    _registered[name] = assignor


def names() -> list[str]:
    """The names of all assignors there are, sorted."""
    return sorted({*_BUILT_IN, *_installed(), *_registered})


def find(name: str) -> Assignor:
    """The assignor of that name.

    Raises:
        UnknownAssignorError: there is none; names those there are.
    """
    for source in (_registered, _installed(), _BUILT_IN):
        if name in source:
            return source[name]
    close = get_close_matches(name, names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UnknownAssignorError(f"no assignor is called {name!r}{hint} There are: {', '.join(names())}")


@cache
def _installed() -> dict[str, Assignor]:
    found: dict[str, Assignor] = {}
    for point in entry_points(group=ENTRY_POINTS):
        offered = point.load()
        found[point.name] = offered() if isinstance(offered, type) else offered
    return found
