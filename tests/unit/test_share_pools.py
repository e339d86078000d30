"""Share groups: partitions that are assigned in columns get the members that they get turn by turn."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from spark_assign.assignors.share import simple_assignor
from spark_assign.assignors.share.share_group_input import ShareGroupSpecs
from spark_assign.assignors.share.simple_assignor import ShareAssignment, assign_simple
from spark_assign.numeric.arrays import BoolArray, IntArray, ranges_by_length


def drawn(random: Random) -> ShareGroupSpecs:
    """A group with equal or different subscriptions, of which some members, or none, have something."""
    members, topics = random.randint(1, 12), random.randint(1, 4)
    homogeneous = random.random() < 0.5
    counts = np.array([random.randint(1, random.choice([1, 3, 20])) for _ in range(topics)])
    subscribed = [
        list(range(topics)) if homogeneous else sorted(random.sample(range(topics), random.randint(1, topics)))
        for _ in range(members)
    ]
    topic, partition = np.repeat(np.arange(topics), counts), ranges_by_length(counts)
    share = random.choice([0, 0, 0.1, 0.5])
    owned = [(member, at) for member in range(members) for at in range(len(topic)) if random.random() < share]
    owner, at = np.array(owned, np.int64).reshape(-1, 2).T
    is_assignable = np.isin(topic, [each for mine in subscribed for each in mine])
    return ShareGroupSpecs(
        member_group=np.zeros(members, np.int64),
        has_subscription=np.ones(members, bool),
        homogeneous=np.array([homogeneous]),
        topic_group=np.zeros(topics, np.int64),
        topic_hash=np.array([random.getrandbits(32) for _ in range(topics)]),
        subscriber=np.repeat(np.arange(members), [len(mine) for mine in subscribed]),
        subscribed_topic=np.concatenate([np.array(mine) for mine in subscribed]),
        assignable_topic=topic[is_assignable],
        assignable_partition=partition[is_assignable],
        previous_member=owner,
        previous_topic=topic[at],
        previous_partition=partition[at],
    )


def one_by_one(
    pools: simple_assignor.PartitionPools, partitions: IntArray, *_: IntArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Leaves all partitions to the loop."""
    del pools
    empty = np.empty(0, np.int64)
    return empty, empty, np.zeros(len(partitions), bool)


def rows(found: ShareAssignment) -> list[tuple[int, int, int]]:
    """The new assignments, sorted."""
    return sorted(zip(*(found.member.tolist(), found.topic.tolist(), found.partition.tolist()), strict=True))


def test_columns_and_turns_assign_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few partitions for many members, too, where a member's turn comes twice, or quotas end early."""
    random, in_columns = Random(8), 0
    every = [drawn(random) for _ in range(120)]
    found = [assign_simple(specs) for specs in every]
    monkeypatch.setattr(simple_assignor, "_assign_undisputed_turns", one_by_one)
    for specs, ours in zip(every, found, strict=True):
        expected = assign_simple(specs)
        assert rows(ours) == rows(expected)
        assert ours.failed.tolist() == expected.failed.tolist()
        assert ours.reason.tolist() == expected.reason.tolist()
        in_columns += bool(len(ours.member)) and not len(specs.previous_member)
    assert in_columns > 25
