"""Random life of a KIP-848 group, step by step: what its members send, the passing of time, topics that change.

The members are driven by the answers of our own coordinator (`tests.golden.consumer_group_rows.Steps`): most do what a
client does, some are slow, repeat themselves, have missed an answer, or say something that is not so.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.golden.consumer_group_rows import Op, Row, Steps
from tests.kafka.java_tables import crowds, one_hash

_NAMES = ["orders", "payments", "clicks", "refunds", "audit", "AaAa", "BBBB", "AaBB", "Ä", "zz-9", "a.b", "t_1", "t_2"]
_REGEXES = ["", "t_.*", "[a-p].*", ".*", "nothing", "pay.+|zz.*"]


def sequences(seed: int, number: int, steps: int = 60) -> Iterator[tuple[str, list[tuple[Op, Row]]]]:
    """So many sequences, each with its name: steps, and what our coordinator answers to each."""
    for at in range(number):
        yield f"random-{seed}-{at}", _Life(random.Random(f"{seed}-{at}")).steps(steps)


@dataclass
class _Client:
    """A member's own view of itself."""

    id: str
    instance: str | None
    epoch: int = 0
    assigned: dict[str, list[int]] = field(default_factory=dict)
    owned: dict[str, list[int]] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    regex: str | None = None
    timeout: int = 5_000
    to_tell: bool = True
    away: bool = False


