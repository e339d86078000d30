"""Random Connect clusters, fresh at every run, planned by the profiles and by the classes of those releases.

The full run asks releases on both sides of every boundary between profiles; the default run draws one of them.
"""

from __future__ import annotations

from random import Random

import pytest

from spark_assign.assignors.connect.release_rules import STARTS
from tests import seeds
from tests.golden import connect_release_rows
from tests.kafka import fetched, live_assignors, maven, random_connect
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

RELEASES = (
    *("2.4.0", "2.5.0", "2.5.1", "2.6.1", "2.6.2", "2.7.0", "2.7.1", "3.2.3"),
    *("3.3.0", "3.3.2", "3.4.0", "3.5.1", "3.5.2", "3.6.0", "3.6.1"),
)
SEED = seeds.seed_for("test_live_connect")
SEQUENCES = 200


def test_every_boundary_is_crossed() -> None:
    """The first release of every stretch is among them, and the last one before it."""
    assert {".".join(map(str, start)) for start in STARTS} <= set(RELEASES)


@pytest.mark.parametrize("release", Random(SEED).sample(RELEASES, drawn(1, len(RELEASES))))
def test_a_profile_is_what_its_release_answers(release: str) -> None:
    """Workers that join, leave, and return with what they run; results that don't arrive; no delay, and a short one."""
    with fetched.or_skipped():
        class_path = maven.connect_classpath(release)
    requests = random_connect.sequences(SEED, release, SEQUENCES)
    rows = live_assignors.answered(requests, class_path, program="ConnectRebalances")
    different = connect_release_rows.different(rows, release)
    assert not different, f"{len(different)} of {SEQUENCES} sequences differ: {different[:20]}"
