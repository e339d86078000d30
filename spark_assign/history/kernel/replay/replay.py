"""Replays every recorded rebalance of a task's groups with other assignors and protocols, static or dynamic members.

All tables are one table of tagged rows (`history.schemas.REPLAY_ROWS`), whose `kind` is the name of the table
(`tables.history.REPLAY_TABLES`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from spark_assign.assignors.group_facts import WINDOW_ASSIGNORS
from spark_assign.assignors.server import SERVER_RANGE
from spark_assign.assignors.server.coordinator_order import iteration_order, map_capacity
from spark_assign.groups.kernel.client_settings import find_refusals
from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.history.kernel.facts import merge_buckets
from spark_assign.history.kernel.replay.rebalance_cost import (
    GenerationCost,
    RoundDurations,
    baseline_costs,
    count_blocked,
    measure_rounds,
)
from spark_assign.history.kernel.replay.recorded_history import (
    ASSIGNORS,
    CONSUMER,
    COOPERATIVE,
    EAGER,
    FIRST,
    FOLLOW_UP,
    REPEATED,
    RESTARTED,
    RecordedHistory,
    RejectedHistory,
    ReplayVariant,
    read_histories,
)
from spark_assign.history.kernel.replay.replay_steps import (
    MemberIdentities,
    ReplayMembers,
    ReplayStep,
    replay_steps,
)
from spark_assign.history.kernel.replay.reproduce_recorded import check_reproduced, client_libraries
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.java.hash_map import java_key
from spark_assign.numeric.arrays import values_by_key
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, AssignmentRequest, JoinedMember, Topics
from spark_assign.simulation.kernel.pause_estimates import PauseCounts
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import solve_requests
from spark_assign.simulation.kernel.target_assignment import (
    NOTHING,
    MemberSubscriptionAndAssignment,
    TargetAssignment,
    TargetRequest,
    TargetResponse,
    Topic,
    TopicsImage,
    follow,
    fresh,
)
from spark_assign.tables.errors import failure_of_code
from spark_assign.tables.quoting import in_text

# --- replay group -----------------------------------------------------------------------------------------------------
#
# Replays the past of one group in one variant: each rebalance starts from what the variant left after the one before.
#
# All variants start with the first generation on record: an assignor that considers current ownership receives the
# owners of that time, and the cost of the start counts for no variant. Members report what today's Java clients report
# (`migration.kernel.upgrade_verdict`): those of the sticky assignor their last assignment and its generation,
# cooperative ones what they own. A new member reports nothing.
#
# A rebalance is avoided if a variant has no cause for it: a static member returned in time; partitions that were
# assigned in the next generation, because an owner had to release them first, need as many rounds of their own as the
# variant takes; and the broker of a KIP-848 group does nothing if nothing has changed.


MAX_ROUNDS = 16
"""Maximum number of rounds of a cooperative rebalance that are simulated."""


_MAX_REPLAYED = 20_000_000
"""Maximum number of members and partitions that all steps of a variant assign. Each takes a microsecond."""
_MAX_CACHED = 1_000_000
"""Maximum number of partitions in the assignments that a variant keeps."""


class ReplayError(Exception):
    """A variant can't be replayed. The arguments are the code and the detail of `replay_rejected`."""


@dataclass(frozen=True, slots=True)
class ReplayAssignment:
    """The owners after a rebalance.

    Attributes:
        owners: member id of the owner of each partition.
        kept: number of partitions of live members that their owner had without interruption.
        revoked: number of partitions that live members lost.
        returned: number of revoked partitions that their owner received again.
        later: number of revoked partitions that were revoked after the first two rounds.
        blocked: number of partitions that their owner kept while it revoked others, summed over the rounds.
        rounds: number of rounds.
    """

    owners: dict[int, str]
    kept: int
    revoked: int
    returned: int = 0
    later: int = 0
    blocked: int = 0
    rounds: int = 1


