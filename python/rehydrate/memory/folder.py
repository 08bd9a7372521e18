"""Folder sync: each chunk of a folder of notes is an item; the hot ones go into every turn."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from rehydrate._check import check_path
from rehydrate._native import note_pieces, split_front_matter
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.memory.items import MemoryItem
from rehydrate.memory.transfer import add_items

if TYPE_CHECKING:
    from rehydrate.memory.store import MemoryStore


CHUNK_TOKENS = 200
CHARS_A_TOKEN = 3.5


class Chunk(NamedTuple):
    """A piece of a text; `body` is an exact substring of it."""

    headings: tuple[str, ...]
    """The headings above it, the outermost first; without a heading that the body itself begins
    with."""
    body: str

    @property
    def text(self) -> str:
        """The text of the item: the headings, then the body."""
        return f"{' > '.join(self.headings)}\n\n{self.body}" if self.headings else self.body


MAX_FILE_BYTES = 2_000_000
"""People write notes by hand; a larger file is a log or a dump."""
SUFFIXES = {".md", ".markdown", ".txt"}
TOOL = "sync"
_BATCH = 1_000
"""Chunks written or forgotten in one transaction; each transaction waits for the disk."""
KINDS = {"decisions.md": "decision", "core.md": "core"}


class Refused(NamedTuple):
    """A file that was skipped, and why. Items stored from it before stay."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Counts of a sync: files found, and chunks added, removed and unchanged."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    refused: tuple[Refused, ...]
    warnings: tuple[str, ...]
    chunks_added: int
    chunks_removed: int
    chunks_unchanged: int

    def __str__(self) -> str:
        """Return the counts as one line."""
        counts = ", ".join(
            f"{len(getattr(self, name))} {name}"
            for name in ("added", "changed", "removed", "unchanged", "refused")
        )
        return f"{counts}; {self.chunks_added} chunks new, {self.chunks_removed} gone"


def sync_folder(
    memory: MemoryStore,
    folder: str | PathLike[str],
    namespace: str,
    label: str | None,
    as_stored: Callable[[MemoryItem], MemoryItem],
) -> SyncReport:
    """Add new chunks, forget missing ones, and leave the rest as they are.

    ``as_stored`` gives an item as the memory will hold it: without its secrets. Raises
    InvalidArgumentError if the folder is missing: a disk that is not mounted must not look
    like one on which all was deleted.
    """
    check_path("folder", folder, "pass the path of a folder")
    root = Path(folder)
    if not root.is_dir():
        raise InvalidArgumentError(f"folder is {str(folder)!r}, which isn't a folder; pass one")
    name = root.resolve().name if label is None else label
    if not isinstance(name, str) or not name or name != name.strip("/"):
        raise InvalidArgumentError(f"label is {label!r}; pass a name for the folder")

    sync = _Sync(memory, namespace, name, as_stored)
    notes: dict[str, dict[str, tuple[Path, str]]] = {}
    for file, inside in files_in(root):
        path = os.fsencode(inside).decode("utf-8", "replace")
        notes.setdefault(sync.source_of(path), {})[path] = (file, inside)
    for source, files in notes.items():
        sync.bring_in(source, {path: read_note(*file) for path, file in files.items()})
    return sync.finish()


