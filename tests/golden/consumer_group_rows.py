"""Sequences of heartbeats, the passing of time and changes of topics, as our coordinator of a KIP-848 group has them.

A step is {"sequence", "step", "op", "expect"}; `expect` is what `tests/kafka/java/ConsumerGroupSteps.java` answers,
asked of Kafka's `GroupMetadataManager`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from spark_assign.assignors.server.coordinator_order import read_topic_ids
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, code
from spark_assign.simulation.kernel.consumer_group import ConsumerGroup
from spark_assign.simulation.kernel.consumer_group_members import NOT_SENT, ConsumerGroupMember, Heartbeat
from spark_assign.simulation.kernel.settings import GroupConfig
from spark_assign.simulation.kernel.target_assignment import TargetRequest, Topic, TopicsImage
from spark_assign.simulation.kernel.target_assignment_builder import assign_targets
from tests.recorded_lines import read_rows

FILE = Path(__file__).parent / "consumer-group.jsonl.gz"
Row = dict[str, Any]
Op = dict[str, Any]


@cache
def recorded() -> tuple[Row, ...]:
    """All steps, sequence after sequence and in order; to be read only."""
    return tuple(read_rows(FILE))


def ours(rows: Iterable[Row]) -> Iterator[Row]:
    """What our coordinator answers, step by step."""
    name, group = None, None
    for row in rows:
        if row["sequence"] != name or group is None:
            name, group = row["sequence"], Steps(row["op"])
        yield group.call(row["op"])


class Steps:
    """One group, called step by step."""

    def __init__(self, begin: Op) -> None:
        self.metadata = TopicsImage()
        config = GroupConfig(assignment_interval_ms=begin["assignment_interval_ms"], max_size=begin["max_size"])
        self.group = ConsumerGroup(self.metadata, config)
        self.now = begin["now"]
        self.ids: list[str] = []

    def call(self, op: Op) -> Row:
        """Take a step, and say what came of it."""
        found: Row = {}
        if op["op"] == "heartbeat":
            found = self._heartbeat(op)
        elif op["op"] == "advance":
            self.group.expire(op["to"])
            self.now = op["to"]
        elif op["op"] == "topics":
            self._topics(op)
        elif op["op"] == "resolve":
            self.group.resolve(self.now)
        return found | self._state() if self.group.exists else found

    def _heartbeat(self, op: Op) -> Row:
        owned = op.get("owned")
        request = Heartbeat(
            op["member"],
            op["epoch"],
            instance_id=op.get("instance"),
            rebalance_timeout_ms=op.get("rebalance_timeout_ms", NOT_SENT),
            topics=op.get("topics"),
            regex=op.get("regex"),
            assignor=op.get("assignor"),
            owned=None if owned is None else [code(self._number(each), at) for each in owned for at in owned[each]],
        )
        answer = self.group.heartbeat(request, self.now)
        if isinstance(answer, TargetRequest):
            answer = self.group.apply_target(*assign_targets([answer]))
        if answer.error is not None:
            return {"error": answer.error}
        found: Row = {"epoch": answer.member_epoch}
        return found if answer.assigned is None else found | {"assigned": self._by_topic(sorted(answer.assigned))}

    def _topics(self, op: Op) -> None:
        """Every topic that there ever was has a number; ids are ordered anew whenever there are more."""
        names = set(op["remove"])
        self.metadata.remove(op["remove"])
        topics_by_name = {t.name: (self.ids[t.number], t.partitions) for t in self.metadata.by_name.values()}
        topics_by_name |= {topic["name"]: (topic["id"], topic["partitions"]) for topic in op["put"]}
        names |= {topic["name"] for topic in op["put"]}
        for id_, _ in topics_by_name.values():
            self._number(id_)
        read = read_topic_ids(self.ids)
        self.metadata.put(
            Topic(at := self._number(id_), name, partitions, int(read.hash[at]), id_rank=_rank(id_))
            for name, (id_, partitions) in topics_by_name.items()
        )
        self.group.topics_changed(names)

    def _number(self, id_: str) -> int:
        if id_ not in self.ids:
            self.ids.append(id_)
        return self.ids.index(id_)

    def _by_topic(self, codes: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in codes:
            found.setdefault(self.ids[each >> CODE_BITS], []).append(each & (1 << CODE_BITS) - 1)
        return found

    def _state(self) -> Row:
        group = self.group
        return {
            "state": state_of(group),
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
            "subscription_type": "HOMOGENEOUS" if group.homogeneous else "HETEROGENEOUS",
            "order": list(group.members.hash_order()),
            "static_members": dict(group.members.static),
            "resolving": group.regexes.pending is not None,
            "members": {each.member_id: self._member(each) for each in group.members.by_id.values()},
        }

    def _member(self, member: ConsumerGroupMember) -> Row:
        target = self._by_topic(self.group.members.target(member.member_id).walk)
        return {
            "epoch": member.member_epoch,
            "previous": member.previous_member_epoch,
            "state": member.state.value,
            "assigned": self._with_epochs(member.assigned),
            "pending": self._with_epochs(member.pending_revocation),
            "target": [list(each) for each in target.items()],
        }

    def _with_epochs(self, partitions: Any) -> dict[str, list[list[int]]]:
        by_topic = self._by_topic(sorted(partitions))
        return {t: [[at, partitions[code(self._number(t), at)]] for at in some] for t, some in by_topic.items()}


def state_of(group: ConsumerGroup) -> str:
    """The state of a group, as `ConsumerGroupState` has it in Kafka's answers."""
    members = group.members.by_id.values()
    if not members:
        return "Empty"
    if group.group_epoch > group.assignment_epoch:
        return "Assigning"
    return "Stable" if all(member.is_reconciled_to(group.assignment_epoch) for member in members) else "Reconciling"


def _rank(id_: str) -> int:
    """`Uuid.compareTo` compares the halves as signed numbers."""
    raw = base64.urlsafe_b64decode(id_ + "==")
    high, low = (int.from_bytes(half, "big", signed=True) for half in (raw[:8], raw[8:]))
    return (high << 64) + low
