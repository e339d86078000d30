"""Every classic group on its way to another release of Kafka's clients, in one pass over whole groups.

A row of the answer is tagged by its `kind`:

    group      whether the group may go, and what that moves, held against the same restarts by one release's rules
    step       one restart: who leads then, by whose rules, and what moves
    rejected   code, detail: a group that nothing can be said of, or that is no classic group of consumers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.client_libraries import STOP_ALL
from spark_assign.groups.kernel.facts import column, index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.groups.kernel.group_metrics import count_subscribed_partitions
from spark_assign.groups.kernel.group_properties import (
    find_unsupported_groups,
    read_assignors,
    read_client_libraries,
    read_group_types,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs, find_empty_groups, read_group_specs
from spark_assign.groups.kernel.plan_groups import read_leaders
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel.upgrade import words
from spark_assign.migration.kernel.upgrade.full_restart import simulate_full_restart
from spark_assign.migration.kernel.upgrade.reported_subscription import rules_of
from spark_assign.migration.kernel.upgrade.rolling_upgrade import play
from spark_assign.migration.kernel.upgrade.upgrade_path import ClientConfig, RollingUpgrade, UpgradePath, UpgradeStep
from spark_assign.migration.kernel.upgrade.upgrade_verdict import (
    GO,
    NOT_KNOWN,
    THERE,
    UpgradeCandidate,
    is_there,
    judge,
    known,
)

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
FIGURES = ("moved", "revoked", "stopped", "moved_by_rules")
UPGRADED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "verdict", "assignor", "to_assignor"), _TEXT),
        **dict.fromkeys(("from_release", "to_release", "from_rules", "to_rules", "clients"), _TEXT),
        **dict.fromkeys(("members", "static_members", "partitions", "restarts", "played", "leader_changes"), _LONG),
        **dict.fromkeys(("moved", "moved_by_rules", "moved_by_old_rules", "moved_by_new_rules"), _LONG),
        **dict.fromkeys(("revoked", "stopped"), _LONG),
        "note": _TEXT,
        **dict.fromkeys(("step", "bounce"), _INT),
        **dict.fromkeys(("what", "action", "member_id", "came_back_as", "leader", "leader_release", "rules"), _TEXT),
        "leader_changed": pa.bool_(),
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Everything that is said of an upgrade, a row per group, step or refusal (`tables.comparison`)."""


@dataclass(frozen=True)
class UpgradeParams:
    """What is asked.

    Attributes:
        to: the release that all members come back with.
        assignor: that they come back with; null: the same as now.
    """

    to: str
    assignor: str | None = None


