"""Checks whether a group's assignor reproduces the recorded assignments.

The assignor receives what the members themselves had sent to their leader, according to the record (what they own and
since which generation, from the subscription or from the sticky assignor's user data, in their order). It follows the
rules of the leader's library and release, detected from the leader's bytes (`groups.kernel.leader_rules`), by
default those of today's Java clients. The broker's assignors receive the targets of the epoch before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import (
    FACT_TYPES,
    GROUP,
    LISTED_MEMBER,
    LISTED_TOPIC,
    MEMBER,
    OWNED_ORDER,
    OWNED_SLICE,
)
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.assignors.release_rules import (
    UNKNOWN,
    assignor_of_leader,
    parse_library_assignor,
    parse_release_assignor,
)
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, count_clients, detect_libraries, leader_client
from spark_assign.groups.kernel.leader_rules import (
    AssignmentFormat,
    Leader,
    MemberBytes,
    SubscriptionFormat,
    find_leader,
)
from spark_assign.groups.kernel.plan_groups import assign
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.history.kernel.replay.recorded_history import REPEATED, RESTARTED, RecordedHistory
from spark_assign.numeric.arrays import PartitionSlices, values_by_key
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, PARTITION_MASK
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text
from spark_assign.wire import consumer_protocol as wire
from spark_assign.wire.reader import WireError

_MAX_FACTS = 300_000
"""Maximum number of facts that are solved together, unless a single generation has more."""
ORDER_NOT_ON_RECORD = "depends on an order that isn't on record"
"""What the reason says if members of a broker's hash table might have been in another order."""


def check_reproduced(histories: Sequence[RecordedHistory]) -> list[dict[int, str | None]]:
    """Returns, for each group, why its generations are not reproduced, by generation index; None if one is.

    Empty generations, static restarts, and epochs without a target of their own are left out.
    """
    results: list[dict[int, str | None]] = [{} for _ in histories]
    for requests, rows in _to_pieces(histories, results):
        for request, reason in zip(requests, _solve_requests(requests, rows), strict=True):
            results[request.group][request.generation_index] = reason
    return results


def _to_pieces(
    histories: Sequence[RecordedHistory], results: list[dict[int, str | None]]
) -> Iterator[tuple[list[_RecordedRequest], list[dict[str, Any]]]]:
    """Yields requests that are solved together, with their facts, and puts the faults of others into `results`. Members
    can report any number of partitions, in each generation.
    """
    formats, requests, rows = _MemberFormats(), list[_RecordedRequest](), list[dict[str, Any]]()
    for group, history in enumerate(histories):
        for index in range(len(history.generations)):
            request = _RecordedRequest(group, index, history, formats)
            if not request.is_assignment:
                continue
            results[group][index] = fault = request.find_fault()
            if fault is None:
                key = {"cluster": "", "group_id": f"{len(requests):09}"}
                rows += ({**key, **fact} for fact in request.facts())
                requests.append(request)
            if len(rows) > _MAX_FACTS:
                yield requests, rows
                formats, requests, rows = _MemberFormats(), [], []
    yield requests, rows


def client_libraries(history: RecordedHistory) -> str | None:
    """Returns the libraries of the members of the last generation that has any (`count_clients`); None if none has."""
    last = next((at for at, each in reversed([*enumerate(history.generations)]) if each.members), None)
    if last is None:
        return None
    request = _RecordedRequest(0, last, history, _MemberFormats())
    ids = [(member.client_id, member_id) for member_id, member in request.generation.members.items()]
    leader = leader_client(request.leader.library, request.leader.confidence)
    return count_clients(detect_libraries(history.group_id, ids, request.generation.assignor, leader))


class _MemberFormats:
    """Decodes what members sent and were sent. Most bytes recur: in other members, or in the next generation."""

    def __init__(self) -> None:
        self.subscription = cache(wire.subscription_as_sent)
        self.assignment = cache(_read_assignment_format)


