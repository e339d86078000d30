"""Hooks of MkDocs: pages that stand at the top of the repository, links that lead out of the docs, and public names.

On the site a link to a file that is no page of it leads to that file in the repository.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/spark-assign/spark_assign"
TOP = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security-policy.md": "SECURITY.md",
}
"""Pages by their name on the site, with the file of the repository that each is."""
OFF_THE_SITE = ("architecture.md", "mutants.md", "rules-index.md", "threat-model.md")
"""Pages of docs/ for contributors: links to them lead to the repository."""

LINK = re.compile(r"(\]\(|src=\")([^)\s\"#]+)(#[^)\s\"]*)?(?=[)\"])")

DESCRIBED = re.compile(r"^::: (\S+)$", re.MULTILINE)
"""What mkdocstrings describes."""


def on_files(files: Files, config: Any) -> Files:
    """The files of docs/ and of TOP, without those that are off the site."""
    for name, file in TOP.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    for name in OFF_THE_SITE:
        files.remove(files.src_uris[name])
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A page with its links as they are on the site."""
    linked = with_links_of_the_site(markdown, TOP.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    return DESCRIBED.sub(lambda found: f"::: {defined_at(found[1])}", linked)


def defined_at(public: str) -> str:
    """Where a name that a package exports is defined: a module of the same name would hide it from mkdocstrings.

    A name of a module is defined there.
    """
    package, _, name = public.rpartition(".")
    folder = ROOT.joinpath(*package.split("."))
    if folder.with_suffix(".py").is_file():
        return public
    exported = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    for node in ast.walk(exported):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return f"{node.module}.{name}"
    raise ValueError(f"{package} does not export {name}: take it off docs/reference.md")


def with_links_of_the_site(markdown: str, file: str) -> str:
    """The text of a file of the repository with links that hold on the site."""
    names = {where: name for name, where in TOP.items()}

    def lead(found: re.Match[str]) -> str:
        before, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        if path in names:
            return f"{before}{names[path]}{anchor}"
        if path.startswith("docs/") and path.removeprefix("docs/") not in OFF_THE_SITE:
            return f"{before}{path.removeprefix('docs/')}{anchor}"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{before}{REPOSITORY}/{kind}/main/{path}{anchor}"

    return LINK.sub(lead, markdown)
