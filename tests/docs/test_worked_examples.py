"""Every worked example of the pages on assignors is planned, and comes out as it stands there (docs/assignors.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from spark_assign import Fleet, plan
from spark_assign.tables.groups import INPUT_TABLES
from tests.docs.pages import ROOT, others
from tests.spark import fleets

PAGE = "docs/assignors.md"
PAGES = (PAGE, "docs/libraries.md", "docs/weighted.md")
TOPIC = re.compile(r"(\w+): (\d+) partitions?(?: in racks ([\w, ]+))?")
PARTITION = re.compile(r"(\w+)p(\d+)")
ROUND = re.compile(r"(?P<assignor>[\w@.-]+)(?:, round (?P<round>\d+))?$")
OWNER = 1
"""The generation of members that own something."""

Assigned = dict[str, list[tuple[str, int]]]


@dataclass
class Example:
    """A block of the page: topics with the racks of their partitions, members by name, what each assignor gives."""

    topics: dict[str, tuple[int, list[str]]]
    members: dict[str, dict[str, str]]
    given: dict[tuple[str, int], Assigned] = field(default_factory=dict)


def partitions(text: str) -> list[tuple[str, int]]:
    """`[t0p0, t1p2]`."""
    return [(topic, int(number)) for topic, number in PARTITION.findall(text)]


def read(lines: list[str]) -> Example:
    """The parts of a block: topics; a table of members; and, for each assignor, its name and who gets what."""
    topics_part, members_part, *answers = "\n".join(lines).split("\n\n")
    topics = {name: (int(count), r.split(", ") if r else []) for name, count, r in TOPIC.findall(topics_part)}
    header, *rows = members_part.splitlines()
    columns = re.split(r" {2,}", header.strip())
    members = {}
    for row in rows:
        name, *values = re.split(r" {2,}", row)
        members[name] = dict(zip(columns, values, strict=True))
    example = Example(topics, members)
    for answer in answers:
        first, *rows = answer.splitlines()
        heading = ROUND.match(first)
        assert heading is not None, f"no assignor: {first}"
        gets = {name: partitions(text) for name, text in (row.split(maxsplit=1) for row in rows)}
        example.given[heading["assignor"], int(heading["round"] or 1)] = gets
    return example


def examples() -> list[Example]:
    """Those of the pages, in their order."""
    return [read(block.lines) for page in PAGES for block in others(ROOT / page) if block.mark == "text"]


def rows_of(group: str, example: Example) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a fleet, by table; every group is in a cluster of its own."""
    at = {"cluster": group}
    racks = sorted({rack for _, of_topic in example.topics.values() for rack in of_topic})
    yield from (("brokers", at | {"broker_id": number, "rack_id": rack}) for number, rack in enumerate(racks))
    for topic, (count, of_topic) in example.topics.items():
        yield "topics", at | {"topic": topic, "partitions": count}
        for number, rack in enumerate(of_topic):
            yield "replicas", at | {"topic": topic, "partition": number, "replicas": [racks.index(rack)]}
    for name, heading in example.members.items():
        member = at | {"group_id": group, "member_id": name}
        owned = partitions(heading.get("owns", ""))
        yield "members", member | {"rack_id": heading.get("rack"), "generation_id": OWNER if owned else None}
        yield from (("subscriptions", member | {"topic": topic}) for topic in heading["subscribes to"].split(", "))
        yield from (("owned", member | {"topic": topic, "partition": number}) for topic, number in owned)


@pytest.mark.spark
@pytest.mark.once
def test_the_examples_are_what_is_planned(spark: SparkSession) -> None:
    """All of them at once: each assignor of each example is a group."""
    expected: dict[tuple[str, int], Assigned] = {}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in INPUT_TABLES}
    for number, example in enumerate(examples()):
        for (assignor, round_), gets in example.given.items():
            group = f"{number}-{assignor}"
            expected[group, round_] = gets
            if round_ == 1:
                rows["groups"].append({"cluster": group, "group_id": group, "assignor": assignor})
                for table, row in rows_of(group, example):
                    rows[table].append(row)
    del rows["owned_slices"], rows["owned_lists"]
    fleet = Fleet(**{name: _table(spark, name, of_table) for name, of_table in rows.items()})
    first = plan(fleet)
    assert first.rejected.count() == 0
    for round_, planned in ((1, first), (2, plan(fleet.apply(first)))):
        found: dict[str, Assigned] = {}
        for row in planned.assignments.orderBy("topic", "partition").collect():
            found.setdefault(row.group_id, {}).setdefault(row.member_id, []).append((row.topic, row.partition))
        wanted = {group: gets for (group, of), gets in expected.items() if of == round_}
        got = {group: {name: found.get(group, {}).get(name, []) for name in gets} for group, gets in wanted.items()}
        assert got == wanted


def _table(spark: SparkSession, name: str, rows: list[dict[str, Any]]) -> Any:
    columns: list[StructField] = list(INPUT_TABLES[name])
    return fleets.table(spark, name, [tuple(row.get(column.name) for column in columns) for row in rows])


def test_every_example_is_read() -> None:
    """Each has topics, members and an outcome that names all of them."""
    found = examples()
    assert len(found) == 12
    for example in found:
        assert example.topics
        assert example.given
        for gets in example.given.values():
            assert gets.keys() == example.members.keys()


def test_the_drawings_show_what_the_examples_say() -> None:
    """Of roundrobin and of cooperative-sticky, where each column names its partition or its round."""
    drawn = {block.lines[0].split()[0]: block.lines for block in others(ROOT / PAGE) if not block.mark}
    dealt = dict(zip(drawn["t0p0"][0].split(), drawn["t0p0"][1].split(), strict=True))
    by_assignor = {assignor: example for example in reversed(examples()) for assignor, _ in example.given}
    (given,) = [gets for (name, _), gets in by_assignor["roundrobin"].given.items() if name == "roundrobin"]
    assert dealt == {f"{topic}p{number}": member for member, gets in given.items() for topic, number in gets}
    two = by_assignor["cooperative-sticky"]
    for line in drawn["before"][1:]:
        name, before, first, second = re.split(r" {2,}", line)
        (partition,) = partitions(name)
        assert partition in partitions(two.members[before]["owns"])
        owner = [member for member, gets in two.given["cooperative-sticky", 1].items() if partition in gets]
        assert owner == ([] if first.startswith("withheld") else [first])
        assert partition in two.given["cooperative-sticky", 2][second]
    assert [re.findall(r"C\d", line) for line in drawn["p0"][1:]] == [["C0", "C1"], ["C0", "C1"]]
