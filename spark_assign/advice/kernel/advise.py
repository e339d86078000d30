"""What a cluster is advised to do: follower fetching, replicas, and what has to be known first.

Follower fetching is one setting for all groups of a cluster. It is taken where, over the months, all of them together
pay less with it than without, each group reading in the cheapest way that it then has, after what changes cost.

A partition's replicas are changed once: a move in place of a reorder, where what it saves beyond that pays for copying
the log. Partitions whose readers get other owners are left alone, as nobody knows from where these will read.

What to do over a cluster: all that the advisers say of its groups, brought together, and decided.

Facts are rows of the advisers' tables, tagged by `about`:

    size, curve, membership, way, compared    of a group: rows of `sizes`, `curves` (with the fewest members allowed),
                                              `memberships`, `zones` and `comparison`
    refused    of a group that an adviser (`of`) refused: code, detail
    move       a change of replicas that would save something
    reader     a topic, and a group that reads it

A row of the answer is tagged by its `kind`: advice, not_advised, rejected. Whole clusters come together, as
follower fetching is one setting of a cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_assign.advice.kernel.advice_items import (
    BELOW_COST,
    DAYS,
    MATTERS,
    MONEY,
    NOT_KNOWN,
    NOTHING,
    QUESTIONS,
    REPLICAS,
    SIZE,
    SUPERSEDED,
    UNKNOWN,
    ZONES,
    AdviceItem,
    AdviceParams,
    below_cost,
    in_money,
    not_advised,
)
from spark_assign.advice.kernel.group_findings import GroupFindings, Row
from spark_assign.advice.kernel.proposals import near
from spark_assign.advice.kernel.replica_moves import MOVE, REORDER
from spark_assign.advice.kernel.resolve_conflicts import ResolvedAdvice, settle
from spark_assign.advice.kernel.size import UNKNOWN as NO_CAPACITY
from spark_assign.groups.kernel.tagged_rows import tagged_rows

FETCHING = "follower-fetching"
SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"


def fetching_gain(groups: Iterable[GroupFindings]) -> float:
    """What follower fetching alone saves a month, all groups together, as partitions are owned today."""
    pairs = [(group.crossing_today(False), group.crossing_today(True)) for group in groups]
    return sum(now - then for now, then in pairs if now is not None and then is not None) * DAYS


def follower_fetching(groups: Sequence[GroupFindings], params: AdviceParams) -> bool:
    """Whether all groups shall read from a replica in their rack."""
    if params.follower_fetching:
        return True
    gain = fetching_gain(groups)
    if not params.pays(gain, params.change_cost):
        return False
    without, with_it = (sum(_saved(group, params, fetching) for group in groups) for fetching in (False, True))
    return gain * params.months - params.change_cost + with_it > without


def _saved(group: GroupFindings, params: AdviceParams, fetching: bool) -> float:
    """What the best assignor saves over the months, after what the change costs; 0 where it does not pay."""
    found = near(group, params, fetching)
    return 0.0 if found is None else max(0.0, (found.gain or 0.0) * params.months - (found.cost or 0.0))


def of_fetching(
    groups: Sequence[GroupFindings], params: AdviceParams, taken: bool
) -> tuple[list[AdviceItem], list[dict[str, Any]]]:
    """The advice to have follower fetching, or why not."""
    gain = fetching_gain(groups)
    if params.follower_fetching or gain <= 0:
        return [], []
    gainers = sum((each.crossing_today(False) or 0) > (each.crossing_today(True) or 0) for each in groups)
    advice = in_money(
        AdviceItem(
            MONEY,
            ZONES,
            FETCHING,
            None,
            f"Let consumers read from replicas in their rack: {gainers:,} groups save {gain / DAYS:,.2f} "
            f"{params.currency} a day together, and nothing moves.",
            None,
            None,
            None,
            None,
            "Followers are a moment behind the leader. All brokers restart once; consumers need client.rack, and a "
            "client library that knows KIP-392.",
            "zones",
            SELECTOR,
        ),
        params,
        gain,
        None,
    )
    if taken:
        return [advice], []
    if not params.pays(gain, advice.cost or 0.0):
        return [], [not_advised(ZONES, BELOW_COST, below_cost(advice, params), advice)]
    detail = f"Assignors that know racks save more without it. {advice.what}"
    return [], [not_advised(ZONES, SUPERSEDED, detail, advice)]


def of_replicas(
    moves: Sequence[Row],
    readers: Mapping[str, set[str]],
    settled: Mapping[str, ResolvedAdvice],
    params: AdviceParams,
    taken: bool,
) -> tuple[list[AdviceItem], list[dict[str, Any]]]:
    """Which replicas to change.

    Args:
        moves: those of one cluster that `zones` found.
        readers: by topic the groups that read it.
        settled: by group what it is advised.
        params: what things cost.
        taken: whether groups have follower fetching then.
    """
    restless = {name for name, each in settled.items() if not each.stays}
    chosen: dict[str, list[float]] = {REORDER: [], MOVE: []}
    copies, left, lost = 0.0, 0, 0.0
    for found in _by_partition(row for row in moves if row["follower_fetching"] == taken):
        best = max(row["saved_per_day"] for row in found.values())
        if readers.get(next(iter(found.values()))["topic"], set()) & restless:
            left, lost = left + 1, lost + best * DAYS
            continue
        reorder, move = (found.get(kind) for kind in (REORDER, MOVE))
        before = 0.0 if reorder is None else reorder["saved_per_day"]
        if move is not None:
            copy = params.copied(move["bytes_per_day"] / max(move["groups"], 1))
            if params.pays((move["saved_per_day"] - before) * DAYS, copy):
                chosen[MOVE].append(move["saved_per_day"] * DAYS)
                copies += copy
                continue
        if reorder is not None:
            chosen[REORDER].append(before * DAYS)
    advice, not_told = [], []
    for kind, gains in chosen.items():
        if not gains:
            continue
        each = _change(kind, gains, copies if kind == MOVE else 0.0, params, taken)
        if params.pays(each.gain or 0.0, each.cost or 0.0):
            advice.append(each)
        else:
            not_told.append(not_advised(REPLICAS, BELOW_COST, below_cost(each, params), each))
    if left:
        detail = (
            f"{left:,} partitions have replicas elsewhere than where they are read, which costs {lost:,.2f} "
            f"{params.currency} a month; their groups are advised something by which they get other owners. Ask again "
            "when that is done"
        )
        not_told.append(not_advised(REPLICAS, SUPERSEDED, detail))
    if not moves:
        not_told += (
            [] if ZONES in dict(params.missing) else [not_advised(REPLICAS, NOTHING, "No change saves anything")]
        )
    return advice, not_told


def _by_partition(moves: Iterable[Row]) -> Iterator[dict[str, Row]]:
    """Of each partition its changes by kind, in order."""
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in moves:
        found.setdefault((row["topic"], row["partition"]), {})[row["change"]] = row
    yield from (found[name] for name in sorted(found))


def _change(kind: str, gains: Sequence[float], copies: float, params: AdviceParams, taken: bool) -> AdviceItem:
    gain = sum(sorted(gains))
    then = ", with follower fetching" if taken else ""
    what = {
        REORDER: f"Let another replica of {len(gains):,} partitions lead, in the rack that reads most{then}",
        MOVE: f"Move a replica of {len(gains):,} partitions to the rack that reads most{then}",
    }[kind]
    risk = {
        REORDER: "Nothing is copied; leaders may be spread less evenly over brokers: look at replicas check.",
        MOVE: f"Logs are copied once, at {copies:,.2f} {params.currency} for {params.retention_days:,.0f} days of them"
        ", and throttled if you say so.",
    }[kind]
    advice = AdviceItem(
        MONEY,
        REPLICAS,
        f"replicas-{kind}",
        None,
        f"{what}: saves {gain / DAYS:,.2f} {params.currency} a day.",
        None,
        None,
        None,
        None,
        risk,
        "zones --output PLACE",
        f"kafka-reassign-partitions.sh --execute --reassignment-json-file PLACE/json/{kind}/…",
    )
    paid = in_money(advice, params, gain, None)
    cost = (paid.cost or 0.0) + copies
    values = {"cost": cost, "pays_after": cost / gain if gain > 0 else None}
    return AdviceItem(**{**paid.__dict__, **values})


def to_know(groups: Sequence[GroupFindings], params: AdviceParams, taken: bool) -> list[AdviceItem]:
    """What has to be known first, with what it is about."""
    found = []
    missing = dict(params.missing)
    if SIZE in missing:
        what = "Take readings: without rates nobody can say which groups fall behind or have members too many."
        found.append(_know("readings", what, "snapshot --every 60s --times 5"))
    unsized = [each for each in groups if (each.size(each.own) or {}).get("verdict") == NO_CAPACITY]
    if unsized:
        what = f"Say what one member handles: it is not known of {len(unsized):,} groups, as no member is behind."
        found.append(_know("capacity", what, "size --capacity 'GLOB=RATE'", "groups.capacity"))
    span = [row for each in groups if (row := each.ways.get(("today", taken))) and row["cost_per_day"] is None]
    span = [row for row in span if row["cost_at_most"] is not None]
    stake = sum((row["cost_at_most"] - row["cost_at_least"]) for row in span) * DAYS
    if params.pays(stake, params.change_cost):
        what = (
            f"Give racks to all members and brokers: of {len(span):,} groups nobody knows what crosses a zone, up to "
            f"{stake:,.2f} {params.currency} a month more."
        )
        found.append(_know("racks", what, "zones", "client.rack, broker.rack"))
    return found


def _know(kind: str, what: str, command: str, settings: str | None = None) -> AdviceItem:
    of = ZONES if kind == "racks" else SIZE
    return AdviceItem(UNKNOWN, of, kind, None, what, None, None, None, None, "None.", command, settings)


def unasked(params: AdviceParams) -> list[dict[str, Any]]:
    """Of advisers that could not be asked why."""
    return [not_advised(of, NOT_KNOWN, why) for of, why in params.missing]


OF_ADVICE, NOT_ADVISED, REJECTED = KINDS = ("advice", "not-advised", "rejected")
OF_SIZE, OF_CURVE, OF_MEMBERSHIP, OF_WAY, COMPARED, REFUSED, OF_MOVE, READER = ABOUT = (
    *("size", "curve", "membership", "way", "compared", "refused", "move", "reader"),
)

_TEXT, _LONG, _DOUBLE = pa.string(), pa.int64(), pa.float64()
ADVISED = pa.schema(
    {
        **dict.fromkeys(("kind", "cluster", "group_id", "matter", "of", "advice", "what"), _TEXT),
        "gain": _DOUBLE,
        "gain_unit": _TEXT,
        "cost": _DOUBLE,
        "cost_unit": _TEXT,
        "pays_after": _DOUBLE,
        **dict.fromkeys(("risk", "command", "settings", "code", "detail"), _TEXT),
        "at": pa.int32(),
    }
)
"""All of it, a row per advice, refusal or what is not advised; `kind` says which. `advice` is the kind of advice, `at`
the place of its matter."""


def advise(facts: pa.Table, params: AdviceParams) -> Iterator[pa.Table]:
    """Answer for all clusters of these facts, in tables with the columns of `ADVISED`."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in facts.to_pylist():
        rows[row["cluster"]][row["about"]].append(row)
    for cluster in sorted(rows):
        yield from _of_cluster(cluster, rows[cluster], params)