def upgrade(facts: pa.Table, asked: UpgradeParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `UPGRADED`."""
    told = index_facts(facts)
    faults = find_faults(told, also=("share", "streams"))
    others = find_unsupported_groups(told, "upgrade")
    refused = rejected_table(told, faults | {group: why for group, why in others.items() if group not in faults})
    yield tagged_table(REJECTED, refused, UPGRADED)
    specs = read_group_specs(told, {*faults, *others})
    cases = _cases(specs, asked)
    served = [kind == "consumer" for kind in read_group_types(specs)]
    why = [
        "The broker assigns it (KIP-848): no member leads." if at else known(case)
        for at, case in zip(served, cases, strict=True)
    ]
    found = _Found(specs, [None if words or is_there(case) else case for words, case in zip(why, cases, strict=True)])
    yield tagged_rows(
        REJECTED,
        [found.named(group) | {"code": code, "detail": said} for group, (code, said) in sorted(found.refused.items())],
        UPGRADED,
    )
    rows = []
    for group, (case, words_) in enumerate(zip(cases, why, strict=True)):
        if group not in found.refused:
            rows.append(found.row(group, case, THERE if served[group] else NOT_KNOWN, words_))
    yield tagged_rows(OF_GROUP, [*rows, *_idle(told, {*faults, *others})], UPGRADED)
    yield tagged_rows(OF_STEP, [step for group in range(specs.num_groups) for step in found.steps(group)], UPGRADED)


def _cases(specs: GroupSpecs, asked: UpgradeParams) -> list[UpgradeCandidate]:
    """Of each group what is known of it, and where it goes."""
    now, leaders = read_assignors(specs), read_leaders(specs.facts)
    names = zip(specs.cluster.to_pylist(), specs.group_id.to_pylist(), strict=True)
    led = [leaders.get(name, (None, None, None)) for name in names]
    clients = read_client_libraries(specs, now, [library for library, _, _ in led])
    return [
        UpgradeCandidate(assignor, library, releases, of, asked.to, asked.assignor)
        for assignor, (library, releases, _), of in zip(now, led, clients, strict=True)
    ]


class _Found:
    """All groups played, and as rows."""

    def __init__(self, specs: GroupSpecs, cases: Sequence[UpgradeCandidate | None]) -> None:
        """`cases`: of those groups that have something to do."""
        self.specs, self.cases = specs, cases
        self.way = play(specs, [_course(each) for each in cases])
        self.old, self.new = (play(specs, [_alone(each, new) for each in cases]) for new in (False, True))
        self.stopped, self.moved, refused = simulate_full_restart(specs, [_full_restart(each) for each in cases])
        self.refused = self.way.refused | refused
        self.partitions = count_subscribed_partitions(specs).tolist()
        self.members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
        static = specs.facts.column("group_instance_id", specs.members.row).is_valid().to_numpy(zero_copy_only=False)
        self.static = np.bincount(specs.members.group[static], minlength=specs.num_groups).tolist()
        self.names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
        self.ids = specs.member_id.to_pylist()

    def named(self, group: int) -> dict[str, Any]:
        """The names of a group."""
        return {"cluster": self.names[0][group], "group_id": self.names[1][group]}

    def row(self, group: int, case: UpgradeCandidate, otherwise: str, why: str | None) -> dict[str, Any]:
        """What is said of a group; `otherwise`: the verdict where it is `why` nothing can be."""
        row = self.named(group) | {
            "assignor": case.assignor,
            "clients": case.clients,
            "members": self.members[group],
            "static_members": self.static[group],
            "partitions": self.partitions[group],
            "to_release": case.to,
            "to_rules": rules_of(case.to).release_line,
        }
        if why is not None:
            return row | {"verdict": otherwise, "note": why}
        row |= {"from_release": case.release, "from_rules": rules_of(str(case.release)).release_line}
        row["to_assignor"] = case.switch or case.assignor
        steps, whole = self.way.steps[group], bool(self.way.whole[group])
        total = _total(steps) if whole else {}
        verdict, note = judge(case, total.get("moved_by_rules"), whole)
        row |= {"verdict": verdict, "note": note}
        if self.cases[group] is None or verdict not in (GO, "go-with-warning"):
            return row
        if not case.rolls:
            return row | {"restarts": self.members[group], **self._stopped(group)}
        return row | {
            "restarts": self.members[group] * len(case.lists),
            "played": sum(step.member >= 0 for step in steps),
            "leader_changes": sum(step.changed for step in steps),
            **total,
            "moved_by_old_rules": self._alone(self.old, group, total),
            "moved_by_new_rules": self._alone(self.new, group, total),
        }

    def _alone(self, played: RollingUpgrade, group: int, total: dict[str, int]) -> int | None:
        case = self.cases[group]
        if case is not None and case.way is None and case.same_rules:
            return total.get("moved")
        return _total(played.steps[group])["moved"] if played.whole[group] else None

    def _stopped(self, group: int) -> dict[str, int]:
        return {"moved": int(self.moved[group]), "stopped": int(self.stopped[group])}

    def steps(self, group: int) -> Iterator[dict[str, Any]]:
        """The steps of a group."""
        case = self.cases[group]
        if case is None or group in self.refused:
            return
        if case.way is not None and case.way.kind == STOP_ALL:
            stops = {"what": "stop-all", "action": words.stop_all(case), "stopped": int(self.stopped[group])}
            starts = {"what": "start-all", "action": words.start_all(case), "moved": int(self.moved[group])}
            yield from (self.named(group) | {"step": at, **each} for at, each in ((1, stops), (2, starts)))
            return
        for number, step in enumerate(self.way.steps[group], 1):
            yield self.named(group) | {
                "step": number,
                "what": step.what,
                "bounce": step.bounce,
                "member_id": self.ids[step.member] if step.member >= 0 else None,
                "came_back_as": step.came_back_as,
                "leader": step.leader,
                "leader_release": step.leader_release,
                "leader_changed": step.changed,
                "assignor": step.elected,
                "rules": rules_of(step.leader_release).release_line,
                **_figures(step),
                "action": words.action(case, step),
            }


def _course(case: UpgradeCandidate | None) -> UpgradePath | None:
    if case is None or not case.rolls:
        return None
    return UpgradePath(
        ClientConfig(str(case.release), case.lists[0][:1]), tuple(ClientConfig(case.to, each) for each in case.lists)
    )


def _alone(case: UpgradeCandidate | None, new: bool) -> UpgradePath | None:
    """The same restarts by one release's rules; null: they decide alike."""
    if case is None or not case.rolls or (case.way is None and case.same_rules):
        return None
    setup = ClientConfig(case.to if new else str(case.release), case.lists[0][:1])
    return UpgradePath(setup, (setup,))


def _full_restart(case: UpgradeCandidate | None) -> ClientConfig | None:
    if case is None or case.way is None or case.way.kind != STOP_ALL:
        return None
    return ClientConfig(case.to, case.lists[-1])


def _figures(step: UpgradeStep) -> dict[str, int]:
    return dict(zip(FIGURES, (step.moved, step.revoked, step.stopped, step.by_rules), strict=True))


def _total(steps: Sequence[UpgradeStep]) -> dict[str, int]:
    """Added up over the restarts; what settles later is not among them."""
    each = [_figures(step) for step in steps if step.member >= 0]
    return {name: sum(figures[name] for figures in each) for name in FIGURES}


def _idle(told: Any, excluded: set[int]) -> Iterator[dict[str, Any]]:
    """Groups without members: nothing to restart."""
    for row in find_empty_groups(told, excluded).tolist():
        yield {
            **{name: column(told.facts, name)[row].as_py() for name in ("cluster", "group_id", "assignor")},
            "verdict": GO,
            "members": 0,
            "note": "It has no members: the first one founds it anew, by its own release.",
        }
