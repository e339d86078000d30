"""Switches a group from the eager to the cooperative protocol without stopping it: two rolling bounces (KIP-429).

In the first bounce, every member adds `cooperative-sticky` to its assignors; it is still eager, because not all of its
assignors are cooperative. In the second bounce, every member keeps only `cooperative-sticky`. In between, the group
always has an assignor that all members support. Without the first bounce it doesn't: the coordinator rejects the first
member that rejoins (INCONSISTENT_GROUP_PROTOCOL).

Members of franz-go become cooperative as soon as the vote elects `cooperative-sticky`, which is the last restart of the
first bounce.

These steps are valid only for Java, franz-go, and Sarama. Other libraries don't start with a list that mixes eager and
cooperative assignors, or have no cooperative assignor (`groups.kernel.client_libraries`, with sources): all of their
members must stop first. The plan rejects the restart of a member that is known to use such a library;
`supported_clients` returns what is known about a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.comparison.what_if import with_leader_client
from spark_assign.fleet import FleetTables
from spark_assign.groups.kernel.client_libraries import (
    COOPERATIVE,
    LIBRARIES,
    STREAMS,
    Client,
    count_clients,
    detect_library,
    format_known_clients,
)
from spark_assign.groups.kernel.client_settings import MIXING, find_refusal, plan_switch
from spark_assign.simulation.facts import join_or_null
from spark_assign.simulation.kernel.leader import ASSIGNORS
from spark_assign.simulation.kernel.settings import KAFKA_DEFAULT, is_cooperative
from spark_assign.simulation.settings import Settings
from spark_assign.simulation.simulate_groups import simulate
from spark_assign.spark.dataframes import dataframe_of_rows
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY
from spark_assign.tables.simulation import EVENTS, UPGRADE

Assignors = tuple[str, ...]
_NOT_CHOSEN = (STREAMS, *SERVER_ASSIGNORS)
"""Assignors that the members of a group don't choose."""


@dataclass(frozen=True)
class _MemberConfig:
    """The assignors and the client library of a member."""

    assignors: Assignors
    client: Client


