"""Recorded histories of groups through the kernels of the sticky assignors alone."""

from __future__ import annotations

import pytest

from tests.golden import sticky_kernel, vectors

pytestmark = pytest.mark.once


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_recorded_histories_from_our_own_rounds(strategy: str) -> None:
    """Histories of a group: what members own in a round is what we gave them in the round before."""
    histories = _histories(strategy)
    ours: dict[str, vectors.Sets] = {name: {} for name in histories}
    for number in range(max(map(len, histories.values()))):
        rows = {name: history[number] for name, history in histories.items() if number < len(history)}
        fed = [row | {"case": name, "members": _members(row, ours[name])} for name, row in rows.items()]
        answer = sticky_kernel.planned(fed, strategy)
        expected = vectors.expected_sets(row | {"case": name} for name, row in rows.items())
        differences = vectors.differences(expected, answer.sets)
        assert not differences, f"round {number}, {len(differences)} groups differ:\n" + "\n".join(differences[:20])
        for name in rows:
            ours[name] = answer.sets.get(name, {}) if name not in answer.refused else {}


def test_rounds_are_as_many_as_were_recorded() -> None:
    """A recorded event, and the rounds that follow it until nobody has to give up anything (12 at most)."""
    recorded = {}
    for history in _histories("cooperative-sticky").values():
        begins = [at for at, row in enumerate(history) if row["event"] != "followup"]
        for begin, end in zip(begins, [*begins[1:], len(history)], strict=True):
            if all(row["expect"] is not None for row in history[begin:end]):
                recorded[history[begin]["case"]] = history[begin], end - begin
    counted = sticky_kernel.counted_rounds([row for row, _ in recorded.values()], limit=13)
    assert counted == {case: number for case, (_, number) in recorded.items()}
    assert max(counted.values()) > 2


def _histories(strategy: str) -> dict[str, list[vectors.Row]]:
    """The 200 recorded histories, by name; each its rounds in order."""
    histories: dict[str, list[vectors.Row]] = {}
    for row in vectors.cases(strategy):
        if "sequence" in row:
            histories.setdefault(row["sequence"], []).append(row)
    assert len(histories) == 200
    return {name: sorted(rows, key=lambda row: row["round"]) for name, rows in histories.items()}


def _members(row: vectors.Row, ours: vectors.Sets) -> list[vectors.Row]:
    """The row's members, owning what we gave them but for topics that their clients have dropped since."""
    return [
        m | {"owned": sorted(ours[m["id"]] & {(t, p) for t, p in m["owned"]})} if m["id"] in ours else m
        for m in row["members"]
    ]
