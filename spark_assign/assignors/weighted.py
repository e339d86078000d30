"""Weighted-sticky: an assignor of ours, which balances by load and not by count, for groups of any client.

Principle: nobody has more load than the group's bound, and for that as little load as possible changes its owner. The
load of a partition is the rate at which messages are written to it (`loads.in_rate`); the bound is `groups.load_bound`
times the mean load of a member, or what a member can handle (`groups.capacity`).

It is cooperative (KIP-429): members keep what they own, and what changes hands is withheld until its owner has given it
up.

Example: a owns t-0 and t-1, with 9 and 5 messages a second; b owns t-2 with 1; a member can handle 11. a has 3 too
much, and t-1 is the least that will do: b gets it as soon as a has given it up. By count there was nothing to do.

Kafka has no such assignor, and a client's own one knows nothing of loads: its plan goes to the members as an explicit
assignment (docs/weighted.md).

What hangs on what was given up before it, and on sums, is no window: it is a kernel over whole groups
(`kernels.weighted`, where the steps are), asked with `GroupSpecs` by `kernels.group.weighted_assignor`.
"""

from __future__ import annotations

from spark_assign.kernels.weighted import WEIGHTED_STICKY

__all__ = ["WEIGHTED_STICKY"]