def replay_group(
    history: RecordedHistory,
    variant: ReplayVariant,
    steps: Iterable[ReplayStep],
    durations: RoundDurations,
    owners_log: list[Mapping[int, str]] | None = None,
) -> Generator[Any, Any, list[GenerationCost]]:
    """Replays a group. Yields assignment requests, and is sent the responses.

    Args:
        history: the group.
        variant: the variant.
        steps: its steps in the variant.
        durations: durations of its rounds.
        owners_log: receives the owners after each rebalance, if given.

    Returns:
        the cost of each recorded generation; the first one costs nothing.

    Raises:
        ReplayError: the assignor throws, or the steps are too large.
    """
    costs = [GenerationCost() for _ in history.generations]
    group = (_ConsumerGroup if variant.protocol == CONSUMER else _ClassicGroup)(history, variant)
    last_owners: dict[int, str] = {}
    num_replayed = 0
    for step in steps:
        num_replayed += len(step.members)
        if num_replayed > _MAX_REPLAYED:
            detail = f"{variant.assignor}: its rebalances assign more than {_MAX_REPLAYED:,} members and partitions"
            raise ReplayError("too-many-partitions", detail)
        cost = costs[step.source_generation]
        _add_waits(cost, step, group, durations)
        kind = step.generation_kind
        if kind in (FOLLOW_UP, RESTARTED) or (kind == REPEATED and variant.protocol == CONSUMER):
            continue
        owned = {partition: owner for partition, owner in group.owners.items() if owner in step.members}
        identities = step.identities
        assignment = yield from group.rebalance(step, owned)
        num_replayed += assignment.rounds * len(assignment.owners)
        owners = {partition: identities[owner] for partition, owner in assignment.owners.items()}
        if owners_log is not None:
            owners_log.append(assignment.owners)
        if kind != FIRST:
            cost.rebalances += assignment.rounds
            cost.moved += sum(partition in last_owners for partition, _ in _subtract(owners, last_owners))
            cost.revoked += assignment.revoked
            counts = PauseCounts(
                len(step.members),
                len(assignment.owners),
                len(owned.keys() & assignment.owners.keys()),
                assignment.kept,
                assignment.returned,
                assignment.later,
                assignment.blocked,
            )
            cost.paused_partition_ms += durations.rebalance_pause_ms(step.source_generation, variant.protocol, counts)
        last_owners |= owners
    return costs


def _subtract(owners: Mapping[int, str], others: Mapping[int, str]) -> set[tuple[int, str]]:
    """Returns the partitions that have another owner, or none, in `others`. Most have the same."""
    return {(partition, owner) for partition, owner in owners.items() if others.get(partition) != owner}


def _add_waits(cost: GenerationCost, step: ReplayStep, group: _ReplayGroup, durations: RoundDurations) -> None:
    """Adds the pauses of partitions whose owner the group waits for."""
    if not step.session_wait_ms and not step.downtime_ms:
        return
    num_owned = Counter(group.owners.values())
    unnoticed_ms = durations.unnoticed_downtime_ms(step.source_generation)
    waits = chain(step.session_wait_ms.items(), step.downtime_ms.items())
    cost.paused_partition_ms += sum(
        num_owned[member_id] * (unnoticed_ms if wait_ms is None else wait_ms) for member_id, wait_ms in waits
    )


class _ReplayGroup:
    """A group in one variant. `owners`: the owner of each partition after the last rebalance, by member id."""

    def __init__(self, history: RecordedHistory, variant: ReplayVariant) -> None:
        self.topics, self.variant = history.topics, variant
        self.owners: dict[int, str] = dict(history.generations[0].owners)
        self._positions_by_shape: dict[object, list[list[int]]] = {}

    def rebalance(self, step: ReplayStep, owned: dict[int, str]) -> Generator[Any, Any, ReplayAssignment]:
        """Assigns all partitions; `owned` is what live members own."""
        raise NotImplementedError

    def assign(self, step: ReplayStep, owned: Mapping[int, str]) -> Generator[Any, Any, dict[int, str]]:
        """Returns the owners; `owned` is what members report as owned.

        An assignor that ignores current ownership runs once per shape (`replay_steps.AssignmentOrder`).
        """
        if self.variant.assignor not in _WITHOUT_OWNERSHIP or not step.assignment_order.homogeneous:
            return (yield from self.run_assignor(step, owned))
        order = step.assignment_order
        if order.shape in self._positions_by_shape:
            return order.to_owners(self._positions_by_shape[order.shape])
        owners = yield from self.run_assignor(step, owned)
        if len(self._positions_by_shape) * len(owners) > _MAX_CACHED:
            self._positions_by_shape.clear()
        self._positions_by_shape[order.shape] = order.to_positions(owners)
        return owners

    def run_assignor(self, step: ReplayStep, owned: Mapping[int, str]) -> Generator[Any, Any, dict[int, str]]:
        """Runs the assignor once and returns the owners; `owned` is what members report as owned."""
        raise NotImplementedError


