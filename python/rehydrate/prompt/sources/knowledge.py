"""Documents in pieces: files, folders and texts, read again only when they changed.

knowledge: what documents say about the turn: files, folders and texts of the caller's.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from rehydrate import _engine
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.arguments import checked_limit
from rehydrate.memory.folder import (
    CHUNK_TOKENS,
    SUFFIXES,
    chunks,
    files_in,
    read_note,
    split_front_matter,
)
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.section import CompositionMode, Priority, Provenance, Section
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest, SourceSettings

if TYPE_CHECKING:
    from rehydrate import _native


FOLDER_SUFFIXES = SUFFIXES | {".adoc", ".org", ".rst"}
"""What is read of a folder; a file that is named by itself may be any text."""
_JUST_NOW_S = 2.0
"""A file that was changed this recently may change again without its time showing it."""
_MOST_CHARS = 32_000_000
"""What is kept of texts that were ranked, over all documents of the process."""


class Extract(NamedTuple):
    """A piece of a document."""

    document: str
    number: int
    """From 1."""
    text: str
    digest: str
    modified: datetime | None = None

    @property
    def id(self) -> str:
        """Which piece of which document: ``docs/ports.md#3``."""
        return f"{self.document}#{self.number}"


class Corpus:
    """Extracts, and what the engine knows of them; ranked by query after query."""

    def __init__(self, extracts: Sequence[Extract]) -> None:
        """Analyse them all."""
        self.extracts = tuple(extracts)
        self.chars = sum(len(extract.text) for extract in extracts)
        messages = tuple(
            [
                Message(place, "user", (Piece(extract.text, PieceKind.TEXT),))
                for place, extract in enumerate(extracts)
            ]
        )
        units = tuple([Unit((message.index,), (message,)) for message in messages])
        self._prepared: _native.Prepared = _engine.prepare(
            Conversation("", messages, units),
            weight_of=lambda _role: 1.0,
            pinned=[False] * len(units),
            counter=COUNTER,
            embed=True,
            calibrated=True,
            coverage=False,
            asked=True,
        )

    def best(self, query: str, limit: int) -> list[tuple[Extract, float]]:
        """The extracts most relevant to the query and how relevant, of all of them; best first."""
        selection = self._prepared.select(
            query=query,
            query_weight=1.0,
            vectors=None,
            places=None,
            query_vector=None,
            memory_coverage=None,
            weights=(0.0, 1.0, 0.0),
            calibrated=True,
            coverage=False,
            target_tokens=0,
        )
        relevance = [signal.semantic for signal in _engine.signals(selection)]
        ranked = sorted(range(len(relevance)), key=lambda place: -relevance[place])[:limit]
        return [(self.extracts[place], relevance[place]) for place in ranked]


class Document(NamedTuple):
    """Something to read: a text, or the path of a file or a folder."""

    label: str
    """What it is called in the prompt."""
    path: Path | None = None
    text: str = ""

    def extracts(self, chunk_tokens: int, troubles: list[str]) -> Iterator[Extract]:
        """Its pieces, in order; what cannot be read is said in `troubles`."""
        if self.path is None:
            yield from _cut(self.label, self.text, chunk_tokens, None)
        elif self.path.is_dir():
            for file, inside in files_in(self.path):
                if file.suffix.lower() in FOLDER_SUFFIXES:
                    shown = os.fsencode(f"{self.label}/{inside}").decode("utf-8", "replace")
                    yield from _read(file, shown, chunk_tokens, troubles)
        else:
            yield from _read(self.path, self.label, chunk_tokens, troubles)


def corpus_of(documents: Sequence[Document], chunk_tokens: int, troubles: list[str]) -> Corpus:
    """The documents as they are now; analysed once for what they say."""
    extracts = [
        extract for document in documents for extract in document.extracts(chunk_tokens, troubles)
    ]
    key = tuple([(extract.document, extract.digest) for extract in extracts])
    with _lock:
        known = _corpora.get(key)
        if known is not None:
            _corpora.move_to_end(key)
            return known
    made = Corpus(extracts)
    with _lock:
        _corpora[key] = made
        while len(_corpora) > 1 and sum(one.chars for one in _corpora.values()) > _MOST_CHARS:
            _corpora.popitem(last=False)
    return made


_Stamp = tuple[str, str, int, int, int, int]
_files: OrderedDict[_Stamp, list[Extract]] = OrderedDict()
_corpora: OrderedDict[tuple[tuple[str, str], ...], Corpus] = OrderedDict()
_lock = ForkSafeLock()
_MOST_FILES = 10_000


def _read(path: Path, shown: str, chunk_tokens: int, troubles: list[str]) -> Sequence[Extract]:
    try:
        status = path.lstat()
    except OSError as error:
        troubles.append(f"{shown}: it cannot be read: {error.strerror}")
        return ()
    stamp = (str(path), shown, chunk_tokens, status.st_mtime_ns, status.st_size, status.st_ino)
    with _lock:
        known = _files.get(stamp)
        if known is not None:
            _files.move_to_end(stamp)
            return known
    note = read_note(path, path.name, None)
    if isinstance(note, str):
        troubles.append(f"{shown}: {note}")
        return ()
    extracts = list(_cut(shown, note.text, chunk_tokens, note.modified))
    if abs(time.time() - status.st_mtime) > _JUST_NOW_S:
        with _lock:
            _files[stamp] = extracts
            while len(_files) > _MOST_FILES:
                _files.popitem(last=False)
    return extracts


def _cut(
    document: str, text: str, chunk_tokens: int, modified: datetime | None
) -> Iterator[Extract]:
    _, body = split_front_matter(text)
    for place, chunk in enumerate(chunks(body, chunk_tokens=chunk_tokens)):
        if chunk.body.strip():
            said = chunk.text.strip("\n")
            digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8)
            yield Extract(document, place + 1, said, digest.hexdigest(), modified)


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
    r"""The pieces of documents that are most relevant to the query, the best first.

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
        if not request.query.strip():
            return Found(off="the request has no query to look for")
        troubles: list[str] = []
        corpus = corpus_of(read, chunk, troubles)
        degraded = tuple([f"{name}: {trouble}" for trouble in troubles])
        return Found(_sections(corpus, request), degraded=degraded)

    def _sections(corpus: Corpus, request: SourceRequest) -> tuple[Section, ...]:
        if not corpus.extracts:
            return ()
        ranked = corpus.best(request.query, most + len(request.visible))
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