def _of_cluster(cluster: str, told: Mapping[str, list[dict[str, Any]]], params: AdviceParams) -> Iterator[pa.Table]:
    groups = _groups(cluster, told)
    heard = [each for each in groups if each.is_heard]
    taken = follower_fetching(heard, params)
    settled = {each.group_id: settle(each, params, taken) for each in heard}
    readers: dict[str, set[str]] = defaultdict(set)
    for row in told[READER]:
        readers[row["topic"]].add(row["group_id"])
    advice: list[tuple[str | None, AdviceItem]] = [
        (name, each) for name, found in settled.items() for each in found.advice
    ]
    silent: list[tuple[str | None, dict[str, Any]]] = [
        (name, each) for name, found in settled.items() for each in found.not_advised
    ]
    for more, less in (of_fetching(heard, params, taken), of_replicas(told[OF_MOVE], readers, settled, params, taken)):
        advice += [(None, each) for each in more]
        silent += [(None, each) for each in less]
    advice += [(None, each) for each in to_know(heard, params, taken)]
    silent += [(None, each) for each in unasked(params)]
    yield tagged_rows(OF_ADVICE, [_as_row(each, cluster, name) for name, each in advice], ADVISED)
    rows = [
        {"cluster": cluster, "group_id": name, **each, "advice": each.get("kind")} for name, each in _in_order(silent)
    ]
    yield tagged_rows(NOT_ADVISED, [_without_kind(row) for row in rows], ADVISED)
    refused = [_refusal(each) for each in groups if not each.is_heard]
    yield tagged_rows(REJECTED, refused, ADVISED)


