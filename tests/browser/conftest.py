"""A headless Chromium for the tests: the one that is installed on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.runner.tools import CHROMIUM, lacks


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of all tests."""
    program = CHROMIUM.program or lacks(CHROMIUM)
    with sync_playwright() as playwright:
        # Containers often run as root and have a small /dev/shm.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        started = playwright.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()
