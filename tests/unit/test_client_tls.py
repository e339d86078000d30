"""TLS of a client's properties: what opens, what is trusted, and that a key is in no file that anybody can read."""

from __future__ import annotations

import base64
import datetime
import os
import ssl
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.connect.http_settings import HttpSettings
from spark_assign.tables.errors import ConfigError
from tests.cases import cases

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
SHUT = serialization.BestAvailableEncryption(b"hush")


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    """A key."""
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Its certificate, by itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    return made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[tuple[int, str]]]:
    """Mode and text of each file that keys are loaded from; none is left at the end."""
    found: list[tuple[int, str]] = []
    load = ssl.SSLContext.load_cert_chain

    def seen(self: ssl.SSLContext, certfile: str, **rest: Any) -> None:
        found.append((stat.S_IMODE(Path(certfile).stat().st_mode), Path(certfile).read_text()))
        load(self, certfile, **rest)

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", seen)
    yield found
    assert list((tmp_path / "temporary").iterdir()) == []


def _context(**properties: str) -> ssl.SSLContext:
    return client_tls.context(client_tls.tls({name.replace("_", "."): text for name, text in properties.items()}))


def _text(key: Any, form: Any, encryption: Any) -> str:
    return str(key.private_bytes(PEM, form, encryption).decode())


@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
@pytest.mark.parametrize("shut", [True, False], ids=["encrypted", "open"])
def test_keys_in_pem(
    key: Any, certificate: x509.Certificate, form: str, shut: bool, loaded: list[tuple[int, str]], tmp_path: Path
) -> None:
    """In every form; what is written on the way is encrypted, for this user alone, and gone at the end."""
    text = (
        _text(key, getattr(serialization.PrivateFormat, form), SHUT if shut else serialization.NoEncryption())
        + certificate.public_bytes(PEM).decode()
    )
    file = tmp_path / "client.pem"
    file.write_text(text)
    _context(ssl_keystore_type="PEM", ssl_keystore_location=str(file), ssl_key_password="hush")
    ((mode, written),) = loaded
    assert mode == 0o600
    assert "BEGIN ENCRYPTED PRIVATE KEY" in written


def test_pem_within_the_properties(key: Any, certificate: x509.Certificate, loaded: list[tuple[int, str]]) -> None:
    """With line ends, or continued lines that left blanks or nothing between."""
    chain = certificate.public_bytes(PEM).decode()
    private = _text(key, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for between in ("\n", " ", ""):
        _context(
            ssl_keystore_type="PEM",
            ssl_keystore_key=private.replace("\n", between),
            ssl_keystore_certificate_chain=chain.replace("\n", between),
            ssl_truststore_type="PEM",
            ssl_truststore_certificates=chain.replace("\n", between),
        )
    assert len(loaded) == 3


def test_files_as_librdkafka_names_them(
    key: Any, certificate: x509.Certificate, loaded: list[tuple[int, str]], tmp_path: Path
) -> None:
    """ssl.key.location and ssl.certificate.location, ssl.ca.location."""
    (tmp_path / "key").write_text(_text(key, serialization.PrivateFormat.PKCS8, SHUT))
    (tmp_path / "cert").write_bytes(certificate.public_bytes(PEM))
    files = {f"ssl_{name}_location": str(tmp_path / file) for name, file in (("key", "key"), ("certificate", "cert"))}
    made = _context(**files, ssl_ca_location=str(tmp_path / "cert"), ssl_key_password="hush")
    assert made.cert_store_stats()["x509"] == 1
    assert len(loaded) == 1


def test_pkcs12_whatever_the_type_says(
    key: Any, certificate: x509.Certificate, loaded: list[tuple[int, str]], tmp_path: Path
) -> None:
    """As Java's key stores do. A trust store's certificates are trusted, those of others than authorities too."""
    file = tmp_path / "client.store"
    store = pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, SHUT)
    file.write_bytes(store + b"\0")  # a byte too many, of which the library warns
    for kind in ("PKCS12", "JKS"):
        names = {"location": str(file), "password": "hush", "type": kind}
        made = _context(**{f"ssl_{s}_{name}": text for s in ("keystore", "truststore") for name, text in names.items()})
        assert made.cert_store_stats()["x509"] == 1
        assert made.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert len(loaded) == 2


