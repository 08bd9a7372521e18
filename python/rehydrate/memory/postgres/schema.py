"""The tables, made by numbered steps; running them twice, or in many processes at once, is safe.

All steps that are missing run in one transaction under an advisory lock. A database with a step
that this version does not know was made by a later version, and is left alone.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import Connection

from rehydrate.errors import NewerStoreError, StoreError
from rehydrate.memory.postgres.connections import as_setting

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('rehydrate.memory', 0))"
INDEXED_CHARS = 8_192
"""Characters of a text that trigrams are made of."""
DIMENSIONS = (256, 384, 1_024)
"""Dimensions of vectors that have an index; vectors of others are compared one by one."""

_TABLES = f"""
CREATE TABLE memory_namespaces (
    namespace text PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY,
    language text NOT NULL,
    sequence bigint NOT NULL DEFAULT 0,
    pruned bigint NOT NULL DEFAULT 0,
    items bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    demoted bigint NOT NULL DEFAULT 0,
    dropped bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    aged bigint NOT NULL DEFAULT 0,
    space text,
    dim integer
);
COMMENT ON COLUMN memory_namespaces.sequence IS 'the last sequence number that a change took';
CREATE TABLE memory_chunks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text NOT NULL REFERENCES memory_namespaces ON DELETE CASCADE,
    handle text NOT NULL,
    sequence bigint NOT NULL,
    tier smallint NOT NULL,
    kind text NOT NULL,
    source text NOT NULL,
    thread text NOT NULL,
    tool text NOT NULL,
    principal text NOT NULL,
    trust float8 NOT NULL,
    confidence float8 NOT NULL,
    parents json NOT NULL,
    time bigint NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    metadata json,
    redactions json,
    bytes bigint NOT NULL,
    text text NOT NULL,
    words tsvector NOT NULL,
    vector bytea,
    UNIQUE (namespace, handle),
    UNIQUE (id, namespace)
);
COMMENT ON COLUMN memory_chunks.time IS 'milliseconds since 1970, as are created and expires';
CREATE INDEX memory_chunks_order ON memory_chunks (namespace, id);
CREATE INDEX memory_chunks_sequence ON memory_chunks (namespace, sequence);
CREATE INDEX memory_chunks_source
    ON memory_chunks (namespace, hashtextextended(source, 0), id);
CREATE INDEX memory_chunks_thread
    ON memory_chunks (namespace, hashtextextended(thread, 0), id);
CREATE INDEX memory_chunks_kind
    ON memory_chunks (namespace, hashtextextended(kind, 0), id);
CREATE INDEX memory_chunks_time ON memory_chunks (namespace, time);
CREATE INDEX memory_chunks_tier ON memory_chunks (namespace, tier, id);
CREATE INDEX memory_chunks_expires ON memory_chunks (namespace, expires)
    WHERE expires IS NOT NULL;
CREATE INDEX memory_chunks_words ON memory_chunks USING gin (namespace, words);
CREATE INDEX memory_chunks_trigrams
    ON memory_chunks USING gin (namespace, left(text, {INDEXED_CHARS}) gin_trgm_ops);
CREATE TABLE memory_uses (
    id bigint PRIMARY KEY,
    namespace text NOT NULL,
    uses bigint NOT NULL,
    used bigint NOT NULL,
    FOREIGN KEY (id, namespace) REFERENCES memory_chunks (id, namespace) ON DELETE CASCADE
) WITH (fillfactor = 70);
COMMENT ON TABLE memory_uses IS
    'how often searches returned an item: a count in its own row would write all of its indexes';
CREATE TABLE memory_links (
    namespace text NOT NULL REFERENCES memory_namespaces ON DELETE CASCADE,
    origin bigint NOT NULL,
    relation text NOT NULL,
    target bigint NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (origin, target, relation),
    FOREIGN KEY (origin, namespace) REFERENCES memory_chunks (id, namespace) ON DELETE CASCADE,
    FOREIGN KEY (target, namespace) REFERENCES memory_chunks (id, namespace) ON DELETE CASCADE
);
CREATE INDEX memory_links_target ON memory_links (target);
CREATE INDEX memory_links_namespace ON memory_links (namespace);
CREATE TABLE memory_deletions (
    namespace text NOT NULL REFERENCES memory_namespaces ON DELETE CASCADE,
    sequence bigint NOT NULL,
    id bigint NOT NULL,
    PRIMARY KEY (namespace, sequence)
);
CREATE TABLE memory_writes (
    key uuid PRIMARY KEY,
    namespace text NOT NULL,
    result json,
    moment timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX memory_writes_moment ON memory_writes (moment);
COMMENT ON TABLE memory_writes IS
    'what a write returned: a client that lost its connection asks here instead of writing twice';
CREATE TABLE memory_threads (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text NOT NULL,
    name text NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    records bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, name),
    UNIQUE (id, namespace)
);
CREATE TABLE memory_thread_records (
    namespace text NOT NULL,
    thread bigint NOT NULL,
    number bigint NOT NULL,
    kind smallint NOT NULL,
    time float8 NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (thread, number),
    FOREIGN KEY (thread, namespace) REFERENCES memory_threads (id, namespace) ON DELETE CASCADE
);
"""
# The parts of a row are of the row's own namespace: a key alone would let a tenant whom the
# policies hold write under the thread or the item of another.

_SECURED = "".join(
    f"""
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY {table}_of_namespace ON {table}
    USING (namespace = current_setting('rehydrate.namespace', true))
    WITH CHECK (namespace = current_setting('rehydrate.namespace', true));