class _Sync:
    """One run of `sync_folder`."""

    def __init__(
        self,
        memory: MemoryStore,
        namespace: str,
        label: str,
        as_stored: Callable[[MemoryItem], MemoryItem],
    ) -> None:
        self._memory = memory
        self._as_stored = as_stored
        self._namespace = namespace
        self._label = label
        self._thread = f"{TOOL}:{label}"
        self._stored: dict[str, dict[str, MemoryItem]] = {}  # by source, then by text
        for item in memory.list(namespace=namespace, threads=[self._thread], limit=None):
            self._stored.setdefault(item.source, {})[item.text] = item
        self._paths: dict[str, list[str]] = {"added": [], "changed": [], "unchanged": []}
        self._refused: list[Refused] = []
        self._warnings: list[str] = []
        self._new: list[MemoryItem] = []
        self._gone: list[str] = []
        self._added = self._removed = self._unchanged = 0

    def source_of(self, path: str) -> str:
        """Return the source of a file's items as the memory holds it: without its secrets."""
        return self._as_stored(MemoryItem("-", source=f"{self._label}/{path}")).source

    def bring_in(self, source: str, files: dict[str, NoteFile | str]) -> None:
        """Store the files of one source: more than one if only a secret tells their names apart.

        While one of them is refused, all that was stored from the source stays.
        """
        refused = [Refused(path, why) for path, why in files.items() if isinstance(why, str)]
        self._refused += refused
        notes = {path: file for path, file in files.items() if isinstance(file, NoteFile)}
        wanted: dict[str, MemoryItem] = {}
        for path, file in notes.items():
            wanted = self._items(path, file) | wanted
        stored = self._stored.pop(source, {})
        new = [item for text, item in wanted.items() if text not in stored]
        gone = [item.handle for text, item in stored.items() if text not in wanted and not refused]
        self._new += new
        self._gone += gone
        if len(self._new) + len(self._gone) >= _BATCH:
            self._write()
        again = [
            (before, item)
            for text, item in wanted.items()
            if (before := stored.get(text)) and before.metadata != item.metadata
        ]
        if again:
            self._write_again(again)
        moved = 0
        for text, item in wanted.items():
            # The limits decide between warm and cold after it is stored; the file decides only hot.
            before = stored.get(text)
            if before and (before.tier == "hot") != (item.tier == "hot"):
                moved += self._memory.set_tier(before.handle, item.tier, namespace=self._namespace)
        self._added += len(new)
        self._unchanged += len(wanted) - len(new)
        if not stored and new:
            outcome = "added"
        else:
            outcome = "changed" if new or gone or again or moved else "unchanged"
        self._paths[outcome] += notes

    def finish(self) -> SyncReport:
        """Forget every stored chunk that this run did not see."""
        for items in self._stored.values():
            self._gone += [item.handle for item in items.values()]
        self._write()
        return SyncReport(
            **{outcome: tuple(paths) for outcome, paths in self._paths.items()},
            removed=tuple(sorted(one.removeprefix(f"{self._label}/") for one in self._stored)),
            refused=tuple(self._refused),
            warnings=tuple(self._warnings),
            chunks_added=self._added,
            chunks_removed=self._removed,
            chunks_unchanged=self._unchanged,
        )

    def _write(self) -> None:
        """Write the new chunks before the old ones go, so that a search meanwhile misses
        nothing."""
        if self._new:
            self._memory.add(self._new, namespace=self._namespace)
            self._new = []
        if self._gone:
            self._removed += self._memory.forget(self._gone, namespace=self._namespace)
            self._gone = []

    def _write_again(self, changed: list[tuple[MemoryItem, MemoryItem]]) -> None:
        """Write chunks with the same text, so the same handle, and other front matter; they keep
        their links."""
        memory, where = self._memory, self._namespace
        memory.forget([before.handle for before, _ in changed], namespace=where)
        linked = [replace(item, links=before.links) for before, item in changed]
        add_items(memory, linked, where)
        for before, _ in changed:
            for link in before.linked_from:
                with suppress(UnknownHandleError):  # forgotten meanwhile
                    memory.link(link.handle, link.relation, before.handle, namespace=where)

    def _items(self, path: str, file: NoteFile) -> dict[str, MemoryItem]:
        """Return the items of a file, keyed by their stored text; equal texts are one item."""
        front, text = split_front_matter(file.text)
        pieces, lines = note_pieces(path, text)
        if lines > HOT_LINES:
            self._warnings.append(too_many_lines(path, lines))
        items: dict[str, MemoryItem] = {}
        for tier, chunk in pieces:
            metadata: dict[str, object] = {"path": path}
            if chunk.headings:
                metadata["headings"] = list(chunk.headings)
            if front:
                metadata["front_matter"] = front
            item = self._as_stored(
                MemoryItem(
                    chunk.text,
                    kind=KINDS.get(path, "note"),
                    tier=tier,
                    source=f"{self._label}/{path}",
                    thread=self._thread,
                    tool=TOOL,
                    time=_day_of(path) or file.modified,
                    metadata=metadata,
                )
            )
            items.setdefault(item.text, item)
        return items


