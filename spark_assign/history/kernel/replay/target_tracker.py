"""What the coordinator of a KIP-848 group would ask its assignor, step by step."""

from __future__ import annotations

from collections.abc import Mapping

from spark_assign.groups.assignors.server import UNIFORM
from spark_assign.groups.assignors.server.hash_iteration import map_capacity, walk
from spark_assign.history.kernel.replay.replay_member import Seats
from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, Topics
from spark_assign.simulation.kernel.target_assignment import (
    NOTHING,
    MemberSubscriptionAndAssignment,
    TargetAssignment,
    TargetRequest,
    TargetResponse,
    Topic,
    TopicsImage,
    fresh,
    id_walk,
)


class TargetTracker:
    """The targets of a group's members, who keep what they have as the coordinator would.

    The ids of topics are not on the record of classic groups: they are taken in the order of the names, as everywhere.
    """

    def __init__(self, assignor: str, topics: Topics) -> None:
        self.assignor, self.topics = assignor, topics
        self.metadata = TopicsImage()
        self.targets: dict[str, TargetAssignment] = {}
        self._partitions: Mapping[int, int] = {}

    def begin(self, owners: Mapping[int, str], partitions: Mapping[int, int]) -> None:
        """This is owned, in the order in which a target that an assignor has built anew has it."""
        self._know(partitions)
        mine: dict[str, list[int]] = {}
        for code in sorted(owners):
            if code >> CODE_BITS in partitions:
                mine.setdefault(owners[code], []).append(code)
        by_number = {topic.number: topic for topic in self.metadata.by_name.values()}
        for each, codes in mine.items():
            self.targets[each] = fresh(codes, sorted({code >> CODE_BITS for code in codes}), by_number)

    def _know(self, partitions: Mapping[int, int]) -> None:
        names = self.topics.names
        if partitions != self._partitions:
            new = {each: count for each, count in partitions.items() if count != self._partitions.get(each)}
            self.metadata.put(Topic(each, names[each], count, each, each) for each, count in sorted(new.items()))
            self._partitions = partitions

    def ask(self, seats: Seats, partitions: Mapping[int, int]) -> TargetRequest:
        """What is asked when these members are there."""
        names, metadata = self.topics.names, self.metadata
        self._know(partitions)
        self.targets = {each: target for each, target in self.targets.items() if each in seats}
        subscribed = {each: frozenset(names[topic] for topic in each) for each in {s.topics for s in seats.values()}}
        listed = list(seats)
        walked = walk(
            listed, [seats[each].hash for each in listed], map_capacity(len(listed)), java_key, map_capacity(0)
        )
        members = []
        for each in walked:
            seat, asked = seats[each], subscribed[seats[each].topics]
            target = self.targets.get(each, NOTHING)
            members.append(
                MemberSubscriptionAndAssignment(each, seat.instance, metadata.written_walk(asked), len(asked), target)
            )
        homogeneous = len(subscribed) == 1
        if homogeneous and self.assignor == UNIFORM:
            topics = id_walk(members[0].subscribed, members[0].names)
        else:
            topics = list({topic.number: topic for each in members for topic in each.subscribed}.values())
        taken = frozenset[int]().union(*(each.target.codes for each in members))
        return TargetRequest(self.assignor, members, topics, homogeneous, taken)

    def answered(self, answer: TargetResponse) -> None:
        """The targets are these now."""
        self.targets |= answer.changed

    def owners(self) -> dict[int, str]:
        """Who is to have each partition."""
        return {code: each for each, target in self.targets.items() for code in target.walk}
