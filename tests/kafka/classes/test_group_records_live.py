"""Random records of `__consumer_offsets`, fresh at every run, read and written by the broker's classes and by us."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_assign.wire.group_records import NEWEST, write_key
from tests.kafka import group_records, live_assignors, maven, random_group_records

pytestmark = pytest.mark.kafka

EACH, DAMAGED = 25, 10_000

TAG_TWICE = write_key(13, {"groupId": "g", "memberId": "m"}), bytes.fromhex(f"000002{'2b' * 16}010200000001ff00")
"""A target of a share group's member, with an unknown tagged field twice in a topic: is read, but not written again."""

Release = tuple[str, tuple[int, ...]]
"""A class path, and the types that are asked of it."""


@pytest.fixture(params=["4.4", "4.0"])
def release(request: pytest.FixtureRequest, kafka_jars: str) -> Release:
    """Two releases, each asked what the other does not know."""
    if request.param == "4.4":
        return kafka_jars, group_records.SINCE_4_1
    return maven.group_coordinator_classpath("4.0.0"), group_records.ONLY_BEFORE_4_1


def test_records_are_read_and_written_as_the_broker_does(release: Release, seed: int) -> None:
    """What we write it reads as we do and writes alike; what it writes of the same fields are our bytes."""
    made = list(random_group_records.records(seed, EACH, release[1]))
    read = group_records.answered([pair for _, _, pair in made], release[0])
    different = [row for row, (_, _, pair) in zip(read, made, strict=True) if group_records.differs(row, *pair)]
    assert not different, group_records.differing(different)
    again = [row for row in read if row.get("value_written", row["value"]) != row["value"]]
    again += [row for row in read if row["key_written"] != row["key"] or "not_written" in row]
    assert not again, group_records.differing(again)
    given = [
        {"type": type, "version": version, "fields": row["value_read"], "value": row["value"]}
        for row, (type, version, _) in zip(read, made, strict=True)
        if row["value"] is not None and not row["unknown"]
    ]
    written = live_assignors.answered(given, release[0], group_records.PROGRAM)
    different = [row for row in written if row["written"] != row["value"]]
    assert not different, group_records.differing(different)
    assert len(written) > 0.7 * len(made)


def test_damaged_records(release: Release, seed: int) -> None:
    """Cut, turned, added to and mixed up: refused by both, or read alike by both."""
    sound = [pair for _, _, pair in random_group_records.records(seed, EACH, release[1])]
    harmed = [TAG_TWICE, *random_group_records.damaged(seed, sound, DAMAGED)]
    # A key may have been turned into a type of the other release.
    others = {type.to_bytes(2) for type in NEWEST if type not in release[1]}
    harmed = [pair for pair in harmed if pair[0][:2] not in others]
    if release[1] == group_records.ONLY_BEFORE_4_1:
        harmed = [pair for pair in harmed[: DAMAGED // 5] if not group_records.refused_since_4_4(*pair)]
    read = group_records.answered(harmed, release[0])
    different = [row for row, pair in zip(read, harmed, strict=True) if group_records.differs(row, *pair)]
    assert not different, group_records.differing(different)
    seen = Counter("refused" if "refused" in row else "version" if "unknown_version" in row else "read" for row in read)
    assert min(seen["refused"], seen["read"]) > 0.1 * len(harmed), seen
    assert seen["version"] > 0, seen
