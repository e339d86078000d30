"""Converts a Java client's properties to kafka-python's settings.

Every Kafka setting that affects authentication or encryption is applied, or rejected by name; none is silently
ignored. Settings that don't matter for reading (`group.id`, serializers, …) are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from spark_assign.sources.auth import oauth as client_oauth
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.properties import Login
from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError

_SERVER = re.compile(r"(?:[\w.%-]*://)?(?:\[[^][@/\s]+\]|[^][@/?#\s:]+|[0-9A-Fa-f:.]+)?(?::0*(?P<port>[0-9]+))?")
"""A server of `bootstrap.servers`. The port is optional, as in kafka-python."""
_MAX_LABEL = 64
"""Length from which a part of a host name between two dots is none."""
_PORT_DIGITS = 5
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS = (*_PASSWORDS, "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
_RENAMED = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_MILLISECONDS = {
    "request.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
_JAVA_CLASS_REMEDY = "names a class of Java, which this client cannot load. Take it out"
_UNSUPPORTED = {
    "security.providers": _JAVA_CLASS_REMEDY,
    "ssl.engine.factory.class": _JAVA_CLASS_REMEDY,
    "ssl.provider": _JAVA_CLASS_REMEDY,
    "sasl.login.class": _JAVA_CLASS_REMEDY,
    "ssl.cipher.suites": "Java's names of ciphers mean nothing to OpenSSL. Take it out; the server's choice is taken",
    "enable.ssl.certificate.verification": "certificates are always verified. Name the authority in ssl.ca.location",
}
_ASSERTIONS = "sasl.oauthbearer.assertion."
_RETRIEVERS = ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
_OAUTH_HANDLERS = ("", "OAuthBearerLoginCallbackHandler")
_IAM_HANDLERS = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")
_NAMES = {
    "sasl.client": "callback.handler.class",
    "sasl.login": "callback.handler.class connect.timeout.ms read.timeout.ms retry.backoff.ms retry.backoff.max.ms",
    "sasl.login.refresh": "buffer.seconds min.period.seconds window.factor window.jitter",
    "sasl.kerberos": "kinit.cmd min.time.before.relogin ticket.renew.jitter ticket.renew.window.factor",
    "sasl.oauthbearer": "client.id client.secret extensions header.urlencode method scope",
    "sasl.oauthbearer.client.credentials.client": "id secret",
    "sasl.oauthbearer.jwt": "retriever.class validator.class",
    "sasl.oauthbearer.scope": "claim.name",
    "sasl.oauthbearer.sub": "claim.name",
    "ssl": "protocol enabled.protocols endpoint.identification.algorithm secure.random.implementation",
    "ssl.ca": "location pem",
    "ssl.certificate": "location pem",
    "ssl.key": "location pem password",
    "ssl.keymanager": "algorithm",
    "ssl.keystore": "location password type certificate.chain key",
    "ssl.trustmanager": "algorithm",
    "ssl.truststore": "location password type certificates",
}
"""Further known properties: names by prefix."""
KNOWN = {
    *_RENAMED,
    *_MILLISECONDS,
    *_UNSUPPORTED,
    client_properties.JAAS_KEY,
    client_oauth.URL,
    *(f"{prefix}.{name}" for prefix, names in _NAMES.items() for name in names.split()),
}
_SPACES = ("sasl.", "ssl.", "security.")


def settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns kafka-python's settings for Java's (or librdkafka's) properties, and under `secrets` all values that
    must stay hidden.

    Opens key and trust stores. Raises ConfigError for invalid values, for stores that can't be opened, for settings
    that this client doesn't support, and for keys that look misspelled. The message names the file and the key, and
    never a value that can be secret.
    """
    try:
        return _settings(properties)
    except ConfigError as error:
        origin = getattr(properties, "origin", "")
        raise ConfigError(f"{origin}: {error}") if origin else error from None


