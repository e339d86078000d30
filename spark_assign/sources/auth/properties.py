"""Reads a Java client's properties file, in the format of java.util.Properties, and the login module in
sasl.jaas.config.

`settings` interprets the keys. `sasl.jaas.config` is parsed as Kafka's JaasConfig does with Java's StreamTokenizer:
a login module and its options. Everything that Kafka accepts is accepted with the same result; in addition, unquoted
values can have digits and signs. In a StreamTokenizer, a single slash starts a comment too, and its first character
is only checked for another slash or a star. Hence after a slash at the end of a line, the next line is part of the
comment.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spark_assign.sources.auth.secret import Secret, secret_as_file
from spark_assign.stores.locations import read_file
from spark_assign.tables.errors import ConfigError, needs_extra

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_BLANKS = " \t\f"

log = logging.getLogger(__name__)


class Properties(dict[str, str]):
    """Properties of a client, and the file or secret that they come from, for errors."""

    origin = ""


def read(path: str | Path, origin: str | None = None) -> Properties:
    """Returns the properties of a file, which errors name as `origin` (default: its path).

    Raises ConfigError if the file can't be read, is a device, or has more than a megabyte.
    """
    origin = f"client properties {origin or path}"
    try:
        content = read_file(path)
    except (OSError, ValueError) as error:  # ValueError: a path with NUL
        raise ConfigError(f"{origin}: {getattr(error, 'strerror', None) or error}. Give a readable file.") from None
    try:
        properties = parse(decode(content), origin)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    properties.origin = origin
    return properties


def decode(content: bytes) -> str:
    """Returns the text of a file: UTF-8 (a byte order mark is ignored), or else Latin-1, as Java's Properties.load."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_location(location: str | None) -> Properties:
    """Returns the properties of a file or of a Databricks secret (`secret_as_file`), or none without a location."""
    if not location:
        return Properties()
    with secret_as_file(location) as file:
        return read(file, location)


def parse(text: str, origin: str = "client properties") -> Properties:
    """Returns the properties of a text. Every value is a Secret, because any of them can be one.

    Follows java.util.Properties.load(Reader), by `javaproperties`: of a key that occurs twice, the last value counts,
    and a warning says so. Raises ConfigError for a malformed escape.
    """
    with needs_extra("properties files need javaproperties", "kafka"):
        import javaproperties
    properties = Properties()
    lines = again = 0
    try:
        for element in javaproperties.parse("".join(_lines_as_java(text))):
            lines += len(_LINE.findall(element.source))
            if isinstance(element, javaproperties.KeyValue):
                again = again or (lines if element.key in properties else 0)
                properties[element.key] = Secret(element.value)
    except javaproperties.InvalidUEscapeError:
        # The library's message repeats the text, which can be a part of a password.
        raise ConfigError(f"line {lines + 1}: expected four hexadecimal digits after \\u") from None
    if again:
        log.warning("%s: the key of line %d isn't new. The last value of a key counts, as in Java", origin, again)
    return properties


def _lines_as_java(text: str) -> Iterator[str]:
    """Yields the lines, adjusted where Java and javaproperties differ, and with those that continue it in one line:
    javaproperties takes quadratic time for them. Empty lines keep the line numbers right.

    A line with a single backslash starts nothing in Java: the next line is handled as a first line, and skipped if
    it is a comment. javaproperties continues the line. At the end of a text, such a line is an empty key.
    """
    parts, ends = list[str](), list[str]()
    is_single_backslash = False
    for line in _LINE.findall(text):
        body, end = line.lstrip(_BLANKS).rstrip("\r\n"), line[len(line.rstrip("\r\n")) :]
        is_single_backslash = not parts and body == "\\"
        is_comment = not parts and body[:1] in ("#", "!")
        if is_single_backslash:
            yield end
        elif not is_comment and (len(body) - len(body.rstrip("\\"))) % 2 == 1:
            parts.append(body[:-1])
            ends.append(end)
        else:
            yield "".join([*parts, body, end, *ends])
            parts, ends = [], []
    yield "".join([*parts, *ends])
    if is_single_backslash and end != "\r\n":
        yield "\n="


JAAS_KEY = "sasl.jaas.config"
_TOKEN = re.compile(
    r"""\s+|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/.?[^\r\n]*"""
    r"""|(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|(?=[\r\n]))"""
    r"""|(?P<sign>[=;])|(?P<word>[^\s;="'/]+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Login:
    """The class of the login module, without its package, and its options. Every option is a Secret."""

    module: str = ""
    options: dict[str, Secret] = field(default_factory=dict)


def parse_login(config: str) -> Login:
    """Parses `org.apache…LoginModule required username="u" password="p";`. Raises ConfigError, and repeats no part
    of it.
    """
    tokens = _tokens(config)
    if not tokens:
        return Login()
    if tokens[-1] != ("sign", ";"):
        raise ConfigError(f"{JAAS_KEY}: expected a semicolon at the end")
    if tokens.count(("sign", ";")) > 1:
        raise ConfigError(f"{JAAS_KEY}: expected one login module, found several")
    module, flag, *pairs = tokens[:-1] if len(tokens) > 2 else (("", ""), ("", ""))
    if module[0] == "sign" or flag[0] == "sign" or flag[1].lower() not in _FLAGS:
        raise ConfigError(f'{JAAS_KEY}: expected a login module\'s class and `required`, then options as name="value"')
    options = {}
    for name, sign, value in zip(pairs[::3], pairs[1::3], pairs[2::3], strict=False):
        if sign != ("sign", "=") or "sign" in (name[0], value[0]):
            raise ConfigError(
                f'{JAAS_KEY}: expected options as name="value"; quote values with other signs than letters'
            )
        options[name[1]] = Secret(value[1])
    if len(pairs) % 3:
        raise ConfigError(f'{JAAS_KEY}: expected options as name="value", found one without a value')
    return Login(module[1].rpartition(".")[2], options)


_FLAGS = ("required", "requisite", "sufficient", "optional")


def _tokens(config: str) -> list[tuple[str, str]]:
    """Returns the tokens as pairs of kind (word, sign) and text."""
    tokens = []
    position = 0
    while position < len(config):
        match = _TOKEN.match(config, position)
        if match is None:
            raise ConfigError(f"{JAAS_KEY}: a quotation mark is not closed")
        position = match.end()
        if match["quote"]:
            tokens.append(("word", _ESCAPE.sub(_unescaped, match["quoted"])))
        elif match["sign"] or match["word"]:
            tokens.append(("sign" if match["sign"] else "word", match["sign"] or match["word"]))
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    """Returns the character of an escape sequence."""
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)
