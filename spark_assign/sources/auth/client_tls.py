"""TLS as a Java client's `ssl.` properties describe it: PEM (files or inline), PKCS12 and JKS, as one SSLContext.

What Kafka's DefaultSslEngineFactory does. A store's type counts for PEM only: PKCS12 and JKS are told apart by their
first bytes, as Java's own key stores do.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_assign.sources.auth import jks
from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_JCEKS = b"\xce\xce\xce\xce"
_TYPES = ("PEM", "PKCS12", "JKS")
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True)
class Store:
    """Where certificates or a key come from. `place` is what its keys begin with: ssl.truststore or ssl.keystore."""

    place: str
    type: str
    location: str | None = None
    password: Secret | None = None
    inline: Secret | None = None
    """PEM text in place of a file: certificates, and the key of a key store."""
    key_location: str | None = None
    """Where the key has a file of its own, as in librdkafka."""


@dataclass(frozen=True)
class Tls:
    """What the properties say of TLS; nothing is opened before `context`."""

    trust: Store | None = None
    """None trusts what the system trusts."""
    key: Store | None = None
    key_password: Secret | None = None
    check_host_name: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


def tls(properties: Mapping[str, str]) -> Tls:
    """The settings of Java's names, and librdkafka's. Raises ConfigError for what cannot be honoured."""
    return Tls(
        _trust_store(properties),
        _key_store(properties),
        _secret(properties, "ssl.key.password"),
        properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
        _versions(properties),
    )


def context(settings: Tls, authority: str | None = None) -> ssl.SSLContext:
    """Opens the stores. Raises ConfigError that names the store's keys: no file, a wrong password, nothing in it.

    `authority` is a further PEM file with certificates to trust, in place of a trust store.
    """
    if settings.trust is not None or settings.key is not None:
        try:
            import cryptography  # noqa: F401
        except ImportError as error:
            raise missing_extra("certificates need cryptography", "kafka") from error
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = settings.check_host_name
    made.minimum_version = min(_VERSIONS[version] for version in settings.versions)
    made.maximum_version = max(_VERSIONS[version] for version in settings.versions)
    # Java takes every certificate of a trust store for an anchor, those of other authorities and of servers too.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if authority is not None:
        made.load_verify_locations(authority)
    elif settings.trust is not None:
        made.load_verify_locations(cadata=_pem(*_trusted(settings.trust)))
    else:
        made.load_default_certs()
    if settings.key is not None:
        _load(made, *_own(settings.key, settings.key_password))
    return made


def _trust_store(properties: Mapping[str, str]) -> Store | None:
    place = "ssl.truststore"
    for pem in ("ssl.ca.location", "ssl.ca.pem"):
        if properties.get(pem):
            inline = Secret(properties[pem]) if pem == "ssl.ca.pem" else None
            return Store("ssl.ca", "PEM", None if inline else properties[pem].strip(), inline=inline)
    return _store(properties, place, _secret(properties, f"{place}.certificates"), f"{place}.certificates")


def _key_store(properties: Mapping[str, str]) -> Store | None:
    place = "ssl.keystore"
    files = [properties.get(f"ssl.{part}.location", "").strip() for part in ("key", "certificate")]
    texts = [properties.get(f"ssl.{part}.pem", "") for part in ("key", "certificate")]
    if any(files):
        key_file, chain_file = files
        return Store(
            "ssl.certificate", "PEM", chain_file or key_file, key_location=key_file if chain_file and key_file else None
        )
    if any(texts):
        return Store("ssl.key", "PEM", inline=Secret("\n".join(texts)))
    key, chain = (properties.get(f"{place}.{part}", "") for part in ("key", "certificate.chain"))
    if bool(key) != bool(chain):
        raise ConfigError(f"{place}.key and {place}.certificate.chain: give both, or neither")
    return _store(properties, place, Secret(f"{key}\n{chain}") if key else None, f"{place}.key")


def _store(properties: Mapping[str, str], place: str, inline: Secret | None, inline_key: str) -> Store | None:
    location = properties.get(f"{place}.location", "").strip() or None
    if location is None and inline is None:
        return None
    kind = properties.get(f"{place}.type", "JKS").strip().upper()
    password = _secret(properties, f"{place}.password")
    if kind not in _TYPES:
        raise ConfigError(
            f"{place}.type: expected one of {', '.join(_TYPES)}, found {kind}. "
            "Convert the store: keytool -importkeystore -deststoretype PKCS12"
        )
    if inline is not None and kind != "PEM":
        raise ConfigError(f"{inline_key}: needs {place}.type=PEM")
    if inline is not None and location is not None:
        raise ConfigError(f"{inline_key}: give this or {place}.location, not both")
    if kind == "PEM" and password is not None:
        raise ConfigError(f"{place}.password: not for PEM, as in Kafka; a key's own password is ssl.key.password")
    return Store(place, kind, location, password, inline)


def _secret(properties: Mapping[str, str], key: str) -> Secret | None:
    value = properties.get(key)
    return Secret(value) if value else None


def _versions(properties: Mapping[str, str]) -> tuple[str, ...]:
    asked = properties.get("ssl.enabled.protocols", "").replace(" ", "")
    versions = tuple(version for version in asked.split(",") if version in _VERSIONS)
    if asked and not versions:
        raise ConfigError(f"ssl.enabled.protocols: expected some of {', '.join(_VERSIONS)}")
    return versions or tuple(_VERSIONS)


def _read(place: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{place}.location {file}: {error.strerror}. Give a readable file.") from None


def _content(store: Store) -> bytes:
    if store.inline is not None:
        return store.inline.encode()
    key = _read("ssl.key", store.key_location) + b"\n" if store.key_location else b""
    return key + _read(store.place, store.location or "")


def _name(store: Store) -> str:
    return f"{store.place}.location {store.location}" if store.location else f"{store.place}, inline"


def _trusted(store: Store) -> list[Certificate]:
    """The certificates of a trust store, those of its keys too."""
    content = _content(store)
    if store.type == "PEM":
        found = _certificates(content, store)
    elif content.startswith(jks.MAGIC):
        entries = _open_jks(content, store)
        own = [key.chain[0] for key in entries.keys if key.chain]
        with _opening(store, "expected X.509 certificates"):
            found = [_certificate(der) for der in (*entries.certificates, *own)]
    else:
        opened = _open_pkcs12(content, store)
        found = [each.certificate for each in (opened.cert, *opened.additional_certs) if each is not None]
    if not found:
        raise ConfigError(f"{_name(store)}: no certificate in it")
    return found


def _own(store: Store, key_password: Secret | None) -> tuple[Any, list[Certificate]]:
    """A key store's key, opened, and its certificates, its own first."""
    content = _content(store)
    if store.type == "PEM":
        key, chain = _pem_key(content, store, key_password), _certificates(content, store)
    elif content.startswith(jks.MAGIC):
        key, chain = _jks_key(content, store, key_password)
    else:
        opened = _open_pkcs12(content, store)
        key = opened.key
        chain = [each.certificate for each in (opened.cert, *opened.additional_certs) if each is not None]
    if key is None or not chain:
        raise ConfigError(f"{_name(store)}: expected a private key and its certificates, found no such entry")
    return key, chain


