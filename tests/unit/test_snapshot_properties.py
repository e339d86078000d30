"""A Java client's properties file: what its settings mean, what is refused, and that no secret shows."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spark_assign.sources import auth
from spark_assign.sources.auth import properties as client_jaas
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.properties import Login
from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.sources.auth.tls import Store, Tls
from spark_assign.tables.errors import ConfigError
from tests.cases import cases

SCRAM = """
# comment
! comment
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="ann" password="s3;cr=t \\\\"x";
ssl.truststore.type PEM
ssl.truststore.location=/etc/kafka/ca.pem
request.timeout.ms=5000
key.deserializer=org.example.Whatever
"""


@pytest.fixture(autouse=True)
def _stores_stay_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tls, "context", lambda tls: tls)


def _settings(text: str) -> dict[str, Any]:
    return client_settings.settings(client_properties.parse(text))


def test_a_scram_file() -> None:
    """Comments, every separator, a continued line, quotes inside JAAS quotes; other keys are passed over."""
    assert _settings(SCRAM) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": 's3;cr=t "x',
        "ssl_context": Tls(Store("ssl.truststore", "PEM", "/etc/kafka/ca.pem")),
        "request_timeout_ms": 5000,
        "secrets": ('s3;cr=t "x',),
    }


def test_a_file_with_a_key_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The last value counts, as in Java, with a warning; and what is wrong names the file."""
    file = tmp_path / "client.properties"
    file.write_text("client.id=a\nrequest.timeout.ms=\\\n  soon\nclient.id=b\n")
    properties = client_properties.read(file)
    assert properties["client.id"] == "b"
    assert f"{file}: the key of line 4 isn't new" in caplog.text
    with pytest.raises(ConfigError, match=f"client properties {file}: request.timeout.ms: expected a number"):
        client_settings.settings(properties)
    file.write_bytes(b"#" * (1 << 20) + b"x")
    with pytest.raises(ConfigError, match=f"{file}: has more than 1,048,576 bytes"):
        client_properties.read(file)


def test_a_value_of_a_hundred_thousand_lines() -> None:
    """In linear time."""
    started = time.process_time()
    assert client_properties.parse("a=b\\\n" + " x\\\n" * 100_000) == {"a": "b" + "x" * 100_000}
    assert time.process_time() - started < 5


def test_librdkafka_names() -> None:
    """sasl.mechanisms, sasl.username, sasl.password, ssl.*.location."""
    text = "security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password=p w\nssl.ca.location=ca"
    found = _settings(text)
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("u", "p w")
    assert found["ssl_context"].trust == Store("ssl.ca", "PEM", "ca")


def test_mutual_tls() -> None:
    """One PEM file with key and certificates, no host name check where Java has it off; the versions that are named."""
    assert _settings(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=client.pem\n"
        "ssl.key.password=hush\nssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.3\n"
    ) == {
        "security_protocol": "SSL",
        "ssl_context": Tls(None, Store("ssl.keystore", "PEM", "client.pem"), Secret("hush"), False, ("TLSv1.3",)),
        "secrets": ("hush",),
    }


def test_secrets_do_not_show() -> None:
    """Neither in the properties' repr nor in the settings'; a message loses them, the longest first."""
    properties = client_properties.parse(SCRAM)
    settings = client_settings.settings(properties)
    assert "s3;cr" not in repr(properties) + repr(settings)
    secret = settings["sasl_plain_password"]
    assert hidden(f"refused: {secret}!", [*settings["secrets"], *settings.values()]) == "refused: [hidden]!"
    assert hidden("abcd", [Secret("bc"), Secret("abc"), "d"]) == "[hidden]d"
    for key in ("sasl.oauthbearer.client.credentials.client.secret", "ssl.keystore.password", "ssl.key.pem"):
        assert client_settings.settings({key: "hush"})["secrets"] == ("hush",), key


def test_half_a_surrogate_pair_is_sent_as_java_sends_it() -> None:
    """As a question mark; the pair as the one character that it is."""
    found = _settings(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=a\\ud83d\\u0021"
    )
    assert found["sasl_plain_password"].encode() == b"a?!"
    found = _settings("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=\\ud83d\\ude00")
    assert found["sasl_plain_password"] == "\U0001f600"


