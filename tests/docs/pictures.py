"""Pictures of the pages that no command draws: from the output and the tables of the pages, which other tests prove.

.venv/bin/python -m tests.docs.pictures     # writes them to docs/
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from spark_assign.assignors import group_facts as facts
from spark_assign.groups.kernel.plan_groups import PlanParams, plan_groups
from spark_assign.report import charts
from spark_assign.report.charts import Chart, channel, color
from tests.docs import given
from tests.docs.pages import ROOT, steps

Cells = Iterable[Mapping[str, Any]]


def size_curve() -> Chart:
    """docs/size.md: the load of the most loaded member by the number of members."""
    (shown,) = [step.shown for step in steps(ROOT / "docs/size.md") if step.text.endswith("--details orders-service")][
        :1
    ]
    capacity = int(re.findall(r"a member handles (\d+) messages/s", shown[0])[0])
    rows = [re.match(r" *(\d+)( \(current\))? +[\d,]+ +([\d,]+) .* (yes|no)$", line) for line in shown[2:]]
    points = [{"members": int(row[1]), "load": int(row[3].replace(",", ""))} for row in rows if row]
    current, needed = (
        next(int(row[1]) for row in rows if row and row[of] == word) for of, word in ((2, " (current)"), (4, "yes"))
    )
    x = channel("members:Q", axis={"title": "members", "tickCount": 10})
    y = channel("load:Q", axis={"title": "peak of the most loaded member, messages/s"})
    base = charts.chart_of(points).encode(x=x, y=y)
    limit = charts.chart_of(
        [{"load": capacity, "members": points[-1]["members"], "words": f"a member handles {capacity}"}]
    )
    named = [
        {**point, "words": f"{word}: {point['members']} members"}
        for point in points
        for word, at in (("now", current), ("needed", needed))
        if point["members"] == at
    ]
    names = charts.chart_of(named).encode(x=x, y=y)
    return charts.layer(
        base.mark("line", color=color("is"), strokeWidth=2.5, point={"color": color("is")}),
        limit.mark("rule", color=color("problem"), strokeDash=[6, 4]).encode(y=y),
        limit.mark("text", align="right", dy=26, color=color("problem")).encode(x=x, y=y, text="words:N"),
        names.mark("point", filled=True, size=110, color=color("text")).encode(),
        names.mark("text", align="left", dx=8, dy=-26, color=color("text")).encode(text="words:N"),
    ).properties(width=620, height=240)


def zone_flows() -> Chart:
    """docs/zones.md: what the members of each zone read from each zone, from leaders and with follower fetching."""
    zones = {row["broker_id"]: row["rack_id"] for row in given.ZONES["brokers"]}
    replicas = {
        (row["topic"], row["partition"]): [zones[each] for each in row["replicas"]] for row in given.ZONES["replicas"]
    }
    rates = {(row["topic"], row["partition"]): row["in_bytes_per_second"] for row in given.ZONES["loads"]}
    racks = {row["member_id"]: row["rack_id"] or "unknown" for row in given.ZONES["members"]}
    panels = []
    for title, fetching in (("From leaders", False), ("With follower fetching", True)):
        flows: dict[tuple[str, str], float] = defaultdict(float)
        for row in given.ZONES["owned"]:
            near, held = racks[row["member_id"]], replicas[row["topic"], row["partition"]]
            flows[near, near if fetching and near in held else held[0]] += rates[row["topic"], row["partition"]]
        cells = [
            {
                "read from zone": source,
                "by members in zone": reader,
                "words": f"{flow * 86_400 / 1e9:,.0f} GB",
                "same": source == reader,
            }
            for (reader, source), flow in sorted(flows.items())
        ]
        panels.append(
            _grid(cells, "read from zone", "by members in zone", "same", [86, 40]).properties(title=f"{title}, a day")
        )
    return charts.hconcat(*panels)


def range_and_sticky() -> Chart:
    """docs/assignors.md: twelve partitions, of which C0, C1 and C2 own four each; C0 leaves."""
    owners = {partition: f"C{partition // 4}" for partition in range(12)}
    panels = [("Before", owners)]
    for assignor in ("range", "sticky"):
        after = _planned(assignor, {p: owner for p, owner in owners.items() if owner != "C0"})
        moved = sum(after[partition] != owner for partition, owner in owners.items())
        panels.append((f"C0 leaves, {assignor}: {moved} partitions move", after))
    drawn = []
    for title, after in panels:
        cells = [
            {"partition": f"p{p}", "member": owner, "words": owner, "same": owner == owners[p]}
            for p, owner in sorted(after.items())
        ]
        drawn.append(_grid(cells, "partition", "member", "same", [46, 26]).properties(title=title))
    return charts.vconcat(*drawn, spacing=14)


def _planned(assignor: str, owned: Mapping[int, str]) -> dict[int, str]:
    """Returns the owner of each of twelve partitions of t0 that an assignor of Kafka chooses for C1 and C2."""
    rows: list[dict[str, Any]] = []
    for member in ("C1", "C2"):
        rows += [{"kind": facts.MEMBER}, {"kind": facts.SUBSCRIPTION, "topic": "t0", "partitions": 12}]
        mine = [p for p, owner in owned.items() if owner == member]
        rows += [
            {"kind": facts.OWNED_SLICE, "topic": "t0", "partitions": 12, "first": p, "step": 1, "count": 1}
            for p in mine
        ]
        rows = [{"member_id": member, **row} for row in rows]
    table = pa.Table.from_pylist(
        [{"cluster": "c", "group_id": "g", **row} for row in rows], schema=pa.schema(facts.FACT_TYPES)
    )
    planned = [
        row for part in plan_groups(table, PlanParams((("*", assignor),), (assignor,))) for row in part.to_pylist()
    ]
    slices = [row for row in planned if row["kind"] == "assigned"]
    return {
        row["first"] + at * row["step"]: row["member_id"]
        for row in sorted(slices, key=lambda row: int(row["first"]))
        for at in range(row["count"])
    }


def _grid(cells: Cells, across: str, down: str, calm: str, size: list[int]) -> Chart:
    """Returns cells with words; those that aren't calm are in the color of a problem."""
    x = channel(f"{across}:O", sort=None, axis={"title": across, "labelAngle": 0, "ticks": False, "domain": False})
    y = channel(f"{down}:O", axis={"title": down, "ticks": False, "domain": False})
    base = charts.chart_of(list(cells)).encode(x=x, y=y)
    inks = {"condition": {"test": f"datum.{calm}", "value": color("calm")}, "value": color("problem")}
    words = {"condition": {"test": f"datum.{calm}", "value": color("text")}, "value": color("page")}
    return charts.layer(
        base.mark("rect", stroke=color("page"), strokeWidth=2).encode(fill=inks),
        base.mark("text", fontSize=11).encode(text="words:N", color=words),
    ).properties(width={"step": size[0]}, height={"step": size[1]})


def of_report(html: str, ident: str) -> str:
    """Returns a drawing of a report, by its ID, as a file with the colors of `write_chart`."""
    (found,) = re.findall(rf'<svg role="img" aria-labelledby="{ident}-t".*?</svg>', html, re.DOTALL)
    for name, ink in charts.ON_PAPER.items():
        found = found.replace(f"var(--{name})", ink)
    begins = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"'
    page = f'<rect width="100%" height="100%" fill="{charts.ON_PAPER["page"]}"/>'
    return f"{found.replace('<svg', begins, 1).replace('>', f'>{charts.DARK_STYLE}{page}', 1)}\n"


PICTURES: Mapping[str, Callable[[], Chart]] = {
    "size-curve.svg": size_curve,
    "zone-flows.svg": zone_flows,
    "range-and-sticky.svg": range_and_sticky,
}
"""Each picture by its name in docs/."""

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        charts.write_chart(draw(), str(ROOT / "docs" / name))
