"""librdkafka's cooperative-sticky where nothing is in dispute (`undisputed`), many groups at once.

Principle: everybody keeps what it owns; what nobody owns goes to whoever has least; then the fullest give to the
emptiest.

What the balancing of `groups.assignors.librdkafka` comes to here
    - It asks for each partition whether any two members differ by two or more, and stops once they do not.
    - It walks over partitions from the fullest, each time the first one by topic and number of whoever has most left of
      what it owned. As long as two members differ by two or more, that one is the fullest now, too: members that were
      given something have at most one more than the emptiest, and the emptiest never has less than before.
    - So each step of the walk moves a partition from the fullest, of these the last by id, to the emptiest, of these
      the first. Nobody takes that gives, no partition moves twice, and every move makes loads more even.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.librdkafka.metadata_order import answered_places
from spark_assign.groups.assignors.sticky.constrained import as_runs
from spark_assign.groups.assignors.sticky.retained_partitions import keep_told
from spark_assign.groups.assignors.sticky.sticky_types import BALANCING, STAYS
from spark_assign.groups.assignors.sticky.water_filling import fill_up
from spark_assign.groups.kernel.group_assignments import GroupAssignments
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.undisputed import UndisputedGroups
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import byte_ranks
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers


def plan_undisputed(specs: GroupSpecs, undisputed: UndisputedGroups) -> GroupAssignments:
    """Plan these groups."""
    members, topics = specs.members, specs.topics
    name, topic_name = byte_ranks(specs.member_id), byte_ranks(specs.topic)
    subscribers = np.flatnonzero(members.has_subscription & undisputed.groups[members.group])
    group = members.group[subscribers]
    left = _in_turn(specs, undisputed, topic_name)
    free = np.bincount(topics.group[undisputed.topic], minlength=specs.num_groups)
    to_member = subscribers[fill_up(group, undisputed.load[subscribers], name[subscribers], free)]
    filled = np.zeros(len(to_member), np.int64)
    dealt, reason, withheld = as_runs(
        to_member, undisputed.topic[left], undisputed.partition[left], filled, filled.astype(bool)
    )

    load = undisputed.load + np.bincount(to_member, minlength=len(members))
    from_member, turn, getter = _moves(group, subscribers, load, name, specs.num_groups)
    kept, moved = _given(undisputed.owned, load, from_member, topic_name)
    # The moved ones are sorted by member; each member's turns count from 0.
    begin = np.searchsorted(moved.member, from_member)
    moved = moved.take(begin + turn)
    why, waits = np.full(len(moved), BALANCING), np.ones(len(moved), bool)
    taken, why, waits = as_runs(getter, moved.topic, moved.first, why, waits)
    stays = np.full(len(kept), STAYS)
    return GroupAssignments(
        kept.concat(dealt).concat(taken),
        np.concatenate([stays, reason, why]),
        np.concatenate([np.zeros(len(kept), bool), withheld, waits]),
        {},
    )


def _in_turn(specs: GroupSpecs, undisputed: UndisputedGroups, topic_name: IntArray) -> IntArray:
    """What nobody owns in the order in which it is handed out, as places in it.

    Where nobody owns anything that is by topic and number, elsewhere backwards, with topics as the broker answers.
    """
    topics = specs.topics
    group = topics.group[undisputed.topic]
    some = np.flatnonzero(topics.is_subscribed & undisputed.groups[topics.group])
    place = topic_name.copy()
    hashes = string_hashes(specs.facts.topic_names.to_pylist())[topics.name[some]]
    backwards = np.zeros(specs.num_groups, bool)
    backwards[specs.members.group[undisputed.owned.member]] = True
    answered = answered_places(topics.group[some], topic_name[some], hashes)
    place[some] = np.where(backwards[topics.group[some]], -answered, topic_name[some])
    number = np.where(backwards[group], -undisputed.partition, undisputed.partition)
    return np.lexsort((number, place[undisputed.topic], group))


def _moves(
    group: IntArray, subscribers: IntArray, load: IntArray, name: IntArray, number: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Who gives, the how-manieth partition that it gives, and to whom."""
    has, name = load[subscribers], name[subscribers]
    size = np.maximum(np.bincount(group, minlength=number), 1)
    quota = (np.bincount(group, has, number).astype(np.int64) // size)[group]
    gives, gets = np.maximum(has - quota, 0), np.maximum(quota + 1 - has, 0)
    apart = _spread(group, has, number) > 1
    gives[~apart[group]] = gets[~apart[group]] = 0
    high = np.repeat(np.arange(len(has)), gives)
    turn = ranges_by_length(gives)
    order = np.lexsort((-name[high], turn - has[high], group[high]))
    high, turn = high[order], turn[order]
    low = np.repeat(np.arange(len(has)), gets)
    levels = has[low] + ranges_by_length(gets)
    order = np.lexsort((name[low], levels, group[low]))
    low, levels = low[order], levels[order]
    # The n-th that gives goes with the n-th that gets, as long as they differ by two or more.
    begins = np.searchsorted(group[low], np.arange(number + 1))
    at = begins[group[high]] + row_numbers(group[high])
    there = at < begins[group[high] + 1]
    high, turn, at = high[there], turn[there], at[there]
    moves = has[high] - turn > levels[at] + 1
    return subscribers[high[moves]], turn[moves], subscribers[low[at[moves]]]


def _spread(group: IntArray, has: IntArray, number: int) -> IntArray:
    most, least = np.zeros(number, np.int64), np.full(number, np.iinfo(np.int64).max)
    np.maximum.at(most, group, has)
    np.minimum.at(least, group, has)
    spread: IntArray = np.maximum(most - least, 0)
    return spread


def _given(
    owned: PartitionSlices, load: IntArray, from_member: IntArray, topic_name: IntArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """What members keep of what they own, and the partitions that they give up, by member, topic and number."""
    if not len(from_member):
        return owned, EMPTY_SLICES
    gives = np.bincount(from_member, minlength=len(load))
    some = (gives > 0)[owned.member]
    by_name = np.argsort(topic_name, kind="stable")
    rank = np.empty(len(by_name), np.int64)
    rank[by_name] = np.arange(len(by_name))
    runs = owned.take(some)
    first, rest = keep_told(
        PartitionSlices(runs.member, rank[runs.topic], *runs.columns[2:]), load, gives, EMPTY_SLICES
    )
    first = first.expand()
    first = first.take(np.lexsort((first.first, first.topic, first.member)))
    kept = PartitionSlices(rest.member, by_name[rest.topic], *rest.columns[2:])
    return owned.take(~some).concat(kept), PartitionSlices(first.member, by_name[first.topic], *first.columns[2:])
