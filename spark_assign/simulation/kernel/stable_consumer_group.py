"""A KIP-848 group that is at rest when a play begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spark_assign.simulation.kernel.assignment_request import CODE_BITS
from spark_assign.simulation.kernel.consumer_group import ConsumerGroup
from spark_assign.simulation.kernel.consumer_group_member import ConsumerGroupMember
from spark_assign.simulation.kernel.consumer_group_requests import Heartbeat
from spark_assign.simulation.kernel.target_assignment import fresh


class StableConsumerGroup(ConsumerGroup):
    """A group, and how it begins."""

    def restore(self, members: Iterable[tuple[Heartbeat, Sequence[int]]], epoch: int, now: int) -> None:
        """A stable group, as if these members had come to this epoch long ago.

        Args:
            members: what each has said when it joined, and what it has, ascending; nobody has what another one has.
            epoch: of the group, of its target and of everybody.
            now: when they were heard of last.
        """
        by_number = {topic.number: topic for topic in self.metadata.by_name.values()}
        targets = {}
        for request, owned in members:
            there = [each for each in owned if each >> CODE_BITS in by_number]
            member = ConsumerGroupMember(request.member_id).told(request)
            member = replace(member, member_epoch=epoch, previous_member_epoch=epoch)
            self.members.put(replace(member, assigned=dict.fromkeys(there, epoch)))
            targets[request.member_id] = fresh(there, sorted({each >> CODE_BITS for each in there}), by_number)
            self.heard(request.member_id, now)
        self.members.aim(targets)
        self.exists, self.homogeneous = True, self._are_homogeneous()
        self._look_at_topics(now, bump=False)
        self.group_epoch = self.assignment_epoch = epoch
