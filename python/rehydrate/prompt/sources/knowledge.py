"""The knowledge source: chunks of files, folders and texts, ranked by the query.

A file is read again only when it has changed; documents are analysed again only when one of them
has changed.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import TextIndex, checked_limit, chunks as chunks_of, split_front_matter
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.folder import CHUNK_TOKENS, SUFFIXES, files_in, read_note
from rehydrate.prompt.section import CompositionMode, Priority, Provenance, Section
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest, SourceSettings

FOLDER_SUFFIXES = SUFFIXES | {".adoc", ".org", ".rst"}
"""Suffixes of the files of a folder that are read; a file whose path is passed may have any."""
_FRESH_SECONDS = 2.0
"""A file that changed this recently is not cached: it may change again and keep its time stamp."""
_MAX_CACHED_CHARS = 32_000_000
"""Characters of the analysed texts that this process caches."""
_MAX_CACHED_FILES = 10_000


class DocumentChunk(NamedTuple):
    """A chunk of a document."""

    document: str
    number: int
    """From 1."""
    text: str
    digest: str
    modified: datetime | None = None

    @property
    def id(self) -> str:
        """The document and the chunk's number: ``docs/ports.md#3``."""
        return f"{self.document}#{self.number}"


class Corpus:
    """Chunks that the engine has analysed, ranked by one query after another."""

    def __init__(self, chunks: Sequence[DocumentChunk]) -> None:
        """Analyse all chunks."""
        self.chunks = tuple(chunks)
        self.characters = sum(len(chunk.text) for chunk in chunks)
        self._index = TextIndex([chunk.text for chunk in chunks])

    def best(self, query: str, limit: int) -> list[tuple[DocumentChunk, float]]:
        """Return the most relevant chunks and their relevances, the best first."""
        relevances = self._index.relevances(query)
        ranked = sorted(range(len(relevances)), key=lambda index: -relevances[index])[:limit]
        return [(self.chunks[index], relevances[index]) for index in ranked]


class Document(NamedTuple):
    """A document: a text, or the path of a file or a folder."""

    label: str
    """Its name in the prompt."""
    path: Path | None = None
    text: str = ""

    def chunks(self, chunk_tokens: int, problems: list[str]) -> Iterator[DocumentChunk]:
        """Yield its chunks in order; files that cannot be read are added to `problems`."""
        if self.path is None:
            yield from _cut(self.label, self.text, chunk_tokens, None)
        elif self.path.is_dir():
            for file, inside in files_in(self.path):
                if file.suffix.lower() in FOLDER_SUFFIXES:
                    label = os.fsencode(f"{self.label}/{inside}").decode("utf-8", "replace")
                    yield from _read(file, label, chunk_tokens, problems)
        else:
            yield from _read(self.path, self.label, chunk_tokens, problems)


def corpus_of(documents: Sequence[Document], chunk_tokens: int, problems: list[str]) -> Corpus:
    """Return the documents as they are now; an unchanged corpus comes from the cache."""
    chunks = [chunk for document in documents for chunk in document.chunks(chunk_tokens, problems)]
    key = tuple([(chunk.document, chunk.digest) for chunk in chunks])
    with _lock:
        cached = _corpora.get(key)
        if cached is not None:
            _corpora.move_to_end(key)
            return cached
    corpus = Corpus(chunks)
    with _lock:
        _corpora[key] = corpus
        while (
            len(_corpora) > 1
            and sum(each.characters for each in _corpora.values()) > _MAX_CACHED_CHARS
        ):
            _corpora.popitem(last=False)
    return corpus


_Stamp = tuple[str, str, int, int, int, int]
_files: OrderedDict[_Stamp, list[DocumentChunk]] = OrderedDict()
_corpora: OrderedDict[tuple[tuple[str, str], ...], Corpus] = OrderedDict()
_lock = ForkSafeLock()


def _read(
    path: Path, label: str, chunk_tokens: int, problems: list[str]
) -> Sequence[DocumentChunk]:
    """Return the chunks of a file; an unchanged file comes from the cache."""
    try:
        status = path.lstat()
    except OSError as error:
        problems.append(f"{label}: it cannot be read: {error.strerror}")
        return ()
    stamp = (str(path), label, chunk_tokens, status.st_mtime_ns, status.st_size, status.st_ino)
    with _lock:
        cached = _files.get(stamp)
        if cached is not None:
            _files.move_to_end(stamp)
            return cached
    note = read_note(path, path.name, None)
    if isinstance(note, str):
        problems.append(f"{label}: {note}")
        return ()
    chunks = list(_cut(label, note.text, chunk_tokens, note.modified))
    if abs(time.time() - status.st_mtime) > _FRESH_SECONDS:
        with _lock:
            _files[stamp] = chunks
            while len(_files) > _MAX_CACHED_FILES:
                _files.popitem(last=False)
    return chunks


