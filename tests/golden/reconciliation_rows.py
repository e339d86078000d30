"""Members of KIP-848 groups before and after a heartbeat, by `CurrentAssignmentBuilder` of brokers before 4.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_assign.simulation.kernel.assignment_request import CODE_BITS, PARTITION_MASK, code
from spark_assign.simulation.kernel.consumer_group_members import ConsumerGroupMember, MemberState
from spark_assign.simulation.kernel.current_assignment_builder import ReconcileInput, reconcile
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.target_assignment import TargetAssignment

FILE = Path(__file__).parent / "reconciliation-4.1.jsonl.gz"
Row = dict[str, Any]


def _codes(pairs: list[list[int]]) -> list[int]:
    return [code(topic, partition) for topic, partition in pairs]


def _pairs(codes: Any) -> list[list[int]]:
    return [[each >> CODE_BITS, each & PARTITION_MASK] for each in sorted(codes)]


def answered(row: Row, release: str) -> Row:
    """What our kernel makes of the member in a release."""
    config = TimingConfig(broker_release=release).group_config()
    member = ConsumerGroupMember(
        "member",
        member_epoch=row["epoch"],
        previous_member_epoch=row["previous_epoch"],
        state=MemberState(row["state"]),
        assigned=dict.fromkeys(_codes(row["assigned"]), 1),
        pending_revocation=dict.fromkeys(_codes(row["pending"]), 1),
    )
    owned = None if row["owned"] is None else _codes(row["owned"])
    codes = _codes(row["target"])
    target = TargetAssignment(tuple(codes), frozenset(codes), frozenset(each >> CODE_BITS for each in codes))
    subscribed = frozenset(row["subscribed"])
    subscription = (subscribed, not subscribed, row["subscription_changed"])
    reported = (owned, frozenset(_codes(row["unreleased"])))
    given = ReconcileInput(row["target_epoch"], target, *subscription, *reported, config.trims, config.returns_revoked)
    after = reconcile(member, given)
    found = {"state": after.state.value, "epoch": after.member_epoch, "previous_epoch": after.previous_member_epoch}
    return found | {"assigned": _pairs(after.assigned), "pending": _pairs(after.pending_revocation)}
