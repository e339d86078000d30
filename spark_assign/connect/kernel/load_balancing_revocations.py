"""Which items workers give up so that others get their share (`performLoadBalancingRevocations`, Kafka 4.x).

Principle: connectors and tasks are balanced apart. With c configured and n workers everyone may have c // n, and c % n
workers one more: the first that have more, in the order in which Java walks over them. What is above goes, from the
front of the worker's list.

Example: 7 tasks, A has 5, B has 2, C joins with none. Everyone may have 2, one worker 3: A comes first and gives up 2.

Where Java's hash order matters: which workers keep one more (the `HashMap` of workers), and which items are at the
front of a list (`serialized_order`).
"""

from __future__ import annotations

from spark_assign.connect.kernel.worker_load import WorkerLoads


def surplus(loads: WorkerLoads, configured: int) -> dict[int, int]:
    """How many items of one kind each worker, by its place, is to give up.

    Args:
        loads: what workers have.
        configured: how many items of the kind there should be.
    """
    share, extra = divmod(configured, len(loads.items))
    above: dict[int, int] = {}
    for worker, size in enumerate(map(len, loads.items)):
        if size > share:
            allowed = share + (1 if extra > 0 else 0)
            extra -= 1
            if size > allowed:
                above[worker] = size - allowed
    return above
