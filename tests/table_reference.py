"""docs/tables.md: every public table and column, from the schemas in `spark_assign.tables` and the texts below them.

The codes of faulty rows are from the remedies of the kernels. `python -m tests.table_reference` writes the page again
after a schema or a remedy has changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import zip_longest
from pathlib import Path

from pyspark.sql.types import StructType

from spark_assign.assignors import group_facts as facts
from spark_assign.assignors import group_specs
from spark_assign.connect.kernel import faults as connect
from spark_assign.streams.kernel import streams_group_input as streams

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"

HEAD = """# Tables and columns

This page lists every public table with its columns, and the codes of faulty rows with their remedies. In an input
table, a column that *may be null* may also be missing.
[Glossary](glossary.md) explains the terms. In Python, each table is a DataFrame and an attribute of its result, such as
`plan.moves`. A stored result has one folder per table, or one table of the catalog. The command `plan` stores
the tables of share groups, Streams groups, and Connect clusters with a prefix, such as `share_changes`.
"""

AREAS = {
    "groups": "Consumer groups",
    "comparison": "Comparison",
    "advice": "Advice",
    "history": "History",
    "simulation": "Simulation",
    "share": "Share groups",
    "streams": "Streams groups",
    "connect": "Connect",
    "replicas": "Replicas",
}
"""Module of `spark_assign.tables`: its heading."""

REMEDIES = {
    "groups": facts.REMEDIES | group_specs.REMEDIES,
    "streams": streams.REMEDIES,
    "connect": connect.REMEDIES,
}
"""Module of `spark_assign.tables`: remedy by code of a faulty row in its input tables."""

INTERNAL = ("*_ROWS", "CLASSIC_GROUP_*")
"""Schemas that no user reads."""

CODES = "If there are several faults, `code` is the first of them in this table. `detail` has all faults."

COMMON = {
    "cluster": "name of the Kafka cluster",
    "connect_cluster": "name of the Connect cluster",
    "connector": "name of the connector",
    "group_id": "group ID",
    "group_type": "`classic`, `consumer` (KIP-848), `share` (KIP-932), or `streams` (KIP-1071)",
    "member_id, new_member_id": "member ID, as the coordinator lists it",
    "member_ids": "member IDs",
    "from_member_id": "owner before; null: none",
    "to_member_id, next_member_id": "owner after; null: none",
    "group_instance_id": "`group.instance.id` of a static member",
    "client_id": "`client.id` of the member",
    "client_host": "host of the member, as the broker sees it",
    "client_libraries": "client libraries of the members, with the number of members",
    "rack_id": "rack (`client.rack` or `broker.rack`)",
    "broker_id, from_broker_id, to_broker_id": "broker ID",
    "topic": "topic name",
    "topic_id": "UUID of the topic, as Kafka prints it",
    "topics": "topic names",
    "partition": "partition number",
    "replicas": "broker IDs, preferred leader first, or the number of replicas",
    "first": "first partition of the slice",
    "step": "distance between two partitions of the slice, or the number of the step",
    "count": "number of partitions of the slice",
    "firsts, steps, counts": "`first`, `step`, and `count` of each slice",
    "generation_id": "generation ID",
    "user_data_generation_id": "generation ID in the user data of a sticky assignor; null: the same; -1: none",
    "assignor": "name of the assignor",
    "assignors": "names of the assignors, in order of preference",
    "protocol": "rebalance protocol",
    "variant": "the protocol or membership that is simulated",
    "state": "state of the group, by Kafka's name",
    "leader": "the member that leads",
    "code": "rejection code, or code of the problem",
    "detail, reason, note, risk": "a sentence",
    "error": "error of the broker",
    "verdict": "the result",
    "currency": "currency of the costs",
    "gain_unit, cost_unit": "unit of the column before it",
    "subtopology": "ID of the subtopology",
    "task": "task number",
    "replication_factor": "number of replicas of each partition",
    "worker_id": "worker ID",
    "members, members_before, members_after": "number of members",
    "static_members": "number of static members",
    "workers, connectors, tasks, processes, subtopologies, brokers, groups": "number",
    "records, rebalances, crashes, deploys": "number",
    "partitions, partitions_before, partitions_after": "number of partitions",
    "min_per_member, max_per_member, mean_per_member, stddev_per_member": "partitions of a member: minimum, maximum, "
    "mean, or standard deviation",
    "max_over_mean*": "largest number of partitions of a member, divided by the mean",
    "replicas_over_mean, leaders_over_mean": "number of the broker, divided by the mean",
    "moved": "partitions with another owner than before",
    "revoked": "partitions that a live owner must give up",
    "unassigned": "partitions without an owner",
    "members_without_subscription": "members that subscribe to no topic",
    "unknown_topics": "subscribed topics without metadata",
    "joined, left, crashed, restarted": "members that did so",
    "*paused_partition_ms": "pauses in milliseconds, summed over partitions",
    "*paused_partition_seconds": "pauses in seconds, summed over partitions",
    "*longest_pause_ms, *longest_pause_seconds": "longest pause of one partition",
    "committed_offset": "committed offset of the group",
    "end_offset": "end offset of the partition",
    "lag": "end offset minus committed offset, in messages",
    "offset, timestamp, key, value": "of the record",
    "start_time": "start (UTC)",
    "end_time": "end (UTC)",
    "time, taken_at": "time (UTC)",
    "start_ms, end_ms, at_ms": "time of the simulated clock",
    "*_timeout_ms, *_interval_ms, *_delay_ms, metadata_max_age_ms": "Kafka's setting of that name, in milliseconds",
    "run_id": "ID of the run",
    "attempt": "ID of the attempt",
    "finished_at": "time at which the attempt finished (UTC)",
    "duration_s, *_seconds": "in seconds",
    "rank": "position in the list, from 1",
    "gain": "what the change saves, in `gain_unit`",
    "cost": "what the change costs, in `cost_unit`",
    "static": "whether the variant has static members",
    "*_bytes_per_day, bytes_per_day": "bytes per day",
    "*_per_day": "per day, in `currency`",
    "from_rack, to_rack": "rack before and after",
    "assignor_before, assignor_after": "assignor before and after",
    "previous_member_id": "former member ID",
    "bounce": "number of the rolling restart, from 1",
    "event": "name of the event",
    "cause": "what caused the rebalance",
    "first_generation_id, last_generation_id": "first and last generation",
    "first_offset, last_offset": "first and last committed offset",
    "commits": "number of commits",
    "revoke_ms": "time to give up a partition, in milliseconds",
    "restore_ms": "time before a new owner consumes, in milliseconds",
    "*_ms": "in milliseconds",
    "*_rebalances": "number of rebalances",
    "min_*, max_*": "minimum or maximum of a member, worker, or broker",
    "*_starts": "number of starts",
    "*_stops": "number of stops",
    "fenced": "whether the broker is fenced",
    "cordoned": "whether all online log directories of the broker are cordoned (KIP-1066)",
    "offline_log_dirs": "log directories that are offline",
    "round": "number of the round, from 1",
    "what_if": "what-if change",
    "recommended": "whether this row is the recommendation",
    "recommended_*": "of the recommended option",
    "kind": "what the row describes",
    "*bytes": "in bytes",
}
"""Meaning of columns (names or patterns, separated by commas), unless the table's own text describes them."""

