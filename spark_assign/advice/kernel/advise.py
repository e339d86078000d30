"""Decides what to recommend for each cluster, from the results of all advisers.

Follower fetching is one broker setting for all groups of a cluster. It is recommended if all groups together pay less
with it than without it over the payback period, each group with the cheapest assignor in either case, after the cost of
the changes.

The replicas of a partition are changed once: a move replaces a reorder if the additional savings pay for copying the
log. Partitions whose readers get other owners are left unchanged, because the racks of their next readers are unknown.

Facts are rows of the advisers' tables, tagged by `about`:

    size, curve, membership, way, compared    a group: rows of `sizes`, `curves` (at the minimum number of members),
                                              `memberships`, `zones`, and `comparison`
    refused    a group that the adviser `of` rejects: code, detail
    move       a change of replicas that saves something
    reader     a topic, and a group that reads it

A result row is tagged by its `kind`: advice, not_advised, or rejected. All rows of a cluster are processed together,
because follower fetching applies to the whole cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_assign.advice.kernel.advice_items import (
    ADVISERS,
    BELOW_COST,
    DAYS,
    MATTERS,
    MONEY,
    NOT_KNOWN,
    NOTHING,
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
from spark_assign.advice.kernel.proposals import propose_for_zones
from spark_assign.advice.kernel.replica_moves import MOVE, REORDER
from spark_assign.advice.kernel.resolve_conflicts import ResolvedAdvice, resolve_conflicts
from spark_assign.advice.kernel.size import UNKNOWN as NO_CAPACITY
from spark_assign.groups.kernel.tagged_rows import tagged_rows

FETCHING = "follower-fetching"
SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"


def fetching_gain(groups: Iterable[GroupFindings]) -> float:
    """Returns what follower fetching alone saves per month, summed over all groups, with today's owners."""
    pairs = [(group.current_cost(False), group.current_cost(True)) for group in groups]
    return sum(leader - nearest for leader, nearest in pairs if leader is not None and nearest is not None) * DAYS


def follower_fetching(groups: Sequence[GroupFindings], params: AdviceParams) -> bool:
    """Checks whether all groups should read from a replica in their rack (KIP-392)."""
    if params.follower_fetching:
        return True
    gain = fetching_gain(groups)
    if not params.pays(gain, params.change_cost):
        return False
    without, with_it = (sum(_saved(group, params, fetching) for group in groups) for fetching in (False, True))
    return gain * params.months - params.change_cost + with_it > without


def _saved(group: GroupFindings, params: AdviceParams, fetching: bool) -> float:
    """Returns what the best assignor saves over the payback period, net of its one-time cost; 0 if it doesn't pay."""
    item = propose_for_zones(group, params, fetching)
    return 0.0 if item is None else max(0.0, (item.gain or 0.0) * params.months - (item.cost or 0.0))


def advise_follower_fetching(
    groups: Sequence[GroupFindings], params: AdviceParams, fetching: bool
) -> tuple[list[AdviceItem], list[dict[str, Any]]]:
    """Returns the recommendation to enable follower fetching, or the row that explains why it isn't recommended."""
    gain = fetching_gain(groups)
    if params.follower_fetching or gain <= 0:
        return [], []
    gainers = sum((group.current_cost(False) or 0) > (group.current_cost(True) or 0) for group in groups)
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
    if fetching:
        return [advice], []
    if not params.pays(gain, advice.cost or 0.0):
        return [], [not_advised(ZONES, BELOW_COST, below_cost(advice, params), advice)]
    detail = f"Assignors that know racks save more without it. {advice.text}"
    return [], [not_advised(ZONES, SUPERSEDED, detail, advice)]


