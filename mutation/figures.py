"""What a run counts: the share killed, and between which bounds the share of all mutants lies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

Z = 1.959964
"""95 of 100 intervals hold what they are for."""


@dataclass(frozen=True)
class Figures:
    """Mutants by what became of them; equivalent ones are in neither count of the share."""

    killed: int = 0
    survived: int = 0
    not_reached: int = 0
    equivalent: int = 0

    @property
    def counted(self) -> int:
        """All but the equivalent ones."""
        return self.killed + self.survived + self.not_reached

    @property
    def share(self) -> float:
        """Killed, of those that count."""
        return self.killed / self.counted if self.counted else 1.0

    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share, 95 %: as if the sample were drawn from very many."""
        if not self.counted:
            return 0.0, 1.0
        n, p = self.counted, self.share
        middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        low, high = (100 * bound for bound in self.interval())
        return (
            f"{self.killed} of {self.counted} killed, {100 * self.share:.1f} % (95 %: {low:.1f} to {high:.1f}),"
            f" {self.survived} survived, {self.not_reached} not reached, {self.equivalent} equivalent"
        )


def of(statuses: Iterable[str]) -> Figures:
    """Counts statuses; `not reached` and the names of the fields are the same words."""
    counts = dict.fromkeys(Figures.__dataclass_fields__, 0)
    for status in statuses:
        counts[status.replace(" ", "_")] += 1
    return Figures(**counts)
