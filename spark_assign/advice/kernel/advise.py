"""Decides what to recommend for each cluster, from the results of all advisers.

Follower fetching is one broker setting for all groups of a cluster. It is recommended if all groups together pay less
with it than without it over the payback period, each group with the cheapest assignor in either case, after the cost of
the changes.

The replicas of a partition are changed once: a move replaces a reorder if the additional savings pay for copying the
log. Partitions whose readers get other owners are left unchanged, because the racks of their next readers are unknown.

Facts are rows of the advisers' tables, tagged by `kind`:

    size, curve, membership, option, compared    a group: rows of `sizes`, `curves` (at the minimum number of members),
                                                 `membership_advice`, `zones`, and `comparison`
    rejected   a group that the adviser `adviser` rejects: code, detail
    move       a change of replicas that saves something
    reader     a topic, and a group that reads it
    streams    a setting of a classic Streams application and a value of it (`streams_settings`)

A result row is tagged by its `kind`: advice, not-recommended, or rejected. All rows of a cluster are processed
together, because follower fetching applies to the whole cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.advice.kernel import size, zones
from spark_assign.advice.kernel.advice_items import (
    ADVISERS,
    DAYS,
    AdviceItem,
    AdviceParams,
    Adviser,
    Category,
    Code,
    below_cost,
    declined,
)
from spark_assign.advice.kernel.proposals import (
    GroupFindings,
    ResolvedAdvice,
    Row,
    propose_for_zones,
    resolve_conflicts,
)
from spark_assign.advice.kernel.replica_moves import MOVE, REORDER
from spark_assign.advice.kernel.size import UNKNOWN as NO_CAPACITY
from spark_assign.advice.kernel.streams_settings import STREAMS_ROW
from spark_assign.advice.kernel.zones import CURRENT, ZoneParams
from spark_assign.assignors.group_facts import LISTED_TOPIC, SUBSCRIPTION, IndexedFacts
from spark_assign.comparison.kernel.compare import CompareParams, compare
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.groups.kernel.tagged_rows import row_schema, tagged, tagged_rows, tagged_table
from spark_assign.tables.errors import count

FETCHING = "follower-fetching"
SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"

Missing = Mapping[str, str]
"""Advisers that couldn't run, with the reason and the remedy."""

AdviceLists = tuple[list[AdviceItem], list[dict[str, Any]]]
"""Recommendations for a cluster or a group, and rows for changes that aren't recommended."""


def fetching_gain(groups: Iterable[GroupFindings]) -> float:
    """Returns what follower fetching alone saves per month, summed over all groups, with today's owners."""
    pairs = [(group.cost_per_day(CURRENT, False), group.cost_per_day(CURRENT, True)) for group in groups]
    return sum(leader - nearest for leader, nearest in pairs if leader is not None and nearest is not None) * DAYS


def follower_fetching(groups: Sequence[GroupFindings], params: AdviceParams) -> bool:
    """Checks whether all groups should read from a replica in their rack (KIP-392)."""
    if params.follower_fetching:
        return True
    gain = fetching_gain(groups)
    if not params.pays(gain, params.change_cost):
        return False
    without, with_it = (sum(_saved(group, params, fetching) for group in groups) for fetching in (False, True))
    return gain * params.max_payback_months - params.change_cost + with_it > without


def _saved(group: GroupFindings, params: AdviceParams, fetching: bool) -> float:
    """Returns what the best assignor saves over the payback period, net of its one-time cost; 0 if it doesn't pay."""
    item = propose_for_zones(group, params, fetching)
    return 0.0 if item is None else max(0.0, (item.gain or 0.0) * params.max_payback_months - (item.cost or 0.0))


def advise_follower_fetching(groups: Sequence[GroupFindings], params: AdviceParams, fetching: bool) -> AdviceLists:
    """Returns the recommendation to enable follower fetching, or the row that explains why it isn't recommended."""
    gain = fetching_gain(groups)
    if params.follower_fetching or gain <= 0:
        return [], []
    gainers = sum(
        (group.cost_per_day(CURRENT, False) or 0) > (group.cost_per_day(CURRENT, True) or 0) for group in groups
    )
    item = AdviceItem(
        Category.MONEY,
        Adviser.ZONES,
        FETCHING,
        f"Let consumers read from replicas in their rack. In total, {count(gainers, 'group', 'saves', 'save')} "
        f"{gain / DAYS:,.2f} "
        f"{params.currency} a day, and no partition moves.",
        "Followers are slightly behind the leader. All brokers restart once. Consumers need client.rack, and a client "
        "library that supports KIP-392.",
        "advise zones",
        SELECTOR,
    ).in_money(params, gain, None)
    if fetching:
        return [item], []
    if not params.pays(gain, item.cost):
        return [], [item.declined(Code.BELOW_COST, below_cost(item, params))]
    return [], [item.declined(Code.SUPERSEDED, "Rack-aware assignors save more without follower fetching")]


