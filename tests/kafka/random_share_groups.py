"""Random share groups, and what happens to them between two assignments."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

from tests.golden.share_rows import Row

_MASK = (1 << 32) - 1
_ONE_31ST = pow(31, -1, 1 << 32)


class ShareGroup:
    """A group, its topics and what its members have; in one of ten the partitions of its topics share buckets of hash
    tables, which then become trees."""

    def __init__(self, draw: Random, name: str) -> None:
        """A new one, whose members may have an assignment that no assignor has made."""
        self.draw, self.name, self.round, self.made = draw, name, 0, 0
        self.alike = draw.random() < 0.55
        self.treeified = draw.random() < 0.1
        self.size = 3 if self.treeified else draw.choice([2, 6, 20, 90])
        self.topics: dict[str, int] = {}
        self.assignable: dict[str, list[int]] | None = {} if draw.random() < 0.5 else None
        self.members: list[dict[str, Any]] = []
        self.shared: list[str] = []
        self.unknown = int(draw.random() < 0.15)
        for _ in range(30 if self.treeified else draw.randint(1, draw.choice([2, 4, 14]))):
            self.create()
        self.shared = draw.sample(sorted(self.topics), draw.randint(draw.random() > 0.03, len(self.topics)))
        if self.treeified:
            self.shared = sorted(self.topics)
        if draw.random() < 0.02:
            self._crowd_members()
            return
        for _ in range(draw.randint(1, draw.choice([3, 12, 60, 150]))):
            self.join()
        if draw.random() < 0.3:
            self._own()

    def follow(self, answer: Row) -> None:
        """What has happened until the next round: members have what they were given, and something has changed."""
        self.round += 1
        if answer["error"] is None:
            for member in self.members:
                got = answer["next"][member["id"]]
                member["previous"] = [(topic, at) for topic, partitions in got for at in partitions]
                member["previous_empty"] = [topic for topic, partitions in got if not partitions]
        for _ in range(self.draw.choice([0, 1, 1, 2])):
            self.draw.choice([self.join, self.leave, self.grow, self.create, self.delete, self.subscribe])()

    def row(self) -> Row:
        """As `README-848.md` tells it."""
        names = {(tuple(sorted(each["topics"])), each["unresolved"]) for each in self.members}
        alike = len(names) == 1 and self.draw.random() > 0.05
        row: Row = {
            "case": f"{self.name}-r{self.round}",
            "subscription_type": "HOMOGENEOUS" if alike else "HETEROGENEOUS",
            "topics": {topic: {"name": topic, "partitions": count} for topic, count in self.topics.items()},
            "members": [dict(each) for each in self.members],
        }
        for member in row["members"]:
            if not member["unresolved"]:
                del member["unresolved"]
        if self.assignable is not None:
            row["assignable"] = {topic: list(some) for topic, some in self.assignable.items()}
        return row

    def join(self) -> None:
        """A new member, somewhere in the order of the others."""
        subscribed = list(self.shared) if self.alike else self._some()
        self.draw.shuffle(subscribed)
        member = {"id": f"m{self.draw.getrandbits(48):x}", "topics": subscribed, "unresolved": self.unknown}
        member |= {"previous": [], "previous_empty": []}
        self.members.insert(self.draw.randint(0, len(self.members)), member)

    def leave(self) -> None:
        """One or more members go."""
        for _ in range(self.draw.randint(1, max(1, len(self.members) // 2))):
            if len(self.members) > 1:
                self.members.pop(self.draw.randrange(len(self.members)))

    def grow(self) -> None:
        """A topic has more partitions, or those that it has are initialised."""
        topic = self.draw.choice(sorted(self.topics) or [None])
        if topic is not None:
            self.topics[topic] += self.draw.choice([0, 1, 5, 40])
            self._initialize(topic)

    def create(self) -> None:
        """A new topic; some subscribe to it."""
        topic = self._id()
        self.topics[topic] = self.draw.randint(1, self.size)
        self._initialize(topic)
        if self.treeified or self.draw.random() < 0.5:
            self.shared.append(topic)
            for member in self.members:
                if self.alike or self.draw.random() < 0.5:
                    member["topics"].append(topic)

    def delete(self) -> None:
        """A topic is gone; its name counts for nothing any more."""
        if len(self.topics) > 1:
            gone = self.draw.choice(sorted(self.topics))
            del self.topics[gone]
            (self.assignable or {}).pop(gone, None)
            self.shared = [topic for topic in self.shared if topic != gone]
            for member in self.members:
                member["topics"] = [topic for topic in member["topics"] if topic != gone]

    def subscribe(self) -> None:
        """Subscriptions change."""
        self.shared = self._some()
        for member in self.members:
            if self.alike:
                member["topics"] = list(self.shared)
            elif self.draw.random() < 0.4:
                member["topics"] = self._some()

    def _id(self) -> str:
        """Of a topic; one that begins with a dash Kafka would not make."""
        high, low, self.made = self.draw.getrandbits(64), self.draw.getrandbits(64), self.made + 1
        if self.treeified:
            # `Uuid.hashCode` folds both halves; 31 times it is the same in the lowest bits of both of its halves.
            low = high ^ ((self.made << 26 | 7 << 16 | 5) * _ONE_31ST & _MASK)
        made = base64.urlsafe_b64encode((high << 64 | low).to_bytes(16)).decode()[:22]
        return self._id() if made.startswith("-") else made

    def _some(self) -> list[str]:
        return self.draw.sample(sorted(self.topics), self.draw.randint(self.draw.random() > 0.05, len(self.topics)))

    def _initialize(self, topic: str) -> None:
        if self.assignable is not None:
            share = self.draw.choice([0, 0.5, 0.9, 1])
            self.assignable[topic] = [at for at in range(self.topics[topic]) if self.draw.random() < share]

    def _crowd_members(self) -> None:
        """Many members, of which every 64th has the same partition."""
        for _ in range(700):
            self.join()
        for topic, count in self.topics.items():
            for partition in range(count):
                for at in set(range(partition % 64, 700, 64)) | set(self.draw.sample(range(700), 30)):
                    self.members[at]["previous"].append((topic, partition))

    def _own(self) -> None:
        """Anything: too much, too often, beyond the end of a topic, of topics that nobody subscribes to."""
        share, times = self.draw.choice([0.2, 0.9, 1]), self.draw.choice([1, 3, 12])
        for member in self.members:
            for topic in self.draw.sample(sorted(self.topics), self.draw.randint(0, len(self.topics))):
                numbers = range(self.topics[topic] + self.draw.choice([0, 0, 3]))
                some = [at for at in numbers if self.draw.random() < share * times / max(len(self.members), times)]
                member["previous"] += [(topic, at) for at in self.draw.sample(some, len(some))]
                if not some:
                    member["previous_empty"].append(topic)
