"""Random groups, fresh at every run, planned by franz-go's own balancers in several processes: sure is sure."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.golden import franz_go_rows
from tests.golden.franz_go_rows import Answer, Owners
from tests.golden.vectors import Row
from tests.kafka import client_libraries, fetched, random_groups

pytestmark = [pytest.mark.kafka, pytest.mark.once]

SOURCE = Path(__file__).parents[1] / "go"
PROCESSES = 6
GROUPS = 150


@pytest.fixture(scope="module", params=["go.mod", "go-1.21.7.mod", "go-1.20.5.mod"])
def balance(request: pytest.FixtureRequest) -> tuple[Path, str]:
    """The program that runs franz-go, and our name of its release; skips if there is no Go or no franz-go."""
    release = {"go.mod": "", "go-1.21.7.mod": "-1.21", "go-1.20.5.mod": "-1.20"}[request.param]
    with fetched.or_skipped():
        return client_libraries.go_program(SOURCE, "balance", request.param), f"franz-go{release}"


def answered(program: Path, rows: list[Row]) -> list[Owners | None]:
    """What one process of franz-go answers to each row; a row that stops it has no answer."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode and len(rows) == 1:
        assert "index out of range" in done.stderr, done.stderr
        return [None]
    if done.returncode:
        return [answer for row in rows for answer in answered(program, [row])]
    return [franz_go_rows.owners(json.loads(line)) for line in done.stdout.splitlines()]


def generated(strategy: str, seed: int, *, racks: bool) -> list[Row]:
    """Random groups; where no member tells a generation, all tell the same, which is what is then taken for granted."""
    rows = list(random_groups.groups(strategy, seed, small=GROUPS, mid_size=0))
    for row in rows:
        known = row["replica_racks"] if racks else None
        row["replica_racks"] = known
        if known is not None:
            row["leader_racks"] = {topic: [each[0] or "" for each in replicas] for topic, replicas in known.items()}
        if all(each["generation"] is each.get("user_generation") is None for each in row["members"]):
            for each in row["members"]:
                each["generation"] = 1
                each.pop("user_generation", None)
    return [row for row in rows if row["members"]]


@pytest.mark.parametrize("strategy", random_groups.STICKY)
def test_what_is_called_sure_is_the_same_in_every_process(strategy: str, balance: tuple[Path, str], seed: int) -> None:
    """Nothing that the plan calls sure ever differs; every answer is whole, and ours one of those that may come."""
    program, library = balance
    rows = generated(strategy, seed, racks=library == "franz-go-1.21")
    for row in rows:
        row["profile"] = f"{strategy}@{library}"
    planned = franz_go_rows.planned(rows, f"{strategy}@{library}")
    independent, came = 0, 0
    for process in range(PROCESSES):
        for row, theirs in zip(rows, answered(program, rows), strict=True):
            answer: Answer = planned[row["case"]]
            # Up to 1.21.3, a stale claim can stop the leader, or lead to two owners; then nothing is called sure.
            may_stop = library == "franz-go-1.20" and answer.order_dependent >= answer.assigned.keys()
            if theirs is None:
                assert may_stop, row["case"]
                continue
            wrong = franz_go_rows.wrong(answer, theirs)
            assert not wrong, f"{row['case']}, process {process}: {sorted(wrong)[:5]}"
            if strategy == "sticky" and not may_stop:
                assert franz_go_rows.broken(row, theirs) == [], f"{row['case']}"
            independent += not answer.order_dependent
            came += answer.assigned == theirs
    for row in rows:
        answer = planned[row["case"]]
        assert franz_go_rows.broken(row, answer.assigned, answer.withheld) == [], f"{row['case']}"
    assert 0.3 * PROCESSES * len(rows) < independent <= came < PROCESSES * len(rows)


@pytest.mark.parametrize("balance", ["go-1.21.7.mod"], indirect=True)
def test_range_of_1_21_is_the_same(balance: tuple[Path, str], seed: int) -> None:
    """No partition differs, and the racks of leaders matter."""
    program, library = balance
    rows = generated("range", seed, racks=True)
    planned, without = (franz_go_rows.planned(rows, f"range@{name}") for name in (library, "franz-go"))
    for row, theirs in zip(rows, answered(program, rows), strict=True):
        assert planned[row["case"]].assigned == theirs, row["case"]
    assert sum(planned[row["case"]].assigned != without[row["case"]].assigned for row in rows) > len(rows) / 10
