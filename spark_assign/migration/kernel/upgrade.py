"""Upgrades classic groups to another release of Kafka's clients, in one pass over complete groups.

The `kind` of a result row says what it describes:

    group      whether the group can be upgraded, and how many partitions move, compared with the same restarts under
               the rules of one release
    step       one restart: the leader afterward, the rules that it follows, and what moves
    rejected   code, detail: a group that can't be analyzed, or that isn't a classic group of consumers
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.release_rules import release_bounds
from spark_assign.groups.kernel.assign import assign_groups
from spark_assign.groups.kernel.client_libraries import read_client_libraries
from spark_assign.groups.kernel.client_settings import STOP_ALL
from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.group_metrics import count_subscribed_partitions, read_ownership
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.group_subset import select_members
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import read_assignors, read_leaders
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel.group_membership import (
    ClientConfig,
    RollingUpgrade,
    UpgradePath,
    UpgradeStep,
    next_member_id,
    rules_of_release,
)
from spark_assign.migration.kernel.migration_verdict import DONE, READY, READY_WITH_WARNINGS
from spark_assign.migration.kernel.rolling_upgrade import simulate_upgrade
from spark_assign.migration.kernel.upgrade_verdict import (
    FIXES,
    UNKNOWN_VERDICT,
    UpgradeCandidate,
    describe_start_all,
    describe_step,
    describe_stop_all,
    explain_unknown,
    judge_upgrade,
)
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, mask_from_indexes

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

COSTS = ("moved", "revoked", "paused_partitions", "moved_by_rules")
"""Costs of a step, in partitions: columns, and attributes of `UpgradeStep`."""


def plan_upgrades(facts: pa.Table, to_release: str, assignor: str | None, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of all groups of these facts, with the columns of `schema`.

    Args:
        facts: facts of complete groups.
        to_release: the release of all members afterward.
        assignor: the assignor of all members afterward; `None` if each group keeps its own.
        schema: the schema of the rows.
    """
    groups = open_pass(facts, action="upgrade")
    specs = groups.specs
    yield tagged_table(REJECTED, groups.rejected_groups, schema)
    candidates = _read_candidates(specs, to_release, assignor)
    is_server_side = [kind == "consumer" for kind in specs.group_values("group_type")]
    unknown_reasons = [
        "The broker assigns the group (KIP-848): no member leads." if server_side else explain_unknown(candidate)
        for server_side, candidate in zip(is_server_side, candidates, strict=True)
    ]
    result = _UpgradeResult(
        specs,
        [
            None if reason or candidate.is_done else candidate
            for reason, candidate in zip(unknown_reasons, candidates, strict=True)
        ],
    )
    rejected = [
        result.keys[group] | {"code": code, "detail": detail} for group, (code, detail) in sorted(result.failed.items())
    ]
    yield tagged_rows(REJECTED, rejected, schema)
    rows = [
        result.group_row(group, candidate, DONE if is_server_side[group] else UNKNOWN_VERDICT, reason)
        for group, (candidate, reason) in enumerate(zip(candidates, unknown_reasons, strict=True))
        if group not in result.failed
    ]
    yield tagged_rows(OF_GROUP, [*rows, *_empty_group_rows(groups)], schema)
    steps = [step for group in range(specs.num_groups) for step in result.step_rows(group)]
    yield tagged_rows(OF_STEP, steps, schema)


def _read_candidates(specs: GroupSpecs, to_release: str, to_assignor: str | None) -> list[UpgradeCandidate]:
    current_assignors, leaders = read_assignors(specs), read_leaders(specs)
    member_libraries = read_client_libraries(specs, current_assignors)
    has_racks = mask_from_indexes(specs.members.group[specs.members.rack >= 0], specs.num_groups).tolist()
    return [
        UpgradeCandidate(assignor, library, releases, libraries, to_release, to_assignor, racks)
        for assignor, (library, releases, _), libraries, racks in zip(
            current_assignors, leaders, member_libraries, has_racks, strict=True
        )
    ]


