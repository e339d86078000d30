"""Simulates rolling upgrades: the members of classic groups restart one at a time, as Kafka's coordinator handles it.

At each restart:
    - A dynamic member leaves, and the other members get its partitions; then it rejoins with a new id and without
      partitions, and the group rebalances again. The leader decides, with the rules of its own release. If the leader
      has left, the coordinator selects another one, which might have either release (`GroupMembership`).
    - A static member rejoins before its session expires. It keeps its partitions, stays the leader if it led, and
      causes no rebalance, unless the vote over the members' assignors now elects another one.
Cooperative members first revoke the partitions that they lose and rejoin, until no member has anything to revoke.

Costs, in partitions:
    moved                  owned by another member after the rebalance than before it, summed over the rebalances
    revoked                taken from live members
    paused                 without consumption for a moment: the revoked partitions, those of the restarting member,
                           and all partitions of eager members, which revoke everything before they rejoin
    moved by rule change   moved partitions that the rules of the previous release would not have moved

Example: sticky of 2.8, static members A and B, to 3.9. Nothing moves, A leads, and at the end both have the new rules:
at the next rebalance, A decides with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spark_assign.groups.kernel.assign import assign_groups
from spark_assign.groups.kernel.group_metrics import read_ownership
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.group_subset import GroupSubset, select_members
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.migration.kernel.group_membership import (
    NEXT_REBALANCE,
    RESTART,
    GroupMembership,
    RollingUpgrade,
    UpgradePath,
    UpgradeStep,
    deciding_rules,
    is_eager,
    next_member_id,
    next_owned_order,
    reported_generation,
    reports_owned,
    rules_of_release,
)
from spark_assign.migration.kernel.rolling_restart import MOVED, PAUSED, REVOKED, RestartingGroups, count_restarts
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import (
    EMPTY_SLICES,
    PartitionSlices,
    intersect_partitions,
    invert,
    mask_from_indexes,
)

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
            config, member_id = self.paths[group].bounces[member_bounce], next_member_id(previous_id)
            self.config[member], self.ids[member] = config, member_id
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
