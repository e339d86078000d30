"""A member of a classic group as the coordinator knows it (Kafka's `ClassicGroupMember`).

What a member sends along with a protocol is here no bytes but the topics that are written in them, as the coordinator
reads nothing else; they are the same for all of its protocols.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_assign.java.hash_map import string_hash


class ClassicGroupMember:
    """A member.

    Attributes:
        member_id: its id.
        group_instance_id: of a static member; null: it is dynamic.
        protocol_type: `consumer`, `connect`, …
        protocols: the names of the assignors that it supports, the one it likes best first.
        topics: what it subscribes to.
        rebalance_timeout_ms: how long it may take to join again.
        session_timeout_ms: how long it may be silent.
        awaiting_join: its JoinGroup has not been answered yet.
        awaiting_sync: its SyncGroup has not been answered yet.
        hash_code: `String.hashCode` of the member id; whoever has it already may give it.
    """

    __slots__ = (
        "awaiting_join",
        "awaiting_sync",
        "group_instance_id",
        "hash_code",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "topics",
    )

    def __init__(
        self,
        member_id: str,
        *,
        protocols: Iterable[str],
        topics: Iterable[str] = (),
        protocol_type: str = "consumer",
        group_instance_id: str | None = None,
        rebalance_timeout_ms: int = 0,
        session_timeout_ms: int = 0,
        hash_code: int | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = tuple(protocols)
        self.topics = tuple(topics)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.awaiting_join = False
        self.awaiting_sync = False
        self.hash_code = string_hash(member_id) if hash_code is None else hash_code

    @property
    def is_static_member(self) -> bool:
        """It has an instance id."""
        return self.group_instance_id is not None

    def under(self, member_id: str) -> ClassicGroupMember:
        """The same member with another id, waiting for nothing."""
        return ClassicGroupMember(
            member_id,
            protocols=self.protocols,
            topics=self.topics,
            protocol_type=self.protocol_type,
            group_instance_id=self.group_instance_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
        )
