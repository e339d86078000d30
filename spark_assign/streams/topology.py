"""Reads the text of `Topology.describe()` as rows of the table `subtopologies`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from spark_assign.tables.errors import ConfigError

_SUBTOPOLOGY = re.compile(r"^\s*Sub-topology: ([0-9]{1,5})( for global store .*)?\s*$")
_SOURCE = re.compile(r"^\s*Source: \S+ \(topics: (.*)\)\s*$")
_STORES = re.compile(r"^\s*Processor: \S+ \(stores: \[(.*)\]\)\s*$")


def read_topology(text: str, application_id: str, topics: Collection[str]) -> list[dict[str, Any]]:
    """Returns the subtopologies of a classic application: subtopology, stateful, source_topics, changelog_topics.

    The text has repartition topics without the ID of the application, and doesn't have changelogs. Both are looked up
    in the topics of the cluster: a topic is a repartition topic if it only exists with the ID, and a store has a
    changelog if its topic exists. Source topics that serve as changelogs (`topology.optimization`) aren't recognized.

    Args:
        text: what `Topology.describe()` prints.
        application_id: `application.id`, which is also the ID of the group.
        topics: names of the topics of the cluster.

    Raises:
        ConfigError: the text has no subtopology with tasks, or a source subscribes to a pattern.

    Examples:
        >>> text = "Topologies:\\n   Sub-topology: 0\\n    Source: S (topics: [t])\\n    Processor: P (stores: [s])"
        >>> read_topology(text, "app", ["t", "app-s-changelog"])[0]["changelog_topics"]
        ['app-s-changelog']
    """
    found: dict[str, tuple[set[str], set[str]]] = {}
    sources, stores = set[str](), set[str]()
    for line in text.splitlines():
        if match := _SUBTOPOLOGY.match(line):
            sources, stores = set(), set()
            if match[2] is None:  # a global store has no tasks
                found[match[1]] = sources, stores
        elif match := _SOURCE.match(line):
            if not (match[1].startswith("[") and match[1].endswith("]")):
                raise ConfigError(f"The source subscribes to a pattern, which isn't supported: {line.strip()[:200]}")
            sources.update(split_names(match[1][1:-1]))
        elif match := _STORES.match(line):
            stores.update(split_names(match[1]))
    if not found:
        raise ConfigError("The topology has no subtopology. Give the text that Topology.describe() prints")
    return [
        {
            "subtopology": subtopology,
            "stateful": bool(stores),
            "source_topics": sorted(_full_name(name, application_id, topics) for name in sources),
            "changelog_topics": sorted(
                name for store in stores if (name := f"{application_id}-{store}-changelog") in topics
            ),
        }
        for subtopology, (sources, stores) in found.items()
    ]


def split_names(text: str) -> list[str]:
    """Returns names that commas separate."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _full_name(name: str, application_id: str, topics: Collection[str]) -> str:
    internal = f"{application_id}-{name}"
    return internal if name not in topics and internal in topics else name
