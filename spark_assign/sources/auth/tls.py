"""TLS from a Java client's `ssl.` properties: PEM (files or inline), PKCS12, and JKS, as one SSLContext.

Follows Kafka's DefaultSslEngineFactory. The type of a store matters only for PEM: PKCS12 and JKS are distinguished
by their first bytes, as in Java's key stores.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import re
import secrets
import ssl
import tempfile
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_assign.sources.auth.secret import Secret
from spark_assign.stores.locations import check_file, read_file
from spark_assign.tables.errors import ConfigError, needs_extra

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


_JCEKS = b"\xce\xce\xce\xce"
_TYPES = ("PEM", "PKCS12", "JKS")
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_MAX_BYTES = 16 << 20
"""Maximum size of a store's file."""
_MAX_ITERATIONS = 20_000_000
"""Maximum number of iterations that derive the keys of a store or of an encrypted key from its password, in total. They
take about 10 seconds. Java refuses more than 5,000,000 for one key (sun.security.pkcs12.PKCS12KeyStore)."""
_LONG = 8
"""Size in bytes of the largest number of iterations that the library reads."""
_SEQUENCE, _CONSTRUCTED, _INTEGER, _OCTETS = 0x30, 0x20, 2, 4
"""Tags of DER."""
_DASHES = "-----"
_BOUNDARY = re.compile(rf"{_DASHES}(BEGIN|END) ([A-Z0-9 ]+)(?={_DASHES})")


@dataclass(frozen=True)
class Store:
    """The source of certificates or a key. `prefix` is the prefix of its properties: ssl.truststore or ssl.keystore."""

    prefix: str
    type: str
    location: str | None = None
    password: Secret | None = None
    inline: Secret | None = None
    """PEM text instead of a file: certificates, and the key of a key store."""
    key_location: str | None = None
    """The file of the key if it is separate, as in librdkafka."""


@dataclass(frozen=True)
class Tls:
    """The TLS settings of the properties. Stores are opened by `context`."""

    trust: Store | None = None
    """None trusts the system's authorities."""
    key: Store | None = None
    key_password: Secret | None = None
    check_host_name: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


def tls(properties: Mapping[str, str]) -> Tls:
    """Returns the TLS settings by Java's and librdkafka's names. Raises ConfigError for unsupported settings."""
    return Tls(
        _trust_store(properties),
        _key_store(properties),
        _secret(properties, "ssl.key.password"),
        properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
        _versions(properties),
    )


def context(settings: Tls, authority: str | None = None) -> ssl.SSLContext:
    """Opens the stores and returns a TLS context.

    Raises ConfigError that names the property of the store: no file, a wrong password, or an empty store.
    `authority` is a PEM file with certificates to trust instead of a trust store.
    """
    if settings.trust is not None or settings.key is not None:
        with needs_extra("certificates need cryptography", "kafka"):
            import cryptography  # noqa: F401
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls_context.check_hostname = settings.check_host_name
    tls_context.minimum_version = min(_VERSIONS[version] for version in settings.versions)
    tls_context.maximum_version = max(_VERSIONS[version] for version in settings.versions)
    # In Java every certificate of a trust store is an anchor, including intermediate and server certificates.
    tls_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if authority is not None:
        check_file(authority, _MAX_BYTES)
        tls_context.load_verify_locations(authority)
    elif settings.trust is not None:
        tls_context.load_verify_locations(cadata=_pem(*_trusted(settings.trust)))
    else:
        tls_context.load_default_certs()
    if settings.key is not None:
        _load(tls_context, *_key_and_chain(settings.key, settings.key_password))
    return tls_context


def _trust_store(properties: Mapping[str, str]) -> Store | None:
    """Returns the trust store that the properties name."""
    prefix = "ssl.truststore"
    for pem in ("ssl.ca.location", "ssl.ca.pem"):
        if properties.get(pem):
            inline = Secret(properties[pem]) if pem == "ssl.ca.pem" else None
            return Store("ssl.ca", "PEM", None if inline else properties[pem].strip(), inline=inline)
    return _store(properties, prefix, _secret(properties, f"{prefix}.certificates"), f"{prefix}.certificates")


