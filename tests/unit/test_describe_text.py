"""The text of Kafka's own tools, as they print it, to the tables of a snapshot."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from jobs import snapshot
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import describe_text
from spark_assign.tables.errors import SourceError
from tests.cases import cases, tuples

# As Kafka 4.1's kafka-topics.sh --describe prints it (tabs), and as 2.x did (fewer fields).
TOPICS = """SLF4J: Failed to load class "org.slf4j.impl.StaticLoggerBinder".
Topic: orders	TopicId: PDqtFm2FTRmCJRFreBcepw	PartitionCount: 3	ReplicationFactor: 2	Configs: a=1
	Topic: orders	Partition: 0	Leader: 1	Replicas: 1,2	Isr: 1,2	Elr: 	LastKnownElr: \n\
	Topic: orders	Partition: 1	Leader: 2	Replicas: 2,3	Isr: 3	Elr: 	LastKnownElr: \n\
	Topic: orders	Partition: 2	Leader: none	Replicas: 3,1	Isr: 	Elr: 	LastKnownElr: \n\
Topic:payments	PartitionCount:1	ReplicationFactor:1	Configs:
	Topic: payments	Partition: 0	Leader: 3	Replicas: 3	Isr: 3
"""
OTHERS = TOPICS.replace("orders", "others")
GROUPS = """
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID   HOST            CLIENT-ID
shop            orders          0          5               9               4               c0-aaaa       /10.0.0.7       c0
shop            orders          2          -               9               -               c0-aaaa       /10.0.0.7       c0
shop            orders          1          7               7               0               c1-bbbb       /0:0:0:0:0:0:0:1 c1
shop            payments        0          3               -               -               -             -               -
shop            -               -          -               -               -               c2-cccc       /10.0.0.9       c2

Consumer group 'nightly' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
nightly         orders          0          1               9               8               -               -               -

Warning: Consumer group 'busy' is rebalancing.

Error: Consumer group 'gone' does not exist.
"""  # noqa: E501
MEMBERS = """
GROUP           CONSUMER-ID      GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT    TARGET-EPOCH    TARGET-ASSIGNMENT
shop            c0-aaaa          worker-0          /10.0.0.7       c0              2               -               orders:0,2            -               -
shop            c1-bbbb                            /0:0:0:0:0:0:0:1 c1             1               -               orders:1              -               -
shop            c2-cccc                            /10.0.0.9       c2              0               -               -                     -               -
"""  # noqa: E501
STATE = """
GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS
shop            127.0.0.1:57595  (1)      range                Stable               3

GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS
nightly         127.0.0.1:57595  (1)                           Empty                0
"""


def _files(folder: Path, **texts: str) -> dict[str, Path]:
    files = {name: folder / f"{name}.txt" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    return files


@pytest.fixture
def read(tmp_path: Path) -> Snapshot:
    files = _files(tmp_path, topics=TOPICS, groups=GROUPS, members=MEMBERS, state=STATE)
    return describe_text.read([files["topics"]], [files["groups"], files["members"], files["state"]], "prod")


def _rows(read: Snapshot, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in read.tables[table].to_pylist()]


def test_topics(read: Snapshot) -> None:
    """Old and new output, a partition without a leader, brokers named by their replicas."""
    found = _rows(read, "topics", "cluster", "topic", "partitions", "topic_id")
    assert found == tuples("prod orders 3 PDqtFm2FTRmCJRFreBcepw; prod payments 1 None")
    got = _rows(read, "replicas", "topic", "partition", "replicas", "leader_id")
    assert got == tuples("orders 0 [1,2] 1; orders 1 [2,3] 2; orders 2 [3,1] None; payments 0 [3] 3")
    assert _rows(read, "brokers", "broker_id", "rack_id") == [(1, None), (2, None), (3, None)]


def test_groups(read: Snapshot) -> None:
    """State and assignor from --state; groups that could not be described are listed."""
    found = _rows(read, "groups", "group_id", "state", "assignor")
    assert found == tuples("busy None None; gone None None; nightly Empty None; shop Stable range")
    assert [group for (group,) in _rows(read, "undescribed", "group_id")] == ["busy", "gone"]


def test_members_and_what_they_own(read: Snapshot) -> None:
    """Also a member without partitions, instance ids, IPv6 hosts wider than their column."""
    found = _rows(read, "members", "member_id", "group_instance_id", "client_id", "client_host")
    assert found == tuples("c0-aaaa worker-0 c0 /10.0.0.7; c1-bbbb None c1 /0:0:0:0:0:0:0:1; c2-cccc None c2 /10.0.0.9")
    assert _rows(read, "owned_lists", "member_id", "topics", "firsts", "steps", "counts", "positions") == [
        ("c0-aaaa", ["orders"], [0], [2], [2], None),
        ("c1-bbbb", ["orders"], [1], [1], [1], None),
    ]


def test_subscriptions_are_what_anybody_in_the_group_has(read: Snapshot) -> None:
    """The stated assumption; a topic with offsets only is not subscribed."""
    lists = [(["c0-aaaa", "c1-bbbb", "c2-cccc"], ["orders"])]
    assert _rows(read, "subscription_lists", "member_ids", "topics") == lists


def test_offsets(read: Snapshot) -> None:
    """A dash is null."""
    assert _rows(read, "offsets", "group_id", "topic", "partition", "committed_offset", "end_offset", "lag") == tuples(
        "nightly orders 0 1 9 8; shop orders 0 5 9 4; shop orders 1 7 7 0; "
        "shop orders 2 None 9 None; shop payments 0 3 None None"
    )


@cases("topics groups message", 
        ("Topic: t\tPartition: x", "", r"topics\.txt, line 1: expected a line of kafka-topics\.sh"),
        ("Topic: t\tPartitionCount: 2\n\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", "",
         r"line 1: expected 2 partition lines for topic t, not 1, found"),
        ("", GROUPS, r"topics\.txt is empty: the tool has failed, or has nothing to print"),
        (TOPICS, "SLF4J: No logger\n \n", r"groups\.txt is empty"),
        (TOPICS, "shop orders 0 1 2 1 - - -", r"groups\.txt, line 1: expected the header GROUP TOPIC PARTITION"),
        (OTHERS, GROUPS.replace("c0-aaaa ", "c0 a aaa "), r"groups\.txt, line 3: expected 9 columns"),
        (OTHERS, GROUPS.replace("orders          1 ", "orders          one "), r"line 5: expected a number under P"),
        (OTHERS, GROUPS.replace("5               9", "five            9"), r"line 3: expected a number or - under C"),
        (TOPICS, GROUPS.replace("CLIENT-ID", ""), r"line 3: expected the default columns, CLIENT-ID missing"),
    )  # fmt: skip
def test_wrong_text(tmp_path: Path, topics: str, groups: str, message: str) -> None:
    """The error names file, line, and what was expected there."""
    files = _files(tmp_path, topics=topics, groups=groups)
    with pytest.raises(SourceError, match=message):
        describe_text.read([files["topics"]], [files["groups"]], "prod")


@cases(
    "content problem",
    (b"\n\nTopic: \xff", "line 3 isn't UTF-8"),
    (b"\xef\xbb\xbf\n\xff", "line 2 isn't UTF-8"),
    (b"\xff\xfe\n\0a", "line 2 isn't UTF-16"),
)
def test_a_text_in_another_encoding(tmp_path: Path, content: bytes, problem: str) -> None:
    """The error names the line, not the position of a byte."""
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(SourceError, match=rf"t\.txt cannot be read: {problem}$"):
        describe_text.read([tmp_path / "t.txt"], [], "prod")


def test_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Writes the tables; exit code 2 where a file is not there."""
    files = _files(tmp_path, topics=TOPICS, groups=GROUPS)
    arguments = [
        *("--from-text", "--cluster-name", "prod", "--topics-file"),
        str(files["topics"]),
        "--fleet-dir",
        str(tmp_path / "fleet"),
    ]
    assert snapshot.main([*arguments, "--groups-file", str(files["groups"]), "--output-format", "json"]) == 0
    assert "3 members" in capsys.readouterr().out
    lines = next(tmp_path.glob("fleet/cluster=prod/taken=*/topics.json")).read_text().splitlines()
    known = {"cluster": "prod", "topic": "orders", "partitions": 3}
    assert json.loads(lines[0]) == known | {"topic_id": "PDqtFm2FTRmCJRFreBcepw", "cleanup_policy": None}
    assert snapshot.main([*arguments, "--groups-file", str(tmp_path / "nowhere")]) == 2
    assert "nowhere cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2", r"line 1: expected a line of kafka-topics\.sh"),
        ("\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1", r"has partition 1 of t, but not partition 0"),
        (f"{TOPICS}Topic: u\tPartitionCount: 2", r"expected 2 partition lines for topic u, not 0, found"),
        (
            f"{TOPICS}Topic: payments\tPartitionCount: 2",
            r"line 8: expected 1 partition, as in an earlier line about pay",
        ),
        (
            TOPICS.replace("Partition: 0\tLeader: 3", "Partition: 1\tLeader: 3").replace("payments", "orders"),
            r"line 6: expected 3 partitions, as in an earlier line about orders",
        ),
        (
            f"{TOPICS}\tTopic: payments\tPartition: 0\tLeader: 2\tReplicas: 2\tIsr: 2",
            r"line 8: expected the leader and replicas of an earlier line about partition 0 of payments",
        ),
        (
            TOPICS.replace("Partition: 1", "Partition: 5"),
            r"line 2: expected the partitions 0 to 2 of topic orders, not",
        ),
        (TOPICS.replace("Partition: 2", "Partition: 2147483647"), r"0 to 2 of topic orders, not partition 2147483647"),
        (f"{TOPICS}Topic: orders\tTopicId: other\tPartitionCount: 3", "line 8: expected the TopicId PDqtFm2FTRm"),
        (TOPICS.replace("orders", "or\0ders"), r"line 2: expected a line of kafka-topics\.sh"),
        (TOPICS.replace("Isr: 3\tElr: \t", "Isr: 3\t"), r"line 4: expected the fields Elr:, LastKnownElr: after Isr"),
        (
            TOPICS.replace("Isr: 3\t", "Isr: 3\tAdding Replicas: 9\t"),
            r"line 4: expected replicas, Isr, and the replicas",
        ),
    ],
)
def test_a_part_of_a_topic(tmp_path: Path, topics: str, message: str) -> None:
    """Lines that are cut or missing are an error, never a smaller topic."""
    files = _files(tmp_path, topics=topics)
    with pytest.raises(SourceError, match=message):
        describe_text.read([files["topics"]], [], "prod")


