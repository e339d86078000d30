"""Computes the leaders' assignments of many groups in one batch, with the kernels that `plan` uses.

An assignor is a function from requests to responses. To add one, add an entry to `ASSIGNORS`:

    ASSIGNORS["mine"] = lambda requests: [AssignmentResponse([[] for _ in request.members]) for request in requests]

The response to a request doesn't depend on the other requests.

Range and round robin assign the partitions of each topic to an ordered list of its subscribers: static members first,
by instance ID, then the others by member ID (`AbstractPartitionAssignor.MemberInfo`). Each computes a position in that
list:

    range        p partitions over n members: p // n each, the first p % n members one more, in consecutive ranges
    roundrobin   (start + partition) % n, where the pointer continues from topic to topic (`numeric.round_robin_offset`)

For range, racks can override this (KIP-881, `groups.assignors.rack_aware_range`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.rack_aware_range import RackTopic, assign_rack_aware_topics
from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.round_robin_offset import round_robin_start
from spark_assign.numeric.segmented_arrays import key_ranges, ranges_by_length
from spark_assign.simulation.kernel.assignment_request import (
    CODE_BITS,
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    RequestTable,
    Topics,
    answer,
    code,
    java_order,
    layout,
    read_requests,
)
from spark_assign.simulation.kernel.leader_sticky import assign_cooperative_sticky, assign_sticky
from spark_assign.tables.errors import UnknownAssignorError


def assign_range(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes assignments as Kafka's `RangeAssignor`."""
    return _deal(requests, _by_range)


