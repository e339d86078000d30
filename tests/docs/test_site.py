"""The docs site: it is built without a warning and without the network, and has every page and every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spark_assign
from conf.site.pages import OFF_THE_SITE, REPOSITORY, defined_at, with_links_of_the_site
from spark_assign import connect, replicas, share
from spark_assign import simulation as protocol
from tests.cases import cases
from tests.docs.pages import ROOT

SITE = ROOT / "conf" / "site" / "mkdocs.yml"
LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=\"?([^\" >]+)|<link[^>]* href=\"?([^\" >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a link that leads nowhere or a page that is in no menu fails it."""
    pytest.importorskip("material", reason="the site is built by the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    # A proxy that is not there: what is fetched fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    command += ["--config-file", str(SITE), "--site-dir", str(folder)]
    env = {**os.environ, **nowhere}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    """Those of docs/ but for contributors, and the README as the first one."""
    pages = {file.stem for file in (ROOT / "docs").glob("*.md") if file.name not in OFF_THE_SITE}
    assert {file.stem for file in site.glob("*.html")} - {"404"} == pages | {
        "index",
        "changelog",
        "contributing",
        "play",
        "security-policy",
    }
    assert "./spark-submit.sh plan" in re.sub(r"<[^>]+>", "", (site / "index.html").read_text(encoding="utf-8"))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """Neither fonts nor scripts nor pictures: it is read behind a firewall, too."""
    for page in site.glob("*.html"):
        loaded = {"".join(found) for found in LOADED.findall(page.read_text(encoding="utf-8"))}
        assert not [each for each in loaded if "://" in each or each.startswith("//")], page.name


PUBLIC = [f"{p.__name__}.{name}" for p in (spark_assign, connect, protocol, replicas, share) for name in p.__all__]


@pytest.mark.parametrize("name", [name for name in PUBLIC if not name.endswith("__version__")])
def test_what_is_public_is_in_the_reference(site: Path, name: str) -> None:
    """What the package itself exports with an example, if it is no exception."""
    _, found, described = (site / "reference.html").read_text(encoding="utf-8").partition(f'id="{defined_at(name)}"')
    assert found
    described, _, _ = described.partition('<h3 id="')
    assert "Examples:" in described or name.count(".") > 1 or name.endswith("Error")


@cases(
    "file link there",
    ("README.md", "[x](docs/plan.md#from-python)", "[x](plan.md#from-python)"),
    ("README.md", '<img src="docs/report.png" alt="">', '<img src="report.png" alt="">'),
    ("README.md", "[x](CHANGELOG.md)", "[x](changelog.md)"),
    ("docs/plan.md", "[x](what-if.md)", "[x](what-if.md)"),
    ("docs/plan.md", "[x](../README.md#what-it-is-for)", "[x](index.md#what-it-is-for)"),
    ("SECURITY.md", "[x](docs/threat-model.md)", f"[x]({REPOSITORY}/blob/main/docs/threat-model.md)"),
    ("docs/plan.md", "[x](../conf/plan.toml)", f"[x]({REPOSITORY}/blob/main/conf/plan.toml)"),
    ("docs/plan.md", "[x](../conf/spark)", f"[x]({REPOSITORY}/tree/main/conf/spark)"),
    ("docs/plan.md", "[x](#here) [y](https://y.example/z)", "[x](#here) [y](https://y.example/z)"),
)
def test_links_of_the_repository_hold_on_the_site(file: str, link: str, there: str) -> None:
    """To pages, and to files that are none."""
    assert with_links_of_the_site(link, file) == there
