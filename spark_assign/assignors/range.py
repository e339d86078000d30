"""Range: each topic for itself, laid out in consecutive ranges over its subscribers.

Principles (Kafka's `RangeAssignor`; racks by KIP-881), in this priority
    1. Balance within the topic: p partitions over n subscribers give each p / n, and the first p % n one more.
    2. Racks: where it costs no balance, a partition goes to a member that has a replica in its own rack.
    3. Co-partitioning: topics with the same subscribers and as many partitions are laid out alike, so that one member
       has partition i of all of them.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]

Without racks the member of rank k begins at k * (p / n) + min(k, p % n): a window over the members gives the rank,
and the rest is arithmetic on one row per topic and member. Groups in which racks decide go topic by topic, or set of
co-partitioned topics by set, through `assignors.rack_range`; one plan holds both kinds.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.deal import lay_out
from spark_assign.assignors.groups import Groups, Outcome
from spark_assign.assignors.rack_range import runs_by_rack, split_by_rack
from spark_assign.schemas import GROUP_KEY


class RangeAssignor:
    """Kafka's `range`. Sets of partitions never depend on Java's hash order."""

    name = "range"

    def assign(self, groups: Groups) -> Outcome:
        """Plan the groups; see the module's page for the rules. Every group can be planned."""
        if not (groups.fleet.racks_known and groups.census.racked_members):
            return Outcome(lay_ranges(lay_out(groups.topics, groups)), complete=True)
        plain, sets = split_by_rack(groups)
        ranges = lay_ranges(lay_out(plain, groups))
        if sets is None:
            return Outcome(ranges, complete=True)
        return Outcome(ranges.unionByName(runs_by_rack(sets, groups)), complete=True)


def lay_ranges(line: DataFrame) -> DataFrame:
    """Topics laid against subscribers to runs: consecutive ranges, the first few one longer."""
    quota = F.expr("partitions div members")
    longer = F.col("partitions") % F.col("members")
    first = F.col("rank") * quota + F.least(F.col("rank"), longer)
    count = quota + (F.col("rank") < longer).cast("int")
    return line.select(
        *GROUP_KEY,
        "member_id",
        "topic",
        first.cast("int").alias("first"),
        F.lit(1).alias("step"),
        count.cast("int").alias("count"),
    ).where(F.col("count") > 0)
