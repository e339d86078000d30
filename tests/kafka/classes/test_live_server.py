"""Random groups, fresh at every run, planned by our kernels and by the broker's own assignors (KIP-848)."""

from __future__ import annotations

import pytest

from tests.golden import server_rows
from tests.kafka import fetched, live_assignors, maven, random_server_groups

pytestmark = pytest.mark.kafka

PROGRAM = "ServerAssignors"
GROUPS = 1_500


@pytest.mark.parametrize("release", [maven.VERSION, "4.0.1", "4.0.0"])
def test_the_kernels_plan_what_the_broker_answers_now(release: str, seed: int) -> None:
    """Uniform, alike and differing, and range. The classes of 4.0.1 are those of 4.4, that of 4.0.0 is another one."""
    with fetched.or_skipped():
        jars = maven.group_coordinator_classpath(release)
    rows = live_assignors.answered(random_server_groups.groups(seed, GROUPS), jars, program=PROGRAM)
    different = [r["case"] for r in rows if server_rows.answered(r | {"release": release}) != server_rows.expected(r)]
    assert not different, f"{len(different)} differ, {different[:20]}"
    assert sum(len(server_rows.expected(row)) > 1 for row in rows) > GROUPS // 3
