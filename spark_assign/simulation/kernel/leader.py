"""Computes the leaders' assignments of many groups in one batch, as `plan` does (`groups.kernel.plan_groups.assign`).

An assignor is a function from requests to responses. To add one, add an entry to `ASSIGNORS`:

    ASSIGNORS["mine"] = lambda requests: [AssignmentResponse([[] for _ in request.members]) for request in requests]

The response to a request doesn't depend on the other requests. Kafka's assignors read the specs of the requests
(`assignors.group_specs`), which `read_requests` builds for many requests at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import FACT_TYPES, IndexedFacts, index_facts
from spark_assign.assignors.group_specs import ALL_MEMBERS, GroupSpecs, MemberColumns, SubscriberLists, TopicColumns
from spark_assign.assignors.range import racks_matter
from spark_assign.assignors.sticky.assign_sticky import STICKY, exception_text
from spark_assign.groups.kernel.plan_groups import assign as assign_specs
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    IntArray,
    PartitionSlices,
    compress_sorted,
    invert,
    key_ranges,
    mask_from_indexes,
    starts_new_key,
    values_by_key,
)
from spark_assign.simulation.kernel.assignment_request import (
    CODE_BITS,
    PARTITION_MASK,
    AssignmentRequest,
    AssignmentResponse,
    CodeLists,
    JoinedMember,
    codes_by_member,
    java_order,
)
from spark_assign.tables.errors import ConfigError

Assignor = Callable[[Sequence[AssignmentRequest]], list[AssignmentResponse]]
"""Computes responses to requests that have at least one member each."""


def _assign_by_kafka(assignor: str, requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes assignments as a class of Kafka's clients."""
    specs = read_requests(requests, reads_owned=assignor in STICKY)
    assignments = assign_specs(specs, assignor, np.ones(specs.num_groups, bool))
    rows = assignments.assigned_now.expand()
    member, codes = specs.list_index[rows.member], specs.topics.name[rows.topic] << CODE_BITS | rows.first
    assigned = codes_by_member(member, codes, specs.reported)
    errors = {group: exception_text(detail) for group, (_, detail) in assignments.rejected.items()}
    bounds = np.cumsum([0, *(len(request.members) for request in requests)]).tolist()
    return [
        AssignmentResponse(assigned[start:end], errors.get(group))
        for group, (start, end) in enumerate(pairwise(bounds))
    ]


ASSIGNORS: dict[str, Assignor] = {
    name: partial(_assign_by_kafka, name) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
}
"""Assignors by Kafka's names."""


