"""By whose rules a classic group is assigned: the client library of its leader, and its release, as its bytes tell.

The leader of a group runs the assignor, and writes what everybody gets; each member writes what it subscribes to. Both
are versioned, and libraries differ in what they write where there is nothing to say: Java null, aiokafka no bytes,
librdkafka no bytes for itself, and for others again what they have written. So the bytes that the coordinator hands out
tell more than `client.id`, which anybody may set.

Principles, in this priority
    1. The leader is one of the members: what it wrote for all has to fit what one of them wrote for itself.
    2. Where several libraries fit, a default `client.id` (`groups.kernel.client_libraries`) decides.
    3. Sure is only what bytes and default client ids say alike. One of the two makes it likely; a part of a name is a
       guess.

Example: every assignment has version 0 and empty user data, which is librdkafka's way, and kafka-python's. The members'
subscriptions have version 3, which kafka-python never writes; their client id is `billing`. So the leader runs on
librdkafka 2.2 or newer: likely, as the name says nothing.

What each writes was seen on a broker, release by release (`tests/unit/fingerprints.json`):

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

from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, Client, detect_library

SURE, LIKELY, GUESS, UNKNOWN = ("sure", "likely", "guess", "unknown")


@dataclass(frozen=True)
class SubscriptionFormat:
    """How a member's subscription is written.

    Attributes:
        version: of the bytes.
        user_data: null and empty are told apart.
        cut_short: version 1 without the list of owned partitions that belongs to it.
    """

    version: int
    user_data: bytes | None
    cut_short: bool = False


@dataclass(frozen=True)
class AssignmentFormat:
    """How a member's assignment is written, by the leader."""

    version: int
    user_data: bytes | None


@dataclass(frozen=True)
class MemberBytes:
    """What is seen of a member; `assigned` is null where it was given nothing."""

    member_id: str
    client_id: str | None
    subscribed: SubscriptionFormat
    assigned: AssignmentFormat | None


@dataclass(frozen=True)
class Leader:
    """The library of a group's leader and its releases, both null where they are not known; and how surely."""

    library: str | None
    releases: str | None
    confidence: str


@dataclass(frozen=True)
class _LibraryFingerprint:
    """A library as it writes, a row of the table above. `empty`: it writes no bytes where others write null."""

    library: str
    releases: str | None
    subscribed: int
    assigned: int
    empty: bool = False
    cut_short: bool = False
    cooperative: int | None = None
    """Bytes of cooperative-sticky's user data, at least; null: it has no such assignor, or says nothing."""
    echoes: str | None = None
    """The assignor with which it tells everybody in an assignment what it was told in the subscription."""
    again: bool = False
    """Its assignments are null for whom subscribes with null, whatever others are."""
    only: str | None = None
    """The one assignor with which it writes so."""

    def has(self, assignor: str) -> bool:
        """Whether it brings this assignor; one that nobody brings may be anybody's own."""
        if self.only is not None:
            return assignor == self.only
        return assignor in LIBRARIES[self.library].assignors or assignor not in _BROUGHT

    def subscribes(self, seen: SubscriptionFormat, assignor: str) -> bool:
        """Whether it may have written this subscription."""
        if (seen.version, seen.cut_short) != (self.subscribed, self.cut_short):
            return False
        said = seen.user_data
        if assignor == COOPERATIVE and said:
            kind = _GENERATION if len(said) == _GENERATION and any(said) else _OWNED
            return self.cooperative == kind
        if assignor == COOPERATIVE and self.cooperative == _GENERATION:
            return False
        return bool(said) or (said is not None) == self.empty

    def assigns(self, seen: MemberBytes, assignor: str) -> bool:
        """Whether it may have written this member's assignment."""
        if seen.assigned is None:
            return True
        if seen.assigned.version != self.assigned:
            return False
        said = seen.assigned.user_data
        if said and assignor in _BROUGHT:
            return self.echoes == assignor
        empty = seen.subscribed.user_data is not None if self.again else self.empty
        return bool(said) or (said is not None) == empty


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
    """The library of the leader of a classic group.

    Args:
        group_id: the group.
        assignor: what it runs with.
        members: all of them, as the coordinator shows them.
    """
    if all(each.assigned is None for each in members):
        return Leader(None, None, UNKNOWN)
    leaders = [
        each for each in _WRITERS if each.has(assignor) and all(each.assigns(seen, assignor) for seen in members)
    ]
    candidates: list[tuple[list[_LibraryFingerprint], Client]] = []
    for member in members:
        fits = [each for each in leaders if each.subscribes(member.subscribed, assignor)]
        if fits:
            candidates.append((fits, detect_library(group_id, member.client_id, member.member_id, assignor)))
    by_bytes = {each.library for fits, _ in candidates for each in fits}
    if len(by_bytes) != 1:  # the names have to tell
        candidates = [
            ([each for each in fits if each.library == name.library] or fits, name) for fits, name in candidates
        ]
    libraries = {each.library for fits, _ in candidates for each in fits}
    if len(libraries) != 1:
        return Leader(None, None, UNKNOWN)
    (library,) = libraries
    named = all(name.library == library and name.is_certain for _, name in candidates)
    certainty = (SURE if named else LIKELY) if len(by_bytes) == 1 else LIKELY if named else GUESS
    return Leader(library, _joined(each.releases for fits, _ in candidates for each in fits), certainty)


def _joined(releases: Iterable[str | None]) -> str | None:
    """Several stretches of releases as one, from the oldest to the newest."""
    told = sorted({each for each in releases if each}, key=[each for _, each in _ORDER].index)
    if len(told) < 2:
        return told[0] if told else None
    oldest, newest = told[0], told[-1]
    begin = "" if oldest.startswith("<") else oldest.partition("-")[0].rstrip("+")
    if newest.endswith("+"):
        return f"{begin}+" if begin else None
    end = newest.partition("-")[2]
    return f"{begin}-{end}" if begin else f"<={end}"
