"""Groups planned as the broker plans them (KIP-848): uniform and server-range, asked with a `Sheet`.

What members own now is taken for their target so far. A partition that somebody else still owns is withheld: the
broker hands it out once its owner has said that it has given it up.

Kafka's orders (`kernels.server.orders`) need the topics' ids and the members' places in the coordinator's table. Where
a fleet does not say them
    - topics count by name in place of their ids. That matters where something changes hands: which topics an overfull
      member gives, and who gets which of the free ones; in groups of differing subscriptions, which of two topics comes
      first that have as many partitions and subscribers;
    - members of classic groups, which have no such table yet, stand in the one that they would have.
Two members cannot have one partition in the broker. Of a fleet in which they do, the first one in the order keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.clients import SERVER_SIDE
from spark_assign.kernels.group.facts import ALIKE, ASKS, GROUP
from spark_assign.kernels.group.names import Places
from spark_assign.kernels.group.sheet import Sheet
from spark_assign.kernels.java_hash import string_hashes, table_order
from spark_assign.kernels.runs import KEY_BITS, Runs
from spark_assign.kernels.segments import first_of_each, ranks
from spark_assign.kernels.server.heterogeneous import assign_heterogeneous
from spark_assign.kernels.server.homogeneous import assign_homogeneous, quotas
from spark_assign.kernels.server.orders import TopicIds, read_topic_ids, set_order, table_slots
from spark_assign.kernels.server.previous import Targets
from spark_assign.kernels.server.range import lay_out_ranges
from spark_assign.kernels.sticky.batch import EVERYONE
from spark_assign.kernels.sticky.claims import crossing_topics
from spark_assign.kernels.sticky.constrained import as_runs
from spark_assign.kernels.sticky.groups import STAYS

UNIFORM, SERVER_RANGE = SERVER_SIDE


@dataclass(frozen=True)
class Target:
    """The target assignment of some groups; members and topics are numbers of the sheet.

    Attributes:
        runs: who gets what.
        reason: of each run why it was taken from the member that could have kept it.
        withheld: of each run whether another member has to give it up first.
        refused: group to code and detail; such a group has no runs.
    """

    runs: Runs
    reason: Ints
    withheld: Flags
    refused: dict[int, tuple[str, str]]


def assign_by_server(sheet: Sheet, assignor: str, chosen: Flags) -> Target:
    """Plan some groups by uniform or server-range."""
    topics = sheet.topics.known
    if assignor == SERVER_RANGE:
        decided = _ranges(sheet, topics[chosen[sheet.topics.group[topics]]])
        return _withhold(sheet, Targets(decided, np.full(len(decided), STAYS)), {})
    ids, refused = read_ids(sheet)
    refused = {group: why for group, why in refused.items() if chosen[group]}
    chosen = chosen.copy()
    chosen[list(refused)] = False
    return _withhold(sheet, _uniform(sheet, topics[chosen[sheet.topics.group[topics]]], chosen, ids), refused)


def _ranges(sheet: Sheet, topics: Ints) -> Runs:
    member, topic = np.divmod(sheet.subscriptions, max(len(sheet.topics), 1))
    number = _numbers(topics, len(sheet.topics))
    mine = number[topic] >= 0
    runs = lay_out_ranges(member[mine], number[topic[mine]], sheet.members.served, sheet.topics.partitions[topics])
    return Runs(runs.member, topics[runs.topic], *runs.columns[2:])


# --- uniform ------------------------------------------------------------------------------------------------------


def _uniform(sheet: Sheet, topics: Ints, chosen: Flags, ids: TopicIds) -> Targets:
    mixed = np.zeros(sheet.number, bool)
    differing = sheet.topics.asked & (sheet.topics.subscribers != EVERYONE)
    mixed[sheet.topics.group[differing]] = True
    members = _members(sheet)
    previous = _previous(sheet, topics, members)
    parts = [_alike(sheet, topics[~mixed[sheet.topics.group[topics]]], chosen & ~mixed, members, ids, previous)]
    for group in np.flatnonzero(chosen & mixed).tolist():
        mine = topics[sheet.topics.group[topics] == group]
        parts.append(_differing(sheet, mine, members[sheet.members.group[members] == group], ids, previous))
    runs = parts[0].runs
    for part in parts[1:]:
        runs = runs.joined(part.runs)
    return Targets(runs, np.concatenate([part.reason for part in parts]))


def _alike(sheet: Sheet, topics: Ints, chosen: Flags, members: Ints, ids: TopicIds, previous: Runs) -> Targets:
    """Groups in which everybody subscribes to the same topics, side by side."""
    topics = _topic_walk(sheet, topics, ids)
    members = members[chosen[sheet.members.group[members]]]
    member, topic = _numbers(members, len(sheet.members)), _numbers(topics, len(sheet.topics))
    mine = topic[previous.topic] >= 0
    before = Runs(member[previous.member[mine]], topic[previous.topic[mine]], *previous.where(mine).columns[2:])
    before = before.where(np.lexsort((before.first, before.topic, before.member)))
    # Groups that are not chosen have no members here: groups are numbered anew.
    place = np.cumsum(chosen) - 1
    group, of_topic = place[sheet.members.group[members]], place[sheet.topics.group[topics]]
    partitions = sheet.topics.partitions[topics]
    had = np.bincount(before.member, before.count, len(members)).astype(np.int64)
    loses = had > quotas(group, of_topic, partitions, had)
    before = _in_walk(before, loses, ids.hash[topics], ids.rank[topics])
    targets = assign_homogeneous(group, of_topic, partitions, before)
    return Targets(_named(targets.runs, members, topics), targets.reason)


def _in_walk(before: Runs, loses: Flags, id_hash: Ints, id_rank: Ints) -> Runs:
    """The same, of members that lose something in the walk of their maps and sets; for the others it does not matter.

    Args:
        before: ascending by member, topic, and partition.
        loses: of each member.
        id_hash, id_rank: of each topic.
    """
    some = before.where(loses[before.member]).rows()
    if not len(some):
        return before
    # Sets of partitions, filled in ascending order.
    some = some.where(np.lexsort((some.first, some.topic, some.member)))
    new = first_of_each(some.member << KEY_BITS | some.topic)
    some = some.where(set_order(some.first, np.cumsum(new) - 1))
    # Maps of topics, filled from the record. `computeIfAbsent` puts a key before those that its bucket has, so that the
    # record has topics that were new in one assignment backwards. These maps grow as they fill.
    member, topic = some.member[new], some.topic[new]
    put = np.lexsort((-topic, member))
    at = put[table_order(id_hash[topic][put], id_rank[topic][put], np.cumsum(first_of_each(member)) - 1)]
    some = some.where(np.argsort(_numbers(at, len(at))[np.cumsum(new) - 1], kind="stable"))
    rest = before.where(~loses[before.member])
    both = rest.joined(some)
    return both.where(np.argsort(both.member, kind="stable"))


def _differing(sheet: Sheet, topics: Ints, members: Ints, ids: TopicIds, previous: Runs) -> Targets:
    """One group whose members subscribe to different topics."""
    member, topic = _numbers(members, len(sheet.members)), _numbers(topics, len(sheet.topics))
    asking, asked = np.divmod(sheet.subscriptions, max(len(sheet.topics), 1))
    mine = topic[asked] >= 0
    asking, asked = member[asking[mine]], topic[asked[mine]]
    order = np.lexsort((asking, asked))
    ends = np.searchsorted(asked[order], np.arange(1, len(topics))) if len(topics) else np.empty(0, np.int64)
    subscribers = [each.tolist() for each in np.split(asking[order], ends)] if len(topics) else []
    mine = topic[previous.topic] >= 0
    before = Runs(member[previous.member[mine]], topic[previous.topic[mine]], *previous.where(mine).columns[2:])
    partitions = sheet.topics.partitions[topics].tolist()
    targets = assign_heterogeneous(len(members), subscribers, partitions, ids.rank[topics].tolist(), before)
    return Targets(_named(targets.runs, members, topics), targets.reason)


def _named(runs: Runs, members: Ints, topics: Ints) -> Runs:
    return Runs(members[runs.member], topics[runs.topic], *runs.columns[2:])


def _numbers(chosen: Ints, size: int) -> Ints:
    """Of each number its place in `chosen`; -1 where it is not there."""
    numbers = np.full(size, -1, np.int64)
    numbers[chosen] = np.arange(len(chosen))
    return numbers


# --- orders -------------------------------------------------------------------------------------------------------


def _members(sheet: Sheet) -> Ints:
    """All members, group by group, in the order in which the assignor sees them."""
    told, members = sheet.told, sheet.members
    if not len(members):
        return np.empty(0, np.int64)
    none = np.iinfo(np.int32).max
    hashes = string_hashes(sheet.member_id.to_pylist())
    position = told.numbers("position", none)[members.row]
    slots = table_slots(hashes, members.group)
    by_slot = np.ones(sheet.number, bool)
    by_slot[members.group[position < none]] = False
    by_slot |= _classic(sheet)
    listed = np.lexsort((np.where(by_slot[members.group], slots, position), members.group))
    return listed[table_order(hashes[listed], listed, members.group[listed])]


def _classic(sheet: Sheet) -> Flags:
    """Groups that are known not to be in the coordinator's new table."""
    rows = sheet.told.rows[GROUP]
    classic = np.zeros(sheet.told.number, bool)
    kinds = sheet.told.column("group_type", rows).to_pylist()
    classic[sheet.told.group[rows]] = [kind == "classic" for kind in kinds]
    return classic[sheet.of_told]