def advise_replicas(
    moves: Sequence[Row],
    readers: Mapping[str, set[str]],
    resolved: Mapping[str, ResolvedAdvice],
    params: AdviceParams,
    fetching: bool,
) -> AdviceLists:
    """Returns recommendations to reorder or move replicas.

    Args:
        moves: the replica moves of one cluster, as found by `measure_zone_traffic`.
        readers: the groups that read each topic.
        resolved: the resolved advice of each group.
        params: prices and thresholds.
        fetching: whether the groups will use follower fetching.
    """
    reassigned = {group_id for group_id, group in resolved.items() if not group.keeps_owners}
    selected: dict[str, list[float]] = {REORDER: [], MOVE: []}
    copies, skipped, lost = 0.0, 0, 0.0
    for changes in _by_partition(row for row in moves if row["follower_fetching"] == fetching):
        if readers.get(next(iter(changes.values()))["topic"], set()) & reassigned:
            skipped, lost = skipped + 1, lost + max(row["saved_per_day"] for row in changes.values()) * DAYS
            continue
        reorder, move = (changes.get(kind) for kind in (REORDER, MOVE))
        saved = 0.0 if reorder is None else reorder["saved_per_day"]
        copy = 0.0 if move is None else params.copied(move["bytes_per_day"] / max(move["groups"], 1))
        if move is not None and params.pays((move["saved_per_day"] - saved) * DAYS, copy):
            selected[MOVE].append(move["saved_per_day"] * DAYS)
            copies += copy
        elif reorder is not None:
            selected[REORDER].append(saved * DAYS)
    advice, not_recommended = [], []
    for kind, gains in selected.items():
        item = _replica_item(kind, gains, copies, params, fetching)
        if gains and params.pays(item.gain, item.cost):
            advice.append(item)
        elif gains:
            not_recommended.append(item.declined(Code.BELOW_COST, below_cost(item, params)))
    if skipped:
        detail = (
            f"{count(skipped, 'partition', 'has', 'have')} no replica where they are read, which costs "
            f"{lost:,.2f} {params.currency} a "
            "month. Other advice changes the owners of these partitions. Run advise again after that change"
        )
        not_recommended.append(declined(Adviser.REPLICAS, Code.SUPERSEDED, detail))
    return advice, not_recommended


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
    if kind == REORDER:
        text = (
            f"Make another replica the leader of {count(len(gains), 'partition')}, in the rack that reads most{suffix}"
        )
        risk = "Copies no data. Leaders might be spread less evenly over brokers; check this with replicas check."
    else:
        text = f"Move a replica of {count(len(gains), 'partition')} to the rack that reads most{suffix}"
        log = f"{params.retention_days:,.0f} days of data, for {copies:,.2f} {params.currency}"
        risk = f"Copies logs once: {log}. Kafka's tools can throttle it."
    return AdviceItem(
        Category.MONEY,
        Adviser.REPLICAS,
        f"replicas-{kind}",
        f"{text}: saves {gain / DAYS:,.2f} {params.currency} a day.",
        risk,
        "advise zones --output LOCATION",
        f"kafka-reassign-partitions.sh --execute --reassignment-json-file LOCATION/json/{kind}/…",
    ).in_money(params, gain, None, copies if kind == MOVE else 0.0)


def advise_missing_facts(
    groups: Sequence[GroupFindings], params: AdviceParams, missing: Missing, fetching: bool
) -> Iterator[AdviceItem]:
    """Yields recommendations to supply missing facts, with the amount at stake."""
    if Adviser.SIZE in missing:
        text = "Take readings: without rates, it is unknown which groups fall behind or have too many members."
        yield _missing_fact_item("readings", text, "snapshot --interval 60s --times 5")
    unsized = sum((group.sizes.get(group.assignor) or {}).get("verdict") == NO_CAPACITY for group in groups)
    if unsized:
        text = f"Set the capacity of a member: it is unknown for {count(unsized, 'group')}, because no member has lag."
        yield _missing_fact_item("capacity", text, "advise size --capacity 'GLOB=RATE'", "groups.capacity")
    current = [row for group in groups if (row := group.options.get((CURRENT, fetching)))]
    unknown = [row for row in current if row["cost_per_day"] is None and row["cost_at_most"] is not None]
    stake = sum((row["cost_at_most"] - row["cost_at_least"]) for row in unknown) * DAYS
    if params.pays(stake, params.change_cost):
        text = (
            f"Set the racks of all members and brokers: the cross-zone traffic of "
            f"{count(len(unknown), 'group')} is unknown, "
            f"and might cost up to {stake:,.2f} {params.currency} a month more."
        )
        yield _missing_fact_item("racks", text, "advise zones", "client.rack, broker.rack")


