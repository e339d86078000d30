"""The recorded past of one group as all replays need it, and the variants in which it is replayed.

The records show how many partitions a topic had, because an assignor leaves none out. Eager assignors and the broker's
assign all of them in every generation; with cooperative ones, partitions that were assigned before count as well. A
topic without any assigned partition had no metadata.

Generations that change nothing are of two kinds. A partition that the generation before withheld, because its owner had
to release it first, is assigned in the next one (`FOLLOW_UP`, KIP-429). All others have a cause that isn't on record
(`REPEATED`): a member has rejoined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS, SERVER_RANGE, UNIFORM
from spark_assign.groups.kernel.client_libraries import COOPERATIVE as COOPERATIVE_STICKY
from spark_assign.groups.kernel.client_libraries import STREAMS
from spark_assign.history.kernel.build_timelines import build_timelines
from spark_assign.history.kernel.departures import CRASHED, Departure, find_departures
from spark_assign.history.kernel.pauses import CommitPause, find_pauses
from spark_assign.history.kernel.timeline import (
    Generation,
    HistoryThresholds,
    HistoryTooLargeError,
    RecordedMember,
    Timeline,
)
from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, PARTITION_MASK, Topics, code
from spark_assign.simulation.kernel.events import MAX_PARTITIONS
from spark_assign.tables.quoting import in_text

FIRST, CHANGED, REPEATED, FOLLOW_UP, RESTARTED = "first", "changed", "repeated", "follow-up", "restarted"
"""Kinds of generations: the first one on record; members or topics have changed; the two kinds above; and a static
member returned with another member id, which is no rebalance."""

PARTITION = "partition"
"""The role of what consumers own."""

_MAX_ASSIGNED = 4_000_000
"""Maximum number of members and partitions of all generations of a replayed group. Each takes about 500 bytes."""

_SERVER_ASSIGNORS = {None: UNIFORM, "range": SERVER_RANGE}
"""Names of the broker's assignors in this package, if the record has another name or none."""


# --- variants -----------------------------------------------------------------------------------------------------

EAGER, COOPERATIVE, CONSUMER = "eager", "cooperative", "consumer"
"""Rebalance protocols."""

ASSIGNORS = (*CLIENT_ASSIGNORS, *KAFKA_SERVER_ASSIGNORS)
"""All assignors that Kafka includes: four of its clients, two of its broker."""


@dataclass(frozen=True, order=True)
class ReplayVariant:
    """An assignor, and whether all members are static."""

    assignor: str
    static: bool

    @property
    def protocol(self) -> str:
        """The protocol by which groups of the assignor rebalance."""
        return protocol_of(self.assignor)


def protocol_of(assignor: str) -> str:
    """Returns the protocol of an assignor: the broker's own, cooperative, or, by default, eager.

    Examples:
        >>> protocol_of("sticky"), protocol_of("cooperative-sticky"), protocol_of("uniform")
        ('eager', 'cooperative', 'consumer')
    """
    if assignor in KAFKA_SERVER_ASSIGNORS:
        return CONSUMER
    return COOPERATIVE if assignor == COOPERATIVE_STICKY else EAGER


# --- history ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedGeneration:
    """One generation, with topics as indexes into `RecordedHistory.topics`, and partitions packed with their topic.

    Attributes:
        generation_id: generation id, or group epoch.
        at_ms: when it was written.
        members: members by id, in the order in which the leader received them.
        topics: topics that each member subscribes to.
        partitions: number of partitions of each subscribed topic, without topics that have none.
        owners: member id of the owner of each partition.
        generation_kind: one of the constants above.
        missing: number of generations before it that are not on record.
        departures: departures of members since the generation before, by member id.
        measured: recorded pause; None if commits don't show it, or if the group is empty: an empty group pauses in
            every variant.
    """

    generation_id: int
    at_ms: int
    assignor: str | None
    members: Mapping[str, RecordedMember]
    topics: Mapping[str, frozenset[int]]
    partitions: Mapping[int, int]
    owners: Mapping[int, str]
    generation_kind: str
    missing: int = 0
    departures: Mapping[str, Departure] = field(default_factory=dict)
    measured: CommitPause | None = None

    @property
    def crashed(self) -> set[str]:
        """The ids of departed members whose session timed out."""
        return {member_id for member_id, departure in self.departures.items() if departure.leave_type == CRASHED}


