"""Rebalances of a release of Kafka Connect before 3.4, and of 3.4.0 to 3.5.1: what our kernel answers to a sequence.

A row is one of `README-other.md`, section 2, without states: the leader never changes, so that its state follows from
its earlier rounds. `expect` has `assigned` in the order in which workers receive it, `revoked`, and `delay_ms`.
"""

from __future__ import annotations

from pathlib import Path

from spark_assign.assignors.connect.connectors_and_tasks import serialized_order, split_items
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceResult
from spark_assign.assignors.connect.release_rules import find_rules
from tests.golden.connect_rows import Listed, Row, RowNames, rebalance_input

FILE = Path(__file__).parent / "connect-releases.jsonl.gz"
NEIGHBORS = {"2.5.0": ("2.5.1",), "2.6.1": ("2.5.0", "2.6.2"), "3.3.2": ("3.2.3", "3.4.0"), "3.5.1": ("3.3.2", "3.5.2")}
"""Release of each profile to those of the profiles before and after it, which answer every recorded sequence otherwise;
`connect-2.6.jsonl.gz` has rows of 2.6.2, and `connect.jsonl.gz` of 4.x."""


def plan(row: Row, row_names: RowNames, state: AssignorState, release: str) -> RebalanceResult:
    """Returns the result of a round by the rules of a release, from the state that its leader has."""
    return find_rules(f"sessioned@{release}")[0].assign(rebalance_input(row, row_names, state))


def answer(row: Row, row_names: RowNames, result: RebalanceResult) -> Row:
    """A result in the form of `expect`, revoked items in sets."""
    revoked = {row_names.workers.texts[worker]: items for worker, items in result.revoked.items()}
    hashes = row_names.connectors.spread_hash
    sent = (serialized_order(*split_items(items), hashes) for items in result.assigned)
    return {
        "assigned": {name: row_names.listed([*c, *t]) for name, (c, t) in zip(row["member_order"], sent, strict=True)},
        "revoked": {name: in_sets(row_names.listed(revoked.get(name, ()))) for name in row["member_order"]},
        "delay_ms": result.delay_ms,
    }


def expected(row: Row) -> Row:
    """`expect`, revoked items in sets."""
    return row["expect"] | {"revoked": {name: in_sets(of) for name, of in row["expect"]["revoked"].items()}}


def in_sets(listed: Listed) -> dict[str, set[str]]:
    """Lists whose order doesn't matter."""
    return {kind: set(items) for kind, items in listed.items()}


def different(rows: list[Row], release: str) -> list[str]:
    """Sequences and rounds that a release answers otherwise; of a sequence, only the first one."""
    found: dict[str, str] = {}
    sequences: dict[str, tuple[RowNames, AssignorState]] = {}
    for row in rows:
        sequence = row["sequence"]
        row_names, state = sequences.get(sequence, (RowNames(row["names"], row["worker_names"]), AssignorState()))
        result = plan(row, row_names, state, release)
        sequences[sequence] = row_names, result.state
        if sequence not in found and answer(row, row_names, result) != expected(row):
            found[sequence] = f"{sequence}/{row['round']}"
    return list(found.values())
