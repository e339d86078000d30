"""What was recorded: the way that was in use, as its own rows; and whether its assignor, asked again, says the same.

Asked again means: told what the members themselves told their leader, as the record has it (what they own and since
when, from the subscription or from sticky's user data, in their order), by the rules of the leader's library and
release as its bytes tell (`groups.kernel.leader_rules`), by default those of today's Java clients. The broker's
assignors are told the targets of the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.library_assignors import read_library
from spark_assign.groups.assignors.release_rules import led_by, read_profile
from spark_assign.groups.assignors.server import KAFKAS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.groups.kernel.facts import (
    FACT_TYPES,
    GROUP,
    MEMBER,
    OWNED_ORDER,
    OWNED_SLICE,
    SUBSCRIPTION,
    index_facts,
)
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_specs import GroupSpecs, read_group_specs
from spark_assign.groups.kernel.leader_rules import AssignmentFormat, MemberBytes, SubscriptionFormat, find_leader
from spark_assign.history.kernel.replay.recorded_history import AGAIN, RESTARTED, RecordedHistory
from spark_assign.history.kernel.timeline import RecordedMember
from spark_assign.migration.kernel.assign_without_spark import assign_without_spark
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.wire import consumer_protocol as wire
from spark_assign.wire.reader import WireError

CODE_BITS, MASK = 32, 0xFFFFFFFF


@dataclass(frozen=True)
class ReproductionResult:
    """Whether a generation was found again. `why`: why not; null where it was. `rules`: by which assignor's rules."""

    rules: str
    why: str | None


def find_again(pasts: Sequence[RecordedHistory]) -> list[dict[int, ReproductionResult]]:
    """Of each group, by place in its past, whether its generations are found again; all at once.

    Generations of nobody, static restarts, and epochs without a target of their own are not asked.
    """
    asked = [_RecordedRequest(group, at, past) for group, past in enumerate(pasts) for at in range(len(past.thens))]
    asked = [each for each in asked if each.then.members and each.then.kind != RESTARTED and not each.waits]
    found: list[dict[int, ReproductionResult]] = [{} for _ in pasts]
    sound: list[_RecordedRequest] = []
    for each in asked:
        why = each.fault()
        if why is None:
            sound.append(each)
        else:
            found[each.group][each.at] = ReproductionResult(each.rules, why)
    for each, why in zip(sound, _answers(sound), strict=True):
        found[each.group][each.at] = ReproductionResult(each.rules, why)
    return found


class _RecordedRequest:
    """One generation as its leader was asked."""

    def __init__(self, group: int, at: int, past: RecordedHistory) -> None:
        self.group, self.at, self.past, self.then = group, at, past, past.thens[at]
        self.said: dict[str, wire.Subscription] = {}
        self.unread: str | None = None
        for member_id, member in self.then.members.items():
            if not past.served and member.subscription is not None:
                try:
                    self.said[member_id] = wire.subscription_as_sent(member.subscription)
                except WireError as error:
                    self.unread = f"the subscription of {member_id}: {error}"
        self.rules = self._rules()

    def _rules(self) -> str:
        """The assignor, as of the leader's release or library."""
        assignor = self.then.assignor or ""
        if self.past.served:
            return assignor
        seen = [
            MemberBytes(
                each,
                member.client_id,
                SubscriptionFormat(said.version, said.user_data, said.cut_short),
                _assigned(member),
            )
            for each, member in self.then.members.items()
            if (said := self.said.get(each)) is not None
        ]
        leader = find_leader(self.past.group_id, assignor, seen)
        return led_by(assignor, leader.library, leader.releases) or assignor

    @property
    def waits(self) -> bool:
        """Whether the broker has not looked for a target in this epoch: it keeps the last one for a while."""
        if not self.past.served or not self.at or self.then.kind == AGAIN:
            return False
        before = self.past.thens[self.at - 1]
        return dict(self.then.owners) == {
            code: each for code, each in before.owners.items() if each in self.then.members
        }

    def fault(self) -> str | None:
        """Why nothing can be asked; null: it can."""
        if self.rules not in KAFKAS and read_profile(self.rules) is None and read_library(self.rules) is None:
            return f"the assignor {self.rules} is none that is known"
        if self.unread is not None:
            return self.unread
        if self.past.served:
            return "the epoch before is not on record" if not self.at or self.then.missing else None
        if len(self.said) < len(self.then.members):
            return "subscriptions are not on record"
        return None

    # --- facts --------------------------------------------------------------------------------------------------

    def facts(self, rows: _Rows, key: str) -> None:
        """The generation as a group of its own."""
        names = self.past.topics.names
        kind = "consumer" if self.past.served else "classic"
        alike = len(set(self.then.topics.values())) == 1
        rows.add(key, GROUP, assignor=self.then.assignor, group_type=kind, subscription_type=_TYPES[alike])
        for place, (member_id, member) in enumerate(self.then.members.items()):
            said = self.said.get(member_id)
            rows.add(
                key,
                MEMBER,
                member_id=member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                position=None if self.past.served else place,
                user_data=None if said is None else said.user_data,
                **({} if said is None else self._generations(said)),
            )
            for topic in sorted(self.then.topics[member_id]):
                count = self.then.partitions.get(topic)
                topic_id = self.past.topic_ids.get(names[topic])
                rows.add(
                    key, SUBSCRIPTION, member_id=member_id, topic=names[topic], partitions=count, topic_id=topic_id
                )
            for at, (name, mine) in enumerate(self._owned(member_id, said)):
                count = self._count(name)
                if not self.past.served:
                    rows.add(key, OWNED_ORDER, member_id=member_id, topic=name, position=at, at=mine)
                for first in dict.fromkeys(mine):
                    rows.add(
                        key,
                        OWNED_SLICE,
                        member_id=member_id,
                        topic=name,
                        partitions=count,
                        first=first,
                        step=1,
                        count=1,
                    )

    def _count(self, name: str) -> int | None:
        number = {each: at for at, each in enumerate(self.past.topics.names)}.get(name)
        return None if number is None else self.then.partitions.get(number)

    def _generations(self, said: wire.Subscription) -> dict[str, int | None]:
        return {
            "generation_id": said.generation_id,
            "user_data_generation_id": wire.user_data_generation(said, self.then.assignor or ""),
        }

    def _owned(self, member_id: str, said: wire.Subscription | None) -> Iterable[tuple[str, list[int]]]:
        """What the assignor hears that a member has, topic after topic in its order."""
        if self.past.served:
            before = self.past.thens[self.at - 1]
            listed: Iterable[tuple[str, int]] = (
                (self.past.topics.names[code >> CODE_BITS], code & MASK)
                for code, owner in sorted(before.owners.items())
                if owner == member_id
            )
        elif said is None:
            listed = ()
        elif self.then.assignor == "sticky":
            listed = wire.sticky_user_data(said.user_data).owned
        elif self.then.assignor == COOPERATIVE:
            listed = said.owned
        else:
            listed = ()
        by_topic: dict[str, list[int]] = {}
        for name, partition in listed:
            by_topic.setdefault(name, []).append(partition)
        return by_topic.items()


