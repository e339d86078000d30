"""Sticky and cooperative-sticky (Kafka's `StickyAssignor`, KIP-54, and `CooperativeStickyAssignor`, KIP-429).

Principle: everybody keeps what it owns as far as balance allows; only the rest changes hands.

Both assignors decide alike. They differ in
    - what a member owns: sticky is an eager protocol, whose members tell their past (and its generation) in the
      assignor's user data; cooperative-sticky reads the subscription itself;
    - what is assigned: cooperative-sticky withholds a partition that another member still owns. Its owner gives it up
      after this round, and a second round gives it to the next one.

Example: a owns t-0 t-1 t-2 t-3 and b joins. Both leave t-0 t-1 with a. Sticky gives t-2 t-3 to b at once, for a has
given up everything beforehand; cooperative-sticky gives b nothing yet, and t-2 t-3 to nobody.

The decision hangs on the order in which partitions are looked at, so that it is a kernel over whole groups
(`groups.assignors.sticky`), not a window. Where Java's hash order decides: who keeps one partition more, who wins a
claim, which old claimer is remembered, which partition of a topic moves back (`java.hash_map`).

The rules are those of Kafka 3.7.1 to 4.4. Older ones are profiles (`sticky@2.8`): `groups.assignors.release_rules`.
"""

from __future__ import annotations

STICKY = "sticky"
COOPERATIVE_STICKY = "cooperative-sticky"
