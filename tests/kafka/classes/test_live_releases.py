"""Random groups, fresh at every run, planned by profiles and by the classes of those releases: no difference.

On both sides of every boundary between lines (`kernels.releases`), and at both ends.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.kernels.releases import LINES, read_profile
from spark_assign.kernels.sticky.balance import ENDLESS
from tests.golden import sticky_kernel, tables, vectors
from tests.kafka import live_assignors, maven, random_groups

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.once]

RELEASES = ("2.4.1", "2.8.2", "3.2.3", "3.4.1", "3.5.2", "3.9.1", "4.4.0")
"""A release of every line of which rows are recorded, and of today's the first and the last."""
BOUNDARIES = ("2.5.0", "2.5.1", "2.8.0", "2.8.1", "3.0.0", "3.3.2", "3.4.0", "3.5.0", "3.5.1", "3.7.0", "3.7.1")
GROUPS = dict.fromkeys(RELEASES, 200) | dict.fromkeys(BOUNDARIES, 60)


def classpath(release: str) -> str:
    """A class path with the clients of the release; skips without Java or Maven, but fails in CI."""
    try:
        return maven.clients_classpath(release)
    except maven.KafkaUnavailableError as reason:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"Kafka is needed in CI: {reason}", pytrace=False)
        pytest.skip(f"needs Kafka: {reason}")


def test_every_boundary_is_crossed() -> None:
    """The releases asked are of all lines, and each line's first and last release is among them, or of its line."""
    asked = [read_profile(f"sticky@{release}") for release in GROUPS]
    assert {profile[1].line for profile in asked if profile} == {rules.line for _, rules in LINES.values()}
    assert {"2.5.0", "2.5.1", "2.8.0", "2.8.1", "3.4.0", "3.4.1", "3.5.1", "3.5.2", "3.7.0", "3.7.1"} <= set(GROUPS)


@pytest.mark.parametrize("release", GROUPS)
@pytest.mark.parametrize("assignor", random_groups.STICKY)
def test_a_profile_is_what_its_release_answers(release: str, assignor: str) -> None:
    """Claims of members old and new, racks, vanished topics; where Kafka throws, the profile says what it says."""
    seed, profile = random_groups.seed(), f"{assignor}@{release}"
    asked = list(random_groups.groups(assignor, seed, small=GROUPS[release], mid_size=0))
    refused = sticky_kernel.planned(asked, profile).refused
    asked = [row for row in asked if refused.get(row["case"]) != ENDLESS]
    rows = live_assignors.answered(asked, classpath(release))
    answer = sticky_kernel.planned(rows, profile)
    repeat = f"repeat with {random_groups.SEED_VARIABLE}={seed}"
    differences = vectors.differences(vectors.expected_sets(rows), answer.sets)
    assert not differences, f"{len(differences)} groups differ, {repeat}\n" + "\n".join(differences[:20])
    errors = vectors.other_errors(rows, answer.refused)
    assert not errors, f"{len(errors)} errors differ, {repeat}\n" + "\n".join(errors[:20])
    assert len(rows) > 0.9 * GROUPS[release], repeat


def test_range_and_round_robin_of_old_clients(spark: SparkSession) -> None:
    """Range without racks and with them, round robin as ever: groups of four releases in one plan."""
    seed, rows = random_groups.seed(), []
    for release in ("2.4.1", "3.4.1", "3.5.0", "4.4.0"):
        for assignor in ("range", "roundrobin"):
            asked = random_groups.groups(assignor, seed, small=40, mid_size=0)
            named = [row | {"case": f"{release}-{assignor}-{row['case']}"} for row in asked]
            answered = live_assignors.answered(named, classpath(release))
            rows += [row | {"profile": f"{assignor}@{release}"} for row in answered]
    planned = plan(tables.configured_fleet_of(spark, rows))
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    repeat = f"repeat with {random_groups.SEED_VARIABLE}={seed}"
    assert not differences, f"{len(differences)} groups differ, {repeat}\n" + "\n".join(differences[:20])
    assert planned.rejected.count() == 0