def _key_store(properties: Mapping[str, str]) -> Store | None:
    """Returns the key store that the properties name."""
    prefix = "ssl.keystore"
    files = [properties.get(f"ssl.{part}.location", "").strip() for part in ("key", "certificate")]
    texts = [properties.get(f"ssl.{part}.pem", "") for part in ("key", "certificate")]
    if any(files):
        key_file, chain_file = files
        return Store(
            "ssl.certificate", "PEM", chain_file or key_file, key_location=key_file if chain_file and key_file else None
        )
    if any(texts):
        return Store("ssl.key", "PEM", inline=Secret("\n".join(texts)))
    key, chain = (properties.get(f"{prefix}.{part}", "") for part in ("key", "certificate.chain"))
    if bool(key) != bool(chain):
        raise ConfigError(f"{prefix}.key and {prefix}.certificate.chain: give both, or neither")
    return _store(properties, prefix, Secret(f"{key}\n{chain}") if key else None, f"{prefix}.key")


def _store(properties: Mapping[str, str], prefix: str, inline: Secret | None, inline_key: str) -> Store | None:
    """Returns a store of Java's properties, or None. Raises ConfigError for contradictory properties."""
    location = properties.get(f"{prefix}.location", "").strip() or None
    if location is None and inline is None:
        return None
    kind = properties.get(f"{prefix}.type", "JKS").strip().upper()
    password = _secret(properties, f"{prefix}.password")
    if kind not in _TYPES:
        raise ConfigError(
            f"{prefix}.type: expected one of {', '.join(_TYPES)}, found {kind}. "
            "Convert the store: keytool -importkeystore -deststoretype PKCS12"
        )
    if inline is not None and kind != "PEM":
        raise ConfigError(f"{inline_key}: needs {prefix}.type=PEM")
    if inline is not None and location is not None:
        raise ConfigError(f"{inline_key}: give this or {prefix}.location, not both")
    if kind == "PEM" and password is not None:
        raise ConfigError(f"{prefix}.password: not for PEM, as in Kafka; a key's own password is ssl.key.password")
    return Store(prefix, kind, location, password, inline)


def _secret(properties: Mapping[str, str], key: str) -> Secret | None:
    """Returns a nonempty property as a Secret, or None."""
    value = properties.get(key)
    return Secret(value) if value else None