def simulate_full_restart(
    specs: GroupSpecs, configs: Sequence[ClientConfig | None]
) -> tuple[IntArray, IntArray, dict[int, tuple[str, str]]]:
    """Stops all members of groups, then starts all of them with new ids and without partitions.

    This is safe for every client library, also if the list of assignors changes.

    Args:
        specs: all groups.
        configs: the new configuration of the members of each group; `None` for a group that doesn't stop.

    Returns:
        the number of partitions that pause per group, the number that another member owns afterward, and the groups
        for which Kafka's assignor throws an exception: code and detail.
    """
    is_restarted = np.array([config is not None for config in configs], bool)
    members = np.flatnonzero(is_restarted[specs.members.group])
    paused, moved = np.zeros(specs.num_groups, np.int64), np.zeros(specs.num_groups, np.int64)
    if not len(members):
        return paused, moved, {}
    new_ids = [next_member_id(member_id) for member_id in specs.member_id.to_pylist()]
    subset = select_members(specs, members, new_ids, specs.owned, EMPTY_SLICES)
    no_generation = np.full(len(members), -1, np.int64)
    restarted = replace(
        subset.specs.members,
        generation=no_generation,
        user_data_generation=no_generation,
        has_user_data=np.zeros(len(members), bool),
    )
    subset_configs = [configs[group] for group in subset.groups.tolist()]
    names = [f"{each.assignors[0]}@{each.release}" if each else None for each in subset_configs]
    assignments = assign_groups(replace(subset.specs, members=restarted, owned=EMPTY_SLICES), names)
    assigned = GroupAssignments.of(assignments.slices)
    counts = count_changes(read_ownership(subset.specs, assigned, np.ones(len(names), bool)))
    paused[subset.groups], moved[subset.groups] = counts.owned, counts.moved
    return paused, moved, {int(subset.groups[group]): reason for group, reason in assignments.rejected.items()}


class _UpgradeResult:
    """The simulated upgrades of all groups, and their result rows.

    Args:
        specs: all groups.
        candidates: the groups to upgrade; `None` for groups with nothing to do.

    Attributes:
        upgrade: the rolling upgrade.
        with_old_rules, with_new_rules: the same restarts if all members follow the rules of one release.
        full_restart_paused, full_restart_moved: costs of a full restart. Shape: (num_groups,), partitions.
        keys: the key columns of each group.
        fixed: groups for which the assignor of the current release throws, but not that of the new one: the exception,
            and the first release without it.
        failed: other groups for which Kafka's assignor throws an exception: code and detail.
    """

    def __init__(self, specs: GroupSpecs, candidates: Sequence[UpgradeCandidate | None]) -> None:
        self.candidates = candidates
        self.upgrade = simulate_upgrade(specs, [_upgrade_path(candidate) for candidate in candidates])
        self.with_old_rules, self.with_new_rules = (
            simulate_upgrade(specs, [_single_rules_path(candidate, new_rules) for candidate in candidates])
            for new_rules in (False, True)
        )
        self.full_restart_paused, self.full_restart_moved, failed = simulate_full_restart(
            specs, [_full_restart_config(candidate) for candidate in candidates]
        )
        self.fixed = _find_fixes(
            specs,
            {
                group: candidate
                for group in self.upgrade.failed
                if (candidate := candidates[group]) is not None
                and not candidate.has_same_rules
                and group not in self.with_new_rules.failed
            },
            self.upgrade.failed,
        )
        self.failed = {
            group: reason for group, reason in (self.upgrade.failed | failed).items() if group not in self.fixed
        }
        self.num_partitions = count_subscribed_partitions(specs).tolist()
        self.num_members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
        static_group = specs.members.group[specs.instance_id.is_valid()]
        self.num_static = np.bincount(static_group, minlength=specs.num_groups).tolist()
        self.member_ids = specs.member_id.to_pylist()
        self.keys: list[dict[str, Any]] = pa.table({"cluster": specs.cluster, "group_id": specs.group_id}).to_pylist()

    def group_row(
        self, group: int, candidate: UpgradeCandidate, unknown_verdict: str, unknown_reason: str | None
    ) -> dict[str, Any]:
        """Returns the row of a group.

        Args:
            group: index of the group.
            candidate: the group.
            unknown_verdict: the verdict if there is an `unknown_reason`.
            unknown_reason: why the group can't be analyzed; `None` if it can.
        """
        row = self.keys[group] | {
            "assignor": candidate.assignor,
            "client_libraries": candidate.client_libraries,
            "members": self.num_members[group],
            "static_members": self.num_static[group],
            "partitions": self.num_partitions[group],
            "to_release": candidate.to_release,
            "to_rules": rules_of_release(candidate.to_release).release_line,
        }
        if unknown_reason is not None:
            return row | {"verdict": unknown_verdict, "note": unknown_reason}
        row |= {
            "from_release": candidate.release,
            "from_rules": rules_of_release(str(candidate.release)).release_line,
            "to_assignor": candidate.to_assignor or candidate.assignor,
        }
        steps, is_complete = self.upgrade.steps[group], bool(self.upgrade.is_complete[group])
        total = _sum_restarts(steps) if is_complete else {}
        verdict, note = judge_upgrade(candidate, total.get("moved_by_rules"), is_complete, self.fixed.get(group))
        row |= {"verdict": verdict, "note": note}
        if self.candidates[group] is None or group in self.fixed or verdict not in (READY, READY_WITH_WARNINGS):
            return row
        if not candidate.is_rolling:
            return row | {
                "restarts": self.num_members[group],
                "moved": int(self.full_restart_moved[group]),
                "paused_partitions": int(self.full_restart_paused[group]),
            }
        return row | {
            "restarts": self.num_members[group] * len(candidate.assignor_lists),
            "simulated_restarts": sum(step.member >= 0 for step in steps),
            "leader_changes": sum(step.leader_changed for step in steps),
            **total,
            "moved_by_old_rules": self._moved_with(self.with_old_rules, group, total),
            "moved_by_new_rules": self._moved_with(self.with_new_rules, group, total),
        }

    def _moved_with(self, single_rules: RollingUpgrade, group: int, total: dict[str, int]) -> int | None:
        """Returns the partitions that move if all members follow the same rules; `None` if unknown."""
        candidate = self.candidates[group]
        if candidate is not None and candidate.switch is None and candidate.has_same_rules:
            return total.get("moved")
        return _sum_restarts(single_rules.steps[group])["moved"] if single_rules.is_complete[group] else None

    def step_rows(self, group: int) -> Iterator[dict[str, Any]]:
        """Yields the rows of the steps of a group."""
        candidate = self.candidates[group]
        if candidate is None or group in self.failed or group in self.fixed:
            return
        if candidate.switch is not None and candidate.switch.kind == STOP_ALL:
            paused, moved = int(self.full_restart_paused[group]), int(self.full_restart_moved[group])
            stop = {"step": 1, "step_type": "stop-all", "description": describe_stop_all(), "paused_partitions": paused}
            start = {"step": 2, "step_type": "start-all", "description": describe_start_all(candidate), "moved": moved}
            yield from (self.keys[group] | step for step in (stop, start))
            return
        for ordinal, step in enumerate(self.upgrade.steps[group], 1):
            yield self.keys[group] | {
                **vars(step),
                "step": ordinal,
                "member_id": self.member_ids[step.member] if step.member >= 0 else None,
                "rules": rules_of_release(step.leader_release).release_line,
                "description": describe_step(candidate, step),
            }


