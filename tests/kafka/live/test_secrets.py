"""TLS and SASL through a properties file, against a real listener; the secret shows up nowhere."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest
from kafka.net.transport import KafkaSSLTransport

from jobs import snapshot as snapshot_job
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.kafka import cluster_snapshot as kafka
from tests.kafka import secure_listener
from tests.kafka.broker import Cluster
from tests.kafka.guarded_cluster import create_users

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module", autouse=True)
def _scram_user(broker: Cluster) -> None:
    create_users(broker, secure_listener.USER, secure_listener.PASSWORD, "SCRAM-SHA-512")


def _run(broker: Cluster, tmp_path: Path, text: str) -> int:
    config = tmp_path / "client.properties"
    config.write_text(text)
    arguments = ["--bootstrap-server", broker.secure_servers, "--command-config", str(config)]
    return snapshot_job.main([*arguments, "--fleet-dir", str(tmp_path / "out"), "--output-format", "json"])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_secured_cluster_is_read(
    broker: Cluster, keys: Path, tmp_path: Path, mechanism: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither what the job prints nor what it writes holds the password."""
    assert _run(broker, tmp_path, secure_listener.client_file(keys, mechanism)) == 0
    [folder] = tmp_path.glob("out/cluster=*/taken=*")
    summary = json.loads((folder / "snapshot.json").read_text())
    assert summary["rows"]["brokers"] == len(broker.racks)
    printed = capfd.readouterr()
    written = "".join(file.read_text() for file in folder.iterdir())
    for text in (printed.out, printed.err, written):
        assert "kw4711" not in text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_not_even_debug_logs_hold_the_password(
    broker: Cluster, keys: Path, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client library logs every request with its bytes at DEBUG."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="kafka")
    properties = client_properties.parse(secure_listener.client_file(keys, mechanism))
    kafka.snapshot(broker.secure_servers, properties=properties, progress=logging.getLogger("test").info)
    assert "Bootstrap complete" in caplog.text
    # Spark's own lines name objects by numbers of any kind.
    messages = [record.getMessage() for record in caplog.records if not record.name.startswith("py4j")]
    assert "kw4711" not in "".join(messages)
    assert "kw4711" not in repr(properties)


@pytest.mark.parametrize("client", ["quick", "slow"])
def test_a_refused_password_is_not_repeated(
    broker: Cluster,
    keys: Path,
    tmp_path: Path,
    client: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the cluster and what the broker said, without the password, soon.

    A slow client finds the broker's answer and the end of the connection in one read.
    """
    if client == "slow":
        at_once = KafkaSSLTransport._sock_recv

        def later(transport: KafkaSSLTransport) -> tuple[bytes, object]:
            time.sleep(0.2)
            return at_once(transport)  # type: ignore[no-any-return]

        monkeypatch.setattr(KafkaSSLTransport, "_sock_recv", later)
    text = secure_listener.client_file(keys, "PLAIN", "wrong-kw4711")
    assert _run(broker, tmp_path, text) == 3
    output = capfd.readouterr().err + caplog.text
    assert "kw4711" not in output
    assert "uthentication" in output
    assert not (tmp_path / "out").exists()
