"""Prose of the pages, by the rules of the Google developer documentation style guide that a pattern can check.

tests/docs/accepted_terms.txt lists the acronyms and the capitalized words that a reader knows, one per line. Code,
links, and generated pages aren't prose.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of, pages
from tests.help_texts import texts

PROSE = [
    *(page for page in pages() if page.name not in ("commands.md", "tables.md", "rules-index.md")),
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / "conf").glob("sample-*/README.md"),
]
ACCEPTED = frozenset((ROOT / "tests/docs/accepted_terms.txt").read_text(encoding="utf-8").split("\n"))

PRIVATE_TERMS = {
    r"\b([Tt]hat|[Tt]hose) of\b": "Name the noun again, or write: as in, like.",
    r", so that\b": "Of a consequence, write: so.",
    r"(?<![Tt]here )\b(is|are|was|were) no\b(?! (longer|fewer|further|more))": "Write: isn't a, aren't, has no.",
    r"\b[Aa]lso if\b": "Write: even if.",
    r"\bof (its|their|your) own(?=[.,:;)|]| (and|or|follow|raised)\b)": "Write it before the noun: its own.",
    r"\b[Bb]ounc(e|es|ed|ing)\b": "Write restart.",
    r"(?<![\d.,–-])\b([2-9]|[1-9]\d+) (broker|group|member|partition|replica|topic|worker)\b(?!-| groups)": "Plural.",
}
RULES = {
    r"\b(e\.g\.|i\.e\.|etc\.|viz\.)": "No Latin: for example, that is, and so on.",
    r"\b[Pp]lease\b": "Leave it out.",
    r"\b([Ss]imply|[Ee]asily|[Ee]asy|[Oo]bviously|[Oo]f course|[Vv]ery|[Bb]asically|[Nn]ote that)\b": "Leave it out.",
    r"(?<!have )(?<!has )(?<!had )(?<!was )\b[Jj]ust\b": "Leave it out, or write only.",
    r"\b([Ii]n order to|[Ss]o as to|[Ii]s able to|[Aa]re able to|[Dd]ue to the fact)\b": "Write to, can, or because.",
    r"\b(allows?|enables?) (you|users) to\b": "Write: you can.",
    r"\b([Ww]ill|[Ss]hall|[Ww]on't)\b": "Use the present tense.",
    r"\b([Ww]e|[Oo]ur|[Ll]et's)\b": "Address the reader as you, and name the tool.",
    r"\bI\b(?!.*\?)": "Only in the questions of an FAQ.",
    r"\b([Cc]annot|([Dd]o|[Dd]oes|[Dd]id|[Ii]s|[Aa]re|[Ww]as|[Ww]ere|[Hh]as|[Hh]ave) not)\b": "Use a contraction.",
    r"\w!(\s|$)": "No exclamation marks.",
    r"\b([Uu]tili[sz]e|[Ll]everage|[Ff]acilitate|[Ww]hilst|[Aa]mongst)": "Use a shorter word.",
    r"\b\w*(colour|behaviour|neighbour|favour|modelled|labelled|licence|afterwards)": "Use American spelling.",
    r"\b([Aa]new|[Ii]n place of|[Ss]o many|[Hh]angs? on|[Tt]old|[Nn]obody|[Aa]s ever)\b": "Name what is meant.",
    **PRIVATE_TERMS,
}
"""Pattern: what to do instead."""

ACRONYM = re.compile(r"(?<![\w.-])[A-Z][A-Z0-9]+s?(?![\w-]|\.\w)")


def lines_of_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number and the text of each line, without code, the targets of links, and HTML."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n") or " _ "

    for pattern in (
        r"<!-- figures -->.*?<!-- end of figures -->",
        r"^ *```.*?^ *```",
        *(r"`[^`]*`", r"\]\([^)]*\)", r"<[^>]+>", r"https?://\S+"),
        r"^::: .*$",
        r"\[[^\]\n]*#\d+",
    ):
        text = re.sub(pattern, blank, text, flags=re.DOTALL | re.MULTILINE)
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def problems(text: str) -> list[str]:
    """Returns what breaks a rule, with the number of its line."""
    found: list[str] = []
    lines = list(lines_of_prose(text))
    for (number, line), (_, following) in zip(lines, [*lines[1:], (0, "")], strict=True):
        found += broken_rules(number, line, following)
        words = {each[0].removesuffix("s") for each in ACRONYM.finditer(line)} - ACCEPTED
        found += [f"{number}: {word!r}: explain it, or add it to accepted_terms.txt." for word in sorted(words)]
        heading = re.match(r"#+ (.*)", line)
        if heading:
            found += [f"{number}: {word!r}: headings are in sentence case." for word in capitalized(heading[1])]
    return found


def broken_rules(number: int, line: str, following: str = "") -> Iterator[str]:
    """Yields what breaks one of the rules in a line, even if it ends in the line after it."""
    for pattern, remedy in RULES.items():
        for each in re.finditer(pattern, f"{line.rstrip()} {following.lstrip()}".rstrip()):
            if each.start() < len(line.rstrip()):
                yield f"{number}: {each[0].strip()!r}: {remedy}"


def capitalized(heading: str) -> list[str]:
    """Returns the words of a heading that begin with a capital and aren't accepted; the first of a part may."""
    words = [word for part in re.split(r"(?<=[:.?]) |^\d+\. ", heading) for word in re.findall(r"[\w'’-]+", part)[1:]]
    return [word for word in words if word[0].isupper() and word.removesuffix("'s") not in ACCEPTED]


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_prose(page: Path) -> None:
    """No rule is broken."""
    assert problems(page.read_text(encoding="utf-8")) == [], name_of(page)


def test_help_texts() -> None:
    """No rule is broken, wherever a line is wrapped; names of values are upper case there."""
    for name, text in texts():
        lines = enumerate(re.sub(r"\n +(?=[^ -])", " ", text).split("\n"), 1)
        assert [each for number, line in lines for each in broken_rules(number, line)] == [], name


def test_messages() -> None:
    """No string of four words or more in the package and its jobs has a private term, docstrings aside."""
    for file in (*(ROOT / "spark_assign").rglob("*.py"), *(ROOT / "jobs").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        documented = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        texts = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in documented]
        for text in (each for each in texts if isinstance(each.value, str) and each.value.count(" ") > 2):
            found = [term for term in PRIVATE_TERMS if re.search(term, " ".join(str(text.value).split()))]
            assert found == [] or "bounce int" in str(text.value), f"{file}:{text.lineno}: {text.value!r}: {found}"


def test_what_the_rules_find() -> None:
    """Each kind of problem, with its line; and nothing in code, in a question, or in the target of a link."""
    text = "# How It works\nPlease use `we will!` e.g. here!\nWe cannot.\n```\nvery easy\n```\nThe XYZ.\n"
    text += "**Can I?** [x](we.md)\n"
    assert [(each.split(":")[0], each.split("'")[1]) for each in problems(text)] == [
        ("1", "It"),
        *(("2", word) for word in ("e.g.", "Please", "e!")),
        *(("3", word) for word in ("We", "cannot")),
        ("7", "XYZ"),
    ]


def test_every_accepted_term_is_used() -> None:
    """A term that no page has any more is removed from the list."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PROSE)
    assert [term for term in ACCEPTED if term not in text] == []
