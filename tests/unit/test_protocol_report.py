"""Simulations as text and as pictures, from rows made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_assign.report import group_pictures, simulation
from spark_assign.report.group_pictures import draw_ownership
from spark_assign.report.sequence_diagram import draw_sequence, excerpt, sequence_diagram, short_name
from spark_assign.simulation.scenarios import LocalSimulation

TraceRow = tuple[int, str, str | None, str, str]

JOIN: list[TraceRow] = [
    (10_000, "event", "c3", "member-starts", "member_id=c3"),
    (10_000, "event", None, "topic-created", "u"),
    (10_000, "c3", "coordinator", "JoinGroup", "range, cooperative-sticky; owns nothing"),
    (10_000, "coordinator", None, "state", "PreparingRebalance"),
    (12_000, "c1", "coordinator", "Heartbeat", "generation 1"),
    (12_000, "coordinator", "c1", "Heartbeat response", "REBALANCE_IN_PROGRESS"),
    (12_500, "c1", None, "revoked", "t-0 t-1"),
    (12_500, "coordinator", "c1", "JoinGroup response", "generation 2"),
]


def trace(rows: list[TraceRow]) -> list[dict[str, Any]]:
    """Rows of a trace."""
    names = ("at_ms", "actor", "receiver", "message", "detail")
    key = {"cluster": "c", "group_id": "g", "generation_id": 1}
    return [key | {"seq": seq} | dict(zip(names, row, strict=True)) for seq, row in enumerate(rows)]


def ownership(members: int = 2, partitions: int = 3, steps: int = 1) -> list[dict[str, Any]]:
    """Partitions that go from one member to the next and pause on the way."""
    states = ("consumed", "revoking", "unowned", "restoring", "down")
    return [
        {
            "cluster": "c",
            "group_id": "g",
            "topic": "t",
            "partition": partition,
            "state": state,
            "start_ms": 1_000 * (step * len(states) + at),
            "end_ms": 1_000 * (step * len(states) + at + 1),
            **dict.fromkeys(
                ("member_id", "first_member_id"), None if state == "unowned" else f"c{(partition + step) % members}"
            ),
        }
        for partition in range(partitions)
        for step in range(steps)
        for at, state in enumerate(states)
    ]


REBALANCES = [{"generation_id": 2, "start_ms": 1_000, "joined_ms": 2_000, "end_ms": 3_000}]


def test_a_sequence_diagram() -> None:
    """Answers are dashed, what happens without a message is a note."""
    assert sequence_diagram(list(reversed(trace(JOIN)))) == (
        "sequenceDiagram\n"
        "    participant C as coordinator\n"
        "    participant m1 as c1\n"
        "    participant m2 as c3\n"
        "    Note over m2: 10 s member-starts: member_id=c3\n"
        "    Note over C,m2: 10 s topic-created: u\n"
        "    m2->>C: 10 s JoinGroup: range, cooperative-sticky#59; owns nothing\n"
        "    Note over C: 10 s state: PreparingRebalance\n"
        "    m1->>C: 12 s Heartbeat: generation 1\n"
        "    C-->>m1: 12 s Heartbeat response: REBALANCE_IN_PROGRESS\n"
        "    Note over m1: 12.5 s revoked: t-0 t-1\n"
        "    C-->>m1: 12.5 s JoinGroup response: generation 2\n"
    )


def test_a_long_trace_is_cut() -> None:
    """And says how much is missing."""
    text = sequence_diagram(trace([(at, "c1", "coordinator", "Heartbeat", "") for at in range(60)] + JOIN))
    assert text.splitlines()[-1] == "    Note over C,m1: 8 of 68 rows left out"
    assert text.count("Heartbeat") == 60
    assert "JoinGroup" not in text


def test_a_large_group_is_thinned() -> None:
    """The members that appear first, and those with the highest ids."""
    joins = [(at, f"c{m}", "coordinator", "JoinGroup", "") for at, m in enumerate((5, 9, 1, 2, 7, 3, 8, 0, 6, 4))]
    story = excerpt(trace(joins))
    assert story.actors == ["coordinator", "c1", "c2", "c4", "c5", "c6", "c7", "c8", "c9"]
    assert story.left_out == ["2 of 10 rows left out, among them all of other members"]
    assert [line.actor for line in story.lines] == ["c5", "c9", "c1", "c2", "c7", "c8", "c6", "c4"]


def test_names_that_mermaid_would_misread() -> None:
    """They become its codes."""
    text = sequence_diagram(trace([(0, "a#1;%", None, "event", "member-leaves at the end")]))
    assert "participant m1 as a#35;1#59;#37;\n" in text
    assert text.splitlines()[-1].endswith("at the #101;nd")
    text = sequence_diagram(trace([(0, "wrap:style:;", None, "event", "ﬂ°°60¶ß")]))
    assert "participant m1 as wrap#58;#115;tyle:#59;\n" in text
    assert text.splitlines()[-1].endswith("#64258;#176;#176;60#182;ß")


def test_an_empty_trace() -> None:
    """Nobody says anything."""
    assert sequence_diagram([]) == "sequenceDiagram\n    participant C as coordinator\n"


def test_the_sequence_drawn(tmp_path: Path) -> None:
    """A picture of the kind that the name says; a long one, too."""
    pytest.importorskip("vl_convert", reason="drawing is an extra")
    draw_sequence(trace(JOIN * 8), str(tmp_path / "story.svg"), "a story")
    draw_sequence([], str(tmp_path / "nothing.png"))
    draw_sequence(trace([(0, "coordinator", "coordinator", "JoinGroup", "")]), str(tmp_path / "member.svg"))
    assert "</svg>" in (tmp_path / "story.svg").read_text()
    assert (tmp_path / "nothing.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("partitions", "steps"), [(3, 1), (150, 2)])
def test_a_timeline(partitions: int, steps: int, tmp_path: Path) -> None:
    """Few partitions and many, with owners that come back under a new id."""
    pytest.importorskip("vl_convert", reason="drawing is an extra")
    rows = ownership(40, partitions, steps)
    rows[0] |= {"member_id": "c0~2"}
    both = {"eager": rows, "cooperative": rows[: len(rows) // 2]}
    draw_ownership(both, dict.fromkeys(both, REBALANCES), str(tmp_path / "time.svg"), "a story", 2 * partitions)
    assert "</svg>" in (tmp_path / "time.svg").read_text()


def test_a_member_that_is_called_like_another_one_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its own color and label. A member that has restarted keeps its own."""
    drawn = list[Any]()
    monkeypatch.setattr(group_pictures.charts, "write_chart", lambda chart, _: drawn.append(chart.spec))
    names = {"c0": "pay", "c1": "pay~2", "c2": "pay~2\n"}
    ids = ("member_id", "first_member_id")
    rows = [row | dict.fromkeys(ids, names.get(row["member_id"])) for row in ownership(3)]
    rows[-1]["first_member_id"] = None  # of an earlier release
    restarted = {"member_id": "pay~3", "first_member_id": "pay", "start_ms": 9_000, "end_ms": 9_500}
    draw_ownership({"eager": [*rows, rows[0] | restarted]}, {"eager": REBALANCES}, "")
    legend = drawn[0]["hconcat"][1]["layer"][0]["data"]["values"]
    owners = [(each["words"], each["ink"]) for each in legend if "pay" in each["words"]]
    assert [words for words, _ in owners] == [short_name(name) for name in names.values()]
    assert len({ink for _, ink in owners}) == len(names)