def _versions(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the enabled TLS versions."""
    enabled = properties.get("ssl.enabled.protocols", "").replace(" ", "")
    versions = tuple(version for version in enabled.split(",") if version in _VERSIONS)
    if enabled and not versions:
        raise ConfigError(f"ssl.enabled.protocols: expected some of {', '.join(_VERSIONS)}")
    return versions or tuple(_VERSIONS)


def _read(prefix: str, file: str) -> bytes:
    """Returns the bytes of a store's file. Raises ConfigError."""
    try:
        return read_file(file, _MAX_BYTES)
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        problem = getattr(error, "strerror", None) or error
        raise ConfigError(f"{prefix}.location {file}: {problem}. Give a readable file.") from None


def _content(store: Store) -> bytes:
    """Returns the bytes of a store, inline or from its files."""
    if store.inline is not None:
        return store.inline.encode(errors="replace")  # as Java does with half of a surrogate pair
    key = _read("ssl.key", store.key_location) + b"\n" if store.key_location else b""
    return key + _read(store.prefix, store.location or "")


def _name(store: Store) -> str:
    """Returns the name of a store for messages."""
    return f"{store.prefix}.location {store.location}" if store.location else f"{store.prefix}, inline"


def _trusted(store: Store) -> list[Certificate]:
    """Returns the certificates of a trust store, including those of its keys."""
    content = _content(store)
    if store.type == "PEM":
        certificates = _certificates(content, store)
    elif content.startswith(MAGIC):
        entries = _open_jks(content, store)
        key_certificates = [key.chain[0] for key in entries.keys if key.chain]
        with _opening(store, "expected X.509 certificates"):
            certificates = [_certificate(der) for der in (*entries.certificates, *key_certificates)]
    else:
        _, certificates = _open_pkcs12(content, store)
    if not certificates:
        raise ConfigError(f"{_name(store)}: no certificate in it")
    return certificates


def _key_and_chain(store: Store, key_password: Secret | None) -> tuple[Any, list[Certificate]]:
    """Returns the decrypted key of a key store and its certificates, the key's own first."""
    content = _content(store)
    if store.type == "PEM":
        key, chain = _pem_key(content, store, key_password), _certificates(content, store)
    elif content.startswith(MAGIC):
        key, chain = _jks_key(content, store, key_password)
    else:
        key, chain = _open_pkcs12(content, store)
    if key is None or not chain:
        raise ConfigError(f"{_name(store)}: expected a private key and its certificates, found no such entry")
    return key, chain


def _certificate(der: bytes) -> Certificate:
    """Returns a certificate from DER."""
    from cryptography import x509

    return x509.load_der_x509_certificate(der)


def _blocks(content: bytes) -> list[tuple[str, str, str]]:
    """Returns the PEM blocks: label, body between the lines, and complete text. In linear time: each end is looked at
    once."""
    text, found, at = content.decode("latin-1"), list[tuple[str, str, str]](), 0
    boundaries = list(_BOUNDARY.finditer(text))
    ends: dict[str, deque[re.Match[str]]] = defaultdict(deque)
    for boundary in boundaries:
        if boundary[1] == "END":
            ends[boundary[2]].append(boundary)
    for begin in boundaries:
        body, after = begin.end() + len(_DASHES), ends[begin[2]]
        if begin[1] == "END" or begin.start() < at:
            continue
        while after and after[0].start() < body:
            after.popleft()
        if after:
            at = after[0].end() + len(_DASHES)
            found.append((begin[2], text[body : after[0].start()], text[begin.start() : at]))
    return found


def _certificates(content: bytes, store: Store) -> list[Certificate]:
    """Returns the certificates of a PEM text."""
    with _opening(store, "expected certificates in PEM"):
        return [_certificate(_der(body)) for label, body, _ in _blocks(content) if label.endswith("CERTIFICATE")]


def _der(body: str) -> bytes:
    """Returns the bytes of the body of a PEM block."""
    return base64.b64decode("".join(body.split()), validate=True)


def _pem_key(content: bytes, store: Store, password: Secret | None) -> Any:
    """Returns the decrypted private key of a PEM text, or None."""
    from cryptography.hazmat.primitives import serialization

    for label, body, block in _blocks(content):
        if not label.endswith("PRIVATE KEY"):
            continue
        encrypted = "ENCRYPTED" in label or "ENCRYPTED" in body
        if encrypted and password is None:
            raise ConfigError(f"{_name(store)}: the key is encrypted. Give its password in ssl.key.password")
        opener = password.encode(errors="replace") if encrypted and password is not None else None
        with _opening(store, "ssl.key.password does not open it, or it isn't a PEM key"):
            if "ENCRYPTED" in body:  # OpenSSL's traditional format with headers
                return serialization.load_pem_private_key(block.encode("latin-1"), opener)
            return serialization.load_der_private_key(_bounded(_der(body), store), opener)
    return None


def _open_pkcs12(content: bytes, store: Store) -> tuple[Any, list[Certificate]]:
    """Returns the key of a PKCS12 store, or None, and its certificates, the key's own first. Raises ConfigError."""
    from cryptography.hazmat.primitives.serialization import pkcs12

    if content.startswith(_JCEKS):
        raise ConfigError(
            f"{_name(store)}: it is JCEKS, which cannot be read. "
            "Convert it: keytool -importkeystore -srcstoretype JCEKS -deststoretype PKCS12"
        )
    with _opening(store, f"{store.prefix}.password does not open it, or it is neither PKCS12 nor JKS"):
        warnings.filterwarnings("ignore", "PKCS#12 bundle could not be parsed as DER")  # it is read all the same
        opened = pkcs12.load_pkcs12(
            _bounded(content, store), store.password.encode(errors="replace") if store.password is not None else None
        )
    return opened.key, [entry.certificate for entry in (opened.cert, *opened.additional_certs) if entry is not None]


def _bounded(der: bytes, store: Store) -> bytes:
    """Returns the bytes if deriving the keys for them takes bounded time. Raises ConfigError.

    A number of iterations follows its salt, an OCTET STRING, also in keys that an OCTET STRING contains (RFC 7292 and
    RFC 8018). Iterations in an encrypted part can't be seen.
    """
    at, after_salt, iterations = 0, -1, 0
    while at + 2 <= len(der):
        header, tag, size = at, der[at], der[at + 1]
        start = at + 2 + (size & 0x7F if size & 0x80 else 0)
        size = int.from_bytes(der[at + 2 : start]) if size & 0x80 else size  # 0 for the indefinite form
        if tag == _INTEGER and header == after_salt and size <= _LONG:
            iterations += int.from_bytes(der[start : start + size])
        has_elements = tag & _CONSTRUCTED or (tag == _OCTETS and der[start : start + 1] == bytes([_SEQUENCE]))
        at = start if has_elements else start + size
        after_salt = at if tag == _OCTETS or (tag == size == 0 and header == after_salt) else -1
    if iterations > _MAX_ITERATIONS:
        raise ConfigError(
            f"{_name(store)}: it takes {iterations:,} iterations to derive its keys, and at most {_MAX_ITERATIONS:,} "
            "are made. Write it again with fewer"
        )
    return der


def _open_jks(content: bytes, store: Store) -> JavaKeyStore:
    """Returns the content of a JKS store. Raises ConfigError."""
    with _opening(store, f"{store.prefix}.password does not open it, or it is damaged"):
        return read(content, str.__str__(store.password) if store.password is not None else None)


def _jks_key(content: bytes, store: Store, key_password: Secret | None) -> tuple[Any, list[Certificate]]:
    """Returns the first private key of a JKS store and its certificates."""
    from cryptography.hazmat.primitives import serialization

    if store.password is None:
        raise ConfigError(f"{_name(store)}: needs {store.prefix}.password")
    for entry in _open_jks(content, store).keys:
        with _opening(store, "ssl.key.password does not open its key" if key_password else "needs ssl.key.password"):
            opened = unprotect(entry.protected, str.__str__(key_password or store.password))
        with _opening(store, "expected a private key and X.509 certificates"):
            key = serialization.load_der_private_key(opened, None)
            return key, [_certificate(der) for der in entry.chain]
    return None, []


@contextlib.contextmanager
def _opening(store: Store, problem: str) -> Iterator[None]:
    """Converts every error of the libraries for a damaged file or a wrong password into one ConfigError that
    contains neither.
    """
    try:
        yield
    except ConfigError:
        raise
    except DamagedStoreError as error:
        raise ConfigError(f"{_name(store)}: {error}") from None
    except Exception:
        raise ConfigError(f"{_name(store)}: {problem}") from None


def _pem(*certificates: Certificate) -> str:
    """Returns certificates as PEM text."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _load(tls_context: ssl.SSLContext, key: Any, chain: list[Certificate]) -> None:
    """Loads a key and its certificates into a context.

    Python's ssl reads keys only from files: a temporary file that only this user can read, encrypted with a password
    that is in no file.
    """
    from cryptography.hazmat.primitives import serialization

    one_time_password = secrets.token_hex(32)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(one_time_password.encode()),
    )
    descriptor, file = tempfile.mkstemp(prefix="spark-assign-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(encrypted + _pem(*chain).encode())
        tls_context.load_cert_chain(file, password=one_time_password)
    except ssl.SSLError as error:
        raise ConfigError(f"ssl.keystore: key and certificate do not belong together ({error.reason})") from None
    finally:
        Path(file).unlink()


# --- reads JKS, the key store format that Java wrote by default up to Java 8 ----------------------------------
#
# Implements what a TLS client needs of Java's `sun.security.provider.JavaKeyStore` and `KeyProtector`: certificates,
# and private keys with their chains. All numbers are big-endian. A password counts as UTF-16BE without a byte order
# mark.
#
#     store:  magic FEEDFEED, version 2, number of entries (4 bytes each); the entries; a digest of 20 bytes
#     entry:  kind (4 bytes), alias (2 bytes length, text), creation time (8 bytes), then by kind
#         1, a private key:  the protected key, number of certificates (4 bytes), the certificates, the key's own first
#         2, a trusted certificate:  one certificate
#     certificate:  its type (2 bytes length, text), DER (4 bytes length, bytes)
#     protected key:  4 bytes length; DER of PKCS #8's EncryptedPrivateKeyInfo with the algorithm
#     1.3.6.1.4.1.42.2.17.1.1
#
# The digest is the SHA-1 of the password, "Mighty Aphrodite", and all bytes before it. A key's protected bytes are a
# salt (20 bytes), the key XOR a stream, and the SHA-1 of password and key (20 bytes). The stream starts with the SHA-1
# of password and salt; each further block is the SHA-1 of the password and the block before it.


MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
# AlgorithmIdentifier in DER: the object identifier 1.3.6.1.4.1.42.2.17.1.1, and NULL for its parameters.
_PROTECTION = bytes.fromhex("060a2b060104012a02110101 0500")


class DamagedStoreError(Exception):
    """Raised if the store or its key isn't complete JKS. The message says what is wrong."""


class WrongPasswordError(Exception):
    """Raised if a digest differs: the password is wrong, or bytes were changed."""


@dataclass(frozen=True)
class PrivateKey:
    """A protected private key and its certificates in DER, the key's own first."""

    protected: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True)
