"""SASL OAUTHBEARER: tokens from an OAuth 2 token endpoint (client credentials), or from a file that something renews.

What Kafka's OAuthBearerLoginCallbackHandler does (KIP-768, KIP-1139), with its settings: `sasl.oauthbearer.…`, or
options of the login module, as before Kafka 4.1.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, unquote, urlsplit

from spark_assign.sources.auth import client_tls
from spark_assign.sources.auth.client_jaas import Login
from spark_assign.sources.auth.client_tls import Tls
from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.tables.errors import ConfigError, SourceError, missing_extra

URL = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750."""
_EXTENSION = "extension_"
_RENEWED_AT = 0.8
"""Of a token's life, as sasl.login.refresh.window.factor is in Kafka."""
_UNKNOWN_LIFE_S = 60
_NONE = Secret("")


@dataclass(frozen=True)
class TokenEndpoint:
    """Where tokens come from, and what is said there."""

    url: str
    client_id: str = ""
    client_secret: Secret = _NONE
    scope: str = ""
    extensions: dict[str, Secret] = field(default_factory=dict)
    url_encoded: bool = False
    """sasl.oauthbearer.header.urlencode: id and secret are URL-encoded in the header, as RFC 6749 has it."""
    connect_s: float = 10
    read_s: float = 10
    attempts: int = 5
    tls: Tls = field(default_factory=Tls)


def endpoint(properties: Mapping[str, str], login: Login) -> TokenEndpoint:
    """The token endpoint that the properties name. Raises ConfigError for what is missing, and repeats no value."""
    url = properties.get(URL, "").strip()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "file"):
        raise ConfigError(f"{URL}: expected the URL of a token endpoint (https://…), or file:///… with a token in it")
    if "@" in parts.netloc:
        raise ConfigError(f"{URL}: a password does not belong into the URL; give {_CREDENTIALS}.id and .secret")

    def first(*names: str) -> str:
        return next((properties[name] for name in names if properties.get(name)), "")

    client_id = first(f"{_CREDENTIALS}.id", "sasl.oauthbearer.client.id") or login.options.get("clientId", "")
    secret = first(f"{_CREDENTIALS}.secret", "sasl.oauthbearer.client.secret") or login.options.get("clientSecret", "")
    if parts.scheme != "file" and not (client_id and secret):
        raise ConfigError(
            f"OAUTHBEARER needs {_CREDENTIALS}.id and {_CREDENTIALS}.secret, or in sasl.jaas.config "
            'OAuthBearerLoginModule required clientId="…" clientSecret="…";'
        )
    options = login.options
    extensions = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    for pair in filter(None, properties.get("sasl.oauthbearer.extensions", "").split(",")):  # librdkafka
        name, _, value = pair.partition("=")
        extensions[name.strip()] = Secret(value.strip())
    return TokenEndpoint(
        url,
        str.__str__(client_id),
        Secret(secret),
        str.__str__(first("sasl.oauthbearer.scope") or options.get("scope", "")),
        extensions,
        properties.get("sasl.oauthbearer.header.urlencode", "false").strip().lower() == "true",
        _seconds(properties, "sasl.login.connect.timeout.ms"),
        _seconds(properties, "sasl.login.read.timeout.ms"),
        tls=client_tls.tls({**options}),
    )


def _seconds(properties: Mapping[str, str], key: str) -> float:
    text = properties.get(key, "10000").strip()
    if not text.isdigit():
        raise ConfigError(f"{key}: expected a number of milliseconds")
    return int(text) / 1000


class Tokens:
    """Hands out a token that is valid, and asks for the next one when most of its life is over."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token = ""
        self._until = 0.0
        self._context = None if endpoint.url.startswith("file:") else client_tls.context(endpoint.tls)

    def token(self) -> str:
        """The token. Raises SourceError: no endpoint there, a refusal, or an answer without a token."""
        if time.monotonic() >= self._until:
            file = self._endpoint.url.startswith("file:")
            token, life_s = (self._in_file(), 0.0) if file else self._fetched()
            if not _TOKEN.fullmatch(token):
                raise SourceError(f"{self._endpoint.url}: what it gives is no bearer token. Is it the right one?")
            self._token, self._until = Secret(token), time.monotonic() + life_s * _RENEWED_AT
        return self._token

    def extensions(self) -> dict[str, str]:
        """What goes along with the token: logicalCluster and identityPoolId of Confluent Cloud."""
        return {name: str.__str__(value) for name, value in self._endpoint.extensions.items()}

    def _in_file(self) -> str:
        file = unquote(urlsplit(self._endpoint.url).path)
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no text"
            raise ConfigError(f"{URL} {self._endpoint.url}: {reason}. Give a readable file with a token.") from None

    def _fetched(self) -> tuple[str, float]:
        """The token and its life in seconds, by POST with client credentials (RFC 6749, 4.4)."""
        try:
            import requests

            from spark_assign.sources.auth import http_session
        except ImportError as error:
            raise missing_extra("OAUTHBEARER needs requests", "kafka") from error
        asked = self._endpoint
        form = {"grant_type": "client_credentials"} | ({"scope": asked.scope} if asked.scope else {})
        assert self._context is not None
        retries = http_session.patience(asked.attempts, "POST")
        try:
            with (
                http_session.session(self._context, _basic(asked), retries) as session,
                session.post(
                    asked.url,
                    form,
                    headers={"Accept": "application/json"},
                    timeout=(asked.connect_s, asked.read_s),
                    allow_redirects=False,
                    stream=True,
                ) as answer,
            ):
                content = http_session.body(answer)
        except http_session.TooLargeError:
            raise SourceError(f"{asked.url}: the answer is too large. Is it a token endpoint?") from None
        except (requests.RequestException, OSError) as error:
            said = str(http_session.cause(error)) or type(error).__name__
            raise SourceError(
                f"{asked.url}: no token ({hidden(said, [asked.client_secret])}). Check {URL}, proxies, and for its "
                "certificate the options ssl.truststore.… of sasl.jaas.config."
            ) from None
        return self._read(answer, content)

    def _read(self, answer: Any, content: bytes) -> tuple[str, float]:
        asked = self._endpoint
        try:
            said = json.loads(content)
        except ValueError:
            said = {}
        said = said if isinstance(said, dict) else {}
        if answer.status_code != 200:
            why = " ".join(str(said[key]) for key in ("error", "error_description") if said.get(key))
            text = f"{answer.status_code} {answer.reason}" + (f", {why}" if why else "")
            raise SourceError(
                f"{asked.url}: no token ({hidden(text, [asked.client_secret])}). "
                "Check the client's id, its secret and the scope."
            )
        # Kafka takes id_token where there is no access_token (JwtResponseParser).
        token = said.get("access_token") or said.get("id_token")
        if not isinstance(token, str):
            raise SourceError(f"{asked.url}: the answer has no access_token. Is it a token endpoint?")
        life = said.get("expires_in")
        return token, float(life) if isinstance(life, int | float) and life > 0 else _UNKNOWN_LIFE_S


def _basic(asked: TokenEndpoint) -> Secret:
    parts = [asked.client_id, str.__str__(asked.client_secret)]
    if asked.url_encoded:
        parts = [quote_plus(part) for part in parts]
    return Secret("Basic " + base64.b64encode(":".join(parts).encode()).decode())
