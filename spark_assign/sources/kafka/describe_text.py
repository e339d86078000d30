"""The text of Kafka's tools, as a snapshot: topics, groups, and brokers.

Cells are read at the positions of the header, which the tools pad to the widest value, so an ID can contain spaces. A
line that doesn't fit is split at its spaces, if that leaves one value per column. Each value must have the form of its
column. Any other line is an error, unless it is known noise of shells and loggers.

A group ID can contain what looks like a terminal's code. So a line of a table loses only the codes at its ends, and a
group whose lines have others is `undescribed`.

What the text does not say is not invented: there are no generations, no assignor unless `--state` was printed, and no
subscriptions. A member is taken to subscribe to every topic of which any member of its group has a partition. That is
right wherever all members of a group subscribe alike, the common case, and wrong for a group whose members differ; read
such a group from the cluster itself (snapshot). A group that the text describes only in part is `undescribed`.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from spark_assign.numeric.arrays import values_by_key
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.stores.locations import text_of
from spark_assign.tables.errors import SourceError, count
from spark_assign.tables.groups import EMPTY_STATES
from spark_assign.tables.quoting import in_text
from spark_assign.tables.schema_fields import MAX_NAME_BYTES, MAX_RACK_BYTES, is_too_long

Line = tuple[str, int, str]
"""File, line number from 1, text."""

# Possessive, so that a line is read in linear time. `search` would try every start: the first one decides.
_PARTITION = re.compile(
    r"\s*+Topic:\s*+([\w.-]++)\s++Partition:\s*+(\d++)\s++Leader:\s*+(\S++)\s++Replicas:\s*+([\d,\s]*+)Isr:(.*)",
    re.ASCII,
)
_FIELD = re.compile(r"[A-Z]\w*+:|[\d,]++|Adding|Removing|none|true|false|N/A", re.ASCII)
_TOPIC = re.compile(r"\s*+Topic:\s*+([\w.-]++)\s++(?:TopicId:\s*+(\S++)\s++)?+.*?PartitionCount:\s*+(\d++)", re.ASCII)
_BROKER = re.compile(r"\S++ \(id: (\d++) rack: (.*?)(?: isFenced: \w+)?\) -> [(E].*")
_NO_MEMBERS = re.compile(r"(?:Warning: )?\w+ group '(.*)' has no active members\.")
_REBALANCING = re.compile(r"(?:Warning: )?\w+ group '(.*)' is rebalancing\.")
_ABSENT = re.compile(r"(?:Error: )?\w+ group '(.*)' does not exist\.")

_ANSI = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[@-Z\\^_=>])")
_CODE = re.compile(r"(\x1b(?:\[[0-?]*+[A-Za-z]|[=>]))")
"""A code without blanks, so that none extends from one column to another."""
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")
_TIME = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*+Z?\]?"
_NOISE = re.compile(
    "|".join(
        (
            *(r"SLF4J[:(]", r"log4j:(?:WARN|ERROR)", r"Picked up _?(?:JDK_)?JAVA_(?:TOOL_)?OPTIONS:"),
            *(r"(?:OpenJDK|Java HotSpot\(TM\)) .{0,40}warning:", rf"{_TIME} .{{0,20}}(?:DEBUG|INFO|WARN|ERROR)\b"),
            *(r"(?:main )?(?:WARN|ERROR) (?:StatusLogger|Reconfiguration)\b", r'Default(?:ed|ing) container "'),
            *(r"Unable to use a TTY", r"If you don't see a command prompt", r'pod "[^"]*+" deleted'),
            *(r"command terminated with exit code", r"[EWI]\d{4} \d\d:\d\d:\d\d\.\d+\s", r"Script (?:started|done) "),
            *(r"Note: This will (?:only|not) show", r"Warning: --zookeeper is deprecated"),
            *(r"Querying brokers for log directories", r"Received log directory information from brokers"),
            r"(?:\[[^\]\t]*+\]|[\w.@:~/\\-]{0,200}+) ?[$#>%]\s*+$",  # an empty prompt
        )
    )
)
_VERSION = re.compile(r"\w++\((?:\d+|UNKNOWN)\): ")
_UNSETTLED = ("PreparingRebalance", "CompletingRebalance")
_COMMAND = re.compile(r"(?!.*?(?:  |\t))(?>.*?kafka-[a-z]).* --[a-z]")

_MAX_COLUMNS = 50
"""Maximum number of columns of a table, each of which is compared with each line."""
_COORDINATOR = "COORDINATOR (ID)"
_HEADER_CELL = re.compile(r"COORDINATOR \(ID\)|\S++")
_HEADER_NAME = re.compile(r"COORDINATOR \(ID\)|[A-Z#][A-Z-]*+")
_BLANK = ("GROUP-INSTANCE-ID", "ASSIGNMENT-STRATEGY", "PROTOCOL")
"""Columns whose values can be blank."""
_LISTS = ("ASSIGNMENT", "ASSIGNMENTS", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT")
"""Columns whose values can contain spaces, as the last column."""
_CHOSEN = ("GROUP", "CONSUMER-ID", "CLIENT-ID", "GROUP-INSTANCE-ID", "MEMBER", "ASSIGNMENT-STRATEGY", "PROTOCOL")
"""Columns with values that a client chooses, which can start with spaces."""
_MEMBER_COLUMNS = ("CONSUMER-ID", "HOST", "CLIENT-ID")
_NAMES = ("GROUP", "TOPIC", "CONSUMER-ID", "CLIENT-ID", "GROUP-INSTANCE-ID", "MEMBER")
_OFFSETS = {"committed_offset": "CURRENT-OFFSET", "end_offset": "LOG-END-OFFSET", "lag": "LAG"}
_INT_DIGITS, _LONG_DIGITS = 10, 19
_ASTRAL = re.compile(r"[\U00010000-\U0010ffff]")
"""Characters of two UTF-16 units."""
_FORMS = {
    "TOPIC": ("a topic", re.compile(r"[\w.-]++", re.ASCII)),
    "HOST": ("a host, such as /10.0.0.7,", re.compile(r"-|[^\s/]*+/\S++")),
    _COORDINATOR: ("a coordinator, such as broker:9092 (1),", re.compile(r"[^\s(]++ *+\([^\s)]*+\)")),
    "STATE": ("a state", re.compile(r"[A-Z]\w++", re.ASCII)),
}
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MEMBER_KINDS = {"classic": re.compile(rf".*-{_UUID}"), "consumer": re.compile(r"[\w-]{22}", re.ASCII)}
"""Member IDs: the coordinator chooses those of classic groups (`ClassicGroup.generateMemberId`), and the client the
others (`Uuid.randomUuid`)."""
_GLUED = re.compile(rf"(-{_UUID})(?=[^\s/]{{0,255}}/)")
_ASSIGNED = re.compile(r"([\w.-]*+)(?:\(([\d,]++)\)|(?<=.):([\d,]++))(?:, |;|$)", re.ASCII)


def read(
    topics: Iterable[str | Path],
    groups: Iterable[str | Path],
    cluster: str,
    *,
    brokers: Iterable[str | Path] = (),
    group: str | None = None,
) -> Snapshot:
    """Parse files of the tools' output; several groups, several files, and repeated headers are fine.

    Args:
        topics: files printed by `kafka-topics.sh --describe`.
        groups: files printed by `kafka-consumer-groups.sh` or `kafka-share-groups.sh --describe` (also with `--state`
            or `--members --verbose`), or by `--list --state`, `--list --type`, or `kafka-groups.sh --list`.
        cluster: the name for the `cluster` column.
        brokers: files with racks: printed by `kafka-broker-api-versions.sh`, or with lines `BROKER_ID,RACK`; and those
            printed by `kafka-log-dirs.sh --describe`, for log directories and the logs in them.
        group: ID of the group of layouts without the column GROUP (before Kafka 2.3).

    Raises:
        SourceError: a file that cannot be read or is empty, or a line that is neither tool's; names file and line.
    """
    found = _Found(group)
    files = {"topics": topics, "groups": groups, "brokers": brokers}
    names = {kind: [str(file) for file in of_kind] for kind, of_kind in files.items()}
    for kind, reader in (("topics", found.topic_line), ("groups", found.group_line), ("brokers", found.broker_line)):
        for file in names[kind]:
            found.read_file(file, reader)
        found.check_topics()
    unlike = sorted(group_id for group_id, group in found.groups.items() if group.has_unlike_members())
    source = {"kind": "text", **names, "skipped_lines": found.skipped_lines, "unlike_members": unlike}
    return Snapshot(cluster, source, datetime.now(UTC), found.rows(cluster).tables())


def _lines(file: str) -> Iterator[Line]:
    """Yields the lines that aren't blank. Raises SourceError."""
    try:
        data = Path(file).read_bytes()
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # PowerShell's `>`
        widest = data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
        text = text_of(data, "utf-32" if widest else "utf-16" if wide else "utf-8-sig")
    except (OSError, ValueError) as error:
        raise SourceError(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line and not line.isspace():
            yield file, number, line.rstrip("\r")


def _is_noise(text: str) -> bool:
    """Checks whether a shell or a logger printed a line, or whether it is the command itself."""
    start = _ANSI.sub("", text).strip()[:1_000]
    return not start or bool(_NOISE.match(start) or _COMMAND.match(start))


def _without_codes(line: Line) -> Line:
    """Returns a line about topics or brokers, whose names can't contain a code of a terminal, without such codes."""
    return (*line[:2], _ANSI.sub("", line[2]))


def _between_codes(text: str) -> str:
    """Returns a line without the codes of a terminal at its ends."""
    parts = _CODE.split(text) if "\x1b" in text else [text]  # a code is between two texts
    texts = [at for at in range(0, len(parts), 2) if parts[at].strip()] or [0]
    return "".join(parts[: texts[0] : 2] + parts[texts[0] : texts[-1] + 1]).rstrip("\r")


def _wrong(line: Line, expected: str) -> SourceError:
    file, number, text = line
    return SourceError(f"{file}, line {number}: expected {expected}, found: {text.strip()[:160]}")


def _check_sizes(line: Line, *names: str | None) -> None:
    """Raises SourceError for a name that no table of a fleet can have."""
    if any(map(is_too_long, names)):
        raise _wrong(line, f"names of at most {MAX_NAME_BYTES:,} bytes")


def _to_units(text: str) -> str:
    """Returns a text of UTF-16 units, to which the tools pad: two for an emoji."""
    return _ASTRAL.sub(lambda found: "".join(map(chr, struct.unpack("<2H", found[0].encode("utf-16-le")))), text)


def _from_units(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


class _Layout(NamedTuple):
    """The columns of a table, where each starts, and the column that says which table it is."""

    columns: tuple[str, ...]
    starts: tuple[int, ...]
    key: str
    blanks: str
    """The blanks of the header. A group ID can contain others."""

    @property
    def is_padded(self) -> bool:
        """Whether a column is wider than its name. If none is, the text was folded, and positions tell nothing."""
        widths = [end - start for start, end in itertools.pairwise(self.starts)]
        return widths != [len(column) + 1 for column in self.columns[:-1]]


def _layout(line: Line) -> _Layout | None:
    """Returns the layout of a header, or None for any other line."""
    text = _CODE.sub("", line[2])
    cells = [(cell[0], cell.start()) for cell in _HEADER_CELL.finditer(text)]
    columns = tuple(name for name, _ in cells)
    keys = [name for name in columns if name in _READERS]
    if not 2 <= len(cells) <= _MAX_COLUMNS or not keys or not all(map(_HEADER_NAME.fullmatch, columns)):
        return None
    starts, blanks = tuple(start for _, start in cells), "".join({" ", *re.findall(r"\s", text)})
    return _Layout(columns, starts, "TOPIC" if "TOPIC" in keys else keys[0], blanks)


def _values(line: Line, layout: _Layout) -> dict[str, str]:
    """Returns the values of a line by column. Raises SourceError if they can't be told apart."""
    columns, whole = layout.columns, _to_units(line[2])
    text, (start, end) = _between_codes(whole), layout.starts[:2]
    values = _at_positions(text, layout) or _between_spaces(text, layout)
    if columns[0] != "TOPIC":
        # Codes that take room are a part of the ID.
        has_code = whole.lstrip().startswith("\x1b")
        if values and has_code and values[0] != text[start:end].strip(" "):
            values = None
        if values is None:
            values = _at_positions(whole, layout, is_certain=False) or _between_spaces(whole, layout)
    if values is None:
        raise _wrong(line, f"{len(columns)} columns ({' '.join(columns)})")
    by_column = {column: _from_units(value) for column, value in zip(columns, values, strict=True)}
    for column, (what, form) in _FORMS.items():
        if by_column.get(column, "-") != "-" and not form.fullmatch(by_column[column]):
            raise _wrong(line, f"{what} under {column}")
    return by_column


def _group_at_position(text: str, layout: _Layout, topics: Collection[str]) -> str | None:
    """Returns the group of a line that can't be read, such as one with a long offset and then an ID with spaces.

    Returns None if the positions don't tell it: the next column that has a form must have such a value, or a topic that
    is known, so that the line isn't of a shell.
    """
    at = next((at for at, column in enumerate(layout.columns) if column in _FORMS), 0)
    if layout.columns[0] != "GROUP" or not at or not layout.is_padded:
        return None
    first = layout._replace(columns=layout.columns[: at + 1], starts=layout.starts[: at + 1])
    values = _at_positions(_to_units(text)[: [*layout.starts, None][at + 1]], first, is_certain=False)
    if values is None or is_too_long(group_id := _from_units(values[0])):
        return None
    if layout.columns[at] == "TOPIC":
        return group_id if values[at] == "-" or values[at] in topics else None
    return group_id if _FORMS[layout.columns[at]][1].fullmatch(values[at]) else None


def _at_positions(text: str, layout: _Layout, *, is_certain: bool = True) -> list[str] | None:
    """Returns the values at the positions of the header, or None if a value crosses them.

    Args:
        text: the line.
        layout: the columns.
        is_certain: whether None is also returned for a client ID that is empty, and for two spaces in a value: the line
            might be cut.
    """
    values = []
    for column, start, end in zip(layout.columns, layout.starts, [*layout.starts[1:], None], strict=True):
        value = text[start:end].rstrip(" ")
        is_value = value[:1] not in ("", "" if column in _CHOSEN else " ") and text[start - 1 : start] in ("", " ")
        is_blank = not value and (column in _BLANK or (column == "CLIENT-ID" and not is_certain))
        if not (is_value or is_blank) or (is_certain and "  " in value and column != _COORDINATOR):
            return None
        values.append(value)
    return values if not text[: layout.starts[0]].strip() else None


def _between_spaces(text: str, layout: _Layout) -> list[str] | None:
    """Returns the values between spaces, or None if their number leaves it open which is which.

    Releases before 1.1 print IDs of more than 50 characters and the host without a space between them.
    """
    columns, blanks = layout.columns, layout.blanks
    text = _GLUED.sub(r"\1 ", text.rstrip(blanks))
    if _COORDINATOR in columns:
        text = re.sub(r"(?<=\S) ++\(", "(", text, count=1)
    words = [(found[0], found.start()) for found in re.finditer(f"[^{blanks}]++", text)]
    if columns[-1] in _LISTS and len(words) > len(columns):
        last = words[len(columns) - 1][1]
        words[len(columns) - 1 :] = [(text[last:], last)]
    blank = next((columns.index(column) for column in _BLANK if column in columns), None)
    if blank is not None and len(words) == len(columns) - 1:
        words.insert(blank, ("", -1))
    if len(words) != len(columns):
        return None
    values = _with_spaces(text, words, layout)
    if "GROUP-INSTANCE-ID" in columns:
        member, instance = (values[columns.index(column)] for column in ("CONSUMER-ID", "GROUP-INSTANCE-ID"))
        if instance and not member.startswith(f"{instance}-"):
            return None  # an ID with spaces, and no instance ID
    return values


def _with_spaces(text: str, words: list[tuple[str, int]], layout: _Layout) -> list[str]:
    """Returns words with the spaces that they start with, if the positions of the header tell.

    A long number shifts the columns behind it, but then one space precedes the next value. A value that is shifted
    behind more than one starts with the others. If it isn't an ID, the positions tell nothing.

    Args:
        text: the line.
        words: word and its position, which is -1 for a blank value.
        layout: the columns.
    """
    shifts = [at - start for (_, at), start in zip(words, layout.starts, strict=True)]
    if not layout.is_padded:
        return [word for word, _ in words]
    before = 0 if shifts[1] == 0 else shifts[0]
    values: list[str] = []
    for column, (word, at), shift in zip(layout.columns, words, shifts, strict=True):
        spaces = shift - before if at >= 0 else 0
        if spaces > 0 and (not values or text[at - 2 : at] == "  "):
            if column not in _CHOSEN or text[at - spaces : at].strip(" "):
                return [word for word, _ in words]
            word = " " * spaces + word
        elif at >= 0:
            before = shift
        values.append(word)
    return values


@dataclass
class _Group:
    """What the lines say about a group."""

    assignor: str | None = None
    kind: str | None = None
    state: str | None = None
    members: dict[str, dict[str, str]] = field(default_factory=dict)
    owners: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    offsets: dict[tuple[str, int], dict[str, int | None]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Stated numbers of partitions by member ID."""
    num_members: int | None = None
    is_described: bool = False
    """Whether there is more of the group than a line of a list."""
    tables: dict[tuple[str, ...], dict[int, set[int]]] = field(default_factory=lambda: defaultdict(dict))
    """Hash codes of the lines about members, by the columns and the number of their table."""
    members_listed: set[str] = field(default_factory=set)
    """Members that the table of members has, which has all or none."""
    fault: str | None = None

    def add_member(self, line: Line, values: Mapping[str, str]) -> str | None:
        """Adds the member of a line, and returns its ID, or None if the line has no member.

        Raises SourceError if it has another client or host than in an earlier line, which one of the two cuts.
        """
        member_id = values["CONSUMER-ID"]
        if member_id == "-":
            return None
        known = self.members.setdefault(member_id, {})
        for column in ("HOST", "CLIENT-ID"):
            if known.setdefault(column, values[column]) != values[column]:
                raise _wrong(line, f"{known[column][:160]} under {column}, as in an earlier line of this member")
        if values.get("GROUP-INSTANCE-ID", "-") not in ("", "-"):
            known["GROUP-INSTANCE-ID"] = values["GROUP-INSTANCE-ID"]
        return member_id

    def has_unlike_members(self) -> bool:
        """Checks whether members certainly subscribe to different topics: range and roundrobin give each subscriber of
        a topic a partition, if there are enough.
        """
        owners = values_by_key((topic, members) for (topic, _), members in self.owners.items())
        return self.assignor in ("range", "roundrobin") and any(
            len(of_topic) >= len(self.members) > len(set().union(*of_topic)) for of_topic in owners.values()
        )

    def problem(self, partitions: Mapping[str, int]) -> str | None:
        """Returns why the members can't be planned: they rebalance, or the text has only a part of them.

        Args:
            partitions: number of partitions by topic.
        """
        if self.fault is not None:
            return self.fault
        if any(lines != next(iter(tables.values())) for tables in self.tables.values() for lines in tables.values()):
            return f"two tables of the ID differ: another ID may have spaces at its end, or the group changed. {_READ}"
        if self.state in _UNSETTLED:
            return f"the group was rebalancing when its text was printed: {self.state}"
        if not self.is_described and self.kind in (None, "classic", "consumer", "share", "streams"):
            return "the group is listed, but the text has no description of it"
        if self.kind == "streams":
            return "the text of kafka-streams-groups.sh has no topology. Take a snapshot of the cluster"
        if self.members and self.state in EMPTY_STATES:
            return f"the text has {count(len(self.members), 'member')}, and the state {self.state}: {_AGAIN}"
        if self.members_listed and self.members_listed != self.members.keys():
            return f"members are missing in the output of --members: {_AGAIN}"
        if self.num_members not in (None, len(self.members)):
            return f"--state has {count(self.num_members or 0, 'member')}, and the text {len(self.members)}: {_AGAIN}"
        owned = Counter(member for members in self.owners.values() for member in members)
        for member, number in sorted(self.counts.items()):
            if owned[member] != number:
                has = count(number, "partition")
                return f"{in_text(member)} has {has}, and the text {owned[member]}: {_AGAIN}"
        if self.kind != "share" and any(len(members) > 1 for members in self.owners.values()):
            return f"a partition has two owners: {_AGAIN}"
        listed: dict[str, set[int]] = defaultdict(set)
        for topic, partition in self.owners:
            listed[topic].add(partition)
        for topic, numbers in sorted(listed.items() if self.kind != "share" else ()):
            if topic not in partitions:
                return f"members own {in_text(topic)}, which the text of kafka-topics.sh lacks"
            missing = next(number for number in itertools.count() if number not in numbers)
            if missing < partitions[topic]:
                return f"partition {missing} of {in_text(topic)} has no owner in the text: {_AGAIN}"
            if len(numbers) > partitions[topic]:
                has = count(partitions[topic], "partition")
                return f"{in_text(topic)} has {has}, and {len(numbers)} have owners in the text: {_AGAIN}"
        return None


_AGAIN = "print all of the group again, with --members --verbose"
_UNCERTAIN = f"an ID is empty or has spaces in a row or at its start, or a line is cut: {_AGAIN}"
_READ = "Take a snapshot of the cluster"
_ESCAPED = f"an ID has an escape character, or the text has colors. Print it without colors. {_READ}, if it has none"


class _Found:
    """What the lines of all files say."""

    def __init__(self, group: str | None = None) -> None:
        self.group, self.skipped_lines = group, 0
        self.counts: dict[str, tuple[int, Line]] = {}
        self.ids: dict[str, str] = {}
        self.replicas: dict[tuple[str, int], dict[str, Any]] = {}
        self.labels: dict[str, list[str]] = {}
        self.racks: dict[int, str | None] = {}
        self.offline_log_dirs: dict[int, int] = {}
        self.log_dirs: dict[int, dict[Any, dict[str, Any]]] = {}
        self.logs: dict[int, dict[Any, dict[str, Any]]] = {}
        self.groups: dict[str, _Group] = defaultdict(_Group)
        self.layout: _Layout | None = None
        self.num_tables = 0
        self.unnamed: set[str] = set()

    def read_file(self, file: str, read_line: Callable[[Line], None]) -> None:
        """Reads a file. Raises SourceError, also if it has nothing but noise."""
        num_read, self.layout, self.unnamed = 0, None, set()
        for line in _lines(file):
            try:
                read_line(line)
                num_read += 1
            except SourceError:
                if not _is_noise(line[2]):
                    raise
                self.skipped_lines += 1
        if not num_read:
            raise SourceError(
                f"{file} is empty: the tool has failed, or has nothing to print. Run it again, or leave the file out"
            )

    def topic_line(self, line: Line) -> None:
        """Reads a line about a topic or a partition."""
        line = _without_codes(line)
        if partition := _PARTITION.match(line[2]):
            topic, number, leader = partition[1], _int(line, partition[2]), partition[3]
            _check_sizes(line, topic)
            replicas, words = _ids(line, partition[4]), partition[5].split()
            labels = [word for word in words if word.endswith(":") and word != "Replicas:"]
            adding, removing = (_labeled_ids(line, partition[5], label) for label in ("Adding", "Removing"))
            if not {*adding, *removing} <= {*replicas} or not replicas or not all(map(_FIELD.fullmatch, words)):
                raise _wrong(line, "replicas, Isr, and the replicas that are added or removed")
            # The last fields may be empty, so a line that lacks them is cut. `Adding` and `Removing` are optional, but
            # never alone.
            if ("Adding" in words) != ("Removing" in words):
                raise _wrong(line, "Adding Replicas and Removing Replicas, or none of them")
            if self.labels.setdefault(topic, labels) != labels:
                fields = ", ".join(self.labels[topic][:5])
                raise _wrong(line, f"the fields {fields} after Isr, as in an earlier line")
            row = {
                "replicas": replicas,
                "leader_id": _int(line, leader) if leader.isdecimal() else None,  # `none`, or -1 before 2.x
                **({"adding_replicas": adding, "removing_replicas": removing} if adding or removing else {}),
            }
            if self.replicas.setdefault((topic, number), row) != row:
                raise _wrong(line, f"the leader and replicas of an earlier line about partition {number} of {topic}")
        elif topic_found := _TOPIC.match(line[2]):
            counted = _int(line, topic_found[3]), line
            _check_sizes(line, topic_found[1], topic_found[2])
            if (earlier := self.counts.setdefault(topic_found[1], counted)[0]) != counted[0]:
                raise _wrong(line, f"{count(earlier, 'partition')}, as in an earlier line about {topic_found[1]},")
            if topic_found[2] and (known := self.ids.setdefault(topic_found[1], topic_found[2])) != topic_found[2]:
                raise _wrong(line, f"the TopicId {known[:160]} of an earlier line about {topic_found[1]}")
        else:
            raise _wrong(line, "a line of kafka-topics.sh --describe (Topic: … PartitionCount: … or Partition: …)")

    def check_topics(self) -> None:
        """Refuse a topic whose partitions aren't those from 0 to PartitionCount - 1, or to the highest one."""
        listed: dict[str, set[int]] = {topic: set() for topic in (self.counts if self.replicas else ())}
        for topic, partition in self.replicas:
            listed.setdefault(topic, set()).add(partition)
        for topic, numbers in listed.items():
            if topic not in self.counts:
                missing = next(number for number in itertools.count() if number not in numbers)
                if missing < len(numbers):
                    raise SourceError(
                        f"the text of kafka-topics.sh has partition {max(numbers)} of {topic}, but not partition "
                        f"{missing}. Print the topic again"
                    )
                self.counts[topic] = missing, ("", 0, "")
            num_partitions, line = self.counts[topic]
            if len(numbers) != num_partitions:
                raise _wrong(line, f"{count(num_partitions, 'partition line')} for topic {topic}, not {len(numbers)}")
            if (last := max(numbers, default=-1)) >= num_partitions:
                raise _wrong(line, f"the partitions 0 to {num_partitions - 1} of topic {topic}, not partition {last}")

    def broker_line(self, line: Line) -> None:
        """Reads the rack of a broker; the versions that kafka-broker-api-versions.sh prints below it are skipped."""
        text = (line := _without_codes(line))[2].strip()
        if broker := _BROKER.fullmatch(text):
            self._add_rack(line, _int(line, broker[1]), None if broker[2] == "null" else broker[2])
        elif (words := text.replace(",", " ").split()) and len(words) == 2 and words[0].isdecimal():
            self._add_rack(line, _int(line, words[0]), words[1])
        elif text.startswith("{"):
            try:
                listed = json.loads(text)["brokers"]
                if len({str(each["broker"]) for each in listed}) < len(listed):
                    raise ValueError("a broker is listed twice")
                for each in listed:
                    broker_id, folders = _int(line, str(each["broker"])), each["logDirs"]
                    self.offline_log_dirs[broker_id] = sum(folder["error"] is not None for folder in folders)
                    self.log_dirs[broker_id], self.logs[broker_id] = {}, {}  # those of an earlier file are older
                    for folder in folders:
                        self._add_log_dir(line, broker_id, folder)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise _wrong(line, "the JSON of kafka-log-dirs.sh") from error
        elif not (_VERSION.match(text) or text in (")", "broker_id,rack_id")):
            raise _wrong(
                line, "a line of kafka-broker-api-versions.sh (HOST:PORT (id: … rack: …) -> …), or BROKER_ID,RACK"
            )

    def _add_rack(self, line: Line, broker: int, rack: str | None) -> None:
        """Adds a rack. Raises SourceError if the broker has another one, or if it isn't the text of a rack."""
        if is_too_long(rack, MAX_RACK_BYTES):
            raise _wrong(line, f"a rack of at most {MAX_RACK_BYTES} bytes")
        if _CONTROL.search(rack or ""):
            raise _wrong(line, "a rack without control characters")
        if (earlier := self.racks.setdefault(broker, rack)) != rack:
            raise _wrong(line, f"the rack {(earlier or 'null')[:160]} of an earlier line about broker {broker}")

    def _add_log_dir(self, line: Line, broker: int, folder: Mapping[str, Any]) -> None:
        """Adds a log directory and its logs. Raises ValueError, KeyError, TypeError, or SourceError for other JSON."""
        key, error = {"broker_id": broker, "log_dir": folder["logDir"]}, folder["error"]
        if not all(isinstance(value, str) for value in (key["log_dir"], error or "")):
            raise TypeError("the path of a log directory or its error isn't a text")
        f"{key['log_dir']}{error}".encode()  # ValueError: half of a surrogate pair
        if self.log_dirs[broker].setdefault(key["log_dir"], row := {**key, "error": error}) is not row:
            raise ValueError("a log directory is listed twice")
        for each in folder["partitions"]:
            topic, _, partition = str(each["partition"]).rpartition("-")
            size, lag = (_number_or_none(line, str(each[name]), name) for name in ("size", "offsetLag"))
            log = {"topic": topic, "partition": _int(line, partition), "is_future": each["isFuture"]}
            at = topic, log["partition"], key["log_dir"]
            _check_sizes(line, topic)
            if not _FORMS["TOPIC"][1].fullmatch(topic) or (size or 0) < 0 or type(log["is_future"]) is not bool:
                raise ValueError("not a log")
            if at in self.logs[broker]:
                raise ValueError("a log is listed twice")
            self.logs[broker][at] = {**log, **key, "bytes": size, "offset_lag": lag if lag != -1 else None}

    def group_line(self, line: Line) -> None:
        """Reads a header, a message about a group, or a line of the table of the last header."""
        text = _between_codes(line[2]).strip()
        if layout := _layout(line):
            self._begin_table(line, layout)
        elif message := _NO_MEMBERS.fullmatch(text):
            group = self._group(line, message[1])
            group.state, group.is_described = "Empty", True
        elif message := _REBALANCING.fullmatch(text):
            self._group(line, message[1]).fault = "the group was rebalancing when its text was printed"
        elif message := _ABSENT.fullmatch(text):
            self._group(line, message[1]).fault = in_text(text)
        elif self.layout is None:
            raise _wrong(line, "the header GROUP TOPIC PARTITION … of kafka-consumer-groups.sh --describe")
        else:
            reader, needed = _READERS[self.layout.key]
            missing = [column for column in needed if column not in self.layout.columns]
            if missing and not {"START-OFFSET", "OFFSET-LAG"} & {*self.layout.columns}:
                raise _wrong(line, f"the default columns, {', '.join(missing)} missing in the header")
            try:
                values = _values(line, self.layout)
                group_id = values.get("GROUP") or str(self.group)
                _check_sizes(line, *(value for column, value in values.items() if column in _NAMES))
                group = self.groups.get(group_id) or _Group()
                reader(group, line, values)
            except SourceError as error:
                if (named := _group_at_position(line[2], self.layout, self.counts)) is None:
                    raise
                self.groups[named].fault = f"{in_text(str(error), 1_000)}. {_READ}"
                return
            if "CONSUMER-ID" in values:
                group.tables[self.layout.columns].setdefault(self.num_tables, set()).add(hash(tuple(values.values())))
            found = [value for column, value in values.items() if column not in (_COORDINATOR, *_LISTS)]
            if "\x1b" in "".join(values.values()):
                group.fault = _ESCAPED
            elif values.get("CLIENT-ID") == "" or group_id.startswith(" ") or "  " in "\n".join(found):
                group.fault = _UNCERTAIN
            self.groups[group_id] = group

    def _group(self, line: Line, group_id: str) -> _Group:
        """Returns the group that a message is about. Raises SourceError if its ID is too long."""
        _check_sizes(line, group_id)
        return self.groups[group_id]

    def _begin_table(self, line: Line, layout: _Layout) -> None:
        """Starts a table. Raises SourceError if it lacks columns, or if its groups have no name."""
        self.layout, self.num_tables = layout, self.num_tables + 1
        if "GROUP" in layout.columns:
            return
        if self.group is None:
            raise _wrong(line, "the column GROUP, which Kafka's tools lack before 2.3: name the group with --group,")
        if layout.key in self.unnamed:
            raise _wrong(line, f"one table of the group {self.group}, because another one can be of another group,")
        self.unnamed.add(layout.key)

    def rows(self, cluster: str) -> SnapshotRows:
        """Returns the rows of the snapshot."""
        rows = SnapshotRows(cluster)
        partitions = {topic: num_partitions for topic, (num_partitions, _) in self.counts.items()}
        for topic, num_partitions in sorted(partitions.items()):
            rows.add("topics", topic=topic, partitions=num_partitions, topic_id=self.ids.get(topic))
        for (topic, partition), columns in sorted(self.replicas.items()):
            rows.add("replicas", topic=topic, partition=partition, **columns)
        brokers = {broker for columns in self.replicas.values() for broker in columns["replicas"]}
        for broker in sorted(brokers | self.racks.keys() | self.offline_log_dirs.keys()):
            offline = self.offline_log_dirs.get(broker)
            rows.add("brokers", broker_id=broker, rack_id=self.racks.get(broker), offline_log_dirs=offline)
        for table, listed in (("log_dirs", self.log_dirs), ("log_dir_replicas", self.logs)):
            for row in itertools.chain.from_iterable(of_broker.values() for of_broker in listed.values()):
                rows.add(table, **row)
        for group_id, group in sorted(self.groups.items()):
            _add_group(rows, group_id, group, partitions)
        return rows


def _offset_line(group: _Group, line: Line, values: Mapping[str, str]) -> None:
    """Reads a line about a partition of a group, or about a member without partitions."""
    key = None if values["TOPIC"] == "-" else (values["TOPIC"], _int(line, values["PARTITION"], " under PARTITION"))
    other = {"START-OFFSET": "CURRENT-OFFSET", "OFFSET-LAG": "LAG"}
    by_name = {**values, **{other[column]: values[column] for column in other if column in values}}
    offsets = {name: _number_or_none(line, by_name.get(column, "-"), column) for name, column in _OFFSETS.items()}
    if group.offsets.get(key, offsets) != offsets:  # type: ignore[arg-type]
        raise _wrong(line, f"the offsets of an earlier line about partition {values['PARTITION']} of {values['TOPIC']}")
    member = group.add_member(line, values) if "CONSUMER-ID" in values else None
    group.is_described = True
    group.kind = "share" if "START-OFFSET" in values else "streams" if "OFFSET-LAG" in values else group.kind
    if key is None:
        return
    if member is not None:
        group.owners[key].add(member)
    group.offsets[key] = offsets


def _member_line(group: _Group, line: Line, values: Mapping[str, str]) -> None:
    """Reads a line about a member, which has its partitions with `--verbose`."""
    number = _int(line, values["#PARTITIONS"], " under #PARTITIONS") if "#PARTITIONS" in values else None
    assigned = _assigned(line, values.get("CURRENT-ASSIGNMENT", values.get("ASSIGNMENT", "-")))
    if assigned and number not in (None, len(assigned)):
        raise _wrong(line, f"{count(number or 0, 'partition')}, as under #PARTITIONS,")
    member = group.add_member(line, values)
    if member is None:
        return
    group.is_described = True
    group.members_listed.add(member)
    if number is not None:
        group.counts[member] = number
    if values.get("CURRENT-EPOCH", "-") != "-":
        group.kind = "consumer"
    elif "MEMBER-EPOCH" in values or ":" in values.get("ASSIGNMENT", ""):
        group.kind = "share"
    for key in assigned:
        group.owners[key].add(member)


def _state_line(group: _Group, line: Line, values: Mapping[str, str]) -> None:
    """Reads a line about the state of a group."""
    group.num_members = _int(line, values["#MEMBERS"], " under #MEMBERS")
    group.state, group.is_described = values["STATE"], True
    if values.get("ASSIGNMENT-STRATEGY", "-") not in ("", "-"):
        group.assignor = values["ASSIGNMENT-STRATEGY"]
    if values.get("GROUP-EPOCH", "-") != "-" and "ASSIGNMENT-STRATEGY" in values:
        group.kind = "consumer"


def _streams_line(group: _Group, _line: Line, _values: Mapping[str, str]) -> None:
    """Reads a line about a member of a streams group."""
    group.kind, group.is_described = "streams", True


def _listed_line(group: _Group, _: Line, values: Mapping[str, str]) -> None:
    """Reads a line of a list of groups."""
    group.state = values.get("STATE", group.state)
    kind, protocol = values.get("TYPE", "Unknown").lower(), values.get("PROTOCOL", "consumer")
    if kind != "unknown":
        group.kind = protocol if kind == "classic" and protocol not in ("consumer", "", "-") else kind


_READERS: dict[str, tuple[Callable[[_Group, Line, Mapping[str, str]], None], tuple[str, ...]]] = {
    "TOPIC": (_offset_line, ("PARTITION", *_OFFSETS.values(), *_MEMBER_COLUMNS)),
    _COORDINATOR: (_state_line, ("STATE", "#MEMBERS")),
    "CONSUMER-ID": (_member_line, _MEMBER_COLUMNS),
    "MEMBER": (_streams_line, ()),
    "TYPE": (_listed_line, ()),
    "STATE": (_listed_line, ()),
}
"""Readers of the lines of a table, and the columns that they need, by the column that only this table has."""


def _add_group(rows: SnapshotRows, group_id: str, group: _Group, partitions: Mapping[str, int]) -> None:
    """Adds the rows of a group from its lines."""
    problem = _ESCAPED if "\x1b" in group_id else group.problem(partitions)
    state = group.state or ("Stable" if group.members and problem is None else None)
    if problem is not None and state in EMPTY_STATES:  # only a described group is known to be empty
        state = None
    kind = group.kind or _kind_of_members(group.members)
    rows.add("groups", group_id=group_id, assignor=group.assignor, group_type=kind, state=state)
    for topic, partition in sorted(group.offsets):
        rows.add("offsets", group_id=group_id, topic=topic, partition=partition, **group.offsets[topic, partition])
    if problem is not None:
        rows.add("undescribed", group_id=group_id, error=problem)
        return
    owned = values_by_key((member_id, key) for key, members in group.owners.items() for member_id in members)
    for member_id, member in sorted(group.members.items()):
        rows.add(
            "members",
            group_id=group_id,
            member_id=member_id,
            group_instance_id=member.get("GROUP-INSTANCE-ID"),
            client_id=member["CLIENT-ID"],
            client_host=member["HOST"],
        )
        rows.add_owned(group_id, member_id, owned.get(member_id, ()))
    topics = sorted({topic for topic, _ in group.owners})
    rows.add_subscriptions(group_id, dict.fromkeys(sorted(group.members), topics))


def _kind_of_members(members: Collection[str]) -> str | None:
    """Returns the type of a group by the form of its members' IDs, or None without members or with other IDs."""
    kinds = (kind for kind, form in _MEMBER_KINDS.items() if members and all(map(form.fullmatch, members)))
    return next(kinds, None)


def _assigned(line: Line, text: str) -> list[tuple[str, int]]:
    """Returns the partitions of `orders(0,1), payments(2)` (before Kafka 4.0) or `orders:0,1;payments:2`.

    Kafka 3.8 and 3.9 print `(0,1), (2)`: which topics is unknown, so nothing is returned.
    """
    assigned, position = [], 0
    while text not in ("", "-") and position < len(text):
        topic = _ASSIGNED.match(text, position)
        if topic is None:
            raise _wrong(line, "an assignment, such as orders(0,1), payments(2)")
        numbers = (topic[2] or topic[3]).split(",")
        assigned += [(topic[1], _int(line, number, " in an assignment")) for number in numbers if topic[1]]
        position = topic.end()
    return assigned


def _ids(line: Line, text: str) -> list[int]:
    return [_int(line, broker.strip()) for broker in text.split(",") if broker.strip()]


def _labeled_ids(line: Line, text: str, label: str) -> list[int]:
    """Returns the brokers of `Adding Replicas` or `Removing Replicas`; empty if the line lacks it."""
    return _ids(line, re.match(r"[\d,\s]*+", text.partition(f"{label} Replicas:")[2])[0])  # type: ignore[index]


def _int(line: Line, text: str, where: str = "", digits: int = _INT_DIGITS) -> int:
    """Returns a number from 0 that fits into Kafka's type, an int or a long."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= digits
    if not is_number or int(text) >= 1 << (31 if digits == _INT_DIGITS else 63):
        raise _wrong(line, f"a number{where}")
    return int(text)


def _number_or_none(line: Line, text: str, column: str) -> int | None:
    if text == "-":
        return None
    number = _int(line, text.removeprefix("-"), f" or - under {column}", _LONG_DIGITS)
    return -number if text.startswith("-") else number
