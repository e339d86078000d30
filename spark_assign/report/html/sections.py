"""What each section of the report shows: rows in, plain values and drawings for the templates out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_assign.report.html import svg
from spark_assign.report.html.one_group import GroupView, view
from spark_assign.report.html.rows import EDGES, NOTHING_ASSIGNED, PlanRows, Row, Rows
from spark_assign.report.ranking import SUMS, nobody_gets, over_share
from spark_assign.report.words import cell, count, number, ratio, share


@dataclass(frozen=True)
class Length:
    """A cell with a bar beside its words. `kind` is `was` or `is`; left and wide are in per cent of the column."""

    kind: str
    words: str
    wide: float
    left: float = 0.0


@dataclass(frozen=True)
class Table:
    """Any table: columns with whether they are numbers, and rows of text or bars; the first cell heads its row."""

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str | Length]]
    note: str = ""

    @property
    def drawn(self) -> bool:
        """Whether there are bars in it."""
        return any(isinstance(value, Length) for row in self.rows[:1] for value in row)


@dataclass(frozen=True)
class GroupLine:
    """A line of the table of groups. `link`: of the place in the page that shows it, or nothing; `advice` likewise."""

    cluster: str
    group_id: str
    assignor: str
    numbers: Sequence[str]
    notes: str
    link: str
    advice: str


@dataclass(frozen=True)
class PlanSection:
    """Everything that the page says of a plan."""

    headline: Sequence[str]
    tiles: Sequence[tuple[str, str, str]]
    assignors: Table
    drawing: Markup
    legend: Markup
    classes: Table
    number_names: Sequence[tuple[str, str]]
    groups: Sequence[GroupLine]
    total: int
    views: Sequence[GroupView]
    reasons: Table | None
    rejected: Table | None
    about: Sequence[tuple[str, str]]
    notes: Sequence[str]
    advised: bool


_NUMBERS = (
    ("Members", "members of the group"),
    ("Partitions", "partitions that are assigned"),
    ("Most", "partitions of the member that has the most"),
    ("Max/mean", "partitions of the fullest member over the mean"),
    ("Over share", "partitions that the fullest member has above an even share"),
    ("Moved", "partitions that get another owner"),
    ("Moved %", "moved in per cent of the partitions"),
    ("Without owner", "partitions that nobody gets, in this round or the next"),
)


def of_plan(plan: PlanRows, advice: Rows = ()) -> PlanSection:
    """The plan's sections; see `PlanRows`, and `CompareRows.advice`."""
    advised = {(row["cluster"], row["group_id"]): row for row in advice}
    totals = {name: sum(row[name] for row in plan.classes) for name in ("groups", *SUMS)}
    uneven = sum(row["groups"] for row in plan.classes if not row["even"])
    members, moves = by_group(plan.members), by_group(plan.moves)
    shown = {key: f"g{at}" for at, key in enumerate(_keys(plan.groups), start=1) if key in members or key in moves}
    views = [
        view(shown[key], row, members[key], moves[key], advised.get(key))
        for key, row in zip(_keys(plan.groups), plan.groups, strict=True)
        if key in shown
    ]
    bars = _bars(plan.classes)
    return PlanSection(
        headline=_headline(totals, uneven, plan.rejected_total),
        tiles=_tiles(totals, uneven, plan.rejected_total),
        assignors=_assignors(plan.classes),
        drawing=svg.histogram(bars, "imbalance", "Groups by imbalance", "groups"),
        legend=svg.legend({"even": "as even as their numbers allow", "uneven": "could be more even"}),
        classes=Table(
            "Groups by imbalance",
            [("Largest over mean", False), ("Groups", True), ("Could be more even", True)],
            [[bar.label, number(bar.total), number(bar.uneven)] for bar in bars],
        ),
        number_names=_NUMBERS,
        groups=[
            _line(row, shown.get(key, ""), advised.get(key))
            for key, row in zip(_keys(plan.groups), plan.groups, strict=True)
        ],
        total=totals["groups"],
        views=views,
        reasons=_reasons(plan.reasons),
        rejected=rejected_table(plan.rejected, plan.rejected_total) if plan.rejected_total else None,
        about=[(name, cell(value)) for name, value in plan.about.items()],
        notes=plan.notes,
        advised=bool(advised),
    )


def _keys(rows: Rows) -> list[tuple[str, str]]:
    return [(row["cluster"], row["group_id"]) for row in rows]


def _headline(totals: Mapping[str, int], uneven: int, rejected: int) -> list[str]:
    """What a team lead should know first."""
    groups, partitions = totals["groups"], totals["partitions"]
    said = [f"{count(groups, 'group')} with {count(totals['members'], 'member')}: {count(partitions, 'partition')}."]
    if totals["moved"]:
        said.append(f"{number(totals['moved'])} of them ({share(totals['moved'], partitions)}) get another owner.")
    else:
        said.append("None of them gets another owner.")
    some = f"In {count(uneven, 'group')} ({share(uneven, groups)}) the fullest member has more than an even share."
    said.append(some if uneven else "Every group is as even as its numbers allow.")
    if rejected:
        said.append(f"{count(rejected, 'group')} could not be planned.")
    return said


