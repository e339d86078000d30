"""The assignors asked: who gets what in the groups that each of them plans."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_assign.kernels.group.by_library import KERNELS
from spark_assign.kernels.group.custom import GroupAssignor, ask_group
from spark_assign.kernels.group.deal import deal_mixed_groups, lay_by_rack
from spark_assign.kernels.group.planned import Planned
from spark_assign.kernels.group.server import assign_by_server
from spark_assign.kernels.group.sheet import Sheet
from spark_assign.kernels.group.sticky_batch import sticky_batch
from spark_assign.kernels.group.weighted import assign_weighted
from spark_assign.kernels.libraries import AS_KAFKA, read_library
from spark_assign.kernels.releases import Rules, read_profile
from spark_assign.kernels.server import SERVER_SIDE
from spark_assign.kernels.sticky.batch import plan_batch, take_groups
from spark_assign.kernels.sticky.groups import STAYS
from spark_assign.kernels.weighted import WEIGHTED_STICKY
from spark_assign.numeric.array_types import BoolArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices

STICKY = {"sticky": "StickyAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
"""Assignors of the sticky kernels, and their classes in Kafka."""


def nothing_planned() -> Planned:
    """The plan of no group."""
    return _stays(EMPTY_SLICES)


def assign(sheet: Sheet, assignor: str, chosen: BoolArray, custom: Mapping[str, GroupAssignor]) -> Planned:
    """Plan some groups by one assignor, which may be the profile of a release (`kernels.releases`)."""
    if assignor in custom:
        return _custom(sheet, chosen, custom[assignor])
    if assignor == WEIGHTED_STICKY:
        return assign_weighted(sheet, chosen)
    if assignor in SERVER_SIDE:
        return assign_by_server(sheet, assignor, chosen)
    library = read_library(assignor)
    if library is not None and library in KERNELS:
        return KERNELS[library](sheet, library[0], chosen)
    profile = read_profile(assignor if library is None else AS_KAFKA[library])
    assert profile is not None, assignor
    assignor, rules = profile
    if assignor in STICKY:
        return _sticky(sheet, assignor, rules, chosen)
    runs = sheet.planned(assignor)
    runs = runs.take(chosen[sheet.members.group[runs.member]])
    _check_whole(sheet, assignor, chosen, runs)
    if assignor == "roundrobin":
        return _stays(deal_mixed_groups(sheet, chosen, runs))
    return _stays(lay_by_rack(sheet, chosen, runs) if rules.racks else runs)


def _check_whole(sheet: Sheet, assignor: str, chosen: BoolArray, runs: PartitionSlices) -> None:
    """Windows lay out all partitions of a group. Where they have not, nothing of the plan is to be believed."""
    known = sheet.topics.known
    laid = np.bincount(runs.topic, runs.count, len(sheet.topics))[known]
    if (laid != np.where(chosen[sheet.topics.group[known]], sheet.topics.partitions[known], 0)).any():
        raise AssertionError(f"windows have not laid out all partitions of the groups that {assignor} plans")


def _stays(runs: PartitionSlices, refused: dict[int, tuple[str, str]] | None = None) -> Planned:
    return Planned(runs, np.full(len(runs), STAYS), np.zeros(len(runs), bool), refused or {})


def _sticky(sheet: Sheet, assignor: str, rules: Rules, chosen: BoolArray) -> Planned:
    batch = sticky_batch(sheet, cooperative=assignor == "cooperative-sticky", rules=rules)
    members, topics = np.arange(len(sheet.members)), sheet.topics.known
    if not chosen.all():
        members = members[chosen[sheet.members.group]]
        topics = topics[chosen[sheet.topics.group[topics]]]
        batch = take_groups(batch, chosen)
    decided = plan_batch(batch)
    numbers = np.flatnonzero(chosen).tolist()
    said = {
        group: why.format(sheet.member_id[int(members[decided.named[group]])]) if group in decided.named else why
        for group, why in decided.refused.items()
    }
    return Planned(
        PartitionSlices(members[decided.runs.member], topics[decided.runs.topic], *decided.runs.columns[2:]),
        decided.reason,
        decided.withheld,
        {numbers[group]: ("kafka-fails", refusal(assignor, why)) for group, why in said.items()},
    )


def refusal(assignor: str, why: str) -> str:
    """What is said of a group for which Kafka's class throws."""
    return f"Kafka's {STICKY[assignor]} throws here: {why}"


def _custom(sheet: Sheet, chosen: BoolArray, assignor: GroupAssignor) -> Planned:
    answers = [ask_group(sheet, group, assignor) for group in np.flatnonzero(chosen).tolist()]
    refused = {answer.group: ("assignor-failed", answer.error) for answer in answers if answer.error is not None}
    parts = [answer.runs for answer in answers if answer.error is None] or [EMPTY_SLICES]
    return _stays(
        PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True))),
        refused,
    )