def _upgrade_path(candidate: UpgradeCandidate | None) -> UpgradePath | None:
    if candidate is None or not candidate.is_rolling:
        return None
    lists = candidate.assignor_lists
    current = ClientConfig(str(candidate.release), lists[0][:1])
    return UpgradePath(current, tuple(ClientConfig(candidate.to_release, assignors) for assignors in lists))


def _single_rules_path(candidate: UpgradeCandidate | None, new_rules: bool) -> UpgradePath | None:
    """Returns the same restarts under the rules of one release; `None` if both releases decide the same."""
    if candidate is None or not candidate.is_rolling or (candidate.switch is None and candidate.has_same_rules):
        return None
    release = candidate.to_release if new_rules else str(candidate.release)
    config = ClientConfig(release, candidate.assignor_lists[0][:1])
    return UpgradePath(config, (config,) * len(candidate.assignor_lists))


def _find_fixes(
    specs: GroupSpecs, groups: Mapping[int, UpgradeCandidate], failed: Mapping[int, tuple[str, str]]
) -> dict[int, str]:
    """Returns the exception of groups, and the first release in which the same restarts don't throw it."""
    fixes: dict[int, str] = {}
    for release, change in FIXES.items() if groups else ():
        configs = {
            group: ClientConfig(release, candidate.assignor_lists[0][:1])
            for group, candidate in groups.items()
            if group not in fixes and release_bounds(candidate.release)[1] < release_bounds(release)[0]
        }
        paths = [
            UpgradePath(config, (config,)) if (config := configs.get(group)) else None
            for group in range(specs.num_groups)
        ]
        still = simulate_upgrade(specs, paths).failed
        fixed = (group for group in configs if group not in still)
        fixes |= {group: f"{failed[group][1]} ({change}, fixed in {release})" for group in fixed}
    return fixes


def _full_restart_config(candidate: UpgradeCandidate | None) -> ClientConfig | None:
    if candidate is None or candidate.switch is None or candidate.switch.kind != STOP_ALL:
        return None
    return ClientConfig(candidate.to_release, candidate.assignor_lists[-1])


def _sum_restarts(steps: Sequence[UpgradeStep]) -> dict[str, int]:
    """Returns the costs summed over the restarts, without the next rebalance."""
    return {name: sum(getattr(step, name) for step in steps if step.member >= 0) for name in COSTS}


def _empty_group_rows(groups: PassInput) -> Iterator[dict[str, Any]]:
    """Yields the rows of groups without members, which have nothing to restart."""
    for row in groups.empty_groups.tolist():
        yield {
            **{name: column(groups.facts.table, name)[row].as_py() for name in ("cluster", "group_id", "assignor")},
            "verdict": READY,
            "members": 0,
            "note": "The group has no members. The first member to join leads, with its own release.",
        }
