"""Figures in sentences of the pages, counted or played again; without Spark."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import pytest

from spark_assign.simulation import Settings
from spark_assign.simulation.facts import facts_of_rows
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import simulate_in_memory
from spark_assign.simulation.scenarios import SCENARIOS, rolling_deployment
from tests.docs.pages import ROOT, steps
from tests.unit import protocol_plays


def figures(page: str, sentence: str) -> list[str]:
    """The figures of a sentence, where `#` stands for each; it is on the page once, however its lines are broken."""
    text = " ".join((ROOT / page).read_text().split())
    found = re.findall(re.escape(sentence).replace(r"\#", r"(\d[\d,.]*\d|\d)").replace(r"\ ", " "), text)
    assert len(found) == 1, f"{page}: {sentence!r} is there {len(found)} times"
    return [found[0]] if isinstance(found[0], str) else list(found[0])


def recorded(name: str) -> list[dict[str, Any]]:
    """Rows of tests/golden."""
    with gzip.open(ROOT / "tests/golden" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return list(map(json.loads, lines))


def test_calls_of_the_coordinator() -> None:
    """docs/simulate.md: as many as were recorded."""
    sentence = "The simulated group returns what Kafka's own `ClassicGroup` returned in # recorded calls"
    assert figures("docs/simulate-rules.md", sentence) == [f"{len(recorded('classic-group')):,}"]


def test_groups_of_real_consumers() -> None:
    """docs/simulate.md: as many as tests/kafka plays."""
    pytest.importorskip("kafka")
    from tests.kafka.protocol_cases import CASES

    assert figures("docs/simulate-rules.md", "leave, crash, restart and vote in # groups") == [str(len(CASES))]


def test_groups_that_are_heard() -> None:
    """docs/simulate.md: as many of KIP-848 as tests/kafka plays."""
    pytest.importorskip("kafka")
    from tests.kafka.heartbeat_story import CASES

    assert figures("docs/simulate-rules.md", "listeners and the epochs in # groups") == [str(len(CASES))]


def test_what_another_decoder_reads() -> None:
    """docs/architecture.md: kafka-python's classes on the recorded rows."""
    metadata = pytest.importorskip("kafka.protocol.consumer.metadata")
    kinds = {"subscription": metadata.ConsumerProtocolSubscription, "assignment": metadata.ConsumerProtocolAssignment}
    rows = [row for row in recorded("wire") if row["kind"] in kinds]
    alike = failed = passed = 0
    for row in rows:
        data = None if row["bytes"] is None else base64.b64decode(row["bytes"])
        try:
            topics = _topics(kinds[row["kind"]].decode(data))
        except Exception:
            failed += row["valid"]
        else:
            alike += row["valid"] and topics == _recorded_topics(row["decoded"])
            passed += not row["valid"]
    valid = sum(row["valid"] for row in rows)
    page = "docs/architecture.md"
    assert figures(page, "own `ConsumerProtocol` (# subscriptions and assignments") == [str(len(rows))]
    assert figures(page, "decoder reads # of # valid ones alike; #") == [str(alike), str(valid), str(failed)]
    assert figures(page, "where Kafka reads on, # damaged ones pass") == [str(passed)]


def _topics(read: Any) -> list[Any]:
    """What a plan needs of it."""
    if hasattr(read, "topics"):
        return list(read.topics)
    return [[each.topic, partition] for each in read.assigned_partitions for partition in each.partitions]


def _recorded_topics(decoded: dict[str, Any]) -> list[Any]:
    return decoded.get("topics", decoded.get("partitions"))


@pytest.mark.parametrize(("down_ms", "static", "sentence"), [
    (5_000, False, "the # of the cooperative variant"),
    (20_000, True, "instead of 5 s costs # partition-seconds"),
])  # fmt: skip
def test_a_deployment_that_takes_longer(down_ms: int, static: bool, sentence: str) -> None:
    """docs/simulate.md: the story rolling-deployment with another time, by the kernels alone."""
    story = rolling_deployment()
    assert story.tables is not None
    owned = {r["member_id"]: list(range(r["first"], r["first"] + r["count"])) for r in story.tables["owned_slices"]}
    timing = TimingConfig(poll_interval_ms=Settings.poll_interval_ms, **story.settings)
    stage = protocol_plays.stage(owned, protocol_plays.COOPERATIVE, static=static, timing=timing)
    event = {name: value for name, value in story.events[0].items() if name not in ("cluster", "group_id")}
    played = protocol_plays.play(stage, Event(**event | {"down_ms": down_ms}))
    assert figures("docs/simulate.md", sentence) == [f"{sum(protocol_plays.pauses(played).values()) / 1000:,.0f}"]


def test_shorter_heartbeats() -> None:
    """docs/simulate.md: two stories with KIP-848's protocol and heartbeats of a second."""
    found = {}
    for name in ("textbook-join", "rolling-deployment"):
        story = SCENARIOS[name]()
        assert story.tables is not None
        settings = Settings(**story.settings, group_consumer_heartbeat_interval_ms=1_000)
        facts = facts_of_rows(story.tables, story.events)
        (played,) = simulate_in_memory(facts, ("consumer",), settings.timing, ("results",))["results"]
        found[name] = played["availability"]
    paused = found["textbook-join"]["longest_pause_ms"]
    assert figures("docs/simulate.md", "heartbeat-interval 1s` it is # s") == [f"{paused / 1000:.1f}"]
    lost = found["rolling-deployment"]["paused_partition_ms"] / 1000
    assert figures("docs/simulate.md", "it costs # partition-seconds: ") == [f"{lost:,.0f}"]
    assert figures("docs/simulate.md", "partition-seconds: #% saved") == [f"{1 - lost / 25_385.8:.0%}".rstrip("%")]
    longest = found["rolling-deployment"]["longest_pause_ms"]
    assert figures("docs/simulate.md", "no pause beyond # s") == [f"{longest / 1000:.1f}"]


def test_shares_of_the_bill() -> None:
    """docs/simulate.md: what the two clickstream groups pay, by what the page shows."""
    (step,) = [each for each in steps(ROOT / "docs/simulate.md") if "deploy-fleet" in each.text]
    (total,) = [line.split()[-5] for line in step.shown if line.startswith("  configured ")]
    of_two = [line.split("/")[1] for line in step.shown if line.startswith("  clickstream-")]
    share = sum([float(each.replace(",", "")) for each in of_two]) / float(total.replace(",", ""))
    assert figures("docs/simulate.md", "the two clickstream groups pay #% of the bill") == [f"{share:.0%}".rstrip("%")]


def test_the_tutorial_counts_what_the_plan_prints() -> None:
    """docs/tutorial.md: the figures of the summary that docs/plan.md shows."""
    counted = figures("docs/tutorial.md", "planned # consumer groups with # members and # partitions")
    summary = r"(\d+) groups planned, 0 rejected, (\d+) members, (\d+) partitions assigned"
    assert re.findall(summary, (ROOT / "docs/plan.md").read_text())[0] == tuple(counted)
