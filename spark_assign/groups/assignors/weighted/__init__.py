"""Weighted-sticky: an assignor of ours, which balances by load and not by count.

The load of a partition is its `in_rate`, the messages a second that are written to it. A member's load is that of its
partitions.

Principles, in this priority
    1. The bound: nobody has more load than the group's bound, wherever an assignment can hold that.
    2. Stickiness: as little load as possible changes its owner; nothing does where the bound is held.
    3. Balance: what has no owner, or has lost it, goes to whoever has most room.

What it does to a group
    1. The bound (`bounds`): so many times the mean load of a member (`load_bound`), or what a member can handle
       (`capacity`), or the lesser of both.
    2. Give up (`min_cover`): who has more gives up as little load as will do.
    3. Place, make room, return (`pack`): the largest first.
    4. Few partitions (`branch_and_bound`): where that moved more than must move, or did not hold the bound, every
    assignment is
       looked at that could be better.
    5. Where no assignment was found that holds the bound, the least one that can be held takes its place
    (`relax_bound`), and
       the answer says so. One partition that is more than the bound has a member for itself.
    6. Partitions without load (`zero_load`) are balanced by their number.

Example: the bound is 11. a has t-0 t-1 t-2 with loads 9 5 4, b has t-3 with load 2. a has 7 too much; 9 is the least
that will do (4 is too little, and 5 and 4 are 9 as well, but two partitions). b has t-3 and t-0 then, 11.

The assignor is cooperative (KIP-429): members keep what they own, and what changes hands is withheld until its owner
has given it up. Kafka has no such assignor, so the plan goes to the members as an explicit assignment
(docs/weighted.md).
"""

from __future__ import annotations

WEIGHTED_STICKY = "weighted-sticky"