def assign_roundrobin(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes assignments as Kafka's `RoundRobinAssignor`."""
    return _deal(requests, _in_turn)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Ordered subscriber lists, first of all requests, then of all classes.

    Attributes:
        members: member indexes, list by list.
        places: positions of the members of each list in the list of their request.
        begin, size: start and length of each list in `members`.
        of_topic: list index of each topic.
    """

    members: IntArray
    places: list[Sequence[int]]
    begin: IntArray
    size: IntArray
    of_topic: IntArray


def _deal(
    requests: Sequence[AssignmentRequest], place_of: Callable[[RequestTable, _Lines, IntArray, IntArray], IntArray]
) -> list[AssignmentResponse]:
    """Deal all partitions; `place_of`: row of the topic and partition to a place in the topic's line."""
    table = read_requests(requests)
    lines = _lines(table)
    row, partition = np.repeat(np.arange(len(table.topic)), table.partitions), ranges_by_length(table.partitions)
    place = place_of(table, lines, row, partition)
    member = lines.members[lines.begin[lines.of_topic[row]] + place]
    return answer(table, member, table.topic[row] << CODE_BITS | partition, {})


def _lines(table: RequestTable) -> _Lines:
    members: list[int] = []
    places: list[Sequence[int]] = []
    for request, begin in zip(table.requests, table.begin, strict=False):
        members += [begin + at for at in serving_order(request.members)]
        places.append(range(len(request.members)))
    ask_of = np.searchsorted(table.begin, [some[0] for some in table.classes], "right") - 1
    for ask_number, some in zip(ask_of.tolist(), table.classes, strict=True):
        begin, end = table.begin[ask_number : ask_number + 2]
        wanted = set(some)
        places.append([at for at, member in enumerate(members[begin:end]) if member in wanted])
        members += [members[begin + at] for at in places[-1]]
    size = np.array([len(each) for each in places], np.int64)
    return _Lines(
        members=np.array(members, np.int64),
        places=places,
        begin=np.cumsum(size) - size,
        size=size,
        of_topic=np.where(table.topic_class == ALL_MEMBERS, table.topic_ask, len(table.requests) + table.topic_class),
    )


def serving_order(members: Sequence[JoinedMember]) -> list[int]:
    """Returns the member indexes in the order in which range and roundrobin assign partitions to them."""
    static = [at for at, each in enumerate(members) if each.group_instance_id is not None]
    if not static:
        return java_order([each.member_id for each in members])
    dynamic = [at for at, each in enumerate(members) if each.group_instance_id is None]
    by_instance = java_order([members[at].group_instance_id or "" for at in static])
    by_id = java_order([members[at].member_id for at in dynamic])
    return [static[at] for at in by_instance] + [dynamic[at] for at in by_id]


# --- round robin --------------------------------------------------------------------------------------------


def _in_turn(table: RequestTable, lines: _Lines, row: IntArray, partition: IntArray) -> IntArray:
    start = np.empty(len(table.topic), np.int64)
    line, counts = lines.of_topic.tolist(), table.partitions.tolist()
    for begin, end in key_ranges(table.topic_ask):
        start[begin:end] = round_robin_start((lines.places[line[at]], counts[at]) for at in range(begin, end))
    return (start[row] + partition) % lines.size[lines.of_topic[row]]


# --- range --------------------------------------------------------------------------------------------------


def _by_range(table: RequestTable, lines: _Lines, row: IntArray, partition: IntArray) -> IntArray:
    quota, longer = np.divmod(table.partitions, lines.size[lines.of_topic])
    in_longer = longer * (quota + 1)
    quota_of, behind = quota[row], partition - in_longer[row]
    place: IntArray = np.where(behind < 0, partition // (quota_of + 1), longer[row] + behind // np.maximum(quota_of, 1))
    ends = np.cumsum(table.partitions)
    for begin, end in key_ranges(table.topic_ask):
        request = table.requests[int(table.topic_ask[begin])]
        if request.topics.racks and any(each.rack_id for each in request.members):
            for topic, owner in _by_rack(table, lines, begin, end).items():
                place[ends[topic] - len(owner) : ends[topic]] = owner
    return place


def _by_rack(table: RequestTable, lines: _Lines, begin: int, end: int) -> dict[int, IntArray]:
    """Returns the owners of the partitions of each topic that racks decide, as positions in its list, for one
    request."""
    request = table.requests[int(table.topic_ask[begin])]
    rack_topics = [
        RackTopic(row, int(lines.of_topic[row]), int(table.partitions[row]), layout(request, int(table.topic[row])))
        for row in range(begin, end)
    ]
    return assign_rack_aware_topics(
        rack_topics, {line: _racks(table, lines, line) for line in {each.subscriber_list for each in rack_topics}}
    )


def _racks(table: RequestTable, lines: _Lines, line: int) -> list[str | None]:
    members = lines.members[lines.begin[line] : lines.begin[line] + lines.size[line]].tolist()
    return [table.members[member].rack_id or None for member in members]


__all__ = [
    "ASSIGNORS",
    "AssignmentRequest",
    "AssignmentResponse",
    "Assignor",
    "JoinedMember",
    "Topics",
    "assign",
    "code",
]

Assignor = Callable[[Sequence[AssignmentRequest]], list[AssignmentResponse]]
"""Computes responses to requests that have at least one member each."""

ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}
"""Assignors by Kafka's names."""


def assign(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes a response to each request, with the assignor that it names.

    Returns:
        the responses, in the order of the requests.

    Raises:
        UnknownAssignorError: a request names an assignor that isn't in `ASSIGNORS`.
    """
    responses = [AssignmentResponse([])] * len(requests)
    of_assignor: dict[str, list[int]] = {}
    for number, request in enumerate(requests):
        if request.members:
            of_assignor.setdefault(request.assignor, []).append(number)
        else:
            responses[number] = AssignmentResponse([])
    for name, numbers in of_assignor.items():
        if name not in ASSIGNORS:
            known = ", ".join(sorted(ASSIGNORS))
            raise UnknownAssignorError(f"no assignor of the simulation is called {name!r}. There are: {known}")
        for number, found in zip(numbers, ASSIGNORS[name]([requests[each] for each in numbers]), strict=True):
            responses[number] = found
    return responses
