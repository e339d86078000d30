"""The past of one group as all replays need it: names are numbers, and of each generation what had changed.

How many partitions a topic had is what the record shows: an assignor leaves none out. Eager assignors and the broker's
give all of them to somebody in every generation; of cooperative ones those count as well that somebody had before. A
topic of which nobody has anything had no metadata.

Generations that change nothing are of two kinds. What the one before has withheld, as somebody had to give it up first,
comes in the next one (`FOLLOWS`, KIP-429). All others have a cause that the record does not say (`AGAIN`): a member has
joined again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_assign.groups.assignors.server import SERVER_RANGE, UNIFORM
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.history.kernel.departures import CRASHED, Departure
from spark_assign.history.kernel.timeline import Generation, RecordedMember, Timeline
from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.assignment_request import Topics, code

FOUNDED, CHANGED, AGAIN, FOLLOWS, RESTARTED = "founded", "changed", "again", "follows", "restarted"
"""What a generation is: the first on record; others are there or topics have changed; as above; a static member is
back under another id, which is no rebalance."""

PARTITION = "partition"
"""The role of what consumers own."""

SERVED = {None: UNIFORM, "range": SERVER_RANGE}
"""Names of the broker's assignors here, where the record has others or none."""


@dataclass(frozen=True, slots=True)
class MeasuredPause:
    """How long partitions were silent around a rebalance, added up, and how many."""

    stopped_ms: int
    partitions: int


@dataclass(frozen=True, slots=True)
class RecordedGeneration:
    """One generation.

    Attributes:
        members: by id, in the order in which the leader was told of them.
        topics: of each member those that it subscribes to.
        partitions: of each topic that somebody subscribes to how many it had; without those that had none.
        owners: of each partition who got it, by member id.
        kind: what it is.
        missing: so many generations before it are not on record.
        gone: of members that are gone since the one before how they went.
        measured: what was seen of its pause; null where commits do not show it, and where nobody was there any more:
            that is in no way.
    """

    number: int
    at_ms: int
    assignor: str | None
    members: Mapping[str, RecordedMember]
    topics: Mapping[str, frozenset[int]]
    partitions: Mapping[int, int]
    owners: Mapping[int, str]
    kind: str
    missing: int = 0
    gone: Mapping[str, Departure] = field(default_factory=dict)
    measured: MeasuredPause | None = None

    @property
    def crashed(self) -> set[str]:
        """Those that are gone and were not heard of for their session."""
        return {each for each, how in self.gone.items() if how.went == CRASHED}


@dataclass(frozen=True)
class RecordedHistory:
    """One group. `served`: the broker assigns it (KIP-848); `topic_ids`: by name, as far as they are known."""

    cluster: str
    group_id: str
    served: bool
    topics: Topics
    thens: Sequence[RecordedGeneration]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def assignor(self) -> str:
        """The one that most of its rebalances were by; of several the last one."""
        used = [each.assignor for each in self.thens if each.assignor is not None]
        return max(reversed(used), key=used.count, default="")

    @property
    def static(self) -> bool:
        """Whether its members are static, most of them in the end."""
        members = next((each.members.values() for each in reversed(self.thens) if each.members), ())
        return 2 * sum(each.group_instance_id is not None for each in members) > len(members)


@dataclass(frozen=True)
class Refused:
    """A group that has no past to replay, and why."""

    cluster: str
    group_id: str
    code: str
    detail: str


def read_past(
    cluster: str,
    group_id: str,
    timeline: Timeline,
    gone: Iterable[Departure],
    measured: Mapping[int, MeasuredPause],
) -> RecordedHistory:
    """What a timeline says, of a group of consumers.

    Args:
        cluster, group_id: of the group.
        timeline: its records.
        gone: how members went.
        measured: by place of a generation in the timeline what was seen of its pause.
    """
    names = {name for each in timeline.generations for member in each.members for name in _names(member)}
    topics = Topics.of(names)
    number = {name: at for at, name in enumerate(topics.names)}
    served = timeline.group_type == "consumer"
    thens: list[RecordedGeneration] = []
    went = {(each.generation, each.member_id): each for each in gone}
    for at, generation in enumerate(timeline.generations):
        before = thens[-1] if thens else None
        if before is not None and not before.members and not generation.members:
            continue
        then = _then(generation, number, before, served, measured.get(at))
        left = () if before is None else before.members.keys() - then.members.keys()
        known = {each: went[then.number, each] for each in left if (then.number, each) in went}
        thens.append(replace(then, gone=known))
    return RecordedHistory(cluster, group_id, served, topics, thens, timeline.topic_ids)


def _names(member: RecordedMember) -> Iterable[str]:
    yield from member.topics
    yield from (topic for role, topic in member.assignment if role == PARTITION)


def _then(
    generation: Generation,
    number: Mapping[str, int],
    before: RecordedGeneration | None,
    served: bool,
    measured: MeasuredPause | None,
) -> RecordedGeneration:
    listed = sorted(
        generation.members, key=lambda each: (each.position is None, each.position, java_key(each.member_id))
    )
    members = {each.member_id: each for each in listed}
    topics = {each.member_id: frozenset(number[name] for name in each.topics) for each in listed}
    owners = {
        code(number[topic], partition): each.member_id
        for each in listed
        for (role, topic), partitions in each.assignment.items()
        if role == PARTITION
        for partition in partitions
    }
    assignor = SERVED.get(generation.assignor, generation.assignor) if served else generation.assignor
    partitions = _partitions(owners, topics.values(), before if assignor == COOPERATIVE else None)
    kind = FOUNDED if before is None else _kind(generation.number, members, topics, partitions, before)
    missing = 0 if before is None else max(generation.number - before.number - 1, 0)
    return RecordedGeneration(
        generation.number,
        generation.at_ms,
        assignor,
        members,
        topics,
        partitions,
        owners,
        kind,
        missing,
        measured=measured if members and kind != RESTARTED else None,
    )


def _partitions(
    owners: Mapping[int, str], topics: Iterable[frozenset[int]], before: RecordedGeneration | None
) -> dict[int, int]:
    """Of each topic that somebody subscribes to how many partitions the record shows."""
    asked = frozenset[int]().union(*topics)
    found: dict[int, int] = {}
    for each in owners:
        topic, partition = each >> 32, each & 0xFFFFFFFF
        if topic in asked and partition >= found.get(topic, 0):
            found[topic] = partition + 1
    if before is not None:
        for topic, count in before.partitions.items():
            if topic in asked and count > found.get(topic, 0):
                found[topic] = count
    return found


def _kind(
    number: int,
    members: Mapping[str, RecordedMember],
    topics: Mapping[str, frozenset[int]],
    partitions: Mapping[int, int],
    before: RecordedGeneration,
) -> str:
    if number == before.number and members and before.members:
        return RESTARTED
    if topics != before.topics or partitions != before.partitions:
        return CHANGED
    whole = sum(before.partitions.values()) == len(before.owners)
    return FOLLOWS if before.assignor == COOPERATIVE and not whole else AGAIN
