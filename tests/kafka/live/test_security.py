"""Every way into a cluster, against a real broker; what is wrong is said, with its exit code and no secret."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.structs import OffsetAndMetadata

from jobs import snapshot as snapshot_job
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.kafka import cluster_snapshot as kafka
from spark_assign.sources.kafka import connection as kafka_permissions
from spark_assign.sources.kafka.records_folder import copy_records
from spark_assign.tables.errors import SourceError
from tests.docs.pages import ROOT
from tests.kafka import broker as kafka_broker
from tests.kafka import documented, guarded_cluster
from tests.kafka.broker import Cluster
from tests.kafka.guarded_cluster import CLIENT_ID, CLIENT_SECRET, KEY_PASSWORD, STORE_PASSWORD, USER, Keys
from tests.kafka.live_groups import create_topics
from tests.unit import connect_stub

pytestmark = pytest.mark.kafka

TOPICS, GROUPS = ("orders", "secret-topic"), ("readers", "secret-group")


@pytest.fixture(scope="module")
def keys(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """The stores of broker, client and stranger."""
    return Keys(tmp_path_factory.mktemp("guarded"))


@pytest.fixture(scope="module")
def guarded(kafka_jars: str, keys: Keys) -> Iterator[Cluster]:
    """One broker; its user may describe all there is."""
    properties = guarded_cluster.broker_properties(keys)
    with kafka_broker.cluster(kafka_jars, (None,), properties, True, guarded_cluster.jvm(keys)) as cluster:
        guarded_cluster.create_users(cluster, USER, guarded_cluster.PASSWORD, "SCRAM-SHA-256", "SCRAM-SHA-512")
        create_topics(cluster, dict.fromkeys(TOPICS, 2))
        for step in documented.steps("test_security", "kafka-acls.sh *"):
            documented.run_tool(step, cluster, {"User:snapshot": f"User:{USER}"})
        for group in GROUPS:
            consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group)
            consumer.assign([TopicPartition(topic, 0) for topic in TOPICS])
            consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1) for topic in TOPICS})
            consumer.close()
        yield cluster


def _acl(kind: ResourceType, name: str = "*", denied: bool = False, principal: str = USER) -> ACL:
    """DESCRIBE on something."""
    name = "kafka-cluster" if kind == ResourceType.CLUSTER else name
    type = ACLPermissionType.DENY if denied else ACLPermissionType.ALLOW
    return ACL(f"User:{principal}", "*", ACLOperation.DESCRIBE, type, ResourcePattern(kind, name))


@dataclass
class Outcome:
    """How a snapshot ended, and all that it said and wrote."""

    code: int
    output: str
    folder: Path

    def rows(self, table: str) -> list[dict[str, object]]:
        """Of a table that was written."""
        [file] = self.folder.glob(f"cluster=*/taken=*/{table}.json")
        return [json.loads(line) for line in file.read_text().splitlines()]


Snapshot = Callable[..., Outcome]


@pytest.fixture
def snapshot(tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Snapshot:
    """Runs the job with a properties file; no secret of these tests is in what it says or writes."""

    def run(servers: str, properties: str, *more: str) -> Outcome:
        config, out = tmp_path / "client.properties", tmp_path / "out"
        config.write_text(properties)
        arguments = ["--bootstrap-server", servers, "--command-config", str(config), "--output-format", "json"]
        code = snapshot_job.main([*arguments, "--fleet-dir", str(out), "--cluster-name", "guarded", *more])
        printed = capfd.readouterr()
        output = printed.out + printed.err + caplog.text
        written = "".join(file.read_text() for file in out.rglob("*") if file.is_file())
        assert "kw4711" not in output + written
        assert out.exists() == (code == 0)
        return Outcome(code, output, out)

    return run


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_passwords(guarded: Cluster, keys: Keys, snapshot: Snapshot, mechanism: str) -> None:
    """The right one reads all there is; a wrong one is refused."""
    good = snapshot(guarded.secure_servers, guarded_cluster.password(keys, mechanism))
    assert (good.code, {row["group_id"] for row in good.rows("groups")} >= set(GROUPS)) == (0, True)
    assert "DESCRIBE" not in good.output


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_wrong_passwords(guarded: Cluster, keys: Keys, snapshot: Snapshot, mechanism: str) -> None:
    """Refused at once, with the broker's words."""
    bad = snapshot(guarded.secure_servers, guarded_cluster.password(keys, mechanism, "wrong-kw4711"))
    assert bad.code == 3
    assert re.search(r"no connection \(SaslAuthenticationFailedError: .*uthentication failed", bad.output)