def _missing_fact_item(action: str, text: str, command: str, settings: str | None = None) -> AdviceItem:
    adviser = Adviser.ZONES if action == "racks" else Adviser.SIZE
    return AdviceItem(Category.UNKNOWN, adviser, action, text, "None.", command, settings)


ADVICE_ROW, NOT_RECOMMENDED, REJECTED = KINDS = ("advice", "not-recommended", "rejected")
SIZE_ROW, CURVE_ROW, MEMBERSHIP_ROW, OPTION_ROW, COMPARED_ROW, REJECTED_ROW, MOVE_ROW, READER_ROW = _KINDS = (
    *("size", "curve", "membership", "option", "compared", "rejected", "move", "reader"),
)
FACT_KINDS = (*_KINDS, STREAMS_ROW)

_Rows = Mapping[str, Sequence[Row]]
ADVICE_ROWS = row_schema(
    "cluster string, group_id string, category string, category_index int32, adviser string, action string",
    "description string, gain double, gain_unit string, cost double, cost_unit string, payback_months double",
    "risk string, command string, settings string, code string, detail string, note string",
)
"""Schema of the result: a row per recommendation, rejection, or change that isn't recommended; `kind` says which.
`category_index` is the index of the category in `CATEGORIES`.
"""


def advise(facts: pa.Table, params: AdviceParams, missing: Missing) -> Iterator[pa.Table]:
    """Yields the advice for all clusters in the facts, as tables with the columns of `ADVICE_ROWS`."""
    rows: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in facts.to_pylist():
        rows[row["cluster"]][row["kind"]].append(row)
    for cluster in sorted(rows):
        yield from _advise_cluster(cluster, rows[cluster], params, missing)


def _advise_cluster(cluster: str, facts: _Rows, params: AdviceParams, missing: Missing) -> Iterator[pa.Table]:
    """Yields the rows of one cluster: advice, what isn't recommended, and rejected groups."""
    all_groups = _groups(facts)
    groups = [group for group in all_groups if group.has_findings]
    fetching = follower_fetching(groups, params)
    resolved = {group.group_id: resolve_conflicts(group, params, fetching) for group in groups}
    readers: dict[str, set[str]] = defaultdict(set)
    for row in facts[READER_ROW]:
        readers[row["topic"]].add(row["group_id"])
    fetching_advice, fetching_declined = advise_follower_fetching(groups, params, fetching)
    replica_advice, replica_declined = advise_replicas(facts[MOVE_ROW], readers, resolved, params, fetching)
    if not facts[MOVE_ROW] and Adviser.ZONES not in missing:
        detail = "No change of replicas reduces the cross-zone traffic"
        replica_declined.append(declined(Adviser.REPLICAS, Code.NOTHING, detail))
    missing_advice = advise_missing_facts(groups, params, missing, fetching)
    cluster_advice = [*fetching_advice, *replica_advice, *missing_advice]
    cluster_declined = [*fetching_declined, *replica_declined]
    cluster_declined += [declined(adviser, Code.NOT_KNOWN, reason) for adviser, reason in missing.items()]
    results: list[tuple[str | None, AdviceLists]]
    results = [(group_id, (group.advice, group.not_recommended)) for group_id, group in resolved.items()]
    results.append((None, (cluster_advice, cluster_declined)))
    advice = [(group_id, item.row()) for group_id, (items, _) in results for item in items]
    not_recommended = [(group_id, row) for group_id, (_, rows) in results for row in rows]
    not_recommended.sort(key=lambda pair: (pair[0] or "", ADVISERS.index(pair[1]["adviser"]), pair[1]["code"]))
    rejected = [(group.group_id, _rejection(group)) for group in all_groups if not group.has_findings]
    notes: dict[str | None, str | None] = {group.group_id: group.note for group in groups}
    for kind, rows in ((ADVICE_ROW, advice), (NOT_RECOMMENDED, not_recommended), (REJECTED, rejected)):
        table = [
            row | {"cluster": cluster, "group_id": group_id, "note": notes.get(group_id)} for group_id, row in rows
        ]
        yield tagged_rows(kind, table, ADVICE_ROWS)


def _rejection(group: GroupFindings) -> dict[str, Any]:
    """Returns the rejection of a group: the first one in the order of the advisers."""
    code, detail = next(
        (group.rejections[adviser] for adviser in ADVISERS if adviser in group.rejections),
        ("no-members", "The group has no members, so there is nothing to advise"),
    )
    return {"code": code, "detail": detail}


