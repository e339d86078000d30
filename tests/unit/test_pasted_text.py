"""What the tools of each release since 0.11 print of one cluster, as it is and altered by noise, against its snapshot.

tests/kafka/record_pasted_text.py has recorded both.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import describe_text
from spark_assign.tables.errors import SourceError

RECORDED = Path(__file__).parent / "pasted_text.jsonl.gz"
Row = dict[str, Any]
Tables = dict[str, set[Any]]


@cache
def _recorded() -> list[Row]:
    with gzip.open(RECORDED, "rt") as file:
        return [json.loads(line) for line in file]


def _texts(cluster: str) -> dict[str, dict[str, str]]:
    """Returns release to command to text."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in _recorded():
        if row["cluster"] == cluster and row["command"] != "snapshot":
            for release in row["releases"]:
                found[release][row["command"]] = row["text"]
    return found


def _snapshot(cluster: str) -> dict[str, list[Row]]:
    (row,) = (row for row in _recorded() if row["cluster"] == cluster and row["command"] == "snapshot")
    return row["tables"]


def _tables(tables: dict[str, list[Row]]) -> Tables:
    """Returns what a plan reads, in any order: a set of rows for each table."""
    found: Tables = {
        name: set() for name in ("topics", "replicas", "groups", "members", "owned", "offsets", "undescribed")
    }
    for row in tables.get("topics", []):
        found["topics"].add((row["topic"], row["partitions"]))
    for row in tables.get("replicas", []):
        moving = (tuple(row.get(name) or ()) for name in ("adding_replicas", "removing_replicas"))
        found["replicas"].add((row["topic"], row["partition"], tuple(row["replicas"]), row["leader_id"], *moving))
    for row in tables.get("groups", []):
        found["groups"].add((row["group_id"], row["state"], row["assignor"]))
    for row in tables.get("members", []):
        names = ("group_id", "member_id", "client_id", "client_host", "group_instance_id")
        found["members"].add(tuple(row[name] for name in names))
    for row in tables.get("owned_lists", []):
        for topic, first, step, count in zip(
            *(row[name] for name in ("topics", "firsts", "steps", "counts")), strict=True
        ):
            owned = {(row["group_id"], row["member_id"], topic, first + step * at) for at in range(count)}
            found["owned"] |= owned
    for row in tables.get("offsets", []):
        names = ("group_id", "topic", "partition", "committed_offset", "end_offset", "lag")
        found["offsets"].add(tuple(row[name] for name in names))
    found["undescribed"] = {row["group_id"] for row in tables.get("undescribed", [])}
    return found


def _of_groups(tables: Tables, groups: Iterable[str]) -> Tables:
    """Returns the rows of these groups, and of all topics."""
    wanted = set(groups)
    return {
        name: rows
        if name in ("topics", "replicas")
        else {row for row in rows if (row if name == "undescribed" else row[0]) in wanted}
        for name, rows in tables.items()
    }


def _read(folder: Path, texts: Mapping[str, bytes | str], group: str | None = None) -> Snapshot:
    """Reads texts by the commands that have printed them."""
    files: dict[str, list[Path]] = {"topics": [], "groups": [], "brokers": []}
    for number, (command, text) in enumerate(texts.items()):
        file = folder / f"{number}.txt"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        kind = {"topics": "topics", "versions": "brokers", "log-dirs": "brokers"}.get(command, "groups")
        files[kind].append(file)
    return describe_text.read(files["topics"], files["groups"], "c", brokers=files["brokers"], group=group)


CONSUMER = ("topics", "groups", "groups state", "groups members verbose")
SHARE = ("share", "share members", "share state")
CLASSIC = {"shop", "mixed", "wide", "team one", "idle", "busy"}
NEWER = list(_texts("4.4").items())
OLDER = list(_texts("3.9").items())