@cases(
    "config options",
    ("org.x.M required;", {}),
    ("org.x.M required a=\"b\" c='d';", {"a": "b", "c": "d"}),
    ('M required a = "b;=c" ;', {"a": "b;=c"}),
    (r'M required a="\"\\\t\101\e";', {"a": '"\\\tAe'}),
    ('M required // why\n a="//b" /* and\n c="d" */ e=f;', {"a": "//b", "e": "f"}),
    ('M required a="";', {"a": ""}),
)
def test_login_modules(config: str, options: dict[str, str]) -> None:
    """As Java's StreamTokenizer reads them: either quotation mark, escapes, comments."""
    assert client_jaas.parse_login(config) == Login("M", {name: Secret(text) for name, text in options.items()})


@cases(
    "config message",
    ('M required password="hush"', "expected a semicolon at the end"),
    ('M required password="hush;', "a quotation mark is not closed"),
    ('M required password="hush"; N required;', "expected one login module"),
    ('M password="hush";', "expected a login module's class and `required`"),
    ("M required password=hush=1;", 'expected options as name="value"'),
    ("M required password;", 'expected options as name="value"'),
    (";", "expected a login module's class"),
)
def test_login_modules_that_make_no_sense(config: str, message: str) -> None:
    """Nothing of them is repeated."""
    with pytest.raises(ConfigError, match=message) as raised:
        client_jaas.parse_login(config)
    assert "hush" not in str(raised.value)


SASL = "security.protocol=SASL_SSL\nsasl.mechanism="
OAUTH = SASL + "OAUTHBEARER\n"


@cases(
    "text message",
    ("security.protocol=TLS", "security.protocol: expected one of PLAINTEXT"),
    ("security.protocol=SASL_SSL", "sasl.mechanism: expected one of PLAIN"),
    (SASL + "DIGEST-MD5", "sasl.mechanism: expected one of PLAIN"),
    (SASL + "PLAIN\nsasl.password=hush", "sasl.jaas.config: PLAIN needs"),
    (SASL + "GSSAPI\nsasl.jaas.config=x.Krb5LoginModule required useKeyTab=true;", "useKeyTab: .*kinit"),
    (SASL + 'AWS_MSK_IAM\nsasl.jaas.config=x.IAMLoginModule required foo="hush";', "foo: IAMLoginModule's options"),
    (SASL + 'AWS_MSK_IAM\nsasl.jaas.config=x.PlainLoginModule required password="hush";', "IAMLoginModule required;"),
    ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=AWS_MSK_IAM", "AWS_MSK_IAM needs SASL_SSL"),
    (OAUTH, "sasl.oauthbearer.token.endpoint.url: expected the URL"),
    (OAUTH + "sasl.oauthbearer.token.endpoint.url=https://x:hush@idp/", "a password does not belong into the URL"),
    (OAUTH + "sasl.oauthbearer.token.endpoint.url=https://idp/", "needs sasl.oauthbearer.client.credentials"),
    (OAUTH + "sasl.oauthbearer.assertion.private.key.file=/hush", "assertions are not supported. Give client.c"),
    (OAUTH + "sasl.oauthbearer.jwt.retriever.class=x.JwtBearerJwtRetriever", "retriever.class: expected one of D"),
    (OAUTH + 'sasl.jaas.config=M required unsecuredLoginStringClaim_sub="hush";', "Put one into a file"),
    (OAUTH + "sasl.login.callback.handler.class=org.example.Hush", "names a class of Java"),
    ("ssl.engine.factory.class=x.Y", "ssl.engine.factory.class: names a class of Java"),
    ("ssl.cipher.suites=TLS_AES_128_GCM_SHA256", "ssl.cipher.suites: .*Take it out"),
    ("enable.ssl.certificate.verification=false", "certificates are always verified"),
    ("ssl.trustore.location=hush", "no setting of Kafka's clients. Did you mean ssl.truststore.location"),
    ("ssl.truststore.location=/etc/trust.bks\nssl.truststore.type=BKS", "expected one of PEM, PKCS12, JKS, found BKS"),
    ("ssl.keystore.key=hush", "ssl.keystore.key and ssl.keystore.certificate.chain: give both"),
    ("ssl.keystore.key=hush\nssl.keystore.certificate.chain=c", "ssl.keystore.key: needs ssl.keystore.type=PEM"),
    ("ssl.truststore.location=x\nssl.truststore.type=PEM\nssl.truststore.password=hush", "password: not for PEM"),
    ("ssl.enabled.protocols=SSLv3", "ssl.enabled.protocols: expected some of TLSv1.2, TLSv1.3"),
    ("request.timeout.ms=hush", "request.timeout.ms: expected a number"),
)
def test_what_cannot_be_honoured(text: str, message: str) -> None:
    """The error names the key and what was expected, never a value that may be secret."""
    with pytest.raises(ConfigError, match=message) as raised:
        _settings(text)
    assert "hush" not in str(raised.value)


