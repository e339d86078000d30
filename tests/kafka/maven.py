"""Kafka's own jars from Maven Central, and Delta's: fetched with one mvn call, kept in a cache folder, reused after.

Kafka's folder is `~/.cache/spark_assign/kafka-<version>`; `SPARK_ASSIGN_KAFKA_JARS` names another one (a folder
that holds the jars already is taken as it is). One that lacks some of `NEEDED` gets them.

Kafka's classes log by way of slf4j, which says nothing without a binding. The binding stands apart, in the folder
`logging` below: who wants to be told puts it into the class path, everybody else's standard output stays clean.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

VERSION = "4.1.2"
JARS_VARIABLE = "SPARK_ASSIGN_KAFKA_JARS"

# kafka_2.13 is the broker (with kafka-clients and jackson), kafka-tools the console and verifiable consumers,
# connect-runtime a Connect worker, connect-file and connect-json its file connectors and their converter.
NEEDED = ("kafka_2.13", "kafka-tools", "connect-runtime", "connect-file", "connect-json")

# As old an slf4j as Kafka has, and the version of log4j that comes with it.
BINDING, BINDING_VERSION = "log4j-slf4j-impl", "2.25.3"


def _dependency(group: str, artifact: str, version: str) -> str:
    return f"""
    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
    </dependency>"""


_DEPENDENCIES = [_dependency("org.apache.kafka", artifact, VERSION) for artifact in NEEDED]
_DEPENDENCIES.append(_dependency("org.apache.logging.log4j", BINDING, BINDING_VERSION))


DELTA_FOR_SPARK, DELTA_VERSION = "4.1", "4.4.0"
"""The release of Spark that the tests run on, and Delta's for it."""

_DELTA = [_dependency("io.delta", f"delta-spark_{DELTA_FOR_SPARK}_2.13", DELTA_VERSION)]
_OF_DELTA = "io.delta,io.unitycatalog"
"""What else it needs Spark has."""


def _pom(name: str, dependencies: list[str]) -> str:
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>spark_assign</groupId><artifactId>{name}-jars</artifactId><version>1</version>
  <dependencies>{"".join(dependencies)}
  </dependencies>
</project>
"""


class KafkaUnavailableError(Exception):
    """Java, Maven or the jars are missing on this machine; the message says which, in one line."""


def jars_folder() -> Path:
    """Where the jars are kept."""
    named = os.environ.get(JARS_VARIABLE)
    if named:
        return Path(named)
    return _cache() / f"kafka-{VERSION}"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark_assign"


def kafka_classpath() -> str:
    """A Java class path with broker, clients, tools and Connect; downloads them at the first call.

    Raises KafkaUnavailableError where java or mvn is missing, or where mvn fails.
    """
    if shutil.which("java") is None:
        raise KafkaUnavailableError("java is not on PATH")
    folder = jars_folder()
    if not _complete(folder):
        _download(folder)
    return str(folder / "*")


def logging_classpath() -> str:
    """What to add to `kafka_classpath` to have Kafka's classes log, by the log4j2 properties that they are given."""
    kafka_classpath()
    return str(jars_folder() / "logging" / "*")


def delta_jars() -> list[str]:
    """The jars that a session needs to know Delta; downloads them at the first call.

    Raises KafkaUnavailableError where mvn is missing, or where it fails.
    """
    folder = _cache() / f"delta-{DELTA_FOR_SPARK}-{DELTA_VERSION}"
    if not folder.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise KafkaUnavailableError("mvn is not on PATH")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as scratch:
            jars = _fetched(maven, Path(scratch), _pom("delta", _DELTA), f"-DincludeGroupIds={_OF_DELTA}")
            with contextlib.suppress(OSError):  # another one was faster
                jars.rename(folder)
    return sorted(map(str, folder.glob("*.jar")))


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


def _complete(folder: Path) -> bool:
    jars = [f"{artifact}-*.jar" for artifact in NEEDED] + [f"logging/{BINDING}-*.jar"]
    return all(any(folder.glob(jar)) for jar in jars)


def _download(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        missing = [artifact for artifact in (*NEEDED, BINDING) if not any(folder.glob(f"**/{artifact}-*.jar"))]
        raise KafkaUnavailableError(f"mvn is not on PATH and {folder} lacks {', '.join(missing)}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, then renamed: an interrupted download never looks like a complete folder.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as scratch:
        jars = _fetched(maven, Path(scratch), _pom("kafka", _DEPENDENCIES))
        (jars / "logging").mkdir()
        for jar in jars.glob(f"{BINDING}-*.jar"):
            jar.replace(jars / "logging" / jar.name)
        if not folder.exists():
            jars.rename(folder)
            return
        # A folder in use is added to, jar by jar, those that it is judged by last.
        (folder / "logging").mkdir(exist_ok=True)
        fresh = [jar for jar in jars.glob("**/*.jar") if not (folder / jar.relative_to(jars)).exists()]
        for jar in sorted(fresh, key=lambda jar: jar.name.startswith((*NEEDED, BINDING))):
            jar.replace(folder / jar.relative_to(jars))
