"""What the play of one group begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_assign.simulation.kernel.assignment_request import Topics
from spark_assign.simulation.kernel.member import SimulatedMember
from spark_assign.simulation.kernel.settings import Timing


@dataclass(slots=True)
class InitialState:
    """What a play begins with.

    Attributes:
        members: those that are there at the beginning, as the coordinator lists them, with what they own.
        topics: all topics that the group may ever ask for.
        partitions: of those that there are, how many partitions.
        generation_id: of the group.
        timing: what the group is set to.
        strategies: of members that come later, unless their event tells; of KIP-848's members at most one, the broker's
            assignor that they ask for.
        all_static: whether members that come later are static, each under its own id.
        revoke_ms, restore_ms: of partitions for which it is not as in `timing`, by code.
        heartbeats: whether the members speak KIP-848's protocol (`group.protocol=consumer`), and not the classic one.
        topic_ids: of each topic `Uuid.hashCode` and its place by `Uuid.compareTo`; the broker's assignors look at them.
            Empty: topics count by name.
    """

    members: Sequence[SimulatedMember]
    topics: Topics
    partitions: dict[int, int]
    generation_id: int
    timing: Timing
    strategies: tuple[str, ...]
    all_static: bool = False
    revoke_ms: Mapping[int, int] = field(default_factory=dict)
    restore_ms: Mapping[int, int] = field(default_factory=dict)
    heartbeats: bool = False
    topic_ids: Sequence[tuple[int, int]] = ()