def test_what_kafka_would_pass_over() -> None:
    """A broker's settings among the client's, and settings of classes that are not used."""
    text = "ssl.client.auth=required\nsasl.enabled.mechanisms=PLAIN\nenable.ssl.certificate.verification=true\n"
    assert _settings(text) == {"security_protocol": "PLAINTEXT", "secrets": ()}


def test_a_missing_file(tmp_path: Path) -> None:
    """Names the file."""
    with pytest.raises(ConfigError, match=r"client properties .*nowhere: No such file"):
        client_properties.read(tmp_path / "nowhere")


def test_encodings_of_a_file(tmp_path: Path) -> None:
    """UTF-8, with a byte order mark or without; what is none is Latin-1, which is what Java takes bytes for."""
    file = tmp_path / "client.properties"
    for content in ("\ufeffsasl.password=ä".encode(), "sasl.password=ä".encode(), "sasl.password=ä".encode("latin-1")):
        file.write_bytes(content)
        assert client_properties.read(file) == {"sasl.password": "ä"}


def test_a_malformed_escape(tmp_path: Path) -> None:
    """Java refuses it, too; file and line are named, what stands there is not."""
    file = tmp_path / "client.properties"
    file.write_text("\\\na=1\nb=2\\\n  3\nsasl.password=\\uhush\n")
    with pytest.raises(ConfigError, match=r"client.properties: line 5: expected four hexadecimal digits") as raised:
        client_properties.read(file)
    assert "hus" not in str(raised.value)


@cases(
    "library text extra",
    ("javaproperties", "", "kafka"),
    ("cryptography", "security.protocol=SSL\nssl.ca.location=ca.pem", "kafka"),
    (
        "requests",
        OAUTH + "sasl.oauthbearer.token.endpoint.url=http://idp/\nsasl.oauthbearer.client.id=i\n"
        "sasl.oauthbearer.client.secret=s",
        "kafka",
    ),
    ("botocore.session", SASL + "AWS_MSK_IAM", "msk"),
)
def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch, library: str, text: str, extra: str) -> None:
    """The error names the extra that brings it."""
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, "spark_assign.sources.auth.http_session", raising=False)
    monkeypatch.delattr(auth, "http_session", raising=False)
    for engine in ("spark", "embedded"):
        monkeypatch.setenv("SPARK_ASSIGN_ENGINE", engine)
        remedy = rf"--set-up {engine},{extra} in a clone, or pip install \'\.\[{extra}\]\'"
        with pytest.raises(ConfigError, match=remedy):
            _first_token(text)


def _first_token(text: str) -> None:
    _settings(text)["sasl_oauth_token_provider"].token()


def test_a_property_without_a_line_end_is_not_repeated() -> None:
    """The value then has the next property, with its password."""
    for key in ("security.protocol", "sasl.mechanism"):
        given = {"security.protocol": "SASL_SSL", key: 'SCRAM sasl.jaas.config=X required password="secret-7";'}
        with pytest.raises(ConfigError, match=f"{key}: expected one of") as raised:
            client_settings.settings(given)
        assert "secret-7" not in str(raised.value)