def _stores(keys: Keys, kind: str) -> str:
    """A client's properties for MUTUAL, with trust store and key store of a kind."""
    stores = ("ssl.truststore", "ssl.keystore")
    text = "security.protocol=SSL\n" + "".join(f"{store}.type={kind.partition(' ')[0]}\n" for store in stores)
    if kind == "PEM inline":
        trust, key, chain = (
            each.replace("\n", "\\n") for each in (keys.folder.joinpath("broker.pem").read_text(), *keys.pem)
        )
        text += f"ssl.truststore.certificates={trust}\nssl.keystore.key={key}\nssl.keystore.certificate.chain={chain}\n"
    else:
        files = {"PEM": ("broker.pem", "client-key.pem"), "PKCS12": ("trust-broker.p12", "client.p12")}
        files["JKS"] = ("trust-broker.jks", "client.jks")
        text += "".join(f"{store}.location={keys.at(file)}\n" for store, file in zip(stores, files[kind], strict=True))
    if kind in ("PKCS12", "JKS"):
        text += "".join(f"{store}.password={STORE_PASSWORD}\n" for store in stores)
    return text + (f"ssl.key.password={KEY_PASSWORD}\n" if kind != "PKCS12" else "")


@pytest.mark.parametrize("kind", ["PEM", "PEM inline", "PKCS12", "JKS"])
def test_certificates_of_clients(guarded: Cluster, keys: Keys, snapshot: Snapshot, kind: str) -> None:
    """From every kind of store; nothing is left in the folder for temporary files."""
    kinds = (ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP)
    with guarded.admin() as admin:
        admin.create_acls([_acl(each, principal=f"CN={USER}") for each in kinds])
    good = snapshot(guarded.mutual_servers, _stores(keys, kind))
    assert (good.code, {row["group_id"] for row in good.rows("groups")} >= set(GROUPS)) == (0, True)


def wrong(setting: str, password: str) -> tuple[str, str]:
    """Replaces a password; all of them begin with their kind."""
    return f"{setting}.password={password}-", f"{setting}.password=wrong-"


@pytest.mark.parametrize(
    ("kind", "change", "code", "output"),
    [
        ("PKCS12", wrong("truststore", "store"), 2, "ssl.truststore.password does not open"),
        ("PKCS12", wrong("keystore", "store"), 2, "ssl.keystore.password does not open"),
        ("JKS", wrong("truststore", "store"), 2, "ssl.truststore.password does not open"),
        ("JKS", wrong("keystore", "store"), 2, "ssl.keystore.password does not open"),
        ("JKS", wrong("key", "key"), 2, "ssl.key.password does not open"),
        ("PEM", wrong("key", "key"), 2, "ssl.key.password does not open"),
        ("PEM", ("ssl.key.password=key-kw4711", ""), 2, "the key is encrypted. Give its password in ssl.key.password"),
        ("PEM inline", wrong("key", "key"), 2, "ssl.keystore, inline: ssl.key.password does not"),
        ("PKCS12", ("client.p12", "nowhere.p12"), 2, "nowhere.p12: No such file"),
        ("PKCS12", ("client.p12", "trust-broker.p12"), 2, "expected a private key and its certificates"),
        ("PKCS12", ("client.p12", "jwks.json"), 2, "or it is neither PKCS12 nor JKS"),
        (
            "PKCS12",
            ("trust-broker.p12", "trust-stranger.p12"),
            3,
            "Name the authority of the brokers' certificates in ssl",
        ),
        ("JKS", ("trust-broker.jks", "trust-stranger.jks"), 3, "CERTIFICATE_VERIFY_FAILED"),
        ("PEM", ("broker.pem", "stranger.pem"), 3, "CERTIFICATE_VERIFY_FAILED"),
        (
            "PKCS12",
            ("client.p12", "stranger.p12"),
            3,
            "The brokers (do not trust the client's|want a client's) certificate",
        ),
        ("PKCS12", ("ssl.keystore", "x.keystore"), 3, "The brokers want a client's certificate"),
    ],
)
def test_stores_that_do_not_fit(
    guarded: Cluster, keys: Keys, snapshot: Snapshot, kind: str, change: tuple[str, str], code: int, output: str
) -> None:
    """2 where the file or its password is wrong, 3 where the other side refuses."""
    bad = snapshot(guarded.mutual_servers, _stores(keys, kind).replace(*change))
    assert (bad.code, bool(re.search(output, bad.output))) == (code, True), bad.output


