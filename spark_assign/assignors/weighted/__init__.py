"""Weighted-sticky, an assignor that balances by load instead of by count. It isn't part of Kafka.

The load of a partition is its `in_messages_per_second`, the messages per second that are written to it. A member's load
is that of its partitions.

Principles, in order of priority
    1. Bound: no member has more load than the group's bound, if an assignment can hold it.
    2. Stickiness: as little load as possible moves; nothing moves if the bound is held.
    3. Balance: partitions without an owner go to the member with the most room.

Steps
    1. Bound (`weighted_groups.compute_bounds`): a multiple of the mean load of a member (`load_bound`), or the load
       that a member can handle (`capacity`), or the lower of both.
    2. Release (`pack.min_cover`): an overloaded member gives up the least load that is enough.
    3. Place, make room, return (`pack.Bins`), the largest partitions first.
    4. Search (`pack`): for few partitions, if that moved more load than the minimum or didn't hold the
       bound, try all assignments that could be better.
    5. Relax the bound (`plan.relax_bound`): if no assignment holds it, use the lowest bound that can be held, and
       report it. A single partition above the bound has a member to itself.
    6. Partitions without load (`plan.assign_zero_load`) are balanced by count.

Example: the bound is 11. C0 owns t0, t1, t2 with loads 9, 5, 4; C1 owns t3 with load 2. C0 has 7 too much. The least
load that is enough is 9 (4 is too little; 5 and 4 are also 9, but two partitions).

    owned     C0: [t0, t1, t2]    C1: [t3]
    target    C0: [t1, t2]        C1: [t0, t3]    (loads 9 and 11)

The assignor is cooperative (KIP-429): members keep what they own, and a partition that moves is withheld until its
owner has revoked it. The plan reaches the members as an explicit assignment (docs/weighted.md).
"""

from __future__ import annotations

WEIGHTED_STICKY = "weighted-sticky"
