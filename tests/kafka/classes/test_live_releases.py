"""Random groups, fresh at every run, planned by profiles and by the classes of those releases: no difference.

The full run asks releases on both sides of every boundary between lines (`assignors.release_rules`), and at both
ends. The default run draws four of them by the run's seed, one of each quarter.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS, RELEASE_LINES, parse_release_assignor
from tests import seeds
from tests.golden import tables, vectors
from tests.golden.sticky_kernel import Answer
from tests.golden.vectors import Row
from tests.kafka import fetched, live_assignors, maven, random_groups
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

RELEASES = ("2.4.1", "2.8.2", "3.2.3", "3.4.1", "3.5.2", "3.9.1", "4.4.0")
"""A release of every line of which rows are recorded, and of today's the first and the last."""
BOUNDARIES = ("2.5.0", "2.5.1", "2.8.0", "2.8.1", "3.0.0", "3.3.2", "3.4.0", "3.5.0", "3.5.1", "3.7.0", "3.7.1")
GROUPS = dict.fromkeys(RELEASES, 200) | dict.fromkeys(BOUNDARIES, 60)
RANGE_AND_ROUND_ROBIN = tuple(assignor for assignor in CLIENT_ASSIGNORS if assignor not in random_groups.STICKY)
OTHERS = 40
"""The number of groups of range, and of round robin, per release."""
SEED = seeds.seed_for("test_live_releases")


def _drawn() -> list[str]:
    """All releases in the full run, else four."""
    every = sorted(GROUPS)
    draw, quarter = Random(SEED), (len(every) + 3) // 4
    if drawn(4, len(every)) == len(every):
        return every
    return [draw.choice(every[start : start + quarter]) for start in range(0, len(every), quarter)]


DRAWN = _drawn()


@cache
def _planned(release: str, assignor: str) -> tuple[list[Row], Answer]:
    """Groups for which the release comes to an end, and what the profile answers (for the sticky assignors)."""
    if assignor in RANGE_AND_ROUND_ROBIN:
        return list(random_groups.groups(assignor, SEED, small=OTHERS, mid_size=0)), Answer()
    drawn = random_groups.groups(assignor, SEED, small=GROUPS[release], mid_size=0)
    return live_assignors.that_end(drawn, f"{assignor}@{release}")


@cache
def _answers(release: str, assignors: tuple[str, ...]) -> list[Row]:
    """Returns what the release assigns with each of the assignors, from one JVM."""
    with fetched.or_skipped():
        class_path = maven.clients_classpath(release)
    requests = [row for assignor in assignors for row in _planned(release, assignor)[0]]
    return live_assignors.answered(requests, class_path)


def test_every_boundary_is_crossed() -> None:
    """The releases of the full run are of all lines, and each line's first and last release is among them, or of it."""
    requests = [parse_release_assignor(f"sticky@{release}") for release in GROUPS]
    assert {p[1].release_line for p in requests if p} == {rules.release_line for _, rules in RELEASE_LINES.values()}
    assert {"2.5.0", "2.5.1", "2.8.0", "2.8.1", "3.4.0", "3.4.1", "3.5.1", "3.5.2", "3.7.0", "3.7.1"} <= set(GROUPS)


@pytest.mark.parametrize("release", DRAWN)
@pytest.mark.parametrize("assignor", random_groups.STICKY)
def test_a_profile_is_what_its_release_answers(release: str, assignor: str) -> None:
    """Claims of members old and new, racks, vanished topics; where Kafka throws, the profile says what it says."""
    rows = [row for row in _answers(release, random_groups.STICKY) if row["strategy"] == assignor]
    _, answer = _planned(release, assignor)
    differences = vectors.differences(vectors.expected_sets(rows), answer.sets)
    assert not differences, f"{len(differences)} groups differ\n" + "\n".join(differences[:20])
    errors = vectors.other_errors(rows, answer.refused)
    assert not errors, f"{len(errors)} errors differ\n" + "\n".join(errors[:20])
    assert len(rows) > 0.9 * GROUPS[release]


@pytest.mark.spark
def test_range_and_round_robin_of_old_clients(spark: SparkSession) -> None:
    """Range without racks and with them, round robin as ever: groups of all drawn releases in one plan."""
    rows = [
        row | {"case": f"{release}-{row['strategy']}-{row['case']}", "profile": f"{row['strategy']}@{release}"}
        for release in DRAWN
        for row in _answers(release, RANGE_AND_ROUND_ROBIN)
    ]
    assert len(rows) == len(DRAWN) * 2 * OTHERS
    planned = plan(tables.configured_fleet_of(spark, rows))
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    assert not differences, f"{len(differences)} groups differ\n" + "\n".join(differences[:20])
    assert planned.rejected.count() == 0
