"""Jars from Maven Central, of Kafka, Delta, Iceberg, Hadoop, and Spark's Kafka source: one mvn call a set, kept in a
cache folder, reused after.

Kafka's are in `~/.cache/spark_assign/kafka`, each set in a folder of its own; `SPARK_ASSIGN_KAFKA_JARS` names another
place (a folder of a set that holds its jars already is taken as it is). One that lacks some gets them.

The broker is the newest release that there is. Tools, Connect and Streams come out later than the broker: they are the
newest release of theirs, with the clients of that release, and never on one class path with the broker.

Kafka's classes log by way of slf4j, which says nothing without a binding. The binding is a set of its own: who wants to
be told puts it into the class path, everybody else's standard output stays clean.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import fetched
from tests.kafka.fetched import UnavailableError
from tests.runner import tools

VERSION = "4.4.0"
"""Of the broker, its coordinators and the clients."""
APPLICATIONS_VERSION = "4.3.1"
"""Of tools, Connect and Streams."""
OLDER_CLIENTS = ("4.1.2", "3.9.1")
"""Releases of the clients whose assignors are asked as well."""
OLDER_STREAMS = "3.9.1"
"""An older release of Kafka Streams, the last one of 3.x."""

JARS_VARIABLE = "SPARK_ASSIGN_KAFKA_JARS"
_KAFKA = "org.apache.kafka"
_JACKSON = "com.fasterxml.jackson.core:jackson-databind:2.21.2"


@dataclass(frozen=True)
class JarSet:
    """Artifacts (group:artifact:version) with all that they need, in one folder."""

    name: str
    artifacts: tuple[str, ...]

    @property
    def jars(self) -> list[str]:
        """The names of the artifacts' files."""
        return ["{1}-{2}.jar".format(*artifact.split(":")) for artifact in self.artifacts]

    @property
    def pom(self) -> str:
        """What mvn is given."""
        depends = "".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in self.artifacts)
        return _POM.format(name=self.name, depends=depends)


_DEPENDENCY = """
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>spark_assign</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>{depends}
  </dependencies>
</project>
"""