def _version(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _expected(release: str, groups: Iterable[str], cluster: str = "4.4") -> Tables:
    """Returns what the snapshot of the cluster has of these groups, as far as a release prints it."""
    number = _version(release)
    tables = _of_groups(_tables(_snapshot(cluster)), groups)
    if number < (2, 6):
        tables["replicas"] = {(*row[:4], (), ()) for row in tables["replicas"]}
        tables["members"] = {(*row[:4], None) for row in tables["members"]}
    return tables


def _read_tables(folder: Path, texts: Mapping[str, bytes | str], group: str | None = None) -> Tables:
    tables = {name: table.to_pylist() for name, table in _read(folder, texts, group).tables.items()}
    found = _tables(tables)
    # The text has partitions without a commit that members of such groups own; a snapshot hasn't.
    found["offsets"] = {row for row in found["offsets"] if row[0] not in found["undescribed"] or row[3] is not None}
    return found


@pytest.mark.parametrize(("release", "texts"), NEWER, ids=[release for release, _ in NEWER])
def test_each_release_gives_the_snapshot(release: str, texts: dict[str, str], tmp_path: Path) -> None:
    """Topics, moving replicas, members, owners, states, assignors, and offsets. IDs have spaces, a group rebalances.

    Before Kafka 3.8, the tools can't describe a group of the consumer protocol: it isn't empty, but undescribed.
    """
    commands = [name for name in (*CONSUMER, "versions", "log-dirs") if name in texts]
    found = _read_tables(tmp_path, {name: texts[name] for name in commands})
    snapshot = _read(tmp_path, {name: texts[name] for name in commands})
    assert snapshot.source["unlike_members"] == ["mixed"]
    brokers = [
        (row["broker_id"], row["rack_id"], row["offline_log_dirs"]) for row in snapshot.tables["brokers"].to_pylist()
    ]
    assert brokers == [(1, "zone-1", 0 if "log-dirs" in texts else None), (2, None, None)]
    groups = CLASSIC | {"new-one"} if _version(release) >= (3, 8) else CLASSIC
    assert _of_groups(found, groups) == _expected(release, groups)
    assert found["undescribed"] == {"busy"} | ({"new-one"} - groups)


@pytest.mark.parametrize(("release", "texts"), OLDER, ids=[release for release, _ in OLDER])
def test_layouts_without_a_group(release: str, texts: dict[str, str], tmp_path: Path) -> None:
    """Before 2.3, `--group` names the group. Before 2.1, a group without commits has no lines about partitions."""
    topics = {"topics": texts["topics"] if "topics" in texts else next(iter(OLDER))[1]["topics"]}
    for group in ("shop", "team one", "busy", *(("mixed", "wide") if _version(release) >= (2, 1) else ())):
        named = {name: text for name, text in texts.items() if name.endswith(f"@{group}")}
        found = _read_tables(tmp_path, {**topics, **named}, group)
        expected = _expected(release, [group], "3.9")
        if _version(release) < (1, 1):  # without --state
            expected["groups"] = {(name, None if name == "busy" else "Stable", None) for name, *_ in expected["groups"]}
        assert _of_groups(found, [group]) == expected, group
    if _version(release) < (2, 3):
        with pytest.raises(SourceError, match=r"lack before 2\.3: name the group with --group"):
            _read(tmp_path, {**topics, "groups@shop": texts["groups@shop"]})
        with pytest.raises(SourceError, match="expected one table of the group shop"):
            _read(tmp_path, {**topics, "groups@shop": texts["groups@shop"] + texts["groups@team one"]}, "shop")


@pytest.mark.parametrize(("release", "texts"), NEWER[:3], ids=[release for release, _ in NEWER[:3]])
def test_share_and_streams_groups(release: str, texts: dict[str, str], tmp_path: Path) -> None:
    """Share groups have members and owners; streams groups lack a topology, so that they are undescribed."""
    snapshot = _read(tmp_path, {name: texts[name] for name in ("topics", *SHARE, "streams verbose", "streams members")})
    found = _tables({name: table.to_pylist() for name, table in snapshot.tables.items()})
    expected = _expected(release, ["share-one"])
    for name in ("members", "owned", "undescribed"):
        assert _of_groups(found, ["share-one"])[name] == expected[name]
    assert found["undescribed"] == {"streams-one"}
    assert {row for row in found["offsets"] if row[0] == "streams-one"} == _expected(release, ["streams-one"])[
        "offsets"
    ]
    kinds = {row["group_id"]: row["group_type"] for row in snapshot.tables["groups"].to_pylist()}
    assert kinds == {"share-one": "share", "streams-one": "streams"}


def test_types_of_groups(tmp_path: Path) -> None:
    """From lists, epochs, or IDs of members; a group that is only listed is undescribed."""
    texts = NEWER[0][1]
    for command in ("groups state verbose", "groups members verbose", "groups", "groups list types", "all groups"):
        tables = _read(tmp_path, {"topics": texts["topics"], command: texts[command]}).tables
        kinds = {row["group_id"]: row["group_type"] for row in tables["groups"].to_pylist()}
        assert kinds["new-one"] == "consumer", command
    assert kinds["share-one"] == "share"
    assert {row["group_id"] for row in tables["undescribed"].to_pylist()} >= {"new-one", "shop", "share-one"}


def test_only_members_or_only_states(tmp_path: Path) -> None:
    """With --verbose, members have their partitions; what is missing otherwise makes a group undescribed."""
    for release, texts in NEWER:
        topics = texts["topics"]
        found = _read_tables(tmp_path, {"topics": topics, "members": texts["groups members verbose"]})
        if _version(release)[:2] in ((3, 8), (3, 9)):  # they print no topics
            assert found["undescribed"] >= {"shop", "mixed", "team one"}, release
        else:
            expected = _expected(release, ["shop", "mixed", "wide", "team one"])
            for name in ("members", "owned"):
                assert _of_groups(found, ["shop", "mixed", "wide", "team one"])[name] == expected[name], release
        found = _read_tables(tmp_path, {"topics": topics, "members": texts["groups members"]})
        assert found["undescribed"] >= {"shop", "mixed", "team one"}
        found = _read_tables(tmp_path, {"topics": topics, "state": texts["groups state"]})
        assert found["undescribed"] >= {"shop", "mixed", "team one", "wide"}


# --- noise --------------------------------------------------------------------------------------------------------

NOISE = """
Defaulted container "kafka" out of: kafka, exporter, init (init)
Unable to use a TTY - input is not a terminal or the right kind of file
If you don't see a command prompt, try pressing enter.
pod "kafka-client" deleted
command terminated with exit code 1
E1129 01:02:03.123456     123 v3.go:79] error reading stream
Picked up JAVA_TOOL_OPTIONS: -Xmx256m -Dcom.sun.management.jmxremote
Picked up _JAVA_OPTIONS: -Xmx256m
OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes
SLF4J: Class path contains multiple SLF4J bindings.
SLF4J(W): No SLF4J providers were found.
log4j:WARN No appenders could be found for logger (kafka.utils.Log4jControllerRegistration$).
[2026-11-29 01:02:03,456] WARN [AdminClient clientId=adminclient-1] Connection to node 2 could not be made. (o.a.k.N)
2026-11-29T01:02:03.456789Z main WARN The use of package scanning to locate Log4j plugins is deprecated
2026-11-29 01:02:03 INFO  AdminClientConfig:370 - AdminClientConfig values:
main ERROR Reconfiguration failed: No configuration found for '4e50df2e' at 'null' in 'null'
[root@broker-1 bin]# ./kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --all-groups
user@host:~/kafka_2.13-4.1.0$ bin/kafka-topics.sh --describe --bootstrap-server localhost:9092
$ kubectl exec -it kafka-0 -c kafka -- bin/kafka-topics.sh --bootstrap-server localhost:9092 --describe
PS C:\\kafka> .\\bin\\windows\\kafka-topics.bat --bootstrap-server localhost:9092 --describe
kafka-topics.sh --bootstrap-server localhost:9092 --describe
[root@broker-1 bin]#
user@host:~$
$
Note: This will not show information about old Zookeeper-based consumers.
""".strip().splitlines()


def _between(rng: random.Random, lines: list[str]) -> list[str]:
    for _ in range(rng.randint(1, 6)):
        lines.insert(rng.randint(0, len(lines)), rng.choice(NOISE))
    return lines


def _colored(rng: random.Random, lines: list[str]) -> list[str]:
    return [
        f"\x1b[{rng.choice(['1', '31', '0;32'])}m{line}\x1b[0m\x1b[K" if rng.random() < 0.4 else line for line in lines
    ]


def _padded(rng: random.Random, lines: list[str]) -> list[str]:
    return [line.rstrip() + " " * rng.randint(0, 9) for line in lines]


def _indented(rng: random.Random, lines: list[str]) -> list[str]:
    return [" " * 4 + line for line in lines]


def _collapsed(rng: random.Random, lines: list[str]) -> list[str]:
    return [re.sub(" +", " ", line) for line in lines]


def _narrow(rng: random.Random, lines: list[str]) -> list[str]:
    width = rng.randint(60, 150)
    return [line[:width] for line in lines]


def _torn(rng: random.Random, lines: list[str]) -> list[str]:
    at = rng.randrange(len(lines))
    return [*lines[:at], lines[at][: rng.randint(0, len(lines[at]))]]


def _dropped(rng: random.Random, lines: list[str]) -> list[str]:
    at = rng.randrange(len(lines))
    return [*lines[:at], *lines[at + 1 :]]


def _shifted(rng: random.Random, lines: list[str]) -> list[str]:
    at = rng.randrange(len(lines))
    place = rng.randint(0, len(lines[at]))
    return [*lines[:at], lines[at][:place] + " " * rng.randint(1, 3) + lines[at][place:], *lines[at + 1 :]]


def _joined(rng: random.Random, lines: list[str]) -> list[str]:
    at = rng.randrange(len(lines))
    return [*lines[:at], re.sub("  +", "", lines[at], count=1), *lines[at + 1 :]]


def _twice(rng: random.Random, lines: list[str]) -> list[str]:
    return lines * 2


KEEPS: list[Callable[[random.Random, list[str]], list[str]]] = [_between, _colored, _padded, _indented, _twice]
BREAKS = [_collapsed, _narrow, _torn, _dropped, _shifted, _joined]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32"]


@pytest.mark.parametrize("case", range(60))
def test_noise(case: int, seed: int, tmp_path: Path) -> None:
    """Known noise changes nothing. After any other change, each group is as in the snapshot, or undescribed, or the
    change is an error with its line.
    """
    rng = random.Random(f"{seed} {case}")
    release, texts = rng.choice(NEWER)
    changes = rng.sample(KEEPS, rng.randint(1, 3))
    breaks = [rng.choice(BREAKS)] if case % 2 else []
    altered = {}
    broken = rng.choice(CONSUMER)
    for name in CONSUMER:
        lines = texts[name].splitlines()
        for change in [*(breaks if name == broken else []), *changes]:
            lines = change(rng, lines)
        text = rng.choice(["\n", "\r\n"]).join(lines)
        altered[name] = text.encode(rng.choice(ENCODINGS))
    expected = _expected(release, CLASSIC)
    try:
        found = _of_groups(_read_tables(tmp_path, altered), CLASSIC)
    except SourceError as error:
        if breaks and re.search(r"\.txt, line \d+: expected |\.txt is empty|has partition \d+ of", str(error)):
            return
        raise
    if not breaks:
        assert found == expected
        return
    assert found["topics"] <= expected["topics"]
    # Before 4.0, a line that is cut behind Isr looks like one with fewer replicas to add or remove.
    columns = 6 if _version(release) >= (4, 0) else 4
    assert {row[:columns] for row in found["replicas"]} <= {row[:columns] for row in expected["replicas"]}
    for group in CLASSIC - found["undescribed"]:
        mine, right = _of_groups(found, [group]), _of_groups(expected, [group])
        assert mine["owned"] in (right["owned"], set()), (breaks, broken, group)
        if mine["members"] - right["members"]:  # the table of members is gone, so that instance IDs are unknown
            right["members"] = {(*row[:4], None) for row in right["members"]}
        assert mine["members"] in (right["members"], set()), (breaks, broken, group)
        assert mine["offsets"] <= right["offsets"]
        for _, state, assignor in mine["groups"]:
            ((_, right_state, right_assignor),) = right["groups"]
            assert state in (right_state, "Stable", None)
            assert assignor in (right_assignor, None)
