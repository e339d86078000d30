"""Converts a Java client's properties to kafka-python's settings.

Every Kafka setting that affects authentication or encryption is applied, or rejected by name; none is silently
ignored. Settings that don't matter for reading (`group.id`, serializers, …) are ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.msk import AwsMskIamClient, SaslMechanismAwsMskIam

from spark_assign.sources.auth import oauth as client_oauth
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.auth.properties import Login
from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError, SourceError, missing_extra

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
    that this client doesn't support, and for keys that look misspelled. The message names the key, and never a value
    that can be secret.
    """
    _check_keys(properties)
    client_settings: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _RENAMED and value:
            secret = _RENAMED[key] == "sasl_plain_password"
            client_settings[_RENAMED[key]] = as_java_encodes(value) if secret else as_java_encodes(value).strip()
        elif key in _MILLISECONDS:
            if not (value.strip().isascii() and value.strip().isdigit() and len(value) < 20):
                raise ConfigError(f"{key}: expected a number of milliseconds")
            client_settings[_MILLISECONDS[key]] = int(value)
    protocol = client_settings.setdefault("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"security.protocol: expected one of {', '.join(_PROTOCOLS)}, found {protocol}")
    login = client_properties.parse_login(properties.get(client_properties.JAAS_KEY, ""))
    if protocol.startswith("SASL_"):
        mechanism = client_settings.get("sasl_mechanism")
        if mechanism not in _MECHANISMS:
            raise ConfigError(f"sasl.mechanism: expected one of {', '.join(_MECHANISMS)}, found {mechanism}")
        client_settings |= _LOGINS.get(mechanism, _password)(properties, login, client_settings)
    tls = client_tls.tls(properties)
    if protocol.endswith("SSL"):
        client_settings["ssl_context"] = client_tls.context(tls)
    if "sasl_plain_password" in client_settings:
        client_settings["sasl_plain_password"] = Secret(client_settings["sasl_plain_password"])
    client_settings["secrets"] = _secrets(properties, login)
    return client_settings


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
        return {"sasl_oauth_token_provider": _provider(iam(login.options))}
    unsecured = [name for name in login.options if name.startswith("unsecuredLogin")]
    if unsecured:
        raise ConfigError(
            f"sasl.jaas.config, {unsecured[0]}: unsecured tokens are not made here. Put one into a file, and give "
            f"{client_oauth.URL}=file:///…"
        )
    return {"sasl_oauth_token_provider": _provider(client_oauth.Tokens(client_oauth.endpoint(properties, login)))}


def _iam(_: Mapping[str, str], login: Login, client_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of AWS_MSK_IAM."""

    if client_settings["security_protocol"] != "SASL_SSL":
        raise ConfigError("security.protocol: AWS_MSK_IAM needs SASL_SSL")
    if login.module not in ("", "IAMLoginModule"):
        raise ConfigError("sasl.jaas.config: AWS_MSK_IAM needs software.amazon.msk.auth.iam.IAMLoginModule required;")
    speak()
    return {"sasl_oauth_token_provider": iam(login.options)}


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


# --- IAM authentication of Amazon MSK: credentials and region as in aws-msk-iam-auth, and signed tokens for the broker
# ---
#
# For `sasl.mechanism=AWS_MSK_IAM`, kafka-python's own mechanism gets these credentials and the region of the broker's
# host name. For OAUTHBEARER with the callback handler of aws-msk-iam-auth, AWS's signer makes the token. A request to
# AWS itself is only made for a role (awsRoleArn).


_NEEDS = "AWS_MSK_IAM needs aws-msk-iam-sasl-signer-python"
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?$")
_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "external_id",
    "awsStsRegion": "sts_region",
}
_IGNORED_OPTIONS = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")


@dataclass(frozen=True)
class Iam:
    """Selects the credentials that sign: of a profile, of a role, or from AWS's default chain (environment, files,
    instance).
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "spark-assign-snapshot"
    external_id: str | None = None
    sts_region: str | None = None

    def session(self) -> Any:
        """Returns a botocore session."""
        try:
            from botocore.session import Session
        except ImportError as error:
            raise missing_extra(_NEEDS, "msk") from error
        return Session(profile=self.profile)

    def credentials(self) -> Any:
        """Returns the current credentials. Raises SourceError if there are none, or if the role is denied."""
        from botocore import exceptions
        from botocore.credentials import Credentials

        try:
            session = self.session()
            credentials = session.get_credentials()
            if credentials is None:
                raise SourceError(
                    "AWS_MSK_IAM: no AWS credentials. Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                    "a profile (awsProfileName), or run where a role is attached."
                )
            if self.role_arn:
                sts = session.create_client("sts", region_name=self.sts_region or self.region())
                external = {"ExternalId": self.external_id} if self.external_id else {}
                response = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.role_session_name, **external)
                role = response["Credentials"]
                credentials = Credentials(role["AccessKeyId"], role["SecretAccessKey"], role["SessionToken"])
            return credentials.get_frozen_credentials()
        except exceptions.ProfileNotFound as error:
            raise ConfigError(f"sasl.jaas.config, awsProfileName: {error}") from None
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise SourceError(f"AWS_MSK_IAM: no credentials ({error}). Check the role, and its trust.") from None

    def region(self, host: str = "") -> str:
        """Returns the region of the broker's host name, as aws-msk-iam-auth does; else AWS_REGION,
        AWS_DEFAULT_REGION, the profile's.
        """
        match = _HOST.search(host)
        region = (
            (match[1] if match else None)
            or os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
            or self.session().get_config_variable("region")
        )
        if not region:
            raise ConfigError(f"AWS_MSK_IAM: no region in the name of {host or 'a broker'}. Set AWS_REGION.")
        return str(region)

    def token(self) -> str:
        """Returns a token for OAUTHBEARER: a signed URL that is valid for 15 minutes, made by AWS's signer."""
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
            from botocore.credentials import CredentialProvider
        except ImportError as error:
            raise missing_extra(_NEEDS, "msk") from error
        frozen = self.credentials()

        class _Found(CredentialProvider):  # type: ignore[misc]  # botocore has no types
            def load(self) -> Any:
                return frozen

        token, _ = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(self.region(), _Found())
        return Secret(token)

    def extensions(self) -> dict[str, str]:
        """Returns no SASL extensions."""
        return {}


def iam(options: Mapping[str, str]) -> Iam:
    """Parses the options of IAMLoginModule. Raises ConfigError for an unknown option."""
    for name in options:
        if name not in _OPTIONS and name not in _IGNORED_OPTIONS:
            raise ConfigError(f"sasl.jaas.config, {name}: IAMLoginModule's options here are {', '.join(_OPTIONS)}")
    return Iam(**{ours: str.__str__(options[theirs]) for theirs, ours in _OPTIONS.items() if options.get(theirs)})


class SignedLogin(SaslMechanismAwsMskIam):  # type: ignore[misc]  # the library has no types
    """kafka-python's mechanism with our credentials and region instead of botocore's defaults."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._iam: Iam = config["sasl_oauth_token_provider"]

    def _build_client(self) -> AwsMskIamClient:
        credentials = self._iam.credentials()
        return AwsMskIamClient(
            self.host,
            credentials.access_key,
            credentials.secret_key,
            self._iam.region(self.host),
            token=credentials.token,
        )


def speak() -> None:
    """Registers `SignedLogin` as kafka-python's AWS_MSK_IAM mechanism. Raises ConfigError without AWS's libraries."""
    Iam().session()
    register_sasl_mechanism("AWS_MSK_IAM", SignedLogin, overwrite=True)
