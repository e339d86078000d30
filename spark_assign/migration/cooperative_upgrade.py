"""Switches a group from the eager to the cooperative protocol without stopping it: two rolling bounces (KIP-429).

In the first bounce, every member adds `cooperative-sticky` to its assignors; it is still eager, because not all of its
assignors are cooperative. In the second bounce, every member keeps only `cooperative-sticky`. In between, the group
always has an assignor that all members support. Without the first bounce it doesn't: the coordinator rejects the first
member that rejoins (INCONSISTENT_GROUP_PROTOCOL).

These steps are valid only for Java and franz-go. Other libraries don't start with a list that mixes eager and
cooperative assignors, or have no cooperative assignor (`groups.kernel.client_libraries`, with sources): all of their
members must stop first. The plan rejects the restart of a member that is known to use such a library;
`supported_clients` returns what is known about a group.
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

Assignors = tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    ordinal: int
    bounce: int
    member_id: str
    assignors: Assignors
    eager: int
    client: str | None
    reason: str | None


@dataclass(frozen=True)
class _MemberConfig:
    """The assignors and the client library of a member."""

    assignors: Assignors
    client: Client


def plan_cooperative_upgrade(
    fleet: Fleet,
    cluster: str,
    group_id: str,
    order: Sequence[tuple[str, Sequence[str]]] | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """Simulates the restarts that switch one group from the eager to the cooperative protocol, one after the other.

    Args:
        fleet: a fleet with the group; see `simulate`. The current assignors of the members come from
            `Settings.members`, else from `groups.assignor`.
        cluster: the cluster of the group.
        group_id: the id of the group.
        order: the restarts, instead of the two bounces: a member id, and the assignors of the member afterward.
        settings: times and assignors; `None` for Kafka's defaults.

    Returns:
        one row per restart; see `tables.simulation.UPGRADE`. A restart is rejected, with the reason, if it would leave
        the group without a common assignor, or if the member's library wouldn't start. Later restarts aren't simulated.

    Raises:
        FleetError: the fleet has no such group.
        ValueError: `order` has an unknown member or assignor.
    """
    settings = settings or Settings()
    spark = fleet.members.sparkSession
    group = spark.createDataFrame(pa.table({"cluster": [cluster], "group_id": [group_id]}))
    group_fleet = fleet.filter_groups(group)
    configs = _read_configs(group_fleet, settings)
    if not configs:
        problem = f"there is no group {group_id!r} in cluster {cluster!r}"
        raise FleetError([Fault("members", "group_id", problem, "Name a group of the fleet")])
    steps = list(_plan_steps(configs, order))
    apart = 2 * (settings.session_timeout_ms + settings.max_poll_interval_ms)
    events = [
        {
            "cluster": cluster,
            "group_id": group_id,
            "at_ms": step.ordinal * apart,
            "event": "member-restarts",
            "member_id": step.member_id,
            "assignors": list(step.assignors),
        }
        for step in steps
        if step.reason is None
    ]
    rebalances = simulate(group_fleet, _to_table(fleet, events, EVENTS), "configured", settings).rebalances
    of_step = (
        rebalances.groupBy(F.floor(F.col("start_ms") / apart).cast("int").alias("step"))
        .agg(
            F.count(F.lit(1)).cast("int").alias("rebalances"),
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
            "step": step.ordinal,
            "bounce": step.bounce,
            "member_id": step.member_id,
            "assignors": list(step.assignors),
            "eager_members": step.eager,
            "client_library": step.client,
            "rejection": step.reason,
        }
        for step in steps
    ]
    step_table = _to_table(
        fleet, rows, StructType([each for each in UPGRADE.fields if each.name in (rows[0] if rows else ())])
    )
    return step_table.join(of_step, "step", "left").select(*UPGRADE.names).orderBy("step")


def supported_clients(fleet: Fleet, cluster: str, group_id: str, settings: Settings | None = None) -> str:
    """Returns a text: the clients that `plan_cooperative_upgrade` is valid for, and what that means for this group.

    Reads the members of the group. For the arguments, see `plan_cooperative_upgrade`.
    """
    group = fleet.members.sparkSession.createDataFrame(pa.table({"cluster": [cluster], "group_id": [group_id]}))
    configs = _read_configs(fleet.filter_groups(group), settings or Settings())
    now = next((likes[0] for likes in (each.assignors for each in configs.values())), None)
    clients = count_clients(each.client for each in configs.values())
    way = plan_switch(now, COOPERATIVE, clients)
    allowed = " and ".join(each.name for each in LIBRARIES.values() if each.mixes)
    return f"Rolling steps hold for {allowed} clients only. {format_known_clients(clients)} {way.text}"


def _read_configs(group_fleet: Fleet, settings: Settings) -> dict[str, _MemberConfig]:
    """Returns the configuration of each member of the group, by member id."""
    members = group_fleet.members.select(*GROUP_KEY, "member_id", "client_id")
    if group_fleet.groups is not None:
        members = members.join(group_fleet.groups.select(*GROUP_KEY, "assignor"), GROUP_KEY, "left")
    else:
        members = members.withColumn("assignor", F.lit(None).cast("string"))
    if settings.members is not None:
        settings_rows = settings.members.drop("group_instance_id")
        members = members.join(settings_rows, [*GROUP_KEY, "member_id"], "left")
    else:
        members = members.withColumn("partition_assignment_strategy", F.lit(None).cast("array<string>"))
    rows = members.orderBy("member_id").collect()  # the members of one group
    return {
        row["member_id"]: _MemberConfig(
            tuple(row["partition_assignment_strategy"] or ([row["assignor"]] if row["assignor"] else KAFKA_DEFAULT)),
            detect_library(row["group_id"], row["client_id"], row["member_id"], row["assignor"]),
        )
        for row in rows
    }


def _two_bounces(configs: dict[str, _MemberConfig]) -> Iterable[tuple[int, str, Assignors]]:
    for member_id, each in configs.items():
        yield 1, member_id, (COOPERATIVE, *(name for name in each.assignors if name != COOPERATIVE))
    for member_id in configs:
        yield 2, member_id, (COOPERATIVE,)


def _plan_steps(
    configs: dict[str, _MemberConfig], order: Sequence[tuple[str, Sequence[str]]] | None
) -> Iterable[_Step]:
    """Yields the restarts, each with the reason if it is rejected."""
    now = {name: each.assignors for name, each in configs.items()}
    reason: str | None = None
    seen: dict[str, int] = {}
    restarts = [(0, name, tuple(likes)) for name, likes in order] if order is not None else list(_two_bounces(configs))
    for ordinal, (bounce, member_id, assignors) in enumerate(restarts, 1):
        if member_id not in configs:
            raise ValueError(
                f"order: the group has no member {member_id!r}; it has {', '.join(sorted(configs)[:5])}, …"
            )
        if unknown := sorted(set(assignors) - ASSIGNORS.keys()) or not assignors:
            raise ValueError(f"order: step {ordinal} has assignors {unknown}; there are {', '.join(ASSIGNORS)}")
        seen[member_id] = seen.get(member_id, 0) + 1
        others = [likes for name, likes in now.items() if name != member_id]
        library = configs[member_id].client.library
        if reason is not None:
            why: str | None = "not reached, because an earlier restart is rejected"
        else:
            why = reason = _startup_error(library, assignors) or _join_error(member_id, assignors, others, now)
            if why is None:
                now[member_id] = assignors
        yield _Step(ordinal, bounce or seen[member_id], member_id, assignors, _count_eager(now), library, why)


def _startup_error(library: str | None, assignors: Assignors) -> str | None:
    """Returns why a consumer of this library wouldn't start with these assignors; `None` if it would."""
    if library is None:
        return None
    known = LIBRARIES[library]
    if lacking := [name for name in assignors if name not in known.assignors]:
        return f"{library} has no {', '.join(lacking)}"
    if not known.mixes and COOPERATIVE in assignors and len(set(assignors)) > 1:
        return (
            f"{library} does not start with eager and cooperative assignors in one list: stop all members, then start "
            f"them with {COOPERATIVE} alone"
        )
    return None


def _join_error(
    member_id: str, assignors: Assignors, others: Sequence[Assignors], now: dict[str, Assignors]
) -> str | None:
    """Returns why a member with these assignors can't join the other members; `None` if it can."""
    common = set(assignors).intersection(*others)
    if common:
        return None
    missing = sorted(name for name, likes in now.items() if name != member_id and not set(likes) & set(assignors))
    shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return (
        f"INCONSISTENT_GROUP_PROTOCOL: {member_id} would support only {', '.join(assignors)}, which not all others do"
        + (f" ({shown})" if shown else "")
        + "; it could not join, and its partitions would go to the others. Finish the bounce that adds it first"
    )


def _count_eager(now: dict[str, Assignors]) -> int:
    return sum(not is_cooperative(assignors) for assignors in now.values())


def _to_table(fleet: Fleet, rows: Sequence[Mapping[str, object]], schema: StructType) -> DataFrame:
    nullable = StructType([StructField(field.name, field.dataType) for field in schema.fields])
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=to_arrow_schema(nullable))
    return fleet.members.sparkSession.createDataFrame(table, nullable)
