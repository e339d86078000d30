"""Which assignor a group should run with, and why, in words.

Principles, in this priority: what stays for good comes before what is paid once.
    1. The group comes to rest, and as few partitions as possible stay without an owner.
    2. Balance: max over mean no more than 5 % above the best.
    3. Racks: no more than 5 % of the partitions above the fewest that are read across racks.
    4. Moves: no more than 1 % of the partitions above the fewest.
    5. Pause: no more than 10 % above the fewest partition-seconds, or five seconds for each of its partitions.
Of those that are left the group keeps the one it runs with; else the first in the order of `PREFERRED` is taken.

Five seconds, as a rebalance is paid once: with Kafka's default times no protocol costs a partition more than that, and
nobody should restart a group for less. It decides where giving up or restoring partitions takes its time.

Example: range balances 1.53 and moves nothing, roundrobin balances 1.00 and moves 91 %, cooperative-sticky balances
1.00 and moves 3 %. Range goes by 2, roundrobin by 4.
    cooperative-sticky: 3 % of partitions move instead of 91 %, same balance (against roundrobin)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.groups.assignors.release_rules import client_assignor

BALANCE, RACKS, MOVES, PAUSE, PAUSE_S = 0.05, 0.05, 0.01, 0.1, 5.0
"""What counts as the same; see above. The last is in seconds per partition, the others are shares."""

PREFERRED = ("cooperative-sticky", "sticky", "uniform", "range", "roundrobin", "server-range")
"""Where nothing else decides: who moves least in the long run comes first."""

KAFKA_DEFAULT = "range"
"""What a group of consumers that are told nothing votes for."""


@dataclass(frozen=True)
class AssignorMetrics:
    """One assignor's figures for a group; names and units as in `tables.groups.COMPARISON`."""

    assignor: str
    members: int
    partitions: int
    max_over_mean: float | None
    moved: int
    unassigned: int
    stable: bool
    rounds: int
    cross_rack_share: float | None
    paused: float
    rejected: str | None = None
    detail: str | None = None

    @property
    def able(self) -> bool:
        """Whether there is a plan to judge."""
        return self.rejected is None and self.members > 0


@dataclass(frozen=True)
class AssignorVerdict:
    """Whether it is the one to take, and why (not)."""

    recommended: bool
    reason: str


def figures(row: Mapping[str, Any]) -> AssignorMetrics:
    """Figures from a row; what is null of a group without a plan becomes nothing."""
    return AssignorMetrics(
        assignor=row["assignor"],
        members=row["members"] or 0,
        partitions=row["partitions"] or 0,
        max_over_mean=row["max_over_mean"],
        moved=row["moved"] or 0,
        unassigned=max(0, row["unassigned"] or 0),  # sticky ones may keep claims on partitions that do not exist
        stable=bool(row["stable"]),
        rounds=row["rounds"] or 0,
        cross_rack_share=row["cross_rack_share"],
        paused=row["partition_seconds_paused"] or 0.0,
        rejected=row["rejected"],
        detail=row["detail"],
    )


def judge(compared: Sequence[AssignorMetrics], configured: str | None = None) -> list[AssignorVerdict]:
    """A verdict for each assignor of one group and change, in the order given.

    Args:
        compared: the figures of all assignors that were compared, each once.
        configured: the assignor that the group runs with now, if that is known.

    Returns:
        one verdict each. Exactly one is recommended, unless no assignor has a plan for the group.
    """
    able = [each for each in compared if each.able]
    if not able:
        return [AssignorVerdict(False, _unable(each)) for each in compared]
    best = _best(able, configured)
    verdicts = []
    for each in compared:
        if not each.able:
            verdicts.append(AssignorVerdict(False, _unable(each)))
        elif each is best:
            verdicts.append(AssignorVerdict(True, _why(best, compared, configured)))
        else:
            verdicts.append(AssignorVerdict(False, _why_not(each, best, configured)))
    return verdicts


def _best(able: list[AssignorMetrics], configured: str | None) -> AssignorMetrics:
    left = [each for each in able if each.stable] or able
    for cost, slack in _COSTS:
        least = min(cost(each) for each in left)
        left = [each for each in left if cost(each) <= least + slack(each, least)]

    def place(name: str) -> tuple[bool, int, str]:
        return name != configured, (*PREFERRED, client_assignor(name)).index(client_assignor(name)), name

    return min(left, key=lambda each: place(each.assignor))


_Cost = Callable[[AssignorMetrics], float]
_Slack = Callable[[AssignorMetrics, float], float]


def _balance(each: AssignorMetrics) -> float:
    return each.max_over_mean or 0.0


def _cross(each: AssignorMetrics) -> float:
    return each.cross_rack_share or 0.0


def _same_moves(each: AssignorMetrics) -> float:
    return MOVES * each.partitions


def _same_pause(each: AssignorMetrics, least: float) -> float:
    return max(PAUSE * least, PAUSE_S * each.partitions)