def test_racks(tmp_path: Path) -> None:
    """Lines of ID and rack, or those of kafka-broker-api-versions.sh."""
    files = _files(tmp_path, topics=TOPICS, racks="broker_id,rack_id\n1,a\n3,b\n1,a\n")
    files["versions"] = tmp_path / "versions.txt"
    files["versions"].write_text(
        "h:9092 (id: 2 rack: null isFenced: false) -> (\n\tProduce(0): 0 to 13 [usable: 13],\n)\n"
    )
    read = describe_text.read([files["topics"]], [], "prod", brokers=[files["racks"], files["versions"]])
    assert _rows(read, "brokers", "broker_id", "rack_id") == [(1, "a"), (2, None), (3, "b")]


@cases(
    "found replaced by",
    (None, "", ""),
    (r"the JSON of kafka-log-dirs\.sh", '"logDir":"/d"', '"logDir":7'),
    (r"the JSON of kafka-log-dirs\.sh", '"logDirs"', '"logdirs"'),
    (r"a number or - under size", '"size":7', '"size":1e99'),
    ("the JSON of kafka-log-dirs", "/d", "\\ud800"),
    ("the JSON of kafka-log-dirs", '"E"', '"\\ud800"'),
    ("the JSON of kafka-log-dirs", "orders-1", "\\ud800-1"),
    (r"a number", "orders-1", "orders-x"),
    ("the JSON of kafka-log-dirs", "orders-1", "or\\u001b[mders-1"),
    ("the JSON of kafka-log-dirs", '"size":7', '"size":-7'),
    ("the JSON of kafka-log-dirs", ":true", ':"no"'),
    ("the JSON of kafka-log-dirs", '"/e"', '"/d"'),
    ("the JSON of kafka-log-dirs", "[{", '[{"broker":2,"logDirs":[]},{'),
)
def test_log_directories(tmp_path: Path, found: str | None, replaced: str, by: str) -> None:
    """The JSON of kafka-log-dirs.sh: directories and logs, or an error with the line."""
    log = '{"partition":"orders-1","size":7,"offsetLag":-1,"isFuture":true}'
    folders = f'[{{"logDir":"/d","error":null,"partitions":[{log}]}},{{"logDir":"/e","error":"E","partitions":[]}}]'
    text = f'{{"version":1,"brokers":[{{"broker":2,"logDirs":{folders}}}]}}'.replace(replaced, by, 1)
    files = _files(tmp_path, topics=TOPICS, json=text)
    if found:
        with pytest.raises(SourceError, match=f"line 1: expected {found}"):
            describe_text.read([files["topics"]], [], "prod", brokers=[files["json"]])
        return
    read = describe_text.read([files["topics"]], [], "prod", brokers=[files["json"]] * 2)
    assert _rows(read, "log_dirs", "broker_id", "log_dir", "error", "total_bytes") == [
        (2, "/d", None, None),
        (2, "/e", "E", None),
    ]
    columns = ("topic", "partition", "broker_id", "log_dir", "bytes", "offset_lag", "is_future")
    assert _rows(read, "log_dir_replicas", *columns) == [("orders", 1, 2, "/d", 7, None, True)]
    assert (2, 1) in _rows(read, "brokers", "broker_id", "offline_log_dirs")