def _oauth(keys: Keys, url: str, secret: str = CLIENT_SECRET, new: bool = True) -> str:
    """As of Kafka 4.1, or by options of the login module as before."""
    text = f"sasl.oauthbearer.token.endpoint.url={url}\n"
    if not new:
        return text + guarded_cluster.sasl(
            keys, "OAUTHBEARER", f'clientId="{CLIENT_ID}" clientSecret="{secret}" scope="read"'
        )
    names = "sasl.oauthbearer.client.credentials.client"
    text += f"{names}.id={CLIENT_ID}\n{names}.secret={secret}\nsasl.oauthbearer.scope=read\n"
    return text + guarded_cluster.sasl(keys, "OAUTHBEARER", 'extension_purpose="test"')


@pytest.mark.parametrize("new", [True, False], ids=["settings", "login module"])
def test_tokens_of_an_endpoint(guarded: Cluster, keys: Keys, snapshot: Snapshot, new: bool) -> None:
    """A signed token for client credentials, asked for once."""
    answer = {"access_token": keys.token(), "token_type": "Bearer", "expires_in": 600}
    with connect_stub.serving({"/token": answer}) as stub:
        good = snapshot(guarded.secure_servers, _oauth(keys, f"{stub.url}/token", new=new))
    assert (good.code, {row["group_id"] for row in good.rows("groups")} >= set(GROUPS)) == (0, True)
    assert stub.bodies == ["grant_type=client_credentials&scope=read"]
    assert [headers["Authorization"] for headers in stub.headers] == ["Basic Y2xpZW50OnNlY3JldC1rdzQ3MTE="]
    assert answer["access_token"] not in good.output


