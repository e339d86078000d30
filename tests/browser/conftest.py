"""A headless Chromium for the tests: the one that is installed on this machine (Debian: `apt-get install chromium`).

Where there is none these tests are skipped, but in CI they fail: there the proof would be missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of all tests."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _unavailable("playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        _unavailable(f"none of {', '.join(NAMES)} is on PATH")
    with sync_playwright() as playwright:
        # Containers often run as root and have a small /dev/shm.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        started = playwright.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()


def _unavailable(why: str) -> NoReturn:
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"a browser is needed in CI: {why}", pytrace=False)
    pytest.skip(f"needs a browser: {why}")
