"""Reads the text of `Topology.describe()` as rows of the table `subtopologies`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from spark_assign.tables.errors import ConfigError

_SUBTOPOLOGY = re.compile(r"(0|[1-9][0-9]{0,4})( for global store .*)?")
_LISTS = {"Source": " (topics: ", "Processor": " (stores: "}
"""What follows the name of a node, which can have blanks."""


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
        ConfigError: the text has no subtopology with tasks, or one twice, a line about a subtopology, a source, or a
            processor can't be read, or a source subscribes to a pattern.

    Examples:
        >>> text = "Topologies:\\n   Sub-topology: 0\\n    Source: S (topics: [t])\\n    Processor: P (stores: [s])"
        >>> read_topology(text, "app", ["t", "app-s-changelog"])[0]["changelog_topics"]
        ['app-s-changelog']
    """
    found: dict[str, tuple[set[str], set[str]]] = {}
    global_stores, sources, stores = set[str](), set[str](), set[str]()
    for line in map(str.strip, text.splitlines()):
        kind, _, rest = line.partition(":")
        if kind == "Sub-topology":
            if (match := _SUBTOPOLOGY.fullmatch(rest.strip())) is None:
                raise ConfigError(f"The number of the subtopology can't be read: {line[:200]}")
            if match[1] in found or match[1] in global_stores:
                raise ConfigError(f"The topology has a subtopology twice. Give one topology: {line[:200]}")
            sources, stores = set(), set()
            if match[2] is None:
                found[match[1]] = sources, stores
            else:
                global_stores.add(match[1])  # it has no tasks
        elif kind in _LISTS:
            _, separator, listed = rest.rpartition(_LISTS[kind])
            is_list = listed.startswith("[") and listed.endswith("])")
            if kind == "Source" and separator and listed.endswith(")") and not is_list:
                raise ConfigError(f"The source subscribes to a pattern, which isn't supported: {line[:200]}")
            if not is_list or not (found or global_stores):
                raise ConfigError(f"The line can't be read. Give all that Topology.describe() prints: {line[:200]}")
            (sources if kind == "Source" else stores).update(split_names(listed[1:-2]))
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