def read_ids(sheet: Sheet) -> tuple[TopicIds, dict[int, tuple[str, str]]]:
    """The ids of the sheet's topics, and the groups that are refused as one of their topics has none that is one.

    Of groups in which the id of a topic is not known, all topics count by name.
    """
    topics, told = sheet.topics, sheet.told
    texts: list[str | None] = [None] * len(topics)
    if "topic_id" in told.facts.column_names:
        rows = np.append(told.rows[ASKS], told.rows[ALIKE])
        rows = rows[told.topic[rows] >= 0]
        size = max(len(told.topics), 1)
        key, first = np.unique(told.group[rows] * size + told.topic[rows], return_index=True)
        at = Places(sheet.of_told[topics.group] * size + topics.name).of(key)
        for place, text in zip(at.tolist(), told.column("topic_id", rows[first]).to_pylist(), strict=True):
            if place >= 0:
                texts[place] = text
    ids = read_topic_ids(texts)
    refused: dict[int, tuple[str, str]] = {}
    for at in topics.known[~ids.fine[topics.known]].tolist():
        if texts[at] is not None:
            said = f"topics: topic_id {texts[at]!r} of {sheet.topic[at]} is no id. Kafka prints one as 22 characters"
            refused.setdefault(int(topics.group[at]), ("bad-topic-id", said))
    by_name = np.zeros(sheet.number, bool)
    by_name[topics.group[topics.known[~ids.fine[topics.known]]]] = True
    place, nameless = ranks(topics.group), by_name[topics.group]
    return TopicIds(np.where(nameless, place, ids.hash), np.where(nameless, place, ids.rank), ids.fine), refused


