"""In which order the coordinator and its assignor walk members and processes, which decides between equal loads.

members             the coordinator's table, copied into a `HashMap` by member id (`TargetAssignmentBuilder`)
processes           a `HashMap` made for as many keys as there are members (`StickyTaskAssignor`)
of a process        a `HashMap` of its members (`ProcessState`)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_assign.groups.assignors.server.coordinator_hash_order import table_slots
from spark_assign.java.compute_if_absent import compute_if_absent_order
from spark_assign.java.hash_map import HashTable, string_hash, string_hashes, text_order, text_ranks


def member_order(member_ids: Sequence[str], positions: Sequence[int | None]) -> list[int]:
    """The places of members in the order in which an assignor sees them.

    Args:
        member_ids: ascending.
        positions: where the coordinator lists them; where no member has one, its table is made from the ids.
    """
    if not member_ids:
        return []
    if any(position is not None for position in positions):
        listed = sorted(range(len(member_ids)), key=lambda at: (positions[at] is None, positions[at] or 0))
    else:
        slots = table_slots(string_hashes(member_ids), np.zeros(len(member_ids), np.int64)).tolist()
        listed = sorted(range(len(member_ids)), key=slots.__getitem__)
    return [listed[at] for at in text_order([member_ids[at] for at in listed])]


def process_order(processes: Sequence[str], *, release_4_3: bool = False) -> list[str]:
    """The processes in the walk of the assignor's map.

    Args:
        processes: of each member its process, in the order of the members.
        release_4_3: as the class was in 4.2 and 4.3, which asked `putIfAbsent`; since 4.4 it is `computeIfAbsent`.
    """
    capacity = 1 << max(len(processes) - 1, 0).bit_length()
    if release_4_3:
        table: HashTable[str] = HashTable(capacity)
        for process in processes:
            table.add(process, string_hash(process))
        return table.iteration_order()
    names = list(dict.fromkeys(processes))
    number = {name: at for at, name in enumerate(names)}
    calls = np.array([number[process] for process in processes], np.int64)
    one = np.zeros(len(calls), np.int64)
    walk = compute_if_absent_order(calls, one, string_hashes(names), text_ranks(names), np.array([capacity]))
    return [names[at] for at in walk.tolist()]


def process_walk(
    member_ids: Sequence[str], processes: Sequence[str], *, release_4_3: bool = False
) -> list[tuple[str, list[int]]]:
    """Processes with their members, as `streams.kernel.task_assignor_api.Group` has them.

    Args:
        member_ids, processes: of each member its id and its process, in the order of the members.
        release_4_3: as for `process_order`.
    """
    of: dict[str, list[int]] = {}
    for at, process in enumerate(processes):
        of.setdefault(process, []).append(at)
    walked = {
        process: [places[at] for at in text_order([member_ids[at] for at in places])] for process, places in of.items()
    }
    return [(process, walked[process]) for process in process_order(processes, release_4_3=release_4_3)]