"""
    for table in (
        *("memory_namespaces", "memory_chunks", "memory_uses", "memory_links", "memory_deletions"),
        *("memory_writes", "memory_threads", "memory_thread_records"),
    )
)
"""It shows a role that owns no table the rows of one namespace."""

HASH = (
    "sha256(int8send(thread) || int8send(number) || int2send(kind) || float8send(time) || "
    "convert_to({body}, 'UTF8'))"
)
"""The hash of a record with a body, by which damage shows."""

_HASHES = f"""
ALTER TABLE memory_thread_records ADD COLUMN hash bytea;
UPDATE memory_thread_records SET hash = {HASH.format(body="body")};
"""

STEPS = {"001 tables": _TABLES + _SECURED, "002 hashes of records": _HASHES}

_VECTORS = "ALTER TABLE memory_chunks ADD COLUMN embedding halfvec;\n" + "\n".join(
    f"CREATE INDEX memory_chunks_near_{dim} ON memory_chunks "
    f"USING hnsw ((embedding::halfvec({dim})) halfvec_cosine_ops) "
    f"WHERE vector_dims(embedding) = {dim};"
    for dim in DIMENSIONS
)

VECTOR_STEPS = {"v01 vectors": _VECTORS}

_IS_NEW = "string_to_array(substring({} from '^[0-9.]*[0-9]'), '.')::int[] >= ARRAY[0, 8]"
"""Whether a version of pgvector has what the statements here need; an older one is left alone."""
_EXTENSIONS = {"pg_trgm": "the trigrams", "btree_gin": "indexes by namespace"}


def migrate(connection: Connection[Any], server: str, lock_seconds: float) -> bool:
    """Make what is missing; return whether the server has vectors.

    A step may take long, but another session's lock is waited for no longer than ``lock_seconds``.
    """
    done, has_vectors = _state(connection)
    if _is_whole(done, has_vectors, server):
        return "v01 vectors" in done
    with connection.transaction():
        connection.execute(
            "SELECT set_config('lock_timeout', %s, true)", [as_setting(lock_seconds)]
        )
        connection.execute(_LOCK)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS memory_migrations "
            "(name text PRIMARY KEY, moment timestamptz NOT NULL DEFAULT now())"
        )
        for extension, purpose in _EXTENSIONS.items():
            _create_extension(connection, server, extension, purpose)
        _try_vectors(connection)
        done, has_vectors = _state(connection)
        steps = {**STEPS, **(VECTOR_STEPS if has_vectors else {})}
        for name, step in steps.items():
            if name not in done:
                connection.execute(step)
                connection.execute("INSERT INTO memory_migrations (name) VALUES (%s)", [name])
    return has_vectors


def verify_schema(connection: Connection[Any], server: str) -> bool:
    """Check that the tables are there, for who may not make them."""
    done, _ = _state(connection)
    if not _is_whole(done, False, server):
        raise StoreError(
            server, "it has no memory tables, or old ones", "open it once with read_only=False"
        )
    return "v01 vectors" in done


def _is_whole(done: set[str], has_vectors: bool, server: str) -> bool:
    if later := sorted(done - {*STEPS, *VECTOR_STEPS}):
        raise NewerStoreError(
            server, f"a later version made step {later[0]!r}", "install that version of rehydrate"
        )
    return done >= STEPS.keys() and (not has_vectors or done >= VECTOR_STEPS.keys())


def _state(connection: Connection[Any]) -> tuple[set[str], bool]:
    row = connection.execute(
        "SELECT to_regclass('memory_migrations') IS NOT NULL, EXISTS "
        f"(SELECT FROM pg_extension WHERE extname = 'vector' AND {_IS_NEW.format('extversion')})"
    ).fetchone()
    assert row is not None
    if not row[0]:
        return set(), row[1]
    found = connection.execute("SELECT name FROM memory_migrations").fetchall()
    return {name for (name,) in found}, row[1]


def _create_extension(
    connection: Connection[Any], server: str, extension: str, purpose: str
) -> None:
    try:
        with connection.transaction():
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
    except psycopg.Error as error:
        raise StoreError(
            server,
            f"extension {extension} ({purpose}) cannot be created: {str(error).strip()}",
            f"install postgresql-contrib, and as a superuser run: CREATE EXTENSION {extension}",
        ) from error


def _try_vectors(connection: Connection[Any]) -> None:
    """Create pgvector where the server has it and the role may."""
    available = connection.execute(
        "SELECT count(*) FROM pg_available_extension_versions "
        f"WHERE name = 'vector' AND {_IS_NEW.format('version')}"
    ).fetchone()
    if available is None or not available[0]:
        return
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.Error:
        return  # the store says that this leg is left out, and how to get it