class _Life:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.size = draw.choice([2, 3, 5, 8, 20, 40])
        self.now = 1_000_000 + draw.randrange(100_000)
        self.with_regexes = draw.random() < 0.25
        self.with_assignors = draw.random() < 0.3
        self.alike = draw.random() < 0.6
        self.names = draw.sample(_NAMES, draw.randint(1, draw.choice([2, 5, len(_NAMES)])))
        self.most = draw.choice([3, 9, 40, 120])
        self.topics: dict[str, dict[str, Any]] = {}
        self.clients: list[_Client] = []
        self.spare = self._ids()
        begin = {
            "op": "begin",
            "now": self.now,
            "assignment_interval_ms": draw.choice([0, 0, 1_000, 1_000, 5_000]),
            "max_size": draw.choice([self.size, self.size * 3, 2_000_000]),
        }
        self.group = Steps(begin)
        self.done: list[tuple[Op, Row]] = []
        self.subscription = self._some_names()
        self._do(begin)
        self._do(self._put(draw.sample(self.names, draw.randint(1, len(self.names)))))

    def _ids(self) -> list[str]:
        draw = self.draw
        ids = [base64.urlsafe_b64encode(draw.randbytes(16)).decode()[:22] for _ in range(60)]
        if draw.random() < 0.3:
            ids += one_hash(draw, draw.randint(2, 14)) + crowds()[draw.randrange(1024)][:20]
            draw.shuffle(ids)
        return ids

    def steps(self, number: int) -> list[tuple[Op, Row]]:
        """So many steps; at first many join."""
        for at in range(number):
            if len(self.clients) < self.size and self.draw.random() < (0.7 if at < number // 3 else 0.15):
                self._join()
            else:
                self._something()
        return self.done

    def _do(self, op: Op) -> Row:
        answer = self.group.call(op)
        self.done.append((op, answer))
        return answer

    def _something(self) -> None:
        draw = self.draw
        kind = draw.random()
        if kind < 0.62 and self.clients:
            self._beat(draw.choice(self.clients))
        elif kind < 0.74:
            for client in draw.sample(self.clients, len(self.clients)) * draw.choice([1, 1, 4]):
                if client in self.clients:
                    self._beat(client, plainly=True)
        elif kind < 0.86:
            self.now += draw.choice([1, 100, 400, 999, 1_000, 2_500, 2_500, 5_001, 11_000, 46_000])
            self._do({"op": "advance", "to": self.now})
        elif kind < 0.91 and self.clients:
            self._leave(draw.choice(self.clients))
        elif kind < 0.95:
            self._change_topics()
        elif self.with_regexes and draw.random() < 0.5:
            self._do({"op": "resolve"})
        elif self.clients:
            self._subscribe(draw.choice(self.clients))

    # --- members --------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        draw = self.draw
        gone = [each for each in self.clients if each.away]
        if gone and draw.random() < 0.6:
            client = draw.choice(gone)
            if draw.random() < 0.8:
                client.id = self.spare.pop()
            client.away = False
        else:
            used = [each.instance for each in self.clients if each.instance]
            fresh = f"instance-{draw.randrange(12)}"
            instance = draw.choice([*used, fresh]) if draw.random() < 0.1 else fresh
            client = _Client(self.spare.pop(), instance if draw.random() < 0.3 else None)
            client.topics = list(self.subscription) if self.alike else self._some_names()
            client.timeout = draw.choice([1, 2_000, 30_000])
            self.clients.append(client)
            if self.with_regexes and draw.random() < 0.6:
                client.regex = draw.choice(_REGEXES)
                client.topics = client.topics if draw.random() < 0.2 or not client.regex else []
        if not self.spare:
            self.spare = self._ids()
        client.epoch, client.owned, client.assigned = 0, {}, {}
        self._send(client, full=True)

    def _beat(self, client: _Client, *, plainly: bool = False) -> None:
        """A heartbeat as a client sends it, or nearly."""
        draw = self.draw
        if client.away:
            return
        if client.epoch == 0 or (not plainly and draw.random() < 0.04):
            client.epoch = 0
            client.owned = {}
            self._send(client, full=True)
            return
        if draw.random() < (0.9 if plainly else 0.6) and client.owned != client.assigned:
            client.owned = {topic: list(some) for topic, some in client.assigned.items()}
            client.to_tell = True
        strange = draw.random()
        if plainly or strange < 0.8:
            self._send(client)
        elif strange < 0.9:
            self._send(client, full=True)
        else:
            owned = draw.choice([None, {}, client.owned, self._half(client.owned), self._half(client.assigned)])
            self._send(client, epoch=client.epoch - draw.choice([-1, 1, 1, 1, 2]), owned=owned)

    def _half(self, owned: dict[str, list[int]]) -> dict[str, list[int]]:
        return {topic: self.draw.sample(some, (len(some) + 1) // 2) for topic, some in owned.items()}

    def _send(
        self, client: _Client, *, full: bool = False, epoch: int | None = None, owned: Any = "as it is", **more: Any
    ) -> None:
        op: Op = {"op": "heartbeat", "member": client.id, "epoch": client.epoch if epoch is None else epoch}
        if client.instance:
            op["instance"] = client.instance
        if full:
            topics = self.draw.sample(client.topics, len(client.topics))
            op |= {"rebalance_timeout_ms": client.timeout, "topics": topics, "owned": client.owned}
            if client.regex is not None:
                op["regex"] = client.regex
            if self.with_assignors and self.draw.random() < 0.7:
                op["assignor"] = self.draw.choice(["uniform", "range", "range"])
        if owned != "as it is":
            op["owned"] = owned
        elif client.to_tell and self.draw.random() < 0.9:
            op["owned"] = client.owned
        answer = self._do(json.loads(json.dumps(op | more)))
        if "error" in answer:
            client.epoch, client.owned, client.assigned = 0, {}, {}
            if answer["error"] in ("GROUP_MAX_SIZE_REACHED", "UNRELEASED_INSTANCE_ID") and self.draw.random() < 0.7:
                self.clients.remove(client)
            elif self.draw.random() < 0.3:
                client.id = self.spare.pop()
            return
        if self.draw.random() < 0.95:
            client.epoch = answer["epoch"]
            client.to_tell = False
            if "assigned" in answer:
                client.assigned = answer["assigned"]
                # What is taken away is still there until the client has given it up.
                for topic, some in client.assigned.items():
                    client.owned[topic] = sorted({*client.owned.get(topic, []), *some})

    def _leave(self, client: _Client) -> None:
        if client.away:
            return
        epoch = self.draw.choice([-1, -2, -2] if client.instance else [-1])
        op: Op = {"op": "heartbeat", "member": client.id, "epoch": epoch}
        if client.instance:
            op["instance"] = client.instance
        answer = self._do(op)
        client.away = epoch == -2 and "error" not in answer
        if not client.away:
            self.clients.remove(client)

    def _subscribe(self, client: _Client) -> None:
        if client.away or client.epoch == 0:
            return
        if self.alike and self.draw.random() < 0.3:
            self.subscription = self._some_names()
        client.topics = list(self.subscription) if self.alike else self._some_names()
        if self.draw.random() < 0.1:
            client.topics = []
        more: Op = {"topics": client.topics}
        if self.with_regexes and self.draw.random() < 0.6:
            client.regex = self.draw.choice(_REGEXES)
            more["regex"] = client.regex
        if self.with_assignors:
            more["assignor"] = self.draw.choice(["uniform", "range"])
        self._send(client, **more)

    # --- topics ---------------------------------------------------------------------------------------------------

    def _some_names(self) -> list[str]:
        return self.draw.sample(self.names, self.draw.randint(1, len(self.names)))

    def _put(self, names: list[str]) -> Op:
        for name in names:
            known = self.topics.get(name)
            id_ = "A" + base64.urlsafe_b64encode(self.draw.randbytes(16)).decode()[1:21] + "A"
            count = self.draw.randint(1, self.most)
            self.topics[name] = {
                "name": name,
                "id": known["id"] if known else id_,
                "partitions": known["partitions"] + self.draw.randint(1, 3) if known else count,
            }
        return {"op": "topics", "remove": [], "put": [self.topics[name] for name in names]}

    def _change_topics(self) -> None:
        name = self.draw.choice(self.names)
        if name in self.topics and self.draw.random() < 0.4:
            del self.topics[name]
            self._do({"op": "topics", "remove": [name], "put": []})
        else:
            self._do(self._put([name]))
