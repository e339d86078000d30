"""One broker with an authorizer and every way to get in: SASL over TLS (SECURE), certificates (MUTUAL), in the clear.

Keys and stores are made by the JDK's keytool; tokens are signed here, and the broker has the public key as a JWKS file.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from kafka.admin import UserScramCredentialUpsertion

from tests.kafka.broker import Cluster
from tests.kafka.java_programs import KEYTOOL

# Every secret holds kw4711, which no UUID can hold by chance.
USER = "snapshot-reader"
PASSWORD = 'kw4711-ä=;\\ "'
STORE_PASSWORD = "store-kw4711"
KEY_PASSWORD = "key-kw4711"
CLIENT_ID, CLIENT_SECRET = "client", "secret-kw4711"
AUDIENCE, ISSUER = "kafka", "stub"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


class Keys:
    """All stores in a folder: those of the broker, of a client that it trusts, and of a stranger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, host in (("broker", "127.0.0.1"), ("client", USER), ("stranger", "stranger")):
            make = [*KEYTOOL, "-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", f"CN={host}", "-validity", "2"]
            _run(*make, *(["-ext", "SAN=ip:127.0.0.1"] if name == "broker" else []), *self._store(f"{name}.p12"))
            export = [*KEYTOOL, "-exportcert", "-rfc", "-alias", name, "-file", self.at(f"{name}.pem")]
            _run(*export, *self._store(f"{name}.p12"))
            for trust, kind in ((f"trust-{name}.p12", "PKCS12"), (f"trust-{name}.jks", "JKS")):
                put = [*KEYTOOL, "-importcert", "-noprompt", "-alias", name, "-file", self.at(f"{name}.pem")]
                _run(*put, *self._store(trust, kind))
        put = [*KEYTOOL, "-importkeystore", "-srckeystore", self.at("client.p12"), "-srcstorepass", STORE_PASSWORD]
        put += ["-alias", "client", "-deststoretype", "JKS", "-destkeystore", self.at("client.jks")]
        _run(*put, "-deststorepass", STORE_PASSWORD, "-destkeypass", KEY_PASSWORD)
        opened = pkcs12.load_pkcs12((folder / "client.p12").read_bytes(), STORE_PASSWORD.encode())
        assert opened.key is not None
        shut = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
        self.pem = (opened.key.private_bytes(*form, shut).decode(), (folder / "client.pem").read_text())
        (folder / "client-key.pem").write_text("".join(self.pem))
        self._signing = rsa.generate_private_key(65537, 2048)
        self._forged = rsa.generate_private_key(65537, 2048)
        numbers = self._signing.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig"}
        key |= {"n": _base64(numbers.n.to_bytes(256, "big")), "e": _base64(b"\x01\x00\x01")}
        (folder / "jwks.json").write_text(json.dumps({"keys": [key]}))

    def at(self, name: str) -> str:
        """Where a file of the folder is."""
        return str(self.folder / name)

    def _store(self, name: str, kind: str = "PKCS12") -> list[str]:
        return ["-keystore", self.at(name), "-storetype", kind, "-storepass", STORE_PASSWORD]

    def token(self, lives_s: int = 600, forged: bool = False) -> str:
        """A signed token for USER; `forged` with a key that the broker does not know."""
        now = int(time.time())
        claims = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now - 700, "exp": now + lives_s, "scope": "read"}
        text = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one"}, claims))
        key = self._forged if forged else self._signing
        return f"{text}.{_base64(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def create_users(cluster: Cluster, name: str, password: str, *mechanisms: str) -> None:
    """Creates the SCRAM credentials of a user."""
    users = [UserScramCredentialUpsertion(name, mechanism, password, iterations=4096) for mechanism in mechanisms]
    with cluster.admin() as admin:
        for user in users:
            admin.alter_user_scram_credentials([user])


def jvm(keys: Keys) -> list[str]:
    """Options of the broker's JVM: Kafka 4 reads keys of tokens only from where it is told that it may."""
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys.at('jwks.json')}"]


def broker_properties(keys: Keys) -> dict[str, str]:
    """Of both listeners, and of the authorizer: whoever comes in the clear may all."""
    secure, mutual = "listener.name.secure.", "listener.name.mutual."
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    tls = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": keys.at("broker.p12")}
    tls |= {"ssl.keystore.password": STORE_PASSWORD}
    trust = {"ssl.client.auth": "required", "ssl.truststore.type": "PKCS12", "ssl.truststore.password": STORE_PASSWORD}
    trust |= {"ssl.truststore.location": keys.at("trust-client.p12")}
    return {
        **{f"{listener}{key}": value for listener in (secure, mutual) for key, value in tls.items()},
        **{f"{mutual}{key}": value for key, value in trust.items()},
        f"{secure}sasl.enabled.mechanisms": ",".join(_MODULES),
        f"{secure}plain.sasl.jaas.config": f"{_MODULES['PLAIN']} required user_{USER}={_in_file(PASSWORD)};",
        f"{secure}scram-sha-256.sasl.jaas.config": f"{_MODULES['SCRAM-SHA-256']} required;",
        f"{secure}scram-sha-512.sasl.jaas.config": f"{_MODULES['SCRAM-SHA-512']} required;",
        f"{secure}oauthbearer.sasl.jaas.config": f"{_MODULES['OAUTHBEARER']} required;",
        f"{secure}oauthbearer.sasl.server.callback.handler.class": handler,
        f"{secure}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys.at('jwks.json')}",
        f"{secure}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{secure}oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,  # Kafka 4.4 insists on it
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def sasl(keys: Keys, mechanism: str, options: str) -> str:
    """A client's properties; `options` are those of the login module."""
    escaped = options.replace("\\", "\\\\")
    return (
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={_MODULES[mechanism]} required {escaped};\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={keys.at('broker.pem')}\n"
    )


def password(keys: Keys, mechanism: str, text: str = PASSWORD) -> str:
    """A client's properties for a mechanism with user name and password."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return sasl(keys, mechanism, f'username="{USER}" password="{quoted}"')


def _in_file(text: str) -> str:
    """Quoted for JAAS, then escaped for a properties file, which Java takes for Latin-1."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return quoted.replace("\\", "\\\\").encode("ascii", "backslashreplace").decode().replace("\\xe4", "\\u00e4")
