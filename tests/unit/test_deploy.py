"""conf/deploy: the image, the manifest and the packed environment, as far as no cluster is needed for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from conf.requirements.install import FOLDER, ROOT

DEPLOY = ROOT / "conf" / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
SCHEMA = json.loads(Path(__file__).with_name("spark_application.schema.json").read_text(encoding="utf-8"))
IN_IMAGE = "/opt/spark_assign"


def locked_spark() -> str:
    """The release of Spark in the lock."""
    found = re.search(r"^pyspark==(\S+)", (FOLDER / "spark.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def manifest() -> dict[str, Any]:
    """conf/deploy/spark-application.yaml."""
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "spark-application.yaml").read_text(encoding="utf-8"))
    return read


def settings(name: str) -> dict[str, str]:
    """The settings of conf/spark that count."""
    lines = (ROOT / "conf" / "spark" / f"{name}.conf").read_text(encoding="utf-8").splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def test_the_dockerfile_is_clean() -> None:
    """By hadolint; what is left out stands beside its reason."""
    hadolint = Path(sys.executable).with_name("hadolint")
    program = str(hadolint) if hadolint.exists() else shutil.which("hadolint")
    assert program, "hadolint comes with the extra `test`"
    done = subprocess.run([program, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_of_this_clone() -> None:
    """Spark as locked, Python that the project supports, packages by their hashes, and not root."""
    assert f"SPARK_IMAGE=spark:{locked_spark()}-" in DOCKERFILE
    assert "java17" in DOCKERFILE
    assert "openjdk-17-jre" in DOCKERFILE
    assert "PYTHON_IMAGE=python:3.12-" in DOCKERFILE
    assert "pip install --no-cache-dir --only-binary :all: --require-hashes" in DOCKERFILE
    assert ":latest" not in DOCKERFILE
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)[-1] == "185"


def test_what_the_image_copies_is_there_and_sent() -> None:
    """Each file is in the clone, and .dockerignore lets it through."""
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in ignore if line.startswith("!")}
    for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = words.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source.partition("/")[0] in sent, source
    assert f"COPY jobs {IN_IMAGE}/jobs" in DOCKERFILE
    assert f"COPY conf/plan.toml {IN_IMAGE}/conf/plan.toml" in DOCKERFILE


def test_the_manifest_is_one() -> None:
    """By the schema; a misspelt field would be found."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(manifest(), SCHEMA)
    wrong = manifest()
    wrong["spec"]["driver"]["serviceAcount"] = "spark"
    with pytest.raises(jsonschema.ValidationError, match="serviceAcount"):
        jsonschema.validate(wrong, SCHEMA)


def test_the_manifest_runs_what_is_in_the_image() -> None:
    """The job, Spark's release, the settings of conf/spark/kubernetes.conf, and not root."""
    spec = manifest()["spec"]
    place, _, job = spec["mainApplicationFile"].rpartition("/")
    assert place == f"local://{IN_IMAGE}/jobs"
    assert (ROOT / "jobs" / job).is_file()
    assert spec["sparkVersion"] == locked_spark()
    known = settings("kubernetes")
    assert spec["sparkConf"] == {key: known[key] for key in spec["sparkConf"]}
    assert spec["executor"]["memory"] == known["spark.executor.memory"]
    assert spec["executor"]["memoryOverhead"] == known["spark.executor.memoryOverhead"]
    for pod in (spec["driver"], spec["executor"]):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 185


def test_yarn_unpacks_what_is_packed() -> None:
    """Under the name that conf/spark/yarn.conf gives to the archive."""
    pack = (DEPLOY / "pack.sh").read_text(encoding="utf-8")
    text = (ROOT / "conf" / "spark" / "yarn.conf").read_text(encoding="utf-8")
    assert "build/environment.tar.gz" in pack
    assert re.search(r"^# spark.yarn.dist.archives +\S+/environment.tar.gz#environment$", text, re.MULTILINE)
    assert re.search(r"^# spark.pyspark.python +./environment/bin/python$", text, re.MULTILINE)


@pytest.mark.parametrize("script", [DEPLOY / "pack.sh", FOLDER / "renew.sh"], ids=lambda script: script.name)
def test_scripts_can_be_run(script: Path) -> None:
    """Their right to be, and their syntax."""
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(script)], capture_output=True, check=False).returncode == 0
