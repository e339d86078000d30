"""Whether a group may be upgraded while it runs, in sentences.

go                the rules move nothing on their own, or there are none that differ
go-with-warning   the new rules move partitions that the old ones would have left, or the group has to be stopped
stay              the library has no such assignor
there             the leader's release is that one already, or a newer one
unknown           not led by a Java client, or by one whose release nobody knows: nothing is said, nothing guessed
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS, parse_release_assignor
from spark_assign.groups.kernel.client_libraries import (
    NOT_THERE,
    ROLLING,
    UNKNOWN,
    AssignorSwitch,
    plan_switch,
    read_clients,
)
from spark_assign.migration.kernel.upgrade.cooperative_switch import OF_LIBRARY
from spark_assign.migration.kernel.upgrade.group_membership import Assignors
from spark_assign.migration.kernel.upgrade.reported_subscription import COOPERATIVE, rules_of

GO, WARN, STAY, THERE, NOT_KNOWN = "go", "go-with-warning", "stay", "there", "unknown"

_ONE = re.compile(r"(?:<=|.*-)?(\d+\.\d+(?:\.\d+)?)", re.ASCII)


@dataclass(frozen=True)
class UpgradeCandidate:
    """One group.

    Attributes:
        assignor: what it runs with; null: not known.
        library, releases: of its leader, as `groups.client_library` and `client_version` have them.
        clients: its members' libraries, as `groups.kernel.client_libraries.count_clients` writes them.
        to: the release that its members come back with.
        switch: the assignor that they come back with; null: the same.
    """

    assignor: str | None
    library: str | None
    releases: str | None
    clients: str
    to: str
    switch: str | None

    @property
    def release(self) -> str | None:
        """What its members run now: of several releases the newest; null: not known."""
        found = _ONE.fullmatch(self.releases or "")
        if found is None or parse_release_assignor(f"{CLIENT_ASSIGNORS[0]}@{found[1]}") is None:
            return None
        return found[1]

    @property
    def way(self) -> AssignorSwitch | None:
        """How its members switch to another assignor; null: they do not."""
        if self.switch is None or self.switch == self.assignor:
            return None
        return plan_switch(self.assignor, self.switch, self.clients)

    @property
    def rolls(self) -> bool:
        """Whether its members restart one after the other."""
        return self.way is None or self.way.kind == ROLLING

    @property
    def same_rules(self) -> bool:
        """Whether the assignor that it runs with decides alike in both releases."""
        one, other = rules_of(str(self.release)), rules_of(self.to)
        if self.assignor == "roundrobin":
            return True
        return one.uses_racks == other.uses_racks if self.assignor == "range" else one == other

    @property
    def lists(self) -> tuple[Assignors, ...]:
        """The list of assignors that each rolling restart leaves the members with."""
        now = str(self.assignor)
        if self.switch is None or self.switch == now:
            return ((now,),)
        return (now, self.switch), (self.switch,)


def known(case: UpgradeCandidate) -> str | None:
    """Why nothing can be said of a group; null: something can."""
    if case.assignor not in CLIENT_ASSIGNORS:
        runs = "What it runs with is not known" if case.assignor is None else f"It runs with {case.assignor}"
        return f"{runs}: only {', '.join(CLIENT_ASSIGNORS)} are known by release."
    if case.library is None:
        return "Who leads it is not known; say so: --clients 'GROUP=Java@2.8'."
    if case.library != "Java":
        others = f"Its leader runs {case.library}, whose releases are not those of Java's clients."
        switching = OF_LIBRARY.get(case.library)
        if case.switch != COOPERATIVE or case.assignor == COOPERATIVE or switching is None:
            return others
        return f"{others} To {COOPERATIVE}: {switching.safe}. {switching.why}"
    if case.release is None:
        which = f"Java {case.releases}" if case.releases else "Java"
        return f"Its leader's release is not known ({which}); say so: --clients 'GROUP=Java@2.8'."
    return None


def is_there(case: UpgradeCandidate) -> bool:
    """Whether there is nothing to do: the release is that one or newer, and the assignor stays."""
    assert case.release is not None
    return case.way is None and _version(case.release) >= _version(case.to)


def judge(case: UpgradeCandidate, by_rules: int | None, whole: bool) -> tuple[str, str]:
    """The verdict and the note of a group that something can be said of.

    Args:
        case: the group.
        by_rules: what moves because of the rules; null: it was not played.
        whole: whether all restarts were played.
    """
    notes = []
    if case.releases != case.release:
        notes.append(f"Its release is one of {case.releases}: taken as {case.release}.")
    if case.way is not None:
        notes.append(case.way.text)
    mixed = [name for name in read_clients(case.clients) if name not in (UNKNOWN, "Java")]
    if mixed:
        notes.append(f"Members on {' and '.join(mixed)} are played as Java's.")
    if case.way is not None and case.way.kind == NOT_THERE:
        return STAY, " ".join(notes)
    verdict = WARN if mixed or not case.rolls else GO
    if is_there(case):
        return THERE, " ".join([*notes, f"Its leader is of {case.release} already."])
    if case.same_rules:
        notes.append(f"{case.assignor} of {case.to} decides as that of {case.release}.")
    elif by_rules:
        verdict = WARN
        notes.append(f"{by_rules:,} of the moves would not be, had the rules stayed those of {case.release}.")
    elif by_rules == 0 and whole:
        notes.append(f"The rules of {case.to} differ, and move nothing here.")
    if not whole and case.rolls:
        notes.append("Not all restarts were played.")
    return verdict, " ".join(notes)


def _version(release: str) -> tuple[int, ...]:
    numbers = [int(each) for each in release.split(".")]
    return tuple([*numbers, 1_000_000][:3])
