"""From names to numbers and back: the facts of many groups as one Arrow table, and what was decided as another.

A fact is a row; its `kind` says which columns it uses:

    member  member_id, rack_id, first (generation_id), step (user_data_generation_id), count (position)
    class   subscribers, member_id: a member of a class of subscribers that are not all members of the group
    topic   topic, subscribers (its class; one without `class` rows is all members), count (null: no metadata), and
            where racks are known: at (partitions), racks (of each of those)
    owned   member_id, topic, first, step, count: a run
    left    topic, first, step, count: a run that a member owned which has left
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.kernels.java_hash import java_key, string_hashes
from spark_assign.kernels.sticky import EVERYONE, Batch
from spark_assign.kernels.sticky_claims import Runs
from spark_assign.kernels.sticky_groups import BALANCING, OVER_QUOTA, RACK_MISMATCH, Crowded, Decided, Groups
from spark_assign.kernels.sticky_rounds import Round
from spark_assign.kernels.sticky_walks import walks

Ints = NDArray[np.int64]

MEMBER, CLASS, TOPIC, OWNED, LEFT = range(5)

REASONS = {OVER_QUOTA: "over-quota", RACK_MISMATCH: "rack-mismatch", BALANCING: "balancing"}
"""As `Plan.moves` has them."""

DECIDED = pa.schema(
    [
        ("cluster", pa.string()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("topic", pa.string()),
        ("first", pa.int32()),
        ("step", pa.int32()),
        ("count", pa.int32()),
        ("reason", pa.string()),
        ("withheld", pa.bool_()),
        ("detail", pa.string()),
    ]
)
"""A run of the plan; or, where `detail` is not null, a group that Kafka's class refuses."""


