"""Growth of the code is a decision: no folder has more lines of code than tests/ratchet.toml allows."""

from __future__ import annotations

from tests import ratchet

RAISE = "Remove what repeats; or run `python -m tests.ratchet`, and say in the commit why the code has to grow."


def test_no_folder_grows_unseen() -> None:
    """Every folder of the package, of the jobs, and of the tests is listed, with the lines that it may have."""
    found, allowed = ratchet.counted(), ratchet.allowed()
    assert [
        f"{r}: {c} lines of code, {allowed.get(r, 0)} are allowed" for r, c in found.items() if c > allowed.get(r, 0)
    ] == [], RAISE
    assert allowed.keys() <= found.keys(), "a folder is gone: run `python -m tests.ratchet`"


def test_what_is_a_line_of_code() -> None:
    """Neither blank lines, comments, nor docstrings, those of attributes included; but texts that are values."""
    module = '''"""Module.

Text.
"""

import os  # one

# comment
A = """two
three"""
"""The docstring of A."""


def four() -> None:
    """Five?"""
    if os:
        pass
    try:
        pass
    except OSError:
        """Nothing."""
'''
    assert ratchet.code_lines(module) == 9
    assert ratchet.text({"b": 11, "a": 10}).splitlines()[1:] == ["[lines]", '"a" = 10', '"b" = 20']
