"""Writes names into other languages, one function per language.

Whoever can join a group chooses its ID, client IDs, and instance IDs. A name reaches a command, a settings file, or a
diagram only through these functions. HTML, CSV, and metrics are written by libraries (Jinja, `csv`,
prometheus-client). Each function returns one line of printable characters, so printing it doesn't change it.
"""

from __future__ import annotations

import glob
import hashlib
import html
import re

_PROPERTIES_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]")
_LITERAL_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SHELL_IN_QUOTES = "$`!"
"""Characters that a shell obeys between double quotes."""
_MERMAID_SYNTAX = re.compile(r"[#;%{}<>$&`\"ﬂ°¶]|(?<=wrap):|style|classdef|\bend\b", re.IGNORECASE)
"""Mermaid reads `wrap:` at the start of a name and `style…:…;` in a line; its own codes become `ﬂ°°35¶ß`."""

_CHAT_SYNTAX, _MAX_CHAT = re.compile(r"[@\[\]]"), 500


def shell_word(text: str) -> str:
    """Returns a text as one word of a POSIX shell.

    A text with characters that aren't printable becomes `$'…'` (POSIX.1-2024; bash, ksh, zsh). NUL, which no argument
    can have, becomes U+FFFD, so the word names nothing instead of something else.
    """
    if text.isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    text = text.replace("\0", "\ufffd")
    octal = (
        each if each.isprintable() and each not in "\\'" else "".join(f"\\{byte:03o}" for byte in _utf8(each))
        for each in text
    )
    return f"$'{''.join(octal)}'"


def shell_pattern_word(text: str) -> str:
    """Returns a shell pattern that matches exactly this text (`spark.shell_patterns`), as one word of a shell."""
    return shell_word(glob.escape(text))


def properties_value(text: str) -> str:
    """Returns a text as a value of a Java properties file (java.util.Properties.load).

    Everything that isn't plain becomes `\\uXXXX`, so the line is harmless in a shell, too.
    """
    return "".join(each if _PROPERTIES_PLAIN.fullmatch(each) else _utf16(each) for each in text)


def string_literal(text: str) -> str:
    """Returns a text in double quotes, as a scalar of YAML, and a string literal of Python and Go.

    The three have the escapes that are used in common. What a shell obeys between double quotes is escaped, too.
    """
    return f'"{"".join(map(_literal_character, text))}"'


def kubernetes_name(text: str, *others: str) -> str:
    """Returns a text as the name of an object in Kubernetes: lower-case letters, digits, and hyphens (RFC 1123), of at
    most 63 characters, which a label can have, too. A text that is none is changed, and ends with a hash of it.

    A text that looks like such a result gets a longer hash, so that it isn't the name of another text. So does a text
    with `others`, which are hashed with it.
    """
    is_label = len(text) <= _MAX_LABEL and _LABEL.fullmatch(text)
    if is_label and not others and not _WITH_HASH.search(text):
        return text
    name = re.sub("[^a-z0-9]+", "-", text[:40].lower()).strip("-")
    hashed = hashlib.sha256((repr((text, *others)) if others else text).encode(errors="surrogatepass")).hexdigest()
    return f"{name or 'group'}-{hashed[: 16 if is_label or others else 8]}"


_LABEL, _MAX_LABEL = re.compile("[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"), 63
_WITH_HASH = re.compile(r"-[0-9a-f]{8}(?:[0-9a-f]{8})?\Z")

MAX_CODE = 100
"""Maximum number of characters of a name in a text for reviewers."""
_BACKTICKS = re.compile(r"`+")


def markdown_code(text: str) -> str:
    """Returns a text as a code span of Markdown, also for a cell of a table, cut at `MAX_CODE` characters.

    Markdown obeys nothing inside a code span: no link, no image, no `@name`, no HTML. The fence is longer than any run
    of backticks inside (CommonMark 6.1). A `|`, which ends a cell before code spans are found, becomes `\\x7c`.
    """
    shown = in_text(text, MAX_CODE).replace("|", "\\x7c")
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    is_plain = shown.strip(" ") == shown != "" and not shown.startswith("`") and not shown.endswith("`")
    return f"{fence}{shown}{fence}" if is_plain else f"{fence} {shown or '(empty)'} {fence}"


def markdown_block(text: str) -> list[str]:
    """Returns the lines of a fenced code block of Markdown, which no line of the text can end."""
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    return [f"{fence}text", *map(comment_text, text.split("\n")), fence]


def comment_text(text: str) -> str:
    """Returns a text for a comment that ends with the line: each line end or other control character as an escape."""
    return "".join(each if each.isprintable() else _literal_character(each) for each in text)


def in_text(name: str, most: int = 249) -> str:
    """Returns a name for a sentence: one line, cut at `most` characters. The default is the longest name of a topic."""
    shown = comment_text(name[: most + 1])
    return shown if len(shown) <= most else f"{shown[:most]}…"


def mermaid_text(text: str) -> str:
    """Returns a text for a label of a Mermaid diagram: its special characters, its keywords, and everything that isn't
    printable as character codes.
    """
    escaped = _MERMAID_SYNTAX.sub(lambda match: f"#{ord(match[0][0])};{match[0][1:]}", text)
    return "".join(each if each.isprintable() else f"#{ord(each)};" for each in escaped)


def chat_text(text: str) -> str:
    """Returns the start of a text for a message of Slack, Mattermost, or Teams, as one line in which nothing is a link
    with another text, or notifies a channel.
    """
    shown = _CHAT_SYNTAX.sub(lambda match: f"\\x{ord(match[0]):02x}", in_text(text, _MAX_CHAT))
    return html.escape(shown, quote=False)


def _literal_character(character: str) -> str:
    if character in _LITERAL_ESCAPES:
        return _LITERAL_ESCAPES[character]
    if character.isprintable() and character not in _SHELL_IN_QUOTES:
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def _utf8(character: str) -> bytes:
    return character.encode("utf-8", "replace")


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
