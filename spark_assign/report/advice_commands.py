"""The commands of a recommendation: how to apply it, how to verify it, and how to undo it, with its confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.advice.kernel.advice_items import Category
from spark_assign.groups.kernel.client_settings import undo_lines
from spark_assign.report.formatting import Row
from spark_assign.tables.quoting import shell_word

_SERVERS = "--bootstrap-server $BOOTSTRAP_SERVERS"
_CONFIDENCE = {
    Category.BEHIND: "High if the snapshot has readings of a busy hour: computed from its loads.",
    Category.MONEY: "High for the traffic of the snapshot: computed from its loads and the given prices.",
    Category.PAUSE: "Medium: simulated with Kafka's protocols, and an assumed restart time (--restart-time).",
    Category.BALANCE: "High for the loads of the snapshot: computed by the assignor itself.",
    Category.UNKNOWN: "Certain: the snapshot lacks the data.",
}
_REPLICAS = ("replicas-reorder", "replicas-move")
_DATA = ("readings", "capacity", "racks")


@dataclass(frozen=True)
class Commands:
    """Lines to paste, and how certain the recommendation is."""

    apply: Sequence[str]
    verify: Sequence[str]
    undo: Sequence[str]
    confidence: str


def advice_commands(row: Row) -> Commands:
    """Returns the commands of a row of `advice`."""
    settings = (row["settings"] or "").splitlines()
    more = f"spark-assign {row['command']}" if row["command"] else ""
    confidence = _CONFIDENCE[Category(row["category"])]
    group = row["group_id"]
    if row["action"] in _REPLICAS:
        reassign = f"kafka-reassign-partitions.sh {_SERVERS} --reassignment-json-file FILE"
        undo = "# Execute the current assignment, which --execute prints, in the same way."
        return Commands([more, f"{reassign} --execute"], [f"{reassign} --verify"], [undo], confidence)
    if row["action"] == "more-partitions":
        topics = f"kafka-topics.sh {_SERVERS}"
        undo = "# Not possible: Kafka can't remove partitions."
        return Commands(
            [f"{topics} --alter --topic TOPIC --partitions N"],
            [f"{topics} --describe --topic TOPIC"],
            [undo],
            confidence,
        )
    if row["action"] in _DATA or group is None:
        return Commands([*settings, more], ["spark-assign daily"], ["# Nothing to undo."], confidence)
    return settings_commands(group, settings or [more], confidence)


def settings_commands(group: str, settings: Sequence[str], confidence: str) -> Commands:
    """Returns the commands for settings of the members of a group, which contain their steps (`member_settings`)."""
    describe = f"kafka-consumer-groups.sh {_SERVERS} --describe --group {shell_word(group)}"
    verify = [f"{describe} --members --verbose", f"{describe} --state"]
    return Commands(settings, verify, undo_lines(settings), confidence)