def _tiles(totals: Mapping[str, int], uneven: int, rejected: int) -> list[tuple[str, str, str]]:
    lost = totals["unassigned"] - totals["withheld"]
    return [
        ("Groups", number(totals["groups"]), f"{number(rejected)} rejected"),
        ("Members", number(totals["members"]), ""),
        ("Partitions", number(totals["partitions"]), f"{number(lost)} without owner"),
        ("Moved", number(totals["moved"]), share(totals["moved"], totals["partitions"])),
        (
            "Revoked",
            number(totals["revoked"]),
            f"{number(totals['withheld'])} wait for the next round" if totals["withheld"] else "",
        ),
        ("Could be more even", number(uneven), count(totals["groups"], "group").join(("of ", ""))),
    ]


def _assignors(classes: Rows) -> Table:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in classes:
        sums[row["assignor"]].update({name: row[name] for name in ("groups", *SUMS)})
        sums[row["assignor"]]["uneven"] += 0 if row["even"] else row["groups"]
    names = ("groups", "members", "partitions", "moved", "revoked", "uneven")
    titles = ("Groups", "Members", "Partitions", "Moved", "Revoked", "Could be more even")
    return Table(
        "By assignor",
        [("Assignor", False), *((title, True) for title in titles)],
        [[name, *(number(each[what]) for what in names)] for name, each in sorted(sums.items())],
    )


def _bars(classes: Rows) -> list[svg.Bar]:
    found: Counter[tuple[int, bool]] = Counter()
    for row in classes:
        found[row["imbalance"], row["even"]] += row["groups"]
    labels = ["1.00", *(f"to {edge:.2f}" for edge in EDGES[1:]), f"over {EDGES[-1]:.2f}"]
    numbered = list(enumerate(labels))
    if any(at == NOTHING_ASSIGNED for at, _ in found):
        numbered.append((NOTHING_ASSIGNED, "no partitions"))
    return [svg.Bar(label, found[at, True], found[at, False]) for at, label in numbered]


def _line(row: Row, link: str, advice: Row | None) -> GroupLine:
    numbers = [number(row[name]) for name in ("members", "partitions", "max_per_member")]
    numbers += [ratio(row["max_over_mean"]), number(over_share(row)), number(row["moved"])]
    numbers += [share(row["moved"], row["partitions"]), number(nobody_gets(row))]
    told = "" if advice is None else f"{'keep ' * (advice['verdict'] == 'keep')}{advice['assignor']}"
    return GroupLine(row["cluster"], row["group_id"], row["assignor"], numbers, "; ".join(_oddities(row)), link, told)


def _oddities(row: Row) -> list[str]:
    """What is odd about a group, in words."""
    withheld = f"{number(row['withheld'])} wait for the next round"
    said = {
        "withheld": withheld,
        "claim_conflicts": count(row["claim_conflicts"], "partition") + " claimed by several members",
        "members_without_subscription": count(row["members_without_subscription"], "member") + " without subscription",
        "unknown_topics": count(row["unknown_topics"], "subscribed topic") + " unknown",
        "owned_topic_gone": count(row["owned_topic_gone"], "owned partition") + " of topics that are gone",
        "owned_beyond_count": count(row["owned_beyond_count"], "owned partition") + " beyond the topic's count",
    }
    return [words for name, words in said.items() if row[name]]


REASONS = {
    "topic-gone": "the topic does not exist any more",
    "partition-gone": "the topic has fewer partitions now",
    "new": "nobody owned it",
    "member-left": "its owner has left the group",
    "claim-conflict": "several members claim it, and this one does not keep it",
    "unsubscribed": "its owner does not subscribe to the topic any more",
    "unassigned": "nobody gets it",
    "over-quota": "its owner has more than its share",
    "rack-mismatch": "it has no replica in its owner's rack",
    "balancing": "its next owner had at least two partitions less",
    "rebalanced": "the assignor gives it to another member",
}
"""As `spark_assign.moves` has them."""


def _reasons(rows: Rows) -> Table | None:
    if not rows:
        return None
    ordered = sorted(rows, key=lambda row: (-row["partitions"], row["reason"]))
    return Table(
        "Changes of owner by reason",
        [("Reason", False), ("It means", False), ("Changes", True), ("Groups", True)],
        [
            [row["reason"], REASONS.get(row["reason"], ""), number(row["partitions"]), number(row["groups"])]
            for row in ordered
        ],
    )


def rejected_table(rows: Rows, total: int | None = None) -> Table:
    """What could not be planned, with code and remedy; of any table `rejected`."""
    total = len(rows) if total is None else total
    more = f"Shown are the first {len(rows):,} of {total:,}; the table rejected has all." if total > len(rows) else ""
    return Table(
        "Rejected",
        [("What", False), ("Code", False), ("Detail", False)],
        [
            ["/".join(cell(row[name]) for name in row if name not in ("code", "detail")), row["code"], row["detail"]]
            for row in rows
        ],
        more,
    )


def any_table(name: str, rows: Rows, note: str = "") -> Table:
    """A table as it is."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    numeric = {column for column in columns if any(isinstance(row.get(column), int | float) for row in rows)}
    return Table(
        name,
        [(column.replace("_", " ").capitalize(), column in numeric) for column in columns],
        [[cell(row.get(column)) for column in columns] for row in rows],
        note,
    )


def by_group(rows: Rows) -> Mapping[tuple[str, str], list[Row]]:
    """Rows of many groups, by cluster and group_id."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["cluster"], row["group_id"]].append(row)
    return found
