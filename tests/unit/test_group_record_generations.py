"""GroupMetadata read in one go: what it says is what the reader by tables says."""

from __future__ import annotations

import base64
import random
from pathlib import Path

from spark_assign.wire.group_records import RECORDS, _by_tables, write_value
from spark_assign.wire.group_records.codec import GROUP_METADATA, read_generation
from spark_assign.wire.reader import WireError
from tests.recorded_lines import read_rows
from tests.unit.group_record_bytes import mutated

GOLDEN = Path(__file__).parents[1] / "golden" / "wire.jsonl.gz"
_TEXTS = ["", "g", "größe", "x" * 300, "分析-group", "\U0001f600"]


def recorded() -> list[bytes]:
    """Values of GroupMetadata as Kafka's classes wrote them, damaged ones included."""
    return [
        base64.b64decode(row["value"])
        for row in read_rows(GOLDEN)
        if row["kind"] == "record" and row["type"] == "GroupMetadata" and row["value"]
    ]


def written(rng: random.Random) -> bytes:
    """A value in any version."""
    members = [
        {name: rng.choice(_TEXTS) for name in ("memberId", "clientId", "clientHost")}
        | {"groupInstanceId": rng.choice([None, *_TEXTS]), "rebalanceTimeout": rng.choice([-1, 0, 300_000])}
        | {"sessionTimeout": 45_000, "subscription": rng.randbytes(rng.randrange(30)), "assignment": b""}
        for _ in range(rng.randrange(4))
    ]
    head = {"protocolType": rng.choice(_TEXTS), "generation": rng.choice([-1, 0, 2**31 - 1])}
    head |= {name: rng.choice([None, *_TEXTS]) for name in ("protocol", "leader")}
    fields = head | {"currentStateTimestamp": rng.choice([-1, 2**62]), "members": members}
    return write_value(GROUP_METADATA, fields, rng.randrange(5))


def test_as_the_reader_by_tables(rng: random.Random) -> None:
    """Recorded and random ones, whole and mutated; regular ones of versions 0 to 3 are all read."""
    values = [*recorded(), *(written(rng) for _ in range(2_000))]
    values += [mutated(rng, rng.choice(values)) for _ in range(6_000)]
    read = 0
    for value in values:
        found = read_generation(value)
        if found is None:
            continue
        read += 1
        try:
            expected = _by_tables(RECORDS[GROUP_METADATA], value)
        except WireError as error:
            raise AssertionError(repr(value)) from error
        assert (expected.version, expected.fields, expected.unknown) == (value[1], found, ()), repr(value)
    assert read > 3_000
    for value in (written(rng) for _ in range(500)):
        assert (read_generation(value) is not None) == (value[1] < 4)
