"""Hosts and metadata are taken out of records; nothing that was not read is kept."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_assign.connect import connect_protocol
from spark_assign.history.kernel import redact
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.tables import history as tables
from spark_assign.wire import consumer_protocol
from spark_assign.wire.group_records import read_key, read_value, write_key, write_value
from spark_assign.wire.reader import WireError

RECORDS = to_arrow_schema(tables.RECORDS)

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-history" / "records.parquet"
TOPIC_ID = "mKvnECflQ_moJD8_4ThCgA"
HOST = "db-7.internal"
Pair = tuple[bytes | None, bytes | None]


def left_of(pairs: list[Pair], *, hosts: bool = True, metadata: bool = True) -> list[Pair]:
    """Keys and values afterwards, of a batch that is a slice of another one."""
    size = len(pairs) + 1
    columns = [["c"] * size, [0] * size, list(range(size)), [0] * size, *zip((b"\0\1", b"x"), *pairs, strict=True)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=RECORDS).slice(1)
    left = redact.redact_records(batch, hosts=hosts, metadata=metadata)
    assert left.schema == RECORDS
    assert left.column("offset") == batch.column("offset")
    return list(zip(left.column("key").to_pylist(), left.column("value").to_pylist(), strict=True))


def as_if_one_by_one(pair: Pair) -> Pair:
    """A commit without metadata, by the classes for one record."""
    key, value = pair
    assert key is not None
    if value is None:
        return pair
    read = read_value(read_key(key).type, value)
    return key, write_value(1, read.fields | {"metadata": ""}, read.version)


def commit(version: int, metadata: str, **more: Any) -> Pair:
    """Of an offset."""
    key = write_key(1, {"group": "g", "topic": "orders", "partition": 3})
    fields = {"offset": 7, "leaderEpoch": 2, "metadata": metadata, "commitTimestamp": 5, "expireTimestamp": -1}
    return key, write_value(1, fields | {"topicId": TOPIC_ID} | more, version)


def test_metadata_of_commits_is_left_out() -> None:
    """In each version; a long one, an empty one, a topic id, a tombstone; without the flag they are as they were."""
    pairs = [commit(version, text) for version in range(5) for text in ("", "m", "x" * 300)]
    pairs += [(pairs[0][0], None)]
    assert left_of(pairs) == [as_if_one_by_one(pair) for pair in pairs]
    assert left_of(pairs, metadata=False) == pairs
    assert left_of(pairs, hosts=False) == [as_if_one_by_one(pair) for pair in pairs]
    assert left_of(pairs, hosts=False, metadata=False) == pairs


def test_what_hangs_on_a_commit_is_no_commit() -> None:
    """Bytes behind it are left out, and of one that is cut off nothing is left."""
    for version in range(5):
        for text in ("", "m" * 200):
            key, value = commit(version, text)
            assert value is not None
            expected = as_if_one_by_one((key, value))
            assert left_of([(key, value + HOST.encode())]) == [expected]
            assert left_of([(key, value[:-1])]) == [(key, b"")]
            assert left_of([(key + HOST.encode(), value)]) == [expected]


def subscription(version: int, user_data: bytes) -> bytes:
    """Of a consumer: topics, user data, and what comes after it."""
    subscription = struct.pack(">hih", version, 1, 6) + b"orders" + struct.pack(">i", len(user_data)) + user_data
    owned = struct.pack(">ih", 1, 6) + b"orders" + struct.pack(">ii", 1, 4)
    return subscription + b"".join([owned, struct.pack(">i", 8), struct.pack(">h", 2) + b"r1"][:version])


def assignment(user_data: bytes) -> bytes:
    """Of a consumer."""
    assignment = struct.pack(">hih", 1, 1, 6) + b"orders" + struct.pack(">ii", 1, 4)
    return assignment + struct.pack(">i", len(user_data)) + user_data


def group(protocol_type: str, protocol: str, subscription: bytes, assignment: bytes, named: str = "c-1") -> Pair:
    """A classic group of one member."""
    member = {"memberId": f"{named}-uuid", "groupInstanceId": None, "clientId": named, "clientHost": f"/{HOST}"}
    member |= {"rebalanceTimeout": 5, "sessionTimeout": 6, "subscription": subscription, "assignment": assignment}
    fields = {"protocolType": protocol_type, "generation": 3, "protocol": protocol, "leader": f"{named}-uuid"}
    fields |= {"currentStateTimestamp": 9, "members": [member]}
    return write_key(2, {"group": "g"}), write_value(2, fields, 3)


def member_of(pair: Pair) -> dict[str, Any]:
    """Of such a group, and who leads it."""
    assert pair[1] is not None
    fields = read_value(2, pair[1]).fields
    (member,) = fields["members"]
    return member | {"leader": fields["leader"]}


@pytest.mark.parametrize("version", range(4))
def test_user_data_is_kept_where_it_is_known(version: int) -> None:
    data = HOST.encode()
    for protocol, kept in (("range", True), ("cooperative-sticky", True), ("stream", False), ("my-own", False)):
        before = group("consumer", protocol, subscription(version, data) + data, assignment(data) + data)
        (after,) = left_of([before])
        expected = data if kept else None
        member_subscription, member_assignment = member_of(after)["subscription"], member_of(after)["assignment"]
        assert consumer_protocol.subscription(member_subscription).user_data == expected
        assert consumer_protocol.assignment(member_assignment).user_data == expected
        for was, read in (
            (member_subscription, consumer_protocol.subscription),
            (member_assignment, consumer_protocol.assignment),
        ):
            name = "subscription" if was is member_subscription else "assignment"
            assert vars(read(was)) | {"user_data": None} == vars(read(member_of(before)[name])) | {"user_data": None}
        assert after[1] is not None
        assert after[1].count(data) == (2 if kept else 0)


def test_connect_workers_are_named_without_hosts() -> None:
    url, named = f"http://{HOST}:8083/".encode(), f"connect-{HOST}:8083"

    def text(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    tasks = struct.pack(">i", 1) + text(b"sink") + struct.pack(">iii", 2, -1, 0)
    assignment = struct.pack(">hh", 1, 0) + text(f"{named}-uuid".encode()) + text(url) + struct.pack(">q", 4) + tasks
    assignment += struct.pack(">ii", -1, 30)
    subscription = struct.pack(">h", 1) + text(url) + struct.pack(">qi", 4, len(assignment)) + assignment
    (after,) = left_of([group("connect", "sessioned", subscription, assignment, named)])
    assert after[1] is not None
    assert HOST.encode() not in after[1]
    member = member_of(after)
    assert (member["clientId"], member["memberId"], member["leader"]) == (
        *("connect-:8083", "connect-:8083-uuid", "connect-:8083-uuid"),
    )
    expected = connect_protocol.read_assignment(assignment)
    found = connect_protocol.read_assignment(member["assignment"])
    hidden = {"leader": member["leader"]}
    assert vars(found) == vars(expected) | hidden
    state = connect_protocol.read_worker_state(member["subscription"])
    assert (state.url, state.config_offset) == ("", 4)
    assert state.running is not None
    assert vars(state.running) == vars(expected) | hidden


@pytest.mark.parametrize(("protocol_type", "protocol"), [("consumer", "range"), ("connect", "sessioned")])
def test_of_members_without_bytes_nothing_is_made_up(protocol_type: str, protocol: str) -> None:
    """A member has no assignment before its first one; bytes that can't be read become others that can't."""
    for before, expected in ((b"", b""), (b"\0", b"\0"), (HOST.encode(), b"\0")):
        (after,) = left_of([group(protocol_type, protocol, before, before)])
        assert (member_of(after)["subscription"], member_of(after)["assignment"]) == (expected, expected)


def test_workers_that_run_nothing_yet() -> None:
    """Version 0 says nothing of what runs; null is not an empty list. The smallest entry has an empty name."""
    url = b"\0\x08http://h"
    for version, running in ((0, b""), (1, b"\xff\xff\xff\xff")):
        state = struct.pack(">h", version) + url + struct.pack(">q", 4) + running
        assignment = struct.pack(">hh", 0, 0) + b"\0\1a" + url + struct.pack(">qihi", 4, 1, 0, 0)
        (after,) = left_of([group("connect", "default", state, assignment)])
        assert member_of(after)["subscription"] == struct.pack(">hhq", version, 0, 4) + running
        assert member_of(after)["assignment"] == struct.pack(">hh", 0, 0) + b"\0\1a\0\0" + assignment[-18:]


def test_groups_that_nobody_knows_keep_who_was_there() -> None:
    (after,) = left_of([group("my-own", "x", HOST.encode(), HOST.encode())])
    assert (member_of(after)["subscription"], member_of(after)["assignment"]) == (b"", b"")


def test_members_of_the_brokers_protocols() -> None:
    key = {"groupId": "g", "memberId": "m"}
    classic = {"sessionTimeoutMs": 4, "supportedProtocols": [{"name": "x", "metadata": subscription(3, HOST.encode())}]}
    common = {"rackId": None, "clientId": "c", "clientHost": f"/{HOST}"}
    consumer = {
        "instanceId": None,
        "subscribedTopicNames": ["a"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": 3,
    }
    consumer |= {"serverAssignor": None, "classicMemberMetadata": classic}
    streams = {"instanceId": None, "rebalanceTimeoutMs": 3, "topologyEpoch": 0, "processId": "p", "clientTags": []}
    streams |= {"userEndpoint": {"host": HOST, "port": 80}}
    for type, more in ((5, consumer), (10, {"subscribedTopicNames": ["a"]}), (19, streams)):
        before = write_key(type, key), write_value(type, common | more, 0)
        (after,) = left_of([before])
        assert after[1] is not None
        assert HOST.encode() not in after[1], type
        assert after[0] == before[0]
        found = read_value(type, after[1]).fields
        changed = {"clientHost", "classicMemberMetadata", "userEndpoint"}
        was = read_value(type, before[1]).fields
        assert {name for name in was if was[name] != found[name]} == changed & was.keys()


def test_of_what_cannot_be_read_nothing_is_left() -> None:
    junk = HOST.encode()
    known = write_key(2, {"group": "g"})
    assert left_of(
        [
            (b"\0\x63" + junk, junk),
            (junk, junk),
            (b"", junk),
            (None, junk),
            (b"\0\2\0\x50" + junk, None),
            (known, junk),
            (known, b"\0\x09" + junk),
            (known, b""),
            (None, None),
        ]
    ) == [
        (b"\0\x63", b""),
        (junk[:2], b""),
        (b"", b""),
        (None, b""),
        (b"\0\2", None),
        (known, b""),
        (known, b""),
        (known, b""),
        (None, None),
    ]

    # A name of bytes that aren't UTF-8 would become three times as long as Kafka's longest text.
    state, name = struct.pack(">hhq", 1, 0, 4), struct.pack(">h", 32767) + b"\xff" * 32767
    worker = group("connect", "sessioned", state, struct.pack(">hh", 1, 0) + name + struct.pack(">hq", 0, 4))
    (after,) = left_of([worker])
    assert member_of(after)["assignment"] == b"\0"


def test_no_host_of_the_sample_is_left_and_all_else_is() -> None:
    for batch in pq.read_table(SAMPLE).to_batches():
        left = redact.redact_records(batch, hosts=True, metadata=True)
        assert left.column("key") == batch.column("key")
        before, after = batch.column("value").to_pylist(), left.column("value").to_pylist()
        assert any(b"127.0.0.1" in value for value in before if value)
        assert not any(b"127.0.0.1" in value for value in after if value)
        for key, was, now in zip(batch.column("key").to_pylist(), before, after, strict=True):
            read = read_key(key)
            if read.name == "OffsetCommit":
                assert was == now
            elif was is not None and "clientHost" in (fields := read_value(read.type, was).fields):
                assert now == write_value(read.type, fields | {"clientHost": ""}, 0)


def hosts_and_metadata(fields: Any) -> list[Any]:
    """Returns every value of fields, at any depth, that is a host, an endpoint, or the metadata of a commit."""
    if isinstance(fields, list):
        return [found for each in fields for found in hosts_and_metadata(each)]
    if not isinstance(fields, dict):
        return []
    secret = [fields[name] for name in ("clientHost", "userEndpoint") if name in fields]
    secret += [fields["metadata"]] if isinstance(fields.get("metadata"), str) else []
    return secret + [found for each in fields.values() for found in hosts_and_metadata(each)]


def test_no_mutation_is_fatal_nor_leaves_what_was_put_in(seed: int) -> None:
    """A host put anywhere stays only if it is read as a name, a topic, or an assignor's user data.

    So each record that is left has no bytes beside its fields, and no host and no metadata in them.
    """
    chance = random.Random(seed)
    rows = pq.read_table(SAMPLE).to_pylist()
    pairs: list[Pair] = []
    for row in chance.choices(rows, k=600):
        data = [bytearray(row["key"]), bytearray(row["value"] or b"")]
        into = chance.choice(data)
        at = chance.randrange(len(into) + 1)
        into[at : at + chance.randint(0, 4)] = chance.choice((HOST.encode(), chance.randbytes(3), b""))
        pairs.append((bytes(data[0]), bytes(data[1])))
    looked_at = 0
    for key, value in left_of(pairs):
        try:
            read = read_key(key or b"")
        except WireError:
            assert len(key or b"") <= 2, seed
            assert value == b"", seed
        else:
            # What is not UTF-8 in a name is read as U+FFFD, and is not written again as it was.
            assert key == write_key(read.type, read.fields) or "\ufffd" in str(read.fields), seed
            if not value:
                continue
            found = read_value(read.type, value)
            assert value == write_value(read.type, found.fields, found.version), seed
            assert not any(hosts_and_metadata(found.fields)), (seed, found.fields)
            looked_at += HOST.encode() in key + value
    assert looked_at, seed
