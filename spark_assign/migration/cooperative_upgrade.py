"""From the eager to the cooperative protocol without stopping the group: two rolling bounces (KIP-429).

First bounce: every member gets `cooperative-sticky` beside what it has; it still is eager, as not all of its assignors
are cooperative. Second bounce: every member keeps `cooperative-sticky` alone. In between the group always has an
assignor that all members support. Without the first bounce it has not: the first member that comes back is refused by
the coordinator (INCONSISTENT_GROUP_PROTOCOL) and stays out.

These steps hold for Java and franz-go only. Other libraries do not start with a list that mixes eager and cooperative
assignors, or have no cooperative one (`groups.kernel.client_libraries`, with the sources): there all members have to
stop first. A restart of a member that is known to run on such a library is refused; `holds_for` says what is known of a
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from spark_assign.fleet import Fleet
from spark_assign.groups.kernel.client_libraries import (
    COOPERATIVE,
    LIBRARIES,
    Client,
    count_clients,
    detect_library,
    format_known_clients,
    plan_switch,
)
from spark_assign.simulation.kernel.leader import ASSIGNORS
from spark_assign.simulation.kernel.settings import KAFKA_DEFAULT, is_cooperative
from spark_assign.simulation.settings import Settings
from spark_assign.simulation.simulation import simulate
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.simulation import EVENTS, UPGRADE

Strategies = tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    number: int
    bounce: int
    member_id: str
    strategies: Strategies
    eager: int
    client: str | None
    refused: str | None


@dataclass(frozen=True)
class _Carried:
    """What a member runs with: its assignors, and its library."""

    strategies: Strategies
    client: Client


def upgrade_plan(
    fleet: Fleet,
    cluster: str,
    group_id: str,
    order: Sequence[tuple[str, Sequence[str]]] | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """The restarts that take one group from the eager to the cooperative protocol, simulated one after the other.

    Args:
        fleet: has the group; see `simulate`. What its members run with now: `Settings.members`, else `groups.assignor`.
        cluster: of the group.
        group_id: of the group.
        order: restarts in place of the two bounces: member id and its assignors from then on.
        settings: times and strategies; null: Kafka's defaults.

    Returns:
        a row per restart; see `tables.simulation.UPGRADE`. A restart after which the group would have no assignor in
        common, or for which the member's library would not start, is refused, with the reason; what comes after it is
        not simulated.

    Raises:
        FleetError: the fleet has no such group.
        ValueError: `order` names a member or an assignor that there is not.
    """
    settings = settings or Settings()
    spark = fleet.members.sparkSession
    group = spark.createDataFrame(pa.table({"cluster": [cluster], "group_id": [group_id]}))
    one = fleet.only(group)
    carried = _carried(one, settings)
    if not carried:
        problem = f"there is no group {group_id!r} in cluster {cluster!r}"
        raise FleetError([Fault("members", "group_id", problem, "Name a group of the fleet")])
    steps = list(_steps(carried, order))
    apart = 2 * (settings.session_timeout_ms + settings.max_poll_interval_ms)
    events = [
        {
            "cluster": cluster,
            "group_id": group_id,
            "at_ms": step.number * apart,
            "event": "member-restarts",
            "member_id": step.member_id,
            "assignors": list(step.strategies),
        }
        for step in steps
        if step.refused is None
    ]
    rounds = simulate(one, _table(fleet, events, EVENTS), "configured", settings).rounds
    of_step = (
        rounds.groupBy(F.floor(F.col("begin_ms") / apart).cast("int").alias("step"))
        .agg(
            F.count(F.lit(1)).cast("int").alias("rounds"),
            F.max("generation_id").alias("generation_id"),
            F.max_by("assignor", "generation_id").alias("assignor"),
            F.sum("revoked").cast("int").alias("revoked"),
            F.sum("moved").cast("int").alias("moved"),
        )
        .where(F.col("step") > 0)
    )
    rows = [
        {
            "cluster": cluster,
            "group_id": group_id,
            "step": step.number,
            "bounce": step.bounce,
            "member_id": step.member_id,
            "strategies": list(step.strategies),
            "eager_members": step.eager,
            "client": step.client,
            "refused": step.refused,
        }
        for step in steps
    ]
    told = _table(fleet, rows, StructType([each for each in UPGRADE.fields if each.name in (rows[0] if rows else ())]))
    return told.join(of_step, "step", "left").select(*UPGRADE.names).orderBy("step")


def holds_for(fleet: Fleet, cluster: str, group_id: str, settings: Settings | None = None) -> str:
    """For which clients the steps of `upgrade_plan` hold, and what that means for this group; in words.

    Reads the members of the group. Arguments as for `upgrade_plan`.
    """
    group = fleet.members.sparkSession.createDataFrame(pa.table({"cluster": [cluster], "group_id": [group_id]}))
    carried = _carried(fleet.only(group), settings or Settings())
    now = next((likes[0] for likes in (each.strategies for each in carried.values())), None)
    clients = count_clients(each.client for each in carried.values())
    way = plan_switch(now, COOPERATIVE, clients)
    allowed = " and ".join(each.name for each in LIBRARIES.values() if each.mixes)
    return f"Rolling steps hold for {allowed} clients only. {format_known_clients(clients)} {way.text}"


def _carried(one: Fleet, settings: Settings) -> dict[str, _Carried]:
    """What the members of the group run with, by member id."""
    members = one.members.select(*GROUP_KEY, "member_id", "client_id")
    if one.groups is not None:
        members = members.join(one.groups.select(*GROUP_KEY, "assignor"), GROUP_KEY, "left")
    else:
        members = members.withColumn("assignor", F.lit(None).cast("string"))
    if settings.members is not None:
        told = settings.members.drop("group_instance_id")
        members = members.join(told, [*GROUP_KEY, "member_id"], "left")
    else:
        members = members.withColumn("partition_assignment_strategy", F.lit(None).cast("array<string>"))
    rows = members.orderBy("member_id").collect()  # the members of one group
    return {
        row["member_id"]: _Carried(
            tuple(row["partition_assignment_strategy"] or ([row["assignor"]] if row["assignor"] else KAFKA_DEFAULT)),
            detect_library(row["group_id"], row["client_id"], row["member_id"], row["assignor"]),
        )
        for row in rows
    }


def _two_bounces(carried: dict[str, _Carried]) -> Iterable[tuple[int, str, Strategies]]:
    for member_id, each in carried.items():
        yield 1, member_id, (COOPERATIVE, *(name for name in each.strategies if name != COOPERATIVE))
    for member_id in carried:
        yield 2, member_id, (COOPERATIVE,)


def _steps(carried: dict[str, _Carried], order: Sequence[tuple[str, Sequence[str]]] | None) -> Iterable[_Step]:
    """The restarts, each with the reason why it cannot be if it cannot."""
    now = {name: each.strategies for name, each in carried.items()}
    refused: str | None = None
    seen: dict[str, int] = {}
    restarts = [(0, name, tuple(likes)) for name, likes in order] if order is not None else list(_two_bounces(carried))
    for number, (bounce, member_id, strategies) in enumerate(restarts, 1):
        if member_id not in carried:
            raise ValueError(
                f"order: the group has no member {member_id!r}; it has {', '.join(sorted(carried)[:5])}, …"
            )
        if unknown := sorted(set(strategies) - ASSIGNORS.keys()) or not strategies:
            raise ValueError(f"order: step {number} has assignors {unknown}; there are {', '.join(ASSIGNORS)}")
        seen[member_id] = seen.get(member_id, 0) + 1
        others = [likes for name, likes in now.items() if name != member_id]
        library = carried[member_id].client.library
        if refused is not None:
            why: str | None = "not reached: a restart before it is refused"
        else:
            why = refused = _not_started(library, strategies) or _refusal(member_id, strategies, others, now)
            if why is None:
                now[member_id] = strategies
        yield _Step(number, bounce or seen[member_id], member_id, strategies, _eager(now), library, why)


def _not_started(library: str | None, strategies: Strategies) -> str | None:
    """Why a consumer of this library would not start with these assignors."""
    if library is None:
        return None
    known = LIBRARIES[library]
    if lacking := [name for name in strategies if name not in known.assignors]:
        return f"{library} has no {', '.join(lacking)}"
    if not known.mixes and COOPERATIVE in strategies and len(set(strategies)) > 1:
        return (
            f"{library} does not start with eager and cooperative assignors in one list: stop all members, then start "
            f"them with {COOPERATIVE} alone"
        )
    return None


def _refusal(
    member_id: str, strategies: Strategies, others: Sequence[Strategies], now: dict[str, Strategies]
) -> str | None:
    """Why a member with these assignors cannot join the others."""
    common = set(strategies).intersection(*others)
    if common:
        return None
    missing = sorted(name for name, likes in now.items() if name != member_id and not set(likes) & set(strategies))
    shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return (
        f"INCONSISTENT_GROUP_PROTOCOL: {member_id} would support only {', '.join(strategies)}, which not all others do"
        + (f" ({shown})" if shown else "")
        + "; it could not join, and its partitions would go to the others. Finish the bounce that adds it first"
    )


def _eager(now: dict[str, Strategies]) -> int:
    return sum(not is_cooperative(strategies) for strategies in now.values())


def _table(fleet: Fleet, rows: Sequence[Mapping[str, object]], schema: StructType) -> DataFrame:
    nullable = StructType([StructField(field.name, field.dataType) for field in schema.fields])
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=to_arrow_schema(nullable))
    return fleet.members.sparkSession.createDataFrame(table, nullable)