_WITHOUT_OWNERSHIP = (*WINDOW_ASSIGNORS, SERVER_RANGE)
"""Assignors that ignore current ownership."""


# --- classic groups -----------------------------------------------------------------------------------------------


class _ClassicGroup(_ReplayGroup):
    """A group with an assignor of the clients.

    Attributes:
        generation: current generation id.
        last_generation: the last generation of each member.
    """

    def __init__(self, history: RecordedHistory, variant: ReplayVariant) -> None:
        super().__init__(history, variant)
        self.generation = 1
        self.last_generation = dict.fromkeys(history.generations[0].members, 1)

    def rebalance(self, step: ReplayStep, owned: dict[int, str]) -> Generator[Any, Any, ReplayAssignment]:
        """See `_ReplayGroup`."""
        if not step.members:
            self.owners, self.last_generation = {}, {}
            return ReplayAssignment({}, 0, 0)
        owners = yield from self.assign(step, owned)
        lost = _subtract(owned, owners)
        if self.variant.protocol == EAGER or not lost:
            self.owners = owners
            return ReplayAssignment(owners, len(owned) - len(lost), len(lost))
        kept, first_lost, later, rounds = owned.items() - lost, lost, 0, 1
        blocked = count_blocked(owned.items(), lost)
        while lost and rounds < MAX_ROUNDS:
            next_owners = yield from self.assign(step, owners)
            lost = _subtract(owners, next_owners)
            blocked += count_blocked(owners.items(), lost)
            kept, later, rounds, owners = kept - lost, later + len(lost), rounds + 1, next_owners
        self.owners = owners
        returned = len(first_lost & owners.items())
        return ReplayAssignment(owners, len(kept), len(first_lost) + later, returned, later, blocked, rounds)

    def run_assignor(self, step: ReplayStep, owned: Mapping[int, str]) -> Generator[Any, Any, dict[int, str]]:
        """See `_ReplayGroup`."""
        request = _build_request(self.variant, step, self.topics, owned, self.last_generation)
        response = yield request
        if response.error is not None:
            raise ReplayError("kafka-fails", f"{self.variant.assignor}: {response.error}")
        self.generation += 1
        self.last_generation = dict.fromkeys(step.members, self.generation)
        return {
            partition: member.member_id
            for member, partitions in zip(request.members, response.assigned, strict=True)
            for partition in partitions
        }


def _build_request(
    variant: ReplayVariant,
    step: ReplayStep,
    topics: Topics,
    owned: Mapping[int, str],
    last_generation: Mapping[str, int],
) -> AssignmentRequest:
    """Returns the request to the leader, with what members report as owned."""
    owned_by_member: dict[str, list[int]] = {member_id: [] for member_id in step.members}
    if variant.assignor in ("sticky", "cooperative-sticky"):
        for partition in sorted(owned):
            owned_by_member[owned[partition]].append(partition)
    has_user_data = variant.protocol != COOPERATIVE
    members = [
        JoinedMember(
            member_id,
            member.instance,
            member.rack,
            member.hash,
            member.topics,
            owned_by_member[member_id],
            last_generation.get(member_id, -1),
            last_generation.get(member_id, -1) if has_user_data else None,
        )
        for member_id, member in step.members.items()
    ]
    return AssignmentRequest(variant.assignor, members, topics, step.partitions)


# --- consumer groups (KIP-848) ------------------------------------------------------------------------------------


