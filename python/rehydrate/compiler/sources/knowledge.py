"""knowledge: what documents say about the turn: files, folders and texts of the caller's."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from rehydrate.compiler.sources.documents import Corpus, Document, Extract, corpus_of
from rehydrate.compiler.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import CompositionMode, Priority, Provenance, Section
from rehydrate.memory.arguments import checked_limit
from rehydrate.memory.chunks import CHUNK_TOKENS

LIMIT = 8
"""So many pieces are brought at most."""
TRUST = 0.8
"""Of documents: data of the caller's own, but whoever wrote them does not instruct the model."""

Documents = str | os.PathLike[str] | Mapping[str, str]


def knowledge(
    *documents: Documents,
    name: str = "knowledge",
    limit: int = LIMIT,
    chunk_tokens: int = CHUNK_TOKENS,
    trust: float = TRUST,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    r"""The pieces of documents that are most relevant to the observation, the best first.

    A document is a path of a file or of a folder (its Markdown and plain text), a text, or texts by
    name. Each is cut at headings and paragraphs into pieces of about ``chunk_tokens``. A file that
    changes is read again in the next turn. Raises InvalidArgumentError for a path that is not
    there.

    >>> knowledge({"ports.md": "# Ports\n\nStaging listens on 8443."}).kind
    'knowledge'
    """
    read = _documents(documents, name)
    most = checked_limit("limit", limit)
    chunk = checked_limit("chunk_tokens", chunk_tokens)
    priority = settings.get("priority", Priority.NORMAL)
    provenance = Provenance(name, trust=trust)  # refuses what is no trust, before it is needed

    def run(request: SourceRequest) -> Found:
        if not request.observation.strip():
            return Found(off="the request has no observation to look for")
        troubles: list[str] = []
        corpus = corpus_of(read, chunk, troubles)
        degraded = tuple([f"{name}: {trouble}" for trouble in troubles])
        return Found(_sections(corpus, request), degraded=degraded)

    def _sections(corpus: Corpus, request: SourceRequest) -> tuple[Section, ...]:
        if not corpus.extracts:
            return ()
        ranked = corpus.best(request.observation, most + len(request.visible))
        new = [found for found in ranked if _item(found[0]) not in request.visible]
        return tuple([_section(extract, relevance) for extract, relevance in new[:most]])

    def _section(extract: Extract, relevance: float) -> Section:
        return Section(
            f"{name}:{extract.id}",
            extract.text,
            Provenance(
                provenance.source,
                items=(_item(extract),),
                origin=extract.document,
                time=extract.modified,
                trust=provenance.trust,
            ),
            priority=priority,
            relevance=min(max(relevance, 0.0), 1.0),
            mode=CompositionMode.CONTEXTUAL,
            title=extract.document,
        )

    return HydrationSource(name, run, kind="knowledge", **settings)


def _item(extract: Extract) -> str:
    """The piece as it is now: after a change it is another one, though its number is the same."""
    return f"{extract.id}@{extract.digest}"


def _documents(given: tuple[Any, ...], name: str) -> list[Document]:
    paths: list[Path] = []
    texts: list[Document] = []
    for one in given:
        if isinstance(one, Mapping):
            texts += [_named(label, text, name) for label, text in one.items()]
        elif isinstance(one, str) and not _is_path(one):
            texts.append(Document(f"text-{len(texts) + 1}", text=one))
        elif isinstance(one, (str, os.PathLike)):
            path = Path(one)
            if not path.exists():
                raise InvalidArgumentError(
                    f"source {name!r}: there is no {os.fspath(one)!r}; pass the path of a file or "
                    "a folder, or a text by name: {'ports.md': text}"
                )
            paths.append(path.resolve())
        else:
            raise InvalidArgumentError(
                f"source {name!r}: a document is of type {type(one).__name__}; pass a path, a "
                "text, or a dict of texts by name"
            )
    if not paths and not texts:
        raise InvalidArgumentError(f"source {name!r} has no documents; pass paths or texts")
    names = Counter(path.name for path in paths)
    return [
        *[
            Document(path.name if names[path.name] == 1 else path.as_posix(), path)
            for path in paths
        ],
        *texts,
    ]


def _named(label: Any, text: Any, name: str) -> Document:
    if not isinstance(label, str) or not label or not isinstance(text, str):
        raise InvalidArgumentError(
            f"source {name!r}: {label!r} is of type {type(text).__name__}; pass texts by name"
        )
    return Document(label, text=text)


def _is_path(text: str) -> bool:
    """Whether a string is a path rather than a text: what is there is one, a single word too."""
    if "\n" in text:
        return False
    try:
        return len(text.split()) == 1 or Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        return False
