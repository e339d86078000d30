"""A classic group in its coordinator (`org.apache.kafka.coordinator.group.classic.ClassicGroup`, 4.1 to 4.4).

Principle: the coordinator knows the members, the members that wait for a response, and the protocols that all members
support. It doesn't read assignments. The states of a group form a cycle:

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance -> …
             (all members join)    (all members sync)

Example: m1 [range, sticky] and m2 [sticky, range] join an empty group. m1 was first and leads. Both members support
both protocols; each protocol gets one vote, and the first one in Java's `HashMap` of votes wins.

Java's hash order decides three cases: the next leader after a leader has left, the leader instead of one that didn't
join, and a tie between protocols. The map of members never shrinks, so the order depends on its maximum size so far.

Checks are in Kafka's order, and what Kafka has changed before a failed check remains: a rejected member leaves its
instance ID behind, and a generation that can't start has been counted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from spark_assign.java.hash_map import HashTable, texts_in_table_order
from spark_assign.simulation.kernel.classic_group_member import (
    VALID_PREVIOUS_STATES,
    ClassicGroupMember,
    IllegalArgument,
    IllegalState,
    State,
    select,
)

CONSUMER = "consumer"
"""The protocol type whose metadata the coordinator can read."""


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A group.

    Attributes:
        group_id: the group ID in errors.
        state, previous_state: the current and the previous state.
        generation_id: number of the generation.
        protocol_type: the protocol type of the first member since the group was last empty, or None.
        protocol_name: the assignor of this generation.
        leader_id: the member that computes the assignment.
        members: members by ID, in insertion order, not in Java's order (`all_members`).
        static_members: member IDs by instance ID.
        pending_join_members: assigned member IDs that haven't joined yet.
        pending_sync_members: IDs of members that haven't sent SyncGroup in this generation yet.
        num_members_awaiting_join_response: number of members that wait for a JoinGroup response.
        supported_protocols: number of members that support each protocol. Entries that drop to 0 are kept.
        subscribed_topics: topics of all members at the start of this generation, or None if unknown.
        new_member_added: set and read by the coordinator, which then extends the initial rebalance delay.
    """

    group_id: str
    state: State = State.EMPTY
    previous_state: State = State.DEAD
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_join_members: set[str] = field(default_factory=set)
    pending_sync_members: set[str] = field(default_factory=set)
    num_members_awaiting_join_response: int = 0
    supported_protocols: dict[str, int] = field(default_factory=dict)
    subscribed_topics: frozenset[str] | None = None
    new_member_added: bool = False
    _order: HashTable[str] = field(default_factory=HashTable)

    # --- members --------------------------------------------------------------------------------------------

    def add(self, member: ClassicGroupMember, *, awaiting_join: bool = False) -> None:
        """Adds a member. It becomes the leader if there is none.

        Raises:
            IllegalState: its instance ID is in use, its protocol type differs, or there is no common protocol.
        """
        instance = member.group_instance_id
        if instance is not None:
            if instance in self.static_members:
                raise IllegalState(
                    f"Static member with groupInstanceId={instance} cannot be added to group {self.group_id} since"
                    " it is already a member."
                )
            self.static_members[instance] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.protocol_type != member.protocol_type:
            raise IllegalState("The group and member's protocol type must be the same.")
        if not self.supports_protocols(member.protocol_type, member.protocols):
            raise IllegalState("None of the member's protocols can be supported.")
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._put(member)
        self._count(member, 1)
        member.awaiting_join = awaiting_join
        self.num_members_awaiting_join_response += awaiting_join
        self.pending_join_members.discard(member.member_id)

    def update(
        self,
        member: ClassicGroupMember,
        *,
        protocols: Collection[str],
        topics: Collection[str],
        rebalance_timeout_ms: int,
        awaiting_join: bool = False,
    ) -> None:
        """Updates a member that joins again (`updateMember`)."""
        self._count(member, -1)
        member.protocols = tuple(protocols)
        self._count(member, 1)
        member.topics = tuple(topics)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        self.num_members_awaiting_join_response += awaiting_join - member.awaiting_join
        member.awaiting_join = awaiting_join

    def await_join(self, member: ClassicGroupMember) -> None:
        """Makes a member that joins again as before wait for the response."""
        self.num_members_awaiting_join_response += not member.awaiting_join
        member.awaiting_join = True

    def remove(self, member_id: str) -> None:
        """Removes a member, if it exists. The next leader is the first member in Java's order."""
        removed = self.members.pop(member_id, None)
        if removed is not None:
            self._order.remove(member_id)
            self._count(removed, -1)
            self.num_members_awaiting_join_response -= removed.awaiting_join
            if removed.group_instance_id is not None:
                self.static_members.pop(removed.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = self._order.first() if self.members else None
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)

    def replace_static_member(self, instance: str, old_member_id: str, new_member_id: str) -> ClassicGroupMember:
        """Replaces the ID of a static member that returns. Pending requests of the old ID get an error.

        Returns:
            the member with the new ID. It awaits no response, and leads if the old one did.

        Raises:
            IllegalArgument: there is no member with the old ID.
        """
        old = self.members.pop(old_member_id, None)
        if old is None:
            raise IllegalArgument(f"Cannot replace non-existing member id {old_member_id}")
        self._order.remove(old_member_id)
        self.complete_join(old)
        self.complete_sync(old)
        new = old.with_id(new_member_id)
        self._put(new)
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[instance] = new_member_id
        return new

    def all_members(self) -> list[ClassicGroupMember]:
        """Returns the members in Java's iteration order, also their order in the leader's JoinGroup response."""
        return [self.members[member_id] for member_id in self._order.iteration_order()]

    def _put(self, member: ClassicGroupMember) -> None:
        """Puts a member into the map like Kafka's `put`: it replaces a member with the same ID, also in the order."""
        self.members[member.member_id] = member
        self._order.add(member.member_id, member.hash_code)

    # --- pending members ------------------------------------------------------------------------------------

    def add_pending_member(self, member_id: str) -> bool:
        """Adds a pending member ID. Returns False if it is pending already.

        Raises:
            IllegalState: it is a member.
        """
        if member_id in self.members:
            raise IllegalState(_stable("pending member", member_id))
        is_new = member_id not in self.pending_join_members
        self.pending_join_members.add(member_id)
        return is_new

    def add_pending_sync_member(self, member_id: str) -> bool:
        """Adds a member that must send SyncGroup. Returns False if it is pending already.

        Raises:
            IllegalState: it is not a member. (Kafka's message says the opposite.)
        """
        if member_id not in self.members:
            raise IllegalState(_stable("pending sync member", member_id))
        is_new = member_id not in self.pending_sync_members
        self.pending_sync_members.add(member_id)
        return is_new

    def remove_pending_sync_member(self, member_id: str) -> bool:
        """Removes a member that has sent SyncGroup. Returns False if it wasn't pending.

        Raises:
            IllegalState: it is not a member. (Kafka's message says the opposite.)
        """
        if member_id not in self.members:
            raise IllegalState(_stable("pending member", member_id))
        was_pending = member_id in self.pending_sync_members
        self.pending_sync_members.discard(member_id)
        return was_pending

    def await_sync(self, member_id: str) -> None:
        """Makes a member that has sent SyncGroup wait for the assignment."""
        self.pending_sync_members.discard(member_id)
        self.members[member_id].awaiting_sync = True

    def has_all_members_joined(self) -> bool:
        """Checks whether all members wait for a JoinGroup response and no member ID is pending."""
        return len(self.members) == self.num_members_awaiting_join_response and not self.pending_join_members

    def has_received_sync_from_all_members(self) -> bool:
        """Checks whether every member has sent SyncGroup."""
        return not self.pending_sync_members

    def not_yet_rejoined_members(self) -> list[ClassicGroupMember]:
        """Returns the members that don't wait for a JoinGroup response."""
        return [member for member in self.members.values() if not member.awaiting_join]

    def not_yet_rejoined_dynamic_members(self) -> list[ClassicGroupMember]:
        """Returns the dynamic members that haven't rejoined, in the order in which the coordinator removes them."""
        ids = [member.member_id for member in self.not_yet_rejoined_members()]
        if self._order.treeified:  # only there the order matters: Kafka collects them in one hash map, then in another
            missing = set(ids)
            ids = texts_in_table_order([each for each in self._order.iteration_order() if each in missing])
            ids = texts_in_table_order([each for each in ids if not self.members[each].is_static_member])
        return [self.members[each] for each in ids if not self.members[each].is_static_member]

    def rebalance_timeout_ms(self) -> int:
        """Returns the maximum rebalance timeout of the members, in ms."""
        return max({0, *{member.rebalance_timeout_ms for member in self.members.values()}})

    def complete_join(self, member: ClassicGroupMember) -> bool:
        """Completes the member's JoinGroup (`completeJoinFuture`). Returns False if none is pending."""
        waited = member.awaiting_join
        self.num_members_awaiting_join_response -= waited
        member.awaiting_join = False
        return waited

    def complete_sync(self, member: ClassicGroupMember) -> bool:
        """Completes the member's SyncGroup (`completeSyncFuture`). Returns False if none is pending."""
        waited = member.awaiting_sync
        member.awaiting_sync = False
        return waited

    # --- states ---------------------------------------------------------------------------------------------

    def can_rebalance(self) -> bool:
        """Checks whether the group can change to PREPARING_REBALANCE."""
        return self.state in VALID_PREVIOUS_STATES[State.PREPARING_REBALANCE]

    def transition_to(self, state: State) -> None:
        """Changes the state.

        Raises:
            IllegalState: the group can't enter it from its current state.
        """
        if self.state not in (valid := VALID_PREVIOUS_STATES[state]):
            raise IllegalState(
                f"Group {self.group_id} should be in one of [{', '.join(each.value for each in valid)}] states before"
                f" moving to {state.value} state. Instead it is in {self.state.value} state."
            )
        self.previous_state = self.state
        self.state = state

    def maybe_elect_new_joined_leader(self) -> bool:
        """Keeps a leader that has joined, or elects the first one in Java's order that has. Returns False if none
        has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join:
            return True
        joined = [member_id for member_id, member in self.members.items() if member.awaiting_join]
        if not joined:
            return False
        self.leader_id = self._order.first(joined)
        return True

    def init_next_generation(self) -> None:
        """Starts the next generation: selects the protocol, and waits for SyncGroup, or for members if there are none.

        Raises:
            IllegalArgument: there is no common protocol.
            IllegalState: the group is not in PREPARING_REBALANCE.
        """
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY)
        self.pending_sync_members.clear()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Returns the topics that the members subscribe to, or None if the coordinator can't determine them.

        Raises:
            IllegalArgument: a member does not support the group's protocol.
        """
        if self.protocol_type != CONSUMER or (self.members and self.protocol_name is None):
            return None
        if any(self.protocol_name not in member.protocols for member in self.members.values()):
            raise IllegalArgument(f"Member does not support protocol {self.protocol_name}")
        return frozenset().union(*{member.topics for member in self.members.values()})

    # --- protocols ------------------------------------------------------------------------------------------

    def supports_protocols(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Checks whether a member with these protocols can join: all members support one, or the group is empty."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        if self.protocol_type is None or self.protocol_type != protocol_type:
            return False
        return any(self.supported_protocols.get(name, 0) == len(self.members) for name in protocols)

    def select_protocol(self) -> str:
        """Returns the protocol that wins the members' vote (`classic_group_member.select`).

        Raises:
            IllegalState: there are no members.
            IllegalArgument: there is no common protocol.
        """
        if not self.members:
            raise IllegalState("Cannot select protocol for empty group")
        return select(
            [member.protocols for member in self.members.values()],
            self.supported_protocols,
            lambda: (member.protocols for member in self.all_members()),
        )

    def _count(self, member: ClassicGroupMember, by: int) -> None:
        counts = self.supported_protocols
        for name in member.protocols:
            counts[name] = counts.get(name, 0) + by


def _stable(kind: str, member_id: str) -> str:
    return f"Attempt to add {kind} {member_id} which is already a stable member of the group."