@cases(
    "kind head noise",
    ("groups", f"GROUP {'TOPIC ' * 100_000}", "SLF4J: x"),
    ("topics", f"Topic: kafka-a Partition: 0 Leader: 1 Replicas: 1 Isr: {'A: ' * 300_000}",
     "Topic: kafka-a Partition: 1 Leader: --b Replicas: 1 Isr: B:"),
)  # fmt: skip
def test_a_line_is_not_compared_with_all_of_the_first(tmp_path: Path, kind: str, head: str, noise: str) -> None:
    """Lines of noise took a time in proportion to the length of the header, or of the first line of the topic."""
    files = _files(tmp_path, topics=TOPICS, long="\n".join([head, *[noise] * 3_000]))
    groups, start = [files["long"]] if kind == "groups" else [], time.process_time()
    with contextlib.suppress(SourceError):
        describe_text.read([files["topics" if groups else "long"]], groups, "prod")
    assert time.process_time() - start < 2


@cases(
    "text problem",
    ("one,a", r"line 1: expected a line of kafka-broker-api-versions\.sh"),
    ("1,a\n1,a\n1,b", "line 3: expected the rack a of an earlier line about broker 1, found: 1,b"),
    ("h:1 (id: 1 rack: a) -> (\n)\nh:1 (id: 1 rack: null) -> (", "line 3: expected the rack a of an earlier line"),
    ("h:1 (id: 1 rack: null) -> (\n)\n1,a", "line 3: expected the rack null of an earlier line about broker 1"),
    (f"1,a\n2,{'é' * 128}", "line 2: expected a rack of at most 255 bytes, found: 2,éé"),
    (f"h:1 (id: 1 rack: {256 * 'a'}) -> (", "line 1: expected a rack of at most 255 bytes"),
    ("1,\0", "line 1: expected a rack without control characters"),
    ("h:1 (id: 1 rack: a\x7f) -> (", "line 1: expected a rack without control characters"),
)
def test_wrong_racks(tmp_path: Path, text: str, problem: str) -> None:
    """A line of no tool, another rack than before, and a text that is no rack."""
    files = _files(tmp_path, topics=TOPICS, wrong=f"{text}\n")
    with pytest.raises(SourceError, match=rf"wrong\.txt, {problem}"):
        describe_text.read([files["topics"]], [], "prod", brokers=[files["wrong"]])