def assign(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes a response to each request, with the assignor that it names.

    Returns:
        the responses, in the order of the requests.

    Raises:
        ConfigError: a request names an assignor that isn't in `ASSIGNORS`.
    """
    responses = [AssignmentResponse([])] * len(requests)  # the response to requests without members
    by_assignor = values_by_key((each.assignor, number) for number, each in enumerate(requests) if each.members)
    for name, numbers in by_assignor.items():
        if name not in ASSIGNORS:
            known = ", ".join(sorted(ASSIGNORS))
            raise ConfigError(f"assignor {name!r} can't be simulated. Assignors: {known}")
        for number, response in zip(numbers, ASSIGNORS[name]([requests[each] for each in numbers]), strict=True):
            responses[number] = response
    return responses


# --- the specs of requests ------------------------------------------------------------------------------------------


@cache
def _no_facts() -> IndexedFacts:
    """Returns facts without rows. Made on first use: the conversion imports pandas."""
    return index_facts(pa.schema(FACT_TYPES).empty_table())


@dataclass(frozen=True, kw_only=True)
class RequestSpecs(GroupSpecs):
    """The specs of requests, each with at least one member. A group is a request.

    Attributes:
        requests: the requests.
        listed: the members of all requests, request by request, in the coordinator's order.
        reported: the partitions that each of them reports as owned.
        list_index: index into `listed` of each member.
    """

    requests: Sequence[AssignmentRequest]
    listed: list[JoinedMember]
    reported: CodeLists
    list_index: IntArray

    @cached_property
    def member_id(self) -> pa.Array:
        """Member id of each member."""
        return pa.array([self.listed[index].member_id for index in self.list_index.tolist()], pa.string())

    @cached_property
    def instance_id(self) -> pa.Array:
        """Instance id of each member; null for dynamic members."""
        return pa.array([self.listed[index].group_instance_id for index in self.list_index.tolist()], pa.string())

    @cached_property
    def list_position(self) -> IntArray:
        """Position of each member in the coordinator's member list."""
        return self.list_index

    @cached_property
    def member_hash(self) -> IntArray:
        """`String.hashCode` of each member id."""
        return np.array([member.hash for member in self.listed], np.int64)[self.list_index]

    @cached_property
    def topic_hash(self) -> IntArray:
        """`String.hashCode` of each topic's name."""
        starts = np.cumsum([0, *(len(request.topics.names) for request in self.requests)])
        hashes = np.concatenate([request.topics.hashes for request in self.requests])
        return np.asarray(hashes[starts[self.topics.group] + self.topics.name], np.int64)

    @cached_property
    def subscriber_lists(self) -> SubscriberLists:
        """The subscribers of each topic, in the order in which range and roundrobin assign to them."""
        if [member.group_instance_id for member in self.listed].count(None) == len(self.listed):
            return self.list_subscribers(np.arange(len(self.members)))
        return super().subscriber_lists


def read_requests(requests: Sequence[AssignmentRequest], *, reads_owned: bool) -> RequestSpecs:
    """Builds the specs of requests that have members.

    Args:
        requests: the requests.
        reads_owned: whether the assignor reads what members own, and their generations.
    """
    listed: list[JoinedMember] = []
    list_index: list[int] = []
    topics: list[tuple[int, int, int, int]] = []
    sets: list[IntArray] = []
    for index, request in enumerate(requests):
        list_index += [len(listed) + place for place in java_order([each.member_id for each in request.members])]
        set_of = _find_sets(request.members, len(listed), sets)
        for topic in sorted(set_of):
            topics.append((index, topic, request.partitions.get(topic, 0), set_of[topic]))
        listed += request.members
    order = np.array(list_index, np.int64)
    member_index = invert(order, len(order))
    group = np.repeat(np.arange(len(requests)), [len(request.members) for request in requests])
    topic_group, name, partitions, subscriber_set = np.array(topics, np.int64).reshape(-1, 4).T.copy()
    topic_columns = TopicColumns(topic_group, name, partitions, np.ones(len(name), bool), subscriber_set)
    rack, rack_sets, rack_set = _read_racks(requests, listed, topic_columns)
    members = _read_members(listed, group, rack, generations=reads_owned)
    reported = CodeLists.of([each.owned for each in listed])
    return RequestSpecs(
        facts=_no_facts(),
        fact_group_index=np.zeros(len(requests), np.int64),
        members=members.take(order),
        topics=topic_columns,
        subscriber_sets=[np.sort(member_index[members]) for members in sets],
        owned=_read_owned(reported, group, member_index, topic_columns) if reads_owned else EMPTY_SLICES,
        departed_owned=EMPTY_SLICES,
        subscription_rows=None,
        racks=[],
        rack_sets=rack_sets,
        rack_set=rack_set,
        reported_order=EMPTY_SLICES,
        requests=requests,
        listed=listed,
        reported=reported,
        list_index=order,
    )


def _find_sets(members: Sequence[JoinedMember], start: int, sets: list[IntArray]) -> dict[int, int]:
    """Returns the subscriber set of each topic that these members subscribe to, and appends new sets to `sets`.

    Args:
        members: the members of one request.
        start: index of the first one among the members of all requests.
        sets: ascending member indexes of each set that isn't all members of its request.
    """
    subscriptions = {topics: index for index, topics in enumerate(dict.fromkeys(each.topics for each in members))}
    if len(subscriptions) == 1:
        return dict.fromkeys(members[0].topics, ALL_MEMBERS)
    topics = np.fromiter(chain.from_iterable(subscriptions), np.int64)
    order = np.argsort(topics, kind="stable")
    topics, of_topic = topics[order], np.repeat(np.arange(len(subscriptions)), [*map(len, subscriptions)])[order]
    of_member = np.array([subscriptions[each.topics] for each in members])
    known = {np.arange(len(subscriptions)).tobytes(): ALL_MEMBERS}
    set_of = {}
    for first, end in key_ranges(topics):
        key = of_topic[first:end].tobytes()
        if key not in known:
            known[key] = len(sets)
            sets.append(start + np.flatnonzero(mask_from_indexes(of_topic[first:end], len(subscriptions))[of_member]))
        set_of[int(topics[first])] = known[key]
    return set_of


def _read_members(
    listed: Sequence[JoinedMember], group: IntArray, rack: IntArray, *, generations: bool
) -> MemberColumns:
    """Returns the columns of the listed members; without generations, as if no member had one."""
    size = len(listed)
    generation, user_data_generation = np.full((2, size), -1, np.int64)
    has_user_data = np.zeros(size, bool)
    if generations:
        generation = np.maximum([each.generation_id for each in listed], -1)
        reported = [each.user_data_generation_id for each in listed]
        if reported.count(None) < size:
            has_user_data = np.array([each is not None for each in reported])
            user_data_generation = np.maximum([-1 if each is None else each for each in reported], -1)
    row = np.zeros(size, np.int64)
    has_subscription = np.array([bool(each.topics) for each in listed])
    return MemberColumns(group, row, generation, user_data_generation, has_user_data, rack, has_subscription)


def _read_owned(reported: CodeLists, group: IntArray, member_index: IntArray, topics: TopicColumns) -> PartitionSlices:
    """Returns the owned partitions of topics that have a subscriber in the same request.

    As in Kafka, the member's own subscription and the partition count aren't checked.
    """
    codes = reported.codes
    owner, topic = np.repeat(np.arange(len(reported.lengths)), reported.lengths), codes >> CODE_BITS
    is_start = starts_new_key(owner) | starts_new_key(topic)
    key, first, step, count = compress_sorted(np.cumsum(is_start, dtype=np.int64), codes & PARTITION_MASK)
    row = np.flatnonzero(is_start)[key - 1]
    wanted = group[owner[row]] << CODE_BITS | topic[row]
    known = np.append(topics.group << CODE_BITS | topics.name, np.iinfo(np.int64).max)
    topic_index = np.searchsorted(known, wanted)
    slices = PartitionSlices(member_index[owner[row]], topic_index, first, step, count)
    is_known = known[topic_index] == wanted
    return slices if is_known.all() else slices.take(is_known)


def _read_racks(
    requests: Sequence[AssignmentRequest], listed: Sequence[JoinedMember], topics: TopicColumns
) -> tuple[IntArray, list[frozenset[int]], dict[int, IntArray]]:
    """Returns the rack of each listed member, the rack sets, and the rack set of each partition by topic, if racks
    matter.

    Racks are numbered per request, so that requests with the same number of racks share their sets.
    """
    rack = np.full(len(listed), -1, np.int64)
    sets: dict[frozenset[int], int] = {frozenset(): 0}
    topic_rack_set: dict[int, IntArray] = {}
    bounds = np.searchsorted(topics.group, np.arange(len(requests) + 1)).tolist()
    start = 0
    for request, first, last in zip(requests, bounds, bounds[1:], strict=False):
        start, end = start + len(request.members), start
        if not request.topics.racks:
            continue
        member_racks = [member.rack_id or "" for member in request.members]
        layouts = {topic: _layout(request, int(topics.name[topic])) for topic in range(first, last)}
        used = set(chain.from_iterable(layouts.values()))
        if not racks_matter(used, set(member_racks) - {""}):
            continue
        names = sorted(frozenset(member_racks).union(*used) - {""})
        index = {"": -1} | {name: position for position, name in enumerate(names)}
        rack[end:start] = [index[name] for name in member_racks]
        set_of = {racks: sets.setdefault(frozenset(index[name] for name in racks), len(sets)) for racks in used}
        for topic, layout in layouts.items():
            topic_rack_set[topic] = np.array([set_of[racks] for racks in layout], np.int64)
    return rack, list(sets), topic_rack_set


def _layout(request: AssignmentRequest, topic: int) -> list[frozenset[str]]:
    """Returns the racks of the replicas of each partition of a topic; empty without metadata."""
    count = max(request.partitions.get(topic, 0), 0)
    known = list(request.topics.racks.get(topic, ())[:count])
    return known + [frozenset()] * (count - len(known))