def advise_replicas(
    moves: Sequence[Row],
    readers: Mapping[str, set[str]],
    resolved: Mapping[str, ResolvedAdvice],
    params: AdviceParams,
    fetching: bool,
) -> tuple[list[AdviceItem], list[dict[str, Any]]]:
    """Returns recommendations to reorder or move replicas.

    Args:
        moves: the replica moves of one cluster, as found by `zones`.
        readers: the groups that read each topic.
        resolved: the resolved advice of each group.
        params: prices and thresholds.
        fetching: whether the groups use follower fetching by then.
    """
    reassigned = {group_id for group_id, resolved_group in resolved.items() if not resolved_group.keeps_owners}
    chosen: dict[str, list[float]] = {REORDER: [], MOVE: []}
    copies, skipped, lost = 0.0, 0, 0.0
    for found in _by_partition(row for row in moves if row["follower_fetching"] == fetching):
        best = max(row["saved_per_day"] for row in found.values())
        if readers.get(next(iter(found.values()))["topic"], set()) & reassigned:
            skipped, lost = skipped + 1, lost + best * DAYS
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
    advice, declined = [], []
    for kind, gains in chosen.items():
        if not gains:
            continue
        item = _replica_item(kind, gains, copies if kind == MOVE else 0.0, params, fetching)
        if params.pays(item.gain or 0.0, item.cost or 0.0):
            advice.append(item)
        else:
            declined.append(not_advised(REPLICAS, BELOW_COST, below_cost(item, params), item))
    if skipped:
        detail = (
            f"{skipped:,} partitions have replicas elsewhere than where they are read, which costs {lost:,.2f} "
            f"{params.currency} a month; their groups are advised something by which they get other owners. Ask again "
            "when that is done"
        )
        declined.append(not_advised(REPLICAS, SUPERSEDED, detail))
    if not moves:
        declined += (
            [] if ZONES in dict(params.missing) else [not_advised(REPLICAS, NOTHING, "No change saves anything")]
        )
    return advice, declined


def _by_partition(moves: Iterable[Row]) -> Iterator[dict[str, Row]]:
    """Yields the moves of each partition by kind, sorted by topic and partition."""
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in moves:
        found.setdefault((row["topic"], row["partition"]), {})[row["change"]] = row
    yield from (found[name] for name in sorted(found))


def _replica_item(kind: str, gains: Sequence[float], copies: float, params: AdviceParams, fetching: bool) -> AdviceItem:
    """Returns one item for all replica changes of a kind."""
    gain = sum(sorted(gains))
    suffix = ", with follower fetching" if fetching else ""
    text = {
        REORDER: f"Let another replica of {len(gains):,} partitions lead, in the rack that reads most{suffix}",
        MOVE: f"Move a replica of {len(gains):,} partitions to the rack that reads most{suffix}",
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
        f"{text}: saves {gain / DAYS:,.2f} {params.currency} a day.",
        None,
        None,
        None,
        None,
        risk,
        "zones --output LOCATION",
        f"kafka-reassign-partitions.sh --execute --reassignment-json-file LOCATION/json/{kind}/…",
    )
    paid = in_money(advice, params, gain, None)
    cost = (paid.cost or 0.0) + copies
    return replace(paid, cost=cost, pays_after=cost / gain if gain > 0 else None)


def advise_missing_facts(groups: Sequence[GroupFindings], params: AdviceParams, fetching: bool) -> list[AdviceItem]:
    """Returns recommendations to supply missing facts, with the amount at stake."""
    found = []
    missing = dict(params.missing)
    if SIZE in missing:
        text = "Take readings: without rates nobody can say which groups fall behind or have members too many."
        found.append(_missing_fact_item("readings", text, "snapshot --interval 60s --times 5"))
    unsized = [group for group in groups if (group.size(group.own) or {}).get("verdict") == NO_CAPACITY]
    if unsized:
        text = f"Say what one member handles: it is not known of {len(unsized):,} groups, as no member is behind."
        found.append(_missing_fact_item("capacity", text, "size --capacity 'GLOB=RATE'", "groups.capacity"))
    today = [row for group in groups if (row := group.options.get(("today", fetching)))]
    span = [row for row in today if row["cost_per_day"] is None and row["cost_at_most"] is not None]
    stake = sum((row["cost_at_most"] - row["cost_at_least"]) for row in span) * DAYS
    if params.pays(stake, params.change_cost):
        text = (
            f"Give racks to all members and brokers: of {len(span):,} groups nobody knows what crosses a zone, up to "
            f"{stake:,.2f} {params.currency} a month more."
        )
        found.append(_missing_fact_item("racks", text, "zones", "client.rack, broker.rack"))
    return found


def _missing_fact_item(kind: str, text: str, command: str, settings: str | None = None) -> AdviceItem:
    adviser = ZONES if kind == "racks" else SIZE
    return AdviceItem(UNKNOWN, adviser, kind, None, text, None, None, None, None, "None.", command, settings)


def list_missing_advisers(params: AdviceParams) -> list[dict[str, Any]]:
    """Returns a row for each adviser that couldn't run, with the reason."""
    return [not_advised(adviser, NOT_KNOWN, reason) for adviser, reason in params.missing]


ADVICE_ROW, NOT_ADVISED, REJECTED = KINDS = ("advice", "not-advised", "rejected")
SIZE_ROW, CURVE_ROW, MEMBERSHIP_ROW, OPTION_ROW, COMPARED_ROW, REJECTED_ROW, MOVE_ROW, READER_ROW = ABOUT = (
    *("size", "curve", "membership", "way", "compared", "refused", "move", "reader"),
)

