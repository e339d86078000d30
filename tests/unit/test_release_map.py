"""The map of releases (tests/kafka/releases) against the profiles: the next release of Kafka fails until it is mapped.

Every boundary between releases that can change an assignment is the start of a profile, or has a reason here.
"""

from __future__ import annotations

from spark_assign.assignors.connect import release_rules as connect
from spark_assign.assignors.release_rules import RELEASE_LINES, broker_releases, release_bounds
from spark_assign.assignors.server import UNIFORM_4_0_0
from spark_assign.assignors.streams import leader_releases
from spark_assign.assignors.streams.sticky_task_assignor import RELEASES as STREAMS_STICKY
from spark_assign.groups.planning import find_assignor
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.kafka import maven
from tests.kafka.releases.changed_classes import DECIDING, known

CAN_CHANGE = ("yes", "maybe")
PREVIEW = "KIP-848 was a preview before 4.0"
EARLY_ACCESS = "an early access feature before: only 4.2 and later are planned"
REASONS = {
    ("CurrentAssignmentBuilder", "3.8.0"): PREVIEW,
    ("RangeAssignor", "3.8.0"): PREVIEW,
    ("RangeAssignor", "3.9.0"): PREVIEW,
    ("TargetAssignmentBuilder", "3.7.0"): PREVIEW,
    ("TargetAssignmentBuilder", "3.8.0"): PREVIEW,
    ("UniformAssignor", "3.8.0"): PREVIEW,
    ("UniformHeterogeneousAssignmentBuilder", "4.0.0"): PREVIEW,
    ("TargetAssignmentBuilder", "4.1.0"): "groups are simulated from 4.1 on",
    ("CurrentAssignmentBuilder", "4.0.2"): "groups are simulated from 4.1 on",
    ("SimpleAssignor", "4.1.0"): EARLY_ACCESS,
    ("SimpleAssignor", "4.2.0"): EARLY_ACCESS,
    ("share.ShareGroupAssignmentBuilder", "4.2.0"): EARLY_ACCESS,
    ("streams.ProcessState", "4.2.0"): EARLY_ACCESS,
    ("streams.StickyTaskAssignor", "4.2.0"): EARLY_ACCESS,
    ("streams.TargetAssignmentBuilder", "4.2.0"): EARLY_ACCESS,
    ("streams.CurrentAssignmentBuilder", "4.4.0"): "a plan is the target, without the steps to it",
    ("streams.TargetAssignmentBuilder", "4.4.0"): "offsets of members, which streams-sticky reads and @4.3 doesn't",
    ("StreamsPartitionAssignor", "2.4.1"): "not read; a plan for a leader before 3.8 is called `as 3.8`",
    ("ClientState", "2.7.0"): "not read; a plan for a leader before 3.8 is called `as 3.8`",
    ("StreamsPartitionAssignor", "3.0.1"): "not read; a plan for a leader before 3.8 is called `as 3.8`",
}
"""(class, first release after the boundary) to the reason why no profile starts there."""


def changed(artifact: str) -> set[tuple[str, str]]:
    """Boundaries of an artifact that can change an assignment, without those that have a reason."""
    boundaries = known()[artifact]["boundaries"]
    found = {(each["class"], each["first_after"]) for each in boundaries if each["can_change"] in CAN_CHANGE}
    return found - REASONS.keys()


def text(release: tuple[int, ...]) -> str:
    """A release as text."""
    return ".".join(map(str, release))


def test_client_assignors() -> None:
    """A line of releases starts at every boundary, and every line but the first starts at one."""
    assert {release for _, release in changed("kafka-clients")} == set(RELEASE_LINES) - {"2.4.0"}


def test_connect() -> None:
    """So does a profile."""
    assert {r for _, r in changed("connect-runtime")} == {text(start) for start in connect.STARTS} - {"2.4.0"}


def test_classic_streams_applications() -> None:
    """Profiles from 3.8 on; what differs before is named, release by release."""
    starts = {text(first) for first in leader_releases.PROFILES.values()} | {text(r) for r in leader_releases.CHANGES}
    found = {release for _, release in changed("kafka-streams")}
    assert found <= starts
    assert starts - found == {"3.8.0"}, "the first release with the public interface"


def test_brokers() -> None:
    """Assignors of single releases, and the rules of reconciliation."""
    found = changed("kafka-group-coordinator")
    assert find_assignor(UNIFORM_4_0_0) == "uniform@4.0.0"
    configs = {release: TimingConfig(broker_release=release).group_config() for release in broker_releases("4.1")}
    rules = {release: (config.trims, config.returns_revoked) for release, config in configs.items()}
    assert rules["4.1.0"] == rules["4.1.1"] != rules["4.1.2"] == rules["4.1"] != rules["4.2.0"] == rules["4.4"]
    assert list(STREAMS_STICKY.values()) == ["4.4", "4.3", "4.2.2"]
    assert found == {
        ("UniformHomogeneousAssignmentBuilder", "4.0.1"),
        *(("CurrentAssignmentBuilder", release) for release in ("4.1.0", "4.1.2", "4.2.0")),
        *(("streams.StickyTaskAssignor", release) for release in ("4.2.2", "4.3.0", "4.4.0")),
    }


def test_every_reason_is_of_a_boundary() -> None:
    """None is left over, and none is needed for a boundary that changes nothing."""
    boundaries = {
        (each["class"], each["first_after"])
        for artifact in known().values()
        for each in artifact["boundaries"]
        if each["can_change"] in CAN_CHANGE
    }
    assert REASONS.keys() <= boundaries


def test_the_tests_know_no_newer_release_than_the_map() -> None:
    """The release of the tests and the newest known broker are the last ones of the map."""
    assert known().keys() == DECIDING.keys()
    for artifact in known().values():
        assert artifact["releases"][-1] == maven.VERSION == broker_releases()[-1]
    releases = known()["kafka-group-coordinator"]["releases"]
    found = {each for each in broker_releases() if each.count(".") == 2}
    assert found == {each for each in releases if release_bounds(each)[0] >= (4, 0, 0)}
