"""`sasl.jaas.config`: a login module and its options, as Kafka's JaasConfig reads them with Java's StreamTokenizer.

What Kafka takes is taken alike; beside that values without quotation marks may have digits and signs in them. To a
StreamTokenizer a single slash, too, begins a comment, of which the first character is looked at only for another slash
or a star: behind a slash at the end of a line the next line is part of the comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError

KEY = "sasl.jaas.config"
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
    """The module's class, without its package, and its options; every option is a Secret."""

    module: str = ""
    options: dict[str, Secret] = field(default_factory=dict)


def login(config: str) -> Login:
    """`org.apache…LoginModule required username="u" password="p";`. Raises ConfigError, and repeats nothing of it."""
    tokens = _tokens(config)
    if not tokens:
        return Login()
    if tokens[-1] != ("sign", ";"):
        raise ConfigError(f"{KEY}: expected a semicolon at the end")
    if tokens.count(("sign", ";")) > 1:
        raise ConfigError(f"{KEY}: expected one login module, found several")
    module, flag, *pairs = tokens[:-1] if len(tokens) > 2 else (("", ""), ("", ""))
    if module[0] == "sign" or flag[0] == "sign" or flag[1].lower() not in _FLAGS:
        raise ConfigError(f'{KEY}: expected a login module\'s class and `required`, then options as name="value"')
    options = {}
    for name, sign, value in zip(pairs[::3], pairs[1::3], pairs[2::3], strict=False):
        if sign != ("sign", "=") or "sign" in (name[0], value[0]):
            raise ConfigError(f'{KEY}: expected options as name="value"; quote values with other signs than letters')
        options[name[1]] = Secret(value[1])
    if len(pairs) % 3:
        raise ConfigError(f'{KEY}: expected options as name="value", found one without a value')
    return Login(module[1].rpartition(".")[2], options)


_FLAGS = ("required", "requisite", "sufficient", "optional")


def _tokens(config: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while at < len(config):
        match = _TOKEN.match(config, at)
        if match is None:
            raise ConfigError(f"{KEY}: a quotation mark is not closed")
        at = match.end()
        if match["quote"]:
            found.append(("word", _ESCAPE.sub(_unescaped, match["quoted"])))
        elif match["sign"] or match["word"]:
            found.append(("sign" if match["sign"] else "word", match["sign"] or match["word"]))
    return found


def _unescaped(match: re.Match[str]) -> str:
    said = match[1]
    return chr(int(said, 8)) if said[0] in "01234567" else _ESCAPES.get(said, said)
