"""Reads a TOML file whose size, keys, and numbers are bounded before it is parsed.

This file imports nothing of this project: the Airflow provider links to it
(`jobs/airflow/spark_assign_airflow/toml_file.py`), in an environment without the rest.
"""

from __future__ import annotations

import errno
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 20
"""Maximum size of a settings file, in bytes."""
MAX_KEY_PARTS = 32
"""Maximum number of parts of a dotted key. The time that tomllib takes for a key is quadratic in them."""
MAX_DIGITS = 1_000
_STREAMS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/", "/dev/null")
"""Pipes that a shell passes, and the empty file."""
_TOKEN = re.compile(r"""#[^\n]*|[\w+-]+|[ \t]+|"[^"\n]*"|'[^'\n]*'|.""", re.DOTALL)


class TomlError(ValueError):
    """A TOML file can't be read. The message names it."""


def read_toml(path: Path) -> dict[str, Any]:
    """Returns the content of a TOML file.

    Raises:
        TomlError: the file can't be read, isn't valid, or its parser would take too long.
    """
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(_STREAMS)):
            raise OSError(errno.EINVAL, "is a pipe or a device")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise TomlError(f"{path}: has more than {MAX_BYTES:,} bytes. Is it a settings file?")
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        _check_tokens(path, text)
        return tomllib.loads(text)
    except OSError as error:
        raise TomlError(f"{path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TomlError(f"{path}: isn't valid TOML: line {line:,} isn't UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise TomlError(f"{path}: isn't valid TOML: {error}") from error


def _check_tokens(path: Path, text: str) -> None:
    """Raises TomlError for a dotted key with too many parts, or a number with too many digits."""
    line, dots, start = 1, 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        is_part = token[0] in "\"'" or token[0].isalnum() or token[0] in "_+- \t"
        if token == ".":
            dots += 1
        elif not is_part:
            dots, start, line = 0, "", line + (token == "\n")
        start = start or token
        if dots >= MAX_KEY_PARTS:
            raise TomlError(f"{path}, line {line}: the key {start[:80]}.… has more than {MAX_KEY_PARTS} parts.")
        if len(token) > MAX_DIGITS and token.lstrip("+-")[:1].isdigit():
            raise TomlError(f"{path}, line {line}: the number {token[:20]}… has more than {MAX_DIGITS} digits.")
