"""Names of strangers in sentences: one line of bounded length, in every text, and in the comment of a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from jobs import snapshot
from spark_assign.advice.kernel import unused
from spark_assign.assignors.connect.connectors_and_tasks import task_item
from spark_assign.assignors.connect.release_rules import find_rules
from spark_assign.assignors.group_facts import find_unsupported_groups, format_row
from spark_assign.comparison import declared_changes
from spark_assign.comparison.declared_changes import DeclaredChange, FleetChange, Kind
from spark_assign.comparison.kernel.compare import judge_assignors
from spark_assign.connect.kernel.plan_clusters import _uneven_note
from spark_assign.groups.kernel.client_settings import plan_switch
from spark_assign.groups.kernel.plan_groups import CONFIGURED, _find_rejection
from spark_assign.history.kernel.build_history import _find_setting_causes, _format_members, _format_return
from spark_assign.migration.kernel.migration_verdict import judge_migration
from spark_assign.migration.kernel.upgrade_verdict import explain_unknown
from spark_assign.report import advice, comparison, history, listed_groups, loads_and_sizes, migration, zones
from spark_assign.report.declared_changes import MAX_LINES, Review, review_markdown
from spark_assign.tables.quoting import comment_text, in_text, markdown_code
from tests.cases import cases
from tests.hostile_names import NAMES, draw
from tests.unit.test_distribution import figures, group
from tests.unit.test_migration_rules import FINE
from tests.unit.test_recommend import of
from tests.unit.test_size import group as busy
from tests.unit.test_size import one, sized
from tests.unit.test_upgrade_rules import JAVA

LONG = [character * 32_767 for character in ("x", "\n", "\U000e0041", "|", "`")]
"""The longest names that Kafka writes, of characters that become long ones."""
MAX_COMMENT = 65_536
"""Maximum number of characters of a comment of GitHub."""


@cases("sentences", lambda name: _of_assignors(name), lambda name: _of_other_names(name))
def test_a_name_in_a_sentence(sentences: Callable[[str], Iterator[str]], seed: int) -> None:
    """Of an assignor, a library, a release, a protocol, a topic, a connector, and a member."""
    for name in filter(None, [*draw(seed, 40), *LONG, "x\nkafka-topics.sh --delete\n"]):
        for text in sentences(name):
            assert text.isprintable(), (name, text)
            assert in_text(name) in text
            assert len(text) < 1_500
            assert len(name) > 249 or comment_text(name) in text, "a name that Kafka's tools show is whole"


def _of_assignors(name: str) -> Iterator[str]:
    for clients in (None, "Java 1", "librdkafka 2", "kafka-go 1, unknown 1"):
        yield plan_switch(name, "roundrobin", clients).text
    yield from (plan_switch(name, "cooperative-sticky", clients).text for clients in ("Java 1", "librdkafka 2", None))
    yield judge_migration(replace(FINE, assignor=name))[2]
    yield str(explain_unknown(replace(JAVA, assignor=name)))
    yield (_find_rejection(CONFIGURED, name, ("range",)) or ("", ""))[1]
    yield " ".join(reason for _, reason in judge_assignors([of("range"), of("sticky")], name))
    before, after = ({"assignor": each, "leader": "m", "members": ()} for each in ("range", name))
    yield from _find_setting_causes(SimpleNamespace(**before), SimpleNamespace(**after))  # type: ignore[arg-type]


def _of_other_names(name: str) -> Iterator[str]:
    yield str(explain_unknown(replace(JAVA, library=name)))
    yield str(explain_unknown(replace(JAVA, releases=f"{name}+")))
    yield str(find_rules(f"sessioned@{name}")[1])
    facts = MagicMock(**{"column.return_value.to_pylist.return_value": [name]})
    facts.group_index.__getitem__.return_value.tolist.return_value = [0]
    yield find_unsupported_groups(facts, "migrate")[0][1]
    yield format_row("owned", member_id=name)
    uneven = group(2, {name: 6, f"{name}u": 6}, {name: [0] * 6, f"{name}u": [1] * 6})
    yield figures(uneven, "sticky")["note"]
    hot = [{**each, "topic": name} if "topic" in each else each for each in busy("g", [99.0, 1.0], capacity=10.0)]
    yield one(sized(hot))["reason"]
    row = dict.fromkeys(("being_written", "changed", "recreated", "seconds", "compared", "never_written"), 0)
    row |= {"partitions": 1, "topic": "t", "known_ends": 0, "cleanup_policy": "delete", "days": 1.0, "doubts": []}
    row |= dict.fromkeys(("cluster", "group_id", "replicas", "disk_bytes", "committed_partitions", "has_mirrors"))
    yield unused._topic(row | {"commit_groups": 1, "commit_group": name}, [])["reason"]
    tasks = tuple(task_item(0, number) for number in range(4))
    rebalance = SimpleNamespace(workers=[0, 1], reported=[((), tasks), ((), ())])
    result = SimpleNamespace(assigned=[[], []], revoked={})
    yield str(_uneven_note([name], rebalance, result, False))  # type: ignore[arg-type]
    member = SimpleNamespace(member_id=name, group_instance_id=None)
    yield _format_members([member])  # type: ignore[list-item]
    yield _format_return("m", "old", member, is_replaced=True)  # type: ignore[arg-type]


def _lines(text: str) -> dict[str, Callable[[], str]]:
    """What is printed of rows that have this text in each sentence, by the function that prints it."""
    key = {"cluster": "c", "group_id": "g"}
    costs = dict.fromkeys(("restarts", "simulated_restarts", "moved", "revoked", "paused_partitions"))
    verdict = key | {"online": None, "verdict": "blocked", "reasons": text, "note": text}
    steps = [key | costs | {"step": 1, "step_type": "stop-all", "description": text, "leader": None}]
    restarts = ("member_id", "leader_changed", "leader_release", "assignor", "rules", "moved_by_rules")
    steps.append(steps[0] | dict.fromkeys(restarts, "x") | {"step": 2, "leader": "m"})
    advised = key | {"rank": 1, "category": "pause", "action": "assignor", "description": text, "risk": text}
    advised |= {"gain": None, "settings": None, "command": "compare"}
    declined = key | {"adviser": "size", "code": "no-plan", "detail": text}
    member = key | {"summary": text, "settings": None, "warning_text": text}
    way = key | {"switch_steps": text, "settings": None}
    zone = key | {"cost_at_most": None, "reason": text}
    past = key | {"group_type": "classic", "protocol_type": text, "assignor": text, "state": text, "members": 1}
    past |= dict.fromkeys(("partitions", "rebalances", "paused_partition_ms", "missing_generations", "flapping"), 0)
    past |= {"idle_epochs": 0, "start_time": None}
    size = key | {"assignor": "range", "verdict": "cannot-keep-up", "reason": text}
    table = MagicMock()
    near = table.select().where().withColumn().where().orderBy().limit().collect
    near.return_value = [{"name": text, "distance": 1}]
    return {
        "migration": lambda: migration.format_migration_steps([verdict], steps[:1]),
        "upgrade": lambda: migration.format_restarts([verdict], steps),
        "advice": lambda: "\n".join(advice.format_advice([advised])),
        "declined": lambda: "\n".join(advice.format_not_recommended([declined])),
        "membership": lambda: advice.format_membership([member], []),
        "compare": lambda: "\n".join(comparison._switch_lines([way])),
        "zones": lambda: "\n".join(zones._unknown_lines([zone], 9, None)),
        "history": lambda: "\n".join(history.format_group_history(past, [], [], [])),
        "size": lambda: loads_and_sizes.format_curves([size], []),
        "similar": lambda: listed_groups.similar_name(table, "group_id", "g"),
    }


@cases("name", *_lines(""))
def test_a_text_fakes_no_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also a text of a stored run of an earlier release, or of a catalog."""
    functions = MagicMock()
    for function in (functions.abs, functions.col):  # without an engine
        function.return_value.__le__.return_value = MagicMock()
    monkeypatch.setattr(listed_groups, "F", functions)
    plain, hostile = (_lines(text)[name]() for text in ("short", "a\nkafka-topics.sh --delete --topic '.*'\r\nb"))
    assert "short" in plain
    assert len(hostile.splitlines()) == len(plain.splitlines())