def _certificate(der: bytes) -> Certificate:
    from cryptography import x509

    return x509.load_der_x509_certificate(der)


def _blocks(content: bytes) -> list[tuple[str, str, str]]:
    """(label, what is between the lines, all of it) of each PEM block."""
    text = content.decode("latin-1")
    return [(match[1], match[2], match[0]) for match in _BLOCK.finditer(text)]


def _certificates(content: bytes, store: Store) -> list[Certificate]:
    with _opening(store, "expected certificates in PEM"):
        return [_certificate(_der(body)) for label, body, _ in _blocks(content) if label.endswith("CERTIFICATE")]


def _der(body: str) -> bytes:
    return base64.b64decode("".join(body.split()), validate=True)


def _pem_key(content: bytes, store: Store, password: Secret | None) -> Any:
    from cryptography.hazmat.primitives import serialization

    for label, body, block in _blocks(content):
        if not label.endswith("PRIVATE KEY"):
            continue
        encrypted = "ENCRYPTED" in label or "ENCRYPTED" in body
        if encrypted and password is None:
            raise ConfigError(f"{_name(store)}: the key is encrypted. Give its password in ssl.key.password")
        opener = password.encode() if encrypted and password is not None else None
        with _opening(store, "ssl.key.password does not open it, or it is no key in PEM"):
            if "ENCRYPTED" in body:  # openssl's own form, with headers
                return serialization.load_pem_private_key(block.encode("latin-1"), opener)
            return serialization.load_der_private_key(_der(body), opener)
    return None


def _open_pkcs12(content: bytes, store: Store) -> Any:
    from cryptography.hazmat.primitives.serialization import pkcs12

    if content.startswith(_JCEKS):
        raise ConfigError(
            f"{_name(store)}: it is JCEKS, which cannot be read. "
            "Convert it: keytool -importkeystore -srcstoretype JCEKS -deststoretype PKCS12"
        )
    with _opening(store, f"{store.place}.password does not open it, or it is neither PKCS12 nor JKS"):
        return pkcs12.load_pkcs12(content, store.password.encode() if store.password is not None else None)


def _open_jks(content: bytes, store: Store) -> jks.JavaKeyStore:
    with _opening(store, f"{store.place}.password does not open it, or it is damaged"):
        return jks.read(content, str.__str__(store.password) if store.password is not None else None)


def _jks_key(content: bytes, store: Store, key_password: Secret | None) -> tuple[Any, list[Certificate]]:
    """The first private key of the file."""
    from cryptography.hazmat.primitives import serialization

    if store.password is None:
        raise ConfigError(f"{_name(store)}: needs {store.place}.password")
    for entry in _open_jks(content, store).keys:
        with _opening(store, "ssl.key.password does not open its key" if key_password else "needs ssl.key.password"):
            opened = jks.unprotect(entry.protected, str.__str__(key_password or store.password))
        with _opening(store, "expected a private key and X.509 certificates"):
            key = serialization.load_der_private_key(opened, None)
            return key, [_certificate(der) for der in entry.chain]
    return None, []


@contextlib.contextmanager
def _opening(store: Store, problem: str) -> Iterator[None]:
    """Whatever the libraries raise for a damaged file or a wrong password becomes one ConfigError without either."""
    try:
        yield
    except ConfigError:
        raise
    except jks.DamagedStoreError as error:
        raise ConfigError(f"{_name(store)}: {error}") from None
    except Exception:
        raise ConfigError(f"{_name(store)}: {problem}") from None


def _pem(*certificates: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _load(made: ssl.SSLContext, key: Any, chain: list[Certificate]) -> None:
    """Python's ssl takes keys from files only: one for this user alone, encrypted with a password that no file has."""
    from cryptography.hazmat.primitives import serialization

    once = secrets.token_hex(32)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(once.encode()),
    )
    descriptor, file = tempfile.mkstemp(prefix="spark-assign-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(encrypted + _pem(*chain).encode())
        made.load_cert_chain(file, password=once)
    except ssl.SSLError as error:
        raise ConfigError(f"ssl.keystore: key and certificate do not belong together ({error.reason})") from None
    finally:
        Path(file).unlink()