NAMES = r"((?:`[a-z_…]+`(?:,\s(?:and\s)?|\sand\s|\sto\s)?)+)"
DESCRIBED = re.compile(rf"(?:^|(?<=[.;] )|(?<=\n- )|(?<=\n)){NAMES}:\s", re.MULTILINE)


def page() -> str:
    """Returns the text of the page."""
    return "\n".join([HEAD, *(part for module in AREAS for part in _area(module))])


def _area(module: str) -> Iterator[str]:
    """Yields the parts of the page for the schemas of a module, in the order of the module."""
    loaded = import_module(f"spark_assign.tables.{module}")
    constants = dict(_constants(Path(str(loaded.__file__))))
    homes: dict[int, list[tuple[str, str]]] = {}
    for group in (each for each in constants if each.endswith("_TABLES")):
        for name, schema in dict(getattr(loaded, group)).items() if group != "REQUIRED_TABLES" else ():
            homes.setdefault(id(schema), []).append((group.removesuffix("_TABLES").lower(), name))
    yield f"## {AREAS[module]}\n"
    for constant, text in constants.items():
        schema = getattr(loaded, constant)
        if isinstance(schema, StructType) and not any(fnmatchcase(constant, each) for each in INTERNAL):
            found = homes.get(id(schema), [])
            named = [each for each in found if each[1] == constant.lower()] or found
            result, name = named[0] if named else ("", constant.lower())
            yield _table(f"{AREAS[module]}{result and ', '}{result}: {name}", schema, text)
    if module in REMEDIES:
        lines = [f"### {AREAS[module]}: codes of faulty rows", CODES, "", "| code | what to do |", "| --- | --- |"]
        yield "\n".join([*lines, *(f"| `{code}` | {remedy} |" for code, remedy in REMEDIES[module].items()), ""])