class _RecordedRequest:
    """The request to assign one recorded generation."""

    def __init__(self, group: int, generation_index: int, history: RecordedHistory, formats: _MemberFormats) -> None:
        self.group, self.generation_index, self.history = group, generation_index, history
        self.generation = history.generations[generation_index]
        self.subscriptions: dict[str, wire.Subscription] = {}
        self.unreadable: str | None = None
        for member_id, member in self.generation.members.items():
            if not history.is_server_side and member.subscription is not None:
                try:
                    self.subscriptions[member_id] = formats.subscription(member.subscription)
                except WireError as error:
                    self.unreadable = f"the subscription of {in_text(member_id)}: {error}"
        assignor = self.generation.assignor or ""
        self.leader = Leader(None, None, UNKNOWN) if history.is_server_side else self._find_leader(assignor, formats)
        self.rules = assignor_of_leader(assignor, self.leader.library, self.leader.releases) or assignor

    def _find_leader(self, assignor: str, formats: _MemberFormats) -> Leader:
        """Returns the library and release of the leader."""
        member_bytes = [
            MemberBytes(
                member_id,
                member.client_id,
                SubscriptionFormat(subscription.version, subscription.user_data, subscription.cut_short),
                formats.assignment(member.assignment_bytes),
            )
            for member_id, member in self.generation.members.items()
            if (subscription := self.subscriptions.get(member_id)) is not None
        ]
        return find_leader(self.history.group_id, assignor, member_bytes)

    @property
    def is_assignment(self) -> bool:
        """Whether the generation has an assignment of its own."""
        return bool(self.generation.members) and self.generation.generation_kind != RESTARTED and not self._is_delayed

    @property
    def _is_delayed(self) -> bool:
        """Whether the broker computed no target in this epoch: it keeps the last target for a while."""
        if not self.history.is_server_side or not self.generation_index or self.generation.generation_kind == REPEATED:
            return False
        previous = self.history.generations[self.generation_index - 1]
        return dict(self.generation.owners) == {
            partition: owner for partition, owner in previous.owners.items() if owner in self.generation.members
        }

    def find_fault(self) -> str | None:
        """Returns why the request can't be solved; None if it can."""
        if (
            self.rules not in KAFKA_SERVER_ASSIGNORS
            and parse_release_assignor(self.rules) is None
            and parse_library_assignor(self.rules) is None
        ):
            return f"the assignor {in_text(self.rules)} is unknown"
        if self.unreadable is not None:
            return self.unreadable
        if self.history.is_server_side:
            is_missing = not self.generation_index or self.generation.missing
            return "the epoch before is not on record" if is_missing else None
        if len(self.subscriptions) < len(self.generation.members):
            return "subscriptions are not on record"
        return None

    # --- facts --------------------------------------------------------------------------------------------------

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yields the facts of the generation, as of a group of its own."""
        before: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for partition, owner in self._previous_owners():
            before[owner].append((self.history.topics.names[partition >> CODE_BITS], partition & PARTITION_MASK))
        generation, names = self.generation, self.history.topics.names
        num_partitions = {names[topic]: many for topic, many in generation.partitions.items()}
        is_server_side = self.history.is_server_side
        lists = {topics: number for number, topics in enumerate(dict.fromkeys(generation.topics.values()))}
        yield {
            "kind": GROUP,
            "assignor": generation.assignor,
            "group_type": "consumer" if is_server_side else "classic",
            "subscription_type": "homogeneous" if len(lists) == 1 else "heterogeneous",
        }
        for topics, number in lists.items():
            for topic in sorted(topics):
                topic_columns = {"topic": names[topic], "partitions": num_partitions.get(names[topic])}
                topic_id = self.history.topic_ids.get(names[topic])
                yield {"kind": LISTED_TOPIC, "list": number, **topic_columns, "topic_id": topic_id}
        for member_position, (member_id, member) in enumerate(generation.members.items()):
            subscription = self.subscriptions.get(member_id)
            yield {
                "kind": MEMBER,
                "member_id": member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "position": None if is_server_side else member_position,
                **({} if subscription is None else self._user_data(subscription)),
            }
            yield {"kind": LISTED_MEMBER, "member_id": member_id, "list": lists[generation.topics[member_id]]}
            for position, (name, partitions) in enumerate(self._find_owned(before[member_id], subscription)):
                owned = {"member_id": member_id, "topic": name}
                if not is_server_side:
                    yield {"kind": OWNED_ORDER, **owned, "position": position, "at": partitions}
                for first in dict.fromkeys(partitions):
                    slice_columns = {"partitions": num_partitions.get(name), "first": first, "step": 1, "count": 1}
                    yield {"kind": OWNED_SLICE, **owned, **slice_columns}

    def _user_data(self, subscription: wire.Subscription) -> dict[str, Any]:
        return {
            "user_data": subscription.user_data,
            "generation_id": subscription.generation_id,
            "user_data_generation_id": wire.user_data_generation(subscription, self.generation.assignor or ""),
        }

    def _previous_owners(self) -> list[tuple[int, str]]:
        """Returns the owners in the epoch before, sorted by partition; nothing for a classic group."""
        is_server_side, generations = self.history.is_server_side, self.history.generations
        return sorted(generations[self.generation_index - 1].owners.items()) if is_server_side else []

    def _find_owned(
        self, before: Iterable[tuple[str, int]], subscription: wire.Subscription | None
    ) -> Iterable[tuple[str, list[int]]]:
        """Returns the partitions that the assignor receives as owned by a member, by topic, in their order; `before`
        are those in the epoch before.
        """
        owned = before
        if subscription is not None and self.generation.assignor == "sticky":
            owned = wire.sticky_user_data(subscription.user_data).owned
        elif subscription is not None and self.generation.assignor == COOPERATIVE:
            owned = subscription.owned
        return values_by_key(owned).items()


def _read_assignment_format(data: bytes | None) -> AssignmentFormat | None:
    if not data:
        return None
    try:
        assignment = wire.assignment(data)
    except WireError:
        return None
    return AssignmentFormat(assignment.version, assignment.user_data)


_COLUMNS = (
    *("cluster", "group_id", "kind", "assignor", "group_type", "subscription_type", "member_id", "group_instance_id"),
    *("client_id", "position", "user_data", "generation_id", "user_data_generation_id", "topic", "partitions"),
    *("topic_id", "list", "at", "first", "step", "count"),
)
_FACTS = pa.schema([(name, FACT_TYPES[name]) for name in _COLUMNS])


# --- assignments --------------------------------------------------------------------------------------------------


def _solve_requests(requests: Sequence[_RecordedRequest], rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Returns why each generation is not reproduced; None if it is. `rows` are the facts of the requests."""
    if not requests:
        return []
    specs = open_pass(pa.Table.from_pylist(rows, _FACTS)).specs
    group_request = [int(key) for key in specs.group_id.to_pylist()]
    reasons: list[str | None] = ["the subscriptions of its members contradict each other"] * len(requests)
    group_rules = np.array([requests[index].rules for index in group_request], object)
    for rules in sorted(set(group_rules.tolist())):
        selected = group_rules == rules
        assignments = assign(specs, rules, selected)
        slices = assignments.slices if rules in KAFKA_SERVER_ASSIGNORS else assignments.assigned_now
        assigned = _owners_by_group(specs, slices)
        order_dependent = _owners_by_group(specs, assignments.order_dependent)
        for group in np.flatnonzero(selected).tolist():
            index = group_request[group]
            if group in assignments.rejected:
                reasons[index] = assignments.rejected[group][1]
            else:
                is_order_dependent = bool(order_dependent.get(group))
                reasons[index] = _format_difference(requests[index], assigned.get(group, {}), is_order_dependent)
    return reasons