_Rows = Mapping[str, list[dict[str, Any]]]
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
"""Schema of the result: a row per item of advice, rejection, or item that isn't advised; `kind` says which. `advice` is
the kind of advice, and `at` the index of its category.
"""


def advise(facts: pa.Table, params: AdviceParams) -> Iterator[pa.Table]:
    """Yields the advice for all clusters in the facts, as tables with the columns of `ADVISED`."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in facts.to_pylist():
        rows[row["cluster"]][row["about"]].append(row)
    for cluster in sorted(rows):
        yield from _advise_cluster(cluster, rows[cluster], params)


def _advise_cluster(cluster: str, facts: _Rows, params: AdviceParams) -> Iterator[pa.Table]:
    groups = _groups(cluster, facts)
    advised_groups = [group for group in groups if group.has_findings]
    fetching = follower_fetching(advised_groups, params)
    resolved = {group.group_id: resolve_conflicts(group, params, fetching) for group in advised_groups}
    readers: dict[str, set[str]] = defaultdict(set)
    for row in facts[READER_ROW]:
        readers[row["topic"]].add(row["group_id"])
    advice: list[tuple[str | None, AdviceItem]] = [
        (group_id, item) for group_id, found in resolved.items() for item in found.advice
    ]
    declined: list[tuple[str | None, dict[str, Any]]] = [
        (group_id, row) for group_id, found in resolved.items() for row in found.not_advised
    ]
    moves = facts[MOVE_ROW]
    for items, rows in (
        advise_follower_fetching(advised_groups, params, fetching),
        advise_replicas(moves, readers, resolved, params, fetching),
    ):
        advice += [(None, item) for item in items]
        declined += [(None, row) for row in rows]
    advice += [(None, item) for item in advise_missing_facts(advised_groups, params, fetching)]
    declined += [(None, row) for row in list_missing_advisers(params)]
    yield tagged_rows(ADVICE_ROW, [_as_row(item, cluster, group_id) for group_id, item in advice], ADVISED)
    rows = [
        {"cluster": cluster, "group_id": group_id, **row, "advice": row.get("kind")}
        for group_id, row in _sort_declined(declined)
    ]
    yield tagged_rows(NOT_ADVISED, [_without_kind(row) for row in rows], ADVISED)
    yield tagged_rows(REJECTED, [_rejection(group) for group in groups if not group.has_findings], ADVISED)


def _as_row(advice: AdviceItem, cluster: str, group_id: str | None) -> dict[str, Any]:
    row = advice.row(cluster, group_id)
    return _without_kind(row | {"advice": row["kind"], "at": MATTERS.index(advice.category)})


def _without_kind(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "kind"}


def _sort_declined(declined: list[tuple[str | None, dict[str, Any]]]) -> list[tuple[str | None, dict[str, Any]]]:
    return sorted(declined, key=lambda pair: (pair[0] or "", ADVISERS.index(pair[1]["of"]), pair[1]["code"]))


def _rejection(group: GroupFindings) -> dict[str, Any]:
    """Returns the rejection of a group: the first one in the order of the advisers."""
    code, detail = next(
        (group.rejections[adviser] for adviser in ADVISERS if adviser in group.rejections),
        ("no-members", "It has no members: there is nothing to advise"),
    )
    return {"cluster": group.cluster, "group_id": group.group_id, "code": code, "detail": detail}


def _groups(cluster: str, facts: _Rows) -> list[GroupFindings]:
    """Returns the findings of each group of a cluster, sorted by group id."""
    found: dict[str, GroupFindings] = {}

    def group_of(row: Mapping[str, Any]) -> GroupFindings:
        return found.setdefault(row["group_id"], GroupFindings(cluster, row["group_id"]))

    for row in _by_assignor(facts[SIZE_ROW]):
        group_of(row).sizes[row["assignor"]] = row
    for row in facts[CURVE_ROW]:
        group_of(row).minimum_curves[row["assignor"]] = row
    for row in facts[MEMBERSHIP_ROW]:
        group_of(row).membership = row
    for row in facts[OPTION_ROW]:
        group_of(row).options[row["assignor"], row["follower_fetching"]] = row
    for row in _by_assignor(facts[COMPARED_ROW]):
        group_of(row).compared[row["assignor"]] = row
    for row in facts[REJECTED_ROW]:
        rejections, fault = group_of(row).rejections, (row["code"], row["detail"])
        rejections[row["of"]] = min(rejections.get(row["of"], fault), fault)
    return [found[group_id] for group_id in sorted(found)]


def _by_assignor(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["assignor"]))
