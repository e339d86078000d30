"""Sticky and cooperative-sticky assignments for many requests, by the batch kernel `groups.assignors.sticky`.

For the differences between the two assignors, see `groups.assignors.sticky`: which generation the owned partitions are
of, and which partitions are withheld.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from spark_assign.groups.assignors.rack_aware_range import racks_matter
from spark_assign.groups.assignors.sticky.plan_batch import StickyBatch, plan_batch
from spark_assign.groups.assignors.sticky.sticky_groups import StickyGroups, member_hash_orders
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, compress_sorted
from spark_assign.numeric.segmented_arrays import starts_new_key
from spark_assign.simulation.kernel.assignment_request import (
    CODE_BITS,
    AssignmentRequest,
    AssignmentResponse,
    RequestTable,
    answer,
    java_order,
    layout,
    read_requests,
)

_MASK = (1 << CODE_BITS) - 1


def assign_sticky(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes assignments as Kafka's `StickyAssignor`."""
    return _assign(requests, cooperative=False)


def assign_cooperative_sticky(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes assignments as Kafka's `CooperativeStickyAssignor`."""
    return _assign(requests, cooperative=True)


def _assign(requests: Sequence[AssignmentRequest], *, cooperative: bool) -> list[AssignmentResponse]:
    table = read_requests(requests)
    by_id = _by_id(table)
    decided = plan_batch(_batch(table, by_id, cooperative))
    rows = decided.slices.take(~decided.withheld).expand()
    codes = table.topic[rows.topic] << CODE_BITS | rows.first
    return answer(table, by_id[rows.member], codes, decided.rejected)


def _by_id(table: RequestTable) -> IntArray:
    """Returns the member indexes sorted by request and member ID, which is the order in the kernels."""
    spans = zip(table.begin, table.begin[1:], strict=False)
    ids = [each.member_id for each in table.members]
    return np.array([begin + at for begin, end in spans for at in java_order(ids[begin:end])], np.int64)


def _batch(table: RequestTable, by_id: IntArray, cooperative: bool) -> StickyBatch:
    """Converts the requests to the input of the kernel."""
    size = len(table.members)
    number = np.empty(size, np.int64)
    number[by_id] = np.arange(size)
    member_request = np.repeat(np.arange(len(table.requests)), table.sizes)
    # Members are put into the leader's `HashMap` as the coordinator lists them.
    hashes = np.fromiter((each.hash for each in table.members), np.int64, size)
    walk, treeified = member_hash_orders(hashes[by_id], np.arange(size), member_request, number)
    generation, claimed_in = _generations(table, cooperative)
    rack, rack_sets, rack_set = _racks(table)
    return StickyBatch(
        groups=StickyGroups(
            member_group=member_request,  # sorted by request either way
            hash_order=walk,
            topic_group=table.topic_ask,
            partitions=table.partitions,
            cooperative=cooperative,
            treeified=treeified,
        ),
        owned_generation=claimed_in[by_id],
        generation=generation[by_id],
        owned=_claims(table, number, member_request),
        topic_subscriber_set=table.topic_class,
        topic_hash=_topic_hashes(table),
        topics_without_metadata=table.without_metadata,
        subscriber_sets={each: np.sort(number[members]) for each, members in enumerate(table.classes)},
        member_rack=rack[by_id],
        rack_sets=rack_sets,
        partition_rack_set=rack_set,
    )


def _generations(table: RequestTable, cooperative: bool) -> tuple[IntArray, IntArray]:
    """Returns the generation of each member's subscription, and the generation of its owned partitions."""
    size = len(table.members)
    generation = np.fromiter((each.generation_id for each in table.members), np.int64, size)
    reported = [each.user_data_generation_id for each in table.members]
    in_user_data = np.fromiter((-1 if each is None else each for each in reported), np.int64, size)
    silent = np.fromiter((each is None for each in reported), bool, size)
    generation, in_user_data = np.maximum(generation, -1), np.maximum(in_user_data, -1)
    in_subscription = (generation >= 0) if cooperative else np.zeros(size, bool)
    return generation, np.where(in_subscription | silent, generation, in_user_data)


def _topic_hashes(table: RequestTable) -> IntArray:
    begins = np.cumsum([0, *(len(request.topics.names) for request in table.requests)])
    every = np.concatenate([request.topics.hashes for request in table.requests])
    return np.asarray(every[begins[table.topic_ask] + table.topic], np.int64)


def _claims(table: RequestTable, number: IntArray, member_request: IntArray) -> PartitionSlices:
    """Returns the owned partitions of topics that have metadata and a subscriber in the same request.

    As in Kafka, the member's own subscription and the partition count aren't checked.
    """
    lengths = np.fromiter((len(each.owned) for each in table.members), np.int64, len(table.members))
    owned = chain.from_iterable(each.owned for each in table.members)
    codes = np.fromiter(owned, np.int64, int(lengths.sum()))
    owner, topic = np.repeat(np.arange(len(lengths)), lengths), codes >> CODE_BITS
    new = starts_new_key(owner) | starts_new_key(topic)
    key, first, step, count = compress_sorted(np.cumsum(new, dtype=np.int64), codes & _MASK)
    row = np.flatnonzero(new)[key - 1]
    wanted = member_request[owner[row]] << CODE_BITS | topic[row]
    known = np.append(table.topic_ask << CODE_BITS | table.topic, np.iinfo(np.int64).max)
    at = np.searchsorted(known, wanted)
    runs = PartitionSlices(number[owner[row]], at, first, step, count)
    there = known[at] == wanted
    return runs if there.all() else runs.take(there)


def _racks(table: RequestTable) -> tuple[IntArray, list[frozenset[int]], dict[int, IntArray]]:
    """Returns the rack of each member, the rack sets, and the rack set of each partition by topic, if racks matter.

    Racks are numbered per request, so that requests with the same number of racks share their sets.
    """
    rack = np.full(len(table.members), -1, np.int64)
    sets: dict[frozenset[int], int] = {frozenset(): 0}
    of_topic: dict[int, IntArray] = {}
    ends = np.searchsorted(table.topic_ask, np.arange(len(table.requests)), "right").tolist()
    for request, begin, topic_end, topic_begin in zip(table.requests, table.begin, ends, [0, *ends], strict=False):
        if not request.topics.racks:
            continue
        of_member = [each.rack_id or "" for each in request.members]
        layouts = [layout(request, topic) for topic in table.topic[topic_begin:topic_end].tolist()]
        used = set(chain.from_iterable(layouts))
        if not racks_matter(used, set(of_member) - {""}):
            continue
        names = sorted(frozenset(of_member).union(*used) - {""})
        number = {"": -1} | {name: at for at, name in enumerate(names)}
        rack[begin : begin + len(of_member)] = [number[name] for name in of_member]
        number_of = {each: sets.setdefault(frozenset(number[name] for name in each), len(sets)) for each in used}
        for at, racks in enumerate(layouts, topic_begin):
            of_topic[at] = np.array([number_of[each] for each in racks], np.int64)
    return rack, list(sets), of_topic
