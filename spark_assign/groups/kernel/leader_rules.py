"""Finds the client library, and release, whose rules assign a classic group: those of its leader.

The leader runs the assignor and writes the assignments of all members; each member writes its own subscription. Both
are versioned, and libraries differ in how they encode missing values: Java writes null, aiokafka an empty string,
librdkafka an empty string for itself and a copy of the subscription's value for other members. So the stored bytes are
better evidence than `client.id`, which users can set.

Principles, in order of priority
    1. The leader is a member: what it wrote for all members must match what one member wrote for itself.
    2. If several libraries match, a default `client.id` (`groups.kernel.client_libraries`) decides.
    3. The result is sure only if bytes and default client ids agree. One of the two makes it likely; a part of a name
       is a guess.

Example: all assignments have version 0 and empty user data, as librdkafka and kafka-python write them. The
subscriptions have version 3, which kafka-python never writes; the client id is `billing`. So the leader is librdkafka
2.2 or later: likely, because the name is no evidence.

Formats, as observed on a broker, release by release (`tests/unit/fingerprints.json`):

    library        release    subscription            assignment       cooperative-sticky's user data
    Java           before 2.4 version 0, null         version 0, null  –
                   2.4-2.7    version 1, null         version 1, null  null
                   2.8-3.3    version 1, null         version 1, null  the generation
                   3.4+       version 3, null         version 3, null  the generation
    librdkafka     before 2.2 version 1, empty        version 0, again  what is owned, and the generation
                   2.2+       version 3, empty        version 0, again  what is owned, and the generation
    franz-go       1.22       version 3, null         version 0, null  what is owned, and the generation
    Sarama         1.61       version 1, null         version 0, null  the generation
    kafka-go       0.4        version 1, cut short    version 1, null  –
    kafka-python, aiokafka, kafkajs
                              version 0, empty        version 0, empty –
    kafka-python's cooperative-sticky
                   3.0        version 1, empty        version 1, empty empty
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_assign.assignors.release_rules import (
    GUESS,
    LIKELY,
    SURE,
    UNKNOWN,
)
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, OR, Client, detect_library


@dataclass(frozen=True)
class SubscriptionFormat:
    """Format of a member's subscription.

    Attributes:
        version: version of the bytes.
        user_data: the user data; None and empty are distinct.
        cut_short: version 1 without the list of owned partitions that the version requires.
    """

    version: int
    user_data: bytes | None
    cut_short: bool = False


@dataclass(frozen=True)
class AssignmentFormat:
    """Format of a member's assignment, written by the leader."""

    version: int
    user_data: bytes | None


@dataclass(frozen=True)
class MemberBytes:
    """What the coordinator stores of a member; `assigned` is None if it has no assignment."""

    member_id: str
    client_id: str | None
    subscribed: SubscriptionFormat
    assigned: AssignmentFormat | None


@dataclass(frozen=True)
class Leader:
    """Library and releases of a group's leader, both None if unknown, and the confidence.

    If several libraries write the same bytes, `library` names all of them (`client_libraries.candidates`), and the
    confidence is `unknown`.
    """

    library: str | None
    releases: str | None
    confidence: str


@dataclass(frozen=True)
class _LibraryFingerprint:
    """Byte formats of one library, a row of the table above.

    Attributes:
        library, releases: the library and its releases; None: all releases.
        subscribed, assigned: version of subscriptions and of assignments.
        empty: whether the library writes empty user data where other libraries write null.
        cut_short: see `SubscriptionFormat`.
        cooperative: minimum size of cooperative-sticky's user data, in bytes; None: no such assignor, or no user data.
        echoes: the assignor with which the leader copies user data from subscriptions to assignments.
        again: whether an assignment has null user data exactly if the subscription has.
        only: the only assignor with this format.
    """

    library: str
    releases: str | None
    subscribed: int
    assigned: int
    empty: bool = False
    cut_short: bool = False
    cooperative: int | None = None
    echoes: str | None = None
    again: bool = False
    only: str | None = None

    def has(self, assignor: str) -> bool:
        """Checks whether the library has this assignor. An assignor that no library has can be custom in all of
        them."""
        if self.only is not None:
            return assignor == self.only
        return assignor in LIBRARIES[self.library].assignors or assignor not in _BROUGHT

    def subscribes(self, subscription: SubscriptionFormat, assignor: str) -> bool:
        """Checks whether the library can have written this subscription."""
        if (subscription.version, subscription.cut_short) != (self.subscribed, self.cut_short):
            return False
        user_data = subscription.user_data
        if assignor == COOPERATIVE and user_data:
            size = _GENERATION if len(user_data) == _GENERATION and any(user_data) else _OWNED
            return self.cooperative == size
        if assignor == COOPERATIVE and self.cooperative == _GENERATION:
            return False
        return bool(user_data) or (user_data is not None) == self.empty

    def assigns(self, member: MemberBytes, assignor: str) -> bool:
        """Checks whether the library can have written this member's assignment."""
        if member.assigned is None:
            return True
        if member.assigned.version != self.assigned:
            return False
        user_data = member.assigned.user_data
        if user_data and assignor in _BROUGHT:
            return self.echoes == assignor
        empty = member.subscribed.user_data is not None if self.again else self.empty
        return bool(user_data) or (user_data is not None) == empty


