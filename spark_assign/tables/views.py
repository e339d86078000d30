"""The registry of views: text and HTML of results.

Views stand above the results that they show, so results look them up here; `spark_assign/__init__.py` fills it.
"""

from collections.abc import Callable

VIEWS: dict[str, Callable[..., str]] = {}
"""`summary(result, top)`, `page(result, title)`, and `notebook_view(plan)`."""
