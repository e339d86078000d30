"""In how many rounds a change is through, as real clients would go through them.

Eager protocol (range, roundrobin, sticky; KIP-54): one round. Every member revokes all it owns before it joins, so
that nothing of the group is consumed until the round is over.

Cooperative protocol (cooperative-sticky; KIP-429): members keep what they own while a round runs. Who is assigned less
than it owns gives up the difference after the round and joins again, with the next generation; the next round assigns
what was withheld. So it goes on until nobody has to give up anything.

Bound: where all members of a group subscribe to the same topics and racks do not matter, two rounds are enough. After
the first, nobody owns more than its quota and nothing is claimed twice, so that the second only assigns what is free.
In other groups Kafka gives no bound: partitions that no member is near to, and differing subscriptions, can keep a
group rebalancing for ever (a recorded case moves two partitions in every round). Such groups are followed for
`max_rounds` rounds, and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.choice import CONFIGURED
from spark_assign.assignors.registry import Cooperative, find
from spark_assign.fleet import Fleet
from spark_assign.plan import Plan, choose_assignors, plan_chosen
from spark_assign.schemas import GROUP_KEY, ROUNDS

MAX_ROUNDS = 12


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
        a row per group and round, columns and units as in `schemas.ROUNDS`. Groups without members have none; nor have
        groups that cannot be planned, which are in `plan(fleet, assignor).rejected`.

    Raises:
        UnknownAssignorError, FleetError: as `plan` does.
    """
    chosen = choose_assignors(fleet, assignor)
    cooperative = {
        name: (each, groups)
        for name, groups in chosen.by_assignor.items()
        if isinstance(each := find(name), Cooperative)
    }
    rounds = [
        each.rounds(groups, max_rounds).withColumn("assignor", F.lit(name))
        for name, (each, groups) in cooperative.items()
    ]
    eager = {name: groups for name, groups in chosen.by_assignor.items() if name not in cooperative}
    if eager or not rounds:
        of_eager = chosen.groups.where(~F.col("assignor").isin(list(cooperative)))
        rounds.append(_one_round(plan_chosen(fleet, replace(chosen, groups=of_eager, by_assignor=eager))))
    return reduce(DataFrame.unionByName, (_shaped(each) for each in rounds))


def _one_round(planned: Plan) -> DataFrame:
    """The one round of the eager protocol: all that is owned is revoked, then all is assigned."""
    figures = planned.metrics.where(F.col("members") > 0).join(_claimed(planned), GROUP_KEY, "left")
    values = {
        "round": F.lit(1),
        "assigned": F.col("partitions"),
        "revoked": F.coalesce("claimed", F.lit(0)),
        "moved": F.col("moved"),
        "unowned": F.col("partitions") + F.col("unassigned"),
        "stable": F.lit(True),
    }
    return figures.select(*GROUP_KEY, "assignor", *(value.alias(name) for name, value in values.items()))


def _claimed(planned: Plan) -> DataFrame:
    """Per group, what its living members own: cluster, group_id, claimed."""
    claims = planned.fleet.claims()
    if claims is None:
        return planned.groups.select(*GROUP_KEY, F.lit(0).alias("claimed"))
    return claims.where(~F.col("departed")).groupBy(*GROUP_KEY).agg(F.sum("count").alias("claimed"))


def _shaped(rounds: DataFrame) -> DataFrame:
    return rounds.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in ROUNDS.fields))
