"""Searches for a placement with fewer moved bytes by simulated annealing, with a fixed seed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from spark_assign.replicas.kernel.load_placement import LoadPlacement

_CYCLES, _WITHOUT_GAIN, _ROUNDS, _ROUNDS_PER_REPLICA = 20, 4, 10_000, 400
"""The maximum number of cycles, of those in a row without a better placement, and of changes in each: in total, and per
replica."""

_HOTTEST, _COLDEST = 0.2, 0.01
"""First and last temperature of a cycle; bytes count as a multiple of what the greedy steps move."""

_EXCHANGES, _SINGLE_MOVES, _TRIES = 0.45, 0.35, 8
"""Fractions of the kinds of changes, and the number of partitions that are drawn for an exchange."""

_LOWEST, _HIGHEST, _PRIORITY = 0.3, 30.0, 2.0
"""First and last penalty of the violation of the last goal in a cycle, and the factor from a goal to the one before."""


def anneal(balance: LoadPlacement) -> list[list[int]]:
    """Returns the best placement that simulated annealing finds, starting from the greedy one.

    The penalty of violations rises as the temperature falls, so that a path to a better placement can lead through
    worse ones. Cycles start by turns from the best placement so far and from the greedy one, until several in a row
    don't find a better placement.
    """
    draw = random.Random(0)
    best, placement = balance.score(), [list(row) for row in balance.replicas]
    scale = max(balance.moved_bytes - balance.required_bytes, sum(balance.size) // max(len(balance.size), 1), 1)
    priorities = [_PRIORITY ** (len(balance.loads) - 1 - goal) for goal in range(len(balance.loads))]
    per_leader = 1e-3 / len(balance.size)
    rounds = min(_ROUNDS, _ROUNDS_PER_REPLICA * sum(map(len, placement)))
    greedy, without_gain = placement, 0
    for cycle in range(_CYCLES):
        balance.place(greedy if cycle % 2 else placement)
        first = best
        for ordinal in range(rounds):
            progress = ordinal / rounds
            temperature = _HOTTEST * (_COLDEST / _HOTTEST) ** progress
            penalty = _LOWEST * (_HIGHEST / _LOWEST) ** progress
            before, undo = list(balance.violation), []
            moved, led = balance.moved_bytes, balance.leaders_changed
            for partition, slot, broker in _proposal(balance, draw):
                if balance.fits(partition, slot, broker):
                    undo.append((partition, slot, balance.replicas[partition][slot]))
                    balance.change(partition, slot, broker)
            if not undo:
                continue
            worse = (balance.moved_bytes - moved) / scale + (balance.leaders_changed - led) * per_leader
            for priority, new, old in zip(priorities, balance.violation, before, strict=True):
                worse += penalty * priority * (new - old)
            if balance.moved_bytes <= balance.max_bytes and (
                worse <= 0 or draw.random() < math.exp(-worse / temperature)
            ):
                rounded = tuple([round(violation, 6) for violation in balance.violation])
                if (rounded, balance.moved_bytes, balance.leaders_changed) < best and (score := balance.score()) < best:
                    best, placement = score, [list(row) for row in balance.replicas]
                continue
            for step in reversed(undo):
                balance.change(*step)
            balance.violation = before
        without_gain = without_gain + 1 if best == first else 0
        if without_gain == _WITHOUT_GAIN:
            break
    return placement


def _proposal(balance: LoadPlacement, draw: random.Random) -> Iterator[tuple[int, int, int]]:
    """Yields (partition, slot, broker) of a random change: a replica that returns, mostly in exchange for another one
    that moves in its place; one replica that moves; or two that change places."""
    num_partitions, kind = len(balance.replicas), draw.random()
    partition = draw.randrange(num_partitions)
    if kind < _EXCHANGES:
        for _ in range(_TRIES):
            row, old = balance.replicas[partition], balance.current[partition]
            before, after = set(old), set(row)
            vacated = [broker for broker in old if balance.is_usable[broker] and broker not in after]
            slots = [slot for slot, broker in enumerate(row) if broker not in before]
            if vacated and slots:
                slot, to_broker = draw.choice(slots), draw.choice(vacated)
                from_broker = row[slot]
                yield partition, slot, to_broker
                for _ in range(_TRIES if draw.random() < 0.75 else 0):
                    other = draw.randrange(num_partitions)
                    row = balance.replicas[other]
                    if other != partition and to_broker in row and from_broker not in row:
                        yield other, row.index(to_broker), from_broker
                        return
                return
            partition = draw.randrange(num_partitions)
        return
    row = balance.replicas[partition]
    slot = draw.randrange(len(row))
    if kind < _EXCHANGES + _SINGLE_MOVES:
        yield partition, slot, draw.choice(balance.usable if draw.random() < 0.7 else row)
        return
    other = draw.randrange(num_partitions)
    other_slot = draw.randrange(len(balance.replicas[other]))
    from_broker, to_broker = row[slot], balance.replicas[other][other_slot]
    if to_broker not in row and from_broker not in balance.replicas[other]:
        yield partition, slot, to_broker
        yield other, other_slot, from_broker