@pytest.mark.parametrize(
    ("old", "new", "group", "problem"),
    [
        ("shop            orders          1  ", "shop            orders          3  ", "shop", "partition 1 of orders"),
        ("c1-bbbb       /0:0:0:0:0:0:0:1 c1", "c0-aaaa       /10.0.0.7       c0", "shop", None),
        ("shop            -               -          -               -               -  ",
         "shop            orders          7          -               -               -  ", "shop",
         "orders has 3 partitions, and 4 have owners in the text"),
        ("shop            payments        0          3               -               -               -  ",
         "shop            invoices        0          3               -               -               c9-i", "shop",
         "members own invoices, which the text of kafka-topics.sh lacks"),
    ],
)  # fmt: skip
def test_a_part_of_a_group(tmp_path: Path, old: str, new: str, group: str, problem: str | None) -> None:
    """A group whose partitions are incomplete is undescribed, and has no members."""
    assert old in GROUPS
    files = _files(tmp_path, topics=TOPICS, groups=GROUPS.replace(old, new))
    read = describe_text.read([files["topics"]], [files["groups"]], "prod")
    errors = dict(_rows(read, "undescribed", "group_id", "error"))
    assert problem is None or errors[group].startswith(problem), errors
    assert (group in errors) == (problem is not None)
    assert bool([row for row in _rows(read, "members", "group_id") if row == (group,)]) == (problem is None)


HEADER = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"