def test_a_timeline_in_which_nothing_happens(tmp_path: Path) -> None:
    """All is consumed all the time; and a group without partitions."""
    pytest.importorskip("vl_convert", reason="drawing is an extra")
    for name, rows in (("calm", [row | {"state": "consumed"} for row in ownership()[:1]]), ("empty", [])):
        draw_ownership({"eager": rows}, {}, str(tmp_path / f"{name}.png"))
        assert (tmp_path / f"{name}.png").stat().st_size > 0


def cost(group: str = "g", lost: int = 90_500, **more: Any) -> dict[str, Any]:
    """A row of availability, or a variant's total."""
    row = {"cluster": "c", "group_id": group, "partitions": 3, "rebalances": 1, "members_restarted": 0}
    row |= {"partition_ms": 1_000_000, "paused_partition_ms": lost, "longest_pause_ms": 30_200}
    return row | {"longest_pause_topic": "t", "longest_pause_partition": 1} | more


def test_a_line_per_protocol() -> None:
    """In seconds, with the partition that pauses longest, and its group where there are several."""
    row = cost()
    text = simulation.format_variants({"eager": row | {"groups": 1, "longest": row}, "static": _nothing()})
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["eager", "1", "1", "0", "90.5", "30.2", "s", "t-1"],
        ["static", "0", "0", "0", "0.0", "0.0", "s", "–"],
    ]
    assert "c/g t-1" in simulation.format_variants({"eager": row | {"groups": 2, "longest": row}})


