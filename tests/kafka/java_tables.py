"""Java's own hash tables, filled and walked by `java/Tables.java`, and ours beside them.

Random tables crowd their keys: texts that share their whole hash code, texts and partitions that share a bucket of
large tables, and some of everything; keys are taken out again, put in again, and the table doubles on the way.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spark_assign.assignors.connect.connectors_and_tasks import Names, copied_hash_set_order
from spark_assign.assignors.group_specs import hash_orders
from spark_assign.assignors.sticky.sticky_groups import (
    StickyGroups,
    hash_order_after_balancing,
    hash_order_while_balancing,
)
from spark_assign.java import hash_map
from tests.kafka import java_programs

Row = dict[str, Any]

RECORDED = Path(__file__).parents[1] / "unit" / "java_tables.jsonl.gz"
"""Rows with their `walk`, for a test without Java (`python -m tests.kafka.record_java_tables`)."""

_OWNED = ("balanced", "ended", "reverted")
_TOPIC_HASH = hash_map.string_hash("t")
_SAME_BUCKET = 1024


def walked_by_java(rows: Iterable[Row], class_path: str) -> list[Row]:
    """The rows with `walk`."""
    requests = list(rows)
    answers = java_programs.answers("Tables", requests, class_path)
    return [row | answer for row, answer in zip(requests, answers, strict=True)]


def walked_by_us(row: Row) -> list[str]:
    """The walk over the same table by `java.hash_map`, or by Connect's closed form for a copy."""
    if row["table"] == "copy":
        names = Names([op[1:] for op in row["ops"]])
        numbers = names.indexes()
        return [names.texts[e] for e in copied_hash_set_order([numbers[o[1:]] for o in row["ops"]], names.spread_hash)]
    if row["table"] in _OWNED:
        return _owned(row)
    table = filled(row)
    return (
        hash_map.texts_in_table_order(table.iteration_order()) if row["table"] == "second" else table.iteration_order()
    )


def _owned(row: Row) -> list[str]:
    """The sticky assignors' map of what members own, while they balance and after that."""
    listed = [op[1:] for op in row["ops"] if op[0] == "+"]
    ids = sorted(listed)
    number = {each: at for at, each in enumerate(ids)}
    alone = np.zeros(len(ids), np.int64)
    none = np.empty(0, np.int64)
    place = np.empty(len(ids), np.int64)
    place[[number[each] for each in listed]] = np.arange(len(ids))
    orders = hash_orders(hash_map.string_hashes(ids), alone, place)
    groups = StickyGroups(alone, none, none, cooperative=True, read_hash_orders=lambda: orders)
    takes_part = np.ones(len(ids), bool)
    takes_part[[number[op[1:]] for op in row["ops"] if op[0] == "-"]] = False
    if row["table"] == "balanced":
        order = np.argsort(hash_order_while_balancing(groups, takes_part))
        return [ids[at] for at in order if takes_part[at]]
    order = np.argsort(hash_order_after_balancing(groups, takes_part, reverted=row["table"] == "reverted"))
    return [ids[at] for at in order]


def filled(row: Row) -> hash_map.HashTable[str]:
    """The table of a row (of one called `second` the first)."""
    capacity = int(row["table"]) if row["table"].isdigit() else 16
    table: hash_map.HashTable[str] = (
        hash_map.HashTable(capacity) if row["keys"] == "text" else hash_map.HashTable(capacity, rank=None)
    )
    for op in row["ops"]:
        key = op[1:]
        if op[0] == "-":
            table.remove(key)
        elif row["keys"] == "partition":
            table.add(key, hash_map.partition_hash(_TOPIC_HASH, int(key)))
        else:
            table.add(key, hash_map.string_hash(key))
    return table


def tables(seed: int, number: int) -> Iterator[Row]:
    """So many random tables."""
    for at in range(number):
        yield _table(random.Random(f"{seed}-{at}"))


def _table(draw: random.Random) -> Row:
    kind = draw.choice(["text", "text", "text", "optional", "partition"])
    table = draw.choice(
        ["map", "map", "set", "copy", "second", "64", "256"] if kind == "text" else ["map", "set", "64"]
    )
    size = draw.choice([12, 40, 60, 120])
    if kind == "text" and draw.random() < 0.25:
        texts = _texts(draw, size, alike=True) + one_hash(draw, 12) + crowds()[draw.randrange(1024)][:12]
        texts = list(dict.fromkeys(texts))
        draw.shuffle(texts)
        resting = draw.sample(texts, draw.randint(0, len(texts) - 1))
        ops = [*(f"+{text}" for text in texts), *(f"-{text}" for text in resting)]
        return {"keys": kind, "table": draw.choice(_OWNED), "ops": ops}
    keys = _partitions(draw, size) if kind == "partition" else _texts(draw, size, alike=kind == "text")
    ops: list[str] = []
    there: list[str] = []
    leaving = 0.0 if table == "copy" else draw.choice([0.0, 0.3, 0.6])
    for key in keys:
        ops.append(f"+{key}")
        there.append(key)
        while there and draw.random() < leaving:
            ops.append(f"-{there.pop(draw.randrange(len(there)))}")
    while there and leaving and draw.random() < 0.9:
        ops.append(f"-{there.pop(draw.randrange(len(there)))}")
    return {"keys": kind, "table": table, "ops": ops}


def _texts(draw: random.Random, size: int, *, alike: bool) -> list[str]:
    made = [f"consumer-{draw.getrandbits(32):x}" for _ in range(draw.randint(0, size))]
    for bucket in draw.sample(range(_SAME_BUCKET), 2):
        made += crowds()[bucket][: draw.randint(0, 30)]
    if alike:
        made += one_hash(draw, draw.randint(0, 40))
    draw.shuffle(made)
    if draw.random() < 0.5:  # first some of one bucket of 64, which part as the table grows
        bucket = draw.randrange(64)
        parting = [text for apart in (0, 64, 128, 192) for text in crowds()[bucket + apart][: draw.randint(2, 9)]]
        draw.shuffle(parting)
        made = parting + made
    return list(dict.fromkeys(made))


def _partitions(draw: random.Random, size: int) -> list[str]:
    step = draw.choice([1, 64, 1024, 1 << 20])
    made = [str(draw.randrange(0, 2**31)) for _ in range(draw.randint(0, size))]
    made += [str(number * step % 2**31) for number in range(draw.randint(0, 60))]
    draw.shuffle(made)
    return list(dict.fromkeys(made))


def one_hash(draw: random.Random, number: int) -> list[str]:
    """Texts of one `String.hashCode`, up to 243."""
    return draw.sample(["".join(parts) for parts in itertools.product(["Aa", "BB", "C#"], repeat=5)], number)


@cache
def crowds() -> list[list[str]]:
    """Of each bucket of a table of 1,024 some sixty texts, most with hashes of their own."""
    found: list[list[str]] = [[] for _ in range(_SAME_BUCKET)]
    texts = [f"m-{number:x}" for number in range(60 * _SAME_BUCKET)]
    for text, spread in zip(texts, hash_map.spread_hashes(hash_map.string_hashes(texts)).tolist(), strict=True):
        found[spread & (_SAME_BUCKET - 1)].append(text)
    return found
