"""A Java client's properties file: how it is read, what is refused, and that no secret shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_assign.errors import ConfigError
from spark_assign.sources import client_properties

SCRAM = """
# comment
! comment
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="ann" password="s3;cr=t \\"x";
ssl.truststore.type PEM
ssl.truststore.location=/etc/kafka/ca.pem
request.timeout.ms=5000
key.deserializer=org.example.Whatever
"""


def test_a_scram_file() -> None:
    """Comments, every separator, a continued line, quotes inside JAAS quotes; other keys are passed over."""
    text = SCRAM.replace('\\"x', '\\\\"x')  # in a properties file a backslash is written twice
    assert client_properties.settings(client_properties.parse(text)) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": 's3;cr=t "x',
        "ssl_cafile": "/etc/kafka/ca.pem",
        "request_timeout_ms": 5000,
    }


def test_librdkafka_names() -> None:
    """sasl.username, sasl.password, ssl.*.location."""
    text = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p w\nssl.ca.location=ca"
    found = client_properties.settings(client_properties.parse(text))
    assert (found["sasl_plain_username"], found["sasl_plain_password"], found["ssl_cafile"]) == ("u", "p w", "ca")


def test_mutual_tls() -> None:
    """One PEM file with key and certificates, no host name check where Java has it off."""
    text = (
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=client.pem\n"
        "ssl.key.password=hush\nssl.endpoint.identification.algorithm=\n"
    )
    assert client_properties.settings(client_properties.parse(text)) == {
        "security_protocol": "SSL",
        "ssl_certfile": "client.pem",
        "ssl_keyfile": "client.pem",
        "ssl_password": "hush",
        "ssl_check_hostname": False,
    }


def test_secrets_do_not_show() -> None:
    """Neither in the properties' repr nor in the settings'; a message loses them."""
    properties = client_properties.parse(SCRAM)
    settings = client_properties.settings(properties)
    assert "s3;cr" not in repr(properties) + repr(settings)
    secret = settings["sasl_plain_password"]
    assert client_properties.hidden(f"refused: {secret}!", settings) == "refused: [hidden]!"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("security.protocol=TLS", "security.protocol: expected one of PLAINTEXT"),
        ("security.protocol=SASL_SSL", "sasl.mechanism: expected one of PLAIN"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "sasl.mechanism: expected"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.password=hush", "sasl.jaas.config: PLAIN needs"),
        ("ssl.truststore.location=/etc/truststore.jks", "ssl.truststore.type: expected PEM, found JKS"),
        ("ssl.keystore.key=hush", "ssl.keystore.key: expected a PEM file"),
        ("request.timeout.ms=hush", "request.timeout.ms: expected a number"),
    ],
)
def test_what_cannot_be_honoured(text: str, message: str) -> None:
    """The error names the key and what was expected, never a value that may be secret."""
    with pytest.raises(ConfigError, match=message) as raised:
        client_properties.settings(client_properties.parse(text))
    assert "hush" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """Names the file."""
    with pytest.raises(ConfigError, match=r"client properties .*nowhere"):
        client_properties.read(tmp_path / "nowhere")
