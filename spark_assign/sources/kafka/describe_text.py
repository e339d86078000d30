"""The text of `kafka-topics.sh --describe` and `kafka-consumer-groups.sh --describe`, as a snapshot.

What the text does not say is not invented: there are no broker racks, no generations, no assignor unless
`--state` was printed, and no subscriptions. A member is taken to subscribe to every topic of which any member
of its group has a partition. That is right wherever all members of a group subscribe alike, the common case,
and wrong for a group whose members differ; read such a group from the cluster itself (snapshot).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.tables.errors import SourceError

Line = tuple[str, int, str]
"""File, line number from 1, text."""

# Possessive, so that a line is read in linear time. `search` would try every start: the first one decides.
_PARTITION = re.compile(
    r"\s*+Topic:\s*+(\S++)\s++Partition:\s*+(\d++)\s++Leader:\s*+(\S++)\s++Replicas:\s*+([\d,\s]*+)(?:Isr:|$)", re.ASCII
)
_TOPIC = re.compile(r"\s*+Topic:\s*+(\S++)\s++(?:TopicId:\s*+(\S++)\s++)?+.*?PartitionCount:\s*+(\d++)", re.ASCII)
_NO_MEMBERS = re.compile(r"(?>.*?Consumer group ')(.*)' has no active members\.")
_REBALANCING = re.compile(r"(?>.*?Warning: Consumer group ')(.*)' is rebalancing\.")
_ABSENT = re.compile(r"(?>.*?Consumer group ')(.*)' does not exist\.")
_STATE = re.compile(r"[A-Z]\w+")
_INT_DIGITS, _LONG_DIGITS = 10, 19
_MEMBER_COLUMNS = ("CONSUMER-ID", "HOST", "CLIENT-ID")
_OFFSETS = {"committed_offset": "CURRENT-OFFSET", "end_offset": "LOG-END-OFFSET", "lag": "LAG"}
_OFFSET_COLUMNS = ("GROUP", "TOPIC", "PARTITION", *_OFFSETS.values(), *_MEMBER_COLUMNS)
_STATE_COLUMNS = ("GROUP", "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE")


def read(topics: Iterable[str | Path], groups: Iterable[str | Path], cluster: str) -> Snapshot:
    """Parse files of either tool's output; several groups, several files, and repeated headers are fine.

    Args:
        topics: files printed by `kafka-topics.sh --describe`.
        groups: files printed by `kafka-consumer-groups.sh --describe` (default columns; `--state` as well).
        cluster: the name for the `cluster` column.

    Raises:
        SourceError: a file that cannot be read or is empty, or a line that is neither tool's; names file and line.
    """
    found = _Found()
    topic_files, group_files = ([str(file) for file in files] for files in (topics, groups))
    for line in _lines(topic_files):
        found.topic_line(line)
    found.check_topics()
    layout: list[str] = []
    for line in _lines(group_files):
        layout = found.group_line(line, layout)
    source = {"kind": "text", "topics": topic_files, "groups": group_files}
    return Snapshot(cluster, source, datetime.now(UTC), found.rows(cluster).tables())


def _lines(files: Iterable[str]) -> Iterator[Line]:
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"{file} cannot be read: {error}") from error
        numbered = enumerate(text.splitlines(), start=1)
        # The tools' logging noise, where standard error went into the file as well.
        lines = [(file, number, line) for number, line in numbered if line.strip() and not line.startswith("SLF4J:")]
        if not lines:
            raise SourceError(
                f"{file} is empty: the tool has failed, or has nothing to print. Run it again, or leave the file out"
            )
        yield from lines


def _wrong(line: Line, expected: str) -> SourceError:
    file, number, text = line
    return SourceError(f"{file}, line {number}: expected {expected}, found: {text.strip()[:160]}")


@dataclass
class _Group:
    assignor: str | None = None
    state: str | None = None
    members: dict[str, dict[str, str]] = field(default_factory=dict)
    owned: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[tuple[str, int], dict[str, int | None]] = field(default_factory=dict)
    fault: str | None = None


@dataclass
class _Found:
    counts: dict[str, tuple[int, Line]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    replicas: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int | None] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=lambda: defaultdict(_Group))

    def topic_line(self, line: Line) -> None:
        if partition := _PARTITION.match(line[2]):
            key, leader = (partition[1], _int(line, partition[2])), partition[3]
            self.leaders[key] = _int(line, leader) if leader.isdecimal() else None  # `none`, or -1 before 2.x
            self.replicas[key] = [_int(line, broker.strip()) for broker in partition[4].split(",") if broker.strip()]
        elif topic := _TOPIC.match(line[2]):
            self.counts[topic[1]] = _int(line, topic[3]), line
            if topic[2]:
                self.ids[topic[1]] = topic[2]
        else:
            raise _wrong(line, "a line of kafka-topics.sh --describe (Topic: … PartitionCount: … or Partition: …)")

    def check_topics(self) -> None:
        """Refuse a cut-off file: a topic with fewer partition lines than its PartitionCount."""
        listed = Counter(topic for topic, _ in self.replicas)
        for topic, (count, line) in self.counts.items():
            if listed[topic] not in (0, count):
                raise _wrong(line, f"{count} partition lines for topic {topic}, {listed[topic]} are there")
        for topic in listed.keys() - self.counts.keys():
            self.counts[topic] = listed[topic], ("", 0, "")

    def group_line(self, line: Line, layout: list[str]) -> list[str]:
        """Take one line in; returns the columns of the table that the next line belongs to."""
        text = line[2]
        readers = {"TOPIC": self._offset_line, "COORDINATOR": self._state_line, "CONSUMER-ID": self._member_line}
        columns = text.replace("COORDINATOR (ID)", "COORDINATOR").split()
        if columns[0] == "GROUP" and readers.keys() & columns[1:2]:
            return columns
        if message := _NO_MEMBERS.match(text):
            self.groups[message[1]].state = "Empty"
        elif message := _REBALANCING.match(text):
            self.groups[message[1]].fault = "the group was rebalancing when its text was printed"
        elif message := _ABSENT.match(text):
            self.groups[message[1]].fault = text.strip()
        elif layout:
            readers[layout[1]](line, layout)
        else:
            raise _wrong(line, "the header GROUP TOPIC PARTITION … of kafka-consumer-groups.sh --describe")
        return layout

    def _offset_line(self, line: Line, layout: list[str]) -> None:
        """Reads a line about a partition of a group, or about a member without partitions."""
        values = _values(line, layout, _OFFSET_COLUMNS)
        group = self.groups[values["GROUP"]]
        member = _member(group, values)
        if values["TOPIC"] == "-":
            return
        key = values["TOPIC"], _number(line, values, "PARTITION")
        if member is not None:
            group.owned[member].append(key)
        group.offsets[key] = {name: _number_or_none(line, values, column) for name, column in _OFFSETS.items()}

    def _member_line(self, line: Line, layout: list[str]) -> None:
        # The instance id may be blank. What --verbose adds behind CLIENT-ID repeats what the offsets say.
        columns = layout[: layout.index("CLIENT-ID") + 1] if "CLIENT-ID" in layout else layout
        values = line[2].split()
        if "GROUP-INSTANCE-ID" in columns and not (len(values) > 3 and values[3].startswith("/")):
            values.insert(2, "")
        values = values[: len(columns)]
        found = _values((*line[:2], " ".join(value or "-" for value in values)), columns, _MEMBER_COLUMNS)
        _member(self.groups[found["GROUP"]], found)

    def _state_line(self, line: Line, _: list[str]) -> None:
        # The coordinator is printed as `host:port  (id)`, the strategy may be blank.
        words = line[2].split()
        # The last word is the number of members.
        at = next((at for at in (4, 3) if len(words) > at + 1 and _STATE.fullmatch(words[at])), None)
        if at is None or not (words[2].startswith("(") and words[2].endswith(")") and words[-1].isdecimal()):
            raise _wrong(line, " ".join(_STATE_COLUMNS))
        group = self.groups[words[0]]
        group.assignor, group.state = (None if at == 3 or words[3] == "-" else words[3]), words[at]

    def rows(self, cluster: str) -> SnapshotRows:
        rows = SnapshotRows(cluster)
        for topic, (count, _) in sorted(self.counts.items()):
            rows.add("topics", topic=topic, partitions=count, topic_id=self.ids.get(topic))
        for (topic, partition), replicas in sorted(self.replicas.items()):
            leader = self.leaders[topic, partition]
            rows.add("replicas", topic=topic, partition=partition, replicas=replicas, leader_id=leader)
        for broker in sorted({broker for replicas in self.replicas.values() for broker in replicas}):
            rows.add("brokers", broker_id=broker)
        for group_id, group in sorted(self.groups.items()):
            _add_group(rows, group_id, group)
        return rows


def _add_group(rows: SnapshotRows, group_id: str, group: _Group) -> None:
    """Adds the rows of a group from its lines."""
    state = group.state or ("Stable" if group.members and group.fault is None else None)
    rows.add("groups", group_id=group_id, assignor=group.assignor, group_type=None, state=state)
    if group.fault is not None:
        rows.add("undescribed", group_id=group_id, error=group.fault)
    topics = sorted({topic for owned in group.owned.values() for topic, _ in owned})
    for member_id, member in sorted(group.members.items()):
        rows.add(
            "members",
            group_id=group_id,
            member_id=member_id,
            group_instance_id=None if member.get("GROUP-INSTANCE-ID", "-") == "-" else member["GROUP-INSTANCE-ID"],
            client_id=member["CLIENT-ID"],
            client_host=member["HOST"],
        )
        rows.add_owned(group_id, member_id, group.owned.get(member_id, ()))
    rows.add_subscriptions(group_id, dict.fromkeys(sorted(group.members), topics))
    for topic, partition in sorted(group.offsets):
        rows.add("offsets", group_id=group_id, topic=topic, partition=partition, **group.offsets[topic, partition])


def _member(group: _Group, values: dict[str, str]) -> str | None:
    member_id = values["CONSUMER-ID"]
    if member_id == "-":
        return None
    group.members[member_id] = group.members.get(member_id, {}) | values
    return member_id


def _values(line: Line, layout: list[str], needed: tuple[str, ...]) -> dict[str, str]:
    missing = [column for column in needed if column not in layout]
    if missing:
        raise _wrong(line, f"the default columns, {', '.join(missing)} missing in the header")
    values = line[2].split()
    if len(values) != len(layout):
        raise _wrong(line, f"{len(layout)} columns ({' '.join(layout)})")
    return dict(zip(layout, values, strict=True))


def _number(line: Line, values: dict[str, str], column: str) -> int:
    return _int(line, values[column], f" under {column}")


def _int(line: Line, text: str, where: str = "", digits: int = _INT_DIGITS) -> int:
    """Returns a number from 0 that fits into Kafka's type, an int or a long."""
    if (
        not (text.isascii() and text.isdecimal())
        or len(text) > digits
        or int(text) >= 1 << (31 if digits == 10 else 63)
    ):
        raise _wrong(line, f"a number{where}")
    return int(text)


def _number_or_none(line: Line, values: dict[str, str], column: str) -> int | None:
    text = values[column]
    if text == "-":
        return None
    number = _int(line, text.removeprefix("-"), f" or - under {column}", _LONG_DIGITS)
    return -number if text.startswith("-") else number
