"""What each worker has of one kind, connectors or tasks, and how new items are spread over the workers.

Principle: who has least gets next. Workers are sorted by (load, id) once; then everyone in the prefix that stands at
the lowest level gets one item, in order; then the level rises, and takes in those who stood there already
(`IncrementalCooperativeAssignor.assignConnectors` and `assignTasks`).

Example: A has 2, B and C have 1, and x y z are new: the order is B, C, A; B gets x, C gets y, and now that all stand at
2, B gets z.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence


class WorkerLoads:
    """Of each worker its items: first those that it holds, then those that it gets in this round.

    Attributes:
        items: of each worker.
        held: how many of these it holds.
    """

    def __init__(self, held: list[list[int]], listed: Callable[[int], list[int]] | None = None) -> None:
        """Begin with what is held; `listed` gives a worker's report in its order, null where `held` is so."""
        self.items = held
        self.held = list(map(len, held))
        self._listed = listed

    def without(self, gone: Collection[int]) -> WorkerLoads:
        """The same without these items."""
        return WorkerLoads([[item for item in each if item not in gone] for each in self.items], self._listed)

    def give(self, worker: int, item: int) -> None:
        """A worker gets one more."""
        self.items[worker].append(item)

    def front(self, worker: int, number: int) -> list[int]:
        """The first items of a worker, in the order in which it lists them."""
        items, held = self.items[worker], self.held[worker]
        if self._listed is not None:
            still = set(items[:held])
            items[:held] = [item for item in self._listed(worker) if item in still]
        return items[:number]

    def take(self, worker: int, number: int) -> list[int]:
        """Take the first items from a worker."""
        taken = self.front(worker, number)
        del self.items[worker][:number]
        self.held[worker] = max(self.held[worker] - number, 0)
        return taken

    def given(self, worker: int) -> list[int]:
        """What a worker gets in this round."""
        return self.items[worker][self.held[worker] :]

    def spread(self, new: Sequence[int], by_id: Sequence[int]) -> None:
        """Spread new items over the workers.

        Args:
            new: in the order in which they are handed out.
            by_id: the workers, sorted by id.
        """
        if not new:
            return
        row = sorted((self.items[worker] for worker in by_id), key=len)
        heights = list(map(len, row))
        level, prefix, dealt = heights[0], 0, 0
        while dealt < len(new):
            while prefix < len(row) and heights[prefix] <= level:
                prefix += 1
            for items, item in zip(row[:prefix], new[dealt : dealt + prefix], strict=False):
                items.append(item)
            dealt += prefix
            level += 1
