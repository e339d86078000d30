"""Kafka's own jars from Maven Central, and Delta's: one mvn call a set, kept in a cache folder, reused after.

Kafka's are in `~/.cache/spark_assign/kafka`, each set in a folder of its own; `SPARK_ASSIGN_KAFKA_JARS` names another
place (a folder of a set that holds its jars already is taken as it is). One that lacks some gets them.

The broker is the newest release that there is. Tools, Connect and Streams come out later than the broker: they are the
newest release of theirs, with the clients of that release, and never on one class path with the broker.

Kafka's classes log by way of slf4j, which says nothing without a binding. The binding is a set of its own: who wants to
be told puts it into the class path, everybody else's standard output stays clean.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

VERSION = "4.4.0"
"""Of the broker, its coordinators and the clients."""
APPLICATIONS_VERSION = "4.3.1"
"""Of tools, Connect and Streams."""
OLDER_CLIENTS = ("4.1.2", "3.9.1")
"""Releases of the clients whose assignors are asked as well."""
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that compiles a program, answers some questions and ends: it takes a third less of a processor."""

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

DELTA_FOR_SPARK, DELTA_VERSION = "4.1", "4.4.0"
"""The release of Spark that the tests run on, and Delta's for it."""

_DELTA = JarSet(
    f"delta-{DELTA_FOR_SPARK}-{DELTA_VERSION}", (f"io.delta:delta-spark_{DELTA_FOR_SPARK}_2.13:{DELTA_VERSION}",)
)
_OF_DELTA = "io.delta,io.unitycatalog"
"""What else it needs Spark has."""


class KafkaUnavailableError(Exception):
    """Java, Maven or the jars are missing on this machine; the message says which, in one line."""


def cache() -> Path:
    """Where all that was fetched is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark_assign"


def kafka_classpath() -> str:
    """A Java class path with broker and clients; downloads them at the first call.

    Raises KafkaUnavailableError where java or mvn is missing, or where mvn fails.
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


def logging_classpath() -> str:
    """What to add to the first two to have Kafka's classes log, by the log4j2 properties that they are given."""
    folder = _with_jars(_LOGGING)
    return str(folder / _LOGGING.jars[0])


def delta_jars() -> list[str]:
    """The jars that a session needs to know Delta; downloads them at the first call.

    Raises KafkaUnavailableError where mvn is missing, or where it fails.
    """
    folder = cache() / _DELTA.name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as scratch:
            jars = _fetched(_maven(_DELTA, folder), Path(scratch), _DELTA.pom, f"-DincludeGroupIds={_OF_DELTA}")
            with contextlib.suppress(OSError):  # another one was faster
                jars.rename(folder)
    return sorted(map(str, folder.glob("*.jar")))


def _classpath(wanted: JarSet) -> str:
    if shutil.which("java") is None:
        raise KafkaUnavailableError("java is not on PATH")
    return str(_with_jars(wanted) / "*")


def _with_jars(wanted: JarSet) -> Path:
    """The folder of a set, which has its jars by now."""
    named = os.environ.get(JARS_VARIABLE)
    folder = (Path(named) if named else cache() / "kafka") / wanted.name
    if not all((folder / jar).exists() for jar in wanted.jars):
        _download(wanted, folder)
    return folder


def _maven(wanted: JarSet, folder: Path) -> str:
    found = shutil.which("mvn")
    if found is None:
        missing = [jar for jar in wanted.jars if not (folder / jar).exists()]
        raise KafkaUnavailableError(f"mvn is not on PATH and {folder} lacks {', '.join(missing)}")
    return found


def _fetched(maven: str, scratch: Path, pom: str, *more: str) -> Path:
    """A folder with the jars of a pom. Raises KafkaUnavailableError where mvn fails."""
    file, jars = scratch / "pom.xml", scratch / "jars"
    file.write_text(pom)
    command = [maven, "-B", "-q", "-f", str(file), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise KafkaUnavailableError(f"mvn could not fetch the jars: {said[0] if said else 'no output'}")
    return jars


def _download(wanted: JarSet, folder: Path) -> None:
    maven = _maven(wanted, folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, then renamed: an interrupted download never looks like a complete folder.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as scratch:
        jars = _fetched(maven, Path(scratch), wanted.pom)
        if not folder.exists():
            with contextlib.suppress(OSError):  # another one was faster
                jars.rename(folder)
                return
        # A folder in use is added to, jar by jar, those that it is judged by last.
        fresh = [jar for jar in jars.glob("*.jar") if not (folder / jar.name).exists()]
        for jar in sorted(fresh, key=lambda jar: jar.name in wanted.jars):
            jar.replace(folder / jar.name)
