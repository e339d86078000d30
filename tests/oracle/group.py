"""One consumer group as Kafka's assignors see it, in plain Python objects.

The oracle shares nothing with `spark_assign`: it is written from Kafka's source, loop for loop, so that a
mistake of the planner's closed forms cannot hide in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Assignment = dict[str, list[tuple[str, int]]]
"""member id -> (topic, partition) in the order of assignment."""


def java_order(text: str) -> bytes:
    """Sort key with which Python orders strings as `String.compareTo` does: by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


@dataclass(frozen=True)
class Member:
    """One subscription. `rack_id` is None where the client has none (Kafka reads an empty one as none)."""

    member_id: str
    topics: Sequence[str]
    group_instance_id: str | None = None
    rack_id: str | None = None

    @property
    def order(self) -> tuple[bool, bytes]:
        """`MemberInfo.compareTo`: static members first by instance id, then the others by member id."""
        if self.group_instance_id is not None:
            return False, java_order(self.group_instance_id)
        return True, java_order(self.member_id)


@dataclass(frozen=True)
class Group:
    """`partitions` is the cluster's metadata (topic -> count); `replica_racks` gives, per topic and
    partition, the rack of each replica (None: a broker without rack). A topic that it lacks has no
    rack information."""

    partitions: Mapping[str, int]
    members: Sequence[Member]
    replica_racks: Mapping[str, Sequence[Sequence[str | None]]] = field(default_factory=dict)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Group:
        """From a row of the golden files (`tests/golden/README-client.md`, section 1)."""
        members = [Member(m["id"], m["topics"], m.get("instance"), m.get("rack") or None) for m in row["members"]]
        return cls(row["topics"], members, row.get("replica_racks") or {})

    def subscribed_topics(self) -> list[str]:
        """Topics that somebody asks for and that have partitions, by name in Java's order."""
        wanted = {topic for member in self.members for topic in member.topics}
        return sorted((topic for topic in wanted if self.partitions.get(topic, 0) > 0), key=java_order)
