"""IAM of Amazon MSK: signatures recorded and held against AWS's own, and a login at a stub that checks them."""

from __future__ import annotations

import base64
import datetime
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from jobs import snapshot as job
from spark_assign.sources.auth import iam as client_iam
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.auth.iam import Iam, SignedLogin
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.tables.errors import ConfigError, SourceError
from tests.unit import sasl_stub

msk = pytest.importorskip("kafka.net.sasl.msk")
auth = pytest.importorskip("botocore.auth")

ACCESS_KEY, SECRET_KEY, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI-4711", "session-4711=="
HOST = "b-1.fleet.abc123.c2.kafka.eu-west-1.amazonaws.com"
AT = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
RECORDED = "b4713d9d79999578e80920bfe2cb53ecefcd73b8ac1e9b35ad2cd44060d9b612"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials and a region of the environment, none of this machine."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


@pytest.fixture
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Fixed:
            return cls.fromtimestamp(AT.timestamp(), tz)

    monkeypatch.setattr(msk.datetime, "datetime", Fixed)


def by_aws(message: dict[str, str]) -> str:
    """The signature of a message of aws-msk-iam-auth's, by botocore."""
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    signer = auth.SigV4QueryAuth(
        Credentials(ACCESS_KEY, SECRET_KEY, message.get("x-amz-security-token")),
        "kafka-cluster",
        message["x-amz-credential"].split("/")[2],
        expires=int(message["x-amz-expires"]),
    )
    names = ["Action", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token"]
    values = {name: message[name.lower()] for name in names if name.lower() in message}
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in values.items()) + "&X-Amz-SignedHeaders=host"
    request = AWSRequest("GET", f"https://{message['host']}/?{query}", headers={"host": message["host"]})
    request.context["timestamp"] = message["x-amz-date"]
    return str(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request))


def _message(host: str, **options: Any) -> dict[str, str]:
    config = {"security_protocol": "SASL_SSL", "host": host, "sasl_oauth_token_provider": Iam(**options)}
    return dict(json.loads(SignedLogin(**config).auth_bytes()))


@pytest.mark.usefixtures("_clock")
def test_the_recorded_signature() -> None:
    """With a fixed clock and credentials; AWS's own library signs alike. The region is that of the broker's name."""
    message = _message(HOST)
    assert message["x-amz-credential"] == f"{ACCESS_KEY}/20260203/eu-west-1/kafka-cluster/aws4_request"
    assert (message["host"], message["action"], message["version"]) == (HOST, "kafka-cluster:Connect", "2020_10_22")
    assert message["x-amz-security-token"] == TOKEN
    assert message["x-amz-signature"] == RECORDED == by_aws(message)


def test_profiles_and_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """awsProfileName; AWS_REGION where the broker's name has none, then the profile's."""
    (tmp_path / "config").write_text("[profile ops]\nregion = us-east-2\n")
    (tmp_path / "credentials").write_text("[ops]\naws_access_key_id = OPS\naws_secret_access_key = ops-4711\n")
    iam = client_iam.iam({"awsProfileName": "ops", "awsDebugCreds": "true"})
    assert (iam.credentials().access_key, iam.region("broker.internal")) == ("OPS", "us-east-2")
    assert iam.region("boot-x.c1.kafka-serverless.ap-southeast-2.amazonaws.com") == "ap-southeast-2"
    assert iam.region("b-1.x.y.c2.kafka.cn-north-1.amazonaws.com.cn") == "cn-north-1"
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert iam.region("broker.internal") == "eu-north-1"
    with pytest.raises(ConfigError, match=r"awsProfileName: .*nobody"):
        client_iam.iam({"awsProfileName": "nobody"}).credentials()


