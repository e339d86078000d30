"""Weighted-sticky: at size, and against Landau et al. on their streams (`autoscaling`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks.autoscaling import ALGORITHMS, CAPACITY, DELTAS, STARTS, FloatArray, IntArray, r_score, stream
from benchmarks.bench import Bench, Result
from benchmarks.fewest import fewest_members
from spark_assign.assignors.weighted.assign_weighted import plan_weighted
from spark_assign.assignors.weighted.pack import min_cover
from spark_assign.assignors.weighted.weighted_groups import HELD, WeightedGroups

Algorithm = Callable[[FloatArray, IntArray], IntArray]

SPARE = (0.0, 0.02, 0.08)
"""How many more members than needed are kept, as a share of these."""


def at_size(bench: Bench) -> None:
    """One group of a million partitions, and many groups: the kernel alone, on one thread."""
    draw = np.random.default_rng(16)
    members, partitions = bench.size(1_000, 50), bench.size(1_000_000, 5_000)
    load, nobody = draw.lognormal(0, 1.5, partitions), np.full(partitions, -1)
    random = draw.integers(0, members, partitions)
    owners = {"nobody has anything": nobody, "owned at random": random, "one member gone": np.where(random, random, -1)}
    for what, owner in owners.items():
        group = _groups(1, members, load, owner)
        seconds = bench.in_turns(kernel=partial(_held, group))["kernel"]
        fleet = f"{partitions:,} partitions, {members:,} members"
        bench.report(Result(f"weighted, {what}", fleet, seconds, "s", bench.goal("<= 5")))
    number = bench.size(2_000, 20)
    load = draw.lognormal(0, 0.5, number * 200)
    owner = draw.integers(0, 50, number * 200) + np.repeat(np.arange(number) * 50, 200)
    groups = _groups(number, 50, load, owner)
    seconds = bench.in_turns(kernel=partial(_held, groups))["kernel"]
    fleet = f"{number:,} groups of 50 members, 200 partitions"
    bench.report(Result("weighted, owned at random", fleet, seconds, "s", detail="every group has to be settled"))


def _groups(number: int, members: int, load: FloatArray, owner: IntArray) -> WeightedGroups:
    group = np.repeat(np.arange(number), len(load) // number)
    bound = np.bincount(group, load) / members * 1.1
    may = [np.arange(members) + each * members for each in range(number)]
    whose = np.repeat(np.arange(number), members)
    return WeightedGroups(whose, group, load, owner, group, may, np.maximum(bound, load.max()), np.full(number, np.inf))


def _held(groups: WeightedGroups) -> None:
    assert (plan_weighted(groups).status == HELD).all()


# --- the streams of the paper -------------------------------------------------------------------------------------


@dataclass
class Ran:
    """What an algorithm made of some streams: of each measurement the consumers, the R-score, and their lower bounds.

    Where consumers are opened or closed no bound of the R-score is known, and NaN stands for it.
    """

    consumers: list[int] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    must_move: list[float] = field(default_factory=list)


def streams(bench: Bench) -> None:
    """R-score and consumers above the fewest, of each algorithm, on average over all measurements of all starts."""
    measurements = bench.size(500, 10)
    algorithms: dict[str, Algorithm] = ALGORITHMS | {f"ours, spare {spare:.0%}": _ours(spare) for spare in SPARE}
    for delta in DELTAS[:: bench.size(1, 4)]:
        ran = {name: Ran() for name in algorithms}
        least: list[int] = []
        for start in STARTS[bench.size(0, 3) :]:
            speeds = stream(delta, start, measurements)
            least += [_least_consumers(speed) for speed in speeds[1:]]
            for name, assign in algorithms.items():
                _run(assign, speeds, ran[name])
        _tell(bench, delta, ran, np.array(least))


def _ours(spare: float) -> Algorithm:
    def assign(speed: FloatArray, now: IntArray) -> IntArray:
        at, some = now.copy(), speed > 0
        at[some] = fewest_members(speed[some], now[some], CAPACITY, spare)
        # What is not written to stays where it is, or goes to anybody who is there.
        lost = ~some & ~np.isin(at, at[some])
        at[lost] = at[some].min() if some.any() else 0
        return at

    return assign


def _run(assign: Algorithm, speeds: list[FloatArray], ran: Ran) -> None:
    now = assign(speeds[0], np.full(len(speeds[0]), -1))
    for speed in speeds[1:]:
        at = assign(speed, now)
        load, number = np.bincount(at, speed), np.bincount(at)
        assert not ((load > CAPACITY + 1e-6) & (number > 1)).any()
        same = set(now.tolist()) == set(at.tolist())
        ran.consumers.append(len(np.unique(at)))
        ran.moved.append(r_score(speed, now, at))
        ran.must_move.append(_must_move(speed, now) if same else np.nan)
        now = at


def _must_move(speed: FloatArray, now: IntArray) -> float:
    """No assignment to the same consumers has a lower R-score: what each has too much leaves it, wherever it goes."""
    least = 0.0
    for consumer in np.flatnonzero(np.bincount(now, speed) > CAPACITY + 1e-6).tolist():
        mine = speed[now == consumer]
        least += mine[min_cover(mine, float(mine.sum()) - CAPACITY - 1e-6)].sum()
    return float(least) / CAPACITY


def _least_consumers(speed: FloatArray) -> int:
    """No packing needs fewer: Martello and Toth's bound L2."""
    most = 0
    for small in range(int(CAPACITY / 2) + 1):
        alone = speed > CAPACITY - small
        half = (speed > CAPACITY / 2) & ~alone
        rest = speed[(speed >= small) & (speed <= CAPACITY / 2)].sum() - (half.sum() * CAPACITY - speed[half].sum())
        most = max(most, int(alone.sum() + half.sum() + max(0, np.ceil(rest / CAPACITY - 1e-9))))
    return most