# The broker has kafka-clients, the group coordinator and jackson with it.
_BROKER = JarSet(f"broker-{VERSION}", (f"{_KAFKA}:kafka_2.13:{VERSION}",))
# The console and verifiable consumers, a Connect worker with its file connectors and their converter, Streams.
_APPLICATIONS = JarSet(
    f"applications-{APPLICATIONS_VERSION}",
    tuple(
        f"{_KAFKA}:{artifact}:{APPLICATIONS_VERSION}"
        for artifact in ("kafka-tools", "connect-runtime", "connect-file", "connect-json", "kafka-streams")
    ),
)
# As old an slf4j as Kafka has, and a version of log4j that fits both releases above.
_LOGGING = JarSet("logging-2.25.4", ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",))

FORMATS_FOR_SPARK, DELTA_VERSION, ICEBERG_VERSION = "4.1", "4.4.0", "1.11.0"
"""The release of Spark that the tests run on, and those of the table formats for it."""

_DELTA = JarSet(
    f"delta-{FORMATS_FOR_SPARK}-{DELTA_VERSION}", (f"io.delta:delta-spark_{FORMATS_FOR_SPARK}_2.13:{DELTA_VERSION}",)
)
_OF_DELTA = "io.delta,io.unitycatalog"
"""What else it needs Spark has."""
_ICEBERG = JarSet(
    f"iceberg-{FORMATS_FOR_SPARK}-{ICEBERG_VERSION}",
    (f"org.apache.iceberg:iceberg-spark-runtime-{FORMATS_FOR_SPARK}_2.13:{ICEBERG_VERSION}",),
)

HADOOP_VERSION = "3.4.2"
"""Of the Hadoop that the tests' Spark has."""
_HADOOP_AWS = JarSet(f"hadoop-aws-{HADOOP_VERSION}", (f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",))
# HDFS and YARN in one JVM, with libraries that their jar needs but doesn't name.
_HADOOP_CLUSTER = JarSet(
    f"hadoop-cluster-{HADOOP_VERSION}",
    (
        f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",
        "org.slf4j:slf4j-reload4j:1.7.36",
        "org.bouncycastle:bcpkix-jdk18on:1.78.1",
        "org.glassfish.jaxb:jaxb-runtime:2.3.9",
    ),
)

KAFKA_SOURCE_VERSION = "4.1.1"
"""Of Spark's Kafka source, for the same release of Spark; of later ones Maven Central has not all that it needs."""
_KAFKA_SOURCE = JarSet(
    f"kafka-source-{KAFKA_SOURCE_VERSION}", (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{KAFKA_SOURCE_VERSION}",)
)
_OF_KAFKA_SOURCE = f"org.apache.spark,{_KAFKA},org.apache.commons"


def kafka_classpath() -> str:
    """A Java class path with broker and clients; downloads them at the first call.

    Raises UnavailableError where java or mvn is missing, or where mvn fails.
    """
    return _classpath(_BROKER)


def applications_classpath() -> str:
    """A Java class path with Kafka's tools, Connect and Streams, and the clients that they were released with.

    Raises as `kafka_classpath` does.
    """
    return _classpath(_APPLICATIONS)


def group_coordinator_classpath(version: str) -> str:
    """A Java class path with the group coordinator of one release, and jackson. Raises as `kafka_classpath` does."""
    coordinator = f"{_KAFKA}:kafka-group-coordinator:{version}"
    return _classpath(JarSet(f"group-coordinator-{version}", (coordinator, _JACKSON)))


def clients_classpath(version: str) -> str:
    """A Java class path with the clients of one release, and jackson. Raises as `kafka_classpath` does."""
    return _classpath(JarSet(f"clients-{version}", (f"{_KAFKA}:kafka-clients:{version}", _JACKSON)))


def streams_classpath(version: str) -> str:
    """Returns a Java class path with one release of Kafka Streams, its clients, and jackson. Raises as
    `kafka_classpath` does."""
    return _classpath(JarSet(f"streams-and-jackson-{version}", (_JACKSON, f"{_KAFKA}:kafka-streams:{version}")))


def connect_classpath(version: str) -> str:
    """Returns a Java class path with one release of the Connect runtime, what it needs, and jackson. Raises as
    `kafka_classpath` does."""
    return _classpath(JarSet(f"connect-{version}", (_JACKSON, f"{_KAFKA}:connect-runtime:{version}")))


def connect_workers_classpath(version: str) -> str:
    """Returns a Java class path with a Connect worker of one release and its file connectors. Raises as
    `kafka_classpath` does."""
    if version == APPLICATIONS_VERSION:
        return applications_classpath()
    artifacts = ("connect-runtime", "connect-file", "connect-json")
    return _classpath(JarSet(f"connect-workers-{version}", tuple(f"{_KAFKA}:{name}:{version}" for name in artifacts)))


def artifact_jar(artifact: str, version: str) -> Path:
    """Returns the jar of one of Kafka's artifacts, without what it needs. Raises as `kafka_classpath` does."""
    folder = fetched.cache() / "kafka" / f"{artifact}-{version}"
    with fetched.filling(folder) as jars:
        if jars:
            found = f"-Dartifact={_KAFKA}:{artifact}:{version}"
            command = [fetched.need(tools.MAVEN), "-B", "-q", "dependency:copy", found]
            fetched.run([*command, f"-DoutputDirectory={jars}"])
    return folder / f"{artifact}-{version}.jar"


def logging_classpath() -> str:
    """What to add to the first two to have Kafka's classes log, by the log4j2 properties that they are given."""
    return str(_with_jars(_LOGGING) / _LOGGING.jars[0])


def delta_jars() -> list[str]:
    """The jars that a session needs to know Delta; downloads them at the first call.

    Raises UnavailableError where mvn is missing, or where it fails.
    """
    return _for_spark(_DELTA, _OF_DELTA)


def iceberg_jars() -> list[str]:
    """The jars that a session needs to read and write Iceberg tables. Raises as `delta_jars` does."""
    return _for_spark(_ICEBERG, "org.apache.iceberg")


def s3a_jars() -> list[str]:
    """The jars that a session needs to read and write `s3a://`. Raises as `delta_jars` does."""
    return _for_spark(_HADOOP_AWS, "org.apache.hadoop,software.amazon.awssdk,software.amazon.s3.analyticsaccelerator")


def hadoop_classpath() -> str:
    """A Java class path with HDFS and YARN. Raises as `kafka_classpath` does."""
    return _classpath(_HADOOP_CLUSTER)


def kafka_source_jars() -> list[str]:
    """The jars that a session needs to read Kafka. Raises as `delta_jars` does."""
    return _for_spark(_KAFKA_SOURCE, _OF_KAFKA_SOURCE)


def _for_spark(wanted: JarSet, groups: str) -> list[str]:
    """The jars of these groups, of which Spark has none."""
    folder = fetched.cache() / wanted.name
    with fetched.filling(folder) as jars:
        if jars:
            _fetch(jars, wanted.pom, f"-DincludeGroupIds={groups}")
    return sorted(map(str, folder.glob("*.jar")))


def _classpath(wanted: JarSet) -> str:
    fetched.need(tools.JAVA)
    return str(_with_jars(wanted) / "*")


def _with_jars(wanted: JarSet) -> Path:
    """The folder of a set, which has its jars by now."""
    named = os.environ.get(JARS_VARIABLE)
    folder = (Path(named) if named else fetched.cache() / "kafka") / wanted.name
    if not all((folder / jar).exists() for jar in wanted.jars):
        _download(wanted, folder)
    return folder


_FAILED: dict[str, str] = {}
"""For each pom, why its jars could not be fetched: without a network, no test calls mvn again."""


def _fetch(jars: Path, pom: str, *more: str) -> None:
    """Fetches the jars of a pom into a folder. Raises UnavailableError where mvn is missing, or where it fails."""
    if pom in _FAILED:
        raise UnavailableError(_FAILED[pom])
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(pom)
        file.flush()
        command = [fetched.need(tools.MAVEN), "-B", "-q", "-f", file.name, "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip().splitlines()
        _FAILED[pom] = f"mvn could not fetch the jars: {output[0] if output else 'no output'}"
        raise UnavailableError(_FAILED[pom])


def _download(wanted: JarSet, folder: Path) -> None:
    with fetched.filling(folder) as jars:
        if jars:
            _fetch(jars, wanted.pom)
            return
    _add(wanted, folder)


def _add(wanted: JarSet, folder: Path) -> None:
    """Adds what a folder lacks, jar by jar, those that it is judged by last: it may be in use."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        _fetch(Path(scratch), wanted.pom)
        fresh = [jar for jar in Path(scratch).glob("*.jar") if not (folder / jar.name).exists()]
        for jar in sorted(fresh, key=lambda jar: jar.name in wanted.jars):
            jar.replace(folder / jar.name)
