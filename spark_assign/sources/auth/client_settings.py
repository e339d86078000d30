"""What a Java client's properties mean for this client: kafka-python's settings.

Every setting of Kafka's that decides how one gets in is honoured, or refused by name: nothing of it is ignored without
a word. Settings that do not matter for reading (`group.id`, serializers, …) are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from spark_assign.sources.auth import client_jaas, client_oauth, client_tls
from spark_assign.sources.auth.client_jaas import Login
from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError, missing_extra

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
_NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
_NO_JAVA = "names a class of Java, which this client cannot load. Take it out"
_REFUSED = {
    "security.providers": _NO_JAVA,
    "ssl.engine.factory.class": _NO_JAVA,
    "ssl.provider": _NO_JAVA,
    "sasl.login.class": _NO_JAVA,
    "ssl.cipher.suites": "Java's names of ciphers mean nothing to OpenSSL. Take it out; the server's choice is taken",
    "enable.ssl.certificate.verification": "certificates are always verified. Name the authority in ssl.ca.location",
}
_ASSERTIONS = "sasl.oauthbearer.assertion."
_RETRIEVERS = ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
_OAUTH_HANDLERS = ("", "OAuthBearerLoginCallbackHandler")
_IAM_HANDLERS = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")
KNOWN = {
    *_RENAMED,
    *_NUMBERS,
    *_REFUSED,
    client_jaas.KEY,
    client_oauth.URL,
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    *(f"sasl.login.refresh.{name}" for name in ("buffer.seconds", "min.period.seconds")),
    *(f"sasl.login.refresh.window.{name}" for name in ("factor", "jitter")),
    *(f"sasl.kerberos.{name}" for name in ("kinit.cmd", "min.time.before.relogin")),
    *(f"sasl.kerberos.ticket.renew.{name}" for name in ("jitter", "window.factor")),
    *(f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret")),
    *(
        f"sasl.oauthbearer.{name}"
        for name in ("client.id", "client.secret", "extensions", "header.urlencode", "method")
    ),
    *(f"sasl.oauthbearer.{name}" for name in ("scope", "scope.claim.name", "sub.claim.name")),
    *(f"sasl.oauthbearer.jwt.{name}.class" for name in ("retriever", "validator")),
    *(f"ssl.{store}.{name}" for store in ("truststore", "keystore") for name in ("location", "password", "type")),
    *(f"ssl.{name}" for name in ("truststore.certificates", "keystore.certificate.chain", "keystore.key")),
    *(f"ssl.{name}.{form}" for name in ("ca", "certificate", "key") for form in ("location", "pem")),
    *(f"ssl.{name}" for name in ("key.password", "protocol", "enabled.protocols", "endpoint.identification.algorithm")),
    *(f"ssl.{name}.algorithm" for name in ("keymanager", "trustmanager")),
    "ssl.secure.random.implementation",
}
_SPACES = ("sasl.", "ssl.", "security.")


def settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's settings for Java's (or librdkafka's) property names, and `secrets`, all that must not show.

    Opens stores. Raises ConfigError for values that make no sense, for stores that do not open, for what this client
    cannot honour and for what looks like a misspelt key; it names the key, and never a value that may be secret.
    """
    _check_keys(properties)
    found: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _RENAMED and value:
            secret = _RENAMED[key] == "sasl_plain_password"
            found[_RENAMED[key]] = as_java_encodes(value) if secret else as_java_encodes(value).strip()
        elif key in _NUMBERS:
            if not value.strip().isdigit():
                raise ConfigError(f"{key}: expected a number of milliseconds")
            found[_NUMBERS[key]] = int(value)
    protocol = found.setdefault("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"security.protocol: expected one of {', '.join(_PROTOCOLS)}, found {protocol}")
    login = client_jaas.login(properties.get(client_jaas.KEY, ""))
    if protocol.startswith("SASL_"):
        mechanism = found.get("sasl_mechanism")
        if mechanism not in _MECHANISMS:
            raise ConfigError(f"sasl.mechanism: expected one of {', '.join(_MECHANISMS)}, found {mechanism}")
        found |= _LOGINS.get(mechanism, _password)(properties, login, found)
    tls = client_tls.tls(properties)
    if protocol.endswith("SSL"):
        found["ssl_context"] = client_tls.context(tls)
    if "sasl_plain_password" in found:
        found["sasl_plain_password"] = Secret(found["sasl_plain_password"])
    found["secrets"] = _secrets(properties, login)
    return found


def as_java_encodes(text: str) -> str:
    """Half of a surrogate pair is a question mark, as in Java's getBytes(UTF_8); Python would refuse to send it."""
    return text.encode("utf-8", "replace").decode()


def _check_keys(properties: Mapping[str, str]) -> None:
    for key in properties:
        if key in _REFUSED and properties[key].strip() and not _harmless(key, properties[key]):
            raise ConfigError(f"{key}: {_REFUSED[key]}")
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
            raise ConfigError(f"{key}: {_NO_JAVA}; known are {', '.join(known)}")


def check_spelling(key: str) -> None:
    """Raises ConfigError for what looks like a misspelt setting of how one gets in."""
    if key.startswith(_SPACES) and key not in KNOWN:
        alike = get_close_matches(key, KNOWN, 1, 0.9)
        if alike:
            raise ConfigError(f"{key}: no setting of Kafka's clients. Did you mean {alike[0]}?")


def _harmless(key: str, value: str) -> bool:
    return key == "enable.ssl.certificate.verification" and value.strip().lower() == "true"


def _password(_: Mapping[str, str], login: Login, found: Mapping[str, Any]) -> dict[str, Any]:
    names = {"username": "sasl_plain_username", "password": "sasl_plain_password"}
    ours = {names[name]: as_java_encodes(text) for name, text in login.options.items() if name in names}
    if not set(names.values()) <= {**found, **ours}.keys():
        raise ConfigError(
            f"sasl.jaas.config: {found['sasl_mechanism']} needs a user name and a password "
            '(…LoginModule required username="…" password="…";)'
        )
    return ours


def _kerberos(_: Mapping[str, str], login: Login, __: Mapping[str, Any]) -> dict[str, Any]:
    if login.options.get("useKeyTab", "").lower() == "true":
        raise ConfigError(
            "sasl.jaas.config, useKeyTab: this client takes its ticket from the cache. Run kinit -kt KEYTAB PRINCIPAL, "
            "and set useTicketCache=true"
        )
    service = login.options.get("serviceName")
    return {"sasl_kerberos_service_name": str.__str__(service)} if service else {}


def _oauth(properties: Mapping[str, str], login: Login, _: Mapping[str, Any]) -> dict[str, Any]:
    handler = properties.get("sasl.login.callback.handler.class", "").strip().rpartition(".")[2]
    if handler in _IAM_HANDLERS or login.module == "IAMLoginModule":
        from spark_assign.sources.auth import client_iam

        return {"sasl_oauth_token_provider": _provider(client_iam.iam(login.options))}
    unsecured = [name for name in login.options if name.startswith("unsecuredLogin")]
    if unsecured:
        raise ConfigError(
            f"sasl.jaas.config, {unsecured[0]}: unsecured tokens are not made here. Put one into a file, and give "
            f"{client_oauth.URL}=file:///…"
        )
    return {"sasl_oauth_token_provider": _provider(client_oauth.Tokens(client_oauth.endpoint(properties, login)))}


def _iam(_: Mapping[str, str], login: Login, found: Mapping[str, Any]) -> dict[str, Any]:
    from spark_assign.sources.auth import client_iam

    if found["security_protocol"] != "SASL_SSL":
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
    """As kafka-python wants to have it: of a class of its own."""
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError as error:
        raise missing_extra("a snapshot needs kafka-python", "kafka") from error

    class _Provider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        def token(self) -> str:
            return str.__str__(tokens.token())

        def extensions(self) -> dict[str, str]:
            return dict(tokens.extensions())

    return _Provider()


def _secrets(properties: Mapping[str, str], login: Login) -> tuple[Secret, ...]:
    """All values that are secret by their names; short ones are, too."""
    names = ("password", "secret", "keystore.key", "key.pem")
    texts = [text for key, text in properties.items() if key.endswith(names)]
    texts += [text for name, text in login.options.items() if name.lower().endswith(("password", "secret"))]
    return tuple(Secret(each) for text in texts for each in {text, as_java_encodes(text)} if text)