def _groups(facts: _Rows) -> list[GroupFindings]:
    """Returns the findings of each group of a cluster, sorted by group id."""
    group_ids = {row["group_id"] for kind in FACT_KINDS if kind not in (MOVE_ROW, READER_ROW) for row in facts[kind]}
    groups = {group_id: GroupFindings(group_id) for group_id in sorted(group_ids)}
    for kind, findings in ((SIZE_ROW, "sizes"), (CURVE_ROW, "minimum_curves"), (COMPARED_ROW, "compared")):
        for row in sorted(facts[kind], key=lambda row: str(row["assignor"])):
            getattr(groups[row["group_id"]], findings)[row["assignor"]] = row
    for row in facts[MEMBERSHIP_ROW]:
        groups[row["group_id"]].membership = row
    for row in facts[OPTION_ROW]:
        groups[row["group_id"]].options[row["assignor"], row["follower_fetching"]] = row
    for row in facts[STREAMS_ROW]:
        groups[row["group_id"]].streams.append(row)
    for row in facts[REJECTED_ROW]:
        rejections, fault = groups[row["group_id"]].rejections, (row["code"], row["detail"])
        rejections[row["adviser"]] = min(rejections.get(row["adviser"], fault), fault)
    return list(groups.values())


# --- runs the advisers that work on complete groups (assignor, size, zones) in one pass, on the same indexed facts ---
#
# The result is one table of the facts that `advice.kernel.advise` reads, tagged by `kind`.


_COMPARED = row_schema(
    "cluster string, group_id string, assignor string, members int64, reason string, recommended bool",
    "rejected string, current_assignor string, client_libraries string, paused_partition_seconds double",
    "max_over_mean double, load_max_over_mean double, note string",
)
FACTS = row_schema(
    ", ".join(f"{field.name} {field.type}" for field in _COMPARED.remove(0)),
    "adviser string, verdict string, needed int64, moved int64, max_load double, max_load_needed double",
    "capacity double, keeps_up bool, follower_fetching bool, partitions int64, cost_per_day double",
    "cost_at_least double, cost_at_most double, topic string, code string, detail string",
)
"""Columns of a comparison that are facts, and the schema of the result."""


@dataclass(frozen=True)
class GroupParams:
    """Parameters of the advisers.

    Attributes:
        compare: parameters of the comparison, which has one change.
        size: parameters of the sizes; `None`: groups aren't sized.
        zones: parameters of the zone traffic; `None`: it isn't measured.
        min_members: the member count whose curve is a fact.
    """

    compare: CompareParams
    size: size.SizeParams | None
    zones: ZoneParams | None
    min_members: int


def advise_groups(facts: pa.Table, params: GroupParams) -> Iterator[pa.Table]:
    """Yields the facts of all groups in the input, as tables with the columns of `FACTS`."""
    what_if = pa.repeat(pa.scalar(params.compare.what_ifs[0]), len(facts))
    for table in compare(facts.append_column("what_if", what_if), params.compare, _COMPARED):
        yield tagged_table(COMPARED_ROW, table, FACTS)
    groups = open_pass(facts, action="size")
    if params.size is not None:
        for table in size.size_pass(groups, params.size, FACTS):
            is_curve = pc.equal(table["kind"], CURVE_ROW)
            is_minimum = pc.equal(table["members"], params.min_members)
            yield _of_adviser(Adviser.SIZE, table.filter(pc.or_kleene(pc.invert(is_curve), is_minimum)))
    if params.zones is not None:
        for table in zones.zone_options(zones.read_zone_input(groups), params.zones, FACTS):
            yield _of_adviser(Adviser.ZONES, table)
        yield _readers(groups.facts)


def _of_adviser(adviser: str, rows: pa.Table) -> pa.Table:
    """Returns rows of an adviser as facts. Kinds of rows have the same names in both."""
    index = FACTS.get_field_index("adviser")
    return rows.set_column(index, FACTS.field(index), pa.repeat(pa.scalar(adviser, pa.string()), len(rows)))


def _readers(indexed: IndexedFacts) -> pa.Table:
    """Returns the topics that each group subscribes to."""
    rows = np.concatenate([indexed.rows_by_kind[kind] for kind in (SUBSCRIPTION, LISTED_TOPIC)])
    key = indexed.group_index[rows] * (len(indexed.topic_names) + 1) + indexed.topic_index[rows]
    rows = rows[np.unique(key, return_index=True)[1]]
    columns = {name: indexed.column(name, rows) for name in ("cluster", "group_id", "topic")}
    return tagged(READER_ROW, columns, len(rows), FACTS)