def plan_cooperative_upgrade(
    fleet: FleetTables,
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
        All restarts are rejected if the group can't be simulated.
        Without an order, there is no row of a member whose list of assignors stays, and no row if the members don't
        choose the assignor (the broker does, or it is of Kafka Streams).

    Raises:
        FleetError: the fleet has no such group.
        ConfigError: `order` has an unknown member or assignor.
    """
    settings = settings or Settings()
    group_fleet = _select_group(fleet, cluster, group_id)
    configs = _read_configs(group_fleet, settings)
    if not configs:
        problem = f"there is no group {group_id!r} in cluster {cluster!r}"
        if (unknown := group_fleet.unknown_groups) is not None and not unknown.isEmpty():
            problem = f"the members of group {group_id!r} in cluster {cluster!r} aren't known (undescribed)"
        raise FleetError([Fault("members", "group_id", problem, "Name a group of the fleet")])
    libraries = {config.client.library for config in configs.values()}
    if len(libraries) == 1 and (library := libraries.pop()) in LIBRARIES:
        group_fleet = with_leader_client(group_fleet, library)
    key = {"cluster": cluster, "group_id": group_id}
    if order is None:
        is_chosen = not any(name in _NOT_CHOSEN for config in configs.values() for name in config.assignors)
        order = list(_two_bounces(configs)) if is_chosen else []
    rows = [key | step for step in _plan_steps(configs, order)]
    interval_ms = 2 * (settings.session_timeout_ms + settings.max_poll_interval_ms)
    events = [
        key
        | {"at_ms": row["step"] * interval_ms, "event": "member-restarts"}
        | {name: row[name] for name in ("member_id", "assignors")}
        for row in rows
        if row["rejection"] is None
    ]
    simulation = simulate(
        group_fleet, dataframe_of_rows(fleet.members.sparkSession, events, EVENTS), "configured", settings
    )
    by_step = simulation.rebalances.groupBy(F.floor(F.col("start_ms") / interval_ms).cast("int").alias("step")).agg(
        F.count(F.lit(1)).cast("int").alias("rebalances"),
        F.max("generation_id").alias("generation_id"),
        F.max_by("assignor", "generation_id").alias("assignor"),
        F.sum("revoked").cast("int").alias("revoked"),
        F.sum("moved").cast("int").alias("moved"),
    )
    planned = StructType([field for field in UPGRADE if field.name not in by_step.columns or field.name == "step"])
    steps = dataframe_of_rows(fleet.members.sparkSession, rows, planned).join(
        by_step.where(F.col("step") > 0), "step", "left"
    )
    steps = steps.join(simulation.rejected, [*GROUP_KEY], "left")
    rejection = F.coalesce("rejection", F.concat("code", F.lit(": "), "detail"))
    return steps.withColumn("rejection", rejection).select(*UPGRADE.names).orderBy("step")


def supported_clients(fleet: FleetTables, cluster: str, group_id: str, settings: Settings | None = None) -> str:
    """Returns a text: the clients that `plan_cooperative_upgrade` is valid for, and what that means for this group.

    Reads the members of the group. For the arguments, see `plan_cooperative_upgrade`.
    """
    configs = _read_configs(_select_group(fleet, cluster, group_id), settings or Settings())
    names = [config.assignors[0] for config in configs.values()]
    current = min(names, key=lambda name: name == COOPERATIVE, default=None)  # the last one to become cooperative
    clients = count_clients(config.client for config in configs.values())
    switch = plan_switch(current, COOPERATIVE, clients)
    if current in (COOPERATIVE, *_NOT_CHOSEN):
        return switch.text
    return f"Rolling steps hold for {MIXING} clients only. {format_known_clients(clients)} {switch.text}"


def _select_group(fleet: FleetTables, cluster: str, group_id: str) -> FleetTables:
    key = pa.table({"cluster": [cluster], "group_id": [group_id]})
    return fleet.filter_groups(fleet.members.sparkSession.createDataFrame(key))


def _read_configs(group_fleet: FleetTables, settings: Settings) -> dict[str, _MemberConfig]:
    """Returns the configuration of each member of the group, by member id."""
    members = group_fleet.members.select(*GROUP_KEY, "member_id", "client_id")
    members = join_or_null(members, group_fleet.groups, GROUP_KEY, {"assignor": "string"})
    strategy = {"partition_assignment_strategy": "array<string>"}
    members = join_or_null(members, settings.members, MEMBER_KEY, strategy)
    rows = members.orderBy("member_id").collect()  # the members of one group
    return {
        row["member_id"]: _MemberConfig(
            tuple(row["partition_assignment_strategy"] or ([row["assignor"]] if row["assignor"] else KAFKA_DEFAULT)),
            detect_library(row["group_id"], row["client_id"], row["member_id"], row["assignor"]),
        )
        for row in rows
    }


def _two_bounces(configs: dict[str, _MemberConfig]) -> Iterator[tuple[str, Assignors]]:
    """Yields the restarts that change the assignors of a member."""
    for member_id, config in configs.items():
        both = (COOPERATIVE, *(name for name in config.assignors if name != COOPERATIVE))
        if both != config.assignors:
            yield member_id, both
    for member_id, config in configs.items():
        if config.assignors != (COOPERATIVE,):
            yield member_id, (COOPERATIVE,)


def _plan_steps(
    configs: dict[str, _MemberConfig], order: Sequence[tuple[str, Sequence[str]]]
) -> Iterator[dict[str, Any]]:
    """Yields one row per restart, with the reason if it is rejected."""
    current = {member_id: config.assignors for member_id, config in configs.items()}
    num_restarts = dict.fromkeys(configs, 0)
    is_rejected = False
    for ordinal, (member_id, names) in enumerate(order, 1):
        assignors = tuple(names)
        if member_id not in configs:
            members = ", ".join(sorted(configs)[:5])
            raise ConfigError(f"Restart {ordinal}: the group has no member {member_id!r}. It has {members}, …")
        if not assignors or not set(assignors) <= ASSIGNORS.keys():
            raise ConfigError(
                f"Restart {ordinal}, of {member_id}: unknown assignors ({', '.join(assignors)}), so it can't be "
                f"simulated. Known are {', '.join(ASSIGNORS)}."
            )
        num_restarts[member_id] += 1
        library = configs[member_id].client.library
        rejection: str | None = "not reached, because an earlier restart is rejected"
        if not is_rejected:
            rejection = find_refusal(library, assignors) if library else None
            rejection = rejection or _join_error(member_id, assignors, current)
            is_rejected = rejection is not None
        if not is_rejected:
            current[member_id] = assignors
        yield {
            "step": ordinal,
            "bounce": num_restarts[member_id],
            "member_id": member_id,
            "assignors": list(assignors),
            "eager_members": sum(not is_cooperative(names) for names in current.values()),
            "client_library": library,
            "rejection": rejection,
        }


def _join_error(member_id: str, assignors: Assignors, current: Mapping[str, Assignors]) -> str | None:
    """Returns why a member with these assignors can't join the other members; `None` if it can."""
    other_members = {name: names for name, names in current.items() if name != member_id}
    if set(assignors).intersection(*other_members.values()):
        return None
    missing = sorted(name for name, names in other_members.items() if not set(names) & set(assignors))
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    shown = f" ({', '.join(missing[:3])}{more})" if missing else ""
    return (
        f"INCONSISTENT_GROUP_PROTOCOL: {member_id} would support only {', '.join(assignors)}, which not all other "
        f"members support{shown}. It couldn't join, and its "
        "partitions would go to the other members. Finish the restart that adds the assignor first"
    )
