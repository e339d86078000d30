"""What a coordinator says of one group, whatever its protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka import errors

from spark_assign.groups.kernel import leader_rules as leader_fingerprint
from spark_assign.wire.consumer_protocol import TopicPartitions


@dataclass(frozen=True)
class MemberDescription:
    """A member.

    Attributes:
        columns: of its row of `members`.
        topics: what it subscribes to, by name.
        owned: its partitions.
        tasks: columns of its rows of `tasks`, in a streams group.
        in_order: the order of what is owned matters.
        seen: of a classic group's member how its bytes are written.
    """

    columns: dict[str, Any]
    topics: tuple[str, ...]
    owned: TopicPartitions
    tasks: tuple[dict[str, Any], ...] = ()
    in_order: bool = False
    seen: leader_fingerprint.MemberBytes | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group.

    Attributes:
        state, assignor: as the coordinator names them.
        members: in the order in which it lists them.
        subtopologies: columns of its rows of `subtopologies`, if it is a streams group.
        subscription_type: as the column of `groups`, if it is a consumer group.
    """

    state: str
    assignor: str
    members: list[MemberDescription]
    subtopologies: list[dict[str, Any]] = field(default_factory=list)
    subscription_type: str | None = None

    def leader(self, group_id: str) -> dict[str, str]:
        """By whose rules a classic group with members is assigned, as columns of `groups`; else nothing."""
        seen = [each.seen for each in self.members if each.seen is not None]
        if not seen:
            return {}
        found = leader_fingerprint.find_leader(group_id, self.assignor, seen)
        told = {"client_library": found.library, "client_version": found.releases, "certainty": found.confidence}
        return {name: value for name, value in told.items() if value is not None}


def fault(error_code: int, message: str | None = None) -> Exception | None:
    """The error that a code stands for; null where all is well."""
    return errors.for_code(error_code)(message) if error_code else None
