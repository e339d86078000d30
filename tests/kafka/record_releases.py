"""Record what single releases assign otherwise than their neighbors: `python -m tests.kafka.record_releases SEED`.

Kept are rows that the classes on both sides of the release answer otherwise, and some equal ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from tests.golden import connect_release_rows, reconciliation_rows, server_rows, streams_rows
from tests.kafka import live_assignors, maven, random_connect, random_members, random_server_groups, random_streams
from tests.recorded_lines import write_rows

Row = live_assignors.Row


def _answered(rows: Iterable[Row], release: str, program: str) -> list[Row]:
    class_path = maven.group_coordinator_classpath(release)
    return [row | {"release": release} for row in live_assignors.answered(rows, class_path, program=program)]


def _selected(
    expected: Callable[[Row], object], *answers: Iterable[Row], different: int = 100, equal: int = 20
) -> Iterator[Row]:
    """Rows of the first release: the first ones that all others answer otherwise, and that all answer alike."""
    alike = [[expected(row) == expected(other) for other in others] for row, *others in zip(*answers, strict=True)]
    rows = list(zip(answers[0], alike, strict=True))
    yield from islice((row for row, equals in rows if not any(equals)), different)
    yield from islice((row for row, equals in rows if all(equals)), equal)


def _connect(seed: int) -> Iterator[Row]:
    """Sequences of one release of each profile before today's that the profiles beside it answer otherwise."""
    for release, neighbors in connect_release_rows.NEIGHBORS.items():
        rows = list(random_connect.sequences(seed, release, 600 if release == "3.3.2" else 100))
        rows = live_assignors.answered(rows, maven.connect_classpath(release), program="ConnectRebalances")
        others = [{each.partition("/")[0] for each in connect_release_rows.different(rows, of)} for of in neighbors]
        kept = sorted(set.intersection(*others))[:8]
        yield from ({"system": "connect-cooperative"} | row for row in rows if row["sequence"] in kept)


def _expect(row: Row) -> object:
    return row["expect"]


def main(seed: int) -> None:
    """Rows of the broker's assignors, of members on the way to their target, and of Connect clusters."""
    groups = [row for row in random_streams.groups(seed, 3_000) if len(row["members"]) <= 8]
    answers = [_answered(groups, release, "StreamsAssignors") for release in ("4.2.2", "4.2.1", "4.4.0")]
    write_rows(streams_rows.FILE_4_2_2, _selected(streams_rows.expected, *answers))
    groups = [row for row in random_server_groups.groups(seed, 4_000) if len(row["members"]) <= 12]
    groups = [row for row in groups if row["system"] == "uniform" and row["subscription_type"] == "HOMOGENEOUS"]
    groups = [row for row in groups if sum(topic["partitions"] for topic in row["topics"].values()) <= 80]
    answers = [_answered(groups, release, "ServerAssignors") for release in ("4.0.0", "4.0.1")]
    write_rows(server_rows.FILE_4_0_0, _selected(server_rows.expected, *answers))
    members = list(random_members.members(seed, 1_000))
    answers = [_answered(members, release, "CurrentAssignments") for release in ("4.1.1", "4.1.2")]
    kept = (_selected(_expect, *pair, different=40, equal=60) for pair in (answers, answers[::-1]))
    write_rows(reconciliation_rows.FILE, chain.from_iterable(kept))
    write_rows(connect_release_rows.FILE, _connect(seed))


if __name__ == "__main__":
    main(int(sys.argv[1]))
