"""Memory: the front door. It names namespaces, redacts secrets, asks embedders; a store keeps."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from rehydrate._check import check_type
from rehydrate._concurrency.async_wrappers import stored
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.arguments import (
    checked_filters,
    checked_fusion,
    checked_handles,
    checked_limit,
    checked_namespace,
    checked_purge,
    checked_query,
    checked_tier,
    items_of,
    named,
)
from rehydrate.memory.embedding import Embedding
from rehydrate.memory.items import (
    INDEX_BYTES,
    Added,
    Filters,
    Fusion,
    Hit,
    ItemFields,
    MemoryItem,
    MemoryLimits,
    MemoryStats,
    Recalled,
    Tier,
    Vectors,
    VerifyReport,
)
from rehydrate.memory.redaction import Redactor, redactor_of

if TYPE_CHECKING:
    from rehydrate.memory.folder import SyncReport
    from rehydrate.memory.store import MemoryStore
    from rehydrate.memory.tiers import HotMemory
    from rehydrate.memory.transfer import Imported


RECALLED_NEIGHBOURS = 3
_BATCH = 1_000


class Memory:
    """What outlives a conversation: items of text in one file, found by words and by meaning.

    ``Memory.open(path)`` opens the file or makes it. Every operation names a namespace (a tenant,
    a user, a project), by ``namespace=`` or once for all by ``within``; what is in another
    namespace does not exist for it. Any number of threads and processes may use one file.

    Each operation has an async twin that starts with an "a": ``aadd``, ``asearch``, ``arecall``...

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Memory.open(f"{folder.name}/memory.db", namespace="alice") as memory:
    ...     added = memory.add(
    ...         ["The staging server listens on port 8443.", "Lunch was at noon."],
    ...         source="notes/servers.md",
    ...     )
    ...     hit = memory.search("which port does staging use?")[0]
    ...     hit.snippet
    'The staging server listens on port 8443.'
    >>> folder.cleanup()
    """

    recalls = "texts"
    """What compaction is to recall with: a memory finds the meaning of texts by itself."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        namespace: str | None = None,
        embedder: Any = "auto",
        redact: bool | Redactor = True,
    ) -> None:
        """Take a store of your own; `Memory.open` makes the usual one."""
        self._store = store
        self._namespace = None if namespace is None else checked_namespace(namespace)
        self._embedding = Embedding(embedder)
        self._redactor = redactor_of(redact)
        self._owns_store = True
        self._spaces: dict[str, str] = {}

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        namespace: str | None = None,
        embedder: Any = "auto",
        redact: bool | Redactor = True,
        limits: MemoryLimits = MemoryLimits(),  # noqa: B008  it is frozen
        index_bytes: int = INDEX_BYTES,
        read_only: bool = False,
    ) -> Self:
        """Open a memory's file, or make it; beside it a folder holds the index.

        ``embedder`` is "auto" (the built-in model), the folder or ``org/name`` of an ONNX model, an
        ``OnnxModel``, or an ``Embedder`` with a ``space`` of its own; one that fails is done
        without, and ``degraded`` says so. ``redact=False`` keeps secrets as they are,
        ``Redactor(off=[...])`` some kinds of them. ``limits`` bounds each namespace, and
        ``index_bytes`` the memory that the indexes of all of them take: beyond it those go that
        were not used for longest, and are read again when they are asked for.

        Raises StoreError where the file cannot be used and InvalidArgumentError for an argument
        outside its limits.
        """
        from rehydrate.memory.local import LocalStore

        check_type("path", path, (str, os.PathLike), "pass the path of a file")
        where = os.fspath(path)
        if not isinstance(where, str) or not where or "://" in where:
            raise InvalidArgumentError(f"path is {path!r}; pass the path of a file")
        if not isinstance(limits, MemoryLimits):
            raise InvalidArgumentError(
                f"limits is {limits!r}; pass rehydrate.memory.MemoryLimits(...)"
            )
        if type(index_bytes) is not int or not 1 <= index_bytes < 2**63:
            raise InvalidArgumentError(
                f"index_bytes is {index_bytes!r}; pass a whole number of bytes from 1 up"
            )
        Embedding(embedder), redactor_of(redact)  # a slip in these must leave no file behind
        if namespace is not None:
            checked_namespace(namespace)
        store = LocalStore(where, limits=limits, read_only=read_only, index_bytes=index_bytes)
        return cls(store, namespace=namespace, embedder=embedder, redact=redact)

    def within(self, namespace: str) -> Self:
        """The same memory, bound to a namespace; closing it closes nothing."""
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._namespace = checked_namespace(namespace)
        bound._owns_store = False
        return bound

    @property
    def namespace(self) -> str | None:
        """The namespace that is meant where a call names none."""
        return self._namespace

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not work since it was opened, and what was done instead; the newest last."""
        return self._embedding.troubles

    @property
    def redactor(self) -> Redactor | None:
        """What takes secrets out of all that is kept; None where they stay."""
        return self._redactor

    def add(
        self,
        texts: str | MemoryItem | Iterable[str | MemoryItem],
        *,
        namespace: str | None = None,
        vectors: Vectors | None = None,
        **fields: Unpack[ItemFields],
    ) -> list[Added]:
        """Keep texts or items: all of them or none, durably, in one transaction.

        Of bare texts, ``fields`` say the rest: ``kind=``, ``tier=``, ``source=``, ``trust=`` and so
        on, as in a ``MemoryItem``. Secrets are taken out first. The same text from the same source
        is one item: adding it again changes nothing and gives its handle.
        """
        where = named("add", namespace, self._namespace)
        items = [self.as_stored(item) for item in items_of(texts, fields)]
        instead = "found without it until rebuild()"
        found = vectors or self._embedding.of([item.text for item in items], instead)
        found = self._usable(found, where)
        added = self._store.add(items, namespace=where, vectors=found)
        if found is None and not self._embedding.is_builtin:
            added = [one._replace(embedded=False) for one in added]
        return added

    def as_stored(self, item: MemoryItem) -> MemoryItem:
        """The item as `add` would keep it: without its secrets."""
        return item if self._redactor is None else self._redactor.item(item)

    def get(self, handle: str, *, namespace: str | None = None) -> MemoryItem:
        """The item, its text as it was kept, byte for byte; raises UnknownHandleError."""
        where = named("get", namespace, self._namespace)
        (checked,) = checked_handles([handle])
        return self._store.get(checked, namespace=where)

    def list(
        self,
        *,
        namespace: str | None = None,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]:
        """Items in the order in which they were added; ``limit=None``: all of them."""
        where = named("list", namespace, self._namespace)
        most = None if limit is None else checked_limit("limit", limit, None)
        checked = self._redacted(checked_filters("list", filters))
        return self._store.list(
            namespace=where, limit=most, newest_first=bool(newest_first), **checked
        )

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        namespace: str | None = None,
        fusion: Fusion | None = None,
        vectors: Vectors | None = None,
        **filters: Unpack[Filters],
    ) -> builtins.list[Hit]:
        """The items that match best, best first: by words, by parts of words and by meaning.

        Narrowed by ``tiers``, ``kinds``, ``sources``, ``threads``, ``after``, ``before``,
        ``min_trust``. ``fusion`` says how the three scores become one; None: the way that was
        measured best.
        """
        where = named("search", namespace, self._namespace)
        asked, most = checked_query(query), checked_limit("limit", limit)
        way = checked_fusion(fusion)
        checked = self._redacted(checked_filters("search", filters))
        if vectors is None and asked.strip():
            vectors = self._embedding.of([asked], "searched with the built-in model")
        vectors = self._usable(vectors, where)
        return self._store.search(
            asked, most, namespace=where, fusion=way, vectors=vectors, **checked
        )

    def recall(
        self,
        texts: Sequence[str] | Any,
        k: int = RECALLED_NEIGHBOURS,
        *,
        namespace: str | None = None,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Of each text the ``k`` memories nearest in meaning, nearest first: in one batch.

        Rows of vectors of the memory's own embedder will do instead of texts. A row of the answer
        is as long as there are memories near; ``float()`` of an entry is the cosine.
        """
        where = named("recall", namespace, self._namespace)
        most = checked_limit("k", k)
        if isinstance(texts, str):
            texts = [texts]
        asked = texts if isinstance(texts, Sequence) else None
        if asked is None or not all(isinstance(text, str) for text in asked):
            asked, vectors = (), self._embedding.rows(texts)
        elif vectors is None:
            vectors = self._embedding.of(asked, "compared by the built-in model")
        vectors = self._usable(vectors, where)
        if vectors is None and not asked:
            return [[] for _ in texts]
        return self._store.recall(asked, most, namespace=where, vectors=vectors)

    def forget(self, handles: str | Sequence[str], *, namespace: str | None = None) -> int:
        """Remove items, their text too; how many there were."""
        where = named("forget", namespace, self._namespace)
        return self._store.forget(checked_handles(handles), namespace=where)

    def purge(
        self,
        *,
        namespace: str | None = None,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, all of a thread, or everything in the namespace.

        From the disk too: raises PurgeIncompleteError, which names them, where files that hold
        traces of it could not be removed, and StoreBusyError where others use the file all the
        time. In both cases purge again. Returns how many items there were.
        """
        where = named("purge", namespace, self._namespace)
        checked_purge(source, thread, everything)
        self._spaces.pop(where, None)
        return self._store.purge(
            namespace=where,
            source=self._redacted_name(source),
            thread=self._redacted_name(thread),
            everything=everything,
        )

    def set_tier(
        self, handles: str | Sequence[str], tier: Tier, *, namespace: str | None = None
    ) -> int:
        """Move items to a tier; how many were in another one."""
        where = named("set_tier", namespace, self._namespace)
        return self._store.set_tier(checked_handles(handles), checked_tier(tier), namespace=where)

    def link(self, handle: str, relation: str, other: str, *, namespace: str | None = None) -> bool:
        """Say that an item "supersedes" or "contradicts" another, or any word of yours.

        Neither is changed by it. Returns whether the link is new; raises UnknownHandleError.
        """
        where = named("link", namespace, self._namespace)
        if not isinstance(relation, str) or not relation:
            raise InvalidArgumentError(f"relation is {relation!r}; pass a word like 'supersedes'")
        start, end = checked_handles([handle, other])
        return self._store.link(start, relation, end, namespace=where)

    def hot(self, *, namespace: str | None = None) -> HotMemory:
        """What belongs into every turn: the hot items, at most 100 lines of them."""
        from rehydrate.memory.tiers import hot_memory

        return hot_memory(self, named("hot", namespace, self._namespace))

    def sync_folder(
        self,
        folder: str | PathLike[str],
        *,
        namespace: str | None = None,
        label: str | None = None,
    ) -> SyncReport:
        """Bring a folder of notes in, and what changed in it since.

        ``core.md`` becomes hot, ``archive/`` cold, all else warm. Items get the source
        ``<label>/<path in the folder>``; the label is the folder's name unless given.
        """
        from rehydrate.memory.folder import sync_folder

        return sync_folder(self, folder, named("sync_folder", namespace, self._namespace), label)

    def export_items(self, path: str | PathLike[str], *, namespace: str | None = None) -> int:
        """Write a namespace to a file, a line of JSON an item; how many there were."""
        from rehydrate.memory.transfer import export_items

        return export_items(self, path, named("export_items", namespace, self._namespace))

    def import_items(self, path: str | PathLike[str], *, namespace: str | None = None) -> Imported:
        """Add what `export` wrote: the same handles, provenance, times and links.

        What is there already stays as it is. Raises InvalidArgumentError for a line that is no
        item; those before it may be in then, and importing again after a repair is harmless.
        """
        from rehydrate.memory.transfer import import_items

        return import_items(self, path, named("import_items", namespace, self._namespace))

    def stats(self, *, namespace: str | None = None) -> MemoryStats:
        """Figures of the namespace, and what did not work since the memory was opened."""
        from dataclasses import replace

        where = named("stats", namespace, self._namespace)
        return replace(self._store.stats(namespace=where), degraded=self.degraded)

    def namespaces(self) -> Sequence[str]:
        """Those that something was added to, in alphabetical order; a bound memory sees its own."""
        found = self._store.namespaces()
        return [name for name in found if self._namespace in {None, name}]

    def verify(self) -> VerifyReport:
        """Check everything that is stored, whatever the namespace."""
        return self._store.verify()

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Make the index anew, of one namespace or of all; how many items it holds.

        With an embedder of your own, items that have no vector of it get one; `drop_vectors` comes
        first where the namespace holds those of another.
        """
        where = self._namespace if namespace is None else checked_namespace(namespace)
        for name in self._store.namespaces() if where is None else [where]:
            self._embed_again(name)
        return self._store.rebuild(namespace=where)

    def drop_vectors(self, *, namespace: str | None = None) -> int:
        """Take away the namespace's vectors, so that another embedder may give its own.

        The items stay and are found by the built-in model; `rebuild` gives them vectors of the
        embedder that this memory was opened with. How many items had one.
        """
        where = named("drop_vectors", namespace, self._namespace)
        drop = getattr(self._store, "drop_vectors", None)
        if drop is None:
            raise InvalidArgumentError(
                f"{type(self._store).__name__} has no drop_vectors; export_items, "
                "purge and import_items do the same"
            )
        self._spaces.pop(where, None)
        dropped: int = drop(namespace=where)
        return dropped

    def close(self) -> None:
        """Let the writes that are under way end, and let go of the file.

        In a signal handler too: amid a call of the same thread it returns at once, and that call
        closes the memory when it ends.
        """
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        """The memory itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """The memory itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, even where the task was cancelled."""
        import anyio

        with anyio.CancelScope(shield=True):
            await self.aclose()

    def __repr__(self) -> str:
        """Where it is, and whose."""
        where = getattr(self._store, "path", type(self._store).__name__)
        return f"Memory({where!r}, namespace={self._namespace!r})"

    def _redacted(self, filters: Filters) -> Filters:
        """Sources and threads by the names under which they are stored."""
        if sources := filters.get("sources"):
            filters["sources"] = [self._redacted_name(source) for source in sources]
        if threads := filters.get("threads"):
            filters["threads"] = [self._redacted_name(thread) for thread in threads]
        return filters

    def _redacted_name(self, name: str | None) -> Any:
        return name if name is None or self._redactor is None else self._redactor(name).text

    def _usable(self, vectors: Vectors | None, namespace: str) -> Vectors | None:
        """Vectors that can be compared with those of the namespace, which holds to one model."""
        if vectors is None:
            return None
        if namespace not in self._spaces:
            held = self._store.stats(namespace=namespace).vector_space
            self._spaces[namespace] = held or vectors.space
        return self._embedding.usable(vectors, namespace, self._spaces[namespace])

    def _embed_again(self, namespace: str) -> None:
        give = getattr(self._store, "set_vectors", None)
        if self._embedding.is_builtin or give is None:
            return
        items = self._store.list(namespace=namespace, limit=None)
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            vectors = self._embedding.of([item.text for item in batch], "found without it")
            vectors = self._usable(vectors, namespace)
            if vectors is not None:
                give([item.handle for item in batch], vectors, namespace=namespace)

    aadd = stored(add)
    aget = stored(get)
    alist = stored(list)  # noqa: A003  the method, not the builtin
    asearch = stored(search)
    arecall = stored(recall)
    aforget = stored(forget)
    apurge = stored(purge)
    aset_tier = stored(set_tier)
    alink = stored(link)
    ahot = stored(hot)
    async_folder = stored(sync_folder)
    aexport_items = stored(export_items)
    aimport_items = stored(import_items)
    astats = stored(stats)
    anamespaces = stored(namespaces)
    averify = stored(verify)
    arebuild = stored(rebuild)
    adrop_vectors = stored(drop_vectors)
    aclose = stored(close)
