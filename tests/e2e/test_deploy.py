"""The lines that the launcher makes for YARN and Kubernetes: where the driver is here, and where it is not."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest

from tests.e2e.conftest import ROOT, Submit

CLUSTER = ("--conf", "spark.submit.deployMode=cluster")
API = ("--conf", "spark.master=k8s://https://api.example.com:6443")
UPLOAD = ("--conf", "spark.kubernetes.file.upload.path=s3a://bucket/uploads")
PLAN = ("plan", "--fleet", "s3a://bucket/fleet", "--output", "s3a://bucket/plans")
IN_IMAGE = "local:///opt/spark_assign/jobs/plan.py"


def line(submit: Submit, *words: str) -> list[str]:
    """The words of the spark-submit line."""
    done = submit("--dry-run", *words)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def after(words: list[str], option: str) -> list[str]:
    """Every value of an option."""
    return [value for name, value in pairwise(words) if name == option]


@pytest.mark.parametrize("env", [("--env", "yarn"), ("--env", "kubernetes", *API)], ids=["yarn", "kubernetes"])
def test_in_client_mode_the_driver_is_this_python(submit: Submit, env: tuple[str, ...]) -> None:
    """With the package and the settings of its log by their place here."""
    words = line(submit, *env, *PLAN)
    assert words[-5:] == [f"{ROOT}/jobs/plan.py", *PLAN[1:]]
    assert any(each.startswith("spark.pyspark.driver.python=") for each in after(words, "--conf"))
    assert f"file:{ROOT}/conf/spark/log4j2.properties" in after(words, "--driver-java-options")[0]
    assert after(words, "--py-files")[0].startswith(f"{ROOT}/build/spark_assign-")
    assert after(words, "--files") == []


def test_in_cluster_mode_yarn_gets_the_files(submit: Submit) -> None:
    """The job, the package and the settings of its log; no Python of this machine is asked for."""
    python = "spark.pyspark.python=./environment/bin/python"
    words = line(submit, "--env", "yarn", *CLUSTER, "--conf", python, *PLAN)
    assert words[-5:] == [f"{ROOT}/jobs/plan.py", *PLAN[1:]]
    assert after(words, "--conf") == ["spark.submit.deployMode=cluster", python]
    assert after(words, "--py-files")[0].startswith(f"{ROOT}/build/spark_assign-")
    assert after(words, "--files") == [f"{ROOT}/conf/spark/log4j2.properties"]
    assert after(words, "--driver-java-options") == ["-Dlog4j2.configurationFile=log4j2.properties"]


def test_files_of_the_user_are_left_alone(submit: Submit) -> None:
    """What he ships is not replaced by the settings of the log."""
    words = line(submit, "--env", "yarn", *CLUSTER, "--conf", "spark.files=my.toml", *PLAN)
    assert after(words, "--files") == after(words, "--driver-java-options") == []


def test_in_cluster_mode_kubernetes_runs_what_is_in_the_image(submit: Submit) -> None:
    """Nothing is sent, and no place of this machine is named behind the settings."""
    words = line(submit, "--env", "kubernetes", *API, *CLUSTER, *PLAN)
    assert words[-5:] == [IN_IMAGE, *PLAN[1:]]
    settings = words.index("--properties-file") + 2
    assert not [word for word in words[settings:] if str(ROOT) in word]
    assert after(words, "--py-files") == []


def test_in_cluster_mode_the_clone_may_be_uploaded(submit: Submit) -> None:
    """Where there is a place for it; only then a script of one's own can run."""
    words = line(submit, "--env", "kubernetes", *API, *CLUSTER, *UPLOAD, *PLAN)
    assert words[-5] == f"{ROOT}/jobs/plan.py"
    assert after(words, "--py-files")[0].startswith(f"{ROOT}/build/spark_assign-")
    script = str(ROOT / "tests" / "e2e" / "where_am_i.py")
    assert line(submit, "--env", "kubernetes", *API, *CLUSTER, *UPLOAD, script)[-1] == script
    done = submit("--env", "kubernetes", *API, *CLUSTER, "--dry-run", script)
    assert done.returncode == 2
    assert "spark.kubernetes.file.upload.path" in done.stderr
