"""Random classic Streams applications, fresh at every run, planned by our kernel and by Kafka's default class."""

from __future__ import annotations

import pytest

from spark_assign.assignors.streams.streams_partition_assignor import plan_application
from tests.golden import streams_classic_rows as recorded
from tests.kafka import fetched, live_assignors, maven, random_applications
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

APPLICATIONS = drawn(150, 1_000)


@pytest.mark.parametrize("release", [maven.APPLICATIONS_VERSION, maven.VERSION])
def test_the_kernel_plans_what_the_class_answers_now(release: str, seed: int) -> None:
    """Tasks of each process, and whether a probing rebalance follows."""
    with fetched.or_skipped():
        class_path = maven.streams_classpath(release)
    requests = random_applications.applications(seed, APPLICATIONS)
    rows = live_assignors.answered(requests, class_path, program="StreamsTaskAssignor")
    different = []
    for row in rows:
        application = recorded.application_of(row)
        planned = recorded.planned(row, application, plan_application(application))
        if {name: planned[name] for name in ("clients", "probing")} != row["expect"]:
            different.append(row["case"])
    assert not different, f"{len(different)} of {len(rows)} differ: {different[:20]}"
    assert sum(row["expect"]["probing"] for row in rows) > APPLICATIONS // 4
