"""The states of a classic group (`ClassicGroupState`), and the errors of Kafka's classes for it."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """`ClassicGroupState`; the value is what Kafka calls it in its answers."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
    State.DEAD: (State.STABLE, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD),
}
"""From where a group may come into a state. (Kafka's error lists them in an order that differs from run to run.)"""


class IllegalState(Exception):
    """Kafka throws `IllegalStateException` with this message."""


class IllegalArgument(Exception):
    """Kafka throws `IllegalArgumentException` with this message."""
