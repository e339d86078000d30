"""What changed between two states: runs against a plain loop over partitions."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.assignors.group_facts import FACT_TYPES, GROUP, MEMBER, OWNED_BITMAP, OWNED_SLICE
from spark_assign.comparison.kernel.drift import (
    PLANNED_GROUP,
    PRESENT_MEMBER,
    REJECTED_GROUP,
    STATE_FACTS,
    WITHHELD_BITMAP,
    find_drift,
)
from spark_assign.groups.kernel import ownership_changes
from spark_assign.numeric.arrays import compress_sorted
from spark_assign.tables.comparison import DRIFT_ROWS
from tests import slices
from tests.sizes import drawn

SCHEMA = to_arrow_schema(DRIFT_ROWS)
EVERYTHING = frozenset({"group", "member", "ownership"})
FLEET, PLAN, STORED = "fleet", "plan", "stored"
Row = dict[str, Any]
Claim = tuple[str, str, int]
"""member, topic, partition."""


@dataclass
class Side:
    """A group in one state."""

    kind: str
    members: dict[str, str | None]
    owned: set[Claim]
    assignor: str | None
    refused: str | None = None
    late: set[Claim] = field(default_factory=set)
    withheld: int = 0

    def in_the_end(self) -> set[Claim]:
        """What is owned, and what somebody gets a round later."""
        if self.kind != STORED or not self.withheld:
            return self.owned
        given = {(topic, partition) for _, topic, partition in self.owned}
        return self.owned | {claim for claim in self.late if claim[1:] not in given}

    def known(self) -> dict[str, str | None]:
        """Members that are known by name: of a stored plan those that get something."""
        if self.kind != STORED:
            return self.members
        return dict.fromkeys(member for member, _, _ in self.in_the_end())

    def figures(self) -> tuple[int, int, float | None]:
        """Members, partitions, largest over mean."""
        each = Counter(member for member, _, _ in self.in_the_end())
        partitions = len(self.owned) + self.withheld
        uneven = max(each.values()) * len(self.members) / partitions if each else None
        return len(self.members), partitions, uneven


def _words(partitions: list[int]) -> list[int]:
    bits = [0] * 8
    for partition in partitions:
        bits[partition // 64] |= 1 << partition % 64
    return [each - (1 << 64) if each >> 63 else each for each in bits]


def _owned(draw: random.Random, claims: set[Claim], kinds: tuple[int, ...]) -> Iterator[Row]:
    of_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
    for member, topic, partition in sorted(claims):
        of_pair[member, topic].append(partition)
    for (member, topic), partitions in of_pair.items():
        about = {"kind": draw.choice(kinds), "member_id": member, "topic": topic}
        if about["kind"] != OWNED_SLICE:
            words = _words(partitions)
            yield about | {"block": 0, "bits": words, "twice": words, "count": len(partitions)}
            continue
        numbers = np.array(partitions, np.int64)
        _, *columns = compress_sorted(np.zeros_like(numbers), numbers)
        for first, step, count in zip(*(column.tolist() for column in columns), strict=True):
            yield about | {"first": first, "step": step, "count": count}


def _facts(draw: random.Random, side: Side) -> Iterator[Row]:
    if side.refused is not None and side.kind != FLEET:
        yield {"kind": REJECTED_GROUP, "code": side.refused}
        yield {"kind": REJECTED_GROUP, "code": "unknown-assignor"}
        return
    if side.kind == FLEET:
        yield {"kind": GROUP, "assignor": side.assignor, "group_type": draw.choice([None, "classic"])}
    else:
        group = {"kind": PLANNED_GROUP, "assignor": side.assignor}
        names = ("members", "assigned", "max_over_mean")
        counted = dict(zip(names, side.figures(), strict=True)) | {"withheld": side.withheld}
        if side.withheld and side.owned:
            counted["max_over_mean"] = 99.0  # of the first round
        yield group | (counted if side.kind == STORED else {})
    yield from _owned(draw, side.owned, (OWNED_SLICE, OWNED_BITMAP))
    yield from _owned(draw, side.late, (WITHHELD_BITMAP,))
    for member, instance in side.members.items() if side.kind != STORED else ():
        yield {"kind": PRESENT_MEMBER, "member_id": member, "group_instance_id": instance, "client_id": f"of {member}"}
        if side.kind == FLEET:
            times = 1 if side.refused is None else 2
            yield from times * [{"kind": MEMBER, "member_id": member, "group_instance_id": instance}]


def _deal(draw: random.Random, members: list[str], conflicts: bool) -> set[Claim]:
    claims: set[Claim] = set()
    for topic in ("t", "u", "v")[: draw.randrange(4)]:
        step = draw.randrange(1, 4)
        for partition in range(0, draw.randrange(1, 200), draw.choice([1, 1, 2])):
            if draw.random() < 0.95:
                claims.add((members[partition // 7 * step % len(members)], topic, partition))
            if conflicts and draw.random() < 0.1:
                claims.add((draw.choice(members), topic, partition))
    return claims


def _side(draw: random.Random, kind: str) -> Side:
    members = {f"m{n}": draw.choice([None, f"i{n}"]) for n in draw.sample(range(6), draw.randrange(1, 6))}
    if kind == STORED:
        members = dict.fromkeys(members)
    owned = _deal(draw, sorted(members), conflicts=draw.random() < 0.3)
    return Side(kind, members, owned, draw.choice([None, "range", "sticky"]))


def _later(draw: random.Random, before: Side, kind: str) -> Side:
    """The same group in another state."""
    members, named = {}, {}
    for member, instance in before.members.items():
        if draw.random() < 0.2 and len(before.members) > 1:
            continue
        named[member] = f"{member}-again" if draw.random() < 0.3 else member
        members[named[member]] = None if kind == STORED else instance
    members |= {f"n{n}": draw.choice([None, f"j{n}"]) for n in range(draw.randrange(2))} if kind != STORED else {}
    members = members or {"n": None}
    somebody = sorted(members)
    owned = {(named.get(m, draw.choice(somebody)), t, p) for m, t, p in before.owned if draw.random() < 0.97}
    if draw.random() < 0.3:
        owned = _deal(draw, somebody, conflicts=draw.random() < 0.3)
    return Side(kind, members, owned, draw.choice([before.assignor, None, "range"]))


def _finish(draw: random.Random, side: Side) -> Side:
    if draw.random() < 0.1:
        side.refused = "duplicate-member" if side.kind == FLEET else draw.choice(["no-assignor", "null-key"])
    if side.kind == STORED and draw.random() < 0.6:
        given = {(topic, partition) for _, topic, partition in side.owned}
        late = {("w", partition): draw.choice(sorted(side.members)) for partition in range(draw.randrange(1, 30))}
        side.late = {(member, *key) for key, member in late.items()}
        side.withheld = len(late) if draw.random() < 0.8 else 0
        # Partitions that another member gives up and somebody has already.
        side.late |= {(draw.choice(sorted(side.members)), *key) for key in sorted(given)[:3]}
    return side


def _expected(before: Side | None, after: Side | None) -> tuple[set[Any], Counter[Any], Row]:
    """Members, ownership and the group's row, by a loop over partitions."""
    sides = (before, after)
    trusted = not any(side is not None and side.refused for side in sides)
    then, now = (side.known() if side and trusted else {} for side in sides)
    gone, new = ({name: each[name] for name in each.keys() - other} for each, other in ((then, now), (now, then)))
    instances = {instance: name for name, instance in gone.items() if instance is not None}
    members = {(name, "restarted" if i in instances else "joined", instances.get(i), i) for name, i in new.items()}
    again = {previous: name for name, change, previous, _ in members if change == "restarted"}
    members |= {(name, "left", None, instance) for name, instance in gone.items() if name not in again}
    had, has = (side.in_the_end() if side and trusted else set() for side in sides)
    had = {(again.get(name, name), topic, partition) for name, topic, partition in had}
    lost, won = (defaultdict(list), defaultdict(list))
    for claims, found in ((had - has, lost), (has - had, won)):
        for name, topic, partition in claims:
            found[topic, partition].append(name)
    owners: Counter[Any] = Counter()
    for key in {*lost, *won}:
        for from_member in lost.get(key, [None]):
            for to_member in won.get(key, [None]):
                change = "newly-owned" if from_member is None else "no-longer-owned" if to_member is None else "moved"
                owners[(*key, from_member, to_member, change)] += 1
    row: Row = Counter(change for _, change, _, _ in members)
    row = {name: row[name] for name in ("joined", "left", "restarted")}
    for change in ("moved", "newly-owned", "no-longer-owned"):
        row[change.replace("-", "_")] = sum(number for key, number in owners.items() if key[-1] == change)
    changed = any(row.values())
    for when, side in zip(("before", "after"), sides, strict=True):
        figures = (None, None, None) if side is None or side.refused else side.figures()
        row |= dict(zip((f"{n}_{when}" for n in ("members", "partitions", "max_over_mean")), figures, strict=True))
        row[f"rejected_{when}"] = side and side.refused
        hidden = side is None or (side.refused and side.kind != FLEET)
        row[f"assignor_{when}"] = None if hidden or side is None else side.assignor
    for name in ("assignor", "members"):
        changed |= None not in (both := (row[f"{name}_before"], row[f"{name}_after"])) and both[0] != both[1]
    changed |= row["rejected_before"] != row["rejected_after"]
    row["change"] = "added" if before is None else "removed" if after is None else "changed" if changed else "unchanged"
    return members, owners, row


