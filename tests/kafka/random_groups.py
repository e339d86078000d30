"""Random groups in the row format of the golden files, for live comparison with Kafka's classes.

The seed stands in every case's name.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.golden.vectors import Row
from tests.kafka import java_tables
from tests.kafka.random_ownership import with_ownership

STICKY = ("sticky", "cooperative-sticky")

# Where Java's order (UTF-16 units) and UTF-8 or code point order part: supplementary characters (surrogates,
# D800-DFFF) sort before U+E000-U+FFFF in Java, after them in UTF-8.
_LETTERS = ["a", "B", "0", "-", "_", "z", "ä", "\u3042", "\ue000", "\uf8ff", "\uffee", "\U0001f600", "\U00010000"]


def groups(strategy: str, seed: int, small: int = 400, mid_size: int = 3) -> Iterator[Row]:
    """`small` groups of 1-40 members with every oddity, then `mid_size` ones of 500 members, 200 topics.

    Groups of the sticky assignors own something; most of their small ones are tiny, where ties decide.
    """
    rng = random.Random(f"{strategy}-{seed}")
    for number in range(small):
        tiny = strategy in STICKY and rng.random() < 0.7
        sizes = (rng.randint(1, 5), rng.randint(0, 4), 6) if tiny else (rng.randint(1, 40), rng.randint(0, 25), 64)
        yield _case(rng, strategy, *sizes) | {"case": f"seed-{seed}-{number:04d}"}
    for number in range(mid_size):
        yield _case(rng, strategy, 500, 200, 120) | {"case": f"seed-{seed}-mid-{number}"}


def _case(rng: random.Random, strategy: str, members: int, topics: int, most_partitions: int) -> Row:
    row = _group(rng, members, topics, most_partitions) | {"strategy": strategy}
    if strategy not in STICKY:
        return row
    if rng.random() < 0.1:
        _share_hash_codes(rng, row["members"])
    if rng.random() < 0.1:
        for member in rng.sample(row["members"], rng.randint(1, len(row["members"]))):
            member["topics"] = []
    return with_ownership(rng, row, strategy)


def _share_hash_codes(rng: random.Random, members: list[Row]) -> None:
    """Ids with one String.hashCode, from two to all."""
    names = java_tables.one_hash(rng, rng.randint(2, max(2, min(len(members), 200))))
    for member, name in zip(rng.sample(members, len(members)), names, strict=False):
        member["id"] = name


def treeified(strategy: str, seed: int, number: int) -> Iterator[Row]:
    """Groups of a sticky assignor whose ids crowd into few buckets, which Java keeps as trees.

    Half of them subscribe to one topic, of which many members own too much.
    """
    rng = random.Random(f"crowded-{strategy}-{seed}")
    for at in range(number):
        row = _group(rng, rng.randint(11, 60), rng.randint(1, 4), 60) | {"strategy": strategy}
        ids = java_tables.one_hash(rng, 30) + java_tables.crowds()[rng.randrange(1024)][:40]
        for member, name in zip(row["members"], rng.sample(ids, rng.randint(11, len(ids))), strict=False):
            member["id"] = name
        row = with_ownership(rng, row, strategy, 0.3)
        if rng.random() < 0.5:
            _own_too_much(rng, row)
        yield row | {"case": f"crowded-{seed}-{at:04d}"}


def _own_too_much(rng: random.Random, row: Row) -> None:
    """Everybody subscribes to one topic without racks, and a part of the members owns all of it."""
    members = row["members"]
    count = rng.randint(len(members), 4 * len(members))
    row |= {"topics": {"t": count}, "replica_racks": None}
    for member in members:
        member |= {"topics": ["t"], "owned": [], "generation": 7}
        member.pop("user_generation", None)
    owners = rng.sample(members, rng.randint(len(members) // 3, len(members)))
    for partition in range(count):
        rng.choice(owners)["owned"].append(["t", partition])


def _group(rng: random.Random, members: int, topics: int, most_partitions: int) -> Row:
    unicode_ids = rng.random() < 0.3
    topic_names = [f"t{n}" if rng.random() < 0.5 else f"t.{n}_{rng.randrange(100)}" for n in range(topics)]
    co_partitioned = rng.random() < 0.4
    common_count = rng.randint(1, most_partitions)
    partitions = {
        topic: common_count if co_partitioned and rng.random() < 0.8 else rng.randint(0, most_partitions)
        for topic in topic_names
        if rng.random() < 0.93  # the others have no metadata
    }
    racks = [f"r{n}" for n in range(rng.randint(1, 5))] if rng.random() < 0.6 else []
    return {
        "topics": partitions,
        "replica_racks": _replica_racks(rng, partitions, racks),
        "members": _members(rng, _ids(rng, members, unicode_ids), topic_names, racks, unicode_ids),
    }


def _ids(rng: random.Random, count: int, unicode_ids: bool) -> list[str]:
    ids: dict[str, None] = {}
    while len(ids) < count:
        length = rng.randint(1, 6)
        ids[("".join(rng.choices(_LETTERS, k=length)) if unicode_ids else f"consumer-{rng.randrange(10**6)}")] = None
    return list(ids)


def _members(rng: random.Random, ids: list[str], topics: list[str], racks: list[str], unicode_ids: bool) -> list[Row]:
    share_static = rng.choice([0.0, 0.0, 0.4, 1.0])
    instances = _ids(rng, len(ids), unicode_ids)
    homogeneous = rng.random() < 0.5
    share_subscribed = rng.random()
    with_rack = rng.choice([1.0, 1.0, 0.7])
    # Racks of members: those of the brokers, few of them, some unknown to the brokers, none in common.
    member_racks = rng.choice([racks, racks, racks[:1], [*racks, "elsewhere"], ["elsewhere"]]) if racks else []
    members = []
    for member_id, instance in zip(ids, instances, strict=True):
        wanted = [t for t in topics if homogeneous or rng.random() < share_subscribed]
        rack = rng.choice(member_racks) if member_racks and rng.random() < with_rack else None
        member = {"id": member_id, "instance": instance if rng.random() < share_static else None, "rack": rack}
        members.append(member | {"topics": sorted(wanted), "owned": [], "generation": rng.choice([None, 5])})
    return members


def _replica_racks(
    rng: random.Random, partitions: dict[str, int], racks: list[str]
) -> dict[str, list[list[str | None]]] | None:
    """Striped like a careful cluster, or random; brokers without rack, topics without replicas known."""
    if not racks:
        return None
    brokers: list[str | None] = [*racks, None] if rng.random() < 0.2 else [*racks]
    replicas = rng.randint(1, len(brokers))
    style = rng.choice(["striped", "striped", "random", "everywhere"])
    share_known = rng.choice([1.0, 1.0, 0.8])
    known: dict[str, list[list[str | None]]] = {}
    for topic, count in partitions.items():
        if rng.random() > share_known:
            continue
        if style == "striped":
            known[topic] = [[brokers[(p + r) % len(brokers)] for r in range(replicas)] for p in range(count)]
        elif style == "random":
            known[topic] = [rng.sample(brokers, rng.randint(1, len(brokers))) for _ in range(count)]
        else:
            known[topic] = [list(brokers) for _ in range(count)]
    return known
