"""What is asked of the past."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HistoryThresholds:
    """Thresholds, in milliseconds; each is a setting with its reason in the docs.

    Attributes:
        gap_ms: a partition for which nothing is committed for longer is silent. By default twice the interval at which
            clients commit by themselves (5 s), and no longer than the shortest session that clients have by default
            (10 s up to 2.8, 45 s since): one that times out never hides in it.
        together_ms: rebalances of a group that are no further apart are one deploy.
        flapping_a_day: so many rebalances in 24 hours that belong to no deploy make a group a flapping one.
        session_ms: the session timeout of members whose record has none: group.consumer.session.timeout.ms of brokers.
    """

    gap_ms: int = 10_000
    together_ms: int = 300_000
    flapping_a_day: int = 10
    session_ms: int = 45_000