def test_no_credentials_and_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to give is said."""
    with pytest.raises(ConfigError, match=r"no region in the name of broker\.internal. Set AWS_REGION"):
        Iam().region("broker.internal")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(SourceError, match=r"no AWS credentials\. Give AWS_ACCESS_KEY_ID"):
        Iam().credentials()


def test_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """awsRoleArn with its session name and external id, asked for in awsStsRegion; a refusal says what to check."""
    from botocore import session as botocore_session
    from botocore.exceptions import ClientError

    calls: list[Any] = []

    class Sts:
        def assume_role(self, **what: str) -> dict[str, Any]:
            calls.append(what)
            if what["RoleArn"] == "denied":
                raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not yours, proxy-pw"}}, "AssumeRole")
            return {"Credentials": {"AccessKeyId": "ROLE", "SecretAccessKey": "r-4711", "SessionToken": "t-4711"}}

    def client(_: Any, service: str, region_name: str) -> Sts:
        calls.append((service, region_name))
        return Sts()

    monkeypatch.setattr(botocore_session.Session, "create_client", client)
    options = {"awsRoleArn": "arn", "awsRoleSessionName": "me", "awsRoleExternalId": "x", "awsStsRegion": "eu-west-1"}
    found = client_iam.iam(options).credentials()
    assert (found.access_key, found.secret_key, found.token) == ("ROLE", "r-4711", "t-4711")
    assert calls == [("sts", "eu-west-1"), {"RoleArn": "arn", "RoleSessionName": "me", "ExternalId": "x"}]
    monkeypatch.setenv("https_proxy", "http://me:proxy-pw@h:1")  # which can repeat it
    with pytest.raises(
        SourceError, match=r"no credentials \(.*not yours, \[hidden\]\)\. Check the role, and its trust"
    ):
        client_iam.iam({"awsRoleArn": "denied", "awsStsRegion": "eu-west-1"}).credentials()


def test_the_token_of_the_signer(monkeypatch: pytest.MonkeyPatch) -> None:
    """For OAUTHBEARER with aws-msk-iam-auth's handler: AWS's signer, our credentials and region."""
    pytest.importorskip("aws_msk_iam_sasl_signer")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    token = client_settings.settings(
        client_properties.parse(
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
            "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler\n"
        )
    )["sasl_oauth_token_provider"].token()
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert url.netloc == "kafka.eu-west-1.amazonaws.com"
    assert parse_qs(url.query)["Action"] == ["kafka-cluster:Connect"]
    assert parse_qs(url.query)["X-Amz-Credential"][0].startswith(f"{ACCESS_KEY}/")


@pytest.mark.parametrize("denied", [False, True])
def test_a_snapshot_of_a_stub(
    tmp_path: Path,
    denied: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """AWS_MSK_IAM on the wire, a signature for the host that is connected to; no secret in any output, at DEBUG too."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setattr(kafka_connection, "_TURN_S", 1)  # after it the client is asked why it isn't let in
    caplog.set_level(logging.DEBUG)
    for name in ("kafka", "botocore"):
        caplog.set_level(logging.DEBUG, logger=name)

    def judge(message: bytes) -> str | None:
        message = json.loads(message)
        assert message["x-amz-signature"] == by_aws(message)
        return "Access denied" if denied else None

    with sasl_stub.serving(tmp_path, "AWS_MSK_IAM", judge) as stub:
        config = tmp_path / "msk.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
            "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
            "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'stub.pem'}\n"
        )
        arguments = ["--bootstrap-server", f"127.0.0.1:{stub.port}", "--command-config", str(config)]
        code = job.main([*arguments, "--fleet-dir", str(tmp_path / "out"), "--output-format", "json"])
    printed = capsys.readouterr()
    assert code == (3 if denied else 0), printed.err
    assert set(stub.mechanisms) == {"AWS_MSK_IAM"}
    assert ("Access denied" in caplog.text) == denied
    for secret in (SECRET_KEY, TOKEN, json.loads(stub.messages[0])["x-amz-signature"]):
        assert secret not in printed.out + printed.err + caplog.text
