r"""Regular expressions that members of a KIP-848 group subscribe to, evaluated as the broker does.

The broker uses RE2/J (`com.google.re2j.Pattern`, since KIP-848), and this module RE2 itself. Both match in time that is
linear in the length of the name, and have the same syntax: `[[:alpha:]]`, `\pN`, `\Q…\E`, and `\z` are valid, but
lookaheads and `\Z` are not. If both accept an expression, they match the same names (`tests/kafka/topic_regexes.py`).
Lower-case letters (`\p{Ll}`) in an expression that ignores case are refused here: RE2/J adds only K and S to them, and
not all upper-case letters as RE2. Only RE2/J accepts repetitions of repetitions with a product above 1,000, such as
`(a{100}){100}`, and larger programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_MAX_MEMORY = 1 << 20
"""Maximum memory of an expression, in bytes. It bounds the program, and so the time per name: some milliseconds."""

_IGNORES_CASE = re.compile(r"\(\?[A-Za-z]*i")


class TopicRegexError(ValueError):
    """An expression is invalid, or too large to be evaluated here."""


@lru_cache(maxsize=1_000)
def topic_matcher(regex: str) -> Callable[[str], bool]:
    """Returns a function that checks whether a topic name matches an expression completely.

    Raises:
        TopicRegexError: the expression can't be evaluated.
    """
    import re2  # of the extra `kafka`

    options = re2.Options()
    options.log_errors, options.max_mem = False, _MAX_MEMORY
    options.never_capture = True  # captures make a name take up to 100 times as long
    if "Ll}" in regex and _IGNORES_CASE.search(regex):
        raise TopicRegexError(f"the regular expression {regex[:200]!r} has \\p{{Ll}} and ignores case (?i)")
    try:
        pattern = re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise TopicRegexError(
            f"the regular expression {regex[:200]!r} can't be evaluated: {str(text)[:200]!r}"
        ) from None
    return lambda name: pattern.fullmatch(name) is not None