def _table(draw: random.Random, groups: dict[str, tuple[Side | None, Side | None]]) -> pa.Table:
    rows = [
        {"cluster": "c", "group_id": name, "after": after} | fact
        for name, sides in groups.items()
        for after, side in enumerate(sides)
        if side is not None
        for fact in _facts(draw, side)
    ]
    draw.shuffle(rows)
    rows = [row | {"after": bool(row["after"])} for row in rows]
    return pa.Table.from_pylist(rows, schema=pa.schema({**FACT_TYPES, **STATE_FACTS}))


@pytest.mark.parametrize("then", [FLEET, PLAN, STORED])
@pytest.mark.parametrize("now", [FLEET, PLAN, STORED])
def test_drift_is_that_of_a_plain_loop(then: str, now: str, seed: int) -> None:
    """Members, ownership and figures of random groups, in conflict, rejected, or on one side only."""
    draw = random.Random(f"{seed} {then} {now}")
    groups: dict[str, tuple[Side | None, Side | None]] = {}
    for number in range(drawn(60, 150)):
        before = _side(draw, then)
        after = _finish(draw, _later(draw, before, now))
        before = _finish(draw, before)
        groups[f"g{number}"] = draw.choice([(before, after)] * 8 + [(None, after), (before, None)])
    tables = find_drift(_table(draw, groups), (then != FLEET, now != FLEET), EVERYTHING, SCHEMA)
    rows = [row for table in tables for row in table.to_pylist()]
    assert len([row for row in rows if row["kind"] == "group"]) == len(groups)
    of_group: dict[str, list[Row]] = {}
    for row in rows:
        of_group.setdefault(row["group_id"], []).append(row)
    for name, sides in groups.items():
        members, owners, expected = _expected(*sides)
        found = of_group[name]
        about = ("member_id", "change", "previous_member_id", "group_instance_id")
        member_rows = [row for row in found if row["kind"] == "member"]
        assert {tuple(row[each] for each in about) for row in member_rows} == members
        assert len(member_rows) == len(members)
        has_clients = {"joined": now, "restarted": now, "left": then}
        for row in member_rows:
            assert row["client_id"] == (None if has_clients[row["change"]] == STORED else f"of {row['member_id']}")
        about = ("from_member_id", "to_member_id", "change")
        assert owners == Counter(
            (row["topic"], partition, *(row[each] for each in about))
            for row in [row for row in found if row["kind"] == "ownership"]
            for partition in slices.partitions(row)
        )
        [row] = [row for row in found if row["kind"] == "group"]
        assert {each: row[each] for each in expected} == pytest.approx(expected, nan_ok=True)


