"""Verdicts and descriptions of client upgrades, and how each library switches from eager to cooperative (KIP-429).

Verdicts:
    ready                the change of rules moves no partition, or the rules are the same
    ready-with-warnings  the new rules move partitions that the old rules would keep, or all members must stop
    blocked              the library has no such assignor
    done                 the leader has the requested release already, or a newer one
    unknown              the leader isn't a Java client, or its release is unknown

For how libraries switch from eager to cooperative, see `groups.kernel.client_settings`. In the first restart of two,
all members get both assignors; the vote elects the old one, because it comes first. In the second restart, the old one
is removed; as soon as one member has removed it, the new one is the only assignor that all members have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS, parse_release_assignor
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, UNKNOWN, candidates, read_clients
from spark_assign.groups.kernel.client_settings import NOT_THERE, ROLLING, AssignorSwitch, assignor_lines, plan_switch
from spark_assign.migration.kernel.group_membership import (
    NEXT_REBALANCE,
    Assignors,
    UpgradeStep,
    deciding_rules,
)
from spark_assign.migration.kernel.migration_verdict import BLOCKED, DONE, READY, READY_WITH_WARNINGS

FIXES = {
    "2.5.1": "KAFKA-9987",
    "2.8.1": "KAFKA-12984",
    "3.0.0": "KAFKA-12464",
    "3.4.0": "KAFKA-13715",
    "3.4.1": "KAFKA-14639",
    "3.5.0": "KIP-881",
    "3.5.2": "KAFKA-15106",
    "3.7.1": "KAFKA-15170",
}
"""The first release of each line of equal rules (`release_rules`), and the change that made it."""

UNKNOWN_VERDICT = "unknown"
"""Verdict of groups that can't be analyzed, in addition to those of migrations."""

_NEWEST_RELEASE = re.compile(r"(?:<=|.*-)?(\d+\.\d+(?:\.\d+)?)", re.ASCII)


@dataclass(frozen=True)
class UpgradeCandidate:
    """One classic group.

    Attributes:
        assignor: its assignor; `None` if unknown.
        library, releases: library and releases of its leader (`groups.leader_library` and `leader_version`).
        client_libraries: the libraries of its members, in the format of `count_clients`.
        to_release: the release of its members afterward.
        to_assignor: the assignor of its members afterward; `None` if it stays the same.
        has_racks: whether members have racks.
    """

    assignor: str | None
    library: str | None
    releases: str | None
    client_libraries: str
    to_release: str
    to_assignor: str | None
    has_racks: bool = False

    @property
    def release(self) -> str | None:
        """The release of its members now: the newest one of a range; `None` if unknown."""
        match = _NEWEST_RELEASE.fullmatch(self.releases or "")
        if match is None or parse_release_assignor(f"{CLIENT_ASSIGNORS[0]}@{match[1]}") is None:
            return None
        return match[1]

    @property
    def switch(self) -> AssignorSwitch | None:
        """How its members switch to another assignor; `None` if they don't."""
        if self.to_assignor is None or self.to_assignor == self.assignor:
            return None
        return plan_switch(self.assignor, self.to_assignor, self.client_libraries)

    @property
    def is_rolling(self) -> bool:
        """Whether its members restart one at a time."""
        return self.switch is None or self.switch.kind == ROLLING

    @property
    def has_same_rules(self) -> bool:
        """Whether its assignor decides the same in both releases."""
        current, new = (deciding_rules(f"{self.assignor}@{release}") for release in (self.release, self.to_release))
        return current == new

    @property
    def assignor_lists(self) -> tuple[Assignors, ...]:
        """The list of assignors of the members after each rolling restart."""
        current = str(self.assignor)
        if self.to_assignor is None or self.to_assignor == current:
            return ((current,),)
        return (current, self.to_assignor), (self.to_assignor,)

    @property
    def ends_bounces(self) -> bool:
        """Whether the rebalances end that a rack-aware leader causes whenever a broker restarts (KAFKA-20778)."""
        releases = [_parse_version(str(release)) for release in (self.release, self.to_release)]
        return self.has_racks and (3, 5) <= releases[0] < (4, 4) <= releases[1]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the release is the same or newer, and the assignor stays."""
        assert self.release is not None
        return self.switch is None and _parse_version(self.release) >= _parse_version(self.to_release)


def explain_unknown(candidate: UpgradeCandidate) -> str | None:
    """Returns the reason why a group can't be analyzed; `None` if it can."""
    remedy = "Set it with --leader-client 'GROUP=Java@2.8'."
    if candidate.assignor not in CLIENT_ASSIGNORS:
        known = f"Only {', '.join(CLIENT_ASSIGNORS)} can be simulated by release."
        current = "is unknown" if candidate.assignor is None else f"is {candidate.assignor}"
        return f"The current assignor {current}. {known}"
    if candidate.library is None:
        return f"The client library of the leader is unknown. {remedy}"
    if candidate.library != "Java":
        text = f"The leader uses {candidate.library}, whose releases aren't those of Kafka's Java clients."
        reason = " ".join(library.switching for library in candidates(candidate.library))
        if candidate.to_assignor != COOPERATIVE or candidate.assignor == COOPERATIVE or not reason:
            return text
        method = plan_switch(candidate.assignor, COOPERATIVE, f"{candidate.library} 1").kind
        return f"{text} To switch to {COOPERATIVE}: {method}. {reason}"
    if candidate.release is None:
        return f"The release of the leader is unknown (Java {candidate.releases or '?'}). {remedy}"
    return None