@pytest.mark.parametrize("before", [b"", b"\x30\x80", b"\x04\x82\x00\x20\x30\x1e"])
def test_iterations_without_end(before: bytes, tmp_path: Path) -> None:
    """2^31 would take minutes, in which the process can't be interrupted: in a store, or in an encrypted key."""
    der = before + b"\x04\x08saltsalt\x02\x04\x7f\xff\xff\xff"
    message = "2,147,483,647 iterations to derive its keys, and at most 20,000,000"
    (tmp_path / "store").write_bytes(b"\x30" + bytes([len(der)]) + der)
    with pytest.raises(ConfigError, match=message):
        _context(ssl_truststore_location=str(tmp_path / "store"), ssl_truststore_password="hush")
    begin, end = (f"-----{word} ENCRYPTED PRIVATE KEY-----" for word in ("BEGIN", "END"))
    (tmp_path / "key").write_text(f"{begin}\n{base64.b64encode(der).decode()}\n{end}\n")
    with pytest.raises(ConfigError, match=message):
        _context(ssl_keystore_location=str(tmp_path / "key"), ssl_keystore_type="PEM", ssl_key_password="hush")


def test_what_is_checked() -> None:
    """Host names and TLS 1.2 or newer, by default; the system's certificates."""
    made = _context()
    assert (made.check_hostname, made.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    less = _context(ssl_endpoint_identification_algorithm="", ssl_enabled_protocols="TLSv1.2")
    assert (less.check_hostname, less.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert less.maximum_version == ssl.TLSVersion.TLSv1_2
    assert _context(ssl_enabled_protocols="TLSv1.3").minimum_version == ssl.TLSVersion.TLSv1_3


def test_a_key_that_is_not_the_certificates(certificate: x509.Certificate, loaded: list[tuple[int, str]]) -> None:
    """Said before anybody is asked."""
    other = _text(
        ec.generate_private_key(ec.SECP256R1()), serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = certificate.public_bytes(PEM).decode()
    with pytest.raises(ConfigError, match="key and certificate do not belong together"):
        _context(ssl_keystore_type="PEM", ssl_keystore_key=other, ssl_keystore_certificate_chain=chain)


def test_files_without_end(tmp_path: Path) -> None:
    """A device or a pipe is no store."""
    os.mkfifo(tmp_path / "pipe")
    for name, settings in (
        ("location /dev/zero", {"ssl_truststore_location": "/dev/zero"}),
        ("location .*pipe", {"ssl_keystore_location": str(tmp_path / "pipe")}),
    ):
        with pytest.raises(ConfigError, match=f"{name}: is a pipe or a device"):
            _context(**settings)
    with pytest.raises(ConfigError, match=r"--connect-ca /dev/zero: .*is a pipe or a device"):
        HttpSettings(ca_file="/dev/zero").tls_context()


@cases(
    "store text message",
    ("truststore", "nothing", "no certificate in it"),
    ("truststore", "-----BEGIN CERTIFICATE-----\nhush\n-----END CERTIFICATE-----", "expected certificates in PEM"),
    ("keystore", "nothing", "expected a private key and its certificates"),
    ("keystore", "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----", "or it isn't a PEM key"),
)
def test_files_with_something_else_in_them(tmp_path: Path, store: str, text: str, message: str) -> None:
    """Named, and nothing of what is in them."""
    file = tmp_path / "file.pem"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"^ssl\.{store}\.location .*file\.pem: .*{message}") as error:
        _context(**{f"ssl_{store}_type": "PEM", f"ssl_{store}_location": str(file)})
    assert "hush" not in str(error.value)
