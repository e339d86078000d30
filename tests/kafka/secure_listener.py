"""A listener with TLS and SASL (PLAIN, SCRAM-SHA-512): keys by keytool, the broker's and the client's side."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kafka.java_programs import KEYTOOL

USER = "snapshot-reader"
PASSWORD = 'p@ss"w\\ord; with=everything kw4711'
_STORE_PASSWORD = "loopback-only"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def make_keys(folder: Path) -> None:
    """`broker.p12` for 127.0.0.1 and its certificate `ca.pem`."""
    store = ["-keystore", str(folder / "broker.p12"), "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD]
    make = [*KEYTOOL, "-genkeypair", "-alias", "broker", "-keyalg", "EC", "-dname", "CN=127.0.0.1"]
    subprocess.run([*make, "-ext", "SAN=ip:127.0.0.1", "-validity", "2", *store], check=True, capture_output=True)
    export = [*KEYTOOL, "-exportcert", "-rfc", "-alias", "broker", "-file", str(folder / "ca.pem")]
    subprocess.run([*export, *store], check=True, capture_output=True)


def properties(folder: Path) -> dict[str, str]:
    """The broker's properties of the listener SECURE."""
    here = "listener.name.secure."
    return {
        f"{here}ssl.keystore.type": "PKCS12",
        f"{here}ssl.keystore.location": str(folder / "broker.p12"),
        f"{here}ssl.keystore.password": _STORE_PASSWORD,
        f"{here}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{here}plain.sasl.jaas.config": f"{_MODULES['PLAIN']} required user_{USER}={_in_file(PASSWORD)};",
        f"{here}scram-sha-512.sasl.jaas.config": f"{_MODULES['SCRAM-SHA-512']} required;",
    }


def client_file(folder: Path, mechanism: str, password: str = PASSWORD) -> str:
    """A client's properties file, as its owner has it for Kafka's own tools."""
    return (
        "# reads groups and offsets\n"
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={_MODULES[mechanism]} required \\\n"
        f'    username="{USER}" \\\n'
        f"    password={_in_file(password)};\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={folder / 'ca.pem'}\n"
        "group.id=not-of-interest\n"
    )


def _in_file(password: str) -> str:
    """Quoted for JAAS, then escaped for a properties file."""
    return ('"' + password.replace("\\", "\\\\").replace('"', '\\"') + '"').replace("\\", "\\\\")
