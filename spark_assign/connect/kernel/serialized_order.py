"""What a trip over the wire does to the order of a worker's connectors and tasks (`ConnectProtocol.Assignment.asMap`).

Principle: items travel grouped by connector. The connectors come in the order of a `new HashSet<>(connectors)`; the
tasks follow the order in which their connectors are first met, the listed connectors before all others.

Example: connectors [a, b], tasks [c-0, b-0, a-1, b-1], and the HashSet walks b, a: the connectors arrive as [b, a], the
tasks as [b-0, b-1, a-1, c-0].

It happens to every result and again to every report. So a worker's list, from whose front a load-balancing
revocation takes, hangs on the hash codes of the connectors' names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spark_assign.connect.kernel.connector_task_ids import connector_item, connector_of
from spark_assign.connect.kernel.hash_set_order import walk_of_copy
from spark_assign.connect.kernel.rebalance_input import Listed


def over_the_wire(connectors: Sequence[int], tasks: Sequence[int], spread: Sequence[int]) -> Listed:
    """Connectors and tasks as the other side reads them.

    Args:
        connectors: as listed by the sender.
        tasks: likewise.
        spread: of every connector its spread hash (`Names.spread`).
    """
    ordered = walk_of_copy([connector_of(each) for each in connectors], spread) if connectors else []
    groups: dict[int, list[int]] = {connector: [] for connector in ordered}
    for task in tasks:
        groups.setdefault(connector_of(task), []).append(task)
    return [connector_item(each) for each in ordered], [task for group in groups.values() for task in group]


def list_after(listed: Listed, assigned: Listed, revoked: Collection[int], spread: Sequence[int]) -> Listed:
    """What a worker lists after it has learned a result: what is new, in wire order, then what it keeps.

    Args:
        listed: what it listed before.
        assigned: what it gets, in the order in which the leader sent it.
        revoked: what it gives up.
        spread: as above.
    """
    new = over_the_wire(*assigned, spread)
    connectors, tasks = ([each for each in kind if each not in revoked] for kind in listed)
    return new[0] + connectors, new[1] + tasks
