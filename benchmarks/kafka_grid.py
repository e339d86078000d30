"""The groups of Kafka's `ConsumerAssignorBenchmark` (pull request 23491): 8,064 cells, from which samples are drawn.

A cell is a group with an event that has just happened. Topic i is `topic-i`, member i is `member` + i. The group always
has `members` members now; before the event it had more or fewer, and its members own what the assignor gave them then.

    distribution    EQUAL: all topics have the same number of partitions, but for the remainder. SKEWED: two thirds of
                    the topics have one partition, and each following tier has a third of the topics of the tier
                    before, with twice as many partitions per topic
    subscription    members are in five buckets in turns. HOMOGENEOUS: all subscribe to all topics.
                    HETEROGENEOUS_DISJOINT: bucket b subscribes to the b-th fifth of the topics.
                    HETEROGENEOUS_NESTED: bucket b subscribes to the first b + 1 fifths
    event           FULL: nobody owns anything. STABLE: nothing has changed. JOIN and LEAVE: of one member, or of a
                    tenth. PARTITIONS_ADDED: a tenth of the topics have one partition more
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from itertools import accumulate
from random import Random

VALUES: Mapping[str, Sequence[int | str]] = {
    "members": (5, 50, 500, 5_000),
    "topics": (5, 50, 500, 5_000),
    "partitions": (5_000, 10_000, 20_000),
    "distribution": ("EQUAL", "SKEWED"),
    "subscription": ("HOMOGENEOUS", "HETEROGENEOUS_DISJOINT", "HETEROGENEOUS_NESTED"),
    "rack": ("NONE", "PROVIDED"),
    "assignor": ("RANGE", "UNIFORM"),
    "event": ("FULL", "STABLE", "JOIN_ONE", "JOIN_MANY", "LEAVE_ONE", "LEAVE_MANY", "PARTITIONS_ADDED"),
}
"""The values of each parameter; `partitions` is the total of all topics."""

RACKS = 3
_BUCKETS = 5
_TOPIC_ID_SEED = 42


@dataclass(frozen=True)
class Cell:
    """One value of each parameter."""

    members: int
    topics: int
    partitions: int
    distribution: str
    subscription: str
    rack: str
    assignor: str
    event: str

    def __str__(self) -> str:
        return " ".join(map(str, astuple(self)))

    @property
    def members_before(self) -> int:
        """Returns the number of members before the event; the members with the highest numbers join or leave."""
        many = -(-self.members // 10)
        change = {"JOIN_ONE": -1, "JOIN_MANY": -many, "LEAVE_ONE": 1, "LEAVE_MANY": many}
        return self.members + change.get(self.event, 0)

    @property
    def partitions_before(self) -> list[int]:
        """Returns the number of partitions of each topic before the event."""
        return partition_counts(self.distribution, self.topics, self.partitions)

    @property
    def partitions_now(self) -> list[int]:
        """Returns the number of partitions of each topic."""
        counts = self.partitions_before
        grown = -(-self.topics // 10) if self.event == "PARTITIONS_ADDED" else 0
        for index in range(grown):
            counts[index * self.topics // grown] += 1
        return counts

    @property
    def buckets(self) -> list[range]:
        """Returns the topics of each bucket; member i is in bucket i mod the number of buckets."""
        number = min(_BUCKETS, self.members, self.topics)
        bounds = [self.topics * bucket // number for bucket in range(number + 1)]
        if self.subscription == "HOMOGENEOUS":
            return [range(self.topics)] * number
        is_nested = self.subscription == "HETEROGENEOUS_NESTED"
        return [range(0 if is_nested else bounds[at], bounds[at + 1]) for at in range(number)]


def partition_counts(distribution: str, topics: int, partitions: int) -> list[int]:
    """Returns the number of partitions of each topic, which is 1 at least."""
    if distribution == "EQUAL" or topics == 1:
        return _split(max(partitions, topics), topics)
    tiers = _tiers(topics)
    others = topics - tiers[0]
    rest = max(others, partitions - tiers[0])
    weights = [size << tier for tier, size in enumerate(tiers[1:])]
    if sum(weights) > rest:
        return _split(rest, others) + [1] * tiers[0]
    counts, end = [], 0
    for size, total in zip(tiers[:0:-1], accumulate(reversed(weights)), strict=True):
        start, end = end, rest * total // sum(weights)
        counts += _split(end - start, size)
    return counts + [1] * tiers[0]


def _split(total: int, parts: int) -> list[int]:
    """Returns equal parts of a total, the first ones larger by one."""
    size, remainder = divmod(total, parts)
    return [size + (part < remainder) for part in range(parts)]


def _tiers(topics: int) -> list[int]:
    """Returns the number of topics of each tier."""
    tiers: list[int] = []
    while (remaining := topics - sum(tiers)) > 0:
        tiers.append(min(remaining, max(1, math.floor(topics * 2 / 3 / 3 ** len(tiers) + 0.5))))
    return tiers


@cache
def topic_ids(topics: int) -> list[str]:
    """Returns the topic ids as Kafka prints them: from `java.util.Random(42)`, without a hyphen."""
    longs, ids = next_longs(_TOPIC_ID_SEED), list[str]()
    while len(ids) < topics:
        raw = b"".join((next(longs) % 2**64).to_bytes(8, "big") for _ in range(2))
        text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        if "-" not in text and int.from_bytes(raw, "big") > 1:
            ids.append(text)
    return ids


def next_longs(seed: int) -> Iterator[int]:
    """Yields the results of `nextLong` of `new Random(seed)`."""
    state = seed ^ 0x5DEECE66D
    while True:
        halves = []
        for _ in range(2):
            state = (state * 0x5DEECE66D + 0xB) % 2**48
            halves.append((state >> 16) - (state >> 47 << 32))
        yield (halves[0] * 2**32 + halves[1] + 2**63) % 2**64 - 2**63


def draw(cells: int, seed: int, values: Mapping[str, Sequence[int | str]] = VALUES) -> list[Cell]:
    """Returns different cells in which each value of a parameter occurs equally often, within one."""
    random = Random(seed)
    drawn: dict[Cell, None] = {}
    while len(drawn) < cells:
        columns = []
        for parameter in values.values():
            column = [parameter[at % len(parameter)] for at in range(cells)]
            random.shuffle(column)
            columns.append(column)
        drawn = {Cell(*row): None for row in zip(*columns, strict=True)}  # type: ignore[arg-type]
    return list(drawn)
