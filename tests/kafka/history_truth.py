"""What really was, as listeners, Streams and Connect were told: who owned what, and when nobody was on the move."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kafka import history_story, maven
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import about

MARGIN_MS = 1_500
"""So far from everything that was told or logged a moment has to be."""

Owners = dict[str, frozenset[history_story.Item]]
"""Client to what it has."""


@dataclass(frozen=True)
class Step:
    """From then on a client has this; `waits`: it gave up all and is to be told what it has."""

    at_ms: int
    owned: frozenset[history_story.Item]
    waits: bool
    row: history_story.Row


def steps(story: history_story.Story, stay: history_story.Stay) -> list[Step]:
    """What a member of consumers or of Streams had, call by call, in one of its stays."""
    key = stay.group, stay.client, stay.start_ms, len(story.stays), len(story.listener_rows), len(story.tasks)
    if key not in story.known:
        story.known[key] = list(_steps(story, stay))
    found: list[Step] = story.known[key]
    return found


def _steps(story: history_story.Story, stay: history_story.Stay) -> Iterator[Step]:
    last = _end(story, stay)
    found = story.tasks if stay.group in (history_story.STREAMS, history_story.CLASSIC_STREAMS) else story.listener_rows
    rows = [
        row
        for row in found
        if (row.get("group") or row.get("application_id")) == stay.group
        and row["client_id"] == stay.client
        and stay.start_ms <= row["at_ms"] < last
    ]
    owned: frozenset[history_story.Item] = frozenset()
    for row in rows:
        if row["event"] == "tasks":
            owned = frozenset(item for task in row["active"] for item in _items(stay.group, task))
            yield Step(row["at_ms"], owned, row["state"] != "RUNNING", row)
            continue
        items = frozenset(("partition", topic, partition) for topic, partition in row.get("partitions", ()))
        if row["event"] == "assigned":
            owned |= items
        elif row["event"] in ("revoked", "lost"):
            owned -= items
        elif row["event"] == "closed":
            owned = frozenset()
        yield Step(row["at_ms"], owned, not owned and row["event"] in ("revoked", "lost"), row)


def _items(group: str, task: str) -> Iterator[history_story.Item]:
    subtopology, partition = task.split("_")
    yield "active", subtopology, int(partition)
    if group == history_story.STREAMS:
        return
    yield from (("partition", t, int(partition)) for t, count in history_story.TOPICS.items() if int(partition) < count)


def _end(story: history_story.Story, stay: history_story.Stay) -> int:
    """When the client is started again."""
    later = [each.start_ms for each in story.stays if (each.group, each.client) == (stay.group, stay.client)]
    return min((since for since in later if since > stay.start_ms), default=2**62)


def unsettled(story: history_story.Story, group: str) -> str | None:
    """Why a group is not settled: somebody says nothing yet, or something has no owner, or two."""
    there = [stay for stay in story.stays if stay.group == group and stay.end_ms is None]
    owners: Owners = {}
    for stay in there:
        listener_rows = steps(story, stay)
        if not listener_rows or listener_rows[-1].waits:
            return f"{stay.client} waits"
        owners[stay.client] = listener_rows[-1].owned
    owned = [item for items in owners.values() for item in items]
    if group == history_story.CLASSIC_STREAMS:
        owned = [item for item in owned if item[0] == "partition"]
    wanted = history_story.TASKS if group == history_story.STREAMS else history_story.PARTITIONS
    if there and (len(owned) != len(wanted) or set(owned) != wanted):
        return f"owned is {owners}"
    return None


def owners_at(story: history_story.Story, group: str, at_ms: int) -> Owners | None:
    """Who had what at a moment; None: somebody was told something near it, or is to be told."""
    if any(abs(at - at_ms) <= MARGIN_MS for at, _ in about(group, story.log)):
        return None
    if group == history_story.CONNECT:
        had = [had for since, until, had in story.placements if since <= at_ms <= until]
        return had[0] if had else None
    found: Owners = {}
    listener_rows = [(stay, steps(story, stay)) for stay in [stay for stay in story.stays if stay.group == group]]
    for stay, mine in listener_rows:
        marks = [step.at_ms for step in mine] + [stay.start_ms] + ([stay.end_ms] if stay.end_ms is not None else [])
        if any(abs(mark - at_ms) <= MARGIN_MS for mark in marks):
            return None
        if stay.start_ms > at_ms:
            continue
        until = stay.end_ms
        if stay.went == history_story.CRASHED and until is not None:
            # Its partitions are its own until the coordinator misses it, and somebody is told.
            others = [step.at_ms for other, theirs in listener_rows if other is not stay for step in theirs]
            until = min((at for at in others if at > stay.end_ms), default=2**62)
        if until is not None and until <= at_ms:
            continue
        past = [step for step in mine if step.at_ms <= at_ms]
        if not past or past[-1].waits:
            return None
        found[stay.client] = past[-1].owned
    return found


@dataclass(frozen=True)
class Received:
    """What a member of a classic group was given in one generation."""

    group: str
    client: str
    member_id: str
    generation: int
    owned: frozenset[history_story.Item]
    at_ms: int


def given(story: history_story.Story, group: str) -> Iterator[Received]:
    """Every generation of every member of a group of consumers, as its listener was told."""
    for stay in story.stays:
        if stay.group != group:
            continue
        for step in steps(story, stay):
            if step.row["event"] == "assigned":
                row = step.row
                yield Received(group, stay.client, row["member_id"], row["generation_id"], step.owned, row["at_ms"])


_GROUP_METADATA = re.compile(r' key: (\{"type":"2",.*\}) payload: (\{.*\})$', re.MULTILINE)


def written_generations(cluster: Cluster) -> dict[str, list[int]]:
    """Returns, for each classic group, the generations of its GroupMetadata records in `__consumer_offsets`, ascending.

    Kafka's own tool decodes the log segments (`kafka-dump-log.sh --offsets-decoder`). The number 0 is that of a group
    that only commits offsets.
    """
    files = ",".join(map(str, cluster.folder.glob("log-*/__consumer_offsets-*/*.log")))
    command = ["java", "-cp", maven.applications_classpath(), "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--files", files]
    dump = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
    found: dict[str, set[int]] = {}
    for key, value in _GROUP_METADATA.findall(dump):
        found.setdefault(json.loads(key)["data"]["group"], set()).add(json.loads(value)["data"]["generation"])
    return {group: sorted(numbers - {0}) for group, numbers in found.items()}