_GENERATION, _OWNED = 4, 8
_BROUGHT = frozenset().union(*(each.assignors for each in LIBRARIES.values()))

_WRITERS = (
    _LibraryFingerprint("Java", "<2.4", 0, 0),
    _LibraryFingerprint("Java", "2.4-2.7", 1, 1),
    _LibraryFingerprint("Java", "2.8-3.3", 1, 1, cooperative=_GENERATION),
    _LibraryFingerprint("Java", "3.4+", 3, 3, cooperative=_GENERATION),
    _LibraryFingerprint("librdkafka", "<2.2", 1, 0, empty=True, cooperative=_OWNED, echoes=COOPERATIVE, again=True),
    _LibraryFingerprint("librdkafka", "2.2+", 3, 0, empty=True, cooperative=_OWNED, echoes=COOPERATIVE, again=True),
    _LibraryFingerprint("franz-go", None, 3, 0, cooperative=_OWNED),
    _LibraryFingerprint("Sarama", None, 1, 0, cooperative=_GENERATION, echoes="sticky"),
    _LibraryFingerprint("kafka-go", None, 1, 1, cut_short=True),
    _LibraryFingerprint("kafka-python", None, 0, 0, empty=True),
    _LibraryFingerprint("kafka-python", None, 1, 1, empty=True, only=COOPERATIVE),
    _LibraryFingerprint("aiokafka", None, 0, 0, empty=True),
    _LibraryFingerprint("kafkajs", None, 0, 0, empty=True),
)
_ORDER = [(each.library, each.releases) for each in _WRITERS]


def find_leader(group_id: str, assignor: str, members: Sequence[MemberBytes]) -> Leader:
    """Finds the library of the leader of a classic group.

    Args:
        group_id: id of the group.
        assignor: the assignor in use.
        members: all members, as the coordinator describes them.
    """
    if all(each.assigned is None for each in members):
        return Leader(None, None, UNKNOWN)
    writers = [
        each for each in _WRITERS if each.has(assignor) and all(each.assigns(seen, assignor) for seen in members)
    ]
    candidates: list[tuple[list[_LibraryFingerprint], Client]] = []
    for member in members:
        matches = [each for each in writers if each.subscribes(member.subscribed, assignor)]
        if matches:
            candidates.append((matches, detect_library(group_id, member.client_id, member.member_id, assignor)))
    by_bytes = {each.library for matches, _ in candidates for each in matches}
    if len(by_bytes) != 1:  # the names have to tell
        candidates = [
            ([each for each in matches if each.library == name.library] or matches, name)
            for matches, name in candidates
        ]
    libraries = {each.library for matches, _ in candidates for each in matches}
    if len(libraries) != 1:
        return Leader(OR.join(sorted(libraries)) or None, None, UNKNOWN)
    (library,) = libraries
    is_default_id = all(name.library == library and name.is_certain for _, name in candidates)
    confidence = (SURE if is_default_id else LIKELY) if len(by_bytes) == 1 else LIKELY if is_default_id else GUESS
    return Leader(library, _joined(each.releases for matches, _ in candidates for each in matches), confidence)


def _joined(releases: Iterable[str | None]) -> str | None:
    """Merges ranges of releases, from the oldest to the newest."""
    distinct = sorted({each for each in releases if each}, key=[each for _, each in _ORDER].index)
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    oldest, newest = distinct[0], distinct[-1]
    start = "" if oldest.startswith("<") else oldest.partition("-")[0].rstrip("+")
    if newest.endswith("+"):
        return f"{start}+" if start else None
    end = newest.partition("-")[2]
    return f"{start}-{end}" if start else f"<={end}"
