"""Memory: what outlives a conversation, in one file, found by words and by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.memory.folder import (
        SyncReport as SyncReport,
    )
    from rehydrate.memory.items import (
        Added as Added,
    )
    from rehydrate.memory.items import (
        Filters as Filters,
    )
    from rehydrate.memory.items import (
        Fusion as Fusion,
    )
    from rehydrate.memory.items import (
        Hit as Hit,
    )
    from rehydrate.memory.items import (
        Link as Link,
    )
    from rehydrate.memory.items import (
        MemoryItem as MemoryItem,
    )
    from rehydrate.memory.items import (
        MemoryLimits as MemoryLimits,
    )
    from rehydrate.memory.items import (
        MemoryStats as MemoryStats,
    )
    from rehydrate.memory.items import (
        Recalled as Recalled,
    )
    from rehydrate.memory.items import (
        Redaction as Redaction,
    )
    from rehydrate.memory.items import (
        Tier as Tier,
    )
    from rehydrate.memory.items import (
        Vectors as Vectors,
    )
    from rehydrate.memory.items import (
        VerifyReport as VerifyReport,
    )
    from rehydrate.memory.memory import (
        Memory as Memory,
    )
    from rehydrate.memory.redaction import (
        Redactor as Redactor,
    )
    from rehydrate.memory.redaction import (
        secrets_in as secrets_in,
    )
    from rehydrate.memory.store import (
        MemoryStore as MemoryStore,
    )
    from rehydrate.memory.tools import (
        LoadMemory as LoadMemory,
    )
    from rehydrate.memory.transfer import (
        Imported as Imported,
    )

__all__, __dir__, __getattr__ = front(
    __name__,
    {
        "folder": "SyncReport",
        "items": (
            "Added Filters Fusion Hit MemoryLimits Link MemoryItem MemoryStats Recalled Redaction "
            "Tier Vectors VerifyReport "
        ),
        "memory": "Memory",
        "redaction": "Redactor secrets_in",
        "store": "MemoryStore",
        "tools": "LoadMemory",
        "transfer": "Imported",
    },
    internal={
        "folder": "CHARS_A_TOKEN CHUNK_TOKENS Chunk MAX_FILE_BYTES chunks split_front_matter",
        "items": "FUSIONS TIERS",
        "local": "LocalStore",
        "secrets": "SECRETS",
        "transfer": "from_line to_line",
    },
)