def _topic_walk(sheet: Sheet, topics: Ints, ids: TopicIds) -> Ints:
    """The same topics in the walk of the hash set of their ids, group by group; names are in a set before.

    Args:
        topics: those with metadata.
    """
    asked = np.flatnonzero(sheet.topics.asked)
    names = string_hashes(sheet.told.topics.to_pylist())[sheet.topics.name[asked]]
    walked = asked[set_order(names, sheet.topics.group[asked])]
    # Names without metadata have no id, but make the set larger.
    sizes = np.bincount(sheet.topics.group[asked], minlength=sheet.number)
    inserted = walked[_numbers(topics, len(sheet.topics))[walked] >= 0]
    return inserted[set_order(ids.hash[inserted], sheet.topics.group[inserted], sizes)]


def _previous(sheet: Sheet, topics: Ints, members: Ints) -> Runs:
    """What members own of topics that they subscribe to; no partition twice, none beyond its topic's count."""
    claims, size = sheet.claims, max(len(sheet.topics), 1)
    some = _numbers(topics, len(sheet.topics))[claims.topic] >= 0
    claims = claims.where(some)
    asked = claims.member * size + claims.topic
    claims = claims.where(np.isin(asked, sheet.subscriptions))
    fitting = -(-(sheet.topics.partitions[claims.topic] - claims.first) // claims.step)
    claims = Runs(*claims.columns[:4], np.clip(fitting, 0, claims.count))
    claims = claims.where(claims.count > 0)
    meeting = np.isin(claims.topic, crossing_topics(claims))
    if not meeting.any():
        return claims
    place = _numbers(members, len(sheet.members))
    rows = claims.where(meeting).rows()
    rows = rows.where(np.lexsort((place[rows.member], rows.keys)))
    return claims.where(~meeting).joined(rows.where(first_of_each(rows.keys)))


# --- reconciliation -----------------------------------------------------------------------------------------------


def _withhold(sheet: Sheet, targets: Targets, refused: dict[int, tuple[str, str]]) -> Target:
    """Mark what others still own. Runs that their owner has already are looked at as a whole."""
    runs, reason = targets.runs, targets.reason
    claims = sheet.claims
    every = runs.joined(claims)
    order = np.lexsort((np.arange(len(every)), *every.columns))
    same = np.ones(len(every), bool)
    same[:1] = False
    for column in every.columns:
        same[1:] &= column[order][1:] == column[order][:-1]
    stays = np.zeros(len(every), bool)
    stays[order[np.flatnonzero(same) - 1]] = True
    stays = stays[: len(runs)]
    moving, why = runs.where(~stays), reason[~stays]
    row = np.repeat(np.arange(len(moving)), moving.count)
    rows = moving.rows()
    concerned = np.zeros(len(sheet.topics), bool)
    concerned[rows.topic] = True
    owned = claims.where(concerned[claims.topic]).rows()
    owned = owned.where(np.argsort(owned.keys, kind="stable"))
    keys = owned.keys
    begin, end = np.searchsorted(keys, rows.keys), np.searchsorted(keys, rows.keys, "right")
    withheld = end > begin
    # Who has it itself keeps it, whoever else claims it.
    pair = np.repeat(np.arange(len(rows)), end - begin)
    claim = begin[pair] + ranks(pair)
    own = owned.member[claim] == rows.member[pair]
    withheld[pair[own]] = False
    parted, why, late = as_runs(rows.member, rows.topic, rows.first, why[row], withheld)
    kept = runs.where(stays)
    return Target(
        kept.joined(parted),
        np.append(reason[stays], why),
        np.append(np.zeros(len(kept), bool), late),
        refused,
    )
