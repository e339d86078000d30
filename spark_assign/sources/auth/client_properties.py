"""A Java client's properties file, as every Kafka tool takes it, read as java.util.Properties reads it.

`client_settings` says what its keys mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError, missing_extra

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_BLANKS = " \t\f"


def read(path: str | Path) -> dict[str, str]:
    """The properties in a file, by their own names.

    UTF-8 (a byte order mark is passed over), or where it is none Latin-1, as Java's Properties.load takes bytes. Raises
    ConfigError where the file cannot be read.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"client properties {path}: {error.strerror}. Give a readable file.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"client properties {path}: {error}") from None


def parse(text: str) -> dict[str, str]:
    """The properties in a text; every value is a Secret, because any of them may be one.

    java.util.Properties.load(Reader), by `javaproperties`. Raises ConfigError for a malformed escape.
    """
    try:
        import javaproperties
    except ImportError as error:
        raise missing_extra("properties files need javaproperties", "kafka") from error
    properties: dict[str, str] = {}
    lines = 0
    try:
        for element in javaproperties.parse("".join(_as_java_begins_lines(text))):
            lines += len(_LINE.findall(element.source))
            if isinstance(element, javaproperties.KeyValue):
                properties[element.key] = Secret(element.value)
    except javaproperties.InvalidUEscapeError:
        # The library's message repeats what stands there, which may be of a password.
        raise ConfigError(f"line {lines + 1}: expected four hexadecimal digits after \\u") from None
    return properties


def _as_java_begins_lines(text: str) -> Iterator[str]:
    """The lines, without those that Java does not begin with.

    A backslash alone in a line begins nothing: Java looks at the next line as if it were the first, and passes over
    it if it is a comment; javaproperties goes on with it. As the last line of a text it is an empty key.
    """
    continued = False
    alone = False
    for line in _LINE.findall(text):
        body = line.lstrip(_BLANKS).rstrip("\r\n")
        alone = not continued and body == "\\"
        if alone:
            # An empty line in its place, so that lines are counted right.
            yield line[len(line.rstrip("\r\n")) :]
            continue
        continued = (continued or body[:1] not in ("#", "!")) and (len(body) - len(body.rstrip("\\"))) % 2 == 1
        yield line
    if alone and not line.endswith("\r\n"):
        yield "\n="
