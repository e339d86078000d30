"""Every recorded case of librdkafka's assignors, called in C (`tests/kafka/c`), by the profiles of their names."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.assignors.librdkafka.assign_librdkafka import assign_sticky, withhold
from spark_assign.assignors.librdkafka.balance import LibrdkafkaGroup, LibrdkafkaMember
from spark_assign.spark.engine import cached
from tests.golden import sticky_kernel, tables, vectors
from tests.recorded_lines import read_rows

CASES = {"range": 120, "roundrobin": 60, "cooperative-sticky": 420}
ENDED = 20
"""In so many of cooperative-sticky librdkafka ends with a signal."""


def rows_of(strategy: str) -> list[vectors.Row]:
    """The recorded rows of one assignor; `profile` is its name here."""
    rows = [row for row in read_rows(vectors.FOLDER / "client-librdkafka.jsonl.gz") if row["strategy"] == strategy]
    assert len(rows) == CASES[strategy]
    return [row | {"profile": f"{strategy}@librdkafka"} for row in rows]


def ended(rows: list[vectors.Row]) -> set[str]:
    """Those that it does not answer."""
    return {row["case"] for row in rows if row["expect"] is None}


def planned(rows: list[vectors.Row]) -> vectors.Sets:
    """What is recorded of partitions that there are: a plan leaves out what is given back of topics that are gone."""
    sets = vectors.expected_sets(rows)
    for row in rows:
        subscribed = {topic for member in row["members"] for topic in member["topics"]}
        there = {topic: count if topic in subscribed else 0 for topic, count in row["topics"].items()}
        got = {who: {(t, p) for t, p in what if p < there.get(t, 0)} for who, what in sets.pop(row["case"], {}).items()}
        sets[row["case"]] = {who: what for who, what in got.items() if what}
    return {case: got for case, got in sets.items() if got}


@pytest.mark.once
def test_what_is_given_back_of_topics_that_are_gone() -> None:
    """The kernel alone, which gives it back: all that was recorded."""
    rows = [row for row in rows_of("cooperative-sticky") if row["expect"] is not None]
    answered: vectors.Sets = {}
    for row in rows:
        members = tuple(
            LibrdkafkaMember(
                *(each["id"], each["instance"], each["rack"] or ""),
                *(-1 if each["generation"] is None else each["generation"], frozenset(each["topics"])),
                tuple((topic, partition) for topic, partition in each["owned"]),
            )
            for each in row["members"]
            if each["topics"]
        )
        pairs = (row["replica_racks"] or {}).items()
        racks = {t: [frozenset(a for a in e if a is not None) for e in r] for t, r in pairs}
        group = LibrdkafkaGroup(members, row["topics"], racks)
        given = withhold(group, assign_sticky(group))[0]
        answered[row["case"]] = {who: set(what) for who, what in given.items() if what}
    assert vectors.differences(vectors.expected_sets(rows), answered) == []
    assert planned(rows) != vectors.expected_sets(rows)


@pytest.mark.once
@pytest.mark.parametrize("strategy", CASES)
def test_the_kernels_plan_what_librdkafka_answered(strategy: str) -> None:
    """Zero differences, and refused is exactly where librdkafka ends."""
    rows = rows_of(strategy)
    answer = sticky_kernel.planned(rows, f"{strategy}@librdkafka")
    assert vectors.differences(planned(rows), answer.sets) == []
    assert set(answer.refused) == ended(rows)
    assert len(answer.refused) == (ENDED if strategy == "cooperative-sticky" else 0)
    assert all(text.endswith(" (2.6.1 to 2.16; no issue is known)") for text in answer.refused.values())


@pytest.mark.once
def test_the_rules_of_kafkas_own_clients_would_not_do() -> None:
    """Two thirds of the rows of cooperative-sticky were chosen because Java answers otherwise."""
    rows = [row for row in rows_of("cooperative-sticky") if row["expect"] is not None]
    answer = sticky_kernel.planned(rows, "cooperative-sticky")
    alike = {row["case"] for row in rows if row["equals_java"]}
    differing = {line.partition(": ")[0] for line in vectors.differences(vectors.expected_sets(rows), answer.sets)}
    assert differing == {row["case"] for row in rows} - alike
    assert len(alike) == 126


def test_the_plan_is_what_librdkafka_answered(spark: SparkSession) -> None:
    """All rows in one plan, in which a leader of librdkafka is known; groups name the plain assignor."""
    rows = [row for strategy in CASES for row in rows_of(strategy)]
    fleet = tables.configured_fleet_of(spark, [row | {"profile": row["strategy"]} for row in rows])
    answer = plan(fleet.with_leader_client("librdkafka", None))
    answer = answer.with_tagged_rows(cached(answer.tagged_rows(("assignments", "rejected", "metrics"))))
    differences = vectors.differences(planned(rows), tables.planned_sets(answer.assignments))
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    assert {row["cluster"] for row in answer.rejected.collect()} == ended(rows)
    names = {row["assignor"] for row in answer.metrics.select("assignor").distinct().collect()}
    assert names == {f"{strategy}@librdkafka" for strategy in CASES}
