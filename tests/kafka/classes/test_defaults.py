"""What the pages say about Kafka: the defaults that they name are those of the classes of 4.4.0, and each class that a
comment names as a source is one of Kafka's, with its member."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, claims_of, pages
from tests.kafka import fetched, java_programs, maven

pytestmark = pytest.mark.kafka

SIMULATION = "docs/simulate-rules.md"
NAMED = {
    "auto.commit.interval.ms": ("5000", "docs/history-rules.md", "commit every 5 s (`auto.commit.interval.ms`)"),
    "max.poll.interval.ms": ("300000", "docs/questions.md", "its `max.poll.interval.ms` (5 minutes by default)"),
    "metadata.max.age.ms": ("300000", "docs/change.md", "within `metadata.max.age.ms` (five minutes)"),
    "session.timeout.ms": ("45000", "docs/history-rules.md", "(45 s since release 3.0)"),
    "group.min.session.timeout.ms": ("6000", "docs/membership.md", "| `--session-bounds` | 6s,30min |"),
    "group.max.session.timeout.ms": ("1800000", "docs/membership.md", "| `--session-bounds` | 6s,30min |"),
    "group.consumer.session.timeout.ms": ("45000", "docs/change.md", "timeout.ms of the broker (45 s)"),
    "group.consumer.min.session.timeout.ms": ("45000", "docs/change.md", "of the group: 45 to 60 s"),
    "group.consumer.max.session.timeout.ms": ("60000", "docs/change.md", "of the group: 45 to 60 s"),
    "group.consumer.heartbeat.interval.ms": ("5000", "docs/change.md", "interval.ms of the broker (5 s)"),
    "group.consumer.min.heartbeat.interval.ms": ("5000", "docs/change.md", "of the group: 5 to 15 s"),
    "group.consumer.max.heartbeat.interval.ms": ("15000", "docs/change.md", "of the group: 5 to 15 s"),
    "group.consumer.migration.policy": ("bidirectional", "docs/change.md", "`bidirectional` (Kafka's default)"),
    "group.consumer.assignment.interval.ms": ("1000", "docs/sticky.md", "interval.ms` (1 s; since 4.3)"),
    "group.consumer.min.assignment.interval.ms": ("0", "docs/operate.md", "brokers allow 0 to 15,000"),
    "offsets.retention.minutes": (
        "10080",
        "docs/zones.md",
        "seven days after its last member left (`offsets.retention.",
    ),
    "group.consumer.assignors": ("[uniform, range]", "docs/assignors.md", "`uniform` is the broker's default"),
    "offsets.topic.num.partitions": ("50", "docs/operate.md", "50 by default"),
    "group.consumer.max.assignment.interval.ms": ("15000", "docs/operate.md", "brokers allow 0 to 15,000"),
    "group.share.partition.max.record.locks": ("2000", "docs/size.md", "2,000 record locks per partition"),
    "max.poll.records": ("500", "docs/size.md", "500 records that a member holds at a time"),
    "group.share.max.size": ("200", "docs/size.md", "at most 200 members"),
}
"""Setting: its default, and the words of a page that name it."""


def test_defaults_that_the_pages_name() -> None:
    """Those in sentences, and those in the table of the simulation's settings."""
    table = re.findall(r"^\| \w+ \| `([a-z.]+)`[^|]*\| (?:by \w+: )?([\d,]+)", (ROOT / SIMULATION).read_text(), re.M)
    assert len(table) == 8
    wanted = [(name, value.replace(",", "")) for name, value in table]
    for name, (value, page, words) in NAMED.items():
        assert words in " ".join((ROOT / page).read_text().split()), (name, page)
        wanted.append((name, value))
    names = [name for name, _ in wanted]
    with fetched.or_skipped():
        classes = maven.group_coordinator_classpath(maven.VERSION)
        assert dict(wanted) == dict(zip(names, java_programs.answers("Defaults", names, classes), strict=True))


CLASS = re.compile(r"\b([A-Z][a-z]+[A-Z]\w+)\b(?:\.(\w+)\b)?(?! \(\d)")
"""A class, and a member of it; not if a release follows, because the class can be gone since."""


def test_classes_that_are_sources() -> None:
    """Each is in the broker, the clients, Connect, or Streams, and has the method or constant."""
    with fetched.or_skipped():
        folders = [maven.kafka_classpath(), maven.applications_classpath()]
    found: dict[str, list[bytes]] = defaultdict(list)
    named = {match.groups() for page in pages() for claim in claims_of(page) for match in CLASS.finditer(claim)}
    names = {name for name, _ in named}
    for jar in (jar for folder in folders for jar in Path(folder.removesuffix("*")).glob("*.jar")):
        if jar.name.startswith(("kafka", "connect")):
            with zipfile.ZipFile(jar) as archive:
                for entry in archive.namelist():
                    name = re.split(r"[/$]", entry.removesuffix(".class"))[-1]
                    if entry.endswith(".class") and name in names:
                        found[name].append(archive.read(entry))
    assert len(names) > 40
    assert [each for each in named if not any((each[1] or "").encode() in code for code in found[each[0]])] == []
