"""SASL OAUTHBEARER: tokens from an OAuth 2 token endpoint (client credentials), or from a file that another process
renews.

Follows Kafka's OAuthBearerLoginCallbackHandler (KIP-768, KIP-1139) with its settings: `sasl.oauthbearer.…`, or
options of the login module as before Kafka 4.1.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, unquote, urlsplit

from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.properties import Login
from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.sources.auth.tls import Tls
from spark_assign.stores.locations import read_file, shortened, split_url
from spark_assign.stores.time_limit import within
from spark_assign.tables.errors import ConfigError, SourceError, needs_extra

URL = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The form of a bearer token (RFC 6750)."""
_EXTENSION = "extension_"
_REFRESH_FACTOR = 0.8
"""Fraction of a token's lifetime after which it is renewed; the default of Kafka's sasl.login.refresh.window.factor.
"""
_UNKNOWN_LIFE_S, _MAX_LIFE_S, _MAX_ERROR = 60, 1e9, 1_000
_MAX_BYTES = 1 << 20
"""Maximum size of an answer: the values of a JSON document take up to 30 times its size."""
_EMPTY_SECRET = Secret("")


@dataclass(frozen=True)
class TokenEndpoint:
    """The token endpoint and the parameters of a token request."""

    url: str
    client_id: str = ""
    client_secret: Secret = _EMPTY_SECRET
    scope: str = ""
    extensions: dict[str, Secret] = field(default_factory=dict)
    url_encoded: bool = False
    """sasl.oauthbearer.header.urlencode: ID and secret are URL-encoded in the header, as RFC 6749 requires."""
    connect_s: float = 10
    read_s: float = 10
    attempts: int = 5
    tls: Tls = field(default_factory=Tls)
    url_setting: str = URL
    trust_setting: str = "the options ssl.truststore.… of sasl.jaas.config"


def endpoint(properties: Mapping[str, str], login: Login) -> TokenEndpoint:
    """Returns the token endpoint that the properties name. Raises ConfigError for missing settings, and repeats no
    value.
    """
    url = properties.get(URL, "").strip()
    parts = split_url(url)
    if parts.scheme not in ("http", "https", "file") or bool(parts.hostname) == (parts.scheme == "file"):
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
    extensions = {
        name.removeprefix(_EXTENSION): text for name, text in login.options.items() if name.startswith(_EXTENSION)
    }
    for pair in filter(None, properties.get("sasl.oauthbearer.extensions", "").split(",")):  # librdkafka
        name, _, value = pair.partition("=")
        extensions[name.strip()] = Secret(value.strip())
    return TokenEndpoint(
        url,
        str.__str__(client_id),
        Secret(secret),
        str.__str__(first("sasl.oauthbearer.scope") or login.options.get("scope", "")),
        extensions,
        properties.get("sasl.oauthbearer.header.urlencode", "false").strip().lower() == "true",
        _seconds(properties, "sasl.login.connect.timeout.ms"),
        _seconds(properties, "sasl.login.read.timeout.ms"),
        tls=client_tls.tls({**login.options}),
    )


def _seconds(properties: Mapping[str, str], key: str) -> float:
    """Returns a time-out in seconds from a property in milliseconds."""
    text = properties.get(key, "10000").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ConfigError(f"{key}: expected a number of milliseconds")
    return int(text) / 1000


