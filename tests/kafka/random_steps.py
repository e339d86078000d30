"""Random sequences of calls of a classic group: rounds as a coordinator drives them, and calls as they come.

They go where the recorded ones do not: groups that grow over several doublings of Java's map and shrink again, ids that
share a hash or crowd into one bucket (until Java makes it a tree), ids beyond ASCII, members that are not there, ids
that are there already, protocols named twice or not at all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from spark_assign.java.hash_map import string_hash
from tests.kafka.java_tables import crowds, one_hash

Op = dict[str, Any]

_STATES = ["EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "DEAD"]
_PROTOCOLS = ["range", "roundrobin", "sticky", "cooperative-sticky", "AaAa", "BBBB", "AaBB", "eigene-Ä", "分配", "😀"]
_WAITING = ["complete_join", "await_sync", "complete_sync", "add_pending_sync"]
_SIZES = [3, 8, 14, 30, 60, 120]


def sequences(seed: int, number: int) -> Iterator[tuple[str, list[Op]]]:
    """Returns the given number of sequences, each with its name. In the first, a large group joins at once."""
    for at in range(number):
        draw = random.Random(f"{seed}-{at}")
        yield f"random-{seed}-{at}", _Sequence(draw, large=at == 0, wild=draw.random() < 0.4).ops()


class _Sequence:
    def __init__(self, draw: random.Random, *, large: bool, wild: bool) -> None:
        self.draw = draw
        self.large = large
        self.wild = wild and not large
        self.size = _SIZES[-1] if large else draw.choice(_SIZES)
        self.type = draw.choice(["consumer"] * 4 + ["connect"])
        self.protocols = draw.sample(_PROTOCOLS, draw.randint(1, 5))
        self.common = self.protocols[: draw.randint(1, 2)]
        self.topics = [f"topic-{number}" for number in range(4)] + ["Ünicode", "\uffee", "😀"]
        self.ids = self._make_ids()
        self.there: list[str] = []
        self.instances: dict[str, str] = {}
        self.given: list[Op] = []

    def _make_ids(self) -> list[str]:
        """Ids, some of which share their whole hash; or a crowd in one bucket of small maps, or of large ones."""
        draw = self.draw
        kind = 1.0 if self.large else draw.random()
        if kind < 0.15:
            return self._crowd()
        if kind < 0.35:
            made = one_hash(draw, draw.randint(0, 40)) + crowds()[draw.randrange(1024)][: draw.randint(11, 40)]
            draw.shuffle(made)
            return made
        made = [f"consumer-{number}-{draw.getrandbits(64):016x}" for number in range(self.size)]
        made += [f"Verbraucher-ß-{number}" for number in range(3)] + ["消费者", "😀-1", "\uffee-2", "", "m"]
        prefix = f"{draw.getrandbits(16)}"
        made += [f"{prefix}{ending}" for ending in ("AaAa", "BBBB", "AaBB", "BBAa")]
        draw.shuffle(made)
        return made

    def _crowd(self) -> list[str]:
        """Twelve ids in one bucket of 16, but three in each of four buckets of 64."""
        buckets: dict[int, list[str]] = {bucket: [] for bucket in range(self.draw.randrange(16), 64, 16)}
        while any(len(ids) < 3 for ids in buckets.values()):
            made = f"m-{self.draw.getrandbits(32):x}"
            code = string_hash(made)
            ids = buckets.get((code ^ code >> 16) & 63, [made] * 3)
            if len(ids) < 3:
                ids.append(made)
        return [made for ids in buckets.values() for made in ids]

    def ops(self) -> list[Op]:
        """The whole sequence."""
        for _ in range(self.draw.randint(2, 6)):
            if self.wild:
                for _ in range(self.draw.randint(5, 40)):
                    self._any()
            else:
                self._round()
        return self.given

    def _say(self, op: str, **arguments: Any) -> None:
        self.given.append({"op": op, **arguments})

    # --- a round as the coordinator drives it ---------------------------------------------------------------

    def _round(self) -> None:
        draw = self.draw
        empty = not self.there
        if not empty:
            self._say("transition", to="PREPARING_REBALANCE")
        for member in self._some(self.there):
            self._leave(member) if draw.random() < 0.6 else self._replace(member)
        rejoining = self._some(self.there) if draw.random() < 0.5 else list(self.there)
        newcomers = [each for each in self.ids if each not in self.there]
        least = self.size if self.large and empty else 0
        newcomers = draw.sample(newcomers, min(len(newcomers), draw.randint(least, self.size)))
        everybody = [(each, True) for each in rejoining] + [(each, False) for each in newcomers]
        draw.shuffle(everybody)
        for member, known in everybody:
            self._join("update" if known else "add", member)
        if empty:
            self._say("transition", to="PREPARING_REBALANCE")
        if draw.random() < 0.3:
            self._say("select_protocol")
        self._say("maybe_elect_new_joined_leader")
        self._say("init_next_generation")
        self._sync()

    def _sync(self) -> None:
        for op in _WAITING:
            for member in _shuffled(self.draw, self.there):
                self._say(op, id=member)
        if self.draw.random() < 0.8:
            self._say("transition", to="STABLE")

    def _some(self, members: list[str]) -> list[str]:
        share = self.draw.choice([0.0, 0.1, 0.5, 0.95])
        return [each for each in members if self.draw.random() < share]

    def _join(self, op: str, member: str, **other: Any) -> None:
        draw = self.draw
        liked = [*self.common, *(each for each in self.protocols if draw.random() < 0.5 and each not in self.common)]
        draw.shuffle(liked)
        joined = {
            "protocols": liked,
            "topics": draw.sample(self.topics, draw.randint(0, 4)),
            "rebalance_timeout_ms": draw.randint(0, 300) * 1000,
            "awaiting_join": draw.random() < 0.95,
        } | other
        if op == "add":
            instance = f"instance-{member}" if draw.random() < 0.3 else None
            joined = {"instance": instance, "protocol_type": self.type} | joined
            if joined["instance"] is not None:
                self.instances[member] = joined["instance"]
            if member not in self.there:
                self.there.append(member)
        self._say(op, id=member, **joined)

    def _leave(self, member: str) -> None:
        self._say("remove", id=member)
        if member in self.there:
            self.there.remove(member)
        self.instances.pop(member, None)

    def _replace(self, member: str) -> None:
        if member in self.instances:
            new = f"{member}~{self.draw.randint(2, 9)}"
            self._say("replace_static", instance=self.instances[member], old=member, new=new)
            self.there[self.there.index(member)] = new
            self.instances[new] = self.instances.pop(member)

    # --- any call -------------------------------------------------------------------------------------------

    def _any(self) -> None:
        draw = self.draw
        member = draw.choice(self.there) if self.there and draw.random() < 0.8 else draw.choice(self.ids)
        protocols = [draw.choice(_PROTOCOLS) for _ in range(draw.randint(0, 3))]
        match draw.randint(0, 11):
            case 0 | 1 | 2 if draw.random() < 0.9:
                self._join("add", draw.choice(self.ids))
            case 0 | 1 | 2:
                strange = {"protocols": protocols, "protocol_type": draw.choice(["consumer", "other", ""])}
                self._join("add", member, **strange, instance=draw.choice([None, "taken"]))
            case 3:
                self._join("update", member)
            case 4:
                self._join("update", member, protocols=protocols or self.common)
            case 5:
                self._leave(member)
            case 6:
                new = draw.choice(self.ids)
                self._say("replace_static", instance=draw.choice(["taken", f"instance-{member}"]), old=member, new=new)
                if member in self.there:
                    self.there.remove(member)
                    self.there += [new] if new not in self.there else []
            case 7:
                # Stable after a while, as a group that is dead stays so.
                self._say("transition", to=draw.choice(_STATES[:4] * 6 + _STATES))
            case 8:
                self._say(draw.choice(["select_protocol", "init_next_generation", "maybe_elect_new_joined_leader"]))
            case 9:
                kind = draw.choice([self.type, "other", ""])
                self._say("supports_protocols", protocol_type=kind, protocols=protocols)
            case 10:
                self._say("add_pending_join", id=draw.choice([member, f"pending-{draw.randint(0, 3)}"]))
            case _:
                self._say(draw.choice(_WAITING), id=member)


def _shuffled(draw: random.Random, members: list[str]) -> list[str]:
    """All of them in some order, now and then all but one."""
    return draw.sample(members, max(len(members) - (draw.random() < 0.2), 0))
