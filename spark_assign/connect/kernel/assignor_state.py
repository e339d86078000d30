"""What the leader's assignor remembers from one round to the next.

Principle: the memory is the leader's own. When another worker becomes leader, its own memory counts, which may be old
or, at first, empty: generation -1 and nothing else.

Example: after a round of generation 7 that took c0-0 from a worker: assignment = everything else, revocation = {c0-0},
generation 7. If generation 7 was not completed, the next round forgets the assignment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class AssignorState:
    """The fields of `IncrementalCooperativeAssignor`; items and workers are numbers.

    Attributes:
        assignment: what was assigned after the last round, and what was lost.
        revocation: what the last round revoked.
        revoked_in_previous: a round has revoked for balance and none has come to rest since (Kafka 4.x).
        can_revoke: whether the next round may revoke for balance (Kafka 2.6).
        candidates: workers that may get what was lost, in order.
        scheduled_rebalance_ms: when the delay ends; 0 for no delay.
        delay_ms: what the workers were told to wait.
        generation_id: of the last round.
        members: who took part in it.
        successive_revoking_rebalances: how often in a row balance called for a revocation (Kafka 4.x).
    """

    assignment: Collection[int] = field(default_factory=set)
    revocation: Collection[int] = field(default_factory=set)
    revoked_in_previous: bool = False
    can_revoke: bool = True
    candidates: list[int] = field(default_factory=list)
    scheduled_rebalance_ms: int = 0
    delay_ms: int = 0
    generation_id: int = -1
    members: list[int] = field(default_factory=list)
    successive_revoking_rebalances: int = 0

    def end_delay(self) -> None:
        """No delay runs any more, and nobody waits for what was lost."""
        self.candidates = []
        self.scheduled_rebalance_ms = 0
        self.delay_ms = 0