class _ConsumerGroup(_ReplayGroup):
    """A group with the broker's protocol, whose members keep their partitions as the coordinator would.

    Records of classic groups have no topic ids, so these are assigned in the order of the topic names.

    Attributes:
        targets: the target assignment of each member, by member id.
    """

    def __init__(self, history: RecordedHistory, variant: ReplayVariant) -> None:
        """Sets the targets to the owned partitions, in the order of a newly built target."""
        super().__init__(history, variant)
        self.targets: dict[str, TargetAssignment] = {}
        self._metadata = TopicsImage()
        self._partitions: Mapping[int, int] = {}
        partitions = history.generations[0].partitions
        self._update_metadata(partitions)
        owners = sorted(self.owners.items())
        by_owner = values_by_key((owner, each) for each, owner in owners if each >> CODE_BITS in partitions)
        by_number = {topic.number: topic for topic in self._metadata.by_name.values()}
        for owner, owned in by_owner.items():
            topics = sorted({partition >> CODE_BITS for partition in owned})
            self.targets[owner] = fresh(owned, topics, by_number)

    def rebalance(self, step: ReplayStep, owned: dict[int, str]) -> Generator[Any, Any, ReplayAssignment]:
        """See `_ReplayGroup`."""
        self.owners = (yield from self.assign(step, owned)) if step.members else {}
        lost = _subtract(owned, self.owners)
        blocked = count_blocked(owned.items(), lost)
        return ReplayAssignment(self.owners, len(owned) - len(lost), len(lost), blocked=blocked)

    def run_assignor(self, step: ReplayStep, owned: Mapping[int, str]) -> Generator[Any, Any, dict[int, str]]:
        """See `_ReplayGroup`."""
        response: TargetResponse = yield self._build_request(step.members, step.partitions)
        self.targets |= response
        return {partition: member_id for member_id, target in self.targets.items() for partition in target.walk}

    def _update_metadata(self, partitions: Mapping[int, int]) -> None:
        """Updates the topics. One with fewer partitions than before was created again, so nobody owns any of it."""
        if partitions == self._partitions:
            return
        names, before = self.topics.names, {topic.number: topic for topic in self._metadata.by_name.values()}
        changed = {topic: count for topic, count in partitions.items() if count != self._partitions.get(topic)}
        again = {topic for topic, count in changed.items() if topic in before and count < before[topic].partitions}
        for member_id, target in self.targets.items() if again else ():
            gone = [(partition, False) for partition in target.walk if partition >> CODE_BITS in again]
            self.targets[member_id] = follow(target, gone, before)
        self._metadata.put(Topic(topic, names[topic], count, topic, topic) for topic, count in sorted(changed.items()))
        self._partitions = partitions

    def _build_request(self, group_members: ReplayMembers, partitions: Mapping[int, int]) -> TargetRequest:
        """Returns the request of the coordinator to its assignor for these members."""
        names = self.topics.names
        self._update_metadata(partitions)
        self.targets = {member_id: target for member_id, target in self.targets.items() if member_id in group_members}
        subscriptions = {member.topics for member in group_members.values()}
        topic_names = {topics: frozenset(names[topic] for topic in topics) for topics in subscriptions}
        ids = list(group_members)
        hashes = [group_members[member_id].hash for member_id in ids]
        hash_order = iteration_order(ids, hashes, map_capacity(len(ids)), java_key, map_capacity(0))
        members = []
        for member_id in hash_order:
            member = group_members[member_id]
            subscribed = topic_names[member.topics]
            target = self.targets.get(member_id, NOTHING)
            members.append(
                MemberSubscriptionAndAssignment(
                    member_id, member.instance, self._metadata.written_walk(subscribed), len(subscribed), target
                )
            )
        assigned = frozenset[int]().union(*(member.target.codes for member in members))
        return TargetRequest(self.variant.assignor, members, len(topic_names) == 1, assigned)


# --- replay -----------------------------------------------------------------------------------------------------------


SUMMARY, REBALANCES, REJECTED = ("replay_summary", "replay_rebalances", "replay_rejected")

GROUP_BATCH_SIZE, _MAX_BATCH_PARTITIONS = 50, 1_000_000
"""Number of groups that are replayed together, and of the members and partitions of their generations, unless a single
group has more. They bound the memory of a worker."""
_MAX_ROWS = 100_000
"""Maximum number of rows in a table."""