def _cut(
    document: str, text: str, chunk_tokens: int, modified: datetime | None
) -> Iterator[DocumentChunk]:
    """Yield the chunks of a text that have more than headings."""
    _, body = split_front_matter(text)
    for number, chunk in enumerate(chunks_of(body, chunk_tokens=chunk_tokens), 1):
        if chunk.body.strip():
            content = chunk.text.strip("\n")
            digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8)
            yield DocumentChunk(document, number, content, digest.hexdigest(), modified)


LIMIT = 8
"""Default number of chunks."""
TRUST = 0.8
"""Trust of documents: they are the caller's data, but they must not instruct the model."""

Documents = str | os.PathLike[str] | Mapping[str, str]


def knowledge(
    *documents: Documents,
    name: str = "knowledge",
    limit: int = LIMIT,
    chunk_tokens: int = CHUNK_TOKENS,
    trust: float = TRUST,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    r"""Return a source of the chunks of documents that match the query best, the best first.

    A document is the path of a file or of a folder (its Markdown and plain text), a text, or a dict
    of texts by name. Documents are cut at headings and paragraphs into chunks of about
    ``chunk_tokens``. A file that changes is read again in the next turn. Raises
    InvalidArgumentError for a path that does not exist.

    >>> knowledge({"ports.md": "# Ports\n\nStaging listens on 8443."}).kind
    'knowledge'
    """
    read = _documents(documents, name)
    limit = checked_limit("limit", limit)
    chunk_tokens = checked_limit("chunk_tokens", chunk_tokens)
    priority = settings.get("priority", Priority.NORMAL)
    provenance = Provenance(name, trust=trust)  # raises now, not in the first turn

    def run(request: SourceRequest) -> Found:
        if not request.query.strip():
            return Found(off="the request has no query to look for")
        problems: list[str] = []
        corpus = corpus_of(read, chunk_tokens, problems)
        degraded = tuple([f"{name}: {problem}" for problem in problems])
        return Found(_sections(corpus, request), degraded=degraded)

    def _sections(corpus: Corpus, request: SourceRequest) -> tuple[Section, ...]:
        if not corpus.chunks:
            return ()
        ranked = corpus.best(request.query, limit + len(request.visible))
        new = [found for found in ranked if _item(found[0]) not in request.visible]
        return tuple([_section(chunk, relevance) for chunk, relevance in new[:limit]])

    def _section(chunk: DocumentChunk, relevance: float) -> Section:
        return Section(
            f"{name}:{chunk.id}",
            chunk.text,
            Provenance(
                provenance.source,
                items=(_item(chunk),),
                origin=chunk.document,
                time=chunk.modified,
                trust=provenance.trust,
            ),
            priority=priority,
            relevance=min(max(relevance, 0.0), 1.0),
            mode=CompositionMode.CONTEXTUAL,
            title=chunk.document,
        )

    return HydrationSource(name, run, kind="knowledge", **settings)


def _item(chunk: DocumentChunk) -> str:
    """Return the chunk's item; the digest makes a changed chunk another item."""
    return f"{chunk.id}@{chunk.digest}"


def _documents(given: tuple[Any, ...], name: str) -> list[Document]:
    paths: list[Path] = []
    texts: list[Document] = []
    for value in given:
        if isinstance(value, Mapping):
            texts += [_named_text(label, text, name) for label, text in value.items()]
        elif isinstance(value, str) and not _is_path(value):
            texts.append(Document(f"text-{len(texts) + 1}", text=value))
        elif isinstance(value, (str, os.PathLike)):
            path = Path(value)
            if not path.exists():
                raise InvalidArgumentError(
                    f"source {name!r}: there is no {os.fspath(value)!r}; pass the path of a file "
                    "or a folder, or a text by name: {'ports.md': text}"
                )
            paths.append(path.resolve())
        else:
            raise InvalidArgumentError(
                f"source {name!r}: a document is of type {type(value).__name__}; pass a path, a "
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


def _named_text(label: Any, text: Any, name: str) -> Document:
    if not isinstance(label, str) or not label or not isinstance(text, str):
        raise InvalidArgumentError(
            f"source {name!r}: {label!r} is of type {type(text).__name__}; pass texts by name"
        )
    return Document(label, text=text)


def _is_path(text: str) -> bool:
    """Whether a string is a path and no text: it exists, or it is a single word."""
    if "\n" in text:
        return False
    try:
        return len(text.split()) == 1 or Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or it holds a zero character
        return False