def _owners_by_group(specs: GroupSpecs, slices: PartitionSlices) -> dict[int, dict[tuple[str, int], str]]:
    """Returns, by group, the owner of each topic name and partition."""
    rows = slices.expand()
    if not len(rows):
        return {}
    groups = specs.members.group[rows.member].tolist()
    member_ids, topics = specs.member_id.to_pylist(), specs.topic.to_pylist()
    owners: dict[int, dict[tuple[str, int], str]] = {}
    for group, member, topic, partition in zip(
        groups, rows.member.tolist(), rows.topic.tolist(), rows.first.tolist(), strict=True
    ):
        owners.setdefault(group, {})[topics[topic], partition] = member_ids[member]
    return owners


def _format_difference(
    request: _RecordedRequest, assigned: Mapping[tuple[str, int], str], is_order_dependent: bool
) -> str | None:
    """Returns the first difference to the recorded owners; None if there is none."""
    names = request.history.topics.names
    recorded = {
        (names[partition >> CODE_BITS], partition & PARTITION_MASK): owner
        for partition, owner in request.generation.owners.items()
    }
    if recorded == assigned:
        return None
    differing = sorted(key for key in recorded.keys() | assigned.keys() if recorded.get(key) != assigned.get(key))
    topic, partition = differing[0]
    first = f"{in_text(topic)}-{partition}"
    text = f"{request.rules} assigns {count(len(differing), 'partition')} to other members, first {first}"
    return f"{text} ({ORDER_NOT_ON_RECORD})" if is_order_dependent else text
