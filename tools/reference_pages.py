"""The reference of the documentation, from docstrings: a page a package, with all that it offers.

mkdocs.yml names this file twice: as a hook, which adds the pages and llms.txt to the site, and as
an extension of griffe, which makes code of the doctests in docstrings.
"""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getdoc
from typing import Any

from griffe import Docstring, Extension, Object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PACKAGES = {
    "rehydrate": "the names of every day",
    "rehydrate.compact": "conversations made shorter",
    "rehydrate.context": "one conversation, prompt by prompt",
    "rehydrate.prompt": "prompts from several sources",
    "rehydrate.memory": "texts that outlive a conversation",
    "rehydrate.agent": "a loop with tools, and clients of models",
    "rehydrate.formats": "the formats of messages, and their rules",
    "rehydrate.embedding": "texts to vectors",
    "rehydrate.cost": "prices and caches",
    "rehydrate.retention": "what `rehydrate eval` measures",
    "rehydrate.testing": "a scripted model, and the checks of a memory's backend",
    "rehydrate.errors": "every error",
}
_NATIVE = "rehydrate._native"
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[(.*?)\]\(.*?\)")
_DOCTEST = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(Extension):
    """Puts the doctests of docstrings into fences, and gives classes of Rust their docstrings."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of what was loaded."""
        if obj.docstring is None and obj.path.startswith(f"{_NATIVE}."):
            # Its stub has the types alone.
            found: Any = import_module(_NATIVE)
            for name in obj.path.removeprefix(f"{_NATIVE}.").split("."):
                found = getattr(found, name, None)
            if text := getdoc(found):
                obj.docstring = Docstring(text, parent=obj)
        if obj.docstring is not None:
            fenced = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
            obj.docstring.value = fenced


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each package, and the list of all pages for models (llmstxt.org)."""
    for package in PACKAGES:
        uri = f"reference/{package}.md"
        files.append(File.generated(config, uri, content=page(package)))
    files.append(File.generated(config, "llms.txt", content=llms_txt(files, config)))
    return files


def llms_txt(files: Files, config: MkDocsConfig) -> str:
    """Return the title and the first sentence of each page, with its address in the site."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for file in files.documentation_pages():
        title, _, text = _FENCE.sub("", file.content_string).partition("\n")
        sentence = _LINK.sub(r"\1", re.split(r"(?<=[.:])\s", text.strip())[0]).replace("\n", " ")
        lines.append(f"- [{title.removeprefix('# ')}]({file.url}): {sentence}")
    return "\n".join([*lines, ""])


def page(package: str) -> str:
    """Return the page of a package: a heading and a docstring for each name that it offers."""
    names = sorted(import_module(package).__all__, key=lambda name: (name[0].islower(), name))
    lines = [f"# {package}", "", f"{PACKAGES[package].capitalize()}.", ""]
    for name in names:
        if not name.startswith("__"):
            lines += [f"::: {package}.{name}", ""]
    return "\n".join(lines)
