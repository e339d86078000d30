"""What to do over a cluster: all that the advisers say of its groups, brought together, and decided.

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
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from spark_assign.advice.kernel.cluster_advice import follower_fetching, of_fetching, of_replicas, to_know, unasked
from spark_assign.advice.kernel.group_findings import GroupFindings
from spark_assign.advice.kernel.params import AdviceParams
from spark_assign.advice.kernel.resolve_conflicts import settle
from spark_assign.advice.kernel.rows import MATTERS, QUESTIONS, AdviceItem
from spark_assign.groups.kernel.tagged_rows import tagged_rows

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


def advise(facts: pa.Table, asked: AdviceParams) -> Iterator[pa.Table]:
    """Answer for all clusters of these facts, in tables with the columns of `ADVISED`."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in facts.to_pylist():
        rows[row["cluster"]][row["about"]].append(row)
    for cluster in sorted(rows):
        yield from _of_cluster(cluster, rows[cluster], asked)


def _of_cluster(cluster: str, told: Mapping[str, list[dict[str, Any]]], asked: AdviceParams) -> Iterator[pa.Table]:
    groups = _groups(cluster, told)
    heard = [each for each in groups if each.is_heard]
    taken = follower_fetching(heard, asked)
    settled = {each.group_id: settle(each, asked, taken) for each in heard}
    readers: dict[str, set[str]] = defaultdict(set)
    for row in told[READER]:
        readers[row["topic"]].add(row["group_id"])
    advice: list[tuple[str | None, AdviceItem]] = [
        (name, each) for name, found in settled.items() for each in found.advice
    ]
    silent: list[tuple[str | None, dict[str, Any]]] = [
        (name, each) for name, found in settled.items() for each in found.not_advised
    ]
    for more, less in (of_fetching(heard, asked, taken), of_replicas(told[OF_MOVE], readers, settled, asked, taken)):
        advice += [(None, each) for each in more]
        silent += [(None, each) for each in less]
    advice += [(None, each) for each in to_know(heard, asked, taken)]
    silent += [(None, each) for each in unasked(asked)]
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