def _settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns the result of `settings`. Its errors don't name the file."""
    _check_keys(properties)
    client_settings: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _RENAMED and value:
            secret = _RENAMED[key] == "sasl_plain_password"
            client_settings[_RENAMED[key]] = as_java_encodes(value) if secret else as_java_encodes(value).strip()
        elif key in _MILLISECONDS:
            number = value.strip()
            if not (number.isascii() and number.isdigit() and len(number) < 20):
                raise ConfigError(f"{key}: expected a number of milliseconds")
            client_settings[_MILLISECONDS[key]] = int(number)
    protocol = client_settings.setdefault("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"security.protocol: expected one of {', '.join(_PROTOCOLS)}{_found(protocol)}")
    login = client_properties.parse_login(properties.get(client_properties.JAAS_KEY, ""))
    if protocol.startswith("SASL_"):
        mechanism = client_settings.get("sasl_mechanism")
        if mechanism not in _MECHANISMS:
            raise ConfigError(f"sasl.mechanism: expected one of {', '.join(_MECHANISMS)}{_found(mechanism)}")
        client_settings |= _LOGINS.get(mechanism, _password)(properties, login, client_settings)
    tls = client_tls.tls(properties)
    if protocol.endswith("SSL"):
        client_settings["ssl_context"] = client_tls.context(tls)
    if "sasl_plain_password" in client_settings:
        client_settings["sasl_plain_password"] = Secret(client_settings["sasl_plain_password"])
    client_settings["secrets"] = _secrets(properties, login)
    return client_settings


def check_servers(bootstrap_servers: str) -> None:
    """Raises ConfigError for what can't be servers. It doesn't repeat what is before an @, which can be a password."""
    servers = [server.strip() for server in bootstrap_servers.split(",")]
    if not any(servers) or not all(map(_can_be_server, servers)):
        text = f"Kafka at {bootstrap_servers.rpartition('@')[2]:.1000}: expected HOST:PORT,…"
        raise ConfigError(f"{text}. Correct --bootstrap-server.")


def _can_be_server(text: str) -> bool:
    """Checks whether a text has the form of a server, with a port from 1 to 65,535 if any."""
    found = _SERVER.fullmatch(text)
    port = found and found["port"]
    is_port = port is None or (len(port) <= _PORT_DIGITS and 0 < int(port) < 1 << 16)
    return found is not None and is_port and len(max(text.split("."), key=len)) < _MAX_LABEL


def as_java_encodes(text: str) -> str:
    """Replaces an unpaired surrogate by a question mark, as Java's getBytes(UTF_8) does. Python would raise an
    error.
    """
    return text.encode("utf-8", "replace").decode()


def _check_keys(properties: Mapping[str, str]) -> None:
    """Raises ConfigError for unsupported or misspelled properties."""
    for key in properties:
        if key in _UNSUPPORTED and properties[key].strip() and not _harmless(key, properties[key]):
            raise ConfigError(f"{key}: {_UNSUPPORTED[key]}")
        if key.startswith(_ASSERTIONS):
            raise ConfigError(f"{key}: assertions are not supported. Give client.credentials, or a token by file:///…")
        check_spelling(key)
    retriever = properties.get("sasl.oauthbearer.jwt.retriever.class", "").strip().rpartition(".")[2]
    if retriever not in _RETRIEVERS:
        raise ConfigError(f"sasl.oauthbearer.jwt.retriever.class: expected one of {', '.join(_RETRIEVERS[1:])}")
    for side, known in (("client", _IAM_HANDLERS[:1]), ("login", (*_OAUTH_HANDLERS[1:], _IAM_HANDLERS[1]))):
        key = f"sasl.{side}.callback.handler.class"
        handler = properties.get(key, "").strip()
        if handler and handler.rpartition(".")[2] not in known:
            raise ConfigError(f"{key}: {_JAVA_CLASS_REMEDY}; known are {', '.join(known)}")


def check_spelling(key: str) -> None:
    """Raises ConfigError for a key that looks like a misspelled security setting."""
    if key.startswith(_SPACES) and key not in KNOWN:
        close_matches = get_close_matches(key, KNOWN, 1, 0.9)
        if close_matches:
            raise ConfigError(f"{key}: no setting of Kafka's clients. Did you mean {close_matches[0]}?")


def _found(value: str | None) -> str:
    """Returns what was found, unless it can be more than a name, such as the next property."""
    return f", found {value}" if value is None or re.fullmatch(r"[\w-]{0,30}", value) else ""


def _harmless(key: str, value: str) -> bool:
    """Checks whether an unsupported property has a value without effect."""
    return key == "enable.ssl.certificate.verification" and value.strip().lower() == "true"


def _password(_: Mapping[str, str], login: Login, client_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of PLAIN and SCRAM. Raises ConfigError without user name or password."""
    names = {"username": "sasl_plain_username", "password": "sasl_plain_password"}
    credentials = {names[name]: as_java_encodes(text) for name, text in login.options.items() if name in names}
    if not set(names.values()) <= {**client_settings, **credentials}.keys():
        raise ConfigError(
            f"sasl.jaas.config: {client_settings['sasl_mechanism']} needs a user name and a password "
            '(…LoginModule required username="…" password="…";)'
        )
    return credentials


def _kerberos(_: Mapping[str, str], login: Login, __: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of GSSAPI. Raises ConfigError for a keytab."""
    if login.options.get("useKeyTab", "").lower() == "true":
        raise ConfigError(
            "sasl.jaas.config, useKeyTab: this client takes its ticket from the cache. Run kinit -kt KEYTAB PRINCIPAL, "
            "and set useTicketCache=true"
        )
    service = login.options.get("serviceName")
    return {"sasl_kerberos_service_name": str.__str__(service)} if service else {}


def _oauth(properties: Mapping[str, str], login: Login, _: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of OAUTHBEARER: a token provider for an endpoint, a file, or AWS IAM."""
    handler = properties.get("sasl.login.callback.handler.class", "").strip().rpartition(".")[2]
    if handler in _IAM_HANDLERS or login.module == "IAMLoginModule":
        from spark_assign.sources.auth import iam as client_iam

        return {"sasl_oauth_token_provider": _provider(client_iam.iam(login.options))}
    unsecured = [name for name in login.options if name.startswith("unsecuredLogin")]
    if unsecured:
        raise ConfigError(
            f"sasl.jaas.config, {unsecured[0]}: unsecured tokens are not made here. Put one into a file, and give "
            f"{client_oauth.URL}=file:///…"
        )
    return {"sasl_oauth_token_provider": _provider(client_oauth.Tokens(client_oauth.endpoint(properties, login)))}


def _iam(_: Mapping[str, str], login: Login, client_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of AWS_MSK_IAM."""
    from spark_assign.sources.auth import iam as client_iam

    if client_settings["security_protocol"] != "SASL_SSL":
        raise ConfigError("security.protocol: AWS_MSK_IAM needs SASL_SSL")
    if login.module not in ("", "IAMLoginModule"):
        raise ConfigError("sasl.jaas.config: AWS_MSK_IAM needs software.amazon.msk.auth.iam.IAMLoginModule required;")
    client_iam.speak()
    return {"sasl_oauth_token_provider": client_iam.iam(login.options)}


_LOGINS: dict[str, Callable[[Mapping[str, str], Login, Mapping[str, Any]], dict[str, Any]]] = {
    "OAUTHBEARER": _oauth,
    "AWS_MSK_IAM": _iam,
    "GSSAPI": _kerberos,
}


def _provider(tokens: Any) -> Any:
    """Returns tokens, which kafka-python then takes for an instance of its class for token providers."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    AbstractTokenProvider.register(type(tokens))
    return tokens


def _secrets(properties: Mapping[str, str], login: Login) -> tuple[Secret, ...]:
    """Returns all values that are secret by the names of their keys, including short ones."""
    names = ("password", "secret", "keystore.key", "key.pem")
    texts = [text for key, text in properties.items() if key.endswith(names)]
    texts += [text for name, text in login.options.items() if name.lower().endswith(("password", "secret"))]
    return tuple(Secret(secret) for text in texts for secret in {text, as_java_encodes(text)} if text)