class Names:
    """Distinct texts, in the order of `String.compareTo`, and the number of each."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        coded = column.combine_chunks().dictionary_encode()
        texts = coded.dictionary.to_pylist()
        order = sorted(range(len(texts)), key=lambda at: java_key(texts[at]))
        rank = np.empty(len(texts), np.int64)
        rank[order] = np.arange(len(texts))
        self.texts = pa.array([texts[at] for at in order], pa.string())
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        self.numbers = rank[codes] if len(texts) else np.zeros(len(codes), np.int64)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Sheet:
    """A batch, and the names of what it numbers.

    Beside it what the assignors do not look at: of each group how many partitions its members claim (`claimed`, those
    of topics without metadata too), and what members that have left owned (`departed`).
    """

    batch: Batch
    claimed: Ints
    departed: Runs
    cluster: pa.Array
    group_id: pa.Array
    member_id: pa.Array
    topic: pa.Array


def _numbers(values: pa.ChunkedArray, missing: int) -> Ints:
    """A column of whole numbers; null becomes `missing`."""
    return np.asarray(values.fill_null(missing).to_numpy(), dtype=np.int64)


def read_sheet(facts: pa.Table, *, user_data: bool, cooperative: bool) -> Sheet:
    """Read the facts of whole groups.

    Args:
        facts: as described above, rows in any order.
        user_data: whether ownership travels in the assignor's user data (sticky), so that its generation counts.
        cooperative: whether partitions that change hands are withheld.
    """
    kind = facts["kind"].to_numpy()
    rows = {each: np.flatnonzero(kind == each) for each in (MEMBER, CLASS, TOPIC, OWNED, LEFT)}
    cluster, group_id = Names(facts["cluster"]), Names(facts["group_id"])
    member_id, topic = Names(facts["member_id"]), Names(facts["topic"])
    both = cluster.numbers * len(group_id) + group_id.numbers
    known = np.unique(both[rows[MEMBER]])
    group = np.searchsorted(known, both)
    member = _Keys(group * max(len(member_id), 1) + member_id.numbers, rows[MEMBER])
    partitions = _numbers(facts["count"], -1)
    with_metadata = rows[TOPIC][partitions[rows[TOPIC]] >= 0]
    topics = _Keys(group * max(len(topic), 1) + topic.numbers, with_metadata)

    columns = {name: _numbers(facts[name], -1) for name in ("first", "step")}
    generation = np.maximum(columns["first"][member.rows], -1)
    has_user_data = facts["step"].is_valid().to_numpy()[member.rows] if len(facts) else np.empty(0, bool)
    in_user_data = np.maximum(columns["step"][member.rows], -1)
    first_choice, otherwise = (in_user_data, generation) if user_data else (generation, in_user_data)
    decides = has_user_data if user_data else generation >= 0
    member_group, topic_group = group[member.rows], group[topics.rows]
    class_number, classes = _classes(facts, both, rows, member, member_group)
    rack, rack_sets, rack_set = _racks(facts, member.rows, topics, partitions)
    walk, crowded = _walks(member_id, member_id.numbers[member.rows], member_group, _positions(facts, member.rows))
    batch = Batch(
        groups=Groups(
            member_group=member_group,
            walk=walk,
            topic_group=topic_group,
            partitions=partitions[topics.rows],
            cooperative=cooperative,
            crowded=crowded,
        ),
        claimed_in=np.where(decides, first_choice, otherwise),
        generation=generation,
        claims=_claims(rows[OWNED], member, topics, columns, partitions),
        topic_class=class_number[topics.rows],
        topic_hash=string_hashes(topic.texts.to_pylist())[topic.numbers[topics.rows]]
        if len(topic)
        else np.empty(0, np.int64),
        other_classes=[
            (int(group[row]), int(class_number[row])) for row in rows[TOPIC][partitions[rows[TOPIC]] < 0].tolist()
        ],
        classes=classes,
        rack=rack,
        rack_sets=rack_sets,
        rack_set=rack_set,
    )
    claiming = rows[OWNED][member[rows[OWNED]] >= 0]
    left = rows[LEFT][topics[rows[LEFT]] >= 0]
    return Sheet(
        batch,
        claimed=np.bincount(group[claiming], partitions[claiming], len(known)).astype(np.int64),
        departed=Runs(
            np.zeros(len(left), np.int64), topics[left], columns["first"][left], columns["step"][left], partitions[left]
        ),
        cluster=cluster.texts.take(pa.array(known // len(group_id))),
        group_id=group_id.texts.take(pa.array(known % len(group_id))),
        member_id=member_id.texts.take(pa.array(member_id.numbers[member.rows])),
        topic=topic.texts.take(pa.array(topic.numbers[topics.rows])),
    )


def _positions(facts: pa.Table, rows: Ints) -> Ints:
    """Of these member rows the position; those without one come last."""
    return _numbers(facts["count"], np.iinfo(np.int32).max)[rows]


class _Keys:
    """Rows that define something, sorted by key, and which of them every row means."""

    def __init__(self, keys: Ints, defining: Ints) -> None:
        self.keys = keys
        order = np.argsort(keys[defining], kind="stable")
        self.rows = defining[order]
        self.sorted = keys[self.rows]

    def __getitem__(self, rows: Ints) -> Ints:
        """The numbers of what these rows mean; -1 for what is not defined."""
        if not len(self.sorted):
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.sorted, self.keys[rows]), len(self.sorted) - 1)
        return np.where(self.sorted[at] == self.keys[rows], at, -1)


def _walks(names: Names, ids: Ints, group: Ints, position: Ints) -> tuple[Ints, Crowded | None]:
    """The walks over the hash maps of members, which are put into the first as the leader lists them."""
    listed = np.lexsort((position, group))  # where positions are equal, members stay sorted by id
    hashes = string_hashes(names.texts.to_pylist())[ids] if len(ids) else np.empty(0, np.int64)
    return walks(hashes, ids, group, listed)


def _claims(rows: Ints, member: _Keys, topics: _Keys, columns: dict[str, Ints], count: Ints) -> Runs:
    owner, topic = member[rows], topics[rows]
    fine = (owner >= 0) & (topic >= 0) & (count[rows] > 0)
    rows = rows[fine]
    return Runs(owner[fine], topic[fine], columns["first"][rows], columns["step"][rows], count[rows])


def _classes(
    facts: pa.Table, both: Ints, rows: dict[int, Ints], member: _Keys, group_of_member: Ints
) -> tuple[Ints, dict[int, Ints]]:
    """Of each row the number of its class, and the members of each class that are not everyone."""
    nobody = np.full(len(both), EVERYONE, np.int64)
    if not len(rows[CLASS]):
        return nobody, {}
    subscribers = Names(facts["subscribers"])
    keys = both * max(len(subscribers), 1) + subscribers.numbers
    found, number = np.unique(keys[rows[CLASS]], return_inverse=True)
    order = np.argsort(number, kind="stable")
    members = np.split(member[rows[CLASS]][order], np.flatnonzero(np.diff(number[order])) + 1)
    sizes = np.bincount(group_of_member)
    whole = np.array([len(each) == sizes[group_of_member[each[0]]] for each in members], bool)
    at = np.minimum(np.searchsorted(found, keys), len(found) - 1)
    number_of = np.where((found[at] == keys) & ~whole[at], at, EVERYONE)
    return number_of, {each: found for each, found in enumerate(members) if not whole[each]}


def _racks(
    facts: pa.Table, members: Ints, topics: _Keys, partitions: Ints
) -> tuple[Ints, list[frozenset[int]], dict[int, Ints]]:
    """Of each member its rack; the sets of racks; of each topic with known racks the set of each partition."""
    texts = facts["rack_id"].combine_chunks().take(pa.array(members))
    coded = texts.dictionary_encode()
    rack = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = {text: at for at, text in enumerate(coded.dictionary.to_pylist())}
    sets: dict[frozenset[int], int] = {frozenset(): 0}
    of_topic: dict[int, Ints] = {}
    if "racks" in facts.column_names and len(numbers):
        layouts = facts.select(["at", "racks"]).take(pa.array(topics.rows)).to_pylist()
        for number, (layout, row) in enumerate(zip(layouts, topics.rows.tolist(), strict=True)):
            if layout["at"] is None:
                continue
            of_topic[number] = np.zeros(partitions[row], np.int64)
            for at, racks in zip(layout["at"], layout["racks"], strict=True):
                if at < partitions[row]:
                    found = frozenset(numbers.setdefault(text, len(numbers)) for text in racks)
                    of_topic[number][at] = sets.setdefault(found, len(sets))
    return rack, list(sets), of_topic


def write_rounds(sheet: Sheet, rounds: Iterable[Round]) -> Iterator[pa.Table]:
    """The figures of rounds, by name."""
    for each in rounds:
        group = pa.array(each.group)
        figures = {
            name: pa.array(getattr(each, name)) for name in ("assigned", "revoked", "moved", "unowned", "stable")
        }
        yield pa.table(
            {
                "cluster": sheet.cluster.take(group),
                "group_id": sheet.group_id.take(group),
                "round": pa.array(np.full(len(group), each.number), pa.int32()),
                **figures,
            }
        )


def write_decided(sheet: Sheet, decided: Decided) -> pa.Table:
    """What was decided, by name (`DECIDED`)."""
    runs = decided.runs
    group = pa.array(sheet.batch.groups.member_group[runs.member])
    reasons = pa.array([None, *(REASONS[code] for code in sorted(REASONS))], pa.string())
    table = pa.table(
        [
            sheet.cluster.take(group),
            sheet.group_id.take(group),
            sheet.member_id.take(pa.array(runs.member)),
            sheet.topic.take(pa.array(runs.topic)),
            pa.array(runs.first, pa.int32()),
            pa.array(runs.step, pa.int32()),
            pa.array(runs.count, pa.int32()),
            reasons.take(pa.array(decided.reason)),
            pa.array(decided.withheld),
            pa.nulls(len(runs), pa.string()),
        ],
        schema=DECIDED,
    )
    if not decided.refused:
        return table
    refused = [
        {"cluster": sheet.cluster[group].as_py(), "group_id": sheet.group_id[group].as_py(), "detail": why}
        for group, why in sorted(decided.refused.items())
    ]
    return pa.concat_tables([table, pa.Table.from_pylist(refused, schema=DECIDED)])