class NoteFile(NamedTuple):
    """A file's text, and when it was last changed."""

    text: str
    modified: datetime


def files_in(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files in the folder in order of their paths, each with its path in the folder.

    Hidden files and folders, such as `.git`, are left out.
    """
    for folder, names, files in os.walk(root):
        inside = Path(folder)
        links = [name for name in names if (inside / name).is_symlink()]
        names[:] = sorted(name for name in names if name not in links and not name.startswith("."))
        for name in sorted([*links, *files]):
            if not name.startswith("."):
                path = inside / name
                shown = path.relative_to(root).as_posix()
                yield path, shown


def read_note(
    path: Path, shown: str, suffixes: AbstractSet[str] | None = SUFFIXES
) -> NoteFile | str:
    """Read a file, or return why it is refused. It is opened once: the checks see what is read.

    `suffixes` are the allowed endings of its name; None: any.
    """
    if path.is_symlink():
        return _LINK
    try:
        shown.encode()
        number = os.open(path, _FLAGS)
        with os.fdopen(number, "rb") as file:
            status = os.fstat(number)
            size, reason = status.st_size, ""
            if not stat.S_ISREG(status.st_mode):
                reason = "it isn't a regular file"
            elif suffixes is not None and path.suffix.lower() not in suffixes:
                reason = f"it isn't a note; notes end in {', '.join(sorted(suffixes))}"
            elif size > MAX_FILE_BYTES:
                reason = f"it has {size:,} bytes, and a note at most {MAX_FILE_BYTES:,}; split it"
            content = b"" if reason else file.read(MAX_FILE_BYTES + 1)
        if b"\0" in content:
            reason = "it is binary: it holds a zero byte"
        text = content.decode()
    except UnicodeEncodeError:
        reason = "its name isn't UTF-8"
    except UnicodeDecodeError as error:
        reason = f"it isn't UTF-8 text: byte {error.start} begins no character"
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        reason = _LINK if is_link else f"it cannot be read: {error.strerror}"
    return reason or NoteFile(text, datetime.fromtimestamp(status.st_mtime, UTC))


# Not blocking: a pipe without a writer would never open. Windows has neither flag.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LINK = "it is a symbolic link, which may lead out of the folder"


def _day_of(path: str) -> datetime | None:
    """Return the day in the name of a daily note; None for any other name."""
    try:
        return datetime.strptime(PurePosixPath(path).stem, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None


# Tiers

HOT_LINES = 100
"""The maximum number of lines of hot memory in a turn."""


@dataclass(frozen=True, slots=True)
class HotMemory:
    """The memory that goes into every turn."""

    text: str
    """At most 100 lines; "" if nothing is hot."""
    lines: int
    handles: tuple[str, ...]
    """The items in the text."""
    warning: str = ""
    """A note on the lines that were left out, with the remedy; "" if all fit."""
    trust: float = 1.0
    """Trust of the least trusted item in it."""


def too_many_lines(name: str, lines: int) -> str:
    """Return the warning for hot memory that is too long.

    >>> print(too_many_lines("core.md", 140))
    core.md has 140 lines, hot memory holds 100: lines 101-140 are found by searching only; move \
some to decisions.md
    """
    return (
        f"{name} has {lines} lines, hot memory holds {HOT_LINES}: lines {HOT_LINES + 1}-{lines} "
        "are found by searching only; move some to decisions.md"
    )


def hot_memory(items: Iterable[MemoryItem]) -> HotMemory:
    """Return the lines of the hot items, in their order, up to the limit."""
    lines: list[str] = []
    handles = []
    total, trust = 0, 1.0
    for item in items:
        its_lines = item.text.rstrip().splitlines()
        total += len(its_lines)
        if len(lines) < HOT_LINES:
            handles.append(item.handle)
            trust = min(trust, item.trust)
            lines += its_lines[: HOT_LINES - len(lines)]
    warning = too_many_lines("hot memory", total) if total > HOT_LINES else ""
    return HotMemory("\n".join(lines), len(lines), tuple(handles), warning, trust)
