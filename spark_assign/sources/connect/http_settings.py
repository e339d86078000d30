"""How one gets in at Connect's REST interface: the options of the snapshot job, and a properties file.

The file's keys are those of Kafka's clients for TLS (`ssl.…`), and those of Confluent's REST clients for the rest
(`basic.auth.…`, `bearer.auth.…`, `proxy.…`).
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from spark_assign.sources.auth import oauth as client_oauth
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.oauth import TokenEndpoint, Tokens
from spark_assign.sources.auth.properties import Login
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.auth.tls import Tls
from spark_assign.tables.errors import ConfigError

CREDENTIALS_VARIABLE = "SPARK_ASSIGN_CONNECT_AUTH"
"""Environment variable with `user:password`, where no file is given."""

_USER, _TOKEN = "basic.auth.user.info", "bearer.auth.token"
_OPTION = "--connect-config"
_BEARER = {
    "bearer.auth.issuer.endpoint.url": client_oauth.URL,
    "bearer.auth.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "bearer.auth.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "bearer.auth.scope": "sasl.oauthbearer.scope",
}
_KNOWN = {
    _USER,
    _TOKEN,
    "basic.auth.credentials.source",
    "bearer.auth.credentials.source",
    *_BEARER,
    "proxy.url",
    "proxy.host",
    "proxy.port",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    *(f"ssl.{store}.{name}" for store in ("truststore", "keystore") for name in ("location", "password", "type")),
    *(f"ssl.{name}" for name in ("truststore.certificates", "keystore.certificate.chain", "keystore.key")),
}


@dataclass(frozen=True)
class HttpSettings:
    """How to ask. `timeout_s` is for one answer; `attempts` count the first one."""

    timeout_s: float = 30
    attempts: int = 5
    credentials: Secret | None = None
    """user:password"""
    ca_file: str | None = None
    token: Secret | None = None
    """A bearer token."""
    tokens: TokenEndpoint | None = None
    """Where a bearer token is fetched."""
    proxy: Secret | None = None
    """A URL, in place of the proxies of the environment."""
    tls: Tls = field(default_factory=Tls)

    def authorization(self) -> Secret | None:
        """The header, of credentials, a token, or one that is fetched. Raises SourceError where it is refused."""
        if self.credentials is not None:
            return Secret("Basic " + base64.b64encode(str.__str__(self.credentials).encode()).decode())
        token = Tokens(self.tokens).token() if self.tokens is not None else self.token
        return None if token is None else Secret(f"Bearer {str.__str__(token)}")

    def tls_context(self) -> ssl.SSLContext:
        """Whom to trust, and which certificate to show. Raises ConfigError for what does not open."""
        try:
            return client_tls.context(self.tls, self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"--connect-ca {self.ca_file}: {error}. Give a PEM file with certificates.") from None

    def secrets(self) -> tuple[Secret, ...]:
        """All that must not show."""
        password = str.__str__(self.credentials).partition(":")[2] if self.credentials is not None else ""
        fetched = self.tokens.client_secret if self.tokens is not None else None
        proxy = urlsplit(str.__str__(self.proxy)).password if self.proxy is not None else None
        return tuple(Secret(each) for each in (password, self.token, fetched, proxy) if each)


def configured(settings: HttpSettings, file: str | None) -> HttpSettings:
    """The settings, and what a properties file says beside. Raises ConfigError, naming the key and never a value."""
    if file is None:
        return settings
    properties = client_properties.read(file)
    place = f"{_OPTION} {file}"
    for key in properties:
        if key not in _KNOWN:
            alike = get_close_matches(key, _KNOWN, 1)
            mean = f"Did you mean {alike[0]}?" if alike else f"Known are {', '.join(sorted(_KNOWN))}."
            raise ConfigError(f"{place}: {key} is not known. {mean}")
    endpoint = _endpoint(properties)
    given = {
        "--connect-auth": settings.credentials,
        _USER: properties.get(_USER),
        _TOKEN: properties.get(_TOKEN),
        "bearer.auth.issuer.endpoint.url": endpoint,
    }
    if len(several := [name for name, value in given.items() if value]) > 1:
        raise ConfigError(f"{place}: give one of {', '.join(several)}")
    if properties.get(_USER) and ":" not in properties[_USER]:
        raise ConfigError(f"{place}: {_USER}: expected user:password")
    try:
        tls = client_tls.tls(properties)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    if settings.ca_file and tls.trust is not None:
        raise ConfigError(f"{place}: give {tls.trust.place}.location or --connect-ca, not both")
    return replace(
        settings,
        credentials=settings.credentials or _secret(properties, _USER),
        token=_secret(properties, _TOKEN),
        tokens=endpoint,
        proxy=_proxy(properties, place),
        tls=tls,
    )


def _secret(properties: Mapping[str, str], key: str) -> Secret | None:
    return Secret(properties[key].strip()) if properties.get(key) else None


def _endpoint(properties: Mapping[str, str]) -> TokenEndpoint | None:
    found = {ours: properties[theirs] for theirs, ours in _BEARER.items() if theirs in properties}
    if not found:
        return None
    try:
        made = client_oauth.endpoint(found, Login())
        return replace(made, tls=client_tls.tls(properties))
    except ConfigError as error:
        said = str(error)
        for theirs, ours in _BEARER.items():
            said = said.replace(ours, theirs)
        raise ConfigError(said) from None


def _proxy(properties: Mapping[str, str], place: str) -> Secret | None:
    url = properties.get("proxy.url", "").strip()
    host, port = (properties.get(f"proxy.{name}", "").strip() for name in ("host", "port"))
    if host and not url:
        url = f"http://{host}:{port or 80}"
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{place}: proxy.url: expected http://HOST:PORT")
    return Secret(url)


def credentials(file: str | None) -> Secret | None:
    """`user:password` from a file's first line or from the environment. Raises ConfigError without a colon."""
    if file is not None:
        place = f"--connect-auth {file}"
        try:
            text = next(iter(Path(file).read_text(encoding="utf-8").splitlines()), "")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{place}: {error}. Give a readable file with user:password.") from None
    else:
        place = CREDENTIALS_VARIABLE
        text = os.environ.get(CREDENTIALS_VARIABLE, "")
        if not text:
            return None
    if ":" not in text:
        raise ConfigError(f"{place}: expected user:password in one line")
    return Secret(text)
