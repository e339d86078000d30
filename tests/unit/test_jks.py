"""Key stores in JKS that keytool made: what they hold, and one clear error for each way in which one is damaged."""

from __future__ import annotations

import base64
import json
import ssl
from hashlib import sha1
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from spark_assign.sources.auth import tls
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.tls import DamagedStoreError, JavaKeyStore, WrongPasswordError
from spark_assign.tables.errors import ConfigError

RECORDED = json.loads(Path(__file__).with_name("jks_stores.json").read_text(encoding="utf-8"))
STORE_PASSWORD, KEY_PASSWORD = "störe-4711", "kéy-€-4711"
SIZES = {"client": 1271, "mixed": 926, "trust": 791}


def content(name: str) -> bytes:
    """The bytes of a recorded store."""
    return base64.b64decode(RECORDED[name])


def subjects(certificates: tuple[bytes, ...]) -> list[str]:
    """The subject of each certificate."""
    return [x509.load_der_x509_certificate(der).subject.rfc4514_string() for der in certificates]


def signed(body: bytes) -> bytes:
    """A store with the right digest for a changed body."""
    return body + sha1(STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def with_key(protected: bytes) -> bytes:
    """The client's store with another protected key."""
    [key] = tls.read(content("client"), STORE_PASSWORD).keys
    old, new = (len(each).to_bytes(4) + each for each in (key.protected, protected))
    body = content("client")[:-20]
    assert body.count(old) == 1
    return signed(body.replace(old, new))


def fault(content: bytes, path: Path, store: str = "keystore", password: str = STORE_PASSWORD) -> str:
    """What a client is said of a file that is its key store or trust store; no secret is in it."""
    path.write_bytes(content)
    properties = {f"ssl.{store}.{name}": value for name, value in {"location": str(path), "password": password}.items()}
    with pytest.raises(ConfigError) as raised:
        client_tls.context(client_tls.tls({**properties, "ssl.key.password": KEY_PASSWORD}))
    message = str(raised.value)
    assert message.startswith(f"ssl.{store}.location {path}: ")
    assert "4711" not in message
    assert "\n" not in message
    return message.removeprefix(f"ssl.{store}.location {path}: ")


def test_a_trust_store() -> None:
    """Its certificates, in the order of the file; without a password, too, as in Java."""
    opened = tls.read(content("trust"), STORE_PASSWORD)
    assert sorted(subjects(opened.certificates)) == ["CN=middle", "CN=root"]
    assert opened.keys == ()
    assert tls.read(content("trust"), None) == opened


def test_a_key_with_a_password_of_its_own_and_a_chain_of_three() -> None:
    """The key belongs to the first certificate."""
    opened = tls.read(content("client"), STORE_PASSWORD)
    [key] = opened.keys
    assert opened.certificates == ()
    assert subjects(key.chain) == ["CN=client", "CN=middle", "CN=root"]
    private = serialization.load_der_private_key(tls.unprotect(key.protected, KEY_PASSWORD), None)
    assert private.public_key() == x509.load_der_x509_certificate(key.chain[0]).public_key()


def test_a_key_with_the_password_of_the_store(tmp_path: Path) -> None:
    """Both kinds of entry in one store; a client trusts the certificate of the key, too."""
    opened = tls.read(content("mixed"), STORE_PASSWORD)
    assert (len(opened.keys), subjects(opened.certificates)) == (1, ["CN=middle"])
    (tmp_path / "mixed.jks").write_bytes(content("mixed"))
    properties = {
        f"ssl.{store}.{name}": value
        for store in ("keystore", "truststore")
        for name, value in (("location", str(tmp_path / "mixed.jks")), ("password", STORE_PASSWORD))
    }
    assert client_tls.context(client_tls.tls(properties)).cert_store_stats()["x509"] == 2


def test_a_client_with_a_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is opened by `ssl.key.password`, and all certificates of its chain are presented."""
    presented: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def count(self: ssl.SSLContext, certfile: str, **rest: str) -> None:
        presented.append(Path(certfile).read_text().count("BEGIN CERTIFICATE"))
        load(self, certfile, **rest)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", count)
    (tmp_path / "client.jks").write_bytes(content("client"))
    keys = {"location": str(tmp_path / "client.jks"), "password": STORE_PASSWORD}
    properties = {f"ssl.keystore.{name}": value for name, value in keys.items()}
    client_tls.context(client_tls.tls({**properties, "ssl.key.password": KEY_PASSWORD}))
    assert presented == [3]


@pytest.mark.parametrize("name", SIZES)
def test_a_store_that_is_cut_short(name: str, tmp_path: Path) -> None:
    """At whatever byte: one error. Before the first four bytes are there, nobody knows that it is JKS."""
    whole = content(name)
    assert len(whole) == SIZES[name]
    store = "truststore" if name == "trust" else "keystore"
    for size in range(len(whole)):
        with pytest.raises(DamagedStoreError):
            tls.read(whole[:size], STORE_PASSWORD)
        with pytest.raises(DamagedStoreError):
            tls.read(whole[:size], None)
    for size in (0, 3, 4, 12, 100, len(whole) - 21, len(whole) - 1):
        message = fault(whole[:size], tmp_path / "short.jks", store)
        assert message.startswith(
            "the store ends too early" if size >= 4 else f"ssl.{store}.password does not open it, or it is neither"
        ), (size, message)


@pytest.mark.parametrize("name", SIZES)
def test_a_byte_that_was_changed(name: str) -> None:
    """Wherever it is, the digest finds it, if the layout has not."""
    whole = content(name)
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]
        with pytest.raises((DamagedStoreError, WrongPasswordError)):
            tls.read(changed, STORE_PASSWORD)


def test_wrong_passwords(tmp_path: Path) -> None:
    """Of the store, and of the key in it; a byte of the digest that was changed reads the same."""
    file, whole = tmp_path / "client.jks", content("client")
    wrong_store = "ssl.keystore.password does not open it, or it is damaged"
    assert fault(whole, file, password="wrong-4711") == wrong_store
    assert fault(whole[:-1] + bytes([whole[-1] ^ 1]), file) == wrong_store
    assert fault(content("trust"), file, "truststore", "wrong") == wrong_store.replace("keystore", "truststore")
    assert fault(content("mixed"), file) == "ssl.key.password does not open its key"
    [key] = tls.read(whole, STORE_PASSWORD).keys
    with pytest.raises(WrongPasswordError):
        tls.unprotect(key.protected, STORE_PASSWORD)


def test_a_key_that_is_damaged(tmp_path: Path) -> None:
    """In a store whose digest is right: cut short, of another algorithm, no DER, and a byte that was changed."""
    [key] = tls.read(content("client"), STORE_PASSWORD).keys
    whole = key.protected
    for size in range(len(whole)):
        with pytest.raises(DamagedStoreError):
            tls.unprotect(whole[:size], KEY_PASSWORD)
    file = tmp_path / "client.jks"
    assert fault(with_key(whole[:-1]), file) == "the store ends too early"
    other = whole.replace(bytes.fromhex("2a02110101"), bytes.fromhex("2a02130101"))
    assert fault(with_key(other), file) == "the key is protected by an algorithm that JKS doesn't have"
    assert fault(with_key(b"key" + whole), file) == "expected a protected key in DER"
    assert fault(with_key(whole[:-1] + b"\0"), file) == "ssl.key.password does not open its key"


def test_what_is_not_jks(tmp_path: Path) -> None:
    """Another version, a kind of entry that JKS does not have, JCEKS, and certificates that are none."""
    body, file = content("client")[:-20], tmp_path / "client.jks"
    assert fault(signed(body[:7] + b"\1" + body[8:]), file) == "expected JKS of version 2"
    found = fault(signed(body[:15] + b"\3" + body[16:]), file)
    assert found == ("expected a private key (1) or a certificate (2), found an entry of kind 3")
    assert fault(b"\xce\xce\xce\xce" + body[4:], file).startswith(
        "it is JCEKS, which cannot be read. Convert it: keytool"
    )
    [key] = tls.read(content("client"), STORE_PASSWORD).keys
    no_certificate = signed(body.replace(key.chain[0], bytes(len(key.chain[0]))))
    assert fault(no_certificate, file) == "expected a private key and X.509 certificates"


def test_a_store_with_nothing_in_it(tmp_path: Path) -> None:
    """It can be read, and is of no use to a client."""
    empty = signed(tls.MAGIC + (2).to_bytes(4) + (0).to_bytes(4))
    assert tls.read(empty, STORE_PASSWORD) == JavaKeyStore((), ())
    file = tmp_path / "empty.jks"
    assert fault(empty, file, "truststore") == "no certificate in it"
    assert fault(empty, file).startswith("expected a private key and its certificates")
