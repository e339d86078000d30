"""Plans of live Streams applications on the classic protocol, in the form of what their leaders assigned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from spark_assign import Fleet
from spark_assign.assignors.streams.streams_partition_assignor import plan_application
from tests.frames import merged
from tests.kafka import live_groups
from tests.kafka.classic_applications import Step, Story
from tests.kafka.live_groups import Row, Tables

Tasks = set[tuple[str, str, int, str]]
"""Member ID, subtopology, task, and role."""


def unequal_generations(story: Story) -> list[tuple[int, object, object]]:
    """Returns the generations that aren't planned as their leaders did: number, plan, and assignment."""
    found: list[tuple[int, object, object]] = []
    for generation in story.generations:
        ends = story.end_offsets if generation.number > story.filled else [0] * len(story.end_offsets)
        planned = generation.planned(plan_application(story.specs.application(generation, ends)))
        if planned != generation.tasks:
            found.append((generation.number, planned, generation.tasks))
    return found


def fleet_of(spark: SparkSession, stories: Sequence[Story]) -> Fleet:
    """Returns the applications before each step, but with the members that they have afterward.

    The name of the step is that of the cluster.
    """
    tables = (
        {n: [o | {"cluster": t.name} for o in r] for n, r in _before(s, t).items()} for s in stories for t in s.steps
    )
    return live_groups.fleet(spark, merged(tables))


def _before(story: Story, step: Step) -> Tables:
    members = {row["member_id"] for row in step.after["members"]}
    pairs = step.before.items()
    tables = {n: [o for o in r if o["member_id"] in members] for n, r in pairs if n in ("tasks", "owned_slices")}
    if step.restarted is not None:
        client, disk = step.restarted
        (member,) = [row["member_id"] for row in step.after["members"] if row["client_id"].startswith(f"{client}-")]
        for row in disk:
            offset = story.end_offsets[row["task"]]
            tables["tasks"].append(row | {"member_id": member, "role": None, "changelog_offset": offset})
    config = [f"{name}={value}" for name, value in story.specs.settings.items()]
    groups = [row | {"streams_config": config} for row in step.after["groups"]]
    return step.after | tables | {"groups": groups, "changelogs": step.before["changelogs"]}


def final_tasks(rows: Iterable[Any]) -> dict[str, Tasks]:
    """Returns the planned tasks by cluster after all rebalances that follow at once: members have withheld tasks."""
    found: dict[str, Tasks] = {}
    for row in rows:
        role = {"withheld": "active", "warmup": "standby"}.get(row["role"], row["role"])
        found.setdefault(row["cluster"], set()).add((row["member_id"], row["subtopology"], row["task"], role))
    for tasks in found.values():
        tasks -= {(*task, "standby") for *task, role in tasks if role == "active"}
    return found


def tasks_of(tables: Tables) -> Tasks:
    """Returns the tasks that members have."""
    rows: list[Row] = [row for row in tables["tasks"] if row["role"] is not None]
    return {(row["member_id"], row["subtopology"], row["task"], row["role"]) for row in rows}
