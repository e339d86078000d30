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
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import column
from spark_assign.assignors.group_specs import GroupAssignments, GroupSpecs
from spark_assign.assignors.release_rules import release_bounds
from spark_assign.groups.kernel.client_libraries import read_client_libraries
from spark_assign.groups.kernel.client_settings import STOP_ALL
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import (
    assign_groups,
    count_subscribed_partitions,
    read_assignors,
    read_leaders,
    read_ownership,
)
from spark_assign.groups.kernel.read_specs import GroupSubset, PassInput, open_pass, select_members
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel.migration_verdict import DONE, READY, READY_WITH_WARNINGS
from spark_assign.migration.kernel.rolling_restart import (
    MOVED,
    PAUSED,
    REVOKED,
    RestartingGroups,
    count_restarts,
    plan_groups_apart,
)
from spark_assign.migration.kernel.upgrade_verdict import (
    FIXES,
    NEXT_REBALANCE,
    RESTART,
    UNKNOWN_VERDICT,
    ClientConfig,
    GroupMembership,
    RollingUpgrade,
    UpgradeCandidate,
    UpgradePath,
    UpgradeStep,
    deciding_rules,
    describe_start_all,
    describe_step,
    describe_stop_all,
    explain_unknown,
    is_eager,
    judge_upgrade,
    next_member_id,
    next_owned_order,
    reported_generation,
    reports_owned,
    rules_of_release,
)
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    IntArray,
    PartitionSlices,
    intersect_partitions,
    invert,
    mask_from_indexes,
)

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

COSTS = ("moved", "revoked", "paused_partitions", "moved_by_rules")
"""Costs of a step, in partitions: columns, and attributes of `UpgradeStep`."""


def plan_upgrades(facts: pa.Table, to_release: str, assignor: str | None, schema: pa.Schema) -> Iterator[pa.Table]:
    """Returns the rows of all groups of these facts, with the columns of `schema`.

    Args:
        facts: facts of complete groups.
        to_release: the release of all members afterward.
        assignor: the assignor of all members afterward; `None` if each group keeps its own.
        schema: the schema of the rows.
    """
    plan = partial(_plan_upgrades, to_release=to_release, assignor=assignor, schema=schema)
    return plan_groups_apart(plan, facts, REJECTED, schema)


def _plan_upgrades(facts: pa.Table, to_release: str, assignor: str | None, schema: pa.Schema) -> Iterator[pa.Table]:
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


# --- rolling upgrades: the members of classic groups restart one at a time ------------------------------------
#
# At each restart:
#     - A dynamic member leaves, and the other members get its partitions; then it rejoins with a new id and without
#       partitions, and the group rebalances again. The leader decides, with the rules of its own release. If the leader
#       has left, the coordinator selects another one, which might have either release (`GroupMembership`).
#     - A static member rejoins before its session expires. It keeps its partitions, stays the leader if it led, and
#       causes no rebalance, unless the vote over the members' assignors now elects another one.
# Cooperative members first revoke the partitions that they lose and rejoin, until no member has anything to revoke.
#
# Costs, in partitions:
#     moved                  owned by another member after the rebalance than before it, summed over the rebalances
#     revoked                taken from live members
#     paused                 without consumption for a moment: the revoked partitions, those of the restarting member,
#                            and all partitions of eager members, which revoke everything before they rejoin
#     moved by rule change   moved partitions that the rules of the previous release would not have moved
#
# Example: sticky of 2.8, static members A and B, to 3.9. Nothing moves, A leads, and at the end both have the new
# rules: at the next rebalance, A decides with them.


MAX_ROUNDS = 16
"""Maximum number of simulated rounds per cooperative rebalance."""

MOVED_BY_RULE_CHANGE = PAUSED + 1
"""Row of `RestartingGroups.costs`."""


