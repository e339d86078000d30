"""The newest releases on Maven Central are in the map of releases."""

from __future__ import annotations

import pytest

from tests.kafka import fetched
from tests.kafka.releases.changed_classes import DECIDING, class_texts, known, released

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("artifact", DECIDING)
def test_the_newest_release_is_mapped(artifact: str) -> None:
    """If one isn't: `python -m tests.kafka.releases.changed_classes` lists what changed."""
    with fetched.or_skipped():
        newest = released(artifact)
    missing = sorted(set(newest) - {str(each) for each in known()[artifact]["releases"]})
    assert not missing, f"{artifact}: {', '.join(missing)} isn't in tests/kafka/releases/map.json"


def test_the_text_of_a_class_shows_what_changed() -> None:
    """KAFKA-18688 is in 4.0.1, and nothing of range changed."""
    with fetched.or_skipped():
        old, new = (class_texts("kafka-group-coordinator", release) for release in ("4.0.0", "4.0.1"))
    different = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    assert "UniformHomogeneousAssignmentBuilder" in different
    assert "RangeAssignor" not in different
