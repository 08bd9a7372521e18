"""Memory, the entry point: resolves namespaces, redacts secrets, embeds texts, calls a store."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, get_args

from rehydrate._check import check_choice, check_type, check_whole, refuse_copy
from rehydrate._concurrency.async_wrappers import Closing, stored
from rehydrate._jsonl import lines_of, write_lines
from rehydrate._native import (
    as_items,
    checked_filters,
    checked_fusion,
    checked_handles,
    checked_limit,
    checked_namespace,
    checked_purge,
    checked_tier,
    resolve_namespace,
)
from rehydrate.errors import InvalidArgumentError
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
    VectorIndex,
    Vectors,
    VerifyReport,
)
from rehydrate.memory.redaction import Redactor, redactor_of
from rehydrate.memory.store import open_store, verify_place

if TYPE_CHECKING:
    from rehydrate.memory.folder import HotMemory, SyncReport
    from rehydrate.memory.store import MemoryStore
    from rehydrate.memory.transfer import Imported


RECALLED_NEIGHBOURS = 3


class Memory(Closing):
    """Items of text that outlive a conversation, in one file, searched by words and by meaning.

    ``Memory.open(path)`` opens the file or creates it. Every operation has a namespace (a tenant, a
    user, a project), from ``namespace=``, here or in the call, or from ``within``, whose memory
    refuses calls for another (OtherNamespaceError). It never sees items of another namespace. Any
    number of threads and processes may use one file.

    Each operation has an async version that starts with an "a": ``aadd``, ``asearch``,
    ``arecall``...

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
    """Tells compaction to pass texts to `recall`: a memory embeds them itself."""

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
        vectors: VectorIndex = "auto",
        read_only: bool = False,
        language: str | None = None,
    ) -> Self:
        """Open a memory's file, or create it; the index is in a folder next to it.

        ``path`` may be a URL, ``postgresql://user@host/database``: then the items are on a server,
        for many processes and machines (``pip install 'rehydrate[postgres]'``). ``language`` is for
        a server only: the text search configuration of new namespaces, "english" unless given.

        ``embedder`` is "auto" (the built-in model), the folder or ``org/name`` of an ONNX model, an
        ``OnnxModel``, or an ``Embedder`` with a ``space`` of its own. If it fails, the built-in
        model takes over and ``degraded`` says so. ``redact=False`` keeps secrets as they are;
        ``Redactor(off=[...])`` keeps some kinds of them. ``limits`` applies to each namespace.
        ``index_bytes`` limits the RAM of all indexes together: the least recently used are dropped
        first and read again on demand. ``vectors`` is the index that finds the nearest vectors:
        "lists" (inverted lists), "usearch" (a graph, from 4,096 vectors of a file on), or "auto",
        what is quicker: lists, at every size that was measured.

        Raises StoreError if the file cannot be used and InvalidArgumentError for an argument
        outside its limits.
        """
        where = verify_place(path)
        if not isinstance(limits, MemoryLimits):
            raise InvalidArgumentError(
                f"limits is {limits!r}; pass rehydrate.memory.MemoryLimits(...)"
            )
        check_whole("index_bytes", index_bytes, 1, 2**63 - 1)
        check_choice("vectors", vectors, get_args(VectorIndex))
        check_type("read_only", read_only, bool, "pass True or False")
        Embedding(embedder), redactor_of(redact)  # before the file is made
        if namespace is not None:
            checked_namespace(namespace)
        store = open_store(
            where,
            limits=limits,
            read_only=read_only,
            index_bytes=index_bytes,
            vectors=vectors,
            language=language,
        )
        return cls(store, namespace=namespace, embedder=embedder, redact=redact)

    @classmethod
    async def aopen(
        cls,
        path: str | PathLike[str],
        *,
        namespace: str | None = None,
        embedder: Any = "auto",
        redact: bool | Redactor = True,
        limits: MemoryLimits = MemoryLimits(),  # noqa: B008  it is frozen
        index_bytes: int = INDEX_BYTES,
        vectors: VectorIndex = "auto",
        read_only: bool = False,
        language: str | None = None,
    ) -> Self:
        """`open` for asyncio and trio, with the same arguments, result and errors."""
        return await stored(cls.open)(
            path,
            namespace=namespace,
            embedder=embedder,
            redact=redact,
            limits=limits,
            index_bytes=index_bytes,
            vectors=vectors,
            read_only=read_only,
            language=language,
        )

    def within(self, namespace: str) -> Self:
        """Return the same memory confined to a namespace: it refuses calls for another. Closing it
        does not close the store."""
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._namespace = self._where("within", checked_namespace(namespace))
        bound._owns_store = False
        return bound

    @property
    def namespace(self) -> str | None:
        """The namespace of calls that name none."""
        return self._namespace

    @property
    def degraded(self) -> tuple[str, ...]:
        """Failures since it was opened, and what was done instead; the newest last.

        A memory that is confined to a namespace knows those of its own namespace only.
        """
        return self._degraded(None if self._owns_store else self._namespace)

    def _degraded(self, namespace: str | None) -> tuple[str, ...]:
        return (*getattr(self._store, "degraded", ()), *self._embedding.troubles(namespace))

    @property
    def redactor(self) -> Redactor | None:
        """Removes secrets from everything that is stored; None: secrets stay."""
        return self._redactor

    def add(
        self,
        texts: str | MemoryItem | Iterable[str | MemoryItem],
        *,
        namespace: str | None = None,
        vectors: Vectors | None = None,
        **fields: Unpack[ItemFields],
    ) -> list[Added]:
        """Add texts or items: all of them or none, durably, in one transaction.

        ``fields`` set the rest of bare texts: ``kind=``, ``tier=``, ``source=``, ``trust=`` and so
        on, as in a ``MemoryItem``. Secrets are removed first. The same text from the same source is
        one item: adding it again changes nothing and returns its handle.
        """
        where = self._where("add", namespace)
        items = [self.as_stored(item) for item in as_items(texts, fields)]
        instead = "found without it until rebuild()"
        if vectors is None:
            vectors = self._embedding.embed([item.text for item in items], where, instead)

        def write(vectors: Vectors | None) -> builtins.list[Added]:
            added = self._store.add(items, namespace=where, vectors=vectors)
            if vectors is None and not self._embedding.is_builtin:
                added = [one._replace(embedded=False) for one in added]
            return added

        return self._embedding.offer(vectors, self._store, where, write)

    def as_stored(self, item: MemoryItem) -> MemoryItem:
        """Return the item as `add` would store it: without its secrets."""
        return item if self._redactor is None else self._redactor.item(item)

    def get(self, handle: str, *, namespace: str | None = None) -> MemoryItem:
        """Return the item, its text byte for byte as stored; raises UnknownHandleError."""
        where = self._where("get", namespace)
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
        """Return items in the order in which they were added; ``limit=None``: all of them."""
        where = self._where("list", namespace)
        count = None if limit is None else checked_limit("limit", limit, None)
        checked = self._redacted(checked_filters("list", filters))
        return self._store.list(
            namespace=where, limit=count, newest_first=bool(newest_first), **checked
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
        """Return the best matches, best first: by words, by trigrams and by meaning.

        The filters ``tiers``, ``kinds``, ``sources``, ``threads``, ``after``, ``before`` and
        ``min_trust`` narrow it. ``fusion`` is how the three scores are combined; None: the way that
        measured best.
        """
        where = self._where("search", namespace)
        check_type("query", query, str, "pass a string")
        count = checked_limit("limit", limit)
        way = checked_fusion(fusion)
        checked = self._redacted(checked_filters("search", filters))
        if vectors is None and query.strip():
            vectors = self._embedding.embed([query], where, "searched with the built-in model")
        look = partial(self._store.search, query, count, namespace=where, fusion=way, **checked)
        return self._embedding.offer(vectors, self._store, where, look)

    def recall(
        self,
        texts: Sequence[str] | Any,
        k: int = RECALLED_NEIGHBOURS,
        *,
        namespace: str | None = None,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Return the ``k`` memories nearest in meaning to each text, nearest first, in one batch.

        Rows of vectors of the memory's own embedder may be passed for texts. Each row of the answer
        has at most ``k`` entries; ``float()`` of an entry is the cosine. A text whose vector is
        missing or zeros is compared by the built-in model.
        """
        where = self._where("recall", namespace)
        count = checked_limit("k", k)
        if isinstance(texts, str):
            texts = [texts]
        queries = texts if isinstance(texts, Sequence) else None
        if queries is None or not all(isinstance(text, str) for text in queries):
            queries, vectors = (), self._embedding.rows(texts)
        elif vectors is None:
            vectors = self._embedding.embed(queries, where, "compared by the built-in model")
        look = partial(self._store.recall, queries, count, namespace=where)
        # Without texts, vectors of another space find nothing.
        found = self._embedding.offer(vectors, self._store, where, look) or [[] for _ in texts]
        if vectors is not None and queries:
            import numpy as np

            has_vector: Any = np.atleast_2d(vectors.rows).any(axis=1)
            # A namespace without vectors finds nothing by one.
            lacking = [at for at, near in enumerate(found) if not (near and has_vector[at])]
            by_text = [queries[at] for at in lacking]
            near = self._store.recall(by_text, count, namespace=where) if by_text else []
            for at, row in zip(lacking, near, strict=True):
                found[at] = row
        return found

    def forget(self, handles: str | Sequence[str], *, namespace: str | None = None) -> int:
        """Remove items and return how many there were.

        The bytes of their texts may stay on the disk until the next `purge` of the namespace.
        """
        where = self._where("forget", namespace)
        return self._store.forget(checked_handles(handles), namespace=where)

    def purge(
        self,
        *,
        namespace: str | None = None,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, all of a thread, or everything in the namespace, from the disk
        too.

        What items of the namespace that were forgotten, had expired or were beyond its limits left
        on the disk is removed with it.

        Raises PurgeIncompleteError, which lists files with traces that could not be removed, and
        StoreBusyError if others use the file all the time. In both cases purge again. Returns
        how many items there were.
        """
        where = self._where("purge", namespace)
        checked_purge(source, thread, everything)
        return self._store.purge(
            namespace=where,
            source=self._redacted_name(source),
            thread=self._redacted_name(thread),
            everything=everything,
        )

    def set_tier(
        self, handles: str | Sequence[str], tier: Tier, *, namespace: str | None = None
    ) -> int:
        """Move items to a tier and return how many moved."""
        where = self._where("set_tier", namespace)
        return self._store.set_tier(
            checked_handles(handles), checked_tier("tier", tier), namespace=where
        )

    def link(self, handle: str, relation: str, other: str, *, namespace: str | None = None) -> bool:
        """Link an item to another: it "supersedes" or "contradicts" it, or any word of yours.

        The items themselves do not change. Returns whether the link is new; raises
        UnknownHandleError.
        """
        where = self._where("link", namespace)
        if not isinstance(relation, str) or not relation:
            raise InvalidArgumentError(f"relation is {relation!r}; pass a word like 'supersedes'")
        start, end = checked_handles([handle, other])
        return self._store.link(start, relation, end, namespace=where)

    def hot(self, *, namespace: str | None = None) -> HotMemory:
        """Return the text of every turn: the hot items, at most 100 lines of them."""
        from rehydrate.memory.folder import hot_memory

        where = self._where("hot", namespace)
        return hot_memory(self.list(namespace=where, tiers=["hot"], limit=None, newest_first=False))

    def sync_folder(
        self,
        folder: str | PathLike[str],
        *,
        namespace: str | None = None,
        label: str | None = None,
    ) -> SyncReport:
        """Add a folder of notes, or update it with what changed since the last sync.

        ``core.md`` becomes hot, ``archive/`` cold, all else warm. An item's source is
        ``<label>/<path in the folder>``; the label is the folder's name unless given.
        """
        from rehydrate.memory.folder import sync_folder

        where = self._where("sync_folder", namespace)
        return sync_folder(self, folder, where, label, self.as_stored)

    def export_items(self, path: str | PathLike[str], *, namespace: str | None = None) -> int:
        """Write a namespace to a file as JSON Lines, one item a line; return how many there
        were. Only the file's owner may read it."""
        from rehydrate.memory.transfer import lines_for

        where = self._where("export_items", namespace)
        items = self.list(namespace=where, limit=None, newest_first=False)
        write_lines(path, lines_for(items, where))
        return len(items)

    def import_items(self, path: str | PathLike[str], *, namespace: str | None = None) -> Imported:
        """Add what `export_items` wrote, with the same handles, provenance, times and links.

        Items already there stay as they are. Raises InvalidArgumentError for a line that is
        not an item; the lines before it may be added by then. It is safe to import the repaired
        file again.
        """
        from rehydrate.memory.transfer import add_items, items_in

        where = self._where("import_items", namespace)
        return add_items(self, items_in(lines_of(path), path), where)

    def copy_to(self, other: Memory, *, namespace: str | None = None) -> Imported:
        """Add a namespace's items to another memory, of a file or of a server.

        Handles, provenance, times, tiers and links are the same there; vectors are made by the
        other memory's embedder, and its redaction and limits apply. Items already there stay as
        they are, so that an interrupted copy can be made again.
        """
        from rehydrate.memory.transfer import add_items

        check_type("other", other, Memory, "pass the memory to copy to")
        where = self._where("copy_to", namespace)
        items = self.list(namespace=where, limit=None, newest_first=False)
        return add_items(other, items, where)

    def stats(self, *, namespace: str | None = None) -> MemoryStats:
        """Return figures of the namespace, and its failures since the memory was opened."""
        from dataclasses import replace

        where = self._where("stats", namespace)
        return replace(self._store.stats(namespace=where), degraded=self._degraded(where))

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces in alphabetical order; a bound memory sees only its own."""
        found = self._store.namespaces()
        return [name for name in found if self._namespace in {None, name}]

    def sources(self, *, namespace: str | None = None) -> Sequence[str]:
        """Return the sources of the items, in alphabetical order; an item without one has none."""
        where = self._where("sources", namespace)
        if (sources := getattr(self._store, "sources", None)) is not None:
            found: Sequence[str] = sources(namespace=where)
            return found
        items = self._store.list(namespace=where, limit=None)
        return sorted({item.source for item in items if item.source})

    def verify(self) -> VerifyReport:
        """Check everything that is stored, in all namespaces."""
        return self._store.verify()

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Rebuild the index of one namespace or of all; return how many items it holds.

        With an embedder of your own, items without a vector get one. Call `drop_vectors` first
        where the namespace holds vectors of another model.
        """
        where = self._namespace if namespace is None else self._where("rebuild", namespace)
        for name in self._store.namespaces() if where is None else [where]:
            self._embedding.add_vectors(self._store, name)
        return self._store.rebuild(namespace=where)

    def drop_vectors(self, *, namespace: str | None = None) -> int:
        """Remove the namespace's vectors, so that another embedder can add its own.

        The items stay, and the built-in model finds them; `rebuild` adds vectors of the embedder
        that this memory was opened with. Returns how many items had a vector.
        """
        where = self._where("drop_vectors", namespace)
        drop = getattr(self._store, "drop_vectors", None)
        if drop is None:
            raise InvalidArgumentError(
                f"{type(self._store).__name__} has no drop_vectors; export_items, "
                "purge and import_items do the same"
            )
        dropped: int = drop(namespace=where)
        return dropped

    def close(self) -> None:
        """Wait for running writes, then close the file.

        In a signal handler, during a call of the same thread, it returns at once; that call closes
        the memory when it ends.
        """
        if self._owns_store:
            self._store.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: one store has one owner."""
        refuse_copy("a Memory", "pass its path and open it there; within() binds a namespace")

    def __repr__(self) -> str:
        """Show the path and the namespace."""
        where = getattr(self._store, "path", type(self._store).__name__)
        return f"Memory({where!r}, namespace={self._namespace!r})"

    def _where(self, operation: str, namespace: str | None) -> str:
        """Return the namespace of a call. The one who opened the store may name any."""
        return resolve_namespace(
            operation, namespace, self._namespace, is_confined=not self._owns_store
        )

    def _redacted(self, filters: Filters) -> Filters:
        """Redact sources and threads in filters, since they are stored redacted."""
        if sources := filters.get("sources"):
            filters["sources"] = [self._redacted_name(source) for source in sources]
        if threads := filters.get("threads"):
            filters["threads"] = [self._redacted_name(thread) for thread in threads]
        return filters

    def _redacted_name(self, name: str | None) -> Any:
        return name if name is None or self._redactor is None else self._redactor(name).text

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
    acopy_to = stored(copy_to)
    astats = stored(stats)
    anamespaces = stored(namespaces)
    asources = stored(sources)
    averify = stored(verify)
    arebuild = stored(rebuild)
    adrop_vectors = stored(drop_vectors)