@dataclass(frozen=True)
class ReplayParams:
    """The frozen arguments of a replay.

    Attributes:
        assignors: names of assignors.
        static: whether all members are static: True, False, or both.
        timing: the timing configuration of groups, for what is not on record.
        thresholds: the thresholds of the history.
    """

    assignors: tuple[str, ...] = ASSIGNORS
    static: tuple[bool, ...] = (False, True)
    timing: TimingConfig = field(default_factory=TimingConfig)
    thresholds: HistoryThresholds = field(default_factory=HistoryThresholds)


def replay_buckets(rows: pa.Table, params: ReplayParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of the groups of a task.

    Args:
        rows: BUCKETS (`history.kernel.facts`); all rows of each bucket that occurs.
        params: the arguments of the replay.
        schema: the schema of the result, REPLAY_ROWS.
    """
    for facts in merge_buckets(rows, params.thresholds.commit_gap_ms):
        yield from replay_histories(read_histories(facts, params.thresholds), params, schema)


def replay_histories(
    histories: Iterable[RecordedHistory | RejectedHistory], params: ReplayParams, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields the rows of groups."""
    for batch in _to_batches(histories):
        groups = [_GroupReplay(history, params) for history in batch if isinstance(history, RecordedHistory)]
        rejected = [asdict(history) for history in batch if isinstance(history, RejectedHistory)]
        _run_in_lockstep([run for group in groups for run in group.runs.values()])
        reproduced = check_reproduced([group.history for group in groups])
        for group, results in zip(groups, reproduced, strict=True):
            group.reproduced = results
        yield tagged_rows(SUMMARY, [row for group in groups for row in group.summary_rows()], schema)
        rebalances = chain.from_iterable(group.rebalance_rows() for group in groups)
        while rows := list(islice(rebalances, _MAX_ROWS)):
            yield tagged_rows(REBALANCES, rows, schema)
        errors = (row for group in groups for row in group.error_rows())
        yield tagged_rows(REJECTED, [*rejected, *errors], schema)


def _to_batches(
    histories: Iterable[RecordedHistory | RejectedHistory],
) -> Iterator[list[RecordedHistory | RejectedHistory]]:
    """Yields groups that are replayed together."""
    batch: list[RecordedHistory | RejectedHistory] = []
    size = 0
    for history in histories:
        batch.append(history)
        if isinstance(history, RecordedHistory):
            size += sum(len(each.members) + len(each.owners) for each in history.generations)
        if len(batch) == GROUP_BATCH_SIZE or size > _MAX_BATCH_PARTITIONS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# --- runs ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ReplayRun:
    """A running replay of one group in one variant.

    Attributes:
        generator: the replay.
        request: its pending assignment request; None if it has ended.
        costs: its result; None before its end.
        error: code and detail if it failed; None if it didn't.
    """

    generator: Generator[Any, Any, list[GenerationCost]]
    request: Any = None
    costs: list[GenerationCost] | None = None
    error: tuple[str, str] | None = None

    def resume(self, response: Any) -> None:
        """Resumes the replay with a response and runs it to its next request."""
        try:
            if isinstance(response, Exception):
                raise response
            self.request = self.generator.send(response)
        except StopIteration as end:
            self.request, self.costs = None, end.value
        except ReplayError as error:
            code, detail = error.args
            self.request, self.error = None, (code, detail)
        except Exception as error:  # one replay must not affect other groups
            self.request, self.error = None, ("assignor-failed", failure_of_code(error))


def _run_in_lockstep(runs: Sequence[_ReplayRun]) -> None:
    """Runs replays side by side: the pending requests of all of them are solved together."""
    for run in runs:
        run.resume(None)
    while running := [run for run in runs if run.request is not None]:
        for run, response in zip(running, solve_requests([run.request for run in running]), strict=True):
            run.resume(response)


class _GroupReplay:
    """One group: its history, its replays, and its rows.

    Attributes:
        current: the variant that was in use most.
        baseline: the costs as recorded.
        reproduced: why the assignor in use doesn't reproduce a generation, by its index; None if it does.
        runs: the replays of all other variants.
    """

    def __init__(self, history: RecordedHistory, params: ReplayParams) -> None:
        self.history = history
        self._group_key = {"cluster": history.cluster, "group_id": history.group_id}
        durations = measure_rounds(history, params.timing)
        identities = MemberIdentities(history.generations, params.timing.session_timeout_ms)
        self.current = ReplayVariant(history.assignor, history.static)
        self.baseline = baseline_costs(history, identities, durations)
        self.reproduced: Mapping[int, str | None] = {}
        # Each variant makes its own steps: those of all generations take too much memory.
        self.runs = {
            variant: _ReplayRun(
                replay_group(history, variant, replay_steps(history, identities, static=static), durations)
            )
            for assignor in params.assignors
            for static in params.static
            if (variant := ReplayVariant(assignor, static)) != self.current
        }

    def _costs_by_variant(self) -> Iterator[tuple[ReplayVariant, list[GenerationCost]]]:
        yield self.current, self.baseline
        for variant, run in self.runs.items():
            if run.costs is not None:
                yield variant, run.costs

    def summary_rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row of the group per variant."""
        baseline_ms, clients = _sum_paused_ms(self.baseline), client_libraries(self.history)
        for variant, costs in self._costs_by_variant():
            is_baseline = variant is self.current
            paused_partition_ms = _sum_paused_ms(costs)
            yield self._group_key | {
                "assignor": variant.assignor,
                "protocol": variant.protocol,
                "static": variant.static,
                "recorded": is_baseline,
                "rebalances": sum(cost.rebalances for cost in costs),
                "num_replayed": self._count_rebalances() - (len(self._find_differences()) if is_baseline else 0),
                "moved": sum(cost.moved for cost in costs),
                "paused_partition_ms": paused_partition_ms,
                "saved_ms": None if is_baseline else baseline_ms - paused_partition_ms,
                "note": self._format_note(is_baseline=is_baseline),
                "client_libraries": clients,
                "refusal": None if is_baseline else find_refusals(clients, variant.assignor, is_static=variant.static),
            }

    def _count_rebalances(self) -> int:
        return sum(cost.rebalances for cost in self.baseline)

    def _find_differences(self) -> list[tuple[int, str]]:
        """Returns index and reason of each generation that is not reproduced."""
        return [(index, reason) for index, reason in sorted(self.reproduced.items()) if index and reason is not None]

    def _format_note(self, *, is_baseline: bool) -> str:
        """Returns what a reader should know about the row: what is not on record, and what isn't reproduced."""
        generations = self.history.generations
        missing = sum(generation.missing for generation in generations)
        notes = [f"{missing} generations in between are not on record"] if missing else []
        if is_baseline:
            differences = self._find_differences()
            if differences:
                index, reason = differences[0]
                first = f"generation {generations[index].generation_id}"
                count = f"{len(differences)} of {self._count_rebalances()} rebalances"
                notes.append(f"its assignor doesn't reproduce {count}, first {first}: {reason}")
            assignors = {generation.assignor for generation in generations if generation.assignor}
            if len(assignors) > 1:
                notes.append(f"assignors on record: {', '.join(map(in_text, sorted(assignors)))}")
        return "; ".join(notes)

    def rebalance_rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row per rebalance and variant."""
        generations = self.history.generations
        for variant, costs in self._costs_by_variant():
            constants = self._group_key | {"assignor": variant.assignor, "static": variant.static}
            for generation, cost in zip(generations[1:], costs[1:], strict=True):
                if generation.generation_kind != RESTARTED or cost.rebalances or cost.paused_partition_ms:
                    yield constants | {
                        "generation_id": generation.generation_id,
                        "time": generation.at_ms * 1000,
                        "occurs": cost.rebalances > 0,
                        "moved": cost.moved,
                        "revoked": cost.revoked,
                        "paused_partition_ms": round(cost.paused_partition_ms),
                    }

    def error_rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row per variant that can't be replayed."""
        for variant, run in self.runs.items():
            if run.error is not None:
                membership = "static" if variant.static else "dynamic"
                code, detail = run.error
                yield self._group_key | {"code": code, "detail": f"{detail} ({membership} members)"}


def _sum_paused_ms(costs: Iterable[GenerationCost]) -> int:
    return sum(round(cost.paused_partition_ms) for cost in costs)
