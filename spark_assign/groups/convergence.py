"""In how many rounds a change is through, as real clients would go through them.

Eager protocol (range, roundrobin, sticky; KIP-54): one round. Every member revokes all it owns before it joins, so
that nothing of the group is consumed until the round is over.

Cooperative protocol (cooperative-sticky; KIP-429): members keep what they own while a round runs. Who is assigned less
than it owns gives up the difference after the round and joins again, with the next generation; the next round assigns
what was withheld. So it goes on until nobody has to give up anything.

Server side (uniform, server-range; KIP-848): the broker has a target at once, and nobody waits for the group. A round
is the next heartbeat of everybody, three at most: who loses something is told, the others get what nobody has; who was
told reports that it is given up, and gets what nobody has, and the others get it; who has lost something and waits for
others gets the rest. Clients report at once. If giving up takes them longer than the heartbeat interval, the others
go on heartbeating meanwhile; those heartbeats are not counted.

Bound: where all members of a group subscribe to the same topics and racks do not matter, two rounds are enough. After
the first, nobody owns more than its quota and nothing is claimed twice, so that the second only assigns what is free.
In other groups Kafka gives no bound: partitions that no member is near to, and differing subscriptions, can keep a
group rebalancing for ever (a recorded case moves two partitions in every round). Such groups are followed for
`max_rounds` rounds, and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame

from spark_assign.fleet import Fleet
from spark_assign.groups.kernel import convergence as cooperative_rounds
from spark_assign.groups.kernel.convergence import MAX_ROUNDS, list_heartbeats
from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.groups.planning import build_params, gather_plan_facts
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.tables.groups import HEARTBEATS, ROUNDS


def converge(
    fleet: Fleet, assignor: str | Mapping[str, str] = CONFIGURED, *, max_rounds: int = MAX_ROUNDS
) -> DataFrame:
    """Rebalance every group until it is stable.

    Args:
        fleet: what is owned now, after the change whose rounds are asked for (see `Fleet.with_members_left`,
            `with_members_joined`, `with_partitions`).
        assignor: as for `plan`.
        max_rounds: when to stop following a group that does not come to rest; at least 1.

    Returns:
        a row per group and round, columns and units as in `tables.groups.ROUNDS`. Groups without members have none; nor
        have groups that cannot be planned, which are in `plan(fleet, assignor).rejected`.

    Raises:
        UnknownAssignorError, FleetError: as `plan` does.

    Examples:
        >>> rounds = converge(fleet, "cooperative-sticky").where("group_id = 'payments-eu'")
        >>> rounds.select("round", "moved", "revoked", "stable").orderBy("round").show()
        +-----+-----+-------+------+
        |round|moved|revoked|stable|
        +-----+-----+-------+------+
        |    1|    1|      1| false|
        |    2|    0|      0|  true|
        +-----+-----+-------+------+
    """
    patterns = {"*": assignor} if isinstance(assignor, str) else dict(assignor)
    told = gather_plan_facts(fleet, patterns)
    work = partial(cooperative_rounds.converge, question=build_params(fleet, patterns), limit=max_rounds)
    return told.mapInArrow(map_arrow_batches(work), ROUNDS)


def heartbeats(fleet: Fleet, assignor: str | Mapping[str, str] = CONFIGURED) -> DataFrame:
    """How each member comes to the broker's target (uniform, server-range; KIP-848), and what it waits for.

    As Kafka's `CurrentAssignmentBuilder` has it: a member first gives up what it loses, and gets nothing before it has
    reported that; what somebody else still has it gets after that one's report.

    Args:
        fleet, assignor: as for `converge`.

    Returns:
        a row per member of every group that one of the broker's assignors plans, columns and units as in
        `tables.groups.HEARTBEATS`; `max(heartbeats)` of a group is the number of its rounds. Other groups have no rows.

    Raises:
        UnknownAssignorError, FleetError: as `plan` does.

    Examples:
        >>> beats = heartbeats(fleet, "uniform").where("group_id = 'payments-eu'").orderBy("member_id")
        >>> beats.select("member_id", "heartbeats", "kept", "revoked", "gained", "waits_for").show()
        +-------------+----------+----+-------+------+---------+
        |    member_id|heartbeats|kept|revoked|gained|waits_for|
        +-------------+----------+----+-------+------+---------+
        |payments-eu-0|         2|   2|      1|     0|        0|
        |payments-eu-1|         2|   0|      0|     1|        1|
        +-------------+----------+----+-------+------+---------+
    """
    patterns = {"*": assignor} if isinstance(assignor, str) else dict(assignor)
    told = gather_plan_facts(fleet, patterns)
    return told.mapInArrow(
        map_arrow_batches(partial(list_heartbeats, question=build_params(fleet, patterns))), HEARTBEATS
    )
