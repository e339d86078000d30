"""Nothing that is read from outside takes more than linear time: each pattern, with texts that make it backtrack."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DataType, DoubleType, IntegerType, LongType, TimestampType

from spark_assign.advice.kernel.membership_options import find_deployment_pod
from spark_assign.assignors.release_rules import assignor_of_leader, parse_release_assignor
from spark_assign.groups.kernel.client_libraries import detect_library
from spark_assign.history.kernel.log_segments import _PATH
from spark_assign.history.kernel.redact import _CONNECT_CLIENT_ID
from spark_assign.migration.kernel.upgrade_verdict import _NEWEST_RELEASE
from spark_assign.replicas.kernel.group_effects import release_range
from spark_assign.report import charts, formatting, sequence_diagram
from spark_assign.sources.auth import tls
from spark_assign.sources.kafka import connection, describe_text
from spark_assign.spark.shell_patterns import _regex
from spark_assign.stores.local_text import parse_json, parse_text
from spark_assign.streams import read_topology
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.wire.streams_protocol import _MODIFIED_UTF8

LENGTH = 50_000
PIECES = [
    " ",
    "\t",
    "\n",
    "a",
    "1",
    "-",
    "1.",
    "a-",
    "-1",
    ":",
    "1 ",
    ", ",
    "A ",
    ") ",
    "' ",
    "Error",
    "Error: ",
    "\u00e4",
    "\u2003",
]
PIECES += [
    "Topic: a ",
    "Topic: a Partition: 1 ",
    "PartitionCount: ",
    "Consumer group '",
    "' has no active members",
    "(a) ",
]
PIECES += [
    "-StreamThread-1",
    "connector-consumer-",
    "consumer-",
    "-bcdfgh-",
    "~1",
    'id="a',
    '<path d="',
    "<g ",
    "(topics: a) ",
    "-----BEGIN A-----",
]
HEADS = [
    "",
    "Topic: t",
    "Topic: t Partition: 1 Leader: 1 Replicas: 1",
    "G 1:1 (1) r Stable",
    "Consumer group '",
    "connect-",
]
HEADS += ["   Source: s (topics: ", "Sub-topology: 1 for global store ", "__consumer_offsets-1", "a Error"]
SHORT = [piece * (LENGTH // len(piece)) + tail for piece in PIECES for tail in ("", "x")]
TEXTS = [*SHORT, *(head + piece * (LENGTH // len(piece)) + "x" for head in HEADS for piece in PIECES[::2])]


def _lines(read: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: read(("f", 1, text))


def _group_line(text: str) -> None:
    found = describe_text._Found()
    for header in (
        ()
        if text.isspace()
        else (
            "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID",
            "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS",
            "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT",
        )
    ):
        found.group_line(("f", 1, header))
        with suppress(SourceError):
            found.group_line(("f", 2, text))
    describe_text._is_noise(text)
    describe_text._between_codes(text)


def _values(text: str, kind: DataType) -> None:
    with suppress(ValueError):
        parse_text(text, kind)


def _topology(text: str) -> None:
    with suppress(ConfigError):
        read_topology(text, "app", ())


STARS = "*a" * 20 + "*[ab]*?*1*b"
READERS: dict[str, Callable[[str], Any]] = {
    "a line of kafka-topics.sh": _lines(lambda line: describe_text._Found().topic_line(line)),
    "a line of kafka-consumer-groups.sh": _group_line,
    "a topology": _topology,
    "stores": lambda text: _topology(f"Sub-topology: 0\n   Processor: p (stores: [{text}"),
    "a release of a client": release_range,
    "the leader's release": lambda text: assignor_of_leader("sticky", "franz-go", text),
    "an assignor": lambda text: parse_release_assignor(f"sticky@{text}"),
    "the newest release": _NEWEST_RELEASE.fullmatch,
    "a pod": lambda text: find_deployment_pod([text]),
    "a list in csv": lambda text: _values(f"1{text}", ArrayType(IntegerType())),
    "numbers in csv": lambda text: [_values(text, kind()) for kind in (DoubleType, LongType, TimestampType)],
    "a JSON object with one name": lambda text: parse_json("{" + '"a":1,' * (len(text) // 2) + '"a":1}').repeated,
    "a client ID": lambda text: detect_library("g", text, "m"),
    "a member ID": lambda text: detect_library("g", None, text),
    "a Connect client ID": lambda text: _CONNECT_CLIENT_ID.sub("", text),
    "a segment's path": _PATH.search,
    "numbers of a chart": lambda text: charts._LONG_DECIMAL.sub("", text),
    "IDs of a chart": lambda text: charts._LOCAL_ID.sub("", text),
    "an ID in a text": lambda text: formatting._UUID_IN_TEXT.sub("", formatting._UUID.sub("", text)),
    "control characters": formatting.visible,
    "a name of a diagram": lambda text: sequence_diagram._UUID.sub("", text),
    "certificates": lambda text: tls._blocks(text.encode(errors="replace")),
    "a broker's error": lambda text: connection._REPEATED_ERROR_NAME.sub("", text),
    "a string of Java": lambda text: _MODIFIED_UTF8.fullmatch(text.encode()),
    "a shell pattern": lambda text: fnmatchcase(text, STARS),
    "a shell pattern of a query": lambda text: re.search(_regex(STARS).replace(r"\z", r"\Z"), text),
    "a thousand stars": lambda text: re.search(_regex("*a" * 1_000 + "*b").replace(r"\z", r"\Z"), text),
}
LINES = ("a line of kafka-topics.sh", "a line of kafka-consumer-groups.sh", "a topology", "a Connect client ID")


@pytest.mark.parametrize("reader", READERS)
def test_a_pattern_takes_linear_time(reader: str) -> None:
    """Each text has 50,000 characters and takes less than a second of the processor, whatever the reader says to it."""
    for text in TEXTS if reader in LINES else SHORT:
        start = time.process_time()
        with suppress(SourceError):
            READERS[reader](text)
        assert time.process_time() - start < 1, (reader, text[:60], text[-1])


@pytest.mark.parametrize(
    "line",
    [
        "Topic: t Partition: 0 Leader: 1 Replicas: 1 2 Isr: 1",
        "Topic: t Partition: 12345678901 Leader: 1 Replicas: 1 Isr: 1",
        "Topic: t Partition: 0 Leader: 12345678901 Replicas: 1 Isr: 1",
        "Topic: t Partition: 0 Leader: 1 Replicas: 12345678901 Isr: 1",
        "Topic: t PartitionCount: 2147483648 ReplicationFactor: 1",
        f"Topic: t PartitionCount: {'9' * 5_000}",
    ],
)
def test_a_number_that_is_none_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    """Kafka's numbers are ints, separated by commas."""
    file = tmp_path / "topics.txt"
    file.write_text(f"{line}\n")
    with pytest.raises(SourceError, match=r"topics.txt, line 1: expected a number, found: Topic: t"):
        describe_text.read([file], [], "c")


