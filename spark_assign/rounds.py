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
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.choice import CONFIGURED
from spark_assign.assignors.registry import find, names
from spark_assign.fleet import Fleet
from spark_assign.plan import Plan, plan
from spark_assign.schemas import GROUP_KEY, ROUNDS

MAX_ROUNDS = 12


def converge(
    fleet: Fleet, assignor: str | Mapping[str, str] = CONFIGURED, *, max_rounds: int = MAX_ROUNDS
) -> DataFrame:
    """Rebalance every group until it is stable.

    Args:
        fleet: what is owned now, after the change whose rounds are asked for (see `Fleet.with_…`).
        assignor: as for `plan`.
        max_rounds: when to stop following a group that does not come to rest.

    Returns:
        a row per planned group and round, columns and units as in `schemas.ROUNDS`. Groups that cannot be planned are
        in `plan(fleet, assignor).rejected`.

    Raises:
        UnknownAssignorError, FleetError: as `plan` does.
    """
    followed = fleet
    rounds: list[DataFrame] = []
    for number in range(1, max_rounds + 1):
        planned = plan(followed, assignor)
        measured = followed.census.keep(_measure(planned, number, number == max_rounds))
        rounds.append(measured)
        again = measured.where("rebalances_again")
        if again.isEmpty():
            break
        followed = followed.only(again).after(planned)
    return reduce(DataFrame.unionByName, rounds).drop("rebalances_again")


def _measure(planned: Plan, number: int, last: bool) -> DataFrame:
    """The figures of one round, and whether another follows."""
    figures = planned.metrics
    cooperative = _is_cooperative(F.col("assignor"))
    figures = figures.join(_claimed(planned), GROUP_KEY, "left")
    restless = cooperative & (F.col("revoked") > 0)
    owned = F.coalesce("claimed", F.lit(0))
    values = {
        "round": F.lit(number),
        "assignor": F.col("assignor"),
        "assigned": F.col("partitions"),
        "revoked": F.when(cooperative, F.col("revoked")).otherwise(owned),
        "moved": F.col("moved"),
        "unowned": F.when(cooperative, F.col("unassigned")).otherwise(F.col("partitions") + F.col("unassigned")),
        "stable": ~restless,
    }
    types = {field.name: field.dataType for field in ROUNDS.fields}
    return figures.select(
        *GROUP_KEY,
        *(value.cast(types[name]).alias(name) for name, value in values.items()),
        (restless & F.lit(not last)).alias("rebalances_again"),
    )


def _claimed(planned: Plan) -> DataFrame:
    """Per group, what its living members own: cluster, group_id, claimed."""
    claims = planned.fleet.claims()
    if claims is None:
        return planned.groups.select(*GROUP_KEY, F.lit(0).alias("claimed"))
    return claims.where(~F.col("departed")).groupBy(*GROUP_KEY).agg(F.sum("count").alias("claimed"))


def _is_cooperative(assignor: Column) -> Column:
    """Whether an assignor follows the cooperative protocol."""
    return assignor.isin([name for name in names() if getattr(find(name), "cooperative", False)])
