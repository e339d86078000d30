"""A headless Chromium for the tests: the one that is installed on this machine (Debian: `apt-get install chromium`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
        pytest.skip("needs a browser: playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"needs a browser: none of {', '.join(NAMES)} is on PATH")
    with sync_playwright() as playwright:
        # Containers often run as root and have a small /dev/shm.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        started = playwright.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()
