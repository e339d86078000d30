"""A rolling upgrade played: each member of a classic group restarts with group.protocol=consumer, one after the other.

What the coordinator does at each restart (`GroupMetadataManager`, `ConsumerGroup.fromClassicGroup`)
    1. The member leaves. Where it is the first one, the group still is a classic one and its own assignor shares out
       what the member had; later the broker's assignor does.
    2. It comes back by the new protocol, under another id. With the first one the coordinator makes a consumer group of
       the classic group: what everybody has becomes the target so far. As a member has joined, the broker's assignor
       makes the next target. Those that still are classic members are told to join again and get their part of it.
A static member does neither: it comes back within its session timeout, takes over what it had (`replaceMember`), and as
nobody's subscription has changed there is no new target. A group of static members keeps what its clients' assignor
gave it until anything else changes.

What stops for a moment: what changes hands or belongs to whoever restarts; and all that classic members of an eager
assignor have, at each new target, as they give up everything before they join again (KIP-429).

Example: range, C0 [t0 t1] and C1 [t2 t3], to uniform.
    C0 leaves:         C1 [t0 t1 t2 t3]                    2 move, 4 stop
    C0 comes back:     C0 [t2 t3]  C1 [t0 t1]              2 move, 4 stop; the group is a consumer group
    C1 leaves:         C0 [t0 t1 t2 t3]                    2 move, 2 stop
    C1 comes back:     half of C0's go to C1               2 move, 2 stop

Kafka's consumers draw their new ids at random. Here they are drawn from the old ones, so that a fleet has one answer:
who keeps the odd partition (uniform), and who gets which range (server-range), will differ; how many is as here.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spark_assign.groups.kernel.group_metrics import read_ownership
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.migration.kernel.assign_without_spark import assign_without_spark
from spark_assign.migration.kernel.group_subset import part_of
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices

MOST_RESTARTS = 64
"""So many restarts of a group are played,"""

MOST_PARTITIONS = 2_000_000
"""and no more than come to so many partitions that are looked at."""


@dataclass(frozen=True)
class MemberRestart:
    """One member of each of some groups has restarted; figures are of its leaving and coming back together.

    Attributes:
        number: which member it was, from 0.
        group: the groups that were played this far.
        moved: partitions that got another owner, once for each time.
        revoked: of what living members had, those that the new target took from them.
        stopped: partitions that nobody read for a moment, once for each time.
    """

    number: int
    group: IntArray
    moved: IntArray
    revoked: IntArray
    stopped: IntArray


Names = npt.NDArray[np.object_]


def new_id(member_id: str) -> str:
    """The id that a member comes back with: as long and as mixed as Kafka's (`Uuid`), and the same at each call."""
    digest = hashlib.md5(member_id.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True)
class RollingRestart:
    """What was played.

    Attributes:
        restarts: in their order.
        whole: of each group whether all of its members have restarted.
        after: who has what then, in all groups.
    """

    restarts: list[MemberRestart]
    whole: BoolArray
    after: PartitionSlices


def play_restarts(
    specs: GroupSpecs, now: Names, to: str, chosen: BoolArray, static: BoolArray, eager: BoolArray
) -> RollingRestart:
    """Restart the members of some groups, in the order of their ids.

    Args:
        specs: all groups.
        now: of each chosen group the clients' assignor that it runs with, one of Kafka's.
        to: the broker's assignor.
        chosen: which groups.
        static: of each member whether it is a static one.
        eager: of each group whether it runs by the eager protocol.

    Returns:
        as many restarts as the largest group has members, if these are not too many. Groups for which an assignor of
        Kafka throws are in none from there on.
    """
    going = np.where(chosen, played(specs), 0)
    begins = np.searchsorted(specs.members.group, np.arange(specs.num_groups))
    groups = _RestartingGroups(specs, to, eager)
    found = []
    for number in range(int(going.max(initial=0))):
        some = np.flatnonzero(going > number)
        restarting = np.zeros(len(specs.members), bool)
        restarting[begins[some] + number] = True
        groups.stop(restarting)
        refused = groups.leave(restarting & ~static, now if number == 0 else None)
        refused |= groups.come_back(restarting, restarting & ~static)
        going[list(refused)] = 0
        some = some[going[some] > 0]
        found.append(MemberRestart(number, some, *(each[some] for each in groups.figures)))
    whole = (going > 0) & (going == np.bincount(specs.members.group, minlength=specs.num_groups))
    return RollingRestart(found, whole, groups.claims)