@dataclass(frozen=True)
class RecordedHistory:
    """The past of one group.

    Attributes:
        is_server_side: whether the broker assigns the group's partitions (KIP-848).
        topics: names of topics, by index.
        generations: generations in order.
        topic_ids: topic name to topic id, as far as the ids are known.
    """

    cluster: str
    group_id: str
    is_server_side: bool
    topics: Topics
    generations: Sequence[RecordedGeneration]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def assignor(self) -> str:
        """The assignor of most generations; of several, the last one."""
        counts = Counter(each.assignor for each in reversed(self.generations) if each.assignor is not None)
        return max(counts, key=counts.__getitem__, default="")

    @property
    def static(self) -> bool:
        """Whether most members are static in the last generation with members."""
        members = next(
            (generation.members.values() for generation in reversed(self.generations) if generation.members), ()
        )
        return 2 * sum(member.group_instance_id is not None for member in members) > len(members)


@dataclass(frozen=True)
class RejectedHistory:
    """A group without a past to replay, and the reason."""

    cluster: str
    group_id: str
    code: str
    detail: str


def read_histories(facts: pa.Table, thresholds: HistoryThresholds) -> Iterator[RecordedHistory | RejectedHistory]:
    """Yields the past of each group, or why it can't be replayed.

    Args:
        facts: FACTS of complete groups.
        thresholds: the thresholds.
    """
    for cluster, group_id, timeline in build_timelines(facts, thresholds):
        rejection = _find_rejection(timeline)
        if rejection is not None:
            yield RejectedHistory(cluster, group_id, *rejection)
            continue
        try:
            pauses, departures = find_pauses(timeline, thresholds).pauses, find_departures(timeline, thresholds)
        except HistoryTooLargeError as error:
            yield RejectedHistory(cluster, group_id, "too-many-partitions", str(error))
            continue
        measured = {pause.generation_index: pause for pause in pauses}
        yield read_history(cluster, group_id, timeline, departures, measured)


def _find_rejection(timeline: Timeline) -> tuple[str, str] | None:
    """Returns code and detail if a group can't be replayed; None if it can."""
    group_type = timeline.group_type
    if group_type == "simple":
        return "no-rebalances", "The group has commits, but no member on record"
    if group_type == "classic" and timeline.protocol_type not in (None, "", "consumer"):
        return "out-of-scope", f"Its members aren't consumers. Their protocol type is {in_text(timeline.protocol_type)}"
    if group_type not in ("classic", "consumer"):
        return "out-of-scope", f"A group of type {group_type} has no consumer assignor"
    if any(generation.assignor == STREAMS for generation in timeline.generations):
        return "out-of-scope", "Its members are of a Kafka Streams application, which requires its own assignor"
    if timeline.rejected:  # a member without its subscription or assignment would be another group
        return timeline.rejected[0]
    if sum(timeline.is_rebalance) < 2:
        return "no-rebalances", "Fewer than two generations are on record, so there is nothing to replay"
    return _find_impossible_partition(timeline)


def _find_impossible_partition(timeline: Timeline) -> tuple[str, str] | None:
    """Returns code and detail if the topics of a generation would have more partitions than a replay can number.

    A leader can write any partition number into an assignment, and the largest one is the size of its topic.
    """
    num_assigned = 0
    for generation in timeline.generations:
        num_assigned += 1 + len(generation.members)
        sizes: dict[str, int] = {}
        for member in generation.members:
            for (role, topic), partitions in member.assignment.items():
                if role == PARTITION and partitions:
                    num_assigned += len(partitions)
                    if min(partitions) < 0:
                        detail = f"generation {generation.generation_id} assigns partition {min(partitions)}"
                        return "too-many-partitions", detail
                    sizes[topic] = max(sizes.get(topic, 0), max(partitions) + 1)
        if (total := sum(sizes.values())) > MAX_PARTITIONS:
            detail = f"generation {generation.generation_id} has {total:,}, expected at most {MAX_PARTITIONS:,}"
            return "too-many-partitions", detail
        if num_assigned > _MAX_ASSIGNED:
            return "too-many-partitions", f"its generations have more than {_MAX_ASSIGNED:,} members and partitions"
    return None


