"""The text of `Topology.describe()` as subtopologies."""

from __future__ import annotations

import pytest

from spark_assign import ConfigError
from spark_assign.streams import read_topology
from tests.cases import cases

TEXT = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [orders, returns])
      --> KSTREAM-KEY-SELECT-0000000001
    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
      --> counts-repartition-filter
      <-- KSTREAM-SOURCE-0000000000
    Sink: counts-repartition-sink (topic: counts-repartition)
      <-- counts-repartition-filter

   Sub-topology: 1 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000005 (topics: [countries])
      --> KTABLE-SOURCE-0000000006
    Processor: KTABLE-SOURCE-0000000006 (stores: [countries-store])
      --> none
      <-- KSTREAM-SOURCE-0000000005
  Sub-topology: 2
    Source: counts-repartition-source (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000002
    Processor: KSTREAM-AGGREGATE-0000000002 (stores: [counts, cache])
      --> KTABLE-TOSTREAM-0000000006
      <-- counts-repartition-source
    Sink: KSTREAM-SINK-0000000007 (topic: counts-out)
      <-- KTABLE-TOSTREAM-0000000006
"""


def test_a_topology() -> None:
    """The repartition topic and the changelog have the name of the application; the store cache isn't logged."""
    topics = {"orders", "returns", "countries", "app-counts-repartition", "app-counts-changelog", "counts-out"}
    rows = read_topology(TEXT, "app", topics)
    assert rows == [
        {"subtopology": "0", "stateful": False, "source_topics": ["orders", "returns"], "changelog_topics": []},
        {
            "subtopology": "2",
            "stateful": True,
            "source_topics": ["app-counts-repartition"],
            "changelog_topics": ["app-counts-changelog"],
        },
    ]
    assert read_topology(TEXT, "app", {"counts-repartition"})[1]["source_topics"] == ["counts-repartition"]
    named = TEXT.replace("KSTREAM-SOURCE-0000000000 (", "orders (topics: [x]) source (")
    assert read_topology(named.replace("KSTREAM-AGGREGATE-0000000002 (", "count words ("), "app", topics) == rows


@cases(
    "text message",
    ("", "no subtopology"),
    ("Topologies:\n   Sub-topology: 1 for global store (will not generate tasks)", "no subtopology"),
    *(
        (f"Sub-topology: {number}", f"number.*: {number[:100]}")
        for number in ("9" * 5_000, "100000", "01", "x", "-1", "")
    ),
    (TEXT + TEXT, "subtopology twice.*: Sub-topology: 0"),
    (TEXT.replace("  Sub-topology: 2", "Sub-topology: 1"), "subtopology twice.*: Sub-topology: 1"),
    (TEXT.replace("   Sub-topology: 0\n", ""), "can't be read.*: Source: KSTREAM-SOURCE-0000000000"),
    (TEXT.replace("[orders, returns])", "[orders,"), r"can't be read.*: Source: .*\[orders,$"),
    (TEXT.replace("[counts, cache])", "[counts"), r"can't be read.*: Processor: .*\[counts$"),
    (TEXT.replace("[orders, returns]", "orders-.*"), "pattern.*orders-"),
)
def test_a_text_that_cannot_be_read(text: str, message: str) -> None:
    """With what is wrong."""
    with pytest.raises(ConfigError, match=message):
        read_topology(text, "app", ())