class Tokens:
    """Provides a valid token, and requests the next one after most of its lifetime."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token = ""
        self._until = 0.0
        self._context = None if endpoint.url.startswith("file:") else client_tls.context(endpoint.tls)

    def token(self) -> str:
        """Returns the token. Raises SourceError if the endpoint is unreachable, denies the request, or returns no
        token.
        """
        if time.monotonic() >= self._until:
            file = self._endpoint.url.startswith("file:")
            token, life_s = (self._read_file(), 0.0) if file else self._fetch()
            if not _TOKEN.fullmatch(token):
                raise SourceError(f"{self._endpoint.url}: it doesn't return a bearer token. Is it the right one?")
            self._token, self._until = Secret(token), time.monotonic() + life_s * _REFRESH_FACTOR
        return self._token

    def extensions(self) -> dict[str, str]:
        """Returns the SASL extensions that accompany the token: logicalCluster and identityPoolId of Confluent
        Cloud.
        """
        return {name: str.__str__(value) for name, value in self._endpoint.extensions.items()}

    def _read_file(self) -> str:
        """Returns the token in a file. Raises ConfigError if the file can't be read."""
        file = unquote(urlsplit(self._endpoint.url).path)
        try:
            return read_file(file).decode("utf-8-sig").strip()
        except (OSError, ValueError) as error:  # no UTF-8, or a path with NUL
            reason = getattr(error, "strerror", None) or "no text"
            setting = f"{self._endpoint.url_setting} {self._endpoint.url}"
            raise ConfigError(f"{setting}: {reason}. Give a readable file with a token.") from None

    def _fetch(self) -> tuple[str, float]:
        """Requests a token with client credentials (RFC 6749, section 4.4). Returns it and its lifetime in seconds."""
        with needs_extra("OAUTHBEARER needs requests", "kafka"):
            import requests
            from urllib3.exceptions import HTTPError

            from spark_assign.sources.auth import http_session
        endpoint, context = self._endpoint, self._context
        form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
        assert context is not None
        retries = http_session.patience(endpoint.attempts, "POST")

        def respond() -> tuple[requests.Response, bytes]:
            with (
                http_session.session(context, _basic(endpoint), retries) as session,
                session.post(
                    endpoint.url,
                    form,
                    headers={"Accept": "application/json"},
                    timeout=(endpoint.connect_s, endpoint.read_s),
                    allow_redirects=False,
                    stream=True,
                ) as response,
            ):
                return response, http_session.body(response, _MAX_BYTES)

        try:
            response, content = within(http_session.MAX_RESPONSE_S, respond)
        except http_session.TooLargeError:
            raise SourceError(f"{endpoint.url}: the answer is too large. Is it a token endpoint?") from None
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            error_text = hidden(str(http_session.cause(error)) or type(error).__name__, _secrets(endpoint))
            error_text = shortened(error_text, _MAX_ERROR)
            raise SourceError(
                f"{endpoint.url}: no token ({error_text}). Check {endpoint.url_setting}, proxies, and for its "
                f"certificate {endpoint.trust_setting}."
            ) from None
        return self._parse_response(response, content)

    def _parse_response(self, response: Any, content: bytes) -> tuple[str, float]:
        """Returns the token of a response and its lifetime in seconds. Raises SourceError."""
        endpoint = self._endpoint
        try:
            fields = json.loads(content)
        except (ValueError, RecursionError):
            fields = {}
        fields = fields if isinstance(fields, dict) else {}
        if response.status_code != 200:
            given = (str(fields[key]) for key in ("error", "error_description") if fields.get(key))
            texts = [hidden(text, _secrets(endpoint)) for text in (response.reason or "", *given)]
            reason, *causes = (shortened(text, _MAX_ERROR) for text in texts)
            text = f"{response.status_code} {reason}" + (f", {' '.join(causes)}" if causes else "")
            raise SourceError(f"{endpoint.url}: no token ({text}). Check the client's id, its secret and the scope.")
        # Kafka takes id_token where there is no access_token (JwtResponseParser).
        token = fields.get("access_token") or fields.get("id_token")
        if not isinstance(token, str):
            raise SourceError(f"{endpoint.url}: the answer has no access_token. Is it a token endpoint?")
        life = fields.get("expires_in")
        return token, float(min(life, _MAX_LIFE_S)) if isinstance(life, int | float) and life > 0 else _UNKNOWN_LIFE_S


def _secrets(endpoint: TokenEndpoint) -> list[Secret]:
    """Returns what an endpoint can repeat of the request, and no message may."""
    return [endpoint.client_secret, Secret(_basic(endpoint).partition(" ")[2])]


def _basic(endpoint: TokenEndpoint) -> Secret:
    """Returns the Authorization header of the client."""
    parts = [endpoint.client_id, str.__str__(endpoint.client_secret)]
    if endpoint.url_encoded:
        parts = [quote_plus(part, errors="replace") for part in parts]
    return Secret("Basic " + base64.b64encode(":".join(parts).encode(errors="replace")).decode())
