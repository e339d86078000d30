"""docs/security.md and the settings of docs/connect-snapshot.md: every properties file is understood, key by key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.connect import http_settings as connect_http_settings
from spark_assign.sources.connect.http_settings import HttpSettings
from spark_assign.sources.kafka import connection as kafka_permissions
from tests.docs.pages import ROOT, Block, others

PAGE = "docs/security.md"


def _blocks(page: str, mark: str) -> list[Block]:
    return [block for block in others(ROOT / page) if block.mark == mark]


@pytest.fixture(autouse=True)
def _stores_stay_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tls, "context", lambda tls, _=None: tls)


@pytest.mark.parametrize("block", _blocks(PAGE, "properties"), ids=lambda block: str(block.line))
def test_the_clients_properties(block: Block) -> None:
    """Each key is known, the mechanism is the one of the block, and what is secret does not show."""
    pytest.importorskip("botocore")
    properties = client_properties.parse("\n".join(block.lines))
    assert set(properties) <= client_settings.KNOWN
    found = client_settings.settings(properties)
    assert found["security_protocol"] == properties["security.protocol"]
    assert found.get("sasl_mechanism") == properties.get("sasl.mechanism")
    assert ("sasl_mechanism" in found) == found["security_protocol"].startswith("SASL_")
    assert ("…" in "\n".join(block.lines)) == bool(found["secrets"])
    for secret in (each for each in found["secrets"] if each == "…"):
        assert str.__str__(secret) not in repr(found)
    if "ssl.keystore.location" in properties:
        assert found["ssl_context"].key.location == properties["ssl.keystore.location"]


def test_every_mechanism_has_a_file() -> None:
    """And every kind of store."""
    texts = ["\n".join(block.lines) for block in _blocks(PAGE, "properties")]
    for word in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"):
        assert any(f"sasl.mechanism={word}\n" in text for text in texts), word
    for word in (".p12", ".jks", "type=PEM\n", "ssl.keystore.key="):
        assert any(word in text and "security.protocol=SSL\n" in text for text in texts), word


@pytest.mark.parametrize("block", _blocks("docs/connect-snapshot.md", "properties"), ids=lambda block: str(block.line))
def test_the_settings_of_connect(block: Block, tmp_path: Path) -> None:
    """docs/connect-snapshot.md: each is taken."""
    file = tmp_path / "connect.properties"
    file.write_text("\n".join(block.lines))
    found = connect_http_settings.configured(HttpSettings(), str(file))
    assert found.tokens is not None or found.proxy is not None
    assert "…" not in repr(found)


def test_the_policies() -> None:
    """MSK's and Strimzi's allow what the page's commands allow: to describe cluster, topics, and groups."""
    (policy,) = _blocks(PAGE, "json")
    (statement,) = json.loads("\n".join(policy.lines))["Statement"]
    actions = {action.removeprefix("kafka-cluster:") for action in statement["Action"]}
    assert actions == {"Connect", "DescribeCluster", "DescribeTopic", "DescribeGroup"}
    assert {resource.split(":")[5].split("/")[0] for resource in statement["Resource"]} == {"cluster", "topic", "group"}
    yaml = pytest.importorskip("yaml")
    (user,) = _blocks(PAGE, "yaml")
    acls = yaml.safe_load("\n".join(user.lines))["spec"]["authorization"]["acls"]
    assert {acl["resource"]["type"]: acl["operations"] for acl in acls} == {
        "cluster": ["Describe"],
        "topic": ["Describe"],
        "group": ["Describe", "DescribeConfigs"],
    }
    for acl in acls:
        for operation in acl["operations"]:
            assert f"--operation {operation} --{acl['resource']['type']}" in (ROOT / PAGE).read_text()


def test_the_messages() -> None:
    """Those in the tables are said somewhere in the sources."""
    sources = "".join(file.read_text() for file in (ROOT / "spark_assign/sources").rglob("*.py"))
    text = re.sub(r'"\s*\n\s*f?"', "", sources)
    page = (ROOT / PAGE).read_text()
    page_rows = (ROOT / "docs/troubleshooting.md").read_text().splitlines()
    rows = [line for line in page_rows if line.startswith(("| 2 |", "| 3 |"))]
    assert len(rows) == 9
    for row in rows:
        message = row.split("`")[1]
        if message not in ("Authentication failed", "CERTIFICATE_VERIFY_FAILED"):  # of the broker, of OpenSSL
            words = re.split(r"ssl\.keystore|401|…", message)
            assert all(word.strip("?). ") in text for word in words), message
    assert kafka_permissions.unseen_topics_text(["a"]).partition(":")[0] in page
