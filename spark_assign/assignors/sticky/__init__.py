"""Kafka's sticky assignors: `StickyAssignor` (KIP-54) and `CooperativeStickyAssignor` (KIP-429).

Principles, in order of priority
    1. Balance: the numbers of partitions of any two members differ by at most one, as far as subscriptions allow.
    2. Stickiness: a member keeps the partitions that it owns if balance allows.

Both assignors compute the same target assignment. They differ in
    - the source of ownership: sticky is an eager protocol, whose members report their previous assignment and its
      generation as user data; cooperative-sticky reads the owned partitions of the subscription;
    - what they assign: cooperative-sticky withholds a partition that another member still owns. The owner revokes it
      after this round, and the next round assigns it.

Example: topic t has four partitions. C0 owns all of them, and C1 joins.

    target                C0: [t0, t1]    C1: [t2, t3]
    sticky                C0: [t0, t1]    C1: [t2, t3]    (all partitions were revoked before the rebalance)
    cooperative-sticky    C0: [t0, t1]    C1: []          (t2 and t3 are withheld)

The result depends on the order in which partitions are processed, so the assignors are kernels over complete groups
instead of window functions. Java's hash order decides which members keep one more partition, which owner wins a
conflict, which previous owner is remembered, and which partition of a topic moves back (`java.hash_map`).

The rules are those of Kafka 3.7.1 to 4.4. For earlier releases (`sticky@2.8`), see `release_rules`.
"""

from __future__ import annotations

STICKY = "sticky"
COOPERATIVE_STICKY = "cooperative-sticky"
