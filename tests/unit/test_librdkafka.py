"""What of librdkafka's assignors hangs on the order in which things come."""

from __future__ import annotations

import time

import pytest

from spark_assign.assignors.librdkafka.assign_librdkafka import assign_sticky, withhold
from spark_assign.assignors.librdkafka.balance import (
    LibrdkafkaGroup,
    LibrdkafkaMember,
    LibrdkafkaMovements,
    UndefinedBehaviorError,
    merge_sort,
    metadata_response_order,
)


def _member(
    name: str, *owned: tuple[str, int], topics: str = "t", generation: int = 1, **more: str
) -> LibrdkafkaMember:
    return LibrdkafkaMember(name, more.get("instance"), more.get("rack", ""), generation, frozenset(topics), owned)


def test_up_to_four_topics_keep_the_order_of_the_request() -> None:
    """Members as they are listed, each with its topics by name."""
    assert metadata_response_order([_member("b", topics="zc"), _member("a", topics="ac")]) == ["c", "z", "a"]


def test_more_topics_are_answered_as_scalas_set_has_them() -> None:
    """No topic is lost, and the order does not hang on that of members."""
    one, other = _member("a", topics="abcdefgh"), _member("b", topics="hijkl")
    assert metadata_response_order([one, other]) == metadata_response_order([other, one])
    assert (
        sorted(metadata_response_order([one, other])) == list("abcdefghijkl") != metadata_response_order([one, other])
    )


def test_static_members_go_by_instance_among_themselves_only() -> None:
    """So the order that comes out hangs on the one that goes in."""
    members = [_member("a", instance="z"), _member("c", instance="x"), _member("b")]
    assert [member.member_id for member in merge_sort(members)] == ["a", "b", "c"]
    assert [member.member_id for member in merge_sort(members[::-1])] == ["b", "c", "a"]


def test_who_is_listed_last_counts_as_the_owner() -> None:
    """The newer claim wins the partition, and yet has to wait until the older one's member has given it up."""
    new, old = _member("new", ("t", 0), generation=2), _member("old", ("t", 0))
    for members, waits in (((new, old), True), ((old, new), False)):
        group = LibrdkafkaGroup(members, {"t": 1}, {})
        now, later = withhold(group, assign_sticky(group))
        assert (now["new"], later["new"]) == (([], [("t", 0)]) if waits else ([("t", 0)], []))


def test_a_lone_partition_that_moves_back_is_read_after_it_is_freed() -> None:
    """With another one of its kind that one moves in its place."""
    movements = LibrdkafkaMovements()
    movements.move(("t", 0), "a", "b", instead=False)
    assert movements.partition_to_move(("t", 5), "b", "a") == ("t", 0)
    with pytest.raises(UndefinedBehaviorError, match="freed"):
        movements.move(("t", 0), "b", "a", instead=True)
    movements = LibrdkafkaMovements()
    movements.move(("t", 0), "a", "b", instead=False)
    movements.move(("t", 1), "a", "b", instead=False)
    assert movements.move(("t", 0), "b", "a", instead=True) == ("t", 1)


def test_a_rack_of_one_among_thousands_of_members() -> None:
    """It gets all partitions, as only it is near them, and then passes them on. Members are looked up by rack."""
    members = tuple(_member(f"m{at:04d}", rack="b" if at else "a") for at in range(6_000))
    racks = [frozenset("a" if at else "ab") for at in range(6_000)]
    start = time.process_time()
    assigned = assign_sticky(LibrdkafkaGroup(members, {"t": 6_000}, {"t": racks}))
    assert {len(partitions) for partitions in assigned.values()} == {1}
    assert time.process_time() - start < 2.5