def _tell(bench: Bench, delta: int, ran: dict[str, Ran], least: IntArray) -> None:
    consumers = {name: np.array(each.consumers) for name, each in ran.items()}
    fewest = np.minimum.reduce(list(consumers.values()))
    above = {name: float((each / np.maximum(fewest, 1) - 1).mean()) for name, each in consumers.items()}
    moved = {name: float(np.mean(each.moved)) for name, each in ran.items()}
    stream_ = f"delta {delta}"
    for name in ran:
        bench.report(Result(name, stream_, moved[name], "R-score", detail=f"{above[name]:.4f} above the fewest"))
    theirs, ours = list(ALGORITHMS), [name for name in ran if name not in ALGORITHMS]

    def beats(one: str, other: str) -> bool:
        as_good = above[one] <= above[other] and moved[one] <= moved[other]
        return as_good and (above[one] < above[other] or moved[one] < moved[other])

    beaten = sum(any(beats(one, other) for one in theirs) for other in ours)
    bench.report(Result("ours, beaten by one of theirs", stream_, beaten, "of 3", bench.goal("<= 0")))
    left = [other for other in theirs if not any(beats(one, other) for one in ours)]
    bench.report(Result("theirs, not beaten by ours", stream_, len(left), "of 8", bench.goal("<= 0"), ", ".join(left)))
    fitting = [moved[name] for name in ours if above[name] <= above["MWF"]]
    ratio = min(fitting, default=np.inf) / moved["MWF"]
    bench.report(Result("load moved, of MWF's", stream_, ratio, "x", bench.goal("<= 1"), "no more consumers"))
    far = 100 * float((consumers[ours[0]] / np.maximum(least, 1) - 1).mean())
    bench.report(Result(ours[0], stream_, far, "% above L2", None, "no packing has fewer consumers than L2"))
    peace = ran[ours[-1]]
    known = ~np.isnan(peace.must_move) & (np.array(peace.must_move) > 0)
    if known.any():
        distance = float(np.array(peace.moved)[known].sum() / np.array(peace.must_move)[known].sum())
        detail = f"{int(known.sum()):,} measurements in which no consumer comes or goes"
        bench.report(Result(ours[-1], stream_, distance, "x must move", None, detail))
