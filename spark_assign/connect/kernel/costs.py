"""What a play costs: starts and stops, and for how long tasks do not run.

Principle: a configured task does not run
    from   the event that creates it, the moment its worker is gone, or the moment its worker begins to stop it,
    until  `start_ms` after the result arrives that gives it to a worker; or until it is no longer configured, if that
           is before; or, if nobody gets it, until the play ends.

Example: start_ms 2,000. A task is created at 0; the result of the round arrives at 500 and gives it to w1: it has not
run for 2,500 ms. w1 leaves at 60,000, and the result that gives it to w2 arrives at 360,000: 302,000 ms more. Had its
connector been removed at 361,000, when w2 was still starting it, it would have been 301,000 ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from spark_assign.connect.kernel.connector_task_ids import is_task


@dataclass(slots=True)
class Costs:
    """The bill so far.

    Attributes:
        start_ms: how long a task takes to start.
        starts, stops: of connectors and of tasks.
        gone: connectors and tasks that went with their worker; no stops.
        task_ms_not_running: added up over all tasks.
    """

    start_ms: int
    starts: list[int] = field(default_factory=lambda: [0, 0])
    stops: list[int] = field(default_factory=lambda: [0, 0])
    gone: int = 0
    task_ms_not_running: int = 0
    _down_since: dict[int, int] = field(default_factory=dict)
    _ready: dict[int, int] = field(default_factory=dict)

    def configured(self, items: Iterable[int], at_ms: int, held: Collection[int] = ()) -> None:
        """These are wanted from now on, and run nowhere yet, except what is `held`: wanted again before its worker
        has heard that it was not."""
        for item in items:
            if item in held:
                self.task_ms_not_running += self._ahead(item, at_ms)
            elif is_task(item):
                self._down_since[item] = at_ms
                self._ready.pop(item, None)

    def removed(self, items: Iterable[int], at_ms: int) -> None:
        """These are wanted no more; what was charged in advance, until they would have been up, is given back."""
        for item in items:
            since = self._down_since.pop(item, at_ms)
            self.task_ms_not_running += max(at_ms - since, 0) - self._ahead(item, at_ms)

    def started(self, items: Iterable[int], at_ms: int) -> None:
        """A worker begins to start these."""
        for item in items:
            self.starts[is_task(item)] += 1
            self._up(item, at_ms + self.start_ms)

    def stopped(self, items: Iterable[int], at_ms: int, wanted: set[int]) -> None:
        """A worker begins to stop these; `wanted` are the configured ones."""
        for item in items:
            self.stops[is_task(item)] += 1
            self._down(item, at_ms, wanted)

    def lost(self, items: Iterable[int], at_ms: int, wanted: set[int]) -> None:
        """The worker of these is gone."""
        for item in items:
            self.gone += 1
            self._down(item, at_ms, wanted)

    def end(self, at_ms: int) -> None:
        """The play is over."""
        self.removed(list(self._down_since), at_ms)

    @property
    def not_running(self) -> int:
        """How many configured tasks have no worker."""
        return len(self._down_since)

    def _ahead(self, item: int, at_ms: int) -> int:
        """For how long from now on a task that a worker is starting has been charged."""
        return max(self._ready.get(item, at_ms) - at_ms, 0)

    def _up(self, item: int, at_ms: int) -> None:
        since = self._down_since.pop(item, None)
        if since is not None:
            self.task_ms_not_running += at_ms - since
            self._ready[item] = at_ms

    def _down(self, item: int, at_ms: int, wanted: set[int]) -> None:
        if is_task(item) and item in wanted:
            # What is stopped before it was up has been charged until then.
            self._down_since[item] = max(at_ms, self._ready.get(item, at_ms))