def _table(group: str, topic: str, member: str, client: str = "c0") -> str:
    """Returns the table of a group with one member, padded as Kafka pads: each column to its widest value in UTF-16."""
    lines = [HEADER.split()]
    lines += [[group, topic, str(at), "5", "7", "2", f"{member}-aaaa", "/10.0.0.7", client] for at in range(3)]
    units = [[len(cell.encode("utf-16-le")) // 2 for cell in line] for line in lines]
    widths = [max(15, *column) for column in zip(*units, strict=True)]
    padded = [
        " ".join(cell + " " * (width - size) for cell, size, width in zip(line, sizes, widths, strict=True))
        for line, sizes in zip(lines, units, strict=True)
    ]
    return "\n" + "\n".join(line.rstrip(" ") for line in padded) + "\n"


@cases(
    "topics groups line",
    (TOPICS.replace("orders", "o" * 40_000), GROUPS, "topics.txt, line 2"),
    (TOPICS, _table("g" * 40_000, "orders", "m"), "groups.txt, line 3"),
    (OTHERS, _table("g", "orders", "m", "\u00e9" * 16_384), "groups.txt, line 3"),
    (TOPICS, f"Consumer group '{'g' * 40_000}' has no active members.", "groups.txt, line 1"),
)
def test_names_that_no_table_can_have(tmp_path: Path, topics: str, groups: str, line: str) -> None:
    """With one of them, the whole fleet couldn't be read."""
    files = _files(tmp_path, topics=topics, groups=groups)
    with pytest.raises(SourceError, match=f"{line}: expected names of at most 32,767 bytes, found: "):
        describe_text.read([files["topics"]], [files["groups"]], "prod")
    topics, groups = (text.replace("o" * 7_233, "").replace("g" * 7_233, "") for text in (topics, groups))
    kept = _files(tmp_path, topics=topics, groups=groups.replace("\u00e9" * 16_384, "\u00e9" * 16_383))
    assert describe_text.read([kept["topics"]], [kept["groups"]], "prod").tables["groups"].num_rows


@cases(
    "group client undescribed",
    ("shop\x1b[0m", "c0", "an ID has an escape character"),
    ("\x1b[0mshop", "c0", "an ID has an escape character"),
    ("\x1b[0;0;0;0;0;0;0;0mshop", "c0", "an ID has an escape character"),
    ("\x1b[0mshop", "\U0001f600", "an ID has an escape character"),
    ("\x1b[0m", "c0", "an ID has an escape character"),
    ("\x1b]8", "c0", "an ID has an escape character"),
    ("\x1b]8", "\x07", "an ID has an escape character"),
    ("\x1b]0;aaaaaaaaaaaaaaaaaaaa", f"\x07{_table('shop', 'others', 'x').splitlines()[2]}", "an ID has an escape char"),
    ("other", "c\x1b]0;", "an ID has an escape character"),
    ("other", "\x1b[0m", "an ID has an escape character"),
    ("other", "", "an ID is empty or has spaces"),
    ("a  b", "c0", "an ID is empty or has spaces"),
    (" shop", "c0", "an ID is empty or has spaces"),
    ("shop\u2003", "\U0001f600", None),
    ("shop\t", "\U0001f600", None),
    ("ev\ril", "c0", None),
)
def test_a_group_is_no_other(tmp_path: Path, group: str, client: str, undescribed: str | None) -> None:
    """A stranger's group was merged into another, or vanished, if its ID was that of the other without codes or blanks.
    The other group is as without it, in any order.
    """
    topics = TOPICS + "".join(f"\tTopic: others\tPartition: {at}\tLeader: 1\tReplicas: 1\tIsr: 1\n" for at in range(3))
    both = [("shop", "orders", "c"), (group, "others", "x", client)]
    for tables in (both, both[::-1]):
        files = _files(tmp_path, topics=topics, groups="".join(_table(*table) for table in tables))
        read = describe_text.read([files["topics"]], [files["groups"]], "prod")
        assert {name for (name,) in _rows(read, "groups", "group_id")} == {"shop", group}
        problems = dict(_rows(read, "undescribed", "group_id", "error"))
        assert (undescribed is None and not problems) or problems.pop(group).startswith(undescribed or "")
        assert not problems
        described = tables if undescribed is None else [("shop", "orders", "c")]
        members = {*_rows(read, "members", "group_id", "member_id")}
        assert members == {(name, f"{member}-aaaa") for name, _, member, *_ in described}
        assert read.source["skipped_lines"] == 1  # of TOPICS


def test_a_message_about_a_group_with_codes(tmp_path: Path) -> None:
    """The group isn't another one, either."""
    text = "Consumer group 'shop\x1b[0m' has no active members.\n\x1b[1mConsumer group 'n' has no active members.\x1b[m"
    files = _files(tmp_path, topics=TOPICS, groups=f"{GROUPS}\n{text}")
    read = describe_text.read([files["topics"]], [files["groups"]], "prod")
    assert ("shop\x1b[0m", None) in _rows(read, "groups", "group_id", "state")
    assert ("n", "Empty") in _rows(read, "groups", "group_id", "state")
    assert "shop\x1b[0m" in {name for (name,) in _rows(read, "undescribed", "group_id")}
    assert len(_rows(read, "members", "group_id")) == 3


def test_groups_that_differ_in_a_space_at_the_end(tmp_path: Path) -> None:
    """The tool pads IDs with spaces, so the two look alike. A table that is there twice is no second group."""
    topics = TOPICS.replace("payments", "others")
    for other, problems in ((("shop ", "others", "x"), ["two tables of the ID differ"]), (("shop", "orders", "c"), [])):
        text = _table("shop", "orders", "c") + _table(*other).replace("others          1", "others          0")
        files = _files(tmp_path, topics=topics, groups=text)
        read = describe_text.read([files["topics"]], [files["groups"]], "prod")
        assert [error.partition(":")[0] for (error,) in _rows(read, "undescribed", "error")] == problems
        assert len(_rows(read, "members", "group_id")) == 1 - len(problems)


@cases(
    "group member client offset undescribed",
    ("shop", " b", " b", "5", False),
    ("shop", " b", "c", "5", False),
    ("shop", "b", " b", "5", False),
    ("shop", "  b", "  b", "5", True),
    (" shop", " b", " b", "5", True),
    (" \U0001f600", "b", "b", "5", True),
    ("\U0001f600", " b", " b", "5", False),
    ("shop", " \U0001f600", " \U0001f600", "5", False),
    ("shop", "a \U0001f600", "a \U0001f600", "5", False),
    ("shop", " b", " b", "5" * 19, False),
    ("shop", "b", " b", "5" * 16, False),
    (" shop", "b", "b", "5" * 16, True),
    ("shop", "  b", "b", "5" * 16, True),
)
def test_spaces_at_the_start_of_an_id(
    tmp_path: Path, group: str, member: str, client: str, offset: str, undescribed: bool
) -> None:
    """They are a part of it, also where a long offset or an emoji shifts the columns: range sorts members by ID."""
    text = _table(group, "orders", member, client).replace(f"5{' ' * 15}", f"{offset:15} ")
    indented = "\n".join(f"  {line}" for line in text.splitlines())
    for each in (text, indented):
        files = _files(tmp_path, topics=TOPICS, groups=each)
        read = describe_text.read([files["topics"]], [files["groups"]], "prod")
        assert _rows(read, "groups", "group_id") == [(group,)]
        found = _rows(read, "members", "group_id", "member_id", "client_id")
        assert found == ([] if undescribed else [(group, f"{member}-aaaa", client)])
    if " " in group + member:
        return
    header, *lines = text.strip("\n").splitlines()
    folded = [re.sub(" +", " ", line) for line in (header, *lines)]
    for each in (folded, [header, *folded[1:]], [folded[0], *lines]):
        files = _files(tmp_path, topics=TOPICS, groups="\n".join(each))
        read = describe_text.read([files["topics"]], [files["groups"]], "prod")
        assert _rows(read, "members", "member_id", "client_id") == [(f"{member}-aaaa", client.strip())]


@cases(
    "assignor shown",
    ("range", "range"),
    (" range", " range"),
    ("x" * 30, "x" * 30),
)
def test_spaces_at_the_start_of_an_assignor(tmp_path: Path, assignor: str, shown: str) -> None:
    """It is another one, which its members can choose. A name that is too long shifts the columns behind it."""
    line = "{:15} {:25} {:20} {:20} {}\n"
    text = line.format("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    text += line.format("shop", "kafka-1:9092 (1)", assignor, "Stable", 1)
    files = _files(tmp_path, topics=TOPICS, groups=_table("shop", "orders", "c"), state=text)
    read = describe_text.read([files["topics"]], [files["groups"], files["state"]], "prod")
    assert _rows(read, "groups", "assignor") == [(shown,)]


@cases(
    "group old new problem",
    ("x", f"5{' ' * 15}", f"{'5' * 16} ", "expected 9 columns"),
    ("x", "y z w-aaaa", "y z w-aaaa", None),
    ("x y", f"5{' ' * 15}7{' ' * 15}", f"{'5' * 18} {'7' * 18} ", "expected 9 columns"),
    (" \U0001f600", f"5{' ' * 15}", f"{'5' * 16} ", "expected 9 columns"),
    ("shop ", "5  ", "6  ", "expected the offsets of an earlier line"),
    ("x", "/10.0.0.7 ", "10.0.0.7  ", "expected a host"),
    ("x", " 1  ", " i  ", "expected a number under PARTITION"),
)
def test_a_line_that_can_not_be_read_costs_its_group(
    tmp_path: Path, group: str, old: str, new: str, problem: str | None
) -> None:
    """A stranger's IDs with spaces, behind an offset that is wider than its column, ended all groups of the text."""
    text = _table(group, "orders", "y z w", "a b")
    assert old in text
    groups = _table("shop", "orders", "c") + text.replace(old, new) + _table("other", "orders", "c")
    files = _files(tmp_path, topics=TOPICS, groups=groups)
    read = describe_text.read([files["topics"]], [files["groups"]], "prod")
    errors, named = dict(_rows(read, "undescribed", "group_id", "error")), group.rstrip(" ")
    assert (problem is None and not errors) or re.search(rf"groups\.txt, line \d+: {problem}.* Take", errors.pop(named))
    assert not errors
    described = {"shop", "other", named} - ({named} if problem else set())
    assert {name for (name,) in _rows(read, "members", "group_id")} == described


@cases(
    "kind shown wrong",
    ("state", "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY       STATE                #MEMBERS",
     "x               kafka-1:9092 (1)          an assignor with a long name Stable               1"),
    ("members", "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS",
     "x               y z             /10.0.0.7       a b             none"),
)  # fmt: skip
def test_a_line_of_another_table_costs_its_group(tmp_path: Path, kind: str, shown: str, wrong: str) -> None:
    """An assignor that a member chose, and a number."""
    files = _files(tmp_path, topics=TOPICS, groups=_table("shop", "orders", "c"), wrong=f"{shown}\n{wrong}\n")
    read = describe_text.read([files["topics"]], [files["groups"], files["wrong"]], "prod")
    assert [name for (name,) in _rows(read, "undescribed", "group_id")] == ["x"], kind
    assert _rows(read, "members", "group_id") == [("shop",)]


def test_prompts_with_codes(tmp_path: Path) -> None:
    """They are counted. Bash and zsh set the title of the window; `script` records what the terminal got."""
    title = "\x1b]0;root@h: ~\x07"
    prompt = f"\x1b[?2004h{title}\x1b[01;32mroot@h\x1b[00m:\x1b[01;34m~\x1b[00m$ "
    text = (
        f"{prompt}kafka-topics.sh --describe\r\n\x1b[?2004l\r{_table('shop', 'orders', 'c')}{prompt}\r\n\x1b[?2004l\r\n"
    )
    files = _files(tmp_path, topics=TOPICS, groups=text)
    read = describe_text.read([files["topics"]], [files["groups"]], "prod")
    assert _rows(read, "members", "group_id", "member_id") == [("shop", "c-aaaa")]
    assert read.source["skipped_lines"] == 5


def test_an_id_that_is_glued_to_its_host(tmp_path: Path) -> None:
    """Before Kafka 1.1, the tool pads member IDs to 50 characters, with no space behind them."""
    pattern = "{:30} {:10} {:15} {:15} {:10} {:50}{:30}{}"
    header = pattern.format(
        "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"
    )
    member = "consumer-of-orders-0-d9e45609-ea88-48e4-b826-96d3a343c39b"
    rows = [pattern.format("orders", str(at), "1", "2", "1", member, "/10.0.0.7", "c0") for at in range(3)]
    files = _files(tmp_path, topics=TOPICS, groups="\n".join([header, *rows]))
    read = describe_text.read([files["topics"]], [files["groups"]], "prod", group="shop")
    assert _rows(read, "members", "group_id", "member_id", "client_host") == [("shop", member, "/10.0.0.7")]


def test_a_group_that_is_only_listed_is_not_empty(tmp_path: Path) -> None:
    """A list says that it was: its state is unknown, so that it is rejected."""
    files = _files(tmp_path, topics=TOPICS, groups="GROUP   STATE\nlisted  Empty\n")
    read = describe_text.read([files["topics"]], [files["groups"]], "prod")
    assert _rows(read, "groups", "group_id", "state") == [("listed", None)]
    assert _rows(read, "undescribed", "group_id") == [("listed",)]


@cases(
    "text",
    ("Consumer group 'shop' has no active members.\n"),
    ("GROUP   STATE\nshop    Empty\n"),
    ("GROUP   STATE\nshop    Dead\n"),
)
def test_a_group_with_members_that_is_empty(tmp_path: Path, text: str) -> None:
    """A line end in a name can fake a message, and two runs can contradict each other, in any order."""
    tables = f"{_table('shop', 'orders', 'c')}{_table('other', 'orders', 'c')}"
    for groups in (f"{tables}\n{text}", f"{text}{tables}"):
        files = _files(tmp_path, topics=TOPICS, groups=groups)
        read = describe_text.read([files["topics"]], [files["groups"]], "prod")
        assert _rows(read, "groups", "group_id", "state") == [("other", "Stable"), ("shop", None)]
        assert _rows(read, "members", "group_id") == [("other",)]
        [(group, error)] = _rows(read, "undescribed", "group_id", "error")
        assert (group, error.partition(", and the state ")[0]) == ("shop", "the text has 1 member")


def test_names_in_sentences_are_one_short_line(tmp_path: Path) -> None:
    """Reasons of groups that are undescribed go into reports."""
    member = f"{'m' * 300}\r# faked"
    shown = f"GROUP           CONSUMER-ID{' ' * 300} HOST            CLIENT-ID       #PARTITIONS\n"
    shown += f"shop            {member.ljust(311)} /10.0.0.7       c0              2\n"
    missing = f"Consumer group '{'g' * 300}\r# faked' does not exist.\n"
    topic = _table("other", "t" * 300, "c")
    files = _files(tmp_path, topics=TOPICS, groups=f"{missing}{topic}\n{shown}")
    read = describe_text.read([files["topics"]], [files["groups"]], "prod")
    errors = [error for (error,) in _rows(read, "undescribed", "error")]
    assert len(errors) == 3
    assert all(error.isprintable() and len(error) < 350 for error in errors), errors
