"""Simulates how many rounds a group needs until it is stable, with the protocols of real clients.

Eager protocol (range, roundrobin, sticky; KIP-54): one round. Every member revokes everything before it rejoins, so
that the group consumes nothing until the round is complete.

Cooperative protocol (cooperative-sticky; KIP-429): members keep what they own during a round. A member that is assigned
less than it owns revokes the difference after the round and rejoins with the next generation; the next round assigns
what was withheld. The rebalance ends when no member revokes anything.

Consumer protocol (uniform, server-range; KIP-848): the broker has a target at once, and no member waits for the group.
A round is the next heartbeat of all members. At most three are needed: a member that loses partitions must
revoke them, and the others get free partitions; it reports the revocation and gets free partitions, and the others get
the revoked ones; a member that both loses and waits gets the rest. The simulation assumes that clients report at once.
If revocation takes longer than the heartbeat interval, the additional heartbeats of the others are not counted. The
rounds are those of every release of the broker, because the target stays the same: KAFKA-19449 is about partitions that
come back to a member that is about to give them up.

Bound: if all members of a group subscribe to the same topics and racks don't matter, two rounds suffice. After the
first, no member owns more than its quota and no partition is claimed twice, so that the second only assigns free
partitions. Kafka guarantees no bound for other groups: rack mismatches and different subscriptions can keep a group
rebalancing forever (one recorded case moves two partitions in every round). The simulation stops after `max_rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_assign.fleet import FleetTables
from spark_assign.groups.kernel import convergence as kernel
from spark_assign.groups.kernel.convergence import MAX_ROUNDS
from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.groups.planning import build_params, gather_plan_facts
from spark_assign.spark.dataframes import map_arrow_batches
from spark_assign.tables.groups import HEARTBEATS, ROUNDS


def converge(
    fleet: FleetTables, assignor: str | Mapping[str, str] = CONFIGURED, *, max_rounds: int = MAX_ROUNDS
) -> DataFrame:
    """Rebalances every group until it is stable.

    Args:
        fleet: the current ownership, after the change to examine (see `Fleet.with_members_left`, `with_members_joined`,
            `with_partitions`).
        assignor: see `plan`.
        max_rounds: number of rounds after which the simulation of a group that is not stable ends; at least 1.

    Returns:
        one row per group and round; columns and units: `tables.groups.ROUNDS`. Groups without members have no rows; nor
        do groups that can't be planned, which are in `plan(fleet, assignor).rejected`.

    Raises:
        ConfigError, FleetError: as `plan` does.

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
    return _simulate(fleet, assignor, partial(kernel.converge, limit=max_rounds), ROUNDS)


def heartbeats_to_target(fleet: FleetTables, assignor: str | Mapping[str, str] = CONFIGURED) -> DataFrame:
    """Counts the heartbeats of each member until the broker's target (uniform, server-range; KIP-848).

    Follows Kafka's `CurrentAssignmentBuilder`: a member first revokes what it loses, and gets nothing until it has
    reported that. It gets partitions that other members own after those have reported.

    Args:
        fleet, assignor: see `converge`.

    Returns:
        one row per member of every group that an assignor of the broker plans; columns and units:
        `tables.groups.HEARTBEATS`. `max(heartbeats)` of a group is its number of rounds. Other groups have no rows.

    Raises:
        ConfigError, FleetError: as `plan` does.

    Examples:
        >>> beats = heartbeats_to_target(fleet, "uniform").where("group_id = 'payments-eu'").orderBy("member_id")
        >>> beats.select("member_id", "heartbeats", "kept", "revoked", "newly_assigned", "unreleased_partitions").show()
        +-------------+----------+----+-------+--------------+---------------------+
        |    member_id|heartbeats|kept|revoked|newly_assigned|unreleased_partitions|
        +-------------+----------+----+-------+--------------+---------------------+
        |payments-eu-0|         2|   2|      1|             0|                    0|
        |payments-eu-1|         2|   0|      0|             1|                    1|
        +-------------+----------+----+-------+--------------+---------------------+
    """
    return _simulate(fleet, assignor, kernel.list_heartbeats, HEARTBEATS)


def _simulate(
    fleet: FleetTables, assignor: str | Mapping[str, str], simulate: Callable[..., Any], schema: StructType
) -> DataFrame:
    """Runs a simulation of `groups.kernel.convergence` on the complete groups of a fleet."""
    patterns = {"*": assignor} if isinstance(assignor, str) else dict(assignor)
    facts = gather_plan_facts(fleet, patterns)
    work = partial(simulate, params=build_params(fleet, patterns))
    return facts.mapInArrow(map_arrow_batches(work), schema)
