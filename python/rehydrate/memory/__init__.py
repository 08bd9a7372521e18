"""Memory: items that outlive a conversation, in one file, found by words and by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.memory.folder import SyncReport as SyncReport
    from rehydrate.memory.items import (
        Added as Added,
        Filters as Filters,
        Fusion as Fusion,
        Hit as Hit,
        Link as Link,
        MemoryItem as MemoryItem,
        MemoryLimits as MemoryLimits,
        MemoryStats as MemoryStats,
        Recalled as Recalled,
        Redaction as Redaction,
        Tier as Tier,
        Vectors as Vectors,
        VerifyReport as VerifyReport,
    )
    from rehydrate.memory.memory import Memory as Memory
    from rehydrate.memory.redaction import (
        Redactor as Redactor,
        secrets_in as secrets_in,
    )
    from rehydrate.memory.store import MemoryStore as MemoryStore
    from rehydrate.memory.tools import LoadMemory as LoadMemory
    from rehydrate.memory.transfer import Imported as Imported

__all__, __dir__, __getattr__ = front(__name__)
