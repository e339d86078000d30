r"""Regular expressions of KIP-848 subscriptions, and what RE2/J (`java/TopicRegexes.java`) and we match.

`python -m tests.kafka.topic_regexes` records `tests/unit/topic_regexes.jsonl.gz`, for a test without Java.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spark_assign.wire.topic_regex import TopicRegexError, topic_matcher
from tests.kafka import java_programs, maven
from tests.recorded_lines import write_rows

RECORDED = Path(__file__).parents[1] / "unit" / "topic_regexes.jsonl.gz"
TOPICS = "orders orders.eu orders-1 ORDERS a.b a aa b 1 12 pay_eu - _ AB a-b_c.d".split()  # noqa: SIM905
REGEXES = r"""
orders.* [[:alpha:]]+ [[:^alpha:]]+ [[:word:]]+ [[:foo:]] \pN+ \PN+ \p{Nd}+ \p{Greek} \p{^Greek}+ \p{Latin}+ \p{Foo}
\Qa.b\E \Qa.b \Q\E \Qab\E+ \Qa\E*b? a\z a\Z \Aa$ ^orders$ (?i)orders (?i:ORD)ers (?m)^a$ (?s).* (?U)a+ (?P<n>a)+
(?<n>a) (?P=n) (?=a)a (?!a)b (?<=a)b (?>a) a++ a** a*? a{2} a{2,3} a{,3} a{3,2} a{1000} a{1001} ((a{10}){10}){10} a| ||
\cA \h \R \G [[:xdigit:]]+ .*
( (a [a []a]+ [^]a]+ [z-a] [a-z&&[b]] [\d\-]+ [\w.-]+ [\pN_]+ [[:digit:]a]+ \bab\b \Ba \x61 \x{61} \141 \0 \1 \u0061
\v \t \- \_ \q . .. .{1,3} $a a^b * +a (?:a|b)* (a*)+ (a|b|)+ ^* $* (?i)[a-b]+ [^a-z]+ [[:upper:]]+
\p{Lu}+ (?i)\p{Lu}+ (?z)a (?x)a (?#c)a [[.a.]] [\Qa.\E]+ (|a)* a{0} a{01} (?i)[[:upper:]]+ [a-zA-Z0-9._-]+ orders|pay.*
(orders|pay)[._-].+ ^(?:orders|pay).*$ .*\.eu [^.]+ \w+-\d+ \D+ \S+ \W+
""".split()  # noqa: SIM905
_TOKENS = [*"ab1o.*+?|()[]^$-,", r"\d", r"\w", r"\z", r"\A", r"\b", r"\.", r"\Q", r"\E", r"\pL", "{2}", "{1,2}"]
_TOKENS += ["(?:", "(?i)"]
_TOKENS += ["[^", "[[:alpha:]]", "(?P<n>", "(?<m>", r"\p{L}", "&&"]


def rows(seed: int, number: int) -> list[dict[str, Any]]:
    """The expressions above, and random ones."""
    draw = random.Random(seed)
    drawn = ["".join(draw.choice(_TOKENS) for _ in range(draw.randint(1, 8))) for _ in range(number)]
    return [{"regex": regex, "topics": TOPICS} for regex in dict.fromkeys([*REGEXES, *drawn])]


def matched_by_broker(requests: Iterable[dict[str, Any]], class_path: str) -> list[dict[str, Any]]:
    """The rows with `matched`: the topics, or None if RE2/J refuses the expression."""
    requests = list(requests)
    found = java_programs.answers("TopicRegexes", requests, class_path)
    return [row | {"matched": matched} for row, matched in zip(requests, found, strict=True)]


def differing(found: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], list[str] | str]]:
    """The expressions that RE2/J accepts and that we refuse or match to other topics, with our answer."""
    different: list[tuple[dict[str, Any], list[str] | str]] = []
    for row in found:
        try:
            ours: list[str] | str = list(filter(topic_matcher(row["regex"]), row["topics"]))
        except TopicRegexError as error:
            ours = str(error)
        if row["matched"] is not None and ours != row["matched"]:
            different.append((row, ours))
    return different


if __name__ == "__main__":
    write_rows(RECORDED, matched_by_broker(rows(17, 1_000), maven.kafka_classpath()))
