"""streams-sticky without Spark: its page's example, its promises on random groups, and what differs in 4.3."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from spark_assign.assignors.streams.sticky_task_assignor import RELEASES, Quota, assign_tasks
from spark_assign.assignors.streams.task_assignor_api import StreamsGroupAssignment, StreamsGroupSpec
from spark_assign.streams.kernel.streams_group_input import member_order, process_order
from tests.golden import streams_rows
from tests.golden.streams_rows import Row
from tests.kafka import random_streams
from tests.sizes import drawn

SEED = 11


def row(members: list[Row], *, stateful: bool = True, partitions: int = 4, standby_replicas: int = 1) -> Row:
    """A group with one subtopology."""
    nothing: Row = {"active": {}, "standby": {}, "warmup": {}, "offsets": {}}
    return {
        "standby_replicas": standby_replicas,
        "subtopologies": {"0": {"partitions": partitions, "stateful": stateful}},
        "members": [nothing | {"process": f"p-{member['id']}"} | member for member in members],
    }


def planned(group: Row, *, release: str = "4.4") -> dict[str, tuple[list[int], list[int]]]:
    """Of each member its active tasks and its standbys."""
    made = streams_rows.group_of(group, release=release)
    sets = streams_rows.sets_of(made, assign_tasks(made, release=release))
    return {
        member.member_id: tuple(  # type: ignore[misc]
            sorted(task for role, _, task in sets.get(member.member_id, ()) if role == w) for w in ("active", "standby")
        )
        for member in made.members
    }


def test_the_example_of_the_page() -> None:
    """C0 has everything, C1 is new."""
    tasks = planned(row([{"id": "C0", "active": {"0": [0, 1, 2, 3]}}, {"id": "C1"}]))
    assert tasks == {"C0": ([0, 1], [2, 3]), "C1": ([2, 3], [0, 1])}


def test_who_has_the_state_takes_over() -> None:
    """Step 2, a standby before a higher offset, and of two standbys the one that is further."""
    members = [
        {"id": "a", "offsets": {"0": {"0": 99}}},
        {"id": "b", "standby": {"0": [0]}, "offsets": {"0": {"0": 5}}},
        {"id": "c", "standby": {"0": [0]}, "offsets": {"0": {"0": 7}}},
    ]
    assert planned(row(members, partitions=1, standby_replicas=0))["c"] == ([0], [])
    assert planned(row(members, partitions=1, standby_replicas=0), release="4.3")["b"] == ([0], [])
    assert planned(row([*members[:1], {"id": "d"}], partitions=1, standby_replicas=0))["a"] == ([0], [])


def test_no_standby_beside_its_active_task() -> None:
    """One process: the copies stay unassigned."""
    made = streams_rows.group_of(row([{"id": "a", "process": "p"}, {"id": "b", "process": "p"}], standby_replicas=2))
    target = assign_tasks(made)
    assert target.standby == {}
    assert target.unassigned == dict.fromkeys(made.tasks(), 2)


@pytest.mark.parametrize("release", RELEASES.values())
def test_as_many_standbys_as_members_take_linear_time(release: str) -> None:
    """All members have state of the task; each missing standby was compared with all members and processes."""
    members = [{"id": f"m{at:04d}", "standby": {"0": [0]}} for at in range(2_000)]
    made = streams_rows.group_of(row(members, partitions=1, standby_replicas=1_999), release=release)
    start = time.process_time()
    target = assign_tasks(made, release=release)
    assert time.process_time() - start < 3
    assert len(target.standby[0, 0]) == 1_999


def test_nobody_is_there() -> None:
    """Nothing is made of it."""
    assert assign_tasks(streams_rows.group_of(row([]))) == StreamsGroupAssignment()


def test_a_quota_falls_only_by_who_reaches_it() -> None:
    """Seven tasks of three members: three for each; whoever has three takes its share along."""
    quota = Quota(7, 3)
    assert quota.per_member == 3
    quota.count(2)
    assert quota.per_member == 3
    quota.count(3)
    assert quota.per_member == 2
    quota.count(2)
    quota.count(2)
    assert quota.per_member == 0


def test_orders() -> None:
    """Positions count before the coordinator's table, and both only inside a bucket of a map by member id."""
    ids = ["Aa", "BB", "a", "b"]  # the first two share a hash code
    assert [ids[at] for at in member_order(ids, [1, 0, 3, 2])].index("BB") == 0
    assert [ids[at] for at in member_order(ids, [0, 1, 3, 2])].index("Aa") == 0
    order = member_order(ids, [None] * 4)
    assert sorted(order) == [0, 1, 2, 3]
    assert order[2:] == [2, 3] == member_order(ids, [3, 2, 1, 0])[2:]
    # A map by computeIfAbsent puts the newer of one bucket first, one by putIfAbsent last.
    assert process_order(["Aa", "BB"]) == ["BB", "Aa"]
    assert process_order(["Aa", "BB"], release_4_3=True) == ["Aa", "BB"]


@pytest.mark.parametrize("release", RELEASES.values())
def test_promises(release: str) -> None:
    """Complete, once in a process, no more copies than asked for, and nobody has more than a heap would give."""
    standbys = 0
    for each in random_streams.groups(SEED, drawn(120, 250)):
        group = streams_rows.group_of(each, release=release)
        target = assign_tasks(group, release=release)
        assert set(target.active) == set(group.tasks())
        _check_copies(group, target)
        standbys += len(target.standby)
        counts = Counter(target.active.values())
        quota = -(-len(group.tasks()) // len(group.members))
        kept = Counter(at for task, at in target.active.items() if task in group.members[at].active)
        assert all(kept[at] <= quota for at in counts)
    assert standbys > drawn(120, 250)


def _check_copies(group: StreamsGroupSpec, target: StreamsGroupAssignment) -> None:
    processes = {member.process_id for member in group.members}
    for task in group.tasks(stateful=True):
        copies = target.standby.get(task, [])
        there = [group.members[at].process_id for at in (*copies, target.active[task])]
        assert len(set(there)) == len(there)
        assert len(copies) == min(group.standby_replicas, len(processes) - 1)
        assert target.unassigned.get(task, 0) == group.standby_replicas - len(copies)
    assert set(target.standby) <= set(group.tasks(stateful=True))


def test_a_target_is_kept_once_it_is_reached_without_anything_to_balance() -> None:
    """What a fresh group is given moves nowhere in the next round."""
    for each in random_streams.sequences(SEED, drawn(30, 60)):
        group = streams_rows.group_of(each)
        sets = streams_rows.sets_of(group, assign_tasks(group))
        for member in each["members"]:
            got = sets.get(member["id"], set())
            for role in ("active", "standby"):
                member[role] = {n: [at for r, s, at in got if (r, s) == (role, n)] for n in each["subtopologies"]}
        again = streams_rows.group_of(each)
        moved = [task for task, at in assign_tasks(again).active.items() if task not in again.members[at].active]
        assert len(moved) <= len(again.tasks()) // 2