def _nothing() -> dict[str, Any]:
    """The sums of no rows."""
    return {**dict.fromkeys(cost()), "groups": 0, "longest": None}


def test_a_line_per_group() -> None:
    """In the order given; a group that one variant lacks has a dash there."""
    text = simulation.format_groups(
        [("c", "h"), ("c", "g")], {"eager": [cost(), cost("h")], "cooperative": [cost(lost=1_000)]}
    )
    assert text.splitlines()[2].split() == ["c/h", "3", "1", "/", "90.5", "/", "30.2", "s", "–"]
    assert text.splitlines()[3].endswith("1 / 90.5 / 30.2 s  1 / 1.0 / 30.2 s")


def test_a_comparison() -> None:
    """Four variants and three ratios; a ratio that there is none of is a dash."""
    parts = ("paused_partition_ms", "longest_pause_ms", "rebalances", "unowned_at_end")
    costs = {f"{name}_{part}": 1_000 for name in ("eager", "cooperative", "static", "consumer") for part in parts}
    ratios = {"cooperative_ratio": 0.5, "static_ratio": None, "consumer_ratio": 0.75}
    head, line = simulation.COMPARED.lines([{"cluster": "c", "group_id": "g", **costs, **ratios}], 1)[2:]
    assert head.split() == ["group", *("eager", "cooperative", "static", "consumer")] + [
        f"{name}/eager" for name in ("cooperative", "static", "consumer")
    ]
    assert line.split()[-3:] == ["0.50", "–", "0.75"]
    assert "1.0 s, 1,000 never" in line


def test_an_open_cost_is_not_compared() -> None:
    """Partitions that never return are named, in a line of the variant and in the cells of the group."""
    rows = {name: cost(lost=lost) for name, lost in (("eager", 10_000), ("cooperative", 1_000), ("static", 500))}
    rows["cooperative"]["unowned_at_end"] = 2
    availability = [row | {"variant": name} for name, row in rows.items()]
    simulated = LocalSimulation(tuple(rows), (), availability, trace=(), ownership=(), rejected=())
    lines = simulation.summarize_local_simulation(simulated)[0].splitlines()
    assert lines[-2:] == [
        "Savings compared with eager: static 95%.",
        "cooperative: 2 partitions without an owner at the end, so the cost is open.",
    ]
    assert "30.2 s, 2 never" in simulation.format_groups([("c", "g")], {"cooperative": [rows["cooperative"]]})


def test_what_would_be_saved() -> None:
    """Of what eager costs; nothing is said where that is nothing, or not known."""
    costs = {"configured": 7, "consumer": 250, "cooperative": 500, "eager": 1_000}
    assert simulation.format_savings(costs) == ["Savings compared with eager: cooperative 50%, consumer 75%."]
    assert simulation.format_savings({"eager": 100, "static": 150}) == ["Savings compared with eager: static -50%."]
    for nothing in ({"eager": 0, "static": 1}, {"cooperative": 5}, {"eager": 5}):
        assert simulation.format_savings(nothing) == []