_COSTS: tuple[tuple[_Cost, _Slack], ...] = (
    (lambda each: each.unassigned, lambda each, least: 0),
    (_balance, lambda each, least: BALANCE * least),
    (_cross, lambda each, least: RACKS),
    (lambda each: each.moved, lambda each, least: _same_moves(each)),
    (lambda each: each.paused, _same_pause),
)


# --- in words --------------------------------------------------------------------------------------------------


def _unable(each: AssignorMetrics) -> str:
    if each.rejected is None:
        return f"{each.assignor}: the group has no members, so there is nothing to decide"
    return f"{each.assignor}: cannot be planned ({each.rejected}): {each.detail}"


def _why(best: AssignorMetrics, compared: Sequence[AssignorMetrics], configured: str | None) -> str:
    others = [each for each in compared if each is not best and each.able]
    known = _known(best, compared, configured)
    if not others:
        only = "the only one compared" if len(compared) == 1 else "the only one that can plan the group"
        return f"{best.assignor}: {', '.join([only, *known])}"
    against = _reference(best, others, configured)
    better, same, worse = _held_against(best, against)
    if not better and not worse and (best.members == 1 or not best.partitions):
        all_same = "the only member gets everything" if best.partitions else "there are no partitions to assign"
        return f"{best.assignor}: {', '.join([f'{all_same}, whatever the assignor', *known])}"
    said = [*better, *same] if better else ["no worse in anything", *same]
    return f"{best.assignor}: {', '.join([', '.join(said) + _though(worse), *known])} (against {against.assignor})"


def _known(best: AssignorMetrics, compared: Sequence[AssignorMetrics], configured: str | None) -> list[str]:
    """What is to be said of the assignor that the group runs with."""
    if best.assignor == configured:
        return ["the group runs with it already"]
    if configured and configured not in {each.assignor for each in compared}:
        return [f"the group runs with {configured}, which is not compared"]
    return []


def _why_not(each: AssignorMetrics, best: AssignorMetrics, configured: str | None) -> str:
    better, same, worse = _held_against(each, best)
    if worse:
        said = ", ".join([*worse, *same])
    else:
        already = ", which the group runs with already" if best.assignor == configured else ""
        said = ", ".join(["not enough better", *same]) + already if better else f"no better than it{already}"
    return f"{each.assignor}: {said}{_though(better)} (against {best.assignor})"


def _though(pieces: list[str]) -> str:
    return f", though {', '.join(pieces)}" if pieces else ""


def _reference(best: AssignorMetrics, others: Sequence[AssignorMetrics], configured: str | None) -> AssignorMetrics:
    """Whom the best one is held against: what the group has, else what Kafka would give it, else the costliest."""
    by_name = {each.assignor: each for each in others}
    for name in (configured, KAFKA_DEFAULT):
        if name in by_name:
            return by_name[name]
    return max(others, key=lambda each: (*(cost(each) for cost, _ in _COSTS), each.assignor))


def _held_against(one: AssignorMetrics, other: AssignorMetrics) -> tuple[list[str], list[str], list[str]]:
    """In what one is better than another, the same, and worse; in the order in which it counts."""
    better: list[str] = []
    same: list[str] = []
    worse: list[str] = []

    def compare(mine: float, theirs: float, slack: float, differs: str, alike: str | None) -> None:
        if max(mine, theirs) <= min(mine, theirs) + slack:  # as `_best` asks, to the last bit
            same.extend([alike] if alike else [])
        else:
            (better if mine < theirs else worse).append(differs)

    if one.stable != other.stable:
        at_rest = "comes to rest" if one.stable else f"does not come to rest in {one.rounds} rounds"
        (better if one.stable else worse).append(at_rest)
    differs = f"{one.unassigned:,} partitions without an owner instead of {other.unassigned:,}"
    compare(one.unassigned, other.unassigned, 0, differs, None)
    mine, theirs = _balance(one), _balance(other)
    compare(mine, theirs, BALANCE * min(mine, theirs), f"max/mean {mine:.2f} instead of {theirs:.2f}", "same balance")
    if one.cross_rack_share is not None and other.cross_rack_share is not None:
        differs = f"{percent(_cross(one))} cross-rack instead of {percent(_cross(other))}"
        compare(_cross(one), _cross(other), RACKS, differs, None)
    mine, theirs = _share(one), _share(other)
    differs = f"{percent(mine)} of partitions move instead of {percent(theirs)}"
    compare(one.moved, other.moved, _same_moves(one), differs, f"{percent(mine)} of partitions move with both")
    slack = _same_pause(one, min(one.paused, other.paused))
    differs = f"{one.paused:,.1f} instead of {other.paused:,.1f} partition-seconds paused"
    compare(one.paused, other.paused, slack, differs, None)
    return better, same, worse


def _share(each: AssignorMetrics) -> float:
    return each.moved / each.partitions if each.partitions else 0.0


def percent(share: float) -> str:
    """A share as people say it: whole percents, but never 0 % for something or 100 % for less than all."""
    if 0 < share <= 0.005:  # half a percent would be rounded to the even number, 0
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"