def played(specs: GroupSpecs) -> IntArray:
    """How many restarts of each group are played, of as many as it has members."""
    members = np.bincount(specs.members.group, minlength=specs.num_groups)
    partitions = np.bincount(specs.topics.group, np.maximum(specs.topics.partitions, 0), specs.num_groups)
    at_most = MOST_PARTITIONS // np.maximum(partitions, 1).astype(np.int64) + 1
    return np.minimum(members, np.minimum(at_most, MOST_RESTARTS))


class _RestartingGroups:
    """The groups as they are: who has what, under which id, by which protocol; and the figures of a restart."""

    def __init__(self, specs: GroupSpecs, to: str, eager: BoolArray) -> None:
        self.specs, self.to = specs, to
        self.claims = specs.owned
        self.ids: list[str] = specs.member_id.to_pylist()
        self.stops_all = eager[specs.members.group]
        self.figures = np.zeros((3, specs.num_groups), np.int64)

    def stop(self, restarting: BoolArray) -> None:
        """These members stop: what they have is read by nobody for a moment. The figures begin anew."""
        mine = self.claims.take(restarting[self.claims.member])
        group = self.specs.members.group[mine.member]
        self.figures[:] = 0
        self.figures[2] = np.bincount(group, mine.count, self.specs.num_groups).astype(np.int64)

    def leave(self, away: BoolArray, classic: Names | None) -> set[int]:
        """These members leave, and the others share out what they had; the groups that cannot are answered."""
        group = self.specs.members.group
        mine = away[self.claims.member]
        left, self.claims = self.claims.take(mine), self.claims.take(~mine)
        return self._rebalance(np.flatnonzero(self._with(away)[group] & ~away), left, classic)

    def come_back(self, restarted: BoolArray, away: BoolArray) -> set[int]:
        """They are back by the new protocol; where somebody was away, the broker's assignor makes a target."""
        for at in np.flatnonzero(restarted).tolist():
            self.ids[at] = new_id(self.ids[at])
        self.stops_all = self.stops_all & ~restarted
        return self._rebalance(np.flatnonzero(self._with(away)[self.specs.members.group]), EMPTY_SLICES, None)

    def _with(self, members: BoolArray) -> BoolArray:
        """The groups that have these members."""
        groups = np.zeros(self.specs.num_groups, bool)
        groups[self.specs.members.group[members]] = True
        return groups

    def _rebalance(self, members: IntArray, left: PartitionSlices, classic: Names | None) -> set[int]:
        """These members share out all of their groups, by the groups' own assignors or by the broker's."""
        if not len(members):
            return set()
        part = part_of(self.specs, members, self.ids, self.claims, left)
        names = np.full(part.specs.num_groups, self.to, object) if classic is None else classic[part.groups]
        runs, refused = EMPTY_SLICES, set()
        for name in sorted(set(names.tolist())):
            planned = assign_without_spark(part.specs, name, names == name)
            compared = read_ownership(
                part.specs, planned.assigned_now, planned.slices.take(planned.withheld), names == name
            )
            self.figures[:, part.groups] += _count(compared, self.stops_all[part.members])
            runs = runs.concat(planned.slices)
            refused |= {int(part.groups[group]) for group in planned.rejected}
        others = ~np.isin(self.specs.members.group[self.claims.member], part.groups)
        self.claims = self.claims.take(others).concat(part.outward(runs))
        return refused


def _count(compared: Ownership, stops_all: BoolArray) -> npt.NDArray[np.int64]:
    """Moved, revoked and stopped of each group."""
    counts = count_changes(compared)
    again = compared.owned.take(stops_all[compared.owned.member])
    revoked = counts.owned - counts.kept
    return np.stack(
        [
            counts.owned_and_assigned - counts.kept - counts.returned,
            revoked,
            revoked + count_changes(replace(compared, owned=again)).kept,
        ]
    )