_TYPES = {True: "homogeneous", False: "heterogeneous"}


def _assigned(member: RecordedMember) -> AssignmentFormat | None:
    if not member.assigned:
        return None
    try:
        given = wire.assignment(member.assigned)
    except WireError:
        return None
    return AssignmentFormat(given.version, given.user_data)


class _Rows:
    """Facts as columns."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}

    def add(self, key: str, kind: int, **values: Any) -> None:
        """A row."""
        row = {"cluster": "", "group_id": key, "kind": kind, **values}
        for name, column in self.columns.items():
            column.append(row.get(name))

    def table(self) -> pa.Table:
        """All of them."""
        return pa.table({name: pa.array(column, FACT_TYPES[name]) for name, column in self.columns.items()})


_COLUMNS = (
    *("cluster", "group_id", "kind", "assignor", "group_type", "subscription_type", "member_id", "group_instance_id"),
    *("client_id", "position", "user_data", "generation_id", "user_data_generation_id", "topic", "partitions"),
    "topic_id",
    *("at", "first", "step", "count"),
)


def _answers(asked: Sequence[_RecordedRequest]) -> list[str | None]:
    """Of each generation why it is not found again; null where it is."""
    if not asked:
        return []
    rows = _Rows()
    for number, each in enumerate(asked):
        each.facts(rows, f"{number:09}")
    told = index_facts(rows.table())
    faults = find_faults(told)
    specs = read_group_specs(told, set(faults))
    of_key = [int(each) for each in specs.group_id.to_pylist()]
    why: list[str | None] = ["what its members say contradicts itself"] * len(asked)
    kinds = np.array([asked[each].rules for each in of_key], object)
    for name in sorted(set(kinds.tolist())):
        chosen = kinds == name
        planned = assign_without_spark(specs, name, chosen)
        given = _by_group(specs, planned.slices if name in KAFKAS else planned.assigned_now)
        hangs = _by_group(specs, planned.order_dependent)
        for group in np.flatnonzero(chosen).tolist():
            number = of_key[group]
            if group in planned.rejected:
                why[number] = planned.rejected[group][1]
            else:
                why[number] = _difference(asked[number], given.get(group, {}), bool(hangs.get(group)))
    return why


def _by_group(specs: GroupSpecs, runs: PartitionSlices) -> dict[int, dict[tuple[str, int], str]]:
    """Of each group who gets each partition, by names."""
    rows = runs.expand()
    if not len(rows):
        return {}
    groups = specs.members.group[rows.member].tolist()
    ids, names = specs.member_id.to_pylist(), specs.topic.to_pylist()
    found: dict[int, dict[tuple[str, int], str]] = {}
    for group, member, topic, partition in zip(
        groups, rows.member.tolist(), rows.topic.tolist(), rows.first.tolist(), strict=True
    ):
        found.setdefault(group, {})[names[topic], partition] = ids[member]
    return found


def _difference(asked: _RecordedRequest, given: Mapping[tuple[str, int], str], hangs: bool) -> str | None:
    names = asked.past.topics.names
    was = {(names[code >> CODE_BITS], code & MASK): owner for code, owner in asked.then.owners.items()}
    if was == given:
        return None
    differing = sorted(each for each in was.keys() | given.keys() if was.get(each) != given.get(each))
    topic, partition = differing[0]
    said = f"{asked.rules} says otherwise of {len(differing)}, the first is {topic}-{partition}"
    return f"{said} (it hangs on an order that is not on record)" if hangs else said