def read_history(
    cluster: str,
    group_id: str,
    timeline: Timeline,
    departures: Iterable[Departure],
    measured: Mapping[int | None, CommitPause],
) -> RecordedHistory:
    """Converts the timeline of a group of consumers.

    Args:
        cluster: the cluster.
        group_id: the group.
        timeline: its timeline.
        departures: its departures.
        measured: recorded pauses by index of the generation in the timeline.
    """
    members = [member for generation in timeline.generations for member in generation.members]
    # Most members have the same topics. An expression can match all topics of the cluster.
    subscriptions = {id(member.topics): member.topics for member in members}
    names = set[str]().union(*subscriptions.values())
    names.update(topic for member in members for role, topic in member.assignment if role == PARTITION)
    topics = Topics.of(names)
    topic_index = {name: index for index, name in enumerate(topics.names)}
    subscribed = {key: frozenset(map(topic_index.__getitem__, each)) for key, each in subscriptions.items()}
    is_server_side = timeline.group_type == "consumer"
    generations: list[RecordedGeneration] = []
    departure_by_member = {(departure.generation_id, departure.member_id): departure for departure in departures}
    for index, generation in enumerate(timeline.generations):
        previous = generations[-1] if generations else None
        if previous is not None and not previous.members and not generation.members:
            continue
        recorded = _to_recorded(generation, topic_index, subscribed, previous, is_server_side, measured.get(index))
        departed = () if previous is None else previous.members.keys() - recorded.members.keys()
        known = {
            member_id: departure_by_member[recorded.generation_id, member_id]
            for member_id in departed
            if (recorded.generation_id, member_id) in departure_by_member
        }
        generations.append(replace(recorded, departures=known))
    return RecordedHistory(cluster, group_id, is_server_side, topics, generations, timeline.topic_ids)


def _to_recorded(
    generation: Generation,
    topic_index: Mapping[str, int],
    subscribed: Mapping[int, frozenset[int]],
    previous: RecordedGeneration | None,
    is_server_side: bool,
    measured: CommitPause | None,
) -> RecordedGeneration:
    """Returns a generation with topics and partitions as indexes, and what changed since the previous one.
    `subscribed` are the topics of members by the `id` of their names.
    """
    in_order = sorted(
        generation.members, key=lambda member: (member.position is None, member.position, java_key(member.member_id))
    )
    members = {member.member_id: member for member in in_order}
    topics = {member.member_id: subscribed[id(member.topics)] for member in in_order}
    owners = {
        code(topic_index[topic], partition): member.member_id
        for member in in_order
        for (role, topic), partitions in member.assignment.items()
        if role == PARTITION
        for partition in partitions
    }
    assignor = generation.assignor
    if is_server_side:
        assignor = _SERVER_ASSIGNORS.get(assignor, assignor)
    partitions = _count_partitions(owners, topics.values(), previous if assignor == COOPERATIVE_STICKY else None)
    if previous is None:
        kind, missing = FIRST, 0
    else:
        kind = _find_kind(generation.generation_id, members, topics, partitions, previous)
        missing = max(generation.generation_id - previous.generation_id - 1, 0)
    return RecordedGeneration(
        generation.generation_id,
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


def _count_partitions(
    owners: Mapping[int, str], topics: Iterable[frozenset[int]], previous: RecordedGeneration | None
) -> dict[int, int]:
    """Returns the number of partitions on record of each subscribed topic."""
    subscribed = frozenset[int]().union(*set(topics))
    counts: dict[int, int] = {}
    for topic_partition in owners:
        topic, partition = topic_partition >> CODE_BITS, topic_partition & PARTITION_MASK
        if topic in subscribed and partition >= counts.get(topic, 0):
            counts[topic] = partition + 1
    if previous is not None:
        for topic, count in previous.partitions.items():
            if topic in subscribed and count > counts.get(topic, 0):
                counts[topic] = count
    return counts


def _find_kind(
    generation_id: int,
    members: Mapping[str, RecordedMember],
    topics: Mapping[str, frozenset[int]],
    partitions: Mapping[int, int],
    previous: RecordedGeneration,
) -> str:
    """Returns the kind of a generation that isn't the first one, from its members and topics."""
    if generation_id == previous.generation_id and members and previous.members:
        return RESTARTED
    if topics != previous.topics or partitions != previous.partitions:
        return CHANGED
    is_complete = sum(previous.partitions.values()) == len(previous.owners)
    return FOLLOW_UP if previous.assignor == COOPERATIVE_STICKY and not is_complete else REPEATED