def _as_row(advice: AdviceItem, cluster: str, group_id: str | None) -> dict[str, Any]:
    row = advice.row(cluster, group_id)
    return _without_kind(row | {"advice": row["kind"], "at": MATTERS.index(advice.matter)})


def _without_kind(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "kind"}


def _in_order(silent: list[tuple[str | None, dict[str, Any]]]) -> list[tuple[str | None, dict[str, Any]]]:
    return sorted(silent, key=lambda each: (each[0] or "", QUESTIONS.index(each[1]["of"]), each[1]["code"]))


def _refusal(group: GroupFindings) -> dict[str, Any]:
    """Why nothing is said of a group: what the first adviser says that refused it."""
    code, detail = next(
        (group.refused[of] for of in QUESTIONS if of in group.refused),
        ("no-members", "It has no members: there is nothing to advise"),
    )
    return {"cluster": group.cluster, "group_id": group.group_id, "code": code, "detail": detail}


def _groups(cluster: str, told: Mapping[str, list[dict[str, Any]]]) -> list[GroupFindings]:
    """The groups of a cluster, by name."""
    found: dict[str, GroupFindings] = {}

    def of(row: Mapping[str, Any]) -> GroupFindings:
        return found.setdefault(row["group_id"], GroupFindings(cluster, row["group_id"]))

    for row in _by_assignor(told[OF_SIZE]):
        of(row).sizes[row["assignor"]] = row
    for row in told[OF_CURVE]:
        of(row).fewest[row["assignor"]] = row
    for row in told[OF_MEMBERSHIP]:
        of(row).membership = row
    for row in told[OF_WAY]:
        of(row).ways[row["assignor"], row["follower_fetching"]] = row
    for row in _by_assignor(told[COMPARED]):
        of(row).compared[row["assignor"]] = row
    for row in told[REFUSED]:
        mine = of(row).refused
        mine[row["of"]] = min(mine.get(row["of"], (row["code"], row["detail"])), (row["code"], row["detail"]))
    return [found[name] for name in sorted(found)]


def _by_assignor(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["assignor"]))
