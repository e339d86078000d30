"""In which test each documented step runs; and the few that run in none, with the reason.

A step that nothing here knows fails `test_every_step_is_run_or_has_a_reason`, so that a new one is run or explained.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from tests.docs.pages import ROOT, Step, pages, steps

NOT_RUN = {
    "./tests/run.sh*": "is what runs this test",
    ".venv/bin/python -m benchmarks*": "takes minutes to an hour; figures are in docs/benchmarks.md",
    "mutation/mutants *": "takes minutes to a night; what it found is in docs/mutants.md",
    "conf/deploy/pack.sh": "sets up and packs an environment of its own; tests/e2e/test_yarn.py runs it",
    "*daily --clusters *": "needs clusters; tests/kafka/live/test_daily_live.py has three",
    "*history --bootstrap-server *": "needs a cluster; tests/kafka/live/test_history_sources.py reads one",
    "hdfs *": "needs Hadoop; tests/e2e/test_yarn.py runs it",
    "conda*": "needs conda",
    "build/packed/bin/python *": "is what conda made",
    "docker *": "needs Docker; tests/unit/test_deploy.py checks the Dockerfile",
    "./spark-assign shell": "reads what a person types; tests/e2e/test_shell.py types",
    "./spark-assign mcp *": "serves until its client is gone; tests/e2e/test_mcp.py is one",
    "helm install *": "needs Kubernetes; tests/e2e/test_helm.py renders the chart",
    "kubectl *": "needs Kubernetes; tests/unit/test_deploy.py checks the manifest",
    "export AIRFLOW*": "tests/airflow sets them, in Airflow's own environment",
    "airflow *": "tests/airflow runs airflow db migrate and airflow dags test, in Airflow's own environment",
    "pip install '.[*": "tests/e2e/test_wheel.py installs the wheel in an empty environment",
    "pip install /opt/spark_assign/jobs/airflow": "tests/run.sh makes Airflow's environment",
    "kafka-configs.sh *": "changes a group that must exist; docs/change.md",
    "kafka-groups.sh *": "lists a group that must exist; docs/change.md",
    "kafka-topics.sh * --alter *": "changes a topic that must exist; docs/change.md",
    "kafka-consumer-groups.sh * --group payments *": "describes a group that must exist; docs/change.md",
    "databricks *": "needs a workspace of Databricks; tests/unit/test_databricks_bundle.py checks what it deploys",
}
"""Pattern of a command, or of the first line of a Python block: why it cannot run here."""

HERE, KAFKA, LAUNCHER, NOWHERE = "tests/docs", "tests/kafka/live", "tests/e2e", "nowhere"

IN_KAFKA = {
    "*snapshot --bootstrap-server * --command-config *": "test_security",
    "kafka-acls.sh *": "test_security",
    "*snapshot --connect-url *": "test_connect_live",
    "*snapshot --bootstrap-server * --interval *": "test_readings",
    "*snapshot --bootstrap-server * --rates-since *": "test_readings",
    "*snapshot --bootstrap-server * --table-prefix *": "test_predicted_is_actual",
    "*snapshot --bootstrap-server * --fleet-dir *": "test_snapshot_of_cluster",
    "*snapshot --clusters *": "test_three_clusters",
    "kafka-topics.sh *": "test_snapshot_of_cluster",
    "kafka-consumer-groups.sh *": "test_snapshot_of_cluster",
    "./spark-assign snapshot --from-text *": "test_snapshot_of_cluster",
    "kafka-reassign-partitions.sh *": "test_replicas",
    "kafka-leader-election.sh *": "test_replicas",
}
"""Pattern of a command that needs a broker: the test of tests/kafka/live that runs all those."""

LAUNCH = "./spark-submit.sh"
EMBEDDED = ("./spark-assign", "spark-assign")
"""In a clone, and installed."""
ENDED = "echo $?"
"""Shows the exit code of the command before it."""
LOOKS = ("ls", "head")
"""Commands of the shell that look at what a job has written."""

BLOCKS = {
    ("docs/assignors.md", "*"): "tests/docs/test_worked_examples.py",
    ("docs/libraries.md", "t0: *"): "tests/docs/test_worked_examples.py",
    ("docs/weighted.md", "t0: *"): "tests/docs/test_worked_examples.py",
    ("docs/airflow.md", "snapshot ──▶*"): "tests/airflow/test_page.py",
    ("docs/airflow.md", "[[][[]dag[]][]]"): "tests/airflow/test_page.py",
    ("docs/airflow.md", "[[]DAG TEST[]] *"): "tests/airflow/test_end_to_end.py",
    ("docs/airflow.md", "fleet.check try *"): "tests/airflow/test_end_to_end.py",
    ("docs/commands.md", "Usage: *"): "tests/unit/test_help.py",
    ("docs/weighted.md", "[[]project.entry-points.*"): "tests/docs/test_blocks.py",
    ("docs/forty-clusters.md", "[[]clusters.shop-prod[]]"): "tests/kafka/live/test_three_clusters.py",
    ("docs/forty-clusters.md", "[[]clusters.shop-prod.labels[]]"): "tests/docs/test_forty_clusters.py",
    ("docs/forty-clusters.md", "shop-prod: *"): "tests/kafka/live/test_three_clusters.py",
    ("docs/forty-clusters.md", "spark.jars.packages *"): "tests/docs/test_forty_clusters.py",
    ("docs/forty-clusters.md", "spark.sql.catalog.lake *"): "tests/docs/test_forty_clusters.py",
    ("docs/forty-clusters.md", "[[][[]dag[]][]]"): "tests/airflow/test_page.py",
    ("docs/daily.md", "[[][[]dag[]][]]"): "tests/airflow/test_page.py",
    ("docs/forty-clusters.md", "tasks:"): "tests/docs/test_forty_clusters.py",
    ("docs/change.md", "*"): "tests/docs/test_blocks.py",
    ("docs/architecture.md", "kind *"): "tests/docs/test_blocks.py",
    ("docs/tutorial.md", "spark-assign> *"): "tests/e2e/test_shell.py",
    ("docs/settings.md", "top = 20"): "tests/docs/test_blocks.py",
    ("docs/report.md", "*"): "tests/e2e/test_mcp.py",
    ("docs/mutants.md", "*"): "tests/unit/test_mutants.py",
    ("docs/libraries.md", "[[][[]leader_client[]][]]"): "tests/docs/test_blocks.py",
    ("docs/snapshot.md", "??:??:?? read * brokers *"): "tests/docs/test_blocks.py",
    ("docs/connect-snapshot.md", "ssl.truststore.*"): "tests/docs/test_security_page.py",
    ("docs/connect-snapshot.md", "bearer.auth.*"): "tests/docs/test_security_page.py",
    ("docs/security.md", "security.protocol=*"): "tests/docs/test_security_page.py",
    ("docs/zones.md", "*"): "tests/docs/test_zones_page.py",
    ("docs/pull-request.md", "*"): "tests/e2e/test_action.py",
    ("docs/security.md", "{"): "tests/docs/test_security_page.py",
    ("docs/security.md", "apiVersion: *"): "tests/docs/test_security_page.py",
}
"""Blocks that are no step, by page and first line: what compares them."""


def matches(texts: list[str], pattern: str) -> list[str]:
    """Those that a pattern of NOT_RUN means; brackets have no meaning there."""
    return [text for text in texts if fnmatchcase(text, pattern.replace("[", "[[]"))]


def home(step: Step) -> str:
    """Where a step runs; "" if nobody knows."""
    first = step.text.partition("\n")[0]
    if any(matches([first], pattern) for pattern in NOT_RUN):
        return NOWHERE
    if step.language != "sh" or step.text == ENDED or step.words[0] in ("cat", *LOOKS):
        return HERE
    if needs_kafka(step):
        return KAFKA
    if step.words[0] == LAUNCH and step.words[1].startswith("-"):
        return LAUNCHER
    return HERE if job(step) not in (None, "snapshot") else ""


def needs_kafka(step: Step) -> str:
    """The test of tests/kafka/live that runs a command; "" if none does."""
    return next((test for pattern, test in IN_KAFKA.items() if matches([step.text], pattern)), "")


def job(step: Step) -> str | None:
    """The job that a command starts, if it does: by the launcher or as a console script."""
    words = step.words
    if words[0] == LAUNCH or (words[0] in EMBEDDED and len(words) > 1):
        name = words[1]
    else:
        return None
    return name if (ROOT / "jobs" / f"{name}.py").exists() else None


def arguments(step: Step) -> list[str]:
    """What the command gives to its job."""
    return step.words[2:]


def import_main(name: str) -> Callable[[list[str]], int]:
    """The `main` of a job."""
    function: Callable[[list[str]], int] = importlib.import_module(f"jobs.{name}").main
    return function


def page_of(text: str) -> str:
    """The page on which a command runs that several have: the first that shows its outcome, else the first."""
    same = [step for page in pages() for step in steps(page) if step.text == text]
    return next((step for step in same if step.shown), same[0]).page


def steps_at(place: str) -> Iterator[Step]:
    """All steps of all pages that run there."""
    return (step for page in pages() for step in steps(page) if home(step) == place)
