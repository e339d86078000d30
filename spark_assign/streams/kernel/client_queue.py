"""Kafka's `ConstrainedPrioritySet`: clients by weight, of which a caller takes the first that meets a condition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import itemgetter

from spark_assign.java.priority_queue import Heap
from spark_assign.streams.kernel.classic_application import ClientState, client_hash_order
from spark_assign.streams.kernel.task_assignor_api import TaskId


class ClientQueue:
    """Clients by ascending weight, then by id.

    It is a `PriorityQueue`. Its order isn't restored when the weight of a client inside changes, so that it doesn't
    always return the minimum.
    """

    def __init__(self, clients: Iterable[ClientState], weight: Callable[[ClientState], float]) -> None:
        """Creates a queue of clients, offered in this order."""
        self._weight = weight
        self._heap: Heap[int] = Heap()
        self._clients: dict[int, ClientState] = {}
        for client in clients:
            self.offer(client)

    def offer(self, client: ClientState) -> None:
        """Adds a client; one that is in the queue is removed first."""
        if client.rank in self._clients:
            self._heap.remove(client.rank)
        self._clients[client.rank] = client
        self._heap.add((self._weight(client), client.rank), client.rank)

    def poll(self, task: TaskId, condition: Callable[[ClientState, TaskId], bool]) -> ClientState | None:
        """Removes and returns the first client that meets the condition for a task; None if no client does."""
        failed = []
        found = None
        while len(self._heap):
            client = self._clients.pop(self._heap.poll())
            if condition(client, task):
                found = client
                break
            failed.append(client)
        for client in client_hash_order(failed) if len(failed) > 1 else failed:
            self.offer(client)
        return found

    def poll_first(self, candidates: Collection[ClientState]) -> ClientState | None:
        """Removes and returns the first of the candidates; None if there are none."""
        ranks = {client.rank for client in candidates}
        return self.poll((0, 0), lambda client, task: client.rank in ranks)

    def offer_changed(self, source: ClientState, target: ClientState, target_weight: float) -> None:
        """Offers two clients that have changed their weights; see `FirstOfFew.offer_changed`."""
        for client in (source, target):
            if client.rank in self._clients:
                self._heap.reprioritize(client.rank, (self._weight(client), client.rank))
        self.offer(source)
        self.offer(target)


class UndeterminedFirstError(Exception):
    """Which client comes first depends on the layout of the heap."""


class FirstOfFew:
    """A `ClientQueue` of all clients by load, without its heap: for polls with few candidates among many clients.

    The first candidate is the least loaded one as long as the heap is in order. It can get out of order in one place:
    a target loses a task and so becomes lighter inside the heap, and the source, which is offered first, ends up below
    the target although it is lighter than the target's parent. The source then stays *hidden* until its ancestors are
    polled, and so can clients be that are offered meanwhile and end up below it. All hidden clients and their ancestors
    weigh between the source's weight and the target's former weight, which is the range kept here. A poll that passes
    the range restores the order. Two candidates inside the range are undetermined.
    """

    def __init__(self) -> None:
        self._hidden: tuple[tuple[float, int], tuple[float, int]] | None = None

    def poll_first(self, candidates: Collection[ClientState]) -> ClientState | None:
        """Returns the first of the candidates; None if there are none.

        Raises:
            UndeterminedFirstError: The order of the heap decides.
        """
        ordered = sorted((((client.load, client.rank), client) for client in candidates), key=itemgetter(0))
        if not ordered or (self._hidden is not None and ordered[0][0] >= self._hidden[1]):
            self._hidden = None
        if not ordered:
            return None
        if self._hidden is not None:
            low, high = self._hidden
            if sum(low <= key < high for key, _ in ordered) > 1 and ordered[0][0] >= low:
                raise UndeterminedFirstError
        return ordered[0][1]

    def offer_changed(self, source: ClientState, target: ClientState, target_weight: float) -> None:
        """Offers the source and the target of a movement.

        Args:
            source: client that gets the task.
            target: client that loses it.
            target_weight: load of the target before.
        """
        if target.load < target_weight:
            low, high = (target.load, target.rank), (target_weight, target.rank)
            if self._hidden is not None:
                low, high = min(low, self._hidden[0]), max(high, self._hidden[1])
            self._hidden = low, high
