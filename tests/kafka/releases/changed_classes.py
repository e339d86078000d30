"""Which classes that decide assignments differ between two releases of Kafka.

`python -m tests.kafka.releases.changed_classes 4.4.0 4.5.0` lists them, and with a class name it prints the difference.
Read each difference, then add the release and its boundaries to map.json, and a profile for each that can change an
assignment. Two releases built by the same compiler differ only where their source does; JDK 8 was replaced in 3.0 and
11 in 4.0, so that other differences show there.
"""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.kafka import fetched, maven
from tests.runner import tools

MAP = Path(__file__).parent / "map.json"
_GROUP = "org/apache/kafka"
DECIDING = {
    "kafka-clients": rf"{_GROUP}/clients/consumer/(\w*Assignor|internals/(Abstract(Sticky|Partition)Assignor|Utils"
    r"|PartitionReassignments|ConsumerCoordinator))",
    "kafka-group-coordinator": rf"{_GROUP}/coordinator/group/(\w+/)*(assignor/\w+|CurrentAssignmentBuilder"
    r"|TargetAssignmentBuilder|ShareGroupAssignmentBuilder|AssignmentRefiner|TopicIds|UnionSet)",
    "kafka-streams": rf"{_GROUP}/streams/processor/(TaskId|assignment/\w+|assignment/assignors/\w+"
    r"|internals/(assignment/\w+|StreamsPartitionAssignor|PartitionGrouper|ChangelogTopics))",
    "connect-runtime": rf"{_GROUP}/connect/runtime/distributed/(EagerAssignor|IncrementalCooperativeAssignor"
    r"|ConnectAssignor|WorkerCoordinator|ExtendedAssignment)",
}
"""Artifact to a pattern of its classes that decide, without inner classes, which are a part of their class."""


def known() -> dict[str, dict[str, list[dict[str, str]]]]:
    """Returns the map: artifact to its releases, and to the boundaries between releases with other code."""
    found: dict[str, dict[str, list[dict[str, str]]]] = json.loads(MAP.read_text())
    return found


def released(artifact: str) -> list[str]:
    """Returns all releases of an artifact since 2.4.0 on Maven Central. Raises UnavailableError."""
    with tempfile.TemporaryDirectory() as folder:
        command = [fetched.need(tools.MAVEN), "-B", "-q", "dependency:get", f"-Dmaven.repo.local={folder}"]
        fetched.run([*command, "-Dtransitive=false", f"-Dartifact=org.apache.kafka:{artifact}:RELEASE"])
        (metadata,) = Path(folder).glob(f"{_GROUP}/{artifact}/maven-metadata-central.xml")
        versions = re.findall(r"<version>(\d+\.\d+\.\d+)</version>", metadata.read_text())
    return sorted((each for each in versions if _numbers(each) >= (2, 4, 0)), key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def class_texts(artifact: str, version: str) -> dict[str, str]:
    """Returns the instructions of each class that decides, without positions in its file. Raises UnavailableError."""
    jar = maven.artifact_jar(artifact, version)
    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(jar) as opened:
        pattern = re.compile(DECIDING[artifact] + r"(\$\w+)*\.class")
        files = sorted(name for name in opened.namelist() if pattern.fullmatch(name))
        opened.extractall(folder, files)
        command = [fetched.need(tools.JAVA), "-m", "jdk.jdeps/com.sun.tools.javap.Main", "-p", "-c"]
        for name in files:
            done = subprocess.run([*command, str(Path(folder) / name)], capture_output=True, text=True, check=True)
            outer = re.sub(r"(\$\w+)*\.class$", "", name).rpartition("/")[2]
            texts[outer] = texts.get(outer, "") + _without_positions(done.stdout)
    return texts


def _without_positions(disassembled: str) -> str:
    """Removes offsets of instructions, which all change with one of them, and indexes of constants."""
    text = re.sub(r"^ +\d+: ", "  ", disassembled, flags=re.MULTILINE)
    text = re.sub(r"#\d+(,  \d+)?", "", text)
    return re.sub(r"^(  (?:if\w*|goto) +)\d+$", r"\1", text, flags=re.MULTILINE)


def main(before: str, after: str, only: str | None = None) -> None:
    """Prints the classes that differ, or the difference of one."""
    for artifact in DECIDING:
        old, new = class_texts(artifact, before), class_texts(artifact, after)
        for name in sorted(old.keys() | new.keys()):
            lines = [texts.get(name, "").splitlines() for texts in (old, new)]
            if lines[0] != lines[1]:
                difference = list(difflib.unified_diff(*lines, before, after, lineterm="", n=2))
                print("\n".join(difference) if name == only else f"{artifact} {name}: {len(difference)} lines")


if __name__ == "__main__":
    main(*sys.argv[1:])