def test_what_is_in_the_same_run_is_never_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that both sides have costs nothing, however long it is; one that differs is looked at."""
    looked: list[int] = []
    one_by_one = ownership_changes._compare_partitions

    def counting(held: Any, claims: Any, target: Any, *others: Any) -> Any:
        looked.append(int(claims.count.sum() + target.count.sum()))
        return one_by_one(held, claims, target, *others)

    monkeypatch.setattr(ownership_changes, "_compare_partitions", counting)
    long = {"kind": OWNED_SLICE, "member_id": "m", "topic": "t", "first": 0, "step": 1, "count": 2_000_000_000}
    short = {"kind": OWNED_SLICE, "member_id": "m", "topic": "u", "first": 0, "step": 2, "count": 3}
    rows = [
        {"cluster": "c", "group_id": "g", "after": a, "kind": PLANNED_GROUP, "assignor": "range"} for a in (False, True)
    ]
    for after, count in ((False, 3), (True, 2)):
        rows += [{"cluster": "c", "group_id": "g", "after": after, **run} for run in (long, {**short, "count": count})]
    table = pa.Table.from_pylist(rows, schema=pa.schema({**FACT_TYPES, **STATE_FACTS}))
    found = [row for each in find_drift(table, (True, True), EVERYTHING, SCHEMA) for row in each.to_pylist()]
    assert looked == [5]
    [row] = [row for row in found if row["kind"] == "ownership"]
    assert (row["topic"], row["first"], row["count"], row["change"]) == ("u", 4, 1, "no-longer-owned")
    [group] = [row for row in found if row["kind"] == "group"]
    assert (group["partitions_before"], group["partitions_after"]) == (2_000_000_003, 2_000_000_002)


def test_columns_that_no_fact_uses_may_be_left_out() -> None:
    """Two fleets have none of the columns of stored plans; only the wanted kinds of rows are returned."""
    rows = [
        {"cluster": "c", "group_id": "g", "after": True, "kind": PRESENT_MEMBER, "member_id": "m"},
        {"cluster": "c", "group_id": "g", "after": True, "kind": GROUP, "group_type": "share"},
        {"cluster": "c", "group_id": "other", "after": True, "kind": GROUP, "group_type": "share"},
    ]
    columns = {name: FACT_TYPES[name] for name in ("cluster", "group_id", "kind", "member_id", "group_type")}
    table = pa.Table.from_pylist(rows, schema=pa.schema({**columns, "after": pa.bool_()}))
    found = pa.concat_tables(find_drift(table, (False, False), {"group"}, SCHEMA))
    assert found.schema == SCHEMA
    [row] = found.to_pylist()
    assert (row["group_id"], row["change"], row["members_after"], row["joined"]) == ("g", "added", 1, 1)
