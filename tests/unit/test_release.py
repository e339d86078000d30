"""conf/release: licenses and ages of dependencies, and the version wherever it is written."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.message import Message

import yaml

import spark_assign
from conf.release.dependencies import NOT_ACCEPTED, dependencies, find_license, find_uploads
from tests.cases import cases
from tests.unit.test_project import ROOT

NOW = datetime(2026, 11, 27, tzinfo=UTC)
OSI = "License :: OSI Approved :: "


def package(name: str, **fields: str | list[str]) -> Message:
    """Metadata of a package; `_` in a field's name is `-`."""
    made = Message()
    made["Name"], made["Version"] = name, "1.0"
    for field, values in fields.items():
        for value in [values] if isinstance(values, str) else values:
            made[field.replace("_", "-")] = value
    return made


@cases(
    "fields license_",
    ({"License_Expression": "MIT", "License": "other"}, "MIT"),
    ({"Classifier": [f"{OSI}BSD License", f"{OSI}Apache Software License"]}, "Apache Software License AND BSD License"),
    ({"License": "3-Clause BSD\n\nCopyright"}, "3-Clause BSD"),
    ({"Classifier": "Typing :: Typed"}, ""),
)
def test_the_license_of_a_package(fields: dict[str, str | list[str]], license_: str) -> None:
    """The field of highest rank wins."""
    assert find_license(package("a", **fields)) == license_


@cases(
    "name is_accepted",
    ("Apache-2.0 OR BSD-2-Clause", True),
    ("Mozilla Public License 2.0 (MPL 2.0)", True),
    ("LGPL-3.0-only", True),
    ("GPL-3.0-only", False),
    ("GNU Affero General Public License v3", False),
    ("AGPLv3+", False),
    ("BUSL-1.1", False),
    ("CC-BY-NC-4.0", False),
)
def test_licenses_that_are_not_accepted(name: str, is_accepted: bool) -> None:
    """Those that restrict what is built with the package."""
    assert (NOT_ACCEPTED.search(name) is None) is is_accepted


def test_dependencies_by_age() -> None:
    """By the first upload of the version; the project itself isn't one, and one without a time is the last."""
    old, older = NOW - timedelta(days=30), NOW - timedelta(days=31)
    locked = {"packages": [{"name": "b-c", "wheels": [{"upload-time": old}], "sdist": {"upload-time": older}}]}
    packages = [package(name, License="MIT") for name in ("a", "B_c", "spark_assign")]
    rows = list(dependencies(packages, find_uploads(locked), NOW))
    assert rows == [("b-c", "1.0", "MIT", "2026-10-27", "31"), ("a", "1.0", "MIT", "", "")]


def test_every_file_names_this_version() -> None:
    """Images, wheels, and the provider's package."""
    files = [ROOT / "jobs/databricks/plan.py", *ROOT.glob("conf/*/*"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    texts = {f: f.read_text(encoding="utf-8") for f in files if f.is_file() and f.suffix not in (".parquet", ".png")}
    named = {
        (str(file.relative_to(ROOT)), version)
        for file, text in texts.items()
        for version in re.findall(r"spark_assign[-:](\d+\.\d+\.\d+)", text)
    }
    assert {version for _, version in named} == {spark_assign.__version__}, named
    provider = (ROOT / "jobs/airflow/pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{spark_assign.__version__}"\n' in provider
    chart = yaml.safe_load((ROOT / "conf/helm/Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == spark_assign.__version__


def test_what_a_tag_publishes() -> None:
    """The workflow builds by conf/release/build.sh, and may write releases only."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "write"}
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    (steps,) = (job["steps"] for job in workflow["jobs"].values())
    commands = [step["run"] for step in steps if "run" in step]
    assert commands[0] == 'conf/release/build.sh "$GITHUB_REF_NAME" dist'
    assert commands[1].startswith('gh release create "$GITHUB_REF_NAME" ')
    assert commands[1].endswith(" dist/*")
