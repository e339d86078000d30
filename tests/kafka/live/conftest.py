"""Stories of live groups: all that the selected tests need are played at the same time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import pytest

AT_ONCE = 1
"""The stories side by side, beside the tests that need none. More would hold up members on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests that wait for a story behind all others, which run while the stories are played."""
    items.sort(key=lambda item: isinstance(item, pytest.Function) and hasattr(item.module, "play"))


Stories = dict[str, Future[Any]]
"""The result of `play`, by the name of the module."""


@pytest.fixture(scope="session", autouse=True)
def stories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    """Starts `play(cluster, folder)` of every module with a selected test; it has groups and topics of its own.

    Each runs in another process, so that no test that patches a module or reads a log sees another one's story.
    """
    modules = {item.module for item in request.session.items if isinstance(item, pytest.Function)}
    plays = {each.__name__: each.play for each in modules if hasattr(each, "play")}
    if not plays:
        yield {}
        return
    broker = request.getfixturevalue("broker")
    with ProcessPoolExecutor(AT_ONCE, multiprocessing.get_context("spawn")) as pool:
        yield {
            name: pool.submit(plays[name], broker, tmp_path_factory.mktemp(name.rpartition(".")[2]))
            for name in sorted(plays)
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, stories: Stories) -> Any:
    """What `play` of the test's module returns."""
    return stories[request.module.__name__].result()
