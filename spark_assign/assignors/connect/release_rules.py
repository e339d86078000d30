"""Releases of Kafka Connect: the assignor of a cluster is that of its workers' release.

`IncrementalCooperativeAssignor` has these profiles; the releases of one assign alike:

    2.4.0    2.4.0 to 2.5.0                    duplicated items keep running (before KAFKA-9849), and all lost items
                                               go to one candidate
    2.5.1    2.5.1 to 2.6.1, and 2.7.0         duplicated items are revoked
    2.6.2    2.6.2, 2.6.3, and 2.7.1 to 3.2    lost items go to all candidates, and revocations have no limit for all
                                               workers together (KAFKA-10413)
    3.3.0    3.3                               duplicated items count as often in averages, and the leader iterates a
                                               copy of its map of workers (KAFKA-13763)
    3.4.0    3.4.0 to 3.5.1, and 3.6.0         workers are balanced in every rebalance, with a backoff (KAFKA-12495)
    3.5.2    3.5.2, and 3.6.1 to 4.4           a maximum delay of 0 reassigns lost items at once (KAFKA-15693)

Confluent Platform 7.5.1 is Kafka 3.5.1: 5.4 and 5.5 are 2.4 and 2.5, 6.0 to 6.2 are 2.6 to 2.8, 7 is 3, and 8 is 4.
Patches of Confluent Platform can have fixes that Kafka's patch of this number lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spark_assign.assignors.connect import (
    eager_assignor,
    incremental_cooperative_assignor,
    incremental_cooperative_assignor_2_6,
)
from spark_assign.assignors.connect.rebalance_input import RebalanceInput, RebalanceResult
from spark_assign.tables.quoting import in_text

PROTOCOL_2_6 = "compatible-2.6"
PROTOCOLS = ("eager", "compatible", "sessioned", PROTOCOL_2_6)
NEWEST = (4, 4)

Release = tuple[int, int, int]


@dataclass(frozen=True)
class ConnectRules:
    """Rules by which a cluster is planned.

    Attributes:
        name: The profile's first release; `eager` has no profiles.
        assign: The assignor.
        copies_workers: Whether the leader iterates a copy of its map of workers.
    """

    name: str
    assign: Callable[[RebalanceInput], RebalanceResult]
    copies_workers: bool = True


EAGER = ConnectRules("eager", eager_assignor.assign)
_old = incremental_cooperative_assignor_2_6.assign
PROFILES = {
    rules.name: rules
    for rules in (
        ConnectRules("2.4.0", partial(_old, spreads_lost=False, revokes_duplicates=False), copies_workers=False),
        ConnectRules("2.5.1", partial(_old, spreads_lost=False), copies_workers=False),
        ConnectRules("2.6.2", _old, copies_workers=False),
        ConnectRules("3.3.0", partial(_old, counts_duplicates=True)),
        ConnectRules("3.4.0", partial(incremental_cooperative_assignor.assign, reassign_if_no_delay=False)),
        ConnectRules("3.5.2", incremental_cooperative_assignor.assign),
    )
}
LATEST = PROFILES["3.5.2"]

STARTS: dict[Release, str] = {
    (2, 4, 0): "2.4.0",
    (2, 5, 1): "2.5.1",
    (2, 6, 2): "2.6.2",
    (2, 7, 0): "2.5.1",
    (2, 7, 1): "2.6.2",
    (3, 3, 0): "3.3.0",
    (3, 4, 0): "3.4.0",
    (3, 5, 2): "3.5.2",
    (3, 6, 0): "3.4.0",
    (3, 6, 1): "3.5.2",
}
"""Release to the profile that starts there; fixes were released in several minor releases, so that some return."""


def find_rules(protocol: str) -> tuple[ConnectRules, str | None]:
    """Returns the rules of a cluster, and what might differ; None if nothing.

    Args:
        protocol: a protocol, or one with the release of the workers, such as `sessioned@3.5.1` or, of Confluent
            Platform, `sessioned@7.5.1-ccs` (`clusters.version`).

    Examples:
        >>> [find_rules(f"sessioned@{release}")[0].name for release in ("2.7.0", "3.6.0", "7.4.0-ccs", "4.4.0")]
        ['2.5.1', '3.4.0', '3.4.0', '3.5.2']
        >>> find_rules("sessioned")[1]
        'as 3.6.1 to 4.4, because the release is unknown'
    """
    name, _, version = protocol.partition("@")
    if name == "eager":
        return EAGER, None
    if name == PROTOCOL_2_6:
        return PROFILES["2.6.2"], None
    found = re.match(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?!\d)", version, re.ASCII)
    version = in_text(version)
    if found is None:
        return LATEST, f"as 3.6.1 to 4.4, because the release is {version or 'unknown'}"
    given = int(found[1]), int(found[2]), 1_000 if found[3] is None else int(found[3])
    release = _kafka_release(given)
    starts = [start for start in STARTS if start <= release]
    rules = PROFILES[STARTS[max(starts, default=(2, 4, 0))]]
    if not starts or release[:2] > NEWEST:
        return rules, f"as {'4.4' if starts else '2.4'}, not {version}"
    has_boundary = sum(start[:2] == release[:2] and start[2] > 0 for start in STARTS)
    if given != release and has_boundary:
        patch = "" if found[3] is None else f".{found[3]}"
        kafka = f"{release[0]}.{release[1]}{patch}"
        return rules, f"as Kafka {kafka}, but {version} of Confluent Platform can have later fixes"
    return rules, None


def _kafka_release(release: Release) -> Release:
    """Returns the release of Kafka that a release of Confluent Platform contains; one of Kafka unchanged."""
    major, minor, patch = release
    if major == 5:
        return 2, minor, patch
    if major == 6:
        return 2, minor + 6, patch
    return (major - 4, minor, patch) if major >= 7 else release