def test_not_even_debug_logs_hold_a_token(guarded: Cluster, keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    """The client library logs every request with its bytes at DEBUG; so does nobody here."""
    for name in ("", "kafka", "urllib3", "requests"):
        caplog.set_level(logging.DEBUG, logger=name)
    token = keys.token()
    with connect_stub.serving({"/token": {"access_token": token}}) as stub:
        properties = client_properties.parse(_oauth(keys, f"{stub.url}/token"))
        kafka.snapshot(guarded.secure_servers, properties=properties)
    assert "Bootstrap complete" in caplog.text
    for secret in (token, "kw4711", "Y2xpZW50OnNlY3JldC1rdzQ3MTE"):
        assert secret not in caplog.text


def test_a_token_in_a_file(guarded: Cluster, keys: Keys, snapshot: Snapshot, tmp_path: Path) -> None:
    """Of a sidecar that renews it."""
    (tmp_path / "token").write_text(f"{keys.token()}\n")
    assert snapshot(guarded.secure_servers, _oauth(keys, f"file://{tmp_path}/token")).code == 0


def test_tokens_that_are_refused(guarded: Cluster, keys: Keys, snapshot: Snapshot) -> None:
    """By the endpoint, and by the broker: expired, or signed by somebody else."""
    denied = (401, {"error": "invalid_client", "error_description": f"no such secret as {CLIENT_SECRET}"})
    answers = {
        "/denied": denied,
        "/expired": {"access_token": keys.token(-60)},
        "/forged": {"access_token": keys.token(forged=True)},
        "/none": {"id": "x"},
    }
    with connect_stub.serving(answers) as stub:
        output = {
            path: snapshot(guarded.secure_servers, _oauth(keys, f"{stub.url}{path}")) for path in (*answers, "/nowhere")
        }
    assert {path: outcome.code for path, outcome in output.items()} == dict.fromkeys(output, 3)
    assert (
        "no token (401 Unauthorized, invalid_client no such secret as [hidden]). Check the client's"
        in output["/denied"].output
    )
    assert "the answer has no access_token" in output["/none"].output
    for path in ("/expired", "/forged"):
        assert "SaslAuthenticationFailedError" in output[path].output
        assert answers[path]["access_token"] not in output[path].output  # type: ignore[index]


def test_a_mechanism_that_the_brokers_do_not_have(guarded: Cluster, keys: Keys, snapshot: Snapshot) -> None:
    """Said at once, with those that they have."""
    text = f"security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\nssl.ca.location={keys.at('broker.pem')}\n"
    bad = snapshot(guarded.secure_servers, text)
    assert bad.code == 3
    assert "UnsupportedSaslMechanism" in bad.output


@pytest.mark.parametrize(
    ("kind", "name", "output"),
    [
        (ResourceType.GROUP, "secret-group", "Grant DESCRIBE on this group"),
        (
            ResourceType.TOPIC,
            "secret-topic",
            "topics that groups own are not shown to this user, and plans treat them as deleted",
        ),
        (
            ResourceType.CLUSTER,
            "",
            "no permission DESCRIBE on the cluster: groups that this user may not describe are missing without a trace",
        ),
    ],
    ids=["group", "topic", "cluster"],
)
def test_missing_permissions(
    guarded: Cluster, keys: Keys, snapshot: Snapshot, kind: ResourceType, name: str, output: str
) -> None:
    """What is denied is named where Kafka tells it; what Kafka leaves out without a word is announced.

    docs/security.md says so in the same words.
    """
    assert output in (ROOT / "docs/security.md").read_text()
    owner = KafkaConsumer("secret-topic", bootstrap_servers=guarded.bootstrap_servers, group_id="owners")
    while not owner.assignment():
        owner.poll(timeout_ms=100)
    denied = _acl(kind, name, denied=True)
    with closing(owner), guarded.admin() as admin:
        admin.create_acls([denied])
        try:
            readings = ("--interval", "1s", "--times", "2")
            outcome = snapshot(guarded.secure_servers, guarded_cluster.password(keys, "PLAIN"), *readings)
        finally:
            admin.delete_acls([denied])
    assert outcome.code == 0
    undescribed = {row["group_id"]: row["error"] for row in outcome.rows("undescribed")}
    topics = {row["topic"] for row in outcome.rows("topics")}
    if kind == ResourceType.GROUP:
        assert output in str(undescribed["secret-group"])
    else:
        assert output in outcome.output
    assert ("secret-topic" in topics) == (kind != ResourceType.TOPIC)
    assert (kafka_permissions.NO_SIZES in outcome.output) == (kind == ResourceType.CLUSTER)
    assert {row["in_bytes_per_second"] is None for row in outcome.rows("loads") if row["group_id"] is None} == {
        kind == ResourceType.CLUSTER
    }
    assert kafka_permissions.NO_SIZES in (ROOT / "docs/security.md").read_text()


def test_permissions_of_a_history(guarded: Cluster, keys: Keys, tmp_path: Path) -> None:
    """READ on one topic is enough, as docs/security.md grants it; DESCRIBE on everything isn't."""
    describing = client_properties.parse(guarded_cluster.password(keys, "SCRAM-SHA-256"))
    with pytest.raises(SourceError, match="no permission to read __consumer_offsets"):
        copy_records(guarded.secure_servers, "c", tmp_path, properties=describing)
    guarded_cluster.create_users(guarded, "history", "history-secret", "SCRAM-SHA-256")
    login = 'username="history" password="history-secret"'
    reading = client_properties.parse(guarded_cluster.sasl(keys, "SCRAM-SHA-256", login))
    assert copy_records(guarded.secure_servers, "c", tmp_path, properties=reading) > 0


def test_the_command_of_the_page(guarded: Cluster, keys: Keys, tmp_path: Path) -> None:
    """docs/security.md: the job with --command-config."""
    file, out = tmp_path / "client.properties", tmp_path / "fleet"
    file.write_text(guarded_cluster.password(keys, "SCRAM-SHA-512"))
    for step in documented.steps("test_security", "./spark-* snapshot *"):
        instead = {"broker-1:9093": guarded.secure_servers, "client.properties": str(file), "./fleet": str(out)}
        documented.run_job(step, guarded, instead)
    assert list(out.glob("cluster=*/taken=*/snapshot.json"))
