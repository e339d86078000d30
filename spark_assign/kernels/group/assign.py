"""The assignors asked: who gets what in the groups that each of them plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.clients import SERVER_SIDE
from spark_assign.kernels.group.custom import GroupAssignor, ask_group
from spark_assign.kernels.group.deal import deal_mixed_groups, lay_by_rack
from spark_assign.kernels.group.server import assign_by_server
from spark_assign.kernels.group.sheet import Sheet
from spark_assign.kernels.runs import Runs
from spark_assign.kernels.sticky.batch import Batch, plan_batch, take_groups
from spark_assign.kernels.sticky.groups import STAYS

STICKY = {"sticky": "StickyAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
"""Assignors of the sticky kernels, and their classes in Kafka."""


@dataclass(frozen=True)
class Planned:
    """Who gets what; members and topics are numbers of a `Sheet`.

    Attributes:
        runs: the assignment, partitions that are withheld included.
        reason: of each run why it was taken from the member that could have kept it (`STAYS`: it was not).
        withheld: whether each run has to be given up by another member first.
        refused: group to code and detail; such a group has no runs.
    """

    runs: Runs
    reason: Ints
    withheld: Flags
    refused: dict[int, tuple[str, str]]

    def joined(self, other: Planned) -> Planned:
        """This plan and that of other groups."""
        return Planned(
            self.runs.joined(other.runs),
            np.append(self.reason, other.reason),
            np.append(self.withheld, other.withheld),
            self.refused | other.refused,
        )

    @property
    def given(self) -> Runs:
        """What is assigned in this round."""
        return self.runs.where(~self.withheld)


NOTHING = Runs(*(np.empty(0, np.int64) for _ in range(5)))


def nothing_planned() -> Planned:
    """The plan of no group."""
    return _stays(NOTHING)


def assign(sheet: Sheet, assignor: str, chosen: Flags, custom: Mapping[str, GroupAssignor]) -> Planned:
    """Plan some groups by one assignor."""
    if assignor in custom:
        return _custom(sheet, chosen, custom[assignor])
    if assignor in STICKY:
        return _sticky(sheet, assignor, chosen)
    if assignor in SERVER_SIDE:
        target = assign_by_server(sheet, assignor, chosen)
        return Planned(target.runs, target.reason, target.withheld, target.refused)
    runs = sheet.planned(assignor)
    runs = runs.where(chosen[sheet.members.group[runs.member]])
    _check_whole(sheet, assignor, chosen, runs)
    kernel = lay_by_rack if assignor == "range" else deal_mixed_groups
    return _stays(kernel(sheet, chosen, runs))


def _check_whole(sheet: Sheet, assignor: str, chosen: Flags, runs: Runs) -> None:
    """Windows lay out all partitions of a group. Where they have not, nothing of the plan is to be believed."""
    known = sheet.topics.known
    laid = np.bincount(runs.topic, runs.count, len(sheet.topics))[known]
    if (laid != np.where(chosen[sheet.topics.group[known]], sheet.topics.partitions[known], 0)).any():
        raise AssertionError(f"windows have not laid out all partitions of the groups that {assignor} plans")


def _stays(runs: Runs, refused: dict[int, tuple[str, str]] | None = None) -> Planned:
    return Planned(runs, np.full(len(runs), STAYS), np.zeros(len(runs), bool), refused or {})


def sticky_batch(sheet: Sheet, assignor: str) -> Batch:
    """The groups as one of the sticky assignors reads them."""
    cooperative = assignor == "cooperative-sticky"
    return sheet.batch(user_data=not cooperative, cooperative=cooperative)


def _sticky(sheet: Sheet, assignor: str, chosen: Flags) -> Planned:
    batch = sticky_batch(sheet, assignor)
    members, topics = np.arange(len(sheet.members)), sheet.topics.known
    if not chosen.all():
        members = members[chosen[sheet.members.group]]
        topics = topics[chosen[sheet.topics.group[topics]]]
        batch = take_groups(batch, chosen)
    decided = plan_batch(batch)
    numbers = np.flatnonzero(chosen).tolist()
    return Planned(
        Runs(members[decided.runs.member], topics[decided.runs.topic], *decided.runs.columns[2:]),
        decided.reason,
        decided.withheld,
        {numbers[group]: ("kafka-fails", refusal(assignor, why)) for group, why in decided.refused.items()},
    )


def refusal(assignor: str, why: str) -> str:
    """What is said of a group for which Kafka's class throws."""
    return f"Kafka's {STICKY[assignor]} throws here: {why}"


def _custom(sheet: Sheet, chosen: Flags, assignor: GroupAssignor) -> Planned:
    answers = [ask_group(sheet, group, assignor) for group in np.flatnonzero(chosen).tolist()]
    refused = {answer.group: ("assignor-failed", answer.error) for answer in answers if answer.error is not None}
    parts = [answer.runs for answer in answers if answer.error is None] or [NOTHING]
    return _stays(
        Runs(*(np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True))), refused
    )