@pytest.mark.parametrize("number", ["12345678901", "\u00b2", "x", "2147483648"])
def test_a_partition_of_a_group_that_is_no_number(tmp_path: Path, number: str) -> None:
    """Superscripts are digits to Python, but no numbers."""
    topics, groups = tmp_path / "topics.txt", tmp_path / "groups.txt"
    topics.write_text("Topic: t PartitionCount: 1\n")
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    groups.write_text(f"{header}\ng t {number} 1 1 0 m /h c\n")
    with pytest.raises(SourceError, match=r"groups.txt, line 2: expected a number under PARTITION"):
        describe_text.read([topics], [groups], "c")


def test_an_offset_fits_into_a_long(tmp_path: Path) -> None:
    """Of 19 digits; one of 20 is an error."""
    topics, groups = tmp_path / "topics.txt", tmp_path / "groups.txt"
    topics.write_text("Topic: t PartitionCount: 1\n")
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    groups.write_text(f"{header}\ng t 0 {2**63 - 1} 1 -5 m /h c\n")
    row = describe_text.read([topics], [groups], "c").tables["offsets"].to_pylist()[0]
    assert (row["committed_offset"], row["lag"]) == (2**63 - 1, -5)
    groups.write_text(f"{header}\ng t 0 {2**63} 1 0 m /h c\n")
    with pytest.raises(SourceError, match="a number or - under CURRENT-OFFSET"):
        describe_text.read([topics], [groups], "c")