def _constants(file: Path) -> Iterator[tuple[str, str]]:
    """Yields the name of each public constant of a module, and the text below it."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node, after in zip_longest(body, body[1:]):
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_"):
            described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            yield target.id, str(after.value.value).strip() if described else ""


def _table(title: str, schema: StructType, text: str) -> str:
    """Returns a heading, what the text says about the table, and a row per column."""
    general, of_columns = _take_apart(_for_readers(text), schema.names)
    lines = [f"### {title}", general, "", "| column | type | may be null | meaning |", "| --- | --- | --- | --- |"]
    for field in schema:
        common = (text for n, text in COMMON.items() if any(fnmatchcase(field.name, each) for each in n.split(", ")))
        meaning = of_columns.get(field.name) or next(common, "")
        kind = field.dataType.simpleString().replace("bigint", "long")
        lines.append(f"| `{field.name}` | {kind} | {'yes' if field.nullable else ''} | {meaning} |")
    return "\n".join([*lines, ""])


def _for_readers(text: str) -> str:
    """Returns a text without the modules that it refers to, with tables by their names, and a line per item."""
    without_modules = re.sub(r"\s\(`[a-z_]+(\.\w+){2,}`\)", "", text)
    named = re.sub(r"\b[A-Z]{5,}(_[A-Z]+)*\b", lambda found: f"`{found[0].lower()}`", without_modules)
    return re.sub(r"\n +(?=\S)", " ", named.replace("``", "`"))


def _take_apart(text: str, columns: list[str]) -> tuple[str, dict[str, str]]:
    """Returns what a text says about a table, and what it says about each column."""
    found = [each for each in DESCRIBED.finditer(text) if _meant(each[1], columns)]
    general, meanings = [text[: found[0].start()] if found else text], {}
    for each, after in zip_longest(found, found[1:]):
        meaning, _, rest = text[each.end() : after.start() if after else None].partition("\n\n")
        flat = " ".join(meaning.split()).removesuffix("-").strip()
        meanings |= dict.fromkeys(_meant(each[1], columns), flat.rstrip(".;"))
        general.append(rest.removesuffix("- "))
    return "\n\n".join(part for each in general if (part := each.removesuffix("- ").strip())), meanings


def _meant(names: str, columns: list[str]) -> list[str]:
    """Returns the columns that a list of names means; a name with `…` is a pattern."""
    patterns = [name.replace("…", "*") for name in re.findall(r"`([^`]+)`", names)]
    return [column for column in columns if any(fnmatchcase(column, pattern) for pattern in patterns)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