def test_a_message_of_a_snapshot_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """About a group that is undescribed, and about members with different topics."""
    undescribed = MagicMock(**{"to_pylist.return_value": [{"group_id": "g\ng", "error": "no\nanswer"}]})
    read = SimpleNamespace(source={"skipped_lines": 0, "unlike_members": ["m\nm"]}, tables={"undescribed": undescribed})
    monkeypatch.setattr("jobs.snapshot.describe_text.read", lambda *_, **__: read)
    options = MagicMock(connect_url=None, from_text=True, group=[])
    assert snapshot._snapshot(options) is read
    assert len(caplog.messages) == 2
    assert not any("\n" in message for message in caplog.messages)


@cases("name", *LONG, "".join(NAMES))
def test_a_comment_is_bounded(name: str) -> None:
    """GitHub refuses a longer one, and the reviewer would see no risk. No name adds a line to it."""
    text, plain = (review_markdown(_review(each)) for each in (name, "g"))
    assert len(text) < MAX_COMMENT / 2
    assert text.count("\n") == plain.count("\n") < MAX_LINES
    assert len(text.splitlines()) == text.count("\n") + 1


def _review(name: str) -> Review:
    """More of everything than a comment shows, each with this name and another character."""
    change, names = FleetChange([name, "b"]), [f"{number}{name}" for number in range(20)]
    for each in names:
        of_topic = DeclaredChange(Kind.TOPIC, each, name, "partitions", 5, 9, name)
        declared_changes._add_topic(change, of_topic, (name, each), 3)
        declared_changes._add_group(change, replace(of_topic, kind=Kind.GROUP), (name, each), 7, 7)
        of_client = replace(of_topic, kind=Kind.CLIENT, setting="assignor", before=each, after=each)
        change.changes.insert(0, of_client)
        declared_changes._add_client(change, of_client, (name, each))
        declared_changes._add_connector(change, replace(of_topic, kind=Kind.CONNECTOR))
        declared_changes._add_pool(change, replace(of_topic, kind=Kind.POOL), (name, each))
    figures = dict.fromkeys(("moved", "members", "partitions", "unassigned", "members_without_partitions"), 10**9)
    figures |= {"paused_partition_seconds": 1e12, "rounds": 10**9, "max_over_mean": 1e9, "drain_seconds": 1e9}
    groups = []
    for at, each in enumerate(names):
        after = {**figures, "assignor": each, "current_assignor": each, "client_libraries": None, "reason": each}
        after["rejected"] = "unknown-assignor" if at % 2 else None
        steps = f"{plan_switch(each, 'roundrobin').text} {at}"
        best = {**after, "assignor": f"b{each}", "switch_steps": steps, "settings": "a=b\nc=d", "moved": at}
        groups.append({"cluster": name, "group_id": each, "before": None, "after": after, "best": best})
    brokers = [{"cluster": each, "broker_id": 2**31 - 1} for each in names[:6]]  # `read_brokers` reads six
    loads = dict.fromkeys(("replicas", "new_replicas", "leaders", "new_leaders"), 10**9)
    totals = {"groups": 20, "planned": 10, "moved": 1, "partitions": 1, "paused": 1.0, "rounds": 1}
    unread = [f"{markdown_code(name)} isn't read." for _ in names]
    return Review(change, unread, groups, totals, [each | loads for each in brokers], datetime(2026, 1, 1, tzinfo=UTC))
