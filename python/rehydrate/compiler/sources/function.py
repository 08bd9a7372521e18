"""function: anything that the caller can write, as a source."""

from __future__ import annotations

from typing import Unpack

from rehydrate.compiler.sources.source import HydrationSource, Run, SourceSettings


def function(
    name: str, run: Run, *, blocking: bool = True, **settings: Unpack[SourceSettings]
) -> HydrationSource:
    """A function of a `SourceRequest`, sync or async: what it returns goes into the prompt.

    It may return a text, a `Section`, a `Hit`, a `MemoryItem`, messages, a list of one of these, a
    `Found`, or None. What it does not say itself the source says: `priority`, and trust 0.8 (data,
    not instructions). It runs in a thread, or with ``blocking=False`` in the caller's, where no
    deadline can stop it: for what takes microseconds.

    >>> async def weather(request):
    ...     return f"Rain where {request.identity} is."
    >>> function("weather", weather, deadline_ms=1_000).budget_tokens
    """
    return HydrationSource(name, run, blocking=blocking, **settings)
