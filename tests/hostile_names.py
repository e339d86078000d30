"""Names that a stranger can choose, who only needs to join a group: tests write them in every language and output."""

from __future__ import annotations

import random
import re

from tests.sizes import drawn

NAMES = [
    # Shells, and quotes of all kinds.
    *("x; touch PWNED #", "$(touch PWNED)", "`touch PWNED`", "'; touch PWNED; '", '"; touch PWNED; "', "-rf", "--help"),
    *(
        "a\ntouch PWNED",
        "a>PWNED",
        "a&touch PWNED&",
        "\\",
        "\\\\",
        "'",
        '"',
        "it's",
        "'\"'\\",
        "‘a’",
        "“a”",
        "«a»",
        "!!",
    ),
    # YAML.
    *("a\nkind: Secret\n---\nb", "---", "--- a", "...", "yes", "no", "null", "~", "*x", "&x", "!x", "a: b", "a #b"),
    *("- a", "? a", "%x", "@x", "<<", "!!python/object:os.system", "1e3", "on", "N", "None", "true", "True", "false"),
    # White space, and texts that look empty.
    *(
        "a\rb",
        "a\r\nb",
        "a\nb",
        "a\tb",
        "a\x0bb",
        "a\x0cb",
        "a\x85b",
        "\n",
        "\r",
        "\t",
        "a\n",
        "a\\nb",
        "a\\rb",
        "a\\x0db",
    ),
    *("", " ", "  ", " a", "a ", "a", " a ", "a\x00", "\x00", "a\ufeff", "\ufeffa", "a\xa0", "\u3000", "(empty)"),
    # What a terminal obeys, and its codes as plain text.
    *("\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07", "\\x5cx1b", "\\u202egnp.exe", "\\U000e0041", "a\\x00"),
    *(chr(n) for n in (*range(1, 9), *range(14, 32), *range(127, 133), *range(134, 160), 0xAD)),
    *("\ufffe", "\uffff", "\u2028", "\u2029", "\u202egnp.exe", "\u2066x\u2069", "\u061cx", "\u200b", "\u200d"),
    *("\U000e0041", "\U0001f600", "\U0001f600\U000e0041", "\U0010ffff", "\ufffd", "\ufeffx\ufffe", "x\x00y"),
    # Texts that are equal to people, or after Unicode's normalization, or in lower case.
    *("e\u0301", "\xe9", "A\u030a", "\xc5", "\u212b", "a\u0308\u0323", "\u0301", "ORDERS", "orders", "Orders"),
    *("\u0130", "i\u0307", "ß", "ss", "K", "\u212a", "übersicht 支払い"),
    # Templates, HTML, Markdown, and chats.
    *("{{7*7}}", "{% raw %}", "{# x #}", "${x}", "$x", "%s", "%(x)s", "%{x}", "{0}", "{}", "{x", "<!--", "-->", "]]>"),
    *("[x](http://evil.example)", "![x](http://evil.example/x)", "<![CDATA[", "</script>", "<script>alert(1)</script>"),
    *('"><svg onload=alert(1)>', "' onload='alert(1)", "javascript:alert(1)", "data:text/html,x", "&amp;", "&lt;"),
    *("&#x41;", "@everyone", "<!channel>", "#channel", "|", "a|b", "`", "```", "~~~", "**x**", "_x_", "end"),
    # Paths, folders of partitions, and shell patterns.
    *("../../etc/passwd", "/etc/passwd", ".", "..", "a/b", "a\\b", "c:\\x", "cluster=x", "a=b", "%2F", "%00", "_x"),
    *("__HIVE_DEFAULT_PARTITION__", ".x", "_SUCCESS", "CON", "*", "?", "[a]", "[!a]", "?[!a]*", "a*"),
    # Numbers, times, and formulas.
    *("007", "7", "1_000", "1,000", "0x1F", "0o7", "1:30", "2026-01-01", "2026-01-01T00:00:00Z", "NaN", "nan", "inf"),
    *("-inf", ".5", "+1", "-2", "=1+1", "'=1+1", "=cmd|' /C calc'!A0", "@SUM(A1)", "1.0", "1", "a;=1", "a;'=1"),
    # Words of this project.
    *("total", "others", "\x00others", "unknown", "all", "group", "rejected", "cluster", "count", "–", "…", "(none)"),
    *("coordinator", "event", "any", "a, b", "a,b", "a;b", "a,b\tc", "a, ", "a (b)", "a~2"),
    # Long ones, and UUIDs, which pages leave out.
    *("x" * 999, "x" * 998 + "y", "\U0001f600" * 249),
    *("x-84a63c4c-9289-4bb2-b7a7-d7dc7636cd19", "x-84a63c4c-9289-4bb2-b7a7-d7dc7636cd10"),
    "x-84a63c4c-9289-4bb2-b7a7-d7dc7636cd19-84a63c4c-9289-4bb2-b7a7-d7dc7636cd19",
]

_APOSTROPHE = re.compile("(?:^|(?<=[;\n]))'(?='*[=+\\-@\t])")
_CODE = re.compile(r"\\(?:x(..)|u(....)|U(.{8}))")


def of_label(text: str) -> str:
    """Returns the name of a label of a metric, in which control characters are codes."""
    return _CODE.sub(_character, text)


def of_cell(text: str) -> str:
    """Returns the name of a cell of `-o csv`, which also has an apostrophe before a formula."""
    return of_label(_APOSTROPHE.sub("", text))


def draw(seed: int, default: int) -> list[str]:
    """Returns this many names, or in the full run all of them."""
    return random.Random(seed).sample(NAMES, drawn(default, len(NAMES)))


def _character(code: re.Match[str]) -> str:
    return chr(int(code[1] or code[2] or code[3], 16)) if re.fullmatch("[0-9a-f]+", code[0][2:]) else code[0]
