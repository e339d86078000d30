"""A Java client's properties file, as every Kafka tool takes it, turned into kafka-python's settings.

Secrets are marked: their `repr` shows nothing, and `hidden` takes them out of any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_assign.errors import ConfigError

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
_RENAMED = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
_SECRETS = {"sasl_plain_password", "ssl_password"}
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*("((?:[^"\\]|\\.)*)"|'([^']*)'|[^\s;"']+)""")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Secret(str):
    """Text that `repr` (and with it every printed dict, dataclass or traceback of locals) does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[hidden]'"


def hidden(text: str, settings: Mapping[str, Any]) -> str:
    """The text with every secret of the settings replaced by [hidden]."""
    for value in settings.values():
        if isinstance(value, Secret) and value:
            text = text.replace(str.__str__(value), "[hidden]")
    return text


def read(path: str | Path) -> dict[str, str]:
    """The properties in a file, by their own names. Raises ConfigError where the file cannot be read."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"client properties {path}: {error}. Give a readable UTF-8 file.") from None


def parse(text: str) -> dict[str, str]:
    """The properties in a text; every value is a Secret, because any of them may be one.

    java.util.Properties.load: comments, escapes, continued lines, `=`, `:` or blank as separator.
    """
    properties: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        entry = line.lstrip()
        if not entry or entry[0] in "#!":
            continue
        while _ends_in_escape(entry):
            entry = entry[:-1] + next(lines, "").lstrip()
        found = re.match(r"((?:\\.|[^\s=:\\])*)\s*[=:]?\s*(.*)", entry, re.DOTALL)
        if found:
            properties[_unescaped(found[1])] = Secret(_unescaped(found[2]))
    return properties


def settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's settings for Java's (or librdkafka's) property names.

    Keys that do not matter for reading (`group.id`, serializers, …) are passed over. Raises ConfigError for
    stores that are not PEM, for mechanisms that need code, and for values that are no numbers.
    """
    found: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _RENAMED and value:
            found[_RENAMED[key]] = value.strip() if _RENAMED[key] not in _SECRETS else value
        elif key in _NUMBERS:
            if not value.strip().isdigit():
                raise ConfigError(f"{key}: expected a number of milliseconds")
            found[_NUMBERS[key]] = int(value)
    found.update(_jaas(properties.get("sasl.jaas.config", "")))
    found.update(_tls(properties))
    _check(found)
    return {key: Secret(value) if key in _SECRETS else value for key, value in found.items()}


def _check(found: Mapping[str, Any]) -> None:
    protocol = found.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"security.protocol: expected one of {', '.join(_PROTOCOLS)}, found {protocol}")
    if not protocol.startswith("SASL_"):
        return
    mechanism = found.get("sasl_mechanism")
    if mechanism not in _MECHANISMS:
        raise ConfigError(f"sasl.mechanism: expected one of {', '.join(_MECHANISMS)}, found {mechanism}")
    if mechanism != "GSSAPI" and not {"sasl_plain_username", "sasl_plain_password"} <= found.keys():
        raise ConfigError(
            f"sasl.jaas.config: {mechanism} needs a user name and a password "
            '(…LoginModule required username="…" password="…";)'
        )


def _jaas(config: str) -> dict[str, str]:
    """The options of a JAAS line: `org.apache…LoginModule required username="u" password="p";`."""
    options = {
        match[1]: re.sub(r"\\(.)", r"\1", match[3]) if match[3] is not None else match[4] or match[2].strip("'\"")
        for match in _JAAS_OPTION.finditer(config)
    }
    names = {
        "username": "sasl_plain_username",
        "password": "sasl_plain_password",
        "serviceName": "sasl_kerberos_service_name",
    }
    return {ours: options[theirs] for theirs, ours in names.items() if theirs in options}


def _tls(properties: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    stores = (("ssl.truststore", ("ssl_cafile",)), ("ssl.keystore", ("ssl_certfile", "ssl_keyfile")))
    for store, ours in stores:
        location = properties.get(f"{store}.location")
        if location is None:
            continue
        kind = properties.get(f"{store}.type", "JKS").upper()
        if kind != "PEM":
            raise ConfigError(
                f"{store}.type: expected PEM, found {kind}. Convert the store "
                "(keytool -importkeystore to PKCS12, then openssl pkcs12 to PEM) and name the PEM file"
            )
        found.update(dict.fromkeys(ours, location))
    inline = ("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key")
    for key in inline:
        if key in properties:
            raise ConfigError(f"{key}: expected a PEM file in ssl.truststore.location or ssl.keystore.location")
    if properties.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        found["ssl_check_hostname"] = False
    return found


def _ends_in_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text)
