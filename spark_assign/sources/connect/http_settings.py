"""Access to Connect's REST interface: the options of the snapshot job, and a properties file.

The file has the keys of Kafka's clients for TLS (`ssl.…`), and those of Confluent's REST clients for credentials and
proxies (`basic.auth.…`, `bearer.auth.…`, `proxy.…`).
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Annotated

from spark_assign.sources.auth import oauth as client_oauth
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.oauth import TokenEndpoint, Tokens
from spark_assign.sources.auth.properties import Login
from spark_assign.sources.auth.secret import Secret, secrets_of_proxy
from spark_assign.sources.auth.tls import Tls
from spark_assign.stores.locations import read_file, split_url
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.parameters import Param

CREDENTIALS_VARIABLE = "SPARK_ASSIGN_CONNECT_AUTH"
"""Environment variable with `user:password`, used if no file is given."""

_USER, _TOKEN = "basic.auth.user.info", "bearer.auth.token"
_OPTION = "--connect-config"
_ISSUER = "bearer.auth.issuer.endpoint.url"
_BEARER = {
    _ISSUER: client_oauth.URL,
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
    """Settings of requests.

    Attributes:
        timeout_s: timeout of a request.
        attempts: number of attempts per request, including the first.
    """

    timeout_s: Annotated[float, Param(above=0, flag="connect_timeout")] = 30
    attempts: Annotated[int, Param(least=1, flag="connect_attempts")] = 5
    credentials: Secret | None = None
    """user:password"""
    ca_file: str | None = None
    token: Secret | None = None
    """A bearer token."""
    tokens: TokenEndpoint | None = None
    """The endpoint that issues a bearer token."""
    proxy: Secret | None = None
    """The URL of a proxy, used instead of the proxies of the environment."""
    tls: Tls = field(default_factory=Tls)

    def authorization(self) -> Secret | None:
        """Returns the Authorization header from the credentials, the token, or a token of the endpoint.

        Raises SourceError if the endpoint denies the token.
        """
        if self.credentials is not None:
            return Secret("Basic " + base64.b64encode(str.__str__(self.credentials).encode(errors="replace")).decode())
        token = Tokens(self.tokens).token() if self.tokens is not None else self.token
        return None if token is None else Secret(f"Bearer {str.__str__(token)}")

    def tls_context(self) -> ssl.SSLContext:
        """Returns the TLS context with trusted authorities and the client certificate. Raises ConfigError for files
        that can't be opened.
        """
        try:
            return client_tls.context(self.tls, self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"--connect-ca {self.ca_file}: {error}. Give a PEM file with certificates.") from None

    def secrets(self) -> tuple[Secret, ...]:
        """Returns all values that must not appear in messages."""
        password = str.__str__(self.credentials).partition(":")[2] if self.credentials is not None else ""
        client_secret = self.tokens.client_secret if self.tokens is not None else None
        values = (password, self.token, client_secret, *secrets_of_proxy(str.__str__(self.proxy or "")))
        return tuple(Secret(value) for value in values if value)


def configured(settings: HttpSettings, file: str | None) -> HttpSettings:
    """Returns the settings with those of a properties file. Raises ConfigError, which names the key and never a
    value."""
    if file is None:
        return settings
    properties = client_properties.read(file)
    source = f"{_OPTION} {file}"
    for key in properties:
        if key not in _KNOWN:
            similar = get_close_matches(key, _KNOWN, 1)
            hint = f"Did you mean {similar[0]}?" if similar else f"Known are {', '.join(sorted(_KNOWN))}."
            raise ConfigError(f"{source}: {key} is not known. {hint}")
    endpoint = _endpoint(properties)
    credential_sources = {
        "--connect-auth": settings.credentials,
        _USER: properties.get(_USER),
        _TOKEN: properties.get(_TOKEN),
        _ISSUER: endpoint,
    }
    if len(several := [name for name, value in credential_sources.items() if value]) > 1:
        raise ConfigError(f"{source}: give one of {', '.join(several)}")
    if properties.get(_USER) and ":" not in properties[_USER]:
        raise ConfigError(f"{source}: {_USER}: expected user:password")
    try:
        tls = client_tls.tls(properties)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    if settings.ca_file and tls.trust is not None:
        raise ConfigError(f"{source}: give {tls.trust.prefix}.location or --connect-ca, not both")
    return replace(
        settings,
        credentials=settings.credentials or _secret(properties, _USER),
        token=_secret(properties, _TOKEN),
        tokens=endpoint,
        proxy=_proxy(properties, source),
        tls=tls,
    )


def _secret(properties: Mapping[str, str], key: str) -> Secret | None:
    """Returns the value of a key as a secret, or None if it is missing or empty."""
    return Secret(properties[key].strip()) if properties.get(key) else None


def _endpoint(properties: Mapping[str, str]) -> TokenEndpoint | None:
    """Returns the endpoint of the `bearer.auth.…` keys, or None if there are none. Raises ConfigError."""
    oauth_properties = {key: properties[name] for name, key in _BEARER.items() if name in properties}
    if not oauth_properties:
        return None
    try:
        endpoint = client_oauth.endpoint(oauth_properties, Login())
        trust = f"ssl.truststore.location in {_OPTION} FILE"
        return replace(endpoint, tls=client_tls.tls(properties), url_setting=_ISSUER, trust_setting=trust)
    except ConfigError as error:
        message = str(error)
        for name, key in _BEARER.items():
            message = message.replace(key, name)
        raise ConfigError(message) from None


def _proxy(properties: Mapping[str, str], source: str) -> Secret | None:
    """Returns the URL of the proxy of the `proxy.…` keys, or None if there are none. Raises ConfigError."""
    url = properties.get("proxy.url", "").strip()
    host, port = (properties.get(f"proxy.{name}", "").strip() for name in ("host", "port"))
    if host and not url:
        url = f"http://{host}:{port or 80}"
    if not url:
        return None
    parts = split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{source}: proxy.url: expected http://HOST:PORT")
    return Secret(url)


def credentials(file: str | None) -> Secret | None:
    """Returns `user:password` from the first line of a file or from the environment, or None if neither is set.

    Raises ConfigError if the file can't be read or the text has no colon.
    """
    if file is not None:
        source = f"--connect-auth {file}"
        try:
            text = re.split("[\r\n]", read_file(file).decode("utf-8-sig"), maxsplit=1)[0]
        except (OSError, ValueError) as error:  # no UTF-8, or a path with NUL
            if ":" in file:  # it can be the password itself
                raise ConfigError("--connect-auth: expected a readable file with user:password in it.") from None
            problem = getattr(error, "strerror", None) or "no text"
            raise ConfigError(f"{source}: {problem}. Give a readable file with user:password.") from None
    else:
        source = CREDENTIALS_VARIABLE
        text = os.environ.get(CREDENTIALS_VARIABLE, "")
        if not text:
            return None
    if ":" not in text:
        raise ConfigError(f"{source}: expected user:password in one line")
    return Secret(text)
