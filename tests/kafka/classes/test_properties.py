"""Properties files are read as java.util.Properties reads them, sasl.jaas.config as Kafka: held against both, live."""

from __future__ import annotations

import random
import subprocess

import pytest

from spark_assign.sources.auth import properties as client_jaas
from spark_assign.sources.auth import properties as client_properties
from spark_assign.tables.errors import ConfigError
from tests.kafka import java_programs

pytestmark = pytest.mark.kafka

ODD = {
    "next line": "k=a\u0085b",
    "line separator": "k=a\u2028b",
    "paragraph separator": "k=a\u2029b",
    "vertical tab": "k=a\x0bb",
    "form feed": "k=a\fb",
    "leading form feed": "k=\fa",
    "file, group and record separators": "k=a\x1cb\x1dc\x1ed",
    "leading no-break space": "k=\u00a0a",
    "leading ideographic space": "k=\u3000a",
    "trailing blanks": "k=a \t",
    "no-break space in a key": "k\u00a0l=a",
    "half a surrogate pair": "k=a\\ud83db",
    "a pair of escapes": "k=\\ud83d\\ude00",
    "a pair the wrong way round": "k=\\ude00\\ud83d",
    "a character beyond the first plane": "k=\U0001f600",
    "carriage returns": "a=1\rb=2\r\nc=3",
    "a continued line": "k=a\\\r\n   b\\\n\tc",
    "a continued line, and a comment": "k=a\\\n#b",
    "a backslash that is escaped, at the end": "k=a\\\\\nl=b",
    "a backslash at the end of the text": "k=a\\",
    "a line of a backslash, then a comment": "\\\n# b\nc=d",
    "a line of a backslash at the end": "a=b\n\\",
    "escapes of separators in a key": "a\\=b\\:c\\ d=e",
    "no separator": "key",
    "no key": "=value",
    "several separators": "a = = b\nc : d\ne  f",
    "comments": "  # a\n\f! b\nc=#d",
    "escapes": "k=\\t\\n\\r\\f\\a\\\"\\\\\\'",
    "the same key again": "k=1\nk=2",
    "a byte order mark": "\ufeffk=a",
    "null": "k=a\x00b",
    "a malformed escape": "k=\\u12g4",
    "an escape cut short": "k=\\u12",
    "many u": "k=\\uu0041",
    "upper case": "k=\\U0041\\u00E4\\u00e4",
}

PIECES = ["a", "b", "k", "=", ":", " ", "\t", "\f", "\\", "\\", "\n", "\r", "\r\n", "#", "!", "u", "u0041", "u00", "n"]
PIECES += ["\u0085", "\u2028", "\x0b", "\x1c", "\u00a0", "\ufeff", "\ud83d", "\ude00", "\\ud83d", "\\ude00", "\\u000a"]


def parsed_by_java(kind: str, texts: list[str], kafka_jars: str) -> list[str]:
    """How Java reads texts (`TextAsJava.java`), a line each; one JVM for all."""
    questions = "".join(f"{_hexadecimal(text)}\n" for text in texts)
    command = java_programs.command("TextAsJava", kafka_jars, kind)
    done = subprocess.run(command, input=questions, capture_output=True, text=True, check=True)
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(texts)
    return answers


def by_java(texts: list[str], kafka_jars: str) -> list[dict[str, str] | None]:
    """What java.util.Properties reads, None where it refuses."""
    answers = parsed_by_java("properties", texts, kafka_jars)
    return [None if answer == "refused" else _pairs(answer) for answer in answers]


def _pairs(answer: str) -> dict[str, str]:
    return {key: value for key, _, value in (pair.partition("=") for pair in answer.split())}


def by_us(text: str) -> dict[str, str] | None:
    """The same by our reader, in hexadecimal UTF-16 as well."""
    try:
        read = client_properties.parse(text)
    except ConfigError:
        return None
    return {_hexadecimal(key): _hexadecimal(value) for key, value in read.items()}


def _hexadecimal(text: str) -> str:
    return str.__str__(text).encode("utf-16-be", "surrogatepass").hex()


def test_properties_are_those_of_java(kafka_jars: str, rng: random.Random) -> None:
    """Every odd case, and 20,000 texts of odd pieces."""
    fresh = ["".join(rng.choices(PIECES, k=rng.randint(1, 14))) for _ in range(20_000)]
    texts = [*ODD.values(), *fresh]
    assert {t: (j, by_us(t)) for t, j in zip(texts, by_java(texts, kafka_jars), strict=True) if j != by_us(t)} == {}


JAAS = ["a", "b1", "user_x", '"', "'", "\\\\", '\\"', "\\n", "\\101", "\\7", "=", "=", " ", " ", "\t", "\n", "//", "/*"]
JAAS += ["*/", "/", "-", ".", "$", "ä", '"p;q=r"', "'s t'", "1", "#", "x.Y", ";"]
QUOTED = [
    *("a", "\\\\", '\\"', "\\n", "\\101", "\\18", "\\0", "\\377", "\\400", "ä", "\U0001f600", " ", ";", "=", "//"),
    *("'", "\\e"),
]


def test_login_modules_are_those_of_kafka(kafka_jars: str, rng: random.Random) -> None:
    """Whatever Kafka takes is taken alike: passwords in quotation marks, and texts of odd pieces."""
    texts = [f'a.B required k="{"".join(rng.choices(QUOTED, k=rng.randint(0, 6)))}";' for _ in range(2_000)]
    ends = [";", ";", "", " ; ", ";\n", "; // x", "; /* x"]
    texts += [
        f"a.B required {''.join(rng.choices(JAAS, k=rng.randint(0, 8)))}{rng.choice(ends)}" for _ in range(10_000)
    ]
    taken = {}
    for text, answer in zip(texts, parsed_by_java("jaas", texts, kafka_jars), strict=True):
        if answer != "refused":
            options = _pairs(answer)
            taken[text] = (bytes.fromhex(options.pop("0000")).decode("utf-16-be").rpartition(".")[2], options)
    assert {text: (kafka, _login(text)) for text, kafka in taken.items() if kafka != _login(text)} == {}
    assert len(taken) > 1_000


def _login(text: str) -> tuple[str, dict[str, str]] | None:
    try:
        login = client_jaas.parse_login(text)
    except ConfigError:
        return None
    return login.module, {_hexadecimal(name): _hexadecimal(value) for name, value in login.options.items()}
