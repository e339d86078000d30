"""The documented commands that need Kafka, run with addresses and files of the tests in place of those on the pages."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.docs import homes
from tests.docs.pages import Step
from tests.docs.terminal import Terminal, terminal
from tests.kafka import java_programs, maven
from tests.kafka.broker import Cluster

BROKER = "broker-1:9092"
TOOLS = {
    "kafka-acls.sh": "AclCommand",
    "kafka-topics.sh": "TopicCommand",
    "kafka-consumer-groups.sh": "consumer.group.ConsumerGroupCommand",
    "kafka-reassign-partitions.sh": "reassign.ReassignPartitionsCommand",
    "kafka-leader-election.sh": "LeaderElectionCommand",
}
"""Kafka's own, and their classes in org.apache.kafka.tools."""


def steps(test: str, pattern: str = "*") -> list[Step]:
    """What `homes.IN_KAFKA` gives to a test, each command once; of those the ones that match."""
    given = {step.text: step for step in homes.steps_at(homes.KAFKA) if homes.needs_kafka(step) == test}
    found = [step for text, step in given.items() if homes.matches([text], pattern)]
    assert found, f"no page has a command like {pattern}"
    return found


def words(step: Step, instead: Mapping[str, str]) -> list[str]:
    """The command's words with other addresses and files."""
    changed = []
    for word in step.words:
        for documented, real in instead.items():
            word = word.replace(documented, real)
        changed.append(word)
    return changed


def run_job(step: Step, broker: Cluster, instead: Mapping[str, str]) -> Terminal:
    """The job of a command, in this process, and what it prints and logs; it ends with exit code 0."""
    given = words(step, {BROKER: broker.bootstrap_servers, **instead})
    name = homes.job(step)
    assert name is not None
    with terminal() as seen:
        code = homes.import_main(name)(given[2:])
    assert code == 0, f"{step}\n{seen}"
    return seen


def run_tool(step: Step, broker: Cluster, instead: Mapping[str, str]) -> str:
    """Output of one of Kafka's tools, which must succeed; also in the file that the command sends it to."""
    tool, *arguments = words(step, {BROKER: broker.bootstrap_servers, **instead})
    file = arguments.pop() if ">" in arguments else None
    if file is not None:
        arguments.remove(">")
    java = ["java", *java_programs.SHORT_LIVED, "-cp", maven.applications_classpath()]
    java += [f"org.apache.kafka.tools.{TOOLS[tool]}", *arguments]
    done = subprocess.run(java, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
    if file is not None:
        Path(file).write_text(done.stdout)
    return done.stdout
