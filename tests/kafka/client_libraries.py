"""Client libraries in their releases, and what runs consumers on them: fetched once, kept in the cache folder.

Java's clients come from Maven, those of Python from PyPI, each release in a folder of its own, kafkajs from npm; the Go
libraries are built into one program. Each program reads the members to run, a line each (`leaders/`, and
`java/Leaders.java`), and ends when its standard input does.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import fetched, java_programs, maven
from tests.runner import tools

PROGRAMS = Path(__file__).parent / "leaders"
LIBRDKAFKA = Path(__file__).parent / "librdkafka" / "members.py"
FOUR = ("range", "roundrobin", "sticky", "cooperative-sticky")
EAGER = FOUR[:3]


@dataclass(frozen=True)
class Running:
    """A library in a release, with the assignors that groups of it run with; `package` is where it comes in."""

    library: str
    release: str
    assignors: tuple[str, ...]
    package: str = ""

    @property
    def name(self) -> str:
        """Fit for a group's id."""
        return f"{self.library}-{self.release}"

    def command(self, servers: str) -> list[str]:
        """What runs its members; fetches what that takes. Raises UnavailableError."""
        if self.library == "Java":
            options = ("-Xms32m", "-Xmx192m", *java_programs.SHORT_LIVED)
            return java_programs.command("Leaders", maven.clients_classpath(self.release), servers, options=options)
        if self.library == "kafkajs":
            modules = npm(self.release)
            return ["env", f"NODE_PATH={modules}", "node", str(PROGRAMS / "leaders.js"), servers]
        if self.package:
            folder = fetched.python_package(self.package, self.release)
            return ["env", f"PYTHONPATH={folder}", sys.executable, str(PROGRAMS / "leaders.py"), self.package, servers]
        return [str(go_program(PROGRAMS / "go", "leaders")), self.library, servers]


LIBRARIES = (
    Running("Java", "2.4.1", EAGER + FOUR[3:]),
    *(Running("Java", release, ("range", "sticky", "cooperative-sticky")) for release in ("2.8.2", "3.3.2", "3.4.1")),
    Running("Java", "4.4.0", FOUR),
    Running("librdkafka", "2.1.1", ("range", "cooperative-sticky"), "confluent-kafka"),
    Running("librdkafka", "2.2.0", ("range", "cooperative-sticky"), "confluent-kafka"),
    Running("librdkafka", "2.16.1", ("range", "roundrobin", "cooperative-sticky"), "confluent-kafka"),
    Running("kafka-python", "2.2.15", EAGER, "kafka-python"),
    Running("kafka-python", "3.0.9", FOUR, "kafka-python"),
    Running("aiokafka", "0.14.0", EAGER, "aiokafka"),
)
OF_GO_AND_NODE = (
    Running("franz-go", "1.22.2", FOUR),
    Running("Sarama", "1.61.1", FOUR),
    Running("kafka-go", "0.4.51", ("range", "roundrobin")),
    Running("kafkajs", "2.2.4", ("RoundRobinAssigner",)),
)
"""These need Go, or Node, which not every machine has."""


def librdkafka_members(servers: str) -> list[str]:
    """What runs members on the newest librdkafka that come and go; fetches what that takes. Raises UnavailableError."""
    folder = fetched.python_package("confluent-kafka", "2.16.1")
    return ["env", f"PYTHONPATH={folder}", sys.executable, str(LIBRDKAFKA), servers]


def npm(release: str) -> Path:
    fetched.need(tools.NODE)
    folder = fetched.cache() / "clients" / f"kafkajs-{release}"
    with fetched.filling(folder) as scratch:
        if scratch:
            fetched.run(["npm", "install", "--silent", "--no-audit", "--prefix", str(scratch), f"kafkajs@{release}"])
    return folder / "node_modules"


def go_program(sources: Path, name: str, modules: str = "go.mod") -> Path:
    """A program, built again when its sources change, with releases as in `modules`. Raises UnavailableError."""
    fetched.need(tools.GO)
    mark = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(sources.iterdir()))).hexdigest()[:12]
    folder = fetched.cache() / "clients" / f"go-{mark}" / modules
    with fetched.filling(folder) as built:
        if built:
            fetched.run(["go", "build", "-C", str(sources), f"-modfile={modules}", "-o", str(built / name), "."])
    return folder / name


def go_tool(package: str, release: str) -> Path:
    """A program out of a Go module, such as `helm.sh/helm/v3/cmd/helm`. Raises UnavailableError."""
    fetched.need(tools.GO)
    name = package.rpartition("/")[2]
    folder = fetched.cache() / "clients" / f"{name}-{release}"
    with fetched.filling(folder) as built:
        if built:
            fetched.run(["env", f"GOBIN={built}", "go", "install", f"{package}@{release}"])
    return folder / name
