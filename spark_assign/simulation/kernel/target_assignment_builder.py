"""What the coordinator of a KIP-848 group asks an assignor, with everybody in the order in which it sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.server import SERVER_RANGE, UNIFORM
from spark_assign.groups.assignors.server.hash_iteration import map_capacity, walk
from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.consumer_group_member import ConsumerGroupMember
from spark_assign.simulation.kernel.consumer_group_members import ConsumerGroupMembers
from spark_assign.simulation.kernel.consumer_group_regexes import Regexes
from spark_assign.simulation.kernel.consumer_group_requests import GroupConfig
from spark_assign.simulation.kernel.target_assignment import MemberSubscriptionAndAssignment, TargetRequest
from spark_assign.simulation.kernel.topics_image import Topic, TopicsImage, id_walk

_KERNELS = {"range": SERVER_RANGE}
"""Names of the broker's assignors here, where they are others."""


@dataclass(frozen=True, slots=True)
class TargetAssignmentBuilder:
    """What a group knows (`TargetAssignmentBuilder`)."""

    members: ConsumerGroupMembers
    metadata: TopicsImage
    regexes: Regexes
    config: GroupConfig

    def ask(
        self,
        assignor: str,
        listed: Sequence[str],
        mine: str,
        replaced: str | None,
        sent: Sequence[str] | None,
        homogeneous: bool,
    ) -> TargetRequest:
        """The ask for a target.

        Args:
            assignor: the one that most prefer.
            listed: the coordinator's table before this heartbeat.
            mine: whose heartbeat it is. It comes last if it is new.
            replaced: whom it replaces; null: nobody.
            sent: the names that it subscribes to as it sends them now; null: it does not.
            homogeneous: whether all subscribe to the same.
        """
        before = len(listed) + (mine not in listed)
        seen = [each for each in listed if each != replaced or each == mine]
        if mine not in seen:
            seen.append(mine)
        # Before 4.4 the member that is replaced is put in, and taken out again.
        capacity = map_capacity(before if self.config.before_4_4 else len(seen))
        by_id = self.members.by_id
        members: list[MemberSubscriptionAndAssignment] = []
        hashes = [by_id[each].hash_code for each in seen]
        for each in walk(seen, hashes, capacity, java_key, map_capacity(0)):
            member, target = by_id[each], self.members.target(each)
            names = len(self.regexes.united(member.names, member.regex))
            topics = self._topic_walk(member, sent if each == mine else None)
            members.append(MemberSubscriptionAndAssignment(each, member.instance_id, topics, names, target))
        kernel = _KERNELS.get(assignor, assignor)
        if homogeneous and kernel == UNIFORM:
            asked = id_walk(members[0].subscribed, members[0].names)
        else:
            asked = list({topic.number: topic for each in members for topic in each.subscribed}.values())
        return TargetRequest(kernel, members, asked, homogeneous, self.members.taken)

    def _topic_walk(self, member: ConsumerGroupMember, sent: Sequence[str] | None) -> list[Topic]:
        """The topics that a member subscribes to, in the walk of its set of names.

        Args:
            member: the member.
            sent: the names as it sends them now; null: as they were written.
        """
        metadata = self.metadata
        walked = metadata.written_walk(member.names) if sent is None else metadata.name_walk(list(dict.fromkeys(sent)))
        if not member.regex:
            return walked
        meant = self.regexes.of(member.regex)
        more = metadata.written_walk(meant)
        # `UnionSet` walks the larger one first, the second one if they are of a size.
        large, small = (walked, more) if len(member.names) > len(meant) else (more, walked)
        return [*large, *(each for each in small if each not in large)]