def simulate_upgrade(specs: GroupSpecs, paths: Sequence[UpgradePath | None]) -> RollingUpgrade:
    """Restarts the members of groups in the order of their ids, once per bounce.

    Args:
        specs: all groups.
        paths: the upgrade path of each group; `None` for a group that doesn't restart.
    """
    groups = _UpgradingGroups(specs, paths)
    num_members = np.bincount(specs.members.group, minlength=specs.num_groups)
    within_limit = count_restarts(specs)
    num_bounces = np.array([0 if path is None else len(path.bounces) for path in paths], np.int64)
    # A group that is too large only gets the first restarts of its first bounce.
    is_too_large = within_limit < num_members
    requested = np.where(is_too_large, np.minimum(num_bounces, 1) * within_limit, num_bounces * num_members)
    num_restarts = groups.restart_members(requested)
    is_complete = (num_bounces > 0) & (num_restarts == num_bounces * num_members)
    has_static = mask_from_indexes(specs.members.group[groups.is_static], specs.num_groups)
    groups.rebalance_again(np.flatnonzero(is_complete & has_static))
    is_complete[list(groups.failed)] = False
    return RollingUpgrade(groups.steps, is_complete, groups.failed, groups.owned)


class _UpgradingGroups(RestartingGroups):
    """Groups whose members restart with another release or another list of assignors.

    Attributes:
        owned_order: single partitions, in the order in which members report them.
        group: the group of each member.
        paths: the upgrade path by group, for the groups that restart.
        config: the configuration of each member of these groups.
        last_assignor: the assignor that gave each of these members its partitions; empty if it has none.
        generation, user_data_generation: the generations that each member reports; -1 for none.
        has_user_data: whether each member reports partitions in its user data.
        memberships: the coordinator's state, by group.
        leaders: the index of the leader, by group.
        steps: the steps so far of each group.
    """

    def __init__(self, specs: GroupSpecs, paths: Sequence[UpgradePath | None]) -> None:
        members = specs.members
        self.instance_ids: list[str | None] = specs.instance_id.to_pylist()
        super().__init__(specs, MOVED_BY_RULE_CHANGE + 1)
        self.group: list[int] = members.group.tolist()
        self.paths = {group: path for group, path in enumerate(paths) if path is not None}
        self.owned_order = _read_owned_order(specs, paths)
        member_paths = enumerate(self.paths.get(group) for group in self.group)
        self.config = {member: path.current for member, path in member_paths if path is not None}
        self.last_assignor = {member: config.assignors[0] for member, config in self.config.items()}
        self.generation, self.user_data_generation = members.generation.copy(), members.user_data_generation.copy()
        self.has_user_data = members.has_user_data.copy()
        self.member_index = {
            (group, member_id): member
            for member, (group, member_id) in enumerate(zip(self.group, self.ids, strict=True))
        }
        self.memberships = {
            group: GroupMembership(
                (
                    (self.ids[member], self.instance_ids[member])
                    for member in range(int(self.member_starts[group]), int(self.member_starts[group + 1]))
                ),
                path.current.assignors,
                path.leader,
            )
            for group, path in self.paths.items()
        }
        self.leaders = {group: self._find_leader(group) for group in self.memberships}
        self.steps: list[list[UpgradeStep]] = [[] for _ in paths]

    def rebalance_again(self, groups: IntArray) -> None:
        """Rebalances these groups once more, as at the next change of any kind."""
        self.costs[:] = 0
        is_affected = mask_from_indexes(groups, self.specs.num_groups)
        self._rebalance(np.flatnonzero(is_affected[self.specs.members.group]), EMPTY_SLICES)
        for group in groups.tolist():
            if group not in self.failed:
                self._add_step(group, NEXT_REBALANCE, self.steps[group][-1].bounce, -1)

    # --- restarts -------------------------------------------------------------------------------------------

    def _leave(self, members: IntArray) -> None:
        for member in members.tolist():
            self.memberships[self.group[member]].group.remove(self.ids[member])
            self.generation[member] = self.user_data_generation[member] = -1
            self.has_user_data[member] = False
            self.last_assignor[member] = ""
        super()._leave(members)

    def _rejoin(self, members: IntArray, bounce: IntArray) -> IntArray:
        """Gives each member its new configuration and id. Returns the members whose groups rebalance."""
        rebalancing = []
        for member, member_bounce in zip(members.tolist(), bounce.tolist(), strict=True):
            group, previous_id, instance_id = self.group[member], self.ids[member], self.instance_ids[member]
            config, member_id = self.paths[group].bounces[member_bounce], self._renew_id(member, next_member_id)
            self.config[member] = config
            del self.member_index[group, previous_id]
            self.member_index[group, member_id] = member
            membership = self.memberships[group]
            if instance_id is None:
                membership.join(member_id, None, config.assignors)
                rebalancing.append(member)
                continue
            if membership.rejoin_static(instance_id, previous_id, member_id, config.assignors):
                rebalancing.append(member)
            elected = membership.group.protocol_name
            self._remember(member, self.last_assignor[member] if elected is None else elected)
        return np.array(rebalancing, np.int64)

    def _record(self, groups: IntArray, members: IntArray, bounce: IntArray) -> None:
        for group, member, member_bounce in zip(groups.tolist(), members.tolist(), bounce.tolist(), strict=True):
            self._add_step(group, RESTART, member_bounce + 1, member)

    def _add_step(self, group: int, step_type: str, bounce: int, member: int) -> None:
        """Adds a step to a group: who leads now, by which rules, and what the step costs."""
        previous_leader, leader = self.leaders[group], self._find_leader(group)
        self.leaders[group] = leader
        self.steps[group].append(
            UpgradeStep(
                step_type,
                bounce,
                member,
                self.ids[member] if member >= 0 else None,
                self.ids[leader],
                self.config[leader].release,
                leader != previous_leader,
                str(self.memberships[group].group.protocol_name),
                *(int(cost) for cost in self.costs[:, group]),
            )
        )

    def _find_leader(self, group: int) -> int:
        """Returns the index of the member that leads a group."""
        return self.member_index[group, str(self.memberships[group].group.leader_id)]

    def _remember(self, member: int, assignor: str) -> None:
        """Sets what a member reports next time, after it got its partitions from this assignor."""
        self.last_assignor[member] = assignor
        generations = reported_generation(self.config[member].release, assignor)
        self.generation[member], self.user_data_generation[member] = generations
        self.has_user_data[member] = self.user_data_generation[member] >= 0

    # --- rebalances -----------------------------------------------------------------------------------------

    def _rebalance(self, members: IntArray, departed: PartitionSlices) -> None:
        """Plans the groups of these members until nothing is withheld, and adds the costs."""
        if not len(members):
            return
        subset = select_members(self.specs, members, self.ids, self.owned, departed)
        elected = self._elect(subset)
        assignors = [assignor for assignor, _ in elected]
        member_is_eager = np.array([is_eager(self.config[member].assignors) for member in subset.members.tolist()])
        before, state = subset.specs.owned, subset.specs
        kept_by_previous = EMPTY_SLICES
        active = np.ones(subset.specs.num_groups, bool)
        for round_index in range(MAX_ROUNDS):
            reported = self._report(subset, state, assignors)
            names = zip(assignors, active.tolist(), strict=True)
            assignments = assign_groups(reported, [name if is_active else None for name, is_active in names])
            self.failed |= {int(subset.groups[group]): reason for group, reason in assignments.rejected.items()}
            ownership = read_ownership(state, assignments, active)
            counts = count_changes(ownership)
            revoked = counts.owned - counts.kept
            eager_owned = ownership.owned.take(member_is_eager[ownership.owned.member])
            self.costs[REVOKED, subset.groups] += revoked
            self.costs[PAUSED, subset.groups] += revoked + count_changes(replace(ownership, owned=eager_owned)).kept
            inactive_owned = state.owned.take(~active[state.members.group[state.owned.member]])
            state = replace(state, owned=inactive_owned.concat(ownership.assigned))
            if round_index == 0:
                kept_by_previous = _keep_by_previous_rules(reported, elected, before)
            for member in subset.members.tolist():
                self._remember(member, str(self.memberships[self.group[member]].group.protocol_name))
            active = mask_from_indexes(state.members.group[ownership.withheld.member], subset.specs.num_groups)
            if not active.any():
                break
        all_groups, final = np.ones(subset.specs.num_groups, bool), GroupAssignments.of(state.owned)
        total = count_changes(read_ownership(replace(state, owned=before), final, all_groups))
        baseline = replace(state, owned=kept_by_previous, departed_owned=EMPTY_SLICES)
        by_rule_change = count_changes(read_ownership(baseline, final, all_groups))
        self.costs[MOVED, subset.groups] += total.owned_and_assigned - total.kept
        self.costs[MOVED_BY_RULE_CHANGE, subset.groups] += by_rule_change.owned - by_rule_change.kept
        self._update_owned_order(subset, self._set_owned(subset, state.owned))

    def _elect(self, subset: GroupSubset) -> list[tuple[str, str]]:
        """Returns the elected assignor of each group, as of its leader's release and as of the previous release."""
        assignors = []
        for group in subset.groups.tolist():
            leader, elected = self.memberships[group].elect()
            release, previous = self.config[self.member_index[group, leader]].release, self.paths[group].current.release
            assignors.append((f"{elected}@{release}", f"{elected}@{previous}"))
        return assignors

    def _report(self, subset: GroupSubset, state: GroupSpecs, assignors: Sequence[str]) -> GroupSpecs:
        """Returns the groups as their members report them to the leader."""
        members, parent_members = subset.specs.members, subset.members.tolist()
        elected = [assignors[group].partition("@")[0] for group in members.group.tolist()]
        configs = [self.config[member] for member in parent_members]
        is_reported = np.array(
            [
                reports_owned(assignor, self.last_assignor[member], config.assignors)
                for assignor, member, config in zip(elected, parent_members, configs, strict=True)
            ],
            bool,
        )
        reports_rack = np.array([rules_of_release(config.release).reports_rack for config in configs], bool)
        reported_members = replace(
            members,
            generation=self.generation[subset.members],
            user_data_generation=self.user_data_generation[subset.members],
            has_user_data=self.has_user_data[subset.members],
            rack=np.where(reports_rack, members.rack, -1),
        )
        owned_order = self.owned_order
        member_index = invert(subset.members, len(self.specs.members))
        topic_index = invert(subset.topics, len(self.specs.topics))
        is_selected = (member_index[owned_order.member] >= 0) & (topic_index[owned_order.topic] >= 0)
        owned_order = owned_order.take(is_selected).renumber(member_index, topic_index)
        return replace(
            state,
            members=reported_members,
            owned=state.owned.take(is_reported[state.owned.member]),
            reported_order=owned_order.take(is_reported[owned_order.member]),
        )

    def _update_owned_order(self, subset: GroupSubset, assigned: PartitionSlices) -> None:
        """Updates the order in which the members of the subset report their partitions."""
        ordered_groups = [
            group
            for group in subset.groups.tolist()
            if self.memberships[group].group.protocol_name == "sticky" and _uses_owned_order(self.paths[group])
        ]
        is_ordered = np.isin(self.specs.members.group[assigned.member], ordered_groups)
        is_unchanged = ~np.isin(self.specs.members.group[self.owned_order.member], subset.groups)
        num_members = len(self.specs.members)
        updated = next_owned_order(self.owned_order, assigned.take(is_ordered), self.specs.topic_hash, num_members)
        self.owned_order = self.owned_order.take(is_unchanged).concat(updated)


def _keep_by_previous_rules(
    reported: GroupSpecs, elected: Sequence[tuple[str, str]], before: PartitionSlices
) -> PartitionSlices:
    """Returns the partitions that the previous release would keep in place, in groups whose rules have changed."""
    names = [None if deciding_rules(name) == deciding_rules(previous) else previous for name, previous in elected]
    return intersect_partitions(before, assign_groups(reported, names).slices)


def _uses_owned_order(path: UpgradePath | None) -> bool:
    """Checks whether a leader on the path uses the order in which members report their partitions."""
    return path is not None and any(
        rules_of_release(config.release).keeps_in_owned_order for config in (path.current, *path.bounces)
    )


def _read_owned_order(specs: GroupSpecs, paths: Sequence[UpgradePath | None]) -> PartitionSlices:
    """Returns the partitions in the order in which members report them; by topic and partition if the order is
    unknown.
    """
    reported = specs.owned_order
    is_used = np.array([_uses_owned_order(path) for path in paths], bool)[specs.members.group]
    order_unknown = is_used & ~mask_from_indexes(reported.member, len(specs.members))
    rows = specs.owned.take(order_unknown[specs.owned.member]).expand()
    return reported.concat(rows.take(np.lexsort((rows.first, rows.topic, rows.member))))
