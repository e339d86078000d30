"""A rolling upgrade played: the members of classic groups restart one after the other, by Kafka's coordinator.

At each restart
    - A dynamic member leaves, and the others share out what it had; then it joins again, under another id and owning
      nothing, and they share out anew. Whoever leads decides, by the rules of its own release; if the leader has gone,
      the coordinator picks another one, which may be of either release (`group_membership`).
    - A static member comes back before its session is over: it has what it had, leads if it led, and nobody else
      notices, unless the vote over the members' assignors has another winner now.
Cooperative members give up first what they lose and join once more, until nobody has to give up anything.

What is counted
    moved       partitions that another member has after the rebalance than before it, added up over the rebalances
    revoked     what living members lose; and
    stopped     what nobody reads for a moment: that, what the restarting member has, and all that eager members have,
                who give up everything before they join
    by rules    of what moves, what the rules of the old release would have left where it is

Example: sticky of 2.8, static members A and B, to 3.9. Nothing moves, A leads, and both know the new rules at last: at
the next rebalance (`settle`) A decides by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spark_assign.groups.kernel.group_metrics import read_ownership
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.sticky_input import read_owned_order
from spark_assign.java.hash_map import string_hashes
from spark_assign.migration.kernel.assign_without_spark import assign_without_spark
from spark_assign.migration.kernel.group_subset import GroupSubset, part_of
from spark_assign.migration.kernel.rolling_restart import played as restarts_played
from spark_assign.migration.kernel.upgrade.group_membership import GroupMembership, next_id
from spark_assign.migration.kernel.upgrade.reported_subscription import (
    generation_told,
    is_eager,
    order_after,
    profile_rules,
    rules_of,
    tells_owned,
)
from spark_assign.migration.kernel.upgrade.upgrade_path import (
    RESTART,
    SETTLE,
    ClientConfig,
    RollingUpgrade,
    UpgradePath,
    UpgradeStep,
)
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices, intersect_partitions, mask_from_indexes

MOST_ROUNDS = 16
"""Cooperative members are followed for so many rounds of one rebalance."""


def play(specs: GroupSpecs, courses: Sequence[UpgradePath | None]) -> RollingUpgrade:
    """Restart the members of groups in the order of their ids, and once more for each further bounce.

    Args:
        specs: all groups.
        courses: of each group what becomes of it; null: nothing.
    """
    groups = _UpgradingGroups(specs, courses)
    members = np.bincount(specs.members.group, minlength=specs.num_groups)
    fits = restarts_played(specs)
    bounces = np.array([0 if each is None else len(each.bounces) for each in courses], np.int64)
    # Of a group that is too large the first restarts of the first bounce are played.
    going = np.where(fits < members, np.minimum(bounces, 1) * fits, bounces * members)
    for number in range(int(going.max(initial=0))):
        groups.restart(np.flatnonzero(going > number), number)
        going[list(groups.refused)] = 0
    whole = (bounces > 0) & (going == bounces * members)
    static = np.zeros(specs.num_groups, bool)
    static[specs.members.group[groups.static]] = True
    groups.settle(np.flatnonzero(whole & static))
    whole[list(groups.refused)] = False
    return RollingUpgrade(groups.steps, whole, groups.refused, groups.claims)


class _UpgradingGroups:
    """The groups as they are: who has what, under which id, on which release; who leads; and the steps so far."""

    def __init__(self, specs: GroupSpecs, courses: Sequence[UpgradePath | None]) -> None:
        members = specs.members
        self.specs, self.courses = specs, courses
        self.claims, self.order = specs.owned, _in_order(specs, courses)
        self.ids: list[str] = specs.member_id.to_pylist()
        self.instance: list[str | None] = specs.facts.column("group_instance_id", members.row).to_pylist()
        self.static = np.array([each is not None for each in self.instance], bool)
        self.begins = np.searchsorted(members.group, np.arange(specs.num_groups + 1))
        of_member = [courses[group] for group in members.group.tolist()]
        self.setup: list[ClientConfig | None] = [None if each is None else each.before for each in of_member]
        self.remembered = ["" if each is None else each.before.assignors[0] for each in of_member]
        self.generation, self.in_user_data = members.generation.copy(), members.user_data_generation.copy()
        self.told = members.has_user_data.copy()
        self.numbers = {
            (group, name): at for at, (group, name) in enumerate(zip(members.group.tolist(), self.ids, strict=True))
        }
        self.seats = {
            group: GroupMembership(
                ((self.ids[at], self.instance[at]) for at in self._members(group)),
                course.before.assignors,
                course.leader,
            )
            for group, course in enumerate(courses)
            if course is not None
        }
        self.hashes = (
            string_hashes(specs.facts.topic_names.to_pylist())[specs.topics.name]
            if len(specs.topics)
            else EMPTY_SLICES.topic
        )
        self.figures = np.zeros((4, specs.num_groups), np.int64)
        self.steps: list[list[UpgradeStep]] = [[] for _ in courses]
        self.refused: dict[int, tuple[str, str]] = {}

    def _members(self, group: int) -> range:
        return range(int(self.begins[group]), int(self.begins[group + 1]))

    # --- restarts -------------------------------------------------------------------------------------------

    def restart(self, groups: IntArray, number: int) -> None:
        """One member of each of these groups restarts: the next one of those that all have."""
        size = self.begins[groups + 1] - self.begins[groups]
        bounce, place = number // size, number % size
        who = self.begins[groups] + place
        led = [self._leader(group) for group in groups.tolist()]
        self._stop(who)
        moving = ~self.static[who]
        self._leave(who[moving])
        again = self._come_back(who, bounce)
        self._rebalance(np.flatnonzero(self._with(again)[self.specs.members.group]), EMPTY_SLICES)
        for group, member, nth, leader in zip(groups.tolist(), who.tolist(), bounce.tolist(), led, strict=True):
            if group not in self.refused:
                self._note(group, RESTART, nth + 1, member, leader)

    def settle(self, groups: IntArray) -> None:
        """Everybody joins once more, as at the next change of anything."""
        self.figures[:] = 0
        self._rebalance(
            np.flatnonzero(mask_from_indexes(groups, self.specs.num_groups)[self.specs.members.group]), EMPTY_SLICES
        )
        for group in groups.tolist():
            if group not in self.refused:
                self._note(group, SETTLE, self.steps[group][-1].bounce, -1, self._leader(group))

    def _leader(self, group: int) -> int:
        """Who leads, by its number."""
        return self.numbers[group, str(self.seats[group].group.leader_id)]

    def _note(self, group: int, what: str, bounce: int, member: int, led: int) -> None:
        leader = self._leader(group)
        self.steps[group].append(
            UpgradeStep(
                group,
                what,
                bounce,
                member,
                self.ids[member] if member >= 0 else None,
                self.ids[leader],
                self._setup(leader).release,
                leader != led,
                str(self.seats[group].group.protocol_name),
                *(int(each) for each in self.figures[:, group]),
            )
        )

    def _stop(self, who: IntArray) -> None:
        """These members stop: what they have is read by nobody for a moment. The figures begin anew."""
        mine = self.claims.take(mask_from_indexes(who, len(self.specs.members))[self.claims.member])
        group = self.specs.members.group[mine.member]
        self.figures[:] = 0
        self.figures[2] = np.bincount(group, mine.count, self.specs.num_groups).astype(np.int64)

    def _leave(self, who: IntArray) -> None:
        """These dynamic members leave, and the others share out what they had."""
        away = mask_from_indexes(who, len(self.specs.members))
        for at in who.tolist():
            self.seats[self._group(at)].leave(self.ids[at])
            self.generation[at] = self.in_user_data[at] = -1
            self.told[at] = False
            self.remembered[at] = ""
        mine = away[self.claims.member]
        left, self.claims = self.claims.take(mine), self.claims.take(~mine)
        self._rebalance(np.flatnonzero(self._with(who)[self.specs.members.group] & ~away), left)

    def _come_back(self, who: IntArray, bounce: IntArray) -> IntArray:
        """They are back, as the bounce has it; those whose groups rebalance now."""
        again = []
        for at, nth in zip(who.tolist(), bounce.tolist(), strict=True):
            group, old, instance = self._group(at), self.ids[at], self.instance[at]
            course = self.courses[group]
            assert course is not None
            setup = course.bounces[nth]
            self.setup[at], self.ids[at] = setup, next_id(old)
            del self.numbers[group, old]
            self.numbers[group, self.ids[at]] = at
            if instance is None:
                self.seats[group].join(self.ids[at], None, setup.assignors)
                again.append(at)
                continue
            if self.seats[group].come_back(instance, old, self.ids[at], setup.assignors):
                again.append(at)
            elected = self.seats[group].group.protocol_name
            self._settled(at, self.remembered[at] if elected is None else elected)
        return np.array(again, np.int64)

    def _group(self, member: int) -> int:
        return int(self.specs.members.group[member])

    def _with(self, members: IntArray) -> BoolArray:
        """The groups that have these members."""
        return mask_from_indexes(self.specs.members.group[members], self.specs.num_groups)

    def _settled(self, member: int, elected: str) -> None:
        """What a member tells next time, now that it has its part by this assignor."""
        setup = self.setup[member]
        assert setup is not None
        self.remembered[member] = elected
        self.generation[member], self.in_user_data[member] = generation_told(setup.release, elected)
        self.told[member] = self.in_user_data[member] >= 0

    # --- rebalances -----------------------------------------------------------------------------------------

    def _rebalance(self, members: IntArray, left: PartitionSlices) -> None:
        """All of these members join, and their leaders share out their groups."""
        if not len(members):
            return
        part = part_of(self.specs, members, self.ids, self.claims, left)
        names, olds = self._asked(part)
        eager = np.array([is_eager(self._setup(at).assignors) for at in part.members.tolist()], bool)
        before, state = part.specs.owned, part.specs
        old_keeps = EMPTY_SLICES
        todo = np.ones(part.specs.num_groups, bool)
        for turn in range(MOST_ROUNDS):
            told = self._told(part, state, names)
            given, withheld = self._assign(told, part, names, todo)
            round_ = read_ownership(state, given, withheld, todo)
            counts = count_changes(round_)
            revoked = counts.owned - counts.kept
            again = count_changes(replace(round_, owned=round_.owned.take(eager[round_.owned.member]))).kept
            self.figures[1, part.groups] += revoked
            self.figures[2, part.groups] += revoked + again
            rest = state.owned.take(~todo[state.members.group[state.owned.member]])
            state = replace(state, owned=rest.concat(given))
            if turn == 0:
                old_keeps = self._kept_by_old(told, names, olds, before)
            for at in part.members.tolist():
                self._settled(at, str(self.seats[self._group(at)].group.protocol_name))
            later = np.zeros(part.specs.num_groups, bool)
            later[state.members.group[withheld.member]] = True
            todo = later
            if not todo.any():
                break
        all_members = np.ones(part.specs.num_groups, bool)
        total = count_changes(read_ownership(replace(state, owned=before), state.owned, EMPTY_SLICES, all_members))
        still = count_changes(
            read_ownership(
                replace(state, owned=old_keeps, departed_owned=EMPTY_SLICES), state.owned, EMPTY_SLICES, all_members
            )
        )
        self.figures[0, part.groups] += total.owned_and_assigned - total.kept
        self.figures[3, part.groups] += still.owned - still.kept
        self._own(part, state.owned)

    def _setup(self, member: int) -> ClientConfig:
        setup = self.setup[member]
        assert setup is not None
        return setup

    def _asked(self, part: GroupSubset) -> tuple[list[str], list[str]]:
        """Of each group the elected assignor as of its leader's release, and as of the old one."""
        names, olds = [], []
        for group in part.groups.tolist():
            leader, elected = self.seats[group].elect()
            course = self.courses[group]
            assert course is not None
            names.append(f"{elected}@{self._setup(self.numbers[group, leader]).release}")
            olds.append(f"{elected}@{course.before.release}")
        return names, olds

    def _told(self, part: GroupSubset, state: GroupSpecs, names: Sequence[str]) -> GroupSpecs:
        """The groups as their members tell of themselves."""
        members, rows = part.specs.members, part.members.tolist()
        elected = [names[group].partition("@")[0] for group in members.group.tolist()]
        setups = [self._setup(at) for at in rows]
        tells = np.array(
            [
                tells_owned(name, self.remembered[at], setup.assignors)
                for name, at, setup in zip(elected, rows, setups, strict=True)
            ],
            bool,
        )
        racked = np.array([rules_of(setup.release).uses_racks for setup in setups], bool)
        known = replace(
            members,
            generation=self.generation[part.members],
            user_data_generation=self.in_user_data[part.members],
            has_user_data=self.told[part.members],
            rack=np.where(racked, members.rack, -1),
        )
        order = self.order
        number = np.full(len(self.specs.members), -1, np.int64)
        number[part.members] = np.arange(len(part.members))
        topic = np.full(len(self.specs.topics), -1, np.int64)
        topic[part.topics] = np.arange(len(part.topics))
        mine = order.take((number[order.member] >= 0) & (topic[order.topic] >= 0))
        in_order = PartitionSlices(number[mine.member], topic[mine.topic], *mine.columns[2:])
        return replace(
            state,
            members=known,
            owned=state.owned.take(tells[state.owned.member]),
            owned_order=in_order.take(tells[in_order.member]),
        )

    def _assign(
        self, told: GroupSpecs, part: GroupSubset, names: Sequence[str], todo: BoolArray
    ) -> tuple[PartitionSlices, PartitionSlices]:
        """What is given in this round, and withheld until the next one, of the groups that have something to do."""
        given, withheld, kinds = EMPTY_SLICES, EMPTY_SLICES, np.array(names, object)
        for name in sorted(set(kinds[todo].tolist())):
            planned = assign_without_spark(told, name, todo & (kinds == name))
            given = given.concat(planned.assigned_now)
            withheld = withheld.concat(planned.slices.take(planned.withheld))
            self.refused |= {int(part.groups[group]): why for group, why in planned.rejected.items()}
        return given, withheld

    def _kept_by_old(
        self, told: GroupSpecs, names: Sequence[str], olds: Sequence[str], before: PartitionSlices
    ) -> PartitionSlices:
        """Of what members had, what the old release's rules would leave with them, where others were asked."""
        kept, kinds = EMPTY_SLICES, np.array(olds, object)
        differs = np.array(
            [profile_rules(name) != profile_rules(old) for name, old in zip(names, olds, strict=True)], bool
        )
        for name in sorted(set(kinds[differs].tolist())):
            kept = kept.concat(assign_without_spark(told, name, differs & (kinds == name)).slices)
        return intersect_partitions(before, kept)

    def _own(self, part: GroupSubset, runs: PartitionSlices) -> None:
        """These groups have this now."""
        others = ~np.isin(self.specs.members.group[self.claims.member], part.groups)
        given = part.outward(runs)
        self.claims = self.claims.take(others).concat(given)
        ordered = [
            group
            for group in part.groups.tolist()
            if self.seats[group].group.protocol_name == "sticky" and _keeps_as_told(self.courses[group])
        ]
        mine = np.isin(self.specs.members.group[given.member], ordered)
        others = ~np.isin(self.specs.members.group[self.order.member], part.groups)
        after = order_after(self.order, given.take(mine), self.hashes, len(self.specs.members))
        self.order = self.order.take(others).concat(after)


def _keeps_as_told(course: UpgradePath | None) -> bool:
    """Whether a leader on the way asks in which order its members have what they have."""
    return course is not None and any(
        rules_of(each.release).keeps_in_owned_order for each in (course.before, *course.bounces)
    )


def _in_order(specs: GroupSpecs, courses: Sequence[UpgradePath | None]) -> PartitionSlices:
    """What members tell in order now; where the facts do not say in which, by topic and partition."""
    told = read_owned_order(specs)
    asked = np.array([_keeps_as_told(each) for each in courses], bool)[specs.members.group]
    silent = asked & ~mask_from_indexes(told.member, len(specs.members))
    rows = specs.owned.take(silent[specs.owned.member]).expand()
    return told.concat(rows.take(np.lexsort((rows.first, rows.topic, rows.member))))
