"""The same events under four protocols, side by side."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.simulation.kernel.simulation_input import CONSUMER, COOPERATIVE, EAGER, STATIC
from spark_assign.simulation.settings import Settings
from spark_assign.simulation.simulation import Simulation, play_fleet
from spark_assign.tables.groups import GROUP_KEY

COMPARED = (EAGER, COOPERATIVE, STATIC, CONSUMER)
COSTS = ("partition_ms_not_consumed", "longest_pause_ms", "rebalances")


def simulate_protocols(fleet: Fleet, events: DataFrame, settings: Settings | None = None) -> Simulation:
    """Play every group four times: eager, cooperative, cooperative with static members, and KIP-848's (`simulate`).

    Returns:
        what happened; all tables have a column `protocol`.
    """
    return play_fleet(fleet, events, COMPARED, settings or Settings(), None)


def compare_protocols(fleet: Fleet, events: DataFrame, settings: Settings | None = None) -> DataFrame:
    """What the same events cost under the eager and the cooperative protocol, with static members, and under KIP-848's.

    Args:
        fleet: the groups; see `simulate`.
        events: what happens to them.
        settings: times; strategies of members are those of the protocol.

    Returns:
        a row per group that can be played: cluster, group_id; for each of eager, cooperative, static and consumer
        `…_partition_ms_not_consumed` (partition-milliseconds), `…_longest_pause_ms`, `…_rebalances` (a number); and
        `cooperative_ratio`, `static_ratio`, `consumer_ratio`: their partition_ms_not_consumed by that of eager (null
        where that is 0).
        Rejected groups are in `simulate_protocols(…).rejected`.

    Raises:
        FleetError, ValueError: as `simulate`.
    """
    return side_by_side(simulate_protocols(fleet, events, settings))


def side_by_side(simulation: Simulation) -> DataFrame:
    """The costs of `simulate_protocols`, a row per group; columns as in `compare_protocols`."""
    each = {protocol: F.col("protocol") == protocol for protocol in COMPARED}
    costs = [
        F.max(F.when(mine, F.col(cost))).alias(f"{protocol}_{cost}")
        for protocol, mine in each.items()
        for cost in COSTS
    ]
    rows = simulation.availability.groupBy(*GROUP_KEY).agg(*costs)
    return reduce(_with_ratio, COMPARED[1:], rows)


def _with_ratio(rows: DataFrame, protocol: str) -> DataFrame:
    return rows.withColumn(f"{protocol}_ratio", _ratio(F.col(f"{protocol}_{COSTS[0]}"), F.col(f"{EAGER}_{COSTS[0]}")))


def _ratio(cost: Column, eager: Column) -> Column:
    return F.when(eager > 0, cost / eager)