class JavaKeyStore:
    """The entries of a store in the order of the file, keys and certificates separately. Certificates are in DER."""

    keys: tuple[PrivateKey, ...]
    certificates: tuple[bytes, ...]


class _Reader:
    """Reads a store from the front."""

    def __init__(self, content: bytes) -> None:
        self.content, self.position = content, 0

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        start, self.position = self.position, self.position + size
        if self.position > len(self.content):
            raise DamagedStoreError("the store ends too early")
        return self.content[start : self.position]

    def number(self, size: int) -> int:
        """Returns the next `size` bytes as a big-endian number."""
        return int.from_bytes(self.take(size))

    def certificate(self) -> bytes:
        """Returns the DER of the next certificate. Its type is skipped: Kafka's clients use X.509 only."""
        self.take(self.number(2))
        return self.take(self.number(4))

    def der(self, tag: int) -> _Reader:
        """Returns a reader of the content of the next DER element, which must have this tag."""
        actual_tag, size = self.number(1), self.number(1)
        if size >= 0x80:
            size = self.number(size - 0x80)
        if actual_tag != tag:
            raise DamagedStoreError("expected a protected key in DER")
        return _Reader(self.take(size))


def read(content: bytes, password: str | None) -> JavaKeyStore:
    """Reads a store. Without a password, its digest isn't checked, as in Java.

    Raises:
        DamagedStoreError: the store ends too early, or has an unknown version or entry kind.
        WrongPasswordError: the digest doesn't match the password and the bytes.
    """
    reader = _Reader(content)
    if reader.take(4) != MAGIC or reader.number(4) != _VERSION:
        raise DamagedStoreError(f"expected JKS of version {_VERSION}")
    keys, certificates = [], []
    for _ in range(reader.number(4)):
        kind = reader.number(4)
        reader.take(reader.number(2))  # alias
        reader.take(8)  # creation time
        if kind == _PRIVATE_KEY:
            protected = reader.take(reader.number(4))
            keys.append(PrivateKey(protected, tuple(reader.certificate() for _ in range(reader.number(4)))))
        elif kind == _TRUSTED_CERTIFICATE:
            certificates.append(reader.certificate())
        else:
            raise DamagedStoreError(f"expected a private key (1) or a certificate (2), found an entry of kind {kind}")
    body = content[: reader.position]
    digest = reader.take(_DIGEST_BYTES)
    if password is not None:
        _check(digest, password.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    return JavaKeyStore(tuple(keys), tuple(certificates))


def unprotect(protected: bytes, password: str) -> bytes:
    """Returns the private key as PKCS #8 in DER.

    Raises:
        DamagedStoreError: the key is protected by another algorithm, or isn't in DER.
        WrongPasswordError: the key's digest doesn't match the password and the key.
    """
    info = _Reader(protected).der(_SEQUENCE)
    if info.der(_SEQUENCE).content != _PROTECTION:
        raise DamagedStoreError("the key is protected by an algorithm that JKS doesn't have")
    sealed = info.der(_OCTETS)
    salt, mixed = sealed.take(_DIGEST_BYTES), sealed.take(max(0, len(sealed.content) - 2 * _DIGEST_BYTES))
    digest = sealed.take(_DIGEST_BYTES)
    secret = password.encode("utf-16-be")
    stream, block = bytearray(), salt
    while len(stream) < len(mixed):
        block = sha1(secret + block).digest()
        stream += block
    key = bytes(byte ^ mask for byte, mask in zip(mixed, stream, strict=False))
    _check(digest, secret + key)
    return key


def _check(digest: bytes, content: bytes) -> None:
    """Raises WrongPasswordError unless the digest is the SHA-1 of the content."""
    if not hmac.compare_digest(digest, sha1(content).digest()):
        raise WrongPasswordError
