"""Random groups, fresh at every run, planned by Spark and by Kafka's own classes: no difference.

The sticky assignors are asked about many more groups, and about groups with a history, through their kernels alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.assignors.sticky.assign_sticky import exception_text
from spark_assign.java.hash_map import texts_in_table_order
from tests.golden import sticky_kernel, tables, vectors
from tests.golden.sticky_kernel import Answer
from tests.golden.vectors import Row
from tests.kafka import histories, live_assignors, maven, random_groups
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

MANY = drawn(250, 1_500)
MID_SIZE = drawn(0, 1)
"""Groups of 500 members; of some seeds Kafka's class needs five minutes for one, the kernel 30 ms."""
TREEIFIED = drawn(200, 500)


def _assert_same(rows: Iterable[Row], sets: vectors.Sets, refused: Mapping[str, str]) -> None:
    """The same sets, and refused exactly where Kafka throws, with its message."""
    answered = list(rows)
    differences = vectors.differences(vectors.expected_sets(answered), sets)
    assert not differences, f"{len(differences)} groups differ\n" + "\n".join(differences[:20])
    errors = vectors.other_errors(answered, refused)
    assert not errors, f"{len(errors)} errors differ\n" + "\n".join(errors[:20])


def _answered(rows_to_plan: Sequence[Row], assignor: str, kafka_jars: str) -> tuple[list[Row], Answer]:
    """Kafka's answers and those of the sticky kernels, but for the few groups on which Kafka's classes never end."""
    rows, answer = live_assignors.that_end(rows_to_plan, assignor)
    assert len(rows_to_plan) - len(rows) <= 1 + len(rows_to_plan) // 100
    return live_assignors.answered(rows, kafka_jars), answer


@pytest.mark.spark
def test_the_plan_is_what_kafka_answers_now(spark: SparkSession, kafka_jars: str, seed: int) -> None:
    """Groups of every kind and of every client-side assignor in one Spark call."""
    rows_to_plan: list[Row] = []
    for assignor in CLIENT_ASSIGNORS:
        small = drawn(50, 100) if assignor in random_groups.STICKY else drawn(75, 150)
        groups = list(random_groups.groups(assignor, seed, small=small, mid_size=MID_SIZE))
        ending, _ = live_assignors.that_end(groups, assignor) if assignor in random_groups.STICKY else (groups, None)
        assert len(groups) - len(ending) <= 1 + len(groups) // 100
        rows_to_plan += [row | {"case": f"{assignor}-{row['case']}", "profile": assignor} for row in ending]
    rows = live_assignors.answered(rows_to_plan, kafka_jars)
    planned = plan(tables.configured_fleet_of(spark, rows))
    rejected = planned.rejected.collect()
    assert {row["code"] for row in rejected} <= {"kafka-fails"}
    errors = {row["cluster"]: exception_text(row["detail"]) for row in rejected}
    assert not [case for case in errors if case.startswith(("range-", "roundrobin-"))]
    _assert_same(rows, tables.planned_sets(planned.assignments), errors)


@pytest.mark.parametrize("assignor", random_groups.STICKY)
def test_many_groups_with_owners(kafka_jars: str, assignor: str, seed: int) -> None:
    """Claims of members old and new, in conflict or out of date; where Kafka throws, the kernels say what it says."""
    rows_to_plan = list(random_groups.groups(assignor, seed, small=MANY, mid_size=MID_SIZE))
    assert len(rows_to_plan) == MANY + MID_SIZE
    rows, answer = _answered(rows_to_plan, assignor, kafka_jars)
    _assert_same(rows, answer.sets, answer.refused)


def test_where_kafka_never_ends(kafka_jars: str) -> None:
    """Its balancing moves partitions round and round: the kernels say so, and Kafka's class is still busy with it.

    The group before it, of the same seed, is answered by the same JVM within the same limit.
    """
    *_, ends, endless = random_groups.groups("cooperative-sticky", 3495465737, small=813, mid_size=0)
    rows, _ = live_assignors.that_end([ends, endless], "cooperative-sticky")
    assert rows == [ends]
    limit = {"processor_seconds": 5}
    answered, busy = live_assignors.answered([ends | limit, endless | limit], kafka_jars)
    assert answered["expect"]
    assert busy["error"] == "Assignors$BusyException"
    assert "performReassignments" in busy["error_message"]


@pytest.mark.parametrize("assignor", random_groups.STICKY)
def test_groups_whose_ids_share_buckets(kafka_jars: str, assignor: str, seed: int) -> None:
    """More than eight ids in a bucket, which Java keeps as a tree; each of Kafka's hash maps then has its own order."""
    rows, answer = _answered(list(random_groups.treeified(assignor, seed, TREEIFIED)), assignor, kafka_jars)
    _assert_same(rows, answer.sets, answer.refused)
    walks = [texts_in_table_order([member["id"] for member in row["members"]]) for row in rows]
    assert sum(texts_in_table_order(walk) != walk for walk in walks) > 0.6 * TREEIFIED


@pytest.mark.parametrize("release", maven.OLDER_CLIENTS)
def test_older_clients_answer_alike(kafka_jars: str, release: str, seed: int) -> None:
    """What clients of older releases assign is what the newest assign, list order and errors included."""
    rows_to_plan = [r for e in ("range", "roundrobin") for r in random_groups.groups(e, seed, small=150, mid_size=0)]
    for sticky in random_groups.STICKY:
        rows, _ = live_assignors.that_end(random_groups.groups(sticky, seed, small=300, mid_size=0), sticky)
        rows_to_plan += rows
    older = live_assignors.answered(rows_to_plan, maven.clients_classpath(release))
    newest = live_assignors.answered(rows_to_plan, kafka_jars)
    different = [(row["strategy"], row["case"]) for row, old in zip(newest, older, strict=True) if row != old]
    assert not different, f"{len(different)} differ, {different[:20]}"
    assert len(rows_to_plan) > 850


@pytest.mark.parametrize("assignor", random_groups.STICKY)
def test_histories_of_joins_and_leaves(kafka_jars: str, assignor: str, seed: int) -> None:
    """Eight rounds, each from our own result of the round before: Kafka says the same in every round."""
    with_history = histories.rows(assignor, seed, lambda r: sticky_kernel.planned(r, assignor).sets, groups=60)
    rows, answer = _answered(with_history, assignor, kafka_jars)
    _assert_same(rows, answer.sets, answer.refused)
    assert len(with_history) == 60 * 8
    assert bool(answer.withheld) == (assignor == "cooperative-sticky")
