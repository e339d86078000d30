"""conf/helm, rendered by the engine that Helm uses: the CronJob, and the application of the Spark operator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.e2e.conftest import ROOT
from tests.kafka import client_libraries, fetched
from tests.unit.test_deploy import SCHEMA, manifest

CHART = ROOT / "conf" / "helm"
HELM = "v3.16.4"


@pytest.fixture(scope="module")
def renderer() -> Path:
    """Not Helm itself: its engine with the functions that the chart uses."""
    with fetched.or_skipped():
        return client_libraries.go_program(Path(__file__).parent / "chart", "chart")


def rendered(renderer: Path, **changes: Any) -> dict[str, Any]:
    """The one object that the chart makes of its values with these changes."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert changes.keys() <= values.keys()
    command = [str(renderer), json.dumps(values | changes), *map(str, sorted((CHART / "templates").iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    (document,) = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert document["metadata"] == {"name": "nightly", "namespace": "kafka"}
    return dict(document)


def test_the_cronjob(renderer: Path) -> None:
    """One pod, not as root, with the job and its options; a value with a comma or a quote stays one word."""
    arguments = ["--fleet", "s3a://box/f", "--what-if", 'as "is", now']
    found = rendered(renderer, secretName="s3", job="compare", arguments=arguments)
    assert (found["apiVersion"], found["kind"]) == ("batch/v1", "CronJob")
    assert found["spec"]["concurrencyPolicy"] == "Forbid"
    pod = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    assert container["image"] == manifest()["spec"]["image"]
    assert container["envFrom"] == [{"secretRef": {"name": "s3"}}]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    words = container["args"]
    assert words[:5] == ["/opt/spark/bin/spark-submit", "--master", "local[2]", "--driver-memory", "6g"]
    assert "spark.ui.showConsoleProgress=false" in words
    job = words.index("/opt/spark_assign/jobs/compare.py")
    assert words[job + 1 :] == arguments


def test_the_application_of_the_operator(renderer: Path) -> None:
    """By the schema of the operator's API, as that of conf/deploy; a secret reaches both kinds of pods."""
    found = rendered(renderer, mode="operator")
    assert found["kind"] == "ScheduledSparkApplication"
    spec = found["spec"]["template"]
    jsonschema.validate({**manifest(), "spec": spec}, SCHEMA)
    expected = manifest()["spec"]
    for name in ("image", "sparkVersion", "mainApplicationFile", "restartPolicy", "mode", "type"):
        assert spec[name] == expected[name], name
    assert spec["executor"] == expected["executor"]
    assert spec["driver"]["securityContext"] == expected["driver"]["securityContext"]
    secret = rendered(renderer, mode="operator", secretName="s3")["spec"]["template"]
    assert secret["driver"]["envFrom"] == secret["executor"]["envFrom"] == [{"secretRef": {"name": "s3"}}]


def test_helm_itself(renderer: Path, tmp_path: Path) -> None:
    """Helm finds no fault in the chart, and makes the same objects of it."""
    with fetched.or_skipped():
        helm = str(client_libraries.go_tool("helm.sh/helm/v3/cmd/helm", HELM))
    subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, timeout=60, check=True)
    for changes in ({}, {"mode": "operator", "secretName": "s3"}):
        values = tmp_path / "values.json"
        values.write_text(json.dumps(changes), encoding="utf-8")
        command = [helm, "template", "nightly", str(CHART), "--namespace", "kafka", "--values", str(values)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert [each for each in yaml.safe_load_all(done.stdout) if each] == [rendered(renderer, **changes)]
