"""Reads JKS, the key store format that Java wrote by default up to Java 8.

Implements what a TLS client needs of Java's `sun.security.provider.JavaKeyStore` and `KeyProtector`: certificates, and
private keys with their chains. All numbers are big-endian. A password counts as UTF-16BE without a byte order mark.

    store:  magic FEEDFEED, version 2, number of entries (4 bytes each); the entries; a digest of 20 bytes
    entry:  kind (4 bytes), alias (2 bytes length, text), creation time (8 bytes), then by kind
        1, a private key:  the protected key, number of certificates (4 bytes), the certificates, the key's own first
        2, a trusted certificate:  one certificate
    certificate:  its type (2 bytes length, text), DER (4 bytes length, bytes)
    protected key:  4 bytes length; DER of PKCS #8's EncryptedPrivateKeyInfo with the algorithm 1.3.6.1.4.1.42.2.17.1.1

The digest is the SHA-1 of the password, "Mighty Aphrodite", and all bytes before it. A key's protected bytes are a salt
(20 bytes), the key XOR a stream, and the SHA-1 of password and key (20 bytes). The stream starts with the SHA-1 of
password and salt; each further block is the SHA-1 of the password and the block before it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha1

MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
_SEQUENCE, _OCTETS = 0x30, 0x04
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
        raise DamagedStoreError("the key is protected by an algorithm that is not that of JKS")
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
