"""Reads properties of groups: type, configured assignor, and client libraries."""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.groups.kernel.client_libraries import Client, count_clients, detect_library
from spark_assign.groups.kernel.facts import GROUP
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import read_configured_assignors


def read_group_types(specs: GroupSpecs) -> list[str | None]:
    """Returns the type of each group according to the fleet; None if unknown."""
    rows = specs.facts.rows_by_kind[GROUP]
    kinds: list[str | None] = [None] * specs.facts.num_groups
    for group, kind in zip(
        specs.facts.group_index[rows].tolist(), specs.facts.column("group_type", rows).to_pylist(), strict=True
    ):
        kinds[group] = kind
    return [kinds[group] for group in specs.fact_group_index.tolist()]


def read_assignors(specs: GroupSpecs) -> list[str | None]:
    """Returns the assignor that each group is configured with."""
    configured = read_configured_assignors(specs.facts)
    names = zip(specs.cluster.to_pylist(), specs.group_id.to_pylist(), strict=True)
    return [configured.get(name) for name in names]


def read_client_libraries(
    specs: GroupSpecs, current_assignors: Sequence[str | None], assumed: Sequence[str | None]
) -> list[str]:
    """Returns the libraries of the members of each group (`count_clients`).

    `assumed` is the library of members whose library can't be detected.
    """
    clients: list[list[Client]] = [[] for _ in range(specs.num_groups)]
    group_id, rows = specs.group_id.to_pylist(), specs.members.row
    ids = zip(specs.facts.column("client_id", rows).to_pylist(), specs.member_id.to_pylist(), strict=True)
    for group, (client_id, member_id) in zip(specs.members.group.tolist(), ids, strict=True):
        client = detect_library(group_id[group], client_id, member_id, current_assignors[group])
        assumed_library = assumed[group]
        clients[group].append(Client(assumed_library, True) if client.library is None and assumed_library else client)
    return [count_clients(each) for each in clients]