def judge_upgrade(
    candidate: UpgradeCandidate, moved_by_rule_change: int | None, is_complete: bool, fault: str | None = None
) -> tuple[str, str]:
    """Returns the verdict and the note of a group that can be analyzed.

    Args:
        candidate: the group.
        moved_by_rule_change: partitions that move because of the change of rules; `None` if not simulated.
        is_complete: whether all restarts were simulated.
        fault: the exception of the current release's assignor that the new release doesn't throw, and what fixed it;
            `None` if there is none.
    """
    notes = []
    if candidate.releases != candidate.release:
        notes.append(f"The release of the leader is one of {candidate.releases}; {candidate.release} is assumed.")
    if candidate.switch is not None:
        notes.append(candidate.switch.text)
    other_libraries = [name for name in read_clients(candidate.client_libraries) if name not in (UNKNOWN, "Java")]
    if other_libraries:
        notes.append(f"Members with {' and '.join(other_libraries)} are simulated as Java clients.")
    if candidate.switch is not None and candidate.switch.kind == NOT_THERE:
        return BLOCKED, " ".join(notes)
    if fault is not None:
        notes.append(
            f"{fault}. The upgrade removes this fault. Until a member of the new release leads, "
            "the group can't rebalance, so the costs of the restarts are unknown."
        )
        return READY_WITH_WARNINGS, " ".join(notes)
    verdict = READY_WITH_WARNINGS if other_libraries or not candidate.is_rolling else READY
    if candidate.is_done:
        return DONE, " ".join([*notes, f"The leader has release {candidate.release} already."])
    if candidate.has_same_rules:
        notes.append(f"{candidate.assignor} assigns the same in {candidate.to_release} and {candidate.release}.")
    elif moved_by_rule_change:
        verdict = READY_WITH_WARNINGS
        notes.append(f"The rules of {candidate.release} would avoid {moved_by_rule_change:,} of the moves.")
    elif moved_by_rule_change == 0 and is_complete:
        notes.append(f"The rules of {candidate.to_release} differ, but move no partition of this group.")
    if candidate.ends_bounces:
        notes.append("A restart of a broker no longer causes two rebalances (KAFKA-20778).")
    if not is_complete and candidate.is_rolling:
        notes.append("Not all restarts were simulated.")
    return verdict, " ".join(notes)


def _parse_version(release: str) -> tuple[int, ...]:
    """Returns the version as three numbers; a missing third one counts as the latest."""
    numbers = [int(number) for number in release.split(".")]
    return tuple([*numbers, 1_000_000][:3])


# --- descriptions -------------------------------------------------------------------------------------------------


def describe_step(candidate: UpgradeCandidate, step: UpgradeStep) -> str:
    """Describes one restart, or the rebalance after all restarts."""
    if step.step_type == NEXT_REBALANCE:
        return "At the next rebalance, for whatever reason, the leader assigns by its new rules."
    setting = f" and {_assignor_setting(candidate, step.bounce - 1)}" if candidate.switch is not None else ""
    return f"Restart the member with {candidate.to_release}{setting}."


def describe_stop_all() -> str:
    """Describes how the group becomes empty."""
    return (
        "Stop all members. The group must be empty. (Or start the new members with another group id and its offsets.)"
    )


def describe_start_all(candidate: UpgradeCandidate) -> str:
    """Describes how the members start again."""
    return f"Start all members with {candidate.to_release} and {_assignor_setting(candidate, -1)}."


def _assignor_setting(candidate: UpgradeCandidate, restart: int) -> str:
    """Returns the list of assignors of the Java clients after a rolling restart, as a setting."""
    return "".join(assignor_lines(LIBRARIES["Java"], candidate.assignor_lists[restart]))
